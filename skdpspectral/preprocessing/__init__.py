"""Private scaling of numbers, vectors of tables, and quantiles of columns.

Releases of numbers are in ``_statistics.feature_scales``.
"""

from ._quantiles import private_quantiles
from ._scaler import DPStandardScaler
from ._vectorizer import DPTableVectorizer

__all__ = ["DPStandardScaler", "DPTableVectorizer", "private_quantiles"]
