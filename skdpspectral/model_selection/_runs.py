"""Runs of a search by random runs: what they cost, and what they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .._base.sklearn_compat import take_rows
from .._release import Release
from ..accounting import (
    calibrate_gaussian,
    calibrate_selection,
    gaussian_epsilon,
)
from ..accounting._ledger.planned_fits import reads_clients
from ..mechanisms import (
    Concern,
    Gaussian,
    Neighbors,
    PrivacyPlan,
    PrivateSelection,
    Remark,
    Unit,
    shown,
)
from ..metrics._private_scorer import SEARCH, PrivateScorer, make_private_scorer
from ._candidates import (
    candidate_model,
    check_candidate,
    delta_beside,
    fitted_within_budget,
    private_fitted,
    stand_in,
)
from ._splits import PrivateSplit

_SECRET = Remark(
    "The number of runs, and all runs except the best, stay secret; the time that the "
    "search takes depends on this number and must not be published.",
    Concern.TRUST,
)


@dataclass(frozen=True)
class Exposure:
    """How often a protected unit is fitted on and held out in one run.

    `n_times` is the largest number of folds that hold out one row; `pairs` are the
    occurring pairs (fits on it, folds that hold it out).
    """

    n_times: int
    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def of_rows(
        cls, splits: Sequence[tuple[np.ndarray, np.ndarray]], n_rows: int
    ) -> Exposure:
        """Return the exposure of rows, given splits by position."""
        trained, tested = np.zeros((2, n_rows), dtype=np.intp)
        for train, test in splits:
            trained[train] += 1
            tested[test] += 1
        pairs = np.unique(np.stack([trained, tested], axis=1), axis=0)
        return cls(
            int(tested.max()), tuple((int(fits), int(folds)) for fits, folds in pairs)
        )

    @classmethod
    def of_users(cls, n_splits: int) -> Exposure:
        """Return the exposure of users, who may be in every part of every split.

        A user's contributions to a score are averaged over all folds first.
        """
        return cls(1, ((n_splits, 1),))

    def costs(self, mu: float, score_share: float) -> tuple[float, float]:
        r"""Split the cost of a run between each of its fits and its score.

        `score_share` is the share of :math:`\mu^2` of the score, where the same rows
        pay for both. For all pairs (t, m), :math:`t \mu_{fit}^2 + (m / n_{times})^2
        \mu_{score}^2 \le \mu^2`.
        """
        # What a fit may cost, by those who pay for it alone, and by those who do not.
        fit = min(
            (1.0 - score_share * bool(folds)) / fits
            for fits, folds in self.pairs
            if fits
        )
        score = min(
            (1.0 - fits * fit) * (self.n_times / folds) ** 2
            for fits, folds in self.pairs
            if folds
        )
        return mu * math.sqrt(fit), mu * math.sqrt(score)


@dataclass(frozen=True)
class RunBudgets:
    """Costs of a run within the total budget.

    `selection` is the release, with the cost of one run. `mu_fit` is the cost of each
    fit, and `mu_score` that of the score. `refit` is whether a last fit uses all rows.
    A fit's guarantee fails with the probability `fit_failure`, the search's with
    `failure`.
    """

    selection: PrivateSelection
    mu_fit: float
    mu_score: float
    refit: Gaussian | None
    fit_failure: float = 0.0
    failure: float = 0.0

    @classmethod
    def within(
        cls,
        epsilon: float,
        delta: float,
        exposure: Exposure,
        *,
        expected_n_iter: float,
        law: str,
        score_share: float,
        refit: bool,
        fit_failure: float = 0.0,
    ) -> RunBudgets:
        """Return the largest costs within a budget.

        A last fit on all rows costs what a fit of a run does.
        """
        fits = expected_n_iter * max(fits for fits, _ in exposure.pairs) + refit
        failure = fit_failure * fits
        selection = calibrate_selection(
            "best",
            epsilon,
            delta_beside(delta, failure),
            expected_n_iter,
            law=law,
            beside=(lambda mu: exposure.costs(mu, score_share)[0]) if refit else None,
        )
        mu_fit, mu_score = exposure.costs(selection.run_mu, score_share)
        last = None
        if refit:
            last = calibrate_gaussian("refit", 1.0, mu_fit, (1,), lemma="run-costs")
        return cls(selection, mu_fit, mu_score, last, fit_failure, failure)

    def fit_epsilon(self, delta: float) -> float:
        """Return the epsilon of one fit."""
        return gaussian_epsilon(self.mu_fit, delta)

    def mechanisms(self) -> tuple[Any, ...]:
        """Return what is charged."""
        return (self.selection,) if self.refit is None else (self.selection, self.refit)

    def plan(
        self,
        epsilon: float,
        delta: float,
        *,
        estimator: str,
        relation: tuple[Unit, Neighbors],
        seeded: bool,
    ) -> PrivacyPlan:
        """Return the plan of a whole search."""
        said = [
            f"Each fit of a run may cost epsilon = {self.fit_epsilon(delta):.6g} at "
            f"delta = {delta:g} (mu = {self.mu_fit:.6g}), and its score mu = "
            f"{self.mu_score:.6g}."
        ]
        if self.refit is not None:
            said.append("'refit' stands for all releases of a last fit on all rows.")
        unit, neighbors = relation
        return PrivacyPlan(
            epsilon,
            delta,
            self.mechanisms(),
            estimator=estimator,
            unit=unit,
            neighbors=neighbors,
            seeded=seeded,
            remarks=(*said, _SECRET),
            failure=self.failure,
        )


class Outcome(NamedTuple):
    """The outcome of a run: its released score, minus infinity if it failed.

    `std` is the score's standard error due to noise; `model` is that of the first
    split.
    """

    score: float
    std: float
    candidate: dict[str, Any]
    model: Any

    def results(self) -> dict[str, Any]:
        """Return the results of a search with this candidate only."""
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
    """Return the best outcome, or raise an error without further details."""
    if best is None or best.model is None:
        raise RuntimeError(
            "no run of the search gave a score: none was drawn, or all of them "
            "failed. Fit the estimator alone to see whether such rows can be fitted; "
            "that fit is charged separately."
        )
    return best


def winner(model: Any, plan: PrivacyPlan) -> Any:
    """Return the model of the best run, whose steps claim the search's guarantee."""
    said = Remark(
        f"This is the guarantee of the {plan.estimator} that chose this fit among "
        "others; mu describes only the noise of this fit and is not a guarantee.",
        Concern.WEAKER,
    )
    for part in private_fitted(model):
        part.privacy_ = replace(
            part.privacy_,
            epsilon=plan.epsilon,
            delta=plan.delta,
            remarks=(said, *part.privacy_.remarks),
        )
    return model


