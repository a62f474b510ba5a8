"""The facts of a statement: plain values from one plan, or from entries of a ledger."""

from __future__ import annotations

import itertools
import json
import math
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any

from ..accounting import PrivacyAccountant
from ..mechanisms import (
    Assumption,
    Concern,
    ParallelPlan,
    PrivacyPlan,
    Remark,
    SharedGaussian,
)
from ..mechanisms._plan import NODE_NOISE, SERVER_NOISE

FORMAT = "skdpspectral-statement-2"
# Groups of entries, plans and clients that a page shows.
MOST_SHOWN = 40
# Facts that no ledger has.
UNCONFIRMED = ("stated", "audit", "versions", "n_units")
PARTS_NOISE = "parts"


@dataclass(frozen=True)
class Facts:
    """What a statement has, in values of JSON; None for infinite numbers.

    `why_not` is why there is no guarantee, if so. `mu` is None unless all mechanisms
    are Gaussian. `distance` is the largest total variation between the laws of the
    results on neighbors, None where only epsilon and delta bound it. `noise_by` has who
    adds the noise of sums over groups of users: "server", "node", or "parts", a share
    each. `entries` are groups of equal entries, and `plans` have headings; both are cut
    off after some, of `n_groups` and `n_plans`. `n_units` is a public number of rows.
    """

    kind: str
    name: str
    why_not: str | None
    epsilon: float | None
    delta: float
    mu: float | None
    distance: float | None
    unit: str
    neighbors: str
    assumptions: list[str]
    seeded: bool
    curves: bool
    budget: dict[str, float] | None
    ledger: dict[str, Any] | None
    entries: list[dict[str, Any]]
    n_groups: int
    plans: list[dict[str, Any]]
    n_plans: int
    kinds: list[str]
    clients: list[str]
    separate: bool
    noise_by: list[str]
    divisions: list[str]
    n_units: int | None
    stated: dict[str, Any]
    audit: dict[str, float] | None
    versions: dict[str, str]

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
    def summed(self) -> bool:
        """Whether several parties have added shares of the noise."""
        return Assumption.SUMMED_PARTS in self.assumptions or (
            PARTS_NOISE in self.noise_by
        )

    @property
    def filtered(self) -> bool:
        """Whether a budget holds, whatever results decided what was fitted next.

        What bounds of a model of rows cost is known only of fits chosen beforehand.
        """
        return bool(self.budget) and Assumption.SPIKED_GAUSSIAN not in self.assumptions

    @property
    def refuted(self) -> bool:
        """Whether an audit has found more than is claimed."""
        audit = self.audit or {}
        claims = [c for c in (audit.get("claimed_epsilon"), self.epsilon) if c]
        return (audit.get("epsilon") or 0.0) > min(claims, default=math.inf)

    def read_plans(self) -> list[PrivacyPlan]:
        """Return the plans that are shown."""
        return [PrivacyPlan.from_json(json.dumps(own["plan"])) for own in self.plans]


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
    found = accountant.standing(n_entries)
    ledger = {"id": found.id, "entries": len(found.entries), "digest": found.digest}
    days = [f"{entry.time:%Y-%m-%d}" for entry in found.entries]
    ledger |= {"first_day": days[0], "last_day": days[-1]} if days else {}
    return _facts("ledger", "PrivacyAccountant", found, ledger=ledger, **more)


_KINDS = {
    "PrivatePipeline": "pipeline",
    "PrivateSearchCV": "search",
    "JMECovariance": "stream",
}


def fit_facts(plan: PrivacyPlan, **more: Any) -> Facts:
    """Return the facts of one fit, by its plan alone."""
    alone = PrivacyAccountant()
    alone.charge(plan)
    kind = _KINDS.get(plan.estimator, "estimator")
    kind = "federation" if isinstance(plan, ParallelPlan) else kind
    found = _facts(kind, plan.estimator, alone.standing(), ledger=None, **more)
    heading = f"Releases of {plan.estimator}"
    asked = {
        "epsilon": finite(plan.epsilon),  # what was asked for, to the last digit
        "delta": plan.delta,
        "why_not": _why_void(plan) or found.why_not,
        "entries": [{**found.entries[0], "first": None, "last": None}],
        "plans": [{"heading": heading, "plan": plan.to_dict()}],
    }
    return Facts(**{**vars(found), **asked})


def _why_void(plan: PrivacyPlan) -> str | None:
    """Return why a plan has no guarantee; None if it has one."""
    if not plan.private:
        return plan.guarantee()
    said = map(Remark.of, plan.remarks)
    return next((str(one) for one in said if one.concern is Concern.LEAK), None)


