"""Candidates and runs of a private search: what they cost, and what is refused."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from .._base.estimator import PrivateEstimator
from .._base.personal import PersonalEstimator
from .._base.privacy_report import report_after_charge
from .._base.sklearn_compat import CALLBACK_ATTRIBUTES, take_rows
from .._release import Release
from .._release.selection import number_of_candidates
from .._tables.entries import read_entries
from .._tables.rows import DeferredRead, deferred_rows, table_shape
from ..accounting import (
    PrivacyAccountant,
    PrivacyLeakWarning,
    calibrate_gaussian,
    calibrate_selection,
    gaussian_epsilon,
    gaussian_mu,
)
from ..accounting._ledger.compositions import (
    Composition,
    composition_of,
    estimators_within,
    is_estimator,
)
from ..accounting._ledger.context import without_accountant
from ..accounting._ledger.planned_fits import planned_fits, reads_clients
from ..accounting._ledger.store import forget
from ..mechanisms import (
    Assumption,
    Gaussian,
    Neighbors,
    PrivacyPlan,
    PrivateSelection,
    Unit,
)
from ..mechanisms._relations import shown
from ..metrics._private_scorer import SEARCH, PrivateScorer, make_private_scorer
from ._splits import PrivateSplit

_REMARKS = (
    "How many runs there were, and all of them but the best, stay secret; how long the "
    "search takes tells of their number, and is for its owner alone.",
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
            remarks=(*said, *_REMARKS),
        )


# Of larger grids, so many candidates are looked at before a search, and each when it is
# drawn.
MOST_CHECKED = 512

# A planned cost may exceed what it was made of by rounding.
_ROUNDING = 2.0**-41


class CandidateError(ValueError):
    """What a candidate asks for is not to be had under the search's guarantee."""


def check_distributions(distributions: Any) -> None:
    """Refuse what is no space of candidates."""
    several = isinstance(distributions, (list, tuple))
    parts = distributions if several else [distributions]
    if not parts:
        raise ValueError("param_distributions must not be empty")
    for part in parts:
        if not isinstance(part, Mapping):
            raise TypeError(
                "param_distributions must be a dict of parameter names to lists or "
                f"distributions, or a list of such dicts, got {shown(part)}"
            )
        for name, values in part.items():
            if not isinstance(name, str):
                raise TypeError("param_distributions must have names of parameters")
            if hasattr(values, "rvs"):
                continue
            sized = hasattr(values, "__len__") and hasattr(values, "__getitem__")
            if isinstance(values, (str, Mapping)) or not sized:
                raise TypeError(
                    f"param_distributions[{name!r}] must be a list, or a distribution "
                    f"with a method rvs, got {shown(values)}"
                )
            if not len(values):
                raise ValueError(f"param_distributions[{name!r}] must not be empty")


def listed(distributions: Any, most: int = MOST_CHECKED) -> Iterator[dict[str, Any]]:
    """Yield candidates that are known beforehand, at most so many.

    Of parameters with a distribution the estimator's own value is kept.
    """
    parts = [distributions] if isinstance(distributions, Mapping) else distributions
    left = most
    for part in parts:
        lists = {n: v for n, v in sorted(part.items()) if not hasattr(v, "rvs")}
        for values in product(*lists.values()):
            if not left:
                return
            left -= 1
            yield dict(zip(lists, values, strict=True))


def check_estimator(estimator: Any) -> None:
    """Refuse what tells how many runs there are, or has a ledger of its own."""
    if not is_estimator(estimator):
        raise TypeError(
            f"estimator must be an unfitted estimator, got {shown(estimator)}"
        )
    # The whole first: a search has a parameter "estimator" of its own.
    inside = [("estimator", estimator), *estimator.get_params(deep=True).items()]
    for name, part in inside:
        if composition_of(part) is Composition.SEARCH:
            raise ValueError(
                f"{name} is a search, and searches cannot be nested. Search over all "
                "parameters at once."
            )
        if name.rpartition("__")[2] == "verbose" and part:
            raise ValueError(
                f"{name}={part!r} would print lines in every run, and the number of "
                "runs is secret. Set it to 0."
            )
        if name.rpartition("__")[2] == "memory" and part is not None:
            raise ValueError(
                f"{name} caches fitted steps, so that runs would share their noise. "
                "Set it to None."
            )
        if any(hasattr(part, listener) for listener in CALLBACK_ATTRIBUTES):
            raise ValueError(
                f"{name} has callbacks, which would reveal the number of runs. Remove "
                "them."
            )
        if isinstance(part, PrivateEstimator):
            _check_private(name, part)


def _check_private(name: str, part: PrivateEstimator) -> None:
    if part.accountant is not None:
        raise ValueError(
            f"{name} has an accountant of its own: give it to the search, which is "
            "charged once for all of its runs"
        )
    if part.noise_seed is not None:
        raise ValueError(f"{name} has a noise_seed: leave it None")


def candidate_model(
    estimator: BaseEstimator,
    candidate: Mapping[str, Any],
    mu_fit: float,
    scaled: bool,
) -> Any:
    """Return the unfitted model of a candidate, with its budgets in a run."""
    model = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    check_estimator(model)
    return with_budgets(model, mu_fit) if scaled else model


def private_parts(model: Any) -> dict[str, Any]:
    """Return the private estimators in a model, by the prefix of their parameters."""
    return {
        f"{name}__" if name else "": part
        for name, part in estimators_within(model).items()
        if isinstance(part, PrivateEstimator)
    }


