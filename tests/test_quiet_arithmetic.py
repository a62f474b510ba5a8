"""Whatever numpy is asked to do about underflow, no row makes a fit warn or fail."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest
from estimators import ENTRIES, IDS, ROWS, STARS

import skdpspectral
from skdpspectral._linalg.walks import map_in_threads, quietly

ROOT = Path(skdpspectral.__file__).parent
# Clipped, its square underflows; products of a block do too.
TINY = ROWS / 2
TINY[:10] = [1e300, 1e-300, 0.0, 5e-324]
# Over a fifth of a range of 20 the smallest of floats underflows.
RATINGS = np.where(IDS == 3, 5e-324, 1.0)
FITS = [
    (name, n_jobs)
    for name, entry in ENTRIES.items()
    for n_jobs in ((None, 2) if hasattr(entry.estimator, "n_jobs") else (None,))
]


@pytest.mark.filterwarnings("ignore:.*above the noise:UserWarning")
@pytest.mark.parametrize("errors", ["warn", "raise"])
@pytest.mark.parametrize(("name", "n_jobs"), FITS)
def test_fits_are_quiet(name, n_jobs, errors):
    entry = ENTRIES[name]
    model = entry.make(**({"n_jobs": n_jobs} if n_jobs else {}))
    X, y = entry.X, entry.y
    if y is STARS:
        model.set_params(rating_range=(-10, 10))
        y = RATINGS
    else:
        X = TINY
    with warnings.catch_warnings(), np.errstate(all=errors):
        warnings.simplefilter("error", RuntimeWarning)
        entry.fit(model, X, y)
        assert np.geterr()["under"] == errors


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_what_is_mapped_in_threads_is_quiet(n_jobs):
    """Threads begin with numpy's defaults, whatever is around the call."""

    def overflows(value):
        return float(np.multiply(np.float64(1e308), value))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(map_in_threads(overflows, range(30), n_jobs))
    assert found[:2] == [0.0, 1e308]
    assert found[2:] == [np.inf] * 28


def test_quiet_functions_leave_the_settings_as_they_were():
    with np.errstate(all="raise"):
        assert quietly(np.log)(0.0) == -np.inf
        with pytest.raises(FloatingPointError):
            np.log(np.float64(0.0))


def test_threads_are_started_where_they_are_made_quiet():
    """Elsewhere by processes, or by contexts that hold what is ignored."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module in ("joblib", "concurrent.futures", "multiprocessing.pool")
        and [name.name for name in node.names] != ["Memory"]
    }
    # Pipelines start no threads. Clients answer in copies of the context, and blocks of
    # searches may be processes: each is quiet itself.
    assert found <= {
        "_base/estimator.py",
        "model_selection/_vote.py",
        "_linalg/walks.py",
        "decomposition/_federated_client.py",
        "_base/privacy_report.py",
    }
