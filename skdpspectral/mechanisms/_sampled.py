"""Gaussian mechanisms on sums over Poisson samples, step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ._curves import SubsampledGaussian
from ._gaussian import CorrelatedGaussian, Gaussian
from ._relations import Neighbors


@dataclass(frozen=True)
class SampledGaussian(CorrelatedGaussian):
    r"""Rows that are sums over Poisson samples of the units, each with fresh noise.

    Parameters
    ----------
    name, noise_std, shape, symmetric, summation_error, magnitude
        As in :class:`CorrelatedGaussian`.
    sensitivity : float
        Largest norm of what one unit adds to the row of a step that it is sampled in.
    max_steps : int
        Number of steps.
    column_norm, factorization, amplification, renewed
        At their defaults: noise of different steps is independent.
    sampling_probability : float
        Probability q in (0, 1] with which each unit is in a step's sample, by itself.

    Notes
    -----
    **Formal guarantee.** That of the :class:`SubsampledGaussian` which :meth:`curve`
    gives, also where a step's row is chosen after seeing earlier releases; samples are
    secret. Rounding to the grid is part of the rows and is charged.
    """

    kind: ClassVar[str] = "sampled-gaussian"

    sampling_probability: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        # Its cost is a curve, which no finite mu states.
        object.__setattr__(self, "mu", math.inf)
        fixed = (self.column_norm, self.factorization, self.renewed, self.amplification)
        if fixed != (1.0, "trivial", False, 0.0) or self.max_steps is None:
            raise ValueError(
                f"noise of {self.name!r} must be independent between a known number of "
                "steps: samples have no guarantee otherwise"
            )
        self.curve(Neighbors.ZERO_OUT_ONE)  # refuses what is out of range

    def _charged(self) -> float:
        """Return the largest norm of what a unit adds to what is computed of a row."""
        return Gaussian._charged(self)

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over the charged sensitivity."""
        return self.noise_std / self.charged_sensitivity

    def curve(self, neighbors: Neighbors | str) -> SubsampledGaussian:
        """Return its cost under a relation of neighbors."""
        assert self.max_steps is not None
        return SubsampledGaussian(
            self.name,
            self.sampling_probability,
            self.noise_multiplier,
            self.max_steps,
            Neighbors(neighbors) is Neighbors.REPLACE_ONE,
        )

    def describe(self) -> str:
        """Phrase for a report."""
        return (
            f"{self.name!r} (a row of {self.shape[0]} numbers a step, {self.max_steps} "
            f"steps on Poisson samples of rate {self.sampling_probability:g}, Gaussian "
            f"noise of standard deviation {self.noise_std:.6g} for sensitivity "
            f"{self.charged_sensitivity:.6g}, {self.noise_multiplier:.6g} times it)"
        )
