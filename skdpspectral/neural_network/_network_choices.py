"""Parameters of LRSMLPRegressor: strategies, checks, and their statistic."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register, snapshot
from .._release.noise import public_start
from ..mechanisms import Neighbors
from ._estimators import hidden_widths, scale_first_weights, target_box
from ._kernels import Layout
from ._shared_weights import ExactWeights, GradientRounds, UserRules

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
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
        "init_seed": [Interval(Integral, 0, 2**32 - 1, closed="both")],
    }

    n_rounds: int | str = "auto"
    n_local_steps: int | str = "auto"
    n_own_steps: int = 100
    learning_rate: float = 0.03
    user_learning_rate: float = 0.1
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
    """

    _parameter_constraints: ClassVar[dict] = {
        "shared_weights": [StrOptions({"user", "fixed"})],
        "prompt_size": [Interval(Integral, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "ridge_intercept": [_PENALTIES],
        "ridge_shared": [_PENALTIES],
        "ridge_sparse": [_PENALTIES],
    }

    _: KW_ONLY
    shared_weights: str = "user"
    prompt_size: int = 0
    fit_intercept: bool = True
    ridge_intercept: float = 0.0
    ridge_shared: float = RIDGE_SHARED
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
    own, private = user_network_of(model), model._is_private()
    fixed, whole = own.shared_weights == "fixed", isinstance(model.sparsity, Integral)
    refused = {
        f"ridge_intercept={own.ridge_intercept!r} is not used with "
        "fit_intercept=False: leave ridge_intercept=0.0, or fit_intercept=True": (
            not own.fit_intercept and own.ridge_intercept
        ),
        'shared_weights="fixed" requires n_components=1, got '
        f"n_components={model.n_components}": fixed and model.n_components != 1,
        f"ridge_shared={own.ridge_shared!r} is not used with "
        f'shared_weights="fixed" and prompt_size=0: leave it at {RIDGE_SHARED}': (
            fixed and not own.prompt_size and own.ridge_shared != RIDGE_SHARED
        ),
        "n_components=0 requires sparsity=None: without shared weights, all weights "
        "are the user's own": model.n_components == 0
        and (whole or model.sparsity not in (None, 1.0)),
        f"clip_norm={model.clip_norm!r} requires a budget: with epsilon=None no "
        f"gradient is clipped. Leave clip_norm={CLIP_NORM}; in a search, use a "
        "separate grid for epsilon=None": not private and model.clip_norm != CLIP_NORM,
    }
    for why, wrong in refused.items():
        if wrong:
            raise ValueError(why)


def network_solver(model) -> AlternatingAdam:
    """Return a copy of the solver, safe from changes during a fit."""
    given = model.solver
    return AlternatingAdam() if isinstance(given, str) else snapshot(given)


def user_network_of(model) -> UserNetwork:
    """Return a copy of the parameters of users' networks."""
    given = model.user_network
    return UserNetwork() if isinstance(given, str) else snapshot(given)


def shape_of(model, n_features: int) -> tuple[Layout, int, int]:
    """Return a network's layout, the number of shared directions, and of prompts."""
    prompt_size = int(user_network_of(model).prompt_size)
    widths = hidden_widths(model.hidden_layer_sizes)
    layout = Layout((n_features + prompt_size, *widths, 1))
    return layout, min(int(model.n_components), layout.n_parameters), prompt_size


def rules_of(model, layout: Layout, rank: int, prompt_size: int) -> UserRules:
    """Return the public rules of users' training, for networks of a shape."""
    own, solver = user_network_of(model), network_solver(model)
    prior = np.zeros(rank)
    prior[:1] = 1.0  # all begin with the first network
    return UserRules(
        layout=layout,
        start=_start(int(solver.init_seed), rank, layout),
        prior=prior,
        fixed=own.shared_weights == "fixed",
        sparsity=n_sparse(model.sparsity, layout.n_parameters),
        prompt_size=prompt_size,
        ridge_shared=float(own.ridge_shared),
        ridge_sparse=float(own.ridge_sparse),
        ridge_level=float(own.ridge_intercept) if own.fit_intercept else None,
        learning_rate=float(solver.user_learning_rate),
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
    solver, private = network_solver(model), model._is_private()
    n_rounds, n_local_steps = solver._counts(private)
    given: dict[str, Any] = {
        "rules": rules_of(model, *shape_of(model, n_features)),
        "n_rounds": n_rounds,
        "n_local_steps": n_local_steps,
        "learning_rate": float(solver.learning_rate),
        "neighbors": Neighbors(solver.neighbors),
        "n_jobs": model.n_jobs,
    }
    if not private:
        return ExactWeights(**given)
    return GradientRounds(**given, clip_norm=float(model.clip_norm))
