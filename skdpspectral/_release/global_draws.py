"""Global generators of numpy and Python, while something secret is going on."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator

import numpy as np

# Whoever is apart from global draws, in all threads, and how to end it.
_lock = threading.RLock()
_inside = 0
_put_back: Callable[[], None] | None = None

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_lock.release,
    )


@contextlib.contextmanager
def apart_from_global_draws(seed: bytes) -> Iterator[None]:
    """Let what draws from global generators draw from secret ones, and put them back.

    By a public seed of the process, what a step has drawn would tell which run it is
    of, and what is drawn after all runs, how many there were. Generators belong to the
    process: of several threads the first to come replaces them, and the last to go puts
    them back, as they were.

    Parameters
    ----------
    seed : bytes
        16 or more, of what is drawn in this context.
    """
    global _inside, _put_back
    with _lock:
        if not _inside:
            _put_back = _replaced(seed)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _put_back is not None:
                _put_back()
                _put_back = None


def _replaced(seed: bytes) -> Callable[[], None]:
    """Replace global generators, and return what puts them back."""
    bits = np.random.get_bit_generator()
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    others = random.getstate()
    words = np.random.SeedSequence(int.from_bytes(seed, "big"))
    np.random.set_bit_generator(np.random.MT19937(words))
    random.seed(seed)

    def put_back() -> None:
        np.random.set_bit_generator(bits)
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(others)

    return put_back
