"""What a transcript of DPStandardScaler tells about which of two tables it is of."""

from dataclasses import dataclass, replace

import numpy as np
from pca_tools import Replay, cost_of, transcript_ratio

from skdpspectral import DPStandardScaler
from skdpspectral.accounting import gaussian_epsilon
from skdpspectral.audit import audit_epsilon


def exact_releases(model, plan, transcript, X):
    """Return what is released of X without noise, given a transcript of a fit."""
    replayed = Replay(plan, transcript)
    model._statistic(*X.shape).run(replayed, X)
    return replayed.exact


class ScalerRatio:
    """Log likelihood ratio of the named releases, given all earlier ones."""

    threshold = 0.0

    def __init__(self, model, X, neighbor, prefix=""):
        self.model, self.sides, self.prefix = model, (X, neighbor), prefix
        self.plan = model.privacy_plan(*X.shape)

    def __call__(self, estimator, released):
        means = [exact_releases(self.model, self.plan, released, X) for X in self.sides]
        chosen = [name for name in released if name.startswith(self.prefix)]
        return transcript_ratio(self.plan, means, released, chosen)


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
    """

    parameters: dict
    row: float
    replacement: float
    prefix: str
    tight: bool = True
    epsilon: float = 16.0
    n_trials: int = 3_000
    power = 0.85

    def make(self, epsilon):
        """Return the estimator."""
        return DPStandardScaler(epsilon=epsilon, **self.parameters)

    def data(self):
        """Return the two neighboring tables."""
        X = np.zeros((5, 4))
        neighbor = X.copy()
        X[0], neighbor[0] = self.row, self.replacement
        return X, neighbor

    def audit(self, epsilon, n_trials, **options):
        """Audit the releases in question against their own claim."""
        model, data = self.make(epsilon), self.data()
        statistic = ScalerRatio(model, *data, self.prefix)
        result = audit_epsilon(model, *data, statistic, n_trials, **options)
        claimed = cost_of(statistic.plan, self.prefix)
        epsilon = gaussian_epsilon(claimed, result.delta)
        return replace(result, claimed_mu=claimed, claimed_epsilon=epsilon)


# Half a turn and more on circles of the length 16, of 4 times as much, and so on.
_AROUND = 8.0 * sum(4.0**k for k in range(9))
SCALER_CASES = {
    # From one node to another, of both pairs that the row is in.
    "scaler-differences": ScalerCase({"with_mean": False}, 1.0, 8.0, "differences"),
    "scaler-places": ScalerCase({}, 0.0, _AROUND, "places", tight=False),
    "scaler-moments": ScalerCase({}, -1e12, 1e12, "moments"),
    "scaler": ScalerCase({}, -1e12, 1e12, "", tight=False),
    "scaler-box": ScalerCase({"bounds": (-1, 1)}, -50.0, 50.0, "", tight=False),
}
