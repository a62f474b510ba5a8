"""The only place where noise is drawn: charge the plan, then release by name.

It knows neither data nor statistics: it adds what a plan says to the arrays that
it is handed, each planned name once.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import secrets
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import numpy as np
import randomgen

from .accounting import PrivacyAccountant
from .mechanisms import Alternatives, CorrelatedGaussian, Exact, Gaussian, PrivacyPlan

# Draws in chunks that stay in the cache.
_CHUNK = 1 << 13
# Columns of a symmetric matrix that are released together.
_PANEL = 64
# Rounding errors of shaped noise, in Z, stay far below a step of the grid: times the
# unit roundoff 2**-53 and some 2**8 for 12 standard deviations and the terms of sums,
# at most 2**-6 of a step.
_LARGEST_AMPLIFICATION = 2.0**39
# Integers up to here leave room for the noise below 2**52.
_LARGEST_INTEGER = 2.0**51


@functools.cache
def _has_hardware_aes() -> bool:
    return bool(randomgen.AESCounter(key=0).use_aesni)


def _bit_generator(key: int):
    """AES-128 in counter mode by hardware, ChaCha20 without it."""
    if _has_hardware_aes():
        return randomgen.AESCounter(key=key)
    return randomgen.ChaCha(key=key, rounds=20)


def noise_generator(noise_seed=None) -> np.random.Generator:
    """Generator of noise over a cryptographic bit generator.

    Parameters
    ----------
    noise_seed : None, int or RandomState, default=None
        None takes a fresh 128-bit key from the operating system. Anything else
        gives a reproducible stream, which protects nothing.

    Returns
    -------
    numpy.random.Generator
        With a key of its own; never a jump or child of another stream.
    """
    if noise_seed is None:
        return np.random.Generator(_bit_generator(secrets.randbits(128)))
    if isinstance(noise_seed, np.random.RandomState):
        noise_seed = noise_seed.randint(0, 2**32, size=4, dtype=np.uint32).tolist()
    words = np.random.SeedSequence(noise_seed).generate_state(2, np.uint64)
    return np.random.Generator(_bit_generator(int(words[0]) << 64 | int(words[1])))


def _charge(plan: PrivacyPlan, accountant, noise_seed, allow_seeded: bool) -> None:
    """Charge a plan, before anything else is done."""
    if plan.seeded != (noise_seed is not None):
        raise ValueError("the plan must say whether its noise is seeded")
    if accountant is not None:
        accountant.charge(plan, allow_seeded=allow_seeded)


class Release:
    """Charge a plan, then let its releases out, each name once.

    Parameters
    ----------
    plan : PrivacyPlan
        Everything that will be released.
    accountant : PrivacyAccountant or None, default=None
        Ledger that is charged with the whole plan, before anything else.
    noise_seed : None, int or RandomState, default=None
        Source of noise; it must agree with ``plan.seeded``.
    allow_seeded : bool, default=False
        Passed on to the accountant.

    Raises
    ------
    PrivacyBudgetError
        If the accountant refuses; no noise is drawn and no data are read.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        accountant: PrivacyAccountant | None = None,
        noise_seed=None,
        *,
        allow_seeded: bool = False,
    ):
        _charge(plan, accountant, noise_seed, allow_seeded)
        self.plan = plan
        self._process = os.getpid()
        self._pending = {mechanism.name: mechanism for mechanism in plan.releases()}
        # Names that are forgone once a name is released: the other branches'.
        self._forgone = dict(_forgone_names(plan))
        self._generator = noise_generator(noise_seed)

    def public_normals(self, shape) -> np.ndarray:
        """Return normals that owe nothing to the data, as for a random start."""
        return self._generator.standard_normal(shape)

    def __call__(self, name: str, value, *, overwrite: bool = False) -> np.ndarray:
        """Return a planned statistic with its noise.

        Parameters
        ----------
        name : str
            Name of a mechanism of the plan that was not released yet.
        value : array-like
            The exact statistic, of the planned shape. Of a symmetric matrix only
            the lower triangle is read.
        overwrite : bool, default=False
            Whether the memory of `value` may be used for the result.

        Returns
        -------
        ndarray
            A new float64 array; whole and symmetric for symmetric matrices. Every
            entry is a multiple of the mechanism's grid.

        Raises
        ------
        KeyError
            If the name is not planned, or was released already.
        ValueError
            If the shape is not the planned one.
        """
        mechanism = self._planned(name)
        value = np.array(
            value, dtype=np.float64, order="F", copy=None if overwrite else True
        )
        if value.shape != tuple(mechanism.shape):
            raise ValueError(f"{name!r} has shape {value.shape}, not {mechanism.shape}")
        self._close(name)
        released = _add_noise(mechanism, value, self._generator)
        for transcript in _transcripts.get():
            transcript[name] = released.copy()
        return released

    def sample(self, name: str, kernel, *, normals=(), chi_degrees=()) -> np.ndarray:
        """Return what a kernel makes of a release whose noise it never forms.

        For statistics of a noisy matrix that is too large to be held: `kernel` must
        have the law of a function of that release. Its result lies on no grid.

        Parameters
        ----------
        name : str
            Name of a mechanism of the plan that was not released yet.
        kernel : callable
            ``kernel(noise_std, normals, chis)`` with independent standard normals,
            one array a shape, and chi variables.
        normals : sequence of tuple of int, default=()
            Shapes of the normals.
        chi_degrees : array-like, default=()
            Degrees of freedom of the chi variables, at least 1.

        Returns
        -------
        ndarray
            What the kernel returns.
        """
        mechanism = self._planned(name)
        self._close(name)
        draws = [self._generator.standard_normal(shape) for shape in normals]
        chis = np.sqrt(self._generator.chisquare(np.asarray(chi_degrees, dtype=float)))
        noise_std = getattr(mechanism, "noise_std", 0.0)
        released = kernel(noise_std, draws, chis)
        for transcript in _transcripts.get():
            transcript[name] = released.copy()
        return released

    def _planned(self, name: str):
        if self._process != os.getpid():
            raise RuntimeError(
                "this release is a forked copy: both processes would draw the same "
                "noise, whose difference shows the data; begin a new fit"
            )
        mechanism = self._pending.get(name)
        if mechanism is None:
            raise KeyError(f"{name!r} is not a pending release of this plan")
        return mechanism

    def _close(self, name: str) -> None:
        """Take a name off the plan, with the names of branches not taken."""
        del self._pending[name]
        for other in self._forgone.get(name, ()):
            self._pending.pop(other, None)


