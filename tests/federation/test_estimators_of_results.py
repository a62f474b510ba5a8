"""A fitted estimator from what separate clients have released."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from federation_tools import answers, registered, rows_of

from skdpspectral import FederatedDPPCA, PrivacyLeakWarning, SparseDPPCA
from skdpspectral.decomposition import (
    Aggregation,
    ComponentCovariance,
    PrivateMean,
    SpikedModel,
)
from skdpspectral.federation import LocalClient, Rounds, Server, make_task

NAMES = list("uvwxyz")
LOW = np.array([-30.0, -20.0, -9.0, -8.0, -7.0, -30.0])
PARAMETERS = {
    "plain": {},
    "box": {"bounds": (-20, 21.5)},
    "box, own means": {"bounds": (-20, 21.5), "center": "private"},
    "scaled": {"bounds": (LOW, -LOW + 0.3), "scale": "bounds", "center": "none"},
    "clipped": {"clip_norm": 7.0, "aggregation": "matrix"},
    "radius": {"clip_norm": 7.0, "center": PrivateMean(3.0)},
    "shared": {"center": "shared", "release": ComponentCovariance(9.0)},
    "covariance": {"release": ComponentCovariance(9.0)},
    "model": {"mechanism": SpikedModel([9.0, 4.0], 1.0), "release": "covariance"},
    "own mean": {"mechanism": SpikedModel([9.0, 4.0], 1.0, mean="unknown")},
    "paper": {
        "mechanism": SpikedModel(
            9.0, 1.0, calibration="paper", sensitivity_constant=2.0
        )
    },
    "private variances": {"mechanism": SpikedModel("private", "private")},
    "public components": {"release": ComponentCovariance(9.0, np.eye(6)[:2])},
    "eigengap": {"aggregation": Aggregation("matrix", eigengap=0.3)},
    "rounds": {"n_rounds": 2, "n_nonzero_features": 3},
    "public start": {"n_rounds": 1, "init": np.eye(6)[:2], "clip_norm": 5.0},
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*this is the guarantee of the noise"),
]


def estimator_of(name, **more):
    given = {**PARAMETERS[name], **more}
    kind = SparseDPPCA if "n_rounds" in given else FederatedDPPCA
    return kind(2, **given)


def federated(estimator, task=None, n=800, **how):
    """What two clients of the estimator's task release."""
    if task is None:
        task = estimator._task(6)
    rows = {"a": rows_of(0, n), "b": rows_of(1, 2 * n)}
    if task.feature_names is not None:
        rows = {k: pd.DataFrame(X, columns=NAMES) for k, X in rows.items()}
    budgets = {"a": 0.5, "b": 2.0}
    clients = {
        name: LocalClient(name, X, task, epsilon=budgets[name], **how)
        for name, X in rows.items()
    }
    kept = getattr(estimator, "n_nonzero_features", None)
    init = getattr(estimator, "init", "private")
    init = None if isinstance(init, str) else init
    if isinstance(estimator, FederatedDPPCA):
        init = estimator._given_components()
    gap = estimator._aggregation().eigengap
    server = Server(registered(clients), task, min_clients=2, eigengap=gap)
    rounds = Rounds(server, n_nonzero_features=kept, init=init)
    while not rounds.done:
        rounds.collect(answers(clients, rounds.request()))
    return rounds.result()


def numbers_of(task):
    """All numbers in the bytes of a task."""
    data = task.to_bytes()
    end = 8 + int.from_bytes(data[4:8], "little")
    floats = re.findall(rb"[:\[,](-?\d[\d.e+-]*)", data[8:end])
    return [*map(float, floats), *np.frombuffer(data[end:-16], "<f8")]


@pytest.mark.parametrize("name", PARAMETERS)
def test_it_is_as_a_fit_leaves_it(name, tmp_path):
    """The same attributes and plan; it transforms, publishes, and is saved and read."""
    alone = estimator_of(name, epsilon={"a": 0.5, "b": 2.0})
    chosen = alone._aggregation()
    alone.set_params(aggregation=chosen.set_params(min_clients=2))
    X = np.concatenate([rows_of(0, 800), rows_of(1, 1600)])
    alone.fit(X, clients=np.repeat(["a", "b"], [800, 1600]))
    found = type(alone).from_result(federated(alone))
    assert vars(found).keys() == vars(alone).keys()
    said = found.privacy_.remarks[-1]
    assert "was not checked" in said
    for (client, plan), (other, expected) in zip(
        found.privacy_.blocks, alone.privacy_.blocks, strict=True
    ):
        plan = dataclasses.replace(plan, remarks=plan.remarks[:-1])
        assert (client, plan) == (other, expected)
    assert (found.n_samples_, found.n_features_in_) == (2400, 6)
    task, again = alone._task(6), found._task(6)
    assert task.topics == again.topics
    assert str(found._aggregation()) == str(alone._aggregation())
    np.testing.assert_allclose(numbers_of(task), numbers_of(again), rtol=1e-15)
    found.save(tmp_path / "pca.npz")
    read = type(found).load(tmp_path / "pca.npz")
    published = found.publish()
    for other in (read, published):
        assert np.array_equal(other.transform(X), found.transform(X))
        assert other.privacy_ == found.privacy_
        assert other.clients_.tolist() == ["a", "b"]
    assert found.inverse_transform(found.transform(X)).shape == X.shape


def test_features_have_the_names_of_the_task():
    task = make_task(2, 6, feature_names=NAMES)
    found = FederatedDPPCA.from_result(federated(FederatedDPPCA(), task))
    assert found.feature_names_in_.tolist() == NAMES
    table = pd.DataFrame(rows_of(2), columns=NAMES)
    assert found.transform(table).shape == (50, 2)
    with pytest.raises(ValueError, match="eature names"):
        found.transform(table[NAMES[::-1]])


def test_a_release_without_privacy_says_so():
    task, rows = make_task(1, 6), {"a": rows_of(0), "b": rows_of(1)}
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        clients = {
            name: LocalClient(name, X, task, epsilon={"a": None, "b": 1.0}[name])
            for name, X in rows.items()
        }
    rounds = Rounds(Server(registered(clients), task))
    while not rounds.done:
        rounds.collect(answers(clients, rounds.request()))
    found = FederatedDPPCA.from_result(rounds.result())
    assert found.epsilon is None
    assert not found.privacy_.private
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        found.publish()


def test_what_is_no_result_is_refused():
    result = federated(FederatedDPPCA())
    with pytest.raises(TypeError, match="FederatedResult"):
        FederatedDPPCA.from_result(result.components)
    with pytest.raises(ValueError, match=r"use FederatedDPPCA\.from_result"):
        SparseDPPCA.from_result(result)
    sparse = federated(SparseDPPCA(2))
    with pytest.raises(ValueError, match=r"use SparseDPPCA\.from_result"):
        FederatedDPPCA.from_result(sparse)
    with pytest.raises(ValueError, match="no registrations"):
        FederatedDPPCA.from_result(dataclasses.replace(result, registered=None))
