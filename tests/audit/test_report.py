"""Reports about pipelines: private, stateless, or leaking."""

from unittest import mock

import numpy as np
import pytest
from joblib import Memory
from ledger_tools import refused
from sklearn import model_selection
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import BaggingRegressor
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

import skdpspectral
from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPItemEmbedding,
    DPStandardScaler,
    DPTableVectorizer,
    FederatedDPPCA,
    LRSRegressor,
)
from skdpspectral._base import privacy_report as rules
from skdpspectral._base.estimator import PrivateEstimator
from skdpspectral.audit import privacy_report
from skdpspectral.decomposition import SpikedPCA
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.neural_network import Adam
from skdpspectral.pipeline import PrivatePipeline, make_private_pipeline

FILL = FunctionTransformer(np.nan_to_num)
FIRST = LRSRegressor(user_feature=0)
NAMED = LRSRegressor(user_feature="user")


def verdicts(estimator):
    return {step.name: step.verdict for step in privacy_report(estimator)}


class LearnedThreshold(Binarizer):
    """A class derived from a harmless one."""


class LearnedComponents(DPPCA):
    """A private estimator, and what it keeps beside."""


class LearnedPipeline(Pipeline):
    """A pipeline, and what it keeps beside."""


class Unknown(BaseEstimator):
    """An estimator over another that nothing is known of."""

    def __init__(self, model=None):
        self.model = model


class OwnSelector(make_column_selector):
    """A selector that may look at values."""


class OwnMemory(Memory):
    """A cache that may keep rows."""


def columns(parts, **given):
    return ColumnTransformer(parts, **{"sparse_threshold": 0} | given)


def with_attribute(one, name):
    setattr(one, name, lambda *_: None)
    return one


# -- steps without noise ---------------------------------------------------------------

STATELESS = [
    Normalizer(),
    Binarizer(),
    FunctionTransformer(),
    FILL,
    PolynomialFeatures(),
    GaussianRandomProjection(1),
    SparseRandomProjection(1),
    "passthrough",
    None,
]
LEAKING = [
    StandardScaler(),
    KNNImputer(),
    SimpleImputer(),
    SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
    OneHotEncoder(),
    OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore"),
    FunctionTransformer(lambda X: X - X.mean(axis=0)),
    FunctionTransformer(np.cumsum),
    FunctionTransformer(mock.ANY),  # which equals all that is known
    # Of integers it depends on their dtype, which shows if any value is missing.
    FunctionTransformer(np.square),
    FunctionTransformer(np.log1p, np.expm1, check_inverse=False),
    FunctionTransformer(np.clip, kw_args={"a_min": 0.1, "a_max": 9}),
    FunctionTransformer(np.nan_to_num, inverse_func=np.sort, check_inverse=False),
    FunctionTransformer(np.nan_to_num, np.nan_to_num),
    FunctionTransformer(np.add, kw_args={"x2": np.ones(3)}),
    FunctionTransformer(np.nan_to_num, kw_args={"copy": False}),
    FunctionTransformer(feature_names_out=lambda *_: ["a"]),
    GaussianRandomProjection(),
    HashingVectorizer(),
    LearnedThreshold(),
    with_attribute(Normalizer(), "fit"),
    with_attribute(clone(FILL), "transform"),
    Unknown(),
]


@pytest.mark.parametrize("step", STATELESS)
def test_stateless_steps_behind_a_charge(step):
    report = privacy_report(make_private_pipeline(step, DPPCA()))
    assert [s.verdict for s in report] == ["stateless", "private", "private"]


@pytest.mark.parametrize("step", LEAKING)
def test_a_leak_voids_what_comes_after(step):
    report = privacy_report(make_pipeline(DPStandardScaler(), step, DPPCA()))
    assert [s.verdict for s in report] == ["private", "LEAKS", "LEAKS"]
    assert type(step).__name__.lower() in list(report)[-1].reason
    whole = privacy_report(make_private_pipeline(step, DPPCA()))
    assert [s.verdict for s in whole] == 3 * ["LEAKS"]


def test_every_listed_step_is_of_the_exact_type():
    assert set(rules._ALLOWED) < {type(step) for step in STATELESS}
    for step in (s for s in STATELESS if type(s) in rules._ALLOWED):
        derived = type("Derived", (type(step),), {})(**step.get_params())
        assert rules._reason_of_leak(step) is None
        assert "code of its own" in rules._reason_of_leak(derived)


