"""Private principal components of bounded rows: several statistics with one budget.

What releases of principal components leave: public values alone.

Components of rows whose features are divided by private scales first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._linalg import eigen
from .._statistics.feature_scales import FeatureLaw, FeatureScales
from .._statistics.statistic import HALF, Combination, Statistic
from .._tables.clipping import Box
from .._tables.readers import map_table
from ..accounting import split_mu
from . import _kernels
from ._scales import PrivateScales, Scales
from ._second_moment import (
    EARLY,
    Centered,
    ProjectedMoment,
    SecondMoment,
    floor_of,
    share_of,
)


@dataclass(frozen=True)
class Directions:
    """Released components, and what else was released to find them.

    `mean` is None, or released, in units of the bounded rows. `vectors` are orthonormal
    rows, leading first; `values` are what the released second moment, `matrix`, has
    along them. `scales` are variances that a mechanism needed, None where it needs
    none, and `above_noise` counts components that the second moment distinguishes from
    its noise.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    matrix: np.ndarray
    scales: Scales | None
    above_noise: int


@dataclass(frozen=True)
class Components:
    """Released components, in units of the bounded rows.

    `vectors` are orthonormal rows, leading first. `values` are released variances along
    them, `total` is that in all directions, and `noise` that of a direction across
    them, None where only unit rows are known; `unit` is the number of data units per
    unit of their rows. `above_noise` counts components that a released second moment
    distinguishes from its noise, `remark` is a sentence about the choice that releases
    made, and `covariance` that of all features, where it was released.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    total: float
    noise: float | None
    unit: float
    above_noise: int
    remark: str = ""
    covariance: np.ndarray | None = None


# Shares of mu**2, once a private mean is paid: of the covariance within the
# components, and of private lengths.
COVARIANCE_SHARE, LENGTHS_SHARE = 0.15, 0.04

# Deviations of the votes' noise that half of the rows have, where the share of the
# votes may rise so far; and those below which the lengths are in doubt.
_SURE, _MOST_VOTES, _FAIRLY_SURE = 3.5, 0.35, 2.5

# Most components that are planned for where their number is released first.
MOST_COMPONENTS = 50


class PrincipalComponents(Combination):
    """Components of rows about a given mean: of one release of their second moment.

    Parameters
    ----------
    moment : SecondMoment
        What components are made from first, or another statistic with its methods.
    rank : int or None
        Number of components; None for as many as stand out of the noise.
    covariance : bool
        Whether the covariance within them is released too.
    noise : float or None
        Public variance across them in units of the bounded rows; None for a private
        one.
    norm_range : tuple (low, high)
        Public range of private lengths, in units of the bounded rows.
    radius : float or None, default=None
        Public length that projections are clipped to for the covariance; None for
        the clip of the rows, or for a private one.
    """

    # What further releases need: variances, a clip, and what refines the components.
    scales: PrivateScales | None = None
    reach: PrivateScales | None = None
    second: Statistic | None = None

    def __init__(
        self,
        moment: SecondMoment,
        rank: int | None,
        covariance: bool,
        noise: float | None,
        norm_range: tuple[float, float],
        radius: float | None = None,
    ) -> None:
        bounds, n, p = moment.bounds, moment.n_samples, moment.bounds.n_features
        self.moment, self.bounds, self.rank, self.noise = moment, bounds, rank, noise
        self.radius = bounds.clip if radius is None else radius
        # Number of components that is planned for, and that is released at most.
        self.width = min(n, p, MOST_COMPONENTS) if rank is None else rank
        self.most = self.width
        self.within = None
        if covariance:
            self.within = ProjectedMoment(n, p, self.width, bounds.weights)
        self._plan_more(norm_range)
        shares = self._shared()
        parts = {
            "first": self.moment,
            "scales": self.scales,
            "second": self.second,
            "reach": self.reach,
            "covariance": self.within,
        }
        kept = {name: parts[name] for name in parts if name in shares}
        super().__init__(kept, shares)

    def _plan_more(self, norm_range: tuple[float, float]) -> None:
        """Plan further releases: lengths within a public range of them."""
        if self._is_unclipped():
            size = self.moment.n_samples, self.bounds.n_features
            self.scales = PrivateScales(*size, norm_range, 0.0, self.noise, True)

    def _is_unclipped(self) -> bool:
        """Whether projections are clipped to a private length."""
        return self.within is not None and self.radius is None

    def _shared(self) -> dict[str, float]:
        """Work out the shares of mu**2, by what they pay for."""
        shares = {} if self.within is None else {"covariance": COVARIANCE_SHARE}
        # All quantiles get the same noise.
        found = {"scales": self.scales, "reach": self.reach}
        votes = {name: len(part.wanted) for name, part in found.items() if part}
        total = sum(votes.values())
        voting = {name: count for name, count in votes.items() if count}
        shares |= {name: LENGTHS_SHARE * n / total for name, n in voting.items()}
        shares["first"] = 1.0 - math.fsum(shares.values())
        return shares

    def costs(self, mu: float) -> dict[str, float]:
        """Return what each part costs at a total of mu.

        Votes get more than their share where rows are few: quantiles of noise alone
        may lie anywhere in their range, and what is clipped at them with them.
        """
        shares = dict(self._shares)
        votes = [name for name in ("scales", "reach") if name in shares]
        usual = math.fsum(shares[name] for name in votes)
        if not votes or not math.isfinite(mu):
            return super().costs(mu)
        part = {"scales": self.scales, "reach": self.reach}[votes[0]]
        noise = part.noise_std(math.sqrt(shares[votes[0]]) * mu)
        wanted = usual * (_SURE * noise / (0.5 * self._voters)) ** 2
        total = min(max(wanted, usual), max(_MOST_VOTES, usual))
        for name in shares:
            shares[name] *= (
                total / usual if name in votes else (1.0 - total) / (1.0 - usual)
            )
        return dict(zip(shares, split_mu(mu, list(shares.values())), strict=True))

    def caveats(self, plan) -> tuple[str, ...]:
        """Warn of a budget at which private lengths are unreliable."""
        if self.scales is None:
            return ()
        names = {m.name for m in plan.releases()} & {"quantile_1", "reach_1"}
        noise = max((getattr(plan[n], "noise_std", 0.0) for n in names), default=0.0)
        if _FAIRLY_SURE * noise <= 0.5 * self._voters:
            return ()
        remark = (
            f"{self.moment.n_samples} rows are too few for private lengths at this "
            "budget: they may come out at any scale, and variances with them; public "
            "variances, a narrower norm_range or a clip_norm would help."
        )
        return (remark,)

    @property
    def _voters(self) -> float:
        """Votes of all rows together, at least."""
        return self.moment.n_samples * min(self.bounds.weights)

    def run(self, release: Any, rows: Any, *given: Any) -> Components:
        """Release components of rows about a given mean, None for none.

        What else is given is that of :meth:`directions`.
        """
        origin, *more = given
        found = self.directions(release, rows, origin, *more)
        if self.within is not None:
            blocks = self.bounds.blocks(rows, origin)
            return self._with_covariance(release, blocks, found)
        vectors, values = found.vectors, np.maximum(found.values, 0.0)
        # The other eigenvalues of a variance are not negative either.
        kept = float(values.sum())
        total = max(float(np.trace(found.matrix)), kept, np.finfo(float).tiny)
        noise = None
        if self.bounds.clip is not None:
            noise = (total - kept) / max(self.bounds.n_features - len(vectors), 1)
        unit = self.bounds.variance_unit
        above = found.above_noise
        return Components(found.mean, vectors, values, total, noise, unit, above)

    @property
    def early(self) -> SecondMoment:
        """Second release of the moment, for the cost of a center given up."""
        return replace(self.moment, name=EARLY)

    def directions(
        self, release: Any, X: Any, origin: Any, floor: float = 0.0, more: Any = ()
    ) -> Directions:
        """Release all but the covariance.

        `origin` is the released center of the rows X, or their order of pairs. Rows
        shorter than a released length, `floor`, keep theirs. `more` are planned moments
        that are released beside the first, of the same rows.
        """
        exact = self.moment.kernel(X, origin, floor)
        found = self._first(release, exact, origin, more)
        if self.scales is None:
            return found
        blocks = self.bounds.blocks(X, origin)
        scales = self.scales.run(release, blocks, found.vectors)
        return replace(found, scales=scales)

    def _first(self, release, exact: np.ndarray, origin, more) -> Directions:
        """Components of a first release of the moment, whose memory is used again."""
        others = [
            (other, other.release(release, exact.copy(order="F"), origin))
            for other in more
        ]
        matrix = self.moment.release(release, exact, origin)
        spread = self.moment.noise_std(release.plan, origin)
        for other, also in others:
            share = share_of(release.plan, other.name, self.moment.name)
            matrix = share * also + (1.0 - share) * matrix
            spread *= math.sqrt(1.0 - share)
        rank = self.rank or self._released_rank(matrix, spread)
        values, vectors = eigen.top_eigh(matrix, rank, spread)
        above = eigen.count_above_noise(
            values, np.trace(matrix), len(matrix), spread, self.moment.n_samples
        )
        mean = origin if isinstance(origin, np.ndarray) else None
        return Directions(mean, vectors, values, matrix, None, above)

    def relative_noise(self, plan) -> float:
        """Deviation of the noise off the diagonal, for rows of at most unit norm."""
        return self.moment.noise_std(plan, None) / self.bounds.second_radius**2

    def _released_rank(self, matrix, spread: float) -> int:
        """Number of components that stand out of a released matrix."""
        rank = eigen.select_rank(matrix, spread, self.moment.n_samples)
        return min(rank, self.most)

    def _with_covariance(self, release, blocks, found: Directions) -> Components:
        """Components with the released covariance within them."""
        vectors, scales = found.vectors, found.scales
        degrees = self.bounds.n_features - len(vectors)
        if scales is not None:
            noise = scales.noise
        elif self.noise is not None:
            noise = self.noise
        else:
            along = float(np.sum((vectors @ found.matrix) * vectors))
            noise = max(float(np.trace(found.matrix)) - along, 0.0) / max(degrees, 1)
        radius = self.radius
        if self.reach is not None:
            radius = self.reach.run(release, blocks, vectors).radius
        elif radius is None:
            radius = scales.radius
        within = self.within.run(release, blocks, vectors, radius)
        values, vectors = _kernels.leading_first(within, vectors)
        # A variance along a component is at least that across them.
        values = np.maximum(values, noise)
        total = float(values.sum()) + degrees * noise
        total = max(total, np.finfo(float).tiny)
        unit, above = self.bounds.unit, found.above_noise
        return Components(found.mean, vectors, values, total, noise, unit, above)

    # -- what errors to expect ---------------------------------------------------------

    def squared_error(
        self, mu: float, signal: float, noise: float, paired: bool = False
    ) -> float:
        """Expected squared projection distance for Gaussian rows, to first order.

        As :meth:`SecondMoment.squared_error`, at a cost of all releases together, for
        a known number of components; at most the largest distance there is.
        """
        most = 2.0 * min(self.rank, self.bounds.n_features - self.rank)
        if most == 0.0:
            return 0.0
        return min(self._expected(self.costs(mu), signal, noise, paired), most)

    def _expected(self, costs: dict, signal: float, noise: float, paired) -> float:
        """Expected squared distance, by what each part costs."""
        law = self.rank, signal, noise
        return self.moment.squared_error(costs["first"], *law, paired)


class CenteredComponents(Centered):
    """Components of rows about a private mean, if there is one."""

    rest: Any

    def directions(self, release: Any, X: Any) -> Directions:
        """Release all but a covariance within the components."""
        return self.rest.directions(release, X, self.center(release, X))

    def squared_error(self, mu: float, signal: float, noise: float) -> float:
        """As that of the components, at the cost of the mean too."""
        rest, paired = self.costs(mu)["rest"], self.order is not None
        return self.rest.squared_error(rest, signal, noise, paired)

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Expected projection distance under a plan, to first order."""
        return math.sqrt(self.squared_error(plan.mu, signal, noise))


