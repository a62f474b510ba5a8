"""Ids of users, clients and items: whole numbers of 64 bits, or text.

Every id is converted by itself, and refused by itself if it is neither. Numbers become
int64, so that 1, 1.0 and True are one id in any table; text becomes objects.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .columns import (
    as_array,
    dtypes_of,
    is_date,
    is_never_number,
    objects,
    own_type,
    refuse_masked,
)

# Codes of users are held in so many bits.
_MOST_IDS = 2**32

_CONVERT = "convert others to text, for example with astype(str)"


def id_array(ids, name: str) -> np.ndarray:
    """Return a column of ids as int64, or as texts in an object array."""
    refuse_masked(ids, name)
    ids = objects(ids) if isinstance(ids, (list, tuple)) else as_array(ids, name)
    if ids.ndim != 1:
        shown = f"an array of shape {ids.shape}" if ids.ndim else "a single value"
        raise ValueError(f"{name} must be a list or 1D array of ids, got {shown}")
    if ids.dtype.kind in "OUT":
        return _of_objects(ids.astype(object), name)
    return _whole(ids, name)


def check_id_type(X, place: int, name: str) -> None:
    """Refuse ids of a dtype that has neither numbers nor text, without reading them."""
    dtypes = dtypes_of(X)
    dtype = own_type(dtypes[place if len(dtypes) > 1 else 0])
    other = isinstance(dtype, np.dtype) and dtype.kind not in "biufOUT"
    other = other or is_date(dtype) or is_never_number(dtype)
    if other or "binary" in str(dtype).lower():
        raise TypeError(
            f"{name} must contain integers or text, got ids of dtype {dtype}: each "
            f"argument must be a string or a number; {_CONVERT}"
        )


def _of_objects(ids: np.ndarray, name: str) -> np.ndarray:
    keys = ids.tolist()
    kinds = {cls: _kind(cls) for cls in set(map(type, keys))}
    found = set(kinds.values())
    floats = [cls for cls in kinds if issubclass(cls, (float, np.floating))]
    if "missing" in found or any(key != key for key in keys if type(key) in floats):
        _refuse_missing(name)
    if "others" in found:
        raise TypeError(
            f"{name} must contain integers or text: each argument must be a string or "
            f"a number; {_CONVERT}"
        )
    check_one_kind(found, name)
    if found == {"strings"}:
        if any(str.endswith(key, "\0") for key in set(keys)):
            raise ValueError(
                f"{name} must not contain ids that end in a NUL character: numpy's "
                "arrays of fixed width drop it, so that two ids become one; strip it "
                "from all of them, or write such ids as numbers or in hexadecimal"
            )
        return ids
    for cls in floats:
        _check_floats(np.array([key for key in keys if type(key) is cls]), name)
    if any(not -(2**63) <= key < 2**63 for key in keys):
        _refuse_large(name)
    return np.fromiter(map(int, keys), dtype=np.int64, count=len(keys))


def _kind(cls: type) -> str:
    if issubclass(cls, str):
        return "strings"
    if issubclass(cls, (numbers.Integral, np.bool_, float, np.floating)):
        return "numbers"
    is_missing = cls is type(None) or cls.__name__ in ("NAType", "NaTType")
    return "missing" if is_missing else "others"


def _whole(ids: np.ndarray, name: str) -> np.ndarray:
    """Return an array of numbers as int64."""
    check_id_type(ids, 0, name)
    if ids.dtype.kind == "f":
        _check_floats(ids, name)
    elif ids.dtype.kind == "u" and ids.itemsize == 8 and np.any(ids >= 2**63):
        _refuse_large(name)
    return ids.astype(np.int64, copy=False)


def _check_floats(ids: np.ndarray, name: str) -> None:
    """Refuse floats that are not whole, or that may stand for several numbers."""
    if not np.isfinite(ids).all():
        _refuse_missing(name)
    # From here on, neighboring whole numbers are one and the same float.
    largest = 2.0 ** min(np.finfo(ids.dtype).nmant + 1, 53)
    owners = name.replace("_feature", "s")  # the argument beside the parameter
    if np.any(np.abs(ids) >= largest):
        raise ValueError(
            f"{name}: ids of {largest:g} or more are not exact in {ids.dtype}, so "
            f"several {owners} may have become one; use integers or strings, or pass "
            f"such ids as {owners}=..."
        )
    if np.any(ids != np.trunc(ids)):
        raise ValueError(
            f"{name}: NaN and numbers that are not whole cannot be ids. If earlier "
            "steps moved or scaled columns, name the column of ids: keep names with "
            'set_output(transform="pandas"), and leave that column unchanged'
        )


def _refuse_missing(name: str) -> None:
    raise ValueError(
        f"{name} must not contain missing ids, NaN or infinity: drop such rows first"
    )


def _refuse_large(name: str) -> None:
    raise ValueError(f"{name} must contain integers of 64 bits or text; {_CONVERT}")


def kinds_of(ids: np.ndarray) -> set[str]:
    """Return the kind of an :func:`id_array`; none if it is empty."""
    if not len(ids):
        return set()
    return {"strings" if ids.dtype == object else "numbers"}


def check_one_kind(kinds: Iterable[str], name: str) -> None:
    """Refuse ids of several kinds: lookups would tell which ones occur."""
    kinds = sorted(kinds)
    if len(kinds) > 1:
        raise ValueError(
            f"{name} must contain ids of one kind, got {', '.join(kinds)}: 1 and '1' "
            "are different ids; convert them to one type"
        )


def joined_ids(parts: Iterable[np.ndarray], name: str) -> np.ndarray:
    """Join the ids of several parts, each from :func:`id_array`."""
    parts = list(parts)
    check_one_kind(set().union(*map(kinds_of, parts)), name)
    return np.concatenate([part for part in parts if len(part)] or parts[:1])


def encode_ids(ids, name: str) -> tuple[np.ndarray, int]:
    """Return codes of ids, from 0 by first appearance, and how many are distinct."""
    codes, first = codes_and_rows(id_array(ids, name))
    return codes, len(first)


def codes_and_rows(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of the ids of an :func:`id_array`, and the first row of each."""
    if ids.dtype == object:
        table: dict[str, int] = {}
        found = (table.setdefault(key, len(table)) for key in ids.tolist())
        codes = np.fromiter(found, dtype=np.intp, count=len(ids))
        return codes, _first_rows(codes, len(table))
    low, high = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
    if high - low <= 4 * len(ids) + (1 << 16):
        # Without a sort: numbers that lie close together are places in a table.
        places = ids - low
        first = _first_rows(places, high - low + 1)
    else:
        _, first, places = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)[: np.count_nonzero(first < len(ids))]
    appearance = np.empty(len(first), dtype=np.intp)
    appearance[order] = np.arange(len(order))
    return appearance[places], first[order]


