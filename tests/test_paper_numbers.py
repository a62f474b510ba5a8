"""Numbers of the pages on the papers are those that the named scripts print.

A row names scripts, tables and tests. Its decimals, and its integers from 100 on, are
rounded numbers of what they print (doc/tables/outputs), or settings that are in their
code. Citations and code of the row are left out.
"""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"
OUTPUTS = DOC / "tables" / "outputs"
SOURCES = {
    r"examples/benchmarks/(\w+)\.py": "examples/benchmarks/{}.py",
    r"sphx_glr_auto_examples_(plot_\w+)\.py": "examples/{}.py",
    r"doc/tables/(\w+)\.py": "doc/tables/{}.rst",
    r"(tests/\w+/\w+)\.py": "{}.py",
}
CITED = re.compile(
    r"``.*?``|:\w+:`.*?`|arXiv:\S+|\((B\.)?\d+\)|20[12]\d|"
    r"\b(sections?|theorems?|lemmas?|corollary|propositions?|equations?|figures?|"
    r"tables?|algorithms?|appendix|condition|panels?)\b"
    r"(,| (and|to|of)\b| [A-D]?[\d.]+[a-d]?)+",
    re.I | re.S,
)
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def numbers(text):
    """Return texts of numbers, without commas."""
    found = (token.rstrip(",").replace(",", "") for token in NUMBER.findall(text))
    return [token for token in found if token]


@cache
def known(path):
    """Return the numbers of a script: printed ones, and those of its code."""
    output = OUTPUTS / f"{path.stem}.txt"
    text = output.read_text() if output.exists() else ""
    code = path.read_text().replace("_", "")
    return [float(token) for token in numbers(text.replace("_", "") + "\n" + code)]


def sources_of(text):
    """Return the files that a text names."""
    return [
        ROOT / form.format(name)
        for pattern, form in SOURCES.items()
        for name in re.findall(pattern, text)
    ]


def unknown(text, sources):
    """Return the numbers of a text that no source has, to its digits."""
    found = [value for path in sources for value in known(path)]
    missing = []
    for token in numbers(CITED.sub(" ", text)):
        mantissa, _, power = token.partition("e")
        value = float(token)
        if "." not in token and not power and value < 100:
            continue
        digits = len(mantissa.partition(".")[2]) - int(power or 0)
        limit = 0.5 * 10.0**-digits * (1.0 + 1e-6)
        scaled = (1.0, 0.01) if digits < 2 else (1.0,)  # percent
        near = (abs(one - value * s) <= limit * s for s in scaled for one in found)
        if not any(near):
            missing.append(token)
    return missing


def rows(page):
    """Return rows of tables, without what follows a table."""
    text = (DOC / page).read_text()
    found = text.split("\n   * - ")[1:]
    return [row.split("\n\n")[0] for row in found]


def test_the_pages_name_outputs_that_are_stored():
    stored = {path.stem for path in OUTPUTS.glob("*.txt")}
    text = (DOC / "papers.rst").read_text() + (DOC / "beside_tools.rst").read_text()
    named = {path.stem for path in sources_of(text)}
    assert stored <= named
    for path in OUTPUTS.glob("*.txt"):
        command = path.read_text().splitlines()[0]
        assert re.fullmatch(r"\$ python (examples/\S+\.py)( \S+)*", command)
        assert (ROOT / command.split()[2]).exists()


@pytest.mark.parametrize("row", rows("papers.rst"), ids=lambda row: row[:40])
def test_numbers_of_claims_are_printed(row):
    assert unknown(row, sources_of(row)) == []


def test_numbers_of_the_page_on_other_tools_are_printed():
    text = (DOC / "beside_tools.rst").read_text()
    first = text.split("Other comparisons")[0]
    assert unknown(first, sources_of(first)) == []


def test_numbers_of_settings_are_printed():
    sources = sources_of((DOC / "papers.rst").read_text())
    text = (DOC / "papers_settings.rst").read_text()
    table, adam = text.split(".. _adam_of_the_paper:")
    assert unknown(table, sources) == []
    assert unknown(adam, sources_of(adam)) == []


def test_a_wrong_number_is_found():
    row = "``examples/benchmarks/paper_claims.py``: 0.421 ± 0.014, 1,005; theorem 3.6"
    assert unknown(row, sources_of(row)) == []
    wrong = row.replace("0.421", "0.431").replace("1,005", "1,009")
    assert unknown(wrong, sources_of(wrong)) == ["0.431", "1009"]
