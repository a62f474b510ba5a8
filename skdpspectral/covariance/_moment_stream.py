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
from ..factorizations import NoiseGain, Workload
from ..factorizations._choices import PlannedNoise
from ..factorizations._factorizations import Pair
from ..mechanisms import Exact, Mechanism, PrivacyPlan
from ..mechanisms._planned_releases import GRID_BITS
from ._moments import AssumeCentered, BaselineMoments, JointMoments, moment_weights

# Rows that are handled together: their vectors stay in the cache.
BLOCK_STEPS = 256
_NAME = "moments"


class MomentRows:
    r"""The map of a row x to :math:`(x, w\, \mathrm{vec}(xx'))`, and its inverse.

    The outer product is flattened isometrically: its upper triangle by rows, with
    off-diagonal entries times :math:`\sqrt2`; or only its diagonal. `weight` is w, None
    for no products; `trace_weight` is that of the component along the identity, by
    default w. With `first`, x is included. `width` is the length of the vector.
    """

    def __init__(
        self,
        n_features: int,
        weight: float | None,
        *,
        diagonal: bool = False,
        first: bool = True,
        trace_weight: float | None = None,
    ):
        d = self.n_features = n_features
        self.weight, self.diagonal, self.first = weight, diagonal, first
        self.trace_weight = trace_weight
        self.width = d if first else 0
        if weight is not None:
            self.width += d if diagonal else d * (d + 1) // 2

    def _diagonal_places(self) -> np.ndarray:
        """Return where the diagonal is among the products."""
        i = np.arange(self.n_features)
        return i if self.diagonal else i * self.n_features - i * (i - 1) // 2

    def pack(self, rows: np.ndarray) -> np.ndarray:
        """Return vectors of shape (b, width) for rows of shape (b, d)."""
        out = np.empty((len(rows), self.width))
        start = self.n_features if self.first else 0
        if self.first:
            out[:, :start] = rows
        if self.weight is not None:
            self._pack_products(rows, out[:, start:])
        return out

    def _pack_products(self, rows: np.ndarray, out: np.ndarray) -> None:
        if self.diagonal:
            np.multiply(rows, rows, out=out)
            out *= self.weight
        else:
            self._pack_triangle(rows, out)
        if self.trace_weight is not None:
            self._stretch_trace(out, self.trace_weight / self.weight)

    def _pack_triangle(self, rows: np.ndarray, out: np.ndarray) -> None:
        d, place = self.n_features, 0
        scaled = rows * (math.sqrt(2.0) * self.weight)
        for i in range(d):
            column = rows[:, i : i + 1]
            np.multiply(column, scaled[:, i:], out=out[:, place : place + d - i])
            np.multiply(rows[:, i], rows[:, i], out=out[:, place])
            out[:, place] *= self.weight
            place += d - i

    def _stretch_trace(self, products: np.ndarray, factor: float) -> None:
        """Multiply the component along the identity."""
        places = self._diagonal_places()
        # Contiguous, so that a row has the same bits in any batch.
        diagonal = np.ascontiguousarray(products[:, places])
        mean = diagonal.sum(axis=1, keepdims=True) / self.n_features
        products[:, places] = diagonal + (factor - 1.0) * mean

    def unpack(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return sums of rows, (b, d), and products, (b, d, d), from sums of vectors.

        Sums of rows are zero if x is not included; products are None if absent.
        """
        d, start = self.n_features, self.n_features if self.first else 0
        first = vectors[:, :start].copy() if self.first else np.zeros((len(vectors), d))
        if self.weight is None:
            return first, None
        products = vectors[:, start:] / self.weight
        if self.trace_weight is not None:
            self._stretch_trace(products, self.weight / self.trace_weight)
        second = np.zeros((len(vectors), d, d))
        if self.diagonal:
            second[:, np.arange(d), np.arange(d)] = products
            return first, second
        i, j = np.triu_indices(d)
        scale = np.where(i == j, 1.0, math.sqrt(0.5))
        second[:, i, j] = second[:, j, i] = products * scale
        return first, second


def project_covariance(matrices: np.ndarray, floor, trace, spread=None) -> np.ndarray:
    """Return the nearest symmetric matrices with a floor and a bounded trace.

    Matrices have shape (..., d, d), other arguments (...). `floor` is the least
    eigenvalue, at most trace / d. `spread` is the standard deviation off the diagonal
    of symmetric noise, whose bias is first removed (:func:`shrink_eigenvalues`).
    """
    floor, trace = (np.asarray(bound)[..., None] for bound in (floor, trace))
    with blas_threads(matrices.shape[-1]):
        values, vectors = np.linalg.eigh(matrices)
        if spread is not None:
            values = shrink_eigenvalues(values, spread)
        values = project_spectrum(values, floor, trace)
        return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def project_spectrum(values: np.ndarray, floor, total) -> np.ndarray:
    """Return the nearest points, (..., d), with a least entry and a bounded sum.

    A floor above total / d is lowered to it. The order of the entries is kept.
    """
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


class MomentStream(Statistic):
    """The moments of one stream of rows, as a private statistic.

    Each row is clipped, and released as one vector of itself and its outer product.

    `first_workload` and `workload` weight the first moment, and the second moment and
    covariance. `shapes` are the matrices for the noise of rows and of products, and
    `factorization` is both as one; the noise of products is `stretch` times larger than
    its matrix gives. `rows` maps a row to its vector, whose change `sensitivity`
    bounds.
    """

    def __init__(
        self,
        n_features: int,
        noise: PlannedNoise,
        moments: JointMoments | AssumeCentered | BaselineMoments,
        *,
        clip_norm: float = 1.0,
    ) -> None:
        self.first_workload, self.workload = noise.workload, noise.second_workload
        self.n_steps, self.renewed = noise.n_steps, noise.renewed
        self.clip_norm = float(clip_norm)
        self.method = getattr(moments, "method", "jme")
        self.centered = isinstance(moments, AssumeCentered)
        self.diagonal = moments.second_moment == "diag"
        ends = self._shape(noise, n_features)
        nu, trace, ratio = moment_weights(moments, self.clip_norm, n_features)
        # Products are as far from rows as the columns of their matrices are.
        scale = ends / self.clip_norm
        self.rows = MomentRows(
            n_features,
            None if nu is None else math.sqrt(nu) * scale,
            diagonal=self.diagonal,
            first=not self.centered,
            trace_weight=None if trace is None else math.sqrt(trace) * scale,
        )
        self.sensitivity = self.clip_norm * math.sqrt(ratio)
        largest = max(nu or 0.0, trace or 0.0) * ends**2
        self._norm = self.clip_norm * math.sqrt(1.0 + largest)
        # The trace is a sum over features.
        self._terms = 1 if trace is None else n_features

    def _shape(self, noise: PlannedNoise, n_features: int) -> float:
        """Set the noise's matrices; return the factor of the products."""
        first, second = noise.factorization, noise.second_factorization
        self.stretch = 1.0
        if second is first or self.method.startswith("pp"):
            self.shapes, self.factorization = (first, first), first
            return 1.0
        self.shapes = first, second
        self.factorization = pair = Pair(first, second, n_features)
        self.stretch = pair.stretch
        return pair.ratio

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the release of all steps at a total cost of mu; infinite for none."""
        shape = (self.rows.width,)
        if not math.isfinite(mu):
            return (Exact(_NAME, shape),)
        # No grid is coarser than this, or the columns may be beyond float64.
        self.factorization.check_precision(2.0**GRID_BITS)
        error = sensitivity.summation_error(self._norm, self._terms, self._terms)
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
                "renewed": self.renewed,
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
        """Claim the steps of the next rows, and yield the moments of each block.

        The given :class:`MomentSums` takes them in.
        """
        (sums,) = given
        release.claim(sums.step, len(rows))
        for start in range(0, len(rows), BLOCK_STEPS):
            # The caller goes on between two blocks with all threads.
            with blas_threads(0):
                block = self.vectors(rows[start : start + BLOCK_STEPS])
                moments = sums.push(release(block))
            yield moments

    def vectors(self, block: np.ndarray) -> np.ndarray:
        """Return the exact vectors to be released; nothing else is made of rows."""
        block = np.array(block, dtype=np.float64, order="C")
        return self.rows.pack(clip_rows(block, self.clip_norm, out=block))


_CHUNK = 1 << 16


class FirstSums:
    """Sums of rows with other weights than those of the covariance."""

    def __init__(self, workload: Workload, n_features: int):
        self.workload = workload
        self._sums, self._counts = workload.sums(n_features), None

    def push(self, rows: np.ndarray, steps: np.ndarray) -> FirstMoments:
        """Return the sums of each step, and the sums of their weights."""
        totals = self.workload.totals(steps)
        if self._counts is not None:
            totals = self._counts.push(np.ones((len(steps), 1)))[:, 0]
        return FirstMoments(self.workload, self._sums.push(rows), totals, steps)

    def skip(self, step: int, n: int) -> None:
        """Leave out the n steps after a step."""
        if self._counts is None:
            self._counts = _counted(self.workload, step)
        self._sums.skip(n)
        self._counts.skip(n)


class FirstMoments(NamedTuple):
    """Sums of rows, (b, d), with weights of their own, and sums of these, (b,)."""

    workload: Workload
    sums: np.ndarray
    totals: np.ndarray
    steps: np.ndarray

    def at(self, places) -> tuple[np.ndarray, np.ndarray]:
        """Return first moments and means of some steps."""
        sums, totals = self.sums[places], self.totals[places, None]
        mean = sums / totals
        if not self.workload.normalized:
            totals = self.workload.divisors(self.steps[places])[:, None]
        return sums / totals, mean

    def of_last_step(self) -> FirstMoments:
        parts = (part[-1:].copy() for part in self[1:])
        return FirstMoments(self.workload, *parts)


class MomentSums:
    """Weighted sums of released vectors, and the deviation of their noise."""

    def __init__(self, stream: MomentStream, noise_std: float):
        self.stream, self.noise_std = stream, noise_std
        self.step, self.n_lost = 0, 0
        self._counts = None
        self._sums = stream.workload.sums(stream.rows.width)
        d, self._first = stream.rows.n_features, None
        if stream.first_workload is not stream.workload:
            self._first = FirstSums(stream.first_workload, d)
        self._squares = None
        if stream.method.startswith("pp"):
            self._square_rows = MomentRows(
                d, 1.0, diagonal=stream.diagonal, first=False
            )
            self._squares = stream.workload.sums(self._square_rows.width)
        # One for rows, and one for their products if other noise is theirs.
        block = stream.n_steps if stream.renewed else None
        self._gains = [
            NoiseGain(stream.workload, shape, block)
            for shape in dict.fromkeys(stream.shapes)
        ]

    def push(self, vectors: np.ndarray) -> StreamMoments:
        """Add released vectors, overwriting them; return the sums of each step."""
        n = len(vectors)
        steps = np.arange(self.step + 1, self.step + n + 1)
        self.step += n
        first = squares = totals = None
        if self._first is not None:
            d = self.stream.rows.n_features
            first = self._first.push(vectors[:, :d].copy(), steps)
        if self._squares is not None:
            squares = self._squares.push(self._square_rows.pack(vectors))
        gains = [(np.zeros(n), np.zeros(n))] * len(self._gains)
        if self.noise_std:
            gains = [gain.push(n) for gain in self._gains]
        if self._counts is not None:
            totals = self._counts.push(np.ones((n, 1)))[:, 0]
        return StreamMoments(
            self, steps, self._sums.push(vectors), squares, gains, totals, first
        )

    def skip(self, n: int) -> None:
        """Skip the next n steps, whose releases are lost.

        Their noise must not be used either: with the releases it would reveal the rows.
        """
        if not n:
            return
        workload, first = self.stream.workload, self._first
        if self._counts is None:
            self._counts = _counted(workload, self.step)
        if first is not None:
            first.skip(self.step, n)
        for sums in (self._sums, self._squares, self._counts):
            if sums is not None:
                sums.skip(n)
        if self.noise_std:
            for gain in self._gains:
                gain.skip(n)
        self.step += n
        # A window starts again after a gap, without the rows before.
        self.n_lost = self.step if workload.name == "window" else self.n_lost + n


def _counted(workload: Workload, step: int):
    """Return an accumulator of ones after a step."""
    counts = workload.sums(1)
    for start in range(0, step, _CHUNK):
        counts.push(np.ones((min(_CHUNK, step - start), 1)))
    return counts


class StreamMoments:
    """Sums of consecutive steps, from which the moments of any of them follow.

    `vectors` and `squares`, of shape (b, width), are weighted sums of released vectors,
    and of outer products of noisy rows. `gains` are variances of the sums for unit
    noise, as of :class:`NoiseGain`: of rows, and of products with a matrix of their
    own. `totals` are sums of the weights of the included rows, None if no row is
    missing. `first` are sums with weights of their own, or None.
    """

    def __init__(self, sums, steps, vectors, squares, gains, totals, first):
        self.sums, self.steps, self._totals = sums, steps, totals
        self._vectors, self._squares, self._gains = vectors, squares, gains
        self._first = first

    def of_last_step(self) -> StreamMoments:
        """Return the moments of the last step, detached from the running sums."""
        return StreamMoments(
            self.sums,
            self.steps[-1:],
            self._vectors[-1:],
            None if self._squares is None else self._squares[-1:],
            [tuple(part[-1:] for part in gain) for gain in self._gains],
            None if self._totals is None else self._totals[-1:],
            None if self._first is None else self._first.of_last_step(),
        )

    def at(self, places) -> tuple[np.ndarray, ...]:
        """Return first and second moments, means and covariances of m chosen steps.

        They have shapes (m, d), (m, d, d), (m, d) and (m, d, d). Covariances are
        unbiased, except for "pp", and not yet projected.
        """
        stream, places = self.sums.stream, np.asarray(places)
        totals = self._totals_at(places)
        core, squares = (part[places] for part in self._gains[0])
        first, second = stream.rows.unpack(self._vectors[places])
        variance = self.sums.noise_std**2
        unit = np.eye(first.shape[1])
        if self._squares is not None:
            second = self.sums._square_rows.unpack(self._squares[places])[1]
            if stream.method == "pp-debiased":
                second -= (variance * squares)[:, None, None] * unit
        mean = first / totals[:, None]
        covariance = second / totals[:, None, None]
        if not stream.centered:
            squared = mean[:, :, None] * mean[:, None, :]
            if stream.diagonal:
                squared = squared * unit
            covariance = covariance - squared
            if stream.method != "pp":
                # The noise of the mean, squared, was taken off: give it back.
                bias = variance * core / totals**2
                covariance += bias[:, None, None] * unit
        divisors = totals
        if not stream.workload.normalized:
            divisors = stream.workload.divisors(self.steps[places])
        first, second = first / divisors[:, None], second / divisors[:, None, None]
        if self._first is not None:
            first, mean = self._first.at(places)
        return first, second, mean, covariance

    def spread(self, places) -> np.ndarray | None:
        """Return the deviation of the noise of m covariances off their diagonals.

        It includes the noise of a mean that is subtracted. None for methods that square
        noisy rows.
        """
        stream, places = self.sums.stream, np.asarray(places)
        if self._squares is not None:
            return None
        totals = self._totals_at(places)
        first = stream.rows.unpack(self._vectors[places])[0] / totals[:, None]
        unit = self.sums.noise_std**2 / totals**2
        coordinate, product = (
            unit * self._gains[which][0][places] for which in (0, -1)
        )
        variance = 0.5 * product * (stream.stretch / stream.rows.weight) ** 2
        if not stream.centered:
            # Of rank two, and as large as noise of this size in all entries.
            lengths = np.vecdot(first, first)
            variance += 2.0 * lengths * coordinate / first.shape[1] + coordinate**2
        return np.sqrt(variance)

    def mean_spread(self, places) -> np.ndarray | None:
        """Return the deviation of the noise of m means; None for those with weights."""
        if self._first is not None or self.sums.stream.centered:
            return None
        places = np.asarray(places)
        core = self._gains[0][0][places]
        return self.sums.noise_std * np.sqrt(core) / np.abs(self._totals_at(places))

    def _totals_at(self, places) -> np.ndarray:
        if self._totals is not None:
            return self._totals[places]
        return self.sums.stream.workload.totals(self.steps[places])
