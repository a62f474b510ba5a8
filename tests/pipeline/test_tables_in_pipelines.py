"""Private pipelines that begin with a table: what finding categories costs in them."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPRidge,
    DPRidgeClassifier,
    DPTableVectorizer,
    PrivacyAccountant,
)
from skdpspectral._base.estimator import OutputUnits
from skdpspectral.accounting import calibrate_gaussian
from skdpspectral.accounting._ledger.planned_fits import StepShare
from skdpspectral.mechanisms import SampledGaussian, ThresholdedGaussian
from skdpspectral.pipeline import make_private_pipeline

N = 2000

pytestmark = pytest.mark.filterwarnings("ignore")


def table(seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40.0, 9.0, N),
            "city": rng.choice(["Graz", "Linz", None], N, p=[0.6, 0.3, 0.1]),
            "kind": rng.choice(list("abc"), N),
        }
    ).astype({"city": object, "kind": object})
    y = (frame["age"] > 40.0).astype(int).to_numpy()
    frame.loc[rng.random(N) < 0.2, "age"] = np.nan
    return frame, y


def delta_of(plans, epsilon):
    """Delta of all releases, by dp-accounting, of noise and thresholds as they are."""
    mechanisms = [m for plan in plans for m in plan.mechanisms]
    mu, shown = 0.0, 1.0
    for mechanism in mechanisms:
        if isinstance(mechanism, ThresholdedGaussian):
            columns, _ = mechanism.shape
            # Noise is rounded to the grid before it is compared.
            above = mechanism.threshold - mechanism.grid - 1.0
            shown *= norm.cdf(above / mechanism.noise_std) ** columns
            mu = math.hypot(mu, math.sqrt(2.0 * columns) / mechanism.noise_std)
        elif not isinstance(mechanism, SampledGaussian):
            mu = math.hypot(mu, mechanism.mu)
    whole = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=1e-3)
    for drawn in mechanisms:
        if isinstance(drawn, SampledGaussian):
            one = pld.from_gaussian_mechanism(
                drawn.noise_multiplier,
                value_discretization_interval=1e-3,
                sampling_prob=drawn.sampling_probability,
                neighboring_relation=NeighboringRelation.REPLACE_ONE,
            )
            whole = whole.compose(one.self_compose(drawn.max_steps))
    return (1.0 - shown) + shown * whole.get_delta_for_epsilon(epsilon)


@pytest.mark.parametrize("delta", [1e-6, 1e-4])
@pytest.mark.parametrize("sampled", [False, True])
def test_failures_are_inside_the_delta_of_the_whole(delta, sampled):
    X, y = table()
    steps = [DPTableVectorizer(), DPPCA(2)]
    if sampled:
        steps.append(DPAdamClassifier(classes=[0, 1], batch_size=500, n_epochs=2))
    model = make_private_pipeline(*steps, epsilon=3.0, delta=delta).fit(X, y)
    plans = [model[k].privacy_ for k in range(len(model))]
    assert model.privacy_.failure == pytest.approx(0.01 * delta, rel=1e-9)
    assert plans[0].failure == model.privacy_.failure
    assert 0.9 * delta <= delta_of(plans, 3.0) <= delta * (1.0 + 1e-6)
    assert model[0].categories_["city"] == ["Graz", "Linz"]


@pytest.mark.parametrize("form", [pd.DataFrame, pl.from_pandas, np.asarray])
def test_several_vectorizers_in_columns_share_a_failure(form):
    X, _ = table()
    X = form(X)
    for columns in ([["kind"], ["city"]], [["age", "kind"], ["city"]]):
        if isinstance(X, np.ndarray):
            columns = [[["age", "city", "kind"].index(c) for c in b] for b in columns]
        parts = [(DPTableVectorizer(), block) for block in columns]
        model = make_private_pipeline(
            make_column_transformer(*parts), epsilon=8.0, delta=7e-7
        )
        ledger = PrivacyAccountant(8.0, 7e-7)
        model.set_params(accountant=ledger).fit(X)
        plans = [part.privacy_ for _, part, _ in model[0].transformers_[:2]]
        assert model.privacy_.failure <= 7e-9
        assert 0.9 * 7e-7 <= delta_of(plans, 8.0) <= 7e-7 * (1.0 + 1e-6)
        assert ledger.spent().epsilon <= 8.0


def test_columns_keep_the_positions_of_a_column_transformer():
    X, _ = table()
    part = DPTableVectorizer(categories={0: ["Graz", "Linz"]})
    model = make_private_pipeline(
        make_column_transformer((part, ["city", "age"])), epsilon=8.0
    ).fit(X)
    assert model.privacy_.failure == 0.0
    ordinary = make_column_transformer((DPTableVectorizer(), ["city", "kind"]))
    in_columns, alone = (
        PrivacyAccountant(16.0, 1e-5).check(*asked)
        for asked in ((ordinary, X), (DPTableVectorizer(), X[["city", "kind"]]))
    )
    assert in_columns == alone


def test_a_ledger_takes_the_whole_of_its_budget():
    X, y = table()
    for final in ([], [DPAdamClassifier(classes=[0, 1], n_epochs=1)]):
        ledger = PrivacyAccountant(3.0, 1e-6)
        model = make_private_pipeline(
            DPTableVectorizer(), *final, epsilon=3.0, accountant=ledger
        )
        assert ledger.check(model, X).epsilon <= 3.0
        model.fit(X, y)
        assert ledger.spent().epsilon <= 3.0


def test_a_step_with_another_failure_than_was_charged_is_refused():
    X, _ = table()
    found = DPTableVectorizer().plan_for(X)
    planned = calibrate_gaussian("step", 1.0, found.mu * (1 + 1e-9), (1,))
    charged = replace(found, mechanisms=(planned,))
    for failure in (0.0, 0.5 * found.failure):
        other = replace(charged, failure=failure)
        with pytest.raises(RuntimeError, match=f"failure={found.failure} instead of"):
            StepShare("step", 1.0, 1e-6, charged=other).claim(found, N)
    share = StepShare("step", 1.0, 1e-6, charged=charged)
    share.claim(found, N)


def test_a_search_over_the_whole():
    X, y = table()
    model = make_private_pipeline(
        DPTableVectorizer(), DPAdamClassifier(classes=[0, 1], n_epochs=1)
    )
    search = GridSearchCV(model, {"epsilon": [4.0, 8.0]}, cv=2).fit(X, y)
    assert search.best_estimator_.privacy_.failure == pytest.approx(1e-8)


# -- units that a vectorizer hands on --------------------------------------------------


def wide(n=3000, seed=0):
    """Return a table with twenty numbers of heavy tails and four columns of text."""
    rng = np.random.default_rng(seed)
    numbers = np.exp(rng.normal(size=(n, 20)))
    frame = pd.DataFrame(numbers, columns=[f"n{j}" for j in range(20)])
    for j in range(4):
        frame[f"c{j}"] = rng.choice(list("abcdef"), n)
    y = 3.0 * frame["n0"].clip(0, 4) + 9.0 * (frame["c0"] == "a") + rng.normal(size=n)
    return frame, y.to_numpy()


def fitted(X, y, *steps, seed=1, **given):
    return make_private_pipeline(*steps, noise_seed=seed, **given).fit(X, y)


def test_a_ridge_behind_a_vectorizer_pays_for_no_scales_of_features():
    X, y = wide()
    for last in (DPRidge(), DPRidgeClassifier(classes=[False, True])):
        labels = y > np.median(y) if isinstance(last, DPRidgeClassifier) else y
        model = fitted(X, labels, DPTableVectorizer(), last)
        names = [m.name for m in model[-1].privacy_.mechanisms]
        assert names[-1] == "joint_moment" or names[-1] == "regression"
        assert all(name.startswith("target_") for name in names[:-1])
        seen = ~model[-1].unseen_features_
        assert (model[-1].mean_ == 0.0).all()
        assert (model[-1].scale_ == 1.0).all()
        lost = np.flatnonzero(model[0].unseen_features_)
        assert np.flatnonzero(~seen).tolist() == lost.tolist()
        assert model[-1].limits_.shape == (2, len(model[0].get_feature_names_out()))
        assert np.abs(model[-1].limits_).max() == 5.0
        assert model[-1].limits_[:, -1].tolist() == [0.0, 1.0]
        parts = [step.privacy_.mu for _, step in model.pipeline_.steps]
        assert math.hypot(*parts) == pytest.approx(model.plan_for(X).mu, rel=1e-9)


def test_no_fit_of_a_few_thousand_rows_loses_its_target():
    # Seeded. Without units of the vectorizer, R2 is about 0 in most of these fits.
    X, y = wide(2500)
    found = [
        fitted(X, y, DPTableVectorizer(), DPRidge(), seed=s).score(X, y)
        for s in range(8)
    ]
    assert min(found) > 0.35


def test_only_a_private_step_directly_before_hands_on_its_units():
    X, y = wide(800)
    takes = {
        "directly": (DPTableVectorizer(), "passthrough", DPRidge()),
        "bounds": (DPTableVectorizer(), DPRidge(bounds=(-4, 4))),
        "between": (DPTableVectorizer(), FunctionTransformer(), DPRidge()),
    }
    models = {name: fitted(X, y, *steps, epsilon=50.0) for name, steps in takes.items()}
    taken = [name for name, m in models.items() if (m[-1].scale_ == 1.0).all()]
    assert taken == ["directly"]
    # What was handed on ends with the fit of the pipeline.
    model = models["directly"]
    again = model[-1].set_params(epsilon=50.0).fit(model[0].transform(X), y)
    assert not (again.scale_ == 1.0).all()


class Mistaken(DPTableVectorizer):
    """A vectorizer whose output is far beyond the limits that it hands on."""

    far = 1e6

    def transform(self, X):
        return self.far * super().transform(X)

    def _output_units(self):
        return OutputUnits(np.array([[-1.0], [1.0]]), 1.0, np.array([-1]))


class Clipped(Mistaken):
    def transform(self, X):
        return np.clip(super().transform(X), -1.0, 1.0)


@pytest.mark.usefixtures("own_code")
def test_a_step_that_errs_about_its_limits_costs_accuracy_alone():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=600)})
    y = rng.normal(size=600)
    kinds = (Mistaken(), Clipped())
    models = [fitted(X, y, kind, DPRidge(), epsilon=20.0)[-1] for kind in kinds]
    np.testing.assert_array_equal(models[0].limits_, [[-1.0], [1.0]])
    np.testing.assert_array_equal(models[0].moment_, models[1].moment_)
