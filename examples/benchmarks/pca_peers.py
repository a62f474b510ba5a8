"""Share of variance kept: DPPCA beside what was published, and other packages.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/pca_peers.py
        [--cells peers.jsonl] [--repeats 25] [--only digits] [--methods DPPCA g-DPPCA]
        [--tables]
        [--diffprivlib-python PATH] [--opendp-python PATH] [--seconds 120]

Each cell: the median (and quartiles) over repeats of the variance about the data's mean
that the components keep, over what PCA's keep. All are calibrated to the same epsilon
and delta = 1e-6 for one replaced row: by mu of Gaussian differential privacy what adds
Gaussian noise, and by mu**2 / 2 of concentrated privacy, in its favor, what has other
noise too. The packages, and "exponential", know no delta, and have the same epsilon.

DPPCA knows nothing of the rows, or their public bounds. The others are given what no
fit may know: CoinPress the exact mean, twice the exact largest eigenvalue as a bound,
and the best of three numbers of steps; SeparateCov, both packages, and "exponential",
which is the mechanism that they name, the exact mean, and the exact .95 quantile of the
lengths as a clip; AdaptiveCov the exact mean, and the better of two radii to begin
with, that of the public box and the exact largest length. g-DPPCA needs nothing but its
pairs, of which 32 a row stand for all (8 in large tables), with the published
sensitivity of 4 / n.

The packages run in processes of their own (diffprivlib needs an older scikit-learn):
give the Pythons that have them. A cell of theirs has so many seconds of CPU for all of
its repeats; "/3" says that three were done by then. With 50 features and more neither
diffprivlib 0.6.6 nor OpenDP 0.16.0 gets far: in their acceptance step a power of
u'Omega u divides that would have to multiply, so that one draw of 10^3 to 10^100 is
taken. What found nothing at one budget is not tried at larger ones.

Tables of more than 20 million numbers get five repeats. "best" is the column of the
largest median.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from cells import Cells, median_of
from covariance_peers import (
    Rows,
    adaptive_cov,
    budget,
    coinpress,
    exponential,
    gdppca,
    leading,
    nearest,
    pairs_moment,
    separate_cov,
)
from pca_real_data import LOADERS, kept
from real_tables import load_kddcup99, load_raw_adult
from tables import ignore_leak_warnings, ignore_noise_warnings, print_row

from skdpspectral import DPPCA
from skdpspectral.datasets import make_spiked_covariance

RANKS = (1, 2, 5)
# Of the packages, which divide their budget between components.
PACKAGE_RANKS = (1, 2)
OURS = {
    "DPPCA": {},
    "DPPCA+bounds": {"bounds": True},
    "DPPCA, pairs": {"center": "pairs"},
}
PEERS = ("g-DPPCA", "CoinPress", "SeparateCov", "AdaptiveCov", "exponential")
PACKAGES = ("diffprivlib", "opendp")
METHODS = [*OURS, *PEERS, *PACKAGES]
_LARGE, _FEWER = 20_000_000, 5


def simulated(n, p, *, n_components=1, location=3.0):
    """Rows about a location, and a box that holds them."""
    X, _ = make_spiked_covariance(n, p, n_components=n_components, random_state=0)
    return X + location, (location - 18.0, location + 18.0)


def real(load):
    """Rows of a data set with their public bounds."""
    data = load()
    return np.asarray(data.data, dtype=np.float64), data.bounds


SIMULATED = {
    "1e3x50": (1000, 50, 1),
    "1e3x50r2": (1000, 50, 2),
    "1e4x200": (10_000, 200, 1),
    "1e5x50": (100_000, 50, 1),
}
RAW = {
    "adult-raw": load_raw_adult,
    "kddcup99-raw": lambda: load_kddcup99(units="raw"),
}
# Large tables last.
NAMES = [
    *("1e3x50", "1e3x50r2", "digits", "coil2000", "1e4x200", "jester", "adult"),
    *("adult-raw", "1e5x50", "kddcup99", "kddcup99-raw"),
]


def rows_of(name, location=3.0):
    """Return rows of a data set, about a location if simulated, and their bounds."""
    if name in SIMULATED:
        n, p, rank = SIMULATED[name]
        return simulated(n, p, n_components=rank, location=location)
    return real((LOADERS | RAW)[name])


class DataSet:
    """One data set, and what is worked out once of it.

    Parameters
    ----------
    name : str
        One of NAMES.
    """

    def __init__(self, name):
        self.X, bounds = rows_of(name)
        low, high = (np.broadcast_to(side, self.X.shape[1]) for side in bounds)
        self.bounds = bounds
        self.rows = Rows(self.X - self.X.mean(axis=0))
        longest = float(self.rows.lengths.max())
        self.radii = (0.5 * float(np.linalg.norm(high - low)), longest)
        values = np.linalg.eigvalsh(self.rows.exact)[::-1]
        self.best = {k: float(values[:k].sum()) for k in RANKS}
        self.clip = float(np.quantile(self.rows.lengths, 0.95))
        self._pairs = None

    @property
    def pairs(self):
        """Kendall's tau matrix, in a random order."""
        if self._pairs is None:
            shifts = 32 if self.X.size < 5_000_000 else 8
            rng = np.random.default_rng(0)
            self._pairs = pairs_moment(self.X, shifts, rng)
        return self._pairs

    def shares(self, components):
        """Shares that components keep, by their number: the leading ones, or a list."""
        if not isinstance(components, list):
            components = [components[:k] for k in RANKS]
        return [
            kept(found, self.rows.exact) / self.best[k]
            for k, found in zip(RANKS, components, strict=True)
        ]

    def ours(self, method, epsilon, seed):
        """Components of DPPCA."""
        chosen = dict(OURS[method])
        bounds = self.bounds if chosen.pop("bounds", False) else None
        pca = DPPCA(
            max(RANKS), epsilon=epsilon, bounds=bounds, noise_seed=seed, **chosen
        )
        return pca.fit(self.X).components_

    def peer(self, method, epsilon, seed):
        """Components of one of the peers."""
        rows, mu, rng = self.rows, budget(epsilon), np.random.default_rng(seed)
        if method == "exponential":
            moment, n = rows.clipped(self.clip) / self.clip**2, len(self.X)
            return [exponential(moment, n, k, epsilon, rng) for k in RANKS]
        if method == "g-DPPCA":
            matrix = gdppca(self.pairs, len(self.X), mu, rng)
        elif method == "CoinPress":
            matrix = coinpress(rows, mu, rng)
        elif method == "SeparateCov":
            matrix = separate_cov(rows, self.clip, mu, rng)
        else:
            found = [adaptive_cov(rows, radius, mu, rng) for radius in self.radii]
            matrix = nearest(rows.exact, found)
        return leading(matrix, max(RANKS))

    def package(self, package, python, rank, epsilon, repeats, seconds):
        """Yield components of a package, as many repeats as it has time for."""
        lengths = np.maximum(self.rows.lengths, 1e-300)
        rows = self.rows.rows * np.minimum(1.0, self.clip / lengths)[:, None]
        script = Path(__file__).with_name("pca_packages.py")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npz"
            np.savez(path, rows=rows, norm=self.clip * (1.0 + 1e-9))
            numbers = map(str, (rank, epsilon, repeats, seconds))
            ended = subprocess.run(
                [python, str(script), package, str(path), *numbers],
                capture_output=True,
                text=True,
                check=False,
            )
        if ended.returncode > 0:
            print(
                f"{package}: {ended.stderr.strip().splitlines()[-1]}", file=sys.stderr
            )
        for line in ended.stdout.splitlines():
            yield np.array(json.loads(line))


