"""Private statistics of shared directions: start, clip norms, rounds.

With a budget, users contribute to one release after another, each from their own rows
and earlier releases alone. The clipped contributions are summed, with noise. Without a
budget, U and the users' parameters alternate until convergence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg import per_user
from .._statistics.statistic import Statistic, Votes
from .._statistics.user_sums import MOST_USERS, planned_sum, released_sum
from ..accounting import calibrate_gaussian, split_mu
from ..mechanisms import Concern, Exact, Gaussian, Mechanism, Neighbors, Remark
from . import _kernels_shared, _kernels_users

# What a reader of the guarantee must know of models that rest on these directions.
BILLBOARD = Remark(
    "Weights, sparse parts and intercepts stay with their users: predictions for a "
    "user in the training data are for that user only (billboard model).",
    Concern.TRUST,
)

# Steps of hard-thresholding pursuit of a user for one release.
_LOCAL_STEPS = 10

# Bisections for the users' median norms, on a logarithmic scale, and their share of
# mu**2.
_BISECTIONS = 12
_VOTES = Votes("median", _BISECTIONS)
_SMALLEST_LOG10, _LARGEST_LOG10 = -8.0, 8.0
_MEDIAN_SHARE = 0.1


@dataclass(frozen=True)
class SharedModel:
    """Shared directions, and the model for users who have no other.

    `U`, (n_features, rank), are directions of the features divided by `scale`. `users`
    are the parameters of all users, where nothing is private.
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


@dataclass(frozen=True)
class _Directions(Statistic):
    """Base of statistics of U; `rules` are public rules of every user's fit."""

    rules: _kernels_users.LocalRules
    n_features: int
    neighbors: Neighbors
    n_jobs: int | None

    @property
    def rank(self) -> int:
        """Number of shared directions."""
        return len(self.rules.prior)


