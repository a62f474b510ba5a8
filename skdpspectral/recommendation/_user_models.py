"""Models of users of a recommender, which stay with them, and what they have seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._linalg.recommendation_rows import UserRatings
from .._tables.id_index import IdIndex


@dataclass(frozen=True)
class RaterModels:
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

    entries: ClassVar[tuple[str, ...]] = ("weights", "items")

    index: IdIndex | None
    weights: np.ndarray
    pointer: np.ndarray
    items: np.ndarray

    @classmethod
    def empty(cls, n_features: int) -> RaterModels:
        """Return models of no user."""
        none = np.zeros(0, dtype=np.int32)
        return cls(None, np.zeros((0, n_features)), np.zeros(1, dtype=np.int64), none)

    @classmethod
    def fitted(cls, index: IdIndex, weights, rows: UserRatings) -> RaterModels:
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

    def code_of(self, user) -> int:
        """Code of one user, -1 for an unknown one."""
        return int(self.codes([user], "user")[0])

    def arrays(self, code: int) -> dict[str, np.ndarray]:
        """Arrays of one user, without the id; none of a negative code."""
        if code < 0:
            return {}
        items = self.items[self.pointer[code] : self.pointer[code + 1]]
        return {"weights": self.weights[code : code + 1], "items": items}

    @classmethod
    def of_file(cls, index: IdIndex, arrays: dict[str, np.ndarray]) -> RaterModels:
        """Make models of what :meth:`arrays` gave of one user."""
        return cls(index, pointer=np.array([0, len(arrays["items"])]), **arrays)

    def updated(self, new: RaterModels) -> RaterModels:
        """Return models with those of some users replaced or added.

        Parameters
        ----------
        new : RaterModels
            Models of users, known or not.
        """
        if self.index is None:
            return new
        codes = self.index.find(new.index.ids, "users")
        kept = np.ones(len(self.weights), dtype=bool)
        kept[codes[codes >= 0]] = False
        _, items = self.seen(np.flatnonzero(kept))
        counts = np.concatenate([np.diff(self.pointer)[kept], np.diff(new.pointer)])
        return RaterModels(
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
