"""Private shared directions of many users' regressions: what to release, and how."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .. import sensitivity
from .._linalg import linear_model as lrs
from .._tables.clipping import clip_rows
from ..accounting import calibrate_gaussian, split_mu
from ..mechanisms import Neighbors

# Steps of the bisections for the users' median norms, on a logarithmic scale.
_BISECTIONS = 12
_SMALLEST_LOG10, _LARGEST_LOG10 = -8.0, 8.0
# Users that sums are exact for: more than codes of 32 bits can tell apart.
_MOST_USERS = 2.0**32
# What clip_rows may leave a vector longer than one, twice.
_CLIP_SLACK = 8.0 * 2.0**-52
# Steps of hard-thresholding pursuit by which every user answers a release.
_LOCAL_STEPS = 10


@dataclass(frozen=True)
class SharedReleases:
    """Public description of the releases that the shared directions come from.

    Parameters
    ----------
    rank, n_features : int
        Shape of U is (n_features, rank).
    n_releases : int
        Releases of equal cost: the start, if it is released, and moments.
    release_start : bool
        Whether the first release is a private spectral start.
    clip_curvature, clip_gradient : float or None
        What a user's curvature and gradient are measured in; None for a private
        median of the users' norms.
    clip_share : float
        Share of mu**2 for the medians.
    neighbors : Neighbors
        Add-remove-one or replace-one, of users.
    """

    rank: int
    n_features: int
    n_releases: int
    release_start: bool
    clip_curvature: float | None
    clip_gradient: float | None
    clip_share: float
    neighbors: Neighbors

    @property
    def n_moments(self) -> int:
        """Releases of moments."""
        return self.n_releases - self.release_start

    @property
    def n_medians(self) -> int:
        """Medians that are estimated: 0, 1 or 2."""
        if self.n_moments == 0:
            return 0
        return [self.clip_curvature, self.clip_gradient].count(None)

    def mechanisms(self, mu: float) -> tuple:
        """Plan all releases at a total cost of mu."""
        if self.n_releases == 0:
            return ()
        medians = _BISECTIONS if self.n_medians else 0
        share = self.clip_share if medians else 0.0
        shares = [(1.0 - share) / self.n_releases] * self.n_releases
        shares += [share / max(medians, 1)] * medians
        costs = split_mu(mu, shares)
        rounds, votes = costs[: self.n_releases], costs[self.n_releases :]
        start = [self._start(rounds[0])] if self.release_start else []
        moments = rounds[len(start) :]
        return (
            *start,
            *(self._vote(step, cost) for step, cost in enumerate(votes, 1)),
            *(self._moments(step, cost) for step, cost in enumerate(moments, 1)),
        )

    def _start(self, mu: float):
        return calibrate_gaussian(
            "start",
            sensitivity.projector_sum_sensitivity(self.neighbors),
            mu,
            (lrs.n_packed(self.n_features),),
            summation_error=(self.n_features + 16) * 2.0**-52,
            magnitude=_MOST_USERS,
        )

    def _vote(self, step: int, mu: float):
        return calibrate_gaussian(
            f"median_{step}",
            sensitivity.vote_sensitivity(self.n_medians, self.neighbors),
            mu,
            (self.n_medians,),
            magnitude=0.5 * _MOST_USERS,
        )

    def _moments(self, step: int, mu: float):
        size = lrs.n_curvature(self.rank, self.n_features)
        return calibrate_gaussian(
            f"moments_{step}",
            sensitivity.sum_sensitivity(1.0, self.neighbors),
            mu,
            (size + self.rank * self.n_features,),
            summation_error=_CLIP_SLACK,
            magnitude=_MOST_USERS,
        )

    def curvature_floor(self, noise_std: float, clip_curvature: float) -> float:
        """Size of the noise of the curvature matrix, in spectral norm.

        Its square has expectation std^2 (r + 1)(d + 1) / 4 times the identity.
        """
        entries = (self.rank + 1) * (self.n_features + 1)
        return noise_std * clip_curvature * math.sqrt(entries)


def release_directions(
    release, shared: SharedReleases, rows, rules, start, n_jobs, progress: Callable
) -> np.ndarray:
    """Release what :class:`SharedReleases` planned, and return U.

    Between releases every user answers from their own rows and earlier releases
    alone; nothing else that is computed here depends on more than one user.

    Parameters
    ----------
    release : Release
        Charged with the plan.
    shared : SharedReleases
        What is released.
    rows : UserRows
        The users' rows.
    rules : LocalRules
        Public rules of the users' fits.
    start : ndarray of shape (n_features, rank) or None
        Public start; None where the start is released.
    n_jobs : int or None
        Threads.
    progress : callable
        ``progress(step)``, called after every release but those of medians.

    Returns
    -------
    ndarray of shape (n_features, rank)
        Orthonormal columns, unless the weights of the users are fixed.
    """
    U, step = start, 0
    if shared.release_start:
        U = _release_start(release, shared, rows, n_jobs)
        step += 1
        progress(step)
    clips = None
    for number in range(1, shared.n_moments + 1):
        # From no direction at all, the first answer is that of one model for all.
        own = replace(rules, sparsity=0) if rules.fixed and number == 1 else rules
        if clips is None:
            clips = _clips(release, shared, rows, own, U, n_jobs)
        total = _release_moments(
            release, f"moments_{number}", clips, rows, own, U, n_jobs
        )
        noise_std = release.plan[f"moments_{number}"].noise_std
        floor = shared.curvature_floor(noise_std, clips[0])
        U = lrs.solve_moments(total, shared.rank, shared.n_features, floor)
        if not rules.fixed:
            U = lrs.positive_qr(U)[0]
        step += 1
        progress(step)
    return U


def _sum_of_users(release, name: str, rows, contributions: Callable, n_jobs):
    """Release the sum of the users' vectors, each clipped to norm 1 as a whole."""
    grid = release.plan[name].grid

    def part(block):
        return sum(
            lrs.sum_on_grid(_clipped(vectors), grid) for vectors in contributions(block)
        )

    total = np.zeros(release.plan[name].shape)
    for steps in rows.map(part, n_jobs):
        total += steps
    return release(name, total * grid, overwrite=True)


