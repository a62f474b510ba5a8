"""Pipelines with one budget: charge, steps, and scikit-learn's conventions."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPAdamRegressor,
    DPItemEmbedding,
    DPStandardScaler,
    DPTableVectorizer,
    JMECovariance,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.audit import privacy_report, publish
from skdpspectral.datasets import make_ratings
from skdpspectral.mechanisms import PrivacyPlan
from skdpspectral.pipeline import PrivatePipeline, make_private_pipeline

N = 600


def table():
    """A frame with numbers and texts, and labels."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(5.0, 3.0, N),
            "b": rng.normal(-2.0, 1.0, N),
            "c": rng.choice(["x", "y", "z"], N),
        }
    )
    return X, X["a"].to_numpy() > 5.0


def numbers():
    X, y = table()
    return X[["a", "b"]].to_numpy(), y


def columns(scaler=None):
    encoder = DPTableVectorizer(categories={"c": ["x", "y", "z"]})
    return ColumnTransformer(
        [("num", scaler or DPStandardScaler(), ["a", "b"]), ("cat", encoder, ["c"])]
    )


def in_turn(**params):
    """A classifier that sees all rows in each step: a Gaussian mechanism."""
    given = {"classes": [False, True], "batch_size": N, "n_epochs": 3, **params}
    return DPAdamClassifier(**given)


def sampled(**params):
    given = {"classes": [False, True], "batch_size": 100, "n_epochs": 2, **params}
    return DPAdamClassifier(**given)


def whole(final=None, **params):
    return PrivatePipeline(
        [("columns", columns()), ("pca", DPPCA(2)), ("model", final or in_turn())],
        **params,
    )


# -- the charge ----------------------------------------------------------------------


def test_one_entry_of_the_budget_that_was_asked_for():
    X, y = table()
    accountant = PrivacyAccountant(2.0, 1e-6)
    model = whole(epsilon=2.0, accountant=accountant).fit(X, y)
    (entry,) = accountant.ledger
    assert entry.estimator == "PrivatePipeline"
    assert accountant.spent().epsilon == pytest.approx(2.0, rel=1e-9)
    assert model.privacy_.epsilon == 2.0
    assert gaussian_epsilon(model.privacy_.mu, 1e-6) == pytest.approx(2.0, rel=1e-9)
    with pytest.raises(PrivacyBudgetError, match="PrivatePipeline"):
        clone(model).fit(X, y)


def test_steps_cost_their_shares():
    X, y = table()
    model = whole(epsilon=1.5).fit(X, y)
    mu = gaussian_mu(1.5, 1e-6)
    weights = {"columns": 1.0 / 7.0, "pca": 2.0 / 7.0, "model": 4.0 / 7.0}
    found = [
        model["columns"].named_transformers_["num"].privacy_.mu,
        model["pca"].privacy_.mu,
        model["model"].privacy_.mu,
    ]
    expected = [mu * np.sqrt(weight) for weight in weights.values()]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_shares_that_are_given():
    X, y = table()
    shares = {"columns__num": 1, "pca": 1, "model": 2}
    model = whole(shares=shares).fit(X, y)
    mu = gaussian_mu(1.0, 1e-6)
    assert model["pca"].privacy_.mu == pytest.approx(mu / 2.0, rel=1e-9)


def test_a_sampled_step_takes_what_is_left():
    X, y = table()
    accountant = PrivacyAccountant(1.0, 1e-6)
    model = whole(sampled(), accountant=accountant).fit(X, y)
    assert len(accountant.ledger) == 1
    assert 0.98 < accountant.spent().epsilon <= 1.0
    (curve,) = model.privacy_.curves
    assert curve.name == "model: gradients"
    alone = sampled().fit(np.zeros((N, 2)), y).privacy_.curves[0]
    assert curve.noise_multiplier > alone.noise_multiplier


def test_the_plan_before_data_is_that_of_the_fit():
    X, _ = numbers()
    accountant = PrivacyAccountant()
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1), accountant=accountant)
    plan = model.privacy_plan(*X.shape)
    assert accountant.ledger == ()
    assert plan == model.plan_for(X)
    model.fit(X)
    assert [m.name for m in plan.mechanisms] == ["dpstandardscaler", "dppca"]
    assert accountant.ledger[0].mu == pytest.approx(plan.mu)
    assert len(model.privacy_.mechanisms) > 2
    assert model.privacy_.mu == pytest.approx(plan.mu, rel=1e-9)
    assert PrivacyPlan.from_json(model.privacy_.to_json()) == model.privacy_


def test_the_charge_comes_before_values():
    X, y = table()
    X.loc[3, "a"] = np.nan
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match=r"NaN.*stays charged: epsilon=1 \(entry 1\)"):
        whole(accountant=accountant).fit(X, y)
    assert len(accountant.ledger) == 1


