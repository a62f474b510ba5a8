"""Networks of users: that they learn, whose baselines they are, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from lrs_tools import alike, table
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpspectral import LRSMLPRegressor, PrivacyAccountant, PrivacyLeakWarning

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=None")
T, M, D, WIDTH = 200, 12, 3, 5
FEW = {"n_rounds": 2, "n_own_steps": 2}


def teachers(rank=2, k=2, seed=0):
    """Users with networks of low rank and sparse, without noise."""
    rng = np.random.default_rng(seed)
    p = (D + 2) * WIDTH + 1
    whole = rng.standard_normal((T, rank)) @ rng.standard_normal((rank, p))
    for weights in whole:
        weights[rng.choice(p, k, replace=False)] += rng.standard_normal(k)
    X = rng.standard_normal((T, M, D))
    hidden = X @ whole[:, : D * WIDTH].reshape(T, D, WIDTH)
    hidden = np.tanh(0.5 * hidden + whole[:, None, D * WIDTH : (D + 1) * WIDTH])
    y = (hidden @ whole[:, (D + 1) * WIDTH : -1, None])[:, :, 0]
    return X.reshape(-1, D), y.ravel() / y.std(), np.repeat(np.arange(T), M)


X, Y, USERS = teachers()
TEST = np.arange(len(Y)) % M >= M - 6


def error(model):
    """Share of the variance of held-out rows that is not explained."""
    model.fit(X[~TEST], Y[~TEST], users=USERS[~TEST])
    return 1.0 - model.score(X[TEST], Y[TEST], users=USERS[TEST])


def test_networks_of_low_rank_are_learned():
    """From six rows a user, and simpler models learn less from them."""
    given = {"epsilon": None, "hidden_layer_sizes": WIDTH, "fit_intercept": False}
    single = given | {"shared_weights": "fixed"}
    given |= {"ridge_shared": 0.1, "ridge_sparse": 0.1}
    found = {
        "right": error(LRSMLPRegressor(2, 2, **given)),
        "rank 1": error(LRSMLPRegressor(1, 2, **given)),
        "full": error(LRSMLPRegressor(0, None, **given)),
        "single": error(LRSMLPRegressor(1, 0, **single)),
    }
    assert found["right"] < 0.15
    assert found["right"] < 0.85 * min(found["rank 1"], found["full"], found["single"])


def fitted(**parameters):
    given = {"hidden_layer_sizes": 3} | FEW | parameters
    return LRSMLPRegressor(**given).fit(X, Y, users=USERS)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_a_single_network_is_the_same_for_all(epsilon):
    given = {"shared_weights": "fixed", "sparsity": 0, "fit_intercept": False}
    model = fitted(epsilon=epsilon, **given)
    coefs = [model.get_network(user)[0][0] for user in (0, 7, 99)]
    for other in coefs[1:]:
        np.testing.assert_array_equal(coefs[0], other)
    unknown = model.predict(X, users=USERS + 1000)
    np.testing.assert_allclose(model.predict(X, users=USERS), unknown, rtol=1e-9)


def test_networks_are_low_rank_and_sparse():
    model = fitted(epsilon=None, n_components=2, sparsity=4)
    for user in (0, 5):
        coefs, intercepts = model.get_network(user)
        intercepts[1] = intercepts[1] - model._personal.levels[user]
        whole = np.concatenate(
            [
                part.ravel()
                for layer in zip(coefs, intercepts, strict=True)
                for part in layer
            ]
        )
        code = model._personal.codes([user], 1, "user")[0]
        rest = whole - model._personal.weights[code] @ model.components_
        assert np.count_nonzero(np.abs(rest) > 1e-12) <= 4
        check_that_layers_predict(model, user)


def check_that_layers_predict(model, user):
    coefs, intercepts = model.get_network(user)
    outputs = np.tanh(X[:5] @ coefs[0] + intercepts[0]) @ coefs[1] + intercepts[1]
    found = model.predict(X[:5], users=[user] * 5)
    np.testing.assert_allclose(found, outputs[:, 0], rtol=1e-9)


def test_full_networks_are_each_user_s_own():
    """With nothing shared, a user alone and in company has the same network."""
    together = fitted(n_components=0, sparsity=None)
    assert together.privacy_.mechanisms == ()
    assert together.components_.shape == (0, 3 * 3 + 3 + 3 + 1)
    alone = LRSMLPRegressor(0, None, hidden_layer_sizes=3, **FEW)
    mine = USERS == 3
    alone.fit(X[mine], Y[mine], users=USERS[mine])
    np.testing.assert_array_equal(
        alone.predict(X[mine], users=USERS[mine]),
        together.predict(X[mine], users=USERS[mine]),
    )


def test_prompts_are_features_of_a_user():
    given = {"shared_weights": "fixed", "sparsity": 0, "prompt_size": 2}
    model = fitted(epsilon=None, fit_intercept=False, **given)
    assert model.get_network(4)[0][0].shape == (D, 3)
    assert np.any(model.get_network(4)[1][0] != model.get_network(5)[1][0])
    check_that_layers_predict(model, 4)


def test_new_users_train_beside_a_published_model(tmp_path):
    model = fitted(n_components=2)
    published = model.publish()
    mine = USERS == 3
    published.personalize(X[mine], Y[mine], user="new")
    found = published.predict(X[mine], users=["new"] * M)
    np.testing.assert_array_equal(found, model.predict(X[mine], users=USERS[mine]))
    published.save(tmp_path / "own.npz", user="new")
    own = LRSMLPRegressor.load(tmp_path / "own.npz")
    np.testing.assert_array_equal(own.predict(X[mine], users=["new"] * M), found)
    rows = np.column_stack([USERS, X])
    last = clone(model).set_params(user_feature=0)
    pipeline = make_pipeline(FunctionTransformer(), last).fit(rows, Y)
    new = pipeline[:-1].transform(rows[mine] + [500, 0, 0, 0])
    pipeline[-1].personalize(new, Y[mine])
    one, two = (pipeline.predict(rows[mine] + [n, 0, 0, 0]) for n in (0, 500))
    np.testing.assert_array_equal(one, two)


def test_users_may_have_other_numbers_of_own_weights_than_others():
    """Whoever joins with more, or with fewer, changes nobody else's predictions."""
    model = fitted(sparsity=4)
    assert (model._personal.support[:, 0] == 0).any()
    before, mine = model.predict(X, users=USERS), USERS == 3
    for user, sparsity in ((1000, 9), (1001, 1), (1002, None)):
        model.set_params(sparsity=sparsity)
        model.personalize(X[mine], Y[mine], user=user)
        np.testing.assert_array_equal(model.predict(X, users=USERS), before)
        alone = model.publish().personalize(X[mine], Y[mine], user=user)
        one, two = (m.predict(X[mine], users=[user] * M) for m in (model, alone))
        np.testing.assert_array_equal(one, two)
    assert model._personal.sparse.shape[1] == (D + 2) * 3 + 1


