"""Releases of choices and sums of votes, and generators of one block of rows."""

from __future__ import annotations

import contextlib
import decimal
import random
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from numpy.random import mtrand

from ..mechanisms import ExponentialMechanism
from .noise import Release, record_release


@contextlib.contextmanager
def own_generators(number: int) -> Iterator[None]:
    """Seed the global generators of numpy and Python by a public number meanwhile.

    Otherwise draws in one block would depend on their number in another. Warnings are
    suppressed.
    """
    bits, state = mtrand.get_bit_generator(), mtrand.get_state(legacy=False)
    others = random.getstate()
    mtrand.set_bit_generator(np.random.MT19937(np.random.SeedSequence(number)))
    random.seed(number.to_bytes(_SEED_BYTES, "big"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        mtrand.set_bit_generator(bits)
        mtrand.set_state(state)
        random.setstate(others)


# Digits of a choice, and random bits of a draw: its law is exact up to a probability of
# 2**-128.
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
