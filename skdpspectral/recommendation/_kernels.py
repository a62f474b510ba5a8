"""Ratings by user, users' contributions, and models of items and users.

A contribution is a vector of norm at most 1 in whole steps, made from one user's
ratings and public numbers alone. Functions return the sum over the users of a block:
whole numbers, which add up without rounding, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._linalg.eigen import pack_lower
from .._linalg.per_user import eliminate_upper
from .._linalg.walks import map_in_threads, quietly

# Ratings and users of a block: what is made of them fits in memory many times.
_BLOCK_RATINGS = 1 << 19
_BLOCK_USERS = 1 << 13


class RatingsBlock:
    """Some users, one after another, with the items that each of them rated."""

    def __init__(self, users: slice, pointer, items, values, n_items: int) -> None:
        # Codes of a user's items ascend: none is there twice.
        self.users, self.pointer, self.items = users, pointer, items
        self.values, self.n_items = values, n_items
        # Not when they are asked for first: that would take a lock, which a fork keeps.
        self.counts = np.diff(pointer)
        self.of_user = np.repeat(np.arange(len(self)), self.counts)

    def __len__(self) -> int:
        return len(self.pointer) - 1

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sum over each user's ratings, in order."""
        return np.bincount(self.of_user, values, len(self))

    def item_totals(self, values: np.ndarray) -> np.ndarray:
        """Sum over the ratings of each item: exact for integers only."""
        return np.bincount(self.items, values, self.n_items)

    def products(self, rows: np.ndarray, values: np.ndarray | None = None):
        """Sum rows of items over each user's ratings, by `values`: (n_users, q)."""
        return self.clicks(values) @ rows  # in order: the same bits among others

    def clicks(self, values: np.ndarray | None = None) -> sparse.csr_array:
        """Return users x items, of ones or of a value for each rating."""
        values = np.ones(len(self.items)) if values is None else values
        shape = (len(self), self.n_items)
        return sparse.csr_array((values, self.items, self.pointer), shape=shape)

    def lengths(self, values: np.ndarray) -> np.ndarray:
        """Norms of each user's values, at least a tiny number."""
        return np.maximum(np.sqrt(self.totals(values * values)), _SHORTEST)


class UserRatings:
    """The last rating of every user and item, by user and then by item."""

    def __init__(self, users, items, values, shape, middle=0.0, unit=1.0):
        self.n_users, self.n_items = shape
        self._units = middle, unit  # values are (rating - middle) / unit
        # Items outside the catalog come last, by a code of their own, until they go.
        places = users, np.where(items < 0, self.n_items, items)
        values = np.asarray(values, dtype=np.float64)
        rows = sparse.coo_array((values, places), (self.n_users, self.n_items + 1))
        rows.has_canonical_format = True  # else entries of one place would be added
        # Twice sorted by counting: entries of one place stay in order.
        rows = rows.tocsc().tocsr()
        found, ends = rows.indices, rows.indptr
        last = np.ones(len(found), dtype=bool)
        last[:-1] = found[1:] != found[:-1]
        last[ends[1:][ends[1:] > 0] - 1] = True  # of a user, whoever comes next
        last &= found < self.n_items
        self.items, self._values = found[last], rows.data[last]
        # Where each user's ratings begin and end.
        self.pointer = np.concatenate(([0], np.cumsum(last, dtype=np.int64)))[ends]

    def blocks(self) -> Iterator[RatingsBlock]:
        """Yield all users, a few at a time; a user's ratings are never split."""
        start, pointer = 0, self.pointer
        while start < self.n_users:
            limit = pointer[start] + _BLOCK_RATINGS
            stop = int(np.searchsorted(pointer, limit, side="right")) - 1
            stop = min(max(stop, start + 1), start + _BLOCK_USERS, self.n_users)
            rows = slice(pointer[start], pointer[stop])
            yield RatingsBlock(
                slice(start, stop),
                (pointer[start : stop + 1] - rows.start).astype(np.int32),
                self.items[rows].astype(np.int32),
                self._in_units(rows),
                self.n_items,
            )
            start = stop

    @quietly
    def _in_units(self, rows: slice) -> np.ndarray:
        middle, unit = self._units
        return (self._values[rows] - middle) / unit

    def map(self, function: Callable, n_jobs: int | None = None):
        """Apply a function to every block, in threads; yield what it returns."""
        return map_in_threads(function, self.blocks(), n_jobs)


