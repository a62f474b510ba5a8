"""The stages of a center: sensitivities by brute force, budgets, and exact values."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from skdpspectral import DPPCA
from skdpspectral._linalg.eigen import top_eigh
from skdpspectral._statistics import moments
from skdpspectral._statistics.centered import (
    N_OCTAVES,
    Centered,
    count_lengths,
    plan_courses,
)
from skdpspectral._statistics.moments import (
    KNOTS,
    PARTS,
    WIDE,
    Moment,
    Origin,
    PowerStep,
    Rows,
    count_squares,
    terms_about,
)
from skdpspectral._statistics.statistic import HALF, pair_order
from skdpspectral.covariance._covariance import ClippedMoments
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance
from skdpspectral.sensitivity import mean_sensitivity, second_moment_sensitivity

# Squared lengths on knots, between them, at the center, and beyond all.
SIZES = np.array([0.0, 1e-300, 1e-9, 0.3, 0.5, 0.6, 1.0, 1.1, 1.5, 9.0, 2e4, 1e300])
ALL_SIZES = np.concatenate([SIZES, np.exp2(np.arange(-40.0, 40.0, 0.77))])


class Told:
    """A release that keeps what it is given, and answers by noise or a transcript."""

    def __init__(self, answers=None, noise=0.0, rng=None):
        self.values, self.answers = {}, {} if answers is None else answers
        self.noise, self.rng = noise, rng

    def __call__(self, name, value, *, overwrite=False):
        value = np.array(value, dtype=float)
        if value.ndim == 2 and value.shape[0] == value.shape[1]:
            value = np.tril(value) + np.tril(value, -1).T
        self.values[name] = value
        if name not in self.answers:
            noisy = value if self.rng is None else self.rng.standard_normal(value.shape)
            self.answers[name] = value + self.noise * noisy
        return self.answers[name].copy()


def parts_of(size):
    """Parts of one row in the counts of lengths and of squared lengths."""
    row = np.array([[size, 0.0]])
    return count_lengths([row]) / PARTS, count_squares([row], 1.0) / PARTS


def test_parts_of_a_row_are_of_norm_one_and_none_is_negative():
    found = [parts_of(size) for size in ALL_SIZES]
    for lengths, votes in found:
        assert min(lengths.min(), votes.min()) >= 0.0
        assert lengths.sum() in (0.0, 1.0)
        assert votes.sum() == 1.0
        assert np.linalg.norm(lengths) <= 1.0
    for kind in zip(*found, strict=True):
        table = np.array(kind)
        moved = np.linalg.norm(table[:, None] - table, axis=2).max()
        assert moved == pytest.approx(math.sqrt(2.0), abs=1e-12)


def test_votes_have_the_squared_length_for_their_mean():
    """But for a step of 1 / PARTS of the knots; the longest count as the last knot."""
    sizes = np.linspace(0.0, 130.0, 999)
    rows = np.c_[sizes, np.zeros(999)]
    votes = np.array([count_squares([row[None]], 1.0) for row in rows]) / PARTS
    np.testing.assert_allclose(votes @ KNOTS, np.minimum(sizes**2, KNOTS[-1]), atol=13)
    short = sizes < 1.2
    np.testing.assert_allclose(votes[short] @ KNOTS, sizes[short] ** 2, atol=1e-3)
    assert count_squares([np.array([[np.nan, 1.0]])], 1.0)[-1] == PARTS - 1


def row_of_any_length(rng, p):
    direction = rng.standard_normal(p) if rng.random() < 0.5 else np.eye(p)[0]
    return direction * rng.choice([0.0, 1e-300, 1e-3, 1.0, 1e3, 1e20, 1e300])


@pytest.mark.parametrize("step", [False, True])
@pytest.mark.parametrize("center", ["auto", "pairs", "none"])
def test_no_row_moves_a_stage_by_more_than_its_lemma(center, step):
    """Fits of neighbors that are given the same answers, at adversarial places."""
    last = partial(PowerStep.of_rank, rank=1, paired=True) if step else Moment.planned
    rng, worst = np.random.default_rng(0), {}
    for k in range(120 if step else 240):
        n, p = int(rng.choice([2, 3, 9, 40])), int(rng.choice([1, 2, 5]))
        fit = Centered(Rows(n, p), 30.0, center, last)
        X = rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-3, 3)
        X += (k % 3) * 10.0 ** rng.uniform(0, 6)
        X[rng.random(n) < 0.3 * (k % 4 > 2)] = X[0]
        other, at = X.copy(), rng.integers(n)
        if k % 8 == 7:  # of one row alone, projections are the longest
            other[:] = X[at] * (np.arange(n) == at)[:, None]
            X[:] = 0.0
            X, other = other, X
        else:
            other[at] = row_of_any_length(rng, p) if k % 2 else -X[at]
        first = Told(noise=0.1 * (k % 5 == 0), rng=rng)
        fit.run(first, X)
        second = Told(first.answers)
        fit.run(second, other)
        one, two = first.values, second.values
        planned = {m.name: m for b in fit.branches for m in b.mechanisms}
        planned |= {} if fit.lengths is None else {"lengths": fit.lengths}
        assert one.keys() == two.keys() <= planned.keys()
        for name, value in one.items():
            moved = float(np.linalg.norm(value - two[name]))
            bound = planned[name].sensitivity
            assert moved <= bound * (1 + 1e-9) + 2 * planned[name].summation_error, name
            kind = name.split("_")[0]
            worst[kind] = max(worst.get(kind, 0.0), moved / bound)
    stages = ["lengths", "votes", "second", *["center"] * (center == "auto")]
    stages += ["power"] * step
    assert sorted(worst) == sorted(stages)
    assert min(worst.values()) > 0.5, worst


def test_the_bounds_of_lengths_votes_and_steps_are_attained():
    """One row among others that are equal takes all of its pairs along."""
    n = 9
    rows, far = Rows(n, 2), np.zeros((n, 2))
    far[4, 0] = 1.0
    for paired, factor in ((False, 1.0), (True, 2.0)):
        sides = []
        for X in (np.zeros((n, 2)), far):
            walk = rows.differences(X) if paired else rows.about(X, None)
            if paired:
                walk = rows.differences(X, rows.sample(n))
            sides.append(walk.reduce(lambda b: count_squares(b, 1.0)) / PARTS / n)
        moved = np.linalg.norm(sides[0] - sides[1])
        assert moved == pytest.approx(factor * math.sqrt(2.0) / n)
        (planned,) = [moments.plan_votes("votes", 1.0, rows.sample(n), paired)]
        assert planned.sensitivity == pytest.approx(moved)
    fit = Centered(rows, 90.0, "auto", Moment.planned)
    lengths = []
    for size in (1.0, 2.0**9):
        told = Told()
        fit.run(told, far * size)
        lengths.append(told.values["lengths"])
    assert fit.lengths.sensitivity == 2.0 / n
    # Differences are shorter by the root of two: half an octave.
    moved = np.linalg.norm(lengths[0] - lengths[1])
    assert moved == pytest.approx(math.sqrt(2.0 + 1.0) / n)
    course = next(b for b in fit.branches if b.course is not None)
    assert {m.sensitivity for m in course.means} == {mean_sensitivity(1.0, n)}


@pytest.mark.parametrize("paired", [False, True])
def test_rows_that_keep_their_length_move_the_moment_no_further(paired):
    """Climbing over all rows, the replacement, the center and the length."""
    n, p = 6, 2
    rng, moment = np.random.default_rng(2), Moment.planned("", Rows(n, p), 1.0)
    bound = second_moment_sensitivity(1.0, n)
    assert moment.mechanism.sensitivity == bound

    def moved(flat):
        rows = flat[: n * p + p].reshape(n + 1, p)
        other = rows[:n].copy()
        other[2] = rows[n]
        # The edge of the noise makes a length of the error of a center.
        origin = Origin(None if paired else flat[-p:], paired, error=abs(flat[-p - 1]))
        sides = [Told(), Told()]
        for told, x in zip(sides, (rows[:n], other), strict=True):
            moment.run(told, x.copy(), origin)
        found = [told.values["second_moment"] for told in sides]
        return -np.linalg.norm(found[0] - found[1])

    best = 0.0
    for length in (1e-3, 1.0):
        start = rng.standard_normal((n + 1) * p + p + 1)
        start[-p - 1] = length
        found = minimize(moved, start, method="Powell", options={"maxiter": 8})
        best = max(best, -found.fun)
    assert 0.9 * bound <= best <= bound * (1 + 1e-9)


SHAPES = [(2, 3), (30, 4), (300, 20), (2000, 50), (9000, 5), (10**5, 300), (10**7, 100)]


@pytest.mark.parametrize("mu", [1e-3, 0.1, 0.25, 1.0, 9.0, 400.0])
@pytest.mark.parametrize("center", ["auto", "pairs", "none"])
def test_every_branch_costs_the_budget_and_no_more(mu, center):
    for shape in SHAPES:
        for last, measured in ((Moment, False), (ClippedMoments, True)):
            rows = Rows(*shape)
            fit = Centered(rows, mu, center, last.planned, measured)
            first = () if fit.lengths is None else (fit.lengths,)
            for branch in fit.branches:
                cost = math.hypot(*(m.mu for m in (*first, *branch.mechanisms)))
                assert mu * (1 - 1e-9) <= cost <= mu
            assert len(fit.branches) <= 24


def test_no_value_chooses_a_course_but_the_ratio_of_released_lengths():
    order = pair_order(20_000, 30)
    courses, chosen = plan_courses(Rows(20_000, 30).sampling, 0.25, 0.002, 0.002)
    assert order.n_samples == 20_000
    assert set(chosen) == set(range(len(courses))) - ({0} - set(chosen))
    assert np.all(np.array(chosen) < len(courses))


# -- without noise: a plain oracle -----------------------------------------------------


def exact_fit(X, center, box=None):
    fit = Centered(Rows(*X.shape, box), math.inf, center, Moment.planned)
    told = Told()
    _, origin, (matrix, _), _ = fit.run(told, X)
    return told.values, origin, np.tril(matrix) + np.tril(matrix, -1).T


@pytest.mark.parametrize("center", ["auto", "none"])
def test_without_noise_each_stage_is_what_it_says(center):
    """Lengths, votes, the center and the moment, by other code: their divisors too."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 4)) * [3.0, 1.0, 1.0, 0.5] + (2.0, -1.0, 0.0, 0.5)
    values, origin, matrix = exact_fit(X, center)
    octaves = np.log2(np.linalg.norm(X, axis=1)) + 198.0
    assert values["lengths"][1].sum() == pytest.approx(1.0)
    assert values["lengths"][1] @ np.arange(N_OCTAVES) == pytest.approx(
        octaves.mean(), abs=1 / PARTS
    )
    rows = X if center == "none" else X - origin.center
    if center == "auto":
        assert values["lengths"][0].sum() == pytest.approx(0.5)
        # Clipped means, whose bias is that of rows that are cut.
        np.testing.assert_allclose(origin.center, X.mean(axis=0), atol=0.15)
    squared = (np.linalg.norm(rows, axis=1) / origin.typical) ** 2
    assert origin.votes.sum() == pytest.approx(1.0)
    assert origin.votes @ KNOTS == pytest.approx(squared.mean(), rel=0.01)
    length = Moment.planned("", Rows(*X.shape), math.inf).length(origin)
    bounded = rows / np.maximum(np.linalg.norm(rows, axis=1), length)[:, None]
    np.testing.assert_allclose(matrix, bounded.T @ bounded / len(X), rtol=1e-9)


