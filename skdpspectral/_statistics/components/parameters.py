"""Public parameters of DPPCA that only make sense, or need sense, together."""

from __future__ import annotations

import math

import numpy as np

from ..._tables.masks import refuse_masked

# Variances whose ratios and products float64 arithmetic can handle.
_SMALLEST, _LARGEST = 1e-60, 1e60


def check_combinations(pca, n_samples: int, n_features: int) -> None:
    """Refuse parameters that contradict each other or the shape of the rows.

    Parameters
    ----------
    pca : DPPCA
        With parameters that are valid one by one.
    n_samples, n_features : int
        Public shape of the rows.

    Raises
    ------
    ValueError
        Naming the parameter, and what to do.
    """
    rank = pca.n_components
    if rank != "auto" and rank > min(n_samples, n_features):
        raise ValueError(
            f"n_components={rank} must be at most min(n_samples, "
            f"n_features)={min(n_samples, n_features)} for n_samples={n_samples}, "
            f"n_features={n_features}; ask for fewer components"
        )
    check_mechanism(pca, n_features)
    if pca.whiten and not pca._releases_variances():
        raise ValueError(
            "whiten=True needs variances of the data, but with clip_norm=None they are "
            'those of unit rows; set release="covariance" or a clip_norm'
        )


def check_mechanism(pca, n_features: int) -> None:
    """Refuse what contradicts the mechanism, whatever the number of rows.

    Parameters
    ----------
    pca : object
        With valid parameters of :class:`~skdpspectral.DPPCA` as attributes.
    n_features : int
        Public length of a row.

    Raises
    ------
    ValueError
        Naming the parameter, and what to do.
    """
    rank, mechanism = pca.n_components, pca.mechanism
    if mechanism == "spiked":
        if rank == "auto":
            raise ValueError(
                'n_components="auto" is not known to mechanism="spiked", whose noise '
                "depends on the number of components; give a number"
            )
        _check_spiked(pca)
    elif pca.calibration == "paper":
        raise ValueError(
            'calibration="paper" is for mechanism="spiked" alone: elsewhere it would '
            "only add noise"
        )
    if pca.sensitivity_constant is not None and pca.calibration != "paper":
        raise ValueError(
            'sensitivity_constant is for calibration="paper" alone: other noise needs '
            "no constant; leave it None"
        )
    staged = mechanism in ("two-stage", "spiked")
    least = 1 if rank == "auto" else rank
    if staged and least >= n_features:
        raise ValueError(
            f"mechanism={mechanism!r} needs n_components below n_features, got "
            f"n_components={rank!r} for n_features={n_features}; use "
            'mechanism="gaussian"'
        )
    _check_use(pca)


def _check_spiked(pca) -> None:
    for name in ("signal_variance", "noise_variance"):
        if getattr(pca, name) is None:
            raise ValueError(
                f'mechanism="spiked" needs a public {name}: its noise is computed from '
                "the model, which must be known without looking at the data"
            )
    bounded = {"bounds": pca.bounds, "clip_norm": pca.clip_norm}
    for name, value in bounded.items():
        if value is not None:
            raise ValueError(
                f'{name} has no use with mechanism="spiked", whose rows are not '
                f"bounded; leave {name}=None, or use another mechanism"
            )
    if pca.center == "private":
        raise ValueError(
            'center="private" has no use with mechanism="spiked", whose model has mean '
            'zero; leave center="auto"'
        )


def _check_use(pca) -> None:
    """Refuse public variances that nothing uses."""
    unused = []
    if pca.mechanism == "gaussian":
        unused = ["signal_variance"]
        if pca.release == "components":
            unused.append("noise_variance")
    for name in unused:
        if getattr(pca, name) is not None:
            raise ValueError(
                f"{name} has no use with mechanism={pca.mechanism!r} and "
                f"release={pca.release!r}; leave it None"
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


def public_variances(pca, unit: float):
    """Return public variances in squared units of the bounded rows.

    Parameters
    ----------
    pca : DPPCA
        Its `signal_variance` and `noise_variance`.
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
    signal = noise = None
    if pca.signal_variance is not None:
        size = None if pca.n_components == "auto" else int(pca.n_components)
        array = _numbers("signal_variance", pca.signal_variance, size)
        array = np.sort(np.broadcast_to(array, size or 1))[::-1] / unit / unit
        signal = tuple(_within("signal_variance", array).tolist())
    if pca.noise_variance is not None:
        array = _numbers("noise_variance", pca.noise_variance, None) / unit / unit
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


def public_range(pca, unit: float) -> tuple[float, float]:
    """Return the public range of lengths in units of the bounded rows."""
    value = pca.norm_range
    if np.ndim(value) != 1 or len(value) != 2:
        raise ValueError("norm_range must be a pair (low, high) of lengths")
    low, high = (float(side) for side in _numbers("norm_range", value, 2))
    if not low < high:
        raise ValueError("norm_range is reversed: low must be below high")
    low, high = low / unit, high / unit
    if not (low >= _SMALLEST**1.5 and high <= _LARGEST**1.5 and math.isfinite(high)):
        raise ValueError("norm_range is out of range in units of the bounds")
    return low, high
