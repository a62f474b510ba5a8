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
    fitted_within_budget,
    private_fitted,
)
from ._splits import PrivateSplit

_SECRET = Remark(
    "How many runs there were, and all of them but the best, stay secret; how long the "
    "search takes tells of their number, and is for its owner alone.",
    Concern.TRUST,
)


@dataclass(frozen=True)
class Exposure:
    """How often what is protected is fitted on and held out in one run.

    `n_times` is the largest number of folds that hold out one row; `pairs` are the
    pairs (fits on it, folds that hold it out) that there are.
    """

    n_times: int
    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def of_rows(
        cls, splits: Sequence[tuple[np.ndarray, np.ndarray]], n_rows: int
    ) -> Exposure:
        """Return that of rows, which splits deal by position."""
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
        """Return that of a user who may be in every part of every split.

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
    """Costs of a run, of a budget for all.

    `selection` is what is released, with the cost of one run. `mu_fit` is the cost of
    each fit of a run, and `mu_score` of its score. `refit` stands for a last fit on all
    rows.
    """

    selection: PrivateSelection
    mu_fit: float
    mu_score: float
    refit: Gaussian | None

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
    ) -> RunBudgets:
        """Return the largest costs within a budget.

        A last fit on all rows costs what a fit of a run does.
        """
        selection = calibrate_selection(
            "best",
            epsilon,
            delta,
            expected_n_iter,
            law=law,
            beside=(lambda mu: exposure.costs(mu, score_share)[0]) if refit else None,
        )
        mu_fit, mu_score = exposure.costs(selection.run_mu, score_share)
        last = calibrate_gaussian("refit", 1.0, mu_fit, (1,)) if refit else None
        return cls(selection, mu_fit, mu_score, last)

    def fit_epsilon(self, delta: float) -> float:
        """Return what one fit may ask for."""
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
        )


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
            "no run of the search gave a score: none was drawn, or all of them failed. "
            "Fit the estimator alone to see whether such rows can be fitted; that fit "
            "is charged on its own."
        )
    return best


def winner(model: Any, plan: PrivacyPlan) -> Any:
    """Return the model of the best run, whose steps claim what its search does.

    A fit that was chosen by its score has the guarantee of the choice.
    """
    said = Remark(
        f"It is that of the {plan.estimator} which chose this fit among others; mu is "
        "that of its own noise, and no guarantee.",
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
            check_candidate(model, X, relation, self.mu_fit, "it was drawn", users)
        return fitted_within_budget(model, X, y, self.mu_fit, self.delta, plan, seed)


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
