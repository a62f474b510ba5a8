"""What releases cost: exact calibration, exact composition, one ledger.

Names that are imported as themselves are for other folders, not for users.
"""

from ._composition import calibrate_sampled as calibrate_sampled
from ._composition import split_mu as split_mu
from ._errors import (
    LedgerError,
    NoisyFitWarning,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from ._gaussian import calibrate_exponential as calibrate_exponential
from ._gaussian import calibrate_gaussian as calibrate_gaussian
from ._gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from ._ledger.accountant import PrivacyAccountant
from ._ledger.context import ambient_accountant as ambient_accountant
from ._ledger.costs import Spent as Spent
from ._ledger.costs import relation_factor as relation_factor

__all__ = [
    "LedgerError",
    "NoisyFitWarning",
    "PrivacyAccountant",
    "PrivacyBudgetError",
    "PrivacyLeakWarning",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
]
