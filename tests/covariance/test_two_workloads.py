"""Weights, and noise, that are not the same for both moments."""

import pickle

import numpy as np
import pytest
from ledger_tools import refused
from sklearn.base import clone

from skdpspectral import JMECovariance, PrivacyAccountant
from skdpspectral.covariance import BISR, Exponential, JointMoments, Window

N, D = 10, 3
EXACT = {"epsilon": None, "min_eigenvalue": 1e-12, "clip_norm": 2.0}

exact_fits = pytest.mark.filterwarnings("ignore:epsilon=None")


@pytest.fixture(name="X")
def rows():
    X = np.random.default_rng(0).normal(size=(N, D))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def weighted(X, weights):
    """Mean and covariance by a row of weights."""
    share = weights / weights.sum()
    mean = share @ X
    return mean, (X - mean).T @ (share[:, None] * (X - mean))


@exact_fits
def test_each_moment_has_its_own_weights(X):
    model = JMECovariance(
        workload=Window(3),
        moments=JointMoments(second_workload=Exponential(0.7)),
        **EXACT,
    ).fit(X)
    weights = 0.7 ** np.arange(N)[::-1]
    np.testing.assert_allclose(model.first_moment_, X[-3:].mean(axis=0))
    np.testing.assert_allclose(model.location_, X[-3:].mean(axis=0))
    second = np.einsum("i,ij,ik->jk", weights, X, X)
    np.testing.assert_allclose(model.second_moment_, second)
    # About the mean by the same weights: a covariance, whatever the first ones are.
    np.testing.assert_allclose(model.covariance_, weighted(X, weights)[1], atol=1e-12)


SHAPES = [
    {"moments": JointMoments(second_factorization="trivial")},
    {"factorization": "trivial", "moments": JointMoments(second_factorization=BISR(4))},
    {"factorization": "sqrt", "moments": JointMoments(second_workload=Window(2))},
    {"moments": JointMoments(second_factorization="bisr", weight=3.0)},
]


def matrices_in_use(stream):
    """Return the matrices of rows and of products, of which the noise is as of Z."""
    first, second = (shape.matrix(N) for shape in stream.shapes)
    return first, second / stream.stretch


@pytest.mark.parametrize("parameters", SHAPES)
def test_the_noise_is_that_of_both_matrices(parameters):
    stream = JMECovariance(clip_norm=2.0, **parameters)._moment_stream(N, D)
    Z = np.random.default_rng(0).standard_normal((N, stream.rows.width))
    shaped = stream.factorization.filter(stream.rows.width).push(Z.copy())
    for matrix, part in zip(
        matrices_in_use(stream), (slice(D), slice(D, None)), strict=True
    ):
        np.testing.assert_allclose(matrix @ shaped[:, part], Z[:, part], atol=1e-9)


@pytest.mark.parametrize("parameters", SHAPES)
@pytest.mark.parametrize("epsilon", [1e-4, 1.0])
def test_roundings_of_both_parts_are_charged(parameters, epsilon):
    """Each entry may be rounded by a step more or less, before its matrix comes in."""
    model = JMECovariance(epsilon=epsilon, clip_norm=2.0, **parameters)
    stream = model._moment_stream(N, D)
    (mechanism,) = model.privacy_plan(N, D).mechanisms
    norms = [np.linalg.norm(m, axis=0).max() for m in matrices_in_use(stream)]
    counts = D, stream.rows.width - D
    rounded = mechanism.grid * np.hypot(*(norms * np.sqrt(counts)))
    bound = norms[0] * stream.sensitivity + rounded
    assert bound <= mechanism.charged_sensitivity