@pytest.mark.parametrize("step", [s for s in STATELESS if isinstance(s, BaseEstimator)])
def test_what_a_stateless_fit_keeps_depends_on_no_value(step):
    """Attributes of fits on two tables of one form are the same, bit for bit."""
    step = clone(step)
    if hasattr(step, "random_state"):
        step.set_params(random_state=0)
    tables = [np.zeros((9, 1)), np.linspace(-3.0, 5.0, 9)[:, None] ** 3]
    kept = []
    for table in tables:
        fitted = clone(step).fit(table)
        own = {
            name: value.toarray() if hasattr(value, "toarray") else value
            for name, value in vars(fitted).items()
        }
        kept.append(str(own))
    assert kept[0] == kept[1]


@pytest.mark.parametrize("step", [s for s in STATELESS if isinstance(s, BaseEstimator)])
def test_before_the_charge_only_what_is_silent_is_harmless(step):
    """Errors and warnings of steps of an ordinary pipeline may tell of values."""
    silent = step is FILL or getattr(step, "func", 0) is None
    for before in ((), (DPStandardScaler(),)):
        *_, first, last = privacy_report(make_pipeline(*before, clone(step), DPPCA()))
        assert first.verdict == ("stateless" if silent else "LEAKS")
        assert ("warn about values: use make" in first.reason) != silent
        assert last.verdict == "private"


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308, 5e-324, -0.0, 1e19])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_silent_steps_are(value, dtype):
    rows = np.full((6, 2), 0.25)
    rows[3] = value
    with np.errstate(all="ignore"):
        rows = rows.astype(dtype)
    with np.errstate(all="raise"):
        make_pipeline(FILL, FunctionTransformer()).fit_transform(rows)


REMEDIES = [
    (StandardScaler(), "use DPStandardScaler() instead"),
    (OneHotEncoder(), "use DPTableVectorizer(categories=...) instead"),
    (SimpleImputer(), 'DPStandardScaler(missing="mean") instead'),
    (KNNImputer(), "DPTableVectorizer() instead"),
    (model_selection.GridSearchCV(DPPCA(), {}), "use PrivateSearchCV() instead"),
    (FunctionTransformer(len), "may look at other rows"),
]


@pytest.mark.parametrize(("step", "remedy"), REMEDIES, ids=lambda x: type(x).__name__)
def test_remedies(step, remedy):
    first, *_ = privacy_report(make_pipeline(step, DPPCA()))
    assert first.verdict == "LEAKS"
    assert remedy in first.reason


