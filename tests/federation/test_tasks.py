"""Tasks: one form for the parameters of an estimator, and nothing else is one."""

import copy
import hashlib
import json
import pickle

import numpy as np
import pytest
from federation_tools import make_task

from skdpspectral import DPPCA, FederatedDPPCA
from skdpspectral.decomposition import SpikedModel
from skdpspectral.federation import MessageError, SpectralTask

MODEL = {"mechanism": SpikedModel(signal_variance=[4.0, 2.0], noise_variance=1.0)}
SIDES = np.array([[-3.0, -2.0, -1.0, 0.0, -5.0], [1.0, 2.0, 7.0, 0.0, 5.0]])
PARAMETERS = {
    "plain": {},
    "names": {"feature_names": list("abcde")},
    "other order of names": {"feature_names": list("edcba")},
    "names cut elsewhere": {"feature_names": ["ab", "", "c", "dä", "e\0"]},
    "matrix": {"aggregation": "matrix"},
    "clients": {"min_clients": 2},
    "weights": {"weights": {"a": 1.0, "b": 2.0}},
    "pairs": {"center": "pairs"},
    "shared": {"center": "shared"},
    "box, shared": {"bounds": (-20, 20), "center": "shared", "aggregation": "matrix"},
    "box": {"bounds": (-20, 20), "center": "pairs"},
    "other box": {"bounds": (-20, 21), "center": "pairs"},
    "box, no mean": {"bounds": (-20, 20), "center": "none"},
    "box a feature": {"bounds": tuple(SIDES)},
    "rounds": {"n_rounds": 3},
    "two rounds": {"n_rounds": 2},
    "few features": {"n_rounds": 3, "n_nonzero_features": 3},
    "covariance": {"projection_norm": 4.0},
    "other covariance": {"projection_norm": 4.000001},
    "private": {"mechanism": SpikedModel("private", "private")},
    "model": MODEL,
    "other model": {"mechanism": SpikedModel([4.0, 2.5], 1.0)},
    "model, covariance": {
        "mechanism": SpikedModel([4.0, 2.0], 1.0, release="covariance")
    },
    "paper": {"mechanism": SpikedModel([4.0, 2.0], 1.0, calibration="paper")},
    "paper, constant": {
        "mechanism": SpikedModel(
            [4.0, 2.0], 1.0, calibration="paper", sensitivity_constant=5.0
        )
    },
}
TASKS = {name: make_task(2, 5, **given) for name, given in PARAMETERS.items()}
TASKS |= {"one component": make_task(1, 5), "six features": make_task(2, 6)}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_there_and_back(task):
    again = SpectralTask.from_json(task.to_json())
    assert again == task
    assert hash(again) == hash(task)
    assert again.to_json() == task.to_json()
    assert again.digest == hashlib.sha256(task.to_json().encode()).digest()[:16]
    assert [type(q) for q in again.queries] == [type(q) for q in task.queries]
    budget = "a", 1000, 1.0, 1e-6  # the model needs 903 rows
    assert again.party(*budget) == task.party(*budget)
    means = [t.rows.rows().to_data(np.ones(task.n_features)) for t in (task, again)]
    assert np.array_equal(*means)
    for copied in (copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        assert copied == task


def test_whatever_differs_has_another_digest():
    assert len({task.digest for task in TASKS.values()}) == len(TASKS)
    assert len(set(TASKS.values())) == len(TASKS)
    assert TASKS["plain"] != "plain"


def test_what_means_the_same_has_the_same_digest():
    task = make_task(2, 5, bounds=(-20, 20), projection_norm=3, min_clients=2)
    for bounds in ([-20.0, 20.0], np.array([-20, 20], dtype=np.float32)):
        given = {"bounds": bounds, "projection_norm": np.float64(3.0), "min_clients": 2}
        assert make_task(np.int64(2), 5, **given) == task
    # What is of one party alone.
    own = {"noise_seed": 3, "client_feature": 0}
    assert SpectralTask(FederatedDPPCA(2, center="none", **own), 5) == TASKS["plain"]
    zeros = [make_task(1, 5, bounds=(zero, 1)) for zero in (0, 0.0, -0.0)]
    assert len({t.digest for t in zeros}) == 1


def test_later_changes_of_parameters_change_no_task():
    low, high = SIDES.copy()
    signal = np.array([4.0, 2.0])
    estimators = [
        FederatedDPPCA(2, bounds=(low, high)),
        FederatedDPPCA(2, mechanism=SpikedModel(signal, 1.0)),
    ]
    tasks = [SpectralTask(estimator, 5) for estimator in estimators]
    plans = [task.party("a", 1000, 1.0, 1e-6).plan for task in tasks]
    low -= 1.0
    signal *= 100.0
    estimators[0].set_params(n_components=1)
    for task, plan in zip(tasks, plans, strict=True):
        again = SpectralTask.from_json(task.to_json())
        assert again.party("a", 1000, 1.0, 1e-6).plan == plan
        assert again.n_components == 2
        means = [t.rows.rows().to_data(None) for t in (task, again)]
        assert np.array_equal(*means)


def forged(name="box a feature", parameters=None, mechanism=None, **more):
    """A task with other content; None removes a parameter."""
    form = {**json.loads(TASKS[name].to_json()), **more}
    form["parameters"] |= parameters or {}
    if mechanism is not None:
        form["parameters"]["mechanism"]["parameters"] |= mechanism
    kept = {k: v for k, v in form["parameters"].items() if v != "gone"}
    return json.dumps({**form, "parameters": kept}, sort_keys=True)


BAD = [
    *[("not a valid task", text) for text in (b"\xff", "", "[]", "{}", "3", None)],
    ("not a valid task", "[" * 100_000),
    ("not the form of a task of this version", forged(version=9)),
    ("not a valid task", forged(more=1)),
    ("not the form", " " + TASKS["plain"].to_json()),
    ("n_features must be", forged(n_features=5.0)),
    ("not the form", forged("box", parameters={"bounds": [-20.0, 20.0]})),
    ("projection_norm", forged("covariance", parameters={"projection_norm": True})),
    ("not the form", forged("covariance", parameters={"projection_norm": 4.0})),
    *[("not a valid task", forged(estimator=n)) for n in ("DPPCA", ["x"], None)],
    ("n_features", forged(n_features=2**25)),
    ("bounds", forged(n_features=7)),
    ("n_features", forged(n_features=True)),
    *[
        ("not a valid task", forged(parameters=given))
        for given in (
            *({"more": 1}, {"epsilon": 9.0}, {"n_rounds": 2}),
            *({"n_components": 6}, {"n_components": 2.5}, {"aggregation": ["matrix"]}),
            *({"aggregation": "sum"}, {"center": "mean"}, {"center": []}),
            *({"bounds": [[1.0] * 5, [0.0] * 5]}, {"bounds": [1, "x"]}, {"weights": 3}),
            *({"mechanism": "other"}, {"mechanism": 3}, {"mechanism": {}}),
            {"center": {"strategy": "SpikedModel", "parameters": {"mean": "zero"}}},
            {"mechanism": {"strategy": "Window", "parameters": {}}},
        )
    ],
    ("not the form", forged(parameters={"center": "gone"})),
    ("one name for each|n_features=5", forged("names", feature_names=["x"])),
    ("feature_names", forged("names", feature_names="abcde")),
    ("constant", forged("model", mechanism={"sensitivity_constant": 5.0})),
    *[
        (
            "not a valid task",
            forged("model", mechanism={"signal_variance": [variance, 2]}),
        )
        for variance in (0.0, -4.0, 1e300, 5e-324, "4")
    ],
    ("not a valid task", forged("model", mechanism={"more": 3})),
]


@pytest.mark.parametrize(("says", "text"), BAD)
def test_bad_tasks_say_what_is_wrong(says, text):
    with pytest.raises(MessageError, match=says):
        SpectralTask.from_json(text)


def test_mutations_are_refused_or_another_valid_task():
    rng, read = np.random.default_rng(0), 0
    forms = [task.to_json() for task in TASKS.values()]
    for trial in range(3000):
        text = forms[trial % len(forms)]
        start, length = rng.integers(len(text)), rng.integers(0, 4)
        if trial % 2:  # one digit for another
            start = rng.choice([i for i, c in enumerate(text) if c.isdigit()])
            length = 1
        new = "".join(rng.choice([*'0123456789,:"{}[]-e. anul'], rng.integers(0, 4)))
        changed = text[:start] + new + text[start + length :]
        if changed == text:
            continue
        try:
            task = SpectralTask.from_json(changed)
        except MessageError:
            continue
        assert task.to_json() == changed
        assert task.digest != hashlib.sha256(text.encode()).digest()[:16]
        read += 1
    assert read > 20


REFUSED = {
    "feature_names must be a sequence": {"feature_names": "abcde"},
    "feature_names must be a sequence of strings": {"feature_names": [1, 2, 3, 4, 5]},
    "feature_names must have n_features=5": {"feature_names": ["a"]},
    "feature_names must differ": {"feature_names": list("abcda")},
    "feature_names must be valid": {"feature_names": [*"abcd", "\udc80"]},
    "n_rounds": {"n_rounds": 1.5},
    "n_rounds.*Got -1": {"n_rounds": -1},
    "n_components=6 must be at most": {"n_components": 6},
    "n_features must": {"n_features": 0},
    "n_features=16777217": {"n_features": 2**24 + 1},
    "center": {"center": "mean"},
    "weights must not be an array": {"weights": [1.0, 2.0, 3.0]},
    "weights must be finite": {"weights": dict.fromkeys("abc", 0.0)},
    "epsilon of a task must be the default": {"epsilon": 2.0},
    "delta of a task": {"delta": 1e-7},
    "projection_norm": {"projection_norm": "4"},
    "projection_norm.*Got nan": {"projection_norm": np.nan},
    "n_nonzero_features=1": {"n_rounds": 1, "n_nonzero_features": 1},
    "n_nonzero_features=7": {"n_rounds": 1, "n_nonzero_features": 7},
    "center.*must be": {"n_rounds": 1, "center": "shared"},
    "projection_norm is not": {**MODEL, "projection_norm": 1.0},
    "needs public variances|state signal_variance": {
        "mechanism": SpikedModel("private", "private"),
        "aggregation": "matrix",
    },
    "signal_variance": {"mechanism": SpikedModel(None, 1.0)},
    "bounds and center": {**MODEL, "bounds": (-1.0, 1.0)},
    "n_components below n_features": {
        "mechanism": SpikedModel(4.0, 1.0),
        "n_components": 5,
    },
    "mechanism": {"mechanism": "two-stage"},
}


@pytest.mark.parametrize(("says", "given"), REFUSED.items())
def test_bad_parameters(says, given):
    with pytest.raises(ValueError, match=says):
        make_task(**{"n_components": 2, "n_features": 5, **given})


def test_a_task_is_of_an_estimator_with_clients():
    with pytest.raises(TypeError, match="FederatedDPPCA or a SparseDPPCA"):
        SpectralTask(DPPCA(), 5)


BOXES = [{}, {"bounds": (-20, 20), "center": "pairs"}, {"bounds": tuple(30 * SIDES)}]


@pytest.mark.parametrize("given", BOXES)
def test_lengths_are_in_units_of_the_data(given):
    task = make_task(2, 5, projection_norm=7.0, **given)
    half = 1.0
    if "bounds" in given:
        half = 0.5 * np.max(np.subtract(given["bounds"][1], given["bounds"][0]))
    assert task.projection_norm == pytest.approx(7.0 / half)


@pytest.mark.parametrize("n_samples", [np.float32(5000), 5000.0, True, 0])
def test_numbers_of_rows_are_whole_numbers(n_samples):
    """An equal number of a narrow type would round the noise of all that ask later."""
    task = make_task(2, 6, bounds=(-1, 1))
    with pytest.raises(ValueError, match="'a': n_samples must be a positive integer"):
        task.party("a", n_samples, 1.0, 1e-6)
    plans = [task.party("a", n, 1.0, 1e-6).plan for n in (np.int32(5000), 5000)]
    anew = make_task(2, 6, bounds=(-1, 1)).party("a", 5000, 1.0, 1e-6).plan
    assert plans == [anew, anew]
