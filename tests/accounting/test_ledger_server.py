"""Ledgers on a PostgreSQL server, which may be killed in the middle of a charge."""

import contextlib
import pickle
import time

import pytest
from ledger_server import running_server
from ledger_tools import DELTA, X, clean_context, entries, faults, fit_plan, needs_fork
from release_tools import Release
from sklearn.base import clone

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting._ledger import store
from skdpspectral.accounting._ledger.accountant import advance_stream, open_stream
from skdpspectral.statements._command import main

pytestmark = needs_fork
ROWS = {"unit": "row", "neighbors": "replace-one"}


@pytest.fixture
def address(server):
    """Return the address of an empty database."""
    return server.new_database()


def test_a_ledger_is_made_once_and_shared(address):
    first = PrivacyAccountant(3.0, DELTA, path=address, pure=1.0)
    DPPCA(1, accountant=first).fit(X)
    other = PrivacyAccountant(path=address)
    assert (other.epsilon, other.path) == (3.0, address)
    other.charge_external(0.5, 1e-8, "other", **ROWS)
    sent = pickle.loads(pickle.dumps(first))
    assert clone(first) is first
    assert sent.ledger == first.ledger == other.ledger
    assert len(first.ledger) == 2
    assert first.spent() == sent.spent()
    assert "2 entries" in str(sent)
    with pytest.raises(PrivacyBudgetError):
        sent.charge(fit_plan(2.9))
    with pytest.raises(LedgerError, match="has epsilon=3"):
        PrivacyAccountant(4.0, DELTA, path=address)
    with pytest.raises(LedgerError, match="use another ledger"):
        PrivacyAccountant(path=address, unit="user", neighbors="replace-one")
    assert len(first.ledger) == 2


def test_what_a_database_rounds_and_encodes_by_default_changes_nothing(server):
    address = server.new_database("TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    name = database_of(address)
    for setting in ("extra_float_digits = 0", "TimeZone = 'Asia/Tokyo'"):
        server.execute(f"ALTER DATABASE {name} SET {setting}")
    accountant, plan = PrivacyAccountant(path=address), fit_plan()
    for label in ("\u00e9t\u00e9", "%s ? $1'; DROP TABLE entries; --"):
        accountant.named(label).charge(plan)
        assert accountant.ledger[-1].label == label
        assert accountant.ledger[-1].mu == accountant.ledger[-1].ledger_mu == plan.mu
        assert abs(accountant.ledger[-1].time.timestamp() - time.time()) < 60.0
    assert faults(accountant) == []


def test_a_commit_that_rolled_back_is_no_charge(address):
    accountant = PrivacyAccountant(path=address)
    psycopg = pytest.importorskip("psycopg")
    with (
        pytest.raises(LedgerError, match="rolled a charge"),
        store.transaction(accountant.path) as locked,
        contextlib.suppress(psycopg.Error),
    ):
        locked.execute("SELECT 1 / 0")


def test_a_backup_is_a_file(address, tmp_path):
    accountant = PrivacyAccountant(3.0, DELTA, path=address, pure=1.0)
    accountant.charge(fit_plan())
    accountant.charge_external(0.5, 1e-8, "other", **ROWS)
    name = open_stream(accountant)
    advance_stream(accountant, name, 0, 4)
    accountant.backup(tmp_path / "backup.db")
    copy = PrivacyAccountant(path=tmp_path / "backup.db")
    assert copy.ledger == accountant.ledger
    assert copy.spent() == accountant.spent()
    assert (copy.epsilon, copy.remaining()) == (3.0, accountant.remaining())
    advance_stream(copy, name, 4, 1)
    with pytest.raises(LedgerError, match="choose another name"):
        accountant.backup(tmp_path / "backup.db")


@pytest.mark.slow
def test_an_older_copy_is_refused(server, address):
    """As a server that was restored from a dump would be."""
    database = database_of(address)
    accountant = PrivacyAccountant(path=address)
    accountant.charge(fit_plan())
    server.execute(f"CREATE DATABASE old_{database} TEMPLATE {database}")
    accountant.charge(fit_plan())
    server.execute(f"DROP DATABASE {database} WITH (FORCE)")
    with pytest.raises(LedgerError, match="can't be used"):
        accountant.charge(fit_plan())
    server.execute(f"CREATE DATABASE {database} TEMPLATE old_{database}")
    with pytest.raises(LedgerError, match="older copy"):
        accountant.charge(fit_plan())
    # And one in which there is no ledger, or another one.
    server.execute(f"DROP DATABASE {database} WITH (FORCE)")
    server.execute(f"CREATE DATABASE {database}")
    with pytest.raises(LedgerError, match=r"no ledger at .* never creates"):
        accountant.spent()
    PrivacyAccountant(path=address)
    with pytest.raises(LedgerError, match="a different ledger"):
        accountant.charge(fit_plan())


def test_ledgers_of_earlier_releases_are_refused_untouched(server):
    address = server.new_database()
    name = database_of(address)
    for statement in (
        "CREATE SCHEMA skdpspectral",
        "CREATE TABLE skdpspectral.meta (key TEXT PRIMARY KEY, value JSONB)",
        "CREATE TABLE skdpspectral.entries (id BIGINT PRIMARY KEY)",
    ):
        server.execute(statement, name)
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"can't be used .*already exists"):
            PrivacyAccountant(3.0, DELTA, path=address)
    assert main(["check", address]) == 2
    tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'skdpspectral'"
    assert server.execute(tables, name) == [(2,)]


