"""One network for each user: low rank plus sparse, with private shared weights.

A user's network is trained from that user's rows and the shared weights alone.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.personal import PersonalEstimator, UserModels, rows_by_user
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._linalg import per_user
from .._release.noise import public_start
from .._statistics.statistic import Statistic
from .._statistics.user_sums import planned_sum, released_sum
from .._tables.table import UserTable, deferred_targets, deferred_users, read_users
from ..accounting import PrivacyAccountant
from ..mechanisms import Concern, Exact, Mechanism, Neighbors, Remark
from . import _kernels
from ._adam import Adam, AdamState
from ._estimators import SIZES, hidden_widths, scale_first_weights
from ._kernels import Layout, NetworkWeights

# With a budget each round is paid for; without one it is not.
_ROUNDS = {True: 30, False: 300}
_LOCAL_STEPS = {True: 5, False: 1}
_COUNT = Interval(Integral, 1, 100_000, closed="both")
# When users choose anew which weights are theirs: shares of all steps.
_CHOICES = (0.2, 0.4, 0.6)
# What a reader of the guarantee must know of networks that rest on shared weights.
_BILLBOARD = Remark(
    "Weights, own features, sparse parts and intercepts stay with their users: "
    "predictions for a user in the training data are for that user only (billboard "
    "model).",
    Concern.TRUST,
)


def new_adam(learning_rate: float, moments: str = "pp", std: float = 0.0) -> AdamState:
    """Return Adam for gradients with independent noise of a public deviation."""
    return AdamState(Adam(learning_rate, moments=moments), (std, 0.0))


def rate_of(position: int, n_steps: int) -> float:
    """Return the factor of a step's length; it starts at 1."""
    return 0.5 * (1.0 + math.cos(math.pi * position / n_steps))


# -- training, private or exact --------------------------------------------------------


class UserRules:
    """Public numbers of users' training: of networks of a shape, and of a model."""

    def __init__(self, model: LRSMLPRegressor, layout: Layout, rank: int) -> None:
        # The users' own features are among the inputs of the layout.
        self.model, self.layout, self.rank = model, layout, rank
        start = public_start(0, (rank + 1, layout.n_parameters))
        for column in start:
            scale_first_weights(layout.layers(column))
        # Of users who share none, and shared ones.
        self._own_start, self.first_U = start[0], np.ascontiguousarray(start[1:].T)
        # The start of w, to which w is shrunk, or w itself.
        self.prior = np.eye(1, rank)[0]  # all begin with the first network
        self.sparsity = n_sparse(model.sparsity, layout.n_parameters)
        # Whether all weights belong to the user.
        self.free = self.sparsity == layout.n_parameters

    def first_networks(self, n_users: int) -> NetworkWeights:
        k = self.sparsity if self.free else 0
        first = np.zeros(k) if self.rank else self._own_start[:k]
        alike = self.prior, np.zeros(self.model.prompt_size), np.arange(k), first
        each = [np.tile(values, (n_users, 1)) for values in alike]
        return NetworkWeights(*each, np.zeros(n_users))

    def own_adam(self) -> AdamState:
        """Return Adam for the exact gradients of users."""
        return new_adam(self.model.user_learning_rate)


