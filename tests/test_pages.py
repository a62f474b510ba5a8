"""Code on pages is run by the documentation's builder; tables are those of scripts."""

import re
import sys
from pathlib import Path

import pytest
from benchmark_scripts import load

DOC = Path(__file__).parents[1] / "doc"
PAGES = sorted([*DOC.glob("user_guide/*.rst"), *DOC.glob("theory/*.rst")])
GUIDES = [
    page
    for page in PAGES
    if page.parent.name == "user_guide"
    and page.stem not in ("index", "choosing", "pca_ranks_table")
]
EXAMPLES = sorted((DOC.parent / "examples").glob("plot_*.py"))
TABLES = sorted(path for path in (DOC / "tables").glob("*.py") if path.stem != "run")


@pytest.fixture(scope="module")
def run():
    path = sys.path[:]
    yield load(DOC / "tables" / "run.py")  # which adds folders to the path
    sys.path[:] = path


@pytest.mark.parametrize(
    "page", [DOC / "index.rst", *PAGES], ids=lambda page: page.stem
)
def test_blocks_of_code_are_run(page):
    """Blocks are doctests or testcode: nothing else holds Python."""
    text = page.read_text()
    assert not re.search(r"^\s*\.\. code-block:: (?i:python)", text, re.M)
    literal = re.findall(r"^(?!\s*\.\. ).*::\n\n +(.*)$", text, re.M)
    assert not [line for line in literal if not line.startswith("$ ")]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guides_begin_with_code(page):
    """Code comes before the first section, which a reader sees without scrolling."""
    text = page.read_text()
    code = re.search(r"^(>>> |\.\. testcode::|\.\. code-block::)", text, re.M)
    heading = re.search(r"^[^\n]+\n[=-]{3,}\n", text.split("\n\n", 2)[2], re.M)
    assert code.start() < text.index(heading[0])


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_examples_are_short_and_draw(page):
    """A page of the gallery has a picture and some sixty lines of code."""
    text = page.read_text()
    lines = text.split('"""\n', 2)[2].splitlines()
    code = [
        line for line in lines if line.strip() and not line.lstrip().startswith("#")
    ]
    assert len(code) <= 65
    assert "import matplotlib.pyplot as plt" in text


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_tables_have_the_rows_of_their_scripts(path, run):
    """Each table is written, is on one page, and has a figure for each row."""
    table = load(path)
    assert set(getattr(table, "SLOW", ())) <= set(table.ROWS)
    assert list(dict.fromkeys(row for row, _ in run.read(path.stem))) == list(
        table.ROWS
    )
    include = re.compile(rf"^ *\.\. include:: (\.\./)?tables/{path.stem}\.rst$", re.M)
    pages = [*PAGES, DOC / "benchmarks.rst"]
    assert sum(len(include.findall(page.read_text())) for page in pages) == 1


def test_figures_that_differ_are_found(run, tmp_path, monkeypatch):
    """A check passes on the figures of other seeds, and fails on a moved mean."""
    (tmp_path / "noise_table.py").write_text(
        "import numpy as np\n"
        "HEADER, ROWS = 'deviation', {'a \"quoted\" row, 1': 1.0, '2': 2.0}\n"
        "def measure(setting, seed):\n"
        "    noise = np.random.default_rng(seed).normal(size=3)\n"
        "    return {'mean': setting + 0.1 * noise[0], 'not measured': 5.0}\n"
    )
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "NAMES", ["noise_table"])
    monkeypatch.syspath_prepend(tmp_path)
    run.write("noise_table")
    assert set(run.quick_rows()) == {
        ("noise_table", 'a "quoted" row, 1'),
        ("noise_table", "2"),
    }
    assert run.check(all_rows=True) == 0
    written = tmp_path / "noise_table.rst"
    mean, error = run.read("noise_table")["2", "mean"]
    text = written.read_text()
    assert 0.005 < error < 0.04
    # Repeats deviate by 0.1, means of 25 by 0.02, differences of two by 0.028.
    written.write_text(text.replace(f"{mean:.3f}", f"{mean + 0.2:.3f}"))
    assert run.check(all_rows=True) == 1
