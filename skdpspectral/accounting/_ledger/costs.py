r"""What a plan costs a ledger, the filter that decides what still fits, and words.

A ledger with a budget fixes a *box* before anything is released: D for probabilities of
failure, E for epsilons of pure differential privacy, and the largest M with
:math:`D + (1 - D)\, \delta_M(\epsilon - E) \le \delta`. An entry is admitted while
each of three exact sums stays within the box, whatever results it was chosen by
(:ref:`lemma-box-filter`). :class:`Sums` adds entries up: one fold, with no input or
output. An entry has a digest of itself and of the one before, by which damage and
careless edits are found; those who may write can compute them anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from ...mechanisms import (
    ApproximateDP,
    Assumption,
    Neighbors,
    ParallelPlan,
    PrivacyPlan,
    Unit,
    check_real,
)
from ...mechanisms._plan import Curve, Mechanism
from .._composition import Total, is_within, least_mu, pairs_of, pure_mu
from .._errors import LedgerError, PrivacyBudgetError
from .._gaussian import MIN_DELTA, gaussian_epsilon, gaussian_mu

if TYPE_CHECKING:
    from .store import Transaction

Relation = tuple[Unit, Neighbors]
Exact = Fraction | float  # a float is infinity

# More than the rounding of two inverses, and no more than calibration leaves free.
ROUNDING = 2.0**-41
DEFAULT_DELTA = 1e-6
# Part of delta for failures by default: it costs Gaussian mechanisms .4 to .5 % of mu.
FAILURES = 0.1
_CLOSE, _MOST_STEPS, _FALL = 1.0 + 2.0**-24, 40, 2.0**-8  # of the search for d
_MOST_DELTA = math.nextafter(1.0, 0.0)


def exact(number: float) -> Exact:
    """Return a float as a fraction; infinity unchanged."""
    return number if number == math.inf else Fraction(number)


def as_float(number: Exact) -> float:
    """Return the nearest float; infinity on overflow."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


class Share(NamedTuple):
    """The use of a box: squared mu, probability of failure, pure epsilon."""

    mu2: Exact = Fraction(0)
    failure: Exact = Fraction(0)
    pure: Exact = Fraction(0)


def cost_of(plan: PrivacyPlan, relation: Relation | None = None) -> Total:
    """Return the cost of a plan for a ledger's relation, by default its own."""
    if isinstance(plan, ParallelPlan):  # disjoint blocks cost as much as the costliest
        costs = [cost_of(block, relation) for _, block in plan.blocks]
        return Total(max(c.mu for c in costs), max(c.failure for c in costs))
    factor = 1.0 if relation is None else conversion_factor(plan, relation)
    curves = Counter(replace(restated(c, factor), name="") for c in plan.curves)
    return Total(factor * plan.mu_beside_curves, plan.failure, tuple(curves.items()))


_ROW, _USER = Unit.ROW, Unit.USER
_REPLACE = Neighbors.REPLACE_ONE
_ADD = Neighbors.ADD_REMOVE_ONE
_ZERO = Neighbors.ZERO_OUT_ONE

# (from) -> (to): a change of the second kind is a chain of so many of the first. A row
# that is replaced may change its user, if all users stay: two users' data change.
_CHAIN = {
    (_ROW, _ADD, _ROW, _REPLACE): 2.0,
    (_ROW, _ZERO, _ROW, _REPLACE): 2.0,
    (_USER, _ADD, _USER, _REPLACE): 2.0,
    (_USER, _ZERO, _USER, _REPLACE): 2.0,
    (_USER, _REPLACE, _ROW, _REPLACE): 2.0,
    (_USER, _ADD, _ROW, _REPLACE): 4.0,
    (_USER, _ZERO, _ROW, _REPLACE): 4.0,
    (_USER, _ADD, _ROW, _ADD): 2.0,
}


def relation_factor(
    unit: Unit, neighbors: Neighbors, to_unit: Unit, to_neighbors: Neighbors
) -> float | None:
    """Return the length of a chain of neighbors, a factor of mu; None without one."""
    if (unit, neighbors) == (to_unit, to_neighbors):
        return 1.0
    key = Unit(unit), Neighbors(neighbors), Unit(to_unit), Neighbors(to_neighbors)
    return _CHAIN.get(key)


