"""The tools of .ci, and what a package must hold to be used with types."""

import importlib.resources
import re
import subprocess
from pathlib import Path

import pytest
import test_architecture as architecture
from benchmark_scripts import load

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".ci"
ROOMS = {"mechanisms", "accounting", "audit"}
INSIDE = ("skdpspectral", "audit")


@pytest.fixture(scope="module")
def house():
    return load(TOOLS / "house.py")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from ..mechanisms import Gaussian", {"mechanisms"}),
        ("from .. import mechanisms, accounting", {"mechanisms", "accounting"}),
        ("from .._nowhere import thing", {"__init__"}),
        ("from .. import DPPCA", {"__init__"}),
        ("from . import _report", {"audit"}),
        ("import skdpspectral.accounting._ledger.store", {"accounting"}),
        ("import skdpspectral", {"__init__"}),
        ("from skdpspectral.mechanisms._plan import PrivacyPlan", {"mechanisms"}),
        ("def later():\n    from ..accounting import Spent", {"accounting"}),
        ("import numpy.linalg\nfrom scipy import sparse", set()),
    ],
)
def test_imports_are_seen(house, source, found):
    assert house.imported_rooms(source, INSIDE, ROOMS) == found


def test_floors_are_counted_from_below(house):
    graph = {"roof": {"room", "cellar"}, "room": {"cellar"}, "cellar": set()}
    assert house.floors(graph) == {"cellar": 0, "room": 1, "roof": 2}


def test_cycles_end_the_script(house):
    with pytest.raises(SystemExit, match="a -> b -> a"):
        house.floors({"a": {"b"}, "b": {"a"}})


def test_the_package_has_floors(house):
    graph = house.import_graph()
    floors = house.floors(graph)
    assert floors["mechanisms"] == floors["_linalg"] == 0
    assert floors["_release"] > floors["accounting"] > floors["mechanisms"]
    assert floors["decomposition"] > floors["_statistics"]
    # The same rooms, and no import that the rules do not allow.
    assert set(graph) == set(architecture.ALLOWED)
    for room, below in graph.items():
        assert below - {"__init__"} <= architecture.ALLOWED[room], room


DATA = ["data/rows.txt", "tests/data/a.txt", "x.csv", "a.NPZ", "doc/b.tar.gz", "l.db"]
SOURCES = ["skdpspectral/datasets.py", "doc/data.rst", "metadata.py", "py.typed"]


def test_data_are_refused():
    complaint = load(TOOLS / "check_files.py").complaint
    assert all(complaint(name) for name in DATA)
    assert not any(complaint(name) for name in SOURCES)


def test_large_files_are_refused(tmp_path):
    check = load(TOOLS / "check_files.py")
    small, large = tmp_path / "small.py", tmp_path / "large.py"
    small.write_bytes(bytes(check.LARGEST))
    large.write_bytes(bytes(check.LARGEST + 1))
    assert check.main([str(small)]) == 0
    assert check.main([str(small), str(large)]) == 1


def run_stages(*arguments):
    command = ["bash", str(TOOLS / "run"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_stages_are_those_of_the_page():
    stages = run_stages("--list").stdout.split()
    page = (ROOT / "doc" / "contributing.rst").read_text()
    assert re.findall(r"^   \* - ``(\w+)``$", page, re.M) == stages
    unknown = run_stages("no-such-stage")
    assert unknown.returncode == 2
    assert "no stage no-such-stage" in unknown.stderr


def test_the_package_is_marked_as_typed():
    assert (importlib.resources.files("skdpspectral") / "py.typed").is_file()
