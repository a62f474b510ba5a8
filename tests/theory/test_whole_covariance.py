"""Layers of a clipped second moment and votes about lengths: by brute force."""

import math
import warnings

import numpy as np
import pytest
from pca_tools import rows_of_all_lengths

from skdpspectral import DPCovariance
from skdpspectral._linalg.walks import row_blocks
from skdpspectral._statistics.moments import Origin, Rows
from skdpspectral._statistics.statistic import HALF, mean_summation_error
from skdpspectral._tables.clipping import clip_rows
from skdpspectral.covariance._covariance import (
    ClippedMoments,
    clipped_parts,
    count_longer,
)

POINTS = np.arange(-256, 257) / 32.0


def released(rows, epsilon, seed=0, center="none"):
    """Covariance of a fit, and the lengths that it found."""
    radii, find = [], ClippedMoments._radii

    def noted(self, *given):
        radii.append(find(self, *given))
        return radii[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClippedMoments, "_radii", noted)
        how = {"epsilon": epsilon, "noise_seed": seed, "center": center}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return DPCovariance(**how).fit(rows).covariance_, radii[0]


def parts_of_each(rows, radii):
    """Parts of rows one by one: zero where a row has none."""
    found = [np.zeros_like(rows) for _ in radii]
    for place, row in enumerate(rows):
        for part, own in zip(
            found, clipped_parts(row[None].copy(), radii), strict=True
        ):
            part[place] = own.sum(axis=0)
    return found


@pytest.mark.parametrize("radii", [(1.0,), (1.0, 3.0), (0.2, 50.0), (30.0, 30.0)])
def test_no_replacement_moves_a_layer_further(radii):
    rng = np.random.default_rng(0)
    sides = [parts_of_each(rows_of_all_lengths(rng, 4000, 4), radii) for _ in range(2)]
    for first, second in zip(*sides, strict=True):
        for part in (first, second):
            assert np.linalg.norm(part, axis=1).max() <= 1.0 + 4 * 2.0**-52
        outer = [part[:, :, None] * part[:, None, :] for part in (first, second)]
        moved = np.linalg.norm(outer[0] - outer[1], axis=(1, 2))
        assert moved.max() <= math.sqrt(2.0) * (1 + 1e-12)
        # A search at random comes near.
        assert radii == (30.0, 30.0) or moved.max() > 0.9 * math.sqrt(2.0)


def test_the_lemma_is_attained_by_two_long_rows():
    rows = 100.0 * np.eye(3)[:2]
    for part in clipped_parts(rows, (1.0, 7.0)):
        outer = part[:, :, None] * part[:, None, :]
        assert np.linalg.norm(outer[0] - outer[1]) == pytest.approx(math.sqrt(2.0))


def test_layers_add_up_to_the_rows_clipped_at_the_larger_radius():
    rng = np.random.default_rng(1)
    rows = rows_of_all_lengths(rng, 300, 5)
    rows[0], rows[1] = 0.0, 1e200
    rows[2, 0], rows[3, 1] = np.nan, np.inf
    radii = (0.7, 4.0)
    near, far = clipped_parts(rows.copy(), radii)
    areas = radii[0] ** 2, radii[1] ** 2 - radii[0] ** 2
    total = areas[0] * (near.T @ near) + areas[1] * (far.T @ far)
    whole = clip_rows(rows, radii[1])
    np.testing.assert_allclose(total, whole.T @ whole, rtol=1e-9)


def test_counts_are_those_of_lengths():
    rng = np.random.default_rng(2)
    rows = rows_of_all_lengths(rng, 500, 3)
    rows[0], rows[1], rows[2] = 0.0, 1e30, np.nan
    lengths = np.nan_to_num(np.linalg.norm(rows, axis=1), nan=np.inf)
    longer = count_longer((rows[block] for block in row_blocks(500, 128)), POINTS)
    for point in (0, 1, 100, 256, 300, 512):
        expected = np.sum(lengths > 2.0 ** POINTS[point] * (1 + 1e-12))
        assert longer[point] == expected


@pytest.mark.parametrize("paired", [False, True])
def test_no_replacement_moves_a_vote_further(paired):
    """A row, or all the pairs that it is in, changes from any length to any other."""
    rng, n, worst = np.random.default_rng(0), 40, 0.0
    moments = ClippedMoments.planned("", Rows(n, 2), 9.0)
    assert {m.sensitivity for votes in moments.votes for m in votes} == {1.0}
    for _ in range(60):
        X = rng.standard_normal((n, 2)) * 10.0 ** rng.uniform(-2, 2, (n, 1))
        X *= rng.random((n, 1)) < rng.uniform(0.05, 1.0)
        other, answers, sides = X.copy(), {}, []
        other[3] = np.eye(2)[0] * rng.choice([0.0, 1e-3, 1.0, 1e3, 1e300])
        for rows in (X, other):
            asked = {}

            def answer(name, value, asked=asked, answers=answers):
                asked[name] = np.array(value)
                return answers.setdefault(name, rng.standard_normal(np.shape(value)))

            origin = Origin(None if paired else np.zeros(2), paired, 1.0)
            moments.run(answer, rows, origin)
            sides.append(asked)
        for name in sides[0]:
            if "length" in name:
                worst = max(worst, abs(sides[0][name][0] - sides[1][name][0]))
    assert worst == pytest.approx(1.0, rel=1e-12)


