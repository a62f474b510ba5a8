"""Workloads and factorizations as objects: cloned, searched, saved, compared."""

import json

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skdpspectral import JMECovariance
from skdpspectral.covariance import BISR, Exponential, JointMoments, Window
from skdpspectral.factorizations import Average, Prefix

pytestmark = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")

X = np.random.default_rng(0).normal(0.1, 0.3, (90, 3))
FITTED = ("location_", "covariance_", "first_moment_", "second_moment_")


def alike(one, other):
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in FITTED)


def fitted(**parameters):
    return JMECovariance(noise_seed=0, **parameters).fit(X)


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ({"workload": "average"}, {"workload": Average()}),
        ({"workload": "prefix"}, {"workload": Prefix()}),
        ({"factorization": "bisr"}, {"factorization": BISR()}),
        ({"factorization": "bisr"}, {"factorization": BISR(bandwidth=64)}),
        ({"moments": "jme"}, {"moments": JointMoments()}),
        ({}, {"moments": "jme"}),
    ],
)
def test_a_name_stands_for_the_object_with_its_defaults(name, choice):
    assert alike(fitted(**name), fitted(**choice))
    plans = [JMECovariance(**p).privacy_plan(90, 3) for p in (name, choice)]
    assert plans[0] == plans[1]


def test_parameters_of_a_choice_matter():
    assert not alike(fitted(workload=Window(5)), fitted(workload=Window(6)))
    one, other = (fitted(workload=Exponential(d)) for d in (0.9, 0.8))
    assert not alike(one, other)
    one, other = (fitted(factorization=BISR(b)) for b in (4, 5))
    assert not alike(one, other)
    one, other = (fitted(moments=JointMoments(w)) for w in ("free", 9.0))
    assert not alike(one, other)


def test_numbers_of_numpy_are_numbers():
    """A length of eight bits, or a decay of single precision, is computed in full."""
    for narrow, wide in (
        (Window(np.int8(100)), Window(100)),
        (Exponential(np.float32(0.75)), Exponential(0.75)),
    ):
        for factorization in ("blt", "sqrt", BISR(np.int8(9))):
            found = fitted(workload=narrow, factorization=factorization)
            assert alike(found, fitted(workload=wide, factorization=factorization))


def edited(path, **changes):
    """Change parameters in the header of a file."""
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header")))
    header["parameters"].update(changes)
    with open(path, "wb") as file:
        np.savez(file, header=np.array(json.dumps(header)), **arrays)


@pytest.mark.parametrize(
    "written",
    [
        {"strategy": "Custom", "parameters": {"weights": [[1.0]]}},
        {"strategy": "Workload", "parameters": {}},
        {"strategy": "JMECovariance", "parameters": {}},
        {"strategy": "Window", "parameters": {"length": 0}},
        {"strategy": "Window", "parameters": {"length": {}}},
        {"strategy": "Window", "parameters": {"decay": 0.5}},
        {"length": 5},
    ],
    ids=str,
)
def test_files_name_known_strategies_alone(written, tmp_path):
    path = tmp_path / "model.npz"
    fitted(workload=Window(5)).save(path)
    edited(path, workload={"strategy": "Window", "parameters": {"length": 6}})
    assert JMECovariance.load(path).workload.length == 6
    edited(path, workload=written)
    with pytest.raises(ValueError, match="not a published estimator"):
        JMECovariance.load(path)


def test_searches_vary_choices_and_what_is_in_them():
    model = JMECovariance(epsilon=None, workload=Window(5))
    search = GridSearchCV(model, {"workload__length": [2, 50]}, cv=3).fit(X)
    assert search.best_params_ == {"workload__length": 50}
    assert search.best_estimator_.workload.length == 50
    assert model.workload.length == 5
    grid = {"workload": ["average", Window(2), Exponential(0.5)]}
    search = GridSearchCV(JMECovariance(epsilon=None), grid, cv=3).fit(X)
    assert search.best_params_["workload"] == "average"
    model = JMECovariance(factorization=BISR(8)).set_params(factorization__bandwidth=9)
    assert str(model) == "JMECovariance(factorization=BISR(bandwidth=9))"
    model = JMECovariance(moments=JointMoments(2.0), noise_seed=0)
    grid = {"moments__weight": ["free", 0.8]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X)
    assert search.best_params_["moments__weight"] in ("free", 0.8)
    assert model.moments.weight == 2.0


def test_a_stream_keeps_what_it_began_with():
    """Objects that change under a stream are refused, as other parameters are."""
    parameters = {"workload": Window(5), "factorization": BISR(4), "horizon": 90}
    parameters["moments"] = JointMoments(2.0)
    stream = JMECovariance(noise_seed=0, **parameters).partial_fit(X[:30])
    stream.set_params(moments__weight=3.0)
    with pytest.raises(ValueError, match="moments was changed"):
        stream.partial_fit(X[30:60])
    stream.set_params(moments=JointMoments(2.0))
    for nested, own in (("workload__length", 5), ("factorization__bandwidth", 4)):
        stream.set_params(**{nested: 6})
        with pytest.raises(ValueError, match=f"{nested.split('__')[0]} was changed"):
            stream.partial_fit(X[30:60])
        stream.set_params(**{nested: own})
    for other in ("average", Exponential(0.5), Window(6)):
        stream.set_params(workload=other)
        with pytest.raises(ValueError, match="workload was changed"):
            stream.partial_fit(X[30:60])
    # What is alike in value is alike.
    stream.set_params(workload=Window(5), factorization=BISR(np.int64(4)))
    stream.partial_fit(X[30:])
    assert stream.n_samples_seen_ == 90
    parameters |= {"moments": JointMoments(2.0), "horizon": None}
    assert alike(stream, fitted(**parameters))


def test_a_path_keeps_what_it_began_with():
    model = JMECovariance(noise_seed=0, workload=Window(5))
    path = model.release_path(X)
    model.set_params(workload__length=80)
    *_, last = path
    assert np.array_equal(last.location, fitted(workload=Window(5)).location_)
