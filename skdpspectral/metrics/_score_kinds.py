"""What a row, or a user, contributes to a score in a public range, and subspaces.

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
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import sensitivity
from .._tables.columns import read_entries
from ..accounting._errors import warn
from ..mechanisms import check_count, check_real, shown
from ..sensitivity import TARGET_WEIGHT


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
        raise ValueError("y and predictions must be real numbers")  # numpy only warns
    numbers = numbers.astype(np.float64)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim != 1:
        raise ValueError("y and predictions must have one number per row")
    return numbers


def _equal(y: Any, predicted: Any) -> np.ndarray:
    """Return whether the class of each row is the predicted one."""
    y, predicted = read_entries(y, "y"), read_entries(predicted, "predictions")
    if y.ndim != 1 or y.shape != predicted.shape:
        raise ValueError("y and predictions must have one class per row")
    if object not in (y.dtype, predicted.dtype):
        right: np.ndarray = y == predicted  # by types, which are public
        return right
    found = (a == b for a, b in zip(y.tolist(), predicted.tolist(), strict=True))
    # What cannot be compared, such as pandas.NA, is not equal.
    return np.array([isinstance(e, (bool, np.bool_)) and bool(e) for e in found], bool)


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
    needs_targets: ClassVar[bool] = True
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
        """Return the score and its standard error; of values less 1/2 by default."""
        return 0.5 + float(means[0]), std


@dataclass(frozen=True)
class Accuracy(Kind):
    """Share of rows whose class is predicted."""

    name: ClassVar[str] = "accuracy"

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return 1/2 for rows that are right, and -1/2."""
        right = _equal(y, estimator.predict(X))
        return np.where(right, 0.5, -0.5)[:, np.newaxis]


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
        return -self.limit * (0.5 + float(means[0])), self.limit * std


