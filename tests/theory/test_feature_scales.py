"""Sensitivities of differences, phases and moments of features, by brute force."""

import itertools
import math

import numpy as np
import pytest

from skdpspectral._linalg import features
from skdpspectral._linalg.walks import PairOrder, PairWalk
from skdpspectral._statistics import feature_scales
from skdpspectral._statistics.feature_scales import PlaceWindows, ScaleWindows
from skdpspectral.sensitivity import (
    difference_counts_sensitivity,
    difference_windows_sensitivity,
    feature_moments_sensitivity,
    free_moment_weight,
    free_presence_weight,
    phase_sensitivity,
    value_windows_sensitivity,
)

# Ties, nodes, places between nodes, both ends of a histogram, and beyond them.
VALUES = np.array([0.0, 1.0, 1.2, 1.5, 1.9, 2.0, -3.0, 1e3, -1e9, 1e-9, 1e300])


def counts(X):
    order = PairOrder(*X.shape, 1)
    blocks = PairWalk(order).blocks(X)
    return features.counts_of_differences(blocks, X.shape[1], -10, 41)


@pytest.mark.parametrize("n_samples", [3, 4, 7])
def test_no_row_moves_the_histograms_of_one_feature_further(n_samples):
    bound = difference_counts_sensitivity(1)
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(40):
        X = rng.choice(VALUES, (n_samples, 1))
        found = []
        for value in VALUES:
            X[1] = value
            found.append(counts(X))
        for a, b in itertools.combinations(found, 2):
            largest = max(largest, np.linalg.norm(a - b))
    assert 0.9 * bound < largest <= bound * (1 + 1e-12)


@pytest.mark.parametrize("n_features", [1, 2, 17])
def test_one_row_attains_the_sensitivity_of_histograms(n_features):
    X = np.zeros((5, n_features))
    neighbor = X.copy()
    X[2], neighbor[2] = 1.0, 8.0
    moved = np.linalg.norm(counts(X) - counts(neighbor))
    assert difference_counts_sensitivity(n_features) == pytest.approx(moved, rel=1e-12)


OCTAVES = np.array([0.0, 5e-324, 1e-9, 1.0, 1.9, 2.0, 5.0, -9.0, 16.0, 1e9, 1.7e308])


@pytest.mark.parametrize("n_samples", [3, 4, 7])
@pytest.mark.parametrize("n_features", [1, 2])
def test_no_row_moves_the_windows_further(n_samples, n_features):
    """All rows of a set of values in one place, among others of that set."""
    statistic = ScaleWindows(n_samples, n_features)
    bound, largest = difference_windows_sensitivity(n_features), 0.0
    rng = np.random.default_rng(0)
    rows = np.array(np.meshgrid(*[np.append(OCTAVES, np.nan)] * n_features))
    rows = rows.reshape(n_features, -1).T
    for _ in range(12 if n_features == 1 else 3):
        X, found = rng.choice(OCTAVES, (n_samples, n_features)), []
        for row in rows:
            X[1] = row
            found.append(statistic.exact(X).ravel())
        for at in found:
            largest = max(largest, np.linalg.norm(np.array(found) - at, axis=1).max())
    assert 0.9 * bound < largest <= bound * (1 + 1e-12)


@pytest.mark.parametrize("n_features", [1, 2, 17])
def test_one_row_attains_the_sensitivity_of_windows(n_features):
    X = np.zeros((5, n_features))
    neighbor = X.copy()
    X[2], neighbor[2] = 1.0, 16.0
    statistic = ScaleWindows(*X.shape)
    moved = np.linalg.norm(statistic.exact(X) - statistic.exact(neighbor))
    assert difference_windows_sensitivity(n_features) == pytest.approx(moved, rel=1e-12)
    # As far as from ties.
    moved = np.linalg.norm(statistic.exact(X) - statistic.exact(0.0 * X))
    assert difference_windows_sensitivity(n_features) == pytest.approx(moved, rel=1e-12)


