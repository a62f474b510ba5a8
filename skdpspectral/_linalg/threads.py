"""Functions of what belongs to users, applied in threads, of which none warns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
from joblib import Parallel, delayed

Task = TypeVar("Task")
Result = TypeVar("Result")


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
    quiet = quietly(function)
    if n_jobs in (None, 1):
        return map(quiet, tasks)
    jobs = (delayed(quiet)(task) for task in tasks)
    return iter(Parallel(n_jobs, prefer="threads", return_as="generator")(jobs))
