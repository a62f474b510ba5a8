"""Public numbers that the shape of a network and the units of its targets come from."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from ..mechanisms._numbers import check_count

_MOST_LAYERS = 2


def hidden_widths(sizes) -> tuple[int, ...]:
    """Return the widths of hidden layers.

    Parameters
    ----------
    sizes : int or array-like of int
        Parameter `hidden_layer_sizes` of an estimator.

    Returns
    -------
    tuple of int
        At most two.

    Raises
    ------
    ValueError, TypeError
        Naming `hidden_layer_sizes`.
    """
    if np.ndim(sizes) == 0 and not isinstance(sizes, Integral):
        raise ValueError(
            "hidden_layer_sizes must be a number or a list of numbers of units"
        )
    sizes = (sizes,) if isinstance(sizes, Integral) else tuple(sizes)
    if len(sizes) > _MOST_LAYERS:
        raise ValueError(
            f"hidden_layer_sizes={sizes} has {len(sizes)} layers: at most "
            f"{_MOST_LAYERS} are supported"
        )
    return tuple(check_count("hidden_layer_sizes", size) for size in sizes)


def target_box(bounds, n_outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles and half-widths of the targets' bounds.

    Parameters
    ----------
    bounds : tuple (low, high) or None
        Parameter `target_bounds` of an estimator; None for targets as they are.
    n_outputs : int
        Number of targets.

    Returns
    -------
    tuple of ndarray of shape (n_outputs,)
        0 and 1 without bounds.

    Raises
    ------
    ValueError
        Naming `target_bounds`.
    """
    if bounds is None:
        return np.zeros(n_outputs), np.ones(n_outputs)
    try:
        low, high = (
            np.broadcast_to(np.asarray(bound, dtype=np.float64), n_outputs)
            for bound in bounds
        )
    except (TypeError, ValueError, OverflowError):
        low, high = np.ones((2, n_outputs))
    # Halves first: a sum of bounds, or a difference, may overflow.
    middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    if not (np.isfinite(low) & np.isfinite(high) & (half > 0.0)).all():
        raise ValueError(
            "target_bounds must be (low, high), finite, low < high: numbers, or "
            f"one number for each of {n_outputs} targets"
        )
    return middle, half


def scaled_targets(targets: np.ndarray, box) -> np.ndarray:
    """Return targets clipped to their bounds, which become -1 and 1."""
    middle, half = box
    return np.clip((targets - middle) / half, -1.0, 1.0)
