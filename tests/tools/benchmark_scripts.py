"""Scripts of the repository, for their tests."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load(script):
    """Import a script without its folder on the path, where names repeat others'.

    A name alone is that of a script in ``examples/benchmarks``.
    """
    path = ROOT / "examples" / "benchmarks" / f"{script}.py"
    path = path if isinstance(script, str) else script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
