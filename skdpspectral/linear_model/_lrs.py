"""LRSRegressor: one low rank plus sparse regression per user.

Only the statistic of the shared directions releases anything; users' models stay with
them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.personal import (
    PersonalEstimator,
    UserModels,
    finite_or_zero,
    rows_by_user,
    subtract_offsets,
)
from .._base.sklearn_compat import CallbackSupportMixin, fit_progress
from .._linalg import per_user
from .._linalg.per_user import combined_columns
from .._statistics.statistic import Statistic
from .._statistics.user_sums import Billboard
from .._tables.clusters import ClusterUserTable
from .._tables.columns import in_declared_order
from .._tables.ids import encode_ids
from .._tables.table import DeferredRead, UserTable, deferred_targets, deferred_users
from ..accounting import PrivacyAccountant
from ..accounting._errors import warn
from ..mechanisms import PrivacyPlan, check_count
from . import _kernels_shared, _kernels_users, _parameters
from ._shared_directions import SharedModel

# Numbers of the rows that are predicted together.
_PART_NUMBERS = 1 << 20


@dataclass(frozen=True)
class PersonalModels(UserModels):
    """Parameters of users beside shared components.

    `weights` (n_users, rank): w.
    `support` (n_users, sparsity): features of b.
    `sparse` (n_users, sparsity): b on its support.
    """

    entries: ClassVar[tuple[str, ...]] = ("weights", "support", "sparse", "intercepts")
    widened: ClassVar[tuple[str, ...]] = ("support", "sparse")

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    intercepts: np.ndarray

    @classmethod
    def empty(cls, rank: int) -> PersonalModels:
        return cls(
            index=None,
            weights=np.empty((0, rank)),
            support=np.empty((0, 0), dtype=np.intp),
            sparse=np.empty((0, 0)),
            intercepts=np.empty(0),
        )

    @classmethod
    def fitted(cls, rows, users, index, scale, components) -> PersonalModels:
        """Return models of fitted users, and their intercepts, in data units.

        `users` has weights, supports and sparse parts for scaled features; `index` is
        None for a single user without an id; `scale`, (n_features,), divides features;
        `components` is U', (rank, n_features).
        """
        with np.errstate(all="ignore"):
            sparse = users.sparse / scale[users.support]
        intercepts = np.zeros(rows.n_users)
        models = cls.cleaned(index, users.weights, users.support, sparse, intercepts)
        if rows.y_means is None:
            return models
        # A user's model passes through the mean of their rows, but for a penalty.
        everyone = np.arange(rows.n_users)
        means = models.predict(lambda part: rows.X_means[part], everyone, components)
        models.intercepts[:] = finite_or_zero(rows.intercepts(means))
        return models

    def coef(self, code: int, components: np.ndarray) -> np.ndarray:
        """Return U w + b of one user."""
        coef = np.zeros(components.shape[1])
        for weight, component in zip(self.weights[code], components, strict=True):
            coef += weight * component
        np.add.at(coef, self.support[code], self.sparse[code])
        return coef

    def with_shared(self, weights: np.ndarray, intercept: float) -> PersonalModels:
        """Append the shared model, for code -1."""
        k = self.support.shape[1]
        return replace(
            self,
            weights=np.vstack([self.weights, weights]),
            support=np.vstack([self.support, np.zeros((1, k), dtype=np.intp)]),
            sparse=np.vstack([self.sparse, np.zeros((1, k))]),
            intercepts=np.append(self.intercepts, intercept),
        )

    def predict(self, features, codes: np.ndarray, components: np.ndarray):
        """Predict rows of several users, with bits independent of other rows.

        ``features(rows)`` returns the features of a slice of rows; `codes`, (n_rows,),
        are their users; `components` is U'.
        """
        # A warning would tell of the values of some user.
        with np.errstate(all="ignore"):
            return self._predicted(features, codes, components)

    def _predicted(self, features, codes, components) -> np.ndarray:
        out = np.empty(len(codes))
        size = max(1, _PART_NUMBERS // max(components.shape[1], 1))
        for start in range(0, len(codes), size):
            rows = slice(start, start + size)
            out[rows] = self._predicted_part(features(rows), codes[rows], components)
        return out

    def _predicted_part(self, X, own, components) -> np.ndarray:
        # Entry by entry, one term after another: no sum over an axis, whose order
        # would be numpy's choice.
        out = self.intercepts[own]
        shared = combined_columns(X, components.T)
        for scores, weights in zip(shared, self.weights.T, strict=True):
            out += scores * weights[own]
        each = np.arange(len(X))
        for features, values in zip(self.support.T, self.sparse.T, strict=True):
            out += X[each, features[own]] * values[own]
        return out


@documented
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
    unknown_user : {"shared", "raise"}, default="shared"
        How predictions treat users that were not in the fit. "shared" uses the shared
        model (`coef_`, `intercept_`), with a warning that counts their rows
        (:ref:`folds_of_users`). "raise" requires ``epsilon=None``.
    fit_intercept : {"user", False} or UserIntercept, default="user"
        "user" fits an intercept per user, by centering rows and targets on the means of
        the user. :class:`~skdpspectral.linear_model.UserIntercept` adds a penalty, a
        public prior and a column of offsets. False fits no intercept.
    shared_weights : {"user", "fixed"} or UserWeights, default="user"
        "user" fits weights per user, with the penalty of
        :class:`~skdpspectral.linear_model.UserWeights`. "fixed" sets all weights to
        one; U is then a central model, not orthonormal, that users tune sparsely. It
        requires ``n_components=1``.
    ridge_sparse : float, default=100.0
        Penalty on :math:`|b_i|^2`, in rows of unit length; 0 for noiseless targets.
    neighbors : {"add-remove-one", "replace-one"}, default="add-remove-one"
        "add-remove-one" hides whether a user took part. "replace-one" hides the data of
        a user while the number of users is public, and needs twice the noise.
    solver : "auto", PrivateRounds, Alternation or GivenDirections, default="auto"
        Method that estimates U. "auto" uses
        :class:`~skdpspectral.linear_model.PrivateRounds` with a budget, and
        :class:`~skdpspectral.linear_model.Alternation` with ``epsilon=None``. With
        :class:`~skdpspectral.linear_model.GivenDirections`, U is public and not
        released.
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
    >>> from skdpspectral.linear_model import UserWeights
    >>> X, y, users = make_low_rank_sparse_tasks(
    ...     2000, 30, 10, sparsity=2, noise=0.1, random_state=0
    ... )
    >>> weights = UserWeights(ridge=0.1)
    >>> model = LRSRegressor(sparsity=2, shared_weights=weights, ridge_sparse=0.1)
    >>> model = model.fit(X, y, users=users)
    >>> predictions = model.predict(X, users=users)
    >>> bool(abs(predictions - y).mean() < 0.5 * abs(y).mean())
    True
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("scale",)
    _models_class: ClassVar[type] = PersonalModels

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        **_parameters.CONSTRAINTS,
    }

    def __init__(
        self,
        n_components: int = 1,
        sparsity: int | None = 3,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        user_feature: int | str | None = None,
        unknown_user: str = "shared",
        fit_intercept="user",
        shared_weights="user",
        ridge_sparse: float = 100.0,
        neighbors: str = "add-remove-one",
        solver="auto",
        scale=True,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.sparsity = sparsity
        self.epsilon = epsilon
        self.delta = delta
        self.user_feature = user_feature
        self.unknown_user = unknown_user
        self.fit_intercept = fit_intercept
        self.shared_weights = shared_weights
        self.ridge_sparse = ridge_sparse
        self.neighbors = neighbors
        self.solver = solver
        self.scale = scale
        self.accountant = accountant
        self.noise_seed = noise_seed
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _statistic(self, n_features: int) -> Statistic:
        solver = _parameters.solver_of(self)
        return _parameters.shared_statistic(self, solver, n_features)

    def _n_beside(self) -> int:
        return len(_parameters.columns_beside(self))

    def _plan(self, statistic: Statistic) -> PrivacyPlan:
        return self._plan_of_users(statistic, statistic.users.neighbors)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _parameters.check_lrs_parameters(self)

    @unweighted
    def fit(self, X, y, *, users=None) -> Self:
        """Release the shared directions, and fit a model for every user.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Features of all rows in any order, with the columns of users and offsets;
            never modified. Memory maps are read block by block. Dask collections are
            summed on their cluster, and their users get no models here
            (:ref:`clusters`).
        y : array-like of shape (n_rows,)
            Targets.
        {users_of_fit}

        {outcome_of_fit}
        """
        self._check_parameters()
        most = _parameters.most_steps(self)
        with self._unchanged_on_error(), fit_progress(self, most) as progress:
            table, targets, offset, d = self._unread(X, y, users)
            solver = _parameters.solver_of(self)
            scale = _parameters.public_scale(self, d)
            given = _parameters.given_start(self, solver, d)
            self._warn_of_one_user(table)
            shared = _parameters.shared_statistic(self, solver, d)
            plan = self._plan(shared)
            # It is charged here; values, ids among them, are read from here on.
            release, read, targets = self._start_release(plan, table, targets)
            start = _parameters.start_of(self, solver, release, given, d)
            rows, index = self._grouped(read, targets, offset, scale)
            progress.begin(X, targets, plan)
            found = shared.run(release, rows, start, scale, progress)
            self._keep(found)
            self._keep_users(found, rows, index, shared.users.rules)
            self.privacy_ = plan
        return self

    def _keep(self, found: SharedModel) -> None:
        """Set the public attributes of a fit."""
        if not found.converged:
            warn(
                f"LRSRegressor did not converge in {found.n_iter} iterations; increase "
                "max_iter or tol of solver=Alternation(...)",
                ConvergenceWarning,
            )
        self.components_, self.coef_ = found.components, found.coef
        self.weights_ = np.array(found.weights, dtype=np.float64)
        self.intercept_, self.scale_ = found.intercept, found.scale
        intercept = _parameters.intercept_of(self)
        if intercept is not None and intercept.prior is not None:
            self.intercept_ = float(intercept.prior)
        self.n_iter_ = found.n_iter

    # -- users beside the shared directions: nothing of this is released ---------------

    def _user_rows(self, table: UserTable, y, index, scale) -> per_user.UserRows:
        return rows_by_user(table, y, index, scale=scale, **self._centered())

    def _rules(self, n_features: int, prior: np.ndarray) -> _kernels_users.LocalRules:
        most = n_features if self.sparsity is None else int(self.sparsity)
        return _kernels_users.LocalRules(
            sparsity=min(most, n_features),
            ridge_shared=_parameters.ridge_of_weights(self),
            ridge_sparse=float(self.ridge_sparse),
            prior=prior,
            fixed=_parameters.is_fixed(self),
            free=most >= n_features and self.ridge_sparse > 0.0,
        )

    def _public_prior(self, rank: int) -> np.ndarray:
        return np.full(rank, 1.0 if _parameters.is_fixed(self) else 0.0)

    def _centered(self) -> dict:
        """Return how users' rows are centered."""
        own = _parameters.intercept_of(self)
        chosen = own or _parameters.UserIntercept()
        level = per_user.Level(chosen.prior or 0.0, float(chosen.ridge))
        return {"center": own is not None, "level": level}

    def _read_like_fit(self, X, users) -> tuple[UserTable, np.ndarray]:
        return _parameters.read_like_fit(self, X, users)

    def _shared_prediction(self) -> str:
        if self.coef_.any():
            return "the shared model (coef_, intercept_)"
        level = f"intercept_={self.intercept_:g}"
        if "offset_feature" in _parameters.columns_beside(self):
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
        rank, d = self.components_.shape
        rules = self._rules(d, self._prior_of_users(rank))
        U = (self.components_ * self.scale_).T
        return self._models_beside(rows, index, U, rules)

    def _models_beside(self, rows, index, U, rules, fit=None) -> PersonalModels:
        """Fit users, unless already fitted, from their own rows and U alone."""
        if fit is None:
            fit = _kernels_shared.solve_users(rows, U, rules, self.n_jobs)
        return PersonalModels.fitted(rows, fit, index, self.scale_, self.components_)

    def _models(self) -> PersonalModels:
        empty = PersonalModels.empty(len(self.components_))
        return getattr(self, "_personal", empty)

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
            If the id is missing or of another type, or the user is unknown with
            ``unknown_user="raise"``.
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

    def _prior_of_users(self, rank: int):
        """Return the prior of a new user's weights."""
        shrinks = getattr(self.solver, "shrink_to_mean", True)
        shrunk = shrinks and not (self._was_private() or _parameters.is_fixed(self))
        return self.weights_ if shrunk else self._public_prior(rank)

    # -- reading rows; several groups of users --------------------------------------

    def _billboard(self, n_features) -> Billboard:
        """Return what many groups of users release together, and all that is public."""
        self._check_parameters()
        if not self._is_private():
            raise ValueError("epsilon=None: groups of users need a budget")
        if n_features is None:
            raise ValueError("n_features is needed for an LRSRegressor")
        if not self.n_components:
            raise ValueError("n_components=0: nothing would be released")
        solver = _parameters.solver_of(self)
        if not isinstance(solver, _parameters.PrivateRounds):
            raise ValueError(f"solver={solver!r}: nothing would be released")
        if solver.fresh_rows:
            raise ValueError(
                "fresh_rows=True is not available for groups of users, which use all "
                "rows in every round: leave fresh_rows=False"
            )
        if isinstance(solver.init, str) and solver.init == "random":
            raise ValueError(
                'init="random" would differ between nodes: draw an array once, and '
                "pass it as init"
            )
        d = check_count("n_features", n_features)
        start = _parameters.given_start(self, solver, d)
        start = _parameters.start_of(self, solver, None, start, d)
        given = (start, _parameters.public_scale(self, d))
        intercept = _parameters.intercept_of(self)
        rows = (False, None, 0.0)
        if intercept is not None:
            rows = ("user", intercept.prior, float(intercept.ridge))
        return Billboard(_parameters.shared_statistic(self, solver, d), given, rows)

    def _unread_group(self, board: Billboard, names, X, y, *, users=None) -> Callable:
        """Check the form of a group's rows; return the function that reads them.

        `names` are those of the features, or None. ``read()`` returns users' rows and
        ids.
        """
        X = in_declared_order(X, names, list(_parameters.columns_beside(self).items()))
        table, targets, offset, d = self._unread(X, y, users)
        scale = board.given[1]
        if len(scale) != d:
            raise ValueError(
                f"X has {d} features besides users and offsets, but the task has "
                f"n_features={len(scale)}"
            )
        return lambda: self._grouped(table.read(), targets.read(), offset, scale)

    def _unread(
        self, X, y, users
    ) -> tuple[DeferredRead, DeferredRead, int | None, int]:
        """Check the form of rows and targets; return the position of offsets, and d."""
        how = self.user_feature
        table = deferred_users(self, X, users, how, reset=True, on_cluster=True)
        targets = deferred_targets(self, y, table.shape[0], beside=table.distant)
        check_cluster(self, table)
        offset = _parameters.find_offset(self, X, table.shape[1])
        return table, targets, offset, table.shape[1] - (offset is not None)

    def _grouped(self, table, targets, offset, scale):
        """Return rows by user, and the ids of the users."""
        if isinstance(table, ClusterUserTable):
            given = table, targets, offset, self._users_name()
            return ClusterUserRows(*given, **self._centered(), scale=scale), None
        table, offsets = _parameters.split_offsets(table, offset)
        index = self._index(table)
        rows = self._user_rows(table, subtract_offsets(targets, offsets), index, scale)
        return rows, index

    def _finish(self, board: Billboard, found, plan, rows=None, index=None) -> None:
        """Set public attributes from releases, and models of local users."""
        self._keep(found)
        if rows is None:
            self.n_features_in_ = len(self.scale_) + self._n_beside()
        else:
            self._keep_users(found, rows, index, board.statistic.users.rules)
        self.privacy_ = plan

    def _keep_users(self, found, rows, index, rules) -> None:
        """Fit users with the shared model, and store their models separately."""
        elsewhere = isinstance(rows, ClusterUserRows)
        self._users_given = elsewhere or index is not None
        self._personal = (
            PersonalModels.empty(len(self.components_))
            if elsewhere
            else self._models_beside(rows, index, found.U, rules, found.users)
        )


