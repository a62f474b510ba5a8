"""What a statement is made of: plans, or a ledger after some entries, and stated words.

A record holds all of it in plain values but the entries of the ledger. So a statement
that was changed, or a ledger, is found out by making the statement of its record again.
"""

from __future__ import annotations

import itertools
import json
import math
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from .._base.privacy_report import privacy_report
from ..accounting import PrivacyAccountant
from ..accounting._ledger.accountant import summary_of
from ..accounting._ledger.budget import division_of, whole_data
from ..accounting._ledger.entry_reports import LedgerEntry, Summary, finite
from ..accounting._ledger.planned_fits import fitted_within
from ..decomposition._federated_pca import FederatedDPPCA
from ..decomposition._federated_server import FederatedResult
from ..decomposition._sparse_pca import SparseDPPCA
from ..mechanisms import Assumption, ParallelPlan, PrivacyPlan, SharedGaussian
from ..mechanisms._plan import NODE_NOISE, SERVER_NOISE, Concern, Remark

# Groups of entries, plans and blocks that a page shows.
MOST_SHOWN = 40


def software_versions() -> dict[str, str]:
    """Return the versions of what a fit in this process computes with."""
    own = sys.modules["skdpspectral"].__version__
    try:
        listed = requires("skdpspectral") or []
    except PackageNotFoundError:  # of a checkout that was never installed
        listed = []
    needed = [re.match(r"[\w-]+", of) for of in listed]
    names = [of[0] for of in needed if of and "extra ==" not in of.string]
    found = {name: version(name) for name in sorted(names)}
    return {"skdpspectral": own, "python": platform.python_version(), **found}


def record_of(of: Any, stated: Mapping[str, Any], audit: Any) -> dict[str, Any]:
    """Return the record of a fitted estimator, a composition of some, or a ledger."""
    record: dict[str, Any] = {"kind": "ledger", "name": "PrivacyAccountant"}
    record |= {"plans": [], "ledger": None, "report": None, "n_units": None}
    if isinstance(of, PrivacyAccountant):
        record["ledger"] = ledger_facts(of, summary_of(of))
    else:
        of, found = _fitted_plans(of)
        record["kind"], record["name"] = _kind_of(of), type(of).__name__
        record["plans"] = [[path, plan.to_dict()] for path, plan in found]
        steps = [asdict(step) for step in privacy_report(of)]
        keys = ("name", "estimator", "verdict", "reason")
        record["report"] = [{key: step[key] for key in keys} for step in steps]
        first = found[0][1]
        if str(first.unit) == "row" and str(first.neighbors) != "add-remove-one":
            n = getattr(of, "n_samples_", getattr(of, "n_samples_seen_", None))
            record["n_units"] = None if n is None else int(n)
    record["stated"] = {name: value for name, value in stated.items() if value}
    record["audit"] = None if audit is None else _audit(audit)
    record["versions"] = software_versions()
    return record


def ledger_facts(accountant: PrivacyAccountant, summary: Summary) -> dict[str, Any]:
    """Return which ledger it is, and which state of it."""
    found = {"id": accountant._id, "entries": len(summary.entries)}
    return {**found, "digest": summary.digest}


def _audit(audit: Any) -> dict[str, float]:
    keys = ("epsilon", "claimed_epsilon", "delta", "confidence", "n_trials")
    try:
        return {key: finite(float(getattr(audit, key))) for key in keys}
    except (AttributeError, TypeError, ValueError):
        raise TypeError("audit must be a result of audit_epsilon") from None


def _fitted_plans(of: Any) -> tuple[Any, list[tuple[str, PrivacyPlan]]]:
    """Return a fitted estimator, and its plan, or those of the steps that it holds."""
    if isinstance(of, FederatedResult):
        of = (SparseDPPCA if of.task.n_rounds else FederatedDPPCA).from_result(of)
    plan = getattr(of, "privacy_", None)
    if isinstance(plan, PrivacyPlan):
        return of, [("", plan)]
    if hasattr(of, "cv_results_") or hasattr(of, "param_distributions"):
        raise TypeError(
            f"the fits of a {type(of).__name__} are recorded only in its ledger: pass "
            "statement the PrivacyAccountant, or search with PrivateSearchCV"
        )
    inside: set[int] = set()
    found = []
    for part in fitted_within(of):
        plan = getattr(part, "privacy_", None)
        if isinstance(plan, PrivacyPlan) and id(part) not in inside:
            found.append(plan)  # with all that is in it
            inside |= set(map(id, fitted_within(part)))
    if not found:
        raise TypeError(
            "of must be a fitted private estimator, a fitted pipeline of some, or a "
            f"PrivacyAccountant, got a {type(of).__name__} that has no privacy_"
        )
    return of, [(f"step {i}", plan) for i, plan in enumerate(found, start=1)]


