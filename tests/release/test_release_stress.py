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


@pytest.mark.parametrize("law", ["normal", "sphere"])
def test_a_run_without_faults_passes(law):
    assert faults(results(law=law), budgets={"a": 400}) == ""


def test_a_missing_entry_is_found_beside_surplus_ones():
    """Fits that were killed leave entries without results: sums would hide it."""
    entries = [{"label": f"fit/{number}"} for number in range(1, 400)]
    entries += [{"label": "killed"}] * 10
    assert "fit: 1 results without an entry" in faults(results(), entries)


def test_an_overdrawn_budget_is_found():
    assert "the budget allows 399" in faults(results(), budgets={"a": 399})


def test_one_release_without_noise_is_found():
    records = results()
    records[7]["draws"][0] = 1e-9 * records[7]["draws"][0]
    assert "1 of 400 releases without noise" in faults(records)


def test_a_few_steps_without_noise_are_found():
    records = results()
    records[7]["draws"][0][3:6] = 1e-9
    assert "3 of 4000 numbers without noise" in faults(records)


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_noise_of_another_size_is_found(scale):
    """Of 20 000 numbers; it is missed with a probability below 1e-12."""
    assert "another deviation" in faults(results(2000, scale))


def test_directions_that_are_not_random_are_found():
    records = results(law="sphere")
    for record in records:
        record["draws"][0][0] **= 2
    assert "directions" in faults(records)


@pytest.mark.parametrize("law", ["normal", "sphere"])
def test_noise_that_is_used_twice_is_found(law):
    """Also where a part of it is, at another place, and to a rounding error."""
    records = results(law=law)
    part = records[3]["draws"][0][-3:] * (1.0 + 1e-15)
    records[8]["draws"][0] = np.r_[records[8]["draws"][0][:3], part]
    assert "1 releases repeat noise" in faults(records)


def test_what_threads_read_from_one_object_is_one_release():
    records = results()
    for record in records[:2]:
        record.update(label="fit/0", shared=True)
    records[1]["draws"] = [records[0]["draws"][0].copy()]
    entries = [{"label": f"fit/{number}"} for number in [0, 0, *range(2, 400)]]
    assert faults(records, entries) == ""


def test_failures_are_faults_and_refusals_are_not(tmp_path):
    log = stress_log().SideLog(str(tmp_path / "log"))
    draws = [np.random.default_rng(0).standard_normal(10)]
    log.release("fit", "a", "fit/0", draws, law="normal")
    log.count("fit", "refused")
    assert faults(log.records()) == ""
    log.failure("fit", "hangs")
    assert faults(log.records()) == "1 x fit: hangs"
