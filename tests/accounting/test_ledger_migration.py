"""Ledgers of the schema before this one: read as they are, migrated by a charge."""

import multiprocessing
import os
import shutil
import sqlite3
import time
import uuid

import numpy as np
import pytest
from ledger_tools import clean_context, entries, fit_plan, needs_fork, plan_with_mu

from skdpspectral import LedgerError, PrivacyAccountant
from skdpspectral.accounting import gaussian_epsilon
from skdpspectral.accounting._ledger import store as _migration
from skdpspectral.accounting._ledger.store import forget

ROWS = {"unit": "row", "neighbors": "replace-one"}
OLD_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID"
OLD_COLUMNS = (
    "id INTEGER PRIMARY KEY, time REAL NOT NULL, estimator TEXT NOT NULL, label TEXT, "
    "partition TEXT NOT NULL, block TEXT NOT NULL, asserted INTEGER NOT NULL, "
    "epsilon REAL NOT NULL, delta REAL NOT NULL, mu REAL NOT NULL, "
    "ledger_mu REAL NOT NULL, failure REAL NOT NULL, unit TEXT NOT NULL, "
    "neighbors TEXT NOT NULL, assumption TEXT NOT NULL, seeded INTEGER NOT NULL, "
    "plan TEXT NOT NULL"
)


def old_ledger(path, n_entries=7, budget=(None, None)):
    """Make a ledger as the release before this one made it; return its entries."""
    meta = {
        "ledger_id": uuid.uuid4().hex,
        "epsilon": budget[0],
        "delta": budget[1],
        "unit": "row" if n_entries else None,
        "neighbors": "replace-one" if n_entries else None,
        "generation": n_entries,
    }
    plan = plan_with_mu(0.1)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID"
        )
        connection.execute(f"CREATE TABLE entries ({OLD_COLUMNS})")
        connection.execute("PRAGMA application_id = 0x534B4450")
        connection.execute("PRAGMA user_version = 2")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        for number in range(n_entries):
            row = (1.7e9 + number, plan.estimator, None, str(number), "all rows", 0)
            row += (plan.epsilon, plan.delta, plan.mu, plan.mu, 0.0, "row")
            row += ("replace-one", "none", 0, plan.to_json())
            marks = ",".join("?" * len(row))
            connection.execute(f"INSERT INTO entries VALUES (NULL,{marks})", row)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


def version_of(path):
    """Version in the header of the file, as releases look at it."""
    return int.from_bytes(path.read_bytes()[60:64], "big")


def copies_beside(path):
    return sorted(path.parent.glob(f"{path.name}-version2*"))


def test_an_old_ledger_is_read_as_it_is(tmp_path):
    path = tmp_path / "ledger.db"
    old_ledger(path)
    accountant = PrivacyAccountant(path=path)
    assert [entry["kind"] for entry in entries(accountant)] == ["gaussian"] * 7
    spent = accountant.spent(1e-6).epsilon
    assert spent == pytest.approx(gaussian_epsilon(0.1 * 7**0.5, 1e-6), rel=1e-6)
    assert accountant.check(fit_plan()).epsilon > spent
    other = accountant.check(plan_with_mu(0.1))
    assert other.epsilon > spent
    str(accountant), accountant.export(), accountant.remaining()
    accountant.backup(tmp_path / "backup.db")
    assert (version_of(path), copies_beside(path)) == (2, [])
    assert version_of(tmp_path / "backup.db") == 2
    assert len(PrivacyAccountant(path=tmp_path / "backup.db").ledger) == 7


@pytest.mark.parametrize("kind", ["gaussian", "other"])
def test_the_first_charge_migrates_after_a_copy(tmp_path, kind):
    path = tmp_path / "ledger.db"
    old_ledger(path)
    accountant = PrivacyAccountant(path=path)
    before = accountant.ledger
    if kind == "gaussian":
        accountant.charge(fit_plan())
    else:
        accountant.charge_external(0.5, 0.0, "other", **ROWS)
    assert version_of(path) == 4
    (copy,) = copies_beside(path)
    assert version_of(copy) == 2
    with sqlite3.connect(copy) as connection:
        rows = connection.execute("SELECT time, plan FROM entries").fetchall()
    connection.close()
    assert rows == [(entry.time.timestamp(), entry.plan) for entry in before]
    assert accountant.ledger[:7] == before
    assert os.stat(copy).st_nlink == 1
    assert len(accountant.ledger) == 8
    again = PrivacyAccountant(path=path)
    again.charge(fit_plan())
    assert copies_beside(path) == [copy]
    with pytest.raises(LedgerError, match="older copy"):
        PrivacyAccountant(path=copy)
    assert again.ledger[7] == accountant.ledger[7]


