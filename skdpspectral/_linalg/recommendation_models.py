"""A model of items for all, and a ridge regression a user on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .linear_model.per_user import eliminate_upper
from .recommendation_rows import RatingsBlock

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
    """What is released or public of the items.

    Parameters
    ----------
    level : float
        Mean of the users' levels.
    offsets : ndarray of shape (n_items,)
        What an item is rated above the level.
    features : ndarray of shape (n_items, q)
        Ones, the offsets, and what tastes differ in.
    ridge : ndarray of shape (q,)
        Penalties of a user's weights on the features.
    """

    level: float
    offsets: np.ndarray
    features: np.ndarray
    ridge: np.ndarray

    def with_offsets(self, offsets: np.ndarray) -> ItemModel:
        """Return the model with other offsets."""
        features = self.features.copy()
        features[:, 1] = offsets
        return ItemModel(self.level, offsets, features, self.ridge)

    def with_factors(self, factors: np.ndarray) -> ItemModel:
        """Return the model with private factors behind the other features."""
        ridge = np.full(factors.shape[1], FACTOR_RIDGE)
        return ItemModel(
            self.level,
            self.offsets,
            np.column_stack([self.features, factors]),
            np.concatenate([self.ridge, ridge]),
        )

    def predict(self, items, own, weights: np.ndarray) -> np.ndarray:
        """Predict ratings, each with the bits that it has alone.

        Parameters
        ----------
        items, own : ndarray of shape (n_ratings,)
            Item of each rating, and the row of `weights` of its user.
        weights : ndarray of shape (n_users, q)
            Weights of users; zeros for who has none.

        Returns
        -------
        ndarray of shape (n_ratings,)
            Predictions, not clipped.
        """
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
        """Return what users' models leave of their ratings."""
        return block.values - self.predict(block.items, block.of_user, weights)


def model_of(level: float, offsets: np.ndarray, tastes: np.ndarray) -> ItemModel:
    """Return a model of offsets, and features that tastes differ in."""
    ridge = [LEVEL_RIDGE, OFFSET_RIDGE, *[TASTE_RIDGE] * tastes.shape[1]]
    features = np.column_stack([np.ones(len(offsets)), offsets, tastes])
    return ItemModel(level, offsets, features, np.array(ridge))


def user_weights(block: RatingsBlock, model: ItemModel, *, keep=False) -> np.ndarray:
    """Fit each user of a block: a ridge regression of what the model leaves.

    Parameters
    ----------
    block : RatingsBlock
        Users and their ratings.
    model : ItemModel
        Model of the items.
    keep : bool, default=False
        Whether another fit of these users will follow, beside a like model.

    Returns
    -------
    ndarray of shape (n_users, q)
        Weights, of finite numbers; with the same bits alone and among others.
    """
    features = model.features
    q = features.shape[1]
    j, i = np.tril_indices(q)
    pairs = block.pair_products(features, keep=keep)
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
    return np.clip(np.where(np.isfinite(weights), weights, 0.0), -_LARGEST, _LARGEST)


def click_weights(block: RatingsBlock, model: ItemModel) -> np.ndarray:
    """Fit each user of a block to what they clicked: tastes beside popularity.

    A user clicks items with probabilities in proportion to the exponential of an
    item's offset, the logarithm of its popularity, and of features times weights.
    Features are uncorrelated over clicks by popularity alone, so that one step of
    Newton's method from there needs no system of equations.

    Parameters
    ----------
    block : RatingsBlock
        Users and their items; values are not used.
    model : ItemModel
        Model of the items; features have mean zero over clicks by popularity.

    Returns
    -------
    ndarray of shape (n_users, q)
        Weights; with the same bits alone and among others.
    """
    shares = click_shares(model.offsets)
    spreads = shares @ (model.features * model.features)
    sums = block.products(model.features)
    weights = sums / (block.counts[:, None] * spreads + model.ridge)
    return np.clip(np.where(np.isfinite(weights), weights, 0.0), -_LARGEST, _LARGEST)


def click_shares(popularity: np.ndarray) -> np.ndarray:
    """Shares of items in all clicks, from logarithms of their popularity."""
    shares = np.exp(popularity - popularity.max())
    return shares / shares.sum()
