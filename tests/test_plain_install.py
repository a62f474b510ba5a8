"""Every default fit works where only the dependencies are installed."""

import subprocess
import sys
from pathlib import Path

import pytest

import skdpspectral

README = Path(__file__).parents[1] / "README.md"
# Packages of the optional dependencies.
BLOCK = """
import sys
OPTIONAL = {
    "attr", "attrs", "dask", "distributed", "dp_accounting", "flwr", "h5py",
    "matplotlib", "mpmath", "pandas", "polars", "psycopg", "pyarrow", "rich", "zarr",
}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Blocked())
"""
FITS = """
import warnings
import numpy as np
import skdpspectral
from skdpspectral import PrivacyAccountant

rng = np.random.default_rng(0)
n = 600
X, y = rng.uniform(-1.0, 1.0, (n, 3)), rng.uniform(-1.0, 1.0, n)
users, items = rng.integers(0, 60, n), rng.integers(0, 8, n)
DATA = {
    "DPAdamClassifier": ((X, y > 0.0), {}),
    "DPAdamRegressor": ((X, y), {}),
    "DPItemEmbedding": ((np.column_stack([users, items]), y), {}),
    "DPRidge": ((X, y), {}),
    "DPRidgeClassifier": ((X, y > 0.0), {}),
    "DPMatrixFactorization": ((np.column_stack([users, items]), y), {}),
    "FederatedDPPCA": ((X,), {"clients": np.repeat(np.arange(2), n // 2)}),
    "LRSMLPRegressor": ((X, y), {"users": users}),
    "LRSRegressor": ((X, y), {"users": users}),
}
warnings.simplefilter("ignore")
fitted = []
kinds = [getattr(skdpspectral, name) for name in skdpspectral.__all__]
for kind in kinds:
    if not hasattr(kind, "fit"):
        continue
    name = kind.__name__
    args, further = DATA.get(name, ((X,), {}))
    given = {"target_bounds": (-1, 1)} if name == "DPAdamRegressor" else {}
    kind(**given).fit(*args, **further)
    ledger = PrivacyAccountant(40.0, 1e-6)
    kind(accountant=ledger, **given).fit(*args, **further)
    assert 0.9 < ledger.spent().epsilon <= 1.0 + 1e-9, (name, ledger.spent())
    fitted.append(name)
print(*fitted)
"""


def run(code):
    command = [sys.executable, "-c", BLOCK + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.dependencies
def test_default_fits_need_no_optional_package():
    kinds = [
        n for n in skdpspectral.__all__ if hasattr(getattr(skdpspectral, n), "fit")
    ]
    assert run(FITS) == kinds
    assert {"DPAdamClassifier", "DPAdamRegressor", "LRSMLPRegressor"} <= {*kinds}


@pytest.mark.slow
@pytest.mark.dependencies
def test_the_readme_needs_no_optional_package():
    code = f"""
import re, warnings
warnings.simplefilter("ignore")
text = open({str(README)!r}).read()
names = {{}}
for block in re.findall(r"^```python\\n(.*?)^```$", text, re.M | re.S):
    if "fetch_openml" in block:  # frames need pandas, and the network
        continue
    exec(block, names)
print(names["pca"].privacy_.epsilon)
"""
    assert float(run(code)[-1]) == 2.0
