"""Searches whose blocks vote: what leaves them, what they cost, what they refuse."""

import contextlib
import math
import pickle
import random
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from ledger_tools import refused
from replay import Tape, shares
from scipy import stats
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from sklearn.utils.estimator_checks import check_estimator

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPRidge,
    DPRidgeClassifier,
    DPStandardScaler,
    DPTableVectorizer,
    FederatedDPPCA,
    LRSRegressor,
    NoisyFitWarning,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral._release.noise import record_releases
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.mechanisms import Neighbors, Unit
from skdpspectral.metrics import captured_variance, make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV, _vote
from skdpspectral.model_selection._private_search import (
    FitLimit,
    VoteBudgets,
    candidate_model,
    candidates_of,
)
from skdpspectral.model_selection._vote import Ballot, packed, votes
from skdpspectral.neural_network import Adam
from skdpspectral.pipeline import make_private_pipeline

pytestmark = pytest.mark.filterwarnings("ignore:noise_seed is given")
X = np.random.default_rng(0).normal(size=(240, 4)) * [4.0, 1.0, 1.0, 1.0]
SPACE = {"center": ["none", "pairs"], "n_components": [1, 2, 3]}


def kept(model, X, y=None):
    return captured_variance(model, X)


def search(estimator=None, space=SPACE, **parameters):
    parameters = {"epsilon": 20.0, "n_blocks": 4, "scoring": kept, **parameters}
    return PrivateSearchCV(
        DPPCA(1) if estimator is None else estimator, space, **parameters
    )


@pytest.fixture
def asked(monkeypatch):
    """What each block has voted, by its number."""
    seen, plain = {}, Ballot.__call__

    def noted(ballot, number, X, y):
        seen[number] = plain(ballot, number, X, y)
        return seen[number]

    monkeypatch.setattr(Ballot, "__call__", noted)
    return seen


# -- votes of one block ----------------------------------------------------------------


@pytest.mark.parametrize(
    "scores",
    [
        [1.0, 2.0, 3.0, 4.0, 5.0],
        [0.0] * 5,
        [np.nan] * 5,
        [np.nan, 1.0, np.inf, -np.inf, 2.0],
        [1e308, -1e308, 1e308, 0.0, 5e-324],
        [5e-324, 0.0, 0.0, 0.0, 0.0],
        [1.0, np.nan, np.nan, np.nan, np.nan],
    ],
)
def test_votes_are_in_range_and_exact(scores):
    with np.errstate(all="ignore"):
        shares, beats = votes(np.array(scores))
    assert shares.shape == beats.shape == (4,)
    assert ((shares >= 0.0) & (shares <= 1.0)).all()
    assert set(beats) <= {0.0, 0.5, 1.0}
    assert np.array_equal(shares * 2**20, np.rint(shares * 2**20))


def test_a_block_in_which_all_fail_votes_for_the_incumbent():
    shares, beats = votes(np.full(4, np.nan))
    assert shares.tolist() == beats.tolist() == [0.0] * 3


# -- what it costs ---------------------------------------------------------------------


@pytest.mark.parametrize("n_challengers", [1, 2, 40])
def test_votes_and_fit_cost_what_they_may(n_challengers):
    budgets = VoteBudgets.within(0.8, 500, n_challengers)
    total = math.hypot(*(mechanism.mu for mechanism in budgets.mechanisms))
    assert 0.8 * (1.0 - 1e-7) < total <= 0.8
    assert budgets.mu_fit == pytest.approx(0.8 * math.sqrt(0.9))
    asking = [m.mu for m in budgets.mechanisms[:-1]]
    assert len(asking) == 1 + (n_challengers > 1)
    assert math.hypot(*asking) == pytest.approx(0.8 * math.sqrt(0.1))
    assert {m.sensitivity for m in budgets.mechanisms[:-1]} == {1.0}


@pytest.mark.parametrize("n_blocks", [6, "auto"])
def test_a_search_is_one_entry_of_what_it_promised(n_blocks):
    made = search(n_blocks=n_blocks, epsilon=12.0)
    plan = made.privacy_plan(len(X))
    assert plan == made.plan_for(X)
    assert gaussian_mu(12.0, 1e-6) * (1 - 1e-7) < plan.mu <= gaussian_mu(12.0, 1e-6)
    accountant = PrivacyAccountant(12.0, 1e-6)
    assert accountant.check(made, X).epsilon <= 12.0
    made.set_params(accountant=accountant).fit(X)
    assert made.n_blocks_ == (12 if n_blocks == "auto" else 6)
    with pytest.raises(PrivacyBudgetError):
        made.fit(X)
    assert len(accountant.ledger) == 1


