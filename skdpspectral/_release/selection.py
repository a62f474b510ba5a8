"""The best of a secret number of runs: the only place that knows how many there were.

The number of runs and what each of them tries are drawn here. Nothing of a run that is
not the best leaves, and neither does their number.

What belongs to the whole process, while something secret is going on.
"""

from __future__ import annotations

import contextlib
import decimal
import math
import os
import random
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.random import mtrand

from ..accounting import PrivacyAccountant
from ..mechanisms import PrivacyPlan, PrivateSelection
from ..mechanisms._curves import POISSON
from .release import NoiseOwner, NoiseSeed, charge, noise_generator, unrecorded

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


T = TypeVar("T")


Distributions = Mapping[str, Any] | Sequence[Mapping[str, Any]]


# Digits of the law of the number of runs, and bits that it is drawn by: what is drawn
# is the law itself but for a probability of 2**-128.
_DIGITS, _BITS = 60, 128


# Bytes of secret seeds.
_SEED_BYTES = 16


class SelectionRelease(NoiseOwner):
    """Charge a plan, then let the best of a secret number of runs out, once.

    Parameters
    ----------
    plan : PrivacyPlan
        With the selection, and what is released beside it.
    accountant : PrivacyAccountant or None, default=None
        Ledger that is charged with the whole plan, before anything else.
    noise_seed : None, int or RandomState, default=None
        Source of the draws; it must agree with ``plan.seeded``.

    Raises
    ------
    PrivacyBudgetError
        If the accountant refuses; nothing is drawn.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        accountant: PrivacyAccountant | None = None,
        noise_seed: NoiseSeed = None,
    ) -> None:
        charge(plan, accountant, noise_seed)
        self.plan = plan
        super().__init__()
        (self._selection,) = (m for m in plan.curves if type(m) is PrivateSelection)
        self._open = True
        self._generator = noise_generator(noise_seed)

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "a selection is not copied or pickled: it knows how many runs there are"
        )

    def best(
        self,
        distributions: Distributions,
        run: Callable[[Iterable[tuple[dict[str, Any], int | None]]], Iterator[T]],
        score: Callable[[T], float],
    ) -> T | None:
        """Return the outcome of the best run; None if there was no run.

        Parameters
        ----------
        distributions : mapping of str to list or distribution, or sequence of such
            What a run draws its candidate from, independently of all others.
        run : callable
            ``run(candidates)`` yields the outcome of a run for each candidate, in their
            order; a candidate comes with a seed of its own where the plan is seeded.
        score : callable
            What an outcome is ranked by, as it was released. Of equal ones the first
            is the best, which is a draw among them: runs are alike and independent.

        Returns
        -------
        object or None
            One outcome.
        """
        with self._drawing():
            if not self._open:
                raise RuntimeError("the best of this plan's runs was released already")
            self._open = False
            number = draw_number(self._selection, self._generator)
            seed = self._generator.bytes(_SEED_BYTES)
        best: tuple[float, T] | None = None
        with unrecorded(), apart_from_process(seed):
            for outcome in run(self._candidates(distributions, number)):
                found = score(outcome)
                if best is None or found > best[0]:
                    best = (found, outcome)
        return None if best is None else best[1]

    def draw_seed(self) -> int | None:
        """Return a seed for other noise, where the plan is seeded; None elsewhere."""
        if not self.plan.seeded:
            return None
        with self._drawing():
            return int(self._generator.integers(2**31))

    def _candidates(
        self, distributions: Distributions, number: int
    ) -> Iterator[tuple[dict[str, Any], int | None]]:
        for _ in range(number):
            with self._drawing():
                candidate = draw_candidate(distributions, self._generator)
            yield candidate, self.draw_seed()


def draw_number(selection: PrivateSelection, generator: np.random.Generator) -> int:
    """Draw the number of runs, by inversion of its law in sixty digits.

    Parameters
    ----------
    selection : PrivateSelection
        Which names the law.
    generator : numpy.random.Generator
        Source of the bits.

    Returns
    -------
    int
        At least 1, but for Poisson laws.
    """
    bits = int.from_bytes(generator.bytes(_BITS // 8), "big")
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        point = decimal.Decimal(bits) / (1 << _BITS)
        number, weight, ratio = _first_weight(selection)
        cumulated = weight
        while point >= cumulated:
            weight *= ratio(number)
            number += 1
            cumulated += weight
            if weight < decimal.Decimal(10) ** -_DIGITS and number > 10 * _mean(
                selection
            ):
                break  # rounding has left nothing above
    return number


def _mean(selection: PrivateSelection) -> float:
    return max(1.0, selection.expected_runs)


def _first_weight(
    selection: PrivateSelection,
) -> tuple[int, decimal.Decimal, Callable[[int], decimal.Decimal]]:
    """Return the least number, its probability, and what follows k relative to k."""
    if selection.law == POISSON:
        mean = decimal.Decimal(selection.expected_runs)
        return 0, (-mean).exp(), lambda k: mean / (k + 1)
    assert selection.gamma is not None
    gamma, eta = decimal.Decimal(selection.gamma), decimal.Decimal(selection.eta)
    if eta == 0:
        first = (1 - gamma) / -gamma.ln()
    else:
        first = eta * (1 - gamma) / (gamma**-eta - 1)
    return 1, first, lambda k: (1 - gamma) * (k + eta) / (k + 1)


def draw_candidate(
    distributions: Distributions, generator: np.random.Generator
) -> dict[str, Any]:
    """Draw parameters from public laws, each entry of a list with the same probability.

    Parameters
    ----------
    distributions : mapping of str to list or distribution, or sequence of such
        As of :class:`~sklearn.model_selection.RandomizedSearchCV`; of several mappings
        one is drawn.
    generator : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    dict
        A value a parameter.
    """
    if not isinstance(distributions, Mapping):
        distributions = distributions[int(generator.integers(len(distributions)))]
    random = np.random.RandomState(generator.bit_generator)
    return {
        name: (
            values.rvs(random_state=random)
            if hasattr(values, "rvs")
            else values[int(generator.integers(len(values)))]
        )
        for name, values in sorted(distributions.items())
    }


def number_of_candidates(distributions: Distributions) -> float:
    """Return how many candidates there are; infinity where a law is continuous."""
    if not isinstance(distributions, Mapping):
        return sum(number_of_candidates(part) for part in distributions)
    lists = [v for v in distributions.values() if not hasattr(v, "rvs")]
    if len(lists) < len(distributions):
        return math.inf
    return math.prod(len(values) for values in lists)
