"""Work that no handler of signals can break off.

Python runs handlers of signals in the main thread, between any two of its steps. One
that raises, as that of Ctrl-C does, may do so where a lock was taken and nothing gives
it back yet; one that asks for the same lock waits for itself. So what holds locks of a
ledger runs in a thread of its own while the main thread waits, and may be interrupted.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ._errors import LedgerError

P = ParamSpec("P")
T = TypeVar("T")
_LONGEST_WAIT = 0.05  # seconds; a forked child looks whether it lacks the thread
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

    Parameters
    ----------
    function : callable
        What takes locks. It sees no context variables of the caller.

    Returns
    -------
    callable
        The same. Called in the main thread, it runs in another one. If the wait for it
        is broken off it goes on, but takes no ledger that it has not got yet.
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
                thread.join(_LONGEST_WAIT)
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
