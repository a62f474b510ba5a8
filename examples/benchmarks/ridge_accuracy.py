"""DPRidge beside other private linear regressions, on real and made tables.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/ridge_accuracy.py
        [--cells ridge.jsonl] [--repeats 20] [--only adult] [--methods ours ridge]
        [--budgets 1 2] [--coverage] [--speed] [--classes] [--pipelines] [--rst]

Mean R2 on a third of the rows, which no fit has seen; delta = 1e-6. ``ridge`` has no
privacy. ``bounds`` is DPRidge with public bounds, where a table has them; beside both
is the best of 30 penalties in hindsight, or the mean. AdaSSP and boosted AdaSSP are
given, for nothing, means, deviations and lengths of the test rows, as if these were
public. DPAdamRegressor is given targets in units of the test rows, and features behind
a DPStandardScaler that has a fifth of the budget's mu^2. ``--coverage`` counts
coefficients within 95 % intervals, and ``--speed`` has CPU times. ``--classes`` has
accuracies and CPU times of DPRidgeClassifier beside DPAdamClassifier, and
``--pipelines`` R2 of DPRidge behind other private steps, of hours in raw Adult.
``--cells`` names a file that every fit adds a line to: a run that was ended goes on
where it was. ``--rst`` prints the table of the user guide from it.
"""

import argparse
import math
import time
import warnings
from functools import partial

import numpy as np
from cells import Cells
from real_tables import (
    load_adult,
    load_coil2000,
    load_jester,
    load_kddcup99,
    load_raw_adult,
)
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tables import median_cpu, print_row, with_error

from skdpspectral import (
    DPAdamClassifier,
    DPAdamRegressor,
    DPRidge,
    DPRidgeClassifier,
    DPStandardScaler,
    DPTableVectorizer,
)
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu, split_mu
from skdpspectral.pipeline import make_private_pipeline

DELTA = 1e-6
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0)


# -- tables ------------------------------------------------------------------------


def one_by_others(table, place):
    """Return the other columns, and one of them as the target."""
    return np.delete(table, place, axis=1), table[:, place]


def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X, y


def adult():
    data = load_raw_adult()
    return one_by_others(data.data, data.feature_names.index("hours-per-week"))


def coil2000():
    data = load_coil2000()
    return one_by_others(data.data, data.feature_names.index("MINKGEM"))


def jester():
    return one_by_others(np.asarray(load_jester().data, dtype=float), 0)


def digits():
    return one_by_others(load_digits().data, 28)


def kddcup99():
    data = load_kddcup99(units="raw")
    X, y = one_by_others(data.data, data.feature_names.index("src_bytes"))
    return X, np.log1p(y)


def made(n_samples, n_features, kind="plain"):
    """Return a maker of a linear table: a third of the variance is noise."""

    def make():
        rng = np.random.default_rng(n_features)
        X = rng.standard_normal((n_samples, n_features))
        if kind == "collinear":
            X = X @ np.diag(0.7 ** np.arange(n_features)) @ _rotation(rng, n_features)
        if kind == "heavy":
            X = rng.standard_t(3, size=(n_samples, n_features))
        coef = rng.standard_normal(n_features)
        y = X @ coef
        y += rng.standard_normal(n_samples) * y.std() * math.sqrt(0.5)
        if kind == "far":
            X, y = X + 1e4, y + 1e4
        if kind == "mixed":
            X = X * 10.0 ** rng.uniform(-4, 4, n_features)
        return X, y

    return make


def _rotation(rng, size):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


DIABETES_BOUNDS = (
    [18, 1, 15, 60, 90, 40, 20, 2, 3, 50],
    [80, 2, 45, 140, 310, 250, 100, 10, 6.5, 130],
)

