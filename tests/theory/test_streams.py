"""Sensitivities of streams of moments, against brute force and dense matrices."""

import math

import numpy as np
import pytest
from benchmark_scripts import load

from skdpspectral import JMECovariance
from skdpspectral.covariance._moment_stream import MomentRows
from skdpspectral.factorizations import Prefix, factorize
from skdpspectral.mechanisms import CorrelatedGaussian
from skdpspectral.sensitivity import (
    free_moment_weight,
    joint_moment_ratio,
    second_moment_ratio,
)

jme_figures = load("jme_figures")
separate_moments_ratio = jme_figures.separate_moments_ratio
concatenated_moments_ratio = jme_figures.concatenated_moments_ratio


def pairs(d, count=4000):
    """Pairs of points of the unit ball: random ones, and the bad ones."""
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(2, count, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    x[::2] *= rng.uniform(0, 1, (len(x[::2]), 1)) ** 0.2
    e = np.eye(d)[0]
    shorter = 2 * (math.sqrt(5) - 2) - 1  # the optimum in one dimension
    lengths = np.append(np.linspace(-1, 1, 2001), shorter)[:, None]
    x = np.concatenate([x, np.tile(e, (len(lengths), 1))])
    y = np.concatenate([y, lengths * e])
    if d > 1:
        angles = np.linspace(0, np.pi, 2001)[:, None]
        f = np.eye(d)[1]
        x = np.concatenate([x, np.tile(e, (len(angles), 1))])
        y = np.concatenate([y, np.cos(angles) * e + np.sin(angles) * f])
    return x, y


def largest_move(rows, d):
    x, y = pairs(d)
    return float((np.abs(rows.pack(x) - rows.pack(y)) ** 2).sum(axis=1).max())


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("nu", [0.2, 0.5, 0.6, 2.7, 2.9, 5.0])
def test_packed_rows_move_by_the_joint_sensitivity(nu, d):
    rows = MomentRows(d, math.sqrt(nu))
    moved, bound = largest_move(rows, d), joint_moment_ratio(nu, d)
    assert bound * (1 - 1e-5) <= moved <= bound * (1 + 1e-12)
    assert bound <= separate_moments_ratio(nu) <= concatenated_moments_ratio(nu)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_products_alone_move_by_their_ratio(d):
    """No pair of rows moves them further, and some pair as far."""
    rows = MomentRows(d, 1.0, first=False)
    moved, bound = largest_move(rows, d), second_moment_ratio(d)
    assert bound * (1 - 1e-5) <= moved <= bound * (1 + 1e-12)
    plan = JMECovariance(moments="assume-centered", clip_norm=3.0).privacy_plan(10, d)
    assert plan["moments"].sensitivity == pytest.approx(3.0 * math.sqrt(bound))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_free_weight_is_the_largest_that_is_free(d):
    nu = free_moment_weight(d)
    assert joint_moment_ratio(nu, d) == 4.0
    assert joint_moment_ratio(nu * 1.001, d) > 4.0


def test_a_composed_split_is_two_releases():
    """Weights (1, w) at ratio 4 + 2 nu cost what two separate releases cost."""
    share = 0.3
    nu = 2 * (1 - share) / share
    ratio = separate_moments_ratio(nu)
    assert ratio == pytest.approx(4 / share)
    assert 4 / ratio + 2 * nu / ratio == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["trivial", "blt", "sqrt"])
def test_a_stream_moves_by_a_column_of_C(name):
    """The charge is at least the move of C x for a row replaced at any step."""
    n, d = 20, 3
    C = factorize(Prefix(), name, n)
    rows = MomentRows(d, math.sqrt(0.5))
    mechanism = CorrelatedGaussian(
        "m", 2.0, 5.0, (rows.width,), column_norm=C.column_norm, max_steps=n
    )
    change = rows.pack(np.eye(d)[:1]) - rows.pack(-np.eye(d)[:1])
    moved = []
    for step in range(n):
        stream = np.zeros((n, rows.width))
        stream[step] = change
        moved.append(np.linalg.norm(C.matrix(n) @ stream))
    assert max(moved) == moved[0]
    assert moved[0] <= mechanism.charged_sensitivity <= moved[0] * 1.01
    assert mechanism.mu == mechanism.charged_sensitivity / 5.0


def test_packing_is_an_isometry_and_invertible():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 4))
    for included in (True, False):
        rows = MomentRows(4, 0.7, first=included)
        packed = rows.pack(x)
        assert packed.shape == (6, rows.width)
        first, second = rows.unpack(packed)
        wanted = x[:, :, None] * x[:, None, :]
        assert np.allclose(second, wanted)
        assert np.allclose(first, x if included else 0)
    packed = MomentRows(4, 1.0, first=False).pack(x)
    assert np.allclose((packed**2).sum(axis=1), (x**2).sum(axis=1) ** 2)
