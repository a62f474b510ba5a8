"""Requests of a task: shapes, bounds and noise of their answers, values and use.

A client computes `value` from its rows, with what `read` has taken of the request. The
server refuses what `check` refuses (:ref:`lemma-reply`), and `use` makes something of
all replies; both know releases and public numbers alone.

For a shared center, clients release lengths of their rows and of differences between
them, then two clipped means. From these the server computes a common center, and how
much sites differ. Each client then measures its rows from there, or compares them in
pairs: of the request, its own releases and public numbers alone, so that the server
knows which of the two it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg import eigen
from .._messages import MessageError, Query
from .._statistics.centered import (
    LOW,
    N_OCTAVES,
    plan_lengths,
    shares_of_lengths,
    sum_clipped,
    typical_lengths,
)
from .._statistics.moments import Origin
from .._statistics.statistic import HALF, Statistic
from ..accounting import split_mu
from ..accounting._gaussian import calibrate_alike
from . import _kernels
from ._bounded_moments import LARGEST_DEFECT, PowerIteration, RowBounds
from ._spiked import LEAST_SIGNAL

# Noise beyond the public bound of a statistic, in standard deviations: an honest reply
# has more with a probability below 1e-30.
DEVIATIONS = 12.0
# What rounding, of sums and to a grid, may add to a bound.
ROUNDING = 1e-5
# How far from orthonormal the components of a client may be.
_TOLERANCE = 1e-6
# Smallest scale of eigenvalues, in units of the squared rows.
_LEAST_SPIKE = 1e-12
# Ranges of what clients state, for their weights: costs, variances across the
# components, and the largest variance along them in units of those.
_COSTS, _VARIANCES, _MOST_SIGNAL = (1e-9, 1e30), (1e-90, 1e90), 1e10
# Noise of a private variance over its sampling error, in rows, at a cost of mu = 1:
# that of votes that share 4 % of mu^2 over 12 steps.
_VOTES = 25.0


class BoundedQuery(Query):
    """A request for a release with noise, whose norm without it has a public bound."""

    # Units of values in those of the release, and their form: a triangle that is
    # packed, a symmetric matrix, or any numbers.
    unit, packed, symmetric = 1.0, False, False

    def __init__(self, task, release: str, shape: tuple[int, ...]) -> None:
        self.task, self.release, self.shape = task, release, shape

    def noise(self, party: Any) -> float:
        """Deviation of the noise on the values of a client, by its plan."""
        planned = getattr(party.plan[self.release], "noise_std", 0.0)
        return self.unit * planned / (HALF if party.paired else 1.0)

    def bound(self, n_samples: int) -> tuple[float, float]:
        """Largest entry, by the root of 2 off a diagonal, and norm without noise."""
        return 1.0, 1.0

    def check(self, party: Any, reply: Any) -> None:
        """Refuse entries, or a norm, beyond the public bound and the noise."""
        values, noise = reply.values, self.noise(party)
        entry, norm = self.bound(party.n_samples)
        most = (entry + DEVIATIONS * noise) * (1.0 + ROUNDING)
        # First of all: what follows is finite, squares included.
        possible = np.abs(values).max() <= most
        if possible and self.symmetric:
            if not np.array_equal(values, values.T):
                raise MessageError("its covariance is not symmetric")
            values = values[np.tril_indices(len(values))]
        if possible:
            if self.packed or self.symmetric:
                values = _isotropic(values)
            longest = norm + noise * (math.sqrt(values.size) + DEVIATIONS)
            possible = np.abs(values).max() <= most
            possible &= np.linalg.norm(values) <= longest * (1.0 + ROUNDING)
        if not possible:
            raise MessageError(
                "its values are beyond the public bound of the statistic plus "
                f"{DEVIATIONS:g} standard deviations of its noise"
            )


def _isotropic(packed: np.ndarray) -> np.ndarray:
    """Scale a packed lower triangle so that it is as long as its matrix."""
    scaled = math.sqrt(2.0) * packed
    diagonal = np.cumsum(np.arange(1, math.isqrt(2 * packed.size) + 1)) - 1
    scaled[diagonal] = packed[diagonal]
    return scaled


def _check_orthonormal(components: np.ndarray) -> None:
    """Refuse rows that are not orthonormal: they would raise the client's weight."""
    unit = np.abs(components).max() <= 2.0
    if unit:
        product = components @ components.T
        unit = np.abs(product - np.eye(len(product))).max() <= _TOLERANCE
    if not unit:
        raise MessageError("its components are not orthonormal")


