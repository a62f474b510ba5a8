"""A private covariance of all features, and its components, in one release."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammainc, gammaincinv

from .. import sensitivity
from .._linalg import eigen, moments
from .._statistics.row_bounds import EARLY, RowBounds, plan_second_moment, share_of
from .._statistics.statistic import HALF, Combination, Statistic, Terms
from .._tables.clipping import normalize_rows
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Neighbors, PrivacyPlan
from ._components import MOST_COMPONENTS, Components

# Share of mu**2 of the votes for the far radius; of those for the near one at least and
# at most; and of the first layer in what the votes leave.
_FAR_VOTES, _NEAR_VOTES, _NEAR_LAYER = 0.03, (0.005, 0.2), 0.85

# Share of the rows that the first radius clips; of all that have a length if there are
# too few to tell a quarter of them from the noise of the votes.
_CLIPPED, _CLIPPED_OF_FEW = 0.25, 0.5

# Steps of the two searches: all of the range, and up to 128 cells beyond the first.
_NEAR_STEPS, _FAR_STEPS = 9, 7

# Deviations of the votes' noise that their margin has, where the budget allows it.
_SURE, _FAIRLY_SURE, _FAR_SURE = 5.0, 2.5, 3.0

# Most rows beyond the far radius, as a share; beyond it there is one layer.
_MOST_FAR = 0.1

# What the grid of a release may add to the noise that was asked for.
_ROUNDED = 1.05

# Least eigenvalue of a covariance without noise, over the mean of all.
_LEAST = 1e-12


@dataclass(frozen=True)
class MomentLayer(Statistic):
    """Second moment of rows of at most unit norm: one layer of a clipped moment."""

    name: str
    n_samples: int
    n_features: int
    weights: tuple[float, ...] = (1.0,)

    def mechanisms(self, mu: float) -> tuple:
        size, more = (self.n_samples, self.n_features), {"weights": self.weights}
        more["lemma"] = "whole-covariance"
        return plan_second_moment(self.name, *size, mu, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the mean of outer products, from their sum over given terms."""
        (terms,) = given
        return terms.undo(release(self.name, rows / terms.divisor))


# Cells that the logarithmic range of lengths is divided into, as a power of two; and
# those of the finest search.
GRID_BITS, CELL_BITS = 12, 3


class LengthCounts:
    """Counts of rows longer than each point of a logarithmic grid, in `longer`.

    Rows shorter than `low` are not counted.
    """

    def __init__(self, low: float, high: float):
        self._points = np.linspace(2 * math.log(low), 2 * math.log(high), self.size + 1)
        self.longer = np.zeros(self.size + 1, dtype=np.int64)

    size = 2**GRID_BITS

    def update(self, rows: Any) -> None:
        """Count dense or sparse rows; NaN counts as very long."""
        with np.errstate(all="ignore"):
            logs = np.log(moments.row_squares(rows))
            logs = np.nan_to_num(logs, nan=np.inf, posinf=np.inf)
        places = np.searchsorted(self._points, logs)
        found = np.bincount(places, minlength=self.size + 2)
        self.longer += found[::-1].cumsum()[::-1][1:]

    def length(self, point: int) -> float:
        """Return the length at a point of the grid."""
        return math.exp(0.5 * self._points[min(point, self.size)])


