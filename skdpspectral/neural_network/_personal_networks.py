"""One network for each user: low rank plus sparse, with private shared weights."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.personal import PersonalEstimator, UserModels, rows_by_user
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._base.strategies import register, snapshot
from .._linalg import per_user
from .._release.noise import public_start
from .._tables.table import UserTable, deferred_targets, deferred_users, read_users
from ..accounting import PrivacyAccountant
from ..mechanisms import Neighbors
from . import _kernels
from ._estimators import (
    hidden_widths,
    scale_first_weights,
    scaled_targets,
    target_box,
)
from ._kernels import Layout, NetworkWeights
from ._shared_weights import (
    TOO_LARGE,
    ExactWeights,
    GradientRounds,
    UserRules,
    train_users,
)

_RATE = Interval(Real, 0, 1e60, closed="neither")
_COUNT = Interval(Integral, 1, 100_000, closed="both")
_PENALTIES = Interval(Real, 0, 1e60, closed="both")

# With a budget each round is paid for; without one it is not.
_ROUNDS = {True: 30, False: 300}
_LOCAL_STEPS = {True: 5, False: 1}


@register
@dataclass(eq=False, repr=False)
class AlternatingAdam(BaseEstimator):
    r"""Alternating Adam steps on the users' networks and the shared weights.

    A `solver` of :class:`~skdpspectral.LRSMLPRegressor`. All parameters are public and
    fixed before the data are seen.

    Parameters
    ----------
    n_rounds : int or "auto", default="auto"
        Number of steps of the shared weights. With a budget, each step is a release.
        "auto" uses 30 with a budget and 300 without.
    n_local_steps : int or "auto", default="auto"
        Number of steps of the users per round, at least 1. "auto": 5 with a budget, 1
        without.
    n_own_steps : int, default=100
        Number of steps that train a user's network from its start, with the final
        shared weights. They are made in fits with a budget and in ``personalize``.
    learning_rate : float, default=0.03
        Length of the steps of the shared weights. All lengths fall along half a cosine,
        because a schedule that uses the loss would use a statistic of the data.
    user_learning_rate : float, default=0.1
        Length of the users' steps.
    neighbors : {"add-remove-one", "replace-one"}, default="add-remove-one"
        What the guarantee hides: whether a user took part, or everything that a user
        contributed while the number of users is public. "replace-one" needs twice the
        noise.
    init_seed : int, default=0
        Public seed of the initial shared weights.

    Examples
    --------
    >>> from skdpspectral import LRSMLPRegressor
    >>> from skdpspectral.neural_network import AlternatingAdam
    >>> model = LRSMLPRegressor(solver=AlternatingAdam(n_rounds=20))
    >>> len(model.privacy_plan(n_features=5).mechanisms)
    20
    >>> model.set_params(solver__learning_rate=0.1).solver
    AlternatingAdam(learning_rate=0.1, n_rounds=20)
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_rounds": [_COUNT, StrOptions({"auto"})],
        "n_local_steps": [_COUNT, StrOptions({"auto"})],
        "n_own_steps": [_COUNT],
        "learning_rate": [_RATE],
        "user_learning_rate": [_RATE],
        "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
        "init_seed": [Interval(Integral, 0, 2**32 - 1, closed="both")],
    }

    n_rounds: int | str = "auto"
    n_local_steps: int | str = "auto"
    n_own_steps: int = 100
    learning_rate: float = 0.03
    user_learning_rate: float = 0.1
    neighbors: str = "add-remove-one"
    init_seed: int = 0

    def _counts(self, private: bool) -> tuple[int, int]:
        """Return the number of rounds, and of the users' steps in each."""
        rounds, steps = self.n_rounds, self.n_local_steps
        return (
            _ROUNDS[private] if rounds == "auto" else int(rounds),
            _LOCAL_STEPS[private] if steps == "auto" else int(steps),
        )


