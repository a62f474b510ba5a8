"""Rows of users without a model: what predicts them, and who is told how many."""

import re
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, KFold, cross_validate

from skdpspectral import (
    DPMatrixFactorization,
    LRSMLPRegressor,
    LRSRegressor,
    PrivacyLeakWarning,
)
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import PrivateRounds, UserIntercept
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV, PrivateSplit

N_USERS, N_ROWS, D = 40, 6, 3
IDS = np.repeat(np.arange(N_USERS), N_ROWS)
RNG = np.random.default_rng(3)
X = np.column_stack([IDS, RNG.normal(size=(len(IDS), D))])
Y = X[:, 1] * np.sign(IDS % 2 - 0.5) + 0.1 * RNG.normal(size=len(IDS))
RATINGS = np.column_stack([IDS, RNG.integers(8, size=len(IDS))])
STARS = RNG.integers(1, 6, size=len(IDS)).astype(float)

HELD = {
    "LRSRegressor": (LRSRegressor(user_feature=0), X, Y),
    "LRSRegressor, not private": (LRSRegressor(user_feature=0, epsilon=None), X, Y),
    "LRSMLPRegressor": (LRSMLPRegressor(user_feature=0, hidden_layer_sizes=2), X, Y),
    "ratings": (
        DPMatrixFactorization(
            1, items=list(range(8)), user_feature=0, item_feature=1, rating_range=(1, 5)
        ),
        RATINGS,
        STARS,
    ),
    "clicks": (
        DPMatrixFactorization(
            1, items=list(range(8)), user_feature=0, item_feature=1, implicit=True
        ),
        RATINGS,
        None,
    ),
}
# What warnings say of unknown users; tests elsewhere ignore them.
UNKNOWN = re.compile("neither in the fit nor personalized|without models of users")


