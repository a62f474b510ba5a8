"""What private networks of users may depend on, exactly: with no noise at all."""

import numpy as np
import pytest
from lrs_tools import alike, scripted, table
from release_tools import record_releases
from user_privacy import USERS, D, Fits, data

from skdpspectral import LRSMLPRegressor
from skdpspectral.neural_network import _kernels as networks
from skdpspectral.neural_network import _personal_networks

SETTINGS = {
    "usual": {},
    "rank 3, replaced": {"n_components": 3, "neighbors": "replace-one"},
    "central": {"shared_weights": "fixed", "sparsity": None, "fit_intercept": False},
    "prompts": {"shared_weights": "fixed", "sparsity": 0, "prompt_size": 2},
    "two layers, threads": {"hidden_layer_sizes": (3, 2), "n_jobs": 2},
    "clipped": {"clip_norm": 0.1},
    "nothing shared": {"n_components": 0, "sparsity": None},
}


def regressor(name, **parameters):
    given = {"sparsity": 2, "hidden_layer_sizes": 3, "user_feature": 0, "verbose": 1}
    given |= {"n_rounds": 2, "n_own_steps": 3, "learning_rate": 0.1}
    return LRSMLPRegressor(**given | SETTINGS[name] | parameters)


FITS = Fits(regressor)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.filterwarnings("ignore:this LRSMLPRegressor is not private")
def test_all_that_is_public_is_a_function_of_the_releases(name):
    FITS.check_that_releases_decide(name)


def test_shared_weights_are_steps_of_adam_by_releases_and_their_noise_alone():
    """Written down once more: what the noise adds to the squares is taken off."""
    steps = {"n_rounds": 3, "learning_rate": 0.2}
    model = regressor("rank 3, replaced", **steps, verbose=0)
    with record_releases() as released:
        model.fit(*data())
    std = model.privacy_.mechanisms[0].noise_std
    U = model._statistic(D).rules.first_U.T
    means, weights, variance = np.zeros((2, *U.shape)), np.zeros(2), 0.0
    for number, release in enumerate(released.values()):
        rate = 0.1 * (1.0 + np.cos(np.pi * number / 3))
        gradient = release.reshape(U.shape)
        rows = gradient, gradient**2 - std**2
        for i, (beta, row) in enumerate(zip((0.9, 0.999), rows, strict=True)):
            means[i], weights[i] = beta * means[i] + row, beta * weights[i] + 1.0
        variance = 0.999**2 * variance + 1.0
        floor = np.sqrt(2.0 * variance) / weights[1] * std**2
        length = np.sqrt(np.maximum(means[1] / weights[1], floor)) + 1e-8
        U = U - rate * means[0] / weights[0] / length
    np.testing.assert_allclose(model.components_, U, rtol=1e-9)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.filterwarnings("ignore:this LRSMLPRegressor is not private")
def test_a_user_moves_every_sum_by_their_own_vector_and_no_other_number(name):
    model, moves = FITS.moves(name)
    for mechanism in model.privacy_.mechanisms:
        one_user = mechanism.charged_sensitivity
        one_user /= 1 + (model.neighbors == "replace-one")
        # The charge is attained, and no more generous than the grid is coarse.
        assert 0.99 < moves[mechanism.name] <= one_user <= 1.01


def test_the_first_sum_is_of_gradients_of_mean_losses(monkeypatch):
    """Of linear models that begin alike, by hand, far below the norm of clipping."""
    X, y = table(USERS)
    monkeypatch.setattr(_personal_networks, "_LOCAL_STEPS", {True: 1})
    model = regressor("usual", hidden_layer_sizes=[], n_rounds=1, clip_norm=1e3)
    U = model._statistic(D).rules.first_U[:, 0]
    expected = np.zeros(D + 1)
    for user in USERS:
        own = X[:, 0] == user
        rows = np.column_stack([X[own, 1:], np.ones(own.sum())])
        errors = rows @ U - (y[own] - y[own].mean())
        expected += rows.T @ errors / own.sum() / 1e3
    with scripted() as asked:
        model.fit(X, y)
    grid = model.privacy_.mechanisms[0].grid
    np.testing.assert_allclose(asked["gradients_1"], expected, atol=len(USERS) * grid)
    assert np.abs(expected).max() > 100 * grid


def test_the_number_of_rounds_is_as_planned_for_any_data():
    """Also of users whose networks are at rest at once."""
    X, y = table(USERS)
    model = regressor("usual", verbose=0)
    for targets in (y, np.zeros_like(y)):
        with record_releases() as released:
            model.fit(X, targets)
        assert list(released) == [m.name for m in model.privacy_.mechanisms]
        assert model.n_iter_ == len(released) == 2


def test_unknown_users_and_those_of_a_published_model_have_the_shared_network():
    X, y = table(USERS)
    model = regressor("usual", verbose=0).fit(X, y)
    stranger = X.copy()
    stranger[:, 0] += 100.0
    published = model.publish()
    found = published.predict(X)
    np.testing.assert_array_equal(model.predict(stranger), found)
    coefs, intercepts = published.get_network(1.0)
    expected = np.tanh(X[:, 1:] @ coefs[0] + intercepts[0]) @ coefs[1] + intercepts[1]
    np.testing.assert_allclose(found, expected[:, 0], rtol=1e-12, atol=1e-12)
    assert np.any(model.predict(X) != found)


@pytest.mark.parametrize("name", ["usual", "rank 3, replaced", "prompts"])
def test_who_is_handled_together_makes_no_difference(name, monkeypatch):
    """Users are trained a few at a time, as many as stay in the cache."""
    X, y = table({user: alike(1, 5, D, seed=user)[1] for user in range(9)})
    seen = []
    for numbers in (networks._PART_NUMBERS, 60, 1):
        monkeypatch.setattr(networks, "_PART_NUMBERS", numbers)
        model = regressor(name, verbose=0)
        with scripted() as asked:
            model.fit(X, y)
        own = model._personal.arrays().values()
        seen.append([*asked.values(), *own, model.predict(X)])
    for other in seen[1:]:
        for one, two in zip(seen[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", SETTINGS)
def test_what_stays_with_a_user_has_the_same_bits_in_any_company(name):
    """By the last bits of others' networks one could say who took part."""
    rng = np.random.default_rng(0)
    rows, targets = alike(1, 9, D, seed=9)[1]
    seen = []
    for t in (0, 1, 5, 30):
        heights = rng.integers(1, 30, t)
        others = {i: alike(1, m, D, seed=i)[1] for i, m in enumerate(heights, 100)}
        X, y = table({**others, 7: (rows, targets)})
        order = rng.permutation(len(y))
        mine = np.flatnonzero(X[:, 0] == 7)
        order[np.isin(order, mine)] = mine  # a user's rows keep their order
        model = regressor(name, verbose=0)
        with scripted():
            model.fit(X[order], y[order])
        predicted = model.predict(X[order])[X[order][:, 0] == 7]
        code = model._personal.codes([7.0], 1, "user")[0]
        own = [value[code] for value in model._personal.arrays().values()]
        seen.append([predicted, model.predict(X[mine]), *own])
        model.personalize(X[mine], y[mine])
        code = model._personal.codes([7.0], 1, "user")[0]
        own = [value[code] for value in model._personal.arrays().values()]
        seen.append([predicted, model.predict(X[mine]), *own])
    for other in seen[1:]:
        for one, two in zip(seen[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
