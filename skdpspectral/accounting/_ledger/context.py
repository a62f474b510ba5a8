"""Accountants of ``with`` blocks: which of them a fit is charged to.

A block belongs to the context (:mod:`contextvars`) that opened it, so to one task of
asyncio and to one thread, and to what is started with a copy of that context inside
of it: tasks, ``asyncio.to_thread``, ``copy_context().run``. The value of the variable
is immutable; a copy never sees blocks that are opened or closed elsewhere.

Threads as such begin with an empty context (before Python 3.14), also those of joblib
and of executors: nothing says who started them, and a fit must not go uncharged for
that. So where a context has no block, those of others count, if they leave no doubt;
otherwise the fit is refused. The rules, in this order:

1. the innermost open block of this context, opened here or before it was copied;
2. the block in which the estimator was made or cloned, while that is open;
3. what the estimator brought along from another process, where it was pickled;
4. a block of this context that a fork has inherited;
5. a block in which this context was copied and that has ended since (what began inside
   is charged to it), and the open blocks of other contexts: the innermost, if all are
   of one ledger, or if one flow of control has opened them; otherwise an error. Of
   handles of one ledger that several flows have opened, one that lets no seeds in;
6. the same for blocks of other contexts that a fork has inherited;
7. the block in which the estimator was made or cloned and that has ended since, unless
   it was this thread or task that opened it, and knows: an executor may come to a fit
   when the block that it was asked for in is over.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from ...mechanisms import PrivacyPlan
from .._errors import LedgerError

if TYPE_CHECKING:
    from .accountant import PrivacyAccountant


# A handle, or None where nothing is charged, and the process that it is from; or why
# none can be named.
SentAccountant: TypeAlias = "tuple[PrivacyAccountant | None, str]"
SentError: TypeAlias = tuple[LedgerError, str]
_names: dict[int, str] = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_names.clear)


def process_name() -> str:
    """Return a globally unique name of this process."""
    name = _names.get(os.getpid())
    return name or _names.setdefault(os.getpid(), uuid.uuid4().hex)


def _flow() -> tuple[weakref.ref[Any], ...]:
    """Identify a flow of control: a thread, and a task in it.

    It holds no strong references, and no later thread has the same identity.
    """
    parts: list[weakref.ref[Any]] = [weakref.ref(threading.current_thread())]
    if "asyncio" in sys.modules:
        with contextlib.suppress(AttributeError, RuntimeError, TypeError):
            parts.append(weakref.ref(sys.modules["asyncio"].current_task()))
    for part in parts:
        hash(part)  # which it keeps, and could not find later
    return tuple(parts)


class _Block:
    """One run of a ``with`` statement, compared by identity; None charges nothing."""

    def __init__(self, handle: PrivacyAccountant | None) -> None:
        self.handle, self.process, self.flow = handle, process_name(), _flow()
        self.open = True

    @property
    def ours(self) -> bool:
        """Whether this process opened it, rather than inheriting it by a fork."""
        return self.process == process_name()


# Blocks of this context, innermost last.
_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("skdpspectral_blocks", default=())

# Open blocks of all contexts, oldest first. Only single operations of a dict touch it:
# they need no lock, which a fork could inherit.
_everywhere: dict[_Block, None] = {}


def open_block(handle: PrivacyAccountant) -> None:
    """Make a handle the default of this context, and of its later copies."""
    block = _Block(handle)
    _everywhere[block] = None
    _blocks.set((*_blocks.get(), block))


def close_block(handle: PrivacyAccountant) -> None:
    """End the innermost block of this handle.

    A generator or fixture may be resumed in another context: then the newest block of
    the handle ends.
    """
    own = [block for block in _blocks.get() if block.handle is handle]
    others = [block for block in list(_everywhere) if block.handle is handle]
    for candidates in ([block for block in own if block.open], others, own):
        if candidates:
            return _end(candidates[-1])


def _end(block: _Block) -> None:
    block.open = False
    _everywhere.pop(block, None)
    _blocks.set(tuple(other for other in _blocks.get() if other is not block))


@contextlib.contextmanager
def without_accountant() -> Iterator[None]:
    """Charge no ledger of a ``with`` block in this context, for synthetic data.

    It also ends for copies of the context, and does not apply to threads started
    inside.
    """
    nobody = _Block(None)
    _blocks.set((*_blocks.get(), nobody))
    try:
        yield
    finally:
        _end(nobody)


def _own_block(ours: bool) -> _Block | None:
    """Return the innermost open block of this context, ours or inherited by a fork."""
    found = [b for b in _blocks.get() if b.open and b.ours is ours]
    return found[-1] if found else None


def _block_elsewhere(ours: bool) -> _Block | None:
    """Return the block that governs a context without an open one, or raise."""
    ended = [b for b in _blocks.get() if b.handle is not None and b.ours is ours]
    opened = [b for b in list(_everywhere) if b.ours is ours]
    candidates = ended[-1:] + opened
    ledgers = {block.handle._id for block in candidates if block.handle is not None}
    flows = {block.flow for block in candidates}
    if len(ledgers) > 1 and (ended or len(flows) > 1):
        raise LedgerError(
            "several threads or tasks have opened accountants with `with`, but this "
            "one has not: pass the estimator its accountant as a parameter, or run it "
            "in a copy of the right context (contextvars.copy_context)"
        )
    if len(flows) > 1:
        # What is charged to a guess of a handle may not be let in by one.
        handles = ((b, b.handle) for b in candidates)
        strict = [b for b, h in handles if h is not None and not h.allow_seeded]
        candidates = strict or candidates
    return candidates[-1] if candidates else None


def default_accountant() -> PrivacyAccountant | None:
    """Return the accountant of the governing ``with`` block, or None."""
    governing = ambient_accountant()
    return None if governing is None else governing[0]


def block_at_hand() -> _Block | None:
    """Return the open block of this context, for an estimator to store."""
    return _own_block(ours=True)


def accountant_to_send(
    sent: SentAccountant | SentError | None = None, made_in: _Block | None = None
) -> SentAccountant | SentError | None:
    """Return the block that an estimator takes to another process, or an error.

    Where :func:`ambient_accountant` raises, the error is sent and raised only by a fit:
    estimators may be pickled without ever being fitted.
    """
    try:
        return ambient_accountant(sent, made_in)
    except LedgerError as error:
        if sent is not None and error is sent[0]:
            return sent  # a doubt of the process that it came from
        return error.with_traceback(None), process_name()


def ambient_accountant(
    sent: SentAccountant | SentError | None = None, made_in: _Block | None = None
) -> SentAccountant | None:
    """Find the block that governs an estimator, by the rules of this module.

    `sent` is what the estimator brought when it was unpickled, `made_in` the result of
    :func:`block_at_hand` when it was made or cloned. Returns a handle, None under
    :func:`without_accountant`, and the name of its process; or None without a block.
    Raises a LedgerError if several ledgers are possible, and none is this context's.
    """
    block = _own_block(ours=True)
    if made_in is not None and not made_in.ours:
        made_in = None
    if block is None and made_in is not None and made_in.open:
        block = made_in
    if block is None and sent is not None and sent[1] != process_name():
        found, process = sent
        if isinstance(found, LedgerError):
            raise found
        return found, process
    for find, ours in (
        (_own_block, False),
        (_block_elsewhere, True),
        (_block_elsewhere, False),
    ):
        block = find(ours) if block is None else block
    if block is None and made_in is not None and made_in.flow != _flow():
        block = made_in
    return None if block is None else (block.handle, block.process)


# -- what a fit that fails has been charged --------------------------------------------


_Charges = list[tuple[Sequence[PrivacyPlan], Sequence[int]]]
_charges: ContextVar[_Charges | None] = ContextVar("skdpspectral_charges", default=None)


def note_charge(plans: Sequence[PrivacyPlan], numbers: Sequence[int]) -> None:
    """Record the charges of the innermost fit of this context."""
    charges = _charges.get()
    if charges is not None and numbers:
        charges.append((plans, numbers))


@contextlib.contextmanager
def says_what_stays_charged() -> Iterator[None]:
    """Add the charges of a fit to an error that it raises."""
    charges: _Charges = []
    token = _charges.set(charges)
    try:
        yield
    except Exception as error:
        if charges:
            _append(error, f"this fit stays charged: {_stated(charges)}")
        raise
    finally:
        _charges.reset(token)


def _stated(charges: _Charges) -> str:
    return " and ".join(
        f"epsilon={max(plan.epsilon for plan in plans):g} ({_entries(numbers)})"
        for plans, numbers in charges
    )


def _entries(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return f"entry {first}" if first == last else f"entries {first} to {last}"


def _append(error: Exception, words: str) -> None:
    """Append to the message of an error, or add a note if it has no message."""
    if len(error.args) == 1 and isinstance(error.args[0], str):
        said = error.args[0].rstrip()
        if not said.endswith(".."):
            said = said.removesuffix(".")
        error.args = (f"{said}; {words}",)
    elif hasattr(error, "add_note"):  # Python 3.11
        error.add_note(words)