def _kind_of(of: Any) -> str:
    if hasattr(of, "steps"):
        return "pipeline"
    if hasattr(of, "_selects_privately"):
        return "search"
    if isinstance(of.privacy_, ParallelPlan) or hasattr(of, "clients_"):
        return "federation"
    return "stream" if hasattr(of, "n_samples_seen_") else "estimator"


@dataclass(frozen=True)
class Facts:
    """The facts of a statement, in plain values; None for infinity.

    `why_not` is why there is no guarantee, if so. `mu` is None unless all mechanisms
    are Gaussian. `distance` is the largest total variation between the laws of the
    results on neighbors, None where only epsilon and delta bound it. `noise_by` says
    who adds the noise of sums over groups of users: "server", "node", or "parts", a
    share each. `plans` are those shown, of `n_plans`; `groups` are groups of equal
    entries, or the plans of an estimator, of `n_groups`.
    """

    record: Mapping[str, Any]
    why_not: str | None
    epsilon: float | None
    delta: float
    mu: float | None
    distance: float | None
    curves: bool
    unit: str
    neighbors: str
    assumptions: tuple[Assumption, ...]
    seeded: bool
    budget: Mapping[str, float] | None
    groups: tuple[dict[str, Any], ...]
    n_groups: int
    plans: tuple[PrivacyPlan, ...]
    n_plans: int
    headings: tuple[str, ...]
    parties: tuple[str, ...]
    noise_by: frozenset[str]
    asserted: tuple[str, ...]
    external: bool
    period: tuple[str, str] | None

    @property
    def private(self) -> bool:
        """Whether there is a guarantee."""
        return self.why_not is None

    @property
    def ledger(self) -> Mapping[str, Any] | None:
        """Which ledger it is of, if any."""
        return self.record["ledger"]

    @property
    def stated(self) -> Mapping[str, Any]:
        """What the curator says."""
        return self.record["stated"]

    @property
    def separate(self) -> bool:
        """Whether the parties have computed on machines of their own."""
        said = (Remark.of(remark) for plan in self.plans for remark in plan.remarks)
        concerns = {remark.concern for remark in said}
        return bool(self.parties) and Concern.TRUST in concerns

    @property
    def summed(self) -> bool:
        """Whether several parties have added shares of the noise."""
        return (
            Assumption.SUMMED_PARTS in self.assumptions or PARTS_NOISE in self.noise_by
        )


def facts_of(record: Mapping[str, Any], accountant: PrivacyAccountant | None) -> Facts:
    """Return the facts of a record, with the ledger that it is of, if any."""
    if record["ledger"] is not None:
        assert accountant is not None
        return _facts(record, summary_of(accountant, record["ledger"]["entries"]))
    plans = [PrivacyPlan.from_json(json.dumps(plan)) for _, plan in record["plans"]]
    together = PrivacyAccountant()  # composes them, and restates relations
    for (path, _), plan in zip(record["plans"], plans, strict=True):
        if isinstance(plan, ParallelPlan):
            together._charge_disjoint(plan.estimator, dict(plan.blocks))
        else:
            (together.named(path) if path else together).charge(plan)
    facts = _facts(record, summary_of(together))
    if len(plans) == 1:  # what was asked for, to the last digit
        asked = {"epsilon": finite(plans[0].epsilon), "delta": plans[0].delta}
        facts = replace(facts, **asked)  # type: ignore[arg-type]
    leaks = [s for s in record["report"] or () if s["verdict"] == "LEAKS"]
    whys = [f"The step {step['name']!r} {step['reason']}." for step in leaks]
    return replace(
        facts,
        why_not=next(
            filter(None, [*map(_why_void, plans), facts.why_not, *whys]), None
        ),
        groups=tuple({**g, "first": None, "last": None} for g in facts.groups),
        plans=tuple(plans[:MOST_SHOWN]),
        n_plans=len(plans),
        headings=tuple(f"Releases of {plan.estimator}" for plan in plans[:MOST_SHOWN]),
        period=None,
    )


def _why_void(plan: PrivacyPlan) -> str | None:
    """Return why a plan has no guarantee; None if it has one."""
    if not plan.private:
        return plan.guarantee()
    said = map(Remark.of, plan.remarks)
    return next((str(one) for one in said if one.concern is Concern.LEAK), None)


PARTS_NOISE = "parts"
# Parts of a plan's text, without which nobody else adds its noise.
_MARKS = (SERVER_NOISE, NODE_NOISE, SharedGaussian.kind)


