"""Users, and what a private fit would release of them without noise."""

import contextlib
import zlib

import numpy as np

from skdpspectral._release import noise as release_module

# -- tables ----------------------------------------------------------------------------


def table(users):
    """Stack users {id: (rows, targets)}: X with the ids in front, and y."""
    blocks = [
        np.column_stack([np.full(len(y), float(user)), rows])
        for user, (rows, y) in users.items()
    ]
    return np.concatenate(blocks), np.concatenate([y for _, y in users.values()])


def alike(t, m, d, seed=0):
    """Make t ordinary users of m rows, with ids from 1."""
    rng = np.random.default_rng(seed)
    return {
        user: (rng.standard_normal((m, d)), rng.standard_normal(m))
        for user in range(1, t + 1)
    }


# -- fits whose releases are fixed beforehand ------------------------------------------


@contextlib.contextmanager
def scripted(seed=0):
    """Replace what is released by numbers that know the name and shape alone.

    Yields
    ------
    dict of str to ndarray
        The exact values that were to be released, in their order.
    """
    asked = {}

    def answer(mechanism, value, generator):
        asked[mechanism.name] = value.copy()
        rng = np.random.default_rng([seed, zlib.crc32(mechanism.name.encode())])
        steps = rng.standard_normal(mechanism.shape) * 2.0**26
        return np.rint(steps) * mechanism.grid

    before = release_module._add_noise
    release_module._add_noise = answer
    try:
        yield asked
    finally:
        release_module._add_noise = before