CELLS = np.array(
    [0.0, 0.9, 1.0, 2.5, 3.0, 4.0, -1.0, -4.0, 8191.0, 8192.0, 1e9, 1e300, -1e-300]
)


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 1.5, 0.3, 1e-300, 1e300])
def test_no_row_moves_the_windows_of_cells_further(n_features, scale):
    """All rows of a set of values, around a circle of cells and missing ones."""
    statistic = PlaceWindows(3, n_features, holes=True)
    values = np.append(CELLS * min(max(scale, 1e-5), 1.0), np.nan)
    bound, scales = value_windows_sensitivity(n_features), np.full(n_features, scale)
    rows = np.array(np.meshgrid(*[values] * n_features)).reshape(n_features, -1).T
    if n_features > 1:
        rows = np.random.default_rng(0).permutation(rows)[:40]
    found = []
    for row in rows:
        X = np.zeros((3, n_features))
        X[1] = row
        found.append(statistic.exact(X, scales).ravel())
    found = np.array(found)
    moved = [np.linalg.norm(found - one, axis=1).max() for one in found]
    assert max(moved) == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("n_features", [1, 17, 600])
def test_one_row_attains_the_sensitivity_of_windows_of_cells(n_features):
    statistic = PlaceWindows(5, n_features)
    # With fewer cells for more features, and windows that meet on neither side.
    assert 512 <= statistic.n_cells <= 8192
    X, scales = np.zeros((5, n_features)), np.ones(n_features)
    neighbor, missing = X.copy(), X.copy()
    neighbor[2], missing[2] = 4.0, np.nan
    exact = statistic.exact(X, scales)
    for other in (neighbor, missing):
        moved = np.linalg.norm(exact - statistic.exact(other, scales))
        assert value_windows_sensitivity(n_features) == pytest.approx(moved, rel=1e-12)


@pytest.mark.parametrize("n_periods", [1, 2, 5])
@pytest.mark.parametrize("n_features", [1, 3])
def test_no_row_moves_phases_further(n_features, n_periods):
    rng = np.random.default_rng(0)
    steps = rng.integers(1, 9, (n_features, n_periods)).cumsum(axis=1)
    rows = rng.choice([1.0, 1e3, 1e9, 1e300], (4000, n_features))
    rows *= rng.uniform(-1, 1, rows.shape)
    phases = np.array([features.phase_sums(row[None], steps) for row in rows])
    assert np.linalg.norm(phases, axis=-1).max() <= 1.0
    steps_taken = np.diff(phases, axis=0).reshape(len(rows) - 1, -1)
    moved = np.linalg.norm(steps_taken, axis=1).max()
    assert moved <= phase_sensitivity(n_features, n_periods)


@pytest.mark.parametrize("n_features", [1, 6])
def test_half_a_turn_attains_the_sensitivity_of_one_circle(n_features):
    exponents = np.full((n_features, 1), 3)
    rows = np.zeros((1, n_features))
    phases = [features.phase_sums(rows + shift, exponents) for shift in (0.0, 4.0)]
    moved = np.linalg.norm(phases[1] - phases[0])
    assert phase_sensitivity(n_features, 1) == pytest.approx(moved, rel=1e-15)


@pytest.mark.parametrize("n_features", [1, 2, 30])
@pytest.mark.parametrize("n_samples", [1, 50])
def test_squares_are_free_beside_means(n_features, n_samples):
    bound = feature_moments_sensitivity(n_samples, n_features)
    assert bound == pytest.approx(2 * math.sqrt(n_features) / n_samples, rel=1e-15)
    weights = np.array([1.0, math.sqrt(free_moment_weight(1))]) / n_samples
    grid = np.linspace(-1.0, 1.0, 401)
    moments = np.column_stack([grid, grid**2]) * weights
    moved = np.linalg.norm(moments[:, None] - moments, axis=-1).max()
    # Of all features at once: each of them goes as far.
    assert moved * math.sqrt(n_features) <= bound * (1 + 1e-12)
    center, radius = np.full(n_features, 3.0), np.full(n_features, 0.5)
    ends = [
        features.moment_sums(np.full((1, n_features), x), center, radius) * weights
        for x in (-1e300, 1e300)
    ]
    assert np.linalg.norm(ends[1] - ends[0]) == pytest.approx(bound, rel=1e-15)