def _forgone_names(plan: PrivacyPlan) -> Iterator[tuple[str, list[str]]]:
    """Yield each name of a branch with the names of the other branches."""
    for mechanism in plan.mechanisms:
        if not isinstance(mechanism, Alternatives):
            continue
        for branch in mechanism.branches:
            others = [m.name for b in mechanism.branches if b is not branch for m in b]
            yield from ((m.name, others) for m in branch)


def _add_noise(mechanism, value: np.ndarray, generator) -> np.ndarray:
    """Turn `value`, in place, into what leaves the house."""
    if isinstance(mechanism, Exact):
        return _mirror_lower(value) if mechanism.symmetric else value
    if type(mechanism) is not Gaussian:
        raise TypeError(f"no noise is known for {type(mechanism).__name__}")
    if mechanism.symmetric:
        _release_symmetric(mechanism, value, generator)
    else:
        _release_entries(mechanism, value.ravel(order="K"), generator)
    return value


def grid_noise(out: np.ndarray, steps: float, generator) -> None:
    """Fill a contiguous array with rounded normals of a deviation in grid steps."""
    flat = out.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        generator.standard_normal(out=chunk)
        chunk *= steps
        np.rint(chunk, out=chunk)


def _round_to_integers(value: np.ndarray, grid: float) -> None:
    """Replace values by their grid numbers, clamped: a 1-Lipschitz rounding."""
    value /= grid
    np.rint(value, out=value)
    np.clip(value, -_LARGEST_INTEGER, _LARGEST_INTEGER, out=value)
    # -0.0 would tell the sign of what was rounded away.
    value += 0.0


def _release_entries(mechanism: Gaussian, flat: np.ndarray, generator) -> None:
    """Release independent entries, in place."""
    noise = np.empty(min(flat.size, _CHUNK))
    for start in range(0, flat.size, _CHUNK):
        value = flat[start : start + _CHUNK]
        draws = noise[: value.size]
        grid_noise(draws, mechanism.noise_std / mechanism.grid, generator)
        _round_to_integers(value, mechanism.grid)
        value += draws
        value *= mechanism.grid