@register
@dataclass(eq=False, repr=False)
class UserNetwork(BaseEstimator):
    r"""Personal parts of each user's network, in addition to the shared weights.

    A `user_network` of :class:`~skdpspectral.LRSMLPRegressor`, as in
    ``LRSMLPRegressor(user_network=UserNetwork(prompt_size=2))``. All of it is public.

    Parameters
    ----------
    shared_weights : {"user", "fixed"}, default="user"
        "user": each user has weights w on the shared directions. "fixed": all w are 1,
        and U is a central network that users tune sparsely, or one network for all
        users with ``sparsity=0``. "fixed" requires ``n_components=1``.
    prompt_size : int, default=0
        Number of trained features per user, which are appended to each of the user's
        rows.
    fit_intercept : bool, default=True
        Whether each user has an intercept, the mean of their targets, that is added to
        the output of the network.
    ridge_shared : float, default=1.0
        Penalty, as a number of rows, on the squares of the user's trained features and
        of the differences between w and its start, the first direction alone. Setting
        it raises an error if neither is trained.
    ridge_sparse : float, default=1.0
        Penalty on :math:`|b_i|^2`, as a number of rows.
    """

    _parameter_constraints: ClassVar[dict] = {
        "shared_weights": [StrOptions({"user", "fixed"})],
        "prompt_size": [Interval(Integral, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "ridge_shared": [_PENALTIES],
        "ridge_sparse": [_PENALTIES],
    }

    _: KW_ONLY
    shared_weights: str = "user"
    prompt_size: int = 0
    fit_intercept: bool = True
    ridge_shared: float = 1.0
    ridge_sparse: float = 1.0


def n_sparse(sparsity: Any, n_parameters: int) -> int:
    """Return how many weights of a network are the user's own.

    `sparsity` is a number, a share to be rounded up, or None for all.
    """
    if sparsity is None:
        return n_parameters
    whole = isinstance(sparsity, Integral)
    if whole and sparsity >= 0:
        return min(int(sparsity), n_parameters)
    share = isinstance(sparsity, Real) and not whole
    if not share or not 0.0 <= sparsity <= 1.0:
        raise ValueError(
            "sparsity must be a number of weights, a share in [0, 1], or None, got "
            f"{sparsity!r}"
        )
    # As it is written: a share of .07 in 100 weights is 7 of them.
    return math.ceil(Fraction(repr(float(sparsity))) * n_parameters)


@dataclass(frozen=True)
class NetworkModels(UserModels):
    """Parameters of users' networks beside shared weights.

    `weights` are w, `support` and `sparse` are the positions and values of b, of shape
    (n_users, sparsity), and `levels` are added to a user's outputs.
    """

    entries: ClassVar[tuple[str, ...]] = (*NetworkWeights._fields, "levels")
    widened: ClassVar[tuple[str, ...]] = ("support", "sparse")

    prompts: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    levels: np.ndarray

    @classmethod
    def empty(cls, rank: int, prompt_size: int) -> NetworkModels:
        support, sparse = np.empty((0, 0), dtype=np.intp), np.empty((0, 0))
        weights, prompts = np.empty((0, rank)), np.empty((0, prompt_size))
        return cls(None, weights, prompts, support, sparse, np.empty(0))

    def whole_weights(self, code: int, U: np.ndarray) -> np.ndarray:
        """U w + b of one user: (n_parameters,)."""
        return _kernels.whole_weights(U, self._networks(slice(code, code + 1)))[0]

    def _networks(self, chosen) -> NetworkWeights:
        of_users = (self.weights, self.prompts, self.support, self.sparse)
        return NetworkWeights(*of_users).take(chosen)

    def predict(self, table, codes: np.ndarray, U: np.ndarray, layout) -> np.ndarray:
        """Return outputs and levels for rows, each from its user's rows alone.

        Rows of unknown users, with negative codes, are zero.
        """
        out, known = np.zeros(len(codes)), np.flatnonzero(codes >= 0)
        if not len(known):
            return out
        # Stable: a user's rows keep their order, whoever else is there.
        known = known[np.argsort(codes[known], kind="stable")]
        present, dense = np.unique(codes[known], return_inverse=True)
        given = table.X[known], np.zeros(len(known)), dense, len(present)
        rows = per_user.UserRows(*given)
        starts = np.cumsum(rows.counts) - rows.counts
        for block in rows.blocks():
            for place in _kernels.in_parts(block, layout):
                users, counts = block.users[place], block.counts[place]
                own = self._networks(present[users])
                found = _kernels.predictions(layout, U, own, block.X[place])
                found += self.levels[present[users]][:, None]
                there = np.arange(found.shape[1]) < counts[:, None]
                rows_of_users = starts[users][:, None] + np.arange(found.shape[1])
                out[known[rows_of_users[there]]] = found[there]
        return out


@documented
@dataclass(eq=False, repr=False)
class LRSMLPRegressor(
    PersonalEstimator, CallbackSupportMixin, RegressorMixin, PrivateEstimator
):
    r"""One network per user, with low-rank plus sparse weights and user-level privacy.

    The targets of user i are modeled by a tanh network. The vector of all its weights
    and intercepts is :math:`\theta_i = U w_i + b_i`, with shared directions U, weights
    :math:`w_i` of the user and a sparse vector :math:`b_i`. A user can also have an
    intercept and trained features.

    Only U is released, under user-level differential privacy. The personal part of a
    user is trained from U and the user's own rows, and never leaves that user: the
    :ref:`billboard model <billboard>`. Try :class:`~skdpspectral.LRSRegressor` first,
    because it needs far fewer users. Read more in the
    :ref:`user guide <personal_networks>`.

    Parameters
    ----------
    n_components : int, default=1
        Number r of shared directions, at least 0. With 0, no weights are shared
        (``sparsity=None``), and nothing is released.
    sparsity : int, float or None, default=0.01
        Number of weights of a network that are personal: an integer, a share in [0, 1]
        of all weights, rounded up, or None for all weights.
    hidden_layer_sizes : int or array-like of int, default=50
        Widths of up to two hidden layers. An empty list gives a linear model.
    {epsilon}
    {delta}
    user_feature : int, str or None, default=None
        Position or name of the column of X with user ids, as in
        :class:`~skdpspectral.LRSRegressor`. This column is not used as a feature.
    target_bounds : tuple (low, high) or None, default=None
        Public bounds of the targets, which are clipped to these bounds and scaled to
        [-1, 1]. Without bounds, targets are standardized with ``epsilon=None``. With a
        budget they are used unscaled, and should be of the order of one.
    clip_norm : float, default=1.0
        Maximum norm of a user's gradient with respect to U, in [1e-60, 1e60]; longer
        gradients are scaled down. Only used with a budget. Steps of U do not depend on
        the unit: if `clip_norm` is below the norms of the gradients, all users have the
        same weight.
    user_network : "auto" or UserNetwork, default="auto"
        Personal parts of a user's network: intercept, features, penalties. "auto" is
        :class:`~skdpspectral.neural_network.UserNetwork` with its default parameters.
    solver : "auto" or AlternatingAdam, default="auto"
        Training of the networks and U, and the neighbor relation of users. "auto" is
        :class:`~skdpspectral.neural_network.AlternatingAdam` with defaults.
    {accountant}
    {noise_seed}
    {n_jobs}
        Threads share the users.
    verbose : bool or int, default=0
        Whether to print one line per round.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_parameters)
        Shared directions U, one per row.
    weights_ : ndarray of shape (n_components,)
        Weights of the shared network. With ``epsilon=None``, their mean over users;
        with a budget, the first direction alone.
    prompt_ : ndarray of shape (prompt_size,)
        Trained features assigned to unknown users. With ``epsilon=None``, their mean
        over users; with a budget, 0.
    layer_sizes_ : ndarray of int
        Widths of the layers. The first is the number of features including
        `prompt_size`, and the last is 1.
    target_center_, target_scale_ : float
        A prediction is an output times `target_scale_` plus `target_center_`.
    n_iter_ : int
        Number of rounds; 1 if nothing is released.
    {n_features_in_}
        This includes the column of user ids, if any.
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    PrivacyLeakWarning
        If privacy is switched off, if a private fit receives no users, if scores are
        pooled over users, or if the estimator is pickled with the users' networks.

    See Also
    --------
    skdpspectral.LRSRegressor : One linear model per user, which needs fewer users.
    skdpspectral.DPAdamRegressor : One network for all rows.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one user with all of their rows, under addition
    or removal of that user (or replacement, see `neighbors` of `solver`), for any data.
    It covers the public attributes and published copies. It covers neither predictions
    for users of the fit, which only that user may see, nor scores pooled over users
    (:ref:`billboard`).

    In every round each user trains w and b for some steps, and contributes the gradient
    of their mean loss with respect to U, scaled down to a norm of at most `clip_norm`
    (:ref:`lemma-user-gradients`). The number of users is never used. All weights of a
    network get noise, so private networks should be small: you need many more users
    than :math:`\sqrt{2 p r L} / \mu` for p weights, rank r and L rounds.

    Features are used unscaled. Divide them by public constants to be of the order of
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
    _models_class: ClassVar[type] = NetworkModels

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "sparsity": [
            Interval(Integral, 0, None, closed="left"),
            Interval(Real, 0, 1, closed="both"),
            None,
        ],
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
        "user_feature": [Integral, str, None],
        "target_bounds": [tuple, list, np.ndarray, None],
        "clip_norm": [Interval(Real, 1e-60, 1e60, closed="both")],
        "user_network": [StrOptions({"auto"}), UserNetwork],
        "solver": [StrOptions({"auto"}), AlternatingAdam],
        "n_jobs": [Integral, None],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
    }

    n_components: int = 1
    sparsity: float | None = 0.01
    _: KW_ONLY
    hidden_layer_sizes: Any = 50
    epsilon: float | None = 1.0
    delta: float = 1e-6
    user_feature: int | str | None = None
    target_bounds: Any = None
    clip_norm: float = 1.0
    user_network: Any = "auto"
    solver: Any = "auto"
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        hidden_widths(self.hidden_layer_sizes)
        target_box(self.target_bounds, 1)
        own, rank, private = self._own(), self.n_components, self._is_private()
        fixed = own.shared_weights == "fixed"
        everything = self.sparsity is None or (
            not isinstance(self.sparsity, Integral) and self.sparsity == 1.0
        )
        refused = {
            'shared_weights="fixed" requires n_components=1, got '
            f"n_components={rank}": fixed and rank != 1,
            f"ridge_shared={own.ridge_shared!r} is not used with "
            'shared_weights="fixed" and prompt_size=0: leave it at 1.0': (
                fixed and not own.prompt_size and own.ridge_shared != 1.0
            ),
            "n_components=0 requires sparsity=None: without shared weights, all "
            "weights are the user's own": rank == 0 and not everything,
            f"clip_norm={self.clip_norm!r} requires a budget: with epsilon=None no "
            "gradient is clipped. Leave clip_norm=1.0; in a search, use a separate "
            "grid for epsilon=None": not private and self.clip_norm != 1.0,
        }
        for why, wrong in refused.items():
            if wrong:
                raise ValueError(why)

    def _steps(self) -> AlternatingAdam:
        """Return a copy of the solver, safe from changes during a fit."""
        given = self.solver
        return AlternatingAdam() if isinstance(given, str) else snapshot(given)

    def _own(self) -> UserNetwork:
        """Return a copy of the parameters of users' networks."""
        given = self.user_network
        return UserNetwork() if isinstance(given, str) else snapshot(given)

    def _rules(self, layout: Layout, rank: int) -> UserRules:
        """Return the public rules of users' training, for networks of a shape."""
        own, solver = self._own(), self._steps()
        prior = np.zeros(rank)
        prior[:1] = 1.0  # all begin with the first network
        start = public_start(int(solver.init_seed), (rank + 1, layout.n_parameters))
        for column in start:
            scale_first_weights(layout.layers(column))
        return UserRules(
            layout=layout,
            start=np.ascontiguousarray(start.T),
            prior=prior,
            fixed=own.shared_weights == "fixed",
            sparsity=n_sparse(self.sparsity, layout.n_parameters),
            prompt_size=int(own.prompt_size),
            ridge_shared=float(own.ridge_shared),
            ridge_sparse=float(own.ridge_sparse),
            has_level=bool(own.fit_intercept),
            learning_rate=float(solver.user_learning_rate),
            n_own_steps=int(solver.n_own_steps),
        )

    def _statistic(self, n_features: int) -> GradientRounds | ExactWeights:
        """Return the statistic of the shared weights, private or exact."""
        widths = hidden_widths(self.hidden_layer_sizes)
        layout = Layout((n_features + int(self._own().prompt_size), *widths, 1))
        rank = min(int(self.n_components), layout.n_parameters)
        solver, private = self._steps(), self._is_private()
        n_rounds, n_local_steps = solver._counts(private)
        given: dict[str, Any] = {
            "rules": self._rules(layout, rank),
            "n_rounds": n_rounds,
            "n_local_steps": n_local_steps,
            "learning_rate": float(solver.learning_rate),
            "neighbors": Neighbors(solver.neighbors),
            "n_jobs": self.n_jobs,
        }
        if not private:
            return ExactWeights(**given)
        return GradientRounds(**given, clip_norm=float(self.clip_norm))

    def _n_beside(self) -> int:
        return self.user_feature is not None

    @unweighted
    def fit(self, X, y, *, users=None) -> Self:
        """Train the shared weights and the network of every user.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Features of all rows in any order, of the order of one, and the column
            `user_feature`; never modified.
        y : array-like of shape (n_rows,)
            Targets.
        {users_of_fit}

        {outcome_of_fit}
        """
        self._check_parameters()
        private = self._is_private()
        n_rounds = self._steps()._counts(private)[0]
        with self._unchanged_on_error(), fit_progress(self, n_rounds) as progress:
            given = self._ids_of_fit(users), self.user_feature
            table = deferred_users(self, X, *given, reset=True)
            targets = deferred_targets(self, y, table.shape[0])
            statistic = self._statistic(table.shape[1])
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
            users, levels = found.users, found.levels
            if users is None:  # each by their own rows and U
                how = statistic.rules, self.n_jobs
                users, levels = train_users(rows, found.U, *how)
            self._keep(found, statistic.rules.layout)
            self.target_center_, self.target_scale_ = box
            self._personal = NetworkModels.cleaned(index, *users, levels)
            self._users_given = index is not None
            self.privacy_ = plan
        return self

    def _units(self, targets: np.ndarray, private: bool) -> tuple[float, float]:
        """Return center and scale of targets; without privacy, those of the data.

        The charged plan decides, as parameters may have changed since.
        """
        if self.target_bounds is None and not private:
            center, scale = float(targets.mean()), float(targets.std())
            if not np.isfinite((center, scale)).all():
                raise ValueError(TOO_LARGE)
            return center, scale if scale > 0.0 else 1.0
        middles, halves = target_box(self.target_bounds, 1)
        return float(middles[0]), float(halves[0])

    def _user_rows(self, table, targets, index, box) -> per_user.UserRows:
        scaled = (targets - box[0]) / box[1]
        if self.target_bounds is not None:
            scaled = scaled_targets(targets, box)
        return rows_by_user(table, scaled, index)

    def _keep(self, found, layout: Layout) -> None:
        """Set the public attributes of a fit."""
        self.components_ = np.ascontiguousarray(found.U.T)
        self.weights_ = np.array(found.weights, dtype=np.float64)
        self.prompt_ = np.array(found.prompt, dtype=np.float64)
        self.layer_sizes_ = np.array(layout.sizes)
        self.n_iter_ = found.n_iter

    # -- the users' side: no budget is spent -----------------------------------------

    def _models(self) -> NetworkModels:
        empty = NetworkModels.empty(len(self.components_), len(self.prompt_))
        return getattr(self, "_personal", empty)

    def _fitted_layout(self) -> Layout:
        return Layout(tuple(int(size) for size in self.layer_sizes_))

    def _shared_prediction(self) -> str:
        return "the shared network (weights_ @ components_, prompt_)"

    def _predicted(self, table: UserTable, codes: np.ndarray) -> np.ndarray:
        layout, unknown = self._fitted_layout(), np.flatnonzero(codes < 0)
        U = np.ascontiguousarray(self.components_.T)
        found = self._models().predict(table, codes, U, layout)
        if len(unknown):
            rows = np.asarray(table.features(unknown), dtype=np.float64)
            prompts = np.broadcast_to(self.prompt_, (len(rows), len(self.prompt_)))
            layers = layout.layers(self._shared_network())
            outputs = _kernels.outputs_of(layers, np.hstack([rows, prompts]), "tanh")
            found[unknown] = outputs[:, 0]
        return self.target_center_ + self.target_scale_ * found

    def _read_like_fit(self, X, users) -> tuple[UserTable, float]:
        table = read_users(self, X, users, self.user_feature, reset=False)
        n_features = int(self.layer_sizes_[0]) - len(self.prompt_)
        if table.n_features != n_features:
            raise ValueError(
                f"X has {table.n_features} features without users, but fit had "
                f"{n_features}: user_feature was changed since fit"
            )
        return table, 0.0

    def _units_of_fit(self) -> tuple[float, float]:
        units = self.target_center_, self.target_scale_
        if self.target_bounds is not None:
            middles, halves = target_box(self.target_bounds, 1)
            if (middles[0], halves[0]) != units:
                raise ValueError(
                    f"target_bounds={self.target_bounds!r} differ from the bounds in "
                    "fit, which set the units of the shared weights: restore them, or "
                    "fit again"
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
            User id. None selects the only user of a fit without users.

        Returns
        -------
        coefs, intercepts : list of ndarray
            Parameters of each layer, of shapes (n_inputs, n_outputs) and (n_outputs,).
            The user's trained features come after the features of rows. A prediction is
            the output times `target_scale_` plus :meth:`get_intercept`. Unknown users
            get the layers of the shared network.

        Raises
        ------
        ValueError
            If the id is missing or of another type.
        """
        code, whole = self._code_of(user), self._shared_network()
        if code >= 0:
            U = np.ascontiguousarray(self.components_.T)
            whole = self._models().whole_weights(code, U)
        layers = self._fitted_layout().layers(whole)
        coefs = [layer[:-1].copy() for layer in layers]
        return coefs, [layer[-1].copy() for layer in layers]

    def get_prompt(self, user=None):
        """Return one user's trained features, for that user alone."""
        code = self._code_of(user)
        return (self.prompt_ if code < 0 else self._models().prompts[code]).copy()

    def get_intercept(self, user=None):
        """Return one user's intercept in the units of the targets."""
        code = self._code_of(user)
        level = 0.0 if code < 0 else float(self._models().levels[code])
        return self.target_center_ + self.target_scale_ * level

    def _fit_users(self, table: UserTable, y, index) -> NetworkModels:
        rows = self._user_rows(table, y, index, self._units_of_fit())
        rules = self._rules(self._fitted_layout(), len(self.components_))
        U = np.ascontiguousarray(self.components_.T)
        users, levels = train_users(rows, U, rules, self.n_jobs)
        return NetworkModels.cleaned(index, *users, levels)
