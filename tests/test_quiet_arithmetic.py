"""Whatever numpy is asked to do about underflow, no row makes a fit warn or fail."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

import skdpspectral
from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPAdamRegressor,
    DPItemEmbedding,
    DPMatrixFactorization,
    DPRidge,
    DPRidgeClassifier,
    DPStandardScaler,
    DPTableVectorizer,
    FederatedDPPCA,
    JMECovariance,
    LRSMLPRegressor,
    LRSRegressor,
    SparseDPPCA,
)
from skdpspectral._linalg.walks import map_in_threads, quietly
from skdpspectral.neural_network import Adam

ROOT = Path(skdpspectral.__file__).parent
# Clipped, its square underflows; products of a block do too.
ROW = np.array([1e300, 1e-300, 0.0, 5e-324])
ROWS = np.random.default_rng(0).standard_normal((240, 4)) / 2
ROWS[:40] = ROW
CLIENTS = np.arange(240) // 60
USERS = np.arange(240) // 10
RATED = np.column_stack([USERS, np.arange(240) % 8])
# Over a fifth of a range of 20 the smallest of floats underflows.
RATINGS = np.where(USERS == 3, 5e-324, 1.0)
COMMON = {"items": range(8), "rating_range": (-10, 10)}

FITS = {
    "DPPCA": lambda: DPPCA(2).fit(ROWS),
    "SparseDPPCA": lambda: SparseDPPCA(2).fit(ROWS),
    "DPAdamClassifier": lambda: DPAdamClassifier(3, classes=[0, 1]).fit(
        ROWS, USERS % 2
    ),
    "DPAdamRegressor": lambda: DPAdamRegressor(
        3, target_bounds=(-1, 1), optimizer=Adam(moments="clip")
    ).fit(ROWS, ROWS),
    "DPRidge": lambda: DPRidge(bounds=(-9, 9), target_bounds=(-9, 9)).fit(
        ROWS, ROWS[:, :2]
    ),
    "DPRidgeClassifier": lambda: DPRidgeClassifier(
        bounds=(-9, 9), classes=[0, 1, 2]
    ).fit(ROWS, USERS % 3),
    "DPStandardScaler": lambda: DPStandardScaler().fit(ROWS),
    "DPTableVectorizer": lambda: DPTableVectorizer().fit(ROWS),
    "JMECovariance": lambda: JMECovariance().fit(ROWS),
    "DPItemEmbedding": lambda: DPItemEmbedding(
        1, **{"rating_range": (1, 5), **COMMON}
    ).fit(RATED, RATINGS),
}
for threads in (None, 2):
    FITS |= {
        f"{name}, n_jobs={threads}": lambda fit=fit, n=threads: fit(n)
        for name, fit in {
            "FederatedDPPCA": lambda n: FederatedDPPCA(2, n_jobs=n).fit(
                ROWS, clients=CLIENTS
            ),
            "LRSRegressor": lambda n: LRSRegressor(user_feature=None, n_jobs=n).fit(
                ROWS, ROWS[:, 0], users=USERS
            ),
            "LRSMLPRegressor": lambda n: LRSMLPRegressor(
                hidden_layer_sizes=3, n_jobs=n
            ).fit(ROWS, ROWS[:, 0], users=USERS),
            "DPMatrixFactorization": lambda n: DPMatrixFactorization(
                n_jobs=n, **{"rating_range": (1, 5), **COMMON}
            ).fit(RATED, RATINGS),
        }.items()
    }


@pytest.mark.filterwarnings("ignore:.*above the noise:UserWarning")
@pytest.mark.parametrize("errors", ["warn", "raise"])
@pytest.mark.parametrize("name", FITS)
def test_fits_are_quiet(name, errors):
    with warnings.catch_warnings(), np.errstate(all=errors):
        warnings.simplefilter("error", RuntimeWarning)
        FITS[name]()
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
    # A report looks at joblib's type of a cache, and starts nothing. Clients answer in
    # copies of the context, and are quiet themselves; searches and pipelines ask joblib
    # for threads, which the kernels of their fits make quiet. Blocks that vote
    # may be processes of joblib, each of which is quiet itself.
    assert found <= {
        "pipeline/_pipeline.py",
        "model_selection/_candidates.py",
        "model_selection/_vote.py",
        "_linalg/walks.py",
        "decomposition/_federated_client.py",
        "audit/_epsilon.py",
        "_base/privacy_report.py",
    }
