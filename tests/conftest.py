"""What has to be in the environment before numpy and scipy are imported.

Which of many cases of a test a run at work leaves out, and the entropy of tests.
"""

import contextlib
import copy
import hashlib
import itertools
import os
import secrets
from collections import Counter

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Threads of linear algebra that wait in a loop for a core make tests that run side
    # by side up to ten times slower.
    for _library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# scikit-learn skips its checks of array API input where scipy's support is off. Set and
# empty, the variable leaves it off, as it is for most users.
if os.environ.setdefault("SCIPY_ARRAY_API", "1") == "":
    del os.environ["SCIPY_ARRAY_API"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what a run at work leaves out, before it is chosen by its marks.

    Of a test with ``sampled(every)``, one of so many cases is left.
    """
    seen = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None:
            continue
        number, (every,) = seen[item.parent, item.originalname], sampled.args
        seen[item.parent, item.originalname] += 1
        if number % every:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def own_code(monkeypatch):
    """Let pipelines fit steps that the report does not know."""
    from skdpspectral import pipeline
    from skdpspectral._base.privacy_report import PrivacyReport

    monkeypatch.setattr(pipeline, "report_after_charge", lambda _: PrivacyReport(()))


@pytest.fixture(autouse=True)
def generators_of_modules_start_anew(request, _states_of_generators={}):  # noqa: B006
    """Let no test draw what depends on which tests drew before it.

    A generator of a module has the state that the module's import left, in each test.
    """
    import numpy as np

    for name, value in vars(request.module).items():
        if isinstance(value, np.random.Generator):
            key = request.module.__name__, name
            bits = value.bit_generator
            first = _states_of_generators.setdefault(key, copy.deepcopy(bits.state))
            bits.state = copy.deepcopy(first)


class KeysOfATest:
    """Keys of noise that follow from a name, in the place of the system's entropy.

    Forked children have other keys than their parent, as they do outside of tests.
    """

    def __init__(self, name):
        salt = os.environ.get("SKDPSPECTRAL_TEST_NOISE", "")
        self._name, self._process = f"{salt}:{name}", os.getpid()
        self._numbers = itertools.count()

    def token_bytes(self, nbytes=32):
        process = os.getpid()
        text = f"{self._name}:{next(self._numbers)}"
        if process != self._process:
            text += f":{process}"
        return hashlib.shake_256(text.encode()).digest(nbytes)

    def randbits(self, k):
        return int.from_bytes(self.token_bytes((k + 7) // 8), "big") >> -k % 8


@contextlib.contextmanager
def keyed_by(name):
    """Give noise without a seed keys that follow from a name, inside of the context."""
    keys = KeysOfATest(name)
    with pytest.MonkeyPatch.context() as attributes:
        attributes.setattr(secrets, "randbits", keys.randbits)
        attributes.setattr(secrets, "token_bytes", keys.token_bytes)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let no chance decide a test: noise without a seed has the test's own keys.

    Tests about fresh entropy are marked with ``fresh_entropy``.
    SKDPSPECTRAL_TEST_NOISE, any text, changes all keys.
    """
    if item.get_closest_marker("fresh_entropy"):
        return (yield)
    with keyed_by(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Give what several tests share the same keys, whichever test is the first."""
    if fixturedef.scope == "function":
        return (yield)
    name = f"{fixturedef.baseid}:{fixturedef.argname}:{request.param_index}"
    with keyed_by(name):
        return (yield)