class _AnyStart(BoundedQuery):
    """Components of clients that depend on no basis, or the matrices they are from."""

    def __init__(self, task, release: str) -> None:
        p, self.packed = task.n_features, task.by_matrix
        shape = (p * (p + 1) // 2,) if self.packed else (task.n_components, p)
        BoundedQuery.__init__(self, task, release, shape)

    def check(self, party: Any, reply: Any) -> None:
        """Refuse impossible numbers, and then values by what they are."""
        self._check_numbers(party, reply.numbers)
        if self.packed:
            super().check(party, reply)
        else:
            _check_orthonormal(reply.values)

    def _check_numbers(self, party: Any, numbers: tuple) -> None:
        """Refuse numbers that no client of such a plan has."""

    def use(self, rounds: Any, replies: list) -> None:
        """Keep the replies until it is known which clients are left."""
        rounds.first = replies

    def combine(self, rounds: Any, replies: list) -> tuple[np.ndarray, Any, Any]:
        """Return averaged components as rows, weights, and the averaged matrix."""
        weights = rounds.weigh(self._variances(rounds, replies), replies)
        stacked, rank = np.stack([r.values for r in replies]), self.task.n_components
        if not self.packed:
            return _kernels.top_of_projectors(stacked, weights, rank), weights, None
        matrix = eigen.unpack_lower(weights @ stacked, self.task.n_features)
        if self.task.n_rounds:
            found = _kernels.sparse_subspace(matrix, rank, self.task.n_kept).T
            return found, weights, matrix
        return eigen.top_eigh(matrix, rank)[1], weights, matrix

    def _variances(self, rounds: Any, replies: list) -> Any:
        """Expected squared errors of the clients' components, up to a factor."""
        raise NotImplementedError


class Start(_AnyStart):
    """A noisy second moment, or its leading eigenvectors."""

    n_numbers = 2  # the last of their eigenvalues, and the mean of all others

    def __init__(self, task) -> None:
        super().__init__(task, "second_moment")

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Release the second moment; all else is made of it."""
        rank, p = self.task.n_components, self.task.n_features
        moment = rows.run(self.release, rows.origin, rows.floor)
        spread = self.noise(rows) / math.sqrt(2.0)
        values, vectors = eigen.top_eigh(moment, rank, spread)
        bulk = (float(np.trace(moment)) - float(values.sum())) / max(p - rank, 1)
        numbers = float(values[-1]), bulk if rank < p else 0.0
        return numbers, eigen.pack_lower(moment) if self.packed else vectors

    def _check_numbers(self, party: Any, numbers: tuple) -> None:
        """Refuse eigenvalues beyond the trace over r, or over p, and the noise."""
        (last, others), p, rank = numbers, self.task.n_features, self.task.n_components
        noise = self.noise(party) * (math.sqrt(2.0 * p) + DEVIATIONS)
        slack = ROUNDING * (1.0 + noise)
        possible = -noise - slack <= last <= 1.0 / rank + noise + slack
        if rank == p:
            possible &= others == 0.0
        else:
            possible &= -noise - slack <= others <= 1.0 / p + noise + slack
            possible &= others <= last + slack
        if not possible:
            raise MessageError(
                "its eigenvalues are impossible for the public bound of its rows and "
                "its noise"
            )

    def _variances(self, rounds: Any, replies: list) -> Any:
        """Return what :ref:`lemma-weights` expects, from released eigenvalues."""
        rank, p = self.task.n_components, self.task.n_features
        (n, noise), (last, others) = rounds.sizes(self, replies), _numbers(replies)
        scale = max(float(np.mean(np.abs(last))), _LEAST_SPIKE)
        own = _kernels.inverse_variance_weights(2.0 / n + (noise / scale) ** 2)
        bulk = max(float(own @ others), 0.0)
        strength = _kernels.spike_strength(last - others, noise * np.sqrt(0.5 * p))
        gap = float(own @ strength)
        given = gap + bulk, bulk, n, noise, rank, p
        return _kernels.subspace_variances(*given, capped=not self.packed)

    def above_noise(self, rounds: Any, replies: list, combined: tuple) -> int:
        """Count averaged components above noise and sampling error."""
        (components, weights, moment), p = combined, self.task.n_features
        (n, noise), (last, others) = rounds.sizes(self, replies), _numbers(replies)
        rank, spread = len(components), noise / math.sqrt(2.0)
        if moment is not None:
            values = np.sum((components @ moment) * components, axis=1)
            together = float(np.linalg.norm(weights * spread))
            n_rows = 1.0 / float(np.sum(weights**2 / n))
            trace = np.trace(moment)
            return eigen.count_above_noise(values, trace, p, together, n_rows)
        # Without a moment all count, or none: by the last one of each client.
        others = last if rank == p else others
        above = [
            eigen.count_above_noise(np.array([value]), value + (p - 1) * bulk, p, *law)
            for value, bulk, *law in zip(last, others, spread, n, strict=True)
        ]
        return rank if float(weights @ np.array(above)) >= 0.5 else 0


def _numbers(replies: list) -> np.ndarray:
    """Numbers of replies, of shape (n_numbers, m)."""
    return np.array([reply.numbers for reply in replies]).T


class ModelStart(_AnyStart):
    """Components, or a noisy projector, of a model of the rows."""

    def __init__(self, task) -> None:
        super().__init__(task, "projector")
        self.n_numbers = 2 if task.model.is_private else 0  # variances along, across

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Release components of the model."""
        statistic, data = rows.statistic, (rows.release, rows.X)
        if self.n_numbers:
            (signal, noise), vectors = statistic.subspace(*data)
            return (signal, noise), vectors
        if self.packed:
            return (), eigen.pack_lower(statistic.noisy_projector(*data))
        return (), statistic.projector(*data)

    def bound(self, n_samples: int) -> tuple[float, float]:
        """Those of a projector."""
        return 1.0, math.sqrt(self.task.n_components)

    def _check_numbers(self, party: Any, numbers: tuple) -> None:
        """Refuse private variances outside of the public range."""
        if not numbers:
            return
        scales = self.task.statistic(party.n_samples).scales
        ranges = scales.ranges(self.task.n_components)
        for number, (low, high) in zip(numbers, ranges, strict=True):
            if not low * (1.0 - ROUNDING) <= number <= high * (1.0 + ROUNDING):
                raise MessageError(
                    f"its variance {number:g} is not in the agreed range "
                    f"[{low:g}, {high:g}]"
                )

    def variances(self, replies: list) -> tuple[float, float]:
        """Public variances, or weighted medians, which a few liars move little."""
        if not self.n_numbers:
            signal, noise = self.task.model.variances(self.task.n_components)
            return float(np.mean(signal)), noise
        n = np.array([reply.n_samples for reply in replies], dtype=float)
        mu = np.array([reply.mu for reply in replies])
        with np.errstate(over="ignore"):
            weights = n / (1.0 + (_VOTES / mu) ** 2 / n)
        signal, noise = (eigen.weighted_median(c, weights) for c in _numbers(replies))
        return signal, noise

    def _variances(self, rounds: Any, replies: list) -> Any:
        """Return what the model expects, finite whatever clients have stated."""
        task, (signal, noise) = self.task, self.variances(replies)
        noise = min(max(noise, _VARIANCES[0]), _VARIANCES[1])
        signal = min(max(signal, LEAST_SIGNAL * noise), _MOST_SIGNAL * noise)
        most = 2.0 * min(task.n_components, task.n_features - task.n_components)
        errors = []
        for reply in replies:
            mu = min(max(reply.mu, _COSTS[0]), _COSTS[1])
            statistic = task.statistic(reply.n_samples)
            error = statistic.squared_error(mu, signal, noise)
            errors.append(error if self.packed else min(error, most))
        return errors

    def above_noise(self, rounds: Any, replies: list, combined: tuple) -> int:
        """Count all components: the model states that they are."""
        return self.task.n_components


class _WithBasis(BoundedQuery):
    """A release that depends on orthonormal columns, which the server sends."""

    def __init__(self, task, release: str, shape) -> None:
        super().__init__(task, release, shape)
        self.basis_shape = task.n_features, task.n_components

    def ask(self, rounds: Any) -> np.ndarray:
        return rounds.present_basis()

    def read(self, basis: np.ndarray) -> np.ndarray:
        """Return the basis, made orthonormal: no server is believed that it is."""
        super().read(basis)
        basis, defect = _kernels.orthonormal_columns(basis)
        if not defect < LARGEST_DEFECT:
            raise MessageError("the basis could not be made orthonormal")
        return basis


class Power(_WithBasis):
    """The product of the second moment and the basis, in a round of an iteration."""

    def __init__(self, task, number: int) -> None:
        shape = task.n_features, task.n_components
        super().__init__(task, f"power_{number}", shape)

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Release the product."""
        return (), rows.run(self.release, rows.origin, given)

    def use(self, rounds: Any, replies: list) -> None:
        """Average products by the inverse of their variances; keep a few features."""
        n, noise = rounds.sizes(self, replies)
        weights = rounds.weigh(1.0 / (self.task.n_features * n) + noise**2, replies)
        product = np.tensordot(weights, np.stack([r.values for r in replies]), axes=1)
        found = _kernels.truncated_basis(product, self.task.n_kept)
        rounds.basis, rounds.values, rounds.support = found


class Within(_WithBasis):
    """The covariance within the basis: of clipped projections, or a model's."""

    symmetric = True

    def __init__(self, task) -> None:
        self._of_model = task.model is not None
        release = "model_moment" if self._of_model else "projected_moment"
        super().__init__(task, release, (task.n_components,) * 2)
        if self._of_model:
            signal, noise = task.model.variances(task.n_components)
            self._most = signal[0] + noise
        else:
            self._most = self.unit = task.projection_norm**2

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Release the covariance."""
        if self._of_model:
            return (), rows.statistic.moment_within(rows.release, rows.X, given.T)
        within = rows.steps.within
        asked = rows.origin, given.T, self.task.projection_norm
        return (), within.run(rows.release, rows.X, *asked)

    def bound(self, n_samples: int) -> tuple[float, float]:
        """The clip, or the largest eigenvalue of rows of the model in any basis."""
        if not self._of_model:
            return self._most, self._most
        deviations = math.sqrt(self.task.n_features) + DEVIATIONS
        largest = self._most * (1.0 + deviations / math.sqrt(n_samples)) ** 2
        return largest, largest * math.sqrt(self.task.n_components)

    def use(self, rounds: Any, replies: list) -> None:
        """Turn the components to the axes of the averaged covariance within them."""
        n, noise = rounds.sizes(self, replies)
        stacked = np.stack([reply.values for reply in replies])
        # The clip, or the model, bounds every variance: a first guess, for weights.
        level, moment = self._most, stacked[0]
        for _ in range(2):
            weights = rounds.weigh(2.0 * level**2 / n + noise**2, replies)
            moment = np.tensordot(weights, stacked, axes=1)
            level = max(np.trace(moment) / len(moment), 1e-3 * level)
        values, axes = eigen.top_eigh(moment, len(moment))
        rounds.values = np.maximum(values, 0.0) * self.task.rows.unit**2
        rounds.basis = (axes @ rounds.present_basis().T).T


# -- a shared center ------------------------------------------------------------------

# Shares of mu**2 of lengths, center and rest, and of the two clipped means in theirs.
_SHARES = (0.02, 0.05, 0.93)
_MEANS = (0.4, 0.6)

# Rows that a center is made from, at most: more would only take time.
_MOST_ROWS = 1 << 17
# What shares of half the differences, and of the rows, sum up to.
TOTALS = (HALF, 1.0)

# Clips in units of the length that rows have then.
_CLIP, _WIDER = 1.1, 1.3
# Differences below this part of the typical one are short: rows repeat.
_SHORT = 1.0 / 16.0
# Deviations of noise that hide shares, and the most noise that lengths are read at.
_HIDDEN, _MOST_NOISE = 5.0, 1.0 / 16.0
# Deviations of noise that a test forgives, and the share of a clip that a mean may be
# away from its start: of one farther away, too many rows were clipped.
_FORGIVEN, _FARTHEST = 3.0, 0.65
# What the error of a center may add to a moment, in units of what its noise hides.
_TOLERATED = 2.0
# Length below which rows keep theirs, in typical lengths: at most, and its square in
# units of one over the largest eigenvalue of the noise.
_HIGHEST_FLOOR, _FLOOR_OF_NOISE = 1.6, 0.004
# Ranges of what a server sends: lengths and places, and squares of them.
_LENGTHS, _SQUARES = (1e-60, 1e60), (0.0, 1e130)
# Numbers behind a center: the error of a common one, the variance between sites, the
# mean of one over squared distances, the share of short ones, the length below which
# rows keep theirs, and the typical one.
N_NUMBERS = 6


class SharedCenter(Statistic):
    """Lengths, two clipped means that approach rows, and a moment from there."""

    def __init__(self, bounds: RowBounds, n_samples: int, rest: PowerIteration) -> None:
        self.bounds, self.n_samples, self.rest = bounds, n_samples, rest
        self.rows = bounds.rows(n_samples)
        self.sample = self.rows.sample(_MOST_ROWS)

    def mechanisms(self, mu: float) -> tuple:
        lengths, center, rest = split_mu(mu, _SHARES)
        moved = sensitivity.mean_sensitivity(1.0, self.sample.n_rows)
        more = {"summation_error": self.sample.rounding, "magnitude": 2.0}
        more["lemma"] = "shrinking-center"
        means: list[Any] = []
        for number, cost in enumerate(split_mu(center, _MEANS), 1):
            given = moved, cost, (self.rows.p,)
            means += calibrate_alike([f"center_{number}"], *given, **more)
        lasting = self.rest.mechanisms(rest)
        return (plan_lengths(self.sample, lengths), *means, *lasting)

    def remarks(self) -> tuple[str, ...]:
        return self.rest.remarks()

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the mean of rows about a point, clipped at a radius, over it."""
        name, point, radius = given
        kernel = partial(sum_clipped, radius=radius, p=self.rows.p)
        total = self.rows.about(rows, point, self.sample).reduce(kernel)
        mean = total / self.sample.n_rows / radius
        return release(name, mean, overwrite=True)

    def center(
        self, plan: Any, second: np.ndarray, mean: np.ndarray, third: np.ndarray
    ):
        """Return the client's center, None where it is not accurate enough."""
        # Of releases and public numbers alone, and the same at the client and the
        # server: sums are rounded once, whatever their order.
        p, n_rows = len(mean), self.sample.n_rows
        radius, center = float(second[-1]), third[:p]
        error, between, inverse, short, _, typical = third[p:].tolist()
        noise = getattr(plan["center_2"], "noise_std", 0.0)
        # Rows of another place, too far away for this clip.
        length = math.fsum(mean**2) - p * noise**2
        if length > _FARTHEST**2:
            return None
        variance = (noise * radius) ** 2 + typical**2 / (p * n_rows)
        own = between / (between + variance)
        difference = second[:p] + radius * mean - center
        # What is left of its distance from the others, beyond noise.
        forgiven = (p + _FORGIVEN * math.sqrt(2.0 * p)) * variance
        left = (1.0 - own) ** 2 * max(math.fsum(difference**2) - forgiven, 0.0)
        error = max(error, left, p * own * variance)
        if short + error * inverse > self._tolerance(plan):
            return None
        return self.within(center + own * difference)

    def within(self, point: np.ndarray) -> np.ndarray:
        """Move a center to where one can be."""
        box = self.bounds.box
        most = _LENGTHS[1] if box is None else box.half_widths
        return np.clip(point, -most, most)

    def _tolerance(self, plan: Any) -> float:
        """Largest eigenvalue that an error may add to the moment, over that of rows."""
        sampling = 2.0 / math.sqrt(self.bounds.n_features * self.n_samples)
        return _TOLERATED * math.hypot(self.edge(plan), sampling)

    def edge(self, plan: Any) -> float:
        """Largest eigenvalue of the noise on the moment, over that of rows."""
        noise = getattr(plan["second_moment"], "noise_std", 0.0)
        size = math.sqrt(2.0 * self.bounds.n_features)
        return size * noise


class _AskAbout(BoundedQuery):
    """A request with one column: a point, if any, and numbers about the center."""

    def __init__(self, task, release: str, shape, n_point: int, n_numbers: int) -> None:
        super().__init__(task, release, shape)
        self._n_point, self.basis_shape = n_point, (n_point + n_numbers, 1)

    def ask(self, rounds: Any) -> np.ndarray:
        return rounds.columns[-1][:, None]

    def read(self, basis: np.ndarray) -> np.ndarray:
        """Return what a server sent, flat, or raise if no honest one would send it."""
        super().read(basis)
        place, numbers = np.split(basis[:, 0], [self._n_point])
        low, high = _LENGTHS
        valid = np.all(np.abs(place) <= high) and low <= numbers[-1] <= high
        valid &= np.all((_SQUARES[0] <= numbers[:-1]) & (numbers[:-1] <= _SQUARES[1]))
        if not valid:
            raise MessageError("its numbers about the center are out of range")
        return basis[:, 0]


def _precisions(
    query: BoundedQuery, rounds: Any, replies: list
) -> tuple[np.ndarray, np.ndarray]:
    """Noise of what clients sent about a center, and numbers of rows behind it."""
    rows = [query.task.statistic(r.n_samples).sample.n_rows for r in replies]
    return rounds.sizes(query, replies)[1], np.array(rows, dtype=float)


class AskLengths(BoundedQuery):
    """Noisy histograms of half of the distances between rows, and of their lengths."""

    def __init__(self, task) -> None:
        super().__init__(task, "lengths", (len(TOTALS), N_OCTAVES))

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Release the histograms."""
        own = rows.statistic
        exact = shares_of_lengths(own.rows, rows.X, own.sample)
        return (), rows.release("lengths", exact)

    def bound(self, n_samples: int) -> tuple[float, float]:
        """Those of shares."""
        return 1.0, math.hypot(*TOTALS)

    def check(self, party: Any, reply: Any) -> None:
        """Refuse histograms whose shares do not sum up to the whole."""
        values, noise = reply.values, self.noise(party)
        off = np.abs(values.sum(axis=1) - TOTALS)
        most = DEVIATIONS * noise * math.sqrt(values.shape[1]) + ROUNDING
        if not np.all(off <= most) or values.min() < -DEVIATIONS * noise - ROUNDING:
            raise MessageError("its histograms are not those of shares")
        super().check(party, reply)

    def use(self, rounds: Any, replies: list) -> None:
        """Read typical lengths, and ask for means within them."""
        replies = rounds.weighing(replies)
        shares = np.stack([reply.values for reply in replies])
        rounds.typical = Typical.of(shares, *_precisions(self, rounds, replies))
        rounds.columns = [rounds.typical.first()]


class AskCenter(_AskAbout):
    """A noisy mean of rows about a point, clipped at a radius, over this radius."""

    def __init__(self, task, number: int) -> None:
        self._number, p = number, task.n_features
        n_point = p if number > 1 else 0
        super().__init__(task, f"center_{number}", (p,), n_point, 1)

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Release the mean."""
        point = given[:-1] if len(given) > 1 else np.zeros(self.task.n_features)
        asked = self.release, point, float(given[-1])
        rows.mean = rows.statistic.run(rows.release, rows.X, *asked)
        rows.column = given
        return (), rows.mean

    def use(self, rounds: Any, replies: list) -> None:
        """Ask for second means about the first; then tell all clients what is found."""
        used, typical = rounds.weighing(replies), rounds.typical
        given = np.stack([r.values for r in used]), *_precisions(self, rounds, used)
        if self._number == 1:
            rounds.columns.append(typical.second(*given))
            return
        second = rounds.columns[-1]
        third = typical.third(*given, second)
        centers, edges, parties = [], [], [rounds.parties[r.client] for r in replies]
        for reply, party in zip(replies, parties, strict=True):
            statistic = self.task.statistic(party.n_samples)
            own = statistic.center(party.plan, second, reply.values, third)
            party.paired = own is None
            common = statistic.within(third[: self.task.n_features])
            centers.append(common if own is None else own)
            edges.append(statistic.edge(party.plan))
        heard = [any(reply is one for one in used) for reply in replies]
        paired = np.array([party.paired for party in parties])
        # Who compares pairs does not depend on it.
        third[-2] = typical.floor(np.array(edges)[heard], paired[heard])
        rounds.columns.append(third)
        if typical.known:
            n = [float(party.n_samples) for party in parties]
            rounds.mean = np.array(n) / sum(n) @ np.stack(centers)


class CenteredStart(Start, _AskAbout):
    """The start of clients that know a shared center, or compare their rows."""

    def __init__(self, task) -> None:
        Start.__init__(self, task)
        self._n_point = task.n_features
        self.basis_shape = task.n_features + N_NUMBERS, 1

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Find the center, or none, of releases and public numbers; then start."""
        statistic, asked = rows.statistic, (rows.column, rows.mean, given)
        center = statistic.center(rows.plan, *asked)
        rows.origin = Origin(center, paired=center is None)
        rows.floor = _as_length(float(given[-2]))
        return super().value(rows, None)


# -- what a server makes of released numbers -------------------------------------------


@dataclass(frozen=True)
class Typical:
    """Lengths that a server reads; where it reads none, clients compare pairs."""

    typical: float
    reach: float  # of most rows
    short: float  # share of short rows
    inverse: float

    @property
    def known(self) -> bool:
        """Whether lengths could be read at all."""
        return self.short < 2.0

    @classmethod
    def of(cls, shares: np.ndarray, noise: np.ndarray, n_rows: np.ndarray):
        """Read histograms of clients, of shape (m, 2, N_OCTAVES)."""
        weights = _kernels.inverse_variance_weights(noise**2 + 1.0 / n_rows)
        spread = float(np.linalg.norm(weights * noise))
        averages = np.tensordot(weights, shares, axes=1)
        seen = np.where(averages[0] > _HIDDEN * spread, averages[0], 0.0)
        typical, reach, is_seen = typical_lengths(averages, spread)
        if spread > _MOST_NOISE or not is_seen or seen.sum() <= 0.5 * HALF:
            return cls(1.0, 1.0, _SQUARES[1], 0.0)
        places, seen = LOW + np.arange(N_OCTAVES), seen / seen.sum()
        far = places >= math.log2(_SHORT * typical)
        inverse = float(seen[far] @ 4.0 ** (math.log2(typical) - places[far]))
        return cls(typical, reach, float(seen[~far].sum()), inverse / typical**2)

    def first(self) -> np.ndarray:
        """Return the column that asks for the first means."""
        return np.array([_as_length(_CLIP * self.reach)])

    def second(self, means: np.ndarray, noise: np.ndarray, n_rows: np.ndarray):
        """Return the column that asks for means about the average of the first ones."""
        radius, p = self.first()[0], means.shape[1]
        weights = _kernels.inverse_variance_weights(noise**2 + 1.0 / (p * n_rows))
        point = np.clip(radius * (weights @ means), -_LENGTHS[1], _LENGTHS[1])
        error = math.sqrt(p) * radius * float(np.linalg.norm(weights * noise))
        longer = _CLIP * math.hypot(self.typical, error)
        return np.append(point, _as_length(_WIDER * min(radius, longer)))

    def third(self, means, noise, n_rows, second) -> np.ndarray:
        """Return the column that tells clients where they are, and how far apart."""
        n_clients, p = means.shape
        radius = second[-1]
        variances = (noise * radius) ** 2 + self.typical**2 / (p * n_rows)
        weights = _kernels.inverse_variance_weights(variances)
        points = second[:-1] + radius * means
        center = np.clip(weights @ points, -_LENGTHS[1], _LENGTHS[1])
        squares = np.sum((points - center) ** 2, axis=1)
        degrees = p * (n_clients - 1)
        chance = degrees + _FORGIVEN * math.sqrt(2.0 * degrees)
        apart, between = float(np.sum(squares / variances)), 0.0
        # Otherwise all have one center: distances from it could be by chance.
        if apart > chance and n_clients > 1:
            between = (apart - degrees) / p
            # Positive for any weights: one minus their squares is rounded to 0.
            between /= float(np.sum((1.0 - weights) / variances))
        error = p * float(np.sum(weights**2 * variances))
        # The floor of lengths is 0.
        numbers = error, between, self.inverse, self.short, 0.0
        return np.concatenate([center, np.clip(numbers, *_SQUARES), [self.typical]])

    def floor(self, edges: np.ndarray, paired: np.ndarray) -> float:
        """Return the length below which rows keep theirs, one for all clients."""
        precisions = np.maximum(edges / np.where(paired, HALF, 1.0), 1e-100) ** -2.0
        if not precisions[~paired].sum() > 0.5 * precisions.sum():
            return 0.0  # differences of pairs have unit norm
        edge = float(np.mean(precisions)) ** -0.5
        most = _FLOOR_OF_NOISE / _HIGHEST_FLOOR**2
        return _as_length(self.typical * math.sqrt(_FLOOR_OF_NOISE / max(edge, most)))


def _as_length(number: float) -> float:
    return min(max(number, _LENGTHS[0]), _LENGTHS[1])
