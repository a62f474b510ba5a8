"""Made-up rows and users, each of which a coin changes, and scores of the coins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._tables.columns import read_column
from ..mechanisms import Neighbors, Unit

Read = str | Callable[[Any, dict], np.ndarray]


@dataclass(frozen=True)
class Canaries:
    """Data of an audit: each coin changes one row or one user of them.

    Use only **made-up data**, because an audit is not private.

    Parameters
    ----------
    n_coins : int
        Number of rows or users that a coin changes.
    data : callable
        ``data(coins)`` returns the arguments of a fit, as a tuple. `coins` is a boolean
        array of shape (n_coins,). Coin i must change no other row or user than the
        i-th.
    scores : callable
        ``scores(model, released)`` returns one score per coin, of shape (n_coins,). A
        score should be larger where its coin is True. `released` has the releases of
        a private estimator by name; it is empty for other callables.
    unit : {"row", "user"}, default="row"
        What a coin changes.
    neighbors : {"replace-one", "add-remove-one", "zero-out-one"}, \
default="replace-one"
        How it does so. Both must be those of the audited guarantee.
    """

    n_coins: int
    data: Callable[[np.ndarray], tuple]
    scores: Callable[[Any, dict], np.ndarray]
    unit: str = "row"
    neighbors: str = "replace-one"


def _reading(read: Read, take: Callable[[np.ndarray], np.ndarray]):
    """Return scores that take their numbers from a release, or from a callable."""

    def scores(model, released):
        if callable(read):
            return take(np.asarray(read(model, released)))
        if read not in released:
            raise ValueError(
                f"read={read!r} is none of the releases {sorted(released)}; pass a "
                "callable read(model, released)"
            )
        return take(released[read])

    return scores


def pairs_of_features(n_features: int, read: Read = "second_moment") -> Canaries:
    r"""Make unit rows whose coins decide the sign of one product of two features.

    The row of features i and j is :math:`(e_i + e_j)/\sqrt 2` or
    :math:`(e_i - e_j)/\sqrt 2`. Both have the largest possible distance in a second
    moment of unit rows, and only differ in the two entries of i and j.

    Parameters
    ----------
    n_features : int
        Number of features, at least 2. There are
        ``n_features * (n_features - 1) / 2`` coins.
    read : str or callable, default="second_moment"
        Symmetric matrix of shape (n_features, n_features) that tells the products:
        name of a release, or ``read(model, released)``, such as
        ``lambda model, released: model.covariance_``.

    Returns
    -------
    Canaries
        Rows for an estimator without targets.
    """
    i, j = np.triu_indices(n_features, 1)
    if len(i) == 0:
        raise ValueError(f"n_features must be at least 2, got {n_features}")
    places = np.arange(len(i))

    def data(coins):
        X = np.zeros((len(i), n_features))
        X[places, i] = np.sqrt(0.5)
        X[places, j] = np.sqrt(0.5) * np.where(coins, 1.0, -1.0)
        return (X,)

    return Canaries(len(i), data, _reading(read, lambda matrix: matrix[i, j]))


def clipped_gradients(n_features: int, read: Read = "gradients") -> Canaries:
    """Make rows whose gradients are clipped, along one weight of a linear model each.

    Coins decide the sign of the target, and with it that of the gradient.

    Parameters
    ----------
    n_features : int
        Number of features, rows and coins.
    read : str or callable, default="gradients"
        Gradients of shape (n_steps, n_parameters), the weights first.

    Returns
    -------
    Canaries
        Rows and targets for :class:`~skdpspectral.DPAdamRegressor` without hidden
        layers.
    """

    def data(coins):
        return 1e6 * np.eye(n_features), np.where(coins, 1e15, -1e15)

    def take(gradients):
        steps = gradients.reshape(-1, gradients.shape[-1])
        return -steps[:, :n_features].sum(axis=0)

    return Canaries(n_features, data, _reading(read, take))


def joining_users(users: Sequence[tuple], scores, others: tuple | None = None):
    """Let coins decide which users join.

    Parameters
    ----------
    users : sequence of tuple
        The rows of each user: a tuple of arrays, which are the arguments of a fit.
    scores : callable
        As in :class:`Canaries`.
    others : tuple of array-like or None, default=None
        Rows of users who always take part.

    Returns
    -------
    Canaries
        Users for an estimator whose guarantee is for users who join or leave.
    """

    def data(coins):
        parts = [user for user, coin in zip(users, coins, strict=True) if coin]
        parts += [others] * (others is not None)
        if not parts:  # nobody: a table without rows
            return tuple(np.asarray(part)[:0] for part in users[0])
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    return Canaries(len(users), data, scores, Unit.USER, Neighbors.ADD_REMOVE_ONE)


def pairs_of_categories(
    n_coins: int, count: int, read: Read = "categories"
) -> Canaries:
    """Make one column of text in which each coin decides between two categories.

    Parameters
    ----------
    n_coins : int
        Number of coins, each with two categories of its own.
    count : int
        Rows that each category has in any case. With few, none is found.
    read : str or callable, default="categories"
        Counts of all categories, sorted as text.

    Returns
    -------
    Canaries
        Rows of shape (n_rows, 1) for an estimator without targets.
    """
    names = np.array([f"{k:08d}" for k in range(2 * n_coins)], dtype=object)
    fixed = np.repeat(names, count)

    def data(coins):
        chosen = np.where(coins, names[1::2], names[::2])
        return (np.concatenate([fixed, chosen])[:, None],)

    def take(counts):
        if counts.shape != names.shape:
            raise ValueError("count must be so large that all categories are found")
        return counts[1::2] - counts[::2]

    return Canaries(n_coins, data, _reading(read, take))


def two_tables(
    X, X_neighbor, statistic, *, y=None, y_neighbor=None, user_feature=None
) -> Canaries:
    """Let one coin decide between two neighboring tables.

    Parameters
    ----------
    X, X_neighbor : array-like of shape (n_samples, n_features)
        Tables that differ in one row, or in one user. An equal number of rows (or the
        same number of users) means that one is replaced, another number that one joins
        or leaves.
    statistic : callable
        ``statistic(model, released) -> float``, which should be larger for the
        neighbor.
    y, y_neighbor : array-like of shape (n_samples,) or None, default=None
        Targets. ``y_neighbor=None`` uses `y`.
    user_feature : int, str or None, default=None
        Column of the users. None: a row is protected.

    Returns
    -------
    Canaries
        One coin, which is True for the neighbor.

    Raises
    ------
    ValueError
        If the tables are no neighbors.
    """
    data: tuple = (X,) if y is None else (X, y)
    other: tuple = (X_neighbor,)
    if y is not None:
        other = (X_neighbor, y if y_neighbor is None else y_neighbor)
    elif y_neighbor is not None:
        raise ValueError("y_neighbor was given, but y was not")
    for side, name in ((data, "y"), (other, "y_neighbor")):
        if len({len(part) for part in side}) != 1:
            raise ValueError(f"{name} must contain one target for each of its rows")
    unit = Unit.ROW if user_feature is None else Unit.USER
    neighbors = _relation(*(_units(side, user_feature) for side in (data, other)))

    def scores(model, released):
        return np.array([float(statistic(model, released))])

    def of_coin(coins):
        return other if coins[0] else data

    return Canaries(1, of_coin, scores, unit, neighbors)


def _units(data: tuple, user_feature) -> list:
    """Return rows with their targets, or users with all of theirs, in their order."""
    rows = list(zip(*(np.asarray(part).tolist() for part in data), strict=True))
    if user_feature is None:
        return rows
    table: dict[object, list] = {}
    users = np.asarray(read_column(data[0], user_feature, "user_feature")).tolist()
    for user, row in zip(users, rows, strict=True):
        table.setdefault(user, []).append(row)
    return list(table.items())


def _relation(one: list, two: list) -> Neighbors:
    """Return how two tables differ, or refuse them."""
    fewer, more = sorted((one, two), key=len)
    first = next((k for k, unit in enumerate(fewer) if unit != more[k]), len(fewer))
    rest = more[first + 1 :]
    if len(more) == len(fewer) + 1 and fewer[first:] == rest:
        return Neighbors.ADD_REMOVE_ONE
    if len(more) == len(fewer) > first and fewer[first + 1 :] == rest:
        return Neighbors.REPLACE_ONE
    raise ValueError(
        "X and X_neighbor must differ in one row, or one user, that is replaced, joins "
        "or leaves; all others must be equal and in the same order"
    )
