"""Steps whose errors and warnings tell of values before the budget is charged."""

import warnings

import numpy as np
import pytest
from joblib import Memory
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
)
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection

import skdpspectral
from skdpspectral import DPPCA, DPStandardScaler, PrivacyAccountant
from skdpspectral._base import steps as _stateless
from skdpspectral._base import steps as _values
from skdpspectral._base.estimator import PrivateEstimator
from skdpspectral._base.privacy_report import reason_of_splits
from skdpspectral.accounting import PrivacyBudgetError
from skdpspectral.audit import privacy_report
from skdpspectral.mechanisms import Unit

SIGNALING = np.array([0x7FF0000000000001], dtype=np.uint64).view(np.float64)[0]
EXTREMES = [0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, -5e-324, 1e-8, 1e19, 1e200]
EXTREMES += [1.7e308, -1.7e308, np.inf, -np.inf, np.nan, SIGNALING]
KNOTS = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
FILL = FunctionTransformer(np.nan_to_num, kw_args={"nan": 1.0})


def clip(low, high):
    return FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})


@pytest.fixture
def spent(monkeypatch):
    """Refuse every charge, as a ledger whose budget is exhausted."""

    def refuse(*_, **__):
        raise PrivacyBudgetError("refused")

    monkeypatch.setattr(DPPCA, "_start_release", refuse)


def said(pipeline, rows):
    """Return what a fit with an exhausted budget tells of rows."""
    pipeline = clone(pipeline)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            pipeline.fit(rows)
        except Exception as error:
            kind = type(error)
    return kind, [str(one.message) for one in caught]


# Functions and steps, and what must stand before them to be quiet.
LOUD = [
    (FunctionTransformer(np.exp), clip(-5.0, 5.0)),
    (FunctionTransformer(np.sqrt), clip(0.0, 9.0)),
    (FunctionTransformer(np.log), clip(0.5, 9.0)),
    (FunctionTransformer(np.log1p), clip(0.0, 100.0)),
    (FunctionTransformer(np.floor), clip(-100.0, 100.0)),
    (FunctionTransformer(np.positive, validate=True), clip(-100.0, 100.0)),
    (Normalizer(), clip(-100.0, 100.0)),
    (Normalizer("l1"), clip(-1.0, 1.0)),
    (Binarizer(), clip(-100.0, 100.0)),
    (PolynomialFeatures(), clip(-100.0, 100.0)),
    (PolynomialCountSketch(), clip(-100.0, 100.0)),
    (AdditiveChi2Sampler(), clip(0.0, 100.0)),
    (RBFSampler(gamma=1.0), clip(-100.0, 100.0)),
    (SplineTransformer(knots=KNOTS), clip(-100.0, 100.0)),
    (GaussianRandomProjection(2), clip(-100.0, 100.0)),
    (
        OneHotEncoder(categories=2 * [[0.0, 1.0]], handle_unknown="ignore"),
        clip(-100.0, 100.0),
    ),
    (
        SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
        clip(-100.0, 100.0),
    ),
]
DTYPES = [np.float64, np.float32, np.float16]


def tables(dtype):
    """Yield neighboring tables, of which one has an extreme value."""
    with np.errstate(all="ignore"):
        extremes = np.array(EXTREMES).astype(dtype)
    for value in extremes:
        rows = np.full((6, 2), 0.25, dtype=dtype)
        rows[3] = value
        yield rows


@pytest.mark.parametrize(("step", "limit"), LOUD)
def test_steps_that_tell_of_values_before_the_charge(step, limit, spent):
    bare = make_pipeline(step, DPPCA(1))
    first, last = privacy_report(bare)
    assert (first.verdict, last.verdict) == ("LEAKS", "private")
    assert "before the budget is charged" in first.reason
    assert len({str(said(bare, rows)) for rows in tables(np.float64)}) > 1
    for quiet in (make_pipeline(FILL, limit), make_pipeline(limit, FILL)):
        whole = make_pipeline(quiet, step, DPPCA(1))
        assert privacy_report(whole).private, str(privacy_report(whole))
        for dtype in DTYPES:
            outcomes = {str(said(whole, rows)) for rows in tables(dtype)}
            assert len(outcomes) == 1
            assert "PrivacyBudgetError" in outcomes.pop()


