"""Lists, tuples, columns and masked arrays, read entry by entry.

``numpy.asarray`` converts a list to one type that holds all of its entries. A text
among numbers then turns the numbers of all rows into texts, and a fraction turns large
integers into floats. Here each entry stays what it is, whatever is in other rows.
"""

from __future__ import annotations

import itertools

import numpy as np


def refuse_masked(values, name: str) -> None:
    """Refuse arrays of ``numpy.ma`` in which anything is masked, and lists of such.

    ``numpy.asarray`` takes what lies under a mask for a value, in rows of a list too.
    The error quotes nothing of the values.
    """
    if _hides(values):
        raise ValueError(f"{name} has masked values: drop or fill such rows first")


def _hides(part) -> bool:
    if isinstance(part, (list, tuple)):
        return any(map(_hides, part))
    return isinstance(part, np.ma.MaskedArray) and bool(
        np.any(np.ma.getmaskarray(part))
    )


_LISTS = (list, tuple)


def read_quietly(read, said: str = "a column could not be read as an array"):
    """Return what foreign code reads; of its errors the type, and no word."""
    try:
        return read()
    except (MemoryError, Warning):
        raise
    except Exception as error:
        reason = type(error).__name__  # its own words may quote values
    # Not in the handler: the context of an error has the words, too.
    raise ValueError(f"{said} ({reason})")


def read_entries(values, name: str) -> np.ndarray:
    """Return values as an array in which no entry depends on others.

    `values` is a list or tuple, nested at most once, or a column of any library. An
    array of numpy is returned as it is; others as objects, unless their type holds
    missing values without converting others. Masked entries, and rows of several
    lengths, are refused.
    """
    refuse_masked(values, name)
    if isinstance(values, np.ndarray):
        return values
    return read_quietly(lambda: _entries(values))


def _entries(values) -> np.ndarray:
    if isinstance(values, _LISTS):
        return objects_of_lists(values)
    if hasattr(values, "to_pylist"):  # pyarrow: integers with a null become floats
        return objects(values.to_pylist())
    if type(values).__module__.startswith("polars") and hasattr(values, "to_list"):
        is_float = values.dtype.is_float()
        return values.to_numpy() if is_float else objects(values.to_list())
    dtype = getattr(values, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype):
        # So do categories and nullable columns of pandas.
        values = values.astype(object)
    return np.asarray(values)


def objects_of_lists(X) -> np.ndarray:
    """Return a list of entries, or of rows, as an array of objects."""
    shape = shape_of_lists(X)
    if len(shape) == 1:
        return objects(X)
    if len(shape) == 2:
        return objects(list(itertools.chain.from_iterable(map(_own, X)))).reshape(shape)
    return np.stack([objects_of_lists(row) for row in X])


def objects(entries) -> np.ndarray:
    """Return entries as an array of objects: none is taken apart, or converted."""
    entries = _own(entries)
    if any(issubclass(kind, np.ndarray) for kind in set(map(type, entries))):
        entries = [e[()] if isinstance(e, np.ndarray) else e for e in entries]
    return np.fromiter(entries, dtype=object, count=len(entries))


def _own(entries):
    """Return the entries of an array as Python has them; lists as they are."""
    if isinstance(entries, np.ndarray) and entries.dtype.kind not in "mM":
        return entries.tolist()  # of times it would make integers
    return entries


def column_of_lists(X, position: int) -> np.ndarray:
    """Return one column of lists of rows as objects, by its own entries alone."""
    return objects([row[position] for row in X])


def shape_of_lists(X) -> tuple[int, ...]:
    """Shape of lists of lists, of which no entry is looked at but for its type."""
    if len(X) and all(isinstance(row, np.ndarray) for row in X):
        shapes = {row.shape for row in X}
        if len(shapes) > 1:
            raise ValueError("ragged")
        return (len(X), *shapes.pop())
    try:
        shape = np.asarray(X, dtype=object).shape
    except Exception:
        # Rows of several lengths; or numpy asked an entry if it is a sequence.
        shape = np.asarray(_without_entries(X), dtype=object).shape
    # Of rows and other entries together each is a value, which is read later.
    if len(shape) == 1 and len(X) and all(map(_is_row, X)):
        raise ValueError("ragged")
    return shape


def _is_row(entry) -> bool:
    if isinstance(entry, np.ndarray):
        return entry.ndim > 0
    return isinstance(entry, _LISTS)


def _without_entries(X):
    """Return lists of lists with zeros for all entries that are none."""
    if type(X) not in _LISTS:
        return X if isinstance(X, np.ndarray) else 0
    return [_without_entries(entry) for entry in X]
