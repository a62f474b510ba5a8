"""Reports about what is done to targets before a private regressor sees them."""

import warnings

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdpspectral import (
    DPStandardScaler,
    LRSRegressor,
    PrivacyAccountant,
    PrivacyBudgetError,
)
from skdpspectral.audit import privacy_report


@pytest.mark.parametrize(
    ("given", "private"),
    [
        ({}, True),
        ({"func": np.abs, "inverse_func": np.exp, "check_inverse": False}, True),
        ({"transformer": FunctionTransformer(np.abs), "check_inverse": False}, True),
        # It stands behind a step that is charged: warnings come after that.
        ({"func": np.log, "inverse_func": np.exp, "check_inverse": False}, True),
        # This one warns of targets, before the charge.
        ({"func": np.abs, "inverse_func": np.positive}, False),
        ({"transformer": FunctionTransformer(np.log)}, False),
        ({"transformer": StandardScaler(), "check_inverse": False}, False),
        (
            {
                "func": lambda y: y - y.mean(),
                "inverse_func": np.positive,
                "check_inverse": False,
            },
            False,
        ),
    ],
)
def test_what_is_done_to_targets(given, private):
    model = TransformedTargetRegressor(LRSRegressor(user_feature=0), **given)
    whole = "transformedtargetregressor"
    report = {step.name: step for step in privacy_report(model)}
    assert report[whole].verdict == "LEAKS"  # it refuses NaN before the charge
    pipeline = make_pipeline(DPStandardScaler(), model)
    report = {step.name: step for step in privacy_report(pipeline)}
    assert privacy_report(pipeline).private == private
    assert report[whole].verdict == ("stateless" if private else "LEAKS")
    assert ("check_inverse=False" in report[whole].reason) != private
    regressor = report[f"{whole}__regressor"]
    assert regressor.verdict == ("private" if private else "LEAKS")
    assert not [step for step in report.values() if "moves columns" in step.reason]


def test_a_function_that_warns_of_targets_before_the_charge():
    model = TransformedTargetRegressor(
        LRSRegressor(), func=np.log, inverse_func=np.exp, check_inverse=False
    )
    regressor, whole = privacy_report(model)
    assert (regressor.verdict, whole.verdict) == ("private", "LEAKS")
    assert "warn" in whole.reason


def test_targets_that_do_not_come_back_are_told_of_before_the_charge():
    """What the verdict on check_inverse is about."""
    model = TransformedTargetRegressor(
        LRSRegressor(accountant=PrivacyAccountant(1e-9, 1e-9)),
        func=np.abs,
        inverse_func=np.positive,
    )
    rows = np.eye(20, 3)
    for targets, told in ((np.ones(20), 0), (-np.ones(20), 1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(PrivacyBudgetError):
                model.fit(rows, targets)
        said = [w for w in caught if "not strictly inverse" in str(w.message)]
        assert (len(said) > 0) == told
