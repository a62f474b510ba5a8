"""What ridge models release: units of columns, and moments of standardized rows.

One moment of features and targets serves all penalties, and moments of residuals serve
intervals. Constant models use means or medians of targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg.eigen import pack_lower, packed_diagonal, unpack_lower
from .._linalg.walks import (
    RowWalk,
    reduce_rows,
    rows_per_block,
    sum_of_outer_products,
)
from .._statistics.feature_scales import FARTHEST, FeatureScales
from .._statistics.statistic import (
    Choice,
    Combination,
    Statistic,
    Votes,
    mean_summation_error,
)
from .._tables.clipping import Box, clip_rows
from .._tables.files import rows_beside
from .._tables.table import rows_at
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Neighbors
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
    """A map to standardized regressors, of which the last is a constant, and targets.

    `limits`, `center` and `scale` are of the chosen `columns`, of which the last ones
    are the targets. Regressors are columns of the `basis`, made of chosen features.
    """

    columns: np.ndarray
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
    """Return regressors, weighted targets and a constant, in the unit ball.

    Rows longer than `radius` are scaled down as a whole, which preserves linear
    relations.
    """
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


# -- single releases -------------------------------------------------------------------


class RowMean(Statistic):
    """One release: a mean over rows, of which each moves it by at most `moved`.

    `more` are arguments of the Gaussian mechanism.
    """

    def __init__(self, name: str, n_samples: int, moved: float, shape, **more) -> None:
        self.name, self.n_samples = name, n_samples
        self._moved, self._shape, self._more = moved, shape, more

    def mechanisms(self, mu: float) -> tuple:
        more = self._more
        return calibrate_alike([self.name], self._moved, mu, self._shape, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> Any:
        """Release the mean of a kernel's sums, at their place in zeros if it is given.

        Rows are mapped; ``place`` writes sums of seen columns among those of all.
        """
        walk, kernel, *place = given
        mean = reduce_rows(rows, walk, kernel) / self.n_samples
        for put in place:
            mean = put(np.zeros(self._shape), mean)
        return release(self.name, mean, overwrite=True)

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

    def are_sure(self, mu: float) -> bool:
        """Return whether all rows together outvote the noise at a total cost of mu."""
        noise = math.sqrt(self.n_targets * _HALVINGS.n_steps) / mu
        return _ROWS_PER_NOISE * noise < self.n_samples

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
    """Means of columns in a public box, shrunk to its middle.

    `likely` is their prior deviation in half-widths; None to estimate it.
    """

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
        square = max(float(np.mean(mean**2)) - noise**2, 0.0)
        if self.likely is not None:
            square = self.likely**2
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
    """Return the release of the second moment of rows in the unit ball.

    `n_columns` are those of regressors and targets, without the constant.
    """
    return RowMean(
        "joint_moment",
        n,
        sensitivity.second_moment_sensitivity(1.0, n),
        (n_columns + 1, n_columns + 1),
        symmetric=True,
        summation_error=mean_summation_error(1.0, n, n_columns),
        magnitude=2.0,
        lemma="joint-rows",
    )


# Weight of second moments in the release of scores: the largest one that is free.
_SCORE_WEIGHT = 0.5


class ResidualMoments(RowMean):
    """Means of scores and their second moments, which cost nothing besides.

    `order` counts the regressors, with the constant.
    """

    def __init__(self, n: int, order: int, n_targets: int, name: str) -> None:
        shape = n_targets, order + order * (order + 1) // 2
        error = mean_summation_error(
            1.5 * math.sqrt(n_targets), n, order - 1 + n_targets
        )
        super().__init__(
            name,
            n,
            sensitivity.residual_moments_sensitivity(n, n_targets),
            shape,
            summation_error=2.0 * error,  # packed entries are rounded once more
            magnitude=2.0,
            lemma="residual-moments",
        )
        self._order = order
        self._off = np.full(shape[1] - order, math.sqrt(2.0 * _SCORE_WEIGHT))
        self._off[packed_diagonal(order)] = math.sqrt(_SCORE_WEIGHT)

    def run(self, release: Any, rows: Any, *given: Any) -> kernels.Scores:
        """Release moments of mapped rows, for the given columns and targets."""
        row_map, kept, targets = given
        order, at = self._order, np.ix_(kept, kept)

        def put(exact, sums):
            for j, found in zip(targets, sums, strict=True):
                square = np.zeros((order, order))
                square[at] = found[:, 1:]
                exact[j, kept] = found[:, 0]
                exact[j, order:] = pack_lower(square) * self._off
            return exact

        kernel = partial(_sums_of_scores, order=len(kept), n_targets=len(targets))
        found = super().run(release, rows, RowWalk(row_map), kernel, put)[targets]
        squares = [unpack_lower(each / self._off, order) for each in found[:, order:]]
        squares = np.reshape(squares, (-1, order, order))[:, kept][:, :, kept]
        noise = np.full(len(targets), self.noise_std(release))
        return kernels.Scores(found[:, kept], squares, noise)


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

# Shares of mu**2 of private scales: such that columns which differ in `_VISIBLE` of all
# pairs are seen, within limits. Features come first; for targets the least is enough
# beside scales of features. With that alone, R2 is 0 in some fits of five tables of a
# few thousand rows.
_SCALE_SHARES = {"X": (0.25, 0.55), "y": (0.06, 0.4)}

_VISIBLE, _PER_NOISE = 0.1, 20.0

# Share of the mean square of rows in public bounds; and, for classes, that of their
# mean: rows about it are shorter, and so is the radius that they are clipped to.
_SQUARE_SHARE, _CENTER_SHARE = 0.05, 0.08

# With public bounds, share of the pairs that a column must differ in beyond which
# scales are not private ones but a quarter of the bounds' extent.
# Targets are what a fit is for.
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
_INTERVAL_SHARES = {"moment": 0.65, "scores": 0.27, "far": 0.08}

# Lengths of features, in usual ones, and of targets, that weights and limits keep; and
# the length of targets, in that of features. Scores correct what is lost by it.
_KEPT_LENGTH, _KEPT_TARGET, _TARGET_PART = 1.5, 4.0, 0.6

# Deviations of residuals at which they are cut: the most between these by which the
# noise of scores is at most this part of their sampling error.
_RESIDUALS, _SCORE_NOISE = (4.0, 8.0), 0.5


class Fitted(NamedTuple):
    """The moment of the seen columns, with the units and limits of all columns.

    Columns are regressors, targets and a constant. `spread` is the deviation of the
    off-diagonal noise, and `cross_spread` that of products with targets. `weighted` are
    the estimates that intervals are made of, if any.
    """

    matrix: np.ndarray
    spread: float
    cross_spread: float
    units: Units
    limits: tuple[np.ndarray, np.ndarray]
    weighted: kernels.Weighted | None = None


class RegressionMoments(Combination):
    """Private scales of columns, unless public, followed by the joint moment.

    `boxes` are public boxes of features and of targets, or None. `target_units` are
    public centers and scales of targets, which replace private ones. `square` is the
    mean squared length of features that are standardized already, or None. With
    `intervals`, rows are weighted by features alone, and scores are released besides;
    `blocks` is the block of one-hot columns that each feature is in, -1 for none.
    `basis` is the name of a basis, in which features with infinite limits are numbers.
    """

    def __init__(
        self,
        n_samples: int,
        n_features: int,
        n_targets: int,
        mu: float,
        *,
        boxes: tuple[Box | None, Box | None] = (None, None),
        target_units: tuple[float, float] | None = None,
        square: float | None = None,
        intervals: bool = False,
        blocks: np.ndarray | None = None,
        basis: str = "linear",
    ) -> None:
        self.n_samples, self._mu, self.square = n_samples, mu, square
        self.widths = {"X": n_features, "y": n_targets}
        self.boxes = dict(zip(self.widths, boxes, strict=True))
        self.units = {"X": None if square is None else (0.0, 1.0), "y": target_units}
        self.blocks = np.full(n_features, -1) if blocks is None else blocks
        parts, shares = self._parts_of_units()
        shares["moment"] = 1.0 - sum(shares.values())
        reach = mu * math.sqrt(shares["moment"])
        self._choose_basis(basis, n_samples * reach)
        width = len(self.basis.sources())
        self.n_columns = width + n_targets
        self.moment = joint_moment(n_samples, self.n_columns)
        self.scores: dict[str, ResidualMoments] = {}
        regression: Statistic = self.moment
        if intervals:
            shape = n_samples, n_features + 1, n_targets
            names = {"scores": "scores", "far": "far_scores"}
            self.scores = {k: ResidualMoments(*shape, v) for k, v in names.items()}
            regression = Combination(
                {"moment": self.moment, **self.scores}, _INTERVAL_SHARES
            )
        parts["moment"] = regression
        # What is released alone where public numbers say that nothing else is found.
        self.location = self._constant_model(mu)
        instead = self._constant_model(reach)
        if self.location is not None and self._is_hopeless(parts, shares):
            parts, shares = {"location": self.location}, {"location": 1.0}
        else:
            self.location = None
            if instead is not None and "y" in parts:
                # Without a target, its location is worth more than any moment.
                parts["moment"] = Choice("regression", regression, instead)
        super().__init__(parts, shares)

    # -- what is public ----------------------------------------------------------------

    def _parts_of_units(self) -> tuple[dict[str, Statistic], dict[str, float]]:
        """Return statistics of locations and scales, and their shares of mu**2."""
        n, box = self.n_samples, self.boxes["X"]
        parts: dict[str, Statistic] = {}
        shares: dict[str, float] = {}
        for name in ("y", "X"):
            if self._is_scaled(name):
                parts[name] = FeatureScales(
                    n,
                    self.widths[name],
                    box=self.boxes[name],
                    prefix="target_" * (name == "y"),
                    factor=_SURER[name],
                )
                shares[name] = self._scale_share(name)
        if "X" not in parts and self.square is None:
            if box is not None and self.units["y"] is not None:
                parts["center"] = BoxMeans(n, box, "feature_means")
                shares["center"] = _CENTER_SHARE
            parts["square"] = mean_square(n, sum(self.widths.values()))
            shares["square"] = _SQUARE_SHARE
        return parts, shares

    def _is_scaled(self, name: str) -> bool:
        """Return whether features, or targets, get private scales."""
        if self.units[name] is not None:
            return False
        return self.boxes[name] is None or self._visible(name) < _BLIND[name]

    def _scale_share(self, name: str) -> float:
        """Return the share of mu**2 of private scales."""
        least, most = _SCALE_SHARES[name]
        if name == "y" and (self._is_scaled("X") or self.boxes[name] is not None):
            return least
        needed = self._visible(name, 1.0) / _VISIBLE
        return float(np.clip(needed**2, least, most))

    def _visible(self, name: str, share: float | None = None) -> float:
        """Return about the share of pairs that must differ for a column to be seen."""
        share = self._scale_share(name) if share is None else share
        reach = self.n_samples * self._mu * math.sqrt(share)
        return _PER_NOISE * math.sqrt(self.widths[name]) / reach

    def _choose_basis(self, wanted: str, reach: float) -> None:
        """Set the basis; `reach` is the number of rows times mu of the moment."""
        box, self.others = self.boxes["X"], 0.0
        expanded = np.ones(self.widths["X"], dtype=bool)
        if self.square is not None and box is not None:
            # A step before hands on infinite limits of its numbers, cut to equal ones.
            expanded = (box.high > 1.0) & (box.low < -1.0)
            self.others = self.square - float(expanded.sum())
        given = expanded, self.others, self.widths["y"], reach
        self.basis = kernels.chosen_basis(wanted, *given)

    def _constant_model(self, mu: float) -> Medians | BoxMeans | None:
        """Return what locates targets; None if noise outvotes all rows."""
        n, box = self.n_samples, self.boxes["y"]
        if box is not None:
            return BoxMeans(n, box, "target_means", _LIKELY_MEAN)
        medians = Medians(n, self.widths["y"])
        return medians if medians.are_sure(mu) else None

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
            for text in parts[name].unseen_features(plan)
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
        targets = columns[len(columns) - n_targets :] - p + last - self.widths["y"]
        kept = np.concatenate([inputs, targets, [last]]).astype(int)
        joint, at = rows.of("X", "y"), np.ix_(kept, kept)

        def put(exact, moment):
            exact[at] = moment
            return exact

        walk = RowWalk(partial(row_map, **more), rows_per_block(last))
        kernel = partial(sum_of_outer_products, n_features=len(kept))
        released = self.moment.run(release, joint, walk, kernel, put)[at]
        # In units of the targets themselves.
        divisor = np.ones(len(kept))
        divisor[len(inputs) : -1] = weight
        matrix, spread = released * length**2, noise * length**2
        matrix /= np.outer(divisor, divisor)
        found = Fitted(matrix, spread, spread / weight, units, limits)
        if not self.scores:
            return found
        weighted = self._weighted(release, joint, found, standard, radius)
        return found._replace(weighted=weighted)

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

    def _edges(self) -> list[np.ndarray]:
        """Return public bounds of all columns, infinite if there are none."""
        ends = []
        for width, box in zip(self.widths.values(), self.boxes.values(), strict=True):
            endless = np.full(width, np.inf)
            ends.append((-endless, endless) if box is None else (box.low, box.high))
        return [np.concatenate(side) for side in zip(*ends, strict=True)]

    def _limits(self, units: Units, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """Return clipping limits: bounds, and many deviations from the mean."""
        low, high = self._edges()
        reach = FARTHEST if noise else math.inf
        with np.errstate(all="ignore"):
            spread = np.where(units.seen, reach * units.scale, math.inf)
            inner = units.center - spread, units.center + spread
        return np.maximum(inner[0], low), np.minimum(inner[1], high)

    def _mean_squares(self, release, rows, units: Units) -> tuple[float, float]:
        """Return mean squared lengths of features and targets, released in bounds."""
        p, parts = self.widths["X"], self.parts()
        n_features, n_targets = units.seen[:p].sum(), units.seen[p:].sum()
        if self.square is not None:
            n_features = self.square
        if "square" not in parts:
            return float(n_features), float(n_targets)
        low, high = self._edges()
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
        """Release scores, and those of far rows; return what intervals are made of."""
        inputs, targets = standard.inputs, standard.columns - self.widths["X"]
        moment = kernels.moment_of(
            found.matrix, len(inputs), found.spread, found.cross_spread, self.n_samples
        )
        blocks = np.append(self.blocks[inputs], -1)
        inverse = kernels.inverse_within(moment, blocks)
        first, deviations = kernels.first_estimates(moment, inverse)
        noise = self.scores["scores"].noise_std(release)
        noise = max(noise * radius * math.sqrt(self.n_samples), 1e-300)
        cut = np.clip(_SCORE_NOISE / noise, *_RESIDUALS)
        estimate, scores, reach = first, [], cut * deviations
        if found.spread == 0.0:
            reach = _ENDLESS * reach
        kept = np.append(inputs, self.widths["X"])
        for name, part in self.scores.items():
            row_map = partial(
                residual_rows,
                standard=standard,
                radius=radius,
                coefficients=estimate,
                reach=reach,
                far=name == "far",
            )
            of = part.run(release, rows, row_map, kept, targets[len(inputs) :])
            scores.append(of.times(reach * radius))
            estimate = first + inverse.matrix @ scores[0].means.T
        # Others have no mean square of 1 before they are weighted.
        ones = (blocks < 0) & ("X" in self.parts() or self.square is not None)
        kept = np.where(ones, *(np.diag(moment.regressors), moment.regressors[-1, -1]))
        return kernels.weighted_estimates(
            moment, inverse, estimate, scores, kept, radius
        )
