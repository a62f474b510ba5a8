"""A row of the tables of bad calls, and how one is tried."""

import math
import pickle
import re
import traceback
from collections.abc import Callable
from typing import NamedTuple

from skdpspectral import LedgerError, PrivacyAccountant, PrivacyBudgetError


class Bad(NamedTuple):
    """A call that must fail: the mistake, and what its error must name.

    The call takes a scene, which is made in a folder and has ``check_untouched``,
    which lets pass so many charges at most, and ``renew``, which replaces its ledgers.
    """

    mistake: str
    call: Callable
    names: tuple
    error: type | tuple = ValueError
    # 1 per fit whose mistake is in a value: values are read once a fit is charged.
    charges: int = 0


def bad(mistake, call, *names, error=ValueError):
    """Return a row; ``call(scene)`` must raise `error` and name `names`."""
    return Bad(mistake, call, names, error)


def mark_values(cases, mistakes):
    """Return the rows, with those marked whose mistake is in a value."""
    assert set(mistakes) <= {case.mistake for case in cases}
    return [case._replace(charges=int(case.mistake in mistakes)) for case in cases]


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


class Stage:
    """One scene, which many calls share as long as they leave it untouched.

    New ledgers take ten times as long as a bad call, and a new scene ten times as long
    again.
    """

    def __init__(self, make_scene, make_folder):
        self._make = lambda: make_scene(make_folder("scene"))
        self._scene = None

    def scene(self):
        """Return a scene that is as it was made."""
        if self._scene is None or not self._renewed():
            self._scene = self._make()
        return self._scene

    def _renewed(self):
        for _ in range(2):
            try:
                self._scene.check_untouched()
                return True
            except AssertionError:
                self._scene.renew()
        return False


def fault_of(case, scene, secrets=(), named=True):
    """Return what is wrong with how a bad call is refused; None if nothing is.

    The right error must come, name what it must where `named`, quote no secret, charge
    nothing that it need not, and change nothing.
    """
    try:
        case.call(scene)
    except case.error as error:
        message = str(error)
        report = "".join(traceback.format_exception_only(error))
    except Exception as error:
        return f"raised {error!r}"
    else:
        return "raised nothing"
    missing = [name for name in case.names if not _says(message, name)]
    if named and missing:
        return f"names no {missing}: {message}"
    quoted = [secret for secret in secrets if str(secret) in report]
    if quoted:
        return f"quotes {quoted}: {message}"
    try:
        scene.check_untouched(case.charges)
    except AssertionError as error:
        return str(error)
    return None


def _says(message, name):
    """Whether a message holds a name, and not within a longer one."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) is not None


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
