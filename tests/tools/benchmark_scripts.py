"""Functions of the scripts in ``examples/benchmarks``, for their tests."""

import importlib.util
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "examples" / "benchmarks"


def load(name):
    """Import a script without its folder on the path, where names repeat others'."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