def _clipped(vectors: np.ndarray) -> np.ndarray:
    """Clip each user's vector to norm 1, with the same bits whoever else is there."""
    return clip_rows(vectors, 1.0, out=lrs.empty_stack(*vectors.shape))


def _release_start(release, shared: SharedReleases, rows, n_jobs):
    def contributions(block):
        yield lrs.start_moments(block)

    total = _sum_of_users(release, "start", rows, contributions, n_jobs)
    return lrs.leading_directions(total, shared.rank, shared.n_features)


def _answers(block, rows, rules, U):
    """Yield the users' moments at U, a few users at a time."""
    scores = lrs.shared_scores(block, U)
    squares = rows.column_squares(block)
    fit = lrs.thresholding_pursuit(block, scores, squares, rules, _LOCAL_STEPS)
    yield from lrs.user_moments(block, scores, fit)


def _release_moments(release, name: str, clips, rows, rules, U, n_jobs):
    """Release the sum of the users' moments, in their own units again."""

    def contributions(block):
        for curvature, gradient in _answers(block, rows, rules, U):
            yield np.concatenate([curvature / clips[0], gradient / clips[1]], axis=1)

    total = _sum_of_users(release, name, rows, contributions, n_jobs)
    size = lrs.n_curvature(U.shape[1], len(U))
    return np.concatenate([total[:size] * clips[0], total[size:] * clips[1]])


def _clips(release, shared: SharedReleases, rows, rules, U, n_jobs):
    """Units of curvature and gradient: public ones, or private medians of the norms.

    Every step of the bisections releases by how much more of the users lie below
    than above the tried values; of the noisy answers only the signs are used.
    """
    clips = np.array([shared.clip_curvature, shared.clip_gradient], dtype=np.float64)
    wanted = np.flatnonzero(np.isnan(clips))
    if not len(wanted):
        return clips
    norms = np.zeros((rows.n_users, 2))

    def part(block):
        found = [
            np.stack([lrs.row_norms(curvature), lrs.row_norms(gradient)], axis=1)
            for curvature, gradient in _answers(block, rows, rules, U)
        ]
        norms[block.users] = np.concatenate(found)

    rows.map(part, n_jobs)
    low = np.full(len(wanted), _SMALLEST_LOG10)
    high = np.full(len(wanted), _LARGEST_LOG10)
    for step in range(1, _BISECTIONS + 1):
        middle = 0.5 * (low + high)
        below = norms[:, wanted] <= 10.0**middle
        votes = release(f"median_{step}", below.sum(axis=0) - 0.5 * len(norms))
        low, high = np.where(votes > 0, low, middle), np.where(votes > 0, middle, high)
    clips[wanted] = 10.0 ** (0.5 * (low + high))
    return clips
