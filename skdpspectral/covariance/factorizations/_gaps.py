"""How much noise is in sums that leave out some steps: public numbers.

The noise of a sum over all steps nearly cancels; that of a sum with a gap does not at
its ends. Its variance is that of the weights, with zeros at the gap, times C^{-1}.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from ._buffers import Buffers
from ._errors import NoiseGain
from ._factorizations import BufferedToeplitz, Factorization
from ._series import multiply_series
from ._workloads import Custom, Window, Workload


class GappedGain:
    """Variances of shaped noise in sums with gaps, as of :class:`NoiseGain`.

    Parameters
    ----------
    workload : Workload
        What is asked for.
    factorization : Factorization
        The matrix C.
    block_steps : int or None
        Steps after which the noise begins anew; None for never.
    gain : NoiseGain
        The same for sums without gaps, at some step.
    step : int
        That step.
    """

    def __init__(
        self,
        workload: Workload,
        factorization: Factorization,
        block_steps: int | None,
        gain: NoiseGain,
        step: int,
    ):
        self._gain, self._step = gain, step
        # A window begins anew after a gap, and is full again after its length.
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
        """Pass over the steps of a gap."""
        self._gain.skip(n_steps)
        self._variance.reach(self._step)
        self._variance.skip(n_steps)
        self._step += n_steps
        self._resumed = self._step

    def push(self, n_steps: int) -> tuple[Variances, np.ndarray]:
        """Return the variances of the next steps.

        Parameters
        ----------
        n_steps : int
            How many steps.

        Returns
        -------
        core : Variances
            To be indexed by places, in increasing order: those of sums of the core.
        squares : ndarray of shape (n_steps,)
            The core's sum of the variances of single rows.
        """
        full, squares = self._gain.push(n_steps)
        first = self._step + 1
        self._step += n_steps
        filled = self._resumed + self._window
        return Variances(self._variance, first, n_steps, full, filled), squares


class Variances:
    """Variances of consecutive steps, worked out where they are asked for.

    Parameters
    ----------
    variance : _Recursion or _Weighed
        What works them out.
    first, n_steps : int
        Number of the first step, and how many there are.
    full : ndarray of shape (n_steps,)
        Variances of sums without gaps.
    filled : float
        Step from which on there is no gap in a sum.
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
    """Noise of sums and buffers as a linear system, whose covariance is carried on.

    Constant memory; steps are passed over by doubling.
    """

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
        """Go on to a step; the sums have the rows up to there."""
        self._move(step - self._step, 1.0)

    def skip(self, n_steps: int) -> None:
        """Go on by steps whose rows the sums do not have."""
        self._move(n_steps, 0.0)
        if self._forgets:
            self._covariance[0] = self._covariance[:, 0] = 0.0

    def at(self, step: int) -> float:
        """Return the variance at a step that is not behind."""
        self.reach(step)
        return float(self._covariance[0, 0])

    def _move(self, n_steps: int, counted: float) -> None:
        if n_steps < 0:
            raise ValueError("steps are asked for in order")
        self._step += n_steps
        while n_steps:
            if self._place == self._block_steps:
                # Fresh noise: what is in the sum stays, the buffers are empty.
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
        """Go on to a step; the sums have the rows up to there."""
        self._step = step

    def skip(self, n_steps: int) -> None:
        """Go on by steps whose rows the sums do not have."""
        first = 0 if self._forgets else self._step
        self._step += n_steps
        self._gaps.append((first, self._step))

    def at(self, step: int) -> float:
        """Return the variance at a step."""
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
