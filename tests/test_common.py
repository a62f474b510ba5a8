"""scikit-learn's own checks, for every estimator and its settings."""

import os
import re
import traceback
from dataclasses import replace
from itertools import pairwise
from unittest import SkipTest

import numpy as np
import pytest
from estimators import ENTRIES
from old_checks import mend_checks
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import skdpspectral
from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPAdamRegressor,
    DPCovariance,
    DPItemEmbedding,
    DPMatrixFactorization,
    DPRidge,
    DPRidgeClassifier,
    DPStandardScaler,
    DPTableVectorizer,
    FederatedDPPCA,
    JMECovariance,
    LRSMLPRegressor,
    LRSRegressor,
    PrivacyAccountant,
    SparseDPPCA,
    SpikedPCA,
)
from skdpspectral.covariance import BISR, Exponential, JointMoments, Window
from skdpspectral.decomposition import SpikedModel
from skdpspectral.linear_model import Alternation, PrivateRounds, UserIntercept
from skdpspectral.mechanisms import ParallelPlan
from skdpspectral.neural_network import Adam

mend_checks()
# A signal so strong that the model's bound holds for the few rows of the checks.
SPIKED = SpikedModel(signal_variance=1e6, noise_variance=1.0)
PAPER = SpikedModel(1e6, 1.0, release="covariance", calibration="paper")
FEW_STEPS = {"n_rounds": 3, "n_own_steps": 5}
ESTIMATORS = [
    DPPCA(),
    DPPCA(1),
    DPPCA(1, center="pairs"),
    DPPCA(1, center="none"),
    DPPCA(1, bounds=(-10, 10)),
    DPPCA(1, bounds=(-10, 10), center="none"),
    DPPCA(1, bounds=(-10, 10), scale="bounds"),
    DPPCA(1, epsilon=1000.0),
    DPPCA(1, epsilon=None),
    DPPCA(1, epsilon=1e-3, delta=1e-12),
    DPPCA(1, accountant=PrivacyAccountant()),
    DPPCA("auto"),
    SpikedPCA(1, signal_variance=1e6, noise_variance=1.0),
    SpikedPCA(
        1,
        signal_variance=[1e6],
        noise_variance=1.0,
        calibration="paper",
        release="covariance",
    ),
    DPCovariance(),
    DPCovariance(epsilon=None),
    DPCovariance(center="pairs"),
    DPCovariance(center="none", bounds=(-10, 10)),
    DPCovariance(epsilon=100.0, accountant=PrivacyAccountant()),
    DPStandardScaler(),
    DPStandardScaler(epsilon=1000.0),
    DPStandardScaler(epsilon=None),
    DPStandardScaler(epsilon=1e-3, delta=1e-12, unseen="keep"),
    DPStandardScaler(epsilon=1000.0, with_mean=False),
    DPStandardScaler(bounds=(-10, 10), epsilon=1000.0, unseen="keep"),
    DPStandardScaler(missing="mean"),
    DPStandardScaler(missing="mean", epsilon=1000.0, bounds=(-10, 10)),
    DPStandardScaler(accountant=PrivacyAccountant()),
    DPTableVectorizer(),
    DPTableVectorizer(epsilon=None),
    DPTableVectorizer(epsilon=1000.0, categories={0: "find"}),
    DPTableVectorizer(categories={-1: [0, 1]}),
    DPTableVectorizer(accountant=PrivacyAccountant()),
    DPAdamClassifier(),
    DPAdamClassifier(epsilon=None),
    DPAdamClassifier(4, optimizer=Adam(moments="pp-debiased"), n_epochs=3),
    DPAdamClassifier((3, 4), optimizer=Adam(moments="jme"), batch_size=8, n_epochs=2),
    DPAdamClassifier(optimizer=Adam(sampling="in-turn", moments="jme"), n_epochs=1),
    DPAdamClassifier(optimizer=Adam(neighbors="zero-out-one"), batch_size=4),
    DPAdamClassifier(
        optimizer=Adam(noise_multiplier=2.0), accountant=PrivacyAccountant()
    ),
    DPAdamRegressor(target_bounds=(-1, 1)),
    DPAdamRegressor(5, epsilon=None, target_bounds=(-100, 100)),
    DPAdamRegressor(
        target_bounds=(-1, 1),
        optimizer=Adam(sampling="in-turn"),
        accountant=PrivacyAccountant(),
    ),
    DPRidge(),
    DPRidge(epsilon=1000.0),
    DPRidge(1.0, epsilon=None),
    DPRidge(0.0, epsilon=1000.0, bounds=(-10, 10), target_bounds=(-100, 100)),
    DPRidge(bounds=(-10, 10), accountant=PrivacyAccountant()),
    DPRidgeClassifier(),
    DPRidgeClassifier(epsilon=1000.0, bounds=(-10, 10)),
    DPRidgeClassifier(1.0, epsilon=None),
    DPRidgeClassifier(accountant=PrivacyAccountant()),
    LRSMLPRegressor(**FEW_STEPS),
    LRSMLPRegressor(epsilon=None, **FEW_STEPS, hidden_layer_sizes=(3, 2)),
    LRSMLPRegressor(3, user_feature=0, neighbors="replace-one", **FEW_STEPS),
    LRSMLPRegressor(0, None, user_feature=-1, **FEW_STEPS),
    LRSMLPRegressor(
        sparsity=0,
        shared_weights="fixed",
        prompt_size=2,
        fit_intercept=False,
        **FEW_STEPS,
        accountant=PrivacyAccountant(),
    ),
    LRSRegressor(),
    LRSRegressor(epsilon=None),
    LRSRegressor(2, epsilon=None, solver=Alternation(max_iter=20)),
    LRSRegressor(user_feature=0),
    LRSRegressor(user_feature=-1, epsilon=None),
    LRSRegressor(0, epsilon=None, scale=False),
    LRSRegressor(n_components=0),
    LRSRegressor(n_components=3),
    LRSRegressor(sparsity=0),
    LRSRegressor(
        0, None, user_feature=0, fit_intercept=UserIntercept(prior=3.0, ridge=5.0)
    ),
    LRSRegressor(0, None, fit_intercept=UserIntercept(offset_feature=-1)),
    LRSRegressor(shared_weights="fixed"),
    LRSRegressor(fit_intercept=False, neighbors="replace-one"),
    LRSRegressor(solver=PrivateRounds(curvature_clip_norm=1.0, gradient_clip_norm=1.0)),
    LRSRegressor(accountant=PrivacyAccountant()),
    DPItemEmbedding(items=range(8), rating_range=(1, 5)),
    DPItemEmbedding(items=range(8), epsilon=None, rating_range=(1, 5)),
    DPItemEmbedding(
        2, items=[0, 1, 2], item_features=[[0.0], [1.0], [2.0]], rating_range=(1, 5)
    ),
    DPItemEmbedding(0, items=range(8), rating_range=(1, 5)),
    DPItemEmbedding(2, items=range(8), method="residuals", rating_range=(1, 5)),
    DPItemEmbedding(
        items=range(8), accountant=PrivacyAccountant(), rating_range=(1, 5)
    ),
    DPMatrixFactorization(items=range(8), rating_range=(1, 5)),
    DPMatrixFactorization(items=range(8), epsilon=None, rating_range=(1, 5)),
    DPMatrixFactorization(
        2, items=[0, 1, 2], item_features=[[0.0], [1.0], [2.0]], rating_range=(1, 5)
    ),
    DPMatrixFactorization(
        0, items=range(8), accountant=PrivacyAccountant(), rating_range=(1, 5)
    ),
    DPMatrixFactorization(2, items=range(8), implicit=True),
    JMECovariance(),
    JMECovariance(epsilon=None),
    JMECovariance(horizon=1000),
    JMECovariance(workload=Exponential(0.9), moments=JointMoments(0.1)),
    JMECovariance(workload=Window(5)),
    JMECovariance(workload="prefix", factorization="sqrt"),
    JMECovariance(factorization=BISR(16), moments="assume-centered"),
    JMECovariance(horizon=1000, accountant=PrivacyAccountant()),
    FederatedDPPCA(),
    FederatedDPPCA(1, client_feature=0),
    FederatedDPPCA(1, client_feature=-1, aggregation="matrix"),
    FederatedDPPCA(1, bounds=(-10, 10)),
    FederatedDPPCA(1, bounds=(-10, 10), client_feature=0, center="shared"),
    FederatedDPPCA(1, weights="equal"),
    FederatedDPPCA(1, epsilon=None, client_feature=0),
    FederatedDPPCA(1, accountant=PrivacyAccountant()),
    FederatedDPPCA(1, bounds=(-10, 10), projection_norm=5.0),
    FederatedDPPCA(1, mechanism=SPIKED),
    FederatedDPPCA(1, mechanism=PAPER, aggregation="matrix"),
    FederatedDPPCA(1, aggregation="matrix"),
    FederatedDPPCA(
        1,
        projection_norm=5.0,
        client_feature=-1,
    ),
    SparseDPPCA(),
    SparseDPPCA(client_feature=0),
    SparseDPPCA(epsilon=None, n_rounds=10, n_nonzero_features=1),
    SparseDPPCA(n_nonzero_features=1, bounds=(-10, 10), client_feature=0),
    SparseDPPCA(weights="equal", accountant=PrivacyAccountant()),
]
# An estimator without settings of its own is checked as the registry has it.
ESTIMATORS += [
    entry.make()
    for entry in ENTRIES.values()
    if type(entry.estimator) not in map(type, ESTIMATORS)
]
# Few rows: ranks, and windows of octaves.
ESTIMATORS += [
    DPPCA(1, scale="ranks"),
    DPPCA("auto", scale="ranks", bounds=(-10, 10)),
    DPStandardScaler(with_mean=False),
    DPStandardScaler(with_mean=False, epsilon=10.0, bounds=(-10, 10)),
]

