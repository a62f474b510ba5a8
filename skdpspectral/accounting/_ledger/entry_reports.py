"""Reports of a ledger's entries and totals: sentences, tables, lines of JSON.

Refusals of charges state the request, and the largest epsilon that would pass.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ...mechanisms import (
    ApproximateDP,
    Assumption,
    Neighbors,
    PrivacyPlan,
    Unit,
)
from ...mechanisms._plan import html_table
from ...mechanisms._planned_releases import Curve
from .._composition import Total
from .._errors import LedgerError, PrivacyBudgetError
from .._gaussian import MIN_DELTA
from .budget import (
    Budget,
    Cost,
    LedgerTerms,
    Share,
    as_float,
    box_of,
    conversion_factor,
    cost_of,
    division_of,
    floored,
    separate_ledger,
    with_pure,
)
from .entry_chain import read_totals


class LedgerEntry(NamedTuple):
    """One entry of a ledger; ``pandas.DataFrame(accountant.ledger)`` is a table.

    Parameters
    ----------
    id : int
        Number of the entry.
    time : datetime
        When it was charged, in UTC, by this host's clock.
    estimator : str
        What was fitted.
    label : str or None
        Label of the handle that was charged; see :meth:`PrivacyAccountant.named`.
    partition, block : str
        Division of the rows that the entry belongs to, and its part of it. Blocks
        of one partition cost what the dearest of them costs.
    asserted : bool
        Whether it is only somebody's word that these blocks are disjoint.
    epsilon, delta : float
        The guarantee of the fit alone.
    mu : float
        Its cost in Gaussian differential privacy.
    ledger_mu : float
        Its cost for the ledger's unit and relation.
    failure : float
        Part of `delta`: probability that the costs do not hold for data of a model.
    unit : Unit
        Whom the fit's guarantee protects.
    neighbors : Neighbors
        The change of the data that it hides.
    assumption : Assumption
        What it asks of the data.
    seeded : bool
        Whether its noise came from a seed, so that it protects nothing.
    plan : str
        All of it, for ``mechanisms.PrivacyPlan.from_json``.
    kind : str
        Kinds of its mechanisms. Beside others than Gaussians, `mu` is infinite, and
        `ledger_mu` is the cost of the Gaussians among them.
    charged_mu, charged_failure, charged_epsilon : float or None
        What the entry took of the budget: a mu, a probability of failure (`failure`
        included), and an epsilon of pure differential privacy (:ref:`filters`). None in
        ledgers without a budget.
    """

    id: int
    time: datetime
    estimator: str
    label: str | None
    partition: str
    block: str
    asserted: bool
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
    kind: str
    charged_mu: float | None = None
    charged_failure: float | None = None
    charged_epsilon: float | None = None


def read_entry(row: dict[str, Any]) -> LedgerEntry:
    """Return an entry from a row of the file."""
    try:
        plain = {name: value for name, value in row.items() if name != "totals"}
        share = read_totals(row["totals"]).share if row.get("totals") else None
        if share is not None:
            cost, failure, epsilon = map(as_float, share)
            plain["charged_mu"] = math.sqrt(cost)
            plain |= {"charged_failure": failure, "charged_epsilon": epsilon}
        return LedgerEntry(
            **{
                **plain,
                "time": datetime.fromtimestamp(row["time"], timezone.utc),
                "asserted": bool(row["asserted"]),
                "unit": Unit(row["unit"]),
                "neighbors": Neighbors(row["neighbors"]),
                "assumption": Assumption(row["assumption"]),
                "seeded": bool(row["seeded"]),
            }
        )
    except (OSError, OverflowError, TypeError, ValueError) as error:
        raise LedgerError(f"entry {row['id']} is damaged: {error}") from None


_CLAIMS = {
    Unit.ROW: "the user's assertion that these divisions of the rows are disjoint",
    Unit.USER: "an assertion that no person is in two blocks of these divisions",
}

# Entries that a notebook shows, newest last.
_SHOWN = 10


class Spent(NamedTuple):
    """A privacy cost: the smallest epsilon at this delta."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"epsilon={self.epsilon:.6g} at delta={self.delta:g}"


class LastSpent(Spent):
    """The cost of a ledger whose only entry is admitted by its own guarantee."""

    def __str__(self) -> str:
        return f"{super().__str__()}; the ledger admits nothing after this charge"


