"""What releases cost: exact calibration, exact composition, one ledger."""

from ._accountant import PrivacyAccountant
from ._ambient import default_accountant
from ._composition import compose_mu, parallel_mu, relation_factor, split_mu
from ._entries import LedgerEntry
from ._errors import LedgerError, PrivacyBudgetError, PrivacyLeakWarning
from ._gaussian import (
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from ._sampled import calibrate_sampled
from ._selection import calibrate_selection, selection_delta, selection_epsilon
from ._summary import Spent

__all__ = [
    "LedgerEntry",
    "LedgerError",
    "PrivacyAccountant",
    "PrivacyBudgetError",
    "PrivacyLeakWarning",
    "Spent",
    "calibrate_gaussian",
    "calibrate_sampled",
    "calibrate_selection",
    "compose_mu",
    "default_accountant",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "parallel_mu",
    "relation_factor",
    "selection_delta",
    "selection_epsilon",
    "split_mu",
]
