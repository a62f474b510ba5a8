"""What a row, or a user, contributes to a score, in a public range.

Each kind is a frozen value of public numbers: :meth:`contributions` looks at each row
(or user) by itself, beside the fitted model, and ``finish`` turns released means into
the score and its standard error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state, gen_batches

from .. import sensitivity
from .._tables.entries import read_entries
from ..mechanisms._relations import check_real, shown
from ..sensitivity._users import TARGET_WEIGHT
from ._ranking import _check_k, _check_relevant, _ranked_sums
from ._subspace import (
    BLOCK_SIZE,
    _components_and_rows,
    _dense,
    _inverse_scale,
    _orthonormal_rows,
)


def _positive(name: str, value: object) -> float:
    number = check_real(name, value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {number}")
    return number


def _targets(values: Any) -> np.ndarray:
    """Return one real number a row."""
    numbers = read_entries(values, "y")
    entries = numbers.ravel().tolist() if numbers.dtype == object else numbers[:0]
    kinds = {numbers.dtype.type, *map(type, entries)}
    if any(issubclass(kind, (complex, np.complexfloating)) for kind in kinds):
        raise ValueError("y and predictions must be real")  # numpy only warns
    numbers = numbers.astype(np.float64)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim != 1:
        raise ValueError("y and predictions must hold one number a row")
    return numbers


def _equal(y: Any, predicted: Any) -> np.ndarray:
    """Return whether the class of each row is the predicted one."""
    y, predicted = read_entries(y, "y"), read_entries(predicted, "predictions")
    if y.ndim != 1 or y.shape != predicted.shape:
        raise ValueError("y and predictions must hold one class a row")
    if object not in (y.dtype, predicted.dtype):
        right: np.ndarray = y == predicted  # by types, which are public
        return right
    pairs = zip(y.tolist(), predicted.tolist(), strict=True)
    return np.fromiter((_are_equal(a, b) for a, b in pairs), bool, len(y))


def _are_equal(a: Any, b: Any) -> bool:
    """Return whether two labels are equal; what cannot be compared is not."""
    try:
        return bool(a == b)
    except (MemoryError, Warning):
        raise
    except Exception:  # of pandas.NA, and of foreign objects
        return False


def _one_of(y: Any, classes: np.ndarray) -> np.ndarray:
    """Return an array of shape (n_rows, n_classes): whether a row is of a class."""
    y = read_entries(y, "y")
    kind = object if y.dtype == object else None
    return np.column_stack([_equal(y, np.full(len(y), c, kind)) for c in classes])


@dataclass(frozen=True)
class Kind:
    """Base of all kinds: a mean of one number a row, in a range of length `limit`."""

    name: ClassVar[str]
    of_users: ClassVar[bool] = False  # whether a user has one contribution as it is
    width: ClassVar[int] = 1
    diameter: ClassVar[float] = 1.0
    radius: ClassVar[float] = 0.5

    def n_terms(self, n_rows: int) -> int:
        """Return how many contributions so many rows have; no row is in two."""
        return n_rows

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return an array of shape (n_terms, width)."""
        raise NotImplementedError

    def of_each_user(self, y: Any, predicted: Any, codes: Any, n: int) -> np.ndarray:
        """Return the value of each user in [0, 1], NaN for those without one."""
        raise NotImplementedError

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return the score and its standard error."""
        raise NotImplementedError


@dataclass(frozen=True)
class Accuracy(Kind):
    """Share of rows whose class is predicted."""

    name: ClassVar[str] = "accuracy"

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return 1/2 for rows that are right, and -1/2."""
        right = _equal(y, estimator.predict(X))
        return np.where(right, 0.5, -0.5)[:, np.newaxis]

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return the share."""
        return 0.5 + float(means[0]), std


@dataclass(frozen=True)
class CutError(Kind):
    """Mean error, cut at a public limit of a row; the score is its negative."""

    limit: float = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", _positive("limit", self.limit))

    def errors(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return the error of each row."""
        raise NotImplementedError

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return cut errors over the limit, less 1/2; no number counts as the worst."""
        errors = np.nan_to_num(self.errors(estimator, X, y), nan=math.inf)
        return (np.clip(errors, 0.0, self.limit) / self.limit - 0.5)[:, np.newaxis]

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return the negative of the mean error."""
        return -self.limit * (0.5 + float(means[0])), self.limit * std


