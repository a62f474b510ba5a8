"""What sensitivities rest on: rows are no longer than the radii that plans are made of.

Whatever the rows are, and whatever center was released: with a box, a clip, or both.
"""

import itertools

import numpy as np
import pytest

from skdpspectral.decomposition._bounded_moments import RowBounds

BOXES = {
    "no box": {},
    "box": {"bounds": (-2.0, 6.0)},
    "sides": {"bounds": ([-2.0, 0.0, 1.0], [6.0, 0.5, 1.0])},
    "scaled": {"bounds": ([-2.0, 0.0, 1.0], [6.0, 0.5, 1.0]), "scale": "bounds"},
}
CLIPS = {"unit rows": {}, "clip": {"clip_norm": 0.7}, "long clip": {"clip_norm": 1e3}}
_RNG = np.random.default_rng(0)
ROWS = np.concatenate(
    [
        scale * _RNG.standard_normal((20, 3))
        for scale in (1e-300, 1e-9, 1.0, 30.0, 1e9, 1e300)
    ]
)
MEANS = [None, np.zeros(3), np.array([0.9, -0.4, 0.2]), np.array([-1e8, 0.0, 1e8])]


def all_bounds():
    for names in itertools.product(BOXES, CLIPS, ("none", "shared")):
        box, clip, center = names
        parameters = {**BOXES[box], **CLIPS[clip], "center": center}
        yield pytest.param(RowBounds(3, **parameters), id=", ".join(names))


def lengths(rows):
    return np.linalg.norm(rows, axis=1)


@pytest.mark.parametrize("bounds", list(all_bounds()))
def test_no_row_is_longer_than_what_is_charged(bounds):
    just = 1.0 + 1e-14
    for mean in MEANS:
        bounded = bounds.for_second_moment(ROWS.copy(), mean)
        assert lengths(bounded).max() <= bounds.second_radius * just
        assert lengths(bounded).max() > 0.0
        if bounds.clip is not None:
            projected = bounds.for_projections(ROWS.copy(), mean)
            assert lengths(projected).max() <= bounds.clip * just
