"""Ridge regressions a user, levels and offsets; users in batches and on devices."""

import re
import zipfile

import numpy as np
import pandas as pd
import pytest

from skdpspectral import LRSRegressor, PrivacyAccountant
from skdpspectral.linear_model import UserIntercept

without_privacy = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
COUNTS = np.repeat([1, 2, 5, 9, 20], 6)


def tasks(d=4, seed=0):
    """Rows of users 0 to 29, and targets about 3; users of 1 to 20 rows."""
    rng = np.random.default_rng(seed)
    users = rng.permutation(np.repeat(np.arange(len(COUNTS)), COUNTS))
    X = rng.standard_normal((len(users), d))
    own = rng.standard_normal((len(COUNTS), d))
    noise = 0.3 * rng.standard_normal(len(users))
    return X, 3.0 + (X * own[users]).sum(axis=1) + noise, users


def ridge_of(X, y, ridge, level=0.0, prior=0.0):
    """Coefficients and intercept by the normal equations of one user."""
    design = np.column_stack([X, np.ones(len(X))])
    penalty = np.diag([*np.full(X.shape[1], ridge), level])
    gram = design.T @ design + penalty
    found = np.linalg.solve(gram, design.T @ (y - prior))
    return found[:-1], found[-1] + prior


@pytest.mark.parametrize("sparsity", [None, 4, 9])
@pytest.mark.parametrize("level", [UserIntercept(), UserIntercept(prior=2.0, ridge=5)])
@pytest.mark.parametrize("scale", [False, [0.1, 1.0, 2.0, 30.0]])
def test_all_features_free_is_a_ridge_regression_a_user(sparsity, level, scale):
    X, y, users = tasks()
    model = LRSRegressor(
        0, sparsity, ridge_sparse=7.0, scale=scale, fit_intercept=level
    )
    model.fit(X, y, users=users)
    assert model.privacy_.mechanisms == ()
    measured = X if scale is False else X / np.array(scale)
    penalties = (level.ridge, level.prior or 0.0)
    for user in range(len(COUNTS)):
        own = users == user
        coef, intercept = ridge_of(measured[own], y[own], 7.0, *penalties)
        found = model.get_coef(user) * (1.0 if scale is False else np.array(scale))
        np.testing.assert_allclose(found, coef, atol=1e-8)
        assert model.get_intercept(user) == pytest.approx(intercept, abs=1e-8)


@without_privacy
def test_a_level_that_is_charged_goes_with_shared_directions():
    X, y, users = tasks()
    model = LRSRegressor(
        1,
        2,
        epsilon=None,
        fit_intercept=UserIntercept(ridge=4.0),
        ridge_sparse=1.0,
        scale=False,
    ).fit(X, y, users=users)
    own = users == np.flatnonzero(COUNTS == 20)[0]
    user, Z = users[own][0], X[own]
    # Another intercept is no better for these coefficients.
    rest = y[own] - Z @ model.get_coef(user)
    best = rest.sum() / (len(rest) + 4.0)
    assert model.get_intercept(user) == pytest.approx(best, abs=1e-9)


def test_unknown_users_have_the_public_intercept():
    X, y, users = tasks()
    for rank in (0, 1):
        model = LRSRegressor(rank, 2, fit_intercept=UserIntercept(prior=3.0)).fit(
            X, y, users=users
        )
        assert model.intercept_ == model.publish().intercept_ == 3.0
        assert model.predict(X[:2], users=[777, 778]).tolist() == [3.0, 3.0]
        assert model.get_intercept(777) == 3.0
    assert LRSRegressor(0).fit(X, y, users=users).predict(X[:1], users=[777]) == [0.0]


@without_privacy
def test_without_privacy_the_intercept_of_all_is_a_mean_unless_it_is_given():
    X, y, users = tasks()
    model = LRSRegressor(0, epsilon=None).fit(X, y, users=users)
    assert 2.0 < model.intercept_ < 4.0
    assert (
        model.set_params(fit_intercept=UserIntercept(-1))
        .fit(X, y, users=users)
        .intercept_
        == -1
    )


@pytest.mark.parametrize("place", [0, 1, 3, -1])
@pytest.mark.parametrize("kind", ["array", "frame", "objects", "users beside"])
def test_an_offset_is_no_feature_and_is_added(place, kind):
    X, y, users = tasks()
    offset = np.linspace(1.0, 5.0, len(X))
    expected = LRSRegressor(1, 2, noise_seed=0)
    expected.fit(X, y - offset, users=users)
    T = np.insert(X, X.shape[1] if place == -1 else place, offset, axis=1)
    given = {"offset_feature": place}
    if kind != "users beside":
        T = np.insert(T, 2, users, axis=1)
        where = place + (0 <= 2 <= place)
        given = {"offset_feature": where if place >= 0 else -1, "user_feature": 2}
    if kind == "frame":
        T = pd.DataFrame(T, columns=[f"c{j}" for j in range(T.shape[1])])
        given = {k: T.columns[v] for k, v in given.items()}
    if kind == "objects":
        T = T.astype(object)
        T[:, 2] = [f"user {int(u)}" for u in T[:, 2]]
    routed = {"users": users} if kind == "users beside" else {}
    intercept = UserIntercept(offset_feature=given.pop("offset_feature"))
    model = LRSRegressor(1, 2, noise_seed=0, fit_intercept=intercept, **given)
    assert model.plan_for(T).mechanisms == expected.privacy_.mechanisms
    model.fit(T, y, **routed)
    np.testing.assert_array_equal(model.components_, expected.components_)
    found = model.predict(T, **routed)
    np.testing.assert_array_equal(found, offset + expected.predict(X, users=users))
    model.personalize(T, y, **routed)
    again = expected.personalize(X, y - offset, users=users)
    found = model.predict(T, **routed)
    np.testing.assert_array_equal(found, offset + again.predict(X, users=users))


