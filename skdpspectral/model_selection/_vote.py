"""Votes of the blocks of a search: their rows, made-up ones, fits and scores.

Nothing but the votes leaves a block. They are a function of the block's rows and of
public numbers alone: a block has its own copies of estimator and scorer, its own global
generators, and fixed seeds. So one unit moves the votes of its own block and of no
other, which is all that the guarantee rests on. Scorers depend on their arguments
alone: what they keep in a module of their own, all blocks would see. Of rows that are
made up, dtypes, names, shapes and parameters are read, which are public, and no value.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone

from .. import accounting
from .._base.privacy_report import DEFAULT_NAMES
from .._base.sklearn_compat import FitProgress, take_rows
from .._release.noise import (
    Coins,
    own_generators,
    public_order,
    public_start,
    without_recording,
)
from .._tables import columns
from ..accounting._ledger.context import without_accountant
from ..accounting._ledger.planned_fits import estimators_within
from ._splits import PrivateSplit, user_places

# Folds of a block.
_FOLDS = 3

# Fits get so many rows at least, by repeating those that there are: parts of a fit that
# need a minimum of rows do what they do on all rows.
_FEWEST_ROWS = 160

# Batches have so many rows at least, unless those of the last fit have fewer.
_FEWEST_IN_BATCH = 16

# Votes are multiples of this, so that their sums over blocks are exact.
_VOTE_STEP = 2.0**-20

# Between the seeds of two fits.
_SEEDS_APART = 1009

_REHEARSED = (
    "a fit or its score fails on made-up rows of the form of X and y: check scoring, "
    "and the types of targets and columns"
)


@contextlib.contextmanager
def named(candidate: Mapping[str, Any]) -> Iterator[None]:
    """Prefix errors with the candidate that caused them."""
    try:
        yield
    except (TypeError, ValueError, accounting.PrivacyBudgetError) as error:
        said = ", ".join(f"{name}={v!r}" for name, v in candidate.items())
        where = f"param_grid: the candidate ({said}) of " if candidate else ""
        raise ValueError(f"{where}estimator: {error}") from error


def set_sources(model: Any, limit: Any, seed: int | None) -> None:
    """Set what a fit of a model may cost, and its seed."""
    model._set_source(limit, None if seed is None else _SEEDS_APART * seed % 2**31)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Charge nothing and warn of nothing; jobs of a fit are threads."""
    threads = parallel_config(backend="threading")
    with np.errstate(all="ignore"), without_accountant(), threads:
        yield


# -- blocks ------------------------------------------------------------------------


def _deal(X: Any, ballot: Ballot, key: bytes, coins: Coins) -> list[np.ndarray]:
    """Return the rows of each block: by position, or by the user.

    Users have a rank in a secret order. If they may leave, their id and a key count.
    """
    m = ballot.n_blocks
    if ballot.n_rows is not None:
        order = public_order(ballot.n_rows)
        return [order[block::m] for block in range(m)]
    ids = columns.read_column(X, ballot.user_feature, "user_feature")
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

    def blocks() -> Iterator[tuple[int, Any, Any]]:
        for number, rows in enumerate(dealt):
            block = None, None  # no more than the worst scores of this block
            with quiet(), contextlib.suppress(Exception):
                block = _block(X, y, rows)
            yield number, *block

    asked, found = blocks(), []
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


