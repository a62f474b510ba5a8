"""What releases cost: exact calibration, exact composition, one ledger."""

from ._composition import (
    calibrate_sampled,
    compose_mu,
    parallel_mu,
    relation_factor,
    split_mu,
)
from ._errors import LedgerError, PrivacyBudgetError, PrivacyLeakWarning
from ._gaussian import calibrate_gaussian, gaussian_delta, gaussian_epsilon, gaussian_mu
from ._ledger.accountant import PrivacyAccountant
from ._ledger.context import default_accountant
from ._ledger.entries import LedgerEntry, Spent
from ._selection import calibrate_selection, selection_delta, selection_epsilon

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
