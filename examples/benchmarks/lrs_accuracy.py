"""Accuracy of LRSRegressor on simulated users, beside simpler models.

    python examples/benchmarks/lrs_accuracy.py [--repeats 10] [--only NAME ...]

Every repeat draws new data and, where there is a budget, new noise. Errors are root
mean squares over users of the distance between fitted and true coefficients, unless
said. The column "reference" has what an independent implementation gave (one seed).

Settings are those of Pal et al. (2023), B.1 and A.1.4. Supports are random in A.1.4,
where the printed row sparsity of 2 is impossible, and weights are 1; methods with
fixed weights know that.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from tables import ignore_leak_warnings, print_row

from skdpspectral import LRSRegressor
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.linear_model import Alternation, PrivateRounds

# No penalties, as fits that shall be exact need it.
PLAIN = {
    "fit_intercept": False,
    "ridge_shared": 0.0,
    "ridge_sparse": 0.0,
}


def exact(tol=1e-6):
    """Return parameters of fits without privacy."""
    solver = Alternation(max_iter=200, tol=tol)
    return {**PLAIN, "epsilon": None, "solver": solver}


SUCCESS = 1e-3


def coefficients(model, n_users):
    """Return the coefficients of users 0, 1, ..."""
    return np.stack([model.get_coef(user) for user in range(n_users)])


def rmse(coef, truth):
    """Return the root mean square over users of the distance to the truth."""
    return np.sqrt(np.square(coef - truth.coef).sum(axis=1).mean())


def print_result(name, values, reference):
    """Print mean, standard error, the reference and the ratio to it."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values))
    ratio = f"{values.mean() / reference:.3f}" if reference else ""
    text = f"{values.mean():.4g} +- {error:.2g}"
    print_row(name, text, len(values), reference or "", ratio, widths=30)


def print_head(title):
    """Print the name of a table and of its columns."""
    print(f"\n{title}")
    columns = ("", "mean +- standard error", "repeats", "reference", "ratio")
    print_row(*columns, widths=30)


# -- B.1: exact recovery ---------------------------------------------------------------

B1_REFERENCE = {
    1: {
        "null": 3.26,
        "single": 3.27,
        "full fine-tuning": 1.85,
        "representation": 3.15,
        "prompt": 3.29,
        "sparse only": 1.12,
        "low rank and sparse": 4e-12,
        "iterations to 1e-6": 16,
    },
    3: {
        "null": 3.57,
        "single": 3.58,
        "full fine-tuning": 2.08,
        "representation": 3.23,
        "prompt": 3.60,
        "sparse only": 1.96,
        "low rank and sparse": 5e-12,
        "iterations to 1e-6": 21,
    },
}


def baselines(X, y, t, m, d):
    """Return the coefficients of models that are plain least squares.

    Full fine-tuning is the shortest solution a user, a ridge of vanishing penalty.
    """
    rows, targets = X.reshape(t, m, d), y.reshape(t, m, 1)
    single = LinearRegression(fit_intercept=False).fit(X, y).coef_
    centered = (rows - rows.mean(axis=1, keepdims=True)).reshape(-1, d)
    own = (targets - targets.mean(axis=1, keepdims=True)).ravel()
    prompt = LinearRegression(fit_intercept=False).fit(centered, own).coef_
    inverse = np.linalg.pinv(rows)
    return {
        "null": np.zeros((t, d)),
        "single": single,
        "full fine-tuning": (inverse @ targets)[:, :, 0],
        "full, from the single": single
        + (inverse @ (targets - rows @ single[:, None]))[:, :, 0],
        "prompt": prompt,
    }


def recovery_errors(rank, seed):
    """Return the errors of all methods in the setting of B.1."""
    t, m, d, k = 75, 100, 150, 10
    X, y, users, truth = make_low_rank_sparse_tasks(
        t, m, d, rank=rank, sparsity=k, row_sparsity=5, return_coef=True,
        random_state=seed,
    )  # fmt: skip
    errors = {n: rmse(coef, truth) for n, coef in baselines(X, y, t, m, d).items()}
    for name, parameters in (
        ("representation", {"n_components": rank, "sparsity": 0}),
        ("sparse only", {"n_components": 0, "sparsity": k}),
        ("central and sparse", {"shared_weights": "fixed", "sparsity": k}),
        (
            "low rank and sparse",
            {"n_components": rank, "sparsity": k, **exact(tol=1e-12)},
        ),
    ):
        model = LRSRegressor(**{**exact(), **parameters}).fit(X, y, users=users)
        errors[name] = rmse(coefficients(model, t), truth)
    model = LRSRegressor(rank, k, **exact()).fit(X, y, users=users)
    errors["iterations to 1e-6"] = model.n_iter_
    return errors