def _noise_by(plans: Iterable[str]) -> Iterator[str]:
    """Yield who adds the noise of sums over groups of users, of plans as texts."""
    for text in plans:
        if not any(mark in text for mark in _MARKS):
            continue
        plan = PrivacyPlan.from_json(text)
        shares = [m.n_shares for m in plan.releases() if isinstance(m, SharedGaussian)]
        if shares and max(shares) > 1:
            yield PARTS_NOISE
        if NODE_NOISE in plan.remarks or (shares and min(shares) == 1):
            yield "node"
        if SERVER_NOISE in plan.remarks:
            yield "server"


def _facts(record: Mapping[str, Any], summary: Summary) -> Facts:
    entries, budget, total = summary.entries, summary.budget, summary.total
    unit, neighbors = (entries and summary.relation) or ("", "")
    texts: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        texts.setdefault(entry.plan, []).append(entry)
    shown = itertools.islice(texts, MOST_SHOWN)
    groups, n_groups = _groups(entries)
    gaussian = not total.curves and not total.failure
    left = None
    if budget is not None and summary.remaining is not None:
        left = {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "remaining_epsilon": summary.remaining.epsilon,
        }
    epsilon, ends = summary.spent.epsilon, entries and (entries[0], entries[-1])
    doubtful = (
        e.plan
        for e in entries
        if e.seeded or e.epsilon == math.inf or e.assumption is Assumption.NO_LEAKS
    )
    whys = map(_why_void, map(PrivacyPlan.from_json, dict.fromkeys(doubtful)))
    why = next(filter(None, whys), None)
    if why is None and epsilon == math.inf:
        why = "The total cost has no limit at this delta."
    return Facts(
        record=record,
        why_not=why,
        epsilon=finite(epsilon),
        delta=summary.spent.delta,
        mu=finite(total.mu) if gaussian else None,
        distance=None if total.curves else total.delta(0.0),
        curves=bool(total.curves),
        unit=str(unit),
        neighbors=str(neighbors),
        assumptions=tuple(sorted({e.assumption for e in entries} - {Assumption.NONE})),
        seeded=any(entry.seeded for entry in entries),
        budget=left,
        groups=groups,
        n_groups=n_groups,
        plans=tuple(map(PrivacyPlan.from_json, shown)),
        n_plans=len(texts),
        headings=tuple(map(_heading, itertools.islice(texts.values(), MOST_SHOWN))),
        parties=tuple(dict.fromkeys(e.block for e in entries if _is_client(e))),
        noise_by=frozenset(_noise_by(texts)),
        asserted=tuple(
            sorted({division_of(e.partition)[1] for e in entries if e.asserted})
        ),
        external=any("approximate-dp" in entry.kind for entry in entries),
        period=tuple(f"{e.time:%Y-%m-%d}" for e in ends) if ends else None,  # type: ignore[arg-type]
    )


def _is_client(entry: LedgerEntry) -> bool:
    """Return whether an entry is of a client, whose rows are known to be its own."""
    return not entry.asserted and entry.block != whole_data().block


# What entries of a group have in common: all that is shown, or less where many differ.
_ALIKE = ("kind", "estimator", "label", "block", "epsilon", "delta")


def _groups(entries: tuple[LedgerEntry, ...]) -> tuple[tuple[dict[str, Any], ...], int]:
    """Group equal entries, as finely as fits on a page."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for n_alike in (6, 4, 2, 0):
        found.clear()
        for entry in entries:
            key = tuple(getattr(entry, name) for name in _ALIKE[:n_alike])
            found.setdefault(key, []).append(entry)
        if len(found) <= MOST_SHOWN:
            break
    return tuple(map(_group, found.values())), len(found)


def _heading(entries: list[LedgerEntry]) -> str:
    """Return the heading of a plan, with the entries that have it."""
    first, n_others = entries[0], len(entries) - 1
    label = first.block if _is_client(first) else first.label
    like = f" and {n_others} like it" if n_others else ""
    name = f"Entry {first.id}{', ' if label else ''}{label or ''}"
    return f"{name}{like}: {first.estimator}"


def _group(entries: list[LedgerEntry]) -> dict[str, Any]:
    def common(name: str) -> Any:
        values = {getattr(entry, name) for entry in entries}
        return values.pop() if len(values) == 1 else None

    epsilon, delta = common("epsilon"), common("delta")
    cost = math.hypot(*(entry.ledger_mu for entry in entries))
    curves = any(entry.kind != "gaussian" for entry in entries)
    labels = {e.block if _is_client(e) else e.label for e in entries}
    label = f"{len(labels)} labels" if len(labels) > 1 else labels.pop()
    return {
        "entries": len(entries),
        "first": entries[0].id,
        "last": entries[-1].id,
        "what": common("estimator") or "several estimators",
        "label": label,
        "epsilon": None if epsilon is None else finite(epsilon),
        "delta": delta,
        "mu": None if curves else finite(cost),
        "external": common("kind") == "approximate-dp",
    }
