"""Private means and scales of features on few rows, from overlapping windows.

Windows of octaves of differences give scales, windows of cells as wide as the scales
give places, and clipped moments about these give means, and better scales where the
noise is small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from .. import sensitivity
from .._linalg import features
from .._tables.clipping import Box
from ..accounting._gaussian import calibrate_alike
from .feature_scales import (
    FeatureLaw,
    FeatureMoments,
    FeatureScales,
    Spreads,
    UnitMoments,
    in_units,
)
from .scale_windows import ScaleWindows, of_any_share, overlapping
from .statistic import Combination, Statistic

# Rows, in units of sqrt(n_features) / mu, below which windows tell more.
FEW_ROWS = 200.0

# Of fewer rows in the same units nothing is seen, and reading windows of more features
# takes long.
_FEWEST_ROWS, _MANY_FEATURES = 6.0, 1000

# Cells of a window, and those that normal values fill on either side of their mean.
_WIDTH, _REACH = 4, 8

# Cells of a feature, and of all features together: a power of two each.
_MOST_CELLS, _FEWEST_CELLS, _MOST_NUMBERS = 1 << 13, 1 << 9, 1 << 22

# Scale of the prior's heavy tail in cells, odds of no place, and the error of a law, as
# a share of the rows.
_TAIL, _NOWHERE, _MISFIT = 8.0, 0.1, 0.02

# A place is seen if so much of the posterior lies within so many cells.
_SURE, _NEAR = 0.5, 4

# Counts that are read together.
_PANEL = 1 << 17


@dataclass(frozen=True)
class PlaceWindows(Statistic):
    """Places of features from counts of values in overlapping windows of cells.

    A cell is half as wide to as wide as a released scale. Cells go around a circle: a
    place is known up to its length, and the one that is nearest to 0 is meant. With
    `holes` values may be NaN, and their number is released too.
    """

    n_samples: int
    n_features: int
    holes: bool = False
    name: str = "cells"

    @property
    def n_cells(self) -> int:
        """Cells of a feature, from the number of features."""
        cells = _MOST_CELLS
        while cells > _FEWEST_CELLS and cells * self.n_features > _MOST_NUMBERS:
            cells //= 2
        return cells

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        shape = (self.n_features, self.n_cells + 1)
        moved = sensitivity.value_windows_sensitivity(self.n_features)
        more = {"magnitude": self.n_samples, "lemma": "value-windows"}
        return calibrate_alike([self.name], moved, mu, shape, **more)

    def exact(self, rows: Any, row_map: Any, scale: np.ndarray) -> np.ndarray:
        """Return what is released of rows, without noise."""
        exponents = np.frexp(scale)[1] - 1
        kernel = partial(
            features.counts_in_cells, exponents=exponents, n_cells=self.n_cells
        )
        counts = features.sum_over_rows(rows, kernel, row_map)
        return np.column_stack([overlapping(counts, _WIDTH), counts.sum(axis=1)])

    def run(self, release: Any, rows: Any, *given: Any) -> tuple:
        """Release windows of rows; return places, and which of them are seen."""
        row_map, scale = given
        noise = getattr(release.plan[self.name], "noise_std", 0.0)
        exact = self.exact(rows, row_map, scale)
        released = release(self.name, exact, overwrite=True)
        return self.places(released, noise, scale)

    def places(self, released, noise: float, scale) -> tuple[np.ndarray, np.ndarray]:
        """Return places, and which of them are seen, from released counts."""
        cells, seen = np.empty(self.n_features), np.empty(self.n_features, dtype=bool)
        exponents = np.frexp(scale)[1] - 1
        # In units of cells.
        widths, step = np.ldexp(scale, -exponents), max(1, _PANEL // self.n_cells)
        for start in range(0, self.n_features, step):
            some = slice(start, start + step)
            odds = self._odds(released[some], noise, widths[some])
            cells[some], seen[some] = self._likely_cell(odds)
        with np.errstate(over="ignore", under="ignore"):
            place = np.ldexp(cells + 0.5, exponents)
        seen &= np.isfinite(place)
        return np.where(seen, place, 0.0), seen

    @property
    def _cells(self) -> np.ndarray:
        """Cells by their signed distance from 0, in the order of the windows."""
        cells = np.arange(self.n_cells)
        return np.where(cells < self.n_cells // 2, cells, cells - self.n_cells)

    def _odds(self, panel, noise: float, widths) -> np.ndarray:
        """Return logarithmic odds of the cell of a mean, for normal values."""
        windows, total = panel[:, :-1], self.n_samples
        if self.holes:
            total = np.clip(panel[:, -1:], 1.0, self.n_samples)
        template = _template(widths, self.n_cells)
        square = np.sum(template**2, axis=1, keepdims=True)
        products = np.fft.irfft(
            np.fft.rfft(windows) * np.conj(np.fft.rfft(template)), self.n_cells
        )
        spread = math.hypot(noise, _MISFIT * self.n_samples)
        odds, _ = of_any_share(products, square, spread, total)
        prior = 1.0 / (1.0 + (self._cells / _TAIL) ** 2)
        return odds + np.log((1.0 - _NOWHERE) * prior / prior.sum())

    def _likely_cell(self, odds) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean cell where a posterior is densest, and if that suffices."""
        nowhere = math.log(_NOWHERE)
        best = np.maximum(odds.max(axis=1, keepdims=True), nowhere)
        weights = np.exp(odds - best)
        # Sums over neighbors on the circle.
        wrapped = np.pad(weights, ((0, 0), (_NEAR, _NEAR)), mode="wrap")
        near = np.lib.stride_tricks.sliding_window_view(wrapped, 2 * _NEAR + 1, axis=1)
        middle = np.argmax(near.sum(axis=-1), axis=1)
        near = near[np.arange(len(odds)), middle]
        mass = near.sum(axis=1)
        offset = near @ np.arange(-_NEAR, _NEAR + 1.0) / np.maximum(mass, 1e-300)
        all_mass = weights.sum(axis=1) + np.exp(nowhere - best[:, 0])
        return self._cells[middle] + offset, mass >= _SURE * all_mass


