"""Locks of a ledger: one thread of one process has it, and no fork happens meanwhile.

Locks are taken in this order, and given back in the other one:

1. the *turn* of this process at a file, which one thread has at a time;
2. a *use*, which forks of this process wait for: none of them may happen while a thread
   is inside SQLite or holds the third lock, since a child inherits both;
3. the file's lock among processes, an ``flock`` of a second file beside it. It does not
   end, as SQLite's own locks do, when something else in the process reads the ledger
   and closes it again. On Linux, where the two kinds of locks do not know of each
   other, the ledger itself is locked in the same way: by whatever path it is opened.
   That descriptor is closed after SQLite has closed its own.

A thread that waits for another process holds the first alone, so that nobody's fork
waits for another process. No handler of signals interrupts who holds any of them
(`uninterrupted`), but for hooks of forks, which run in the thread that forks.

Python runs handlers of signals in the main thread, between any two of its steps. One
that raises, as that of Ctrl-C does, may do so where a lock was taken and nothing gives
it back yet; one that asks for the same lock waits for itself. So what holds locks of a
ledger runs in a thread of its own while the main thread waits, and may be interrupted.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from .._errors import LedgerError

P = ParamSpec("P")
T = TypeVar("T")
_LONGEST_SIGNAL_WAIT = 0.05  # seconds; a forked child looks whether it lacks the thread
_here = threading.local()


class _Call:
    """A call on its way through a thread of its own."""

    def __init__(self, function: Callable[[], Any]):
        self._function = function
        self._caller = threading.get_ident()
        self._finished, self._result = False, None
        self._error: BaseException | None = None
        self.wanted = True

    def run(self) -> None:
        _here.threads, _here.call = frozenset({self._caller}), self
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error
        self._finished = True

    def outcome(self) -> Any:
        """Return or raise what came of it; to be asked once."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        if not self._finished:  # the thread is the parent's
            raise LedgerError(
                "this process was forked in the middle of a charge, by a handler of "
                "signals: the charge is the parent's, and not of this process"
            )
        return self._result


def uninterrupted(function: Callable[P, T]) -> Callable[P, T]:
    """Let handlers of signals interrupt who calls a function, and not the function.

    Called in the main thread, the function runs in another one, and sees no context
    variables of the caller. If the wait for it is broken off it goes on, but takes no
    ledger that it has not got yet.
    """

    @functools.wraps(function)
    def call_it(*args: P.args, **kwargs: P.kwargs) -> T:
        if threading.get_ident() != threading.main_thread().ident:
            return function(*args, **kwargs)
        call = _Call(functools.partial(function, *args, **kwargs))
        thread = threading.Thread(target=call.run, daemon=True)
        try:
            try:
                thread.start()
            except RuntimeError:  # no thread is to be had, as when Python ends
                return function(*args, **kwargs)
            while thread.is_alive():
                thread.join(_LONGEST_SIGNAL_WAIT)
        except BaseException:
            call.wanted = False
            raise
        outcome: T = call.outcome()
        return outcome

    return call_it


def threads_here() -> frozenset[int]:
    """Return this thread, and the one that waits for it."""
    return getattr(_here, "threads", frozenset()) | {threading.get_ident()}


def check_wanted() -> None:
    """Refuse to begin what nobody waits for any more."""
    call = getattr(_here, "call", None)
    if call is not None and not call.wanted:
        raise LedgerError("the caller was interrupted; nothing was charged")


try:
    import fcntl
except ImportError:  # Windows, where closing a file ends no other handle's locks
    fcntl = None  # type: ignore[assignment]


PATIENCE = 120.0  # seconds
_SUFFIX = "-lock"

# Neither links nor pipes are followed.
_FLAGS = os.O_RDONLY


for _name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"):
    _FLAGS |= getattr(os, _name, 0)


_LOCKS_ITSELF = sys.platform == "linux"

