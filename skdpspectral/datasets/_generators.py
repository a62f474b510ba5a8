"""Samples from the models under which the papers state their rates."""

import numbers

import numpy as np
from sklearn.utils import check_random_state


def make_spiked_covariance(
    n_samples=1000,
    n_features=50,
    *,
    n_components=1,
    signal_variance=10.0,
    noise_variance=1.0,
    random_state=None,
):
    r"""Draw rows from the spiked covariance model.

    The rows are independent and :math:`N(0, U \Lambda U' + \sigma^2 I_p)`, where
    the p x r matrix U has orthonormal columns and is uniform among such matrices
    (Haar). Memory is of the order of the data: no p x p matrix is formed.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows n, at least 1.
    n_features : int, default=50
        Number of columns p, at least 1.
    n_components : int, default=1
        Rank r of the signal, between 1 and `n_features`.
    signal_variance : float or array-like of shape (n_components,), default=10.0
        Diagonal of :math:`\Lambda`: the variance that the signal adds along each
        component, positive and, when an array, in non-increasing order. The
        variance of the rows along component k is
        `signal_variance[k] + noise_variance`.
    noise_variance : float, default=1.0
        :math:`\sigma^2`, the variance common to all directions, at least 0.
    random_state : int, RandomState instance or None, default=None
        Source of the draws; an int makes them repeatable.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The sample, of mean zero.
    components : ndarray of shape (n_components, n_features)
        U', with orthonormal rows in the order of `signal_variance`.

    Raises
    ------
    ValueError
        If a size is not a positive integer, if `n_components` is above
        `n_features`, or if a variance is out of its range.

    References
    ----------
    I. M. Johnstone (2001), On the distribution of the largest eigenvalue in
    principal components analysis, Annals of Statistics 29(2), section 1.
    F. Mezzadri (2007), How to generate random matrices from the classical compact
    groups, Notices of the AMS 54(5), section 5 (the signs that make QR Haar).

    Examples
    --------
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> X, components = make_spiked_covariance(
    ...     200, 10, n_components=2, signal_variance=[9.0, 4.0], random_state=0
    ... )
    >>> X.shape, components.shape
    ((200, 10), (2, 10))
    """
    _check_size("n_samples", n_samples)
    _check_size("n_features", n_features)
    _check_size("n_components", n_components)
    if n_components > n_features:
        raise ValueError(
            f"n_components must be at most n_features={n_features}, "
            f"got {n_components}: lower n_components or raise n_features"
        )
    signal = _check_signal_variance(signal_variance, n_components)
    noise_std = np.sqrt(_check_noise_variance(noise_variance))
    rng = check_random_state(random_state)

    components = _haar_rows(n_components, n_features, rng)
    scores = rng.standard_normal((n_samples, n_components)) * np.sqrt(signal)
    X = rng.standard_normal((n_samples, n_features))
    X *= noise_std
    X += scores @ components
    return X, components


def _haar_rows(n_rows, n_columns, rng):
    """Draw orthonormal rows uniformly (QR of a Gaussian, signs of diag R fixed)."""
    q, r = np.linalg.qr(rng.standard_normal((n_columns, n_rows)))
    # LAPACK ties the signs of Q to the data; R with a positive diagonal undoes it.
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)
    return np.ascontiguousarray(q.T)


def _check_size(name, value):
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def _as_float_array(name, value):
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric, got {value!r}") from error


def _check_signal_variance(signal_variance, n_components):
    signal = _as_float_array("signal_variance", signal_variance)
    if signal.ndim == 0:
        signal = np.full(n_components, float(signal))
    if signal.shape != (n_components,):
        raise ValueError(
            "signal_variance must be a number or hold one number a component, "
            f"shape ({n_components},), got shape {signal.shape}"
        )
    if not (np.isfinite(signal).all() and (signal > 0).all()):
        raise ValueError(
            "signal_variance must be positive and finite, "
            f"got {signal_variance!r}: lower n_components to drop a component"
        )
    if (np.diff(signal) > 0).any():
        raise ValueError(
            "signal_variance must be in non-increasing order, "
            f"got {signal_variance!r}: sort it, largest first"
        )
    return signal


def _check_noise_variance(noise_variance):
    noise = _as_float_array("noise_variance", noise_variance)
    if noise.ndim != 0 or not np.isfinite(noise) or noise < 0:
        raise ValueError(
            f"noise_variance must be one finite number of at least 0, "
            f"got {noise_variance!r}"
        )
    return float(noise)