@dataclass(frozen=True)
class LengthQuantile(Statistic):
    """A length that a wanted share, or number, of rows exceeds, by noisy bisection.

    Each step releases how many more rows than wanted are longer than a tried length;
    only the sign is used. It searches ``2**n_steps`` cells of 8 points of the grid of
    :class:`LengthCounts`.
    """

    name: str
    n_steps: int
    n_samples: int

    @property
    def moved(self) -> float:
        """Sensitivity of a vote; in pairs, all votes of a row add up to one."""
        return sensitivity.vote_sensitivity(1, Neighbors.REPLACE_ONE)

    def noise_std(self, mu: float) -> float:
        """Return the deviation of each vote's noise, without the grid's share."""
        return self.moved * math.sqrt(self.n_steps) / mu

    def mechanisms(self, mu: float) -> tuple:
        names = [f"{self.name}_{step}" for step in range(1, self.n_steps + 1)]
        n = float(self.n_samples)
        # Counts are exact; their part of a row may be none that float64 has.
        rounding = n * 2.0**-50
        more = {"summation_error": rounding, "lemma": "length-votes"}
        return calibrate_alike(names, self.moved, mu, (1,), magnitude=n, **more)

    def run(self, release: Any, rows: LengthCounts, *given: Any) -> int:
        """Release the votes; return a point of the grid.

        Given are the starting point, the number of rows wanted beyond the quantile, the
        share of these among rows of positive length, and the weight of a row.
        """
        start, number, share, weight = given
        wanted = number + share * weight * int(rows.longer[0])
        first, last = 0, 2**self.n_steps
        for step in range(1, self.n_steps + 1):
            middle = (first + last) // 2
            point = min(start + (middle << CELL_BITS), rows.size)
            votes = np.array([weight * int(rows.longer[point]) - wanted])
            if release(f"{self.name}_{step}", votes)[0] > 0.0:
                first = middle
            else:
                last = middle
        # The middle of the last cell.
        return min(start + (last << CELL_BITS) - (1 << CELL_BITS - 1), rows.size)


@dataclass(frozen=True)
class Covariance:
    """A released covariance, positive definite, in squared units of the rows.

    `radii` are the lengths that the layers are clipped to. `layer` is the first layer
    as released, and `spread` its off-diagonal noise's standard deviation.
    """

    matrix: np.ndarray
    spread: float
    radii: tuple[float, ...]
    layer: np.ndarray