TABLES = {
    "diabetes": (diabetes, DIABETES_BOUNDS, (25, 346)),
    "digits": (digits, (0, 16), (0, 16)),
    "coil2000": (coil2000, None, None),
    "jester": (jester, (-10, 10), (-10, 10)),
    "adult": (adult, None, None),
    "kddcup99": (kddcup99, None, None),
    "300 x 5": (made(300, 5), None, None),
    "3000 x 5": (made(3000, 5), None, None),
    "3000 x 20": (made(3000, 20), None, None),
    "30000 x 5": (made(30_000, 5), None, None),
    "30000 x 20": (made(30_000, 20), None, None),
    "30000 x 100": (made(30_000, 100), None, None),
    "1000000 x 20": (made(1_000_000, 20), None, None),
    "collinear 30000 x 20": (made(30_000, 20, "collinear"), None, None),
    "heavy 30000 x 20": (made(30_000, 20, "heavy"), None, None),
    "far 30000 x 20": (made(30_000, 20, "far"), None, None),
    "mixed 30000 x 20": (made(30_000, 20, "mixed"), None, None),
}


# -- other methods -----------------------------------------------------------------


def public_units(X, y, train_X, train_y):
    """Return training and test rows in units of the test rows, and their lengths."""
    center, scale = X.mean(0), X.std(0)
    scale[scale == 0.0] = 1.0
    rows = [np.c_[(x - center) / scale, np.ones(len(x))] for x in (train_X, X)]
    place, unit = y.mean(), y.std()
    radius = float(np.quantile(np.linalg.norm(rows[1], axis=1), 0.95))
    bound = float(np.quantile(np.abs((y - place) / unit), 0.99))
    return rows, (train_y - place) / unit, (place, unit), radius, bound


def clipped(rows, radius):
    return rows * np.minimum(1.0, radius / np.linalg.norm(rows, axis=1))[:, None]


def symmetric_noise(rng, order, std):
    noise = rng.standard_normal((order, order)) * std
    return np.triu(noise) + np.triu(noise, 1).T


def adassp(rng, A, y, mu, radius, bound):
    """Wang (2018), Algorithm 2, with exact Gaussian noise under replace-one."""
    A, y = clipped(A, radius), np.clip(y, -bound, bound)
    d, step = A.shape[1], math.sqrt(3.0) / mu
    moment = A.T @ A
    least = np.linalg.eigvalsh(moment)[0]
    least += rng.standard_normal() * step * radius**2 - step * radius**2 * 1.64
    noise = math.sqrt(d * math.log(2 * d**2 / 0.05)) * radius**2 * step
    penalty = max(0.0, noise - max(least, 0.0))
    moment = moment + symmetric_noise(rng, d, step * radius**2)
    cross = A.T @ y + rng.standard_normal(d) * step * 2.0 * radius * bound
    return np.linalg.solve(moment + penalty * np.eye(d), cross)


def boosted_adassp(rng, A, y, mu, radius, bound, rounds=20):
    """Tang et al. (2023): AdaSSP on clipped residuals, with one noisy moment."""
    A = clipped(A, radius)
    d, step = A.shape[1], math.sqrt(3.0) / mu
    moment = A.T @ A
    least = np.linalg.eigvalsh(moment)[0]
    least += (rng.standard_normal() - 1.64) * step * radius**2
    noise = math.sqrt(d * math.log(2 * d**2 / 0.05)) * radius**2 * step
    penalty = max(0.0, noise - max(least, 0.0))
    moment = moment + symmetric_noise(rng, d, step * radius**2) + penalty * np.eye(d)
    found, cut = np.zeros(d), 0.5 * bound
    for _ in range(rounds):
        cross = A.T @ np.clip(y - A @ found, -cut, cut)
        cross += rng.standard_normal(d) * step * math.sqrt(rounds) * 2.0 * radius * cut
        found = found + np.linalg.solve(moment, cross)
    return found


def rival(method):
    def fit_and_score(train, test, epsilon, rng):
        rows, target, (place, unit), radius, bound = public_units(*test, *train)
        mu = gaussian_mu(epsilon, DELTA)
        coef = method(rng, rows[0], target, mu, radius, bound)
        return r2_score(test[1], place + unit * (rows[1] @ coef))

    return fit_and_score


