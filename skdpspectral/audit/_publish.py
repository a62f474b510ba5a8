"""Copies of fitted compositions that are safe to hand on."""

from __future__ import annotations

import warnings

from sklearn.utils.validation import check_is_fitted

from .._base.estimator import Publishable, published_copy
from .._base.privacy_report import LEAKS, privacy_report
from ..accounting import PrivacyLeakWarning


def publish(estimator):
    """Return a copy of a fitted composition that holds releases and plans alone.

    Each private estimator in a pipeline, column transformer, union, search, ensemble or
    any other estimator is replaced by its own ``publish()``. Models of users, ledgers,
    seeds and callbacks are left out. Other attributes are copied.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of scikit-learn that holds private estimators, or one of
        these.

    Returns
    -------
    estimator
        A fitted estimator of the same class.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.

    Warns
    -----
    PrivacyLeakWarning
        If :func:`privacy_report` finds a step that leaks, or a fit was not private.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpspectral import DPPCA, LRSRegressor
    >>> from skdpspectral.audit import publish
    >>> rng = np.random.default_rng(0)
    >>> users = np.repeat(np.arange(40), 25)
    >>> X = np.column_stack([users, rng.normal(size=(1000, 3))])
    >>> model = make_pipeline(LRSRegressor(user_feature=0)).fit(X, X[:, 1] * users)
    >>> bool(np.array_equal(model.predict(X), publish(model).predict(X)))
    False
    """
    check_is_fitted(estimator)
    if isinstance(estimator, Publishable):
        return estimator.publish()
    leaks = [step for step in privacy_report(estimator) if step.verdict == LEAKS]
    if leaks:
        warnings.warn(
            f"{leaks[0].name} ({leaks[0].estimator}) leaks, and its copy does too: "
            f"{leaks[0].reason}",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return published_copy(estimator)
