"""DPStandardScaler on real tables in raw units, with no bounds known.

    python examples/benchmarks/scaler_accuracy.py [--repeats 25] [--only coil2000]
                                                  [--classifier]

The first table has, for each data set and budget, the share of features that are seen,
the medians and .9-quantiles over those of |log(scale / deviation)| and of the errors of
means in deviations, and the CPU time of a fit; medians over repeats. ``--classifier``
puts scalers in front of a logistic regression on Adult, trained on its training rows:
accuracies on its test rows, with quartiles; of all columns, with those that are not
seen as zeros or kept as they are, and of the six numeric columns alone. delta = 1e-6.
The data are read from the folder that SKDPSPECTRAL_DATA names.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPStandardScaler
from skdpspectral.datasets import (
    load_adult,
    load_coil2000,
    load_jester,
    load_kddcup99,
)

LOADERS = {
    "coil2000": load_coil2000,
    "jester": load_jester,
    "adult": lambda: load_adult(units="raw"),
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
    return [*found, *np.quantile(off, (0.5, 0.9)), elapsed]


def print_errors(names, repeats):
    """Print the table of scales and means."""
    print_row("data", "epsilon", "seen", "scale", ".9", "mean", ".9", "s", widths=10)
    for name in names:
        X = LOADERS[name]().data
        deviations, means = (f(X, axis=0, dtype=float) for f in (np.std, np.mean))
        for with_mean in (True, False):
            for epsilon in BUDGETS:
                settings = {"epsilon": epsilon, "with_mean": with_mean}
                found = [
                    errors(X, deviations, means, **settings) for _ in range(repeats)
                ]
                cells = [f"{value:.3f}" for value in np.median(found, axis=0)]
                label = name if with_mean else f"{name}*"
                print_row(label, epsilon, *cells, widths=10)
    print("* without means")


def print_accuracies(repeats):
    """Print accuracies of a logistic regression behind scalers."""
    adult = load_adult(units="raw")
    low, high = adult.bounds
    train = ~adult.is_test
    # Without a scaler the solver does not come to its end.
    warnings.simplefilter("ignore", ConvergenceWarning)

    def accuracy(scaler):
        model = make_pipeline(scaler, LogisticRegression(max_iter=300))
        model.fit(adult.data[train], adult.target[train])
        return model.score(adult.data[~train], adult.target[~train])

    def by_bounds(X):
        return (np.clip(X, low, high) - low) / (high - low)

    print_row("scaler", "accuracy", "quartiles")
    print_row("StandardScaler (leaks)", f"{accuracy(StandardScaler()):.4f}", "")
    print_row("bounds", f"{accuracy(FunctionTransformer(by_bounds)):.4f}", "")
    print_row("none", f"{accuracy(FunctionTransformer()):.4f}", "")
    for epsilon in (0.1, 0.25, *BUDGETS):
        scaler = DPStandardScaler(epsilon=epsilon)
        numeric = ColumnTransformer(
            [("numeric", scaler, slice(0, 6))], remainder="passthrough"
        )
        scalers = {"all": scaler, "keep": clone(scaler).set_params(unseen="keep")}
        for name, chosen in (scalers | {"numeric": numeric}).items():
            found = [accuracy(clone(chosen)) for _ in range(repeats)]
            first, median, third = np.quantile(found, (0.25, 0.5, 0.75))
            label = f"epsilon={epsilon:g}, {name}"
            print_row(label, f"{median:.4f}", f"{first:.4f} to {third:.4f}")


def main():
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", choices=LOADERS, nargs="+", default=list(LOADERS))
    parser.add_argument("--classifier", action="store_true")
    options = parser.parse_args()
    ignore_leak_warnings()
    if options.classifier:
        print_accuracies(options.repeats)
    else:
        print_errors(options.only, options.repeats)


if __name__ == "__main__":
    main()