# Items for which the norm bound of a contribution holds: terms of a sum.
MOST_ITEMS = 2**26 - 1
# Entries are held in steps of 2**-21, rounded towards zero: sums over at most 2**31
# users, of entries of modulus at most 1, are exact in float64.
STEP = 2.0**-21
# Residuals count up to this many units, of which the range of ratings has four.
LARGEST_VALUE = 3.0
# A user's mean is drawn to the middle of the range as by so many ratings there.
_PRIOR_RATINGS = 3.0
# Each number about a user as a whole has this scale, exact in steps.
SIDE = 0.125
# What is left to the ratings, beside three such numbers, one, and none: the squares
# add up to less than 1 by more than rounding can put on top.
SHARE_BESIDE_THREE = 0.976
SHARE_BESIDE_ONE = 0.992
SHARE_ALONE = 1.0 - 2.0**-20
# Lengths below this are taken for it. Residuals so small as to have a square that
# underflows then come to nothing, whatever stands beside them.
_SHORTEST = 2.0**-100
# Largest ratio of a user's weights in two rounds that is told.
LARGEST_RATIO = 4.0


def _steps(values: np.ndarray) -> np.ndarray:
    return np.trunc(values / STEP)


def clip_residuals(values: np.ndarray) -> np.ndarray:
    """Clip residuals."""
    return np.clip(values, -LARGEST_VALUE, LARGEST_VALUE)


def from_own_mean(block: RatingsBlock) -> tuple[np.ndarray, np.ndarray]:
    """Return users' shrunk means, and clipped ratings minus them."""
    means = block.totals(block.values) / (block.counts + _PRIOR_RATINGS)
    return means, clip_residuals(block.values - means[block.of_user])


def first_weights(block: RatingsBlock, centered: np.ndarray) -> np.ndarray:
    """Weight of a user such that one and residual, over their items, have norm 1."""
    squares = block.counts + block.totals(centered * centered)
    return SHARE_BESIDE_THREE / np.sqrt(np.maximum(squares, 1.0))


def centered_contributions(block: RatingsBlock) -> np.ndarray:
    """Sum users' weights, weighted residuals, and three numbers about each user."""
    means, centered = from_own_mean(block)
    weights = first_weights(block, centered)
    some = block.counts > 0
    squares = block.totals(centered * centered)
    spread = squares / np.maximum(block.counts + squares, 1.0)
    level = np.clip(means, -1.0, 1.0)  # shrunk means
    sides = [_steps(SIDE * side[some]).sum() for side in (some, spread, level)]
    own = weights[block.of_user]
    return np.concatenate(
        [
            block.item_totals(_steps(own)),
            block.item_totals(_steps(own * centered)),
            sides,
        ]
    )


def click_contributions(block: RatingsBlock, scale: float = 1.0) -> np.ndarray:
    """Sum users' equal entries, of norm up to `scale`, in steps, and count users."""
    weights = scale * SHARE_BESIDE_ONE / np.sqrt(np.maximum(block.counts, 1.0))
    n_users = np.count_nonzero(block.counts)
    answers = block.item_totals(_steps(weights[block.of_user]))
    return np.append(answers, _steps(np.float64(scale * SIDE)) * n_users)


