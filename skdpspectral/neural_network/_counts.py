"""How many numbers personalized networks have."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from .._linalg.neural_network import Layout
from ..mechanisms._numbers import check_count
from ._shapes import hidden_widths


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
    r"""Count the numbers that networks of users are made of, all users together.

    Those are U, the weights w, the sparse parts b (without their places), and features
    of the users' own: what :class:`~skdpspectral.LRSMLPRegressor` trains, levels apart.

    Parameters
    ----------
    n_features : int
        Number of features.
    n_users : int
        Number of users.
    hidden_layer_sizes, n_components, sparsity, shared_weights, prompt_size
        As in :class:`~skdpspectral.LRSMLPRegressor`.
    rounding : {"user", "all"}, default="user"
        Whether a share of weights is rounded up for each user, as the estimator does,
        or once for all of them.

    Returns
    -------
    int
        Their number.

    Raises
    ------
    ValueError
        If a number is not one of those that the estimator takes.

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
    sizes = [check_count("n_features", n_features)]
    for name, value in {
        "n_components": n_components,
        "prompt_size": prompt_size,
    }.items():
        if not isinstance(value, Integral) or value < 0:
            raise ValueError(f"{name} must be a number of at least 0, got {value!r}")
    for name, value, known in (
        ("shared_weights", shared_weights, ("user", "fixed")),
        ("rounding", rounding, ("user", "all")),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}")
    sizes[0] += int(prompt_size)
    p = Layout((*sizes, *hidden_widths(hidden_layer_sizes), 1)).n_parameters
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
    """Return how many weights of a network are the user's own: shares round up.

    Parameters
    ----------
    sparsity : int, float or None
        A number, a share, or None for all.
    n_parameters : int
        Weights of a network.

    Raises
    ------
    ValueError
        If it is none of these.
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
