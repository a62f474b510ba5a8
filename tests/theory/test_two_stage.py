"""Sensitivities of the second stage, of votes and of projections, by brute force."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from skdpspectral import DPPCA
from skdpspectral._linalg.walks import RowWalk, Walked
from skdpspectral._statistics.statistic import Terms
from skdpspectral.accounting import gaussian_mu, split_mu
from skdpspectral.decomposition import SpikedPCA
from skdpspectral.decomposition._components import PrivateScales
from skdpspectral.decomposition._kernels import orthonormal_rows, shifted_power_step
from skdpspectral.decomposition._two_stage import (
    PowerStep,
    _clipped_parts,
    _sums_of_moments,
)
from skdpspectral.mechanisms import Alternatives, Exact, Gaussian, PrivacyPlan
from skdpspectral.sensitivity import (
    cross_moment_sensitivity,
    second_moment_sensitivity,
    vote_sensitivity,
)

NAMES = ("cross_moment", "weighted_moment", "wide_moment")


def rows_of_all_lengths(rng, n, p):
    """Directions of every kind, lengths from far below to far above any clip."""
    rows = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.7)
    return rows * 10.0 ** rng.uniform(-3, 3, (n, 1))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("radii", [(1.0, 1.0), (0.2, 5.0), (30.0, 0.01)])
def test_no_replacement_moves_a_moment_of_the_step_further(rank, radii):
    rng = np.random.default_rng(0)
    components = orthonormal_rows(rng.standard_normal((rank, 5)))
    n = 7
    planned = {m.name: m.sensitivity for m in PowerStep(n, 5, rank).mechanisms(1.0)}
    assert planned == {
        "cross_moment": cross_moment_sensitivity(1.0, 1.0, n),
        "weighted_moment": pytest.approx(3.0 * second_moment_sensitivity(1.0, n)),
        "wide_moment": pytest.approx(9.0 * second_moment_sensitivity(1.0, n)),
    }
    sides = []
    for _ in range(2):
        rows = rows_of_all_lengths(rng, 4000, 5)
        alpha, middle, far, beta = _clipped_parts(rows, components, *radii)
        outer = [beta[:, :, None] * alpha[:, None, :]]
        outer += [part[:, :, None] * part[:, None, :] for part in (middle, far)]
        sides.append(outer)
    for name, first, second in zip(NAMES, *sides, strict=True):
        moved = np.linalg.norm(first - second, axis=(1, 2)) / n
        assert moved.max() <= planned[name] * (1 + 1e-12)
        # A search at random comes near.
        assert moved.max() > 0.6 * planned[name] / (math.sqrt(2) if rank == 1 else 1)


def terms(*blocks):
    """Blocks of rows as terms of a mean."""
    rows = np.concatenate(blocks)
    return Terms(Walked(rows, RowWalk()), len(rows))


def test_the_bounds_of_the_step_are_attained():
    components = np.eye(2, 4)
    far = 1e9 * np.eye(4)
    pairs = {
        "cross_moment": (far[0] + far[2], far[2] - far[0]),
        "weighted_moment": (far[0], far[1]),
        "wide_moment": (far[0], far[1]),
    }
    step = PowerStep(1, 4, 2)
    planned = {m.name: m.sensitivity for m in step.mechanisms(1.0)}
    for number, (name, pair) in enumerate(pairs.items()):
        moments = [
            _sums_of_moments([row[None]], components, 2.0, 3.0)[number] for row in pair
        ]
        moved = np.linalg.norm(moments[0] - moments[1])
        assert moved == pytest.approx(planned[name], rel=1e-9)


def test_the_middle_part_is_that_of_two_clips():
    rng = np.random.default_rng(1)
    components = orthonormal_rows(rng.standard_normal((2, 5)))
    rows = rows_of_all_lengths(rng, 500, 5)
    scores = rows @ components.T
    lengths = np.linalg.norm(scores, axis=1, keepdims=True)
    narrow, wide = (scores * np.minimum(1.0, c / lengths) for c in (1.0, 3.0))
    _, middle, _, _ = _clipped_parts(rows, components, 1.0, 1.0)
    expected = wide[:, :, None] * narrow[:, None, :]
    np.testing.assert_allclose(
        middle[:, :, None] * middle[:, None, :], expected, atol=1e-9
    )


def test_extreme_rows_cannot_spoil_a_moment():
    components = np.eye(1, 3)
    for value in (np.inf, np.nan, 1e308, 5e-324):
        rows = np.array([[value, value, 0.0], [1.0, 0.0, value]])
        parts = _clipped_parts(rows, components, 1.0, 1.0)
        for part, bound in zip(parts, (1.0, math.sqrt(3.0), 3.0, 1.0), strict=True):
            assert np.isfinite(part).all()
            assert np.linalg.norm(part, axis=1).max() <= bound * (1 + 1e-15)


@pytest.mark.parametrize("rank", [1, 3])
def test_the_power_step_finds_the_space_from_any_start(rank):
    """In the population: B D^-1 V (V - s)^-1 from the moments of clipped normals."""
    rng = np.random.default_rng(2)
    p, noise = 9, 1.7
    truth = orthonormal_rows(rng.standard_normal((rank, p)))
    signal = np.linspace(9.0, 4.0, rank)
    covariance = (truth.T * signal) @ truth + noise * np.eye(p)
    start = orthonormal_rows(truth + 0.4 * rng.standard_normal((rank, p)))
    wide = start @ covariance @ start.T
    # Any D: the mean product of a with its clipped self; B is what regression says.
    root = rng.standard_normal((rank, rank))
    weighted = root @ root.T + 0.1 * np.eye(rank)
    across = np.eye(p) - start.T @ start
    cross = across @ covariance @ start.T @ np.linalg.solve(wide, weighted)
    found = shifted_power_step(start, cross, weighted, wide, noise)
    np.testing.assert_allclose(found.T @ found, truth.T @ truth, atol=1e-10)


class Answers:
    """A release without noise, or with fixed noise."""

    def __init__(self, mechanisms, noise=0.0):
        self.plan = PrivacyPlan(1.0, 1e-6, tuple(mechanisms), "test")
        self.noise, self.values = noise, []

    def __call__(self, name, value, *, overwrite=False):
        self.values.append(np.array(value))
        return np.asarray(value, dtype=float) + self.noise


def test_no_replacement_moves_the_votes_further():
    rng = np.random.default_rng(3)
    components = np.eye(1, 3)
    scales = PrivateScales(20, 3, (1e-6, 1e6), None, None)
    plan = scales.mechanisms(1.0)
    assert plan[0].sensitivity == vote_sensitivity(2, "replace-one") == math.sqrt(2)
    assert [m.mu for m in plan] == pytest.approx(split_mu(1.0, [1 / 12] * 12))
    worst = 0.0
    for _ in range(200):
        X = rows_of_all_lengths(rng, 20, 3)
        other = X.copy()
        other[3] = rows_of_all_lengths(rng, 1, 3) * 10.0 ** rng.uniform(-4, 4)
        # The same answers on both sides: as released, whatever the votes are.
        answers = rng.standard_normal((12, 2)) * 30
        votes = []
        for rows in (X, other):
            release = Answers(plan)

            def fixed(name, value, overwrite=False, release=release, a=answers):
                release.values.append(np.array(value))
                return a[len(release.values) - 1]

            fixed.plan = release.plan
            scales.run(fixed, terms(rows), components)
            votes.append(np.array(release.values))
        moved = np.linalg.norm(votes[0] - votes[1], axis=1)
        worst = max(worst, moved.max())
    assert worst == pytest.approx(math.sqrt(2))


def test_scales_of_normal_rows_without_noise():
    rng = np.random.default_rng(4)
    p, rank, signal, noise = 12, 2, 8.0, 0.5
    sizes = np.r_[np.full(rank, signal + noise), np.full(p - rank, noise)]
    X = rng.standard_normal((200_000, p)) * np.sqrt(sizes)
    scales = PrivateScales(len(X), p, (1e-6, 1e6), None, None)
    release = Answers(Exact(m.name, m.shape) for m in scales.mechanisms(1.0))
    found = scales.run(release, terms(X[:70_000], X[70_000:]), np.eye(2, p))
    assert found.signal == pytest.approx(signal, rel=0.03)
    assert found.noise == pytest.approx(noise, rel=0.02)


def test_the_bisection_is_that_of_sorted_lengths():
    """Counts on a dyadic grid answer as counting anew at every step would."""
    rng = np.random.default_rng(5)
    X = rows_of_all_lengths(rng, 501, 3)
    scales = PrivateScales(501, 3, (1e-4, 1e4), None, 1.0)
    release = Answers(scales.mechanisms(1.0))
    scales.run(release, terms(X), np.eye(1, 3))
    logs = np.log(X[:, 0] ** 2, where=X[:, 0] != 0, out=np.full(501, -np.inf))
    low, high = 2 * math.log(1e-4), 2 * math.log(1e4)
    for votes in release.values:
        middle = 0.5 * (low + high)
        expected = np.sum(logs <= middle) - 0.5 * 501
        assert votes == expected
        low, high = (low, middle) if expected > 0 else (middle, high)


def test_a_choice_costs_its_dearest_branch():
    cheap = Gaussian("a", 1.0, 2.0, (3,))
    dear = (Gaussian("b", 1.0, 1.5, (3,)), Gaussian("c", 1.0, 2.0, (2, 2)))
    choice = Alternatives("either", ((cheap,), dear))
    assert choice.mu == math.hypot(*(m.mu for m in dear)) > cheap.mu
    last = Alternatives("one", ((cheap,), (Gaussian("d", 1.0, 2.0, (3,)),), dear))
    assert last.mu == choice.mu
    plan = PrivacyPlan(1.0, 1e-6, (Gaussian("first", 1.0, 1.0, (1,)), choice), "test")
    assert plan.mu == math.hypot(plan["first"].mu, choice.mu)
    assert [m.name for m in plan.releases()] == ["first", "a", "b", "c"]
    assert PrivacyPlan.from_json(plan.to_json()) == plan
    with pytest.raises(ValueError, match="must differ"):
        PrivacyPlan(1.0, 1e-6, (cheap, choice), "test")


def test_one_branch_forgoes_the_other():
    from skdpspectral._release.noise import Release

    branches = [
        [Gaussian(name, 1.0, 1.0, (1,)) for name in pair] for pair in ("ab", "cd")
    ]
    plan = PrivacyPlan(1.0, 1e-6, (Alternatives("x", branches),), "test")
    release = Release(plan)
    release("d", [0.0])
    for name in "ab":
        with pytest.raises(KeyError, match="not a pending"):
            release(name, [0.0])
    release("c", [0.0])
    with pytest.raises(KeyError, match="not a pending"):
        release("c", [0.0])


def test_both_branches_of_auto_cost_the_same():
    pca = DPPCA(2, mechanism="auto", epsilon=0.7, center="none")
    plan = pca.privacy_plan(5000, 40)
    branches = plan["second_stage"].branches
    costs = [math.hypot(*(m.mu for m in branch)) for branch in branches]
    assert costs[0] == pytest.approx(costs[1], rel=1e-9)
    share = sum(m.mu**2 for m in branches[0]) / plan.mu**2
    assert share == pytest.approx(0.56, rel=1e-6)
    assert plan["second_moment"].mu ** 2 / plan.mu**2 == pytest.approx(0.4, rel=1e-6)
    parts = [m.mu**2 / plan.mu**2 / 0.56 for m in branches[0]]
    assert parts == pytest.approx([0.95, 0.03, 0.02], rel=1e-6)


def test_projected_moment_is_planned_and_clipped_by_its_radius():
    from skdpspectral.decomposition._bounded_moments import ProjectedMoment

    rng = np.random.default_rng(6)
    moment = ProjectedMoment(1, 4, 2)
    (planned,) = moment.mechanisms(1.0)
    assert planned.sensitivity == second_moment_sensitivity(1.0, 1)
    components = orthonormal_rows(rng.standard_normal((2, 4)))
    worst = 0.0
    for _ in range(500):
        pair = rows_of_all_lengths(rng, 2, 4)
        moments = [
            moment.run(Answers([planned]), terms(row[None]), components, 0.7)
            for row in pair
        ]
        worst = max(worst, np.linalg.norm(moments[0] - moments[1]) / 0.7**2)
    assert 0.9 * planned.sensitivity < worst <= planned.sensitivity * (1 + 1e-12)


def covariance_errors(n, p, signal, rank, epsilon, delta, n_repeats):
    """Relative errors of the covariance within true components: ours, and the papers'.

    Rows have their projections, and one coordinate as long as all that lies across.
    """
    from skdpspectral._release.noise import Release
    from skdpspectral.decomposition._bounded_moments import ProjectedMoment

    rng = np.random.default_rng(7)
    components, truth = np.eye(rank, rank + 1), (signal + 1.0) * np.eye(rank)
    within = ProjectedMoment(n, p, rank)
    share = within.mechanisms(math.sqrt(0.15) * gaussian_mu(epsilon, delta))
    plans = [PrivacyPlan(epsilon, delta, share, estimator="test", seeded=True)]
    papers = SpikedPCA(
        rank,
        signal_variance=signal,
        noise_variance=1.0,
        epsilon=epsilon,
        delta=delta,
        calibration="paper",
        sensitivity_constant=1.0,
        release="covariance",
        noise_seed=0,
    )
    plans.append(papers.privacy_plan(n, p))
    # Public: one row in a thousand is longer.
    radius = math.sqrt((signal + 1.0) * chi2.ppf(0.999, rank))
    printed = papers._statistic(n, p)
    errors = np.empty((n_repeats, 2))
    for k in range(n_repeats):
        X = np.sqrt(signal + 1.0) * rng.standard_normal((n, rank + 1))
        X[:, -1] = np.sqrt(rng.chisquare(p - rank, n))
        ours, theirs = (Release(plan, None, k) for plan in plans)
        found = [
            within.run(ours, terms(X), components, radius),
            printed.moment_within(theirs, X, components),
        ]
        errors[k] = [np.linalg.norm(one - truth) for one in found]
    return errors / np.linalg.norm(truth)


def test_covariance_within_components_against_the_papers():
    """A quarter of their error: what lies across the components is not paid for.

    Three components of variance 10, noise of variance 1; 25 repeats, of which the
    standard errors are below 0.002 and 0.008. The shares of the budget are those of
    the estimator.
    """
    errors = covariance_errors(10_000, 1000, 10.0, 3, 2.0, 1e-5, 25)
    ours, papers = errors.mean(axis=0)
    assert ours < 0.025 + 2 * 0.002
    assert papers == pytest.approx(0.1, abs=2 * 0.008)
