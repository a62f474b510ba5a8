"""What it costs to choose one of several options by sums of votes."""

from __future__ import annotations

from scipy.special import log_ndtr

from ..mechanisms import ExponentialMechanism, check_real

# Rounding that an exponential mechanism is charged with, by far, and what its
# calibration stops short of.
_ROUNDING, _SLACK = 2.0**-46, 2.0**-40

# Costs of exponential mechanisms are far below.
_MOST_HALF_MU = 20.0


def calibrate_exponential(
    name: str, mu: float, n_options: int, sensitivity: float = 1.0, *, lemma: str = ""
) -> ExponentialMechanism:
    r"""Exponential mechanism that costs at most `mu` (:ref:`lemma-exponential-choice`).

    Its range is :math:`\epsilon = 2 \ln (\Phi(\mu/2) / \Phi(-\mu/2))`.
    """
    half = 0.5 * (check_real("mu", mu) - _ROUNDING)
    if not 0.0 < half < _MOST_HALF_MU:
        raise ValueError(f"mu must be positive and below {2 * _MOST_HALF_MU}, got {mu}")
    epsilon = 2.0 * float(log_ndtr(half) - log_ndtr(-half)) * (1.0 - _SLACK)
    return ExponentialMechanism(name, epsilon, n_options, sensitivity, lemma=lemma)
