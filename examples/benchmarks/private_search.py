"""Searches under one guarantee, beside other ways to spend the same budget.

    python examples/benchmarks/private_search.py [--repeats 20] [--only digits]
                                                 [--epsilons 1 2 4]
                                                 [--ways vote grid default oracle]
                                                 [--save FILE] [--no-measuring]

At each total epsilon (delta = 1e-6) the exact score on test rows, which no fit and no
search has seen, of the model that is found by

- ``vote``: PrivateSearchCV, whose incumbent is the first candidate of the grid;
- ``grid``: all candidates of the grid once, on the same split, each paid for: fit and
  noisy score, and the best of the noisy scores;
- ``default``: one fit of the first candidate of the grid, on all rows, for the whole
  budget; and ``oracle``: the same of the candidate that is best at this budget, which
  nobody knows without looking;
- ``none``: one fit of the candidate that is best without privacy, likewise.

Means over repeats, with standard errors and numbers of repeats. Digits and Adult:
variance that five components capture; MovieLens 100K and jester (LRSRegressor, features
of jokes from other, public users): mean squared error, negative, for users; pixel
(DPRidge): mean squared error, negative; labels: accuracy on digits of a pipeline of a
private scaler, or none, DPPCA and DPAdamClassifier; units: the same on pixels in units
of their own. Data are read
from the folder that SKDPSPECTRAL_DATA names. With ``--save`` each repeat is a line of a
file, and a run goes on where another one ended. doc/tables/search_votes.py makes the
user guide's table of votes.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from cells import Cells
from real_tables import fetch_movielens, load_adult, load_jester
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from tables import print_row, with_error

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPMatrixFactorization,
    DPRidge,
    DPStandardScaler,
    LRSRegressor,
)
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.datasets import load_digits
from skdpspectral.metrics import captured_variance, make_private_scorer
from skdpspectral.model_selection import (
    PrivateSearchCV,
    PrivateSplit,
)
from skdpspectral.model_selection._private_search import candidate_model
from skdpspectral.neural_network import Adam
from skdpspectral.pipeline import PrivatePipeline

DELTA = 1e-6
# Splits on which the best candidate is looked for, by who may look.
_LOOKS, _FIRST_LOOK = 3, 1000


class Rows:
    """A table whose rows are protected, with a quarter of them for the test."""

    cv = PrivateSplit(1, random_state=0)
    user_feature, n_blocks = None, "auto"

    def split(self, rng):
        """Return train and test rows."""
        order = rng.permutation(len(self.data))
        cut = len(order) * 3 // 4
        return order[:cut], order[cut:]

    def rows(self, positions):
        """Return rows and targets."""
        targets = None if self.targets is None else self.targets[positions]
        return self.data[positions], targets


class Components(Rows):
    """Five components of a table in a box."""

    def __init__(self, data, score_norm):
        self.data, self.targets = data.data, None
        self.estimator = DPPCA(5, bounds=data.bounds)
        # Ranks compare rows, and have no center.
        self.grid = [
            {"center": ["auto", "none", "pairs"], "scale": [None, "bounds"]},
            {"center": ["auto"], "scale": ["ranks"]},
        ]
        self.first = {"center": "auto", "scale": None}
        self.scoring = "captured_variance", {"clip_norm": score_norm}

    def score(self, model, test):
        """Share of the variance of test rows that the components capture."""
        return captured_variance(model, self.data[test])


class Pixel(Rows):
    """One pixel of digits by the others, with and without public bounds."""

    scoring = "squared_error", {"limit": 256.0}

    def __init__(self):
        table, place = load_digits().data, 28
        self.data, self.targets = np.delete(table, place, axis=1), table[:, place]
        self.estimator = DPRidge()
        self.grid = {
            "bounds": [None, (0.0, 16.0)],
            "target_bounds": [None, (0.0, 16.0)],
            "n_components": [None, 5, 20],
        }
        self.first = dict.fromkeys(self.grid)

    def score(self, model, test):
        """Negative mean squared error on test rows."""
        errors = self.targets[test] - model.predict(self.data[test])
        return -float(np.mean(errors**2))


# Equal costs of components and classifier, and that of epsilon = .3 beside 1.
WITHOUT = {
    "scaler": ["passthrough"],
    "shares": [{"components": 0.5, "classifier": 0.5}],
}


def with_scaler(scaler):
    """Return a part of a grid with a private scaler, at a small cost."""
    costs = {"scaler": gaussian_mu(0.3, DELTA), "components": gaussian_mu(1.0, DELTA)}
    squares = {name: mu**2 for name, mu in costs.items()}
    squares["classifier"] = squares["components"]
    total = sum(squares.values())
    shares = {name: square / total for name, square in squares.items()}
    return {"scaler": [scaler], "shares": [shares]}


class Labels(Rows):
    """Classes of digits, by a pipeline whose steps are all private."""

    scoring = "accuracy", {}

    def __init__(self):
        data = load_digits()
        self.data, self.targets = data.data / 16.0, data.target
        # All rows in every batch: what a search may fit has Gaussian noise alone.
        last = DPAdamClassifier(
            classes=range(10),
            batch_size=len(self.data),
            optimizer=Adam(sampling="in-turn", moments="jme"),
        )
        steps = [("components", DPPCA()), ("classifier", last)]
        self.estimator = PrivatePipeline([("scaler", "passthrough"), *steps])
        box = (0.0, 1.0)
        shared = {
            "components__n_components": [20, 10, 40],
            "classifier__optimizer__learning_rate": [0.1, 0.02, 0.5],
            "classifier__n_epochs": [10, 30],
        }
        scaler = DPStandardScaler(bounds=box, unseen="keep")
        self.grid = [
            {**WITHOUT, "components__bounds": [box], **shared},
            {**with_scaler(scaler), "components__bounds": [None], **shared},
        ]
        self.first = {name: values[0] for name, values in self.grid[0].items()}

    def score(self, model, test):
        """Accuracy on test rows."""
        return float(model.score(*self.rows(test)))


class Units(Labels):
    """The same classes where pixels have units a factor of 100 apart, and no bounds."""

    def __init__(self):
        super().__init__()
        n_features = self.data.shape[1]
        self.data = self.data * 10.0 ** np.random.default_rng(0).uniform(
            -1.0, 1.0, n_features
        )
        shared = {
            "components__n_components": [20, 10, 40],
            "classifier__optimizer__learning_rate": [0.1, 0.5],
        }
        scaler = DPStandardScaler(unseen="keep")
        self.grid = [{**WITHOUT, **shared}, {**with_scaler(scaler), **shared}]
        self.first = {name: values[0] for name, values in self.grid[0].items()}


class Ratings:
    """Ratings of movies, private for users."""

    user_feature, n_blocks = "user_id", 47
    cv = PrivateSplit(1, user_feature=user_feature, whole_users=False, random_state=0)
    scoring = "squared_error", {"limit": 16.0}

    def __init__(self):
        data = fetch_movielens("ml-100k")
        self.data = pd.DataFrame(data.data, columns=data.feature_names)
        self.targets = np.asarray(data.target, dtype=float)
        self.estimator = DPMatrixFactorization(items=data.item_ids, rating_range=(1, 5))
        self.grid = {
            "n_components": [3, 0, 1, 2, 5, 8],
            "item_features": [data.item_features, None],
        }
        self.first = {name: values[0] for name, values in self.grid.items()}

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


class Jokes:
    """Ratings of jokes by linear models of users; features are from other users."""

    user_feature, n_blocks = 0, 60
    cv = PrivateSplit(1, user_feature=user_feature, whole_users=False, random_state=0)
    scoring = "squared_error", {"limit": 4.0}

    def __init__(self, n_users=2000, n_public=2000, n_features=8):
        table = np.asarray(load_jester().data, dtype=float) / 10.0
        order = np.random.default_rng(0).permutation(len(table))
        public = table[order[:n_public]]
        _, _, directions = np.linalg.svd(public - public.mean(axis=0), False)
        features = directions[:n_features].T * np.sqrt(len(directions))
        own = table[order[n_public : n_public + n_users]]
        users, jokes = np.nonzero(own)
        self.data = np.column_stack([users, features[jokes]])
        self.targets = own[users, jokes]
        self.estimator = LRSRegressor(user_feature=0)
        self.grid = {"sparsity": [3, 0, 1], "ridge_sparse": [100.0, 1.0, 1e3]}
        self.first = {name: values[0] for name, values in self.grid.items()}

    def split(self, rng):
        """Return train and test rows, a fifth of each user's on average."""
        is_test = rng.random(len(self.data)) < 0.2
        return np.flatnonzero(~is_test), np.flatnonzero(is_test)

    rows, score = Rows.rows, Pixel.score


