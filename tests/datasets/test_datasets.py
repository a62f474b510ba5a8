"""The laws, patterns and errors of generators, and the bounds of digits."""

import itertools

import numpy as np
import pytest
from scipy import stats

from skdpspectral import datasets
from skdpspectral.datasets import (
    load_digits,
    make_low_rank_sparse_tasks,
    make_ratings,
    make_spiked_covariance,
)

# Every statistical test below has this two-sided false-alarm rate over seeds.
FALSE_ALARM_RATE = 1e-6


# --- make_spiked_covariance


def chi_square_agrees(sum_of_squares, degrees_of_freedom):
    """Two-sided exact test at FALSE_ALARM_RATE of a sum of squared normals."""
    law = stats.chi2(degrees_of_freedom)
    tail = min(law.cdf(sum_of_squares), law.sf(sum_of_squares))
    return 2 * tail > FALSE_ALARM_RATE


def spiked_sample(noise_variance=0.5, signal_variance=(9.0, 4.0, 4.0), seed=0):
    return make_spiked_covariance(
        20_000,
        15,
        n_components=3,
        signal_variance=signal_variance,
        noise_variance=noise_variance,
        random_state=seed,
    )


def noise_agrees(X, components, noise_variance):
    residual = X - X @ components.T @ components
    degrees_of_freedom = len(X) * (X.shape[1] - len(components))
    return chi_square_agrees((residual**2).sum() / noise_variance, degrees_of_freedom)


def signals_agree(X, components, variances):
    scores = X @ components.T
    sums = (scores**2).sum(axis=0) / variances
    return [chi_square_agrees(value, len(X)) for value in sums]


def whitened(X, components, signal_variance, noise_variance):
    """Rows of independent standard normals, if X follows the model."""
    basis = np.linalg.qr(np.vstack([components, np.eye(X.shape[1])]).T)[0].T
    spectrum = np.full(X.shape[1], noise_variance)
    spectrum[: len(components)] += signal_variance
    return X @ basis.T / np.sqrt(spectrum)


@pytest.mark.parametrize("seed", range(5))
def test_spiked_variances(seed):
    X, components = spiked_sample(seed=seed)
    assert noise_agrees(X, components, 0.5)
    assert signals_agree(X, components, np.array([9.5, 4.5, 4.5])) == [True] * 3


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_the_test_of_variances_sees_ten_per_cent(factor):
    X, components = spiked_sample(noise_variance=0.5 * factor)
    assert not noise_agrees(X, components, 0.5)
    X, components = spiked_sample(signal_variance=np.array([9.5, 4.5, 4.5]) * factor)
    assert signals_agree(X, components, np.array([10.0, 5.0, 5.0])) == [False] * 3


@pytest.mark.parametrize("seed", range(3))
def test_spiked_rows_are_independent_normals_of_mean_zero(seed):
    X, components = spiked_sample(seed=seed)
    rows = whitened(X, components, np.array([9.0, 4.0, 4.0]), 0.5)
    n_samples, n_features = rows.shape
    # Means: chi-square with p degrees of freedom.
    assert chi_square_agrees(n_samples * (rows.mean(axis=0) ** 2).sum(), n_features)
    # Correlations of columns, and of successive rows: standard normal to a relative
    # error of 1/n; Bonferroni over the pairs.
    gram = rows.T @ rows / np.sqrt(n_samples)
    pairs = gram[np.triu_indices(n_features, 1)]
    assert np.abs(pairs).max() < stats.norm.isf(FALSE_ALARM_RATE / 2 / len(pairs))
    successive = np.vdot(rows[1:], rows[:-1]) / np.sqrt((n_samples - 1) * n_features)
    assert abs(successive) < stats.norm.isf(FALSE_ALARM_RATE / 2)
    assert stats.kstest(rows[:, 0], "norm").pvalue > FALSE_ALARM_RATE
    assert stats.kstest(rows[:, -1], "norm").pvalue > FALSE_ALARM_RATE


