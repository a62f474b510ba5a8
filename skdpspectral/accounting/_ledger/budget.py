r"""The terms of a ledger: what may be charged, to which block, within which budget.

The filter of a budget lets charges in, whatever earlier releases they go by. A ledger
fixes a *box* before anything is released: D for probabilities of failure, E for
epsilons of pure differential privacy, and the largest M with

.. math:: D + (1 - D)\, \delta_M(\epsilon - E) \le \delta.

Each entry takes a squared mu, a failure and an epsilon, and is let in while each of the
three sums stays within the box (:ref:`lemma-box-filter`).
"""

from __future__ import annotations

import json
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ...mechanisms import (
    ApproximateDP,
    Neighbors,
    PrivacyPlan,
    Unit,
    check_real,
    shown,
)
from ...mechanisms._planned_releases import CURVE_TYPES, Curve
from .._composition import (
    Total,
    allowed_mu,
    is_within,
    least_mu,
    pure_mu,
    relation_factor,
)
from .._curves import Counted
from .._errors import LedgerError, PrivacyBudgetError
from .._gaussian import MIN_DELTA, gaussian_epsilon, gaussian_mu

# Sums have no rounding errors, and no order. A float is infinity.
ExactNumber: TypeAlias = Fraction | float

# A budget that was computed from the costs it is meant for must let them in: this
# covers the rounding of the two inverses, and no more than calibration leaves free.
BUDGET_ROUNDING = 2.0**-41

# Of delta, for failures, where nothing else is asked for. It costs Gaussian mechanisms
# .4 to .5 % of mu.
FAILURES_SHARE = 0.1

# Of the search for d: how close it ends, and how long it may take.
_CLOSE, _MOST_STEPS = 1.0 + 2.0**-24, 40
_FALL = 2.0**-8


def exact(number: float) -> ExactNumber:
    """Return a float as a fraction; infinity unchanged."""
    return number if number == math.inf else Fraction(number)


def as_float(number: ExactNumber) -> float:
    """Return the nearest float; infinity on overflow."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


class Share(NamedTuple):
    """The use of a box by entries: squared mu, probability of failure, pure epsilon."""

    cost: ExactNumber = Fraction(0)
    failure: ExactNumber = Fraction(0)
    pure: ExactNumber = Fraction(0)

    def within(self, box: Share) -> bool:
        """Return whether no component exceeds that of a box."""
        return all(own <= most for own, most in zip(self, box, strict=True))


@dataclass(frozen=True)
class Cost:
    """The cost of one fit for a ledger's unit and relation.

    `mu` is that of all Gaussian mechanisms, `curves` are all others.
    """

    mu: float
    curves: Counted = ()
    failure: float = 0.0

    @property
    def pairs(self) -> tuple[tuple[ApproximateDP, int], ...] | None:
        """The other mechanisms, if all are (epsilon, delta) pairs; else None."""
        found = [(c, n) for c, n in self.curves if isinstance(c, ApproximateDP)]
        return tuple(found) if len(found) == len(self.curves) else None

    def pure_epsilon(self, most: float) -> float:
        """Return the sum of pairs' epsilons, rounded up; 0 if it exceeds `most`."""
        sum_of = math.fsum(n * pair.epsilon for pair, n in self.pairs or ())
        epsilon = math.nextafter(sum_of, math.inf) if len(self.curves) > 1 else sum_of
        return epsilon if epsilon <= most else 0.0

    def total(self, n: int = 1) -> Total:
        """Return the total of `n` fits."""
        curves = tuple((curve, n * times) for curve, times in self.curves)
        failure = min(n * self.failure, 1.0)
        return Total(math.sqrt(n) * self.mu, failure, curves)


# -- costs for the unit and relation of a ledger ---------------------------------------

# A change of the ledger's kind may be a chain of two of the plan's. Then mu doubles, an
# (epsilon, delta) pair becomes one of twice the epsilon, and steps on samples have a
# curve of their own for a replaced unit.


def cost_of(plan: PrivacyPlan, relation: tuple[Unit, Neighbors] | None = None) -> Cost:
    """Return the cost of a plan for a ledger's relation, by default its own."""
    factor = 1.0 if relation is None else conversion_factor(plan, relation)
    curves = Counter(replace(restated(c, factor), name="") for c in plan.curves)
    return Cost(factor * plan.mu_beside_curves, tuple(curves.items()), plan.failure)


