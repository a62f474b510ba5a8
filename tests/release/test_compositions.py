"""Every estimator in scikit-learn's compositions: its cost, its output, its report.

Each composition is fitted twice: with noise of its own, for the ledger, and with noise
from seeds, where the same steps written out one by one give the same numbers.
"""

import math

import numpy as np
import pytest
from compositions import (
    CASES,
    COMPOSITIONS,
    ESTIMATORS,
    N_ROWS,
    X,
    Y,
    seeded,
    target_of,
)
from estimators import CLASSES
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

import skdpspectral as sk
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.audit import privacy_report

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:columns of X besides users:UserWarning"),
]

# What is not among these counts as a leak.
ENTERED = ("Pipeline", "FeatureUnion", "ColumnTransformer", "FrozenEstimator")

# Of so few rows they release constants.
ONE_VALUE = (sk.DPRidge, sk.DPRidgeClassifier)


def test_every_estimator_is_composed():
    """But for two that map no rows, and one that needs rows of a model."""
    composed = {type(estimator) for estimator in ESTIMATORS}
    assert composed | {sk.DPCovariance, sk.JMECovariance, sk.SpikedPCA} == set(CLASSES)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "estimator"), CASES)
def test_each_fit_is_charged_once_and_none_is_seeded(name, estimator):
    composition = COMPOSITIONS[name]
    model = composition.of(estimator)
    with sk.PrivacyAccountant() as accountant:
        made = composition.make(model, clone(model))
        made.fit(X, target_of(name))
        composition.output(made)  # which costs nothing
    ledger, n_fits = accountant.ledger, composition.n_fits(made)
    assert {entry.estimator for entry in ledger} == {type(estimator).__name__}
    assert not any(entry.seeded for entry in ledger)
    assert len(ledger) == n_fits
    mu = gaussian_mu(1.0, 1e-6)
    assert [entry.mu for entry in ledger] == pytest.approx([mu] * len(ledger))
    spent = gaussian_epsilon(math.sqrt(n_fits) * mu, 1e-6)
    assert accountant.spent(1e-6).epsilon == pytest.approx(spent, rel=1e-9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "estimator"), [c for c in CASES if COMPOSITIONS[c.values[0]].by_hand]
)
def test_its_output_is_that_of_its_steps_one_by_one(name, estimator):
    composition, y = COMPOSITIONS[name], target_of(name)
    with sk.PrivacyAccountant() as accountant:
        model, other = (seeded(composition.of(estimator), seed) for seed in (0, 1))
        made = composition.make(clone(model), clone(other)).fit(X, y)
        found = composition.output(made)
    expected = composition.by_hand(made, model, other, y)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert np.ptp(expected) > 0 or isinstance(estimator, ONE_VALUE)
    assert len(accountant.ledger) > 0
    assert all(entry.seeded for entry in accountant.ledger)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "estimator"), CASES)
def test_the_report_sees_into_it(name, estimator):
    composition = COMPOSITIONS[name]
    model, leaking = (composition.of(estimator) for _ in range(2))
    names = [n for n in leaking.get_params() if n.rpartition("__")[2] == "epsilon"]
    leaking.set_params(**dict.fromkeys(names))
    with sk.PrivacyAccountant():
        made = [composition.make(one, clone(one)) for one in (model, leaking)]
    kind = type(estimator).__name__
    whole, broken = (
        [step for step in privacy_report(one) if step.estimator == kind] for one in made
    )
    if name not in ENTERED:
        assert not any(privacy_report(one).private for one in made)
        return
    assert len(whole) == len(broken) >= 1
    assert all("noise is switched off" in step.reason for step in broken)
    moved = [step for step in whole if "may be another column" in step.reason]
    assert all(step.verdict == "private" or step in moved for step in whole)
    # Positions of ids are other columns behind a choice of columns, and only there.
    ids = ("user_feature", "client_feature")
    takes_ids = any(hasattr(estimator, feature) for feature in ids)
    assert bool(moved) == (name == "ColumnTransformer" and takes_ids)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_weights_of_rows_are_refused_by_name_at_no_cost(estimator):
    """Rows or users that the noise hides all count alike."""
    model, weights = clone(estimator), np.ones(N_ROWS)
    # A parameter of that name would make ensembles send weights.
    assert not has_fit_parameter(model, "sample_weight")
    said = f"{type(model).__name__}.fit does not accept sample_weight: .*every row"
    with sk.PrivacyAccountant() as accountant:
        with pytest.raises(TypeError, match=said):
            model.fit(X, Y, sample_weight=weights)
        with pytest.raises(TypeError, match="sample_weight"):
            Pipeline([("one", model)]).fit(X, Y, one__sample_weight=weights)
        if hasattr(model, "transform"):
            with pytest.raises(TypeError, match="sample_weight"):
                model.fit_transform(X, Y, sample_weight=weights)
    assert accountant.ledger == ()
    assert not hasattr(model, "privacy_")


@pytest.mark.parametrize("cls", [sk.DPPCA, sk.JMECovariance, sk.LRSRegressor])
def test_a_seed_that_the_user_asked_for_is_kept_and_warned_of(cls):
    model = cls(noise_seed=0)
    if cls is sk.LRSRegressor:
        model.set_params(user_feature=0)
    with pytest.warns(UserWarning, match="noise_seed is given"):
        make_pipeline(model).fit(X, Y)
    assert model.privacy_.seeded


def test_no_other_parameter_takes_a_seed():
    """Ensembles write integers into each parameter of this name."""
    for cls in CLASSES:
        names = cls._get_param_names()
        assert not [n for n in names if n.endswith("random_state")], cls
