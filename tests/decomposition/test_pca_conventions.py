"""What users of PCA expect of private components, wherever it is true."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from skdpspectral import DPPCA, FederatedDPPCA, SparseDPPCA, SpikedPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.decomposition import SpikedModel

pytestmark = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
N, P = 600, 6
ROWS = make_spiked_covariance(
    N, P, n_components=2, signal_variance=[9.0, 4.0], random_state=0
)[0] + np.arange(P)
CLIENTS = np.repeat(["a", "b", "c"], [100, 200, 300])
COVARIANCE = {"projection_norm": 12.0}
MODEL = {"mechanism": SpikedModel(1e6, 1.0, release="covariance")}
# So little noise that no variance across the components is lost in it.
QUIET = {"epsilon": 50.0, "delta": 1e-3}
METHODS = ("get_covariance", "get_precision", "score", "score_samples")
# Estimators that know all variances of the data, and those that do not, with a word of
# the remedy.
KNOWN = [
    SpikedPCA(1, signal_variance=1e6, noise_variance=1.0),
    SpikedPCA(1, signal_variance=1e6, noise_variance=1.0, release="covariance"),
    FederatedDPPCA(1, **MODEL),
    FederatedDPPCA(1, **MODEL, aggregation="matrix"),
]
UNKNOWN = [
    (FederatedDPPCA(), "mechanism"),
    (FederatedDPPCA(aggregation="matrix"), "mechanism"),
    (FederatedDPPCA(**COVARIANCE), "mechanism"),
    (FederatedDPPCA(1, mechanism=SpikedModel(1e6, 1.0)), "covariance"),
]


def fitted(estimator, **parameters):
    estimator = type(estimator)(**{**estimator.get_params(deep=False), **parameters})
    if isinstance(estimator, DPPCA | SpikedPCA):
        return estimator.fit(ROWS)
    return estimator.fit(ROWS, clients=CLIENTS)


def test_ratios_of_unit_rows_are_those_of_unit_rows():
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(unit.T @ unit / N)[::-1][:2]
    for estimator in (FederatedDPPCA(aggregation="matrix"), SparseDPPCA(2)):
        model = fitted(estimator, epsilon=None, center="none")
        np.testing.assert_allclose(model.explained_variance_ratio_, values, rtol=1e-9)
        assert not hasattr(model, "noise_variance_")


@pytest.mark.parametrize("estimator", KNOWN, ids=str)
def test_the_model_is_there_where_its_variances_are(estimator, tmp_path):
    assert all(hasattr(estimator, name) for name in METHODS)
    model = fitted(estimator, **QUIET, noise_seed=0)
    covariance = model.get_covariance()
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-12)
    inverse = model.get_precision() @ covariance
    np.testing.assert_allclose(inverse, np.eye(P), atol=1e-7)
    law = multivariate_normal(model.mean_, covariance, allow_singular=True)
    np.testing.assert_allclose(model.score_samples(ROWS), law.logpdf(ROWS), rtol=1e-6)
    assert model.score(ROWS) == pytest.approx(law.logpdf(ROWS).mean(), rel=1e-6)
    expected = np.sqrt(N * model.explained_variance_)
    np.testing.assert_allclose(model.singular_values_, expected)
    values, noise = model.explained_variance_, model.noise_variance_
    total = values.sum() + (P - len(values)) * noise
    np.testing.assert_allclose(model.explained_variance_ratio_, values / total)

    model.save(tmp_path / "pca.npz")
    for copy in (model.publish(), type(model).load(tmp_path / "pca.npz")):
        for name in ("explained_variance_ratio_", "singular_values_"):
            np.testing.assert_array_equal(getattr(copy, name), getattr(model, name))
        np.testing.assert_array_equal(copy.get_covariance(), covariance)
        np.testing.assert_array_equal(copy.transform(ROWS), model.transform(ROWS))
    # What it holds counts, and not what its parameters have become.
    federated = isinstance(model, FederatedDPPCA)
    model.set_params(
        **{"mechanism": "gaussian"} if federated else {"signal_variance": 1}
    )
    np.testing.assert_array_equal(model.get_covariance(), covariance)


@pytest.mark.parametrize(("estimator", "remedy"), UNKNOWN, ids=str)
def test_the_model_is_not_there_where_it_would_lie(estimator, remedy):
    with pytest.raises(NotFittedError):
        _ = estimator.singular_values_
    for model in (estimator, fitted(estimator, **QUIET)):
        assert not hasattr(model, "singular_values_")
        for name in METHODS:
            assert not hasattr(model, name)
            with pytest.raises(AttributeError, match=name) as caught:
                getattr(model, name)
            assert remedy in str(caught.value.__cause__)
    with pytest.raises(AttributeError, match=remedy):
        _ = model.singular_values_


def test_other_parameters_make_no_variances_of_a_fit():
    model = fitted(FederatedDPPCA()).set_params(**MODEL)
    assert not hasattr(model, "score")
    with pytest.raises(AttributeError) as caught:
        model.score(ROWS)
    assert "fit again" in str(caught.value.__cause__)


def test_what_an_earlier_fit_knew_is_gone():
    model = fitted(FederatedDPPCA(1, **MODEL))
    assert hasattr(model, "noise_variance_")
    model = fitted(model, mechanism="gaussian")
    model.set_params(aggregation="matrix", noise_seed=0).fit(ROWS)
    assert not hasattr(model, "noise_variance_")
    assert not hasattr(model, "score")
    model.set_params(aggregation="projector").fit(ROWS)
    assert not hasattr(model, "explained_variance_ratio_")


def test_the_column_of_clients_is_no_feature_of_a_row():
    table = np.column_stack([np.arange(N) % 3, ROWS])
    given = {**MODEL, "noise_seed": 0}
    for cls, more in ((FederatedDPPCA, given), (SparseDPPCA, {"noise_seed": 0})):
        beside = cls(2, **more).fit(ROWS, clients=np.arange(N) % 3)
        inside = cls(2, client_feature=0, **more).fit(table)
        np.testing.assert_array_equal(inside.transform(table), beside.transform(ROWS))
        if more is given:
            np.testing.assert_array_equal(
                inside.score_samples(table), beside.score_samples(ROWS)
            )


# -- tags ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        DPPCA(),
        DPPCA(center="none"),
        DPPCA(bounds=(-9, 15)),
        FederatedDPPCA(),
        SparseDPPCA(2),
    ],
    ids=str,
)
def test_tags_are_true(estimator):
    tags = get_tags(estimator)
    for kind in tags.transformer_tags.preserves_dtype:
        model = estimator.fit(ROWS.astype(kind))
        assert model.transform(ROWS.astype(kind)).dtype == kind
    assert set(tags.transformer_tags.preserves_dtype) == {"float64", "float32"}
    rows = sparse.csr_array(ROWS)
    if tags.input_tags.sparse:
        estimator.fit(rows).transform(rows)
    else:
        with pytest.raises((TypeError, ValueError), match=r"(?i)sparse|bounds|center"):
            estimator.fit(rows)


# -- one error for one mistake ---------------------------------------------------------


def test_a_budget_that_is_no_number_is_not_taken_for_no_privacy():
    for value in ("x", [1.0], {}, float("nan")):
        for cls in (DPPCA, FederatedDPPCA, SparseDPPCA):
            model = cls(2, epsilon=value)
            assert get_tags(model).non_deterministic
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(ValueError, match="epsilon"):
                    model.fit(ROWS)
