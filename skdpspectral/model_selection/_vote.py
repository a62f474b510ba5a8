"""A search that keeps the estimator as given, unless blocks of rows prefer another."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterSampler

from .. import sensitivity
from .._base.estimator import noted_caveats
from .._base.sklearn_compat import FitProgress, Interval, StrOptions
from .._base.strategies import register
from .._release.noise import public_order
from .._release.selection import VoteRelease, number_of_candidates
from .._tables.readers import read_quietly
from .._tables.rows import DeferredRead, table_shape
from ..accounting import (
    calibrate_exponential,
    calibrate_gaussian,
    gaussian_epsilon,
    gaussian_mu,
    split_mu,
)
from ..accounting._ledger.planned_fits import planned_fits
from ..mechanisms import (
    Concern,
    ExponentialMechanism,
    Gaussian,
    Neighbors,
    PrivacyPlan,
    Remark,
    Unit,
)
from . import _vote_kernels as kernels
from ._blocks import (
    Ballot,
    declared_columns,
    packed,
    rows_apart,
    scorer_of_blocks,
)
from ._candidates import (
    MOST_CHECKED,
    CandidateError,
    candidate_model,
    check_candidates,
    checked_form,
    delta_beside,
    failure_of_fits,
    fitted_within_budget,
    listed,
    private_parts,
    quiet,
    sliceable,
    stand_in,
    warn_beforehand,
    without_seed_warning,
)
from ._splits import user_places

# Blocks times the cost of asking them: "auto" takes so many blocks that it is this
# large, and below the second number there is no power, so that nobody is asked.
_ENOUGH, _TOO_LITTLE = 14.0, 4.0

_CHALLENGER, _SUPPORT, _FIT = "challenger", "support", "fit"
_LEMMA = "blocks-vote"

_SIDE_CHANNEL = Remark(
    "The time that the search takes depends on the rows and must not be published.",
    Concern.TRUST,
)


class Relation(NamedTuple):
    """What a search protects; `users` is their column, None for rows.

    Its guarantee may fail with the probability `failure`, as that of the last fit.
    """

    unit: Unit
    neighbors: Neighbors
    users: Any = None
    failure: float = 0.0

    @property
    def sensitivity(self) -> float:
        """How far one unit moves a sum of votes over blocks."""
        by_id = self.unit is Unit.USER
        return sensitivity.block_vote_sensitivity(self.neighbors, by_id=by_id)


@dataclass(frozen=True)
class VoteBudgets:
    """Costs of the votes and of the last fit.

    `power` is the number of blocks times the cost of asking them. Without power, or
    without a challenger, `n_blocks` is 0, and the last fit has the whole budget.
    """

    n_blocks: int
    power: float
    mu_fit: float
    challenger: ExponentialMechanism | None
    support: Gaussian | None
    fit: Gaussian

    @classmethod
    def within(
        cls, mu: float, share: float, n_blocks: Any, n_challengers: int, moved: float
    ) -> VoteBudgets:
        r"""Return the budgets of a search that may cost `mu`.

        ``n_blocks(mu_asked)`` is the number of blocks if asking costs so much. `moved`
        is the sensitivity of a sum of votes. A single challenger is proposed for free.
        """
        signal = mu * math.sqrt(share) / moved
        blocks = n_blocks(signal)
        power = blocks * signal
        if not n_challengers or power < _TOO_LITTLE:
            whole = calibrate_gaussian(_FIT, 1.0, mu, (1,), lemma=_LEMMA)
            return cls(0, power, mu, None, None, whole)
        challenger, halves = None, [share]
        if n_challengers > 1:
            halves = [0.5 * share, 0.5 * share]
        *asking, fit = split_mu(mu, (*halves, 1.0 - share))
        if n_challengers > 1:
            challenger = calibrate_exponential(
                _CHALLENGER, asking[0], n_challengers, moved, lemma=_LEMMA
            )
        given = _SUPPORT, moved, asking[-1], (1,)
        support = calibrate_gaussian(*given, magnitude=float(blocks), lemma=_LEMMA)
        last = calibrate_gaussian(_FIT, 1.0, fit, (1,), lemma=_LEMMA)
        return cls(blocks, power, fit, challenger, support, last)

    def mechanisms(self) -> tuple[Any, ...]:
        """Return what is charged."""
        parts = (self.challenger, self.support, self.fit)
        return tuple(part for part in parts if part is not None)

    def choose(
        self, release: Any, sums: np.ndarray, beats: np.ndarray, margin: float
    ) -> Choice:
        """Propose a challenger, and keep the incumbent unless it is clearly better.

        `sums` and `beats` are sums over blocks of the votes on each challenger, and of
        whether it beats the incumbent.
        """
        assert self.support is not None
        proposed = 0
        if self.challenger is not None:
            proposed = release.choose(_CHALLENGER, sums)
        (count,) = release(_SUPPORT, beats[proposed : proposed + 1])
        bar = 0.5 * self.n_blocks + margin * self.support.noise_std
        return Choice(
            proposed + 1,
            bool(count <= bar),
            float(count) / self.n_blocks,
            self.support.noise_std / self.n_blocks,
        )


class Prepared(NamedTuple):
    """All that a search has before its charge; `caveats` are of its candidates."""

    unread: list[DeferredRead]
    n_rows: int
    scorer: Any
    candidates: list[dict[str, Any]]
    relation: Relation
    budgets: VoteBudgets
    plan: PrivacyPlan
    ballot: Ballot
    caveats: list[str]


class Choice(NamedTuple):
    """The released choice: a challenger, by its place, and whether it lost.

    `support` is the noisy share of blocks in which it beats the incumbent.
    """

    proposed: int
    kept: bool
    support: float
    std: float


# Nobody is proposed where nobody is asked.
_NOT_ASKED = Choice(0, True, math.nan, math.nan)


@register
@dataclass(eq=False, repr=False)
class Vote(BaseEstimator):
    r"""Keep the given estimator unless disjoint blocks of rows prefer another.

    Each block compares all candidates by cross-validation, at the noise level of the
    last fit. A private selection over the blocks' votes proposes one challenger. A
    private count then tests it against the given estimator, the *incumbent*. The winner
    is fitted on all rows.

    Parameters
    ----------
    share : float, default=0.1
        Share of the budget's :math:`\mu^2` for the votes, in (0, 1); the last fit uses
        the rest.
    n_blocks : int or "auto", default="auto"
        Number of blocks m, at least 2. "auto" uses :math:`\lceil 14 / \mu_v \rceil`,
        where :math:`\mu_v` is the cost of the votes, but at most the number that leaves
        `min_block_size` rows per block. If users are protected, their number is
        private: set a number that gives each block about twenty users or more.
    min_block_size : int, default=20
        Smallest number of rows per block, at least `cv`.
    cv : int, default=3
        Number of folds within a block, at least 2.
    margin : float, default=0.5
        Number of standard deviations of the noise by which the challenger's count must
        exceed half of the blocks.
    smooth : bool, default=False
        Whether a block smooths scores over candidates that differ in few parameters. It
        hides the best candidate if the effects of parameters are not additive.
    n_iter : int or None, default=None
        Number of candidates drawn from the given lists and distributions, with a fixed
        public seed. None uses all listed candidates, at most 512.

    See Also
    --------
    RandomRuns : Releases the best of a secret number of private fits, with its score.

    Notes
    -----
    **Formal guarantee.** Each row or user is in one block and affects only the votes of
    that block. The proposal is an exponential mechanism with
    :math:`\mu_1 = \mu_v / \sqrt 2`, the test is a Gaussian mechanism with
    :math:`\mu_2 = \mu_1`, and the fit costs :math:`\mu_f`. Together they cost
    :math:`\mu^2 = \mu_1^2 + \mu_2^2 + \mu_f^2`, like one Gaussian mechanism
    (:ref:`lemma-blocks-vote`). With a single challenger there is no proposal, and the
    test has :math:`\mu_2 = \mu_v`.

    **When there is no vote.** If :math:`m \mu_v < 4`, votes could not distinguish
    candidates, and the incumbent is fitted with the whole budget. This depends only on
    public numbers and is stated by ``privacy_plan``.

    **Within a block**, training rows are repeated until there are at least 160. Fits
    use the :math:`\mu` at which their noise relative to the data matches the last fit.
    A parameter that counts rows, such as `batch_size` of
    :class:`~skdpspectral.DPAdamClassifier`, is scaled accordingly, so that epochs have
    as many steps; rows are then repeated until batches have at least 16 rows. Blocks
    use copies of the estimator and the scorer, and fixed seeds. A candidate that fails
    in a block gets the worst score of that block. A block of a dataframe keeps column
    names and dtypes, but the categories of a dtype become those of the block's own
    values, unless :class:`~skdpspectral.DPTableVectorizer` takes them as public by
    "dtype".

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.model_selection import PrivateSearchCV, Vote
    >>> from skdpspectral.metrics import make_private_scorer
    >>> search = PrivateSearchCV(
    ...     DPPCA(2),
    ...     {"center": ["none", "pairs"]},
    ...     strategy=Vote(share=0.2),
    ...     scoring=make_private_scorer("captured_variance", clip_norm=10.0),
    ... )
    >>> plan = search.privacy_plan(n_samples=5000)
    >>> [mechanism.name for mechanism in plan.mechanisms]
    ['challenger', 'support', 'fit']
    """

    _parameter_constraints: ClassVar[dict] = {
        "share": [Interval(Real, 0, 1, closed="neither")],
        "n_blocks": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "min_block_size": [Interval(Integral, 2, None, closed="left")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "margin": [Interval(Real, 0, None, closed="left")],
        "smooth": ["boolean"],
        "n_iter": [Interval(Integral, 1, None, closed="left"), None],
    }

    share: float = 0.1
    n_blocks: Any = "auto"
    min_block_size: int = 20
    cv: int = 3
    margin: float = 0.5
    smooth: bool = False
    n_iter: int | None = None

    # -- what it refuses, and what it costs --------------------------------------------

    def _check(self, search: Any) -> None:
        """Refuse parameters of a search that do not fit together."""
        if self.min_block_size < self.cv:
            raise ValueError(
                f"min_block_size={self.min_block_size} leaves folds without rows: it "
                f"must be at least cv={self.cv}"
            )
        scorer_of_blocks(search.scoring, search.estimator)
        few = number_of_candidates(search.param_distributions) <= MOST_CHECKED
        if self.n_iter is None and not few:
            raise ValueError(
                "param_distributions has distributions, or more than "
                f"{MOST_CHECKED} candidates: pass strategy=Vote(n_iter=...), the "
                "number of candidates to draw"
            )

    def _reason_of_leak(self, search: Any) -> str | None:
        """Say what scores reveal: they stay in their block."""
        return None

    def _users_scored(self, search: Any) -> tuple[Any, bool]:
        """Return the column of users that are dealt, and if scores are of rows."""
        return _users_of(search.estimator), False

    def _fit_mu(self, search: Any, X: Any) -> float:
        """Return what the last fit may cost, by the shape of rows."""
        n_rows, relation = table_shape(X)[0], self._relation(search, X)
        return self._budgets(search, n_rows, relation).mu_fit

    def _plan(self, search: Any, X: Any) -> PrivacyPlan:
        """Return the plan of a search, by the shape of rows."""
        n_rows, relation = table_shape(X)[0], self._relation(search, X)
        return _plan(search, self._budgets(search, n_rows, relation), relation)

    def _plan_for(self, search: Any, X: Any) -> PrivacyPlan:
        """Return the plan of a search on X, after all that a fit checks before it."""
        return self._prepared(search, X, None).plan

    def _check_fits(
        self,
        search: Any,
        X: Any,
        n_rows: int,
        candidates: list[dict[str, Any]],
        budgets: VoteBudgets,
        relation: Relation,
    ) -> None:
        """Refuse candidates of which a fit can't be paid for, by the form of rows."""
        check_candidates(
            search.estimator,
            candidates if budgets.n_blocks else candidates[:1],
            X,
            n_rows,
            (relation.unit, relation.neighbors),
            budgets.mu_fit,
            search.step_budgets == "scaled",
            float(search.delta),
            relation.users,
            relation.failure,
        )

    def _relation(self, search: Any, X: Any) -> Relation:
        """Return what is protected, by the form of rows, and how surely."""
        failure = failure_of_fits(search, self._candidates(search)[0], X)
        return _relation(search, X)._replace(failure=failure)

    def _budgets(
        self, search: Any, n_rows: int, relation: Relation, n_challengers: int = -1
    ) -> VoteBudgets:
        if n_challengers < 0:
            n_challengers = len(self._candidates(search)[0]) - 1
        delta = delta_beside(float(search.delta), relation.failure)
        mu = gaussian_mu(float(search.epsilon), delta)
        by_user = relation.unit is Unit.USER

        def n_blocks(asked: float) -> int:
            if not isinstance(self.n_blocks, str):
                return int(self.n_blocks)
            return min(math.ceil(_ENOUGH / asked), n_rows // self.min_block_size)

        if by_user and isinstance(self.n_blocks, str):
            raise ValueError(
                'n_blocks="auto" depends on the number of rows, but the protected '
                "units are users, whose number is private: pass "
                "strategy=Vote(n_blocks=...), so that each block has about twenty "
                "users or more"
            )
        budgets = VoteBudgets.within(
            mu, float(self.share), n_blocks, n_challengers, relation.sensitivity
        )
        if not by_user and budgets.n_blocks * self.min_block_size > n_rows:
            raise ValueError(
                f"n_blocks={self.n_blocks} leaves fewer than min_block_size="
                f"{self.min_block_size} rows for a block of n_samples={n_rows}: lower "
                "one of them"
            )
        if not gaussian_epsilon(budgets.mu_fit, delta) > 0.0:
            raise ValueError(
                f"epsilon={search.epsilon:g} leaves no budget for the fits; increase it"
            )
        return budgets

    def _candidates(self, search: Any) -> tuple[list[dict[str, Any]], np.ndarray]:
        """Return all candidates, the incumbent first as {}, and codes of their values.

        None of the others is the incumbent, and no two are the same.
        """
        space = search.param_distributions
        if self.n_iter is None:
            found: Iterator[dict[str, Any]] = listed(space)
        else:
            n_drawn = min(self.n_iter, number_of_candidates(space))
            found = iter(ParameterSampler(space, int(n_drawn), random_state=0))
        return _distinct(search.estimator, list(found))

    # -- the search --------------------------------------------------------------------

    def _prepared(self, search: Any, X: Any, y: Any) -> Prepared:
        """Make and check all that a search needs before its charge, by the form of X.

        No value of X is read, but who the clients are.
        """
        unread, n_rows = checked_form(search.estimator, X, y)
        scorer = scorer_of_blocks(search.scoring, search.estimator)
        candidates, codes = self._candidates(search)
        relation = self._relation(search, X)
        budgets = self._budgets(search, n_rows, relation, len(candidates) - 1)
        plan = _plan(search, budgets, relation)
        ballot = Ballot(
            pack=packed(search.estimator, candidates, scorer),
            smooth=kernels.smoother(codes) if self.smooth else None,
            mu_fit=budgets.mu_fit,
            scaled=search.step_budgets == "scaled",
            n_folds=int(self.cv),
            n_blocks=budgets.n_blocks,
            n_rows=n_rows if relation.unit is Unit.ROW else None,
            user_feature=relation.users,
            declared=declared_columns(search.estimator, candidates, X),
        )
        with noted_caveats() as caveats:
            self._check_fits(search, X, n_rows, candidates, budgets, relation)
        return Prepared(
            unread, n_rows, scorer, candidates, relation, budgets, plan, ballot, caveats
        )

    def _search(self, search: Any, X: Any, y: Any) -> dict[str, Any]:
        """Charge, ask the blocks, and fit; return the fitted attributes."""
        ready = self._prepared(search, X, y)
        n_rows, candidates, relation = ready.n_rows, ready.candidates, ready.relation
        budgets, plan, ballot = ready.budgets, ready.plan, ready.ballot
        # Warnings of blocks stay in them: these go by public numbers alone.
        warn_beforehand(ready.caveats, level=3 + search._levels_around_fit)
        # Of the blocks, and of the last fit.
        with FitProgress(
            search, budgets.n_blocks + 1, private=True, verbose=search.verbose
        ) as progress:
            # It is charged here, and values are read from here on.
            release, *read = search._start_release(
                plan, *ready.unread, n_public=ballot.n_rows, kind=VoteRelease, levels=1
            )
            progress.begin(X, y, plan)
            X = read_quietly(lambda: sliceable(X, "X", *read), "X could not be read")
            y = read_quietly(lambda: sliceable(y, "y"), "y could not be read")
            choice = _NOT_ASKED
            if budgets.n_blocks:
                dealt = read_quietly(
                    lambda: _deal(X, n_rows, ballot, release.draw_key()),
                    "the column of users could not be read",
                )
                sums, beats = _totals(ballot, dealt, X, y, search.n_jobs, progress)
                choice = budgets.choose(release, sums, beats, float(self.margin))
            index = 0 if choice.kept else choice.proposed
            model = candidate_model(
                search.estimator, candidates[index], budgets.mu_fit, ballot.scaled
            )
            with without_seed_warning():
                model = fitted_within_budget(
                    model,
                    X,
                    y,
                    budgets.mu_fit,
                    float(search.delta),
                    plan,
                    release.draw_seed(),
                    relation.failure,
                )
            progress.step(budgets.n_blocks + 1)
            progress.end()
        results = _results(search.estimator, candidates, choice)
        return {
            "best_params_": results["params"][index],
            "best_index_": index,
            "best_estimator_": model,
            "kept_": choice.kept,
            "support_": choice.support,
            "support_std_": choice.std,
            "n_blocks_": budgets.n_blocks,
            "n_splits_": int(self.cv),
            "scorer_": ready.scorer,
            "multimetric_": False,
            "cv_results_": results,
            "privacy_": plan,
        }


def _plan(search: Any, budgets: VoteBudgets, relation: Relation) -> PrivacyPlan:
    """Return the plan of a whole search."""
    delta = float(search.delta)
    fit = gaussian_epsilon(budgets.mu_fit, delta)
    asked = f"{budgets.n_blocks} blocks vote."
    if not budgets.n_blocks:
        asked = "No block votes, and the given estimator has the whole budget: "
        if budgets.power < _TOO_LITTLE:
            asked += (
                "the number of blocks times the cost of their votes would be "
                f"{budgets.power:.3g}, and votes have no power below {_TOO_LITTLE:g}."
            )
        else:
            asked += "there is no other candidate."
    return PrivacyPlan(
        float(search.epsilon),
        delta,
        budgets.mechanisms(),
        estimator=type(search).__name__,
        unit=relation.unit,
        neighbors=relation.neighbors,
        seeded=search.noise_seed is not None,
        remarks=(
            Remark(asked, Concern.OTHER if budgets.n_blocks else Concern.MEASURED),
            f"{_FIT!r} stands for all releases of the last fit, which may cost "
            f"epsilon = {fit:.6g} at delta = {delta:g} (mu = {budgets.mu_fit:.6g}).",
            *([_SIDE_CHANNEL] if budgets.n_blocks else []),
        ),
        failure=relation.failure,
    )


def _users_of(estimator: Any) -> Any:
    """Return the column of users of the private estimators in one; None for rows."""
    named = (
        getattr(part, "user_feature", None)
        for part in private_parts(estimator).values()
    )
    return next((feature for feature in named if feature is not None), None)


def _relation(search: Any, X: Any) -> Relation:
    """Return what the estimator as given protects, by the shape of rows."""
    mu = gaussian_mu(float(search.epsilon), float(search.delta))
    scaled = search.step_budgets == "scaled"
    try:
        model = candidate_model(search.estimator, {}, mu, scaled)
        fits = planned_fits(model, stand_in(X))
    except (TypeError, ValueError) as error:
        raise CandidateError(f"estimator: {error}") from error
    if not fits:
        raise CandidateError("estimator has no private step: nothing would be private")
    unit, neighbors = fits[0].plan.unit, fits[0].plan.neighbors
    known = {
        Unit.ROW: {Neighbors.REPLACE_ONE},
        Unit.USER: {Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE},
    }
    if neighbors not in known[unit]:
        raise CandidateError(
            f"estimator protects one {unit} under {neighbors}: a vote protects rows "
            "that are replaced, and users who are replaced, join or leave"
        )
    users = _users_of(search.estimator) if unit is Unit.USER else None
    return Relation(unit, neighbors, users)


def _same(first: Any, second: Any) -> bool:
    """Return whether values of a parameter are equal, estimators by their own."""
    if first is second:
        return True
    if isinstance(first, BaseEstimator) or isinstance(second, BaseEstimator):
        if type(first) is not type(second):
            return False
        own, other = (part.get_params(deep=False) for part in (first, second))
        return all(_same(value, other[name]) for name, value in own.items())
    if isinstance(first, (str, bytes)) or isinstance(second, (str, bytes)):
        return type(first) is type(second) and bool(first == second)
    try:
        return bool(np.array_equal(first, second))
    except Exception:  # of foreign objects
        return False


def _distinct(
    estimator: Any, candidates: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return different candidates, the incumbent first as {}, and codes of values."""
    given = estimator.get_params(deep=True)
    names = sorted({name for candidate in candidates for name in candidate})
    absent = object()
    values: list[list[Any]] = [[given.get(name, absent)] for name in names]
    known: dict[tuple[int, ...], dict[str, Any]] = {(0,) * len(names): {}}
    for candidate in candidates:
        code = []
        for name, seen in zip(names, values, strict=True):
            value = candidate.get(name, seen[0])
            place = next((k for k, old in enumerate(seen) if _same(old, value)), None)
            if place is None:
                place = len(seen)
                seen.append(value)
            code.append(place)
        known.setdefault(tuple(code), dict(candidate))
    codes = np.array(list(known), dtype=np.intp).reshape(len(known), len(names))
    return list(known.values()), codes


def _deal(X: Any, n_rows: int, ballot: Ballot, key: bytes) -> list[np.ndarray]:
    """Return the rows of each block: by position, or by the user's own id and a key."""
    m = ballot.n_blocks
    if ballot.n_rows is not None:
        order = public_order(n_rows)
        return [order[block::m] for block in range(m)]
    codes, places = user_places(X, ballot.user_feature, key)
    of_user = np.minimum((places * m).astype(np.intp), m - 1)
    of_row = of_user[codes]
    order = np.argsort(of_row, kind="stable")
    ends = np.cumsum(np.bincount(of_row, minlength=m))
    return np.split(order, ends[:-1])


def _totals(
    ballot: Ballot,
    dealt: list[np.ndarray],
    X: Any,
    y: Any,
    n_jobs: int | None,
    progress: FitProgress,
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums over blocks of votes, and of whether challengers win."""

    def block(rows: np.ndarray) -> tuple[Any, Any]:
        with quiet(), contextlib.suppress(Exception):
            targets = None if y is None else rows_apart(y, rows)
            return rows_apart(X, rows, ballot.declared), targets
        return None, None  # no more than the worst scores of this block

    asked = ((number, *block(rows)) for number, rows in enumerate(dealt))
    found = []
    with contextlib.ExitStack() as within:
        votes = (ballot(*one) for one in asked)
        if effective_n_jobs(n_jobs) != 1:
            within.enter_context(quiet())
            parallel = Parallel(n_jobs=n_jobs, backend="loky", return_as="generator")
            votes = parallel(delayed(ballot)(*one) for one in asked)
        for vote in votes:
            found.append(vote)
            progress.step(len(found))
    sums, beats = (np.sum(part, axis=0) for part in zip(*found, strict=True))
    return sums, beats


def _results(
    estimator: Any, candidates: list[dict[str, Any]], choice: Choice
) -> dict[str, Any]:
    """Return the candidates, which are public, and what was released of them."""
    given = estimator.get_params(deep=True)
    names = sorted({name for candidate in candidates for name in candidate})
    incumbent = {name: given[name] for name in names if name in given}
    params = [incumbent, *candidates[1:]]
    results: dict[str, Any] = {"params": params}
    for name in names:
        column = np.ma.masked_all(len(params), dtype=object)
        for place, candidate in enumerate(params):
            if name in candidate:
                column[place] = candidate[name]
        results[f"param_{name}"] = column
    support = np.full(len(params), np.nan)
    if choice.proposed:
        support[choice.proposed] = choice.support
    results["support"] = support
    return results
