"""Public catalogs of items, and public parameters of ratings tables."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Set
from numbers import Integral, Number, Real

import numpy as np
from sklearn.utils import murmurhash3_32

from .._tables.ids import IdIndex
from .._tables.readers import refuse_masked

# Buckets of items where there is no catalog.
N_BUCKETS = 512


def read_catalog(items) -> IdIndex | range:
    """Return an index of the items that are given, or numbers of buckets.

    `items` (n_items,): ids, all of them strings or all of them numbers; a number of
    buckets; or None for as many as there are by default. Returns what
    :func:`item_codes` takes.
    """
    if items is None:
        return range(N_BUCKETS)
    if isinstance(items, Integral):
        return range(int(items))
    if isinstance(items, (Set, Mapping)):
        raise TypeError("items must be in an order: pass sorted(items), a list")
    index = IdIndex(items, "items")
    if not len(index):
        raise ValueError("items must hold at least one id")
    if len(index) != len(index.codes):
        raise ValueError("items must not hold an id twice")
    return index_of(of_one_type(index.ids, "items"))


def catalog_of_data(ids) -> IdIndex:
    """Return an index of the items of the data: private, unless nothing is."""
    return index_of(of_one_type(IdIndex(ids, "item_feature").ids, "item_feature"))


def item_codes(catalog: IdIndex | range, ids) -> np.ndarray:
    """Codes of items, -1 for those that the catalog does not hold.

    The code of a row depends on its own id and the catalog alone, whatever other ids
    the table holds.
    """
    if isinstance(catalog, IdIndex):
        return catalog.find(ids, "item_feature")
    index = IdIndex(ids, "item_feature")
    keys = index.ids  # of times, tolist would make numbers
    keys = list(keys) if keys.dtype.kind in "mM" else keys.tolist()
    buckets = [_hashed(key) % len(catalog) for key in keys]
    return np.array(buckets, dtype=np.intp)[index.codes]


def index_of(items: np.ndarray) -> IdIndex:
    """Index ids that are different."""
    return IdIndex(items, "items").without_codes()


def of_one_type(ids: np.ndarray, name: str) -> np.ndarray:
    """Return ids as an array of numbers, or of strings as objects."""
    if ids.dtype.kind == "O":
        keys = ids.tolist()
        if all(isinstance(key, str) for key in keys):
            return ids
        if all(isinstance(key, (Number, np.bool_)) for key in keys):
            numbers = np.asarray(keys)
            if numbers.dtype.kind in "biuf" and (numbers == ids).all():
                return numbers
    elif ids.dtype.kind in "biuf":
        return ids
    raise TypeError(
        f"{name} must be either all strings or all numbers of one numpy dtype; "
        "each argument must be a string or a number"
    )


def _hashed(key) -> int:
    """Hash an id: the same in every process, and for ids that are equal."""
    if isinstance(key, str):
        text = f"string:{str.__str__(key)}"
    elif isinstance(key, (Number, np.bool_)):
        # 1, 1.0 and True are one item: it must not matter who wrote it first.
        text = f"number:{hash(key)}"
    else:
        raise TypeError(
            "item_feature must hold strings or numbers, to be hashed into buckets: "
            "each argument must be a string or a number"
        )
    return murmurhash3_32(text.encode("utf-8", "surrogatepass"), positive=True)


# A quarter of the range of ratings is at least this: ratings are divided by it.
_NARROWEST = 2.0**-1022


def read_range(rating_range) -> tuple[float, float]:
    """Return the public range of ratings."""
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
            "rating_range is too narrow to distinguish ratings in float64; rescale the "
            "ratings to larger units"
        )
    return low, high


def units(rating_range) -> tuple[float, float]:
    """Return the middle of the range of ratings, and a quarter of it."""
    low, high = read_range(rating_range)
    return 0.5 * low + 0.5 * high, 0.25 * high - 0.25 * low


def public_features(item_features, n_items: int) -> np.ndarray:
    """Return public features of the items: (n_items, n_item_features)."""
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
