"""Forks beside a charge: what is acknowledged is written, and nobody hangs."""

import os
import threading
import time

import pytest
from forked_python import child_of, wait_for
from ledger_tools import entries, fit_plan, ignore_fork_warning, needs_fork

from skdpspectral import LedgerError, PrivacyAccountant
from skdpspectral.accounting._ledger import store

pytestmark = [needs_fork, ignore_fork_warning]
PLAN = fit_plan(0.1)
PATIENCE = 60.0


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(10))
def test_forks_while_threads_charge(repetition):
    """Two threads on one ledger and one on another; children on both, at any moment."""
    one, other = PrivacyAccountant(), PrivacyAccountant()
    stop, acknowledged, errors = threading.Event(), [], []

    def charge(accountant):
        while not stop.is_set():
            try:
                accountant.charge(PLAN)
                acknowledged.append(accountant)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=charge, args=(a,)) for a in (one, one, other)]
    for thread in threads:
        thread.start()
    children = []
    try:
        for accountant in [one, other] * 3:
            time.sleep(0.002)
            children.append(child_of(lambda a=accountant: a.charge(PLAN)))
        assert list(map(wait_for, children)) == [0] * 6
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert errors == []
    for accountant in (one, other):
        assert len(entries(accountant)) == acknowledged.count(accountant) + 3


def test_a_child_of_the_charging_thread_itself_is_refused(monkeypatch):
    """The charge is the parent's alone."""
    accountant, append = PrivacyAccountant(), store.Transaction.append
    children, (receiver, sender) = [], os.pipe()

    def fork_and_enter(locked, *arguments):
        children.append(os.fork())
        append(locked, *arguments)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(store.Transaction, "append", fork_and_enter)
            accountant.charge(PLAN)
        assert children[0] != 0
    except LedgerError as error:
        # The child, in which SQLite takes the ledger to be open for ever.
        try:
            accountant.charge(PLAN)
        except LedgerError as again:
            os.write(sender, f"{error}\n{again}".encode())
        PrivacyAccountant().charge(PLAN)
        os._exit(0)
    except BaseException:
        os._exit(1)
    assert wait_for(children[0]) == 0
    first, second = os.read(receiver, 1000).decode().split("\n")
    assert "forked in the middle of a charge" in first
    assert second == first
    assert len(entries(accountant)) == 1
    accountant.charge(PLAN)
    assert len(entries(accountant)) == 2


def test_waiting_for_own_threads_is_not_waiting_for_another_process(monkeypatch):
    accountant, lock, first = PrivacyAccountant(), store._lock_file, iter([False])

    def fail_once(*given):
        return next(first, True) and lock(*given)

    monkeypatch.setattr(store, "PATIENCE", 0.1)
    monkeypatch.setattr(store, "_lock_file", fail_once)
    thread = threading.Thread(target=accountant.charge, args=(PLAN,))
    with store._mutex:
        thread.start()
        time.sleep(0.3)
    thread.join(PATIENCE)
    assert len(entries(accountant)) == 1


def test_a_charge_within_a_charge_is_refused_and_does_not_hang():
    accountant, other = PrivacyAccountant(), PrivacyAccountant()
    with store.transaction(accountant.path):
        for ledger in (accountant, other):
            with pytest.raises(LedgerError, match="of this same thread"):
                ledger.charge(PLAN)
    accountant.charge(PLAN)
    assert (len(entries(accountant)), len(entries(other))) == (1, 0)