def table_b1(repeats):
    """Print the table of B.1."""
    for rank, reference in B1_REFERENCE.items():
        print_head(f"B.1, r={rank}: t=75, m=100, d=150, k=10, row sparsity 5")
        print_dicts([recovery_errors(rank, s) for s in range(repeats)], reference)


def print_dicts(rows, reference):
    """Print one line for each key of dictionaries of values."""
    for name in rows[0]:
        print_result(name, [row[name] for row in rows], reference.get(name))


# -- how often recovery is exact -------------------------------------------------------

# t, m, rank, row sparsity, successes of ten that are aimed at
SUCCESS_SETTINGS = [
    (75, 70, 1, 5, 10),
    (75, 70, 3, 5, 10),
    (150, 55, 1, 10, 9),
    (150, 55, 1, None, 9),
]


def table_success(repeats):
    """Print how many draws are recovered exactly, from either start."""
    print(f"\nExact recovery (error below {SUCCESS:g}; d=150, k=10, {repeats} seeds)")
    print_row("t, m, r, row sparsity", "spectral", "random", "aim of 10")
    for t, m, rank, row_sparsity, aim in SUCCESS_SETTINGS:
        counts = {"spectral": 0, "random": 0}
        for seed in range(repeats):
            X, y, users, truth = make_low_rank_sparse_tasks(
                t, m, 150, rank=rank, sparsity=10, row_sparsity=row_sparsity,
                return_coef=True, random_state=seed,
            )  # fmt: skip
            drawn = np.random.default_rng(seed).standard_normal((rank, 150))
            for name, init in (("spectral", "spectral"), ("random", drawn)):
                model = LRSRegressor(rank, 10, noise_seed=seed, **exact())
                model.set_params(solver__init=init)
                coef = coefficients(model.fit(X, y, users=users), t)
                counts[name] += rmse(coef, truth) < SUCCESS
        print_row(f"{t}, {m}, {rank}, {row_sparsity}", *counts.values(), aim)


# -- A.1.4: a budget -------------------------------------------------------------------

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
NORMS = {"curvature_clip_norm": 3.3, "gradient_clip_norm": 1.05}
TEN = {"solver": PrivateRounds(10)}
PUBLIC = {"solver": PrivateRounds(10, **NORMS)}
REPLACE = {**PUBLIC, "neighbors": "replace-one"}
FIXED = {"shared_weights": "fixed"}
PUBLIC_REFERENCE = (0.047, 0.025, 0.013, 0.007, 0.004)
PRIVATE_REFERENCE = (0.058, 0.030, 0.016, 0.009, 0.005)
REPLACE_REFERENCE = (0.097, 0.050, 0.026, 0.014, 0.008)
# name, parameters, reference
BUDGET_METHODS = [
    ("public clips, L=10", PUBLIC, PUBLIC_REFERENCE),
    ("private clips, L=10", TEN, PRIVATE_REFERENCE),
    ("replace-one, L=10", REPLACE, REPLACE_REFERENCE),
    ("fixed, public, L=10", {**FIXED, **PUBLIC}, PUBLIC_REFERENCE),
    ("fixed, private, L=10", {**FIXED, **TEN}, PRIVATE_REFERENCE),
    ("fixed, replace-one, L=10", {**FIXED, **REPLACE}, REPLACE_REFERENCE),
    ("public clips, L=6", {"solver": PrivateRounds(6, **NORMS)}, (None,) * 5),
    ("public clips, L=3", {"solver": PrivateRounds(3, **NORMS)}, (None,) * 5),
    ("single model", {**FIXED, "sparsity": 0, "solver": PrivateRounds(1)},
     (1.41,) * 5),
]  # fmt: skip


def draw_a14(seed, noise=0.0):
    """Draw the users of A.1.4."""
    return make_low_rank_sparse_tasks(
        5000, 100, 10, rank=1, sparsity=2, weights="one", noise=noise,
        return_coef=True, random_state=seed,
    )  # fmt: skip


def fit_a14(data, **parameters):
    """Return the error of LRSRegressor on them."""
    X, y, users, truth = data
    model = LRSRegressor(**{"sparsity": 2, "delta": 1e-5, **PLAIN, **parameters})
    return rmse(coefficients(model.fit(X, y, users=users), 5000), truth)


def local_rmse(data):
    """Return the error of least squares for each user alone."""
    X, y, _, truth = data
    rows, targets = X.reshape(5000, 100, 10), y.reshape(5000, 100, 1)
    columns = rows.transpose(0, 2, 1)
    return rmse(np.linalg.solve(columns @ rows, columns @ targets)[:, :, 0], truth)


