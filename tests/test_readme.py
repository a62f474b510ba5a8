"""What the README shows runs as it is, from the first block to the last."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def run_block(number):
    """Run a block of code, and return its names."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.M | re.S)
    assert len(blocks) == 2
    names = {}
    exec(compile(blocks[number], str(README), "exec"), names)
    return names


def adult(name, version, return_X_y):
    """Return the table as OpenML has it: texts are categories, and "?" is missing."""
    assert (name, version, return_X_y) == ("adult", 2, True)
    path = Path(os.environ["SKDPSPECTRAL_DATA"], "adult", "adult.npz")
    with np.load(path, allow_pickle=False) as raw:
        frame = pd.DataFrame(raw["numeric"], columns=raw["numeric_names"].tolist())
        for column, text in enumerate(raw["categorical_names"].tolist()):
            levels = [level for level in raw[f"levels_{text}"].tolist() if level != "?"]
            codes = raw["categorical"][:, column].astype(int)
            codes[codes >= len(levels)] = -1
            frame[text] = pd.Categorical.from_codes(codes, levels)
        income = np.where(raw["income_gt_50k"] == 1, ">50K", "<=50K")
    return frame, pd.Series(income, name="class").astype("category")


def test_first_example_runs():
    names = run_block(0)
    # The budget is spent, nothing is seeded, and the score is the one in the comment:
    # in 1,000 fits it was between 0.2814 and 0.2837.
    assert names["pca"].privacy_.epsilon == pytest.approx(2.0)
    kept = names["captured_variance"](names["pca"], names["digits"].data)
    assert kept == pytest.approx(0.2825, abs=0.0025)


@pytest.mark.skipif(
    not os.environ.get("SKDPSPECTRAL_DATA"), reason="needs SKDPSPECTRAL_DATA"
)
def test_second_example_runs(monkeypatch):
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", adult)
    names = run_block(1)
    model, texts = names["model"], names["people"].select_dtypes("category")
    assert model.privacy_.epsilon == pytest.approx(1.0)
    assert texts.shape[1] == 8
    assert texts.isna().any().sum() == 3
    # In 20 fits it was between 0.846 and 0.852, and in one of 36 it was 0.833.
    assert model.score(names["X_test"], names["y_test"]) > 0.81


def test_links_of_the_readme_are_files():
    links = re.findall(r"\]\(([^)]+)\)", README.read_text())
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []
