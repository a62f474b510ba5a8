"""Scorers whose scores are releases: planned, charged, and with noise.

A score is a mean of what rows, or users, contribute.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from .. import sensitivity
from .._base.sklearn_compat import Interval
from .._base.strategies import check_arguments
from .._linalg import walks
from .._release import Release
from .._statistics.statistic import Statistic
from .._statistics.user_sums import MOST_EXACT_USERS
from .._tables.columns import (
    column_names,
    encode_ids,
    n_rows_in_memory,
    read_column,
    read_quietly,
    shape_of,
)
from ..accounting import PrivacyAccountant, PrivacyLeakWarning, gaussian_mu
from ..accounting._errors import warn, without_warnings
from ..accounting._gaussian import calibrate_alike
from ..accounting._ledger.context import (
    accountant_to_send,
    ambient_accountant,
    block_at_hand,
)
from ..accounting._ledger.planned_fits import Composition, composition_of, is_estimator
from ..mechanisms import Exact, Mechanism, Neighbors, PrivacyPlan, Unit
from ._score_kinds import Kind, make_kind

_CONSTRAINTS = {
    "epsilon": [Interval(Real, 0, None, closed="right"), None],
    "delta": [Real],
    "accountant": [PrivacyAccountant, None],
    "user_feature": [Integral, str, None],
}

# Contributions that are added up in one go.
_BLOCK = 4096

# What each user adds to the count of users: as much as its value may weigh.
_HALF = 0.5


@dataclass(frozen=True)
class RowScore(Statistic):
    """Mean over `n_terms` held-out rows, a public number, of what they contribute.

    `diameter` is the largest distance of two contributions, and `radius` of their norm.
    """

    width: int
    diameter: float
    radius: float
    n_terms: int

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        moved = sensitivity.score_sensitivity(self.diameter, self.n_terms)
        error = sensitivity.summation_error(self.radius, self.n_terms, _BLOCK)
        more = {"summation_error": error, "magnitude": 2.0 * self.radius}
        shape, lemma = (self.width,), "score-sums"
        return calibrate_alike(["score"], moved, mu, shape, lemma=lemma, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> tuple[np.ndarray, float]:
        """Release the mean of contributions, of shape (n_terms, width)."""
        if len(rows) != self.n_terms:
            raise ValueError("the number of held-out rows has changed")
        total = np.zeros(self.width)
        for block in walks.row_blocks(len(rows), _BLOCK):
            total += rows[block].sum(axis=0)
        means = release("score", total / self.n_terms)
        return means, _deviation(release.plan["score"])


@dataclass(frozen=True)
class UserScore(Statistic):
    """Mean over users, whose number is private, of values in [-1/2, 1/2]."""

    width: int = 1

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


_ROW = (Unit.ROW, Neighbors.REPLACE_ONE)
_USER = (Unit.USER, Neighbors.ADD_REMOVE_ONE)


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
        Name of the score. Larger scores are better. Its parameters are public numbers.

        =====================  ============================================  ==========
        Score                  Parameters                                    Mean over
        =====================  ============================================  ==========
        "accuracy"                                                           rows, users
        "balanced_accuracy"    `classes`: all classes                        rows
        "squared_error"        `limit`: the largest error that counts; the   rows, users
                               score is the negative of the mean
        "absolute_error"       `limit`, as above                             rows, users
        "log_loss"             `limit`, as above                             rows, users
        "r2"                   `limit` of squared errors, `bounds` of        rows
                               targets
        "captured_variance"    `clip_norm` of pair differences divided by    rows
                               sqrt(2), in the components' space
        "ndcg"                 `k=10`                                        users
        "recall"               `k=10`, `relevant=4`                          users
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
    **parameters : object
        Parameters of the score.

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
        if user_feature is None and kind.of_users:
            raise ValueError(
                f"score={kind.name!r} is a score of users: name their column with "
                "user_feature"
            )
        self._accountant, self._user_feature = accountant, user_feature
        self._noise_seed = noise_seed
        self._made_in = block_at_hand()

    def __repr__(self) -> str:
        kind = self._kind
        parts = [repr(kind.name), f"epsilon={self._budget[0]!r}"]
        parts += [f"{f.name}={getattr(kind, f.name)!r}" for f in fields(kind)]
        if self._user_feature is not None:
            parts.append(f"user_feature={self._user_feature!r}")
        return f"make_private_scorer({', '.join(parts)})"

    @property
    def accountant(self) -> PrivacyAccountant | None:
        """Ledger of its own."""
        return self._accountant

    def statistic(self, n_terms: int) -> RowScore | UserScore:
        """Return the statistic of so many contributions."""
        if self._user_feature is not None:
            return UserScore()
        kind = self._kind
        return RowScore(kind.width, kind.diameter, kind.radius, n_terms)

    def privacy_plan(self, n_samples: int) -> PrivacyPlan:
        """Describe what a score of so many held-out rows releases and costs."""
        n_terms = self._kind.n_terms(n_samples)
        if n_terms < 1:
            raise ValueError(
                f"a score of {self._kind.name!r} needs two held-out rows or more, got "
                f"{n_samples}"
            )
        unit, neighbors = _ROW if self._user_feature is None else _USER
        return self.statistic(n_terms).plan(
            *self._budget,
            estimator=self._kind.name,
            seeded=self._noise_seed is not None,
            unit=unit,
            neighbors=neighbors,
        )

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        """Charge and release the score of a fitted estimator on held-out rows.

        A score that cannot be computed is charged; its error quotes no held-out values.
        """
        n_samples, shape = n_rows_in_memory(X), shape_of(X)
        if y is None and self._kind.needs_targets:
            raise ValueError(
                f"the score {self._kind.name!r} needs targets: call it as "
                "scorer(estimator, X, y)"
            )
        plan = self.privacy_plan(n_samples)
        if self._user_feature is not None:  # refused at no cost
            named = column_names(X) is not None
            table = X if named else np.broadcast_to(0.0, (1, *shape[1:]))
            read_column(table, self._user_feature, "user_feature")
        self._warn_beforehand(plan, n_samples)
        release = Release(plan, self._governing_accountant(estimator), self._noise_seed)
        # It is charged here, and values are read from here on.
        said = (
            f"the score {self._kind.name!r} could not be computed: y and predictions "
            "must have one entry per held-out row, of the kind that the score needs; "
            "it stays charged"
        )
        with np.errstate(all="ignore"), without_warnings():
            values = read_quietly(lambda: self.measure(estimator, X, y), said)
            means, std = self.statistic(len(values)).run(release, values)
            score, self.std_ = self._kind.finish(means, std)
        return score

    def without_noise(self) -> PrivateScorer:
        """Return a scorer of exact values, which are not released."""
        twin = self._published_copy()
        twin._budget = (math.inf, 1e-6)
        return twin

    def measure(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return contributions of held-out rows, or each user's mean; private."""
        kind, feature = self._kind, self._user_feature
        if feature is None:
            values = kind.contributions(estimator, X, y)
            if len(values) != kind.n_terms(shape_of(X)[0]):  # as the noise has it
                raise ValueError("predictions must have one entry per held-out row")
            return values
        users = read_column(X, feature, "user_feature")
        codes, n_users = encode_ids(users, "user_feature")
        if kind.of_users:
            of_each = kind.of_each_user(y, estimator.predict(X), codes, n_users)
            return of_each[~np.isnan(of_each)] - 0.5
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
        if self._accountant is not None:
            return self._accountant
        ambient = ambient_accountant(self._made_in)
        return _accountant_of(estimator) if ambient is None else ambient

    def __getstate__(self) -> dict[str, Any]:
        noted = accountant_to_send(self._made_in) if self._accountant is None else None
        return {**self.__dict__, "_made_in": noted}

    def _published_copy(self) -> PrivateScorer:
        """Return a scorer without accountant and seed, for published searches."""
        return self._twin(_accountant=None, _noise_seed=None, _made_in=None)

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
