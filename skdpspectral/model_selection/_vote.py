"""What a search by votes protects, costs, and finds: its budgets, blocks and choice."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.model_selection import ParameterGrid

from .. import sensitivity
from .._base.estimator import noted_caveats
from .._base.made_up import N_MADE_UP
from .._base.sklearn_compat import FitProgress
from .._base.strategies import same_value
from .._release.noise import public_order
from .._release.selection import VoteRelease
from .._tables.columns import read_quietly
from .._tables.table import table_shape
from ..accounting import (
    calibrate_exponential,
    calibrate_gaussian,
    gaussian_epsilon,
    gaussian_mu,
    split_mu,
)
from ..accounting._gaussian import MIN_DELTA
from ..accounting._ledger.planned_fits import planned_fits
from ..mechanisms import Concern, Neighbors, PrivacyPlan, Remark, Unit
from ._blocks import Ballot, packed, rows_apart
from ._candidates import (
    candidate_model,
    check_candidate,
    check_dtypes,
    check_form_of_fit,
    made_up,
    named,
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


@dataclass(frozen=True)
class VoteBudgets:
    """Costs of the votes and of the last fit.

    `power` is the number of blocks times the cost of asking them. Without it, or
    without a challenger, no block votes, and the last fit has the whole budget.
    """

    n_blocks: int
    power: float
    mu_fit: float
    mechanisms: tuple[Any, ...]

    @classmethod
    def within(
        cls, mu: float, blocks: int, n_challengers: int, moved: float
    ) -> VoteBudgets:
        """Return the budgets of a search; a single challenger is proposed for free."""
        power = blocks * (mu * math.sqrt(_SHARE) / moved)
        if not n_challengers or power < _TOO_LITTLE:
            whole = calibrate_gaussian(_FIT, 1.0, mu, (1,), lemma=_LEMMA)
            return cls(0, power, mu, (whole,))
        n_asked = 2 if n_challengers > 1 else 1
        shares = (*[_SHARE / n_asked] * n_asked, 1.0 - _SHARE)
        *asking, fit = split_mu(mu, shares)
        planned: list[Any] = []
        if n_asked == 2:
            given = _CHALLENGER, asking[0], n_challengers, moved
            planned.append(calibrate_exponential(*given, lemma=_LEMMA))
        planned += (
            calibrate_gaussian(
                *(_SUPPORT, moved, asking[-1], (1,)),
                magnitude=float(blocks),
                lemma=_LEMMA,
            ),
            calibrate_gaussian(_FIT, 1.0, fit, (1,), lemma=_LEMMA),
        )
        return cls(blocks, power, fit, tuple(planned))

    def choose(self, release: Any, sums: np.ndarray, beats: np.ndarray) -> Choice:
        """Propose a challenger by sums of votes; keep it if it clearly wins blocks."""
        *proposal, support, _ = self.mechanisms
        proposed = release.choose(_CHALLENGER, sums) if proposal else 0
        (count,) = release(_SUPPORT, beats[proposed : proposed + 1])
        bar = 0.5 * self.n_blocks + _MARGIN * support.noise_std
        return Choice(
            proposed + 1,
            bool(count <= bar),
            float(count) / self.n_blocks,
            support.noise_std / self.n_blocks,
        )


class Choice(NamedTuple):
    """The released choice: a challenger, by its place, whether it lost, its support."""

    proposed: int = 0
    kept: bool = True
    support: float = math.nan
    std: float = math.nan


class Planned(NamedTuple):
    """A search before its charge; `users` is the column of those who are protected."""

    candidates: list[dict[str, Any]]
    models: tuple[Any, ...]
    users: Any
    budgets: VoteBudgets
    plan: PrivacyPlan
    caveats: list[str]


def planned(search: Any, X: Any) -> Planned:
    """Return what a search tries, protects and costs; of X only clients are read."""
    candidates, relation = candidates_of(search), _relation(search, X)
    users = users_of(search.estimator) if relation[0] is Unit.USER else None
    models, failures, failure = (), (0.0,), -1.0
    while max(failures) > failure:  # twice, if values of single rows may be released
        failure = max(failures)
        budgets = _budgets(search, X, relation, len(candidates) - 1, failure)
        given = X, relation, budgets.mu_fit, users
        with noted_caveats() as caveats:
            found = [check_candidate(search, one, *given) for one in candidates]
        models, failures = zip(*found, strict=True)
    plan = _plan(search, budgets, relation, failure)
    return Planned(candidates, models, users, budgets, plan, caveats)


def ballot_of(search: Any, found: Planned, X: Any, scorer: Any) -> Ballot:
    """Return what blocks have in common."""
    # Users are first by default where columns have no names; fits refuse all others.
    by_place = isinstance(X, (np.ndarray, list, tuple))
    return Ballot(
        pack=packed(found.models, scorer),
        n_folds=int(search.cv),
        n_blocks=found.budgets.n_blocks,
        n_rows=table_shape(X)[0] if found.plan.unit is Unit.ROW else None,
        user_feature=0 if by_place and isinstance(found.users, str) else found.users,
    )


def rehearse(search: Any, found: Planned, ballot: Ballot, X: Any, y: Any) -> None:
    """Try the form of X and y, also with made-up rows.

    On these all candidates are fitted and scored, or the one that is fitted anyway.
    """
    first = (search.estimator, found.candidates[0], found.budgets.mu_fit)
    check_form_of_fit(candidate_model(*first), X, y)
    check_dtypes(found.models, X)
    candidates = found.candidates if ballot.n_blocks else found.candidates[:1]
    n_rows = None if ballot.n_rows is None else N_MADE_UP
    clear = _CLEAR_MU / found.budgets.mu_fit
    ballot = replace(ballot, n_blocks=1, n_rows=n_rows, clearer=clear)
    failed = list[Exception]()
    for numbers in (True, False):  # columns of objects may contain either
        try:
            with noted_caveats():
                made = made_up(search.estimator, X, y, numbers)
                block = _block(ballot, *made, np.arange(N_MADE_UP))
                return ballot.rehearse(candidates, *block)
        except NotImplementedError:  # of a container of which nothing is known
            return
        except Exception as error:
            failed.append(error)
    if not isinstance(failed[0], ValueError):  # by libraries that own containers
        raise ValueError(f"X or y has a form that a search does not take: {failed[0]}")
    raise failed[0]


def elected(
    search: Any, budgets: VoteBudgets, ballot: Ballot, release: VoteRelease, X, y, told
) -> Choice:
    """Deal the rows, ask the blocks, and release their choice."""
    if not budgets.n_blocks:
        return Choice()
    dealt = read_quietly(
        lambda: _deal(X, ballot, release.draw_key()),
        "the column of users could not be read",
    )
    return budgets.choose(release, *_totals(ballot, dealt, X, y, search.n_jobs, told))


def _budgets(
    search: Any, X: Any, relation: tuple, n_challengers: int, failure: float
) -> VoteBudgets:
    unit, neighbors = relation
    by_user, auto = unit is Unit.USER, isinstance(search.n_blocks, str)
    delta = float(search.delta) - failure
    if delta < max(MIN_DELTA, 0.5 * float(search.delta)):
        raise ValueError(
            f"delta={search.delta:g} is too small: it must cover the probability "
            f"{failure:.3g} that values of single rows are found as categories. Lower "
            "delta of the steps that find categories, or pass public categories"
        )
    mu = gaussian_mu(float(search.epsilon), delta)
    if by_user and auto:
        raise ValueError(
            'n_blocks="auto" depends on the number of rows, but the protected units '
            "are users, whose number is private: pass n_blocks=..., so that each block "
            "has about twenty users or more"
        )
    moved = sensitivity.block_vote_sensitivity(neighbors, by_id=by_user)
    n_rows = table_shape(X)[0]
    wanted = math.ceil(_ENOUGH / (mu * math.sqrt(_SHARE) / moved))
    enough = min(wanted, n_rows // MIN_BLOCK_SIZE)
    n_blocks = enough if auto else int(search.n_blocks)
    budgets = VoteBudgets.within(mu, n_blocks, n_challengers, moved)
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
        if not any(all(map(same_value, values, others)) for others in known):
            known.append(values)
            found.append(candidate)
    return found


def _plan(
    search: Any, budgets: VoteBudgets, relation: tuple, failure: float
) -> PrivacyPlan:
    """Return the plan of a whole search."""
    delta = float(search.delta)
    fit = gaussian_epsilon(budgets.mu_fit, delta)
    asked = Remark(f"{budgets.n_blocks} blocks vote.", Concern.OTHER)
    if not budgets.n_blocks:
        why = "there is no other candidate."
        if budgets.power < _TOO_LITTLE:
            why = (
                "the number of blocks times the cost of their votes would be "
                f"{budgets.power:.3g}, and votes have no power below {_TOO_LITTLE:g}."
            )
        said = "No block votes, and the given estimator has the whole budget: "
        asked = Remark(f"{said}{why}", Concern.MEASURED)
    return PrivacyPlan(
        float(search.epsilon),
        delta,
        budgets.mechanisms,
        estimator=type(search).__name__,
        unit=relation[0],
        neighbors=relation[1],
        seeded=search.noise_seed is not None,
        remarks=(
            asked,
            f"{_FIT!r} stands for all releases of the last fit, which may cost "
            f"epsilon = {fit:.6g} at delta = {delta:g} (mu = {budgets.mu_fit:.6g}).",
            *([_SIDE_CHANNEL] if budgets.n_blocks else []),
        ),
        failure=failure,
    )


# Rows that are replaced, and users who are replaced, join or leave.
_PROTECTED = {
    Unit.ROW: {Neighbors.REPLACE_ONE},
    Unit.USER: {Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE},
}


def _relation(search: Any, X: Any) -> tuple[Unit, Neighbors]:
    """Return what the estimator as given protects, by the form of rows."""
    with named({}):
        mu = gaussian_mu(float(search.epsilon), float(search.delta))
        model = candidate_model(search.estimator, {}, mu)
        plan = planned_fits(model, stand_in(X))[0].plan
        if plan.neighbors not in _PROTECTED[plan.unit]:
            raise ValueError(
                f"it protects one {plan.unit} under {plan.neighbors}: a vote protects "
                "rows that are replaced, and users who are replaced, join or leave"
            )
    return plan.unit, plan.neighbors


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
    return rows_apart(X, rows), targets


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
    names = sorted({name for candidate in candidates for name in candidate})
    given = estimator.get_params(deep=True)
    incumbent = {name: given[name] for name in names if name in given}
    params = [incumbent, *candidates[1:]]
    found: dict[str, Any] = {"params": params}
    for name in names:
        found[f"param_{name}"] = np.ma.masked_all(len(params), dtype=object)
        for place, candidate in enumerate(params):
            if name in candidate:
                found[f"param_{name}"][place] = candidate[name]
    found["support"] = np.full(len(params), np.nan)
    if choice.proposed:
        found["support"][choice.proposed] = choice.support
    return found