# Squared norm of a user's clicks beyond popularity, and the number beside their pairs:
# half of the square of the first and the square of the other are below 1/2.
PAIR_SQUARE, PAIR_SIDE = 0.992, 0.0875
# Users have taste if as much is left of their clicks: far more than rounding.
_LEAST_TASTE_SQUARE = 2.0**-10
# Clicks beyond popularity are in steps of 2**-11, their products in half of a `STEP`.
_PAIR_STEPS = 2.0**11
# Users whose clicks of the head are in memory together.
_HEAD_USERS = 1 << 10


def pair_contributions(
    block: RatingsBlock, head: np.ndarray, popularity: np.ndarray
) -> np.ndarray:
    """Sum pairs of clicks beyond popularity: a lower triangle in halves of a step."""
    n_head = len(head)
    columns = np.zeros((block.n_items, 2))
    columns[head] = np.column_stack([popularity, np.ones(n_head)])
    along, counts = block.products(columns).T
    squares = counts - along * along  # of what is left of users' clicks of the head
    some = squares > _LEAST_TASTE_SQUARE  # others answer with zeros
    squares = np.where(some, squares, 1.0)
    scales = _PAIR_STEPS * np.sqrt(PAIR_SQUARE / squares)  # to a common norm
    clicks, total = block.clicks()[:, head], np.zeros((n_head, n_head))
    for start in range(0, len(block), _HEAD_USERS):
        part = slice(start, start + _HEAD_USERS)
        left = clicks[part].toarray()
        left -= along[part, None] * popularity
        left *= np.where(some, scales, 0.0)[part, None]
        np.trunc(left, out=left)
        total += left.T @ left  # whole numbers, exact in any order
    np.fill_diagonal(total, 0.0)  # squares are left out
    ratios = np.minimum(counts * counts / (squares * n_head), 1.0)[some]
    total[0, 0] = 2.0 * _steps(PAIR_SIDE * ratios).sum()  # in place of the first
    return 0.5 * pack_lower(total)


def residual_contributions(block: RatingsBlock, residuals: np.ndarray) -> np.ndarray:
    """Sum users' clipped residuals, scaled to a common norm, and what one weighs."""
    weights = SHARE_BESIDE_ONE / block.lengths(residuals)
    before = first_weights(block, from_own_mean(block)[1])
    some = block.counts > 0
    ratios = np.minimum(weights / before / LARGEST_RATIO, 1.0)[some]
    answers = block.item_totals(_steps(weights[block.of_user] * residuals))
    return np.append(answers, _steps(SIDE * ratios).sum())


def taste_contributions(
    block: RatingsBlock, residuals, tastes: np.ndarray
) -> np.ndarray:
    """Sum products of users' unit residuals and unit tastes, (n_items, k), in steps."""
    square = np.zeros(len(block))
    for taste in tastes.T:
        square += taste * taste
    lengths = np.maximum(np.sqrt(square), _SHORTEST)
    unit = residuals * (SHARE_ALONE / block.lengths(residuals))[block.of_user]
    return np.column_stack(
        [
            block.item_totals(_steps(unit * (taste / lengths)[block.of_user]))
            for taste in tastes.T
        ]
    )


# Counts of items are taken for this where noise has left less.
SMALLEST_COUNT = 1e-3
# Logarithms of counts begin here, or at their noise.
_SMALLEST_LOGGED = 0.5
# Rounds of prior and variance in turn.
_ROUNDS = 5
# Public features are reduced to so many components.
MOST_TASTES = 24


class Shrunk(NamedTuple):
    """Means and variances of items' values, and their prior, of variance `spread`."""

    values: np.ndarray
    prior: np.ndarray
    variance: np.ndarray
    spread: float


def log_counts(counts: np.ndarray, shift: float) -> np.ndarray:
    """Return logarithms of noisy counts, at least half a rating or `shift`."""
    return np.log(np.maximum(counts, 0.0) + max(_SMALLEST_LOGGED, shift))


def standardized(values: np.ndarray) -> np.ndarray:
    """Standardize values over the catalog; constant ones become zero."""
    return standardized_by(values, np.full(len(values), 1.0 / len(values)))