# -- compositions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        LearnedComponents(),
        with_attribute(DPPCA(), "fit"),
        LearnedPipeline([("pca", DPPCA())]),
        make_pipeline(LearnedPipeline([("pca", DPPCA())]), DPPCA()),
        with_attribute(make_pipeline(DPPCA()), "fit"),
        make_pipeline(DPPCA(), memory=OwnMemory(None)),
        make_pipeline(DPPCA(), memory=object()),
        columns([("a", DPPCA(), lambda X: [0])]),
        columns([("a", DPPCA(), OwnSelector(pattern="x"))]),
        # Nothing is known of these, whatever is in them.
        Unknown(DPPCA()),
        BaggingRegressor(LRSRegressor()),
        model_selection.GridSearchCV(DPPCA(), {"epsilon": [1.0]}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_unknown_counts_as_a_leak(estimator):
    steps = [("a", DPStandardScaler()), ("b", estimator), ("c", DPPCA())]
    report = privacy_report(Pipeline(steps))
    assert not report.private
    assert report.leaks[-1].name == "c"


def test_known_types_are_accepted():
    for memory in (None, "cache", Memory(None)):
        assert privacy_report(make_pipeline(DPPCA(), memory=memory)).private
    public = [getattr(skdpspectral, name) for name in skdpspectral.__all__]
    classes = [cls for cls in public if isinstance(cls, type)]
    private = [cls for cls in classes if issubclass(cls, PrivateEstimator)]
    assert len(private) > 9
    assert all(rules.is_known(cls()) for cls in private)
    assert rules.is_known(DPPCA(1).fit(np.eye(9, 3)).set_output(transform="pandas"))


def test_nested_estimators():
    table = columns([("scaled", StandardScaler(), [0]), ("pca", DPPCA(), [1, 2])])
    assert verdicts(make_pipeline(table, DPPCA())) == {
        "columntransformer__scaled": "LEAKS",
        "columntransformer__pca": "private",
        "columntransformer__remainder": "stateless",
        "dppca": "LEAKS",
    }
    union = FeatureUnion([("a", DPPCA()), ("b", StandardScaler()), ("c", "drop")])
    assert verdicts(union) == {"a": "private", "b": "LEAKS", "c": "stateless"}
    inner = make_private_pipeline(DPStandardScaler(), DPPCA())
    assert verdicts(make_pipeline(StandardScaler(), inner)) == {
        "standardscaler": "LEAKS",
        "privatepipeline__dpstandardscaler": "LEAKS",
        "privatepipeline__dppca": "LEAKS",
        "privatepipeline": "LEAKS",
    }
    after = make_pipeline(DPPCA(), LogisticRegression())
    assert verdicts(after) == {"dppca": "private", "logisticregression": "LEAKS"}


def test_a_fitted_step_is_as_private_as_it_was():
    rows = np.eye(9, 3)
    for fitted, private in ((DPPCA(1), True), (StandardScaler(), False)):
        frozen = FrozenEstimator(fitted.fit(rows))
        model = make_pipeline(DPStandardScaler(), frozen, DPPCA(1))
        assert privacy_report(model).private is private


DENSE, SPARSE = DPStandardScaler(), DPStandardScaler(with_mean=False)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("part", "rest", "dense"),
    [
        (DENSE, "drop", True),
        (make_pipeline(Normalizer(), DENSE), DPPCA(1), True),
        (FeatureUnion([("a", DENSE), ("b", DPPCA(1))]), "drop", True),
        (ColumnTransformer([("a", DENSE, [0])]), "drop", True),
        (DENSE, "passthrough", False),
        ("passthrough", "drop", False),
        (SPARSE, "drop", False),
        (make_pipeline(DENSE, Normalizer()), "drop", False),
        (make_private_pipeline(DENSE, Normalizer()), "drop", False),
        (FeatureUnion([("a", DENSE), ("b", Normalizer())]), "drop", False),
    ],
)
def test_a_share_of_zeros_that_decides_the_form(part, rest, dense, threshold):
    step = columns([("part", part, [0])], remainder=rest, sparse_threshold=threshold)
    report = privacy_report(make_pipeline(step, DPPCA()))
    said = "sparse_threshold=0" in str(report)
    assert said == (not dense and threshold > 0.0)
    assert said <= (not report.private)


def test_columns_that_a_selector_picks():
    by_dtype = make_column_selector(dtype_include=float)
    step = columns([("a", "passthrough", by_dtype)])
    assert privacy_report(make_pipeline(step, DPPCA())).private


# -- private estimators ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (DPPCA(epsilon=None), "switched off"),
        (DPPCA(epsilon=np.inf), "switched off"),
        (DPPCA(noise_seed=0), "seed"),
        (DPAdamClassifier(), "classes=[...]"),
    ],
)
def test_private_estimators_that_are_not(estimator, reason):
    (step,) = privacy_report(estimator)
    assert step.verdict == "LEAKS"
    assert reason in step.reason
    assert step.name == type(estimator).__name__.lower()


MODEL = {"signal_variance": 1.0, "noise_variance": 1.0}


def test_budgets_of_clients_and_models_are_said():
    (step,) = privacy_report(FederatedDPPCA(1, epsilon={"a": 1.0, "b": 2.0}))
    assert (step.verdict, step.reason) == (
        "private",
        "each fit spends epsilon=its own for each client, delta=1e-06",
    )
    (step,) = privacy_report(SpikedPCA(1, **MODEL))
    assert "only for data that satisfy the spiked-gaussian" in step.reason
    claimed = SpikedPCA(1, calibration="paper", **MODEL)
    assert "papers' claim" in str(privacy_report(claimed))
    noise = Adam(noise_multiplier=0.1)
    (step,) = privacy_report(DPAdamClassifier(classes=[0, 1], optimizer=noise))
    assert "epsilon=that of noise_multiplier=0.1" in step.reason


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


# -- ids -------------------------------------------------------------------------------

