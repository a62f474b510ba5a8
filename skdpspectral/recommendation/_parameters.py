"""What parameters beside a ratings table mean: range, features, the statistic."""

from __future__ import annotations

import contextlib
import math
from numbers import Real

import numpy as np

from .._statistics.item_moment import ItemMoment
from .._tables.masks import refuse_masked

# A quarter of the range of ratings is at least this: ratings are divided by it.
_NARROWEST = 2.0**-1022


def read_range(rating_range) -> tuple[float, float]:
    """Return the public range of ratings.

    Raises
    ------
    ValueError
        Naming `rating_range`.
    """
    low = high = math.nan
    if np.ndim(rating_range) == 1 and all(map(_is_real, rating_range)):
        with contextlib.suppress(ValueError, OverflowError):
            low, high = (float(value) for value in rating_range)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            "rating_range must be a pair (low, high) of finite numbers, low < high"
        )
    if 0.25 * high - 0.25 * low < _NARROWEST:
        raise ValueError(
            "rating_range is too narrow for float64 to tell ratings apart: give them "
            "in larger units"
        )
    return low, high


def units(rating_range) -> tuple[float, float]:
    """Return the middle of the range of ratings, and a quarter of it."""
    low, high = read_range(rating_range)
    return 0.5 * low + 0.5 * high, 0.25 * high - 0.25 * low


def item_moment(model, n_items: int) -> ItemMoment:
    """Return the statistic that embeddings of so many items come from."""
    return ItemMoment(
        n_items,
        model.n_components,
        read_range(model.rating_range),
        model.max_ratings_per_user,
    )


def public_features(item_features, n_items: int) -> np.ndarray:
    """Return public features of the items: (n_items, n_item_features).

    Parameters
    ----------
    item_features : array-like or None
        As the estimator was given them.
    n_items : int
        Items of the catalog.

    Raises
    ------
    ValueError
        Naming `item_features`.
    """
    if item_features is None:
        return np.zeros((n_items, 0))
    refuse_masked(item_features, "item_features")
    features = np.empty(0)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        given = np.asarray(item_features)
        if given.dtype.kind in "biufO":
            features = given.astype(np.float64)
    if features.ndim != 2 or len(features) != n_items:
        raise ValueError(
            "item_features must hold numbers, of shape (n_items, n_item_features) "
            f"with n_items = {n_items} as in items"
        )
    if not np.isfinite(features).all():
        raise ValueError("item_features must be finite; fill in what is missing")
    return features


def _is_real(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
