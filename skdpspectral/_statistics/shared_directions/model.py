"""What shared directions leave for everybody."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._linalg import linear_model as lrs

# What a reader of the guarantee must know of models that rest on these directions.
BILLBOARD = (
    "Weights, sparse parts and intercepts stay with their users: what is "
    "predicted for a user of the fit is for that user alone (billboard "
    "model)."
)


@dataclass(frozen=True)
class SharedModel:
    """Shared directions, and the model of who has no other.

    Parameters
    ----------
    U : ndarray of shape (n_features, rank)
        Shared directions of the scaled features.
    scale : ndarray of shape (n_features,)
        What features were divided by.
    weights : ndarray of shape (rank,)
        Weights of the shared model.
    intercept : float, default=0.0
        Intercept of the shared model.
    n_iter : int, default=1
        Iterations or releases of U.
    converged : bool, default=True
        Whether U came to rest; what is released does not tell.
    users : UserParameters or None, default=None
        Parameters of all users, where nothing is private.
    """

    U: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    intercept: float = 0.0
    n_iter: int = 1
    converged: bool = True
    users: lrs.UserParameters | None = None

    @property
    def components(self) -> np.ndarray:
        """U' in units of the data: (rank, n_features)."""
        return np.ascontiguousarray((self.U / self.scale[:, None]).T)

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the shared model: (n_features,)."""
        return self.weights @ self.components
