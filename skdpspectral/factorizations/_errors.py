"""Variances of the noise of a workload under a factorization: public numbers."""

from __future__ import annotations

import math

import numpy as np

from ._factorizations import Factorization
from ._workloads import Workload


class NoiseGain:
    """Variances of correlated noise at each step, for independent unit noise Z.

    Parameters
    ----------
    workload : Workload
        Workload that is released.
    factorization : Factorization
        The matrix C.
    """

    def __init__(self, workload: Workload, factorization: Factorization):
        self._filter = factorization.filter(1)
        self._response, self._total = workload.sums(1), 0.0
        self._ready, self._first = np.zeros((0, 1)), 1.0

    def push(self, n_steps: int) -> np.ndarray:
        """Return the variances of the next steps.

        Parameters
        ----------
        n_steps : int
            Number of steps.

        Returns
        -------
        ndarray of shape (n_steps,)
            Variance of the noise in a sum of the workload's core.
        """
        sums = self._response.push(self._impulse(n_steps))[:, 0] ** 2
        sums[0] += self._total
        np.add.accumulate(sums, out=sums)
        self._total = sums[-1]
        return sums

    def _impulse(self, count: int) -> np.ndarray:
        """Return the next entries of the first column of the inverse."""
        missing = count - len(self._ready)
        if missing > 0:
            block = self._filter.block
            rows = np.zeros((-(-missing // block) * block, 1))
            rows[0], self._first = self._first, 0.0
            self._ready = np.concatenate([self._ready, self._filter.push(rows)])
        out, self._ready = self._ready[:count].copy(), self._ready[count:]
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
    core = NoiseGain(workload, factorization).push(n)
    divisors = workload.divisors(np.arange(1, n + 1))
    return factorization.column_norm * math.sqrt(float(np.mean(core / divisors**2)))
