"""Principal components in two stages, the second of which is a private power step."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from .. import sensitivity
from .._linalg import eigen
from .._statistics.row_bounds import share_of
from .._statistics.statistic import Choice, Statistic, mean_summation_error
from .._tables.clipping import clip_rows
from ..accounting import calibrate_gaussian, split_mu
from ..mechanisms import Exact
from . import _kernels
from ._bounded_moments import SecondMoment
from ._components import LEAST_SIGNAL, Directions, PrincipalComponents, PrivateScales

# Shares of mu**2 of the cross moment and the two moments of projections.
_STEP_SHARES = (0.95, 0.03, 0.02)

# The wider clip of projections, in units of the narrow one.
_WIDE = 3.0

# Floors of released eigenvalues, in units of what they are for equal variances: at
# least, and at most where the noise on them is larger.
_LOWEST_FLOOR, _HIGHEST_FLOOR = 0.05, 0.5


@dataclass(frozen=True)
class PowerStep(Statistic):
    """The releases of one shifted power step, and the improved components.

    For projections a, narrow clip alpha, wide clip abar and clipped residuals beta, all
    divided by their radii, the means of beta alpha', abar alpha' and abar abar' are
    released. Their sensitivities do not depend on the radii. `width` columns are
    planned; fewer are padded with zeros.
    """

    n_samples: int
    n_features: int
    width: int
    weights: tuple[float, ...] = (1.0,)

    def mechanisms(self, mu: float) -> tuple:
        tall, square = (self.n_features, self.width), (self.width, self.width)
        names = ("cross_moment", "weighted_moment", "wide_moment")
        if not math.isfinite(mu):
            cross, *squares = names
            return (
                Exact(cross, tall),
                *(Exact(name, square, symmetric=True) for name in squares),
            )
        # Norms of beta alpha', abar alpha', abar abar'.
        norms = (1.0, _WIDE, _WIDE**2)
        n = self.n_samples
        moved = (
            sensitivity.cross_moment_sensitivity(1.0, 1.0, n),
            sensitivity.second_moment_sensitivity(math.sqrt(_WIDE), n),
            sensitivity.second_moment_sensitivity(_WIDE, n),
        )
        costs, planned = split_mu(mu, _STEP_SHARES), []
        for name, change, cost, norm in zip(names, moved, costs, norms, strict=True):
            error = mean_summation_error(norm, n, self.n_features, self.weights)
            tall_one = name == names[0]
            shape = tall if tall_one else square
            lemma = "cross-moment" if tall_one else "projected-moment"
            more = {"summation_error": error, "magnitude": 2.0 * norm, "lemma": lemma}
            planned.append(
                calibrate_gaussian(
                    name, change, cost, shape, symmetric=not tall_one, **more
                )
            )
        return tuple(planned)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moments of unbounded rows; return improved components.

        Given are released orthonormal rows of shape (r, p) to start from, and released
        or public variances: along them beyond the noise, and across them.
        """
        components, signal, noise = given
        rank = len(components)
        inner, outer = self.radii(rank, signal, noise)
        parts = {"components": components, "inner": inner, "outer": outer}
        sums = rows.reduce(functools.partial(_sums_of_moments, **parts))
        cross, weighted, wide = (total / rows.divisor for total in sums)
        cross = rows.undo(_padded(release, "cross_moment", cross)[:, :rank])
        weighted = rows.undo(_padded(release, "weighted_moment", weighted))
        wide = rows.undo(_padded(release, "wide_moment", wide))
        cross = cross * (inner * outer)
        weighted = weighted[:rank, :rank] * inner**2
        wide = wide[:rank, :rank] * inner**2
        sizes = (_clipped_moments(rank)[1] * (signal + noise), signal)
        floors = [
            _floor(release.plan[name], size, rank, inner / math.sqrt(rows.weight))
            for name, size in zip(
                ("weighted_moment", "wide_moment"), sizes, strict=True
            )
        ]
        return _kernels.shifted_power_step(
            components,
            cross,
            _kernels.floor_eigenvalues(weighted, floors[0]),
            _kernels.floor_eigenvalues(wide, noise + floors[1]),
            noise,
        )

    def radii(self, rank: int, signal: float, noise: float) -> tuple[float, float]:
        """Clip radii of projections and residuals, from released variances."""
        degrees = max(self.n_features - rank, 1)
        inner = math.sqrt(rank * (signal + noise))
        outer = math.sqrt(noise * (degrees + 0.5 * math.sqrt(2.0 * degrees)))
        return inner, outer

    def squared_error(self, mu, rank, signal, noise, start) -> float:
        """Return :meth:`SecondMoment.squared_error` from a `start` of that error."""
        variance, n = signal + noise, self.n_samples
        inner, outer = self.radii(rank, signal, noise)
        narrow, weighted = _clipped_moments(rank)
        costs = split_mu(mu, _STEP_SHARES)
        cross = sensitivity.cross_moment_sensitivity(inner, outer, n) / costs[0]
        scale = variance / (signal * weighted * variance)
        first = (noise * narrow * variance / n + cross**2) * scale**2
        degrees = self.n_features - rank
        # Errors of the factors that a correction of the size of the start gets.
        bound = sensitivity.second_moment_sensitivity(inner, n)
        error_weighted = _WIDE * bound / costs[1] / (weighted * variance)
        error_wide = _WIDE**2 * bound / costs[2] * noise / (variance * signal)
        factor = error_weighted**2 + error_wide**2
        return 2.0 * rank * degrees * first + start * rank * factor


