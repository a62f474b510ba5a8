"""Reports about pipelines: private, stateless, or leaking."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import (
    ColumnTransformer,
    make_column_selector,
)
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import RFE
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPItemEmbedding,
    DPMatrixFactorization,
    DPStandardScaler,
    DPTableVectorizer,
    FederatedDPPCA,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral.audit import privacy_report
from skdpspectral.decomposition import SpikedModel
from skdpspectral.metrics import make_private_scorer
from skdpspectral.neural_network import Adam


class LearnedThreshold(Binarizer):
    """A class derived from a harmless one."""

    def fit(self, X, y=None):
        self.threshold_ = np.median(X)
        return self


def clean(*steps, limits=(0.0, 100.0)):
    """Return a pipeline in which steps are given numbers between limits."""
    clip = FunctionTransformer(
        np.clip, kw_args=dict(zip(("a_min", "a_max"), limits, strict=True))
    )
    return make_pipeline(FunctionTransformer(np.nan_to_num), clip, *steps)


def verdicts(estimator):
    return {step.name: step.verdict for step in privacy_report(estimator)}


def test_a_private_pipeline():
    report = privacy_report(clean(Normalizer(), DPPCA(), Normalizer()))
    assert report.private
    verdicts = [step.verdict for step in report]
    assert verdicts == 3 * ["stateless"] + ["private", "stateless"]
    assert "epsilon=1, delta=1e-06" in str(report)


@pytest.mark.parametrize(
    "leak",
    [
        StandardScaler(),
        SimpleImputer(),
        QuantileTransformer(),
        OneHotEncoder(),
        OrdinalEncoder(),
        SimpleImputer(strategy="constant", fill_value=0),
        OneHotEncoder(categories=[[0, 1]], min_frequency=2),
        FunctionTransformer(lambda X: X - X.mean(axis=0)),
        FunctionTransformer(np.log1p, inverse_func=lambda X: X),
        FunctionTransformer(np.frompyfunc(float, 1, 1)),
        FunctionTransformer(np.add, kw_args={"x2": np.ones(3)}),
        FunctionTransformer(lambda X: X - X.mean(axis=0), validate=True),
        FunctionTransformer(np.cumsum, validate=True),
        FunctionTransformer(partial(np.subtract, 1.0)),
        FunctionTransformer(np.vectorize(abs)),
        FunctionTransformer(np.abs, inverse_func=np.sort, check_inverse=False),
        GaussianProcessRegressor(),
        # These fit nothing, and tell of values by errors and warnings.
        OneHotEncoder(categories=[[0, 1]]),
        OneHotEncoder(categories=[[0, 1]], handle_unknown="warn"),
        OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore", drop="first"),
        OrdinalEncoder(categories=[[0, 1]]),
        FunctionTransformer(np.abs, np.positive),
        # These take the variance, quantiles or the number of rows.
        RBFSampler(gamma="scale"),
        SplineTransformer(),
        SplineTransformer(knots="uniform"),
        SplineTransformer(knots=np.array([[0.0], [1.0]]), extrapolation="error"),
        GaussianRandomProjection(),
        FunctionTransformer(np.clip, kw_args={"a_min": 0.0, "a_max": np.ones((3, 1))}),
        FunctionTransformer(np.nan_to_num, kw_args={"copy": False}),
        # These run code of the user's, which may remember rows.
        HashingVectorizer(tokenizer=str.split),
        HashingVectorizer(analyzer=str.split),
        HashingVectorizer(preprocessor=str.lower),
        LearnedThreshold(),
        SimpleImputer(
            strategy="constant",
            fill_value=0,
            keep_empty_features=True,
            add_indicator=True,
        ),
    ],
)
def test_a_leak_voids_what_comes_after(leak):
    report = privacy_report(clean(leak, DPPCA()))
    assert [step.verdict for step in report] == 2 * ["stateless"] + 2 * ["LEAKS"]
    last = list(report)[-1]
    assert type(leak).__name__.lower() in last.reason
    assert not report.private


@pytest.mark.parametrize(
    ("scaler", "said"),
    [
        (StandardScaler(), "DPStandardScaler()"),
        (StandardScaler(with_mean=False), "DPStandardScaler(with_mean=False)"),
        (RobustScaler(), "DPStandardScaler()"),
        (MinMaxScaler(), "DPStandardScaler()"),
        (MaxAbsScaler(), "DPStandardScaler(with_mean=False)"),
    ],
)
def test_the_private_scaler_is_recommended(scaler, said):
    first, _ = privacy_report(make_pipeline(scaler, DPPCA()))
    assert first.verdict == "LEAKS"
    assert f"use {said} instead" in first.reason
    report = privacy_report(make_pipeline(DPStandardScaler(epsilon=0.5), DPPCA()))
    assert [step.verdict for step in report] == ["private", "private"]
    assert "epsilon=0.5" in next(iter(report)).reason


class LearnedComponents(DPPCA):
    """A private estimator, and what it keeps beside."""

    def fit(self, X, y=None):
        self.first_row_ = X[0]
        return super().fit(X)


class LearnedPipeline(Pipeline):
    """A pipeline, and what it keeps beside."""


class LearnedVote(VotingRegressor):
    """A vote, and what it keeps beside."""


@pytest.mark.parametrize(
    "foreign",
    [
        LearnedComponents(),
        LearnedPipeline([("pca", DPPCA())]),
        make_pipeline(LearnedPipeline([("pca", DPPCA())])),
        LearnedVote([("lrs", LRSRegressor())]),
    ],
)
def test_nothing_is_known_of_derived_classes(foreign):
    report = privacy_report(foreign)
    assert not report.private
    reasons = " ".join(s.reason for s in report if s.verdict == "LEAKS")
    assert "known" in reasons


@pytest.mark.parametrize("threshold", [0.0, 0.3])
def test_a_share_of_zeros_that_decides_the_form(threshold):
    encoder = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")
    branches = [("ids", make_pipeline(encoder), [0]), ("rest", "passthrough", [1])]
    columns = ColumnTransformer(branches, sparse_threshold=threshold)
    report = privacy_report(make_pipeline(columns, DPPCA()))
    assert report.private == (threshold == 0.0)
    if threshold:
        assert "sparse_threshold=0" in str(report)
        dense = clone(columns).set_params(
            ids__onehotencoder__sparse_output=False,
        )
        assert privacy_report(make_pipeline(dense, DPPCA())).private


def test_what_encoders_of_given_categories_tell_before_the_charge():
    """What the report is for: an error that quotes a value, and no charge."""
    rows = np.array([["a"], ["b"], ["secret"]] * 9, dtype=object)
    for encoder in (OneHotEncoder, OrdinalEncoder):
        accountant = PrivacyAccountant()
        fit = make_pipeline(encoder(categories=[["a", "b"]]), DPPCA(1)).set_params(
            dppca__accountant=accountant
        )
        with pytest.raises(ValueError, match="secret"):
            fit.fit(rows)
        assert len(accountant.ledger) == 0
        assert not privacy_report(fit).private


def test_a_leak_after_does_not_void_what_came_before():
    report = verdicts(make_pipeline(DPPCA(), LogisticRegression()))
    assert report == {"dppca": "private", "logisticregression": "LEAKS"}


@pytest.mark.parametrize(
    "harmless",
    [
        Normalizer(),
        Binarizer(),
        FunctionTransformer(np.log1p),
        FunctionTransformer(np.log1p, validate=True),
        FunctionTransformer(),
        PolynomialFeatures(),
        # These are fitted on the number of columns alone, or on nothing.
        RBFSampler(gamma=1.0),
        AdditiveChi2Sampler(),
        PolynomialCountSketch(),
        SplineTransformer(knots=np.array([[0.0], [1.0], [2.0]])),
        GaussianRandomProjection(2),
        SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
        OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore"),
        OneHotEncoder(categories=np.array([[0, 1]]), handle_unknown="ignore"),
        OrdinalEncoder(
            categories=[[0, 1]], handle_unknown="use_encoded_value", unknown_value=-1
        ),
        FunctionTransformer(np.log1p, np.expm1, check_inverse=False),
        "passthrough",
        None,
    ],
)
def test_stateless_steps(harmless):
    report = privacy_report(clean(harmless, DPPCA()))
    assert [step.verdict for step in report] == 3 * ["stateless"] + ["private"]


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (DPPCA(epsilon=None), "switched off"),
        (DPPCA(epsilon=np.inf), "switched off"),
        (DPPCA(noise_seed=0), "seed"),
    ],
)
def test_private_estimators_that_are_not(estimator, reason):
    (step,) = privacy_report(estimator)
    assert step.verdict == "LEAKS"
    assert reason in step.reason
    assert step.name == "dppca"


def test_nested_estimators():
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), [0]), ("pca", DPPCA(), [1, 2])]
    )
    report = verdicts(make_pipeline(columns, DPPCA()))
    assert report == {
        "columntransformer__scaled": "LEAKS",
        "columntransformer__pca": "private",
        "columntransformer__remainder": "stateless",
        "dppca": "LEAKS",
    }
    union = FeatureUnion([("a", DPPCA()), ("b", StandardScaler())])
    assert verdicts(union) == {"a": "private", "b": "LEAKS"}


def test_columns_that_a_function_picks():
    for columns, private in (
        (lambda X: [0], False),
        (make_column_selector(dtype_include=float), True),
        ([0], True),
    ):
        step = ColumnTransformer([("a", "passthrough", columns)])
        report = privacy_report(make_pipeline(step, DPPCA()))
        assert report.private is private
        assert [s.verdict for s in report][-1] == ("private" if private else "LEAKS")


def test_a_search_leaks_its_choice():
    search = GridSearchCV(make_pipeline(DPPCA()), {"dppca__epsilon": [1.0, 2.0]})
    report = verdicts(search)
    assert report == {"estimator__dppca": "private", "search": "LEAKS"}
    inside = verdicts(make_pipeline(search, DPPCA()))
    assert inside["dppca"] == "LEAKS"


def test_fitted_or_not_is_the_same():
    pipeline = clean(Normalizer(), DPPCA(1))
    before = str(privacy_report(pipeline))
    pipeline.fit(np.eye(5, 3))
    assert str(privacy_report(pipeline)) == before


def test_budgets_of_clients_and_models_are_said():
    budgets = FederatedDPPCA(1, epsilon={"a": 1.0, "b": 2.0})
    (step,) = privacy_report(budgets)
    assert (step.verdict, step.reason) == (
        "private",
        "each fit spends epsilon=1 to 2 (each client its own), delta=1e-06",
    )
    for cls in (DPPCA, FederatedDPPCA):
        (step,) = privacy_report(cls(1, mechanism=SpikedModel(1.0, 1.0)))
        assert "only for rows of the model" in step.reason
        assert "papers' claim" not in step.reason
        (step,) = privacy_report(
            cls(1, mechanism=SpikedModel(1.0, 1.0, calibration="paper"))
        )
        assert "papers' claim" in step.reason


def test_a_noise_multiplier_is_said_in_place_of_epsilon():
    model = DPAdamClassifier(classes=[0, 1], optimizer=Adam(noise_multiplier=0.1))
    assert model.privacy_plan(2000, 5).epsilon > 1000.0  # not the epsilon=1 of model
    (step,) = privacy_report(model)
    assert step.budgets == (("that of noise_multiplier=0.1", 1e-6),)
    assert "epsilon=that of noise_multiplier=0.1" in step.reason
    model.set_params(optimizer__noise_multiplier=None)
    assert privacy_report(model).steps[0].budgets == ((1.0, 1e-6),)


def test_an_assumption_is_that_of_the_class():
    mechanism = SpikedModel(1.0, 1.0)
    mechanism.assumption = DPPCA(1).privacy_plan(100, 3).assumption
    (step,) = privacy_report(DPPCA(1, mechanism=mechanism))
    assert "only for rows of the model" in step.reason


@pytest.mark.parametrize(
    ("fitted", "now", "reason"),
    [
        ({"epsilon": None}, {"epsilon": 1.0}, "fitted without noise"),
        ({"noise_seed": 0}, {"noise_seed": None}, "noise from a seed"),
        ({"epsilon": 1.0}, {"epsilon": None}, "switched off"),
    ],
)
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_what_was_fitted_counts_as_much_as_the_parameters(fitted, now, reason):
    pca = DPPCA(1, **fitted).fit(np.eye(5, 3)).set_params(**now)
    (step,) = privacy_report(pca)
    assert step.verdict == "LEAKS"
    assert reason in step.reason


class Unknown(BaseEstimator):
    """An estimator over others that nothing is known of."""

    def __init__(self, model=None, several=()):
        self.model = model
        self.several = several


def test_every_estimator_within_another_is_seen():
    model = LRSRegressor()
    charged = make_pipeline(DPStandardScaler(), MultiOutputRegressor(model))
    assert verdicts(charged) == {
        "dpstandardscaler": "private",
        "multioutputregressor__estimator": "private",
        "multioutputregressor": "stateless",
    }
    # Before the charge these refuse targets that are not finite.
    for reads in (MultiOutputRegressor(model), RegressorChain(model)):
        report = privacy_report(reads)
        assert [step.verdict for step in report] == ["private", "LEAKS"]
        assert "targets that are not finite" in report.steps[-1].reason
    voting = verdicts(VotingRegressor([("a", model), ("b", LogisticRegression())]))
    assert voting == {"a": "private", "b": "LEAKS", "votingregressor": "stateless"}
    bagging = {s.name: s for s in privacy_report(BaggingRegressor(model))}
    assert bagging["estimator"].verdict == "private"
    assert "several times" in bagging["baggingregressor"].reason
    assert verdicts(RegressorChain(model, cv=3))["estimator"] == "LEAKS"
    unknown = Unknown(model, [DPPCA(), ("named", DPPCA(epsilon=None))])
    report = {s.name: s for s in privacy_report(make_pipeline(unknown, DPPCA()))}
    assert all(step.verdict == "LEAKS" for step in report.values())
    assert "is not known" in report["unknown"].reason
    assert "switched off" in report["unknown__named"].reason
    assert {"unknown__model", "unknown__several_0", "dppca"} < set(report)


FIRST = LRSRegressor(user_feature=0)
PASSED = ColumnTransformer([("s", DPPCA(), [1, 2])], remainder="passthrough")
NAMED = LRSRegressor(user_feature="user")
FILLED = SimpleImputer(strategy="constant", keep_empty_features=True)


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(PASSED, FIRST),
        make_pipeline(PASSED, Normalizer(), FIRST),
        make_pipeline(PASSED, FederatedDPPCA(client_feature=-1)),
        make_pipeline(PASSED, DPItemEmbedding(item_feature=1, rating_range=(1, 5))),
        # Without names its defaults are positions.
        make_pipeline(PASSED, DPItemEmbedding(rating_range=(1, 5))),
        make_pipeline(PASSED, DPMatrixFactorization(rating_range=(1, 5))),
        make_pipeline(FeatureUnion([("a", DPPCA())]), FIRST),
        make_pipeline(PolynomialFeatures(), FIRST),
        make_pipeline(make_pipeline(PolynomialFeatures()), FIRST),
        make_pipeline(
            DPItemEmbedding(rating_range=(1, 5)), LRSRegressor(user_feature=1)
        ),
        ColumnTransformer([("site", FederatedDPPCA(client_feature=0), [3, 4])]),
        RFE(FIRST),
        BaggingRegressor(FIRST, bootstrap=False, max_features=0.5),
        BaggingRegressor(FIRST, bootstrap=False, max_features=1),
        BaggingRegressor(FIRST, bootstrap=False, bootstrap_features=True),
        RegressorChain(LRSRegressor(user_feature=-1)),
        Unknown(FIRST),
    ],
)
def test_positions_behind_a_step_that_moves_columns_are_flagged(estimator):
    reasons = [step.reason for step in privacy_report(estimator)]
    if isinstance(estimator, Unknown):  # whose rows may be others' too
        assert "void" in reasons[0]
    else:
        assert any("moves columns" in reason for reason in reasons)
    assert not privacy_report(estimator).private


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(PASSED, LRSRegressor(user_feature="user")),
        make_pipeline(PASSED, LRSRegressor()),
        make_pipeline(DPItemEmbedding(user_feature=2, rating_range=(1, 5)), FIRST),
        make_pipeline("passthrough", None, FIRST),
        clean(Normalizer(), LRSRegressor()),
        make_pipeline(FunctionTransformer(), FIRST),
        make_pipeline(
            ColumnTransformer([("s", DPPCA(), [1, 2])]).set_output(transform="pandas"),
            DPItemEmbedding(rating_range=(1, 5)),
        ),
        make_pipeline(DPStandardScaler(), MultiOutputRegressor(FIRST)),
        make_pipeline(DPStandardScaler(), RegressorChain(FIRST)),
        VotingRegressor([("a", FIRST)]),
    ],
)
def test_columns_that_stay_where_they_are_are_not_flagged(estimator):
    assert not [s for s in privacy_report(estimator) if "moves columns" in s.reason]
    assert privacy_report(estimator).private


def cleaned(columns, model):
    """Return a model behind a transformer that clips some columns."""
    return make_pipeline(ColumnTransformer([("c", clean(), columns)]), model)


@pytest.mark.parametrize(
    ("estimator", "changed"),
    [
        (clean(FIRST), "functiontransformer-1"),
        (clean(Normalizer(), FIRST), "functiontransformer-1"),
        (make_pipeline(clean(), LRSRegressor(user_feature="user")), "pipeline"),
        (make_pipeline(DPStandardScaler(), Binarizer(), FIRST), "binarizer"),
        (make_pipeline(DPStandardScaler(), FILLED, FIRST), "simpleimputer"),
        (clean(DPItemEmbedding(rating_range=(1, 5))), "functiontransformer-1"),
        (
            make_pipeline(FeatureUnion([("c", clean())]), NAMED),
            "featureunion",
        ),
        (cleaned(["user", "x"], NAMED), "columntransformer"),
        (cleaned("user", NAMED), "columntransformer"),
        (cleaned(slice(0, 2), NAMED), "columntransformer"),
        (cleaned(["r__user"], NAMED), "columntransformer"),
    ],
)
def test_steps_that_may_make_one_user_of_several_are_flagged(estimator, changed):
    """Users beyond the limits of a clip would share one model, which has no noise."""
    reason = list(privacy_report(estimator))[-1].reason
    assert f"{changed!r} changes values" in reason
    assert not privacy_report(estimator).private


def test_ids_that_are_passed_through_are_not_flagged():
    kept = ColumnTransformer([("x", clean(), ["x"]), ("u", "passthrough", ["user"])])
    for name in ("user", "u__user"):
        model = make_pipeline(kept, LRSRegressor(user_feature=name))
        assert privacy_report(model).private


def test_clipped_ids_are_one_user_indeed():
    """What the flag is about: each user is predicted what others' rows say."""
    users = np.repeat(np.arange(101.0, 111.0), 20)
    x = np.random.default_rng(0).normal(size=200)
    X, y = np.column_stack([users, x]), x * np.where(users < 106.0, 5.0, -5.0)
    model = clean(LRSRegressor(user_feature=0)).fit(X, y)
    assert len(set(model.predict(np.column_stack([users[::20], np.ones(10)])))) == 1
    assert not privacy_report(model).private


