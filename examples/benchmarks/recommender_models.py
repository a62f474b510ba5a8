"""DPMatrixFactorization against plain, published and private rules on MovieLens.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/recommender_models.py \
        [--quick] [--out FILE] [--python PYTHON]

A random fifth of each user's ratings is held out. For every epsilon (that of all
releases together, at delta = 1e-6): RMSE of ratings; NDCG@10 within the held-out
ratings of each user; Recall@20 of the held-out ratings of 4 and more among lists of all
items that the user has not rated in training. Beside it: DPItemEmbedding with
LRSRegressor, all of whose epsilon is the embedding's, with all features free or five of
them a user; released popularity; plain means; alternating least squares without
privacy, and private ones; LensKit and implicit, if the other PYTHON has them, without
privacy. Nothing is chosen by the held-out part: what rivals leave open is tuned, for
each data set and epsilon, on a fifth of the first split's training ratings. What is
compared with them has its defaults in every cell. But the shares of mu^2 of "residuals"
were chosen by the held-out part of Jester.

Parts (``--only`` picks one): "table"; "cold", users of whom 0, 1, 5 or 16 ratings are
known, none of whom was in the fit, by the recommender and by the pipeline; "clicks",
Recall@20, NDCG@20 and coverage of the catalog of models that see no rating; "cost", CPU
time of fits, lists and new users; "methods", those of DPItemEmbedding on 4,000 users of
Jester, which has 100 jokes and no features, all with models of users on all columns.
``--quick`` takes ml-100k and one split. With ``--out`` each figure of the first three
parts is kept as a line of FILE, and what is in FILE is not measured again.
"""

import argparse
import functools
import itertools
import sys
import time

import numpy as np
import recommender_peers as peers
from list_scores import (
    catalog_coverage_score,
    list_ndcg_score,
    list_recall_score,
)
from real_tables import fetch_movielens
from recommender import held_out, mean_and_deviation
from recommender_sparsity import jester
from recommender_table import LENGTH, WIDTHS, model_of, pipeline, table
from sklearn.pipeline import Pipeline, make_pipeline
from tables import Cells, ignore_leak_warnings, print_row

from skdpspectral import DPItemEmbedding, LRSRegressor
from skdpspectral.linear_model import UserIntercept

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, None)
KNOWN = (0, 1, 5, 16)

CLICKS = {
    "clicks": {},
    "clicks, no factors": {"n_components": 0},
    "clicks, no features": {"item_features": None},
    "clicks, popularity": {"item_features": None, "n_components": 0},
}


def print_means(found):
    """Print means and deviations over splits of what was measured of each row."""
    for row, values in found.items():
        values = [value for value in values if value is not None]
        if values:
            shown = [mean_and_deviation(column) for column in np.transpose(values)]
            print_row(*row, *shown, widths=WIDTHS)


def clicks(cells, name, n_splits, epsilons):
    """Print how good lists are where that a user has rated an item is all that counts.

    All held-out items count, whatever their rating.
    """
    ratings = fetch_movielens(name)
    X, found = ratings.data, {}

    def lists_of(seed, epsilon, parameters):
        train, test = held_out(ratings, seed)
        users = np.unique(X[test, 0])
        model = model_of(ratings, epsilon, seed, implicit=True, **parameters)
        lists = model.fit(X[train]).recommend(users, LENGTH)[0]
        known = X[test, 0], X[test, 1], users, lists
        shares = list_recall_score(*known), list_ndcg_score(*known)
        return *shares, catalog_coverage_score(lists, model.items_)

    given = itertools.product(range(n_splits), epsilons, CLICKS.items())
    for seed, epsilon, (variant, parameters) in given:
        key = {"data": name, "model": variant, "epsilon": epsilon, "split": seed}
        measure = functools.partial(lists_of, seed, epsilon, parameters)
        row = cells.get(measure, part="clicks", **key)
        found.setdefault((variant, epsilon), []).append(row)
    print(f"{name}, clicks, a fifth of each user's held out, {n_splits} splits")
    print_row("model", "epsilon", "Recall@20", "NDCG@20", "coverage", widths=WIDTHS)
    print_means(found)


def published(model):
    """Return what may be handed on of a recommender, or of all steps of a pipeline."""
    if hasattr(model, "publish"):
        return model.publish()
    return make_pipeline(*(step.publish() for step in model))


def personalize(model, X, y):
    """Fit models of users, behind the other steps of a pipeline."""
    if isinstance(model, Pipeline):
        model, X = model[-1], model[:-1].transform(X)
    model.personalize(X, y)


def cold_errors(model, X, y, order, rank):
    """Return RMSE on the last ratings of new users, of whom some others are known."""
    test, found = order[rank < 10], []
    for n_known in KNOWN:
        shared = published(model)
        if n_known:
            some = order[(rank >= 10) & (rank < 10 + n_known)]
            personalize(shared, X[some], y[some])
        error = np.clip(shared.predict(X[test]), 1, 5) - y[test]
        found.append(np.sqrt(np.mean(error**2)))
    return found


