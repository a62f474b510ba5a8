"""Ledgers that were edited or damaged: entries, sums and terms."""

import contextlib
import pickle
import re
import sqlite3

import pytest
from ledger_tools import fit_plan, forget, needs_fork

from skdpspectral import LedgerError, PrivacyAccountant
from skdpspectral.accounting._ledger import store
from skdpspectral.accounting._ledger.accountant import advance_stream, open_stream
from skdpspectral.statements._command import main

ROWS = {"unit": "row", "neighbors": "replace-one"}


def fill(accountant):
    """Charge five entries of all sorts; return their accountant."""
    accountant.charge(fit_plan(0.5))
    north = accountant.named("north")
    north.charge(fit_plan(0.5))
    accountant.named("south").charge(fit_plan(0.4))
    accountant.charge_external(0.25, 1e-8, "counts", **ROWS)
    north.charge(fit_plan(0.3))
    return accountant


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger of five entries."""
    file = tmp_path / "ledger.db"
    fill(PrivacyAccountant(6.0, 1e-6, path=file))
    return file


def edit(path, statements, handle):
    """Change a ledger behind its back; this process knows nothing of it then."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements.split("; "):
            connection.execute(statement)
        connection.commit()
    forget(handle)


# What is done, what `check` says, and whether a charge finds it too.
EDITS = {
    "middle deleted": ("DELETE FROM entries WHERE id = 3", "entries 3 to 3", False),
    "middle moved up": (
        "DELETE FROM entries WHERE id = 3; UPDATE entries SET id = 3 WHERE id = 4; "
        "UPDATE entries SET id = 4 WHERE id = 5",
        "entry 3 is not as it was",
        True,
    ),
    "tail deleted": ("DELETE FROM entries WHERE id = 5", "sums do not match", True),
    "all deleted": ("DELETE FROM entries", "sums do not match", True),
    "label": ("UPDATE entries SET label = 'x'", "entry 1 is not as", True),
    "epsilon": (
        "UPDATE entries SET epsilon = .1 WHERE id = 1",
        "entry 1 is not as",
        False,
    ),
    "cost": ("UPDATE entries SET ledger_mu = .01 WHERE id = 2", "sums do not", False),
    "unit": (
        "UPDATE entries SET unit = 'user' WHERE id = 1",
        "entry 1 is not as",
        False,
    ),
    "seed": ("UPDATE entries SET seeded = 1", "not as it was", False),
    "share": ("UPDATE entries SET share = '' WHERE id = 5", "sums do not", True),
    "curves": (
        "UPDATE entries SET curves = '[]' WHERE id = 4",
        "sums do not match",
        False,
    ),
    "nested plan": (f"UPDATE entries SET plan = '{'[' * 10**5}'", "be read", True),
    "time": ("UPDATE entries SET time = 1e300", "can't be read", True),
    "budget": (
        "UPDATE facts SET value = replace(value, '6.0', '60.0') WHERE name = 'terms'",
        "'terms' is not as it was left",
        True,
    ),
    "sums": (
        "UPDATE facts SET value = replace(value, '5', '4') WHERE name = 'sums'",
        "'sums' is not as it was left",
        True,
    ),
    "lost sums": ("DELETE FROM facts WHERE name = 'sums'", "lost its terms", True),
}


@pytest.mark.parametrize("name", EDITS)
def test_check_finds_edits_and_a_charge_does_where_it_counts(path, name, capsys):
    statements, message, charge_finds = EDITS[name]
    assert main(["check", str(path)]) == 0
    handle = PrivacyAccountant(path=path)
    edit(path, statements, handle)
    capsys.readouterr()
    code = main(["check", str(path)])
    assert code == (2 if name in ("budget", "sums", "lost sums") else 1)
    said = capsys.readouterr()
    assert message in said.out + said.err
    assert all(line.isprintable() for line in (said.out + said.err).splitlines())
    assert main(["show", str(path)]) != 0
    if charge_finds:
        for spend in (handle.charge, handle.check):
            with pytest.raises(LedgerError):
                spend(fit_plan(0.01))
        with pytest.raises(LedgerError):
            handle.spent()