def test_a_stale_position_is_another_column_indeed():
    """What the flag is about: the first column is no longer the users'."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(60) % 10, np.arange(60), rng.normal(size=(60, 2))])
    moved = ColumnTransformer([("s", "passthrough", [1])], remainder="passthrough")
    model = make_pipeline(moved, FIRST).fit(X, X[:, 1])
    assert len(model[-1]._personal.index) == 60
    assert not privacy_report(model).private


# -- labels ----------------------------------------------------------------------------


def test_labels_that_occur_are_a_leak():
    (alone,) = privacy_report(DPAdamClassifier())
    assert (alone.verdict, "classes=[...]" in alone.reason) == ("LEAKS", True)
    steps = privacy_report(make_pipeline(DPPCA(), DPAdamClassifier()))
    assert [step.verdict for step in steps] == ["private", "LEAKS"]
    assert privacy_report(DPAdamClassifier(classes=[0, 1])).private


def test_tables_are_walked():
    given = DPTableVectorizer(categories={0: ["a"], "city": "dtype"})
    assert privacy_report(make_pipeline(given, DPPCA())).private


REMEDIES = [
    (OneHotEncoder(), "DPTableVectorizer()"),
    (OrdinalEncoder(), "DPTableVectorizer()"),
    (TargetEncoder(), "DPTableVectorizer()"),
    (SimpleImputer(), 'DPStandardScaler(missing="mean")'),
    (KNNImputer(), "DPTableVectorizer("),
    (FunctionTransformer(lambda x: x), "a custom function may look at other rows"),
]


@pytest.mark.parametrize(("step", "remedy"), REMEDIES, ids=lambda x: type(x).__name__)
def test_remedies_name_private_tables(step, remedy):
    first, *_ = privacy_report(make_pipeline(step, DPPCA()))
    assert first.verdict == "LEAKS"
    assert remedy in first.reason


def test_a_table_protects_rows_whatever_ids_it_passes_on():
    # What it protects is a row, and so does the scorer.
    search = GridSearchCV(
        DPTableVectorizer(user_feature="u"),
        {"epsilon": [1.0]},
        scoring=make_private_scorer("accuracy", epsilon=1.0),
    )
    steps = {step.name: step for step in privacy_report(search)}
    assert "one user" not in steps["estimator"].reason


def test_ids_that_become_scaled_numbers_are_no_ids():
    # What is lost in the noise becomes 0: all users would share one model.
    named = DPTableVectorizer().set_output(transform="pandas")
    _, last = privacy_report(make_pipeline(named, LRSRegressor(user_feature="u")))
    assert last.verdict == "LEAKS"
    assert "several users" in last.reason


def test_ids_that_a_table_passes_on_are_ids():
    table = DPTableVectorizer(user_feature="u").set_output(transform="pandas")
    alone = make_pipeline(table, LRSRegressor(user_feature="u"))
    assert privacy_report(alone).private
    other = make_pipeline(table, LRSRegressor(user_feature="v"))
    assert not privacy_report(other).private
    columns = ColumnTransformer(
        [("table", table, ["u", "city"])], verbose_feature_names_out=False
    ).set_output(transform="pandas")
    for feature, private in (("u", True), ("city", False)):
        model = make_pipeline(columns, LRSRegressor(user_feature=feature))
        assert privacy_report(model).private is private
