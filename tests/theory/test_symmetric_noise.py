"""Symmetric Gaussian noise is isotropic noise in Frobenius geometry."""

import math

import numpy as np
import pytest
from release_tools import Release

from skdpspectral.accounting import calibrate_gaussian
from skdpspectral.mechanisms import PrivacyPlan


def seeded_release(mechanism, seed):
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test", seeded=True)
    return Release(plan, None, seed)


def draws_of(mechanism, repeats):
    zeros = np.zeros(mechanism.shape)
    return (seeded_release(mechanism, seed)("m", zeros) for seed in range(repeats))


def test_scaled_triangle_is_an_isometry():
    """Noise std / sqrt(2) off the diagonal is isotropic noise of this vector."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 6, 6))
    difference = (a + a.T) - (b + b.T)
    off = math.sqrt(2) * difference[np.tril_indices(6, -1)]
    triangle = np.r_[np.diag(difference), off]
    assert np.linalg.norm(triangle) == pytest.approx(np.linalg.norm(difference))


@pytest.mark.parametrize("order", [1, 2, 63, 64, 65, 200])
def test_release_is_symmetric_and_reads_the_lower_triangle(order):
    rng = np.random.default_rng(order)
    matrix = rng.standard_normal((order, order))
    matrix = matrix + matrix.T
    poisoned = np.tril(matrix) + np.triu(np.full((order, order), 1e6), 1)
    mechanism = calibrate_gaussian(
        "m", 1e-9, 1.0, (order, order), symmetric=True, magnitude=16.0
    )
    released = seeded_release(mechanism, 0)("m", poisoned)
    np.testing.assert_array_equal(released, released.T)
    np.testing.assert_allclose(released, matrix, atol=20 * mechanism.noise_std)


def test_variances_of_diagonal_and_off_diagonal():
    """Two-sided chi-square tests; false-alarm rate 4e-6 in all.

    1,000 x 40 diagonal entries have a relative standard error of .7 % in variance,
    off-diagonals .16 %: noise 10 % off (variance 19 %) is 27 standard errors away.
    """
    from scipy.stats import chi2

    order, repeats = 40, 1000
    mechanism = calibrate_gaussian("m", 1.0, 0.5, (order, order), symmetric=True)
    draws = np.array(list(draws_of(mechanism, repeats)))
    rows, columns = np.tril_indices(order, -1)
    diagonal = draws[:, np.arange(order), np.arange(order)] / mechanism.noise_std
    off = draws[:, rows, columns] / (mechanism.noise_std / math.sqrt(2))
    for sample in (diagonal, off):
        total, count = np.sum(sample**2), sample.size
        assert chi2.ppf(1e-6, count) < total < chi2.ppf(1 - 1e-6, count)


def test_variances_of_every_panel():
    """Entries of late panels have the noise of early ones; false-alarm rate 1.2e-5.

    1,920 or more entries of a kind and panel have a relative standard error of 3.3 % in
    variance: noise 10 % low (variance 19 %) is 5.9 of them away.
    """
    from scipy.stats import chi2

    order, panel, repeats = 192, 64, 30
    mechanism = calibrate_gaussian("m", 1.0, 0.5, (order, order), symmetric=True)
    draws = np.array(list(draws_of(mechanism, repeats)))
    rows, columns = np.tril_indices(order)
    scaled = draws[:, rows, columns] / mechanism.noise_std
    scaled[:, rows != columns] *= math.sqrt(2)
    for start in range(0, order, panel):
        inside = (columns >= start) & (columns < start + panel)
        for kind in (rows == columns, rows != columns):
            sample = scaled[:, inside & kind]
            total, count = np.sum(sample**2), sample.size
            assert count >= 1920
            assert chi2.ppf(1e-6, count) < total < chi2.ppf(1 - 1e-6, count)


def test_no_two_entries_share_noise():
    """Covariances between entries vanish: false-alarm rate below 1e-6."""
    order, repeats = 70, 400  # more than one panel
    mechanism = calibrate_gaussian("m", 1.0, 0.5, (order, order), symmetric=True)
    rows, columns = np.tril_indices(order)
    draws = np.array([m[rows, columns] for m in draws_of(mechanism, repeats)])
    correlation = np.corrcoef(draws, rowvar=False)
    np.fill_diagonal(correlation, 0.0)
    # Each is about N(0, 1/400); 3.1 million pairs, 8 standard errors: 4e-9 in all.
    assert np.abs(correlation).max() < 8 / math.sqrt(repeats)