# The parameter has not the name that scikit-learn's tools write seeds into.
SEEDED = [clone(estimator).set_params(noise_seed=0) for estimator in ESTIMATORS]
FIRST_OF_EACH = list({type(e): e for e in reversed(SEEDED)}.values())
# These compare two fits of the same rows, whose noise differs but for a seed.
COMPARE_FITS = {
    "check_classifier_data_not_an_array",
    "check_fit_idempotent",
    "check_regressor_data_not_an_array",
    "check_regressors_int",
    "check_supervised_y_2d",
}
HONEST = (
    "skdpspectral.PrivacyLeakWarning",
    "skdpspectral.NoisyFitWarning",
    "UserWarning:X has no columns user_id",
    "UserWarning:columns of X besides users and items",
)


def allow_warnings(test, *more):
    """Let honest warnings on the data of a check pass, as scikit-learn's tests do."""
    for category, _, message in (w.partition(":") for w in (*HONEST, *more)):
        test = pytest.mark.filterwarnings(f"ignore:{message}:{category}")(test)
    return test


def allow_warnings_of_checks(test):
    """A skipped check warns on some versions too; it is no failure."""
    skipped, unfinished = "SkipTestWarning", "ConvergenceWarning"
    prefix = "sklearn.exceptions."
    return allow_warnings(test, prefix + skipped, prefix + unfinished)


