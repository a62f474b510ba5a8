"""What every test of bad input does: cases, scenes to play them on, and checks."""

import math
import pickle
import re
import traceback
from collections.abc import Callable
from typing import NamedTuple

import pytest
import sklearn

from skdpspectral import LedgerError, PrivacyAccountant, PrivacyBudgetError


class Bad(NamedTuple):
    """A call that must fail: the mistake, and what its error must name."""

    mistake: str
    call: Callable
    names: tuple
    error: type | tuple = ValueError
    # Whether the mistake is in a value, which is read once a fit is charged.
    in_values: bool = False


def bad(mistake, call, *names, error=ValueError):
    """Return a case; ``call(scene)`` must raise `error` and name `names`."""
    return Bad(mistake, call, names, error)


def mark_values(cases, mistakes):
    """Return the cases, with those marked whose mistake is in a value."""
    assert set(mistakes) <= {case.mistake for case in cases}
    return [case._replace(in_values=case.mistake in mistakes) for case in cases]


def as_parameters(cases):
    """Cases for ``pytest.mark.parametrize``."""
    return [
        pytest.param(case, id=f"{number}-{case.mistake}")
        for number, case in enumerate(cases)
    ]


def refused_fits(other_unit, other_neighbors):
    """Cases of fits that a ledger refuses, one of another unit among them."""

    def fit_under_another_unit(scene):
        ledger = PrivacyAccountant(unit=other_unit, neighbors=other_neighbors)
        scene.fit(accountant=ledger)

    def no_limit(epsilon):
        return bad(
            "no limit",
            lambda s: s.fit(epsilon=epsilon),
            "epsilon",
            "number",
            error=PrivacyBudgetError,
        )

    return [
        bad(
            "too dear",
            lambda s: s.fit(epsilon=3.0),
            "epsilon",
            "remains",
            error=PrivacyBudgetError,
        ),
        no_limit(None),
        no_limit(math.inf),
        bad(
            "seed with a budget",
            lambda s: s.fit(noise_seed=0),
            "noise_seed",
            "allow_seeded=True",
            error=PrivacyBudgetError,
        ),
        bad(
            f"ledger of {other_unit}s",
            fit_under_another_unit,
            "separate ledger",
            "per user",
            error=LedgerError,
        ),
    ]


def fixtures(make_scene):
    """Fixtures of a test module: a scene, and a stage that many calls share.

    A scene is made in a folder, and has ``check_untouched(charges)``, which lets pass
    so many charges at most, and ``renew()``, which replaces its ledgers; calls share
    one as long as they leave it untouched.
    """

    @pytest.fixture
    def scene(tmp_path):
        return make_scene(tmp_path)

    @pytest.fixture(scope="module")
    def scenes():
        return []

    @pytest.fixture
    def stage(tmp_path_factory, scenes):
        if not scenes:
            scenes.append(make_scene(tmp_path_factory.mktemp("stage")))
        yield scenes[0]
        if not renew_if_charged(scenes[0]):
            scenes.clear()

    return scene, scenes, stage


def _says(message, name):
    """Whether a message holds a name, and not within a longer one."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) is not None


def check_call(case, stage, secrets=()):
    """Play a case: the right error, which names what it must and quotes no secret."""
    with pytest.raises(case.error) as caught:
        case.call(stage)
    missing = [name for name in case.names if not _says(str(caught.value), name)]
    assert not missing, str(caught.value)
    stage.check_untouched(case.in_values)
    report = "".join(traceback.format_exception_only(caught.value))
    assert not [secret for secret in secrets if str(secret) in report]


def check_without_validation(cases, scene):
    """Mistakes are found, and cost nothing, where scikit-learn looks for none."""
    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
        for case in cases:
            renew_if_charged(scene)
            with pytest.raises(case.error):
                case.call(scene)
            scene.check_untouched(case.in_values)


def state_of(*values):
    """Return what is the same as long as nothing of the values has changed.

    A hash of joblib's takes some twenty times as long, and knows in addition when
    other objects are alike. Attributes of an estimator may change their order.
    """
    return pickle.dumps([_in_order(value) for value in values], protocol=5)


def _in_order(value):
    if isinstance(value, list):
        return [_in_order(part) for part in value]
    return sorted(value.items()) if isinstance(value, dict) else value


def renew_if_charged(scene):
    """Give a scene new ledgers, which takes ten times as long as a bad call.

    Returns whether it is as it was then; a new scene takes ten times as long again.
    """
    for _ in range(2):
        try:
            scene.check_untouched()
            return True
        except AssertionError:
            scene.renew()
    return False


def check_that_a_charge_shows(scene):
    """What `check_untouched` would miss, no test of a bad call would find."""
    scene.fit()
    with pytest.raises(AssertionError, match="was charged"):
        scene.check_untouched()
    scene.accountant = PrivacyAccountant()
    with pytest.raises(AssertionError, match="was lost"):
        scene.check_untouched()


def check_messages_differ(cases, scene, at_least):
    """Different mistakes have different messages, `at_least` so many."""
    mistakes = {}
    for case in cases:
        renew_if_charged(scene)
        # What does not fail, or fails in another way, fails check_call.
        try:
            case.call(scene)
        except Exception as error:
            mistakes.setdefault(str(error), set()).add(case.mistake)
    alike = {text: names for text, names in mistakes.items() if len(names) > 1}
    assert not alike, alike
    assert len(mistakes) > at_least
