"""Private statistics of shared directions: start, clip norms, rounds.

With a budget, users contribute to one release after another, each from their own rows
and earlier releases alone. The clipped contributions are summed, with noise. Without a
budget, U and the users' parameters alternate until convergence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg import per_user
from .._statistics.statistic import Combination, Statistic, Votes
from .._statistics.user_sums import MOST_USERS, planned_sum, released_sum
from ..accounting import calibrate_gaussian
from ..mechanisms import Concern, Exact, Gaussian, Mechanism, Neighbors, Remark
from . import _kernels_shared, _kernels_users

# What a reader of the guarantee must know of models that rest on these directions.
BILLBOARD = Remark(
    "Weights, sparse parts and intercepts stay with their users: predictions for a "
    "user in the training data are for that user only (billboard model).",
    Concern.TRUST,
)


@dataclass(frozen=True)
class SharedModel:
    """Shared directions, and the model of who has no other.

    `U` (n_features, rank): shared directions of the scaled features.
    `scale` (n_features,): what features were divided by.
    `converged`: whether U came to rest; what is released does not tell.
    `users`: parameters of all users, where nothing is private.
    """

    U: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    intercept: float = 0.0
    n_iter: int = 1
    converged: bool = True
    users: _kernels_shared.UserParameters | None = None

    @property
    def components(self) -> np.ndarray:
        """U' in units of the data: (rank, n_features)."""
        return np.ascontiguousarray((self.U / self.scale[:, None]).T)

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the shared model: (n_features,)."""
        return self.weights @ self.components


# Steps of hard-thresholding pursuit of a user for one release.
_LOCAL_STEPS = 10


@dataclass(frozen=True)
class Users:
    """Public rules of the users, and how their vectors are made and summed."""

    rules: _kernels_users.LocalRules
    n_features: int
    neighbors: Neighbors
    n_jobs: int | None = None

    @property
    def rank(self) -> int:
        """Number of shared directions."""
        return len(self.rules.prior)

    @property
    def first_rules(self) -> _kernels_users.LocalRules:
        """Rules of the first contribution: without directions, that of one model."""
        return replace(self.rules, sparsity=0) if self.rules.fixed else self.rules

    def answers(self, block, rows, rules, U, units=(1.0, 1.0)) -> Iterator:
        """Yield the users' moments at U, in some units, a few users at a time."""
        scores = _kernels_users.shared_scores(block, U)
        squares = rows.column_squares(block)
        fit = _kernels_users.thresholding_pursuit(
            block, scores, squares, rules, _LOCAL_STEPS
        )
        yield from _kernels_shared.user_moments(block, scores, fit, units)

    def released_sum(self, release, name: str, rows, contributions: Callable):
        """Release the sum of the users' vectors, each clipped to norm 1 as a whole."""
        return released_sum(release, name, rows, contributions, self.n_jobs)


# Steps of the bisections for the users' median norms, on a logarithmic scale.
_BISECTIONS = 12
_VOTES = Votes("median", _BISECTIONS)
_SMALLEST_LOG10, _LARGEST_LOG10 = -8.0, 8.0