class UserFits:
    """Networks of all users in training, for `n_steps` steps of each user."""

    def __init__(self, rules: UserRules, n_steps: int) -> None:
        self.rules, self.n_steps = rules, n_steps
        self._parts: dict[int, SimpleNamespace] = {}
        chosen = rules.sparsity and not rules.free
        # Before these steps, users update their supports.
        self._choices = {int(share * n_steps) for share in _CHOICES if chosen}

    def parts(self, block) -> list[tuple[SimpleNamespace, slice]]:
        """Return networks and Adams of users who train together, and their slices."""
        found, rules = [], self.rules
        for place in _kernels.in_parts(block, rules.layout):
            codes = block.users[place]
            key = int(codes[0])
            if key not in self._parts:
                users = rules.first_networks(len(codes))
                adams = [rules.own_adam() for _ in range(2)]
                self._parts[key] = SimpleNamespace(users=users, adams=adams)
            found.append((self._parts[key], place))
        return found

    def _rows(self, block, place: slice) -> tuple:
        return _kernels.rows_of(block, place, self.rules.model.fit_intercept)

    def steps(self, block, U: np.ndarray, position: int, n_steps: int):
        """Train users; yield gradients and w, before the last step, and row counts."""
        for part, place in self.parts(block):
            rows, _ = self._rows(block, place)
            for number in range(position, position + n_steps):
                given = self._step(part, rows, U, number)
            yield *given, rows.counts

    def _step(self, part, rows, U, position: int):
        """Make one step of some users; return gradients and weights before it."""
        rules, users = self.rules, part.users
        whole = _kernels.whole_weights(U, users)
        if position in self._choices:
            how = rules.sparsity, rules.model.ridge_sparse
            users = _kernels.chosen_support(rules.layout, whole, users, rows, *how)
            part.adams[1] = rules.own_adam()  # places of b have changed
            whole = _kernels.whole_weights(U, users)
        found, *rest = _kernels.user_gradients(rules.layout, whole, users.prompts, rows)
        rate = rate_of(position, self.n_steps)
        part.users = self._moved(part, users, found, *rest, rows.counts, U, rate)
        return found, users.weights

    def _moved(self, part, users, found, of_prompts, counts, U, rate: float):
        """Return the users' parameters after a step of Adam."""
        rules, model, shares = self.rules, self.rules.model, 1.0 / counts[:, None]
        penalty = model.ridge_shared * shares
        of_weights = np.zeros_like(users.weights)
        if model.shared_weights != "fixed":
            of_weights = _kernels.project_gradients(found, U)
            of_weights += penalty * (users.weights - rules.prior)
        of_prompts = of_prompts + penalty * users.prompts
        step = part.adams[0].push(np.hstack([of_weights, of_prompts]), None)
        sparse = users.sparse
        if sparse.shape[1]:
            of_sparse = np.take_along_axis(found, users.support, axis=1)
            of_sparse = of_sparse + model.ridge_sparse * shares * sparse
            sparse = sparse + rate * part.adams[1].push(of_sparse, None)
        return users._replace(
            weights=users.weights + rate * step[:, : rules.rank],
            prompts=users.prompts + rate * step[:, rules.rank :],
            sparse=sparse,
        )

    def collected(self, rows) -> NetworkWeights:
        """Return the parameters of all users."""
        users, n = self.rules.first_networks(rows.n_users), rows.n_users
        b = np.zeros((n, self.rules.sparsity))
        users = users._replace(support=b.astype(np.intp), sparse=b)
        for block in rows.blocks():
            for own, place in self.parts(block):
                codes = block.users[place]
                for everybody, some in zip(users[:-1], own.users[:-1], strict=True):
                    everybody[codes, : some.shape[1]] = some
                users.levels[codes] = self._rows(block, place)[1]
        return users


def train_users(rows, U: np.ndarray, rules: UserRules) -> NetworkWeights:
    """Train all users with fixed shared weights; return their parameters."""
    n_steps = rules.model.n_own_steps
    fits = UserFits(rules, n_steps)

    def part(block):
        for _ in fits.steps(block, U, 0, n_steps):
            pass

    rows.map(part, rules.model.n_jobs)
    return fits.collected(rows)