@parametrize_with_checks(FIRST_OF_EACH)
@allow_warnings_of_checks
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize(
    "estimator", [e for e in SEEDED if e not in FIRST_OF_EACH], ids=str
)
@allow_warnings_of_checks
def test_estimator_checks_of_settings(estimator):
    """All checks of one setting: a test each takes twice as long."""
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["exception"]}
    for name, error in failed.items():
        if not isinstance(error, SkipTest):
            print(name, *traceback.format_exception(error), sep="\n")
    assert all(isinstance(error, SkipTest) for error in failed.values()), list(failed)
    assert len(results) > 30


@pytest.mark.slow
@pytest.mark.parametrize("cls", sorted({type(e) for e in ESTIMATORS}, key=str))
@pytest.mark.filterwarnings("ignore")
def test_checks_with_fresh_noise(cls):
    # Public ranges and catalogs have no default.
    required = {"rating_range": (1, 5), "target_bounds": (-1, 1), "items": range(8)}
    names = required.keys() & {*cls().get_params()}
    if cls is not DPAdamRegressor:
        names -= {"target_bounds"}
    estimator = cls(**{name: required[name] for name in names})
    if cls is SpikedPCA:  # private variances need more rows than the checks have
        model = {"signal_variance": 1e6, "noise_variance": 1.0}
        estimator.set_params(n_components=1, **model)
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed <= COMPARE_FITS
    assert len(results) > 30


def test_every_estimator_is_checked():
    public = {getattr(skdpspectral, name) for name in skdpspectral.__all__}
    estimators = {
        c for c in public if isinstance(c, type) and issubclass(c, BaseEstimator)
    }
    assert estimators == {type(estimator) for estimator in ESTIMATORS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        DPPCA(1),
        LRSMLPRegressor(**FEW_STEPS),
        LRSRegressor(),
        DPAdamClassifier(),
        DPAdamRegressor(target_bounds=(-1, 1)),
        DPItemEmbedding(items=range(8), rating_range=(1, 5)),
        DPMatrixFactorization(items=range(8), rating_range=(1, 5)),
        JMECovariance(horizon=1000),
        FederatedDPPCA(1, client_feature=0),
        SparseDPPCA(),
        DPStandardScaler(),
        DPTableVectorizer(),
        DPRidge(),
        DPRidgeClassifier(),
    ],
)
@allow_warnings
def test_checks_inside_a_with_block(estimator):
    with PrivacyAccountant() as accountant:
        results = check_estimator(estimator.set_params(noise_seed=0), on_skip=None)
    assert len(accountant.ledger) > 10
    if os.environ.get("SCIPY_ARRAY_API") == "1":  # see conftest.py
        assert [r for r in results if r["status"] != "passed"] == []


