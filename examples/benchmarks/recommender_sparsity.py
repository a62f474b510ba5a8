"""What the sparse part of users' models gains on ratings, against rank and epsilon.

    SKDPSPECTRAL_DATA=folder python examples/benchmarks/recommender_sparsity.py

``--only`` picks one of "jester" (4,000 random users a split), "ml-100k" and "ml-1m";
``--quick`` takes one split. A random fifth of each user's ratings is held out. All
penalties are the defaults: nothing is chosen by the held-out ratings.

These ratings are public to this script, so that scores may be printed. On private ones
each of them would be a release of its own.
"""

import argparse
import itertools
import warnings

import numpy as np
from real_tables import fetch_movielens, load_jester
from recommender import held_out, mean_and_deviation, public_features
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Bunch
from tables import ignore_leak_warnings, print_row

from skdpspectral import DPItemEmbedding, LRSRegressor

EPSILONS = (1.0, None)
RANKS = (1, 2)
SPARSITIES = (0, 1, 2, 5)
# Components of the embedding; the features of movies are joined to them.
COMPONENTS = {"jester": (5, 20), "ml-100k": (1, 5), "ml-1m": (1,)}
WIDTHS = 17


def jester(seed, n_users=4000):
    """Return the ratings of random users as a table (0 counts as not rated)."""
    table = load_jester().data
    rng = np.random.default_rng(seed)
    table = table[rng.choice(len(table), n_users, replace=False)]
    users, jokes = np.nonzero(table)
    return Bunch(
        data=np.column_stack([users, jokes]),
        target=table[users, jokes],
        item_ids=np.arange(table.shape[1]),
        item_features=None,
        rating_range=(-10.0, 10.0),
    )


def movielens(name):
    """Return a table of MovieLens, with genres and year, which are public."""
    ratings = fetch_movielens(name)
    return Bunch(
        data=ratings.data,
        target=ratings.target.astype(float),
        item_ids=ratings.item_ids,
        item_features=public_features(ratings),
        rating_range=(1.0, 5.0),
    )


def errors(table, n_components, epsilon, seed, ranks, sparsities):
    """Return the held-out RMSE of clipped predictions, ranks x sparsities."""
    train, test = held_out(table, seed)
    embedding = DPItemEmbedding(
        n_components,
        method="residuals" if table.item_features is None else "offsets",
        items=table.item_ids,
        item_features=table.item_features,
        rating_range=table.rating_range,
        epsilon=epsilon,
        noise_seed=seed,
    )
    known = embedding.fit(table.data[train], table.target[train]).transform(
        table.data[train]
    )
    unknown = embedding.transform(table.data[test])
    found = np.empty((len(ranks), len(sparsities)))
    for (i, rank), (j, sparsity) in itertools.product(
        enumerate(ranks), enumerate(sparsities)
    ):
        model = LRSRegressor(
            rank, sparsity, user_feature=0, epsilon=epsilon, noise_seed=seed
        ).fit(known, table.target[train])
        predicted = np.clip(model.predict(unknown), *table.rating_range)
        found[i, j] = np.sqrt(np.mean((predicted - table.target[test]) ** 2))
    return found


def compare(name, n_splits, ranks):
    """Print RMSE by rank and sparsity, and what k = 2 gains on k = 0."""
    print(f"{name}: RMSE, mean of {n_splits} splits; k is the sparsity")
    headings = [f"k={k}" for k in SPARSITIES]
    print_row(
        "components", "epsilon each", "rank", *headings, "k=2 gains", widths=WIDTHS
    )
    for n_components, epsilon in itertools.product(COMPONENTS[name], EPSILONS):
        found = []
        for seed in range(n_splits):
            table = jester(seed) if name == "jester" else movielens(name)
            found.append(errors(table, n_components, epsilon, seed, ranks, SPARSITIES))
        found = np.array(found)
        gains = found[:, :, SPARSITIES.index(0)] - found[:, :, SPARSITIES.index(2)]
        for rank, row, gain in zip(ranks, found.mean(axis=0), gains.T, strict=True):
            cells = [f"{value:.4f}" for value in row]
            gain = mean_and_deviation(gain)
            print_row(n_components, epsilon, rank, *cells, gain, widths=WIDTHS)
    print()


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one split")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--only", choices=tuple(COMPONENTS))
    options = parser.parse_args()
    ignore_leak_warnings()
    warnings.simplefilter("ignore", ConvergenceWarning)
    n_splits = 1 if options.quick else options.splits
    for name in COMPONENTS if options.only is None else (options.only,):
        compare(name, n_splits, options.ranks)


if __name__ == "__main__":
    main()
