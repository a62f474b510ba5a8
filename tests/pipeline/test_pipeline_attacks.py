"""Threads, forks, changes and crashes while a private pipeline is fitted.

Whatever does, nothing is released beyond what was charged.
"""

import os
import pickle
import traceback
import warnings

import numpy as np
import polars as pl
import pytest
from ledger_tools import refused
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures

import skdpspectral
from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPStandardScaler,
    DPTableVectorizer,
    PrivacyAccountant,
)
from skdpspectral.accounting import gaussian_mu
from skdpspectral.audit import audit_in_few_fits, pairs_of_features
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.pipeline import PrivatePipeline, make_private_pipeline

needs_callbacks = pytest.mark.skipif(
    not hasattr(PrivatePipeline, "set_callbacks"),
    reason="scikit-learn has no callbacks",
)

N = 300
X = np.random.default_rng(0).normal(size=(N, 4))
MU = gaussian_mu(1.0, 1e-6)


class Meddling(TransformerMixin, BaseEstimator):
    """A step of somebody's own that calls a function when it is fitted."""

    def __init__(self, meddle=None):
        self.meddle = meddle

    def __deepcopy__(self, memo):
        return type(self)(self.meddle)

    def fit(self, X, y=None):
        self.done_ = self.meddle(self)
        return self

    def transform(self, X):
        return X


def meddled(meddle, *steps, **params):
    """Return a pipeline whose second step calls a function."""
    first, *others = steps or (DPStandardScaler(), DPPCA(2))
    named = [(type(s).__name__.lower(), s) for s in others]
    steps = [("first", first), ("meddling", Function(meddle)), *named]
    return PrivatePipeline(steps, **params)


class Function(Meddling):
    """The same, whose function is not copied."""

    def __sklearn_clone__(self):
        return type(self)(self.meddle)


class Spy:
    """Remembers the pipeline that is being fitted, by its steps' clones."""

    def __init__(self, monkeypatch):
        self.steps = {}
        real = skdpspectral.accounting._ledger.planned_fits.StepShare.claim
        spy = self

        def claim(share, plan, n_public):
            spy.steps[share.path] = share
            return real(share, plan, n_public)

        monkeypatch.setattr(
            skdpspectral.accounting._ledger.planned_fits.StepShare, "claim", claim
        )


def charged(model, *args, error=None, match=None):
    """Fit under a ledger, and return its entries."""
    with PrivacyAccountant() as accountant:
        if error is None:
            model.fit(*args)
        else:
            with pytest.raises(error, match=match):
                model.fit(*args)
    return accountant.ledger


def working_step(model, name, changes):
    """Return a pipeline in which a step of the running fit is changed."""
    found = {}

    class Changed(type(dict(model.steps)[name])):
        def fit(self, X, y=None):
            for key, value in changes.items():
                setattr(self, key, value)
            return super().fit(X)

    Changed.__module__ = "skdpspectral.changed"
    step = dict(model.steps)[name]
    changed = Changed(**step.get_params(deep=False))
    found[name] = changed
    steps = [(n, found.get(n, s)) for n, s in model.steps]
    return PrivatePipeline(steps, epsilon=model.epsilon)


BASE = PrivatePipeline([("scaler", DPStandardScaler()), ("pca", DPPCA(2))])


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("pca", {"noise_seed": 0}, "seeded=True instead of False"),
        ("scaler", {"noise_seed": 1}, "seeded=True instead of False"),
    ],
)
@pytest.mark.usefixtures("own_code")
def test_a_step_that_changes_in_the_fit_releases_nothing(name, changes, words):
    model = working_step(BASE, name, changes)
    assert not charged(model, X, error=RuntimeError, match=words)


@pytest.mark.usefixtures("own_code")
def test_a_step_cannot_be_fitted_twice():
    class Twice(DPPCA):
        def fit(self, X, y=None):
            super().fit(X)
            return super().fit(X)

    Twice.__module__ = "skdpspectral.twice"
    model = make_private_pipeline(DPStandardScaler(), Twice(2))
    charged(model, X, error=RuntimeError, match="'twice' is fitted a second time")