def test_the_plan_says_whether_it_asks():
    few = search(n_blocks="auto", epsilon=1.0)
    assert "No block votes" in str(few.privacy_plan(240))
    assert [m.name for m in few.privacy_plan(240).mechanisms] == ["fit"]
    assert "epsilon = 1 at" in few.privacy_plan(240).details()
    plan = few.privacy_plan(20_000)
    assert [m.name for m in plan.mechanisms] == ["challenger", "support", "fit"]
    assert "188 blocks vote" in plan.details()
    fit = gaussian_epsilon(plan["fit"].mu, 1e-6)
    assert fit == pytest.approx(0.945, abs=1e-3)
    assert f"epsilon = {fit:.6g} at" in plan.details()


def test_the_last_fit_has_all_rows_and_its_share():
    made = search().fit(X)
    assert made.best_estimator_.n_samples_ == 240
    fit = made.best_estimator_.privacy_
    assert fit.mu == pytest.approx(made.privacy_["fit"].mu, rel=1e-6)
    assert made.best_estimator_.accountant is None
    assert made.best_estimator_.noise_seed is None


def test_further_fits_of_the_best_model_are_charged_to_the_ledger():
    ledger = PrivacyAccountant()
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1))
    space = {"dppca__n_components": [1]}
    search(model, space, accountant=ledger).fit(X).best_estimator_.fit(X)
    assert len(ledger.ledger) == 2
    with ledger:
        made = search(model, space).fit(X)
        published = made.publish().best_estimator_
    cross_val_score(made.best_estimator_, X, cv=2, scoring=lambda *_: 0.0)
    assert len(ledger.ledger) == 5
    cross_val_score(published, X, cv=2, scoring=lambda *_: 0.0)
    assert len(ledger.ledger) == 5


# -- what it chooses -------------------------------------------------------------------


def test_a_better_challenger_is_chosen_and_a_good_incumbent_kept():
    """Where all 12 blocks agree, noise errs with a probability below 1e-10."""
    space, given = {"n_components": [1, 3]}, {"n_blocks": 12, "noise_seed": 0}
    bad = search(DPPCA(1), space, **given)
    bad.fit(X)
    assert bad.best_params_ == {"n_components": 3}
    assert (bad.kept_, bad.n_blocks_) == (False, 12)
    assert bad.support_ > 0.5 + bad.support_std_
    assert bad.best_estimator_.n_components == 3
    good = search(DPPCA(3), space, **given)
    good.fit(X)
    assert good.best_params_ == {"n_components": 3}
    assert good.kept_
    assert good.support_ < 0.5


def test_what_is_shown_is_what_was_released():
    with record_releases() as told:
        made = search(DPPCA(1), noise_seed=0).fit(X)
    assert made.support_ == told["support"][0] / 4
    # Sums of votes are whole halves, and noise is not.
    assert 2 * told["support"][0] != round(2 * told["support"][0])


def test_the_incumbent_is_no_challenger():
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1))
    space = [
        {
            "dpstandardscaler": [DPStandardScaler(), "passthrough"],
            "dppca__n_components": [1, np.int64(2), 2],
        },
        {"dppca__n_components": [2], "dppca__center": ["none"]},
    ]
    candidates = candidates_of(search(model, space))
    assert candidates[0] == {}
    # Of six and one: the incumbent is left out, and what is there twice.
    assert len(candidates) == 1 + 4


@pytest.mark.parametrize(
    "scoring", [kept, make_private_scorer("captured_variance", clip_norm=9.0)]
)
def test_a_search_is_repeated_by_its_seed(scoring):
    made = search(scoring=scoring, noise_seed=3)
    with pytest.warns(PrivacyLeakWarning, match="noise_seed"):
        first = made.fit(X).support_
    assert made.fit(X).support_ == first
    assert not made.privacy_.private
    assert made.set_params(noise_seed=4).fit(X).support_ != first


# -- one block does not see another ----------------------------------------------------


def scrambled(total):
    """A score that any change of what was seen makes another one."""
    return float(np.sin(1e6 * total))


class Remembers:
    """A scorer that goes by what it has seen."""

    seen = 0.0

    def __call__(self, model, X, y=None):
        self.seen += float(np.abs(X).sum())
        return scrambled(self.seen)


def closure():
    memory = []

    def remembers(model, X, y=None):
        memory.append(float(np.abs(X).sum()))
        return scrambled(sum(memory))

    return remembers


def draws(model, X, y=None):
    """A score that draws, and more often for larger rows, from global generators."""
    for _ in range(int(np.abs(X).max())):
        np.random.random()  # noqa: NPY002
        random.random()
    return np.random.random() + random.random()  # noqa: NPY002