def personalize(model, X, y, **users):
    """Fit user models through a pipeline, with its steps unchanged.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted model that has a ``personalize`` method, or a pipeline whose last step
        has one. The other steps only transform rows and are not changed.
    X : array-like or dataframe of shape (n_rows, n_columns)
        Rows of one or more users, with the same columns as in the pipeline's fit.
    y : array-like of shape (n_rows,)
        Targets of these rows.
    **users : object
        Other arguments of the method: `user` or `users`.

    Returns
    -------
    model : estimator or Pipeline
        The same model, which can now predict for these users. No budget is spent.

    Raises
    ------
    TypeError
        If the model or its last step cannot be personalized.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpspectral import DPItemEmbedding, LRSRegressor
    >>> from skdpspectral.datasets import make_ratings
    >>> from skdpspectral.linear_model import UserIntercept, personalize
    >>> data = make_ratings(500, 20, n_ratings_per_user=10, random_state=0)
    >>> intercept = UserIntercept(offset_feature=1)
    >>> model = make_pipeline(
    ...     DPItemEmbedding(items=data.item_ids, rating_range=(1, 5)),
    ...     LRSRegressor(0, None, user_feature=0, fit_intercept=intercept),
    ... ).fit(data.data, data.target)
    >>> new = [[1000, 3], [1000, 5], [2000, 7]]
    >>> personalize(model, new, [5, 1, 4]).predict([[1000, 7]]).shape
    (1,)
    """
    last = model
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        last = model.steps[-1][1]
        X = model[:-1].transform(X) if len(model.steps) > 1 else X
    if not hasattr(last, "personalize"):
        raise TypeError(
            f"model cannot be personalized: {type(last).__name__} has no method for it"
        )
    last.personalize(X, y, **users)
    return model


