"""Compositions of scikit-learn over private estimators, and their steps by hand."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor, StackingClassifier, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import HalvingGridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

import skdpspectral as sk
from skdpspectral.linear_model import UserIntercept

# Users (or clients) and items in front, so that one table serves every estimator.
N_ROWS, N_CLIENTS = 120, 4
rng = np.random.default_rng(0)
X = rng.normal(size=(N_ROWS, 5))
X[:, 0], X[:, 1] = np.arange(N_ROWS) % N_CLIENTS, rng.integers(5, size=N_ROWS)
Y = np.clip(3 + X[:, 2] + 0.3 * X[:, 1] + 0.1 * rng.normal(size=N_ROWS), 1, 6)
# These are what ensembles make of labels, which an embedding takes for ratings.
LABELS = (np.median(Y) < Y).astype(int)
FOLDS = KFold(2, shuffle=True, random_state=0)

TRANSFORMERS = [
    sk.DPPCA(1),
    sk.SparseDPPCA(1, client_feature=0),
    sk.FederatedDPPCA(1, client_feature=0),
    # Of so few rows it sees nothing: they pass as they are.
    sk.DPStandardScaler(unseen="keep"),
    sk.DPTableVectorizer(categories={0: [0.0, 1.0]}),
    sk.DPItemEmbedding(
        1, user_feature=0, item_feature=1, items=range(5), rating_range=(0, 6)
    ),
    sk.DPItemEmbedding(
        1,
        method="residuals",
        user_feature=0,
        item_feature=1,
        items=range(5),
        rating_range=(0, 6),
    ),
]
REGRESSOR = sk.LRSRegressor(
    1,
    None,
    user_feature=0,
    fit_intercept=UserIntercept(prior=3.0, ridge=5.0, offset_feature=2),
)
RECOMMENDER = sk.DPMatrixFactorization(
    1, user_feature=0, item_feature=1, items=range(5), rating_range=(0, 6)
)
CLICKS = clone(RECOMMENDER).set_params(implicit=True)
FEW_STEPS = {"n_rounds": 2, "n_own_steps": 2}
NETWORKS = [
    sk.DPAdamRegressor(target_bounds=(-1, 1), n_epochs=2),
    # Of so few rows it releases a constant.
    sk.DPRidge(alpha=1.0, bounds=(-9, 9), target_bounds=(-9, 9)),
    sk.DPRidgeClassifier(alpha=1.0, bounds=(-9, 9), classes=[0, 1]),
    sk.DPAdamClassifier(n_epochs=2, classes=[0, 1]),
    sk.LRSMLPRegressor(hidden_layer_sizes=2, user_feature=0, **FEW_STEPS),
]
REGRESSORS = (
    sk.LRSMLPRegressor,
    sk.LRSRegressor,
    sk.DPMatrixFactorization,
    sk.DPAdamRegressor,
    sk.DPRidge,
)
CLASSIFIERS = (sk.DPAdamClassifier, sk.DPRidgeClassifier)
ESTIMATORS = [*TRANSFORMERS, REGRESSOR, RECOMMENDER, CLICKS, *NETWORKS]


def regressor(estimator):
    """Return a model of real targets with a private estimator in it, or None."""
    if isinstance(estimator, CLASSIFIERS):
        return None
    if isinstance(estimator, REGRESSORS):
        return clone(estimator)
    return Pipeline([("private", clone(estimator)), ("last", Ridge())])


def scored(estimator):
    """Return the same, or None of what has no score of its own: clicks."""
    return regressor(estimator) if estimator is not CLICKS else None


def classifier(estimator):
    """Return a classifier with a private step, or None where it makes no features."""
    if isinstance(estimator, REGRESSORS):
        return None
    if isinstance(estimator, CLASSIFIERS):
        return clone(estimator)
    return Pipeline([("private", clone(estimator)), ("last", GaussianNB())])


def seeded(model, seed):
    """Return a copy in which all private estimators have a seed."""
    names = model.get_params(deep=True)
    seeds = {n: seed for n in names if n.rpartition("__")[2] == "noise_seed"}
    assert seeds
    return clone(model).set_params(**seeds)


def prediction(model, rows=X):
    """Return probabilities or scores of a classifier, otherwise predictions."""
    return getattr(model, method_of(model))(rows)


def method_of(model):
    """Return the name of what gives them."""
    if not is_classifier(model):
        return "predict"
    has_probabilities = hasattr(model, "predict_proba")
    return "predict_proba" if has_probabilities else "decision_function"


class Composition(NamedTuple):
    """A model of one or two others, how many fits it makes, and its steps by hand."""

    # model, another -> composition
    make: Callable
    # fitted composition -> number of fits of either model
    n_fits: Callable
    # model of an estimator, or None where there is none
    of: Callable
    output: Callable = prediction
    # composition, model, another, y -> its output
    by_hand: Callable | None = None


# -- the steps by hand -----------------------------------------------------------------


def pipeline_by_hand(made, model, other, y):
    steps = [clone(step) for _, step in made.steps]
    rows = X
    for step in steps[:-1]:
        rows = step.fit(rows, y).transform(rows)
    return prediction(steps[-1].fit(rows, y), rows)


def union_by_hand(made, model, other, y):
    return np.hstack([clone(m).fit(X, y).transform(X) for m in (model, other)])


def columns_by_hand(made, model, other, y):
    front = clone(model).fit(X[:, :4], y).transform(X[:, :4])
    back = clone(other).fit(X[:, [0, 1, 4]], y).transform(X[:, [0, 1, 4]])
    return np.hstack([front, back, X[:, 2:4]])


# -- the compositions ------------------------------------------------------------------


def same(model):
    last = isinstance(model, (*REGRESSORS, *CLASSIFIERS))
    return None if last else clone(model)


def pairs(model, other):
    return [("one", model), ("two", other)]


def grid_over(model):
    """Return a grid over some parameter of the private estimator in a model."""
    names = model.get_params(deep=True)
    by_name = {name.rpartition("__")[2]: name for name in names}
    if "with_mean" in by_name:
        return {by_name["with_mean"]: [True, False]}
    if "max_categories" in by_name:
        return {by_name["max_categories"]: [1, 2]}
    known = (name for name in ("n_components", "clip_norm", "alpha") if name in by_name)
    return {by_name[next(known)]: [1, 2]}


def search_over(model, other):
    return HalvingGridSearchCV(
        model,
        grid_over(model),
        cv=FOLDS,
        min_resources=60,
        random_state=0,
        error_score="raise",
    )


def fits_of_search(made):
    return sum(made.n_candidates_) * FOLDS.get_n_splits() + 1


def pipeline_of(estimator):
    if isinstance(estimator, (*REGRESSORS, *CLASSIFIERS)):
        steps = [("same", FunctionTransformer()), ("private", clone(estimator))]
        return Pipeline(steps)
    return classifier(estimator)


COMPOSITIONS = {
    "Pipeline": Composition(
        lambda model, other: model,
        lambda made: 1,
        pipeline_of,
        by_hand=pipeline_by_hand,
    ),
    "FeatureUnion": Composition(
        lambda model, other: FeatureUnion(pairs(model, other)),
        lambda made: 2,
        same,
        output=lambda made: made.transform(X),
        by_hand=union_by_hand,
    ),
    "ColumnTransformer": Composition(
        lambda model, other: ColumnTransformer(
            [
                ("front", model, [0, 1, 2, 3]),
                ("back", other, [0, 1, 4]),
                ("kept", "passthrough", [2, 3]),
            ]
        ),
        lambda made: 2,
        same,
        output=lambda made: made.transform(X),
        by_hand=columns_by_hand,
    ),
    "HalvingGridSearchCV of classifiers": Composition(
        search_over, fits_of_search, classifier
    ),
    "VotingRegressor": Composition(
        lambda model, other: VotingRegressor(pairs(model, other)),
        lambda made: 2,
        regressor,
    ),
    "StackingClassifier": Composition(
        lambda model, other: StackingClassifier(
            pairs(model, other), GaussianNB(), cv=FOLDS
        ),
        lambda made: 2 * (1 + FOLDS.get_n_splits()),
        classifier,
    ),
    "FrozenEstimator": Composition(
        lambda model, other: FrozenEstimator(model.fit(X, Y)),
        lambda made: 1,  # before it was frozen
        regressor,
    ),
    "BaggingRegressor": Composition(
        lambda model, other: BaggingRegressor(model, 2, random_state=0),
        lambda made: 2,
        regressor,
    ),
}
CASES = [
    pytest.param(name, estimator, id=f"{name}-{type(estimator).__name__}")
    for name, composition in COMPOSITIONS.items()
    for estimator in ESTIMATORS
    if composition.of(estimator) is not None
]


def target_of(name):
    return LABELS if "lassif" in name or name == "Pipeline" else Y
