"""Masks of a secret of two parties: what one adds the other takes off."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import randomgen

# Bytes of a secret: at least as many as the key of a mask has.
KEY_BYTES = 32


def pair_mask(secret: bytes, label: bytes, size: int) -> npt.NDArray[np.uint64]:
    """Return words that nobody can tell from uniform ones without the secret.

    Parameters
    ----------
    secret : bytes
        32 bytes that two parties share, and nobody else has.
    label : bytes
        What the mask is for: another one for each sum that it is used in.
    size : int
        Number of words.

    Returns
    -------
    ndarray of uint64 of shape (size,)
        The same on every machine, whatever its processor.
    """
    if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
        raise ValueError(f"a secret must be {KEY_BYTES} bytes")
    digest = hashlib.blake2b(label, key=secret, person=b"pair mask", digest_size=32)
    # Not the generator of noise, which is another one where AES is slow.
    bits = randomgen.ChaCha(key=int.from_bytes(digest.digest(), "little"), rounds=20)
    generator = np.random.Generator(bits)
    return generator.integers(0, 2**64 - 1, size=size, dtype=np.uint64, endpoint=True)
