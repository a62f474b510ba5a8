"""Leading eigenpairs by value."""

import numpy as np
import pytest

from skdpspectral._linalg import eigen
from skdpspectral._linalg.eigen import flip_signs, top_eigh
from skdpspectral.decomposition import SpikedPCA, _kernels
from skdpspectral.decomposition import _spiked as spiked_projector
from skdpspectral.decomposition._bounded_moments import RowBounds, SecondMoment
from skdpspectral.metrics import subspace_distance


def symmetric(values, seed=0):
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    return q * values @ q.T, q


@pytest.mark.parametrize("order", [1, 2, 30, 599, 700])
@pytest.mark.parametrize("rank", [1, 3])
def test_agrees_with_the_full_decomposition(order, rank):
    rank = min(rank, order)
    rng = np.random.default_rng(order)
    matrix = rng.standard_normal((order, order))
    matrix = (matrix + matrix.T) / 2
    values, vectors = top_eigh(matrix, rank)
    full_values, full_vectors = np.linalg.eigh(matrix)
    np.testing.assert_allclose(values, full_values[::-1][:rank], rtol=1e-9, atol=1e-12)
    expected = flip_signs(full_vectors.T[::-1][:rank])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(rank), atol=1e-10)


@pytest.mark.parametrize("order", [5, 700])
def test_largest_by_value_and_not_by_modulus(order):
    """A large negative eigenvalue is noise; its eigenvector must stay out."""
    values = np.r_[3.0, 2.0, np.zeros(order - 3), -10.0]
    matrix, q = symmetric(values)
    found, vectors = top_eigh(matrix, 2)
    np.testing.assert_allclose(found, [3.0, 2.0], rtol=1e-9)
    assert np.abs(vectors @ q[:, -1]).max() < 1e-6
    np.testing.assert_allclose(np.abs(vectors @ q[:, :2]), np.eye(2), atol=1e-6)


def test_zero_matrix():
    for order in (4, 700):
        values, vectors = top_eigh(np.zeros((order, order)), 2)
        np.testing.assert_allclose(values, 0.0, atol=1e-300)
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(2), atol=1e-10)


@pytest.mark.parametrize("order", [10, 700])
def test_the_same_matrix_gives_the_same_pairs(order):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((order, order))
    matrix = matrix + matrix.T
    first, second = top_eigh(matrix, 2), top_eigh(matrix.copy(order="F"), 2)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_signs_are_fixed_by_the_largest_entry():
    vectors = np.array([[0.1, -0.9, 0.2], [0.5, 0.4, -0.3]])
    flipped = flip_signs(vectors)
    np.testing.assert_array_equal(flipped, [[-0.1, 0.9, -0.2], [0.5, 0.4, -0.3]])
    np.testing.assert_array_equal(flip_signs(-vectors), flipped)


def test_eigenvalues_that_are_alike():
    """Of rows that are axes in turn, within a box: one way of LAPACK gave up on it."""
    rows = np.full((3000, 20), -1.0 / 3.0)
    rows[np.arange(3000), np.arange(3000) % 20] = 1.0
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    failing = np.tril(rows.T @ rows / 3000)
    bounds = RowBounds(20, center="none", bounds=(-1.0, 2.0))
    axes = np.eye(20)[np.arange(3000) % 20]
    moment = SecondMoment(bounds, len(axes)).kernel(axes, None)
    for matrix in (failing, moment):
        whole = np.tril(matrix) + np.tril(matrix, -1).T
        for rank in range(1, 21):
            values, vectors = top_eigh(matrix, rank)
            assert values == pytest.approx(np.linalg.eigvalsh(whole)[::-1][:rank])
            assert vectors @ vectors.T == pytest.approx(np.eye(rank), abs=1e-12)
            assert whole @ vectors.T == pytest.approx(vectors.T * values, abs=1e-12)


def test_a_solver_that_gives_up_is_not_the_last(monkeypatch):
    def give_up(*args, **kwargs):
        raise np.linalg.LinAlgError("Internal Error.")

    monkeypatch.setattr(eigen, "eigh", give_up)
    matrix = np.diag([3.0, 1.0, 2.0])
    values, vectors = top_eigh(matrix, 2)
    assert values.tolist() == [3.0, 2.0]
    assert np.abs(vectors).tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize("signal", [0.9, 1.3, 30.0])
