"""What users answer about ratings: norms by exact arithmetic, sums by loops."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdpspectral.recommendation import _kernels_models as answers
from skdpspectral.recommendation._kernels import RatingsChunk, UserRatings
from skdpspectral.recommendation._kernels_models import (
    STEP,
    ItemModel,
    centered_contributions,
    click_contributions,
    click_shares,
    click_weights,
    item_model,
    pair_contributions,
    residual_contributions,
    shrink,
    taste_contributions,
    uncorrelated,
    user_weights,
)

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
    part = RatingsChunk(
        np.array(codes, int), np.array(items, int), np.array(values, float)
    )
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
    assert squared_norm(centered_contributions(block)) <= 1
    cases = [rng.uniform(-3, 3, n), *(np.resize(case, n) for case in HOSTILE)]
    for residuals in cases:
        found = squared_norm(residual_contributions(block, residuals))
        assert found <= 1
        if np.abs(residuals).max() > 1e-20:
            assert found > 0.98
        for tastes in (rng.standard_normal((1, 3)), np.zeros((1, 3)), [[1e-170, 3e90]]):
            found = squared_norm(
                taste_contributions(block, residuals, np.asarray(tastes))
            )
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
    found = centered_contributions(block) * STEP
    expected = np.concatenate([counts, sums, sides])
    assert np.abs(found - expected).max() < 4 * STEP
    assert np.all(found[-3] == 0.25)


def test_clicks_are_of_unit_norm_whatever_the_ratings():
    """Exactly within 1 for every number of items; counts as a loop has them."""
    for n in range(1, N_ITEMS + 1):
        block = block_of(dict.fromkeys(range(n), 2.0))
        found = squared_norm(click_contributions(block))
        assert Fraction(999, 1000) < found <= 1
        half = squared_norm(click_contributions(block, math.sqrt(0.5)))
        assert Fraction(499, 1000) < half <= Fraction(1, 2)
    users = [{0: 2.0, 3: -1.0}, {}, {3: 0.5, 7: 1.0, 9: -2.0}]
    found = click_contributions(block_of(*users)) * STEP
    expected = np.zeros(N_ITEMS + 1)
    expected[-1] = 2 * 0.125
    for rated in filter(None, users):
        expected[list(rated)] += 0.992 / math.sqrt(len(rated))
    assert np.abs(found - expected).max() < 4 * STEP


def test_users_are_fitted_by_ridge_regressions():
    rng = np.random.default_rng(1)
    users = [
        {int(j): float(rng.uniform(-2, 2)) for j in rng.choice(N_ITEMS, n, False)}
        for n in (1, 4, 25)
    ]
    model = item_model(0.3, rng.normal(size=N_ITEMS), rng.normal(size=(N_ITEMS, 4)))
    found = user_weights(block_of(*users), model)
    for rated, weights in zip(users, found, strict=True):
        items = list(rated)
        H = model.features[items]
        rest = np.array(list(rated.values())) - 0.3 - model.offsets[items]
        expected = np.linalg.solve(H.T @ H + np.diag(model.ridge), H.T @ rest)
        assert weights == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_users_of_clicks_are_fitted_by_one_newton_step():
    """From popularity, of the penalized likelihood of which items they click."""
    rng = np.random.default_rng(1)
    popularity, columns = rng.normal(size=N_ITEMS), rng.normal(size=(N_ITEMS, 3))
    shares = click_shares(popularity)
    ridge = np.array([3.0, 5.0, 7.0])
    features = uncorrelated(columns, shares, ridge)
    model = ItemModel(0.0, popularity, features, np.ones(3))
    users = [dict.fromkeys(rng.choice(N_ITEMS, n, False).tolist(), 0.0) for n in (1, 9)]
    weights = click_weights(block_of(*users, {}), model)
    assert not weights[2].any()
    centered = columns - shares @ columns
    covariance = centered.T @ (centered * shares[:, None])
    for rated, own in zip(users, weights, strict=False):
        gradient = centered[list(rated)].sum(axis=0)
        hessian = len(rated) * covariance + np.diag(ridge)
        expected = np.linalg.solve(hessian, gradient)
        assert features @ own == pytest.approx(centered @ expected, rel=1e-9)


def random_clicks(rng):
    """A head, its popularity of unit norm, and two users; some of all items or one."""
    head = rng.permutation(N_ITEMS)[: rng.integers(1, N_ITEMS + 1)]
    popularity = rng.uniform(0.01, 1.0, len(head)) ** rng.choice([0, 1, 4])
    popularity /= np.linalg.norm(popularity)
    sizes = rng.choice([1, 2, 15, N_ITEMS], 2)
    users = [dict.fromkeys(rng.choice(N_ITEMS, n, False).tolist(), 1.0) for n in sizes]
    return head, popularity, users


def test_pairs_of_clicks_are_within_their_bound_under_both_relations():
    """Exactly, whatever the head: of one user 1/2, of two 1, in squared norm."""
    rng, largest = np.random.default_rng(6), [0, 0]
    for trial in range(400):
        head, popularity, users = random_clicks(rng)
        if trial % 20 == 0:  # a user who has what is popular, and hardly any taste
            popularity = np.full(len(head), 1.0 / math.sqrt(len(head)))
            popularity[0] += rng.choice([0, 1e-12, 1e-2, 3e-2])
            popularity /= np.linalg.norm(popularity)
            users[0] = dict.fromkeys(head.tolist(), 1.0)
        found = [
            2.0 * pair_contributions(block_of(user), head, popularity) for user in users
        ]
        together = 2.0 * pair_contributions(block_of(*users), head, popularity)
        assert np.array_equal(together, found[0] + found[1])
        squares = [squared_norm(x) / 4 for x in (*found, found[0] - found[1])]
        assert max(squares[:2]) <= Fraction(1, 2)
        assert squares[2] <= 1
        largest = [max(largest[0], *squares[:2]), max(largest[1], squares[2])]
    assert largest[0] > 0.47
    assert largest[1] > 0.55


def test_pairs_of_clicks_are_those_of_loops():
    rng = np.random.default_rng(7)
    for _ in range(20):
        head, popularity, users = random_clicks(rng)
        expected, side = np.zeros((len(head),) * 2), 0.0
        for user in users:
            x = np.isin(head, list(user)).astype(float)
            rest = x - popularity * (popularity @ x)
            square = rest @ rest
            if square > 1e-3:
                expected += 0.992 * np.outer(rest, rest) / square
                side += 0.0875 * min(x.sum() ** 2 / square / len(head), 1.0)
        found = pair_contributions(block_of(*users), head, popularity) * STEP
        assert found[0] == pytest.approx(side, abs=4 * STEP)
        lower = np.tril_indices(len(head))
        off = lower[0] != lower[1]
        # Truncated to steps of 2**-11, in both factors of either user.
        assert np.abs(found[off] - expected[lower][off]).max(initial=0.0) < 2.0**-8
        assert not found[1:][~off[1:]].any()


def test_the_bound_of_pairs_leaves_room_for_rounding():
    square, side = Fraction(answers.PAIR_SQUARE) ** 2, Fraction(answers.PAIR_SIDE) ** 2
    assert square * (1 + Fraction(4, 10**5)) / 2 + side < Fraction(1, 2)
    assert square * (1 + Fraction(4, 10**5)) + side < 1


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
