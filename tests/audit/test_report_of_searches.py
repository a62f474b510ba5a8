"""Reports about searches: every candidate has its verdict."""

import numpy as np
import pytest
from scipy import stats
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    RandomizedSearchCV,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdpspectral import (
    DPPCA,
    DPAdamRegressor,
    FederatedDPPCA,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral.audit import privacy_report
from skdpspectral.decomposition import SpikedModel
from skdpspectral.metrics import make_private_scorer
from skdpspectral.metrics._private_scorer import PrivateScorer
from skdpspectral.model_selection import PrivateSearchCV, PrivateSplit
from skdpspectral.neural_network import Adam

PIPELINE = Pipeline([("s", "passthrough"), ("p", DPPCA())])
SCORER = make_private_scorer("captured_variance", 1.0, clip_norm=1.0)
NO_BUDGET = make_private_scorer("captured_variance", clip_norm=1.0)
PARAMETERS = {"scoring": SCORER, "cv": KFold(2)}
HALVING = {**PARAMETERS, "max_resources": 9}


def grid(space, estimator=PIPELINE, **parameters):
    return GridSearchCV(estimator, space, **{**PARAMETERS, **parameters})


def randomized(space, **parameters):
    return RandomizedSearchCV(PIPELINE, space, **PARAMETERS, **parameters)


def halving(space, **parameters):
    return HalvingGridSearchCV(PIPELINE, space, **{**HALVING, **parameters})


def private(space, estimator=PIPELINE, **parameters):
    return PrivateSearchCV(estimator, space, scoring=NO_BUDGET, **parameters)


class OwnDistribution:
    """Numbers for all that is known."""

    def rvs(self, random_state=None):
        return 1.0


class OwnScorer(PrivateScorer):
    """A scorer that may keep rows."""


OWN_SCORER = OwnScorer(SCORER._kind, 1.0, 1e-6, None, None, None)
WIDE = list(np.linspace(1.0, 2.0, 40))


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (grid({"s": [StandardScaler()]}), "DPStandardScaler()"),
        (grid({"s": ["passthrough", StandardScaler()]}), "tries s=StandardScaler()"),
        (grid({"p": [make_pipeline(StandardScaler(), DPPCA())]}), "DPStandardScaler()"),
        (grid({"p": [LogisticRegression()]}), "without noise"),
        (grid({"p__noise_seed": [None, 3]}), "tries p__noise_seed=3"),
        (grid({"p__epsilon": [1.0, None]}), "tries p__epsilon=None"),
        (grid({"p__epsilon": [1.0, np.inf]}), "tries p__epsilon=inf"),
        (grid([{"p__epsilon": [1.0]}, {"p__noise_seed": [3]}]), "p__noise_seed=3"),
        (grid({"unknown": [1]}), "cannot be set"),
        # Those within others.
        (grid({"estimator__s": [StandardScaler()]}, grid({})), "DPStandardScaler()"),
        (grid({"verbose": [0]}, grid({"p__noise_seed": [3]})), "noise_seed=None"),
        (grid({"param_grid": [{"p__noise_seed": [3]}]}, grid({})), "noise_seed=None"),
        (make_pipeline(grid({"s": [StandardScaler()]})), "DPStandardScaler()"),
        # What is drawn.
        (randomized({"s": [StandardScaler()]}), "DPStandardScaler()"),
        (randomized({"p__noise_seed": stats.randint(0, 9)}), "are not listed"),
        (randomized({"p__epsilon": stats.uniform(1, 9)}), "are not listed"),
        (randomized({"p__delta": stats.uniform(0, 1e-3)}), "are not listed"),
        (randomized({"p": OwnDistribution()}), "are not listed"),
        (randomized({"p__clip_norm": OwnDistribution()}), "are not listed"),
        (randomized({"p": [DPPCA()], "p__clip_norm": stats.uniform(1, 9)}), "listed"),
        # What grows in each round.
        (halving({}, resource="p__noise_seed"), "are not listed"),
        (halving({}, resource="p__epsilon"), "are not listed"),
        (halving({"s": [StandardScaler()]}), "DPStandardScaler()"),
        (
            HalvingRandomSearchCV(
                PIPELINE, {"p__epsilon": stats.uniform(1, 9)}, **HALVING
            ),
            "are not listed",
        ),
        # Too many to look at.
        (grid({"p__epsilon": WIDE, "p__delta": WIDE}), "more than 512"),
        # A private search refuses them.
        (private({"s": [StandardScaler()]}), "a search does not accept it"),
        (private({"p__epsilon": [None]}), "a search does not accept it"),
        (private({"p__noise_seed": [3]}), "a search does not accept it"),
        # A scorer of one's own.
        (grid({}, scoring=OWN_SCORER), "make_private_scorer"),
    ],
)
def test_a_search_that_may_leak(search, said):
    report = privacy_report(search)
    assert not report.private
    assert any(said in step.reason for step in report if step.verdict == "LEAKS")


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (grid({}), "epsilon=1, delta"),
        (grid({"p__epsilon": [2.0, 0.5, 1.0]}), "epsilon=0.5 to 2, delta=1e-06"),
        (grid({"p__delta": [1e-7, 1e-6]}), "epsilon=1, delta=1e-07 to 1e-06"),
        (grid({"p": [DPPCA(epsilon=3.0)], "p__epsilon": [4.0]}), "epsilon=4, delta"),
        (
            grid({"p": [FederatedDPPCA(epsilon={"a": 1.0}), DPPCA()]}),
            "epsilon=1 or 1 (each client its own)",
        ),
        (grid({"s": [None, FunctionTransformer(np.nan_to_num)]}), "epsilon=1, delta"),
        # Of these no verdict depends, however many there are.
        (
            grid({"p__clip_norm": WIDE, "p__n_components": list(range(1, 99))}),
            "epsilon=1, delta",
        ),
        (randomized({"p__clip_norm": stats.uniform(1, 9)}), "epsilon=1, delta"),
        (randomized({"p__epsilon": [1.0, 9.0]}), "epsilon=1 to 9"),
        (halving({"p__epsilon": [1, 2]}), "epsilon=1 to 2"),
        (halving({}, resource="p__n_components"), "epsilon=1, delta"),
        (grid({"estimator__p__epsilon": [5.0, 6.0]}, grid({})), "epsilon=5 to 6"),
        (private({"p__epsilon": [50.0]}), "a share of the search's budget"),
        (
            private({"p__epsilon": [0.5, 0.1]}, step_budgets="given"),
            "epsilon=0.1 to 1",
        ),
    ],
)
def test_a_search_that_is_private_says_what_a_fit_spends(search, said):
    report = privacy_report(search)
    assert report.private, str(report)
    step = next(s for s in report if s.name.endswith("estimator__p"))
    assert step.verdict == "private"
    assert said in step.reason


