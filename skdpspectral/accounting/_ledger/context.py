"""What a fit is charged to: accountants of ``with`` blocks, shares of a pipeline.

A block belongs to the context (:mod:`contextvars`) that opened it: to its thread or
task, and to what is started with a copy of that context. Estimators note the block in
which they are made, cloned or pickled, which is how threads and worker processes find
it. A fit that has neither is refused beside an open block of another thread: it may
belong to it, or be of other data. Threads that joblib starts take the only open ledger,
since scikit-learn makes and clones estimators in them. A step of a private pipeline has
a share of what the pipeline was charged, and releases that once.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ...mechanisms import PrivacyPlan
from .._errors import LedgerError, without_warnings

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


# -- shares of the charge of a pipeline ------------------------------------------------

# The beginning of the remark of a pipeline's charge. Statements know it by this.
SHARES_OF_STEPS = "Its steps have these shares of the cost (mu**2): "


# Largest relative excess of a cost over what was charged, by rounding.
_ROUNDING = 2.0**-41


class FormChecked(BaseException):
    """Ends a trial of a fit where it would be charged: its data have a valid form."""


class StepShare:
    """One step's part of the charge of a pipeline, for one fit of the step.

    The step plans with `epsilon`, infinite without privacy, and `delta`, or with a
    `noise_multiplier`. `charged` is the plan of its part. `n_samples` is None where the
    number of rows is secret. Copies of a step share it: one of them can be fitted.
    """

    def __init__(
        self,
        path: str,
        epsilon: float,
        delta: float,
        noise_multiplier: float | None = None,
        charged: PrivacyPlan | None = None,
        n_samples: int | None = None,
        users: Any = None,
    ) -> None:
        self.path, self.epsilon, self.delta = path, epsilon, delta
        self.noise_multiplier, self.charged = noise_multiplier, charged
        self.users = users
        self.plan: PrivacyPlan | None = None  # that of the fit, once it has begun
        self.before: Any = None  # the private step whose output this one is fitted to
        self._n_samples = n_samples
        self._process, self._lock = os.getpid(), threading.Lock()
        self.is_open, self._on_trial = True, False  # while the pipeline is fitted

    def close(self) -> None:
        """End the share: from now on the step has its own budget."""
        self.is_open, self.users = False, None

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Let a fit run until it would be charged."""
        self._on_trial = True
        try:
            with contextlib.suppress(FormChecked), without_warnings():
                yield
        finally:
            self._on_trial = False

    def claim(self, plan: PrivacyPlan, n_public: int | None) -> None:
        """Use the share for the releases of a fit; raise if they are others."""
        if self._process != os.getpid():
            raise RuntimeError(
                f"step {self.path!r} is fitted in a different process from its "
                "pipeline, which would repeat a release that was charged once: fit "
                "the pipeline in one process"
            )
        self.check(plan, n_public)
        if self._on_trial:
            raise FormChecked
        with self._lock:
            if self.plan is not None or not self.is_open:
                raise RuntimeError(
                    f"step {self.path!r} is fitted a second time in one fit of its "
                    "pipeline, which is charged for one: nothing more was released"
                )
            self.plan = plan

    def check(self, plan: PrivacyPlan, n_public: int | None) -> None:
        """Raise if a plan differs from the charge."""
        difference = next(self._differences(plan, n_public), None)
        if difference is not None:
            raise RuntimeError(
                f"step {self.path!r} would release something other than what was "
                f"charged: {difference}. None of it was released; do not change a "
                "step during the fit of its pipeline"
            )

    def _differences(self, plan: PrivacyPlan, n_public: int | None) -> Iterator[str]:
        """Describe how a plan differs from the charge."""
        charged = self.charged
        assert charged is not None
        for name in ("unit", "neighbors", "assumption", "seeded", "failure"):
            found, planned = getattr(plan, name), getattr(charged, name)
            if found != planned:
                yield f"{name}={found} instead of {planned}"
        if n_public is not None and self._n_samples not in (None, n_public):
            yield f"it has {n_public} rows, but the pipeline has {self._n_samples}"
        mu, planned = plan.mu_beside_curves, charged.mu_beside_curves
        if not mu <= planned * (1.0 + _ROUNDING):
            yield f"mu={mu!r} instead of {planned!r}"
        for curve, most in itertools.zip_longest(plan.curves, charged.curves):
            # Of the noise, as much as was planned but for rounding is enough.
            noise = getattr(curve, "noise_multiplier", 0.0)
            planned = getattr(most, "noise_multiplier", math.inf)
            if noise < planned * (1.0 - _ROUNDING):
                yield f"its noise multiplier is {noise!r} instead of {planned!r}"
            of_steps = replace(curve, name="", noise_multiplier=planned)
            if of_steps != replace(most, name=""):
                yield "it has other samples or steps"

    def __copy__(self, memo: Any = None) -> StepShare:
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a share of a pipeline's budget cannot be pickled")