def of(model):
    return lambda train, test, epsilon, rng: model(epsilon).fit(*train).score(*test)


def adam(epsilon):
    """Return DPAdamRegressor with its defaults behind a private scaler of features."""
    parts = fifth_for_a_scaler(epsilon)
    scaler = DPStandardScaler(epsilon=parts[0])
    model = DPAdamRegressor(epsilon=parts[1], target_bounds=(-3, 3))
    return make_pipeline(scaler, model)


def scaled_adam(train, test, epsilon, rng):
    """Targets are in units of the test rows, which it is given for nothing."""
    place, unit = test[1].mean(), test[1].std()
    train, test = ((X, (y - place) / unit) for X, y in (train, test))
    return adam(epsilon).fit(*train).score(*test)


def ours(train, test, epsilon, rng, **parameters):
    """R2 of alpha="auto", and of the best of 30 penalties, from one release."""
    model = DPRidge(epsilon=epsilon, **parameters).fit(*train)
    coefs, intercepts = model.path(np.logspace(-2, 8, 30))
    X, y = np.clip(test[0], *model.limits_), test[1]
    best = max(
        r2_score(y, X @ coef + intercept)
        for coef, intercept in zip(coefs, intercepts, strict=True)
    )
    constant = r2_score(y, np.full(len(y), model.target_mean_[0]))
    return [model.score(X, y), max(best, constant)]


METHODS = {
    "ours": ours,
    "AdaSSP": rival(adassp),
    "boosted": rival(boosted_adassp),
    "DP-Adam": scaled_adam,
    "ridge": of(lambda _: make_pipeline(StandardScaler(), Ridge())),
}


def split(X, y, seed):
    """Return training rows and test rows."""
    order = np.random.default_rng(seed).permutation(len(X))
    cut = 2 * len(X) // 3
    rows = X.iloc if hasattr(X, "iloc") else X
    return tuple((rows[part], y[part]) for part in (order[:cut], order[cut:]))


def measure(cells, name, repeats, budgets, methods):
    make, bounds, target_bounds = TABLES[name]
    X, y = make()
    methods = {label: METHODS[label] for label in methods if label in METHODS}
    if bounds is not None:
        given = {"bounds": bounds, "target_bounds": target_bounds}
        methods["bounds"] = partial(ours, **given)
    for seed in range(repeats):
        train, test = split(X, y, seed)
        for label, method in methods.items():
            for epsilon in budgets if label != "ridge" else (0.0,):
                key = (name, label, epsilon, seed)
                if key not in cells:
                    rng = np.random.default_rng((seed, int(100 * epsilon)))
                    cells.timed(key, method, train, test, epsilon, rng)


def show(cells, names, budgets):
    labels = [*METHODS, "bounds"]
    print_row("table", "epsilon", *labels)
    for name in names:
        for epsilon in budgets:
            row = []
            for label in labels:
                found = cells.values(name, label, 0.0 if label == "ridge" else epsilon)
                means = np.mean(found, axis=0) if found else ()
                row.append(" ".join(f"{mean:.3f}" for mean in np.ravel(means)))
                row[-1] += f" /{len(found)}"
            print_row(name, epsilon, *row)


def show_rst(cells, names, budgets=(0.5, 1.0, 4.0)):
    """Print the table of the user guide: means over repeats of each."""
    labels = ("ours", "bounds", "AdaSSP", "boosted", "DP-Adam")
    head = ["Table", "Without privacy", "DPRidge", "DPRidge, bounds", "AdaSSP"]
    lines = [[*head, "boosted AdaSSP", "DPAdamRegressor"]]
    for name in names:
        free = cells.values(name, "ridge", 0.0)
        line = [name, f"{np.mean(free):.2f}" if free else "-"]
        for label in labels:
            found = [cells.values(name, label, epsilon) for epsilon in budgets]
            means = [np.mean([np.ravel(v)[0] for v in f]) if f else None for f in found]
            text = ["-" if m is None else f"{m:.2f}" for m in means]
            few = min(map(len, found))
            note = "" if few >= 20 or few == 0 else f" ({few})"
            line.append(" / ".join(text) + note if few else "-")
        lines.append(line)
    for line in lines:
        for place, text in enumerate(line):
            print(f"   {'*' if place == 0 else ' '} - {text}")


