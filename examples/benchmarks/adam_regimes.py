"""Four kinds of moments in the two regimes of the paper, on digits and adult.

    python examples/benchmarks/adam_regimes.py [--seeds 5] [--only digits adult]
                                               [--regimes wide single] [--rows 2000]
                                               [--hidden 0] [--save FILE]

The settings are those of table 2 of Kalinin, Upadhyay and Lampert (2025), which is of
CIFAR-10: "wide" batches of 256 at noise 1 and a learning rate of 1e-3, and "single"
examples at noise 2 and 1e-7; clipping at 1, 10 epochs, delta = 1e-6, weights lambda = 1
and tau = 1/2. Test accuracies of logistic regression (or of a hidden layer), means and
deviations over seeds. Noise is a multiple of what one example adds, so that all kinds
cost the same. ``--rows`` is how many training rows of adult the single examples are
taken from, as each makes a step. The data of adult are read from the folder that
SKDPSPECTRAL_DATA names. With ``--save`` each fit is a line of a file, and a run goes on
where another one ended.
"""

import argparse
import itertools

import numpy as np
from cells import Cells
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPAdamClassifier
from skdpspectral.datasets import load_adult
from skdpspectral.neural_network import Adam

KINDS = {
    "jme": {"moments": "jme", "moment_weight": 1.0},
    "clip": {"moments": "clip", "moment_weight": 0.5},
    "pp-debiased": {"moments": "pp-debiased"},
    "pp": {"moments": "pp"},
}
REGIMES = {
    "wide": {"batch_size": 256, "optimizer": Adam(1e-3, noise_multiplier=1.0)},
    "single": {"batch_size": 1, "optimizer": Adam(1e-7, noise_multiplier=2.0)},
}
# Of the paper, for comparison: wide and single.
PAPER = {
    "jme": (47.94, 30.38),
    "clip": (44.34, 28.14),
    "pp-debiased": (48.53, 29.14),
    "pp": (43.07, 10.48),
}


def parts_of(name, regime, seed, n_rows):
    """Return training and test rows and labels, scaled by public constants."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = X / 16.0
    else:
        found = load_adult()
        X, y = np.asarray(found.data), np.asarray(found.target)
    train, test, labels, wanted = train_test_split(X, y, random_state=seed)
    if name == "adult" and regime == "single":
        train, labels = train[:n_rows], labels[:n_rows]
    return train, labels, test, wanted


def network_of(y, regime, moments=None, hidden=()):
    """Return the classifier of a regime, with moments of some kind."""
    optimizer = clone(REGIMES[regime]["optimizer"])
    optimizer.set_params(neighbors="zero-out-one", **moments or {})
    given = {**REGIMES[regime], "optimizer": optimizer}
    return DPAdamClassifier(hidden, classes=np.unique(y), **given)


def score(name, regime, kind, seed, given):
    """Return the test accuracy of one fit, in percent."""
    X, y, test, wanted = parts_of(name, regime, seed, given.rows)
    model = network_of(y, regime, KINDS[kind], given.hidden or ())
    return 100.0 * model.fit(X, y).score(test, wanted)


def epsilon(name, regime, given):
    """Return what a fit costs, at delta = 1e-6: the same for all kinds."""
    X, y, _, _ = parts_of(name, regime, 0, given.rows)
    model = network_of(y, regime)
    return model.privacy_plan(*X.shape).epsilon


def print_regimes(given):
    """Print a row for each data set, regime and kind of moments."""
    cells = Cells(given.save)
    print_row("data", "regime", "moments", "accuracy", "deviation", "paper", "epsilon")
    for name, regime in itertools.product(given.only, given.regimes):
        cost = f"{epsilon(name, regime, given):.3f}"
        for kind, printed in PAPER.items():
            where = name, regime, kind, given.rows, given.hidden
            for seed in range(given.seeds):
                if (*where, seed) not in cells:
                    cells.timed((*where, seed), score, *where[:3], seed, given)
            scores = cells.values(*where)[: given.seeds]
            found = f"{np.mean(scores):.2f}", f"{np.std(scores, ddof=1):.2f}"
            of_paper = printed[list(REGIMES).index(regime)]
            print_row(name, regime, kind, *found, of_paper, cost)
    print(f"{cells.seconds / 60.0:.1f} minutes of CPU")


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=["digits", "adult"])
    parser.add_argument("--regimes", nargs="*", default=list(REGIMES))
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--hidden", type=int, default=0)
    parser.add_argument("--save", help="file of lines, read first and added to")
    ignore_leak_warnings()
    print_regimes(parser.parse_args())


if __name__ == "__main__":
    main()
