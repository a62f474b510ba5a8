"""Who may touch the file of a ledger: one thread of one process, and no fork meanwhile.

Locks are taken in this order, and given back in the other one:

1. the *turn* of this process at a file, which one thread has at a time;
2. a *use*, which forks of this process wait for: none of them may happen while a thread
   is inside SQLite or holds the third lock, since a child inherits both;
3. the file's lock among processes, an ``flock`` of a second file beside it. It does not
   end, as SQLite's own locks do, when something else in the process reads the ledger
   and closes it again.

A thread that waits for another process holds the first alone, so that nobody's fork
waits for another process.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from ._errors import LedgerError

try:
    import fcntl
except ImportError:  # Windows, where closing a file ends no other handle's locks
    fcntl = None  # type: ignore[assignment]

PATIENCE = 120.0  # seconds
_SUFFIX = "-lock"
_FORKED = (
    "this process was forked in the middle of a charge, by the very thread that "
    "charged: the charge is the parent's, and this process can't use that ledger any "
    "more"
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02


class Use:
    """A stretch of time in which this process has a ledger open."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self.thread = threading.get_ident()
        self.lock: int | None = None

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
        # Reentrant: a signal may be handled, and its handler fork, inside of it.
        self.changed = threading.Condition(threading.RLock())
        self.turns: dict[str, Use] = {}
        self.uses: set[Use] = set()
        self.waiting_forks = 0
        # Ledgers that SQLite takes to be open for ever in this process.
        self.lost: set[str] = set()

    def used_by_others(self) -> bool:
        here = threading.get_ident()
        return any(used.thread != here for used in self.uses)

    def may_begin(self) -> bool:
        """Whether a use need not let a fork go first, or is inside another use."""
        here = threading.get_ident()
        return not self.waiting_forks or any(u.thread == here for u in self.uses)


_state = _State()


def _current() -> _State:
    """Return this process's state, also after a fork that Python did not see."""
    global _state
    if _state.process != os.getpid():
        _state = _State()
    return _state


@contextlib.contextmanager
def turn(path: str) -> Iterator[None]:
    """Keep all other threads of this process away from a ledger.

    Parameters
    ----------
    path : str
        Its file, without symbolic links.

    Raises
    ------
    LedgerError
        If this thread has the turn already, as in the handler of a signal.
    """
    state, mine = _current(), Use()
    if path in state.lost:
        raise LedgerError(_FORKED)
    try:
        with state.changed:
            holder = state.turns.get(path)
            if holder is not None and holder.thread == mine.thread:
                raise LedgerError(
                    f"the ledger {path} is in the middle of a charge by this very "
                    "thread, which a signal or a finalizer has interrupted: charge it "
                    "from elsewhere"
                )
            state.changed.wait_for(lambda: path not in state.turns)
            state.turns[path] = mine
        yield
    finally:
        with state.changed:
            if state.turns.get(path) is mine:
                del state.turns[path]
            state.changed.notify_all()


@contextlib.contextmanager
def use() -> Iterator[Use]:
    """Keep forks of this process waiting, while SQLite is at work."""
    state, used = _current(), Use()
    try:
        with state.changed:
            state.changed.wait_for(state.may_begin)
            state.uses.add(used)
        yield used
    finally:
        with state.changed:
            state.uses.discard(used)
            state.changed.notify_all()


@contextlib.contextmanager
def locked(path: str, mode: int = 0o600) -> Iterator[Use]:
    """Keep all other processes away from a ledger, and forks waiting.

    Parameters
    ----------
    path : str
        Its file, without symbolic links; the turn must be this thread's.
    mode : int, default=0o600
        Permissions of the file that is locked, where it has to be made.

    Raises
    ------
    LedgerError
        If another process keeps the lock for two minutes, or there can be none.
    """
    deadline, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    while True:
        with use() as used:
            if fcntl is None or _take(used, path, mode):
                try:
                    yield used
                finally:
                    _give_back(used)
                return
        if time.monotonic() > deadline:
            raise LedgerError(
                f"the ledger {path} was in use by another process for {PATIENCE:g} "
                "seconds; nothing was charged. Look for a process that is stopped"
            )
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_PAUSE)


def _take(used: Use, path: str, mode: int) -> bool:
    """Try once to lock the file beside a ledger."""
    name = path + _SUFFIX
    try:
        used.lock = _open(name, mode)
        fcntl.flock(used.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody may have deleted the file that was opened, and others lock a new one.
        if os.path.samestat(os.fstat(used.lock), os.stat(name)):
            return True
    except (BlockingIOError, FileExistsError):
        pass
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        if not (gone and os.path.isdir(os.path.dirname(path))):
            _give_back(used)
            raise LedgerError(
                f"the ledger {path} can't be locked ({error}): it must lie on a local "
                f"disk of this host, and {name} must be a file that this user may "
                "read, or make"
            ) from error
    _give_back(used)
    return False


def _open(name: str, mode: int) -> int:
    """Open a file for locking, or make it; neither links nor pipes are followed."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(FileNotFoundError):
        return os.open(name, flags)
    descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(descriptor, mode)  # whoever may use the ledger may lock it
    return descriptor


def _give_back(used: Use) -> None:
    """Unlock; in a forked child, leave the parent's lock alone."""
    if used.lock is None:
        return
    # Explicitly: a child that was forked around Python holds the same open file.
    if not used.inherited:
        with contextlib.suppress(OSError):
            fcntl.flock(used.lock, fcntl.LOCK_UN)
    os.close(used.lock)
    used.lock = None


# -- forks -----------------------------------------------------------------------------


def _before_fork() -> None:
    """Wait until no other thread has a ledger open, and let none begin.

    A thread that forks in the middle of its own charge, as a handler of signals may,
    cannot wait for itself: its child is refused (:meth:`Use.check`).
    """
    _state.changed.acquire()
    _state.waiting_forks += 1
    _state.changed.wait_for(lambda: not _state.used_by_others())


def _after_in_parent() -> None:
    _state.waiting_forks -= 1
    _state.changed.notify_all()
    _state.changed.release()


def _after_in_child() -> None:
    """Begin anew: no other thread came along, and nothing is held."""
    global _state
    before, _state = _state, _State()
    _state.lost |= before.lost
    for used in before.uses:  # this very thread's
        _state.lost |= {
            path for path, t in before.turns.items() if t.thread == used.thread
        }
        if used.lock is not None:  # closing leaves the parent's lock alone
            os.close(used.lock)
            used.lock = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_in_parent,
        after_in_child=_after_in_child,
    )
