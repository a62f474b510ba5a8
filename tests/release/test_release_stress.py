"""The stress of ledgers and streams: a short run of it, and that it would find faults.

``examples/benchmarks/release_stress.py`` is the whole of it, for minutes.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skdpspectral

BENCHMARKS = Path(__file__).parents[2] / "examples" / "benchmarks"
pytestmark = pytest.mark.skipif(
    not BENCHMARKS.is_dir() or not hasattr(os, "fork"),
    reason="needs the repository's examples, and a system with fork",
)


@pytest.mark.slow
def test_a_short_stress_finds_no_fault():
    """Threads, tasks, forks, processes, joblib, copies, audits and kills, all at once.

    Its tests of the noise fail by chance in at most one of 10 000 runs.
    """
    root = str(Path(skdpspectral.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    environment |= {"OPENBLAS_NUM_THREADS": "1"}
    script = str(BENCHMARKS / "release_stress.py")
    done = subprocess.run(
        [sys.executable, script, "--seconds", "5", "--patience", "200"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no fault found" in done.stdout
    assert "crowd: came to its end" in done.stdout


# -- its checks can fail ---------------------------------------------------------


def stress_log():
    specification = importlib.util.spec_from_file_location(
        "stress_log", BENCHMARKS / "stress_log.py"
    )
    module = sys.modules.setdefault(
        "stress_log", importlib.util.module_from_spec(specification)
    )
    specification.loader.exec_module(module)
    return module


def results(count=400, scale=1.0, law="normal"):
    """Records of releases of one ledger, as a run without faults has them."""
    draws = scale * np.random.default_rng(0).standard_normal((count, 10))
    if law == "sphere":
        draws = draws[:, :3] / np.linalg.norm(draws[:, :3], axis=1)[:, None]
    return [
        {"event": "release", "actor": "fit", "ledger": "a", "label": f"fit/{number}",
         "law": law, "entries": 1, "shared": False, "draws": [draw]}
        for number, draw in enumerate(draws)
    ]  # fmt: skip


def faults(records, entries=None, budgets=None):
    if entries is None:
        entries = [{"label": f"fit/{number}"} for number in range(len(records))]
    report = stress_log().check_run(records, {"a": entries}, budgets or {})
    return " ".join(report.faults)


def test_a_missing_entry_is_found_beside_surplus_ones():
    """Fits that were killed leave entries without results: sums would hide it."""
    entries = [{"label": f"fit/{number}"} for number in range(1, 400)]
    entries += [{"label": "killed"}] * 10
    assert "fit: 1 results without an entry" in faults(results(), entries)


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_noise_of_another_size_is_found(scale):
    """Of 20 000 numbers; it is missed with a probability below 1e-12."""
    assert "another deviation" in faults(results(2000, scale))
