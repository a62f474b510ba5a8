"""Many different mechanisms as few that cost a little more."""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import replace
from typing import TypeAlias

from ..mechanisms import ApproximateDP, PrivateSelection
from ..mechanisms._curves import Curve

# Mechanisms, each with how often it is composed.
Counted: TypeAlias = tuple[tuple[Curve, int], ...]

# Above so many kinds, parameters are rounded to where a mechanism costs more: to powers
# of 1 + one of these, the first that leaves few kinds.
MOST_KINDS, _FEW = 64, 24
_STEPS = tuple(4.0**k for k in range(-6, 3))


@functools.lru_cache(maxsize=8)
def few_kinds(curves: Counted) -> Counted:
    """Return few kinds that dominate what is given.

    Parameters
    ----------
    curves : tuple of tuple (mechanism, int)
        Mechanisms, and how often each ran.

    Returns
    -------
    tuple of tuple (mechanism, int)
        The same where they are few. Otherwise pairs have lost their delta, which the
        caller counts by itself; more than few are left if no rounding helps.
    """
    found = curves
    for step in _STEPS if len(curves) > MOST_KINDS else ():
        counted: Counter[Curve] = Counter()
        for curve, times in curves:
            rounded, steps = _dearer(curve, math.log1p(step))
            counted[rounded] += times * steps
        found = tuple(counted.items())
        if len(found) <= _FEW:
            break
    return found


def _up(x: float, step: float) -> float:
    """Return the next power of exp(step) that is at least `x`, in floating point."""
    if x <= 0.0:
        return x
    power = math.exp(step * math.ceil(math.log(x) / step))
    return power if power >= x else power * math.exp(step)


def _dearer(curve: Curve, step: float) -> tuple[Curve, int]:
    """Return a mechanism that costs no less, and how often it stands for this one."""
    if isinstance(curve, ApproximateDP):
        return replace(curve, epsilon=_up(curve.epsilon, step), delta=0.0), 1
    if isinstance(curve, PrivateSelection):
        run_mu = _up(curve.run_mu, step)
        if curve.mean is not None:
            return replace(curve, run_mu=run_mu, mean=_up(curve.mean, step)), 1
        assert curve.gamma is not None
        gamma = 1.0 / _up(1.0 / curve.gamma, step)
        return replace(curve, run_mu=run_mu, gamma=min(gamma, curve.gamma)), 1
    rate = min(_up(curve.sampling_probability, step), 1.0)
    noise = 1.0 / _up(1.0 / curve.noise_multiplier, step)
    noise = min(noise, curve.noise_multiplier)
    rounded = replace(curve, sampling_probability=rate, noise_multiplier=noise, steps=1)
    return rounded, curve.steps
