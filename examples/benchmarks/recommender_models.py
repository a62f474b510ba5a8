"""DPMatrixFactorization against plain and private rules on MovieLens.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/recommender_models.py [--quick]

A random fifth of each user's ratings is held out. For every epsilon (that of all
releases together, at delta = 1e-6): RMSE of ratings; NDCG@10 within the held-out
ratings of each user; Recall@20 of the held-out ratings of 4 and more among lists of all
items that the user has not rated in training. Beside it: each user's own mean, a
movie's mean plus a user's offset (not private), DPItemEmbedding with LRSRegressor, all
of whose epsilon is the embedding's, with all features free or five of them a user, and
what popularity alone recommends. Nothing is chosen by the held-out part.

Parts (``--only`` picks one): "table"; "cold", users of whom 0, 1, 5 or 16 ratings are
known, none of whom was in the fit, by the recommender and by the pipeline; "clicks",
Recall@20, NDCG@20 and coverage of the catalog of models that see no rating; "cost", CPU
time of fits, lists and new users; "methods", those of DPItemEmbedding on 4,000 users of
Jester, which has 100 jokes and no features, all with models of users on all columns.
``--quick`` takes ml-100k and one split.
"""

import argparse
import itertools
import time

import numpy as np
from recommender import group_means, held_out, mean_and_deviation
from recommender_sparsity import jester
from sklearn.pipeline import make_pipeline
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPItemEmbedding, DPMatrixFactorization, LRSRegressor
from skdpspectral.datasets import fetch_movielens
from skdpspectral.linear_model import personalize
from skdpspectral.metrics import (
    catalog_coverage_score,
    list_ndcg_score,
    list_recall_score,
    user_ndcg_score,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, None)
LENGTH, RELEVANT = 20, 4
WIDTHS = 22


def model_of(ratings, epsilon, seed, **parameters):
    """Return a recommender with genres and years, unless told otherwise."""
    parameters = {"item_features": ratings.item_features} | parameters
    return DPMatrixFactorization(
        items=ratings.item_ids, epsilon=epsilon, noise_seed=seed, **parameters
    )


def pipeline(ratings, epsilon, seed, sparsity=None):
    """Return features of items, and models of users on them, which release nothing."""
    items = DPItemEmbedding(
        items=ratings.item_ids,
        item_features=ratings.item_features,
        epsilon=epsilon,
        noise_seed=seed,
    )
    known = {"user_feature": 0, "offset_feature": 1, "ridge_intercept": 5.0}
    return make_pipeline(items, LRSRegressor(0, sparsity, **known))


def errors(y, predicted, users):
    """Return RMSE of clipped predictions, and NDCG@10 within users."""
    rmse = np.sqrt(np.mean((np.clip(predicted, 1, 5) - y) ** 2))
    return rmse, user_ndcg_score(y, predicted, users, k=10)


def recall(users, lists, X, y):
    """Return the mean share of a user's relevant held-out items in their list."""
    relevant = X[y >= RELEVANT]
    return list_recall_score(relevant[:, 0], relevant[:, 1], users, lists)


def scores(model, X, y):
    """Return RMSE, NDCG@10 and Recall@20 of a fitted recommender."""
    users = np.unique(X[:, 0])
    lists = model.recommend(users, LENGTH)[0]
    return *errors(y, model.predict(X), X[:, 0]), recall(users, lists, X, y)


def popular(model, X, y):
    """Return Recall@20 of the same list of released popularity for everybody."""
    users = np.unique(X[:, 0])
    lists = model.recommend(users, LENGTH, popularity=1e9)[0]
    return recall(users, lists, X, y)


def plain_rules(ratings, train, test):
    """Return predictions of rules without any release, or without privacy, by name."""
    users, items = ratings.data.T
    y = ratings.target.astype(float)
    mean = y[train].mean()
    sizes = users.max() + 1, items.max() + 1
    item = group_means(items[train], y[train], sizes[1], 5.0, mean)
    user = group_means(users[train], y[train] - item[items[train]], sizes[0], 5.0, 0.0)
    own = group_means(users[train], y[train], sizes[0], 0.0, 0.0)
    return {
        "own mean (local)": own[users[test]],
        "item + user (exact)": item[items[test]] + user[users[test]],
    }


VARIANTS = {
    "offsets": {"n_components": 0, "item_features": None},
    "offsets, factors": {"item_features": None},
    "offsets + genres": {"n_components": 0},
    "default": {},
}


