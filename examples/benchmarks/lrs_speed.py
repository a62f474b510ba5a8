"""Speed and memory of LRSRegressor: iterations, and a fit of a million users.

Run it alone on the machine. The first table counts users per second and iteration
(local step and shared step, shared by two threads) on data in memory, by the clock and
by CPU time, which other processes disturb less. The second part fits a memory-mapped
float32 file in a process of its own, by one thread: without privacy, and with a budget;
its peak resident memory includes the pages of the file that are in memory.

    python lrs_speed.py [n_users of the second part, 0 to skip it [n_rounds]]
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

from skdpspectral import LRSRegressor, PrivacyLeakWarning
from skdpspectral._linalg import per_user
from skdpspectral.linear_model import (
    PrivateRounds,
    _kernels_lrs,
)

N_ROWS, N_FEATURES, SPARSITY = 20, 50, 2


def model_data(n_users, rank, rng):
    U = np.linalg.qr(rng.normal(size=(N_FEATURES, rank)))[0]
    coef = rng.normal(size=(n_users, rank)) @ U.T
    support = rng.integers(0, N_FEATURES, size=(n_users, SPARSITY))
    coef[np.arange(n_users)[:, None], support] += rng.normal(size=support.shape)
    X = rng.normal(size=(n_users, N_ROWS, N_FEATURES))
    y = (X @ coef[:, :, None])[:, :, 0]
    y += 0.1 * rng.normal(size=y.shape)
    return X.reshape(-1, N_FEATURES), y.ravel(), U


def iteration_speed(n_users=100_000, n_iterations=12):
    print(f"{n_users} users of {N_ROWS} rows, d={N_FEATURES}, k={SPARSITY}, float64")
    print("rank  local step s  shared step s  users/s/iteration  users/CPU s/iteration")
    print("                                   (each: best, median)")
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(n_users), N_ROWS)
    for rank in (1, 5):
        X, y, _ = model_data(n_users, rank, rng)
        rows = per_user.GroupedRows(X, y, codes, n_users)
        rules = _kernels_lrs.LocalRules(SPARSITY, 1.0, 1.0, np.zeros(rank))
        fit = _kernels_lrs.AlternatingSolver(rows, rules, n_jobs=2)
        U = np.linalg.qr(rng.normal(size=(N_FEATURES, rank)))[0]
        times = []
        for _ in range(n_iterations):
            start, cpu = time.perf_counter(), time.process_time()
            gradient = fit._local_steps(U, first=not times)
            middle = time.perf_counter()
            U, _ = fit._move(U, gradient)
            end, cpu = time.perf_counter(), time.process_time() - cpu
            times.append((middle - start, end - middle, end - start, cpu))
        local, shared, both, cpu = np.array(times[2:]).T
        print(
            f"{rank:4}  {np.median(local):12.3f}  {np.median(shared):13.3f}  "
            f"{n_users / both.min():8.3g}, {n_users / np.median(both):7.3g}"
            f"  {n_users / cpu.min():12.3g}, {n_users / np.median(cpu):7.3g}"
        )


def write_file(path, n_users, chunk=10_000):
    """Write X as float32, and return y; a chunk of users at a time."""
    rng = np.random.default_rng(1)
    shape = (n_users * N_ROWS, N_FEATURES)
    X = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=shape)
    y = np.empty(len(X), dtype=np.float32)
    U = np.linalg.qr(rng.normal(size=(N_FEATURES, 1)))[0]
    for start in range(0, n_users, chunk):
        size = min(chunk, n_users - start)
        rows = slice(start * N_ROWS, (start + size) * N_ROWS)
        block = rng.standard_normal((size, N_ROWS, N_FEATURES), dtype=np.float32)
        coef = rng.normal(size=(size, 1)) @ U.T
        support = rng.integers(0, N_FEATURES, size=(size, SPARSITY))
        coef[np.arange(size)[:, None], support] += rng.normal(size=support.shape)
        X[rows] = block.reshape(-1, N_FEATURES)
        y[rows] = (block @ coef[:, :, None]).ravel() + 0.1 * rng.normal(
            size=size * N_ROWS
        )
    X.flush()
    np.save(path + ".y.npy", y)
    np.save(path + ".U.npy", U)


def fit_file(path, epsilon, n_rounds):
    """Fit from the file; print time, peak memory, and the distance of U."""
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    X = np.load(path, mmap_mode="r")
    y, U = np.load(path + ".y.npy"), np.load(path + ".U.npy")
    users = np.repeat(np.arange(len(X) // N_ROWS), N_ROWS)
    if epsilon is None:
        given = {"ridge_shared": 1.0, "ridge_sparse": 1.0}
    else:
        given = {"solver": PrivateRounds(n_rounds=n_rounds)}
    model = LRSRegressor(1, SPARSITY, epsilon=epsilon, **given)
    clock, start = time.perf_counter(), time.process_time()
    model.fit(X, y, users=users)
    seconds, cpu = time.perf_counter() - clock, time.process_time() - start
    found = np.linalg.qr(model.components_.T)[0]
    distance = np.linalg.norm(U - found @ (found.T @ U))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"epsilon={epsilon}: {seconds:.1f} s, CPU {cpu:.1f} s, {model.n_iter_} steps, "
        f"peak {peak:.2f} GiB, distance of U {distance:.2g}",
        flush=True,
    )


def fit_from_disk(n_users, n_rounds):
    size = n_users * N_ROWS * N_FEATURES * 4 / 2**30
    print(f"{n_users} users of {N_ROWS} rows in a float32 file of {size:.2f} GiB")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "X.npy")
        subprocess.run([sys.executable, __file__, "write", path, str(n_users)])
        for epsilon in ("none", "1.0"):
            subprocess.run([sys.executable, __file__, "fit", path, epsilon, n_rounds])


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write_file(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["fit"]:
        given = None if sys.argv[3] == "none" else float(sys.argv[3])
        fit_file(sys.argv[2], given, int(sys.argv[4]))
    else:
        iteration_speed()
        n_users = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
        if n_users:
            fit_from_disk(n_users, sys.argv[2] if len(sys.argv) > 2 else "6")
