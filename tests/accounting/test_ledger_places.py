"""Ledgers that are a mount point, or may only be read."""

import os

import pytest
from forked_python import in_child
from ledger_tools import fit_plan, needs_fork

from skdpspectral import LedgerError, PrivacyAccountant
from skdpspectral.statements._command import main

NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger with an entry."""
    file = tmp_path / "a ledger.db"
    PrivacyAccountant(3.0, 1e-6, path=file).charge(fit_plan())
    return file


def test_a_file_of_another_device_than_its_folder_is_refused(path, monkeypatch):
    """A single file that is mounted has its lock and journal in another folder."""
    stat, folder = os.stat, os.path.realpath(path.parent)

    def elsewhere(name, **options):
        found = stat(name, **options)
        if os.fspath(name) != folder:
            return found
        return os.stat_result([*found[:2], found[2] + 1, *found[3:]])

    accountant = PrivacyAccountant(path=path)
    monkeypatch.setattr(os, "stat", elsewhere)
    with pytest.raises(LedgerError, match="is a mount point"):
        accountant.charge(fit_plan(0.1))
    monkeypatch.undo()
    assert len(accountant.ledger) == 1


def as_nobody(function, *arguments):
    """Return what a child prints that has no rights."""

    def without_rights():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return function(*arguments)

    return in_child(without_rights)


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
def test_who_may_read_the_file_reads_totals(path):
    """Beside the file nothing is made, which its writers could not use."""
    folder = path.parent
    for parent in (folder, *folder.parents[:-2]):
        parent.chmod(0o755)
    accountant = PrivacyAccountant(path=path)
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
