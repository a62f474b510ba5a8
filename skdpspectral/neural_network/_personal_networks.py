"""One network a user: weights of low rank plus sparse, with a private shared part.

Networks of users: what stays with them, and predictions made from it.

Networks of users and what is made of them: the users' side of the billboard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, unweighted
from .._base.personal import PersonalEstimator, UserModels, finite_or_zero
from .._base.sklearn_compat import (
    CALLBACK_LEVELS,
    CallbackSupportMixin,
    FitProgress,
    with_callbacks,
)
from .._linalg import user_rows
from .._linalg.walks import blas_threads
from .._tables.rows import table_shape
from .._tables.users import check_targets, deferred_targets, deferred_users, read_users
from ..mechanisms import PrivacyPlan, Unit
from ..mechanisms._relations import check_count
from . import _kernels, _kernels_users, _network_choices
from ._estimators import scaled_targets, target_box
from ._kernels import Layout
from ._network_choices import Shape, rules_of, solver_of
from ._shared_weights import TOO_LARGE, GradientRounds, train_users


@dataclass(frozen=True)
class NetworkModels(UserModels):
    """Parameters of users' networks beside shared weights.

    Parameters
    ----------
    index : IdIndex or None
        Ids; None for a single user without an id.
    weights : ndarray of shape (n_users, rank)
        w.
    prompts : ndarray of shape (n_users, prompt_size)
        Features of the users' own.
    support : ndarray of shape (n_users, sparsity)
        Positions of b.
    sparse : ndarray of shape (n_users, sparsity)
        b on its support.
    levels : ndarray of shape (n_users,)
        What is added to a user's outputs.
    """

    entries: ClassVar[tuple[str, ...]] = (
        "weights",
        "prompts",
        "support",
        "sparse",
        "levels",
    )
    widened: ClassVar[tuple[str, ...]] = ("support", "sparse")

    weights: np.ndarray
    prompts: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    levels: np.ndarray

    @classmethod
    def empty(cls, rank: int, prompt_size: int) -> NetworkModels:
        """Return models of no user."""
        return cls(
            index=None,
            weights=np.empty((0, rank)),
            prompts=np.empty((0, prompt_size)),
            support=np.empty((0, 0), dtype=np.intp),
            sparse=np.empty((0, 0)),
            levels=np.empty(0),
        )

    @classmethod
    def fitted(cls, users, levels, index) -> NetworkModels:
        """Make models of what users trained.

        Parameters
        ----------
        users : UserNetworks
            Parameters of all users.
        levels : ndarray of shape (n_users,)
            Their levels.
        index : IdIndex or None
            Ids; None for a single user without one.
        """
        return cls(
            index=None if index is None else index.without_codes(),
            weights=finite_or_zero(users.weights),
            prompts=finite_or_zero(users.prompts),
            support=users.support,
            sparse=finite_or_zero(users.sparse),
            levels=finite_or_zero(levels),
        )

    def whole_weights(self, code: int, U: np.ndarray) -> np.ndarray:
        """U w + b of one user: (n_parameters,)."""
        return _kernels_users.whole_weights(U, self._networks(slice(code, code + 1)))[0]

    def _networks(self, chosen) -> _kernels_users.UserNetworks:
        of_users = (self.weights, self.prompts, self.support, self.sparse)
        return _kernels_users.UserNetworks(*of_users).take(chosen)

    def predict(self, table, codes: np.ndarray, U: np.ndarray, layout) -> np.ndarray:
        """Predict rows of known users, each by the rows of that user alone.

        Parameters
        ----------
        table : UserTable
            Rows.
        codes : ndarray of shape (n_rows,)
            Users of the rows; rows of negative ones are left at zero.
        U : ndarray of shape (n_parameters, rank)
            Shared weights.
        layout : Layout
            Of the networks.

        Returns
        -------
        ndarray of shape (n_rows,)
            Outputs and levels.
        """
        out, known = np.zeros(len(codes)), np.flatnonzero(codes >= 0)
        if not len(known):
            return out
        # Stable: a user's rows keep their order, whoever else is there.
        known = known[np.argsort(codes[known], kind="stable")]
        present, dense = np.unique(codes[known], return_inverse=True)
        rows = user_rows.UserRows(
            table.X[known],
            np.zeros(len(known)),
            dense,
            len(present),
            columns=table.columns,
        )
        starts = np.cumsum(rows.counts) - rows.counts
        for block in rows.blocks():
            for place in _kernels_users.in_parts(block, layout):
                users, counts = block.users[place], block.counts[place]
                own = self._networks(present[users])
                found = _kernels_users.predictions(layout, U, own, block.X[place])
                found += self.levels[present[users]][:, None]
                there = np.arange(found.shape[1]) < counts[:, None]
                rows_of_users = starts[users][:, None] + np.arange(found.shape[1])
                out[known[rows_of_users[there]]] = found[there]
        return out


def shared_predictions(X, whole: np.ndarray, prompt: np.ndarray, layout) -> np.ndarray:
    """Predict rows by one public network, each with the same bits in any company.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows.
    whole : ndarray of shape (n_parameters,)
        All weights.
    prompt : ndarray of shape (prompt_size,)
        Further features of every row.
    layout : Layout
        Of the network.

    Returns
    -------
    ndarray of shape (n_rows,)
        Outputs.
    """
    layers, out = layout.layers(whole), np.empty(len(X))
    with blas_threads(0):
        for rows in _kernels.in_blocks(len(X)):
            part = np.asarray(X[rows], dtype=np.float64)
            beside = np.broadcast_to(prompt, (len(part), len(prompt)))
            part = np.hstack([part, beside])
            out[rows] = _kernels.activations(layers, part, "tanh")[-1][:, 0]
    return out


class PersonalNetworks:
    """What an estimator of one network a user offers its users."""

    def _models(self) -> NetworkModels:
        empty = NetworkModels.empty(len(self.components_), len(self.prompt_))
        return getattr(self, "_personal", empty)

    def _fitted_layout(self) -> Layout:
        return Layout(tuple(int(size) for size in self.layer_sizes_))

    def predict(self, X, *, users=None):
        """Predict every row by the network of its user.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Columns as in fit.
        users : array-like of shape (n_rows,) or None, default=None
            Ids, of the type that was given to fit.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions; only a user may see those of their own network.

        Raises
        ------
        ValueError
            If users are missing though fit had them, if their type is another one,
            or, with ``unknown_user="raise"``, if one was not in the fit.
        """
        check_is_fitted(self)
        table = self._read_like_fit(X, users)
        codes, layout = self._codes_of(table), self._fitted_layout()
        U = np.ascontiguousarray(self.components_.T)
        unknown = np.flatnonzero(codes < 0)
        # A warning would tell of the values of some user.
        with np.errstate(all="ignore"):
            found = self._models().predict(table, codes, U, layout)
            if len(unknown):
                found[unknown] = shared_predictions(
                    table.features(unknown),
                    self._shared_network(),
                    self.prompt_,
                    layout,
                )
            return self.target_center_ + self.target_scale_ * found

    def _read_like_fit(self, X, users):
        table = read_users(self, X, users, self.user_feature, reset=False)
        n_features = int(self.layer_sizes_[0]) - len(self.prompt_)
        if table.n_features != n_features:
            raise ValueError(
                f"X has {table.n_features} features beside users, and fit had "
                f"{n_features}: user_feature was changed since"
            )
        return table

    def _units_of_fit(self) -> tuple[float, float]:
        units = self.target_center_, self.target_scale_
        if self.target_bounds is not None:
            middles, halves = target_box(self.target_bounds, 1)
            if (middles[0], halves[0]) != units:
                raise ValueError(
                    f"target_bounds={self.target_bounds!r} are not those of the fit, "
                    "which the units of the shared weights are from: set them to "
                    "those, or fit anew"
                )
        return units

    def _shared_network(self) -> np.ndarray:
        whole = np.zeros(self.components_.shape[1])
        for weight, direction in zip(self.weights_, self.components_, strict=True):
            whole += weight * direction
        return whole

    def get_network(self, user=None):
        """Return the layers of one user's network, for that user alone.

        Parameters
        ----------
        user : hashable or None, default=None
            Id; None for the only user of a fit without users.

        Returns
        -------
        coefs, intercepts : list of ndarray
            Of shapes (n_inputs, n_outputs) and (n_outputs,), one a layer, of which the
            first takes the user's own features behind those of rows, and the last gives
            targets less :meth:`get_intercept`, over `target_scale_`; those of the
            shared network if the user is unknown.

        Raises
        ------
        ValueError
            If the user is unknown and ``unknown_user="raise"``, or the id is missing
            or of another type.
        """
        code, whole = self._code_of(user), self._shared_network()
        if code >= 0:
            U = np.ascontiguousarray(self.components_.T)
            whole = self._models().whole_weights(code, U)
        layers = self._fitted_layout().layers(whole)
        return [layer[:-1].copy() for layer in layers], [
            layer[-1].copy() for layer in layers
        ]

    def get_prompt(self, user=None):
        """Return the features of one user's own, as :meth:`get_network` the layers."""
        code = self._code_of(user)
        return (self.prompt_ if code < 0 else self._models().prompts[code]).copy()

    def get_intercept(self, user=None):
        """Return what one user's network is added to, in the units of the targets."""
        code = self._code_of(user)
        level = 0.0 if code < 0 else float(self._models().levels[code])
        return self.target_center_ + self.target_scale_ * level

    def personalize(self, X, y, user=None, *, users=None):
        """Train networks of some users beside the shared weights, and store them.

        Works on a published copy too, so that users can do it where their rows are.
        Networks that were stored for these users are replaced; no other changes, and no
        budget is spent.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            All rows of one or more users, with the columns of fit.
        y : array-like of shape (n_rows,)
            Their targets.
        user : hashable or None, default=None
            Id of the one user of all rows. None takes `users`, or the column
            `user_feature`; without users in fit it stands for the only one.
        users : array-like of shape (n_rows,) or None, default=None
            Ids of the rows' users, new or known.

        Returns
        -------
        self : object
            The estimator, which predicts for these users from now on.

        Raises
        ------
        ValueError
            If X or y is invalid, the rows are not those of `user`, or `target_bounds`
            were changed since the fit.

        See Also
        --------
        skdpspectral.linear_model.personalize : The same through a pipeline.
        """
        check_is_fitted(self)
        # Each on its own: what suits no fit may suit a user.
        super()._check_parameters()
        table = self._read_like_fit(X, users)
        y = check_targets(self, y, len(table.X))
        index = self._users_to_fit(table, user)
        rows = self._user_rows(table, y, index, self._units_of_fit())
        shape = Shape(self._fitted_layout(), len(self.components_), len(self.prompt_))
        rules = rules_of(self, shape, solver_of(self))
        U = np.ascontiguousarray(self.components_.T)
        fitted = train_users(rows, U, rules, self.n_jobs)
        self._personal = self._models().updated(NetworkModels.fitted(*fitted, index))
        self._users_given = index is not None
        return self


