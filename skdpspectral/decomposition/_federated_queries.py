"""Requests of a task: shapes, bounds and noise of their answers, values and use.

A client computes `value` from its rows, with what `read` has taken of the request. The
server refuses what `check` refuses (:ref:`lemma-reply`), and `use` makes something of
all replies; both know releases and public numbers alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._linalg import eigen
from .._messages.messages import MessageError
from .._statistics.statistic import HALF
from . import _kernels
from ._bounded_moments import LARGEST_DEFECT
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


class Query:
    """A request for a release with noise, whose norm without it has a public bound."""

    n_numbers = 0
    basis_shape: tuple[int, int] = (0, 0)
    # Units of values in those of the release, and their form: a triangle that is
    # packed, a symmetric matrix, or any numbers.
    unit, packed, symmetric = 1.0, False, False

    def __init__(self, task, release: str, shape: tuple[int, ...]) -> None:
        self.task, self.release, self.shape = task, release, shape

    def ask(self, rounds: Any) -> Any:
        """Return the basis of the request, as the server makes it."""
        return ()

    def read(self, basis: np.ndarray) -> Any:
        """Return what the answer needs of a request, or raise."""
        if basis.shape != self.basis_shape:
            raise MessageError(f"a basis of shape {self.basis_shape} is expected")
        return None

    def noise(self, party: Any) -> float:
        """Deviation of the noise on the values of a client, by its plan."""
        planned = getattr(party.plan[self.release], "noise_std", 0.0)
        return self.unit * planned / (HALF if party.paired else 1.0)

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Return numbers and values that a client sends."""
        raise NotImplementedError

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

    def use(self, rounds: Any, replies: list) -> None:
        """Take valid replies into the rounds of a server."""
        raise NotImplementedError


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


class _AnyStart(Query):
    """Components of clients that depend on no basis, or the matrices they are from."""

    def __init__(self, task, release: str) -> None:
        p, self.packed = task.n_features, task.by_matrix
        shape = (p * (p + 1) // 2,) if self.packed else (task.n_components, p)
        Query.__init__(self, task, release, shape)

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
    """A noisy second moment, or its leading eigenvectors.

    Numbers are the last of their eigenvalues, and the mean of all others.
    """

    n_numbers = 2

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
        """Count averaged components above noise and sampling error.

        Without their eigenvalues all count, or none: by the last one of each client.
        """
        (components, weights, moment), p = combined, self.task.n_features
        (n, noise), (last, others) = rounds.sizes(self, replies), _numbers(replies)
        rank, spread = len(components), noise / math.sqrt(2.0)
        if moment is not None:
            values = np.sum((components @ moment) * components, axis=1)
            together = float(np.linalg.norm(weights * spread))
            n_rows = 1.0 / float(np.sum(weights**2 / n))
            trace = np.trace(moment)
            return eigen.count_above_noise(values, trace, p, together, n_rows)
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
    """Components, or a noisy projector, of a model of the rows.

    Private variances are sent along: along the components beyond the noise, and across.
    """

    def __init__(self, task) -> None:
        super().__init__(task, "projector")
        self.n_numbers = 2 if task.model.is_private else 0

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


class _WithBasis(Query):
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
        blocks = self.task.rows.blocks(rows.X, rows.origin)
        within = rows.steps.within
        radius = self.task.projection_norm
        return (), within.run(rows.release, blocks, given.T, radius)

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
