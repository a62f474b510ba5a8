"""Copies of a ledger's file: made while it is in use, linked, put back."""

import os
import pickle
import shutil

import pytest
from ledger_tools import DELTA, budget_of_fits, entries, fit_plan, run_python

from skdpspectral import LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting._ledger import store
from skdpspectral.accounting._ledger.accountant import advance_stream, open_stream

PLAN = fit_plan(0.1)
needs_flock = pytest.mark.skipif(store.fcntl is None, reason="the system has no flock")


def test_a_backup_replaces_nothing(tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    (tmp_path / "notes").write_text("mine")
    for name in ("notes", "ledger.db"):
        with pytest.raises(LedgerError, match="choose another name"):
            accountant.backup(tmp_path / name)
    assert (tmp_path / "notes").read_text() == "mine"
    with pytest.raises(LedgerError, match="no ledger can be created at"):
        accountant.backup(tmp_path / "missing" / "backup.db")
    for wrong in (None, 3, b"name"):
        with pytest.raises(TypeError, match="path must name a file"):
            accountant.backup(wrong)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["ledger.db", "ledger.db-lock", "notes"]


def test_a_backup_is_the_ledger_as_it_stands(tmp_path):
    accountant = PrivacyAccountant(*budget_of_fits(3), path=tmp_path / "ledger.db")
    accountant.charge(fit_plan())
    accountant.named("morning").backup(tmp_path / "backup.db")
    script = """
import sys
from skdpspectral import PrivacyAccountant
backup = PrivacyAccountant(path=sys.argv[1])
print(len(backup.ledger), backup.epsilon, backup._id)
"""
    found = run_python(script, tmp_path / "backup.db")
    assert found == [f"1 {accountant.epsilon} {accountant._id}"]
    assert (tmp_path / "backup.db").stat().st_mode & 0o077 == 0


def test_hard_links_are_refused(tmp_path):
    """Each name has a log of its own: a budget would be spent once a name."""
    accountant = PrivacyAccountant(*budget_of_fits(2), path=tmp_path / "ledger.db")
    os.link(tmp_path / "ledger.db", tmp_path / "second.db")
    with pytest.raises(LedgerError, match=r"second\.db has 2 names"):
        PrivacyAccountant(path=tmp_path / "second.db")
    for call in (lambda: accountant.charge(fit_plan()), accountant.spent):
        with pytest.raises(LedgerError, match=r"ledger\.db has 2 names"):
            call()
    (tmp_path / "second.db").unlink()
    accountant.charge(fit_plan())
    assert len(entries(accountant)) == 1


def test_an_older_copy_is_refused_by_all_handles_of_the_process(tmp_path):
    path, old = tmp_path / "ledger.db", tmp_path / "old.db"
    accountant = PrivacyAccountant(*budget_of_fits(4), path=path)
    accountant.charge(fit_plan())
    accountant.backup(old)
    for _ in range(2):
        accountant.charge(fit_plan())
    run_python(CHARGE_ALONE, old, 3)  # by a process that knows of none of this
    newest = tmp_path / "newest.db"
    path.rename(newest)
    old.rename(path)
    content, sent = path.read_bytes(), pickle.loads(pickle.dumps(accountant))
    for use in (
        lambda: accountant.charge(fit_plan()),
        sent.spent,
        lambda: PrivacyAccountant(path=path),
    ):
        with pytest.raises(LedgerError, match="lacks changes that this process has"):
            use()
    assert path.read_bytes() == content
    newest.replace(path)
    accountant.charge(fit_plan())
    with pytest.raises(PrivacyBudgetError):
        accountant.charge(fit_plan())


CHARGE_ALONE = """
import sys
from ledger_tools import fit_plan
from skdpspectral import PrivacyAccountant
accountant = PrivacyAccountant(path=sys.argv[1])
for _ in range(int(sys.argv[2])):
    accountant.charge(fit_plan())
"""


def test_an_older_copy_of_the_same_entries_is_refused(tmp_path):
    """Positions of streams are no entries: noise would be drawn twice."""
    path = tmp_path / "ledger.db"
    accountant = PrivacyAccountant(path=path)
    stream = open_stream(accountant)
    shutil.copy(path, tmp_path / "old.db")
    advance_stream(accountant, stream, 0, 5)
    (tmp_path / "old.db").replace(path)
    with pytest.raises(LedgerError, match="lacks changes that this process has seen"):
        advance_stream(accountant, stream, 0, 5)


@needs_flock
def test_locks_that_cannot_be_had_are_explained_and_charge_nothing(
    tmp_path, monkeypatch
):
    accountant = PrivacyAccountant(1.0, DELTA, path=tmp_path / "ledger.db")
    lock = tmp_path / "ledger.db-lock"

    def refuse(*_):
        raise OSError(95, "Operation not supported")

    with monkeypatch.context() as patch:
        patch.setattr(store.fcntl, "flock", refuse)
        with pytest.raises(LedgerError, match=r"can't be locked .*local disk"):
            accountant.charge(PLAN)
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    with open(lock) as held:
        store.fcntl.flock(held, store.fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="in use by another process"):
            accountant.charge(PLAN)
    lock.unlink()  # harmless when nobody holds it
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match="can't be locked"):
        accountant.charge(PLAN)
    lock.unlink()
    accountant.charge(PLAN)
    assert len(entries(accountant)) == 1
    assert lock.stat().st_mode == (tmp_path / "ledger.db").stat().st_mode
