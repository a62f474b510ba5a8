"""Shared directions without privacy: alternation of users and U until rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._linalg import linear_model as lrs
from ...mechanisms import Exact, Mechanism
from ..combination import Statistic
from .model import BILLBOARD, SharedModel
from .users import Users


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

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return (BILLBOARD,)

    def run(self, release, rows, start, scale, progress: Any) -> SharedModel:
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
        progress : FitProgress
            Told of every iteration; it may stop the alternation.

        Returns
        -------
        SharedModel
            Of finite numbers, with the users' parameters.

        Raises
        ------
        ValueError
            If numbers were too large.
        """
        try:
            with np.errstate(all="ignore"):
                found = self._alternate(rows, start, scale, progress)
                components, coef = found.components, found.coef
            if np.isfinite(components).all() and np.isfinite(coef).all():
                release("components", components)
                return found
        except np.linalg.LinAlgError:
            pass
        raise ValueError(
            "X or y holds numbers, in units of scale, with squares beyond float64: "
            "choose other units"
        )

    def _alternate(self, rows, start, scale, progress) -> SharedModel:
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
        U, n_iter, converged = alternation.fit(
            U, self.max_iter, self.tol, progress.moved
        )
        users = alternation.users
        found = SharedModel(
            U,
            scale,
            users.weights.mean(axis=0),
            n_iter=n_iter,
            converged=converged,
            users=users,
        )
        return replace(found, intercept=_mean_intercept(rows, found.coef))


def _mean_intercept(rows, coef: np.ndarray) -> float:
    """Mean over users of the intercept that suits the shared coefficients."""
    if rows.y_means is None:
        return 0.0
    return float((rows.y_means - rows.X_means @ coef).mean())
