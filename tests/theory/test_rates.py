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


def test_lower_bounds_end_where_nothing_is_looked_at():
    assert minimax_rate(2, **MODEL) == pytest.approx(2.0)
    assert minimax_rate(2, **MODEL, order=math.inf) == pytest.approx(1.0)
    # Two projectors of rank r are at most so far apart.
    for order in (1.0, 2.0, 3.0, 8.0):
        assert minimax_rate(2, **MODEL, order=order) <= 4.0 ** (1.0 / order) + 1e-12
    assert minimax_rate(2, **MODEL, target="covariance") == pytest.approx(20.0)
    assert minimax_rate(2, **MODEL, bound="upper") > 2.0


def test_schatten_norms_differ_by_powers_of_the_rank():
    frobenius = minimax_rate(10_000, **MODEL)
    nuclear = minimax_rate(10_000, **MODEL, order=1.0)
    assert nuclear == pytest.approx(frobenius * math.sqrt(2), rel=1e-12)


def test_privacy_costs_and_none_is_free():
    rates = [
        minimax_rate(10_000, **{**MODEL, "epsilon": epsilon})
        for epsilon in (0.1, 1.0, 100.0, None)
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(SPREAD * math.sqrt(100 / 10_000), rel=1e-12)


def test_few_features():
    n, p, s, r, epsilon = 20_000, 200, 10, 2, 0.5
    model = {**MODEL, "n_features": p, "n_nonzero_features": s}
    entropy = r * (s - r) + s * math.log(math.e * p / s)
    lower = SPREAD * (math.sqrt(entropy / n) + s * r / (n * epsilon))
    assert minimax_rate(n, **model) == pytest.approx(lower, rel=1e-12)
    dense = minimax_rate(n, **{**MODEL, "n_features": p})
    assert lower < dense
    # All features: no more than the dense bound but for the entropy's constant.
    all_of_them = minimax_rate(n, **{**model, "n_nonzero_features": p})
    assert dense < all_of_them < 1.5 * dense
    upper = minimax_rate(n, **model, bound="upper")
    assert upper > lower
    # Noise of clients adds up as its variances do, and rows are shared.
    split = minimax_rate([n // 4] * 4, **model, bound="upper")
    free = minimax_rate(n, **{**model, "epsilon": None}, bound="upper")
    assert (split - free) / (upper - free) == pytest.approx(2.0, rel=1e-9)


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


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rank": 26}, "rank"),
        ({"n_features": 0}, "n_features"),
        ({"signal_variance": 0.0}, "signal_variance"),
        ({"noise_variance": math.inf}, "noise_variance"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": [1.0, 2.0]}, "epsilon"),
        ({"epsilon": "one"}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": None}, "delta"),
        ({"target": "mean"}, "target"),
        ({"bound": "both"}, "bound"),
        ({"order": 0.5}, "order"),
        ({"n_nonzero_features": 1}, "n_nonzero_features"),
        ({"n_nonzero_features": 51}, "n_nonzero_features"),
        ({"n_nonzero_features": 5, "target": "covariance"}, "n_nonzero_features"),
    ],
)
def test_bad_arguments_are_named(changes, named):
    with pytest.raises(ValueError, match=named):
        minimax_rate(1000, **{**MODEL, **changes})


@pytest.mark.parametrize("sizes", [0, 2.5, [], [[3]], "many"])
def test_bad_sizes_are_named(sizes):
    with pytest.raises(ValueError, match="n_samples"):
        minimax_rate(sizes, **MODEL)


def test_norms_of_several_clients_are_frobenius():
    with pytest.raises(ValueError, match="order"):
        minimax_rate([100, 100], **MODEL, order=1.0)