# Shares of mu**2, by the variance of standardized features that is kept on real tables:
# a feature that is not seen is lost, and one whose scale is too small counts too much.
_SHARES = {"feature_scales": 0.5, "components": 0.5}


class ScaledComponents(NamedTuple):
    """Released components in units of scaled rows, and what rows are scaled by."""

    components: Components
    law: FeatureLaw


class Scaled(Combination):
    """Private scales of all features, and components of rows in units of them.

    No bounds are known of the scaled rows that `components` are of. Rows are clipped
    into a public `box` first, feature by feature. With `with_mean` means are released
    too, and subtracted: not for sparse rows.
    """

    def __init__(
        self, components: Any, n_samples: int, box: Box | None, with_mean: bool = True
    ) -> None:
        self.components, self.bounds = components, components.bounds
        # With means scales are those of moments, and not of differences alone.
        n_features = self.bounds.n_features
        self.scales = FeatureScales(n_samples, n_features, with_mean, box)
        parts = {"feature_scales": self.scales, "components": components}
        super().__init__(parts, _SHARES)

    def run(self, release: Any, rows: Any, *given: Any) -> ScaledComponents:
        """Release scales, and components of what they make of the rows."""
        law = self.scales.run(release, rows)
        found = self.components.run(
            release, self._divided(rows, law), *self._floor(release.plan, law)
        )
        if getattr(self.components.rest, "noise", None) is None:
            found = replace(found, noise=_noise_among_seen(found, law.seen))
        return ScaledComponents(_among_seen(found, law.seen), law)

    def _floor(self, plan: Any, law: FeatureLaw) -> tuple[float, ...]:
        """Length below which unit rows of scaled features keep theirs."""
        if self.bounds.weights != (HALF,) or self.bounds.clip is not None:
            return ()
        rest = self.components.rest
        edge = 2.0 * math.sqrt(self.bounds.n_features) * rest.relative_noise(plan)
        # Every feature that is seen has a variance of about one.
        return (floor_of(math.sqrt(max(int(law.seen.sum()), 1)), edge / HALF),)

    def _divided(self, rows: Any, law: FeatureLaw):
        """Rows about means in units of scales; zeros for features that are not seen."""
        box = self.scales.box
        weights = np.where(law.seen, 1.0 / law.scale, 0.0)
        if sparse.issparse(rows):
            rows = sparse.csr_array(rows, dtype=np.float64, copy=True)
            rows.data *= weights[rows.indices]
            return rows

        shift = 0.0 if law.mean is None else law.mean - law.center
        with np.errstate(over="ignore", invalid="ignore"):
            shift = shift * weights
        return map_table(rows, partial(_divide, box=box, weights=weights, shift=shift))

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Refuse: nobody knows variances in units of private scales."""
        raise ValueError(
            'expected_error knows variances in units of the data: scale="private" '
            "leaves none; ask with scale=None"
        )


def _divide(block, box: Box | None, weights: np.ndarray, shift) -> np.ndarray:
    """Divide features, cut at the bounds, by scales, and shift them then."""
    with np.errstate(over="ignore", invalid="ignore"):
        if box is not None:
            return box.to_unit(block) * (weights * box.unit) - shift
        return block * weights - shift


def _among_seen(found: Components, seen: np.ndarray) -> Components:
    """Leave out of components what noise has made of features that are not seen.

    Where fewer features are seen than components were asked for, the last are zero.
    """
    vectors = np.zeros_like(found.vectors)
    count = min(len(vectors), int(seen.sum()))
    if count:
        basis, triangle = np.linalg.qr(found.vectors[:count, seen].T)
        signs = np.where(np.diag(triangle) < 0.0, -1.0, 1.0)
        vectors[:count, seen] = (basis * signs).T
    above = min(found.above_noise, count)
    return replace(found, vectors=vectors, above_noise=above)


def _noise_among_seen(found: Components, seen: np.ndarray) -> float | None:
    """Released variance across components, of the features that have any."""
    rank = len(found.vectors)
    across = int(seen.sum()) - rank
    if found.noise is None or across <= 0:
        return found.noise
    return found.noise * (len(seen) - rank) / across
