"""LRSRegressor: one low rank plus sparse regression per user, and users' own models.

Nothing is released here but by the statistic of the shared directions, and no noise is
drawn: what is made of users' rows stays with them.
"""

from __future__ import annotations

import copy
import warnings
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
from .._base.sklearn_compat import CallbackSupportMixin, with_callbacks
from .._linalg import per_user
from .._linalg.per_user import combined_columns
from .._statistics.statistic import Statistic
from .._statistics.user_sums import Billboard
from .._tables.clusters import common_type, numbers_of
from .._tables.ids import encode_ids, in_declared_order
from .._tables.rows import DeferredRead
from .._tables.users import (
    ClusterUsers,
    ClusterUserTable,
    DeferredTable,
    UserTable,
    check_targets,
    deferred_targets_of,
    deferred_users,
)
from ..accounting import PrivacyAccountant
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
        """Make models of what users fitted, and their intercepts, in data units.

        `users`: weights, supports and sparse parts that they fitted, of scaled
        features. `index`: ids; None for a single user without one. `scale`
        (n_features,): what features were divided by. `components` (rank, n_features):
        U'.
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
        """U w + b of one user."""
        coef = np.zeros(components.shape[1])
        for weight, component in zip(self.weights[code], components, strict=True):
            coef += weight * component
        np.add.at(coef, self.support[code], self.sparse[code])
        return coef

    def with_shared(self, weights: np.ndarray, intercept: float) -> PersonalModels:
        """Append the shared model, so that code -1 stands for it."""
        k = self.support.shape[1]
        return replace(
            self,
            weights=np.vstack([self.weights, weights]),
            support=np.vstack([self.support, np.zeros((1, k), dtype=np.intp)]),
            sparse=np.vstack([self.sparse, np.zeros((1, k))]),
            intercepts=np.append(self.intercepts, intercept),
        )

    def predict(self, features, codes: np.ndarray, components: np.ndarray):
        """Predict rows of several users, each with the bits that it has alone.

        `features`: ``features(rows)``: features of a slice of rows. `codes` (n_rows,):
        users of the rows. `components` (rank, n_features): U'. Returns (n_rows,):
        predictions.
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
    r"""One linear model per user: low rank plus sparse, private at user level.

    The targets of user i are modeled by
    :math:`y = \langle x, U w_i + b_i\rangle + c_i`: directions U that all users
    share, weights :math:`w_i` of the user on them, a sparse vector :math:`b_i` and an
    intercept of the user's own.

    Only U is released, under user-level differential privacy. What belongs to a user
    (w, b, c) is computed from U and that user's rows, and stays with that user: the
    :ref:`billboard model <billboard>`. Read more in the
    :ref:`user guide <personal_models>`.

    Parameters
    ----------
    n_components : int, default=1
        Number r of shared directions, at least 0; capped at the number of features.
        With 0, every user has a sparse model alone and nothing is released.
    sparsity : int or None, default=3
        Maximum number k of nonzeros of a user's sparse part, at least 0; it costs no
        budget. It is capped at half of the rows that the weights of a user leave over.
        None, or the number of features, uses all features of every user, and needs
        ``ridge_sparse > 0``. With ``n_components=0`` that is a ridge regression per
        user.
    {epsilon}
        Then it fits with everything that the data offer.
    {delta}
        Well below one over the number of users.
    user_feature : int, str or None, default=None
        Position or name of the column of X with the user of each row. That column is
        no feature. With it, scorers, searches and pipelines predict each user with
        their own model; ``users=`` needs metadata routing for that. Prefer the name,
        which is followed through ``set_output`` and a
        :class:`~sklearn.compose.ColumnTransformer` (``remainder__user_id``). A position
        is another column behind a step that moves columns.
    unknown_user : {"shared", "raise"}, default="shared"
        Prediction for users that were not in the fit. "shared" uses the shared model
        (`coef_`, `intercept_`), with a warning that counts their rows
        (:ref:`folds_of_users`). "raise" is for ``epsilon=None`` only.
    fit_intercept : {"user", False} or UserIntercept, default="user"
        "user": an intercept for each user; rows and targets are centered on the means
        of the user. :class:`~skdpspectral.linear_model.UserIntercept` also has a
        penalty, a public prior and a column of offsets. False: no intercept.
    shared_weights : {"user", "fixed"} or UserWeights, default="user"
        "user": weights for each user, with the penalty of
        :class:`~skdpspectral.linear_model.UserWeights`. "fixed": all weights are one,
        and U, which is not orthonormal then, is a central model that users tune
        sparsely. It needs ``n_components=1``.
    ridge_sparse : float, default=100.0
        Penalty of :math:`|b_i|^2`, in rows of unit length; 0 if targets have no noise.
    neighbors : {"add-remove-one", "replace-one"}, default="add-remove-one"
        "add-remove-one" hides whether a user took part. "replace-one" hides what a user
        contributed, for a public number of users; it needs twice the noise.
    solver : "auto", PrivateRounds, Alternation or GivenDirections, default="auto"
        How U is found. "auto" is :class:`~skdpspectral.linear_model.PrivateRounds`
        with a budget, and :class:`~skdpspectral.linear_model.Alternation` with
        ``epsilon=None``. With :class:`~skdpspectral.linear_model.GivenDirections`, U
        is public, and nothing is released.
    scale : bool or array-like of shape (n_features,), default=True
        Scales that features are divided by. An array holds public scales. True uses
        root mean squares of the data with ``epsilon=None``, and ones with a budget.
    {accountant}
    {noise_seed}
    {n_jobs}
        They share the users.
    verbose : bool or int, default=0
        Whether to print a line per step.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        U': orthonormal rows in the scaled features, a central model with
        ``shared_weights="fixed"``.
    weights_ : ndarray of shape (n_components,)
        Weights of the shared model: their mean over users with ``epsilon=None``,
        public with a budget (0, or 1 where they are fixed).
    coef_ : ndarray of shape (n_features,)
        Coefficients of the shared model, ``weights_ @ components_``.
    intercept_ : float
        Intercept of the shared model: the `prior` of its users' intercepts.
    scale_ : ndarray of shape (n_features,)
        What features were divided by.
    n_iter_ : int
        Iterations made, or releases of U; 1 where there is nothing to release.
    {n_features_in_}
        Columns of users and offsets are among them.
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    PrivacyLeakWarning
        If privacy is switched off, if a private fit is given no users, if users'
        scores are pooled, or if the estimator is pickled with its users' parameters.

    See Also
    --------
    skdpspectral.datasets.make_low_rank_sparse_tasks : Data of this model.
    sklearn.linear_model.Ridge : One model for all rows.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is
    (`epsilon`, `delta`)-differentially private for one user with all of their rows,
    under addition or removal of that user (or replacement, see `neighbors`), for
    any data. It covers the public attributes and what :meth:`publish` gives, and
    neither predictions for users of the fit, which are for their eyes alone, nor
    scores pooled over users (:ref:`billboard`).

    In every release each user contributes one vector of norm at most one, scaled down
    as a whole, which causes no bias (:ref:`lemma-common-factor`); rows count by their
    mean, and the number of users is never used. As a rule, private directions need
    many more than :math:`d r^{1.5} \sqrt{2 L} / \mu` users for L releases
    (:ref:`how_many_users`).

    **What a fit does not use** is refused: a solver for the other kind of fit, and
    an `init` of the solver with fixed weights (:ref:`lrs_modes`).

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

    @with_callbacks
    @unweighted
    def fit(self, X, y, *, users=None) -> Self:
        """Release shared directions, and fit every user beside them.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Features of all rows in any order, and the columns of users
            and offsets; never modified. A memory-mapped array is read block by
            block. Users of a dask collection are summed on its cluster, and have no
            models here (:ref:`clusters`).
        y : array-like of shape (n_rows,)
            Targets.
        {users_of_fit}

        {outcome_of_fit}
        """
        self._check_parameters()
        with _parameters.progress_of(self) as progress, self._unchanged_on_error():
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
            progress.end()
        return self

    def _keep(self, found: SharedModel) -> None:
        """Make public attributes of what was found."""
        if not found.converged:
            warnings.warn(
                f"LRSRegressor did not converge in {found.n_iter} iterations; increase "
                "max_iter or tol of solver=Alternation(...)",
                ConvergenceWarning,
                stacklevel=3 + self._levels_around_fit,
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
        """How users' rows are centered."""
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
        """Fit users, unless that was done: each by their own rows and U alone."""
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
            Id; None for the only user of a fit without users.

        Returns
        -------
        ndarray of shape (n_features,)
            :math:`U w + b`, in units of the data; those of the shared model if the
            user is unknown.

        Raises
        ------
        ValueError
            If the user is unknown and ``unknown_user="raise"``, or the id is missing
            or of another type.
        """
        code, models = self._model_of(user)
        return models.coef(code, self.components_)

    def get_intercept(self, user=None):
        """Return the intercept of one user, as :meth:`get_coef` does coefficients."""
        code, models = self._model_of(user)
        return float(models.intercepts[code])

    def _model_of(self, user) -> tuple[int, PersonalModels]:
        code = self._code_of(user)
        return code, self._models().with_shared(self.weights_, self.intercept_)

    def _prior_of_users(self, rank: int):
        """Return what weights of a new user are shrunk to."""
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
                "fresh_rows=True is not for groups of users, which use all rows in "
                "every round: leave fresh_rows=False"
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
        """Check the form of a group's rows, and read no value; return what reads them.

        `names` are those of the features, or None. ``read()`` returns the users' rows
        and their ids.
        """
        X = in_declared_order(X, names, list(_parameters.columns_beside(self).items()))
        table, targets, offset, d = self._unread(X, y, users)
        scale = board.given[1]
        if len(scale) != d:
            raise ValueError(
                f"X has {d} features beside users and offsets, the task has "
                f"n_features={len(scale)}"
            )
        return lambda: self._grouped(table.read(), targets.read(), offset, scale)

    def _unread(
        self, X, y, users
    ) -> tuple[DeferredTable, DeferredRead, int | None, int]:
        """Check the form of rows and targets; return the place of offsets, and d."""
        table = deferred_users(self, X, users, self.user_feature, reset=True)
        targets = deferred_targets_of(self, y, table)
        check_cluster(self, table)
        offset = _parameters.find_offset(self, X, table.n_features)
        return table, targets, offset, table.n_features - (offset is not None)

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
        """Make public attributes of what was released, and models of users at hand."""
        self._keep(found)
        if rows is None:
            self.n_features_in_ = len(self.scale_) + self._n_beside()
        else:
            self._keep_users(found, rows, index, board.statistic.users.rules)
        self.privacy_ = plan

    def _keep_users(self, found, rows, index, rules) -> None:
        """Fit users beside what was found, apart from all that is public."""
        elsewhere = isinstance(rows, ClusterUserRows)
        self._users_given = elsewhere or index is not None
        self._personal = (
            PersonalModels.empty(len(self.components_))
            if elsewhere
            else self._models_beside(rows, index, found.U, rules, found.users)
        )


def personalize(model, X, y, **users):
    """Fit some users through a pipeline: transform their rows, then fit their models.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted; its last step, or itself, has a method ``personalize``. Steps before
        transform rows as they are, and stay as they are.
    X : array-like or dataframe of shape (n_rows, n_columns)
        Rows of one or more users, with the columns of the pipeline's fit.
    y : array-like of shape (n_rows,)
        Their targets.
    **users : object
        What else the method takes: `user` or `users`.

    Returns
    -------
    model : estimator or Pipeline
        The same, which predicts for these users from now on. No budget is spent.

    Raises
    ------
    TypeError
        If the model, or its last step, cannot be personalized.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpspectral import DPItemEmbedding, LRSRegressor
    >>> from skdpspectral.datasets import make_ratings
    >>> from skdpspectral.linear_model import UserIntercept, personalize
    >>> data = make_ratings(500, 20, n_ratings_per_user=10, random_state=0)
    >>> intercept = UserIntercept(offset_feature=1)
    >>> model = make_pipeline(
    ...     DPItemEmbedding(items=data.item_ids),
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

    `offset`: place of the offsets among the features.
    `name`: what errors call the users.
    `**how`: how users' rows are centered and scaled: as for ``UserRows``.
    """

    def __init__(
        self, table: ClusterUserTable, targets: list, offset, name: str, **how
    ) -> None:
        from dask import delayed

        dtype = common_type([table.table.dtypes[j] for j in table.columns])
        rows = table.table.apply(numbers_of, table.columns, dtype)
        together = delayed(_together, pure=True)
        parts = list(map(together, table.ids.parts, rows, targets))
        make = partial(_rows_of_users, offset=offset, name=name, **how)
        self._users = ClusterUsers(parts, make, name)
        self._part: tuple[int, int] | None = None

    def dealt(self, part: int, n_parts: int) -> ClusterUserRows:
        """Rows of one of several parts, which each user's rows are dealt to in turn.

        `part`, `n_parts`: number of the part, from 0, and how many there are.
        """
        other = copy.copy(self)
        other._part = part, n_parts
        return other

    def sums(self, function: Callable, n_jobs=None) -> Iterator:
        """Yield the sum of what a function makes of all blocks of users.

        `function`: block, and the rows that it is one of -> sums over its users, exact
        in any order; public and picklable.
        """
        kernel = partial(_sum_of_blocks, function=function, dealt=self._part)
        total = self._users.reduce(kernel)
        return iter(() if total is None else (total,))


def check_cluster(model, table) -> None:
    """Refuse what needs all users in one place."""
    if table.distant is None:
        return
    if not model._is_private():
        raise ValueError(
            "epsilon=None alternates between all users, which must be in memory: pass "
            "X.compute(), or a budget"
        )
    if not table.has_users:
        raise ValueError(
            "X is on a cluster and has no users: pass users=..., or set user_feature "
            "to the name of their column"
        )


def _together(*columns) -> tuple:
    return columns


def _rows_of_users(ids, X, y, *, offset, name: str, **how) -> per_user.UserRows | None:
    if not len(ids):
        return None
    y = check_targets(None, y, len(ids))
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
