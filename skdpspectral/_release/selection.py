"""Releases of the best of a random number of runs, and of choices by votes.

The number of runs and their candidates are drawn here; only the best run is released.
Meanwhile warnings and global generators, which could reveal the number, are isolated.
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
import numpy.typing as npt
from numpy.random import mtrand

from ..accounting import PrivacyAccountant
from ..mechanisms import ExponentialMechanism, PrivacyPlan, PrivateSelection
from ..mechanisms._planned_releases import POISSON
from .noise import (
    NoiseOwner,
    NoiseSeed,
    Release,
    charge,
    noise_generator,
    record_release,
    without_recording,
)

# Threads with isolated state, one entry per context, and how to restore the state.
_lock = threading.RLock()

_turn = threading.Condition(_lock)

_threads: list[int] = []

_restore: Callable[[], None] | None = None


def _reset_in_child() -> None:
    """Forget the threads of the parent in a forked child."""
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

    Draws after a public seed would reveal the run, and draws after all runs their
    number. The states of numpy's and Python's global generators are restored. Other
    threads wait, as they would draw from the same seed.
    """
    global _restore
    thread = threading.get_ident()
    with _turn:
        _turn.wait_for(lambda: all(inside == thread for inside in _threads))
        if not _threads:
            _restore = _replace_generators(seed)
        _threads.append(thread)
    try:
        # Again, for versions of Python with warning filters per thread.
        with warnings.catch_warnings():
            _silence()
            yield
    finally:
        with _turn:
            _threads.remove(thread)
            _restore_if_last()
            _turn.notify_all()


def _restore_if_last() -> None:
    global _restore
    if not _threads and _restore is not None:
        _restore()
        _restore = None


def _silence() -> None:
    warnings.simplefilter("ignore")


def _replace_generators(seed: bytes) -> Callable[[], None]:
    """Replace global generators and warning filters; return how to restore them."""
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

# All that a context has: the user's own may round, bound and trap as it likes.
_EXACT = decimal.Context(
    prec=_DIGITS,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[],
)

_SEED_BYTES = 16


class SelectionRelease(NoiseOwner):
    """Charge a plan with a selection, then release its best run, once."""

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
            "a selection cannot be copied or pickled: the number of its runs is secret"
        )

    def best(
        self,
        distributions: Distributions,
        run: Callable[[Iterable[tuple[dict[str, Any], int | None]]], Iterator[T]],
        score: Callable[[T], float],
    ) -> T | None:
        """Return the outcome of the best run; None if there was no run.

        Candidates are drawn independently from `distributions`. ``run(candidates)``
        yields one outcome per candidate, in order; candidates have own seeds if the
        plan is seeded. `score` returns the released score of an outcome. The first of
        equal scores is chosen, which is a uniform choice among independent runs.
        """
        with self._drawing():
            if not self._open:
                raise RuntimeError(
                    "the best run of this plan has already been released"
                )
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


class VoteRelease(Release):
    """Charge a plan, then release choices and sums of votes."""

    def choose(self, name: str, sums: npt.ArrayLike) -> int:
        """Return the option that a planned exponential mechanism chooses.

        `sums` must be exact, as their sensitivity requires: multiples of a power of
        two.
        """
        mechanism = self._planned(name)
        if type(mechanism) is not ExponentialMechanism:
            raise TypeError(f"{name!r} is not a choice among options")
        values = np.asarray(sums, dtype=np.float64)
        if values.shape != (mechanism.n_options,) or not np.isfinite(values).all():
            raise ValueError(f"{name!r} needs {mechanism.n_options} finite sums")
        with self._drawing():
            self._close(name)
            chosen = draw_option(mechanism, values.tolist(), self._generator)
        record_release(name, np.array([float(chosen)]))
        return chosen

    def draw_seed(self) -> int | None:
        """Return a seed for other noise if the plan is seeded, else None."""
        if not self.plan.seeded:
            return None
        with self._drawing():
            return int(self._generator.integers(2**31))

    def draw_key(self) -> bytes:
        """Return a secret key that does not depend on the data."""
        with self._drawing():
            return self._generator.bytes(_SEED_BYTES)


def draw_option(
    mechanism: ExponentialMechanism,
    sums: Sequence[float],
    generator: np.random.Generator,
) -> int:
    """Draw an option of an exponential mechanism by inversion, with sixty digits."""
    bits = int.from_bytes(generator.bytes(_BITS // 8), "big")
    with decimal.localcontext(_EXACT):
        rate = decimal.Decimal(mechanism.epsilon) / 2
        rate /= decimal.Decimal(mechanism.sensitivity)
        largest = decimal.Decimal(max(sums))
        weights = [(rate * (decimal.Decimal(s) - largest)).exp() for s in sums]
        point = decimal.Decimal(bits) / (1 << _BITS) * sum(weights)
        for option, weight in enumerate(weights):
            point -= weight
            if point < 0:
                return option
    return len(weights) - 1  # rounding has left nothing above


def draw_number(selection: PrivateSelection, generator: np.random.Generator) -> int:
    """Draw the number of runs by inversion, with sixty digits."""
    bits = int.from_bytes(generator.bytes(_BITS // 8), "big")
    with decimal.localcontext(_EXACT):
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
    """Draw parameters as :class:`~sklearn.model_selection.RandomizedSearchCV` does."""
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
    """Return the number of candidates; infinity for a continuous distribution."""
    if not isinstance(distributions, Mapping):
        return sum(number_of_candidates(part) for part in distributions)
    lists = [v for v in distributions.values() if not hasattr(v, "rvs")]
    if len(lists) < len(distributions):
        return math.inf
    return math.prod(len(values) for values in lists)
