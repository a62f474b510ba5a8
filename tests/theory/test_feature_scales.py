"""Sensitivities of differences, phases and moments of features, by brute force."""

import itertools
import math

import numpy as np
import pytest

from skdpspectral._linalg import features
from skdpspectral._tables.pairs import PairOrder, PairWalk
from skdpspectral.sensitivity import (
    difference_counts_sensitivity,
    feature_moments_sensitivity,
    free_moment_weight,
    phase_sensitivity,
)

# Ties, nodes, places between nodes, both ends of a histogram, and beyond them.
VALUES = np.array([0.0, 1.0, 1.2, 1.5, 1.9, 2.0, -3.0, 1e3, -1e9, 1e-9, 1e300])


def counts(X):
    order = PairOrder(*X.shape, 1)
    histograms = features.DifferenceCounts(X.shape[1], -10, 41)
    for differences in PairWalk(order).blocks(X):
        histograms.update(differences)
    assert histograms.n_pairs == order.n_pairs
    return histograms.total


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


@pytest.mark.parametrize("n_rows", [0, -1])
def test_numbers_of_features_and_circles_are_positive(n_rows):
    with pytest.raises(ValueError, match="n_features"):
        difference_counts_sensitivity(n_rows)
    with pytest.raises(ValueError, match="n_features"):
        phase_sensitivity(n_rows, 1)
    with pytest.raises(ValueError, match="n_periods"):
        phase_sensitivity(1, n_rows)
    with pytest.raises(ValueError, match="n_features"):
        feature_moments_sensitivity(5, n_rows)
    with pytest.raises(ValueError, match="n_samples"):
        feature_moments_sensitivity(n_rows, 5)
