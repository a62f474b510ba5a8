"""Bad input to DPItemEmbedding: named, free of charge, nothing lost, nothing quoted."""

import re
import traceback

import numpy as np
import pytest
import sklearn
from bad_calls_items import (
    CASES,
    SECRET_ITEM,
    SECRET_RATING,
    SECRET_USER,
    Scene,
)

from skdpspectral import DPItemEmbedding, PrivacyAccountant, PrivacyLeakWarning

# Rows without names are given to an estimator that was fitted with names.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
# Warnings come before what refuses the fit.
no_warning = pytest.mark.filterwarnings(
    "ignore::skdpspectral.PrivacyLeakWarning", "ignore:items=None:UserWarning"
)


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


@pytest.fixture(scope="module")
def scenes():
    """One scene for many calls, as long as they leave it untouched."""
    return []


@pytest.fixture
def stage(tmp_path_factory, scenes):
    if not scenes:
        scenes.append(Scene(tmp_path_factory.mktemp("stage")))
    yield scenes[0]
    try:
        scenes[0].check_untouched()
    except AssertionError:
        scenes.clear()


def says(message, name):
    """Whether a message holds a name, and not within a longer one."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) is not None


EVERY_CASE = [
    pytest.param(case, id=f"{number}-{case.mistake}")
    for number, case in enumerate(CASES)
]


@no_warning
@pytest.mark.parametrize("case", EVERY_CASE)
def test_bad_call(case, stage):
    with pytest.raises(case.error) as caught:
        case.call(stage)
    message = str(caught.value)
    missing = [name for name in case.names if not says(message, name)]
    assert not missing, message
    report = "".join(traceback.format_exception_only(caught.value))
    for secret in (SECRET_USER, SECRET_ITEM, SECRET_RATING):
        assert str(secret) not in report
    stage.check_untouched()


@no_warning
def test_privacy_does_not_rest_on_an_optional_validation(scene):
    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
        for case in CASES:
            with pytest.raises(case.error):
                case.call(scene)
    scene.check_untouched()


@no_warning
def test_different_mistakes_have_different_messages(scene):
    mistakes = {}
    for case in CASES:
        # What does not fail, or fails in another way, fails test_bad_call.
        try:
            case.call(scene)
        except Exception as error:
            mistakes.setdefault(str(error), set()).add(case.mistake)
    assert not {text: names for text, names in mistakes.items() if len(names) > 1}
    assert len(mistakes) > 120


def test_a_good_call_is_seen_to_be_charged_and_to_change_the_state(scene):
    scene.fit()
    with pytest.raises(AssertionError, match="was charged"):
        scene.check_untouched()
    scene.accountant = PrivacyAccountant()
    with pytest.raises(AssertionError, match="was lost"):
        scene.check_untouched()


@pytest.mark.parametrize("column", ["user_id", "item_id", "hour"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_error_quotes_the_rows_beside_a_bad_one(scene, column, value):
    X = scene.X.astype(object)
    X[column] = X[column].where(X.index > 3, value)
    if column == "hour":
        X[column] = X[column].astype(float)
    if column != "hour" and value == np.inf:
        pytest.skip("infinity is an id as good as any")
    with pytest.raises(ValueError, match=r"missing ids|NaN or infinity") as caught:
        scene.fit(X)
    report = "".join(traceback.format_exception(caught.value))
    for secret in (SECRET_USER, SECRET_ITEM, SECRET_RATING):
        assert str(secret) not in report
    scene.check_untouched()


def test_privacy_is_switched_off_loudly(scene):
    with pytest.warns(PrivacyLeakWarning, match="without privacy"):
        model = DPItemEmbedding(2, epsilon=None).fit(scene.X, scene.y)
    assert not model.privacy_.private


def test_a_warning_that_is_raised_as_an_error_costs_nothing(scene):
    scene.accountant = PrivacyAccountant()
    with pytest.raises(PrivacyLeakWarning):
        scene.fit(epsilon=None)
    with pytest.raises(UserWarning, match="pass the public catalogue"):
        scene.fit(items=None)
    scene.check_untouched()
