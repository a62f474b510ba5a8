"""Releases of streams: rows with noise that is correlated between steps.

Noise is drawn by ``_release``, from a generator that belongs to one object in one
process; here it is shaped, counted by steps, and used once.

Releases of sums over Poisson samples: who is in a step's sample is secret.
"""

from __future__ import annotations

import copy
import hashlib
import math
import secrets
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..accounting import LedgerError, PrivacyAccountant
from ..accounting._ledger.accountant import advance_stream, open_stream, stream_position
from ..mechanisms import CorrelatedGaussian, Exact, Mechanism, PrivacyPlan
from .grid import Array, round_to_integers, scaled_normals
from .release import (
    NoiseOwner,
    NoiseSeed,
    charge,
    generator_of_key,
    noise_generator,
    record_rows,
    rekey,
)

_ENDED = (
    "this stream can't go on: it has ended or was closed, or a step of it failed, or "
    "another thread is in the middle of one; clone the estimator to begin a new "
    "stream, or load the last pickle of a stream with an accountant and resume() it"
)


# Numbers of noise that are drawn together.
_CACHED = 1 << 16


class Shaping(Protocol):
    """A filter of rows, in blocks of steps.

    Attributes
    ----------
    block : int
        It takes any number of blocks of so many rows, and the last time before a reset
        a part of one.
    width : int
        Entries of a row.
    """

    block: int
    width: int

    def push(self, rows: Array) -> Array:
        """Return the shaped rows."""

    def reset(self) -> None:
        """Begin anew, as with fresh noise."""


class NoiseFactorization(Protocol):
    """What a stream asks of the matrix that shapes its noise."""

    max_steps: int | None
    column_norm: float

    def filter(self, width: int) -> Shaping:
        """Return a filter of rows of a width."""

    def check_precision(self, steps: float) -> None:
        """Refuse a matrix whose noise float64 can't hold on its grid."""


