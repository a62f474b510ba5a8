"""Expected errors of covariances that a stream releases at every step."""

from __future__ import annotations

import math

import numpy as np

from ..mechanisms._numbers import check_count, check_real
from ..sensitivity import free_moment_weight

_METHODS = ("jme", "pp-debiased")


def stream_covariance_error(
    n_steps: int, n_features: int, noise_std: float, *, method: str = "jme"
) -> tuple[float, float]:
    r"""Bounds on the expected error of running covariances, for the worst rows.

    The error is squared, in Frobenius norm, and summed over all steps; covariances are
    those of all rows so far, rid of the bias of their noise and not projected.

    Parameters
    ----------
    n_steps : int
        Number of rows n.
    n_features : int
        Dimension d; rows are in the unit ball.
    noise_std : float
        Standard deviation s of the independent noise of a row, at least 0:
        :math:`2 \sigma` for the noise :math:`\sigma` of a sensitivity of 1.
    method : {"jme", "pp-debiased"}, default="jme"
        "jme": products of rows have noise of their own, of the free weight, in
        symmetric matrices. "pp-debiased": noisy rows are multiplied.

    Returns
    -------
    least, most : float
        Between them is the largest expected error that any rows have; equal for "jme".

    Raises
    ------
    ValueError
        If an argument is invalid.

    References
    ----------
    :ref:`lemma-noisy-covariances`; Kalinin, Upadhyay and Lampert (2025), theorems 4.1
    and 4.2.

    Examples
    --------
    >>> from skdpspectral.theory import stream_covariance_error
    >>> [round(e) for e in stream_covariance_error(30, 4, 4.0, method="pp-debiased")]
    [12671, 12679]
    """
    n, d = check_count("n_steps", n_steps), check_count("n_features", n_features)
    s = check_real("noise_std", noise_std)
    if not 0.0 <= s < math.inf:
        raise ValueError(f"noise_std must be at least 0 and finite, got {noise_std}")
    if method not in _METHODS:
        raise ValueError(f"method must be one of {_METHODS}, got {method!r}")
    inverse = 1.0 / np.arange(n, 0, -1, dtype=np.float64)  # smallest first
    first, squared = inverse.sum(), np.square(inverse).sum()
    if method == "jme":
        products = d * (d + 1) / 2 / free_moment_weight(d)
        error = (products + 2 * (d + 1)) * s**2 * first + d * (d + 1) * s**4 * squared
        return float(error), float(error)
    of_noise = d * (d + 1) * s**4 * (first - squared)
    # What the mean of signs that alternate leaves of the rows' variance.
    odd = (inverse[::-1][::2] ** 3).sum()
    least, most = (2 * (d + 1) * s**2 * (first - part) for part in (odd, 1.0))
    return float(of_noise + least), float(of_noise + most)
