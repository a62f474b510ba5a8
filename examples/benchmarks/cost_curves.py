"""How time and memory grow with rows, features, components, users, steps and clients.

    python examples/benchmarks/cost_curves.py [--quick] [--only rows ...] [--repeats 3]
        [--record FILE] [--plot FILE]

Each point is a process of its own with one thread of the BLAS: the least CPU time of a
call after one that does not count, and the largest memory of the process, data and
imports included. Slopes are fitted to logarithms, by least squares, over the larger
half of the points: 1 is linear, and a fit of no size costs something too. Points that
the file of --record holds are not measured again: a run that was broken off goes on
where it was.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from speed_sides import peak_mb

_DRAWN_IN_A_ROW = 5
THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def normal_rows(n, p):
    """Return normal rows with two strong directions."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X[:, :2] *= 4.0
    return X


def pca(n=100_000, p=50, rank=2, **parameters):
    """Return a fit of DPPCA."""
    from skdpspectral import DPPCA

    X = normal_rows(n, p)
    return lambda: DPPCA(rank, **parameters).fit(X)


def personal(users):
    """Return a fit of LRSRegressor, twenty rows a user."""
    from skdpspectral import LRSRegressor

    rng = np.random.default_rng(0)
    X = rng.standard_normal((users * 20, 20))
    codes = np.repeat(np.arange(users), 20)
    y = rng.standard_normal(users)[codes] * X[:, 0] + rng.normal(0.0, 0.1, len(X))
    model = LRSRegressor(1, 2)
    return lambda: model.fit(X, y, users=codes)


def stream(steps):
    """Return a stream of JMECovariance, by batches of the same rows."""
    from skdpspectral import JMECovariance

    rows = np.random.default_rng(0).normal(0.0, 0.1, (500, 20))

    def run():
        model = JMECovariance(horizon=steps)
        for _ in range(0, steps, len(rows)):
            model.partial_fit(rows)

    return run


def federation(clients):
    """Return a fit of FederatedDPPCA, a hundred rows a client."""
    from skdpspectral import FederatedDPPCA

    X = normal_rows(clients * 100, 20)
    owners = np.repeat(np.arange(clients), 100)
    return lambda: FederatedDPPCA(1).fit(X, clients=owners)


def ratings(users=4000, each=50):
    """Return a fit of DPMatrixFactorization, of 1,000 items."""
    from skdpspectral import DPMatrixFactorization

    rng = np.random.default_rng(0)
    items = (rng.integers(1000, size=(users, 1)) + 17 * np.arange(each)) % 1000
    X = np.column_stack([np.repeat(np.arange(users), each), items.ravel()])
    y = rng.integers(1, 6, size=len(X)).astype(float)
    model = DPMatrixFactorization(items=np.arange(1000), rating_range=(1, 5))
    return lambda: model.fit(X, y)


# What grows, of which task, and from which size to which.
CURVES = {
    "rows": (
        lambda n: pca(n=n, center="none"),
        "DPPCA, center='none', 50 features",
        40_000,
        2_560_000,
    ),
    "compared": (
        lambda n: pca(n=n),
        "rows of DPPCA, whose mean is not given, 50 features",
        40_000,
        2_560_000,
    ),
    "features": (lambda p: pca(n=4000, p=p), "DPPCA, 4,000 rows", 50, 1600),
    "components": (lambda r: pca(n=4000, p=800, rank=r), "DPPCA, 4,000 x 800", 1, 32),
    "users": (personal, "LRSRegressor, 20 x 20 a user", 2000, 32_000),
    "raters": (ratings, "DPMatrixFactorization, 50 ratings a user", 2000, 64_000),
    "ratings": (
        lambda each: ratings(each=each),
        "DPMatrixFactorization, so many a user, 4,000 users",
        25,
        800,
    ),
    "steps": (stream, "JMECovariance, 20 features", 2000, 64_000),
    "clients": (federation, "FederatedDPPCA, 100 x 20 a client", 50, 800),
}


def sizes_of(name, quick):
    """Return sizes, each twice the one before."""
    _, _, first, last = CURVES[name]
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(2 * sizes[-1])
    return sizes[:3] if quick else sizes


