"""Fits that count every row once, and say so to whoever weighs them."""

from __future__ import annotations

import functools


def unweighted(method):
    """Refuse `sample_weight` by its name; a decorator of ``fit`` and its like.

    The signature stays as it is, so that scikit-learn's tools see that weights are not
    supported, and send none. None is let through.

    Parameters
    ----------
    method : callable
        Method of an estimator.

    Returns
    -------
    callable
        The same, one call further from its caller.
    """

    @functools.wraps(method)
    def counted_once(estimator, *args, **kwargs):
        if kwargs.pop("sample_weight", None) is not None:
            raise TypeError(
                f"{type(estimator).__name__}.{method.__name__} takes no sample_weight: "
                "its guarantee holds for rows that all count once; leave it out"
            )
        return method(estimator, *args, **kwargs)

    return counted_once