class WholeCovariance(Statistic):
    """Covariance of rows about a given center, or of differences of rows.

    Rows are clipped at a private quartile of their lengths, which needs little noise. A
    second layer has what a larger clip would add, and counts as far as it exceeds its
    own noise; it is left out if the budget is too small for it. Lengths are in the
    public `length_range`. A public length `clip` gives one layer; None uses private
    lengths.
    """

    def __init__(
        self,
        n_samples: int,
        n_features: int,
        length_range: tuple[float, float],
        *,
        weights: tuple[float, ...] = (1.0,),
        clip: float | None = None,
    ) -> None:
        self.n_samples, self.n_features = n_samples, n_features
        self.length_range, self.clip = length_range, clip
        shape = n_samples, n_features, weights
        self.near = MomentLayer("near_moment", *shape)
        self.far = MomentLayer("far_moment", *shape)
        self.near_length = LengthQuantile("near_length", _NEAR_STEPS, n_samples)
        self.far_length = LengthQuantile("far_length", _FAR_STEPS, n_samples)
        # Rows that votes count, at least.
        self.n_voters = n_samples * min(weights)

    def combined(self, mu: float) -> Combination:
        """Return the releases at a total cost of mu, with their shares."""
        if self.clip is not None:
            return Combination({"near": self.near}, {"near": 1.0})
        near = self._near_votes(mu)
        shares = {"near_length": near, "near": 1.0 - near}
        parts = {"near_length": self.near_length, "near": self.near}
        if self._far_number(math.sqrt(_FAR_VOTES) * mu) > _MOST_FAR * self.n_voters:
            return Combination(parts, shares)
        left = 1.0 - near - _FAR_VOTES
        shares = {
            "near_length": near,
            "far_length": _FAR_VOTES,
            "near": _NEAR_LAYER * left,
            "far": (1.0 - _NEAR_LAYER) * left,
        }
        parts |= {"far_length": self.far_length, "far": self.far}
        return Combination({name: parts[name] for name in shares}, shares)

    def _near_votes(self, mu: float) -> float:
        """Return the share of the near radius' votes: enough for a quarter of rows."""
        low, high = _NEAR_VOTES
        noise = self.near_length.noise_std(mu)
        wanted = (_SURE * noise / (_CLIPPED * self.n_voters)) ** 2
        return min(max(wanted, low), high)

    def _far_number(self, mu: float) -> float:
        """Return the number of rows beyond the far radius, if its votes cost mu.

        For this number the loss by clipping equals the noise; fewer rows are hidden by
        the noise of the votes.
        """
        # The noise of all of the budget, in directions of a few eigenvectors.
        balance = 2.0 * math.sqrt(self.n_features) * self.far_length.moved / mu
        balance *= math.sqrt(_FAR_VOTES)
        return max(balance, _FAR_SURE * self.far_length.noise_std(mu))

    def mechanisms(self, mu: float) -> tuple:
        return self.combined(mu).mechanisms(mu)

    def votes_are_sure(self, plan: PrivacyPlan) -> bool:
        """Return whether the search for lengths almost never fails."""
        if self.clip is not None:
            return True
        noise = self._vote_noise(plan)
        return _FAIRLY_SURE * noise <= _CLIPPED_OF_FEW * self.n_voters

    def _vote_noise(self, plan: PrivacyPlan) -> float:
        return getattr(plan[f"{self.near_length.name}_1"], "noise_std", 0.0)

    def run(self, release: Any, rows: Terms, *given: Any) -> Covariance:
        """Release the covariance of centered rows, or of scaled differences.

        `given` are planned layers of the same rows that are released, too.
        """
        clipped = 0.0
        radii: tuple[Any, ...] = (self.clip,)
        if self.clip is None:
            radii, clipped = self._release_radii(release, rows)
        layers = rows.reduce(
            partial(_sums_of_layers, radii=radii, n_features=self.n_features)
        )
        areas = [radii[0] ** 2, *(far**2 - radii[0] ** 2 for far in radii[1:])]
        named = (self.near, self.far)
        found, spreads = [], []
        for statistic, layer, area in zip(named, layers, areas, strict=False):
            found.append(area * statistic.run(release, layer, rows))
            noise = getattr(release.plan[statistic.name], "noise_std", 0.0)
            spreads.append(area * noise / rows.weight / math.sqrt(2.0))
        for other in given:
            share = share_of(release.plan, other.name, self.near.name)
            also = areas[0] * other.run(release, layers[0], rows)
            found[0] = share * also + (1.0 - share) * found[0]
            spreads[0] *= math.sqrt(1.0 - share)
        matrix = self._joined(found, spreads, clipped, rows)
        return Covariance(matrix, spreads[0], radii, found[0])

    def _release_radii(self, release: Any, rows: Terms) -> tuple[tuple, float]:
        """Release the lengths of the layers, and the share clipped by the first."""
        counts = LengthCounts(*self.length_range)
        counts.longer = rows.reduce(partial(_count_lengths, span=self.length_range))
        plan, names = release.plan, {m.name for m in release.plan.mechanisms}
        # All that a row is in counts as one.
        weight = rows.weight * self.n_samples / rows.n_terms
        voters = rows.weight * self.n_samples
        few = _SURE * self._vote_noise(plan) > _ROUNDED * _CLIPPED * voters
        share = _CLIPPED_OF_FEW if few else _CLIPPED
        near = self.near_length.run(release, counts, 0, 0.0, share, weight)
        radii = (counts.length(near),)
        if self.far.name not in names:
            return radii, share
        cost = math.hypot(
            *(plan[f"{self.far_length.name}_{k + 1}"].mu for k in range(_FAR_STEPS))
        )
        number = self._far_number(cost)
        far = self.far_length.run(release, counts, near, number, 0.0, weight)
        return (*radii, counts.length(far)), share

    def _joined(self, layers, spreads, clipped: float, rows: Terms) -> np.ndarray:
        """Combine released layers to a positive definite matrix."""
        p, n = self.n_features, self.n_samples
        # Differences with few partners a row have more sampling error than rows.
        aspect = p / n * (1.0 + (HALF * n / rows.n_terms if rows.weight < 1.0 else 0.0))
        trace = max(float(np.trace(layers[0])), 0.0)
        floor = max(spreads[0], _LEAST * trace / p, np.finfo(float).tiny)
        if len(layers) == 1:
            matrix = eigen.shrink_noise(layers[0], spreads[0], aspect, floor)
            return matrix / (1.0 if clipped == 0.0 else _kept_share(matrix, clipped))
        return eigen.join_layers(*layers, *spreads, floor, aspect)


