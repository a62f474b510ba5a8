"""Rows of users in padded blocks: nothing lost, mixed up or dependent on others."""

import numpy as np
import pytest
from containers import memory_map

from skdpspectral._linalg import per_user as _user_rows
from skdpspectral._linalg.per_user import GroupedRows, column_scales, padded_heights

COUNTS = np.array([3, 1, 40, 7, 7, 2, 19, 40, 1, 8, 9, 16, 17, 33])
N_FEATURES = 5


def table(counts=COUNTS, n_features=N_FEATURES, seed=0):
    """Rows grouped by user: X, y, codes."""
    rng = np.random.default_rng(seed)
    n_rows = int(np.sum(counts))
    X = rng.standard_normal((n_rows, n_features))
    return X, rng.standard_normal(n_rows), np.repeat(np.arange(len(counts)), counts)


def interleaved(codes, seed=1):
    """A random order of all rows in which each user's rows keep their own order."""
    shuffled = np.random.default_rng(seed).permutation(codes)
    order = np.empty(len(codes), dtype=np.intp)
    for code in np.unique(codes):
        order[shuffled == code] = np.flatnonzero(codes == code)
    return order


def by_user(rows):
    """Rows, targets and padding of every user, from the blocks."""
    found = {}
    for block in rows.blocks():
        for X, y, count, user in zip(
            block.X, block.y, block.counts, block.users, strict=True
        ):
            assert user not in found, "a user is in two blocks"
            assert not X[count:].any()
            assert not y[count:].any()
            found[int(user)] = X[:count], y[:count]
    return found


def assert_same_rows(rows, X, y, codes, **tolerance):
    found = by_user(rows)
    assert sorted(found) == list(range(rows.n_users))
    for user, (own_X, own_y) in found.items():
        np.testing.assert_allclose(own_X, X[codes == user], **tolerance)
        np.testing.assert_allclose(own_y, y[codes == user], **tolerance)


@pytest.mark.parametrize("block_numbers", [1, 200, 1 << 18])
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_row_is_in_one_block(monkeypatch, block_numbers, shuffled):
    monkeypatch.setattr(_user_rows, "_BLOCK_NUMBERS", block_numbers)
    X, y, codes = table()
    if shuffled:
        order = np.random.default_rng(1).permutation(len(y))
        X, y, codes = X[order], y[order], codes[order]
    rows = GroupedRows(X, y, codes, len(COUNTS))
    assert_same_rows(rows, X, y, codes, rtol=0, atol=0)
    np.testing.assert_array_equal(rows.counts, COUNTS)
    sizes = [block.X.size for block in rows.blocks()]
    longest = max(padded_heights(COUNTS)) * N_FEATURES
    assert max(sizes) <= max(block_numbers, longest)


def test_every_user_lies_at_the_same_alignment():
    X, y, codes = table(np.full(6, 3))
    (block,) = GroupedRows(X, y, codes, 6).blocks()
    assert not np.shares_memory(block.X, X)
    assert all(own.ctypes.data % 64 == 0 for own in block.X)
    taken = block.take(np.array([1, 4]))
    assert all(own.ctypes.data % 64 == 0 for own in taken.X)
    np.testing.assert_array_equal(block.X, X.reshape(6, 3, -1))


def test_users_without_rows_are_zeros():
    """No fit makes them, since codes come from rows; the blocks bear them."""
    X, y, codes = table([2, 3])
    rows = GroupedRows(X, y, codes + 1, 4, center=True)
    found = by_user(rows)
    assert [len(found[user][1]) for user in range(4)] == [0, 2, 3, 0]
    np.testing.assert_array_equal(rows.counts, [0, 2, 3, 0])
    np.testing.assert_array_equal(rows.y_means[[0, 3]], 0.0)


def test_heights_are_few_near_and_of_the_count_alone():
    counts = np.arange(1, 5000)
    heights = padded_heights(counts)
    assert np.all(heights >= counts)
    padded = counts <= 1024
    assert np.all(heights[padded] < 1.25 * counts[padded])
    np.testing.assert_array_equal(heights[~padded], counts[~padded])
    assert len(np.unique(heights[padded])) <= 40
    for count in (1, 5, 33, 1000):
        assert padded_heights(np.array([count]))[0] == heights[count - 1]
    assert padded_heights(np.array([0]))[0] == 1


@pytest.mark.parametrize("shuffled", [False, True])
def test_centering_subtracts_each_users_own_means(shuffled):
    X, y, codes = table()
    if shuffled:
        order = np.random.default_rng(1).permutation(len(y))
        X, y, codes = X[order], y[order], codes[order]
    scale = np.linspace(0.5, 3.0, N_FEATURES)
    rows = GroupedRows(X, y, codes, len(COUNTS), center=True, scale=scale)
    expected_X, expected_y = X.copy(), y.copy()
    for user in range(len(COUNTS)):
        own = codes == user
        expected_X[own] -= X[own].mean(axis=0)
        expected_y[own] -= y[own].mean()
        np.testing.assert_allclose(rows.X_means[user], X[own].mean(axis=0), atol=1e-14)
        np.testing.assert_allclose(rows.y_means[user], y[own].mean(), atol=1e-14)
    assert_same_rows(rows, expected_X / scale, expected_y, codes, atol=1e-13)


STORES = {
    "array": lambda X, _: X,
    "float32": lambda X, _: X.astype("f4"),
    "Fortran order": lambda X, _: np.asfortranarray(X),
    "memory map": memory_map,
    "float32 on disk": lambda X, folder: memory_map(X.astype("f4"), folder),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_way_rows_are_stored_does_not_change_a_bit(tmp_path, store, shuffled):
    X, y, codes = table()
    X = X.astype("f4").astype("f8")
    order = interleaved(codes) if shuffled else np.arange(len(y))
    plain = GroupedRows(X, y, codes, len(COUNTS), center=True)
    rows = GroupedRows(
        STORES[store](X[order], tmp_path),
        y[order],
        codes[order],
        len(COUNTS),
        center=True,
    )
    for found, wanted in zip(rows.blocks(), plain.blocks(), strict=True):
        assert found.X.dtype == np.float64
        assert found.X.tobytes() == wanted.X.tobytes()
        assert found.y.tobytes() == wanted.y.tobytes()
        np.testing.assert_array_equal(found.users, wanted.users)


def test_map_hides_warnings_that_would_tell_of_values():
    X, y, codes = table([2, 2])
    rows = GroupedRows(X * 1e200, y, codes, 2)
    (squares,) = rows.map(lambda block: np.square(block.X).sum())
    assert squares == np.inf


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_column_scales_are_root_mean_squares_of_the_rows_alone(n_jobs):
    X, y, codes = table()
    X[:, 2] = 0.0
    rows = GroupedRows(X, y, codes, len(COUNTS))
    expected = np.sqrt(np.square(X).mean(axis=0))
    expected[2] = 1.0  # a feature without extent is not scaled
    np.testing.assert_allclose(column_scales(rows, n_jobs), expected, rtol=1e-13)
