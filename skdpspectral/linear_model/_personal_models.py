"""Models of users: what stays with them, and predictions made from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._linalg import combined_columns
from .._tables.user_models import UserModels, finite_or_zero

# Numbers of the rows that are predicted together.
_PART_NUMBERS = 1 << 20


@dataclass(frozen=True)
class PersonalModels(UserModels):
    """Parameters of users beside shared components.

    Parameters
    ----------
    index : IdIndex or None
        Ids; None for a single user without an id.
    weights : ndarray of shape (n_users, rank)
        w.
    support : ndarray of shape (n_users, sparsity)
        Features of b.
    sparse : ndarray of shape (n_users, sparsity)
        b on its support.
    intercepts : ndarray of shape (n_users,)
        Intercepts.
    """

    entries: ClassVar[tuple[str, ...]] = (
        "weights",
        "support",
        "sparse",
        "intercepts",
    )
    widened: ClassVar[tuple[str, ...]] = ("support", "sparse")

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    intercepts: np.ndarray

    @classmethod
    def empty(cls, rank: int) -> PersonalModels:
        """Return models of no user."""
        return cls(
            index=None,
            weights=np.empty((0, rank)),
            support=np.empty((0, 0), dtype=np.intp),
            sparse=np.empty((0, 0)),
            intercepts=np.empty(0),
        )

    @classmethod
    def fitted(cls, rows, users, index, scale, components) -> PersonalModels:
        """Make models of what users fitted, and their intercepts, in data units.

        Parameters
        ----------
        rows : UserRows
            The users' rows and targets, with their means where there are intercepts.
        users : object
            Weights, supports and sparse parts that they fitted, of scaled features.
        index : IdIndex or None
            Ids; None for a single user without one.
        scale : ndarray of shape (n_features,)
            What features were divided by.
        components : ndarray of shape (rank, n_features)
            U'.
        """
        with np.errstate(all="ignore"):
            sparse = users.sparse / scale[users.support]
        models = cls(
            index=None if index is None else index.without_codes(),
            weights=finite_or_zero(users.weights),
            support=users.support,
            sparse=finite_or_zero(sparse),
            intercepts=np.zeros(rows.n_users),
        )
        if rows.y_means is None:
            return models
        # A user's model passes through the mean of their rows, but for a penalty.
        everyone = np.arange(rows.n_users)
        means = models.predict(lambda part: rows.X_means[part], everyone, components)
        models.intercepts[:] = finite_or_zero(rows.intercepts(means))
        return models

    def coef(self, code: int, components: np.ndarray) -> np.ndarray:
        """U w + b of one user."""
        coef = np.zeros(components.shape[1])
        for weight, component in zip(self.weights[code], components, strict=True):
            coef += weight * component
        np.add.at(coef, self.support[code], self.sparse[code])
        return coef

    def with_shared(self, weights: np.ndarray, intercept: float) -> PersonalModels:
        """Append the shared model, so that code -1 stands for it."""
        k = self.support.shape[1]
        return replace(
            self,
            weights=np.vstack([self.weights, weights]),
            support=np.vstack([self.support, np.zeros((1, k), dtype=np.intp)]),
            sparse=np.vstack([self.sparse, np.zeros((1, k))]),
            intercepts=np.append(self.intercepts, intercept),
        )

    def predict(self, features, codes: np.ndarray, components: np.ndarray):
        """Predict rows of several users, each with the bits that it has alone.

        Parameters
        ----------
        features : callable
            ``features(rows)``: features of a slice of rows.
        codes : ndarray of shape (n_rows,)
            Users of the rows.
        components : ndarray of shape (rank, n_features)
            U'.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions.
        """
        # A warning would tell of the values of some user.
        with np.errstate(all="ignore"):
            return self._predicted(features, codes, components)

    def _predicted(self, features, codes, components) -> np.ndarray:
        out = np.empty(len(codes))
        size = max(1, _PART_NUMBERS // max(components.shape[1], 1))
        for start in range(0, len(codes), size):
            rows = slice(start, start + size)
            out[rows] = self._predicted_part(features(rows), codes[rows], components)
        return out

    def _predicted_part(self, X, own, components) -> np.ndarray:
        # Entry by entry, one term after another: no sum over an axis, whose order
        # would be numpy's choice.
        out = self.intercepts[own]
        shared = combined_columns(X, components.T)
        for scores, weights in zip(shared, self.weights.T, strict=True):
            out += scores * weights[own]
        each = np.arange(len(X))
        for features, values in zip(self.support.T, self.sparse.T, strict=True):
            out += X[each, features[own]] * values[own]
        return out
