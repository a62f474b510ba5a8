"""One private regression a user.

The estimator lives here with the models that stay with users; what all users release
together is in ``_statistics.shared_directions``.
"""

from ._lrs import LRSRegressor

__all__ = ["LRSRegressor"]