def a_table(estimator):
    """Rows that any estimator fits, and the same with other values."""
    rng = np.random.default_rng(0)
    ids = np.arange(80) % 4
    X = np.column_stack([ids, rng.standard_normal((80, 3)), ids])
    other = X.copy()
    other[:, 1:-1] = np.nan
    if isinstance(estimator, DPItemEmbedding | DPMatrixFactorization):
        X[:, 1] = np.arange(80) % 5
    y = rng.standard_normal(80)
    return X, y > 0.0 if isinstance(estimator, ClassifierMixin) else y, other


def check_words(plan):
    """Two short lines, and details that have all releases and remarks, aligned."""
    first, second = str(plan).split("\n")
    assert max(len(first), len(second)) <= 200
    assert first == plan.guarantee()
    claim = f"epsilon={plan.epsilon:g}, delta={plan.delta:g} per {plan.unit} ("
    assert (claim if plan.noisy else "gives no privacy") in str(plan)
    text, table = plan.details().split("\n\n")
    assert text.startswith(first)
    assert set(plan.remarks) <= set(text.splitlines())
    if plan.noisy and not plan.curves:
        assert f"mu = {plan.mu:.6g}" in text
    if not plan.mechanisms:
        assert table == "It releases nothing."
        return
    head, *rows = table.splitlines()
    starts = [head.index(name) for name in re.split(" {2,}", head)]
    for row in rows:
        assert all(row[start - 2 : start].strip() == "" for start in starts[1:])
    cells = [[row[a:b].strip() for row in rows] for a, b in pairwise([*starts, None])]
    columns = dict(zip(re.split(" {2,}", head), cells, strict=True))
    times = list(map(int, columns["times"]))
    releases = plan.releases()
    assert sum(times) == len(releases)
    for name, count, last in zip(
        columns["release"], times, np.cumsum(times), strict=True
    ):
        names = [release.name for release in releases[last - count : last]]
        assert name == " to ".join(dict.fromkeys((names[0], names[-1])))
    for name, field in {
        "noise sd": "noise_std",
        "sensitivity": "charged_sensitivity",
    }.items():
        expected = {f"{getattr(r, field):.6g}" for r in releases if hasattr(r, field)}
        assert expected <= set(columns.get(name, [])), name


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@allow_warnings_of_checks
def test_every_plan_is_said_in_two_lines(estimator):
    X, _, _ = a_table(estimator)
    for seed in (None, 0):
        plan = clone(estimator).set_params(noise_seed=seed).plan_for(X)
        check_words(plan)
        assert str(type(plan).from_json(plan.to_json())) == str(plan)
        assert ("noise came from a seed" in str(plan)) == (plan.seeded and plan.noisy)


def without_remarks(plan):
    """Return a plan, and those of its blocks, without remarks."""
    changes = {"remarks": ()}
    if isinstance(plan, ParallelPlan):
        blocks = ((name, without_remarks(block)) for name, block in plan.blocks)
        changes["blocks"] = tuple(blocks)
    return replace(plan, **changes)


@pytest.mark.parametrize("estimator", FIRST_OF_EACH, ids=str)
@allow_warnings_of_checks
def test_every_fit_is_said_in_two_lines(estimator):
    X, y, _ = a_table(estimator)
    model = clone(estimator).set_params(noise_seed=None)
    check_words(model.fit(X, y).privacy_)


@pytest.mark.parametrize("estimator", FIRST_OF_EACH, ids=str)
@pytest.mark.parametrize("delta", [0, 0.0, 1e-16, 1.0])
def test_the_range_of_delta_is_the_true_one(estimator, delta):
    X, _, _ = a_table(estimator)
    message = rf"^delta must be in \[1e-15, 1\), got {delta:g}"
    with pytest.raises(ValueError, match=message) as error:
        clone(estimator).set_params(delta=delta).plan_for(X)
    assert ("requires a positive delta" in str(error.value)) == (delta < 1.0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@allow_warnings_of_checks
def test_a_fit_is_charged_with_the_plan_that_was_made_for_its_rows(estimator):
    X, y, other = a_table(estimator)
    accountant = PrivacyAccountant()
    model = clone(estimator).set_params(accountant=accountant)
    before = dict(vars(model))
    plan = model.plan_for(X)
    assert plan == model.plan_for(other)
    promised = accountant.check(model, X)
    assert vars(model) == before
    assert accountant.ledger == ()
    model.fit(X, y)
    found = model.privacy_
    # It says too what releases chose, and whether they stand out of the noise.
    if isinstance(model, DPPCA | DPCovariance):
        assert found.remarks[: len(plan.remarks)] == plan.remarks
    if isinstance(model, DPPCA | DPCovariance | FederatedDPPCA):
        found, plan = without_remarks(found), without_remarks(plan)
    assert found == plan
    assert accountant.spent().epsilon == pytest.approx(promised.epsilon, rel=1e-12)
    with pytest.raises(ValueError, match=r"X\b"):
        model.plan_for(3)
