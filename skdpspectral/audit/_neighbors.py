"""Whether two data sets are neighbors, in the sense of a plan."""

from __future__ import annotations

import numpy as np

from .._tables.ids import read_column
from ..mechanisms import Neighbors, PrivacyPlan, Unit

# Users who are in the first data set alone, in the second alone, and in both with
# other data.
_USERS_WHO_DIFFER = {
    Neighbors.ADD_REMOVE_ONE: ({(1, 0, 0), (0, 1, 0)}, "joins or leaves"),
    Neighbors.REPLACE_ONE: ({(0, 0, 1), (1, 1, 0)}, "is replaced"),
}


def check_neighbors(estimator, plan: PrivacyPlan, data: tuple, other: tuple) -> None:
    """Refuse data sets that the guarantee does not speak of.

    Parameters
    ----------
    estimator : estimator
        Its `user_feature` names the users of X, where they are the unit.
    plan : PrivacyPlan
        Whose unit and relation are meant.
    data, other : tuple of array-like
        Rows, and targets if there are any.

    Raises
    ------
    ValueError
        If the data sets are not neighbors.
    """
    for rows, name in ((data, "y"), (other, "y_neighbor")):
        if len({len(part) for part in rows}) != 1:
            raise ValueError(f"{name} must hold one target for each of its rows")
    if np.shape(data[0])[1:] != np.shape(other[0])[1:]:
        raise ValueError("X and X_neighbor must have the same shape, rows apart")
    if plan.unit is Unit.USER:
        _check_users(estimator, plan, data, other)
    elif plan.neighbors is Neighbors.ADD_REMOVE_ONE:
        _check_row_joins(_as_lists(data), _as_lists(other))
    else:
        _check_rows(plan, _as_lists(data), _as_lists(other))


def _as_lists(data: tuple) -> list:
    """Rows as lists of numbers, the target last."""
    X, *targets = data
    parts = [np.asarray(X).tolist(), *(np.asarray(y).tolist() for y in targets)]
    return list(zip(*parts, strict=True))


def _check_rows(plan: PrivacyPlan, rows: list, others: list) -> None:
    if len(rows) != len(others):
        raise ValueError(
            f"X and X_neighbor must have the same shape: under {plan.neighbors} the "
            "number of rows is public"
        )
    if plan.neighbors is not Neighbors.REPLACE_ONE:
        return
    differing = sum(row != other for row, other in zip(rows, others, strict=True))
    if differing != 1:
        raise ValueError(
            f"X and X_neighbor must differ in one row, but differ in {differing}: "
            "anything else is not what the guarantee is about"
        )


def _check_row_joins(rows: list, others: list) -> None:
    fewer, more = sorted((rows, others), key=len)
    if len(more) == len(fewer) + 1:
        pairs = zip(fewer, more, strict=False)
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), len(fewer))
        if fewer[first:] == more[first + 1 :]:
            return
    raise ValueError(
        "X and X_neighbor must differ by one row that joins or leaves: anything else "
        "is not what the guarantee is about"
    )


def _check_users(estimator, plan: PrivacyPlan, data: tuple, other: tuple) -> None:
    if plan.neighbors not in _USERS_WHO_DIFFER:
        raise ValueError(f"no audit is known for users under {plan.neighbors}")
    feature = getattr(estimator, "user_feature", None)
    if feature is None:
        raise ValueError(
            f"{plan.estimator} protects users: user_feature must name the column of X "
            "that says whose row it is"
        )
    one, two = _by_user(data, feature), _by_user(other, feature)
    changed = [user for user in one.keys() & two.keys() if one[user] != two[user]]
    found = (len(one.keys() - two.keys()), len(two.keys() - one.keys()), len(changed))
    allowed, what = _USERS_WHO_DIFFER[plan.neighbors]
    if found not in allowed:
        raise ValueError(
            f"X and X_neighbor must differ by one user who {what}, but {found[0]} are "
            f"in X alone, {found[1]} in X_neighbor alone, and {found[2]} have other "
            "rows: anything else is not what the guarantee is about"
        )


def _by_user(data: tuple, feature) -> dict[object, list]:
    """The rows of each user, in their order."""
    users = np.asarray(read_column(data[0], feature, "user_feature")).tolist()
    table: dict[object, list] = {}
    for user, row in zip(users, _as_lists(data), strict=True):
        table.setdefault(user, []).append(row)
    return table
