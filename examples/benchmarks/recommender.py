"""Recommenders on MovieLens: error and ranking against epsilon, time, groups.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/recommender.py [--quick]

Parts (``--only`` picks one): "newcomer", five lines on ml-100k with cross_val_score;
"memory", one fit of the embedding on ml-1m, in a process of its own; "end-to-end",
RMSE and NDCG@10 on ml-1m against epsilon; "groups", the tables that
plot_movielens_groups.py prints. ``--quick`` takes one seed and fewer components.

MovieLens is public to this script, so that scores may be printed. On private ratings
each of them would be a release of its own.
"""

import argparse
import itertools
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from list_scores import rating_ndcg_score
from real_tables import fetch_movielens
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPItemEmbedding, LRSRegressor, PrivacyAccountant
from skdpspectral._tables.columns import encode_ids
from skdpspectral.linear_model import UserIntercept
from skdpspectral.model_selection import PrivateSplit

EPSILONS = (0.5, 1.0, 2.0, 8.0, None)
COMPONENTS = (0, 1, 5, 20)
WIDTHS = 20


def mean_and_deviation(values, digits=4):
    """Return mean and standard deviation over seeds as text."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return f"{values.mean():.{digits}f}"
    return f"{values.mean():.{digits}f} ({values.std(ddof=1):.{digits}f})"


def held_out(ratings, seed):
    """Return a random fifth of each user's rows as test rows, the rest for training."""
    rng, (users, n_users) = (
        np.random.RandomState(seed),
        encode_ids(ratings.data[:, 0], "users"),
    )
    rows, turns = rng.permutation(len(users)), rng.permutation(5)
    users = rng.permutation(n_users)[users]
    folds = np.empty(len(users), dtype=int)
    # One deal over all users: the next user starts where the last one stopped.
    folds[rows[np.argsort(users[rows], kind="stable")]] = np.resize(turns, len(users))
    return np.flatnonzero(folds), np.flatnonzero(folds == 0)


def ndcg(y, predicted, users):
    """Return the exact mean of NDCG@10 over users."""
    return rating_ndcg_score(y, predicted, users)


def scores(y, predicted, users, rating_range=(1, 5)):
    """Return RMSE of clipped predictions, and NDCG@10 within users."""
    errors = np.clip(predicted, *rating_range) - y
    return np.sqrt(np.mean(errors**2)), ndcg(y, predicted, users)


# -- what needs no private release of ours -------------------------------------------


def group_means(codes, values, n_codes, weight, center):
    """Means by code, shrunk to `center` by as many pseudo-rows as `weight`."""
    total = np.bincount(codes, values, n_codes) + weight * center
    return total / np.maximum(np.bincount(codes, minlength=n_codes) + weight, 1e-9)


def own_ridge(features, codes, y, n_codes, penalty):
    """Return coefficients and intercepts of a ridge regression for each user.

    It uses the user's own rows and nothing else, so that it costs no privacy. (On
    ml-1m a penalty of 100 has the least error of 1 to 200, which flatters it.)
    """
    n_features = features.shape[1]
    gram = np.zeros((n_codes, n_features, n_features))
    for j in range(n_features):
        for k in range(j + 1):
            sums = np.bincount(codes, features[:, j] * features[:, k], n_codes)
            gram[:, j, k] = gram[:, k, j] = sums
    columns = [np.bincount(codes, column, n_codes) for column in features.T]
    cross = [np.bincount(codes, column * y, n_codes) for column in features.T]
    count = np.maximum(np.bincount(codes, minlength=n_codes), 1)
    means = np.column_stack(columns) / count[:, None]
    y_means = np.bincount(codes, y, n_codes) / count
    gram -= count[:, None, None] * means[:, :, None] * means[:, None, :]
    cross = np.column_stack(cross) - count[:, None] * means * y_means[:, None]
    gram += penalty * np.eye(n_features)
    coef = np.linalg.solve(gram, cross[:, :, None])[:, :, 0]
    return coef, y_means - np.sum(means * coef, axis=1)


def baselines(ratings, train, test):
    """Return predictions by name; users and items are coded by their ids."""
    users, items = ratings.data.T
    y = ratings.target.astype(float)
    n_users, n_items = users.max() + 1, items.max() + 1
    mean = y[train].mean()
    user_mean = group_means(users[train], y[train], n_users, 0.0, 0.0)
    item_mean = group_means(items[train], y[train], n_items, 5.0, mean)
    user_rest = y[train] - item_mean[items[train]]
    user_bias = group_means(users[train], user_rest, n_users, 5.0, 0.0)
    features = np.zeros((n_items, ratings.item_features.shape[1]))
    features[ratings.item_ids] = public_features(ratings)
    coef, intercept = own_ridge(
        features[items[train]], users[train], y[train], n_users, penalty=100.0
    )
    own = np.sum(features[items[test]] * coef[users[test]], axis=1)
    return {
        "own mean (local)": user_mean[users[test]],
        "own ridge (local)": own + intercept[users[test]],
        "item's mean (exact)": item_mean[items[test]],
        "item + user (exact)": item_mean[items[test]] + user_bias[users[test]],
    }


def public_features(ratings):
    """Return genres and year, standardized over the catalog."""
    return StandardScaler().fit_transform(ratings.item_features)


# -- the parts -----------------------------------------------------------------------


