"""subspace_distance and captured_variance against dense formulas."""

import traceback

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdpspectral.metrics import _scores, captured_variance, subspace_distance


def orthonormal_rows(n_rows, n_columns, seed):
    rng = np.random.default_rng(seed)
    return np.linalg.qr(rng.standard_normal((n_columns, n_rows)))[0].T


def dense_distance(a, b):
    """The definition: the norm of the singular values of the p x p difference."""
    singular_values = np.linalg.svd(a.T @ a - b.T @ b, compute_uv=False)
    return np.linalg.norm(singular_values)


def textbook_share(components, X):
    """The definition, with the p x p projector."""
    centered = X - X.mean(axis=0)
    projected = centered @ components.T @ components
    return (projected**2).sum() / (centered**2).sum()


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    scales = np.array([5.0, 3.0, 2.0, 1.0, 1.0, 0.5])
    return 7.0 + rng.standard_normal((120, 6)) * scales @ orthonormal_rows(6, 6, 1)


# --- subspace_distance


@pytest.mark.parametrize(
    ("r_a", "r_b", "p"),
    [(1, 1, 7), (3, 3, 7), (2, 4, 7), (5, 1, 7), (5, 4, 7), (6, 7, 7), (1, 1, 1)],
)
def test_distance_equals_the_dense_formula(r_a, r_b, p):
    a, b = orthonormal_rows(r_a, p, 1), orthonormal_rows(r_b, p, 2)
    found = subspace_distance(a, b)
    assert found == pytest.approx(dense_distance(a, b), rel=1e-12, abs=1e-13)
    assert subspace_distance(b, a) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("angle", [1e-3, 1e-6, 1e-9, 1e-10])
def test_tiny_angles_keep_their_digits(angle):
    # Three angles of ratio 1 : 2 : 3 between spans in general position.
    basis = orthonormal_rows(6, 40, 3)
    angles = angle * np.array([1.0, 2.0, 3.0])
    a, orthogonal = basis[:3], basis[3:]
    b = np.cos(angles)[:, None] * a + np.sin(angles)[:, None] * orthogonal
    b = orthonormal_rows(3, 3, 4) @ b  # another basis of the same span
    expected = np.linalg.norm(np.repeat(np.sin(angles), 2))
    assert subspace_distance(a, b) == pytest.approx(expected, rel=1e-6)


def test_distance_depends_on_the_span_alone():
    a, b = orthonormal_rows(3, 8, 1), orthonormal_rows(2, 8, 2)
    rotated = orthonormal_rows(3, 3, 5) @ a
    assert subspace_distance(a, rotated) < 1e-14
    assert subspace_distance(rotated, b) == pytest.approx(subspace_distance(a, b))
    assert subspace_distance(a, a.copy()) < 1e-14


# --- captured_variance


@pytest.mark.parametrize("block_size", [1, 100, 2**20])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_captured_variance_equals_the_textbook_formula(X, k, block_size, monkeypatch):
    monkeypatch.setattr(_scores, "BLOCK_SIZE", block_size)
    train, held_out = X[:80], X[80:] + 1.0
    pca = PCA(n_components=k).fit(train)
    expected = textbook_share(pca.components_, held_out)
    for scored in (pca, pca.components_, pca.components_.tolist()):
        found = captured_variance(scored, held_out)
        assert found == pytest.approx(expected, rel=1e-12)
        assert isinstance(found, float)
    assert captured_variance(pca, train) == pytest.approx(
        pca.explained_variance_ratio_.sum(), rel=1e-12
    )


def test_captured_variance_in_a_grid_search(X):
    search = GridSearchCV(
        PCA(svd_solver="full"), {"n_components": [1, 2, 6]}, scoring=captured_variance
    ).fit(X)
    assert search.best_params_ == {"n_components": 6}
    scores = search.cv_results_["mean_test_score"]
    assert scores[2] == pytest.approx(1.0)
    assert 0.3 < scores[0] < scores[1] < 0.95
    first_fold = PCA(n_components=1, svd_solver="full").fit(X[24:])
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(
        textbook_share(first_fold.components_, X[:24])
    )


def test_captured_variance_of_a_pipeline(X):
    train, held_out = X[:80], X[80:]
    pipe = make_pipeline(StandardScaler(), FunctionTransformer(), PCA(2)).fit(train)
    transformed = pipe[:-1].transform(held_out)
    expected = textbook_share(pipe[-1].components_, transformed)
    assert captured_variance(pipe, held_out) == pytest.approx(expected)
    assert expected != pytest.approx(textbook_share(pipe[-1].components_, held_out))


