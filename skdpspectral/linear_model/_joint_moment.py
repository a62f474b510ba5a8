"""The private joint second moment of features and targets.

One release of it serves all penalties of a linear model, and its intervals. Constant
models use private means and medians of targets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from .. import sensitivity
from .._linalg.eigen import pack_lower, packed_diagonal, unpack_lower
from .._linalg.walks import (
    RowWalk,
    reduce_rows,
    rows_per_block,
    sum_of_outer_products,
)
from .._statistics.feature_scales import FARTHEST, FeatureScales
from .._statistics.statistic import Choice, Combination, Statistic, mean_summation_error
from .._tables.clipping import Box, clip_rows
from .._tables.clusters import ClusterRows, cluster_table, is_on_cluster
from .._tables.files import rows_beside
from .._tables.table import DeferredRead, deferred_rows, deferred_targets, rows_at
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Neighbors
from . import _kernels_ridge as kernels
from ._ridge_basis import Basis, chosen_basis

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
    """Map floats to integers in the same order, with evenly spaced octaves."""
    return np.copysign(np.abs(values).view(np.int64), values).astype(np.int64)


def _float_of_key(keys: np.ndarray) -> np.ndarray:
    """Invert :func:`_key_of_float`."""
    return np.copysign(np.abs(keys).view(np.float64), keys)


# Limits of parts of the positive floats, and how likely a magnitude is in each.
_PARTS = _key_of_float(np.array([0.0, 2.0**-30, 2.0**30, np.finfo(float).max]))
_LIKELY = np.array([0.1, 0.8, 0.1])


@dataclass(frozen=True)
class Medians(Statistic):
    """Medians of targets of any magnitude, by votes above limits.

    Each limit halves the posterior probability of the median's location, so that later
    votes correct wrong ones. This needs far fewer rows than scales. With `of_lengths`
    they are medians of distances from given centers.
    """

    n_samples: int
    n_targets: int
    of_lengths: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        name, n_votes = "median", _VOTES
        if self.of_lengths:
            name, n_votes = "spread", _LENGTH_VOTES
        return tuple(f"{name}_{step}" for step in range(n_votes))

    def each(self, mu: float) -> tuple:
        """Plan all votes at a cost of mu each; infinite mu means no noise."""
        moved = sensitivity.vote_sensitivity(self.n_targets, Neighbors.REPLACE_ONE)
        more = {"magnitude": float(self.n_samples), "lemma": "votes"}
        names, shape = self.names, (self.n_targets,)
        first: Any = calibrate_alike(names[:1], moved, mu, shape, **more)[0]
        return tuple(replace(first, name=name) for name in names)

    def are_sure(self, mu: float, rows_per_noise: float = _ROWS_PER_NOISE) -> bool:
        """Return whether all rows together outvote the noise at a cost of mu."""
        noise = math.sqrt(self.n_targets * len(self.names)) / mu
        return rows_per_noise * noise < self.n_samples

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release medians of the columns of rows, or of lengths from given centers."""
        (center,) = given or (None,)
        edges, likely = _PARTS, _LIKELY
        if not self.of_lengths:
            edges = np.concatenate([-edges[:0:-1], edges])
            likely = np.concatenate([likely[::-1], likely])
        # Intervals of keys and their log-probabilities, for each target.
        edges, logs = (np.tile(a, (self.n_targets, 1)) for a in (edges, np.log(likely)))
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


def _halved(edges: np.ndarray, logs: np.ndarray) -> tuple:
    """Return limits that halve the probabilities, and the intervals that they split."""
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
    """Return the limits used in votes that are closest to half the probability."""
    below = np.cumsum(softmax(logs, axis=1), axis=1)[:, :-1]
    edges = edges[:, 1:-1]
    below = np.where(np.isin(np.abs(edges), _PARTS[1:]), np.inf, below)
    at = np.argmin(np.abs(below - 0.5), axis=1)
    return _float_of_key(edges[np.arange(len(edges)), at])


