"""What sensitivities rest on: rows are no longer than the radii that plans are made of.

Whatever the rows are, and whatever center was released: with a box, or without.
"""

import itertools

import numpy as np
import pytest

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


def all_bounds():
    for box, center in itertools.product(BOXES, ("none", "shared")):
        bounds = RowBounds(3, **BOXES[box], center=center)
        yield pytest.param(bounds, id=f"{box}, {center}")


def lengths(rows):
    return np.linalg.norm(rows, axis=1)


@pytest.mark.parametrize("bounds", list(all_bounds()))
def test_no_row_is_longer_than_what_is_charged(bounds):
    for mean, floor in itertools.product(MEANS, (0.0, 1e-3, 1e3)):
        bounded = bounds.for_second_moment(ROWS.copy(), mean, floor)
        assert 0.0 < lengths(bounded).max() <= 1.0 + 1e-14