def conversion_factor(plan: PrivacyPlan, relation: tuple[Unit, Neighbors]) -> float:
    """Return the factor of a plan's mu for a ledger's relation, or raise."""
    factor = relation_factor(plan.unit, plan.neighbors, *relation)
    if factor is None:
        raise LedgerError(
            f"this ledger states a guarantee per {relation[0]} under {relation[1]}, "
            f"which a guarantee per {plan.unit} under {plan.neighbors} does not "
            f"imply; {separate_ledger(plan)}"
        )
    if factor != 1.0 and plan.failure:
        raise LedgerError(
            f"the guarantee of {plan.estimator} under its model cannot be converted "
            f"to one per {relation[0]} under {relation[1]}; {separate_ledger(plan)}"
        )
    return factor


def separate_ledger(plan: PrivacyPlan) -> str:
    """Return the remedy for a plan whose unit or relation is not the ledger's."""
    return (
        "use a separate ledger, accountant=PrivacyAccountant("
        f"epsilon={plan.epsilon:g}, delta={plan.delta:g}, unit='{plan.unit}', "
        f"neighbors='{plan.neighbors}')"
    )


def restated(curve: Curve, factor: float) -> Curve:
    r"""Return a mechanism's guarantee for a chain of 1 or 2 changes.

    :math:`(2 \epsilon, (1 + e^\epsilon) \delta)` for a pair.
    """
    if factor == 1.0:
        return curve
    if isinstance(curve, ApproximateDP):
        grown = math.exp(min(curve.epsilon, 700.0))
        delta = min((1.0 + grown) * curve.delta * (1.0 + 2.0**-40), _MOST_DELTA)
        return replace(curve, epsilon=factor * curve.epsilon, delta=delta)
    return replace(curve, replaced=True)


_MOST_DELTA = math.nextafter(1.0, 0.0)


def with_restatement(
    plan: PrivacyPlan, relation: tuple[Unit, Neighbors]
) -> PrivacyPlan:
    """Return a plan with a remark on how a ledger counts its pairs and curves."""
    factor = conversion_factor(plan, relation)
    if factor == 1.0 or not plan.curves:
        return plan
    curves = (restated(curve, factor) for curve in plan.curves)
    counted = " and ".join(f"{curve.name!r}: {curve.notes()}" for curve in curves)
    remark = f"For this ledger, per {relation[0]} under {relation[1]}, it is {counted}."
    return replace(plan, remarks=(*plan.remarks, remark))


# -- filters ---------------------------------------------------------------------------


