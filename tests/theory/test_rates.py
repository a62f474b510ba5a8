"""Rates of private components: what the papers state, and what they must do."""

import math

import numpy as np
import pytest
from benchmark_scripts import load

minimax_rate = load("rates").minimax_rate

MODEL = {
    "n_features": 50,
    "rank": 2,
    "signal_variance": 10.0,
    "noise_variance": 1.0,
    "epsilon": 0.5,
    "delta": 1e-5,
}
SPREAD = math.sqrt(11.0) / 10.0


def test_components_of_one_client():
    n, p, r, epsilon = 10_000, 50, 2, 0.5
    lower = SPREAD * (math.sqrt(r * p / n) + r * p / (n * epsilon))
    assert minimax_rate(n, **MODEL) == pytest.approx(lower, rel=1e-12)
    logs = math.sqrt(math.log(2.5 / 1e-5))
    paid = p * math.sqrt(r * (r + math.log(n))) / (n * epsilon) * logs
    upper = SPREAD * (math.sqrt(r * p / n) + paid)
    assert minimax_rate(n, **MODEL, bound="upper") == pytest.approx(upper, rel=1e-12)


def test_covariance_adds_eigenvalues():
    n, r, epsilon = 10_000, 2, 0.5
    axes = minimax_rate(n, **MODEL)
    values = r / math.sqrt(n) + r**2 / (n * epsilon)
    found = minimax_rate(n, **MODEL, target="covariance")
    assert found == pytest.approx(10.0 * math.hypot(axes, values), rel=1e-12)
    # A product of r and of its logarithm in place of r.
    upper = minimax_rate(n, **MODEL, target="covariance", bound="upper")
    assert upper > found


@pytest.mark.parametrize("target", ["components", "covariance"])
@pytest.mark.parametrize("bound", ["lower", "upper"])
def test_clients_combine_as_harmonic_means(target, bound):
    kind = {"target": target, "bound": bound}
    one = minimax_rate(5_000, **MODEL, **kind)
    many = minimax_rate([5_000] * 16, **MODEL, **kind)
    assert many == pytest.approx(one / 4, rel=1e-12)
    # A client that is useless changes nothing, and the best is better than none.
    with_poor = minimax_rate([5_000, 1], **MODEL, **kind)
    assert one * 0.999 < with_poor < one


def test_budgets_of_clients_are_their_own():
    given = {**MODEL, "epsilon": [0.1, 4.0], "delta": [1e-6, 1e-3]}
    both = minimax_rate([1000, 1000], **given, bound="upper")
    alone = [
        minimax_rate(
            1000, **{**MODEL, "epsilon": epsilon, "delta": delta}, bound="upper"
        )
        for epsilon, delta in ((0.1, 1e-6), (4.0, 1e-3))
    ]
    assert both**-2 == pytest.approx(sum(rate**-2 for rate in alone), rel=1e-12)


@pytest.mark.slow
def test_measured_errors_are_above_the_lower_bound_of_known_cases():
    """Without privacy the error of PCA is the lower bound, times 1.3 to 1.5."""
    from skdpspectral.datasets import make_spiked_covariance
    from skdpspectral.metrics import subspace_distance

    n, p = 4000, 50
    errors = []
    for seed in range(5):
        X, truth = make_spiked_covariance(n, p, random_state=seed)
        _, _, axes = np.linalg.svd(X, full_matrices=False)
        errors.append(subspace_distance(axes[:1], truth))
    rate = minimax_rate(n, p, 1, 10.0, 1.0)
    assert np.mean(errors) / rate == pytest.approx(math.sqrt(2), abs=0.15)
