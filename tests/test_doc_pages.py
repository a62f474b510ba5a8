"""What the first pages of the documentation print runs as it is."""

import doctest
import re
import textwrap
from pathlib import Path

import pytest

DOC = Path(__file__).parents[1] / "doc"


@pytest.mark.parametrize("name", ["index", "get_started", "faq"])
def test_prompts_print_what_the_page_says(name, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)  # pages write files
    found = doctest.testfile(str(DOC / f"{name}.rst"), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0


def blocks(text, directive):
    """Return the bodies of a directive without options, at any indentation."""
    pattern = rf"^( *)\.\. {directive}\n\n((?:\1   .*\n|\n)+)"
    found = re.findall(pattern, text, re.M)
    return [textwrap.dedent(body) for _, body in found]


# Components of so few rows may be announced to be noise in part.
@pytest.mark.filterwarnings("ignore::skdpspectral.NoisyFitWarning")
def test_code_of_the_page_on_migration_runs_as_copied():
    """Each block on the right alone, with nothing but what it imports."""
    pytest.importorskip("pandas")
    text = (DOC / "migration.rst").read_text()
    codes = blocks(text, "testcode::")
    assert len(codes) == text.count(".. grid::") > 5
    assert ".. testsetup::" not in text
    for block in codes:
        exec(compile(block, "migration.rst", "exec"), names := {})
        fitted = names.get("model") or names.get("pca") or names.get("adam")
        assert fitted.privacy_.epsilon <= 2.0


def test_the_left_column_of_scikit_learn_runs_as_copied():
    first, *others = blocks((DOC / "migration.rst").read_text(), "code-block:: python")
    exec(compile(first, "migration.rst", "exec"), {})
    for block in others:  # need libraries that are not installed here
        compile(block, "migration.rst", "exec")


# A score pooled over users warns, as it should.
@pytest.mark.filterwarnings("ignore:a score pooled over users")
@pytest.mark.slow
def test_code_of_the_overview_runs():
    names = {}
    codes = blocks((DOC / "overview.rst").read_text(), "code-block:: python")
    assert len(codes) == 8
    for block in codes:
        if "fetch_openml" in block:  # as in the README, whose test has its table
            continue
        exec(compile(block, "overview.rst", "exec"), names)
    # A few results that the text speaks of: the budget is spent, and nothing seeded.
    assert names["accountant"].spent().epsilon == pytest.approx(1.0)
    assert names["model"].publish().components_.shape == (1, 10)
    assert names["stream"].covariance_.shape == (3, 3)
