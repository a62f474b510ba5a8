"""Bad input to DPMatrixFactorization: named, free of charge, nothing lost or quoted."""

import pytest
from bad_calls_factors import CASES, Scene
from bad_calls_items import SECRET_ITEM, SECRET_RATING, SECRET_USER
from bad_cases import (
    as_parameters,
    check_call,
    check_messages_differ,
    check_that_a_charge_shows,
    check_without_validation,
    fixtures,
)

from skdpspectral import DPMatrixFactorization, PrivacyLeakWarning

# Warnings come before what refuses the fit.
pytestmark = [
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:items=None:UserWarning"),
    pytest.mark.filterwarnings("ignore:columns of X beside users:UserWarning"),
]
scene, scenes, stage = fixtures(Scene)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", as_parameters(CASES))
def test_bad_call(case, stage):
    check_call(case, stage, (SECRET_USER, SECRET_ITEM, SECRET_RATING))


@pytest.mark.slow
def test_privacy_does_not_rest_on_an_optional_validation(scene):
    check_without_validation(CASES, scene)


@pytest.mark.slow
def test_different_mistakes_have_different_messages(scene):
    check_messages_differ(CASES, scene, at_least=120)


def test_a_good_call_is_seen_to_be_charged_and_to_change_the_state(scene):
    check_that_a_charge_shows(scene)


def test_there_are_many_cases_of_its_own():
    own = [case for case in CASES if "DPMatrix" in str(case.call.__code__.co_names)]
    assert len(CASES) > 200
    assert len(own) > 10


def test_privacy_is_switched_off_loudly(scene):
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        model = DPMatrixFactorization(2, epsilon=None).fit(scene.X, scene.y)
    assert not model.privacy_.private
