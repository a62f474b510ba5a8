"""Releases of streams: rows with noise that is correlated between steps.

The noise of each step is drawn, correlated and used once. For sums over Poisson samples
the members of a sample are secret.
"""

from __future__ import annotations

import copy
import hashlib
import math
import secrets
from typing import Any

import numpy as np
import numpy.typing as npt

from ..accounting import PrivacyAccountant
from ..accounting._ledger.accountant import advance_stream, open_stream
from ..mechanisms import CorrelatedGaussian, Exact, Mechanism, PrivacyPlan
from .noise import (
    Array,
    NoiseOwner,
    NoiseSeed,
    charge,
    generator_of_key,
    noise_generator,
    record_rows,
    rekey,
    round_to_integers,
)

_ENDED = (
    "this stream can't continue: it has ended or was closed, or a step of it failed, "
    "or another thread is in the middle of one; clone the estimator to begin a new "
    "stream"
)

# Numbers of noise that are drawn together.
_CACHED = 1 << 16


class StreamRelease(NoiseOwner):
    """Charge the plan of a whole stream, then release its rows, step by step.

    Noise is generated in blocks counted from the first step, so that it does not depend
    on how rows are batched. If a copy of the stream is ahead, the ledger refuses this
    one; a stream without a ledger cannot be copied. A stream that has ended, was closed
    or failed, and a forked copy, release nothing. The only mechanism of the plan is a
    :class:`~skdpspectral.mechanisms.CorrelatedGaussian`, or
    :class:`~skdpspectral.mechanisms.Exact` without noise. A factorization, which
    correlates the noise, has a `column_norm`, `max_steps`, ``check_precision(steps)``,
    and a ``filter(width)`` that pushes blocks of rows. `position` is the number of
    steps so far.

    With `rate`, as planned, rows are sums over Poisson samples of units at this rate.
    The sample of a step is a function of its number and a secret key, so that copies
    have the same samples.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        accountant: PrivacyAccountant | None = None,
        noise_seed: NoiseSeed = None,
        *,
        factorization: Any,
        rate: float | None = None,
    ) -> None:
        (mechanism,) = plan.mechanisms
        self._mechanism = check_shaping(mechanism, factorization)
        planned = getattr(mechanism, "sampling_probability", None)
        if not (isinstance(mechanism, Exact) or planned == rate):
            raise ValueError("the plan must state the sampling rate")
        charge(plan, accountant, noise_seed)
        super().__init__()
        self.plan = plan
        self.position = 0
        self._accountant = accountant
        self._id = "" if accountant is None else open_stream(accountant)
        # Steps that were claimed and not yet released; whether noise is being drawn.
        self._claimed, self._drawn_from, self._closed = 0, False, False
        self._noise: _ShapedNoise | None = None
        if not isinstance(self._mechanism, Exact):
            shaping = factorization.filter(self._mechanism.shape[0])
            generator = noise_generator(noise_seed)
            self._noise = _ShapedNoise(self._mechanism, shaping, generator)
        self._rate = rate
        self._key = b"" if rate is None else _key(noise_seed)
        self._generator: np.random.Generator | None = None

    # -- copies ----------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        with self._drawing():
            if self._noise is not None and self._accountant is None:
                raise TypeError(
                    "a stream without an accountant can't be copied or pickled before "
                    "it has ended: two copies would use the same noise, which would "
                    "reveal the rows. Pass the estimator an accountant, whose ledger "
                    "lets the newest copy continue; publish() returns the releases so "
                    "far"
                )
            if (self._claimed or self._drawn_from) and not self._closed:
                raise TypeError(
                    "a stream can't be copied or pickled between the steps of a batch: "
                    "both copies would use the noise that this one has claimed"
                )
            state = self.__dict__.copy()
            # The pickler comes later, when the noise may be further than `position`.
            state["_noise"] = copy.deepcopy(self._noise)
        del state["_thread_lock"], state["_process"]
        # The state of the generator would be that of the last sample.
        state["_generator"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        NoiseOwner.__init__(self)

    def __copy__(self) -> StreamRelease:
        return copy.deepcopy(self)

    # -- steps -----------------------------------------------------------------------

    @property
    def _last(self) -> float:
        """Last step with noise."""
        return getattr(self._mechanism, "max_steps", None) or math.inf

    def close(self) -> None:
        """End the stream, which releases nothing more."""
        if self.is_forked():  # the lock may belong to a thread of the parent
            self._close()
            return
        with self._thread_lock:
            self._close()

    def _close(self) -> None:
        self._noise, self._closed = None, True
        # A closed stream may be pickled; without the key its samples stay secret.
        self._key, self._generator = b"", None

    def _check_open(self) -> None:
        missing = self._noise is None and not isinstance(self._mechanism, Exact)
        if self._closed or self._drawn_from or missing:
            raise RuntimeError(_ENDED)

    def claim(self, position: int, steps: int) -> None:
        """Claim the next steps, before any of them is computed.

        `position` is the number of steps whose results the caller has. Rows may follow
        in several calls. Raises a LedgerError if a copy of this stream is ahead, and a
        RuntimeError if the stream has ended or failed.
        """
        with self._drawing():
            if self.position + steps > self._last:
                raise ValueError(f"only {self._last} steps were planned")
            self._check_open()
            if self._claimed or position != self.position:
                raise RuntimeError(_ENDED)
            if self._accountant is not None:
                advance_stream(self._accountant, self._id, self.position, steps)
            # In this order: a stream that is interrupted in between can't go on.
            self._claimed = steps
            self.position += steps

    def __call__(self, rows: Array) -> Array:
        """Return rows of claimed steps, overwritten, with their noise on the grid."""
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        name, shape = self._mechanism.name, tuple(self._mechanism.shape)
        if rows.shape[1:] != shape:
            raise ValueError(f"rows of {name!r} must have shape {shape}")
        with self._drawing():
            self._check_open()
            if len(rows) > self._claimed:
                raise ValueError(f"{len(rows)} steps, but {self._claimed} were claimed")
            before = self.position - self._claimed
            if not isinstance(self._mechanism, Exact):
                if self._noise is None:
                    raise RuntimeError(_ENDED)
                self._drawn_from = True
                self._noise.add_to(rows, before)
                self._drawn_from = False
            self._claimed -= len(rows)
            if before + len(rows) == self._last:
                self._close()
            record_rows(name, before, rows)
        return rows

    def sample(self, position: int, n_units: int) -> npt.NDArray[np.intp]:
        """Return the secret, increasing positions of units in the next sample."""
        with self._drawing():
            self._check_open()
            if self._rate is None:
                raise ValueError("no samples were planned")
            if position != self.position - self._claimed:
                raise RuntimeError(_ELSEWHERE)
            digest, generator = _digest(self._key, position), self._generator
            if generator is None:
                generator = self._generator = generator_of_key(digest)
            else:
                rekey(generator, digest)
            found = []
            for start in range(0, n_units, _CHUNK):
                chances = generator.random(min(_CHUNK, n_units - start))
                found.append(start + np.flatnonzero(chances < self._rate))
        return np.concatenate(found) if found else np.empty(0, dtype=np.intp)


def check_shaping(
    mechanism: Mechanism, factorization: Any
) -> Exact | CorrelatedGaussian:
    """Return a stream's mechanism; raise if columns of the matrix are longer."""
    if isinstance(mechanism, Exact):
        return mechanism
    if not isinstance(mechanism, CorrelatedGaussian):
        raise TypeError(f"{type(mechanism).__name__} is not a mechanism of a stream")
    limit = factorization.max_steps
    enough = limit is None or (mechanism.max_steps or math.inf) <= limit
    if not (factorization.column_norm <= mechanism.column_norm and enough):
        raise ValueError("the plan must state the column norm of the factorization")
    factorization.check_precision(mechanism.noise_std / mechanism.grid)
    return mechanism