def test_a_share_is_over_with_the_fit(monkeypatch):
    spy = Spy(monkeypatch)
    model = make_private_pipeline(DPStandardScaler(), DPPCA(2)).fit(X)
    share = spy.steps["dppca"]
    assert not share.is_open
    # A fitted step is an estimator like others again.
    (entry,) = charged(model["dppca"], X)
    assert (entry.estimator, entry.epsilon) == ("DPPCA", pytest.approx(1.0))
    with pytest.raises(RuntimeError, match="a second time"):
        share.claim(share.plan, N)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("own_code")
def test_a_forked_child_releases_nothing():
    """A child that goes on with the fit would release a second time."""

    def meddle(step):
        child = os.fork()
        parent = os.getpid()
        return (child, parent)

    model = meddled(meddle, epsilon=1.0)
    read, write = os.pipe()
    before = os.getpid()
    try:
        model.fit(X)
        said = b"fitted"
    except RuntimeError as error:
        said = str(error).encode()
    if os.getpid() != before:
        os.write(write, said)
        os._exit(0)
    os.close(write)
    assert b"fitted in a different process" in os.read(read, 4096)
    os.waitpid(model["meddling"].done_[0], 0)
    os.close(read)
    assert model.privacy_.mu == pytest.approx(MU, rel=1e-9)


