"""Ledgers that are mounted, locked by another path, or may only be read."""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest
from ledger_tools import fit_plan, needs_fork

from skdpspectral import LedgerError, PrivacyAccountant
from skdpspectral.accounting._ledger import locks as _locks
from skdpspectral.accounting._ledger import sqlite_file
from skdpspectral.accounting._ledger.command import run_command as main

linux = pytest.mark.skipif(sys.platform != "linux", reason="mounts and locks of Linux")
NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger with an entry."""
    file = tmp_path / "a ledger.db"
    PrivacyAccountant(3.0, 1e-6, path=file).charge(fit_plan())
    return file


IN_ANOTHER_PLACE = """
import sys
from skdpspectral import PrivacyAccountant
from skdpspectral.accounting._ledger.command import run_command as main
code = main(["check", sys.argv[1]])
try:
    PrivacyAccountant(path=sys.argv[1])
except RuntimeError as error:
    print(code, error)
"""


@pytest.mark.slow
@linux
def test_a_ledger_that_is_mounted_is_refused(path, tmp_path):
    """A mounted folder is as any other."""
    mounted = tmp_path / "other place"
    mounted.mkdir()
    (mounted / "ledger.db").touch()
    command = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$2"'
    arguments = (str(path), str(mounted / "ledger.db"), sys.executable)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, "", *arguments, IN_ANOTHER_PLACE],
        capture_output=True,
        text=True,
    )
    if "mount" in done.stderr and not done.stdout:
        pytest.skip("no mounts can be made here")
    assert done.stdout.startswith("2 the ledger")
    assert "is a mount point" in done.stdout
    assert "docker run -v /host/folder:/folder" in done.stdout
    assert len(list(mounted.iterdir())) == 1
    (mounted / "ledger.db").unlink()
    command = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$2/$5"'
    arguments = (str(path.parent), str(mounted), sys.executable)
    done = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            command,
            "",
            *arguments,
            IN_ANOTHER_PLACE,
            path.name,
        ],
        capture_output=True,
        text=True,
    )
    assert "1 entries, no fault found" in done.stdout


@linux
def test_mount_points_are_read_from_the_kernel(path, tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(sqlite_file, "_MOUNTS", str(table))
    line = "36 35 98:0 /x {} rw - ext4 /dev/sda rw\n"
    table.write_text(line.format("/") + line.format(tmp_path))
    PrivacyAccountant(path=path).charge(fit_plan(0.1))
    name = str(path).replace(" ", r"\040")
    table.write_text(line.format("/") + line.format(name))
    (tmp_path / "link.db").symlink_to(path)
    for found in (path, tmp_path / "link.db"):
        with pytest.raises(LedgerError, match="is a mount point"):
            PrivacyAccountant(path=found)
    table.unlink()  # where there is none, a file lies on the device of its folder
    PrivacyAccountant(path=path).charge(fit_plan(0.1))
    folder, stat = os.path.realpath(tmp_path), sqlite_file.stat_of

    def elsewhere(path):
        found = stat(path)
        values = [*found]
        values[2] += str(path) == folder
        return os.stat_result(values)

    monkeypatch.setattr(sqlite_file, "stat_of", elsewhere)
    with pytest.raises(LedgerError, match="is a mount point"):
        PrivacyAccountant(path=path)


@linux
def test_the_ledger_itself_is_locked(path, tmp_path, monkeypatch):
    """So that who comes by another path, with another lock beside it, waits."""
    accountant = PrivacyAccountant(path=path)
    with open(path, "rb") as other:
        with accountant._ledger().transaction() as transaction:
            accountant._append(transaction, fit_plan(0.1), accountant._own_part())
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.setattr(_locks, "PATIENCE", 0.05)
        with pytest.raises(LedgerError, match="in use by another process"):
            accountant.charge(fit_plan(0.1))
    accountant.charge(fit_plan(0.1))
    assert len(accountant.ledger) == 3


def as_nobody(function, *arguments):
    """Return what a child prints that has no rights."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            text = function(*arguments)
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def read_and_spend(path):
    accountant = PrivacyAccountant(path=path)
    said = [f"{accountant.spent().epsilon:.6f}", str(len(accountant.ledger))]
    said.append(str(main(["check", str(path)])))
    try:
        accountant.charge(fit_plan(0.1))
    except LedgerError as error:
        said.append(str(error))
    return "|".join(said)


@needs_fork
@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("state", ["closed", "killed"])
def test_who_may_read_the_file_reads_totals(path, tmp_path, state):
    """Beside the file nothing is made, which its writers could not use."""
    folder = path.parent
    for parent in (folder, *folder.parents[:-2]):
        parent.chmod(0o755)
    accountant = PrivacyAccountant(path=path)
    if state == "killed":  # a log is left, and no index of it
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("SELECT * FROM meta").fetchall()
            accountant.charge(fit_plan(0.2))
            for suffix in ("", "-wal"):
                shutil.copyfile(f"{path}{suffix}", tmp_path / f"copy{suffix}")
        path = tmp_path / "copy"
    for name in folder.iterdir():
        name.chmod(0o644)
    (folder / "a ledger.db-lock").chmod(0o600)
    files = sorted(os.listdir(folder))
    epsilon, entries, code, refusal = as_nobody(read_and_spend, path).split("|")
    assert float(epsilon) == pytest.approx(accountant.spent().epsilon, abs=1e-5)
    assert (int(entries), int(code)) == (len(accountant.ledger), 0)
    assert "may only read it; nothing was charged" in refusal
    assert sorted(os.listdir(folder)) == files
    accountant.charge(fit_plan(0.1))
    path.chmod(0o600)
    assert "can't be read" in as_nobody(read_and_spend, path)
