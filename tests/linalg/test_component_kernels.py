"""Kernels of principal components beside plain numpy."""

import numpy as np
import pytest

from skdpspectral.decomposition import _kernels


@pytest.mark.parametrize("shape", [(8, 30), (500, 600)])
def test_top_right_vectors(shape):
    rng = np.random.default_rng(3)
    X = rng.standard_normal(shape)
    X[:, 0] *= 3.0
    expected = np.linalg.svd(X)[2][:2]
    found = _kernels.top_right_vectors(X, 2)
    np.testing.assert_allclose(np.abs(found @ expected.T), np.eye(2), atol=1e-6)


def test_moments_of_unit_rows():
    """Against a million draws: standard errors below 0.3 per cent."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1_000_000, 6)) * np.sqrt([5.0, 5.0, 1, 1, 1, 1])
    z = x / np.linalg.norm(x, axis=1, keepdims=True)
    gap, cross = _kernels.unit_row_moments(5.0, 1.0, 2, 4)
    assert gap == pytest.approx(np.mean(z[:, 0] ** 2 - z[:, 5] ** 2), rel=0.01)
    assert cross == pytest.approx(np.mean(z[:, 0] ** 2 * z[:, 5] ** 2), rel=0.01)
