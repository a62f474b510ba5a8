"""What a ledger says: refusals, a summary, and its faults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from ...mechanisms import Assumption, PrivacyPlan
from .._errors import LedgerError, PrivacyBudgetError
from .._gaussian import MIN_DELTA
from .costs import (
    DEFAULT_DELTA,
    Budget,
    LedgerEntry,
    Relation,
    Share,
    Sums,
    as_float,
    budget_of,
    conversion_factor,
    digest_of,
    relation_of,
    separate_ledger,
)

if TYPE_CHECKING:
    from .store import Transaction


class Spent(NamedTuple):
    """A privacy cost: the smallest epsilon at this delta."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"epsilon={self.epsilon:.6g} at delta={self.delta:g}"


class Remaining(Spent):
    """What each of `n_fits` further fits may ask for; ``str()`` explains it."""

    n_fits: int
    standing: Standing
    failures: float
    pure: float

    def __str__(self) -> str:
        standing = self.standing
        if standing.budget is None:
            return "The ledger has no budget: fits of any epsilon are recorded."
        # Only here: the epsilon of some totals takes seconds.
        spent = standing.spent().epsilon
        return left_in_words(standing.budget, spent, self.epsilon, self.n_fits)


class Standing:
    """A ledger at one moment, by its terms and the sums of its entries."""

    def __init__(
        self, terms: dict[str, Any], sums: Sums, entries: Sequence[LedgerEntry] = ()
    ) -> None:
        self.terms, self.entries, self._sums = terms, tuple(entries), sums
        self.relation, self.budget = relation_of(terms), budget_of(terms)
        total, self.digest, delta = sums.total(), sums.digest, terms["delta"]
        if delta is None:  # several fits may fail more often than one allows for
            least = sums.least_delta or DEFAULT_DELTA
            delta = max(least, 2.0 * total.additive, MIN_DELTA)
        self.delta = min(delta, 1.0 - 2.0**-53)
        self.total = total._replace(mu=math.inf) if sums.seeded else total

    def spent(self, delta: float | None = None) -> Spent:
        """Return the total cost, which may take seconds."""
        delta = self.delta if delta is None else delta
        return Spent(self.total.epsilon(delta), delta)

    def remaining(self, n_fits: int = 1) -> Remaining:
        """Return what each of `n_fits` more Gaussian fits may ask for."""
        left, room, box = math.inf, Share(), self._sums.box
        if self.budget is not None:
            whole = n_fits == 1 and self._sums.empty  # it may be all of it
            left = self.budget.epsilon if whole else self.budget.remaining(box, n_fits)
            room = self.budget.room(box)
        found = Remaining(left, self.delta)
        found.n_fits, found.standing = n_fits, self
        found.failures, found.pure = as_float(room.failure), as_float(room.pure)
        return found


def floored(number: float) -> float:
    """Return a number rounded down to six digits."""
    if not math.isfinite(number):
        return number
    return float(Context(prec=6, rounding=ROUND_FLOOR).create_decimal(Decimal(number)))


def left_in_words(budget: Budget, spent: float, left: float, n_fits: int = 1) -> str:
    """Describe the spent budget, and what `n_fits` Gaussian fits may ask for."""
    fits = f"a fit of up to epsilon={floored(left):g} still fits"
    if n_fits > 1:
        fits = f"{n_fits} fits of up to epsilon={floored(left):g} each still fit"
    total = f"{budget.epsilon:g} at delta={budget.delta:g} is spent"
    fits = fits if left else "nothing remains"
    return f"epsilon={spent:.6g} of {total}; costs do not add up linearly, so {fits}."


def unlimited(plan: PrivacyPlan, budget: Budget) -> PrivacyBudgetError:
    """Return the error for a plan without a finite cost, or without secret noise."""
    said = (
        f"{plan.estimator} draws its noise from noise_seed, which gives no privacy "
        "and costs an infinite epsilon; leave noise_seed=None. Seeds are for tests "
        "and figures: charge them to a PrivacyAccountant without a budget"
    )
    if not plan.noisy:
        said = (
            f"{plan.estimator} with epsilon=None spends without limit, but this "
            "accountant has a budget; set epsilon to a number"
        )
    return PrivacyBudgetError(said, math.inf, budget.epsilon)


