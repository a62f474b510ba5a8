"""How a private search holds rows out: its splitter, its splits, who pays for what."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import get_tags

from .._tables.rows import Unread, unread_rows
from ..mechanisms import PrivacyPlan, Unit
from ..mechanisms._numbers import shown
from ..metrics._measured import SEARCH
from ..metrics._private_scorer import PrivateScorer, make_private_scorer
from ._private_split import PrivateSplit
from ._run_budgets import Exposure, RunBudgets


def scorer_of(scoring: PrivateScorer | str) -> PrivateScorer:
    """Return what is measured, and refuse a score that has a budget of its own."""
    if isinstance(scoring, str):
        return make_private_scorer(scoring)
    if scoring.epsilon != SEARCH:
        raise ValueError(
            f"scoring has epsilon={scoring.epsilon} of its own: leave it to the "
            "search, which pays for the best score alone"
        )
    if scoring.accountant is not None or scoring.seeded:
        raise ValueError(
            "scoring has an accountant or a noise_seed: the search has both"
        )
    return scoring


def splitter_of(cv: Any, scorer: PrivateScorer) -> Any:
    """Return a splitter; of a number of folds, a private one.

    Raises
    ------
    ValueError
        If positions are given, or it is no splitter.
    """
    dealt: dict[str, Any] = {"user_feature": scorer.user_feature, "random_state": 0}
    if cv is None:
        return PrivateSplit(1, **dealt)
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 1:
            raise ValueError(f"cv must be at least 1, got {cv}")
        return PrivateSplit(int(cv), **dealt)
    if not hasattr(cv, "split"):
        raise ValueError(
            "cv must be a number, a splitter or None; positions that are given say "
            f"nothing of how they were found, got {shown(cv)}"
        )
    return cv


def splits_by_position(cv: Any, scorer: PrivateScorer, n_rows: int) -> list | None:
    """Return splits of rows; None where users are dealt, whose ids are private.

    Raises
    ------
    ValueError
        If there are too few rows.
    """
    if scorer.relation[0] is Unit.USER:
        return None
    try:
        splits = list(cv.split(np.broadcast_to(0.0, (n_rows, 1))))
    except ValueError as error:
        raise ValueError(f"cv: {error}") from None
    for train, test in splits:
        if not (len(train) and len(test)):
            raise ValueError("cv must leave rows on both sides of every split")
        scorer.n_terms(len(test))  # refuses what is too few
    return splits


def exposure_of(cv: Any, splits: list | None, n_rows: int) -> Exposure:
    """Return how often a row, or a user, is fitted on and held out."""
    if splits is None:
        return Exposure.of_users(cv.get_n_splits())
    return Exposure.of_rows(splits, n_rows)


def sliceable(table: Any, read: Any = None) -> Any:
    """Return a table whose rows can be taken, with its names if it has any."""
    if sparse.issparse(table):
        return table.tocsr()
    if table is None or hasattr(table, "shape"):
        return table
    return np.asarray(table) if read is None else read


def unread_numbers(estimator: Any, X: Any) -> Unread | None:
    """Check the form of rows of numbers; None of tables that have ids in them."""
    tags = get_tags(estimator).input_tags
    if tags.allow_nan or tags.categorical or tags.string or not tags.two_d_array:
        return None
    return unread_rows(None, X, accept_sparse=tags.sparse, in_blocks=True)


def score_plan(
    plan: PrivacyPlan,
    scorer: PrivateScorer,
    splits: list,
    n_rows: int,
    budgets: RunBudgets,
) -> PrivacyPlan:
    """Return the plan of the score of a run, over all folds."""
    terms, times = 1, 1
    if scorer.relation[0] is Unit.ROW:
        terms = sum(scorer.n_terms(len(test)) for _, test in splits)
        times = Exposure.of_rows(splits, n_rows).n_times
    return PrivacyPlan(
        plan.epsilon,
        plan.delta,
        scorer.statistic(terms, times).mechanisms(budgets.mu_score),
        estimator=scorer.score,
        unit=plan.unit,
        neighbors=plan.neighbors,
        seeded=plan.seeded,
    )
