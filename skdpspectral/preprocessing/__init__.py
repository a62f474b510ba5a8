"""Private scaling of numbers, and vectors of tables, in front of other estimators.

``_scaler`` and ``_vectorizer`` have the estimators, ``_columns`` the counts of
categories and what is made of each value; releases of numbers are in
``_statistics.feature_scales``.
"""

from ._scaler import DPStandardScaler
from ._vectorizer import DPTableVectorizer

__all__ = ["DPStandardScaler", "DPTableVectorizer"]
