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
SETTINGS = (ROOT / "doc" / "papers_settings.rst").read_text()
# Below are tables of single experiments.
SETTINGS = SETTINGS.partition("\n.. _adam_of_the_paper:")[0]
VERDICTS = {
    "Cannot hold",
    "Differs in our runs",
    "Misprint",
    "Not here",
    "Reproduced",
    "Reproduced in part",
    "There",
}
DOUBTED = {"Differs in our runs", "Reproduced in part"}


def rows(page):
    """Cells of all rows of all tables, but for their heads."""
    found = re.findall(
        r"^   \* - (.*?)\n     - (.*?)\n     - (.*?)(?=\n   \* -|\n\n|\Z)",
        page,
        re.S | re.M,
    )
    cells = [tuple(" ".join(cell.split()) for cell in row) for row in found]
    return [row for row in cells if row[0] not in ("In the paper", "Claim")]


ROWS = rows(PAGE)


def verdict_of(row):
    """The label at the beginning of what came out."""
    return re.match(r"\*\*([A-Z][\w ]*)\.?\*\*", row[2])


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
    for module in (
        "",
        ".covariance",
        ".decomposition",
        ".linear_model",
        ".neural_network",
    ):
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


def test_links_resolve():
    for row in ROWS:
        assert links(row[1]) > 0
        links(row[0])
        links(row[2])


def test_what_came_out_is_said():
    for row in ROWS:
        verdict = verdict_of(row)
        assert verdict, row[2]
        assert verdict[1] in VERDICTS


def test_doubted_claims_have_a_script_and_settings_beside_the_papers():
    claims = [claim.split(" of ")[0] for claim, _, _ in rows(SETTINGS)]
    doubted = [row for row in ROWS if verdict_of(row)[1] in DOUBTED]
    assert len(doubted) > 8
    for title, here, _ in doubted:
        assert re.search(
            r"examples/|sphx_glr_|theorem-|lemma-|theory/|count_|how_", here
        )
        assert any(title.startswith(claim) for claim in claims), title
    for claim in claims:
        assert any(title.startswith(claim) for title, _, _ in ROWS), claim


def test_what_cannot_hold_has_its_proof():
    for row in ROWS:
        if verdict_of(row)[1] == "Cannot hold":
            assert re.search(r"lemma-|theorem-", row[1]), row


@pytest.mark.parametrize(
    "cell",
    [
        ":ref:`lemma-of-nobody`",
        ":class:`~skdpspectral.NoPCA`",
        "``skdpspectral.metrics.no_score``",
        "``tests/theory/test_nothing.py``",
        "``DPPCA(no_parameter=1)``",
        "``something else``",
    ],
)
def test_the_check_can_fail(cell):
    with pytest.raises((AssertionError, AttributeError, ModuleNotFoundError)):
        links(cell)