@dataclass(frozen=True)
class SquaredError(CutError):
    """Mean squared error."""

    name: ClassVar[str] = "squared_error"

    def errors(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return squared errors."""
        return np.square(_targets(y) - _targets(estimator.predict(X)))


@dataclass(frozen=True)
class AbsoluteError(CutError):
    """Mean absolute error."""

    name: ClassVar[str] = "absolute_error"

    def errors(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return absolute errors."""
        return np.abs(_targets(y) - _targets(estimator.predict(X)))


@dataclass(frozen=True)
class LogLoss(CutError):
    """Mean of the negative logarithm of the probability of a row's class."""

    name: ClassVar[str] = "log_loss"

    def errors(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return losses; that of a class which the model does not know is infinite."""
        probabilities = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        own = _one_of(y, read_entries(estimator.classes_, "classes"))
        return -np.log((probabilities * own).sum(axis=1))


@dataclass(frozen=True)
class BalancedAccuracy(Kind):
    """Mean over public classes of the share of their rows that is predicted.

    Rows of other classes do not count.
    """

    name: ClassVar[str] = "balanced_accuracy"
    diameter: ClassVar[float] = sensitivity.confusion_diameter()
    radius: ClassVar[float] = 1.0

    classes: tuple = field(kw_only=True)

    def __post_init__(self) -> None:
        named: Any = () if isinstance(self.classes, str) else self.classes
        given = read_entries(named, "classes")
        if given.ndim != 1 or not len(given):
            raise ValueError(
                f"classes must be a sequence of classes, got {shown(self.classes)}"
            )
        classes = tuple(given.tolist())
        if len(classes) < 2 or len(set(classes)) != len(classes):
            raise ValueError("classes must be two or more that differ")
        object.__setattr__(self, "classes", classes)

    @property
    def width(self) -> int:  # type: ignore[override]
        """Two counts a class."""
        return 2 * len(self.classes)

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return a one in the column of a row's class, and of being right or wrong."""
        right = _equal(y, estimator.predict(X))
        own = _one_of(y, read_entries(self.classes, "classes"))
        # Of one class alone: a rounded number may be equal to two integers.
        own &= np.cumsum(own, axis=1) == 1
        cells = np.concatenate([own & right[:, None], own & ~right[:, None]], axis=1)
        return cells.astype(np.float64)

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return the mean of the classes' shares."""
        right, wrong = np.split(means, 2)
        found = np.array([_share(a, b, std) for a, b in zip(right, wrong, strict=True)])
        n_classes = len(self.classes)
        return float(found[:, 0].mean()), float(
            np.hypot.reduce(found[:, 1])
        ) / n_classes


@dataclass(frozen=True)
class R2(Kind):
    """Coefficient of determination, of cut squared errors and clipped targets."""

    name: ClassVar[str] = "r2"
    width: ClassVar[int] = 3
    diameter: ClassVar[float] = sensitivity.regression_diameter()
    radius: ClassVar[float] = math.sqrt(1.0 + 2.0 * TARGET_WEIGHT**2)

    limit: float = field(kw_only=True)
    bounds: tuple[float, float] = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", _positive("limit", self.limit))
        if np.shape(self.bounds) != (2,):
            raise ValueError("bounds must be a pair (low, high) of numbers")
        low, high = (check_real("bounds", bound) for bound in self.bounds)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"bounds must be finite, low < high, got {self.bounds}")
        object.__setattr__(self, "bounds", (low, high))

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return the squared error over its limit, the target, and its square."""
        low, high = self.bounds
        y = _targets(y)
        errors = np.square(y - _targets(estimator.predict(X)))
        errors = np.clip(np.nan_to_num(errors, nan=math.inf), 0.0, self.limit)
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        v = np.clip(np.nan_to_num((y - middle) / half), -1.0, 1.0)
        parts = (errors / self.limit, TARGET_WEIGHT * v, TARGET_WEIGHT * np.square(v))
        return np.column_stack(parts)

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return one less the quotient of released sums."""
        half = 0.5 * self.bounds[1] - 0.5 * self.bounds[0]
        mean, square = means[1] / TARGET_WEIGHT, means[2] / TARGET_WEIGHT
        # Nobody knows a variance that the noise drowns.
        variance = half**2 * max(float(square - mean**2), 2.0 * std / TARGET_WEIGHT)
        if variance == 0.0:
            return math.nan, math.nan
        lost = self.limit * float(means[0]) / variance
        by_targets = lost * half**2 / variance / TARGET_WEIGHT
        slopes = (self.limit / variance, by_targets, 2.0 * by_targets * float(mean))
        return 1.0 - lost, std * math.hypot(*slopes)


@dataclass(frozen=True)
class CapturedVariance(Kind):
    """Share of the variance of rows that an estimator's components keep.

    It is that of differences of two rows over the root of two, which have the variance
    of rows and no mean: no center has to be known, and a wrong one is no merit.
    Differences are clipped to `clip_norm`, in the space of the components.
    """

    name: ClassVar[str] = "captured_variance"
    width: ClassVar[int] = 2
    diameter: ClassVar[float] = sensitivity.confusion_diameter()
    radius: ClassVar[float] = 1.0

    clip_norm: float = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip_norm", _positive("clip_norm", self.clip_norm))

    def n_terms(self, n_rows: int) -> int:
        """Return the number of pairs; of an odd number a row is in none."""
        return n_rows // 2

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return shares of the clip that are kept of a pair, and that are not."""
        components, scale, rows = _components_and_rows(estimator, X)
        basis = _orthonormal_rows(components, "components_")
        n_pairs = self.n_terms(rows.shape[0])
        # By positions alone, from all over the table.
        order = check_random_state(0).permutation(rows.shape[0])
        pairs = order[: 2 * n_pairs].reshape(2, n_pairs)
        weights = _inverse_scale(scale, rows.shape[1]) / self.clip_norm
        found = np.empty((n_pairs, 2))
        for batch in gen_batches(n_pairs, max(1, BLOCK_SIZE // rows.shape[1])):
            first, second = (_dense(rows[side[batch]]) for side in pairs)
            found[batch] = _kept_and_rest((first - second) * weights, basis)
        return found

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return the share that is kept."""
        return _share(float(means[0]), float(means[1]), std)


def _kept_and_rest(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return squares of clipped rows over the root of 2, along a basis and across."""
    rows = rows * math.sqrt(0.5)
    norms = np.sqrt(np.sum(np.square(rows), axis=1))
    rows = np.nan_to_num(rows / np.maximum(norms, 1.0)[:, np.newaxis])
    kept = np.minimum(np.sum(np.square(rows @ basis.T), axis=1), 1.0)
    total = np.minimum(np.sum(np.square(rows), axis=1), 1.0)
    return np.column_stack([kept, np.maximum(total - kept, 0.0)])


def _share(part: float, rest: float, std: float) -> tuple[float, float]:
    """Return the share of a part, and its standard error by that of both."""
    # Nobody knows a whole that the noise drowns.
    whole = max(part + rest, 2.0 * std)
    if whole == 0.0:
        return math.nan, math.nan
    share = part / whole  # not cut: noisy scores of two models should hardly be equal
    return share, std * math.hypot(share, 1.0 - share) / whole


@dataclass(frozen=True)
class Ndcg(Kind):
    """Mean over users of the normalized discounted cumulative gain at k (None: all)."""

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
    """Mean over users of the share of relevant rows among the top k (None: all)."""

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
    """Return a kind by its name, with its public parameters."""
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
