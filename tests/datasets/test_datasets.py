"""The generator's law, and the loaders' shapes, marginals, bounds and errors."""

import os

import numpy as np
import pytest
from scipy import stats

from skdpspectral.datasets import (
    _generators,
    _ratings,
    load_adult,
    load_digits,
    make_low_rank_sparse_tasks,
    make_ratings,
    make_spiked_covariance,
)
from skdpspectral.datasets import _real as real

HAS_DATA = bool(os.environ.get(real.DATA_HOME_VARIABLE))
needs_data = pytest.mark.skipif(
    not HAS_DATA, reason=f"{real.DATA_HOME_VARIABLE} does not name a data folder"
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


# --- parameters of all generators

GENERATORS = {
    make_spiked_covariance: _generators._SPIKED,
    make_low_rank_sparse_tasks: _generators._TASKS,
    make_ratings: _ratings._RATINGS,
}
WRONG = [
    (_generators.SIZE, [0, -1, 2.0, True, "ten", None, [3]]),
    (_generators.COUNT, [-1, 0.1, True, None]),
    (_generators.SCALE, [-0.1, np.nan, np.inf, [1.0], True, "1", None]),
    (["boolean"], ["no", 1]),
    (_generators.SEED, ["seed"]),
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


# --- loaders on small archives, made here


def save(folder, name, **arrays):
    (folder / name).mkdir()
    np.savez_compressed(folder / name / f"{name}.npz", **arrays)
    return folder


def adult_arrays():
    levels = {
        f"levels_{name}": np.array([f"{name[:3]}{i}" for i in range(n_levels)])
        for name, n_levels in real.ADULT_LEVELS.items()
    }
    numeric = [[50, 500_000, 8, 0, 5_000, 99], [100, 2_000_000, 16, 99_999, 0, 33]]
    categorical = [[255, 15, 0, 255, 5, 4, 1, 40], [0, 0, 6, 13, 0, 0, 200, 255]]
    return {
        "numeric": np.array(numeric, np.int32),
        "numeric_names": np.array(list(real.ADULT_CAPS)),
        "categorical": np.array(categorical, np.uint8),
        "categorical_names": np.array(list(real.ADULT_LEVELS)),
        "income_gt_50k": np.array([0, 1], np.uint8),
        "is_test": np.array([0, 1], np.uint8),
        **levels,
    }


def test_adult_caps_and_missing_categories(tmp_path):
    bunch = load_adult(data_home=save(tmp_path, "adult", **adult_arrays()))
    assert bunch.data.shape == (2, 105)
    np.testing.assert_allclose(bunch.data[0, :6], [0.5, 0.5, 0.5, 0.0, 0.5, 1.0])
    np.testing.assert_allclose(bunch.data[1, :6], [1.0, 1.0, 1.0, 1.0, 0.0, 1 / 3])
    set_columns = [
        bunch.feature_names[6 + j] for j in np.flatnonzero(bunch.data[0, 6:])
    ]
    assert set_columns == [
        *("education=edu15", "marital-status=mar0", "relationship=rel5"),
        *("race=rac4", "sex=sex1", "native-country=nat40"),
    ]
    # Eight categories: one missing, and one of a code that has no level.
    assert bunch.data[1, 6:].sum() == 6
    assert bunch.bounds == (0.0, 1.0)


def test_loaders_name_the_remedy_when_there_is_no_file(tmp_path, monkeypatch):
    name, load = "adult", load_adult
    monkeypatch.delenv(real.DATA_HOME_VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match=r"No data folder.*SKDPSPECTRAL_DATA"):
        load()
    with pytest.raises(FileNotFoundError, match=rf"no file .*pass data_home.*{name}"):
        load(data_home=tmp_path / "absent")
    monkeypatch.setenv(real.DATA_HOME_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"no file .*{name}.npz: pass"):
        load()


def object_archive(path):
    np.savez(path, **{**adult_arrays(), "is_test": np.array([{}], object)})


def damaged_archive(path):
    np.savez_compressed(path, numeric=np.random.default_rng(0).random((100, 100)))
    content = bytearray(path.read_bytes())
    content[5000:5100] = b"\0" * 100
    path.write_bytes(content)


def plain_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


@pytest.mark.parametrize(
    "write",
    [
        object_archive,
        damaged_archive,
        plain_array,
        lambda path: path.write_bytes(b""),
        lambda path: np.savez(path, other=np.zeros(3)),
    ],
)
def test_loaders_refuse_other_files(write, tmp_path):
    (tmp_path / "adult").mkdir()
    write(tmp_path / "adult" / "adult.npz")
    with pytest.raises(OSError, match=r"is not the archive .* build it again"):
        load_adult(data_home=tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"numeric_names": np.array(list("abcdef"))},
        {"categorical_names": np.array(list("abcdefgh"))},
        {"levels_sex": np.array(["a", "b", "c"])},
    ],
)
def test_loaders_refuse_columns_that_the_bounds_are_not_for(change, tmp_path):
    home = save(tmp_path, "adult", **{**adult_arrays(), **change})
    with pytest.raises(OSError, match="the public bounds are for"):
        load_adult(data_home=home)


def test_adult_as_it_was_recorded(tmp_path):
    home = save(tmp_path, "adult", **adult_arrays())
    bunch = load_adult(data_home=home, as_frame=True)
    assert list(bunch.data) == bunch.feature_names
    assert bunch.data.shape == (2, 14)
    assert bunch.data["capital-gain"].tolist() == [0.0, 99_999.0]
    # A missing value, and a code that has no level.
    assert bunch.data["workclass"].tolist() == ["?", "wor0"]
    assert bunch.data["sex"].tolist() == ["sex1", "?"]
    assert {n: len(v) for n, v in bunch.categories.items()} == real.ADULT_LEVELS
    assert bunch.target.tolist() == [0, 1]
    assert bunch.target.name == "income_gt_50k"


def test_digits_with_public_bounds():
    bunch = load_digits()
    assert bunch.data.shape == (1797, 64)
    assert bunch.bounds == (0.0, 16.0)
    assert (bunch.data.min(), bunch.data.max()) == bunch.bounds


# --- the real data


@pytest.fixture(scope="module")
def adult():
    return load_adult()


def assert_within_bounds(bunch):
    low, high = bunch.bounds
    assert (bunch.data >= low).all()
    assert (bunch.data <= high).all()
    assert np.isfinite(bunch.data).all()
    assert len(bunch.feature_names) == len(set(bunch.feature_names))
    assert len(bunch.feature_names) == bunch.data.shape[1]


@needs_data
def test_adult(adult):
    assert adult.data.shape == (48_842, 105)
    assert_within_bounds(adult)
    assert adult.target[~adult.is_test].sum() == 7_841
    assert adult.target[adult.is_test].sum() == 3_846
    assert adult.is_test.sum() == 16_281
    # Rows without a missing category, of eight.
    complete = adult.data[:, 6:].sum(axis=1) == 8
    assert complete[~adult.is_test].sum() == 30_162
    assert complete[adult.is_test].sum() == 15_060
    ages = adult.data[:, 0] * 100
    np.testing.assert_allclose(ages, np.rint(ages), atol=1e-12)
    assert (np.rint(ages.min()), np.rint(ages.max())) == (17, 90)
    assert (adult.data[:, 1] == 1.0).sum() == 18  # fnlwgt, the one cap that clips
