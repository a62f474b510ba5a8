"""Gradients of weights that users' networks share: how far one user moves their sum."""

import numpy as np
import pytest
from lrs_tools import alike, scripted, table

from skdpspectral import LRSMLPRegressor
from skdpspectral.neural_network import _personal_networks
from skdpspectral.sensitivity import sum_sensitivity

D = 3


def regressor(**parameters):
    given = {"n_rounds": 3, "n_own_steps": 1}
    given |= {"hidden_layer_sizes": 4, "sparsity": 2, "user_feature": 0}
    return LRSMLPRegressor(**given | parameters)


def sums(users, **parameters):
    """What every round would release without noise, after the same releases."""
    with scripted() as asked:
        regressor(**parameters).fit(*table(users))
    return asked


def some_user(rng):
    """Rows of any number and magnitude."""
    m = int(rng.integers(1, 9))
    rows = rng.standard_normal((m, D)) * 10.0 ** rng.uniform(-3, 3)
    return rows, rng.standard_normal(m) * 10.0 ** rng.uniform(-6, 12)


@pytest.mark.parametrize("neighbors", ["add-remove-one", "replace-one"])
@pytest.mark.parametrize("n_components", [1, 3])
def test_no_user_moves_a_sum_by_more_than_the_lemma_says(neighbors, n_components):
    rng = np.random.default_rng(0)
    others = alike(3, 4, D)
    given = {"neighbors": neighbors, "n_components": n_components}
    bound = sum_sensitivity(1.0, neighbors)
    charged = regressor(**given).privacy_plan(D).mechanisms[0].charged_sensitivity
    assert bound <= charged <= 1.01 * bound
    without = sums(others, **given)
    for _ in range(20):
        user, other = some_user(rng), some_user(rng)
        one = sums({**others, 50: user}, **given)
        two = sums({**others, 50: other}, **given)
        for name, total in one.items():
            far = total - (two if neighbors == "replace-one" else without)[name]
            assert np.linalg.norm(far) <= charged


def test_the_constants_are_attained_in_every_round():
    """By a user of one row without features, whose target is large."""
    given = {"shared_weights": "fixed", "sparsity": 0, "fit_intercept": False}
    given |= {"hidden_layer_sizes": []}
    others = alike(2, 4, D)
    one, two = (
        sums({**others, 50: (np.zeros((1, D)), np.array([y]))}, **given)
        for y in (1e12, -1e12)
    )
    without = sums(others, **given)
    for name, total in one.items():
        joined = np.linalg.norm(total - without[name])
        turned = np.linalg.norm(total - two[name])
        assert joined == pytest.approx(sum_sensitivity(1.0, "add-remove-one"), 1e-4)
        assert turned == pytest.approx(sum_sensitivity(1.0, "replace-one"), 1e-4)


def test_clips_below_all_norms_are_of_no_consequence():
    """The sums are the same, and so is what is made of equal releases."""
    users = alike(5, 6, D)
    first, second = (sums(users, clip_norm=c) for c in (1e-6, 1e-9))
    for name, total in first.items():
        np.testing.assert_allclose(total, second[name], rtol=0.0, atol=1e-5)
    long = sums(users, clip_norm=1e3)
    assert max(np.linalg.norm(total) for total in long.values()) < 0.1


def test_contributions_are_gradients_before_the_last_step(monkeypatch):
    """By differences, of networks written down once more; the first step is of Adam."""
    monkeypatch.setattr(_personal_networks, "_LOCAL_STEPS", {True: 2})
    given = {"n_components": 2, "sparsity": 0, "fit_intercept": False, "n_rounds": 1}
    given |= {"hidden_layer_sizes": 2, "clip_norm": 10.0}
    model, users = regressor(**given), alike(3, 5, D)
    U = model._statistic(D).rules.first_U

    def gradient(whole, X, y):
        def loss(whole):
            hidden = np.tanh(X @ whole[: 2 * D].reshape(D, 2) + whole[2 * D : -3])
            return 0.5 * np.mean((hidden @ whole[-3:-1] + whole[-1] - y) ** 2)

        each = 1e-6 * np.eye(len(whole))
        return np.array([loss(whole + h) - loss(whole - h) for h in each]) / 2e-6

    expected = np.zeros((2, len(U)))
    for X, y in users.values():
        w = np.array([1.0, 0.0])
        w -= 0.1 * np.sign(U.T @ gradient(U @ w, X, y))
        expected += w[:, None] * gradient(U @ w, X, y)
    found = 10.0 * sums(users, **given)["gradients_1"].reshape(2, -1)
    assert np.abs(expected).max(axis=1).min() > 0.01
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-4)


def test_a_user_counts_no_more_for_rows_that_are_repeated():
    rows, y = alike(1, 4, D, seed=5)[1]
    often = np.tile(rows, (3, 1)), np.tile(y, 3)
    given = {"ridge_shared": 0.0, "ridge_sparse": 0.0, "clip_norm": 1e3}
    once, repeated = (sums({1: user}, **given) for user in ((rows, y), often))
    for name, total in once.items():
        assert np.linalg.norm(total) > 1e-6
        np.testing.assert_allclose(repeated[name], total, rtol=0.0, atol=1e-6)
