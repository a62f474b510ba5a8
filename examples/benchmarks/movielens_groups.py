"""Low rank plus sparse models of MovieLens and Jester, beside simpler models.

After the comparisons of Pal et al. (2023) on MovieLens, Netflix and Jester; a block of
MovieLens stands in for Netflix. ``plot_movielens_groups.py`` draws them.

    python examples/benchmarks/movielens_groups.py table_1 groups jester_completed

Rules:

- Item embeddings come from training ratings alone: leading right singular vectors of
  tasks x items, ratings measured from their training mean. For Netflix and Jester the
  paper completes the table by its nuclear norm first; Jester is shown with either.
- Penalties of every method are chosen on one half of the validation rows of the first
  seed. Errors are reported on the other half, of every seed.
- "Prompt" learning adds a learned vector to each task's features. A linear model sees
  one number of it, an intercept of the task's own; "prompt" counts this number,
  "prompt, 50 numbers" the vector, as the paper does.
- Every method runs with and without an intercept for each task.
"""

import functools
import itertools
import sys
import warnings

import numpy as np
import pandas as pd
from real_tables import fetch_movielens, load_jester
from scipy import sparse
from scipy.sparse.linalg import svds

from skdpspectral import LRSRegressor
from skdpspectral.linear_model import Alternation

penalties = (1.0, 10.0, 100.0, 1000.0)
full_penalties = (*penalties[1:], 10000.0, 100000.0)


@functools.cache
def load():
    """Return MovieLens 1M and Jester."""
    return fetch_movielens("ml-1m"), load_jester()


def embed(tasks, items, values, shape, n_components=50):
    """Item embeddings of unit root mean square from training values."""
    table = sparse.csr_array((values, (tasks, items)), shape=shape)
    # v0 makes the iteration repeatable.
    start = np.ones(min(shape))
    vectors = svds(table, n_components, v0=start, return_singular_vectors="vh")[2]
    return vectors.T * np.sqrt(shape[1])


def completed_embedding(tasks, items, values, shape, held, n_components=50):
    """Item embeddings from a table that is completed by its nuclear norm.

    The paper's way on Netflix and Jester: the missing entries are those of the fit, of
    which each step shrinks the singular values. Of six penalties the best is taken on
    what is held out for tuning, `held`: tasks, items and values.
    """
    table, known = np.zeros(shape), np.zeros(shape, dtype=bool)
    table[tasks, items], known[tasks, items] = values, True
    largest = np.linalg.norm(table, 2)
    found = []
    for share in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        fit = np.zeros(shape)
        for _ in range(200):
            left, size, right = np.linalg.svd(
                np.where(known, table, fit), full_matrices=False
            )
            fit = left * np.maximum(size - share * largest, 0.0) @ right
        found.append((np.mean((fit[held[0], held[1]] - held[2]) ** 2), fit))
    fit = min(found, key=lambda one: one[0])[1]
    vectors = np.linalg.svd(fit, full_matrices=False)[2][:n_components]
    return vectors.T * np.sqrt(shape[1])


class Rows:
    """Rows (task, item, value) with a split, and features from the training rows."""

    def __init__(self, task, item, value, is_training, rng):
        self.task = np.unique(task, return_inverse=True)[1]
        item = np.unique(item, return_inverse=True)[1]
        self.train = is_training
        tune = ~is_training & (rng.random(len(value)) < 0.5)
        self.tune, self.report = tune, ~is_training & ~tune
        self.y = value - value[is_training].mean()
        self.n_tasks = self.task.max() + 1
        shape = (self.n_tasks, item.max() + 1)
        own = self.task[is_training], item[is_training], self.y[is_training]
        self.item, self.shape = item, shape
        self.X = embed(*own, shape)[item]
        count = np.bincount(own[1], minlength=shape[1]) + 3.0
        self.item_mean = (np.bincount(own[1], own[2], shape[1]) / count)[item]

    def complete(self):
        """Take the embedding of the completed table instead."""
        own, held = (
            (self.task[part], self.item[part], self.y[part])
            for part in (self.train, self.tune)
        )
        self.X = completed_embedding(*own, self.shape, held)[self.item]
        return self

    def error(self, predicted, part):
        return np.sqrt(np.mean((predicted - self.y)[part] ** 2))


