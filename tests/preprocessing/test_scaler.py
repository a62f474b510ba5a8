"""DPStandardScaler: what it finds, of any data, and what it says of the rest."""

import math
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from ledger_tools import refused
from scaler_tools import ManyRowsScaler
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sliced_rows import SlicedTable

from skdpspectral import DPStandardScaler, PrivacyLeakWarning
from skdpspectral._statistics.feature_scales import FeatureMoments, Spreads
from skdpspectral.accounting import gaussian_mu
from skdpspectral.mechanisms import Gaussian

seeded = pytest.mark.filterwarnings("ignore:noise_seed:skdpspectral.PrivacyLeakWarning")
exact = pytest.mark.filterwarnings("ignore:epsilon=None")
N = 20_000


def fitted(X, seed=0, **parameters):
    return DPStandardScaler(noise_seed=seed, **parameters).fit(X)


def normals(n=N, p=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p))


def errors(scaler, X, *, of_mean=True):
    """Largest errors of means, in deviations, and of logarithms of deviations."""
    if scaler.unseen_features_.any():  # one fit in fifty has a false alarm
        return math.inf
    deviations = X.std(axis=0, dtype=np.float64)
    scales = np.abs(np.log(scaler.scale_ / deviations)).max()
    if not of_mean:
        return scales
    means = np.abs(scaler.mean_ - X.mean(axis=0, dtype=np.float64)) / deviations
    return max(scales, means.max())


# -- without noise ---------------------------------------------------------------------


@exact
@pytest.mark.parametrize("n_samples", [3, 10, 5000])
def test_without_noise_it_is_a_standard_scaler(n_samples):
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (n_samples, 4)) * [1.0, 1e-5, 1e9, 1.0] + [0, 5, 1e10, -7.0]
    X[:, 3] = rng.integers(-2, 3, n_samples)
    X[:2, 3] = (1.0, 0.0)
    ours, theirs = DPStandardScaler(epsilon=None).fit(X), StandardScaler().fit(X)
    assert ours.scale_ == pytest.approx(theirs.scale_, rel=1e-9)
    assert ours.var_ == pytest.approx(theirs.var_, rel=1e-9)
    assert ours.mean_ == pytest.approx(theirs.mean_, rel=1e-9, abs=1e-9)
    assert ours.transform(X) == pytest.approx(theirs.transform(X), rel=1e-6, abs=1e-6)


@exact
def test_without_noise_the_variance_of_differences_is_unbiased():
    X = normals(50_000, 3) * [1.0, 1e-6, 1e12]
    scaler = DPStandardScaler(epsilon=None, with_mean=False).fit(X)
    assert scaler.mean_ is None
    assert errors(scaler, X, of_mean=False) < 0.02


# -- accuracy --------------------------------------------------------------------------

SHIFTS = {
    "none": np.zeros(4),
    "three deviations": 3.0,
    "thousands": np.array([2000.0, -2000.0, 1e4, -37.0]),
    "all over": np.array([0.0, 1e5, -1.0, 8.0]),
}


@pytest.mark.sampled(4)
@seeded
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("unit", [1.0, 1e-150, 1e150, np.array([1e-8, 1.0, 1e5, 30.0])])
def test_place_and_unit_do_not_matter(shift, unit):
    X = (normals() + SHIFTS[shift]) * unit
    for seed in range(3):
        assert errors(fitted(X, seed), X) < 0.1


@seeded
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_errors_fall_with_the_budget(epsilon):
    X = normals() * [1.0, 10.0, 1e3, 1e-3] + 5.0
    found = np.median(
        [errors(fitted(X, seed, epsilon=epsilon), X) for seed in range(9)]
    )
    assert found < 0.06 / epsilon


# -- hard data -------------------------------------------------------------------------


@seeded
@pytest.mark.parametrize("rate", [0.5, 0.2, 0.05, 0.02])
@pytest.mark.parametrize("value", [1.0, 0.37, 1e6])
def test_an_indicator_has_its_own_deviation(rate, value):
    """More than half of the values are one: medians of differences would be 0."""
    X = value * (np.random.default_rng(0).random((N, 2)) < rate)
    scaler = fitted(X)
    assert errors(scaler, X) < 0.15
    assert scaler.var_ == pytest.approx(X.var(axis=0), rel=0.3)


