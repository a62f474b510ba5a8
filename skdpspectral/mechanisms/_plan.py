"""What one fit will release, and what it costs, before there is any data.

First the vocabulary of guarantees, Gaussians on a grid and privacy curves; then plans.
"""

from __future__ import annotations

import html
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from numbers import Integral, Number, Real
from statistics import NormalDist
from typing import Any, ClassVar, TypeAlias, cast


class Word(str, Enum):
    """A closed vocabulary whose members compare, print and pickle as strings."""

    def __str__(self) -> str:
        return str(self.value)


class Unit(Word):
    """Whose contribution is protected."""

    ROW = "row"
    USER = "user"


class Neighbors(Word):
    """The change of the data that a guarantee hides."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE_ONE = "add-remove-one"
    ZERO_OUT_ONE = "zero-out-one"

    def hides(self, unit: Unit) -> str:
        """Return a sentence on the change, and whether the number is public."""
        change, number = {
            Neighbors.REPLACE_ONE: ("is replaced by another", "public"),
            Neighbors.ADD_REMOVE_ONE: ("joins or leaves", "private"),
            Neighbors.ZERO_OUT_ONE: ("contributes nothing", "public"),
        }[self]
        return (
            f"It hides whether one {unit} {change}; the number of {unit}s is {number}."
        )


class Assumption(Word):
    """Assumption of a guarantee beyond its noise; ``none`` means the worst case."""

    NONE = "none"
    SPIKED_GAUSSIAN = "spiked-gaussian"

    @property
    def condition(self) -> str:
        """When a guarantee holds, to follow on "only"."""
        return f"for data that satisfy the {self} assumption"


def shown(value: object) -> str:
    """Return a value as an error may quote it: of anything but a scalar, its type."""
    if value is None or isinstance(value, (str, Number)):
        return repr(value)
    return f"an object of type {type(value).__name__}"


def check_real(name: str, value: object) -> float:
    """Return a real number that is no boolean as a Python float, or an error."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a real number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:  # of an integer
        raise ValueError(f"{name} must be a number in the range of float64") from None


