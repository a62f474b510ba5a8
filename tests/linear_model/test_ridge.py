"""DPRidge: agreement with least squares, accuracy, intervals, forms of data."""

import math

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpspectral import DPRidge, PrivacyAccountant
from skdpspectral._release.noise import record_releases
from skdpspectral.accounting import gaussian_mu
from skdpspectral.linear_model import _joint_moment
from skdpspectral.pipeline import make_private_pipeline

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
]


def table(n_samples, n_features, n_targets=1, seed=0, noise=0.5):
    """Rows far from the origin in mixed units, and targets that depend on them."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_samples, n_features))
    coef = rng.standard_normal((n_features, n_targets))
    y = Z @ coef + noise * rng.standard_normal((n_samples, n_targets)) + 30.0
    X = Z * 10.0 ** rng.uniform(-3, 3, n_features) + 1e3
    return X, y[:, 0] if n_targets == 1 else y


# -- without privacy -------------------------------------------------------------------


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("alpha", [0.0, 5.0, 500.0])
def test_without_noise_it_is_ridge_regression(alpha, n_targets):
    X, y = table(600, 4, n_targets)
    model = DPRidge(alpha, epsilon=None).fit(X, y)
    # Scales are those of the release.
    Z = (X - model.mean_) / model.scale_
    other = Ridge(alpha).fit(Z, y)
    np.testing.assert_allclose(model.coef_ * model.scale_, other.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), other.predict(Z), rtol=1e-6)
    assert model.coef_.shape == other.coef_.shape
    assert np.shape(model.intercept_) == np.shape(other.intercept_)


# -- accuracy --------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_raw_units_far_from_the_origin_need_no_bounds(epsilon):
    X, y = table(20_000, 6)
    best = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y).score(X, y)
    model = DPRidge(epsilon=epsilon, noise_seed=0).fit(X, y)
    assert best - 0.02 < model.score(X, y) <= best


def test_the_choice_is_close_to_the_best_penalty():
    """Mean over 10 seeds; the released noise hides a fifth of the directions."""
    X, y = table(6000, 30, noise=4.0)
    train, test = (X[:4000], y[:4000]), (X[4000:], y[4000:])
    lost = []
    for seed in range(10):
        model = DPRidge(epsilon=1.0, noise_seed=seed).fit(*train)
        coefs, intercepts = model.path(np.logspace(0, 6, 25))
        errors = [
            np.mean((test[1] - test[0] @ c - b) ** 2)
            for c, b in zip(coefs, intercepts, strict=True)
        ]
        lost.append(1 - min(errors) / test[1].var() - model.score(*test))
    assert np.mean(lost) < 0.02


@pytest.mark.parametrize("n_samples", [2000, 5000])
@pytest.mark.parametrize("bounds", [None, (-6.0, 6.0)])
def test_targets_that_are_noise_are_predicted_by_their_mean(n_samples, bounds):
    """Of 20 fits 19 lose at most 5 % of the variance to the noise, and all 20 %."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n_samples, 10)), rng.standard_normal(n_samples)
    y = y if bounds else y + 50.0
    scores = [
        DPRidge(epsilon=1.0, noise_seed=seed, bounds=bounds, target_bounds=bounds)
        .fit(X, y)
        .score(X, y)
        for seed in range(20)
    ]
    assert np.sort(scores)[1] > -0.05
    assert min(scores) > -0.2