class Sampler(Function):
    """A step that drops rows."""

    def transform(self, X):
        return X[: N // 2]


@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize("batch_size", [N, 30])
def test_a_step_that_drops_rows_is_found_out(batch_size):
    classifier = DPAdamClassifier(classes=[False, True], batch_size=batch_size)
    model = PrivatePipeline(
        [
            ("scaler", DPStandardScaler()),
            ("drop", Sampler(lambda step: None)),
            ("pca", DPPCA(2)),
            ("model", classifier),
        ]
    )
    words = r"'pca' would release something other.*150 rows, but the pipeline has 300"
    charged(model, X, X[:, 0] > 0, error=RuntimeError, match=words)


def test_a_step_that_no_columns_are_left_for_releases_nothing():
    """Behind a step of unknown width that is known no earlier than in the fit."""
    parts = [("none", DPStandardScaler(), []), ("some", DPPCA(1), [0, 1])]
    columns = ColumnTransformer(parts, remainder=DPPCA(1), sparse_threshold=0)
    with PrivacyAccountant() as accountant:
        model = make_private_pipeline(DPTableVectorizer(), columns).fit(X)
    assert len(accountant.ledger) == 1
    assert model.privacy_.mu < MU
    said = "columntransformer__none got no columns, and released nothing."
    assert said in model.privacy_.details()


def test_a_pipeline_is_audited_by_its_steps():
    model = make_private_pipeline(DPPCA(1))
    with pytest.raises(TypeError, match="audit each of them"):
        audit_in_few_fits(model, pairs_of_features(3))


def test_branches_are_fitted_in_this_process():
    from joblib import parallel_config

    union = FeatureUnion([("a", DPPCA(1)), ("b", DPPCA(2))], n_jobs=2)
    chosen = ColumnTransformer(
        [("a", DPStandardScaler(), [0]), ("b", DPStandardScaler(), [1])], n_jobs=2
    )
    with parallel_config(backend="loky"), PrivacyAccountant() as accountant:
        model = make_private_pipeline(chosen, union).fit(X)
    assert len(accountant.ledger) == 1
    assert model.privacy_.mu == pytest.approx(MU, rel=1e-9)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_numpy_tells_of_no_value_in_a_branch(n_jobs):
    large = np.abs(X) + 1.0
    large[5, 0] = 1e300
    squares = make_pipeline(
        PolynomialFeatures(2), FunctionTransformer(np.nan_to_num), DPPCA(1)
    )
    parts = [("a", squares, [0, 1]), ("b", DPPCA(1), [2, 3])]
    columns = ColumnTransformer(parts, n_jobs=n_jobs, sparse_threshold=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        make_private_pipeline(columns).fit(large)


@pytest.mark.parametrize(
    ("step", "error"),
    [(Normalizer(), "ValueError"), (PolynomialFeatures(2), "ValueError")],
)
@pytest.mark.parametrize("nested", [False, True])
def test_errors_of_other_steps_quote_no_value(step, error, nested):
    """scikit-learn's say "could not convert string to float: 'Smith'"."""
    rows = X.astype(object)
    rows[3, 2] = "Smith"
    if nested:
        step = ColumnTransformer([("a", step, [1, 2])], sparse_threshold=0)
    words = rf"raised {error}; its message is not shown.*this fit stays charged"
    with PrivacyAccountant(), pytest.raises(ValueError, match=words) as caught:
        make_private_pipeline(step, DPPCA(1)).fit(rows)
    assert caught.value.__context__ is None
    assert "Smith" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ValueError, match=r"^X: could not convert a string"):
        make_private_pipeline(DPStandardScaler(), DPPCA(1)).fit(rows)


def test_fitted_steps_that_are_fitted_again_are_charged():
    accountant = PrivacyAccountant()
    columns = ColumnTransformer([("a", DPStandardScaler(), [0])], sparse_threshold=0)
    model = make_private_pipeline(columns, DPPCA(1), accountant=accountant).fit(X)
    assert len(accountant.ledger) == 1
    model[:-1].fit(X)
    clone(model["dppca"]).fit(X)
    model["columntransformer"].named_transformers_["a"].fit(X)
    assert [e.estimator for e in accountant.ledger[1:]] == [
        "DPStandardScaler",
        "DPPCA",
        "DPStandardScaler",
    ]
    published = model.publish()
    assert published["dppca"].accountant is None
    assert accountant.path.encode() not in pickle.dumps(published)


@needs_callbacks
def test_callbacks_get_no_rows():
    class Listening:
        """A callback that keeps what it is given."""

        max_estimator_depth = None

        def __init__(self):
            self.kept, self.fitted = [], []

        def setup(self, estimator, context):
            self.kept.append((estimator, {}))

        def on_fit_task_begin(self, estimator, context, **data):
            self.kept.append((estimator, data))

        def on_fit_task_end(self, estimator, context, **data):
            self.kept.append((estimator, data))
            return True

        def teardown(self, estimator, context):
            self.kept.append((estimator, {}))

    listening = Listening()
    classifier = DPAdamClassifier(
        classes=[False, True], batch_size=N, n_epochs=3
    ).set_callbacks(listening)
    y = X[:, 0] > 0
    model = make_private_pipeline(DPStandardScaler(), classifier)
    model.set_callbacks(listening).fit(X, y)
    kinds = {type(estimator) for estimator, _ in listening.kept}
    assert kinds == {PrivatePipeline, DPAdamClassifier}
    assert model[-1].n_iter_ == 3
    for estimator, data in listening.kept:
        assert not any(value is not None for value in data.values())
        assert not hasattr(estimator, "weights_")
        assert not hasattr(estimator, "pipeline_")


def test_what_is_shown_has_no_rows():
    secret = X.copy()
    secret[0] = 12345.678
    accountant = PrivacyAccountant()
    model = make_private_pipeline(
        DPStandardScaler(), DPPCA(2), accountant=accountant
    ).fit(secret)
    shown = repr(model) + str(model.privacy_) + model.privacy_.to_json()
    assert "12345" not in shown
    assert np.float64(12345.678).tobytes() not in pickle.dumps(model)


@pytest.mark.parametrize("dtype", [pl.UInt8, pl.Boolean, pl.Int64])
def test_a_missing_integer_changes_no_other_row(dtype):
    """With one, small integers would be float32, and others' products round so."""
    rows = pl.DataFrame(X[:, :2] > 0.0).cast(dtype)
    parts = ColumnTransformer([("a", Normalizer(), [0])], sparse_threshold=0)
    fill = make_pipeline(FunctionTransformer(np.nan_to_num), Normalizer())
    for step in (parts, PolynomialFeatures(2), fill):
        for model in (
            make_private_pipeline(step, DPPCA(1)),
            PrivateSearchCV(
                make_private_pipeline("passthrough", DPPCA(1)),
                {"passthrough": ["passthrough", step]},
                scoring=lambda *_: 0.0,
            ),
        ):
            with refused("convert them to float64 first") as accountant, accountant:
                model.fit(rows)
    make_private_pipeline(Normalizer(), DPPCA(1)).fit(rows.cast(pl.Float64))


@pytest.mark.parametrize("row", [0, 7])
def test_a_nested_entry_of_a_list_is_found_after_the_charge(row):
    rows = np.random.default_rng(0).normal(size=(100, 3)).tolist()
    rows[row][1] = [1.0]
    accountant = PrivacyAccountant()
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1), accountant=accountant)
    with pytest.raises(ValueError, match="stays charged"):
        model.fit(rows)
    assert len(accountant.ledger) == 1
