"""The law, the patterns and the errors of make_low_rank_sparse_tasks."""

import itertools

import numpy as np
import pytest
from scipy import stats

from skdpspectral.datasets import make_low_rank_sparse_tasks

# Every statistical test below has this false-alarm rate over seeds (two-sided, or
# Bonferroni over the statistics of the test, where it says so).
FALSE_ALARM_RATE = 1e-6


def make(n_users=12, n_samples_per_user=5, n_features=8, **options):
    options = {"sparsity": 3, "random_state": 0, "return_coef": True, **options}
    return make_low_rank_sparse_tasks(
        n_users, n_samples_per_user, n_features, **options
    )


def pattern(truth):
    return truth.sparse != 0


def chi_square_agrees(sum_of_squares, degrees_of_freedom):
    """Two-sided exact test at FALSE_ALARM_RATE of a sum of squared normals."""
    law = stats.chi2(degrees_of_freedom)
    tail = min(law.cdf(sum_of_squares), law.sf(sum_of_squares))
    return 2 * tail > FALSE_ALARM_RATE


def is_standard_normal(sample):
    return stats.kstest(np.ravel(sample), "norm").pvalue > FALSE_ALARM_RATE


# --- shapes and the identity of the model


@pytest.mark.parametrize("rank", [0, 1, 3, 8])
def test_shapes(rank):
    X, y, users, truth = make(rank=rank)
    assert X.shape == (60, 8)
    assert y.shape == users.shape == (60,)
    assert users.dtype.kind == "i"
    assert set(truth) == {"coef", "components", "weights", "sparse", "intercept"}
    assert truth.coef.shape == truth.sparse.shape == (12, 8)
    assert truth.components.shape == (rank, 8)
    assert truth.weights.shape == (12, rank)
    assert truth.intercept.shape == (12,)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rank": 3},
        {"rank": 0},
        {"sparsity": 0},
        {"weights": "one"},
        {"row_sparsity": 5},
        {"n_samples_per_user": 9, "shuffle": True},
        {"intercept_scale": 2.0},
        {"n_users": 1, "n_samples_per_user": 1, "n_features": 1, "sparsity": 1},
    ],
)
def test_without_noise_the_targets_are_the_model(options):
    X, y, users, truth = make(**options)
    coef = truth.weights @ truth.components + truth.sparse
    np.testing.assert_allclose(truth.coef, coef, rtol=0, atol=1e-15)
    expected = (X * coef[users]).sum(axis=1) + truth.intercept[users]
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12)
    assert np.linalg.norm(y) > 0


# --- users and their numbers of rows


def test_shuffle_permutes_the_rows_alone():
    X, y, users, truth = make(noise=1.0)
    mixed = make(noise=1.0, shuffle=True)
    assert (np.diff(users) >= 0).all()
    assert (np.diff(mixed[2]) < 0).any()
    np.testing.assert_array_equal(truth.coef, mixed[3].coef)
    rows = np.column_stack([X, y, users])
    mixed_rows = np.column_stack(mixed[:3])
    order, mixed_order = np.argsort(y), np.argsort(mixed[1])
    np.testing.assert_array_equal(rows[order], mixed_rows[mixed_order])


# --- the pattern of the sparse part


@pytest.mark.parametrize("row_sparsity", [5, 6])
def test_both_sparsities_hold_in_the_setting_of_the_paper(row_sparsity):
    truth = make(75, 1, 150, sparsity=10, row_sparsity=row_sparsity)[3]
    assert (pattern(truth).sum(axis=1) == 10).all()
    users_of_features = pattern(truth).sum(axis=0)
    assert (users_of_features == 5).all()


def test_every_possible_row_sparsity_succeeds_and_no_other():
    for n_users, n_features in itertools.product(range(1, 6), repeat=2):
        for sparsity, bound in itertools.product(range(n_features + 1), range(1, 7)):
            sizes = {"sparsity": sparsity, "row_sparsity": bound, "rank": 0}
            if n_users * sparsity > n_features * bound:
                with pytest.raises(ValueError, match="row_sparsity"):
                    make(n_users, 1, n_features, **sizes)
                continue
            chosen = pattern(make(n_users, 1, n_features, **sizes)[3])
            assert (chosen.sum(axis=1) == sparsity).all()
            assert chosen.sum(axis=0).max() <= bound


# --- the laws of the numbers


@pytest.mark.parametrize("row_sparsity", [None, 2000])
@pytest.mark.parametrize("seed", range(2))
def test_features_weights_and_non_zeros_are_standard_normal(row_sparsity, seed):
    X, _, _, truth = make(
        4000, 3, 6, rank=2, row_sparsity=row_sparsity, random_state=seed
    )
    values = truth.sparse[pattern(truth)]
    assert len(values) == 12_000
    for sample in (X, truth.weights, values):
        assert is_standard_normal(sample)
        assert chi_square_agrees((sample**2).sum(), sample.size)


def test_weights_of_one():
    truth = make(weights="one")[3]
    np.testing.assert_array_equal(truth.weights, np.ones((12, 1)))
    shared = truth.coef - truth.sparse
    np.testing.assert_allclose(shared - truth.components, 0, atol=1e-15)
    assert make(weights="one", rank=0)[3].weights.shape == (12, 0)


@pytest.mark.parametrize("noise", [0.1, 2.0])
def test_noise_has_its_level(noise):
    X, y, users, truth = make(400, 10, noise=noise)
    residual = y - (X * truth.coef[users]).sum(axis=1)
    assert is_standard_normal(residual / noise)
    assert chi_square_agrees((residual**2).sum() / noise**2, len(y))
    assert not chi_square_agrees((residual**2).sum() / (1.2 * noise) ** 2, len(y))


# --- repeatability and the papers' settings


def test_draws_are_repeatable_and_fresh_by_default():
    options = {"row_sparsity": 5, "noise": 1.0, "shuffle": True, "rank": 2}
    first, again = make(**options), make(**options)
    from_state = make(**options, random_state=np.random.RandomState(0))
    for other in (again, from_state):
        for one, two in zip(first[:3], other[:3], strict=True):
            np.testing.assert_array_equal(one, two)
        for name in first[3]:
            np.testing.assert_array_equal(first[3][name], other[3][name])
    assert not np.array_equal(first[0], make(**options, random_state=1)[0])
    for one, two in zip(first, make(**options, return_coef=False), strict=False):
        np.testing.assert_array_equal(one, two)
    fresh = [make(random_state=None)[0] for _ in range(2)]
    assert not np.array_equal(*fresh)