def conversion_factor(plan: PrivacyPlan, relation: Relation) -> float:
    """Return the length of a chain of the plan's changes, 1, 2 or 4, or raise."""
    factor = relation_factor(plan.unit, plan.neighbors, *relation)
    if factor is None or (factor != 1.0 and plan.failure):
        cure = separate_ledger(plan)
        if plan.unit is relation[0] is _USER:
            cure = f"fit all with neighbors='{plan.neighbors}', or {cure}"
        raise LedgerError(
            f"{plan.estimator} is private per {plan.unit} under {plan.neighbors}"
            f"{', but for a probability of failure' * bool(plan.failure)}, which "
            f"implies nothing per {relation[0]} under {relation[1]}, the relation of "
            f"this ledger; {cure}"
        )
    return factor


def separate_ledger(plan: PrivacyPlan) -> str:
    """Return the remedy for a plan of another unit or relation."""
    return (
        "use a separate ledger, accountant=PrivacyAccountant("
        f"epsilon={plan.epsilon:g}, delta={plan.delta:g}, unit='{plan.unit}', "
        f"neighbors='{plan.neighbors}')"
    )


def restated(curve: Curve, factor: float) -> Curve:
    """Return the guarantee for a chain of k = 1, 2 or 4 changes; samples help one."""
    if factor == 1.0:
        return curve
    if isinstance(curve, ApproximateDP):
        terms = (math.exp(min(i * curve.epsilon, 700.0)) for i in range(int(factor)))
        # A term at its cap makes 1 or more of any delta but 0, even of subnormal ones.
        least = curve.delta and max(curve.delta, 1e-300)
        delta = min(sum(terms) * least * (1.0 + 2.0**-40), _MOST_DELTA)
        return replace(curve, epsilon=factor * curve.epsilon, delta=delta)
    if factor == 2.0 and not curve.replaced:
        return replace(curve, replaced=True)
    noise = curve.noise_multiplier * (1.0 if curve.replaced else 2.0) / factor
    return replace(
        curve, sampling_probability=1.0, noise_multiplier=noise, replaced=True
    )


def curve_text(curve: Curve) -> str:
    """Return a text of all that determines a mechanism's cost."""
    fields = {"kind": curve.kind, **asdict(curve)}
    del fields["name"]
    return json.dumps(fields, sort_keys=True)


def curve_of(text: str) -> Curve:
    """Read what :func:`curve_text` wrote."""
    fields = json.loads(text)
    kind = fields.pop("kind")
    if kind not in Mechanism.kinds:
        raise LedgerError(f"this release of skdpspectral knows no mechanism {kind!r}")
    curve: Curve = Mechanism.kinds[kind](name="", **fields)
    return curve


@functools.lru_cache(maxsize=64)
def _corner(epsilon: float, delta: float, failures: float, pure: float) -> Share:
    """Return the largest sums of a budget. A cached property would hold a lock."""
    left, limit = (delta - failures) / (1.0 - failures), 0.0
    if delta >= failures and epsilon >= pure and left >= MIN_DELTA:
        limit = gaussian_mu(epsilon - pure, left)
    most = Fraction(limit * (1.0 + ROUNDING)) ** 2
    return Share(most, Fraction(failures), Fraction(pure))


