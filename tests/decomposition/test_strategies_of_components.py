"""Objects that choose a mechanism or a center: parameters, copies, searches, files."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skdpspectral import DPPCA, FederatedDPPCA, PrivacyAccountant, SparseDPPCA
from skdpspectral.decomposition import Auto, Gaussian, PrivateMean, TwoStage
from skdpspectral.federation import SpectralTask
from skdpspectral.metrics import captured_variance

X = np.random.default_rng(0).normal(size=(600, 5)) * [9.0, 4.0, 1.0, 1.0, 1.0]
CHOICES = [
    {"mechanism": TwoStage([2.0, 1.0], 0.5)},
    {"mechanism": Auto(norm_range=(0.1, 100.0)), "center": PrivateMean(9.0)},
]
NAMES = [type(choice["mechanism"]).__name__ for choice in CHOICES]
every_choice = pytest.mark.parametrize("choice", CHOICES, ids=NAMES)


def test_signatures_are_small():
    sizes = {cls: len(cls._get_param_names()) for cls in (DPPCA, FederatedDPPCA)}
    assert sizes[DPPCA] <= 11
    assert sizes[FederatedDPPCA] <= 16
    assert len(SparseDPPCA._get_param_names()) <= 17


@pytest.mark.parametrize(("name", "made"), [("two-stage", TwoStage), ("auto", Auto)])
def test_a_name_stands_for_the_object_with_its_defaults(name, made):
    by_name, by_object = (DPPCA(mechanism=m, noise_seed=0) for m in (name, made()))
    assert by_name.privacy_plan(600, 5) == by_object.privacy_plan(600, 5)
    with pytest.warns(match="noise_seed"):
        components = [p.fit(X).components_ for p in (by_name, by_object)]
    assert np.array_equal(*components)


@every_choice
def test_clones_are_copies_that_are_set_apart(choice):
    pca = DPPCA(**choice)
    other = clone(pca)
    assert repr(other) == repr(pca)
    assert other.mechanism is not pca.mechanism
    other.set_params(mechanism__noise_variance=7.0)
    assert other.mechanism.noise_variance == 7.0
    assert pca.mechanism.noise_variance != 7.0
    assert f"{type(pca.mechanism).__name__}(" in repr(pca)


def test_files_of_clients_hold_budgets_and_objects(tmp_path):
    clients = np.repeat(["a", "b"], 300)
    budgets = {"a": 1.0, "b": 2.0}
    pca = FederatedDPPCA(1, epsilon=budgets, mechanism=Gaussian(), bounds=(-30, 30))
    pca.fit(X, clients=clients).save(tmp_path / "pca.npz")
    loaded = FederatedDPPCA.load(tmp_path / "pca.npz")
    assert loaded.epsilon == budgets
    assert isinstance(loaded.mechanism, Gaussian)
    assert np.array_equal(loaded.client_weights_, pca.client_weights_)


@pytest.mark.parametrize(
    "written",
    [
        {"strategy": "PrivacyAccountant", "parameters": {}},
        {"strategy": "TwoStage", "parameters": {"zz": 1}},
        {"strategy": "os.system", "parameters": {"command": "true"}},
    ],
)
def test_files_that_name_anything_else_are_refused(written, tmp_path):
    path = tmp_path / "pca.npz"
    DPPCA(mechanism=TwoStage()).fit(X).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays["header"]))
    header["parameters"]["mechanism"] = written
    arrays["header"] = np.array(json.dumps(header))
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="not a published estimator"):
        DPPCA.load(path)


def test_what_was_published_does_not_follow_the_object():
    mechanism = TwoStage(noise_variance=1.0)
    published = DPPCA(mechanism=mechanism).fit(X).publish()
    mechanism.noise_variance = 2.0
    assert published.mechanism.noise_variance == 1.0


def test_searches_go_over_objects_and_their_parameters():
    grid = [
        {"mechanism": ["gaussian", TwoStage(), Auto(1.0, 1.0)]},
        {"mechanism": [TwoStage()], "mechanism__noise_variance": [1.0, None]},
        {"center": ["none", PrivateMean(30.0)], "epsilon": [1.0]},
    ]
    with PrivacyAccountant() as accountant:
        search = GridSearchCV(DPPCA(1), grid, scoring=captured_variance, cv=2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".*too few for private lengths")
            search.fit(X)
    assert len(search.cv_results_["params"]) == 7
    assert len(accountant.ledger) == 7 * 2 + 1
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@every_choice
def test_a_changed_object_changes_the_next_fit_alone(choice):
    pca = DPPCA(**choice).fit(X)
    plan = pca.privacy_
    pca.set_params(epsilon=0.5)
    assert pca.privacy_ is plan
    assert pca.fit(X).privacy_ != plan


def test_a_task_takes_the_objects_of_the_estimators():
    given = {
        "mechanism": Gaussian(),
        "bounds": (-30, 30),
        "center": PrivateMean(9.0),
        "scale": "bounds",
    }
    task = SpectralTask(FederatedDPPCA(2, **given), 5)
    assert SpectralTask.from_json(task.to_json()) == task
    assert task.rows.origin.radius == 9.0
    for other in ({"center": PrivateMean(8.0)}, {"scale": None}):
        assert task != SpectralTask(FederatedDPPCA(2, **{**given, **other}), 5)