# -- classes and pipelines -------------------------------------------------------------


def fifth_for_a_scaler(epsilon):
    """Return the budgets of a scaler and of what follows it."""
    parts = split_mu(gaussian_mu(epsilon, DELTA), (0.2, 0.8))
    return [gaussian_epsilon(mu, DELTA) for mu in parts]


def classify(model, train, test):
    """Return accuracy and CPU seconds of a fit."""
    start = time.process_time()
    model.fit(*train)
    return [model.score(*test), time.process_time() - start]


def show_classes(cells, repeats, budgets):
    """Print accuracies and CPU seconds of classifiers; digits have public bounds."""
    adult, digits = load_raw_adult(), load_digits()
    tables = {
        "adult": (adult.data, adult.target.astype(int), None),
        "digits": (digits.data, digits.target, (0, 16)),
    }
    print_row("table", "epsilon", "DPRidgeClassifier", "DPAdamClassifier", "without")
    for name, (X, y, bounds) in tables.items():
        classes = np.unique(y)
        for epsilon in budgets:
            for seed in range(repeats):
                train, test = split(X, y, seed)
                first = DPStandardScaler(epsilon=fifth_for_a_scaler(epsilon)[0])
                rest = fifth_for_a_scaler(epsilon)[1]
                if bounds is not None:
                    first, rest = FunctionTransformer(lambda Z: Z / 8.0 - 1.0), epsilon
                adam = DPAdamClassifier(classes=classes, epsilon=rest)
                ours = DPRidgeClassifier(
                    classes=classes, epsilon=epsilon, bounds=bounds
                )
                free = make_pipeline(StandardScaler(), RidgeClassifier())
                models = {
                    "ours": ours,
                    "DP-Adam": make_pipeline(first, adam),
                    "without": free,
                }
                for label, model in models.items():
                    key = ("classes", name, label, epsilon, seed)
                    if key not in cells:
                        cells.timed(key, classify, model, train, test)
            row = [
                cells.values("classes", name, label, epsilon)
                for label in ("ours", "DP-Adam", "without")
            ]
            means = [np.mean(found, axis=0) for found in row]
            texts = [f"{score:.3f} ({cpu:.2f} s)" for score, cpu in means]
            print_row(name, epsilon, *texts)


def fit_and_score(model, train, test):
    return model.fit(*train).score(*test)


def show_pipelines(cells, repeats, budgets):
    """Print R2 of hours per week in raw Adult, of pipelines with one budget."""
    found = load_adult(as_frame=True)
    frame = found.data.drop(columns="hours-per-week")
    y = found.data["hours-per-week"].to_numpy(dtype=float)
    kinds = {name: list(values) for name, values in found.categories.items()}
    vectorizer = DPTableVectorizer(categories=kinds)
    steps = {
        "DPRidge": (adult()[0], []),
        "DPStandardScaler, DPRidge": (adult()[0], [DPStandardScaler()]),
        "DPTableVectorizer, DPRidge": (frame, [vectorizer]),
    }
    print_row("steps", *budgets)
    for label, (X, first) in steps.items():
        row = []
        for epsilon in budgets:
            for seed in range(repeats):
                key = ("pipelines", label, epsilon, seed)
                if key in cells:
                    continue
                model = make_private_pipeline(*first, DPRidge(), epsilon=epsilon)
                cells.timed(key, fit_and_score, model, *split(X, y, seed))
            scores = cells.values("pipelines", label, epsilon)
            row.append(with_error(scores, 3))
        print_row(label, *row)


# -- intervals and times ---------------------------------------------------------------