def check_count(name: str, value: object) -> int:
    """Return a positive whole number as an int, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {shown(value)}")
    return int(value)


@dataclass(frozen=True)
class Mechanism:
    """A planned release: its name, shape and cost, and the lemmas of both."""

    kind: ClassVar[str]
    cost_lemma: ClassVar[str] = ""  # of the cost; `lemma` is of the sensitivity
    note: ClassVar[str] = ""  # what a report says beside the numbers
    kinds: ClassVar[dict[str, Any]] = {}  # all classes, by their kind
    is_curve: ClassVar[bool] = False  # its own cost, which has no finite `mu`

    name: str
    lemma: str = field(default="", compare=False, repr=False, kw_only=True)
    shape = cast("tuple[int, ...]", ())
    mu = math.inf  # where it does not describe the cost

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Mechanism.kinds[cls.kind] = cls

    def notes(self) -> str:
        """Return notes for reports, in addition to the numbers."""
        return self.note.format(self)

    def curve(self, neighbors: Neighbors | str) -> Curve | None:
        """Return what it costs under a relation if that is no ``mu``, else None."""
        return cast("Curve", self) if self.is_curve else None

    def to_dict(self) -> dict[str, Any]:
        """Return all that the release is made of, without what follows from it."""
        made_of = [field.name for field in fields(self) if field.init]
        given = {name: getattr(self, name) for name in made_of}
        if not given.get("lemma"):
            given.pop("lemma", None)
        return {"kind": self.kind, **given}

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _keep_reals(self, interval: str, *names: str) -> None:
        """Keep fields as floats, and refuse those outside of an interval."""
        low, high = map(float, interval[1:-1].split(", "))
        ends = [end for end, mark in ((low, "["), (high, "]")) if mark in interval]
        for name in names:
            value = getattr(self, name)
            if type(value) is not float:  # calibrations give floats
                value = check_real(name, value)
                self._keep(name, value)
            if not (low < value < high or value in ends):
                said = f"must be in {interval}, got {value}"
                raise ValueError(f"{name} {said} (of {self.name!r})")


@dataclass(frozen=True)
class SubsampledGaussian(Mechanism):
    r"""Sequence of Gaussian mechanisms, each on a Poisson sample of the units.

    Parameters
    ----------
    name : str
        Name of the release, unique within a plan.
    sampling_probability : float
        Probability q in (0, 1] that a unit joins the sample of a step, independently.
    noise_multiplier : float
        Standard deviation of the noise of a step, divided by its l2-sensitivity to one
        unit that joins or leaves the sample.
    steps : int, default=1
        Number of steps, each with its own sample and noise.
    replaced : bool, default=False
        Whether the guarantee is for replacing a unit by another one.

    Notes
    -----
    **Formal guarantee.** For units that join or leave (``"add-remove-one"``) or whose
    contribution becomes zero (``"zero-out-one"``), each step is dominated by the pair
    :math:`(1 - q) N(0, \sigma^2) + q N(1, \sigma^2)` and :math:`N(0, \sigma^2)` [1]_.
    For replaced units, the second distribution is
    :math:`(1 - q) N(0, \sigma^2) + q N(-1, \sigma^2)`
    (:ref:`lemma-sampled-replacement`). Batches that are shuffled, or drawn without
    replacement, have no such guarantee.

    References
    ----------
    .. [1] Zhu, Dong and Wang (2022), Optimal accounting of differential privacy via
       characteristic function, proposition 30.
    """

    kind: ClassVar[str] = "subsampled-gaussian"
    is_curve: ClassVar[bool] = True
    cost_lemma: ClassVar[str] = "sampled-replacement dominating"
    note: ClassVar[str] = (
        "{0.steps} steps on Poisson samples of rate {0.sampling_probability:g}, noise "
        "of {0.noise_multiplier:g} times the sensitivity"
    )

    sampling_probability: float
    noise_multiplier: float
    steps: int = 1
    replaced: bool = False

    def __post_init__(self) -> None:
        self._keep_reals("(0, 1]", "sampling_probability")
        self._keep_reals("(0, inf)", "noise_multiplier")
        self._keep("steps", check_count("steps", self.steps))
        if not isinstance(self.replaced, bool):
            raise TypeError(f"replaced must be True or False, got {self.replaced!r}")

    @property
    def neighbors(self) -> frozenset[Neighbors]:
        """Neighbor relations that the guarantee supports."""
        if self.replaced:
            return frozenset({Neighbors.REPLACE_ONE})
        return frozenset({Neighbors.ADD_REMOVE_ONE, Neighbors.ZERO_OUT_ONE})


@dataclass(frozen=True)
class ApproximateDP(Mechanism):
    """Any mechanism for which only an (epsilon, delta) pair is known.

    Parameters
    ----------
    name : str
        Name of the release, unique within a plan.
    epsilon : float
        Privacy parameter, finite and at least 0.
    delta : float
        Privacy parameter in [0, 1).
    """

    kind: ClassVar[str] = "approximate-dp"
    is_curve: ClassVar[bool] = True
    steps: ClassVar[int] = 1
    note: ClassVar[str] = "({0.epsilon:g}, {0.delta:g})-differentially private"

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        self._keep_reals("[0, inf)", "epsilon")
        self._keep_reals("[0, 1)", "delta")


Curve: TypeAlias = SubsampledGaussian | ApproximateDP


# The grid is this much finer than the noise: fine enough to cost nothing, coarse
# enough that integers of noise and value stay exact in float64.
GRID_BITS = 26

# Below this, float64 normals have too few digits left to fill the grid.
MAX_GRID_BITS = 40

# |value| / grid is kept at or below 2**MAX_INTEGER_BITS, so that value + noise
# stays below 2**52, where every integer and its rounding are exact.
MAX_INTEGER_BITS = 51

# The grid may add this share of the sensitivity before a finer one is taken.
GRID_SHARE = 2.0**-8

# Rounding errors of shaped noise, in Z, are at most 2**-6 of a step of the grid: times
# 2**-53, and some 2**8 for 12 standard deviations and the terms of sums.
AMPLIFIED_BITS = 39


def _floor_power_of_two(x: float) -> float:
    """Largest power of two that is at most `x` > 0."""
    return math.ldexp(0.5, math.frexp(x)[1])


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """A `mu`-GDP release on a power-of-two grid (Dong et al. 2022, theorem 2.7)."""

    kind: ClassVar[str] = "gaussian"
    cost_lemma: ClassVar[str] = "privacy-curve charge"

    sensitivity: float  # of the exact statistic in l2-norm, or in Frobenius norm
    noise_std: float  # that of the diagonal, if symmetric
    shape: tuple[int, ...]
    symmetric: bool = False  # the lower triangle, off-diagonal entries times sqrt(2)
    summation_error: float = 0.0  # bound on the norm of (computed - exact)
    magnitude: float = 1.0  # bound on any computed entry
    # What follows from these, worked out once: every release asks for it.
    grid: float = field(init=False, repr=False, compare=False)
    charged_sensitivity: float = field(init=False, repr=False, compare=False)
    mu: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check()
        self._keep("grid", self._spacing())
        self._keep("charged_sensitivity", self._charged())
        self._keep("mu", self.charged_sensitivity / self.noise_std)

    def _check(self) -> None:
        """Keep floats, and refuse numbers of which no mechanism is made."""
        self._keep_reals("(0, inf)", "sensitivity", "noise_std", "magnitude")
        self._keep_reals("[0, inf)", "summation_error")
        if self.symmetric and (len(self.shape) != 2 or len(set(self.shape)) != 1):
            raise ValueError(f"{self.name!r} is symmetric: its shape must be (p, p)")

    @property
    def drawn_std(self) -> float:
        """Standard deviation of the noise that one party draws, here all of it."""
        return self.noise_std

    @property
    def _most_grid_bits(self) -> int:
        """Logarithm of the finest grid below the noise."""
        return MAX_GRID_BITS

    def _spacing(self) -> float:
        finest = math.ldexp(self.noise_std, -self._most_grid_bits)
        usual = math.ldexp(self.noise_std, -GRID_BITS)
        cheap = GRID_SHARE * self.sensitivity / math.sqrt(math.prod(self.shape))
        exact = math.ldexp(self.magnitude, -MAX_INTEGER_BITS)
        wanted = max(min(usual, cheap), finest)
        spacing = _floor_power_of_two(wanted)
        return spacing if spacing >= exact else 2.0 * _floor_power_of_two(exact)

    @property
    def grid_term(self) -> float:
        """Increase of the sensitivity: two roundings differ by a step per entry."""
        return self.grid * math.sqrt(math.prod(self.shape))

    def _charged(self) -> float:
        return self.sensitivity + 2.0 * self.summation_error + self.grid_term

    def repeated(self, names: Iterable[str]) -> tuple[Gaussian, ...]:
        """Return this mechanism under other names, for identical releases."""
        repeats = []
        for name in names:
            # All else is checked and worked out.
            repeat = object.__new__(type(self))
            vars(repeat).update(vars(self), name=name)
            repeats.append(repeat)
        return tuple(repeats)

    def notes(self) -> str:
        return "symmetric" if self.symmetric else super().notes()


@dataclass(frozen=True)
class CorrelatedGaussian(Gaussian):
    r"""Rows of a stream with noise :math:`(C^{-1} Z)_t`, C public, lower triangular."""

    # All steps together are `mu`-GDP for rows of this `sensitivity`, also if earlier
    # releases chose them (Denisov et al. 2022, theorem 2.1).
    kind: ClassVar[str] = "correlated-gaussian"
    cost_lemma: ClassVar[str] = "stream charge"

    column_norm: float = 1.0  # bound for C; sqrt(k) for k rows of a unit and C = I
    factorization: str = "trivial"
    max_steps: int | None = None  # None: any number
    amplification: float = 0.0  # how many times rounding errors are larger in Z

    def _check(self) -> None:
        super()._check()
        self._keep_reals("(0, inf)", "column_norm")
        self._keep_reals("[0, inf)", "amplification")
        if self.symmetric or len(self.shape) != 1:
            raise ValueError(f"rows of {self.name!r} must be vectors")

    @property
    def _most_grid_bits(self) -> int:
        # A step of the grid is up to twice as fine as its bits say.
        amplified = math.frexp(max(self.amplification, 1e-300))[1]
        return max(GRID_BITS, min(MAX_GRID_BITS, AMPLIFIED_BITS - 1 - amplified))

    def _charged(self) -> float:
        # Of C x, for what is computed of all rows x.
        return self.column_norm * super()._charged()

    def notes(self) -> str:
        most = self.max_steps
        steps = "any number of steps" if most is None else f"{most} steps"
        return f"a row per step, {steps}, {self.factorization} noise"


@dataclass(frozen=True)
class Exact(Mechanism):
    """A release without noise: the explicit opt-out of privacy."""

    kind: ClassVar[str] = "exact"
    note: ClassVar[str] = "without noise"

    shape: tuple[int, ...]
    symmetric: bool = False


@dataclass(frozen=True)
class SampledGaussian(CorrelatedGaussian):
    """Rows that are sums over Poisson samples of the units, each with fresh noise."""

    # `sensitivity` is the largest norm of what one unit adds to a row. The guarantee
    # holds also for rows that earlier releases chose; samples are secret.
    kind: ClassVar[str] = "sampled-gaussian"
    cost_lemma: ClassVar[str] = "sampled-replacement dominating"

    sampling_probability: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("mu", math.inf)  # its cost is a curve
        fixed = (self.column_norm, self.factorization, self.amplification)
        if fixed != (1.0, "trivial", 0.0) or self.max_steps is None:
            raise ValueError(
                f"noise of {self.name!r} must be independent between a known number of "
                "steps: samples have no guarantee otherwise"
            )
        self.curve(Neighbors.ZERO_OUT_ONE)  # refuses what is out of range

    def _charged(self) -> float:
        """Return the largest norm of what a unit adds to what is computed of a row."""
        return Gaussian._charged(self)

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over the charged sensitivity."""
        return self.noise_std / self.charged_sensitivity

    def curve(self, neighbors: Neighbors | str) -> SubsampledGaussian:
        assert self.max_steps is not None
        return SubsampledGaussian(
            self.name,
            self.sampling_probability,
            self.noise_multiplier,
            self.max_steps,
            Neighbors(neighbors) is Neighbors.REPLACE_ONE,
        )

    def notes(self) -> str:
        return self.curve(Neighbors.ZERO_OUT_ONE).notes()


