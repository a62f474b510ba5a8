"""Estimators whose releases follow from the shape of one table of rows."""

from __future__ import annotations

from typing import Any, ClassVar

from ..mechanisms import PrivacyPlan
from ..mechanisms._numbers import check_count
from .documented import documented
from .estimator import PrivateEstimator


@documented
class TableEstimator(PrivateEstimator):
    """Base of estimators of one table, in which a row is replaced.

    A subclass says by ``_statistic`` what a fit of a shape releases, and has a ``fit``
    that is ``@unweighted``.
    """

    _levels_around_fit: ClassVar[int] = 1  # that of @unweighted

    def privacy_plan(self, n_samples, n_features) -> PrivacyPlan:
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int
            Number of rows, public.
        n_features : int
            Number of features.

        Returns
        -------
        {plan_of_shape}

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        n_features = check_count("n_features", n_features)
        return self._planned(self._statistic(n_samples, n_features))

    def _statistic(self, n_samples: int, n_features: int) -> Any:
        """Return what a fit of that shape releases, from public numbers alone."""
        raise NotImplementedError
