"""Lemma 3.5 of Kalinin, Upadhyay and Lampert (2025), against brute force."""

import functools
import math

import numpy as np
import pytest

from skdpspectral.sensitivity import (
    FREE_WEIGHT,
    FREE_WEIGHT_1D,
    joint_moment_ratio,
)


@functools.cache
def brute_force(nu, on_a_line):
    """Largest squared joint distance of two points of the unit ball, on a grid.

    Any two points lie in a plane: norms a <= b and the cosine t of their angle say
    everything; on a line the cosine is 1 or -1.
    """
    norms = np.linspace(0, 1, 201)
    a, b = (norms[i][:, None] for i in np.triu_indices(len(norms)))
    t = np.array([-1.0, 1.0]) if on_a_line else np.linspace(-1, 1, 401)
    first = a**2 + b**2 - 2 * a * b * t
    second = a**4 + b**4 - 2 * (a * b * t) ** 2
    return float((first + nu * second).max())


WEIGHTS = [
    0.0,
    0.1,
    0.5,
    0.50001,
    0.7,
    1.0,
    2.0,
    2.7,
    2.7725,
    2.78,
    3.0,
    4.0,
    10.0,
    100,
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("nu", WEIGHTS)
def test_ratio_is_the_supremum(nu, d):
    brute = brute_force(nu, d == 1)
    claimed = joint_moment_ratio(nu, d)
    assert claimed >= brute * (1 - 1e-12)
    assert claimed <= brute * (1 + 5e-4)


def test_thresholds_are_continuous_and_largest():
    for d, weight in ((2, FREE_WEIGHT), (1, FREE_WEIGHT_1D)):
        assert joint_moment_ratio(weight, d) == 4.0
        above = joint_moment_ratio(weight * (1 + 1e-9), d)
        assert above == pytest.approx(4.0, abs=1e-7)
        assert joint_moment_ratio(weight * 1.01, d) > 4.0


def test_weights_and_features_are_checked():
    with pytest.raises(ValueError, match="nu"):
        joint_moment_ratio(-1.0, 2)
    with pytest.raises(ValueError, match="n_features"):
        joint_moment_ratio(1.0, 0)


def test_both_moments_move_by_no_more():
    """The vector that is released is the one that the lemma bounds, in the ball c."""
    rng = np.random.default_rng(0)
    nu, c, n = 4.0, 3.0, 7
    weight = math.sqrt(nu) / c
    bound = c * math.sqrt(joint_moment_ratio(nu, 2)) / n
    # cos = -1/(2 nu) attains the supremum for d >= 2.
    worst = [np.array([1.0, 0.0]), np.array([-0.125, math.sqrt(1 - 0.125**2)])]
    pairs = [worst, *rng.uniform(-0.7, 0.7, (500, 2, 2))]

    def moments(x):
        return np.r_[c * x, weight * c**2 * np.outer(x, x).ravel()]

    moved = [np.linalg.norm(moments(x) - moments(y)) / n for x, y in pairs]
    assert max(moved) == pytest.approx(bound, rel=1e-12)
    assert moved[0] == max(moved)
