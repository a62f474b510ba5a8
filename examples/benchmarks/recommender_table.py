"""The table of recommender_models.py: each model, epsilon and split is one cell."""

import functools

import numpy as np
import recommender_peers as peers
import recommender_rivals as rivals
from list_scores import list_recall_score
from real_tables import fetch_movielens
from recommender import held_out, mean_and_deviation, ndcg
from sklearn.pipeline import make_pipeline
from sklearn.utils import Bunch
from tables import print_row

from skdpspectral import DPItemEmbedding, DPMatrixFactorization, LRSRegressor
from skdpspectral.linear_model import UserIntercept

LENGTH, RELEVANT = 20, 4
WIDTHS = 20


def model_of(ratings, epsilon, seed, **parameters):
    """Return a recommender with genres and years, unless told otherwise."""
    parameters = {"item_features": ratings.item_features} | parameters
    return DPMatrixFactorization(
        items=ratings.item_ids,
        epsilon=epsilon,
        noise_seed=seed,
        **{"rating_range": (1, 5), **parameters},
    )


def pipeline(ratings, epsilon, seed, sparsity=None):
    """Return features of items, and models of users on them, which release nothing."""
    items = DPItemEmbedding(
        items=ratings.item_ids,
        item_features=ratings.item_features,
        epsilon=epsilon,
        noise_seed=seed,
        rating_range=(1, 5),
    )
    known = {
        "user_feature": 0,
        "fit_intercept": UserIntercept(ridge=5.0, offset_feature=1),
    }
    return make_pipeline(items, LRSRegressor(0, sparsity, **known))


def errors(y, predicted, users):
    """Return RMSE of clipped predictions, and NDCG@10 within users."""
    rmse = np.sqrt(np.mean((np.clip(predicted, 1, 5) - y) ** 2))
    return rmse, ndcg(y, predicted, users)


def recall(users, lists, X, y):
    """Return the mean share of a user's relevant held-out items in their list."""
    relevant = X[y >= RELEVANT]
    return list_recall_score(relevant[:, 0], relevant[:, 1], users, lists)


def figures(rmse, ndcg, found):
    """Return one cell of the table."""
    return {"rmse": rmse, "ndcg": ndcg, "recall": found}


VARIANTS = {
    "offsets": {"n_components": 0, "item_features": None},
    "offsets, factors": {"item_features": None},
    "offsets + genres": {"n_components": 0},
    "default": {},
    "default, clicks": {"implicit": True},
}
PIPELINES = {"embedding, ridge": None, "embedding, 5 of all": 5}


