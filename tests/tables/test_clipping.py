"""Clipping keeps its bound for every finite input."""

import numpy as np
import pytest
from scipy import sparse

from skdpspectral._tables.clipping import Box, clip_rows, normalize_rows

TOLERANCE = 4 * 2.0**-52


def adversarial_rows(rng, n_rows, n_features):
    """Rows over all of float64: one exponent a row, or one an entry, and specials."""
    row = 2.0 ** rng.uniform(-1074, 1023, (n_rows, 1))
    entry = 2.0 ** rng.uniform(-1074, 1023, (n_rows, n_features))
    near = 2.0 ** rng.uniform(-2, 2, (n_rows, 1))
    kind = rng.integers(0, 4, (n_rows, 1))
    scale = np.choose(kind, [row, entry, near, np.ones_like(row)])
    with np.errstate(over="ignore", under="ignore"):
        rows = scale * rng.uniform(-1, 1, (n_rows, n_features))
    special = np.array([0.0, 5e-324, 2.2e-308, 1e-162, 1e-154, 1e154, 1e162, 1e308])
    chosen = rng.random((n_rows, n_features)) < 0.05
    rows[chosen] = rng.choice(special, chosen.sum()) * rng.choice([-1, 1], chosen.sum())
    rows[rng.random(n_rows) < 0.02] = 3.4e38  # float32 maximum
    return rows


def long_norms(rows):
    """Norms in extended precision, whose range holds all squares of float64."""
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no extended precision on this platform")
    return np.sqrt(np.sum(rows.astype(np.longdouble) ** 2, axis=1))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("clip_norm", [1e-60, 0.3, 1.0, 1e60])
@pytest.mark.parametrize(
    ("n_rows", "n_features"),
    [(150_000, 1), (150_000, 2), (90_000, 7), (20_000, 64), (400, 5000)],
)
def test_norm_bound_on_adversarial_floats(n_rows, n_features, clip_norm):
    rng = np.random.default_rng(n_features)
    rows = adversarial_rows(rng, n_rows, n_features)
    clipped = clip_rows(rows, clip_norm)
    assert np.isfinite(clipped).all()
    excess = long_norms(clipped) / np.longdouble(clip_norm) - 1
    assert excess.max() <= TOLERANCE
    # Rows inside stay as they are; rows outside reach the bound.
    before = long_norms(rows) / np.longdouble(clip_norm)
    inside = before < 1 - 1e-11
    np.testing.assert_array_equal(clipped[inside], rows[inside])
    assert (long_norms(clipped)[before > 1] / clip_norm).min() > 1 - 1e-11


@pytest.mark.parametrize("n_features", [1, 2, 7, 64, 5000])
def test_normalized_rows_are_unit_or_zero(n_features):
    rows = adversarial_rows(
        np.random.default_rng(1), 600_000 // (n_features + 9), n_features
    )
    norms = long_norms(normalize_rows(rows))
    zero = ~rows.any(axis=1)
    assert np.all(norms[zero] == 0)
    assert np.abs(norms[~zero] - 1).max() < 1e-11
    assert norms.max() <= 1 + TOLERANCE


@pytest.mark.parametrize("floor", [1e-60, 0.3, 1e60])
@pytest.mark.parametrize("n_features", [1, 2, 7, 64])
def test_rows_shorter_than_a_floor_keep_their_length_over_it(n_features, floor):
    rows = adversarial_rows(np.random.default_rng(1), 4000, n_features)
    lengths = long_norms(rows)
    out = normalize_rows(rows, floor=floor)
    norms = long_norms(out)
    assert norms.max() <= 1 + TOLERANCE
    wanted = np.minimum(lengths / np.longdouble(floor), 1.0)
    close = {"rtol": 1e-10, "atol": 1e-300}
    np.testing.assert_allclose(norms.astype(float), wanted.astype(float), **close)
    few = sparse.csr_array(rows)
    few = normalize_rows(few, floor=floor).toarray()
    np.testing.assert_allclose(few, out, atol=1e-300)
    np.testing.assert_array_equal(normalize_rows(rows, floor=0.0), normalize_rows(rows))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_become_zero(value):
    rows = np.array([[1.0, 2.0], [value, 3.0], [1e308, 1e308]])
    for out in (normalize_rows(rows), clip_rows(rows, 1.0), clip_rows(rows, 1e60)):
        np.testing.assert_array_equal(out[1], 0.0)
        assert np.all(np.linalg.norm(out[[0, 2]] / 1e60, axis=1) > 0)
        assert np.isfinite(out).all()


def test_direction_is_kept():
    rows = np.array([[3.0, 4.0], [3e-320, 4e-320], [3e307, 4e307], [3e-200, 4e-200]])
    np.testing.assert_allclose(normalize_rows(rows), [[0.6, 0.8]] * 4, rtol=1e-3)
    np.testing.assert_allclose(normalize_rows(rows[[0, 2, 3]]), [[0.6, 0.8]] * 3)


def test_float32_is_computed_in_float64_and_input_is_kept():
    rows = np.full((3, 50), np.finfo(np.float32).max, dtype=np.float32)
    before = rows.copy()
    out = normalize_rows(rows)
    assert out.dtype == np.float64
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), 1.0)


def test_in_place():
    rows = adversarial_rows(np.random.default_rng(2), 5000, 3)
    expected = clip_rows(rows, 2.0)
    out = clip_rows(rows, 2.0, out=rows)
    assert out is rows
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("per_feature", [False, True])
def test_box_maps_into_its_half_widths(per_feature):
    rng = np.random.default_rng(3)
    low = np.array([0.0, -1e16, 5.0, -3e-310, 1.0])
    high = np.array([16.0, -1e16 + 4, 5.0, 3e-310, 1.0 + 2**-52])
    box = Box(low, high, 5, per_feature=per_feature)
    assert box.half_widths.max() == 1.0
    rows = np.vstack([low, high, adversarial_rows(rng, 1000, 5)])
    out = box.to_unit(rows)
    assert np.all(np.abs(out) <= box.half_widths)
    np.testing.assert_array_equal(out[:, 2], 0.0)  # no extent
    inside = np.array([[4.0, -1e16 + 2, 5.0, 0.0, 1.0]])
    expected = (inside - box.midpoint) / box.unit
    np.testing.assert_allclose(box.to_unit(inside), np.clip(expected, -1, 1))
