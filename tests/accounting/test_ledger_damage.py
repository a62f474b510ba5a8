"""Ledgers that were edited or damaged: the chain of entries, terms, tables."""

import contextlib
import json
import os
import sqlite3

import pytest
from ledger_tools import fit_plan, needs_fork

from skdpspectral import LedgerError, PrivacyAccountant
from skdpspectral.accounting._ledger.accountant import advance_stream, open_stream
from skdpspectral.accounting._ledger.command import run_command as main
from skdpspectral.accounting._ledger.entry_chain import forget
from skdpspectral.accounting._ledger.sqlite_file import SqliteConnection

ROWS = {"unit": "row", "neighbors": "replace-one"}


def fill(accountant):
    """Charge five entries of all sorts; return their accountant."""
    accountant.charge(fit_plan(0.5))
    north = accountant.named("north", disjoint_within="regions")
    north.charge(fit_plan(0.5))
    accountant.named("south", disjoint_within="regions").charge(fit_plan(0.4))
    accountant.charge_external(0.25, 1e-8, "counts", **ROWS)
    north.charge(fit_plan(0.3))
    return accountant


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger of five entries."""
    file = tmp_path / "ledger.db"
    fill(PrivacyAccountant(6.0, 1e-6, path=file))
    return file


def edit(path, *statements):
    """Change a ledger behind its back; this process knows nothing of it then."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        query = "SELECT value FROM meta WHERE key = 'ledger_id'"
        (name,) = connection.execute(query).fetchone()
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    forget(name)


