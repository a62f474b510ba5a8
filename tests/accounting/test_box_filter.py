"""The box: no strategy gets more than delta out of it, and what is asked for passes."""

import math
import operator

import numpy as np
import pytest
from kinds_tools import ROWS, plan_of
from ledger_tools import X
from scipy.stats import norm

from skdpspectral import DPPCA, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import gaussian_delta, gaussian_mu
from skdpspectral.accounting._composition import Total
from skdpspectral.accounting._ledger.costs import ROUNDING, Budget, Share
from skdpspectral.mechanisms import ApproximateDP, PrivacyPlan, SubsampledGaussian

EPSILON, DELTA = 1.0, 1e-6


# -- strategies ------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("lost", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("pure", [0.0, 0.4])
def test_the_corner_is_the_whole_of_the_budget(epsilon, delta, lost, pure):
    box = Budget(epsilon, delta, lost * delta, pure * epsilon)
    limit = math.sqrt(box.corner.mu2) / (1.0 + ROUNDING)
    left = gaussian_delta(limit, epsilon - box.pure)
    whole = box.failures + (1.0 - box.failures) * left
    assert whole == pytest.approx(delta, rel=1e-9)
    assert whole <= delta * (1.0 + 1e-12)
    if lost == 0.1 and pure == 0.0 and delta == 1e-6 and epsilon <= 8.0:
        price = 1.0 - limit / gaussian_mu(epsilon, delta)
        assert 0.003 < price < 0.009  # less at a large epsilon


# -- shares of a box -------------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("q", "sigma", "steps"), [(0.01, 1.0, 1400), (0.1, 4.0, 100)])
def test_equal_fits_take_equal_failures(q, sigma, steps, replaced):
    """Their part of D is that of M**2: what is left is left in the same proportion."""
    box = Budget(8.0, DELTA, 0.1 * DELTA)
    curve = SubsampledGaussian("", q, sigma, steps, replaced)
    cost, room, taken = Total(0.0, 0.0, ((curve, 1),)), box.corner, []
    while True:
        share = box.share_of(cost, room)
        if not all(map(operator.le, share, room)):
            break
        taken.append(share)
        room = Share(*(a - b for a, b in zip(room, share, strict=True)))
    assert len(taken) > 2
    for share in taken:
        assert share.failure == pytest.approx(taken[0].failure, rel=1e-3)
        assert share.mu2 == pytest.approx(taken[0].mu2, rel=1e-4)
    part = taken[0].mu2 / box.corner.mu2
    assert float(taken[0].failure) == pytest.approx(part * box.failures, rel=1e-3)


def test_failures_go_where_they_help():
    """A cheap fit leaves the failures to others."""
    box = Budget(1.0, 0.1, 0.01)
    cheap = Total(0.0, 0.0, ((SubsampledGaussian("", 0.001, 1.0, 1, True), 1),))
    share = box.share_of(cheap, box.corner)  # total variation is below D
    part = float(share.mu2 / box.corner.mu2)
    assert 0.0 < part < 1e-3
    assert float(share.failure) == pytest.approx(part * box.failures, rel=1e-3)
    # Losses too small for a grid: no d is any help.
    rare = Total(0.0, 0.0, ((SubsampledGaussian("", 1e-7, 20.0, 1, True), 1),))
    share = tuple(map(float, box.share_of(rare, box.corner)))
    assert share == pytest.approx((0.01, 0.0, 0.0))


def test_pairs_take_what_they_say():
    box = Budget(3.0, DELTA, 0.1 * DELTA, 0.5)
    pair = Total(0.0, 0.0, ((ApproximateDP("", 0.25, 1e-8), 2),))
    share = box.share_of(pair, box.corner)
    assert tuple(map(float, share)) == (0.0, 2e-8, 0.5)
    share = box.share_of(pair, box.corner._replace(pure=0))
    assert share.pure == 0
    assert float(share.mu2) == pytest.approx(2 * (2 * norm.ppf(0.5622)) ** 2, rel=1e-3)


