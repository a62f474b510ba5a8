"""Objects that choose a mechanism or a center: parameters, copies, searches, files."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from skdpspectral import DPPCA, FederatedDPPCA, SparseDPPCA
from skdpspectral.decomposition import SpikedModel
from skdpspectral.federation import SpectralTask

X = np.random.default_rng(0).normal(size=(600, 5)) * [9.0, 4.0, 1.0, 1.0, 1.0]


def test_signatures_are_small():
    sizes = {cls: len(cls._get_param_names()) for cls in (DPPCA, FederatedDPPCA)}
    assert sizes[DPPCA] <= 8
    assert sizes[FederatedDPPCA] <= 13
    assert len(SparseDPPCA._get_param_names()) <= 14


def test_clones_are_copies_that_are_set_apart():
    pca = FederatedDPPCA(1, mechanism=SpikedModel(9.0, 3.0))
    other = clone(pca)
    assert repr(other) == repr(pca)
    assert other.mechanism is not pca.mechanism
    other.set_params(mechanism__noise_variance=7.0)
    assert other.mechanism.noise_variance == 7.0
    assert pca.mechanism.noise_variance != 7.0
    assert "SpikedModel(" in repr(pca)


def test_files_of_clients_hold_budgets_and_objects(tmp_path):
    clients = np.repeat(["a", "b"], 300)
    budgets = {"a": 1.0, "b": 2.0}
    pca = FederatedDPPCA(1, epsilon=budgets, projection_norm=9.0)
    pca.fit(X, clients=clients).save(tmp_path / "pca.npz")
    loaded = FederatedDPPCA.load(tmp_path / "pca.npz")
    assert loaded.epsilon == budgets
    assert loaded.projection_norm == 9.0
    assert np.array_equal(loaded.client_weights_, pca.client_weights_)


@pytest.mark.parametrize(
    "written",
    [
        {"strategy": "PrivacyAccountant", "parameters": {}},
        {"strategy": "SpikedModel", "parameters": {"zz": 1}},
        {"strategy": "os.system", "parameters": {"command": "true"}},
    ],
)
def test_files_that_name_anything_else_are_refused(written, tmp_path):
    path = tmp_path / "pca.npz"
    pca = FederatedDPPCA(1, bounds=(-30, 30))
    pca.fit(X, clients=np.arange(len(X)) % 2).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays["header"]))
    header["parameters"]["mechanism"] = written
    arrays["header"] = np.array(json.dumps(header))
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="not a published estimator"):
        FederatedDPPCA.load(path)


def test_a_task_takes_the_objects_of_the_estimators():
    given = {"bounds": (-30, 30), "center": "shared"}
    task = SpectralTask(FederatedDPPCA(2, **given), 5)
    assert SpectralTask.from_json(task.to_json()) == task
    for other in ({"center": "pairs"}, {"bounds": None}):
        assert task != SpectralTask(FederatedDPPCA(2, **{**given, **other}), 5)