def refusal(
    plan: PrivacyPlan,
    times: int,
    budget: Budget,
    before: Share,
    after: Share,
    left: float,
    relation: Relation,
) -> PrivacyBudgetError:
    """Return the error for a charge that exceeds the budget, with its cause."""
    each = ("it", "each")[times > 1]
    fits = f"{times} fits of {plan.estimator}" if times > 1 else plan.estimator
    fit = f"a Gaussian fit of up to epsilon={floored(left):.6g} at delta="
    used, now, most = before.failure, after.failure, budget.corner.failure
    factor = conversion_factor(plan, relation)
    said = {
        f"{fits} would exceed the accountant's budget epsilon={budget.epsilon:g}, "
        f"delta={budget.delta:g}, and {each} asks for epsilon={plan.epsilon:.6g} at "
        f"delta={plan.delta:g}; nothing was charged.": True,
        "The cause is not epsilon: of delta, failures (rare categories, bounds of a "
        f"model, deltas of other tools) may use {as_float(most):.3g}, "
        f"{as_float(used):.3g} is used, and this would use {as_float(now - used):.3g}. "
        "For a new ledger, set PrivacyAccountant(failures=...).": now > most,
        f"Of the budget, {f'{fit}{budget.delta:g}' if left else 'nothing'} still "
        "fits.": True,
        f"Of epsilon, pure={budget.pure or 0.0:g} is kept for external charges; beyond "
        "it they cost as much as a Gaussian mechanism that covers them. For a new "
        "ledger, set PrivacyAccountant(pure=...).": any(
            curve.kind == "approximate-dp" for curve in plan.curves
        ),
        f"This ledger protects per {relation[0]} under {relation[1]}, and counts the "
        f"guarantee per {plan.unit} under {plan.neighbors} {factor:g} times; "
        f"{separate_ledger(plan)}.": factor != 1.0,
    }
    words = " ".join(text for text, holds in said.items() if holds)
    return PrivacyBudgetError(words, plan.epsilon, left)


# -- a ledger in words -----------------------------------------------------------------


def summary(standing: Standing) -> str:
    """Return a few sentences on a ledger."""
    n, spent, budget = len(standing.entries), standing.spent(), standing.budget
    unit = standing.relation and " per {}, {}".format(*standing.relation)
    said = [f"{n} entr{'y' if n == 1 else 'ies'}: {spent}{unit or ''}."]
    if budget is not None:
        left = standing.remaining().epsilon
        said.append(left_in_words(budget, spent.epsilon, left))
    return " ".join([*said, *conditions(standing.entries)])


def conditions(entries: tuple[LedgerEntry, ...]) -> list[str]:
    """Return sentences about the assumptions of a total."""
    said = []
    for one in sorted({e.assumption for e in entries} - {Assumption.NONE}):
        said.append(f"It holds only {one.condition}.")
    if any(entry.failure for entry in entries):
        said.append("A part of delta covers the failure of thresholds and bounds.")
    return said


def sentence(entry: LedgerEntry) -> str:
    """Describe an entry in a sentence or two."""
    label = "" if entry.label is None else f" for {entry.label!r}"
    try:
        said = " ".join(PrivacyPlan.from_json(entry.plan).sentences())
    except NotImplementedError as error:  # a kind of another release
        cost = f"epsilon={entry.epsilon:g}, delta={entry.delta:g} per {entry.unit}"
        said = f"{entry.estimator} has cost {cost} ({entry.neighbors}); {error}."
    except Exception as error:  # damage has errors of every type
        raise LedgerError(
            f"entry {entry.id} is damaged: its plan can't be read ({error})"
        ) from None
    when = f"{entry.time:%Y-%m-%d %H:%M:%S} UTC"
    return f"Entry {entry.id}, charged {when}{label}: {said}"


# -- an inspection ---------------------------------------------------------------------


def faults(locked: Transaction) -> Iterator[str]:
    """Yield what is wrong with a ledger, a sentence each, by adding all of it up."""
    sums, before, expected = Sums(), "", 1
    for row in locked.execute("SELECT * FROM entries ORDER BY id").fetchall():
        if row[0] != expected:
            yield f"entries {expected} to {row[0] - 1} are missing"
        if row[-1] != digest_of(before, row[:-1]):
            yield f"entry {row[0]} is not as it was entered: its digest differs"
        try:
            entry = LedgerEntry.of(row)
            PrivacyPlan.from_json(entry.plan)
            sums.add(entry)
        except Exception as error:  # damage has errors of every type
            yield f"entry {row[0]} can't be read ({type(error).__name__}: {error})"
        before, expected = row[-1], row[0] + 1
    facts = locked.execute("SELECT name, value, digest FROM facts").fetchall()
    for name, value, digest in facts:
        if digest != digest_of(name, [value]):
            yield f"{name.partition(' ')[0]!r} is not as it was left"
    if sums != locked.sums:
        yield "the stored sums do not match the entries"
