"""Share of variance that DPPCA keeps by what rows are measured from, at any location.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/pca_centers.py
        [--cells centers.jsonl] [--repeats 25] [--only digits 1e3x50] [--tables]
        [--methods default pairs] [--moved 0 3 2000] [--epsilons 0.5 1 2 4]

Each cell: median (and quartiles) over repeats, with fresh noise, of the variance about
the data's mean that the components keep, over what PCA's keep. ``--moved`` adds so many
of its standard deviations to each feature; bounds move along. "r2" are rows with two
directions of equal variance; delta = 1e-6.

``--cells`` names a file that every fit adds a line to: a run that was ended goes on
where it was, five repeats of everything first, then five more; ``--tables`` prints what
is there and fits nothing. On large tables what is the same wherever rows lie, pairs and
all that is measured from bounds, is fitted where they lie, and marked "=" elsewhere.
"""

import argparse
from contextlib import contextmanager

import numpy as np
from cells import Cells, median_of
from pca_peers import NAMES, RANKS, rows_of
from pca_real_data import kept
from tables import ignore_leak_warnings, ignore_noise_warnings, print_row

from skdpspectral import DPPCA
from skdpspectral.decomposition import PrivateMean
from skdpspectral.decomposition._second_moment import SecondMoment

# Name: center, whether bounds are given, and whether it depends on where rows lie.
METHODS = {
    "default": ("auto", False, True),
    "default+bounds": ("auto", True, False),
    "pairs": ("pairs", False, False),
    "mean+bounds": (PrivateMean(), True, False),
    "origin": ("none", False, True),
}
# Numbers of a table from which on methods are fitted where rows lie alone.
_LARGE = 5_000_000
_BLOCK = 5


@contextmanager
def remembered_moments():
    """Work out once what is the same in every fit to the same rows.

    That are second moments of pairs, whose order depends on the shape of the table
    alone, and those about the origin. Noise is drawn anew for every fit.
    """
    kernel, found = SecondMoment.kernel, {}

    def remembered(moment, rows, origin, *given):
        if isinstance(origin, np.ndarray):
            return kernel(moment, rows, origin, *given)
        key = (origin, moment.bounds.clip, moment.bounds.box is None, *given)
        if key not in found:
            found[key] = kernel(moment, rows, origin, *given)
        return found[key].copy(order="K")

    SecondMoment.kernel = remembered
    try:
        yield
    finally:
        SecondMoment.kernel = kernel


def shares(X, bounds, given, method, epsilon, seed):
    """Return the shares that one fit keeps, for each number of components.

    What is released does not depend on how many components are asked for, so that one
    fit has the leading ones for every number.
    """
    covariance, best = given
    center, bounded, _ = METHODS[method]
    pca = DPPCA(
        max(RANKS),
        epsilon=epsilon,
        center=center,
        bounds=bounds if bounded else None,
        noise_seed=seed,
    )
    components = pca.fit(X).components_
    return [kept(components[:k], covariance) / best[k] for k in RANKS]


def is_alike(shape, method, moved):
    """Whether a method is not fitted there, as it would be the same unmoved."""
    return moved != 0 and shape[0] * shape[1] > _LARGE and not METHODS[method][2]


def shape_of(name, cells):
    """Return the shape of a data set, if it was loaded once; None if not."""
    found = cells.values(name, "shape")
    return tuple(int(size) for size in found[-1]) if len(found) else None


def missing(name, cells, options, seeds):
    """Return keys of what is not known of a data set."""
    shape = shape_of(name, cells)
    return [
        (name, moved, method, epsilon, seed)
        for moved in options.moved
        for method in options.methods
        for epsilon in options.epsilons
        for seed in seeds
        if shape is None or not is_alike(shape, method, moved)
        if (name, moved, method, epsilon, seed) not in cells
    ]


def measure(name, cells, options, seeds):
    """Fit what is not known yet of one data set."""
    if not missing(name, cells, options, seeds):
        return
    X, bounds = rows_of(name, location=0.0)
    cells.add((name, "shape", 0), list(X.shape))
    # Neither of these changes where rows are moved, and each is made once.
    covariance = np.cov(X, rowvar=False, bias=True)
    values = np.linalg.eigvalsh(covariance)[::-1]
    given = covariance, {k: float(values[:k].sum()) for k in RANKS}
    keys = missing(name, cells, options, seeds)
    for moved in sorted({key[1] for key in keys}):
        step = moved * np.sqrt(np.diag(covariance))
        rows, box = (
            (X + step, [side + step for side in bounds]) if moved else (X, bounds)
        )
        with remembered_moments():
            for key in (key for key in keys if key[1] == moved):
                cells.timed(key, shares, rows, box, given, *key[2:])


def print_tables(name, cells, options):
    """Print one table for each place of a data set."""
    shape = shape_of(name, cells)
    if shape is None:
        return
    n, p = shape
    for moved in options.moved:
        print(f"\n{name}: {n} x {p}, moved by {moved:g}")
        print_row("epsilon", "k", *options.methods, widths=26)
        for epsilon in options.epsilons:
            for place, k in enumerate(RANKS):
                columns = []
                for method in options.methods:
                    alike = is_alike(shape, method, moved)
                    at = 0.0 if alike else moved
                    found = cells.values(name, at, method, epsilon)
                    text = median_of([v[place] for v in found], options.repeats)
                    columns.append("= " + text if alike else text)
                print_row(f"{epsilon:g}", k, *columns, widths=26)


def main():
    """Fit what is missing, and print the tables of each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", help="file of what is known, which is added to")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=NAMES, nargs="+", default=NAMES)
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=list(METHODS))
    parser.add_argument("--moved", type=float, nargs="+", default=[0.0, 3.0, 2000.0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1, 2, 4])
    parser.add_argument("--tables", action="store_true", help="print what is known")
    options = parser.parse_args()
    ignore_leak_warnings()
    ignore_noise_warnings()
    cells = Cells(options.cells)
    if not options.tables:
        for start in range(0, options.repeats, _BLOCK):
            seeds = range(start, min(start + _BLOCK, options.repeats))
            for name in options.only:
                measure(name, cells, options, seeds)
    print(
        f"{options.repeats} repeats, {cells.seconds / 60.0:.1f} CPU minutes: "
        "median (quartiles)"
    )
    for name in options.only:
        print_tables(name, cells, options)


if __name__ == "__main__":
    main()
