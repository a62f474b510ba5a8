"""Signals in the middle of a charge: their handlers raise, charge, or fork."""

import ast
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from ledger_tools import PATIENCE, entries, fit_plan, needs_fork, run_python

from skdpspectral import LedgerError, PrivacyAccountant, accounting
from skdpspectral.accounting._ledger import locks as _locks
from skdpspectral.accounting._ledger import sqlite_file

fcntl = pytest.importorskip("fcntl")
pytestmark = [
    needs_fork,
    # Python 3.12 warns of any fork of a process with threads: it is what is tested.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
PLAN = fit_plan(0.1)
# Where the signal comes: before a call of these, or after it.
PLACES = {
    "in the lock of the locks": (threading.Condition, "notify_all", "before"),
    "with the turn": (sqlite_file, "check_header", "before"),
    "as the file is locked": (_locks.fcntl, "flock", "after"),
    "in the transaction": (sqlite_file, "count_write", "before"),
    "once it is written": (sqlite_file, "count_write", "after"),
    "before the lock is given back": (_locks, "_give_back", "before"),
    "as all is done": (sqlite_file, "remember", "after"),
}


@pytest.fixture
def handle():
    """Give what sets a handler for the time of a test."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, lambda *_: handler())
    signal.signal(signal.SIGUSR1, before)


def signal_once(monkeypatch, owner, name, when):
    """Let the next call of a function send a signal."""
    function, sent = getattr(owner, name), []

    def send():
        if not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGUSR1)

    def call(*args, **kwargs):
        if when == "before":
            send()
        result = function(*args, **kwargs)
        send()
        return result

    monkeypatch.setattr(owner, name, call)
    return sent


def in_thread(function):
    """Return what a function returns in another thread, which may not hang."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert results, "the thread hangs, or has failed"
    return results[0]


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_leaves_no_lock_behind(place, handle, monkeypatch):
    """As Ctrl-C: the ledger is to be had, from any thread, and nothing is lost."""
    monkeypatch.setattr(_locks, "PATIENCE", 5.0)
    accountant = PrivacyAccountant()
    handle(interrupt)
    with monkeypatch.context() as patch:
        sent = signal_once(patch, *PLACES[place])
        with pytest.raises(KeyboardInterrupt) as caught:  # noqa: PT012
            accountant.charge(PLAN)
            while True:  # a signal may come late
                time.sleep(0.01)
    assert sent
    in_thread(lambda: accountant.charge(PLAN))
    accountant.charge(PLAN)
    assert len(entries(accountant)) in (2, 3)
    assert caught.value is not None  # its frames may hold what they held


@pytest.mark.parametrize("place", PLACES)
def test_a_handler_may_charge(place, handle, monkeypatch):
    """It waits for the charge that it interrupts, which goes on meanwhile."""
    accountant, other = PrivacyAccountant(), PrivacyAccountant()
    handled = []

    def charge_both():
        for ledger in (accountant, other):
            ledger.charge(PLAN)
        handled.append(True)

    handle(charge_both)
    with monkeypatch.context() as patch:
        signal_once(patch, *PLACES[place])
        accountant.charge(PLAN)
        end = time.monotonic() + PATIENCE
        while not handled and time.monotonic() < end:
            time.sleep(0.01)
    assert handled == [True]
    assert (len(entries(accountant)), len(entries(other))) == (2, 1)


@pytest.mark.parametrize("place", PLACES)
def test_a_handler_may_fork(place, handle, monkeypatch):
    """The charge is the parent's; the child has the ledger, but not that charge."""
    accountant, children = PrivacyAccountant(), []
    handle(lambda: children.append(os.fork()))
    receiver, sender = os.pipe()
    with monkeypatch.context() as patch:
        signal_once(patch, *PLACES[place])
        try:
            accountant.charge(PLAN)
        except LedgerError as error:
            if children == [0]:
                os.write(sender, str(error).encode())
                os._exit(0)
            raise
        if children == [0]:
            # The charge had ended, and the fork came between it and its return.
            os.write(sender, b"the charge belongs to the parent")
            os._exit(0)
        end = time.monotonic() + PATIENCE
        while not children and time.monotonic() < end:
            time.sleep(0.01)
    if children == [0]:
        os._exit(0)
    (child,) = children
    end = time.monotonic() + PATIENCE
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    os.close(sender)
    with os.fdopen(receiver) as said:
        assert "belongs to the parent" in said.read()
    accountant.charge(PLAN)
    assert len(entries(accountant)) == 2


def test_who_is_interrupted_while_waiting_is_not_charged_later(
    handle, tmp_path, monkeypatch
):
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    accountant.charge(PLAN)
    handle(interrupt)
    held = os.open(f"{accountant.path}-lock", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with monkeypatch.context() as patch:
        # In the pause of who has found the lock taken.
        sent = signal_once(patch, _locks.time, "sleep", "before")
        with pytest.raises(KeyboardInterrupt):
            accountant.charge(PLAN)
    assert sent
    os.close(held)
    time.sleep(0.2)
    assert len(entries(accountant)) == 1


def test_no_function_takes_a_ledger_where_it_may_be_interrupted():
    """Whatever opens a transaction or a connection is `uninterrupted`."""
    takes, found = {"transaction", "inspected", "_connect"}, set()
    takes |= {"lock_file", "lock_tables"}
    for path in Path(accounting.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or function.name in takes:
                continue
            calls = [n.func for n in ast.walk(function) if isinstance(n, ast.Call)]
            names = {getattr(f, "attr", getattr(f, "id", None)) for f in calls}
            if takes & names:
                found.add(function.name)
                decorators = {getattr(d, "id", None) for d in function.decorator_list}
                assert "uninterrupted" in decorators, f"{path.name}: {function.name}"
    assert {
        "_enter",
        "create_file",
        "create_tables",
        "advance_stream",
        "_read_total_at_delta",
    } <= found


INTERRUPTED_FORK = """
import _thread, logging, os, sys, threading
# A hook in C: what it asks for is raised in the next one that is not.
if sys.argv[1] == "after_in_parent":
    os.register_at_fork(after_in_parent=_thread.interrupt_main)
import skdpspectral
if sys.argv[1] == "before":
    os.register_at_fork(before=_thread.interrupt_main)
from ledger_tools import entries, fit_plan
from skdpspectral import PrivacyAccountant
accountant, plan = PrivacyAccountant(), fit_plan(0.1)
accountant.charge(plan)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
done = []
def charge():
    accountant.charge(plan)
    done.append(True)
thread = threading.Thread(target=charge, daemon=True)
thread.start()
thread.join(20)
print("charged" if done else "hangs", flush=True)
os._exit(0)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("hook", ["before", "after_in_parent"])
def test_an_interrupt_while_a_process_forks(hook):
    """Python raises it in a hook of forks, prints it, and goes on."""
    assert run_python(INTERRUPTED_FORK, hook) == ["charged"]
