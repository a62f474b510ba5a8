"""How often 95 % intervals of DPRidge hold for rows that are not normal.

    python examples/benchmarks/ridge_intervals.py [--rows 100000] [--epsilon 4]
        [--repeats 300] [--designs squares cubes]

Six features of rows each, and errors of unequal variance in some. Means of targets are
linear in the features but for the last four designs, where intervals are for least
squares with the weights of the fit, computed from four million other rows without
errors. Printed are the shares of coefficients that intervals hold, over all columns and
in the worst one, the share of intervals that noise hides, the first share for least
squares without privacy with robust errors (not where means are not linear: their target
is another), the median width over that of least squares, and the share of fits that
refuse ``target="population"``.
"""

import argparse
import warnings

import numpy as np
from scipy.signal import lfilter

from skdpspectral import DPRidge

COEF = np.array([1.0, -0.5, 0.5, 0.0, 0.3, -0.2])
NORMAL = 1.96  # of 95 %
BLOCK = 100_000


def clusters(Z, rng):
    """Two clusters, which differ in four means, in spread and in errors."""
    second = (rng.random(len(Z)) < 0.3)[:, None]
    moved = np.array([3.0, -2.0, 2.0, 4.0, 0.0, 0.0])
    spread = np.where(second & (moved != 0.0), 0.5, 1.0)
    X = Z * spread + second * moved
    errors = rng.standard_normal(len(Z)) * np.where(second[:, 0], 1.6, 0.7)
    return X, X @ COEF, errors


def waits(Z, rng):
    """Exponential columns, of which one is in another, and errors of Laplace."""
    X = Z.copy()
    X[:, [0, 1, 2, 4]] = rng.exponential(1.0, (len(Z), 4))
    X[:, 1] = 0.6 * X[:, 1] + 0.4 * X[:, 0]
    return X, X @ COEF, rng.laplace(0.0, 0.5**0.5, len(Z))


def products(Z, rng):
    """An indicator, a skewed column, their product, and another indicator."""
    X = Z.copy()
    X[:, 0] = rng.random(len(Z)) < 0.35
    X[:, 1] = rng.gamma(0.7, 1.0, len(Z))
    X[:, 2] = X[:, 0] * X[:, 1]
    X[:, 5] = rng.random(len(Z)) < 0.15 + 0.5 * X[:, 0]
    return X, X @ COEF, rng.standard_normal(len(Z))


def shares(Z, rng):
    """Shares, a column with two humps, and columns that follow the row before."""
    X = Z.copy()
    signs = np.where(rng.random(len(Z)) < 0.5, 1.0, -1.0)
    X[:, 0] = signs * rng.uniform(1.0, 2.0, len(Z))
    X[:, 1] = 3.0 * rng.beta(0.4, 0.6, len(Z))
    X[:, 2] = 6.0 * rng.beta(1.5, 9.0, len(Z))
    X[:, 3:] = lfilter([(1.0 - 0.95**2) ** 0.5], [1.0, -0.95], X[:, 3:], axis=0)
    X[:, 4] = 0.8 * X[:, 3] + 0.6 * X[:, 4]
    errors = rng.standard_normal(len(Z)) * (0.6 + 0.5 * X[:, 2])
    return X, X @ COEF, errors


def bent(shape, column=lambda x: x):
    """Return a design whose first column has an effect of that shape."""

    def design(Z, rng):
        X = Z.copy()
        X[:, 1] = 0.5 * Z[:, 0] + 0.75**0.5 * Z[:, 1]
        mean = shape(X[:, 0]) + X[:, 1:] @ COEF[1:]
        X[:, 0] = column(X[:, 0])
        return X, mean, rng.standard_normal(len(Z))

    return design


LINEAR = {f.__name__: f for f in (clusters, waits, products, shares)}
BENT = {
    "squares": bent(lambda x: 0.5 * x**2),
    "exponentials": bent(lambda x: np.exp(0.7 * x)),
    "logarithms": bent(lambda x: x, np.exp),
    "cubes": bent(lambda x: 0.3 * x**3),
}


def draw(design, n_samples, *seed):
    """Return rows, means and errors."""
    rng = np.random.default_rng(seed)
    return design(rng.standard_normal((n_samples, len(COEF))), rng)


def weighted_target(model, X, means):
    """Return coefficients of least squares with the weights of a fit."""
    order = len(COEF) + 1
    square, product = np.zeros((order, order)), np.zeros(order)
    for start in range(0, len(X), BLOCK):
        rows = np.clip(X[start : start + BLOCK], *model.limits_)
        rows = np.c_[(rows - model.mean_) / model.scale_, np.ones(len(rows))]
        weights = np.minimum(1.0, model.row_radius_**2 / np.vecdot(rows, rows))
        weighted = rows * weights[:, None]
        square += weighted.T @ rows
        product += weighted.T @ means[start : start + BLOCK]
    return np.linalg.solve(square, product)[:-1] / model.scale_


def least_squares(X, y):
    """Return coefficients, and errors that allow for unequal variances."""
    rows = np.c_[X, np.ones(len(X))]
    inverse = np.linalg.inv(rows.T @ rows)
    coef = inverse @ (rows.T @ y)
    scores = rows * (y - rows @ coef)[:, None]
    errors = np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))
    return coef[:-1], errors[:-1]


def show(name, n_samples, epsilon, repeats):
    """Print a line of one design."""
    design, large = {**LINEAR, **BENT}[name], None
    if name in BENT:
        large = draw(design, 4_000_000, 1, 0)[:2]
    held, clear, widths, refused = [], [], [], 0
    for seed in range(repeats):
        X, means, errors = draw(design, n_samples, 0, seed)
        model = DPRidge(epsilon=epsilon, intervals=True).fit(X, means + errors)
        low, high = model.conf_int(0.95).T
        coef, deviations = least_squares(X, means + errors)
        target = COEF if large is None else weighted_target(model, *large)
        inside = (low <= target) & (target <= high)
        held.append(np.where(np.isnan(low), np.nan, inside))
        clear.append(np.abs(coef - COEF) <= NORMAL * deviations)
        widths.append((high - low) / (2.0 * NORMAL * deviations))
        try:
            model.conf_int(0.95, target="population")
        except ValueError:
            refused += 1
    beside = "    -" if large else f"{np.mean(clear):.3f}"
    print(
        f"{name:12} held {np.nanmean(held):.3f}"
        f" worst column {np.nanmean(held, axis=0).min():.3f}"
        f" hidden {np.isnan(held).mean():.4f} least squares {beside}"
        f" width {np.nanmedian(widths):.2f} refused {refused / repeats:.2f}",
        flush=True,
    )


def main():
    """Print a line for each design."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--designs", nargs="*", default=[*LINEAR, *BENT])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.designs:
        show(name, given.rows, given.epsilon, given.repeats)


if __name__ == "__main__":
    main()