def moments_with_holes(rows, weight):
    """What is released of each row by itself, from the kernel of a fit."""
    weights = np.sqrt([1.0, free_moment_weight(1), weight])
    found = []
    for row in rows:
        sums = features.moment_sums(row[None], 0.0, 1.0, holes=True)
        sums[:, 1] -= 0.5 * sums[:, 2]
        found.append(weights * sums)
    return np.array(found).reshape(len(rows), -1)


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_numbers_of_present_values_are_free(n_features):
    grid = np.append(np.linspace(-1.0, 1.0, 201), [np.nan, -1e300])
    rows = np.repeat(grid[:, None], n_features, axis=1)
    bound = feature_moments_sensitivity(1, n_features)
    for weight, fits in ((free_presence_weight(), True), (1.01**2 * 2.3069, False)):
        moments = moments_with_holes(rows, weight)
        moved = np.linalg.norm(moments[:, None] - moments, axis=-1)
        assert (moved.max() <= bound * (1 + 1e-12)) == fits
        # A missing value is as far from 1 as -1 is.
        missing = moved[np.isnan(grid)].max()
        assert missing == pytest.approx(bound, rel=1e-12 if fits else 0.01)


@pytest.mark.parametrize("n_features", [1, 4])
def test_missing_values_have_no_weight_in_histograms_and_phases(n_features):
    rng = np.random.default_rng(0)
    X = rng.choice(VALUES, (9, n_features))
    with_hole = X.copy()
    with_hole[2] = np.nan
    difference = counts(X) - counts(with_hole)
    assert not counts(np.full((9, n_features), np.nan)).any()
    assert np.linalg.norm(difference) <= difference_counts_sensitivity(n_features)
    exponents = np.full((n_features, 2), 3)
    phases = features.phase_sums(with_hole[2:3], exponents)
    assert not phases.any()
    others = features.phase_sums(np.delete(X, 2, axis=0), exponents)
    assert np.array_equal(features.phase_sums(with_hole, exponents), others)


def exact_phases(X, planned):
    """Return the sums of phases of rows by a plan, and places without noise."""
    phases, found = feature_scales.Phases(*X.shape), []

    def release(name, exact, overwrite):
        found.append(exact.copy())
        return exact

    release.plan = {"places": planned}
    places = phases.run(release, X, np.ones(X.shape[1]))
    return found[0], places


def test_places_of_many_rows_are_of_a_part_that_their_number_chooses(monkeypatch):
    monkeypatch.setattr(feature_scales, "_MOST_ROWS", 1 << 14)
    X = np.full((50_000, 2), 5.0)
    (planned,) = feature_scales.Phases(*X.shape).mechanisms(1000.0)
    sums, places = exact_phases(X, planned)
    # All rows have one phase: lengths of sums are their number.
    lengths = np.abs(sums).sum(axis=-1)
    order = PairOrder(*X.shape, 1)
    assert np.array_equal(lengths, np.full(lengths.shape, order.rows_of(1)))
    assert order.rows_of(1) < 20_000
    assert places == pytest.approx([5.0, 5.0], abs=1e-3)
    for row in np.linspace(0, len(X) - 1, 40).astype(int):
        neighbor = X.copy()
        neighbor[row] = 13.0
        moved = np.linalg.norm(exact_phases(neighbor, planned)[0] - sums)
        assert moved <= planned.sensitivity
    # Where noise asks for more circles than a part may have, all rows are used.
    (planned,) = feature_scales.Phases(*X.shape).mechanisms(0.005)
    noisy, _ = exact_phases(X, planned)
    assert np.array_equal(np.abs(noisy).sum(axis=-1), np.full(noisy.shape[:-1], 5e4))


@pytest.mark.parametrize("n_rows", [0, -1])
def test_numbers_of_features_and_circles_are_positive(n_rows):
    with pytest.raises(ValueError, match="n_features"):
        difference_counts_sensitivity(n_rows)
    with pytest.raises(ValueError, match="n_features"):
        value_windows_sensitivity(n_rows)
    with pytest.raises(ValueError, match="n_features"):
        phase_sensitivity(n_rows, 1)
    with pytest.raises(ValueError, match="n_periods"):
        phase_sensitivity(1, n_rows)
    with pytest.raises(ValueError, match="n_features"):
        feature_moments_sensitivity(5, n_rows)
    with pytest.raises(ValueError, match="n_samples"):
        feature_moments_sensitivity(n_rows, 5)


def test_odds_are_at_most_their_bounds():
    rng, n = np.random.default_rng(0), 300
    for spread in (1.0, 20.0, 300.0, 3000.0):
        products = rng.uniform(-3 * n, 3 * n, (20, 40))
        most = feature_scales.most_of_any_share(products, 1.3, spread, n)
        odds, _ = feature_scales.of_any_share(products, 1.3, spread, n)
        assert (odds <= most + 1e-9).all()
