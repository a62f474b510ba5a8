"""Blocked moments agree with the plain formula."""

import numpy as np
import pytest

from skdpspectral._linalg import walks
from skdpspectral._linalg.walks import blocked_second_moment
from skdpspectral.sensitivity import summation_error


def same(block):
    return np.ascontiguousarray(block, dtype=np.float64)


@pytest.mark.parametrize("n", [1, 5, 2048, 2049, 5000])
@pytest.mark.parametrize("p", [1, 4, 310])
def test_blocked_moments(n, p):
    X = np.random.default_rng(0).standard_normal((n, p))
    second = blocked_second_moment(X, same)
    np.testing.assert_allclose(np.tril(second), np.tril(X.T @ X / n), atol=1e-12)
    assert second.flags.f_contiguous


def test_blocks_are_summed_in_groups(monkeypatch):
    """A term of a long table passes few additions; each block counts once."""
    calls = []

    def kernel(blocks):
        total, counts = np.zeros(1), np.zeros(2, dtype=int)
        for block in blocks:
            total, counts = total + block, counts + np.array([1, 2])
        calls.append(int(counts[0]))
        return total, counts

    monkeypatch.setattr(walks, "BLOCKS_TOGETHER", 4)
    for n in (0, 1, 4, 5, 8, 11):
        calls.clear()
        total, counts = walks.sum_blocks(kernel, iter([2.0**-k for k in range(n)]))
        assert total == sum(2.0**-k for k in range(n))
        assert counts.tolist() == [n, 2 * n]
        assert calls == [4] * (n // 4) + [n % 4]


def test_sums_in_groups_stay_within_their_bound(monkeypatch):
    """A sum of small terms after a large one, where each addition rounds down."""
    monkeypatch.setattr(walks, "BLOCKS_TOGETHER", 64)
    n = 1 << 14
    rows = np.full((n, 1), 1.0 + 2.0**-30)
    walk, exact = walks.RowWalk(same, 1), 1.0 + 2.0**-30
    found = walks.reduce_rows(rows, walk, lambda b: np.array([sum(map(np.sum, b))])) / n
    assert abs(found[0] - exact) <= summation_error(exact, n, 1, 64)
    assert summation_error(exact, n, 1, 64) < 0.05 * summation_error(exact, n, 1)


def test_short_parts_of_blocks_are_summed_together():
    """No product has more rows than a block, and there are no more than blocks."""
    rng, products = np.random.default_rng(0), []
    sizes = [(7, 3), (7, 4), (7, 0), (7, 1), (7, 7), (5, 4), (5, 2)]
    blocks = [[rng.standard_normal((size, 3)) for size in both] for both in sizes]
    expected = [
        sum(part.T @ part for part in parts) for parts in zip(*blocks, strict=True)
    ]

    def read():
        for block in blocks:
            yield block
            for part in block:
                part[...] = np.nan  # blocks come in memory that is taken again

    def noted(rows, product=walks.outer_products):
        products.append(len(rows))
        return product(rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "outer_products", noted)
        found = walks.sums_of_layers(read(), 3, 2)
    for total, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.tril(total), np.tril(exact), rtol=1e-12)
    assert sorted(products) == sorted([7, 7, 7, 7, 7, 5, 5, 7, 1, 7, 4, 2])
