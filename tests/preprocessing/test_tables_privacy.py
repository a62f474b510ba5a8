"""What one row changes of the releases of tables, and what leaves them."""

import numpy as np
import pytest
import replay_cases
from replay import tally

from skdpspectral import DPTableVectorizer
from skdpspectral._release.noise import Release, record_releases
from skdpspectral.mechanisms import PrivacyPlan, ThresholdedGaussian


@pytest.mark.parametrize("form", replay_cases.TABLE_FORMS)
@pytest.mark.sampled(3)
def test_neighbors_of_tables_that_are_given_the_same_releases_show_the_same(form):
    cases = list(replay_cases.table_cases(np.random.default_rng(3), form))
    closest = tally(cases[:1], budgets=(True, False))
    assert not closest.found, closest.found[:5]
    assert closest.n_pairs > 50
    assert closest.ratio <= 1.0 + 1e-12


def thresholded(sigma, threshold, n_columns=1):
    return ThresholdedGaussian(
        "categories",
        2.0**0.5,
        sigma,
        (n_columns, 2),
        magnitude=1e6,
        threshold=threshold,
    )


def released(mechanism, counts, seed=0):
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), seeded=True, estimator="a table")
    release = Release(plan, None, seed)
    return release.above_threshold("categories", counts)


def test_noise_decides_which_values_of_a_single_row_are_named():
    """Two-sided at 6 deviations: a false alarm in 5e8 tests.

    Noise that is 10 % low names 3.4 % of the values in place of 5 %.
    """
    n, sigma = 40_000, 7.0
    mechanism = thresholded(sigma, 1.0 + 1.6448536 * sigma)
    (kept,) = released(mechanism, [{f"v{i}": 1 for i in range(n)}])
    deviation = np.sqrt(n * 0.05 * 0.95)
    assert abs(len(kept) - 0.05 * n) < 6.0 * deviation
    assert min(kept.values()) > mechanism.threshold


def test_noise_of_frequent_values_has_its_deviation():
    """Within 6 deviations of an estimate from 20,000 counts, which is 3 %."""
    n, sigma = 20_000, 7.0
    counts = {f"v{i:05d}": 1000 + i for i in range(n)}
    (kept,) = released(thresholded(sigma, 50.0), [dict(reversed(counts.items()))])
    assert list(kept) == list(counts)
    noise = np.array([kept[value] - counts[value] for value in counts])
    assert abs(noise.std() / sigma - 1.0) < 6.0 / np.sqrt(2 * n)
    assert abs(noise.mean()) < 6.0 * sigma / np.sqrt(n)
    assert np.all(noise != np.rint(noise)) or len(set(noise)) > 0.9 * n


def test_columns_are_released_once_and_together():
    mechanism = thresholded(1.0, 5.0, n_columns=2)
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), seeded=True, estimator="a table")
    release = Release(plan, None, 0)
    with pytest.raises(ValueError, match="2 columns"):
        release.above_threshold("categories", [{}])
    with record_releases() as transcript:
        assert release.above_threshold("categories", [{}, {"a": 50}])[0] == {}
    assert transcript["categories"].shape == (1,)
    with pytest.raises(KeyError):
        release.above_threshold("categories", [{}, {}])
    with pytest.raises(TypeError, match="noise"):
        Release(plan, None, 0)("categories", np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"threshold": 1.0}, "threshold"),
        ({"threshold": np.inf}, "threshold"),
        ({"shape": (2,)}, "shape"),
    ],
)
def test_impossible_thresholds_are_refused(change, named):
    good = {"shape": (1, 2), "threshold": 4.0}
    with pytest.raises(ValueError, match=named):
        ThresholdedGaussian("categories", 1.0, 1.0, **{**good, **change})


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("n_columns", [1, 8, 20])
def test_a_plan_covers_values_of_single_rows(epsilon, n_columns):
    from scipy.stats import norm

    from skdpspectral.accounting import gaussian_delta

    model = DPTableVectorizer(epsilon=epsilon, delta=1e-6)
    plan = model.privacy_plan(100_000, 3, n_columns)
    counts = plan["categories"]
    alone = norm.sf((counts.threshold - 1.0) / counts.noise_std)
    assert -np.expm1(n_columns * np.log1p(-alone)) <= plan.failure
    assert counts.mu >= np.sqrt(2.0 * n_columns) / counts.noise_std
    assert plan.failure + gaussian_delta(plan.mu, epsilon) <= 1e-6
    assert plan.failure + gaussian_delta(plan.mu, epsilon) > 0.99e-6


def test_a_plan_is_read_from_its_text():
    plan = DPTableVectorizer().privacy_plan(1000, 2, 3)
    assert PrivacyPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("delta", [1e-15, 5e-15])
def test_too_small_a_delta_is_refused_where_categories_are_found(delta):
    model = DPTableVectorizer(delta=delta)
    with pytest.raises(ValueError, match="delta"):
        model.privacy_plan(1000, 2, 1)
    assert model.privacy_plan(1000, 2).failure == 0.0
