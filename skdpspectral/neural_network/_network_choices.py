"""What parameters of LRSMLPRegressor mean together: refusals, rules, the statistic.

What the chosen way does not use is refused, and not ignored: whoever sets it believes
that it does something.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import snapshot
from .._linalg.neural_network import Layout
from .._release.public import public_start
from ..mechanisms import Neighbors
from ._alternation import AlternatingAdam
from ._counts import n_sparse
from ._shapes import hidden_widths, target_box
from ._shared_weights import ExactWeights, GradientRounds, SharedSteps
from ._user_fits import UserRules

_PENALTIES = Interval(Real, 0, 1e60, closed="both")
CLIP_NORM = 1.0
# Constructor parameters, each on its own; those of budgets are every estimator's.
CONSTRAINTS = {
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
    "unknown_user": [StrOptions({"shared", "raise"})],
    "fit_intercept": [StrOptions({"user"}), "boolean"],
    "ridge_intercept": [_PENALTIES],
    "shared_weights": [StrOptions({"user", "fixed"})],
    "prompt_size": [Interval(Integral, 0, None, closed="left")],
    "ridge_shared": [_PENALTIES],
    "ridge_sparse": [_PENALTIES],
    "target_bounds": [tuple, list, np.ndarray, None],
    "clip_norm": [Interval(Real, 1e-60, 1e60, closed="both")],
    "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
    "solver": [StrOptions({"auto"}), AlternatingAdam],
    "init_seed": [Interval(Integral, 0, 2**32 - 1, closed="both")],
    "n_jobs": [Integral, None],
    "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
}


def check_together(model) -> None:
    """Refuse parameters that do not go together.

    Parameters
    ----------
    model : LRSMLPRegressor
        Of which each parameter is valid on its own.

    Raises
    ------
    ValueError
        Naming the parameter and the remedy.
    """
    hidden_widths(model.hidden_layer_sizes)
    target_box(model.target_bounds, 1)
    if model.fit_intercept is not False and model.fit_intercept != "user":
        raise ValueError(
            f'fit_intercept must be "user" or False, got {model.fit_intercept!r}: '
            "an intercept of all users would have to be released"
        )
    if model.fit_intercept is False and model.ridge_intercept:
        raise ValueError(
            f"ridge_intercept={model.ridge_intercept!r} is not used with "
            "fit_intercept=False: leave ridge_intercept=0.0, or "
            'fit_intercept="user"'
        )
    if model.shared_weights == "fixed" and model.n_components != 1:
        raise ValueError(
            'shared_weights="fixed" needs n_components=1, got '
            f"n_components={model.n_components}: one central network has one "
            "direction"
        )
    if model.n_components == 0 and not _has_all_weights(model):
        raise ValueError(
            "n_components=0 needs sparsity=None: without shared weights each "
            "network has all of its own"
        )
    if not model._is_private() and model.clip_norm != CLIP_NORM:
        raise ValueError(
            f"clip_norm={model.clip_norm!r} needs a budget: with epsilon=None nobody "
            f"is scaled down; leave clip_norm={CLIP_NORM} (a search gives "
            "epsilon=None a grid of its own)"
        )
    if model._is_private() and model.unknown_user == "raise":
        raise ValueError(
            'unknown_user="raise" needs epsilon=None: an error would tell who was '
            'in the training set; use unknown_user="shared"'
        )


def _has_all_weights(model) -> bool:
    if model.sparsity is None:
        return True
    return not isinstance(model.sparsity, Integral) and model.sparsity == 1.0


def solver_of(model) -> AlternatingAdam:
    """Return how networks are trained, as it is now."""
    # A copy: another thread may change it between a plan and its releases.
    return (
        AlternatingAdam() if isinstance(model.solver, str) else snapshot(model.solver)
    )


class Shape(NamedTuple):
    """Shapes of networks and of what they share.

    Attributes
    ----------
    layout : Layout
        Of a network, the users' own features among its inputs.
    rank : int
        Shared directions.
    prompt_size : int
        Features of a user's own.
    """

    layout: Layout
    rank: int
    prompt_size: int


def shape_of(model, n_features: int) -> Shape:
    """Return the shapes that a fit of so many features has."""
    inputs = n_features + int(model.prompt_size)
    layout = Layout((inputs, *hidden_widths(model.hidden_layer_sizes), 1))
    rank = min(int(model.n_components), layout.n_parameters)
    return Shape(layout, rank, int(model.prompt_size))


def rules_of(model, shape: Shape, solver: AlternatingAdam) -> UserRules:
    """Return what is public of the users' training.

    Parameters
    ----------
    model : LRSMLPRegressor
        With valid parameters.
    shape : Shape
        Of the networks: that of the fit, where there was one.
    solver : AlternatingAdam
        How networks are trained.
    """
    layout = shape.layout
    prior = np.zeros(shape.rank)
    prior[:1] = 1.0  # all begin with the first network
    has_level = model.fit_intercept == "user"
    return UserRules(
        layout=layout,
        start=_start(int(model.init_seed), len(prior), layout),
        prior=prior,
        fixed=model.shared_weights == "fixed",
        sparsity=n_sparse(model.sparsity, layout.n_parameters),
        prompt_size=shape.prompt_size,
        ridge_shared=float(model.ridge_shared),
        ridge_sparse=float(model.ridge_sparse),
        ridge_level=float(model.ridge_intercept) if has_level else None,
        learning_rate=float(solver.user_learning_rate),
        schedule=solver.schedule,
        batch_size=solver.batch_size,
        n_own_steps=int(solver.n_own_steps),
    )


def _start(seed: int, rank: int, layout: Layout) -> np.ndarray:
    """Return public weights that training starts from: (n_parameters, 1 + rank)."""
    columns = public_start(seed, (rank + 1, layout.n_parameters))
    for column in columns:
        for layer in layout.layers(column):
            inputs, outputs = layer.shape[0] - 1, layer.shape[1]
            layer[:-1] *= np.sqrt(6.0 / (inputs + outputs))
            layer[-1] = 0.0
    return np.ascontiguousarray(columns.T)


def statistic_of(model, n_features: int) -> GradientRounds | ExactWeights:
    """Return the statistic that the shared weights come from.

    Parameters
    ----------
    model : LRSMLPRegressor
        With parameters that go together.
    n_features : int
        Number of features.

    Returns
    -------
    GradientRounds or ExactWeights
        With a budget, or without one.
    """
    solver, private = solver_of(model), model._is_private()
    n_rounds, n_local_steps = solver._counts(private)
    steps = SharedSteps(
        n_rounds,
        n_local_steps,
        learning_rate=float(solver.learning_rate),
        weight_decay=float(solver.weight_decay),
        schedule=solver.schedule,
    )
    rules = rules_of(model, shape_of(model, n_features), solver)
    neighbors = Neighbors(model.neighbors)
    if not private:
        return ExactWeights(rules, steps, neighbors, model.n_jobs)
    return GradientRounds(rules, steps, float(model.clip_norm), neighbors, model.n_jobs)