def told(call):
    """Return what a call gives, and its warnings of unknown users."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = call()
    return found, [w for w in seen if UNKNOWN.search(str(w.message))]


def held(name):
    model, rows, targets = HELD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model = sklearn.clone(model).set_params(noise_seed=0).fit(rows, targets)
    return model, rows, targets


def asked(rows, n_unknown):
    """Rows of which some are of other users, in the midst of the others."""
    rows = rows.copy()
    rows[10 : 10 + n_unknown, 0] += 1000
    return rows


@pytest.mark.parametrize("name", HELD)
def test_rows_of_unknown_users_are_counted_in_one_warning(name):
    model, rows, _ = held(name)
    for n_unknown in (1, 7, len(rows) - 10):
        _, seen = told(lambda n=n_unknown: model.predict(asked(rows, n)))
        (warning,) = seen
        assert str(warning.message).startswith(
            f"{n_unknown} of {len(rows)} rows belong"
        )
        assert warning.filename == __file__
    assert not told(lambda: model.predict(rows))[1]


@pytest.mark.parametrize("name", [name for name in HELD if name != "clicks"])
def test_scores_count_them_once_too(name):
    model, rows, targets = held(name)
    _, seen = told(lambda: model.score(asked(rows, 5), targets))
    assert [str(w.message)[:10] for w in seen] == ["5 of 240 r"]
    assert seen[0].filename == __file__


@pytest.mark.parametrize("name", ["ratings", "clicks"])
def test_lists_of_unknown_users_are_counted(name):
    model = held(name)[0]
    _, seen = told(lambda: model.recommend([0, 5000, 1, 6000], 2))
    assert [str(w.message)[:12] for w in seen] == ["2 of 4 users"]


@pytest.mark.parametrize("name", HELD)
def test_a_published_copy_says_the_same_of_members_and_strangers(name):
    model, rows, _ = held(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        published = model.publish()
    texts, predictions = set(), []
    for n_unknown in (0, 3, len(rows) - 10):
        found, seen = told(lambda n=n_unknown: published.predict(asked(rows, n)))
        texts |= {str(w.message) for w in seen}
        predictions.append(found)
    (text,) = texts
    assert not re.search(rf"\b{len(rows)}\b", text)
    np.testing.assert_array_equal(predictions, predictions[:1] * 3)


@pytest.mark.parametrize("name", HELD)
def test_personalized_users_are_known(name):
    model, rows, targets = held(name)
    new = asked(rows, 4)[10:14]
    model.personalize(new, None if targets is None else targets[10:14])
    assert not told(lambda: model.predict(np.vstack([rows, new])))[1]


def test_what_unknown_users_get_is_named():
    model = held("LRSRegressor")[0].set_params(epsilon=1.0)
    stranger = asked(X, 1)[10:11]
    with pytest.warns(UserWarning, match="by intercept_=0 alone, as coef_ is zero"):
        assert model.predict(stranger) == 0.0
    level = UserIntercept(prior=3.5)
    model = LRSRegressor(user_feature=0, fit_intercept=level).fit(X, Y)
    with pytest.warns(UserWarning, match="by intercept_=3.5 alone"):
        assert model.predict(stranger) == 3.5
    shared = PrivateRounds(0, init=[[1.0, 0.0, 0.0]])
    model = LRSRegressor(user_feature=0, shared_weights="fixed", solver=shared)
    with pytest.warns(UserWarning, match="the shared model"):
        assert model.fit(X, Y).predict(stranger) == stranger[0, 1]


def test_a_private_score_counts_nobody():
    """A warning would be a release beside the score."""
    model = held("LRSRegressor")[0]
    scorer = make_private_scorer("squared_error", limit=9.0, epsilon=1.0)
    assert not told(lambda: scorer(model, asked(X, 9), Y))[1]
    assert told(lambda: model.predict(asked(X, 9)))[1]


def test_a_private_search_counts_nobody():
    ids = np.where(np.arange(len(IDS)) < 200, IDS, 1000 + np.arange(len(IDS)))
    rows = np.column_stack([ids, X[:, 1:]])  # many users of one row
    scorer = make_private_scorer("squared_error", limit=9.0, user_feature=0)
    search = PrivateSearchCV(
        LRSRegressor(user_feature=0),
        {"sparsity": [0, 1]},
        n_blocks=9,
        scoring=scorer,
        epsilon=20.0,
    ).set_params(noise_seed=0)
    counted = []
    with pytest.MonkeyPatch.context() as patch:
        warn = LRSRegressor._warn_of_unknown
        patch.setattr(
            LRSRegressor,
            "_warn_of_unknown",
            lambda model, codes, **how: (
                counted.append(np.any(codes < 0)),
                warn(model, codes, **how),
            ),
        )
        assert not told(lambda: search.fit(rows, Y))[1]
    assert any(counted)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_components": 2, "sparsity": 1},
        {"fit_intercept": False},
        {"fit_intercept": UserIntercept(ridge=2.0)},
        {"neighbors": "replace-one", "sparsity": 0},
    ],
    ids=str,
)
def test_releases_do_not_hold_the_signs_of_users(options):
    """So no function of them predicts unknown users better than a public level."""
    signs = np.where(np.random.default_rng(0).random(N_USERS) < 0.5, -1.0, 1.0)[IDS]
    how = {"user_feature": 0, "epsilon": 1e4, "noise_seed": 0, **options}
    model = LRSRegressor(**how).fit(X, Y)
    mirrored = LRSRegressor(**how).fit(X, signs * Y)
    np.testing.assert_array_equal(model.components_, mirrored.components_)
    changed = model.predict(X) != mirrored.predict(X)
    assert changed[signs < 0].all()
    assert not changed[signs > 0].any()


def test_cross_validation_says_which_users_folds_leave_out():
    """The default folds of scikit-learn, of rows that are sorted by user."""
    rows, targets, users = make_low_rank_sparse_tasks(
        600, 20, 5, sparsity=1, noise=0.1, random_state=0
    )
    how = {"ridge_sparse": 0.1, "ridge_shared": 0.1}
    with sklearn.config_context(enable_metadata_routing=True):
        model = LRSRegressor(1, 1, epsilon=4.0, noise_seed=0, **how)
        model.set_fit_request(users=True).set_score_request(users=True)

        def scores(cv, **groups):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                params = {"users": users, **groups}
                call = lambda: cross_validate(  # noqa: E731
                    model, rows, targets, cv=cv, params=params
                )
                found, seen = told(call)
            return found["test_score"], [str(w.message)[:20] for w in seen]

        groups = {"groups": users}
        strangers, seen = scores(3)
        assert seen == ["4000 of 4000 rows belong"[:20]] * 3
        assert np.all(np.abs(strangers) < 0.01)
        assert scores(GroupKFold(3), **groups)[1] == seen
        known, seen = scores(
            PrivateSplit(3, whole_users=False, random_state=0), **groups
        )
        assert seen == []
        assert known.min() > 0.9
        assert scores(KFold(3, shuffle=True, random_state=0))[1] == []
