"""What a search by votes protects, costs, and finds: budgets, blocks and the choice.

Nothing but the votes leaves a block. They are a function of the block's rows and of
public numbers alone: a block has its own copies of estimator and scorer, its own global
generators, and fixed seeds. So one unit moves the votes of its own block and of no
other, which is all that the guarantee rests on. Scorers depend on their arguments
alone: what they keep in a module of their own, all blocks would see.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid

from .._base.personal import PersonalEstimator
from .._base.sklearn_compat import FitProgress, take_rows
from .._base.strategies import same_value
from .._release.noise import (
    Coins,
    Release,
    own_generators,
    public_order,
    without_recording,
)
from .._tables.columns import (
    column_names,
    dtypes_of,
    encode_ids,
    frame_of_arrow,
    is_arrow,
    read_column,
    read_entries,
    read_quietly,
    refuse_on_cluster,
    shape_of,
)
from .._tables.table import table_shape
from ..accounting import (
    PrivacyAccountant,
    calibrate_exponential,
    calibrate_gaussian,
    gaussian_epsilon,
    gaussian_mu,
    split_mu,
)
from ..accounting._gaussian import MIN_DELTA
from ..accounting._ledger.context import without_accountant
from ..accounting._ledger.planned_fits import estimators_within
from ..mechanisms import Concern, Neighbors, PrivacyPlan, Remark, Unit
from ..metrics._private_scorer import PrivateScorer
from ._candidates import (
    ROUNDING,
    candidate_model,
    check_candidate,
    check_form_of_fit,
    named,
    quiet,
    set_sources,
    users_within,
)
from ._made_up import N_MADE_UP, made_up
from ._splits import PrivateSplit, user_places

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
    def within(cls, mu: float, blocks: int, n_challengers: int) -> VoteBudgets:
        """Return the budgets of a search; a single challenger is proposed for free."""
        power = blocks * mu * math.sqrt(_SHARE)
        if not n_challengers or power < _TOO_LITTLE:
            whole = calibrate_gaussian(_FIT, 1.0, mu, (1,), lemma=_LEMMA)
            return cls(0, power, mu, (whole,))
        n_asked = 2 if n_challengers > 1 else 1
        shares = (*[_SHARE / n_asked] * n_asked, 1.0 - _SHARE)
        *asking, fit = split_mu(mu, shares)
        planned: list[Any] = []
        if n_asked == 2:
            given = _CHALLENGER, asking[0], n_challengers, 1.0
            planned.append(calibrate_exponential(*given, lemma=_LEMMA))
        planned += (
            calibrate_gaussian(
                *(_SUPPORT, 1.0, asking[-1], (1,)),
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
    doubts: list[Remark]


def planned(search: Any, X: Any) -> Planned:
    """Return what a search tries, protects and costs; of X only clients are read."""
    candidates, relation = candidates_of(search), _relation(search, X)
    columns = users_within(search.estimator) if relation[0] is Unit.USER else []
    users = next(iter(columns), None)
    n_units = _n_units(X, relation, users)
    failure, highest = -1.0, 0.0
    while highest > failure:  # twice, if values of single rows may be released
        failure = highest
        budgets = _budgets(search, n_units, relation, len(candidates) - 1, failure)
        given = X, relation, budgets.mu_fit, users
        found = [check_candidate(search, one, *given) for one in candidates]
        most = max(plan.failure for _, plan in found)
        highest = min(most * (1.0 + ROUNDING), 1.0)
    plan = _plan(search, budgets, relation, failure)
    said = (remark for _, own in found for remark in own.remarks)
    doubts = dict.fromkeys(one for one in said if one.concern is Concern.NOISE)
    models = tuple(model for model, _ in found)
    return Planned(candidates, models, users, budgets, plan, list(doubts))


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
        by_rank=found.plan.neighbors is Neighbors.REPLACE_ONE,
        whole_users=getattr(found.models[0], "user_feature", None) is not None
        and hasattr(found.models[0], "steps")
        and not isinstance(found.models[0].steps[-1][1], PersonalEstimator),
    )


def _no_score(model: Any, X: Any, y: Any) -> float:
    return 0.0


def rehearse(search: Any, found: Planned, ballot: Ballot, X: Any, y: Any) -> None:
    """Try the form of X and y, also with made-up rows.

    On these all candidates are fitted and scored; if no vote is asked, the one that is
    fitted anyway is fitted.
    """
    for model in found.models:
        check_form_of_fit(model, X, y)
    candidates = found.candidates if ballot.n_blocks else found.candidates[:1]
    n_rows = None if ballot.n_rows is None else N_MADE_UP
    clear = _CLEAR_MU / found.budgets.mu_fit
    if not ballot.n_blocks:
        ballot = replace(ballot, pack=packed(found.models[:1], _no_score))
    ballot = replace(ballot, n_blocks=1, n_rows=n_rows, clearer=clear)
    failed = list[Exception]()
    for numbers in (True, False):  # columns of objects may contain either
        try:
            rows, targets = made_up(search.estimator, X, y, numbers)
            given = sliceable(rows), sliceable_targets(targets)
            block = _block(*given, np.arange(N_MADE_UP))
            return ballot.rehearse(candidates, *block)
        except Exception as error:
            failed.append(error)
    if not isinstance(failed[0], (TypeError, ValueError)):  # by libraries of containers
        raise ValueError(f"X or y has a form that a search does not take: {failed[0]}")
    raise failed[0]


def check_rows(X: Any, y: Any) -> None:
    """Refuse rows on a cluster, and targets that are not one per row."""
    for name, given in (("X", X), ("y", y)):
        refuse_on_cluster(given, "PrivateSearchCV", name)
    if y is not None and shape_of(y, "y")[:1] != table_shape(X)[:1]:
        raise ValueError(f"y must have one entry per row, {table_shape(X)[0]} in total")


def sliceable(X: Any) -> Any:
    """Return a table of which rows can be taken."""
    if sparse.issparse(X):
        return X.tocsr()
    if column_names(X) is not None and is_arrow(X):
        return frame_of_arrow(X)
    return X if hasattr(X, "shape") else read_entries(X, "X")


def sliceable_targets(y: Any) -> Any:
    """Return targets of which rows can be taken; lists stay lists."""
    if hasattr(y, "to_pylist"):
        return y.to_pylist()
    if isinstance(y, tuple):
        return list(y)
    kept = y is None or isinstance(y, (list, range)) or hasattr(y, "shape")
    return y if kept else read_entries(y, "y")


def elected(
    search: Any, budgets: VoteBudgets, ballot: Ballot, release: Release, X, y, told
) -> Choice:
    """Deal the rows, ask the blocks, and release their choice."""
    if not budgets.n_blocks:
        return Choice()
    dealt = read_quietly(
        lambda: _deal(X, ballot, release.draw_key(), Coins(search.noise_seed)),
        "the column of users could not be read",
    )
    return budgets.choose(release, *_totals(ballot, dealt, X, y, search.n_jobs, told))


def _n_units(X: Any, relation: tuple, users: Any) -> int | None:
    """Return the number of rows or users, where it is public."""
    if relation[0] is Unit.ROW:
        return table_shape(X)[0]
    if relation[1] is not Neighbors.REPLACE_ONE:
        return None
    return encode_ids(read_column(X, users, "user_feature"), "user_feature")[1]


def _budgets(
    search: Any,
    n_units: int | None,
    relation: tuple,
    n_challengers: int,
    failure: float,
) -> VoteBudgets:
    auto = isinstance(search.n_blocks, str)
    delta = float(search.delta) - failure
    if delta < max(MIN_DELTA, 0.5 * float(search.delta)):
        raise ValueError(
            f"delta={search.delta:g} is too small: it must cover the probability "
            f"{failure:.3g} that values of single rows are found as categories. Lower "
            "delta of the steps that find categories, or pass public categories"
        )
    mu = gaussian_mu(float(search.epsilon), delta)
    if n_units is None and auto:
        raise ValueError(
            'n_blocks="auto" depends on the number of users, which is private if they '
            'may join or leave: set neighbors="replace-one", or pass n_blocks=..., so '
            "that each block has about twenty users or more"
        )
    n_blocks = search.n_blocks
    if auto:
        wanted = math.ceil(_ENOUGH / (mu * math.sqrt(_SHARE)))
        n_blocks = min(wanted, n_units // MIN_BLOCK_SIZE)
    budgets = VoteBudgets.within(mu, int(n_blocks), n_challengers)
    if n_units is not None and budgets.n_blocks * MIN_BLOCK_SIZE > n_units:
        raise ValueError(
            f"n_blocks={n_blocks} leaves fewer than {MIN_BLOCK_SIZE} {relation[0]}s "
            f"for a block of {n_units}: lower it"
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
        plan = candidate_model(search.estimator, {}, mu).plan_for(X)
        if plan.neighbors not in _PROTECTED[plan.unit]:
            raise ValueError(
                f"it protects one {plan.unit} under {plan.neighbors}: a vote protects "
                "rows that are replaced, and users who are replaced, join or leave"
            )
    return plan.unit, plan.neighbors


def _deal(X: Any, ballot: Ballot, key: bytes, coins: Coins) -> list[np.ndarray]:
    """Return the rows of each block: by position, or by the user.

    Users have a rank in a secret order. If they may leave, their id and a key count.
    """
    m = ballot.n_blocks
    if ballot.n_rows is not None:
        order = public_order(ballot.n_rows)
        return [order[block::m] for block in range(m)]
    ids = read_column(X, ballot.user_feature, "user_feature")
    codes, places = user_places(ids, "user_feature", key)
    of_user = np.minimum((places * m).astype(np.intp), m - 1)
    if ballot.by_rank:
        of_user = coins.secret_order(len(places)) % m
    of_row = of_user[codes]
    order = np.argsort(of_row, kind="stable")
    ends = np.cumsum(np.bincount(of_row, minlength=m))
    return np.split(order, ends[:-1])


def _block(X: Any, y: Any, rows: np.ndarray) -> tuple[Any, Any]:
    """Return rows and targets of a block."""
    return rows_apart(X, rows), None if y is None else rows_apart(y, rows)


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
            return _block(X, y, rows)
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


# -- blocks ----------------------------------------------------------------------------

# Fits get so many rows at least, by repeating those that there are: parts of a fit that
# need a minimum of rows do what they do on all rows.
_FEWEST_ROWS = 160

# Batches have so many rows at least, unless those of the last fit have fewer.
_FEWEST_IN_BATCH = 16

# Votes are multiples of this, so that their sums over blocks are exact.
_VOTE_STEP = 2.0**-20

_REHEARSED = (
    "a fit or its score fails on made-up rows of the form of X and y: check scoring, "
    "and the types of targets and columns"
)


def scorer_of_blocks(search: Any) -> Any:
    """Return a callable ``scorer(model, X, y)`` whose values are not released."""
    if isinstance(search.scoring, PrivateScorer):
        return search.scoring.without_noise()
    try:
        return check_scoring(search.estimator, scoring=search.scoring)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scoring: {error}") from error


def packed(models: Sequence[Any], scorer: Any) -> bytes:
    """Return what every block has a copy of: what one changes, no other block sees."""
    with without_accountant():
        try:
            _Pickler(file := io.BytesIO()).dump((models, scorer))
        except Exception as error:
            raise ValueError(
                "estimator, param_grid and scoring must be picklable: every block uses "
                f"its own copy ({type(error).__name__})"
            ) from error
    return file.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Replaces accountants by None: a budget that ends in a block would end in all."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how an object is pickled."""
        if isinstance(obj, PrivacyAccountant):
            return type(None), ()
        return super().reducer_override(obj)


