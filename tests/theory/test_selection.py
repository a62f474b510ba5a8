"""What the best of a secret number of runs costs: bounds against exact enumeration.

Outcomes of one run are finitely many; the law of the best of K is summed over K, by no
formula of the package, and its exact privacy loss is compared with the bounds.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, ndtr, ndtri

from skdpspectral.accounting import (
    calibrate_selection,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    selection_delta,
    selection_epsilon,
)
from skdpspectral.accounting._selection import (
    all_runs_deltas,
    delta_factor,
    renyi_curve,
    selection_shift,
    truncation,
)
from skdpspectral.mechanisms import PrivateSelection


def log_weights(selection, most):
    """Log probabilities of K = 0, ..., most, by the definition of the law."""
    k = np.arange(most + 1)
    if selection.law == "poisson":
        return k * math.log(selection.mean) - selection.mean - gammaln(k + 1)
    eta, gamma = selection.eta, selection.gamma
    logs = np.full(most + 1, -np.inf)
    k = k[1:]
    if eta == 0.0:
        logs[1:] = k * math.log1p(-gamma) - np.log(k) - math.log(-math.log(gamma))
        return logs
    rising = [np.log(np.abs((i + eta) / (i + 1.0))) for i in range(most)]
    logs[1:] = np.cumsum(rising) + k * math.log1p(-gamma)
    logs[1:] -= math.log(abs(gamma**-eta - 1.0))
    return logs


def law_of_the_best(run, selection, most=6000):
    """Probabilities of outcomes, in ascending order of rank, and of no run at all.

    Sums over k of P(K = k) ((a + q)**k - a**k), without its cancellations.
    """
    weights, k = np.exp(log_weights(selection, most)), np.arange(most + 1)
    assert weights.sum() == pytest.approx(1.0, abs=1e-9)
    above = np.append(np.cumsum(run[::-1])[::-1][1:], 0.0)
    above = np.minimum(above, 1.0)[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        upper = np.where(k == 0, 0.0, k * np.log1p(-above))
        shares = np.minimum(run[:, np.newaxis] / (1.0 - above), 1.0)
        lower = np.where(k == 0, 0.0, k * np.log1p(-shares))
        terms = np.exp(upper) * -np.expm1(lower)
    return np.append(np.nan_to_num(terms) @ weights, weights[0])


def hockey_stick(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum()


def renyi(p, q, order):
    seen = (p > 0) & (q > 0)
    terms = order * np.log(p[seen]) + (1.0 - order) * np.log(q[seen])
    return np.logaddexp.reduce(terms) / (order - 1.0)


def bins(edges):
    """Probabilities of bins of the standard normal law, by the nearer tail."""
    left, right = edges[:-1], edges[1:]
    return np.where(left > 0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))


def runs_on_neighbors(mu, n_outcomes, order, rng):
    """Bins of N(0, 1) and N(mu, 1), ranked in some order: mu-GDP by post-processing."""
    edges = np.r_[-np.inf, np.sort(rng.uniform(-7, 7 + mu, n_outcomes - 1)), np.inf]
    pair = bins(edges), bins(edges - mu)
    # Many that the neighbor is likelier to have are on top, and beneath them those that
    # tell it from the neighbor best.
    top = np.flatnonzero(np.cumsum(pair[0][::-1])[::-1] <= 0.03)
    ranks = {
        "rising": np.arange(n_outcomes),
        "falling": np.arange(n_outcomes)[::-1],
        "any": rng.permutation(n_outcomes),
        "worst": np.r_[np.setdiff1d(np.arange(n_outcomes), top)[::-1], top],
        "ends": np.argsort(-np.abs(np.arange(n_outcomes) - n_outcomes / 2)),
    }[order]
    return pair[0][ranks], pair[1][ranks]


SELECTIONS = [
    PrivateSelection("best", 1.0, gamma=truncation(20.0)),
    PrivateSelection("best", 0.3, gamma=truncation(40.0)),
    PrivateSelection("best", 2.0, gamma=truncation(3.0)),
    PrivateSelection("best", 0.5, eta=1.0, gamma=truncation(20.0, 1.0)),
    PrivateSelection("best", 1.0, eta=2.5, gamma=truncation(8.0, 2.5)),
    PrivateSelection("best", 0.5, eta=-0.5, gamma=truncation(5.0, -0.5)),
    PrivateSelection("best", 0.5, law="poisson", mean=10.0),
    PrivateSelection("best", 1.0, law="poisson", mean=0.4),
    PrivateSelection("best", 0.2, law="poisson", mean=40.0),
]


@pytest.mark.parametrize("order", ["rising", "falling", "any", "ends", "worst"])
@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_bounds_hold_for_the_law_by_enumeration(selection, order):
    rng = np.random.default_rng(0)
    for n_outcomes in (2, 3, 30, 100):
        runs = runs_on_neighbors(selection.run_mu, n_outcomes, order, rng)
        p, q = (law_of_the_best(run, selection) for run in runs)
        assert p.sum() == pytest.approx(1.0, abs=1e-9)
        for first, second in ((p, q), (q, p)):
            for epsilon in np.linspace(0.0, 6.0, 25):
                exact = hockey_stick(first, second, epsilon)
                assert exact <= selection_delta(selection, epsilon) + 1e-12
            orders = np.array([1.001, 1.1, 2.0, 8.0, 32.0])
            exact = [renyi(first, second, a) for a in orders]
            assert np.all(exact <= renyi_curve(selection, orders) + 1e-9)


@pytest.mark.parametrize("mu", [1e-6, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("gamma", [1e-12, 0.01, 0.5, 0.999])
def test_the_shift_is_the_least_that_the_proof_allows(gamma, mu):
    """By fifty digits; and it is no larger than the power of a test at gamma allows."""
    x = selection_shift(PrivateSelection("best", mu, eta=1.0, gamma=gamma)) / 2.0
    with mpmath.workdps(50):

        def excess(x):
            x, m = mpmath.mpf(x), mpmath.mpf(mu)
            delta = mpmath.ncdf(m / 2 - x / m)
            delta -= mpmath.exp(x) * mpmath.ncdf(-m / 2 - x / m)
            return (1 - mpmath.mpf(gamma)) * delta - gamma * mpmath.expm1(x)

        assert excess(x) <= 0.0 < excess(x * (1.0 - 1e-10))
        assert x <= mpmath.log(ndtr(ndtri(gamma) + mu) / gamma) * (1.0 + 1e-9)


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_the_bound_by_all_runs_is_the_mean_over_their_number(selection):
    """At most a few percent above it: numbers are rounded up, and none to one."""
    rarely_none = selection.mean is None or selection.mean > 5.0
    weights, beside = np.exp(log_weights(selection, 6000)), 0.3
    for epsilon in (0.0, 0.5, 3.0):
        deltas = [
            gaussian_delta(math.hypot(beside, selection.run_mu * math.sqrt(k)), epsilon)
            for k in range(1, 800)
        ]
        exact = weights[1:800] @ deltas + weights[0] * gaussian_delta(beside, epsilon)
        bound = float(all_runs_deltas(selection, epsilon, beside))
        assert exact - 1e-12 <= bound
        assert bound <= 1.05 * exact + 1e-3 or not rarely_none


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_the_bound_is_met_within_a_factor(eta):
    """Were E[K], or the shift, forgotten, enumeration would show it."""
    selection = PrivateSelection("best", 1.0, eta=eta, gamma=truncation(20.0, eta))
    rng = np.random.default_rng(0)
    runs = runs_on_neighbors(1.0, 1000, "worst", rng)
    p, q = (law_of_the_best(run, selection) for run in runs)
    epsilon = selection_epsilon(selection, 1e-6)
    assert hockey_stick(p, q, epsilon) <= 1e-6
    assert hockey_stick(p, q, 0.8 * epsilon) > 1e-6
    without_shift = epsilon - selection_shift(selection)
    without_factor = gaussian_epsilon(1.0, 1e-6)
    assert hockey_stick(p, q, without_shift) > 1e-6
    assert hockey_stick(p, q, without_factor) > 1e-6


@pytest.mark.parametrize(
    "selection",
    [
        PrivateSelection("best", 0.8, gamma=truncation(10.0)),
        PrivateSelection("best", 0.1, law="poisson", mean=0.1),
    ],
    ids=str,
)
def test_gaussians_beside_a_selection_compose_with_it(selection):
    """A refit of the winner, and a selection after a release: the product law.

    Where a Poisson law gives no run, what is beside it is released all the same.
    """
    rng = np.random.default_rng(1)
    runs = runs_on_neighbors(selection.run_mu, 60, "falling", rng)
    p, q = (law_of_the_best(run, selection) for run in runs)
    fine = np.linspace(-6, 6.5, 400)
    beside = [np.diff(ndtr(np.r_[-np.inf, fine, np.inf] - m)) for m in (0.0, 0.5)]
    both = [np.outer(a, b).ravel() for a, b in zip((p, q), beside, strict=True)]
    for first, second in (both, both[::-1]):
        for epsilon in np.linspace(0.0, 6.0, 25):
            exact = hockey_stick(first, second, epsilon)
            assert exact <= selection_delta(selection, epsilon, 0.5) + 1e-12


@pytest.mark.parametrize("eta", [-0.9, -0.5, 0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("mean", [1.5, 20.0, 1000.0])
def test_the_parameter_of_a_law_gives_its_mean(eta, mean):
    gamma = truncation(mean, eta)
    law = PrivateSelection("best", 1.0, eta=eta, gamma=gamma)
    assert law.expected_runs <= mean * (1 + 1e-13)
    assert law.expected_runs == pytest.approx(mean, rel=1e-9)
    if gamma > 0.01:
        weights = np.exp(log_weights(law, 6000))
        assert weights @ np.arange(6001) == pytest.approx(mean, rel=1e-6)


def published_bound(mu, gamma, eta, delta):
    """Theorem 2 as printed, at the best order of its second term."""
    runs = PrivateSelection("best", mu, eta=eta, gamma=gamma).expected_runs
    log_gamma = math.log(1.0 / gamma)
    other = max(1.0, math.sqrt(2.0 * log_gamma) / mu)
    second = (1 + eta) * ((1 - 1 / other) * other * mu**2 / 2 + log_gamma / other)

    def epsilon(log_order):
        order = 1.0 + math.exp(log_order)
        divergence = order * mu**2 / 2 + second + math.log(runs) / (order - 1)
        spread = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        return divergence + spread

    return minimize_scalar(epsilon, bounds=(-7, 14), method="bounded").fun


@pytest.mark.parametrize(
    ("epsilon", "runs", "published", "ours"),
    [
        (0.5, 10, 0.93, 0.73),
        (0.5, 20, 0.98, 0.79),
        (0.5, 100, 1.10, 0.90),
        (1.0, 5, 1.67, 1.33),
        (1.0, 10, 1.80, 1.44),
        (1.0, 20, 1.90, 1.55),
        (1.0, 100, 2.12, 1.76),
        (2.0, 20, 3.66, 3.02),
        (2.0, 100, 4.06, 3.43),
    ],
)
def test_the_table_of_prices(epsilon, runs, published, ours):
    mu, gamma = gaussian_mu(epsilon, 1e-6), truncation(runs)
    assert published_bound(mu, gamma, 0.0, 1e-6) == pytest.approx(published, abs=0.006)
    selection = PrivateSelection("best", mu, gamma=gamma)
    found = selection_epsilon(selection, 1e-6)
    assert found == pytest.approx(ours, abs=0.006)
    assert found < published_bound(mu, gamma, 0.0, 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "runs", "published"),
    [(0.5, 10, 0.98), (0.5, 20, 1.36), (0.5, 100, 3.19), (1.0, 5, 1.53), (2, 20, 5.25)],
)
def test_the_table_of_prices_of_poisson_laws(epsilon, runs, published):
    mu = gaussian_mu(epsilon, 1e-6)
    selection = PrivateSelection("best", mu, law="poisson", mean=runs)
    assert selection_epsilon(selection, 1e-6) == pytest.approx(published, abs=0.006)


@pytest.mark.parametrize("law", ["auto", "logarithmic", "geometric", "poisson"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("runs", [2.0, 20.0, 500.0])
def test_calibration_comes_up_to_the_budget(law, epsilon, runs):
    selection = calibrate_selection(
        "best", epsilon, 1e-6, runs, law=law, beside=lambda mu: 0.5 * mu
    )
    mu = selection.run_mu
    spent = selection_epsilon(selection, 1e-6, 0.5 * mu)
    assert epsilon * (1 - 1e-9) < spent <= epsilon
    assert selection_delta(selection, epsilon, 0.5 * mu) <= 1e-6 * (1 + 1e-12)
    assert delta_factor(selection) <= runs + 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"epsilon": "1"},
        {"delta": 0.0},
        {"delta": 1.0},
        {"expected_runs": 0.0},
        {"expected_runs": 1.0, "law": "geometric"},
        {"expected_runs": 1e9},
        {"expected_runs": math.nan},
        {"law": "fixed"},
    ],
    ids=str,
)
def test_bad_calibrations_are_refused(change):
    arguments = {"epsilon": 1.0, "delta": 1e-6, "expected_runs": 20.0, **change}
    with pytest.raises(ValueError, match=r"epsilon|delta|expected_runs|law"):
        calibrate_selection("best", **arguments)


def test_what_no_run_leaves_beside_it_counts():
    """Mostly there is none of so few, and what else is released costs the same."""
    rare = PrivateSelection("best", 0.01, "poisson", mean=0.1)
    for epsilon in (0.5, 2.0):
        beside = math.exp(-0.1) * gaussian_delta(1.0, epsilon)
        assert selection_delta(rare, epsilon, 1.0) >= beside
    assert delta_factor(rare) >= 0.1 + math.exp(-0.1)