def _template(scale: np.ndarray, n_cells: int) -> np.ndarray:
    """Return expected counts in windows of normal values about the middle of cell 0."""
    edges = np.arange(-_REACH, _REACH + 2) - 0.5
    shares = np.diff(ndtr(edges / scale[:, None]), axis=1)
    counts = np.zeros((len(scale), n_cells))
    counts[:, np.arange(-_REACH, _REACH + 1)] = shares
    return overlapping(counts, _WIDTH)


# Shares of mu**2, by the features that are seen on small tables.
_SHARES = {"windows": 0.4, "cells": 0.2, "moments": 0.4}

# Half-width of what moments count, in scales, where noise is small.
_REACH_OF_MOMENTS = 3.0

# Relative error of a variance that windows show, and the largest ratio of a variance to
# it, or of it to a variance.
_ERROR, _FARTHEST = 0.5, 8.0

# A mean is so many deviations of its noise from the edge, or so far from the place.
_FROM_THE_EDGE, _FROM_THE_PLACE = 4.5, 0.7


@dataclass(frozen=True)
class WindowedScales(Combination):
    """Location and scale of each feature of few rows, with no bounds known."""

    n_samples: int
    n_features: int
    box: Box | None = None
    holes: bool = False

    def parts(self) -> Mapping[str, Statistic]:
        """Return the statistics, in the order of their releases."""
        shape = (self.n_samples, self.n_features)
        return {
            "windows": ScaleWindows(*shape, self.box, self.holes),
            "cells": PlaceWindows(*shape, self.holes),
            "moments": FeatureMoments(*shape, self.holes),
        }

    def shares(self) -> Mapping[str, float]:
        """Return the shares of mu**2."""
        return _SHARES

    def run(self, release: Any, rows: Any, *given: Any) -> FeatureLaw:
        """Release scales, places and moments."""
        parts, largest = self.parts(), np.finfo(float).max
        row_map = None if self.box is None else self.box.to_unit
        counts, noise = parts["windows"].released(release, rows)
        scale, seen = parts["windows"].scales(counts, noise)
        # Of the pairs that have a difference; the others may have holes.
        kept = np.clip(counts[:, -1], 1.0, self.n_samples) / self.n_samples
        if self.holes:
            scale = np.minimum(scale / np.sqrt(kept), largest)
        place, placed = parts["cells"].run(release, rows, row_map, scale)
        if self.box is not None:
            place = np.clip(place, -1.0, 1.0)
        noise = getattr(release.plan["moments"], "noise_std", 0.0)
        with np.errstate(over="ignore"):
            reach = np.minimum(_REACH_OF_MOMENTS * scale, largest)
        spreads = Spreads(seen, reach, scale, np.zeros_like(scale))
        radius = parts["moments"].radius(noise, spreads)
        found = parts["moments"].released(release, rows, row_map, place, radius)
        if found.present is not None:
            # Pairs of present values that are ties count too.
            share = np.clip(found.present, 1.0 / self.n_samples, 1.0)
            scale = scale * np.minimum(np.sqrt(kept) / share, 1.0)
        edge = np.maximum(1.0 - _FROM_THE_EDGE * found.noise, _FROM_THE_PLACE)
        seen = seen & placed & found.enough & (np.abs(found.mean) < edge)
        scale = _joint_scale(scale, radius, found)
        return in_units(self, found.place(place, radius), scale, seen, found.present)

    def remarks(self) -> tuple[str, ...]:
        """Return sentences for the statement of the guarantee."""
        return self.parts()["windows"].remarks()

    def unseen_features(self, plan: Any) -> tuple[str, ...]:
        """Say, from public numbers, if rows are too few for scales."""
        return self.parts()["windows"].unseen_features(plan)


def _joint_scale(scale, radius, found: UnitMoments) -> np.ndarray:
    """Return scales from windows and moments, each by its error."""
    with np.errstate(over="ignore"):
        unit = np.square(radius / scale)
    error = unit * found.deviation
    weight = _ERROR**2 / (_ERROR**2 + error**2)
    variance = 1.0 + weight * (unit * found.variance - 1.0)
    return scale * np.sqrt(np.clip(variance, 1.0 / _FARTHEST, _FARTHEST))


def scales_of_features(
    n_samples: int, n_features: int, mu: float, box: Box | None = None, holes=False
) -> FeatureScales | WindowedScales:
    """Return the statistic of means and scales for a public number of rows."""
    size = n_samples * mu / math.sqrt(n_features)
    hopeless = size < _FEWEST_ROWS and n_features > _MANY_FEATURES
    if size < FEW_ROWS and not hopeless:
        return WindowedScales(n_samples, n_features, box, holes)
    return FeatureScales(n_samples, n_features, True, box, holes)
