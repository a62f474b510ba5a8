"""Planted mistakes: each must be caught by a test, which fails on the mutant.

A mutant is an edit of one definition in a copy of the package: of a class, a function
or a constant, which is found by its name, wherever it stands. ``mistakes.txt`` has a
line ``@ name | definition | what must notice it`` for each, and the edit as a diff.
Without new lines, the old ones are deleted. Worst cases are replayed, and noise is
compared with its law; tests of plan, ledger or post-processing catch others.
"""

import ast
import functools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked_python import ForkedPython

import skdpspectral

pytestmark = pytest.mark.slow

PACKAGE = Path(skdpspectral.__file__).parent
TESTS = Path(__file__).parents[1]
WORST = (
    "audit/test_worst_cases.py::"
    "test_the_worst_neighbor_moves_releases_as_far_as_is_planned"
)
NOISE = "audit/test_noise_of_fits.py::test_noise_is_as_planned"
RUN_TESTS = """
import os, sys
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
import pytest, skdpspectral
print(skdpspectral.__file__, flush=True)
sys.exit(pytest.main(sys.argv[1:]))
"""
BROKEN = r"^E +(Import|Indentation|ModuleNotFound|Name|Syntax|UnboundLocal)Error\b"


@dataclass(frozen=True)
class Mutant:
    """An edit, and what must notice it: a worst case, a check of noise, or a test."""

    definition: str
    old: str
    new: str
    caught_by: str


def mutants_of(text):
    """Return all mutants of a text, by name."""
    found = {}
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    for part in re.split("^@ ", text, flags=re.MULTILINE)[1:]:
        head, *lines = part.splitlines()
        name, definition, caught_by = head.split(" | ")
        assert name not in found, name
        old, new = ([line[2:] for line in lines if line[0] in s] for s in ("- ", "+ "))
        edit = "\n".join(old) + "\n" * (not new), "\n".join(new)
        found[name] = Mutant(definition, *edit, caught_by)
    return found


MUTANTS = mutants_of(Path(__file__).with_name("mistakes.txt").read_text())


@pytest.fixture(scope="session")
def python():
    with ForkedPython() as python:
        yield python


@functools.cache
def definitions():
    """Return the places of each top-level name: its file, and the lines it takes."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = [node.name]
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
            else:
                continue
            for name in names:
                lines = slice(node.lineno - 1, node.end_lineno)
                found.setdefault(name, []).append((path, lines))
    return found


def mutated_copy(mutant, folder):
    # Compiled files come along: those of the edited file do not fit its new date.
    shutil.copytree(PACKAGE, folder / "skdpspectral")
    places = []
    for path, lines in definitions()[mutant.definition]:
        source = path.read_text().splitlines(keepends=True)
        if (text := "".join(source[lines])).count(mutant.old) == 1:
            source[lines] = [text.replace(mutant.old, mutant.new)]
            places.append((path, "".join(source)))
    assert len(places) == 1, f"{mutant.old!r} must occur once in {mutant.definition}"
    path, source = places[0]
    (folder / path.relative_to(PACKAGE.parent)).write_text(source)


def run_test(mutant, folder, python, target):
    """Run tests on a mutated copy; return the process that has run them."""
    mutated_copy(mutant, folder)
    # Asserts as they are: nobody reads what they say, and to rewrite them takes longer
    # than most of the tests.
    options = ["-qx", "-p", "no:cacheprovider", "--assert=plain"]
    done = python.run(folder, RUN_TESTS, *options, TESTS / target)
    tested = Path(done.stdout.split("\n", 1)[0])
    assert tested.is_relative_to(folder), done.stdout + done.stderr
    return done


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_caught(name, tmp_path, python):
    mutant = MUTANTS[name]
    target = mutant.caught_by
    if ".py" not in target:
        kind = NOISE if target.startswith("noise of ") else WORST
        target = f"{kind}[{target.removeprefix('noise of ')}]"
    done = run_test(mutant, tmp_path, python, target)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^\d+ failed", done.stdout, re.MULTILINE), done.stdout
    # A mutant that cannot run is no mistake that was found.
    assert not re.search(BROKEN, done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("target", [WORST, NOISE])
def test_an_unchanged_copy_passes(target, tmp_path, python):
    """What fails on a copy is the mistake in it, and not that it is a copy."""
    unchanged = Mutant("__version__", '__version__ = "', '__version__ = "', target)
    done = run_test(unchanged, tmp_path, python, target)
    assert done.returncode == 0, done.stdout + done.stderr
