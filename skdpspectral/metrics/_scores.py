"""Private scores, which are means of what rows, or users, contribute; and others."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import sensitivity
from .._base.sklearn_compat import Interval
from .._base.strategies import check_arguments
from .._linalg import walks
from .._release import Release
from .._statistics.statistic import Statistic
from .._statistics.user_sums import MOST_EXACT_USERS
from .._tables import columns
from ..accounting import PrivacyAccountant, PrivacyLeakWarning, gaussian_mu
from ..accounting._errors import warn, without_warnings
from ..accounting._gaussian import calibrate_alike
from ..accounting._ledger.context import (
    accountant_to_send,
    ambient_accountant,
    block_at_hand,
)
from ..accounting._ledger.planned_fits import Composition, composition_of, is_estimator
from ..mechanisms import (
    Exact,
    Mechanism,
    Neighbors,
    PrivacyPlan,
    Unit,
    check_real,
    shown,
)

_CONSTRAINTS = {
    "epsilon": [Interval(Real, 0, None, closed="right"), None],
    "delta": [Real],
    "accountant": [PrivacyAccountant, None],
    "user_feature": [Integral, str, None],
}

ORTHONORMALITY_TOLERANCE = 1e-6
BLOCK_SIZE = 2**20  # numbers held at a time: 8 MB

# Contributions that are added up in one go.
_BLOCK = 4096

# What each user adds to the count of users: as much as its value may weigh.
_HALF = 0.5


# -- what rows contribute ----------------------------------------------------------


def _targets(values: Any) -> np.ndarray:
    """Return one real number a row."""
    numbers = columns.read_entries(values, "y")
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
    y, predicted = (
        columns.read_entries(y, "y"),
        columns.read_entries(predicted, "predictions"),
    )
    if y.ndim != 1 or y.shape != predicted.shape:
        raise ValueError("y and predictions must have one class per row")
    if object not in (y.dtype, predicted.dtype):
        right: np.ndarray = y == predicted  # by types, which are public
        return right
    found = (a == b for a, b in zip(y.tolist(), predicted.tolist(), strict=True))
    # What cannot be compared, such as pandas.NA, is not equal.
    return np.array([isinstance(e, (bool, np.bool_)) and bool(e) for e in found], bool)


def _errors(model: Any, X: Any, y: Any) -> np.ndarray:
    return np.abs(_targets(y) - _targets(model.predict(X)))


def _log_losses(estimator: Any, X: Any, y: Any) -> np.ndarray:
    """Return losses; that of a class which the model does not know is infinite."""
    probabilities = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    y = columns.read_entries(y, "y")
    kind = object if y.dtype == object else None
    classes = columns.read_entries(estimator.classes_, "classes")
    own = np.column_stack([_equal(y, np.full(len(y), c, kind)) for c in classes])
    return -np.log((probabilities * own).sum(axis=1))


# What each row contributes to a score, and the score's sign.
_MEANS: dict[str, tuple[float, Callable[[Any, Any, Any], np.ndarray]]] = {
    "accuracy": (1.0, lambda model, X, y: _equal(y, model.predict(X)).astype(float)),
    "squared_error": (-1.0, lambda *given: np.square(_errors(*given))),
    "absolute_error": (-1.0, _errors),
    "log_loss": (-1.0, _log_losses),
}


@dataclass(frozen=True)
class Kind:
    """A score: the mean of one number a row, cut at a public `limit`.

    `diameter` is the largest distance of two contributions, and `radius` of their norm.
    """

    name: str
    limit: float = 1.0

    width: ClassVar[int] = 1
    diameter: ClassVar[float] = 1.0
    radius: ClassVar[float] = 0.5

    def n_terms(self, n_rows: int) -> int:
        """Return how many contributions so many rows have; no row is in two."""
        return n_rows

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return an array of shape (n_terms, width): cut numbers over limit, less 1/2.

        An error that is no number counts as the worst.
        """
        errors = np.nan_to_num(_MEANS[self.name][1](estimator, X, y), nan=math.inf)
        return (np.clip(errors, 0.0, self.limit) / self.limit - 0.5)[:, np.newaxis]

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        """Return the score and its standard error, of released means."""
        sign = _MEANS[self.name][0]
        return sign * self.limit * (0.5 + float(means[0])), self.limit * std


