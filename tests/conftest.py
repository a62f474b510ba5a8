"""What has to be in the environment before numpy and scipy are imported.

And which of many cases of a test a run at work leaves out.
"""

import copy
import os
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

    Of a test with ``sampled(every)``, one of so many cases is left. Runs with other
    dependencies take all of them.
    """
    if "dependencies" in config.option.markexpr:
        return
    seen = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None:
            continue
        number, (every,) = seen[item.parent, item.originalname], sampled.args
        seen[item.parent, item.originalname] += 1
        if number % every:
            item.add_marker(pytest.mark.slow)


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
