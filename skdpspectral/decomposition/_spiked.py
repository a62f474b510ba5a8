"""Releases whose guarantee relies on a spiked Gaussian model of the rows.

Noise on the projector and on the covariance follows Cai, Xia and Zha (2024), algorithm
1: a theorem bounds the effect of one row under this model, except with small
probability. It is no bound for other rows. With private variances, half of the rows
release directions, and the other half quantiles of lengths, which give a lower bound on
the signal (:ref:`theorem-private-variances`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betaincinv, gammainccinv, gammaincinv, ndtri
from sklearn.base import BaseEstimator

from .. import sensitivity
from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register
from .._linalg import eigen, walks
from .._statistics.moments import plan_second_moment
from .._statistics.statistic import Statistic, Votes, mean_summation_error
from .._tables.clipping import clip_rows, normalize_rows
from .._tables.columns import as_numbers, refuse_masked
from .._tables.table import deferred_rows, map_table
from ..accounting import (
    PrivacyAccountant,
    calibrate_gaussian,
    gaussian_epsilon,
    gaussian_mu,
    split_mu,
)
from ..accounting._gaussian import MIN_DELTA
from ..mechanisms import (
    Assumption,
    Concern,
    Exact,
    Gaussian,
    Neighbors,
    PrivacyPlan,
    Remark,
    check_real,
)
from . import _kernels
from ._pca import ComponentsMixin, TableComponents, check_rank

# Steps of the bisections, on a logarithmic scale.
STEPS = 12
# Signal that is assumed at least, in units of the noise variance.
LEAST_SIGNAL = 0.05


def chi_square_median(degrees: float) -> float:
    return 2.0 * float(gammaincinv(0.5 * degrees, 0.5))


class Scales(NamedTuple):
    """Released or public variances, both positive."""

    signal: float  # mean along the components, beyond the noise
    noise: float  # across them


class Cell(NamedTuple):
    """Interval of a squared quantile, with an end of 0 or inf if no vote moved it."""

    low: float
    high: float
    middle: float


@dataclass(frozen=True)
class PrivateScales(Statistic):
    """Two variances: noisy medians of lengths over those of chi-square laws."""

    n_samples: int
    n_features: int
    norm_range: tuple[float, float] = (1e-6, 1e6)  # public

    def ranges(self, rank: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return public ranges of the released signal and noise."""
        low, high = (length**2 for length in self.norm_range)
        median = chi_square_median(max(self.n_features - rank, 1))
        noise = (low / median, high / median)
        most = max(high / chi_square_median(rank), LEAST_SIGNAL * noise[1])
        return (LEAST_SIGNAL * noise[0], most), noise

    @property
    def moved(self) -> float:
        """How far one row moves both votes of a step."""
        return sensitivity.vote_sensitivity(2, Neighbors.REPLACE_ONE)

    def mechanisms(self, mu: float) -> tuple:
        more = {"magnitude": self.n_samples, "lemma": "quantile-votes"}
        return Votes("quantile", STEPS).planned(mu, self.moved, 2, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> tuple[Cell, ...]:
        """Release the cells of squared lengths along and across given components."""
        (components,) = given
        low, high = (2.0 * math.log(length) for length in self.norm_range)
        span = {"components": components, "low": low, "high": high}
        votes = np.cumsum(rows.reduce(partial(_counts, **span)), axis=1)
        half, both = 0.5 * self.n_samples, np.arange(2)
        first, last = Votes("quantile", STEPS).run(
            release, lambda place: votes[both, place] - half, 2
        )
        middles = np.exp(low + 0.5 * (first + last) / 2**STEPS * (high - low))
        lows, highs = np.exp(low + np.array((first, last)) / 2**STEPS * (high - low))
        lows = np.where(first > 0, lows, 0.0)
        highs = np.where(last < 2**STEPS, highs, np.inf)
        found = zip(lows, highs, middles, strict=True)
        return tuple(Cell(*map(float, cell)) for cell in found)

    def of(self, cells: tuple, rank: int) -> Scales:
        """Return the variances for released cells and `rank` directions."""
        degrees = max(self.n_features - rank, 1)
        noise = cells[1].middle / chi_square_median(degrees)
        signal = cells[0].middle / chi_square_median(rank) - noise
        return Scales(max(signal, LEAST_SIGNAL * noise), noise)


def _counts(blocks, components, low: float, high: float) -> np.ndarray:
    """Count rows whose logarithmic squares are just below each dyadic point."""
    points = np.linspace(low, high, 2**STEPS + 1)
    counts = np.zeros((2, len(points) + 1), dtype=np.int64)
    for rows in blocks:
        with np.errstate(all="ignore"):
            along, across = _kernels.squared_parts(rows, components)
            for count, squares in zip(counts, (along, across), strict=True):
                # A row that is not finite counts as a long one.
                logs = np.nan_to_num(np.log(squares), nan=np.inf, posinf=np.inf)
                count += np.bincount(
                    np.searchsorted(points, logs), minlength=len(points) + 1
                )
    return counts


_FOR_OTHER_DATA = Remark(
    "For data that do not satisfy the assumption it is not differentially private: a "
    "single long row can be seen in the result.",
    Concern.MODEL,
)


def centered_rows(rows, row_map: Callable):
    """Return rows minus their own **exact** mean, block by block."""
    means: tuple[np.ndarray, ...] = ()
    for _ in range(2):  # twice: rounding errors are then relative to the spread
        walk = walks.RowWalk(partial(_minus, row_map=row_map, means=means))
        total = walks.reduce_rows(rows, walk, _column_sums)
        means = (*means, total / rows.shape[0])
    return map_table(rows, partial(_minus, row_map=row_map, means=means))


def _minus(rows, row_map: Callable, means: tuple) -> np.ndarray:
    """Map a block of rows, and subtract several means, one after another."""
    block = row_map(rows)
    for mean in means:
        block = block - mean
    return block


def _column_sums(blocks) -> np.ndarray:
    return np.sum([block.sum(axis=0) for block in blocks], axis=0)


# What rows are cut to, so that squares are finite.
_LONGEST = 1e60
# Shares of mu**2 of projector and covariance under exact calibration.
_STATED_SHARES = (0.5, 0.5)
_LEMMA = "spiked-law sub-gaussian-rows"
# Share of delta for rows and replacements that are further apart than the bounds.
FAILURE_SHARE = 0.1
# What it is taken to be where delta is not known: for the weights of clients.
USUAL_FAILURE = 1e-7
# Allowance for rounding errors of eigenvectors, a feature: some 2**8 unit roundoffs.
ROUNDING = 2.0**-44
# How many times their trace mean squares of rows are at most, for roundings of sums.
_LONGER = 16.0
# By how much its cost is rounded up, more than inverses of the curve are off.
_ROUNDED_UP = 2.0**-40
# What noise of the papers may cost; beyond, it hides nothing.
_LARGEST_MU = 1e3


def _rounded(error: float, size: float) -> dict[str, Any]:
    """Return what is alike in all releases of a model, and bounds of their sums."""
    bounds = {"summation_error": error, "magnitude": size}
    return {**bounds, "symmetric": True, "lemma": _LEMMA}


class ModelComponents(NamedTuple):
    """Components, variances along them and across them."""

    vectors: np.ndarray
    values: np.ndarray
    noise: float


class ModelStatistic(Statistic):
    """A statistic whose noise relies on a spiked model of the rows."""

    n_samples: int
    n_features: int

    def mechanisms(self, mu: float) -> tuple:
        """Raise: bounds of the model depend on delta, so that there is only `plan`."""
        raise ValueError("the noise of a SpikedModel also depends on delta: use plan")

    # Of subclasses: the releases with their actual epsilon, of epsilon, delta and the
    # failure; and sentences on the assumptions, of epsilon, failure and actual epsilon.
    _priced: ClassVar[Callable[..., tuple]]
    _remarks: ClassVar[Callable[..., tuple]]

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan the releases within a budget, for rows of the model only."""
        failure = FAILURE_SHARE * delta if math.isfinite(epsilon) else 0.0
        if failure and delta - failure < MIN_DELTA:
            raise ValueError(
                f"delta={delta:g} is too small for a SpikedModel, which keeps a tenth "
                f"of it for rows beyond its bounds; choose at least {2 * MIN_DELTA:g}"
            )
        # What holds is above epsilon if the noise of the papers is too small for it.
        mechanisms, holds = self._priced(epsilon, delta, failure)
        return PrivacyPlan(
            holds,
            delta,
            mechanisms,
            assumption=Assumption.SPIKED_GAUSSIAN,
            remarks=(_FOR_OTHER_DATA, *self._remarks(epsilon, failure, holds)),
            failure=failure,
            **named,
        )

    def _largest_distance(self, rank: int) -> float:
        """Return the largest distance between any two projectors."""
        return math.sqrt(2.0 * min(rank, self.n_features - rank))


@dataclass(frozen=True)
class SpikedProjector(ModelStatistic):
    """A noisy projector of unbounded rows, whose noise relies on a spiked model."""

    n_samples: int
    n_features: int
    signal: tuple[float, ...]  # along the components beyond the noise, largest first
    noise: float
    covariance: bool  # that within the components is released, too
    calibration: str = "exact"
    constant: float = 1.0  # of the papers
    centered: bool = False  # rows are measured about their own mean

    @property
    def _model(self) -> tuple:
        return self.signal, self.noise, self.n_samples, self.n_features

    @property
    def _names(self) -> tuple[str, ...]:
        return ("projector", "model_moment") if self.covariance else ("projector",)

    def _sensitivities(self, failure: float) -> tuple[float, ...]:
        """Return the sensitivities by the theorem, given the total `failure`."""
        each = failure / len(self._names)
        model, mean = (*self._model, each), {"centered": self.centered}
        changes = (sensitivity.spiked_projector_sensitivity(*model, **mean),)
        if self.covariance:
            changes += (sensitivity.spiked_moment_sensitivity(*model, **mean),)
        return changes

    def _charged(self, failure: float) -> tuple[float, ...]:
        """Return `_sensitivities`, or the largest distance if there is no bound."""
        projector, *moment = self._sensitivities(failure)
        return (min(projector, self._largest_distance(len(self.signal))), *moment)

    def _printed(self) -> tuple[float, ...]:
        """Return the sensitivity of each release as printed in the papers."""
        model = *self._model, self.constant
        changes = (sensitivity.paper_projector_sensitivity(*model),)
        if self.covariance:
            changes += (sensitivity.paper_moment_sensitivity(*model),)
        return changes

    def _entries(self, name: str) -> tuple[tuple[int, int], dict]:
        """Return the shape of a release, and its float64 summation bounds."""
        if name == "projector":
            condition = (max(self.signal) + self.noise) / min(self.signal)
            error, size = ROUNDING * self.n_features * condition, 2.0
            return (self.n_features,) * 2, _rounded(error, size)
        squares = _LONGER * (sum(self.signal) + self.n_features * self.noise)
        error = mean_summation_error(squares, self.n_samples, self.n_features)
        error += 2.0**-51 * self.n_features * squares  # of the projections
        size = 2.0**10 * (max(self.signal) + self.noise)
        return (len(self.signal),) * 2, _rounded(error, size)

    def _priced(self, epsilon: float, delta: float, failure: float) -> tuple:
        paper = self.calibration == "paper"
        if not math.isfinite(epsilon):
            if paper:
                raise ValueError('calibration="paper" needs a finite epsilon')
            shapes = [(name, self._entries(name)[0]) for name in self._names]
            return tuple(Exact(*both, symmetric=True) for both in shapes), epsilon
        if paper:
            return self._plan_paper(epsilon, delta, failure)
        self._check_bound(failure)
        # Noise for what the failures leave of delta.
        mu = gaussian_mu(epsilon, delta - failure)
        costs = split_mu(mu, _STATED_SHARES if self.covariance else (1.0,))
        mechanisms = []
        releases = zip(self._names, self._charged(failure), costs, strict=True)
        for name, change, cost in releases:
            shape, more = self._entries(name)
            mechanisms.append(calibrate_gaussian(name, change, cost, shape, **more))
        return tuple(mechanisms), epsilon

    def _check_bound(self, failure: float) -> None:
        """Raise if the theorem does not apply."""
        if self._sensitivities(failure)[0] < math.inf:
            return
        raise ValueError(
            f"the spiked model has no bound for n_samples={self.n_samples}, "
            f"n_features={self.n_features}, n_components={len(self.signal)}, "
            f"signal_variance={min(self.signal):g} and noise_variance={self.noise:g} "
            f"at this delta: with so few rows or so weak a signal, the leading "
            "eigenvectors may be arbitrary. It needs more rows, a larger "
            "signal_variance or a larger "
            'delta; DPPCA, or mechanism="gaussian" of clients, has no such limit'
        )

    def _plan_paper(self, epsilon: float, delta: float, failure: float):
        """Plan the noise of the papers, at the cost that the theorem shows."""
        # Half the budget each: off-diagonal variance 8 D^2 log(2.5 / delta) / epsilon^2
        factor = math.sqrt(2.0 * 8.0 * math.log(2.5 / delta)) / epsilon
        mechanisms = []
        releases = zip(
            self._names, self._charged(failure), self._printed(), strict=True
        )
        for name, change, printed in releases:
            shape, more = self._entries(name)
            mechanisms.append(Gaussian(name, change, factor * printed, shape, **more))
        mu = math.hypot(*(mechanism.mu for mechanism in mechanisms))
        if not mu <= _LARGEST_MU:
            raise ValueError(
                f'calibration="paper" hides nothing at epsilon={epsilon:g} and '
                f"sensitivity_constant={self.constant:g}: its noise is less than 1 / "
                f"{_LARGEST_MU:g} of the change that one row can make; raise "
                "sensitivity_constant or lower epsilon"
            )
        shown = gaussian_epsilon(mu, delta - failure) * (1.0 + _ROUNDED_UP)
        return tuple(mechanisms), max(epsilon, shown)

    def squared_error(self, mu: float, *given: float) -> float:
        """Return the expected squared distance, to first order, at a cost of `mu`."""
        signal, noise = np.array(self.signal), self.noise
        sampling = float(np.sum(noise / signal * ((signal + noise) / signal)))
        changes = self._charged(USUAL_FAILURE)
        # Noise is in these proportions, and costs mu in all.
        scales = self._printed() if self.calibration == "paper" else changes
        costs = [change / scale for change, scale in zip(changes, scales, strict=True)]
        private = scales[0] * math.hypot(*costs) / mu
        rank = len(signal)
        return (self.n_features - rank) * (
            2.0 * sampling / self.n_samples + rank * private * private
        )

    def _remarks(self, epsilon: float, failure: float, holds: float) -> tuple:
        mean = "one unknown mean" if self.centered else "mean zero"
        sentences: tuple[str, ...] = (
            f"The noise suffices for independent Gaussian rows of {mean} with the "
            "stated spiked covariance, when one row is replaced by another such row.",
        )
        if self.centered:
            sentences += ("Rows were measured about their mean, which stays unknown.",)
        if math.isfinite(epsilon):
            sentences += (
                "The sensitivities come from a theorem, which holds for rows and "
                f"replacements outside an event of probability {failure:g}, which "
                "delta includes and ledgers add up.",
            )
        if holds > epsilon:
            said = (
                f"The papers' formulas claim epsilon = {epsilon:g} for this noise; "
                "the theorem only proves the weaker guarantee above."
            )
            sentences += (Remark(said, Concern.WEAKER),)
        return sentences

    def run(self, release: Any, rows: Any, *given: Any) -> ModelComponents:
        """Release components; without a covariance, variances are the model's."""
        vectors = self.projector(release, rows)
        values = np.array(self.signal) + self.noise
        if self.covariance:
            within = self.moment_within(release, rows, vectors)
            values, vectors = _kernels.leading_first(within, vectors)
            values = np.maximum(values, self.noise)
        return ModelComponents(vectors, values, self.noise)

    def projector(self, release: Any, X: Any) -> np.ndarray:
        """Release leading eigenvectors of PCA's projector plus noise, as rows."""
        rank = len(self.signal)
        return eigen.top_eigh(self.noisy_projector(release, X), rank)[1]

    def noisy_projector(self, release: Any, X: Any) -> np.ndarray:
        """Release PCA's projector plus noise: symmetric, of shape (p, p)."""
        exact = exact_directions(self._measured(X), len(self.signal))
        return release("projector", exact.T @ exact, overwrite=True)

    def _measured(self, X: Any) -> Any:
        """Return rows minus the model's mean."""
        return centered_rows(X, _finite) if self.centered else X

    def moment_within(self, release: Any, X: Any, components: np.ndarray) -> np.ndarray:
        """Release the second moment of unclipped projections."""
        X = self._measured(X)
        kernel = partial(_sum_of_projections, components=components)
        total = walks.reduce_rows(X, walks.RowWalk(_finite), kernel)
        released = release("model_moment", total / X.shape[0])
        # About their own mean n rows are as n - 1.
        return released * (X.shape[0] / (X.shape[0] - int(self.centered)))


def _sum_of_projections(blocks, components: np.ndarray) -> np.ndarray:
    """Sum outer products of unclipped projections."""
    total = np.zeros((len(components),) * 2, order="F")
    for block in blocks:
        scores = np.asarray(block @ components.T)
        total += scores.T @ scores
    return total


def exact_directions(X, rank: int) -> np.ndarray:
    """Leading eigenvectors of the second moment, without noise."""
    if X.shape[1] > X.shape[0]:
        return _kernels.top_right_vectors(_finite(X[:]), rank)
    moment = walks.blocked_second_moment(X, _finite)
    return eigen.top_eigh(moment, rank, exact=True)[1]


def _finite(block):
    """Return float64 rows with finite squares; no sensitivity relies on this."""
    return clip_rows(block, _LONGEST)


# Shares of mu**2 of directions, of votes, and of the projector.
_UNKNOWN_SHARES = (0.05, 0.15, 0.8)
# Signals, in units of the noise variance, above which they count as this one: so that
# what the projector is divided by is bounded from below by public numbers.
_LARGEST_SIGNAL = 1e4
# Parts of the failure probability: half is the projector's; each of two counts of rows,
# and each of two sequences of noise, may be off with an eighth.
_PROJECTOR_PART, _EACH_PART = 0.5, 0.125
# Allowance for rounding errors of squared lengths, and of noise on its grid.
_ROUNDED = 2.0**-20


class SignalBound:
    """Lower bound on the signal, wrong with a probability of at most `failure`."""

    def __init__(
        self, n: int, noise_std: float, degrees: tuple[int, int], failure: float
    ) -> None:
        self.degrees, each = degrees, 0.25 * failure  # half counts, half noise
        reach = -ndtri(each / STEPS) * noise_std * (1.0 + _ROUNDED)
        # As many rows as may lie below a length that the votes say half lie below,
        # and as few: by Clopper and Pearson.
        most, fewest = math.floor(0.5 * n + reach), math.ceil(0.5 * n - reach)
        # The share beyond: one less a share that small would lose what it is off by.
        beyond = betaincinv(n - most, most + 1, each) if most < n else 0.0
        below = betaincinv(fewest, n - fewest + 1, each) if fewest > 0 else 0.0
        halves = [0.5 * degrees for degrees in self.degrees]
        # Quantiles of extreme medians; infinite or zero if nothing is known.
        self.along = 2.0 * float(gammainccinv(halves[0], beyond))
        self.across = 2.0 * float(gammaincinv(halves[1], below))

    def signal(self, along: float, across: float) -> float:
        """Bound signal over noise by lower ends along and upper ends across."""
        if not (along > 0.0 and self.across > 0.0 and across < math.inf):
            return 0.0  # unknown
        ratio = (along / self.along) / (across / self.across) * (1.0 - _ROUNDED)
        return min(max(ratio - 1.0, 0.0), _LARGEST_SIGNAL)

    def expected(self, signal: float) -> float:
        """Return the bound for medians equal to those of the distribution."""
        medians = [chi_square_median(k) for k in self.degrees]
        return self.signal((signal + 1.0) * medians[0], medians[1])


@dataclass(frozen=True)
class UnknownSpikes(ModelStatistic):
    """Components from a noisy projector of unit rows, with private variances."""

    n_samples: int
    n_features: int
    rank: int  # all of one signal variance

    @property
    def _half(self) -> int:
        """Number of leading rows that are used for directions."""
        return self.n_samples // 2

    @property
    def scales(self) -> PrivateScales:
        """Votes of the second half of the rows."""
        return PrivateScales(self.n_samples - self._half, self.n_features)

    def distance(self, signal: float, failure: float) -> float:
        """Bound the effect of one row on the projector; `signal` is over the noise."""
        most = self._largest_distance(self.rank)
        if signal < LEAST_SIGNAL:
            return most
        model = (signal,) * self.rank, 1.0, self.n_samples, self.n_features
        part = _PROJECTOR_PART * failure
        return min(sensitivity.spiked_projector_sensitivity(*model, part), most)

    def bound(self, noise_std: float, failure: float) -> SignalBound:
        """Return the bound on the signal, given the noise of votes and the failure."""
        degrees = self.rank, self.n_features - self.rank
        part = 4.0 * _EACH_PART * failure
        return SignalBound(self.n_samples - self._half, noise_std, degrees, part)

    def _priced(self, epsilon: float, delta: float, failure: float) -> tuple:
        """Return directions, votes, and the projector divided by its bound."""
        shape, costs = (self.n_features,) * 2, [math.inf] * 2
        last: Any = Exact("projector", shape, symmetric=True)
        if math.isfinite(epsilon):
            least = self.distance(_LARGEST_SIGNAL, failure)
            if self.n_samples < 4 or least >= self._largest_distance(self.rank):
                raise ValueError(
                    f"the spiked model has no bound for n_samples="
                    f"{self.n_samples}, n_features={self.n_features}, n_components="
                    f"{self.rank}, whatever the variances are: it needs more rows"
                )
            mu = gaussian_mu(epsilon, delta - failure)
            *costs, cost = split_mu(mu, _UNKNOWN_SHARES)
            # What is divided by the bound that releases give moves by at most 1.
            error = ROUNDING * self.n_features * (1.0 + 1.0 / LEAST_SIGNAL) / least
            more = _rounded(error, 2.0 / least)
            last = calibrate_gaussian("projector", 1.0, cost, shape, **more)
        size = max(self._half, 1), self.n_features, costs[0]
        first = plan_second_moment("direction_moment", *size, weights=(1.0,))
        return (*first, *self.scales.mechanisms(costs[1]), last), epsilon

    def _remarks(self, epsilon: float, failure: float, holds: float) -> tuple:
        sentences: tuple[str, ...] = (
            "Directions and votes are private for any data. The noise on the "
            "projector suffices for independent Gaussian rows of mean zero with a "
            "spiked covariance, whatever its variances, as long as all signals are "
            "equal, when one row is replaced by another such row.",
        )
        if failure:
            sentences += (
                "The sensitivity comes from a theorem, with a released bound on the "
                f"signal, and holds outside an event of probability {failure:g}, "
                "which delta includes and ledgers add up.",
            )
        return sentences

    def run(self, release: Any, rows: Any, *given: Any) -> ModelComponents:
        """Release directions, votes, and the projector of all rows."""
        rank = self.rank
        scales, vectors = self.subspace(release, rows)
        values = np.full(rank, scales.signal + scales.noise)
        return ModelComponents(vectors, values, scales.noise)

    def subspace(self, release: Any, rows: Any) -> tuple[Scales, np.ndarray]:
        """Release the same; return variances and orthonormal rows of shape (r, p)."""
        rank, half, plan = self.rank, self._half, release.plan
        moment = walks.blocked_second_moment(rows[:half], normalize_rows)
        moment = release("direction_moment", moment, overwrite=True)
        directions = eigen.top_eigh(moment, rank)[1]
        voting = walks.Walked(rows[half:], walks.RowWalk(_finite))
        cells = self.scales.run(release, voting, directions)
        divisor = 1.0
        if plan.failure:
            bound = self.bound(plan["quantile_1"].noise_std, plan.failure)
            signal = bound.signal(cells[0].low, cells[1].high)
            divisor = self.distance(signal, plan.failure)
        exact = exact_directions(rows, rank)
        statistic = exact.T @ exact
        statistic /= divisor
        noisy = release("projector", statistic, overwrite=True)
        return self.scales.of(cells, rank), eigen.top_eigh(noisy, rank)[1]

    def squared_error(self, mu: float, signal: float, noise: float) -> float:
        """Return the expected squared distance at a cost of mu, to first order."""
        _, votes, cost = split_mu(mu, _UNKNOWN_SHARES)
        noise_std = self.scales.moved * math.sqrt(STEPS) / votes
        ratio = signal / noise
        known = self.bound(noise_std, USUAL_FAILURE).expected(ratio)
        private = self.distance(known, USUAL_FAILURE) / cost
        squared = (ratio + 1.0) / ratio**2 / self.n_samples + 0.5 * private**2
        return squared * 2.0 * self.rank * (self.n_features - self.rank)


# Variances whose ratios and products float64 arithmetic can handle.
SMALLEST, LARGEST = 1e-60, 1e60
_PARAMETERS: dict = {
    "signal_variance": [Real, tuple, list, np.ndarray, StrOptions({"private"})],
    "noise_variance": [Real, StrOptions({"private"})],
    "mean": [StrOptions({"zero", "unknown"})],
    "release": [StrOptions({"components", "covariance"})],
    "calibration": [StrOptions({"exact", "paper"})],
    "sensitivity_constant": [Interval(Real, 0, LARGEST, closed="neither"), None],
}


@register
@documented
@dataclass(eq=False, repr=False)
class SpikedModel(BaseEstimator):
    """Noise on clients' projectors, private only **under a model of the data**.

    It is the model of :class:`~skdpspectral.decomposition.SpikedPCA`, in
    :class:`~skdpspectral.FederatedDPPCA`.

    Rows are not bounded. The guarantee only holds for independent Gaussian rows with a
    common mean and the spiked covariance stated here, when one row is replaced by
    another row of this model (:ref:`theorem-spiked-projector`). For other data the fit
    is not private at all. If the theorem gives no bound, for example for few rows or a
    weak signal, the fit raises an error.

    Parameters
    ----------
    {variances_of_model}
    {mean_of_model}
    {release_of_model}
    {calibration_of_model}

    References
    ----------
    Cai, Xia and Zha (2024), Optimal differentially private PCA and estimation for
    spiked covariance matrices, algorithm 1.

    Examples
    --------
    >>> from skdpspectral import FederatedDPPCA
    >>> from skdpspectral.decomposition import SpikedModel
    >>> model = SpikedModel(signal_variance=50.0, noise_variance=1.0)
    >>> FederatedDPPCA(1, mechanism=model).mechanism.calibration
    'exact'
    """

    assumption: ClassVar[Assumption] = Assumption.SPIKED_GAUSSIAN
    _parameter_constraints: ClassVar[dict] = _PARAMETERS
    _array_parameters: ClassVar[tuple[str, ...]] = ("signal_variance",)

    signal_variance: Any = "private"
    noise_variance: float | str = "private"
    _: KW_ONLY
    mean: str = "zero"
    release: str = "components"
    calibration: str = "exact"
    sensitivity_constant: float | None = None

    @property
    def is_private(self) -> bool:
        """Whether the variances are private."""
        return isinstance(self.signal_variance, str)

    def variances(self, n_components: int) -> tuple[tuple[float, ...], float]:
        """Return public variances along components, largest first, and across them."""
        signal = _variances("signal_variance", self.signal_variance, n_components)
        noise = _variances("noise_variance", self.noise_variance, None)
        signal = np.sort(np.broadcast_to(signal, n_components))[::-1]
        return tuple(signal.tolist()), float(noise)

    @property
    def with_covariance(self) -> bool:
        """Whether the covariance within the components is released, too."""
        return self.release == "covariance"

    def check(self, n_components: int, n_features: int) -> None:
        """Refuse what contradicts the model, whatever the number of rows."""
        if n_components >= n_features:
            raise ValueError(
                "a SpikedModel needs n_components below n_features, got n_components="
                f"{n_components} for n_features={n_features}; use DPPCA, or "
                'mechanism="gaussian" of clients'
            )
        if self.sensitivity_constant is not None and self.calibration != "paper":
            raise ValueError(
                'sensitivity_constant is only used with calibration="paper": other '
                "noise needs no constant; leave it as None"
            )
        if self.is_private != isinstance(self.noise_variance, str):
            raise ValueError(
                "signal_variance and noise_variance of a SpikedModel must be numbers, "
                'or both "private"'
            )
        if not self.is_private:
            self.variances(n_components)
        elif self.mean != "zero" or self.calibration != "exact":
            raise ValueError(
                'private variances of a SpikedModel require mean="zero" and '
                'calibration="exact": set both, or state signal_variance and '
                "noise_variance"
            )
        elif self.with_covariance:
            raise ValueError(
                'release="covariance" needs public variances of a SpikedModel: '
                "state signal_variance and noise_variance"
            )

    def statistic(
        self, n_samples: int, n_features: int, n_components: int
    ) -> SpikedProjector | UnknownSpikes:
        """Return what is released of so many rows, from public numbers alone."""
        self.check(n_components, n_features)
        size, constant = (n_samples, n_features), self.sensitivity_constant
        if self.is_private:
            return UnknownSpikes(*size, n_components)
        signal, noise = self.variances(n_components)
        constant = 1.0 if constant is None else check_real("constant", constant)
        how = self.calibration, constant, self.mean == "unknown"
        return SpikedProjector(*size, signal, noise, self.with_covariance, *how)


def _variances(name: str, value, size: int | None) -> np.ndarray:
    """Return one number or `size` numbers as float64, or an error that names them."""
    refuse_masked(value, name)
    array = as_numbers(value)
    if array is None:
        raise ValueError(f"{name} must contain real numbers in the range of float64")
    if array.ndim > 1 or (array.ndim == 1 and array.size != size):
        wanted = "a number" if size is None else f"a number or {size} numbers"
        raise ValueError(f"{name} must be {wanted}, got shape {array.shape}")
    if not np.all((array >= SMALLEST) & (array <= LARGEST)):
        raise ValueError(
            f"{name} must lie in [{SMALLEST:g}, {LARGEST:g}]: positive and finite"
        )
    return array


@documented
@dataclass(eq=False, repr=False)
class SpikedPCA(ComponentsMixin, TableComponents):
    r"""PCA whose guarantee is **for a model of the data**, as in papers on it.

    Noise is added to the projector on the components. Rows are not bounded. The
    guarantee only holds for independent Gaussian rows with a common mean and the spiked
    covariance stated here, when one row is replaced by another row of this model
    (:ref:`theorem-spiked-projector`). For other data the fit is not private at all. If
    the theorem gives no bound, for example for few rows or a weak signal, the fit
    raises an error. Use it to compare with the papers, and :class:`~skdpspectral.DPPCA`
    for data. Read more in the :ref:`user guide <spiked_pca>`.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, below the number of features.
    {variances_of_model}
    {epsilon}
    {delta}
    {mean_of_model}
    {release_of_model}
    {calibration_of_model}
    {accountant}
    {noise_seed}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, leading first. The largest entry of each is positive.
    explained_variance_ : ndarray of shape (n_components,)
        Variances along the components: those of the model, or released ones.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `explained_variance_` divided by the variance in all directions.
    noise_variance_ : float
        Variance across the components.
    mean_ : ndarray of shape (n_features,)
        The origin.
    {singular_values_}
    {n_components_}
    {n_samples_}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    DPPCA : Components with a guarantee for any data.
    SpikedModel : The same model of the rows of clients.

    References
    ----------
    Cai, Xia and Zha (2024), Optimal differentially private PCA and estimation for
    spiked covariance matrices, algorithm 1.

    Examples
    --------
    >>> from skdpspectral.decomposition import SpikedPCA
    >>> pca = SpikedPCA(1, signal_variance=50.0, noise_variance=1.0)
    >>> print(pca.privacy_plan(10_000, 20).assumption)
    spiked-gaussian
    """

    assumption: ClassVar = SpikedModel.assumption
    _array_parameters: ClassVar[tuple[str, ...]] = ("signal_variance",)
    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        **_PARAMETERS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    n_components: int = 2
    _: KW_ONLY
    signal_variance: Any = "private"
    noise_variance: float | str = "private"
    epsilon: float | None = 1.0
    delta: float = 1e-6
    mean: str = "zero"
    release: str = "components"
    calibration: str = "exact"
    sensitivity_constant: float | None = None
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None

    def _model(self) -> SpikedModel:
        names = SpikedModel._get_param_names()
        return SpikedModel(**{name: getattr(self, name) for name in names})

    def _takes_sparse_rows(self) -> bool:
        return self.mean != "unknown"

    def _statistic(self, n_samples: int, n_features: int):
        """Return what a fit of that shape releases, from public numbers alone."""
        check_rank(self.n_components, n_samples, n_features)
        rank = int(self.n_components)
        return self._model().statistic(n_samples, n_features, rank)

    @unweighted
    def fit(self, X, y=None, *, users=None) -> Self:
        """Release the leading components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            {X_by_block}
            With private variances, blocks are read into memory.
        {y_ignored}
        {users_of_rows}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            # Halves of rows are cut from what is whole.
            how = {"accept_sparse": self._takes_sparse_rows()}
            how["in_blocks"] = not self._model().is_private
            unread = self._by_user(deferred_rows(self, X, **how), users)
            n_samples, n_features = unread.shape
            statistic = self._statistic(n_samples, n_features)
            plan = self._planned(statistic, in_fit=True)
            # It is charged here, and values are read from here on.
            release, rows = self._start_release(plan, unread, n_public=n_samples)
            vectors, values, noise = statistic.run(release, rows)
            total = float(values.sum()) + (n_features - len(values)) * noise
            self.components_, self.explained_variance_ = vectors, values
            self.explained_variance_ratio_ = values / total
            self.noise_variance_ = float(noise)
            self.mean_ = np.zeros(n_features)
            self.n_components_, self.n_samples_ = len(vectors), n_samples
            self.privacy_ = plan
        return self
