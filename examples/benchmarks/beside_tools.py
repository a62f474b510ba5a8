"""Adult in raw units, by other tools and by this package, at the same privacy.

    python examples/benchmarks/beside_tools.py ours ridge boosting [--epsilons 0.5 1 4]
    PEERS/bin/python examples/benchmarks/beside_tools.py ebm diffprivlib

Each cell has fits on three quarters of the rows of `--seeds` splits, and their area
under the ROC curve and accuracy on the others, with standard errors. All state
replacement of one row; delta is 1e-6.

- ours, ridge: DPTableVectorizer with DPAdamClassifier or DPRidgeClassifier, from the
  raw table, without bounds.
- ebm: DP-EBM of interpret, for rows that join or leave, at half of the mu of the
  others: a replacement is a row that leaves and one that joins. It is given bounds.
- diffprivlib: LogisticRegression, pure epsilon, on columns scaled by given bounds and
  indicators of given categories, at a norm of 3.
- boosting: HistGradientBoostingClassifier without privacy, the ceiling.

Packages that the methods need are imported for them alone, so that peers may run in
another environment. The data are read from the folder of SKDPSPECTRAL_DATA.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

DELTA = 1e-6
# Of the codebook: age, education, hours, gains and losses are capped as published.
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}


def load():
    """Return the raw table and whether the income is large."""
    path = Path(os.environ["SKDPSPECTRAL_DATA"], "adult", "adult.npz")
    with np.load(path, allow_pickle=False) as raw:
        table = pd.DataFrame(raw["numeric"].astype(float), columns=raw["numeric_names"])
        for column, text in enumerate(raw["categorical_names"].tolist()):
            levels, codes = raw[f"levels_{text}"], raw["categorical"][:, column]
            known = codes < len(levels)
            table[text] = np.where(known, levels[np.where(known, codes, 0)], "?")
        return table, raw["income_gt_50k"].astype(int)


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


def ours(epsilon, classifier="DPAdamClassifier"):
    """Return a private pipeline."""
    import skdpspectral
    from skdpspectral.pipeline import make_private_pipeline

    model = getattr(skdpspectral, classifier)(classes=[0, 1])
    steps = skdpspectral.DPTableVectorizer(), model
    return make_private_pipeline(*steps, epsilon=epsilon, delta=DELTA)


def ridge(epsilon):
    """Return the same with the other classifier."""
    return ours(epsilon, "DPRidgeClassifier")


def ebm(epsilon):
    """Return an additive model with given bounds."""
    from interpret.privacy import DPExplainableBoostingClassifier

    bounds = {number: BOUNDS[name] for number, name in enumerate(BOUNDS)}
    return DPExplainableBoostingClassifier(
        epsilon=half(epsilon), delta=DELTA, privacy_bounds=bounds, n_jobs=1
    )


def diffprivlib(epsilon):
    """Return a linear model with given bounds."""
    from diffprivlib.models import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    levels = {name: sorted(set(values)) for name, values in TABLE.items()}

    def encode(table):
        parts = [
            (table[[name]].to_numpy() - low) / (high - low)
            for name, (low, high) in BOUNDS.items()
        ]
        for name in table.columns[len(BOUNDS) :]:
            parts.append(table[name].to_numpy()[:, None] == np.array(levels[name]))
        return np.hstack(parts).astype(float)

    return make_pipeline(
        FunctionTransformer(encode), LogisticRegression(epsilon=epsilon, data_norm=3.0)
    )


def boosting(_):
    """Return the ceiling."""
    return HistGradientBoostingClassifier(categorical_features="from_dtype")


METHODS = {each.__name__: each for each in (ours, ridge, ebm, diffprivlib, boosting)}
RELATIONS = {"ebm": "half of mu", "diffprivlib": "pure", "boosting": "not private"}
TABLE, INCOME = load()


def measure(name, epsilon, seed):
    """Return area under the curve and accuracy of one fit."""
    table = TABLE
    if name == "boosting":
        table = TABLE.astype(dict.fromkeys(TABLE.columns[len(BOUNDS) :], "category"))
    train, test, y, wanted = train_test_split(table, INCOME, random_state=seed)
    model = METHODS[name](epsilon).fit(train, y)
    decide = getattr(model, "decision_function", None)
    scores = decide(test) if decide else model.predict_proba(test)[:, 1]
    return roc_auc_score(wanted, scores), np.mean(model.predict(test) == wanted)


def main():
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("methods", nargs="+", choices=METHODS)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.5, 1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.methods:
        for epsilon in given.epsilons[: 1 if name == "boosting" else None]:
            found = [measure(name, epsilon, seed) for seed in range(given.seeds)]
            mean = np.mean(found, axis=0)
            error = np.std(found, axis=0, ddof=1) / np.sqrt(given.seeds)
            relation = RELATIONS.get(name, "replace-one")
            print(
                f"{name:12} epsilon {epsilon:g} mu {mu_of(epsilon):.3f} {relation:12} "
                f"AUC {mean[0]:.3f} +- {error[0]:.3f} "
                f"accuracy {mean[1]:.3f} +- {error[1]:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
