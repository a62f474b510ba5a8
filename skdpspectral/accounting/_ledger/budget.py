"""The terms of a ledger: what may be charged, to which block, within which budget."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, TypeAlias, TypeVar

from ...mechanisms import ApproximateDP, Neighbors, PrivacyPlan, Unit, check_real, shown
from ...mechanisms._planned_releases import CURVE_TYPES, Curve
from .._composition import Total, allowed_mu, is_within
from .._curves import Counted
from .._errors import LedgerError, PrivacyBudgetError
from .._gaussian import MIN_DELTA, gaussian_epsilon, gaussian_mu
from .filters import BUDGET_ROUNDING, FAILURES_SHARE, BoxFilter, Cost

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
        """Return the epsilon that each of so many more Gaussian fits may ask for."""
        if n_fits == 1 and first:
            return self.epsilon  # it may be all of it
        spare = box_of(terms).spare_mu(spent)
        return gaussian_epsilon(spare / math.sqrt(n_fits), self.delta)

    def in_words(self, spent: float, left: float, n_fits: int = 1) -> str:
        """Say what is spent, and what so many Gaussian fits may still ask for."""
        most, total = f"{floored(left):g}", f"{self.epsilon:g} at delta={self.delta:g}"
        fits = f"a fit of up to epsilon={most} still fits"
        if n_fits > 1:
            fits = f"{n_fits} fits of up to epsilon={most} each still fit"
        if not left:
            return f"Of the budget epsilon={total}, nothing remains."
        if spent == math.inf:  # of seeded fits, which have no secret cost
            return f"Of the budget epsilon={total}, {fits}."
        if not spent:
            return f"Nothing of the budget epsilon={total} is spent: {fits}."
        rest = self.epsilon - spent
        why = "costs do not add up linearly, so " if n_fits * left > rest else ""
        return f"epsilon={spent:.6g} of {total} is spent; {why}{fits}."

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

    def admits(self, total: Total, terms: LedgerTerms, first: bool) -> bool:
        """Whether a total, which one charge has led to, is within the limit.

        The `first` charge is chosen by nothing that was released: it may be all of the
        budget by its own guarantee.
        """
        if box_of(terms).admits(total):
            return True
        return first and self.covers(total)

    def covers(self, total: Total) -> bool:
        """Whether what was fixed beforehand is within the limit."""
        if total.curves:
            left = self.delta - total.failure
            return is_within(total.mu, total.curves, self.epsilon, left)
        limit = allowed_mu(self.epsilon, self.delta, total.failure)
        return limit > 0.0 and total.mu <= limit * (1.0 + BUDGET_ROUNDING)


def floored(number: float) -> float:
    """Return a number of six digits that is no larger."""
    if not math.isfinite(number):
        return number
    return float(Context(prec=6, rounding=ROUND_FLOOR).create_decimal(Decimal(number)))


def box_of(terms: LedgerTerms) -> BoxFilter:
    """Return the box of a ledger with a budget."""
    box = terms[FAILURES], terms[PURE] or 0.0
    return BoxFilter(terms["epsilon"], terms["delta"], *box)


def with_pure(terms: LedgerTerms, first: Cost) -> LedgerTerms:
    """Return the terms of a ledger with a budget, whose first charge may fix `pure`.

    Nothing was released before it.
    """
    if terms[PURE] is not None:
        return terms
    return {**terms, PURE: first.pure_epsilon(terms["epsilon"])}


_KINDS: dict[str, Any] = {kind.kind: kind for kind in CURVE_TYPES}


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


def check_box(
    budget: Budget | None, failures: object, pure: object
) -> tuple[float, float | None] | None:
    """Return what a new ledger sets aside for failures, and as pure epsilon.

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
    """Return a relation, or None where the first entry fixes it."""
    if (unit is None) != (neighbors is None):
        raise ValueError(
            "unit and neighbors fix a ledger's relation together: give both or neither"
        )
    if unit is None:
        return None
    return _word("unit", unit, Unit), _word("neighbors", neighbors, Neighbors)


def _word(name: str, value: object, kind: type[_Kind]) -> _Kind:
    """Return a word of a vocabulary, or an error that names all of it."""
    known = [str(choice) for choice in kind]
    if not (isinstance(value, str) and str(value) in known):
        raise ValueError(f"{name} must be one of {known}, got {shown(value)}")
    return kind(value)


def check_division(division: str | None, unit: object) -> tuple[str, Unit] | None:
    """Return a division and what it divides; None for none."""
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
    """Return the plan of what another tool releases, or an error."""
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
            "mechanisms cost more; calibrate them to this budget"
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
    budget: Budget | None,
    relation: Relation | None,
    box: tuple[float, float | None] | None,
) -> dict[str, Any]:
    """Return the terms of a ledger as it writes them."""
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

    `box` has the values that were given of its terms of that name.
    """
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
            f"the ledger {path} has unit={found[0]}, neighbors={found[1]}, not "
            f"unit={relation[0]}, neighbors={relation[1]}; use another ledger for these"
        )
    for name, value in box.items():
        if value is not None and own is None:
            raise LedgerError(
                f"the ledger {path} has no budget, of which {name} is a part: leave "
                f"{name} out, or start another ledger with epsilon"
            )
        if value is not None and value != meta.get(name):
            raise LedgerError(
                f"the ledger {path} was begun with {name}={meta.get(name)}, not "
                f"{value}; start another ledger"
            )
    return own
