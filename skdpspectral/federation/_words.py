"""Sums modulo 2**64: whole numbers as words, and words as what a message holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._release.masks import pair_mask

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


def masked(
    values: np.ndarray, name: str, pair_keys: Mapping[str, bytes], label: bytes
) -> np.ndarray:
    """Return words of a part, which only in a sum with all others' tell anything.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Whole numbers of modulus at most 2**52.
    name : str
        Whose part it is.
    pair_keys : mapping of str to bytes
        What it shares with each of the others, by their names.
    label : bytes
        Names the sum, once and for all.

    Returns
    -------
    ndarray of uint64 of shape (k,)
    """
    words = values.astype(np.int64).astype(np.uint64)
    for other, key in pair_keys.items():
        mask = pair_mask(key, label, len(words))
        words = words + mask if name < other else words - mask
    return words


def to_halves(words: np.ndarray) -> np.ndarray:
    """Return words as numbers that float64 holds: low halves, then high ones."""
    return np.concatenate([words & _LOW, words >> _HALF]).astype(np.float64)


def from_halves(halves: np.ndarray) -> np.ndarray:
    """Return the words of :func:`to_halves`."""
    low, high = np.split(halves.astype(np.uint64), 2)
    return low | (high << _HALF)


def are_halves(halves: np.ndarray) -> bool:
    """Whether numbers are those of words."""
    return bool(np.all((halves >= 0) & (halves < 2.0**32) & (halves % 1 == 0)))
