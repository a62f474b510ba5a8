"""The spiked mode: its formulas, the law they stand for, and what they do not cover."""

import math

import numpy as np
import pytest
from scipy.stats import binom, chi2

from skdpspectral import DPPCA
from skdpspectral._linalg.eigen import top_eigh
from skdpspectral.accounting import gaussian_mu
from skdpspectral.decomposition import SpikedPCA
from skdpspectral.mechanisms import Assumption
from skdpspectral.sensitivity import (
    paper_moment_sensitivity,
    paper_projector_sensitivity,
)

MODEL = {"signal_variance": 10.0, "noise_variance": 1.0}


def test_formulas_of_the_papers():
    n, p = 1000, 50
    size = math.sqrt(p * (1 + math.log(n))) / n
    one = paper_projector_sensitivity([10.0], 1.0, n, p, 4.0)
    assert one == pytest.approx(4 * (0.1 + math.sqrt(0.1)) * size)
    size = math.sqrt(p * (2 + math.log(n))) / n
    two = paper_projector_sensitivity([20.0, 5.0], 1.0, n, p, 1.0)
    assert two == pytest.approx((0.2 + math.sqrt(4.0 * 0.2)) * size)
    moment = paper_moment_sensitivity([20.0, 5.0], 2.0, n, p, 3.0)
    assert moment == pytest.approx(3 * (20 * (2 + math.log(n)) + 100) / n)


def order_of(signal, n, p):
    """Return the unit of the lemma of a replacement, with noise variance 1."""
    return math.sqrt((signal + 1.0) * p * (1 + math.log(n))) / signal / n


def gaussian(shape, rng):
    return rng.standard_normal(shape)


def signs(shape, rng):
    return rng.choice([-1.0, 1.0], size=shape)


def uniform(shape, rng):
    return rng.uniform(-math.sqrt(3), math.sqrt(3), size=shape)


def sphere(shape, rng):
    """Coordinates that depend on each other."""
    rows = rng.standard_normal(shape)
    return rows * math.sqrt(shape[1]) / np.linalg.norm(rows, axis=1)[:, None]


SCALES = np.array([0.5, 1.5])


def two_scales(shape, rng):
    """Normal rows of one of two sizes: their proxy is 1.5 times their variance."""
    return rng.standard_normal(shape) * np.sqrt(rng.choice(SCALES, (shape[0], 1)))


def rows_of_rare_signals(shape, rng):
    """Of unit noise and a first coordinate that is seldom far from it."""
    rows = rng.standard_normal(shape)
    rows[:, 0] += RARE_SIZE * signs(shape[0], rng) * (rng.random(shape[0]) < RARE)
    return rows


RARE, RARE_SIZE = 0.005, 10.0


def replacement_ratios(n, p, signal, n_repeats, rng, law=gaussian, spread=None):
    """Needed constants: how far PCA's projector moves when a row is drawn anew.

    Returns them as they are, and as the law of the lemma has them for these rows.
    """
    spread = np.sqrt(np.r_[signal + 1.0, np.ones(p - 1)]) if spread is None else spread
    X = law((n, p), rng) * spread
    new = law((n_repeats, p), rng) * spread
    moment = X.T @ X
    before = top_eigh(moment, 1)[1][0]
    bound = order_of(signal, n, p)
    ratios = []
    for row, old in zip(new, X[:n_repeats], strict=True):
        changed = moment + np.outer(row, row) - np.outer(old, old)
        after = top_eigh(changed, 1)[1][0]
        # ||uu' - vv'||_F, from the sine: stable for close vectors.
        sine = np.linalg.norm(after - (after @ before) * before)
        ratios.append(math.sqrt(2.0) * sine / bound)
    old = X[:n_repeats]
    change = new[:, :1] * new[:, 1:] - old[:, :1] * old[:, 1:]
    first_order = math.sqrt(2.0) * np.linalg.norm(change, axis=1) / signal / n / bound
    return np.array(ratios), first_order


def test_first_order_law_of_a_replacement():
    """Quantiles of 2 chi2_2 chi2_{p-1} / (p (1 + ln n)), within 5 per cent.

    Rows that are replaced are those of one sample, and n is large: what is left is
    the sampling error of 4000 replacements, below 2.5 per cent (one standard error)
    of the quantiles up to 0.9.
    """
    rng = np.random.default_rng(0)
    n, p = 40_000, 20
    found, _ = replacement_ratios(n, p, 10.0, 4000, rng)
    draws = chi2.rvs(2, size=400_000, random_state=1)
    draws = draws * chi2.rvs(p - 1, size=400_000, random_state=2)
    law = np.sqrt(2.0 * draws / (p * (1 + math.log(n))))
    for level in (0.25, 0.5, 0.75, 0.9):
        wanted = np.quantile(law, level)
        assert np.quantile(found, level) == pytest.approx(wanted, rel=0.05)


def test_the_theorem_covers_the_largest_of_a_thousand_replacements():
    rng = np.random.default_rng(3)
    found, _ = replacement_ratios(5000, 30, 10.0, 1000, rng)
    planned = SpikedPCA(1, **MODEL).privacy_plan(5000, 30)["projector"]
    needed = planned.sensitivity / order_of(10.0, 5000, 30)
    assert 1.0 < found.max() < needed < 5.0


