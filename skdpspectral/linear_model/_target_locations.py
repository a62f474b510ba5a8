"""Private means and medians of targets, for models that are constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from .. import sensitivity
from .._linalg.walks import RowWalk, reduce_rows
from .._statistics.statistic import Combination, Statistic, mean_summation_error
from .._tables.clipping import Box, clip_rows
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact, Gaussian, Neighbors


def one_release(name, moved: float, mu: float, shape, *, symmetric=False, **how):
    """Plan one release at a cost of mu; infinite for no noise."""
    if not math.isfinite(mu):
        return (Exact(name, shape, symmetric=symmetric),)
    return (calibrate_gaussian(name, moved, mu, shape, symmetric=symmetric, **how),)


# Votes of a search through all floats, and of one through lengths.
_VOTES, _LENGTH_VOTES = 24, 12

# Rows for each deviation of a vote's noise that a median needs, and that one needs by
# which the box of a mean is made.
_ROWS_PER_NOISE, _ROWS_PER_NOISE_OF_BOX = 3.5, 6.0

# Share of all rows that a vote is taken to win or lose by: rows on both sides of a
# limit near the median win by less.
_MAJORITY = 0.5

# Largest change of log-odds by one vote.
_SUREST = 30.0


def _key_of_float(values: np.ndarray) -> np.ndarray:
    """Return integers of floats in the same order, octaves evenly spaced; 0 of 0."""
    return np.copysign(np.abs(values).view(np.int64), values).astype(np.int64)


def _float_of_key(keys: np.ndarray) -> np.ndarray:
    """Return floats of integers in the same order; 0 of 0."""
    return np.copysign(np.abs(keys).view(np.float64), keys)


# Limits of parts of the positive floats, and how likely a magnitude is in each.
_PARTS = _key_of_float(np.array([0.0, 2.0**-30, 2.0**30, np.finfo(float).max]))
_LIKELY = np.array([0.1, 0.8, 0.1])


@dataclass(frozen=True)
class Medians(Statistic):
    """Medians of targets of any magnitude, by votes above limits.

    Each limit halves the probability of where a median is, by all votes before: a wrong
    vote is outvoted by later ones. They need far fewer rows than scales do. With
    `of_lengths` they are those of the distances from given centers.
    """

    n_samples: int
    n_targets: int
    of_lengths: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the votes."""
        if self.of_lengths:
            return tuple(f"spread_{step}" for step in range(_LENGTH_VOTES))
        return tuple(f"median_{step}" for step in range(_VOTES))

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan one vote."""
        moved = sensitivity.vote_sensitivity(self.n_targets, Neighbors.REPLACE_ONE)
        shape, most = (self.n_targets,), float(self.n_samples)
        return calibrate_gaussian(name, moved, mu, shape, magnitude=most)

    def each(self, mu: float) -> tuple:
        """Plan all votes at a cost of mu each; infinite for no noise."""
        if math.isfinite(mu):
            return super().each(mu)
        return tuple(Exact(name, (self.n_targets,)) for name in self.names)

    def are_sure(self, mu: float, rows_per_noise: float = _ROWS_PER_NOISE) -> bool:
        """Whether all rows together outvote the noise, at a cost of mu."""
        noise = math.sqrt(self.n_targets * len(self.names)) / mu
        return rows_per_noise * noise < self.n_samples

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release medians of the columns of rows, or of lengths from given centers."""
        (center,) = given or (None,)
        edges, logs = self._prior()
        for name in self.names:
            limits, edges, logs = _halved(edges, logs)
            kernel = partial(_votes_above, limits=limits, center=center)
            votes = release(name, reduce_rows(rows, RowWalk(), kernel))
            noise = getattr(release.plan[name], "noise_std", 0.0)
            with np.errstate(all="ignore"):
                odds = _MAJORITY * self.n_samples * votes / noise**2
            odds = np.clip(np.nan_to_num(odds), -_SUREST, _SUREST)[:, None]
            above = edges[:, :-1] >= _key_of_float(limits)[:, None]
            logs = logs + np.where(above, 0.5, -0.5) * odds
        return _nearest_to_half(edges, logs)

    def _prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Return edges of intervals of keys, and log-probabilities, per target."""
        edges, likely = _PARTS, _LIKELY
        if not self.of_lengths:
            edges = np.concatenate([-edges[:0:-1], edges])
            likely = np.concatenate([likely[::-1], likely])
        shape = self.n_targets, 1
        return np.tile(edges, shape), np.tile(np.log(likely), shape)


def _halved(edges: np.ndarray, logs: np.ndarray) -> tuple:
    """Return the limits that halve the probabilities, and the intervals cut there.

    Keys are even within an interval; `edges` has shape (k, m + 1) and `logs` (k, m).
    """
    shares = softmax(logs, axis=1)
    below = np.cumsum(shares, axis=1)
    at = np.argmax(below >= 0.5 * below[:, -1:], axis=1)
    rows = np.arange(len(logs))
    own = shares[rows, at]
    part = np.clip((0.5 - below[rows, at] + own) / own, 0.01, 0.99)
    low, high = edges[rows, at], edges[rows, at + 1]
    # Of parts of each: their difference may overflow.
    cut = (low * (1.0 - part) + high * part).astype(np.int64)
    order = np.arange(logs.shape[1] + 1)
    logs = np.take_along_axis(logs, order - (order > at[:, None]), axis=1)
    logs[rows, at] += np.log(part)
    logs[rows, at + 1] += np.log1p(-part)
    edges = np.sort(np.column_stack([edges, cut]), axis=1)
    return _float_of_key(cut), edges, logs


def _nearest_to_half(edges: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return the limits, of those voted on, that come nearest to half the probability.

    Between them, an interval may reach over many magnitudes.
    """
    below = np.cumsum(softmax(logs, axis=1), axis=1)[:, :-1]
    edges = edges[:, 1:-1]
    below = np.where(np.isin(np.abs(edges), _PARTS[1:]), np.inf, below)
    at = np.argmin(np.abs(below - 0.5), axis=1)
    return _float_of_key(edges[np.arange(len(edges)), at])


