"""Moments made of what a stream has released: post-processing, and public numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._linalg import MomentRows
from .factorizations import GappedGain, NoiseGain, Workload

if TYPE_CHECKING:
    from ._moment_stream import MomentStream

_CHUNK = 1 << 16


class MomentSums:
    """Weighted sums of released vectors, and what is known of their noise.

    All of it is post-processing: there is nothing private in here.

    Parameters
    ----------
    stream : MomentStream
        What the vectors are.
    noise_std : float
        Standard deviation of the entries of Z; 0 without noise.
    """

    def __init__(self, stream: MomentStream, noise_std: float):
        self.stream, self.noise_std = stream, noise_std
        self.step, self.n_lost = 0, 0
        self._counts = None
        self._sums = stream.workload.sums(stream.rows.width)
        self._squares = None
        if stream.method.startswith("pp"):
            d = stream.rows.n_features
            self._square_rows = MomentRows(
                d, 1.0, diagonal=stream.diagonal, first=False
            )
            self._squares = stream.workload.sums(self._square_rows.width)
        self._block_steps = stream.n_steps if stream.renewed else None
        self._gain = NoiseGain(stream.workload, stream.factorization, self._block_steps)

    def push(self, vectors: np.ndarray) -> Moments:
        """Add released vectors, overwriting them; return the sums of each step."""
        n = len(vectors)
        steps = np.arange(self.step + 1, self.step + n + 1)
        self.step += n
        squares = None
        if self._squares is not None:
            squares = self._squares.push(self._square_rows.pack(vectors))
        gain = self._gain.push(n) if self.noise_std else (np.zeros(n), np.zeros(n))
        totals = None
        if self._counts is not None:
            totals = self._counts.push(np.ones((n, 1)))[:, 0]
        return Moments(self, steps, self._sums.push(vectors), squares, gain, totals)

    def skip(self, n: int) -> None:
        """Leave the next steps out: what was released of their rows is not to be had.

        Their noise must not come in either: beside what was released of them it would
        show the rows.

        Parameters
        ----------
        n : int
            How many steps.

        Raises
        ------
        ValueError
            If some later step would have no row to make a mean of.
        """
        if not n:
            return
        workload = self.stream.workload
        _check_gap(workload, self.step, n)
        if self._counts is None:
            self._counts = workload.sums(1)
            for start in range(0, self.step, _CHUNK):
                self._counts.push(np.ones((min(_CHUNK, self.step - start), 1)))
            if self.noise_std:
                self._gain = GappedGain(
                    workload,
                    self.stream.factorization,
                    self._block_steps,
                    self._gain,
                    self.step,
                )
        for sums in (self._sums, self._squares, self._counts):
            if sums is not None:
                sums.skip(n)
        if self.noise_std:
            self._gain.skip(n)
        self.step += n
        # A window that begins anew has lost all before.
        self.n_lost = self.step if workload.name == "window" else self.n_lost + n


def _check_gap(workload: Workload, step: int, n: int) -> None:
    """Refuse a gap that leaves a later mean without a row."""
    if workload.max_steps is None:
        return
    weights = workload.core_matrix(workload.max_steps)[step + n :].copy()
    weights[:, step : step + n] = 0.0
    if len(weights) and not weights.max(axis=1).min() > 0.0:
        raise ValueError(
            f"workload gives weight to rows {step + 1} to {step + n} alone at a later "
            "step, and they are lost; clone the estimator to begin a new stream"
        )


class Moments:
    """Sums of consecutive steps, from which the moments of any of them follow.

    Parameters
    ----------
    sums : MomentSums
        What they are of.
    steps : ndarray of shape (b,)
        Numbers of the steps, from 1.
    vectors, squares : ndarray of shape (b, width)
        Weighted sums of released vectors, and of outer products of noisy rows.
    gain : tuple of ndarray
        Variances of the sums for unit noise, as :class:`NoiseGain` gives them.
    totals : ndarray of shape (b,) or None
        Sums of the weights of the rows that are in the sums; None where these are all.
    """

    def __init__(self, sums, steps, vectors, squares, gain, totals):
        self.sums, self.steps, self._totals = sums, steps, totals
        self._vectors, self._squares, self._gain = vectors, squares, gain

    def of_last_step(self) -> Moments:
        """Return those of the last step, which the sums no longer have a part in.

        Variances of sums with gaps are worked out where they are asked for; what is
        asked for later, the sums may have passed.
        """
        core, squares = (np.atleast_1d(part[[-1]]) for part in self._gain)
        return Moments(
            self.sums,
            self.steps[-1:],
            self._vectors[-1:],
            None if self._squares is None else self._squares[-1:],
            (core, squares),
            None if self._totals is None else self._totals[-1:],
        )

    def at(self, places) -> tuple[np.ndarray, ...]:
        """Return the moments of chosen steps.

        Parameters
        ----------
        places : sequence of int
            Places among `steps`.

        Returns
        -------
        first : ndarray of shape (m, d)
            Released sums of rows.
        second : ndarray of shape (m, d, d)
            Released sums of outer products.
        mean : ndarray of shape (m, d)
            Weighted means.
        covariance : ndarray of shape (m, d, d)
            Weighted covariances, unbiased but for "pp", not yet projected.
        """
        stream, places = self.sums.stream, np.asarray(places)
        totals = self._totals_at(places)
        core, squares = self._gain[0][places], self._gain[1][places]
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
        return first, second, mean, covariance

    def _totals_at(self, places) -> np.ndarray:
        if self._totals is not None:
            return self._totals[places]
        return self.sums.stream.workload.totals(self.steps[places])