class Remaining(Spent):
    """What each of `n_fits` further fits may ask for; ``str()`` explains it.

    `total` is what is spent of a `budget`; both are None without one. `failures` is the
    part of its delta for failures.
    """

    n_fits: int
    budget: Budget | None
    total: Total | None
    failures: float

    def __new__(
        cls,
        epsilon: float,
        delta: float,
        n_fits: int = 1,
        budget: Budget | None = None,
        total: Total | None = None,
        failures: float = 0.0,
    ) -> Remaining:
        left = super().__new__(cls, epsilon, delta)
        left.n_fits, left.budget, left.total = n_fits, budget, total
        left.failures = failures
        return left

    def __repr__(self) -> str:
        return f"Spent(epsilon={self.epsilon!r}, delta={self.delta!r})"

    def __str__(self) -> str:
        if self.budget is None or self.total is None:
            return "The ledger has no budget: fits of any epsilon are recorded."
        # Only here: the epsilon of some totals takes seconds.
        spent = self.total.epsilon(self.budget.delta)
        said = self.budget.in_words(spent, self.epsilon, self.n_fits)
        used = as_float(self.total.box[1])
        if 2.0 * used > self.failures:
            said += (
                f" Of the {self.failures:g} of delta that is kept for failures, "
                f"{used:.3g} is used."
            )
        return said


class Summary(NamedTuple):
    """Totals and entries of a ledger at one moment; ``str()`` gives sentences.

    `relation` is None before the first entry, `remaining` is what one more fit may ask
    for, None without a budget. Entries are in order, oldest first. `total` has what
    Gaussian mechanisms cost, beside others; `digest` is that of all entries.
    """

    relation: tuple[Unit, Neighbors] | None
    spent: Spent
    budget: Budget | None
    remaining: Spent | None
    entries: tuple[LedgerEntry, ...]
    total: Total
    digest: str

    def __str__(self) -> str:
        unit = "" if self.relation is None else " per {}, {}".format(*self.relation)
        sentences = [f"{count_of(self.entries)}: {self.spent}{unit}."]
        if self.budget is not None and self.remaining is not None:
            left = self.remaining.epsilon
            sentences.append(self.budget.in_words(self.spent.epsilon, left))
        return " ".join([*sentences, *conditions(self.entries)])


def count_of(entries: tuple[LedgerEntry, ...]) -> str:
    """Return the number of entries as text."""
    return "1 entry" if len(entries) == 1 else f"{len(entries)} entries"


def conditions(entries: tuple[LedgerEntry, ...]) -> list[str]:
    """Return sentences about the assumptions of a total."""
    sentences = []
    asserted = {division_of(entry.partition) for entry in entries if entry.asserted}
    for unit, claim in _CLAIMS.items():
        names = sorted(name for divided, name in asserted if divided is unit)
        if names:
            sentences.append(f"This rests on {claim}: {', '.join(names)}.")
    found = {e.assumption for e in entries} - {Assumption.NONE}
    others = {Assumption.SUMMED_PARTS, Assumption.NO_LEAKS}
    models = sorted(map(str, found - others))
    if models:
        sentences.append(f"It holds only for data that satisfy: {', '.join(models)}.")
    for one in sorted(found & others):
        sentences.append(f"It holds only {one.condition}.")
    if any(entry.failure for entry in entries):
        sentences.append("A part of delta covers the failure of thresholds and bounds.")
    return sentences


def summary_html(summary: Summary) -> str:
    """Return totals and the newest entries as HTML, fully escaped."""
    totals = [("Spent", str(summary.spent))]
    if summary.budget is not None and summary.remaining is not None:
        budget, left = summary.budget, summary.remaining.epsilon
        totals.insert(0, ("Budget", str(Spent(budget.epsilon, budget.delta))))
        totals.append(("One more fit", f"up to {Spent(floored(left), budget.delta)}"))
    if summary.relation is not None:
        totals.append(("Protects per", "{}, {}".format(*summary.relation)))
    totals += [("", sentence) for sentence in conditions(summary.entries)]
    newest = summary.entries[-_SHOWN:]
    entries = [("Time (UTC)", "Estimator", "Label", "Block", "epsilon", "delta", "")]
    entries += [
        (
            format(entry.time, "%Y-%m-%d %H:%M:%S"),
            entry.estimator,
            entry.label or "",
            entry.block,
            format(entry.epsilon, ".6g"),
            format(entry.delta, "g"),
            "seeded: not private" if entry.seeded else "",
        )
        for entry in newest
    ]
    more = f", the newest {_SHOWN}" if len(newest) < len(summary.entries) else ""
    return (
        "<div><strong>PrivacyAccountant</strong>"
        f"{html_table(totals, heads=0)}<p>{count_of(summary.entries)}{more}</p>"
        f"{html_table(entries) if newest else ''}</div>"
    )


def exported(summary: Summary, ledger_id: str) -> str:
    """Return lines of JSON: the ledger, then its entries, oldest first."""
    lines = [_ledger_line(summary, ledger_id), *map(_entry_line, summary.entries)]
    return "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines)


