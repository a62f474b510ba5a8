"""Ids that were seen once, found again."""

from __future__ import annotations

import numpy as np

from .exact_ids import check_exact_array
from .ids import (
    check_ids,
    check_kinds,
    codes_and_rows,
    id_array,
    is_dense,
    kinds_of,
    places_from,
)

_SORTABLE = "biufmM"
# Codes of users are held in so many bits.
_MOST_IDS = 2**32


def _is_exact(ids: np.ndarray, numbers: np.ndarray) -> bool:
    """Whether numpy's array of a list of numbers lost nothing: no mix became floats."""
    if numbers.dtype.kind in "biu":
        return True
    return numbers.dtype.kind == "f" and all(isinstance(k, float) for k in ids.tolist())


def _same_signs(keys: np.ndarray, ids: np.ndarray):
    return True if ids.dtype.kind in "mM" else (keys < 0) == (ids < 0)


class IdIndex:
    """Distinct ids and their codes, in the order of their first appearance.

    Parameters
    ----------
    ids : array-like of shape (n_rows,)
        Hashable ids, none of them missing.
    name : str
        What errors call them; they quote no id.

    Raises
    ------
    ValueError
        If ids are missing, not exact, or of several kinds. One kind a table is a rule
        that lookups need: an index says of every other kind that it does not hold it,
        whoever is in it.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,)
        Code of each row's id; only of the ids that the index was made from.
    """

    def __init__(self, ids, name: str):
        ids = id_array(ids, name)
        self._name = name
        self.codes, first = codes_and_rows(ids, name)
        check_exact_array(ids, name)
        self._kinds = kinds_of(ids)
        check_kinds(self._kinds, name)
        if len(first) > _MOST_IDS:
            raise ValueError(f"{name} must hold at most 2**32 different ids")
        self._keys = ids[first]
        self._build()

    def __len__(self) -> int:
        return len(self._keys)

    def _build(self) -> None:
        self._table = self._order = None
        if self._keys.dtype.kind in _SORTABLE:
            self._order = np.argsort(self._keys, kind="stable")
        else:
            self._table = self._make_table()

    def _make_table(self) -> dict:
        return {key: code for code, key in enumerate(self._keys.tolist())}

    @property
    def ids(self) -> np.ndarray:
        """Distinct ids, in the order of their codes."""
        return self._keys

    @property
    def first(self):
        """The id that was seen first."""
        # Of times in ns, tolist makes integers.
        return self._keys[0] if self._table is None else self._keys.tolist()[0]

    def without_codes(self) -> IdIndex:
        """Forget the rows that the index was made from."""
        self.codes = None
        return self

    def find(self, ids, name: str) -> np.ndarray:
        """Return codes of ids, -1 for those that were not seen.

        Raises
        ------
        ValueError
            If ids are missing, or of a kind that the index does not hold.
        """
        ids = id_array(ids, name)
        check_ids(ids, name)
        if not len(ids):
            return np.empty(0, dtype=np.intp)
        unseen = kinds_of(ids) - self._kinds
        if unseen:
            known = "in fit it held" if name == self._name else f"{self._name} holds"
            raise ValueError(
                f"{name} holds {', '.join(sorted(unseen))}, but {known} "
                f"{', '.join(sorted(self._kinds))}: 1 and '1' are different ids; "
                "convert one to the type of the other"
            )
        if self._keys.dtype.kind in "mM":  # of one kind and unit, as the ids are
            return self._find_sorted(ids)
        if self._table is None:
            numbers = ids if ids.dtype != object else np.asarray(ids.tolist())
            if ids.dtype != object or _is_exact(ids, numbers):
                return self._find_sorted(numbers)
        # As Python's numbers, which compare exactly whatever their types.
        table = self._make_table() if self._table is None else self._table
        return np.array([table.get(key, -1) for key in ids.tolist()], dtype=np.intp)

    def _find_sorted(self, ids: np.ndarray) -> np.ndarray:
        """Find numbers of any type: those that the keys' type can hold exactly."""
        with np.errstate(all="ignore"):
            keys = ids.astype(self._keys.dtype)
            # The signs tell where unsigned integers wrapped around.
            exact = (keys.astype(ids.dtype) == ids) & _same_signs(keys, ids)
        code = self._codes_of(keys)
        return np.where(exact & (self._keys[code] == keys), code, -1)

    def _codes_of(self, keys: np.ndarray) -> np.ndarray:
        """Codes of keys that the index holds, and any of others."""
        low, high = self._keys[self._order[[0, -1]]]
        if not (keys.dtype.kind in "iu" and is_dense(keys, int(low), int(high))):
            place = np.searchsorted(self._keys, keys, sorter=self._order)
            return self._order[np.minimum(place, len(self._order) - 1)]
        table = np.zeros(int(high) - int(low) + 1, dtype=np.intp)
        table[places_from(self._keys, int(low))] = np.arange(len(self._keys))
        # Those outside are taken for the lowest: no difference overflows.
        inside = (keys >= low) & (keys <= high)
        return table[places_from(np.where(inside, keys, low), int(low))]

    def joined(self, ids) -> IdIndex:
        """Return an index that also holds further ids, of its kind and new to it."""
        added = id_array(ids, self._name)
        keys = self._keys
        if added.dtype != keys.dtype:  # one type might not hold both exactly
            added, keys = added.astype(object), keys.astype(object)
        new = object.__new__(IdIndex)
        new._name, new.codes = self._name, None
        new._kinds = self._kinds
        new._keys = np.concatenate([keys, added])
        new._build()
        return new
