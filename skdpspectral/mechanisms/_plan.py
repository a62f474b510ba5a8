"""Plans: what one fit will release, and what it costs, before there is any data."""

from __future__ import annotations

import html
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from ._planned_releases import (
    Assumption,
    Curve,
    Exact,
    Mechanism,
    Neighbors,
    Unit,
    Word,
)


def on_one_line(text: str) -> str:
    """Return a text without line breaks, which names that are given may have."""
    return " ".join(text.split())


def _escaped(cell: object) -> str:
    return html.escape(str(cell))


def html_table(
    rows: Iterable[Sequence[object]],
    heads: int = 1,
    as_cell: Callable[[Any], str] = _escaped,
) -> str:
    """Return rows as an HTML table whose first ones are heads; all text is escaped."""
    lines = []
    for number, row in enumerate(rows):
        tag = "th" if number < heads else "td"
        cells = (f'<{tag} style="text-align: left">{as_cell(c)}</{tag}>' for c in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


class Concern(Word):
    """The subject of a remark, in the order of weight: ``str(plan)`` has the first."""

    LEAK = "leak"  # a step leaks, so that the guarantee of the whole is void
    MODEL = "model"  # the guarantee holds for data of a model alone
    WEAKER = "weaker"  # it is weaker than what was asked for, or that of a search
    TRUST = "trust"  # who may see what, and what nobody has checked
    CENTER = "center"  # the estimator gave up its private center
    NOISE = "noise"  # noise hides what was asked for
    PUBLIC = "public"  # what is taken to be public
    MEASURED = "measured"  # what was measured instead of the usual
    OTHER = "other"  # everything else, which only ``details()`` has


class Remark(str):
    """A sentence about a guarantee, and its subject: by default what it was."""

    concern: Concern

    def __new__(cls, text: str, concern: Concern | str | None = None) -> Remark:
        remark = super().__new__(cls, text)
        remark.concern = Concern(concern or getattr(text, "concern", Concern.OTHER))
        return remark


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


def has_budget(plan: PrivacyPlan) -> bool:
    """Return whether a plan has a budget, and noise wherever it releases something."""
    return plan.noisy and plan.epsilon < math.inf


@dataclass(frozen=True)
class Alternatives(Mechanism):
    """Sets of releases of which a fit makes one; the names of all of them differ.

    **Formal guarantee.** If the branch is chosen by public numbers and earlier releases
    alone, the whole is :attr:`mu`-Gaussian differentially private.
    """

    kind: ClassVar[str] = "alternatives"

    branches: tuple[tuple[Mechanism, ...], ...]

    def __post_init__(self) -> None:
        self._keep("branches", tuple(map(tuple, self.branches)))
        if len(self.branches) < 2 or not all(self.branches):
            raise ValueError(f"{self.name!r} needs two branches or more, none empty")
        releases = itertools.chain(*self.branches)
        if any(m.curve(Neighbors.ZERO_OUT_ONE) is not None for m in releases):
            raise ValueError(f"branches of {self.name!r} must be Gaussian mechanisms")

    @property
    def mu(self) -> float:  # type: ignore[override]
        """Cost of the dearest branch."""
        return max(math.hypot(*(m.mu for m in branch)) for branch in self.branches)

    def to_dict(self) -> dict[str, Any]:
        """Return all branches by what their releases are made of."""
        branches = [[m.to_dict() for m in branch] for branch in self.branches]
        return {"kind": self.kind, "name": self.name, "branches": branches}


def _with_conditions(mechanisms: Iterable[Any]) -> Iterator[tuple[Mechanism, str]]:
    """Yield releases, each with the condition that it is made under."""
    for mechanism in mechanisms:
        branches = getattr(mechanism, "branches", None)
        for number, branch in enumerate(branches or [[mechanism]], 1):
            of = f"{mechanism.name}: choice {number} of {len(branches or ())}"
            yield from ((each, of if branches else "") for each in branch)


def _cells(names: list[str], mechanism: Any, condition: str) -> tuple[str, ...]:
    """Return the row of a table for releases that differ in names alone."""
    noise = 0.0 if isinstance(mechanism, Exact) else None
    noise = getattr(mechanism, "noise_std", noise)
    moved = getattr(mechanism, "charged_sensitivity", None)
    is_curve = mechanism.curve(Neighbors.ZERO_OUT_ONE) is not None
    cells = (
        names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}",
        str(len(names)),
        str(mechanism.shape or ""),
        *("" if number is None else f"{number:.6g}" for number in (noise, moved)),
        "a curve" if is_curve else f"{mechanism.mu:.6g}",
        "; ".join(filter(None, (condition, mechanism.notes()))),
    )
    return tuple(map(on_one_line, cells))


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
    one_row_each : bool, default=False
        Whether each user counts as one row, which is drawn at random.
    """

    epsilon: float
    delta: float
    mechanisms: tuple[Mechanism, ...]
    estimator: str
    unit: Unit = Unit.ROW
    neighbors: Neighbors = Neighbors.REPLACE_ONE
    assumption: Assumption = Assumption.NONE
    seeded: bool = False
    remarks: tuple[Any, ...] = ()
    failure: float = 0.0
    one_row_each: bool = False
    # What follows from the mechanisms, worked out once: every release asks for it.
    _releases: tuple[Mechanism, ...] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Mechanism] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        vars(self).update(
            unit=Unit(self.unit),
            neighbors=Neighbors(self.neighbors),
            assumption=Assumption(self.assumption),
            mechanisms=tuple(self.mechanisms),
            remarks=tuple(map(Remark, self.remarks)),
        )
        if not all(type(b) is bool for b in (self.seeded, self.one_row_each)):
            raise ValueError("seeded and one_row_each must be True or False")
        if not 0.0 <= self.failure < 1.0:
            raise ValueError(f"failure must be in [0, 1), got {self.failure}")
        releases = tuple(each for each, _ in _with_conditions(self.mechanisms))
        choices = [m for m in self.mechanisms if isinstance(m, Alternatives)]
        named = [(mechanism.name, mechanism) for mechanism in (*choices, *releases)]
        vars(self).update(_releases=releases, _by_name=dict(named))
        if len(self._by_name) != len(named):
            names = [name for name, _ in named]
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
        found = (mechanism.curve(self.neighbors) for mechanism in self.mechanisms)
        return tuple(curve for curve in found if curve is not None)

    @property
    def mu_beside_curves(self) -> float:
        """Cost of all other releases, in Gaussian differential privacy."""
        others = (m.mu for m in self.mechanisms if m.curve(self.neighbors) is None)
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
        return "\n".join(map(on_one_line, (self.guarantee(), self._second_line())))

    def guarantee(self) -> str:
        """Return the guarantee in one sentence, the first line of ``str(plan)``."""
        if not self.noisy:
            return f"{self.estimator} gives no privacy: its noise was switched off."
        if self.seeded:
            return f"{self.estimator} gives no privacy: its noise came from a seed."
        return f"{self.estimator} is {self._claim()}"

    def _claim(self) -> str:
        only = f", only {self.assumption.condition}"
        return (
            f"differentially private with epsilon={self.epsilon:g}, "
            f"delta={self.delta:g} per {self.unit} ({self.neighbors})"
            f"{'' if self.assumption is Assumption.NONE else only}."
        )

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
            return f"{'Up to ' * choices}{count} releases; details() lists them."
        return "1 release; details() has it." if count else _NOTHING

    def _all_remarks(self) -> tuple[Remark, ...]:
        return self.remarks

    def sentences(self) -> list[str]:
        """Return all sentences: guarantee, cost, and remarks by importance.

        Returns
        -------
        list of str
            Sentences of :meth:`details`, without the table of releases.
        """
        said = [self.guarantee()]
        but = f", except with probability {self.failure:g}, which delta includes"
        but = but if self.failure else ""
        if self.noisy:
            said += [self._second_line()] * self.seeded
            said.append(self.neighbors.hides(self.unit))
        if self.noisy and math.isfinite(self.mu):
            mu = f"mu = {self.mu:.6g} in Gaussian differential privacy"
            said.append(f"Its cost is {mu}{but}.")
        elif self.noisy and but:
            said.append(f"The cost holds{but[1:]}.")
        said += by_weight(self._all_remarks())
        said += ["Each user counts as one row, drawn at random."] * self.one_row_each
        return list(map(on_one_line, said))

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
        columns = [c for c in zip(*self._table(), strict=True) if any(c[1:])]
        widths = [max(map(len, column)) for column in columns]
        table = [
            "  ".join(map(str.ljust, row, widths)).rstrip()
            for row in zip(*columns, strict=True)
        ]
        return "\n".join((*self.sentences(), "", *(table or [_NOTHING])))

    def rows(self) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
        """Yield the first of identical releases, its condition, and their row."""
        groups = itertools.groupby(
            _with_conditions(self.mechanisms),
            lambda pair: (replace(pair[0], name=""), pair[1]),  # type: ignore[type-var]
        )
        for (_, condition), group in groups:
            releases = [release for release, _ in group]
            names = [release.name for release in releases]
            yield releases[0], condition, _cells(names, releases[0], condition)

    def _table(self) -> list[tuple[str, ...]]:
        """Return the heads of the table of releases and its rows; [] if it has none."""
        rows = [row for *_, row in self.rows()]
        return [HEADS, *rows] if rows else rows

    def _repr_html_(self) -> str:
        title, *others = map(_escaped, self.sentences())
        listed = "".join(f"<li>{said}</li>" for said in others)
        return (
            f"<div><strong>{title}</strong><br>{_escaped(self._second_line())}"
            f"<details><summary>Details</summary><ul>{listed}</ul>"
            f"{html_table(self._table())}</details></div>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values."""
        names = ("unit", "neighbors", "assumption")
        return {
            "estimator": self.estimator,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "mu": self.mu if math.isfinite(self.mu) else None,
            **{name: str(getattr(self, name)) for name in names},
            "seeded": self.seeded,
            "failure": self.failure,
            "one_row_each": self.one_row_each,
            "remarks": list(map(str, self.remarks)),
            "concerns": [str(remark.concern) for remark in self.remarks],
            "mechanisms": [mechanism.to_dict() for mechanism in self.mechanisms],
        }

    def to_json(self) -> str:
        """Return the plan as JSON, which :meth:`from_json` reads."""
        return json.dumps({**self.to_dict(), "statement": str(self)})

    @classmethod
    def from_json(cls, text: str) -> PrivacyPlan:
        """Read a plan that :meth:`to_json` wrote."""
        values = json.loads(text)
        if "blocks" in values:
            named = {each.pop("name"): _plan_of(each) for each in values["blocks"]}
            return ParallelPlan.of(named)
        return _plan_of(values)


