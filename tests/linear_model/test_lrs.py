"""LRSRegressor: predictions by user, routing, searches, what is handed on."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdpspectral import LRSRegressor, PrivacyAccountant, PrivacyLeakWarning
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import Alternation, PrivateRounds
from skdpspectral.model_selection import PrivateSplit

N_USERS, N_FEATURES = 12, 5
# With epsilon=None, and whatever else a test is not about.
EXACT = {"epsilon": None, "sparsity": 1, "solver": Alternation(tol=1e-2)}
quiet = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*without privacy:skdpspectral.PrivacyLeakWarning"
)


@pytest.fixture
def data():
    return make_low_rank_sparse_tasks(
        N_USERS,
        12,
        N_FEATURES,
        sparsity=1,
        intercept_scale=2.0,
        noise=0.1,
        shuffle=True,
        random_state=0,
    )


@pytest.fixture
def table(data):
    """X with the users in its first column."""
    X, y, users = data
    return np.column_stack([users, X]), y


def fitted(data, **parameters):
    X, y, users = data
    return LRSRegressor(**{**EXACT, **parameters}).fit(X, y, users=users)


def assert_same_public(first, second):
    first, second = first._public_state(), second._public_state()
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


# -- one fit ---------------------------------------------------------------------------

SETTINGS = {
    "default": {},
    "no privacy": {"epsilon": None},
    "one direction": {"sparsity": 0},
    "sparse alone": {"n_components": 0},
    "nothing": {"n_components": 0, "sparsity": 0},
    "fixed weights": {"shared_weights": "fixed"},
    "rank above d": {"n_components": 50},
    "sparsity above d": {"sparsity": 50},
    "no intercept": {"fit_intercept": False},
    "no penalties": {"ridge_shared": 0, "ridge_sparse": 0},
    "infinite penalties": {"ridge_shared": 1e60, "ridge_sparse": 1e60},
    "one release": {"solver": PrivateRounds(n_rounds=1)},
    "public clips": {
        "solver": PrivateRounds(curvature_clip_norm=1.0, gradient_clip_norm=1.0)
    },
    "replace-one": {"neighbors": "replace-one"},
    "public scale": {"scale": np.arange(1.0, 1.0 + N_FEATURES)},
    "tiny budget": {"epsilon": 1e-6},
    "huge budget": {"epsilon": 1e8},
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_attributes(data, setting, private):
    X, y, users = data
    parameters = SETTINGS[setting]
    if not private:
        kept = {k: v for k, v in parameters.items() if k != "solver"}
        parameters = {**kept, "epsilon": None}
    model = LRSRegressor(**parameters)
    assert model.fit(X, y, users=users) is model
    rank = min(parameters.get("n_components", 1), N_FEATURES)
    private = private and setting != "no privacy"
    assert model.components_.shape == (rank, N_FEATURES)
    assert model.weights_.shape == (rank,)
    np.testing.assert_allclose(model.coef_, model.weights_ @ model.components_)
    assert type(model.intercept_) is float
    assert model.scale_.shape == (N_FEATURES,)
    assert model.n_features_in_ == N_FEATURES
    assert model.privacy_.private == private
    assert type(model.n_iter_) is int
    if setting != "fixed weights":
        scaled = model.components_ * model.scale_
        np.testing.assert_allclose(scaled @ scaled.T, np.eye(rank), atol=1e-9)
    if private:
        np.testing.assert_array_equal(model.weights_, float(setting == "fixed weights"))
        assert model.intercept_ == 0.0
        rounds = parameters.get("solver", PrivateRounds()).n_rounds
        assert model.n_iter_ == (rounds if rank else 1)
        expected = parameters.get("scale", np.ones(N_FEATURES))
        np.testing.assert_array_equal(model.scale_, expected)
        assert model.privacy_ == model.privacy_plan(N_FEATURES)
    predictions = model.predict(X, users=users)
    assert predictions.shape == y.shape
    assert predictions.dtype == np.float64
    assert np.isfinite(predictions).all()
    for user in range(N_USERS):
        own = users == user
        expected = X[own] @ model.get_coef(user) + model.get_intercept(user)
        np.testing.assert_allclose(predictions[own], expected, atol=1e-9)
    unknown = model.predict(X, users=users + 1000)
    np.testing.assert_allclose(unknown, X @ model.coef_ + model.intercept_, atol=1e-9)


def test_intercepts_are_of_the_users_and_zero_without(data):
    X, y, users = data
    model = fitted(data)
    assert model.score(X, y, users=users) > fitted(data, fit_intercept=False).score(
        X, y, users=users
    )
    for user in range(N_USERS):
        own = users == user
        residual = y[own] - model.predict(X[own], users=users[own])
        assert abs(residual.mean()) < 1e-10
    plain = fitted(data, fit_intercept=False)
    assert plain.intercept_ == plain.get_intercept(3) == 0.0


def test_units_of_features_make_no_difference_without_privacy(data):
    X, y, users = data
    units = np.array([1e-3, 1.0, 1e3, 8.0, 1e-6])
    model, other = fitted(data), fitted((X * units, y, users))
    np.testing.assert_allclose(
        other.predict(X * units, users=users), model.predict(X, users=users), rtol=1e-6
    )
    np.testing.assert_allclose(other.scale_, model.scale_ * units)
    np.testing.assert_allclose(other.get_coef(3) * units, model.get_coef(3), rtol=1e-5)


def test_public_scales_are_units(data):
    X, y, users = data
    units = np.array([1e-3, 1.0, 1e3, 8.0, 1e-6])
    model = LRSRegressor(noise_seed=0).fit(X, y, users=users)
    other = LRSRegressor(noise_seed=0, scale=units).fit(X * units, y, users=users)
    np.testing.assert_allclose(
        other.predict(X * units, users=users), model.predict(X, users=users), rtol=1e-6
    )
    units[:] = 7.0
    np.testing.assert_allclose(other.scale_, [1e-3, 1.0, 1e3, 8.0, 1e-6], rtol=1e-15)


def test_all_rows_are_of_one_user_without_users(data):
    X, y, _ = data
    model = LRSRegressor(**EXACT).fit(X, y)
    one = LRSRegressor(**EXACT).fit(X, y, users=["me"] * len(y))
    np.testing.assert_array_equal(
        model.predict(X), one.predict(X, users=["me"] * len(y))
    )
    np.testing.assert_array_equal(model.get_coef(), one.get_coef("me"))
    assert model.get_intercept() == one.get_intercept("me")
    assert model.score(X, y) == one.score(X, y, users=["me"] * len(y))


def test_the_order_of_rows_does_not_matter(data):
    """The sums of a private fit are exact: not even their last bit changes."""
    X, y, users = data
    order = np.argsort(users, kind="stable")
    for parameters in ({"noise_seed": 0}, EXACT):
        one = LRSRegressor(**parameters).fit(X, y, users=users)
        two = LRSRegressor(**parameters).fit(X[order], y[order], users=users[order])
        compare = (
            np.testing.assert_array_equal
            if one.privacy_.private
            else np.testing.assert_allclose
        )
        compare(one.components_, two.components_)
        for user in range(N_USERS):
            compare(one.get_coef(user), two.get_coef(user))


def test_score_is_r2_with_weights(data):
    X, y, users = data
    model = fitted(data)
    predictions = model.predict(X, users=users)
    assert model.score(X, y, users=users) == r2_score(y, predictions)
    weights = np.linspace(0, 1, len(y))
    assert model.score(X, y, weights, users=users) == r2_score(
        y, predictions, sample_weight=weights
    )
    assert model.score(X, y, sample_weight=weights, users=users) == model.score(
        X, y, weights, users=users
    )


# -- convergence, progress -------------------------------------------------------------


def test_convergence_is_said(data):
    with pytest.warns(ConvergenceWarning, match=r"1 iterations; .*max_iter or tol"):
        model = fitted(data, solver=Alternation(tol=0.0, max_iter=1))
    assert model.n_iter_ == 1
    loose = fitted(data, solver=Alternation(tol=1e9))
    assert loose.n_iter_ == 1


# -- what a fit does not use is refused ------------------------------------------------

FIXED = {"shared_weights": "fixed"}
# What is refused, what the error must name besides, and what is right in its place.
UNUSED = [
    ({"solver": Alternation()}, ("solver", "epsilon=None", "n_rounds"), "auto"),
    (
        {"solver": PrivateRounds(7), "epsilon": None},
        ("n_rounds", "budget", "max_iter"),
        "auto",
    ),
    ({"solver": PrivateRounds(0)}, ("n_rounds=0", "init"), PrivateRounds(1)),
    (
        {"solver": PrivateRounds(init=np.eye(1, 5)), **FIXED},
        ("init", "fixed"),
        PrivateRounds(),
    ),
    (
        {"solver": Alternation(init=np.eye(1, 5)), "epsilon": None, **FIXED},
        ("init", "fixed"),
        Alternation(),
    ),
]


@quiet
@pytest.mark.parametrize(("parameters", "says", "right"), UNUSED, ids=str)
def test_what_a_fit_does_not_use_is_refused(data, parameters, says, right):
    X, y, users = data
    accountant = PrivacyAccountant()
    model = clone(LRSRegressor(accountant=accountant, **parameters))
    for call in (
        lambda: model.fit(X, y, users=users),
        lambda: model.privacy_plan(N_FEATURES),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert all(word in str(caught.value) for word in says)
    assert not len(accountant.ledger)
    model.set_params(**{next(iter(parameters)): right}).fit(X, y, users=users)
    assert len(accountant.ledger) == 1


def test_verbose_prints_a_line_a_step(data, capsys):
    model = fitted(data, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert lines[0].startswith("[LRSRegressor] step 1 of 50: moved by ")
    X, y, users = data
    LRSRegressor(verbose=2, solver=PrivateRounds(n_rounds=3)).fit(X, y, users=users)
    lines = capsys.readouterr().out.splitlines()
    # Nothing of the data: the number of the release alone.
    assert lines == [f"[LRSRegressor] step {i} of 3" for i in (1, 2, 3)]
    fitted(data)
    assert not capsys.readouterr().out


# -- which users -----------------------------------------------------------------------


@pytest.mark.parametrize("private", [True, False])
def test_unknown_users_get_the_shared_model(data, private):
    X, y, users = data
    model = LRSRegressor(**({} if private else EXACT)).fit(X, y, users=users)
    mixed = np.where(np.arange(len(y)) % 2, users, users + 1000)
    predictions = model.predict(X, users=mixed)
    known = mixed < 1000
    shared = X @ model.coef_ + model.intercept_
    np.testing.assert_allclose(predictions[~known], shared[~known], atol=1e-12)
    own = model.predict(X, users=users)
    np.testing.assert_allclose(predictions[known], own[known], rtol=1e-12)
    np.testing.assert_array_equal(model.get_coef(1000), model.coef_)
    assert model.get_intercept(1000) == model.intercept_
    if private:
        np.testing.assert_array_equal(predictions[~known], 0.0)


# -- personalize -----------------------------------------------------------------------


def state_of_others(model, but):
    others = [user for user in range(N_USERS) if user != but]
    return [(model.get_coef(user), model.get_intercept(user)) for user in others]


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("user", [3, 500])
def test_personalize_changes_one_user_alone(data, private, user):
    X, y, users = data
    with PrivacyAccountant() as accountant:
        model = LRSRegressor(**({} if private else EXACT)).fit(X, y, users=users)
        before, shared = state_of_others(model, user), model._public_state()
        parameters = model.get_params()
        own = users == 4
        assert model.personalize(X[own], -y[own], user=user) is model
    assert len(accountant.ledger) == 1
    assert model._public_state() is not shared
    for name, value in shared.items():
        assert getattr(model, name) is value
    assert model.get_params() == parameters
    for (coef, intercept), (coef_now, intercept_now) in zip(
        before, state_of_others(model, user), strict=True
    ):
        np.testing.assert_array_equal(coef, coef_now)
        assert intercept == intercept_now
    assert np.linalg.norm(model.get_coef(user) - model.get_coef(4)) > 0.1


@pytest.mark.parametrize("epsilon", [None, np.inf])
def test_new_users_without_privacy_are_shrunk_to_the_mean_too(data, epsilon):
    X, y, users = data
    model = fitted(data, epsilon=epsilon, ridge_shared=1e9)
    own = users == 3
    model.personalize(X[own], y[own], user=77)
    sparse = model.get_coef(77) - model.coef_
    assert np.sum(np.abs(sparse) > 1e-6) <= 1


def test_users_personalize_a_published_copy(data):
    X, y, users = data
    model = LRSRegressor(sparsity=1).fit(X, y, users=users)
    copy = model.publish()
    np.testing.assert_array_equal(copy.predict(X, users=users), np.zeros(len(y)))
    np.testing.assert_array_equal(copy.predict(X), np.zeros(len(y)))
    for user in ("ann", "bob"):
        own = users == len(user)
        copy.personalize(X[own], y[own], user=user)
    both = ["ann", "bob", "eve"] * 4
    predictions = copy.predict(X[:12], users=both)
    expected = [
        x @ copy.get_coef(user) + copy.get_intercept(user)
        for x, user in zip(X, both[:12], strict=False)
    ]
    np.testing.assert_allclose(predictions, expected, atol=1e-12)
    assert not predictions[2::3].any()
    own = users == 3
    model.personalize(X[own], y[own], user=3)
    np.testing.assert_array_equal(copy.get_coef("ann"), model.get_coef(3))


def test_personalize_without_users(data):
    X, y, users = data
    own = users == 3
    model = LRSRegressor(**EXACT, ridge_shared=0.1, ridge_sparse=0.1).fit(X, y)
    before = model.score(X[own], y[own])
    model.personalize(X[own], y[own])
    assert model.score(X[own], y[own]) > max(0.5, before)
    with pytest.raises(ValueError, match="user must be left out"):
        model.personalize(X[own], y[own], user=3)
    with pytest.raises(ValueError, match="user must be passed"):
        fitted(data).personalize(X[own], y[own])


@pytest.mark.parametrize("sparsity", [0, 1, 3, 50])
def test_parameters_that_were_changed_after_the_fit(data, sparsity):
    """A new user's model has the new sparsity; the others keep theirs."""
    X, y, users = data
    own = users == 3
    model = fitted(data, sparsity=2, ridge_sparse=0.0, ridge_shared=0.0)
    before = state_of_others(model, 3)
    expected = fitted(data, sparsity=2, ridge_sparse=0.0, ridge_shared=0.0)
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        expected = expected.publish()
    expected.set_params(sparsity=sparsity).personalize(X[own], y[own], user=77)
    model.set_params(sparsity=sparsity)
    for user in (3, 77):
        model.personalize(X[own], y[own], user=user)
        np.testing.assert_allclose(model.get_coef(user), expected.get_coef(77))
    for (coef, _), (coef_now, _) in zip(before, state_of_others(model, 3), strict=True):
        np.testing.assert_array_equal(coef, coef_now)
    assert np.isfinite(model.predict(X, users=users)).all()