SHARED = make_private_pipeline(
    GaussianRandomProjection(3, random_state=np.random.RandomState(0)), DPPCA(1)
)
UNSEEDED = make_private_pipeline(GaussianRandomProjection(3), DPPCA(1))


@pytest.mark.parametrize(
    ("estimator", "scoring"),
    [
        (None, kept),
        (None, Remembers()),
        (None, closure()),
        (None, draws),
        (None, make_private_scorer("captured_variance", clip_norm=9.0)),
        (SHARED, kept),
        (UNSEEDED, kept),
    ],
    ids=["plain", "object", "closure", "draws", "private", "shared", "unseeded"],
)
def test_a_row_moves_the_votes_of_its_own_block(estimator, scoring, asked):
    space = SPACE if estimator is None else {"dppca__n_components": [1, 2, 3]}
    made = search(estimator, space, scoring=scoring, noise_seed=0)
    state = np.random.RandomState(5).get_state()
    seen = []
    for first in (X[0], [400.0, -300.0, 0.0, 9.0]):
        rows = X.copy()
        rows[0] = first
        np.random.set_state(state)  # noqa: NPY002
        random.seed(5)
        made.fit(rows)
        seen.append(dict(asked))
    moved = [
        number
        for number in seen[0]
        if not all(map(np.array_equal, seen[0][number], seen[1][number]))
    ]
    assert len(seen[0]) == 4
    assert len(moved) <= 1
    assert Remembers.seen == 0.0


def turned(model, X, y=None):
    """A score by which one row decides whether a candidate is best or worst."""
    known = (np.abs(X) > 1e3).any()  # in one of two folds, which outweighs the other
    return (3.0 if known else 1.0) * (1.0 if known == (model.n_components == 3) else -1)


@pytest.mark.parametrize(
    ("others", "release"), [([3], "support"), ([3, 2], "challenger")]
)
def test_the_worst_row_moves_votes_by_their_sensitivity(others, release):
    """All that its block says changes: the share of the cost is 1, and not 2."""
    made, rows, tapes = (
        search(space={"n_components": others}, scoring=turned),
        X.copy(),
        [],
    )
    rows[0] = 2000.0
    for table in (X, rows):
        with Tape(*tapes).playing() as tape:
            made.fit(table)
        tapes.append(tape)
    found = {mechanism.name: share for mechanism, share in shares(*tapes)}
    assert found[release] == pytest.approx(1.0, abs=1e-6)
    assert max(found.values()) <= 1.0


def fails_for_large(model, X, y=None):
    if np.abs(X).max() > 1000.0 and model.n_components == 3:
        warnings.warn("secret 7", UserWarning, stacklevel=1)
        raise ValueError("secret 7")
    return captured_variance(model, X)


@pytest.mark.parametrize(
    "n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)], ids=str
)
def test_a_candidate_that_fails_in_one_block_has_its_worst_score(asked, n_jobs, capfd):
    made = search(scoring=fails_for_large, noise_seed=0, n_jobs=n_jobs)
    rows = X.copy()
    rows[0] = 2000.0
    texts = []
    for table in (X, rows):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            made.fit(table)
        texts.append([str(w.message)[:40] for w in said])
    assert texts[0] == texts[1]
    assert "secret" not in str(texts)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("charged", [False, True])
def test_an_error_of_the_last_fit_names_the_entry_of_the_search(charged):
    """That of the last fit is in a ledger that is gone."""
    labels = np.where(X[:, 0] > 0.0, 1.0, 0.5)
    made = search(DPRidgeClassifier(classes=[0, 1]), {"alpha": [0.1]}, scoring=None)
    with contextlib.ExitStack() as within:
        if charged:
            within.enter_context(PrivacyAccountant())
        with pytest.raises(ValueError, match="not in classes") as error:
            made.fit(X, labels)
    said = str(error.value).partition("; ")[2].partition("; ")[2]
    assert said == charged * "this fit stays charged: epsilon=20 (entry 1)"


class FailsOn:
    """A scorer that fails where rows differ from made-up ones."""

    def __init__(self, value):
        self.value = value

    def __call__(self, model, X, y=None):
        if (self.value == X).any():
            raise MemoryError("secret")
        return captured_variance(model, X)


def test_where_all_fail_the_incumbent_is_kept(asked):
    """The noise of the count of 12 blocks errs with a probability below 1e-10."""
    rows = np.column_stack([X, np.full(240, 7.25)])
    made = search(scoring=FailsOn(7.25), n_blocks=12, noise_seed=0).fit(rows)
    assert {tuple(shares) for shares, _ in asked.values()} == {(0.0,) * 6}
    assert {tuple(beats) for _, beats in asked.values()} == {(0.0,) * 6}
    assert made.kept_
    assert abs(made.support_) < 6 * made.support_std_