@dataclass(frozen=True)
class ClipSizes(Statistic):
    """Clip norms of curvature and gradient: public ones, or private medians of norms.

    Every step of the bisections releases by how much more of the users lie below
    than above the tried values; only the signs of the noisy sums are used.

    `curvature`, `gradient`: public units; None for a median.
    """

    users: Users
    curvature: float | None
    gradient: float | None

    @property
    def n_medians(self) -> int:
        """Medians that are estimated: 0, 1 or 2."""
        return [self.curvature, self.gradient].count(None)

    @property
    def names(self) -> tuple[str, ...]:
        """One release a step; none where both units are public."""
        return tuple(_VOTES.names) if self.n_medians else ()

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan the votes of one step: each user votes on every median at once."""
        return calibrate_gaussian(
            name,
            sensitivity.vote_sensitivity(self.n_medians, self.users.neighbors),
            mu,
            (self.n_medians,),
            magnitude=0.5 * MOST_USERS,
            lemma="votes",
        )

    def run(self, release, rows, U) -> np.ndarray:
        """Release the votes; return the units of curvature and gradient at U."""
        clips = np.array([self.curvature, self.gradient], dtype=np.float64)
        wanted = np.flatnonzero(np.isnan(clips))
        if not len(wanted):
            return clips
        counts, each = self._counts(rows, U)[wanted], range(len(wanted))

        def margins(places):
            return counts[each, places] - 0.5 * counts[:, -1]

        first, last = _VOTES.run(release, margins, len(wanted))
        clips[wanted] = 10.0 ** _logarithm(0.5 * (first + last))
        return clips

    def _counts(self, rows, U) -> np.ndarray:
        """Count users whose norms at U are at most those on a grid; last, all users."""
        counts = np.zeros((2, (1 << _BISECTIONS) + 2), dtype=np.int64)
        for found in rows.sums(partial(self._placed, U=U), self.users.n_jobs):
            counts += found
        return counts.cumsum(axis=1)

    def _placed(self, block, rows, U) -> np.ndarray:
        """Count the users of a block between the norms on the grid."""
        points = 10.0 ** _logarithm(np.arange((1 << _BISECTIONS) + 1))
        counts = np.zeros((2, len(points) + 1), dtype=np.int64)
        rules = self.users.first_rules
        size = _kernels_shared.n_curvature(self.users.rank, self.users.n_features)
        for moments in self.users.answers(block, rows, rules, U):
            parts = moments[:, :size], moments[:, size:]
            for count, vectors in zip(counts, parts, strict=True):
                # What is not a number lies beyond all of them.
                places = np.searchsorted(points, _kernels_shared.row_norms(vectors))
                count += np.bincount(places, minlength=len(count))
        return counts


def _logarithm(place):
    """Logarithm of the norm at a place of the grid."""
    share = place / (1 << _BISECTIONS)
    return _SMALLEST_LOG10 + share * (_LARGEST_LOG10 - _SMALLEST_LOG10)


@dataclass(frozen=True)
class ExactDirections(Statistic):
    """Directions U that fit all users best, without noise.

    `tol`: iterations end when U moves by at most this distance.
    """

    users: Users
    max_iter: int
    tol: float
    shrink: bool
    update: str

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        return (Exact("components", (self.users.rank, self.users.n_features)),)

    def remarks(self) -> tuple[str, ...]:
        return (BILLBOARD,)

    def run(self, release, rows, start, scale, progress: Any) -> SharedModel:
        """Fit U and all users, and release U.

        `start` (n_features, rank): start, or the name of one. `scale` (n_features,):
        what features are divided by; None for their root mean squares. `progress`: told
        of every iteration; it may stop the alternation. The result has finite
        numbers and the users' parameters.
        """
        try:
            with np.errstate(all="ignore"):
                found = self._alternate(rows, start, scale, progress)
                components, coef = found.components, found.coef
            if np.isfinite(components).all() and np.isfinite(coef).all():
                release("components", components)
                return found
        except np.linalg.LinAlgError:
            pass
        raise ValueError(
            "X or y contains numbers, in units of scale, whose squares are out of the "
            "range of float64: choose other units"
        )

    def _alternate(self, rows, start, scale, progress) -> SharedModel:
        if scale is None:
            scale = per_user.column_scales(rows, self.users.n_jobs)
            rows.rescale(scale)
        alternation = _kernels_shared.AlternatingSolver(
            rows,
            self.users.rules,
            shrink=self.shrink,
            solver=self.update,
            n_jobs=self.users.n_jobs,
        )
        U = alternation.start(start)
        U, n_iter, converged = alternation.fit(
            U, self.max_iter, self.tol, progress.step
        )
        users = alternation.users
        found = SharedModel(
            U,
            scale,
            users.weights.mean(axis=0),
            n_iter=n_iter,
            converged=converged,
            users=users,
        )
        if rows.y_means is None:
            return found
        # The mean over users of the intercept that suits the shared coefficients.
        intercepts = rows.y_means - rows.X_means @ found.coef
        return replace(found, intercept=float(intercepts.mean()))


@dataclass(frozen=True)
class MomentRounds(Statistic):
    """Rounds in which users fit themselves at U, and their moments give the next U.

    `n_before`: releases of U before the first round.
    """

    users: Users
    n_rounds: int
    n_before: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"moments_{number}" for number in range(1, self.n_rounds + 1))

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan one round: a sum over users of one vector of norm at most 1."""
        rank, d = self.users.rank, self.users.n_features
        width = _kernels_shared.n_curvature(rank, d) + rank * d
        return planned_sum(name, width, self.users.neighbors, mu)

    def run(
        self, release, rows_of: Callable, U, clips, progress: Callable
    ) -> np.ndarray:
        """Release all rounds, from U and in units of `clips`; return the last U.

        ``rows_of(step)`` are the users' rows for a release, and ``progress(step)`` is
        called after each.
        """
        rules = self.users.first_rules
        for step, name in enumerate(self.names, self.n_before + 1):
            total = self._released(release, name, clips, rows_of(step), rules, U)
            U = self._solved(total, release.plan[name].noise_std, clips[0])
            progress(step)
            rules = self.users.rules
        return U

    def _released(self, release, name: str, clips, rows, rules, U) -> np.ndarray:
        """Release the sum of the users' moments, in their own units again."""
        contributions = partial(self._contributions, clips=clips, rules=rules, U=U)
        total = self.users.released_sum(release, name, rows, contributions)
        size = _kernels_shared.n_curvature(self.users.rank, self.users.n_features)
        return np.concatenate([total[:size] * clips[0], total[size:] * clips[1]])

    def _contributions(self, block, rows, clips, rules, U):
        """Yield users' moments, in units of the clips."""
        yield from self.users.answers(block, rows, rules, U, clips)

    def _solved(self, total, noise_std: float, clip_curvature: float) -> np.ndarray:
        rank, d = self.users.rank, self.users.n_features
        # The noise of the curvature matrix, in spectral norm: its square has
        # expectation std^2 (r + 1)(d + 1) / 4 times the identity.
        floor = noise_std * clip_curvature * math.sqrt((rank + 1) * (d + 1))
        U = _kernels_shared.solve_moments(total, rank, d, floor)
        return U if self.users.rules.fixed else _kernels_shared.positive_qr(U)[0]


