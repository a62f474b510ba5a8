"""Joint rows of features and targets: sensitivities by search; Stein's estimates."""

import math

import numpy as np
import pytest

from skdpspectral.linear_model import _kernels_ridge as kernels
from skdpspectral.linear_model._joint_moment import (
    _standardize,
    _sum_of_squares,
    bounded_joint_rows,
)
from skdpspectral.sensitivity import mean_sensitivity, second_moment_sensitivity

SIZES = np.array([0.0, 1.0, -1.0, 0.3, 37.0, -1e6, 1e300, 1.7e308, 5e-324])


NO_LIMITS = (np.full(3, -np.inf), np.full(3, np.inf))


def images(rows, limits=NO_LIMITS, intercept=True, weight=1.0, radius=2.0):
    columns = np.array([0, 2, 3])
    weights = np.array([1.0, 1e-3, weight])
    center = np.array([0.0, 5.0, -2.0])
    return bounded_joint_rows(rows, columns, limits, center, weights, radius, intercept)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("limits", [NO_LIMITS, (np.full(3, -4.0), np.full(3, 6.0))])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_no_replaced_row_moves_a_moment_further_than_the_lemma(
    intercept, limits, weight
):
    rng = np.random.default_rng(0)
    rows = rng.choice(SIZES, (300, 4)) * rng.choice([1.0, 0.1], (300, 4))
    rows[0], rows[1] = [1e12, 0, 0, 0], [0, 0, 1e15, 0]
    made = images(rows, limits, intercept, weight)
    assert made.shape == (300, 3 + intercept)
    outer = np.einsum("ni,nj->nij", made, made).reshape(len(made), -1)
    moved = np.linalg.norm(outer[:, None] - outer, axis=-1).max()
    bound = 7 * second_moment_sensitivity(1.0, 7)
    assert moved <= bound * (1 + 1e-12)
    if limits is NO_LIMITS:
        assert moved == pytest.approx(bound, rel=1e-9)


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
        terms = kernels._terms(moment, values, inverse, differences, noisy, solution)
        explained, fitted = terms[0][0], terms[1][0]
        errors.append([fitted - beta @ exact @ beta, explained - b @ beta])
        risk, factor = kernels._risk(
            moment, values, inverse, solution, terms, np.asarray
        )
        expected = factor[0] ** 2 * fitted - 2 * factor[0] * explained
        assert risk[0] == pytest.approx(expected)
    errors = np.array(errors)
    deviations = errors.std(axis=0) / math.sqrt(len(errors))
    assert np.all(np.abs(errors.mean(axis=0)) < 3.9 * deviations)


def test_divided_differences_of_equal_eigenvalues_are_slopes():
    values = np.array([1.0, 1.0, 2.0])
    found = kernels._divided_differences(values, 1 / values, -1 / values**2)
    np.testing.assert_allclose(found, -1 / np.outer(values, values))
