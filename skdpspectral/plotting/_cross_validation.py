"""Held-out scores at values of one parameter, on folds that are drawn once."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, check_cv

from ..accounting import PrivacyBudgetError, PrivacyLeakWarning
from ._search_results import fold_scores


class CrossValidation:
    """Cross-validation of an estimator at several values of its epsilon.

    Parameters
    ----------
    estimator : estimator
        Cloned for every fit.
    X, y, groups : array-like
        Rows, targets and groups; the last two may be None.
    param_name : str
        The parameter that is epsilon.
    cv, scoring, n_jobs
        As in :func:`~sklearn.model_selection.cross_val_score`.
    params : dict or None, default=None
        Passed to ``fit``.
    """

    def __init__(
        self,
        estimator,
        X,
        y,
        groups,
        *,
        param_name,
        cv=None,
        scoring=None,
        n_jobs=None,
        params=None,
    ):
        folds = check_cv(cv, y, classifier=is_classifier(estimator))
        self._data, self._params = (X, y), params or {}
        self._param_name = param_name
        self._search = GridSearchCV(
            clone(estimator),
            {},
            scoring=scoring,
            n_jobs=n_jobs,
            # As a list: a splitter that shuffles would divide each time anew.
            cv=list(folds.split(X, y, groups)),
            refit=False,
            error_score="raise",
        )

    def scores(self, epsilons) -> np.ndarray:
        """Held-out scores of fits with these budgets.

        Parameters
        ----------
        epsilons : sequence of float or None
            Values of the parameter.

        Returns
        -------
        ndarray of shape (n_epsilons, n_folds)
            One row an epsilon.
        """
        grid = {self._param_name: list(epsilons)}
        self._search.set_params(param_grid=grid).fit(*self._data, **self._params)
        return fold_scores(self._search)

    def baseline_score(self) -> float:
        """Mean held-out score without privacy, which the caller asked for.

        Returns
        -------
        float
            The mean over folds.

        Raises
        ------
        PrivacyBudgetError
            If an accountant has a budget.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                return float(self.scores([None]).mean())
        except PrivacyBudgetError as error:
            raise PrivacyBudgetError(
                f"{error}; the baseline is such a fit: pass baseline=False",
                error.requested,
                error.remaining,
            ) from error
