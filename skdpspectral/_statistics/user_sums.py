"""Sums over users of one clipped vector each, in one place or over several groups.

A statistic of users requests sums one after another, computed from their rows and
earlier releases. Given the releases so far, it can be run again up to the next sum:
with the rows of some users, for their part of the sum, or without rows, for the final
result. All parties run the code of a fit in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg import per_user
from .._tables.clipping import clip_rows
from ..accounting import calibrate_gaussian
from ..mechanisms import Gaussian, Neighbors, PrivacyPlan
from .statistic import Statistic

# Users up to whom sums of scores and of ratings are exact.
MOST_EXACT_USERS = 2.0**31
# Users up to whom sums of clipped vectors are: more than codes of 32 bits tell apart.
MOST_USERS = 2.0**32
# What clip_rows may leave a vector longer than one, twice.
_CLIP_SLACK = 8.0 * 2.0**-52


def planned_sum(name: str, width: int, neighbors: Neighbors, mu: float) -> Gaussian:
    """Plan the release of a sum over users of vectors of norm at most 1."""
    return calibrate_gaussian(
        name,
        sensitivity.sum_sensitivity(1.0, neighbors),
        mu,
        (width,),
        summation_error=_CLIP_SLACK,
        magnitude=MOST_USERS,
        lemma="user-sums",
    )


def released_sum(
    release, name: str, rows, contributions: Callable, n_jobs: int | None = None
) -> np.ndarray:
    """Release the sum of users' vectors, which are yielded and clipped to norm 1."""
    planned = release.plan[name]
    grid = planned.grid
    part = partial(_sum_of_answers, contributions=contributions, grid=grid)
    total = np.zeros(planned.shape)
    for steps in rows.sums(part, n_jobs):
        total += steps
    return release(name, total * grid, overwrite=True)


def _sum_of_answers(block, rows, contributions: Callable, grid: float):
    """Sum the clipped vectors of a block's users, in whole steps of a grid."""
    return sum(
        per_user.sum_on_grid(clip_contributions(vectors), grid)
        for vectors in contributions(block, rows)
    )


def clip_contributions(vectors: np.ndarray) -> np.ndarray:
    """Clip each user's vector to norm 1 in place, independently of others."""
    vectors = per_user.stacked(vectors)
    return clip_rows(vectors, 1.0, out=vectors)


class Released(NamedTuple):
    """A released sum, and the standard deviation of its noise."""

    total: np.ndarray
    noise_std: float


class Sum(NamedTuple):
    """The next sum over users to be released."""

    name: str
    value: np.ndarray


@dataclass(frozen=True)
class Billboard:
    """A statistic that releases sums over users, and the arguments of its ``run``."""

    statistic: Statistic
    given: tuple = ()
    rows: tuple = ()

    def follow(
        self, plan: PrivacyPlan, rows: Any, released: Sequence[Released]
    ) -> Sum | Any:
        """Run the statistic with earlier releases, in order."""
        relay = _RecordedReleases(plan, released)
        try:
            return self.statistic.run(relay, rows, *self.given, _NO_PROGRESS)
        except _NextSum as asked:
            return asked.args[0]


class RememberedRows:
    """Rows of users that cache the answers to earlier sums."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._answers: list[list] = []
        self._next = 0

    def __getattr__(self, name: str) -> Any:
        """Return what the rows have; what they are asked is answered once."""
        found = getattr(self._rows, name)
        return partial(self._once, found) if name in ("map", "sums") else found

    def again(self) -> RememberedRows:
        """Return the rows for a run from the start."""
        self._next = 0
        return self

    def _once(self, answered: Callable, *asked: Any) -> list:
        place, self._next = self._next, self._next + 1
        if place == len(self._answers):
            self._answers.append(_kept(answered(*asked)))
        return list(self._answers[place])


def _kept(answers: Any) -> list:
    """Cache one sum of arrays, whose integers add up exactly."""
    total, others = None, []
    for answer in answers:
        if not isinstance(answer, np.ndarray):
            others.append(answer)
        elif total is None:
            total = answer.copy()
        else:
            total += answer
    return others if total is None else [total, *others]


# Rows of no user.
NO_USERS = SimpleNamespace(n_users=0, map=lambda *asked: [], sums=lambda *asked: [])


class _NextSum(Exception):
    """Stops a run when a release is requested that does not exist yet: a `Sum`."""


class _RecordedReleases:
    """Replays recorded releases to a statistic, name by name."""

    def __init__(self, plan: PrivacyPlan, released: Sequence[Released]) -> None:
        self.plan = _NoisePlan(plan)
        self._released, self._next = released, 0

    def __call__(self, name: str, value: np.ndarray, *, overwrite=False) -> np.ndarray:
        if self._next == len(self._released):
            raise _NextSum(Sum(name, np.array(value, dtype=np.float64)))
        found = self._released[self._next]
        self._next += 1
        self.plan[name].noise_std = found.noise_std
        return found.total.copy()


class _NoisePlan(dict):
    """What statistics ask of planned sums, with the noise of the recorded releases."""

    def __init__(self, plan: PrivacyPlan) -> None:
        self._plan = plan

    def __missing__(self, name: str) -> SimpleNamespace:
        planned: Any = self._plan[name]
        asked = {key: getattr(planned, key) for key in ("shape", "grid", "noise_std")}
        return self.setdefault(name, SimpleNamespace(**asked))


# Progress that reports nothing.
_NO_PROGRESS = SimpleNamespace(step=lambda number: None)