class ClusterUserRows:
    """Rows and targets of users, grouped on a cluster.

    `offset`: position of the offsets among the features. `name`: name of the ids in
    errors. `**how`: centering and scaling, as in ``UserRows``.
    """

    def __init__(
        self, table: ClusterUserTable, targets: list, offset, name: str, **how
    ) -> None:
        make = partial(_rows_of_users, offset=offset, name=name, **how)
        self._users = table.by_user(targets, make, name)
        self._part: tuple[int, int] | None = None

    def dealt(self, part: int, n_parts: int) -> ClusterUserRows:
        """Return part `part` of `n_parts`, to which users' rows are dealt in turn."""
        other = copy.copy(self)
        other._part = part, n_parts
        return other

    def sums(self, function: Callable, n_jobs=None) -> Iterator:
        """Yield the sum of ``function(block, rows)`` over all blocks of users.

        The function must be public and picklable, and its sums exact in any order.
        """
        kernel = partial(_sum_of_blocks, function=function, dealt=self._part)
        total = self._users.reduce(kernel)
        return iter(() if total is None else (total,))


def check_cluster(model, table) -> None:
    """Refuse options that need all users in one place."""
    if table.distant is None:
        return
    if not model._is_private():
        raise ValueError(
            "epsilon=None alternates between all users, which must be in memory: pass "
            "X.compute(), or a budget"
        )
    if table.ids is None:
        raise ValueError(
            "X is on a cluster and has no users: pass users=..., or set user_feature "
            "to the name of their column"
        )


def _rows_of_users(ids, X, y, *, offset, name: str, **how) -> per_user.UserRows | None:
    if not len(ids):
        return None
    if offset is not None:
        y = subtract_offsets(y, np.asarray(X[:, offset], dtype=np.float64))
        X = np.delete(X, offset, axis=1)
    return per_user.UserRows(X, y, *encode_ids(ids, name), **how)


def _sum_of_blocks(rows: per_user.UserRows | None, function: Callable, dealt=None):
    if rows is None:
        return None
    # Blocks are kept by the copy alone: a task may be run again.
    rows = copy.copy(rows) if dealt is None else rows.dealt(*dealt)
    total = None
    for found in rows.sums(function):
        total = found if total is None else total + found
    return total