@functools.cache
def _clipped_moments(rank: int) -> tuple[float, float]:
    """Return E|alpha|^2 and E[abar'alpha] per direction for unit normal projections."""
    levels = (np.arange(1000) + 0.5) / 1000
    squares = 2.0 * gammaincinv(0.5 * rank, levels)
    narrow = np.minimum(squares, rank)
    weighted = np.sqrt(np.minimum(squares, _WIDE**2 * rank) * narrow)
    return float(narrow.mean()) / rank, float(weighted.mean()) / rank


def _floor(mechanism, size: float, rank: int, inner: float) -> float:
    """Return a floor for eigenvalues of a given size, from their public noise."""
    noisy = getattr(mechanism, "noise_std", 0.0) * math.sqrt(2.0 * rank) * inner**2
    return min(max(noisy, _LOWEST_FLOOR * size), _HIGHEST_FLOOR * size)


def _padded(release, name: str, value: np.ndarray) -> np.ndarray:
    """Release a statistic in the corner of an array of the planned shape."""
    out = np.zeros(release.plan[name].shape, order="F")
    out[tuple(map(slice, value.shape))] = value
    return release(name, out, overwrite=True)


def _sums_of_moments(blocks, components, inner: float, outer: float):
    """Sum beta alpha', abar alpha' and abar abar', of norms at most 1, 3, 9."""
    rank, n_features = components.shape
    cross = np.zeros((n_features, rank))
    weighted, wide = np.zeros((rank, rank)), np.zeros((rank, rank))
    for rows in blocks:
        alpha, middle, far, beta = _clipped_parts(rows, components, inner, outer)
        cross += beta.T @ alpha
        weighted += middle.T @ middle
        wide += far.T @ far
    return cross, weighted, wide


def _clipped_parts(rows, components, inner: float, outer: float):
    """Return parts of rows over their clip radii; non-finite rows become zero.

    The second part has the outer product abar alpha', and a norm of at most sqrt(3).
    """
    with np.errstate(all="ignore"):
        scores = np.asarray(rows @ components.T)
        far = clip_rows(scores / inner, _WIDE)
        beta = clip_rows(_kernels.residual(rows, scores, components) / outer, 1.0)
        alpha = clip_rows(far, 1.0)
        lengths = np.linalg.norm(far, axis=1, keepdims=True)
        middle = far / np.sqrt(np.maximum(lengths, 1.0))
    return alpha, clip_rows(middle, math.sqrt(_WIDE)), far, beta


