"""Sums of clipped gradients and of their squares: how far one example moves them."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from skdpspectral.accounting import calibrate_sampled, gaussian_delta
from skdpspectral.accounting._composition import (
    composed_epsilon,
    joining_deltas,
    leaving_deltas,
    replaced_deltas,
    sampled_gaussian,
)
from skdpspectral.mechanisms import Neighbors, SampledGaussian, SubsampledGaussian
from skdpspectral.neural_network import Adam
from skdpspectral.neural_network._adam import MOMENTS, Optimization
from skdpspectral.sensitivity import gradient_moments_sensitivity, gradient_norm

C = 1.5  # bound on norms


def moments_of(kind, n, size, nu, *, p=3, sampling="poisson", neighbors="replace-one"):
    adam = Adam(sampling=sampling, neighbors=neighbors, moments=kind)
    made = Optimization(adam, p, n, batch_size=size, n_epochs=1, clip_norm=C)
    made.nu, made.weight = nu, math.sqrt(nu) / C
    return made


def gradients_of(rng, m, p):
    """Gradients of every kind: long, short, along an axis, the same, opposite."""
    found = rng.standard_normal((m, p)) * 10.0 ** rng.uniform(-2, 2)
    axis = np.eye(p)[rng.integers(p)] * 9 * C
    kind = rng.integers(4)
    if kind == 1:
        found[:] = axis
    elif kind == 2:
        found[:] = axis * np.sign(rng.standard_normal((m, 1)))
    elif kind == 3:
        found = found[:1] + 0.1 * found
    # Squares of one that is spread out are short, and those of the other long.
    flat = np.full(p, C / math.sqrt(p))
    found[0] = (axis, flat, found[0])[rng.integers(3)]
    return found


def test_the_norm_of_gradients_beside_their_squares():
    rng = np.random.default_rng(0)
    for p in (1, 2, 5):
        x = rng.standard_normal((20_000, p))
        x[: 10 * p] = np.repeat(np.eye(p), 10, axis=0)
        x *= C / np.linalg.norm(x, axis=1)[:, None]
        for nu in (0.0, 0.1, 3.0):
            length = np.sqrt((x**2).sum(1) + nu / C**2 * (x**4).sum(1)).max()
            assert length == pytest.approx(gradient_norm(C, nu), rel=1e-12)


@pytest.mark.parametrize("m", [1, 2, 8, 256])
@pytest.mark.parametrize("kind", MOMENTS)
def test_no_example_moves_a_row_by_more_than_was_planned(kind, m):
    """By brute force, on what is computed; bounds are attained where they say so."""
    rng, found = np.random.default_rng(m), dict.fromkeys(Neighbors, 0.0)
    nu = 0.0 if kind.startswith("pp") else float(rng.choice([0.1, 0.5]))
    for trial in range(60 if m < 100 else 25):
        moments = moments_of(kind, 10 * m, m, nu)
        batch = gradients_of(rng, m, 3)
        # Of a sample, any number of examples may be there.
        other = batch[: rng.integers(m + 1)]
        rows = [moments.row_of_gradients(g)[0] for g in (batch, batch[1:])]
        joined = np.linalg.norm(rows[0] - rows[1])
        added = np.vstack([batch[:1], other])
        rows = [moments.row_of_gradients(g)[0] for g in (added, other)]
        joined = max(joined, np.linalg.norm(rows[0] - rows[1]))
        swapped = batch.copy()
        swapped[0] = -batch[0] if trial % 2 else gradients_of(rng, 1, 3)[0]
        rows = [moments.row_of_gradients(g)[0] for g in (batch, swapped)]
        moved = {
            Neighbors.ZERO_OUT_ONE: joined,
            Neighbors.REPLACE_ONE: np.linalg.norm(rows[0] - rows[1]),
        }
        assert joined <= moments.sampled_step(1.0).sensitivity * (1 + 1e-9)
        for neighbors, distance in moved.items():
            claimed = moments.moved(neighbors)
            assert distance <= claimed * (1 + 1e-9)
            found[neighbors] = max(found[neighbors], distance / claimed)
    # The search would see a claim that is a tenth too low.
    assert found[Neighbors.REPLACE_ONE] > 0.95
    assert found[Neighbors.ZERO_OUT_ONE] > 0.95


def test_a_row_may_hold_all_examples_and_its_rounding_is_paid_for():
    n, m = 512, 8
    moments = moments_of("pp", n, m, 0.0)
    row = moments.row_of_gradients(np.tile([9.0 * C, 0.0, 0.0], (n, 1)))
    mechanism = moments.sampled_step(1.0)
    assert 0.999 * mechanism.magnitude < row.max() <= mechanism.magnitude
    for p in (3, 10**6):
        mechanism = moments_of("pp", n, m, 0.0, p=p).sampled_step(1.0)
        # As far as lengths of so many entries may be off, wherever they are found.
        assert mechanism.summation_error >= mechanism.magnitude * p * 2.0**-53


def test_the_search_refutes_the_printed_algorithm():
    """It squares the sum of 256 gradients, at the claim of one and its square."""
    nu, m = 0.5, 256
    sums = np.array([[m * C, 0.0], [(m - 2) * C, 0.0]])  # one of them is turned round
    weighted = np.hstack([sums, math.sqrt(nu) / C * sums**2])
    moved = np.linalg.norm(weighted[0] - weighted[1])
    claimed = m * gradient_moments_sensitivity(C, m, nu, 2, "replace-one")
    assert moved / claimed == pytest.approx(361.0, abs=1.0)


# -- samples --------------------------------------------------------------------------


def mixtures(q, first, second, alpha):
    """Return H_alpha of (1-q)N(0)+qN(u) and (1-q)N(0)+qN(v) in the plane, on a grid."""
    x, y = np.meshgrid(np.arange(-9, 9.01, 0.04), np.arange(-9, 9.01, 0.04))
    around = [
        np.exp(-0.5 * ((x - a) ** 2 + (y - b) ** 2)) / (2 * math.pi)
        for a, b in ((0.0, 0.0), first, second)
    ]
    p, r = ((1 - q) * around[0] + q * around[i] for i in (1, 2))
    return float(np.maximum(p - alpha * r, 0.0).sum() * 0.04**2)


@pytest.mark.parametrize(("q", "sigma"), [(0.1, 0.6), (0.5, 1.0), (1.0, 2.0)])
def test_opposite_units_of_full_length_are_the_worst_to_be_exchanged(q, sigma):
    rng = np.random.default_rng(0)
    for alpha in (0.7, 1.0, 1.5):
        worst = mixtures(q, (1 / sigma, 0.0), (-1 / sigma, 0.0), alpha)
        claimed = replaced_deltas(q, sigma, math.log(alpha))
        assert worst == pytest.approx(float(claimed), abs=1e-4)
        for _ in range(6):
            r, s = rng.choice([1.0, rng.random()], size=2) / sigma
            angle = rng.choice([rng.uniform(0, math.pi), math.pi])
            second = (s * math.cos(angle), s * math.sin(angle))
            assert mixtures(q, (r, 0.0), second, alpha) <= worst + 1e-4


def test_curves_of_a_step_are_what_the_densities_say():
    x = np.linspace(-40, 40, 800_001)
    for q, sigma in ((0.01, 0.5), (0.3, 2.0), (1.0, 1.0)):
        zero, one, minus = (
            np.exp(-0.5 * ((x - m) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
            for m in (0.0, 1.0, -1.0)
        )
        p, r = (1 - q) * zero + q * one, (1 - q) * zero + q * minus
        for loss in (-0.5, 0.0, 0.1, 1.0, 3.0):
            for pair, curve in (
                ((p, zero), leaving_deltas),
                ((zero, p), joining_deltas),
                ((p, r), replaced_deltas),
            ):
                direct = (
                    np.maximum(pair[0] - math.exp(loss) * pair[1], 0.0).sum() * 1e-4
                )
                assert float(curve(q, sigma, loss)) == pytest.approx(direct, abs=1e-7)


def spent(q, sigma, steps, delta, replaced=False):
    curve = SubsampledGaussian("", q, sigma, steps, replaced)
    return composed_epsilon(0.0, ((curve, 1),), delta)


GRID = [(0.001, 0.8, 2000), (0.01, 1.0, 500), (0.05, 2.0, 1000), (0.5, 8.0, 20)]


@pytest.mark.parametrize(("q", "sigma", "steps"), GRID)
def test_what_samples_cost_is_what_others_find(q, sigma, steps):
    lib = pytest.importorskip("dp_accounting")
    relation = lib.NeighboringRelation.ADD_OR_REMOVE_ONE
    pld = lib.pld.PLDAccountant(relation, value_discretization_interval=1e-3)
    event = lib.PoissonSampledDpEvent(q, lib.GaussianDpEvent(sigma))
    pld.compose(lib.SelfComposedDpEvent(event, steps))
    theirs, ours = pld.get_epsilon(1e-6), spent(q, sigma, steps, 1e-6)
    assert ours == pytest.approx(theirs, rel=0.01)
    assert ours < spent(q, sigma, steps, 1e-6, replaced=True)


@pytest.mark.parametrize(("q", "sigma"), [(0.05, 0.8), (0.4, 2.0)])
def test_two_replaced_steps_are_what_their_densities_say(q, sigma):
    x = np.arange(-9 * sigma - 1, 9 * sigma + 1, 0.01 * sigma)
    zero, one, minus = (np.exp(-0.5 * ((x - m) / sigma) ** 2) for m in (0, 1, -1))
    p, r = (1 - q) * zero + q * one, (1 - q) * zero + q * minus
    p, r = p / p.sum(), r / r.sum()
    for epsilon in (0.3, 1.0):
        worse = np.outer(p, p) - math.exp(epsilon) * np.outer(r, r)
        delta = float(np.maximum(worse, 0.0).sum())
        assert spent(q, sigma, 2, delta, replaced=True) == pytest.approx(
            epsilon, rel=5e-3
        )
        assert spent(q, sigma, 2, delta, replaced=True) > epsilon * (1 - 1e-4)


def test_without_sampling_a_replacement_moves_twice_as_far():
    found = gaussian_delta(2.0 * math.sqrt(10) / 8.0, spent(1.0, 8.0, 10, 1e-6, True))
    assert found == pytest.approx(1e-6, rel=0.02)
    assert calibrate_sampled(1.0, 1e-6, 1.0, 10, "replace-one") == pytest.approx(
        2 * calibrate_sampled(1.0, 1e-6, 1.0, 10, "zero-out-one"), rel=1e-3
    )


@pytest.mark.parametrize("neighbors", ["zero-out-one", "replace-one"])
def test_calibrated_noise_spends_its_budget(neighbors):
    replaced = neighbors == "replace-one"
    for epsilon, q, steps in ((0.2, 0.01, 200), (4.0, 0.2, 50), (40.0, 0.5, 3)):
        sigma = calibrate_sampled(epsilon, 1e-6, q, steps, neighbors)
        assert spent(q, sigma, steps, 1e-6, replaced) <= epsilon
        assert spent(q, sigma / 1.01, steps, 1e-6, replaced) > epsilon


def test_two_changes_would_be_dearer_than_a_replacement():
    """The figures of the theory page, on a part of its steps: ratios are alike."""
    one, both = (spent(0.005, 0.737, 2000, 1e-6, r) for r in (False, True))
    assert one == pytest.approx(3.24, abs=0.02)
    assert both == pytest.approx(4.0, abs=0.02)


def test_a_mechanism_has_the_noise_that_was_asked_for():
    mechanism = sampled_gaussian(
        "g",
        0.25,
        1.3,
        (7,),
        max_steps=5,
        sampling_probability=0.1,
        summation_error=1e-9,
    )
    assert isinstance(mechanism, SampledGaussian)
    assert 1.3 <= mechanism.noise_multiplier <= 1.3 * (1 + 1e-9)
    assert mechanism.charged_sensitivity > 0.25 + 2e-9
    for replaced, named in ((False, "zero-out-one"), (True, "replace-one")):
        curve = mechanism.curve(named)
        assert isinstance(curve, SubsampledGaussian)
        assert (curve.replaced, curve.steps) == (replaced, 5)
    with pytest.raises(ValueError, match="independent"):
        SampledGaussian("g", 1.0, 1.0, (7,), column_norm=2.0, max_steps=5)


def test_normal_tails_are_not_lost():
    """Beyond what 1 - Phi holds, a difference of logarithms still does."""
    loss = 30.0
    found = leaving_deltas(1.0, 0.5, loss)
    x = 0.5 * loss + 1.0  # over the deviation
    exact = math.exp(log_ndtr(2.0 - x)) - math.exp(loss + log_ndtr(-x))
    assert float(found) == pytest.approx(exact, rel=1e-9)