def test_without_privacy():
    X, _ = numbers()
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1), epsilon=None)
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        model.fit(X)
    assert not model.privacy_.noisy
    rotated = model[0].transform(X)
    assert np.allclose(model.transform(X), model[1].transform(rotated))


def test_delta_of_whole_rows_is_warned_of():
    X, _ = numbers()
    model = make_private_pipeline(DPStandardScaler(), DPPCA(1), delta=0.01)
    with pytest.warns(PrivacyLeakWarning, match="1 / n_samples"):
        model.fit(X)


# -- compositions ----------------------------------------------------------------------


def test_all_kinds_of_branches():
    X, y = table()
    union = FeatureUnion([("pca", DPPCA(1)), ("more", make_pipeline(DPPCA(2)))])
    nested = make_pipeline(columns(make_pipeline(DPStandardScaler())), union)
    model = PrivatePipeline([("nested", nested), ("model", in_turn())]).fit(X, y)
    names = [
        "nested__columntransformer__num__dpstandardscaler",
        "nested__featureunion__pca",
        "nested__featureunion__more__dppca",
        "model",
    ]
    planned = model.plan_for(X).mechanisms
    assert [m.name for m in planned] == names
    mus = np.square([m.mu for m in planned])
    np.testing.assert_allclose(mus / mus.sum(), np.array([1, 2, 2, 4]) / 9, rtol=1e-9)
    released = {m.name.partition(":")[0] for m in model.privacy_.mechanisms}
    assert released == set(names)


def test_branches_without_columns_cost_nothing():
    X, _ = table()
    some = ColumnTransformer(
        [("num", DPStandardScaler(), ["a"]), ("none", DPPCA(1), [])]
    )
    model = make_private_pipeline(some).fit(X)
    mu = gaussian_mu(1.0, 1e-6)
    assert model.privacy_.mu == pytest.approx(mu, rel=1e-9)


def test_widths_that_a_release_decides():
    X = np.random.default_rng(0).normal(size=(N, 6))
    y = X[:, 0] > 0.0
    model = make_private_pipeline(DPPCA("auto"), in_turn(), epsilon=1e3).fit(X, y)
    expected = gaussian_mu(1e3, 1e-6)
    assert model.privacy_.mu == pytest.approx(expected, rel=1e-9)


