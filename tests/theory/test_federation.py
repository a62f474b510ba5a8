"""Sensitivities of power products and of whole sessions, against brute force."""

import math
from functools import partial

import numpy as np
import pytest
from release_tools import record_releases
from scipy.optimize import minimize

from skdpspectral import PrivacyAccountant, SparseDPPCA
from skdpspectral._linalg import walks
from skdpspectral.decomposition import _kernels
from skdpspectral.decomposition._bounded_moments import sum_of_products
from skdpspectral.sensitivity import power_product_error, power_product_sensitivity


def orthonormal(rng, p, k):
    return np.linalg.qr(rng.standard_normal((p, k)))[0]


def moved(x, y, Q):
    """Norm of (yy' - xx') Q, for stacks of rows."""
    change = np.einsum("ni,nk->nik", y, y @ Q) - np.einsum("ni,nk->nik", x, x @ Q)
    return np.linalg.norm(change, axis=(1, 2))


@pytest.mark.parametrize("n_samples", [1, 40])
@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 40.0])
@pytest.mark.parametrize(("p", "k"), [(1, 1), (2, 1), (5, 1), (2, 2), (5, 2), (6, 4)])
def test_no_replacement_moves_a_product_further(p, k, clip_norm, n_samples):
    rng = np.random.default_rng(0)
    Q = orthonormal(rng, p, k)
    x, y = rng.standard_normal((2, 20_000, p))
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
    # Some rows are shorter, and some lie in the span of the basis.
    x[::3] *= rng.random((len(x[::3]), 1))
    y[1::3] = (y[1::3] @ Q) @ Q.T
    y[1::3] /= np.linalg.norm(y[1::3], axis=1, keepdims=True)
    found = moved(clip_norm * x, clip_norm * y, Q).max() / n_samples
    bound = power_product_sensitivity(clip_norm, n_samples, k)
    assert found <= bound * (1 + 1e-12)
    assert found >= 0.8 * bound or p == 1 or p == 6


@pytest.mark.parametrize(("p", "k"), [(3, 1), (4, 2), (4, 3)])
def test_the_bound_is_what_an_optimizer_finds(p, k):
    """Over rows in the ball and every basis at once."""

    def loss(z):
        x, y = (v / max(1.0, np.linalg.norm(v)) for v in z[: 2 * p].reshape(2, p))
        Q = np.linalg.qr(z[2 * p :].reshape(p, k))[0]
        return -moved(x[None], y[None], Q)[0]

    rng = np.random.default_rng(1)
    starts = rng.standard_normal((8, 2 * p + p * k))
    best = max(-minimize(loss, start).fun for start in starts)
    assert best == pytest.approx(power_product_sensitivity(1.0, 1, k), rel=1e-4)


def test_the_bounds_are_attained_by_rows_of_full_norm():
    q = np.eye(4)
    one = moved(3 * q[:1], 3 * q[1:2], q[:, :1])[0]
    assert one == pytest.approx(7 * power_product_sensitivity(3.0, 7, 1), rel=1e-15)
    two = moved(3 * q[:1], 3 * q[1:2], q[:, :2])[0]
    assert two == pytest.approx(7 * power_product_sensitivity(3.0, 7, 2), rel=1e-15)
    # Ten times the basis would be ten times the sensitivity.
    assert moved(q[:1], q[1:2], 10 * q[:, :2])[0] == pytest.approx(10 * math.sqrt(2))


@pytest.mark.parametrize("arguments", [(1.0, 0, 1), (1.0, 5, 0)])
def test_no_rows_and_no_columns_are_refused(arguments):
    with pytest.raises(ValueError, match=r"n_samples|n_columns"):
        power_product_sensitivity(*arguments)


@pytest.mark.parametrize(("n", "p", "k"), [(1, 5, 1), (5000, 30, 3), (3000, 400, 2)])
def test_computed_products_are_as_near_as_promised(n, p, k):
    """Against long doubles, with a basis that is orthonormal up to rounding."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    columns, defect = _kernels.orthonormal_columns(rng.standard_normal((p, k)))
    kernel = partial(sum_of_products, columns=columns)
    found = walks.reduce_rows(X, walks.RowWalk(), kernel) / n
    long = X.astype(np.longdouble)
    exact = long.T @ (long @ columns.astype(np.longdouble)) / n
    error = float(np.sqrt(np.sum((found - exact) ** 2)))
    left, _, right = np.linalg.svd(columns, full_matrices=False)
    assert np.linalg.norm(columns - left @ right) <= defect + p * k * 2.0**-52
    promised = power_product_error(1.0, n, walks.rows_per_block(p), p, k, defect)
    assert error < promised < 1e-9


def test_the_error_counts_defect_rows_blocks_and_features():
    error = power_product_error(2.0, 10_000, 1000, 50, 4, 1e-6)
    defect = 1e-6 + 200 * 2.0**-52
    gamma = (1000 + 10 + 16 + 100) * 2.0**-52
    assert error == pytest.approx(gamma * 4 * 2 * (1 + defect) + 4 * defect, rel=1e-12)


def test_a_session_costs_what_its_dearest_client_costs():
    """Ledger, plan and lemma agree, for rounds that depend on each other."""
    X = np.random.default_rng(3).normal(size=(90, 5))
    clients = np.repeat(["a", "b", "c"], 30)
    budgets = {"a": 0.3, "b": 2.0, "c": 1.0}
    with PrivacyAccountant() as accountant, record_releases() as released:
        model = SparseDPPCA(2, n_rounds=3, epsilon=budgets, bounds=(-4, 4)).fit(
            X, clients=clients
        )
    assert set(released) == {"second_moment", "power_1", "power_2", "power_3"}
    costs = {
        name: [m.mu for m in plan.mechanisms] for name, plan in model.privacy_.blocks
    }
    assert {len(c) for c in costs.values()} == {4}
    total = max(math.hypot(*c) for c in costs.values())
    assert model.privacy_.mu == pytest.approx(total, rel=1e-12)
    assert accountant.spent(1e-6).epsilon == pytest.approx(2.0, rel=1e-9)
