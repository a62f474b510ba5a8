"""Scores of predictions: means and sums of bounded contributions."""

from __future__ import annotations

import math

# What contributions to an R2 are weighted by, beside the squared error in [0, 1]: the
# target in [-1, 1] and its square.
TARGET_WEIGHT = 0.5


def score_sensitivity(diameter: float, n_terms: int, n_times: int = 1) -> float:
    r"""Sensitivity of a mean of contributions under replacement of one row.

    Parameters
    ----------
    diameter : float
        Largest distance D of two contributions that a row may have.
    n_terms : int
        Public number N of contributions that the mean is over.
    n_times : int, default=1
        Largest number m of them that one row has, as where it is held out m times.

    Returns
    -------
    float
        l2-sensitivity :math:`m D / N` under replace-one.

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

    Parameters
    ----------
    half_range : float
        Bound h on the modulus of a user's value, measured from the middle of its range.
    count_weight : float
        What each user adds to the count, w.

    Returns
    -------
    float
        l2-sensitivity :math:`\sqrt{h^2 + w^2}` of both together under add-remove-one.
    """
    return math.hypot(half_range, count_weight)


def confusion_diameter() -> float:
    r"""Largest distance of two contributions of which each is one unit vector or 0.

    Returns
    -------
    float
        :math:`\sqrt2`: of counts of right and wrong predictions, class by class, and of
        two parts of a whole of at most 1.
    """
    return math.sqrt(2.0)


def regression_diameter() -> float:
    r"""Largest distance of contributions (e, v / 2, v^2 / 2) to an R2.

    Returns
    -------
    float
        :math:`\sqrt2`, for e in [0, 1] and v in [-1, 1].
    """
    targets = 2.0 * TARGET_WEIGHT
    return math.hypot(1.0, targets)
