"""Private principal components of bounded rows: what to release, and how.

The mechanisms themselves are in modules of their own; this one shares a budget
between them and runs them one after another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ... import _linalg
from ...accounting import split_mu
from ...mechanisms import Alternatives
from ..bounded_moments import (
    RowBounds,
    mean_budget,
    plan_mean,
    plan_second_moment,
    release_mean,
    second_moment,
)
from .power_step import PowerStep, release_power_step
from .projected_moment import plan_projected_moment, release_projected_moment
from .results import Components, Directions, Scales
from .scales import LEAST_SIGNAL, ScaleReleases, release_scales

# Shares of mu**2, once a private mean is paid: of the covariance within the
# components, of private scales, and of the first of two stages in what the
# covariance leaves.
_COVARIANCE_SHARE, _SCALE_SHARE, _FIRST_SHARE = 0.15, 0.04, 0.4
# Noise of votes, as a share of the rows, beyond which no choice rests on them.
_LOUDEST_VOTES = 0.15
# Most components that are planned for where their number is released first.
_MOST_COMPONENTS = 50


@dataclass(frozen=True)
class ComponentReleases:
    """Public description of the releases that principal components are made from.

    Parameters
    ----------
    rows : RowBounds
        How rows are bounded.
    n_samples : int
        Public number of rows.
    rank : int or None
        Number of components; None for as many as stand out of the noise.
    mechanism : {"gaussian", "two-stage", "auto"}
        How components are released.
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

    rows: RowBounds
    n_samples: int
    rank: int | None
    mechanism: str
    covariance: bool
    signal: float | None
    noise: float | None
    norm_range: tuple[float, float]
    radius: float | None = None

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return self.rows.n_features

    @property
    def width(self) -> int:
        """Number of components that is planned for."""
        most = min(self.n_samples, self.n_features, _MOST_COMPONENTS)
        return most if self.rank is None else self.rank

    @property
    def staged(self) -> bool:
        """Whether there is a second stage."""
        return self.mechanism != "gaussian"

    @property
    def scales(self) -> ScaleReleases:
        """The private scales along and across the first components."""
        needed = self.staged or self._unclipped
        # With a public clip, of rows or projections, the matrix tells the noise.
        return ScaleReleases(
            self.n_samples,
            self.n_features,
            self.norm_range,
            self.signal if self.staged else 0.0,
            self.noise if needed else 0.0,
            self._unclipped and not self.staged,
        )

    @property
    def reach(self) -> ScaleReleases:
        """The clip of projections on components that a second stage makes.

        Rows may reach much further along them than along those of the first.
        """
        size = self.n_samples, self.n_features, self.norm_range
        wanted = self._unclipped and self.staged
        return ScaleReleases(*size, 0.0, 0.0, wanted, "reach")

    @property
    def _unclipped(self) -> bool:
        """Whether a covariance needs a private clip."""
        public = self.rows.clip is not None or self.radius is not None
        return self.covariance and not public

    @property
    def step(self) -> PowerStep:
        """The second stage."""
        return PowerStep(self.n_samples, self.n_features, self.width)

    def shares(self) -> dict[str, float]:
        """Shares of mu**2 that the mean leaves, by what they pay for."""
        shares = {"covariance": _COVARIANCE_SHARE if self.covariance else 0.0}
        # All quantiles get the same noise.
        votes = len(self.scales.wanted), len(self.reach.wanted)
        for name, count in zip(("scales", "reach"), votes, strict=True):
            shares[name] = _SCALE_SHARE * count / max(sum(votes), 1)
        left = 1.0 - math.fsum(shares.values())
        shares["first"] = left
        if self.staged:
            shares["first"] = _FIRST_SHARE * (1.0 - shares["covariance"])
        shares["second"] = left - shares["first"]
        return {name: share for name, share in shares.items() if share > 0.0}

    def costs(self, mu: float) -> dict[str, float]:
        """Costs of all releases at a total of mu, by what they pay for."""
        mean_mu, rest = mean_budget(self.rows, mu)
        shares = self.shares()
        split = split_mu(rest, list(shares.values()))
        return {"mean": mean_mu, **dict(zip(shares, split, strict=True))}

    def mechanisms(self, mu: float) -> tuple:
        """Plan all releases at a total cost of mu."""
        rows, n = self.rows, self.n_samples
        costs = self.costs(mu)
        plan = [
            *plan_mean(rows, n, costs["mean"]),
            plan_second_moment(rows, n, costs["first"]),
            *self.scales.mechanisms(costs.get("scales", mu)),
        ]
        if self.staged:
            plan += self._second_stage(costs["second"])
            plan += self.reach.mechanisms(costs.get("reach", mu))
        if self.covariance:
            cost = costs["covariance"]
            plan.append(plan_projected_moment(n, self.n_features, self.width, cost))
        return tuple(plan)

    def remarks(self) -> tuple[str, ...]:
        """Sentences about what a reader of the guarantee must know."""
        return self.rows.remarks()

    def _second_stage(self, mu: float) -> tuple:
        step = self.step.mechanisms(mu)
        if self.mechanism == "two-stage":
            return step
        again = plan_second_moment(self.rows, self.n_samples, mu, "second_moment_again")
        return (Alternatives("second_stage", (step, (again,))),)