def _plan_of(values: dict[str, Any]) -> PrivacyPlan:
    for derived in ("statement", "mu"):
        values.pop(derived, None)
    values["epsilon"] = math.inf if values["epsilon"] is None else values["epsilon"]
    concerns = values.pop("concerns", ["other"] * len(values["remarks"]))
    values["remarks"] = tuple(map(Remark, values["remarks"], concerns))
    values["mechanisms"] = tuple(map(_mechanism_of, values["mechanisms"]))
    return PrivacyPlan(**values)


def _mechanism_of(values: dict[str, Any]) -> Mechanism:
    values = dict(values)
    kind = values.pop("kind")
    if kind not in Mechanism.kinds:
        raise ValueError(f"unknown kind of mechanism {kind!r}")
    if "branches" in values:
        values["branches"] = [
            map(_mechanism_of, branch) for branch in values["branches"]
        ]
    if "shape" in values:
        values["shape"] = tuple(values["shape"])
    mechanism: Mechanism = Mechanism.kinds[kind](**values)
    return mechanism


@dataclass(frozen=True)
class ParallelPlan(PrivacyPlan):
    """Plans of disjoint `blocks` of rows, by name, and their common guarantee.

    Each row lies in one block, whose releases are all that depends on it. This plan has
    the budget and mechanisms of the dearest block, which hold for every row.
    """

    blocks: tuple[tuple[str, PrivacyPlan], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(plan.curves for _, plan in self.blocks):
            raise ValueError("blocks must have only Gaussian mechanisms")

    @classmethod
    def of(cls, plans: dict[str, PrivacyPlan]) -> ParallelPlan:
        """Return the plan of disjoint blocks, with the guarantee of the dearest."""
        dearest = max(plans.values(), key=lambda plan: plan.mu)
        own = {f.name: getattr(dearest, f.name) for f in fields(PrivacyPlan) if f.init}
        return cls(**own, blocks=tuple(plans.items()))

    def _all_remarks(self) -> tuple[Remark, ...]:
        return (*self._blocks_remarks(), *self.remarks)

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
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            count = f"{len(names)} client{'s' * (len(names) > 1)}"
            yield Remark(f"({epsilon:g}, {delta:g}): {count} ({some}).")

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values."""
        blocks = [{"name": name, **plan.to_dict()} for name, plan in self.blocks]
        return {**super().to_dict(), "blocks": blocks}
