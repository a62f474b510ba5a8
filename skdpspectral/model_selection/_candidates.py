"""Candidates of a search: their models, what these cost, and what is refused.

What one run of a search may cost: its fits, and its score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from .._base.estimator import PrivateEstimator
from .._base.personal import PersonalEstimator
from .._base.privacy_report import report_after_charge
from .._base.sklearn_compat import LISTENERS, taken_rows
from .._release.selection import number_of_candidates
from .._tables.rows import table_shape
from ..accounting import (
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
from ..accounting._ledger.planned_fits import planned_fits, reads_clients
from ..mechanisms import (
    Assumption,
    Gaussian,
    Neighbors,
    PrivacyPlan,
    PrivateSelection,
    Unit,
)
from ..mechanisms._relations import shown

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
                f"{name} is a search: searches do not stand in each other; search over "
                "all parameters at once"
            )
        if name.rpartition("__")[2] == "verbose" and part:
            raise ValueError(
                f"{name}={part!r} would print as many lines as there are runs, whose "
                "number is secret: set it to 0"
            )
        if name.rpartition("__")[2] == "memory" and part is not None:
            raise ValueError(
                f"{name} keeps fitted steps: runs would share their noise; set it to "
                "None"
            )
        if any(hasattr(part, listener) for listener in LISTENERS):
            raise ValueError(
                f"{name} has callbacks, which would tell the number of runs: give the "
                "search an estimator without any"
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
                f"{prefix}epsilon={part.epsilon!r} is no share of a budget: give a "
                "number, or the search step_budgets='given'"
            )
        mus[prefix] = gaussian_mu(float(part.epsilon), float(part.delta))
    total = math.hypot(*mus.values())
    for prefix, mu in mus.items():
        epsilon = gaussian_epsilon(mu_fit * mu / total, float(parts[prefix].delta))
        if not epsilon > 0.0:
            raise CandidateError(
                f"what is left for {prefix}epsilon is nothing: raise epsilon of the "
                "search, or lower expected_n_iter"
            )
        parts[prefix].set_params(epsilon=epsilon)
    return model


def check_candidate(
    model: Any, X: Any, relation: tuple, mu_fit: float, hint: str
) -> None:
    """Refuse a model that leaks, or whose fit costs more than `mu_fit`.

    Of training rows X the shape is used, and who the clients are. `relation` is what
    the search's guarantee is about; `hint` says what may be asked for.
    """
    report = report_after_charge(model)
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
                rows = taken_rows(X, np.arange(n_train))
            check_candidate(model, rows, relation, budgets.mu_fit, most)
        except (TypeError, ValueError) as error:
            said = ", ".join(f"{name}={v!r}" for name, v in candidate.items())
            raise CandidateError(
                f"param_distributions: the candidate ({said}) of estimator: {error}"
            ) from error
    return number_of_candidates(distributions) <= MOST_CHECKED