class Charges:
    """A scorer that fits rows with noise, and charges a ledger of its own."""

    def __init__(self, accountant):
        self.accountant = accountant

    def __call__(self, model, X, y=None):
        noisy = DPPCA(1, accountant=self.accountant, noise_seed=0).fit(X)
        return captured_variance(noisy, X) + captured_variance(model, X)


@pytest.mark.parametrize("path", [None, "ledger.db"])
def test_a_scorer_charges_nothing_inside_of_blocks(path, asked, tmp_path):
    given = {} if path is None else {"path": tmp_path / path}
    own = PrivacyAccountant(**given)
    made = search(scoring=Charges(own), noise_seed=0)
    with PrivacyAccountant() as accountant:
        made.fit(X)
    assert len(own.ledger) == 0
    assert len(accountant.ledger) == 1
    expected = dict(asked)
    made.set_params(scoring=Charges(None)).fit(X)
    assert all(map(np.array_equal, expected[0], asked[0]))
    assert all(shares.any() for shares, _ in asked.values())
    private = make_private_scorer(
        "captured_variance", epsilon=0.5, clip_norm=9.0, accountant=own
    )
    made.set_params(scoring=private).fit(X)
    assert len(own.ledger) == 0


def test_a_scorer_that_cannot_be_copied_is_refused_before_the_charge():
    class Locked:
        def __init__(self):
            import threading

            self.lock = threading.Lock()

        def __call__(self, model, X, y=None):
            return 0.0

    with refused("picklable") as accountant, accountant:
        search(scoring=Locked()).fit(X)


# -- fits inside of blocks -------------------------------------------------------------


def ballot(estimator, **given):
    given = {
        "pack": packed([candidate_model(estimator, {}, 0.5)], kept),
        "n_blocks": 10,
        "n_rows": 3000,
        **given,
    }
    return Ballot(**given)


def prepared(estimator, n_train, **given):
    model = candidate_model(estimator, {}, 0.5)
    return model, *ballot(estimator, **given)._prepared(model, np.arange(n_train))


def test_fits_of_blocks_have_the_noise_of_the_last_fit():
    last, own, rows = prepared(DPPCA(1, center="none"), 30)
    assert len(rows) == 180
    assert set(np.bincount(rows)) == {6}
    noise = [
        m.privacy_plan(n, 4)["second_moment"] for m, n in ((last, 3000), (own, 180))
    ]
    assert noise[1].noise_std == pytest.approx(noise[0].noise_std, rel=1e-4)
    pipeline = make_private_pipeline(DPStandardScaler(), DPPCA(1))
    last, own, rows = prepared(pipeline, 200)
    assert len(rows) == 200
    costs = [gaussian_mu(model.epsilon, model.delta) for model in (last, own)]
    assert costs[1] == pytest.approx(15.0 * costs[0], rel=1e-9)


@pytest.mark.parametrize(
    ("batch_size", "n_rows", "own"),
    [
        (3000, 180, 3000),
        (5000, 180, 5000),
        (600, 180, 36),
        (30, 1620, 16),
        (4, 3000, 4),
    ],
)
def test_batches_are_scaled_and_not_too_small(batch_size, n_rows, own):
    adam = Adam(sampling="in-turn")
    model = DPAdamClassifier(classes=[0, 1], batch_size=batch_size, optimizer=adam)
    for wrapped in (model, make_private_pipeline(DPPCA(1), model)):
        last, small, rows = prepared(wrapped, 30)
        part = small if wrapped is model else small[-1]
        assert (len(rows), part.batch_size) == (n_rows, own)
    last, small, rows = prepared(model, 30)
    own, few = (
        m._optimization(n, 4, 2)[1].n_steps
        for m, n in ((last, 3000), (small, len(rows)))
    )
    assert own == pytest.approx(few, rel=0.03)


def test_fits_for_users_have_the_noise_of_as_many_users():
    model = LRSRegressor(user_feature=0)
    given = {"n_rows": None, "user_feature": 0}
    last, own, rows = prepared(model, 30, **given)
    assert len(rows) == 30
    costs = [gaussian_mu(m.epsilon, m.delta) for m in (last, own)]
    assert costs[1] == pytest.approx(15.0 * costs[0], rel=1e-9)


# -- users -----------------------------------------------------------------------------


