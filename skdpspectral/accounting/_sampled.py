"""How much noise Poisson-sampled Gaussian mechanisms need for a budget."""

from __future__ import annotations

import functools
import math
from typing import Any

from ..mechanisms import Neighbors, SampledGaussian, SubsampledGaussian
from ..mechanisms._numbers import check_real
from ._gaussian import gaussian_mu
from ._losses import composed_epsilon

# Relative width at which the search for a noise multiplier ends.
_CLOSE = 2.0**-10


def calibrate_sampled(
    epsilon: float,
    delta: float,
    sampling_probability: float,
    steps: int,
    neighbors: Neighbors | str,
) -> float:
    """Least noise multiplier of steps on Poisson samples, within a budget.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    sampling_probability : float
        Probability q in (0, 1] with which each unit is in a step's sample.
    steps : int
        Number of steps.
    neighbors : {"add-remove-one", "zero-out-one", "replace-one"}
        The relation that the budget is for. The multiplier is that of the largest norm
        of what one unit adds, also under ``"replace-one"``.

    Returns
    -------
    float
        At most .1 % above the least that the accounting can show to do.

    Raises
    ------
    ImportError
        If ``dp_accounting`` is not installed.

    Examples
    --------
    >>> from skdpspectral.accounting import calibrate_sampled
    >>> round(calibrate_sampled(1.0, 1e-6, 0.01, 1000, "zero-out-one"), 2)
    1.56
    """
    replaced = Neighbors(neighbors) is Neighbors.REPLACE_ONE
    epsilon, delta = check_real("epsilon", epsilon), check_real("delta", delta)
    mu = gaussian_mu(epsilon, delta)  # refuses what is out of range
    # Checks what else is given.
    SubsampledGaussian("", sampling_probability, 1.0, steps, replaced)
    high = (2.0 if replaced else 1.0) * math.sqrt(steps) / mu
    if sampling_probability == 1.0:
        return high
    return _search(epsilon, delta, sampling_probability, steps, replaced, high)


@functools.lru_cache(maxsize=256)
def _search(
    epsilon: float, delta: float, q: float, steps: int, replaced: bool, high: float
) -> float:
    """Return a multiplier that does, close above one that does not."""

    def excess(sigma: float) -> float:
        curve = SubsampledGaussian("", q, sigma, steps, replaced)
        spent = composed_epsilon(0.0, ((curve, 1),), delta)
        return math.log(spent / epsilon) if spent > 0.0 else -math.inf

    # Without sampling, this would do: what is sampled costs less.
    low, at_low = high, -math.inf
    while at_low <= 0.0:
        high, at_high = low, at_low
        low /= 1.5 if at_low > -2.0 else 4.0
        at_low = excess(low)
    while high > low * (1.0 + _CLOSE):
        middle = _between(low, at_low, high, at_high)
        found = excess(middle)
        if found > 0.0:
            low, at_low = middle, found
        else:
            high, at_high = middle, found
    return high


def _between(low: float, at_low: float, high: float, at_high: float) -> float:
    """Return where a line through both ends is just below 0, kept off the ends."""
    width = math.log(high / low)
    share = 0.5
    if math.isfinite(at_high):
        share = at_low / (at_low - at_high) + 0.25 * _CLOSE / width
    edge = min(0.5, 0.3 * _CLOSE / width)
    return low * math.exp(width * min(max(share, edge), 1.0 - edge))


def sampled_gaussian(
    name: str,
    sensitivity: float,
    noise_multiplier: float,
    shape: tuple[int, ...],
    **further: Any,
) -> SampledGaussian:
    """Mechanism of at least this noise multiplier, its grid and errors included.

    Parameters
    ----------
    name, sensitivity, shape
        As in :class:`~skdpspectral.mechanisms.SampledGaussian`.
    noise_multiplier : float
        Standard deviation of the noise over the charged sensitivity, at least.
    **further : object
        Further fields: `summation_error`, `magnitude`, `max_steps`,
        `sampling_probability`.

    Returns
    -------
    SampledGaussian
        With ``mechanism.noise_multiplier >= noise_multiplier``.

    Raises
    ------
    ValueError
        If the grid of such noise is too coarse for the sensitivity.
    """
    summed = 2.0 * further.get("summation_error", 0.0)
    noise_std = noise_multiplier * (sensitivity + summed)
    for _ in range(200):
        if not noise_std < math.inf:  # the grid's own share outgrows the noise
            break
        mechanism = SampledGaussian(name, sensitivity, noise_std, shape, **further)
        if mechanism.noise_multiplier >= noise_multiplier:
            return mechanism
        needed = noise_multiplier * mechanism.charged_sensitivity
        noise_std = max(needed, noise_std * (1.0 + 2.0**-50))
    raise ValueError(
        f"the budget of {name!r} (noise_multiplier = {noise_multiplier:g}) is too "
        f"small for {shape} numbers in float64 arithmetic; raise epsilon or delta, or "
        "lower the noise_multiplier"
    )
