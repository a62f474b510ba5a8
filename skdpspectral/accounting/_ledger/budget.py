"""The terms of a ledger: what may be charged, to which block, within which budget.

Of Gaussian mechanisms the limit is exact: a largest ``mu``. Other mechanisms have no
common number to add up, and no filter that lets in all that would be affordable. What
takes them sets delta aside beforehand, in fixed shares: one for probabilities that add
up, one for ledgers that are still Gaussian, and one for each of a few orders of Renyi
divergences, within which the divergences of all entries must stay at one order at least
(:ref:`lemma-filter`).
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...mechanisms import ApproximateDP, Neighbors, PrivacyPlan, Unit
from ...mechanisms._curves import CURVES, Curve
from ...mechanisms._relations import check_real, shown
from .._composition import Total, allowed_mu, is_within
from .._curves import Counted, coarsen_kinds, composed_divergences, log_peaks
from .._errors import LedgerError, PrivacyBudgetError
from .._gaussian import MIN_DELTA, gaussian_epsilon, gaussian_mu

# What a budget may let in, as a ledger's terms say it.
GAUSSIAN, ANY = "gaussian", "any"
MECHANISMS = (GAUSSIAN, ANY)

# A budget that was computed from the costs it is meant for must let them in: this
# covers the rounding of the two inverses, and no more than calibration leaves free.
_ROUNDING = 2.0**-41

# Shares of delta. They are fixed: a share that went by what was entered so far would
# go by what was released.
_ADDITIVE_SHARE = 0.5
_GAUSSIAN_SHARE = 0.25
_ORDERS_SHARE = 0.25

# Orders, in multiples of the one that is best for a single Gaussian mechanism: those of
# selections and of what is subsampled are further up.
_MULTIPLES = tuple(2.0 ** (k / 2.0) for k in range(-2, 6))
_LARGEST_ORDER = 4096.0


@dataclass(frozen=True)
class GaussianFilter:
    """The exact limit of Gaussian mechanisms, adaptively chosen ones too."""

    epsilon: float
    delta: float

    def limit(self, total: Total) -> float:
        """Return the largest cost beside a probability of failure; 0 for none."""
        return allowed_mu(self.epsilon, self.delta, total.failure)

    def admits(self, total: Total) -> bool:
        """Whether a ledger that holds this is within the budget."""
        limit = self.limit(total)
        within = total.mu <= limit * (1.0 + _ROUNDING)
        return bool(limit) and within and not total.curves

    def spare_mu(self, total: Total) -> float:
        """Return the cost of the Gaussian mechanisms that would still be let in."""
        if total.curves:
            return 0.0
        return math.sqrt(max(self.limit(total) ** 2 - total.mu**2, 0.0))


@dataclass(frozen=True)
class MixedFilter:
    """Limits of mechanisms of any kind, adaptively chosen ones too."""

    epsilon: float
    delta: float

    def admits(self, total: Total) -> bool:
        """Whether a ledger that holds this is within the budget."""
        return self._failures_fit(total) and any(
            total.mu <= limit * (1.0 + _ROUNDING) for limit in self._limits(total)
        )

    def spare_mu(self, total: Total) -> float:
        """Return the cost of the Gaussian mechanisms that would still be let in."""
        if not self._failures_fit(total):
            return 0.0
        squares = (limit**2 - total.mu**2 for limit in self._limits(total))
        return math.sqrt(max([0.0, *squares]))

    def _failures_fit(self, total: Total) -> bool:
        return total.additive <= _ADDITIVE_SHARE * self.delta * (1.0 + _ROUNDING)

    def _limits(self, total: Total) -> Iterator[float]:
        """Yield what all Gaussians may cost beside the others, by each way to stay."""
        share = _GAUSSIAN_SHARE * self.delta
        if not total.curves and share >= MIN_DELTA:
            yield gaussian_mu(self.epsilon, share)
        orders = self.orders()
        spent = composed_divergences(0.0, coarsen_kinds(total.curves), orders)
        squares = 2.0 * (self.limits() - spent) / orders
        yield from np.sqrt(squares[squares >= 0.0]).tolist()

    def orders(self) -> npt.NDArray[np.float64]:
        """Return the orders that are watched, which the budget fixes."""
        nats = math.log(len(_MULTIPLES) / (_ORDERS_SHARE * self.delta))
        root = math.sqrt(nats)
        best = root / (math.sqrt(nats + self.epsilon) - root)
        excess = np.minimum(np.multiply(_MULTIPLES, best), _LARGEST_ORDER)
        # Whole orders are finite sums for what is subsampled.
        return 1.0 + np.where(excess >= 4.0, np.rint(excess), excess)

    def limits(self) -> npt.NDArray[np.float64]:
        """Return the divergence of each order that its share of delta allows for."""
        orders = self.orders()
        share = math.log(_ORDERS_SHARE * self.delta / len(orders))
        return self.epsilon + (share - log_peaks(orders)) / (orders - 1.0)


@dataclass(frozen=True)
class Budget:
    """A limit (epsilon, delta) on the total cost."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"epsilon={self.epsilon}, delta={self.delta}"

    def filter(self, mechanisms: str | None) -> GaussianFilter | MixedFilter:
        """Return what decides on charges, by which mechanisms may be among them."""
        kind = MixedFilter if mechanisms == ANY else GaussianFilter
        return kind(self.epsilon, self.delta)

    def remaining(
        self, spent: Total, mechanisms: str | None = None, n_fits: int = 1
    ) -> float:
        """Return the epsilon that each of so many more releases may ask for."""
        if mechanisms == ANY and spent == Total(0.0) and n_fits == 1:
            return self.epsilon  # the first entry may be all of it
        spare = self.filter(mechanisms).spare_mu(spent)
        return gaussian_epsilon(spare / math.sqrt(n_fits), self.delta)

    def refuse_unlimited(self, plan: PrivacyPlan, allow_seeded: bool) -> None:
        """Raise if a plan has no finite cost, or none that is secret."""
        if not plan.noisy:
            raise PrivacyBudgetError(
                f"{plan.estimator} with epsilon=None spends without limit, but this "
                "accountant has a budget; give epsilon a number",
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

    def refuse_kinds(self, plans: Sequence[PrivacyPlan], mechanisms: str) -> None:
        """Raise if a budget of Gaussians alone is asked for anything else."""
        other = next((plan for plan in plans if plan.curves), None)
        if other is None or mechanisms == ANY:
            return
        raise LedgerError(
            f"{other.estimator} uses a mechanism that is not Gaussian, but the budget "
            "of this ledger is for Gaussian mechanisms only; nothing was charged. Open "
            'another ledger by PrivacyAccountant(..., mechanisms="any"), which sets a '
            "part of delta aside for other mechanisms"
        )

    def admits(
        self,
        plans: Sequence[PrivacyPlan],
        spent: Total,
        total: Total,
        mechanisms: str | None,
    ) -> bool:
        """Whether a total cost is within the limit.

        The first entry is chosen by nothing that was released: its own guarantee
        may be all of the budget.
        """
        if self.filter(mechanisms).admits(total):
            return True
        first = mechanisms == ANY and spent == Total(0.0)
        return first and self._is_whole(plans, total)

    def refuse_excess(
        self,
        what: str,
        plans: Sequence[PrivacyPlan],
        spent: Total,
        total: Total,
        mechanisms: str | None,
    ) -> None:
        """Raise if a total cost exceeds the limit."""
        if self.admits(plans, spent, total, mechanisms):
            return
        remaining = self.remaining(spent, mechanisms)
        requested = self._requested(plans, spent, total)
        asked = "more"
        if requested is not None:
            asked = f"epsilon={requested:.6g} at delta={self.delta:g}"
        raise PrivacyBudgetError(
            f"{what} would cost {asked}, but only epsilon={remaining:.6g} of the "
            f"accountant's budget epsilon={self.epsilon:g} remains"
            f"{' for a Gaussian fit' * (mechanisms == ANY)}; nothing was charged."
            f"{_delta_note(total)}",
            requested,
            remaining,
        )

    def _is_whole(self, plans: Sequence[PrivacyPlan], total: Total) -> bool:
        """Whether a single plan is within the budget by what it claims itself.

        Its claim is for its own unit and neighbors: a ledger of others that it is
        restated for counts it for more than it costs itself.
        """
        if len(plans) != 1:
            return False
        (plan,) = plans
        as_claimed = total.mu <= plan.mu_beside_curves * (1.0 + _ROUNDING)
        within = plan.epsilon <= self.epsilon and plan.delta <= self.delta
        return as_claimed and within

    def _requested(
        self, plans: Sequence[PrivacyPlan], spent: Total, total: Total
    ) -> float | None:
        """Return the epsilon that is asked for, where it is of one plan or Gaussian."""
        if not any(plan.curves for plan in plans):
            asked = math.sqrt(max(total.mu**2 - spent.mu**2, 0.0))
            return gaussian_epsilon(asked, self.delta)
        return plans[0].epsilon if len(plans) == 1 else None


def _delta_note(total: Total) -> str:
    """Say what else came out of delta."""
    if not total.additive:
        return ""
    return (
        f" Failures of a model's bounds and deltas of other tools would take "
        f"{total.additive:g} of that delta; give such fits a smaller delta."
    )


_KINDS: dict[str, Any] = {kind.kind: kind for kind in CURVES}


def curve_text(mechanism: Curve) -> str:
    """Return all that a mechanism's cost depends on; equal costs have equal texts."""
    fields = {"kind": mechanism.kind, **asdict(mechanism)}
    del fields["name"]
    return json.dumps(fields, sort_keys=True)


def counted_curves(rows: Iterable[tuple[str, Any]]) -> Counted:
    """Read texts of mechanisms, and how often each of them ran."""
    found = []
    for text, times in rows:
        fields = json.loads(text)
        kind = fields.pop("kind")
        if kind not in _KINDS:
            raise LedgerError(
                f"this ledger has an entry of kind {kind!r}, which this release of "
                "skdpspectral does not know: its total is not known here"
            )
        found.append((_KINDS[kind](name="", **fields), int(times)))
    return tuple(found)


def curve_kinds(plan: PrivacyPlan) -> str:
    """Say which kinds of mechanisms a plan has, in alphabetical order."""
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
            raise ValueError("delta needs epsilon: a budget is given by both")
        return None
    delta = DEFAULT_DELTA if delta is None else delta
    if isinstance(epsilon, str):
        raise ValueError(
            f"epsilon of a budget must be a number, got {epsilon!r}; the file of a "
            "ledger is given as path="
        )
    budget = Budget(
        check_real("epsilon of a budget", epsilon),
        check_real("delta of a budget", delta),
    )
    if not 0.0 < budget.epsilon < math.inf:
        raise ValueError(
            "epsilon of a budget must be positive and finite, got "
            f"{budget.epsilon}; leave it None to record without a limit"
        )
    gaussian_mu(budget.epsilon, budget.delta)  # refuses a delta out of range
    return budget


def check_flag(name: str, value: object) -> bool:
    """Return a flag; nothing that merely counts as true may open a budget."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return value


def check_mechanisms(value: object) -> str | None:
    """Return which mechanisms a budget lets in; None where the first entry says it."""
    if value is None or (isinstance(value, str) and value in MECHANISMS):
        return value
    raise ValueError(
        f"mechanisms must be one of {MECHANISMS}, or None for what the first entry is "
        f"of, got {shown(value)}"
    )


def check_relation(
    unit: str | None, neighbors: str | None
) -> tuple[Unit, Neighbors] | None:
    """Return a relation, or None where the first entry fixes it."""
    if (unit is None) != (neighbors is None):
        raise ValueError("unit and neighbors fix a ledger's relation together")
    if unit is None:
        return None
    try:
        return Unit(unit), Neighbors(neighbors)
    except ValueError as error:
        choices = [str(word) for word in (*Unit, *Neighbors)]
        raise ValueError(f"unit or neighbors: {error}; known: {choices}") from None


def check_division(division: str | None, unit: object) -> tuple[str, Unit] | None:
    """Return a division and what it divides; None for none."""
    if division is None:
        if unit is not None:
            raise ValueError("disjoint_unit needs disjoint_within: the division's name")
        return None
    if unit is None:
        return division, Unit.ROW
    if not (isinstance(unit, str) and unit in list(Unit)):
        raise ValueError(f"disjoint_unit must be 'row' or 'user', got {shown(unit)}")
    return division, Unit(unit)


def external_plan(
    epsilon: object, delta: object, what: object, unit: object, neighbors: object
) -> PrivacyPlan:
    """Return the plan of what another tool releases, or an error."""
    if not (isinstance(what, str) and what.strip()):
        raise ValueError(
            f"what must be a description of the release, got {shown(what)}"
        )
    for name, word, kind in (("unit", unit, Unit), ("neighbors", neighbors, Neighbors)):
        known = [str(choice) for choice in kind]
        if not (isinstance(word, str) and str(word) in known):
            raise ValueError(f"{name} must be one of {known}, got {shown(word)}")
    pair = ApproximateDP(
        what, check_real("epsilon", epsilon), check_real("delta", delta)
    )
    return PrivacyPlan(
        pair.epsilon,
        pair.delta,
        (pair,),
        what,
        unit=Unit(unit),
        neighbors=Neighbors(neighbors),
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
                "plan must be a PrivacyPlan, as privacy_plan(n_samples, n_features) "
                f"gives it, or several; got {shown(entry)}"
            )
        _check_claim(entry)
    return plans


def _check_claim(plan: PrivacyPlan) -> None:
    """Refuse a plan whose mechanisms cost more than its epsilon and delta say."""
    if plan.curves:
        return _check_curves(plan)
    gaussian_mu(plan.epsilon, plan.delta)  # refuses what is out of range
    if plan.mu > allowed_mu(plan.epsilon, plan.delta, plan.failure):
        raise ValueError(
            f"plan claims epsilon={plan.epsilon:g}, delta={plan.delta:g}, but its "
            f"mechanisms cost mu={plan.mu:.6g}; calibrate them to less"
        )


def _check_curves(plan: PrivacyPlan) -> None:
    """Refuse a plan with mechanisms that are no Gaussians, if it claims too little."""
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
            "mechanisms cost more; calibrate them to less"
        )


# Names of partitions on somebody's word; those that were checked have random names.
_PREFIXES = {Unit.ROW: "asserted: ", Unit.USER: "asserted of users: "}


def new_name() -> str:
    """Return a name that nothing else has."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class DisjointBlock:
    """A block of a partition; made by the functions of this module alone.

    `asserted` says whether disjointness is only somebody's word. `unit` is what lies in
    no two blocks of the partition; None for a block without others.
    """

    partition: str
    block: str
    asserted: bool
    unit: Unit | None

    def check_unit(self, protected: Unit) -> None:
        """Refuse blocks that do not divide what the ledger protects.

        Users that lie in one block each divide the rows, too. Rows that do leave it
        open in how many blocks a user is.
        """
        if self.unit in (None, Unit.USER, protected):
            return
        remedy = "use a ledger of rows"
        if self.asserted:
            remedy = (
                "if no user has rows in two blocks, say so by "
                'named(..., disjoint_unit="user"); otherwise leave disjoint_within out'
            )
        raise LedgerError(
            f"block {self.block!r}: this ledger protects users, and no row in two "
            f"blocks does not mean no user in two blocks; {remedy}"
        )


def whole_data() -> DisjointBlock:
    """Return a part that nothing else is disjoint from."""
    return DisjointBlock(new_name(), "all rows", False, None)


def asserted_block(division: str, block: str, unit: Unit) -> DisjointBlock:
    """Return a block of a division, on the word of whoever names it."""
    return DisjointBlock(_PREFIXES[unit] + division, block, True, unit)


def checked_blocks(names: Iterable[str]) -> dict[str, DisjointBlock]:
    """Return the blocks of a fresh partition whose rows were seen to be disjoint.

    Only what has compared the rows of the blocks itself may call this. Nothing can be
    added to the partition afterwards.
    """
    partition = new_name()
    return {name: DisjointBlock(partition, name, False, Unit.ROW) for name in names}


def division_of(partition: str) -> tuple[Unit, str]:
    """Return what an asserted partition divides, and the name of the division."""
    for unit, prefix in _PREFIXES.items():
        if partition.startswith(prefix):
            return unit, partition.removeprefix(prefix)
    return Unit.ROW, partition


Relation = tuple[Unit, Neighbors]


def terms_of(
    budget: Budget | None, relation: Relation | None, mechanisms: str | None
) -> dict[str, Any]:
    """Return the terms of a ledger as it writes them."""
    unit, neighbors = map(str, relation) if relation else (None, None)
    epsilon, delta = (budget.epsilon, budget.delta) if budget else (None, None)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "unit": unit,
        "neighbors": neighbors,
        "mechanisms": mechanisms,
    }


def agreed_budget(
    path: str,
    meta: dict[str, Any],
    budget: Budget | None,
    relation: Relation | None,
    mechanisms: str | None = None,
) -> Budget | None:
    """Return a ledger's budget; refuse to reopen it under other terms."""
    own = None
    if meta["epsilon"] is not None:
        own = Budget(meta["epsilon"], meta["delta"])
    if budget is not None and budget != own:
        raise LedgerError(
            f"the ledger {path} has the budget {own or 'none'}, not {budget}; open "
            "it without a budget, or start another ledger"
        )
    found = (meta["unit"], meta["neighbors"])
    if relation is not None and tuple(map(str, relation)) != found:
        raise LedgerError(
            f"the ledger {path} is kept per unit={found[0]}, "
            f"neighbors={found[1]}, not per unit={relation[0]}, "
            f"neighbors={relation[1]}; start another ledger for these"
        )
    if mechanisms is not None and meta.get("mechanisms") != mechanisms:
        raise LedgerError(
            f"the budget of the ledger {path} is kept for mechanisms="
            f"{meta.get('mechanisms')!r}, not {mechanisms!r}; start another ledger"
        )
    return own
