"""Shared directions that are public and stay: only users are fitted beside them."""

import numpy as np
import pytest
from ledger_tools import refused

from skdpspectral import LRSRegressor, PrivacyAccountant
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import PrivateRounds

T, D = 40, 12
GIVEN = {"sparsity": 2, "ridge_shared": 0.1, "ridge_sparse": 0.1}


def kept(U):
    return PrivateRounds(0, init=U)


@pytest.fixture(name="tasks", scope="module")
def simulated():
    return make_low_rank_sparse_tasks(
        T, 20, D, rank=2, sparsity=2, noise=0.1, return_coef=True, random_state=0
    )


def test_users_are_those_of_a_fit_that_released_these(tasks):
    X, y, users, _ = tasks
    fitted = LRSRegressor(2, epsilon=8.0, **GIVEN).fit(X, y, users=users)
    with PrivacyAccountant() as accountant:
        given = LRSRegressor(2, solver=kept(fitted.components_), **GIVEN)
        given.fit(X, y, users=users)
        assert accountant.spent().epsilon == 0.0
    np.testing.assert_allclose(given.components_, fitted.components_, atol=1e-14)
    for user in range(T):
        np.testing.assert_allclose(
            given.get_coef(user), fitted.get_coef(user), atol=1e-9
        )
    assert given.privacy_.mechanisms == ()
    assert "public ones that were given" in given.privacy_.remarks[0]
    assert given.n_iter_ == 1
    published = given.publish().personalize(X[:20], y[:20], user="new")
    assert published.get_coef("new").shape == (D,)


def test_the_true_directions_are_kept_and_serve(tasks):
    X, y, users, truth = tasks
    # Any rows that span them, of any length.
    init = np.array([[3.0, 1.0], [0.0, -0.5]]) @ truth.components
    model = LRSRegressor(2, solver=kept(init), **GIVEN).fit(X, y, users=users)
    overlap = np.linalg.svd(model.components_ @ truth.components.T)[1]
    np.testing.assert_allclose(overlap, 1.0, atol=1e-12)
    coef = np.stack([model.get_coef(user) for user in range(T)])
    alone = LRSRegressor(0, 2, ridge_sparse=0.1).fit(X, y, users=users)
    own = np.stack([alone.get_coef(user) for user in range(T)])
    assert np.linalg.norm(coef - truth.coef) < 0.5 * np.linalg.norm(own - truth.coef)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_central_model_stays_as_it_is(tasks, scale):
    X, _, users, _ = tasks
    central = np.arange(1.0, D + 1)[None]
    targets = X @ central[0] / scale
    model = LRSRegressor(
        1,
        2,
        ridge_sparse=0.1,
        solver=kept(central),
        scale=np.full(D, scale),
        shared_weights="fixed",
        fit_intercept=False,
    ).fit(X, targets, users=users)
    # Public scales divide features: the model is of what they leave.
    np.testing.assert_array_equal(model.coef_, central[0] / scale)
    np.testing.assert_allclose(model.predict(X, users=users), targets, atol=1e-9)


@pytest.mark.parametrize(
    "init", ["random", None, np.ones((2, D)), np.full((1, D), np.nan)], ids=str
)
def test_what_are_no_directions_is_refused_before_the_charge(tasks, init):
    X, y, users, _ = tasks
    with refused("init") as accountant, accountant:
        LRSRegressor(solver=kept(init)).fit(X, y, users=users)