class _ShapedNoise:
    """Correlated noise on the grid, filtered from normals in blocks of steps."""

    def __init__(
        self,
        mechanism: CorrelatedGaussian,
        shaping: Any,
        generator: np.random.Generator,
    ) -> None:
        self._grid = mechanism.grid
        self._steps = mechanism.noise_std / self._grid
        self._max_steps = mechanism.max_steps
        self._shaping, self._generator = shaping, generator
        self._ready = np.empty((0, mechanism.shape[0]))
        self._drawn = 0
        self.position = 0

    def add_to(self, rows: Array, position: int) -> None:
        """Add the noise of the steps after `position`, in place."""
        if position != self.position:
            raise RuntimeError(_ENDED)
        round_to_integers(rows, self._grid)
        start = 0
        while start < len(rows):
            part = self._take(len(rows) - start)
            rows[start : start + len(part)] += part
            start += len(part)
        rows *= self._grid

    def _take(self, most: int) -> Array:
        """Return the noise of up to `most` next steps, at least one."""
        if not len(self._ready):
            self._draw(most)
        part, self._ready = self._ready[:most], self._ready[most:]
        self.position += len(part)
        return part

    def _draw(self, wanted: int) -> None:
        """Draw, correlate and round the noise of the next steps, in blocks."""
        block, width = self._shaping.block, self._shaping.width
        most = max(1, _CACHED // (block * width))  # blocks that fit into the cache
        count = block * min(most, -(-wanted // block))
        if self._max_steps is not None:
            count = min(count, self._max_steps - self._drawn)
        noise = self._generator.standard_normal((count, width))
        noise *= self._steps
        shaped = self._shaping.push(noise)
        self._ready = np.rint(shaped, out=np.empty_like(shaped))
        self._drawn += count


_ELSEWHERE = (
    "this optimization is at a different step from its caller: another thread or a "
    "copy has advanced it"
)

# Doubles of a generator are multiples of this.
_GRAIN = 2.0**-53

# Units whose membership is drawn together.
_CHUNK = 1 << 16


def attainable_rate(rate: float) -> float:
    """Return `rate` rounded up to a multiple of 2**-53, as samples attain it."""
    return min(1.0, float(np.ceil(rate / _GRAIN)) * _GRAIN)


def _key(noise_seed: NoiseSeed) -> bytes:
    """Return the key of all samples, which is secret unless seeded."""
    if noise_seed is None:
        return secrets.token_bytes(16)
    return noise_generator(noise_seed).bytes(16)


def _digest(key: bytes, position: int) -> int:
    """Return the key of one step, which reveals no other step's key."""
    text = position.to_bytes(8, "little")
    digest = hashlib.blake2b(text, key=key, person=b"sample", digest_size=16)
    return int.from_bytes(digest.digest(), "little")