def _ledger_line(summary: Summary, ledger_id: str) -> dict[str, Any]:
    unit, neighbors = map(str, summary.relation) if summary.relation else (None, None)
    budget = summary.budget
    return {
        "ledger": ledger_id,
        "unit": unit,
        "neighbors": neighbors,
        "entries": len(summary.entries),
        "spent": _pair(summary.spent),
        "budget": budget and _pair(Spent(budget.epsilon, budget.delta)),
        "statement": str(summary),
    }


def _pair(cost: Spent) -> dict[str, float | None]:
    return {"epsilon": finite(cost.epsilon), "delta": cost.delta}


def finite(number: float) -> float | None:
    """Return a number, or None for infinity, which JSON lacks."""
    return number if math.isfinite(number) else None


def _entry_line(entry: LedgerEntry) -> dict[str, Any]:
    line = entry._asdict()
    plan = line.pop("plan")
    line["time"] = entry.time.isoformat()
    for field in ("unit", "neighbors", "assumption"):
        line[field] = str(line[field])
    for field in ("epsilon", "mu", "ledger_mu", "charged_mu"):
        line[field] = line[field] and finite(line[field])
    line["statement"] = sentence(entry)
    line["mechanisms"] = json.loads(plan)["mechanisms"]
    return line


def sentence(entry: LedgerEntry) -> str:
    """Describe an entry in a sentence."""
    when = format(entry.time, "%Y-%m-%d %H:%M:%S")
    labeled = "" if entry.label is None else f" for {entry.label!r}"
    said = " ".join(_plan_of(entry).sentences())
    words = f"Entry {entry.id}, charged {when} UTC{labeled}: {said}"
    if entry.asserted:
        words += f" Somebody asserted that block {entry.block!r} shares no rows."
    return words


def _plan_of(entry: LedgerEntry) -> PrivacyPlan:
    try:
        return PrivacyPlan.from_json(entry.plan)
    except Exception as error:  # damage has errors of every type
        raise LedgerError(
            f"entry {entry.id} is damaged: its plan can't be read ({error})"
        ) from None


# How close a search for the largest epsilon ends: of Gaussians, and of others, whose
# noise is calibrated as closely.
_CLOSE, _CLOSE_OF_CURVES = 2.0**-40, 2.0**-10
_LEAST_SCALE, _MOST_TRIES = 2.0**-30, 20

_NOTHING, _NO_SLACK = Cost(0.0), Share()


