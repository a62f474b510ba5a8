"""DPMatrixFactorization against plain and private rules on MovieLens.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/recommender_models.py [--quick]

A random fifth of each user's ratings is held out. For every epsilon (that of all
releases together, at delta = 1e-6): RMSE of ratings; NDCG@10 within the held-out
ratings of each user; Recall@20 of the held-out ratings of 4 and more among lists of all
items that the user has not rated in training. Beside it: each user's own mean, a
movie's mean plus a user's offset (not private), DPItemEmbedding with LRSRegressor at
the same epsilon in all, and what popularity alone recommends. Nothing is chosen by the
held-out part.

Parts (``--only`` picks one): "table"; "cold", users of whom 0, 1, 5 or 16 ratings are
known, none of whom was in the fit; "clicks", Recall@20, NDCG@20 and coverage of the
catalog of models that see no rating; "cost", CPU time of fits, lists and new users.
``--quick`` takes ml-100k and one split.
"""

import argparse
import time

import numpy as np
from recommender import group_means, held_out, mean_and_deviation, public_features
from sklearn.pipeline import make_pipeline
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPItemEmbedding, DPMatrixFactorization, LRSRegressor
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.datasets import fetch_movielens
from skdpspectral.metrics import (
    catalog_coverage_score,
    list_ndcg_score,
    list_recall_score,
    user_ndcg_score,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, None)
DELTA, LENGTH, RELEVANT = 1e-6, 20, 4
WIDTHS = 22


def model_of(ratings, epsilon, seed, **parameters):
    """Return a recommender with genres and years, unless told otherwise."""
    parameters = {"item_features": ratings.item_features} | parameters
    return DPMatrixFactorization(
        items=ratings.item_ids, epsilon=epsilon, noise_seed=seed, **parameters
    )


def pipeline(ratings, epsilon, seed):
    """Return embedding and personal models, which together cost epsilon."""
    each = epsilon
    if epsilon is not None:
        each = gaussian_epsilon(gaussian_mu(epsilon, DELTA) / np.sqrt(2.0), DELTA)
    common = {"epsilon": each, "noise_seed": seed}
    features = public_features(ratings)
    items = DPItemEmbedding(1, items=ratings.item_ids, item_features=features, **common)
    return make_pipeline(items, LRSRegressor(1, 2, user_feature=0, **common))


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
            if slow:
                model = pipeline(ratings, epsilon, seed).fit(X[train], y[train])
                row = *errors(y[test], model.predict(X[test]), X[test, 0]), np.nan
                found.setdefault(("embedding + LRS", epsilon), []).append(row)
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


def cold(name, n_splits, epsilons):
    """Print RMSE for new users, of whom some ratings are known."""
    ratings = fetch_movielens(name)
    X, y = ratings.data, ratings.target.astype(float)
    print(f"{name}, a fifth of the users new, the last 10 ratings of each predicted")
    print_row("epsilon", *(f"{n} known" for n in (0, 1, 5, 16)), widths=WIDTHS)
    for epsilon in epsilons:
        rows = []
        for seed in range(n_splits):
            rng = np.random.default_rng(seed)
            users = np.unique(X[:, 0])
            new = np.isin(X[:, 0], rng.permutation(users)[: len(users) // 5])
            model = model_of(ratings, epsilon, seed).fit(X[~new], y[~new])
            order = np.flatnonzero(new)[np.lexsort((rng.random(new.sum()), X[new, 0]))]
            _, first, counts = np.unique(X[order, 0], True, return_counts=True)
            rank = np.arange(len(order)) - np.repeat(first, counts)
            test = order[rank < 10]
            rows.append([])
            for n_known in (0, 1, 5, 16):
                shared = model.publish()
                if n_known:
                    some = order[(rank >= 10) & (rank < 10 + n_known)]
                    shared.personalize(X[some], y[some])
                error = shared.predict(X[test]) - y[test]
                rows[-1].append(np.sqrt(np.mean(error**2)))
        cells = [mean_and_deviation(column) for column in np.transpose(rows)]
        print_row(epsilon, *cells, widths=WIDTHS)


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
    published = model.publish()
    start = time.process_time()
    published.personalize(rows, np.tile(y[:16], 20_000))
    print(f"{20_000 / (time.process_time() - start):.3g} new users a second")


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ml-100k, one split")
    parser.add_argument("--data", default="ml-1m", choices=("ml-1m", "ml-100k"))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--fast", action="store_true", help="without the pipeline")
    parser.add_argument("--only", choices=("table", "cold", "clicks", "cost"))
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


if __name__ == "__main__":
    main()