@dataclass(frozen=True)
class Ballot:
    """Public numbers that all blocks have in common.

    `pack` holds models, the incumbent first, and the scorer. The last fit has `n_rows`
    rows, None where users are dealt, `by_rank` if their number is public. Folds have
    `whole_users`, or rows of each user. Fits cost `clearer` times as much.
    """

    pack: bytes
    n_folds: int
    n_blocks: int
    n_rows: int | None
    user_feature: Any = None
    by_rank: bool = False
    whole_users: bool = False
    clearer: float = 1.0

    def __call__(self, number: int, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the votes of a block on challengers, and which beat the incumbent."""
        with self._apart(number):
            models, scorer = cloudpickle.loads(self.pack)
            scores = np.full(len(models), np.nan)
            # What fails, for whatever reason, has the worst score, and nobody sees it.
            with contextlib.suppress(Exception):
                given = scorer, number, X, y, list(self._folds(X))
                for place, model in enumerate(models):
                    with contextlib.suppress(Exception):
                        scores[place] = self._score(model, *given)
            return votes(scores)

    def rehearse(self, candidates: Sequence[Mapping[str, Any]], X: Any, y: Any) -> None:
        """Fit and score each candidate on made-up rows; errors name the candidate."""
        models, scorer = cloudpickle.loads(self.pack)
        for candidate, model in zip(candidates, models, strict=False):
            with named(candidate), self._apart(0):
                try:
                    folds = [next(self._folds(X))]
                    score = self._score(model, scorer, 0, X, y, folds)
                except Exception as error:
                    raise ValueError(f"{_REHEARSED} ({error})") from error
                if not math.isfinite(score):
                    raise ValueError(f"{_REHEARSED} (the score is {score})")

    @contextlib.contextmanager
    def _apart(self, number: int) -> Iterator[None]:
        """Give a block its own settings and global generators, and no ledger."""
        with quiet(), config_context(), without_recording(), own_generators(number):
            yield

    def _folds(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield training and test rows, by their places in the block."""
        if self.user_feature is not None:
            dealt = {"user_feature": self.user_feature, "whole_users": self.whole_users}
            dealt["random_state"] = 0  # of one block, whose folds nobody sees
            yield from PrivateSplit(self.n_folds, **dealt).split(X)
            return
        turn = np.arange(shape_of(X)[0]) % self.n_folds
        for fold in range(self.n_folds):
            yield np.flatnonzero(turn != fold), np.flatnonzero(turn == fold)

    def _score(
        self, model: Any, scorer: Any, number: int, X: Any, y: Any, folds: Any
    ) -> float:
        """Return the mean score of a candidate over folds."""
        scores = []
        for fold, (train, test) in enumerate(folds):
            fitted, rows = self._prepared(model, train)
            # The same noise for all candidates, whose difference is what counts.
            set_sources(fitted, None, number * self.n_folds + fold)
            known = [take_rows(part, rows) for part in (X, y) if part is not None]
            fitted.fit(*known)
            held = None if y is None else take_rows(y, test)
            scores.append(float(scorer(fitted, take_rows(X, test), held)))
        return math.fsum(scores) / len(scores)

    def _prepared(self, model: Any, train: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return a model whose noise, relative to its rows, is that of the last fit."""
        model = clone(model)
        if self.n_rows is None:
            factor = self.n_blocks * self.n_folds / (self.n_folds - 1)
        else:
            counts = {
                (part, name): int(getattr(part, name))
                for part in estimators_within(model).values()
                for name in getattr(type(part), "_counts_rows", ())
                if getattr(part, name) < self.n_rows
            }
            least = _FEWEST_ROWS
            for count in counts.values():
                wanted = min(count, _FEWEST_IN_BATCH)
                least = max(least, math.ceil(wanted * self.n_rows / count))
            train = np.tile(train, math.ceil(least / len(train)))
            factor = self.n_rows / len(train)
            for (part, name), count in counts.items():
                part.set_params(**{name: max(1, round(count / factor))})
        own = gaussian_mu(float(model.epsilon), float(model.delta))
        epsilon = gaussian_epsilon(self.clearer * factor * own, float(model.delta))
        model.set_params(epsilon=epsilon)
        return model, train


def votes(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return votes on challengers, in [0, 1], and whether each beats the incumbent.

    The incumbent's score is the first. One that is not finite is the worst of the
    others; without any finite one all votes are 0. A tie counts one half.
    """
    finite = np.isfinite(scores)
    if not finite.any():
        n_others = len(scores) - 1
        return np.zeros(n_others), np.zeros(n_others)
    # Only their order and ratios of differences count: huge scores must not overflow.
    scores = np.where(finite, scores, scores[finite].min())
    scores = scores / max(np.abs(scores).max(), np.finfo(np.float64).tiny)
    middle, best = np.median(scores), scores.max()
    spread = best - middle
    shares = np.zeros(len(scores)) if spread == 0.0 else (scores - middle) / spread
    clipped = np.clip(shares[1:], 0.0, 1.0)
    beats = 0.5 + 0.5 * np.sign(scores[1:] - scores[0])
    return np.rint(clipped / _VOTE_STEP) * _VOTE_STEP, beats


def rows_apart(table: Any, rows: np.ndarray) -> Any:
    """Return some rows of a table or column, and nothing that was made of the others.

    Frames keep names and dtypes, but categories become those of these rows. Rows are
    numbered anew, without notes.
    """
    if isinstance(table, np.ndarray):
        return table.view(np.ndarray)[rows]
    if type(table).__module__.startswith("pandas") and not hasattr(table, "iloc"):
        import pandas as pd

        several = isinstance(table, pd.MultiIndex)
        table = pd.Series(table.to_flat_index() if several else table)
    part = take_rows(table, rows)
    if hasattr(part, "iloc"):
        part = part.reset_index(drop=True)
        part.attrs = {}
    if column_names(part) is None:
        return _recoded(part)
    for place, (name, dtype) in enumerate(
        zip(column_names(part), dtypes_of(part), strict=True)
    ):
        if not _is_coded(dtype):
            continue
        if hasattr(part, "iloc"):
            part.isetitem(place, _recoded(part.iloc[:, place]))
        else:
            part = part.with_columns(_recoded(part[name]))
    return part


def _is_coded(dtype: Any) -> bool:
    """Whether a dtype or its column holds the values of other rows."""
    return str(dtype).startswith(("category", "dictionary", "Categorical"))


def _recoded(column: Any) -> Any:
    """Return a column that knows of no values but its own."""
    if not _is_coded(getattr(column, "dtype", None)):
        return column
    if hasattr(column, "iloc"):
        return column.astype(object).astype("category")
    return column.cast(str)
