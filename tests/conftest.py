"""Tests that run side by side leave the cores to each other."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Set before numpy is imported: threads of linear algebra that wait in a loop for
    # a core make some tests ten times slower.
    for _library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
