"""Histograms of differences, phases on circles, and moments of features."""

import math

import numpy as np
import pytest
from scipy import sparse

from skdpspectral._linalg import features


def histograms(differences, first=-20, n_nodes=82):
    size = differences.shape[1], first, n_nodes
    return features.counts_of_differences([differences], *size)


def test_a_node_holds_what_is_equal_to_it():
    nodes = features.node_values(-20, 82)
    counts = histograms(np.outer(nodes, [1.0, -1.0]))
    assert np.array_equal(counts, np.ones((2, 82)))


def test_mean_squares_are_kept():
    rng = np.random.default_rng(0)
    differences = rng.standard_normal((5000, 3)) * [1.0, 0.1, 1e4]
    counts = histograms(differences)
    assert counts.sum(axis=1).tolist() == [5000.0] * 3
    squares = counts @ features.node_values(-20, 82) ** 2
    assert squares == pytest.approx(np.sum(differences**2, axis=0), rel=1e-5)
    assert counts.min() >= 0.0


def test_the_slow_way_gives_the_same():
    rng = np.random.default_rng(1)
    differences = rng.standard_cauchy((200, 2)) * 1e3
    differences[::7] = 0.0
    nodes = features.node_values(-20, 82)
    expected = np.zeros((2, 82))
    for j, d in zip(np.tile([0, 1], 200), np.abs(differences).ravel(), strict=True):
        k = int(np.searchsorted(nodes, d, side="right")) - 1
        if k < 0:
            continue
        upper = 0.0
        if k < 81:
            upper = (d**2 - nodes[k] ** 2) / (nodes[k + 1] ** 2 - nodes[k] ** 2)
            expected[j, k + 1] += upper
        expected[j, k] += 1.0 - upper
    assert histograms(differences) == pytest.approx(expected, abs=200 * 2.0**-16)


def test_ties_and_subnormal_numbers_count_for_nothing_and_large_ones_as_the_last():
    counts = histograms(np.array([[0.0], [-0.0], [1e-310], [1e-7], [1e300], [-1e25]]))
    assert counts[0, -1] == 2.0
    assert counts.sum() == 2.0


def test_sparse_differences_count_as_dense_ones():
    rng = np.random.default_rng(0)
    differences = rng.standard_normal((300, 5)) * (rng.random((300, 5)) < 0.1)
    dense = histograms(differences)
    assert np.array_equal(histograms(sparse.csr_array(differences)), dense)
    wide = sparse.csr_array(np.hstack([differences, np.zeros((300, 400))]))
    assert np.array_equal(histograms(wide)[:5], dense)
    assert not histograms(sparse.csr_array((3, 4))).any()


def test_entries_at_the_same_place_are_one_difference():
    twice = sparse.csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 1))
    twice.has_canonical_format = True  # whoever says so may be wrong
    assert np.array_equal(histograms(twice), histograms(np.array([[3.0]])))


def test_sums_of_blocks_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 4)) * 1e3
    exponents = np.array([[3, 9, 20]] * 4)
    parts = features.counts_of_differences([rows[:77], rows[77:]], 4, -20, 82)
    assert np.array_equal(histograms(rows), parts)
    phases = [features.phase_sums(part, exponents) for part in (rows[:77], rows[77:])]
    assert np.array_equal(phases[0] + phases[1], features.phase_sums(rows, exponents))


def test_no_rows_have_no_sums():
    rows, exponents = np.zeros((0, 3)), np.zeros((3, 2), dtype=int)
    assert not features.phase_sums(rows, exponents).any()
    assert not features.moment_sums(rows, np.zeros(3), np.ones(3)).any()
    assert not histograms(rows).any()


def test_blocks_of_many_rows_count_as_those_of_few():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((900, 6)) * [1.0, 1e-9, 1e200, 1.0, 1.0, 1.0]
    rows[:, 3] = rng.choice([0.0, -0.0, np.nan, 1.0, 1.5, 3.0], 900)
    rows[:, 4] = rng.choice([np.inf, -np.inf, 5e-324, 1e308, 2.0, -1e-300], 900)
    rows[:400, 5] = 0.0
    for first, n_nodes in ((-1022, 4092), (-200, 401), (-30, 82)):
        size = {"first_octave": first, "n_nodes": n_nodes, "n_features": 6}
        few = features.counts_of_differences(np.array_split(rows, 20), **size)
        for blocks in ([rows], [rows[:300], rows[300:]], [np.asfortranarray(rows)]):
            assert np.array_equal(features.counts_of_differences(blocks, **size), few)


@pytest.mark.parametrize("place", [0.0, -1.0, 37.5, 1e4, -1e6, 9e8])
def test_phases_find_the_place(place):
    rng = np.random.default_rng(0)
    rows = place + rng.standard_normal((2000, 1))
    exponents = 3 + 4 * np.arange(8)[None]
    phases = features.phase_sums(rows, exponents) / 2000
    assert features.unwind_phases(phases, exponents) == pytest.approx([place], abs=0.3)
    rough = phases + 0.02 * rng.standard_normal(phases.shape)
    assert features.unwind_phases(rough, exponents) == pytest.approx([place], abs=0.5)


def test_phases_are_periodic_and_on_a_square():
    exponents = np.array([[4]])
    corners = {0.0: (1, 0), 4.0: (0, 1), 8.0: (-1, 0), -4.0: (0, -1), 2.0: (0.5, 0.5)}
    for value, phase in corners.items():
        for turns in (0, 1, -3, 2**30):
            rows = np.array([[value + 16.0 * turns]])
            assert features.phase_sums(rows, exponents)[0, 0] == pytest.approx(phase)


def test_extreme_values_have_finite_sums():
    rows = np.array([[1.7e308], [-1.7e308], [5e-324], [math.pi]])
    for exponent in (-1070, -5, 1020, 1060):
        sums = features.phase_sums(rows, np.array([[exponent]]))
        assert np.isfinite(sums).all()
    for center, radius in ((0.0, 1e-300), (-1.7e308, 1.0), (1e308, 1e308)):
        sums = features.moment_sums(rows, np.array([center]), np.array([radius]))
        assert np.isfinite(sums).all()
        assert np.abs(sums).max() <= 4.0


def test_moments_are_those_of_cut_values():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 2)) * [1.0, 5.0] + [10.0, -2.0]
    center, radius = np.array([9.0, -2.0]), np.array([1.5, 4.0])
    cut = np.clip((rows - center) / radius, -1, 1)
    sums = features.moment_sums(rows, center, radius)
    assert sums == pytest.approx(np.column_stack([cut.sum(0), (cut**2).sum(0)]))
