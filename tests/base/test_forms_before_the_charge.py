"""A fault of public form leaves no entry in the ledger."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from compositions import CLASSIFIERS, ESTIMATORS, LABELS, REGRESSORS, X, Y
from faults import faulty_rows, faulty_targets
from ledger_tools import refused
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    PolynomialFeatures,
)
from sklearn.random_projection import SparseRandomProjection

import skdpspectral as sk
from skdpspectral.accounting import NoisyFitWarning
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.pipeline import PrivatePipeline, make_private_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")

PER_CLIENT = (sk.FederatedDPPCA, sk.SparseDPPCA)


def ids(estimator):
    return type(estimator).__name__


def targets_of(estimator):
    if isinstance(estimator, CLASSIFIERS):
        return LABELS
    return Y if isinstance(estimator, REGRESSORS) else None


def whole(estimator):
    return PrivatePipeline([("step", clone(estimator))])


def behind(estimator):
    steps = [("first", FunctionTransformer()), ("step", clone(estimator))]
    return PrivatePipeline(steps)


def before(estimator):
    """The same as a first step, or behind a scaler if nothing can stand behind it."""
    if hasattr(estimator, "transform"):
        return make_private_pipeline(clone(estimator), sk.DPAdamRegressor(n_epochs=1))
    return make_private_pipeline(sk.DPStandardScaler(), clone(estimator))


def searched(estimator):
    """A search without a vote."""
    grid = {"delta": [1e-6, 1e-7]}
    scoring = None if hasattr(estimator, "score") else _no_score
    return PrivateSearchCV(
        clone(estimator), grid, epsilon=1.0, n_blocks=2, scoring=scoring
    )


def searched_behind(estimator):
    model = PrivatePipeline([("first", Normalizer()), ("step", clone(estimator))])
    return PrivateSearchCV(model, {}, epsilon=1.0, n_blocks=2, scoring=_no_score)


def passed_on(estimator):
    """Behind columns that pass on what they do not name."""
    columns = ColumnTransformer(
        [("first", Normalizer(), [0, 1])], remainder="passthrough", sparse_threshold=0
    )
    return make_private_pipeline(columns, clone(estimator))


def _no_score(model, X, y=None):
    return 0.0


def in_columns(estimator):
    columns = [("all", clone(estimator), list(range(X.shape[1])))]
    return make_private_pipeline(ColumnTransformer(columns))


WAYS = {
    "alone": clone,
    "ordinary": lambda estimator: Pipeline([("step", clone(estimator))]),
    "private": whole,
    "behind": behind,
    "before": before,
    "columns": in_columns,
    "search": searched,
    "search behind": searched_behind,
    "passed on": passed_on,
}
CASES = [
    (way, estimator)
    for way in WAYS
    for estimator in ESTIMATORS
    if way in ("alone", "ordinary") or not isinstance(estimator, PER_CLIENT)
    if way != "columns" or hasattr(estimator, "transform")
]


def faults_of(way, estimator):
    """Yield tables and targets, of which one has a fault."""
    y = targets_of(estimator)
    if way == "before" and hasattr(estimator, "transform"):
        y = Y
    for name, rows in faulty_rows(X):
        yield f"X: {name}", rows, y
    if y is not None:
        for name, targets in faulty_targets(np.asarray(y, dtype=float)):
            yield f"y: {name}", X, targets


def entries_of_a_failed_fit(model, rows, y):
    """Return the entries of a fit that raises; None if it accepts its data."""
    accountant = sk.PrivacyAccountant()
    with accountant, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(rows) if y is None else model.fit(rows, y)
        except Exception:
            return len(accountant.ledger)
    return None


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("way", "estimator"), CASES, ids=str)
def test_a_fault_of_form_leaves_no_entry(way, estimator):
    charged, refused = [], 0
    for name, rows, y in faults_of(way, estimator):
        entries = entries_of_a_failed_fit(WAYS[way](estimator), rows, y)
        refused += entries is not None
        if entries:
            charged.append(name)
    assert not charged
    assert refused > 5


DASK_STEPS = [
    e for e in ESTIMATORS if isinstance(e, (sk.DPTableVectorizer, sk.LRSMLPRegressor))
]


@pytest.mark.parametrize("estimator", DASK_STEPS, ids=ids)
@pytest.mark.parametrize("way", ["alone", "ordinary", "private", "behind"])
def test_steps_that_read_no_dask_say_so_before_the_charge(way, estimator):
    frame, array = (
        pytest.importorskip("dask.dataframe"),
        pytest.importorskip("dask.array"),
    )
    whole = pd.DataFrame({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": Y})
    table = frame.from_pandas(whole, npartitions=3)
    names = [f"x{j}" for j in range(X.shape[1])]
    for rows, y in (
        (table[names], table["y"]),
        (array.from_array(X, chunks=(40, X.shape[1])), array.from_array(Y, chunks=40)),
    ):
        with (
            refused(
                r"use X.compute\(\)|pass X.compute\(\)", (TypeError, ValueError)
            ) as accountant,
            accountant,
        ):
            WAYS[way](estimator).fit(rows, y)


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if not isinstance(e, PER_CLIENT)], ids=ids
)
def test_a_search_takes_no_dask(estimator):
    frame, array = (
        pytest.importorskip("dask.dataframe"),
        pytest.importorskip("dask.array"),
    )
    rows = array.from_array(X, chunks=(40, X.shape[1]))
    for given in (rows, frame.from_dask_array(rows)):
        with refused(r"pass X.compute\(\)", TypeError) as accountant, accountant:
            searched(estimator).fit(given, targets_of(estimator))


@pytest.mark.parametrize("rows", [X.tolist(), [[*map(str, row)] for row in X]])
@pytest.mark.parametrize(
    "last", [sk.DPStandardScaler(unseen="keep"), sk.DPAdamRegressor()]
)
def test_lists_through_a_vectorizer(rows, last):
    """Lists are fitted; parameters that the last step requires are checked first."""
    model = make_private_pipeline(sk.DPTableVectorizer(), clone(last))
    with sk.PrivacyAccountant() as accountant:
        if isinstance(last, sk.DPAdamRegressor):
            with pytest.raises(ValueError, match="target_bounds is required: pass"):
                model.fit(rows, Y)
            assert accountant.ledger == ()
            model.set_params(dpadamregressor__target_bounds=(-1, 1))
        model.fit(rows, Y.tolist())
    assert len(accountant.ledger) == 1


FRAME_STEPS = {
    "normalizer": Normalizer(),
    "binarizer": Binarizer(),
    "function": FunctionTransformer(np.nan_to_num),
    "passed on": ColumnTransformer(
        [("a", Normalizer(), [0])], remainder="passthrough", sparse_threshold=0
    ),
    "products": PolynomialFeatures(2),
    "projection": SparseRandomProjection(3),
    "nested": make_pipeline(Normalizer(), Binarizer()),
    "union": FeatureUnion([("a", Normalizer()), ("b", sk.DPStandardScaler())]),
    "columns": ColumnTransformer(
        [("a", Normalizer(), [2]), ("b", sk.DPPCA(1), [3, 4])], sparse_threshold=0
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FRAME_STEPS)
def test_faults_of_steps_without_noise_leave_none(name):
    charged = []
    for fault, rows in faulty_rows(X):
        model = make_private_pipeline(clone(FRAME_STEPS[name]), sk.DPStandardScaler())
        if entries_of_a_failed_fit(model, rows, None):
            charged.append(fault)
    assert not charged


def some(step, columns):
    return ColumnTransformer([("a", step, columns)], sparse_threshold=0)


def beside_private(column):
    parts = [("a", sk.DPStandardScaler(), ["number"]), ("b", "passthrough", [column])]
    return ColumnTransformer(parts, sparse_threshold=0)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (some("passthrough", ["text"]), "has dtype|dates or"),
        (some("passthrough", ["number", "day"]), "has dtype|dates or"),
        (some(FunctionTransformer(np.nan_to_num), ["text"]), "has dtype|dates or"),
        (some(FunctionTransformer(np.nan_to_num), ["count"]), None),
        (some(FunctionTransformer(np.nan_to_num), ["number"]), None),
        (FunctionTransformer(np.nan_to_num), "has dtype|dates or"),
        (beside_private("text"), "has dtype|dates or"),
        (beside_private("day"), "dates or durations"),
        (beside_private("count"), None),
    ],
)
def test_steps_without_noise_get_numbers_and_pass_on_numbers(step, said):
    rows = pd.DataFrame(
        {
            "text": pd.Series(["a", "b"] * 60, dtype="string"),
            "number": np.ones(120),
            "count": pd.Series([1, 2] * 60, dtype=object),
            "day": pd.Series(["2024-01-01"] * 120, dtype="datetime64[ns, UTC]"),
        }
    )
    for model in (
        make_private_pipeline(clone(step), sk.DPStandardScaler()),
        PrivateSearchCV(
            make_private_pipeline(clone(step), sk.DPStandardScaler()),
            {},
            scoring=_no_score,
        ),
    ):
        with sk.PrivacyAccountant() as accountant:
            if said is None:
                model.fit(rows)
            else:
                with pytest.raises(ValueError, match=said):
                    model.fit(rows)
        assert len(accountant.ledger) == (said is None)


@pytest.mark.parametrize(
    ("classes", "y"),
    [
        ([0, 1], np.where(LABELS, "b", "a")),
        (["a", "b"], LABELS),
        (["a", "b"], pl.Series(LABELS == 1)),
        (["a", "b"], pd.Series(LABELS, dtype="Int64")),
        (["a", "b"], pd.Series(pd.Categorical(LABELS))),
        (["a", "b"], pa.array(LABELS)),
        (["a", "b"], pa.array(LABELS).dictionary_encode()),
        ([0, 1], pa.array([b"a", b"b"] * (len(LABELS) // 2))),
    ],
)
def test_labels_of_another_kind_than_the_classes(classes, y):
    model = sk.DPAdamClassifier(classes=classes, n_epochs=1)
    for one in (model, make_private_pipeline(sk.DPStandardScaler(), model)):
        with refused("none of the classes") as accountant, accountant:
            one.fit(X, y)


def test_text_of_numpy_has_labels_too():
    text = np.where(LABELS, "b", "a")
    labels = text.astype(np.dtypes.StringDType())
    model = sk.DPRidgeClassifier(classes=["a", "b"], noise_seed=0)
    fits = [clone(model).fit(X, given) for given in (text, labels)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_arrays_of_a_step_have_no_names_of_columns(output):
    rows = pd.DataFrame({"user_id": np.arange(120) % 12, "item_id": np.arange(120) % 5})
    embedding = sk.DPItemEmbedding(items=range(5), n_components=1, rating_range=(0, 1))
    model = make_private_pipeline(
        embedding.set_output(transform=output), sk.LRSRegressor(user_feature="user_id")
    )
    with sk.PrivacyAccountant() as accountant:
        if output == "default":
            with pytest.raises(ValueError, match="may be another column"):
                model.fit(rows, np.ones(120))
        else:
            model.fit(rows, np.ones(120))
    assert len(accountant.ledger) == (output == "pandas")


def test_nothing_is_scored_without_a_vote():
    def scorer(model, X, y=None):
        raise AssertionError

    search = PrivateSearchCV(
        sk.DPStandardScaler(), {"delta": [1e-6, 1e-7]}, epsilon=1.0, scoring=scorer
    )
    with pytest.warns(NoisyFitWarning):
        assert search.fit(X).n_blocks_ == 0
