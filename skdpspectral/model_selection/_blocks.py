"""Fits and scores of candidates on one block of the rows, which end in its votes.

Nothing but the votes leaves a block. They are a function of the block's rows and of
public numbers alone: a block has its own copies of estimator and scorer, its own global
generators, and fixed seeds. So one unit moves the votes of its own block and of no
other, which is all that the guarantee rests on. Scorers depend on their arguments
alone: what they keep in a module of their own, all blocks would see.
"""

from __future__ import annotations

import contextlib
import copy
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline

from .._base.sklearn_compat import take_rows
from .._release.noise import without_recording
from .._release.selection import own_generators
from .._tables.columns import column_names, dtypes_of
from .._tables.table import shape_of
from ..accounting import PrivacyAccountant, gaussian_epsilon, gaussian_mu
from ..accounting._ledger.context import without_accountant
from ..accounting._ledger.planned_fits import estimators_within
from ..metrics._private_scorer import PrivateScorer
from ._candidates import named, private_parts, quiet, set_sources
from ._splits import PrivateSplit

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


def scorer_of_blocks(scoring: Any, estimator: Any) -> Any:
    """Return a callable ``scorer(model, X, y)`` whose values are not released."""
    if isinstance(scoring, PrivateScorer):
        return scoring.without_noise()
    try:
        return check_scoring(estimator, scoring=scoring)
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
    rows, None where users are dealt. Fits cost `clearer` times as much.
    """

    pack: bytes
    n_folds: int
    n_blocks: int
    n_rows: int | None
    user_feature: Any = None
    clearer: float = 1.0

    def __call__(self, number: int, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the votes of a block on challengers, and which beat the incumbent."""
        with self._apart(number):
            models, scorer = cloudpickle.loads(self.pack)
            scores = np.full(len(models), np.nan)
            # What fails, for whatever reason, has the worst score, and nobody sees it.
            with contextlib.suppress(Exception):
                given = scorer, number, X, y, list(self._folds(X)), _FittedSteps()
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
                    score = self._score(model, scorer, 0, X, y, folds, _FittedSteps())
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
            dealt = {"user_feature": self.user_feature, "random_state": 0}
            yield from PrivateSplit(self.n_folds, **dealt).split(X)
            return
        turn = np.arange(shape_of(X)[0]) % self.n_folds
        for fold in range(self.n_folds):
            yield np.flatnonzero(turn != fold), np.flatnonzero(turn == fold)

    def _score(
        self, model: Any, scorer: Any, number: int, X: Any, y: Any, folds: Any, steps
    ) -> float:
        """Return the mean score of a candidate over folds."""
        scores = []
        for fold, (train, test) in enumerate(folds):
            fitted, rows = self._prepared(model, train)
            # The same noise for all candidates, whose difference is what counts.
            set_sources(fitted, None, number * self.n_folds + fold)
            if type(fitted) is Pipeline:
                fitted.set_params(memory=steps)
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
        for part in private_parts(model).values():
            own = gaussian_mu(float(part.epsilon), float(part.delta))
            mu = self.clearer * factor * own
            part.set_params(epsilon=gaussian_epsilon(mu, float(part.delta)))
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
    numbered anew, without notes and subclasses.
    """
    if isinstance(table, np.ndarray):
        return table.view(np.ndarray)[rows]
    part = take_rows(_plain(table), rows)
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


def _plain(table: Any) -> Any:
    """Return a table or column of pandas as its own frame or series; others as is."""
    if not (hasattr(table, "iloc") or type(table).__module__.startswith("pandas")):
        return table
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return pd.DataFrame(table)
    several = isinstance(table, pd.MultiIndex)
    return pd.Series(table.to_flat_index() if several else table)


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


class _FittedSteps:
    """First steps of pipelines, fitted once in a block: what a `memory` may be."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Any, Any]] = {}

    def cache(self, fit_transform: Any, **_: Any) -> Any:
        """Return a function that fits equal steps on equal rows once."""

        def once(step: Any, X: Any, y: Any, *how: Any, **named: Any) -> tuple[Any, Any]:
            key = joblib.hash((step, X, y))
            if key not in self._found:
                self._found[key] = fit_transform(step, X, y, *how, **named)
            rows, fitted = self._found[key]
            return copy.deepcopy(rows), fitted  # later steps may change rows in place

        return once