@dataclass(frozen=True)
class Budget:
    """A limit, and its box; `pure` is None until the first charge fixes it."""

    epsilon: float
    delta: float
    failures: float
    pure: float | None = None

    @property
    def corner(self) -> Share:
        """The largest sums."""
        return _corner(self.epsilon, self.delta, self.failures, self.pure or 0.0)

    def fixed_by(self, cost: Total) -> Budget:
        """Return the budget in which pairs of the first charge fix `pure`."""
        if self.pure is not None:
            return self
        pairs = pairs_of(cost.curves) or ()
        total = math.fsum(n * pair.epsilon for pair, n in pairs)
        total = math.nextafter(total, math.inf) if len(cost.curves) > 1 else total
        return replace(self, pure=total if total <= self.epsilon else 0.0)

    def admits(self, spent: Share) -> bool:
        """Return whether these sums are within the box."""
        return bool(self.corner.mu2) and all(map(operator.le, spent, self.corner))

    def covers(self, cost: Total) -> bool:
        """Return whether one cost, fixed in advance, is within epsilon and delta."""
        left = self.delta - cost.failure
        limit = gaussian_mu(self.epsilon, left) if left >= MIN_DELTA else 0.0
        alone = least_mu(cost.mu, cost.curves, 0.0) if cost.curves else cost.mu
        if limit > 0.0 and alone <= limit * (1.0 + ROUNDING):
            return True
        return bool(cost.curves) and is_within(cost.mu, cost.curves, self.epsilon, left)

    def room(self, spent: Share) -> Share:
        """Return what is left; zeros if one sum exceeds its limit."""
        left = [most - own for most, own in zip(self.corner, spent, strict=True)]
        return Share(*left) if min(left) >= 0 else Share()

    def remaining(self, spent: Share, n_fits: int = 1) -> float:
        """Return the epsilon that each of `n_fits` more Gaussian fits may ask for."""
        spare = math.sqrt(as_float(self.room(spent).mu2) / n_fits)
        return gaussian_epsilon(spare, self.delta)

    def share_of(self, cost: Total, room: Share, n: int = 1) -> Share:
        """Return the part of `room` that `n` successive fits take."""
        own, pairs = Fraction(cost.failure), pairs_of(cost.curves)
        if pairs is None:
            # Where d can be chosen, k equal fits that use everything use D / k each.
            left = as_float(room.mu2), as_float(room.failure - own)
            m, d = _balanced(cost, *left)
            return Share(n * exact(m) ** 2, n * (own + Fraction(d)))
        deltas = sum((k * Fraction(p.delta) for p, k in pairs), Fraction(0))
        pure = sum((k * Fraction(p.epsilon) for p, k in pairs), Fraction(0))
        within = min(n, room.pure // pure) if pure else 0
        m = math.hypot(cost.mu, *(math.sqrt(k) * pure_mu(p.epsilon) for p, k in pairs))
        squares = within * exact(cost.mu) ** 2 + (n - within) * exact(m) ** 2
        return Share(squares, n * (own + deltas), within * pure)


def _balanced(cost: Total, left: float, failures: float) -> tuple[float, float]:
    """Return (m, d) with m**2 / left at most, and close to, d / failures."""

    def found(d: float) -> tuple[float, float]:
        """Return m at d, and the d that its m would be right for, which falls in d."""
        m = least_mu(cost.mu, cost.curves, d)
        return m, failures * (m * m / left)

    without = least_mu(cost.mu, cost.curves, 0.0)
    if not (left > 0.0 and failures > 0.0):
        return without, 0.0
    high = math.nextafter(failures, 0.0)  # its conversion to a float may have gone up
    m, low = found(high)
    for _ in range(_MOST_STEPS if low <= high else 0):
        if high <= low * _CLOSE:
            break
        middle = min(found(low)[1], math.sqrt(low * high)) if low else high * _FALL
        m_middle, right = found(middle)
        if right <= middle:
            m, high, low = m_middle, middle, max(low, right)
        else:
            low = middle
    return (without, 0.0) if without <= m else (m, high)


def budget_of(terms: dict[str, Any]) -> Budget | None:
    """Return the budget of a ledger by its terms."""
    if terms["epsilon"] is None:
        return None
    return Budget(*(terms[n] for n in ("epsilon", "delta", "failures", "pure")))


def relation_of(terms: dict[str, Any]) -> Relation | None:
    """Return the relation of a ledger by its terms."""
    if terms["unit"] is None:
        return None
    return Unit(terms["unit"]), Neighbors(terms["neighbors"])


# -- plans that are given --------------------------------------------------------------


def check_plans(what: Any) -> list[PrivacyPlan]:
    """Return one or several plans as a list; refuse what claims less than it costs."""
    several = isinstance(what, Iterable) and not isinstance(what, PrivacyPlan)
    plans = list(what) if several else [what]
    if not plans:
        raise ValueError("plan must be one PrivacyPlan or several, got none")
    for plan in plans:
        if not isinstance(plan, PrivacyPlan):
            raise TypeError(
                "plan must be one PrivacyPlan, as returned by privacy_plan(n_samples, "
                f"n_features), or several; got an object of type {type(plan).__name__}"
            )
        if not _is_as_claimed(plan):
            raise ValueError(
                f"plan claims epsilon={plan.epsilon:g}, delta={plan.delta:g}, but its "
                "mechanisms cost more; calibrate them to this budget"
            )
    return plans


def _is_as_claimed(plan: PrivacyPlan) -> bool:
    """Return whether the mechanisms of a plan cost no more than it claims."""
    epsilon = check_real("epsilon", plan.epsilon)
    if len(plan.mechanisms) == 1 and isinstance(plan.mechanisms[0], ApproximateDP):
        pair = plan.mechanisms[0]
        return pair.epsilon <= epsilon and pair.delta + plan.failure <= plan.delta
    gaussian_mu(epsilon, plan.delta)  # refuses what is out of range
    if not all(_is_as_claimed(block) for _, block in getattr(plan, "blocks", ())):
        return False
    return not plan.mechanisms or Budget(epsilon, plan.delta, 0.0).covers(cost_of(plan))


# -- entries and their sums ------------------------------------------------------------


class LedgerEntry(NamedTuple):
    """One entry of a ledger; ``pandas.DataFrame(accountant.ledger)`` is a table.

    Parameters
    ----------
    id : int
        Number of the entry.
    time : datetime
        Time of the charge in UTC, by this host's clock.
    estimator : str
        What was fitted.
    label : str or None
        Label of the handle that was charged.
    epsilon, delta, mu : float
        The guarantee of the fit alone.
    ledger_mu, failure : float
        Cost of its Gaussian mechanisms for the ledger's unit and relation, and the
        probability that a model's bounds or a threshold fail.
    unit, neighbors, assumption, seeded
        As in the plan.
    plan : str
        All details, for :meth:`~skdpspectral.mechanisms.PrivacyPlan.from_json`.
    curves : str
        JSON of the mechanisms that are not Gaussian, with counts. `ledger_mu` is the
        cost of all others.
    share : str
        Use of the budget: squared mu, failure and pure epsilon, as fractions; empty
        without a budget.
    digest : str
        Digest of this and all earlier entries.
    """

    id: int
    time: datetime
    estimator: str
    label: str | None
    epsilon: float
    delta: float
    mu: float
    ledger_mu: float
    failure: float
    unit: Unit
    neighbors: Neighbors
    assumption: Assumption
    seeded: bool
    plan: str
    curves: str
    share: str
    digest: str

    @classmethod
    def of(cls, row: Iterable[Any]) -> LedgerEntry:
        """Return an entry from a row of the table."""
        row = list(row)
        try:
            entry = cls(*row)
            return entry._replace(
                time=datetime.fromtimestamp(entry.time, timezone.utc),  # type: ignore
                unit=Unit(entry.unit),
                neighbors=Neighbors(entry.neighbors),
                assumption=Assumption(entry.assumption),
                seeded=bool(entry.seeded),
            )
        except (OSError, OverflowError, TypeError, ValueError) as error:
            said = f"entry {row[0]} is damaged, or its host's clock is wrong: {error}"
            raise LedgerError(said) from None

    @property
    def kinds(self) -> list[str]:
        """Kinds of mechanisms that are not Gaussian."""
        return sorted({json.loads(text)["kind"] for text, _ in json.loads(self.curves)})

    @property
    def charged(self) -> tuple[float, float, float] | None:
        """Mu, failure and pure epsilon that it took of the budget, None without one."""
        if not self.share:
            return None
        squared, failure, pure = map(as_float, numbers_of(self.share))
        return math.sqrt(squared), failure, pure


# Of the table of entries, in the order of LedgerEntry.
_REAL = ("time", "epsilon", "delta", "mu", "ledger_mu", "failure")
_KINDS = {"id": "INTEGER PRIMARY KEY", "seeded": "INTEGER NOT NULL", "label": "TEXT"}
_KINDS |= dict.fromkeys(_REAL, "REAL NOT NULL")
COLUMNS = {name: _KINDS.get(name, "TEXT NOT NULL") for name in LedgerEntry._fields}


def new_row(
    number: int,
    before: str,
    time: float,
    plan: PrivacyPlan,
    cost: Total,
    share: Share | None,
    label: str | None,
    times: int = 1,
) -> tuple[Any, ...]:
    """Return the row of an entry for `times` fits of a plan."""
    curves = [[curve_text(curve), n * times] for curve, n in cost.curves]
    values: list[Any] = [number, float(time), plan.estimator, label]
    values += [float(plan.epsilon), float(plan.delta), float(plan.mu)]
    values += [math.sqrt(times) * cost.mu, min(times * float(cost.failure), 1.0)]
    values += [str(plan.unit), str(plan.neighbors), str(plan.assumption)]
    values += [int(plan.seeded), plan.to_json(), json.dumps(curves), _text(share or ())]
    # SQLite has no negative zero.
    values = [v + 0.0 if isinstance(v, float) else v for v in values]
    return (*values, digest_of(before, values))


def digest_of(before: str, values: Iterable[Any]) -> str:
    """Return the digest of an entry, and of all before it."""
    text = json.dumps([before, *values], default=repr)  # bytes are damage
    return hashlib.sha256(text.encode()).hexdigest()


def _text(numbers: Iterable[Any]) -> str:
    return " ".join(map(str, numbers))


def numbers_of(text: str) -> list[Any]:
    """Return the exact numbers of a text."""
    return [math.inf if n == "inf" else Fraction(n) for n in text.split()]


@dataclass
class Sums:
    """What the entries of a ledger add up to, exactly."""

    mu2: Exact = Fraction(0)  # of Gaussian mechanisms and models
    failure: Exact = Fraction(0)
    box: Share = field(default_factory=Share)  # use of the budget
    curves: Counter[str] = field(default_factory=Counter)  # other mechanisms, by texts
    least_delta: float | None = None
    seeded: bool = False
    number: int = 0
    digest: str = ""  # of the last entry

    @classmethod
    def from_json(cls, text: str) -> Sums:
        """Read what :meth:`to_json` wrote."""
        values = json.loads(text)
        mu2, failure, *box = numbers_of(values.pop("costs"))
        curves = Counter(values.pop("curves"))
        return cls(mu2, failure, Share(*box), curves, **values)

    def to_json(self) -> str:
        """Return the sums as text."""
        values = dict(vars(self))
        costs = (values.pop("mu2"), values.pop("failure"), *values.pop("box"))
        return json.dumps({"costs": _text(costs), **values})

    @property
    def empty(self) -> bool:
        """Whether nothing was spent."""
        return not any((self.mu2, self.failure, *self.box))

    def add(self, entry: LedgerEntry) -> None:
        """Add an entry."""
        self.mu2 += exact(entry.ledger_mu) ** 2
        self.failure += exact(entry.failure)
        own = numbers_of(entry.share) or Share()
        self.box = Share(*map(operator.add, self.box, own))
        for text, times in json.loads(entry.curves):
            self.curves[text] += times
        deltas = (self.least_delta, entry.delta)
        self.least_delta = min((d for d in deltas if d), default=None)
        self.seeded |= entry.seeded
        self.number, self.digest = entry.id, entry.digest

    def after(self, entries: Iterable[LedgerEntry]) -> Sums:
        """Return these sums with some entries added."""
        after = replace(self, curves=self.curves.copy())
        for entry in entries:
            after.add(entry)
        return after

    def total(self) -> Total:
        """Return the composed cost of all entries."""
        curves = tuple((curve_of(text), n) for text, n in sorted(self.curves.items()))
        mu, failure = math.sqrt(as_float(self.mu2)), as_float(self.failure)
        return Total(mu, failure, curves, self.box)


# -- totals and refusals in words ------------------------------------------------------


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
    for one in sorted({e.assumption for e in standing.entries} - {Assumption.NONE}):
        said.append(f"It holds only {one.condition}.")
    if any(entry.failure for entry in standing.entries):
        said.append("A part of delta covers the failure of thresholds and bounds.")
    return " ".join(said)


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
