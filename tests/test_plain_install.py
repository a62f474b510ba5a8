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
FITS = f"""
import sys, warnings
sys.path.insert(0, {str(Path(__file__).parent / "tools")!r})
from estimators import ENTRIES
from skdpspectral import PrivacyAccountant

warnings.simplefilter("ignore")
for name, entry in ENTRIES.items():
    entry.fit(entry.make())
    ledger = PrivacyAccountant(40.0, 1e-6)
    entry.fit(entry.make(accountant=ledger))
    assert 0.9 < ledger.spent().epsilon <= 1.0 + 1e-9, (name, ledger.spent())
print(*sorted(ENTRIES))
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


@pytest.mark.slow
@pytest.mark.dependencies
def test_the_readme_needs_no_optional_package():
    code = f"""
import re, warnings
warnings.simplefilter("ignore")
text = open({str(README)!r}).read()
names = {{}}
for block in re.findall(r"^```python\\n(.*?)^```$", text, re.M | re.S):
    exec(block, names)
print(names["pca"].privacy_.epsilon)
"""
    assert float(run(code)[-1]) == 2.0
