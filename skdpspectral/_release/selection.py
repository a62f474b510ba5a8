"""The best of a secret number of runs.

The number of runs and their candidates are drawn here. Neither the number nor any run
but the best is released. Meanwhile warnings and global generators, which could reveal
the number, are isolated.
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
from .release import NoiseOwner, NoiseSeed, charge, noise_generator, without_recording

# Threads with isolated state, one entry per context, and how to restore the state.
_lock = threading.RLock()

_threads: list[int] = []

_restore: Callable[[], None] | None = None


def _reset_in_child() -> None:
    """Forget the other threads in a forked child, where they do not exist."""
    _threads[:] = [thread for thread in _threads if thread == threading.get_ident()]
    _restore_if_last()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_reset_in_child,
    )


@contextlib.contextmanager
def isolated_process_state(seed: bytes) -> Iterator[None]:
    """Silence warnings, and seed the global generators secretly in this context.

    With a public seed of the process, draws would reveal which run they belong to, and
    draws after all runs how many there were. So the states of numpy's and Python's
    global generators are restored afterwards. They belong to the process: the first of
    several threads replaces them, and the last one restores them.
    """
    global _restore
    thread = threading.get_ident()
    with _lock:
        if not _threads:
            _restore = _replace_generators(seed)
        _threads.append(thread)
    try:
        # Again, for versions of Python with warning filters per thread.
        with warnings.catch_warnings():
            _silence()
            yield
    finally:
        with _lock:
            _threads.remove(thread)
            _restore_if_last()


def _restore_if_last() -> None:
    global _restore
    if not _threads and _restore is not None:
        _restore()
        _restore = None


def _silence() -> None:
    warnings.simplefilter("ignore")


def _replace_generators(seed: bytes) -> Callable[[], None]:
    """Replace generators and filters of the process; return how to restore them."""
    bits = mtrand.get_bit_generator()
    state = mtrand.get_state(legacy=False)
    others = random.getstate()
    words = np.random.SeedSequence(int.from_bytes(seed, "big"))
    mtrand.set_bit_generator(np.random.MT19937(words))
    random.seed(seed)
    filters = contextlib.ExitStack()
    filters.enter_context(warnings.catch_warnings())
    _silence()

    def restore() -> None:
        mtrand.set_bit_generator(bits)
        mtrand.set_state(state)
        random.setstate(others)
        filters.close()

    return restore


T = TypeVar("T")

Distributions = Mapping[str, Any] | Sequence[Mapping[str, Any]]

# Digits of the law of the number of runs, and random bits of a draw: the law is exact
# up to a probability of 2**-128.
_DIGITS, _BITS = 60, 128

_SEED_BYTES = 16


class SelectionRelease(NoiseOwner):
    """Charge a plan with a selection, then release the best of its runs, once.

    As for :class:`~skdpspectral._release.release.Release`, the plan is charged before
    anything is drawn.
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
            "a selection is not copied or pickled: the number of its runs is secret"
        )

    def best(
        self,
        distributions: Distributions,
        run: Callable[[Iterable[tuple[dict[str, Any], int | None]]], Iterator[T]],
        score: Callable[[T], float],
    ) -> T | None:
        """Return the outcome of the best run; None if there was no run.

        Each run draws its candidate independently from `distributions`.
        ``run(candidates)`` yields one outcome per candidate, in their order; a
        candidate has a seed of its own if the plan is seeded. `score` returns the
        released score of an outcome. Of equal scores the first is the best, which is
        a uniform choice: runs are independent and identically distributed.
        """
        with self._drawing():
            if not self._open:
                raise RuntimeError("the best of this plan's runs was released already")
            self._open = False
            number = draw_number(self._selection, self._generator)
            seed = self._generator.bytes(_SEED_BYTES)
        best: tuple[float, T] | None = None
        with without_recording(), isolated_process_state(seed):
            for outcome in run(self._candidates(distributions, number)):
                found = score(outcome)
                if best is None or found > best[0]:
                    best = (found, outcome)
        return None if best is None else best[1]

    def draw_seed(self) -> int | None:
        """Return a seed for other noise if the plan is seeded, else None."""
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

    It is at least 1, except for Poisson laws.
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
    """Return the least number, its probability, and the ratio of k + 1 to k."""
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

    `distributions` is as in :class:`~sklearn.model_selection.RandomizedSearchCV`; one
    of several mappings is drawn first.
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
    """Return the number of candidates; infinity if a law is continuous."""
    if not isinstance(distributions, Mapping):
        return sum(number_of_candidates(part) for part in distributions)
    lists = [v for v in distributions.values() if not hasattr(v, "rvs")]
    if len(lists) < len(distributions):
        return math.inf
    return math.prod(len(values) for values in lists)
