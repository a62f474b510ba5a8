"""Bad calls of JMECovariance: a named mistake, nothing charged, nothing changed."""

import copy

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from skdpspectral import JMECovariance, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.covariance import (
    BISR,
    AssumeCentered,
    BaselineMoments,
    Exponential,
    JointMoments,
    Window,
)

NAN, INF = float("nan"), float("inf")
X = np.random.default_rng(0).normal(0.1, 0.3, (20, 3))
SECRET = 7321.0625


def changed(place, value):
    rows = X.astype(object if isinstance(value, str) else float)
    rows[place] = value
    return rows


AGEING = np.tril(np.ones((20, 20)) * np.arange(1.0, 21.0))
UPPER = np.triu(np.ones((20, 20)))
# Parameters of a fit of 20 rows, and words of the error.
PARAMETERS = [
    ({"epsilon": 0}, "epsilon"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": NAN}, "epsilon"),
    ({"epsilon": "1"}, "epsilon"),
    ({"delta": 0.0}, "delta"),
    ({"delta": 1e-16}, "delta"),
    ({"delta": 1.0}, "delta"),
    ({"clip_norm": 0.0}, "clip_norm"),
    ({"clip_norm": -1.0}, "clip_norm"),
    ({"clip_norm": INF}, "clip_norm"),
    ({"clip_norm": None}, "clip_norm"),
    ({"clip_norm": True}, "clip_norm"),
    ({"clip_norm": [1.0]}, "clip_norm"),
    ({"horizon": 0}, "horizon"),
    ({"horizon": 10.0}, "horizon"),
    ({"horizon": 19}, "horizon"),
    ({"horizon": "20"}, "horizon"),
    ({"horizon": 10**400}, "horizon"),
    ({"horizon": 10**13, "factorization": "sqrt"}, "sqrt", "horizon", "blt"),
    ({"horizon": 10**13, "factorization": "bisr"}, "bisr", "horizon", "blt"),
    ({"workload": Window(10**400)}, "length"),
    ({"workload": np.diag([1e-70] + [1.0] * 19)}, "workload", "similar scale"),
    (
        {
            "workload": np.eye(20, k=-1) + np.diag([1e-9] + [0.0] * 19),
            "factorization": "sqrt",
        },
        "workload",
    ),
    ({"factorization": np.diag([1.0, 1e-7] * 10)}, "factorization", "diagonal"),
    ({"workload": "mean"}, "workload"),
    ({"workload": 3}, "workload"),
    ({"workload": UPPER}, "workload", "lower-triangular"),
    ({"workload": np.ones((20, 3))}, "workload", "square"),
    ({"workload": np.full((20, 20), NAN)}, "workload", "finite"),
    ({"workload": -np.eye(20)}, "workload", "add up to more than 0"),
    ({"workload": np.diag(np.arange(20.0))}, "workload", "all of a row"),
    ({"workload": np.eye(10)}, "horizon", "10"),
    ({"workload": np.eye(20), "horizon": 30}, "horizon", "workload"),
    ({"workload": np.eye(20), "on_horizon": "restart"}, "on_horizon"),
    ({"workload": [["a"]]}, "workload", "numbers"),
    ({"workload": "window"}, "workload", "Window"),
    ({"workload": "exponential"}, "workload", "Exponential"),
    ({"workload": Window}, "workload"),
    ({"workload": BISR()}, "workload"),
    ({"workload": StandardScaler()}, "workload"),
    ({"workload": Window(0)}, "length", "Window"),
    ({"workload": Window(2.5)}, "length", "Window"),
    ({"workload": Window(True)}, "length", "boolean"),
    ({"workload": Window([3])}, "length"),
    ({"workload": Window(None)}, "length", "Window"),
    ({"workload": Window(3), "on_horizon": "restart"}, "on_horizon", "window"),
    (
        {"workload": Window(3), "on_horizon": "restart", "horizon": 10},
        "on_horizon",
        "window",
    ),
    ({"workload": Exponential(1.0)}, "decay", "Exponential"),
    ({"workload": Exponential(0.0)}, "decay", "Exponential"),
    ({"workload": Exponential(NAN)}, "decay", "Exponential"),
    ({"workload": Exponential("0.5")}, "decay", "Exponential"),
    ({"on_horizon": "restart"}, "on_horizon", "horizon:"),
    (
        {"on_horizon": "restart", "factorization": np.eye(20)},
        "on_horizon",
        "horizon:",
    ),
    ({"factorization": "tree"}, "factorization"),
    ({"factorization": np.zeros((20, 20))}, "factorization", "singular"),
    ({"factorization": UPPER}, "factorization", "lower-triangular"),
    ({"factorization": np.eye(19)}, "horizon", "19"),
    ({"factorization": np.eye(20), "horizon": 21}, "horizon", "factorization"),
    ({"factorization": np.eye(20) * NAN}, "factorization", "finite"),
    ({"factorization": np.eye(2), "workload": np.eye(3)}, "factorization", "workload"),
    ({"factorization": "optimal", "horizon": 10_000}, "optimal", "at most"),
    (
        {
            "factorization": "sqrt",
            "workload": np.tril(np.ones((20, 20))) + np.eye(20)[0],
        },
        "workload",
    ),
    ({"moments": "ime"}, "moments", "BaselineMoments"),
    ({"moments": None}, "moments"),
    ({"moments": True}, "moments"),
    ({"moments": JointMoments}, "moments"),
    ({"moments": ["jme"]}, "moments"),
    ({"moments": Window(3)}, "moments"),
    ({"moments": BaselineMoments("tree")}, "method", "BaselineMoments"),
    ({"moments": BaselineMoments(None)}, "method"),
    ({"moments": BaselineMoments("jme")}, "method"),
    ({"moments": JointMoments(-1.0)}, "weight", "JointMoments"),
    ({"moments": JointMoments(0.0)}, "weight"),
    ({"moments": JointMoments(NAN)}, "weight"),
    ({"moments": JointMoments(None)}, "weight"),
    ({"moments": JointMoments("all")}, "weight"),
    ({"moments": BaselineMoments("ime", weight=1.0)}, "weight", "(0, 1)"),
    ({"moments": BaselineMoments("ime", weight="trace-split")}, "weight"),
    ({"moments": BaselineMoments("cs", weight="free")}, "weight"),
    ({"moments": BaselineMoments("pp", weight=2.0)}, "weight", "pp"),
    (
        {"moments": BaselineMoments("pp-debiased", second_factorization="sqrt")},
        "second_factorization",
        "pp-debiased",
    ),
    ({"moments": JointMoments(second_moment="half")}, "second_moment"),
    ({"moments": AssumeCentered("half")}, "second_moment", "AssumeCentered"),
    ({"moments": JointMoments(second_workload="mean")}, "second_workload"),
    ({"moments": JointMoments(second_workload=Window(0))}, "length", "Window"),
    ({"moments": JointMoments(second_factorization=Window(3))}, "factorization"),
    ({"factorization": BISR(0)}, "bandwidth", "BISR"),
    ({"factorization": BISR(1.5)}, "bandwidth", "BISR"),
    ({"factorization": BISR(None)}, "bandwidth", "BISR"),
    ({"factorization": Window(3)}, "factorization"),
    ({"min_eigenvalue": 0.0}, "min_eigenvalue"),
    ({"min_eigenvalue": 2.0}, "min_eigenvalue"),
    ({"on_horizon": "stop"}, "on_horizon"),
    ({"whiten": "zca"}, "whiten"),
    ({"noise_seed": "seed"}, "noise_seed"),
    ({"accountant": 1.0}, "accountant"),
]
ROWS = {
    "NaN": (changed((3, 1), NAN), "NaN"),
    "infinity": (changed((3, 1), INF), "infinity"),
    "text": (changed((3, 1), f"{SECRET} euros"), "X"),
    "one dimension": (X[:, 0], "2D"),
    "no rows": (X[:0], "X"),
    "complex": (X + 1j, "Complex"),
    "three dimensions": (X[None], "X"),
}


# Mistakes in values, which are read once the stream is charged.
IN_VALUES = {"NaN", "infinity", "text"}


@pytest.fixture
def budget():
    accountant = PrivacyAccountant(5.0)
    yield accountant
    assert len(accountant.ledger) == 0, "a bad call was charged"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", PARAMETERS, ids=lambda c: str(c[0])[:60])
@pytest.mark.parametrize("checked", [True, False])
def test_bad_parameters(case, checked, budget):
    parameters, *words = case
    parameters = {"accountant": budget, **parameters}
    model = JMECovariance(**parameters)
    before = copy.deepcopy(vars(model))
    with (
        sklearn.config_context(skip_parameter_validation=not checked),
        pytest.raises((ValueError, TypeError)) as caught,
    ):
        model.fit(X)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert vars(model).keys() == before.keys()


# What reads parameters, of a stream of the rows of X.
CALLS = {
    "fit": lambda model: model.fit(X),
    "fit_transform": lambda model: model.fit_transform(X),
    "partial_fit": lambda model: model.partial_fit(X),
    "release_path": lambda model: model.release_path(X),
    "privacy_plan": lambda model: model.privacy_plan(*X.shape),
    "plan_for": lambda model: model.plan_for(X),
    "check of the ledger": lambda model: PrivacyAccountant().check(model, X),
    "resume": lambda model: model.resume(),
    "transform": lambda model: model.transform(X),
}
# Of a stream that has begun; what is wrong with a shape is known by then.
UNDER_WAY = {"resume", "transform"}
# Methods that read releases alone, or nothing.
WITHOUT_PARAMETERS = {
    "error_norm",
    "get_feature_names_out",
    "get_metadata_routing",
    "get_params",
    "get_precision",
    "load",
    "mahalanobis",
    "publish",
    "save",
    "score",
    "score_samples",
    "set_callbacks",
    "set_output",
    "set_params",
}


def error_of(call, model):
    with pytest.raises(ValueError) as caught:
        call(model)
    return str(caught.value)


def test_every_public_method_is_in_the_table():
    methods = {
        name
        for name in dir(JMECovariance)
        if not name.startswith("_") and callable(getattr(JMECovariance, name))
    }
    assert methods - WITHOUT_PARAMETERS == set(CALLS) - {"check of the ledger"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", PARAMETERS, ids=lambda c: str(c[0])[:60])
def test_every_method_says_the_same_of_a_bad_parameter(case, budget):
    """No method has an error of its own, and none of them is charged."""
    parameters, *words = case
    parameters = {"accountant": budget, **parameters}
    wanted = error_of(CALLS["fit"], JMECovariance(**parameters))
    assert all(word in wanted for word in words), wanted
    for name in CALLS.keys() - UNDER_WAY:
        model = JMECovariance(**parameters)
        assert error_of(CALLS[name], model) == wanted, name
    try:
        JMECovariance(**parameters)._check_parameters()
    except ValueError:
        begun = JMECovariance(horizon=30, accountant=PrivacyAccountant())
        begun.partial_fit(X[:5]).set_params(**parameters)
        for name in UNDER_WAY:
            assert error_of(CALLS[name], begun) == wanted, name


@pytest.mark.parametrize("name", ROWS)
def test_bad_rows(name):
    rows, word = ROWS[name]
    for method in ("fit", "partial_fit", "release_path"):
        budget = PrivacyAccountant(5.0)
        model = JMECovariance(horizon=30, accountant=budget)
        with pytest.raises((ValueError, TypeError), match=word) as caught:
            getattr(model, method)(rows)
        assert str(SECRET) not in str(caught.value)
        assert len(budget.ledger) == (name in IN_VALUES)


def test_bad_streams(budget):
    missing = r"no partial_fit without a horizon: .*blt.* set horizon"
    for kind in (AttributeError, ValueError):
        with pytest.raises(kind, match=missing):
            JMECovariance(accountant=budget).partial_fit(X)
    assert not hasattr(JMECovariance(), "partial_fit")
    assert hasattr(JMECovariance(workload="mean"), "partial_fit")
    with pytest.raises(NotFittedError, match="no stream to resume"):
        JMECovariance(horizon=30).resume()
    with pytest.raises(ValueError, match="horizon"):
        JMECovariance(accountant=budget).privacy_plan(n_features=3)
    with pytest.raises(ValueError, match="n_features"):
        JMECovariance(accountant=budget).privacy_plan(20)
    with pytest.raises(ValueError, match="n_samples"):
        JMECovariance(accountant=budget).privacy_plan(0, 3)
    with pytest.raises(ValueError, match="horizon is 10 steps"):
        JMECovariance(horizon=10, accountant=budget).partial_fit(X)
    with pytest.raises(ValueError, match="every"):
        JMECovariance(accountant=budget).release_path(X, every=0)
    with pytest.raises(PrivacyBudgetError):
        JMECovariance(9.0, accountant=budget).fit(X)


def test_bad_calls_of_a_fitted_model():
    model = JMECovariance().fit(X)
    for method in ("transform", "mahalanobis", "score", "score_samples"):
        with pytest.raises(ValueError, match="3 features"):
            getattr(model, method)(X[:, :2])
        with pytest.raises(NotFittedError):
            getattr(JMECovariance(), method)(X)
    with pytest.raises(ValueError, match="norm"):
        model.error_norm(np.eye(3), norm="nuclear")
    with pytest.raises(ValueError, match="comp_cov"):
        model.error_norm(np.eye(2))
    for attribute in ("publish", "get_precision"):
        with pytest.raises(NotFittedError):
            getattr(JMECovariance(), attribute)()


def test_there_are_enough():
    assert len(PARAMETERS) + len(ROWS) >= 60
