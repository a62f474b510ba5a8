"""What an audit finds, and how often it cries wolf: computed, not simulated.

Errors of a test between two unit normals `mu` apart are binomial, and the bound is a
function of their two numbers.
"""

import functools

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.audit._epsilon import _upper_limit

DELTA = 1e-6
LOW_NOISE, FORGOTTEN_ROOT = 1.0 / 0.9, np.sqrt(2.0)
# Of a single release among several, noise that is so much too strong must be seen.
STRONG = 1.25


@functools.lru_cache(64)
def _scores(n_trials, confidence):
    """What each number of errors adds to the bound: they fall."""
    alpha = 1.0 - confidence
    limits = [_upper_limit(k, n_trials, alpha / 2.0) for k in range(n_trials)]
    return -ndtri(limits)


def refuted(claimed, mu, n_trials, confidence):
    """Probability that an audit of a mechanism of cost `mu` refutes the claim."""
    scores = _scores(n_trials, confidence)
    weights = binom.pmf(np.arange(n_trials), n_trials, ndtr(-mu / 2.0))
    # The smallest numbers of the other error refute with each.
    below = np.concatenate([[0.0], np.cumsum(weights)])
    return weights @ below[np.searchsorted(-scores, scores - claimed)]


def least_found(claim, power):
    """The bound that an audit must find: `power` of the claimed epsilon."""
    return gaussian_mu(power * gaussian_epsilon(claim, DELTA), DELTA)


def early_window(claim, n_trials, confidence, low_noise, strong_noise, loss):
    """Where the bound of an early look must be to pass a case.

    Parameters
    ----------
    claim : float
        Claimed cost.
    n_trials, confidence
        Of the look.
    low_noise : float
        Noise that is too low by this factor must be refuted by the fits to come.
    strong_noise : float or None
        And noise that is as much too strong be found out; None where it need not.
    loss : float
        Probability that the look passes either mistake.

    Returns
    -------
    tuple of float
        Least and largest bound.
    """

    def bound_exceeded_with(probability, mu):
        """The bound, of those that occur, that is exceeded so often at least."""
        low, high = 0.0, 2.0 * _scores(n_trials, confidence)[0] + 1e-9
        while high - low > 1e-6 * claim:
            middle = 0.5 * (low + high)
            often = refuted(middle, mu, n_trials, confidence) >= probability
            low, high = (middle, high) if often else (low, middle)
        return low, high

    largest = bound_exceeded_with(1.0 - loss, low_noise * claim)[0]
    if strong_noise is None:
        return 0.0, largest
    return bound_exceeded_with(loss, claim / strong_noise)[1], largest