@pytest.mark.parametrize(("r", "p"), [(1, 1), (1, 50), (4, 4), (5, 60)])
def test_components_are_orthonormal(r, p):
    X, components = make_spiked_covariance(7, p, n_components=r, random_state=0)
    assert X.shape == (7, p)
    assert components.shape == (r, p)
    np.testing.assert_allclose(components @ components.T, np.eye(r), atol=1e-14)


def test_spiked_sample_is_reproducible_and_fresh_by_default():
    first, again = spiked_sample(seed=3), spiked_sample(seed=3)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0], spiked_sample(seed=4)[0])
    assert not np.array_equal(make_spiked_covariance()[0], make_spiked_covariance()[0])
    from_state = make_spiked_covariance(random_state=np.random.RandomState(3))
    from_seed = make_spiked_covariance(random_state=3)
    np.testing.assert_array_equal(from_state[0], from_seed[0])


def test_without_noise_the_rows_lie_in_the_span():
    X, components = make_spiked_covariance(30, 8, noise_variance=0.0, random_state=0)
    np.testing.assert_allclose(X @ components.T @ components, X, atol=1e-13)
    assert np.linalg.norm(X) > 1.0


# --- make_low_rank_sparse_tasks


def make(n_users=12, n_samples_per_user=5, n_features=8, **options):
    options = {"sparsity": 3, "random_state": 0, "return_coef": True, **options}
    return make_low_rank_sparse_tasks(
        n_users, n_samples_per_user, n_features, **options
    )


def pattern(truth):
    return truth.sparse != 0


def is_standard_normal(sample):
    return stats.kstest(np.ravel(sample), "norm").pvalue > FALSE_ALARM_RATE


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


# --- parameters of all generators

GENERATORS = {
    make_spiked_covariance: datasets._SPIKED,
    make_low_rank_sparse_tasks: datasets._TASKS,
    make_ratings: datasets._RATINGS,
}
WRONG = [
    (datasets.SIZE, [0, -1, 2.0, True, "ten", None, [3]]),
    (datasets.COUNT, [-1, 0.1, True, None]),
    (datasets.SCALE, [-0.1, np.nan, np.inf, [1.0], True, "1", None]),
    (["boolean"], ["no", 1]),
    (datasets.SEED, ["seed"]),
]


@pytest.mark.parametrize("make", GENERATORS)
def test_parameters_of_a_wrong_kind_are_named(make):
    for name, constraint in GENERATORS[make].items():
        for value in [
            v for kind, values in WRONG if kind == constraint for v in values
        ]:
            with pytest.raises(ValueError, match=rf"\b{name}\b"):
                make(**{name: value})


SIZES = {"n_users": 12, "n_features": 8, "sparsity": 3}


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (make_spiked_covariance, {"n_components": 51}, "at most n_features=50, got 51"),
        *(
            (make_spiked_covariance, {"n_components": 2, "signal_variance": v}, m)
            for m in ["signal_variance must be a positive.* n_components=2 of them"]
            for v in (0.0, -1.0, np.nan, np.inf, [1.0, 2.0], [3.0, 2.0, 1.0], "large")
        ),
        (make_ratings, {"n_ratings_per_user": 201}, "at most n_items=200, got 201"),
        (make_low_rank_sparse_tasks, {"rank": 151}, "at most n_features=150.*lower"),
        (make_low_rank_sparse_tasks, {"sparsity": 151}, "at most n_features=150"),
        (make_low_rank_sparse_tasks, {"row_sparsity": 0}, "row_sparsity"),
        (
            make_low_rank_sparse_tasks,
            {**SIZES, "row_sparsity": 4},
            "leaves 32 places .* for the 36 non-zeros .* to at least 5",
        ),
        *(
            (make_low_rank_sparse_tasks, {"weights": v}, "weights")
            for v in ("uniform", np.ones((75, 1)), None)
        ),
        (make_low_rank_sparse_tasks, {"weights": "one", "rank": 2}, "at most 1"),
    ],
)
def test_parameters_that_do_not_fit_are_named(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


# --- loaders


def test_digits_with_public_bounds():
    bunch = load_digits()
    assert bunch.data.shape == (1797, 64)
    assert bunch.bounds == (0.0, 16.0)
    assert (bunch.data.min(), bunch.data.max()) == bunch.bounds
