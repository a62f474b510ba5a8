"""Thresholded counts of categories: what one row moves, and what it shows alone."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from skdpspectral._tables.table import Table
from skdpspectral.accounting import gaussian_delta
from skdpspectral.preprocessing._vectorizer import (
    CATEGORIES,
    CategoryCounts,
    Column,
    Vectors,
)
from skdpspectral.sensitivity import (
    category_counts_sensitivity,
    category_threshold,
)

COLUMNS = [1, 2, 3, 8, 20]


def divergence(first, second, alpha):
    """Hockey-stick divergence of two laws on the same atoms."""
    return float(np.maximum(first - alpha * second, 0.0).sum())


def law_of_count(count, sigma, threshold, n_bins=400):
    """Law of what is released of one count: nothing, or a bin of noisy counts."""
    bins = np.linspace(threshold, threshold + 12 * sigma + 3, n_bins)
    edges = np.append(bins, np.inf)
    if count == 0:
        return np.concatenate([[1.0], np.zeros(n_bins)])
    cumulated = norm.cdf((edges - count) / sigma)
    return np.concatenate([[cumulated[0]], np.diff(cumulated)])


def category_failure(threshold, sigma, n_columns):
    """Probability that a value of a single row is named."""
    return -math.expm1(n_columns * norm.logcdf((threshold - 1.0) / sigma))


def claimed(alpha, sigma, threshold, n_columns):
    beta = category_failure(threshold, sigma, n_columns)
    mu = category_counts_sensitivity(n_columns) / sigma
    # H_alpha of normals below alpha = 1 by symmetry.
    if alpha >= 1.0:
        curve = gaussian_delta(mu, math.log(alpha))
    else:
        curve = 1.0 - alpha + alpha * gaussian_delta(mu, -math.log(alpha))
    return beta + (1.0 - beta) * curve


ALPHAS = np.exp([-3.0, -1.0, -0.1, 0.0, 0.1, 0.5, 1.0, 2.0, 4.0])


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("threshold", [1.5, 3.0, 9.0])
def test_laws_of_one_column_are_within_the_claim(sigma, threshold):
    """Of a row with one value, or none, in place of one with another, or none."""
    moves = [(k, k - 1) for k in (1, 2, 3)], [(k - 1, k) for k in (1, 2, 3)]
    closest = 0.0
    for fall, rise in itertools.product([None, *moves[0]], [None, *moves[1]]):
        laws = [np.ones((1, 1)), np.ones((1, 1))]
        for move in (fall, rise):
            if move is None:
                continue
            for side in (0, 1):
                one = law_of_count(move[side], sigma, threshold)
                laws[side] = np.outer(laws[side].ravel(), one)
        for alpha in ALPHAS:
            found = divergence(*laws, alpha)
            bound = claimed(alpha, sigma, threshold, 1)
            assert found <= bound + 1e-12
            closest = max(closest, found / bound)
    assert closest > 0.5


def exact_delta(epsilon, sigma, threshold, n_columns, own, others):
    """Delta of this release for a row with own values, and another one with some."""
    stays = norm.logcdf((threshold - 1.0) / sigma)
    distance = math.sqrt(2 * n_columns - own - others) / sigma
    moved = epsilon + (others - own) * stays
    curve = gaussian_delta(distance, moved) if distance > 0.0 and moved >= 0.0 else None
    if curve is None:
        alpha = math.exp(moved)
        far = gaussian_delta(distance, -moved) if distance else 0.0
        curve = max(0.0, 1.0 - alpha) + min(alpha, 1.0) * far
    return -math.expm1(own * stays) + math.exp(own * stays) * curve


@pytest.mark.parametrize("n_columns", range(1, 21))
@pytest.mark.parametrize("failure", [1e-7, 1e-3])
def test_all_own_values_are_within_the_claim(n_columns, failure):
    """Of every number of values of its own, of the row and of its replacement."""
    for sigma in (1.0, 30.0):
        threshold = category_threshold(sigma, n_columns, failure)
        for epsilon in (0.0, 0.3, 2.0):
            bound = claimed(math.exp(epsilon), sigma, threshold, n_columns)
            pairs = itertools.product(range(n_columns + 1), repeat=2)
            found = [
                exact_delta(epsilon, sigma, threshold, n_columns, a, b)
                for a, b in pairs
            ]
            assert max(found) <= bound * (1 + 1e-9)
            # Both terms are needed: alone, the row's own values cost the failure.
            assert found[n_columns * (n_columns + 1)] >= failure * (1 - 1e-6)


@pytest.mark.parametrize("n_columns", COLUMNS)
@pytest.mark.parametrize("failure", [1e-15, 1e-7, 0.1])
def test_a_threshold_keeps_its_failure(n_columns, failure):
    for sigma in (1e-3, 1.0, 1e4):
        threshold = category_threshold(sigma, n_columns, failure)
        found = category_failure(threshold, sigma, n_columns)
        assert 0.999 * failure < found <= failure
    with pytest.raises(ValueError, match="failure"):
        category_threshold(1.0, n_columns, 0.0)
    with pytest.raises(ValueError, match="n_columns"):
        category_counts_sensitivity(0)


def test_thresholds_are_those_that_were_worked_out():
    """At eps 1, delta 1e-6 and a quarter of mu**2, of 1, 5 and 20 columns."""
    from skdpspectral.accounting import gaussian_mu

    mu = 0.5 * gaussian_mu(1.0, 0.9e-6)
    found = []
    for n_columns in (1, 5, 20):
        sigma = category_counts_sensitivity(n_columns) / mu
        found.append(category_threshold(sigma, n_columns, 1e-7))
    assert np.allclose(found, [63.0, 148.0, 309.0], atol=1.0)


def counts_of(rows):
    frame = pd.DataFrame(rows, dtype=object)
    columns = [Column(str(j), j, CATEGORIES) for j in range(frame.shape[1])]
    table = Vectors(Table(frame), columns, len(frame))
    return [table.counts(j) for j in range(frame.shape[1])]


@pytest.mark.parametrize("n_columns", COLUMNS)
def test_one_row_moves_counts_by_the_sensitivity_and_no_further(n_columns):
    rng = np.random.default_rng(n_columns)
    plan = CategoryCounts(12, n_columns, 1e-7).mechanisms(1.0)[0]
    bound, largest, most_own = plan.charged_sensitivity, 0.0, 0
    values = np.array(["a", "b", None, "own", "other", 1, 1.0, True, "1"], dtype=object)
    base = rng.choice(values[:2], (12, n_columns)).tolist()
    base += [["a"] * n_columns, ["b"] * n_columns]
    for trial in range(60):
        few = values if trial % 3 else values[:2]
        rows = [list(rng.choice(few, n_columns)) for _ in range(2)]
        if trial == 0:
            rows = [["a"] * n_columns, ["b"] * n_columns]
        if trial == 1:
            rows = [["own"] * n_columns, ["other"] * n_columns]
        one, two = (counts_of([*base, row]) for row in rows)
        square, own = 0, 0
        for first, second in zip(one, two, strict=True):
            for value in first.keys() & second.keys():
                square += (first[value] - second[value]) ** 2
            alone = [first[v] for v in first.keys() - second.keys()]
            assert alone in ([], [1])
            own += len(alone)
        largest, most_own = max(largest, math.sqrt(square)), max(most_own, own)
        assert own <= n_columns
        assert math.sqrt(square) <= bound
    assert largest >= 0.99 * category_counts_sensitivity(n_columns)
    assert most_own == n_columns