def _release_symmetric(mechanism: Gaussian, matrix: np.ndarray, generator) -> None:
    """Release a symmetric matrix from its lower triangle, panel by panel.

    Off-diagonal entries get noise of std / sqrt(2), which is the isotropic noise
    of the isometry (diagonal, sqrt(2) x off-diagonal).
    """
    steps = mechanism.noise_std / mechanism.grid
    columns = matrix.T  # row j: column j of the lower triangle, contiguous
    for start in range(0, len(matrix), _PANEL):
        panel = columns[start : start + _PANEL, start:]
        width = len(panel)
        noise = np.empty(panel.shape)
        grid_noise(noise, steps / math.sqrt(2.0), generator)
        diagonal = np.empty(width)
        grid_noise(diagonal, steps, generator)
        np.fill_diagonal(noise, diagonal)
        _round_to_integers(panel, mechanism.grid)
        panel += noise
        panel *= mechanism.grid
        _mirror_panel(columns, start, width)


def _mirror_panel(columns: np.ndarray, start: int, width: int) -> None:
    """Copy columns start..start+width of a lower triangle above the diagonal."""
    stop = start + width
    square = columns[start:stop, start:stop]
    lower = np.tril_indices(width, -1)
    square[lower] = square.T[lower]
    columns[stop:, start:stop] = columns[start:stop, stop:].T