@seeded
def test_what_nobody_can_see_is_said_and_left_out():
    X = np.column_stack([normals(N, 1), np.full(N, 1e9), np.zeros(N), np.zeros(N)])
    X[:4, 3] = 1e6
    scaler = fitted(X)
    assert scaler.unseen_features_.tolist() == [False, True, True, True]
    assert scaler.scale_[1:].tolist() == [1.0] * 3
    assert scaler.var_[1:].tolist() == [0.0] * 3
    assert scaler.mean_[1:].tolist() == [0.0] * 3
    scores = scaler.transform(X)
    assert not scores[:, 1:].any()
    assert scores[:, 0].std() == pytest.approx(1.0, abs=0.05)
    scaler.set_params(unseen="keep")
    assert np.array_equal(scaler.transform(X)[:, 1:], X[:, 1:])
    assert scaler.inverse_transform(scaler.transform(X)) == pytest.approx(X)


@pytest.mark.slow
@pytest.mark.dependencies
@seeded
def test_a_feature_whose_place_was_lost_is_not_seen():
    """With so few rows that most places are lost, what is seen has a mean nearby.

    Of 1600 features noise of 4.5 deviations shows a lost one in 1 of 180 streams.
    """
    X, seen = normals(4000, 200), 0
    for seed in range(8):
        scaler = ManyRowsScaler(noise_seed=seed).fit(X)
        assert np.abs(scaler.mean_).max() < 2.0
        seen += np.sum(~scaler.unseen_features_)
    assert 300 < seen < 1300


def test_a_mean_at_the_edge_shows_nothing():
    n, noise = 1000, 0.05
    moments = FeatureMoments(n, 3)
    weight = moments._weight
    # Cut values alone, as noise shows them at its worst, and values about a place.
    released = np.array([[0.84, weight], [-0.84, weight], [0.5, 0.5 * weight]])

    class Answer:
        plan: ClassVar = {"moments": SimpleNamespace(noise_std=noise)}

        def __call__(self, name, value, overwrite=False):
            return released.copy()

    spreads = Spreads(np.ones(3, bool), *np.ones((3, 3)))
    found = moments.run(Answer(), np.zeros((n, 3)), np.zeros(3), spreads)
    assert found.seen.tolist() == [False, False, True]


@seeded
@pytest.mark.parametrize("with_mean", [True, False])
def test_a_scale_without_an_inverse_is_not_seen(with_mean):
    rare = np.random.default_rng(0).random(N) < 0.05
    X = np.column_stack([normals(N, 1), rare * 2.3e-308])
    scaler = fitted(X, epsilon=20.0, with_mean=with_mean)
    assert scaler.unseen_features_.tolist() == [False, True]
    assert np.isfinite(scaler.transform(X)).all()


@seeded
def test_noise_alone_shows_no_feature():
    """At most one false alarm in 20 fits: 4 of 20 have a probability below 2 %."""
    X = np.tile([7.0, 0.0, -1e5], (2000, 20))
    alarms = [not fitted(X, seed).unseen_features_.all() for seed in range(20)]
    assert sum(alarms) < 4


@seeded
def test_heavy_tails_and_outliers():
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.5, (N, 4)) * [1.0, 5.0, 1e4, 1.0]
    X[:3, 3] = [1e300, -1e300, 1e200]
    scaler = fitted(X)
    bulk = np.sort(X, axis=0)[50:-50]
    deviations = np.log(scaler.scale_ / bulk.std(axis=0))
    assert np.abs(deviations).max() < 0.4
    assert np.abs(scaler.mean_ / bulk.std(axis=0)).max() < 0.1


