"""Threads: functions of what belongs to users, and how many a product may have."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

Task = TypeVar("Task")
Result = TypeVar("Result")

# From this order on, products and decompositions are worth several threads.
_THREADED_ORDER = 300


def quietly(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function whose arithmetic neither warns nor raises.

    A warning of an overflow would tell of somebody's values. What a caller of joblib
    ignores does not reach its threads, which begin with numpy's defaults, so that it is
    said around each call.

    Parameters
    ----------
    function : callable
        Any but a generator.

    Returns
    -------
    callable
        The same function, quiet in whatever thread it is called.
    """

    @functools.wraps(function)
    def quiet(*args, **kwargs):
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return quiet


def _small(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function of small matrices, within :func:`blas_threads`."""

    def small(*args, **kwargs):
        with blas_threads(0):
            return function(*args, **kwargs)

    return small


def map_in_threads(
    function: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None = None
) -> Iterator[Result]:
    """Apply a function to every task, quietly; yield results in order.

    Parameters
    ----------
    function : callable
        ``function(task)``.
    tasks : iterable
        What it is applied to.
    n_jobs : int or None, default=None
        Threads, as in joblib.

    Returns
    -------
    iterator
        One result a task.
    """
    quiet = quietly(_small(function))
    if n_jobs in (None, 1):
        return map(quiet, tasks)
    jobs = (delayed(quiet)(task) for task in tasks)
    return iter(Parallel(n_jobs, prefer="threads", return_as="generator")(jobs))


# A handler of signals that fits a model in the middle of this does not wait for itself.
_lock = threading.RLock()
# Threads within a part of a fit, and whether its matrices are large: lists, so that two
# parts of a thread are two.
_parts: list[list] = []
# What the pools of the process were before they were limited; empty where they are not.
_limits: list = []


@contextlib.contextmanager
def blas_threads(order: int) -> Iterator[None]:
    """Let the BLAS use one thread where matrices are small, and all where they are not.

    Threads of small products wait for each other, by spinning: beside a busy process
    they took ten times the CPU of one thread, and longer. A fit as a whole has small
    matrices (`order` 0); parts of it that have large ones say so.

    The bits of a product depend on its number of threads, and sums over users rest on
    bits: the limit is one of the process, and holds while any thread is in a part of
    small matrices and in none of large ones, whatever others are in. It is lifted with
    the last such part. Where another thread has set one of its own by threadpoolctl,
    that one may hold.

    Parameters
    ----------
    order : int
        Length of the shorter side of matrices, public.
    """
    part = [threading.get_ident(), order >= _THREADED_ORDER]
    # All of it: an interrupt may come while the pools are being limited.
    try:
        with _lock:
            _parts.append(part)
            _limit()
        yield
    finally:
        with _lock:
            _parts[:] = [other for other in _parts if other is not part]
            _limit()


def _limit() -> None:
    """Limit the pools or let them go, by the parts that threads are in."""
    threads, of_large = {part[0] for part in _parts}, {p[0] for p in _parts if p[1]}
    wanted = threads > of_large
    if wanted and not _limits:
        _limits.append(_pools().limit(limits=1, user_api="blas"))
        _leave_to_others()
    elif _limits and not wanted:
        while _limits:  # the outermost last, if a handler came in between
            _limits[0].restore_original_limits()
            del _limits[:1]  # only now: an interrupt would leave nobody to lift it
        _leave_to_others()


def _leave_to_others() -> None:
    """Let any thread set the next limit, as the last of several fits may be its.

    By newer threadpoolctl, others than the first thread to set one are passed
    over in silence, until that one says that it is done.
    """
    for pool in _pools().lib_controllers:
        getattr(pool, "clear_controlling_thread", _pools)()


@functools.cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def _keep_own_parts() -> None:
    """Forget in a forked child the threads that stayed with its parent.

    A limit that nobody is left to lift goes with the next part: this is no place to
    start a pool's threads in.
    """
    own = threading.get_ident()
    _parts[:] = [part for part in _parts if part[0] == own]
    _lock.release()


# A child inherits locks as they are: it must not fork off while another thread has this
# one, which nobody would ever release there.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_keep_own_parts,
    )
