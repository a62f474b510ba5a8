"""Plans: what one fit will release, and what it costs, before there is any data.

Remarks about a guarantee come in the order of their weight, and the releases as tables,
in text and HTML.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, cast

from ._planned_releases import (
    CURVE_TYPES,
    Assumption,
    CorrelatedGaussian,
    Curve,
    Exact,
    ExponentialMechanism,
    Gaussian,
    Mechanism,
    Neighbors,
    SampledGaussian,
    SharedGaussian,
    ThresholdedGaussian,
    Unit,
    Word,
)
from ._report import Report, on_one_line
from ._report import html_table as html_table


class Concern(Word):
    """The subject of a remark, in the order of weight: ``str(plan)`` has the first.

    ``leak``
        A step leaks, so that the guarantee of the whole is void.
    ``model``
        The guarantee holds for data of a model alone.
    ``weaker``
        The guarantee is weaker than what was asked for, or that of a search.
    ``trust``
        Who may see what, and what nobody has checked.
    ``center``
        The estimator gave up its private center.
    ``noise``
        Noise hides what was asked for.
    ``public``
        What is taken to be public.
    ``measured``
        What was measured instead of the usual.
    ``other``
        Everything else, which only ``details()`` has.
    """

    LEAK = "leak"
    MODEL = "model"
    WEAKER = "weaker"
    TRUST = "trust"
    CENTER = "center"
    NOISE = "noise"
    PUBLIC = "public"
    MEASURED = "measured"
    OTHER = "other"


class Remark(str):
    """A sentence about a guarantee, and its subject."""

    concern: Concern

    def __new__(cls, text: str, concern: Concern | str = Concern.OTHER) -> Remark:
        remark = super().__new__(cls, text)
        remark.concern = Concern(concern)
        return remark

    @classmethod
    def of(cls, text: str) -> Remark:
        """Return a sentence as a remark; one that is a remark stays as it is."""
        return text if isinstance(text, Remark) else cls(text)

    def under(self, path: str) -> Remark:
        """Return the remark as one on a step of a pipeline."""
        return Remark(f"{path}: {self}", self.concern)


# Who adds the noise of sums over groups of users. Statements know plans by these.
SERVER_NOISE = Remark(
    "Nodes send exact sums over their users to a server, which adds the noise: the "
    "guarantee is against everybody but that server.",
    Concern.TRUST,
)
NODE_NOISE = Remark(
    "Every node adds all of the noise to its own sums: the guarantee is against the "
    "server and all other nodes.",
    Concern.TRUST,
)


def by_weight(remarks: Iterable[Remark]) -> list[Remark]:
    """Return remarks, the one that matters most first."""
    return sorted(remarks, key=lambda remark: list(Concern).index(remark.concern))


HEADS = ("release", "times", "shape", "noise sd", "sensitivity", "mu", "notes")


def release_rows(
    releases: Iterable[tuple[Any, str]],
) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
    """Yield the first of releases that differ only in names, its condition and a row.

    Releases come with their conditions. Those that are alike follow each other.
    """
    groups = itertools.groupby(
        releases, lambda pair: (replace(pair[0], name=""), *pair[1:])
    )
    for (_, condition), group in groups:
        (first, _), *others = group
        name = f"{first.name} to {others[-1][0].name}" if others else first.name
        noted = "; ".join(filter(None, (condition, first.notes())))
        cells = name, str(len(others) + 1), *_numbers(first), noted
        yield first, condition, tuple(map(on_one_line, cells))


def _numbers(mechanism: Any) -> tuple[str, ...]:
    """Return shape, noise, sensitivity and mu of a release."""
    noise = 0.0 if isinstance(mechanism, Exact) else None
    noise = getattr(mechanism, "noise_std", noise)
    moved = getattr(mechanism, "charged_sensitivity", None)
    is_curve = isinstance(mechanism, (*CURVE_TYPES, SampledGaussian))
    mu = "a curve" if is_curve else format(mechanism.mu, ".6g")
    shown = ("" if number is None else f"{number:.6g}" for number in (noise, moved))
    return str(mechanism.shape) if mechanism.shape else "", *shown, mu


def cost_line(mu: float, failure: float) -> str:
    """Return the cost of a plan in a sentence; empty if it is that of a curve alone."""
    but = f", except with probability {failure:g}, which delta includes"
    but = but if failure else ""
    if not math.isfinite(mu):
        return f"The cost holds{but[1:]}." if but else ""
    return f"Its cost is mu = {mu:.6g} in Gaussian differential privacy{but}."


def has_budget(plan: PrivacyPlan) -> bool:
    """Return whether a plan has a budget, and noise wherever it releases something."""
    return plan.noisy and plan.epsilon < math.inf


@dataclass(frozen=True)
class Alternatives:
    """Sets of releases of which a fit makes one; the names of all of them differ.

    **Formal guarantee.** If the branch is chosen by public numbers and earlier releases
    alone, the whole is :attr:`mu`-Gaussian differentially private.
    """

    kind: ClassVar[str] = "alternatives"

    name: str
    branches: tuple[tuple[Mechanism, ...], ...]

    def __post_init__(self) -> None:
        branches = tuple(tuple(branch) for branch in self.branches)
        object.__setattr__(self, "branches", branches)
        if len(branches) < 2 or not all(branches):
            raise ValueError(f"{self.name!r} needs two branches or more, none empty")
        if any(isinstance(m, CURVE_TYPES) for branch in branches for m in branch):
            raise ValueError(f"branches of {self.name!r} must be Gaussian mechanisms")

    @property
    def shape(self) -> tuple[int, ...]:
        """No array is released under the name of the choice itself."""
        return ()

    @property
    def mu(self) -> float:
        """Cost of the dearest branch."""
        return max(math.hypot(*(m.mu for m in branch)) for branch in self.branches)


def _with_conditions(mechanisms: Iterable[Any]) -> Iterator[tuple[Mechanism, str]]:
    """Yield releases, each with the condition that it is made under."""
    for mechanism in mechanisms:
        if not isinstance(mechanism, Alternatives):
            yield mechanism, ""
            continue
        n_branches = len(mechanism.branches)
        for number, branch in enumerate(mechanism.branches, 1):
            condition = f"{mechanism.name}: choice {number} of {n_branches}"
            yield from ((each, condition) for each in branch)


_KINDS = (
    Gaussian,
    CorrelatedGaussian,
    SampledGaussian,
    SharedGaussian,
    ThresholdedGaussian,
    Exact,
    ExponentialMechanism,
    Alternatives,
    *CURVE_TYPES,
)

_MECHANISMS: dict[str, Callable[..., Mechanism]] = {cls.kind: cls for cls in _KINDS}

_NOTHING = "It releases nothing."


@dataclass(frozen=True)
class PrivacyPlan:
    """An immutable, data-free description of all releases of a fit.

    Parameters
    ----------
    epsilon, delta : float
        The requested budget. ``epsilon=inf`` means that privacy is switched off.
    mechanisms : tuple of Mechanism
        The releases, composed adaptively in this order.
    estimator : str
        Name of the estimator.
    unit : Unit, default=Unit.ROW
        Privacy unit: whose contribution is protected.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        Neighbor relation: which change is hidden.
    assumption : Assumption, default=Assumption.NONE
        Assumption of the guarantee beyond its noise.
    seeded : bool, default=False
        Whether the noise comes from a seed. Such a release protects nothing from anyone
        who knows or repeats the seed.
    remarks : tuple of str, default=()
        Additional sentences about the guarantee. The most important one is the second
        line of ``str(plan)`` (:ref:`remarks`), and :meth:`details` has all of them.
    failure : float, default=0.0
        Part of `delta`: the probability that data satisfying the assumption differ by
        more than the mechanisms' sensitivities, or that a value of a single row is
        named (:class:`ThresholdedGaussian`). The costs hold outside this event, and
        ledgers add it up.
    """

    epsilon: float
    delta: float
    mechanisms: tuple[Mechanism, ...]
    estimator: str
    unit: Unit = Unit.ROW
    neighbors: Neighbors = Neighbors.REPLACE_ONE
    assumption: Assumption = Assumption.NONE
    seeded: bool = False
    remarks: tuple[str, ...] = ()
    failure: float = 0.0
    # What follows from the mechanisms, worked out once: every release asks for it.
    _releases: tuple[Mechanism, ...] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Mechanism] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        vars(self).update(
            unit=Unit(self.unit),
            neighbors=Neighbors(self.neighbors),
            assumption=Assumption(self.assumption),
            mechanisms=tuple(self.mechanisms),
            remarks=tuple(map(Remark.of, self.remarks)),
        )
        if not 0.0 <= self.failure < 1.0:
            raise ValueError(f"failure must be in [0, 1), got {self.failure}")
        releases = tuple(each for each, _ in _with_conditions(self.mechanisms))
        choices = [m for m in self.mechanisms if isinstance(m, Alternatives)]
        names = [mechanism.name for mechanism in (*choices, *releases)]
        by_name = dict(zip(names, (*choices, *releases), strict=True))
        vars(self).update(_releases=releases, _by_name=by_name)
        if len(by_name) != len(names):
            raise ValueError(f"the names of a plan's mechanisms must differ: {names}")
        for curve in self.curves:
            if curve.neighbors is not None and self.neighbors not in curve.neighbors:
                known = ", ".join(sorted(map(str, curve.neighbors)))
                raise ValueError(
                    f"{curve.name!r} has no guarantee under {self.neighbors}: a "
                    f"{curve.kind} mechanism has one only under {known}"
                )

    @property
    def mu(self) -> float:
        """Total cost in Gaussian differential privacy, assuming secret noise.

        Infinite if there are :attr:`curves`, whose cost has no finite ``mu``.
        """
        return math.sqrt(sum(mechanism.mu**2 for mechanism in self.mechanisms))

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Releases that are not Gaussian, each with its own privacy curve."""
        found = (self._curve(mechanism) for mechanism in self.mechanisms)
        return tuple(curve for curve in found if curve is not None)

    def _curve(self, mechanism: Mechanism) -> Curve | None:
        """Return what a mechanism costs if that is no ``mu``."""
        if isinstance(mechanism, SampledGaussian):
            return mechanism.curve(self.neighbors)
        return mechanism if isinstance(mechanism, CURVE_TYPES) else None

    @property
    def mu_beside_curves(self) -> float:
        """Cost of all other releases, in Gaussian differential privacy."""
        others = (m.mu for m in self.mechanisms if self._curve(m) is None)
        return math.sqrt(sum(mu**2 for mu in others))

    @property
    def noisy(self) -> bool:
        """Whether every release is noisy, whether or not the noise is secret."""
        return math.isfinite(self.mu_beside_curves)

    @property
    def private(self) -> bool:
        """Whether every release is noisy and the noise is secret."""
        return self.noisy and not self.seeded

    def releases(self) -> tuple[Mechanism, ...]:
        """Return all possible releases, including all branches of a choice."""
        return self._releases

    def __getitem__(self, name: str) -> Mechanism:
        """Return the planned mechanism of this name."""
        return self._by_name[name]

    def __str__(self) -> str:
        return str(Report(self.guarantee(), self._second_line()))

    def guarantee(self) -> str:
        """Return the guarantee in one sentence, the first line of ``str(plan)``."""
        if not self.noisy:
            return f"{self.estimator} gives no privacy: its noise was switched off."
        if self.seeded:
            return f"{self.estimator} gives no privacy: its noise came from a seed."
        return f"{self.estimator} is {self._claim()}"

    def _claim(self) -> str:
        claim = (
            f"differentially private with epsilon={self.epsilon:g}, "
            f"delta={self.delta:g} per {self.unit} ({self.neighbors})"
        )
        if self.assumption is not Assumption.NONE:
            claim += f", only {self.assumption.condition}"
        return f"{claim}."

    def _second_line(self) -> str:
        """Return the remark that matters most, or how many releases there are."""
        if self.seeded and self.noisy:
            return f"With secret, fresh noise it would be {self._claim()}"
        first = next(iter(by_weight(self._all_remarks())), Remark(""))
        if first.concern is not Concern.OTHER:
            return str(first)
        count = len(self.releases())
        if count > 1:
            choices = any(isinstance(m, Alternatives) for m in self.mechanisms)
            some = f"Up to {count}" if choices else f"{count}"
            return f"{some} releases; details() lists them."
        return "1 release; details() has it." if count else _NOTHING

    def _all_remarks(self) -> tuple[Remark, ...]:
        return cast(tuple[Remark, ...], self.remarks)

    def sentences(self) -> list[str]:
        """Return all sentences: guarantee, cost, and remarks by importance.

        Returns
        -------
        list of str
            Sentences of :meth:`details`, without the table of releases.
        """
        sentences = [self.guarantee()]
        if self.noisy:
            if self.seeded:
                sentences.append(self._second_line())
            sentences.append(self.neighbors.hides(self.unit))
            sentences += filter(None, [cost_line(self.mu, self.failure)])
        return [*map(on_one_line, (*sentences, *by_weight(self._all_remarks())))]

    def details(self) -> str:
        """Return all sentences, and a table of the releases, as text.

        Returns
        -------
        str
            Several lines of text. The table has one row per release, or per group of
            identical releases: their number, shape, noise standard deviation (on the
            diagonal for symmetric matrices), charged sensitivity and cost mu. If a note
            says "choice", a fit makes the releases of one choice, depending on earlier
            releases, and is charged for the most expensive choice.
        """
        return self._report().details()

    def table(self) -> list[tuple[str, ...]]:
        """Return the table of the releases, starting with its header.

        Returns
        -------
        list of tuple of str
            One row per release, or per group of identical releases.
        """
        return [HEADS, *(row for *_, row in self.rows())]

    def rows(self) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
        """Yield the first of identical releases, its condition, and their row."""
        return release_rows(_with_conditions(self.mechanisms))

    def _report(self) -> Report:
        first, *others = self.sentences()
        rows = self.table() if self.mechanisms else ()
        return Report(first, self._second_line(), others, rows, _NOTHING)

    def _repr_html_(self) -> str:
        return self._report()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values."""
        out: dict[str, Any] = {
            "estimator": self.estimator,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "unit": str(self.unit),
            "neighbors": str(self.neighbors),
            "assumption": str(self.assumption),
            "seeded": self.seeded,
            "failure": self.failure,
            "remarks": list(map(str, self.remarks)),
            "concerns": [str(Remark.of(said).concern) for said in self.remarks],
        }
        out["mechanisms"] = [_mechanism_to_dict(m) for m in self.mechanisms]
        return out

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the plan as JSON, which :meth:`from_json` reads."""
        return json.dumps({**self.to_dict(), "statement": str(self)}, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> PrivacyPlan:
        """Read a plan that :meth:`to_json` wrote."""
        fields = json.loads(text)
        if "blocks" in fields:
            return ParallelPlan.of(
                {each.pop("name"): _plan_of(each) for each in fields["blocks"]}
            )
        return _plan_of(fields)


def _plan_of(fields: dict[str, Any]) -> PrivacyPlan:
    fields.pop("statement", None)
    fields["epsilon"] = math.inf if fields["epsilon"] is None else fields["epsilon"]
    concerns = fields.pop("concerns", ["other"] * len(fields["remarks"]))
    fields["remarks"] = tuple(map(Remark, fields["remarks"], concerns))
    fields["mechanisms"] = tuple(map(_mechanism_from_dict, fields["mechanisms"]))
    return PrivacyPlan(**fields)


def _mechanism_to_dict(mechanism: Mechanism) -> dict[str, Any]:
    if isinstance(mechanism, Alternatives):
        branches = [
            [_mechanism_to_dict(m) for m in branch] for branch in mechanism.branches
        ]
        return {"kind": mechanism.kind, "name": mechanism.name, "branches": branches}
    given = {name: getattr(mechanism, name) for name in _given_fields(type(mechanism))}
    if "shape" in given:
        given["shape"] = list(mechanism.shape)
    if not given.get("lemma"):
        given.pop("lemma", None)
    return {"kind": mechanism.kind, **given}


@functools.cache
def _given_fields(cls: type) -> tuple[str, ...]:
    """Names of what a mechanism is made of; the rest follows from these."""
    return tuple(field.name for field in fields(cast(Any, cls)) if field.init)


def _mechanism_from_dict(entry: dict[str, Any]) -> Mechanism:
    fields = dict(entry)
    kind = fields.pop("kind")
    if kind not in _MECHANISMS:
        raise ValueError(f"unknown kind of mechanism {kind!r}")
    if kind == Alternatives.kind:
        branches = tuple(
            tuple(_mechanism_from_dict(m) for m in b) for b in fields["branches"]
        )
        return Alternatives(fields["name"], branches)
    if "shape" in fields:
        fields["shape"] = tuple(fields["shape"])
    return _MECHANISMS[kind](**fields)


@dataclass(frozen=True)
class ParallelPlan(PrivacyPlan):
    """Plans of disjoint `blocks` of rows, by name, and their common guarantee.

    Each row lies in one block, whose releases are all that depends on it. This plan has
    the budget and mechanisms of the dearest block, which hold for every row.
    """

    blocks: tuple[tuple[str, PrivacyPlan], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        blocks = tuple((str(name), plan) for name, plan in self.blocks)
        object.__setattr__(self, "blocks", blocks)
        names = [name for name, _ in self.blocks]
        if not names or len(set(names)) != len(names):
            raise ValueError("blocks must have distinct names")
        if any(plan.curves for _, plan in self.blocks):
            raise ValueError("blocks must have only Gaussian mechanisms")
        if max(plan.mu for _, plan in self.blocks) > self.mu:
            raise ValueError(
                "the plan of all blocks must be the plan of the most expensive one"
            )

    @classmethod
    def of(cls, plans: dict[str, PrivacyPlan]) -> ParallelPlan:
        """Return the plan of disjoint blocks, with the guarantee of the dearest."""
        dearest = max(plans.values(), key=lambda plan: plan.mu)
        own = {f.name: getattr(dearest, f.name) for f in fields(PrivacyPlan) if f.init}
        return cls(**own, blocks=tuple(plans.items()))

    def _all_remarks(self) -> tuple[Remark, ...]:
        return (*self._blocks_remarks(), *super()._all_remarks())

    def _blocks_remarks(self) -> Iterator[Remark]:
        """Say who the blocks are, those of one budget together."""
        if len(self.blocks) == 1:
            return
        yield Remark(
            f"This is the guarantee of the least protected of {len(self.blocks)} "
            "clients; each row has the guarantee of its own client, and a person with "
            "rows at several clients has a weaker one.",
            Concern.TRUST,
        )

        budgets: dict[tuple[float, float], list[str]] = {}
        for name, plan in self.blocks:
            budgets.setdefault((plan.epsilon, plan.delta), []).append(repr(name))
        for (epsilon, delta), names in sorted(budgets.items()):
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            count = "1 client" if len(names) == 1 else f"{len(names)} clients"
            yield Remark(f"({epsilon:g}, {delta:g}): {count} ({shown}).")

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values."""
        blocks = [{"name": name, **plan.to_dict()} for name, plan in self.blocks]
        return {**super().to_dict(), "blocks": blocks}
