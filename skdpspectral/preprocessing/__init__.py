"""Private scaling of features, in front of anything that rows are fed to.

The estimator lives here; what it releases is in ``_statistics.feature_scales``.
"""

from ._scaler import DPStandardScaler

__all__ = ["DPStandardScaler"]