class Split:
    """Training and test ratings, and all that is measured on them."""

    def __init__(self, ratings, seed):
        self.ratings, self.seed = ratings, seed
        X, y = ratings.data, ratings.target.astype(float)
        train, test = held_out(ratings, seed)
        self.X, self.y = X[train], y[train]
        self.test, self.known = X[test], y[test]
        self.users = np.unique(self.test[:, 0])
        ids, users = np.unique(X[:, 0], return_inverse=True)
        order = np.argsort(ratings.item_ids)
        items = order[np.searchsorted(ratings.item_ids, X[:, 1], sorter=order)]
        rows = rivals.Rows(users, items, y, (len(ids), len(order)))
        self.rows, self.test_rows = rows.chosen(train), rows.chosen(test)

    def ours(self, epsilon, variant):
        """Fit DPMatrixFactorization."""
        parameters = VARIANTS[variant]
        model = model_of(self.ratings, epsilon, self.seed, **parameters)
        clicks = "implicit" in parameters
        model.fit(self.X, *(() if clicks else (self.y,)))
        found = errors(self.known, model.predict(self.test), self.test[:, 0])
        lists = model.recommend(self.users, LENGTH)[0]
        rmse = np.nan if clicks else found[0]
        return figures(rmse, found[1], recall(self.users, lists, self.test, self.known))

    def popularity(self, epsilon):
        """Rank by what DPMatrixFactorization releases of popularity, for all alike."""
        model = model_of(self.ratings, epsilon, self.seed, **VARIANTS["offsets"])
        model.fit(self.X, self.y)
        lists = model.recommend(self.users, LENGTH, popularity=1e9)[0]
        scores = model.item_popularity_[self.test_rows.items]
        found = errors(self.known, scores, self.test[:, 0])[1]
        return figures(np.nan, found, recall(self.users, lists, self.test, self.known))

    def embedding(self, epsilon, label):
        """Fit DPItemEmbedding, and LRSRegressor, which has no lists."""
        model = pipeline(self.ratings, epsilon, self.seed, PIPELINES[label])
        predicted = model.fit(self.X, self.y).predict(self.test)
        return figures(*errors(self.known, predicted, self.test[:, 0]), np.nan)

    def error(self, rule):
        """Return the RMSE of a rule that speaks of codes."""
        rows = self.test_rows
        return np.sqrt(np.mean((rule.predict(rows.users, rows.items) - rows.y) ** 2))

    def rule(self, rule, popularity=0.0):
        """Measure a rule that speaks of codes."""
        predicted = rule.predict(self.test_rows.users, self.test_rows.items)
        users = np.unique(self.test_rows.users)
        seen = self.rows.by_users(np.ones(len(self.rows.y)))
        lists = self.ratings.item_ids[rule.lists(users, seen, popularity)]
        found = recall(self.users, lists, self.test, self.known)
        return figures(*errors(self.known, predicted, self.test[:, 0]), found)

    def lenskit(self, python, penalty):
        """Fit LensKit's biased matrix factorization."""
        given = {"users": self.rows.users, "items": self.rows.items, "y": self.rows.y}
        given["test_users"] = self.test_rows.users
        given["test_items"] = self.test_rows.items
        found = peers.run(python, "lenskit", given, penalty=penalty)
        if found is None:
            return None
        return figures(*errors(self.known, found["predicted"], self.test[:, 0]), np.nan)

    def implicit(self, python, **parameters):
        """Fit implicit's ALS to which items users have rated."""
        given = {"users": self.rows.users, "items": self.rows.items}
        given |= dict(zip(("n_users", "n_items"), self.rows.shape, strict=True))
        given["wanted"] = np.unique(self.test_rows.users)
        found = peers.run(python, "implicit", given, **parameters)
        if found is None:
            return None
        lists = self.ratings.item_ids[found.pop("lists")]
        shown = figures(
            np.nan, np.nan, recall(self.users, lists, self.test, self.known)
        )
        return shown | found


# -- what rivals leave open ----------------------------------------------------------

PENALTIES = (8.0, 12.0, 16.0, 20.0)  # of ALS
OF_LENSKIT = tuple({"penalty": penalty} for penalty in (0.05, 0.1, 0.15, 0.2))
OF_IMPLICIT = tuple({"penalty": 0.01, "alpha": alpha} for alpha in (1.0, 5.0, 20.0))
POPULARITIES = (0.0, 0.5, 1.0, 2.0, 4.0)  # weights of log counts in lists


def tuned_lists(tuning, rule, settings):
    """Return settings and the weight of log counts that lists are best with."""
    found = [tuning.rule(rule, weight)["recall"] for weight in POPULARITIES]
    return {"of": settings, "popularity": POPULARITIES[int(np.argmax(found))]}


def tuned_als(tuning):
    """Return the penalty of ALS without privacy."""
    found = [rivals.als(tuning.rows, penalty) for penalty in PENALTIES]
    best = int(np.argmin([tuning.error(rule) for rule in found]))
    return tuned_lists(tuning, found[best], PENALTIES[best])


def tuned_private_als(tuning, epsilon):
    """Return settings of private ALS at this epsilon."""
    rule_of = functools.partial(rivals.private_als, tuning.rows, epsilon)
    settings = rivals.tuned_settings(lambda given: tuning.error(rule_of(given)))[0]
    return tuned_lists(tuning, rule_of(rivals.Settings(**settings)), settings)


def tuned_peer(measure, candidates, figure, sign):
    """Return the candidate of the best figure; None if there is no such library."""
    found = []
    for candidate in candidates:
        cell = measure(**candidate)
        if cell is None:
            return None
        found.append(sign * cell[figure])
    return candidates[int(np.argmax(found))]


