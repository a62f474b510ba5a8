"""Accountants of ``with`` blocks, and which of them a fit is charged to.

A block belongs to the context (:mod:`contextvars`) that opened it, and its copies.
Estimators note the block in which they are made, cloned or pickled, which is how
threads and processes find it. A fit that has neither is refused beside an open block of
another thread: it may belong to it, or not. Threads that joblib starts take the only
open ledger, since scikit-learn makes and clones estimators in them.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from ...mechanisms import PrivacyPlan
from .._errors import LedgerError

if TYPE_CHECKING:
    from .accountant import PrivacyAccountant

# What an estimator notes; an error where nobody can say which ledger is meant.
Noted: TypeAlias = "PrivacyAccountant | LedgerError | None"


class _Block:
    """One run of a ``with`` statement; of None it charges no ledger."""

    def __init__(self, accountant: PrivacyAccountant | None) -> None:
        self.accountant, self.ended = accountant, False
        self.process = os.getpid()


# Blocks of this context, innermost last; and open ones of all contexts, of which only
# single operations of a dict are used, without a lock.
_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("skdpspectral_blocks", default=())
_open: dict[_Block, None] = {}
_POOLS = ("threading", "multiprocessing")  # what begins threads of joblib


def open_block(accountant: PrivacyAccountant | None) -> None:
    """Make an accountant the default of this context, and of its later copies."""
    block = _Block(accountant)
    _blocks.set((*_blocks.get(), block))
    if accountant is not None:
        _open[block] = None


def close_block(accountant: PrivacyAccountant | None) -> None:
    """End the innermost block of an accountant, or its newest of another context."""
    own = [block for block in _blocks.get() if block.accountant is accountant]
    others = [block for block in list(_open) if block.accountant is accountant]
    for block in (own or others)[-1:]:
        block.ended = not own or accountant is None
        _open.pop(block, None)
        _blocks.set(tuple(other for other in _blocks.get() if other is not block))


@contextlib.contextmanager
def without_accountant() -> Iterator[None]:
    """Charge no ledger of a ``with`` block in this context, for synthetic data."""
    open_block(None)
    try:
        yield
    finally:
        close_block(None)


def _innermost() -> _Block | None:
    return next((b for b in reversed(_blocks.get()) if not b.ended), None)


def ambient_accountant(noted: Noted = None) -> PrivacyAccountant | None:
    """Return the accountant of the block that governs a fit, which `noted` one."""
    block = _innermost()
    # What a fork has inherited comes after what the estimator was sent with.
    if block is not None and (noted is None or block.process == os.getpid()):
        return block.accountant
    if isinstance(noted, LedgerError):
        raise noted
    if noted is not None:
        return noted
    handles = [b.accountant for b in list(_open) if b.accountant is not None]
    n_ledgers = len({handle._id for handle in handles})
    if n_ledgers > 1 or (n_ledgers == 1 and not _is_thread_of_joblib()):
        raise LedgerError(
            "an accountant was opened with `with` in another thread or task, to which "
            "this fit may belong or not: pass accountant=... to the estimator, make or "
            "clone it in the block, or run the fit in a copy of the block's context "
            "(contextvars.copy_context)"
        )
    return handles[0] if handles else None


def _is_thread_of_joblib() -> bool:
    """Return whether joblib runs this thread, by what is below all calls but pools'."""
    names = [f.f_globals.get("__name__", "") for f, _ in traceback.walk_stack(None)]
    roots = (name.partition(".")[0] for name in reversed(names))
    return next((root for root in roots if root not in _POOLS), "") == "joblib"


def block_at_hand(noted: Noted = None) -> Noted:
    """Return what an estimator notes when it is made or cloned, after `noted`."""
    block = _innermost()
    return noted if block is None else block.accountant


def accountant_to_send(noted: Noted = None) -> Noted:
    """Return what an estimator takes along when it is pickled."""
    try:
        return ambient_accountant(noted)
    except LedgerError as error:  # raised by a fit, which may never come
        return error.with_traceback(None)


# -- what a fit that fails has been charged --------------------------------------------

_charges: ContextVar[list[str] | None] = ContextVar("charges", default=None)


def note_charge(plan: PrivacyPlan, number: int) -> None:
    """Record a charge of the innermost fit of this context."""
    charges = _charges.get()
    if charges is not None:
        charges.append(f"epsilon={plan.epsilon:g} (entry {number})")


@contextlib.contextmanager
def says_what_stays_charged() -> Iterator[None]:
    """Add the charges of a fit to the message of an error that it raises."""
    charges: list[str] = []
    token = _charges.set(charges)
    try:
        yield
    except Exception as error:
        words = f"this fit stays charged: {' and '.join(charges)}"
        if charges and len(error.args) == 1 and type(error.args[0]) is str:
            said = error.args[0].rstrip()
            said = said if said.endswith("..") else said.removesuffix(".")
            error.args = (f"{said}; {words}",)
        elif charges and hasattr(error, "add_note"):  # Python 3.11
            error.add_note(words)
        raise
    finally:
        _charges.reset(token)
