"""Maps that enforce a bound on rows, whatever finite values they hold."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .columns import as_numbers, refuse_masked

_SMALLEST_EXTENT = 1e-100


def make_box(bounds, n_features: int, per_feature: bool) -> Box | None:
    """Return the public box; errors name `bounds`."""
    if bounds is None:
        if per_feature:
            raise ValueError('scale="bounds" needs bounds=(low, high)')
        return None
    size = "one number" if getattr(bounds, "ndim", 1) == 0 else len(bounds)
    if size != 2:
        raise ValueError(
            f"bounds must be a pair (low, high), got {size}; transpose an array that "
            "has one pair per feature"
        )
    low, high = map(_numbers, bounds)
    for name, side in (("low", low), ("high", high)):
        if side.shape not in ((), (n_features,)):
            raise ValueError(
                f"bounds: {name} has shape {side.shape}; pass a number or one value "
                f"for each of the {n_features} features"
            )
        if not np.isfinite(side).all():
            raise ValueError(f"bounds: {name} must be finite; pass public limits")
    with np.errstate(over="ignore"):
        extent = high - low
    if np.any(extent < 0):
        raise ValueError("bounds are reversed: low must be at most high everywhere")
    if not np.isfinite(extent).all():
        raise ValueError("bounds: high - low overflows; choose closer bounds")
    if not np.any(extent > 0):
        raise ValueError(
            "bounds must have low < high in at least one feature: low equals high "
            "everywhere"
        )
    if np.any((extent > 0) & (extent < _SMALLEST_EXTENT)):
        raise ValueError(
            "bounds must have an extent high - low of either 0 or at least "
            f"{_SMALLEST_EXTENT:g} in every feature; choose a smaller unit"
        )
    return Box(low, high, n_features, per_feature=per_feature)


def units_within(bounds) -> str:
    """Return the remedy for features in different units, by their bounds alone."""
    if bounds is not None and np.ptp(np.subtract(bounds[1], bounds[0])) > 0:
        return 'If features have different ranges, set scale="bounds". '
    return (
        "If features have different units, pass bounds with one value per feature and "
        'scale="bounds". '
    )


def _numbers(side) -> np.ndarray:
    """Return one side of the bounds as float64 numbers."""
    refuse_masked(side, "bounds")
    found = as_numbers(side)
    if found is None:
        raise ValueError(
            "bounds must contain numbers, or arrays of numbers, in the range of float64"
        )
    return found


# Squared lengths in this range suffer neither overflow nor harmful underflow.
_SAFE_LOW, _SAFE_HIGH = 1e-280, 1e280


def _target(clip_norm: float, n_features: int) -> float:
    """Return a bound that a squared norm of p terms, off by p units, cannot exceed."""
    return clip_norm * (1.0 - max(0, n_features - 6) * 2.0**-54)


def _rescale_rows(X, clip_norm, only_longer: bool, out, floor=0.0) -> np.ndarray:
    # Rows are read once, and then rescaled where nobody else writes: a file or an
    # array that changes meanwhile cannot leave the bound.
    if out is None:
        out = np.array(X, dtype=np.float64)
    elif out is not X:
        out[...] = X
    X = out
    target = _target(clip_norm, X.shape[1])
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        # One sum a row, of the same bits in any batch of rows that are laid out alike.
        squares = np.vecdot(X, X)
        # NaN compares false: such rows are not safe.
        safe = (squares > _SAFE_LOW) & (squares < _SAFE_HIGH)
        lengths = np.sqrt(squares)
        factors = target / np.maximum(lengths, floor)
        if only_longer:
            short = lengths <= target
            if short.all() and safe.all():
                return out
            factors[short] = 1.0
        if safe.all():
            return np.multiply(X, factors[:, None], out=out)
        extreme = sparse.csr_array(X[~safe])
        factors[~safe] = 0.0
        out = np.multiply(X, factors[:, None], out=out)
    out[~safe] = _rescale_sparse_rows(extreme, clip_norm, only_longer, floor).toarray()
    return out


def _rescale_sparse_rows(X, clip_norm: float, only_longer: bool, floor=0.0):
    """Rescale rows of a CSR matrix, first by a power of two; non-finite become 0."""
    X = sparse.csr_array(X, dtype=np.float64, copy=True)
    # Entries at the same place are one number: its square is that of their sum.
    with np.errstate(all="ignore"):
        X.sum_duplicates()
    target = _target(clip_norm, X.shape[1])
    counts = np.diff(X.indptr)
    filled = counts > 0
    starts = X.indptr[:-1][filled]
    counts = counts[filled]
    largest = np.maximum.reduceat(np.abs(X.data), starts) if len(starts) else starts
    good = np.isfinite(largest) & (largest > 0.0)
    exponents = np.frexp(np.where(good, largest, 1.0))[1]
    with np.errstate(all="ignore"):
        scaled = np.ldexp(X.data, np.repeat(-exponents, counts))
        squares = np.add.reduceat(scaled**2, starts) if len(starts) else starts
        lengths = np.sqrt(np.where(good, squares, 1.0))
        lengths = np.maximum(lengths, np.ldexp(floor, -exponents))
        short = good & only_longer & (lengths <= np.ldexp(target, -exponents))
        scaled *= np.repeat(target / lengths, counts)
        X.data = np.where(np.repeat(short, counts), X.data, scaled)
    X.data[np.repeat(~good, counts)] = 0.0
    return X


def clip_rows(X, clip_norm: float, *, out=None) -> np.ndarray:
    """Scale rows longer than `clip_norm`, in [1e-60, 1e60], down to it, in float64.

    For any finite input norms are at most ``clip_norm * (1 + 4 * 2**-52)``; rows with
    other values become zero. CSR may have duplicate entries; `out` may be X.
    """
    if sparse.issparse(X):
        return _rescale_sparse_rows(X, clip_norm, True)
    return _rescale_rows(X, clip_norm, True, out)


def sum_clipped_rows(X: np.ndarray, clip_norm: float) -> np.ndarray:
    """Return the sum of dense clipped rows, which may overwrite X."""
    with np.errstate(all="ignore"):
        squares = np.vecdot(X, X)
        if not ((squares > _SAFE_LOW) & (squares < _SAFE_HIGH)).all():
            return clip_rows(X, clip_norm, out=X).sum(axis=0)
        # Summed in any order, with one rounding each.
        return np.minimum(_target(clip_norm, X.shape[1]) / np.sqrt(squares), 1.0) @ X


def normalize_rows(X, *, floor: float = 0.0, out=None) -> np.ndarray:
    """Scale rows to unit norm; a public or released `floor` divides shorter ones."""
    # The floor is 0 or in [1e-60, 1e60]; zero rows stay zero.
    if sparse.issparse(X):
        return _rescale_sparse_rows(X, 1.0, False, floor)
    return _rescale_rows(X, 1.0, False, out, floor)


class Box:
    """A public box of values, and the map of rows to unit coordinates."""

    def __init__(self, low, high, n_features: int, *, per_feature: bool = False):
        self.low = np.broadcast_to(np.asarray(low, dtype=np.float64), n_features)
        self.high = np.broadcast_to(np.asarray(high, dtype=np.float64), n_features)
        half = 0.5 * (self.high - self.low)
        self.midpoint = self.low + half
        unit = half if per_feature else np.full(n_features, half.max(initial=0.0))
        self.unit = np.where(unit > 0.0, unit, 1.0)
        self.half_widths = half / self.unit  # at most 1
        # Where all features have the same limits, numbers are quicker than rows of
        # them.
        sides = (self.midpoint, self.unit, self.half_widths)
        alike = n_features > 0 and all((side == side[0]).all() for side in sides)
        self._sides = tuple(side[0] for side in sides) if alike else sides

    def to_unit(self, X, *, out=None) -> np.ndarray:
        """Map rows into the unit box; NaN is kept for :func:`clip_rows` to remove."""
        midpoint, unit, half_widths = self._sides
        with np.errstate(over="ignore", under="ignore"):
            if np.any(midpoint):
                X = out = np.subtract(X, midpoint, out=out, dtype=np.float64)
            out = np.divide(X, unit, out=out, dtype=np.float64)
        # What was outside, or was carried there by rounding, goes to the surface.
        if np.ndim(half_widths) == 0:
            return np.clip(out, -half_widths, half_widths, out=out)
        # With rows of limits, this is quicker than one call.
        np.maximum(out, -half_widths, out=out)
        return np.minimum(out, half_widths, out=out)
