"""Sensitivities of cross moments, of votes and of projections, by brute force."""

import math

import numpy as np
import pytest
from pca_tools import rows_of_all_lengths
from scipy.stats import chi2

from skdpspectral._linalg.walks import RowWalk, Walked
from skdpspectral._statistics.moments import Origin, Rows
from skdpspectral.accounting import gaussian_mu, split_mu
from skdpspectral.decomposition import SpikedPCA
from skdpspectral.decomposition._spiked import PrivateScales
from skdpspectral.mechanisms import Alternatives, Exact, Gaussian, PrivacyPlan
from skdpspectral.sensitivity import (
    cross_moment_sensitivity,
    second_moment_sensitivity,
    vote_sensitivity,
)


def test_no_replacement_moves_a_cross_moment_further():
    """Products of two rows in balls: opposite ones are a diameter apart."""
    rng, bound = np.random.default_rng(0), cross_moment_sensitivity(2.0, 3.0, 1)
    parts = [rng.standard_normal((2000, p)) for p in (2, 3)]
    for part, radius in zip(parts, (2.0, 3.0), strict=True):
        part *= radius / np.linalg.norm(part, axis=1)[:, None]
    products = parts[0][:, :, None] * parts[1][:, None, :]
    moved = np.linalg.norm(products + products[0], axis=(1, 2)).max()
    assert 0.9 * bound < moved <= bound * (1 + 1e-12)
    assert np.linalg.norm(2.0 * products[0]) == pytest.approx(bound)


def terms(*blocks):
    """Blocks of rows, walked over."""
    return Walked(np.concatenate(blocks), RowWalk())


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
    scales = PrivateScales(20, 3)
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
    scales = PrivateScales(len(X), p)
    release = Answers(Exact(m.name, m.shape) for m in scales.mechanisms(1.0))
    cells = scales.run(release, terms(X[:70_000], X[70_000:]), np.eye(2, p))
    found = scales.of(cells, 2)
    assert found.signal == pytest.approx(signal, rel=0.03)
    assert found.noise == pytest.approx(noise, rel=0.02)


def test_the_bisection_is_that_of_sorted_lengths():
    """Counts on a dyadic grid answer as counting anew at every step would."""
    rng = np.random.default_rng(5)
    X = rows_of_all_lengths(rng, 501, 3)
    scales = PrivateScales(501, 3, (1e-4, 1e4))
    release = Answers(scales.mechanisms(1.0))
    scales.run(release, terms(X), np.eye(1, 3))
    logs = np.log(X[:, 0] ** 2, where=X[:, 0] != 0, out=np.full(501, -np.inf))
    low, high = 2 * math.log(1e-4), 2 * math.log(1e4)
    for votes in release.values:
        middle = 0.5 * (low + high)
        expected = np.sum(logs <= middle) - 0.5 * 501
        assert votes[0] == expected
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


def test_projected_moment_is_planned_and_clipped_by_its_radius():
    from skdpspectral.decomposition._bounded_moments import ProjectedMoment

    rng = np.random.default_rng(6)
    moment = ProjectedMoment(Rows(1, 4), 2)
    (planned,) = moment.mechanisms(1.0)
    assert planned.sensitivity == second_moment_sensitivity(1.0, 1)
    components = np.linalg.qr(rng.standard_normal((4, 2)))[0].T
    worst = 0.0
    for _ in range(500):
        pair = rows_of_all_lengths(rng, 2, 4)
        moments = [
            moment.run(Answers([planned]), row[None], Origin(), components, 0.7)
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
    within = ProjectedMoment(Rows(n, p), rank)
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
            within.run(ours, X, Origin(), components, radius),
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
