"""Releases by name: charge the plan, then add its noise, each planned name once.

Noise belongs to one object in one process and is used by one thread at a time: a forked
or copied release raises. Released values are rounded to a grid, plus rounded normals:
exact in float64. Choices among options, pairwise masks of shared secrets, and public
random numbers are drawn here too. Last are streams: rows with noise that is correlated
between steps, and used once.
"""

from __future__ import annotations

import contextlib
import copy
import decimal
import functools
import hashlib
import math
import os
import random
import secrets
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import randomgen
from numpy.random import mtrand

from ..accounting import PrivacyAccountant
from ..accounting._ledger.accountant import advance_stream, open_stream
from ..mechanisms import (
    CorrelatedGaussian,
    Exact,
    ExponentialMechanism,
    Gaussian,
    Mechanism,
    PrivacyPlan,
    SharedGaussian,
    ThresholdedGaussian,
)

Array: TypeAlias = npt.NDArray[np.float64]

# Draws in chunks that stay in the cache.
_CHUNK = 1 << 13

# Columns of a symmetric matrix that are released together.
_PANEL = 64

# Integers up to here leave room for the noise below 2**52.
_LARGEST_INTEGER = 2.0**51


def grid_noise(out: Array, steps: float, generator: np.random.Generator) -> None:
    """Fill an array with rounded normals, whose standard deviation is in grid steps."""
    flat = out.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        generator.standard_normal(out=chunk)
        chunk *= steps
        np.rint(chunk, out=chunk)


def round_to_integers(value: Array, grid: float) -> None:
    """Replace values by their clamped grid numbers: a 1-Lipschitz rounding."""
    value /= grid
    np.rint(value, out=value)
    np.maximum(value, -_LARGEST_INTEGER, out=value)
    np.minimum(value, _LARGEST_INTEGER, out=value)
    # -0.0 would reveal the sign of the value that was rounded to 0.
    value += 0.0


def release_entries(
    mechanism: Gaussian, flat: Array, generator: np.random.Generator
) -> None:
    """Release independent entries, in place."""
    noise, grid = np.empty(min(flat.size, _CHUNK)), mechanism.grid
    steps = mechanism.drawn_std / grid
    for start in range(0, flat.size, _CHUNK):
        value = flat[start : start + _CHUNK]
        draws = noise[: value.size]
        grid_noise(draws, steps, generator)
        round_to_integers(value, grid)
        value += draws
        value *= grid


def release_symmetric(
    mechanism: Gaussian, matrix: Array, generator: np.random.Generator
) -> None:
    """Release a matrix by panels: noise of std / sqrt(2) beside the diagonal."""
    grid = mechanism.grid
    steps = mechanism.noise_std / grid
    columns = matrix.T  # row j: column j of the lower triangle, contiguous
    for start in range(0, len(matrix), _PANEL):
        panel = columns[start : start + _PANEL, start:]
        width = len(panel)
        noise = np.empty(panel.shape)
        grid_noise(noise, steps / math.sqrt(2.0), generator)
        diagonal = np.empty(width)
        grid_noise(diagonal, steps, generator)
        np.fill_diagonal(noise, diagonal)
        round_to_integers(panel, grid)
        panel += noise
        panel *= grid
        _mirror_panel(columns, start, width)


def _mirror_panel(columns: Array, start: int, width: int) -> None:
    """Copy columns start:start+width of a lower triangle above the diagonal."""
    stop = start + width
    square = columns[start:stop, start:stop]
    lower = np.tril_indices(width, -1)
    square[lower] = square.T[lower]
    columns[stop:, start:stop] = columns[start:stop, stop:].T


def mirror_lower(matrix: Array) -> Array:
    """Symmetrize a matrix in place from its lower triangle."""
    for start in range(0, len(matrix), _PANEL):
        _mirror_panel(matrix.T, start, min(_PANEL, len(matrix) - start))
    return matrix


# Bytes of a secret: at least the length of a mask's key.
KEY_BYTES = 32


def pair_mask(secret: bytes, label: bytes, size: int) -> npt.NDArray[np.uint64]:
    """Return words that look uniform without the secret; a label for each sum."""
    if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
        raise ValueError(f"a secret must be {KEY_BYTES} bytes")
    digest = hashlib.blake2b(label, key=secret, person=b"pair mask", digest_size=32)
    # Not the generator of noise, which is another one where AES is slow.
    bits = randomgen.ChaCha(key=int.from_bytes(digest.digest(), "little"), rounds=20)
    generator = np.random.Generator(bits)
    return generator.integers(0, 2**64 - 1, size=size, dtype=np.uint64, endpoint=True)


