"""Linear regression and classification from one private moment of rows and targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .. import sensitivity
from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.mixins import PrivateClassifier, n_outputs_of
from .._base.sklearn_compat import Interval, StrOptions
from .._linalg.eigen import pack_lower, packed_diagonal, unpack_lower
from .._linalg.walks import (
    RowWalk,
    blas_threads,
    reduce_rows,
    rows_per_block,
    sum_of_outer_products,
)
from .._statistics.feature_scales import FARTHEST, FeatureScales, refuse_too_few
from .._statistics.statistic import (
    Choice,
    Combination,
    Statistic,
    Votes,
    mean_summation_error,
)
from .._tables.clipping import Box, clip_rows, make_box
from .._tables.columns import as_numbers
from .._tables.table import (
    DeferredRead,
    check_rows,
    deferred_rows,
    deferred_targets,
    map_rows,
    rows_at,
    rows_beside,
)
from ..accounting import NoisyFitWarning, PrivacyAccountant, gaussian_mu
from ..accounting._errors import warn
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Neighbors, check_count
from . import _kernels_ridge as kernels

# -- rows with their targets -----------------------------------------------------------


@dataclass(frozen=True)
class JointRows:
    """Features and targets of the same rows, in memory, in files or on a cluster."""

    X: Any
    y: Any

    def at(self, places: np.ndarray) -> JointRows:
        """Return the rows at some places, in memory."""
        return JointRows(rows_at(self.X, places), rows_at(self.y, places))

    def of(self, *names: str) -> Any:
        """Return "X", "y" or both side by side."""
        return rows_beside([getattr(self, name) for name in names])


class Units(NamedTuple):
    """Public or released locations and scales of columns, and whether they are seen."""

    center: np.ndarray
    scale: np.ndarray
    seen: np.ndarray


class StandardRows(NamedTuple):
    """A map to standardized regressors, the last of them a constant, and targets."""

    columns: np.ndarray  # the chosen ones, targets last
    n_targets: int
    limits: Any
    center: np.ndarray
    scale: np.ndarray
    basis: kernels.Basis

    @property
    def inputs(self) -> np.ndarray:
        """Positions of the regressors among all columns of the basis."""
        seen = np.isin(self.basis.sources(), self.columns[: -self.n_targets or None])
        return np.flatnonzero(seen.all(axis=1))

    def __call__(self, block) -> tuple[np.ndarray, np.ndarray]:
        block = np.asarray(block, dtype=np.float64)[:, self.columns]
        stop = len(self.columns) - self.n_targets
        with np.errstate(all="ignore"):
            rows = np.clip(block, *self.limits)
            rows = _standardize(rows, self.center, 1.0 / self.scale)
            inputs = rows[:, :stop]
            if self.basis.waves:
                full = np.zeros((len(rows), len(self.basis.expanded)))
                full[:, self.columns[:stop]] = inputs
                inputs = self.basis.expand(full)[:, self.inputs]
        return np.append(inputs, np.ones((len(rows), 1)), axis=1), rows[:, stop:]


def _standardize(block, center, weights) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (np.asarray(block, np.float64) - center) * weights


def bounded_joint_rows(block, standard, radius, weight) -> np.ndarray:
    """Return regressors, weighted targets and a constant, as a whole in a ball."""
    rows, targets = standard(block)
    with np.errstate(all="ignore"):
        parts = rows[:, :-1], weight * targets, rows[:, -1:]
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


def residual_rows(block, standard, radius, coefficients, reach, far) -> tuple:
    """Return rows in the unit ball, and residuals cut at `reach`, in units of it."""
    rows, targets = weighted_rows(block, standard, radius)
    with np.errstate(all="ignore"):
        found = targets - (rows * radius) @ coefficients
        found = np.nan_to_num(np.clip(found / reach, -1.0, 1.0))
        if far:
            lengths = np.sqrt(np.vecdot(rows, rows))
            # The share of its squared weight that a row loses with a smaller radius.
            lost = 1.0 - np.minimum(1.0, _FAR_ROWS / lengths) ** 2
            rows *= np.minimum(lost / (1.0 - _FAR_ROWS**2), 1.0)[:, None]
    return rows, found


# -- single releases -------------------------------------------------------------------


class RowMean(Statistic):
    """One release: a mean over rows, of which each moves it by at most `moved`."""

    def __init__(self, name: str, n_samples: int, moved: float, shape, **more) -> None:
        self.name, self.n_samples = name, n_samples
        self._moved, self._shape, self._more = moved, shape, more

    def mechanisms(self, mu: float) -> tuple:
        more = self._more
        return calibrate_alike([self.name], self._moved, mu, self._shape, **more)

    def mean(self, rows: Any, walk: RowWalk, kernel: Any) -> np.ndarray:
        """Return the exact mean of a kernel's sums over the rows of a walk."""
        return reduce_rows(rows, walk, kernel) / self.n_samples

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Release this mean."""
        return release(self.name, self.mean(rows, *given), overwrite=True)

    def noise_std(self, release: Any) -> float:
        """Return the planned deviation of the noise; 0 without privacy."""
        return getattr(release.plan[self.name], "noise_std", 0.0)


# Halvings of all floats in their order, and how many deviations of one vote's noise all
# rows must outweigh: a wrong one is never corrected.
_HALVINGS, _ROWS_PER_NOISE = Votes("median", 24), 7.0


def _float_at(places: np.ndarray) -> np.ndarray:
    """Return floats at the places of halvings, which are as many in each octave."""
    half = 2 ** (_HALVINGS.n_steps - 1)
    largest = int(np.array(np.finfo(float).max).view(np.int64))
    keys = (places - half) * (largest // half)
    return np.copysign(np.abs(keys).view(np.float64), keys)


@dataclass(frozen=True)
class Medians(Statistic):
    """Medians of targets of any magnitude, which need far fewer rows than scales."""

    n_samples: int
    n_targets: int

    def mechanisms(self, mu: float) -> tuple:
        moved = sensitivity.vote_sensitivity(self.n_targets, Neighbors.REPLACE_ONE)
        more = {"magnitude": float(self.n_samples), "lemma": "votes"}
        return _HALVINGS.planned(mu, moved, self.n_targets, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release medians of the columns of rows."""

        def votes(places):
            kernel = partial(_votes_above, limits=_float_at(places))
            return reduce_rows(rows, RowWalk(), kernel)

        found = _HALVINGS.run(release, votes, self.n_targets, rising=False)
        return _float_at(found[0])


def _votes_above(blocks, limits: np.ndarray) -> np.ndarray:
    """Return sums of votes: plus or minus one half for each value and limit."""
    votes = np.zeros(len(limits))
    for block in blocks:
        votes += (np.asarray(block) > limits).sum(axis=0) - 0.5 * len(block)
    return votes