def tuning_split(split):
    """Return a split of the training rows of a split."""
    ratings = split.ratings
    given = ("item_ids", "item_features")
    part = Bunch(
        data=split.X, target=split.y, **{name: ratings[name] for name in given}
    )
    return Split(part, 1000)


class Table:
    """Cells of one data set."""

    def __init__(self, cells, name, ratings, python):
        self.cells, self.name, self.ratings = cells, name, ratings
        self.python = python

    @functools.cached_property
    def first(self):
        """What is tuned on: training ratings of the first split alone."""
        return tuning_split(Split(self.ratings, 0))

    def tuned(self, model, epsilon, function):
        """Return what a model is tuned to."""
        key = {"part": "tuned", "data": self.name, "model": model, "epsilon": epsilon}
        return self.cells.get(function, **key)

    def measure(self, model, epsilon, split, function):
        """Measure a cell if it is not there."""
        key = {"data": self.name, "split": split.seed, "epsilon": epsilon}
        self.cells.get(function, part="table", model=model, **key)

    def exact(self, split):
        """Measure what is not private."""
        for rule, found in rivals.means(split.rows).items():
            self.measure(rule, None, split, functools.partial(split.rule, found))
        best = self.tuned("ALS (exact)", None, lambda: tuned_als(self.first))

        def als():
            rule = rivals.als(split.rows, best["of"], seed=split.seed)
            return split.rule(rule, best["popularity"])

        self.measure("ALS (exact)", None, split, als)
        if self.python:
            self.peer("LensKit", "lenskit", OF_LENSKIT, ("rmse", -1), split)
            self.peer("implicit", "implicit", OF_IMPLICIT, ("recall", 1), split)

    def peer(self, label, task, candidates, figure, split):
        """Measure a recommender of another library."""
        of = functools.partial(getattr(self.first, task), self.python)
        given = self.tuned(
            f"{label} (exact)", None, lambda: tuned_peer(of, candidates, *figure)
        )
        if given is not None:
            of = functools.partial(getattr(split, task), self.python, **given)
            self.measure(f"{label} (exact)", None, split, of)

    def private(self, epsilon, split):
        """Measure what costs epsilon, or the same without noise."""
        for group, function in (
            (VARIANTS, split.ours),
            (PIPELINES, split.embedding),
        ):
            for label in group:
                cell = functools.partial(function, epsilon, label)
                self.measure(label, epsilon, split, cell)
        cell = functools.partial(split.popularity, epsilon)
        self.measure("popularity", epsilon, split, cell)
        if epsilon is not None:
            best = self.tuned(
                "private ALS", epsilon, lambda: tuned_private_als(self.first, epsilon)
            )

            def private_als():
                settings = rivals.Settings(**best["of"])
                given = split.rows, epsilon, settings
                rule = rivals.private_als(*given, seed=split.seed + 1)
                return split.rule(rule, best["popularity"])

            self.measure("private ALS", epsilon, split, private_als)


def table(cells, name, n_splits, epsilons, python):
    """Measure what is missing; print means over splits, deviations in brackets."""
    ratings = fetch_movielens(name)
    found = Table(cells, name, ratings, python)
    for seed in range(n_splits):
        split = Split(ratings, seed)
        found.exact(split)
        for epsilon in epsilons:
            found.private(epsilon, split)
    print(f"{name}, a fifth of each user's ratings held out, {n_splits} splits")
    print_row("model", "epsilon", "RMSE", "NDCG@10", "Recall@20", widths=WIDTHS)
    rows = {}
    for key, value in cells.of(part="table", data=name):
        if key["split"] < n_splits and key["epsilon"] in epsilons:
            row = [value[figure] for figure in ("rmse", "ndcg", "recall")]
            rows.setdefault((key["model"], key["epsilon"]), []).append(row)
    for (model, epsilon), values in sorted(rows.items(), key=_by_model):
        shown = [mean_and_deviation(column) for column in np.transpose(values)]
        print_row(model, epsilon, *shown, widths=WIDTHS)


def _by_model(row):
    model, epsilon = row[0]
    return model, np.inf if epsilon is None else epsilon
