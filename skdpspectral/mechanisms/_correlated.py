"""The Gaussian mechanism of a stream: noise that is correlated between steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ._gaussian import GRID_BITS, MAX_GRID_BITS, Gaussian

# Rounding errors of shaped noise, in Z, stay far below a step of the grid: times the
# unit roundoff 2**-53 and some 2**8 for 12 standard deviations and the terms of sums,
# at most 2**-6 of a step.
AMPLIFIED_BITS = 39


@dataclass(frozen=True)
class CorrelatedGaussian(Gaussian):
    r"""A Gaussian mechanism on the rows of a stream, released step by step.

    At step t the row leaves with noise :math:`(C^{-1} Z)_t`, where C is a
    lower-triangular matrix of public numbers and Z has independent normal entries.

    Parameters
    ----------
    name, summation_error, magnitude
        As in :class:`Gaussian`, of one row.
    sensitivity : float
        How far one unit can move the one row that it contributes.
    noise_std : float
        Standard deviation of the entries of Z.
    shape : tuple of int
        Shape (k,) of a row.
    symmetric : bool, default=False
        Always False: a row is a vector.
    column_norm : float, default=1.0
        Upper bound :math:`|C|` on the 2-norms of the columns of C.
    factorization : str, default="trivial"
        Where C is from, for reports.
    max_steps : int or None, default=None
        Number of steps that `column_norm` holds for; None for any number.
    amplification : float, default=0.0
        How many times rounding errors of the shaped noise are larger in Z; the grid is
        so coarse that they stay far below a step of it.
    renewed : bool, default=False
        Whether fresh noise takes over after `max_steps`: C is then one block of a
        block-diagonal matrix.

    Notes
    -----
    **Formal guarantee.** If one unit changes one row of the stream, by at most
    `sensitivity`, then the release of all steps together is :attr:`mu`-Gaussian
    differentially private, also where rows are chosen after seeing earlier releases.
    Rows are rounded to the grid before noise is added, which is charged.

    References
    ----------
    Denisov, McMahan, Rush, Smith and Thakurta (2022), Improved differential privacy
    for SGD via optimal private linear operators on adaptive streams, theorem 2.1.
    """

    kind: ClassVar[str] = "correlated-gaussian"

    column_norm: float = 1.0
    factorization: str = "trivial"
    max_steps: int | None = None
    renewed: bool = False
    amplification: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.column_norm < math.inf:
            raise ValueError(f"column_norm of {self.name!r} must be positive, finite")
        if not 0.0 <= self.amplification < math.inf:
            raise ValueError(f"amplification of {self.name!r} must be at least 0")
        if self.symmetric or len(self.shape) != 1:
            raise ValueError(f"rows of {self.name!r} must be vectors")

    @property
    def _most_grid_bits(self) -> int:
        # A step of the grid is up to twice as fine as its bits say.
        amplified = math.frexp(max(self.amplification, 1e-300))[1]
        return max(GRID_BITS, min(MAX_GRID_BITS, AMPLIFIED_BITS - 1 - amplified))

    @property
    def charged_sensitivity(self) -> float:
        r"""Sensitivity of :math:`C x` for what is computed of all rows x."""
        return self.column_norm * super().charged_sensitivity

    def describe(self) -> str:
        """Phrase for a report."""
        steps = "any number of" if self.max_steps is None else f"{self.max_steps}"
        if self.renewed and self.max_steps is not None:
            steps = f"any number of steps, with fresh noise after each {steps}"
        else:
            steps += " steps"
        return (
            f"{self.name!r} (a row of {self.shape[0]} numbers a step, {steps}, "
            f"{self.factorization} noise of standard deviation {self.noise_std:.6g} "
            f"for sensitivity {self.charged_sensitivity:.6g}, mu = {self.mu:.6g})"
        )
