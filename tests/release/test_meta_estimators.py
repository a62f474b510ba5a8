"""No estimator over others seeds the noise, and the ledger counts each fit."""

import inspect

import numpy as np
import pytest
from estimators import CLASSES
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import (  # noqa: F401
    enable_halving_search_cv,
    enable_iterative_imputer,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import all_estimators

from skdpspectral import DPPCA, JMECovariance, LRSRegressor, PrivacyAccountant
from skdpspectral._base.estimator import PrivateEstimator
from skdpspectral.audit import privacy_report

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = X[:, 0] + 0.1 * rng.normal(size=60)
LABELS = (Y > 0).astype(int)
PARAMETERS = {"estimator", "estimators", "steps", "transformers", "transformer_list"}
PARAMETERS |= {"regressor", "base_estimator"}


def named(cls):
    return [("one", cls()), ("two", cls())]


def classifier():
    return make_pipeline(DPPCA(2), LogisticRegression())


def regressor():
    return LRSRegressor(sparsity=1)


GRID = {"dppca__n_components": [1, 2]}
PARTLY = np.where(np.arange(60) % 4, LABELS, -1)
THREE = np.arange(60) % 3
TWICE = np.stack([Y, -Y], axis=1)
BOTH = np.stack([LABELS, 1 - LABELS], axis=1)
# Name: how to fit it over private estimators that nobody has seeded.
FITS = {
    "AdaBoostClassifier": lambda C: C(classifier_of_weights(), n_estimators=3),
    "AdaBoostRegressor": lambda C: C(regressor(), n_estimators=3),
    "BaggingClassifier": lambda C: C(classifier(), n_estimators=3),
    "BaggingRegressor": lambda C: C(regressor(), n_estimators=3, random_state=0),
    "CalibratedClassifierCV": lambda C: C(classifier(), cv=3),
    "ClassifierChain": lambda C: (C(classifier(), random_state=0), BOTH),
    "ColumnTransformer": lambda C: C([("pca", DPPCA(1), [0, 1])]),
    "FeatureUnion": lambda C: C(named(lambda: DPPCA(1))),
    "FixedThresholdClassifier": lambda C: C(classifier()),
    "FrozenEstimator": lambda C: C(classifier().fit(X, LABELS)),
    "GridSearchCV": lambda C: C(classifier(), GRID, cv=3, error_score="raise"),
    "HalvingGridSearchCV": lambda C: C(
        classifier(), GRID, cv=3, error_score="raise", random_state=0
    ),
    "HalvingRandomSearchCV": lambda C: C(
        classifier(), GRID, cv=3, n_candidates=2, error_score="raise", random_state=0
    ),
    "IterativeImputer": lambda C: C(regressor(), max_iter=2, random_state=0),
    "MultiOutputClassifier": lambda C: (C(classifier()), BOTH),
    "MultiOutputRegressor": lambda C: (C(regressor()), TWICE),
    "OneVsOneClassifier": lambda C: (C(classifier()), THREE),
    "OneVsRestClassifier": lambda C: (C(classifier()), THREE),
    "OutputCodeClassifier": lambda C: (C(classifier(), random_state=0), THREE),
    "Pipeline": lambda C: C([("pca", DPPCA(1)), ("last", LogisticRegression())]),
    "RANSACRegressor": lambda C: C(
        regressor(), min_samples=20, max_trials=3, random_state=0
    ),
    "RFE": lambda C: C(regressor(), n_features_to_select=2),
    "RFECV": lambda C: C(regressor(), cv=3),
    "RandomizedSearchCV": lambda C: C(
        classifier(), GRID, n_iter=2, cv=3, random_state=0, error_score="raise"
    ),
    "RegressorChain": lambda C: (C(regressor(), random_state=0), TWICE),
    "SelectFromModel": lambda C: C(regressor()),
    "SelfTrainingClassifier": lambda C: (C(classifier(), max_iter=2), PARTLY),
    "SequentialFeatureSelector": lambda C: C(regressor(), n_features_to_select=1, cv=2),
    "StackingClassifier": lambda C: C(named(classifier), cv=3),
    "StackingRegressor": lambda C: C(named(regressor), cv=3),
    "TransformedTargetRegressor": lambda C: C(regressor()),
    "TunedThresholdClassifierCV": lambda C: C(classifier(), cv=3, random_state=0),
    "VotingClassifier": lambda C: C(named(classifier)),
    "VotingRegressor": lambda C: C(named(regressor)),
}


class WeighedPipeline(Pipeline):
    """A pipeline that takes weights, for its last step."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, last__sample_weight=sample_weight)


def classifier_of_weights():
    return WeighedPipeline([("pca", DPPCA(2)), ("last", LogisticRegression())])


def takes_estimators(cls):
    parameters = inspect.signature(cls.__init__).parameters
    return bool(PARAMETERS & parameters.keys())


META = {name: cls for name, cls in all_estimators() if takes_estimators(cls)}


def test_all_of_them_are_known():
    assert META.keys() == FITS.keys()


@pytest.fixture
def fitted(monkeypatch):
    """Classes of estimators whose release was begun, in order."""
    begun = []
    original = PrivateEstimator._start_release

    def noted(self, *arguments, **more):
        release = original(self, *arguments, **more)
        begun.append((type(self).__name__, self.noise_seed))
        return release

    monkeypatch.setattr(PrivateEstimator, "_start_release", noted)
    return begun


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore:all rows are treated as the rows of one user")
@pytest.mark.filterwarnings("ignore:a score pooled over users")
@pytest.mark.filterwarnings("ignore:.*carries the models of its users")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_noise_is_not_seeded_and_each_fit_is_counted(name, fitted):
    made = FITS[name](META[name])
    labels = "Classif" in name or name in ("Pipeline", "SelfTrainingClassifier")
    labels |= "Search" in name or name == "FrozenEstimator"
    model, y = made if isinstance(made, tuple) else (made, LABELS if labels else Y)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    fitted.clear()
    rows = X
    if name == "IterativeImputer":
        rows = X.copy()
        rows[::7, 1] = rows[::5, 2] = np.nan
    with PrivacyAccountant() as accountant:
        model.fit(rows, y)
    assert (len(fitted) > 0) == (name != "FrozenEstimator")
    assert all(seed is None for _, seed in fitted)
    assert [entry.estimator for entry in accountant.ledger] == [
        cls for cls, _ in fitted
    ]
    assert np.isfinite(accountant.spent(1e-6).epsilon)
    assert not privacy_report(model).private or name in (
        "ColumnTransformer",
        "FeatureUnion",
        "MultiOutputRegressor",
        "RegressorChain",
        "TransformedTargetRegressor",
        "VotingRegressor",
    )


@pytest.mark.parametrize("cls", [DPPCA, JMECovariance, LRSRegressor])
def test_a_seed_that_the_user_asked_for_is_kept_and_warned_of(cls):
    model, rows = cls(noise_seed=0), X
    if cls is LRSRegressor:
        model.set_params(user_feature=0)
        rows = np.column_stack([np.arange(60) % 6, X])
    with pytest.warns(UserWarning, match="noise_seed is given"):
        make_pipeline(model).fit(rows, Y)
    assert model.privacy_.seeded


def test_no_other_parameter_takes_a_seed():
    """Ensembles write integers into each parameter of this name."""
    for cls in CLASSES:
        names = cls._get_param_names()
        assert not [n for n in names if n.endswith("random_state")], cls


def test_the_walk_is_not_blind():
    """An estimator of scikit-learn beside ours is seeded by the same calls."""
    bagging = META["BaggingRegressor"](RandomForestRegressor(1), 2, random_state=0)
    bagging.fit(X, Y)
    assert all(m.random_state is not None for m in bagging.estimators_)
