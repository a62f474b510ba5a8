"""Variances of the noise of a workload under a factorization: public numbers.

The noise of a sum over all steps nearly cancels; that of a sum with a gap does not at
its ends. Its variance is that of the weights, with zeros at the gap, times C^{-1}.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from ._factorizations import BufferedToeplitz, Buffers, Factorization
from ._workloads import Custom, Window, Workload, multiply_series

_CHUNK = 4096


class NoiseGain:
    """Variances of correlated noise at each step, for independent unit noise Z.

    Parameters
    ----------
    workload : Workload
        Workload that is released.
    factorization : Factorization
        The matrix C.
    block_steps : int or None, default=None
        Number of steps after which new noise starts. None never restarts.
    """

    def __init__(
        self,
        workload: Workload,
        factorization: Factorization,
        block_steps: int | None = None,
    ):
        self._workload, self._factorization = workload, factorization
        self._block_steps = block_steps
        self._squares = workload.sums(1)
        self._base, self._place = 0.0, 0
        self._last = (0.0, 0.0)
        self._rows = None
        if not (factorization.toeplitz and workload.toeplitz):
            self._rows = self._dense_norms()
        self._begin()

    def _begin(self) -> None:
        self._base, self._place = self._last[0], 0
        self._filter = self._factorization.filter(1)
        self._response = self._workload.sums(1)
        self._ready = np.zeros((0, 1))
        self._sums = np.zeros(2)

    def _dense_norms(self) -> np.ndarray:
        n = self._workload.max_steps or self._factorization.max_steps
        C = self._factorization.matrix(n)
        inverse = solve_triangular(C, np.eye(n), lower=True)
        core = self._workload.core_matrix(n) @ inverse
        return np.stack([(core**2).sum(axis=1), (inverse**2).sum(axis=1)], axis=1)

    def push(self, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the variances of the next steps.

        Parameters
        ----------
        n_steps : int
            Number of steps.

        Returns
        -------
        core : ndarray of shape (n_steps,)
            Variance of the noise in a sum of the workload's core.
        squares : ndarray of shape (n_steps,)
            Sum over the core of the variances of single rows.
        """
        both = self._advance(n_steps)
        return both[:, 0], self._squares.push(both[:, 1:].copy())[:, 0]

    def skip(self, n_steps: int) -> None:
        """Skip steps whose rows are not part of any sum of `squares`.

        The variances of the core still refer to sums over all steps.

        Parameters
        ----------
        n_steps : int
            Number of steps.
        """
        for start in range(0, n_steps, _CHUNK):
            self._advance(min(_CHUNK, n_steps - start))
        self._squares.skip(n_steps)

    def _advance(self, n_steps: int) -> np.ndarray:
        """Return variances of the core and of single rows, one row per step."""
        pieces = []
        while n_steps:
            if self._place == self._block_steps:
                self._begin()
            count = n_steps
            if self._block_steps is not None:
                count = min(n_steps, self._block_steps - self._place)
            pieces.append(self._next(count))
            n_steps -= count
            self._place += count
            self._last = tuple(pieces[-1][-1])
        return np.concatenate(pieces)

    def _next(self, count: int) -> np.ndarray:
        if self._rows is not None:
            return self._dense(count)
        inverse = self._impulse(count)
        response = self._response.push(inverse.copy())
        sums = np.concatenate([response, inverse], axis=1) ** 2
        sums[0] += self._sums
        np.add.accumulate(sums, axis=0, out=sums)
        self._sums = sums[-1].copy()
        if self._base:
            sums[:, 0] += self._faded_base(count)
        return sums

    def _dense(self, count: int) -> np.ndarray:
        steps = np.arange(self._place + 1, self._place + count + 1)
        sums = self._rows[steps - 1].copy()
        if self._base:
            sums[:, 0] += self._faded_base(count)
        return sums

    def _faded_base(self, count: int) -> np.ndarray:
        """Return the remaining noise of earlier blocks at the next steps."""
        steps = np.arange(self._place + 1, self._place + count + 1)
        return self._base * self._workload.fade(steps) ** 2

    def _impulse(self, count: int) -> np.ndarray:
        """Return the next entries of the first column of the inverse."""
        missing = count - len(self._ready)
        if missing > 0:
            block = self._filter.block
            rows = np.zeros((-(-missing // block) * block, 1))
            if self._place == 0:
                rows[0] = 1.0
            self._ready = np.concatenate([self._ready, self._filter.push(rows)])
        out, self._ready = self._ready[:count], self._ready[count:]
        return out


def workload_error(workload: Workload, factorization: Factorization, n: int) -> float:
    r"""Root mean squared error of a workload, :math:`|C| \|A C^{-1}\|_F / \sqrt n`.

    Parameters
    ----------
    workload : Workload
        Workload that is released.
    factorization : Factorization
        The matrix C.
    n : int
        Number of steps.

    Returns
    -------
    float
        Error, in units of the noise that a single row would need.
    """
    core, _ = NoiseGain(workload, factorization).push(n)
    divisors = workload.divisors(np.arange(1, n + 1))
    return factorization.column_norm * math.sqrt(float(np.mean(core / divisors**2)))


class GappedGain:
    """Variances as of :class:`NoiseGain`, of sums with gaps; `gain` is that without."""

    def __init__(
        self,
        workload: Workload,
        factorization: Factorization,
        block_steps: int | None,
        gain: NoiseGain,
        step: int,
    ):
        self._gain, self._step = gain, step
        # A window starts again after a gap, and is full again after its length.
        self._window = workload.length if isinstance(workload, Window) else math.inf
        self._resumed = step
        endless = isinstance(factorization, BufferedToeplitz)
        endless |= type(factorization) is Factorization
        kind: type[_Weighed] | type[_Recursion] = _Weighed
        if endless and not isinstance(workload, Custom):
            kind = _Recursion
        self._variance = kind(workload, factorization, block_steps)
        self._variance.reach(step)

    def skip(self, n_steps: int) -> None:
        """Skip the steps of a gap."""
        self._gain.skip(n_steps)
        self._variance.reach(self._step)
        self._variance.skip(n_steps)
        self._step += n_steps
        self._resumed = self._step

    def push(self, n_steps: int) -> tuple[Variances, np.ndarray]:
        """Return :class:`Variances` of the next steps, and those of single rows."""
        full, squares = self._gain.push(n_steps)
        first = self._step + 1
        self._step += n_steps
        filled = self._resumed + self._window
        return Variances(self._variance, first, n_steps, full, filled), squares


class Variances:
    """Variances of consecutive steps, computed when indexed in increasing order.

    `full` has those of sums without gaps; from step `filled` on no sum has a gap.
    """

    def __init__(self, variance, first: int, n_steps: int, full, filled: float):
        self._variance, self._first, self._n_steps = variance, first, n_steps
        self._full, self._filled = full, filled

    def __getitem__(self, places) -> np.ndarray:
        out = []
        for place in np.arange(self._n_steps)[places]:
            step = self._first + int(place)
            full = step >= self._filled
            out.append(self._full[place] if full else self._variance.at(step))
        return np.array(out)


class _Recursion:
    """Covariance of sums and buffers, a linear system; skips by doubling."""

    def __init__(self, workload, factorization, block_steps):
        none = Buffers([], [])
        buffers = getattr(factorization, "buffers", none)
        self._decay, self._weight = buffers.decay, buffers.weight
        self._fade = float(workload.fade([1])[0])
        self._forgets = isinstance(workload, Window)
        self._block_steps = math.inf if block_steps is None else block_steps
        self._step, self._place = 0, 0
        # Of the sum, then of the buffers.
        self._covariance = np.zeros((1 + len(self._decay),) * 2)

    def reach(self, step: int) -> None:
        """Advance to a step; the sums have the rows up to there."""
        self._move(step - self._step, 1.0)

    def skip(self, n_steps: int) -> None:
        """Skip steps whose rows are not in the sums."""
        self._move(n_steps, 0.0)
        if self._forgets:
            self._covariance[0] = self._covariance[:, 0] = 0.0

    def at(self, step: int) -> float:
        """Return the variance at a step, at or after the last one."""
        self.reach(step)
        return float(self._covariance[0, 0])

    def _move(self, n_steps: int, counted: float) -> None:
        if n_steps < 0:
            raise ValueError("steps must be requested in order")
        self._step += n_steps
        while n_steps:
            if self._place == self._block_steps:
                # Fresh noise: the sum stays, the buffers are empty.
                kept = self._covariance[0, 0]
                self._covariance[:], self._place = 0.0, 0
                self._covariance[0, 0] = kept
            count = int(min(n_steps, self._block_steps - self._place))
            self._covariance = self._moved(count, counted)
            self._place += count
            n_steps -= count

    def _moved(self, n_steps: int, counted: float) -> np.ndarray:
        """Return the covariance after steps of one kind, by doubling."""
        size = len(self._covariance)
        power = np.zeros((size, size))
        power[0, 0] = self._fade
        power[0, 1:] = -counted * self._weight
        power[1:, 1:] = np.diag(self._decay) - self._weight
        gain = np.ones(size)
        gain[0] = counted
        added, covariance = np.outer(gain, gain), self._covariance
        while n_steps:
            if n_steps & 1:
                covariance = power @ covariance @ power.T + added
            added = power @ added @ power.T + added
            power = power @ power
            n_steps >>= 1
        return covariance


class _Weighed:
    """Variances by the weights of all steps, times the inverse of C."""

    def __init__(self, workload, factorization, block_steps):
        self._workload, self._factorization = workload, factorization
        self._block_steps = block_steps
        self._forgets = isinstance(workload, Window)
        self._step = 0
        self._gaps: list[tuple[int, int]] = []

    def reach(self, step: int) -> None:
        self._step = step

    def skip(self, n_steps: int) -> None:
        first = 0 if self._forgets else self._step
        self._step += n_steps
        self._gaps.append((first, self._step))

    def at(self, step: int) -> float:
        weights = self._workload.weights_at(step).copy()
        for start, stop in self._gaps:
            weights[start:stop] = 0.0
        size = self._block_steps or step
        blocks = [weights[s : s + size] for s in range(0, step, size)]
        return float(sum(self._of_block(block) for block in blocks))

    def _of_block(self, weights: np.ndarray) -> float:
        n = len(weights)
        column = self._factorization.inverse_column(n)
        if column is None:
            C = self._factorization.matrix(n)
            response = solve_triangular(C, weights, lower=True, trans="T")
        else:
            response = multiply_series(weights[::-1], column, n)
        return float(np.sum(response**2))