@dataclass(frozen=True)
class CapturedVariance(Kind):
    """Share of the variance of rows that an estimator's components keep.

    It is that of differences of two rows over the root of two, which have no mean, each
    clipped to the `limit` in the space of the components.
    """

    width: ClassVar[int] = 2
    diameter: ClassVar[float] = sensitivity.confusion_diameter()
    radius: ClassVar[float] = 1.0

    def n_terms(self, n_rows: int) -> int:
        """Return the number of pairs; of an odd number a row is in none."""
        return n_rows // 2

    def contributions(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return shares of the clip that are kept of a pair, and that are not."""
        components, scale, rows = components_and_rows(estimator, X)
        basis = orthonormal_rows(components, "components_")
        n_pairs = self.n_terms(rows.shape[0])
        # By positions alone, from all over the table.
        order = check_random_state(0).permutation(rows.shape[0])
        pairs = order[: 2 * n_pairs].reshape(2, n_pairs)
        weights = inverse_scale(scale, rows.shape[1]) / self.limit
        found = np.empty((n_pairs, 2))
        for batch in gen_batches(n_pairs, max(1, BLOCK_SIZE // rows.shape[1])):
            first, second = (dense(rows[side[batch]]) for side in pairs)
            differences = (first - second) * weights * math.sqrt(0.5)
            norms = np.sqrt(np.sum(np.square(differences), axis=1))
            clipped = differences / np.maximum(norms, 1.0)[:, np.newaxis]
            clipped = np.nan_to_num(clipped)
            kept = np.minimum(np.sum(np.square(clipped @ basis.T), axis=1), 1.0)
            total = np.minimum(np.sum(np.square(clipped), axis=1), 1.0)
            found[batch] = np.column_stack([kept, np.maximum(total - kept, 0.0)])
        return found

    def finish(self, means: np.ndarray, std: float) -> tuple[float, float]:
        part, rest = map(float, means)
        # Nobody knows a whole that the noise drowns.
        whole = max(part + rest, 2.0 * std)
        if whole == 0.0:
            return math.nan, math.nan
        share = part / whole  # not cut: scores of two models should hardly be equal
        return share, std * math.hypot(share, 1.0 - share) / whole


# The parameter of each score, if any.
_PARAMETERS = dict.fromkeys(_MEANS, "limit")
_PARAMETERS |= {"accuracy": "", "captured_variance": "clip_norm"}


def make_kind(score: object, parameters: dict[str, Any]) -> Kind:
    """Return a score by its name, with its public parameter."""
    if not isinstance(score, str) or score not in _PARAMETERS:
        known = sorted(_PARAMETERS)
        raise ValueError(f"score must be one of {known}, got {shown(score)}")
    named = list(filter(None, [_PARAMETERS[score]]))
    if [*parameters] != named:
        raise TypeError(f"score={score!r} has parameters {named}, got {[*parameters]}")
    limits = [check_real(*given) for given in parameters.items()]
    if not all(0.0 < limit < math.inf for limit in limits):
        raise ValueError(f"{named[0]} must be positive and finite, got {limits[0]}")
    return (CapturedVariance if score == "captured_variance" else Kind)(score, *limits)


# -- releases ----------------------------------------------------------------------


@dataclass(frozen=True)
class RowScore(Statistic):
    """Mean over `n_terms` held-out rows, a public number, of what they contribute."""

    kind: Kind
    n_terms: int

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        kind = self.kind
        moved = sensitivity.score_sensitivity(kind.diameter, self.n_terms)
        error = sensitivity.summation_error(kind.radius, self.n_terms, _BLOCK)
        more = {"summation_error": error, "magnitude": 2.0 * kind.radius}
        shape, lemma = (kind.width,), "score-sums"
        return calibrate_alike(["score"], moved, mu, shape, lemma=lemma, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> tuple[np.ndarray, float]:
        """Release the mean of contributions, of shape (n_terms, width)."""
        if len(rows) != self.n_terms:
            raise ValueError("the number of held-out rows has changed")
        total = np.zeros(self.kind.width)
        for block in walks.row_blocks(len(rows), _BLOCK):
            total += rows[block].sum(axis=0)
        means = release("score", total / self.n_terms)
        return means, _deviation(release.plan["score"])


@dataclass(frozen=True)
class UserScore(Statistic):
    """Mean over users, whose number is private, of values in [-1/2, 1/2]."""

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        moved = sensitivity.counted_score_sensitivity(_HALF, _HALF)
        more = {"magnitude": MOST_EXACT_USERS, "lemma": "score-sums"}
        return calibrate_alike(["score"], moved, mu, (2,), **more)

    def run(self, release: Any, rows: Any, *given: Any) -> tuple[np.ndarray, float]:
        """Release sum and count of users' values, an array of shape (n_users,)."""
        mechanism = release.plan["score"]
        grid = getattr(mechanism, "grid", 2.0**-32)
        # Integers of the grid add up exactly, whoever is in the data.
        total = np.rint(rows / grid).sum() * grid
        counted = release("score", np.array([total, _HALF * len(rows)]))
        std = _deviation(mechanism)
        n_users = max(float(counted[1]) / _HALF, 2.0 * std / _HALF, 1.0)
        mean = float(counted[0]) / n_users
        spread = math.hypot(1.0, mean / _HALF)
        return np.array([mean]), std * spread / n_users


def _deviation(mechanism: Any) -> float:
    """Standard deviation of the noise of a mechanism, which `Exact` has none of."""
    return 0.0 if isinstance(mechanism, Exact) else float(mechanism.noise_std)


def make_private_scorer(
    score: str,
    epsilon: float | None = 1.0,
    delta: float = 1e-6,
    accountant: PrivacyAccountant | None = None,
    *,
    user_feature: int | str | None = None,
    noise_seed: Any = None,
    **parameters: Any,
) -> PrivateScorer:
    r"""Make a scorer whose scores on private rows are differentially private.

    Pass it as ``scoring=``. Each score is a mean of bounded contributions of held-out
    rows or users, and is released with Gaussian noise. As in a fit, each call charges
    the ledger before any row is read. Read more in the
    :ref:`user guide <choosing_parameters>`.

    Parameters
    ----------
    score : str
        Name of the score. Larger scores are better. Its parameter is a public number.

        =====================  ============================================  ==========
        Score                  Parameter                                     Mean over
        =====================  ============================================  ==========
        "accuracy"                                                           rows, users
        "squared_error"        `limit`: the largest error that counts; the   rows, users
                               score is the negative of the mean
        "absolute_error"       `limit`, as above                             rows, users
        "log_loss"             `limit`, as above                             rows, users
        "captured_variance"    `clip_norm` of pair differences divided by    rows
                               sqrt(2), in the components' space
        =====================  ============================================  ==========
    epsilon : float or None, default=1.0
        Privacy budget of one score, positive. None (or infinity) gives exact scores,
        with a :class:`~skdpspectral.PrivacyLeakWarning`.
        :class:`~skdpspectral.model_selection.PrivateSearchCV` releases no scores, and
        uses them without noise.
    delta : float, default=1e-6
        Privacy budget of one score, in [1e-15, 1).
    accountant : PrivacyAccountant or None, default=None
        Ledger that every score is charged to. None uses the accountant of the enclosing
        ``with`` block or, failing that, of the scored estimator.
    user_feature : int or str or None, default=None
        Position or name of the column of X with user ids. The score is then a mean over
        **users** of the average contribution of their rows, private under addition or
        removal of a user with all their rows. None gives a mean over rows, private
        under replacement of a row.
    noise_seed : int, RandomState instance or None, default=None
        None draws noise from the operating system's entropy. **Anything else voids the
        privacy of the scores**; use it only for tests and figures.
    **parameters : float
        The parameter of the score, positive.

    Returns
    -------
    PrivateScorer
        ``scorer(estimator, X, y)`` returns a score. Afterwards, ``scorer.std_`` is the
        public standard error due to the noise.

    Raises
    ------
    ValueError, TypeError
        If the score is unknown, or a parameter is out of range.

    Notes
    -----
    **Formal guarantee.** If the scored models are themselves private or were fitted
    without the held-out rows, a score is (`epsilon`, `delta`)-differentially private
    for one held-out row under replacement, or for one user who joins or leaves
    (:ref:`lemma-score-sums`). The prediction for a row must depend only on the model
    and that row (for users: that user's rows). **The rows of a fold must be chosen
    without looking at values**, so stratified folds are not allowed
    (:class:`~skdpspectral.model_selection.PrivateSplit`).

    For n held-out rows and a range of length L, the noise of a mean has standard
    deviation :math:`L / (n \mu)`. Under add-remove-one the number of users is private
    and is released with the sum.

    Examples
    --------
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from skdpspectral import DPPCA, PrivacyAccountant
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> from skdpspectral.metrics import make_private_scorer
    >>> X, _ = make_spiked_covariance(5000, 10, random_state=0)
    >>> scorer = make_private_scorer("captured_variance", 1.0, clip_norm=10.0)
    >>> with PrivacyAccountant() as accountant:
    ...     scores = cross_val_score(DPPCA(2), X, cv=KFold(2), scoring=scorer)
    >>> [entry.estimator for entry in accountant.ledger]
    ['DPPCA', 'captured_variance', 'DPPCA', 'captured_variance']
    """
    kind = make_kind(score, parameters)
    return PrivateScorer(kind, epsilon, delta, accountant, user_feature, noise_seed)


class PrivateScorer:
    """A scorer with a budget; its parameters are those of :func:`make_private_scorer`.

    `std_` is the standard error of the last score, by its noise alone.
    """

    def __init__(
        self,
        kind: Kind,
        epsilon: float | None,
        delta: float,
        accountant: PrivacyAccountant | None,
        user_feature: int | str | None,
        noise_seed: Any,
    ) -> None:
        self._kind = kind
        given = {"epsilon": epsilon, "delta": delta, "accountant": accountant}
        given["user_feature"] = user_feature
        check_arguments("make_private_scorer", _CONSTRAINTS, given)
        self._budget = math.inf if epsilon is None else float(epsilon), float(delta)
        gaussian_mu(*self._budget)  # refuses a delta out of range
        if user_feature is not None and kind.width > 1:
            raise ValueError(
                f"score={kind.name!r} is a score of rows: leave user_feature=None"
            )
        self.accountant, self._user_feature = accountant, user_feature
        self._noise_seed = noise_seed
        self._made_in = block_at_hand()

    def __repr__(self) -> str:
        kind = self._kind
        parts = [repr(kind.name), f"epsilon={self._budget[0]!r}"]
        if _PARAMETERS[kind.name]:
            parts.append(f"{_PARAMETERS[kind.name]}={kind.limit!r}")
        if self._user_feature is not None:
            parts.append(f"user_feature={self._user_feature!r}")
        return f"make_private_scorer({', '.join(parts)})"

    def statistic(self, n_terms: int) -> RowScore | UserScore:
        """Return the statistic of so many contributions."""
        by_row = self._user_feature is None
        return RowScore(self._kind, n_terms) if by_row else UserScore()

    def privacy_plan(self, n_samples: int) -> PrivacyPlan:
        """Describe what a score of so many held-out rows releases and costs."""
        n_terms = self._kind.n_terms(n_samples)
        if n_terms < 1:
            raise ValueError(
                f"a score of {self._kind.name!r} needs two held-out rows or more, got "
                f"{n_samples}"
            )
        by_row = self._user_feature is None
        return self.statistic(n_terms).plan(
            *self._budget,
            estimator=self._kind.name,
            seeded=self._noise_seed is not None,
            unit=Unit.ROW if by_row else Unit.USER,
            neighbors=Neighbors.REPLACE_ONE if by_row else Neighbors.ADD_REMOVE_ONE,
        )

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        """Charge and release the score of a fitted estimator on held-out rows.

        A score that cannot be computed is charged; its error quotes no held-out values.
        """
        n_samples, shape = columns.n_rows_in_memory(X), columns.shape_of(X)
        if y is None and self._kind.name in _MEANS:
            raise ValueError(
                f"the score {self._kind.name!r} needs targets: call it as "
                "scorer(estimator, X, y)"
            )
        plan = self.privacy_plan(n_samples)
        if self._user_feature is not None:  # refused at no cost
            named = columns.column_names(X) is not None
            table = X if named else np.broadcast_to(0.0, (1, *shape[1:]))
            columns.read_column(table, self._user_feature, "user_feature")
        self._warn_beforehand(plan, n_samples)
        release = Release(plan, self._governing_accountant(estimator), self._noise_seed)
        # It is charged here, and values are read from here on.
        said = (
            f"the score {self._kind.name!r} could not be computed: y and predictions "
            "must have one entry per held-out row, of the kind that the score needs; "
            "it stays charged"
        )
        with np.errstate(all="ignore"), without_warnings():
            values = columns.read_quietly(lambda: self.measure(estimator, X, y), said)
            means, std = self.statistic(len(values)).run(release, values)
            score, self.std_ = self._kind.finish(means, std)
        return score

    def without_noise(self) -> PrivateScorer:
        """Return a scorer of exact values, which are not released."""
        return self._published_copy()._twin(_budget=(math.inf, 1e-6))

    def measure(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return contributions of held-out rows, or each user's mean; private."""
        kind, feature = self._kind, self._user_feature
        if feature is None:
            values = kind.contributions(estimator, X, y)
            if len(values) != kind.n_terms(
                columns.shape_of(X)[0]
            ):  # as the noise has it
                raise ValueError("predictions must have one entry per held-out row")
            return values
        users = columns.read_column(X, feature, "user_feature")
        codes, n_users = columns.encode_ids(users, "user_feature")
        values = kind.contributions(estimator, X, y)[:, 0]
        sums = np.bincount(codes, values, minlength=n_users)
        means: np.ndarray = sums / np.bincount(codes, minlength=n_users)
        return means

    def _warn_beforehand(self, plan: PrivacyPlan, n_samples: int) -> None:
        if not plan.noisy:
            said = f"epsilon={plan.epsilon}: the score is exact, and reveals the rows"
        elif plan.seeded:
            said = "noise_seed is given, so the score is not private: leave it None"
        elif self._user_feature is None and plan.delta >= 1.0 / n_samples:
            said = f"delta={plan.delta:g} of the score is at least 1 / n_samples"
        else:
            return
        warn(said, PrivacyLeakWarning)

    # -- the ledger follows the scorer into worker processes ----------------------

    def _governing_accountant(self, estimator: Any) -> PrivacyAccountant | None:
        if self.accountant is not None:
            return self.accountant
        ambient = ambient_accountant(self._made_in)
        return _accountant_of(estimator) if ambient is None else ambient

    def __getstate__(self) -> dict[str, Any]:
        noted = accountant_to_send(self._made_in) if self.accountant is None else None
        return {**self.__dict__, "_made_in": noted}

    def _published_copy(self) -> PrivateScorer:
        """Return a scorer without accountant and seed, for published searches."""
        return self._twin(accountant=None, _noise_seed=None, _made_in=None)

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivateScorer:
        return self._twin(_noise_seed=copy.deepcopy(self._noise_seed, memo))

    def _twin(self, **changes: Any) -> PrivateScorer:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, **changes)
        return twin


def _accountant_of(estimator: Any) -> PrivacyAccountant | None:
    """Return the accountant of an estimator or of its parts, the last one first."""
    if composition_of(estimator) is Composition.FROZEN:  # which does not list its own
        return _accountant_of(estimator.estimator)
    inside = estimator.get_params(deep=True) if is_estimator(estimator) else {}
    for value in reversed(list(inside.values())):
        found = value if isinstance(value, PrivacyAccountant) else _accountant_of(value)
        if found is not None:
            return found
    return None


# -- subspaces --------------------------------------------------------------------


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
    components, scale, X = components_and_rows(estimator, X)
    basis = orthonormal_rows(components, "components")
    if basis.shape[1] != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, but the components have {basis.shape[1]}: "
            "pass rows of the space that they were fitted in"
        )
    weights = inverse_scale(scale, X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        kept, total = _kept_and_total(X, weights, basis)
    if total == 0:
        message = "captured_variance is undefined, set to NaN: all rows are equal"
        warn(message, UndefinedMetricWarning)
        return float("nan")
    if not np.isfinite(total):
        raise ValueError("The variance of X overflows float64; rescale X")
    return float(min(kept / total, 1.0))


def subspace_distance(components_a, components_b):
    r"""Frobenius norm of the difference of two orthogonal projectors.

    Let U and V have orthonormal columns that span the two subspaces. The distance is
    :math:`\|UU' - VV'\|_F`, whose singular values are the sines of the principal
    angles, each twice, and 1 for every dimension by which one subspace exceeds the
    other. The sines are computed from the residual
    :math:`(I - UU')V`, which preserves the leading digits of an angle of 1e-9, unlike
    :math:`\sqrt{1 - \cos^2}`. No p x p matrix is formed.

    Parameters
    ----------
    components_a : array-like of shape (n_components_a, n_features)
        Orthonormal rows, as in `components_`. The entries of their Gram matrix may
        differ from the identity by at most 1e-6.
    components_b : array-like of shape (n_components_b, n_features)
        Orthonormal rows as above. The number of rows may differ.

    Returns
    -------
    float
        The distance, between 0 and :math:`\sqrt{r_a + r_b}`.

    Raises
    ------
    ValueError
        If rows are not orthonormal, or the numbers of features differ.

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
    basis_a = orthonormal_rows(components_a, "components_a")
    basis_b = orthonormal_rows(components_b, "components_b")
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
    # Relative to the largest, so that squares of tiny sines do not underflow.
    return float(largest * np.linalg.norm(values / largest))


def orthonormal_rows(components, name):
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


def components_and_rows(estimator, X):
    """Return components, scale or None, and X in the space where they live."""
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        return components_and_rows(estimator[-1], X)
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


def inverse_scale(scale, n_features):
    scale = np.asarray(1.0 if scale is None else scale, dtype=np.float64)
    if scale.shape not in ((), (n_features,)):
        raise ValueError(
            f"scale_ must be a number or have shape ({n_features},), got {scale.shape}"
        )
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        raise ValueError("scale_ must be finite and at least 0")
    scale = np.broadcast_to(scale, (n_features,))
    return np.divide(1.0, scale, out=np.zeros(n_features), where=scale > 0)


def dense(rows):
    return (rows.toarray() if sparse.issparse(rows) else rows).astype(np.float64)


def _kept_and_total(X, weights, basis):
    """Sum the squares about the mean: of the projections, and in all."""
    n_samples, n_features = X.shape
    first_row = dense(X[:1]) * weights

    def row_blocks():
        # Relative to the first row, equal rows give 0 however the mean is rounded.
        for batch in gen_batches(n_samples, max(1, BLOCK_SIZE // n_features)):
            yield dense(X[batch]) * weights - first_row

    mean = sum(block.sum(axis=0) for block in row_blocks()) / n_samples
    kept, total = 0.0, 0.0
    for block in row_blocks():
        projected = (block - mean) @ basis.T
        kept += np.vdot(projected, projected)
        total += np.sum(np.square(block - mean))
    return kept, total
