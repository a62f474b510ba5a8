"""Workloads and factorizations of a user, and their number of steps."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, NamedTuple

from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval
from .._base.strategies import is_strategy, register, snapshot
from ._factorizations import Banded, BufferedToeplitz, Factorization, best_buffers
from ._workloads import Average, Prefix, Workload, inverse_series

# Columns of Toeplitz matrices, and rows of noise that "sqrt" keeps, are in memory.
LARGEST_BANDED = 10**7
_NAMED = {"prefix": Prefix, "average": Average}
NAMES = ("trivial", "sqrt", "bisr", "blt")


class HorizonError(ValueError):
    """Rows in batches need a horizon; without one, methods for batches are missing."""


@register
@dataclass(eq=False, repr=False)
class BISR(BaseEstimator):
    """Banded inverse of the square root; use ``factorization=BISR(bandwidth)``.

    Parameters
    ----------
    bandwidth : int, default=64
        Width of the band, at least 1. Twice as many rows of noise are kept in memory.
    """

    _parameter_constraints: ClassVar[dict] = {
        "bandwidth": [Interval(Integral, 1, None, closed="left")]
    }

    bandwidth: int = 64


def needs_steps(workload: Workload, factorization) -> bool:
    """Whether norms or memory are not bounded for any number of steps."""
    endless = ["trivial"] if workload.growing else ["trivial", "blt"]
    return isinstance(factorization, BISR) or factorization not in endless


def factorize(
    workload: Workload, factorization="blt", n_steps: int | None = None
) -> Factorization:
    """Compute the factorization of the core of a workload.

    Parameters
    ----------
    workload : Workload
        Workload to factorize.
    factorization : {"trivial", "sqrt", "bisr", "blt"} or BISR, default="blt"
        "trivial": C = I. "sqrt": the Toeplitz square root of the core. "bisr", or
        :class:`BISR`: its inverse truncated to a band. "blt": buffered linear Toeplitz,
        in constant memory.
    n_steps : int or None, default=None
        Number of steps. None is enough for "trivial", and for "blt" with windows and
        exponential weights.

    Returns
    -------
    Factorization
        The matrix C.

    Raises
    ------
    ValueError
        If the factorization is unknown, or n_steps is missing or too large.

    Examples
    --------
    >>> from skdpspectral.factorizations import (
    ...     Prefix, factorize, workload_error
    ... )
    >>> [round(workload_error(Prefix(), factorize(Prefix(), name, 1000), 1000), 2)
    ...  for name in ("trivial", "sqrt", "blt")]
    [22.37, 3.1, 3.05]
    """
    name = "bisr" if isinstance(factorization, BISR) else factorization
    if not (isinstance(name, str) and name in NAMES):
        known = ", ".join(map(repr, NAMES))
        raise ValueError(f"factorization must be BISR or one of {known}, got {name!r}")
    if n_steps is None and needs_steps(workload, name):
        raise ValueError(
            f'n_steps must be known for factorization="{name}" of {workload}'
        )
    if name == "trivial":
        return Factorization()
    if name == "blt":
        return BufferedToeplitz(best_buffers(workload, n_steps), n_steps)
    if n_steps > LARGEST_BANDED:
        raise ValueError(
            f'factorization="{name}" stores a number for each step: at most '
            f'{LARGEST_BANDED} steps; choose a smaller horizon, or use "blt", which '
            "needs constant memory"
        )
    if name == "bisr":
        banded = factorization if isinstance(factorization, BISR) else BISR()
        band = workload.root(min(int(banded.bandwidth), n_steps), -0.5)
        return Banded(name, band, inverse_series(band, n_steps))
    return Banded(name, workload.root(n_steps, -0.5), workload.root(n_steps))


class PlannedNoise(NamedTuple):
    """Workloads and noise matrices of rows and of products, for `n_steps` steps.

    None are any number of steps.
    """

    workload: Workload
    factorization: Factorization
    second_workload: Workload
    second_factorization: Factorization
    n_steps: int | None


Asked = list[tuple[str, Workload, object]]


def choices_of(
    workload, factorization, second_workload=None, second_factorization=None
) -> Asked:
    """Return workloads and factorizations as given: of rows, and of products if any.

    Each comes after the prefix of its parameters' names.
    """
    first = second = make_workload(workload)
    found: Asked = [("", first, factorization)]
    if second_workload is not None:
        second = make_workload(second_workload, "second_workload")
    if second is not first or second_factorization is not None:
        found.append(("second_", second, second_factorization or factorization))
    return found


def plan_noise(asked: Asked, horizon=None, n_samples=None) -> PlannedNoise:
    """Make workloads and matrices of a user's choices; a stream has no `n_samples`."""
    n_steps = count_steps(asked, horizon, n_samples)
    if n_samples is not None:
        check_horizon(n_steps, 0, n_samples)
    made = [_factorized(_key(w), _key(f), n_steps) for _, w, f in asked]
    first, second = asked[0], asked[-1]
    return PlannedNoise(first[1], made[0], second[1], made[-1], n_steps)


def make_workload(workload, name: str = "workload") -> Workload:
    """Return a copy of a workload, or raise an error that names it."""
    if is_strategy(workload):
        return snapshot(workload)
    if isinstance(workload, str) and workload in _NAMED:
        return _NAMED[workload]()
    raise ValueError(
        f'{name} must be "average", "prefix", Window(length) or Exponential(decay), '
        f"got {workload!r}"
    )


def count_steps(asked: Asked, horizon=None, n_samples=None) -> int | None:
    """Return the number of planned steps; None for any number."""
    if horizon is not None:
        return int(horizon)
    for prefix, workload, factorization in asked:
        if n_samples is None and needs_steps(workload, factorization):
            raise HorizonError(
                f"{prefix}factorization={factorization!r} of {workload} needs a "
                "horizon: set horizon to a sufficient number of steps, or use "
                '"trivial"'
            )
    return n_samples


def check_horizon(n_steps: int | None, seen: int, more: int) -> None:
    """Refuse rows for which no noise was planned."""
    if n_steps is not None and seen + more > n_steps:
        raise ValueError(
            f"X has {more} rows after {seen}, but the horizon is {n_steps} steps: "
            "choose a larger horizon"
        )


def _key(choice):
    """Return a hashable key of a name or a strategy."""
    if isinstance(choice, str):
        return choice
    return type(choice), tuple(choice.get_params(deep=False).items())


@functools.lru_cache(maxsize=16)
def _factorized(workload, factorization, n_steps) -> Factorization:
    """Make a factorization of keys, once."""
    made = [
        key if isinstance(key, str) else key[0](**dict(key[1]))
        for key in (workload, factorization)
    ]
    return factorize(*made, n_steps)