def centered(rows, intercept):
    """Features and targets about the tasks' training means, and these means."""
    if not intercept:
        return rows.X, rows.y, np.zeros(len(rows.y))
    indicator = sparse.csr_array(
        (np.ones(rows.train.sum()), (rows.task[rows.train], np.flatnonzero(rows.train)))
    )
    indicator.resize((rows.n_tasks, len(rows.y)))
    count = indicator.sum(axis=1)[:, None]
    X_mean, y_mean = indicator @ rows.X / count, indicator @ rows.y[:, None] / count
    own = y_mean[rows.task, 0]
    return rows.X - X_mean[rows.task], rows.y - own, own


def prompt(rows, penalty, n_turns=5):
    """A vector c of 50 numbers a task beside its features: <u, x> + <v, c>.

    Of vectors with one product with v the shortest is along v, so that alternating
    least squares has c = a v / |v|^2 with a task's number a, shrunk by its penalty.
    """
    known, task = rows.train, rows.task[rows.train]
    count = np.bincount(task, minlength=rows.n_tasks)
    own = np.zeros(rows.n_tasks)
    for _ in range(n_turns):
        u = ridge(rows.X[known], rows.y[known] - own[task], 1.0)
        rest = rows.y[known] - rows.X[known] @ u
        own = np.bincount(task, rest, rows.n_tasks) / (count + penalty)
    return rows.X @ u + own[rows.task]


def ridge(X, y, penalty):
    return np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ y)


def single(rows, intercept, penalty):
    """One model for all tasks."""
    X, y, own = centered(rows, intercept)
    return X @ ridge(X[rows.train], y[rows.train], penalty) + own


def full(rows, intercept, penalty):
    """A model for each task, shrunk towards the single one."""
    X, y, own = centered(rows, intercept)
    predicted = X @ ridge(X[rows.train], y[rows.train], 10.0) + own
    for task in range(rows.n_tasks):
        mine = np.flatnonzero(rows.task == task)
        known = mine[rows.train[mine]]
        rest = rows.y[known] - predicted[known]
        predicted[mine] += X[mine] @ ridge(X[known], rest, penalty)
    return predicted


def low_rank(rows, intercept, rank, sparsity, shared, sparse_penalty=100.0):
    """Representation learning with sparsity 0, low rank plus sparse otherwise."""
    model = LRSRegressor(
        rank,
        sparsity,
        epsilon=None,
        fit_intercept="user" if intercept else False,
        ridge_shared=shared,
        ridge_sparse=sparse_penalty,
        solver=Alternation(max_iter=15, tol=1e-3),
        noise_seed=0,
    )
    known = rows.train
    model.fit(rows.X[known], rows.y[known], users=rows.task[known])
    return model.predict(rows.X, users=rows.task)


def tuned(rows, method, candidates, chosen):
    """Error on the reported half of the candidate that is best on the other.

    It is sought on the first seed, and `chosen` for all.
    """
    key = method.__name__, candidates[0]
    if key not in chosen:
        fits = [method(rows, *candidate) for candidate in candidates]
        errors = [rows.error(fit, rows.tune) for fit in fits]
        chosen[key] = candidates[int(np.argmin(errors))]
        print(method.__name__, chosen[key], np.round(errors, 4), flush=True)
    return rows.error(method(rows, *chosen[key]), rows.report)


