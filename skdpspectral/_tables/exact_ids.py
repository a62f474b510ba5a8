"""Numbers as ids: those that may stand for several at once are refused."""

from __future__ import annotations

import numpy as np

from .masks import refuse_masked

# Numbers that may stand for several whole ones.
_INEXACT = (float, complex, np.inexact)


def check_exact(ids, name: str) -> None:
    """Refuse numbers that cannot be ids, or may stand for several at once.

    Read are the type of the ids and, of floats, whether each is whole and below the
    first one that is not exact. All of a user's ids must be so, and none is compared to
    others': a table is refused for rows that stand for no user, as for a missing value,
    and never for who else is there. No id is quoted.
    """
    refuse_masked(ids, name)
    check_exact_array(np.asarray(ids), name)


def check_exact_array(ids: np.ndarray, name: str) -> None:
    """Refuse what :func:`check_exact` does, in an array without a mask."""
    owners = name.replace("_feature", "s")  # the argument beside the parameter
    if ids.dtype == np.float16:
        raise ValueError(
            f"{name}: float16 holds no whole number beyond 2048 exactly, so that "
            f"several {owners} may have become one; use integers or strings"
        )
    if ids.dtype == object:
        scalars = (key for key in ids.flat if isinstance(key, _INEXACT))
        for key in scalars:
            _check_float(np.asarray(key), name, owners)
    elif ids.dtype.kind in "fc":
        _check_float(ids, name, owners)


def _check_float(ids: np.ndarray, name: str, owners: str) -> None:
    if ids.dtype.kind == "c":
        raise ValueError(f"{name}: complex numbers cannot be ids; use integers or text")
    # From here on, neighboring whole numbers are one and the same float.
    # Of longer floats, Python hashes the nearest of 64 bits.
    largest = 2.0 ** min(np.finfo(ids.dtype).nmant + 1, 53)
    if np.any(np.abs(ids) >= largest):
        raise ValueError(
            f"{name}: ids from {largest:g} on are not exact in {ids.dtype}, so that "
            f"several {owners} may have become one; use integers or strings, or pass "
            f"such ids by {owners}=..."
        )
    # NaN is no id either, but a missing one, of which others tell.
    if np.any((ids != np.trunc(ids)) & (ids == ids)):
        raise ValueError(
            f"{name}: numbers that are not whole, as NaN, cannot be ids. If columns "
            "were moved or scaled before, name the column of ids: keep names by "
            'set_output(transform="pandas"), and leave that column as it is'
        )
