"""A fork never falls into a charge: what is acknowledged is written, and nobody hangs.

Each race is run twenty times, for a short while each.
"""

import contextlib
import os
import signal
import threading
import time

import pytest
from ledger_tools import entries, fit_plan, ignore_fork_warning, needs_fork

from skdpspectral import LedgerError, PrivacyAccountant
from skdpspectral.accounting._ledger import store

pytestmark = [needs_fork, ignore_fork_warning]
PLAN = fit_plan(0.1)
PATIENCE = 60.0


def child_of(function):
    """Fork; in the child, call and leave with 0, or with 1 after an error."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def ended_well(child):
    """Wait for a child, kill it if it hangs; whether its function returned."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("a child hangs")


@contextlib.contextmanager
def charging_threads(accountants):
    """Charge each from a thread of its own; yield the acknowledged, and errors."""
    stop, acknowledged, errors = threading.Event(), [], []

    def charge(accountant):
        while not stop.is_set():
            try:
                accountant.charge(PLAN)
                acknowledged.append(accountant)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=charge, args=(a,)) for a in accountants]
    for thread in threads:
        thread.start()
    try:
        yield acknowledged, errors
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(20))
def test_forks_while_threads_charge(repetition):
    """Two threads on one ledger and one on another; children on both, at any moment."""
    one, other = PrivacyAccountant(), PrivacyAccountant()
    with charging_threads([one, one, other]) as (acknowledged, errors):
        children = []
        for accountant in [one, other] * 3:
            time.sleep(0.002)
            children.append(child_of(lambda a=accountant: a.charge(PLAN)))
        assert list(map(ended_well, children)) == [True] * 6
    assert errors == []
    for accountant in (one, other):
        assert len(entries(accountant)) == acknowledged.count(accountant) + 3


def test_a_child_of_the_charging_thread_itself_is_refused():
    """As a handler of signals may fork: the charge is the parent's alone."""
    accountant = PrivacyAccountant()

    def charge_on_both_sides():
        children = []

        def fork_and_enter(locked, *arguments):
            children.append(os.fork())
            enter(locked, *arguments)

        enter = store.Transaction.append
        store.Transaction.append = fork_and_enter
        try:
            accountant.charge(PLAN)
        finally:
            store.Transaction.append = enter
        return children[0]

    receiver, sender = os.pipe()
    try:
        child = charge_on_both_sides()
        assert child != 0
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
    assert ended_well(child)
    first, second = os.read(receiver, 1000).decode().split("\n")
    assert "forked in the middle of a charge" in first
    assert second == first
    assert len(entries(accountant)) == 1
    accountant.charge(PLAN)
    assert len(entries(accountant)) == 2


def test_a_charge_within_a_charge_is_refused_and_does_not_hang():
    accountant, other = PrivacyAccountant(), PrivacyAccountant()
    with store.transaction(accountant.path):
        for ledger in (accountant, other):
            with pytest.raises(LedgerError, match="of this same thread"):
                ledger.charge(PLAN)
    accountant.charge(PLAN)
    assert (len(entries(accountant)), len(entries(other))) == (1, 0)
