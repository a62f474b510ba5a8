"""Lower bounds on the privacy loss of a fit, from many fits on two neighbors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed
from scipy.special import betaincinv, ndtri
from sklearn.base import clone

from .._release.noise import record_releases
from .._tables.columns import read_column
from ..accounting import PrivacyLeakWarning, gaussian_epsilon
from ..accounting._ledger.context import without_accountant
from ..accounting._ledger.planned_fits import Composition, composition_of
from ..mechanisms import Gaussian, Neighbors, PrivacyPlan, Unit

# Users who are in the first data set alone, in the second alone, and in both with
# other data.
_USERS_WHO_DIFFER = {
    Neighbors.ADD_REMOVE_ONE: ({(1, 0, 0), (0, 1, 0)}, "joins or leaves"),
    Neighbors.REPLACE_ONE: ({(0, 0, 1), (1, 1, 0)}, "is replaced"),
}


def check_neighbors(estimator, plan: PrivacyPlan, data: tuple, other: tuple) -> None:
    """Refuse data sets that are no neighbors by the unit and relation of a plan."""
    for side, name in ((data, "y"), (other, "y_neighbor")):
        if len({len(part) for part in side}) != 1:
            raise ValueError(f"{name} must contain one target for each of its rows")
    if np.shape(data[0])[1:] != np.shape(other[0])[1:]:
        raise ValueError(
            "X and X_neighbor must have the same shape, except for the number of rows"
        )
    if plan.unit is Unit.USER:
        _check_users(estimator, plan, data, other)
        return
    rows, others = _as_lists(data), _as_lists(other)
    if plan.neighbors is Neighbors.ADD_REMOVE_ONE:
        fewer, more = sorted((rows, others), key=len)
        first = next((i for i, row in enumerate(fewer) if row != more[i]), len(fewer))
        if len(more) != len(fewer) + 1 or fewer[first:] != more[first + 1 :]:
            raise ValueError(
                "X and X_neighbor must differ by one row that joins or leaves: the "
                "guarantee only covers this difference"
            )
    elif len(rows) != len(others):
        raise ValueError(
            f"X and X_neighbor must have the same shape: under {plan.neighbors} the "
            "number of rows is public"
        )
    elif plan.neighbors is Neighbors.REPLACE_ONE:
        differing = sum(row != new for row, new in zip(rows, others, strict=True))
        if differing != 1:
            raise ValueError(
                f"X and X_neighbor must differ in one row, but differ in {differing}: "
                "the guarantee only covers a difference in one row"
            )


def _as_lists(data: tuple) -> list:
    """Rows as lists of numbers, the target last."""
    X, *targets = data
    parts = [np.asarray(X).tolist(), *(np.asarray(y).tolist() for y in targets)]
    return list(zip(*parts, strict=True))


def _check_users(estimator, plan: PrivacyPlan, data: tuple, other: tuple) -> None:
    if plan.neighbors not in _USERS_WHO_DIFFER:
        raise ValueError(f"there is no audit for users under {plan.neighbors}")
    feature = getattr(estimator, "user_feature", None)
    if feature is None:
        raise ValueError(
            f"{plan.estimator} protects users: user_feature must name the column of X "
            "that identifies the user of each row"
        )
    one, two = _by_user(data, feature), _by_user(other, feature)
    changed = [user for user in one.keys() & two.keys() if one[user] != two[user]]
    found = (len(one.keys() - two.keys()), len(two.keys() - one.keys()), len(changed))
    allowed, what = _USERS_WHO_DIFFER[plan.neighbors]
    if found not in allowed:
        raise ValueError(
            f"X and X_neighbor must differ by one user who {what}, but {found[0]} "
            f"users are only in X, {found[1]} only in X_neighbor, and {found[2]} have "
            "different rows; the guarantee covers one user"
        )


def _by_user(data: tuple, feature) -> dict[object, list]:
    """The rows of each user, in their order."""
    users = np.asarray(read_column(data[0], feature, "user_feature")).tolist()
    table: dict[object, list] = {}
    for user, row in zip(users, _as_lists(data), strict=True):
        table.setdefault(user, []).append(row)
    return table


_BATCHES_PER_WORKER = 8


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Parameters
    ----------
    mu : float
        Lower bound on the privacy loss in Gaussian differential privacy.
    epsilon : float
        The same at `delta`.
    claimed_mu, claimed_epsilon : float
        What the plan claims.
    delta : float
        Where epsilons are stated.
    confidence : float
        Probability, over the audit's own trials, that the bound holds.
    n_trials : int
        Fits on each of the two data sets.
    scores : tuple of two ndarrays of shape (n_trials,), or None, default=None
        Values of the statistic on `X`, and on `X_neighbor`. Of data that were made up,
        they are no secret; :class:`~skdpspectral.plotting.AuditDisplay` draws them.
    """

    mu: float
    epsilon: float
    claimed_mu: float
    claimed_epsilon: float
    delta: float
    confidence: float
    n_trials: int
    scores: tuple[np.ndarray, np.ndarray] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted at the stated confidence."""
        return self.mu > self.claimed_mu

    def __str__(self) -> str:
        verdict = "REFUTED" if self.violated else "not refuted"
        return (
            f"epsilon >= {self.epsilon:.4g} at delta={self.delta:g} "
            f"({self.confidence:.1%} confidence, {self.n_trials} trials a side); the "
            f"claim epsilon = {self.claimed_epsilon:.4g} is {verdict}"
        )


def _upper_limit(successes: int, trials: int, alpha: float) -> float:
    """Clopper-Pearson upper confidence limit of a probability."""
    if successes >= trials:
        return 1.0
    return float(betaincinv(successes + 1, trials - successes, 1.0 - alpha))


def _bound_at(scores, neighbor_scores, threshold: float, alpha: float) -> float:
    """Lower bound on mu from one threshold: neighbors are called above it."""
    # mu >= Phi^-1(1 - false positives) - Phi^-1(false negatives)
    above, below = np.sum(scores > threshold), np.sum(neighbor_scores <= threshold)
    false_positive = _upper_limit(int(above), len(scores), alpha / 2.0)
    false_negative = _upper_limit(int(below), len(neighbor_scores), alpha / 2.0)
    if false_positive >= 1.0 or false_negative >= 1.0:
        return 0.0
    return max(0.0, float(-ndtri(false_positive) - ndtri(false_negative)))


def mu_lower_bound(
    scores, neighbor_scores, *, threshold: float | None = None, confidence=0.99
) -> float:
    """Lower bound on mu from a statistic's values on two neighboring data sets.

    Parameters
    ----------
    scores, neighbor_scores : array-like of shape (n_trials,)
        Values of one statistic of the releases; it should be larger on the
        neighbor.
    threshold : float or None, default=None
        Where the test decides. It must not depend on these scores; None spends
        the first half of them on choosing it.
    confidence : float, default=0.99
        Probability that the bound holds, by Clopper-Pearson intervals.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If a score or the threshold is not finite.
    """
    scores, neighbor_scores = np.asarray(scores), np.asarray(neighbor_scores)
    sides = {"scores": scores, "neighbor_scores": neighbor_scores}
    if threshold is not None:
        sides["threshold"] = np.asarray(threshold)
    for name, values in sides.items():
        if not np.all(np.isfinite(values)):
            raise ValueError(
                f"{name} must be finite: the statistic must return a finite number for "
                "every fit"
            )
    alpha = 1.0 - confidence
    if threshold is None:
        half = min(len(scores), len(neighbor_scores)) // 2
        first = scores[:half], neighbor_scores[:half]
        candidates = np.quantile(np.concatenate(first), np.linspace(0, 1, 201))
        bounds = [_bound_at(*first, value, alpha) for value in candidates]
        threshold = float(candidates[int(np.argmax(bounds))])
        scores, neighbor_scores = scores[half:], neighbor_scores[half:]
    return _bound_at(scores, neighbor_scores, threshold, alpha)


def _fit_recorded(estimator, data: tuple) -> dict[str, np.ndarray]:
    """Fit synthetic data, recording releases in this context only."""
    with without_accountant(), record_releases() as released:
        estimator.fit(*data)
    return released


def _exact_releases(estimator, data: tuple) -> dict[str, np.ndarray]:
    """Return what a fit would release without noise."""
    estimator = clone(estimator).set_params(epsilon=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return _fit_recorded(estimator, data)


class _LikelihoodRatio:
    """Log likelihood ratio of Gaussian releases, and the midpoint as threshold."""

    def __init__(self, estimator, plan: PrivacyPlan, data: tuple, other: tuple):
        planned = clone(estimator).set_params(epsilon=None).plan_for(data[0])
        shapes = [{m.name: m.shape for m in p.mechanisms} for p in (plan, planned)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"statistic must be given for {plan.estimator}: without noise it is a "
                "different algorithm with different releases, for which no likelihood "
                "ratio can be computed"
            )
        exact = _exact_releases(estimator, data)
        neighbor = _exact_releases(estimator, other)
        # <M, D> over all entries weighs each off-diagonal twice, which is right:
        # its variance is half of the diagonal's.
        self.directions = {}
        for name in exact:
            mechanism = plan[name]
            if not isinstance(mechanism, Gaussian):
                raise TypeError(f"{name!r} is not released by a Gaussian mechanism")
            difference = neighbor[name] - exact[name]
            self.directions[name] = difference / mechanism.noise_std**2
        middles = {name: 0.5 * (neighbor[name] + exact[name]) for name in exact}
        self.threshold = self(None, middles)

    def __call__(self, estimator, released) -> float:
        return math.fsum(
            float(np.vdot(direction, released[name]))
            for name, direction in self.directions.items()
            # Of alternatives, one is released, and not always the same.
            if name in released
        )


def _scores(estimator, data: tuple, statistic, seeds) -> list[float]:
    """Fit once a seed (None: fresh entropy) and take the statistic."""
    scores = []
    model = clone(estimator)
    with warnings.catch_warnings():
        # Each trial would warn of the seed that was asked for.
        warnings.filterwarnings("ignore", "noise_seed is given", PrivacyLeakWarning)
        for seed in seeds:
            if seed is not None:
                model.set_params(noise_seed=int(seed))
            released = _fit_recorded(model, data)
            scores.append(float(statistic(model, released)))
    return scores


def audit_epsilon(
    factory: Callable,
    X,
    X_neighbor,
    statistic: Callable | None = None,
    n_trials: int = 10_000,
    *,
    y=None,
    y_neighbor=None,
    delta: float | None = None,
    confidence: float = 0.99,
    n_jobs: int | None = None,
    random_state=None,
) -> AuditResult:
    """Compute a lower bound on epsilon from repeated fits on two neighboring data sets.

    An audit can refute a guarantee but never prove one. It is only as sharp as the data
    sets are adversarial and the statistic is powerful.

    Parameters
    ----------
    factory : callable or estimator
        An unfitted estimator of this package, or a callable without arguments that
        returns one. No ledger is charged, not even that of a ``with`` block.
    X, X_neighbor : array-like of shape (n_samples, n_features)
        Neighboring data sets as defined by the plan. They differ in one row or, if
        users are protected, in one user with all of that user's rows (users are the
        column `user_feature` of the estimator). With add-remove-one they have different
        numbers of rows. Use only **synthetic data**, because an audit is not private.
    statistic : callable or None, default=None
        ``statistic(estimator, released) -> float``, where `released` is the dict of
        everything that the release layer returned. It should be larger for the
        neighbor. Its attribute `threshold`, if it exists, is the decision threshold;
        otherwise half of the trials are used to choose one. None uses the
        log-likelihood ratio of the released arrays, with means from a fit without
        noise. You must pass a statistic if a fit without noise is another algorithm. If
        releases depend on earlier ones, another statistic may be sharper.
    n_trials : int, default=10000
        Number of fits on each data set.
    y, y_neighbor : array-like of shape (n_samples,) or None, default=None
        Targets, for estimators that use them. ``y_neighbor=None`` uses `y`.
    delta : float or None, default=None
        Delta at which epsilon is stated. None uses the delta of the estimator.
    confidence : float, default=0.99
        Probability that the bound holds.
    n_jobs : int or None, default=None
        Number of parallel jobs, as in joblib.
    random_state : int or None, default=None
        Seed of all trials. None audits the noise source that is used in practice.

    Returns
    -------
    AuditResult
        The lower bounds `mu` and `epsilon` (at `delta`), the claims `claimed_mu` and
        `claimed_epsilon`, and `violated`, which is True if the claim is refuted.

    Raises
    ------
    ValueError
        If the estimator makes no claim, the data sets are not neighbors, a statistic is
        missing or not finite, or the numbers are out of range.
    TypeError
        If the estimator is a pipeline with several steps.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.audit import audit_epsilon
    >>> X = np.eye(5, 2)
    >>> neighbor = X.copy()
    >>> neighbor[0] = [0.0, 1.0]
    >>> def factory():
    ...     return DPPCA(1, epsilon=4.0, center="none")
    >>> audit_epsilon(factory, X, neighbor, n_trials=200, random_state=0).violated
    False
    """
    if n_trials < 4:
        raise ValueError(f"n_trials must be at least 4, got {n_trials}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    data, other = _with_targets(X, X_neighbor, y, y_neighbor)
    estimator = factory if hasattr(factory, "fit") else factory()
    if composition_of(estimator) is Composition.PIPELINE:
        raise TypeError(
            f"{type(estimator).__name__} has several steps: audit each of them"
        )
    estimator = clone(estimator).set_params(accountant=None)
    plan = estimator.plan_for(X)
    if not math.isfinite(plan.mu):
        raise ValueError("an estimator with epsilon=None has no guarantee to audit")
    check_neighbors(estimator, plan, data, other)
    if statistic is None:
        statistic = _LikelihoodRatio(estimator, plan, data, other)
    scores = _all_scores(
        estimator, (data, other), statistic, n_trials, n_jobs, random_state
    )
    threshold = getattr(statistic, "threshold", None)
    mu = mu_lower_bound(*scores, threshold=threshold, confidence=confidence)
    delta = plan.delta if delta is None else delta
    return AuditResult(
        mu=mu,
        epsilon=gaussian_epsilon(mu, delta),
        claimed_mu=plan.mu,
        claimed_epsilon=gaussian_epsilon(plan.mu, delta),
        delta=delta,
        confidence=confidence,
        n_trials=n_trials,
        scores=scores,
    )


def _with_targets(X, X_neighbor, y, y_neighbor) -> tuple[tuple, tuple]:
    """Return the arguments of each fit."""
    if y is None:
        if y_neighbor is not None:
            raise ValueError("y_neighbor was given, but y was not")
        return (X,), (X_neighbor,)
    return (X, y), (X_neighbor, y if y_neighbor is None else y_neighbor)


def _all_scores(estimator, sides, statistic, n_trials, n_jobs, random_state):
    """Scores on both data sets, in batches; the same for any number of jobs."""
    seeds = [None] * (2 * n_trials)
    if random_state is not None:
        seeds = np.random.RandomState(random_state).randint(
            2**31 - 1, size=2 * n_trials
        )
    batch = math.ceil(n_trials / _BATCHES_PER_WORKER)
    halves = zip(sides, (seeds[:n_trials], seeds[n_trials:]), strict=True)
    results = Parallel(n_jobs=n_jobs)(
        delayed(_scores)(estimator, data, statistic, own[start : start + batch])
        for data, own in halves
        for start in range(0, n_trials, batch)
    )
    flat = np.concatenate(results)
    return flat[:n_trials], flat[n_trials:]