TASKS = {
    "ml-100k": Ratings,
    "jester": Jokes,
    "pixel": Pixel,
    "digits": lambda: Components(load_digits(), 40.0),
    "labels": Labels,
    "units": Units,
    "adult": lambda: Components(load_adult(), 3.0),
}


def scorer_of(task, *epsilon):
    """Return the private scorer of a task."""
    score, parameters = task.scoring
    return make_private_scorer(
        score, *epsilon, user_feature=task.user_feature, **parameters
    )


def fitted(task, rows, epsilon, candidate):
    """Return a fit of one candidate for a budget, or None; None if it can't be made."""
    try:
        if epsilon is None:
            model = candidate_model(task.estimator, candidate, 1.0)
            model.set_params(epsilon=None)
        else:
            mu = gaussian_mu(epsilon, DELTA)
            model = candidate_model(task.estimator, candidate, mu)
        X, y = task.rows(rows)
        return model.fit(X) if y is None else model.fit(X, y)
    except ValueError:
        return None


def by_search(task, train, epsilon):
    """Return the model that a private search finds."""
    search = PrivateSearchCV(
        clone(task.estimator).set_params(**task.first),
        task.grid,
        epsilon=epsilon,
        delta=DELTA,
        n_blocks=task.n_blocks,
        scoring=scorer_of(task),
    )
    return search.fit(*task.rows(train)).best_estimator_