@dataclass(frozen=True)
class BoxFilter:
    """Limits of three sums, also for adaptively chosen mechanisms of any kind.

    `failures` is D, `pure` is E.
    """

    epsilon: float
    delta: float
    failures: float = 0.0
    pure: float = 0.0

    @property
    def limit(self) -> float:
        """The largest mu, M; 0 if there is none."""
        left = (self.delta - self.failures) / (1.0 - self.failures)
        if self.failures > self.delta or self.pure > self.epsilon or left < MIN_DELTA:
            return 0.0
        return gaussian_mu(self.epsilon - self.pure, left)

    @property
    def corner(self) -> Share:
        """The largest sums."""
        most = Fraction(self.limit * (1.0 + BUDGET_ROUNDING))
        return Share(most**2, Fraction(self.failures), Fraction(self.pure))

    def admits(self, total: Total) -> bool:
        """Return whether a ledger with this total is within the budget."""
        return bool(self.limit) and Share(*total.box).within(self.corner)

    def room(self, total: Total) -> Share:
        """Return the share that is left; zeros if one sum exceeds its limit."""
        left = [most - x for most, x in zip(self.corner, total.box, strict=True)]
        return Share(*left) if min(left) >= 0 else Share()

    def share_of(self, cost: Cost, room: Share, n: int = 1) -> Share:
        """Return the share of `room` that `n` successive fits use.

        If d can be chosen, its part of the failures left equals that of m**2 in the
        cost left: k equal fits that use everything use D / k each.
        """
        own = Fraction(cost.failure)
        if cost.pairs is None:
            left = as_float(room.cost), as_float(room.failure - own)
            m, d = _balanced(cost, *left)
            return Share(n * exact(m) ** 2, n * (own + Fraction(d)))
        deltas = sum((k * Fraction(p.delta) for p, k in cost.pairs), Fraction(0))
        pure = sum((k * Fraction(p.epsilon) for p, k in cost.pairs), Fraction(0))
        within = min(n, room.pure // pure) if pure else 0
        m = math.hypot(
            cost.mu, *(math.sqrt(k) * pure_mu(p.epsilon) for p, k in cost.pairs)
        )
        squares = within * exact(cost.mu) ** 2 + (n - within) * exact(m) ** 2
        return Share(squares, n * (own + deltas), within * pure)


def _balanced(cost: Cost, left: float, failures: float) -> tuple[float, float]:
    """Return (m, d) with m**2 / left close to, and at most, d / failures.

    d is `failures` if even these are not enough, and 0 if they do not help.
    """

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
        # A fit that is below all of d costs nothing at it: there may be a lot too much.
        middle = min(found(low)[1], math.sqrt(low * high)) if low else high * _FALL
        m_middle, right = found(middle)
        if right <= middle:
            m, high, low = m_middle, middle, max(low, right)
        else:
            low = middle
    return (without, 0.0) if without <= m else (m, high)


# Terms of a ledger, as its file names them.
FAILURES, PURE = "failures", "pure"
GAUSSIAN = "gaussian"  # the kind of entries that are nothing else
LedgerTerms: TypeAlias = Mapping[str, Any]
_Kind = TypeVar("_Kind", Unit, Neighbors)


@dataclass(frozen=True)
class Budget:
    """A limit (epsilon, delta) on the total cost."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"epsilon={self.epsilon}, delta={self.delta}"

    def remaining(
        self, spent: Total, terms: LedgerTerms, n_fits: int = 1, first: bool = False
    ) -> float:
        """Return the epsilon that each of `n_fits` more Gaussian fits may ask for."""
        if n_fits == 1 and first:
            return self.epsilon  # it may be all of it
        spare = math.sqrt(as_float(box_of(terms).room(spent).cost))
        return gaussian_epsilon(spare / math.sqrt(n_fits), self.delta)

    def in_words(self, spent: float, left: float, n_fits: int = 1) -> str:
        """Describe the spent budget, and what `n_fits` Gaussian fits may ask for."""
        most, total = f"{floored(left):g}", f"{self.epsilon:g} at delta={self.delta:g}"
        fits = f"a fit of up to epsilon={most} still fits"
        if n_fits > 1:
            fits = f"{n_fits} fits of up to epsilon={most} each still fit"
        if not left:
            return f"Of the budget epsilon={total}, nothing remains."
        if spent == math.inf:  # of seeded fits, which have no secret cost
            return f"Of the budget epsilon={total}, {fits}."
        if not spent:
            return f"None of the budget epsilon={total} is spent: {fits}."
        rest = self.epsilon - spent
        why = "costs do not add up linearly, so " if n_fits * left > rest else ""
        return f"epsilon={spent:.6g} of {total} is spent; {why}{fits}."

    def refuse_unlimited(self, plan: PrivacyPlan, allow_seeded: bool) -> None:
        """Raise if a plan has no finite cost, or if its noise is not secret."""
        if not plan.noisy:
            raise PrivacyBudgetError(
                f"{plan.estimator} with epsilon=None spends without limit, but this "
                "accountant has a budget; set epsilon to a number",
                math.inf,
                self.epsilon,
            )
        if plan.seeded and not allow_seeded:
            raise PrivacyBudgetError(
                f"{plan.estimator} draws its noise from noise_seed, which gives no "
                "privacy and costs an infinite epsilon; leave noise_seed=None. If the "
                "results are never published, use "
                "PrivacyAccountant(..., allow_seeded=True)",
                math.inf,
                self.epsilon,
            )

    def admits(self, total: Total, terms: LedgerTerms, first: bool) -> bool:
        """Return whether a total after one charge is within the limit.

        No release has influenced the `first` charge, which may use all of the budget by
        its own guarantee.
        """
        if box_of(terms).admits(total):
            return True
        return first and self.covers(total)

    def covers(self, total: Total) -> bool:
        """Return whether a total that was fixed in advance is within the limit."""
        if total.curves:
            left = self.delta - total.failure
            return is_within(total.mu, total.curves, self.epsilon, left)
        limit = allowed_mu(self.epsilon, self.delta, total.failure)
        return limit > 0.0 and total.mu <= limit * (1.0 + BUDGET_ROUNDING)


def floored(number: float) -> float:
    """Return a number rounded down to six digits."""
    if not math.isfinite(number):
        return number
    return float(Context(prec=6, rounding=ROUND_FLOOR).create_decimal(Decimal(number)))


def box_of(terms: LedgerTerms) -> BoxFilter:
    """Return the box of a ledger with a budget."""
    box = terms[FAILURES], terms[PURE] or 0.0
    return BoxFilter(terms["epsilon"], terms["delta"], *box)


def with_pure(terms: LedgerTerms, first: Cost) -> LedgerTerms:
    """Return the terms of a ledger, in which the first charge may fix `pure`."""
    if terms[PURE] is not None:
        return terms
    return {**terms, PURE: first.pure_epsilon(terms["epsilon"])}


_KINDS: dict[str, Any] = {kind.kind: kind for kind in CURVE_TYPES}


def curve_text(mechanism: Curve) -> str:
    """Return a text of all that determines a mechanism's cost."""
    fields = {"kind": mechanism.kind, **asdict(mechanism)}
    del fields["name"]
    return json.dumps(fields, sort_keys=True)


def counted_curves(rows: Iterable[tuple[str, Any]]) -> Counted:
    """Parse texts of mechanisms with counts."""
    found = []
    for text, times in rows:
        fields = json.loads(text)
        kind = fields.pop("kind")
        if kind not in _KINDS:
            raise LedgerError(
                f"this ledger has an entry of kind {kind!r}, which this release of "
                "skdpspectral does not support: its total cannot be computed"
            )
        found.append((_KINDS[kind](name="", **fields), int(times)))
    return tuple(found)


def curve_kinds(plan: PrivacyPlan) -> str:
    """List the kinds of mechanisms in a plan, alphabetically."""
    kinds = {curve.kind for curve in plan.curves}
    if len(plan.curves) < len(plan.mechanisms) or not kinds:
        kinds.add(GAUSSIAN)
    return ", ".join(sorted(kinds))


# -- what an accountant is given -------------------------------------------------------


DEFAULT_DELTA = 1e-6


def check_budget(epsilon: object, delta: object) -> Budget | None:
    """Return a valid budget, or None for none."""
    if epsilon is None:
        if delta is not None:
            raise ValueError("delta requires epsilon: a budget has both")
        return None
    delta = DEFAULT_DELTA if delta is None else delta
    if isinstance(epsilon, str):
        raise ValueError(
            f"epsilon of a budget must be a number, got {epsilon!r}; pass the file of "
            "a ledger as path="
        )
    budget = Budget(
        check_real("epsilon of a budget", epsilon),
        check_real("delta of a budget", delta),
    )
    if not 0.0 < budget.epsilon < math.inf:
        raise ValueError(
            f"epsilon of a budget must be positive and finite, got {budget.epsilon}; "
            "leave it as None to record without a limit"
        )
    gaussian_mu(budget.epsilon, budget.delta)  # refuses a delta out of range
    return budget


def check_flag(name: str, value: object) -> bool:
    """Return a bool; other truthy values may not open a budget."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return value


def check_box(
    budget: Budget | None, failures: object, pure: object
) -> tuple[float, float | None] | None:
    """Return the shares of a new ledger for failures and pure epsilon.

    None as pure epsilon leaves it to the first charge.
    """
    if budget is None:
        return None
    epsilon = None if pure is None else check_real(PURE, pure)
    if epsilon is not None and not 0.0 <= epsilon < budget.epsilon:
        raise ValueError(
            f"pure must be at least 0 and below epsilon={budget.epsilon:g}, got "
            f"{epsilon:g}"
        )
    if failures is None:
        lost = FAILURES_SHARE * budget.delta
        return (lost if budget.delta - lost >= 2.0 * MIN_DELTA else 0.0), epsilon
    lost = check_real(FAILURES, failures)
    fits = 0.0 <= lost < budget.delta
    if not (fits and (budget.delta - lost) / (1.0 - lost) >= MIN_DELTA):
        raise ValueError(
            f"failures must be at least 0 and leave {MIN_DELTA:g} or more of delta="
            f"{budget.delta:g}, got {lost:g}"
        )
    return lost, epsilon


def check_relation(
    unit: str | None, neighbors: str | None
) -> tuple[Unit, Neighbors] | None:
    """Return a relation, or None if the first entry will fix it."""
    if (unit is None) != (neighbors is None):
        raise ValueError(
            "unit and neighbors fix a ledger's relation together: pass both or neither"
        )
    if unit is None:
        return None
    return _word("unit", unit, Unit), _word("neighbors", neighbors, Neighbors)


def _word(name: str, value: object, kind: type[_Kind]) -> _Kind:
    """Return a word of a vocabulary; errors list the vocabulary."""
    known = [str(choice) for choice in kind]
    if not (isinstance(value, str) and str(value) in known):
        raise ValueError(f"{name} must be one of {known}, got {shown(value)}")
    return kind(value)


def check_division(division: str | None, unit: object) -> tuple[str, Unit] | None:
    """Return a division and its unit; None for none."""
    if division is None:
        if unit is not None:
            raise ValueError("disjoint_unit requires disjoint_within")
        return None
    if unit is None:
        return division, Unit.ROW
    if not (isinstance(unit, str) and unit in list(Unit)):
        raise ValueError(f"disjoint_unit must be 'row' or 'user', got {shown(unit)}")
    return division, Unit(unit)


def external_plan(
    epsilon: object, delta: object, what: object, unit: object, neighbors: object
) -> PrivacyPlan:
    """Return a plan for the release of another tool."""
    if not (isinstance(what, str) and what.strip()):
        raise ValueError(
            f"what must be a description of the release, got {shown(what)}"
        )
    relation = _word("unit", unit, Unit), _word("neighbors", neighbors, Neighbors)
    pair = ApproximateDP(
        what, check_real("epsilon", epsilon), check_real("delta", delta)
    )
    return PrivacyPlan(
        pair.epsilon,
        pair.delta,
        (pair,),
        what,
        *relation,
    )


def check_plans(plan: object) -> list[PrivacyPlan]:
    """Return one or several plans as a list."""
    plans: list[Any] = [plan]
    if not isinstance(plan, PrivacyPlan) and isinstance(plan, Iterable):
        plans = list(plan)
    if not plans:
        raise ValueError("plan must be one PrivacyPlan or several, got none")
    for entry in plans:
        if not isinstance(entry, PrivacyPlan):
            raise TypeError(
                "plan must be one PrivacyPlan, as returned by privacy_plan(n_samples, "
                f"n_features), or several; got {shown(entry)}"
            )
        _check_claim(entry)
    return plans


def _check_claim(plan: PrivacyPlan) -> None:
    """Raise if a plan's mechanisms cost more than its epsilon and delta."""
    if plan.curves:
        return _check_curves(plan)
    gaussian_mu(plan.epsilon, plan.delta)  # refuses what is out of range
    if plan.mu > allowed_mu(plan.epsilon, plan.delta, plan.failure):
        raise ValueError(
            f"plan claims epsilon={plan.epsilon:g}, delta={plan.delta:g}, but its "
            f"mechanisms cost mu={plan.mu:.6g}; calibrate them to this budget"
        )


def _check_curves(plan: PrivacyPlan) -> None:
    """Raise if a plan with other mechanisms than Gaussians claims too little."""
    claim = check_real("epsilon", plan.epsilon)
    if len(plan.mechanisms) == 1 and isinstance(plan.curves[0], ApproximateDP):
        pair = plan.curves[0]
        fits = pair.epsilon <= claim and pair.delta + plan.failure <= plan.delta
    else:
        gaussian_mu(claim, plan.delta)  # refuses what is out of range
        counted = tuple((replace(curve, name=""), 1) for curve in plan.curves)
        left = plan.delta - plan.failure
        fits = is_within(plan.mu_beside_curves, counted, claim, left)
    if not fits:
        raise ValueError(
            f"plan claims epsilon={plan.epsilon:g}, delta={plan.delta:g}, but its "
            "mechanisms cost more; calibrate them to this budget"
        )


# Names of partitions on somebody's word; those that were checked have random names.
_PREFIXES = {Unit.ROW: "asserted: ", Unit.USER: "asserted of users: "}


def new_name() -> str:
    """Return a globally unique name."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class DisjointBlock:
    """A block of a partition; created only by the functions of this module.

    `asserted` is whether disjointness is not verified. `unit` lies in only one block of
    the partition; None for a block without others.
    """

    partition: str
    block: str
    asserted: bool
    unit: Unit | None

    def check_unit(self, protected: Unit) -> None:
        """Refuse blocks that do not divide the unit of the ledger.

        Users in one block each divide the rows, too, but disjoint rows do not divide
        users.
        """
        if self.unit in (None, Unit.USER, protected):
            return
        remedy = "use a ledger of rows"
        if self.asserted:
            remedy = (
                "if no user has rows in two blocks, state it with named(..., "
                'disjoint_unit="user"); otherwise leave disjoint_within out'
            )
        raise LedgerError(
            f"block {self.block!r}: this ledger protects users, and blocks that share "
            f"no rows may share users; {remedy}"
        )


def whole_data() -> DisjointBlock:
    """Return a block that is disjoint from nothing."""
    return DisjointBlock(new_name(), "all rows", False, None)


def asserted_block(division: str, block: str, unit: Unit) -> DisjointBlock:
    """Return a block of a division that the caller asserts to be disjoint."""
    return DisjointBlock(_PREFIXES[unit] + division, block, True, unit)


def checked_blocks(names: Iterable[str]) -> dict[str, DisjointBlock]:
    """Return the blocks of a new partition whose rows were verified to be disjoint.

    Only callers that compared the rows may use it. The partition is then complete.
    """
    partition = new_name()
    return {name: DisjointBlock(partition, name, False, Unit.ROW) for name in names}


def division_of(partition: str) -> tuple[Unit, str]:
    """Return the unit and the name of an asserted partition."""
    for unit, prefix in _PREFIXES.items():
        if partition.startswith(prefix):
            return unit, partition.removeprefix(prefix)
    return Unit.ROW, partition


Relation = tuple[Unit, Neighbors]


def terms_of(
    budget: Budget | None,
    relation: Relation | None,
    box: tuple[float, float | None] | None,
) -> dict[str, Any]:
    """Return the terms of a ledger in the form in which it stores them."""
    unit, neighbors = map(str, relation) if relation else (None, None)
    epsilon, delta = (budget.epsilon, budget.delta) if budget else (None, None)
    failures, pure = box or (None, None)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "unit": unit,
        "neighbors": neighbors,
        FAILURES: failures,
        PURE: pure,
    }


def agreed_budget(
    path: str,
    meta: LedgerTerms,
    budget: Budget | None,
    relation: Relation | None,
    **box: float | None,
) -> Budget | None:
    """Return a ledger's budget; refuse to reopen it under other terms.

    `box` has the given values of its terms of that name.
    """
    own = None
    if meta["epsilon"] is not None:
        own = Budget(meta["epsilon"], meta["delta"])
    if budget is not None and budget != own:
        raise LedgerError(
            f"the ledger {path} has the budget {own or 'none'}, not {budget}; open "
            "it without a budget, which cannot be raised for the same rows: a new "
            "ledger is for other rows"
        )
    found = (meta["unit"], meta["neighbors"])
    if relation is not None and tuple(map(str, relation)) != found:
        raise LedgerError(
            f"the ledger {path} has unit={found[0]}, neighbors={found[1]}, not "
            f"unit={relation[0]}, neighbors={relation[1]}; use another ledger for these"
        )
    for name, value in box.items():
        if value is not None and own is None:
            raise LedgerError(
                f"the ledger {path} has no budget, and {name} is a part of a budget: "
                f"remove {name}"
            )
        if value is not None and value != meta.get(name):
            raise LedgerError(
                f"the ledger {path} was created with {name}={meta.get(name)}, not "
                f"{value}; remove {name}"
            )
    return own