# Rows, features, epsilon, correlation of features, and degrees of freedom of errors.
SETTINGS = {
    "4000 x 4, eps 2": (4000, 4, 2.0, 0.0, None),
    "30000 x 10, eps 1": (30_000, 10, 1.0, 0.0, None),
    "100000 x 5, eps 1": (100_000, 5, 1.0, 0.0, None),
    "30000 x 10, eps 4, correlated": (30_000, 10, 4.0, 0.5, None),
    "20000 x 5, eps 1, heavy errors": (20_000, 5, 1.0, 0.0, 5),
}


def intervals(seed, n_samples, n_features, epsilon, correlation, degrees):
    """Return the share of coefficients that are held, and mean standard errors.

    Those of DPRidge, and of a bootstrap of 30 fits without privacy.
    """
    rng = np.random.default_rng(seed)
    law = np.full((n_features, n_features), correlation)
    law[np.diag_indices(n_features)] = 1.0
    X = rng.standard_normal((n_samples, n_features)) @ np.linalg.cholesky(law).T
    coef = np.linspace(-1.0, 1.0, n_features)
    errors = rng.standard_normal(n_samples)
    if degrees is not None:
        errors = rng.standard_t(degrees, n_samples) / math.sqrt(degrees / (degrees - 2))
    y = X @ coef + 3.0 + errors
    model = DPRidge(epsilon=epsilon, intervals=True).fit(X, y)
    if np.isnan(model.coef_std_).all():
        return None
    low, high = model.conf_int(0.95).T
    seen = ~model.unseen_features_
    held = ((low <= coef) & (coef <= high))[seen]
    found = [float(held.mean()), float(model.coef_std_[seen].mean())]
    if seed < 5:
        drawn = rng.integers(n_samples, size=(30, n_samples))
        fits = [Ridge(0.0).fit(X[rows], y[rows]).coef_ for rows in drawn]
        found.append(float(np.std(fits, axis=0, ddof=1).mean()))
    return found


def show_coverage(cells, repeats):
    """Print how often 95 % intervals hold, and standard errors beside a bootstrap."""
    print_row("setting", "held", "fits", "error", "bootstrap")
    for name, setting in SETTINGS.items():
        for seed in range(repeats):
            if ("coverage", name, seed) not in cells:
                cells.timed(("coverage", name, seed), intervals, seed, *setting)
        found = cells.values("coverage", name)
        both = [np.mean([v[i] for v in found if len(v) > i]) for i in range(3)]
        print_row(name, f"{both[0]:.3f}", len(found), *(f"{e:.4f}" for e in both[1:]))


def show_times():
    """Print CPU seconds of a fit beside scikit-learn's Ridge; medians of three."""
    print_row("table", "DPRidge", "Ridge")
    for shape in ((100_000, 20), (1_000_000, 20), (1_000_000, 100)):
        rng = np.random.default_rng(0)
        X = rng.standard_normal(shape)
        y = X @ rng.standard_normal(shape[1]) + rng.standard_normal(shape[0])
        fits = [partial(cls().fit, X, y) for cls in (DPRidge, Ridge)]
        times = [median_cpu(fit, 3)[0] for fit in fits]
        print_row(f"{shape[0]} x {shape[1]}", *(f"{t:.2f}" for t in times))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=list(TABLES))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--budgets", nargs="*", type=float, default=BUDGETS)
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("--pipelines", action="store_true")
    parser.add_argument("--rst", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = Cells(given.cells)
    if given.coverage:
        show_coverage(cells, given.repeats)
        return
    if given.speed:
        show_times()
        return
    if given.classes:
        show_classes(cells, given.repeats, given.budgets)
        return
    if given.pipelines:
        show_pipelines(cells, given.repeats, given.budgets)
        return
    if given.rst:
        show_rst(cells, given.only)
        return
    for name in given.only:
        measure(cells, name, given.repeats, given.budgets, given.methods)
    show(cells, given.only, given.budgets)


if __name__ == "__main__":
    main()
