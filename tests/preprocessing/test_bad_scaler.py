"""Bad input to DPStandardScaler: named, free of charge, nothing lost or quoted."""

import numpy as np
import pytest
import sklearn
from bad_calls_scaler import CASES, INF, NAN, SECRET, Scene
from bad_cases import (
    as_parameters,
    check_call,
    check_messages_differ,
    check_that_a_charge_shows,
    check_without_validation,
    fixtures,
)

from skdpspectral import DPStandardScaler
from skdpspectral._release.release import record_releases

pytestmark = [
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning"),
]

scene, scenes, stage = fixtures(Scene)


@pytest.mark.parametrize("case", as_parameters(CASES))
def test_bad_call(case, stage):
    check_call(case, stage, [SECRET])


@pytest.mark.slow
@pytest.mark.dependencies
def test_privacy_does_not_rest_on_an_optional_validation(scene):
    nobody_looks = {"NaN", "infinity"}
    found = [case for case in CASES if case.mistake not in nobody_looks]
    check_without_validation(found, scene)


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
    check_that_a_charge_shows(scene)
