"""The only place where noise is drawn: charge the plan, then release by name.

It knows neither data nor statistics: it adds what a plan says to the arrays that
it is handed, each planned name once. Noise belongs to one object in one process: a
release that is forked or copied raises, and threads take turns.

Who may use an object: one process, and one of its threads at a time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import randomgen

from ..accounting import PrivacyAccountant
from ..mechanisms import (
    Alternatives,
    Exact,
    Gaussian,
    Mechanism,
    PrivacyPlan,
    SharedGaussian,
)
from .grid import Array, mirror_lower, release_entries, release_symmetric


class Turns:
    """A lock that a thread which has it already is refused.

    A handler of a signal, or a finalizer, may ask for what its own thread is in the
    middle of. It cannot wait, and must not be let in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None

    @property
    def is_mine(self) -> bool:
        """Whether this thread has the turn."""
        return self._holder == threading.get_ident()

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Wait until no other thread has the turn, and have it.

        Raises
        ------
        RuntimeError
            If this thread has it.
        """
        if self.is_mine:
            raise RuntimeError(
                "this object is in the middle of a step by this very thread, which a "
                "signal or a finalizer has interrupted: it can be used, copied or "
                "pickled once the step has ended"
            )
        with self._lock:
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None


# Of this process alone: a forked child gets another one, whatever its number.
_process_mark = object()


# All that hold noise in this process.
_owners: weakref.WeakSet[NoiseOwner] = weakref.WeakSet()


# Where they have what noise and samples are drawn from.
_SOURCES = ("_generator", "_noise", "_key")


def _begin_child() -> None:
    """Forget the noise of the parent: a child would draw the same."""
    global _process_mark
    _process_mark = object()
    for owner in list(_owners):
        for name in _SOURCES:
            if name in vars(owner):
                setattr(owner, name, None)
    _owners.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


class NoiseOwner:
    """What holds noise: in the process that made it, one thread at a time."""

    def __init__(self) -> None:
        self._settle()

    def _settle(self) -> None:
        """Belong to this process from now on."""
        self._home, self._turns = (os.getpid(), _process_mark), Turns()
        _owners.add(self)

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
        with self._turns.take():
            self.check_process()
            yield


NoiseSeed: TypeAlias = int | Sequence[int] | np.random.RandomState | None


@functools.cache
def _has_hardware_aes() -> bool:
    return bool(randomgen.AESCounter(key=0).use_aesni)


def _bit_generator(key: int) -> np.random.BitGenerator:
    """AES-128 in counter mode by hardware, ChaCha20 without it."""
    bits: np.random.BitGenerator = (
        randomgen.AESCounter(key=key)
        if _has_hardware_aes()
        else randomgen.ChaCha(key=key, rounds=20)
    )
    return bits


def generator_of_key(key: int) -> np.random.Generator:
    """Return the generator of a key of 128 bits."""
    return np.random.Generator(_bit_generator(key))


def rekey(generator: np.random.Generator, key: int) -> None:
    """Make a generator what :func:`generator_of_key` returns, in less time."""
    generator.bit_generator.seed(key=key)  # type: ignore[attr-defined]


def noise_generator(noise_seed: NoiseSeed = None) -> np.random.Generator:
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
        return generator_of_key(secrets.randbits(128))
    if isinstance(noise_seed, np.random.RandomState):
        drawn = noise_seed.randint(0, 2**32, size=4, dtype=np.uint32)
        noise_seed = [int(word) for word in drawn]
    words = np.random.SeedSequence(noise_seed).generate_state(2, np.uint64)
    return generator_of_key(int(words[0]) << 64 | int(words[1]))


def charge(
    plan: PrivacyPlan, accountant: PrivacyAccountant | None, noise_seed: NoiseSeed
) -> None:
    """Charge a plan, before anything else is done."""
    if plan.seeded != (noise_seed is not None):
        raise ValueError("the plan must say whether its noise is seeded")
    if accountant is not None:
        accountant.charge(plan)


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
        noise_seed: NoiseSeed = None,
    ) -> None:
        charge(plan, accountant, noise_seed)
        self.plan = plan
        super().__init__()
        self._pending = {mechanism.name: mechanism for mechanism in plan.releases()}
        # Names that are forgone once a name is released: the other branches'.
        self._forgone = dict(_forgone_names(plan))
        self._generator = noise_generator(noise_seed)

    def public_normals(self, shape: int | tuple[int, ...]) -> Array:
        """Return normals that owe nothing to the data, as for a random start."""
        with self._drawing():
            return self._generator.standard_normal(shape)

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "a release is not copied or pickled: two copies would draw the same noise, "
            "whose difference shows the data"
        )

    def __call__(
        self, name: str, value: npt.ArrayLike, *, overwrite: bool = False
    ) -> Array:
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

    def sample(
        self,
        name: str,
        kernel: Callable[[float, list[Array], Array], Array],
        *,
        normals: Sequence[tuple[int, ...]] = (),
        chi_degrees: npt.ArrayLike = (),
    ) -> Array:
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
        noise_std = _noise_std(mechanism)
        degrees = np.asarray(chi_degrees, dtype=float)
        with self._drawing():
            self._close(name)
            draws = [self._generator.standard_normal(shape) for shape in normals]
            chis = np.sqrt(self._generator.chisquare(degrees))
        released = kernel(noise_std, draws, chis)
        record_release(name, released)
        return released

    def forgo(self, name: str) -> None:
        """Make no release of a planned name, which another process has made.

        Raises
        ------
        KeyError
            If the name is not planned, or was released already.
        """
        self._planned(name)
        with self._drawing():
            self._close(name)

    def _planned(self, name: str) -> Mechanism:
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


def _noise_std(mechanism: Mechanism) -> float:
    """Return the deviation of a mechanism's noise; only `Exact` has none."""
    if isinstance(mechanism, Exact):
        return 0.0
    if type(mechanism) is not Gaussian:
        raise TypeError(f"no noise is known for {type(mechanism).__name__}")
    return mechanism.noise_std


