"""No parameter takes what its constraints exclude: named, free, and nothing changed.

Every parameter of every estimator and strategy is given every value of one list. What
its constraints exclude raises a `ValueError` that names it. What they allow is refused
by a budget that is too small for any fit, or for a reason that names the parameter.
"""

import re
import traceback
from functools import partial
from numbers import Number

import numpy as np
import pytest
import sklearn
from estimators import ENTRIES
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import make_constraint

import skdpspectral
from skdpspectral import PrivacyAccountant, PrivacyBudgetError
from skdpspectral._base import strategies
from skdpspectral.covariance import BISR, Exponential, JointMoments, Window
from skdpspectral.decomposition import SpikedModel
from skdpspectral.linear_model import Alternation, PrivateRounds, UserIntercept
from skdpspectral.neural_network import Adam

pytestmark = pytest.mark.filterwarnings("ignore")
NAN, INF = float("nan"), float("inf")

# So small that no fit can be charged to it.
BUDGET: list = []
VALUES = [None, True, np.True_, "no such word", "1", b"1", 0, -1, 1.5, -0.5, NAN, INF]
VALUES += [-INF, 1e61, 1e-61, 1e-16, 1, 2, 10**400, 1j, np.float64(NAN), np.int64(-1)]
VALUES += [np.float32(INF), np.array(NAN), np.ones(1), np.ones((2, 4)), [NAN], ["a"]]
VALUES += [(), {}, {"a": 1.0}, {1}, object(), StandardScaler, StandardScaler()]
VALUES += [[[1.0], [2.0, 3.0]], np.full((2, 4), 1j), np.array(["2020"], "M8[D]")]
VALUES += [Window(3), UserIntercept(), Adam(), np.array(2, object)]
# What no parameter may be, whatever its constraints say.
NEVER = (complex, StandardScaler, type(StandardScaler), bytes)
# What is allowed, and refused for another reason than the budget.
OTHERWISE = {("PrivateRounds", "n_rounds")}
OTHERWISE |= {("Adam", "noise_multiplier"), ("SpikedModel", "sensitivity_constant")}
OTHERWISE |= {("SpikedPCA", name) for name in ("sensitivity_constant", "mean")}

# Strategies: what takes them, and the parameter, beside others.
SPIKED = partial(SpikedModel, signal_variance=2.0, noise_variance=1.0)

STRATEGIES = [
    ("FederatedDPPCA", "mechanism", SPIKED),
    ("FederatedDPPCA", "mechanism", partial(SPIKED, calibration="paper")),
    ("LRSRegressor", "solver", PrivateRounds),
    ("LRSRegressor", "solver", Alternation),
    ("LRSRegressor", "fit_intercept", UserIntercept),
    ("DPAdamClassifier", "optimizer", Adam),
    ("DPAdamRegressor", "optimizer", Adam),
    ("JMECovariance", "workload", Exponential),
    ("JMECovariance", "workload", Window),
    ("JMECovariance", "factorization", BISR),
    ("JMECovariance", "moments", JointMoments),
]


def strategy_class(make):
    if isinstance(make, partial):
        return strategy_class(make.func)
    return make if isinstance(make, type) else type(make())


def excludes(owner, name, value):
    """Whether the constraints of a parameter exclude a value."""
    constraints = owner._parameter_constraints[name]
    if isinstance(value, bool | np.bool_):
        return "boolean" not in constraints
    arrays = getattr(owner, "_array_parameters", ())
    if name not in arrays and (isinstance(value, list | tuple) or np.ndim(value) > 0):
        return True
    if isinstance(value, NEVER) or (isinstance(value, Number) and value != value):
        return True
    return not any(make_constraint(c).is_satisfied_by(value) for c in constraints)


def state(model):
    """Return parameters and attributes as they are, and not only where."""
    return {k: (id(v), repr(v)) for k, v in vars(model).items()}


def refusal(entry, model, use):
    """Return what a call raises, None if it has no cost; check that nothing changes."""
    if not BUDGET or BUDGET[-1].ledger:
        BUDGET.append(PrivacyAccountant(1e-9, 1e-15))
    if model.accountant is None:
        model.accountant = BUDGET[-1]
    before = state(model)
    try:
        use(model)
    except Exception as error:
        caught = error
    else:
        assert not model.privacy_.releases(), "was not refused"
        return None
    after = state(model)
    assert BUDGET[-1].ledger == (), "the budget was charged"
    assert {k: v[0] for k, v in after.items()} == {k: v[0] for k, v in before.items()}
    assert repr(after) == repr(before), "a value was changed"
    assert "7321" not in "".join(traceback.format_exception_only(caught))
    return caught


def fault(cls, name, wrong, error):
    """Return what is wrong with an error about a parameter; None if nothing is."""
    if (cls.__name__, name) in OTHERWISE and not wrong:
        return None
    if not wrong and (error is None or isinstance(error, PrivacyBudgetError)):
        return None
    if not isinstance(error, (ValueError, TypeError, PrivacyBudgetError)):
        return f"raised {error!r}"
    if isinstance(error, PrivacyBudgetError) and name not in ("epsilon", "noise_seed"):
        return "is not refused"
    arrays = getattr(cls, "_array_parameters", ())
    if name in arrays and "inhomogeneous" in str(error):  # numpy's, of a ragged list
        return None
    if re.search(rf"(?<!\w){name}(?!\w)", str(error)) is None:
        return f"is not named: {error!r}"
    return None


def owners():
    """Yield what is to be tried: an entry, a class, and how a value is given."""
    for label, entry in ENTRIES.items():
        yield label, entry, type(entry.estimator), lambda name, value: {name: value}
    for label, parameter, make in STRATEGIES:
        cls = strategy_class(make)

        def given(name, value, parameter=parameter, make=make):
            return {parameter: make(**{name: value})}

        yield f"{cls.__name__} of {label}", ENTRIES[label], cls, given


@pytest.mark.parametrize("validated", [True, False])
@pytest.mark.parametrize("owner", [pytest.param(o, id=o[0]) for o in owners()])
def test_bad_values_are_named_and_free(owner, validated):
    _, entry, cls, give = owner
    faults = []
    with sklearn.config_context(
        skip_parameter_validation=not validated, assume_finite=not validated
    ):
        for name in cls._parameter_constraints:
            for value in VALUES:
                model = entry.make()
                for key, given in give(name, value).items():
                    setattr(model, key, given)
                wrong = excludes(cls, name, value)
                error = refusal(entry, model, entry.fit)
                found = fault(cls, name, wrong, error)
                if found is not None:
                    faults.append(f"{name}={value!r:.60} {found:.300}")
    assert not faults, "\n".join(faults)


def test_every_estimator_and_every_strategy_is_tried():
    public = (getattr(skdpspectral, name) for name in skdpspectral.__all__)
    estimators = {
        c.__name__
        for c in public
        if isinstance(c, type) and issubclass(c, BaseEstimator)
    }
    assert estimators == set(ENTRIES)
    tried = {strategy_class(make).__name__ for *_, make in STRATEGIES}
    assert set(strategies._CLASSES) - tried <= {"Prefix", "Average", "Auto"}