@dataclass(frozen=True)
class SquaredError(CutError):
    """Mean squared error."""

    name: ClassVar[str] = "squared_error"

    def errors(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        return np.square(_targets(y) - _targets(estimator.predict(X)))


@dataclass(frozen=True)
class AbsoluteError(CutError):
    """Mean absolute error."""

    name: ClassVar[str] = "absolute_error"

    def errors(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
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
    """Mean over public classes of the share of their rows that is predicted."""

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
            raise ValueError("classes must contain at least two different classes")
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
        right, wrong = np.split(means, 2)
        found = np.array([_share(a, b, std) for a, b in zip(right, wrong, strict=True)])
        error = np.hypot.reduce(found[:, 1]) / len(self.classes)
        return float(found[:, 0].mean()), float(error)


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


ORTHONORMALITY_TOLERANCE = 1e-6
BLOCK_SIZE = 2**20  # numbers held at a time: 8 MB


def captured_variance(estimator, X, y=None):
    r"""Share of the variance of X that an estimator's components explain.

    Let :math:`\bar x` be the mean of the rows of X itself, and P the orthogonal
    projector on the span of `components_`. The score is

    .. math:: \sum_i \|P (x_i - \bar x)\|^2 \big/ \sum_i \|x_i - \bar x\|^2 .

    Pass it to a search as a scorer: `GridSearchCV(..., scoring=captured_variance)`.

    Parameters
    ----------
    estimator : fitted estimator, Pipeline, or array of shape (n_components, n_features)
        Estimator with `components_`, whose rows are orthonormal. If its `scale_` is not
        None, each feature is first divided by it. The components then refer to the
        scaled space, and features of scale 0 are ignored. In a Pipeline, the earlier
        steps transform X and the last step has `components_`. An array is used
        directly.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to score, usually held out from the fit. They are processed in blocks, and
        sparse rows are converted to dense arrays block by block.
    y : None
        Ignored, present for API consistency.

    Returns
    -------
    float
        Share between 0 and 1. If all rows are equal, for example with a single row,
        there is no variance to explain. Then NaN is returned with an
        `UndefinedMetricWarning`, and a search reports that a score is not finite.

    Raises
    ------
    ValueError
        If the components are not orthonormal or do not match the features of X, X is
        not finite, or its rows differ by more than float64 can represent.
    TypeError
        If the estimator has no `components_`.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    Warnings
    --------
    The score is not private. For private held-out rows it is a release that no
    accountant records, and so is a parameter chosen by it. Score public rows, or keep
    the score as private as the rows.

    References
    ----------
    I. T. Jolliffe (2002), Principal Component Analysis, 2nd edition, section 6.1.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.metrics import captured_variance
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> captured_variance(np.array([[1.0, 0.0]]), X)
    0.8
    """
    components, scale, X = _components_and_rows(estimator, X)
    basis = _orthonormal_rows(components, "components")
    if basis.shape[1] != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, but the components have {basis.shape[1]}: "
            "pass rows of the space that they were fitted in"
        )
    weights = _inverse_scale(scale, X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        kept, total = _kept_and_total(X, weights, basis)
    if total == 0:
        message = "captured_variance is undefined, set to NaN: all rows are equal"
        warn(message, UndefinedMetricWarning)
        return float("nan")
    if not np.isfinite(total):
        raise ValueError("The variance of X overflows float64; rescale X")
    return float(min(kept / total, 1.0))


def subspace_distance(components_a, components_b, *, ord=2):
    r"""Schatten norm of the difference of two orthogonal projectors.

    Let U and V have orthonormal columns that span the two subspaces. The distance is
    :math:`\|UU' - VV'\|_{S_q}`, the l_q-norm of the singular values. The singular
    values are the sines of the principal angles, each twice, and 1 for every dimension
    by which one subspace exceeds the other. The sines are computed from the residual
    :math:`(I - UU')V`, which preserves the leading digits of an angle of 1e-9, unlike
    :math:`\sqrt{1 - \cos^2}`. No p x p matrix is formed.

    Parameters
    ----------
    components_a : array-like of shape (n_components_a, n_features)
        Orthonormal rows, as in `components_`. The entries of their Gram matrix may
        differ from the identity by at most 1e-6.
    components_b : array-like of shape (n_components_b, n_features)
        Orthonormal rows as above. The number of rows may differ.
    ord : float, default=2
        Order q of the norm, at least 1. Use 1 for the nuclear, 2 for the Frobenius and
        `numpy.inf` for the spectral norm.

    Returns
    -------
    float
        The distance, between 0 and :math:`(2 \min(r_a, r_b) + |r_a - r_b|)^{1/q}`.

    Raises
    ------
    ValueError
        If rows are not orthonormal, the numbers of features differ, or `ord` is not at
        least 1.

    References
    ----------
    G. W. Stewart and J. Sun (1990), Matrix Perturbation Theory, theorem I.5.5.
    A. V. Knyazev and M. E. Argentati (2002), Principal angles between subspaces in
    an A-based scalar product, SIAM J. Sci. Comput. 23(6) (why sines and not cosines).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.metrics import subspace_distance
    >>> round(subspace_distance([[1.0, 0.0]], [[0.0, 1.0]]), 12)
    1.414213562373
    """
    if not check_real("ord", ord) >= 1:
        raise ValueError(f"ord must be at least 1, and may be numpy.inf, got {ord!r}")
    basis_a = _orthonormal_rows(components_a, "components_a")
    basis_b = _orthonormal_rows(components_b, "components_b")
    if basis_a.shape[1] != basis_b.shape[1]:
        raise ValueError(
            f"components_a has {basis_a.shape[1]} features and components_b has "
            f"{basis_b.shape[1]}: pass components of the same feature space"
        )
    small, large = sorted((basis_a, basis_b), key=len)
    sines = np.linalg.svd(small - (small @ large.T) @ large, compute_uv=False)
    sines = np.minimum(sines[: len(small)], 1.0)
    values = np.concatenate([sines, sines, np.ones(len(large) - len(small))])
    if (largest := values.max()) == 0:
        return 0.0
    # Relative to the largest, so that high powers of tiny sines do not underflow.
    return float(largest * np.linalg.norm(values / largest, ord=float(ord)))


def _orthonormal_rows(components, name):
    """Return the rows in float64, orthonormal to machine precision; same span."""
    any_shape = {"ensure_2d": False, "allow_nd": True, "ensure_min_samples": 0}
    any_shape["ensure_min_features"] = 0
    rows = check_array(components, dtype=np.float64, input_name=name, **any_shape)
    if rows.ndim != 2 or not 1 <= rows.shape[0] <= rows.shape[1]:
        raise ValueError(
            f"{name} must have shape (n_components, n_features) with 1 <= n_components "
            f"<= n_features, got {rows.shape}: transpose columns into rows, and "
            "reshape one direction to (1, n_features)"
        )
    deviation = np.abs(rows @ rows.T - np.eye(len(rows))).max()
    if not deviation <= ORTHONORMALITY_TOLERANCE:
        raise ValueError(
            f"{name} must have orthonormal rows, but its Gram matrix differs from the "
            f"identity by {deviation:.2g}: pass numpy.linalg.qr({name}.T)[0].T for "
            "their span"
        )
    # What the tolerance lets through (float32) would drown angles below it.
    return np.linalg.qr(rows.T)[0].T


def _components_and_rows(estimator, X):
    """Return components, scale or None, and X in the space where they live."""
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        return _components_and_rows(estimator[-1], X)
    if isinstance(estimator, (np.ndarray, list, tuple)):
        return estimator, None, _rows(lambda: check_array(X, accept_sparse="csr"))
    if not hasattr(estimator, "components_"):
        if hasattr(estimator, "fit"):
            check_is_fitted(estimator)
        raise TypeError(
            f"{estimator!r} has no components_: captured_variance scores PCA-like "
            "estimators, a Pipeline that ends in one, or an array of components"
        )
    if isinstance(estimator, BaseEstimator):
        X = _rows(lambda: validate_data(estimator, X, accept_sparse="csr", reset=False))
    else:
        X = _rows(lambda: check_array(X, accept_sparse="csr"))
    return estimator.components_, getattr(estimator, "scale_", None), X


def _rows(validate):
    """Validate rows; a text among them must not be quoted."""
    try:
        return validate()
    except ValueError as error:
        if not str(error).startswith("could not convert string"):
            raise
    raise ValueError("X must contain numbers: convert text to numbers first")


def _inverse_scale(scale, n_features):
    scale = np.asarray(1.0 if scale is None else scale, dtype=np.float64)
    if scale.shape not in ((), (n_features,)):
        raise ValueError(
            f"scale_ must be a number or have shape ({n_features},), got {scale.shape}"
        )
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        raise ValueError("scale_ must be finite and at least 0")
    scale = np.broadcast_to(scale, (n_features,))
    return np.divide(1.0, scale, out=np.zeros(n_features), where=scale > 0)


def _dense(rows):
    return (rows.toarray() if sparse.issparse(rows) else rows).astype(np.float64)


def _row_blocks(X, weights):
    """Yield blocks of rows, scaled and relative to the first row."""
    n_samples, n_features = X.shape
    first_row = _dense(X[:1]) * weights
    for batch in gen_batches(n_samples, max(1, BLOCK_SIZE // n_features)):
        yield _dense(X[batch]) * weights - first_row


def _kept_and_total(X, weights, basis):
    """Sum the squares about the mean: of the projections, and in all."""
    # Relative to the first row, equal rows give exactly 0 however the mean is rounded.
    mean = sum(block.sum(axis=0) for block in _row_blocks(X, weights)) / X.shape[0]
    kept, total = 0.0, 0.0
    for block in _row_blocks(X, weights):
        projected = (block - mean) @ basis.T
        kept += np.vdot(projected, projected)
        total += np.sum(np.square(block - mean))
    return kept, total


@dataclass(frozen=True)
class CapturedVariance(Kind):
    """Share of the variance of rows that an estimator's components keep.

    It is that of differences of two rows over the root of two, which have no mean, each
    clipped to `clip_norm` in the space of the components.
    """

    name: ClassVar[str] = "captured_variance"
    needs_targets: ClassVar[bool] = False
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
            differences = (first - second) * weights * math.sqrt(0.5)
            norms = np.sqrt(np.sum(np.square(differences), axis=1))
            clipped = differences / np.maximum(norms, 1.0)[:, np.newaxis]
            clipped = np.nan_to_num(clipped)
            kept = np.minimum(np.sum(np.square(clipped @ basis.T), axis=1), 1.0)
            total = np.minimum(np.sum(np.square(clipped), axis=1), 1.0)
            found[batch] = np.column_stack([kept, np.maximum(total - kept, 0.0)])
        return found

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        return _share(float(means[0]), float(means[1]), std)


def _share(part: float, rest: float, std: float) -> tuple[float, float]:
    """Return the share of a part, and its standard error by that of both."""
    # Nobody knows a whole that the noise drowns.
    whole = max(part + rest, 2.0 * std)
    if whole == 0.0:
        return math.nan, math.nan
    share = part / whole  # not cut: noisy scores of two models should hardly be equal
    return share, std * math.hypot(share, 1.0 - share) / whole


# -- rankings within users -------------------------------------------------------------


@dataclass(frozen=True)
class Ndcg(Kind):
    """Mean over users of the normalized discounted cumulative gain at k (None: all)."""

    name: ClassVar[str] = "ndcg"
    of_users: ClassVar[bool] = True

    k: int | None = field(default=10, kw_only=True)

    def __post_init__(self) -> None:
        if self.k is not None:
            check_count("k", self.k)

    def of_each_user(self, y: Any, predicted: Any, codes: Any, n: int) -> np.ndarray:
        gains = np.maximum(np.nan_to_num(_targets(y), posinf=0.0), 0.0)
        scores = np.nan_to_num(_targets(predicted))
        discount = 1.0 / np.log2(2.0 + np.arange(self._n_ranks(len(gains))))
        found = _ranked_sums(gains, scores, codes, n, discount)
        return _quotients(found, _ranked_sums(gains, gains, codes, n, discount))

    def _n_ranks(self, n_rows: int) -> int:
        return n_rows if self.k is None else min(int(self.k), n_rows)


@dataclass(frozen=True)
class Recall(Ndcg):
    """Mean over users of the share of relevant rows among the top k (None: all)."""

    name: ClassVar[str] = "recall"

    relevant: Real = field(default=4, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.isfinite(check_real("relevant", self.relevant)):
            raise ValueError(f"relevant must be a finite number, got {self.relevant!r}")

    def of_each_user(self, y: Any, predicted: Any, codes: Any, n: int) -> np.ndarray:
        wanted = (_targets(y) >= self.relevant).astype(np.float64)
        scores = np.nan_to_num(_targets(predicted))
        counted = np.ones(self._n_ranks(len(wanted)))
        found = _ranked_sums(wanted, scores, codes, n, counted)
        return _quotients(found, np.bincount(codes, wanted, minlength=n))


def _ranked_sums(
    gains: np.ndarray, scores: np.ndarray, codes: np.ndarray, n: int, weights: Any
) -> np.ndarray:
    """Sum weight times gain over the leading ranks of each user, without a loop.

    Ranks are by the largest score; tied rows share the mean of their gains.
    """
    order = np.lexsort((-scores, codes))
    gains, scores, codes = gains[order], scores[order], codes[order]
    counts = np.bincount(codes, minlength=n)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    weight = np.append(weights, 0.0)[np.minimum(rank, len(weights))]
    starts_tie = (rank == 0) | (np.diff(scores, prepend=np.nan) != 0)
    starts = np.flatnonzero(starts_tie)
    mean_gain = np.add.reduceat(gains, starts) / np.diff(starts, append=len(codes))
    tie_sums = mean_gain * np.add.reduceat(weight, starts)
    found: np.ndarray = np.bincount(codes[starts], tie_sums, minlength=n)
    return found


def _quotients(found: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return quotients, NaN of 0; a perfect ranking may pass 1 by rounding."""
    defined = np.full(len(best), np.nan)
    np.divide(found, best, out=defined, where=best > 0.0)
    return np.minimum(defined, 1.0)


_ERRORS = (SquaredError, AbsoluteError, LogLoss)
_OTHERS = (Accuracy, BalancedAccuracy, R2, CapturedVariance, Ndcg, Recall)
KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (*_ERRORS, *_OTHERS)}


def make_kind(score: object, parameters: dict[str, Any]) -> Kind:
    """Return a kind by its name, with its public parameters."""
    if not isinstance(score, str) or score not in KINDS:
        raise ValueError(f"score must be one of {sorted(KINDS)}, got {shown(score)}")
    try:
        return KINDS[score](**parameters)
    except TypeError as error:
        text = str(error).partition(" ")[2]
        names = [f.name for f in fields(KINDS[score])]
        raise TypeError(f"score={score!r} has parameters {names}: {text}") from None
