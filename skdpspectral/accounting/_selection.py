"""What it costs to release the best of a secret number of runs.

With one run Q on a table, and Q' on a neighbor, every outcome y of the selections A and
A' has a number t in [0, E[K]] with ``A(y) <= t Q(y)`` and ``A'(y) >= t exp(-c) Q'(y)``.
So a selection costs a shift c of epsilon and a factor E[K] of delta beside one run
(:ref:`lemma-selection-profile`). Over several selections shifts add up and factors
multiply, and mu**2 adds up over runs and all Gaussian mechanisms beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, log_ndtr

from ..mechanisms import ExponentialMechanism, PrivateSelection, check_real
from ..mechanisms._planned_releases import POISSON, TRUNCATED_NEGATIVE_BINOMIAL
from ._curves import replaced_deltas
from ._gaussian import MIN_DELTA, gaussian_delta, gaussian_epsilon

Array: TypeAlias = npt.NDArray[np.float64]

# Orders of Renyi divergences beyond one, on a logarithmic scale, for Poisson laws.
_LOG_ORDERS = (math.log(1e-3), math.log(1e6))

# Largest mean of a number of runs.
MOST_EXPECTED_RUNS = 1e6

# From this mean on, a Poisson law gives no run with a probability below 1e-6.
_FEWEST_OF_POISSON = 14.0

# Calibrations stop this far short of the budget, for the rounding of what follows.
_SLACK = 2.0**-40

# Rounding that an exponential mechanism is charged with, by far.
_ROUNDING = 2.0**-46

# Numbers of runs that are told apart, up to the largest; and the rounding of a law.
_MOST_NUMBERS, _MOST_RUNS, _ROUNDED_LAW = 256, 2**13, 1e-12

# Costs of exponential mechanisms are far below.
_MOST_HALF_MU = 20.0
LOGARITHMIC, GEOMETRIC = "logarithmic", "geometric"
_ETA = {LOGARITHMIC: 0.0, GEOMETRIC: 1.0}
LAWS = (*_ETA, POISSON)


def truncation(expected_runs: float, eta: float = 0.0) -> float:
    """Parameter gamma of the truncated negative binomial law of a mean above 1.

    The mean is at most `expected_runs`. The shape `eta` is 0 for the logarithmic law
    and 1 for the geometric.

    Examples
    --------
    >>> from skdpspectral.accounting._selection import truncation
    >>> truncation(20.0, eta=1.0)  # the geometric law
    0.05
    """
    wanted, eta = check_real("expected_runs", expected_runs), check_real("eta", eta)
    if not 1.0 < wanted <= MOST_EXPECTED_RUNS:
        raise ValueError(
            f"expected_runs must be above 1 and at most {MOST_EXPECTED_RUNS:g}, got "
            f"{wanted}"
        )
    if eta == 1.0:
        return 1.0 / wanted

    def excess(log_gamma: float) -> float:
        law = PrivateSelection("", 1.0, eta=eta, gamma=math.exp(log_gamma))
        return law.expected_runs - wanted

    low = -1.0
    while excess(low) < 0.0:
        low *= 2.0
        if low < -700.0:
            raise ValueError(f"eta={eta} is too close to -1 for a mean of {wanted}")
    root = float(brentq(excess, low, -1e-9, xtol=1e-15, rtol=1e-15))
    while excess(root) > 0.0:
        root += 1e-15 * max(1.0, abs(root))
    return math.exp(root)


def selection_shift(selection: PrivateSelection) -> float:
    r"""Epsilon, positive, that a selection costs beside one run.

    It is :math:`(1 + \eta) x` with the root x of :math:`(1 - \gamma) \delta(x) =
    \gamma (e^x - 1)`, for the curve :math:`\delta` of a run, and for a Poisson law of
    mean m :math:`m (2 \Phi(\mu / 2) - 1)`.
    """
    mu = selection.run_mu
    if selection.law == POISSON:
        return _poisson_mean(selection) * math.erf(mu / math.sqrt(8.0))
    return (1.0 + selection.eta) * _log_odds_of_no_more(mu, _gamma(selection))


@lru_cache(maxsize=1024)
def _log_odds_of_no_more(mu: float, gamma: float) -> float:
    """Return an upper bound on the root x in :func:`selection_shift`.

    Above the root the left-hand side is smaller. The root is below ln(1 / gamma), where
    the right-hand side is 1 - gamma.
    """
    log_gamma, log_rest = math.log(gamma), math.log1p(-gamma)

    def is_above(x: float) -> bool:
        if x == 0.0:
            return False
        with np.errstate(over="ignore"):  # at tiny costs
            delta = gaussian_delta(mu, x)
        if delta == 0.0:
            return True
        odds = x + math.log(-math.expm1(-x))  # of e^x - 1, which may overflow
        return log_rest + math.log(delta) < log_gamma + odds

    low, high = 0.0, -log_gamma
    while high - low > _SLACK * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return high * (1.0 + _SLACK)


def delta_factor(selection: PrivateSelection) -> float:
    r"""Factor of delta that a selection costs beside one run, E[K].

    Of a Poisson law :math:`m + e^{-m}`: the outcome of no run is counted in.
    """
    if selection.law == POISSON:
        mean = _poisson_mean(selection)
        return mean + math.exp(-mean)
    return selection.expected_runs


def renyi_curve(selection: PrivateSelection, orders: npt.ArrayLike) -> Array:
    r"""Bounds on the Renyi divergences of a selection, at orders above 1.

    For a truncated negative binomial law
    :math:`\lambda \mu^2 / 2 + c + \ln E[K] / (\lambda - 1)` with the
    :func:`selection_shift` c, which is at most the bound of theorem 2 of the source
    at every order :math:`\hat\lambda` there. For a Poisson law that of theorem 6,
    with the outcome of no run counted in.

    References
    ----------
    Papernot and Steinke (2022), Hyperparameter tuning with Renyi differential privacy.
    """
    orders = np.asarray(orders, dtype=np.float64)
    if not np.all(orders > 1.0):
        raise ValueError("orders must be above 1")
    run = 0.5 * orders * selection.run_mu**2
    if selection.law != POISSON:
        runs = math.log(selection.expected_runs) / (orders - 1.0)
        return np.asarray(run + selection_shift(selection) + runs)
    mean, mu = _poisson_mean(selection), selection.run_mu
    losses = np.log1p(1.0 / (orders - 1.0))
    lifted = np.reshape(
        [gaussian_delta(mu, loss) for loss in losses.flat], orders.shape
    )
    some = math.log(mean) + (orders - 1.0) * (run + mean * lifted)
    return np.asarray(np.logaddexp(some, -mean) / (orders - 1.0))


def all_runs_deltas(
    selection: PrivateSelection, epsilons: npt.ArrayLike, beside: float = 0.0
) -> Array:
    """Bound delta by that of all runs and their number, at epsilons of at least 0.

    This bound is the smaller one at small epsilons. Numbers of runs are rounded up to
    one of a few, and the largest ones count as failures.
    """
    epsilons = np.asarray(epsilons, dtype=np.float64)
    if not beside + selection.run_mu < math.inf or not selection.expected_runs:
        return np.ones(epsilons.shape)
    numbers, probabilities = _numbers_of_runs(selection)
    found = np.full(epsilons.shape, _ROUNDED_LAW + max(1.0 - probabilities.sum(), 0.0))
    for number, probability in zip(numbers, probabilities, strict=True):
        mu = math.hypot(selection.run_mu * math.sqrt(number), beside)
        found += probability * replaced_deltas(1.0, 2.0 / mu, epsilons)
    return np.asarray(np.minimum(found, 1.0))


def _numbers_of_runs(selection: PrivateSelection) -> tuple[Array, Array]:
    """Return some numbers of runs, and probabilities to be above the one before.

    No run counts as one.
    """
    k = np.arange(1.0, _MOST_RUNS + 1.0)
    if selection.law == POISSON:
        mean = _poisson_mean(selection)
        logs = k * math.log(mean) - mean - gammaln(k + 1.0)
        logs[0] = math.log1p(mean) - mean
    else:
        gamma, eta = _gamma(selection), selection.eta
        steps = math.log1p(-gamma) + np.log1p((eta - 1.0) / np.maximum(k, 2.0))
        steps[0] = (1.0 + eta) * math.log(gamma) + math.log(selection.expected_runs)
        logs = np.cumsum(steps)
    ends = np.unique(np.geomspace(1.0, _MOST_RUNS, _MOST_NUMBERS).round()).astype(int)
    starts = np.concatenate([[0], ends[:-1]])
    return ends.astype(np.float64), np.add.reduceat(np.exp(logs), starts)


def selection_delta(
    selection: PrivateSelection, epsilon: float, beside: float = 0.0
) -> float:
    """Upper bound on delta of a selection, and of Gaussian mechanisms beside it.

    `beside` is the composed cost, in Gaussian differential privacy, of what else is
    released, also where it is chosen by the outcome of the selection, or the selection
    by it.

    References
    ----------
    Koskela, Redberg and Wang (2024), Privacy profiles for private selection, for bounds
    of this kind.
    """
    epsilon, beside = check_real("epsilon", epsilon), check_real("beside", beside)
    mu = math.hypot(selection.run_mu, beside)
    shift = selection_shift(selection)
    delta, factor = 1.0, delta_factor(selection)
    if epsilon >= shift and factor < math.inf:
        delta = factor * gaussian_delta(mu, epsilon - shift)
    if selection.law == POISSON:
        delta = min(delta, _delta_by_orders(selection, epsilon, beside))
    return min(delta, float(all_runs_deltas(selection, epsilon, beside)))


def selection_epsilon(
    selection: PrivateSelection, delta: float, beside: float = 0.0
) -> float:
    """Upper bound on epsilon of a selection, and of Gaussian mechanisms beside it.

    There :func:`selection_delta` is at most `delta`. Infinite where delta over the mean
    number of runs is below what float64 noise honors.

    Examples
    --------
    The best of a hundred runs of epsilon 1 each, on average, and its epsilon:

    >>> from skdpspectral.accounting import gaussian_mu, selection_epsilon
    >>> from skdpspectral.mechanisms import PrivateSelection
    >>> mu = gaussian_mu(1.0, 1e-6)
    >>> best = PrivateSelection("best", mu, gamma=0.00155)
    >>> round(best.expected_runs), round(selection_epsilon(best, 1e-6), 2)
    (100, 1.76)
    """
    delta = check_real("delta", delta)
    mu = math.hypot(selection.run_mu, check_real("beside", beside))
    gaussian_epsilon(mu, delta)  # refuses a delta out of range
    share = delta / delta_factor(selection)
    epsilon = math.inf
    if share >= MIN_DELTA:
        epsilon = gaussian_epsilon(mu, share) + selection_shift(selection)
    if selection.law == POISSON:
        epsilon = min(epsilon, _epsilon_by_orders(selection, delta, beside))
    return epsilon


def calibrate_selection(
    name: str,
    epsilon: float,
    delta: float,
    expected_runs: float,
    *,
    law: str = "auto",
    beside: Callable[[float], float] | None = None,
) -> PrivateSelection:
    """Return the selection with the largest cost per run within a budget.

    Parameters
    ----------
    name : str
        Name of the release.
    epsilon, delta : float
        Total budget: epsilon positive and finite, delta in [1e-15, 1).
    expected_runs : float
        Expected number of runs.
    law : {"auto", "logarithmic", "geometric", "poisson"}, default="auto"
        Distribution of the number of runs. "auto" uses the logarithmic distribution or,
        for a mean of at least 14, where it is very rarely zero, the Poisson
        distribution, whichever allows a larger cost per run.
    beside : callable or None, default=None
        ``beside(run_mu)`` is the cost of all releases other than the selection, and
        must not decrease with the cost of a run. None means no other releases.

    Returns
    -------
    PrivateSelection
        Selection with ``selection_epsilon(selection, delta, beside(run_mu)) <=
        epsilon``.

    Raises
    ------
    ValueError
        If an argument is out of range, or the budget is too small for any run.
    """
    epsilon, delta = check_real("epsilon", epsilon), check_real("delta", delta)
    expected_runs = check_real("expected_runs", expected_runs)
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be positive and finite, got {epsilon}")
    if law == "auto":
        laws = [LOGARITHMIC, POISSON][: 1 + (expected_runs >= _FEWEST_OF_POISSON)]
        made = [
            calibrate_selection(
                name, epsilon, delta, expected_runs, law=law, beside=beside
            )
            for law in laws
        ]
        return max(made, key=lambda selection: selection.run_mu)
    parameters = _parameters(law, expected_runs)
    extra = (lambda run_mu: 0.0) if beside is None else beside

    def spare(log_mu: float) -> float:
        mu = math.exp(log_mu)
        selection = PrivateSelection(name, mu, **parameters)
        return epsilon - selection_epsilon(selection, delta, extra(mu))

    high = math.log(max(1.0, math.sqrt(2.0 * epsilon)))
    low = high - 1.0
    while not spare(low) > 0.0:
        low -= 1.0
        if low < -40.0:
            raise ValueError(
                f"epsilon={epsilon:g} at delta={delta:g} is too little for the best of "
                f"{expected_runs:g} runs on average; raise epsilon or delta"
            )
    while spare(high) > 0.0:
        high += 1.0
    log_mu = _last_positive(spare, low, high)
    return PrivateSelection(name, math.exp(log_mu) * (1.0 - _SLACK), **parameters)


def calibrate_exponential(
    name: str, mu: float, n_options: int, sensitivity: float = 1.0, *, lemma: str = ""
) -> ExponentialMechanism:
    r"""Exponential mechanism that costs at most `mu`.

    Its range is :math:`\epsilon = 2 \ln (\Phi(\mu/2) / \Phi(-\mu/2))`
    (:ref:`lemma-exponential-choice`). `sensitivity` is how far one unit moves the sum
    of any one option.

    Examples
    --------
    >>> from skdpspectral.accounting._selection import calibrate_exponential
    >>> choice = calibrate_exponential("choice", 0.5, n_options=12)
    >>> round(choice.epsilon, 3), round(choice.mu, 6)
    (0.8, 0.5)
    """
    half = 0.5 * (check_real("mu", mu) - _ROUNDING)
    if not 0.0 < half < _MOST_HALF_MU:
        raise ValueError(f"mu must be positive and below {2 * _MOST_HALF_MU}, got {mu}")
    epsilon = 2.0 * float(log_ndtr(half) - log_ndtr(-half)) * (1.0 - _SLACK)
    return ExponentialMechanism(name, epsilon, n_options, sensitivity, lemma=lemma)


def _last_positive(spare: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function, minus infinity at times, is still positive."""
    while high - low > 2.0**-46:
        middle = 0.5 * (low + high)
        if spare(middle) > 0.0:
            low = middle
        else:
            high = middle
    return low


