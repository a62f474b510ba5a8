"""What has to be in the environment before numpy and scipy are imported."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Threads of linear algebra that wait in a loop for a core make tests that run side
    # by side up to ten times slower.
    for _library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# scikit-learn skips its checks of array API input where scipy's support is off. Set and
# empty, the variable leaves it off, as it is for most users.
if os.environ.setdefault("SCIPY_ARRAY_API", "1") == "":
    del os.environ["SCIPY_ARRAY_API"]
