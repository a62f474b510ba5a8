"""What a transcript of DPStandardScaler tells about which of two tables it is of."""

from dataclasses import dataclass

import numpy as np
from pca_tools import ManyRowsScaler, NumbersOfTables, Replay, audit_releases

from skdpspectral import DPStandardScaler


def exact_releases(model, plan, transcript, X):
    """Return what is released of X without noise, given a transcript of a fit."""
    replayed = Replay(plan, transcript)
    model._statistic(*X.shape).run(replayed, X)
    return replayed.exact


@dataclass(frozen=True)
class ScalerCase:
    """One worst case of one release of a scaler; the other rows are zero.

    Parameters
    ----------
    parameters : dict
        Of the estimator.
    row, replacement : float
        All features of the row that differs.
    prefix : str
        Releases that are audited, given all others; "" for the whole transcript.
    tight : bool
        Whether the release moves by all of its sensitivity.
    many : bool
        Whether the few rows are treated as many.
    """

    parameters: dict
    row: float
    replacement: float
    prefix: str
    tight: bool = True
    epsilon: float = 16.0
    n_trials: int = 3_200
    many: bool = False
    power = 0.85

    def make(self, epsilon):
        """Return the estimator."""
        kind = ManyRowsScaler if self.many else DPStandardScaler
        return kind(epsilon=epsilon, **self.parameters)

    def data(self):
        """Return the two neighboring tables."""
        X = np.zeros((5, 4))
        neighbor = X.copy()
        X[0], neighbor[0] = self.row, self.replacement
        return X, neighbor

    def audit(self, epsilon, n_trials, **options):
        """Audit the releases in question against their own claim."""
        model = self.make(epsilon)
        return audit_releases(model, *self.data(), self.prefix, n_trials, **options)


@dataclass(frozen=True)
class TableCase(ScalerCase):
    """One worst case of a table of numbers."""

    def make(self, epsilon):
        """Return the estimator."""
        return NumbersOfTables(epsilon=epsilon, **self.parameters)


# Half a turn and more on circles of the length 16, of 4 times as much, and so on.
_AROUND = 8.0 * sum(4.0**k for k in range(9))
SCALER_CASES = {
    # From one node to another, of both pairs that the row is in.
    "scaler-differences": ScalerCase(
        {}, 1.0, 8.0, "differences", epsilon=30.0, many=True
    ),
    # From one octave to the one that shares no window with it.
    "scaler-windows": ScalerCase({"with_mean": False}, 1.0, 16.0, "windows"),
    "scaler-places": ScalerCase(
        {}, 0.0, _AROUND, "places", tight=False, epsilon=60.0, many=True
    ),
    # From one cell to another; scales are 1 where none is seen.
    "scaler-cells": ScalerCase({}, 0.0, 100.0, "cells", epsilon=48.0),
    "scaler-missing-cells": ScalerCase(
        {"missing": "mean"}, 0.0, np.nan, "cells", epsilon=48.0
    ),
    "scaler-moments": ScalerCase({}, -1e12, 1e12, "moments", epsilon=32.0),
    # A missing value, and one at the edge.
    "scaler-holes": ScalerCase(
        {"missing": "mean"}, np.nan, 1e12, "moments", epsilon=32.0
    ),
    "table-holes": TableCase({}, np.nan, 1e12, "moments", epsilon=32.0),
    "scaler": ScalerCase({}, -1e12, 1e12, "", tight=False, many=True),
    "scaler-few-rows": ScalerCase({}, -1e12, 1e12, "", tight=False),
    "scaler-box": ScalerCase({"bounds": (-1, 1)}, -50.0, 50.0, "", tight=False),
}