def test_a_halving_search_that_counts_labels_or_users():
    classes = HalvingGridSearchCV(LogisticRegression(), {}, **PARAMETERS)
    assert "counts the labels" in str(privacy_report(classes))
    users = make_private_scorer(
        "accuracy", 1.0, user_feature=0, accountant=PrivacyAccountant()
    )
    assert "joins or leaves" in str(privacy_report(halving({}, scoring=users)))


def of_users(model, scored, dealt):
    """Return a search over a model, with scores and folds of these users."""
    scorer = make_private_scorer(
        "squared_error", limit=9.0, user_feature=scored, epsilon=1.0
    )
    cv = PrivateSplit(2, user_feature=dealt)
    return GridSearchCV(model, {"ridge_sparse": [0.1, 0.2]}, scoring=scorer, cv=cv)


@pytest.mark.parametrize(
    ("fitted", "scored", "dealt", "said"),
    [
        (0, 0, 1, "cv has user_feature=1, and the scorer 0"),
        (0, 1, 0, "user_feature=0, and the scorer 1"),
        (0, 1, 1, "it has user_feature=0, and the scorer 1"),
        ("a", "b", "b", "it has user_feature='a', and the scorer 'b'"),
    ],
)
def test_users_of_fits_scores_and_folds_are_one_column(fitted, scored, dealt, said):
    """One user of the first column moves rows of others between folds of another."""
    search = of_users(LRSRegressor(user_feature=fitted), scored, dealt)
    assert said in str(privacy_report(search))
    assert not privacy_report(search).private
    same = of_users(LRSRegressor(user_feature=fitted), fitted, fitted)
    assert privacy_report(same).private


