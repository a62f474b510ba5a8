"""Running means of released moments, and the steps that Adam makes of them."""

from __future__ import annotations

import math

import numpy as np

from ..covariance.factorizations import Exponential, Factorization, NoiseGain


class RunningMean:
    r"""A mean that forgets by a factor a step, corrected for its beginning.

    Parameters
    ----------
    decay : float
        Factor in [0, 1).
    factorization : Factorization
        What shapes the noise of the rows.
    """

    def __init__(self, decay: float, factorization: Factorization) -> None:
        self._decay = decay
        self._total, self._weight = np.zeros(()), 0.0
        self._gain = None
        if factorization.name != "trivial":
            self._gain = NoiseGain(Exponential(decay), factorization)
        # For unit noise Z: of the sum, of the sum of all rows alone, and of a row.
        self._variance, self._of_rows, self.row_variance = 0.0, 0.0, 1.0

    def advance(self) -> None:
        """Go one step further, without a row."""
        self._total = self._decay * self._total
        self._weight *= self._decay
        if self._gain is None:
            self._variance *= self._decay**2
            return
        before, (core, rows) = self._of_rows, self._gain.push(1)
        self._variance, self._of_rows = float(core[0]), float(rows[0])
        self.row_variance = self._of_rows - self._decay * before

    def push(self, row: np.ndarray) -> np.ndarray:
        """Take the row of the step in, and return the mean."""
        if self._gain is None:
            self._variance += 1.0
        self._weight += 1.0
        self._total = self._total + row
        return self._total / self._weight

    @property
    def noise_gain(self) -> float:
        """Deviation of the mean's noise, for unit noise Z."""
        return math.sqrt(self._variance) / self._weight


class AdamState:
    """Moments of gradients, and the next step.

    Parameters
    ----------
    moments : str
        What is released.
    stds : tuple of float
        Deviations of a step's noise in gradients and in squares, public.
    learning_rate, beta_1, beta_2, adam_stability : float
        As in :class:`~skdpspectral.neural_network.JMEAdam`.
    factorizations : tuple of Factorization
        What shapes the noise of gradients and of squares.
    """

    def __init__(
        self,
        moments: str,
        stds: tuple[float, float],
        *,
        learning_rate: float,
        beta_1: float,
        beta_2: float,
        adam_stability: float,
        factorizations: tuple[Factorization, Factorization],
    ) -> None:
        self._moments, self._stds = moments, stds
        self._learning_rate, self._stability = learning_rate, adam_stability
        self._first = RunningMean(beta_1, factorizations[0])
        self._second = RunningMean(beta_2, factorizations[1])

    def advance(self, n_steps: int = 1) -> None:
        """Go further without releases: those of steps that were lost."""
        for _ in range(n_steps):
            self._first.advance()
            self._second.advance()

    def push(self, gradient: np.ndarray, squares: np.ndarray | None) -> np.ndarray:
        """Take the releases of a step in, and return the increment."""
        self.advance()
        mean = self._first.push(gradient)
        if squares is None:
            squares = np.square(gradient)
            if self._moments == "pp-debiased":
                squares -= self._stds[0] ** 2 * self._first.row_variance
        spread = np.maximum(self._second.push(squares), self.floor)  # in this order
        length = np.sqrt(spread) + self._stability
        step = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0.0)
        return -self._learning_rate * step

    @property
    def floor(self) -> float:
        """Least second moment: the deviation of noise that may take it below 0."""
        if self._moments == "pp":
            return 0.0
        std = self._stds[1]
        if self._moments == "pp-debiased":
            # Of a square of noise, which has two degrees of freedom's worth of it.
            std = math.sqrt(2.0) * self._stds[0] ** 2 * self._first.row_variance
        return std * self._second.noise_gain