def table(name, n_splits, epsilons, slow):
    """Print means over splits; deviations over splits in brackets."""
    ratings = fetch_movielens(name)
    X, y = ratings.data, ratings.target.astype(float)
    found = {}
    for seed in range(n_splits):
        train, test = held_out(ratings, seed)
        known = y[test], X[test]
        for rule, predicted in plain_rules(ratings, train, test).items():
            row = *errors(known[0], predicted, known[1][:, 0]), np.nan
            found.setdefault((rule, ""), []).append(row)
        for epsilon in epsilons:
            for variant, parameters in VARIANTS.items():
                model = model_of(ratings, epsilon, seed, **parameters)
                model.fit(X[train], y[train])
                row = scores(model, X[test], y[test])
                found.setdefault((variant, epsilon), []).append(row)
            row = np.nan, np.nan, popular(model, X[test], y[test])
            found.setdefault(("popularity", epsilon), []).append(row)
            for label, sparsity in (
                {"ridge": None, "5 of all": 5}.items() if slow else ()
            ):
                model = pipeline(ratings, epsilon, seed, sparsity)
                model.fit(X[train], y[train])
                row = *errors(y[test], model.predict(X[test]), X[test, 0]), np.nan
                found.setdefault((f"embedding, {label}", epsilon), []).append(row)
        print("#", name, "split", seed, flush=True)
    print(f"{name}, a fifth of each user's ratings held out, {n_splits} splits")
    print_row("model", "epsilon", "RMSE", "NDCG@10", "Recall@20", widths=WIDTHS)
    for (rule, epsilon), rows in sorted(found.items(), key=str):
        cells = [mean_and_deviation(column) for column in np.transpose(rows)]
        print_row(rule, epsilon, *cells, widths=WIDTHS)


CLICKS = {
    "clicks": {},
    "clicks, no factors": {"n_components": 0},
    "clicks, no features": {"item_features": None},
    "clicks, popularity": {"item_features": None, "n_components": 0},
}


def clicks(name, n_splits, epsilons):
    """Print how good lists are where that a user has rated an item is all that counts.

    All held-out items count, whatever their rating.
    """
    ratings = fetch_movielens(name)
    X, found = ratings.data, {}
    for seed in range(n_splits):
        train, test = held_out(ratings, seed)
        users = np.unique(X[test, 0])
        for epsilon in epsilons:
            for variant, parameters in CLICKS.items():
                model = model_of(ratings, epsilon, seed, implicit=True, **parameters)
                lists = model.fit(X[train]).recommend(users, LENGTH)[0]
                known = X[test, 0], X[test, 1], users, lists
                row = list_recall_score(*known), list_ndcg_score(*known)
                row += (catalog_coverage_score(lists, model.items_),)
                found.setdefault((variant, epsilon), []).append(row)
        print("#", name, "split", seed, flush=True)
    print(f"{name}, clicks, a fifth of each user's held out, {n_splits} splits")
    print_row("model", "epsilon", "Recall@20", "NDCG@20", "coverage", widths=WIDTHS)
    for (rule, epsilon), rows in sorted(found.items(), key=str):
        cells = [mean_and_deviation(column) for column in np.transpose(rows)]
        print_row(rule, epsilon, *cells, widths=WIDTHS)


def published(model):
    """Return what may be handed on of a recommender, or of all steps of a pipeline."""
    if hasattr(model, "publish"):
        return model.publish()
    return make_pipeline(*(step.publish() for step in model))


def cold_errors(model, X, y, order, rank):
    """Return RMSE on the last ratings of new users, of whom some others are known."""
    test, found = order[rank < 10], []
    for n_known in (0, 1, 5, 16):
        shared = published(model)
        if n_known:
            some = order[(rank >= 10) & (rank < 10 + n_known)]
            personalize(shared, X[some], y[some])
        error = np.clip(shared.predict(X[test]), 1, 5) - y[test]
        found.append(np.sqrt(np.mean(error**2)))
    return found