def release_directions(release, spec: ComponentReleases, X) -> Directions:
    """Release what :class:`ComponentReleases` planned, but for the covariance.

    Parameters
    ----------
    release : Release
        Charged with the plan.
    spec : ComponentReleases
        What is released.
    X : array or sparse CSR matrix of shape (n, p)
        The rows.

    Returns
    -------
    Directions
        Made from releases and public numbers alone.
    """
    rows, plan = spec.rows, release.plan
    mean = release_mean(release, rows, X)
    exact = second_moment(rows, X, mean)
    # Kept where it may be released once more: sums of the same bits are cheap.
    kept = exact.copy(order="F") if spec.mechanism == "auto" else None
    matrix = release("second_moment", exact, overwrite=True)
    rank = spec.rank or _released_rank(spec, plan, matrix)
    values, vectors = _linalg.top_eigh(matrix, rank)
    blocks = rows.blocks(X, mean)
    scales = None
    if spec.scales.wanted or spec.staged:
        scales = release_scales(release, spec.scales, blocks, vectors)
    if spec.staged:
        matrix, values, vectors = _second_stage(
            release, spec, blocks, (matrix, kept), vectors, scales
        )
    return Directions(mean, vectors, values, matrix, scales)


def release_components(release, spec: ComponentReleases, X) -> Components:
    """Release what :class:`ComponentReleases` planned.

    Parameters
    ----------
    release, spec, X
        As in :func:`release_directions`.

    Returns
    -------
    Components
        Made from releases and public numbers alone.
    """
    found, rows = release_directions(release, spec, X), spec.rows
    mean, vectors, matrix = found.mean, found.vectors, found.matrix
    if spec.covariance:
        return _with_covariance(release, spec, rows.blocks(X, mean), found)
    values, rank = np.maximum(found.values, 0.0), len(vectors)
    # The other eigenvalues of a variance are not negative either.
    total = max(float(np.trace(matrix)), float(values.sum()), np.finfo(float).tiny)
    noise = None
    if rows.clip is not None:
        noise = (total - float(values.sum())) / max(spec.n_features - rank, 1)
    return Components(mean, vectors, values, total, noise, rows.variance_unit)


def _released_rank(spec: ComponentReleases, plan, matrix) -> int:
    """Number of components that stand out of a released matrix."""
    noise_std = getattr(plan["second_moment"], "noise_std", 0.0) / math.sqrt(2.0)
    rank = _linalg.select_rank(matrix, noise_std, spec.n_samples)
    most = spec.width
    if spec.mechanism == "two-stage":
        most = max(1, min(most, spec.n_features - 1))
    return min(rank, most)


def _second_stage(release, spec: ComponentReleases, blocks, matrices, vectors, scales):
    """Refine components, and return the matrix that their variances come from."""
    (matrix, kept), plan = matrices, release.plan
    signal, noise, _ = scales
    rank = len(vectors)
    if spec.mechanism == "two-stage" or _step_is_better(spec, plan, rank, scales):
        vectors = release_power_step(release, spec.step, blocks, vectors, signal, noise)
        return matrix, *_linalg.leading_first(vectors @ matrix @ vectors.T, vectors)
    again = release("second_moment_again", kept, overwrite=True)
    costs = [plan[name].mu ** 2 for name in ("second_moment", "second_moment_again")]
    share = 0.5 if math.isinf(costs[0]) else costs[0] / (costs[0] + costs[1])
    matrix = share * matrix + (1.0 - share) * again
    return matrix, *_linalg.top_eigh(matrix, rank)


