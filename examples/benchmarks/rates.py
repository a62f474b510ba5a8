"""Rates of private PCA in the spiked model, and errors of covariances of streams."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skdpspectral.mechanisms import check_count, check_real
from skdpspectral.sensitivity import free_moment_weight

_TARGETS, _BOUNDS = ("components", "covariance"), ("lower", "upper")


class _Model(NamedTuple):
    """Public numbers of a spiked model."""

    p: int
    r: int
    signal: float
    noise: float

    @property
    def spread(self) -> float:
        """Root of sigma^2 (lambda + sigma^2) over lambda."""
        return math.sqrt(self.noise * (self.signal + self.noise)) / self.signal


def minimax_rate(
    n_samples,
    n_features,
    rank,
    signal_variance,
    noise_variance,
    epsilon=None,
    delta=1e-6,
    *,
    target="components",
    bound="lower",
    order=2.0,
    n_nonzero_features=None,
):
    r"""Rate of private estimation in the spiked model, up to a constant.

    Rows are independent, :math:`N(0, U \Lambda U' + \sigma^2 I)`, and all signal
    variances are of the order of :math:`\lambda`. Up to an unknown constant, no
    :math:`(\epsilon, \delta)`-private method has an error below the lower bound for all
    such distributions. The upper bound is the rate of the papers' algorithms. Formulas
    are given in :ref:`rates`.

    Parameters
    ----------
    n_samples : int or array-like of shape (n_clients,)
        Number of rows n, or the number of rows of each client.
    n_features : int
        Dimension p.
    rank : int
        Number of components r, at most p / 2.
    signal_variance, noise_variance : float
        :math:`\lambda` and :math:`\sigma^2`, positive.
    epsilon : float, array-like of shape (n_clients,) or None, default=None
        Budget, or the budget of each client. None means no privacy.
    delta : float or array-like of shape (n_clients,), default=1e-6
        Delta in (0, 1). Lower bounds hold for small delta, and do not depend on it.
    target : {"components", "covariance"}, default="components"
        Target of the estimation: the projector :math:`UU'`, or the covariance with
        known :math:`\sigma^2`.
    bound : {"lower", "upper"}, default="lower"
        Which bound to compute. The bounds differ by logarithms.
    order : float, default=2.0
        Order q of the Schatten norm of the error, at least 1: 2 for the Frobenius and
        inf for the spectral norm. Orders other than 2 require a single client.
    n_nonzero_features : int or None, default=None
        Number s of features used by any component, from r to p, for "components".

    Returns
    -------
    float
        The rate, not squared. A lower bound is at most the error of an estimate that
        ignores the rows.

    Raises
    ------
    ValueError
        If an argument is invalid.

    References
    ----------
    Cai, Xia and Zha (2024), theorems 1 to 4; Li, Cai, Xia and Zhang (2024), theorems 1
    to 3; Cai, Ma and Wu (2013), Sparse PCA: optimal rates and adaptive estimation;
    Ge, Wang, Wang and Liu (2018), theorem 4.3.

    Examples
    --------
    >>> from rates import minimax_rate
    >>> print(f"{minimax_rate(10_000, 50, 1, 10.0, 1.0, epsilon=0.5):.4f}")
    0.0268
    >>> clients = minimax_rate([10_000] * 10, 50, 1, 10.0, 1.0, epsilon=0.5)
    >>> print(f"{clients:.4f}")
    0.0085
    """
    model = _check_model(n_features, rank, signal_variance, noise_variance)
    sizes, budgets, deltas = _check_clients(n_samples, epsilon, delta)
    _check_choice("target", target, _TARGETS)
    _check_choice("bound", bound, _BOUNDS)
    q = check_real("order", order)
    if not q >= 1.0 or (q != 2.0 and len(sizes) > 1):
        raise ValueError(
            f"order must be at least 1, and 2 for several clients, got {order}"
        )
    logs = np.sqrt(np.log(2.5 / deltas)) if bound == "upper" else np.ones(len(sizes))
    if n_nonzero_features is not None:
        s = _check_sparsity(model, n_nonzero_features, target)
        rate = _sparse(model, s, sizes, budgets, logs, bound)
    else:
        rate = _dense(model, sizes, budgets, logs, target, bound)
    rate *= model.r ** (1.0 / q - 0.5)
    if bound == "lower":
        # Projectors of rank r are no farther apart.
        unit = model.signal if target == "covariance" else 1.0
        rate = min(rate, (2.0 * model.r) ** (1.0 / q) * unit)
    return float(rate)


def _dense(model, sizes, budgets, logs, target, bound) -> float:
    """Frobenius rates of one client or of several: harmonic means of squares."""
    upper = bound == "upper"
    p, r = model.p, model.r
    size = r + np.log(sizes) if upper else np.full(len(sizes), float(r))
    paid = logs / (sizes * budgets)
    axes = model.spread * (np.sqrt(r * p / sizes) + p * np.sqrt(r * size) * paid)
    squared = _combined_square(axes)
    if target == "components":
        return math.sqrt(squared)
    values = np.sqrt(r * size / sizes) + np.sqrt(r * size**3) * paid
    return model.signal * math.sqrt(squared + _combined_square(values))


def _sparse(model, s, sizes, budgets, logs, bound) -> float:
    """Frobenius rates for components that few features make."""
    p, r = model.p, model.r
    if bound == "lower":
        # Which features they are costs rows; known features are a case of the private.
        entropy = r * (s - r) + s * math.log(math.e * p / s)
        squared = _combined_square(model.spread * s * r / (sizes * budgets))
        free = model.spread * math.sqrt(entropy / sizes.sum())
        return free + math.sqrt(squared)
    free = model.spread * math.sqrt(r * s * (r + math.log(p)) / sizes.sum())
    # Rows in the unit ball have a signal of this size; clients add noise one by one.
    signal = model.signal / (p * model.noise + r * model.signal)
    noise = np.sqrt(np.square(logs / budgets).sum()) / sizes.sum()
    return free + r * (math.sqrt(s) + math.sqrt(r)) * noise / signal


def _combined_square(rates: np.ndarray) -> float:
    """Return the squared rate of all clients: their weights are inverse squares."""
    if not rates.min() > 0.0:
        return 0.0
    return 1.0 / np.sum(rates**-2.0)


def _check_model(n_features, rank, signal_variance, noise_variance) -> _Model:
    p, r = check_count("n_features", n_features), check_count("rank", rank)
    if 2 * r > p:
        raise ValueError(f"rank must be at most half of n_features, got {r} of {p}")
    variances = {"signal_variance": signal_variance, "noise_variance": noise_variance}
    for name, value in variances.items():
        if not 0.0 < check_real(name, value) < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value}")
    return _Model(p, r, float(signal_variance), float(noise_variance))


def _check_clients(n_samples, epsilon, delta):
    """Return numbers of rows, budgets and deltas, one each a client."""
    sizes = np.atleast_1d(np.asarray(n_samples))
    if sizes.ndim != 1 or not sizes.size or sizes.dtype.kind not in "iu":
        raise ValueError("n_samples must be an integer, or a sequence of integers")
    if sizes.min() < 1:
        raise ValueError(f"n_samples must be at least 1, got {sizes.min()}")
    rows = sizes.astype(np.float64)
    budgets = _for_each("epsilon", math.inf if epsilon is None else epsilon, rows)
    deltas = _for_each("delta", delta, rows)
    if not np.all(budgets > 0.0):
        raise ValueError(f"epsilon must be positive or None, got {epsilon}")
    if not np.all((deltas > 0.0) & (deltas < 1.0)):
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    return rows, budgets, deltas


def _for_each(name, value, rows) -> np.ndarray:
    try:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), rows.shape)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a number, or one for each entry of n_samples"
        ) from None


def _check_choice(name, value, choices) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")


def _check_sparsity(model, n_nonzero_features, target) -> int:
    s = check_count("n_nonzero_features", n_nonzero_features)
    if target != "components":
        raise ValueError('n_nonzero_features requires target="components"')
    if not model.r <= s <= model.p:
        raise ValueError(
            f"n_nonzero_features must be from rank to n_features, got {s} of {model.p}"
        )
    return s


_METHODS = ("jme", "pp-debiased")


def stream_covariance_error(
    n_steps: int, n_features: int, noise_std: float, *, method: str = "jme"
) -> tuple[float, float]:
    r"""Bounds on the expected error of running covariances for worst-case rows.

    The squared error in Frobenius norm is summed over all steps. Each covariance uses
    all rows so far, is corrected for the bias of its noise, and is not projected.

    Parameters
    ----------
    n_steps : int
        Number of rows n.
    n_features : int
        Dimension d. Rows are in the unit ball.
    noise_std : float
        Standard deviation s of the independent noise of a row, at least 0. It is
        :math:`2 \sigma` for noise :math:`\sigma` at a sensitivity of 1.
    method : {"jme", "pp-debiased"}, default="jme"
        "jme": products of rows have their own noise, with the free weight, in symmetric
        matrices. "pp-debiased": noisy rows are multiplied.

    Returns
    -------
    least, most : float
        Bounds on the largest expected error over all rows. They are equal for "jme".

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
    >>> from rates import stream_covariance_error
    >>> [round(e) for e in stream_covariance_error(30, 4, 4.0, method="pp-debiased")]
    [12671, 12679]
    """
    n, d = check_count("n_steps", n_steps), check_count("n_features", n_features)
    s = check_real("noise_std", noise_std)
    if not 0.0 <= s < math.inf:
        raise ValueError(f"noise_std must be at least 0 and finite, got {noise_std}")
    _check_choice("method", method, _METHODS)
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