def test_without_noise_a_step_is_the_mean_of_clipped_rows():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 3)) + 5.0
    fit = Centered(Rows(300, 3), math.inf, "auto", Moment.planned)
    told = Told()
    _, origin, *_ = fit.run(told, X)
    branch = next(b for b in fit.branches if b.means and b.means[0].name in told.values)
    typical = origin.typical
    lengths = told.values["lengths"]
    reach = 2.0 ** (lengths[1] @ np.arange(N_OCTAVES) / lengths[1].sum() - 198.0)
    ratio = 2.0 ** (math.ceil(4 * math.log2(reach / typical) - 1e-9) / 4)
    radii, _ = branch.course.radii(ratio, 3)
    point = np.zeros(3)
    for mean, radius in zip(branch.means, radii, strict=True):
        moved, clip = X - point, float(radius) * typical
        moved *= np.minimum(1.0, clip / np.linalg.norm(moved, axis=1))[:, None]
        np.testing.assert_allclose(
            told.values[mean.name], moved.mean(axis=0) / clip, rtol=1e-9, atol=1e-12
        )
        point = point + moved.mean(axis=0)
    np.testing.assert_allclose(origin.center, point, rtol=1e-9)


def test_without_noise_pairs_are_those_of_all_rows():
    X = np.random.default_rng(5).standard_normal((40, 3))
    values, _, matrix = exact_fit(X, "pairs")
    rows = Rows(40, 3)
    blocks = [block.copy() for block in rows.differences(X).walk.blocks(X)]
    differences = np.concatenate(blocks)
    assert len(differences) == rows.n_pairs == pair_order(40, 3).n_pairs
    np.testing.assert_allclose(values["second_moment"], HALF * matrix, rtol=1e-12)
    origin = Origin(paired=True)
    unit = differences / np.linalg.norm(differences, axis=1)[:, None]
    plain, _ = Moment.planned("", rows, math.inf).run(Told(), X, origin)
    plain = np.tril(plain) + np.tril(plain, -1).T
    np.testing.assert_allclose(plain, unit.T @ unit / len(unit), rtol=1e-9)