def test_offsets_beyond_float64_say_nothing():
    X, y, users = tasks()
    T = np.insert(X, 0, np.where(users == 3, -1.7e308, 0.0), axis=1)
    y = np.where(users == 3, 1.7e308, y)
    with np.errstate(all="raise"):
        model = LRSRegressor(1, 2, fit_intercept=UserIntercept(offset_feature=0)).fit(
            T, y, users=users
        )
    assert np.isfinite(model.components_).all()


NOT_TOGETHER = {
    "sparsity=None requires ridge_sparse": {"sparsity": None, "ridge_sparse": 0.0},
    "fit_intercept must be": {"fit_intercept": True},
    "name the same column": {
        "user_feature": 1,
        "fit_intercept": UserIntercept(offset_feature=-4),
    },
    "offset_feature='mean', but X has no column names": {
        "fit_intercept": UserIntercept(offset_feature="mean")
    },
    "offset_feature=5, but X has 5 columns": {
        "fit_intercept": UserIntercept(offset_feature=5)
    },
}


@pytest.mark.parametrize("message", NOT_TOGETHER)
def test_what_does_not_go_together_costs_nothing(message):
    X, y, users = tasks()
    accountant = PrivacyAccountant(1.0)
    parameters = {"user_feature": 0, **NOT_TOGETHER[message]}
    model = LRSRegressor(accountant=accountant, **parameters)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(np.insert(X, 0, users, axis=1), y)
    assert len(accountant.ledger) == 0


# -- many users at once ----------------------------------------------------------------


@pytest.mark.parametrize("column", [None, 0])
def test_users_in_a_batch_have_the_bits_that_they_have_alone(column):
    X, y, users = tasks(seed=1)
    T = X if column is None else np.insert(X, 0, users, axis=1)
    model = LRSRegressor(1, 2, user_feature=column)
    known = users < 10
    routed = (lambda rows: {"users": users[rows]}) if column is None else (lambda r: {})
    model.fit(T[known], y[known], **routed(known))
    one, all_at_once = model.publish(), model.publish()
    some = (users >= 5) & (users < 20)  # known and new ones
    assert all_at_once.personalize(T[some], y[some], **routed(some)) is all_at_once
    for user in range(5, 20):
        own = users == user
        one.personalize(T[own], y[own], user=user)
    expected = one.predict(T, **routed(slice(None)))
    np.testing.assert_array_equal(
        all_at_once.predict(T, **routed(slice(None))), expected
    )
    # The fitted model keeps the users who were not among them; new ones come first.
    before = model.predict(T, **routed(slice(None)))
    turned = np.flatnonzero(some)[::-1]
    alone = model.publish()
    for fitted in (alone, model):
        fitted.personalize(T[turned], 6.0 - y[turned], **routed(turned))
    after = model.predict(T, **routed(slice(None)))
    expected = alone.predict(T, **routed(slice(None)))
    np.testing.assert_array_equal(after[some], expected[some])
    np.testing.assert_array_equal(after[users < 5], before[users < 5])
    assert (after[some] != before[some]).all()


def test_ids_of_a_batch_are_of_one_kind_with_the_others():
    X, y, users = tasks()
    model = LRSRegressor(0).fit(X, y, users=users.astype(np.int16))
    big = np.where(users == 0, 2**60, 2**60 + 1)
    model.personalize(X, y, users=big)
    assert not np.array_equal(model.get_coef(2**60), model.get_coef(2**60 + 1))
    coef = model.get_coef(2**60)
    with pytest.raises(ValueError, match="users contains strings"):
        model.personalize(X, -y, users=users.astype(str))
    np.testing.assert_array_equal(model.get_coef(2**60), coef)


# -- files of devices ------------------------------------------------------------------


def bytes_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("user", [3, "ann"])
def test_a_file_for_a_device_holds_one_user_alone(user, tmp_path):
    X, y, users = tasks()
    names = users if user == 3 else np.where(users == 3, "ann", "bob's friends")
    model = LRSRegressor(1, 2, fit_intercept=UserIntercept(prior=3.0)).fit(
        X, y, users=names
    )
    model.save(tmp_path / "all.npz")
    model.save(tmp_path / "one.npz", user=user)
    with_one, public = bytes_of(tmp_path / "one.npz"), bytes_of(tmp_path / "all.npz")
    assert {name: with_one[name] for name in public} == public
    added = "".join(sorted(name for name in with_one if name not in public))
    assert added == "".join(
        f"user_{name}.npy"
        for name in ("id", "intercepts", "sparse", "support", "weights")
    )
    # By bytes: the same file whatever the models of others are.
    alone = model.publish().personalize(X[users == 3], y[users == 3], user=user)
    alone.save(tmp_path / "alone.npz", user=user)
    assert bytes_of(tmp_path / "alone.npz") == with_one
    everything = (tmp_path / "one.npz").read_bytes()
    for other in set(names.tolist()) - {user}:
        value = np.float64(model.get_intercept(other)).tobytes()
        assert value not in everything
    read = LRSRegressor.load(tmp_path / "one.npz")
    own = users == 3
    expected = model.predict(X[own], users=names[own])
    np.testing.assert_array_equal(read.predict(X[own], users=names[own]), expected)
    stranger = 4 if user == 3 else "bob's friends"
    assert read.get_intercept(stranger) == 3.0


def test_files_for_devices_are_refused_before_they_are_written(tmp_path):
    X, y, users = tasks()
    model = LRSRegressor(0).fit(X, y, users=users)
    with pytest.raises(ValueError, match="no model"):
        model.save(tmp_path / "one.npz", user=-1)
    assert not (tmp_path / "one.npz").exists()
