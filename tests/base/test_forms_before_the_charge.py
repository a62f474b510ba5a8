"""A fault of public form leaves no entry in the ledger."""

import warnings

import numpy as np
import pytest
from compositions import CLASSIFIERS, ESTIMATORS, LABELS, REGRESSORS, X, Y
from faults import faulty_rows, faulty_targets
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
)

from skdpspectral import (
    DPAdamClassifier,
    DPAdamRegressor,
    DPStandardScaler,
    FederatedDPPCA,
    PrivacyAccountant,
    SparseDPPCA,
)
from skdpspectral.pipeline import PrivatePipeline, make_private_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")

PER_CLIENT = (FederatedDPPCA, SparseDPPCA)


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
        return make_private_pipeline(clone(estimator), DPAdamRegressor(n_epochs=1))
    return make_private_pipeline(DPStandardScaler(), clone(estimator), on_leak="warn")


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
    accountant = PrivacyAccountant()
    with accountant, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(rows) if y is None else model.fit(rows, y)
        except Exception:
            return len(accountant.ledger)
    return None


# Ratings may be read from texts.
BY_VALUES = {"DPMatrixFactorization": {"X: texts", "X: bytes"}}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("way", "estimator"), CASES, ids=str)
def test_a_fault_of_form_leaves_no_entry(way, estimator):
    charged, refused = [], 0
    for name, rows, y in faults_of(way, estimator):
        entries = entries_of_a_failed_fit(WAYS[way](estimator), rows, y)
        refused += entries is not None
        if entries:
            charged.append(name)
    assert set(charged) <= BY_VALUES.get(type(estimator).__name__, set())
    assert refused > 5


FRAME_STEPS = {
    "normalizer": Normalizer(),
    "binarizer": Binarizer(),
    "function": FunctionTransformer(np.log1p),
    "encoder": OneHotEncoder(
        categories=[["a"]], handle_unknown="ignore", sparse_output=False
    ),
}


@pytest.mark.parametrize("name", FRAME_STEPS)
def test_faults_of_steps_without_noise_leave_none(name):
    charged = []
    for fault, rows in faulty_rows(X):
        model = make_private_pipeline(clone(FRAME_STEPS[name]), DPStandardScaler())
        if entries_of_a_failed_fit(model, rows, None):
            charged.append(fault)
    assert not charged


@pytest.mark.parametrize(
    ("classes", "y"),
    [([0, 1], np.where(LABELS, "b", "a")), (["a", "b"], LABELS)],
)
def test_labels_of_another_kind_than_the_classes(classes, y):
    model = DPAdamClassifier(classes=classes, n_epochs=1)
    for one in (model, make_private_pipeline(DPStandardScaler(), model)):
        with (
            PrivacyAccountant() as accountant,
            pytest.raises(ValueError, match="none of the classes"),
        ):
            one.fit(X, y)
        assert accountant.ledger == ()
