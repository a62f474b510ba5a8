"""Worst cases of the releases of DPRidge, of tables whose last column is the target."""

from dataclasses import dataclass

import numpy as np
from pca_tools import LabelLast, TargetLast, audit_releases

_BOX = {"bounds": (-1, 1), "target_bounds": (-1, 1)}


@dataclass(frozen=True)
class RidgeCase:
    """One worst case of one release; the other rows are zero.

    `row` and `replacement` have the target last. `prefix` names the releases that are
    audited, given all others; "" for the whole transcript. `tight` tells if the release
    moves by all of its sensitivity.
    """

    parameters: dict
    row: tuple
    replacement: tuple
    prefix: str
    tight: bool = True
    epsilon: float = 16.0
    n_trials: int = 3_200
    n_rows: int = 5
    kind: type = TargetLast
    power = 0.85

    def make(self, epsilon):
        """Return the estimator."""
        return self.kind(epsilon=epsilon, **self.parameters)

    def data(self):
        """Return the two neighboring tables."""
        X = np.zeros((self.n_rows, 4))
        neighbor = X.copy()
        X[0], neighbor[0] = self.row, self.replacement
        return X, neighbor

    def audit(self, epsilon, n_trials, **options):
        """Audit the releases in question against their own claim."""
        model = self.make(epsilon)
        return audit_releases(model, *self.data(), self.prefix, n_trials, **options)


# Images that are orthogonal but for the constant, and longer than the radius.
_ALIKE, _CROSSED = (9.0,) * 4, (9.0, 9.0, -9.0, -9.0)
# Above and below every limit of a halving.
_LARGEST = float(np.finfo(float).max)
RIDGE_CASES = {
    # Of fewer rows no moment is released.
    "ridge-moment": RidgeCase(_BOX, _ALIKE, _CROSSED, "joint_moment", n_rows=12),
    "ridge-square": RidgeCase(
        _BOX, (0.0,) * 4, (1e3,) * 4, "mean_square", epsilon=130.0
    ),
    "ridge-median": RidgeCase(
        {"bounds": (-1, 1)},
        (0.0, 0.0, 0.0, -_LARGEST),
        (0.0, 0.0, 0.0, _LARGEST),
        "median",
        n_rows=12,  # fewer are outvoted by the noise
        tight=False,
    ),
    "ridge-mean": RidgeCase(
        _BOX, (0.0, 0.0, 0.0, -1e3), (0.0, 0.0, 0.0, 1e3), "target_means"
    ),
    "ridge-box": RidgeCase(_BOX, _ALIKE, _CROSSED, "", tight=False, n_rows=12),
    # All other rows have the label 0.
    "ridge-classes": RidgeCase(
        {"bounds": (-1, 1), "classes": [0.0, 1.0]},
        (9.0, 9.0, 9.0, 0.0),
        (9.0, 9.0, -9.0, 1.0),
        "joint_moment",
        tight=False,
        n_rows=14,
        kind=LabelLast,
    ),
    "ridge": RidgeCase({}, (-1e12,) * 4, (1e12,) * 4, "", tight=False),
}