def _kept_share(matrix: np.ndarray, clipped: float) -> float:
    """Return the share of the trace that clipping keeps, for normal rows."""
    trace = float(np.trace(matrix))
    shape = 0.5 * trace**2 / float(np.sum(matrix**2))
    place = float(gammaincinv(shape, 1.0 - clipped))
    return float(gammainc(shape + 1.0, place)) + clipped * place / shape


def _count_lengths(blocks, span: tuple[float, float]) -> np.ndarray:
    """Count rows longer than each point of a grid."""
    counts = LengthCounts(*span)
    for block in blocks:
        counts.update(block)
    return counts.longer


def _sums_of_layers(blocks, radii: tuple[float, ...], n_features: int):
    """Sum outer products of the parts of clipped rows."""
    # The blocks are of mapped rows, whose memory is taken again.
    parts = (clipped_parts(block, radii, out=block) for block in blocks)
    return moments.sums_of_layers(parts, n_features, len(radii))


def clipped_parts(rows: Any, radii: tuple[float, ...], out: Any = None) -> list:
    """Split rows so that the squares of the parts add up to those of clipped rows.

    Each of one or two increasing `radii` gives rows of norm at most 1 except for
    rounding (:func:`clip_rows`). The first part is clipped at the first radius, divided
    by it. The second has the same directions; its squared length is what clipping at
    the second radius would add, over the largest such value. Non-finite rows become
    zero. The first part is written to `out`, which may be `rows`; sparse parts are
    allocated.
    """
    far = _far_part(rows, *radii) if len(radii) > 1 else None
    near = normalize_rows(rows, floor=radii[0], out=out)
    if len(radii) == 1:
        return [near]
    return [near, near[:0] if far is None else far]


def _far_part(rows: Any, near: float, far: float) -> Any:
    """Return the second part of the rows that have one, or None."""
    with np.errstate(all="ignore"):
        squares = moments.row_squares(rows)
    # Rows within the first radius have no second part: most of all rows.
    longer = ~(squares <= near**2)
    if far <= near or not longer.any():
        return None
    area = far**2 - near**2
    with np.errstate(all="ignore"):
        beyond = (np.fmin(squares[longer], far**2) - near**2) / area
    # Numbers of at most 1 cannot make a row longer, however products are rounded.
    beyond = np.sqrt(np.clip(beyond, 0.0, 1.0))
    own = rows[longer]
    return _scaled(normalize_rows(own, out=own), beyond)


def _scaled(rows: Any, factors: np.ndarray) -> Any:
    """Multiply each row by a factor; dense rows in place, sparse rows stay sparse."""
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.diags_array(factors) @ rows)
    return np.multiply(rows, factors[:, None], out=rows)