# -- what scikit-learn asks --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 1e3, None])
@pytest.mark.parametrize(
    "steps",
    [
        (DPStandardScaler(), DPPCA(1)),
        (DPStandardScaler(), DPAdamClassifier()),
        (DPStandardScaler(), DPAdamRegressor(target_bounds=(-1, 1))),
        (LRSRegressor(),),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("own_code")  # classes that the checks have in y
def test_checks_of_scikit_learn(steps, epsilon):
    model = make_private_pipeline(*steps, epsilon=epsilon, noise_seed=0)
    results = check_estimator(model, on_skip=None, on_fail=None)
    failed = {r["check_name"]: r for r in results if r["status"] == "failed"}
    assert failed == {}
    assert len(results) > 40


def test_steps_stay_as_they_are():
    X, y = table()
    pca = DPPCA(2)
    model = PrivatePipeline([("columns", columns()), ("pca", pca)])
    with pytest.raises(NotFittedError):
        model.transform(X)
    assert model["pca"] is pca
    model.fit(X, y)
    assert not hasattr(pca, "components_")
    assert model["pca"].components_.shape == (2, 7)
    assert model.steps[1][1] is pca
    assert model.named_steps["pca"] is model["pca"] is model[-1]
    assert isinstance(model[:-1], Pipeline)
    np.testing.assert_array_equal(
        model[-1].transform(model[:-1].transform(X)), model.transform(X)
    )


def test_an_unfitted_pipeline_has_no_slices():
    with pytest.raises(ValueError, match="slices after its fit only"):
        whole()[:2]


def test_parameters_of_steps():
    model = whole()
    model.set_params(pca__n_components=1, columns__num__unseen="keep", epsilon=2.0)
    assert model.get_params()["pca__n_components"] == 1
    assert columns_of(model).unseen == "keep"
    twin = clone(model)
    assert twin.epsilon == 2.0
    assert twin["pca"] is not model["pca"]
    assert "PrivatePipeline(epsilon=2.0" in repr(model)


def columns_of(model):
    return model["columns"].transformers[0][1]


def test_output_is_a_frame():
    X, _ = table()
    model = PrivatePipeline(whole().steps[:2])
    model.set_output(transform="pandas").fit(X)
    assert list(model.transform(X)) == ["dppca0", "dppca1"]
    assert isinstance(
        model.set_output(transform="default").fit_transform(X), np.ndarray
    )
    assert list(model.get_feature_names_out()) == ["dppca0", "dppca1"]
    assert list(model.feature_names_in_) == ["a", "b", "c"]


def test_methods_are_those_of_the_last_step():
    X, y = table()
    model = whole().fit(X, y)
    assert model.predict(X).shape == (N,)
    assert model.predict_proba(X).shape == (N, 2)
    assert list(model.classes_) == [False, True]
    assert sklearn.base.is_classifier(model)
    assert not hasattr(model, "transform")
    assert not hasattr(model, "fit_transform")
    transformer = make_private_pipeline(DPStandardScaler(), epsilon=1e3)
    assert not hasattr(transformer, "predict")
    rows, _ = numbers()
    back = transformer.fit(rows).inverse_transform(transformer.transform(rows))
    np.testing.assert_allclose(back, rows)


# -- searches, reports, copies -----------------------------------------------------


def test_a_grid_over_epsilon_is_one_entry_a_fit():
    X, y = table()
    epsilons = [0.25, 0.5, 1.0, 2.0, 4.0]
    accountant = PrivacyAccountant()
    search = GridSearchCV(
        whole(accountant=accountant), {"epsilon": epsilons}, cv=3, error_score="raise"
    ).fit(X, y)
    found = sorted(entry.epsilon for entry in accountant.ledger)
    best = search.best_params_["epsilon"]
    np.testing.assert_allclose(found, sorted([*epsilons * 3, best]))
    assert len(found) == 16


def test_folds_and_jobs_are_charged():
    X, y = table()
    with PrivacyAccountant() as accountant:
        cross_val_score(whole(), X, y, cv=3, n_jobs=2, error_score="raise")
    assert [e.estimator for e in accountant.ledger] == ["PrivatePipeline"] * 3


def test_the_report_has_the_whole():
    report = privacy_report(whole(epsilon=2.0))
    assert report.private
    *steps, last = report
    assert last.name == "privatepipeline"
    assert "epsilon=2, delta=1e-06 on all steps" in last.reason
    assert not any("epsilon" in step.reason for step in steps)
    assert "a share of the pipeline's budget" in str(report)
    leaking = privacy_report(make_private_pipeline(DPPCA(2), sampled(classes=None)))
    assert [step.verdict for step in leaking] == ["private", "LEAKS", "LEAKS"]
    nested = privacy_report(make_pipeline(whole()))
    assert [step.name for step in nested][-1] == "privatepipeline"


@pytest.mark.parametrize("how", [publish, PrivatePipeline.publish])
def test_published_steps_hold_releases_alone(how):
    X, y = table()
    with PrivacyAccountant() as accountant:
        model = whole(accountant=accountant).fit(X, y)
        public = how(model)
    assert type(public) is PrivatePipeline
    assert public.accountant is None
    np.testing.assert_array_equal(public.predict_proba(X), model.predict_proba(X))
    assert public.privacy_ == model.privacy_
    written = pickle.dumps(public)
    assert accountant.path.encode() not in written
    assert b"_step_share" not in written
    scaler = public["columns"].named_transformers_["num"]
    assert scaler is not model["columns"].named_transformers_["num"]
    assert isinstance(scaler, DPStandardScaler)


def test_published_models_of_users_stay():
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(60), 10)
    X = np.column_stack([users, rng.normal(size=(N, 3))])
    model = make_private_pipeline(LRSRegressor(user_feature=0)).fit(X, X[:, 1] * users)
    assert not np.array_equal(model.publish().predict(X), model.predict(X))


def test_a_pipeline_is_no_file_of_arrays(tmp_path):
    X, y = table()
    with pytest.raises(TypeError, match="save its steps"):
        whole().fit(X, y).save(tmp_path / "model.npz")


def test_fitted_steps_that_stay_cost_nothing():
    X, _ = numbers()
    scaler = DPStandardScaler().fit(X)
    model = make_private_pipeline(FrozenEstimator(scaler), DPPCA(1)).fit(X)
    assert model["dppca"].privacy_.mu == pytest.approx(gaussian_mu(1.0, 1e-6))


def test_users_and_items():
    ratings = make_ratings(300, 20, n_ratings_per_user=8)
    model = make_private_pipeline(
        DPItemEmbedding(
            items=ratings.item_ids,
            item_features=ratings.item_features,
            rating_range=(1, 5),
        ),
        LRSRegressor(user_feature=0),
        epsilon=4.0,
    ).fit(ratings.data, ratings.target)
    assert str(model.privacy_.unit) == "user"
    assert model.privacy_.mu == pytest.approx(gaussian_mu(4.0, 1e-6), rel=1e-9)


def test_a_stream_as_a_step():
    X, _ = numbers()
    model = make_private_pipeline(DPStandardScaler(), JMECovariance()).fit(X)
    assert model.privacy_.mu == pytest.approx(gaussian_mu(1.0, 1e-6), rel=1e-9)
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("kind", ["sparse", "lists"])
def test_tables_of_other_kinds(kind):
    X, _ = numbers()
    X = sparse.csr_matrix(X) if kind == "sparse" else X.tolist()
    model = make_private_pipeline(DPPCA(2), DPPCA(1)).fit(X)
    assert model.privacy_.mu == pytest.approx(gaussian_mu(1.0, 1e-6), rel=1e-9)