def compare(rows, settings, sparse_penalties, chosen, seed, name):
    """One line a method: its parameters and its error on the reported half.

    Low rank plus sparse has two penalties, each chosen with the other.
    """
    d, t = rows.X.shape[1], rows.n_tasks
    lines = [("item's mean", False, 0, rows.error(rows.item_mean, rows.report))]
    error = tuned(rows, prompt, [(penalty,) for penalty in penalties], chosen)
    lines.append(("prompt, 50 numbers", False, d + 50 * t, error))
    for own in (False, True):
        candidates = [(own, penalty) for penalty in penalties]
        label = "prompt" if own else "single"
        error = tuned(rows, single, candidates, chosen)
        lines.append((label, own, d + t * own, error))
        error = tuned(rows, full, [(own, c) for c in full_penalties], chosen)
        lines.append(("full", own, t * (d + own), error))
        mine = [(rank, k) for intercept, rank, k in settings if intercept == own]
        for rank in sorted({rank for rank, _ in mine}):
            candidates = [(own, rank, 0, penalty) for penalty in penalties[1:]]
            error = tuned(rows, low_rank, candidates, chosen)
            count = rank * (d + t) + t * own
            lines.append((f"rep r={rank}", own, count, error))
            for k in (k for r, k in mine if r == rank):
                candidates = [
                    (own, rank, k, *two)
                    for two in itertools.product(penalties[1:], sparse_penalties)
                ]
                error = tuned(rows, low_rank, candidates, chosen)
                lines.append((f"LRS r={rank} k={k}", own, count + t * k, error))
    columns = ["method", "own intercept", "parameters", "RMSE"]
    return pd.DataFrame(lines, columns=columns).assign(seed=seed, data=name)


def summary(results):
    """Mean and standard error over seeds, and the best baseline of no more parameters.

    Baselines are all methods but LRS, the item's mean aside. Differences from the
    best of them are taken seed by seed.
    """
    keys = ["method", "own intercept", "parameters"]
    wide = results.pivot(index=keys, columns="seed", values="RMSE")
    wide = wide.reindex(pd.MultiIndex.from_frame(results[keys].drop_duplicates()))
    mean = wide.mean(axis=1)
    names, size = (wide.index.get_level_values(key) for key in (keys[0], keys[2]))
    is_simple = ~names.str.startswith(("LRS", "item"))
    lines = []
    for position in range(len(wide)):
        se = wide.iloc[position].std() / np.sqrt(wide.shape[1])
        line = {"RMSE": mean.iloc[position], "se": se}
        if names[position].startswith("LRS"):
            best = mean[is_simple & (size <= size[position])].idxmin()
            difference = wide.iloc[position] - wide.loc[best]
            line |= {"rival": f"{best[0]}{' +c' if best[1] else ''}"}
            se = difference.std() / np.sqrt(len(difference))
            line |= {"minus rival": difference.mean(), "se ": se}
        lines.append(line)
    table = pd.DataFrame(lines, index=wide.index).reset_index().round(4)
    return table.to_string(index=False, na_rep="")


def group_rows(seed):
    """Rows of groups, with an embedding of groups x movies."""
    return split_groups(seed)[0]


def group_rows_of_users(seed):
    """The same, with an embedding of users x movies from the same training ratings."""
    rows, table, is_training = split_groups(seed)
    known = table[is_training[table.row]]
    item, value = rows.item[known.row], known.value - known.value.mean()
    shape = (known.user.max() + 1, rows.item.max() + 1)
    rows.X = embed(known.user, item, value, shape)[rows.item]
    return rows


def split_groups(seed):
    rng = np.random.default_rng(seed)
    movielens = load()[0]
    users = movielens.users
    traits = pd.DataFrame({n: users[n] for n in ("gender", "age", "occupation")})
    codes = traits.groupby(["gender", "age", "occupation"]).ngroup().to_numpy()
    user, item = movielens.data.T
    group = pd.Series(codes, index=users.user_id)[user].to_numpy()
    table = pd.DataFrame(
        {"user": user, "task": group, "item": item, "value": movielens.target}
    )
    pairs = table.groupby(["task", "item"])
    table["row"] = pairs.ngroup()
    means = pairs["value"].mean().reset_index()
    place = means.assign(draw=rng.random(len(means))).groupby("task")["draw"]
    is_training = (place.rank(pct=True) > 0.2).to_numpy()
    return Rows(*means.to_numpy().T, is_training, rng), table, is_training


def repeated(make_rows, settings, sparse_penalties, name, n_seeds=3):
    results, chosen = [], {}
    for seed in range(n_seeds):
        found = make_rows(seed), settings, sparse_penalties, chosen, seed, name
        results.append(compare(*found))
    results = pd.concat(results)
    print(f"{name}: {n_seeds} seeds\n{summary(results)}\n", flush=True)
    return results


