"""Releases of sums over Poisson samples: who is in a step's sample is secret."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import numpy as np
import numpy.typing as npt

from ..accounting import PrivacyAccountant
from ..mechanisms import Exact, PrivacyPlan
from .release import NoiseSeed, generator_of_key, noise_generator, rekey
from .streams import Factorization, StreamRelease

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
        factorization: Factorization,
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
