"""Joint rows of features and targets: sensitivities by search; Stein's estimates."""

import math
from functools import partial

import numpy as np
import pytest

from skdpspectral.linear_model import _kernels_ridge as kernels
from skdpspectral.linear_model._ridge import (
    ResidualMoments,
    StandardRows,
    _standardize,
    _sum_of_squares,
    bounded_joint_rows,
    bounded_weighted_rows,
    residual_rows,
    weighted_rows,
)
from skdpspectral.sensitivity import (
    mean_sensitivity,
    residual_moments_sensitivity,
    second_moment_sensitivity,
)

SIZES = np.array([0.0, 1.0, -1.0, 0.3, 37.0, -1e6, 1e300, 1.7e308, 5e-324])

NO_LIMITS = (np.full(3, -np.inf), np.full(3, np.inf))


def linear(n_features):
    return kernels.Basis(np.zeros(n_features, dtype=bool), 0, 0)


def images(rows, limits=NO_LIMITS, weight=1.0, radius=2.0):
    columns = np.array([0, 2, 3])
    scale, center = np.array([1.0, 1e3, 1.0]), np.array([0.0, 5.0, -2.0])
    standard = StandardRows(columns, 1, limits, center, scale, linear(4))
    return bounded_joint_rows(rows, standard, radius, weight)


@pytest.mark.parametrize("limits", [NO_LIMITS, (np.full(3, -4.0), np.full(3, 6.0))])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_no_replaced_row_moves_a_moment_further_than_the_lemma(limits, weight):
    rng = np.random.default_rng(0)
    rows = rng.choice(SIZES, (300, 4)) * rng.choice([1.0, 0.1], (300, 4))
    rows[0], rows[1] = [1e12, 0, 0, 0], [0, 0, 1e15, 0]
    made = images(rows, limits, weight)
    assert made.shape == (300, 4)
    outer = np.einsum("ni,nj->nij", made, made).reshape(len(made), -1)
    moved = np.linalg.norm(outer[:, None] - outer, axis=-1).max()
    bound = 7 * second_moment_sensitivity(1.0, 7)
    assert moved <= bound * (1 + 1e-12)
    if limits is NO_LIMITS:
        assert moved == pytest.approx(bound, rel=1e-9)


def standard_map():
    """Of two features and two targets."""
    columns, limits = np.array([0, 2, 3, 4]), (np.full(4, -40.0), np.full(4, 40.0))
    return StandardRows(columns, 2, limits, np.zeros(4), np.ones(4), linear(5))


def adversarial_rows(n_rows):
    rng = np.random.default_rng(0)
    rows = rng.choice(SIZES, (n_rows, 5)) * rng.choice([1.0, 0.1], (n_rows, 5))
    rows[0], rows[1] = [9, 0, 9, 9, 9], [9, 0, 9, -9, -9]
    rows[2] = np.nan
    return rows


@pytest.mark.parametrize("weight", [0.2, 1.0])
def test_no_weighted_row_moves_a_moment_further_than_the_lemma(weight):
    length = math.hypot(2.5, weight * 3.0 * math.sqrt(2.0))
    rows = adversarial_rows(300)
    made = bounded_weighted_rows(rows, standard_map(), 2.5, weight, 3.0, length)
    assert made.shape == (300, 5)
    outer = np.einsum("ni,nj->nij", made, made).reshape(len(made), -1)
    moved = np.linalg.norm(outer[:, None] - outer, axis=-1).max()
    assert moved <= 7 * second_moment_sensitivity(1.0, 7) * (1 + 1e-12)
    assert moved > 0.8 * math.sqrt(2.0) * (weight == 1.0)


def test_weights_of_rows_do_not_depend_on_targets():
    rows = np.array([[0.3, 9.0, 1.0, 0.5, -2.0], [30.0, 9.0, -20.0, 0.5, -2.0]])
    features, targets = weighted_rows(rows, standard_map(), 2.5)
    weights = np.array([1.0, 2.5 / math.hypot(30.0, 20.0, 1.0)])
    inputs = np.column_stack([rows[:, [0, 2]], np.ones(2)])
    np.testing.assert_allclose(features, weights[:, None] * inputs / 2.5)
    np.testing.assert_allclose(targets, weights[:, None] * rows[:, 3:])
    rows[:, 3:] = 39.0
    np.testing.assert_array_equal(weighted_rows(rows, standard_map(), 2.5)[0], features)


class Kept:
    """A release without noise that keeps the exact values."""

    def __init__(self, statistic):
        self.plan = {statistic.name: statistic.mechanisms(1.0)[0]}

    def __call__(self, name, value, overwrite=False):
        self.value = value.copy()
        return value


