"""What fits at the scale of the internet would take, and the tree of sums beside it.

Bytes, operations and rounding are worked out from shapes alone. The tree that merges
sums of parts on a cluster is walked for every setting, part by part, and the roundings
on its longest way are counted; sums of real numbers in a like tree are compared with
exact ones. Nothing here is private, and nothing is fitted.

Run ``python scale_on_paper.py --quick`` for fewer sums.
"""

import argparse
import math

import numpy as np

from skdpspectral import DPPCA
from skdpspectral._linalg.walks import BLOCKS_TOGETHER, rows_per_block
from skdpspectral._tables.table import _TOGETHER
from skdpspectral.sensitivity import summation_error

# Numbers of a second that one worker makes, about: products of matrices, and bytes.
FLOPS, NETWORK = 2e10, 1e9
UNIT = 2.0**-53


def longest_way(sizes, block_rows):
    """Roundings of one term from its product to the mean, at most, and merges of it.

    Parameters
    ----------
    sizes : ndarray of int
        Rows of each part.
    block_rows : int
        Rows that are summed at once.
    """
    sizes = np.asarray(sizes)
    # Its product, the others of its block, and the other blocks of its part, by groups.
    blocks = -(-sizes // block_rows)
    ways = np.minimum(block_rows, sizes) + np.minimum(blocks, BLOCKS_TOGETHER) - 1
    ways += -(-blocks // BLOCKS_TOGETHER) - 1
    n_merges = 0
    while len(ways) > 1:
        starts = np.arange(0, len(ways), _TOGETHER)
        sizes_of_groups = np.diff(np.append(starts, len(ways)))
        ways = np.maximum.reduceat(ways, starts) + sizes_of_groups - 1
        n_merges += int(sizes_of_groups.max()) - 1
    return int(ways[0]) + 1, n_merges


def error_of_a_tree(sizes, block_rows, rng):
    """Relative error of a sum of positive terms of all sizes in such a tree."""
    terms = np.exp(rng.uniform(-30.0, 0.0, int(np.sum(sizes))))
    sums = []
    for part in np.split(terms, np.cumsum(sizes)[:-1]):
        total = 0.0
        for start in range(0, len(part), block_rows):
            # One after another, which is the worst order there is.
            total += float(np.cumsum(part[start : start + block_rows])[-1])
        sums.append(total)
    while len(sums) > 1:
        groups = range(0, len(sums), _TOGETHER)
        sums = [sequential(sums[i : i + _TOGETHER]) for i in groups]
    return abs(sums[0] - math.fsum(terms)) / math.fsum(terms)


def sequential(numbers):
    """Add numbers one after another."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def size(n_bytes):
    """Return bytes in a unit that is easy to read."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if n_bytes < 1000.0:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000.0
    return f"{n_bytes:.3g} PB"


def rows_on_workers(n_rows=10**9, n_features=1000, n_workers=1000):
    """Print what a fit of the second moment takes."""
    block, moment = rows_per_block(n_features), 8 * n_features**2
    flops = n_rows * n_features**2
    print(f"\n{n_rows:.0e} rows x {n_features} features on {n_workers} workers")
    print(f"  table {size(8 * n_rows * n_features)}; sum of a part {size(moment)}")
    print(f"  {flops:.1e} operations, {flops / n_workers / FLOPS:.0f} s of each worker")
    plan = DPPCA(2, center="none", delta=1e-12).privacy_plan(n_rows, n_features)
    planned = plan["second_moment"]
    shares = 2.0 * planned.summation_error / planned.sensitivity
    print(f"  rounding: {shares:.1e} of the sensitivity; charged in the noise")
    for n_parts in (n_workers, 16 * n_workers, 1000 * n_workers):
        sizes = np.full(n_parts, n_rows // n_parts)
        way, merges = longest_way(sizes, block)
        charged = summation_error(1.0, n_rows, block, BLOCKS_TOGETHER) / UNIT
        levels = math.ceil(math.log(n_parts, _TOGETHER))
        seconds = levels * (_TOGETHER - 1) * moment / NETWORK
        print(
            f"  {n_parts:8d} parts: {way} roundings ({merges} of them merges) of "
            f"{charged:.0f} that are charged; {size(n_parts * moment)} of sums travel, "
            f"about {seconds:.1f} s on the longest way"
        )


def pairs_on_workers(n_rows=10**9, n_features=1000, n_workers=1000):
    """Print what pairs take: rows of a pool come from all over the table."""
    pool = min(1 << 14, (1 << 22) // n_features)
    pieces = n_rows // max(1, pool // 16)
    print(f"\nThe same in pairs: {n_rows // pool:.1e} pools, {pieces:.1e} slices")
    table = 8 * n_rows * n_features
    print(
        f"  every row travels once between workers: {size(table)}, "
        f"{table / n_workers / NETWORK:.0f} s of each worker's network"
    )
    print(f"  at 1 ms a task the scheduler takes {pieces * 1e-3 / 3600:.1f} h")


def clients(n_clients=10**5, n_features=100, n_components=5):
    """Print what a federation takes."""
    sent = 8 * n_features * n_components
    print(f"\n{n_clients:.0e} clients, {n_features} features")
    print(f"  a client sends {size(sent)} a round: {size(n_clients * sent)} in all")
    print(f"  matrices: {size(4 * n_features * (n_features + 1) * n_clients)}")
    print(
        f"  the server: {2 * n_clients * n_features**2 * n_components:.1e} operations"
    )
    print(f"  the ledger: {n_clients} entries of one partition, one transaction")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sums")
    n_sums = 20 if parser.parse_args().quick else 500
    rows_on_workers()
    pairs_on_workers()
    clients()
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(n_sums):
        sizes = rng.integers(
            1, int(10 ** rng.uniform(0.5, 4)), int(rng.integers(1, 200))
        )
        block = int(10 ** rng.uniform(0, 3.5))
        way, _ = longest_way(sizes, block)
        charged = summation_error(1.0, int(sizes.sum()), block, BLOCKS_TOGETHER)
        error = error_of_a_tree(sizes, block, rng)
        assert error <= way * UNIT <= charged
        worst = max(worst, error / charged)
    print(f"\n{n_sums} trees of sums: at most {worst:.1e} of the error that is charged")


if __name__ == "__main__":
    main()
