"""LRSRegressor: one low rank plus sparse regression per user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning

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
from .._tables.columns import in_declared_order
from .._tables.table import DeferredRead, UserTable, deferred_targets, deferred_users
from ..accounting import PrivacyAccountant
from ..accounting._errors import warn
from ..mechanisms import PrivacyPlan, check_count
from . import _kernels_lrs, _parameters
from ._kernels_lrs import LocalRules

# Numbers of the rows that are predicted together.
_PART_NUMBERS = 1 << 20


@dataclass(frozen=True)
class PersonalModels(UserModels):
    """Parameters of users beside shared components: w, features of b, b, intercepts."""

    entries: ClassVar[tuple[str, ...]] = ("weights", "support", "sparse", "intercepts")
    widened: ClassVar[tuple[str, ...]] = ("support", "sparse")

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    intercepts: np.ndarray

    @classmethod
    def empty(cls, rank: int) -> PersonalModels:
        none = np.empty((0, 0))
        return cls(None, np.empty((0, rank)), none.astype(np.intp), none, np.empty(0))

    @classmethod
    def fitted(cls, rows, users, index, scale, components) -> PersonalModels:
        """Return models of fitted users, and their intercepts, in data units.

        `users` are fitted to features divided by `scale`; `index` is None for a single
        user without an id; `components` is U', (rank, n_features).
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
        none = np.zeros((1, self.support.shape[1]))
        last = weights[None], none.astype(np.intp), none, [intercept]
        arrays = zip(self.arrays().items(), last, strict=True)
        return replace(self, **{n: np.concatenate([a, b]) for (n, a), b in arrays})

    def predict(self, features, codes: np.ndarray, components: np.ndarray):
        """Predict rows of several users, with bits independent of other rows.

        ``features(rows)`` returns the features of a slice of rows; `codes`, (n_rows,),
        are their users; `components` is U'.
        """
        out = np.empty(len(codes))
        size = max(1, _PART_NUMBERS // max(components.shape[1], 1))
        # A warning would tell of the values of some user.
        with np.errstate(all="ignore"):
            for start in range(0, len(codes), size):
                rows = slice(start, start + size)
                out[rows] = self._predicted(features(rows), codes[rows], components)
        return out

    def _predicted(self, X, own, components) -> np.ndarray:
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
        **_parameters.CONSTRAINTS,
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

    def _statistic(self, n_features: int) -> Statistic:
        rank = min(int(self.n_components), n_features)
        rules = self._rules(n_features, rank)
        return _parameters.shared_statistic(self, rules, n_features)

    def _n_beside(self) -> int:
        return len(_parameters.columns_beside(self))

    def _plan(self, statistic: Statistic) -> PrivacyPlan:
        return self._plan_of_users(statistic, statistic.neighbors)

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
            never modified.
        y : array-like of shape (n_rows,)
            Targets.
        {users_of_fit}

        {outcome_of_fit}
        """
        self._check_parameters()
        most = _parameters.most_steps(self)
        with self._unchanged_on_error(), fit_progress(self, most) as progress:
            table, targets, offset, d = self._unread(X, y, users)
            scale = _parameters.public_scale(self, d)
            start = _parameters.start_of(self, d)
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
        level = getattr(_parameters.intercept_of(self), "prior", None)
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

    def _rules(self, n_features: int, rank: int, prior=None) -> LocalRules:
        """Return the rules of users' fits; without a prior, that is public."""
        fixed = _parameters.is_fixed(self)
        most = n_features if self.sparsity is None else int(self.sparsity)
        return LocalRules(
            sparsity=min(most, n_features),
            ridge_shared=float(self.ridge_shared),
            ridge_sparse=float(self.ridge_sparse),
            prior=np.full(rank, float(fixed)) if prior is None else prior,
            fixed=fixed,
            free=most >= n_features and self.ridge_sparse > 0.0,
        )

    def _centered(self) -> dict:
        """Return how users' rows are centered."""
        own = _parameters.intercept_of(self)
        chosen = own or _parameters.UserIntercept()
        level = per_user.Level(chosen.prior or 0.0, float(chosen.ridge))
        return {"center": own is not None, "level": level}

    _read_like_fit = _parameters.read_like_fit

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
        rows = rows_by_user(table, y, index, scale=self.scale_, **self._centered())
        # A new user's weights shrink to the mean where those of the fit did.
        shrinks = getattr(self.solver, "shrink_to_mean", True)
        shrinks = shrinks and not (self._was_private() or _parameters.is_fixed(self))
        prior = self.weights_ if shrinks else None
        rules = self._rules(len(self.scale_), len(self.weights_), prior)
        return self._models_beside(
            rows, index, (self.components_ * self.scale_).T, rules
        )

    def _models_beside(self, rows, index, U, rules, fit=None) -> PersonalModels:
        """Fit users, unless already fitted, from their own rows and U alone."""
        if fit is None:
            fit = _kernels_lrs.solve_users(rows, U, rules, self.n_jobs)
        return PersonalModels.fitted(rows, fit, index, self.scale_, self.components_)

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

    # -- reading rows; several groups of users --------------------------------------

    def _billboard(self, n_features) -> Billboard:
        """Return what many groups of users release together, and all that is public."""
        self._check_parameters()
        solver = _parameters.solver_of(self)
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
        own = _parameters.intercept_of(self)
        rows = ("user", own.prior, float(own.ridge)) if own else (False, None, 0.0)
        given = _parameters.start_of(self, d), _parameters.public_scale(self, d)
        return Billboard(self._statistic(d), given, rows)

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
        given = self._ids_of_fit(users), self.user_feature
        table = deferred_users(self, X, *given, reset=True)
        targets = deferred_targets(self, y, table.shape[0])
        offset = _parameters.find_offset(self, X, table.shape[1])
        return table, targets, offset, table.shape[1] - (offset is not None)

    def _grouped(self, table, targets, offset, scale):
        """Return rows by user, and the ids of the users."""
        table, offsets = _parameters.split_offsets(table, offset)
        index, y = self._index(table), subtract_offsets(targets, offsets)
        return rows_by_user(table, y, index, scale=scale, **self._centered()), index