def _votes_above(blocks, limits: np.ndarray, center: np.ndarray | None) -> np.ndarray:
    """Return sums of votes: plus or minus one half for each value and limit."""
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

    `likely` is their prior deviation in half-widths; None to estimate it.
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
        n, k = self.n_samples, self.n_targets
        moved = sensitivity.mean_sensitivity(self._radius, n)
        error = mean_summation_error(self._radius, n, k)
        more = {"summation_error": error, "lemma": "private-center"}
        return calibrate_alike([self.name], moved, mu, (k,), **more)

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
    """Return rows in the unit box; rows with NaN become 0."""
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
    """The predictions of a model without coefficients: means in a box, or medians.

    The box is public, or derived from medians if there are enough rows for all three
    releases. `are_sure` is whether these are reliable at a cost of mu.
    """

    def __init__(self, n_samples: int, n_targets: int, box: Box | None, mu: float):
        self.box, self.are_sure = box, True
        shape = n_samples, n_targets
        parts: dict[str, Statistic] = {"means": TargetMeans(*shape)}
        if box is None:
            medians, spreads = Medians(*shape), Medians(*shape, of_lengths=True)
            parts = {"medians": medians, "spreads": spreads, **parts}
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


# -- rows with their targets -------------------------------------------------------


@dataclass(frozen=True)
class JointRows:
    """Features and targets of the same rows, in memory, in files or on a cluster."""

    X: Any
    y: Any

    def at(self, places: np.ndarray) -> JointRows:
        """Return the rows at some places, in memory."""
        return JointRows(rows_at(self.X, places), rows_at(self.y, places))

    def of(self, *names: str, step: int = 1) -> Any:
        """Return "X", "y" or both side by side, of every `step`-th row."""
        return rows_beside([getattr(self, name) for name in names], step)


def deferred_joint_rows(estimator, X, y, targets_of=None) -> DeferredRead:
    """Check the form of rows and their targets, without reading values.

    `shape` is that of the targets, and ``read()`` returns :class:`JointRows`.
    ``targets_of(y, n_rows)`` reads labels in memory.
    """
    unread = deferred_rows(estimator, X, in_blocks=True)
    table, n_rows = cluster_table(X), unread.shape[0]
    distant = targets_of is None and table is not None and is_on_cluster(y)
    if distant:
        reader = partial(deferred_targets, estimator, beside=table)
    else:
        reader = targets_of or partial(deferred_targets, estimator, several=True)
    targets = reader(y, n_rows)

    def read():
        rows, values = unread.read(), targets.read()
        parts, width = values, 1
        if not distant:
            values = values.reshape(n_rows, -1)
            if table is None:
                return JointRows(rows, values)
            parts, width = table.cut(values), values.shape[1]
        joint = JointRows(rows, ClusterRows(parts, table.sizes, width))
        if distant:  # every value is checked
            reduce_rows(joint.of("y"), RowWalk(), sum_of_targets)
        return joint

    return DeferredRead((n_rows,) if distant else targets.shape, read)


# -- what is released of them ------------------------------------------------------


class Units(NamedTuple):
    """Public or released locations and scales of columns, and whether they are seen."""

    center: np.ndarray
    scale: np.ndarray
    seen: np.ndarray


@dataclass(frozen=True)
class MeanSquare(Statistic):
    """Mean squared length of rows in a box, relative to the longest row."""

    n_samples: int
    n_columns: int
    name: str = "mean_square"

    def mechanisms(self, mu: float) -> tuple:
        # Numbers in [0, 1] are in a ball of half that size.
        moved = sensitivity.mean_sensitivity(0.5, self.n_samples)
        error = mean_summation_error(1.0, self.n_samples, self.n_columns)
        more = {"summation_error": error, "lemma": "private-center"}
        return calibrate_alike([self.name], moved, mu, (1,), **more)

    def run(self, release: Any, rows: Any, *given: Any) -> float:
        """Release it for rows about given centers, given scales and length."""
        center, scale, longest = given
        row_map = partial(_standardize, center=center, weights=1.0 / (scale * longest))
        total = reduce_rows(rows, RowWalk(row_map), _sum_of_squares)
        return float(release(self.name, total / self.n_samples)[0])


def _standardize(block, center, weights) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (np.asarray(block, np.float64) - center) * weights


def _sum_of_squares(blocks) -> np.ndarray:
    """Return the sum of squared lengths of rows, each at most 1."""
    total = np.zeros(1)
    for rows in blocks:
        with np.errstate(all="ignore"):
            squares = np.nan_to_num(np.vecdot(rows, rows))
        total += np.minimum(squares, 1.0).sum()
    return total


