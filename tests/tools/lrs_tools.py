"""Users, what a private fit may learn of them, and what it does learn.

`TranscriptRatio` writes the private fit down once more, for users without a sparse
part: it knows of the package what is done to releases, and nothing of what is done
to the data. `scripted` fits with releases that were fixed beforehand.
"""

import contextlib
import functools
import math
import zlib
from dataclasses import dataclass

import numpy as np
from release_tools import Release

from skdpspectral import LRSRegressor
from skdpspectral._linalg import per_user
from skdpspectral._release import noise as release_module
from skdpspectral.linear_model import _kernels_shared, _kernels_users
from skdpspectral.linear_model._parameters import ridge_of_weights, solver_of
from skdpspectral.linear_model._shared_directions import SharedDirections, Users
from skdpspectral.mechanisms import Neighbors

_BISECTIONS, _RANGE = 12, (-8.0, 8.0)


# -- tables ----------------------------------------------------------------------------


def table(users):
    """Stack users {id: (rows, targets)}: X with the ids in front, and y."""
    blocks = [
        np.column_stack([np.full(len(y), float(user)), rows])
        for user, (rows, y) in users.items()
    ]
    return np.concatenate(blocks), np.concatenate([y for _, y in users.values()])


def alike(t, m, d, seed=0):
    """Make t ordinary users of m rows, with ids from 1."""
    rng = np.random.default_rng(seed)
    return {
        user: (rng.standard_normal((m, d)), rng.standard_normal(m))
        for user in range(1, t + 1)
    }


# -- fits that end with the last release -----------------------------------------------


class ReleasesAlone(LRSRegressor):
    """The private fit without what every user does with the result, for audits.

    Rows are grouped and the plan is made once for all fits of the same arrays; what
    is released has the same bits as in a whole fit.
    """

    def fit(self, X, y):
        if getattr(self, "_fitted_to", (None,))[0] is not X:
            self._fitted_to = (X, self.privacy_plan(X.shape[1] - 1), *self._given(X, y))
        _, plan, shared, rows, start = self._fitted_to
        release = Release(plan, None, self.noise_seed)
        shared.run(release, rows, start, np.ones(X.shape[1] - 1), Silent())
        return self

    def _given(self, X, y):
        d, fixed = X.shape[1] - 1, self.shared_weights == "fixed"
        solver = solver_of(self)
        given = not isinstance(solver.init, str)
        prior = np.full(self.n_components, float(fixed))
        rules = _kernels_users.LocalRules(
            self.sparsity, ridge_of_weights(self), self.ridge_sparse, prior, fixed
        )
        shared = SharedDirections(
            Users(rules, d, Neighbors(self.neighbors)),
            n_releases=solver.n_rounds,
            release_start=not (given or fixed),
            clip_curvature=solver.curvature_clip_norm,
            clip_gradient=solver.gradient_clip_norm,
            clip_share=solver.median_share,
        )
        codes = np.unique(X[:, 0], return_inverse=True)[1]
        center = self.fit_intercept == "user"
        rows = per_user.UserRows(
            X, y, codes, codes.max() + 1, columns=slice(1, None), center=center
        )
        start = (
            _kernels_shared.positive_qr(np.array(solver.init).T)[0] if given else None
        )
        return shared, rows, np.zeros((d, 1)) if fixed else start


class Silent:
    """Progress that nobody watches."""

    def step(self, number):
        """Say nothing."""


# -- the likelihood ratio of a whole transcript ----------------------------------------


@functools.cache
def upper_triangle(order):
    i, j = np.triu_indices(order)
    return i, j, np.where(i == j, 1.0, math.sqrt(2.0))


def packed(matrices):
    i, j, factors = upper_triangle(matrices.shape[-1])
    return factors * matrices[..., i, j]


