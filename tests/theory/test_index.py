"""The theory index: every row resolves, and every function that needs one has one."""

import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest
from benchmark_scripts import load

from skdpspectral import accounting, sensitivity

ROOT = Path(__file__).parents[2]
THEORY = ROOT / "doc" / "theory"
INDEX = (THEORY / "index.rst").read_text()
ROW = re.compile(
    r"\* - :ref:`(?:[^`<]*<)?([\w-]+)>?`\s+- (.*?)\s+- (.*?)(?=\n\s+\* -|\n\n|\Z)", re.S
)


def literals(text):
    return re.findall(r"``([^`]+)``", text)


ROWS = [
    (anchor, function, test)
    for anchor, functions, tests in ROW.findall(INDEX)
    for function in literals(functions)
    for test in literals(tests)
]


def test_the_index_was_found():
    assert len(ROWS) >= 20
    assert INDEX.count("* - :ref:") == len({m[0] + m[1] for m in ROW.findall(INDEX)})


@functools.cache
def pages_of_theory():
    return "\n".join(page.read_text() for page in sorted(THEORY.glob("*.rst")))


@pytest.mark.parametrize(("anchor", "function", "test"), ROWS)
def test_row_resolves(anchor, function, test):
    pages = pages_of_theory()
    statement = re.search(rf"^\.\. _{anchor}:\n\n(Lemma|Theorem)", pages, re.MULTILINE)
    assert statement, f"no lemma has the anchor {anchor}"
    proof = pages[statement.end() :].split("\n.. _lemma-")[0]
    assert "**Proof" in proof, f"{anchor} has no proof"
    module, name = function.rsplit(".", 1)
    # Functions that no estimator needs are in scripts of ``examples/benchmarks``.
    is_script = not function.startswith("skdpspectral")
    found = load(module) if is_script else importlib.import_module(module)
    target = getattr(found, name)
    assert callable(target)
    path = ROOT / test
    assert path.is_file(), f"{test} does not exist"
    assert re.search(rf"\b{name}\b", path.read_text()), f"{test} never uses {name}"


def public_functions(module):
    return {
        name
        for name, value in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and value.__module__.startswith("skdpspectral")
    }


def test_every_sensitivity_has_its_row():
    indexed = {function for _, function, _ in ROWS}
    needed = {f"skdpspectral.sensitivity.{n}" for n in public_functions(sensitivity)}
    no_lemma = {"calibrate_gaussian", "ambient_accountant"}
    needed |= {
        f"skdpspectral.accounting.{n}" for n in public_functions(accounting) - no_lemma
    }
    assert needed <= indexed, needed - indexed