def pipeline(ratings, n_components, epsilon, seed, rank=1):
    """Return embedding and personal models, at the same epsilon each."""
    common = {"epsilon": epsilon, "noise_seed": seed}
    return make_pipeline(
        DPItemEmbedding(
            n_components,
            items=ratings.item_ids,
            item_features=public_features(ratings),
            **{"rating_range": (1, 5), **common},
        ),
        LRSRegressor(rank, 2, user_feature=0, **common),
    )


def total_epsilon(ratings, n_components, epsilon, rank):
    """Return what one fit of the pipeline costs at delta = 1e-6."""
    model = pipeline(ratings, n_components, epsilon, None)
    n_items, n_features = ratings.item_features.shape
    plans = [model[0].privacy_plan(n_items)]
    if rank:
        plans.append(model[1].privacy_plan(n_features + n_components))
    return PrivacyAccountant().check(plans).epsilon


def end_to_end(n_seeds, components):
    """Print RMSE and NDCG@10 on ml-1m for each epsilon and number of components."""
    ratings = fetch_movielens("ml-1m")
    X, y = ratings.data, ratings.target.astype(float)
    found = {}
    for seed in range(n_seeds):
        train, test = held_out(ratings, seed)
        known = y[test], X[test, 0]
        for name, predicted in baselines(ratings, train, test).items():
            found.setdefault((name, "", ""), []).append(
                scores(known[0], predicted, known[1])
            )
        for k, epsilon in itertools.product(components, EPSILONS):
            # Rank 0 has no release beside the embedding's.
            for rank in (0, 1) if 0 < k <= 5 or (k == 0 and not epsilon) else (1,):
                model = pipeline(ratings, k, epsilon, seed, rank)
                predicted = model.fit(X[train], y[train]).predict(X[test])
                result = scores(known[0], predicted, known[1])
                found.setdefault((f"rank {rank}", k, epsilon), []).append(result)
                print("#", seed, rank, k, epsilon, *result, flush=True)
    print(f"ml-1m, a fifth of each user's ratings held out, {n_seeds} seeds")
    headings = ("model", "components", "epsilon each", "in all", "RMSE", "NDCG@10")
    print_row(*headings, widths=WIDTHS)
    for (name, k, epsilon), values in found.items():
        total = ""
        if epsilon:
            total = f"{total_epsilon(ratings, k, epsilon, int(name[-1])):.2f}"
        cells = [mean_and_deviation(values) for values in np.transpose(values)]
        print_row(name, k, epsilon, total, *cells, widths=WIDTHS)


def newcomer():
    """Print time and ledger of the shortest pipeline, cross-validated."""
    ratings = fetch_movielens("ml-100k")
    X, y = pd.DataFrame(ratings.data, columns=ratings.feature_names), ratings.target
    with PrivacyAccountant() as accountant:
        start = time.perf_counter()
        model = make_pipeline(
            DPItemEmbedding(items=ratings.item_ids, rating_range=(1, 5)),
            # Pipelines hand arrays on: users come first, expected ratings second.
            LRSRegressor(
                0,
                None,
                user_feature=0,
                fit_intercept=UserIntercept(ridge=5.0, offset_feature=1),
            ),
        )
        rmse = -cross_val_score(
            model,
            X,
            y,
            cv=PrivateSplit(user_feature="user_id", whole_users=False, random_state=0),
            scoring="neg_root_mean_squared_error",
        )
        seconds = time.perf_counter() - start
    print(f"ml-100k, five folds: RMSE {mean_and_deviation(rmse)}, {seconds:.1f} s")
    print(f"ledger: {len(accountant.ledger)} entries, {accountant}")


_ONE_FIT = """
import resource, time, warnings
warnings.simplefilter("ignore")
from skdpspectral import DPItemEmbedding
from real_tables import fetch_movielens
ratings = fetch_movielens("ml-1m")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start, clock = time.perf_counter(), time.process_time()
embedding = DPItemEmbedding(
    {n_components}, items=ratings.item_ids, rating_range=(1, 5)
)
embedding.fit(ratings.data, ratings.target)
wall, cpu = time.perf_counter() - start, time.process_time() - clock
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{{wall:.1f}} s, CPU {{cpu:.1f}} s, {{before:.0f}} MB, peak {{peak:.0f}} MB")
"""


def memory():
    """Print time and peak memory of fits of the embedding."""
    print("DPItemEmbedding on ml-1m, 1,000,209 ratings of 3,883 items")
    for n_components in (5, 20, 50):
        code = _ONE_FIT.format(n_components=n_components)
        command = [sys.executable, "-c", code]
        print(f"{n_components} components:", end=" ", flush=True)
        subprocess.run(command, check=True)


def groups(n_seeds):
    """Run the page on groups of users, which prints its tables."""
    page = Path(__file__).resolve().parents[1] / "plot_movielens_groups.py"
    subprocess.run([sys.executable, page, str(n_seeds)], check=True)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parts = ("newcomer", "memory", "end-to-end", "groups")
    parser.add_argument("--only", choices=parts)
    options = parser.parse_args()
    ignore_leak_warnings()
    n_seeds = 1 if options.quick else options.seeds
    wanted = parts if options.only is None else (options.only,)
    if "newcomer" in wanted:
        newcomer()
    if "memory" in wanted:
        memory()
    if "end-to-end" in wanted:
        end_to_end(n_seeds, COMPONENTS[:2] if options.quick else COMPONENTS)
    if "groups" in wanted:
        groups(n_seeds)


if __name__ == "__main__":
    main()
