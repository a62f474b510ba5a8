"""The tables of the papers: every link resolves, every row says what came out."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "doc" / "papers.rst").read_text()
LABELS = {
    label
    for page in (ROOT / "doc").rglob("*.rst")
    for label in re.findall(r"^\.\. _([\w-]+):$", page.read_text(), re.MULTILINE)
}
LABELS |= {
    f"sphx_glr_auto_examples_{page.name}" for page in (ROOT / "examples").glob("*.py")
}
VERDICTS = {
    "Better",
    "Corrected",
    "Not here",
    "Not needed",
    "Refuted",
    "Reproduced",
    "There",
}


def rows():
    """Cells of all rows of all tables, but for their heads."""
    found = re.findall(
        r"^   \* - (.*?)\n     - (.*?)\n     - (.*?)(?=\n   \* -|\n\n|\Z)",
        PAGE,
        re.S | re.M,
    )
    cells = [tuple(" ".join(cell.split()) for cell in row) for row in found]
    return [row for row in cells if row[0] != "In the paper"]


ROWS = rows()


def resolved(dotted):
    """Import as much of a dotted name as is a module; get the rest of it."""
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(dotted)


def public(name):
    """An estimator, or a strategy of one."""
    for module in ("", ".covariance", ".decomposition", ".linear_model"):
        found = getattr(importlib.import_module(f"skdpspectral{module}"), name, None)
        if found is not None:
            return found
    raise AttributeError(name)


def check_literal(text):
    """A path, a dotted name, or a call with its parameters."""
    if text.startswith(("tests/", "examples/", "doc/")):
        assert (ROOT / text).is_file(), f"{text} does not exist"
    elif text.startswith("skdpspectral"):
        resolved(text)
    elif strategy := re.fullmatch(r'(\w+)\("[\w-]+"\)', text):
        public(strategy[1])
    elif call := re.fullmatch(r"(\w+)(?:\.(\w+))?(?:\((\w+)=.*\))?", text):
        name, method, parameter = call.groups()
        if method:
            assert callable(getattr(public(name), method))
        if parameter:
            assert parameter in inspect.signature(public(name)).parameters
        else:
            public(name)
    else:
        assert re.fullmatch(r'"[\w-]+"', text), f"{text} is of no known kind"


def links(cell):
    """Check all links of a cell, and count them."""
    references = re.findall(r":ref:`(?:[^`<]*<)?([\w.-]+)>?`", cell)
    for label in references:
        assert label in LABELS, f"no page has the label {label}"
    classes = re.findall(r":(?:class|func|meth):`~?([\w.]+)`", cell)
    for name in classes:
        resolved(name)
    literals = re.findall(r"``([^`]+)``", cell)
    for text in literals:
        check_literal(text)
    return len(references) + len(classes) + len(literals)


def test_the_rows_were_found():
    assert PAGE.count("\n   * - ") == len(ROWS) + PAGE.count("* - In the paper")
    assert PAGE.count("* - In the paper") == 5
    assert len(ROWS) > 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_links_resolve(row):
    assert links(row[1]) > 0
    links(row[0])
    links(row[2])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_what_came_out_is_said(row):
    verdict = re.match(r"\*\*([A-Z][\w ]*)(, and sharper)?\.?\*\*", row[2])
    assert verdict, row[2]
    assert verdict[1] in VERDICTS


@pytest.mark.parametrize(
    "cell",
    [
        ":ref:`lemma-of-nobody`",
        ":class:`~skdpspectral.NoPCA`",
        "``skdpspectral.theory.no_rate``",
        "``tests/theory/test_nothing.py``",
        "``DPPCA(no_parameter=1)``",
        "``something else``",
    ],
)
def test_the_check_can_fail(cell):
    with pytest.raises((AssertionError, AttributeError, ModuleNotFoundError)):
        links(cell)