def standardized_by(values: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Standardize values with weights; constant ones become zero."""
    centered = values - shares @ values
    deviation = np.sqrt(shares @ (centered * centered))
    return centered / deviation if deviation > 1e-9 else np.zeros_like(values)


def within_evidence(logged: np.ndarray, evidence, share: float) -> np.ndarray:
    """Raise log-popularity to where items have ratings: slopes are unknown below."""
    order = np.argsort(logged, kind="stable")
    total = np.cumsum(evidence[order])
    # Evidence: positive shares of values that items' own ratings determine.
    least = min(max(share * total[-1], 5.0), 0.5 * total[-1])
    return np.maximum(logged, logged[order[np.searchsorted(total, least)]])


def shrink(counts, sums, design, noise, spreads: tuple[float, float]) -> Shrunk:
    """Estimate values of items from noisy sums: empirical Bayes."""
    # Sums are counts times values plus noise; prior means are linear in design.
    spread = min(max(0.2, spreads[0]), spreads[1])
    for _ in range(_ROUNDS):
        weights = 1.0 / (counts * counts * spread + noise)
        weighted = design * (counts * weights)[:, None]
        gram = weighted.T @ (design * counts[:, None]) + np.eye(design.shape[1])
        prior = design @ np.linalg.solve(gram, weighted.T @ sums)
        rest = sums - counts * prior
        squares = counts * counts * weights * weights
        found = (squares @ (rest * rest - noise)) / (squares @ (counts * counts))
        spread = float(np.clip(found, *spreads))
    gain = counts * spread / (counts * counts * spread + noise)
    variance = 1.0 / (1.0 / spread + counts * counts / noise)
    return Shrunk(prior + gain * rest, prior, variance, spread)


def weighted_variance(values: np.ndarray, counts: np.ndarray) -> float:
    """Return the variance of items' values over ratings, weighted by counts."""
    shares = counts / counts.sum()
    centered = values - shares @ values
    return float(shares @ (centered * centered))


def public_columns(features: np.ndarray) -> np.ndarray:
    """Standardize public features over the catalog; constant ones become zero."""
    scale = np.abs(features).max(axis=0, initial=0.0)
    features = features / np.where(scale > 0.0, scale, 1.0)
    columns = [standardized(column) for column in features.T]
    return np.column_stack([np.empty((len(features), 0)), *columns])


def leading_columns(features: np.ndarray) -> np.ndarray:
    """Return leading principal components of public columns, unless there are few."""
    columns = public_columns(features)
    if columns.shape[1] <= MOST_TASTES:
        return columns
    return principal_columns(columns, np.ones(len(columns)))[:, :MOST_TASTES]


def principal_columns(columns, counts, least=0.0, *, turned=True) -> np.ndarray:
    """Scores of items on principal components of columns, by the items' counts."""
    shares = counts / counts.sum()
    centered = columns - shares @ columns
    values, vectors = np.linalg.eigh(centered.T @ (centered * shares[:, None]))
    largest = max(values[-1], least) if len(values) else 0.0
    if largest <= 0.0:
        return np.zeros_like(columns)
    # Columns that are not turned are measured alike, and stay themselves.
    return (centered @ vectors[:, ::-1] if turned else centered) / np.sqrt(largest)


# Variance of factors between items, in squares of a quarter of the range or of a unit
# taste; and the least variance of tastes that factors are scaled by.
_FACTOR_SPREADS, _LEAST_TASTE = (1e-5, 1.0), 1e-3


def factors_of(counts, sums: np.ndarray, design: np.ndarray, noise) -> np.ndarray:
    """Return what tastes add to items, of at most unit variance: (n_items, k)."""
    found = [
        shrink(counts, column, design, noise, _FACTOR_SPREADS) for column in sums.T
    ]
    # Users have the part that the prior explains as features already.
    own = np.column_stack([column.values - column.prior for column in found])
    # Contributions by what is left of tastes: little, where noise has swallowed them.
    least = max(_LEAST_TASTE, *(column.spread for column in found))
    return principal_columns(own, counts, least)


# Rows of unit norm are held in steps of 2**-11: products of two are multiples of
# 2**-22, and sums of them over at most 2**31 users are exact in float64.
_ROW_STEP = 2.0**-11


def moment_contributions(block: RatingsBlock, values: np.ndarray) -> np.ndarray:
    """Sum x x' over users, for their values x scaled to unit norm, in half steps."""
    steps = unit_steps(block, values)
    return steps.T @ steps * (_ROW_STEP * _ROW_STEP / STEP)


def unit_steps(block: RatingsBlock, values: np.ndarray) -> np.ndarray:
    """Scale each user's values alone to unit norm, of at most 2**11 whole steps."""
    largest = np.zeros(len(block))
    np.maximum.at(largest, block.of_user, np.abs(values))
    # By a power of two that brings the largest to 1/2 or more: squares that matter
    # neither overflow nor underflow.
    values = np.ldexp(values, -np.frexp(largest)[1][block.of_user])
    lengths = np.sqrt(block.totals(values * values))
    # Longer by more than the error of a sum of so many squares: never above 1.
    lengths *= 1.0 + (block.counts + 8) * 2.0**-52
    lengths[lengths == 0.0] = 1.0
    steps = np.zeros((len(block), block.n_items))
    own = np.trunc(values / lengths[block.of_user] / _ROW_STEP)
    steps[block.of_user, block.items] = own
    return steps


# Added to variances of components, so that quotients are finite.
_SMALLEST_SPREAD = 1e-12


def component_columns(values, components, noise: float, counts) -> np.ndarray:
    """Columns of items from components of a sum over users of products of residuals."""
    # What is no larger than noise is taken for it, and so is what is not positive.
    seen = values > noise
    noise_share = np.divide(noise, values, out=np.ones(len(values)), where=seen)
    sizes = np.sqrt(np.where(seen, values, 0.0) * (1.0 - noise_share**2))
    # An item that few rate has a small product with all others, and much noise.
    inverse = 1.0 / np.maximum(counts, 1.0)[:, None]
    columns = components.T * sizes * np.sqrt(inverse)
    shares = counts / counts.sum()
    spreads = shares @ (columns * columns) + _SMALLEST_SPREAD
    errors = inverse * (0.5 * noise_share * sizes) ** 2 / len(columns)
    columns *= spreads / (spreads + np.maximum(errors - shares @ errors, 0.0))
    largest = (shares @ (columns * columns)).max(initial=0.0)
    return columns / np.sqrt(largest) if largest > 0.0 else columns


def uncorrelated(columns: np.ndarray, shares, ridge) -> np.ndarray:
    """Turn columns such that they are uncorrelated over clicks, and of one penalty."""
    scaled = (columns - shares @ columns) / np.sqrt(ridge)
    return scaled @ np.linalg.eigh(scaled.T @ (scaled * shares[:, None]))[1]


# Tastes below this count as much: logarithms are taken of them.
_LEAST_LIKING = 1e-3


def log_likings(tastes: np.ndarray) -> np.ndarray:
    """Return logarithms of how much more often users pick items than others do."""
    return np.log(np.maximum(1.0 + tastes, _LEAST_LIKING))


# Users whose normal equations are in the cache together.
_PART_USERS = 512
# Ratings that are predicted together, for the same reason.
_PART_RATINGS = 1 << 14
# Largest modulus of a weight, which no ratings come near.
_LARGEST = 1e6
# Penalties of what a user adds, in squares of residuals: of a level, of a factor of
# the items' offsets, of tastes on public features, and of those on private factors.
LEVEL_RIDGE, OFFSET_RIDGE, TASTE_RIDGE, FACTOR_RIDGE = 5.0, 3.0, 60.0, 30.0


@dataclass(frozen=True)
class ItemModel:
    """What is released or public of the items."""

    level: float
    offsets: np.ndarray  # above the level
    features: np.ndarray  # ones, offsets, and what tastes differ in
    ridge: np.ndarray  # penalties of users' weights on features

    def with_offsets(self, offsets: np.ndarray) -> ItemModel:
        """Return the model with other offsets: the average user stays in the range."""
        offsets = np.clip(offsets, -2.0 - self.level, 2.0 - self.level)
        features = self.features.copy()
        features[:, 1] = offsets
        return replace(self, offsets=offsets, features=features)

    def with_factors(self, factors: np.ndarray) -> ItemModel:
        """Return the model with private factors after the other features."""
        ridge = np.append(self.ridge, [FACTOR_RIDGE] * factors.shape[1])
        features = np.column_stack([self.features, factors])
        return replace(self, features=features, ridge=ridge)

    def predict(self, items, own, weights: np.ndarray) -> np.ndarray:
        """Predict ratings, not clipped, each with the bits that it has alone."""
        out = np.empty(len(items))
        # Column by column of copies that lie together: faster than rows far apart.
        features, weights = self.features.T.copy(), weights.T.copy()
        for start in range(0, len(items), _PART_RATINGS):
            part = slice(start, start + _PART_RATINGS)
            rated, rating = items[part].astype(np.intp), own[part]
            total = self.level + self.offsets[rated]
            for feature, weight in zip(features, weights, strict=True):
                total += feature[rated] * weight[rating]
            out[part] = total
        return out

    def residuals(self, block: RatingsBlock, weights: np.ndarray) -> np.ndarray:
        """Return ratings minus the predictions of users' models."""
        return block.values - self.predict(block.items, block.of_user, weights)


def item_model(level: float, offsets: np.ndarray, tastes: np.ndarray) -> ItemModel:
    """Return a model of offsets, and features that tastes differ in."""
    ridge = [LEVEL_RIDGE, OFFSET_RIDGE, *[TASTE_RIDGE] * tastes.shape[1]]
    features = np.column_stack([np.ones((len(offsets), 2)), tastes])
    return ItemModel(level, offsets, features, np.array(ridge)).with_offsets(offsets)


def user_weights(block: RatingsBlock, model: ItemModel) -> np.ndarray:
    """Fit each user by ridge regression: finite, the same bits among others."""
    features = model.features
    q = features.shape[1]
    j, i = np.tril_indices(q)
    pairs = block.products(features[:, i] * features[:, j])
    rest = block.values - model.level - model.offsets[block.items]
    right = block.products(features, rest)
    weights = np.empty_like(right)
    for start in range(0, len(block), _PART_USERS):
        part = slice(start, start + _PART_USERS)
        gram = np.empty((q, q, len(right[part])))
        gram[i, j] = pairs[part].T
        gram[range(q), range(q)] += model.ridge[:, None]
        solved = right[part].T.copy()
        eliminate_upper(gram, solved)
        weights[part] = solved.T
    return _bounded(weights)


def click_weights(block: RatingsBlock, model: ItemModel) -> np.ndarray:
    """Fit each user of a block to what they clicked: tastes beside popularity."""
    # Clicks follow popularity times 1 + features @ weights. By popularity features have
    # mean zero and are uncorrelated: no system of equations is solved.
    shares = click_shares(model.offsets)
    spreads = shares @ (model.features * model.features)
    sums = block.products(model.features)
    return _bounded(sums / (block.counts[:, None] * spreads + model.ridge))


def _bounded(weights: np.ndarray) -> np.ndarray:
    return np.clip(np.where(np.isfinite(weights), weights, 0.0), -_LARGEST, _LARGEST)


def click_shares(popularity: np.ndarray) -> np.ndarray:
    """Return shares of items in all clicks, from log-popularity."""
    shares = np.exp(popularity - popularity.max())
    return shares / shares.sum()