# Shares of mu**2 of the first stage and of private lengths. The second stage gets the
# rest.
_FIRST_SHARE, _LENGTHS_SHARE = 0.4, 0.04

# Deviations of the votes' noise that half of the rows have, where the share of the
# votes may rise so far; and those below which the lengths are in doubt.
_SURE, _MOST_VOTES, _FAIRLY_SURE = 3.5, 0.35, 2.5

# Noise of votes, as a share of the rows, beyond which no choice rests on them.
_LOUDEST_VOTES = 0.15

# Name of a second release of the moment.
AGAIN = "second_moment_again"


class TwoStageComponents(PrincipalComponents):
    """Components of a noisy second moment, refined by a power step.

    The second moment gets 40 % of mu**2, private lengths, which the step clips by, get
    4 % or more if rows are few, and the step gets the remainder. With `choose`, the
    first stage decides between the step and a second release of the moment, and only
    the moment is released if noise hides the votes on private lengths.

    Other parameters are those of :class:`PrincipalComponents` and
    :class:`PrivateScales`.
    """

    def __init__(
        self,
        moment: SecondMoment,
        rank: int | None,
        signal: float | None,
        noise: float | None,
        norm_range: tuple[float, float],
        choose: bool = False,
    ) -> None:
        super().__init__(moment, rank)
        self._choose, size = choose, (moment.n_samples, moment.bounds.n_features)
        self.scales = PrivateScales(*size, norm_range, signal, noise)
        self.step = PowerStep(*size, self.width, self.bounds.weights)
        self.again = replace(moment, name=AGAIN)
        last: Statistic = self.step
        if choose:
            last = Choice("second_stage", self.step, self.again)
        else:  # a step needs a direction across the components
            self.most = max(1, min(self.width, size[1] - 1))
        votes = {"scales": self.scales} if self.scales.wanted else {}
        self._parts = {"first": moment, **votes, "second": last}
        shares = dict.fromkeys(votes, _LENGTHS_SHARE)
        left = 1.0 - math.fsum(shares.values())
        self._shares = {**shares, "first": _FIRST_SHARE, "second": left - _FIRST_SHARE}

    def costs(self, mu: float) -> dict[str, float]:
        """Return the cost of each part; of few rows votes get more than their share."""
        shares = dict(self._shares)
        if "scales" not in shares or not math.isfinite(mu):
            return super().costs(mu)
        usual = shares["scales"]
        noise = self.scales.noise_std(math.sqrt(usual) * mu)
        wanted = usual * (_SURE * noise / (0.5 * self._voters)) ** 2
        total = min(max(wanted, usual), _MOST_VOTES)
        for name in shares:
            votes = name == "scales"
            shares[name] *= total / usual if votes else (1.0 - total) / (1.0 - usual)
        return dict(zip(shares, split_mu(mu, list(shares.values())), strict=True))

    def caveats(self, plan) -> tuple[str, ...]:
        """Warn if the budget makes private lengths unreliable."""
        names = {mechanism.name for mechanism in plan.releases()}
        if "quantile_1" not in names:
            return ()
        noise = getattr(plan["quantile_1"], "noise_std", 0.0)
        if _FAIRLY_SURE * noise <= 0.5 * self._voters:
            return ()
        return (
            f"{self.moment.n_samples} rows are too few for private lengths at this "
            "budget: the lengths, and the components with them, may have any scale; "
            "public variances or a narrower norm_range would help",
        )

    @property
    def _voters(self) -> float:
        """Least number of votes of all rows."""
        return self.moment.n_samples * min(self.bounds.weights)

    def mechanisms(self, mu: float) -> tuple:
        """Plan both stages, or the moment alone, at a total cost of mu."""
        if self._is_drowned(mu):
            return self.moment.mechanisms(mu)
        return super().mechanisms(mu)

    def _is_drowned(self, mu: float) -> bool:
        """Return whether noise hides the votes that a choice would depend on."""
        if not (self._choose and self.scales.wanted and math.isfinite(mu)):
            return False
        noise = self.scales.noise_std(self.costs(mu)["scales"])
        return noise > _LOUDEST_VOTES * self._voters

    def directions(
        self, release: Any, X: Any, origin: Any, floor: float = 0.0, more: Any = ()
    ) -> Directions:
        """Release both stages; see :meth:`PrincipalComponents.directions`."""
        exact = self.moment.kernel(X, origin, floor)
        planned = {mechanism.name for mechanism in release.plan.releases()}
        if self._choose and AGAIN not in planned:
            return self._first(release, exact, origin, more)
        # Kept where it may be released once more: sums of the same bits are cheap.
        kept = exact.copy(order="F") if self._choose else None
        found = self._first(release, exact, origin, more)
        blocks = self.bounds.blocks(X, origin)
        scales = self.scales.run(release, blocks, found.vectors)
        found = replace(found, scales=scales)
        paired = blocks.weight != 1.0
        if not self._choose or self._step_is_better(release.plan, found, paired):
            return self._stepped(release, blocks, found)
        return self._again(release, found, kept, origin)

    def _stepped(self, release, blocks, found: Directions) -> Directions:
        """Return components after a power step."""
        signal, noise = found.scales
        vectors = self.step.run(release, blocks, found.vectors, signal, noise)
        along = vectors @ found.matrix @ vectors.T
        values, vectors = _kernels.leading_first(along, vectors)
        return replace(found, vectors=vectors, values=values, deviations=None)

    def _again(self, release, found: Directions, kept, origin) -> Directions:
        """Return components of two releases of the moment, averaged by costs."""
        plan = release.plan
        again = self.again.release(release, kept, origin)
        share = share_of(plan, self.moment.name, AGAIN)
        matrix = share * found.matrix + (1.0 - share) * again
        spread = math.sqrt(share) * self.moment.noise_std(plan, origin)
        values, vectors = eigen.top_eigh(matrix, len(found.vectors), spread)
        deviations = eigen.entry_deviations(values, vectors, np.trace(matrix), spread)
        more = {"matrix": matrix, "deviations": deviations}
        return replace(found, vectors=vectors, values=values, **more)

    def _step_is_better(self, plan, found: Directions, paired: bool) -> bool:
        """Return whether a power step promises less error than a second release."""
        rank, (signal, noise) = len(found.vectors), found.scales
        if self.bounds.n_features <= rank or signal <= 2.0 * LEAST_SIGNAL * noise:
            return False
        if self.scales.wanted:
            votes = getattr(plan["quantile_1"], "noise_std", 0.0)
            if votes > _LOUDEST_VOTES * self.moment.n_samples * (0.5 if paired else 1):
                return False
        costs = [plan[name].mu for name in (self.moment.name, AGAIN)]
        twice, staged = self._squared_errors(*costs, (rank, signal, noise), paired)
        return staged < twice

    def squared_error(
        self, mu: float, signal: float, noise: float, paired: bool = False
    ) -> float:
        if not self._is_drowned(mu):
            return super().squared_error(mu, signal, noise, paired)
        alone = PrincipalComponents(self.moment, self.rank)
        return alone.squared_error(mu, signal, noise, paired)

    def _expected(self, costs: dict, signal: float, noise: float, paired) -> float:
        stages, law = (costs["first"], costs["second"]), (self.rank, signal, noise)
        moment, staged = self._squared_errors(*stages, law, paired)
        return min(moment, staged) if self._choose else staged

    def _squared_errors(self, first, second, law, paired) -> tuple[float, float]:
        """Return squared errors of two releases of the moment, and of a power step."""
        both = self.moment.squared_error(math.hypot(first, second), *law, paired)
        start = min(self.moment.squared_error(first, *law, paired), 2.0 * law[0])
        step = self.step
        if paired:
            # As many rows as one of which moves a mean as far.
            step = replace(step, n_samples=max(step.n_samples / 2, 1))
        return both, step.squared_error(second, *law, start)
