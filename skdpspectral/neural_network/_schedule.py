"""Who is in which batch, how often, and what shapes the noise between steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._release.public import public_order
from .._release.samples import attainable_rate
from ..covariance.factorizations import Exponential, Factorization, factorize
from ..mechanisms import Neighbors

SAMPLINGS = ("poisson", "in-turn")


class Schedule:
    """Batches of a fit, from public numbers alone.

    Parameters
    ----------
    n_samples : int
        Number of examples, public.
    batch_size : int
        Expected size of a batch; all examples are in each if they are no more.
    n_epochs : int
        How often each example is expected to be used.
    sampling : {"poisson", "in-turn"}
        Whether each example joins each batch by itself, or once in each epoch.
    neighbors : {"replace-one", "zero-out-one"}
        What is hidden.
    shaping : SideBySide or None, default=None
        What shapes the noise of batches in turn; None for independent noise.

    Attributes
    ----------
    n_steps : int
        Number of batches.
    batch_size : float
        What sums over a batch are divided by.
    rate : float
        Probability of joining a batch; 1 for batches in turn.
    n_participations : int
        Batches that an example is in, if that is known.
    largest_batch : int
        Most examples of a batch.
    """

    def __init__(
        self,
        n_samples: int,
        batch_size: int,
        n_epochs: int,
        *,
        sampling: str,
        neighbors: str,
        shaping: SideBySide | None = None,
    ) -> None:
        self.n_samples, self.neighbors = n_samples, Neighbors(neighbors)
        self._whole = batch_size >= n_samples
        self.sampled = sampling == "poisson" and not self._whole
        self.shaping = Factorization() if shaping is None else shaping
        size = min(batch_size, n_samples)
        self.rate = attainable_rate(size / n_samples) if self.sampled else 1.0
        self.batch_size = float(size)
        self.n_participations = n_epochs
        self.largest_batch = n_samples if self.sampled else size
        self._in_epoch = math.ceil(n_samples / size)
        self.n_steps = n_epochs * self._in_epoch
        self._order = None
        if not (self.sampled or self._whole):
            # The same for any data of that shape: rows may be sorted.
            self._order = public_order(n_samples)

    @property
    def correlation(self) -> dict[str, Any]:
        """Fields of the mechanism of batches in turn.

        An example moves as many rows as it has batches, and their sum of squares: more
        than one only where the noise of different rows is independent.
        """
        often = math.sqrt(self.n_participations)
        return {
            "column_norm": self.shaping.column_norm * often,
            "factorization": self.shaping.name,
            "max_steps": self.n_steps,
            "amplification": self.shaping.amplification,
        }

    def batch(self, release: Any, position: int) -> np.ndarray:
        """Return who is in the batch of a step, in increasing order."""
        if self.sampled:
            return np.asarray(release.sample(position, self.n_samples))
        return self._in_turn(position)

    def _in_turn(self, position: int) -> np.ndarray:
        if self._order is None:
            return np.arange(self.n_samples)
        size = int(self.batch_size)
        start = size * (position % self._in_epoch)
        return np.sort(self._order[start : start + size])


class SideBySide:
    """Two factorizations, each for one half of the entries of a row.

    Each is scaled so that its columns have norms of at most 1, by which an example
    moves both halves no further than its one row moves.

    Parameters
    ----------
    first, second : Factorization
        Of the left and of the right half; of the whole row if both are one.
    """

    toeplitz = False

    def __init__(self, first: Factorization, second: Factorization) -> None:
        self.parts = (first, second)
        self.name = second.name if first.name == "trivial" else first.name
        limits = [f.max_steps for f in self.parts if f.max_steps is not None]
        self.max_steps = min(limits) if limits else None
        self.column_norm = max(f.column_norm for f in self.parts)
        self.amplification = max(f.amplification for f in self.parts)

    def check_precision(self, steps: float) -> None:
        """Refuse matrices whose noise float64 can't hold on its grid."""
        for part in self.parts:
            part.check_precision(steps)

    def filter(self, width: int) -> _HalvesFilter:
        """Return a filter of rows of a width."""
        return _HalvesFilter(self.parts, width)


class _HalvesFilter:
    """Filters of two halves of a row, in step."""

    def __init__(self, parts: tuple[Factorization, Factorization], width: int) -> None:
        self.width = width
        self._halves = [part.filter(width // 2) for part in parts]
        self.block = math.lcm(*(half.block for half in self._halves))

    def push(self, rows: np.ndarray) -> np.ndarray:
        """Return the shaped rows."""
        middle = self.width // 2
        halves = (rows[:, :middle], rows[:, middle:])
        shaped = [
            half.push(np.ascontiguousarray(part))
            for half, part in zip(self._halves, halves, strict=True)
        ]
        return np.concatenate(shaped, axis=1)

    def reset(self) -> None:
        """Begin anew."""
        for half in self._halves:
            half.reset()


def decayed_factorization(decay: float, name: str, n_steps: int) -> Factorization:
    """Return the factorization of running means that forget by a factor a step."""
    if name == "trivial" or decay == 0.0:
        return Factorization()
    return factorize(Exponential(decay), name, n_steps)