class GradientRounds(Statistic):
    """Rounds in which users train at U, and their clipped gradients by U are summed."""

    def __init__(self, rules: UserRules) -> None:
        self.rules, self.model = rules, rules.model
        private, n_rounds = self.model._is_private(), self.model.n_rounds
        self.n_rounds = _ROUNDS[private] if n_rounds == "auto" else int(n_rounds)
        self.n_local_steps = _LOCAL_STEPS[private]
        self.neighbors = Neighbors(self.model.neighbors)
        # One release a round; none where nothing is shared.
        n_rounds = self.n_rounds if rules.rank or not private else 0
        self.names = tuple(f"gradients_{n}" for n in range(1, n_rounds + 1))

    def remarks(self) -> tuple[str, ...]:
        return (_BILLBOARD,)

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the rounds, each a sum over users of one vector of norm at most 1."""
        if not (names := self.names):
            return ()
        width = self.rules.layout.n_parameters * self.rules.rank
        each = mu / math.sqrt(len(names))
        return planned_sum(names[0], width, self.neighbors, each).repeated(names)

    def run(self, release, rows, progress: Any) -> tuple:
        """Train U from public weights; nothing else depends on more than one user."""
        fits = UserFits(self.rules, self.n_rounds * self.n_local_steps)
        U, adam, number = self.rules.first_U, None, 0
        for number, name in enumerate(self.names, 1):
            # Users answer from their own rows and earlier releases alone.
            gradient, how = self._gradient(release, name, rows, fits, U, number - 1)
            adam = adam or new_adam(self.model.learning_rate, *how)
            if self.rules.rank:
                rate = rate_of(number - 1, self.n_rounds)
                U = U + rate * adam.push(gradient, None)
            if progress.step(number):  # of exact fits alone
                break
        return U, max(number, 1), *self._beside(release, rows, fits, U)

    def _trained(self, fits: UserFits, block, U: np.ndarray, number: int):
        """Train the users of a block in round `number`, counted from 0."""
        n_steps = self.n_local_steps
        return fits.steps(block, U, number * n_steps, n_steps)

    def _gradient(self, release, name, rows, fits: UserFits, U, number: int) -> tuple:
        """Release the sum of the users' clipped gradients, in units of the clip."""

        def contributions(block, rows):
            for gradients, weights, _ in self._trained(fits, block, U, number):
                scaled = gradients / float(self.model.clip_norm)
                outer = weights[:, :, None] * scaled[:, None]
                yield outer.reshape(len(outer), -1)

        total = released_sum(release, name, rows, contributions, self.model.n_jobs)
        gradient = total.reshape(U.shape[::-1]).T
        return gradient, ("pp-debiased", release.plan[name].noise_std)

    def _beside(self, release, rows, fits: UserFits, U) -> tuple:
        """Return public w and own features of unknown users, and users' networks."""
        prompt = np.zeros(self.model.prompt_size)
        return self.rules.prior, prompt, None


class ExactWeights(GradientRounds):
    """Shared weights and all users' networks, trained together without noise."""

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        shape = (self.rules.rank, self.rules.layout.n_parameters)
        return (Exact("components", shape),)

    def _gradient(self, release, name, rows, fits: UserFits, U, number: int) -> tuple:
        """Return the mean gradient, in which rows count equally."""

        def part(block):
            total = np.zeros(U.shape)
            for gradients, weights, counts in self._trained(fits, block, U, number):
                total += gradients.T @ (counts[:, None] * weights)
            return total

        total = sum(rows.map(part, self.model.n_jobs))
        return total / max(int(rows.counts.sum()), 1), ()

    def _beside(self, release, rows, fits: UserFits, U) -> tuple:
        """Release U; return means over users, and the networks of all users."""
        users = fits.collected(rows)
        squares = [np.vdot(block.y, block.y) for block in rows.blocks()]
        found = (U, *users, squares)
        if not all(np.isfinite(part).all() for part in found):
            raise ValueError(
                "X or y contains numbers whose squares are out of the range of "
                "float64: choose other units"
            )
        release("components", np.ascontiguousarray(U.T))
        return users.weights.mean(axis=0), users.prompts.mean(axis=0), users


# -- users' models, and the estimator --------------------------------------------------


def n_sparse(sparsity: float | None, n_parameters: int) -> int:
    """Return how many weights are the user's own, by a number, a share or None."""
    if sparsity is None:
        return n_parameters
    if isinstance(sparsity, Integral):
        return min(int(sparsity), n_parameters)
    # As it is written: a share of .07 in 100 weights is 7 of them.
    return math.ceil(Fraction(repr(float(sparsity))) * n_parameters)


