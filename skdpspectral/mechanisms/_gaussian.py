"""Gaussian mechanisms on a grid: of arrays, streams, Poisson samples and parties."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from ._curves import SubsampledGaussian
from ._relations import Neighbors, check_count, check_real

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


@runtime_checkable
class Mechanism(Protocol):
    """What the ledger asks of a mechanism: a name, a shape and its cost ``mu``."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """Name of what is released, unique within a plan."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is released."""

    @property
    def mu(self) -> float:
        """Cost in Gaussian differential privacy."""

    def describe(self) -> str:
        """Phrase for a report."""


def _floor_power_of_two(x: float) -> float:
    """Largest power of two that is at most `x` > 0."""
    return math.ldexp(0.5, math.frexp(x)[1])


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian mechanism whose output lies on a grid of a power of two.

    Parameters
    ----------
    name : str
        Name of the released statistic, unique within a plan.
    sensitivity : float
        l2-sensitivity of the exact statistic, as a lemma gives it (for
        ``symmetric=True``: its Frobenius-sensitivity).
    noise_std : float
        Standard deviation of the noise, in the statistic's units. With
        ``symmetric=True`` it is that of the diagonal; off-diagonal entries get
        ``noise_std / sqrt(2)``.
    shape : tuple of int
        Shape of the released array.
    symmetric : bool, default=False
        Whether the statistic is a symmetric matrix, released as its lower
        triangle with off-diagonals scaled by ``sqrt(2)``, which is an isometry.
    summation_error : float, default=0.0
        Public bound on the norm of (computed - exact) statistic.
    magnitude : float, default=1.0
        Public bound on the modulus of any entry of the computed statistic.

    Notes
    -----
    **Formal guarantee.** For any two data sets whose exact statistics differ by at
    most `sensitivity`, and whose computed statistics are within `summation_error`
    of the exact ones, the release is `mu`-Gaussian differentially private (Dong, Roth
    and Su 2022, theorem 2.7). Rounding to the `grid` is part of the statistic: `mu` is
    that of the `charged_sensitivity`, of lemma, summation errors and grid.
    """

    kind: ClassVar[str] = "gaussian"

    name: str
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
        object.__setattr__(self, "grid", self._spacing())
        object.__setattr__(self, "charged_sensitivity", self._charged())
        object.__setattr__(self, "mu", self.charged_sensitivity / self.noise_std)

    def _check(self) -> None:
        """Keep floats, and refuse numbers of which no mechanism is made."""
        for name in ("sensitivity", "noise_std", "magnitude", "summation_error"):
            value = getattr(self, name)
            if type(value) is not float:  # as calibrations give them
                object.__setattr__(self, name, check_real(name, value))
        for name in ("sensitivity", "noise_std", "magnitude"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} of {self.name!r} must be positive, finite")
        if not 0.0 <= self.summation_error < math.inf:
            raise ValueError(f"summation_error of {self.name!r} must be at least 0")
        if self.symmetric and (len(self.shape) != 2 or len(set(self.shape)) != 1):
            raise ValueError(f"{self.name!r} is symmetric: its shape must be (p, p)")

    @property
    def size(self) -> int:
        """Number of independent noise draws."""
        if self.symmetric:
            return self.shape[0] * (self.shape[0] + 1) // 2
        return math.prod(self.shape)

    @property
    def drawn_std(self) -> float:
        """Deviation of the noise that one party draws: all of it."""
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
        """What rounding to the grid adds to the sensitivity.

        Two roundings differ by at most one spacing an entry: ``grid * sqrt(k)``
        for k numbers, and ``grid * p`` in Frobenius norm for a p x p matrix.
        """
        return self.grid * math.sqrt(math.prod(self.shape))

    def _charged(self) -> float:
        return self.sensitivity + 2.0 * self.summation_error + self.grid_term

    def repeated(self, names: Iterable[str]) -> tuple[Gaussian, ...]:
        """Return this mechanism under other names, for releases that are all alike."""
        repeats = []
        for name in names:
            # All else is checked and worked out.
            repeat = object.__new__(type(self))
            vars(repeat).update(vars(self), name=name)
            repeats.append(repeat)
        return tuple(repeats)

    def describe(self) -> str:
        """Phrase for a report."""
        what = "symmetric Gaussian noise" if self.symmetric else "Gaussian noise"
        return (
            f"{self.name!r} (shape {self.shape}, {what} of standard deviation "
            f"{self.noise_std:.6g} for sensitivity {self.charged_sensitivity:.6g}, "
            f"mu = {self.mu:.6g})"
        )


@dataclass(frozen=True)
class CorrelatedGaussian(Gaussian):
    r"""A Gaussian mechanism on the rows of a stream, released step by step.

    At step t the row of shape (k,) leaves with noise :math:`(C^{-1} Z)_t`, where C is a
    lower-triangular matrix of public numbers and Z has independent normal entries.

    Parameters
    ----------
    name, summation_error, magnitude, symmetric
        As in :class:`Gaussian`, of one row; a row is never symmetric.
    sensitivity : float
        How far one unit can move the one row that it contributes.
    noise_std : float
        Standard deviation of the entries of Z.
    column_norm : float, default=1.0
        Upper bound :math:`|C|` on the 2-norms of the columns of C. Where a unit has
        k rows and C is the identity, :math:`\sqrt k`.
    factorization : str, default="trivial"
        Where C is from, for reports.
    max_steps : int or None, default=None
        Number of steps that `column_norm` holds for; None for any number.
    amplification : float, default=0.0
        How many times rounding errors of the shaped noise are larger in Z; the grid is
        so coarse that they stay far below a step of it.
    renewed : bool, default=False
        Whether fresh noise takes over after `max_steps`: C is then one block of a
        block-diagonal matrix.

    Notes
    -----
    **Formal guarantee.** If one unit changes one row of the stream (or the k rows that
    `column_norm` was made for), each by at most `sensitivity`, then the release of all
    steps together is `mu`-Gaussian differentially private, also where rows are chosen
    after seeing earlier releases (Denisov, McMahan, Rush, Smith and Thakurta 2022,
    theorem 2.1). Rows are rounded to the grid before noise is added, which is charged.
    """

    kind: ClassVar[str] = "correlated-gaussian"

    column_norm: float = 1.0
    factorization: str = "trivial"
    max_steps: int | None = None
    renewed: bool = False
    amplification: float = 0.0

    def _check(self) -> None:
        super()._check()
        if not 0.0 < self.column_norm < math.inf:
            raise ValueError(f"column_norm of {self.name!r} must be positive, finite")
        if not 0.0 <= self.amplification < math.inf:
            raise ValueError(f"amplification of {self.name!r} must be at least 0")
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

    def describe(self) -> str:
        """Phrase for a report."""
        steps = "any number of" if self.max_steps is None else f"{self.max_steps}"
        if self.renewed and self.max_steps is not None:
            steps = f"any number of steps, with fresh noise after each {steps}"
        else:
            steps += " steps"
        return (
            f"{self.name!r} (a row of {self.shape[0]} numbers a step, {steps}, "
            f"{self.factorization} noise of standard deviation {self.noise_std:.6g} "
            f"for sensitivity {self.charged_sensitivity:.6g}, mu = {self.mu:.6g})"
        )


@dataclass(frozen=True)
class Exact:
    """A release without noise: the explicit opt-out of privacy."""

    kind: ClassVar[str] = "exact"

    name: str
    shape: tuple[int, ...]
    symmetric: bool = False

    @property
    def mu(self) -> float:
        """Infinite: nothing is hidden."""
        return math.inf

    def describe(self) -> str:
        """Phrase for a report."""
        return f"{self.name!r} (shape {self.shape}, without noise)"


@dataclass(frozen=True)
class SampledGaussian(CorrelatedGaussian):
    """Rows that are sums over Poisson samples of the units, each with fresh noise.

    As :class:`CorrelatedGaussian` with a known number of steps and independent noise.
    The `sensitivity` is the largest norm of what one unit adds to the row of a step
    that it is sampled in, with the probability `sampling_probability` in (0, 1], by
    itself.

    **Formal guarantee.** That of the :class:`SubsampledGaussian` which :meth:`curve`
    gives, also where a step's row is chosen after seeing earlier releases; samples are
    secret. Rounding to the grid is part of the rows and is charged.
    """

    kind: ClassVar[str] = "sampled-gaussian"

    sampling_probability: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        # Its cost is a curve, which no finite mu states.
        object.__setattr__(self, "mu", math.inf)
        fixed = (self.column_norm, self.factorization, self.renewed, self.amplification)
        if fixed != (1.0, "trivial", False, 0.0) or self.max_steps is None:
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
        """Return its cost under a relation of neighbors."""
        assert self.max_steps is not None
        return SubsampledGaussian(
            self.name,
            self.sampling_probability,
            self.noise_multiplier,
            self.max_steps,
            Neighbors(neighbors) is Neighbors.REPLACE_ONE,
        )

    def describe(self) -> str:
        """Phrase for a report."""
        return (
            f"{self.name!r} (a row of {self.shape[0]} numbers a step, {self.max_steps} "
            f"steps on Poisson samples of rate {self.sampling_probability:g}, Gaussian "
            f"noise of standard deviation {self.noise_std:.6g} for sensitivity "
            f"{self.charged_sensitivity:.6g}, {self.noise_multiplier:.6g} times it)"
        )


# Sums of rounded shares differ from a function of one Gaussian by less than this, in
# logarithm: no delta of float64 is as small.
_LOG_DISTANCE = -1000.0 * math.log(10.0)

# Shares that sums of whole numbers are exact for.
MOST_SHARES = 1024


def log_share_distance(n_shares: int, steps: float) -> float:
    r"""Bound how far sums of rounded Gaussians are from a function of one Gaussian.

    The logarithm of a bound on the total variation of one number
    (:ref:`lemma-noise-shares`), for m = `n_shares` rounded Gaussians. `steps` is the
    standard deviation :math:`\sigma` of each in steps of the grid, at least 1.
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
    rounding, in any order. A share that would be too small for its grid is a
    ValueError.

    **Formal guarantee.** A unit is in the part of one party. If only the sum is seen,
    and `h` shares of it are unknown to who sees it, that of the unit's party among
    them, then the sum is :math:`\mu \sqrt{n/h}`-Gaussian differentially private for
    `n` = `n_shares`, but for a total variation below :math:`10^{-1000}`
    (:ref:`lemma-noise-shares`). A part that is seen alone is :math:`h = 1`.
    """

    kind: ClassVar[str] = "shared-gaussian"

    n_shares: int = 1

    def _check(self) -> None:
        super()._check()
        count = check_count("n_shares", self.n_shares)
        object.__setattr__(self, "n_shares", count)
        if count > MOST_SHARES:
            raise ValueError(f"n_shares must be at most {MOST_SHARES}, got {count}")
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

    def mu_of(self, n_unknown: int) -> float:
        """Cost against who does not know so many of the shares in a sum."""
        return self.mu * math.sqrt(self.n_shares / check_count("n_unknown", n_unknown))

    def describe(self) -> str:
        """Phrase for a report."""
        return (
            f"{self.name!r} (shape {self.shape}, a sum over parties of whom each adds "
            f"Gaussian noise of standard deviation {self.drawn_std:.6g}, together of "
            f"{self.noise_std:.6g} for {self.n_shares} of them, for sensitivity "
            f"{self.charged_sensitivity:.6g}, mu = {self.mu:.6g})"
        )
