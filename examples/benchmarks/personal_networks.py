"""Networks of users on MovieLens and Jester: RMSE against what users have of their own.

The protocol of appendix B.2 of Pal et al. (2023), without privacy: tanh networks on
item embeddings of 50 numbers, and five ways to personalize, all trained by the same
steps of Adam; and linear models, which one would try first.

    python personal_networks.py groups|jester|block [n_seeds] [n_rounds] [rate] [method]

Embeddings come from training ratings alone. The penalties of every method, two where it
has shared and own weights, are chosen together on one half of the validation rows of
the first seed, and errors are reported on the other half, of every seed. With a method,
such as "LRS r=1 20 %", that one alone. Needs the data sets in the folder of
SKDPSPECTRAL_DATA. Prints a line a fit, and then a table.
"""

import itertools
import sys
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from real_tables import fetch_movielens, load_jester
from scipy import sparse
from scipy.sparse.linalg import svds

from skdpspectral import LRSMLPRegressor, LRSRegressor, PrivacyLeakWarning
from skdpspectral.linear_model import Alternation

warnings.simplefilter("ignore", PrivacyLeakWarning)
# In rows, of what is shared and of what is a user's own.
PENALTIES = (10.0, 100.0)
OWN_PENALTIES = (10.0, 100.0, 1000.0, 10000.0, 100000.0)


def embed(tasks, items, values, shape, n_components=50):
    """Item embeddings of unit root mean square from training values."""
    table = sparse.csr_array((values, (tasks, items)), shape=shape)
    # v0 makes the iteration repeatable.
    start = np.ones(min(shape))
    vectors = svds(table, n_components, v0=start, return_singular_vectors="vh")[2]
    return vectors.T * np.sqrt(shape[1])


class Rows:
    """Rows (task, item, value) with a split, and features from the training rows."""

    def __init__(self, task, item, value, is_training, rng):
        self.task = np.unique(task, return_inverse=True)[1]
        item = np.unique(item, return_inverse=True)[1]
        self.train = is_training
        tune = ~is_training & (rng.random(len(value)) < 0.5)
        self.tune, self.report = tune, ~is_training & ~tune
        self.y = (value - value[is_training].mean()) / value[is_training].std()
        self.unit = value[is_training].std()
        shape = (self.task.max() + 1, item.max() + 1)
        known = self.task[is_training], item[is_training], self.y[is_training]
        self.X = embed(*known, shape)[item]

    def errors(self, predicted):
        """RMSE on the halves for tuning and for reports, in the units of ratings."""
        square = (predicted - self.y) ** 2
        parts = (self.tune, self.report)
        return [self.unit * np.sqrt(square[part].mean()) for part in parts]


# -- data ------------------------------------------------------------------------------


def group_rows(seed):
    """241 groups of MovieLens 1M by gender, age and occupation: mean ratings."""
    movielens, rng = fetch_movielens("ml-1m"), np.random.default_rng(seed)
    users = movielens.users
    traits = pd.DataFrame({n: users[n] for n in ("gender", "age", "occupation")})
    codes = traits.groupby(["gender", "age", "occupation"]).ngroup().to_numpy()
    user, item = movielens.data.T
    group = pd.Series(codes, index=users.user_id)[user].to_numpy()
    table = pd.DataFrame({"task": group, "item": item, "value": movielens.target})
    means = table.groupby(["task", "item"])["value"].mean().reset_index()
    place = means.assign(draw=rng.random(len(means))).groupby("task")["draw"]
    is_training = (place.rank(pct=True) > 0.2).to_numpy()
    task, item, value = means.to_numpy().T
    return Rows(task.astype(int), item.astype(int), value, is_training, rng)


def shares_rows(user, item, value, counts, rng):
    """Keep 10, 50 and 90 % of the ratings of so many users for training."""
    share = rng.permutation(np.repeat([0.1, 0.5, 0.9], counts))[: user.max() + 1]
    draws = pd.Series(rng.random(len(user))).groupby(user).rank(method="first")
    size = np.bincount(user)[user]
    training = draws.to_numpy() <= np.maximum(np.rint(share[user] * size), 2)
    return Rows(user, item, value, training, rng)


def jester_rows(seed):
    """A hundred users who rated a hundred jokes."""
    rng = np.random.default_rng(seed)
    ratings = np.asarray(load_jester().data, dtype=float)
    complete = ratings[(ratings != 0).all(axis=1)]
    chosen = complete[rng.choice(len(complete), 100, replace=False)]
    user, item = np.indices(chosen.shape).reshape(2, -1)
    return shares_rows(user, item, chosen.ravel(), (30, 40, 30), rng)


def block_rows(seed):
    """The thousand users of MovieLens 1M with most ratings on the hundred top movies.

    They stand in for a block of Netflix, whose ratings were withdrawn.
    """
    movielens, rng = fetch_movielens("ml-1m"), np.random.default_rng(seed)
    user, item = movielens.data.T
    movies = np.argsort(-np.bincount(item), kind="stable")[:100]
    known = np.isin(item, movies)
    users = np.argsort(-np.bincount(user[known]), kind="stable")[:1000]
    known &= np.isin(user, users)
    user, item = (np.unique(a[known], return_inverse=True)[1] for a in (user, item))
    value = movielens.target[known].astype(float)
    return shares_rows(user, item, value, (350, 350, 300), rng)


