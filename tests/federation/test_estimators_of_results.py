"""A fitted estimator from what separate clients have released."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from federation_tools import hold, make_rounds, make_task, registered, rows_of

from skdpspectral import FederatedDPPCA, PrivacyLeakWarning, SparseDPPCA
from skdpspectral.decomposition import SpikedModel
from skdpspectral.federation import LocalClient, Rounds, SpectralTask

NAMES = list("uvwxyz")
LOW = np.array([-30.0, -20.0, -9.0, -8.0, -7.0, -30.0])
COVARIANCE = {"projection_norm": 9.0}
BOX = {"bounds": (-20, 21.5)}
PARAMETERS = {
    "plain": {},
    "matrices": {"aggregation": "matrix", "center": "none"},
    "weights": {"weights": {"a": 1.0, "b": 3.0}, "aggregation": "matrix"},
    "box": BOX,
    "sides": {"bounds": (LOW, -LOW + 0.3), "center": "none"},
    "shared": {**COVARIANCE, "center": "shared"},
    "shared, whole": {**COVARIANCE, "center": "shared", "aggregation": "matrix"},
    "covariance": {**COVARIANCE, **BOX},
    "model": {"mechanism": SpikedModel([9.0, 4.0], 1.0, release="covariance")},
    "own mean": {"mechanism": SpikedModel([9.0, 4.0], 1.0, mean="unknown")},
    "paper": {
        "mechanism": SpikedModel(
            9.0, 1.0, calibration="paper", sensitivity_constant=2.0
        )
    },
    "private variances": {"mechanism": SpikedModel("private", "private")},
    "rounds": {"n_rounds": 2, "n_nonzero_features": 3},
    "rounds in a box": {"n_rounds": 2, **BOX},
}
pytestmark = [pytest.mark.filterwarnings("ignore:.*this is the guarantee of the noise")]
ROWS = {"a": rows_of(0, 800), "b": rows_of(1, 1600)}
X, SITES = np.concatenate([*ROWS.values()]), np.repeat(["a", "b"], [800, 1600])
BUDGETS = {"a": 0.5, "b": 2.0}


def estimator_of(name, **more):
    given = {"min_clients": 2, **PARAMETERS[name], **more}
    return (SparseDPPCA if "n_rounds" in given else FederatedDPPCA)(2, **given)


def federated(task, budgets=BUDGETS):
    """What two clients of a task release, in a session over bytes."""
    clients = {
        name: LocalClient(name, rows, task, epsilon=budgets[name])
        for name, rows in ROWS.items()
    }
    return hold(make_rounds(task, clients), clients)


@pytest.mark.parametrize("name", PARAMETERS)
def test_it_is_as_a_fit_leaves_it(name, tmp_path):
    """The same attributes and plan; it transforms, publishes, and is saved and read."""
    alone = estimator_of(name, epsilon=BUDGETS).fit(X, clients=SITES)
    found = federated(SpectralTask(estimator_of(name), 6))
    assert vars(found).keys() == vars(alone).keys()
    assert "was not checked" in found.privacy_.remarks[-1]
    for (client, plan), (other, expected) in zip(
        found.privacy_.blocks, alone.privacy_.blocks, strict=True
    ):
        plan = dataclasses.replace(plan, remarks=plan.remarks[:-1])
        assert (client, plan) == (other, expected)
    assert (found.n_samples_, found.n_features_in_) == (2400, 6)
    ours, theirs = (model.get_params(deep=False) for model in (found, alone))
    assert ours.pop("delta") == dict.fromkeys("ab", theirs.pop("delta"))
    assert str(ours) == str(theirs)
    found.save(tmp_path / "pca.npz")
    for other in (type(found).load(tmp_path / "pca.npz"), found.publish()):
        assert np.array_equal(other.transform(X), found.transform(X))
        assert other.privacy_ == found.privacy_
        assert other.clients_.tolist() == ["a", "b"]
    assert found.inverse_transform(found.transform(X)).shape == X.shape


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_without_noise_both_are_the_same_number_by_number(name):
    if name == "paper":
        return
    alone = estimator_of(name, epsilon=None).fit(X, clients=SITES)
    found = federated(SpectralTask(estimator_of(name), 6), {"a": None, "b": None})
    for attribute, value in vars(alone).items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fb":
            np.testing.assert_allclose(getattr(found, attribute), value)
    assert found.epsilon is None


def test_features_have_the_names_of_the_task():
    task, tables = make_task(2, 6, feature_names=NAMES), {}
    for name, rows in ROWS.items():
        tables[name] = pd.DataFrame(rows, columns=NAMES)
    clients = {name: LocalClient(name, X, task) for name, X in tables.items()}
    found = hold(make_rounds(task, clients), clients)
    assert found.feature_names_in_.tolist() == NAMES
    table = pd.DataFrame(rows_of(2), columns=NAMES)
    assert found.transform(table).shape == (50, 2)
    with pytest.raises(ValueError, match="eature names"):
        found.transform(table[NAMES[::-1]])


def test_a_release_without_privacy_says_so():
    task = make_task(1, 6)
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        found = federated(task, {"a": None, "b": 1.0})
    assert found.epsilon is None
    assert not found.privacy_.private
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        found.publish()


def test_a_task_is_not_changed_by_a_session():
    task = SpectralTask(FederatedDPPCA(2, center="none"), 6)
    clients = {name: LocalClient(name, rows, task) for name, rows in ROWS.items()}
    found = hold(Rounds(registered(clients), task), clients)
    assert found is not task.estimator
    assert not hasattr(task.estimator, "components_")
    assert task.estimator.epsilon == 1.0
