"""Every public method of personal models and networks, with every parameter wrong.

Parameters may be wrong once an estimator is fitted, by ``set_params``. Whatever method
is called then either does without them or says what is wrong: a `ValueError` or
`TypeError` that names the parameter, and no `AttributeError` of something inside.
"""

import copy

import numpy as np
import pytest
from estimators import ENTRIES
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

import skdpspectral as sk
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.neural_network import Adam

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
USERS = np.repeat(np.arange(5), 4)
X = RNG.normal(size=(20, 3))
RATINGS = np.column_stack([USERS, RNG.integers(6, size=20)])
STARS = RNG.integers(1, 6, size=20)
FEW_STEPS = {"n_rounds": 1, "n_own_steps": 1}
LRS_MLP = sk.LRSMLPRegressor(hidden_layer_sizes=2, prompt_size=1, **FEW_STEPS)
LRS_MLP.fit(X, X[:, 0], users=USERS)
LRS = sk.LRSRegressor(solver=PrivateRounds(n_rounds=1)).fit(X, X[:, 0], users=USERS)
ITEMS = sk.DPItemEmbedding(1, items=range(6), rating_range=(1, 5)).fit(RATINGS, STARS)
IN_TURN = {"batch_size": 10, "n_epochs": 2, "optimizer": Adam(sampling="in-turn")}
LABELS = (X[:, 0] > 0.0).astype(int)
CLASSIFIER = sk.DPAdamClassifier(classes=[0, 1], **IN_TURN).fit(X, LABELS)
REGRESSOR = sk.DPAdamRegressor(target_bounds=(-1, 1), **IN_TURN).fit(X, X[:, 0])
RIDGE = sk.DPRidge(epsilon=1e6, bounds=(-9, 9), intervals=True)
RIDGE.fit(X, X[:, 0] + X[:, 1] ** 2)
RIDGE_CLASSIFIER = sk.DPRidgeClassifier(epsilon=1e6, classes=[0, 1]).fit(X, LABELS)
FACTORS = sk.DPMatrixFactorization(items=range(6), rating_range=(1, 5)).fit(
    RATINGS, STARS
)

OF_BOTH = {
    "publish": lambda m: m.publish(),
    "get_params": lambda m: m.get_params(),
    "set_params": lambda m: copy.copy(m).set_params(delta=1e-7),
    "get_metadata_routing": lambda m: m.get_metadata_routing(),
    "tags": get_tags,
    "repr": repr,
}
OF_USERS = OF_BOTH | {
    "fit": lambda m: clone(m, safe=False).fit(X, X[:, 0], users=USERS),
    "privacy_plan": lambda m: m.privacy_plan(3),
    "plan_for": lambda m: m.plan_for(X),
    "predict": lambda m: m.predict(X, users=USERS),
    "score": lambda m: m.score(X, X[:, 0], users=USERS),
    "personalize": lambda m: copy.copy(m).personalize(X[:4], X[:4, 0], user=2),
}


def of_rows(y, **more):
    return OF_BOTH | {
        "fit": lambda m: clone(m, safe=False).fit(X, y),
        "privacy_plan": lambda m: m.privacy_plan(20, 3),
        "plan_for": lambda m: m.plan_for(X),
        "predict": lambda m: m.predict(X),
        "score": lambda m: m.score(X, y),
        **more,
    }


