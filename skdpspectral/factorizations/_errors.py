"""Variances of the noise of a workload under a factorization: public numbers.

Noise of a sum does not cancel at the ends of gaps: its variance is that of the weights,
with zeros there, times C^{-1}.
"""

from __future__ import annotations

import math

import numpy as np

from ._factorizations import Banded, Buffers, Factorization
from ._workloads import Window, Workload, multiply_series

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
        self._block_steps, self._squares = block_steps, workload.sums(1)
        self._gaps: _Recursion | _Weighed | None = None
        self._last, self._step, self._filled = (0.0, 0.0), 0, 0
        self._begin()

    def _begin(self) -> None:
        self._base, self._place = self._last[0], 0
        self._filter = self._factorization.filter(1)
        self._response = self._workload.sums(1)
        self._ready = np.zeros((0, 1))
        self._sums = np.zeros(2)

    def push(self, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the variances of the next steps.

        Parameters
        ----------
        n_steps : int
            Number of steps.

        Returns
        -------
        core : ndarray of shape (n_steps,)
            Variance of the noise in a sum of the workload's core. After a gap, NaN for
            all steps but the last one.
        squares : ndarray of shape (n_steps,)
            Sum over the core of the variances of single rows.
        """
        both = self._advance(n_steps)
        core = both[:, 0]
        if self._gaps is not None and self._step < self._filled:
            core = np.full(n_steps, np.nan)
            core[-1] = self._gaps.at(self._step)
        return core, self._squares.push(both[:, 1:].copy())[:, 0]

    def skip(self, n_steps: int) -> None:
        """Skip steps whose rows are not part of any later sum.

        Parameters
        ----------
        n_steps : int
            Number of steps.
        """
        if self._gaps is None:
            banded = isinstance(self._factorization, Banded)
            kind: type[_Recursion] | type[_Weighed] = _Weighed if banded else _Recursion
            self._gaps = kind(self._workload, self._factorization, self._block_steps)
        self._gaps.reach(self._step)
        self._gaps.skip(n_steps)
        for start in range(0, n_steps, _CHUNK):
            self._advance(min(_CHUNK, n_steps - start))
        self._squares.skip(n_steps)
        # A window starts again after a gap, and is full again after its length.
        window = isinstance(self._workload, Window)
        self._filled = self._step + self._workload.length if window else math.inf

    def _advance(self, n_steps: int) -> np.ndarray:
        """Return variances of the core and of single rows, one row per step."""
        self._step += n_steps
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
        inverse = self._impulse(count)
        response = self._response.push(inverse.copy())
        sums = np.concatenate([response, inverse], axis=1) ** 2
        sums[0] += self._sums
        np.add.accumulate(sums, axis=0, out=sums)
        self._sums = sums[-1].copy()
        if self._base:
            # The remaining noise of earlier blocks.
            steps = np.arange(self._place + 1, self._place + count + 1)
            sums[:, 0] += self._base * self._workload.fade(steps) ** 2
        return sums

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


class _Recursion:
    """Covariance of sums with gaps and of buffers, a linear system; by doubling."""

    def __init__(self, workload, factorization, block_steps):
        buffers = getattr(factorization, "buffers", Buffers([], []))
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
    """Variances of sums with gaps by the weights of all steps, times the inverse."""

    def __init__(self, workload, factorization, block_steps):
        self._workload, self._factorization = workload, factorization
        self._block_steps = block_steps
        self._step = 0
        self._gaps: list[tuple[int, int]] = []

    def reach(self, step: int) -> None:
        self._step = step

    def skip(self, n_steps: int) -> None:
        first = 0 if isinstance(self._workload, Window) else self._step
        self._step += n_steps
        self._gaps.append((first, self._step))

    def at(self, step: int) -> float:
        weights = self._workload.column(step)[::-1].copy()
        for start, stop in self._gaps:
            weights[start:stop] = 0.0
        size = self._block_steps or step
        impulse = np.zeros((min(size, step), 1))
        impulse[0] = 1.0
        column = self._factorization.filter(1).push(impulse)[:, 0]
        blocks = (weights[s : s + size][::-1] for s in range(0, step, size))
        noises = (multiply_series(block, column, len(block)) for block in blocks)
        return float(sum(np.sum(noise**2) for noise in noises))