@dataclass(eq=False)
class Excess(Exception):
    """A charge that exceeds the budget, and is rolled back.

    `terms` and `spent` are those before it. It has `n` fits of one `plan`, which `cost`
    each; no plan if several differ. `relation` is the ledger's. `slack` is the share
    that their block can add without increasing the total, and `first` is whether they
    are one charge, and the first.
    """

    what: str
    terms: LedgerTerms
    spent: Total
    total: Total
    plan: PrivacyPlan | None = None
    cost: Cost = _NOTHING
    relation: tuple[Unit, Neighbors] | None = None
    slack: Share = _NO_SLACK
    n: int = 1
    first: bool = False

    def error(self, budget: Budget) -> PrivacyBudgetError:
        """Return the error with the request and the largest admissible one."""
        if self.plan is None:
            requested, delta = self._rise().epsilon(budget.delta), budget.delta
            remaining = budget.remaining(self.spent, self.terms, 1, self.first)
        else:
            requested, delta = self.plan.epsilon, self.plan.delta
            remaining = self._largest_epsilon(budget, self.plan)
        each = " each" * (self.n > 1)
        message = (
            f"{self.what} would cost epsilon={requested:.6g}{each} at "
            f"delta={delta:g}, but only epsilon={floored(remaining):.6g}{each} at "
            f"that delta remains of the accountant's budget "
            f"epsilon={budget.epsilon:g}, delta={budget.delta:g}; nothing was charged."
            f"{self._spent_note(budget)}{self._failures_note(budget, remaining)}"
            f"{self._relation_note()}"
        )
        return PrivacyBudgetError(message, requested, remaining)

    def _relation_note(self) -> str:
        """Return why a plan of another relation costs more here, and the remedy."""
        plan, relation = self.plan, self.relation
        if plan is None or relation is None or conversion_factor(plan, relation) == 1.0:
            return ""
        return (
            f" This ledger protects per {relation[0]} under {relation[1]}, and counts "
            f"the guarantee per {plan.unit} under {plan.neighbors} twice; "
            f"{separate_ledger(plan)}."
        )

    def _rise(self) -> Total:
        """Return the increase of the total by several fits."""
        mu = math.sqrt(max(self.total.mu**2 - self.spent.mu**2, 0.0))
        counts = Counter[Curve]()
        for sign, total in ((1, self.total), (-1, self.spent)):
            for curve, n in total.curves:
                counts[curve] += sign * n
        failure = max(self.total.failure - self.spent.failure, 0.0)
        return Total(mu, failure, tuple((+counts).items()))

    def _largest_epsilon(self, budget: Budget, plan: PrivacyPlan) -> float:
        """Return the largest admissible epsilon at the plan's delta."""
        scale, close = 0.5, _CLOSE_OF_CURVES if plan.curves else _CLOSE
        while not self._lets_in(budget, scaled(self.cost, scale)):
            scale *= 0.5
            if scale < _LEAST_SCALE:
                return 0.0
        high = 2.0 * scale
        while high > scale * (1.0 + close):
            middle = math.sqrt(scale * high)
            if self._lets_in(budget, scaled(self.cost, middle)):
                scale = middle
            else:
                high = middle
        own = cost_of(plan)
        for _ in range(_MOST_TRIES):
            found = _epsilon_of(scaled(own, scale), plan.delta)
            # Six digits of it are named. Bounds by losses are not quite monotone.
            named = scale * floored(found) / found if found else scale
            if self._lets_in(budget, scaled(self.cost, named)):
                return found
            scale *= 1.0 - _CLOSE_OF_CURVES
        return 0.0

    def _lets_in(self, budget: Budget, cost: Cost) -> bool:
        """Return whether the fits would pass at this cost."""
        more = cost.total(self.n)
        total = Total(
            math.hypot(self.spent.mu, more.mu),
            self.spent.failure + more.failure,
            (*self.spent.curves, *more.curves),
        )
        box = box_of(with_pure(self.terms, cost))
        left = zip(box.room(self.spent), self.slack, strict=True)
        taken = box.share_of(cost, Share(*(x + y for x, y in left)), self.n)
        sums = zip(self.spent.box, taken, self.slack, strict=True)
        total = total._replace(box=tuple(x + max(y - z, 0) for x, y, z in sums))
        return box.admits(total) or (self.first and budget.covers(total))

    def _spent_note(self, budget: Budget) -> str:
        """State the spent budget, as budgets do not add up."""
        spent = self.spent.epsilon(budget.delta)
        if not 0.0 < spent < math.inf:
            return ""
        return (
            f" At delta={budget.delta:g}, epsilon={spent:.6g} is spent; costs do not "
            "add up linearly."
        )

    def _failures_note(self, budget: Budget, remaining: float) -> str:
        """Explain that failures exceed their limit, at any epsilon."""
        box = box_of(with_pure(self.terms, self.cost))
        most, taken = box.failures, as_float(self.total.box[1])
        lower = self.plan is not None and remaining > 0.0
        if taken <= most or lower or not self.total.additive:
            return ""
        used = as_float(self.spent.box[1])
        own, left = taken - used, max(most - used, 0.0)
        beside = Share(*self.total.box)._replace(failure=_NO_SLACK.failure)
        alone = "" if beside.within(box.corner) else " alone"
        message = (
            f" The cause is not epsilon{alone}: failures (categories of single rows, "
            f"bounds of a model, deltas of other tools) may use {most:.3g} of the "
            f"ledger's delta, {used:.3g} is already used, and this would use "
            f"{own:.3g}."
        )
        smaller = self._smaller_delta(budget, left / own if own else 0.0)
        if smaller:
            message += f" With delta={smaller:.6g} or less it would pass."
        elif budget.remaining(self.spent, self.terms, 1, self.first):
            message += (
                " Fits without failures still pass (for example, with public "
                "categories)."
            )
        return (
            f"{message} For a new ledger, set this part with "
            "PrivacyAccountant(failures=...)."
        )

    def _smaller_delta(self, budget: Budget, share: float) -> float:
        """Return a smaller delta of the plan that would pass; 0 for none.

        Failures are proportional to it; the same epsilon does not cost more.
        """
        if self.plan is None or not self.plan.failure:
            return 0.0
        smaller = floored(self.plan.delta * share * (1.0 - 2.0**-20))
        less = self.cost.failure * smaller / self.plan.delta
        passes = less >= MIN_DELTA and self._lets_in(
            budget, replace(self.cost, failure=less)
        )
        return smaller if passes else 0.0


def _epsilon_of(cost: Cost, delta: float) -> float:
    """Return the epsilon of a single fit."""
    if cost.pairs and not cost.mu:
        return math.fsum(n * pair.epsilon for pair, n in cost.pairs)
    return cost.total().epsilon(delta)


def scaled(cost: Cost, scale: float) -> Cost:
    """Return the cost of the same releases with more noise."""
    curves = tuple((_scaled(curve, scale), n) for curve, n in cost.curves)
    return replace(cost, mu=scale * cost.mu, curves=curves)


def _scaled(curve: Curve, scale: float) -> Curve:
    if isinstance(curve, ApproximateDP):
        return replace(curve, epsilon=scale * curve.epsilon)
    return replace(curve, noise_multiplier=curve.noise_multiplier / scale)
