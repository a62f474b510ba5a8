"""Parameters of LRSMLPRegressor: strategies, checks, and their statistic."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import check_arguments, register, snapshot
from .._release.noise import public_start
from ..mechanisms import Neighbors, check_count
from ._estimators import hidden_widths, scale_first_weights, target_box
from ._kernels import Layout
from ._shared_weights import ExactWeights, GradientRounds, SharedSteps, UserRules

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
        Length of the steps of the shared weights.
    user_learning_rate : float, default=0.1
        Length of the users' steps.
    weight_decay : float, default=0.0
        Share of the shared weights removed by each step, divided by the step length.
    schedule : {"cosine", "constant"}, default="cosine"
        Schedule of the step lengths. No schedule uses the loss, because it is a
        statistic of the data.
    batch_size : int or None, default=None
        Number of rows that each user uses in one step of a round. Batches take rows in
        turn, in a public order. None uses all rows.
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
        "weight_decay": [Interval(Real, 0, 1e60, closed="left")],
        "schedule": [StrOptions({"cosine", "constant"})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
        "init_seed": [Interval(Integral, 0, 2**32 - 1, closed="both")],
    }

    n_rounds: int | str = "auto"
    n_local_steps: int | str = "auto"
    n_own_steps: int = 100
    learning_rate: float = 0.03
    user_learning_rate: float = 0.1
    weight_decay: float = 0.0
    schedule: str = "cosine"
    batch_size: int | None = None
    neighbors: str = "add-remove-one"
    init_seed: int = 0

    def _counts(self, private: bool) -> tuple[int, int]:
        """Return the number of rounds, and of the users' steps in each."""
        rounds, steps = self.n_rounds, self.n_local_steps
        return (
            _ROUNDS[private] if rounds == "auto" else int(rounds),
            _LOCAL_STEPS[private] if steps == "auto" else int(steps),
        )


RIDGE_SHARED = 1.0


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
    ridge_intercept : float, default=0.0
        Penalty on the squared intercept, as a number of rows: the intercept of a user
        with this many rows is shrunk by one half. It is measured from the middle of
        `target_bounds`. Setting it raises an error with ``fit_intercept=False``.
    ridge_shared : float, default=1.0
        Penalty, as a number of rows, on the squares of the user's trained features and
        of the differences between w and its start, the first direction alone. Setting
        it raises an error if neither is trained.
    ridge_sparse : float, default=1.0
        Penalty on :math:`|b_i|^2`, as a number of rows.
    unknown_user : {"shared", "raise"}, default="shared"
        How predictions treat users that were not in the fit. "shared" uses the shared
        network, with a warning that counts their rows. "raise" requires
        ``epsilon=None``.
    """

    _parameter_constraints: ClassVar[dict] = {
        "shared_weights": [StrOptions({"user", "fixed"})],
        "prompt_size": [Interval(Integral, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "ridge_intercept": [_PENALTIES],
        "ridge_shared": [_PENALTIES],
        "ridge_sparse": [_PENALTIES],
        "unknown_user": [StrOptions({"shared", "raise"})],
    }

    _: KW_ONLY
    shared_weights: str = "user"
    prompt_size: int = 0
    fit_intercept: bool = True
    ridge_intercept: float = 0.0
    ridge_shared: float = RIDGE_SHARED
    ridge_sparse: float = 1.0
    unknown_user: str = "shared"


_ROUNDING: dict[str, list] = {"rounding": [StrOptions({"user", "all"})]}


def count_parameters(
    n_features,
    n_users,
    *,
    hidden_layer_sizes=50,
    n_components=1,
    sparsity=0.0,
    shared_weights="user",
    prompt_size=0,
    rounding="user",
):
    r"""Count the trained parameters of the networks of all users together.

    The count includes U, the weights w, the sparse parts b (without their positions)
    and the users' trained features. It excludes the users' intercepts.

    Parameters
    ----------
    n_features : int
        Number of features.
    n_users : int
        Number of users.
    hidden_layer_sizes, n_components, sparsity
        As in :class:`~skdpspectral.LRSMLPRegressor`.
    shared_weights, prompt_size
        As in :class:`~skdpspectral.neural_network.UserNetwork`.
    rounding : {"user", "all"}, default="user"
        Whether a share of weights is rounded up per user, as in the estimator, or once.

    Returns
    -------
    int
        Number of parameters.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    Examples
    --------
    >>> from skdpspectral.neural_network import count_parameters
    >>> count_parameters(50, 241, hidden_layer_sizes=(50, 50), sparsity=0.01)
    17924
    >>> one = {"n_components": 1, "shared_weights": "fixed"}
    >>> count_parameters(50, 241, hidden_layer_sizes=(50, 50), **one)
    5151
    """
    n_users = check_count("n_users", n_users)
    given = {"n_components": n_components, "prompt_size": prompt_size}
    given |= {"shared_weights": shared_weights, "rounding": rounding}
    known = {**NETWORK_CONSTRAINTS, **UserNetwork._parameter_constraints}
    check_arguments("count_parameters", known | _ROUNDING, given)
    inputs = check_count("n_features", n_features) + int(prompt_size)
    p = Layout((inputs, *hidden_widths(hidden_layer_sizes), 1)).n_parameters
    own = n_components if shared_weights == "user" else 0
    total = p * n_components + n_users * (own + prompt_size)
    return int(total + _n_sparse(sparsity, p, n_users, rounding))


def _n_sparse(sparsity: Any, p: int, n_users: int, rounding: str) -> int:
    each = n_sparse(sparsity, p)
    if rounding == "user":
        return n_users * each
    share = Fraction(1) if sparsity is None else Fraction(repr(float(sparsity)))
    whole = Fraction(sparsity) if isinstance(sparsity, Integral) else share * p
    return math.ceil(min(whole, Fraction(p)) * n_users)


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


CLIP_NORM = 1.0

# Constructor parameters, each on its own; those of budgets are every estimator's.
NETWORK_CONSTRAINTS = {
    "n_components": [Interval(Integral, 0, None, closed="left")],
    "sparsity": [
        Interval(Integral, 0, None, closed="left"),
        Interval(Real, 0, 1, closed="both"),
        None,
    ],
    "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
    "user_feature": [Integral, str, None],
    "target_bounds": [tuple, list, np.ndarray, None],
    "clip_norm": [Interval(Real, 1e-60, 1e60, closed="both")],
    "user_network": [StrOptions({"auto"}), UserNetwork],
    "solver": [StrOptions({"auto"}), AlternatingAdam],
    "n_jobs": [Integral, None],
    "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
}


def check_network_parameters(model) -> None:
    """Refuse combinations of individually valid parameters."""
    hidden_widths(model.hidden_layer_sizes)
    target_box(model.target_bounds, 1)
    own = user_network_of(model)
    if not own.fit_intercept and own.ridge_intercept:
        raise ValueError(
            f"ridge_intercept={own.ridge_intercept!r} is not used with "
            "fit_intercept=False: leave ridge_intercept=0.0, or fit_intercept=True"
        )
    if own.shared_weights == "fixed" and model.n_components != 1:
        raise ValueError(
            'shared_weights="fixed" requires n_components=1, got '
            f"n_components={model.n_components}"
        )
    unused = own.shared_weights == "fixed" and not own.prompt_size
    if unused and own.ridge_shared != RIDGE_SHARED:
        raise ValueError(
            f"ridge_shared={own.ridge_shared!r} is not used with "
            f'shared_weights="fixed" and prompt_size=0: leave it at {RIDGE_SHARED}'
        )
    whole = isinstance(model.sparsity, Integral)
    if model.n_components == 0 and (whole or model.sparsity not in (None, 1.0)):
        raise ValueError(
            "n_components=0 requires sparsity=None: without shared weights, all "
            "weights are the user's own"
        )
    if not model._is_private() and model.clip_norm != CLIP_NORM:
        raise ValueError(
            f"clip_norm={model.clip_norm!r} requires a budget: with epsilon=None no "
            f"gradient is clipped. Leave clip_norm={CLIP_NORM}; in a search, use a "
            "separate grid for epsilon=None"
        )
    if model._is_private() and own.unknown_user == "raise":
        raise ValueError(
            'unknown_user="raise" requires epsilon=None: an error would reveal who was '
            'in the training set. Use unknown_user="shared"'
        )


def network_solver(model) -> AlternatingAdam:
    """Return a copy of the solver, safe from changes during a fit."""
    given = model.solver
    return AlternatingAdam() if isinstance(given, str) else snapshot(given)


def user_network_of(model) -> UserNetwork:
    """Return a copy of the parameters of users' networks."""
    given = model.user_network
    return UserNetwork() if isinstance(given, str) else snapshot(given)