def users_table(n_users=60, rows_of_each=6):
    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(n_users), rows_of_each)
    table = rng.normal(size=(len(users), 3))
    return np.column_stack([users, table]), table @ [1.0, -1.0, 0.5]


def users_search(**parameters):
    model = LRSRegressor(1, user_feature=0, solver=PrivateRounds(n_rounds=1))
    return search(
        model,
        {"sparsity": [0, 1], "ridge_sparse": [1.0, 9.0]},
        scoring="neg_mean_squared_error",
        **parameters,
    )


def test_a_user_moves_the_votes_of_their_own_block(asked):
    table, y = users_table()
    seen = []
    for users in (range(60), range(1, 60)):
        rows = np.isin(table[:, 0], users)
        users_search(noise_seed=0).fit(table[rows], y[rows])
        seen.append(dict(asked))
    moved = [n for n in seen[0] if not all(map(np.array_equal, seen[0][n], seen[1][n]))]
    assert len(moved) <= 1


def test_users_are_charged_as_users():
    table, y = users_table()
    with PrivacyAccountant() as accountant:
        made = users_search().fit(table, y)
    (entry,) = accountant.ledger
    assert (str(entry.unit), str(entry.neighbors)) == ("user", "add-remove-one")
    assert made.n_blocks_ == 4
    assert made.predict(table).shape == y.shape
    assert made.privacy_["support"].sensitivity == 1.0


def test_users_who_are_replaced_are_dealt_by_rank(asked, monkeypatch):
    """Blocks have equal numbers of users; another id changes one block alone."""
    table, y = users_table()
    other, sizes = table.copy(), []
    other[table[:, 0] == 7, 0] = 99.0
    block = _vote._block

    def noted(X, y, rows):
        if X is not None and len(X) == len(table):
            sizes.append(len(np.unique(X[rows, 0])))
        return block(X, y, rows)

    monkeypatch.setattr(_vote, "_block", noted)
    seen = []
    for rows in (table, other):
        made = users_search(noise_seed=0, n_blocks=3, epsilon=200.0)
        made.set_params(estimator__neighbors="replace-one").fit(rows, y)
        assert made.privacy_["support"].sensitivity == 1.0
        seen.append(dict(asked))
    assert sizes == [20] * 6
    moved = [n for n in seen[0] if not all(map(np.array_equal, seen[0][n], seen[1][n]))]
    assert len(moved) <= 1
    auto = users_search(n_blocks="auto", epsilon=200.0)
    auto.set_params(estimator__neighbors="replace-one")
    assert auto.fit(table, y).n_blocks_ == 3
    assert auto.privacy_plan(60, 4) == auto.privacy_
    with pytest.raises(ValueError, match='neighbors="replace-one"'):
        users_search(n_blocks="auto").fit(table, y)


def test_candidates_protect_users_of_one_column():
    """One user of the first column moves rows of others between folds of another."""
    table, y = users_table()
    for column in (1, None):
        made = users_search().set_params(param_grid={"user_feature": [column]})
        with refused("the same in all candidates") as accountant, accountant:
            made.fit(table, y)


def test_an_empty_block_votes_for_nobody(asked):
    table, y = users_table(3)
    users_search(noise_seed=0).fit(table, y)
    assert len(asked) == 4
    assert any(not shares.any() and not beats.any() for shares, beats in asked.values())


# -- what it refuses -------------------------------------------------------------------

