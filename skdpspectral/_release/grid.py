"""Noise on a grid: rounded values plus rounded normals, exact in float64.

Pairwise masks of shared secrets, and public random numbers, which protect nothing.
"""

from __future__ import annotations

import hashlib
import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import randomgen

from ..mechanisms import Gaussian

Array: TypeAlias = npt.NDArray[np.float64]

# Draws in chunks that stay in the cache.
_CHUNK = 1 << 13

# Columns of a symmetric matrix that are released together.
_PANEL = 64

# Integers up to here leave room for the noise below 2**52.
_LARGEST_INTEGER = 2.0**51


def grid_noise(out: Array, steps: float, generator: np.random.Generator) -> None:
    """Fill a contiguous array with rounded normals of a deviation in grid steps."""
    flat = out.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        generator.standard_normal(out=chunk)
        chunk *= steps
        np.rint(chunk, out=chunk)


def scaled_normals(
    shape: tuple[int, ...], scale: float, generator: np.random.Generator
) -> Array:
    """Return normals of a deviation, not rounded, to be correlated."""
    normals: Array = generator.standard_normal(shape)
    normals *= scale
    return normals


def round_to_integers(value: Array, grid: float) -> None:
    """Replace values by their grid numbers, clamped: a 1-Lipschitz rounding."""
    value /= grid
    np.rint(value, out=value)
    np.maximum(value, -_LARGEST_INTEGER, out=value)
    np.minimum(value, _LARGEST_INTEGER, out=value)
    # -0.0 would reveal the sign of the value that was rounded to 0.
    value += 0.0


def release_entries(
    mechanism: Gaussian, flat: Array, generator: np.random.Generator
) -> None:
    """Release independent entries, in place."""
    noise, grid = np.empty(min(flat.size, _CHUNK)), mechanism.grid
    for start in range(0, flat.size, _CHUNK):
        value = flat[start : start + _CHUNK]
        draws = noise[: value.size]
        grid_noise(draws, mechanism.drawn_std / grid, generator)
        round_to_integers(value, grid)
        value += draws
        value *= grid


def release_symmetric(
    mechanism: Gaussian, matrix: Array, generator: np.random.Generator
) -> None:
    """Release a symmetric matrix from its lower triangle, panel by panel.

    Off-diagonal entries get noise of std / sqrt(2), which is the isotropic noise
    of the isometry (diagonal, sqrt(2) x off-diagonal).
    """
    grid = mechanism.grid
    steps = mechanism.noise_std / grid
    columns = matrix.T  # row j: column j of the lower triangle, contiguous
    for start in range(0, len(matrix), _PANEL):
        panel = columns[start : start + _PANEL, start:]
        width = len(panel)
        noise = np.empty(panel.shape)
        grid_noise(noise, steps / math.sqrt(2.0), generator)
        diagonal = np.empty(width)
        grid_noise(diagonal, steps, generator)
        np.fill_diagonal(noise, diagonal)
        round_to_integers(panel, grid)
        panel += noise
        panel *= grid
        _mirror_panel(columns, start, width)


def _mirror_panel(columns: Array, start: int, width: int) -> None:
    """Copy columns start..start+width of a lower triangle above the diagonal."""
    stop = start + width
    square = columns[start:stop, start:stop]
    lower = np.tril_indices(width, -1)
    square[lower] = square.T[lower]
    columns[stop:, start:stop] = columns[start:stop, stop:].T


def mirror_lower(matrix: Array) -> Array:
    """Return the symmetric matrix whose lower triangle is given, in place."""
    for start in range(0, len(matrix), _PANEL):
        _mirror_panel(matrix.T, start, min(_PANEL, len(matrix) - start))
    return matrix


# Bytes of a secret: at least the length of a mask's key.
KEY_BYTES = 32


def pair_mask(secret: bytes, label: bytes, size: int) -> npt.NDArray[np.uint64]:
    """Return words that cannot be told from uniform ones without the secret.

    Two parties alone share the 32 bytes of the secret. Each sum must have a label of
    its own. The words are the same on every machine, whatever its processor.
    """
    if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
        raise ValueError(f"a secret must be {KEY_BYTES} bytes")
    digest = hashlib.blake2b(label, key=secret, person=b"pair mask", digest_size=32)
    # Not the generator of noise, which is another one where AES is slow.
    bits = randomgen.ChaCha(key=int.from_bytes(digest.digest(), "little"), rounds=20)
    generator = np.random.Generator(bits)
    return generator.integers(0, 2**64 - 1, size=size, dtype=np.uint64, endpoint=True)


def public_order(n_units: int) -> npt.NDArray[np.intp]:
    """Return a random permutation that depends on the number of positions alone."""
    return np.random.default_rng(n_units).permutation(n_units)


def public_start(seed: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return uniform numbers in [-1, 1) from a public seed."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, size=shape)
