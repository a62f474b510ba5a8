"""The only place where noise is drawn: charge the plan, then release by name.

It knows neither data nor statistics: it adds what a plan says to the arrays that
it is handed, each planned name once. Noise belongs to one object in one process: a
release that is forked or copied raises, and threads take turns.
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

from ..accounting import PrivacyAccountant
from ..mechanisms import Alternatives, Exact, Gaussian, PrivacyPlan

# Draws in chunks that stay in the cache.
_CHUNK = 1 << 13
# Columns of a symmetric matrix that are released together.
_PANEL = 64
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


def charge(plan: PrivacyPlan, accountant, noise_seed) -> None:
    """Charge a plan, before anything else is done."""
    if plan.seeded != (noise_seed is not None):
        raise ValueError("the plan must say whether its noise is seeded")
    if accountant is not None:
        accountant.charge(plan)


# Of this process alone: a forked child gets another one, whatever its number.
_process_mark = object()


def _renew_process_mark() -> None:
    global _process_mark
    _process_mark = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_process_mark)


class NoiseOwner:
    """What holds noise: in the process that made it, one thread at a time."""

    def __init__(self):
        self._settle()

    def _settle(self) -> None:
        """Belong to this process from now on."""
        self._home, self._lock = (os.getpid(), _process_mark), threading.Lock()

    def is_forked(self) -> bool:
        """Whether another process made this object, and may use its noise."""
        return self._home != (os.getpid(), _process_mark)

    def check_process(self) -> None:
        """Refuse a forked copy: to be asked before any lock, which nobody may free.

        Raises
        ------
        RuntimeError
            If the process was forked since this object was made.
        """
        if self.is_forked():
            raise RuntimeError(
                "this release is a forked copy: both processes would draw the same "
                "noise, whose difference shows the data; begin a new fit, or send a "
                "stream with an accountant to another process by a pickle"
            )

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """Hold the noise; whatever draws does it in here."""
        self.check_process()
        with self._lock:
            self.check_process()
            yield


class Release(NoiseOwner):
    """Charge a plan, then let its releases out, each name once.

    A name is released once, whatever threads ask for it. Copies and pickles are
    refused, and so is a forked child: they would draw the same noise.

    Parameters
    ----------
    plan : PrivacyPlan
        Everything that will be released.
    accountant : PrivacyAccountant or None, default=None
        Ledger that is charged with the whole plan, before anything else.
    noise_seed : None, int or RandomState, default=None
        Source of noise; it must agree with ``plan.seeded``.

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
    ):
        charge(plan, accountant, noise_seed)
        self.plan = plan
        super().__init__()
        self._pending = {mechanism.name: mechanism for mechanism in plan.releases()}
        # Names that are forgone once a name is released: the other branches'.
        self._forgone = dict(_forgone_names(plan))
        self._generator = noise_generator(noise_seed)

    def public_normals(self, shape) -> np.ndarray:
        """Return normals that owe nothing to the data, as for a random start."""
        with self._drawing():
            return self._generator.standard_normal(shape)

    def __getstate__(self):
        raise TypeError(
            "a release is not copied or pickled: two copies would draw the same noise, "
            "whose difference shows the data"
        )

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
        RuntimeError
            If this is a forked copy.
        ValueError
            If the shape is not the planned one.
        """
        mechanism = self._planned(name)
        value = np.array(
            value, dtype=np.float64, order="F", copy=None if overwrite else True
        )
        if value.shape != tuple(mechanism.shape):
            raise ValueError(f"{name!r} has shape {value.shape}, not {mechanism.shape}")
        with self._drawing():
            self._close(name)
            released = _add_noise(mechanism, value, self._generator)
        record_release(name, released)
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
        noise_std = 0.0 if isinstance(mechanism, Exact) else mechanism.noise_std
        degrees = np.asarray(chi_degrees, dtype=float)
        with self._drawing():
            self._close(name)
            draws = [self._generator.standard_normal(shape) for shape in normals]
            chis = np.sqrt(self._generator.chisquare(degrees))
        released = kernel(noise_std, draws, chis)
        record_release(name, released)
        return released

    def _planned(self, name: str):
        self.check_process()
        mechanism = self._pending.get(name)
        if mechanism is None:
            raise KeyError(f"{name!r} is not a pending release of this plan")
        return mechanism

    def _close(self, name: str) -> None:
        """Take a name off the plan, with the names of branches not taken."""
        if self._pending.pop(name, None) is None:  # another thread was faster
            raise KeyError(f"{name!r} is not a pending release of this plan")
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


def scaled_normals(shape, scale: float, generator) -> np.ndarray:
    """Return normals of a deviation, not rounded: what is to be shaped."""
    normals = generator.standard_normal(shape)
    normals *= scale
    return normals


def round_to_integers(value: np.ndarray, grid: float) -> None:
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
        round_to_integers(value, mechanism.grid)
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
        round_to_integers(panel, mechanism.grid)
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


def record_release(name: str, released: np.ndarray) -> None:
    """Tell audits of a release."""
    for transcript in _transcripts.get():
        transcript[name] = released.copy()


def record_rows(name: str, before: int, rows: np.ndarray) -> None:
    """Tell audits of rows of a stream, which follow after `before` others."""
    for transcript in _transcripts.get():
        earlier = transcript.get(name, rows[:0])[:before]
        transcript[name] = np.concatenate([earlier, rows])