def database_of(address):
    return address.rpartition("/")[2]


@pytest.mark.slow
def test_who_waits_for_another_process_is_told(address, monkeypatch):
    accountant = PrivacyAccountant(path=address)
    monkeypatch.setattr(store, "PATIENCE", 0.2)
    context = clean_context()
    ready, go = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(accountant, ready, go))
    holder.start()
    assert ready.wait(60)
    start = time.monotonic()
    with pytest.raises(LedgerError, match=r"in use by another process for 0\.2"):
        accountant.charge(fit_plan())
    assert time.monotonic() - start < 30.0
    go.set()
    holder.join(60)
    accountant.charge(fit_plan())
    assert len(entries(accountant)) == 1


def _hold(accountant, ready, go):
    with store.transaction(accountant.path, keep=False):
        ready.set()
        go.wait(60)


BAD = {
    "a password": (
        "postgresql://me:secret@127.0.0.1/db",
        "must not contain a password",
    ),
    "two hosts": ("postgresql://me@one,two/db", "one server"),
    "no database": ("postgresql://me@127.0.0.1", "must name a database"),
    "nonsense": ("postgresql://[::1/db", "can't be read as one"),
    "unknown parameter": ("postgresql:///db?colour=red", "can't be read as one"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_addresses_are_refused(name):
    pytest.importorskip("psycopg")
    path, message = BAD[name]
    with pytest.raises(ValueError, match=message) as caught:
        PrivacyAccountant(path=path)
    assert "secret" not in str(caught.value)


def test_without_the_client_it_is_named(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(store.importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install '\.\[postgres\]'"):
        PrivacyAccountant(path="postgresql://me@127.0.0.1/db")


# -- a server that goes away ---------------------------------------------------


@pytest.fixture
def mortal():
    """Yield a server that may be killed."""
    with running_server() as found:
        yield found


@pytest.mark.slow
def test_a_server_that_may_lose_what_it_acknowledged_is_refused(mortal):
    address = mortal.new_database()
    accountant = PrivacyAccountant(path=address)
    mortal.kill()
    mortal.start(fsync="off")
    with pytest.raises(LedgerError, match="fsync = off"):
        accountant.charge(fit_plan())


def test_a_server_killed_in_the_middle_of_a_charge(mortal, monkeypatch):
    """Nothing is released that was not acknowledged, and what was is there again."""
    accountant = PrivacyAccountant(path=mortal.new_database())
    pca = DPPCA(1, accountant=accountant).fit(X)
    released, append = [], store.Transaction.append

    def killed(self, *arguments):
        append(self, *arguments)
        mortal.kill()

    with monkeypatch.context() as patch:
        patch.setattr(store.Transaction, "append", killed)
        patch.setattr(Release, "__call__", lambda *a, **k: released.append(a))
        with pytest.raises(
            LedgerError, match=r"may or may not|can't be used"
        ) as caught:
            pca.fit(X)
    assert "127.0.0.1" in str(caught.value)
    assert released == []
    with pytest.raises(LedgerError, match=r"can't be used .*nothing was charged"):
        pca.fit(X)
    mortal.start()
    assert len(accountant.ledger) == 1
    pca.fit(X)
    assert len(accountant.ledger) == 2


@pytest.mark.slow
def test_a_server_killed_at_random_moments_keeps_what_it_acknowledged(mortal):
    accountant = PrivacyAccountant(path=mortal.new_database())
    acknowledged = 0
    for kill in range(6):
        context = clean_context()
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(
            target=_charge_until_it_fails, args=(accountant, sender)
        )
        child.start()
        assert receiver.recv() == "charging"
        time.sleep(0.05 + 0.07 * kill)
        mortal.kill()
        assert receiver.poll(120)
        count, error = receiver.recv()
        child.join(60)
        acknowledged += count
        assert "did not acknowledge" in error or "can't be used" in error
        mortal.start()
        found = len(accountant.ledger)
        assert acknowledged <= found <= acknowledged + 1
        acknowledged = found


def _charge_until_it_fails(accountant, sender):
    plan, count = fit_plan(0.1), 0
    sender.send("charging")
    try:
        while True:
            accountant.charge(plan)
            count += 1
    except LedgerError as error:
        sender.send((count, str(error)))
