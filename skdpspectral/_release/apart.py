"""What belongs to the whole process, while something secret is going on."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import mtrand

# Threads that are apart from the process, one entry a context, and how to end it.
_lock = threading.RLock()
_inside: list[int] = []
_put_back: Callable[[], None] | None = None


def _stay_apart_alone() -> None:
    """In a forked child the other threads are gone, and what they began has no end."""
    _inside[:] = [thread for thread in _inside if thread == threading.get_ident()]
    _end_if_last()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_stay_apart_alone,
    )


@contextlib.contextmanager
def apart_from_process(seed: bytes) -> Iterator[None]:
    """Let no warning out, and let global generators draw from a secret seed.

    By a public seed of the process, what a step has drawn would tell which run it is
    of, and what is drawn after all runs, how many there were: numpy's and Python's
    global generators are as they were afterwards. Both belong to the process: of
    several threads the first to come replaces them, and the last to go puts them back.

    Parameters
    ----------
    seed : bytes
        Of what is drawn in this context.
    """
    global _put_back
    thread = threading.get_ident()
    with _lock:
        if not _inside:
            _put_back = _replaced(seed)
        _inside.append(thread)
    try:
        # Once more: of Pythons in which each thread has filters of its own.
        with warnings.catch_warnings():
            _silence()
            yield
    finally:
        with _lock:
            _inside.remove(thread)
            _end_if_last()


def _end_if_last() -> None:
    global _put_back
    if not _inside and _put_back is not None:
        _put_back()
        _put_back = None


def _silence() -> None:
    warnings.simplefilter("ignore")


def _replaced(seed: bytes) -> Callable[[], None]:
    """Replace what is the process's, and return what puts it back."""
    bits = mtrand.get_bit_generator()
    state = mtrand.get_state(legacy=False)
    others = random.getstate()
    words = np.random.SeedSequence(int.from_bytes(seed, "big"))
    mtrand.set_bit_generator(np.random.MT19937(words))
    random.seed(seed)
    filters = contextlib.ExitStack()
    filters.enter_context(warnings.catch_warnings())
    _silence()

    def put_back() -> None:
        mtrand.set_bit_generator(bits)
        mtrand.set_state(state)
        random.setstate(others)
        filters.close()

    return put_back