def _parameters(law: str, expected_runs: float) -> dict[str, Any]:
    """Return the parameters of a law in a PrivateSelection."""
    if law == POISSON:
        mean = check_real("expected_runs", expected_runs)
        if not 0.0 < mean <= MOST_EXPECTED_RUNS:
            raise ValueError(
                f"expected_runs must be positive and at most {MOST_EXPECTED_RUNS:g}, "
                f"got {mean}"
            )
        return {"law": POISSON, "mean": mean}
    if law not in _ETA:
        raise ValueError(f"law must be 'auto' or one of {LAWS}, got {law!r}")
    eta = _ETA[law]
    gamma = truncation(expected_runs, eta)
    return {"law": TRUNCATED_NEGATIVE_BINOMIAL, "eta": eta, "gamma": gamma}


def _gamma(selection: PrivateSelection) -> float:
    assert selection.gamma is not None
    return selection.gamma


def _poisson_mean(selection: PrivateSelection) -> float:
    assert selection.mean is not None
    return selection.mean


def _delta_by_orders(
    selection: PrivateSelection, epsilon: float, beside: float
) -> float:
    """Return the least delta that Renyi divergences give; every order gives one."""

    def log_delta(log_order: float) -> float:
        order = 1.0 + math.exp(log_order)
        divergence = float(renyi_curve(selection, order)) + 0.5 * order * beside**2
        spread = order * math.log1p(-1.0 / order) - math.log(order - 1.0)
        return (order - 1.0) * (divergence - epsilon) + spread

    return math.exp(min(0.0, _least(log_delta)))


def _epsilon_by_orders(
    selection: PrivateSelection, delta: float, beside: float
) -> float:
    """Return the least epsilon that Renyi divergences give; every order gives one."""

    def epsilon(log_order: float) -> float:
        order = 1.0 + math.exp(log_order)
        divergence = float(renyi_curve(selection, order)) + 0.5 * order * beside**2
        spread = math.log1p(-1.0 / order)
        return divergence + spread - math.log(delta * order) / (order - 1.0)

    return max(0.0, _least(epsilon))


def _least(function: Callable[[float], float]) -> float:
    found = minimize_scalar(
        function, bounds=_LOG_ORDERS, method="bounded", options={"xatol": 1e-9}
    )
    return float(found.fun)
