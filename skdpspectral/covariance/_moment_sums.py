"""Moments of the releases of a stream, and uses of a covariance: post-processing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.covariance import log_likelihood
from sklearn.utils.validation import check_is_fitted

from .._tables.rows import check_rows, saturated
from ..factorizations import Factorization, NoiseGain, Workload
from ..factorizations._errors import GappedGain
from ..factorizations._workloads import contrasts
from ._kernels import MomentRows

if TYPE_CHECKING:
    from ._moment_stream import MomentStream


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

    def at(self, places) -> tuple[np.ndarray, np.ndarray | None]:
        """Return first moments and means of some steps; None without a mean."""
        sums, totals = self.sums[places], self.totals[places, None]
        mean = None if self.workload.contrast else sums / totals
        if not self.workload.normalized:
            totals = self.workload.divisors(self.steps[places])[:, None]
        return sums / totals, mean

    def of_last_step(self) -> FirstMoments:
        """Return those of the last step."""
        parts = (part[-1:].copy() for part in self[1:])
        return FirstMoments(self.workload, *parts)


class MomentSums:
    """Weighted sums of released vectors, and the public variance of their noise.

    All of it is post-processing. `noise_std` is the standard deviation of the entries
    of Z; 0 without noise.
    """

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
        self._block_steps = stream.n_steps if stream.renewed else None
        # One for rows, and one for their products if other noise is theirs.
        self._gains: list[NoiseGain | GappedGain] = [
            NoiseGain(stream.workload, shape, self._block_steps)
            for shape in self._shapes()
        ]

    def _shapes(self) -> tuple[Factorization, ...]:
        first, second = self.stream.shapes
        return (first,) if second is first else (first, second)

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
        gains: list[tuple] = [(np.zeros(n), np.zeros(n))] * len(self._gains)
        if self.noise_std:
            gains = [gain.push(n) for gain in self._gains]
        if self._counts is not None:
            totals = self._counts.push(np.ones((n, 1)))[:, 0]
        return StreamMoments(
            self, steps, self._sums.push(vectors), squares, gains, totals, first
        )

    def skip(self, n: int) -> None:
        """Leave out the next n steps, whose releases are lost.

        Their noise must not enter either: beside their releases it would reveal the
        rows. Raises an error if a later step would have no row for its mean.
        """
        if not n:
            return
        workload, first = self.stream.workload, self._first
        _check_gap(workload, self.step, n)
        if first is not None and not first.workload.contrast:
            _check_gap(first.workload, self.step, n)
        if self._counts is None:
            self._begin_gaps()
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

    def _begin_gaps(self) -> None:
        """Count weights, and track the noise of sums with gaps, from here on."""
        workload = self.stream.workload
        self._counts = _counted(workload, self.step)
        if self.noise_std:
            self._gains = [
                GappedGain(workload, shape, self._block_steps, gain, self.step)
                for shape, gain in zip(self._shapes(), self._gains, strict=True)
            ]


def _counted(workload: Workload, step: int):
    """Return an accumulator of ones after a step."""
    counts = workload.sums(1)
    for start in range(0, step, _CHUNK):
        counts.push(np.ones((min(_CHUNK, step - start), 1)))
    return counts


def _check_gap(workload: Workload, step: int, n: int) -> None:
    """Refuse a gap that leaves a later mean without rows."""
    if workload.max_steps is None:
        return
    weights = workload.core_matrix(workload.max_steps)[step + n :].copy()
    weights[:, step : step + n] = 0.0
    weights = weights[np.abs(weights).max(axis=1) > 0.0] if len(weights) else weights
    lost = len(weights) < workload.max_steps - step - n
    if lost or (len(weights) and contrasts(weights).any()):
        raise ValueError(
            f"workload gives weight to rows {step + 1} to {step + n} alone at a later "
            "step, and they are lost; clone the estimator to begin a new stream"
        )


class StreamMoments:
    """Sums of consecutive steps, from which the moments of any of them follow.

    `vectors` and `squares`, of shape (b, width), are weighted sums of released vectors,
    and of outer products of noisy rows. `gains` are variances of the sums for unit
    noise, as of :class:`NoiseGain`: of rows, and of products where their noise has
    another matrix. `totals` are sums of the weights of the included rows, None if no
    row is missing. `first` are sums with weights of their own, None where the weights
    are the same.
    """

    def __init__(self, sums, steps, vectors, squares, gains, totals, first):
        self.sums, self.steps, self._totals = sums, steps, totals
        self._vectors, self._squares, self._gains = vectors, squares, gains
        self._first = first

    def of_last_step(self) -> StreamMoments:
        """Return those of the last step, independent of the sums.

        Variances of sums with gaps are computed when asked for; later the sums may be
        past that step.
        """
        return StreamMoments(
            self.sums,
            self.steps[-1:],
            self._vectors[-1:],
            None if self._squares is None else self._squares[-1:],
            [tuple(np.atleast_1d(part[[-1]]) for part in gain) for gain in self._gains],
            None if self._totals is None else self._totals[-1:],
            None if self._first is None else self._first.of_last_step(),
        )

    def at(self, places) -> tuple[np.ndarray, ...]:
        """Return first and second moments, means and covariances of m chosen steps.

        They have shapes (m, d), (m, d, d), (m, d) and (m, d, d). Means have the weights
        of the first moment, or those of the covariance where the former make no mean.
        Covariances are unbiased, except for "pp", and not yet projected.
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
            first, own_mean = self._first.at(places)
            mean = mean if own_mean is None else own_mean
        return first, second, mean, covariance

    def largest_trace(self, places) -> np.ndarray | float:
        """Return the largest possible trace of covariances of unit rows.

        It is 1 for weights of one sign, and more where some are below 0.
        """
        workload, places = self.sums.stream.workload, np.asarray(places)
        if not workload.signed:
            return 1.0
        positive = workload.positive_totals(self.steps[places])
        return np.maximum(positive / self._totals_at(places), 1.0)

    def spread(self, places) -> np.ndarray | None:
        """Return the deviation of the noise of m covariances off their diagonals.

        It follows from public numbers and the released mean, whose own noise counts
        where the mean is subtracted. None for methods that square noisy rows.
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

    def _totals_at(self, places) -> np.ndarray:
        if self._totals is not None:
            return self._totals[places]
        return self.sums.stream.workload.totals(self.steps[places])


class CovarianceModel(OneToOneFeatureMixin, TransformerMixin):
    """The interface of :class:`sklearn.covariance.EmpiricalCovariance`, and whitening.

    The estimator sets `location_` and `covariance_`, which is positive definite, and
    has a parameter `whiten`.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def get_precision(self):
        """Return the inverse of the covariance.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Symmetric.
        """
        check_is_fitted(self)
        values, vectors = np.linalg.eigh(self.covariance_)
        return (vectors / values) @ vectors.T

    @property
    def precision_(self):
        """Inverse of the covariance, of shape (n_features, n_features)."""
        return self.get_precision()

    def _centered(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        return np.asarray(X, dtype=np.float64) - self.location_

    def score(self, X, y=None):
        """Mean log-likelihood of rows under the Gaussian of mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; a score on private rows is a release of its own.
        y : None
            Ignored.

        Returns
        -------
        float
            The mean of :meth:`score_samples`.
        """
        X = self._centered(X)
        return float(log_likelihood(X.T @ X / len(X), self.get_precision()))

    def score_samples(self, X):
        """Log-density of each row under the Gaussian of mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            As private as the row.
        """
        distances = self.mahalanobis(X)
        log_volume = np.linalg.slogdet(2.0 * np.pi * self.covariance_)[1]
        return -0.5 * (distances + log_volume)

    def mahalanobis(self, X):
        """Squared Mahalanobis distances of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            At least 0; as private as the row.
        """
        X = self._centered(X)
        return np.einsum("ij,jk,ik->i", X, self.get_precision(), X, optimize=True)

    def error_norm(self, comp_cov, norm="frobenius", scaling=True, squared=True):
        """Distance of the covariance to another one.

        Parameters
        ----------
        comp_cov : array-like of shape (n_features, n_features)
            The other covariance.
        norm : {"frobenius", "spectral"}, default="frobenius"
            Which norm of the difference.
        scaling : bool, default=True
            Whether to divide the squared norm by n_features.
        squared : bool, default=True
            Whether to return the squared norm.

        Returns
        -------
        float
            The distance.
        """
        check_is_fitted(self)
        comp_cov = np.asarray(comp_cov, dtype=np.float64)
        if comp_cov.shape != self.covariance_.shape:
            raise ValueError(
                f"comp_cov must have shape {self.covariance_.shape}, got "
                f"{comp_cov.shape}"
            )
        error = comp_cov - self.covariance_
        if norm not in ("frobenius", "spectral"):
            raise ValueError(f"norm must be 'frobenius' or 'spectral', got {norm!r}")
        length = np.linalg.norm(error, 2 if norm == "spectral" else "fro")
        value = float(length) ** 2 / (len(error) if scaling else 1)
        return value if squared else float(np.sqrt(value))

    def transform(self, X):
        """Center rows, and whiten them with ``whiten=True``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; they are not clipped.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows of the precision of X, each as private as the row. Whitened by the
            symmetric root (ZCA), so that features keep their meaning. They are finite,
            also where they overflow.
        """
        check_is_fitted(self)
        self._check_parameters()
        X = check_rows(self, X, reset=False)
        shift, root = self.location_, None
        if self.whiten:
            values, vectors = np.linalg.eigh(self.covariance_)
            root = (vectors / np.sqrt(values)) @ vectors.T
            shift = shift @ root
        with np.errstate(all="ignore"):
            turned = X if root is None else X @ root.astype(X.dtype)
            return saturated(turned - shift.astype(X.dtype))