@pytest.mark.parametrize(
    ("step", "limit"),
    [
        (FunctionTransformer(np.log), clip(0.0, 1.0)),
        (FunctionTransformer(np.log), clip(1e-9, 1.0)),  # 0 in float16
        (FunctionTransformer(np.sqrt), clip(-1e-9, 1.0)),  # 0 in float16
        (FunctionTransformer(np.sqrt), clip(-1.0, 1.0)),
        (FunctionTransformer(np.exp), clip(0.0, 12.0)),  # infinite in float16
        (PolynomialFeatures(3), clip(-100.0, 100.0)),
        (PolynomialCountSketch(degree=31), clip(-1.0, 1.0)),
        (AdditiveChi2Sampler(), clip(-1.0, 1.0)),
        (Normalizer(), clip(-1e300, 1e300)),
        (Normalizer("l1"), clip(-100.0, 100.0)),  # sums of rows in float16
        (RBFSampler(gamma=1e300), clip(-1.0, 1.0)),
        (FunctionTransformer(np.square), clip(-1e3, 1e3)),
        (HashingVectorizer(), clip(-1.0, 1.0)),
    ],
)
def test_limits_that_are_too_wide(step, limit):
    report = privacy_report(make_pipeline(FILL, limit, step, DPPCA()))
    assert [s.verdict for s in report] == [*2 * ["stateless"], "LEAKS", "private"]


def test_both_fillers_are_needed():
    for one in (FILL, clip(-1.0, 1.0)):
        assert not privacy_report(make_pipeline(one, Normalizer(), DPPCA())).private
    imputer = SimpleImputer(strategy="constant", keep_empty_features=True)
    assert privacy_report(
        make_pipeline(clip(-1.0, 1.0), imputer, Normalizer(), DPPCA())
    ).private


def test_behind_a_charge_a_step_may_refuse_values():
    for step in (Normalizer(), FunctionTransformer(np.exp), HashingVectorizer()):
        assert privacy_report(make_pipeline(DPStandardScaler(), step, DPPCA())).private


def test_every_function_that_is_called_quiet_is():
    for dtype in DTYPES:
        with np.errstate(all="ignore"):
            values = np.tile(np.array(EXTREMES).astype(dtype), 9)
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            for function in (*_values._QUIET, np.nan_to_num):
                function(values)
            np.clip(values, a_min=-1.0, a_max=1.0)
            for function in _values._INCREASING:
                ends = _values.Values(0.5, 1.0, False)
                after = _values._after_increasing(function, ends)
                between = function(np.linspace(0.5, 1.0, 1001).astype(dtype))
                assert after.low <= between.min() + 1e-3
                assert between.max() <= after.high + 1e-3


def test_the_reason_for_a_function_of_ones_own():
    first, _ = privacy_report(make_pipeline(FunctionTransformer(len), DPPCA()))
    assert "may look at other rows" in first.reason
    assert "fitted on private rows" not in first.reason


def test_remedies():
    imputer, _ = privacy_report(make_pipeline(SimpleImputer(), DPPCA()))
    assert "keep_empty_features=True" in imputer.reason
    encoder, _ = privacy_report(make_pipeline(OneHotEncoder(), DPPCA()))
    assert "categories=[...]" in encoder.reason


class OwnSelector(make_column_selector):
    """A selector that may look at values."""


class OwnMemory(Memory):
    """A cache that may keep rows."""


def with_attribute(one, name):
    setattr(one, name, lambda *_: None)
    return one


@pytest.mark.parametrize(
    "estimator",
    [
        ColumnTransformer([("a", DPPCA(), OwnSelector(pattern="x"))]),
        with_attribute(DPPCA(), "fit"),
        make_pipeline(FILL, with_attribute(clip(0.0, 1.0), "transform"), DPPCA()),
        make_pipeline(with_attribute(clone(FILL), "fit_transform"), DPPCA()),
        with_attribute(make_pipeline(DPPCA()), "fit"),
        make_pipeline(DPPCA(), memory=OwnMemory(None)),
        make_pipeline(DPPCA(), memory=object()),
    ],
)
def test_only_exact_types_are_known(estimator):
    assert not privacy_report(estimator).private


def test_known_types_are_accepted():
    for memory in (None, "cache", Memory(None)):
        assert privacy_report(make_pipeline(DPPCA(), memory=memory)).private
    assert reason_of_splits(KFold(2), Unit.ROW, classifier=False) is None
    changed = with_attribute(KFold(2), "split")
    assert reason_of_splits(changed, Unit.ROW, classifier=False) is not None
    public = [getattr(skdpspectral, name) for name in skdpspectral.__all__]
    classes = [cls for cls in public if isinstance(cls, type)]
    private = [cls for cls in classes if issubclass(cls, PrivateEstimator)]
    assert len(private) > 9
    assert all(_stateless.is_known(cls()) for cls in private)
    fitted = DPPCA(1).fit(np.eye(9, 3)).set_output(transform="pandas")
    assert _stateless.is_known(fitted)


def test_a_refused_budget_is_all_that_is_said():
    accountant = PrivacyAccountant(1e-9, 1e-9)
    pipeline = make_pipeline(FILL, clip(0.0, 9.0), FunctionTransformer(np.log1p))
    whole = make_pipeline(pipeline, DPPCA(1, accountant=accountant))
    assert privacy_report(whole).private
    for rows in (np.full((5, 2), np.nan), np.ones((5, 2))):
        assert said(whole, rows) == (PrivacyBudgetError, [])
    assert len(accountant.ledger) == 0
