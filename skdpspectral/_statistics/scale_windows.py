"""Private scales of features on few rows: overlapping windows of octaves.

A difference of two values lies in one octave. Windows of several octaves overlap, so
that the counts of a scale add up over windows, for the price of one. The scale is read
from released counts by the likelihood of a few shapes at all scales.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from .. import sensitivity
from .._linalg import features, walks
from .._linalg.walks import PairOrder, PairWalk
from .._tables.clipping import Box
from ..accounting import gaussian_mu
from ..accounting._gaussian import calibrate_alike
from .feature_scales import FeatureLaw, in_units, octaves_within_memory
from .statistic import Statistic

# Rows, in units of sqrt(n_features) / mu, from which most scales are found; skewed
# features need more of them than normal ones.
FEWEST_ROWS = 25.0

# Octaves of a window, and the weight of a difference in each window that it is in: with
# the count of all differences, two of them are as far apart as one is from a tie.
_WIDTH = 4
_WEIGHT = 1.0 / math.sqrt(_WIDTH)

# Scales that are tried in each octave.
_STEPS = 4

# Octaves of the differences of a shape of scale 1, and points of its law.
_LOWEST, _HIGHEST, _POINTS = -8, 12, 400

# Prior odds of shapes, by whether all pairs differ or an unknown share of them does,
# and of a feature whose values are all alike.
_SHAPES = {
    ("normal", False): 0.35,
    ("normal", True): 0.1,
    ("lognormal", False): 0.15,
    ("lognormal", True): 0.05,
    ("cauchy", False): 0.05,
    ("two values", True): 0.2,
    ("counts", True): 0.1,
}
_ALIKE = 0.1

# Scale of the prior's heavy tail in octaves, and the share of the prior that is made of
# the scales of all features, within so many octaves of each.
_TAIL, _SHARED, _NEAR = 8.0, 0.5, 3

# Error of a shape, as a share of the pairs: laws of real features are none of these.
_MISFIT = 0.04

# A feature is seen if so much of the posterior lies within an octave of a scale.
_SURE = 0.5

# Features that are read together, and odds that are not followed further.
_PANEL, _NEGLIGIBLE = 16, -12.0

# Logarithmic odds of a single scale from which a feature may well be seen.
_NO_DOUBT = 3.0


def public_size(n_samples: int, n_features: int, epsilon: float, delta: float) -> float:
    """Return a number of rows in units of sqrt(n_features) / mu."""
    return n_samples * gaussian_mu(epsilon, delta) / math.sqrt(n_features)


class Shape(NamedTuple):
    """Expected counts of a law of scale 1, (_STEPS, windows), and its moment."""

    windows: np.ndarray
    square: float


def overlapping(counts: np.ndarray, width: int) -> np.ndarray:
    """Return counts in windows of so many neighbors on a circle, by their first one."""
    out = counts.copy()
    for shift in range(1, width):
        out += np.roll(counts, shift, axis=-1)
    return out / math.sqrt(width)


def _windows(counts: np.ndarray) -> np.ndarray:
    """Return counts in overlapping windows, from counts by octaves."""
    length = counts.shape[-1]
    out = np.zeros((*counts.shape[:-1], length + _WIDTH - 1))
    for shift in range(_WIDTH):
        out[..., shift : shift + length] += _WEIGHT * counts
    return out


@functools.cache
def _shapes() -> dict[str, Shape]:
    """Return the shapes, by name."""
    levels = (np.arange(_POINTS) + 0.5) / _POINTS
    laws = {
        "normal": ndtri(levels),
        "lognormal": np.exp(ndtri(levels)),
        "cauchy": np.tan(np.pi * (levels - 0.5)),
        "two values": np.array([0.0, 1.0]),
        "counts": np.floor(-2.0 * np.log1p(-levels)),
    }
    # The Cauchy law has no variance: that of a normal law of the same quartiles.
    squares = {"cauchy": 2.0 / ndtri(0.75) ** 2}
    found = {}
    for name, law in laws.items():
        sizes = np.abs(law[:, None] - law)[np.triu_indices(len(law), 1)]
        sizes = sizes[sizes > 0.0]
        counts = np.zeros((_STEPS, _HIGHEST - _LOWEST))
        for step in range(_STEPS):
            octave = np.floor(np.log2(sizes) + step / _STEPS).astype(int)
            octave = np.clip(octave, _LOWEST, _HIGHEST - 1) - _LOWEST
            counts[step] = np.bincount(octave, minlength=counts.shape[1]) / len(sizes)
        square = squares.get(name, float(np.mean(sizes**2)))
        found[name] = Shape(_windows(counts), square)
    return found


@dataclass(frozen=True)
class ScaleWindows(Statistic):
    """Scales of features from counts of differences in overlapping windows.

    Fewer rows suffice than for histograms of single octaves, whose scales rest on no
    shape of a law. Means are not released. A `box` holds public bounds of each feature.
    With `holes`, values may be NaN, and a share of the pairs that has no difference may
    be of missing values.
    """

    n_samples: int
    n_features: int
    box: Box | None = None
    holes: bool = False
    name: str = "windows"

    @property
    def order(self) -> PairOrder:
        """Pairs of rows; each row is in two of them."""
        return PairOrder(self.n_samples, self.n_features, 1)

    @property
    def octaves(self) -> tuple[int, int]:
        """First octave, and the one after the last, from the number of features."""
        return octaves_within_memory(self.n_features)

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        first, end = self.octaves
        # Windows, and the count of all differences that are no ties.
        shape = (self.n_features, end - first + _WIDTH)
        moved = sensitivity.difference_windows_sensitivity(self.n_features)
        more = {"magnitude": self.order.n_pairs, "lemma": "difference-windows"}
        return calibrate_alike([self.name], moved, mu, shape, **more)

    def exact(self, rows: Any) -> np.ndarray:
        """Return what is released of rows, without noise."""
        first, end = self.octaves
        kernel = partial(
            features.octaves_of_differences,
            n_features=self.n_features,
            first_octave=first,
            n_octaves=end - first,
        )
        bounded = None if self.box is None else self.box.to_unit
        counts = walks.reduce_rows(rows, PairWalk(self.order, bounded), kernel)
        return np.column_stack([_windows(counts), counts.sum(axis=1)])

    def run(self, release: Any, rows: Any, *given: Any) -> FeatureLaw:
        """Release the windows of rows; return the scales that they show."""
        return self.law(*self.released(release, rows))

    def released(self, release: Any, rows: Any) -> tuple[np.ndarray, float]:
        """Release the windows of rows; return them and the deviation of their noise."""
        exact = self.exact(rows)
        counts = release(self.name, exact, overwrite=True)
        return counts, getattr(release.plan[self.name], "noise_std", 0.0)

    def law(self, released: np.ndarray, noise: float) -> FeatureLaw:
        """Return scales from released counts whose noise has a deviation."""
        return in_units(self, None, *self.scales(released, noise))

    def scales(self, released, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """Return scales in units of a box, if any, and which of them are seen."""
        logs, seen = self._read(released, noise, self._prior())
        if seen.any():
            place = np.rint(logs[seen]).astype(int) - self._first_place
            near = np.bincount(
                np.clip(place, 0, self._n_places - 1), minlength=self._n_places
            )
            near = np.convolve(near, np.ones(2 * _NEAR + 1), mode="same")
            shared = near / near.sum()
            prior = (1.0 - _SHARED) * self._prior() + _SHARED * shared
            logs, seen = self._read(released, noise, prior)
        return np.exp2(np.clip(np.where(seen, logs, 0.0), -1000.0, 1000.0)), seen

    def remarks(self) -> tuple[str, ...]:
        """Return sentences for the statement of the guarantee."""
        return (
            "Scales of features are estimated from counts of differences, based on "
            "the shapes of common distributions, and which features are unseen is "
            "part of the release.",
        )

    def unseen_features(self, plan: Any) -> tuple[str, ...]:
        """Say, from public numbers, if rows are too few for scales."""
        mu = getattr(plan[self.name], "mu", math.inf)
        needed = math.ceil(FEWEST_ROWS * math.sqrt(self.n_features) / mu)
        if self.n_samples >= needed:
            return ()
        said = (
            f"{self.n_samples} rows are too few to estimate {self.n_features} private "
            f"scales at this budget; at least {needed} are needed. Some features may "
            "be unseen, or their scales wrong by more than a factor of 2"
        )
        return (said,)

    # -- posterior ---------------------------------------------------------------------

    @property
    def _first_place(self) -> int:
        """Octave of the smallest scale that is tried."""
        return self.octaves[0]

    @property
    def _n_places(self) -> int:
        return self.octaves[1] - self.octaves[0]

    def _prior(self) -> np.ndarray:
        """Return the prior probability of the octave of a scale."""
        place = self._first_place + np.arange(self._n_places)
        # With lighter tails than Cauchy's, noise far from 1 is rarely taken for a
        # scale: 2e-39 was, of columns of few ones.
        weights = (1.0 + (place / _TAIL) ** 2) ** -2.0
        return weights / weights.sum()

    def _read(self, released, noise: float, prior) -> tuple[np.ndarray, np.ndarray]:
        """Return logarithms of scales to the base 2, and which of them are seen."""
        logs, seen = np.zeros(len(released)), np.zeros(len(released), dtype=np.bool_)
        for start in range(0, len(released), _PANEL):
            panel = released[start : start + _PANEL]
            feature, found, odds = self._candidates(panel, noise, prior)
            ends = np.searchsorted(feature, np.arange(len(panel) + 1))
            # What is left are a few numbers of each feature.
            for row, first, end in zip(count(start), ends, ends[1:], strict=False):
                own = slice(first, end)
                logs[row], seen[row] = _within_an_octave(found[own], odds[own])
        return logs, seen

    def _hidden(self, tried: list, rows: np.ndarray, log_prior) -> np.ndarray:
        """Return which of some features are not seen whatever their exact odds are."""
        n_places, n_pairs = len(log_prior), self.order.n_pairs
        masses = np.zeros((len(rows), n_places + _HIGHEST))
        total, best, reach = np.ones(len(rows)), np.zeros(len(rows)), 0.0
        for name, ties, step, _, square, known, spread, low, high in tried:
            mass = high[rows] + (log_prior + known)
            best = np.maximum(best, mass.max(axis=1))
            mass = np.exp(np.minimum(mass, _NO_DOUBT, out=mass), out=mass)
            # Octave of the largest scale of a place, from the lowest that there is.
            octave = step / _STEPS + 0.5 * math.log2(0.5 * _shapes()[name].square)
            first = math.floor(octave) + 1
            masses[:, first : first + n_places] += mass
            if ties:
                share = min(spread / math.sqrt(square) / n_pairs, 1.0)
                reach = max(reach, -0.5 * math.log2(share))
                mass = low[rows] + (log_prior + known)
                mass = np.exp(np.minimum(mass, _NO_DOUBT, out=mass), out=mass)
            total += mass.sum(axis=1)
        # Scales within an octave of one lie in three octaves that follow each other.
        near = masses.copy()
        for shift in range(1, 3 + math.ceil(reach)):
            near[:, shift:] += masses[:, :-shift]
        # What is negligible may not be among all.
        total -= len(tried) * n_places * np.exp(best + _NEGLIGIBLE)
        return (best < _NO_DOUBT) & (near.max(axis=1) < (_SURE - 1e-6) * total)

    def _tried(self, panel, noise: float) -> Iterator[tuple]:
        """Yield shapes with their products with counts, and bounds on their odds."""
        n_pairs, products = self.order.n_pairs, self._products(panel)
        spread = math.hypot(noise, _MISFIT * n_pairs)
        for (name, ties), share in _SHAPES.items():
            if self.holes and not ties and (name, True) in _SHAPES:
                continue
            # Nothing tells where in the octave the gap between two values is.
            steps = 1 if name == "two values" else _STEPS
            known = math.log(share * (_STEPS // steps) / _ALIKE)
            for step in range(steps):
                product, square = products[name, step]
                if ties:
                    low, odds = _near_any_share(product, square, spread, n_pairs)
                else:
                    odds = n_pairs * (product - 0.5 * n_pairs * square) / spread**2
                    low = odds
                yield name, ties, step, product, square, known, spread, low, odds

    def _candidates(self, panel, noise: float, prior):
        """Return indices of features, scales of a posterior, and logarithmic odds."""
        n_pairs, log_prior = self.order.n_pairs, np.log(prior / _STEPS)
        tried, least = list(self._tried(panel, noise)), np.zeros((len(panel), 1))
        for *_, known, _, low, _ in tried:
            best = (low + (log_prior + known)).max(axis=1, keepdims=True)
            least = np.maximum(least, best)
        found, limit = [], least + (_NEGLIGIBLE - 1e-6)
        rows = np.flatnonzero(least < _NO_DOUBT)
        limit[rows[self._hidden(tried, rows, log_prior)]] = np.inf
        for name, ties, step, product, square, known, spread, _, odds in tried:
            row, place = np.nonzero(odds + (log_prior + known) > limit)
            odds = odds[row, place]
            pairs = np.full_like(odds, n_pairs)
            if ties:
                product = product[row, place]
                odds, pairs = of_any_share(product, square, spread, n_pairs)
            odds = odds + log_prior[place] + known
            moment = _shapes()[name].square * pairs / (2.0 * n_pairs)
            logs = self._first_place + place + step / _STEPS + 0.5 * np.log2(moment)
            found.append((row, logs, odds))
        fields = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        order = np.argsort(fields[0], kind="stable")
        return tuple(field[order] for field in fields)

    def _products(self, panel) -> dict[tuple[str, int], tuple[np.ndarray, float]]:
        """Return products of shapes with counts, and with themselves."""
        windows, total = panel[:, :-1], panel[:, -1:]
        width = _HIGHEST - _LOWEST + _WIDTH - 1
        padded = np.pad(windows, ((0, 0), (-_LOWEST, width)))
        term, found = np.empty((len(panel), self._n_places)), {}
        for name, shape in _shapes().items():
            for step, template in enumerate(shape.windows):
                product = np.zeros_like(term)
                for k in np.flatnonzero(template > 1e-4):
                    shifted = padded[:, k : k + term.shape[1]]
                    product += np.multiply(template[k], shifted, out=term)
                product += total
                found[name, step] = product, 1.0 + float(template @ template)
        return found


def _near_any_share(products, square: float, spread: float, n_pairs: int):
    """Return lower and upper bounds on odds of :func:`of_any_share`."""
    deviation = spread / math.sqrt(square)
    mean = products * (1.0 / (square * deviation))
    nearest = np.clip(mean, 0.0, n_pairs / deviation)
    # Integrals over [0, n] of exp(x mean - x^2 / 2) grow with the mean; beyond n they
    # are at most those of their tangents there.
    mean -= nearest
    mean *= nearest
    np.multiply(nearest, nearest, out=nearest)
    nearest *= 0.5
    width = math.log(math.sqrt(2.0 * math.pi) * deviation / n_pairs)
    # A mean over [0, n] is at most the largest number there.
    mean += nearest + min(width, 0.0)
    nearest += width + math.log(ndtr(n_pairs / deviation) - 0.5) - 1e-6
    return nearest, mean


def of_any_share(products, square, spread: float, n_pairs):
    """Return odds of a shape in a uniform share of the pairs, and that many pairs."""
    mean, deviation = products / square, spread / np.sqrt(square)
    upper, lower = (n_pairs - mean) / deviation, -mean / deviation
    # The probability of an interval, from the tail that loses no digits.
    flip = lower > 0.0
    high, low = np.where(flip, -lower, upper), np.where(flip, -upper, lower)
    top = log_ndtr(high)
    inside = top + np.log(-np.expm1(np.minimum(log_ndtr(low) - top, -1e-15)))
    odds = 0.5 * (mean / deviation) ** 2 + inside
    odds += np.log(math.sqrt(2.0 * math.pi) * deviation / n_pairs)
    return odds, np.clip(mean, np.minimum(deviation, n_pairs), n_pairs)


def _within_an_octave(logs: np.ndarray, odds: np.ndarray) -> tuple[float, bool]:
    """Return the scale that most of a posterior is near, and whether that suffices."""
    best = float(odds.max(initial=0.0))
    kept = odds > best + _NEGLIGIBLE
    if not kept.any():
        return 0.0, False
    logs, weights = logs[kept], np.exp(odds[kept] - best)
    order = np.argsort(logs)
    logs, weights = logs[order], weights[order]
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    ends = np.searchsorted(logs, logs + 2.0, side="right")
    masses = sums[ends] - sums[:-1]
    first = int(np.argmax(masses))
    inside = slice(first, int(ends[first]))
    mean = float(np.average(logs[inside], weights=weights[inside]))
    return mean, bool(masses[first] >= _SURE * (sums[-1] + math.exp(-best)))
