"""LRSRegressor: low rank plus sparse regressions of users, and what they release."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from .. import sensitivity
from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.personal import (
    PersonalEstimator,
    UserModels,
    finite_or_zero,
    rows_by_user,
    subtract_offsets,
)
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._base.strategies import register
from .._linalg import per_user
from .._linalg.per_user import combined_columns
from .._statistics.statistic import Statistic, Votes
from .._statistics.user_sums import MOST_USERS, Billboard, planned_sum, released_sum
from .._tables.columns import as_numbers, in_declared_order, place_of, refuse_masked
from .._tables.table import UserTable, deferred_targets, deferred_users, read_users
from ..accounting import PrivacyAccountant, calibrate_gaussian, split_mu
from ..accounting._errors import warn
from ..mechanisms import (
    Concern,
    Exact,
    Gaussian,
    Mechanism,
    Neighbors,
    Remark,
    check_count,
)
from . import _kernels_lrs

_NORMS = Interval(Real, 1e-60, 1e60, closed="both")
_PENALTIES = Interval(Real, 0, 1e60, closed="both")

# Numbers of the rows that are predicted together.
_PART_NUMBERS = 1 << 20

# What a reader of the guarantee must know of models that rest on shared directions.
_BILLBOARD = Remark(
    "Weights, sparse parts and intercepts stay with their users: predictions for a "
    "user in the training data are for that user only (billboard model).",
    Concern.TRUST,
)

# Steps of hard-thresholding pursuit of a user for one release.
_LOCAL_STEPS = 10

# Bisections for the users' median norms, on a logarithmic scale, and their share of
# mu**2.
_BISECTIONS = 12
_VOTES, _N_NORMS = Votes("median", _BISECTIONS), (1 << _BISECTIONS) + 1
_SMALLEST_LOG10, _LARGEST_LOG10 = -8.0, 8.0
_MEDIAN_SHARE = 0.1


@register
@dataclass(eq=False, repr=False)
class PrivateRounds(BaseEstimator):
    r"""Estimate shared directions privately in a fixed number of releases.

    A `solver` of :class:`~skdpspectral.LRSRegressor`. Each user contributes one vector
    to each release. Contributions above the clip norms are scaled down.

    Parameters
    ----------
    n_rounds : int, default=6
        Number of releases of U. It is fixed before the fit, because private data must
        not determine when to stop. With 0, `init` is kept and nothing is released.
    init : "spectral" or array-like, default="spectral"
        Initial U. "spectral": the leading directions of the users' correlations
        :math:`X_i'y_i`, which are the first release. An array of shape (n_components,
        n_features) must not depend on private data. Its rows are orthonormalized,
        except with
        ``shared_weights="fixed"``, where it is the central model itself and requires
        ``n_rounds=0``.
    curvature_clip_norm, gradient_clip_norm : float or None, default=None
        Public clip norms, in [1e-60, 1e60], of the curvature
        :math:`w_iw_i' \otimes X_i'X_i/m_i` and of the gradient
        :math:`X_i'(y_i - X_ib_i)w_i'/m_i` of a user. None uses a private median over
        the users, for a tenth of the budget's :math:`\mu^2` in all.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.linear_model import PrivateRounds
    >>> rounds = PrivateRounds(2, curvature_clip_norm=3.3, gradient_clip_norm=1.0)
    >>> model = LRSRegressor(solver=rounds)
    >>> [mechanism.name for mechanism in model.privacy_plan(10).mechanisms]
    ['start', 'moments_1']
    >>> model.set_params(solver__n_rounds=1).privacy_plan(10).mechanisms[0].name
    'start'
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("init",)
    _parameter_constraints: ClassVar[dict] = {
        "n_rounds": [Interval(Integral, 0, 10_000, closed="both")],
        "init": [StrOptions({"spectral"}), "array-like"],
        "curvature_clip_norm": [_NORMS, None],
        "gradient_clip_norm": [_NORMS, None],
    }

    n_rounds: int = 6
    _: KW_ONLY
    init: Any = "spectral"
    curvature_clip_norm: float | None = None
    gradient_clip_norm: float | None = None


