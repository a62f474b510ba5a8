"""Public numbers of mechanisms: checked together, in units of the bounded rows."""

from __future__ import annotations

import math

import numpy as np

from ..._tables.masks import refuse_masked
from ...mechanisms._numbers import check_real
from .strategies import DEFAULT_RANGE

# Variances whose ratios and products float64 arithmetic can handle.
SMALLEST, LARGEST = 1e-60, 1e60


def read_numbers(
    name: str, strategy, n_components, unit: float, covariance: bool, clipped: bool
) -> dict:
    """Return the public numbers of a mechanism, in units of the bounded rows.

    Parameters
    ----------
    name, strategy : str, object
        As :func:`resolve_mechanism` gives them.
    n_components : int or "auto"
        As in :class:`~skdpspectral.DPPCA`.
    unit : float
        Units of the data per unit of the bounded rows.
    covariance : bool
        Whether the covariance within the components is released.
    clipped : bool
        Whether it has a public clip.

    Returns
    -------
    dict
        Fields of :class:`ComponentMechanism`.

    Raises
    ------
    ValueError
        If a number is invalid or of no use.
    """
    signal, noise = public_variances(strategy, n_components, unit)
    numbers = {"signal": signal, "noise": noise}
    if name == "spiked":  # whose model has no private lengths
        numbers["calibration"] = strategy.calibration
        if strategy.sensitivity_constant is not None:
            constant = check_real("sensitivity_constant", strategy.sensitivity_constant)
            numbers["constant"] = constant
        return numbers
    numbers["norm_range"] = public_range(strategy.norm_range, unit)
    _check_use(name, strategy, covariance, clipped)
    return numbers


def _check_use(name: str, strategy, covariance: bool, clipped: bool) -> None:
    """Refuse public numbers that nothing uses."""
    kind, searched = type(strategy).__name__, covariance and not clipped
    if name != "gaussian":
        public = (strategy.signal_variance, strategy.noise_variance)
        searched = searched or any(value is None for value in public)
    elif strategy.noise_variance is not None and not covariance:
        raise ValueError(
            f"noise_variance has no use with mechanism={kind}(...) and "
            'release="components"; leave it None'
        )
    if not searched and tuple(map(float, strategy.norm_range)) != DEFAULT_RANGE:
        raise ValueError(
            f"norm_range has no use with mechanism={kind}(...) here, where no private "
            "length is searched for; leave it out"
        )


def _numbers(name: str, value, size: int | None) -> np.ndarray:
    """Return one number or `size` numbers as float64, or an error that names them."""
    refuse_masked(value, name)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iufO" or isinstance(value, (bool, np.bool_)):
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must hold real numbers within float64") from None
    if array.ndim > 1 or (array.ndim == 1 and array.size != size):
        wanted = "a number" if size is None else f"a number or {size} numbers"
        raise ValueError(f"{name} must be {wanted}, got shape {array.shape}")
    if not np.all((array >= SMALLEST) & (array <= LARGEST)):
        raise ValueError(
            f"{name} must lie in [{SMALLEST:g}, {LARGEST:g}]: positive and finite"
        )
    return array


def public_variances(strategy, n_components, unit: float):
    """Return public variances in squared units of the bounded rows.

    Parameters
    ----------
    strategy : object
        With a `noise_variance`, and a `signal_variance` where it has one.
    n_components : int or "auto"
        How many numbers a `signal_variance` may hold.
    unit : float
        Units of the data per unit of the bounded rows.

    Returns
    -------
    signal : tuple of float or None
        One a component, largest first.
    noise : float or None
        The noise variance.

    Raises
    ------
    ValueError
        If they are no positive numbers.
    """
    signal, noise = getattr(strategy, "signal_variance", None), strategy.noise_variance
    if signal is not None:
        size = None if n_components == "auto" else int(n_components)
        array = _numbers("signal_variance", signal, size)
        array = np.sort(np.broadcast_to(array, size or 1))[::-1] / unit / unit
        signal = tuple(within("signal_variance", array).tolist())
    if noise is not None:
        array = _numbers("noise_variance", noise, None) / unit / unit
        noise = float(within("noise_variance", array))
    return signal, noise


def public_guesses(signal, noise, unit: float) -> tuple[float, float]:
    """Return guessed variances in squared units of the bounded rows."""
    pair = (("signal_variance", signal), ("noise_variance", noise))
    signal_guess, noise_guess = (
        float(within(name, _numbers(name, value, None) / unit / unit))
        for name, value in pair
    )
    return signal_guess, noise_guess


def within(name: str, array: np.ndarray) -> np.ndarray:
    """Refuse variances that the units of the bounds carry out of range."""
    if not np.all((array >= SMALLEST**2) & (array <= LARGEST**2)):
        raise ValueError(f"{name} is out of range in units of the bounds")
    return array


def public_range(value, unit: float) -> tuple[float, float]:
    """Return the public range of lengths in units of the bounded rows."""
    if np.ndim(value) != 1 or len(value) != 2:
        raise ValueError("norm_range must be a pair (low, high) of lengths")
    low, high = (float(side) for side in _numbers("norm_range", value, 2))
    if not low < high:
        raise ValueError("norm_range is reversed: low must be below high")
    low, high = low / unit, high / unit
    if not (low >= SMALLEST**1.5 and high <= LARGEST**1.5 and math.isfinite(high)):
        raise ValueError("norm_range is out of range in units of the bounds")
    return low, high