LISTENED = DPPCA(1)
LISTENED._skl_callbacks = [print]
LEAKY = make_private_pipeline(StandardScaler(), DPPCA(1))
USERS = LRSRegressor(user_feature=0)
BAD = {
    "epsilon none": {"epsilon": None},
    "epsilon infinite": {"epsilon": math.inf},
    "delta tiny": {"delta": 1e-16},
    "one block": {"n_blocks": 1},
    "blocks text": {"n_blocks": "many"},
    "blocks for all rows": {"n_blocks": 200},
    "jobs": {"n_jobs": 0},
    "accountant": {"accountant": "ledger.db"},
    "seed": {"noise_seed": "x"},
    "grid": {"space": [1, 2]},
    "grid none": {"space": None},
    "grid empty": {"space": []},
    "grid text": {"space": {"n_components": "auto"}},
    "grid of a distribution": {"space": {"n_components": stats.randint(1, 3)}},
    "grid of an empty list": {"space": {"n_components": []}},
    "grid unknown": {"space": {"clip": [1.0]}},
    "grid of bad values": {"space": {"n_components": [-1]}},
    "grid of seeds": {"space": {"noise_seed": [0]}},
    "grid of ledgers": {"space": {"accountant": [PrivacyAccountant()]}},
    "grid of the search's own epsilons": {"space": {"epsilon": [0.5, 1.0]}},
    "grid without noise": {"space": {"epsilon": [None]}},
    "estimator a class": {"estimator": DPPCA},
    "estimator text": {"estimator": "pca"},
    "estimator with a seed": {"estimator": DPPCA(noise_seed=0)},
    "estimator with a ledger": {"estimator": DPPCA(accountant=PrivacyAccountant())},
    "estimator without noise": {"estimator": DPPCA(epsilon=None)},
    "no private step": {"estimator": LogisticRegression(), "space": {"C": [1.0]}},
    "a search": {"estimator": GridSearchCV(DPPCA(), {}), "space": {}},
    "a private search": {"estimator": search(), "space": {}},
    "a pipeline of scikit-learn": {"estimator": make_pipeline(DPPCA(1)), "space": {}},
    "clients": {"estimator": FederatedDPPCA(1), "space": {}},
    "users without a column": {"estimator": LRSRegressor(), "space": {}},
    "a memory": {
        "estimator": make_private_pipeline(make_pipeline(DPPCA(1), memory="cache")),
        "space": {},
    },
    "several scores": {"scoring": ["accuracy", "r2"]},
    "no score": {"scoring": "nothing"},
    "score of the estimator": {"scoring": None},
    "callbacks": {"estimator": LISTENED},
    "a leak": {"estimator": LEAKY, "space": {"dppca__n_components": [2]}},
    "a candidate that leaks": {
        "estimator": make_private_pipeline(DPStandardScaler(), DPPCA(1)),
        "space": {"dpstandardscaler": [StandardScaler()]},
    },
    "Poisson samples": {
        "estimator": DPAdamClassifier(classes=[0, 1], batch_size=20),
        "space": {"n_epochs": [1, 2]},
        "scoring": "accuracy",
    },
    "users without a number": {
        "estimator": USERS,
        "space": {"sparsity": [0, 1]},
        "n_blocks": "auto",
        "scoring": "r2",
    },
    "too many candidates": {"space": {"n_components": list(range(1, 601))}},
    "verbose": {
        "estimator": make_private_pipeline(make_pipeline(DPPCA(1), verbose=True)),
        "space": {},
    },
}


@pytest.mark.parametrize("name", BAD)
def test_bad_searches_are_refused_before_any_charge(name):
    words = "epsilon|delta|n_blocks|n_jobs|scoring|estimator|param_grid|verbose|"
    words += "accountant|noise_seed|memory|search"
    with refused(words, (TypeError, ValueError)) as accountant, accountant:
        search(**BAD[name]).fit(X, np.zeros(len(X)))


@pytest.mark.parametrize(
    ("rows", "y"),
    [(X[0], None), (X[:1], None), ([], None), (X, np.zeros(3)), (X + 1j, None)],
    ids=["one row", "a row", "none", "targets", "complex"],
)
def test_bad_tables_are_refused_before_any_charge(rows, y):
    with refused(None, (TypeError, ValueError)) as accountant, accountant:
        search().fit(rows, y)


@pytest.mark.parametrize("rows", [np.zeros((40, 4)), X[:40]])
def test_doubts_by_public_numbers_reach_the_user(rows):
    """Blocks are silent; what shapes and parameters say is said before the charge."""
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1, center="none"))
    accountant = PrivacyAccountant(1e-3, 1e-6)
    space, given = {"dppca__center": ["none"]}, {"n_blocks": 2, "epsilon": 4.0}
    tried = search(model, space, accountant=accountant, **given)
    with (
        pytest.warns(UserWarning, match="40 rows are too few to estimate") as seen,
        pytest.raises(PrivacyBudgetError),
    ):
        tried.fit(rows)
    assert {warned.filename for warned in seen} == {__file__}


def test_a_limit_refuses_what_its_search_was_not_charged_for():
    limit = FitLimit(1.0, 0.0, (Unit.ROW, Neighbors.REPLACE_ONE))
    for mu in (1.1, 1.0, 1e-3):  # too much, as much as it may, and a second fit
        model = DPPCA(1, epsilon=gaussian_epsilon(mu, 1e-6))
        model._fit_limit = limit
        if mu == 1.0:
            model.fit(X)
            continue
        with pytest.raises(PrivacyBudgetError, match="more than its search allows"):
            model.fit(X)
    with pytest.raises(TypeError, match="another process"):
        pickle.dumps(model)
    with pytest.raises(PrivacyBudgetError, match="must protect the same"):
        limit.charge(LRSRegressor(user_feature=0).privacy_plan(3))


