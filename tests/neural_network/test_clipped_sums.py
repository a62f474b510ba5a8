"""Sums that the caller of the optimizer has clipped, and what is said about them."""

import math

import numpy as np
import pytest
from numpy.linalg import norm

from skdpspectral import PrivacyAccountant
from skdpspectral.neural_network import JMEAdam
from skdpspectral.neural_network._gradient_moments import MOMENTS

N, P = 40, 3
GRADIENTS = np.random.default_rng(0).standard_normal((N, P))


def optimizer(accountant=None, **parameters):
    given = {"batch_size": 8, "n_epochs": 2, "epsilon": 8.0, **parameters}
    return JMEAdam(P, N, accountant=accountant, **given)


def clipped_sums(moments, gradients, size, clip=1.0, nu=0.1):
    """What a caller hands over: sums of clipped gradients, and of their squares."""
    lengths = norm(gradients, axis=1, keepdims=True)
    if moments == "clip":
        weight = math.sqrt(nu) / clip
        squares = weight * norm(gradients**2, axis=1, keepdims=True)
        lengths = np.hypot(lengths, squares)
    factors = np.minimum(1.0, clip / np.maximum(lengths, 1e-300))
    power = 2 if moments == "jme" else 1
    both = (factors * gradients).sum(0) / size, (factors**power * gradients**2).sum(0)
    return (both[0], both[1] / size) if moments in ("jme", "clip") else both[0]


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize("moments", MOMENTS)
def test_sums_that_a_caller_has_clipped_are_those_of_gradients(moments):
    given = {"noise_seed": 1, "moments": moments, "noise_multiplier": 1e-6}
    ours, theirs = (
        optimizer(PrivacyAccountant(allow_seeded=True), clipping=by, **given)
        for by in ("optimizer", "caller")
    )
    for batch in ours.batches():
        np.testing.assert_array_equal(next(theirs.batches()), batch)
        sums = clipped_sums(moments, GRADIENTS[batch], 8)
        found = theirs.step(sums, batch)
        expected = ours.step(GRADIENTS[batch], batch)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_a_guarantee_that_rests_on_its_caller_says_so():
    accountant = PrivacyAccountant()
    plan = optimizer(accountant, clipping="caller").privacy_
    assert plan.assumption == "clipped-gradients"
    assert "only for data that satisfy the clipped-gradients" in str(plan)
    assert "cannot clip" in str(plan)
    assert "clipped-gradients" in str(accountant)
    assert type(plan).from_json(plan.to_json()) == plan
    assert optimizer().privacy_.assumption == "none"


def test_sums_beyond_all_examples_are_cut_and_what_is_no_number_counts_as_none():
    adam = optimizer(clipping="caller", moments="jme")
    bound = adam._moments._fields()["magnitude"]
    for sums in (np.full((2, P), 1e9), np.full((2, P), -1e60), np.eye(2, P)):
        length = norm(adam._moments.row_of_sums(sums))
        assert length <= bound * (1 + 1e-15)
    for value in (np.nan, np.inf, -np.inf, 1e300):
        assert not adam._moments.row_of_sums(np.full((2, P), value)).any()
    # Sums are made elsewhere, in any order: more rounding than here is paid for.
    one, other = (
        JMEAdam(P, 4000, clipping=by, batch_size=4000).privacy_.mechanisms[0]
        for by in ("optimizer", "caller")
    )
    # 4000 roundings against 272, and those of lengths.
    assert other.summation_error > 5.0 * one.summation_error


@pytest.mark.parametrize("clip", [1e-30, 1.0, 1e31, 1e60])
@pytest.mark.parametrize("moments", MOMENTS)
def test_one_example_more_moves_sums_of_any_scale_by_what_it_adds(moments, clip):
    """Squares of long gradients are large numbers: no limit may cut in among them."""
    adam = JMEAdam(
        1, 1000, clipping="caller", moments=moments, batch_size=1, clip_norm=clip
    )
    made = adam._moments
    with np.errstate(all="ignore"):
        rows = [
            made.row_of_sums(
                np.atleast_2d(clipped_sums(moments, np.full((n, 1), clip), 1, clip))
            )
            for n in range(40)
        ]
    moved = norm(np.diff(np.concatenate(rows), axis=0) / made.added, axis=1)
    assert moved.max() <= 1.0 + 1e-12
    assert moved[0] > 0.8


def test_bad_sums_are_refused_before_they_are_used():
    row, whole = np.zeros(P), np.zeros((8, P))
    bad = {
        "jme": (row, whole, (row,), (row, row, row), np.zeros((2, P)), None, "ab"),
        "pp": (whole, (row, row), np.zeros(P + 1), row.tolist(), row.astype("f4"), 3.0),
    }
    for moments, wrong in bad.items():
        adam = optimizer(clipping="caller", moments=moments, sampling="in-turn")
        batch = next(adam.batches())
        for sums in wrong:
            with pytest.raises(ValueError, match="float64"):
                adam.step(sums, batch)
        assert adam.position == 0
        adam.step(row if moments == "pp" else [row, row], batch)
    with pytest.raises(ValueError, match="clipping"):
        optimizer(clipping="nobody")
