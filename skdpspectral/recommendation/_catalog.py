"""Public catalogs of items, and the place of each item in them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from numbers import Integral, Number

import numpy as np
from sklearn.utils import murmurhash3_32

from .._tables.id_index import IdIndex

# Buckets of items where there is no catalog.
N_BUCKETS = 512


def read_catalog(items) -> IdIndex | range:
    """Return an index of the items that are given, or numbers of buckets.

    Parameters
    ----------
    items : array-like of shape (n_items,), int or None
        Ids, all of them strings or all of them numbers; a number of buckets; or None
        for as many as there are by default.

    Returns
    -------
    IdIndex or range
        What :func:`item_codes` takes.

    Raises
    ------
    ValueError, TypeError
        Naming `items`.
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
        f"{name} must hold strings alone, or numbers alone that fit one numpy dtype: "
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
