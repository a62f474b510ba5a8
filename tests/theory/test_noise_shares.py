"""Noise in shares: the law of sums of rounded Gaussians."""

import itertools
import math

import numpy as np
import pytest
from release_tools import Release
from scipy.stats import chi2, norm

from skdpspectral.accounting import calibrate_gaussian, gaussian_delta
from skdpspectral.mechanisms import PrivacyPlan, SharedGaussian
from skdpspectral.mechanisms._plan import log_share_distance

REACH = 400  # of laws that are held whole


def rounded(sigma):
    """The law of one rounded Gaussian on -REACH..REACH."""
    places = np.arange(-REACH, REACH + 1)
    upper = norm.cdf((places + 0.5) / sigma), norm.sf((places - 0.5) / sigma)
    lower = norm.cdf((places - 0.5) / sigma), norm.sf((places + 0.5) / sigma)
    return np.where(places < 0, upper[0] - lower[0], upper[1] - lower[1])


def sum_of_rounded(sigma, m):
    law = one = rounded(sigma)
    for _ in range(m - 1):
        law = np.convolve(law, one)[REACH:-REACH]
    return law


def rounded_sum(sigma, m, n_nodes=24):
    """The law of rint(Z + B): one Gaussian, and m - 1 uniforms by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    places = np.arange(-REACH, REACH + 1)
    law = np.zeros(len(places))
    std = sigma * math.sqrt(m)
    for chosen in itertools.product(range(n_nodes), repeat=m - 1):
        shift = 0.5 * nodes[list(chosen)].sum()
        weight = np.prod(0.5 * weights[list(chosen)])
        high, low = (places + 0.5 - shift) / std, (places - 0.5 - shift) / std
        part = np.where(
            low > 0, norm.sf(low) - norm.sf(high), norm.cdf(high) - norm.cdf(low)
        )
        law += weight * part
    return law


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 1.6, 2.0])
def test_sums_of_rounded_shares_are_a_function_of_one_gaussian(sigma, m):
    """The distance is below the bound, and not by chance: small shares are far off."""
    distance = 0.5 * np.abs(sum_of_rounded(sigma, m) - rounded_sum(sigma, m)).sum()
    if sigma >= 1.0:
        assert distance <= math.exp(log_share_distance(m, sigma)) + 1e-12
    if sigma == 0.3 and m > 1:
        assert distance > 0.01


@pytest.mark.parametrize("m", [2, 5, 16])
@pytest.mark.parametrize("shift", [1, 3, 7])
def test_privacy_curves_of_sums_stay_below_that_of_one_gaussian(m, shift):
    sigma = 2.0
    law = sum_of_rounded(sigma, m)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    moved = np.roll(law, shift)
    mu, far = shift / (sigma * math.sqrt(m)), math.exp(log_share_distance(m, sigma))
    attained = []
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        delta = np.maximum(law - math.exp(epsilon) * moved, 0.0).sum()
        claim = gaussian_delta(mu, epsilon) + (1 + math.exp(epsilon)) * far
        assert delta <= claim + 1e-13
        attained.append(delta / claim)
    # Rounding gives little away: the claim is nearly attained where it is seen best.
    assert max(attained) > 0.85


def test_shares_that_are_too_small_for_the_grid_have_no_such_law():
    """Rounded to a grid as coarse as the noise, sums are not as private as claimed."""
    law = sum_of_rounded(0.2, 4)
    moved = np.roll(law, 1)
    delta = np.maximum(law - math.e * moved, 0.0).sum()
    assert delta > gaussian_delta(1 / (0.2 * 2.0), 1.0) + 0.05
    with pytest.raises(ValueError, match="too small for its grid"):
        SharedGaussian("sum", 1.0, 1e-6, (10,), magnitude=2.0**31, n_shares=4)


@pytest.mark.parametrize("m", [1, 3, 1024])
def test_the_bound_is_what_the_proof_says(m):
    """The sum over values and the tails, term by term, and below any float64 delta."""
    sigma = 1.5
    rest = sum(
        2 * math.exp(-(sigma**2) * math.pi**2 * (2 * n - 1) ** 2 / 2)
        for n in range(1, 9)
    )
    reach = math.pi * sigma**2 * math.sqrt(m) + m / 2
    values = 0.5 * (2 * reach + 1) * rest * (m * (1 + rest) ** (m - 1) + 1)
    tails = 2 * math.exp(-((reach - m / 2) ** 2) / (2 * m * sigma**2))
    bound = math.exp(log_share_distance(m, sigma))
    assert values + tails <= bound * (1 + 1e-9)
    assert bound <= 1.01 * (values + tails)
    planned = calibrate_gaussian("sum", 1.0, 0.2, (1000,), magnitude=2.0**32)
    steps = planned.noise_std / math.sqrt(1024) / planned.grid
    assert log_share_distance(1024, steps) < -1000 * math.log(10)


# -- the law of what is released -------------------------------------------------------

SIZE, ALARM = 200_000, 1e-6


def shared(n_shares, **changed):
    given = {"sensitivity": 1.0, "noise_std": 5.0, "shape": (SIZE,), **changed}
    return SharedGaussian("sum", **given, magnitude=2.0**32, n_shares=n_shares)


def drawn(mechanism, n_parts):
    """Parts of a sum of zeros, in whole steps of the grid."""
    parts = []
    for _ in range(n_parts):
        plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test")
        part = Release(plan)("sum", np.zeros(mechanism.shape)) / mechanism.grid
        assert np.array_equal(part, np.rint(part))
        parts.append(part.astype(np.int64))
    return parts


def test_variances_of_shares_add_up_to_the_planned_one():
    """Chi-square with a false alarm of 1e-6, which sees 2 % of a deviation."""
    low, high = chi2.ppf([ALARM / 2, 1 - ALARM / 2], SIZE)
    # Power against noise that is 2 % low: some 1 - 1e-9.
    assert chi2.cdf(low / 0.98**2, SIZE) > 1 - 1e-9
    mechanism = shared(4)
    parts = drawn(mechanism, 6)
    for n_parts in (1, 3, 4, 6):
        total = np.sum(parts[:n_parts], axis=0) * mechanism.grid
        expected = 5.0**2 * n_parts / 4
        assert low < (total**2).sum() / expected < high


def test_sums_are_exact_in_any_order_and_under_masks():
    mechanism = shared(3, shape=(500,))
    parts = drawn(mechanism, 5)
    total = np.sum(parts, axis=0)
    rng = np.random.default_rng(0)
    for order in itertools.permutations(range(5), 5):
        assert np.array_equal(np.sum([parts[i] for i in order], axis=0), total)
    # Pairwise masks modulo 2**64 cancel to the last bit.
    masked = [part.astype(np.uint64) for part in parts]
    for i, j in itertools.combinations(range(5), 2):
        mask = rng.integers(0, 2**64, size=500, dtype=np.uint64)
        masked[i], masked[j] = masked[i] + mask, masked[j] - mask
    assert not np.array_equal(masked[0].astype(np.int64), parts[0])
    found = np.sum(masked, axis=0, dtype=np.uint64).astype(np.int64)
    assert np.array_equal(found, total)


def test_costs_of_who_knows_shares():
    mechanism = shared(4)
    assert mechanism.drawn_std == 2.5
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test")
    again = PrivacyPlan.from_json(plan.to_json())
    assert again == plan
    assert again.mechanisms[0].n_shares == 4


@pytest.mark.parametrize("bad", [0, -1, 1025, 1.5, True, None])
def test_numbers_of_shares_that_are_none(bad):
    with pytest.raises((TypeError, ValueError), match="n_shares"):
        shared(bad)


def test_parts_are_vectors_whose_noise_is_drawn_entry_by_entry():
    with pytest.raises(ValueError, match="must be vectors"):
        shared(2, shape=(3, 3), symmetric=True)