# Rows, hidden layers, ranks, shares of weights that are the task's own, and whether
# tasks have levels.
_SHARES = (0.01, 0.05, 0.1, 0.15, 0.2)
DATA = {
    "groups": (group_rows, (50, 50), (1,), _SHARES, (False,)),
    "jester": (jester_rows, 50, (1,), _SHARES, (False, "user")),
    "block": (block_rows, 50, (1, 2, 3, 4, 5), _SHARES, (False,)),
}


# -- methods ---------------------------------------------------------------------------


def linear(ranks):
    """Return the parameters of linear models: a ridge a task, and low rank."""
    found = {"linear ridge": {"n_components": 0, "sparsity": None}}
    for rank in ranks:
        found[f"linear rep r={rank}"] = {"n_components": rank, "sparsity": 0}
        found[f"linear LRS r={rank} k=3"] = {"n_components": rank, "sparsity": 3}
    return found


def networks(ranks, shares):
    """Return the parameters of each method."""
    fixed = {"shared_weights": "fixed"}
    found = {
        "single": {**fixed, "sparsity": 0},
        "full": {"n_components": 0, "sparsity": None},
        "full from single": {**fixed, "sparsity": None},
        "prompt": {**fixed, "sparsity": 0, "prompt_size": 50},
    }
    for rank in ranks:
        found[f"rep r={rank}"] = {"n_components": rank, "sparsity": 0}
        # The smallest share at all ranks, and the others at the first one.
        for share in shares if rank == ranks[0] else shares[:1]:
            name = f"LRS r={rank} {100 * share:.0f} %"
            found[name] = {"n_components": rank, "sparsity": share}
    return found


def network_errors(rows, parameters, layers, penalties, steps):
    """Errors of one fit, on the half for tuning and on the half for reports."""
    given = {**parameters, "fit_intercept": bool(parameters["fit_intercept"])}
    if "prompt_size" in given or "shared_weights" not in given:
        given["ridge_shared"] = penalties[0]
    model = LRSMLPRegressor(
        **given,
        epsilon=None,
        hidden_layer_sizes=layers,
        ridge_sparse=penalties[1],
        **steps,
    )
    return errors_of(model, rows)


def linear_errors(rows, parameters, penalties):
    """Errors of linear models, which one would try first."""
    model = LRSRegressor(
        **{"ridge_shared": penalties[0], **parameters},
        epsilon=None,
        ridge_sparse=penalties[1],
        solver=Alternation(max_iter=15, tol=1e-3),
        noise_seed=0,
    )
    return errors_of(model, rows)


def errors_of(model, rows):
    """Fit the rows for training, and predict the others."""
    known = rows.train
    model.fit(rows.X[known], rows.y[known], users=rows.task[known])
    predicted = np.zeros(len(rows.y))
    predicted[~known] = model.predict(rows.X[~known], users=rows.task[~known])
    return rows.errors(predicted)


def tuned(chosen, key, grid, fit):
    """Return the reported error of the best candidate, found once, on other rows."""
    if key in chosen:
        return fit(chosen[key])[1]
    errors = [fit(candidate) for candidate in grid]
    best = int(np.argmin([error for error, _ in errors]))
    chosen[key] = grid[best]
    return errors[best][1]


def grid_of(given):
    """Return the pairs of penalties to choose from; those without effect are fixed."""
    alone = given.get("shared_weights") == "fixed" and "prompt_size" not in given
    has_shared = not alone and given.get("n_components", 1) != 0
    shared = PENALTIES if has_shared else PENALTIES[:1]
    own = OWN_PENALTIES if given["sparsity"] != 0 else OWN_PENALTIES[:1]
    return list(itertools.product(shared, own))


def say(*words):
    """Print a line at once."""
    print(*words, flush=True)


def main(name, n_seeds=3, n_rounds=150, rate=0.01, only=None):
    """Choose on the first seed, and report on all."""
    make, layers, ranks, shares, levels = DATA[name]
    steps = {"n_rounds": n_rounds}
    steps |= {"learning_rate": rate, "user_learning_rate": rate}
    chosen, lines = {}, []
    for seed in range(n_seeds):
        rows = make(seed)
        for level in levels:
            for method, given in (networks(ranks, shares) | linear(ranks)).items():
                if only not in (None, method):
                    continue
                given = given | {"fit_intercept": level}
                start = time.process_time()
                if method.startswith("linear"):
                    fit = partial(linear_errors, rows, given)
                else:
                    fit = partial(network_errors, rows, given, layers, steps=steps)
                error = tuned(chosen, (method, level), grid_of(given), fit)
                lines.append((method, bool(level), seed, error))
                spent = time.process_time() - start
                best = chosen[method, level]
                say(name, seed, method, level, best, f"{error:.4f} {spent:.1f} s")
    table = pd.DataFrame(lines, columns=["method", "level", "seed", "RMSE"])
    keys = ["method", "level"]
    say(table.groupby(keys, sort=False)["RMSE"].agg(["mean", "std"]).round(4))


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0], *map(int, given[1:3]), *map(float, given[3:4]), *given[4:])