@pytest.mark.slow
def test_any_scorer_and_private_pipelines():
    y = (X[:, 0] > 0).astype(int)
    adam = Adam(sampling="in-turn")
    last = DPAdamClassifier(classes=[0, 1], batch_size=60, n_epochs=1, optimizer=adam)
    model = make_private_pipeline(DPStandardScaler(), last)
    space = {"dpadamclassifier__optimizer__learning_rate": [0.1, 0.5]}
    own = make_scorer(lambda y, predicted: np.mean(y == predicted))
    for scoring in (None, "accuracy", "roc_auc", "neg_log_loss", own):
        made = search(model, space, scoring=scoring).fit(X, y)
        assert made.n_blocks_ == 4
        assert made.predict(X).shape == y.shape
        assert made.best_estimator_.privacy_.mu <= made.privacy_["fit"].mu * (1 + 1e-9)


def any_score(model, X, y=None):
    return np.random.random()  # noqa: NPY002


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_last_fit_costs_more_than_was_charged(seed):
    """Candidates that differ in delta and steps, drawn and chosen at random."""
    rng = np.random.default_rng(seed)
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1))
    space = {
        "dpstandardscaler": ["passthrough", DPStandardScaler(with_mean=False)],
        "dppca__n_components": [1, 2, 3],
        "delta": [1e-6, rng.uniform(1e-8, 1e-6)],
    }
    made = search(model, space, scoring=any_score).fit(X)
    spent = made.best_estimator_.privacy_.mu
    assert 0.99 * made.privacy_["fit"].mu < spent
    assert spent <= made.privacy_["fit"].mu * (1.0 + 1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn():
    made = search(space={"center": ["none", "pairs"]}, epsilon=100.0, noise_seed=0)
    made.set_params(n_blocks="auto")
    results = check_estimator(made, on_skip=None)
    assert len(results) > 40


@pytest.mark.parametrize("epsilon", [0.01, 8.0])
def test_a_plan_is_refused_where_a_fit_is(epsilon):
    """Also where no block would be asked, so that no other candidate is fitted."""
    accountant = PrivacyAccountant()
    made = search(space={"no_such": [1]}, epsilon=epsilon, accountant=accountant)
    for call in (made.plan_for, made.fit):
        with pytest.raises(ValueError, match="no_such"):
            call(X)
    assert not accountant.ledger


@pytest.mark.parametrize("rows", [np.full((60, 3), "x"), np.zeros((60, 3), "M8[s]")])
@pytest.mark.parametrize("epsilon", [0.01, 8.0])
def test_text_and_dates_are_refused(epsilon, rows):
    with refused() as accountant, accountant:
        search(epsilon=epsilon, n_blocks=2).fit(rows)


# -- containers, and scores that fail, before the charge -------------------------------

INTEGERS = (np.random.default_rng(2).random(240) < 0.5).astype(int)
WORDS = np.where(INTEGERS, "yes", "no")
TARGETS = {
    "integers": INTEGERS,
    "floats": INTEGERS.astype(float),
    "list of integers": INTEGERS.tolist(),
    "U": WORDS,
    "objects": WORDS.astype(object),
    "Int64": pd.array(INTEGERS, dtype="Int64"),
    "boolean": pd.array(INTEGERS == 1, dtype="boolean"),
    "values of str": pd.Series(WORDS, dtype="str").values,
    "string[pyarrow]": pd.array(WORDS, dtype="string[pyarrow]"),
    "series": pd.Series(WORDS, index=range(240, 0, -1)),
    "index": pd.Index(WORDS),
    "categorical": pd.Categorical(WORDS),
    "series of categories": pd.Series(WORDS, dtype="category"),
    "polars": pl.Series(WORDS),
    "polars categories": pl.Series(WORDS, dtype=pl.Categorical),
}


@pytest.fixture
def scored(monkeypatch):
    """The scores of all blocks."""
    from skdpspectral.model_selection import _vote

    seen = []
    monkeypatch.setattr(_vote, "votes", lambda s: seen.append(s) or votes(s))
    return seen


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.sampled(4)
def test_blocks_score_targets_in_every_container(name, scored):
    y = TARGETS[name]
    texts = "yes" in set(y)
    classes = ["no", "yes"] if texts else [0, 1]
    given = DPRidgeClassifier(classes=classes)
    search(given, {"alpha": [0.1]}, scoring=None).fit(X, y)
    expected = scored.copy()
    search(given, {"alpha": [0.1]}, scoring=None).fit(X, WORDS if texts else INTEGERS)
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(expected, scored[len(expected) :])


def raises(model, X, y=None):
    raise RuntimeError("no")


def is_nan(model, X, y=None):
    return math.nan


LABELS = np.column_stack([X.astype(object), INTEGERS])[:, -1]
FAILING = {
    "raises": (raises, INTEGERS),
    "nan": (is_nan, INTEGERS),
    "labels that became objects": (None, LABELS),
    "a series of objects": (None, pd.Series(LABELS)),
    "of another type": ("f1", WORDS),
    "needs probabilities": ("neg_log_loss", INTEGERS),
    "needs another method": (captured_variance, INTEGERS),
    "of regression": ("r2", WORDS),
}


@pytest.mark.parametrize("name", FAILING)
def test_scores_that_fail_are_refused_before_any_charge(name):
    scoring, y = FAILING[name]
    classes = ["no", "yes"] if y is WORDS else [0, 1]
    made = search(DPRidgeClassifier(classes=classes), {"alpha": [0.1]}, scoring=scoring)
    with refused("made-up") as accountant, accountant:
        made.fit(X, y)


TOLD = []


def tells(model, X, y=None):
    TOLD.append((np.asarray(X).tolist(), np.asarray(y).tolist()))
    raise RuntimeError


def test_made_up_rows_hold_no_value():
    """What is fitted before the charge is the same for all values."""
    TOLD.clear()
    for scale, labels in ((1.0, INTEGERS), (1e3, 1 - INTEGERS)):
        table = pd.DataFrame(scale * X, columns=list("abcd"))
        table["e"] = pd.Categorical(np.where(scale > 1.0, "secret", WORDS))
        model = make_private_pipeline(
            DPTableVectorizer(categories={"e": ["no", "yes"]}),
            DPRidgeClassifier(classes=[0, 1]),
        )
        made = search(model, {"dpridgeclassifier__alpha": [0.1]}, scoring=tells)
        with pytest.raises(ValueError, match="made-up"):
            made.fit(table, labels)
    assert len(TOLD) == 4  # objects may be numbers or text
    assert TOLD[:2] == TOLD[2:]
    assert "secret" not in str(TOLD)


FILL = make_private_pipeline(FunctionTransformer(np.nan_to_num), DPRidge())


@pytest.mark.parametrize(
    ("estimator", "y", "faulty"),
    [
        (FILL, None, True),
        (FILL, np.ones((150, 1, 1)), True),
        (FILL, np.ones(150), False),
        (make_private_pipeline(DPTableVectorizer(), DPRidge()), np.ones(150), False),
    ],
)
def test_a_search_that_asks_nobody_is_tried_and_says_so(estimator, y, faulty):
    """Columns of objects may be of numbers, with None for missing ones."""
    counts = pd.Series([1, 2, None if "dptable" in str(estimator).lower() else 3] * 50)
    rows = pd.DataFrame({"a": counts.astype(object), "b": np.ones(150)})
    search_, accountant = PrivateSearchCV(estimator, {}), PrivacyAccountant()
    with accountant, contextlib.ExitStack() as within:
        if faulty:
            within.enter_context(pytest.raises(ValueError, match=r"\by\b|made-up"))
        else:
            within.enter_context(pytest.warns(NoisyFitWarning, match="No block votes"))
        search_.fit(rows, y)
    assert len(accountant.ledger) == (not faulty)


def test_users_of_a_private_pipeline_are_dealt_to_blocks():
    rows = np.column_stack([np.repeat(np.arange(48), 5), X])
    model = make_private_pipeline(LRSRegressor(user_feature=0))
    space = {"lrsregressor__n_components": [0, 1]}  # without components, no release
    found = search(model, space, scoring="r2").fit(rows, X[:, 0])
    assert str(found.privacy_.unit) == "user"
    assert found.predict(rows).shape == (240,)


@pytest.mark.parametrize("dtype", ["f8", ">f8"])
def test_a_step_that_fills_what_is_missing_comes_first(dtype):
    rows = X.astype(dtype)
    rows[3, 0] = np.nan
    assert search(FILL, {}, scoring="r2").fit(rows, X[:, 1]).predict(X).shape == (240,)


def test_an_error_of_the_last_fit_quotes_no_value():
    rows = pd.DataFrame({"a": np.ones(150, dtype=object), "b": np.ones(150)})
    rows.loc[5, "a"] = "Hallstatt"
    columns = ColumnTransformer([("all", Normalizer(), ["a", "b"])], sparse_threshold=0)
    estimator = make_private_pipeline(columns, DPRidge())
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="its message is not shown") as caught:
        PrivateSearchCV(estimator, {}, accountant=accountant).fit(rows, np.ones(150))
    assert "Hallstatt" not in "".join(traceback.format_exception(caught.value))
    assert len(accountant.ledger) == 1
