"""Sensitivities of means and second moments, against brute force."""

import math

import numpy as np
import pytest

from skdpspectral.sensitivity import (
    box_radius,
    mean_sensitivity,
    second_moment_sensitivity,
    summation_error,
)


def ball(rng, n, d, radius):
    """Points in a ball, half of them on its surface."""
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return radius * x * np.maximum(rng.random((n, 1)), rng.random((n, 1)) < 0.5)


@pytest.mark.parametrize("n_samples", [1, 2, 17])
@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 40.0])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_no_replacement_moves_a_moment_further(d, clip_norm, n_samples):
    rng = np.random.default_rng(0)
    x, y = ball(rng, 4000, d, clip_norm), ball(rng, 4000, d, clip_norm)
    mean = np.linalg.norm(x - y, axis=1) / n_samples
    assert mean.max() <= mean_sensitivity(clip_norm, n_samples) * (1 + 1e-12)
    outer = x[:, :, None] * x[:, None, :] - y[:, :, None] * y[:, None, :]
    second = np.linalg.norm(outer, axis=(1, 2)) / n_samples
    bound = second_moment_sensitivity(clip_norm, n_samples)
    assert second.max() <= bound * (1 + 1e-12)


def test_the_bounds_are_attained():
    x, y = np.array([3.0, 0.0]), np.array([0.0, 3.0])
    moved = np.linalg.norm(np.outer(x, x) - np.outer(y, y)) / 7
    assert second_moment_sensitivity(3.0, 7) == pytest.approx(moved, rel=1e-15)
    assert mean_sensitivity(3.0, 7) == pytest.approx(np.linalg.norm(x + x) / 7)


def test_box_radius_is_attained_by_a_corner_and_rounded_up():
    half = np.array([0.5, 1.0, 0.25])
    assert box_radius(half) == pytest.approx(np.linalg.norm(half), rel=1e-14)
    rng = np.random.default_rng(0)
    for size in (1, 10, 1000):
        half = rng.random(size)
        exact = math.sqrt(math.fsum(h * h for h in half))
        assert exact <= box_radius(half) <= exact * (1 + 1e-12)
    assert box_radius([0.0, 0.0]) == 0.0
    assert box_radius([1e200, 1e200]) == pytest.approx(math.sqrt(2) * 1e200)
    assert box_radius([1e-200, 1e-200]) == pytest.approx(math.sqrt(2) * 1e-200)


@pytest.mark.parametrize("n_samples", [0, -3])
def test_no_rows_have_no_sensitivity(n_samples):
    for function in (mean_sensitivity, second_moment_sensitivity):
        with pytest.raises(ValueError, match="n_samples"):
            function(1.0, n_samples)
    with pytest.raises(ValueError, match="n_samples"):
        summation_error(1.0, n_samples, 10)


def test_summation_error_counts_rows_and_blocks():
    assert summation_error(1.0, 1, 2048) == (1 + 1 + 16) * 2.0**-52
    assert summation_error(3.0, 10_000, 1000) == 3 * (1000 + 10 + 16) * 2.0**-52
