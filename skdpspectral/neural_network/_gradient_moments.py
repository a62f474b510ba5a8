"""Batches of a private optimizer, and the released sums of clipped gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import sensitivity
from .._release.noise import public_order
from .._release.streams import attainable_rate
from .._statistics.statistic import Statistic
from ..accounting._composition import sampled_gaussian
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Mechanism, Neighbors
from ._kernels import LARGEST, SUMMED, Factors

SAMPLINGS = ("poisson", "in-turn")

# Chances of more steps, each its share of delta, vanish in float64.
_MOST_STEPS = 10**9


class Schedule:
    """Batches of a fit, determined by public numbers.

    Each batch has all examples if `batch_size` is at least `n_samples`. `sampling` is
    "poisson" or "in-turn". There are `n_steps` batches of at most `largest_batch`
    examples; sums are divided by the attribute `batch_size`. An example is in a batch
    with probability `rate`, or in turn in `n_participations` batches.
    """

    def __init__(
        self,
        n_samples: int,
        batch_size: int,
        n_epochs: int,
        *,
        sampling: str,
        neighbors: str,
    ) -> None:
        self.n_samples, self.neighbors = n_samples, Neighbors(neighbors)
        self._whole = batch_size >= n_samples
        self.sampled = sampling == "poisson" and not self._whole
        size = min(batch_size, n_samples)
        self.rate = attainable_rate(size / n_samples) if self.sampled else 1.0
        self.batch_size = float(size)
        self.n_participations = n_epochs
        self.largest_batch = n_samples if self.sampled else size
        self._in_epoch = math.ceil(n_samples / size)
        self.n_steps = n_epochs * self._in_epoch
        if self.n_steps > _MOST_STEPS:
            raise ValueError(
                f"n_epochs={n_epochs} in batches of batch_size={batch_size} are "
                f"{self.n_steps:.0e} steps: at most {_MOST_STEPS:.0e} are supported; "
                "choose fewer epochs or larger batches"
            )
        self._order = None
        if not (self.sampled or self._whole):
            # The same for any data of that shape: rows may be sorted.
            self._order = public_order(n_samples)

    @property
    def correlation(self) -> dict[str, Any]:
        """Fields of the mechanism of batches in turn.

        An example affects one row per batch, whose noise is independent.
        """
        often = math.sqrt(self.n_participations)
        return {"column_norm": often, "max_steps": self.n_steps}

    def batch(self, release: Any, position: int) -> np.ndarray:
        """Return the examples in the batch of a step, in increasing order."""
        if self.sampled:
            return np.asarray(release.sample(position, self.n_samples))
        if self._order is None:
            return np.arange(self.n_samples)
        size = int(self.batch_size)
        start = size * (position % self._in_epoch)
        return np.sort(self._order[start : start + size])


_NAME = "gradients"
MOMENTS = ("jme", "pp", "pp-debiased")


class GradientMoments(Statistic):
    r"""The release of one step: sums of clipped gradients, and of their squares.

    Both are divided by the expected size of a batch. Squares are weighted so that both
    have the same noise; `moment_weight` is the weight :math:`\nu` for gradients in the
    unit ball. A row has `width` entries; `weight` is the factor of the squares, or 0.
    """

    def __init__(
        self,
        n_parameters: int,
        schedule: Schedule,
        *,
        clip_norm: float,
        moments: str,
        moment_weight: float,
    ) -> None:
        self.n_parameters, self.schedule = n_parameters, schedule
        self.clip_norm = float(clip_norm)
        alone = moments.startswith("pp")
        self.nu = 0.0 if alone else float(moment_weight)
        self.weight = math.sqrt(self.nu) / self.clip_norm
        self.width = n_parameters if alone else 2 * n_parameters
        # Of norms: those that are computed are off by less, in whatever order the
        # squares of entries are summed.
        self._room = (n_parameters + 64) * 2.0**-51

    def _moved(self, neighbors: Neighbors) -> float:
        """Return how far one example moves the row of one step."""
        return sensitivity.gradient_moments_sensitivity(
            self.clip_norm,
            self.schedule.batch_size,
            self.nu,
            self.n_parameters,
            neighbors,
        )

    @property
    def added(self) -> float:
        """Change of a step's row when an example joins it."""
        return self._moved(Neighbors.ZERO_OUT_ONE)

    def _fields(self) -> dict[str, Any]:
        """Return the rounding error, and a bound on the norm of a row."""
        n, size = self.schedule.largest_batch, self.schedule.batch_size
        # Every entry is a sum over the examples of a batch, however many they are.
        bound = sensitivity.gradient_norm(self.clip_norm, self.nu) * n / size
        # Lengths may be off by the room that is left for them, and factors with them.
        error = sensitivity.summation_error(bound, n, SUMMED) + bound * self._room
        return {
            "summation_error": error,
            "magnitude": bound,
            "lemma": "gradient-moments",
        }

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan all steps of batches in turn at a cost of mu; infinite for no noise."""
        schedule = self.schedule
        return calibrate_alike(
            [_NAME],
            self._moved(schedule.neighbors),
            mu,
            (self.width,),
            correlation=schedule.correlation,
            **self._fields(),
        )

    def sampled(self, noise_multiplier: float) -> tuple[Mechanism, ...]:
        """Plan all steps on Poisson samples, at a noise multiplier."""
        schedule = self.schedule
        mechanism = sampled_gaussian(
            _NAME,
            self.added,
            noise_multiplier,
            (self.width,),
            max_steps=schedule.n_steps,
            sampling_probability=schedule.rate,
            **self._fields(),
        )
        return (mechanism,)

    def mu_of(self, noise_multiplier: float) -> float:
        """Return the cost mu of batches in turn at a noise multiplier.

        The multiplier is relative to the change of a step when an example joins it.
        """
        schedule = self.schedule
        moved = self._moved(schedule.neighbors) * schedule.correlation["column_norm"]
        return moved / (self.added * noise_multiplier)

    def row(self, blocks: Iterable, add: Callable | None = None) -> np.ndarray:
        """Return the exact row of a batch from the factors of its gradients."""
        sums = np.zeros((2 if self.weight else 1, self.n_parameters))
        for block in blocks:
            (add or self._add)(block, sums)
        sums /= self.schedule.batch_size
        if self.weight:
            sums[1] *= self.weight
        return sums.reshape(1, -1)

    def _add(self, factors: Factors, sums: np.ndarray) -> None:
        """Add the clipped gradients of a block, and their squares."""
        # A large factor beside a tiny one does not fit: the square of that may have
        # vanished, and the norm with it, but not the gradient.
        squares, fit = factors.squared_norms()
        good = np.isfinite(squares) & fit
        factors = factors.without(~good)
        factor = self._factors(np.where(good, squares, 0.0))
        factors.weighted_sum(factor, sums[0])
        if self.weight:
            factors.weighted_sum(factor**2, sums[1], 2)

    def row_of_gradients(self, gradients: np.ndarray) -> np.ndarray:
        """Return the exact row of a batch from its full gradients."""
        starts = range(0, len(gradients), SUMMED)
        blocks = (gradients[start : start + SUMMED] for start in starts)
        return self.row(blocks, self._add_gradients)

    def _add_gradients(self, gradients: np.ndarray, sums: np.ndarray) -> None:
        """Add the clipped gradients of a block, and their squares."""
        gradients = np.asarray(gradients, dtype=np.float64)
        # By the largest entry, which is the same in any order; that of a sum of squares
        # may decide whether it overflows.
        good = (gradients.max(axis=1) <= LARGEST) & (gradients.min(axis=1) >= -LARGEST)
        gradients = gradients[good]
        squares = np.vecdot(gradients, gradients)
        clipped = gradients * self._factors(squares)[:, None]
        sums[0] += clipped.sum(axis=0)
        if self.weight:
            sums[1] += np.square(clipped).sum(axis=0)

    def _factors(self, squares: np.ndarray) -> np.ndarray:
        """Return clipping factors, at most 1, for gradients of these squared norms."""
        target = self.clip_norm * (1.0 - self._room)
        return target / np.maximum(np.sqrt(squares), target)

    def run(self, release, rows, *given) -> np.ndarray:
        """Release the row of the next step, which was claimed.

        `rows` returns the exact row of a batch. Squares are divided by their weight.
        """
        released = release(rows())[0].copy()
        if self.weight:
            released[self.n_parameters :] /= self.weight
        return released

    def noise_stds(self, mechanism: Mechanism) -> tuple[float, float]:
        """Return the noise scales of a step's two moments."""
        std = float(getattr(mechanism, "noise_std", 0.0))
        return std, std / self.weight if self.weight else 0.0