def repeats_of(name, options):
    """Return the number of repeats for a data set."""
    return min(options.repeats, _FEWER) if "kddcup99" in name else options.repeats


def missing(name, cells, options):
    """Return keys of what is not known of a data set."""
    found = []
    for method in options.methods:
        for epsilon in options.epsilons:
            if method in PACKAGES:
                python = getattr(options, f"{method}_python")
                keys = [(name, method, epsilon, k, 0) for k in PACKAGE_RANKS]
                found += keys if python else []
            else:
                seeds = range(repeats_of(name, options))
                found += [(name, method, epsilon, seed) for seed in seeds]
    return [key for key in found if key not in cells]


def measure(name, cells, options):
    """Fit what is not known yet of one data set."""
    keys = missing(name, cells, options)
    if not keys:
        return
    data = DataSet(name)
    cells.add((name, "shape", 0), list(data.X.shape))
    late = set()
    for key in keys:
        method = key[1]
        if method not in PACKAGES:
            find = data.ours if method in OURS else data.peer
            cells.timed(
                key, lambda *given, find=find: data.shares(find(*given)), *key[1:]
            )
        elif (method, key[3]) in late:
            cells.add(key, None)
        elif not _measure_package(data, key, cells, options):
            # Nothing in time: nor will there be at larger budgets.
            late.add((method, key[3]))


def _measure_package(data, key, cells, options):
    """Run a package, and keep what it has found in time; None if it was nothing."""
    name, method, epsilon, rank, _ = key
    python = getattr(options, f"{method}_python")
    repeats = repeats_of(name, options)
    made = data.package(method, python, rank, epsilon, repeats, options.seconds)
    found = [kept(one, data.rows.exact) / data.best[rank] for one in made]
    for seed, value in enumerate(found or [None]):
        cells.add((name, method, epsilon, rank, seed), value)
    return found


def print_table(name, cells, options):
    """Print the table of one data set."""
    shape = cells.values(name, "shape")
    if len(shape) == 0:
        return
    n, p = (int(size) for size in shape[-1])
    print(f"\n{name}: {n} x {p}")
    print_row("epsilon", "k", "best", *options.methods, widths=25)
    repeats = repeats_of(name, options)
    for epsilon in options.epsilons:
        for place, k in enumerate(RANKS):
            columns = {}
            for method in options.methods:
                if method in PACKAGES:
                    columns[method] = cells.values(name, method, epsilon, k)
                else:
                    found = cells.values(name, method, epsilon)
                    columns[method] = [value[place] for value in found]
            known = {m: np.median(v) for m, v in columns.items() if len(v)}
            best = max(known, key=known.get) if known else "-"
            texts = [median_of(found, repeats) for found in columns.values()]
            print_row(f"{epsilon:g}", k, best, *texts, widths=25)


def main():
    """Fit what is missing, and print one table a data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", help="file of what is known, which is added to")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=NAMES, nargs="+", default=NAMES)
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=METHODS)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1, 2, 4])
    parser.add_argument("--tables", action="store_true", help="print what is known")
    parser.add_argument("--diffprivlib-python", help="a Python that has diffprivlib")
    parser.add_argument("--opendp-python", help="a Python that has opendp")
    parser.add_argument("--seconds", type=int, default=120)
    options = parser.parse_args()
    ignore_leak_warnings()
    ignore_noise_warnings()
    cells = Cells(options.cells)
    for package in PACKAGES:
        if package in options.methods and not getattr(options, f"{package}_python"):
            print(f"{package} is left out: give --{package}-python")
    if not options.tables:
        for name in options.only:
            measure(name, cells, options)
    print(f"{options.repeats} repeats: median (quartiles)")
    for name in options.only:
        print_table(name, cells, options)


if __name__ == "__main__":
    main()
