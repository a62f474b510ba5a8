"""The facts of a statement: plain values from one plan, or from entries of a ledger."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any

from ..accounting import PrivacyAccountant
from ..mechanisms import (
    Assumption,
    Concern,
    Neighbors,
    ParallelPlan,
    PrivacyPlan,
    SharedGaussian,
    Unit,
    shown,
)
from ..mechanisms._plan import NODE_NOISE, SERVER_NOISE

FORMAT = "skdpspectral-statement-5"
# Groups of entries that a page shows.
MOST_SHOWN = 40
# Facts that no ledger has.
UNCONFIRMED = ("stated", "versions")
# What a curator states in numbers.
NUMBERS = ("n_units", "units_per_person")
# The kind of what is entered on the word of others.
EXTERNAL = "approximate-dp"
_CURVES = {"sampled-gaussian", "subsampled-gaussian", "approximate-dp"}


@dataclass(frozen=True)
class Facts:
    """What a statement has, in values of JSON; None for infinite numbers."""

    kind: str
    name: str
    why_not: str | None  # there is no guarantee
    epsilon: float | None
    delta: float
    mu: float | None  # unless all mechanisms are Gaussian
    distance: float | None  # total variation, unless epsilon and delta alone bound it
    unit: str
    neighbors: str
    assumptions: list[str]
    seeded: bool
    budget: dict[str, float] | None
    ledger: dict[str, Any] | None
    entries: list[dict[str, Any]]  # groups of equal plans and labels, some of n_groups
    n_groups: int
    kinds: list[str]
    n_clients: int
    parties: list[str]  # as _parties yields them
    n_units: int | None  # rows that a fit has seen, if public
    stated: dict[str, Any]
    versions: dict[str, str]

    def __post_init__(self) -> None:
        for name in NUMBERS:  # also of a record of anybody's
            check_number(name, self.stated.get(name))
        check_number("n_units", self.n_units)

    @property
    def private(self) -> bool:
        """Whether there is a guarantee, of nothing or of something."""
        return self.why_not is None

    @property
    def promised(self) -> bool:
        """Whether something was released with a guarantee."""
        return self.private and bool(self.entries)

    @property
    def conditions(self) -> list[str]:
        """Conditions of the guarantee, to follow on "only"."""
        return [Assumption(name).condition for name in self.assumptions]

    @property
    def curves(self) -> bool:
        """Whether costs are privacy curves, which no ``mu`` describes."""
        return not _CURVES.isdisjoint(self.kinds)

    @property
    def external(self) -> bool:
        """Whether other tools have spent something."""
        return EXTERNAL in self.kinds

    @property
    def limit(self) -> tuple[float, float] | None:
        """What a budget bounds, whatever results decided what was fitted next."""
        if self.budget is None or Assumption.SPIKED_GAUSSIAN in self.assumptions:
            return None
        return self.budget["epsilon"], self.budget["delta"]

    def read_plans(self) -> list[PrivacyPlan]:
        """Return the plans that are shown."""
        return [PrivacyPlan.from_json(json.dumps(own["plan"])) for own in self.entries]


def check_number(name: str, number: Any) -> None:
    """Refuse a number of rows or users that nobody can have."""
    if number is not None and not (type(number) is int and number >= 1):
        raise ValueError(f"{name} must be at least 1, got {shown(number)}")


def facts_in(record: Mapping[str, Any]) -> Facts:
    """Return the facts of a record; TypeError or ValueError for no record of ours."""
    if record["format"] != FORMAT:
        raise ValueError(f"the statement is not of the format {FORMAT}")
    return Facts(**{field.name: record[field.name] for field in fields(Facts)})


def software_versions() -> dict[str, str]:
    """Return the versions of what a fit in this process computes with."""
    own = sys.modules["skdpspectral"].__version__
    others = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"skdpspectral": own, "python": platform.python_version(), **others}


def finite(x: float) -> float | None:
    """Return a number, or None if it is infinite."""
    return x if math.isfinite(x) else None


def ledger_facts(
    accountant: PrivacyAccountant, n_entries: int | None = None, **more: Any
) -> Facts:
    """Return the facts of a ledger after some entries."""
    found = accountant._standing(n_entries)
    ledger = {"id": found.terms["id"], "entries": len(found.entries)}
    ledger["digest"] = found.digest
    days = [f"{entry.time:%Y-%m-%d}" for entry in found.entries]
    ledger |= {"first_day": days[0], "last_day": days[-1]} if days else {}
    return _facts("ledger", "PrivacyAccountant", found, ledger=ledger, **more)


_KINDS = {
    "PrivatePipeline": "pipeline",
    "PrivateSearchCV": "search",
    "JMECovariance": "stream",
}


def fit_facts(plan: PrivacyPlan, n_units: int | None = None, **more: Any) -> Facts:
    """Return the facts of one fit, by its plan and a number of rows, if public."""
    alone = PrivacyAccountant()
    alone.charge(plan)
    kind = _KINDS.get(plan.estimator, "estimator")
    kind = "federation" if isinstance(plan, ParallelPlan) else kind
    public = plan.unit is Unit.ROW and plan.neighbors is not Neighbors.ADD_REMOVE_ONE
    more |= {"n_units": n_units if public else None, "entries": [_group([], plan)]}
    # What was asked for, to the last digit.
    more |= {"epsilon": finite(plan.epsilon), "delta": plan.delta}
    return _facts(kind, plan.estimator, alone._standing(), **more)


def _parties(plan: PrivacyPlan) -> Iterator[str]:
    """Yield who adds the noise of sums over groups of users, and where clients are."""
    shares = [m.n_shares for m in plan.releases() if isinstance(m, SharedGaussian)]
    if max(shares, default=1) > 1:
        yield "parts"
    if NODE_NOISE in plan.remarks or (shares and min(shares) == 1):
        yield "node"
    if SERVER_NOISE in plan.remarks:
        yield "server"
    if isinstance(plan, ParallelPlan):
        trust = any(one.concern is Concern.TRUST for one in plan.remarks)
        yield "separate" if trust else "together"


def _facts(kind: str, name: str, found: Any, **more: Any) -> Facts:
    entries, total, budget = found.entries, found.total, found.budget
    alike: dict[tuple[str, str | None], list[Any]] = {}
    for entry in entries:
        alike.setdefault((entry.plan, entry.label), []).append(entry)
    plans = [PrivacyPlan.from_json(text) for text, _ in alike]
    epsilon = found.spent().epsilon
    void = [plan.guarantee() for plan in plans if not plan.private]
    remarks = (remark for plan in plans for remark in plan.remarks)
    void += [str(said) for said in remarks if said.concern is Concern.LEAK]
    void += ["The total cost has no limit at this delta."] * (epsilon == math.inf)
    unit, neighbors = map(str, (entries and found.relation) or ("", ""))
    blocks = (name for plan in plans for name, _ in getattr(plan, "blocks", ()))
    if budget is not None:
        pair = {"epsilon": budget.epsilon, "delta": budget.delta}
        budget = {**pair, "remaining_epsilon": found.remaining().epsilon}
    own = {
        "kind": kind,
        "name": name,
        "why_not": next(iter(void), None),
        "epsilon": finite(epsilon),
        "delta": found.delta,
        "mu": None if total.curves or total.failure else finite(total.mu),
        "distance": total.distance,
        "unit": unit,
        "neighbors": neighbors,
        "assumptions": sorted({str(e.assumption) for e in entries} - {"none"}),
        "seeded": any(entry.seeded for entry in entries),
        "budget": budget,
        "ledger": None,
        "entries": list(map(_group, alike.values(), plans))[:MOST_SHOWN],
        "n_groups": len(plans),
        "kinds": sorted({m.kind for plan in plans for m in plan.releases()}),
        "n_clients": len(set(blocks)),
        "parties": sorted({how for plan in plans for how in _parties(plan)}),
        "n_units": None,
    }
    return Facts(**{**own, **more})


def _group(entries: list[Any], plan: PrivacyPlan) -> dict[str, Any]:
    """Return entries that have the same plan and label; none of a fit alone."""
    n, ends = len(entries), sorted({e.id for e in (*entries[:1], *entries[-1:])})
    label = entries[0].label if entries else None
    return {"n_entries": n, "ends": ends, "label": label, "plan": plan.to_dict()}
