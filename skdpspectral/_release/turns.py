"""Who may use an object: one process, and one of its threads at a time."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator


class Turns:
    """A lock that a thread which has it already is refused.

    A handler of a signal, or a finalizer, may ask for what its own thread is in the
    middle of. It cannot wait, and must not be let in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None

    @property
    def is_mine(self) -> bool:
        """Whether this thread has the turn."""
        return self._holder == threading.get_ident()

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Wait until no other thread has the turn, and have it.

        Raises
        ------
        RuntimeError
            If this thread has it.
        """
        if self.is_mine:
            raise RuntimeError(
                "this object is in the middle of a step by this very thread, which a "
                "signal or a finalizer has interrupted: it can be used, copied or "
                "pickled once the step has ended"
            )
        with self._lock:
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None


# Of this process alone: a forked child gets another one, whatever its number.
_process_mark = object()


def _renew_process_mark() -> None:
    global _process_mark
    _process_mark = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_process_mark)


class NoiseOwner:
    """What holds noise: in the process that made it, one thread at a time."""

    def __init__(self) -> None:
        self._settle()

    def _settle(self) -> None:
        """Belong to this process from now on."""
        self._home, self._turns = (os.getpid(), _process_mark), Turns()

    def is_forked(self) -> bool:
        """Whether another process made this object, and may use its noise."""
        return self._home != (os.getpid(), _process_mark)

    def check_process(self) -> None:
        """Refuse a forked copy: to be asked before any lock, which nobody may free.

        Raises
        ------
        RuntimeError
            If the process was forked since this object was made.
        """
        if self.is_forked():
            raise RuntimeError(
                "this release is a forked copy: both processes would draw the same "
                "noise, whose difference shows the data; begin a new fit, or send a "
                "stream with an accountant to another process by a pickle"
            )

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """Hold the noise; whatever draws does it in here."""
        self.check_process()
        with self._turns.take():
            self.check_process()
            yield