def test_check_finds_streams_that_were_put_back(path, capsys):
    """A stream at an earlier position would draw its noise twice."""
    accountant = PrivacyAccountant(path=path)
    name = open_stream(accountant)
    advance_stream(accountant, name, 0, 5)
    accountant.charge(fit_plan(0.1))
    assert main(["check", str(path)]) == 0
    edit(path, "UPDATE facts SET value = '0' WHERE name LIKE 'stream%'", accountant)
    assert main(["check", str(path)]) == 1
    assert "'stream' is not as it was left" in capsys.readouterr().out
    with pytest.raises(LedgerError, match="damaged"):
        advance_stream(accountant, name, 0, 5)


def test_sums_are_those_of_all_entries_whatever_process_entered_them(path):
    accountant = PrivacyAccountant(path=path)
    for _ in range(3):
        fill(accountant)
    total = sum(entry.ledger_mu**2 for entry in accountant.ledger)
    found = accountant._standing().total
    assert found.mu == pytest.approx(total**0.5, rel=1e-14)
    ((pair, times),) = found.curves
    assert (pair.epsilon, times) == (0.25, 4)
    assert main(["check", str(path)]) == 0
    # After the first five, it stands as it stood then.
    then = accountant._standing(5)
    assert (len(then.entries), then.total.curves[0][1]) == (5, 1)
    assert then.digest == accountant.ledger[4].digest
    moments = accountant._over_time()
    assert moments[5][1] == then.spent()
    assert moments[-1][1] == accountant.spent()


def test_a_charge_reads_no_more_under_many_entries(path, monkeypatch):
    """By the steps of SQLite's machine, which no clock disturbs."""
    steps, opened = [], store.Transaction.__init__

    def counting(self, path, database, *arguments):
        steps.append(0)
        database.set_progress_handler(count, 1)
        opened(self, path, database, *arguments)

    def count():
        steps[-1] += 1

    accountant = PrivacyAccountant(path=path)
    handles = [accountant, accountant.named("north")]

    def steps_of_charges():
        found = []
        with monkeypatch.context() as patch:
            patch.setattr(store.Transaction, "__init__", counting)
            for handle in handles:
                handle.charge(fit_plan(0.01))
                found.append(steps[-1])
        return found

    before = steps_of_charges()
    for _ in range(200):
        for handle in handles:
            handle.charge(fit_plan(1e-3))
    after = steps_of_charges()
    assert all(b <= 1.2 * a for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("version", [0, 7, 8, 10])
def test_other_versions_are_refused_untouched(path, version):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    content = path.read_bytes()
    remedy = "update skdpspectral" if version > 9 else "print it with that release"
    said = f"has version {version}, .* only reads version 9; .* as is, .*: {remedy}"
    handle = pickle.loads(pickle.dumps(PrivacyAccountant()))
    handle._path = str(path)
    for use in (handle.spent, lambda: PrivacyAccountant(path=path)):
        with pytest.raises(LedgerError, match=said):
            use()
    assert main(["check", str(path)]) == 2
    assert path.read_bytes() == content


# -- on a server -----------------------------------------------------------------------


@needs_fork
def test_edits_on_a_server_are_found(server, capsys):
    address = server.new_database()
    accountant = fill(PrivacyAccountant(6.0, 1e-6, path=address))
    assert main(["check", address]) == 0
    tail = "SET search_path = skdpspectral; DELETE FROM entries WHERE id = 5"
    server.execute(tail, address.rpartition("/")[2])
    forget(accountant)
    capsys.readouterr()
    assert main(["check", address]) == 1
    assert "sums do not match" in capsys.readouterr().out
    with pytest.raises(LedgerError):
        accountant.charge(fit_plan(0.1))


@needs_fork
def test_whoever_may_read_the_tables_reads_totals_and_charges_nothing(server):
    address = server.new_database()
    name = address.rpartition("/")[2]
    server.execute(f"CREATE ROLE reader_{name} LOGIN")
    owner = fill(PrivacyAccountant(6.0, 1e-6, path=address))
    for statement in (
        f"GRANT CONNECT ON DATABASE {name} TO reader_{name}",
        f"GRANT USAGE ON SCHEMA skdpspectral TO reader_{name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA skdpspectral TO reader_{name}",
    ):
        server.execute(statement, name)
    reader = PrivacyAccountant(path=re.sub("ledger@", f"reader_{name}@", address))
    assert (reader.spent(), reader.ledger) == (owner.spent(), owner.ledger)
    with pytest.raises(LedgerError, match="only read it"):
        reader.charge(fit_plan(0.1))
    assert len(owner.ledger) == 5
