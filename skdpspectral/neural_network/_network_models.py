"""Networks of users: what stays with them, and predictions made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._linalg import linear_model as lrs
from .._linalg import neural_network as public_networks
from .._linalg import user_networks as networks
from .._linalg.threads import blas_threads
from .._tables.user_models import UserModels, finite_or_zero


@dataclass(frozen=True)
class NetworkModels(UserModels):
    """Parameters of users' networks beside shared weights.

    Parameters
    ----------
    index : IdIndex or None
        Ids; None for a single user without an id.
    weights : ndarray of shape (n_users, rank)
        w.
    prompts : ndarray of shape (n_users, prompt_size)
        Features of the users' own.
    support : ndarray of shape (n_users, sparsity)
        Positions of b.
    sparse : ndarray of shape (n_users, sparsity)
        b on its support.
    levels : ndarray of shape (n_users,)
        What is added to a user's outputs.
    """

    entries: ClassVar[tuple[str, ...]] = (
        "weights",
        "prompts",
        "support",
        "sparse",
        "levels",
    )
    widened: ClassVar[tuple[str, ...]] = ("support", "sparse")

    weights: np.ndarray
    prompts: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    levels: np.ndarray

    @classmethod
    def empty(cls, rank: int, prompt_size: int) -> NetworkModels:
        """Return models of no user."""
        return cls(
            index=None,
            weights=np.empty((0, rank)),
            prompts=np.empty((0, prompt_size)),
            support=np.empty((0, 0), dtype=np.intp),
            sparse=np.empty((0, 0)),
            levels=np.empty(0),
        )

    @classmethod
    def fitted(cls, users, levels, index) -> NetworkModels:
        """Make models of what users trained.

        Parameters
        ----------
        users : UserNetworks
            Parameters of all users.
        levels : ndarray of shape (n_users,)
            Their levels.
        index : IdIndex or None
            Ids; None for a single user without one.
        """
        return cls(
            index=None if index is None else index.without_codes(),
            weights=finite_or_zero(users.weights),
            prompts=finite_or_zero(users.prompts),
            support=users.support,
            sparse=finite_or_zero(users.sparse),
            levels=finite_or_zero(levels),
        )

    def whole_weights(self, code: int, U: np.ndarray) -> np.ndarray:
        """U w + b of one user: (n_parameters,)."""
        return networks.whole_weights(U, self._networks(slice(code, code + 1)))[0]

    def _networks(self, chosen) -> networks.UserNetworks:
        of_users = (self.weights, self.prompts, self.support, self.sparse)
        return networks.UserNetworks(*of_users).take(chosen)

    def predict(self, table, codes: np.ndarray, U: np.ndarray, layout) -> np.ndarray:
        """Predict rows of known users, each by the rows of that user alone.

        Parameters
        ----------
        table : UserTable
            Rows.
        codes : ndarray of shape (n_rows,)
            Users of the rows; rows of negative ones are left at zero.
        U : ndarray of shape (n_parameters, rank)
            Shared weights.
        layout : Layout
            Of the networks.

        Returns
        -------
        ndarray of shape (n_rows,)
            Outputs and levels.
        """
        out, known = np.zeros(len(codes)), np.flatnonzero(codes >= 0)
        if not len(known):
            return out
        # Stable: a user's rows keep their order, whoever else is there.
        known = known[np.argsort(codes[known], kind="stable")]
        present, dense = np.unique(codes[known], return_inverse=True)
        rows = lrs.UserRows(
            table.X[known],
            np.zeros(len(known)),
            dense,
            len(present),
            columns=table.columns,
        )
        starts = np.cumsum(rows.counts) - rows.counts
        for block in rows.blocks():
            for place in networks.in_parts(block, layout):
                users, counts = block.users[place], block.counts[place]
                own = self._networks(present[users])
                found = networks.predictions(layout, U, own, block.X[place])
                found += self.levels[present[users]][:, None]
                there = np.arange(found.shape[1]) < counts[:, None]
                rows_of_users = starts[users][:, None] + np.arange(found.shape[1])
                out[known[rows_of_users[there]]] = found[there]
        return out


def shared_predictions(X, whole: np.ndarray, prompt: np.ndarray, layout) -> np.ndarray:
    """Predict rows by one public network, each with the same bits in any company.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows.
    whole : ndarray of shape (n_parameters,)
        All weights.
    prompt : ndarray of shape (prompt_size,)
        Further features of every row.
    layout : Layout
        Of the network.

    Returns
    -------
    ndarray of shape (n_rows,)
        Outputs.
    """
    layers, out = layout.layers(whole), np.empty(len(X))
    with blas_threads(0):
        for rows in public_networks.in_blocks(len(X)):
            part = np.asarray(X[rows], dtype=np.float64)
            beside = np.broadcast_to(prompt, (len(part), len(prompt)))
            part = np.hstack([part, beside])
            out[rows] = public_networks.activations(layers, part, "tanh")[-1][:, 0]
    return out