def test_iterations_are_as_exact_as_the_noise_is_worth(signal):
    """Residuals as the theory says, and the errors of a full decomposition."""
    order, rank, spread = 700, 3, 0.02
    rng = np.random.default_rng(5)
    truth, _ = np.linalg.qr(rng.standard_normal((order, rank)))
    noise = np.tril(rng.normal(0.0, spread, (order, order)))
    noise += np.tril(noise, -1).T
    strengths = signal * spread * np.sqrt(order) * np.array([1.4, 1.2, 1.0])
    matrix = (truth * strengths) @ truth.T + noise
    values, vectors = top_eigh(matrix, rank, spread)
    _, exact = top_eigh(matrix, rank)
    assert vectors @ vectors.T == pytest.approx(np.eye(rank), abs=1e-12)
    residuals = matrix @ vectors.T - vectors.T * values
    limit = 1e-3 * np.sqrt(order) * spread
    # Norms of few products are known to a share.
    assert np.linalg.norm(residuals, axis=0).max() < 1.5 * limit
    assert subspace_distance(vectors, exact) < 0.01 * subspace_distance(exact, truth.T)


def test_products_that_noise_allows_are_of_half_the_size(monkeypatch):
    kinds = []
    leading = eigen._leading
    monkeypatch.setattr(
        eigen, "_leading", lambda m, *rest: kinds.append(m.dtype) or leading(m, *rest)
    )
    matrix = np.random.default_rng(0).standard_normal((700, 700))
    matrix += matrix.T
    for spread in (1.0, 1e-5, 0.0):
        top_eigh(matrix, 2, spread)
    matrix[0, 0] = 1e6  # its rounding is no longer small beside the noise
    top_eigh(matrix, 2, 1.0)
    assert kinds == [np.float32, np.float64, np.float64, np.float64]


def test_of_unreleased_matrices_no_tolerance_is_left():
    """What a projector of rows is charged for is the rounding of float64 alone."""
    order = 600
    values = np.r_[np.linspace(0.5, 1.0, order - 1), 1.03]
    matrix, q = symmetric(values)
    truth = np.outer(q[:, -1], q[:, -1])

    def error(**how):
        (vector,) = top_eigh(np.asfortranarray(matrix), 1, **how)[1]
        return np.linalg.norm(np.outer(vector, vector) - truth)

    assert error(exact=True) < 1e-12 < error()


def test_the_projector_of_a_spiked_model_is_exact(monkeypatch):
    told = []
    found = eigen._leading
    monkeypatch.setattr(
        eigen, "_leading", lambda *given: told.append(given[-1]) or found(*given)
    )
    X = np.random.default_rng(0).standard_normal((700, 600)) * np.r_[5.0, np.ones(599)]
    spiked_projector.exact_directions(X, 1)
    assert told == [0.0]


def test_roundings_of_a_moment_of_projections_are_charged():
    """Against sums in higher precision; before, nothing was charged for them."""
    n, p = 20_000, 30
    X = np.random.default_rng(1).standard_normal((n, p)) * np.r_[4.0, np.ones(p - 1)]
    model = {"signal_variance": 15.0, "noise_variance": 1.0}
    pca = SpikedPCA(1, release="covariance", **model)
    charged = pca.privacy_plan(n, p)["model_moment"]
    u = np.linalg.qr(np.random.default_rng(2).standard_normal((p, 1)))[0].T
    found = spiked_projector._sum_of_projections([X[:9000], X[9000:]], u) / n
    exact = np.square(X.astype(np.longdouble) @ u.T.astype(np.longdouble)).sum() / n
    assert 0.0 < abs(float(found[0, 0] - exact)) <= charged.summation_error
    assert charged.summation_error < 1e-6 * charged.sensitivity


@pytest.mark.parametrize("shape", [(8, 30), (500, 600)])
def test_top_right_vectors(shape):
    rng = np.random.default_rng(3)
    X = rng.standard_normal(shape)
    X[:, 0] *= 3.0
    expected = np.linalg.svd(X)[2][:2]
    found = _kernels.top_right_vectors(X, 2)
    np.testing.assert_allclose(np.abs(found @ expected.T), np.eye(2), atol=1e-6)