# -- ledgers ---------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_several_other_tools_may_be_first(delta):
    """The first fixes the pure epsilon, the others are covered by Gaussians."""

    def pair(epsilon):
        return plan_of(
            ApproximateDP("", epsilon, delta), epsilon=epsilon, delta=delta, **ROWS
        )

    accountant = PrivacyAccountant(3.0, DELTA, **ROWS)
    with pytest.raises(
        PrivacyBudgetError, match=r"set PrivacyAccountant\(pure="
    ) as caught:
        accountant.check(pair(2.0), n_fits=3)
    assert "Of epsilon, pure=2 is kept for external charges" in str(caught.value)
    after = accountant.check(pair(0.2), n_fits=3)
    for _ in range(3):
        accountant.charge(pair(0.2))
    assert accountant.spent() == after


@pytest.mark.parametrize(("share", "lost"), [(0.98, 0.0), (0.9, 0.9), (0.5, 0.5)])
def test_spent_is_at_most_the_budget_and_at_least_the_truth(share, lost):
    """Losses on a grid that is coarse for what a large pair leaves cost more."""
    delta, given = 1e-3, {"unit": "row", "neighbors": "replace-one"}
    accountant = PrivacyAccountant(
        3.0, delta, pure=3.0 * share, failures=lost * delta, **given
    )
    accountant.charge_external(3.0 * share, lost * delta, "table", **given)
    left = accountant.remaining().epsilon * (1.0 - 1e-12)
    accountant.charge(DPPCA(2, epsilon=left, delta=delta).privacy_plan(1000, 5))
    spent = accountant.spent().epsilon
    assert spent <= 3.0 * (1.0 + 1e-9)
    # Randomized response, which fails with probability d, beside a Gaussian.
    mu, pair, d = accountant.ledger[1].mu, 3.0 * share, lost * delta
    truth = _delta(mu, spent - pair) * _odds(pair)
    truth += _delta(mu, spent + pair) * _odds(-pair)
    assert d + (1.0 - d) * truth <= delta * (1.0 + 1e-9)


def _delta(mu, epsilon):
    below = norm.cdf(-0.5 * mu - epsilon / mu)
    return norm.cdf(0.5 * mu - epsilon / mu) - math.exp(epsilon) * below


def _odds(loss):
    return 1.0 / (1.0 + math.exp(-loss))


# -- errors of fits that were charged --------------------------------------------------


def test_an_error_after_the_charge_says_what_stays_charged():
    accountant = PrivacyAccountant(3.0, DELTA)
    holes = X.copy()
    holes[0, 0] = np.nan
    pca = DPPCA(1, epsilon=0.5, accountant=accountant)
    with pytest.raises(
        ValueError, match=r"NaN[\s\S]*; this fit stays charged: epsilon=0.5 \(entry 1\)"
    ):
        pca.fit(holes)
    assert len(accountant.ledger) == 1
    with pytest.raises(PrivacyBudgetError) as caught:
        pca.set_params(epsilon=5.0).fit(X)
    assert "stays charged" not in str(caught.value)
    with pytest.raises(ValueError, match="NaN") as caught:
        DPPCA(1, epsilon=0.5).fit(holes)
    assert "stays charged" not in str(caught.value)


@pytest.mark.parametrize("at_first", [False, True])
def test_what_releases_nothing_needs_no_room(at_first):
    free = PrivacyPlan(1.0, 1e-6, (), "Free")
    whole = DPPCA(1, epsilon=2.0).plan_for(np.zeros((100, 3)))
    accountant = PrivacyAccountant(2.0, 1e-6)
    if at_first:
        accountant.charge(free)
    accountant.charge(whole)
    accountant.check([free])
    accountant.charge(free)
    assert accountant.spent().epsilon == pytest.approx(2.0, rel=1e-9)
