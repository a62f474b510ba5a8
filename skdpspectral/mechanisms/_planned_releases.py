"""Mechanisms: the vocabulary of guarantees, Gaussians on a grid, and privacy curves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
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
    """A planned release: its name, shape and cost, and the lemmas of both.

    `lemma` is of its sensitivity, `cost_lemma` of the cost of its kind, and `note` what
    a report says beside the numbers. `mu` is infinite if it does not describe the cost.
    """

    kind: ClassVar[str]
    cost_lemma: ClassVar[str] = ""
    note: ClassVar[str] = ""
    kinds: ClassVar[dict[str, Any]] = {}  # all classes, by their kind

    name: str
    lemma: str = field(default="", compare=False, repr=False, kw_only=True)
    shape = cast("tuple[int, ...]", ())
    mu = math.inf

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Mechanism.kinds[cls.kind] = cls

    def notes(self) -> str:
        """Return notes for reports, in addition to the numbers."""
        return self.note.format(self)

    def curve(self, neighbors: Neighbors | str) -> Curve | None:
        """Return what it costs under a relation if that is no ``mu``, else None."""
        return None

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
class _Curve(Mechanism):
    """A release whose cost has no finite ``mu``, and that has no array."""

    @property
    def neighbors(self) -> frozenset[Neighbors] | None:
        """Neighbor relations supported by the guarantee; None for any."""
        return None

    def curve(self, neighbors: Neighbors | str) -> Any:
        """Return the mechanism, which is its own cost."""
        return self


@dataclass(frozen=True)
class SubsampledGaussian(_Curve):
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
class ApproximateDP(_Curve):
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

# Rounding errors of shaped noise, in Z, stay far below a step of the grid: times the
# unit roundoff 2**-53 and some 2**8 for 12 standard deviations and the terms of sums,
# at most 2**-6 of a step.
AMPLIFIED_BITS = 39


def _floor_power_of_two(x: float) -> float:
    """Largest power of two that is at most `x` > 0."""
    return math.ldexp(0.5, math.frexp(x)[1])


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """A Gaussian mechanism whose output is on a grid with power-of-two spacing.

    `sensitivity` is the l2-sensitivity of the exact statistic, as the lemmas named in
    `lemma` state it. `summation_error` is a public bound on the norm of (computed -
    exact) statistic, and `magnitude` one on any entry of the computed statistic. A
    `symmetric` matrix is released as its lower triangle with off-diagonal entries
    scaled by ``sqrt(2)``, which is an isometry: `sensitivity` is in Frobenius norm, and
    `noise_std` applies to the diagonal, ``noise_std / sqrt(2)`` beside it.

    **Formal guarantee.** If exact statistics differ by at most `sensitivity`, and
    computed ones are within `summation_error` of them, the release is `mu`-Gaussian
    differentially private (Dong, Roth and Su 2022, theorem 2.7). The
    `charged_sensitivity` includes summation errors and rounding to the `grid`.
    """

    kind: ClassVar[str] = "gaussian"
    cost_lemma: ClassVar[str] = "privacy-curve charge"

    sensitivity: float
    noise_std: float
    shape: tuple[int, ...]
    symmetric: bool = False
    summation_error: float = 0.0
    magnitude: float = 1.0
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
        """Return notes for reports, in addition to the numbers."""
        return "symmetric" if self.symmetric else super().notes()


@dataclass(frozen=True)
class CorrelatedGaussian(Gaussian):
    r"""A Gaussian mechanism on the rows of a stream, released step by step.

    At step t the row of shape (k,) leaves with noise :math:`(C^{-1} Z)_t`, where C is a
    lower-triangular matrix of public numbers, named by `factorization`, and Z has
    independent normal entries of standard deviation `noise_std`. `sensitivity` is that
    of one row. `column_norm` bounds the 2-norms of the columns of C for `max_steps`
    steps (None: for any number); where a unit has k rows and C is the identity, it is
    :math:`\sqrt k`. Rounding errors of the shaped noise are `amplification` times
    larger in Z: the grid is so coarse that they stay far below a step of it.

    **Formal guarantee.** If one unit changes one row (or the k rows that `column_norm`
    was made for), each by at most `sensitivity`, all steps together are `mu`-Gaussian
    differentially private, also where rows are chosen after seeing earlier releases
    (Denisov, McMahan, Rush, Smith and Thakurta 2022, theorem 2.1).
    """

    kind: ClassVar[str] = "correlated-gaussian"
    cost_lemma: ClassVar[str] = "stream charge"

    column_norm: float = 1.0
    factorization: str = "trivial"
    max_steps: int | None = None
    amplification: float = 0.0

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
        """Return notes for reports, in addition to the numbers."""
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
    """Rows that are sums over Poisson samples of the units, each with fresh noise.

    As :class:`CorrelatedGaussian` with a known number of steps and independent noise.
    The `sensitivity` is the largest norm of what one unit adds to the row of a step
    that it is sampled in, with the probability `sampling_probability` in (0, 1].

    **Formal guarantee.** That of the :class:`SubsampledGaussian` which :meth:`curve`
    gives, also where rows are chosen after seeing earlier releases; samples are secret.
    """

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
        """Return the cost of its steps."""
        assert self.max_steps is not None
        return SubsampledGaussian(
            self.name,
            self.sampling_probability,
            self.noise_multiplier,
            self.max_steps,
            Neighbors(neighbors) is Neighbors.REPLACE_ONE,
        )

    def notes(self) -> str:
        """Return notes for reports, in addition to the numbers."""
        return self.curve(Neighbors.ZERO_OUT_ONE).notes()


@dataclass(frozen=True)
class ThresholdedGaussian(Gaussian):
    r"""Counts of the values that occur, with noise; those above a threshold are named.

    Which values may occur is not known beforehand: a value that does not occur has no
    count, and one of few rows stays below the threshold. `shape` is (n_columns, 2), the
    counts that one row can move: one down and one up in each column. `threshold` is
    that of the noisy counts.

    **Formal guarantee.** Values that occur in both of two neighboring tables are
    `mu`-Gaussian differentially private. One of a single row is named with a small
    probability (:ref:`lemma-thresholding`), which a plan must include.
    """

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
    r"""A choice among public options by sums of votes, each with Gumbel noise.

    `epsilon` is the range of the privacy loss, and `sensitivity` bounds how far one
    unit moves the sum of any one option.

    **Formal guarantee.** The choice is `mu`-Gaussian differentially private, with
    :math:`\mu = 2 \Phi^{-1}(1 / (1 + e^{-\epsilon / 2}))`, however many options there
    are (:ref:`lemma-exponential-choice`).
    """

    kind: ClassVar[str] = "exponential"
    cost_lemma: ClassVar[str] = "exponential-choice"
    note: ClassVar[str] = (
        "one of {0.n_options} options, chosen by an exponential mechanism with epsilon "
        "{0.epsilon:.6g}"
    )

    epsilon: float
    n_options: int
    sensitivity: float = 1.0
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
    """Bound the distance of sums of rounded Gaussians from a function of one Gaussian.

    It is the logarithm of a total variation (:ref:`lemma-noise-shares`). `steps` is the
    standard deviation of each of `n_shares` in steps of the grid, at least 1.
    """
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
    r"""A Gaussian mechanism on sums, whose noise is added by parties, a share each.

    Every party rounds its own part of the sum, a vector, to the grid, and adds a
    rounded Gaussian of variance ``noise_std**2 / n_shares``, with `n_shares` at most
    1024; more shares may be added. Whole numbers of grid steps add up without any
    rounding, in any order.

    **Formal guarantee.** A unit is in the part of one party. To who knows all but `h`
    shares of a sum, among them that of the unit's party, it is
    :math:`\mu \sqrt{n/h}`-Gaussian differentially private for `n` = `n_shares`
    (:ref:`lemma-noise-shares`). A part that is seen alone is :math:`h = 1`.
    """

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