@dataclass
class TranscriptRatio:
    """Log likelihood ratio of all releases of a fit, given the earlier ones.

    Parameters
    ----------
    model : LRSRegressor
        Its parameters; ``sparsity=0``, numbers as clips or none, no random start.
    users, others : dict
        The users of both data sets, all with the same number of rows.
    """

    model: LRSRegressor
    users: dict
    others: dict
    threshold = 0.0

    def __post_init__(self):
        both = {**{("a", u): v for u, v in self.users.items()}}
        both |= {("b", u): v for u, v in self.others.items()}
        self.X = np.stack([rows for rows, _ in both.values()]).astype(float)
        self.y = np.stack([y for _, y in both.values()]).astype(float)
        if self.model.fit_intercept == "user":
            self.X = self.X - self.X.mean(axis=1, keepdims=True)
            self.y = self.y - self.y.mean(axis=1, keepdims=True)
        self.second = np.arange(len(both)) >= len(self.users)
        self.plan = self.model.privacy_plan(self.X.shape[2])
        self.std = {m.name: m.noise_std for m in self.plan.mechanisms}
        self.grams = self.X.transpose(0, 2, 1) @ self.X
        self.linear = (self.y[:, None] @ self.X)[:, 0]
        self.fixed = self.model.shared_weights == "fixed"

    def __call__(self, model, released) -> float:
        return math.fsum(
            np.vdot(means[1] - means[0], released[name] - 0.5 * (means[0] + means[1]))
            / self.std[name] ** 2
            for name, means in self.means(released)
        )

    def means(self, released):
        """Yield what every release is without noise, on both data sets."""
        d, rank = self.X.shape[2], self.model.n_components
        U, clips = self._start(d, rank), None
        if "start" in released:
            s = self.linear / np.linalg.norm(self.linear, axis=1, keepdims=True)
            yield "start", self._sums(packed(s[:, :, None] * s[:, None, :]))
            U = _kernels_shared.leading_directions(released["start"], rank, d)
        for name in [name for name in self.std if name.startswith("moments")]:
            curvature, gradient = self._moments(U)
            if clips is None:
                clips = yield from self._clips(curvature, gradient, released)
            vectors = np.hstack([curvature / clips[0], gradient / clips[1]])
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            yield name, self._sums(vectors / np.maximum(norms, 1.0))
            U = self._solve(released[name], clips, self.std[name])

    def _sums(self, vectors):
        return vectors[~self.second].sum(axis=0), vectors[self.second].sum(axis=0)

    def _start(self, d, rank):
        if self.fixed:
            return np.zeros((d, 1))
        given = solver_of(self.model).init
        if isinstance(given, str):
            return None
        return np.linalg.qr(np.array(given, dtype=float).T)[0]

    def _moments(self, U):
        m, rank = self.X.shape[1], U.shape[1]
        w = np.ones((len(self.X), 1))
        if not self.fixed:
            inner = U.T @ self.grams @ U + ridge_of_weights(self.model) * np.eye(rank)
            w = np.linalg.solve(inner, (self.linear @ U)[:, :, None])[:, :, 0]
        outer = packed(w[:, :, None] * w[:, None, :])
        curvature = outer[:, :, None] * packed(self.grams)[:, None, :] / m
        gradient = w[:, :, None] * self.linear[:, None, :] / m
        return (part.reshape(len(w), -1) for part in (curvature, gradient))

    def _clips(self, curvature, gradient, released):
        solver = solver_of(self.model)
        given = [solver.curvature_clip_norm, solver.gradient_clip_norm]
        norms = [np.linalg.norm(part, axis=1) for part in (curvature, gradient)]
        wanted = [i for i in (0, 1) if given[i] is None]
        low, high = np.full(len(wanted), _RANGE[0]), np.full(len(wanted), _RANGE[1])
        for step in range(1, _BISECTIONS + 1) if wanted else ():
            middle, name = 0.5 * (low + high), f"median_{step}"
            below = np.stack([norms[i] for i in wanted], axis=1) <= 10.0**middle
            yield name, self._sums(below - 0.5)
            positive = released[name] > 0
            low = np.where(positive, low, middle)
            high = np.where(positive, middle, high)
        for i, exponent in zip(wanted, 0.5 * (low + high), strict=True):
            given[i] = 10.0**exponent
        return given

    def _solve(self, total, clips, std):
        d, rank = self.X.shape[2], self.model.n_components
        size = rank * (rank + 1) * d * (d + 1) // 4
        total = np.concatenate([total[:size] * clips[0], total[size:] * clips[1]])
        floor = std * clips[0] * math.sqrt((rank + 1) * (d + 1))
        U = _kernels_shared.solve_moments(total, rank, d, floor)
        return U if self.fixed else _kernels_shared.positive_qr(U)[0]


# -- fits whose releases are fixed beforehand ------------------------------------------


@contextlib.contextmanager
def scripted(seed=0):
    """Replace what is released by numbers that know the name and shape alone.

    Yields
    ------
    dict of str to ndarray
        The exact values that were to be released, in their order.
    """
    asked = {}

    def answer(mechanism, value, generator):
        asked[mechanism.name] = value.copy()
        rng = np.random.default_rng([seed, zlib.crc32(mechanism.name.encode())])
        steps = rng.standard_normal(mechanism.shape) * 2.0**26
        return np.rint(steps) * mechanism.grid

    before = release_module._add_noise
    release_module._add_noise = answer
    try:
        yield asked
    finally:
        release_module._add_noise = before
