"""A search that releases the best of a secret, random number of private runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

from .._base.estimator import noted_caveats
from .._base.privacy_report import has_own_methods
from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register
from .._release.noise import record_release
from .._release.selection import SelectionRelease, number_of_candidates
from .._tables.readers import read_quietly
from .._tables.rows import table_shape
from ..accounting._selection import LAWS, MOST_EXPECTED_RUNS
from ..mechanisms import PrivacyPlan, Unit, shown
from ..metrics._private_scorer import PrivateScorer
from ._candidates import (
    MOST_CHECKED,
    check_candidates,
    checked_form,
    failure_of_fits,
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
    r"""Best of a secret, random number of runs, chosen by a private score.

    Each run draws a candidate, fits it on each split and releases one score on the
    held-out rows. Only the run with the best score is released, with its noisy score;
    the number of runs stays secret. At epsilon = 1 and delta = 1e-6, under the
    logarithmic distribution, this costs the :math:`\mu^2` of 2.31, 3.00 and 3.98 runs
    for an expected 20, 100 and 1,000 runs.

    Parameters
    ----------
    expected_n_iter : float, default=20
        Expected number of runs.
    n_iter_law : {"auto", "logarithmic", "geometric", "poisson"}, default="auto"
        Distribution of the number of runs, listed from the cheapest, for which few runs
        are likely, to the most concentrated around its mean. "auto" uses the
        logarithmic distribution or, from 14 runs on, the Poisson distribution if it
        leaves more budget per run. A Poisson distribution may draw no run, which is an
        error.
    cv : int, splitter or None, default=None
        How rows are held out, independently of values. None holds out a quarter of the
        rows, using :class:`PrivateSplit` with ``n_splits=1``. An integer is its number
        of folds. With k folds, each row pays for k - 1 fits; with a single split, each
        row pays for either a fit or a score.
    refit : {"winner"} or bool, default="winner"
        How `best_estimator_` is fitted. "winner" keeps the best run's fit on the first
        split, at no cost. True pays for one more fit on all rows. False does not set
        it.
    score_share : float, default=0.2
        Share of a run's :math:`\mu^2` for its score, if rows pay for both fits and
        scores.

    See Also
    --------
    Vote : Keeps the given estimator unless blocks of the rows prefer another.

    Notes
    -----
    **Formal guarantee.** Let the expected number of runs be E[K], and let each run be
    :math:`\mu`-Gaussian differentially private. Then delta is E[K] times the delta of
    one run, and epsilon is the epsilon of one run plus :math:`(1 + \eta) x`. Here x is
    the root of :math:`(1 - \gamma) \delta(x) = \gamma (e^x - 1)`, with the parameters
    :math:`\gamma` and :math:`\eta` of the distribution
    (:ref:`lemma-selection-profile`).

    Each fit has its own ledger, which refuses to spend more than the fit's share. A run
    that fails for any reason gets the worst score. If no run succeeds, the search
    raises an error without details. Only the elapsed time depends on the number of
    runs; attributes, warnings, output and permanent files do not. Therefore the search
    has no limit of time or runs and no parallel runs: runs are sequential, and their
    jobs are threads. During the search, the global generators of numpy and Python have
    secret seeds; their states are restored afterwards.

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
                f"expected_n_iter must be above 1, got {self.expected_n_iter}: a "
                "single run needs no search"
            )
        if search.verbose:
            raise ValueError(
                "verbose must be 0 with RandomRuns: printed lines would reveal the "
                "number of runs, which is secret"
            )
        if search.n_jobs is not None:
            raise ValueError(
                "n_jobs must be None with RandomRuns: the number of runs is secret, "
                "so they cannot run in parallel"
            )
        if not isinstance(search.scoring, (str, PrivateScorer)):
            raise ValueError(
                "scoring must be given with RandomRuns: make_private_scorer(...), or "
                "the name of a score that needs no parameters, such as 'accuracy'"
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
        exposure = self._exposure(search, table_shape(X)[0])
        return self._budgets(search, exposure, X).mu_fit

    def _plan(self, search: Any, X: Any) -> PrivacyPlan:
        """Return the plan of a search, by the shape of rows."""
        budgets = self._budgets(search, self._exposure(search, table_shape(X)[0]), X)
        return self._plan_of(search, budgets)

    def _plan_for(self, search: Any, X: Any) -> PrivacyPlan:
        """Return the plan of a search on X, after all that a fit checks before it."""
        _, n_rows = checked_form(search.estimator, X, None)
        scorer = scorer_of(search.scoring)
        splits = splits_by_position(splitter_of(self.cv, scorer), scorer, n_rows)
        budgets = self._budgets(search, self._exposure(search, n_rows), X)
        self._check_fits(search, X, n_rows, splits, budgets)
        return self._plan_of(search, budgets)

    def _check_fits(
        self, search: Any, X: Any, n_rows: int, splits: Any, budgets: RunBudgets
    ) -> None:
        """Refuse candidates of which a fit can't be paid for, by the form of rows."""
        scorer = scorer_of(search.scoring)
        check_candidates(
            search.estimator,
            listed(search.param_distributions),
            X,
            n_rows if splits is None else len(splits[0][0]),
            scorer.relation,
            budgets.mu_fit,
            search.step_budgets == "scaled",
            float(search.delta),
            scorer.user_feature,
            budgets.fit_failure,
        )

    def _exposure(self, search: Any, n_samples: int) -> Exposure:
        scorer = scorer_of(search.scoring)
        cv = splitter_of(self.cv, scorer)
        return exposure_of(cv, splits_by_position(cv, scorer, n_samples), n_samples)

    def _budgets(self, search: Any, exposure: Exposure, X: Any) -> RunBudgets:
        space = listed(search.param_distributions)
        budgets = RunBudgets.within(
            float(search.epsilon),
            float(search.delta),
            exposure,
            expected_n_iter=float(self.expected_n_iter),
            law=self.n_iter_law,
            score_share=float(self.score_share),
            refit=self.refit is True,
            fit_failure=failure_of_fits(search, space, X),
        )
        if not budgets.fit_epsilon(search.delta) > 0.0:
            raise ValueError(
                f"epsilon={search.epsilon:g} leaves no budget for the fits of the "
                "runs: increase epsilon, or lower expected_n_iter"
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
        budgets = self._budgets(search, exposure_of(cv, splits, n_rows), X)
        plan = self._plan_of(search, budgets)
        scaled, space = search.step_budgets == "scaled", search.param_distributions
        with noted_caveats() as caveats:
            self._check_fits(search, X, n_rows, splits, budgets)
        # Warnings of runs stay in them: these go by public numbers alone.
        warn_beforehand(caveats, level=3 + search._levels_around_fit)
        by_rows = scorer.relation[0] is Unit.ROW
        # It is charged here, and values are read from here on.
        release, *read = search._start_release(
            plan,
            *unread,
            n_public=n_rows if by_rows else None,
            kind=SelectionRelease,
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
            failure=budgets.fit_failure,
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


# These go by the number of rows alone, which is public where one row is replaced.
_BY_POSITION = (
    KFold,
    LeaveOneOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

_INSTEAD = {
    Unit.ROW: "use PrivateSplit() or KFold()",
    Unit.USER: "take PrivateSplit(user_feature=...)",
}


def reason_of_splits(
    cv: Any, unit: Unit, *, classifier: bool, users: Any = None
) -> str | None:
    """Return why folds void a guarantee, and an alternative; None if they do not.

    Each row, or user, must be assigned to its fold independently of others. A number as
    `cv` means stratified folds for a classifier. `users` is the column of users that is
    scored, or None.
    """
    instead = _INSTEAD[Unit(unit)]
    own = getattr(cv, "_splits_by", None)
    changed = hasattr(cv, "split") and has_own_methods(cv)
    if (
        own is not None
        and not changed
        and type(cv).__module__.startswith("skdpspectral.")
    ):
        if own is unit:
            return reason_of_users("cv", getattr(cv, "user_feature", None), users)
        return f"its folds are made for a guarantee of one {own}: {instead}"
    number = cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool))
    if number and classifier:
        return (
            f"cv={cv} means StratifiedKFold for a classifier, so that one label moves "
            f"other rows between folds: {instead}"
        )
    if number or (type(cv) in _BY_POSITION and not changed):
        if unit is Unit.ROW:
            return None
        return (
            "its folds depend on positions, so that a user who joins or leaves moves "
            f"rows of other users between folds: {instead}"
        )
    kind = type(cv).__name__ if hasattr(cv, "split") else shown(cv)
    return (
        f"{kind} may look at labels, groups or users, so that one row moves others "
        f"between folds: {instead}"
    )


def reason_of_users(name: str, feature: Any, users: Any) -> str | None:
    """Return why a column of users is not the scored one; None if it is."""
    if users is None or feature is None or feature == users:
        return None
    if isinstance(feature, str) != isinstance(users, str):
        return None  # a name and a position may be of one column
    return (
        f"{name} has user_feature={feature!r}, and the scorer {users!r}: a user of one "
        "column moves rows of others in another; use the same in both"
    )


def reason_of_scorer(scorer) -> str | None:
    """Return what scores on private rows reveal; None if noise is added."""
    if type(scorer) is not PrivateScorer or has_own_methods(scorer):
        return (
            "chooses parameters by scores on private rows, which no budget accounts "
            "for: use make_private_scorer, or PrivateSearchCV"
        )
    if scorer.epsilon == math.inf or scorer.seeded:
        return "its scores have no secret noise: pass epsilon to make_private_scorer"
    return None