@dataclass(frozen=True)
class ThresholdedGaussian(Gaussian):
    """Noisy counts of the values that occur; those above a threshold are named."""

    # `mu`-GDP but for naming a value of a single row, whose probability a plan must
    # include. One row moves two counts of each column.
    kind: ClassVar[str] = "thresholded-gaussian"
    cost_lemma: ClassVar[str] = "thresholding charge"
    note: ClassVar[str] = (
        "counts of values, columns: {0.shape[0]}; those above {0.threshold:.6g} are "
        "released"
    )

    threshold: float = 0.0

    def _check(self) -> None:
        super()._check()
        self._keep_reals("(1, inf)", "threshold")
        if self.symmetric or len(self.shape) != 2 or self.shape[1] != 2:
            raise ValueError(f"the shape of {self.name!r} must be (n_columns, 2)")


@dataclass(frozen=True)
class ExponentialMechanism(Mechanism):
    """A choice among public options by sums of votes, each with Gumbel noise."""

    kind: ClassVar[str] = "exponential"
    cost_lemma: ClassVar[str] = "exponential-choice"
    note: ClassVar[str] = (
        "one of {0.n_options} options, chosen by an exponential mechanism with epsilon "
        "{0.epsilon:.6g}"
    )

    epsilon: float  # range of the loss
    n_options: int
    sensitivity: float = 1.0  # how far one unit moves one sum
    mu: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Of larger ranges the lower tail of a normal law would vanish.
        self._keep_reals("(0, 1400)", "epsilon")
        self._keep_reals("(0, inf)", "sensitivity")
        check_count("n_options", self.n_options)
        # The lower tail keeps its digits; rounding is charged, also for p near 1/2.
        lower = NormalDist().inv_cdf(1.0 / (1.0 + math.exp(0.5 * self.epsilon)))
        self._keep("mu", -2.0 * lower * (1.0 + 2.0**-44) + 2.0**-48)