@pytest.mark.parametrize("cv", [KFold(2), PrivateSplit(2)])
@pytest.mark.parametrize(
    "model",
    [
        LRSRegressor(user_feature=0),
        LRSRegressor(),
        Pipeline([("p", DPPCA()), ("m", LRSRegressor(user_feature="a"))]),
    ],
)
def test_scores_of_rows_do_not_protect_users(cv, model):
    """The model of a user has no noise: scores of rows tell more than one of them."""
    scorer = make_private_scorer("squared_error", limit=9.0, epsilon=1.0)
    delta = "m__delta" if isinstance(model, Pipeline) else "delta"
    search = GridSearchCV(model, {delta: [1e-6, 1e-5]}, scoring=scorer, cv=cv)
    (leak,) = (step for step in privacy_report(search) if "one user" in step.reason)
    assert leak.estimator == "LRSRegressor"
    assert leak.verdict == "LEAKS"


def test_a_user_moves_rows_of_others_between_folds_of_another_column():
    users, others = (
        np.repeat(np.arange(60), 20),
        np.random.default_rng(0).integers(0, 40, 1200),
    )
    X = np.column_stack([users, others])
    split = PrivateSplit(2, user_feature=1, random_state=0)
    kept = np.flatnonzero(users != 0)
    (_, whole), (_, less) = (next(split.split(table)) for table in (X, X[kept]))
    moved = np.isin(kept, whole) != np.isin(np.arange(len(kept)), less)
    assert moved.sum() > 100


def test_what_a_search_would_have_handed_out():
    """What the walk is for: the mean of private rows, bit for bit."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    search = grid({"s": [StandardScaler()]}).fit(rows)
    assert np.array_equal(search.best_estimator_["s"].mean_, rows.mean(axis=0))
    assert not privacy_report(search).private


@pytest.mark.parametrize("order", [1, -1])
def test_conditions_of_each_candidate_are_said(order):
    mechanisms = ["gaussian", SpikedModel(50.0, 1.0)][::order]
    step, _ = privacy_report(grid({"mechanism": mechanisms}, DPPCA(1)))
    assert step.reason.count("only for rows of the model") == 1
    ways = {"mechanism__calibration": ["exact", "paper"][::order]}
    model = DPPCA(1, mechanism=SpikedModel(50.0, 1.0))
    step, _ = privacy_report(grid(ways, model))
    assert step.reason.count("only for rows of the model") == 1
    assert step.reason.count("papers' claim") == 1


def test_numbers_of_strategies_change_no_verdict_but_that_of_noise():
    scorer = make_private_scorer("r2", 1.0, limit=1.0, bounds=(-1.0, 1.0))
    model = DPAdamRegressor(target_bounds=(-1, 1), optimizer=Adam())

    def report(**space):
        named = {f"optimizer__{name}": values for name, values in space.items()}
        return privacy_report(
            RandomizedSearchCV(model, named, scoring=scorer, cv=KFold(2))
        )

    assert report(learning_rate=stats.uniform(0.1, 0.2)).private
    assert report(learning_rate=WIDE, beta_1=WIDE[:20]).private  # 800 of them
    assert not report(noise_multiplier=stats.uniform(0.1, 0.2)).private
    step, _ = report(noise_multiplier=[0.1, None])
    assert step.budgets == (("that of noise_multiplier=0.1", 1e-6), (1.0, 1e-6))
