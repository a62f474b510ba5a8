"""Private scaling of numbers, and vectors of tables, in front of other estimators.

``_scaler`` and ``_vectorizer`` have the estimators, ``_categories`` the counts of
categories, ``_columns`` what is made of each value; releases of numbers are in
``_statistics.feature_scales``.
"""

from ._scaler import DPStandardScaler
from ._vectorizer import DPTableVectorizer

__all__ = ["DPStandardScaler", "DPTableVectorizer"]
