"""How far apart the values of a feature lie: histograms of differences of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from ... import _linalg, sensitivity
from ..._tables.pairs import PairOrder, PairWalk
from ...accounting import calibrate_gaussian
from ...mechanisms import Exact
from ..combination import Statistic

# All normal numbers of float64, two nodes an octave, where memory allows it.
_LOWEST_OCTAVE, _HIGHEST_OCTAVE = -1022, 1023
_MOST_NUMBERS, _FEWEST_OCTAVES = 1 << 25, 256
# Probability of a false alarm in all features together, its share for nodes between
# 2**-32 and 2**32, and how many nodes side by side may show a feature together.
_FALSE_ALARMS, _USUAL_SHARE, _USUAL_OCTAVE = 0.02, 0.9, 32
_WINDOWS = (1, 2, 3)
# What the highest of several nodes must hold by itself, in deviations.
_ALONE = 2.0
# Nodes that a tail may reach beyond what stands out by itself.
_TAIL_NODES = 8
# Nodes below the highest whose squares count: two differ by a factor of 2**8.
_COUNTED_NODES = 16
# Features that are looked at together.
_PANEL = 256


class Spreads(NamedTuple):
    """What released differences say of each feature.

    Attributes
    ----------
    found : ndarray of bool of shape (n_features,)
        Whether differences stand out of the noise.
    reach : ndarray of shape (n_features,)
        Highest node that does; 1 where none does.
    scale : ndarray of shape (n_features,)
        Standard deviation, roughly; 1 where nothing was found.
    tail : ndarray of shape (n_features,)
        Share of the highest node in the variance, roughly.
    """

    found: np.ndarray
    reach: np.ndarray
    scale: np.ndarray
    tail: np.ndarray


@dataclass(frozen=True)
class DifferenceCounts(Statistic):
    """Histograms of the differences of paired rows, one a feature.

    Ties count for nothing, so that a feature of which most values are the same shows
    how far the others are away.

    Parameters
    ----------
    n_samples, n_features : int
        Public shape of the rows, at least 2 rows.
    boxed : bool, default=False
        Whether differences are at most 2, as in a box of half-width 1.
    name : str, default="differences"
        Name of the release.
    """

    n_samples: int
    n_features: int
    boxed: bool = False
    name: str = "differences"

    @property
    def order(self) -> PairOrder:
        """Which rows are paired: each is in two pairs."""
        return PairOrder(self.n_samples, self.n_features, 1)

    @property
    def octaves(self) -> tuple[int, int]:
        """First and last octave of the nodes, from the number of features."""
        half = max(_MOST_NUMBERS // (2 * self.n_features), _FEWEST_OCTAVES) // 2
        last = 1 if self.boxed else min(half, _HIGHEST_OCTAVE)
        return max(-half, _LOWEST_OCTAVE), last

    @property
    def n_nodes(self) -> int:
        """Nodes of each histogram; in a box none lies beyond its extent."""
        first, last = self.octaves
        return 2 * (last - first) + (1 if self.boxed else 2)

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        shape = (self.n_features, self.n_nodes)
        if not math.isfinite(mu):
            return (Exact(self.name, shape),)
        moved = sensitivity.difference_counts_sensitivity(self.n_features)
        counts = calibrate_gaussian(
            self.name, moved, mu, shape, magnitude=self.order.n_pairs
        )
        return (counts,)

    def run(self, release: Any, rows: Any, *given: Any) -> Spreads:
        """Release the histograms of rows under a given map, None for none."""
        (row_map,) = given
        kernel = partial(
            _linalg.counts_of_differences,
            n_features=self.n_features,
            first_octave=self.octaves[0],
            n_nodes=self.n_nodes,
        )
        counts = _linalg.reduce_rows(rows, PairWalk(self.order, row_map), kernel)
        noise = getattr(release.plan[self.name], "noise_std", 0.0)
        return self._spreads(release(self.name, counts, overwrite=True), noise)

    def _spreads(self, counts: np.ndarray, noise: float) -> Spreads:
        """Read released counts whose noise has a deviation."""
        nodes = _linalg.node_values(self.octaves[0], self.n_nodes)
        highest = self._highest(counts, noise, self._usual_rates())
        if (highest >= 0).any():
            # Where others have their highest node, less is asked of those not found.
            seen = np.bincount(highest[highest >= 0], minlength=self.n_nodes)
            again = self._highest(counts, noise, 0.5 * seen / seen.sum())
            highest = np.where(highest < 0, again, highest)
        found = highest >= 0
        highest[~found] = 0
        self._extend(highest, counts, noise)
        reach = nodes[highest]
        below = highest[:, None] - np.arange(_COUNTED_NODES)
        kept = np.where(below < 0, 0.0, np.take_along_axis(counts, below, axis=1))
        ratios = nodes[np.maximum(below, 0)] / reach[:, None]
        squares = np.maximum(np.sum(kept * ratios**2, axis=1), noise)
        squares[~found] = 1.0
        scale = reach * np.sqrt(squares / (2.0 * self.order.n_pairs))
        scale[~found] = reach[~found] = 1.0
        return Spreads(found, reach, scale, np.clip(kept[:, 0] / squares, 0.0, 1.0))

    def _extend(self, highest, counts, noise: float) -> None:
        """Move highest nodes up, in place, as long as the next ones hold something.

        Less is asked of what goes on where counts were found: tails that are dropped
        make scales too small.
        """
        for _ in range(_TAIL_NODES):
            ahead = np.minimum(highest[:, None] + (1, 2), self.n_nodes - 1)
            tail = np.take_along_axis(counts, ahead, axis=1)
            one = tail[:, 0] > _ALONE * noise
            two = tail.sum(axis=1) > _ALONE * math.sqrt(2.0) * noise
            highest += (one | (two & (tail[:, 1] > noise))) & (highest < ahead[:, 0])

    def faintest(self, noise: float) -> float:
        """Share of pairs that must differ by about the same to be seen in the noise."""
        limits = self._limits(noise, self._usual_rates())
        return float(limits.min()) / self.order.n_pairs

    def _usual_rates(self) -> np.ndarray:
        """Shares of all false alarms that nodes may make, by where they lie."""
        octave = self.octaves[0] + np.arange(self.n_nodes) // 2
        usual = np.abs(octave) <= _USUAL_OCTAVE
        share = np.where(usual, _USUAL_SHARE, 1.0 - _USUAL_SHARE)
        share /= np.where(usual, usual.sum(), max((~usual).sum(), 1))
        return 0.5 * share

    def _limits(self, noise: float, rates: np.ndarray) -> np.ndarray:
        """Counts that noise exceeds at given shares of the false alarms."""
        rates = _FALSE_ALARMS / (self.n_features * len(_WINDOWS)) * rates
        limits = -noise * ndtri(np.where(rates > 0.0, rates, 0.5))
        limits[rates == 0.0] = np.inf
        return limits

    def _highest(self, counts, noise: float, rates: np.ndarray) -> np.ndarray:
        """Highest node of each feature that stands out of the noise; -1 for none."""
        limits = self._limits(noise, rates)
        highest = np.empty(len(counts), dtype=np.int64)
        for start in range(0, len(counts), _PANEL):
            panel = counts[start : start + _PANEL]
            alarms = np.zeros(panel.shape, dtype=bool)
            alone = panel > _ALONE * noise
            together = np.zeros_like(panel)
            for width in _WINDOWS:
                together[:, width - 1 :] += panel[:, : panel.shape[1] - width + 1]
                alarms |= (together > math.sqrt(width) * limits) & alone
            last = panel.shape[1] - 1 - np.argmax(alarms[:, ::-1], axis=1)
            highest[start : start + _PANEL] = np.where(alarms.any(axis=1), last, -1)
        return highest
