"""Components of ranks on small tables in raw units, and on simulated ones.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/ranks_accuracy.py
        [--cells ranks.jsonl] [--repeats 25] [--only wine] [--components 2]
        [--page]

The share of the variance of standardized features that the leading k components keep,
of what k components can keep. It is that of Pearson's correlations: of the table, or of
the law that simulated rows are drawn from (Student's rows, with 2 degrees of freedom,
are measured by those of the normal rows that they are made of). A fit of five
components has those of fewer too. Tables are sorted by name; each line has a number
per budget, the median over repeats, and then the share of the variance that
``explained_variance_ratio_`` adds up to, over the true one. delta = 1e-6. ``--cells``
names a file that every fit adds a line to: a run that was ended goes on where it was.
With ``--page`` nothing is measured: the table of the user guide is written from the
cells.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from cells import Cells
from real_tables import load_coil2000, load_raw_adult
from scipy.special import ndtri
from sklearn import datasets
from tables import ignore_leak_warnings, ignore_noise_warnings, print_row

from skdpspectral import DPPCA

BUDGETS = (0.5, 1.0, 2.0, 4.0)
MOST, WANTED = 5, (1, 2, 3, 5)

# Shares of ones of the features of two values.
RARE = (0.5, 0.2, 0.05, 0.01)


def of_file(loader, n_rows=None, n_features=None, **parameters):
    """Return a loader of leading rows and features of a data set."""
    return lambda: np.asarray(loader(**parameters).data, float)[:n_rows, :n_features]


TABLES = {
    "wine": of_file(datasets.load_wine),
    "cancer": of_file(datasets.load_breast_cancer),
    "diabetes": of_file(datasets.load_diabetes),
    "iris": of_file(datasets.load_iris),
    "digits": of_file(datasets.load_digits),
    "coil2000, 2000 rows": of_file(load_coil2000, 2000),
    "coil2000": of_file(load_coil2000),
    "adult, numeric": of_file(load_raw_adult, None, 6),
    "adult, 3000 rows": of_file(load_raw_adult, 3000),
    "adult": of_file(load_raw_adult),
}


def draw(law, n_rows, n_features, seed):
    """Return rows of a law with three directions."""
    rng = np.random.default_rng(n_features)
    count = 3 if n_features > 5 else 2
    loadings = rng.standard_normal((n_features, count)) * np.linspace(1.3, 0.7, count)
    covariance = loadings @ loadings.T + np.eye(n_features)
    rng = np.random.default_rng((seed, n_rows, n_features))
    rows = rng.standard_normal((n_rows, n_features)) @ np.linalg.cholesky(covariance).T
    rows /= np.sqrt(np.diag(covariance))
    if law == "student":
        rows /= np.sqrt(rng.chisquare(2, (n_rows, 1)) / 2)
    elif law == "lognormal":
        rows = np.exp(rows)
    elif law == "rare":
        half = n_features // 2
        rows[:, :half] = rows[:, :half] > -ndtri(np.resize(RARE, half))
    return rows


LAWS = {"normal": (150, 1000, 10_000, 100_000)}
LAWS |= {"student": (300, 3000), "lognormal": (300, 3000), "rare": (2000, 20_000)}
SIMULATED = {
    f"{law}, {n_rows} x {n_features}": (law, n_rows, n_features)
    for law, sizes in LAWS.items()
    for n_features in (5, 20, 50)
    for n_rows in sizes
}


def correlations(X):
    """Return Pearson's correlations; zeros for constant features."""
    deviations = X.std(axis=0)
    constant = deviations < 1e-12
    Z = (X - X.mean(axis=0)) / np.where(constant, 1.0, deviations)
    Z[:, constant] = 0.0
    return Z.T @ Z / len(X)


def load(name):
    """Return the rows of a table and the correlations that they are measured by."""
    if name in TABLES:
        X = TABLES[name]()
        return X, correlations(X)
    law, n_rows, n_features = SIMULATED[name]
    measured = "normal" if law == "student" else law
    return draw(law, n_rows, n_features, 0), correlations(
        draw(measured, 400_000, n_features, 1)
    )


def shares(X, correlation, epsilon):
    """Return shares of variance that are kept, and the stated over the true ones."""
    best = np.cumsum(np.linalg.eigvalsh(correlation)[::-1])
    count = min(MOST, X.shape[1])
    pca = DPPCA(count, epsilon=epsilon, scale="ranks").fit(X)
    kept = np.cumsum(np.sum(pca.components_ @ correlation * pca.components_, axis=1))
    stated = np.cumsum(pca.explained_variance_ratio_) * np.trace(correlation)
    return [(kept / best[:count]).tolist(), (stated / best[:count]).tolist()]


# Tables of the user guide, with their sizes.
SHOWN = {
    "wine": "Wine, 178 x 13",
    "cancer": "Breast cancer, 569 x 30",
    "diabetes": "Diabetes, 442 x 10",
    "iris": "Iris, 150 x 4",
    "coil2000, 2000 rows": "COIL 2000, first 2,000 rows x 85",
    "coil2000": "COIL 2000, 9,822 x 85",
    "adult, 3000 rows": "Adult, first 3,000 rows x 105",
}
PAGE = Path(__file__).parents[2] / "doc" / "user_guide" / "pca_ranks_table.rst"


def write_page(cells):
    """Write the table of the user guide."""
    text = [
        ".. Made by examples/benchmarks/ranks_accuracy.py --page: not to be edited.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "   :widths: 50 50",
        "",
        "   * - Table",
        '     - ``scale="ranks"``',
    ]
    for name, title in SHOWN.items():
        text.append(f"   * - {title}")
        found = [cells.values("ranks", name, epsilon) for epsilon in BUDGETS[1:]]
        medians = [np.median([each[0][1] for each in fits]) for fits in found]
        text.append(f"     - {' / '.join(f'{value:.3f}' for value in medians)}")
    repeats = {len(cells.values("ranks", name, 1.0)) for name in SHOWN}
    text += ["", f"Medians of {min(repeats)} fits.", ""]
    PAGE.write_text("\n".join(text))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only")
    parser.add_argument("--components", type=int, choices=WANTED)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    cells = Cells(given.cells)
    if given.page:
        write_page(cells)
        return
    ignore_leak_warnings()
    ignore_noise_warnings()
    warnings.filterwarnings("ignore", ".*too few to estimate")
    names = [n for n in (*TABLES, *SIMULATED) if n.startswith(given.only or "")]
    for name in names:
        keys = [
            ("ranks", name, epsilon, seed)
            for epsilon in BUDGETS
            for seed in range(given.repeats)
        ]
        keys = [key for key in keys if key not in cells]
        rows = load(name) if keys else ()
        for key in keys:
            cells.timed(key, shares, *rows, key[2])
    print_row(f"{given.repeats} fits", "k", *BUDGETS, "stated", widths=10)
    for name in sorted(names):
        for k in (given.components,) if given.components else WANTED:
            found = [cells.values("ranks", name, epsilon) for epsilon in BUDGETS]
            if len(found[0][0][0]) < k:
                continue
            medians = np.median([[f[0][k - 1] for f in each] for each in found], axis=1)
            stated = np.median([[f[1][k - 1] for f in each] for each in found], axis=1)
            texts = [f"{value:.3f}" for value in medians]
            ratio = " ".join(f"{value:.2f}" for value in stated)
            print_row(f"{name:28}", k, *texts, ratio, widths=10)


if __name__ == "__main__":
    main()
