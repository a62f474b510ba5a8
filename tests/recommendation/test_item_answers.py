"""What users answer about ratings: norms by exact arithmetic, sums by loops."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdpspectral._linalg import recommendation_answers as answers
from skdpspectral._linalg.recommendation_answers import (
    STEP,
    centered_answers,
    residual_answers,
    taste_answers,
)
from skdpspectral._linalg.recommendation_gathering import Part
from skdpspectral._linalg.recommendation_items import (
    principal_columns,
    public_columns,
    shrink,
)
from skdpspectral._linalg.recommendation_models import model_of, user_weights
from skdpspectral._linalg.recommendation_rows import UserRatings

N_ITEMS = 30
# Residuals whose squares underflow, in part or all, beside others.
HOSTILE = [
    [0.0],
    [0.0, 0.0, 0.0],
    [1e-200, 1e-170],
    [1.57e-162] * 20 + [2.3e-162],
    [5e-324] * 30,
    [3.0] * 30,
    [3.0, 1e-200],
    [2.0**-511, 2.0**-100, 2.0**-99],
    [2.0**-101] * 4,
    [1.0, -1.0],
]


def block_of(*users):
    """One block of users, given as dicts of items and ratings."""
    codes = [code for code, rated in enumerate(users) for _ in rated]
    items = [item for rated in users for item in rated]
    values = [value for rated in users for value in rated.values()]
    part = Part(np.array(codes, int), np.array(items, int), np.array(values, float))
    rows = UserRatings([part], [len(rated) for rated in users], N_ITEMS)
    (block,) = rows.blocks()
    return block


def squared_norm(steps):
    """Exact squared norm of a vector in whole steps; they must be whole."""
    whole = steps.ravel()
    assert np.array_equal(whole, np.rint(whole))
    return sum(Fraction(int(step)) ** 2 for step in whole) * Fraction(STEP) ** 2


@pytest.mark.parametrize("seed", range(40))
def test_no_user_answers_with_more_than_one(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, N_ITEMS + 1))
    items = rng.choice(N_ITEMS, n, replace=False)
    ratings = rng.choice([-2.0, 2.0], n) if seed % 2 else rng.uniform(-2, 2, n)
    block = block_of(dict(zip(items.tolist(), ratings.tolist(), strict=True)))
    assert squared_norm(centered_answers(block)) <= 1
    cases = [rng.uniform(-3, 3, n), *(np.resize(case, n) for case in HOSTILE)]
    for residuals in cases:
        found = squared_norm(residual_answers(block, residuals))
        assert found <= 1
        if np.abs(residuals).max() > 1e-20:
            assert found > 0.98
        for tastes in (rng.standard_normal((1, 3)), np.zeros((1, 3)), [[1e-170, 3e90]]):
            found = squared_norm(taste_answers(block, residuals, np.asarray(tastes)))
            assert found <= 1


def test_shares_leave_room_for_rounding():
    """Beside three numbers of at most an eighth, beside one, and beside none."""
    side, room = Fraction(answers.SIDE) ** 2, Fraction(1, 10**4)
    for share, n_sides in (
        (answers.SHARE_BESIDE_THREE, 3),
        (answers.SHARE_BESIDE_ONE, 1),
    ):
        assert 1 - 10 * room < Fraction(share) ** 2 + n_sides * side < 1 - room
    assert 1 - Fraction(answers.SHARE_ALONE) ** 2 > Fraction(1, 2**20)


def test_answers_are_those_of_loops():
    """The sums of a block, term by term."""
    users = [{0: 2.0, 3: -1.0}, {}, {3: 0.5, 7: 1.0, 9: -2.0}]
    block = block_of(*users)
    counts, sums, sides = np.zeros(N_ITEMS), np.zeros(N_ITEMS), np.zeros(3)
    for rated in filter(None, users):
        mean = sum(rated.values()) / (len(rated) + 3)
        left = {item: max(-3, min(3, value - mean)) for item, value in rated.items()}
        square = sum(value**2 for value in left.values())
        weight = 0.976 / math.sqrt(len(rated) + square)
        for item, value in left.items():
            counts[item] += weight
            sums[item] += weight * value
        sides += 0.125 * np.array([1, square / (len(rated) + square), mean])
    found = centered_answers(block) * STEP
    expected = np.concatenate([counts, sums, sides])
    assert np.abs(found - expected).max() < 4 * STEP
    assert np.all(found[-3] == 0.25)


def test_a_user_without_ratings_answers_with_zeros():
    block = block_of({}, {})
    assert not centered_answers(block).any()
    assert not residual_answers(block, np.zeros(0)).any()
    assert not taste_answers(block, np.zeros(0), np.ones((2, 2))).any()


def test_residuals_and_tastes_have_their_directions():
    rng = np.random.default_rng(0)
    block = block_of(dict.fromkeys(range(10), 1.0))
    residuals, tastes = rng.uniform(-1, 1, 10), rng.standard_normal((1, 2))
    unit = residuals / np.linalg.norm(residuals)
    found = residual_answers(block, residuals)[:10] * STEP
    assert found == pytest.approx(0.992 * unit, abs=2 * STEP)
    found = taste_answers(block, residuals, tastes)[:10] * STEP
    expected = np.outer(unit, tastes / np.linalg.norm(tastes))
    assert found == pytest.approx(expected, abs=1e-5)


def test_users_are_fitted_by_ridge_regressions():
    rng = np.random.default_rng(1)
    users = [
        {int(j): float(rng.uniform(-2, 2)) for j in rng.choice(N_ITEMS, n, False)}
        for n in (1, 4, 25)
    ]
    model = model_of(0.3, rng.normal(size=N_ITEMS), rng.normal(size=(N_ITEMS, 4)))
    found = user_weights(block_of(*users), model)
    for rated, weights in zip(users, found, strict=True):
        items = list(rated)
        H = model.features[items]
        rest = np.array(list(rated.values())) - 0.3 - model.offsets[items]
        expected = np.linalg.solve(H.T @ H + np.diag(model.ridge), H.T @ rest)
        assert weights == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_shrinking_finds_values_and_their_spread():
    """Of 4000 items with a known law; errors of five standard errors at most."""
    rng = np.random.default_rng(2)
    n = 4000
    counts = rng.uniform(0.5, 30, n)
    design = np.column_stack([np.ones(n), rng.normal(size=n)])
    truth = design @ [0.4, -0.3] + np.sqrt(0.3) * rng.normal(size=n)
    noise = rng.uniform(1, 9, n)
    sums = counts * truth + np.sqrt(noise) * rng.normal(size=n)
    found = shrink(counts, sums, design, noise, (0.06, 1.0))
    assert found.spread == pytest.approx(0.3, abs=0.04)
    assert found.prior == pytest.approx(design @ [0.4, -0.3], abs=0.15)
    errors = (found.values - truth) ** 2 / found.variance
    assert errors.mean() == pytest.approx(1.0, abs=5 * math.sqrt(2 / n))


def test_public_columns_do_not_know_their_units():
    rng = np.random.default_rng(3)
    features = np.column_stack([rng.normal(size=(20, 2)), np.full(20, 7.0)])
    found = public_columns(features)
    assert not found[:, 2].any()  # constant columns say nothing
    found = found[:, :2]
    assert found.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert found.std(axis=0) == pytest.approx([1, 1])
    scaled = public_columns(features[:, :2] * [1e300, 1e-300])
    assert scaled == pytest.approx(found)
    assert public_columns(np.zeros((5, 0))).shape == (5, 0)
    counts = rng.uniform(1, 2, 20)
    scores = principal_columns(found, counts, 0.0)
    second = scores.T @ (scores * (counts / counts.sum())[:, None])
    assert second[0, 0] == pytest.approx(1.0)
    assert second == pytest.approx(np.diag(np.diag(second)), abs=1e-12)
    assert not principal_columns(np.zeros((20, 2)), counts, 0.0).any()
