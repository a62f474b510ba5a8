"""How much noise a factorization leaves in a workload: public numbers."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from ._factorizations import Factorization
from ._workloads import Workload

_CHUNK = 4096


class NoiseGain:
    """Variances of shaped noise, step by step, for independent unit noise Z.

    Parameters
    ----------
    workload : Workload
        What is asked for.
    factorization : Factorization
        The matrix C.
    block_steps : int or None, default=None
        Steps after which the noise begins anew; None for never.
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
        """Begin a block of noise."""
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
            How many steps.

        Returns
        -------
        core : ndarray of shape (n_steps,)
            Variance of a sum of the workload's core.
        squares : ndarray of shape (n_steps,)
            The core's sum of the variances of single rows.
        """
        both = self._advance(n_steps)
        return both[:, 0], self._squares.push(both[:, 1:].copy())[:, 0]

    def skip(self, n_steps: int) -> None:
        """Pass over steps whose rows no sum of `squares` has.

        The variances of the core are those of sums over all steps nevertheless; see
        :class:`GappedGain`.

        Parameters
        ----------
        n_steps : int
            How many steps.
        """
        for start in range(0, n_steps, _CHUNK):
            self._advance(min(_CHUNK, n_steps - start))
        self._squares.skip(n_steps)

    def _advance(self, n_steps: int) -> np.ndarray:
        """Return variances of the core and of single rows, a row a step."""
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
        """Return what the next steps have left of the noise of earlier blocks."""
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
        What is asked for.
    factorization : Factorization
        The matrix C.
    n : int
        Number of steps.

    Returns
    -------
    float
        The error per unit of the noise that a single row would need.
    """
    core, _ = NoiseGain(workload, factorization).push(n)
    divisors = workload.divisors(np.arange(1, n + 1))
    return factorization.column_norm * math.sqrt(float(np.mean(core / divisors**2)))
