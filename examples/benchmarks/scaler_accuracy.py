"""DPStandardScaler on real tables in raw units, with no bounds known.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/scaler_accuracy.py
        [--cells scaler.jsonl] [--repeats 25] [--only coil2000] [--classifier]
        [--tables]

The first table has, for each data set and budget, the share of features that are seen,
the medians and .9-quantiles over those of |log(scale / deviation)| and of the errors of
means in deviations, and the CPU time of a fit; medians over repeats. ``--classifier``
puts scalers in front of a logistic regression on Adult, trained on its training rows:
accuracies on its test rows, with quartiles; of all columns, with those that are not
seen as zeros or kept as they are, and of the six numeric columns alone. delta = 1e-6.
``--cells`` names a file that every fit adds a line to: a run that was ended goes on
where it was.
"""

import argparse
import time
import warnings

import numpy as np
from cells import Cells
from real_tables import load_coil2000, load_jester, load_kddcup99, load_raw_adult
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPStandardScaler

LOADERS = {
    "coil2000": load_coil2000,
    "jester": load_jester,
    "adult": load_raw_adult,
    "kddcup99": lambda: load_kddcup99(units="raw"),
}
BUDGETS = (0.5, 1.0, 2.0, 4.0)


def errors(X, deviations, means, **parameters):
    """Return seen share, errors of scales and of means, and CPU time of one fit."""
    start = time.process_time()
    scaler = DPStandardScaler(**parameters).fit(X)
    elapsed = time.process_time() - start
    seen = ~scaler.unseen_features_ & (deviations > 0.0)
    scales = np.abs(np.log(scaler.scale_[seen] / deviations[seen]))
    found = [seen.mean(), *np.quantile(scales, (0.5, 0.9))]
    off = np.full(1, np.nan)
    if scaler.mean_ is not None:
        off = np.abs(scaler.mean_ - means)[seen] / deviations[seen]
    return [float(value) for value in (*found, *np.quantile(off, (0.5, 0.9)), elapsed)]


def measure_errors(name, cells, repeats):
    """Fit what is not known yet of one data set."""
    keys = [
        (name, with_mean, epsilon, seed)
        for with_mean in (True, False)
        for epsilon in BUDGETS
        for seed in range(repeats)
    ]
    keys = [key for key in keys if key not in cells]
    if keys:
        X = LOADERS[name]().data
        deviations, means = (f(X, axis=0, dtype=float) for f in (np.std, np.mean))
    for key in keys:
        given = {"epsilon": key[2], "with_mean": key[1]}
        cells.timed(key, lambda given=given: errors(X, deviations, means, **given))


def print_errors(names, cells):
    """Print the table of scales and means."""
    print_row("data", "epsilon", "seen", "scale", ".9", "mean", ".9", "s", widths=10)
    for name in names:
        for with_mean in (True, False):
            for epsilon in BUDGETS:
                found = cells.values(name, with_mean, epsilon)
                if len(found) == 0:
                    continue
                texts = [f"{value:.4f}" for value in np.median(found, axis=0)]
                label = name if with_mean else f"{name}*"
                print_row(label, epsilon, *texts, widths=10)
    print("* without means")


class Classifier:
    """A logistic regression behind a scaler, on Adult."""

    def __init__(self):
        adult = load_raw_adult()
        self.X, self.y, self.bounds = adult.data, adult.target, adult.bounds
        self.train = ~adult.is_test
        # Without a scaler the solver does not come to its end.
        warnings.simplefilter("ignore", ConvergenceWarning)

    def accuracy(self, scaler):
        """Accuracy on the test rows."""
        model = make_pipeline(scaler, LogisticRegression(max_iter=300))
        model.fit(self.X[self.train], self.y[self.train])
        return model.score(self.X[~self.train], self.y[~self.train])

    def by_bounds(self, X):
        """Rows in a public box."""
        low, high = self.bounds
        return (np.clip(X, low, high) - low) / (high - low)

    def scaler(self, name, epsilon):
        """Return a scaler by its name and budget."""
        private = DPStandardScaler(epsilon=epsilon)
        return {
            "StandardScaler (leaks)": StandardScaler(),
            "bounds": FunctionTransformer(self.by_bounds),
            "none": FunctionTransformer(),
            "all": private,
            "keep": clone(private).set_params(unseen="keep"),
            "numeric": ColumnTransformer(
                [("numeric", private, slice(0, 6))], remainder="passthrough"
            ),
        }[name]


SCALERS = [(name, None) for name in ("StandardScaler (leaks)", "bounds", "none")]
SCALERS += [
    (name, epsilon)
    for epsilon in (0.1, 0.25, *BUDGETS)
    for name in ("all", "keep", "numeric")
]


def measure_accuracies(cells, repeats):
    """Fit the classifiers that are not known yet."""
    keys = [
        ("classifier", name, epsilon, seed)
        for seed in range(repeats)
        for name, epsilon in SCALERS
        if epsilon is not None or seed == 0
    ]
    keys = [key for key in keys if key not in cells]
    classifier = Classifier() if keys else None
    for key in keys:
        cells.timed(key, classifier.accuracy, classifier.scaler(*key[1:3]))


def print_accuracies(cells):
    """Print accuracies of a logistic regression behind scalers."""
    print_row("scaler", "accuracy, median", "quartiles", "repeats")
    for name, epsilon in SCALERS:
        found = cells.values("classifier", name, epsilon)
        if len(found):
            label = name if epsilon is None else f"epsilon={epsilon:g}, {name}"
            first, median, third = np.quantile(found, (0.25, 0.5, 0.75))
            quartiles = f"{first:.4f} to {third:.4f}"
            print_row(label, f"{median:.4f}", quartiles, len(found))


def main():
    """Fit what is missing, and print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", help="file of what is known, which is added to")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=LOADERS, nargs="+", default=list(LOADERS))
    parser.add_argument("--classifier", action="store_true")
    parser.add_argument("--tables", action="store_true", help="print what is known")
    options = parser.parse_args()
    ignore_leak_warnings()
    cells = Cells(options.cells)
    if options.classifier:
        if not options.tables:
            measure_accuracies(cells, options.repeats)
        print_accuracies(cells)
        return
    if not options.tables:
        for name in options.only:
            measure_errors(name, cells, options.repeats)
    print_errors(options.only, cells)


if __name__ == "__main__":
    main()