class BoxMeans(RowMean):
    """Means in a box, shrunk to its middle; `likely` is a prior deviation, or None."""

    def __init__(self, n: int, box: Box, name: str, likely=None) -> None:
        self.box, self.likely, k = box, likely, len(box.low)
        self._radius = sensitivity.box_radius(np.ones(k))
        moved = sensitivity.mean_sensitivity(self._radius, n)
        error = mean_summation_error(self._radius, n, k)
        more = {"summation_error": error, "lemma": "private-center"}
        super().__init__(name, n, moved, (k,), **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release means of the columns of rows."""
        box, noise = self.box, self.noise_std(release)
        row_map = partial(_in_unit_box, box=box, radius=self._radius)
        mean = super().run(release, rows, RowWalk(row_map), _sum_of_rows)
        found = max(float(np.mean(mean**2)) - noise**2, 0.0)
        square = found if self.likely is None else self.likely**2
        mean *= square / max(square + noise**2, np.finfo(float).tiny)
        widths = box.half_widths
        return box.midpoint + np.clip(mean, -widths, widths) * box.unit


def _sum_of_rows(blocks) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.sum([rows.sum(axis=0) for rows in blocks], axis=0)


def _in_unit_box(block, box: Box, radius: float) -> np.ndarray:
    """Return rows in the unit box; rows with NaN become 0."""
    rows = box.to_unit(np.asarray(block, dtype=np.float64))
    return clip_rows(rows, radius, out=rows)


def mean_square(n: int, n_columns: int) -> RowMean:
    """Return the release of a mean squared length, relative to the longest row."""
    # Numbers in [0, 1] are in a ball of half that size.
    moved = sensitivity.mean_sensitivity(0.5, n)
    error = mean_summation_error(1.0, n, n_columns)
    more = {"summation_error": error, "lemma": "private-center"}
    return RowMean("mean_square", n, moved, (1,), **more)


def _sum_of_squares(blocks) -> np.ndarray:
    """Return the sum of squared lengths of rows, each at most 1."""
    total = np.zeros(1)
    for rows in blocks:
        with np.errstate(all="ignore"):
            squares = np.nan_to_num(np.vecdot(rows, rows))
        total += np.minimum(squares, 1.0).sum()
    return total


def joint_moment(n: int, n_columns: int) -> RowMean:
    """Return the release of the second moment of rows with a constant, in a ball."""
    moved, shape = sensitivity.second_moment_sensitivity(1.0, n), (n_columns + 1,) * 2
    error = mean_summation_error(1.0, n, n_columns)
    more = {"summation_error": error, "magnitude": 2.0, "lemma": "joint-rows"}
    return RowMean("joint_moment", n, moved, shape, symmetric=True, **more)


# Weight of second moments in the release of scores: the largest one that is free.
_SCORE_WEIGHT = 0.5


class ResidualMoments(RowMean):
    """Means of scores of `order` regressors, and second moments, which are free."""

    def __init__(self, n: int, order: int, n_targets: int, name: str) -> None:
        self._order, shape = order, (n_targets, order + order * (order + 1) // 2)
        moved, width = sensitivity.residual_moments_sensitivity(n, n_targets), order - 1
        error = mean_summation_error(1.5 * math.sqrt(n_targets), n, width + n_targets)
        # Packed entries are rounded once more.
        more = {"summation_error": 2.0 * error, "lemma": "residual-moments"}
        super().__init__(name, n, moved, shape, magnitude=2.0, **more)
        self._off = np.full(shape[1] - order, math.sqrt(2.0 * _SCORE_WEIGHT))
        self._off[packed_diagonal(order)] = math.sqrt(_SCORE_WEIGHT)

    def run(self, release: Any, rows: Any, *given: Any) -> kernels.Scores:
        """Release moments of mapped rows, for columns, targets and their units."""
        row_map, kept, targets, units = given
        order, exact = self._order, np.zeros(self._shape)
        kernel = partial(_sums_of_scores, order=len(kept), n_targets=len(targets))
        means = self.mean(rows, RowWalk(row_map), kernel)
        for j, found in zip(targets, means, strict=True):
            square = np.zeros((order, order))
            square[np.ix_(kept, kept)] = found[:, 1:]
            exact[j, kept] = found[:, 0]
            exact[j, order:] = pack_lower(square) * self._off
        found = release(self.name, exact, overwrite=True)[targets]
        squares = [unpack_lower(each / self._off, order) for each in found[:, order:]]
        squares = np.reshape(squares, (-1, order, order))[:, kept][:, :, kept]
        squares = squares * units[:, None, None] ** 2
        noise = np.full(len(targets), self.noise_std(release))
        return kernels.Scores(found[:, kept] * units[:, None], squares, noise * units)


def _sums_of_scores(blocks, order: int, n_targets: int) -> np.ndarray:
    """Return sums of rows times residuals, and of their outer products, by target."""
    total = np.zeros((n_targets, order, order + 1))
    for rows, residuals in blocks:
        for j in range(n_targets):
            scores = rows * residuals[:, j : j + 1]
            total[j, :, 0] += scores.sum(axis=0)
            total[j, :, 1:] += scores.T @ scores
    return total


# -- all releases of a fit -------------------------------------------------------------

# Noise of a mean of unit vectors, over their length, above which no coefficients are
# looked for in public bounds: by the errors on two tables and made data.
_HOPELESS = 0.08

# Shares of mu**2 of private scales: columns that differ in `_VISIBLE` of all pairs are
# seen, within limits. The least is enough for targets beside features; with it alone,
# R2 is 0 in some fits of five tables of a few thousand rows.
_SCALE_SHARES = {"X": (0.25, 0.55), "y": (0.06, 0.4)}

_VISIBLE, _PER_NOISE = 0.1, 20.0

# Share of the mean square of rows in public bounds; and, for classes, that of their
# mean: rows about it are shorter, and so is the radius that they are clipped to.
_SQUARE_SHARE, _CENTER_SHARE = 0.05, 0.08

# With public bounds, share of the pairs that a column must differ in beyond which
# scales are a quarter of the bounds' extent. Targets are what a fit is for.
_BLIND = {"X": 0.25, "y": 0.15}

# Limits of counts, over those of DPStandardScaler, where a false alarm is one in fifty
# fits: rows in a wrong unit would fill the moment, and targets are what a fit is for.
_SURER = {"X": 1.12, "y": 1.25}

# Deviation of means of targets from the middle of their box, in half of its extent, by
# which the noisy means are shrunk to it.
_LIKELY_MEAN = 0.5

# Relative noise at which rows are clipped at their usual length; by how much the radius
# grows where there is less; and its limits in usual lengths.
_USUAL_NOISE, _GROWTH, _LONGEST, _ENDLESS = 0.05, 0.25, 2.0, 1024.0

# Shares of the moment's part of mu**2, where scores are released for intervals.
_INTERVAL_SHARES = {"moment": 0.65, "scores": 0.27, "far_scores": 0.08}

# Lengths of features, in usual ones, and of targets, that weights and limits keep; and
# the length of targets, in that of features. Scores correct what is lost by it.
_KEPT_LENGTH, _KEPT_TARGET, _TARGET_PART = 1.5, 4.0, 0.6

# Deviations of residuals at which they are cut: the most between these by which the
# noise of scores is at most this part of their sampling error.
_RESIDUALS, _SCORE_NOISE = (4.0, 8.0), 0.5


class Fitted(NamedTuple):
    """The moment of the seen columns, with the units and limits of all columns."""

    matrix: np.ndarray  # of regressors, targets and a constant
    spread: float  # deviation of the off-diagonal noise
    cross_spread: float  # that of products with targets
    units: Units
    limits: tuple[np.ndarray, np.ndarray]
    weighted: tuple | None = None  # what intervals are made of
    radius: float = math.inf  # beyond it, rows are weighted


class RegressionMoments(Combination):
    """Private scales of columns, unless public, followed by the joint moment."""

    def __init__(
        self, shape, mu, boxes, target_units, square, *, intervals, blocks, basis
    ) -> None:
        # `boxes` and `target_units` are public, or None; `square` is the mean squared
        # length of features that are standardized already; `blocks` is -1 for none.
        n_samples, n_features, n_targets = shape
        self.n_samples, self._mu, self.square = n_samples, mu, square
        self.widths = {"X": n_features, "y": n_targets}
        self.boxes = dict(zip(self.widths, boxes, strict=True))
        self.units = {"X": None if square is None else (0.0, 1.0), "y": target_units}
        self.blocks = blocks
        # Public bounds of all columns, infinite if there are none.
        self._edges = np.full((2, n_features + n_targets), [[-np.inf], [np.inf]])
        for box, place in zip(boxes, np.s_[:n_features, n_features:], strict=True):
            if box is not None:
                self._edges[:, place] = box.low, box.high
        parts, shares = self._parts_of_units()
        shares["moment"] = 1.0 - sum(shares.values())
        reach = mu * math.sqrt(shares["moment"])
        box, self.others = self.boxes["X"], 0.0
        expanded = np.ones(n_features, dtype=bool)
        if square is not None and box is not None:
            # A step before hands on infinite limits of its numbers, cut to equal ones.
            expanded = (box.high > 1.0) & (box.low < -1.0)
            self.others = square - float(expanded.sum())
        given = expanded, self.others, n_targets, n_samples * reach
        self.basis = kernels.chosen_basis(basis, *given)
        self.n_columns = len(self.basis.sources()) + n_targets
        self.moment = joint_moment(n_samples, self.n_columns)
        shape = n_samples, n_features + 1, n_targets
        names = ("scores", "far_scores") if intervals else ()
        self.scores = {name: ResidualMoments(*shape, name) for name in names}
        parts["moment"] = self.moment
        if intervals:
            both = {"moment": self.moment, **self.scores}
            parts["moment"] = Combination(both, _INTERVAL_SHARES)
        # What is released alone where public numbers say that nothing else is found.
        hopeless = self._is_hopeless(parts, shares)
        self.location = self._constant_model(mu) if hopeless else None
        instead = self._constant_model(reach)
        if self.location is not None:
            parts, shares = {"location": self.location}, {"location": 1.0}
        elif instead is not None and "y" in parts:
            # Without a target, its location is worth more than any moment.
            parts["moment"] = Choice("regression", parts["moment"], instead)
        super().__init__(parts, shares)

    # -- what is public ----------------------------------------------------------------

    def _parts_of_units(self) -> tuple[dict[str, Statistic], dict[str, float]]:
        """Return statistics of locations and scales, and their shares of mu**2."""
        n, box = self.n_samples, self.boxes["X"]
        parts: dict[str, Statistic] = {}
        shares = self._scale_shares()
        for name in shares:
            prefix, factor = "target_" * (name == "y"), _SURER[name]
            how = {"box": self.boxes[name], "prefix": prefix, "factor": factor}
            parts[name] = FeatureScales(n, self.widths[name], **how)
        if "X" not in parts and self.square is None:
            if box is not None and self.units["y"] is not None:
                parts["center"] = BoxMeans(n, box, "feature_means")
                shares["center"] = _CENTER_SHARE
            parts["square"] = mean_square(n, sum(self.widths.values()))
            shares["square"] = _SQUARE_SHARE
        return parts, shares

    def _scale_shares(self) -> dict[str, float]:
        """Return the shares of mu**2 of private scales, by what gets them."""
        shares: dict[str, float] = {}
        for name, (least, most) in _SCALE_SHARES.items():
            box, reach = self.boxes[name], self.n_samples * self._mu
            # About the share of pairs that must differ for a column to be seen.
            visible = _PER_NOISE * math.sqrt(self.widths[name])
            share = float(np.clip((visible / reach / _VISIBLE) ** 2, least, most))
            if name == "y" and ("X" in shares or box is not None):
                share = least
            reach *= math.sqrt(share)
            seen = box is None or visible / reach < _BLIND[name]
            if seen and self.units[name] is None:
                shares[name] = share
        return dict(reversed(shares.items()))

    def _constant_model(self, mu: float) -> Medians | BoxMeans | None:
        """Return what locates targets; None if noise outvotes all rows."""
        n, box = self.n_samples, self.boxes["y"]
        if box is not None:
            return BoxMeans(n, box, "target_means", _LIKELY_MEAN)
        noise = math.sqrt(self.widths["y"] * _HALVINGS.n_steps) / mu
        sure = _ROWS_PER_NOISE * noise < n  # all rows together outvote it
        return Medians(n, self.widths["y"]) if sure else None

    def _is_hopeless(self, parts: dict, shares: dict) -> bool:
        """Return whether public numbers rule out useful coefficients."""
        if not math.isfinite(self._mu):
            return False
        scales = [name for name in self.widths if name in parts]
        for name in scales:
            costs = parts[name].costs(math.sqrt(shares[name]) * self._mu)
            counts = parts[name].parts()["differences"]
            (planned,) = counts.mechanisms(costs["differences"])
            if counts.smallest_visible_share(planned.noise_std) > 1.0:
                return True
        order = sum(self.widths.values()) + 1
        noise = math.sqrt(order) / (self.n_samples * self._mu)
        return not scales and noise > _HOPELESS

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
        return tuple(
            text.replace("feature can", f"{said} can") + ", or pass public bounds"
            for name, said in (("X", "feature"), ("y", "target"))
            if name in parts
            for text in parts[name].caveats(plan)
        )

    # -- what is released --------------------------------------------------------------

    def run(self, release: Any, rows: Any, *given: Any) -> Fitted:
        """Release scales, and the moment of standardized rows."""
        p, parts = self.widths["X"], self.parts()
        if self.location is not None:
            width = p + self.widths["y"]
            blank = Units(np.zeros(width), np.ones(width), np.zeros(width, dtype=bool))
            return self._constant(self.location, release, rows, blank)
        both = [self._units(name, release, rows) for name in self.widths]
        units = Units(*map(np.concatenate, zip(*both, strict=True)))
        columns, moment = np.flatnonzero(units.seen), parts["moment"]
        n_targets = int(units.seen[p:].sum())
        if not n_targets and isinstance(moment, Choice):
            return self._constant(moment.branches[1], release, rows, units)
        squares = self._mean_squares(release, rows, units)
        noise = self.moment.noise_std(release) / math.sqrt(2.0)  # off the diagonal
        limits = self._limits(units, noise)
        ends = [side[columns] for side in limits]
        place = units.center[columns], units.scale[columns]
        standard = StandardRows(columns, n_targets, ends, *place, self.basis)
        radius, reach, weight = self._lengths(noise, squares, n_targets)
        row_map, length = bounded_joint_rows, radius
        more = {"standard": standard, "radius": radius, "weight": weight}
        if self.scores:
            length = math.hypot(radius, weight * reach * math.sqrt(n_targets))
            row_map = partial(bounded_weighted_rows, reach=reach, length=length)
        # Targets and the constant come last.
        inputs, last = standard.inputs, self.n_columns
        ends = np.append(units.seen[p:], True)
        kept = np.append(inputs, last - self.widths["y"] + np.flatnonzero(ends))
        exact, at = np.zeros((last + 1, last + 1)), np.ix_(kept, kept)
        walk = RowWalk(partial(row_map, **more), rows_per_block(last))
        kernel = partial(sum_of_outer_products, n_features=len(kept))
        joint = rows.of("X", "y")
        exact[at] = self.moment.mean(joint, walk, kernel)
        released = release(self.moment.name, exact, overwrite=True)[at]
        # In units of the targets themselves.
        divisor = np.ones(len(kept))
        divisor[len(inputs) : -1] = weight
        matrix, spread = released * length**2, noise * length**2
        matrix /= np.outer(divisor, divisor)
        found = Fitted(matrix, spread, spread / weight, units, limits)
        if not self.scores:
            return found
        weighted = self._weighted(release, joint, found, standard, radius)
        return found._replace(weighted=weighted, radius=float(radius))

    def _constant(self, location, release, rows, units: Units) -> Fitted:
        """Release locations of targets in place of the remaining releases."""
        p, center = self.widths["X"], units.center.copy()
        center[p:] = location.run(release, rows.of("y"))
        seen = units.seen[self.basis.sources()].all(axis=1)
        matrix = np.zeros((int(seen.sum()) + 1,) * 2)
        units = units._replace(center=center)
        return Fitted(matrix, 0.0, 0.0, units, self._limits(units, 0.0))

    def _units(self, name: str, release, rows) -> Units:
        """Return public or released units of features or of targets."""
        width, box, parts = self.widths[name], self.boxes[name], self.parts()
        if name in parts:
            law = parts[name].run(release, rows.of(name))
            return Units(law.mean, law.scale, law.seen)
        if self.units[name] is not None:
            center, scale = (np.full(width, unit) for unit in self.units[name])
            return Units(center, scale, box.high > box.low)
        half, center = box.half_widths * box.unit, box.midpoint
        if name == "X" and "center" in parts:
            center = parts["center"].run(release, rows.of("X"))
        return Units(center, np.where(half > 0.0, 0.5 * half, 1.0), half > 0.0)

    def _limits(self, units: Units, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """Return clipping limits: bounds, and many deviations from the mean."""
        reach = FARTHEST if noise else math.inf
        with np.errstate(all="ignore"):
            spread = np.where(units.seen, reach * units.scale, math.inf)
            inner = units.center - spread, units.center + spread
        low, high = self._edges
        return np.maximum(inner[0], low), np.minimum(inner[1], high)

    def _mean_squares(self, release, rows, units: Units) -> tuple[float, float]:
        """Return mean squared lengths of features and targets, released in bounds."""
        p, parts = self.widths["X"], self.parts()
        n_features, n_targets = units.seen[:p].sum(), units.seen[p:].sum()
        if self.square is not None:
            n_features = self.square
        if "square" not in parts:
            return float(n_features), float(n_targets)
        low, high = self._edges
        edges = np.maximum(abs(low - units.center), abs(high - units.center))
        in_box = units.seen & np.isfinite(edges)
        longest = math.sqrt(float(np.sum((edges / units.scale)[in_box] ** 2)))
        scale = np.where(in_box, units.scale, np.inf)
        weights = 1.0 / (scale * longest)
        walk = RowWalk(partial(_standardize, center=units.center, weights=weights))
        part, joint = parts["square"], rows.of("X", "y")
        found = float(part.run(release, joint, walk, _sum_of_squares)[0])
        found = min(max(found, part.noise_std(release)), 1.0)
        found = found * longest**2 / max(in_box.sum(), 1)
        return float(found * n_features), float(found * n_targets)

    def _lengths(self, noise: float, squares: tuple, n_targets: int) -> tuple:
        """Return the radius of rows, and the limit and weight of targets."""
        if self.scores:
            grown = _ENDLESS if noise == 0.0 else 1.0
            # Rows of one-hot columns are all equally long.
            fixed = len(np.unique(self.blocks[self.blocks >= 0]))
            numbers = max(squares[0] - fixed, 0.0)
            # One or two normal columns alone keep less of their mean square than three.
            numbers = numbers if fixed else max(numbers, 3.0 * min(numbers, 1.0))
            radius = grown * math.sqrt(_KEPT_LENGTH**2 * (numbers + 1.0) + fixed)
            several = max(n_targets, 1)
            reach = grown * _KEPT_TARGET * math.sqrt(max(squares[1], 1e-300) / several)
            part = _TARGET_PART * radius / reach / several**0.5
            return radius, reach, min(part, 1.0)
        if self.basis.waves:
            squares = self.basis.square(self.others), squares[1]
        usual, weight = sum(squares) + 1.0, 1.0
        root = math.sqrt(self.n_columns)
        if noise * usual * root >= _USUAL_NOISE and squares[1]:
            weight = max(squares[0] / squares[1], 1.0) ** 0.25
            usual = squares[0] + weight**2 * squares[1] + 1.0
        growth = _ENDLESS
        if noise > 0.0:
            relative = max(noise * usual * root, 1e-300)
            growth = 1.0 + _GROWTH * math.log2(_USUAL_NOISE / relative)
            growth = min(max(growth, 1.0), _LONGEST)
        return growth * math.sqrt(max(usual, 1e-300)), math.inf, weight

    def _weighted(self, release, rows, found: Fitted, standard, radius) -> Any:
        """Release scores of all rows and of far ones, and estimate coefficients."""
        inputs, targets = standard.inputs, standard.columns - self.widths["X"]
        noise = found.spread, found.cross_spread, self.n_samples
        moment = kernels.moment_of(found.matrix, len(inputs), *noise)
        blocks = np.append(self.blocks[inputs], -1)
        inverse, hidden = kernels.inverse_within(moment, blocks)
        first, deviations = kernels.first_estimates(moment, inverse)
        noise = self.scores["scores"].noise_std(release)
        noise = max(noise * radius * math.sqrt(self.n_samples), 1e-300)
        cut = np.clip(_SCORE_NOISE / noise, *_RESIDUALS)
        estimate, scores, reach = first, [], cut * deviations
        if found.spread == 0.0:
            reach = _ENDLESS * reach
        given = {"standard": standard, "radius": radius, "reach": reach}
        kept = np.append(inputs, self.widths["X"])
        for part, far in zip(self.scores.values(), (False, True), strict=True):
            row_map = partial(residual_rows, coefficients=estimate, far=far, **given)
            more = kept, targets[len(inputs) :], reach * radius
            scores.append(part.run(release, rows, row_map, *more))
            estimate = first + inverse @ scores[0].means.T
        # Others have no mean square of 1 before they are weighted.
        ones = (blocks < 0) & ("X" in self.parts() or self.square is not None)
        kept = np.where(ones, np.diag(moment.regressors), moment.regressors[-1, -1])
        errors = kernels.errors_of(moment, inverse, *scores)
        return estimate.T, *errors, hidden, kept


# -- the estimators ------------------------------------------------------------------

# Deviations at which values that a step before has standardized are cut: with 30, R2
# behind a vectorizer falls from .78 to .73 and from .57 to .44 on two of nine tables.
_FAR = 5.0

# Squared length that a coefficient may have in directions which noise hides.
_MOST_HIDDEN = 0.02

# Share of a feature's mean square that weighted rows must keep, how many deviations of
# the moment's noise it may fall short, and least p-value of linearity.
_LEAST_KEPT, _KEPT_NOISE, _LEAST_P_VALUE = 0.95, 8.0, 0.05

# Attributes without an axis of targets if y has one dimension, and of intervals.
_OF_TARGETS = ("coef_", "intercept_", "alpha_", "coef_std_", "linearity_pvalue_")
_OF_INTERVALS = (
    *("coef_std_", "weighted_coef_", "coef_cov_", "linearity_pvalue_", "kept_"),
    *("hidden_directions_", "row_radius_"),
)


@documented
@dataclass(eq=False, repr=False)
class MomentModel(TableEstimator):
    """Base of linear models of one released moment of features and targets."""

    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds",)

    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "basis": [StrOptions({"linear", "additive", "pairs", "auto"})],
        "bounds": [tuple, list, np.ndarray, None],
    }

    # Whether all targets are shrunk by the same amount.
    _shrinks_alike: ClassVar[bool] = False

    alpha: str | float = "auto"
    _: KW_ONLY
    epsilon: float | None = 1.0
    delta: float = 1e-6
    basis: str = "linear"
    bounds: Any = None
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None

    # Returns the public box of targets and their public units, each or None.
    _given_of_targets: ClassVar[Callable[[Any, int], tuple]]
    # Checks the form of targets; ``read()`` returns numbers.
    _deferred_targets: ClassVar[Callable[..., DeferredRead]]

    def _plan_of_shape(self, n_samples, n_features, n_targets):
        """Return the plan of a fit of that shape."""
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        n_features = check_count("n_features", n_features)
        return self._planned(self._statistic(n_samples, n_features, n_targets))

    def _statistic(self, n_samples: int, n_features: int, n_targets: int = 1):
        """Return the statistic of a fit of that shape, from public numbers."""
        refuse_too_few(n_samples)
        intervals = getattr(self, "intervals", False)
        if intervals and self.basis != "linear":
            raise ValueError('intervals=True requires basis="linear"')
        box, square, blocks = None, None, np.full(n_features, -1)
        units = self._input_units()
        if self.bounds is not None:
            box = make_box(self.bounds, n_features, per_feature=True)
        elif units is not None and self._is_private():
            low, high = np.clip(units.limits, -_FAR, _FAR)
            box, square = Box(low, high, n_features, per_feature=True), units.square
            blocks = units.blocks
        target_box, target_units = self._given_of_targets(n_targets)
        shape, boxes = (n_samples, n_features, n_targets), (box, target_box)
        given = gaussian_mu(*self._budget_of_fit()), boxes, target_units, square
        how = {"intervals": intervals, "blocks": blocks, "basis": self.basis}
        return RegressionMoments(shape, *given, **how)

    def _unread(self, X, y) -> DeferredRead:
        """Check the form of rows and targets; the shape is that of the targets."""
        unread = deferred_rows(self, X, in_blocks=True)
        targets = self._deferred_targets(y, unread.shape[0])

        def read():
            rows, values = unread.read(), targets.read().reshape(unread.shape[0], -1)
            on_cluster = hasattr(rows, "cut")
            return JointRows(rows, rows.cut(values) if on_cluster else values)

        return DeferredRead(targets.shape, read)

    @unweighted
    def fit(self, X, y, *, users=None) -> Self:
        """Release the moments of rows and targets, and compute the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            {X_by_block}
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets in memory, or one column of a dask collection if X is one. A
            classifier takes labels in memory, all of which must be in `classes`.
        {users_of_rows}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = self._by_user(self._unread(X, y), users)
            n_samples, n_targets = (*unread.shape, 1)[:2]
            statistic = self._statistic(n_samples, self.n_features_in_, n_targets)
            plan = self._planned(statistic, in_fit=True)
            # It is charged here, and values are read from here on.
            release, rows = self._start_release(plan, unread, n_public=n_samples)
            self.blocks_, self.basis_ = statistic.blocks, statistic.basis.name
            self.expanded_features_, *orders = statistic.basis
            self.basis_orders_ = np.array(orders)
            self.n_samples_, self.privacy_ = n_samples, plan
            self._set_released(statistic.run(release, rows))
            self._set_coefficients()
            for name in _OF_TARGETS if len(unread.shape) == 1 else ():
                if hasattr(self, name):
                    (value,) = getattr(self, name)
                    setattr(self, name, value if np.ndim(value) else float(value))
            hidden = int(self.unseen_targets_.sum())
            if hidden and not self._shrinks_alike:
                warn(
                    f"{hidden} of {n_targets} targets cannot be distinguished from a "
                    "constant at this budget, and their coefficients are 0: use more "
                    "rows or a larger epsilon, or pass bounds and target_bounds",
                    NoisyFitWarning,
                )
            if statistic.location is None:  # or the plan has said it
                self._warn_of_unseen("their coefficients are 0")
        return self

    def _set_released(self, found) -> None:
        """Set attributes from what was released."""
        units, split = found.units, [self.n_features_in_]
        self.mean_, self.target_mean_ = np.split(units.center, split)
        self.scale_, self.target_scale_ = np.split(units.scale, split)
        self.unseen_features_, self.unseen_targets_ = np.split(~units.seen, split)
        self.limits_ = np.array([side[: split[0]] for side in found.limits])
        self.moment_ = found.matrix
        self.moment_noise_std_ = float(found.spread)
        self.cross_noise_std_ = float(found.cross_spread)

    def _moment(self) -> kernels.Moment:
        """Return the released moment, of the regressors and the targets in use."""
        noise = self.moment_noise_std_, self.cross_noise_std_, self.n_samples_
        return kernels.moment_of(self.moment_, self._seen_columns().sum(), *noise)

    def _basis(self) -> kernels.Basis:
        """Return the basis of the fit."""
        return kernels.Basis(self.expanded_features_, *map(int, self.basis_orders_))

    def _seen_columns(self) -> np.ndarray:
        """Return a mask of the columns, of features or of the basis, that are seen."""
        return ~self.unseen_features_[self._basis().sources()].any(axis=1)

    def _set_coefficients(self) -> None:
        """Compute the coefficients, with one row or entry per target."""
        moment, seen = self._moment(), ~self.unseen_targets_
        self.alpha_ = np.full(len(seen), np.inf)
        with blas_threads(len(moment.regressors)):
            if isinstance(self.alpha, str):
                kinds = self._basis().kinds(self.blocks_)[self._seen_columns()]
                kinds = np.append(kinds, kernels.CONSTANT)
                found, floors = kernels.chosen(moment, kinds, self._shrinks_alike)
                self.alpha_[seen] = self.n_samples_ * floors
            else:
                found = kernels.penalized(moment, float(self.alpha))
                self.alpha_[:] = self.alpha
            self.coef_, self.intercept_ = self._in_units(found)
        if self._shrinks_alike:
            self.alpha_ = float(self.alpha_[0])

    def _in_units(self, found) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercepts of seen targets, in units of the data."""
        kept, seen = self._seen_columns(), ~self.unseen_targets_
        width, scale = int(kept.sum()), self.target_scale_[seen]
        linear = not self._basis().waves
        units, center = (self.scale_, self.mean_) if linear else np.ones((2, len(kept)))
        coef = np.zeros((len(seen), len(kept)))
        coef[np.ix_(seen, kept)] = found[:width].T * scale[:, None] / units[kept]
        intercept = self.target_mean_ - coef @ (center * linear)
        intercept[seen] += found[-1] * scale
        return coef, intercept

    def _linear(self, X) -> np.ndarray:
        """Return rows times coefficients plus intercepts, after clipping at limits."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, in_blocks=True)
        coef, intercept = np.transpose(self.coef_), self.intercept_
        basis = self._basis()

        def predicted(rows):
            rows = np.clip(rows, *self.limits_, dtype=np.float64)
            if basis.waves:
                rows = basis.expand((rows - self.mean_) / self.scale_)
            return rows @ coef + intercept

        with np.errstate(all="ignore"):
            return map_rows(predicted, X)

    def effects(self, X) -> np.ndarray:
        """Return what each feature adds to the predictions, without products of pairs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_outputs, n_features)
            Differences from the prediction with the feature at its released mean.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, in_blocks=True)
        with np.errstate(all="ignore"):
            found = map_rows(self._effects_of, X)
        return found[:, 0] if found.shape[1] == 1 else found

    def _effects_of(self, rows) -> np.ndarray:
        """Return effects of features (n, k, p) for rows that are not checked."""
        coefs, basis = np.atleast_2d(self.coef_), self._basis()
        rows = np.clip(rows, *self.limits_, dtype=np.float64) - self.mean_
        if not basis.waves:
            return rows[:, None] * coefs
        rows = basis.expand(rows / self.scale_) - basis.expand(0.0 * rows[:1])
        found = np.zeros((len(rows), len(coefs), self.n_features_in_))
        of = basis.sources()
        for j in range(self.n_features_in_):
            own = (of == j).all(axis=1)
            found[:, :, j] = rows[:, own] @ coefs[:, own].T
        return found


@documented
@dataclass(eq=False, repr=False)
class DPRidge(MultiOutputMixin, RegressorMixin, MomentModel):
    r"""Ridge regression with differential privacy, from a single release.

    The joint second moment of standardized features, targets and a constant is released
    once. Coefficients for every penalty and the choice of a penalty are computed from
    this release at no further cost. With `intervals`, a second small release gives
    confidence intervals. You need to know neither bounds nor magnitudes of the data.
    Read more in the :ref:`user guide <ridge>`.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        Penalty on the squared coefficients of the standardized features, non-negative,
        as in :class:`~sklearn.linear_model.Ridge` after a
        :class:`~sklearn.preprocessing.StandardScaler`. "auto" uses the mean of two
        estimates. The first raises small eigenvalues of the released moment to a floor
        and shrinks the coefficients by a factor; the floor is chosen by an error
        estimate that is computed from the release. The second is a posterior mean under
        normal priors. Coefficients are 0 if no other choice promises to be better.
    {epsilon}
    {delta}
    {basis_of_ridge}
    {bounds}
        Bounds help if there are too few rows for private scales (:ref:`ridge`).
    {accountant}
    {noise_seed}
    target_bounds : tuple (low, high) or None, default=None
        Public bounds of the targets, numbers or arrays of shape (n_targets,).
    intervals : bool, default=False
        Whether to release what :meth:`conf_int` needs. This takes 35 % of the moment's
        part of the budget, and rows are weighted by their features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients in the units of the data, 0 for unseen features.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercepts.
    coef_std_ : ndarray of the shape of `coef_`
        Standard errors of the unpenalized coefficients, including noise and sampling
        error; NaN where the noise hides them. Only with ``intervals=True``, like the
        following attributes.
    weighted_coef_ : ndarray of shape (n_targets, n_features + 1)
        Unpenalized coefficients, with the intercept last, 0 for unseen features.
    coef_cov_ : ndarray of shape (n_targets, n_features + 1, n_features + 1)
        Covariances of the errors of `weighted_coef_`. The standard error of a fitted
        mean at x is the root of the quadratic form of (x, 1).
    kept_ : ndarray of shape (n_features,)
        Shares of the mean squares of standardized features that rows keep when they are
        weighted.
    linearity_pvalue_ : float or ndarray of shape (n_targets,)
        P-values of a test that the mean of the target is linear in the features. The
        test has little power with few rows.
    hidden_directions_ : ndarray of shape (n_features, n_hidden)
        Combinations of standardized features whose variance may be noise.
    row_radius_ : float
        Length of standardized features with a constant beyond which rows have a weight
        below 1: this radius over their length.
    alpha_ : float or ndarray of shape (n_targets,)
        Penalty. With ``alpha="auto"``, the floor of the eigenvalues of the summed
        products of the standardized features; infinite if the coefficients are 0.
    {moment_attributes}
    unseen_targets_ : ndarray of bool of shape (n_targets,)
        Mask of the targets that are lost in the noise. Their coefficients are 0.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    NoisyFitWarning
        If public numbers show that no feature can be seen at this budget, or if the
        release shows that features or targets are not seen.

    See Also
    --------
    DPAdamRegressor : Networks and linear models trained with private gradients.
    sklearn.linear_model.Ridge : Ridge regression without privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row with its targets, under replacement of
    that row (`n_samples` is public), for any data. All fitted attributes, :meth:`path`
    and :meth:`conf_int` are covered.

    Means and scales are those of :class:`~skdpspectral.DPStandardScaler`. They take 25
    to 55 % of the budget's :math:`\mu^2` for the features, and 6 % for the targets, or
    up to 40 % if features need none: with `bounds`, or directly behind a
    :class:`~skdpspectral.DPTableVectorizer`. Each joint row of standardized features,
    targets and a constant is clipped to norm c. The second moment of these rows has
    Frobenius sensitivity :math:`\sqrt2 c^2 / n` (:ref:`lemma-joint-rows`). If no target
    exceeds the noise, the locations of the targets are released instead: means within
    `target_bounds`, or medians.

    With `intervals`, rows of this moment are weighted by their features, and it takes
    65 % of its part of the budget (:ref:`lemma-weighted-rows`). Moments of clipped
    residuals follow (:ref:`lemma-residual-moments`): 27 % for those of all rows, 8 %
    for those of rows far from the center, which test linearity.

    **Few rows.** If `n_samples`, the number of features and the budget show that
    coefficients cannot be estimated, the whole budget is spent on these locations. The
    model is then a constant, and a warning is issued. The error of the constant is
    about the extent of `target_bounds` divided by :math:`\mu n`. Without
    `target_bounds`, a single target needs about :math:`34 / \mu` rows (150 at epsilon
    1, 280 at 0.5, 540 at 0.25). With fewer, the prediction is 0.

    References
    ----------
    Wang (2018), Revisiting differentially private linear regression, for regularization
    based on the noise of the released sufficient statistics.
    Stein (1981), Estimation of the mean of a multivariate normal distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([1e6, -3.0], [2e4, 0.01], size=(20_000, 2))
    >>> y = X @ [1e-3, 4e3] + rng.normal(size=20_000)
    >>> model = DPRidge(epsilon=1.0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds", "target_bounds")

    _parameter_constraints: ClassVar[dict] = {
        **MomentModel._parameter_constraints,
        "target_bounds": [tuple, list, np.ndarray, None],
        "intervals": ["boolean"],
    }

    _: KW_ONLY
    target_bounds: Any = None
    intervals: bool = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # few rows are hidden by the noise
        return tags

    def privacy_plan(self, n_samples, n_features, n_targets=1):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        {shape_of_rows}
        n_targets : int, default=1
            Number of targets.

        {returns_plan}
        """
        n_targets = check_count("n_targets", n_targets)
        return self._plan_of_shape(n_samples, n_features, n_targets)

    def _given_of_targets(self, n_targets: int) -> tuple:
        if self.target_bounds is None:
            return None, None
        try:
            return make_box(self.target_bounds, n_targets, per_feature=True), None
        except ValueError as error:
            message = str(error).replace("feature", "target")
            raise ValueError(f"target_{message}") from None

    def _deferred_targets(self, y, n_rows: int) -> DeferredRead:
        return deferred_targets(self, y, n_rows, several=True)

    # -- intervals -------------------------------------------------------------------

    def _set_released(self, found) -> None:
        super()._set_released(found)
        for name in _OF_INTERVALS:
            self.__dict__.pop(name, None)
        if not self.intervals:
            return
        p, seen = self.n_features_in_, ~self.unseen_targets_
        self.row_radius_ = found.radius
        self.weighted_coef_ = np.zeros((len(seen), p + 1))
        self.coef_cov_ = np.zeros((len(seen), p + 1, p + 1))
        self.linearity_pvalue_ = np.full(len(seen), np.nan)
        self.kept_, self.hidden_directions_ = np.full(p, np.nan), np.eye(p)
        if found.weighted is not None:
            estimates, covariances, p_values, hidden, kept = found.weighted
            inputs = np.flatnonzero(~self.unseen_features_)
            self.hidden_directions_ = np.zeros((p, hidden.shape[1]))
            self.hidden_directions_[inputs] = hidden[:-1]
            self.kept_[inputs] = kept[:-1]
            self.linearity_pvalue_[seen] = p_values
            # From standardized columns to those of the data.
            scale, at = self.scale_[inputs], np.append(inputs, p)
            turn = np.diag(np.append(1.0 / scale, 1.0))
            turn[-1, :-1] = -self.mean_[inputs] / scale
            units = self.target_scale_[seen][:, None]
            estimates = estimates @ turn.T * units
            estimates[:, -1] += self.target_mean_[seen]
            self.weighted_coef_[np.ix_(seen, at)] = estimates
            covariances = turn @ covariances @ turn.T * units[:, :, None] ** 2
            self.coef_cov_[np.ix_(seen, at, at)] = covariances
        self.coef_std_ = self._contrasts()[1]

    def _contrasts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (k, p), or effects of levels, and errors; or NaN."""
        stop, seen = self.n_features_in_, ~self.unseen_features_
        rows, shares, fixed = np.eye(stop), np.zeros(stop), np.zeros(stop)
        shares[seen] = np.maximum(self.moment_[-1, : int(seen.sum())], 1e-9)
        hidden = np.sum(self.hidden_directions_**2, axis=1)
        for block in np.unique(self.blocks_[(self.blocks_ >= 0) & seen]):
            columns = np.flatnonzero(self.blocks_ == block)
            own = np.where(hidden[columns] < 1.0 - 1e-9, shares[columns], 0.0)
            base = own * (hidden[columns] <= _MOST_HIDDEN)
            at = np.ix_(columns, columns)
            rows[at] -= base / max(base.sum(), 1e-300)
            # No estimate moves along the shares.
            fixed[columns] = (rows[at] @ own) ** 2 / (own @ own)
        lengths = np.sum(rows**2, axis=1) - fixed
        hidden = np.sum((rows @ self.hidden_directions_) ** 2, axis=1)
        # Without a contrast, it is the only level that is not hidden.
        unknown = ~rows.any(axis=1) | ~seen
        unknown |= hidden > _MOST_HIDDEN * lengths
        found = self.weighted_coef_[:, :stop] @ rows.T
        squares = np.sum(rows @ self.coef_cov_[:, :stop, :stop] * rows, axis=-1)
        errors = np.sqrt(np.maximum(squares, 0.0))
        errors[:, unknown], errors[self.unseen_targets_] = np.nan, np.nan
        return np.where(np.isnan(errors), np.nan, found), errors

    # -- what the release tells besides ----------------------------------------------

    def path(self, alphas):
        """Return the coefficients for several penalties, from the same release.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Non-negative penalties, as `alpha`.

        Returns
        -------
        coefs : ndarray of shape (n_alphas, n_features)
            Coefficients in the units of the data. The shape is (n_alphas, n_targets,
            n_features) for several targets.
        intercepts : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
            Intercepts.

        Raises
        ------
        ValueError
            If a penalty is negative or not finite.
        """
        check_is_fitted(self)
        checked = as_numbers(alphas, "biufO")
        if checked is None or checked.ndim != 1 or not checked.size:
            raise ValueError("alphas must be a one-dimensional list of penalties")
        if not (np.isfinite(checked) & (checked >= 0.0)).all():
            raise ValueError("alphas must be finite, and at least 0")
        moment = self._moment()
        found = [self._in_units(kernels.penalized(moment, each)) for each in checked]
        coefs, intercepts = map(np.array, zip(*found, strict=True))
        if np.ndim(self.intercept_) == 0:
            return coefs[:, 0], intercepts[:, 0]
        return coefs, intercepts

    def conf_int(self, level=0.95, *, target="weighted"):
        """Return confidence intervals of the coefficients; needs ``intervals=True``.

        The intervals are for the unpenalized coefficients. They account for the noise
        of all releases and for the sampling of rows. Variances of errors may differ.
        Residuals are cut at four to eight of their deviations: errors far beyond that
        shift coefficients if they are skewed and their scale depends on a feature.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval contains its coefficient, in (0, 1).
        target : {{"weighted", "population"}}, default="weighted"
            "weighted" is for least squares with the weights of rows (`row_radius_`).
            These are the coefficients of the population if the mean of the target is
            linear in the features. "population" returns the same intervals, and raises
            an error if the release speaks against this.

        Returns
        -------
        ndarray of shape (n_features, 2) or (n_targets, n_features, 2)
            Lower and upper ends. NaN for features and levels that the noise hides.
            Coefficients of one-hot columns behind a :class:`DPTableVectorizer` are
            differences from the mean over those levels of the category that noise does
            not hide.

        Raises
        ------
        ValueError
            If a parameter is invalid, if the fit had no ``intervals=True``, if noise
            hides all coefficients, or if `target` is "population" and a feature keeps
            less than 95 % of its mean square (`kept_`, with an allowance for noise) or
            `linearity_pvalue_` is below 0.05.
        """
        if not (isinstance(level, Real) and 0.0 < level < 1.0):
            raise ValueError(f"level must be a number in (0, 1), got {level!r}")
        if target not in ("weighted", "population"):
            raise ValueError(f'target must be "weighted" or "population": {target!r}')
        check_is_fitted(self)
        if not hasattr(self, "coef_cov_"):
            raise ValueError(
                "conf_int needs a second release: fit with intervals=True, which takes "
                "a part of the same budget"
            )
        center, errors = self._contrasts()
        if np.isnan(errors).all():
            raise ValueError(
                "conf_int: no coefficient has variance above the noise, so intervals "
                "would be unreliable. Remove features that are sums of others, or use "
                "more rows, a larger epsilon or fewer features"
            )
        if target == "population":
            self._check_population()
        reach = float(ndtri(0.5 + 0.5 * level)) * errors
        found = np.stack([center - reach, center + reach], axis=-1)
        return found.reshape(*self.coef_.shape, 2)

    def _check_population(self) -> None:
        """Refuse if public numbers speak against coefficients of the population."""
        least = _LEAST_KEPT - _KEPT_NOISE * self.moment_noise_std_
        cut = np.flatnonzero(self.kept_ < least)
        if len(cut):
            raise ValueError(
                f"target='population': rows keep only {self.kept_[cut].min():.2f} of "
                f"the mean square of feature {cut[np.argmin(self.kept_[cut])]}, "
                'because it is skewed: use target="weighted", or transform the feature'
            )
        least = np.nanmin(np.append(self.linearity_pvalue_, 1.0))
        if least < _LEAST_P_VALUE:
            raise ValueError(
                f"target='population': linearity_pvalue_ = {least:.3g}, so that the "
                'target is not linear in the features: use target="weighted"'
            )

    # -- what is made of rows ----------------------------------------------------------

    def predict(self, X):
        """Predict targets, with features clipped at `limits_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions in the units of the targets.
        """
        return self._linear(X)


@documented
@dataclass(eq=False, repr=False)
class DPRidgeClassifier(PrivateClassifier, MomentModel):
    r"""Ridge classification with differential privacy, from a single release.

    As in :class:`~sklearn.linear_model.RidgeClassifier`, least squares is fitted to an
    indicator of each class, and the class with the largest prediction wins. All
    regressions use one release, as in :class:`DPRidge`. There are no probabilities,
    because least-squares predictions are shrunk and may be negative. Read more in the
    :ref:`user guide <ridge_classifier>`.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        Penalty on the squared coefficients of the standardized features, non-negative.
        "auto" chooses one penalty for all classes, as :class:`DPRidge` does.
    {epsilon}
    {delta}
    {basis_of_ridge}
    {bounds}
        Bounds help if there are too few rows for private scales (:ref:`ridge`).
    {accountant}
    {noise_seed}
    {classes}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients in the units of the data. There is a single row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    alpha_ : float
        Penalty. With ``alpha="auto"``, the floor of the eigenvalues, as in
        :class:`DPRidge`; infinite if the coefficients are 0.
    {moment_attributes}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    DPAdamClassifier : Logistic regression and networks, with probabilities.
    DPRidge : Regression of numeric targets, with confidence intervals.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row with its label, under replacement of
    that row (`n_samples` is public), for any data; `classes` must be public. Indicators
    are -1 and 1 for two classes, and 0 and 1 otherwise, so they need no private scale.
    The releases are the same as in :class:`DPRidge` with one target per class
    (:ref:`lemma-joint-rows`). If `bounds` replace private scales, a mean of the
    features is released first, for 8 % of the budget's :math:`\mu^2`. If public numbers
    show that coefficients cannot be estimated, the shares of the classes are released,
    and every row is assigned the most frequent class.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPRidgeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([1e6, -3.0], [2e4, 0.01], size=(20_000, 2))
    >>> y = X[:, 0] / 2e4 + X[:, 1] / 0.01 > -250.0
    >>> model = DPRidgeClassifier(epsilon=1.0, classes=[False, True]).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _shrinks_alike = True
    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds", "classes")

    _parameter_constraints: ClassVar[dict] = {
        **MomentModel._parameter_constraints,
        **PrivateClassifier._class_constraints,
    }

    _: KW_ONLY
    classes: Any = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # few rows are hidden by the noise
        return tags

    def privacy_plan(self, n_samples, n_features, n_classes=None):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        {shape_of_rows}
        n_classes : int or None, default=None
            Number of classes. None uses the number of `classes`, or 2.

        {returns_plan}
        """
        return self._plan_of_shape(n_samples, n_features, self._n_outputs(n_classes))

    def _given_of_targets(self, n_targets: int) -> tuple:
        if n_targets == 1:
            return make_box((-1.0, 1.0), 1, per_feature=True), (0.0, 1.0)
        center = 1.0 / n_targets
        scale = math.sqrt(center * (1.0 - center))
        return make_box((0.0, 1.0), n_targets, per_feature=True), (center, scale)

    def _deferred_targets(self, y, n_rows: int) -> DeferredRead:
        """Check the form of labels; ``read()`` returns indicators of their classes."""
        labels = self._deferred_labels(y, n_rows)
        n_outputs = n_outputs_of(len(self.classes_))

        def read():
            found = self._one_hot(labels.read())
            return 2.0 * found - 1.0 if n_outputs == 1 else found

        return replace(labels, shape=(n_rows, n_outputs), read=read)

    _outputs = MomentModel._linear