@register
@dataclass(eq=False, repr=False)
class Alternation(BaseEstimator):
    r"""Alternate between users and shared directions, without privacy.

    A `solver` of :class:`~skdpspectral.LRSRegressor` for ``epsilon=None`` alone, as in
    ``LRSRegressor(epsilon=None, solver=Alternation(max_iter=100))``.

    Parameters
    ----------
    max_iter : int, default=50
        Maximum number of iterations, at least 1.
    tol : float, default=1e-6
        Iterations stop when U moves by at most this distance, which is at least 0.
    init : "spectral" or array-like, default="spectral"
        Initial U. "spectral": the leading directions of the users' correlations
        :math:`X_i'y_i`. An array has shape ``(n_components, n_features)``.
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("init",)
    _parameter_constraints: ClassVar[dict] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "init": [StrOptions({"spectral"}), "array-like"],
    }

    max_iter: int = 50
    tol: float = 1e-6
    _: KW_ONLY
    init: Any = "spectral"


@register
@dataclass(eq=False, repr=False)
class UserIntercept(BaseEstimator):
    """An intercept for each user, and an optional public offset for each row.

    A `fit_intercept` of :class:`~skdpspectral.LRSRegressor`, as in
    ``LRSRegressor(fit_intercept=UserIntercept(prior=3.0, ridge=5.0))``.

    Parameters
    ----------
    prior : float or None, default=None
        Public intercept of the shared model, such as the middle of the range of the
        targets. It is used in predictions for users without a model. None uses 0 with a
        budget, and the mean over users with ``epsilon=None``.
    ridge : float, default=0.0
        Penalty on the squared difference between a user's intercept and `prior` (0 for
        None), expressed as a number of rows: the intercept of a user with this many
        rows is shrunk by one half.
    offset_feature : int, str or None, default=None
        Position or name of a column of X that is added to every prediction, such as the
        mean rating of an item. It is not used as a feature. User models are fitted to
        the targets minus the offsets.
    """

    _parameter_constraints: ClassVar[dict] = {
        "prior": [Interval(Real, -1e60, 1e60, closed="both"), None],
        "ridge": [_PENALTIES],
        "offset_feature": [Integral, str, None],
    }

    prior: float | None = None
    _: KW_ONLY
    ridge: float = 0.0
    offset_feature: int | str | None = None


# -- what is released: shared directions -----------------------------------------------


@dataclass(frozen=True)
class SharedModel:
    """Shared directions U, (n_features, rank), of features divided by `scale`."""

    U: np.ndarray
    scale: np.ndarray
    weights: np.ndarray  # of users without a model, as the intercept
    intercept: float = 0.0
    n_iter: int = 1
    converged: bool = True
    users: _kernels_lrs.AlternatingSolver | None = None  # all, if exact

    @property
    def components(self) -> np.ndarray:
        """U' in units of the data: (rank, n_features)."""
        return np.ascontiguousarray((self.U / self.scale[:, None]).T)

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the shared model: (n_features,)."""
        return self.weights @ self.components


@dataclass(frozen=True)
class ExactDirections(Statistic):
    """Directions U that fit all users best, without noise."""

    rules: _kernels_lrs.LocalRules
    n_features: int
    neighbors: Neighbors
    n_jobs: int | None
    max_iter: int
    tol: float

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        return (Exact("components", (len(self.rules.prior), self.n_features)),)

    def remarks(self) -> tuple[str, ...]:
        return (_BILLBOARD,)

    def run(self, release, rows, start, scale, progress: Any) -> SharedModel:
        """Fit U and all users, and release U; without a `scale`, find that too."""
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
        solver = _kernels_lrs.AlternatingSolver(rows, self.rules, self.n_jobs)
        how = self.max_iter, self.tol, progress.step
        U, *ended = solver.fit(solver.start(start), *how)
        model = SharedModel(U, scale, solver.weights.mean(axis=0), 0.0, *ended, solver)
        if rows.y_means is None:
            return model
        # The mean over users of the intercept that suits the shared coefficients.
        intercepts = rows.y_means - rows.X_means @ model.coef
        return replace(model, intercept=float(intercepts.mean()))


@dataclass(frozen=True)
class SharedDirections(Statistic):
    """Directions U from releases of equal cost, and the clip norms that these need."""

    rules: _kernels_lrs.LocalRules
    n_features: int
    neighbors: Neighbors
    n_jobs: int | None
    n_releases: int  # of U, also of the start; 0 for a U that is given and kept
    release_start: bool = False
    # Public units of a user's curvature and gradient; None for a private median.
    clip_norms: tuple[float | None, float | None] = (None, None)

    # -- the plan ------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """Number of shared directions."""
        return len(self.rules.prior)

    @property
    def _rounds(self) -> list[str]:
        numbers = range(1, self.n_releases - self.release_start + 1)
        return [f"moments_{number}" for number in numbers]

    @property
    def _n_medians(self) -> int:
        return self.clip_norms.count(None) if self._rounds else 0

    @property
    def _n_curvature(self) -> int:
        return _kernels_lrs.n_curvature(self.rank, self.n_features)

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        width, whom = self._n_curvature + self.rank * self.n_features, self.neighbors
        votes = _VOTES.names if self._n_medians else []
        share = _MEDIAN_SHARE if votes else 0.0
        each = (1.0 - share) / max(self.n_releases, 1)
        parts: list[tuple[list[str], Callable, float]] = [
            (["start"] * self.release_start, self._planned_start, each),
            (votes, self._planned_votes, share / _BISECTIONS),
            (self._rounds, partial(planned_sum, width=width, neighbors=whom), each),
        ]
        shares = [share for names, _, share in parts for _ in names]
        costs = split_mu(mu, shares) if len(shares) > 1 else [mu]
        planned: list[Mechanism] = []
        for names, plan, _ in parts:
            if names:
                planned += plan(names[0], mu=costs[len(planned)]).repeated(names)
        return tuple(planned)

    def _planned_start(self, name: str, mu: float) -> Gaussian:
        """Plan a sum that each user moves by a matrix s s' of norm 1."""
        moved = sensitivity.projector_sum_sensitivity(self.neighbors)
        error = (self.n_features + 16) * 2.0**-52
        more = {"summation_error": error, "lemma": "projector-sums"}
        shape = (_kernels_lrs.n_packed(self.n_features),)
        return calibrate_gaussian(name, moved, mu, shape, magnitude=MOST_USERS, **more)

    def _planned_votes(self, name: str, mu: float) -> Gaussian:
        """Plan one step of the bisections: users vote on every median at once."""
        moved = sensitivity.vote_sensitivity(self._n_medians, self.neighbors)
        more = {"magnitude": 0.5 * MOST_USERS, "lemma": "votes"}
        return calibrate_gaussian(name, moved, mu, (self._n_medians,), **more)

    def remarks(self) -> tuple[str, ...]:
        if self.rank and not self.n_releases:
            return "Shared directions are the public ones that were given.", _BILLBOARD
        return (_BILLBOARD,)

    # -- the releases --------------------------------------------------------------

    def run(self, release, rows, start, scale, progress: Any) -> SharedModel:
        """Release what is planned, and return the model that it leaves."""
        # A contribution depends on its user's rows and earlier releases alone; nothing
        # else here depends on more than one user. `start` is public, or None.
        start = start if self.rank else np.zeros((self.n_features, 0))
        U, first = start, 1
        if self.release_start:
            total = released_sum(release, "start", rows, _start_sums, self.n_jobs)
            matrix = _kernels_lrs.unpack_symmetric(total[None], self.n_features)[0]
            U, first = _kernels_lrs.leading_directions(matrix, self.rank), 2
            progress.step(1)
        # Without directions, the first contribution is that of one model.
        rules = replace(self.rules, sparsity=0) if self.rules.fixed else self.rules
        if self._rounds:
            clips = self._released_clips(release, rows, U, rules)
        for step, name in enumerate(self._rounds, first):
            answers = partial(self._answers, U=U, rules=rules, units=clips)
            total = released_sum(release, name, rows, answers, self.n_jobs)
            U = self._solved(total, release.plan[name].noise_std, clips)
            progress.step(step)
            rules = self.rules
        n_iter = max(self.n_releases, 1)
        return SharedModel(U, scale, self.rules.prior, n_iter=n_iter)

    def _answers(self, block, rows, U, rules, units=(1.0, 1.0)) -> Iterator:
        """Yield the users' moments at U, in some units, a few users at a time."""
        scores = _kernels_lrs.shared_scores(block, U)
        fit = _kernels_lrs.thresholding_pursuit(block, scores, rules, _LOCAL_STEPS)
        yield from _kernels_lrs.user_moments(block, scores, fit, units)

    def _solved(self, total, noise_std: float, clips) -> np.ndarray:
        """Return the next U from a released sum."""
        rank, d, size = self.rank, self.n_features, self._n_curvature
        total = np.concatenate([total[:size] * clips[0], total[size:] * clips[1]])
        # The noise of the curvature matrix, in spectral norm: its square has
        # expectation std^2 (r + 1)(d + 1) / 4 times the identity.
        floor = noise_std * clips[0] * math.sqrt((rank + 1) * (d + 1))
        U = _kernels_lrs.solve_moments(total, rank, d, floor)
        return U if self.rules.fixed else _kernels_lrs.positive_qr(U)[0]

    def _released_clips(self, release, rows, U, rules) -> np.ndarray:
        """Return units of curvature and gradient; signs of votes alone are used."""
        clips = np.array(self.clip_norms, dtype=np.float64)
        wanted = np.flatnonzero(np.isnan(clips))
        if not len(wanted):
            return clips
        counts, each = self._counts(rows, U, rules)[wanted], range(len(wanted))

        def margins(places):
            return counts[each, places] - 0.5 * counts[:, -1]

        first, last = _VOTES.run(release, margins, len(wanted))
        clips[wanted] = _norm_at(0.5 * (first + last))
        return clips

    def _counts(self, rows, U, rules) -> np.ndarray:
        """Count users whose norms at U are at most those on a grid; last, all users."""
        placed, shape = partial(self._placed, U=U, rules=rules), (2, _N_NORMS + 1)
        counts = sum(rows.sums(placed, self.n_jobs), np.zeros(shape, dtype=np.int64))
        return counts.cumsum(axis=1)

    def _placed(self, block, rows, U, rules) -> np.ndarray:
        """Count the users of a block between the norms on the grid."""
        points = _norm_at(np.arange(_N_NORMS))
        counts = np.zeros((2, _N_NORMS + 1), dtype=np.int64)
        for moments in self._answers(block, rows, U, rules):
            parts = np.split(moments, [self._n_curvature], axis=1)
            for count, vectors in zip(counts, parts, strict=True):
                # What is not a number lies beyond all of them.
                places = np.searchsorted(points, per_user.norms(vectors))
                count += np.bincount(places, minlength=len(count))
        return counts


