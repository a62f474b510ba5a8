"""One private regression a user.

The estimator lives here with its strategies and the models that stay with users; what
all users release together is in ``_statistics.shared_directions``.
"""

from ._lrs import LRSRegressor
from ._parameters import Alternation, Clip
from ._users import personalize

__all__ = ["Alternation", "Clip", "LRSRegressor", "personalize"]
