"""A search that releases the best of a secret, random number of private runs."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from .._base.estimator import noted_caveats
from .._base.privacy_report import reason_of_scorer, reason_of_splits
from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register
from .._release.noise import record_release
from .._release.selection import SelectionRelease, number_of_candidates
from .._tables.readers import read_quietly
from .._tables.rows import table_shape
from ..accounting._selection import LAWS, MOST_EXPECTED_RUNS
from ..mechanisms import PrivacyPlan, Unit
from ..metrics._private_scorer import PrivateScorer
from ._candidates import (
    MOST_CHECKED,
    check_candidates,
    checked_form,
    listed,
    quiet,
    sliceable,
    warn_beforehand,
    without_seed_warning,
)
from ._runs import (
    Exposure,
    Outcome,
    RunBudgets,
    Runs,
    exposure_of,
    score_plan,
    scorer_of,
    splits_by_position,
    splitter_of,
    succeeded,
    winner,
)


@register
@dataclass(eq=False, repr=False)
class RandomRuns(BaseEstimator):
    r"""The best of a secret, random number of runs, by a private score.

    A run draws a candidate, fits it on each split and releases one score of what was
    held out. Of all runs only the one of the best score is released, with its noisy
    score; their number stays secret. At epsilon = 1 and delta = 1e-6 that costs the
    :math:`\mu^2` of 2.96, 3.74 and 4.80 runs, for 20, 100 and 1,000 on average under
    the logarithmic law.

    Parameters
    ----------
    expected_n_iter : float, default=20
        Number of runs on average.
    n_iter_law : {"auto", "logarithmic", "geometric", "poisson"}, default="auto"
        Law of the number of runs, from the cheapest, under which few runs are likely,
        to the one that is nearest to its mean. "auto" takes of the logarithmic and,
        from 14 runs on, the Poisson law the one that leaves more for a run. A Poisson
        law may draw no run at all, which is an error.
    cv : int, splitter or None, default=None
        How rows are held out, without looking at values: None holds out a quarter, by
        :class:`PrivateSplit` with ``n_splits=1``; a number means so many of its folds.
        Of k folds a row pays for k - 1 fits, and of one split for a fit or a score.
    refit : {"winner"} or bool, default="winner"
        What becomes `best_estimator_`: "winner" is the best run's own fit on the first
        split, which is free; True pays for one more fit, on all rows; False is none.
    score_share : float, default=0.2
        Share of a run's :math:`\mu^2` that its score has, where the same rows pay for
        both fits and scores.

    See Also
    --------
    Vote : Keeps the estimator as given unless blocks of the rows prefer another.

    Notes
    -----
    **Formal guarantee.** With E[K] runs on average and runs that are
    :math:`\mu`-Gaussian differentially private, delta is that of one run times E[K],
    and epsilon that of one run plus
    :math:`(1 + \eta) \ln (\Phi(\Phi^{-1}(\gamma) + \mu) / \gamma)`, for parameters
    of the law (:ref:`lemma-selection-profile`).

    Each fit has a ledger of its own that refuses more than its part. What fails, for
    whatever reason, has the worst score. If no run succeeds, an error says so and no
    more. Nothing tells the number of runs but time: no attribute, warning, line or file
    that stays. So there is no limit of time or of runs, and no number of jobs: runs
    follow each other, and their jobs are threads. Meanwhile the global generators of
    numpy and Python have secret seeds; afterwards they are as they were.

    References
    ----------
    Papernot and Steinke (2022), Hyperparameter tuning with Renyi differential privacy.
    Koskela, Redberg and Wang (2024), Privacy profiles for private selection.
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("cv",)
    _parameter_constraints: ClassVar[dict] = {
        "expected_n_iter": [Interval(Real, 0, MOST_EXPECTED_RUNS, closed="right")],
        "n_iter_law": [StrOptions({"auto", *LAWS})],
        "cv": "no_validation",
        "refit": [StrOptions({"winner"}), "boolean"],
        "score_share": [Interval(Real, 0, 1, closed="neither")],
    }

    expected_n_iter: float = 20
    n_iter_law: str = "auto"
    cv: Any = None
    refit: Any = "winner"
    score_share: float = 0.2

    def _check(self, search: Any) -> None:
        """Refuse parameters of a search that do not fit together."""
        if self.expected_n_iter <= 1 and self.n_iter_law != "poisson":
            raise ValueError(
                f"expected_n_iter must be above 1, got {self.expected_n_iter}: what is "
                "tried once needs no search"
            )
        if search.verbose:
            raise ValueError(
                "verbose must be 0 with RandomRuns: lines would tell how many runs "
                "there are, which is secret"
            )
        if search.n_jobs is not None:
            raise ValueError(
                "n_jobs must be None with RandomRuns: the number of runs is secret, so "
                "that they cannot run in parallel"
            )
        if not isinstance(search.scoring, (str, PrivateScorer)):
            raise ValueError(
                "scoring must be given with RandomRuns: make_private_scorer(...), or a "
                "name of a score that needs no parameters, as 'accuracy'"
            )
        scorer = scorer_of(search.scoring)
        reason = reason_of_splits(
            splitter_of(self.cv, scorer),
            scorer.relation[0],
            classifier=is_classifier(search.estimator),
            users=scorer.user_feature,
        )
        if reason is not None:
            raise ValueError(f"cv: {reason}")

    def _reason_of_leak(self, search: Any) -> str | None:
        """Say what scores or folds reveal; None for nothing."""
        scorer, unit, users = search.scoring, Unit.ROW, None
        if not isinstance(scorer, str):
            reason = reason_of_scorer(scorer)
            if reason is not None:
                return reason
            unit, users = scorer.relation[0], scorer.user_feature
        if self.cv is None or isinstance(self.cv, int):
            return None
        return reason_of_splits(
            self.cv, unit, classifier=is_classifier(search.estimator), users=users
        )

    def _users_scored(self, search: Any) -> tuple[Any, bool]:
        """Return the column of users that is scored, and if scores are of rows."""
        users = getattr(search.scoring, "user_feature", None)
        return users, users is None

    def _fit_mu(self, search: Any, X: Any) -> float:
        """Return what one fit may cost, by the shape of rows."""
        return self._budgets(search, self._exposure(search, table_shape(X)[0])).mu_fit

    def _plan(self, search: Any, X: Any) -> PrivacyPlan:
        """Return the plan of a search, by the shape of rows."""
        budgets = self._budgets(search, self._exposure(search, table_shape(X)[0]))
        return self._plan_of(search, budgets)

    def _exposure(self, search: Any, n_samples: int) -> Exposure:
        scorer = scorer_of(search.scoring)
        cv = splitter_of(self.cv, scorer)
        return exposure_of(cv, splits_by_position(cv, scorer, n_samples), n_samples)

    def _budgets(self, search: Any, exposure: Exposure) -> RunBudgets:
        budgets = RunBudgets.within(
            float(search.epsilon),
            float(search.delta),
            exposure,
            expected_n_iter=float(self.expected_n_iter),
            law=self.n_iter_law,
            score_share=float(self.score_share),
            refit=self.refit is True,
        )
        if not budgets.fit_epsilon(search.delta) > 0.0:
            raise ValueError(
                f"epsilon={search.epsilon:g} leaves nothing for a fit of each run: "
                "raise it, or lower expected_n_iter"
            )
        return budgets

    def _plan_of(self, search: Any, budgets: RunBudgets) -> PrivacyPlan:
        return budgets.plan(
            float(search.epsilon),
            float(search.delta),
            estimator=type(search).__name__,
            relation=scorer_of(search.scoring).relation,
            seeded=search.noise_seed is not None,
        )

    def _search(self, search: Any, X: Any, y: Any) -> dict[str, Any]:
        """Charge and search; return the fitted attributes."""
        scorer = scorer_of(search.scoring)
        cv = splitter_of(self.cv, scorer)
        unread, n_rows = checked_form(search.estimator, X, y)
        splits = splits_by_position(cv, scorer, n_rows)
        budgets = self._budgets(search, exposure_of(cv, splits, n_rows))
        plan = self._plan_of(search, budgets)
        scaled, space = search.step_budgets == "scaled", search.param_distributions
        with noted_caveats() as caveats:
            check_candidates(
                search.estimator,
                listed(space),
                X,
                n_rows if splits is None else len(splits[0][0]),
                scorer.relation,
                budgets.mu_fit,
                scaled,
                float(search.delta),
                scorer.user_feature,
            )
        # Warnings of runs stay in them: these go by public numbers alone.
        warn_beforehand(caveats, level=3 + search._levels_around_fit)
        by_rows = scorer.relation[0] is Unit.ROW
        # It is charged here, and values are read from here on.
        release, *read = search._start_release(
            plan,
            *unread,
            n_public=n_rows if by_rows else None,
            kind=SelectionRelease,
            levels=1,
        )
        X = read_quietly(lambda: sliceable(X, "X", *read), "X could not be read")
        y = read_quietly(lambda: sliceable(y, "y"), "y could not be read")
        if splits is None:
            splits = list(cv.split(X))
        runs = Runs(
            estimator=search.estimator,
            X=X,
            y=y,
            splits=splits,
            scorer=scorer,
            score_plan=score_plan(plan, scorer, splits, n_rows, budgets),
            mu_fit=budgets.mu_fit,
            delta=float(search.delta),
            scaled=scaled,
            checked=number_of_candidates(space) <= MOST_CHECKED,
        )
        with quiet():
            best = succeeded(release.best(space, runs, attrgetter("score")))
        record_release("best", np.array([best.score]))
        found = self._found(best, plan, scorer, len(splits))
        if self.refit is True:
            with without_seed_warning():
                seed = release.draw_seed()
                found["best_estimator_"] = runs.fitted(best.candidate, None, seed)
        return found

    def _found(
        self, best: Outcome, plan: PrivacyPlan, scorer: PrivateScorer, n_splits: int
    ) -> dict[str, Any]:
        """Return what the best run leaves."""
        found = {
            "best_params_": best.candidate,
            "best_index_": 0,
            "best_score_": best.score,
            "best_score_std_": best.std,
            "n_splits_": n_splits,
            "scorer_": scorer,
            "multimetric_": False,
            "cv_results_": best.results(),
            "privacy_": plan,
        }
        if self.refit == "winner":
            found["best_estimator_"] = winner(best.model, plan)
        return found