_FORKED = (
    "this process was forked in the middle of a charge, by the very thread that "
    "charged: the charge is the parent's, and this process can't use that ledger any "
    "more"
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02
_LONGEST_LOCK_WAIT = 0.1


class Use:
    """A stretch of time in which this process has a ledger open."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self.thread = threading.get_ident()
        self.threads = threads_here()
        self.locks: list[int] = []

    def check(self) -> None:
        """Refuse to go on in a child that was forked in the middle."""
        if self.inherited:
            raise LedgerError(_FORKED)

    @property
    def inherited(self) -> bool:
        """Whether a fork took this over from the process that began it."""
        return self._process != os.getpid()


class _State:
    """What the threads of this process do with ledgers; guarded by `changed`."""

    def __init__(self) -> None:
        self.process = os.getpid()
        # Reentrant: a signal may be handled, and its handler fork, inside of it. To be
        # taken as it is: the methods of a condition are interrupted, these are not.
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.turns: dict[str, Use] = {}
        self.uses: set[Use] = set()
        self.forking: set[int] = set()  # threads that are about to
        # Ledgers that SQLite takes to be open for ever in this process.
        self.lost: set[str] = set()

    def used_by_others(self) -> bool:
        here = threading.get_ident()
        return any(used.thread != here for used in self.uses)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait, with `lock`; also if nobody says that something has changed."""
        while not condition():
            self.changed.wait(_LONGEST_LOCK_WAIT)

    def may_begin(self) -> bool:
        """Whether a use need not let a fork go first, or is inside another use."""
        here = threads_here()
        return not self.forking or any(u.thread in here for u in self.uses)

    def begun_anew(self) -> _State:
        """Return the state of a child, in which this thread is the only one.

        What others were in the middle of is lost there: SQLite takes it to be open.
        """
        child = _State()
        child.lost |= self.lost
        users = {used.thread for used in self.uses}
        child.lost |= {path for path, t in self.turns.items() if t.thread in users}
        for used in self.uses:
            while used.locks:  # closing leaves the parent's lock alone
                os.close(used.locks.pop())
        return child


_state = _State()


def _current() -> _State:
    """Return this process's state, also after a fork that Python did not see."""
    global _state
    if _state.process != os.getpid():
        _state = _state.begun_anew()
    return _state


@contextlib.contextmanager
def turn(path: str) -> Iterator[None]:
    """Keep all other threads of this process away from a ledger at its real path.

    A LedgerError if this thread has the turn already, as in the handler of a signal.
    """
    state, mine = _current(), Use()
    if path in state.lost:
        raise LedgerError(_FORKED)
    try:
        with state.lock:
            holder = state.turns.get(path)
            if holder is not None and holder.thread in mine.threads:
                raise LedgerError(
                    f"the ledger {path} is in the middle of a charge by this very "
                    "thread: a handler of signals or a finalizer must not charge it"
                )
            state.wait_until(lambda: path not in state.turns)
            check_wanted()
            state.turns[path] = mine
        yield
    finally:
        with state.lock:
            if state.turns.get(path) is mine:
                del state.turns[path]
            state.changed.notify_all()


@contextlib.contextmanager
def use() -> Iterator[Use]:
    """Keep forks of this process waiting, while SQLite is at work."""
    state, used = _current(), Use()
    try:
        with state.lock:
            state.wait_until(state.may_begin)
            state.uses.add(used)
        yield used
    finally:
        _give_back(used)
        with state.lock:
            state.uses.discard(used)
            state.changed.notify_all()


@contextlib.contextmanager
def lock_file(path: str, mode: int = 0o600) -> Iterator[Use]:
    """Keep all other processes away from a ledger, and forks waiting.

    The turn at `path`, without symbolic links, must be this thread's. `mode` is of the
    file that is locked, where it has to be made. A LedgerError if another process keeps
    the lock for two minutes, or there can be none.
    """
    deadline, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    while True:
        with use() as used:
            check_wanted()
            if fcntl is None or _take(used, path, mode):
                check_wanted()  # again: whoever kept it may have given it up since
                yield used
                return
        if time.monotonic() > deadline:
            raise LedgerError(
                f"the ledger {path} was in use by another process for {PATIENCE:g} "
                "seconds; nothing was charged. Look for a process that is stopped"
            )
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_PAUSE)


def _take(used: Use, path: str, mode: int) -> bool:
    """Try once to lock the file beside a ledger, and the ledger."""
    name = path + _SUFFIX
    try:
        try:
            descriptor = _open(name, mode)
        except OSError:
            # Of those who may read the ledger alone, some may not read or make this.
            if (
                not _LOCKS_ITSELF
                or os.access(path, os.W_OK)
                or not os.access(path, os.R_OK)
            ):
                raise
        else:
            if not _locks(used, descriptor, name):
                return False
        if not (_LOCKS_ITSELF and os.path.exists(path)):
            return True
        return _locks(used, os.open(path, _FLAGS), path)
    except (BlockingIOError, FileExistsError):
        pass
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        if not (gone and os.path.isdir(os.path.dirname(path))):
            raise LedgerError(
                f"the ledger {path} can't be locked ({error}): it must lie on a local "
                f"disk of this host, and {name} must be a file that this user may "
                "read, or make"
            ) from error
    return False


def _locks(used: Use, descriptor: int, name: str) -> bool:
    """Lock an open file; return whether it still has its name."""
    used.locks.append(descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # Somebody may have deleted the file that was opened, and others lock a new one.
    return os.path.samestat(os.fstat(descriptor), os.stat(name))


def _open(name: str, mode: int) -> int:
    """Open a file for locking, or make it; neither links nor pipes are followed."""
    with contextlib.suppress(FileNotFoundError):
        return os.open(name, _FLAGS)
    descriptor = os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(descriptor, mode)  # whoever may use the ledger may lock it
    return descriptor


def _give_back(used: Use) -> None:
    """Unlock; in a forked child, leave the parent's lock alone."""
    while used.locks:
        # Explicitly: a child that was forked around Python holds the same open file.
        if not used.inherited:
            with contextlib.suppress(OSError):
                fcntl.flock(used.locks[-1], fcntl.LOCK_UN)
        os.close(used.locks.pop())


# -- forks -----------------------------------------------------------------------------


def _before_fork() -> None:
    """Wait until no other thread has a ledger open, and let none begin.

    A thread that forks in the middle of its own charge, as a finalizer may, cannot wait
    for itself: its child is refused (:meth:`Use.check`).
    """
    state = _current()
    state.forking.add(threading.get_ident())
    with state.lock:
        state.wait_until(lambda: not state.used_by_others())


def _after_in_parent() -> None:
    state = _current()
    state.forking.discard(threading.get_ident())
    with state.lock:
        state.changed.notify_all()


def _after_in_child() -> None:
    """Begin anew: no other thread came along, and nothing is held."""
    global _state
    _state = _state.begun_anew()


# Twice: Ctrl-C ends a hook, wherever it is, and Python goes on with the next one.
for _ in range(2 if hasattr(os, "register_at_fork") else 0):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_in_parent,
        after_in_child=_after_in_child,
    )
