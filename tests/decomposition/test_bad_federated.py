"""Bad input to federated estimators: named, free of charge, nothing lost or quoted."""

import traceback

import numpy as np
import pytest
import sklearn
from bad_calls_federated import CASES, IDS, SECRET, Scene
from bad_cases import fixtures
from sklearn.exceptions import NotFittedError

from skdpspectral import FederatedDPPCA, PrivacyBudgetError, SparseDPPCA

# It comes before the accountant's refusal.
pytestmark = pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
ERRORS = (ValueError, TypeError, PrivacyBudgetError)


scene, scenes, stage = fixtures(Scene)


# Charges of calls whose mistake is in a value, one a client.
IN_VALUES = {"NaN": 3, "infinity": 3}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
def test_bad_call(case, stage):
    call, says = CASES[case]
    with pytest.raises(ERRORS) as caught:
        call(stage)
    missing = [text for text in says if text not in str(caught.value)]
    assert not missing, str(caught.value)
    stage.check_untouched(IN_VALUES.get(case, 0))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES)
def test_privacy_does_not_rest_on_an_optional_validation(case, stage):
    with (
        sklearn.config_context(skip_parameter_validation=True),
        pytest.raises(Exception),  # noqa: B017
    ):
        CASES[case][0](stage)
    stage.check_untouched(IN_VALUES.get(case, 0))


def test_there_are_many_mistakes():
    assert len(CASES) >= 80


def test_a_good_call_is_seen(scene):
    scene.fit()
    with pytest.raises(AssertionError, match="was charged"):
        scene.check_untouched()


@pytest.mark.parametrize("cls", [FederatedDPPCA, SparseDPPCA])
def test_nothing_is_given_before_a_fit(cls, scene):
    for call in (cls().transform, cls().inverse_transform):
        with pytest.raises(NotFittedError):
            call(scene.X)


LEAKY_IDS = {
    "missing": [*[SECRET] * 59, None],
    "lists": [[SECRET]] * 60,
    "short": [SECRET] * 9,
    "table": np.full((60, 1), SECRET),
}


@pytest.mark.parametrize("clients", LEAKY_IDS.values(), ids=LEAKY_IDS)
def test_errors_quote_no_id_of_a_row(scene, clients):
    with pytest.raises((ValueError, TypeError)) as caught:
        scene.fit(clients=clients)
    report = "".join(traceback.format_exception(caught.value))
    assert f"{SECRET:.0f}"[:4] not in report.replace(__file__, "")


@pytest.mark.parametrize(
    "X", [np.full((60, 4), f"{SECRET} euros"), np.full((60, 4), SECRET + 1j)]
)
def test_errors_quote_no_value(scene, X):
    with pytest.raises(ValueError) as caught:
        scene.fit(X, clients=IDS)
    report = "".join(traceback.format_exception(caught.value))
    assert f"{SECRET:.0f}"[:4] not in report.replace(__file__, "")
