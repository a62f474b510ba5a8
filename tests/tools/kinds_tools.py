"""Mechanisms that are no Gaussians, for tests of ledgers."""

from ledger_tools import DELTA

from skdpspectral.accounting import _composition
from skdpspectral.mechanisms import ApproximateDP, PrivacyPlan, SubsampledGaussian

ROWS = {"unit": "row", "neighbors": "replace-one"}
USERS = {"unit": "user", "neighbors": "add-remove-one"}
CURVES = {
    "subsampled": SubsampledGaussian("steps", 0.01, 1.0, 500),
    "pair": ApproximateDP("other", 0.5, 1e-8),
}


def plan_of(*mechanisms, epsilon=5.0, delta=DELTA, **fields):
    """Plan of mechanisms at a claim that is more than they cost."""
    fields = {**USERS, "estimator": "Other", **fields}
    return PrivacyPlan(epsilon, delta, mechanisms, **fields)


def without_name(curve):
    return {**vars(curve), "name": ""}


def counted(*curves):
    """Mechanisms as the ledger gives them to the composition."""
    return tuple((type(curve)(**without_name(curve)), times) for curve, times in curves)


def composed_delta(mu, curves, epsilon):
    """Return the bound on delta by distributions of losses."""
    ways = _composition.composed_losses(mu, curves)
    errors = _composition.TRANSFORM * _composition._count_distributions(curves)
    bound = max((way.delta(epsilon) for way in ways), default=1.0)
    return min(bound * (1.0 + _composition.RELATIVE) + errors, 1.0)