ORDERS = {
    "sorted": lambda X: np.sort(X, axis=0),
    "by class": lambda X: X[np.argsort(X[:, 0] > 0.0)],
    "a trend": lambda X: X + np.linspace(0, 10, len(X))[:, None],
    "a period": lambda X: np.tile(X[:10], (len(X) // 10, 1)),
    "a run": lambda X: np.repeat(X[:: len(X) // 20], len(X) // 20, axis=0),
}


@seeded
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("with_mean", [True, False])
def test_the_order_of_rows_does_not_matter(order, with_mean):
    X = ORDERS[order](normals())
    for rows in (X, SlicedTable(X)):
        scaler = fitted(rows, with_mean=with_mean)
        assert errors(scaler, X, of_mean=with_mean) < 0.15


@seeded
@pytest.mark.parametrize("value", [1e300, 1e-300, 1.7e308])
def test_values_at_the_ends_of_the_range(value):
    X = value * np.random.default_rng(0).uniform(-1, 1, (N, 2))
    scaler = fitted(X, seed=1)
    assert np.log(scaler.scale_ / (value / math.sqrt(3))) == pytest.approx(0, abs=0.15)
    assert np.isfinite(scaler.mean_).all()
    assert np.isfinite(scaler.transform(X)).all()
    mixed = np.column_stack([X, normals(N, 2)])
    mixed[5] = [1.7e308, -1.7e308, 5e-324, 1e300]
    assert not fitted(mixed).unseen_features_.any()


# -- bounds ----------------------------------------------------------------------------


@seeded
def test_bounds_clip_and_need_not_be_tight():
    X = normals() * [1.0, 1.0, 1e-3, 50.0] + [3.0, -4.0, 0.5, 50.0]
    bounds = (np.array([-10, -1e6, 0, 0]), np.array([20, 1e6, 1, 100]))
    inside = np.clip(X, *bounds)
    assert errors(fitted(X, bounds=bounds), inside) < 0.1
    flat = fitted(X, bounds=([-10, -9, 0, 7], [20, 9, 1, 7]), unseen="keep")
    assert flat.unseen_features_.tolist() == [False, False, False, True]
    assert (flat.mean_[3], flat.scale_[3]) == (7.0, 1.0)


@seeded
def test_an_unseen_feature_in_bounds_is_mapped_to_them_if_kept():
    X = np.column_stack([normals(1000, 1), np.full(1000, 30.0)])
    scaler = fitted(X, bounds=([-5, 20], [5, 60]), unseen="keep")
    assert scaler.unseen_features_.tolist() == [False, True]
    assert (scaler.mean_[1], scaler.scale_[1], scaler.var_[1]) == (40.0, 20.0, 0.0)
    assert scaler.transform(X)[:, 1] == pytest.approx([-0.5] * 1000)
    assert not scaler.set_params(unseen="zero").transform(X)[:, 1].any()
    assert scaler.inverse_transform(scaler.transform(X))[0, 1] == 40.0


# -- tables ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.dependencies
@seeded
@pytest.mark.parametrize(
    "kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array]
)
def test_sparse_rows_stay_sparse(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 6)) * (rng.random((5000, 6)) < 0.2)
    X[:, 5] = 0.0
    dense, found = fitted(X, with_mean=False), fitted(kind(X), with_mean=False)
    assert np.array_equal(found.scale_, dense.scale_)
    scores = found.transform(kind(X))
    assert sparse.issparse(scores)
    assert scores.format == "csr"
    assert scores.toarray() == pytest.approx(dense.transform(X), rel=1e-12)
    back = found.inverse_transform(scores)
    assert back.toarray() == pytest.approx(X, rel=1e-12)


@seeded
def test_frames_of_sparse_columns_are_not_filled():
    """Nor are their means forgotten, as those of a matrix would be."""
    X = np.random.default_rng(0).standard_normal((5000, 3))
    frame = pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0))
    with refused("set with_mean=False") as accountant:
        DPStandardScaler(accountant=accountant).fit(frame)
    with pytest.raises(ValueError, match="whose zeros would be filled"):
        fitted(X).transform(frame)


# -- habits ----------------------------------------------------------------------------


@seeded
def test_each_part_may_be_switched_off():
    X = normals() * 3.0 + 8.0
    no_mean = fitted(X, with_mean=False)
    assert no_mean.transform(X) == pytest.approx(X / no_mean.scale_)
    both = fitted(X)
    assert both.inverse_transform(both.transform(X)) == pytest.approx(X)
    assert both.n_samples_ == N


def test_nothing_is_fitted_twice_or_in_parts():
    assert not hasattr(DPStandardScaler(), "partial_fit")
    with pytest.raises(NotFittedError):
        DPStandardScaler().transform(np.eye(3))
    with pytest.raises(NotFittedError):
        DPStandardScaler().publish()


@seeded
def test_few_rows_are_warned_of_by_public_numbers():
    for rows in (np.zeros((20, 3)), normals(20, 3)):
        with pytest.warns(
            UserWarning, match="20 rows are too few to estimate .* scales"
        ):
            scaler = DPStandardScaler(noise_seed=0).fit(rows)
        assert scaler.unseen_features_.all()
        assert not scaler.transform(rows).any()


# -- plan and ledger -------------------------------------------------------------------

SETTINGS = {"both": {}, "no mean": {"with_mean": False}, "bounds": {"bounds": (-1, 1)}}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 20.0])
@pytest.mark.parametrize("shape", [(3, 2), (10, 3), (100_000, 50)])
def test_plan_costs_what_was_asked(name, epsilon, shape):
    plan = DPStandardScaler(epsilon=epsilon, **SETTINGS[name]).privacy_plan(*shape)
    budget = gaussian_mu(epsilon, 1e-6)
    assert budget * (1 - 1e-10) <= plan.mu <= budget
    assert (plan.unit, plan.neighbors, plan.assumption) == (
        "row",
        "replace-one",
        "none",
    )
    for mechanism in plan.releases():
        assert isinstance(mechanism, Gaussian)
        assert mechanism.sensitivity > 0.99 * mechanism.charged_sensitivity


