"""What the README shows runs as it is, from the first block to the last."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


# A score pooled over users warns, as it should.
@pytest.mark.filterwarnings("ignore:a score pooled over users")
def test_code_of_the_readme_runs():
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.M | re.S)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    # A few results that the text speaks of: the budget is spent, and nothing seeded.
    assert names["accountant"].spent().epsilon == pytest.approx(1.0)
    assert names["model"].publish().components_.shape == (1, 10)
    assert names["stream"].covariance_.shape == (3, 3)