class ScaledPCA(BaseEstimator):
    """PCA of X / scale_, as an estimator with public bounds would do it."""

    def __init__(self, scale=None):
        self.scale = scale

    def fit(self, X, y=None):
        self.scale_ = self.scale
        scale = 1.0 if self.scale is None else np.where(self.scale == 0, 1, self.scale)
        weight = 1.0 if self.scale is None else np.asarray(self.scale) > 0
        self.components_ = PCA(2).fit(X / scale * weight).components_
        self.n_features_in_ = X.shape[1]
        return self


def test_captured_variance_with_scale(X):
    scale = np.array([1.0, 2.0, 4.0, 0.5, 1.0, 3.0])
    pca = ScaledPCA(scale).fit(X)
    expected = textbook_share(pca.components_, X / scale)
    assert captured_variance(pca, X) == pytest.approx(expected)
    assert expected != pytest.approx(textbook_share(pca.components_, X), rel=1e-3)

    unscaled = ScaledPCA(None).fit(X)
    expected = textbook_share(unscaled.components_, X)
    assert captured_variance(unscaled, X) == pytest.approx(expected)
    unscaled.scale_ = 2.0  # one number for all features changes nothing
    assert captured_variance(unscaled, X) == pytest.approx(expected)


def test_a_feature_of_scale_zero_does_not_count(X):
    scale = np.array([1.0, 2.0, 0.0, 0.5, 1.0, 3.0])
    pca = ScaledPCA(scale).fit(X)
    used = scale > 0
    expected = textbook_share(pca.components_[:, used], X[:, used] / scale[used])
    assert captured_variance(pca, X) == pytest.approx(expected)
    X[:2, 2] = 1e308, -1e308  # however large it is
    assert captured_variance(pca, X) == pytest.approx(expected)


def test_captured_variance_of_sparse_rows_and_frames(X):
    X = np.where(X > 8, X, 0.0)
    pca = PCA(2).fit(X)
    expected = captured_variance(pca, X)
    for rows in (sparse.csr_array(X), sparse.csr_matrix(X), sparse.csc_array(X)):
        assert captured_variance(pca.components_, rows) == pytest.approx(expected)
    columns = [f"x{j}" for j in range(6)]
    for frame in (pd.DataFrame(X, columns=columns), pl.DataFrame(X, schema=columns)):
        fitted = PCA(2).fit(frame)
        assert captured_variance(fitted, frame) == pytest.approx(expected)
    with pytest.raises(ValueError, match="feature names"):
        captured_variance(fitted, pd.DataFrame(X, columns=columns[::-1]))


@pytest.mark.parametrize(
    "rows", [np.full((5, 6), 0.1), np.zeros((4, 6)), np.full((7, 6), 1e300)]
)
def test_captured_variance_of_equal_rows_is_undefined(X, rows):
    pca = PCA(2).fit(X)
    for same in (rows, rows[:1], sparse.csr_array(rows)):
        with pytest.warns(UndefinedMetricWarning, match="all rows are equal"):
            assert np.isnan(captured_variance(pca.components_, same))


def test_captured_variance_rejects_what_it_cannot_score(X):
    with pytest.raises(NotFittedError):
        captured_variance(PCA(2), X)
    with pytest.raises(NotFittedError):
        captured_variance(make_pipeline(StandardScaler(), PCA(2)), X)
    with pytest.raises(TypeError, match="has no components_"):
        captured_variance(LinearRegression().fit(X, X[:, 0]), X)
    with pytest.raises(TypeError, match="has no components_"):
        captured_variance("pca", X)
    with pytest.raises(ValueError, match="components must have orthonormal rows"):
        captured_variance(FactorAnalysis(2).fit(X), X)
    with pytest.raises(ValueError, match="X has 5 features"):
        captured_variance(PCA(2).fit(X), X[:, :5])
    with pytest.raises(ValueError, match="X has 5 features, but the components have 6"):
        captured_variance(np.eye(6)[:2], X[:, :5])
    with pytest.raises(ValueError, match="contains NaN"):
        captured_variance(np.eye(6)[:2], np.full((3, 6), np.nan))
    with pytest.raises(ValueError, match="rescale X"):
        captured_variance(np.eye(2), np.array([[1e308, 0.0], [-1e308, 0.0]]))
    tiny_scale = ScaledPCA(np.full(6, 1e-10)).fit(X)
    with pytest.raises(ValueError, match="rescale X"):
        captured_variance(tiny_scale, X * 1e299)


@pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame])
def test_captured_variance_quotes_no_text(wrap):
    X = wrap(np.array([["secret", "1"], ["2", "3"]], dtype=object))
    for estimator in (np.eye(2)[:1], PCA(1).fit(np.eye(2))):
        with pytest.raises(ValueError, match="X must contain numbers") as caught:
            captured_variance(estimator, X)
        assert "secret" not in "".join(traceback.format_exception(caught.value))