def sliceable(values: Any, name: str) -> Any:
    """Return X or y in a form of which rows can be taken; targets in lists stay so."""
    if sparse.issparse(values):
        return values.tocsr()
    if (
        name == "X"
        and columns.column_names(values) is not None
        and columns.is_arrow(values)
    ):
        return columns.frame_of_arrow(values)
    if name == "y" and hasattr(values, "to_pylist"):
        return values.to_pylist()
    if name == "y" and isinstance(values, (list, range, tuple)):
        return list(values)
    kept = values is None or hasattr(values, "shape")
    return values if kept else columns.read_entries(values, name)


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
        if isinstance(obj, accounting.PrivacyAccountant):
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
            yield from PrivateSplit(_FOLDS, **dealt).split(X)
            return
        turn = np.arange(columns.shape_of(X)[0]) % _FOLDS
        for fold in range(_FOLDS):
            yield np.flatnonzero(turn != fold), np.flatnonzero(turn == fold)

    def _score(
        self, model: Any, scorer: Any, number: int, X: Any, y: Any, folds: Any
    ) -> float:
        """Return the mean score of a candidate over folds."""
        scores = []
        for fold, (train, test) in enumerate(folds):
            fitted, rows = self._prepared(model, train)
            # The same noise for all candidates, whose difference is what counts.
            set_sources(fitted, None, number * _FOLDS + fold)
            known = [take_rows(part, rows) for part in (X, y) if part is not None]
            fitted.fit(*known)
            held = None if y is None else take_rows(y, test)
            scores.append(float(scorer(fitted, take_rows(X, test), held)))
        return math.fsum(scores) / len(scores)

    def _prepared(self, model: Any, train: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return a model whose noise, relative to its rows, is that of the last fit."""
        model = clone(model)
        if self.n_rows is None:
            factor = self.n_blocks * _FOLDS / (_FOLDS - 1)
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
        own = accounting.gaussian_mu(float(model.epsilon), float(model.delta))
        epsilon = accounting.gaussian_epsilon(
            self.clearer * factor * own, float(model.delta)
        )
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
    if columns.column_names(part) is None:
        return _recoded(part)
    for place, (name, dtype) in enumerate(
        zip(columns.column_names(part), columns.dtypes_of(part), strict=True)
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


# -- made-up rows ------------------------------------------------------------------

N_MADE_UP = 240

# Of targets, beside names of columns.
CLASSES = object()

# Rows of a made-up user, and what other columns may contain.
_ROWS_OF_EACH, _WORDS = 6, ("a", "b", "c")


def made_up(estimator: Any, X: Any, y: Any, numbers: bool) -> tuple[Any, Any]:
    """Return rows and targets; objects are `numbers`, or else words."""
    known = public_values(estimator)
    rows = made_up_rows(X, known, numbers)
    if y is None:
        return rows, None
    values = _whole(N_MADE_UP)
    if CLASSES in known:
        values = _in_turn(known[CLASSES])[public_order(N_MADE_UP)]
    return rows, _like(y, [values] * math.prod(columns.shape_of(y, "y")[1:]))


def public_values(estimator: Any) -> dict[Any, Sequence[Any]]:
    """Return public values of columns by name or position, and those of targets."""
    known: dict[Any, Sequence[Any]] = {}
    places = np.arange(N_MADE_UP)
    for part in estimators_within(estimator).values():
        if isinstance(found := getattr(part, "categories", None), dict):
            lists = {k: v for k, v in found.items() if not isinstance(v, str)}
            known |= {name: list(values) for name, values in lists.items()}
        if (users := getattr(part, "user_feature", None)) is not None:
            known[users] = (places // _ROWS_OF_EACH).tolist()
        if getattr(part, "item_feature", None) is not None:
            items = getattr(part, "items", None)
            known[part.item_feature] = list(range(5) if items is None else items)
        if getattr(part, "classes", None) is not None:
            known[CLASSES] = list(part.classes)
    return known


def made_up_rows(X: Any, known: dict, numbers: bool) -> Any:
    """Return rows of the form of X; objects are `numbers`, or else words.

    Columns have the values that are `known`. Columns of dtypes that nothing can be made
    of have words.
    """
    n_columns, names = columns.shape_of(X)[1], columns.column_names(X)
    if sparse.issparse(X):
        places = range(n_columns)
        dense = [_whole(p) * (_whole(p + n_columns) > 2) for p in places]
        return sparse.csr_matrix(np.stack(dense, axis=1).astype(X.dtype))
    if names is None and hasattr(X, "shape") and not isinstance(X, np.ndarray):
        raise TypeError(
            "X must be an array, lists, a sparse matrix or a dataframe, got "
            f"{type(X).__name__}: convert it first"
        )
    if names is not None and columns.is_arrow(X):
        X = columns.frame_of_arrow(X.slice(0, 0))
    dtypes = columns.dtypes_of(X)
    if names is None:
        dtypes = [getattr(X, "dtype", np.dtype(object))] * n_columns
    parts = []
    for place, dtype in enumerate(dtypes):
        keys: list[Any] = [place, place - n_columns]
        keys += DEFAULT_NAMES[place:][:1] if names is None else [str(names[place])]
        given = next((known[key] for key in reversed(keys) if key in known), None)
        if given is None and str(dtype).startswith("Enum"):
            given = list(getattr(dtype, "categories", _WORDS))
        parts.append(_values(dtype, given, numbers, place))
    return _like(X, parts)


def _like(table: Any, parts: list[Any]) -> Any:
    """Return values of columns in the container and dtypes of a table or column."""
    if columns.column_names(table) is not None:
        pairs = zip(columns.dtypes_of(table), parts, strict=True)
        parts = [_column(table, *pair) for pair in pairs]
        if columns.is_polars(table):
            return type(table)(dict(zip(table.columns, parts, strict=True)))
        import pandas as pd

        return pd.concat(parts, axis=1).set_axis(table.columns, axis=1)
    library = type(table).__module__.partition(".")[0]
    if hasattr(table, "iloc") or library in ("pandas", "polars"):
        return _column(table, table.dtype, parts[0])
    made = np.empty((N_MADE_UP, len(parts)), dtype=object)
    for place, values in enumerate(parts):
        made[:, place] = values
    made = made.reshape(N_MADE_UP, *columns.shape_of(table)[1:])
    if not isinstance(table, np.ndarray):
        return made.tolist()
    return made.astype(str if table.dtype.kind == "U" else table.dtype)


def _column(like: Any, dtype: Any, values: np.ndarray) -> Any:
    """Return values as a column of the library of `like`, or words."""
    try:
        return _cast(like, dtype, values)
    except Exception:  # of structs, lists and intervals, by each library's own words
        return _cast(like, None, _in_turn(_WORDS))


def _cast(like: Any, dtype: Any, values: np.ndarray) -> Any:
    entries = values.tolist() if values.dtype == object else values
    if columns.is_polars(like):
        import polars as pl

        made = pl.Series(entries)
        return made if dtype is None else made.cast(dtype)
    import pandas as pd

    # Categories of a dtype may be values of the table.
    return pd.Series(entries, dtype={"category": "category"}.get(str(dtype), dtype))


def _values(dtype: Any, given: Any, numbers: bool, place: int) -> np.ndarray:
    """Return values that fit a dtype: the given ones in turn, or any."""
    if given is not None:
        return _in_turn(given)
    kind, own = columns.kind_of(dtype), columns.own_type(dtype)
    name = getattr(own, "name", str(own)).lower()
    if kind == columns.DURATION:
        return np.arange(N_MADE_UP).astype("m8[ns]")
    if kind in (columns.DATE, columns.DAY):
        return np.datetime64("2020-01-01", "ns") + np.arange(N_MADE_UP)
    if kind in (columns.NUMBER, columns.COMPLEX):
        if "bool" in name:
            return _whole(place) > 3
        floats = 2.0 * public_start(place, (N_MADE_UP,))
        return _whole(place) if "int" in name else floats
    if numbers and name == "object" and kind != columns.NEVER:
        return _whole(place).astype(object)
    words = _in_turn(_WORDS)
    return words if kind == columns.NEVER else words[public_order(N_MADE_UP)]


def _whole(number: int) -> np.ndarray:
    """Return whole numbers from 1 to 5, by a public number."""
    uniform = public_start(abs(number), (N_MADE_UP,))
    return np.floor(2.5 * (uniform + 1.0)).astype(int) + 1


def _in_turn(values: Sequence[Any]) -> np.ndarray:
    """Return some values over and over, as objects that no dtype has changed."""
    found = np.empty(N_MADE_UP, dtype=object)
    found[:] = [values[place % len(values)] for place in range(N_MADE_UP)]
    return found
