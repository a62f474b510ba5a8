r"""The cost of any mechanism as that of a Gaussian one which may fail.

A mechanism *costs mu but for a failure* d if its hockey-stick divergences are, at every
:math:`\alpha > 0` and for neighbors in either order, at most

.. math:: G_\alpha = d + (1 - d)\, H_\alpha(N(\mu, 1) \| N(0, 1)).

So squares of mu and failures add up, whatever is chosen by earlier releases
(:ref:`lemma-box-filter`). Here is the least mu for a given d
(:ref:`lemma-least-mu`), and the noise of steps on Poisson samples for a given pair.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtri, ndtri_exp

from ..mechanisms import ApproximateDP, Neighbors, SubsampledGaussian, check_real
from ..mechanisms._planned_releases import Curve
from ._composition import (
    RELATIVE,
    TRANSFORM,
    certain_failure,
    composed_losses,
    count_distributions,
    least_noise,
)
from ._curves import MOST_KINDS, Counted, LossDistribution, coarsen_kinds

# More than the relative rounding errors of sums of as many masses as a grid may have,
# and of the normal distribution's inverse.
_SUMS = 1e-9
_SMALL_EPSILON = 1e-4

# Above such costs a relative error of a probability is a large one of its complement.
_LARGE_MU = 4.0
_MOST_PARTS = 64


def least_mu(mu: float, curves: Counted, failure: float) -> float:
    r"""Return an upper bound on the least mu at this probability of failure.

    Parameters
    ----------
    mu : float
        Cost of all Gaussian mechanisms.
    curves : tuple of (mechanism, int)
        All others, each with how often it runs. What is planned together must be given
        together: the sum of squares of separate bounds is larger.
    failure : float
        d, in [0, 1).

    Returns
    -------
    float
        Infinite if no bound is known.
    """
    if not curves or mu == math.inf:
        return mu
    bounds, parts = [_one_by_one(mu, curves, failure)], 1
    while parts <= _MOST_PARTS and (parts == 1 or min(bounds) > _LARGE_MU):
        # Parts of a fit cost as the whole does; their failures add up.
        share = tuple((_part(curve, parts), times) for curve, times in curves)
        of_part = _by_losses(mu / math.sqrt(parts), share, failure / parts)
        bounds.append(math.sqrt(parts) * of_part)
        if any(getattr(curve, "steps", 1) <= parts for curve, _ in curves):
            break
        parts *= 2
    return min(bounds)


def _part(curve: Curve, parts: int) -> Curve:
    """Return a part of a mechanism's steps, rounded up."""
    if not isinstance(curve, SubsampledGaussian):
        return curve
    return replace(curve, steps=math.ceil(curve.steps / parts))


def pure_mu(epsilon: float) -> float:
    r"""Return the cost of an epsilon of pure differential privacy.

    .. math:: 2 \Phi^{-1}\Bigl(\frac{e^\epsilon}{1 + e^\epsilon}\Bigr)

    Randomized response has the largest divergences, all of which are below those of
    this Gaussian mechanism; at :math:`\alpha = 1` both are equal. Rounded up. The
    quantile of a small epsilon has lost its digits: its tangent at 0 is above it.
    """
    if epsilon < _SMALL_EPSILON:
        return math.sqrt(0.5 * math.pi) * epsilon * (1.0 + _SUMS)
    return -2.0 * float(ndtri_exp(-np.logaddexp(0.0, epsilon))) * (1.0 + _SUMS)


def _one_by_one(mu: float, curves: Counted, failure: float) -> float:
    """Return the cost of each by itself, without sampling."""
    if certain_failure(curves) > failure:
        return math.inf
    return math.hypot(mu, *(math.sqrt(n) * _cost_alone(curve) for curve, n in curves))


def _cost_alone(curve: Curve) -> float:
    """Return the cost of a pair beside its delta, or of steps on all units."""
    if isinstance(curve, ApproximateDP):
        return pure_mu(curve.epsilon)
    if isinstance(curve, SubsampledGaussian):
        distance = 2.0 if curve.replaced else 1.0
        return distance * math.sqrt(curve.steps) / curve.noise_multiplier
    return math.inf