@documented
class LRSMLPRegressor(
    PersonalNetworks,
    PersonalEstimator,
    CallbackSupportMixin,
    RegressorMixin,
    PrivateEstimator,
):
    r"""One network a user: low rank plus sparse weights, private at user level.

    The targets of user i are modeled by a tanh network, all of whose weights and
    intercepts are one vector :math:`\theta_i = U w_i + b_i`: directions U that all
    users share, weights :math:`w_i` of the user on them, and a sparse vector
    :math:`b_i`. Beside it a user may have a level, and features of their own.

    Only U is released, under user-level differential privacy. What belongs to a user is
    trained from U and that user's rows, and stays with that user: the
    :ref:`billboard model <billboard>`. Try :class:`~skdpspectral.LRSRegressor` first:
    it needs far fewer users. Read more in the :ref:`user guide <personal_networks>`.

    Parameters
    ----------
    n_components : int, default=1
        Number r of shared directions, at least 0. With 0, every network has all of its
        weights of its own (``sparsity=None``), and nothing is released.
    sparsity : int, float or None, default=0.01
        How many weights of a network are the user's own: a number, a share in [0, 1] of
        all, rounded up, or None for all.
    hidden_layer_sizes : int or array-like of int, default=50
        Widths of up to two hidden layers; an empty list for a linear model.
    {epsilon}
    {delta}
        Well below one over the number of users.
    user_feature : int, str or None, default=None
        Position or name of the column of X that says whose row it is, as in
        :class:`~skdpspectral.LRSRegressor`. That column is no feature.
    unknown_user : {"shared", "raise"}, default="shared"
        What predictions do with users that were not in the fit. "shared": the network
        of all. "raise" is for ``epsilon=None`` alone.
    fit_intercept : {"user", False}, default="user"
        "user": a level a user, the mean of their targets, which the network adds to.
        False: none.
    ridge_intercept : float, default=0.0
        Penalty of the square of that level, in rows: a user of so many rows has half a
        level of their own. It is measured from the middle of `target_bounds`.
    shared_weights : {"user", "fixed"}, default="user"
        "fixed": all w are one, and U is a central network that users tune sparsely, or,
        with ``sparsity=0``, one network for all. It needs ``n_components=1``.
    prompt_size : int, default=0
        Number of features of a user's own, that are trained and stand beside those of
        each of the user's rows.
    ridge_shared : float, default=1.0
        Penalty, in rows, of the squares of what w differs by from its beginning, the
        first direction alone, and of the features of the user's own.
    ridge_sparse : float, default=1.0
        Penalty of :math:`|b_i|^2`, in rows.
    target_bounds : tuple (low, high) or None, default=None
        Public bounds of the targets, which are clipped to them and brought to [-1, 1].
        Without them targets are standardized with ``epsilon=None``, and with a budget
        used as they are: they should be of the order of one.
    clip_norm : float, default=1.0
        Norm above which a user's gradient by U is scaled down, in [1e-60, 1e60], with a
        budget. Steps of U do not depend on the unit: below the norms that gradients
        have, every user counts the same.
    neighbors : {"add-remove-one", "replace-one"}, default="add-remove-one"
        What is hidden: that a user took part, or all that a user contributed, the
        number of users being public then. "replace-one" needs twice the noise.
    solver : "auto" or AlternatingAdam, default="auto"
        How networks and U are trained; "auto" is
        :class:`~skdpspectral.neural_network.AlternatingAdam` with its defaults.
    init_seed : int, default=0
        Public seed of where U begins.
    {accountant}
    {noise_seed}
    {n_jobs}
        They share the users.
    verbose : bool or int, default=0
        Whether to print a line a round.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_parameters)
        U'.
    weights_ : ndarray of shape (n_components,)
        Weights of the shared network: their mean over users with ``epsilon=None``, and
        the first direction alone with a budget.
    prompt_ : ndarray of shape (prompt_size,)
        Features of a user who has none: their mean over users with ``epsilon=None``,
        and 0 with a budget.
    layer_sizes_ : ndarray of int
        Widths of the layers, from the features, `prompt_size` more than those of rows,
        to the one output.
    target_center_, target_scale_ : float
        What outputs are moved by, once multiplied by the other, to be targets.
    n_iter_ : int
        Rounds; 1 where there is nothing to release.
    {n_features_in_}
        A column of users is among them.
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    PrivacyLeakWarning
        If privacy is switched off, if a private fit is given no users, if users'
        scores are pooled, or if the estimator is pickled with its users' networks.

    See Also
    --------
    skdpspectral.LRSRegressor : Linear models a user, of which private ones need fewer.
    skdpspectral.neural_network.count_parameters : Numbers that such models have.
    skdpspectral.DPAdamRegressor : One network for all rows.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is
    (`epsilon`, `delta`)-differentially private for one user with all of their rows,
    under addition or removal of that user (or replacement, see `neighbors`), for any
    data. It covers the public attributes and what :meth:`publish` gives, and neither
    predictions for users of the fit, which are for their eyes alone, nor scores pooled
    over users (:ref:`billboard`).

    In every round each user trains w and b for some steps, and contributes the gradient
    of their mean loss by U, scaled down to a norm of at most `clip_norm`
    (:ref:`lemma-user-gradients`); the number of users is never used. All weights of a
    network get noise, so that private networks should be small: users should be many
    more than :math:`\sqrt{2 p r L} / \mu` for p weights, rank r and L rounds.

    Features are used as they are: divide them by public constants to be of the order of
    one.

    References
    ----------
    Pal et al. (2023), Sample-efficient personalization: modeling user parameters as
    low rank plus sparse components, appendix B.2.
    Foucart (2011), Hard thresholding pursuit, algorithm HTP.

    Examples
    --------
    >>> from skdpspectral import LRSMLPRegressor
    >>> from skdpspectral.datasets import make_low_rank_sparse_tasks
    >>> X, y, users = make_low_rank_sparse_tasks(
    ...     1000, 20, 5, sparsity=1, noise=0.1, random_state=0
    ... )
    >>> model = LRSMLPRegressor(2, 0.1, hidden_layer_sizes=4, epsilon=1.0)
    >>> predictions = model.fit(X, y, users=users).predict(X, users=users)
    >>> bool(abs(predictions - y).mean() < 0.7 * abs(y).mean())
    True
    """

    _array_parameters: ClassVar[tuple[str, ...]] = (
        "hidden_layer_sizes",
        "target_bounds",
    )
    _levels_around_fit: ClassVar[int] = CALLBACK_LEVELS + 1  # that of @unweighted
    _models_class: ClassVar[type] = NetworkModels

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        **_network_choices.CONSTRAINTS,
    }

    def __init__(
        self,
        n_components=1,
        sparsity=0.01,
        *,
        hidden_layer_sizes=50,
        epsilon=1.0,
        delta=1e-6,
        user_feature=None,
        unknown_user="shared",
        fit_intercept="user",
        ridge_intercept=0.0,
        shared_weights="user",
        prompt_size=0,
        ridge_shared=1.0,
        ridge_sparse=1.0,
        target_bounds=None,
        clip_norm=_network_choices.CLIP_NORM,
        neighbors="add-remove-one",
        solver="auto",
        init_seed=0,
        accountant=None,
        noise_seed=None,
        n_jobs=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.sparsity = sparsity
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epsilon = epsilon
        self.delta = delta
        self.user_feature = user_feature
        self.unknown_user = unknown_user
        self.fit_intercept = fit_intercept
        self.ridge_intercept = ridge_intercept
        self.shared_weights = shared_weights
        self.prompt_size = prompt_size
        self.ridge_shared = ridge_shared
        self.ridge_sparse = ridge_sparse
        self.target_bounds = target_bounds
        self.clip_norm = clip_norm
        self.neighbors = neighbors
        self.solver = solver
        self.init_seed = init_seed
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
            Number of features; a column of users is none.

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
            _network_choices.statistic_of(self, check_count("n_features", n_features))
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
            If a parameter is invalid, or X has no columns beside that of users.
        """
        return self.privacy_plan(table_shape(X)[1] - (self.user_feature is not None))

    def _plan(self, statistic) -> PrivacyPlan:
        return self._planned(statistic, unit=Unit.USER, neighbors=statistic.neighbors)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _network_choices.check_network_parameters(self)

    # -- the estimator ---------------------------------------------------------------

    @with_callbacks
    @unweighted
    def fit(self, X, y, *, users=None):
        """Train what users share, and every user's network beside it.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Features of all rows in any order, of the order of one, and the column
            `user_feature`; never modified.
        y : array-like of shape (n_rows,)
            Targets.
        users : array-like of shape (n_rows,) or None, default=None
            Hashable ids, one a row, all of one kind: numbers (whole, and exact in
            their type; never float16), strings, times, or others of one type. With
            neither `users` nor `user_feature` all rows are those of one user.

        {outcome_of_fit}
        """
        self._check_parameters()
        with self._progress() as progress, self._unchanged_on_error():
            table = deferred_users(self, X, users, self.user_feature, reset=True)
            if table.distant is not None:
                raise ValueError(
                    "X is on a dask cluster, where no networks are trained: give "
                    "LRSMLPRegressor X.compute() where it fits into memory"
                )
            targets = deferred_targets(self, y, table.n_rows)
            statistic = _network_choices.statistic_of(self, table.n_features)
            self._warn_of_one_user(table)
            plan = self._plan(statistic)
            # It is charged here; values, ids among them, are read from here on.
            release, read, targets = self._start_release(plan, table, targets)
            index = self._index(read)
            private = isinstance(statistic, GradientRounds)
            box = self._units(targets, private)
            rows = self._user_rows(read, targets, index, box)
            progress.begin(X, targets, plan)
            found = statistic.run(release, rows, progress)
            users_fit = found.users, found.levels
            if found.users is None:  # each by their own rows and U
                users_fit = train_users(rows, found.U, statistic.rules, self.n_jobs)
            self._keep(found, statistic.rules.layout)
            self.target_center_, self.target_scale_ = box
            self._personal = NetworkModels.fitted(*users_fit, index)
            self._users_given = index is not None
            self.privacy_ = plan
            progress.end()
        return self

    def _progress(self) -> FitProgress:
        private = self._is_private()
        n_rounds = _network_choices.solver_of(self)._counts(private)[0]
        return FitProgress(self, n_rounds, private=private, verbose=self.verbose)

    def _units(self, targets: np.ndarray, private: bool) -> tuple[float, float]:
        """Return what targets are measured from and by: of the data without privacy.

        What was charged says whether there is privacy, and not the parameters, which
        another thread may have changed since.
        """
        if self.target_bounds is None and not private:
            center, scale = float(targets.mean()), float(targets.std())
            if not np.isfinite((center, scale)).all():
                raise ValueError(TOO_LARGE)
            return center, scale if scale > 0.0 else 1.0
        middles, halves = target_box(self.target_bounds, 1)
        return float(middles[0]), float(halves[0])

    def _user_rows(self, table, targets, index, box) -> user_rows.UserRows:
        scaled = (targets - box[0]) / box[1]
        if self.target_bounds is not None:
            scaled = scaled_targets(targets, box)
        codes = np.zeros(len(table.X), np.intp) if index is None else index.codes
        n_users = 1 if index is None else len(index)
        return user_rows.UserRows(
            table.X, scaled, codes, n_users, columns=table.columns
        )

    def _keep(self, found, layout: Layout) -> None:
        """Make public attributes of what was found."""
        self.components_ = np.ascontiguousarray(found.U.T)
        self.weights_ = np.array(found.weights, dtype=np.float64)
        self.prompt_ = np.array(found.prompt, dtype=np.float64)
        self.layer_sizes_ = np.array(layout.sizes)
        self.n_iter_ = found.n_iter

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.single_output = True
        # A column of ids: whole numbers, or strings.
        tags.input_tags.categorical = self.user_feature is not None
        return tags
