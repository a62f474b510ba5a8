"""Means over pairs: sensitivities against brute force, and orders that break them."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from skdpspectral._linalg.walks import PairOrder, PairWalk, sign_differences
from skdpspectral._statistics.moments import (
    Moment,
    Origin,
    Rows,
    bounded,
    release_moment,
)
from skdpspectral._tables.clipping import clip_rows, normalize_rows
from skdpspectral.sensitivity import mean_sensitivity, second_moment_sensitivity


def pair_list(n, m):
    """First and second places of all pairs, from rows that hold their places."""
    order = PairOrder(n, 1, m)
    powers = 2.0 ** np.arange(n)
    known = {powers[i] - powers[j]: (i, j) for i in range(n) for j in range(n)}
    blocks = [block.copy() for block in PairWalk(order).blocks(powers[:, None])]
    return np.array([known[power] for power in np.concatenate(blocks).ravel()])


def moment(X, pairs, clip=None):
    """Second moment of unit differences, or of clipped ones over the root of two."""
    d = X[pairs[:, 0]] - X[pairs[:, 1]]
    z = normalize_rows(d) if clip is None else clip_rows(d / math.sqrt(2.0), clip)
    return z.T @ z / len(pairs)


@pytest.mark.parametrize(("n", "m"), [(3, 1), (5, 2), (12, 2), (40, 8)])
def test_every_row_is_in_as_many_pairs_and_no_pair_occurs_twice(n, m):
    pairs = pair_list(n, m)
    assert len(pairs) == n * m
    for column in pairs.T:
        np.testing.assert_array_equal(np.bincount(column, minlength=n), m)
    assert len({frozenset(pair) for pair in pairs.tolist()}) == n * m


@pytest.mark.parametrize("clip", [None, 0.7, 3.0])
@pytest.mark.parametrize(("n", "m"), [(5, 1), (5, 2), (9, 3), (20, 8)])
def test_the_bound_of_the_moment_is_attained(n, m, clip):
    pairs, radius = pair_list(n, m), 1.0 if clip is None else clip
    X = np.zeros((n, 3))
    other = X.copy()
    X[n // 2, 0] = other[n // 2, 1] = 2.0 * radius
    moved = np.linalg.norm(moment(X, pairs, clip) - moment(other, pairs, clip))
    bound = 2.0 * second_moment_sensitivity(radius, n)
    assert moved == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_no_rows_that_a_search_finds_move_it_further(p, clip):
    """Hill climbing over all rows and the replacement, from many starts."""
    n, m = 6, 2
    pairs, rng = pair_list(n, m), np.random.default_rng(p)

    def moved(flat):
        rows = flat.reshape(n + 1, p)
        other = rows[:n].copy()
        other[2] = rows[n]
        change = moment(rows[:n], pairs, clip) - moment(other, pairs, clip)
        return -np.linalg.norm(change)

    bound = 2.0 * second_moment_sensitivity(1.0, n)
    best = 0.0
    for _ in range(6):
        start = rng.standard_normal((n + 1) * p) * rng.choice([0.1, 1.0, 10.0])
        found = minimize(moved, start, method="Powell", options={"maxiter": 30})
        best = max(best, -found.fun)
    assert best <= bound * (1 + 1e-9)
    if p == 1:  # numbers have a smaller bound
        assert best <= bound / math.sqrt(2.0) * (1 + 1e-9)
    else:  # the search is strong enough to come close
        assert best >= 0.9 * bound


@pytest.mark.parametrize("paired", [False, True])
def test_rows_that_keep_their_length_move_the_moment_no_further(paired):
    """Climbing over all rows, the replacement, the center and the floor."""
    n, p = 6, 2
    rng, given = np.random.default_rng(2), (lambda _, exact, overwrite: exact, "")
    bound = second_moment_sensitivity(1.0, n)

    def moved(flat):
        rows = flat[: n * p + p].reshape(n + 1, p)
        other = rows[:n].copy()
        other[2] = rows[n]
        origin = Origin(None if paired else flat[-p:], paired)
        how = origin, abs(flat[-p - 1])
        both = (rows[:n], other)
        found = [release_moment(*given, Rows(n, p), x.copy(), *how) for x in both]
        found = [np.tril(one) * (0.5 if paired else 1.0) for one in found]
        change = found[0] - found[1]
        return -np.linalg.norm(change + np.tril(change, -1).T)

    best, shorter = 0.0, 0.0
    for floor in (1e-3, 1.0, 1e3):
        start = rng.standard_normal((n + 1) * p + p + 1)
        start[-p - 1] = floor
        found = minimize(moved, start, method="Powell", options={"maxiter": 8})
        best = max(best, -found.fun)
        shorter = max(shorter, -moved(start))
    assert 0.9 * bound <= best <= bound * (1 + 1e-9)
    assert shorter > 0.0


def test_floors_of_differences_are_those_of_rows():
    """Differences are longer by the root of two, and so is what they keep their
    length up to.
    """
    X, floor = np.array([[0.0, 0.0], [0.3, 0.4], [3.0, 4.0]]), 2.0
    walked = Rows(3, 2).differences(X)
    kept = np.concatenate(list(bounded(walked.walk.blocks(walked.rows), floor)))
    plain = np.array([[0.3, 0.4], [2.7, 3.6], [3.0, 4.0]])
    lengths = np.maximum([0.5, 4.5, 5.0], math.sqrt(2.0) * floor)
    wanted = np.linalg.norm(plain / lengths[:, None], axis=1)
    found = np.sort(np.linalg.norm(kept, axis=1))
    np.testing.assert_allclose(found, np.sort(wanted), rtol=1e-12)


@pytest.mark.parametrize("v", [1, 3])
def test_shares_of_pairs_and_of_rows_attain_their_bounds(v):
    n, m = 11, 3
    pairs, X = pair_list(n, m), np.zeros((n, v))
    far = X.copy()
    far[4] = 5.0

    def shares(rows):
        longer = np.abs(rows[pairs[:, 0]] - rows[pairs[:, 1]]) > 1.0
        return longer.mean(axis=0)

    moved = np.linalg.norm(shares(far) - shares(X))
    assert moved == pytest.approx(mean_sensitivity(math.sqrt(v), n))
    moved = np.linalg.norm((far > 1.0).mean(axis=0) - (X > 1.0).mean(axis=0))
    assert moved == pytest.approx(mean_sensitivity(0.5 * math.sqrt(v), n))


def test_pairs_by_value_have_no_such_bound():
    """Rows sorted by a feature and paired with the next: one row moves all partners."""
    n = 40
    pairs = np.arange(n).reshape(-1, 2)
    X = np.c_[np.arange(n) * 1e-6, np.tile([0.0, 0.0, 1.0, 1.0], n // 4)]
    other = X.copy()
    other[0, 0] = 1.0

    def by_value(rows):
        return moment(rows[np.argsort(rows[:, 0])], pairs)

    moved = np.linalg.norm(by_value(X) - by_value(other))
    assert moved > 20 * second_moment_sensitivity(1.0, n)


def test_equal_rows_stay_in_the_list_and_count_as_zero():
    """Leaving ties out would divide by a number of pairs that is private."""
    n, m = 30, 2
    pairs, X = pair_list(n, m), np.zeros((n, 2))
    X[3, 0] = 1.0
    other = X.copy()
    other[3] = [0.0, 1.0]
    moved = np.linalg.norm(moment(X, pairs) - moment(other, pairs))
    assert moved == pytest.approx(2.0 * second_moment_sensitivity(1.0, n))

    def without_ties(rows):
        d = rows[pairs[:, 0]] - rows[pairs[:, 1]]
        z = normalize_rows(d[np.any(d != 0.0, axis=1)])
        return z.T @ z / len(z)

    assert np.linalg.norm(without_ties(X) - without_ties(other)) > 1.0


# -- signs -----------------------------------------------------------------------------

# Ties, signed zeros, neighbors, the ends of float64, and what is no number.
SIGNED = [0.0, -0.0, 5e-324, 1.0, 1.0 + 2.0**-52, -1e308, 1.7e308, math.inf, math.nan]


def sign_moment(X):
    """Release of a fit without noise, as a whole matrix over pairs."""
    moment = Moment.planned("", Rows(*X.shape, ranks=True), 1.0)

    def exact(name, value, overwrite):
        return np.tril(value) + np.tril(value, -1).T

    return moment.run(exact, X, Origin(paired=True))[0]


@pytest.mark.parametrize("p", [1, 2, 3])
def test_no_row_moves_the_moment_of_signs_further(p):
    """All rows of a set of values in one place, among others of that set."""
    n, rng = 5, np.random.default_rng(p)
    every = np.array(np.meshgrid(*[SIGNED] * p)).reshape(p, -1).T
    every = every[rng.permutation(len(every))[:120]]
    bound, largest = 2.0 * second_moment_sensitivity(1.0, n), 0.0
    for _ in range(12):
        X, found = rng.choice(SIGNED[:6], (n, p)), []
        if p > 1:
            X[rng.random((n, p)) < 0.7] = 0.0
        at = rng.integers(n)
        for row in every:
            X[at] = row
            found.append(sign_moment(X).ravel())
        found = np.array(found)
        assert np.isfinite(found).all()
        largest = max(largest, np.linalg.norm(found[:, None] - found, axis=2).max())
    assert largest <= bound * (1 + 1e-12)
    assert largest >= 0.9 * bound / (math.sqrt(2.0) if p == 1 else 1.0)


@pytest.mark.parametrize("n", [3, 5, 20])
def test_the_bound_of_signs_is_attained(n):
    X = np.zeros((n, 3))
    other = X.copy()
    X[n // 2, 0], other[n // 2, 1] = 1e308, 5e-324
    moved = np.linalg.norm(sign_moment(X) - sign_moment(other))
    assert moved == pytest.approx(2.0 * second_moment_sensitivity(1.0, n), rel=1e-12)


def test_signs_are_those_of_comparisons():
    first, second = (grid.ravel() for grid in np.meshgrid(SIGNED, SIGNED))
    expected = [float(x > y) - float(x < y) for x, y in zip(first, second, strict=True)]
    found = sign_differences(first[:, None], second[:, None])
    assert found.dtype == np.float64
    assert found[:, 0].tolist() == expected
    whole = np.array([[2**62 + 1, 0]], np.uint64), np.array([[2**62, 3]], np.uint64)
    assert sign_differences(*whole).tolist() == [[1.0, -1.0]]
    rows = np.random.default_rng(0).integers(-2, 3, (2, 30, 6)).astype(float)
    dense = sign_differences(*rows)
    sparse_rows = [sparse.csr_array(each) for each in rows]
    assert sign_differences(*sparse_rows).toarray().tolist() == dense.tolist()


def test_increasing_maps_do_not_change_the_moment_of_signs():
    X = np.random.default_rng(0).standard_normal((50, 3))
    other = np.column_stack([np.exp(9.0 * X[:, 0]), X[:, 1] ** 3, 1e-9 * X[:, 2] - 7.0])
    np.testing.assert_array_equal(sign_moment(X), sign_moment(other))
    # No value decides which rows are paired: a row has the partners of its place.
    order = np.random.default_rng(1).permutation(50)
    assert np.linalg.norm(sign_moment(X) - sign_moment(X[order])) > 0.01


def test_the_moment_of_signs_is_that_of_kendall_correlations():
    """Of normal rows 2 / pi arcsin(rho): six standard errors of 20,000 rows."""
    X = np.random.default_rng(0).multivariate_normal(
        [0, 0], [[1, 0.6], [0.6, 1]], 20_000
    )
    found = sign_moment(X)
    np.testing.assert_allclose(np.diag(found), 0.5, rtol=1e-12)
    kendall = 2.0 / math.pi * math.asin(0.6)
    assert 2.0 * found[0, 1] == pytest.approx(kendall, abs=6.0 / math.sqrt(20_000))


def test_clipped_differences_estimate_the_covariance_wherever_rows_lie():
    """Five standard errors: a false alarm in 1e6."""
    rng, n = np.random.default_rng(0), 20_000
    X = rng.standard_normal((n, 2)) * [3.0, 1.0] + 1e3
    order = PairOrder(n, 2, 2)
    total = sum(d.T @ d for d in PairWalk(order).blocks(X)) / (2.0 * order.n_pairs)
    errors = 5.0 * np.array([[9.0 * 2, 3.0 * 2], [3.0 * 2, 1.0 * 2]]) / math.sqrt(n)
    assert np.all(np.abs(total - np.diag([9.0, 1.0])) < errors)
