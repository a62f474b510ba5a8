"""Empirical lower bounds on privacy loss, and reports about pipelines."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import chdtri, gammaln, ndtr, ndtri
from sklearn.base import clone

from ._base.privacy_report import privacy_report, publish
from ._release.noise import record_releases
from .accounting import (
    NoisyFitWarning,
    PrivacyLeakWarning,
    gaussian_epsilon,
    gaussian_mu,
)
from .accounting._ledger.context import without_accountant
from .accounting._ledger.planned_fits import Composition, composition_of
from .mechanisms import PrivacyPlan

__all__ = [
    "AuditResult",
    "Canaries",
    "audit_in_few_fits",
    "pairs_of_features",
    "privacy_report",
    "publish",
]

# What an audit may assume of scores, and how results say so.
_ASSUMED = {
    "nothing": "nothing is assumed",
    "gaussian": "if scores are independent normals of one deviation",
}
# Least levels of tests of given powers, for each of some losses.
_Curve = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Chance that fits with noise of their own are called repeated.
_BY_CHANCE = 1e-6


@dataclass(frozen=True)
class Canaries:
    """Data of an audit: each coin changes one row or one user of them.

    Use only **made-up data**, because an audit is not private.

    Parameters
    ----------
    n_coins : int
        Number of rows or users that a coin changes.
    data : callable
        ``data(coins)`` returns the arguments of a fit, as a tuple. `coins` is a boolean
        array of shape (n_coins,). Coin i must change no other row or user than the
        i-th.
    scores : callable
        ``scores(model, released)`` returns one score per coin, of shape (n_coins,). A
        score should be larger where its coin is True. `released` has the releases of
        a private estimator by name; it is empty for other callables.
    unit : {"row", "user"}, default="row"
        What a coin changes.
    neighbors : {"replace-one", "add-remove-one", "zero-out-one"}, \