def _by_losses(mu: float, curves: Counted, failure: float) -> float:
    """Return the least mu of the distribution of all losses, in either direction."""
    if len(curves) > MOST_KINDS:
        failure -= certain_failure(curves)
        curves = coarsen_kinds(curves)
    ways = composed_losses(mu, curves) if failure > 0.0 else ()
    errors = TRANSFORM * count_distributions(curves)
    return max((_of_losses(way, failure, errors) for way in ways), default=math.inf)


def _of_losses(losses: LossDistribution, failure: float, errors: float) -> float:
    """Return the least mu of a distribution of losses, for alpha of at least 1.

    Between two losses its curve is a line, (1 + r)(a - alpha b) + `errors`, with the
    probabilities a and b that a loss is no smaller.
    """
    start = max(1 - losses.first, 0)
    masses = np.maximum(losses.masses[start:], 0.0)
    values = losses.step * losses.places[start:]
    above = np.cumsum(masses[::-1])[::-1] + losses.infinite
    below = np.cumsum((masses * np.exp(-values))[::-1])[::-1]
    above = above * (1.0 + RELATIVE) * (1.0 + _SUMS) + errors
    below = below * (1.0 + RELATIVE) * (1.0 - _SUMS)
    if losses.infinite * (1.0 + RELATIVE) + errors > failure:
        return math.inf
    counts = above > failure
    yes = (above[counts] - failure) / (1.0 - failure)
    no = below[counts] / (1.0 - failure)
    # A line that is above 1 where alpha is 0 is below the curve only where it is 0.
    with np.errstate(divide="ignore"):
        found = np.where(yes < 1.0, ndtri(np.minimum(yes, 1.0)), math.inf)
        found = np.where(no < 1.0, found - ndtri(np.minimum(no, 1.0)), -math.inf)
    return max(float(np.max(found, initial=0.0)) * (1.0 + _SUMS), 0.0)


def calibrate_sampled_mu(
    mu: float,
    failure: float,
    sampling_probability: float,
    steps: int,
    neighbors: Neighbors | str,
) -> float:
    """Least noise multiplier at which steps on Poisson samples cost mu, but for a d.

    At most .1 % above the least that :func:`least_mu` can show to do.

    Parameters
    ----------
    mu : float
        Positive and finite.
    failure : float
        d, in [0, 1).
    sampling_probability, steps, neighbors
        As of :func:`~skdpspectral.accounting.calibrate_sampled`.

    Examples
    --------
    >>> from skdpspectral.accounting._least_mu import calibrate_sampled_mu
    >>> round(calibrate_sampled_mu(0.25, 1e-7, 0.01, 1000, "replace-one"), 2)
    2.53
    """
    mu, failure = check_real("mu", mu), check_real("failure", failure)
    if not 0.0 < mu < math.inf:
        raise ValueError(f"mu must be positive and finite, got {mu}")
    if not 0.0 <= failure < 1.0:
        raise ValueError(f"failure must be in [0, 1), got {failure}")
    replaced = Neighbors(neighbors) is Neighbors.REPLACE_ONE
    SubsampledGaussian("", sampling_probability, 1.0, steps, replaced)
    high = (2.0 if replaced else 1.0) * math.sqrt(steps) / mu
    if sampling_probability == 1.0 or failure == 0.0:
        return high
    return _calibrated(mu, failure, sampling_probability, steps, replaced, high)


@lru_cache(maxsize=256)
def _calibrated(
    mu: float, failure: float, q: float, steps: int, replaced: bool, high: float
) -> float:
    def excess(sigma: float) -> float:
        curve = SubsampledGaussian("", q, sigma, steps, replaced)
        found = least_mu(0.0, ((curve, 1),), failure)
        return math.log(found / mu) if found > 0.0 else -math.inf

    return least_noise(excess, high)