def _forgone_names(plan: PrivacyPlan) -> Iterator[tuple[str, list[str]]]:
    """Yield each name of a branch with the names of the other branches."""
    for mechanism in plan.mechanisms:
        if not isinstance(mechanism, Alternatives):
            continue
        for branch in mechanism.branches:
            others = [m.name for b in mechanism.branches if b is not branch for m in b]
            yield from ((m.name, others) for m in branch)


def _add_noise(
    mechanism: Mechanism, value: Array, generator: np.random.Generator
) -> Array:
    """Turn `value`, in place, into what leaves the house."""
    if isinstance(mechanism, Exact):
        return mirror_lower(value) if mechanism.symmetric else value
    if not (type(mechanism) is Gaussian or type(mechanism) is SharedGaussian):
        raise TypeError(f"no noise is known for {type(mechanism).__name__}")
    if mechanism.symmetric:
        release_symmetric(mechanism, value, generator)
    else:
        release_entries(mechanism, value.ravel(order="K"), generator)
    return value


# Of this context alone: other threads and tasks release meanwhile.
_transcripts: ContextVar[tuple[dict[str, Array], ...]] = ContextVar(
    "skdpspectral_transcripts", default=()
)


@contextlib.contextmanager
def record_releases() -> Iterator[dict[str, Array]]:
    """Collect what is released in this context, after its noise, for audits.

    Yields
    ------
    dict of str to ndarray
        Filled as releases happen; a later release of a name replaces an earlier.
    """
    transcript: dict[str, Array] = {}
    _transcripts.set((*_transcripts.get(), transcript))
    try:
        yield transcript
    finally:
        others = (other for other in _transcripts.get() if other is not transcript)
        _transcripts.set(tuple(others))


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Tell audits nothing of what is made in this context, and not let out."""
    outside = _transcripts.get()
    _transcripts.set(())
    try:
        yield
    finally:
        _transcripts.set(outside)


def record_release(name: str, released: Array) -> None:
    """Tell audits of a release."""
    for transcript in _transcripts.get():
        transcript[name] = released.copy()


def record_rows(name: str, before: int, rows: Array) -> None:
    """Tell audits of rows of a stream, which follow after `before` others."""
    for transcript in _transcripts.get():
        earlier = transcript.get(name, rows[:0])[:before]
        transcript[name] = np.concatenate([earlier, rows])