def shares_rows(user, item, value, counts, rng):
    """Keep 10, 50 and 90 % of the ratings of so many users for training."""
    n_users = user.max() + 1
    share = rng.permutation(np.repeat([0.1, 0.5, 0.9], counts))[:n_users]
    draws = pd.Series(rng.random(len(user))).groupby(user).rank(method="first")
    size = np.bincount(user)[user]
    training = draws.to_numpy() <= np.maximum(np.rint(share[user] * size), 2)
    return Rows(user, item, value, training, rng)


def jester_rows(seed):
    rng = np.random.default_rng(seed)
    ratings = np.asarray(load()[1].data, dtype=float)
    complete = ratings[(ratings != 0).all(axis=1)]
    chosen = complete[rng.choice(len(complete), 100, replace=False)]
    user, item = np.indices(chosen.shape).reshape(2, -1)
    return shares_rows(user, item, chosen.ravel(), (30, 40, 30), rng)


def block_rows(seed):
    movielens, rng = load()[0], np.random.default_rng(seed)
    user, item = movielens.data.T
    movies = np.argsort(-np.bincount(item), kind="stable")[:100]
    known = np.isin(item, movies)
    users = np.argsort(-np.bincount(user[known]), kind="stable")[:1000]
    known &= np.isin(user, users)
    user, item = (np.unique(a[known], return_inverse=True)[1] for a in (user, item))
    value = movielens.target[known].astype(float)
    return shares_rows(user, item, value, (350, 350, 300), rng)


def table_1(t, ranks, sparsities, d=50):
    """Return the numbers of parameters of all methods of the paper's table 1.

    All of its rows are these but one: 10,050 is printed for the prompts of Netflix,
    where 1,000 users have 50,050 (10,050 is the number for 200).
    """
    counts = {"single model": d, "full fine-tuning": t * d, "prompt": d + t * d}
    for r in ranks:
        counts[f"representation, r={r}"] = r * (d + t)
        for k in sparsities:
            counts[f"low rank and sparse, r={r}, {2 * k} %"] = r * (d + t) + t * k
    return counts


def completed_jester_rows(seed):
    """Rows of Jester with the paper's embedding."""
    return jester_rows(seed).complete()


def print_table_1():
    """Print all numbers of parameters."""
    for name, setting in {
        "MovieLens": (241, [1], [1, 3, 5, 8, 10]),
        "Jester": (100, [1], [1, 2, 3, 4, 5]),
        "Netflix": (1000, [1, 2, 3, 4, 5], [1]),
    }.items():
        counts = table_1(*setting)
        print(name, ", ".join(f"{method} {n:,}" for method, n in counts.items()))


few_penalties, large_penalties = (30.0, 300.0, 3000.0, 30000.0), (3e4,)
jester_settings = [(False, 1, 5)] + [(True, 1, k) for k in (1, 3, 5)]
# Rows, settings and penalties of the comparisons that papers.rst names, and seeds.
CASES = {
    "groups": (group_rows, [(True, 1, 8)], large_penalties, 1),
    "groups_of_users": (
        group_rows_of_users,
        [(False, 1, 8)],
        large_penalties,
        3,
    ),
    "jester": (jester_rows, jester_settings, few_penalties, 12),
    "jester_completed": (completed_jester_rows, jester_settings, few_penalties, 12),
    "block": (block_rows, [(True, r, 1) for r in (1, 2, 3)], few_penalties, 3),
}


def print_differences(results):
    """Print differences between methods, paired by seed, with standard errors."""
    keys = ["method", "own intercept"]
    wide = results.pivot(index="seed", columns=keys, values="RMSE")
    for method in (one for one in wide if one[0].startswith("LRS")):
        for other in (one for one in wide if not one[0].startswith(("LRS", "item"))):
            values = wide[method] - wide[other]
            error = values.std() / np.sqrt(len(values))
            names = " - ".join(f"{m}{' +c' if c else ''}" for m, c in (method, other))
            print(f"{names}: {values.mean():.4f} +- {error:.4f}")


if __name__ == "__main__":
    # "table_1", and names of CASES
    warnings.simplefilter("ignore")  # epsilon=None; few turns of models without parts
    for case in sys.argv[1:]:
        if case == "table_1":
            print_table_1()
        else:
            *given, n_seeds = CASES[case]
            print_differences(repeated(*given, case, n_seeds))
