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
_KNOWN = ("sklearn", "skdpspectral")
# Fitting these takes the shape of X.
_SHAPE_ALONE = (BaseRandomProjection, PolynomialFeatures)


def is_known(estimator) -> bool:
    """Whether the code of an estimator is that of scikit-learn or of this library.

    A class derived from theirs may have any other ``fit``.
    """
    return type(estimator).__module__.partition(".")[0] in _KNOWN


def stateless_reason(estimator) -> str | None:
    """Say why fitting takes nothing from the values; None if it may."""
    if not is_known(estimator) or telling_reason(estimator) is not None:
        return None
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
        given = not isinstance(estimator.categories, str)
        fixed = given and not _counts_categories(estimator)
        return "its categories are given" if fixed else None
    return None


def telling_reason(estimator) -> str | None:
    """Say how a step that fits nothing may still tell of values; None if it may not.

    Errors and warnings come before any later step is charged.
    """
    if isinstance(estimator, HashingVectorizer):
        functions = ("preprocessor", "tokenizer", "analyzer")
        if any(callable(getattr(estimator, name)) for name in functions):
            return "a function reads its texts, and may remember them"
    if isinstance(estimator, FunctionTransformer):
        both = estimator.func is not None and estimator.inverse_func is not None
        if both and estimator.check_inverse:
            return "warns of rows that do not come back: set check_inverse=False"
    if isinstance(estimator, OneHotEncoder) and not _is_silent(estimator):
        return (
            "an error or a warning tells of categories that were not given: set "
            "handle_unknown='ignore', without drop"
        )
    if isinstance(estimator, OrdinalEncoder) and estimator.handle_unknown == "error":
        return (
            "an error tells of categories that were not given: set "
            "handle_unknown='use_encoded_value'"
        )
    return None


def _is_silent(encoder: OneHotEncoder) -> bool:
    """Whether unknown categories make no error and no warning."""
    silent = encoder.handle_unknown in ("ignore", "infrequent_if_exist")
    return silent and encoder.drop is None


def makes_sparse(estimator) -> bool:
    """Whether a stateless step makes sparse rows, by their values, of dense ones."""
    if isinstance(estimator, OneHotEncoder):
        return bool(estimator.sparse_output)
    return isinstance(estimator, (FeatureHasher, HashingVectorizer))


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