def public_order(n_units: int) -> npt.NDArray[np.intp]:
    """Return a random permutation that depends on the number of positions alone."""
    return np.random.default_rng(n_units).permutation(n_units)


def public_start(seed: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return uniform numbers in [-1, 1) from a public seed."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, size=shape)


@contextlib.contextmanager
def own_generators(number: int) -> Iterator[None]:
    """Seed global generators by a public number meanwhile, and suppress warnings."""
    bits, state = mtrand.get_bit_generator(), mtrand.get_state(legacy=False)
    others = random.getstate()
    mtrand.set_bit_generator(np.random.MT19937(np.random.SeedSequence(number)))
    random.seed(number.to_bytes(16, "big"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        mtrand.set_bit_generator(bits)
        mtrand.set_state(state)
        random.setstate(others)


# Of this process alone: a forked child gets another one, also under the same number.
_process_mark = object()


def _begin_child() -> None:
    global _process_mark
    _process_mark = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


class NoiseOwner:
    """Base class of objects that draw noise in one process, one thread at a time."""

    def __init__(self) -> None:
        self._process = (os.getpid(), _process_mark)  # forks may skip Python's hooks
        self._thread_lock = threading.RLock()

    def is_forked(self) -> bool:
        """Return whether the object belongs to another process."""
        return self._process != (os.getpid(), _process_mark)

    def check_process(self) -> None:
        """Raise in a forked copy; to be called before acquiring any lock."""
        if self.is_forked():
            raise RuntimeError(
                "this release is a forked copy: both processes would draw the same "
                "noise, and the difference of their results would reveal the data; "
                "start a new fit, or pickle a stream that has an accountant to send "
                "it to another process"
            )

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """Hold the lock while drawing noise."""
        self.check_process()
        with self._thread_lock:
            self.check_process()
            yield


NoiseSeed: TypeAlias = int | Sequence[int] | np.random.RandomState | None


@functools.cache
def _has_hardware_aes() -> bool:
    return bool(randomgen.AESCounter(key=0).use_aesni)


def generator_of_key(key: int) -> np.random.Generator:
    """Return a generator of a 128-bit key: AES in hardware, ChaCha20 without it."""
    if _has_hardware_aes():
        return np.random.Generator(randomgen.AESCounter(key=key))
    return np.random.Generator(randomgen.ChaCha(key=key, rounds=20))


def rekey(generator: np.random.Generator, key: int) -> None:
    """Set a new key of a generator, faster than :func:`generator_of_key`."""
    generator.bit_generator.seed(key=key)  # type: ignore[attr-defined]


def noise_generator(noise_seed: NoiseSeed = None) -> np.random.Generator:
    """Return a cryptographic generator of noise; a seed gives no protection at all."""
    if noise_seed is None:
        return generator_of_key(secrets.randbits(128))
    if isinstance(noise_seed, np.random.RandomState):
        drawn = noise_seed.randint(0, 2**32, size=4, dtype=np.uint32)
        noise_seed = [int(word) for word in drawn]
    words = np.random.SeedSequence(noise_seed).generate_state(2, np.uint64)
    return generator_of_key(int(words[0]) << 64 | int(words[1]))


class Coins(NoiseOwner):
    """A secret uniform order of users and choices of rows, used once after a charge."""

    def __init__(self, noise_seed: NoiseSeed) -> None:
        super().__init__()
        # Apart from the noise of the same seed, which begins with these bits.
        key = noise_generator(noise_seed).bytes(16)
        digest = hashlib.blake2b(key, person=b"coins", digest_size=16).digest()
        self._coins = generator_of_key(int.from_bytes(digest, "little"))

    def secret_order(self, n_users: int) -> npt.NDArray[np.intp]:
        """Return the user at each place."""
        # Places by ids or rows would shift with one user: lemma-one-row-of-each.
        with self._drawing():
            return self._coins.permutation(n_users)

    def shares(self, n_users: int) -> Array:
        """Return uniform numbers in [0, 1), one for each user."""
        with self._drawing():
            return self._coins.random(n_users)


def charge(
    plan: PrivacyPlan, accountant: PrivacyAccountant | None, noise_seed: NoiseSeed
) -> None:
    """Charge a plan, before any other step of a release."""
    if plan.seeded != (noise_seed is not None):
        raise ValueError("the plan must state whether its noise is seeded")
    if accountant is not None:
        accountant.charge(plan)


class Release(NoiseOwner):
    """Charge a plan, then release each of its names once; copies and forks raise."""

    def __init__(
        self,
        plan: PrivacyPlan,
        accountant: PrivacyAccountant | None = None,
        noise_seed: NoiseSeed = None,
    ) -> None:
        charge(plan, accountant, noise_seed)  # before any noise or data
        self.plan = plan
        super().__init__()
        self._pending = {mechanism.name: mechanism for mechanism in plan.releases()}
        # For each name, the names of the other branches, which it rules out.
        self._excluded: dict[str, list[str]] = {}
        for choice in plan.mechanisms:
            branches = getattr(choice, "branches", ())
            for branch in branches:
                others = [m.name for b in branches if b is not branch for m in b]
                self._excluded |= {mechanism.name: others for mechanism in branch}
        self._generator = noise_generator(noise_seed)

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "a release cannot be copied or pickled: two copies would draw the same "
            "noise, and their difference would reveal the data"
        )

    def __call__(
        self, name: str, value: npt.ArrayLike, *, overwrite: bool = False
    ) -> Array:
        """Return a planned statistic with its noise; KeyError if it is not pending."""
        # Of a symmetric matrix only the lower triangle is read.
        mechanism = self._planned(name)
        statistic = np.array(
            value, dtype=np.float64, order="F", copy=None if overwrite else True
        )
        if statistic.shape != tuple(mechanism.shape):
            raise ValueError(
                f"{name!r} has shape {statistic.shape}, not {mechanism.shape}"
            )
        with self._drawing():
            self._close(name)
            released = _add_noise(mechanism, statistic, self._generator)
        if _transcripts.get():
            record_release(name, released)
        return released

    def above_threshold(
        self, name: str, counts: Sequence[Mapping[str, int]]
    ) -> list[dict[str, float]]:
        """Return, sorted by column, values whose noisy counts exceed the threshold."""
        mechanism = self._planned(name)
        if len(counts) != mechanism.shape[0]:
            raise ValueError(f"{name!r} has {mechanism.shape[0]} columns")
        with self._drawing():
            self._close(name)
            kept = _above(mechanism, counts, self._generator)
        noisy = [count for column in kept for count in column.values()]
        record_release(name, np.array(noisy))
        return kept

    def choose(self, name: str, sums: npt.ArrayLike) -> int:
        """Return the option that a mechanism chooses by exact sums, on a grid."""
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
            return self._generator.bytes(16)

    def _planned(self, name: str) -> Mechanism:
        self.check_process()
        mechanism = self._pending.get(name)
        if mechanism is None:
            raise KeyError(f"{name!r} is not a pending release of this plan")
        return mechanism

    def _close(self, name: str) -> None:
        """Mark a name as released, and exclude the names of the other branches."""
        if self._pending.pop(name, None) is None:  # another thread was faster
            raise KeyError(f"{name!r} is not a pending release of this plan")
        for other in self._excluded.get(name, ()):
            self._pending.pop(other, None)


def _add_noise(
    mechanism: Mechanism, value: Array, generator: np.random.Generator
) -> Array:
    """Add the noise of a mechanism to `value`, in place."""
    if isinstance(mechanism, Exact):
        return mirror_lower(value) if mechanism.symmetric else value
    if not (type(mechanism) is Gaussian or type(mechanism) is SharedGaussian):
        raise TypeError(f"there is no noise source for {type(mechanism).__name__}")
    if mechanism.symmetric:
        release_symmetric(mechanism, value, generator)
    else:
        release_entries(mechanism, value.ravel(order="K"), generator)
    return value


def _above(
    mechanism: Mechanism,
    counts: Sequence[Mapping[str, int]],
    generator: np.random.Generator,
) -> list[dict[str, float]]:
    """Return noisy counts above the threshold, sorted by value."""
    found, threshold = [], 0.0
    if type(mechanism) is ThresholdedGaussian:
        threshold = mechanism.threshold
    elif not isinstance(mechanism, Exact):
        raise TypeError(f"{mechanism.name!r} has no threshold")
    for column in counts:
        values = list(column)
        noisy = np.fromiter(column.values(), np.float64, len(values))
        if isinstance(mechanism, Gaussian):
            release_entries(mechanism, noisy, generator)
        kept = {values[i]: float(noisy[i]) for i in np.flatnonzero(noisy > threshold)}
        found.append(dict(sorted(kept.items())))
    return found


# Digits of a choice, and random bits of a draw: its law is exact up to a probability of
# 2**-128.
_DIGITS, _BITS = 60, 128

# All that a context has: the user's own may round, bound and trap as it likes.
_ENDS = decimal.MIN_EMIN, decimal.MAX_EMAX
_EXACT = decimal.Context(_DIGITS, decimal.ROUND_HALF_EVEN, *_ENDS, 1, 0, [], [])


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


# Of this context alone: other threads and tasks release meanwhile.
_transcripts: ContextVar[tuple[dict[str, Array], ...]] = ContextVar(
    "skdpspectral_transcripts", default=()
)


@contextlib.contextmanager
def record_releases() -> Iterator[dict[str, Array]]:
    """Record the latest noisy release of each name in this context, for audits."""
    transcript: dict[str, Array] = {}
    _transcripts.set((*_transcripts.get(), transcript))
    try:
        yield transcript
    finally:
        others = (other for other in _transcripts.get() if other is not transcript)
        _transcripts.set(tuple(others))


@contextlib.contextmanager
def without_recording() -> Iterator[None]:
    """Suspend recording in this context, whose results are not published."""
    outside = _transcripts.get()
    _transcripts.set(())
    try:
        yield
    finally:
        _transcripts.set(outside)


def record_release(name: str, released: Array) -> None:
    """Record a release for audits."""
    for transcript in _transcripts.get():
        transcript[name] = released.copy()


def record_rows(name: str, before: int, rows: Array) -> None:
    """Record rows of a stream for audits, after `before` earlier ones."""
    for transcript in _transcripts.get():
        earlier = transcript.get(name, rows[:0])[:before]
        transcript[name] = np.concatenate([earlier, rows])


# -- streams ---------------------------------------------------------------------------

_ENDED = (
    "this stream can't continue: it has ended or was closed, or a step of it failed, "
    "or another thread is in the middle of one; clone the estimator to begin a new "
    "stream"
)

# Numbers of noise, or members of a sample, that are drawn together.
_CACHED = 1 << 16


class StreamRelease(NoiseOwner):
    """Charge the plan of a whole stream, then release its rows, step by step."""

    def __init__(
        self,
        plan: PrivacyPlan,
        accountant: PrivacyAccountant | None = None,
        noise_seed: NoiseSeed = None,
        *,
        factorization: Any,
        rate: float | None = None,
    ) -> None:
        # Noise and samples depend on a step's number and the key, not on batches. The
        # ledger refuses a stream if a copy is ahead; without one, none can be copied.
        (mechanism,) = plan.mechanisms
        self._mechanism = check_shaping(mechanism, factorization)
        planned = getattr(mechanism, "sampling_probability", None)
        if not (isinstance(mechanism, Exact) or planned == rate):
            raise ValueError("the plan must state the sampling rate")
        charge(plan, accountant, noise_seed)
        super().__init__()
        self.plan = plan
        self.position = 0  # the number of steps so far
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
        # Of all samples, and secret unless seeded.
        self._key = b"" if rate is None else noise_generator(noise_seed).bytes(16)
        self._generator: np.random.Generator | None = None

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
        """Claim the next steps after `position`, before any of them is computed."""
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
            for start in range(0, n_units, _CACHED):
                chances = generator.random(min(_CACHED, n_units - start))
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
            most = len(rows) - start
            if not len(self._ready):
                self._draw(most)
            part, self._ready = self._ready[:most], self._ready[most:]
            rows[start : start + len(part)] += part
            start += len(part)
            self.position += len(part)
        rows *= self._grid

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


def attainable_rate(rate: float) -> float:
    """Return `rate` rounded up to a multiple of 2**-53, as samples attain it."""
    return min(1.0, float(np.ceil(rate / _GRAIN)) * _GRAIN)


def _digest(key: bytes, position: int) -> int:
    """Return the key of one step, which reveals no other step's key."""
    text = position.to_bytes(8, "little")
    digest = hashlib.blake2b(text, key=key, person=b"sample", digest_size=16)
    return int.from_bytes(digest.digest(), "little")
