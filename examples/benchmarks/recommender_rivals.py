"""Rules and factorizations that recommenders are compared with; for comparison alone.

Plain means, alternating least squares without privacy, and private alternating least
squares as Chien et al. (2021) describe it, at the user level and in the accounting of
the rest: mu of Gaussian differential privacy. Noise is NumPy's: nothing here protects
anything.
"""

from dataclasses import asdict, dataclass, field, replace

import numpy as np
from recommender import group_means
from scipy import sparse

from skdpspectral.accounting import gaussian_mu

N_LIST = 20


@dataclass
class Rows:
    """Ratings by codes of users and items."""

    users: np.ndarray
    items: np.ndarray
    y: np.ndarray
    shape: tuple  # of all users and items, rated here or not

    def by_users(self, values):
        """Return users x items with these values of the rows."""
        return sparse.csr_array((values, (self.users, self.items)), shape=self.shape)

    def chosen(self, rows):
        """Return some of the rows."""
        return Rows(self.users[rows], self.items[rows], self.y[rows], self.shape)


@dataclass
class Rule:
    """What is predicted: a user's level, an item's offset, and products of factors."""

    levels: np.ndarray
    offsets: np.ndarray
    user_factors: np.ndarray
    item_factors: np.ndarray
    log_counts: np.ndarray = field(default=None)

    def predict(self, users, items):
        """Return predictions of pairs, between 1 and 5."""
        products = np.einsum(
            "ij,ij->i", self.user_factors[users], self.item_factors[items]
        )
        return np.clip(self.levels[users] + self.offsets[items] + products, 1.0, 5.0)

    def lists(self, users, seen, popularity):
        """Return the best unseen items of each user, best first."""
        found = []
        extra = popularity * self.log_counts if popularity else 0.0
        for part in np.array_split(users, max(1, len(users) // 500)):
            scores = self.user_factors[part] @ self.item_factors.T
            scores += self.offsets + extra
            rows, columns = seen[part].nonzero()
            scores[rows, columns] = -np.inf
            best = np.argpartition(-scores, N_LIST, axis=1)[:, :N_LIST]
            order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
            found.append(np.take_along_axis(best, order, 1))
        return np.vstack(found)


# -- without privacy, or without any release -----------------------------------------


def means(rows):
    """Return rules of plain means, by name."""
    n_users, n_items = rows.shape
    mean = rows.y.mean()
    item = group_means(rows.items, rows.y, n_items, 5.0, mean)
    rest = rows.y - item[rows.items]
    user = group_means(rows.users, rest, n_users, 5.0, 0.0)
    own = group_means(rows.users, rows.y, n_users, 0.0, 0.0)
    none = np.zeros((n_users, 0)), np.zeros((n_items, 0))
    logs = np.log1p(np.bincount(rows.items, minlength=n_items))
    return {
        "own mean (local)": Rule(own, np.zeros(n_items), *none, logs),
        "movie mean (exact)": Rule(np.zeros(n_users), item, *none, logs),
        "item + user (exact)": Rule(user, item, *none, logs),
    }


def unpacked(packed, k):
    """Return symmetric matrices from upper triangles."""
    matrices = np.empty((len(packed), k, k))
    upper = np.triu_indices(k)
    matrices[:, upper[0], upper[1]] = matrices[:, upper[1], upper[0]] = packed
    return matrices


def pairs(features):
    """Return products of two features each, as upper triangles."""
    upper = np.triu_indices(features.shape[1])
    return features[:, upper[0]] * features[:, upper[1]]


def ridges(table, features, penalties):
    """Return a ridge regression for each row of a sparse table, all in one batch."""
    ones = sparse.csr_array((np.ones_like(table.data), table.indices, table.indptr))
    ones.resize(table.shape)
    k = features.shape[1]
    grams = unpacked(ones @ pairs(features), k) + np.diag(penalties)
    return np.linalg.solve(grams, (table @ features)[:, :, None])[:, :, 0]


def als(rows, penalty, rank=20, n_steps=10, offset_penalty=3.0, seed=0):
    """Alternating least squares with levels and offsets; nothing is private."""
    n_users, n_items = rows.shape
    rng = np.random.default_rng(seed)
    mean = rows.y.mean()
    offsets = group_means(rows.items, rows.y - mean, n_items, 5.0, 0.0)
    factors = 0.3 * rng.normal(size=(n_items, rank)) / np.sqrt(rank)
    penalties = np.r_[offset_penalty, np.full(rank, penalty)]
    for step in range(n_steps):
        table = rows.by_users(rows.y - mean - offsets[rows.items])
        found = ridges(table, np.column_stack([np.ones(n_items), factors]), penalties)
        levels, tastes = found[:, 0], found[:, 1:]
        if step == n_steps - 1:  # users' models last, as they are used
            break
        table = rows.by_users(rows.y - mean - levels[rows.users]).T.tocsr()
        found = ridges(table, np.column_stack([np.ones(n_users), tastes]), penalties)
        offsets, factors = found[:, 0], found[:, 1:]
    logs = np.log1p(np.bincount(rows.items, minlength=n_items))
    return Rule(mean + levels, offsets, tastes, factors, logs)


# -- private alternating least squares -----------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What the private ALS leaves to be tuned, for each table and budget.

    Users' vectors are clipped to norm 1 and centered ratings to +-`bound`; of a user
    `per_user` ratings count in what is released, random ones or those of the items
    rated least; `frequent` is the share of items that take part, by released counts.
    Levels of users' own, and equal first weights at the start, which make the first
    step one of offsets of items, are not in the paper; they help it a lot.
    """

    start: str = "level"  # all users' first weights are the same; or "random" factors
    center: str = "own"  # or "mean", one released mean of all, as in the paper
    rank: int = 1
    n_steps: int = 1
    per_user: int = 100
    rare_first: bool = True
    frequent: float = 0.25
    penalty: float = 6.0  # of items, in deviations of the noise
    user_penalty: float = 0.3
    bound: float = 1.0


CANDIDATES = {
    "per_user": (30, 100, 300),
    "frequent": (0.1, 0.25, 0.5, 1.0),
    "penalty": (2.0, 6.0, 18.0),
    "start": ("level", "random"),
    "center": ("own", "mean"),
    "rank": (1, 2, 5),
    "n_steps": (1, 2, 4),
    "user_penalty": (0.1, 0.3, 1.0, 10.0),
    "rare_first": (True, False),
    "bound": (0.5, 1.0, 2.0),
}
# Shares of mu**2 of the mean and of the counts; the steps have the rest.
OF_MEAN, OF_COUNTS = 0.01, 0.1


def ranks_within(users, keys):
    """Return the place of each row among those of its user, least key first."""
    order = np.lexsort((keys, users))
    _, first, counts = np.unique(users[order], return_index=True, return_counts=True)
    places = np.empty(len(users), dtype=int)
    places[order] = np.arange(len(users)) - np.repeat(first, counts)
    return places


def private_mean(rows, mu, rng):
    """Return the mean of users' own means: (1, mean in [-1, 1]) of each is released."""
    own = group_means(rows.users, rows.y, rows.shape[0], 0.0, 0.0)
    own = own[np.unique(rows.users)]
    sums = np.array([len(own), np.clip((own - 3.0) / 2.0, -1.0, 1.0).sum()])
    count, total = sums + np.sqrt(2.0) / mu * rng.normal(size=2)
    return 3.0 + 2.0 * np.clip(total / max(count, 1.0), -1.0, 1.0)


def private_factors(sample, tastes, residuals, mu, settings, rng):
    """Return factors of items from noisy sums over users: normal equations, ridged.

    A user moves the equations of at most `per_user` items, each by an outer product of
    norm at most 1 and by a right side of norm at most `bound`.
    """
    n_items, k = sample.shape[1], tastes.shape[1]
    deviation = np.sqrt(2.0 * settings.per_user) / mu
    ones, table = sample.by_users_of(residuals)
    upper = np.triu_indices(k)
    # Entries off the diagonal stand twice in the norm of the outer product.
    scale = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    grams = ones.T @ (pairs(tastes) * scale)
    grams = unpacked((grams + deviation * rng.normal(size=grams.shape)) / scale, k)
    sides = table.T @ tastes
    sides = sides + settings.bound * deviation * rng.normal(size=(n_items, k))
    values, vectors = np.linalg.eigh(grams)
    values = np.maximum(values, 0.0) + settings.penalty * deviation + 3.0
    turned = np.einsum("nji,nj->ni", vectors, sides) / values
    return np.einsum("nij,nj->ni", vectors, turned)


@dataclass
class Sample(Rows):
    """The rows that count in releases."""

    def by_users_of(self, values):
        """Return users x items of ones, and of values."""
        return self.by_users(np.ones(len(values))), self.by_users(values)


def private_als(rows, epsilon, settings, delta=1e-6, seed=0):
    """Private ALS for users with all of their ratings (add-remove-one)."""
    n_users, n_items = rows.shape
    rng = np.random.default_rng(seed)
    mu = np.inf if epsilon is None else gaussian_mu(epsilon, delta)
    mean = private_mean(rows, mu * np.sqrt(OF_MEAN), rng)
    some = ranks_within(rows.users, rng.random(len(rows.y))) < settings.per_user
    counts = np.bincount(rows.items[some], minlength=n_items).astype(float)
    deviation = np.sqrt(settings.per_user) / (mu * np.sqrt(OF_COUNTS))
    counts += deviation * rng.normal(size=n_items)
    n_kept = max(1, round(settings.frequent * n_items))
    kept = np.zeros(n_items, dtype=bool)
    kept[np.argsort(-counts)[:n_kept]] = True

    own = group_means(rows.users, rows.y, n_users, 5.0, mean)
    levels = own if settings.center == "own" else np.full(n_users, mean)
    rows = rows.chosen(kept[rows.items])
    residuals = rows.y - levels[rows.users]
    keys = counts[rows.items] if settings.rare_first else rng.random(len(rows.y))
    some = ranks_within(rows.users, keys) < settings.per_user
    sample = Sample(
        *(part[some] for part in (rows.users, rows.items, rows.y)), rows.shape
    )
    clipped = np.clip(residuals[some], -settings.bound, settings.bound)
    factors = rng.normal(size=(n_items, settings.rank)) / np.sqrt(settings.rank)
    factors[~kept] = 0.0
    table = rows.by_users(residuals)
    penalties = np.full(settings.rank, settings.user_penalty)
    step_mu = mu * np.sqrt((1.0 - OF_MEAN - OF_COUNTS) / settings.n_steps)
    for step in range(settings.n_steps):
        tastes = ridges(table, factors, penalties)
        if step == 0 and settings.start == "level":
            tastes[:, 0] = 1.0
        tastes /= np.maximum(np.linalg.norm(tastes, axis=1), 1.0)[:, None]
        given = sample, tastes, clipped, step_mu, settings, rng
        factors = private_factors(*given) * kept[:, None]
    logs = np.log(np.maximum(counts, max(deviation, 1.0)))
    tastes = ridges(table, factors, penalties)
    return Rule(levels, np.zeros(n_items), tastes, factors, logs)


def tuned_settings(error_of, n_rounds=1):
    """Return the best settings, found one by one, and their error."""
    best = Settings()
    least = error_of(best)
    for _ in range(n_rounds):
        for name, values in CANDIDATES.items():
            for value in values:
                candidate = replace(best, **{name: value})
                error = np.inf if candidate == best else error_of(candidate)
                if error < least:
                    best, least = candidate, error
    return asdict(best), least
