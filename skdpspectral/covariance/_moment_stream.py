"""The private statistic of a stream of rows, released at each step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg.eigen import shrink_eigenvalues
from .._linalg.walks import blas_threads
from .._statistics.statistic import Statistic
from .._tables.clipping import clip_rows
from ..accounting import calibrate_gaussian
from ..factorizations import Factorization, NoiseGain, Pair, Workload
from ..mechanisms import Exact, Mechanism, PrivacyPlan
from ..mechanisms._plan import GRID_BITS

# Rows that are handled together: their vectors stay in the cache.
BLOCK_STEPS = 256
_NAME = "moments"


class MomentRows:
    """The isometric map of a row x to (x, w vec(xx')), or no x, and its inverse."""

    def __init__(self, n_features: int, weight: float, *, first: bool = True):
        d = self.n_features = n_features
        self.weight, self.start = weight, d if first else 0
        self.width = self.start + d * (d + 1) // 2

    def pack(self, rows: np.ndarray) -> np.ndarray:
        """Return vectors of shape (b, width) for rows of shape (b, d)."""
        out = np.empty((len(rows), self.width))
        out[:, : self.start] = rows[:, : self.start]
        # The upper triangle by rows; entries off the diagonal times sqrt(2).
        scaled, place = rows * (math.sqrt(2.0) * self.weight), self.start
        for i, d in enumerate(range(self.n_features, 0, -1)):
            column = rows[:, i : i + 1]
            np.multiply(column, scaled[:, i:], out=out[:, place : place + d])
            np.multiply(rows[:, i], rows[:, i], out=out[:, place])
            out[:, place] *= self.weight
            place += d
        return out

    def unpack(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sums of rows (or zeros), (b, d), and products, (b, d, d)."""
        first = np.zeros((len(vectors), self.n_features))
        first[:, : self.start] = vectors[:, : self.start]
        products = vectors[:, self.start :] / self.weight
        i, j = np.triu_indices(self.n_features)
        second = np.zeros((*first.shape, self.n_features))
        second[:, i, j] = products * np.where(i == j, 1.0, math.sqrt(0.5))
        second[:, j, i] = second[:, i, j]
        return first, second


def project_covariance(matrices: np.ndarray, floor, trace, spread=None) -> np.ndarray:
    """Return the nearest symmetric matrices with a floor and a bounded trace."""
    floor, trace = (np.asarray(bound)[..., None] for bound in (floor, trace))
    with blas_threads(matrices.shape[-1]):
        values, vectors = np.linalg.eigh(matrices)
        if spread is not None:
            values = shrink_eigenvalues(values, spread)  # less the bias of noise
        values = project_spectrum(values, floor, trace)
        return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def project_spectrum(values: np.ndarray, floor, total) -> np.ndarray:
    """Return the nearest points with a least entry and a bounded sum, in order."""
    d = values.shape[-1]
    floor = np.minimum(floor, total / d)
    raised = np.maximum(values, floor)
    # Otherwise entries v become max(v - t, floor): t follows from the largest k.
    excess = -np.sort(floor - values, axis=-1)
    shifts = (np.cumsum(excess, axis=-1) - (total - d * floor)) / np.arange(1, d + 1)
    count = np.maximum((excess > shifts).sum(axis=-1, keepdims=True), 1)
    shift = np.take_along_axis(shifts, count - 1, axis=-1)
    lowered = np.maximum(values - shift, floor)
    return np.where(raised.sum(axis=-1, keepdims=True) <= total, raised, lowered)


def moment_weights(
    weight: float | str | None, clip_norm: float, d: int
) -> tuple[float, float]:
    """Return the weight of products, and the squared sensitivity."""
    if weight is None:
        return 1.0, sensitivity.second_moment_ratio(d)
    free = weight == "free"
    nu = sensitivity.free_moment_weight(d) if free else float(weight) * clip_norm**2
    return nu, sensitivity.joint_moment_ratio(nu, d)


class MomentStream(Statistic):
    """Moments of a stream: each clipped row is one vector with its outer product."""

    def __init__(
        self,
        n_features: int,
        noise: list[tuple[Workload, Factorization]],
        n_steps: int | None,  # None: any number
        weight: float | str | None,  # None: no first moment
        clip_norm: float,
    ) -> None:
        self.n_steps, self.clip_norm = n_steps, float(clip_norm)
        self.centered = weight is None
        # Workloads of the first moment, and of the second one and the covariance.
        (self.first_workload, first), (self.workload, second) = noise[0], noise[-1]
        # Matrices for noise; that of products is stretch times larger than by its own.
        self.shapes, self.stretch, ends = (first, second), 1.0, 1.0
        self.factorization: Factorization = first
        if second is not first:
            self.factorization = pair = Pair(first, second, n_features)
            self.stretch, ends = pair.stretch, pair.ratio
        nu, ratio = moment_weights(weight, self.clip_norm, n_features)
        # Products are as far from rows as the columns of their matrices are.
        root = math.sqrt(nu) * (ends / self.clip_norm)
        self.rows = MomentRows(n_features, root, first=not self.centered)
        self.sensitivity = self.clip_norm * math.sqrt(ratio)
        self._norm = self.clip_norm * math.sqrt(1.0 + nu * ends**2)

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the release of all steps at a total cost of mu; infinite for none."""
        shape = (self.rows.width,)
        if not math.isfinite(mu):
            return (Exact(_NAME, shape),)
        # No grid is coarser than this, or the columns may be beyond float64.
        self.factorization.check_precision(2.0**GRID_BITS)
        error = sensitivity.summation_error(self._norm, 1, 1)
        mechanism = calibrate_gaussian(
            _NAME,
            self.sensitivity,
            mu,
            shape,
            summation_error=error,
            magnitude=2.0 * self._norm,
            lemma="joint-moments",
            correlation={
                "column_norm": self.factorization.column_norm,
                "factorization": self.factorization.name,
                "max_steps": self.n_steps,
                "amplification": self.factorization.amplification,
            },
        )
        self.factorization.check_precision(mechanism.noise_std / mechanism.grid)
        return (mechanism,)

    def begin(self, plan: PrivacyPlan) -> MomentSums:
        """Return the initial sums of a stream, given the planned noise."""
        (mechanism,) = plan.mechanisms
        return MomentSums(self, getattr(mechanism, "noise_std", 0.0))

    def run(self, release, rows, *given) -> Iterator[StreamMoments]:
        """Claim the steps of the next rows, and yield the moments of each block."""
        (sums,) = given
        release.claim(sums.step, len(rows))
        for start in range(0, len(rows), BLOCK_STEPS):
            # The caller goes on between two blocks with all threads.
            with blas_threads(0), np.errstate(all="ignore"):
                block = self.vectors(rows[start : start + BLOCK_STEPS])
                moments = sums.push(release(block))
            yield moments

    def vectors(self, block: np.ndarray) -> np.ndarray:
        """Return the exact vectors to be released; nothing else is made of rows."""
        block = np.array(block, dtype=np.float64, order="C")
        return self.rows.pack(clip_rows(block, self.clip_norm, out=block))


class MomentSums:
    """Weighted sums of released vectors, and the deviation of their noise."""

    def __init__(self, stream: MomentStream, noise_std: float):
        self.stream, self.noise_std, self.step = stream, noise_std, 0
        self._sums = stream.workload.sums(stream.rows.width)
        self._first = None
        if stream.first_workload is not stream.workload:
            self._first = stream.first_workload.sums(stream.rows.n_features)
        # One for rows, and one for their products if other noise is theirs.
        shapes = dict.fromkeys(stream.shapes)
        self._gains = [NoiseGain(stream.workload, shape) for shape in shapes]

    def push(self, vectors: np.ndarray) -> StreamMoments:
        """Add released vectors, overwriting them; return the sums of each step."""
        n, first = len(vectors), None
        steps = np.arange(self.step + 1, self.step + n + 1)
        if self._first is not None:
            d = self.stream.rows.n_features
            first = self._first.push(vectors[:, :d].copy())
        gains = [np.zeros(n)] * len(self._gains)
        if self.noise_std:
            gains = [gain.push(n) for gain in self._gains]
        moments = StreamMoments(self, steps, self._sums.push(vectors), gains, first)
        self.step += n  # at last: another thread claims no step before
        return moments


class Moments(NamedTuple):
    """Moments of m chosen steps: (m, d), (m, d, d), (m, d) and (m, d, d)."""

    first: np.ndarray
    second: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray  # unbiased, not yet projected
    spread: np.ndarray  # (m,), deviation of noise off the diagonal, means included
    mean_std: np.ndarray | None  # None for weights of their own, or no means


class StreamMoments:
    """Sums of consecutive steps, from which the moments of any of them follow."""

    def __init__(self, sums, steps, vectors, gains, first):
        self.sums, self.steps = sums, steps
        # Gains are variances for unit noise: of rows, and of products.
        self._vectors, self._gains, self._first = vectors, gains, first

    def at(self, places) -> Moments:
        """Return the moments of some steps, by their places among these."""
        stream, places = self.sums.stream, np.asarray(places)
        steps, workload = self.steps[places], stream.workload
        totals, divisors = workload.totals(steps), workload.divisors(steps)
        first, second = stream.rows.unpack(self._vectors[places])
        mean = first / totals[:, None]
        covariance = second / totals[:, None, None]
        noise_std, gain = self.sums.noise_std, self._gains[0][places]
        unit = noise_std**2 / totals**2
        product = unit * self._gains[-1][places]
        variance = 0.5 * product * (stream.stretch / stream.rows.weight) ** 2
        mean_std = None
        if not stream.centered:
            squared = mean[:, :, None] * mean[:, None, :]
            # The noise of the mean, squared, is taken off with it: give it back.
            bias = noise_std**2 * gain / totals**2
            covariance = covariance - squared
            covariance += bias[:, None, None] * np.eye(first.shape[1])
            # Of rank two, and as large as noise of this size in all entries.
            coordinate, lengths = unit * gain, np.vecdot(mean, mean)
            variance += 2.0 * lengths * coordinate / first.shape[1] + coordinate**2
            mean_std = noise_std * np.sqrt(gain) / np.abs(totals)
        first, second = first / divisors[:, None], second / divisors[:, None, None]
        if self._first is not None:
            workload, sums = stream.first_workload, self._first[places]
            mean, mean_std = sums / workload.totals(steps)[:, None], None
            first = sums / workload.divisors(steps)[:, None]
        return Moments(first, second, mean, covariance, np.sqrt(variance), mean_std)
