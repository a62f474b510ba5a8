"""Private scaling of numbers, vectors of tables, and quantiles of columns.

``_scaler`` and ``_vectorizer`` have the estimators, ``_columns`` the counts of
categories and what is made of each value, and ``_quantiles`` releases of functions;
releases of numbers are in ``_statistics.feature_scales``.
"""

from ._quantiles import private_quantiles
from ._scaler import DPStandardScaler
from ._vectorizer import DPTableVectorizer

__all__ = ["DPStandardScaler", "DPTableVectorizer", "private_quantiles"]