# Sums of rounded shares differ from a function of one Gaussian by less than this, in
# logarithm: no delta of float64 is as small.
_LOG_DISTANCE = -1000.0 * math.log(10.0)

# Shares that sums of whole numbers are exact for.
MOST_SHARES = 1024


def log_share_distance(n_shares: int, steps: float) -> float:
    """Bound the log of the distance of a sum of rounded shares from one Gaussian."""
    # A total variation (lemma noise-shares); `steps` is the deviation on the grid.
    m, square = n_shares, steps * steps
    exponent = -0.5 * math.pi**2 * square
    # Terms of a theta series beyond the first, which is the largest.
    ratio = 2.0 / -math.expm1(8.0 * exponent)
    rest = ratio * math.exp(exponent)
    values = 0.5 * (2.0 * math.pi * square * math.sqrt(m) + m + 1.0)
    values *= ratio * (m * (1.0 + rest) ** (m - 1) + 1.0)
    return exponent + math.log(values + 2.0)


@dataclass(frozen=True)
class SharedGaussian(Gaussian):
    """A Gaussian mechanism on sums, whose noise is added by parties, a share each."""

    # A unit is in the part of one party, which rounds it to the grid. To who knows all
    # but h of n shares, among them that party's, it is mu sqrt(n / h)-GDP.
    kind: ClassVar[str] = "shared-gaussian"
    cost_lemma: ClassVar[str] = "noise-shares charge"
    note: ClassVar[str] = (
        "a sum over {0.n_shares} parties or more, each of which adds noise of standard "
        "deviation {0.drawn_std:.6g}"
    )

    n_shares: int = 1

    def _check(self) -> None:
        super()._check()
        self._keep("n_shares", check_count("n_shares", self.n_shares))
        if self.n_shares > MOST_SHARES:
            raise ValueError(
                f"n_shares must be at most {MOST_SHARES}, got {self.n_shares}"
            )
        if self.symmetric:
            raise ValueError(f"parts of {self.name!r} must be vectors")

    def _spacing(self) -> float:
        spacing = super()._spacing()
        steps = self.drawn_std / spacing
        size = math.log(math.prod(self.shape))
        far = log_share_distance(self.n_shares, max(steps, 1.0)) + size
        if far > _LOG_DISTANCE:
            raise ValueError(
                f"a share of the noise of {self.name!r} would be too small for its "
                "grid: lower epsilon or n_shares"
            )
        return spacing

    @property
    def drawn_std(self) -> float:
        """Deviation of one share."""
        return self.noise_std / math.sqrt(self.n_shares)


# -- plans -----------------------------------------------------------------------------


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
    """Sets of releases of which a fit makes one; the names of all of them differ."""

    kind: ClassVar[str] = "alternatives"

    # The branch is chosen by public numbers and earlier releases alone.
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
            known = getattr(curve, "neighbors", Neighbors)  # any, if it does not say
            if self.neighbors not in known:
                raise ValueError(
                    f"{curve.name!r} has no guarantee under {self.neighbors}: a "
                    f"{curve.kind} mechanism has one only under "
                    f"{', '.join(sorted(map(str, known)))}"
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
        said = f"this release of skdpspectral knows no mechanism {kind!r}"
        raise NotImplementedError(said)
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
    """Plans of disjoint `blocks` of rows, by name, with the cost of the dearest."""

    # Each row lies in one block, whose releases are all that depends on it.
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
