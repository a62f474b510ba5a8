"""Sums over users of one clipped vector each: how they are planned and released.

Statistics of users who are in several places: sums, and what was released of them.

A statistic of users asks for one sum over them after another, and each is made of their
rows and of what was released before. Who knows the releases can therefore run it anew
up to the next sum: with the rows of some users, for their part of it, or with none at
all, for what is asked next and what is made of it in the end. All run the same code
that a fit in one place runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg import per_user
from .._tables.clipping import clip_rows
from ..accounting import calibrate_gaussian
from ..mechanisms import Gaussian, Mechanism, Neighbors, PrivacyPlan
from .statistic import Statistic

# Users that sums are exact for.
MOST_EXACT_USERS = 2.0**31


# Users that sums are exact for: more than codes of 32 bits can tell apart.
MOST_USERS = 2.0**32


# What clip_rows may leave a vector longer than one, twice.
_CLIP_SLACK = 8.0 * 2.0**-52


def planned_sum(name: str, width: int, neighbors: Neighbors, mu: float) -> Gaussian:
    """Plan the release of a sum over users of one vector of norm at most 1.

    Parameters
    ----------
    name : str
        Of the release.
    width : int
        Entries of a vector.
    neighbors : Neighbors
        Add-remove-one or replace-one, of users.
    mu : float
        Its cost, finite.
    """
    return calibrate_gaussian(
        name,
        sensitivity.sum_sensitivity(1.0, neighbors),
        mu,
        (width,),
        summation_error=_CLIP_SLACK,
        magnitude=MOST_USERS,
    )


def released_sum(
    release, name: str, rows, contributions: Callable, n_jobs: int | None = None
) -> np.ndarray:
    """Release the sum of the users' vectors, each clipped to norm 1 as a whole.

    Parameters
    ----------
    release : Release
        Charged with the plan.
    name : str
        Of the release.
    rows : UserRows, or of the same method
        The users' rows.
    contributions : callable
        ``contributions(block, rows)``: yields one vector a user, a few at a time;
        they may be overwritten.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    ndarray
        The sum, with its noise.
    """
    planned = release.plan[name]
    grid = planned.grid
    part = partial(_sum_of_answers, contributions=contributions, grid=grid)
    total = np.zeros(planned.shape)
    for steps in rows.sums(part, n_jobs):
        total += steps
    return release(name, total * grid, overwrite=True)


def _sum_of_answers(block, rows, contributions: Callable, grid: float):
    """Sum the vectors of a block's users, each clipped, in whole steps of a grid."""
    return sum(
        per_user.sum_on_grid(clip_contributions(vectors), grid)
        for vectors in contributions(block, rows)
    )


def clip_contributions(vectors: np.ndarray) -> np.ndarray:
    """Clip each user's vector to norm 1, with the same bits whoever else is there.

    It may overwrite them.
    """
    vectors = per_user.stacked(vectors)
    return clip_rows(vectors, 1.0, out=vectors)


class Released(NamedTuple):
    """A sum as it was released.

    Parameters
    ----------
    total : ndarray
        The sum with its noise.
    noise_std : float
        Standard deviation of the noise that is in it.
    """

    total: np.ndarray
    noise_std: float


class Sum(NamedTuple):
    """A sum over users that is to be released next.

    Parameters
    ----------
    name : str
        Name of the release.
    value : ndarray
        Part of the users at hand, whole numbers in steps of a power of two.
    """

    name: str
    value: np.ndarray