@pytest.mark.parametrize("parameters", SHAPES)
def test_no_row_moves_a_release_by_more_than_is_charged(parameters, X):
    """C_1 x and C_2 times the weighted products, by hand, for every place of a row."""
    model = JMECovariance(clip_norm=2.0, **parameters)
    stream = model._moment_stream(N, D)
    (mechanism,) = model.privacy_plan(N, D).mechanisms
    first, second = matrices_in_use(stream)
    bound = stream.sensitivity * stream.factorization.column_norm
    # The noise is that of this sensitivity.
    mu = model.privacy_plan(N, D).mu
    assert mechanism.noise_std == pytest.approx(bound / mu, rel=1e-6)
    rng = np.random.default_rng(1)
    pairs = [(2 * x, -2 * x) for x in X]
    pairs += [tuple(2 * x for x in (X[i], X[j])) for i in range(N) for j in range(i)]
    pairs += [tuple(rng.uniform(-1.1, 1.1, (2, D))) for _ in range(50)]
    moved = 0.0
    for x, y in pairs:
        x, y = stream.vectors(np.stack([x, y]))
        change = x - y
        for place in range(N):
            rows = np.linalg.norm(first[:, place]) * np.linalg.norm(change[:D])
            products = np.linalg.norm(second[:, place]) * np.linalg.norm(change[D:])
            moved = max(moved, np.hypot(rows, products))
    assert moved <= bound * (1 + 1e-12)
    if parameters["moments"].weight == "free":
        assert moved >= bound * (1 - 1e-6)


@pytest.mark.parametrize("parameters", SHAPES)
def test_the_noise_of_covariances_is_known(parameters):
    """Of rows that are zero, and have no noise in this draw: what all draws have."""
    model = JMECovariance(clip_norm=2.0, **parameters)
    stream, plan = model._moment_stream(N, D), model.privacy_plan(N, D)
    std = plan.mechanisms[0].noise_std
    moments = stream.begin(plan).push(np.zeros((N, stream.rows.width)))
    A, totals = stream.workload.core_matrix(N), stream.workload.totals(np.arange(N) + 1)
    first, second = (
        ((A @ np.linalg.inv(C)) ** 2).sum(axis=1) * (std / totals) ** 2
        for C in matrices_in_use(stream)
    )
    expected = np.sqrt(0.5 * second / stream.rows.weight**2 + first**2)
    np.testing.assert_allclose(moments.at(np.arange(N)).spread, expected, rtol=1e-6)


def test_a_pair_of_the_same_is_that(X):
    given = {"factorization": "sqrt", "clip_norm": 2.0, "noise_seed": 3}
    one = JMECovariance(**given).fit(X)
    two = JMECovariance(moments=JointMoments(second_factorization="sqrt"), **given).fit(
        X
    )
    np.testing.assert_allclose(one.location_, two.location_, rtol=1e-9)
    np.testing.assert_allclose(one.second_moment_, two.second_moment_, rtol=1e-9)
    np.testing.assert_allclose(one.covariance_, two.covariance_, rtol=1e-9)


def test_batches_are_as_one_and_survive_a_pickle(X):
    X = np.tile(X, (30, 1))
    parameters = {
        "workload": Exponential(0.9),
        "moments": JointMoments(second_workload="average", second_factorization="sqrt"),
        "horizon": 400,
        "noise_seed": 5,
    }
    at_once = JMECovariance(**parameters).fit(X)
    with PrivacyAccountant() as accountant:
        stream = JMECovariance(accountant=accountant, **parameters)
        stream.partial_fit(X[:7]).partial_fit(X[7:150])
        stream = pickle.loads(pickle.dumps(stream)).partial_fit(X[150:])
    for name in ("location_", "covariance_", "first_moment_", "second_moment_"):
        found, wanted = getattr(stream, name), getattr(at_once, name)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_what_a_workload_cannot_be_is_said():
    X = np.ones((N, D))
    for parameters, named in (
        ({"workload": np.tri(N)}, "workload"),
        ({"moments": JointMoments(second_workload="sums")}, "second_workload"),
        (
            {"moments": JointMoments(second_factorization=np.eye(N))},
            "second_factorization",
        ),
    ):
        with refused(named) as accountant, accountant:
            JMECovariance(**parameters).fit(X)


def test_files_and_searches_know_both(X, tmp_path):
    model = JMECovariance(
        workload=Exponential(0.9),
        moments=JointMoments(second_workload=Window(3), second_factorization=BISR(4)),
    )
    model = clone(model).set_params(moments__second_workload__length=5).fit(X)
    model.save(tmp_path / "model.npz")
    loaded = JMECovariance.load(tmp_path / "model.npz")
    assert loaded.moments.second_workload.length == 5
    assert loaded.moments.second_factorization.bandwidth == 4
    np.testing.assert_array_equal(loaded.covariance_, model.covariance_)