@pytest.mark.parametrize("far", [False, True])
def test_no_score_moves_its_moments_further_than_the_lemma(far):
    """All pairs of adversarial rows; of two targets, with a column that is not seen."""
    coefficients, reach = np.array([[0.1, 0.0], [-0.2, 0.3], [0.0, 0.1]]), np.ones(2)
    statistic = ResidualMoments(5, 4, 2, "scores")
    row_map = partial(
        residual_rows,
        standard=standard_map(),
        radius=2.5,
        coefficients=coefficients,
        reach=reach,
        far=far,
    )
    rows = adversarial_rows(200)
    # Residuals of one sign, at 120 degrees.
    rows[3], rows[4] = [30, 0, 0, -1e9, 1e9], [-15, 0, 26, -1e9, 1e9]
    made = []
    for row in rows:
        kept = Kept(statistic)
        table = np.vstack([row, np.zeros((4, 5))])
        found = statistic.run(
            kept, table, row_map, np.array([0, 2, 3]), np.arange(2), np.ones(2)
        )
        made.append(kept.value.ravel())
        scores, residuals = row_map(table)
        scores = scores[:, None] * residuals[:, :, None]
        np.testing.assert_allclose(found[0], scores.mean(axis=0), atol=1e-12)
        squares = np.einsum("nki,nkj->kij", scores, scores) / 5
        np.testing.assert_allclose(found[1], squares, atol=1e-12)
    moved = np.linalg.norm(np.array(made)[:, None] - made, axis=-1)
    bound = residual_moments_sensitivity(5, 2)
    assert 0.999 * bound < moved.max() <= bound * (1 + 1e-12)
    # With twice the weight it would be further than the bound.
    assert moved[3, 4] > 0.95 * bound


@pytest.mark.parametrize("order", [1, 2, 5])
def test_second_moments_of_half_the_weight_are_free(order):
    rng = np.random.default_rng(order)
    rows = rng.standard_normal((2000, order))
    rows *= (rng.random(2000) ** 0.2 / np.linalg.norm(rows, axis=1))[:, None]
    rows[0], rows[1] = np.eye(order)[0], -np.eye(order)[0]
    squares = np.sqrt(0.5) * np.einsum("ni,nj->nij", rows, rows).reshape(2000, -1)
    both = np.hstack([rows, squares])
    lengths = np.sum(both**2, axis=1)
    moved = np.sqrt(np.max(lengths[:, None] + lengths - 2.0 * both @ both.T))
    assert moved == pytest.approx(7 * residual_moments_sensitivity(7), rel=1e-9)
    assert residual_moments_sensitivity(7, 4) == 2 * residual_moments_sensitivity(7)


def test_short_rows_keep_their_length_and_long_ones_their_direction():
    rows = np.array([[0.1, 9.0, 5.0, -2.0], [300.0, 9.0, 5.0, 398.0]])
    made = images(rows)
    np.testing.assert_allclose(made[0], [0.05, 0.0, 0.0, 0.5], atol=1e-15)
    np.testing.assert_allclose(made[1, [0, 2]] / made[1, 3], [300.0, 400.0])
    assert np.linalg.norm(made[1]) == pytest.approx(1.0, rel=1e-12)


def test_a_mean_square_moves_by_at_most_one_share():
    rng = np.random.default_rng(0)
    rows = rng.choice(SIZES, (200, 3))
    squares = np.array(
        [_sum_of_squares([_standardize(r[None], 0.5, 2.0)])[0] for r in rows]
    )
    assert squares.min() >= 0.0
    assert squares.max() == 1.0
    assert np.ptp(squares) / 9 <= mean_sensitivity(0.5, 9)


def symmetric_noise(rng, order, std):
    noise = np.triu(rng.standard_normal((order, order))) * std
    noise[np.diag_indices(order)] *= 1.0 / math.sqrt(2.0)
    return noise + noise.T


def test_estimates_of_quadratic_and_linear_terms_are_unbiased(monkeypatch):
    """Means over 4000 draws of the noise, from both sides; false alarms 1e-4 each."""
    monkeypatch.setattr(kernels, "_CAUTION", 0.0)
    rng = np.random.default_rng(0)
    order, spread, cross = 6, 0.05, 0.03
    X = rng.standard_normal((500, order)) * np.linspace(0.5, 1.5, order)
    exact, b = X.T @ X / 500, rng.standard_normal(order)
    errors = []
    for _ in range(4000):
        A = exact + symmetric_noise(rng, order, spread)
        turned_by = np.linalg.eigh(A)
        values, vectors = turned_by
        noisy = (vectors.T @ (b + cross * rng.standard_normal(order)))[:, None]
        inverse = 1.0 / (values + 1.0)
        differences = kernels._divided_differences(values, inverse, -(inverse**2))
        solution = inverse[:, None] * noisy
        moment = kernels.Moment(A, noisy, np.zeros(1), spread, cross, 10**12)
        beta = vectors @ solution[:, 0]
        given = moment, values, inverse
        terms = kernels._stein_estimates(*given, differences, noisy, solution)
        explained, fitted = terms[0][0], terms[1][0]
        errors.append([fitted - beta @ exact @ beta, explained - b @ beta])
        risk, factor = kernels._risk(*given, solution, terms, np.asarray)
        expected = factor[0] ** 2 * fitted - 2 * factor[0] * explained
        assert risk[0] == pytest.approx(expected)
    errors = np.array(errors)
    deviations = errors.std(axis=0) / math.sqrt(len(errors))
    assert np.all(np.abs(errors.mean(axis=0)) < 3.9 * deviations)


def test_divided_differences_of_equal_eigenvalues_are_slopes():
    values = np.array([1.0, 1.0, 2.0])
    found = kernels._divided_differences(values, 1 / values, -1 / values**2)
    np.testing.assert_allclose(found, -1 / np.outer(values, values))