# What is done, what `check` says, and whether a charge finds it too.
EDITS = {
    "middle deleted": (["DELETE FROM entries WHERE id = 3"], "entries 3 to 3", False),
    "middle moved up": (
        [
            "DELETE FROM entries WHERE id = 3",
            "UPDATE entries SET id = 3 WHERE id = 4",
            "UPDATE entries SET id = 4 WHERE id = 5",
            "UPDATE curves SET entry = 3",
        ],
        "entry 3 is not as it was",
        True,
    ),
    "tail deleted": (["DELETE FROM entries WHERE id = 5"], "5 entries and terms", True),
    "all deleted": (
        ["DELETE FROM entries", "DELETE FROM curves", "DELETE FROM counts"],
        "the 0 entries",
        True,
    ),
    "one partition": (
        ["UPDATE entries SET partition = 'x', asserted = 1"],
        "entry 1 is not as it was",
        True,
    ),
    "a view": (
        [
            "ALTER TABLE entries RENAME TO kept",
            "CREATE VIEW entries AS SELECT * FROM kept WHERE id = 1",
        ],
        "view 'entries'",
        True,
    ),
    "a trigger": (
        ["CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END"],
        "trigger 't' of 'entries'",
        True,
    ),
    "no budget": (
        ["UPDATE meta SET value = NULL WHERE key IN ('epsilon', 'delta')"],
        "terms were sealed",
        True,
    ),
    "half a budget": (
        ["UPDATE meta SET value = NULL WHERE key = 'delta'"],
        "terms or costs can't be read",
        True,
    ),
    "a larger budget": (
        ["UPDATE meta SET value = 60.0 WHERE key = 'epsilon'"],
        "terms were sealed",
        True,
    ),
    "other totals": (
        ["UPDATE entries SET totals = replace(totals, 'false', 'true') WHERE id = 5"],
        "its totals do not match",
        True,
    ),
    "nothing of the budget": (
        ["UPDATE entries SET totals = json_remove(totals, '$[4]') WHERE id = 5"],
        "entry 5: it counts for less than its plan costs",
        True,
    ),
    "other counts": (["UPDATE counts SET times = 0"], "counts of mechanisms", True),
    "no counts": (["DROP TABLE counts"], "'counts' is missing", True),
    "an index": (["DROP INDEX asserted_blocks"], "'asserted_blocks' is missing", True),
    "another table": (["CREATE TABLE more (x)"], "table 'more'", True),
    "no seal": (["DELETE FROM meta WHERE key = 'head'"], "unknown number", True),
    "a wild seal": (["UPDATE meta SET value = x'00' WHERE key = 'head'"], "", True),
    "the year 1e292": (["UPDATE entries SET time = 1e300"], "can't be read", True),
    "no time": (["UPDATE entries SET time = 'noon'"], "can't be read", True),
    "a word": (["UPDATE entries SET ledger_mu = 'few'"], "can't be read", True),
    "bytes": (["UPDATE entries SET unit = x'00ff'"], "can't be read", True),
    "infinity": (["UPDATE entries SET failure = 9e999"], "not as it was", True),
    "nested plans": (
        [f"UPDATE entries SET plan = '{'[' * 10**5}'"],
        "can't be read",
        True,
    ),
    "a plan of another kind": (["UPDATE entries SET plan = '[]'"], "be read", True),
    "surrogates": (
        ["UPDATE entries SET label = CAST(x'eda080' AS TEXT)"],
        "not as it was",
        True,
    ),
    "surrogates in a plan": (
        ["""UPDATE entries SET plan = replace(plan, 'DPPCA', '\\ud800')"""],
        "not as it was",
        True,
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_check_finds_edits_and_a_charge_does_where_it_counts(path, name, capsys):
    statements, message, charge_finds = EDITS[name]
    assert main(["check", str(path)]) == 0
    edit(path, *statements)
    capsys.readouterr()
    assert main(["check", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(message in line for line in lines)
    assert all(line.isprintable() for line in lines)
    for command in ("show", "export"):
        assert main([command, str(path)]) == (2 if charge_finds else 0)
    if charge_finds:
        handle = fresh_handle(path)
        for spend in (handle.charge, handle.check):
            with pytest.raises(LedgerError):
                spend(fit_plan(0.01))
        with pytest.raises(LedgerError):
            handle.spent()


def fresh_handle(path):
    """Return an accountant whose own terms are known already."""
    accountant = PrivacyAccountant()
    accountant._path = str(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        query = "SELECT value FROM meta WHERE key = 'ledger_id'"
        (accountant._id,) = connection.execute(query).fetchone()
    return accountant


def test_what_is_in_the_middle_changes_no_total(path):
    """Totals are those of the last entry, which has them of all before it."""
    spent = PrivacyAccountant(path=path).spent()
    edit(path, "DELETE FROM entries WHERE id = 2", "DELETE FROM entries WHERE id = 3")
    assert PrivacyAccountant(path=path).spent() == spent


def test_a_block_that_was_edited_takes_no_further_entry(path):
    edit(path, "UPDATE entries SET totals = '[]' WHERE id = 3")
    accountant = PrivacyAccountant(path=path)
    accountant.charge(fit_plan(0.1))
    with pytest.raises(LedgerError, match="entry 3 is not as it was"):
        accountant.named("south", disjoint_within="regions").charge(fit_plan(0.1))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE streams SET position = 0",
        "DELETE FROM streams",
        "INSERT INTO streams VALUES ('more', 0)",
    ],
)
def test_check_finds_streams_that_were_put_back(path, statement, capsys):
    """A stream at an earlier position would draw its noise twice."""
    accountant = PrivacyAccountant(path=path)
    names = [open_stream(accountant) for _ in range(2)]
    advance_stream(accountant, names[0], 0, 5)
    advance_stream(accountant, names[0], 5, 2)
    accountant.charge(fit_plan(0.1))
    assert main(["check", str(path)]) == 0
    edit(path, statement)
    assert main(["check", str(path)]) == 1
    assert "positions of streams" in capsys.readouterr().out


def test_a_generation_that_is_no_number_is_damage(path, capsys):
    edit(path, "UPDATE meta SET value = NULL WHERE key = 'generation'")
    assert main(["check", str(path)]) == 2
    assert "its generation is not a number" in capsys.readouterr().err
    with pytest.raises(LedgerError, match="is damaged"):
        fresh_handle(path).spent()


def test_running_totals_are_those_of_all_entries(path):
    """Of blocks, partitions and mechanisms, whatever process entered them."""
    accountant = PrivacyAccountant(path=path)
    for _ in range(3):
        fill(accountant)
    accountant._charge_disjoint("both", {"a": fit_plan(0.1), "b": fit_plan(0.2)})
    costs = {}
    for entry in accountant.ledger:
        blocks = costs.setdefault(entry.partition, {})
        blocks[entry.block] = blocks.get(entry.block, 0.0) + entry.ledger_mu**2
    total = sum(max(blocks.values()) for blocks in costs.values())
    assert accountant._total().mu == pytest.approx(total**0.5, rel=1e-14)
    ((pair, times),) = accountant._total().curves
    assert (pair.epsilon, times) == (0.25, 4)
    assert main(["check", str(path)]) == 0


def test_a_pipe_is_refused_at_once(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for command in ("check", "show"):
        assert main([command, str(tmp_path / "pipe")]) == 2
        assert "is not a file" in capsys.readouterr().err


def test_all_of_a_budget_in_one_pair_is_within_it(tmp_path, capsys):
    path = tmp_path / "ledger.db"
    accountant = PrivacyAccountant(1.0, 1e-6, path=path)
    accountant.charge_external(1.0, 1e-6, "counts", **ROWS)
    assert main(["check", str(path)]) == 0
    assert "epsilon=1 at delta=1e-06" in capsys.readouterr().out
    assert accountant.spent() == (1.0, 1e-6)
    assert accountant.spent(5e-7).epsilon == float("inf")


def test_an_export_is_read_by_whoever_reads_the_ledger(path, tmp_path):
    for mode in (0o600, 0o640):
        path.chmod(mode)
        target = tmp_path / f"{mode}.jsonl"
        before = os.umask(0o022)
        try:
            assert main(["export", str(path), "--output", str(target)]) == 0
        finally:
            os.umask(before)
        assert target.stat().st_mode & 0o777 == mode
        assert len(target.read_text().splitlines()) == 6


def test_a_charge_reads_no_more_under_many_entries(path, monkeypatch):
    """By the steps of SQLite's machine, which no clock disturbs."""
    steps, opened = [], SqliteConnection.__init__

    def counting(self, ledger, database, used):
        steps.append(0)
        database.set_progress_handler(count, 1)
        opened(self, ledger, database, used)

    def count():
        steps[-1] += 1

    def steps_of_charge(accountant):
        with monkeypatch.context() as patch:
            patch.setattr(SqliteConnection, "__init__", counting)
            accountant.charge(fit_plan(0.01))
        return steps[-1]

    accountant = PrivacyAccountant(path=path)
    handles = [accountant, accountant.named("north", disjoint_within="regions")]
    before = [steps_of_charge(handle) for handle in handles]
    with accountant._ledger().transaction() as transaction:
        for handle in handles:
            for _ in range(1000):
                handle._append(transaction, fit_plan(1e-3), handle._own_part())
    after = [steps_of_charge(handle) for handle in handles]
    assert all(b <= 1.2 * a for a, b in zip(before, after, strict=True))


# -- on a server ---------------------------------------------------------------


SERVER_EDITS = {
    "tail deleted": ("DELETE FROM entries WHERE id = 5", "5 entries and terms"),
    "one partition": (
        "UPDATE entries SET partition = 'x', asserted = 1",
        "entry 5 is not as it was",
    ),
    "no budget": (
        "UPDATE meta SET value = 'null' WHERE key IN ('epsilon', 'delta')",
        "terms were sealed",
    ),
    "a view": (
        "ALTER TABLE entries RENAME TO kept; CREATE VIEW entries AS SELECT * FROM kept",
        "view 'entries'",
    ),
    "a trigger": (
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN "
        "DELETE FROM skdpspectral.entries; RETURN NULL; END'; CREATE TRIGGER t "
        "AFTER INSERT ON entries FOR EACH STATEMENT EXECUTE FUNCTION f()",
        "table with triggers 'entries'",
    ),
    "a rule": (
        "CREATE RULE r AS ON INSERT TO entries DO INSTEAD NOTHING",
        "table with rules 'entries'",
    ),
    "hidden rows": ("ALTER TABLE entries ENABLE ROW LEVEL SECURITY", "row security"),
}


@needs_fork
@pytest.mark.parametrize("name", SERVER_EDITS)
def test_edits_on_a_server_are_found(server, name, capsys):
    statement, message = SERVER_EDITS[name]
    address = server.new_database()
    accountant = PrivacyAccountant(6.0, 1e-6, path=address)
    fill(accountant)
    assert main(["check", address]) == 0
    path = "SET search_path = skdpspectral"
    server.execute(f"{path}; {statement}", address.rpartition("/")[2])
    forget(accountant._id)
    capsys.readouterr()
    assert main(["check", address]) == 1
    assert message in capsys.readouterr().out
    with pytest.raises(LedgerError):
        accountant.charge(fit_plan(0.1))


@needs_fork
def test_whoever_may_connect_holds_no_charge_up(server):
    """And whoever may read the tables reads totals, and charges nothing."""
    import psycopg

    address = server.new_database()
    name = address.rpartition("/")[2]
    for statement in (
        f"CREATE ROLE stranger_{name} LOGIN; CREATE ROLE reader_{name} LOGIN",
        f"GRANT CONNECT ON DATABASE {name} TO stranger_{name}, reader_{name}",
    ):
        server.execute(statement)
    owner = fill(PrivacyAccountant(6.0, 1e-6, path=address))
    for statement in (
        f"GRANT USAGE ON SCHEMA skdpspectral TO reader_{name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA skdpspectral TO reader_{name}",
    ):
        server.execute(statement, name)
    with psycopg.connect(address.replace("ledger@", f"stranger_{name}@")) as stranger:
        # The lock of earlier releases, and whatever else a stranger can have.
        stranger.execute(f"SELECT pg_advisory_lock({0x534B4450_4C454447})")
        owner.charge(fit_plan(0.1))
        for role in ("stranger", "reader"):
            as_role = address.replace("ledger@", f"{role}_{name}@")
            with psycopg.connect(as_role) as other:
                lock = "LOCK TABLE skdpspectral.meta IN ROW SHARE MODE NOWAIT"
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    other.execute(lock)
    reader = PrivacyAccountant(path=address.replace("ledger@", f"reader_{name}@"))
    with owner._ledger().transaction():  # which the reader does not wait for
        assert reader.spent() == owner_spent(reader, 6)
    assert (reader.ledger, reader.remaining()) == (owner.ledger, owner.remaining())
    for spend in (reader.charge, reader.check):
        with pytest.raises(LedgerError, match=r"only read it|can't be used"):
            spend(fit_plan(0.1))
    assert len(owner.ledger) == 6


def owner_spent(accountant, entries):
    """Return what a ledger of so many entries says was spent, by its export."""
    whole = json.loads(accountant.export().splitlines()[0])
    assert whole["entries"] == entries
    return whole["spent"]["epsilon"], whole["spent"]["delta"]