@dataclass(frozen=True)
class JointMoment(Statistic):
    """The second moment of features, targets and a constant, for rows in the unit ball.

    Columns that are not seen are zero apart from noise. `n_columns` excludes the
    constant.
    """

    n_samples: int
    n_columns: int
    intercept: bool
    name: str = "joint_moment"

    def mechanisms(self, mu: float) -> tuple:
        shape = (self.n_columns + self.intercept,) * 2
        n, p = self.n_samples, self.n_columns
        return calibrate_alike(
            [self.name],
            sensitivity.second_moment_sensitivity(1.0, n),
            mu,
            shape,
            symmetric=True,
            summation_error=mean_summation_error(1.0, n, p),
            magnitude=2.0,
            lemma="joint-rows",
        )

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moment of the given columns, under a given map."""
        row_map, kept = given
        kernel = partial(sum_of_outer_products, n_features=len(kept))
        exact = np.zeros((self.n_columns + self.intercept,) * 2)
        sums = reduce_rows(
            rows, RowWalk(row_map, rows_per_block(self.n_columns)), kernel
        )
        exact[np.ix_(kept, kept)] = sums / self.n_samples
        return release(self.name, exact, overwrite=True)[np.ix_(kept, kept)]


class StandardRows(NamedTuple):
    """A map to standardized regressors, with a constant if `intercept`, and targets.

    `limits`, `center` and `scale` are of the chosen `columns`, of which the last ones
    are the targets. With a `basis`, regressors are its columns of chosen features.
    """

    columns: np.ndarray
    n_targets: int
    limits: Any
    center: np.ndarray
    scale: np.ndarray
    intercept: bool
    basis: Basis | None = None

    @property
    def inputs(self) -> np.ndarray:
        """Positions of the regressors among all features, or columns of the basis."""
        inputs = self.columns[: len(self.columns) - self.n_targets]
        if self.basis is None:
            return inputs
        return np.flatnonzero(np.isin(self.basis.sources(), inputs).all(axis=1))

    def __call__(self, block) -> tuple[np.ndarray, np.ndarray]:
        block = np.asarray(block, dtype=np.float64)[:, self.columns]
        stop = len(self.columns) - self.n_targets
        with np.errstate(all="ignore"):
            rows = np.clip(block, *self.limits)
            rows = _standardize(rows, self.center, 1.0 / self.scale)
            inputs, targets = rows[:, :stop], rows[:, stop:]
            if self.basis is not None:
                full = np.zeros((len(rows), len(self.basis.expanded)))
                full[:, self.columns[:stop]] = inputs
                inputs = self.basis.expand(full)[:, self.inputs]
        return np.append(
            inputs, np.ones((len(rows), int(self.intercept))), axis=1
        ), targets


def bounded_joint_rows(block, standard, radius, weight) -> np.ndarray:
    """Return regressors, weighted targets and a constant, in the unit ball.

    Rows longer than `radius` are scaled down as a whole, which preserves linear
    relations.
    """
    rows, targets = standard(block)
    stop = rows.shape[1] - standard.intercept
    with np.errstate(all="ignore"):
        parts = rows[:, :stop], weight * targets, rows[:, stop:]
        out = np.concatenate(parts, axis=1) / radius
    return clip_rows(out, 1.0, out=out)


def weighted_rows(block, standard, radius) -> tuple[np.ndarray, np.ndarray]:
    """Return regressors in the unit ball, in radii, and targets of the same weights."""
    rows, targets = standard(block)
    with np.errstate(all="ignore"):
        rows = clip_rows(rows / radius, 1.0)
        return rows, targets * (rows[:, -1:] * radius)


def bounded_weighted_rows(block, standard, radius, weight, reach, length) -> np.ndarray:
    """Return weighted rows, with targets cut at `reach`, in the unit ball."""
    rows, targets = weighted_rows(block, standard, radius)
    with np.errstate(all="ignore"):
        parts = rows[:, :-1], weight * np.clip(targets, -reach, reach) / radius
        out = np.concatenate([*parts, rows[:, -1:]], axis=1) * (radius / length)
    return clip_rows(out, 1.0, out=out)


# Rows of more than this share of the radius have a part in the test of linearity, in
# which they are weighted as if this were the radius.
_FAR_ROWS = 0.7

# Deviations of residuals at which they are cut: the most between these by which the
# noise of scores is at most this part of their sampling error.
_RESIDUALS, _SCORE_NOISE = (4.0, 8.0), 0.5


def residual_rows(block, standard, radius, coefficients, reach, far) -> tuple:
    """Return rows in the unit ball, and residuals cut at `reach`, in units of it.

    With `far`, rows are multiplied by the share that they lose of their squared weight
    if the radius is smaller, in units of the largest one.
    """
    rows, targets = weighted_rows(block, standard, radius)
    with np.errstate(all="ignore"):
        found = targets - (rows * radius) @ coefficients
        found = np.nan_to_num(np.clip(found / reach, -1.0, 1.0))
        if far:
            lengths = np.sqrt(np.vecdot(rows, rows))
            lost = 1.0 - np.minimum(1.0, _FAR_ROWS / lengths) ** 2
            rows *= np.minimum(lost / (1.0 - _FAR_ROWS**2), 1.0)[:, None]
    return rows, found


def sums_of_scores(blocks, order: int, n_targets: int) -> np.ndarray:
    """Return sums of rows times residuals, and of their outer products, by target."""
    total = np.zeros((n_targets, order, order + 1))
    for rows, residuals in blocks:
        for j in range(n_targets):
            scores = rows * residuals[:, j : j + 1]
            total[j, :, 0] += scores.sum(axis=0)
            total[j, :, 1:] += scores.T @ scores
    return total


@dataclass(frozen=True)
class ResidualMoments(Statistic):
    """Means of scores and their second moments, which cost nothing besides.

    `n_columns` are regressors, with the constant.
    """

    n_samples: int
    n_columns: int
    n_targets: int
    name: str

    def mechanisms(self, mu: float) -> tuple:
        n, p, k = self.n_samples, self.n_columns, self.n_targets
        moved = sensitivity.residual_moments_sensitivity(n, k)
        # Packed entries are rounded once more.
        error = 2.0 * mean_summation_error(1.5 * math.sqrt(k), n, p - 1 + k)
        more = {"summation_error": error, "magnitude": 2.0}
        return calibrate_alike(
            [self.name],
            moved,
            mu,
            (k, p + p * (p + 1) // 2),
            lemma="residual-moments",
            **more,
        )

    def run(self, release: Any, rows: Any, *given: Any) -> tuple:
        """Release means (k, P), and moments (k, P, P), of mapped rows and columns.

        The last value is the deviation of the noise of the means.
        """
        row_map, kept, targets = given
        kernel = partial(sums_of_scores, order=len(kept), n_targets=len(targets))
        sums = reduce_rows(rows, RowWalk(row_map), kernel) / self.n_samples
        order, planned = self.n_columns, release.plan[self.name]
        exact = np.zeros(planned.shape)
        off = np.full(planned.shape[1] - order, math.sqrt(2.0 * _SCORE_WEIGHT))
        off[packed_diagonal(order)] = math.sqrt(_SCORE_WEIGHT)
        for j, found in zip(targets, sums, strict=True):
            square = np.zeros((order, order))
            square[np.ix_(kept, kept)] = found[:, 1:]
            exact[j, kept] = found[:, 0]
            exact[j, order:] = pack_lower(square) * off
        found = release(self.name, exact)[targets]
        squares = np.array(
            [unpack_lower(each / off, order) for each in found[:, order:]]
        )
        at = np.ix_(np.arange(len(targets)), kept, kept)
        squares = squares.reshape(-1, order, order)[at]
        return found[:, kept], squares, getattr(planned, "noise_std", 0.0)


# Weight of second moments in the release of scores: the largest one that is free.
_SCORE_WEIGHT = 0.5


# Noise of a mean of unit vectors, over their length, above which no coefficients are
# looked for in public bounds: by the errors on two tables and made data.
_HOPELESS = 0.08

# Shares of mu**2 of the scales of features are such that those which differ in one of
# ten pairs are visible, but at least and at most so much.
_LEAST_SCALES, _MOST_SCALES = 0.25, 0.55

_VISIBLE, _PER_NOISE = 0.1, 20.0

# So are those of targets without bounds, if features need no scales; else it is the
# least. With that alone, R2 is 0 in some fits of five tables of a few thousand rows.
_TARGET_SHARE, _MOST_TARGET_SHARE = 0.06, 0.4

# Share of the mean square of rows in public bounds; and, for classes, that of their
# mean: rows about it are shorter, and so is the radius that they are clipped to.
_SQUARE_SHARE, _CENTER_SHARE = 0.05, 0.08

# With public bounds, share of the pairs that a column must differ in beyond which
# scales are not private ones but a quarter of the bounds' extent.
# Targets are what a fit is for.
_BLIND = {"X": 0.25, "y": 0.15}

# Rows that scales are made of, where there are as many and more: so many at least, and
# as make features visible that differ in this share of the pairs.
_SCALED_ROWS, _RARELY = 100_000, 0.01

# Relative noise at which rows are clipped at their usual length; by how much the radius
# grows where there is less; and its limits in usual lengths.
_USUAL_NOISE, _GROWTH, _LONGEST, _ENDLESS = 0.05, 0.25, 2.0, 1024.0


class Fitted(NamedTuple):
    """The moment of the seen columns, with the units and limits of all columns.

    Columns are features, targets and, with an intercept, a constant. `spread` is the
    deviation of the off-diagonal noise, and `cross_spread` that of products with
    targets. `weighted` are the estimates that intervals are made of, if any.
    """

    matrix: np.ndarray
    spread: float
    cross_spread: float
    units: Units
    limits: tuple[np.ndarray, np.ndarray]
    weighted: Any = None


# Shares of the moment's part of mu**2, where scores are released for intervals.
_INTERVAL_SHARES = {"moment": 0.65, "scores": 0.27, "far": 0.08}

# Lengths of features, in usual ones, and of targets, that weights and limits keep; and
# the length of targets, in that of features. Scores correct what is lost by it.
_KEPT_LENGTH, _KEPT_TARGET, _TARGET_PART = 1.5, 4.0, 0.6

# Limits of counts, over those of DPStandardScaler, where a false alarm is one in fifty
# fits: rows in a wrong unit would fill the moment, and targets are what a fit is for.
_SURER = {"X": 1.12, "y": 1.25}


class RegressionMoments(Combination):
    """Private scales of columns, unless public, followed by the joint moment.

    `boxes` are public boxes of features and of targets, or None. `target_units` are
    public centers and scales of targets, which replace private ones. `square` is the
    mean squared length of features that are standardized already, or None. With
    `intervals`, rows are weighted by features alone, and scores are released besides;
    `blocks` is the block of one-hot columns that each feature is in, -1 for none.
    `basis` is the name of a basis of functions; in it, features whose limits are
    infinite, or in no box of a step before, are numbers.
    """

    def __init__(
        self,
        n_samples: int,
        n_features: int,
        n_targets: int,
        mu: float,
        *,
        boxes: tuple[Box | None, Box | None] = (None, None),
        intercept: bool = True,
        target_units: tuple[float, float] | None = None,
        square: float | None = None,
        intervals: bool = False,
        blocks: np.ndarray | None = None,
        basis: str = "linear",
    ) -> None:
        self.n_samples, self._mu = n_samples, mu
        self.widths = {"X": n_features, "y": n_targets}
        self.boxes = dict(zip(self.widths, boxes, strict=True))
        self.intercept, self.square = intercept, square
        feature_units = None if square is None else (0.0, 1.0)
        self.units = {"X": feature_units, "y": target_units}
        # Scales are computed from every `step`-th row of a long table.
        reach = _RARELY * mu * math.sqrt(_LEAST_SCALES)
        enough = _PER_NOISE * math.sqrt(n_features) / reach
        self.step = max(1, int(n_samples / max(enough, _SCALED_ROWS)))
        parts: dict[str, Statistic] = {}
        shares: dict[str, float] = {}
        for name in ("y", "X"):
            if self._is_scaled(name):
                parts[name] = FeatureScales(
                    -(-n_samples // self.step),
                    self.widths[name],
                    intercept,
                    self.boxes[name],
                    prefix="target_" * (name == "y"),
                    factor=_SURER[name],
                )
                shares[name] = self._scale_share(name)
        if "X" not in parts and square is None:
            if intercept and target_units is not None:
                parts["center"] = TargetMeans(
                    n_samples, n_features, "feature_means", likely=None
                )
                shares["center"] = _CENTER_SHARE
            parts["square"] = MeanSquare(n_samples, n_features + n_targets)
            shares["square"] = _SQUARE_SHARE
        shares["moment"] = 1.0 - sum(shares.values())
        self.blocks = np.full(n_features, -1) if blocks is None else blocks
        expanded, others = np.ones(n_features, dtype=bool), 0.0
        if square is not None and boxes[0] is not None:
            # A step before hands on infinite limits of its numbers, cut to equal ones.
            expanded = (boxes[0].high > 1.0) & (boxes[0].low < -1.0)
            others = square - float(expanded.sum())
        reach = n_samples * mu * math.sqrt(shares["moment"])
        self.basis_name, self.basis = chosen_basis(
            basis, expanded, others, n_targets, reach
        )
        columns = n_features if self.basis is None else len(self.basis.kinds())
        self.others, columns = others, columns + n_targets
        self.moment = JointMoment(n_samples, columns, intercept)
        self.scores: dict[str, ResidualMoments] = {}
        regression: Statistic = self.moment
        if intervals:
            self.scores = {
                name: ResidualMoments(n_samples, n_features + 1, n_targets, of)
                for name, of in (("scores", "scores"), ("far", "far_scores"))
            }
            regression = Combination(
                {"moment": self.moment, **self.scores}, _INTERVAL_SHARES
            )
        parts["moment"] = regression
        shape = n_samples, n_targets, self.boxes["y"]
        alone = TargetLocations(*shape, mu)
        # What is released alone where public numbers say that nothing else is found.
        self.location: TargetLocations | None = None
        if intercept and alone.are_sure and self._is_hopeless(parts, shares):
            self.location = alone
            parts, shares = {"location": alone}, {"location": 1.0}
        elif intercept and "y" in parts:
            # Where no target is seen, its location is worth more than any moment.
            instead = TargetLocations(*shape, math.sqrt(shares["moment"]) * mu)
            if instead.are_sure:
                parts["moment"] = Choice("regression", regression, instead)
        super().__init__(parts, shares)

    # -- what is public ------------------------------------------------------------

    def _is_scaled(self, name: str) -> bool:
        """Return whether features, or targets, get private scales."""
        if self.units[name] is not None:
            return False
        return self.boxes[name] is None or self._visible(name) < _BLIND[name]

    def _scale_share(self, name: str) -> float:
        """Return the share of mu**2 of private scales."""
        least, most = _LEAST_SCALES, _MOST_SCALES
        if name == "y":
            least, most = _TARGET_SHARE, _MOST_TARGET_SHARE
            if self._is_scaled("X") or self.boxes[name] is not None:
                return least
        needed = self._visible(name, 1.0) / _VISIBLE
        return float(np.clip(needed**2, least, most))

    def _visible(self, name: str, share: float | None = None) -> float:
        """Return about the share of pairs that must differ for a column to be seen."""
        share = self._scale_share(name) if share is None else share
        reach = self.n_samples / self.step * self._mu * math.sqrt(share)
        return _PER_NOISE * math.sqrt(self.widths[name]) / reach

    def _is_hopeless(self, parts: Mapping[str, Any], shares: Mapping) -> bool:
        """Return whether public numbers rule out useful coefficients."""
        if not math.isfinite(self._mu):
            return False
        for name in ("X", "y"):
            if name in parts:
                costs = parts[name].costs(math.sqrt(shares[name]) * self._mu)
                counts = parts[name].parts()["differences"]
                (planned,) = counts.mechanisms(costs["differences"])
                if counts.smallest_visible_share(planned.noise_std) > 1.0:
                    return True
        order = sum(self.widths.values()) + 1
        noise = math.sqrt(order) / (self.n_samples * self._mu)
        return not set(parts) & {"X", "y"} and noise > _HOPELESS

    def remarks(self) -> tuple[str, ...]:
        """Return sentences of all parts, each once."""
        return tuple(dict.fromkeys(super().remarks()))

    def caveats(self, plan) -> tuple[str, ...]:
        """Warn, from public numbers, if noise hides every column."""
        if self.location is not None:
            return (
                f"no feature can be seen: {self.n_samples} rows are too few at this "
                "budget, so targets are predicted by a constant alone; use more rows, "
                "fewer features, a larger epsilon, or pass public bounds",
            )
        parts = self.parts()
        scales = {name: parts[name] for name in self.widths if name in parts}
        return tuple(
            text.replace("feature can", "target can" if name == "y" else "feature can")
            + ", or pass public bounds"
            for name, part in scales.items()
            for text in part.unseen_features(plan)
        )

    # -- what is released ----------------------------------------------------------

    def run(self, release: Any, rows: Any, *given: Any) -> Fitted:
        """Release scales, and the moment of standardized rows."""
        width = sum(self.widths.values())
        if self.location is not None:
            units = Units(np.zeros(width), np.ones(width), np.zeros(width, dtype=bool))
            return self._location_alone(self.location, release, rows, units)
        both = [self._units(name, release, rows) for name in self.widths]
        units = Units(*map(np.concatenate, zip(*both, strict=True)))
        moment = self.parts()["moment"]
        if not both[1].seen.any() and isinstance(moment, Choice):
            return self._location_alone(moment.branches[1], release, rows, units)
        columns = np.flatnonzero(units.seen)
        n_features = int(both[0].seen.sum())
        squares = n_features, len(columns) - n_features
        if self.square is not None:
            squares = self.square, squares[1]
        if "square" in self.parts():
            squares = self._mean_squares(release, rows, units, squares)
        noise = getattr(release.plan[self.moment.name], "noise_std", 0.0)
        noise /= math.sqrt(2.0)  # off the diagonal
        limits, n_targets = self._limits(units, noise), len(columns) - n_features
        standard = StandardRows(
            columns,
            n_targets,
            [side[columns] for side in limits],
            units.center[columns],
            units.scale[columns],
            self.intercept,
            self.basis,
        )
        length, weight = self._radius(noise, squares)
        row_map = partial(bounded_joint_rows, radius=length, weight=weight)
        if self.scores:
            radius, reach, weight = self._weights(noise, squares, n_targets)
            length = math.hypot(radius, weight * reach * math.sqrt(n_targets))
            more = {"reach": reach, "length": length}
            row_map = partial(
                bounded_weighted_rows, radius=radius, weight=weight, **more
            )
        row_map, inputs = partial(row_map, standard=standard), standard.inputs
        # Targets and the constant come last.
        last = self.moment.n_columns - self.widths["y"] - self.widths["X"]
        kept = np.concatenate([inputs, columns[n_features:] + last])
        kept = np.append(kept, [self.moment.n_columns] * self.intercept).astype(int)
        exact_rows = rows.of("X", "y")
        released = self.moment.run(release, exact_rows, row_map, kept)
        # In units of the targets themselves.
        divisor = np.ones(len(kept))
        divisor[len(inputs) : len(inputs) + n_targets] = weight
        matrix, spread = released * length**2, noise * length**2
        matrix /= np.outer(divisor, divisor)
        found = Fitted(matrix, spread, spread / weight, units, limits)
        if not self.scores:
            return found
        weighted = self._estimates(release, exact_rows, found, standard, radius)
        return found._replace(weighted=weighted)

    def _weights(self, noise: float, squares: tuple, n_targets: int) -> tuple:
        """Return the radius of weighted rows, and limit and weight of their targets."""
        grown = _ENDLESS if noise == 0.0 else 1.0
        # Rows of one-hot columns are all equally long.
        fixed = len(np.unique(self.blocks[self.blocks >= 0]))
        numbers = max(squares[0] - fixed, 0.0)
        # One or two normal columns alone keep less of their mean square than three.
        numbers = numbers if fixed else max(numbers, 3.0 * min(numbers, 1.0))
        loose = _KEPT_LENGTH**2 * (numbers + 1.0)
        radius, several = grown * math.sqrt(loose + fixed), max(n_targets, 1)
        reach = grown * _KEPT_TARGET * math.sqrt(max(squares[1], 1e-300) / several)
        return radius, reach, min(_TARGET_PART * radius / reach / several**0.5, 1.0)

    def _estimates(self, release, rows, found: Fitted, standard, radius) -> Any:
        """Release scores, and those of far rows; return what intervals are made of."""
        inputs, targets = standard.inputs, standard.columns - self.widths["X"]
        moment = kernels.moment_of(
            *(found.matrix, len(inputs), True, found.spread, found.cross_spread),
            self.n_samples,
        )
        blocks = np.append(self.blocks[inputs], -1)
        inverse = kernels.inverse_within(moment, blocks)
        first, deviations = kernels.first_estimates(moment, inverse)
        noise = getattr(release.plan[self.scores["scores"].name], "noise_std", 0.0)
        noise = max(noise * radius * math.sqrt(self.n_samples), 1e-300)
        cut = np.clip(_SCORE_NOISE / noise, *_RESIDUALS)
        estimate, scores, reach = first, [], cut * deviations
        if found.spread == 0.0:
            reach = _ENDLESS * reach
        for name, part in self.scores.items():
            row_map = partial(
                residual_rows,
                standard=standard,
                radius=radius,
                coefficients=estimate,
                reach=reach,
                far=name == "far",
            )
            kept = np.append(inputs, self.widths["X"])
            places, units = targets[len(inputs) :], (reach * radius)[:, None]
            means, squares, noise = part.run(release, rows, row_map, kept, places)
            parts = means * units, squares * units[:, :, None] ** 2, noise * units[:, 0]
            scores.append(kernels.Scores(*parts))
            estimate = first + inverse.matrix @ scores[0].means.T
        # Others have no mean square of 1 before they are weighted.
        ones = (blocks < 0) & ("X" in self.parts() or self.square is not None)
        kept = np.where(ones, *(np.diag(moment.regressors), moment.regressors[-1, -1]))
        return kernels.weighted_estimates(
            moment, inverse, estimate, scores, kept, radius
        )

    def _location_alone(self, location, release, rows, units: Units) -> Fitted:
        """Release locations of targets in place of the remaining releases."""
        center = units.center.copy()
        center[self.widths["X"] :] = location.run(release, rows.of("y"))
        seen = units.seen[: self.widths["X"]]
        if self.basis is not None:
            seen = seen[self.basis.sources()].all(axis=1)
        matrix = np.zeros((int(seen.sum()) + 1,) * 2)
        units = units._replace(center=center)
        return Fitted(matrix, 0.0, 0.0, units, self._limits(units, 0.0))

    def _units(self, name: str, release, rows) -> Units:
        """Return public or released units of features or of targets."""
        width, box = self.widths[name], self.boxes[name]
        if name in self.parts():
            law = self.parts()[name].run(release, rows.of(name, step=self.step))
            center = np.zeros(width) if law.mean is None else law.mean
            return Units(center, law.scale, law.seen)
        if self.units[name] is not None:
            center, scale = (np.full(width, unit) for unit in self.units[name])
            return Units(center, scale, box.high > box.low)
        half, center = box.half_widths * box.unit, box.midpoint
        if name == "X" and "center" in self.parts():
            center = self.parts()["center"].run(release, rows.of("X"), box)
        if not self.intercept:
            center, half = np.zeros(width), np.maximum(abs(box.low), abs(box.high))
        return Units(center, np.where(half > 0.0, 0.5 * half, 1.0), half > 0.0)

    def _limits(self, units: Units, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """Return clipping limits: bounds, and many deviations from the mean."""
        reach = FARTHEST if noise and self.intercept else math.inf
        low, high = self._edges()
        with np.errstate(all="ignore"):
            spread = np.where(units.seen, reach * units.scale, math.inf)
            inner = units.center - spread, units.center + spread
        return np.maximum(inner[0], low), np.minimum(inner[1], high)

    def _edges(self) -> list[np.ndarray]:
        """Return public bounds of all columns, infinite if there are none."""
        sides = []
        for side, none in (("low", -math.inf), ("high", math.inf)):
            edges = [
                np.full(self.widths[name], none) if box is None else getattr(box, side)
                for name, box in self.boxes.items()
            ]
            sides.append(np.concatenate(edges))
        return sides

    def _mean_squares(self, release, rows, units: Units, squares) -> tuple:
        """Return mean squared lengths of features and targets, from one release."""
        low, high = self._edges()
        edges = np.maximum(abs(low - units.center), abs(high - units.center))
        in_box = units.seen & np.isfinite(edges)
        longest = math.sqrt(float(np.sum((edges / units.scale)[in_box] ** 2)))
        scale = np.where(in_box, units.scale, np.inf)
        part = self.parts()["square"]
        found = part.run(release, rows.of("X", "y"), units.center, scale, longest)
        noise = getattr(release.plan[part.name], "noise_std", 0.0)
        found = min(max(found, noise), 1.0) * longest**2 / max(in_box.sum(), 1)
        return tuple(found * square for square in squares)

    def _radius(self, noise: float, squares: tuple) -> tuple[float, float]:
        """Return the clipping radius of rows, and the weight of targets."""
        width = self.moment.n_columns
        if self.basis is not None:
            squares = self.basis.square(self.others), squares[1]
        usual, weight = sum(squares) + self.intercept, 1.0
        if noise * usual * math.sqrt(width) >= _USUAL_NOISE and squares[1]:
            weight = max(squares[0] / squares[1], 1.0) ** 0.25
            usual = squares[0] + weight**2 * squares[1] + self.intercept
        if noise == 0.0:
            return _ENDLESS * math.sqrt(usual), weight
        relative = max(noise * usual * math.sqrt(width), 1e-300)
        growth = 1.0 + _GROWTH * math.log2(_USUAL_NOISE / relative)
        return min(max(growth, 1.0), _LONGEST) * math.sqrt(max(usual, 1e-300)), weight
