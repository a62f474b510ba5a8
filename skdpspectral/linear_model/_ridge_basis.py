"""Additive functions of standardized features, with products of pairs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

# Kinds of columns, whose coefficients have a prior variance each; the constant is one.
CONSTANT, LEVEL, SLOPE, WAVE, PAIR = range(5)

# Weights of slopes and of all products of a number, and where slopes end.
_SLOPE, _PAIRS, _END = 0.8, 0.7, 3.0

# Waves per number, waves per part of a pair, and the largest relative noise at which
# they are used; and how many pairs there may be.
_CHOICES = (("pairs", 4, 2, 0.15), ("pairs", 3, 1, 0.15), ("additive", 3, 0, 0.3))
_MOST_PAIRS = 400


class Basis(NamedTuple):
    """Columns made of standardized features: others, slopes, waves and products.

    `expanded`, (n_features,), are the features that are numbers; others stay as they
    are. `waves` and `pairs` are the numbers of waves in a feature, and in each part of
    a product.
    """

    expanded: np.ndarray
    waves: int
    pairs: int

    @property
    def _pairs(self) -> np.ndarray:
        numbers = np.flatnonzero(self.expanded)
        i, j = np.triu_indices(len(numbers), 1)
        return np.column_stack([numbers[i], numbers[j]])[: None if self.pairs else 0]

    def sources(self) -> np.ndarray:
        """Return the features that each column is made of, (width, 2)."""
        others, numbers = (np.flatnonzero(e) for e in (~self.expanded, self.expanded))
        alone = np.concatenate([others, numbers, np.repeat(numbers, self.waves)])
        pairs = np.repeat(self._pairs, self.pairs**2, axis=0)
        return np.concatenate([np.column_stack([alone, alone]), pairs]).astype(int)

    def kinds(self) -> np.ndarray:
        """Return the kind of each column."""
        d, n_pairs = int(self.expanded.sum()), len(self._pairs)
        counts = [len(self.expanded) - d, d, d * self.waves, n_pairs * self.pairs**2]
        return np.repeat([LEVEL, SLOPE, WAVE, PAIR], counts)

    def square(self, others: float) -> float:
        """Return the mean squared length of rows, given that of other columns."""
        waves = sum(1.0 / k**2 for k in range(1, self.waves + 1))
        pairs = _PAIRS**2 * (len(self._pairs) > 0)
        return others + float(self.expanded.sum()) * (waves + _SLOPE**2 + pairs)

    def expand(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns for standardized rows."""
        numbers = rows[:, self.expanded]
        parts = [rows[:, ~self.expanded], _SLOPE * np.clip(numbers, -_END, _END)]
        angles = math.pi * ndtr(numbers)
        orders = np.arange(1, max(self.waves, self.pairs) + 1)
        cosines = math.sqrt(2.0) * np.cos(angles[:, :, None] * orders)
        waves = cosines[:, :, : self.waves] / orders[: self.waves]
        parts.append(waves.reshape(len(rows), -1))
        if len(self._pairs):
            place = np.cumsum(self.expanded) - 1
            i, j = place[self._pairs].T
            weight = _PAIRS * math.sqrt(len(place[self.expanded]) / len(i))
            part = cosines[:, :, : self.pairs]
            products = weight * part[:, i, :, None] * part[:, j, None, :]
            parts.append(products.reshape(len(rows), -1))
        return np.concatenate(parts, axis=1)


def chosen_basis(
    wanted: str, expanded: np.ndarray, others: float, n_targets: int, reach: float
) -> tuple[str, Basis | None]:
    """Return the name of a basis, and the basis; None for linear functions.

    `others` is the mean squared length of other columns, and `reach` the number of rows
    times mu of the moment. "auto" uses the richest basis whose noise is low.
    """
    d = int(expanded.sum())
    for name, waves, pairs, most in _CHOICES:
        if wanted not in (name, "auto") or (
            pairs and not 0 < d * (d - 1) // 2 <= _MOST_PAIRS
        ):
            continue
        basis = Basis(expanded, waves, pairs)
        width = len(basis.kinds()) + n_targets + 1
        noise = (basis.square(others) + n_targets + 1) * math.sqrt(width) / reach
        last = wanted == "additive" or (wanted == "pairs" and pairs == 1)
        if d and (noise <= most or last):
            return name, basis
    if wanted == "pairs" and d:  # of a single number, or of too many
        return "additive", Basis(expanded, 3, 0)
    return "linear", None
