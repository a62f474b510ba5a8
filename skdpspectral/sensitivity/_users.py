"""Sums of one bounded contribution a user, and votes."""

from __future__ import annotations

import math

from ..mechanisms import Neighbors

# How far one unit moves a sum of vectors of unit norm.
_SUM_FACTORS = {Neighbors.ADD_REMOVE_ONE: 1.0, Neighbors.REPLACE_ONE: 2.0}


def sum_sensitivity(clip_norm: float, neighbors: Neighbors | str) -> float:
    r"""Sensitivity of a sum over units of one clipped vector each, c or 2 c.

    Parameters
    ----------
    clip_norm : float
        Bound c on the norm of every unit's vector; positive and finite.
    neighbors : Neighbors or str
        ``"add-remove-one"`` (a unit joins or leaves, their number is private) or
        ``"replace-one"`` (the data of a unit change, the number of units is public).

    Returns
    -------
    float
        l2-sensitivity: :math:`c` under add-remove-one, :math:`2 c` under
        replace-one.

    Raises
    ------
    ValueError
        If the bound is not positive and finite, or for any other relation.

    Notes
    -----
    A unit's vector may be any function of this unit's own data, of public numbers
    and of earlier releases. It must be the same, to the last bit, whoever else is in
    the data.

    Examples
    --------
    >>> from skdpspectral.sensitivity import sum_sensitivity
    >>> sum_sensitivity(1.0, "add-remove-one"), sum_sensitivity(0.5, "replace-one")
    (1.0, 1.0)
    """
    if not 0.0 < clip_norm < math.inf:
        raise ValueError(f"clip_norm must be positive and finite, got {clip_norm}")
    factor = _SUM_FACTORS.get(Neighbors(neighbors))
    if factor is None:
        known = " or ".join(repr(relation.value) for relation in _SUM_FACTORS)
        raise ValueError(f"neighbors must be {known}, got {neighbors!r}")
    return factor * clip_norm


def vote_sensitivity(n_votes: int, neighbors: Neighbors | str) -> float:
    r"""Sensitivity of a vector of counts of votes of plus or minus one half.

    Parameters
    ----------
    n_votes : int
        Votes v that each unit casts at once, at least 1.
    neighbors : Neighbors or str
        As in :func:`sum_sensitivity`.

    Returns
    -------
    float
        :math:`\sqrt v / 2` under add-remove-one, :math:`\sqrt v` under replace-one.
    """
    if n_votes < 1:
        raise ValueError(f"n_votes must be at least 1, got {n_votes}")
    return sum_sensitivity(0.5 * math.sqrt(n_votes), neighbors)


def projector_sum_sensitivity(neighbors: Neighbors | str) -> float:
    r"""Sensitivity of a sum over units of one s s' each, with s of unit norm or zero.

    Parameters
    ----------
    neighbors : Neighbors or str
        As in :func:`sum_sensitivity`.

    Returns
    -------
    float
        Frobenius-sensitivity: 1 under add-remove-one, :math:`\sqrt2` under
        replace-one, for :math:`\|ss' - tt'\|_F^2 = 2 - 2 \langle s, t\rangle^2`.
    """
    factor = sum_sensitivity(1.0, neighbors)
    return math.sqrt(2.0) if factor == 2.0 else factor