DECISION = {"decision_function": lambda m: m.decision_function(X)}
EFFECTS = {"effects": lambda m: m.effects(X)}
METHODS = {
    LRS: OF_USERS
    | {
        "get_coef": lambda m: m.get_coef(1),
        "get_intercept": lambda m: m.get_intercept(1),
    },
    LRS_MLP: OF_USERS | {"get_network": lambda m: m.get_network(1)},
    ITEMS: OF_BOTH
    | {
        "fit": lambda m: clone(m, safe=False).fit(RATINGS, STARS),
        "fit_transform": lambda m: clone(m, safe=False).fit_transform(RATINGS, STARS),
        "privacy_plan": lambda m: m.privacy_plan(6),
        "plan_for": lambda m: m.plan_for(RATINGS),
        "transform": lambda m: m.transform(RATINGS),
        "get_feature_names_out": lambda m: m.get_feature_names_out(),
        "set_output": lambda m: copy.copy(m).set_output(transform="default"),
    },
    FACTORS: OF_BOTH
    | {
        "fit": lambda m: clone(m, safe=False).fit(RATINGS, STARS),
        "privacy_plan": lambda m: m.privacy_plan(6),
        "plan_for": lambda m: m.plan_for(RATINGS),
        "predict": lambda m: m.predict(RATINGS),
        "score": lambda m: m.score(RATINGS, STARS),
        "recommend": lambda m: m.recommend([0, 1]),
        "personalize": lambda m: copy.copy(m).personalize(RATINGS, STARS),
    },
    CLASSIFIER: of_rows(LABELS, predict_proba=lambda m: m.predict_proba(X), **DECISION),
    RIDGE: of_rows(
        X[:, 0],
        path=lambda m: m.path([0.0, 1.0]),
        conf_int=lambda m: m.conf_int(),
        **EFFECTS,
    ),
    RIDGE_CLASSIFIER: of_rows(LABELS, **DECISION, **EFFECTS),
    REGRESSOR: of_rows(X[:, 0]),
}
# Of files, of scikit-learn's requests, and of callbacks, which read no parameter.
OTHER = {"save", "load", "set_callbacks"}
WRONG = [
    None,
    object(),
    "other",
    b"user",
    -1,
    1.5,
    float("nan"),
    float("-inf"),
    10**400,
    1j,
    [],
    [1, "a"],
    {},
    {"a": 1},
    set(),
    range(0),
    np.ones((2, 2)),
    np.array("x"),
    np.array(None, dtype=object),
    np.datetime64("2020-01-01"),
    int,
    sk.LRSRegressor,
    sk.LRSRegressor(),
    lambda: 0,
]
PARAMETERS = [
    pytest.param(fitted, name, id=f"{type(fitted).__name__}-{name}")
    for fitted in METHODS
    for name in fitted.get_params(deep=False)
]


@pytest.mark.parametrize("fitted", METHODS, ids=lambda m: type(m).__name__)
def test_no_public_method_is_left_out(fitted):
    public = {
        name
        for name in dir(type(fitted))
        if not name.startswith("_") and callable(getattr(type(fitted), name))
    }
    requests = {name for name in public if name.endswith("_request")}
    assert public - requests - OTHER <= set(METHODS[fitted])


def said(call, estimator, *expected):
    """Return the words of an expected error, None where there is none."""
    try:
        call(estimator)
    except expected as error:
        return str(error)
    return None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("fitted", "name"), PARAMETERS)
def test_errors_of_wrong_parameters_name_them(fitted, name):
    for value in WRONG:
        wrong = copy.copy(fitted)
        setattr(wrong, name, value)
        for method, call in METHODS[fitted].items():
            words = said(call, wrong, ValueError, TypeError)
            assert words is None or name in words, (method, value, words)
            assert words is None or "not fitted" not in words


UNFITTED = [
    pytest.param(clone(fitted), call, id=f"{type(fitted).__name__}-{method}")
    for fitted, methods in METHODS.items()
    for method, call in methods.items()
]


@pytest.mark.parametrize(("unfitted", "call"), UNFITTED)
def test_what_needs_a_fit_says_so(unfitted, call):
    words = said(call, unfitted, NotFittedError)
    assert words is None or "is not fitted yet" in words


@pytest.mark.parametrize("name", ENTRIES)
def test_other_arguments_are_refused_by_name(name):
    entry = ENTRIES[name]
    with pytest.raises(TypeError, match=r"unexpected keyword argument .weights"):
        entry.fit(entry.make(), weights=np.ones(60))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_tag_of_preserved_types_is_true(dtype):
    kept = get_tags(ITEMS).transformer_tags.preserves_dtype
    fitted = (
        clone(ITEMS).fit(RATINGS.astype(dtype), STARS) if dtype != np.float16 else 0
    )
    if not fitted:  # which holds no ids
        assert "float16" not in kept
        return
    found = fitted.transform(RATINGS.astype(dtype)).dtype
    assert (found == dtype) == (np.dtype(dtype).name in kept)
    assert get_tags(LRS).transformer_tags is None