def measure(name, size):
    """Time one call in this very process; return CPU seconds and megabytes."""
    warnings.simplefilter("ignore")
    run = CURVES[name][0](size)
    run()
    start, calls = time.process_time(), 0
    while not calls or time.process_time() - start < 0.2:
        run()
        calls += 1
    seconds = (time.process_time() - start) / calls
    return {"cpu_s": seconds, "peak_mb": peak_mb()}


def best_of(name, size, repeats):
    """Return the least of several measurements, in processes of their own."""
    command = [sys.executable, __file__, "--measure", name, str(size)]
    runs = []
    for _ in range(repeats):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | THREADS,
        )
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return {key: min(run[key] for run in runs) for key in runs[0]}


def slope(sizes, values):
    """Fit a power to the larger half of the points; None where they are too few."""
    half = slice(len(sizes) // 2 - (len(sizes) < 5), None)
    if len(sizes[half]) < 2 or min(values[half]) <= 0.0:
        return None
    return float(np.polyfit(np.log(sizes[half]), np.log(values[half]), 1)[0])


def recorded(path):
    """Return the points that a file holds, the last one of each curve and size."""
    from tables import read_lines

    return {(point["curve"], point["size"]): point for point in read_lines(path)}


def draw(found, path):
    """Draw times and memory on logarithmic axes, with their slopes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "cost curves", "svg.fonttype": "none"}
    from matplotlib import pyplot as plt

    # Below a row of times are their memories.
    n_bands = -(-len(found) // _DRAWN_IN_A_ROW)
    n_columns = min(len(found), _DRAWN_IN_A_ROW)
    size = 2.6 * n_columns, 5.0 * n_bands
    figure, axes = plt.subplots(2 * n_bands, n_columns, figsize=size, squeeze=False)
    columns = [
        axes[2 * band : 2 * band + 2, j]
        for band in range(n_bands)
        for j in range(n_columns)
    ]
    for column in columns[len(found) :]:
        for ax in column:
            ax.remove()
    for column, (name, points) in zip(columns, found.items(), strict=False):
        sizes = [point["size"] for point in points]
        for ax, key, label in zip(
            column, ("cpu_s", "peak_mb"), ("CPU s", "peak MB"), strict=True
        ):
            values = [point[key] for point in points]
            ax.loglog(sizes, values, "o-", markersize=3)
            power = slope(sizes, values)
            ax.set_title("" if power is None else f"slope {power:.2f}", fontsize=9)
            ax.set_ylabel(label, fontsize=8)
            ax.tick_params(labelsize=7, which="both")
            for axis in (ax.xaxis, ax.yaxis):
                axis.set_minor_formatter("")
            low, high = np.log10(min(values)), np.log10(max(values))
            ax.set_ylim(10.0 ** np.floor(low), 10.0 ** np.ceil(high))
        column[1].set_xlabel(name, fontsize=9)
        column[1].set_ylim(100, 10_000)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    if path.endswith(".svg"):
        shorten(path)


def shorten(path):
    """Leave out of a drawing the indents, and digits that nobody sees."""
    drawing = Path(path)
    text = re.sub(r"\n\s+", "\n", drawing.read_text())
    numbers = r"(?<![\w#-])-?\d+\.\d{3,}"
    drawing.write_text(re.sub(numbers, lambda n: f"{float(n[0]):.2f}", text))


def main():
    """Print the points and the slopes of each curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three points a curve")
    parser.add_argument("--only", nargs="+", choices=CURVES, default=list(CURVES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", help="file that lines of JSON are added to")
    parser.add_argument("--plot", help="file that curves are drawn to")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], int(options.measure[1]))))
        return
    from tables import add_line, print_row

    found, known = {}, recorded(options.record)
    for name in options.only:
        print(f"\n{name}: {CURVES[name][1]}")
        print_row(name, "CPU s", "peak MB")
        points = []
        for size in sizes_of(name, options.quick):
            point = known.get((name, size))
            if point is None:
                point = {"curve": name, "size": size}
                point |= best_of(name, size, options.repeats)
                if options.record:
                    add_line(options.record, json.dumps(point))
            points.append(point)
            print_row(size, f"{point['cpu_s']:.4g}", f"{point['peak_mb']:.0f}")
        sizes = [point["size"] for point in points]
        power = slope(sizes, [point["cpu_s"] for point in points])
        print(f"slope of time, larger half: {power:.3f}" if power else "too few points")
        found[name] = points
    if options.plot:
        draw(found, options.plot)


if __name__ == "__main__":
    main()