class StreamRelease(NoiseOwner):
    """Charge the plan of a whole stream, then let its rows out, step by step.

    Noise is made when it is needed, in blocks that are counted from the first step,
    so that rows get the same noise in any batches. It is used once: where a copy of
    the stream has gone further, the ledger refuses this one; a stream without a
    ledger has no copies. A stream that has ended, was closed, or failed, and a forked
    copy of one, let nothing out; only what was planned as
    :class:`~skdpspectral.mechanisms.Exact` leaves without noise.

    Parameters
    ----------
    plan : PrivacyPlan
        Its one mechanism is a :class:`~skdpspectral.mechanisms.CorrelatedGaussian`,
        or :class:`~skdpspectral.mechanisms.Exact`.
    accountant, noise_seed
        As for :class:`~skdpspectral._release.release.Release`.
    factorization : Factorization
        The matrix that shapes the noise: `column_norm`, `max_steps`, `filter`, and
        `check_precision`.

    Attributes
    ----------
    position : int
        Number of steps so far.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        accountant: PrivacyAccountant | None = None,
        noise_seed: NoiseSeed = None,
        *,
        factorization: NoiseFactorization,
    ) -> None:
        (mechanism,) = plan.mechanisms
        self._mechanism = check_shaping(mechanism, factorization)
        charge(plan, accountant, noise_seed)
        super().__init__()
        self.plan = plan
        self.position = 0
        self._accountant = accountant
        self._id = "" if accountant is None else open_stream(accountant)
        # Steps that were claimed and not yet released; whether noise is in the making.
        self._claimed, self._drawn_from, self._closed = 0, False, False
        self._noise: _ShapedNoise | None = None
        if not isinstance(self._mechanism, Exact):
            shaping = factorization.filter(self._mechanism.shape[0])
            generator = noise_generator(noise_seed)
            self._noise = _ShapedNoise(self._mechanism, shaping, generator)

    # -- copies ----------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        with self._drawing():
            if self._noise is not None and self._accountant is None:
                raise TypeError(
                    "a stream without an accountant can't be copied or pickled before "
                    "it has ended: two copies would use the same noise, which shows "
                    "the rows. Give the estimator an accountant, whose ledger lets the "
                    "newest copy alone go on; publish() gives what was released so far"
                )
            if (self._claimed or self._drawn_from) and not self._closed:
                raise TypeError(
                    "a stream can't be copied or pickled between the steps of a batch: "
                    "both copies would use the noise that this one has claimed"
                )
            state = self.__dict__.copy()
            # The pickler comes later, when the noise may be further than `position`.
            state["_noise"] = copy.deepcopy(self._noise)
        del state["_turns"], state["_home"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._settle()

    def __copy__(self) -> StreamRelease:
        return copy.deepcopy(self)

    # -- steps -----------------------------------------------------------------------

    @property
    def _last(self) -> float:
        """Step after which there is no noise."""
        planned = self._mechanism
        if isinstance(planned, Exact) or planned.max_steps is None or planned.renewed:
            return math.inf
        return planned.max_steps

    def close(self) -> None:
        """End the stream: nothing leaves it any more."""
        # A turn may be of a thread that is not here, or of what this one interrupts.
        if self.is_forked() or self._turns.is_mine:
            self._close()
            return
        with self._turns.take():
            self._close()

    def _close(self) -> None:
        self._noise, self._closed = None, True

    def _check_open(self) -> None:
        missing = self._noise is None and not isinstance(self._mechanism, Exact)
        if self._closed or self._drawn_from or missing:
            raise RuntimeError(_ENDED)

    def claim(self, position: int, steps: int) -> None:
        """Claim the next steps, before anything of them is computed.

        Parameters
        ----------
        position : int
            Number of steps that the caller has the results of.
        steps : int
            Rows that will be handed over next, in one call or in several.

        Raises
        ------
        LedgerError
            If a copy of this stream has gone further.
        RuntimeError
            If the stream has ended or a step of it failed, or this is a forked copy.
        ValueError
            If the steps are more than were planned.
        """
        with self._drawing():
            if self.position + steps > self._last:
                raise ValueError(f"only {self._last} steps were planned")
            self._check_open()
            if self._claimed or position != self.position:
                raise RuntimeError(_ENDED)
            if self._accountant is not None:
                advance_stream(self._accountant, self._id, self.position, steps)
            # In this order: whoever is interrupted in between can't go on.
            self._claimed = steps
            self.position += steps

    def __call__(self, rows: Array) -> Array:
        """Return the next rows, of steps that were claimed, with their noise.

        Parameters
        ----------
        rows : ndarray of shape (b, k)
            Exact rows of the next b steps; overwritten.

        Returns
        -------
        ndarray of shape (b, k)
            Every entry is a multiple of the mechanism's grid.

        Raises
        ------
        RuntimeError
            If the stream was closed, or this is a forked copy.
        ValueError
            If the rows have another shape, or were not claimed.
        """
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        name, shape = self._mechanism.name, tuple(self._mechanism.shape)
        if rows.shape[1:] != shape:
            raise ValueError(f"rows of {name!r} have shape {shape}")
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

    def resume(self) -> int:
        """Go to where the ledger has this stream; the noise up to there is lost.

        Returns
        -------
        int
            Number of steps that the stream has made, in whichever copy.

        Raises
        ------
        LedgerError
            If the ledger is behind this copy: an older one was put back.
        RuntimeError
            If this copy has ended or failed, or is a forked one.
        ValueError
            If the stream has no ledger.
        """
        with self._drawing():
            if self._accountant is None:
                raise ValueError(
                    "a stream without an accountant can't be resumed: nothing says "
                    "which noise was used; clone the estimator to begin a new stream"
                )
            position = stream_position(self._accountant, self._id)
            if self._closed and position == self.position:
                return position
            self._check_open()
            if self._claimed:
                raise RuntimeError(_ENDED)
            if position < self.position:
                raise LedgerError(
                    f"the ledger has this stream at step {position}, behind this copy "
                    f"at step {self.position}: an older ledger was put back, by which "
                    "noise would be used twice"
                )
            if position == self._last:
                self._close()
            elif self._noise is not None:
                self._drawn_from = True
                self._noise.discard(position - self.position)
                self._drawn_from = False
            self.position = position
            return position


def check_shaping(
    mechanism: Mechanism, factorization: NoiseFactorization
) -> Exact | CorrelatedGaussian:
    """Return a stream's mechanism, or refuse a matrix that does not fit it.

    Raises
    ------
    ValueError
        If its columns are longer than was planned, or float64 can't hold its noise.
    """
    if isinstance(mechanism, Exact):
        return mechanism
    if not isinstance(mechanism, CorrelatedGaussian):
        raise TypeError(f"{type(mechanism).__name__} is no mechanism of a stream")
    limit = factorization.max_steps
    enough = limit is None or (mechanism.max_steps or math.inf) <= limit
    if not (factorization.column_norm <= mechanism.column_norm and enough):
        raise ValueError("the plan must state the column norm of the factorization")
    factorization.check_precision(mechanism.noise_std / mechanism.grid)
    return mechanism


class _ShapedNoise:
    """Correlated noise on the grid, made in blocks of steps.

    Parameters
    ----------
    mechanism : CorrelatedGaussian
        Scale, grid, and number of steps before the noise begins anew.
    shaping : filter
        Rows of Z in, rows of the shaped noise out.
    generator : numpy.random.Generator
        Source of Z.

    Attributes
    ----------
    position : int
        Number of steps whose noise was used, or thrown away.
    """

    def __init__(
        self,
        mechanism: CorrelatedGaussian,
        shaping: Shaping,
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

    def discard(self, steps: int) -> None:
        """Throw the noise of the next steps away: another copy has used it."""
        while steps:
            steps -= len(self._take(steps))

    def _take(self, most: int) -> Array:
        """Return noise of the next steps, at least one of them."""
        if not len(self._ready):
            self._draw(most)
        part, self._ready = self._ready[:most], self._ready[most:]
        self.position += len(part)
        return part

    def _draw(self, wanted: int) -> None:
        """Draw and shape noise of the next steps, in blocks, rounded to the grid."""
        if self._drawn == self._max_steps:
            self._shaping.reset()
            self._drawn = 0
        count = self._in_blocks(wanted)
        if self._max_steps is not None:
            count = min(count, self._max_steps - self._drawn)
        noise = scaled_normals(
            (count, self._shaping.width), self._steps, self._generator
        )
        shaped = self._shaping.push(noise)
        self._ready = np.rint(shaped, out=np.empty_like(shaped))
        self._drawn += count

    def _in_blocks(self, wanted: int) -> int:
        """Return a number of steps in whole blocks, as many as stay in the cache."""
        block, width = self._shaping.block, self._shaping.width
        most = max(1, _CACHED // (block * width))
        return block * min(most, -(-wanted // block))


_ELSEWHERE = (
    "this optimization is at another step than its caller: another thread, or a copy, "
    "has gone further"
)


# Doubles of a generator are multiples of this.
_GRAIN = 2.0**-53


# Units whose chance is drawn together.
_CHUNK = 1 << 16


class SampledRelease(StreamRelease):
    """A stream of sums over samples of units, each of which joins by itself.

    The sample of a step is a function of its number and of a key: a copy that goes on
    elsewhere finds the same samples, and none of them is drawn twice.

    Parameters
    ----------
    plan : PrivacyPlan
        Its one mechanism is a :class:`~skdpspectral.mechanisms.SampledGaussian`, or
        :class:`~skdpspectral.mechanisms.Exact`.
    accountant, noise_seed, factorization
        As for :class:`~skdpspectral._release.streams.StreamRelease`.
    rate : float
        Probability with which each unit is in a sample, as it was planned.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        accountant: PrivacyAccountant | None = None,
        noise_seed: NoiseSeed = None,
        *,
        factorization: NoiseFactorization,
        rate: float,
    ) -> None:
        (mechanism,) = plan.mechanisms
        planned = getattr(mechanism, "sampling_probability", None)
        if not (isinstance(mechanism, Exact) or planned == rate):
            raise ValueError("the plan must state the rate of the samples")
        super().__init__(plan, accountant, noise_seed, factorization=factorization)
        self._rate = rate
        self._key = _key(noise_seed)
        self._generator: np.random.Generator | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The state of the generator would be that of the last sample.
        return super().__getstate__() | {"_generator": None}

    def sample(self, position: int, n_units: int) -> npt.NDArray[np.intp]:
        """Return who is in the sample of the next step, in increasing order.

        Parameters
        ----------
        position : int
            Number of steps that the caller has the results of.
        n_units : int
            Number of units.

        Returns
        -------
        ndarray of shape (n_sampled,)
            Their positions: to be used for this step, and to be forgotten.

        Raises
        ------
        RuntimeError
            If the stream is elsewhere, or has ended, or this is a forked copy.
        """
        with self._drawing():
            self._check_open()
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

    def _close(self) -> None:
        # What is left may be pickled, and without the key samples stay secret.
        super()._close()
        self._key, self._generator = b"", None


def attainable_rate(rate: float) -> float:
    """Return the rate that samples have: the next multiple of what chances are.

    Parameters
    ----------
    rate : float
        In (0, 1].

    Returns
    -------
    float
        At least `rate`.
    """
    return min(1.0, float(np.ceil(rate / _GRAIN)) * _GRAIN)


def _key(noise_seed: NoiseSeed) -> bytes:
    """Return what samples are made from beside their step: secret without a seed."""
    if noise_seed is None:
        return secrets.token_bytes(16)
    return noise_generator(noise_seed).bytes(16)


def _digest(key: bytes, position: int) -> int:
    """Return the key of one step: of others it tells nothing."""
    text = position.to_bytes(8, "little")
    digest = hashlib.blake2b(text, key=key, person=b"sample", digest_size=16)
    return int.from_bytes(digest.digest(), "little")