def _start_sums(block, rows) -> Iterator:
    """Yield what users' correlations are, packed, a few users at a time."""
    width = _kernels_lrs.n_packed(block.X.shape[2])
    for part in _kernels_lrs.slices_of(block, width):
        yield _kernels_lrs.start_moments(block.take(part))


def _norm_at(place):
    """Return the norm at a place of the grid."""
    share = place / (_N_NORMS - 1)
    return 10.0 ** (_SMALLEST_LOG10 + share * (_LARGEST_LOG10 - _SMALLEST_LOG10))


# -- what stays with users -------------------------------------------------------------


@dataclass(frozen=True)
class PersonalModels(UserModels):
    """Parameters of users beside shared components: w, features of b, b, intercepts."""

    entries: ClassVar[tuple[str, ...]] = ("weights", "support", "sparse", "intercepts")
    widened: ClassVar[tuple[str, ...]] = ("support", "sparse")

    support: np.ndarray
    sparse: np.ndarray
    intercepts: np.ndarray

    @classmethod
    def empty(cls, rank: int) -> PersonalModels:
        none = np.empty((0, 0))
        return cls(None, np.empty((0, rank)), none.astype(np.intp), none, np.empty(0))

    def coef(self, code: int, components: np.ndarray) -> np.ndarray:
        """Return U w + b of one user."""
        coef = np.zeros(components.shape[1])
        for weight, component in zip(self.weights[code], components, strict=True):
            coef += weight * component
        np.add.at(coef, self.support[code], self.sparse[code])
        return coef

    def with_shared(self, weights: np.ndarray, intercept: float) -> PersonalModels:
        """Append the shared model, for code -1."""
        none = np.zeros((1, self.support.shape[1]))
        last = weights[None], none.astype(np.intp), none, [intercept]
        arrays = zip(self.arrays().items(), last, strict=True)
        return replace(self, **{n: np.concatenate([a, b]) for (n, a), b in arrays})

    def predict(self, features, codes: np.ndarray, components: np.ndarray):
        """Predict rows of users `codes`, with bits independent of other rows."""
        predicted = np.empty(len(codes))
        size = max(1, _PART_NUMBERS // max(components.shape[1], 1))
        # A warning would tell of the values of some user.
        with np.errstate(all="ignore"):
            for start in range(0, len(codes), size):
                rows = slice(start, start + size)
                X, own = features(rows), codes[rows]
                # Entry by entry, one term after another: no sum over an axis, whose
                # order would be numpy's choice.
                out = self.intercepts[own]
                shared = combined_columns(X, components.T)
                for scores, weights in zip(shared, self.weights.T, strict=True):
                    out += scores * weights[own]
                each = np.arange(len(X))
                for some, values in zip(self.support.T, self.sparse.T, strict=True):
                    out += X[each, some[own]] * values[own]
                predicted[rows] = out
        return predicted


# -- the estimator ---------------------------------------------------------------------

_IN_A_GRID = 'leave solver="auto" (in a search, use a separate grid for epsilon=None)'


@documented
@dataclass(eq=False, repr=False)
class LRSRegressor(
    PersonalEstimator, CallbackSupportMixin, RegressorMixin, PrivateEstimator
):
    r"""Low-rank plus sparse linear models, one per user, with user-level privacy.

    The targets of user i are modeled by
    :math:`y = \langle x, U w_i + b_i\rangle + c_i`, with shared directions U, weights
    :math:`w_i`, a sparse vector :math:`b_i` and an intercept :math:`c_i` of the user.

    Only U is released, under user-level differential privacy. The user's own parameters
    (w, b, c) are computed from U and the user's rows, and never leave that user: the
    :ref:`billboard model <billboard>`. Read more in the
    :ref:`user guide <personal_models>`.

    Parameters
    ----------
    n_components : int, default=1
        Number r of shared directions, at least 0; capped at the number of features.
        With 0, every user only has a sparse model and nothing is released.
    sparsity : int or None, default=3
        Maximum number k of nonzeros in a user's sparse part, at least 0. It uses no
        budget. It is capped at (m - r) / 2 for a user with m rows and r weights. None,
        or the number of features, uses all features for every user, and requires
        ``ridge_sparse > 0``. With ``n_components=0``, this is a ridge regression per
        user.
    {epsilon}
        With None, all data are used without noise.
    {delta}
    user_feature : int, str or None, default=None
        Position or name of the column of X with user ids, which is not used as a
        feature. With this column, scorers, searches and pipelines predict each user
        with their own model; ``users=`` requires metadata routing for that. Prefer the
        name, which is tracked through ``set_output`` and a
        :class:`~sklearn.compose.ColumnTransformer` (``remainder__user_id``). A position
        refers to a different column after a step that moves columns.
    fit_intercept : {"user", False} or UserIntercept, default="user"
        "user" fits an intercept per user, by centering rows and targets on the means of
        the user. :class:`~skdpspectral.linear_model.UserIntercept` adds a penalty, a
        public prior and a column of offsets. False fits no intercept.
    shared_weights : {"user", "fixed"}, default="user"
        "user" fits weights per user. "fixed" sets all weights to one; U is then a
        central model, not orthonormal, that users tune sparsely. It requires
        ``n_components=1``.
    ridge_shared : float, default=10.0
        Penalty on :math:`|w_i|^2`, in rows of unit length; 0 for noiseless targets.
        Fixed weights have none.
    ridge_sparse : float, default=100.0
        Penalty on :math:`|b_i|^2`, in rows of unit length; 0 for noiseless targets.
    neighbors : {"add-remove-one", "replace-one"}, default="add-remove-one"
        "add-remove-one" hides whether a user took part. "replace-one" hides the data of
        a user while the number of users is public, and needs twice the noise.
    solver : "auto", PrivateRounds or Alternation, default="auto"
        Method that estimates U. "auto" uses
        :class:`~skdpspectral.linear_model.PrivateRounds` with a budget, and
        :class:`~skdpspectral.linear_model.Alternation` with ``epsilon=None``. With
        ``PrivateRounds(0, init=U)``, U is public and not released.
    scale : bool or array-like of shape (n_features,), default=True
        Divisors of the features. An array contains public scales. True uses root mean
        squares of the data with ``epsilon=None``, and ones with a budget.
    {accountant}
    {noise_seed}
    {n_jobs}
        Threads share the users.
    verbose : bool or int, default=0
        Whether to print one line per step.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        U': orthonormal rows in the scaled features, or the central model with
        ``shared_weights="fixed"``.
    weights_ : ndarray of shape (n_components,)
        Weights of the shared model. With ``epsilon=None``, their mean over users. With
        a budget they are public: 0, or 1 with ``shared_weights="fixed"``.
    coef_ : ndarray of shape (n_features,)
        Coefficients of the shared model, ``weights_ @ components_``.
    intercept_ : float
        Intercept of the shared model, the `prior` of the users' intercepts.
    scale_ : ndarray of shape (n_features,)
        Divisors of the features.
    n_iter_ : int
        Number of iterations, or of releases of U; 1 if nothing is released.
    {n_features_in_}
        This includes the columns of users and offsets.
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    PrivacyLeakWarning
        If privacy is switched off, if a private fit receives no users, if scores are
        pooled over users, or if the estimator is pickled with the users' parameters.

    See Also
    --------
    skdpspectral.datasets.make_low_rank_sparse_tasks : Generates data from this model.
    sklearn.linear_model.Ridge : One model for all rows.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one user with all of their rows, under addition
    or removal of that user (or replacement, see `neighbors`), for any data. It covers
    the public attributes and the result of :meth:`publish`. It covers neither
    predictions for users of the fit, which only that user may see, nor scores pooled
    over users (:ref:`billboard`).

    In every release each user contributes one vector of norm at most one. It is scaled
    down as a whole, which causes no bias (:ref:`lemma-common-factor`). A user's rows
    enter through their mean, and the number of users is never used. As a rule, private
    directions need many more than :math:`d r^{1.5} \sqrt{2 L} / \mu` users for L
    releases (:ref:`how_many_users`).

    Parameters that a fit does not use **raise an error**: a solver for the other kind
    of fit, and an `init` of the solver with fixed weights (:ref:`lrs_modes`).

    References
    ----------
    Pal et al. (2023), Sample-efficient personalization: modeling user parameters as
    low rank plus sparse components, algorithms 1, 3 and 5.
    Foucart (2011), Hard thresholding pursuit, algorithm HTP.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.datasets import make_low_rank_sparse_tasks
    >>> X, y, users = make_low_rank_sparse_tasks(
    ...     2000, 30, 10, sparsity=2, noise=0.1, random_state=0
    ... )
    >>> model = LRSRegressor(sparsity=2, ridge_shared=0.1, ridge_sparse=0.1)
    >>> model = model.fit(X, y, users=users)
    >>> predictions = model.predict(X, users=users)
    >>> bool(abs(predictions - y).mean() < 0.5 * abs(y).mean())
    True
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("scale",)
    _models_class: ClassVar[type] = PersonalModels

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "sparsity": [Interval(Integral, 0, None, closed="left"), None],
        "user_feature": [Integral, str, None],
        "fit_intercept": [StrOptions({"user"}), "boolean", UserIntercept],
        "shared_weights": [StrOptions({"user", "fixed"})],
        "ridge_shared": [_PENALTIES],
        "ridge_sparse": [_PENALTIES],
        "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
        "solver": [StrOptions({"auto"}), PrivateRounds, Alternation],
        "scale": ["boolean", "array-like"],
        "n_jobs": [Integral, None],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
    }

    n_components: int = 1
    sparsity: int | None = 3
    _: KW_ONLY
    epsilon: float | None = 1.0
    delta: float = 1e-6
    user_feature: int | str | None = None
    fit_intercept: Any = "user"
    shared_weights: str = "user"
    ridge_shared: float = 10.0
    ridge_sparse: float = 100.0
    neighbors: str = "add-remove-one"
    solver: Any = "auto"
    scale: Any = True
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    # -- what parameters mean ------------------------------------------------------

    def _own_solver(self) -> PrivateRounds | Alternation:
        if isinstance(self.solver, str):
            return PrivateRounds() if self._is_private() else Alternation()
        return self.solver

    def _intercept(self) -> UserIntercept | None:
        """Return the intercept strategy; None without intercepts."""
        given = self.fit_intercept
        if isinstance(given, UserIntercept):
            return given
        return UserIntercept() if isinstance(given, str) else None

    def _check_parameters(self) -> None:
        """Refuse combinations of individually valid parameters."""
        super()._check_parameters()
        private, solver = self._is_private(), self._own_solver()
        fixed, rank = self.shared_weights == "fixed", self.n_components
        rounds = isinstance(solver, PrivateRounds)
        kept, given = rounds and not solver.n_rounds, not isinstance(solver.init, str)
        is_switch = isinstance(self.fit_intercept, (bool, np.bool_))
        refused = {
            'fit_intercept must be "user", UserIntercept(...) or False, got True: a '
            "common intercept of all users would have to be released": is_switch
            and bool(self.fit_intercept),
            "sparsity=None requires ridge_sparse > 0: without a penalty a user with "
            "few rows has no unique model of all features": self.sparsity is None
            and not self.ridge_sparse,
            f"solver={solver!r} needs epsilon=None: with a budget use "
            f"PrivateRounds(n_rounds=...); {_IN_A_GRID}": private and not rounds,
            f"solver={solver!r} needs a budget: with epsilon=None use "
            f"Alternation(max_iter=...); {_IN_A_GRID}": rounds and not private,
            "solver: n_rounds=0 keeps the directions of init, which must then be an "
            "array of public directions": kept and not given,
            f'shared_weights="fixed" needs n_components=1, got n_components={rank}: '
            "one central model has one direction": fixed and rank != 1,
            'init of solver is not used with shared_weights="fixed", which starts from '
            'zero: leave init="spectral", or pass a central model that is not changed '
            "with solver=PrivateRounds(0, init=...)": fixed and given and not kept,
        }
        for message, applies in refused.items():
            if applies:
                raise ValueError(message)

    def _public_scale(self, n_features: int) -> np.ndarray | None:
        """Return public scales; None if they come from the data."""
        if isinstance(self.scale, (bool, np.bool_)):
            from_data = self.scale and not self._is_private()
            return None if from_data else np.ones(n_features)
        scale = _numbers(self.scale, "scale")
        if scale is None or scale.shape != (n_features,) or not (scale > 0.0).all():
            raise ValueError(
                "scale must be a boolean, or contain a positive number for each of the "
                f"{n_features} features"
            )
        return scale

    def _start(self, n_features: int):
        """Return a public start of U, (d, r), or its name; None if it is released."""
        solver = self._own_solver()
        shape = (min(int(self.n_components), n_features), n_features)
        if isinstance(solver.init, str):
            if self.shared_weights == "fixed":
                return np.zeros(shape[::-1])
            return None if isinstance(solver, PrivateRounds) else solver.init
        start = _numbers(solver.init, "init")
        if start is None or start.shape != shape:
            raise ValueError(
                "init of solver must be a string, or finite numbers of shape "
                f"(n_components, n_features) = {shape}"
            )
        if self.shared_weights == "fixed":  # a central model, of any length
            return start.T.copy()
        return _kernels_lrs.positive_qr(start.T)[0]

    def _rules(self, n_features: int, prior=None) -> _kernels_lrs.LocalRules:
        """Return the rules of users' fits; without a prior, that is public."""
        rank = min(int(self.n_components), n_features)
        fixed = self.shared_weights == "fixed"
        most = n_features if self.sparsity is None else int(self.sparsity)
        prior = np.full(rank, float(fixed)) if prior is None else prior
        ridges = float(self.ridge_shared), float(self.ridge_sparse)
        free = most >= n_features and ridges[1] > 0.0
        given = min(most, n_features), *ridges, prior, fixed
        return _kernels_lrs.LocalRules(*given, free=free)

    def _statistic(self, n_features: int) -> ExactDirections | SharedDirections:
        solver, rules = self._own_solver(), self._rules(n_features)
        users = rules, n_features, Neighbors(self.neighbors), self.n_jobs
        if isinstance(solver, Alternation):
            return ExactDirections(*users, solver.max_iter, solver.tol)
        n_releases = int(solver.n_rounds) if len(rules.prior) else 0
        spectral = isinstance(solver.init, str) and not rules.fixed
        norms = solver.curvature_clip_norm, solver.gradient_clip_norm
        clip_norms = tuple(None if norm is None else float(norm) for norm in norms)
        released = n_releases > 0 and spectral
        return SharedDirections(*users, n_releases, released, clip_norms)

    def _n_beside(self) -> int:
        return len(self._columns_beside())

    # -- the fit ---------------------------------------------------------------------

    @unweighted
    def fit(self, X, y, *, users=None) -> Self:
        """Release the shared directions, and fit a model for every user.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Features of all rows in any order, with the columns of users and offsets;
            never modified.
        y : array-like of shape (n_rows,)
            Targets.
        {users_of_fit}

        {outcome_of_fit}
        """
        self._check_parameters()
        solver = self._own_solver()
        rounds = isinstance(solver, PrivateRounds)
        most = max(int(solver.n_rounds if rounds else solver.max_iter), 1)
        with self._unchanged_on_error(), fit_progress(self, most) as progress:
            table, targets, offset, d = self._unread(X, y, users)
            scale, start = self._public_scale(d), self._start(d)
            self._warn_of_one_user(table)
            shared = self._statistic(d)
            plan = self._plan(shared)
            # It is charged here; values, ids among them, are read from here on.
            release, read, targets = self._start_release(plan, table, targets)
            rows, index = self._grouped(read, targets, offset, scale)
            progress.begin(X, targets, plan)
            found = shared.run(release, rows, start, scale, progress)
            self._finish(Billboard(shared), found, plan, rows, index)
        return self

    def _finish(self, board: Billboard, found, plan, rows=None, index=None) -> None:
        """Set public attributes from releases, and keep models of local users."""
        if not found.converged:
            warn(
                f"LRSRegressor did not converge in {found.n_iter} iterations; increase "
                "max_iter or tol of solver=Alternation(...)",
                ConvergenceWarning,
            )
        self.components_, self.coef_ = found.components, found.coef
        self.weights_ = np.array(found.weights, dtype=np.float64)
        self.intercept_, self.scale_ = found.intercept, found.scale
        level = getattr(self._intercept(), "prior", None)
        if level is not None:
            self.intercept_ = float(level)
        self.n_iter_, self.privacy_ = found.n_iter, plan
        if rows is None:
            self.n_features_in_ = len(self.scale_) + self._n_beside()
            return
        self._users_given = index is not None
        own = board.statistic.rules, found.users
        self._personal = self._models_beside(rows, index, found.U, *own)

    # -- users beside the shared directions: nothing of this is released ---------------

    def _shared_prediction(self) -> str:
        if self.coef_.any():
            return "the shared model (coef_, intercept_)"
        level = f"intercept_={self.intercept_:g}"
        if "offset_feature" in self._columns_beside():
            return f"the offsets plus {level}, as coef_ is zero"
        # No function of the releases is better: lemma-mirrored-users.
        return (
            f"{level} alone, as coef_ is zero: mean weights and levels of users are "
            "not released (UserIntercept(prior=...) sets a public level)"
        )

    def _predicted(self, table: UserTable, codes: np.ndarray) -> np.ndarray:
        models = self._models().with_shared(self.weights_, self.intercept_)
        return models.predict(table.features, codes, self.components_)

    def _fit_users(self, table: UserTable, y, index) -> PersonalModels:
        rows = self._user_rows(table, y, index, self.scale_)
        # A new user's weights shrink to those of the shared model, as in the fit.
        rules = self._rules(len(self.scale_), self.weights_)
        U = (self.components_ * self.scale_).T
        return self._models_beside(rows, index, U, rules)

    def _models_beside(self, rows, index, U, rules, users=None) -> PersonalModels:
        """Fit users, unless already fitted, from their own rows and U alone."""
        if users is None:
            users = _kernels_lrs.AlternatingSolver(rows, rules, self.n_jobs)
            users.fit_anew(U, known=False)
        with np.errstate(all="ignore"):
            sparse = users.sparse / self.scale_[users.support]
        own = users.weights, users.support, sparse, np.zeros(rows.n_users)
        models = PersonalModels.cleaned(index, *own)
        if rows.y_means is None:
            return models
        # A user's model passes through the mean of their rows, but for a penalty.
        everyone = np.arange(rows.n_users)
        means = models.predict(rows.X_means.__getitem__, everyone, self.components_)
        models.intercepts[:] = finite_or_zero(rows.intercepts(means))
        return models

    def _models(self) -> PersonalModels:
        return getattr(self, "_personal", PersonalModels.empty(len(self.components_)))

    def get_coef(self, user=None):
        """Return the coefficients of one user, for that user alone.

        Parameters
        ----------
        user : hashable or None, default=None
            User id. None selects the only user of a fit without users.

        Returns
        -------
        ndarray of shape (n_features,)
            :math:`U w + b` in units of the data. For unknown users, the shared `coef_`.

        Raises
        ------
        ValueError
            If the id is missing or of another type.
        """
        code, models = self._model_of(user)
        return models.coef(code, self.components_)

    def get_intercept(self, user=None):
        """Return the intercept of one user, for that user alone."""
        code, models = self._model_of(user)
        return float(models.intercepts[code])

    def _model_of(self, user) -> tuple[int, PersonalModels]:
        code = self._code_of(user)
        return code, self._models().with_shared(self.weights_, self.intercept_)

    # -- several groups of users -------------------------------------------------------

    def _billboard(self, n_features) -> Billboard:
        """Return what many groups of users release together, and all that is public."""
        self._check_parameters()
        solver = self._own_solver()
        if not self._is_private():
            raise ValueError("epsilon=None: groups of users need a budget")
        refusals = {
            "n_features is needed for an LRSRegressor": n_features is None,
            "n_components=0: nothing would be released": not self.n_components,
            f"solver={solver!r}: nothing would be released": not solver.n_rounds,
        }
        for message, applies in refusals.items():
            if applies:
                raise ValueError(message)
        d = check_count("n_features", n_features)
        own = self._intercept()
        rows = ("user", own.prior, float(own.ridge)) if own else (False, None, 0.0)
        given = self._start(d), self._public_scale(d)
        return Billboard(self._statistic(d), given, rows)

    def _unread_group(self, board: Billboard, names, X, y, *, users=None) -> Callable:
        """Check the form of a group's rows; return the function that reads them."""
        X = in_declared_order(X, names, list(self._columns_beside().items()))
        table, targets, offset, d = self._unread(X, y, users)
        scale = board.given[1]
        if len(scale) != d:
            raise ValueError(
                f"X has {d} features besides users and offsets, but the task has "
                f"n_features={len(scale)}"
            )
        return lambda: self._grouped(table.read(), targets.read(), offset, scale)

    # -- reading rows ------------------------------------------------------------------

    def _columns_beside(self) -> dict[str, int | str]:
        """Return the columns of X that are no features, by parameter."""
        offset = getattr(self._intercept(), "offset_feature", None)
        columns = {"user_feature": self.user_feature, "offset_feature": offset}
        return {name: place for name, place in columns.items() if place is not None}

    def _find_offset(self, X, n_features: int) -> int | None:
        """Return the position of the offsets among the columns without users."""
        columns = self._columns_beside()
        if "offset_feature" not in columns:
            return None
        places = {name: place_of(X, at, name) for name, at in columns.items()}
        place, user = places["offset_feature"], places.get("user_feature", np.inf)
        if user == place:
            raise ValueError("offset_feature and user_feature name the same column")
        if n_features < 2:
            raise ValueError(
                f"X must have features besides {' and '.join(columns)}, got "
                f"n_features = {n_features} beside users: 0 feature(s) are left"
            )
        return place - (place > user)

    def _unread(self, X, y, users) -> tuple:
        """Check the form of rows and targets; return the position of offsets, and d."""
        given = self._ids_of_fit(users), self.user_feature
        table = deferred_users(self, X, *given, reset=True)
        targets = deferred_targets(self, y, table.shape[0])
        offset = self._find_offset(X, table.shape[1])
        return table, targets, offset, table.shape[1] - (offset is not None)

    def _grouped(self, table, targets, offset, scale):
        """Return rows by user, and the ids of the users."""
        table, offsets = _split_offsets(table, offset)
        index, y = self._index(table), subtract_offsets(targets, offsets)
        return self._user_rows(table, y, index, scale), index

    def _user_rows(self, table, y, index, scale) -> per_user.GroupedRows:
        """Return rows by user, with their intercepts taken out if there are any."""
        own, how = self._intercept(), {"scale": scale}
        if own is not None:
            how |= {"center": True, "level": (own.prior or 0.0, float(own.ridge))}
        return rows_by_user(table, y, index, **how)

    def _read_like_fit(self, X, users) -> tuple[UserTable, np.ndarray]:
        table = read_users(self, X, users, self.user_feature, reset=False)
        place = self._find_offset(X, table.n_features)
        table, offsets = _split_offsets(table, place)
        if table.n_features != len(self.scale_):
            raise ValueError(
                f"X has {table.n_features} features besides users and offsets, but fit "
                f"had {len(self.scale_)}: user_feature or offset_feature was changed "
                "since fit"
            )
        return table, offsets


def _numbers(values, name: str) -> np.ndarray | None:
    """Return finite float64 numbers, or None."""
    refuse_masked(values, name)
    found = as_numbers(values, "biufO")
    return found if found is not None and np.isfinite(found).all() else None


def _split_offsets(table: UserTable, place: int | None) -> tuple[UserTable, np.ndarray]:
    """Return a table without its column of offsets, if any, and the offsets."""
    if place is None:
        return table, np.zeros(len(table.X))
    offsets = np.asarray(table.X[:, place], dtype=np.float64)
    return replace(table, X=np.delete(table.X, place, axis=1)), offsets