def test_planned_sensitivities():
    """The lemmas' numbers, written out once more."""
    plan = DPStandardScaler().privacy_plan(10_000, 9)
    found = {m.name: m.sensitivity for m in plan.mechanisms}
    n_circles = plan["places"].shape[1]
    assert plan["places"].shape == (9, n_circles, 2)
    assert found == {
        "differences": pytest.approx(2 * math.sqrt(18)),
        "places": pytest.approx(2 * math.sqrt(9 * n_circles)),
        "moments": pytest.approx(6 / 10_000),
    }
    # Counts and phases are exact sums. Moments are not: of 2048 rows and 5 blocks of
    # them, with numbers up to 1 and the weight of a square.
    errors = {m.name: m.summation_error for m in plan.mechanisms}
    length = 3.0 * math.hypot(1.0, math.sqrt((11.0 + 5.0 * math.sqrt(5.0)) / 8.0))
    expected = length * (2048 + 5) * 2.0**-52
    assert errors == {"differences": 0.0, "places": 0.0, "moments": errors["moments"]}
    assert expected <= errors["moments"] <= 1.1 * expected
    alone = DPStandardScaler(with_mean=False).privacy_plan(10_000, 9)
    assert [m.name for m in alone.mechanisms] == ["differences"]
    wide = DPStandardScaler().privacy_plan(9000, 100_000)
    assert math.prod(wide["windows"].shape) < 2**26
    assert math.prod(wide["cells"].shape) < 2**26


EDGES = {
    "zeros": np.zeros((50, 4)),
    "one value": np.full((50, 3), 7e9),
    "largest": np.where(normals(60, 3) < 0.0, -1.7e308, 1.7e308),
    "huge": normals(60, 3) * 3e307,
    "subnormal": normals(60, 3) * 1e-310,
    "more features than rows": normals(6, 40),
    **{f"{n} rows": normals(n, 3) for n in range(2, 11)},
}


@seeded
@pytest.mark.filterwarnings("ignore:.*too few to estimate")
@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("epsilon", [0.5, 50.0])
@pytest.mark.parametrize("missing", ["raise", "mean"])
def test_no_table_gives_numbers_that_are_not_finite(name, epsilon, missing):
    X = EDGES[name].copy()
    if missing == "mean":
        X[0] = np.nan
    scaler = fitted(X, epsilon=epsilon, missing=missing)
    assert np.isfinite(scaler.transform(X)).all()
    assert np.isfinite(scaler.mean_).all()
    assert np.isfinite(scaler.scale_).all()
    assert (scaler.scale_ > 0.0).all()


@seeded
@pytest.mark.sampled(9)
def test_means_and_scales_of_few_rows():
    """500 rows of 10 features in mixed units, at epsilon 4: u = 145."""
    rng = np.random.default_rng(0)
    unit = 10.0 ** rng.integers(-6, 7, 10)
    mean = rng.choice([0.0, 1.0, -30.0, 100.0], 10) * unit
    for seed in range(3):
        X = normals(500, 10, seed) * unit + mean
        holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
        for rows, missing in ((X, "raise"), (holes, "mean")):
            scaler = fitted(rows, seed, epsilon=4.0, missing=missing)
            assert not scaler.unseen_features_.any()
            assert np.abs(np.log(scaler.scale_ / unit)).max() < 0.4
            assert (np.abs(scaler.mean_ - mean) / unit).max() < 0.4
        assert scaler.present_shares_ == pytest.approx(np.full(10, 0.7), abs=0.15)


def test_few_rows_are_read_from_windows():
    """By a public rule: 200 rows in units of the root of features over mu."""
    mu = gaussian_mu(1.0, 1e-6)
    n_samples = math.ceil(200.0 * 3.0 / mu)
    plan = DPStandardScaler().privacy_plan(n_samples, 9)
    assert plan.mechanisms[0].name == "differences"
    plan = DPStandardScaler().privacy_plan(n_samples - 1, 9)
    found = {m.name: m.sensitivity for m in plan.mechanisms}
    assert found == {
        "windows": pytest.approx(2 * math.sqrt(18)),
        "cells": pytest.approx(math.sqrt(18)),
        "moments": pytest.approx(6 / (n_samples - 1)),
    }
    costs = [m.mu**2 / plan.mu**2 for m in plan.mechanisms]
    assert costs == pytest.approx([0.4, 0.2, 0.4], rel=1e-6)


def test_a_seed_and_no_privacy_are_warned_of():
    X = normals(1000)
    with pytest.warns(PrivacyLeakWarning, match="noise_seed"):
        assert not DPStandardScaler(noise_seed=3).fit(X).privacy_.private
    with pytest.warns(PrivacyLeakWarning, match="epsilon=None"):
        assert not DPStandardScaler(epsilon=None).fit(X).privacy_.private
    assert DPStandardScaler().fit(X).privacy_.private
