"""Runs of a search: fits and one score each, held to a budget of their own.

How a private search holds rows out: its splitter, its splits, who pays for what.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config
from scipy import sparse
from sklearn.utils import get_tags

from .._base.sklearn_compat import taken_rows
from .._release import Release
from .._tables.entries import read_entries
from .._tables.rows import Unread, unread_rows
from ..accounting import PrivacyAccountant, PrivacyLeakWarning, gaussian_epsilon
from ..accounting._ledger.context import without_accountant
from ..accounting._ledger.schema import forget
from ..mechanisms import PrivacyPlan, Unit
from ..mechanisms._relations import shown
from ..metrics._private_scorer import SEARCH, PrivateScorer, make_private_scorer
from ._candidates import (
    Exposure,
    RunBudgets,
    candidate_model,
    check_candidate,
    private_parts,
)
from ._splits import PrivateSplit

# Where files are memory, if there is such a place: ledgers of runs need not last.
_MEMORY = "/dev/shm"

# Seeds of one run, made of its own: for its score, and for its fits.
_SEEDS_APART = 1009


class Outcome(NamedTuple):
    """What came of a run: its released score, minus infinity if it failed.

    `std` is the standard error of the score by its noise; `model` that of the first
    split.
    """

    score: float
    std: float
    candidate: dict[str, Any]
    model: Any

    def results(self) -> dict[str, Any]:
        """Return it as the results of a search that has tried nothing else."""
        results: dict[str, Any] = {"params": [self.candidate]}
        for name, value in self.candidate.items():
            column = np.ma.masked_all(1, dtype=object)
            column[0] = value
            results[f"param_{name}"] = column
        results["mean_test_score"] = np.array([self.score])
        results["std_error_test_score"] = np.array([self.std])
        results["rank_test_score"] = np.array([1], dtype=np.int32)
        return results


def succeeded(best: Outcome | None) -> Outcome:
    """Return the outcome of the best run, or an error that says no more than that."""
    if best is None or best.model is None:
        raise RuntimeError(
            "no run of the search came to a score: its law drew none, or all of them "
            "failed; fit the estimator alone to see whether it can be fitted on such "
            "rows, which is charged on its own"
        )
    return best


def winner(model: Any, plan: PrivacyPlan) -> Any:
    """Return the model of the best run, whose steps claim what its search does.

    A fit that was chosen by its score has the guarantee of the choice.
    """
    said = (
        f"It is that of the {plan.estimator} which chose this fit among others; mu is "
        "that of its own noise, and no guarantee."
    )
    for part in private_parts(model).values():
        part.privacy_ = replace(
            part.privacy_,
            epsilon=plan.epsilon,
            delta=plan.delta,
            remarks=(said, *part.privacy_.remarks),
        )
    return model


@dataclass(frozen=True)
class Runs:
    """All that the runs of a search have in common.

    They have the same splits, and the same release of a score. A fit may cost `mu_fit`,
    to which budgets of steps are `scaled`. `checked` says whether all candidates were
    before.
    """

    estimator: Any
    X: Any
    y: Any
    splits: Sequence[tuple[np.ndarray, np.ndarray]]
    scorer: PrivateScorer
    score_plan: PrivacyPlan
    mu_fit: float
    delta: float
    scaled: bool
    checked: bool

    def __call__(
        self, candidates: Iterable[tuple[dict[str, Any], int | None]]
    ) -> Iterator[Outcome]:
        """Yield the outcome of a run for each candidate, in their order."""
        yield from (self._run(*one) for one in candidates)

    def _run(self, candidate: dict[str, Any], seed: int | None) -> Outcome:
        """Fit on every split and release one score; a failure is the worst score."""
        try:
            models: list[Any] = []
            measured = []
            for number, (train, test) in enumerate(self.splits):
                own = None if seed is None else seed + number + 1
                model = self.fitted(candidate, train, own)
                X, y = taken_rows(self.X, test), taken_rows(self.y, test)
                measured.append(self.scorer.measure(model, X, y))
                models = models or [model]
            release = Release(self.score_plan, None, seed)
            score, std = self.scorer.released(release, measured)
            if math.isfinite(score):
                return Outcome(score, std, candidate, models[0])
        except Exception:
            # Whatever it is, it is no more than the worst score, and nobody sees it.
            pass
        return Outcome(-math.inf, math.nan, candidate, None)

    def fitted(
        self, candidate: Mapping[str, Any], rows: np.ndarray | None, seed: int | None
    ) -> Any:
        """Return a model fitted on some rows, or on all, within the budget of a fit.

        Its private steps keep neither the ledger nor the seeds that they had.
        """
        model = candidate_model(self.estimator, candidate, self.mu_fit, self.scaled)
        X, y = self.X, self.y
        if rows is not None:
            X, y = taken_rows(X, rows), taken_rows(y, rows)
        plan = self.score_plan
        if not self.checked:
            relation = (plan.unit, plan.neighbors)
            check_candidate(model, X, relation, self.mu_fit, "it was drawn")
        parts = private_parts(model).values()
        with _run_accountant(self.mu_fit, self.delta, plan, seed) as accountant:
            for number, part in enumerate(parts):
                own = None if seed is None else (_SEEDS_APART * seed + number) % 2**31
                part.set_params(accountant=accountant, noise_seed=own)
            model.fit(X) if y is None else model.fit(X, y)
        # A pipeline with a memory has fitted copies of its steps.
        for part in private_parts(model).values():
            part.set_params(accountant=None, noise_seed=None)
            vars(part).pop("_made_in", None)
        return model


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let nothing out: how often would tell how many runs there are.

    Jobs of a fit are threads: worker processes have warnings, lines and global
    generators of their own.
    """
    with (
        np.errstate(all="ignore"),
        without_accountant(),
        parallel_config(backend="threading"),
    ):
        yield


@contextlib.contextmanager
def said_already() -> Iterator[None]:
    """Leave warnings of the last fit as they are, but what its search has said."""
    with warnings.catch_warnings(), without_accountant():
        warnings.filterwarnings("ignore", "noise_seed is given", PrivacyLeakWarning)
        yield


@contextlib.contextmanager
def _run_accountant(
    mu: float, delta: float, plan: PrivacyPlan, seed: int | None
) -> Iterator[PrivacyAccountant]:
    """Give a ledger for one fit, which refuses what is beyond its budget."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="skdpspectral-", dir=place) as folder:
        accountant = PrivacyAccountant(
            gaussian_epsilon(mu, delta),
            delta,
            path=os.path.join(folder, "run.db"),
            unit=str(plan.unit),
            neighbors=str(plan.neighbors),
            allow_seeded=seed is not None,
        )
        try:
            yield accountant
        finally:
            # Of a ledger a fit, what is known of them would tell how many there were.
            forget(accountant._id)


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
    """Return a splitter; of a number of folds, a private one."""
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
    """Return splits of rows; None where users are dealt, whose ids are private."""
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


def sliceable(table: Any, name: str, read: Any = None) -> Any:
    """Return a table whose rows can be taken, with its names if it has any."""
    if sparse.issparse(table):
        return table.tocsr()
    if table is None or hasattr(table, "shape"):
        return table
    return read_entries(table, name) if read is None else read


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