def _noise_by(plan: PrivacyPlan) -> Iterator[str]:
    """Yield who adds the noise of sums over groups of users."""
    shares = [m.n_shares for m in plan.releases() if isinstance(m, SharedGaussian)]
    if shares and max(shares) > 1:
        yield PARTS_NOISE
    if NODE_NOISE in plan.remarks or (shares and min(shares) == 1):
        yield "node"
    if SERVER_NOISE in plan.remarks:
        yield "server"


def _facts(
    kind: str, name: str, found: Any, *, ledger: dict[str, Any] | None, **more: Any
) -> Facts:
    entries, total, budget = found.entries, found.total, found.budget
    by_plan: dict[str, list[Any]] = {}
    for entry in entries:
        by_plan.setdefault(entry.plan, []).append(entry)
    plans = [PrivacyPlan.from_json(text) for text in by_plan]
    parallel = [plan for plan in plans if isinstance(plan, ParallelPlan)]
    clients = dict.fromkeys(str(name) for plan in parallel for name, _ in plan.blocks)
    trusts = any(
        Remark.of(said).concern is Concern.TRUST for p in parallel for said in p.remarks
    )
    epsilon = found.spent.epsilon
    why_not = next(filter(None, map(_why_void, plans)), None)
    if why_not is None and epsilon == math.inf:
        why_not = "The total cost has no limit at this delta."
    groups = _groups(entries)
    unit, neighbors = map(str, (entries and found.relation) or ("", ""))
    shown = list(zip(by_plan.values(), plans, strict=True))[:MOST_SHOWN]
    return Facts(
        kind=kind,
        name=name,
        why_not=why_not,
        epsilon=finite(epsilon),
        delta=found.spent.delta,
        mu=None if total.curves or total.failure else finite(total.mu),
        distance=None if total.curves else total.delta(0.0),
        unit=unit,
        neighbors=neighbors,
        assumptions=sorted({str(e.assumption) for e in entries} - {"none"}),
        seeded=any(entry.seeded for entry in entries),
        curves=bool(total.curves),
        budget=None
        if budget is None
        else {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "remaining_epsilon": found.remaining,
        },
        ledger=ledger,
        entries=groups[:MOST_SHOWN],
        n_groups=len(groups),
        plans=[{"heading": _heading(e), "plan": p.to_dict()} for e, p in shown],
        n_plans=len(plans),
        kinds=sorted({m.kind for plan in plans for m in plan.releases()}),
        clients=list(clients),
        separate=trusts,
        noise_by=sorted({who for plan in plans for who in _noise_by(plan)}),
        divisions=sorted({e.partition for e in entries if e.partition is not None}),
        **{"n_units": None, "audit": None, **more},
    )


def _heading(entries: list[Any]) -> str:
    """Return the heading of a plan, with the entries that have it."""
    first, n_others = entries[0], len(entries) - 1
    like = f" and {n_others} like it" if n_others else ""
    name = ", ".join(filter(None, (f"Entry {first.id}", first.label)))
    return f"{name}{like}: {first.estimator}"


# What entries of a group have in common: all that is shown, or less where many differ.
_ALIKE = ("estimator", "kinds", "label", "epsilon", "delta")


def _groups(entries: Iterable[Any]) -> list[dict[str, Any]]:
    """Group equal entries, as finely as fits on a page."""
    for n_alike in (5, 3, 2, 0):
        found: dict[str, list[Any]] = {}
        for entry in entries:
            key = [getattr(entry, name) for name in _ALIKE[:n_alike]]
            found.setdefault(repr(key), []).append(entry)
        if len(found) <= MOST_SHOWN:
            break
    return list(map(_group, found.values()))


def _group(entries: list[Any]) -> dict[str, Any]:
    def common(name: str, other: Any = None) -> Any:
        values = [getattr(entry, name) for entry in entries]
        return values[0] if all(value == values[0] for value in values) else other

    labels = len({entry.label for entry in entries})
    cost = math.hypot(*(entry.ledger_mu for entry in entries))
    curves = any(itertools.chain.from_iterable(entry.kinds for entry in entries))
    return {
        "entries": len(entries),
        "first": entries[0].id,
        "last": entries[-1].id,
        "what": common("estimator", "several estimators"),
        "label": common("label", f"{labels} labels"),
        "epsilon": finite(common("epsilon", math.inf)),
        "delta": common("delta"),
        "mu": None if curves else finite(cost),
        "external": common("kinds") == ["approximate-dp"],
    }