def cold(name, n_splits, epsilons):
    """Print RMSE for new users, of whom some ratings are known."""
    ratings = fetch_movielens(name)
    X, y = ratings.data, ratings.target.astype(float)
    print(f"{name}, a fifth of the users new, the last 10 ratings of each predicted")
    print_row("model", "epsilon", *(f"{n} known" for n in (0, 1, 5, 16)), widths=WIDTHS)
    makers = {"default": model_of, "embedding, ridge": pipeline}
    for epsilon, (label, make) in itertools.product(epsilons, makers.items()):
        rows = []
        for seed in range(n_splits):
            rng = np.random.default_rng(seed)
            users = np.unique(X[:, 0])
            new = np.isin(X[:, 0], rng.permutation(users)[: len(users) // 5])
            model = make(ratings, epsilon, seed).fit(X[~new], y[~new])
            order = np.flatnonzero(new)[np.lexsort((rng.random(new.sum()), X[new, 0]))]
            _, first, counts = np.unique(X[order, 0], True, return_counts=True)
            rank = np.arange(len(order)) - np.repeat(first, counts)
            rows.append(cold_errors(model, X, y, order, rank))
        cells = [mean_and_deviation(column) for column in np.transpose(rows)]
        print_row(label, epsilon, *cells, widths=WIDTHS)


def cost(name):
    """Print CPU seconds of a fit, of lists for all users, and new users a second."""
    ratings = fetch_movielens(name)
    X, y = ratings.data, ratings.target.astype(float)
    for n_components in (0, 3):
        model = model_of(ratings, 1.0, 0, n_components=n_components)
        start = time.process_time()
        model.fit(X, y)
        print(f"{name}, {n_components} components: {time.process_time() - start:.2f} s")
    users = np.unique(X[:, 0])
    start = time.process_time()
    model.recommend(users, LENGTH)
    print(f"lists of {len(users)} users: {time.process_time() - start:.2f} s")
    new = np.repeat(np.arange(20_000), 16)
    rows = np.column_stack([new, ratings.item_ids[np.tile(np.arange(16), 20_000)]])
    start = time.process_time()
    steps = pipeline(ratings, 1.0, 0).fit(X, y)
    print(f"{name}, pipeline: {time.process_time() - start:.2f} s")
    for label, fitted in {"recommender": model, "pipeline": steps}.items():
        shared = published(fitted)
        start = time.process_time()
        personalize(shared, rows, np.tile(y[:16], 20_000))
        speed = 20_000 / (time.process_time() - start)
        print(f"{label}: {speed:.3g} new users a second")


METHODS = (("offsets", 3), ("residuals", 3), ("residuals", 20), ("moment", 5))


def methods(n_splits, epsilons):
    """Print RMSE on Jester, which ranges from -10 to 10, for each way to embed."""
    found = {}
    for seed, epsilon in itertools.product(range(n_splits), epsilons):
        table = jester(seed)
        train, test = held_out(table, seed)
        for method, n_components in METHODS:
            items = DPItemEmbedding(
                n_components,
                method=method,
                items=table.item_ids,
                rating_range=table.rating_range,
                epsilon=epsilon,
                noise_seed=seed,
            )
            known = {"offset_feature": 1, "ridge_intercept": 5.0}
            known = {} if method == "moment" else known
            model = make_pipeline(items, LRSRegressor(0, None, user_feature=0, **known))
            model.fit(table.data[train], table.target[train])
            predicted = np.clip(model.predict(table.data[test]), *table.rating_range)
            error = np.sqrt(np.mean((predicted - table.target[test]) ** 2))
            found.setdefault((method, n_components, epsilon), []).append(error)
    print(f"Jester, a fifth of each user's ratings held out, {n_splits} splits")
    print_row("method", "components", "epsilon", "RMSE", widths=WIDTHS)
    for key, values in found.items():
        print_row(*key, mean_and_deviation(values), widths=WIDTHS)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ml-100k, one split")
    parser.add_argument("--data", default="ml-1m", choices=("ml-1m", "ml-100k"))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--fast", action="store_true", help="without the pipeline")
    choices = ("table", "cold", "clicks", "cost", "methods")
    parser.add_argument("--only", choices=choices)
    options = parser.parse_args()
    ignore_leak_warnings()
    name, n_splits = options.data, options.splits
    if options.quick:
        name, n_splits = "ml-100k", 1
    if options.only in (None, "table"):
        table(name, n_splits, EPSILONS, not options.fast)
    if options.only in (None, "cold"):
        cold(name, n_splits, EPSILONS)
    if options.only in (None, "clicks"):
        clicks(name, n_splits, EPSILONS)
    if options.only in (None, "cost"):
        cost(name)
    if options.only in (None, "methods"):
        methods(n_splits, EPSILONS)


if __name__ == "__main__":
    main()