@pytest.mark.parametrize("law", [signs, uniform, sphere, two_scales])
def test_first_order_law_for_other_rows(law):
    """What the lemma makes of the same rows, within 5 per cent at its quantiles."""
    rng = np.random.default_rng(6)
    found, first_order = replacement_ratios(20_000, 20, 10.0, 1000, rng, law)
    np.testing.assert_allclose(found, first_order, atol=0.05 * first_order.max())
    for level in (0.25, 0.5, 0.75, 0.9):
        wanted = np.quantile(first_order, level)
        assert np.quantile(found, level) == pytest.approx(wanted, rel=0.05)


def first_order_squares(n, p, rng, law):
    """Squared needed constants, times p (1 + ln n), to first order."""
    spread = np.sqrt(np.r_[11.0, np.ones(p - 1)])
    x, y = (law((n, p), rng) * spread for _ in range(2))
    change = y[:, :1] * y[:, 1:] - x[:, :1] * x[:, 1:]
    scale = order_of(10.0, n, p) ** 2 * (10.0 * n) ** 2
    return 2.0 * np.vecdot(change, change) / scale * p * (1 + math.log(n))


def test_first_order_law_of_signs():
    """Eight binomial variables: their frequencies, within five standard errors."""
    n, p = 40_000, 20
    found = first_order_squares(n, p, np.random.default_rng(7), signs) / 8.0
    np.testing.assert_allclose(found, np.rint(found), atol=1e-9)
    counts = np.bincount(np.rint(found).astype(int), minlength=p)
    expected = n * binom.pmf(np.arange(p), p - 1, 0.5)
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected) + 1)


def test_first_order_law_of_two_scales():
    """Quantiles of 40000 replacements, within 3 per cent."""
    n, p, rng = 40_000, 20, np.random.default_rng(7)
    levels = [0.25, 0.5, 0.75, 0.9, 0.99]
    found = first_order_squares(n, p, rng, two_scales)
    weights = rng.choice(SCALES, (2, 400_000)) ** 2
    draws = (weights * rng.chisquare(1, (2, 400_000))).sum(axis=0)
    draws = 2.0 * draws * rng.chisquare(p - 1, 400_000)
    wanted = np.sqrt(np.quantile(draws, levels))
    np.testing.assert_allclose(np.sqrt(np.quantile(found, levels)), wanted, rtol=0.03)


def test_constants_that_sub_gaussian_rows_need():
    """Rows whose proxy is their covariance need less than normal ones do.

    Others need more, by no more than their proxy: means over 60 sets of rows, each
    row of which is replaced; two standard errors are below 0.06.
    """
    n, p = 1000, 50
    needed = {}
    for law in (gaussian, signs, uniform, sphere, two_scales):
        rng = np.random.default_rng(8)
        squares = [first_order_squares(n, p, rng, law).max() for _ in range(60)]
        needed[law] = np.mean(np.sqrt(squares)) / math.sqrt(p * (1 + math.log(n)))
    assert needed[gaussian] == pytest.approx(2.0, abs=0.1)
    assert needed[signs] < needed[uniform] < needed[sphere] < needed[gaussian]
    assert 1.25 < needed[two_scales] / needed[gaussian] < 1.5


def test_first_order_and_needed_constant_for_signals_that_differ():
    """The papers' section 5.1: each component's part has a gap of its own.

    500 replacements are as the lemma has them within 5 per cent of the largest; the
    constant that 1000 rows need is far below 4, since the bound pairs the largest
    variance with the smallest.
    """
    signal, n, p, rng = np.array([20.0, 5.0]), 40_000, 20, np.random.default_rng(11)
    spread = np.sqrt(np.r_[signal + 1.0, np.ones(p - 2)])
    X, new = (
        rng.standard_normal((n, p)) * spread,
        rng.standard_normal((500, p)) * spread,
    )
    moment, old = X.T @ X, X[:500]
    before = top_eigh(moment, 2)[1]
    found = []
    for row, replaced in zip(new, old, strict=True):
        changed = moment + np.outer(row, row) - np.outer(replaced, replaced)
        after = top_eigh(changed, 2)[1]
        # ||P - P'||_F, from the sines.
        found.append(math.sqrt(2.0) * np.linalg.norm(after - after @ before.T @ before))
    parts = [
        (rows[:, :2] / signal)[:, :, None] * rows[:, None, 2:] for rows in (new, old)
    ]
    first_order = math.sqrt(2.0) * np.linalg.norm(parts[0] - parts[1], axis=(1, 2)) / n
    np.testing.assert_allclose(found, first_order, atol=0.05 * first_order.max())
    bound = paper_projector_sensitivity(signal, 1.0, n, p, 1.0)
    assert 0.3 < first_order.max() / bound < 1.5