def _first_rows(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """Return the first row of each code, or the number of rows if it does not occur."""
    first = np.full(n_codes, len(codes), dtype=np.intp)
    np.minimum.at(first, codes, np.arange(len(codes)))
    return first


class IdIndex:
    """Distinct ids of one kind, and the codes of rows, by first appearance."""

    def __init__(self, ids, name: str):
        ids = id_array(ids, name)
        self.codes, first = codes_and_rows(ids)
        if len(first) > _MOST_IDS:
            raise ValueError(f"{name} must contain at most 2**32 different ids")
        self._build(ids[first], name)

    def _build(self, ids: np.ndarray, name: str) -> None:
        self.ids, self._name = ids, name
        self._table = self._order = None
        if ids.dtype == object:
            self._table = {key: code for code, key in enumerate(ids.tolist())}
        else:
            self._order = np.argsort(ids, kind="stable")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def first(self):
        """Id that appeared first."""
        return self.ids[0]

    def without_codes(self) -> IdIndex:
        """Drop the codes of the rows that the index was built from."""
        self.codes = None
        return self

    def joined(self, ids) -> IdIndex:
        """Return an index with additional ids, of the same kind and not yet in it."""
        new = object.__new__(IdIndex)
        ids = id_array(ids, self._name)
        new._build(joined_ids([self.ids, ids], self._name), self._name)
        return new.without_codes()

    def find(self, ids, name: str) -> np.ndarray:
        """Return codes of ids, -1 for unknown ones; refuse ids of another kind."""
        ids = id_array(ids, name)
        if not len(ids) or not len(self):
            return np.full(len(ids), -1, dtype=np.intp)
        if ids.dtype != self.ids.dtype:
            before = "in fit it contained" if name == self._name else ""
            raise ValueError(
                f"{name} contains {kinds_of(ids).pop()}, but "
                f"{before or f'{self._name} contains'} {kinds_of(self.ids).pop()}: 1 "
                "and '1' are different ids; convert one to the type of the other"
            )
        if self._table is not None:
            found = (self._table.get(key, -1) for key in ids.tolist())
            return np.fromiter(found, dtype=np.intp, count=len(ids))
        place = np.searchsorted(self.ids, ids, sorter=self._order)
        code = self._order[np.minimum(place, len(self) - 1)]
        return np.where(self.ids[code] == ids, code, -1)


class UserRows:
    """The users of all rows, read in parts: their number alone is public.

    ``parts()`` yields the ids of the rows in order, the same ones at each call.
    """

    def __init__(self, parts: Callable[[], Iterable[np.ndarray]], name: str) -> None:
        self._parts, self._name = parts, name
        self._index: IdIndex | None = None
        self._counts = np.zeros(0, dtype=np.intp)
        # Of rows in one part: those of each user, one after another.
        self._grouped: np.ndarray | None = None
        read = 0
        for codes in self._codes():
            more = np.bincount(codes, minlength=len(self._counts))
            more[: len(self._counts)] += self._counts
            self._counts, read = more, read + 1
        self.n_rows = int(self._counts.sum())
        if read == 1:
            self._grouped = np.argsort(codes, kind="stable")

    def __len__(self) -> int:
        return len(self._counts)

    def _codes(self) -> Iterator[np.ndarray]:
        """Yield the codes of rows, by the first appearance of their users."""
        for part in self._parts():
            ids = id_array(part, self._name)
            if self._index is None:
                self._index = IdIndex(ids, self._name)
                yield self._index.codes
                self._index.without_codes()
                continue
            codes = self._index.find(ids, self._name)
            if (codes < 0).any():
                new = ids[codes < 0]
                new = new[codes_and_rows(new)[1]]
                self._index = self._index.joined(new)
                codes = self._index.find(ids, self._name)
            yield codes

    def ids(self) -> np.ndarray:
        """Return the id of each row."""
        parts = (id_array(part, self._name) for part in self._parts())
        return joined_ids(parts, self._name)

    def rows(self, chosen: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return a row of each chosen user: the one at a share in [0, 1) of its own."""
        own = self._counts[chosen]
        wanted = np.minimum((shares * own).astype(np.intp), own - 1)
        if self._grouped is not None:
            first = np.cumsum(self._counts) - self._counts
            return self._grouped[first[chosen] + wanted]
        found, seen = np.empty(len(chosen), np.intp), np.zeros(len(self), np.intp)
        start = 0
        for codes in self._codes():
            counts, grouped = (
                np.bincount(codes, minlength=len(self)),
                np.argsort(codes, kind="stable"),
            )
            place = wanted - seen[chosen]
            here = (place >= 0) & (place < counts[chosen])
            first = np.cumsum(counts) - counts
            found[here] = start + grouped[first[chosen[here]] + place[here]]
            seen += counts
            start += len(codes)
        return found


class UserDraw:
    """Users in a secret order, each of whom shows a row at random whenever asked."""

    def __init__(self, users: UserRows, coins: Any) -> None:
        self._users, self._coins = users, coins
        self._order = coins.secret_order(len(users))

    def rows(self, places: Any = slice(None)) -> np.ndarray:
        """Return a row of each of the users at some places, by default of all."""
        chosen = self._order[places]
        return self._users.rows(chosen, self._coins.shares(len(chosen)))
