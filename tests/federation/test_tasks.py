"""Tasks: one byte form for what means the same, and nothing else is taken for one."""

import contextlib
import copy
import hashlib
import json
import pickle

import numpy as np
import pytest

from skdpspectral import FederatedDPPCA, SparseDPPCA
from skdpspectral._messages.codec import signed
from skdpspectral.decomposition import (
    ComponentCovariance,
    Gaussian,
    PrivateMean,
    SpikedModel,
)
from skdpspectral.decomposition._federated_client import run_in_process
from skdpspectral.decomposition._pca_mechanisms import ComponentMechanism
from skdpspectral.federation import (
    LocalClient,
    MessageError,
    Rounds,
    Server,
    SpectralTask,
    make_task,
)

MODEL = {"mechanism": SpikedModel(signal_variance=[4.0, 2.0], noise_variance=1.0)}
SIDES = np.array([[-3.0, -2.0, -1.0, 0.0, -5.0], [1.0, 2.0, 7.0, 0.0, 5.0]])
PARAMETERS = {
    "plain": {},
    "names": {"feature_names": list("abcde")},
    "other order of names": {"feature_names": list("edcba")},
    "names cut elsewhere": {"feature_names": ["ab", "", "c", "dä", "e\0"]},
    "matrix": {"aggregation": "matrix"},
    "clip": {"clip_norm": 3.0},
    "center": {"clip_norm": 3.0, "center": "private"},
    "center's clip": {"clip_norm": 3.0, "center": PrivateMean(2.0)},
    "shared": {"center": "shared"},
    "box, shared": {"bounds": (-20, 20), "center": "shared", "aggregation": "matrix"},
    "box": {"bounds": (-20, 20), "center": "private"},
    "other box": {"bounds": (-20, 21), "center": "private"},
    "box, no mean": {"bounds": (-20, 20), "center": "none"},
    "box a feature": {"bounds": tuple(SIDES)},
    "scaled box": {"bounds": tuple(SIDES), "scale": "bounds"},
    "rounds": {"n_rounds": 3},
    "two rounds": {"n_rounds": 2},
    "no start": {"n_rounds": 3, "start": False},
    "covariance": {"projection_norm": 4.0},
    "other covariance": {"projection_norm": 4.000001},
    "private": {"mechanism": SpikedModel("private", "private")},
    "range": {"mechanism": SpikedModel("private", "private", norm_range=(1e-3, 1e3))},
    "model": MODEL,
    "other model": {"mechanism": SpikedModel([4.0, 2.5], 1.0)},
    "model, covariance": {**MODEL, "model_covariance": True},
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
    data = task.to_bytes()
    again = SpectralTask.from_bytes(data)
    assert again == task
    assert hash(again) == hash(task)
    assert again.to_bytes() == data
    assert again.digest == task.digest == hashlib.sha256(data).digest()[:16]
    assert again.topics == task.topics
    if not task.mechanism.spiked:
        assert again.mechanisms(100, 0.5) == task.mechanisms(100, 0.5)
    budget = (1000, 1.0, 1e-6, "x", False)  # the model needs 903 rows
    assert again.plan(*budget) == task.plan(*budget)
    rows = np.random.default_rng(0).normal(size=(9, task.rows.n_features))
    found = [t.rows.for_second_moment(rows.copy()) for t in (task, again)]
    assert np.array_equal(*found)
    for copied in (copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        assert copied == task


def test_whatever_differs_has_another_digest():
    assert len({task.digest for task in TASKS.values()}) == len(TASKS)
    assert len(set(TASKS.values())) == len(TASKS)
    assert TASKS["plain"] != "plain"


def test_what_means_the_same_has_the_same_digest():
    task = make_task(2, 5, bounds=(-20, 20), clip_norm=3, center=PrivateMean())
    for bounds in ([-20.0, 20.0], (np.full(5, -20), np.full(5, 20.0, np.float32))):
        same = make_task(
            np.int64(2), 5, bounds=bounds, clip_norm=np.float64(3.0), center="private"
        )
        assert same == task
    paper = SpikedModel([4, 2.0], 1, calibration="paper", sensitivity_constant=1)
    assert make_task(2, 5, mechanism=paper) == TASKS["paper"]
    assert make_task(2, 5, mechanism=Gaussian()) == TASKS["plain"]
    pairs = [make_task(2, 5, bounds=(-1, 1), center=c) for c in ("auto", "pairs")]
    assert pairs[0] == pairs[1] == make_task(2, 5, bounds=(-1, 1))
    zeros = [make_task(1, 5, bounds=(zero, 1)) for zero in (0, 0.0, -0.0)]
    assert len({t.digest for t in zeros}) == 1


def test_later_changes_of_the_bounds_change_no_task():
    low, high = SIDES.copy()
    task = make_task(2, 5, bounds=(low, high))
    before = task.to_bytes()
    low -= 1.0
    assert task.to_bytes() == before


@pytest.mark.parametrize("name", ["start", "model_covariance"])
@pytest.mark.parametrize("flag", [1, 2, "yes", None])
def test_flags_are_booleans(name, flag):
    """Two starts would be other shares of the budget under the same digest."""
    rows = make_task(1, 4, clip_norm=1.0).rows
    with pytest.raises(ValueError, match=f"{name} must be a boolean"):
        SpectralTask(1, rows, n_rounds=2, **{name: flag})


def test_later_changes_of_the_variances_change_no_task():
    signal, lengths = np.array([4.0, 1.0]), [1e-3, 1e3]
    mechanism = ComponentMechanism("spiked", signal, np.float32(0.5), lengths)
    rows = make_task(1, 4, center="none").rows
    task = SpectralTask(2, rows, mechanism=mechanism)
    before = task.plan(1000, 1.0, 1e-6, "x", False)
    signal *= 100.0
    lengths[0] = 1e-6
    assert task.mechanism.signal == (4.0, 1.0)
    assert task.mechanism.norm_range == (1e-3, 1e3)
    assert type(task.mechanism.noise) is float
    assert task.plan(1000, 1.0, 1e-6, "x", False) == before
    assert SpectralTask.from_bytes(task.to_bytes()).mechanism == task.mechanism


def mutate(data, rng):
    """Flip bits, cut, lengthen or overwrite; never nothing at all."""
    data, kind = bytearray(data), rng.integers(5)
    if kind == 0:
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    elif kind == 1:
        data = data[: rng.integers(len(data))]
    elif kind == 2:
        data += rng.bytes(rng.integers(1, 40))
    elif kind == 3:  # a digit of the header
        digits = [i for i, c in enumerate(data[:600]) if 48 <= c < 58]
        data[rng.choice(digits)] = rng.integers(48, 58)
    else:
        start = rng.integers(len(data))
        data[start : start + 8] = rng.bytes(len(data[start : start + 8]))
    return bytes(data)


@pytest.mark.parametrize("right", [False, True])
def test_mutations_are_refused_or_another_valid_task(right):
    """With a checksum made anew, what is read has the very bytes that were read."""
    rng, read = np.random.default_rng(0), 0
    forms = [task.to_bytes() for task in TASKS.values()]
    for trial in range(4000):
        data = forms[trial % len(forms)]
        changed = signed(mutate(data[:-16], rng)) if right else mutate(data, rng)
        if changed == data:
            continue
        try:
            task = SpectralTask.from_bytes(changed)
        except MessageError:
            continue
        assert right
        assert task.to_bytes() == changed
        assert task.digest != hashlib.sha256(data).digest()[:16]
        with contextlib.suppress(ValueError):  # of numbers that no plan has
            task.plan(10**6, 1.0, 1e-6, "x", False)
        read += 1
    assert (read > 20) == right


def forged(name="box a feature", rest=None, mechanism=None, **changes):
    """A task with another header, or other bounds, and a right digest."""
    data = TASKS[name].to_bytes()
    end = 8 + int.from_bytes(data[4:8], "little")
    header = {**json.loads(data[8:end]), **changes}
    if isinstance(mechanism, dict):
        header["mechanism"] = {**header["mechanism"], **mechanism}
    elif mechanism is not None:
        header["mechanism"] = mechanism
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    rest = data[end:-16] if rest is None else rest
    return signed(data[:4] + len(text).to_bytes(4, "little") + text + rest)


BAD = [
    ("must be bytes", "task"),
    ("not a task", b"SKDF"),
    ("not a task", pickle.dumps(list(range(100)))),
    ("not a task", forged(kind="reply")),
    ("damaged", TASKS["plain"].to_bytes()[:-1] + b"\0"),
    ("has version 9, but this release reads version 3", forged(version=9)),
    ("does not have its fields", forged(more=1)),
    ("mechanism must be one of", forged(mechanism={"name": "other"})),
    ("mechanism must be one of", forged(mechanism={"name": ["gaussian"]})),
    ("not a valid task", forged(mechanism={"more": 1})),
    ("not a valid task", forged(mechanism=3)),
    ("a valid shape", forged(shape=[2, 6])),
    ("invalid size", forged(shape=[5, 2])),
    ("invalid size", forged(n_features=2**25)),
    ("invalid size", forged(n_features=7)),
    ("n_features", forged(n_features=True)),
    ("n_components", forged(n_components=6)),
    ("n_components", forged(n_components=2.0)),
    ("n_rounds", forged(n_rounds=2000)),
    ("start must be a boolean", forged(start=1)),
    ("not a valid task", forged(aggregation=["matrix"])),
    ("aggregation must be", forged(aggregation="sum")),
    ("unknown center", forged(center="mean")),
    ("unknown center", forged(center=[])),
    ("scale must be", forged(scale=3)),
    ("must be finite", forged(rest=np.full(10, np.nan).tobytes())),
    ("bounds are reversed", forged(rest=np.arange(10.0)[::-1].tobytes())),
    ("not the serialized form", forged(center_radius=1.0)),
    ("not the serialized form", forged("clip", clip_norm=3)),
    ("not a valid task", forged("clip", clip_norm=[3.0])),
    ("not a valid task", forged("clip", clip_norm=float("nan"))),
    ("one name for each|n_features=5", forged("names", feature_names=["x"])),
    ("feature_names", forged("names", feature_names="abcde")),
    ("paper", forged("model", mechanism={"constant": 5.0})),
    ("paper", forged("plain", mechanism={"calibration": "paper"})),
    *(
        ("task", forged("model", mechanism={"signal": [variance, 2.0]}))
        for variance in (0.0, -4.0, 1.0, 1e300, 5e-324, "4", True)
    ),
]


@pytest.mark.parametrize(("says", "data"), BAD)
def test_bad_bytes_say_what_is_wrong(says, data):
    with pytest.raises(MessageError, match=says):
        SpectralTask.from_bytes(data)


def test_a_model_is_checked_however_a_task_came_about():
    """Bounded rows are no model."""
    with pytest.raises(ValueError, match="not used with"):
        SpectralTask(2, TASKS["box"].rows, mechanism=TASKS["model"].mechanism)
    with pytest.raises(ValueError, match="n_components below"):
        SpectralTask(5, TASKS["model"].rows, mechanism=TASKS["model"].mechanism)


BAD_TASKS = {
    "feature_names must be a sequence": {"feature_names": "abcde"},
    "feature_names must be strings": {"feature_names": [1, 2, 3, 4, 5]},
    "feature_names must have n_features=5": {"feature_names": ["a"]},
    "feature_names must differ": {"feature_names": list("abcda")},
    "feature_names must be valid": {"feature_names": [*"abcd", "\udc80"]},
    "n_rounds": {"n_rounds": 1.5},
    "n_rounds must": {"n_rounds": -1},
    "n_components": {"n_components": 6},
    "center": {"center": "mean"},
    "projection_norm": {"projection_norm": "4"},
    "projection_norm must": {"projection_norm": np.nan},
    "projection_norm must be in": {"projection_norm": 0.0},
}


@pytest.mark.parametrize(("says", "given"), BAD_TASKS.items())
def test_bad_parameters(says, given):
    with pytest.raises(ValueError, match=says):
        make_task(**{"n_components": 2, "n_features": 5, **given})


# -- units -----------------------------------------------------------------------------

BOXES = [
    {},
    {"bounds": (-20, 20), "center": "private"},
    {"bounds": (-20, 20), "clip_norm": 9.0},
    {"bounds": tuple(30 * SIDES)},
    {"bounds": tuple(30 * SIDES), "scale": "bounds"},
]


@pytest.mark.parametrize("given", BOXES)
def test_lengths_are_in_units_of_the_data_as_those_of_the_estimator(given):
    estimator = FederatedDPPCA(2, release=ComponentCovariance(7.0), **given)
    task = make_task(2, 5, projection_norm=7.0, **given)
    assert task == estimator._task(5)
    half = 1.0
    if "bounds" in given and not given.get("scale"):
        half = 0.5 * np.max(np.subtract(given["bounds"][1], given["bounds"][0]))
    assert task.projection_norm == pytest.approx(7.0 / half)
    sparse = SparseDPPCA(2, n_rounds=3, **given)
    assert make_task(2, 5, n_rounds=3, aggregation="matrix", **given) == sparse._task(5)


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize("given", BOXES)
def test_both_give_the_same_covariance(given):
    """Without noise, of a task by hand and of the estimator, in units of the data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * [5.0, 3.0, 1.0, 1.0, 1.0]
    sites = np.repeat(["a", "b"], 200)
    model = FederatedDPPCA(2, release=ComponentCovariance(7.0), epsilon=None, **given)
    model.fit(X, clients=sites)
    task = make_task(2, 5, projection_norm=7.0, **given)
    clients = {k: LocalClient(k, X[sites == k], task, epsilon=None) for k in "ab"}
    server = Server({k: c.registration for k, c in clients.items()}, task)
    found = run_in_process(Rounds(server), clients)
    np.testing.assert_allclose(found.explained_variance, model.explained_variance_)
    np.testing.assert_allclose(found.components, model.components_)
    np.testing.assert_allclose(found.mean, model.mean_)
    if given is BOXES[1]:
        rows = X - X.mean(axis=0)
        scores = rows @ found.components.T
        scores *= np.minimum(1.0, 7.0 / np.linalg.norm(scores, axis=1))[:, None]
        top = np.linalg.eigvalsh(scores.T @ scores / 400)[::-1]
        # Clients subtract means of their own, which differ by some tenth.
        np.testing.assert_allclose(found.explained_variance, top, rtol=0.02)


@pytest.mark.parametrize("n_samples", [np.float32(5000), 5000.0, True, 0])
def test_numbers_of_rows_are_whole_numbers(n_samples):
    """An equal number of a narrow type would round the noise of all that ask later."""
    task = make_task(2, 6, bounds=(-1, 1))
    for ask in (task.statistic, lambda n: task.plan(n, 1.0, 1e-6, "any", False)):
        with pytest.raises(ValueError, match="n_samples must be a positive integer"):
            ask(n_samples)
    plans = [task.plan(n, 1.0, 1e-6, "any", False) for n in (np.int32(5000), 5000)]
    anew = make_task(2, 6, bounds=(-1, 1)).plan(5000, 1.0, 1e-6, "any", False)
    assert plans == [anew, anew]
