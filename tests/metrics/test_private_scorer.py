"""Scores that are releases: their law, their cost, and what may be asked of them.

Statistical tests have fixed seeds. Deviations are compared over 2500 scores, whose
relative error is 1.4 %: 5.5 % is passed with probability below 1e-4 by chance, and
nearly always by noise that is 10 % off.
"""

import copy
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from release_tools import Release
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpspectral import (
    DPPCA,
    DPStandardScaler,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral.accounting import gaussian_mu
from skdpspectral.metrics import captured_variance, make_private_scorer
from skdpspectral.metrics._scores import make_kind
from skdpspectral.sensitivity import (
    confusion_diameter,
    counted_score_sensitivity,
    score_sensitivity,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
LABELS = (X[:, 0] + RNG.normal(size=600) > 0.3).astype(int)
TARGETS = X[:, 0] + 0.5 * RNG.normal(size=600)
USERS = pd.DataFrame({"user_id": np.arange(600) % 150, "x": X[:, 0]})
RATINGS = np.clip(np.round(3 + TARGETS), 1, 5)

classifier = LogisticRegression().fit(X, LABELS)
regressor = LinearRegression().fit(X, TARGETS)
by_user = LinearRegression().fit(USERS[["x"]].to_numpy(), RATINGS)


class OfTable(BaseEstimator):
    """A model of the column x of a table with users."""

    def fit(self, X, y=None):
        """Do nothing."""
        return self

    def predict(self, X):
        """Predict by x."""
        return by_user.predict(X[["x"]].to_numpy())


def components():
    return DPPCA(1, epsilon=5.0, noise_seed=0, center="none").fit(X)


def cases():
    u = {"user_feature": "user_id"}
    table, ratings = USERS, RATINGS
    return {
        "accuracy": (classifier, X, LABELS, {}),
        "log_loss": (classifier, X, LABELS, {"limit": 20.0}),
        "squared_error": (regressor, X, TARGETS, {"limit": 9.0}),
        "absolute_error": (regressor, X, TARGETS, {"limit": 3.0}),
        "users": (OfTable(), table, ratings, {"limit": 16.0, **u}),
    }


def score_name(name):
    return "squared_error" if name == "users" else name


def exact(name):
    model, rows, y, parameters = cases()[name]
    scorer = make_private_scorer(score_name(name), None, **parameters)
    with pytest.warns(PrivacyLeakWarning, match="exact"):
        return scorer(model, rows, y)


def test_scores_without_noise_are_those_of_scikit_learn():
    expected = {
        "accuracy": classifier.score(X, LABELS),
        "log_loss": -log_loss(LABELS, classifier.predict_proba(X)),
        "squared_error": -np.mean((TARGETS - regressor.predict(X)) ** 2),
        "absolute_error": -np.mean(np.abs(TARGETS - regressor.predict(X))),
    }
    for name, value in expected.items():
        assert exact(name) == pytest.approx(value, abs=1e-8), name


def test_captured_variance_is_that_of_rows_about_their_own_mean():
    """Of pairs, within their sampling error, wherever the rows are."""
    model = components()
    scorer = make_private_scorer("captured_variance", None, clip_norm=100.0)
    truth = captured_variance(model, X)
    rows = np.concatenate([X] * 20)
    for shift in (0.0, 1e3):
        with pytest.warns(PrivacyLeakWarning):
            assert scorer(model, rows + shift) == pytest.approx(truth, abs=0.02)


def draws(name, epsilon, n):
    model, rows, y, parameters = cases()[name]
    scorer = make_private_scorer(
        score_name(name), epsilon, noise_seed=np.random.RandomState(0), **parameters
    )
    values = scorer.measure(model, rows, y)
    plan, statistic = scorer.privacy_plan(len(rows)), scorer.statistic(len(values))
    found = [statistic.run(Release(plan, None, seed), values) for seed in range(n)]
    return np.array([scorer._kind.finish(*one) for one in found]).T


@pytest.mark.filterwarnings("ignore:noise_seed")
@pytest.mark.parametrize("name", cases())
def test_the_law_of_a_score(name):
    """Mean and deviation, and how often intervals of two errors hold the truth."""
    scores, stds = draws(name, 2.0, 2500)
    truth = exact(name)
    linear = name in ("accuracy", "log_loss", "squared_error", "absolute_error")
    if linear:
        assert np.ptp(stds) == 0.0
        assert scores.std() == pytest.approx(stds[0], rel=0.055)
        assert abs(scores.mean() - truth) < 4.0 * stds[0] / 50.0
    covered = np.mean(np.abs(scores - truth) <= 1.959964 * stds)
    assert 0.93 < covered < 0.985
    assert scores.std() == pytest.approx(np.sqrt(np.mean(stds**2)), rel=0.08)


def test_the_noise_is_that_of_the_lemma():
    scorer = make_private_scorer("accuracy", 1.0)
    mechanism = scorer.privacy_plan(600)["score"]
    assert mechanism.sensitivity == score_sensitivity(1.0, 600) == 1.0 / 600
    mu = gaussian_mu(1.0, 1e-6)
    assert mechanism.mu == pytest.approx(mu, rel=1e-9)
    assert mechanism.noise_std == pytest.approx(1.0 / (600 * mu), rel=0.02)
    users = make_private_scorer("accuracy", 1.0, user_feature=0).privacy_plan(600)
    assert users["score"].sensitivity == counted_score_sensitivity(0.5, 0.5)
    assert counted_score_sensitivity(0.5, 0.5) == math.sqrt(0.5)
    assert (str(users.unit), str(users.neighbors)) == ("user", "add-remove-one")


PARAMETERS = {
    "accuracy": {},
    "log_loss": {"limit": 3.0},
    "squared_error": {"limit": 4.0},
    "absolute_error": {"limit": 2.0},
    "captured_variance": {"clip_norm": 1.5},
}


class Extreme:
    """Predictions of any kind, of the row alone."""

    classes_ = np.array([0, 1, 2])
    mean_ = np.array([0.1, 0.0, 0.0])
    components_ = np.eye(1, 3)

    def predict(self, X):
        """Return the second column."""
        return X[:, 1]

    def predict_proba(self, X):
        """Return what may be no probabilities at all."""
        return np.abs(X)


@pytest.mark.parametrize("name", PARAMETERS)
def test_no_row_moves_a_score_by_more_than_its_lemma_says(name):
    kind = make_kind(name, PARAMETERS[name])
    rng = np.random.default_rng(1)
    rows = rng.choice([-1e300, -5.0, -1.0, 0.0, 1.0, 2.0, 5.0, 1e300], (4000, 3))
    rows[::2] = rng.normal(size=(2000, 3)) * 3
    y = rng.choice([0.0, 1.0, 2.0, -7.0, 0.5, 1e200], 4000)
    rows[y <= 2, 1] = np.where(rng.random((y <= 2).sum()) < 0.5, y[y <= 2], 1.0)
    with np.errstate(all="ignore"):
        values = kind.contributions(Extreme(), rows, y)
    assert values.shape == (kind.n_terms(4000), kind.width)
    assert np.all(np.isfinite(values))
    assert np.linalg.norm(values, axis=1).max() <= kind.radius * (1 + 1e-15)
    gaps = np.linalg.norm(values[:800, np.newaxis] - values[800:2000], axis=-1)
    assert gaps.max() <= kind.diameter * (1 + 1e-15)
    assert gaps.max() >= 0.9 * kind.diameter


def test_models_that_drop_rows_are_refused():
    """Noise is that of a mean over all held-out rows."""
    model = components()
    drops = Pipeline([("two", FunctionTransformer(lambda X: X[:2])), ("pca", model)])
    scorer = make_private_scorer("captured_variance", 1.0, clip_norm=9.0)
    with pytest.raises(ValueError, match="one entry per held-out row"):
        scorer(drops, X)


def test_the_diameter_of_parts_of_a_whole_is_attained_and_not_passed():
    rng = np.random.default_rng(0)
    parts = rng.dirichlet([0.3, 0.3, 0.3], 1500)[:, :2]
    parts = np.concatenate([parts, np.eye(2), np.zeros((1, 2))])
    gaps = np.linalg.norm(parts[:, np.newaxis] - parts, axis=-1)
    assert gaps.max() == pytest.approx(confusion_diameter(), abs=1e-12)


def test_a_user_who_leaves_takes_one_contribution_along():
    model, rows, y, parameters = cases()["users"]
    scorer = make_private_scorer("squared_error", 1.0, **parameters)
    whole = scorer.measure(model, rows, y)
    stay = (rows["user_id"] != 7).to_numpy()
    rest = scorer.measure(model, rows[stay], y[stay])
    assert len(whole) - len(rest) in (0, 1)
    assert np.abs(whole).max() <= 0.5
    left = list(whole)
    for value in rest:  # the same bits
        left.remove(value)
    assert len(left) == len(whole) - len(rest)


def test_a_score_is_charged_before_anything_is_read():
    class Unreadable:
        shape = (600, 3)

        def __array__(self, *args, **kwargs):
            raise AssertionError("rows were read")

        __getitem__ = __iter__ = __array__

    class Never:
        def predict(self, X):
            raise AssertionError("rows were read")

    accountant = PrivacyAccountant(0.5, 1e-6)
    scorer = make_private_scorer("accuracy", 1.0, accountant=accountant)
    with pytest.raises(PrivacyBudgetError):
        scorer(Never(), Unreadable(), LABELS)
    assert accountant.ledger == ()
    cheap = make_private_scorer("accuracy", 0.4, accountant=accountant)
    with pytest.raises(ValueError, match="AssertionError"):
        cheap(Never(), Unreadable(), LABELS)
    assert [entry.estimator for entry in accountant.ledger] == ["accuracy"]


SECRET = "SECRET-diagnosis"


class Quoting:
    """A model that quotes a row, or has predicted one."""

    classes_ = np.array([0, 1])

    def __init__(self, found=None):
        self.found = found

    def predict(self, X):
        if self.found is None:
            raise RuntimeError(f"row 7 holds {SECRET}")
        return np.full(len(X), self.found, dtype=object)

    predict_proba = predict


@pytest.mark.parametrize("name", ["accuracy", "squared_error", "log_loss"])
def test_errors_of_a_score_quote_no_held_out_value(name):
    given = {} if name == "accuracy" else {"limit": 1.0}
    texts = np.array([*LABELS[:-1], SECRET], dtype=object)
    failed = 0
    for model, y in (
        (Quoting(), LABELS),
        (Quoting(SECRET), LABELS),
        (Quoting(0), texts),
    ):
        accountant = PrivacyAccountant()
        scorer = make_private_scorer(name, 1.0, accountant=accountant, **given)
        try:
            scorer(model, X, y)
        except ValueError as error:
            failed, seen = failed + 1, error
            while seen is not None:
                assert SECRET not in str(seen)
                seen = seen.__cause__ or seen.__context__
        assert len(accountant.ledger) == 1
    assert failed == (1 if name == "accuracy" else 3)


@pytest.mark.parametrize("name", ["squared_error", "absolute_error"])
def test_one_complex_target_is_an_error_and_no_warning(name):
    """numpy would drop the imaginary part, and warn of it."""
    scorer = make_private_scorer(name, 1.0, limit=1.0)
    y = [*LABELS[:-1].tolist(), np.complex128(1j)]
    for targets in (y, np.array(y, dtype=object)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match="could not be computed"):
                scorer(Quoting(0), X, targets)


def test_a_table_without_the_column_of_users_is_refused_free_of_charge():
    accountant = PrivacyAccountant()
    for feature, table in ((9, X), ("user_id", X)):
        scorer = make_private_scorer(
            "accuracy", 1.0, accountant=accountant, user_feature=feature
        )
        with pytest.raises(ValueError, match="user_feature"):
            scorer(classifier, table, LABELS)
    assert len(accountant.ledger) == 0


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("own", [True, False])
def test_every_score_of_a_cross_validation_is_charged(n_jobs, own):
    accountant = PrivacyAccountant()
    scorer = make_private_scorer(
        "captured_variance", 0.5, accountant=accountant if own else None, clip_norm=3.0
    )
    with accountant:
        cross_val_score(DPPCA(1), X, cv=KFold(3), scoring=scorer, n_jobs=n_jobs)
    names = sorted(entry.estimator for entry in accountant.ledger)
    assert names == ["DPPCA"] * 3 + ["captured_variance"] * 3


class Audited(BaseEstimator):
    """A foreign estimator whose parameter has the name of a ledger."""

    def __init__(self, accountant="a firm", inner=None):
        self.accountant, self.inner = accountant, inner

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def test_the_ledger_of_what_is_scored_is_charged_once():
    accountant = PrivacyAccountant()
    scorer = make_private_scorer("accuracy", 1.0)
    model = make_pipeline(DPStandardScaler(accountant=accountant), LogisticRegression())
    frozen = FrozenEstimator(model.fit(X, LABELS))
    nested = make_pipeline(FunctionTransformer(), FrozenEstimator(frozen))
    foreign = Audited(inner=make_pipeline(model, Audited()))
    scored = [model, frozen, FrozenEstimator(frozen), nested, foreign]
    for number, one in enumerate(scored):
        scorer(one, X, LABELS)
        names = [entry.estimator for entry in accountant.ledger]
        assert names == ["DPStandardScaler"] + ["accuracy"] * (number + 1)
    scorer(Audited(), X, LABELS)
    assert len(accountant.ledger) == 1 + len(scored)


@pytest.mark.parametrize("several", [False, True])
def test_a_ledger_prices_the_scores_of_a_search_beforehand(several):
    accountant = PrivacyAccountant()
    scorer = make_private_scorer("captured_variance", 0.5, clip_norm=3.0)
    search = GridSearchCV(
        DPPCA(accountant=accountant),
        {"n_components": [1, 2]},
        scoring={"one": scorer, "other": scorer} if several else scorer,
        refit="one" if several else True,
        cv=KFold(3),
    )
    promised = accountant.check(search, X)
    search.fit(X)
    assert accountant.spent().epsilon == pytest.approx(promised.epsilon, rel=1e-9)
    assert len(accountant.ledger) == 13 + 6 * several


def test_copies_and_pickles_score_alike():
    accountant = PrivacyAccountant()
    with accountant:
        scorer = make_private_scorer("accuracy", 1.0)
    for twin in (copy.deepcopy(scorer), pickle.loads(pickle.dumps(scorer))):
        assert repr(twin) == repr(scorer)
        twin(classifier, X, LABELS)
        assert 0.0 < twin.std_ < 0.1
    assert not hasattr(scorer, "std_")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": "f1"}, "score must be one of"),
        ({"score": None}, "score must be one of"),
        ({"score": ["accuracy"]}, "score must be one of"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": "auto"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": None}, "delta"),
        ({"accountant": "ledger.db"}, "accountant"),
        ({"user_feature": 1.5}, "user_feature"),
        ({"user_feature": True}, "user_feature"),
        ({"limit": 2.0}, "parameters"),
        ({"score": "squared_error"}, "limit"),
        ({"score": "squared_error", "limit": 0.0}, "limit"),
        ({"score": "squared_error", "limit": math.inf}, "limit"),
        ({"score": "log_loss", "limit": "5"}, "limit"),
        ({"score": "captured_variance", "clip_norm": 1.0, "user_feature": 0}, "rows"),
        ({"score": "captured_variance", "clip_norm": -1.0}, "clip_norm"),
    ],
    ids=str,
)
def test_bad_scorers_are_refused(change, said):
    arguments = {"score": "accuracy", "epsilon": 1.0, **change}
    with pytest.raises((TypeError, ValueError), match=said):
        make_private_scorer(**arguments)


def test_too_large_a_delta_warns():
    scorer = make_private_scorer("accuracy", 1.0, 0.01)
    with pytest.warns(PrivacyLeakWarning, match="delta"):
        scorer(classifier, X, LABELS)
    with pytest.warns(PrivacyLeakWarning, match="noise_seed"):
        make_private_scorer("accuracy", 1.0, noise_seed=0)(classifier, X, LABELS)
