"""Estimators of scikit-learn whose fit takes nothing from the values of rows."""

from __future__ import annotations

import numpy as np
from scipy import special
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.random_projection import BaseRandomProjection

# Fitting these takes nothing from X; they treat each row alone.
_ROW_BY_ROW = (Binarizer, FeatureHasher, HashingVectorizer, Normalizer)
# Fitting these takes the shape of X.
_SHAPE_ALONE = (BaseRandomProjection, PolynomialFeatures)


def stateless_reason(estimator) -> str | None:
    """Say why fitting takes nothing from the values; None if it may."""
    if isinstance(estimator, _ROW_BY_ROW):
        return "treats each row alone"
    if isinstance(estimator, FunctionTransformer):
        # Any other function may look at several rows at once.
        return "treats each value alone" if treats_values_alone(estimator) else None
    if isinstance(estimator, _SHAPE_ALONE):
        return "takes from X its shape alone"
    if isinstance(estimator, SimpleImputer) and estimator.strategy == "constant":
        # Otherwise the columns that come out depend on where values are missing.
        fixed = estimator.keep_empty_features and not estimator.add_indicator
        return "fills in a constant" if fixed else None
    if isinstance(estimator, (OneHotEncoder, OrdinalEncoder)):
        fixed = estimator.categories != "auto" and not _counts_categories(estimator)
        return "its categories are given" if fixed else None
    return None


def _counts_categories(estimator) -> bool:
    """Whether an encoder groups or drops categories by how often they occur."""
    counted = (estimator.min_frequency, estimator.max_categories)
    return any(limit is not None for limit in counted)


def treats_values_alone(transformer: FunctionTransformer) -> bool:
    """Whether its functions are numpy's or scipy's own, one value at a time.

    An instance of ``numpy.ufunc`` need not be: ``numpy.frompyfunc`` makes one of any
    function, which may remember what it was given.
    """
    functions = (transformer.func, transformer.inverse_func)
    arguments = (transformer.kw_args, transformer.inv_kw_args)
    return not any(arguments) and all(
        function is None
        or any(
            getattr(module, getattr(function, "__name__", ""), None) is function
            for module in (np, special)
            if isinstance(function, np.ufunc)
        )
        for function in functions
    )
