"""What held-out rows contribute, user by user, and the budget of a score."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._tables.ids import encode_array
from ..accounting import gaussian_mu
from ..mechanisms._numbers import check_real

# Instead of a number: the budget is that of the search that uses the score.
SEARCH = "search"


class Measured(NamedTuple):
    """What held-out rows contribute to a score; private.

    Parameters
    ----------
    values : ndarray of shape (n_rows, width)
        A row a contribution.
    owners : ndarray of shape (n_rows,) or None
        Ids of users whose contributions they are; None where rows count.
    """

    values: np.ndarray
    owners: np.ndarray | None = None


def checked_budget(epsilon: object, delta: object) -> tuple[float, float] | None:
    """Return a valid budget; None where it is a search's."""
    if isinstance(epsilon, str):
        if epsilon == SEARCH:
            return None
        raise ValueError(
            f"epsilon must be a number, None or {SEARCH!r}, got {epsilon!r}"
        )
    number = math.inf if epsilon is None else check_real("epsilon", epsilon)
    if not number > 0.0:
        raise ValueError(f"epsilon must be positive, got {number}")
    delta = check_real("delta", delta)
    gaussian_mu(number, delta)  # refuses a delta out of range
    return number, delta


def by_user(measured: list[Measured]) -> np.ndarray:
    """Return the mean of each user's contributions."""
    owners = [part.owners for part in measured if part.owners is not None]
    values = np.concatenate([part.values[:, 0] for part in measured])
    if not len(values):
        return values
    codes, n_users = encode_array(_joined(owners), "user_feature")
    sums = np.bincount(codes, values, minlength=n_users)
    means: np.ndarray = sums / np.bincount(codes, minlength=n_users)
    return means


def _joined(owners: list[np.ndarray]) -> np.ndarray:
    """Return the ids of several tables as one array, each as it is."""
    if len({ids.dtype for ids in owners}) > 1:
        owners = [ids.astype(object) for ids in owners]
    return np.concatenate(owners)
