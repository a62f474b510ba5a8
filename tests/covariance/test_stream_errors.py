"""Errors of streams against their closed forms, from both sides.

Each ratio is within four standard errors of 1, which fails by chance in about one of
15 000; there are fewer than 40, and the seed is fixed. Noise that is 10 % off moves a
ratio by 20 % (squared noise by 45 %), which is more than four standard errors of the
sharpest ratio of each setting.
"""

import pytest
from stream_errors import SETTINGS, ratios


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", SETTINGS)
def test_errors_are_those_of_theory(name):
    found = ratios(name, 300)
    for ratio, error in found:
        assert abs(ratio - 1) < 4 * error
    assert min(error for _, error in found) < 0.05