class NetworkShape(NamedTuple):
    """Shapes of networks and of their shared weights.

    `layout` includes the users' own features; `rank` is the number of shared
    directions.
    """

    layout: Layout
    rank: int
    prompt_size: int


def network_shape(model, own: UserNetwork, n_features: int) -> NetworkShape:
    """Return the shapes for a number of features."""
    inputs = n_features + int(own.prompt_size)
    layout = Layout((inputs, *hidden_widths(model.hidden_layer_sizes), 1))
    rank = min(int(model.n_components), layout.n_parameters)
    return NetworkShape(layout, rank, int(own.prompt_size))


def rules_of(
    sparsity, shape: NetworkShape, own: UserNetwork, solver: AlternatingAdam
) -> UserRules:
    """Return the public rules of users' training, for networks of a shape."""
    layout = shape.layout
    prior = np.zeros(shape.rank)
    prior[:1] = 1.0  # all begin with the first network
    return UserRules(
        layout=layout,
        start=_start(int(solver.init_seed), len(prior), layout),
        prior=prior,
        fixed=own.shared_weights == "fixed",
        sparsity=n_sparse(sparsity, layout.n_parameters),
        prompt_size=shape.prompt_size,
        ridge_shared=float(own.ridge_shared),
        ridge_sparse=float(own.ridge_sparse),
        ridge_level=float(own.ridge_intercept) if own.fit_intercept else None,
        learning_rate=float(solver.user_learning_rate),
        schedule=solver.schedule,
        batch_size=solver.batch_size,
        n_own_steps=int(solver.n_own_steps),
    )


def _start(seed: int, rank: int, layout: Layout) -> np.ndarray:
    """Return public initial weights: (n_parameters, 1 + rank)."""
    columns = public_start(seed, (rank + 1, layout.n_parameters))
    for column in columns:
        scale_first_weights(layout.layers(column))
    return np.ascontiguousarray(columns.T)


def statistic_of(model, n_features: int) -> GradientRounds | ExactWeights:
    """Return the statistic of the shared weights, private or exact."""
    solver, own, private = (
        network_solver(model),
        user_network_of(model),
        model._is_private(),
    )
    n_rounds, n_local_steps = solver._counts(private)
    steps = SharedSteps(
        n_rounds,
        n_local_steps,
        learning_rate=float(solver.learning_rate),
        weight_decay=float(solver.weight_decay),
        schedule=solver.schedule,
    )
    rules = rules_of(model.sparsity, network_shape(model, own, n_features), own, solver)
    neighbors = Neighbors(solver.neighbors)
    if not private:
        return ExactWeights(rules, steps, neighbors, model.n_jobs)
    return GradientRounds(rules, steps, float(model.clip_norm), neighbors, model.n_jobs)