def _votes_above(blocks, limits: np.ndarray, center: np.ndarray | None) -> np.ndarray:
    """Votes of one half: for each value above a limit, and against it below."""
    votes = np.zeros(len(limits))
    for block in blocks:
        if center is not None:
            with np.errstate(all="ignore"):
                block = np.abs(block - center)
        votes += (np.asarray(block) > limits).sum(axis=0) - 0.5 * len(block)
    return votes


# Deviation of means from the middle of their box, in half of its extent, by which the
# noisy means are shrunk to it.
_LIKELY_MEAN = 0.5


@dataclass(frozen=True)
class TargetMeans(Statistic):
    """Means of columns in a public or released box, shrunk to its middle.

    `likely` is their deviation from it, in half of its extent; None to estimate it.
    """

    n_samples: int
    n_targets: int
    name: str = "target_means"
    likely: float | None = _LIKELY_MEAN

    @property
    def _radius(self) -> float:
        """Length of the longest row in a unit box."""
        return sensitivity.box_radius(np.ones(self.n_targets))

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        n, k = self.n_samples, self.n_targets
        moved = sensitivity.mean_sensitivity(self._radius, n)
        error = mean_summation_error(self._radius, n, k)
        return one_release(self.name, moved, mu, (k,), summation_error=error)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release means of the columns of rows in a given box."""
        (box,) = given
        walk = RowWalk(partial(_in_unit_box, box=box, radius=self._radius))
        sums = reduce_rows(rows, walk, sum_of_targets)
        mean = release(self.name, sums / self.n_samples)
        noise = getattr(release.plan[self.name], "noise_std", 0.0)
        square = max(float(np.mean(mean**2)) - noise**2, 0.0)
        if self.likely is not None:
            square = self.likely**2
        mean *= square / max(square + noise**2, np.finfo(float).tiny)
        widths = box.half_widths
        return box.midpoint + np.clip(mean, -widths, widths) * box.unit


def _in_unit_box(block, box: Box, radius: float) -> np.ndarray:
    """Return rows in the unit box; those with values that are no numbers become 0."""
    rows = box.to_unit(np.asarray(block, dtype=np.float64))
    return clip_rows(rows, radius, out=rows)


def sum_of_targets(blocks) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.sum([rows.sum(axis=0) for rows in blocks], axis=0)


# Shares of mu**2 of medians, of median distances from these, and of the means of what
# is within a few of those distances.
_LOCATION_SHARES = {"medians": 0.4, "spreads": 0.2, "means": 0.4}

_DISTANCES = 3.0

_FARTHEST_TARGET = 1e300


class TargetLocations(Combination):
    """What a model without coefficients predicts: means in a box, or medians.

    The box is public, or is made of medians where rows suffice for all three releases.
    `are_sure` is whether these can be relied on, at a cost of mu.
    """

    def __init__(self, n_samples: int, n_targets: int, box: Box | None, mu: float):
        self.box, self.are_sure = box, True
        medians, means = (
            Medians(n_samples, n_targets),
            TargetMeans(n_samples, n_targets),
        )
        parts: dict[str, Statistic] = {"means": means}
        if box is None:
            spreads = Medians(n_samples, n_targets, of_lengths=True)
            parts = {"medians": medians, "spreads": spreads, "means": means}
            costs = {k: math.sqrt(v) * mu for k, v in _LOCATION_SHARES.items()}
            if not medians.are_sure(costs["medians"], _ROWS_PER_NOISE_OF_BOX):
                parts, self.are_sure = {"medians": medians}, medians.are_sure(mu)
        total = sum(_LOCATION_SHARES[name] for name in parts)
        counts = {name: len(part.names or ("",)) for name, part in parts.items()}
        shares = {k: _LOCATION_SHARES[k] / total / counts[k] for k in parts}
        super().__init__(parts, shares)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release locations of the columns of rows."""
        parts, box = self.parts(), self.box
        if box is None:
            found = parts["medians"].run(release, rows)
            if "means" not in parts:
                return found
            found = np.clip(found, -_FARTHEST_TARGET, _FARTHEST_TARGET)
            spread = _DISTANCES * parts["spreads"].run(release, rows, found)
            spread = np.clip(spread, np.finfo(float).tiny, _FARTHEST_TARGET)
            box = Box(found - spread, found + spread, len(found), per_feature=True)
        return parts["means"].run(release, rows, box)