default="replace-one"
        How it does so. Both must be those of the audited guarantee.
    """

    n_coins: int
    data: Callable[[np.ndarray], tuple]
    scores: Callable[[Any, dict], np.ndarray]
    unit: str = "row"
    neighbors: str = "replace-one"


def pairs_of_features(
    n_features: int, read: str | Callable[[Any, dict], np.ndarray] = "second_moment"
) -> Canaries:
    r"""Make unit rows whose coins decide the sign of one product of two features.

    The row of features i and j is :math:`(e_i + e_j)/\sqrt 2` or
    :math:`(e_i - e_j)/\sqrt 2`. Both have the largest possible distance in a second
    moment of unit rows, and only differ in the two entries of i and j.

    Parameters
    ----------
    n_features : int
        Number of features, at least 2. There are
        ``n_features * (n_features - 1) / 2`` coins.
    read : str or callable, default="second_moment"
        Symmetric matrix of shape (n_features, n_features) that tells the products:
        name of a release, or ``read(model, released)``, such as
        ``lambda model, released: model.covariance_``.

    Returns
    -------
    Canaries
        Rows for an estimator without targets.
    """
    i, j = np.triu_indices(n_features, 1)
    if len(i) == 0:
        raise ValueError(f"n_features must be at least 2, got {n_features}")
    places = np.arange(len(i))

    def data(coins):
        X = np.zeros((len(i), n_features))
        X[places, i] = np.sqrt(0.5)
        X[places, j] = np.sqrt(0.5) * np.where(coins, 1.0, -1.0)
        return (X,)

    def scores(model, released):
        if callable(read):
            return np.asarray(read(model, released))[i, j]
        if read not in released:
            raise ValueError(
                f"read={read!r} is none of the releases {sorted(released)}; pass a "
                "callable read(model, released)"
            )
        return released[read][i, j]

    return Canaries(len(i), data, scores)


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Parameters
    ----------
    mu : float or None
        Lower bound on the privacy loss in Gaussian differential privacy; None if the
        claim is an (epsilon, delta).
    epsilon : float
        Lower bound on epsilon at `delta`.
    claimed_mu : float or None
        What is claimed, if it is a mu.
    claimed_epsilon : float
        What is claimed at `delta`.
    delta : float
        Where epsilons are stated.
    confidence : float
        Probability, over coins and noise, that the bounds hold.
    assume : {"nothing", "gaussian"}
        What the bounds assume.
    n_fits, n_coins : int
        Number of fits, and of coins in each.
    repeated : bool or None
        Whether noise of different fits is alike, as if a seed were used again: then no
        bound holds, and nothing is private. None if it was not tested: there must be
        two fits and 20 coins. Scores that have an offset of their own in every fit look
        the same.
    scores : tuple of two ndarrays, default=None
        Scores of coins that are False, and of those that are True. Of made-up data,
        they are no secret; :class:`~skdpspectral.plotting.AuditDisplay` draws them.
    """

    mu: float | None
    epsilon: float
    claimed_mu: float | None
    claimed_epsilon: float
    delta: float
    confidence: float
    assume: str
    n_fits: int
    n_coins: int
    repeated: bool | None = None
    scores: tuple[np.ndarray, np.ndarray] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted at the stated confidence."""
        if self.mu is not None and self.claimed_mu is not None:
            return self.mu > self.claimed_mu
        return self.epsilon > self.claimed_epsilon

    def __str__(self) -> str:
        verdict = "REFUTED" if self.violated else "not refuted"
        found = (
            f"epsilon >= {self.epsilon:.4g} at delta={self.delta:g} "
            f"({100 * self.confidence:.6g}% confidence, {self.n_fits} fits of "
            f"{self.n_coins} coins, {_ASSUMED[self.assume]}); the claim epsilon = "
            f"{self.claimed_epsilon:.4g} is {verdict}"
        )
        alike = "; fits are alike: is their noise REPEATED?"
        return found + alike * bool(self.repeated)


def audit_in_few_fits(
    estimator: Any,
    canaries: Canaries,
    n_fits: int = 10,
    *,
    assume: str = "nothing",
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    confidence: float = 0.99,
    random_state=None,
) -> AuditResult:
    r"""Bound the privacy loss from below, by a few fits of many made-up canaries.

    Coins are tossed for each fit, and each coin changes one row or one user. What was
    released gives a score per coin, and the scores tell the coins apart as far as the
    guarantee fails to hide them. An audit can refute a guarantee but never prove one.
    It is only as sharp as its canaries are adversarial.

    Parameters
    ----------
    estimator : estimator or callable
        An unfitted estimator of this package, whose plan is audited. Or any function
        that is called with the data of a fit and returns what it publishes; then pass
        the `mu`, or the `epsilon` and `delta`, that it claims. No ledger is charged,
        not even that of a ``with`` block.
    canaries : Canaries
        Made-up data and scores, by :func:`pairs_of_features` or of your own.
    n_fits : int, default=10
        Number of fits, each with coins of its own.
    assume : {"nothing", "gaussian"}, default="nothing"
        What the bound assumes of the scores.

        - "nothing": the bound always holds.
        - "gaussian": scores are independent normals of one standard deviation. The
          bound is higher. Of releases that take few values, have outliers, or tell
          many coins by a single event, this is wrong.
    mu, epsilon : float or None, default=None
        What a function claims: a `mu` of Gaussian differential privacy, or an `epsilon`
        at `delta`. Not for estimators, which have a plan.
    delta : float or None, default=None
        Delta at which epsilon is stated. None uses the delta of the estimator's plan,
        or of a function 0, and 1e-6 beside a `mu`.
    confidence : float, default=0.99
        Probability that the bound holds.
    random_state : int or None, default=None
        Seed of coins, and of noise by the estimator's `noise_seed`. None audits the
        noise source that is used in practice.

    Returns
    -------
    AuditResult
        The lower bounds `mu` and `epsilon`, the claims, `violated`, `repeated`.

    Raises
    ------
    ValueError
        If the estimator makes no claim, canaries do not fit its guarantee, scores have
        another shape or are not finite, or numbers are out of range.
    TypeError
        If the estimator is a pipeline with several steps.

    References
    ----------
    .. [1] T. Steinke, M. Nasr and M. Jagielski, "Privacy auditing with one (1) training
       run", NeurIPS 2023.
    .. [2] S. Mahloujifar, L. Melis and K. Chaudhuri, "Auditing f-differential privacy
       in one run", ICML 2025.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.audit import audit_in_few_fits, pairs_of_features
    >>> pca = DPPCA(1, epsilon=4.0, center="none")
    >>> result = audit_in_few_fits(pca, pairs_of_features(40), 5, assume="gaussian")
    >>> result.violated, result.mu > 0.7 * result.claimed_mu
    (False, True)
    """
    if assume not in _ASSUMED:
        raise ValueError(f"assume must be one of {list(_ASSUMED)}, got {assume!r}")
    if n_fits < 1:
        raise ValueError(f"n_fits must be at least 1, got {n_fits}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    if delta is not None and not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    # Apart from generators that an audited function makes of the same number.
    rng = np.random.default_rng(np.random.SeedSequence(random_state).spawn(1)[0])
    coins = rng.random((n_fits, canaries.n_coins)) < 0.5
    claims = [given for given in (mu, epsilon) if given is not None]
    if hasattr(estimator, "fit"):
        if claims:
            raise ValueError("mu and epsilon are for functions: estimators have a plan")
        plan = _audited_plan(estimator, canaries, coins[0])
        delta, epsilon = plan.delta if delta is None else delta, plan.epsilon
        if math.isfinite(plan.mu):
            mu = min(plan.mu, gaussian_mu(plan.epsilon, plan.delta))
            epsilon = gaussian_epsilon(mu, delta)
        elif delta != plan.delta:
            raise ValueError(f"delta must be that of the plan, {plan.delta:g}, here")
    elif len(claims) != 1:
        raise ValueError("the claim of a function must be its mu, or an epsilon")
    elif mu is not None:
        delta = 1e-6 if delta is None else delta
        epsilon = gaussian_epsilon(mu, delta)
    delta = 0.0 if delta is None else float(delta)
    if assume == "gaussian" and delta == 0.0:
        raise ValueError('assume="gaussian" needs a positive delta')
    seeds = rng.integers(2**31 - 1, size=n_fits).tolist()
    seeds = seeds if random_state is not None else [None] * n_fits
    runs = zip(coins, seeds, strict=True)
    scores = np.array([_scores_of_fit(estimator, canaries, *run) for run in runs])
    found_mu, found = _bounds(scores, coins, assume, mu, epsilon, delta, confidence)
    return AuditResult(
        mu=found_mu,
        epsilon=found,
        claimed_mu=mu,
        claimed_epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        assume=assume,
        n_fits=n_fits,
        n_coins=canaries.n_coins,
        repeated=_repeated(scores, coins),
        scores=(scores[~coins], scores[coins]),
    )


def _audited_plan(estimator, canaries: Canaries, coins) -> PrivacyPlan:
    """Return the plan of an estimator; refuse canaries of another guarantee."""
    if composition_of(estimator) is Composition.PIPELINE:
        raise TypeError(
            f"{type(estimator).__name__} has several steps: audit each of them"
        )
    planned = clone(estimator).set_params(accountant=None)
    plan = planned.plan_for(canaries.data(coins)[0])
    if not math.isfinite(plan.epsilon):
        raise ValueError("an estimator with epsilon=None has no guarantee to audit")
    for name in ("unit", "neighbors"):
        own, given = getattr(plan, name), getattr(canaries, name)
        if own != given:
            raise ValueError(
                f"canaries must have {name}={str(own)!r}, as {plan.estimator} has, got "
                f"{str(given)!r}: another change is not covered by its guarantee"
            )
    return plan


def _scores_of_fit(estimator, canaries: Canaries, coins, seed) -> np.ndarray:
    """Fit once and score the coins; releases are recorded in this context only."""
    data, released = canaries.data(coins), {}
    if hasattr(estimator, "fit"):
        model = clone(estimator).set_params(accountant=None)
        with warnings.catch_warnings(), without_accountant():
            # Nothing but noise is left of canaries, on purpose.
            warnings.simplefilter("ignore", NoisyFitWarning)
            if seed is not None:
                model.set_params(noise_seed=seed)
                warnings.filterwarnings("ignore", "noise_seed", PrivacyLeakWarning)
            with record_releases() as released:
                model.fit(*data)
    else:
        model = estimator(*data)
    scores = np.asarray(canaries.scores(model, released), dtype=np.float64)
    if scores.shape != coins.shape or not np.all(np.isfinite(scores)):
        raise ValueError(
            f"scores must be {len(coins)} finite numbers, one for each coin, got shape "
            f"{scores.shape}"
        )
    return scores


def _bounds(scores, coins, assume, mu, epsilon, delta, confidence):
    """Return bounds on mu (None for other claims) and on epsilon."""
    if assume == "gaussian":
        found = _bound_of_normals(scores[~coins], scores[coins], confidence)
        return (None if mu is None else found), gaussian_epsilon(found, delta)
    # Guess the coins of the scores farthest from the middle of their fit, or of all.
    several = coins.shape[1] > 1
    middle = np.median(scores, axis=1, keepdims=True) if several else np.mean(scores)
    centered = scores - middle
    curve: _Curve = _gaussian_curve if mu is not None else _approximate_curve(delta)
    claims = epsilon, gaussian_mu(epsilon, max(delta, 1e-6))
    claims = claims if mu is None else (mu, mu)
    guesses = _number_of_guesses(scores.size, curve, claims, confidence)
    order = np.argsort(-np.abs(centered), axis=None, kind="stable")[:guesses]
    right = (centered > 0.0).ravel()[order] == coins.ravel()[order]
    found = _bound_of_guesses(int(right.sum()), guesses, scores.size, curve, confidence)
    return (None, found) if mu is None else (found, gaussian_epsilon(found, delta))


@functools.lru_cache(maxsize=64)
def _number_of_guesses(coins: int, curve, claims: tuple, confidence: float) -> int:
    """Return how many guesses bound most, if normal scores attain a Gaussian claim."""
    claimed, claim = claims
    best, most = (False, -1.0), coins
    distances = np.linspace(0.0, 8.0 + 0.5 * claim, 801)
    near, far = ndtr(0.5 * claim - distances), ndtr(-0.5 * claim - distances)
    for count in sorted({max(1, math.ceil(coins * 0.75**k)) for k in range(24)}):
        at = int(np.argmin(np.abs(near + far - count / coins)))
        share = near[at] / (near[at] + far[at])
        # A deviation less than the mean: else a lucky number is chosen.
        right = count * share - math.sqrt(count * share * (1.0 - share))
        all_right, usual = (
            _bound_of_guesses(int(max(k, 0)), count, coins, curve, confidence)
            for k in (count, right)
        )
        if (found := (all_right > claimed, usual)) >= best:
            best, most = found, count
        elif usual < 0.7 * best[1]:
            break
    return most


def _repeated(scores, coins) -> bool | None:
    """Return whether what is left of scores in pairs of fits is correlated."""
    n_fits, n_coins = scores.shape
    if n_fits < 2 or n_coins < 20:
        return None
    left = scores.copy()
    for row, tossed in zip(left, coins, strict=True):
        for side in (tossed, ~tossed):
            if side.any():
                row[side] -= row[side].mean()
    left /= np.maximum(np.linalg.norm(left, axis=1, keepdims=True), 1e-300)
    total = np.linalg.norm(left.sum(axis=0)) ** 2 - np.sum(left**2)
    pairs = n_fits * (n_fits - 1)
    # The mean of pairs / 2 correlations, each of deviation 1 / sqrt(n_coins).
    deviations = total * math.sqrt(n_coins / (2 * pairs))
    return bool(total > 0.3 * pairs and ndtr(-deviations) < _BY_CHANCE)


# -- bounds ----------------------------------------------------------------------------


def _gaussian_curve(powers, mus):
    """Return the least level of a test of these powers under mu-GDP."""
    return ndtr(ndtri(powers) - mus)


@functools.lru_cache(maxsize=64)
def _approximate_curve(delta: float) -> _Curve:
    """Return the same curve of (epsilon, delta)-DP, as a function of epsilons."""
    return lambda powers, epsilons: np.maximum(powers - delta, 0.0) * np.exp(-epsilons)


def _least_loss(refuted: Callable[[np.ndarray], np.ndarray], most: float = 50.0):
    """Return the largest loss in [0, most] that is refuted; refutation is monotone."""
    low, high = 0.0, most
    for _ in range(5):
        grid = np.linspace(low, high, 33)
        last = int(np.sum(refuted(grid)))
        if last == 0:
            return 0.0
        low, high = grid[last - 1], grid[min(last, 32)]
    return float(low)


def _bound_of_guesses(
    right: int, guesses: int, coins: int, curve: _Curve, confidence: float
) -> float:
    """Bound the loss by guesses of coins that were tossed in the same fits."""
    # Their number is public; which are guessed, and how, depends on what was released
    # alone. Nothing else is assumed: see the lemma on guesses of many coins.
    alpha = 1.0 - confidence

    def refuted(losses):
        # Of k right guesses or more, k from `right` down: the least probabilities that
        # this loss allows, if `right` are made with probability alpha; and their sums.
        tail, sums = np.full(len(losses), alpha), np.full(len(losses), alpha)
        for k in range(right, 0, -1):
            power = np.minimum((sums + (k - 1) * tail) / coins, 1.0)
            needed = (coins * curve(power, losses) + sums) / (guesses - k + 1)
            tail = np.maximum(tail, needed)
            if np.all(tail > 1.0):
                break
            sums = sums + tail
        return tail > 1.0

    return _least_loss(refuted)


def _bound_of_normals(tails, heads, confidence: float) -> float:
    """Bound mu by scores that are normal, independent and of one deviation."""
    n, m = len(tails), len(heads)
    if min(n, m) < 2:
        return 0.0
    squares = np.sum((tails - tails.mean()) ** 2) + np.sum((heads - heads.mean()) ** 2)
    if not squares > 0.0:
        return 0.0
    # Student's statistic has a noncentral law, whose parameter is mu times `factor`.
    freedom, factor = n + m - 2, math.sqrt(n * m / (n + m))
    found = factor * (heads.mean() - tails.mean()) / math.sqrt(squares / freedom)
    deviations, weights = _chi(freedom)

    def refuted(mus):
        chances = ndtr(factor * mus[:, None] - found * deviations) @ weights
        return chances < 1.0 - confidence

    return _least_loss(refuted)


def _chi(freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the law of sqrt(chi^2 / freedom)."""
    ends = [math.sqrt(chdtri(freedom, p) / freedom) for p in (1.0 - 1e-15, 1e-15)]
    nodes, weights = np.polynomial.legendre.leggauss(200)
    x = 0.5 * (ends[1] - ends[0]) * (nodes + 1.0) + ends[0]
    half = 0.5 * freedom
    density = freedom * np.log(x) - np.log(x) - half * x * x
    density += math.log(2.0) + half * math.log(half) - gammaln(half)
    weights = weights * np.exp(density) * 0.5 * (ends[1] - ends[0])
    return x, weights / weights.sum()
