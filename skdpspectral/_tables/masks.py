"""Masked arrays of numpy, whose hidden values must not pass for values."""

from __future__ import annotations

import numpy as np


def refuse_masked(values, name: str) -> None:
    """Refuse arrays of ``numpy.ma`` in which anything is masked, and lists of such.

    ``numpy.asarray`` takes what lies under a mask for a value, in rows of a list too.

    Parameters
    ----------
    values : object
        What was given.
    name : str
        What errors call it.

    Raises
    ------
    ValueError
        Naming it, and quoting nothing of it.
    """
    parts = values if isinstance(values, (list, tuple)) else (values,)
    if any(_hides(part) for part in parts):
        raise ValueError(f"{name} has masked values: drop or fill such rows first")


def _hides(part) -> bool:
    return isinstance(part, np.ma.MaskedArray) and bool(
        np.any(np.ma.getmaskarray(part))
    )
