"""Bad input to DPStandardScaler: named, free of charge, nothing lost or quoted."""

import traceback

import pytest
import sklearn
from bad_calls_scaler import CASES, SECRET, Scene
from bad_cases import as_parameters, check_call, check_messages_differ, fixtures

from skdpspectral import PrivacyAccountant

pytestmark = [
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
]

scene, scenes, stage = fixtures(Scene)


@pytest.mark.parametrize("case", as_parameters(CASES))
def test_bad_call(case, stage):
    error = check_call(case, stage)
    assert str(SECRET) not in "".join(traceback.format_exception_only(error))


def test_privacy_does_not_rest_on_an_optional_validation(scene):
    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
        for case in CASES:
            scene.renew()
            with pytest.raises(case.error):
                case.call(scene)
            scene.check_untouched(case.in_values)


def test_different_mistakes_have_different_messages(scene):
    check_messages_differ(CASES, scene, at_least=40)


def test_a_good_call_is_seen_to_be_charged_and_to_change_the_state(scene):
    scene.fit()
    with pytest.raises(AssertionError, match="was charged"):
        scene.check_untouched()
    scene.accountant = PrivacyAccountant()
    with pytest.raises(AssertionError, match="was lost"):
        scene.check_untouched()