@dataclass(frozen=True)
class NetworkModels(UserModels):
    """Parameters of users' networks, and `levels`, which are added to their outputs."""

    entries: ClassVar[tuple[str, ...]] = NetworkWeights._fields
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

    def networks(self, chosen) -> NetworkWeights:
        return NetworkWeights(**self.arrays()).take(chosen)

    def predict(self, table, codes: np.ndarray, U: np.ndarray, layout) -> np.ndarray:
        """Return outputs and levels for rows; those of unknown users are zero."""
        out, known = np.zeros(len(codes)), np.flatnonzero(codes >= 0)
        if not len(known):
            return out
        # Stable: a user's rows keep their order, whoever else is there.
        known = known[np.argsort(codes[known], kind="stable")]
        present, dense = np.unique(codes[known], return_inverse=True)
        given = table.X[known], np.zeros(len(known)), dense, len(present)
        rows = per_user.GroupedRows(*given)
        starts = np.cumsum(rows.counts) - rows.counts
        for block in rows.blocks():
            for place in _kernels.in_parts(block, layout):
                users, counts = block.users[place], block.counts[place]
                own = self.networks(present[users])
                whole, X = _kernels.whole_weights(U, own), block.X[place]
                found = _kernels.user_activations(layout, whole, own.prompts, X)[-1]
                found = found[:, :, 0] + own.levels[:, None]
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
    clip_norm : float, default=1.0
        Maximum norm of a user's gradient with respect to U, in [1e-60, 1e60]; longer
        gradients are scaled down. Only used with a budget. Steps of U do not depend on
        the unit: if `clip_norm` is below the norms of the gradients, all users have the
        same weight.
    n_rounds : int or "auto", default="auto"
        Number of steps of the shared weights. With a budget, each step is a release.
        "auto" uses 30 with a budget and 300 without. In each round, users make 5 steps
        with a budget, and 1 without.
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
    or removal of that user (or replacement, see `neighbors`), for any data.
    It covers the public attributes and published copies. It covers neither predictions
    for users of the fit, which only that user may see, nor scores pooled over users
    (:ref:`billboard`).

    In every round each user trains w and b for some steps, and contributes the gradient
    of their mean loss with respect to U, scaled down to a norm of at most `clip_norm`
    (:ref:`lemma-user-gradients`). The number of users is never used. All weights of a
    network get noise, so private networks should be small: you need many more users
    than :math:`\sqrt{2 p r L} / \mu` for p weights, rank r and L rounds.

    Features and targets are used unscaled. Divide them by public constants to be of the
    order of one.

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

    _array_parameters: ClassVar[tuple[str, ...]] = ("hidden_layer_sizes",)
    _models_class: ClassVar[type] = NetworkModels

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "sparsity": [
            Interval(Integral, 0, None, closed="left"),
            Interval(Real, 0, 1, closed="both"),
            None,
        ],
        "hidden_layer_sizes": SIZES,
        "user_feature": [Integral, str, None],
        "shared_weights": [StrOptions({"user", "fixed"})],
        "prompt_size": [Interval(Integral, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "ridge_shared": [Interval(Real, 0, 1e60, closed="both")],
        "ridge_sparse": [Interval(Real, 0, 1e60, closed="both")],
        "clip_norm": [Interval(Real, 1e-60, 1e60, closed="both")],
        "n_rounds": [_COUNT, StrOptions({"auto"})],
        "n_own_steps": [_COUNT],
        "learning_rate": [Interval(Real, 0, 1e60, closed="neither")],
        "user_learning_rate": [Interval(Real, 0, 1e60, closed="neither")],
        "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
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
    shared_weights: str = "user"
    prompt_size: int = 0
    fit_intercept: bool = True
    ridge_shared: float = 1.0
    ridge_sparse: float = 1.0
    clip_norm: float = 1.0
    n_rounds: int | str = "auto"
    n_own_steps: int = 100
    learning_rate: float = 0.03
    user_learning_rate: float = 0.1
    neighbors: str = "add-remove-one"
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        hidden_widths(self.hidden_layer_sizes)
        rank, fixed = self.n_components, self.shared_weights == "fixed"
        everything = self.sparsity is None or (
            not isinstance(self.sparsity, Integral) and self.sparsity == 1.0
        )
        refused = {
            'shared_weights="fixed" requires n_components=1, got '
            f"n_components={rank}": fixed and rank != 1,
            f"ridge_shared={self.ridge_shared!r} is not used with "
            'shared_weights="fixed" and prompt_size=0: leave it at 1.0': (
                fixed and not self.prompt_size and self.ridge_shared != 1.0
            ),
            "n_components=0 requires sparsity=None: without shared weights, all "
            "weights are the user's own": rank == 0 and not everything,
            f"clip_norm={self.clip_norm!r} requires a budget: with epsilon=None no "
            "gradient is clipped. Leave clip_norm=1.0; in a search, use a separate "
            "grid for epsilon=None": not self._is_private() and self.clip_norm != 1.0,
        }
        for why, wrong in refused.items():
            if wrong:
                raise ValueError(why)

    def _statistic(self, n_features: int) -> GradientRounds:
        """Return the statistic of the shared weights, private or exact."""
        widths = hidden_widths(self.hidden_layer_sizes)
        layout = Layout((n_features + int(self.prompt_size), *widths, 1))
        rank = min(int(self.n_components), layout.n_parameters)
        kind = GradientRounds if self._is_private() else ExactWeights
        return kind(UserRules(self, layout, rank))

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
        with self._unchanged_on_error():
            self._check_parameters()
            given = self._ids_of_fit(users), self.user_feature
            table = deferred_users(self, X, *given, reset=True)
            targets = deferred_targets(self, y, table.shape[0])
            statistic = self._statistic(table.shape[1])
            self._warn_of_one_user(table)
            plan = self._plan(statistic)
            with fit_progress(self, statistic.n_rounds) as progress:
                # It is charged here; values, ids among them, are read from here on.
                release, read, targets = self._start_release(plan, table, targets)
                index = self._index(read)
                rows = rows_by_user(read, targets, index)
                progress.begin(X, targets, plan)
                found = statistic.run(release, rows, progress)
                U, self.n_iter_, self.weights_, self.prompt_, networks = found
                if networks is None:  # each by their own rows and U
                    networks = train_users(rows, U, statistic.rules)
            self.components_ = np.ascontiguousarray(U.T)
            self.layer_sizes_ = np.array(statistic.rules.layout.sizes)
            self._personal = NetworkModels.cleaned(index, *networks)
            self._users_given = index is not None
            self.privacy_ = plan
        return self

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
            outputs = _kernels.outputs_of(layers, np.hstack([rows, prompts]))
            found[unknown] = outputs[:, 0]
        return found

    def _read_like_fit(self, X, users) -> tuple[UserTable, float]:
        table = read_users(self, X, users, self.user_feature, reset=False)
        n_features = int(self.layer_sizes_[0]) - len(self.prompt_)
        if table.n_features != n_features:
            raise ValueError(
                f"X has {table.n_features} features without users, but fit had "
                f"{n_features}: user_feature was changed since fit"
            )
        return table, 0.0

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
            The user's trained features are part of the first layer's intercepts, and
            the user's own intercept of the last layer's. Unknown users get the shared
            network.

        Raises
        ------
        ValueError
            If the id is missing or of another type.
        """
        code = self._code_of(user)
        whole, prompt, level = self._shared_network(), self.prompt_, 0.0
        if code >= 0:
            own = self._models().networks([code])
            (whole,) = _kernels.whole_weights(self.components_.T, own)
            (prompt,), (level,) = own.prompts, own.levels
        layers = self._fitted_layout().layers(whole)
        coefs = [layer[:-1].copy() for layer in layers]
        intercepts = [layer[-1].copy() for layer in layers]
        coefs[0], own = np.split(coefs[0], [len(coefs[0]) - len(prompt)])
        intercepts[0] += prompt @ own
        intercepts[-1] += level
        return coefs, intercepts

    def _fit_users(self, table: UserTable, y, index) -> NetworkModels:
        rows = rows_by_user(table, y, index)
        rules = UserRules(self, self._fitted_layout(), len(self.components_))
        U = np.ascontiguousarray(self.components_.T)
        networks = train_users(rows, U, rules)
        return NetworkModels.cleaned(index, *networks)
