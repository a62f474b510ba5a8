"""What the README shows runs as it is, from the first block to the last."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def test_code_of_the_readme_runs():
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.M | re.S)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    # The budget is spent, nothing is seeded, and the score is the one in the comment:
    # in 1,000 fits it was between 0.2814 and 0.2837.
    assert names["pca"].privacy_.epsilon == pytest.approx(2.0)
    kept = names["captured_variance"](names["pca"], names["digits"].data)
    assert kept == pytest.approx(0.2825, abs=0.0025)


def test_links_of_the_readme_are_files():
    links = re.findall(r"\]\(([^)]+)\)", README.read_text())
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []
