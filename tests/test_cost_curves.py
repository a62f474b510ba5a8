"""The scripts that measure speed: fitted slopes, and the page made of figures."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "examples" / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_slopes_are_of_the_larger_sizes(script, power):
    sizes = 100.0 * 2.0 ** np.arange(6)
    values = 3e-6 * sizes**power
    values[:2] = 5.0  # what a fit of no size costs
    assert script("cost_curves").slope(sizes, values) == pytest.approx(power)
    assert script("cost_curves").slope(sizes[:1], values[:1]) is None


def test_every_way_is_of_a_case(script):
    sides = script("speed_sides")
    assert set(sides.SIDES) == set(sides.CASES)
    for ways in sides.SIDES.values():
        assert next(iter(ways.values())).module == "skdpspectral"


def test_ways_take_turns_and_what_is_missing_is_said(tmp_path):
    record = tmp_path / "peers.txt"
    command = [sys.executable, str(BENCHMARKS / "speed_peers.py"), "--quick"]
    command += ["--only", "accounting", "--repeats", "1", "--record", str(record)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ours, theirs = map(json.loads, record.read_text().splitlines())
    assert ours["ours_over_it"] == 1.0
    assert ours["cpu_s"] > 0.0
    if "left_out" in theirs:
        assert "dp_accounting is not there" in done.stdout


def test_the_page_is_made_of_what_was_recorded(script, tmp_path, monkeypatch):
    run_all = script("run_all")
    monkeypatch.setattr(run_all, "DOC", tmp_path)
    (tmp_path / "_static").mkdir()
    (tmp_path / run_all.MACHINE).write_text(json.dumps(run_all.machine()))
    way = {"case": "scaler", "size": {"n": 2000}, "way": "ours"}
    figures = {"cpu_s": 0.25, "peak_mb": 300.0, "ours_over_it": 1.0}
    lines = [way | figures, way | {"way": "theirs", "left_out": "it is not there"}]
    (tmp_path / run_all.PEERS).write_text("\n".join(map(json.dumps, lines)))
    points = [
        {"curve": "rows", "size": size, "cpu_s": 1e-6 * size, "peak_mb": 250.0}
        for size in (1000, 2000, 4000, 8000)
    ]
    (tmp_path / run_all.CURVES).write_text("\n".join(map(json.dumps, points)))
    run_all.write_page(tmp_path)
    text = (tmp_path / "benchmarks_table.rst").read_text()
    for part in ("(n = 2,000)", "- 0.25\n", "left out here", "- 1.00\n"):
        assert part in text
    assert "<svg" in (tmp_path / "_static/cost_curves.svg").read_text()
