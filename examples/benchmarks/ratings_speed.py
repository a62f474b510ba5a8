"""Speed and memory of DPMatrixFactorization on ratings that lie in a file.

    python ratings_speed.py [--ratings 100_000_000] [--users 500_000] [--items 20_000]
        [--clustered] [--n-jobs 1] [--folder FOLDER] [--record FILE]

Users and items are written as int32 and ratings as int8, some millions of rows at a
time, in no order, or by user with ``--clustered``; items are rated in proportion to
1 / sqrt(rank), and one that a user happens to rate again counts once. The fit then
reads the two memory maps in a process of its own, whose peak resident memory includes
the pages of the files that are in memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from speed_sides import peak_mb

from skdpspectral import DPMatrixFactorization, PrivacyLeakWarning

_CHUNK = 4_000_000


def write_ratings(folder, n_ratings, n_users, n_items, clustered):
    """Write what users make of items: offsets of both, and one direction."""
    rng = np.random.default_rng(0)
    map_to = np.lib.format.open_memmap
    X = map_to(folder / "X.npy", "w+", dtype=np.int32, shape=(n_ratings, 2))
    y = map_to(folder / "y.npy", "w+", dtype=np.int8, shape=(n_ratings,))
    of_users = rng.normal(0.0, (0.4, 0.5), (n_users, 2))
    of_items = rng.normal(0.0, (0.5, 0.6), (n_items, 2))
    for start in range(0, n_ratings, _CHUNK):
        rows = slice(start, min(start + _CHUNK, n_ratings))
        size = rows.stop - start
        if clustered:
            users = np.arange(start, rows.stop) * n_users // n_ratings
        else:
            users = rng.integers(n_users, size=size)
        items = (n_items * rng.random(size) ** 2).astype(np.int32)
        ratings = 3.5 + of_users[users, 0] + of_items[items, 0]
        ratings += of_users[users, 1] * of_items[items, 1] + rng.normal(0, 0.8, size)
        X[rows, 0], X[rows, 1] = users, items
        y[rows] = np.clip(np.rint(ratings), 1, 5)
    X.flush()
    y.flush()
    np.save(folder / "offsets.npy", of_items[:, 0])


def fit_file(folder, n_jobs):
    """Fit from the files; return time, peak memory, and what became of the offsets."""
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    X, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in "Xy")
    offsets = np.load(folder / "offsets.npy")
    model = DPMatrixFactorization(
        items=np.arange(len(offsets)), n_jobs=n_jobs, rating_range=(1, 5)
    )
    start, clock = time.process_time(), time.perf_counter()
    model.fit(X, y)
    return {
        "ratings": len(X),
        "cpu_s": time.process_time() - start,
        "wall_s": time.perf_counter() - clock,
        "peak_gb": max(
            peak_mb() * 2**20,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 2**10,
        )
        / 1e9,
        "correlation_of_offsets": np.corrcoef(model.item_offsets_, offsets)[0, 1],
    }


def main():
    """Write, fit, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ratings", type=int, default=100_000_000)
    parser.add_argument("--users", type=int, default=500_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--clustered", action="store_true", help="rows by user")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keeps the files, or has them")
    parser.add_argument("--record", help="file that a line of JSON is added to")
    parser.add_argument("--fit", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(json.dumps(fit_file(options.folder, options.n_jobs)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "offsets.npy").exists():
            sizes = options.ratings, options.users, options.items
            write_ratings(folder, *sizes, options.clustered)
        command = [sys.executable, __file__, "--fit", "--folder", str(folder)]
        command += ["--n-jobs", str(options.n_jobs)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout.strip())
    if options.record:
        with open(options.record, "a") as file:
            file.write(done.stdout)


if __name__ == "__main__":
    main()
