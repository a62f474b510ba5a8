"""Private principal components of bounded rows: several statistics with one budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import _linalg
from ...accounting import split_mu
from ..combination import Choice, Combination, Planned
from ..private_mean import Centered
from ..second_moment import SecondMoment
from ..terms import HALF
from .power_step import PowerStep
from .projected_moment import ProjectedMoment
from .scales import LEAST_SIGNAL, PrivateScales, Scales

# Shares of mu**2, once a private mean is paid: of the covariance within the
# components, of private scales, and of the first of two stages in what the
# covariance leaves.
_COVARIANCE_SHARE, _SCALE_SHARE, _FIRST_SHARE = 0.15, 0.04, 0.4
# Deviations of the votes' noise that half of the rows have, where the share of the
# votes may rise so far; and those below which the lengths are in doubt.
_SURE, _MOST_VOTES, _FAIRLY_SURE = 3.5, 0.35, 2.5
# Noise of votes, as a share of the rows, beyond which no choice rests on them.
_LOUDEST_VOTES = 0.15
# Most components that are planned for where their number is released first.
MOST_COMPONENTS = 50


@dataclass(frozen=True)
class Directions:
    """Released components, and what else was released to find them.

    Parameters
    ----------
    mean : ndarray of shape (p,) or None
        Released mean, in units of the bounded rows.
    vectors : ndarray of shape (r, p)
        Orthonormal rows, leading first.
    values : ndarray of shape (r,)
        What the released second moment has along them.
    matrix : ndarray of shape (p, p)
        The released second moment.
    scales : Scales or None
        Variances that the mechanism needed; None where it needs none.
    above_noise : int
        How many components the released second moment tells from its noise.
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

    Parameters
    ----------
    mean : ndarray of shape (p,) or None
        Released mean.
    vectors : ndarray of shape (r, p)
        Orthonormal rows, leading first.
    values : ndarray of shape (r,)
        Released variances along them.
    total : float
        Released variance in all directions.
    noise : float or None
        Variance of a direction across them; None where only unit rows are known.
    unit : float
        Data units per unit of the variances' rows.
    above_noise : int
        How many of them a released second moment tells from its noise.
    said : str, default=""
        What was chosen by releases, and why.
    covariance : ndarray of shape (p, p) or None, default=None
        That of all features, where it was released.
    """

    mean: np.ndarray | None
    vectors: np.ndarray
    values: np.ndarray
    total: float
    noise: float | None
    unit: float
    above_noise: int
    said: str = ""
    covariance: np.ndarray | None = None


class PrincipalComponents(Combination):
    """Components of rows about a given mean: a second moment, and what refines it.

    Parameters
    ----------
    moment : SecondMoment
        What components are made from first, or another statistic with its methods.
    rank : int or None
        Number of components; None for as many as stand out of the noise.
    mechanism : {"gaussian", "two-stage", "auto"}
        How components are released: from the moment alone, with a power step after
        it, or with a choice between that and the moment once more.
    covariance : bool
        Whether the covariance within them is released too.
    signal, noise : float or None
        Public variances in units of the bounded rows; None for private ones.
    norm_range : tuple (low, high)
        Public range of private lengths, in units of the bounded rows.
    radius : float or None, default=None
        Public length that projections are clipped to for the covariance; None for
        the clip of the rows, or for a private one.
    """

    def __init__(
        self,
        moment: SecondMoment,
        rank: int | None,
        mechanism: str,
        covariance: bool,
        signal: float | None,
        noise: float | None,
        norm_range: tuple[float, float],
        radius: float | None = None,
    ) -> None:
        bounds, n, p = moment.bounds, moment.n_samples, moment.bounds.n_features
        self.bounds, self.rank, self.mechanism = bounds, rank, mechanism
        self.noise = noise
        self.moment, self.covariance = moment, covariance
        self.radius = bounds.clip if radius is None else radius
        # Number of components that is planned for.
        self.width = min(n, p, MOST_COMPONENTS) if rank is None else rank
        unclipped = covariance and self.radius is None
        staged = mechanism != "gaussian"
        size = n, p, norm_range
        self.scales = self.reach = None
        if staged:
            self.scales = PrivateScales(*size, signal, noise, False)
        elif unclipped:
            self.scales = PrivateScales(*size, 0.0, noise, True)
        if staged and unclipped:
            # Rows may reach much further along what a second stage makes than along
            # the first components: the clip is that of the last ones.
            self.reach = PrivateScales(*size, 0.0, 0.0, True, "reach")
        self.second = self.step = None
        if staged:
            self.second = self.step = PowerStep(n, p, self.width, bounds.paired)
        if mechanism == "auto":
            again = replace(moment, name="second_moment_again")
            self.second = Choice("second_stage", self.step, again)
        paired = bounds.paired
        self.within = ProjectedMoment(n, p, self.width, paired) if covariance else None
        self._shares = self._shared()

    def _shared(self) -> dict[str, float]:
        """Work out the shares of mu**2, by what they pay for."""
        shares = {"covariance": _COVARIANCE_SHARE if self.covariance else 0.0}
        # All quantiles get the same noise.
        found = {"scales": self.scales, "reach": self.reach}
        votes = {name: len(part.wanted) for name, part in found.items() if part}
        for name, count in votes.items():
            shares[name] = _SCALE_SHARE * count / max(sum(votes.values()), 1)
        left = 1.0 - math.fsum(shares.values())
        shares["first"] = left
        if self.second is not None:
            shares["first"] = _FIRST_SHARE * (1.0 - shares["covariance"])
        shares["second"] = left - shares["first"]
        return {name: share for name, share in shares.items() if share > 0.0}

    def shares(self) -> dict[str, float]:
        """Shares of mu**2, by the names of parts."""
        return self._shares

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

    def doubts(self, plan) -> tuple[str, ...]:
        """Say what a fit by that plan cannot be relied on for: from public numbers."""
        names = {m.name for m in plan.releases()} & {"quantile_1", "reach_1"}
        noise = max((getattr(plan[n], "noise_std", 0.0) for n in names), default=0.0)
        if _FAIRLY_SURE * noise <= 0.5 * self._voters:
            return ()
        said = (
            f"{self.moment.n_samples} rows are too few for private lengths at this "
            "budget: they may come out at any scale, and variances with them; public "
            "variances, a narrower norm_range or a clip_norm would help."
        )
        return (said,)

    @property
    def _voters(self) -> float:
        """Votes of all rows together, at least."""
        return self.moment.n_samples * (1.0 if self.bounds.paired is False else HALF)

    def parts(self) -> dict[str, Planned]:
        """What is released, in this order."""
        parts = {
            "first": self.moment,
            "scales": self.scales,
            "second": self.second,
            "reach": self.reach,
            "covariance": self.within,
        }
        return {name: part for name, part in parts.items() if name in self._shares}

    def run(self, release: Any, rows: Any, *given: Any) -> Components:
        """Release components of rows about a given mean, None for none."""
        origin, *early = given
        found = self.directions(release, rows, origin, *early)
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

    def directions(self, release: Any, X: Any, origin: Any, early=None) -> Directions:
        """Release all but the covariance.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        X : array or sparse CSR matrix of shape (n, p)
            The rows.
        origin : ndarray of shape (p,), PairOrder or None
            Released center of them, or which rows are paired.
        early : tuple (ndarray of shape (p, p), float) or None, default=None
            An earlier release of the moment, and its squared cost.

        Returns
        -------
        Directions
            Made from releases and public numbers alone.
        """
        exact = self.moment.kernel(X, origin)
        # Kept where it may be released once more: sums of the same bits are cheap.
        kept = exact.copy(order="F") if self.mechanism == "auto" else None
        matrix = self.moment.release(release, exact, origin)
        spread = self.moment.noise_std(release.plan, origin)
        if early is not None:
            matrix, spread = self._with_early(release.plan, matrix, spread, *early)
        rank = self.rank or self._released_rank(matrix, spread)
        values, vectors = _linalg.top_eigh(matrix, rank)
        above = _linalg.count_above_noise(
            values, np.trace(matrix), len(matrix), spread, self.moment.n_samples
        )
        scales = None
        if self.scales is not None:
            blocks = self.bounds.blocks(X, origin)
            scales = self.scales.run(release, blocks, vectors)
        if self.second is not None:
            matrix, values, vectors = self._second_stage(
                release, blocks, (matrix, kept), vectors, (scales, origin)
            )
        mean = origin if isinstance(origin, np.ndarray) else None
        return Directions(mean, vectors, values, matrix, scales, above)

    def relative_noise(self, plan) -> float:
        """Deviation of the noise off the diagonal, for rows of at most unit norm."""
        return self.moment.noise_std(plan, None) / self.bounds.second_radius**2

    def _with_early(self, plan, matrix, spread: float, early, cost: float):
        """Average two releases by their costs; return the noise's deviation too."""
        costs = (cost, plan[self.moment.name].mu ** 2)
        share = 0.5 if math.isinf(cost) else cost / sum(costs)
        return share * early + (1.0 - share) * matrix, spread * math.sqrt(1.0 - share)

    def _released_rank(self, matrix, spread: float) -> int:
        """Number of components that stand out of a released matrix."""
        rank = _linalg.select_rank(matrix, spread, self.moment.n_samples)
        most = self.width
        if self.mechanism == "two-stage":
            most = max(1, min(most, self.bounds.n_features - 1))
        return min(rank, most)

    def _second_stage(self, release, blocks, matrices, vectors, given):
        """Refine components, and return the matrix that their variances come from."""
        (matrix, kept), plan, (scales, origin) = matrices, release.plan, given
        signal, noise, _ = scales
        rank = len(vectors)
        staged, paired = self.mechanism == "two-stage", blocks.weight != 1.0
        if staged or self._step_is_better(plan, rank, scales, paired):
            vectors = self.step.run(release, blocks, vectors, signal, noise)
            return matrix, *_linalg.leading_first(vectors @ matrix @ vectors.T, vectors)
        again = self.second.branches[1].release(release, kept, origin)
        costs = [
            plan[name].mu ** 2 for name in (self.moment.name, "second_moment_again")
        ]
        share = 0.5 if math.isinf(costs[0]) else costs[0] / (costs[0] + costs[1])
        matrix = share * matrix + (1.0 - share) * again
        return matrix, *_linalg.top_eigh(matrix, rank)

    def _step_is_better(self, plan, rank: int, scales: Scales, paired: bool) -> bool:
        """Whether a power step promises less error than a second release of the moment.

        Both cost the same; the choice is made from released and public numbers.
        """
        signal, noise, _ = scales
        if self.bounds.n_features <= rank or signal <= 2.0 * LEAST_SIGNAL * noise:
            return False
        if self.scales.wanted:
            votes = getattr(plan["quantile_1"], "noise_std", 0.0)
            if votes > _LOUDEST_VOTES * self.moment.n_samples * (0.5 if paired else 1):
                return False
        costs = [plan[name].mu for name in (self.moment.name, "second_moment_again")]
        twice, staged = self._squared_errors(*costs, rank, signal, noise, paired)
        return staged < twice

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
        values, vectors = _linalg.leading_first(within, vectors)
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

        Parameters
        ----------
        mu : float
            Cost of all releases together; their number of components is known.
        signal, noise : float
            Variances along the components beyond the noise, and across them, in units
            of the bounded rows.
        paired : bool, default=False
            Whether rows are compared in pairs.

        Returns
        -------
        float
            Of statistical and private error; at most the largest distance there is.
        """
        most = 2.0 * min(self.rank, self.bounds.n_features - self.rank)
        if most == 0.0:
            return 0.0
        costs = self.costs(mu)
        moment, staged = self._squared_errors(
            costs["first"], costs.get("second", 0.0), self.rank, signal, noise, paired
        )
        errors = {
            "gaussian": (moment,),
            "two-stage": (staged,),
            "auto": (moment, staged),
        }
        return min(*errors[self.mechanism], most)

    def _squared_errors(self, first, second, rank, signal, noise, paired):
        """Squared distances of two releases of the moment, and of a power step.

        From the costs of what comes first and of what comes second.
        """
        law = rank, signal, noise
        both = self.moment.squared_error(math.hypot(first, second), *law, paired)
        if self.step is None:
            return both, math.inf
        start = min(self.moment.squared_error(first, *law, paired), 2.0 * rank)
        step = self.step
        if paired:
            # As many rows as one of which moves a mean as far.
            step = replace(step, n_samples=max(step.n_samples / 2, 1))
        return both, step.squared_error(second, *law, start)


class CenteredComponents(Centered):
    """Components of rows about a private mean, if there is one.

    Parameters
    ----------
    moment : SecondMoment
        What components are made from first.
    *chosen, **more
        As for :class:`PrincipalComponents`.
    """

    rest: PrincipalComponents

    def __init__(self, moment: SecondMoment, *chosen: Any, **more: Any) -> None:
        components = PrincipalComponents(moment, *chosen, **more)
        super().__init__(moment.bounds, moment.n_samples, components)

    def directions(self, release: Any, X: Any) -> Directions:
        """Release all but a covariance within the components."""
        return self.rest.directions(release, X, self.center(release, X))

    def squared_error(self, mu: float, signal: float, noise: float) -> float:
        """As that of :class:`PrincipalComponents`, at the cost of the mean too."""
        rest, paired = self.costs(mu)["rest"], bool(self.bounds.paired)
        return self.rest.squared_error(rest, signal, noise, paired)

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Expected projection distance under a plan, to first order."""
        return math.sqrt(self.squared_error(plan.mu, signal, noise))