@pytest.mark.parametrize("center", ["auto", "pairs"])
def test_a_power_step_is_the_product_of_the_moment_and_its_components(center):
    """Without noise, of projections that are not clipped; the clip is that of norms."""
    X = np.random.default_rng(7).standard_normal((400, 3)) * [2.0, 1.0, 1.0]
    last = partial(PowerStep.of_rank, rank=2, paired=True)
    told = Told()
    fit = Centered(Rows(*X.shape), math.inf, center, last)
    moment, origin, (matrix, across), _ = fit.run(told, X)
    walk = terms_about(moment.rows, X, origin)[0].walk
    rows = np.concatenate([block.copy() for block in walk.blocks(X)])
    rows /= np.maximum(np.linalg.norm(rows, axis=1), moment.length(origin))[:, None]
    whole = rows.T @ rows / len(rows)
    values, basis = top_eigh(whole, 2)
    scores = rows @ basis.T / math.sqrt(values.sum())
    scores /= np.maximum(np.linalg.norm(scores, axis=1), 1.0)[:, None]
    found = told.values[moment.step.name] / (HALF if origin.paired else 1.0)
    np.testing.assert_allclose(found, rows.T @ scores / len(rows), atol=1e-9)
    # There is no noise that it could reduce.
    assert across == 0.0
    np.testing.assert_allclose(top_eigh(matrix, 2)[1], basis, atol=1e-9)