@pytest.mark.parametrize("place", [0.0, 1e-9, -300.0, 1e12])
def test_few_rows_are_predicted_by_about_their_median(place):
    """Each of 60 medians lies between the .03- and the .97-quantile: false alarms 1e-3.

    The noise of one vote is 34 of 300 rows.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    Y = place + abs(place or 1.0) * 0.01 * rng.standard_normal((300, 2))
    found = [
        DPRidge(epsilon=1.5, noise_seed=seed).fit(X, Y).predict(X[:1])[0]
        for seed in range(30)
    ]
    low, high = np.quantile(Y, [0.03, 0.97], axis=0)
    assert ((low <= found) & (found <= high)).all()


@pytest.mark.parametrize(
    ("epsilon", "parameters", "most"),
    [
        (1.0, {}, 0.08),
        (0.5, {"bounds": (-1, 1), "target_bounds": (-10, 60)}, 0.05),
    ],
)
def test_rows_too_few_for_coefficients_are_predicted_by_about_their_mean(
    epsilon, parameters, most
):
    """Targets are skewed: their median, .36 deviations from their mean, loses .13.

    `most` is above the mean of 20 losses by 7 of its deviations.
    """
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (800, 30)), 10.0 * rng.exponential(size=800) ** 1.5
    fits = DPRidge(epsilon=epsilon, **parameters)
    if parameters:
        X, y = X[:200], y[:200]
    lost = [
        -fits.set_params(noise_seed=seed).fit(X, y).score(X, y) for seed in range(20)
    ]
    assert [m.name for m in fits.privacy_.releases()][-1] == "target_means"
    assert np.mean(lost) < most
    assert not fits.coef_.any()


@pytest.mark.parametrize("n_samples", [3, 100, 400, 3000])
def test_public_numbers_decide_what_is_released(n_samples):
    """With few rows a location takes all of the budget, and a caveat says so."""
    box = {"bounds": (0, 1), "target_bounds": (0, 1)}
    plan = DPRidge(epsilon=1.0, **box).privacy_plan(n_samples, 5)
    alone = n_samples < 130  # sqrt(7) / (.08 mu), by the rule
    names = [m.name for m in plan.releases()]
    assert (names == ["target_means"]) == alone
    assert ("joint_moment" in names) == (not alone)
    assert ("by a constant alone" in str(plan)) == alone


def test_unseen_features_have_no_coefficient():
    X, y = table(5000, 3)
    X[:, 1] = 7.0
    model = DPRidge(epsilon=2.0, noise_seed=0).fit(X, y)
    assert model.unseen_features_.tolist() == [False, True, False]
    assert model.coef_[1] == 0.0
    assert np.isnan(model.conf_int()[1]).all()


def test_constant_targets_are_named():
    X, _ = table(5000, 2)
    with pytest.warns(UserWarning, match="1 of 1 targets cannot be distinguished"):
        model = DPRidge(epsilon=2.0, noise_seed=0).fit(X, np.zeros(5000))
    assert model.coef_.tolist() == [0.0, 0.0]
    assert model.unseen_targets_.tolist() == [True]
    assert model.alpha_ == math.inf
    with pytest.raises(ValueError, match="conf_int"):
        model.conf_int()


@pytest.mark.parametrize("alpha", ["auto", 1.0])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_nothing_seen_and_no_intercept_is_zero(alpha, n_targets):
    X, y = table(40, 3, n_targets)
    model = DPRidge(alpha, epsilon=1.0, fit_intercept=False).fit(X, y)
    assert not model.predict(X).any()
    assert not model.path([0.0, 3.0])[0].any()
    with pytest.raises(ValueError, match="conf_int"):
        model.conf_int()


# -- intervals -------------------------------------------------------------------------


def draw(seed, n_samples=4000):
    """New rows of the same law, and the coefficients."""
    rng = np.random.default_rng(seed)
    coef = np.array([1.0, -0.5, 0.0, 2.0])
    X = rng.standard_normal((n_samples, 4))
    return X, X @ coef + 2.0 + rng.standard_normal(n_samples), coef


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_intervals_hold_coefficients_as_often_as_they_say(epsilon):
    """Of 800 intervals of 200 fits; limits are 4 deviations of independent fits away.

    With the noise left out of the errors, some 20 % less are held at epsilon=2.
    """
    held, lengths, errors = [], [], []
    for seed in range(200):
        X, y, coef = draw(seed)
        model = DPRidge(0.0, epsilon=epsilon, noise_seed=seed).fit(X, y)
        low, high = model.conf_int(0.95).T
        seen = ~model.unseen_features_  # one fit in fifty has a false alarm
        held.extend(((low <= coef) & (coef <= high))[seen])
        lengths.extend(model.coef_std_[seen])
        errors.extend((0.5 * (low + high) - coef)[seen])
    assert len(held) > 780
    assert 0.91 < np.mean(held) < 0.99
    ratio = np.std(errors) / np.sqrt(np.mean(np.square(lengths)))
    assert 0.88 < ratio < 1.12


def test_intervals_grow_with_their_level_and_are_of_the_release():
    X, y, _ = draw(0)
    model = DPRidge(epsilon=2.0, noise_seed=0).fit(X, y)
    widths = [np.ptp(model.conf_int(level), axis=-1) for level in (0.5, 0.9, 0.99)]
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()
    np.testing.assert_allclose(widths[1], 2 * 1.6448536 * model.coef_std_)
    published = model.publish()
    np.testing.assert_array_equal(published.conf_int(), model.conf_int())


def test_intervals_are_refused_where_noise_hides_directions():
    X, y = table(1500, 30)
    model = DPRidge(epsilon=1.0, noise_seed=0).fit(X, y)
    assert np.isnan(model.coef_std_).all()
    with pytest.raises(ValueError, match="no variance above the noise"):
        model.conf_int()


# -- plans and releases ----------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"bounds": (-1, 1)},
        {"target_bounds": (0, 1)},
        {"bounds": (-1, 1), "target_bounds": (0, 1)},
        {"fit_intercept": False},
    ],
)
@pytest.mark.parametrize("n_samples", [50, 3000, 10**6])
def test_the_plan_costs_the_budget(parameters, n_samples):
    plan = DPRidge(epsilon=0.7, **parameters).privacy_plan(n_samples, 12, 2)
    assert plan.epsilon == 0.7
    assert plan.mu == pytest.approx(gaussian_mu(0.7, 1e-6), rel=1e-6)
    assert plan.mu <= gaussian_mu(0.7, 1e-6)


def test_path_and_intervals_cost_nothing():
    X, y = table(2000, 3)
    accountant = PrivacyAccountant()
    model = DPRidge(epsilon=2.0, accountant=accountant).fit(X, y)
    assert len(accountant.ledger) == 1
    coefs, intercepts = model.path([0.0, 10.0, 1e9])
    assert coefs.shape == (3, 3)
    assert intercepts.shape == (3,)
    model.conf_int()
    assert len(accountant.ledger) == 1
    assert np.abs(coefs[2]).max() < 1e-3 * np.abs(coefs[0]).max()
    again = DPRidge(10.0, epsilon=2.0, noise_seed=3).fit(X, y)
    np.testing.assert_array_equal(again.path([10.0])[0][0], again.coef_)


def test_what_was_fitted_does_not_follow_parameters():
    X, y = table(3000, 4)
    model = DPRidge(1.0, epsilon=4.0, noise_seed=0).fit(X, y)
    before = model.path([1.0]), model.conf_int(), model.predict(X)
    model.set_params(fit_intercept=False, alpha=7.0, epsilon=None)
    after = model.path([1.0]), model.conf_int(), model.predict(X)
    for one, other in zip(before, after, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


# -- forms of data ---------------------------------------------------------------------


def test_maps_files_and_lists_give_the_same_bits(tmp_path):
    X, y = table(5000, 3)
    fits = DPRidge(epsilon=2.0, noise_seed=0)
    expected = fits.fit(X, y).coef_.copy()
    np.save(tmp_path / "X.npy", X)
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"x{j}": X[:, j] for j in range(3)}
    parquet.write_table(pa.table(columns), tmp_path / "X.parquet", row_group_size=700)
    forms = [
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        np.asfortranarray(X),
        X.tolist(),
        parquet.ParquetFile(tmp_path / "X.parquet"),
    ]
    for form in forms:
        np.testing.assert_array_equal(fits.fit(form, y.tolist()).coef_, expected)


@pytest.mark.parametrize("rows", ["array", "frame"])
@pytest.mark.parametrize("near", [True, False])
def test_rows_of_a_cluster_are_reduced_there(rows, near, monkeypatch):
    array = pytest.importorskip("dask.array")
    frames = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    # Every third row, from parts that begin anywhere.
    monkeypatch.setattr(_joint_moment, "_SCALED_ROWS", 1000)
    monkeypatch.setattr(_joint_moment, "_RARELY", 0.5)
    X, y = table(3001, 3)
    expected = DPRidge(epsilon=8.0, noise_seed=0).fit(X, y)
    if rows == "array":
        distant, target = array.from_array(X, (400, 2)), array.from_array(y, 700)
    else:
        table_of = pd.DataFrame(np.c_[X, y], columns=list("abcd"))
        frame = frames.from_pandas(table_of, npartitions=4)
        distant, target = frame[list("abc")], frame["d"]
    found = DPRidge(epsilon=8.0, noise_seed=0).fit(distant, y if near else target)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    assert found.privacy_ == expected.privacy_


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "^Input y contains NaN"),
        ("a secret", "^y must contain numbers"),
        (1j, "^Complex data not supported: y"),
    ],
)
def test_targets_of_a_cluster_are_checked(value, message):
    array = pytest.importorskip("dask.array")
    X, y = table(300, 2)
    y = y.astype(object)
    y[7] = value
    rows, target = array.from_array(X, 100), array.from_array(y, 100)
    with pytest.raises(ValueError, match=message):
        DPRidge(epsilon=8.0).fit(rows, target)


def test_scales_of_long_tables_are_those_of_some_rows(monkeypatch):
    X, y = table(3001, 3)
    monkeypatch.setattr(_joint_moment, "_SCALED_ROWS", 1000)
    monkeypatch.setattr(_joint_moment, "_RARELY", 0.5)
    model = DPRidge(0.0, epsilon=None).fit(X, y)
    other = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-6)
    assert model.mean_ == pytest.approx(X[::3].mean(axis=0), rel=1e-3)


# -- values that nobody expects --------------------------------------------------------


def test_values_far_away_count_as_the_limit():
    X, y = table(5000, 2)
    model = DPRidge(epsilon=4.0, noise_seed=0).fit(X, y)
    far = X[:2].copy()
    far[:, 0] = 1e300, -1e300
    predicted = model.predict(far)
    np.testing.assert_array_equal(
        predicted, model.predict(np.clip(far, *model.limits_))
    )
    assert np.abs(predicted).max() < 1e3
    np.testing.assert_allclose(model.limits_[1] - model.mean_, 30.0 * model.scale_)
    box = {"bounds": (-1e3, 2e3), "target_bounds": (-100, 100)}
    model = DPRidge(epsilon=4.0, noise_seed=0, **box).fit(X, y)
    assert model.limits_[0].min() >= -1e3


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_nobody_looked_for_make_no_release_infinite(value):
    X, y = table(400, 3)
    X[5, 1] = value
    box = {"bounds": (-1e6, 1e6), "target_bounds": (-1e3, 1e3)}
    for parameters in ({}, {"fit_intercept": False}, box):
        model = DPRidge(epsilon=20.0, **parameters)
        trusted = sklearn.config_context(assume_finite=True)
        with trusted, record_releases() as released:
            model.fit(X, y)
        assert all(np.isfinite(found).all() for found in released.values())
        assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("epsilon", [0.25, 8.0, 50.0])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_step_of_a_pipeline_chooses_by_the_budget_of_the_pipeline(epsilon):
    """And not by the default of its own `epsilon`."""
    X = np.random.default_rng(0).standard_normal((300, 4))
    alone = DPRidge(epsilon=epsilon).privacy_plan(*X.shape)
    step = make_private_pipeline(DPRidge(), epsilon=epsilon).fit(X, X[:, 0])
    for one, other in zip(alone.mechanisms, step.privacy_.mechanisms, strict=True):
        assert other.name == f"dpridge: {one.name}"
        assert other.mu == pytest.approx(one.mu, rel=1e-6)