# -- scikit-learn's tools, with a column of users --------------------------------------


@quiet
def test_cross_validation_knows_the_users(table):
    T, y = table
    model = LRSRegressor(user_feature=0, **EXACT, ridge_shared=1, ridge_sparse=1)
    cv = PrivateSplit(3, user_feature=0, whole_users=False, random_state=0)
    scores = cross_val_score(model, T, y, cv=cv)
    assert scores.min() > 0.8
    splits = list(cv.split(T))
    for score, (train, test) in zip(scores, splits, strict=True):
        expected = clone(model).fit(T[train], y[train]).score(T[test], y[test])
        assert score == expected


def test_a_search_without_privacy_finds_the_model(table):
    T, y = table
    model = LRSRegressor(user_feature=0, **EXACT)
    grid = {"ridge_sparse": [0.1, 1e6], "sparsity": [0, 1]}
    search = GridSearchCV(
        model,
        grid,
        cv=PrivateSplit(3, user_feature=0, whole_users=False, random_state=0),
    ).fit(T, y)
    assert search.best_params_ == {"ridge_sparse": 0.1, "sparsity": 1}


def test_a_pipeline_keeps_the_column_of_users(table):
    T, y = table
    frame = pd.DataFrame(T, columns=["user", *"abcde"])
    frame["user"] = frame["user"].map(lambda code: f"user {code:.0f}")
    scaler = ColumnTransformer(
        [("scale", StandardScaler(), list("abcde"))],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = LRSRegressor(user_feature="user", **EXACT)
    pipeline = make_pipeline(scaler, model).fit(frame, y)
    assert pipeline.score(frame, y) > 0.5
    assert pipeline[-1].feature_names_in_.tolist() == [*"abcde", "user"]
    plain = clone(model).fit(frame, y)
    # Features are scaled by the model as well, but about zero.
    assert pipeline.score(frame, y) == pytest.approx(plain.score(frame, y), abs=0.05)


@pytest.mark.parametrize("error_score", ["raise", np.nan])
def test_without_routing_the_error_of_a_cross_validation_helps(data, error_score):
    X, y, users = data
    arguments = {"params": {"users": users}, "error_score": error_score, "cv": 3}
    if error_score == "raise":
        with pytest.raises(ValueError, match=r"users must be passed.*user_feature"):
            cross_validate(LRSRegressor(**EXACT), X, y, **arguments)
        return
    with pytest.warns(UserWarning, match=r"(?s)users must be passed.*user_feature"):
        scores = cross_validate(LRSRegressor(**EXACT), X, y, **arguments)
    assert np.isnan(scores["test_score"]).all()


# -- scikit-learn's tools, with routed users -------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def requesting(**parameters):
    model = LRSRegressor(**{**EXACT, **parameters})
    return (
        model.set_fit_request(users=True)
        .set_predict_request(users=True)
        .set_score_request(users=True)
    )


@quiet
def test_routed_cross_validation(data, table, routing):
    X, y, users = data
    cv = KFold(3, shuffle=True, random_state=0)
    T, _ = table
    expected = cross_val_score(LRSRegressor(user_feature=0, **EXACT), T, y, cv=cv)
    params = {"users": users}
    scores = cross_val_score(requesting(), X, y, cv=cv, params=params)
    np.testing.assert_array_equal(scores, expected)
    found = cross_validate(
        requesting(), X, y, cv=cv, params=params, return_train_score=True
    )
    np.testing.assert_array_equal(found["test_score"], expected)
    assert np.all(found["train_score"] > 0.5)


@pytest.mark.slow
@pytest.mark.dependencies
@quiet
@pytest.mark.skipif(
    not hasattr(LRSRegressor, "set_callbacks"),
    reason="searches of older versions route no users to a pipeline's score",
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_routed_search(data, routing, n_jobs):
    X, y, users = data
    accountant = PrivacyAccountant()
    model = requesting(epsilon=1.0, solver="auto", accountant=accountant)
    pipeline = make_pipeline(FunctionTransformer(), model)
    grid = {"lrsregressor__sparsity": [0, 1]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=n_jobs, error_score="raise")
    search.fit(X, y, users=users)
    assert len(accountant.ledger) == 2 * 3 + 1
    assert search.score(X, y, users=users) <= 1.0
    assert search.best_estimator_.predict(X, users=users).shape == y.shape


# -- what is handed on -----------------------------------------------------------------


def test_scores_and_pickles_of_private_models_warn(data):
    X, y, users = data
    model = LRSRegressor().fit(X, y, users=users)
    with pytest.warns(PrivacyLeakWarning, match="no budget accounts for"):
        model.score(X, y, users=users)
    with pytest.warns(PrivacyLeakWarning, match="publish"):
        pickle.dumps(model)
    # No warning where there is nothing to say.
    pickle.dumps(model.publish())
    pickle.dumps(LRSRegressor())
    model.predict(X, users=users)
    model.publish().score(X, y, users=users)
    fitted(data).score(X, y, users=users)
    pickle.dumps(fitted(data))


def test_a_private_fit_without_users_warns_before_it_is_charged(data):
    """One user's predictions come from all rows: with a budget hardly ever meant."""
    X, y, users = data
    accountant = PrivacyAccountant()
    model = LRSRegressor(accountant=accountant)
    with pytest.raises(PrivacyLeakWarning, match="one user"):  # warnings are errors
        model.fit(X, y)
    assert len(accountant.ledger) == 0
    with pytest.warns(PrivacyLeakWarning, match="one user") as caught:
        model.fit(X, y)
    assert {w.filename for w in caught} == {__file__}
    # What stays with one user may fit their rows as closely as they like.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, users=users)
        model.fit(X, y, users=np.zeros(len(y), dtype=int))


@quiet
@pytest.mark.parametrize("private", [True, False])
def test_a_pickle_predicts_the_same(data, private):
    X, y, users = data
    model = LRSRegressor(**({} if private else EXACT)).fit(X, y, users=users)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.predict(X, users=users), model.predict(X, users=users)
    )
    own = users == 3
    copy.personalize(X[own], y[own], user=3)
    assert_same_public(copy, model)


@quiet
@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_published_and_saved_models_hold_what_is_shared(data, tmp_path, private, named):
    X, y, users = data
    X = pd.DataFrame(X, columns=list("abcde")) if named else X
    model = LRSRegressor(**({} if private else EXACT), scale=np.full(5, 2.0))
    model.fit(X, y, users=users)
    model.save(tmp_path / "model.npz")
    copies = [model.publish(), LRSRegressor.load(tmp_path / "model.npz")]
    shared = np.asarray(X) @ model.coef_ + model.intercept_
    for copy in copies:
        assert_same_public(copy, model)
        fitted_state = {name for name in vars(copy) if name not in copy.get_params()}
        assert fitted_state == set(copy._public_state())
        np.testing.assert_allclose(copy.predict(X, users=users), shared, atol=1e-12)
        np.testing.assert_array_equal(copy.get_coef(3), model.coef_)
        np.testing.assert_array_equal(copy.scale, model.scale)
        assert copy.privacy_plan(5) == model.privacy_plan(5)
        copy.personalize(X[users == 3], y[users == 3], user="me")
        assert copy.predict(X, users=["me"] * len(y)).shape == y.shape
        assert not hasattr(model.publish(), "_personal")


@quiet
def test_a_refit_forgets_the_users_of_the_last_one(data):
    X, y, users = data
    model = fitted(data)
    model.fit(X, y, users=users + 100)
    np.testing.assert_array_equal(model.get_coef(3), model.coef_)
    model.fit(X, y)
    assert model.predict(X).shape == y.shape
    frame = pd.DataFrame(X, columns=list("abcde"))
    model.fit(frame, y, users=users)
    assert model.feature_names_in_.tolist() == list("abcde")
    model.fit(X[:, :3], y, users=users)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3