def test_old_budgets_stay_those_of_gaussians(tmp_path):
    """Those that nothing was charged to yet may become any."""
    for name, n_entries in (("used", 2), ("fresh", 0)):
        path = tmp_path / name
        old_ledger(path, n_entries, (3.0, 1e-6))
        accountant = PrivacyAccountant(path=path)
        if n_entries:
            with pytest.raises(LedgerError, match="for Gaussian mechanisms only"):
                accountant.charge_external(0.5, 0.0, "other", **ROWS)
        else:
            accountant.charge_external(0.5, 0.0, "other", **ROWS)
        assert len(accountant.ledger) == (n_entries or 1)
        accountant.charge(fit_plan())


def test_no_copy_no_migration(tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"
    old_ledger(path)
    accountant = PrivacyAccountant(path=path)

    def full(*_):
        raise LedgerError("no backup can be made: the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(_migration, "back_up", full)
        with pytest.raises(LedgerError, match="the disk is full"):
            accountant.charge(fit_plan())
    assert (version_of(path), len(accountant.ledger)) == (2, 7)
    # A copy of that name may be there already.
    (tmp_path / "ledger.db-version2").write_text("of somebody")
    accountant.charge(fit_plan())
    assert (tmp_path / "ledger.db-version2").read_text() == "of somebody"
    assert len(copies_beside(path)) == 2


def test_a_migration_that_fails_leaves_the_old_ledger(tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"
    old_ledger(path)
    accountant = PrivacyAccountant(path=path)
    with monkeypatch.context() as patch:
        patch.setattr(_migration, "CHAIN", ["CREATE TABLE entries (id INTEGER)"])
        with pytest.raises(LedgerError, match="can't be used"):
            accountant.charge(fit_plan())
    assert (version_of(path), len(accountant.ledger)) == (2, 7)
    accountant.charge(fit_plan())
    assert (version_of(path), len(accountant.ledger)) == (4, 8)


# -- kills ---------------------------------------------------------------------


def _migrate_on_pipe(path, handle):
    """Say when the charge that migrates begins, and when it was acknowledged."""
    accountant, plan, sender = PrivacyAccountant(path=path), fit_plan(), handle.detach()
    os.write(sender, b"b")
    accountant.charge(plan)
    os.write(sender, b"e")
    time.sleep(60.0)


def _killed_migrations(tmp_path, n_kills, longest):
    context, outcomes = clean_context(), []
    old_ledger(tmp_path / "old.db", 40)
    delays = np.random.default_rng(0).uniform(0.0, longest, size=n_kills)
    for kill, delay in enumerate(delays):
        folder = tmp_path / str(kill)
        folder.mkdir()
        path = folder / "ledger.db"
        shutil.copy(tmp_path / "old.db", path)
        receiver, sender = os.pipe()
        with os.fdopen(receiver, "rb", buffering=0) as results:
            handle = multiprocessing.reduction.DupFd(sender)
            child = context.Process(target=_migrate_on_pipe, args=(path, handle))
            child.start()
            os.close(sender)
            assert results.read(1) == b"b"
            time.sleep(delay)
            child.kill()
            child.join(60)
            acknowledged = results.read(1) == b"e"
        outcomes.append(_state_of(path, acknowledged))
    return outcomes


def _state_of(path, acknowledged):
    """Check that a ledger is the old one or the new one; return (version, charged)."""
    with sqlite3.connect(path) as connection:
        query = "SELECT value FROM meta WHERE key = 'ledger_id'"
        forget(connection.execute(query).fetchone()[0])  # seen elsewhere, further on
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        names = connection.execute("SELECT name FROM sqlite_master").fetchall()
    connection.close()
    assert version in (2, 4)
    assert (("curves",) in names) == (("counts",) in names) == (version == 4)
    accountant = PrivacyAccountant(path=path)
    n_entries = len(accountant.ledger)
    assert n_entries in (40, 41)
    assert n_entries == 41 or not acknowledged
    assert n_entries == 40 or version == 4
    accountant.charge_external(0.5, 0.0, "other", **ROWS)
    assert len(accountant.ledger) == n_entries + 1
    assert version_of(path) == 4
    for copy in copies_beside(path):
        with sqlite3.connect(copy) as connection:
            count = connection.execute("SELECT count(*) FROM entries").fetchone()
        connection.close()
        assert count == (40,)
    return version, n_entries


@needs_fork
@pytest.mark.slow
def test_kills_at_fifty_instants_leave_an_old_ledger_or_a_new_one(tmp_path):
    outcomes = _killed_migrations(tmp_path, 50, 0.15)
    assert {(2, 40), (4, 41)} <= set(outcomes)


@needs_fork
def test_kills_leave_an_old_ledger_or_a_new_one(tmp_path):
    assert len(_killed_migrations(tmp_path, 4, 0.06)) == 4