EMBEDDING = DPItemEmbedding(user_feature="user", rating_range=(1, 5))
PASSED = columns([("s", DPPCA(), [1, 2])], remainder="passthrough")


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(PASSED, FIRST),
        make_pipeline(PASSED, NAMED),
        make_pipeline(PASSED, DPItemEmbedding(rating_range=(1, 5))),
        make_pipeline(FeatureUnion([("a", DPPCA())]), FIRST),
        make_pipeline(DPStandardScaler(), Normalizer(), FIRST),
        make_pipeline(DPStandardScaler(), PolynomialFeatures(), NAMED),
        make_pipeline(FILL, FIRST),
        make_pipeline(
            DPItemEmbedding(rating_range=(1, 5)), LRSRegressor(user_feature=1)
        ),
        columns([("site", FederatedDPPCA(client_feature=0), [3, 4])]),
        make_pipeline(columns([("c", FILL, ["user", "x"])]), NAMED),
        make_pipeline(columns([("c", FILL, ["r__user"])]), NAMED),
        make_pipeline(columns([], remainder=FILL), NAMED),
        make_pipeline(
            columns([("u", "passthrough", ["user"])], transformer_weights={"u": 0.0}),
            NAMED,
        ),
        make_pipeline(DPTableVectorizer(), NAMED),
        make_pipeline(clone(EMBEDDING), NAMED),
    ],
)
def test_ids_that_may_be_others_are_flagged(estimator):
    report = privacy_report(estimator)
    assert not report.private
    assert any("may be another column behind" in s.reason for s in report.leaks)


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(DPItemEmbedding(user_feature=2, rating_range=(1, 5)), FIRST),
        make_pipeline(EMBEDDING.set_output(transform="pandas"), NAMED),
        make_pipeline("passthrough", None, FIRST),
        make_pipeline(FunctionTransformer(), FIRST),
        columns([("users", NAMED, ["user", "x"])]),
        # What it protects is a row.
        make_pipeline(DPPCA(), DPTableVectorizer()),
    ],
)
def test_ids_that_stay_as_they_are_are_not_flagged(estimator):
    assert privacy_report(estimator).private, str(privacy_report(estimator))


# -- private searches ------------------------------------------------------------------

PIPELINE = PrivatePipeline([("s", "passthrough"), ("p", DPPCA())])
SCORER = make_private_scorer("captured_variance", clip_norm=1.0)


def search(space, estimator=PIPELINE, **parameters):
    return PrivateSearchCV(estimator, space, **{"scoring": SCORER, **parameters})


LEAKING_PIPELINE = PrivatePipeline([("s", StandardScaler()), ("p", DPPCA())])


def test_candidates_that_leak_are_refused_before_the_charge():
    """A report is on the given estimator: a search itself looks at the candidates."""
    assert not privacy_report(search({}, LEAKING_PIPELINE)).private
    X = np.random.default_rng(0).normal(size=(400, 3))
    for space in (
        {"s": ["passthrough", StandardScaler()]},
        {"p": [make_pipeline(StandardScaler(), DPPCA())]},
        {"p": [LogisticRegression()]},
        {"p__noise_seed": [None, 3]},
        {"p__epsilon": [1.0, None]},
    ):
        searching = search(space, epsilon=20.0)
        assert privacy_report(searching).private
        with refused(None, (TypeError, ValueError)) as accountant, accountant:
            searching.fit(X)


def test_a_private_search_is_reported_with_its_steps():
    report = privacy_report(search({"p__n_components": [1, 2], "s": [None, FILL]}))
    assert [step.verdict for step in report] == ["stateless", *3 * ["private"]]
    assert "a share of the search's budget" in str(report)
    assert list(report)[-1].name == "privatesearchcv"
    whole = make_private_pipeline(DPStandardScaler(), DPPCA())
    assert privacy_report(search({"dppca__n_components": [1, 2]}, whole)).private
    report = privacy_report(make_pipeline(StandardScaler(), search({})))
    assert [step.verdict for step in report][-1] == "LEAKS"


def test_what_a_report_looks_like():
    report = privacy_report(make_pipeline(StandardScaler(), DPPCA()))
    assert (
        str(report).splitlines()[0].startswith("standardscaler  StandardScaler  LEAKS")
    )
    assert report._repr_html_().count("<tr>") == 3
    pipeline = make_pipeline(FILL, DPPCA(1))
    before = str(privacy_report(pipeline))
    pipeline.fit(np.eye(5, 3))
    assert str(privacy_report(pipeline)) == before