def table_figure_3(repeats):
    """Print the methods of A.1.4 that figure 3 has."""
    table_budget(repeats, ("public clips, L=10", "single model"))


def table_budget(repeats, names=None):
    """Print the table of A.1.4, or of some methods."""
    print_head("A.1.4: t=5000, m=100, d=10, k=2, w=1, delta=1e-5, no noise")
    errors = {}
    for seed in range(repeats):
        data = draw_a14(seed)
        X, y, _, truth = data
        single = LinearRegression(fit_intercept=False).fit(X, y).coef_
        for name, value in (
            ("exact", fit_a14(data, **exact())),
            ("exact, fixed", fit_a14(data, **{**exact(), **FIXED})),
            ("exact, single model", rmse(single, truth)),
            ("each user alone", local_rmse(data)),
        ):
            errors.setdefault(name, []).append(value)
        for name, parameters, _ in BUDGET_METHODS:
            for epsilon in EPSILONS if names is None or name in names else ():
                error = fit_a14(data, epsilon=epsilon, **parameters)
                errors.setdefault((name, epsilon), []).append(error)
    references = {"exact, single model": 1.405, "each user alone": 2e-15}
    for name, _, values in BUDGET_METHODS:
        references |= {(name, e): v for e, v in zip(EPSILONS, values, strict=True)}
    for key, values in errors.items():
        label = key if isinstance(key, str) else f"{key[0]}, eps={key[1]:g}"
        print_result(label, values, references.get(key))


def table_noise(repeats):
    """Print errors where targets have noise, and the ratio of private to exact."""
    print_head("A.1.4 with noise of standard deviation 0.5, eps=2, L=6")
    errors = {}
    for seed in range(repeats):
        data = draw_a14(seed, noise=0.5)
        for name, fixed in (("fixed weights", FIXED), ("free weights", {})):
            plain = fit_a14(data, **{**exact(), **fixed})
            errors.setdefault(f"{name}, exact", []).append(plain)
            for clips, norms in (("public", NORMS), ("private", {})):
                solver = PrivateRounds(6, **norms)
                private = fit_a14(data, epsilon=2.0, solver=solver, **fixed)
                label = f"{name}, {clips} clips"
                errors.setdefault(label, []).append(private)
                errors.setdefault(f"{label}: to exact", []).append(private / plain)
        errors.setdefault("each user alone", []).append(local_rmse(data))
    references = {
        "fixed weights, exact": 0.0847,
        "fixed weights, public clips": 0.0853,
        "fixed weights, public clips: to exact": 0.0853 / 0.0847,
    }
    print_dicts(
        [{n: v[i] for n, v in errors.items()} for i in range(repeats)], references
    )


# -- few rows a user -------------------------------------------------------------------


def table_starved(repeats):
    """Print the error of the private directions of users with fewer rows than features.

    Its unit is the root mean square sine of the principal angles to the truth;
    ``subspace_distance`` is the square root of 2 r times as much.
    """
    t, m, d, k = 20_000, 20, 30, 2
    print_head(f"Few rows: t={t}, m={m}, d={d}, k={k}, eps=1, private clips, no noise")
    reference = {1: 0.03, 2: 0.07}
    for rank in (1, 2):
        for delta in (1e-5, 1e-6):
            for n_rounds in (3, 4, 6):
                sines = [
                    _starved(t, m, d, rank, k, delta, n_rounds, seed)
                    for seed in range(repeats)
                ]
                label = f"r={rank}, delta={delta:g}, L={n_rounds}"
                print_result(label, sines, reference[rank])


def _starved(t, m, d, rank, k, delta, n_rounds, seed):
    X, y, users, truth = make_low_rank_sparse_tasks(
        t, m, d, rank=rank, sparsity=k, return_coef=True, random_state=seed
    )
    model = LRSRegressor(
        rank,
        k,
        epsilon=1.0,
        delta=delta,
        solver=PrivateRounds(n_rounds=n_rounds),
        **PLAIN,
    ).fit(X, y, users=users)
    found, wanted = model.components_, truth.components
    return np.linalg.norm(found - (found @ wanted.T) @ wanted) / np.sqrt(rank)


TABLES = {
    "b1": table_b1,
    "success": table_success,
    "budget": table_budget,
    "figure_3": table_figure_3,
    "noise": table_noise,
    "starved": table_starved,
}


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    default = [name for name in TABLES if name != "figure_3"]
    parser.add_argument("--only", nargs="+", choices=TABLES, default=default)
    options = parser.parse_args()
    ignore_leak_warnings()
    # Models that cannot represent the data converge slowly; their error is shown.
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.only:
        start = time.perf_counter()
        TABLES[name](options.repeats)
        print(f"({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
