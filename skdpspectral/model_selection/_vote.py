"""What a search by votes protects, costs, and finds: its budgets, blocks and choice."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid

from .. import sensitivity
from .._base.estimator import noted_caveats
from .._base.made_up import N_MADE_UP
from .._base.sklearn_compat import FitProgress
from .._release.noise import public_order
from .._release.selection import VoteRelease
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
from ._blocks import Ballot, declared_columns, packed, rows_apart
from ._candidates import (
    CandidateError,
    candidate_model,
    check_candidates,
    check_form_of_fit,
    checked_form,
    delta_beside,
    failure_of_fits,
    made_up,
    quiet,
    stand_in,
    users_of,
)
from ._splits import user_places

# Blocks times the cost of asking them: "auto" takes so many blocks that it is this
# large, and below the second number there is no power, so that nobody is asked.
_ENOUGH, _TOO_LITTLE = 14.0, 4.0

# Share of mu**2 for the votes, standard deviations by which a challenger must win, and
# rows of a block; doc/tables/search_votes has what they find.
_SHARE, _MARGIN, MIN_BLOCK_SIZE = 0.1, 0.5, 20

# Made-up rows are fitted with hardly any noise: it is their form that counts.
_CLEAR_MU = 30.0

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
        cls, mu: float, n_blocks: Any, n_challengers: int, moved: float
    ) -> VoteBudgets:
        r"""Return the budgets of a search that may cost `mu`.

        ``n_blocks(mu_asked)`` is the number of blocks if asking costs so much. `moved`
        is the sensitivity of a sum of votes. A single challenger is proposed for free.
        """
        signal = mu * math.sqrt(_SHARE) / moved
        blocks = n_blocks(signal)
        power = blocks * signal
        if not n_challengers or power < _TOO_LITTLE:
            whole = calibrate_gaussian(_FIT, 1.0, mu, (1,), lemma=_LEMMA)
            return cls(0, power, mu, None, None, whole)
        challenger, halves = None, [_SHARE]
        if n_challengers > 1:
            halves = [0.5 * _SHARE, 0.5 * _SHARE]
        *asking, fit = split_mu(mu, (*halves, 1.0 - _SHARE))
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

    def choose(self, release: Any, sums: np.ndarray, beats: np.ndarray) -> Choice:
        """Propose a challenger, and keep the incumbent unless it is clearly better.

        `sums` and `beats` are sums over blocks of the votes on each challenger, and of
        whether it beats the incumbent.
        """
        assert self.support is not None
        proposed = 0
        if self.challenger is not None:
            proposed = release.choose(_CHALLENGER, sums)
        (count,) = release(_SUPPORT, beats[proposed : proposed + 1])
        bar = 0.5 * self.n_blocks + _MARGIN * self.support.noise_std
        return Choice(
            proposed + 1,
            bool(count <= bar),
            float(count) / self.n_blocks,
            self.support.noise_std / self.n_blocks,
        )


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


class Prepared(NamedTuple):
    """What a search has before its charge; `caveats` are of its candidates."""

    unread: list[DeferredRead]
    candidates: list[dict[str, Any]]
    relation: Relation
    budgets: VoteBudgets
    plan: PrivacyPlan
    ballot: Ballot
    caveats: list[str]


def planned(search: Any, X: Any) -> tuple[Relation, VoteBudgets, PrivacyPlan]:
    """Return what a search protects and costs, by the form of rows."""
    n_rows, candidates = table_shape(X)[0], candidates_of(search)
    failure = failure_of_fits(search, candidates, X)
    relation = _relation(search, X)._replace(failure=failure)
    budgets = _budgets(search, n_rows, relation, len(candidates) - 1)
    return relation, budgets, _plan(search, budgets, relation)


def prepared(search: Any, X: Any, y: Any, scorer: Any) -> Prepared:
    """Make and check all that a search needs before its charge, by the form of X.

    No value of X is read, but who the clients are.
    """
    unread, n_rows = checked_form(search.estimator, X, y)
    relation, budgets, plan = planned(search, X)
    candidates = candidates_of(search)
    ballot = Ballot(
        pack=packed(search.estimator, candidates, scorer),
        mu_fit=budgets.mu_fit,
        scaled=search.step_budgets == "scaled",
        n_folds=int(search.cv),
        n_blocks=budgets.n_blocks,
        n_rows=n_rows if relation.unit is Unit.ROW else None,
        user_feature=relation.users,
        declared=declared_columns(search.estimator, candidates, X),
    )
    asked = candidates if budgets.n_blocks else candidates[:1]
    of = (relation.unit, relation.neighbors)
    more = (budgets.mu_fit, relation.users, relation.failure)
    with noted_caveats() as caveats:
        check_candidates(search, asked, X, of, *more)
    return Prepared(unread, candidates, relation, budgets, plan, ballot, caveats)


def rehearse(search: Any, ready: Prepared, X: Any, y: Any) -> None:
    """Try the form of X and y; where blocks are going to vote, with made-up rows.

    On these all candidates are fitted and scored.
    """
    ballot, mu = ready.ballot, ready.budgets.mu_fit
    model = candidate_model(search.estimator, ready.candidates[0], mu, ballot.scaled)
    check_form_of_fit(model, X, y)
    if not ballot.n_blocks:
        return
    made = made_up(search.estimator, X, y, ballot.declared)
    if made is None:
        return
    n_rows = None if ballot.n_rows is None else N_MADE_UP
    ballot = replace(ballot, mu_fit=_CLEAR_MU, n_blocks=1, n_rows=n_rows)
    with noted_caveats():
        ballot.rehearse(*_block(ballot, *made, np.arange(N_MADE_UP)))


def elected(
    search: Any, ready: Prepared, release: VoteRelease, X: Any, y: Any, progress: Any
) -> Choice:
    """Deal the rows, ask the blocks, and release their choice."""
    budgets, ballot = ready.budgets, ready.ballot
    if not budgets.n_blocks:
        return _NOT_ASKED
    dealt = read_quietly(
        lambda: _deal(X, ballot, release.draw_key()),
        "the column of users could not be read",
    )
    sums, beats = _totals(ballot, dealt, X, y, search.n_jobs, progress)
    return budgets.choose(release, sums, beats)


def _budgets(
    search: Any, n_rows: int, relation: Relation, n_challengers: int
) -> VoteBudgets:
    delta = delta_beside(float(search.delta), relation.failure)
    mu = gaussian_mu(float(search.epsilon), delta)
    by_user, auto = relation.unit is Unit.USER, isinstance(search.n_blocks, str)
    if by_user and auto:
        raise ValueError(
            'n_blocks="auto" depends on the number of rows, but the protected units '
            "are users, whose number is private: pass n_blocks=..., so that each block "
            "has about twenty users or more"
        )

    def n_blocks(asked: float) -> int:
        if not auto:
            return int(search.n_blocks)
        return min(math.ceil(_ENOUGH / asked), n_rows // MIN_BLOCK_SIZE)

    budgets = VoteBudgets.within(mu, n_blocks, n_challengers, relation.sensitivity)
    if not by_user and budgets.n_blocks * MIN_BLOCK_SIZE > n_rows:
        raise ValueError(
            f"n_blocks={search.n_blocks} leaves fewer than {MIN_BLOCK_SIZE} rows for a "
            f"block of n_samples={n_rows}: lower it"
        )
    if not gaussian_epsilon(budgets.mu_fit, delta) > 0.0:
        raise ValueError(
            f"epsilon={search.epsilon:g} leaves no budget for the fits; increase it"
        )
    return budgets


def candidates_of(search: Any) -> list[dict[str, Any]]:
    """Return different candidates, the incumbent first as {}."""
    grid, absent = list(ParameterGrid(search.param_grid)), object()
    names = sorted({name for candidate in grid for name in candidate})
    given = search.estimator.get_params(deep=True)
    known: list[tuple[Any, ...]] = [tuple(given.get(name, absent) for name in names)]
    found: list[dict[str, Any]] = [{}]
    for candidate in grid:
        values = tuple(map(candidate.get, names, known[0]))
        if not any(all(map(_same, values, others)) for others in known):
            known.append(values)
            found.append(candidate)
    return found


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
    users = users_of(search.estimator) if unit is Unit.USER else None
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


def _deal(X: Any, ballot: Ballot, key: bytes) -> list[np.ndarray]:
    """Return the rows of each block: by position, or by the user's own id and a key."""
    m = ballot.n_blocks
    if ballot.n_rows is not None:
        order = public_order(ballot.n_rows)
        return [order[block::m] for block in range(m)]
    codes, places = user_places(X, ballot.user_feature, key)
    of_user = np.minimum((places * m).astype(np.intp), m - 1)
    of_row = of_user[codes]
    order = np.argsort(of_row, kind="stable")
    ends = np.cumsum(np.bincount(of_row, minlength=m))
    return np.split(order, ends[:-1])


def _block(ballot: Ballot, X: Any, y: Any, rows: np.ndarray) -> tuple[Any, Any]:
    """Return rows and targets of a block."""
    targets = None if y is None else rows_apart(y, rows)
    return rows_apart(X, rows, ballot.declared), targets


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
            return _block(ballot, X, y, rows)
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


def results(
    estimator: Any, candidates: list[dict[str, Any]], choice: Choice
) -> dict[str, Any]:
    """Return the candidates, which are public, and what was released of them."""
    given = estimator.get_params(deep=True)
    names = sorted({name for candidate in candidates for name in candidate})
    incumbent = {name: given[name] for name in names if name in given}
    params = [incumbent, *candidates[1:]]
    found: dict[str, Any] = {"params": params}
    for name in names:
        column = np.ma.masked_all(len(params), dtype=object)
        for place, candidate in enumerate(params):
            if name in candidate:
                column[place] = candidate[name]
        found[f"param_{name}"] = column
    support = np.full(len(params), np.nan)
    if choice.proposed:
        support[choice.proposed] = choice.support
    found["support"] = support
    return found
