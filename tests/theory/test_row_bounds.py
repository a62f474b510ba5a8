"""What sensitivities rest on: rows are no longer than the radii that plans are made of.

Whatever the rows are, and whatever center was released: with a box, or without.
"""

import itertools

import numpy as np
import pytest

from skdpspectral._statistics.moments import bounded
from skdpspectral.decomposition._bounded_moments import RowBounds

BOXES = {
    "no box": {},
    "box": {"bounds": (-2.0, 6.0)},
    "sides": {"bounds": ([-2.0, 0.0, 1.0], [6.0, 0.5, 1.0])},
}
_RNG = np.random.default_rng(0)
ROWS = np.concatenate(
    [
        scale * _RNG.standard_normal((20, 3))
        for scale in (1e-300, 1e-9, 1.0, 30.0, 1e9, 1e300)
    ]
)
MEANS = [None, np.zeros(3), np.array([0.9, -0.4, 0.2]), np.array([-1e8, 0.0, 1e8])]


def lengths(rows):
    return np.linalg.norm(rows, axis=1)


@pytest.mark.parametrize("box", BOXES)
def test_no_row_is_longer_than_what_is_charged(box):
    rows = RowBounds(3, **BOXES[box]).rows(len(ROWS))
    for mean, floor in itertools.product(MEANS, (0.0, 1e-3, 1e3)):
        walked = rows.about(ROWS, mean)
        kept = list(bounded(walked.walk.blocks(walked.rows), floor))
        assert 0.0 < lengths(np.concatenate(kept)).max() <= 1.0 + 1e-14