@dataclass(frozen=True)
class Runs:
    """Everything that the runs of a search share.

    They have the same splits, and the same release of a score. A fit may cost `mu_fit`,
    to which budgets of steps are `scaled`, and fail with the probability `failure`.
    `checked` is whether all candidates were checked before.
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
    failure: float = 0.0

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
                measured.append(self.scorer.measure(model, *self._rows(test)))
                models = models or [model]
            release = Release(self.score_plan, None, seed)
            score, std = self.scorer.released(release, measured)
            if math.isfinite(score):
                return Outcome(score, std, candidate, models[0])
        except KeyboardInterrupt:
            raise
        except BaseException:
            # Whatever it is, it is no more than the worst score, and nobody sees it.
            pass
        return Outcome(-math.inf, math.nan, candidate, None)

    def _rows(self, positions: np.ndarray) -> tuple:
        """Return rows and targets at some positions."""
        y = None if self.y is None else take_rows(self.y, positions)
        return take_rows(self.X, positions), y

    def fitted(
        self, candidate: Mapping[str, Any], rows: np.ndarray | None, seed: int | None
    ) -> Any:
        """Return a model fitted on some rows, or on all, within the budget of a fit.

        Its private steps keep neither the ledger nor the seeds that they had.
        """
        model = candidate_model(self.estimator, candidate, self.mu_fit, self.scaled)
        X, y = (self.X, self.y) if rows is None else self._rows(rows)
        plan = self.score_plan
        if not self.checked:
            relation = (plan.unit, plan.neighbors)
            users = self.scorer.user_feature
            form = X if reads_clients(model) else stand_in(X)
            asked = (self.mu_fit, "it was drawn", users, self.failure)
            check_candidate(model, form, relation, *asked)
        return fitted_within_budget(
            model, X, y, self.mu_fit, self.delta, plan, seed, self.failure
        )


def scorer_of(scoring: PrivateScorer | str) -> PrivateScorer:
    """Return the scorer; refuse one with its own budget."""
    if isinstance(scoring, str):
        return make_private_scorer(scoring)
    if scoring.epsilon != SEARCH:
        raise ValueError(
            f"scoring has its own epsilon={scoring.epsilon}: leave it to the search, "
            "which only pays for the best score"
        )
    if scoring.accountant is not None or scoring.seeded:
        raise ValueError(
            "scoring has an accountant or a noise_seed: set them in the search instead"
        )
    return scoring


def splitter_of(cv: Any, scorer: PrivateScorer) -> Any:
    """Return a splitter; a number of folds gives a private one."""
    dealt: dict[str, Any] = {"user_feature": scorer.user_feature, "random_state": 0}
    if cv is None:
        return PrivateSplit(1, **dealt)
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 1:
            raise ValueError(f"cv must be at least 1, got {cv}")
        return PrivateSplit(int(cv), **dealt)
    if not hasattr(cv, "split"):
        raise ValueError(
            "cv must be a number, a splitter or None: a list of positions does not "
            f"show how they were chosen, got {shown(cv)}"
        )
    return cv


def splits_by_position(cv: Any, scorer: PrivateScorer, n_rows: int) -> list | None:
    """Return splits of rows; None for splits of users, whose ids are private."""
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
