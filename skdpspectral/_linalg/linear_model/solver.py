r"""Alternating minimization for low rank plus sparse regression, without privacy.

The algorithm of Pal et al. (2023) with the changes that make it work: supports by
pursuit in place of thresholds whose constants nobody knows, w rotated with U, and
repairs of the users that are fitted worst.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import local, pursuits
from .shared import SharedStep, positive_qr
from .user_rows import Block, UserRows

# Every so many iterations, this share of the users is fitted anew.
_REPAIR_EVERY = 10
_REPAIR_SHARE = 0.2
# Largest number of steps of hard-thresholding pursuit of a cold fit.
COLD_STEPS = 15
# Starts of the final fit of every user.
COLD_STARTS = 3


@dataclass
class UserParameters:
    """Parameters of all users: arrays whose first axis is the user.

    Parameters
    ----------
    weights : ndarray of shape (n_users, rank)
        w.
    support : ndarray of shape (n_users, sparsity)
        Features of b.
    sparse : ndarray of shape (n_users, sparsity)
        b on its support.
    loss : ndarray of shape (n_users,)
        Penalized squared error.
    step : ndarray of shape (n_users,)
        Length of the next step of pursuit.
    """

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    loss: np.ndarray
    step: np.ndarray

    @classmethod
    def zeros(cls, n_users: int, rank: int, sparsity: int) -> UserParameters:
        """Return parameters of users that were not fitted yet."""
        return cls(
            weights=np.zeros((n_users, rank)),
            support=np.tile(np.arange(sparsity), (n_users, 1)),
            sparse=np.zeros((n_users, sparsity)),
            loss=np.full(n_users, np.inf),
            step=np.ones(n_users),
        )

    def write(self, users, fit: local.LocalFit) -> None:
        """Store the fit of a block."""
        self.weights[users], self.support[users] = fit.weights, fit.support
        self.sparse[users], self.loss[users] = fit.sparse, fit.loss

    def coefficients(self, U: np.ndarray, users=slice(None)) -> np.ndarray:
        """U w + b of some users, of shape (n_users, n_features)."""
        weights, support = self.weights[users], self.support[users]
        out = weights @ U.T
        out[np.arange(len(out))[:, None], support] += self.sparse[users]
        return out


class Alternation:
    """State of the alternation: U, the users' parameters, and how to improve them.

    Parameters
    ----------
    rows : UserRows
        The data.
    rules : LocalRules
        Penalties and sparsity; its prior is replaced where weights are shrunk to
        their mean.
    shrink : bool
        Whether `ridge_shared` shrinks to the mean of the weights, made anew each
        iteration.
    solver : str
        See :class:`SharedStep`.
    n_jobs : int or None
        Threads.
    """

    def __init__(self, rows: UserRows, rules, *, shrink, solver="auto", n_jobs=None):
        self.rows, self.rules, self._shrink = rows, rules, shrink
        self._n_jobs = n_jobs
        self._shared_step = SharedStep(rows, solver, n_jobs)
        self._fresh = True
        rank = len(rules.prior)
        self.users = UserParameters.zeros(rows.n_users, rank, rules.sparsity)

    def start(self, init) -> np.ndarray:
        """Return the start that is named, or the array that is given."""
        if self.rules.fixed:
            return self.pooled_start()
        if not isinstance(init, str):
            return init
        return self.moment_start() if init == "moments" else self.spectral_start()

    def spectral_start(self) -> np.ndarray:
        """Leading directions of the users' correlations beside their sparse parts."""
        d, rank = self.rows.n_features, len(self.rules.prior)
        alone = self._rules_without_shared()

        def part(block):
            empty = np.zeros((len(block), 0, block.X.shape[1]))
            squares = self.rows.column_squares(block)
            fit = pursuits.thresholding_pursuit(
                block, empty, squares, alone, COLD_STEPS
            )
            s = (fit.residual[:, None] @ block.X)[:, 0]
            s /= np.maximum(block.counts, 1)[:, None]
            return s.T @ s

        total = sum(self.rows.map(part, self._n_jobs), np.zeros((d, d)))
        return np.linalg.eigh(total)[1][:, ::-1][:, :rank]

    def pooled_start(self) -> np.ndarray:
        """Least squares over all users at once, for weights that are fixed at one."""
        d = self.rows.n_features

        def part(block):
            return (block.y[:, None] @ block.X)[:, 0].sum(axis=0)

        right = sum(self.rows.map(part, self._n_jobs), np.zeros(d))
        return self._shared_step(np.ones((self.rows.n_users, 1)), right[:, None])

    def moment_start(self) -> np.ndarray:
        """Leading directions of sum y^2 x x' (method of moments)."""
        d, rank = self.rows.n_features, len(self.rules.prior)

        def part(block):
            rows = (block.X * block.y[:, :, None]).reshape(-1, d)
            return rows.T @ rows

        total = sum(self.rows.map(part, self._n_jobs), np.zeros((d, d)))
        return np.linalg.eigh(total)[1][:, ::-1][:, :rank]

    def _rules_without_shared(self):
        return local.LocalRules(
            sparsity=self.rules.sparsity,
            ridge_shared=0.0,
            ridge_sparse=self.rules.ridge_sparse,
            prior=np.zeros(0),
            free=self.rules.free,
        )

    def fit(
        self, U: np.ndarray, max_iter: int, tol: float, progress: Callable
    ) -> tuple[np.ndarray, int, bool]:
        """Alternate until U is at rest.

        Parameters
        ----------
        U : ndarray of shape (n_features, rank)
            Start.
        max_iter : int
            Largest number of iterations.
        tol : float
            Stop when U has moved by at most this distance.
        progress : callable
            ``progress(iteration, move)``; a true value stops the alternation.

        Returns
        -------
        U : ndarray of shape (n_features, rank)
            Shared directions.
        n_iter : int
            Iterations made.
        converged : bool
            Whether the last move was within `tol`.
        """
        move, iteration = np.inf, 0
        for iteration in range(1, max_iter + 1):
            gradient = self._local_steps(U)
            U, move = self._move(U, gradient)
            if self._shrink:
                self._shrink_to_mean()
            if iteration % _REPAIR_EVERY == 0 and self.rules.sparsity:
                self._repair(U)
            if progress(iteration, move) or move <= tol:
                break
        self.refit(U)
        return U, iteration, bool(move <= tol)

    def _shrink_to_mean(self) -> None:
        self.rules = local.LocalRules(
            **{**vars(self.rules), "prior": self.users.weights.mean(axis=0)}
        )

    def _local_steps(self, U: np.ndarray) -> np.ndarray:
        """Improve all users at U and return sum_i X_i' e_i w_i'."""
        users, rules, fresh = self.users, self.rules, self._fresh
        self._fresh = False

        def part(block: Block):
            own = block.own
            scores = local.shared_scores(block, U)
            squares = self.rows.column_squares(block)
            if fresh:
                fit = local.first_fit(block, scores, rules)
            else:
                allowed = rules.allowed(block.counts)
                support = users.support[own]
                fit = local.least_squares(block, scores, support, allowed, rules)
            if rules.sparsity:
                fit, users.step[own], _, gradient = pursuits.local_step(
                    block, scores, squares, fit, users.step[own], rules
                )
            else:
                gradient = pursuits.gradients(block, fit.residual)
            users.write(own, fit)
            return gradient.T @ fit.weights

        return sum(self.rows.map(part, self._n_jobs))

    def _move(self, U: np.ndarray, gradient: np.ndarray):
        """Take the shared step; return the new U and how far it moved."""
        new = U + self._shared_step(self.users.weights, gradient)
        if self.rules.fixed:
            length = max(np.linalg.norm(new), np.finfo(float).tiny)
            return new, np.linalg.norm(new - U) / length
        new, R = positive_qr(new)
        self.users.weights[:] = self.users.weights @ R.T
        return new, float(np.linalg.norm(new - U @ (U.T @ new)))

    def _repair(self, U: np.ndarray) -> None:
        """Fit the worst users anew, and keep what is better."""
        worst = np.argsort(-self._relative_losses(), kind="stable")
        chosen = np.zeros(self.rows.n_users, dtype=bool)
        chosen[worst[: int(np.ceil(_REPAIR_SHARE * len(worst)))]] = True
        self._fit_anew(U, chosen, greedy=True)

    def _relative_losses(self) -> np.ndarray:
        totals = np.zeros(self.rows.n_users)

        def part(block):
            totals[block.users] = np.square(block.y).sum(axis=1)

        self.rows.map(part, self._n_jobs)
        return self.users.loss / np.maximum(totals, np.finfo(float).tiny)

    def refit(self, U: np.ndarray) -> None:
        """Fit all users from nothing at the final U, and keep what is better."""
        self._fit_anew(U, np.ones(self.rows.n_users, dtype=bool), greedy=False)

    def _fit_anew(self, U: np.ndarray, chosen: np.ndarray, *, greedy: bool) -> None:
        def part(block):
            if not chosen[block.users].all():
                block = block.take(np.flatnonzero(chosen[block.users]))
            if not len(block):
                return
            own, rules = block.own, self.rules
            scores = local.shared_scores(block, U)
            squares = self.rows.column_squares(block)
            if greedy:
                fit = pursuits.matching_pursuit(block, scores, squares, rules)
                fit = pursuits.thresholding_pursuit(
                    block, scores, squares, rules, COLD_STEPS, fit
                )
            else:
                fit = pursuits.cold_fit(
                    block, scores, squares, rules, COLD_STEPS, COLD_STARTS
                )
            carried = local.carried_fit(
                block,
                scores,
                self.users.weights[own],
                self.users.support[own],
                self.users.sparse[own],
                rules,
            )
            better = fit.loss < carried.loss
            self.users.write(own, fit.where(better, carried))
            self.users.step[own] = np.where(better, 1.0, self.users.step[own])

        self.rows.map(part, self._n_jobs)


def fit_users(rows: UserRows, U: np.ndarray, rules, n_jobs=None) -> UserParameters:
    """Fit every user beside given directions, from that user's rows alone.

    Parameters
    ----------
    rows : UserRows
        The users' rows.
    U : ndarray of shape (n_features, rank)
        Shared directions.
    rules : LocalRules
        Penalties and sparsity.
    n_jobs : int or None
        Threads.

    Returns
    -------
    UserParameters
        Parameters of all users.
    """
    users = UserParameters.zeros(rows.n_users, U.shape[1], rules.sparsity)

    def part(block: Block):
        scores = local.shared_scores(block, U)
        squares = rows.column_squares(block)
        users.write(
            block.own,
            pursuits.cold_fit(block, scores, squares, rules, COLD_STEPS, COLD_STARTS),
        )

    rows.map(part, n_jobs)
    return users
