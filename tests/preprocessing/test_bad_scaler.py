"""Bad input to DPStandardScaler: named, free of charge, nothing lost or quoted."""

import traceback

import numpy as np
import pytest
import sklearn
from bad_calls_scaler import CASES, INF, NAN, SECRET, Scene
from bad_cases import as_parameters, check_call, check_messages_differ, fixtures

from skdpspectral import DPStandardScaler, PrivacyAccountant
from skdpspectral._release.release import record_releases

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
            if case.mistake in {"NaN", "infinity"}:  # which nobody looks for now
                continue
            scene.renew()
            with pytest.raises(case.error):
                case.call(scene)
            scene.check_untouched(case.in_values)


def test_values_that_nobody_looked_for_make_no_release_infinite(scene):
    for value in (NAN, INF, -INF):
        for parameters in ({}, {"with_mean": False}, {"bounds": (-1e3, 1e3)}):
            model = DPStandardScaler(epsilon=20.0, **parameters)
            trusted = sklearn.config_context(assume_finite=True)
            with trusted, record_releases() as released:
                model.fit(scene.changed(value))
            assert all(np.isfinite(found).all() for found in released.values())
            assert np.isfinite(model.scale_).all()


def test_different_mistakes_have_different_messages(scene):
    check_messages_differ(CASES, scene, at_least=40)


def test_a_good_call_is_seen_to_be_charged_and_to_change_the_state(scene):
    scene.fit()
    with pytest.raises(AssertionError, match="was charged"):
        scene.check_untouched()
    scene.accountant = PrivacyAccountant()
    with pytest.raises(AssertionError, match="was lost"):
        scene.check_untouched()