class CovarianceComponents(Statistic):
    """Eigenvectors and eigenvalues of a released covariance about a given mean.

    Parameters are those of :class:`PrincipalComponents`.
    """

    def __init__(
        self,
        bounds: RowBounds,
        n_samples: int,
        rank: int | None,
        norm_range: tuple[float, float],
    ) -> None:
        self.bounds, self.n_samples, self.rank = bounds, n_samples, rank
        low, high = norm_range
        # Nothing in the box is longer, whatever center in it is taken off.
        reach = 2.0 * bounds.box_radius
        self.whole = WholeCovariance(
            n_samples,
            bounds.n_features,
            (low, min(high, reach) if reach > low else high),
            weights=bounds.weights,
            clip=bounds.clip,
        )

    def mechanisms(self, mu: float) -> tuple:
        return self.whole.mechanisms(mu)

    def run(self, release: Any, rows: Any, *given: Any) -> Components:
        """Release the covariance of rows about a released center or None, or of pairs.

        A given length is ignored; given layers are released with the first one.
        """
        origin, *others = given
        more = others[1] if len(others) > 1 else ()
        found = self.whole.run(release, self.bounds.blocks(rows, origin), *more)
        rank = self.rank or self._released_rank(found)
        values, vectors = eigen.top_eigh(found.matrix, rank)
        above = self._above_noise(found, vectors)
        degrees, total = self.bounds.n_features - rank, float(np.trace(found.matrix))
        noise = (total - float(values.sum())) / degrees if degrees else 0.0
        noise = max(noise, np.finfo(float).tiny)
        mean = origin if isinstance(origin, np.ndarray) else None
        unit = self.bounds.unit
        return Components(
            mean, vectors, values, total, noise, unit, above, covariance=found.matrix
        )

    def _above_noise(self, found, vectors) -> int:
        """Count components of the first layer above its noise."""
        along = np.sort(np.sum((vectors @ found.layer) * vectors, axis=1))[::-1]
        return eigen.count_above_noise(
            along,
            float(np.trace(found.layer)),
            len(found.layer),
            found.spread,
            self.n_samples,
        )

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Warn if the budget makes private lengths unreliable."""
        if self.whole.votes_are_sure(plan):
            return ()
        remark = (
            f"{self.n_samples} rows are too few for private lengths at this budget: "
            "the lengths, and the covariance with them, may have any scale; a public "
            "clip_norm, or bounds and a narrower norm_range, would help."
        )
        return (remark,)

    @property
    def early(self) -> MomentLayer:
        """Second release of the first layer, for the cost of a center given up."""
        return replace(self.whole.near, name=EARLY)

    def relative_noise(self, plan: PrivacyPlan) -> float:
        """Return the off-diagonal deviation of noise for rows in the unit ball."""
        noise_std = getattr(plan[self.whole.near.name], "noise_std", 0.0)
        return noise_std / math.sqrt(2.0)

    def _released_rank(self, found) -> int:
        rank = eigen.select_rank(found.layer, found.spread, self.n_samples)
        return min(rank, self.n_samples, self.bounds.n_features, MOST_COMPONENTS)

    def squared_error(
        self, mu: float, signal: float, noise: float, paired: bool = False
    ) -> float:
        """Return :meth:`SecondMoment.squared_error` at the cost of all releases."""
        rank, degrees = self.rank, self.bounds.n_features - self.rank
        if not degrees:
            return 0.0
        laws = np.array([[rank, signal + noise], [degrees, noise]])
        clip = self.whole.clip
        square = _upper_quartile(*laws.T) if clip is None else clip**2
        kept = min(1.0, square / float(np.prod(laws, axis=1).sum()))
        share = dict(self.whole.combined(mu).shares())["near"]
        private = square / (self.n_samples * mu * math.sqrt(share))
        private *= 2.0 if paired else 1.0
        cross = kept**2 * noise * (signal + noise) / self.n_samples
        error = 2.0 * rank * degrees * (cross + private**2) / (kept * signal) ** 2
        return min(error, 2.0 * min(rank, degrees))


def _upper_quartile(degrees: np.ndarray, variances: np.ndarray) -> float:
    """Return an upper quartile of squared lengths of normal rows (gamma law)."""
    mean = float(np.sum(degrees * variances))
    spread = 2.0 * float(np.sum(degrees * variances**2))
    return float(gammaincinv(mean**2 / spread, 0.75)) * spread / mean
