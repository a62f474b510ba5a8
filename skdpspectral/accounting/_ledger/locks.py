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
    """A call that runs in a thread of its own."""

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
        """Return the result, or raise the error, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        if not self._finished:  # the thread is the parent's
            raise LedgerError(
                "this process was forked in the middle of a charge, by a signal "
                "handler: the charge belongs to the parent, not to this process"
            )
        return self._result


def uninterrupted(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that signal handlers interrupt only its caller.

    In the main thread, the function runs in another thread, without the caller's
    context variables. If the wait is interrupted it continues, but acquires no further
    ledger.
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
    """Return this thread, and the thread that waits for it."""
    return getattr(_here, "threads", frozenset()) | {threading.get_ident()}


def check_wanted() -> None:
    """Raise if nobody waits for the result any more."""
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
    "this process was forked in the middle of a charge, by the thread that made the "
    "charge: the charge belongs to the parent, and this process can no longer use "
    "that ledger"
)

_PAUSES = 0.0005, 0.02
_LONGEST_LOCK_WAIT = 0.1


class Use:
    """A period during which this process has a ledger open."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self.thread = threading.get_ident()
        self.threads = threads_here()
        self.locks: list[int] = []

    def check(self) -> None:
        """Raise in a child that was forked during the use."""
        if self.inherited:
            raise LedgerError(_FORKED)

    @property
    def inherited(self) -> bool:
        """Whether a fork inherited this use."""
        return self._process != os.getpid()


class _State:
    """The use of ledgers by this process's threads; guarded by `changed`."""

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
        """Wait for a condition with `lock`, also polling it."""
        while not condition():
            self.changed.wait(_LONGEST_LOCK_WAIT)

    def may_begin(self) -> bool:
        """Return whether a use may start: no fork waits, or it is nested."""
        here = threads_here()
        return not self.forking or any(u.thread in here for u in self.uses)

    def begun_anew(self) -> _State:
        """Return the state of a forked child, with this thread only.

        Uses of other threads are lost: SQLite considers them open.
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
    """Return this process's state, also after a fork that bypassed Python."""
    global _state
    if _state.process != os.getpid():
        _state = _state.begun_anew()
    return _state


@contextlib.contextmanager
def turn(path: str) -> Iterator[None]:
    """Lock a ledger's real path among this process's threads.

    Raises a LedgerError if this thread holds the lock, as in a signal handler.
    """
    state, mine = _current(), Use()
    if path in state.lost:
        raise LedgerError(_FORKED)
    try:
        with state.lock:
            holder = state.turns.get(path)
            if holder is not None and holder.thread in mine.threads:
                raise LedgerError(
                    f"the ledger {path} is in the middle of a charge by this same "
                    "thread: a signal handler or a finalizer must not charge it"
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
    """Delay forks while SQLite is in use."""
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


def attempts(path: str, pause: float, longest: float) -> Iterator[None]:
    """Yield between growing pauses; raise a LedgerError after two minutes."""
    deadline = time.monotonic() + PATIENCE
    while True:
        yield
        if time.monotonic() > deadline:
            raise LedgerError(
                f"the ledger {path} was in use by another process for {PATIENCE:g} "
                "seconds; nothing was charged. Look for a suspended process"
            )
        time.sleep(pause)
        pause = min(1.5 * pause, longest)


@contextlib.contextmanager
def lock_file(path: str, mode: int = 0o600) -> Iterator[Use]:
    """Lock a ledger among processes, and delay forks.

    The turn at `path`, without symbolic links, must be this thread's. `mode` applies if
    the lock file is created. Raises a LedgerError if another process keeps the lock for
    two minutes, or there can be none.
    """
    for _ in attempts(path, *_PAUSES):
        with use() as used:
            check_wanted()
            if fcntl is None or _take(used, path, mode):
                check_wanted()  # again: whoever kept it may have given it up since
                yield used
                return


def _take(used: Use, path: str, mode: int) -> bool:
    """Try once to lock the lock file, and the ledger."""
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
                f"the ledger {path} can't be locked ({error}): it must be on a local "
                f"disk of this host, and {name} must be a file that this user can "
                "read or create"
            ) from error
    return False


def _locks(used: Use, descriptor: int, name: str) -> bool:
    """Lock an open file; return whether it still has its name."""
    used.locks.append(descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # Somebody may have deleted the file that was opened, and others lock a new one.
    return os.path.samestat(os.fstat(descriptor), os.stat(name))


def _open(name: str, mode: int) -> int:
    """Open or create a lock file, without following links or pipes."""
    with contextlib.suppress(FileNotFoundError):
        return os.open(name, _FLAGS)
    descriptor = os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(descriptor, mode)  # whoever may use the ledger may lock it
    return descriptor


def _give_back(used: Use) -> None:
    """Unlock; in a forked child, keep the parent's lock."""
    while used.locks:
        # Explicitly: a child that was forked around Python holds the same open file.
        if not used.inherited:
            with contextlib.suppress(OSError):
                fcntl.flock(used.locks[-1], fcntl.LOCK_UN)
        os.close(used.locks.pop())


# -- forks -----------------------------------------------------------------------------


def _before_fork() -> None:
    """Wait until no other thread has a ledger open, and block new uses.

    A thread that forks during its own charge, in a finalizer, cannot wait for itself:
    its child is refused (:meth:`Use.check`).
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
    """Reset the state: there are no other threads and no locks."""
    global _state
    _state = _state.begun_anew()


# Twice: Ctrl-C ends a hook, wherever it is, and Python goes on with the next one.
for _ in range(2 if hasattr(os, "register_at_fork") else 0):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_in_parent,
        after_in_child=_after_in_child,
    )