def test_tails_of_sub_gaussian_rows_are_below_the_bound_of_the_lemma():
    """At every t, for parts along and across three components, with a proxy of 1.5."""
    n, p, rank, rng = 20_000, 40, 3, np.random.default_rng(9)
    for law, proxy in ((signs, 1), (uniform, 1), (sphere, 1), (two_scales, 1.5)):
        rows = law((n, p), rng)
        for part in (rows[:, :rank], rows[:, rank:]):
            k, squares = part.shape[1], np.vecdot(part, part)
            for t in (0.5, 1.0, 2.0, 4.0, 6.0):
                beyond = np.mean(squares > proxy * (k + 2 * math.sqrt(k * t) + 2 * t))
                # Five standard errors of a share of n rows.
                assert beyond < math.exp(-t) + 5 * math.sqrt(math.exp(-t) / n)


def test_a_proxy_is_not_enough():
    """Rare signals have a large proxy and a small variance: the gap is that of these.

    The stated variance is their proxy; the projector moves far beyond the bound.
    """
    t = np.linspace(0.01, 3.0, 300)
    proxy = np.max(2.0 * np.log1p(RARE * (np.cosh(RARE_SIZE * t) - 1.0)) / t**2)
    assert proxy > 8.0 > 1.0 > RARE * RARE_SIZE**2
    rng = np.random.default_rng(10)
    found, _ = replacement_ratios(
        5000, 30, proxy, 500, rng, rows_of_rare_signals, np.ones(30)
    )
    assert found.max() > 12.0


def test_a_long_row_moves_the_projector_beyond_the_bound():
    """Why the mode says what it rests on: one row of another kind."""
    rng = np.random.default_rng(4)
    n, p = 2000, 30
    X = rng.standard_normal((n, p)) * np.sqrt(np.r_[11.0, np.ones(p - 1)])
    other = X.copy()
    longest = np.linalg.norm(X, axis=1).max()
    other[0] = 10.0 * longest * np.ones(p) / math.sqrt(p)
    projectors = []
    for rows in (X, other):
        vector = top_eigh(rows.T @ rows, 1)[1]
        projectors.append(vector.T @ vector)
    moved = np.linalg.norm(projectors[0] - projectors[1])
    mechanism = SpikedPCA(1, epsilon=0.5, **MODEL).privacy_plan(n, p)["projector"]
    assert moved > 5 * mechanism.charged_sensitivity


def test_the_plan_says_what_it_rests_on():
    plan = SpikedPCA(1, **MODEL).privacy_plan(1000, 50)
    assert plan.assumption is Assumption.SPIKED_GAUSSIAN
    assert "only for data that satisfy the spiked-gaussian assumption" in str(plan)
    assert "not differentially private" in str(plan)
    assert plan.mu == pytest.approx(gaussian_mu(1.0, 0.9e-6))
    assert "except with probability 1e-07, which delta includes" in plan.details()
    worst_case = DPPCA(1).privacy_plan(1000, 50)
    assert worst_case.assumption is Assumption.NONE


@pytest.mark.parametrize("release", ["components", "covariance"])
def test_noise_of_the_papers(release):
    """Variances of 8 D^2 log(2.5 / delta) / epsilon^2, off the diagonal."""
    n, p, epsilon, delta = 1000, 50, 0.5, 1e-5
    paper = {**MODEL, "calibration": "paper", "sensitivity_constant": 1.0}
    pca = SpikedPCA(1, epsilon=epsilon, delta=delta, release=release, **paper)
    plan = pca.privacy_plan(n, p)
    printed = (paper_projector_sensitivity, paper_moment_sensitivity)
    for mechanism, formula in zip(plan.mechanisms, printed, strict=False):
        size = formula([10.0], 1.0, n, p, 1.0)
        variance = 8 * size**2 * math.log(2.5 / delta) / epsilon**2
        assert mechanism.noise_std**2 / 2 == pytest.approx(variance, rel=1e-12)
    assert len(plan.mechanisms) == (1 if release == "components" else 2)


def test_noise_of_the_papers_is_refused_where_it_hides_nothing():
    paper = {**MODEL, "calibration": "paper"}
    pca = SpikedPCA(1, epsilon=1e6, release="covariance", **paper)
    with pytest.raises(ValueError, match=r"calibration=.*hides nothing"):
        pca.privacy_plan(1000, 50)


@pytest.mark.parametrize(("n", "p", "rank"), [(400, 30, 2), (300, 700, 3)])
def test_components_and_covariance_of_spiked_rows(n, p, rank):
    rng = np.random.default_rng(5)
    signal = [9000.0, 4000.0, 2000.0][:rank]
    X = rng.standard_normal((n, p)) * np.sqrt(np.r_[signal, np.ones(p - rank)] + 1.0)
    parameters = {**MODEL, "signal_variance": signal, "release": "covariance"}
    pca = SpikedPCA(rank, epsilon=1e4, noise_seed=0, **parameters).fit(X)
    exact = np.linalg.eigh(X @ X.T if p > n else X.T @ X)[0][::-1][:rank] / n
    np.testing.assert_allclose(pca.explained_variance_, exact, rtol=0.1)
    assert pca.noise_variance_ == 1.0
    assert np.sum(pca.components_[:, :rank] ** 2) > 0.8 * rank
