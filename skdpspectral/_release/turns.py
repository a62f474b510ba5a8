"""Turns of threads at one object, which a thread never waits for itself."""

from __future__ import annotations

import contextlib
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
