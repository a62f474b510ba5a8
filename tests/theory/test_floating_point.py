"""The grid, the summation bound and exact integer arithmetic."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from release_tools import Release, record_releases

from skdpspectral import DPPCA, DPItemEmbedding, DPMatrixFactorization, LRSRegressor
from skdpspectral._linalg.walks import RowWalk, blocked_second_moment, reduce_rows
from skdpspectral.accounting import calibrate_gaussian
from skdpspectral.mechanisms import Gaussian, PrivacyPlan
from skdpspectral.sensitivity import summation_error


def is_power_of_two(x):
    return math.frexp(x)[0] == 0.5


def test_grid_is_a_power_of_two_that_keeps_integers_exact():
    for order, magnitude, sensitivity, noise_std in itertools.product(
        [1, 100, 10_000], [1e-6, 1.0, 1e12], [1e-9, 1.0], [1e-12, 1e-3, 1.0, 7.3, 1e9]
    ):
        mechanism = Gaussian(
            "m", sensitivity, noise_std, (order, order), magnitude=magnitude
        )
        grid = mechanism.grid
        assert is_power_of_two(grid)
        assert magnitude / grid <= 2.0**51
        assert noise_std / grid <= 2.0**41
        assert mechanism.grid_term == grid * order
        charged = mechanism.sensitivity + mechanism.grid_term
        assert mechanism.charged_sensitivity == charged


def test_usual_grid_is_far_below_the_noise():
    mechanism = Gaussian("m", 1.0, 4.0, (50, 50), symmetric=True)
    assert mechanism.grid == 2.0**-24
    assert mechanism.charged_sensitivity == 1.0 + 50 * 2.0**-24


def test_grid_and_summation_terms_are_charged():
    """What no audit can see: both terms stand in the plan of a fit, and in its mu."""
    n, p = 5000, 30
    plan = DPPCA(scale="ranks").privacy_plan(n, p)
    (moment,) = plan.mechanisms
    lemma = math.sqrt(2) / n
    error = summation_error(1.0, n, 2048)
    assert error == (2048 + 3 + 16) * 2.0**-52
    assert moment.sensitivity == lemma
    assert moment.summation_error == error
    assert moment.grid_term == moment.grid * p > 0
    assert moment.charged_sensitivity == lemma + 2 * error + moment.grid * p
    assert plan.mu == moment.charged_sensitivity / moment.noise_std
    assert moment.noise_std > lemma / plan.mu


def test_every_release_states_what_it_rests_on():
    """Sensitivity, error and size of each release, in all branches of a choice."""
    n, p, root2 = 5000, 30, math.sqrt(2)
    plan = DPPCA(2, center="pairs").privacy_plan(n, p)

    def sums(bound):
        return summation_error(bound, n, 2048), 2.0 * bound

    assert [m.name for m in plan.releases()] == ["lengths", "votes", "second_moment"]
    for m in plan.releases():
        assert m.summation_error > 0.0
        assert m.charged_sensitivity > m.sensitivity + 2.0 * m.summation_error
    assert plan["lengths"].sensitivity == 2.0 / n
    assert plan["votes"].sensitivity == pytest.approx(2.0 * root2 / n)
    assert plan["second_moment"].sensitivity == root2 / n
    assert plan["second_moment"].summation_error >= 0.5 * sums(1.0)[0]
    errors, users = (p + 16) * 2.0**-52, 2.0**32
    moments = {f"moments_{step}": (1.0, 2.0**-49, users) for step in range(1, 6)}
    medians = {
        f"median_{step}": (0.5 * root2, 0.0, 0.5 * users) for step in range(1, 13)
    }
    stated = {"start": (1.0, errors, users), **medians, **moments}
    _check_stated(LRSRegressor().privacy_plan(p), stated)
    stated = dict.fromkeys(
        ("offsets", "residuals", "second_moment"), (1.0, 0.0, 2.0**31)
    )
    items = DPItemEmbedding(method="residuals", rating_range=(1, 5))
    _check_stated(items.privacy_plan(p), stated)
    stated = {"clicks": (1.0, 0.0, 2.0**31), "pairs": (0.5**0.5, 0.0, 2.0**31)}
    _check_stated(DPMatrixFactorization(implicit=True).privacy_plan(p), stated)


def _check_stated(plan, stated):
    found = {
        m.name: (m.sensitivity, m.summation_error, m.magnitude) for m in plan.releases()
    }
    assert list(found) == list(stated)
    for name, numbers in stated.items():
        assert found[name] == pytest.approx(numbers, rel=1e-12, abs=0.0), name


@pytest.mark.parametrize(
    "parameters", [{}, {"bounds": (-1, 1)}, {"center": "pairs", "epsilon": 50.0}]
)
def test_every_released_number_is_a_multiple_of_its_grid(parameters):
    X = np.random.default_rng(0).uniform(-1, 1, (300, 7))
    with record_releases() as released:
        pca = DPPCA(noise_seed=0, **parameters).fit(X)
    assert set(released) <= {m.name for m in pca.privacy_.releases()}
    for name, value in released.items():
        steps = value / pca.privacy_[name].grid
        np.testing.assert_array_equal(steps, np.rint(steps))


def test_release_is_a_function_of_the_rounded_query():
    """Values that round to the same grid point give identical releases."""
    mechanism = calibrate_gaussian("m", 1.0, 1.0, (1000,))
    rng = np.random.default_rng(0)
    steps = rng.integers(-1000, 1000, 1000)
    shift = rng.uniform(-0.49, 0.49, 1000)

    def release(value):
        plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test", seeded=True)
        return Release(plan, None, 3)("m", value)

    np.testing.assert_array_equal(
        release(mechanism.grid * steps), release(mechanism.grid * (steps + shift))
    )


def test_no_zero_tells_its_sign():
    """-0.0 comes out of rounding a small negative value: it must not be let out.

    A mechanism with hardly any noise releases the rounded values themselves.
    """
    value = np.array([-1e-10, 1e-10, -0.0, 0.0])
    mechanism = Gaussian("m", 1e-3, 1e-12, (4,), magnitude=2.0**40)
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test", seeded=True)
    for seed in range(64):  # both signs of noise that rounds to zero
        released = Release(plan, None, seed)("m", value)
        np.testing.assert_array_equal(released, 0.0)
        assert not np.signbit(released).any()
    square = Gaussian("m", 1e-3, 1e-12, (4, 4), symmetric=True, magnitude=2.0**40)
    plan = PrivacyPlan(1.0, 1e-6, (square,), "test", seeded=True)
    released = Release(plan, None, 0)("m", np.outer(value, value) - 1e-30)
    assert not np.signbit(released).any()


def test_values_beyond_the_integers_are_clamped():
    mechanism = Gaussian("m", 1.0, 1.0, (4,))
    plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "test", seeded=True)
    released = Release(plan, None, 0)("m", [1e300, -1e300, 0.0, 1.0])
    assert np.isfinite(released).all()
    steps = released / mechanism.grid
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert np.abs(steps).max() <= 2.0**52


def exact_mean(columns):
    """Exact means of lists of floats."""
    return [sum(map(Fraction, column), Fraction(0)) / len(column) for column in columns]


@pytest.mark.parametrize(("n", "block"), [(1, 4), (7, 4), (300, 16), (300, 300)])
def test_summation_error_bounds_blocked_sums(n, block):
    """Against exact rational arithmetic, on rows of very different sizes."""
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n, 3)) * 10.0 ** rng.uniform(-8, 0, (n, 1))
    rows /= np.linalg.norm(rows, axis=1).max()

    def same(x):
        return x

    walk = RowWalk(same, block)
    mean = reduce_rows(rows, walk, lambda found: sum(b.sum(axis=0) for b in found)) / n
    second = blocked_second_moment(rows, same, block)
    exact_first = exact_mean(rows.T)
    error = math.sqrt(
        sum(float(Fraction(m) - e) ** 2 for m, e in zip(mean, exact_first, strict=True))
    )
    assert error <= summation_error(1.0, n, block)
    total = 0.0
    for i in range(3):
        for j in range(i + 1):
            products = [
                Fraction(a) * Fraction(b)
                for a, b in zip(rows[:, i], rows[:, j], strict=True)
            ]
            exact = sum(products, Fraction(0)) / n
            total += (1 + (i != j)) * float(Fraction(second[i, j]) - exact) ** 2
    assert math.sqrt(total) <= summation_error(1.0, n, block)
