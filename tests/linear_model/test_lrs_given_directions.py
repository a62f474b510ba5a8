"""Shared directions that are given and stay: users are fitted beside them alone."""

import numpy as np
import pytest

from skdpspectral import LRSRegressor, PrivacyAccountant
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import GivenDirections, PrivateRounds, UserWeights

T, D = 40, 12
GIVEN = {"sparsity": 2, "ridge_sparse": 0.1}
FIRST = GivenDirections(np.eye(D)[:1])
NOT_PRIVATE = pytest.mark.filterwarnings("ignore:epsilon=None")


@pytest.fixture(name="tasks", scope="module")
def simulated():
    return make_low_rank_sparse_tasks(
        T, 20, D, rank=2, sparsity=2, noise=0.1, return_coef=True, random_state=0
    )


def test_users_are_those_of_a_fit_that_released_these(tasks):
    X, y, users, _ = tasks
    parameters = {
        "sparsity": 2,
        "ridge_sparse": 0.1,
        "shared_weights": UserWeights(ridge=0.1),
    }
    fitted = LRSRegressor(2, epsilon=8.0, **parameters).fit(X, y, users=users)
    with PrivacyAccountant() as accountant:
        given = LRSRegressor(
            2, solver=GivenDirections(fitted.components_), **parameters
        )
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
    published = given.publish()
    assert published.personalize(X[:20], y[:20], user="new").get_coef("new").shape == (
        D,
    )


@NOT_PRIVATE
@pytest.mark.parametrize("epsilon", [1.0, None])
def test_the_true_directions_are_kept_and_serve(tasks, epsilon):
    X, y, users, truth = tasks
    # Any rows that span them, of any length.
    init = np.array([[3.0, 1.0], [0.0, -0.5]]) @ truth.components
    model = LRSRegressor(
        2,
        solver=GivenDirections(init),
        epsilon=epsilon,
        shared_weights=UserWeights(ridge=0.1),
        **GIVEN,
    )
    model.fit(X, y, users=users)
    overlap = np.linalg.svd(model.components_ @ truth.components.T)[1]
    np.testing.assert_allclose(overlap, 1.0, atol=1e-12)
    np.testing.assert_array_equal(model.scale_, 1.0)
    coef = np.stack([model.get_coef(user) for user in range(T)])
    alone = LRSRegressor(0, 2, ridge_sparse=0.1).fit(X, y, users=users)
    own = np.stack([alone.get_coef(user) for user in range(T)])
    assert np.linalg.norm(coef - truth.coef) < 0.5 * np.linalg.norm(own - truth.coef)


def test_a_central_model_stays_as_it_is(tasks):
    X, _, users, _ = tasks
    central = np.arange(1.0, D + 1)[None]
    targets = X @ central[0]
    parameters = {**GIVEN, "shared_weights": "fixed", "fit_intercept": False}
    model = LRSRegressor(solver=GivenDirections(central), **parameters).fit(
        X, targets, users=users
    )
    np.testing.assert_array_equal(model.components_, central)
    np.testing.assert_array_equal(model.coef_, central[0])
    np.testing.assert_allclose(model.predict(X, users=users), targets, atol=1e-9)
    # Public scales divide features: the model is of what they leave.
    scaled = LRSRegressor(
        solver=GivenDirections(central), scale=np.full(D, 2.0), **parameters
    )
    scaled.fit(X, targets, users=users)
    np.testing.assert_array_equal(scaled.components_, central / 2.0)


@NOT_PRIVATE
@pytest.mark.parametrize("epsilon", [1.0, None])
@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"solver": GivenDirections("random")}, "components"),
        ({"solver": GivenDirections(None)}, "components"),
        ({"solver": GivenDirections(np.ones((2, D)))}, "components"),
        ({"solver": GivenDirections(np.full((1, D), np.nan))}, "components"),
        ({"solver": FIRST, "n_components": 2}, "components"),
        ({"solver": GivenDirections}, "solver"),
    ],
)
def test_what_has_no_use_is_refused_before_the_charge(
    tasks, parameters, named, epsilon
):
    X, y, users, _ = tasks
    with PrivacyAccountant() as accountant:
        with pytest.raises(ValueError, match=named):
            LRSRegressor(epsilon=epsilon, **{**GIVEN, **parameters}).fit(
                X, y, users=users
            )
        assert not accountant.ledger


def test_a_central_model_is_given_or_found_from_zero(tasks):
    X, y, users, _ = tasks
    with pytest.raises(ValueError, match="GivenDirections"):
        LRSRegressor(
            shared_weights="fixed", solver=PrivateRounds(init=np.ones((1, D)))
        ).fit(X, y, users=users)


@NOT_PRIVATE
def test_without_a_budget_unknown_users_may_be_refused(tasks):
    """Nothing is released in either case: what was asked for tells."""
    X, y, users, _ = tasks
    given = {
        "solver": FIRST,
        "unknown_user": "raise",
        **GIVEN,
    }
    model = LRSRegressor(epsilon=None, **given).fit(X, y, users=users)
    assert np.isfinite(model.predict(X, users=users)).all()
    with pytest.raises(ValueError, match="not in the fit"):
        model.predict(X[:1], users=[T + 1])
    model = LRSRegressor(epsilon=1.0, **given | {"unknown_user": "shared"})
    model.fit(X, y, users=users).set_params(epsilon=None, unknown_user="raise")
    with pytest.raises(ValueError, match="this fit was private"):
        model.predict(X, users=users)