def test_a_column_of_users_works_under_scikit_learn_s_tools():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(user=USERS.astype(str))
    model = LRSMLPRegressor(
        hidden_layer_sizes=3, epsilon=None, user_feature="user", **FEW
    )
    assert len(cross_val_score(model, frame, Y, cv=3)) == 3
    grid = {"learning_rate": [0.01, 0.1], "sparsity": [0, None]}
    search = GridSearchCV(clone(model), grid, cv=2)
    search.fit(frame, Y)
    assert search.best_estimator_.learning_rate in (0.01, 0.1)
    routed = clone(model).set_params(user_feature=None).fit(X, Y, users=USERS)
    np.testing.assert_array_equal(
        model.fit(frame, Y).predict(frame), routed.predict(X, users=USERS)
    )


def test_rounds_and_their_costs_are_planned():
    model = LRSMLPRegressor(2, hidden_layer_sizes=4, neighbors="replace-one")
    plan = model.privacy_plan(5)
    assert [m.name for m in plan.mechanisms][:2] == ["gradients_1", "gradients_2"]
    assert len(plan.mechanisms) == 30
    assert {m.shape for m in plan.mechanisms} == {(2 * (6 * 4 + 5),)}
    assert (str(plan.unit), str(plan.neighbors)) == ("user", "replace-one")
    one = clone(model).set_params(neighbors="add-remove-one").privacy_plan(5)
    stds = [p.mechanisms[0].noise_std for p in (plan, one)]
    assert stds[0] == pytest.approx(2.0 * stds[1], rel=1e-3)
    accountant = PrivacyAccountant()
    table_of_ids = np.column_stack([USERS, X])
    model.set_params(accountant=accountant, user_feature=0, **FEW)
    model.fit(table_of_ids, Y)
    assert accountant.spent().epsilon == pytest.approx(1.0)


def test_private_fits_warn_of_what_they_cannot_keep():
    with pytest.warns(PrivacyLeakWarning, match="the rows of one user"):
        LRSMLPRegressor(hidden_layer_sizes=2, **FEW).fit(X, Y)
    model = fitted()
    with pytest.warns(PrivacyLeakWarning, match="pooled over users"):
        model.score(X, Y, users=USERS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted()


def test_huge_values_are_refused_without_privacy():
    rows, y = table(alike(3, 4, D))
    y[0] = 1e308
    model = LRSMLPRegressor(hidden_layer_sizes=2, epsilon=None, user_feature=0)
    with pytest.raises(ValueError, match="X or y contains numbers"):
        model.fit(rows, y)
    assert not hasattr(model, "components_")
