"""Models of users of a recommender, which stay with them, and what they have seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._linalg.recommendation_rows import UserRatings
from .._tables.id_index import IdIndex


@dataclass(frozen=True)
class UserModels:
    """Weights of users, and the items that they rated.

    Parameters
    ----------
    index : IdIndex or None
        Ids; None for no user.
    weights : ndarray of shape (n_users, q)
        Weights on the items' features.
    pointer : ndarray of shape (n_users + 1,)
        Where the items of each user begin and end.
    items : ndarray of shape (n_rated,)
        Codes of items.
    """

    index: IdIndex | None
    weights: np.ndarray
    pointer: np.ndarray
    items: np.ndarray

    @classmethod
    def empty(cls, n_features: int) -> UserModels:
        """Return models of no user."""
        none = np.zeros(0, dtype=np.int32)
        return cls(None, np.zeros((0, n_features)), np.zeros(1, dtype=np.int64), none)

    @classmethod
    def fitted(cls, index: IdIndex, weights, rows: UserRatings) -> UserModels:
        """Make models of users who were fitted to their ratings."""
        return cls(index.without_codes(), weights, rows.pointer, rows.items)

    def codes(self, users, name: str) -> np.ndarray:
        """Codes of ids, -1 for unknown ones; errors name them."""
        if self.index is None:
            return np.full(len(IdIndex(users, name).codes), -1)
        return self.index.find(users, name)

    def weights_or_prior(self) -> np.ndarray:
        """Weights, and a row of zeros behind them that code -1 stands for."""
        return np.vstack([self.weights, np.zeros((1, self.weights.shape[1]))])

    def seen(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of a place in `codes` and an item that this user rated."""
        starts = self.pointer[codes]
        counts = np.where(codes < 0, 0, self.pointer[codes + 1] - starts)
        places = np.repeat(np.arange(len(codes)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, self.items[np.repeat(starts, counts) + within]

    def of(self, code: int) -> UserModels:
        """Return the model of one user alone, without the id."""
        items = self.items[self.pointer[code] : self.pointer[code + 1]]
        pointer = np.array([0, len(items)])
        return UserModels(None, self.weights[code : code + 1], pointer, items)

    def updated(self, new: UserModels) -> UserModels:
        """Return models with those of some users replaced or added.

        Parameters
        ----------
        new : UserModels
            Models of users, known or not.
        """
        if self.index is None:
            return new
        codes = self.index.find(new.index.ids, "users")
        kept = np.ones(len(self.weights), dtype=bool)
        kept[codes[codes >= 0]] = False
        _, items = self.seen(np.flatnonzero(kept))
        counts = np.concatenate([np.diff(self.pointer)[kept], np.diff(new.pointer)])
        return UserModels(
            _joined(self.index.ids[kept], new.index.ids),
            np.concatenate([self.weights[kept], new.weights]),
            np.concatenate(([0], np.cumsum(counts))),
            np.concatenate([items, new.items]),
        )


def _joined(ids: np.ndarray, others: np.ndarray) -> IdIndex:
    """Index ids of two arrays, which float64 might not hold together."""
    if ids.dtype != others.dtype:
        ids, others = ids.astype(object), others.astype(object)
    return IdIndex(np.concatenate([ids, others]), "users").without_codes()
