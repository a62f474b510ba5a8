"""LRSRegressor: one low rank plus sparse regression per user."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, unweighted
from .._base.personal import PersonalEstimator
from .._base.sklearn_compat import CALLBACK_LEVELS, CallbackSupportMixin, with_callbacks
from .._statistics.statistic import Statistic
from .._tables.rows import table_shape
from ..mechanisms import PrivacyPlan, Unit
from ..mechanisms._relations import check_count
from . import _parameters
from ._shared_directions import SharedModel
from ._users import PersonalModels, UserModelsMixin


@documented
class LRSRegressor(
    UserModelsMixin,
    PersonalEstimator,
    CallbackSupportMixin,
    RegressorMixin,
    PrivateEstimator,
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
        (`coef_`, `intercept_`). "raise" is for ``epsilon=None`` only.
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
    _levels_around_fit: ClassVar[int] = CALLBACK_LEVELS + 1  # that of @unweighted
    _models_class: ClassVar[type] = PersonalModels

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        **_parameters.CONSTRAINTS,
    }

    def __init__(
        self,
        n_components=1,
        sparsity=3,
        *,
        epsilon=1.0,
        delta=1e-6,
        user_feature=None,
        unknown_user="shared",
        fit_intercept="user",
        shared_weights="user",
        ridge_sparse=100.0,
        neighbors="add-remove-one",
        solver="auto",
        scale=True,
        accountant=None,
        noise_seed=None,
        n_jobs=None,
        verbose=0,
    ):
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

    # -- what a fit will release -----------------------------------------------------

    def privacy_plan(self, n_features):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_features : int
            Number of features; columns of users and offsets are none.

        Returns
        -------
        PrivacyPlan
            What a fit is charged with, whatever the number of users and rows.

        Raises
        ------
        ValueError
            If a parameter is invalid.
        """
        self._check_parameters()
        return self._plan(
            _parameters.shared_statistic(
                self,
                _parameters.solver_of(self),
                check_count("n_features", n_features),
            )
        )

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_samples, n_columns)
            Rows, as for :meth:`fit`, of which the number of columns is used.

        Returns
        -------
        PrivacyPlan
            What that fit is charged with; ``privacy_plan`` of the number of features.

        Raises
        ------
        ValueError
            If a parameter is invalid, or X has no columns beside those.
        """
        self._check_parameters()
        n_others = len(_parameters.columns_beside(self))
        return self.privacy_plan(table_shape(X)[1] - n_others)

    def _plan(self, shared: Statistic) -> PrivacyPlan:
        neighbors = shared.users.neighbors
        return self._planned(shared, unit=Unit.USER, neighbors=neighbors)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _parameters.check_lrs_parameters(self)

    # -- the estimator ---------------------------------------------------------------

    @with_callbacks
    @unweighted
    def fit(self, X, y, *, users=None):
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
        users : array-like of shape (n_rows,) or None, default=None
            Hashable ids, one a row, all of one kind: numbers (whole, and exact in
            their type; never float16), strings, times, or others of one type. With
            neither `users` nor `user_feature` all rows are those of one user.

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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.single_output = True
        # A column of ids: whole numbers, or strings.
        tags.input_tags.categorical = self.user_feature is not None
        return tags
