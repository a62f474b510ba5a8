"""Public numbers of mechanisms: checked together, in units of the bounded rows."""

from __future__ import annotations

import math

import numpy as np

from ..._tables.masks import refuse_masked
from ..private_mean import is_private
from .strategies import DEFAULT_RANGE

# Variances whose ratios and products float64 arithmetic can handle.
_SMALLEST, _LARGEST = 1e-60, 1e60


def check_mechanism(name: str, strategy, n_components, n_features: int) -> None:
    """Refuse what contradicts the mechanism, whatever the number of rows.

    Parameters
    ----------
    name : {"gaussian", "two-stage", "auto", "spiked"}
        The mechanism.
    strategy : object
        With its numbers.
    n_components : int or "auto"
        As in :class:`~skdpspectral.DPPCA`.
    n_features : int
        Public length of a row.

    Raises
    ------
    ValueError
        Naming the parameter, and what to do.
    """
    kind, counted = type(strategy).__name__, n_components != "auto"
    if name == "spiked":
        if not counted:
            raise ValueError(
                'n_components="auto" is not known to mechanism=SpikedModel(...), whose '
                "noise depends on the number of components; give a number"
            )
        _check_model(strategy)
    least = n_components if counted else 1
    if name in ("two-stage", "spiked") and least >= n_features:
        raise ValueError(
            f"mechanism={kind}(...) needs n_components below n_features, got "
            f"n_components={n_components!r} for n_features={n_features}; use "
            'mechanism="gaussian"'
        )


def _check_model(strategy) -> None:
    """Refuse a model without its numbers, and a constant that nothing uses."""
    for name in ("signal_variance", "noise_variance"):
        if getattr(strategy, name) is None:
            raise ValueError(
                f"SpikedModel needs a public {name}: its noise is computed from the "
                "model, which must be known without looking at the data"
            )
    paper = isinstance(strategy.calibration, str) and strategy.calibration == "paper"
    if strategy.sensitivity_constant is not None and not paper:
        raise ValueError(
            'sensitivity_constant is for calibration="paper" alone: other noise needs '
            "no constant; leave it None"
        )


def check_unbounded(*, bounds, clip_norm, center, scale) -> None:
    """Refuse bounds of rows that a model of them has no use for."""
    bounded = {"bounds": bounds, "clip_norm": clip_norm, "scale": scale}
    for name, value in bounded.items():
        if value is not None:
            raise ValueError(
                f"{name} has no use with mechanism=SpikedModel(...), whose rows are "
                f"not bounded; leave {name}=None, or use another mechanism"
            )
    if is_private(center):
        raise ValueError(
            "a private center has no use with mechanism=SpikedModel(...), whose model "
            'has mean zero; leave center="auto"'
        )


def check_use(name: str, strategy, covariance: bool, clipped: bool) -> None:
    """Refuse public numbers that nothing uses.

    Parameters
    ----------
    name : {"gaussian", "two-stage", "auto"}
        The mechanism.
    strategy : object
        With valid numbers.
    covariance : bool
        Whether the covariance within the components is released.
    clipped : bool
        Whether it has a public clip.

    Raises
    ------
    ValueError
        Naming the parameter.
    """
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
    if not np.all((array >= _SMALLEST) & (array <= _LARGEST)):
        raise ValueError(
            f"{name} must lie in [{_SMALLEST:g}, {_LARGEST:g}]: positive and finite"
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
        signal = tuple(_within("signal_variance", array).tolist())
    if noise is not None:
        array = _numbers("noise_variance", noise, None) / unit / unit
        noise = float(_within("noise_variance", array))
    return signal, noise


def public_guesses(signal, noise, unit: float) -> tuple[float, float]:
    """Return guessed variances in squared units of the bounded rows."""
    pair = (("signal_variance", signal), ("noise_variance", noise))
    return tuple(
        float(_within(name, _numbers(name, value, None) / unit / unit))
        for name, value in pair
    )


def _within(name: str, array: np.ndarray) -> np.ndarray:
    """Refuse what the units of the bounds carry out of range."""
    if not np.all((array >= _SMALLEST**2) & (array <= _LARGEST**2)):
        raise ValueError(f"{name} is out of range in units of the bounds")
    return array


def check_scaled(signal, noise, norm_range) -> None:
    """Refuse variances and a range, in units of the bounded rows, of no use.

    Parameters
    ----------
    signal : tuple of float or None
        Variances, which must be sorted, largest first.
    noise : float or None
        A variance.
    norm_range : tuple (low, high)
        Lengths.

    Raises
    ------
    ValueError
        Naming what is no number, out of order or out of range.
    """
    if signal is not None:
        values = np.asarray(signal, dtype=np.float64)
        if values.ndim != 1 or not values.size or np.any(np.diff(values) > 0.0):
            raise ValueError("signal_variance must be sorted, largest first")
        _within("signal_variance", values)
    if noise is not None:
        _within("noise_variance", np.asarray(noise, dtype=np.float64))
    low, high = norm_range
    if not _SMALLEST**1.5 <= low < high <= _LARGEST**1.5:
        raise ValueError("norm_range is out of range in units of the bounds")


def public_range(value, unit: float) -> tuple[float, float]:
    """Return the public range of lengths in units of the bounded rows."""
    if np.ndim(value) != 1 or len(value) != 2:
        raise ValueError("norm_range must be a pair (low, high) of lengths")
    low, high = (float(side) for side in _numbers("norm_range", value, 2))
    if not low < high:
        raise ValueError("norm_range is reversed: low must be below high")
    low, high = low / unit, high / unit
    if not (low >= _SMALLEST**1.5 and high <= _LARGEST**1.5 and math.isfinite(high)):
        raise ValueError("norm_range is out of range in units of the bounds")
    return low, high