def new_users(X, seed):
    """Return a mask of the rows of a fifth of the users; these rows; their places.

    Rows of a user are in a random order, which places count from 0.
    """
    rng = np.random.default_rng(seed)
    users = np.unique(X[:, 0])
    new = np.isin(X[:, 0], rng.permutation(users)[: len(users) // 5])
    order = np.flatnonzero(new)[np.lexsort((rng.random(new.sum()), X[new, 0]))]
    _, first, counts = np.unique(X[order, 0], True, return_counts=True)
    return new, order, np.arange(len(order)) - np.repeat(first, counts)


def cold(cells, name, n_splits, epsilons):
    """Print RMSE for new users, of whom some ratings are known."""
    ratings = fetch_movielens(name)
    X, y = ratings.data, ratings.target.astype(float)

    def errors_of(make, epsilon, seed):
        new, order, rank = new_users(X, seed)
        model = make(ratings, epsilon, seed).fit(X[~new], y[~new])
        return cold_errors(model, X, y, order, rank)

    def constant(seed):  # the mean of the others' ratings, without privacy
        new, order, rank = new_users(X, seed)
        error = np.sqrt(np.mean((y[order[rank < 10]] - y[~new].mean()) ** 2))
        return [error] * len(KNOWN)

    makers = {"default": model_of, "embedding, ridge": pipeline}
    found = {}
    for seed in range(n_splits):
        key = {"part": "cold", "data": name, "split": seed}
        row = cells.get(functools.partial(constant, seed), model="constant", **key)
        found.setdefault(("constant (exact)", None), []).append(row)
        for epsilon, (label, make) in itertools.product(epsilons, makers.items()):
            measure = functools.partial(errors_of, make, epsilon, seed)
            row = cells.get(measure, model=label, epsilon=epsilon, **key)
            found.setdefault((label, epsilon), []).append(row)
    print(f"{name}, a fifth of the users new, 10 random ratings of each predicted")
    headings = [f"{n} known" for n in KNOWN]
    print_row("model", "epsilon", *headings, widths=WIDTHS)
    print_means(found)


def cost(name, python):
    """Print CPU seconds of fits, cost of lists for all users, and new users a second.

    The recommender's and implicit's are measured in a process each, on one thread.
    """
    ratings = fetch_movielens(name)
    X, y = ratings.data, ratings.target.astype(float)
    for n_components in (0, 3):
        model = model_of(ratings, 1.0, 0, n_components=n_components)
        start = time.process_time()
        model.fit(X, y)
        print(f"{name}, {n_components} components: {time.process_time() - start:.2f} s")
    users, rows = np.unique(X[:, 0], return_inverse=True)
    found = {"ours": peers.run(sys.executable, "ours", {}, data=name, epsilon=1.0)}
    if python:
        items = np.searchsorted(ratings.item_ids, X[:, 1])
        given = {"users": rows, "items": items, "wanted": np.arange(len(users))}
        given |= {"n_users": len(users), "n_items": len(ratings.item_ids)}
        given |= {"penalty": 0.01, "alpha": 1.0}
        found["implicit"] = peers.run(python, "implicit", given)
    for label, costs in found.items():
        if costs is None:
            continue
        print(
            f"{label}: fit {costs['fit_cpu_s']:.2f} s CPU, peak of the process "
            f"{costs['fit_peak_mb']:.0f} MB; lists of {len(users)} users "
            f"{costs['cpu_s']:.2f} s CPU, {costs['wall_s']:.2f} s, peak "
            f"{costs['peak_mb']:.0f} MB, {costs['before_mb']:.0f} MB before"
        )
    start = time.process_time()
    steps = pipeline(ratings, 1.0, 0).fit(X, y)
    print(f"{name}, pipeline: {time.process_time() - start:.2f} s")
    new = np.repeat(np.arange(20_000), 16)
    rows = np.column_stack([new, ratings.item_ids[np.tile(np.arange(16), 20_000)]])
    for label, fitted in {"recommender": model, "pipeline": steps}.items():
        shared = published(fitted)
        start = time.process_time()
        personalize(shared, rows, np.tile(y[:16], 20_000))
        speed = 20_000 / (time.process_time() - start)
        print(f"{label}: {speed:.3g} new users a CPU second")


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
            known = {"fit_intercept": UserIntercept(ridge=5.0, offset_feature=1)}
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
    parser.add_argument("--data", nargs="+", default=["ml-100k", "ml-1m"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", help="file of figures, which is added to")
    parser.add_argument("--python", help="one that has lenskit or implicit")
    parser.add_argument("--models", nargs="+", help="measure these alone")
    parts = ("table", "cold", "clicks", "cost", "methods")
    parser.add_argument("--only", choices=parts)
    options = parser.parse_args()
    ignore_leak_warnings()
    names, n_splits = options.data, options.splits
    if options.quick:
        names, n_splits = ["ml-100k"], 1
    wanted = parts if options.only is None else (options.only,)
    cells = Cells(options.out, options.models)
    for name in names:
        given = cells, name, n_splits, EPSILONS
        if "table" in wanted:
            table(*given, options.python)
        if "cold" in wanted:
            cold(*given)
        if "clicks" in wanted:
            clicks(*given)
        if "cost" in wanted:
            cost(name, options.python)
    if "methods" in wanted:
        methods(n_splits, EPSILONS)


if __name__ == "__main__":
    main()