@dataclass(frozen=True)
class SpectralStart(Statistic):
    """Leading directions of the sum of s s', for each user's correlations s."""

    users: Users

    @property
    def names(self) -> tuple[str, ...]:
        return ("start",)

    def planned(self, name: str, mu: float) -> Gaussian:
        """Plan the sum: each user moves it by a matrix s s' of norm 1."""
        d = self.users.n_features
        return calibrate_gaussian(
            name,
            sensitivity.projector_sum_sensitivity(self.users.neighbors),
            mu,
            (_kernels_shared.n_packed(d),),
            summation_error=(d + 16) * 2.0**-52,
            magnitude=MOST_USERS,
            lemma="projector-sums",
        )

    def run(self, release, rows) -> np.ndarray:
        """Release the sum; return directions of shape (n_features, rank)."""
        total = self.users.released_sum(release, "start", rows, _contributions)
        return _kernels_shared.leading_directions(
            total, self.users.rank, self.users.n_features
        )


def _contributions(block, rows):
    """Yield what users' correlations are, packed, a few users at a time."""
    for part in _kernels_shared.slices_of(
        block, _kernels_shared.n_packed(block.X.shape[2])
    ):
        yield _kernels_shared.start_moments(block.take(part))


@dataclass(frozen=True)
class SharedDirections(Combination):
    """Directions U from releases of equal cost, and the clipping that they need.

    `n_releases`: releases of U: the start, if it is released, and rounds; 0 for a U
    that is given and kept.
    `release_start`: whether the first release is a private spectral start.
    `clip_curvature`, `clip_gradient`: what a user's curvature and gradient are measured
    in; None for a private median of the users' norms.
    `clip_share`: share of mu**2 for the medians.
    `fresh`: whether each release of U has rows of its own of every user.
    """

    users: Users
    n_releases: int
    release_start: bool = False
    clip_curvature: float | None = None
    clip_gradient: float | None = None
    clip_share: float = 0.0
    fresh: bool = False

    def parts(self) -> dict[str, Statistic]:
        parts: dict[str, Statistic] = {}
        if self.release_start:
            parts["start"] = SpectralStart(self.users)
        n_rounds = self.n_releases - len(parts)
        if n_rounds:
            sizes = (self.clip_curvature, self.clip_gradient)
            rounds = MomentRounds(self.users, n_rounds, n_before=len(parts))
            parts |= {"clips": ClipSizes(self.users, *sizes), "rounds": rounds}
        return parts

    def shares(self) -> dict[str, float]:
        """Return the share of each release: equal ones for all releases of U."""
        clips = self.parts().get("clips")
        n_votes = len(clips.names) if clips else 0
        share = self.clip_share if n_votes else 0.0
        each = (1.0 - share) / max(self.n_releases, 1)
        return {"start": each, "clips": share / max(n_votes, 1), "rounds": each}

    def remarks(self) -> tuple[str, ...]:
        if self.users.rank and not self.n_releases:
            return ("Shared directions are the public ones that were given.", BILLBOARD)
        return (BILLBOARD,)

    def run(self, release, rows, start, scale, progress: Any) -> SharedModel:
        """Release what is planned, and return the model that it leaves.

        Every user contributes to a release from their own rows and earlier releases
        alone; nothing else that is computed here depends on more than one user.

        `start` (n_features, rank): public start; None where the start is released.
        `scale` (n_features,): what features are divided by, public. `progress`: told of
        every release but those of medians. The directions are orthonormal, unless
        the users' weights are fixed; the weights are public.
        """
        U = self._directions(release, rows, start, progress.step)
        n_iter = max(self.n_releases, 1)
        return SharedModel(U, scale, self.users.rules.prior, n_iter=n_iter)

    def _directions(self, release, rows, start, step) -> np.ndarray:
        if not self.n_releases:
            # Given, and kept, or none at all.
            none = np.zeros((self.users.n_features, 0))
            return start if self.users.rank else none
        parts, U = self.parts(), start

        def rows_of(number: int):
            """Rows of the users for a release of U, counted from 1."""
            return rows.dealt(number - 1, self.n_releases) if self.fresh else rows

        if "start" in parts:
            U = parts["start"].run(release, rows_of(1))
            step(1)
        if "rounds" in parts:
            clips = parts["clips"].run(release, rows_of(1 + ("start" in parts)), U)
            U = parts["rounds"].run(release, rows_of, U, clips, step)
        return U


__all__ = ["ExactDirections", "SharedDirections", "SharedModel", "Users"]
