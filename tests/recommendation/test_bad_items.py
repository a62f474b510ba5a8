"""Bad input to DPItemEmbedding: named, free of charge, nothing lost, nothing quoted."""

import traceback

import numpy as np
import pytest
from bad_calls_items import (
    CASES,
    SECRET_ITEM,
    SECRET_RATING,
    SECRET_USER,
    Scene,
)
from bad_cases import (
    as_parameters,
    check_call,
    check_messages_differ,
    check_that_a_charge_shows,
    check_without_validation,
    fixtures,
)

from skdpspectral import DPItemEmbedding, PrivacyAccountant, PrivacyLeakWarning

# Rows without names are given to an estimator that was fitted with names.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
# Warnings come before what refuses the fit.
no_warning = pytest.mark.filterwarnings(
    "ignore::skdpspectral.PrivacyLeakWarning", "ignore:items=None:UserWarning"
)


scene, scenes, stage = fixtures(Scene)


@pytest.mark.sampled(4)
@no_warning
@pytest.mark.parametrize("case", as_parameters(CASES))
def test_bad_call(case, stage):
    check_call(case, stage, (SECRET_USER, SECRET_ITEM, SECRET_RATING))


@pytest.mark.slow
@no_warning
def test_privacy_does_not_rest_on_an_optional_validation(scene):
    check_without_validation(CASES, scene)


@pytest.mark.slow
@no_warning
def test_different_mistakes_have_different_messages(scene):
    check_messages_differ(CASES, scene, at_least=120)


def test_a_good_call_is_seen_to_be_charged_and_to_change_the_state(scene):
    check_that_a_charge_shows(scene)


@pytest.mark.parametrize("column", ["user_id", "item_id", "hour"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_error_quotes_the_rows_beside_a_bad_one(scene, column, value):
    X = scene.X.astype(object)
    X[column] = X[column].where(X.index > 3, value)
    if column == "hour":
        X[column] = X[column].astype(float)
    told = r"missing ids|NaN or infinity|ids from .* are not exact"
    with pytest.raises(ValueError, match=told) as caught:
        scene.fit(X)
    report = "".join(traceback.format_exception(caught.value))
    for secret in (SECRET_USER, SECRET_ITEM, SECRET_RATING):
        assert str(secret) not in report
    scene.check_untouched(charges=1)


def test_privacy_is_switched_off_loudly(scene):
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        model = DPItemEmbedding(2, epsilon=None, remainder=[]).fit(scene.X, scene.y)
    assert not model.privacy_.private


def test_a_warning_that_is_raised_as_an_error_costs_nothing(scene):
    scene.accountant = PrivacyAccountant()
    with pytest.raises(PrivacyLeakWarning):
        scene.fit(epsilon=None)
    with pytest.raises(UserWarning, match="pass the public catalog"):
        scene.fit(items=None)
    scene.check_untouched()