@dataclass(frozen=True)
class Billboard:
    """A statistic of users, with all that is public beside them.

    Parameters
    ----------
    statistic : Statistic
        Of which every release is a sum over users.
    given : tuple
        What is public beside rows, as the statistic's ``run`` takes it.
    rows : tuple
        What is public of how rows are read, beside the statistic's own rules.
    """

    statistic: Statistic
    given: tuple = ()
    rows: tuple = ()

    def follow(
        self, plan: PrivacyPlan, rows: Any, released: Sequence[Released]
    ) -> Sum | Any:
        """Run the statistic with what was released, up to what was not yet.

        Parameters
        ----------
        plan : PrivacyPlan
            What is released.
        rows : object
            Rows of some users, :class:`RememberedRows` of them, or ``NO_USERS``.
        released : sequence of Released
            Releases so far, in their order.

        Returns
        -------
        Sum or object
            What is to be released next, or what the statistic returns in the end.
        """
        relay = _Relay(plan, released)
        try:
            return self.statistic.run(relay, rows, *self.given, _NobodyIsTold())
        except _AskedFor as asked:
            return asked.sum


class RememberedRows:
    """Rows of users of whom every answer is made once, however often it is asked for.

    Parameters
    ----------
    rows : object
        Rows, with methods ``map`` and ``sums``, or one of them; all else of them is
        as it is.
    """

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._answers: list[list] = []
        self._next = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def again(self) -> RememberedRows:
        """Return the rows for a run from the start."""
        self._next = 0
        return self

    def map(self, function: Callable, n_jobs: int | None = None) -> list:
        """Apply a function to every block, or return what it has returned before."""
        return self._once(self._rows.map, function, n_jobs)

    def sums(self, function: Callable, n_jobs: int | None = None) -> list:
        """Sum what a function makes of all blocks, or return what was summed before."""
        return self._once(self._rows.sums, function, n_jobs)

    def _once(self, answered: Callable, *asked: Any) -> list:
        place, self._next = self._next, self._next + 1
        if place == len(self._answers):
            self._answers.append(_kept(answered(*asked)))
        return list(self._answers[place])


def _kept(answers: Any) -> list:
    """Keep one sum of arrays, whose whole numbers add up exactly."""
    total, others = None, []
    for answer in answers:
        if not isinstance(answer, np.ndarray):
            others.append(answer)
        elif total is None:
            total = answer.copy()
        else:
            total += answer
    return others if total is None else [total, *others]


class _NoUsers:
    """Rows of no user."""

    n_users = 0

    def map(self, function: Callable, n_jobs: int | None = None) -> list:
        return []

    sums = map


NO_USERS = _NoUsers()


class _AskedFor(Exception):
    """Ends a run where a release is asked for that was not made yet."""

    def __init__(self, asked: Sum) -> None:
        super().__init__(asked.name)
        self.sum = asked


class _Relay:
    """Gives a statistic what was released before, name by name."""

    def __init__(self, plan: PrivacyPlan, released: Sequence[Released]) -> None:
        self.plan = _NoisePlan(plan)
        self._released, self._next = released, 0

    def __call__(
        self, name: str, value: np.ndarray, *, overwrite: bool = False
    ) -> np.ndarray:
        if self._next == len(self._released):
            raise _AskedFor(Sum(name, np.array(value, dtype=np.float64)))
        found = self._released[self._next]
        self._next += 1
        self.plan.noise[name] = found.noise_std
        return found.total.copy()


class _NoisePlan:
    """A plan whose mechanisms have the noise that is in what was released."""

    def __init__(self, plan: PrivacyPlan) -> None:
        self._plan = plan
        self.noise: dict[str, float] = {}

    def __getitem__(self, name: str) -> Any:
        return _WithNoise(self._plan[name], self.noise)


class _WithNoise:
    """A planned mechanism, with noise as it was released; as planned before."""

    def __init__(self, mechanism: Mechanism, noise: dict[str, float]) -> None:
        self._mechanism, self._noise = mechanism, noise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mechanism, name)

    @property
    def noise_std(self) -> float:
        planned: Any = self._mechanism
        return self._noise.get(planned.name, planned.noise_std)


class _NobodyIsTold:
    """Who is told of steps, and does nothing."""

    def step(self, number: int) -> None:
        pass
