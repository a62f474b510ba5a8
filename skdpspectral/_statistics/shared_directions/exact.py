"""Shared directions without privacy: alternation of users and U until rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._linalg import linear_model as lrs
from ...mechanisms import Exact, Mechanism
from ..combination import Statistic
from .users import Users


@dataclass(frozen=True)
class ExactFit:
    """What an alternation leaves; nothing of it is private.

    Parameters
    ----------
    U : ndarray of shape (n_features, rank)
        Shared directions of the scaled features.
    scale : ndarray of shape (n_features,)
        What features were divided by.
    weights : ndarray of shape (rank,)
        Mean of the users' weights.
    intercept : float
        Mean over users of the intercept of the shared model.
    users : UserParameters
        Parameters of all users.
    n_iter : int
        Iterations made.
    converged : bool
        Whether U came to rest.
    """

    U: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    intercept: float
    users: lrs.UserParameters
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class ExactDirections(Statistic):
    """Directions U that fit all users best, without noise.

    Parameters
    ----------
    users : Users
        Rules of the users; as many directions as they have weights.
    max_iter : int
        Largest number of iterations.
    tol : float
        Iterations end when U moves by at most this distance.
    shrink : bool
        Whether weights are shrunk to their mean over users.
    update : str
        How U is improved.
    """

    users: Users
    max_iter: int
    tol: float
    shrink: bool
    update: str

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the exact directions, at an infinite cost."""
        return (Exact("components", (self.users.rank, self.users.n_features)),)

    def run(self, release, rows, start, scale, progress: Callable) -> ExactFit:
        """Fit U and all users, and release U.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : UserRows
            The users' rows.
        start : str or ndarray of shape (n_features, rank)
            Start, or the name of one.
        scale : ndarray of shape (n_features,) or None
            What features are divided by; None for their root mean squares.
        progress : callable
            ``progress(iteration, move)``; a true value stops the alternation.

        Returns
        -------
        ExactFit
            Of finite numbers.

        Raises
        ------
        ValueError
            If numbers were too large.
        """
        try:
            with np.errstate(all="ignore"):
                found = self._alternate(rows, start, scale, progress)
                components = shared_components(found.U, found.scale)
                coef = found.weights @ components
            if np.isfinite(components).all() and np.isfinite(coef).all():
                release("components", components)
                return found
        except np.linalg.LinAlgError:
            pass
        raise ValueError(
            "X or y holds numbers, in units of scale, with squares beyond float64: "
            "choose other units"
        )

    def _alternate(self, rows, start, scale, progress) -> ExactFit:
        if scale is None:
            scale = lrs.column_scales(rows, self.users.n_jobs)
            rows.rescale(scale)
        alternation = lrs.Alternation(
            rows,
            self.users.rules,
            shrink=self.shrink,
            solver=self.update,
            n_jobs=self.users.n_jobs,
        )
        U = alternation.start(start)
        U, n_iter, converged = alternation.fit(U, self.max_iter, self.tol, progress)
        users = alternation.users
        weights = users.weights.mean(axis=0)
        intercept = _mean_intercept(rows, weights @ shared_components(U, scale))
        return ExactFit(U, scale, weights, intercept, users, n_iter, converged)


def shared_components(U: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """U' in units of the data: (rank, n_features)."""
    return np.ascontiguousarray((U / scale[:, None]).T)


def _mean_intercept(rows, coef: np.ndarray) -> float:
    """Mean over users of the intercept that suits the shared coefficients."""
    if rows.y_means is None:
        return 0.0
    return float((rows.y_means - rows.X_means @ coef).mean())