def by_grid(task, train, epsilon):
    """Return the best of all candidates by noisy scores, each of which is paid for."""
    candidates = list(ParameterGrid(task.grid))
    mu = gaussian_mu(epsilon, DELTA) / np.sqrt(len(candidates))
    ((inner, held),) = task.cv.split(task.rows(train)[0])
    # Rows pay for a fit or for a score, users for both.
    shares = (1.0, 1.0) if task.user_feature is None else (0.8, 0.2)
    fit, score = (gaussian_epsilon(mu * np.sqrt(share), DELTA) for share in shares)
    scorer = scorer_of(task, score)
    best = (-np.inf, None)
    for candidate in candidates:
        model = fitted(task, train[inner], fit, candidate)
        if model is not None:
            found = scorer(model, *task.rows(train[held]))
            best = max(best, (found, model), key=lambda pair: pair[0])
    return best[1]


def best_candidate(task, epsilon):
    """Return the number of the candidate that is best on test rows of other splits."""
    means = []
    for candidate in ParameterGrid(task.grid):
        scores = []
        for seed in range(_FIRST_LOOK, _FIRST_LOOK + _LOOKS):
            train, test = task.split(np.random.default_rng(seed))
            model = fitted(task, train, epsilon, candidate)
            scores.append(-np.inf if model is None else task.score(model, test))
        means.append(np.mean(scores))
    return int(np.argmax(means))


def repeat(cells, task, name, epsilon, way, seed):
    """Return the score on test rows of what one way finds; None of nothing."""
    train, test = task.split(np.random.default_rng(seed))
    if way == "grid":
        model = by_grid(task, train, epsilon)
    elif way == "default":
        model = fitted(task, train, epsilon, task.first)
    elif way in ("oracle", "none"):
        (chosen,) = cells.values(name, epsilon, "best")
        candidate = list(ParameterGrid(task.grid))[chosen]
        model = fitted(task, train, epsilon, candidate)
    else:
        model = by_search(task, train, epsilon)
    return None if model is None else task.score(model, test)


def measure(cells, tasks, epsilons, ways, seeds):
    """Measure what there is none of, repeat by repeat; tasks are by name."""
    for seed in seeds:
        for name, task in tasks.items():
            for way in ways:
                for epsilon in [None] if way == "none" else epsilons:
                    looks = name, epsilon, "best", 0
                    if way in ("oracle", "none") and looks not in cells:
                        cells.timed(looks, best_candidate, task, epsilon)
                    key = name, epsilon, way, seed
                    if key not in cells:
                        cells.timed(key, repeat, cells, task, *key)


def print_tables(cells, names, epsilons, ways):
    """Print a table a task."""
    for name in names:
        print_row(name, "epsilon", *ways, widths=22)
        for epsilon in epsilons:
            found = [
                cells.values(name, None if way == "none" else epsilon, way)
                for way in ways
            ]
            texts = (
                f"{with_error(values, 3)} ({len(values)})" if len(values) > 1 else "-"
                for values in found
            )
            print_row("", f"{epsilon:g}", *texts, widths=22)


def main():
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 2.0, 4.0])
    ways = ["vote", "grid", "default", "oracle", "none"]
    parser.add_argument("--ways", nargs="*", default=ways[:-1], choices=ways)
    parser.add_argument("--save", help="file of lines, read first and added to")
    parser.add_argument("--no-measuring", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = Cells(given.save)
    if not given.no_measuring:
        tasks = {name: TASKS[name]() for name in given.only}
        measure(cells, tasks, given.epsilons, given.ways, range(given.repeats))
    print_tables(cells, given.only, given.epsilons, given.ways)
    print(f"{cells.seconds / 60.0:.1f} minutes of CPU")


if __name__ == "__main__":
    main()
