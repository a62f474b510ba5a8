"""What a search will release and cost, and what it refuses; no rows are needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sklearn.base import is_classifier

from ..audit._splits import reason_of_splits
from ..mechanisms import PrivacyPlan
from ..mechanisms._numbers import check_count, check_real
from ..metrics._private_scorer import PrivateScorer
from ._candidates import check_distributions, check_estimator
from ._held_out import exposure_of, scorer_of, splits_by_position, splitter_of
from ._run_budgets import Exposure, RunBudgets


class PlannedSearch:
    """Plan a search by its parameters and the number of rows."""

    # What a search is made with.
    estimator: Any
    param_distributions: Any
    epsilon: float
    delta: float
    expected_n_iter: float
    n_iter_law: str
    scoring: Any
    cv: Any
    refit: Any
    score_share: float
    noise_seed: Any
    # Of every private estimator.
    _validate_params: Callable[[], None]
    _check_budget: Callable[[], None]

    def privacy_plan(self, n_samples, n_features=None):
        """Describe what a search will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int
            Number of rows; of no matter where users are protected.
        n_features : int or None, default=None
            Of no matter; for the signature of other estimators.

        Returns
        -------
        PrivacyPlan
            What a search is charged with. Its remarks, and :meth:`fit_epsilon`, say
            what one fit may ask for.

        Raises
        ------
        ValueError
            If a parameter is invalid, or the budget too small.
        """
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        scorer = scorer_of(self.scoring)
        return self._plan(scorer, self._budgets(self._exposure(scorer, n_samples)))

    def fit_epsilon(self, n_samples):
        """Say what one fit of a run may ask for at the delta of the search.

        Parameters
        ----------
        n_samples : int
            As in :meth:`privacy_plan`.

        Returns
        -------
        float
            Epsilon of a fit, to be given to steps with ``step_budgets="given"``.
        """
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        exposure = self._exposure(scorer_of(self.scoring), n_samples)
        return self._budgets(exposure).fit_epsilon(self.delta)

    def _exposure(self, scorer: PrivateScorer, n_samples: int) -> Exposure:
        cv = splitter_of(self.cv, scorer)
        return exposure_of(cv, splits_by_position(cv, scorer, n_samples), n_samples)

    def _check_parameters(self) -> None:
        if self.epsilon is None or self.epsilon == math.inf:
            raise ValueError(
                "epsilon of a private search must be a number: without privacy, take "
                "RandomizedSearchCV"
            )
        if self.scoring is None:
            raise ValueError(
                "scoring must be given: make_private_scorer(...), or a name of a score "
                "that needs no parameters, as 'accuracy'"
            )
        self._check_values()
        check_distributions(self.param_distributions)
        check_estimator(self.estimator)
        scorer = scorer_of(self.scoring)
        classifier = is_classifier(self.estimator)
        unit = scorer.relation[0]
        cv = splitter_of(self.cv, scorer)
        reason = reason_of_splits(cv, unit, classifier=classifier)
        if reason is not None:
            raise ValueError(f"cv: {reason}")

    def _check_values(self) -> None:
        """Check each parameter on its own, but for what is searched."""
        for name in ("epsilon", "delta", "expected_n_iter", "score_share"):
            check_real(name, getattr(self, name))
        self._validate_params()
        if self.expected_n_iter <= 1 and self.n_iter_law != "poisson":
            raise ValueError(
                f"expected_n_iter must be above 1, got {self.expected_n_iter}: what is "
                "tried once needs no search"
            )
        self._check_budget()

    def _budgets(self, exposure: Exposure) -> RunBudgets:
        budgets = RunBudgets.within(
            float(self.epsilon),
            float(self.delta),
            exposure,
            expected_n_iter=float(self.expected_n_iter),
            law=self.n_iter_law,
            score_share=float(self.score_share),
            refit=self.refit is True,
        )
        if not budgets.fit_epsilon(self.delta) > 0.0:
            raise ValueError(
                f"epsilon={self.epsilon:g} leaves nothing for a fit of each run: raise "
                "it, or lower expected_n_iter"
            )
        return budgets

    def _plan(self, scorer: PrivateScorer, budgets: RunBudgets) -> PrivacyPlan:
        return budgets.plan(
            float(self.epsilon),
            float(self.delta),
            estimator=type(self).__name__,
            relation=scorer.relation,
            seeded=self.noise_seed is not None,
        )