def test_wide_tables_take_a_power_step():
    """Of 1e4 rows and 200 features errors fall by a sixth (8 deviations)."""
    X, U = make_spiked_covariance(10_000, 200, n_components=1, random_state=0)
    errors = []
    for wide in (True, False):
        fits = [DPPCA(1 if wide else "auto", noise_seed=s) for s in range(4)]
        errors.append([subspace_distance(f.fit(X).components_[:1], U) for f in fits])
    assert np.mean(errors[0]) < 0.87 * np.mean(errors[1])
    names = {m.name for m in DPPCA(1).privacy_plan(9000, WIDE).releases()}
    assert "power_step_1" in names
    assert not any(
        "power" in m.name for m in DPPCA(1).privacy_plan(9000, 149).releases()
    )


@pytest.mark.parametrize("center", ["auto", "pairs", "none"])
def test_rows_on_a_sample_are_counted_by_its_size(center):
    """Of many rows the stages read a part; shares are of that part."""
    X = np.random.default_rng(6).standard_normal((200_000, 2)) + 1.0
    fit = Centered(Rows(*X.shape), 0.5, center, Moment.planned)
    assert fit.measured.n_rows < len(X) > fit.voters.n_rows
    told = Told()
    fit.run(told, X)
    assert told.values["lengths"][1].sum() == pytest.approx(1.0)
    for name, value in told.values.items():
        if name.startswith("votes"):
            assert value.sum() == pytest.approx(1.0)
        if name.startswith("second"):
            assert np.trace(value) <= 1.0 + 1e-12