def _with_covariance(release, spec, blocks, found: Directions) -> Components:
    """Components with the released covariance within them."""
    vectors, scales, rows = found.vectors, found.scales, spec.rows
    rank = len(vectors)
    degrees = spec.n_features - rank
    if scales is not None:
        noise = scales.noise
    elif spec.noise is not None:
        noise = spec.noise
    else:
        along = float(np.sum((vectors @ found.matrix) * vectors))
        noise = max(float(np.trace(found.matrix)) - along, 0.0) / max(degrees, 1)
    radius = spec.radius or rows.clip
    if spec.reach.wanted:
        radius = release_scales(release, spec.reach, blocks, vectors).radius
    elif radius is None:
        radius = scales.radius
    within = release_projected_moment(release, blocks, vectors, radius)
    values, vectors = _linalg.leading_first(within, vectors)
    # A variance along a component is at least that across them.
    values = np.maximum(values, noise)
    total = float(values.sum()) + degrees * noise
    total = max(total, np.finfo(float).tiny)
    return Components(found.mean, vectors, values, total, noise, rows.unit)


def _step_is_better(spec: ComponentReleases, plan, rank: int, scales: Scales) -> bool:
    """Whether a power step promises less error than a second release of the moment.

    Both cost the same; the choice is made from released and public numbers.
    """
    signal, noise, _ = scales
    if spec.n_features <= rank or signal <= 2.0 * LEAST_SIGNAL * noise:
        return False
    if spec.scales.wanted:
        votes = getattr(plan["quantile_1"], "noise_std", 0.0)
        if votes > _LOUDEST_VOTES * spec.n_samples:
            return False
    costs = [plan[name].mu for name in ("second_moment", "second_moment_again")]
    twice, staged = _squared_errors(spec, *costs, rank, signal, noise)
    return staged < twice


def squared_error(spec: ComponentReleases, mu, signal: float, noise: float) -> float:
    """Expected squared projection distance for Gaussian rows, to first order.

    Parameters
    ----------
    spec : ComponentReleases
        What is released, with a rank that is a number.
    mu : float
        Cost of all releases together.
    signal, noise : float
        Variances along the components beyond the noise, and across them, in units of
        the bounded rows.

    Returns
    -------
    float
        Of statistical and private error; at most the largest distance there is.
    """
    most = 2.0 * min(spec.rank, spec.n_features - spec.rank)
    if most == 0.0:
        return 0.0
    costs = spec.costs(mu)
    laws = spec.rank, signal, noise
    again = costs.get("second", 0.0)
    moment, staged = _squared_errors(spec, costs["first"], again, *laws)
    errors = {"gaussian": (moment,), "two-stage": (staged,), "auto": (moment, staged)}
    return min(*errors[spec.mechanism], most)


def _squared_errors(spec: ComponentReleases, first, second, rank, signal, noise):
    """Squared distances of two releases of the moment, and of a power step.

    From the costs of what comes first and of what comes second.
    """
    both = _moment_error(spec, math.hypot(first, second), rank, signal, noise)
    if not spec.staged:
        return both, math.inf
    start = min(_moment_error(spec, first, rank, signal, noise), 2.0 * rank)
    return both, spec.step.squared_error(second, rank, signal, noise, start)


def _moment_error(spec: ComponentReleases, mu, rank, signal, noise) -> float:
    """Squared distance of the eigenvectors of a second moment released at a cost."""
    gap, cross = _bounded_law(spec, rank, signal, noise)
    # Deviation of the noise off the diagonal.
    private = spec.rows.second_radius**2 / (spec.n_samples * mu)
    pairs = 2.0 * rank * (spec.n_features - rank)
    return pairs * (cross / spec.n_samples + private**2) / gap**2


def _bounded_law(spec: ComponentReleases, rank: int, signal, noise):
    """Gap, and variance of entries off the diagonal, of bounded Gaussian rows."""
    degrees = spec.n_features - rank
    if spec.rows.clip is None:
        return _linalg.unit_row_moments(signal + noise, noise, rank, degrees)
    spread = rank * (signal + noise) + degrees * noise
    kept = min(1.0, spec.rows.clip**2 / spread)
    return kept * signal, kept**2 * noise * (signal + noise)
