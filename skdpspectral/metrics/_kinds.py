"""Rankings of users as scores, and all kinds of scores by name."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ..mechanisms._numbers import shown
from ._ranking import _check_k, _check_relevant, _ranked_sums
from ._score_kinds import (
    R2,
    AbsoluteError,
    Accuracy,
    BalancedAccuracy,
    CapturedVariance,
    Kind,
    LogLoss,
    SquaredError,
    _targets,
)


@dataclass(frozen=True)
class Ndcg(Kind):
    """Mean over users of the normalized discounted cumulative gain of their rows.

    Parameters
    ----------
    k : int or None, default=10
        Number of ranks that count; None counts all.
    """

    name: ClassVar[str] = "ndcg"
    of_users: ClassVar[bool] = True

    k: int | None = field(default=10, kw_only=True)

    def __post_init__(self) -> None:
        _check_k(self.k, 1)

    def of_each_user(self, y: Any, predicted: Any, codes: Any, n: int) -> np.ndarray:
        """Return the value of each user in [0, 1], NaN for those without one."""
        gains = np.maximum(np.nan_to_num(_targets(y), posinf=0.0), 0.0)
        scores = np.nan_to_num(_targets(predicted))
        discount = 1.0 / np.log2(2.0 + np.arange(_check_k(self.k, len(gains))))
        gained = _ranked_sums(gains, scores, codes, n, discount)
        return _quotients(gained, _ranked_sums(gains, gains, codes, n, discount))

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return the mean."""
        return 0.5 + float(means[0]), std


@dataclass(frozen=True)
class Recall(Kind):
    """Mean over users of the share of relevant rows among the top k.

    Parameters
    ----------
    k : int or None, default=10
        Number of ranks that count; None counts all.
    relevant : float, default=4
        Least rating that is relevant.
    """

    name: ClassVar[str] = "recall"
    of_users: ClassVar[bool] = True

    k: int | None = field(default=10, kw_only=True)
    relevant: Real = field(default=4, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        _check_k(self.k, 1)
        _check_relevant(self.relevant)

    def of_each_user(self, y: Any, predicted: Any, codes: Any, n: int) -> np.ndarray:
        """Return the value of each user in [0, 1], NaN for those without one."""
        wanted = (_targets(y) >= self.relevant).astype(np.float64)
        scores = np.nan_to_num(_targets(predicted))
        counted = np.ones(_check_k(self.k, len(wanted)))
        found = _ranked_sums(wanted, scores, codes, n, counted)
        return _quotients(found, np.bincount(codes, wanted, minlength=n))

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return the mean."""
        return 0.5 + float(means[0]), std


def _quotients(found: np.ndarray, best: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(best > 0.0, np.minimum(found / best, 1.0), np.nan)


KINDS = {
    kind.name: kind
    for kind in (
        Accuracy,
        BalancedAccuracy,
        SquaredError,
        AbsoluteError,
        LogLoss,
        R2,
        CapturedVariance,
        Ndcg,
        Recall,
    )
}


def make_kind(score: object, parameters: dict[str, Any]) -> Kind:
    """Return a kind by its name, with its public parameters.

    Raises
    ------
    ValueError, TypeError
        If there is no such score, or its parameters are others.
    """
    if not isinstance(score, str) or score not in KINDS:
        raise ValueError(f"score must be one of {sorted(KINDS)}, got {shown(score)}")
    kind = KINDS[score]
    try:
        made: Kind = kind(**parameters)
    except TypeError as error:
        text = str(error).partition(" ")[2]
        names = [f.name for f in fields(kind)]
        raise TypeError(f"score={score!r} has parameters {names}: {text}") from None
    return made
