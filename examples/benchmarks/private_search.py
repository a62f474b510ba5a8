"""Searches under one guarantee, beside other ways to spend the same budget.

    python examples/benchmarks/private_search.py [--repeats 20] [--only digits]
                                                 [--epsilons 1 2 4] [--runs 20 100]
                                                 [--laws logarithmic geometric]

At each total epsilon (delta = 1e-6) the exact score on test rows, which no fit and no
search has seen, of the model that is found by

- ``search``: PrivateSearchCV with so many runs on average, of a law of their number;
  the winner's own fit on three quarters of the rows;
- ``grid``: all candidates of the grid once, on the same split, each paid for: fit and
  noisy score, and the best of the noisy scores;
- ``default``: one fit of the first candidate of the grid, on all rows, for the whole
  budget; and ``oracle``: the same of the candidate that is best at this budget, which
  nobody knows without looking.

The last column is the best candidate without privacy. Means over repeats, with standard
errors. Digits and Adult: variance that five components capture; MovieLens 100K: mean
squared error, negative. Data are read from the folder that SKDPSPECTRAL_DATA names.
"""

import argparse
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from tables import print_row, with_error

from skdpspectral import DPPCA, DPMatrixFactorization
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.datasets import fetch_movielens, load_adult, load_digits
from skdpspectral.decomposition import PrivateMean
from skdpspectral.metrics import captured_variance, make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV, PrivateSplit


class Components:
    """Five components of a table in a box."""

    cv = PrivateSplit(1, random_state=0)

    def __init__(self, data, clip_norms, score_norm):
        self.data, self.targets = data.data, None
        self.estimator = DPPCA(5, bounds=data.bounds)
        self.grid = {
            "center": ["auto", "none", "pairs", PrivateMean(0.5)],
            "clip_norm": [None, *clip_norms],
            "mechanism": ["gaussian", "two-stage", "auto"],
        }
        self.scoring = make_private_scorer("captured_variance", clip_norm=score_norm)

    def split(self, rng):
        """Return train and test rows."""
        order = rng.permutation(len(self.data))
        cut = len(order) * 3 // 4
        return order[:cut], order[cut:]

    def score(self, model, test):
        """Share of the variance of test rows that the components capture."""
        return captured_variance(model, self.data[test])

    def rows(self, positions):
        """Return rows and targets."""
        return self.data[positions], None


class Ratings:
    """Ratings of movies, private for users."""

    cv = PrivateSplit(1, user_feature="user_id", random_state=0)

    def __init__(self):
        data = fetch_movielens("ml-100k", as_frame=True)
        self.data = data.data[["user_id", "item_id"]]
        self.targets = np.asarray(data.target, dtype=float)
        self.estimator = DPMatrixFactorization(items=data.item_ids)
        self.grid = {
            "n_components": [3, 0, 1, 2, 5, 8],
            "item_features": [data.item_features, None],
        }
        self.scoring = make_private_scorer(
            "squared_error", limit=16.0, user_feature="user_id"
        )

    def split(self, rng):
        """Return train and test rows, a fifth of each user's on average."""
        is_test = rng.random(len(self.data)) < 0.2
        return np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def score(self, model, test):
        """Negative mean squared error of ratings."""
        errors = self.targets[test] - model.predict(self.data.iloc[test])
        return -float(np.mean(errors**2))

    def rows(self, positions):
        """Return rows and targets."""
        return self.data.iloc[positions], self.targets[positions]


TASKS = {
    "digits": lambda: Components(load_digits(), (16.0, 32.0), 40.0),
    "adult": lambda: Components(load_adult(), (0.5, 1.0, 2.0), 3.0),
    "ml-100k": Ratings,
}


def fitted(task, rows, epsilon, **parameters):
    """Return a fit of one candidate; None if it can't be made."""
    model = clone(task.estimator).set_params(epsilon=epsilon, **parameters)
    X, y = task.rows(rows)
    try:
        return model.fit(X) if y is None else model.fit(X, y)
    except ValueError:
        return None


def by_search(task, train, epsilon, runs, law):
    """Return the winner of a private search."""
    search = PrivateSearchCV(
        task.estimator,
        task.grid,
        epsilon=epsilon,
        expected_n_iter=runs,
        n_iter_law=law,
        scoring=task.scoring,
        cv=task.cv,
    )
    return search.fit(*task.rows(train)).best_estimator_


def by_grid(task, train, epsilon):
    """Return the best of all candidates by noisy scores, each of which is paid for."""
    candidates = list(ParameterGrid(task.grid))
    mu = gaussian_mu(epsilon, 1e-6) / np.sqrt(len(candidates))
    ((inner, held),) = task.cv.split(task.rows(train)[0])
    of_users = task.scoring.user_feature is not None
    # Rows pay for a fit or for a score, users for both.
    shares = (0.8, 0.2) if of_users else (1.0, 1.0)
    fit, score = (gaussian_epsilon(mu * np.sqrt(share), 1e-6) for share in shares)
    scorer = make_private_scorer(
        task.scoring.score,
        score,
        user_feature=task.scoring.user_feature,
        **{"limit": 16.0} if of_users else {"clip_norm": task.scoring._kind.clip_norm},
    )
    best = (-np.inf, None)
    for candidate in candidates:
        model = fitted(task, train[inner], fit, **candidate)
        if model is not None:
            rows, targets = task.rows(train[held])
            found = scorer(model, rows, targets)
            best = max(best, (found, model), key=lambda pair: pair[0])
    return best[1]


def main():
    """Print a table a task."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 2.0, 4.0])
    parser.add_argument("--runs", nargs="+", type=float, default=[20.0, 100.0])
    parser.add_argument("--laws", nargs="+", default=["logarithmic", "geometric"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    ways = [(law, runs) for law in arguments.laws for runs in arguments.runs]
    for name in arguments.only:
        task = TASKS[name]()
        names = [f"{law[:3]} {runs:g}" for law, runs in ways]
        titles = [*names, "grid", "default", "oracle", "no noise"]
        print_row(name, "epsilon", *titles, widths=18)
        for epsilon in arguments.epsilons:
            table(task, epsilon, ways, arguments.repeats)


def table(task, epsilon, ways, repeats):
    """Print the line of one budget."""
    candidates = list(ParameterGrid(task.grid))
    found = []
    # The oracle looks at test rows, on splits of its own.
    means = []
    for candidate in candidates:
        scores = []
        for seed in range(3):
            train, test = task.split(np.random.default_rng(1000 + seed))
            model = fitted(task, train, epsilon, **candidate)
            scores.append(-np.inf if model is None else task.score(model, test))
        means.append(np.mean(scores))
    oracle = candidates[int(np.argmax(means))]
    for seed in range(repeats):
        train, test = task.split(np.random.default_rng(seed))
        models = [by_search(task, train, epsilon, runs, law) for law, runs in ways]
        models.append(by_grid(task, train, epsilon))
        first = {name: values[0] for name, values in task.grid.items()}
        models.append(fitted(task, train, epsilon, **first))
        models.append(fitted(task, train, epsilon, **oracle))
        found.append([task.score(model, test) for model in models])
    exact = []
    for candidate in candidates:
        train, test = task.split(np.random.default_rng(0))
        model = fitted(task, train, None, **candidate)
        exact.append(-np.inf if model is None else task.score(model, test))
    columns = [with_error(column, 3) for column in np.array(found).T]
    print_row("", f"{epsilon:g}", *columns, f"{max(exact):.3f}", widths=18)


if __name__ == "__main__":
    main()