def test_costs_add_up_to_the_budget():
    for n, p in ((100, 5), (300, 10), (2000, 64), (10**6, 20)):
        mechanisms = ClippedMoments.planned("", Rows(n, p), 0.3).mechanisms
        total = math.hypot(*(m.mu for m in mechanisms))
        assert total == pytest.approx(0.3, rel=1e-9)
        for m in mechanisms:
            if m.name.endswith("moment"):
                assert m.sensitivity == pytest.approx(math.sqrt(2) / n)
                error = mean_summation_error(1.0, n, p, (1.0, HALF))
                assert m.summation_error == error


@pytest.mark.parametrize("n", [9, 40])
def test_no_row_moves_what_is_released_of_pairs_further(n):
    """Half of a mean over pairs, of layers with any radii, for any replaced row."""
    rng = np.random.default_rng(n)
    walks, layers = Rows(n, 3), []
    for _ in range(60):
        rows = np.zeros((n, 3))
        rows[0] = rows_of_all_lengths(rng, 1, 3)[0]
        sums = [np.zeros((3, 3)) for _ in range(2)]
        for block in walks.differences(rows).walk.blocks(rows):
            for total, part in zip(sums, clipped_parts(block, (0.5, 2.0)), strict=True):
                total += part.T @ part
        layers.append([HALF * total / walks.n_pairs for total in sums])
    for part in range(2):
        found = np.array([layer[part] for layer in layers])
        moved = np.linalg.norm(found[:, None] - found[None], axis=(2, 3)).max()
        assert 0.6 * math.sqrt(2) / n < moved <= math.sqrt(2) / n * (1 + 1e-12)


def test_pairs_give_the_covariance_of_rows_far_from_the_origin():
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((20_000, 4)) * [3.0, 1.0, 1.0, 0.5]
    exact = np.cov(rows, rowvar=False)
    found, _ = released(rows + 1e4, 4.0, 0, "pairs")
    assert np.linalg.norm(found - exact) < 0.05 * np.linalg.norm(exact)


def test_without_noise_it_is_the_second_moment_below_the_far_radius():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((5000, 4)) * [3.0, 1.0, 1.0, 0.2]
    found, _ = released(rows, None, None)
    exact = rows.T @ rows / len(rows)
    assert np.linalg.norm(found - exact) < 0.02 * np.linalg.norm(exact)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_few_rows_do_not_lead_the_radius_astray(scale):
    """300 rows at epsilon 1: a vote errs by chance in fewer than one fit in 500."""
    rng = np.random.default_rng(4)
    for seed in range(20):
        found, radii = released(scale * rng.standard_normal((300, 10)), 1.0, seed)
        assert 0.5 < np.trace(found) / (10.0 * scale**2) < 3.0
        assert scale < radii[0] < 10.0 * scale


def test_votes_that_decide_nothing_are_known_beforehand():
    for n, weight, doubtful in ((300, 1.0, False), (60, 1.0, True), (300, HALF, True)):
        moments = ClippedMoments.planned("", Rows(n, 10), 0.2)
        assert moments.is_doubtful(weight) == doubtful


def test_rows_without_a_length_do_not_count_for_the_radius():
    """Pairs of equal rows are zero: nine of ten here."""
    rng = np.random.default_rng(5)
    rows = np.zeros((20_000, 5))
    rows[::10] = rng.standard_normal((2000, 5))
    found, radii = released(rows, 4.0)
    assert 1.5 < radii[0] < 4.0
    exact = rows.T @ rows / len(rows)
    assert np.linalg.norm(found - exact) < 0.2 * np.linalg.norm(exact)


def test_inliers_keep_their_distances():
    """The share beyond the 99 % quantile, whatever the spectrum: .5 to 2 %."""
    from scipy.stats import chi2

    rng = np.random.default_rng(6)
    for spectrum in (np.ones(10), 1.0 / np.arange(1, 11), 10 ** -np.linspace(0, 3, 10)):
        rows = rng.standard_normal((30_000, 10)) * np.sqrt(spectrum)
        found, _ = released(rows, 1.0)
        distances = np.einsum("ij,ij->i", rows @ np.linalg.inv(found), rows)
        beyond = np.mean(distances > chi2.ppf(0.99, 10))
        assert 0.003 < beyond < 0.02
