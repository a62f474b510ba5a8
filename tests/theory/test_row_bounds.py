"""What sensitivities rest on: rows are no longer than the radii that plans are made of.

Whatever the rows are, and whatever mean was released: with a box, a clip, a radius of
the mean, or several of them.
"""

import itertools

import numpy as np
import pytest

from skdpspectral._statistics.row_bounds import RowBounds
from skdpspectral.decomposition import PrivateMean

BOXES = {
    "no box": {},
    "box": {"bounds": (-2.0, 6.0)},
    "sides": {"bounds": ([-2.0, 0.0, 1.0], [6.0, 0.5, 1.0])},
    "scaled": {"bounds": ([-2.0, 0.0, 1.0], [6.0, 0.5, 1.0]), "scale": "bounds"},
}
CLIPS = {"unit rows": {}, "clip": {"clip_norm": 0.7}, "long clip": {"clip_norm": 1e3}}
CENTERS = {
    "none": {"center": "none"},
    "private": {"center": "private"},
    "radius": {"center": PrivateMean(0.3)},
    "long radius": {"center": PrivateMean(1e3)},
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
    for names in itertools.product(BOXES, CLIPS, CENTERS):
        box, clip, center = names
        if center == "private" and box == "no box" and clip == "unit rows":
            continue  # there is nothing that bounds the mean
        parameters = {**BOXES[box], **CLIPS[clip], **CENTERS[center]}
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
    if bounds.mean_radius is not None:
        longest = lengths(bounds.for_mean(ROWS.copy())).max()
        # The mean of a box is bounded by its corners.
        assert 0.5 * bounds.mean_radius < longest <= bounds.mean_radius * just
        for noisy in (1e9 * np.eye(3), -1e9 * np.eye(3)):
            kept = np.stack([bounds.project_mean(mean) for mean in noisy])
            assert lengths(kept).max() <= bounds.mean_radius * just


@pytest.mark.parametrize("bounds", list(all_bounds()))
def test_short_rows_of_the_mean_stay_as_they_are(bounds):
    """But for the units: what is bounded is no other row than it was."""
    if bounds.mean_radius is None:
        return
    middle = 0.0 if bounds.box is None else bounds.box.midpoint
    unit = 1.0 if bounds.box is None else bounds.box.unit
    short = 1e-3 * bounds.mean_radius * np.eye(3)
    inside = (
        short
        if bounds.box is None
        else np.clip(short, -bounds.box.half_widths, bounds.box.half_widths)
    )
    np.testing.assert_allclose(
        bounds.for_mean(middle + unit * inside), inside, rtol=1e-9, atol=1e-12
    )