@dataclass(frozen=True)
class ExactDirections(_Directions):
    """Directions U that fit all users best, without noise.

    Iterations end when U moves by at most `tol`. With `shrink`, users' weights shrink
    to their mean.
    """

    max_iter: int
    tol: float
    shrink: bool

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        return (Exact("components", (self.rank, self.n_features)),)

    def remarks(self) -> tuple[str, ...]:
        return (BILLBOARD,)

    def run(self, release, rows, start, scale, progress: Any) -> SharedModel:
        """Fit U and all users, and release U.

        `start`, (n_features, rank), may be the name of a start. `scale` divides the
        features; None for their root mean squares. `progress` may stop the alternation.
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
            scale = per_user.column_scales(rows, self.n_jobs)
            rows.rescale(scale)
        solver = _kernels_shared.AlternatingSolver(
            rows, self.rules, shrink=self.shrink, n_jobs=self.n_jobs
        )
        found = solver.fit(solver.start(start), self.max_iter, self.tol, progress.step)
        U, n_iter, converged = found
        weights = solver.users.weights.mean(axis=0)
        model = SharedModel(U, scale, weights, 0.0, n_iter, converged, solver.users)
        if rows.y_means is None:
            return model
        # The mean over users of the intercept that suits the shared coefficients.
        intercepts = rows.y_means - rows.X_means @ model.coef
        return replace(model, intercept=float(intercepts.mean()))


@dataclass(frozen=True)
class SharedDirections(_Directions):
    """Directions U from releases of equal cost, and the clip norms that these need.

    `n_releases` counts the releases of U: the start, with `release_start`, and rounds;
    0 for a U that is given and kept. `clip_norms` are public units of a user's
    curvature and gradient; None for a private median over the users.
    """

    n_releases: int
    release_start: bool = False
    clip_norms: tuple[float | None, float | None] = (None, None)

    # -- the plan ------------------------------------------------------------------

    @property
    def _rounds(self) -> list[str]:
        n_rounds = self.n_releases - self.release_start
        return [f"moments_{number}" for number in range(1, n_rounds + 1)]

    @property
    def _n_medians(self) -> int:
        return self.clip_norms.count(None) if self._rounds else 0

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        votes = _VOTES.names if self._n_medians else []
        share = _MEDIAN_SHARE if votes else 0.0
        each = (1.0 - share) / max(self.n_releases, 1)
        parts = [
            (["start"] * self.release_start, self._planned_start, each),
            (votes, self._planned_votes, share / _BISECTIONS),
            (self._rounds, self._planned_round, each),
        ]
        shares = [share for names, _, share in parts for _ in names]
        costs = split_mu(mu, shares) if len(shares) > 1 else [mu]
        planned: list[Mechanism] = []
        for names, plan, _ in parts:
            if names:
                planned += plan(names[0], costs[len(planned)]).repeated(names)
        return tuple(planned)

    def _planned_start(self, name: str, mu: float) -> Gaussian:
        """Plan a sum that each user moves by a matrix s s' of norm 1."""
        d = self.n_features
        return calibrate_gaussian(
            name,
            sensitivity.projector_sum_sensitivity(self.neighbors),
            mu,
            (_kernels_shared.n_packed(d),),
            summation_error=(d + 16) * 2.0**-52,
            magnitude=MOST_USERS,
            lemma="projector-sums",
        )

    def _planned_votes(self, name: str, mu: float) -> Gaussian:
        """Plan one step of the bisections: users vote on every median at once."""
        return calibrate_gaussian(
            name,
            sensitivity.vote_sensitivity(self._n_medians, self.neighbors),
            mu,
            (self._n_medians,),
            magnitude=0.5 * MOST_USERS,
            lemma="votes",
        )

    def _planned_round(self, name: str, mu: float) -> Gaussian:
        """Plan a sum over users of one vector of norm at most 1."""
        width = self._n_curvature + self.rank * self.n_features
        return planned_sum(name, width, self.neighbors, mu)

    @property
    def _n_curvature(self) -> int:
        return _kernels_shared.n_curvature(self.rank, self.n_features)

    def remarks(self) -> tuple[str, ...]:
        if self.rank and not self.n_releases:
            return ("Shared directions are the public ones that were given.", BILLBOARD)
        return (BILLBOARD,)

    # -- the releases --------------------------------------------------------------

    def run(self, release, rows, start, scale, progress: Any) -> SharedModel:
        """Release what is planned, and return the model that it leaves.

        Every user contributes to a release from their own rows and earlier releases
        alone; nothing else that is computed here depends on more than one user.

        `start`, (n_features, rank), is public; None where it is released. `scale`,
        public, divides the features. `progress` is told of every release of U. The
        directions are orthonormal, unless weights are fixed; the weights are public.
        """
        U = self._directions(release, rows, start, progress.step)
        n_iter = max(self.n_releases, 1)
        return SharedModel(U, scale, self.rules.prior, n_iter=n_iter)

    def _directions(self, release, rows, start, progress) -> np.ndarray:
        if not self.n_releases:  # given, and kept, or none at all
            return start if self.rank else np.zeros((self.n_features, 0))

        U, first = start, 1
        if self.release_start:
            total = self._sum(release, "start", rows, _start_contributions)
            U = _kernels_shared.leading_directions(total, self.rank, self.n_features)
            progress(1)
            first = 2
        # Without directions, the first contribution is that of one model.
        fixed, rules = self.rules.fixed, self.rules
        rules = replace(rules, sparsity=0) if fixed else rules
        if self._rounds:
            clips = self._released_clips(release, rows, U, rules)
        for step, name in enumerate(self._rounds, first):
            answers = partial(self._answers, U=U, rules=rules, units=clips)
            total = self._sum(release, name, rows, answers)
            U = self._solved(total, release.plan[name].noise_std, clips)
            progress(step)
            rules = self.rules
        return U

    def _sum(self, release, name: str, rows, contributions) -> np.ndarray:
        """Release the sum of the users' vectors, each clipped to norm 1 as a whole."""
        return released_sum(release, name, rows, contributions, self.n_jobs)

    def _answers(self, block, rows, U, rules, units=(1.0, 1.0)) -> Iterator:
        """Yield the users' moments at U, in some units, a few users at a time."""
        scores = _kernels_users.shared_scores(block, U)
        squares = rows.column_squares(block)
        fit = _kernels_users.thresholding_pursuit(
            block, scores, squares, rules, _LOCAL_STEPS
        )
        yield from _kernels_shared.user_moments(block, scores, fit, units)

    def _solved(self, total, noise_std: float, clips) -> np.ndarray:
        """Return the next U from a released sum."""
        rank, d, size = self.rank, self.n_features, self._n_curvature
        total = np.concatenate([total[:size] * clips[0], total[size:] * clips[1]])
        # The noise of the curvature matrix, in spectral norm: its square has
        # expectation std^2 (r + 1)(d + 1) / 4 times the identity.
        floor = noise_std * clips[0] * math.sqrt((rank + 1) * (d + 1))
        U = _kernels_shared.solve_moments(total, rank, d, floor)
        return U if self.rules.fixed else _kernels_shared.positive_qr(U)[0]

    def _released_clips(self, release, rows, U, rules) -> np.ndarray:
        """Return the units of curvature and gradient; release the votes for medians.

        Every vote tells by how much more of the users lie below than above the tried
        norms; only the signs of the noisy sums are used.
        """
        clips = np.array(self.clip_norms, dtype=np.float64)
        wanted = np.flatnonzero(np.isnan(clips))
        if not len(wanted):
            return clips
        counts = self._counts(rows, U, rules)[wanted]
        each = range(len(wanted))

        def margins(places):
            return counts[each, places] - 0.5 * counts[:, -1]

        first, last = _VOTES.run(release, margins, len(wanted))
        clips[wanted] = 10.0 ** _logarithm(0.5 * (first + last))
        return clips

    def _counts(self, rows, U, rules) -> np.ndarray:
        """Count users whose norms at U are at most those on a grid; last, all users."""
        counts = np.zeros((2, (1 << _BISECTIONS) + 2), dtype=np.int64)
        for found in rows.sums(partial(self._placed, U=U, rules=rules), self.n_jobs):
            counts += found
        return counts.cumsum(axis=1)

    def _placed(self, block, rows, U, rules) -> np.ndarray:
        """Count the users of a block between the norms on the grid."""
        points = 10.0 ** _logarithm(np.arange((1 << _BISECTIONS) + 1))
        counts, size = np.zeros((2, len(points) + 1), dtype=np.int64), self._n_curvature
        for moments in self._answers(block, rows, U, rules):
            parts = moments[:, :size], moments[:, size:]
            for count, vectors in zip(counts, parts, strict=True):
                # What is not a number lies beyond all of them.
                places = np.searchsorted(points, _kernels_shared.row_norms(vectors))
                count += np.bincount(places, minlength=len(count))
        return counts


def _start_contributions(block, rows) -> Iterator:
    """Yield what users' correlations are, packed, a few users at a time."""
    width = _kernels_shared.n_packed(block.X.shape[2])
    for part in _kernels_shared.slices_of(block, width):
        yield _kernels_shared.start_moments(block.take(part))


def _logarithm(place):
    """Logarithm of the norm at a place of the grid."""
    share = place / (1 << _BISECTIONS)
    return _SMALLEST_LOG10 + share * (_LARGEST_LOG10 - _SMALLEST_LOG10)
