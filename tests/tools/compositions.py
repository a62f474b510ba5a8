"""Compositions of scikit-learn over private estimators, and their steps by hand."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import Ridge
from sklearn.model_selection import HalvingGridSearchCV, KFold, cross_val_predict
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPAdamRegressor,
    DPItemEmbedding,
    DPMatrixFactorization,
    DPRidge,
    DPRidgeClassifier,
    DPStandardScaler,
    DPTableVectorizer,
    FederatedDPPCA,
    LRSMLPRegressor,
    LRSRegressor,
    SparseDPPCA,
)
from skdpspectral.linear_model import UserIntercept
from skdpspectral.neural_network import AlternatingAdam

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
    DPPCA(1),
    SparseDPPCA(1, client_feature=0),
    FederatedDPPCA(1, client_feature=0),
    # Of so few rows it sees nothing: they pass as they are.
    DPStandardScaler(unseen="keep"),
    # Of so few rows it sees no number, and passes ids on.
    DPTableVectorizer(user_feature=0),
    DPItemEmbedding(
        1,
        user_feature=0,
        item_feature=1,
        items=range(5),
        rating_range=(0, 6),
    ),
    DPItemEmbedding(
        1,
        method="residuals",
        user_feature=0,
        item_feature=1,
        items=range(5),
        rating_range=(0, 6),
    ),
]
REGRESSOR = LRSRegressor(
    1,
    None,
    user_feature=0,
    fit_intercept=UserIntercept(prior=3.0, ridge=5.0, offset_feature=2),
)
RECOMMENDER = DPMatrixFactorization(
    1, user_feature=0, item_feature=1, items=range(5), rating_range=(0, 6)
)
CLICKS = clone(RECOMMENDER).set_params(implicit=True)
FEW_STEPS = AlternatingAdam(n_rounds=2, n_local_steps=1, n_own_steps=2)
NETWORKS = [
    DPAdamRegressor(target_bounds=(-1, 1), n_epochs=2),
    # Of so few rows it releases a constant.
    DPRidge(alpha=1.0, bounds=(-9, 9), target_bounds=(-9, 9)),
    DPRidgeClassifier(alpha=1.0, bounds=(-9, 9), classes=[0, 1]),
    DPAdamClassifier(n_epochs=2, classes=[0, 1]),
    LRSMLPRegressor(hidden_layer_sizes=2, user_feature=0, solver=FEW_STEPS),
]
REGRESSORS = (
    LRSMLPRegressor,
    LRSRegressor,
    DPMatrixFactorization,
    DPAdamRegressor,
    DPRidge,
)
CLASSIFIERS = (DPAdamClassifier, DPRidgeClassifier)
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


def probabilistic(estimator):
    """Return the same, or None of one that has scores alone."""
    scores = isinstance(estimator, DPRidgeClassifier)
    return None if scores else classifier(estimator)


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
    # composition, model, another, y -> the output of the composition
    by_hand: Callable
    # model of an estimator, or None where there is none
    of: Callable
    output: Callable = prediction
    several_targets: bool = False


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


def voting_by_hand(made, model, other, y):
    return np.mean([prediction(clone(m).fit(X, y)) for m in (model, other)], axis=0)


def stacking_by_hand(made, model, other, y):
    method = method_of(model)

    def features(predicted):
        return np.column_stack([p[:, 1:] if p.ndim > 1 else p for p in predicted])

    held_out = [
        cross_val_predict(clone(m), X, y, cv=FOLDS, method=method)
        for m in (model, other)
    ]
    last = clone(made.final_estimator).fit(features(held_out), y)
    whole = features([prediction(clone(m).fit(X, y)) for m in (model, other)])
    return prediction(last, whole)


def calibrated_by_hand(made, model, other, y):
    found = []
    for train, test in FOLDS.split(X, y):
        fitted = FrozenEstimator(clone(model).fit(X[train], y[train]))
        one = CalibratedClassifierCV(fitted).fit(X[test], y[test])
        found.append(one.predict_proba(X))
    return np.mean(found, axis=0)


def fitted_by_hand(made, model, other, y):
    return prediction(clone(model).fit(X, y))


def targets_by_hand(made, model, other, y):
    return [prediction(clone(model).fit(X, column)) for column in y.T]


def transformed_by_hand(made, model, other, y):
    return np.exp(clone(model).fit(X, np.log(y)).predict(X))


def bagging_by_hand(made, model, other, y):
    drawn = [clone(model).fit(X[rows], y[rows]) for rows in made.estimators_samples_]
    return np.mean([prediction(one) for one in drawn], axis=0)


def search_by_hand(made, model, other, y):
    chosen = clone(model).set_params(**made.best_params_)
    return prediction(chosen.fit(X, y))


def importances(model, y):
    return permutation_importance(model, X, y, n_repeats=2, random_state=0).importances


def importances_by_hand(made, model, other, y):
    fitted = clone(model).fit(X, y)
    score, found = fitted.score(X, y), []
    # One seed for all columns, each of which is shuffled further from time to time.
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max + 1)
    for column in range(X.shape[1]):
        rows, order = X.copy(), np.arange(len(X))
        source = np.random.RandomState(seed)
        for _ in range(2):
            source.shuffle(order)
            rows[:, column] = rows[order, column]
            found.append(score - fitted.score(rows, y))
    return np.reshape(found, (X.shape[1], 2))


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
    if "unseen" in by_name:
        return {by_name["with_std"]: [True, False]}
    if "max_categories" in by_name:
        return {by_name["max_categories"]: [1, 2]}
    streams_or_networks = {"min_eigenvalue", "batch_size"} & set(by_name)
    name = "clip_norm" if streams_or_networks else "n_components"
    return {by_name[name]: [1, 2]}


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
        lambda model, other: model, lambda made: 1, pipeline_by_hand, pipeline_of
    ),
    "FeatureUnion": Composition(
        lambda model, other: FeatureUnion(pairs(model, other)),
        lambda made: 2,
        union_by_hand,
        same,
        output=lambda made: made.transform(X),
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
        columns_by_hand,
        same,
        output=lambda made: made.transform(X),
    ),
    "HalvingGridSearchCV of classifiers": Composition(
        search_over, fits_of_search, search_by_hand, classifier
    ),
    "HalvingGridSearchCV of regressors": Composition(
        search_over, fits_of_search, search_by_hand, scored
    ),
    "permutation_importance": Composition(
        lambda model, other: model,
        lambda made: 1,
        importances_by_hand,
        scored,
        output=lambda made: importances(made, Y),
    ),
    "VotingClassifier": Composition(
        lambda model, other: VotingClassifier(pairs(model, other), voting="soft"),
        lambda made: 2,
        voting_by_hand,
        probabilistic,
    ),
    "VotingRegressor": Composition(
        lambda model, other: VotingRegressor(pairs(model, other)),
        lambda made: 2,
        voting_by_hand,
        regressor,
    ),
    "StackingClassifier": Composition(
        lambda model, other: StackingClassifier(
            pairs(model, other), GaussianNB(), cv=FOLDS
        ),
        lambda made: 2 * (1 + FOLDS.get_n_splits()),
        stacking_by_hand,
        classifier,
    ),
    "StackingRegressor": Composition(
        lambda model, other: StackingRegressor(pairs(model, other), Ridge(), cv=FOLDS),
        lambda made: 2 * (1 + FOLDS.get_n_splits()),
        stacking_by_hand,
        regressor,
    ),
    "CalibratedClassifierCV": Composition(
        lambda model, other: CalibratedClassifierCV(model, cv=FOLDS),
        lambda made: FOLDS.get_n_splits(),
        calibrated_by_hand,
        classifier,
    ),
    "FrozenEstimator": Composition(
        lambda model, other: FrozenEstimator(model.fit(X, Y)),
        lambda made: 1,  # before it was frozen
        fitted_by_hand,
        regressor,
    ),
    "MultiOutputClassifier": Composition(
        lambda model, other: MultiOutputClassifier(model),
        lambda made: 2,
        targets_by_hand,
        probabilistic,
        output=lambda made: made.predict_proba(X),
        several_targets=True,
    ),
    "MultiOutputRegressor": Composition(
        lambda model, other: MultiOutputRegressor(model),
        lambda made: 2,
        targets_by_hand,
        regressor,
        output=lambda made: list(made.predict(X).T),
        several_targets=True,
    ),
    "TransformedTargetRegressor": Composition(
        lambda model, other: TransformedTargetRegressor(
            model, func=np.log, inverse_func=np.exp, check_inverse=False
        ),
        lambda made: 1,
        transformed_by_hand,
        regressor,
    ),
    "BaggingClassifier": Composition(
        lambda model, other: BaggingClassifier(model, 2, random_state=0),
        lambda made: 2,
        bagging_by_hand,
        probabilistic,
    ),
    "BaggingRegressor": Composition(
        lambda model, other: BaggingRegressor(model, 2, random_state=0),
        lambda made: 2,
        bagging_by_hand,
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
    composition = COMPOSITIONS[name]
    y = LABELS if "lassif" in name or name == "Pipeline" else Y
    return np.column_stack([y, y[::-1]]) if composition.several_targets else y
