"""Sums of one bounded contribution a user, votes, and scores of predictions."""

from __future__ import annotations

import math

from ..mechanisms import Neighbors

# How far one unit moves a sum of vectors of unit norm.
_SUM_FACTORS = {Neighbors.ADD_REMOVE_ONE: 1.0, Neighbors.REPLACE_ONE: 2.0}


def sum_sensitivity(clip_norm: float, neighbors: Neighbors | str) -> float:
    """Sensitivity of a sum over units of one vector each, of norm at most c.

    :math:`c` under add-remove-one (a unit joins or leaves, their number is private),
    :math:`2 c` under replace-one (a unit's data change, their number is public). A
    unit's vector may be any function of this unit's own data, of public numbers and of
    earlier releases. It must be the same, to the last bit, whoever else is in the data.

    Raises
    ------
    ValueError
        If the bound is not positive and finite, or for any other relation.

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
    r"""Sensitivity of a vector of counts of v votes a unit, of plus or minus one half.

    :math:`\sqrt v / 2` under add-remove-one, :math:`\sqrt v` under replace-one.
    """
    if n_votes < 1:
        raise ValueError(f"n_votes must be at least 1, got {n_votes}")
    return sum_sensitivity(0.5 * math.sqrt(n_votes), neighbors)


def projector_sum_sensitivity(neighbors: Neighbors | str) -> float:
    r"""Sensitivity of a sum over units of one s s' each, with s of unit norm or zero.

    In Frobenius norm: 1 under add-remove-one, :math:`\sqrt2` under replace-one, for
    :math:`\|ss' - tt'\|_F^2 = 2 - 2 \langle s, t\rangle^2`.
    """
    factor = sum_sensitivity(1.0, neighbors)
    return math.sqrt(2.0) if factor == 2.0 else factor


# What contributions to an R2 are weighted by, beside the squared error in [0, 1]: the
# target in [-1, 1] and its square.
TARGET_WEIGHT = 0.5


def score_sensitivity(diameter: float, n_terms: int, n_times: int = 1) -> float:
    """Sensitivity :math:`m D / N` of a mean of N contributions under replace-one.

    D = `diameter` is the largest distance of two contributions that a row may have. One
    row has at most m = `n_times` of them, as where it is held out m times.

    Examples
    --------
    >>> from skdpspectral.sensitivity import score_sensitivity
    >>> score_sensitivity(1.0, 1000)  # an accuracy on a thousand rows
    0.001
    """
    if not 1 <= n_times <= n_terms:
        raise ValueError(
            f"n_times must be at least 1 and at most n_terms, got {n_times} of "
            f"{n_terms}"
        )
    return diameter * n_times / n_terms


def counted_score_sensitivity(half_range: float, count_weight: float) -> float:
    r"""Sensitivity of a sum over users of bounded values, together with their count.

    :math:`\sqrt{h^2 + w^2}` under add-remove-one. A user's value is at most h from the
    middle of its range, and each user adds w to the count.
    """
    return math.hypot(half_range, count_weight)


def confusion_diameter() -> float:
    r"""Largest distance :math:`\sqrt2` of contributions of one unit vector or 0 each.

    Of counts of right and wrong predictions, class by class, and of two parts of a
    whole of at most 1.
    """
    return math.sqrt(2.0)


def regression_diameter() -> float:
    r"""Largest distance :math:`\sqrt2` of contributions (e, v / 2, v^2 / 2) to an R2.

    For e in [0, 1] and v in [-1, 1].
    """
    targets = 2.0 * TARGET_WEIGHT
    return math.hypot(1.0, targets)
