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


@pytest.mark.slow
@pytest.mark.dependencies
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


def test_points_of_the_record_are_not_measured_again(script, tmp_path, monkeypatch):
    curves, record = script("cost_curves"), tmp_path / "curves.txt"
    asked = []

    def best_of(name, size, repeats):
        asked.append(size)
        return {"cpu_s": 1e-6 * size, "peak_mb": 250.0}

    monkeypatch.setattr(curves, "best_of", best_of)
    given = ["", "--quick", "--only", "steps", "--record", str(record)]
    monkeypatch.setattr(sys, "argv", given)
    curves.main()
    assert asked == curves.sizes_of("steps", quick=True)
    lines = record.read_text().splitlines()
    record.write_text(lines[0] + "\n" + lines[1][:20])  # it was broken off
    del asked[:]
    curves.main()
    assert asked == curves.sizes_of("steps", quick=True)[1:]


def test_ways_of_the_record_are_not_measured_again(script, tmp_path):
    peers, record = script("speed_peers"), tmp_path / "peers.txt"
    options = type("Options", (), {"threads": 1})
    ways = list(peers.SIDES["adam"])
    lines = [
        {"case": "adam", "size": {"n": 1}, "way": way, "threads": 1, "cpu_s": 1.0}
        for way in ways
    ]
    record.write_text("\n".join(map(json.dumps, lines[:1])) + "\n")
    assert peers.recorded(record, "adam", {"n": 1}, options) is None
    record.write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert peers.recorded(record, "adam", {"n": 1}, options) == lines
    assert peers.recorded(record, "adam", {"n": 2}, options) is None


@pytest.mark.slow
@pytest.mark.dependencies
def test_curves_are_drawn_in_bands(script, tmp_path):
    curves = script("cost_curves")
    points = [{"size": 2**k, "cpu_s": 2.0**k, "peak_mb": 200.0} for k in range(3)]
    found = dict.fromkeys(list(curves.CURVES), points)
    curves.draw(found, str(tmp_path / "curves.svg"))
    drawn = (tmp_path / "curves.svg").read_text()
    assert drawn.count("slope 1.00") == len(found)
    assert all(f">{name}</text>" in drawn for name in found)