def _mirror_lower(matrix: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix whose lower triangle is given, in place."""
    for start in range(0, len(matrix), _PANEL):
        _mirror_panel(matrix.T, start, min(_PANEL, len(matrix) - start))
    return matrix


class StreamRelease:
    """Charge the plan of a whole stream, then let its rows out, step by step.

    Noise is made when it is needed, in blocks that are counted from the first step,
    so that rows get the same noise in any batches. It is used once: where a copy of
    the stream has gone further, the ledger refuses this one; a stream without a
    ledger has no copies.

    Parameters
    ----------
    plan : PrivacyPlan
        Its one mechanism is a :class:`~skdpspectral.mechanisms.CorrelatedGaussian`,
        or :class:`~skdpspectral.mechanisms.Exact`.
    accountant, noise_seed, allow_seeded
        As for :class:`Release`.
    factorization : Factorization
        The matrix that shapes the noise: `column_norm`, `max_steps` and `filter`.

    Attributes
    ----------
    position : int
        Number of steps so far.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        accountant: PrivacyAccountant | None = None,
        noise_seed=None,
        *,
        factorization,
        allow_seeded: bool = False,
    ):
        (self._mechanism,) = plan.mechanisms
        _check_shaping(self._mechanism, factorization)
        _charge(plan, accountant, noise_seed, allow_seeded)
        self.plan = plan
        self.position = 0
        self._accountant = accountant
        self._id = None if accountant is None else accountant.open_stream()
        self._process = os.getpid()
        self._claimed, self._closed = 0, False
        self._lock = threading.Lock()
        self._noise = None
        if isinstance(self._mechanism, CorrelatedGaussian):
            shaping = factorization.filter(self._mechanism.shape[0])
            generator = noise_generator(noise_seed)
            self._noise = _ShapedNoise(self._mechanism, shaping, generator)

    def __getstate__(self):
        if self._noise is not None and self._accountant is None:
            raise TypeError(
                "a stream without an accountant can't be copied or pickled before it "
                "has ended: two copies would use the same noise, which shows the rows. "
                "Give the estimator an accountant, whose ledger lets the newest copy "
                "alone go on; publish() gives what was released so far"
            )
        with self._lock:
            state = self.__dict__.copy()
        if state["_claimed"] and not state["_closed"]:
            raise TypeError(
                "a stream can't be copied or pickled between the steps of a batch: "
                "both copies would use the noise that this one has claimed"
            )
        del state["_lock"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._process = os.getpid()

    def close(self) -> None:
        """End the stream: no noise can be drawn any more."""
        self._noise, self._closed = None, True

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
            If the stream has ended or a step of it failed, or this is a forked copy
            without a ledger.
        ValueError
            If the steps are more than were planned.
        """
        mechanism = self._mechanism
        last = getattr(mechanism, "max_steps", None)
        endless = last is None or mechanism.renewed
        with self._lock:
            if not endless and self.position + steps > last:
                raise ValueError(f"only {last} steps were planned")
            forked = self._accountant is None and self._process != os.getpid()
            failed = self._claimed or position != self.position
            if self._closed or failed or forked:
                raise RuntimeError(
                    "this stream can't go on: it has ended, or a step of it failed, or "
                    "it is a forked copy, whose noise another process may use; clone "
                    "the estimator to begin a new stream"
                )
            if self._accountant is not None:
                self._accountant.advance_stream(self._id, self.position, steps)
            self.position += steps
            self._claimed = steps

    def __call__(self, rows: np.ndarray) -> np.ndarray:
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
        ValueError
            If the rows have another shape, or were not claimed.
        """
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        name, shape = self._mechanism.name, tuple(self._mechanism.shape)
        if rows.shape[1:] != shape:
            raise ValueError(f"rows of {name!r} have shape {shape}")
        with self._lock:
            if len(rows) > self._claimed:
                raise ValueError(f"{len(rows)} steps, but {self._claimed} were claimed")
            before = self.position - self._claimed
            if self._noise is not None:
                self._noise.add_to(rows)
            self._claimed -= len(rows)
        for transcript in _transcripts.get():
            earlier = transcript.get(name, rows)[:before]
            transcript[name] = np.concatenate([earlier, rows])
        return rows


def _check_shaping(mechanism, factorization) -> None:
    """Refuse a matrix whose columns are longer than what was planned."""
    if isinstance(mechanism, Exact):
        return
    if not isinstance(mechanism, CorrelatedGaussian):
        raise TypeError(f"{type(mechanism).__name__} is no mechanism of a stream")
    limit = factorization.max_steps
    enough = limit is None or (mechanism.max_steps or math.inf) <= limit
    if not (factorization.column_norm <= mechanism.column_norm and enough):
        raise ValueError("the plan must state the column norm of the factorization")
    steps = mechanism.noise_std / mechanism.grid
    if not factorization.amplification * steps <= _LARGEST_AMPLIFICATION:
        raise ValueError(
            f'factorization="{factorization.name}" of this workload amplifies rounding '
            "errors until the noise is coarser than its grid, which would show the "
            'rows: take "trivial" or "blt", or a matrix whose inverse does not grow'
        )


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
    """

    def __init__(self, mechanism: CorrelatedGaussian, shaping, generator):
        self._grid = mechanism.grid
        self._steps = mechanism.noise_std / mechanism.grid
        self._max_steps = mechanism.max_steps
        self._shaping, self._generator = shaping, generator
        self._ready = np.empty((0, mechanism.shape[0]))
        self._drawn = 0

    def add_to(self, rows: np.ndarray) -> None:
        """Add the noise of the next steps, in place."""
        _round_to_integers(rows, self._grid)
        start = 0
        while start < len(rows):
            if not len(self._ready):
                self._draw()
            part = self._ready[: len(rows) - start]
            rows[start : start + len(part)] += part
            self._ready = self._ready[len(part) :]
            start += len(part)
        rows *= self._grid

    def _draw(self) -> None:
        """Draw and shape the noise of the next block, rounded to the grid."""
        if self._drawn == self._max_steps:
            self._shaping.reset()
            self._drawn = 0
        count = self._shaping.block
        if self._max_steps is not None:
            count = min(count, self._max_steps - self._drawn)
        noise = np.empty((count, self._shaping.width))
        self._generator.standard_normal(out=noise)
        noise *= self._steps
        shaped = self._shaping.push(noise)
        self._ready = np.rint(shaped, out=np.empty_like(shaped))
        self._drawn += count


# Of this context alone: other threads and tasks release meanwhile.
_transcripts: ContextVar[tuple[dict[str, np.ndarray], ...]] = ContextVar(
    "skdpspectral_transcripts", default=()
)


@contextlib.contextmanager
def record_releases() -> Iterator[dict[str, np.ndarray]]:
    """Collect what is released in this context, after its noise, for audits.

    Yields
    ------
    dict of str to ndarray
        Filled as releases happen; a later release of a name replaces an earlier.
    """
    transcript: dict[str, np.ndarray] = {}
    _transcripts.set((*_transcripts.get(), transcript))
    try:
        yield transcript
    finally:
        others = (other for other in _transcripts.get() if other is not transcript)
        _transcripts.set(tuple(others))