def with_budgets(model: Any, mu_fit: float) -> Any:
    """Scale the budgets of private steps, so that together they cost what a fit may."""
    parts = private_parts(model)
    mus = {}
    for prefix, part in parts.items():
        real = isinstance(part.epsilon, Real)
        if not real or not 0.0 < float(part.epsilon) < math.inf:
            raise CandidateError(
                f"{prefix}epsilon={part.epsilon!r} is not a share of a budget. Give a "
                "number, or set step_budgets='given' in the search."
            )
        mus[prefix] = gaussian_mu(float(part.epsilon), float(part.delta))
    total = math.hypot(*mus.values())
    for prefix, mu in mus.items():
        epsilon = gaussian_epsilon(mu_fit * mu / total, float(parts[prefix].delta))
        if not epsilon > 0.0:
            raise CandidateError(
                f"no budget is left for {prefix}epsilon. Raise epsilon of the search, "
                "or lower expected_n_iter."
            )
        parts[prefix].set_params(epsilon=epsilon)
    return model


def check_candidate(
    model: Any, X: Any, relation: tuple, mu_fit: float, hint: str, users: Any = None
) -> None:
    """Refuse a model that leaks, or whose fit costs more than `mu_fit`.

    Of training rows X the shape is used, and who the clients are. `relation` is what
    the search's guarantee is about; `hint` says what may be asked for, and `users` is
    the column of users that are scored.
    """
    report = report_after_charge(model, users)
    leaks = [step for step in report if step.verdict == "LEAKS"]
    if leaks:
        raise CandidateError(
            f"{leaks[0].name} ({leaks[0].estimator}) leaks: {leaks[0].reason}; a "
            "search is private where every step is"
        )
    for name, part in private_parts(model).items():
        if isinstance(part, PersonalEstimator) and part.user_feature is None:
            raise CandidateError(
                f"{name}user_feature=None takes all rows for those of one user: a "
                "search passes no users; name their column by user_feature"
            )
    rows = X if reads_clients(model) else np.broadcast_to(0.0, np.shape(X)[:2])
    fits = planned_fits(model, rows)
    for fit in fits:
        plan = fit.plan
        if plan.curves or plan.failure or plan.assumption is not Assumption.NONE:
            raise CandidateError(
                f"{plan.estimator} is private under a model of the data, or by other "
                "than Gaussian noise: a search takes neither"
            )
        if (plan.unit, plan.neighbors) != relation:
            unit, neighbors = relation
            raise CandidateError(
                f"{plan.estimator} protects one {plan.unit} under {plan.neighbors}, "
                f"and scoring one {unit} under {neighbors}: both must be the same (a "
                "score of users has a user_feature)"
            )
        if plan.seeded:
            raise CandidateError(f"{plan.estimator} has a noise_seed: leave it None")
    mu = math.sqrt(sum(fit.times * fit.plan.mu**2 for fit in fits))
    if not mu <= mu_fit * (1.0 + _ROUNDING):
        raise CandidateError(
            f"a fit of {type(model).__name__} costs mu={mu:.6g}, but one fit of a run "
            f"may cost mu={mu_fit:.6g}: {hint}"
        )


def check_candidates(
    estimator: Any,
    distributions: Any,
    X: Any,
    n_train: int,
    relation: tuple,
    budgets: RunBudgets,
    scaled: bool,
    delta: float,
    users: Any = None,
) -> bool:
    """Refuse candidates before anything runs, by public shapes alone.

    Returns whether all candidates that there are were looked at.
    """
    most = f"at most epsilon={budgets.fit_epsilon(delta):.6g} at this delta"
    stand_in = np.broadcast_to(0.0, (n_train, table_shape(X)[1]))
    for candidate in listed(distributions):
        try:
            model = candidate_model(estimator, candidate, budgets.mu_fit, scaled)
            if sparse.issparse(X) and not get_tags(model).input_tags.sparse:
                raise TypeError("Sparse data was passed for X, but it takes none")
            rows = stand_in
            if reads_clients(model):
                rows = take_rows(X, np.arange(n_train))
            check_candidate(model, rows, relation, budgets.mu_fit, most, users)
        except (TypeError, ValueError) as error:
            said = ", ".join(f"{name}={v!r}" for name, v in candidate.items())
            raise CandidateError(
                f"param_distributions: the candidate ({said}) of estimator: {error}"
            ) from error
    return number_of_candidates(distributions) <= MOST_CHECKED


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
            "no run of the search gave a score: none was drawn, or all of them failed. "
            "Fit the estimator alone to see whether such rows can be fitted; that fit "
            "is charged on its own."
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
                X, y = take_rows(self.X, test), take_rows(self.y, test)
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
            X, y = take_rows(X, rows), take_rows(y, rows)
        plan = self.score_plan
        if not self.checked:
            relation = (plan.unit, plan.neighbors)
            users = self.scorer.user_feature
            check_candidate(model, X, relation, self.mu_fit, "it was drawn", users)
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
def without_seed_warning() -> Iterator[None]:
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


def deferred_numbers(estimator: Any, X: Any) -> DeferredRead | None:
    """Check the form of rows of numbers; None of tables that have ids in them."""
    tags = get_tags(estimator).input_tags
    if tags.allow_nan or tags.categorical or tags.string or not tags.two_d_array:
        return None
    return deferred_rows(None, X, accept_sparse=tags.sparse, in_blocks=True)


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
