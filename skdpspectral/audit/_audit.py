"""Audits: lower bounds on privacy losses, from a few fits of made-up data."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import ndtr
from sklearn.base import clone

from .._release.noise import record_releases
from ..accounting import (
    NoisyFitWarning,
    PrivacyLeakWarning,
    gaussian_epsilon,
    gaussian_mu,
)
from ..accounting._ledger.context import without_accountant
from ..accounting._ledger.planned_fits import Composition, composition_of
from ..mechanisms import PrivacyPlan
from ._bounds import (
    approximate_curve,
    bound_of_guesses,
    bound_of_normals,
    bound_of_scores,
    gaussian_curve,
)
from ._canaries import Canaries

# What an audit may assume of scores, and how results say so.
_ASSUMED = {
    "nothing": "nothing is assumed",
    "independent": "if scores of coins are independent",
    "gaussian": "if scores are independent normals of one deviation",
}
# Chance that fits with noise of their own are called repeated.
_BY_CHANCE = 1e-6


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
    assume : {"nothing", "independent", "gaussian"}
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
    n_jobs: int | None = None,
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
        the `mu`, or the `epsilon` and `delta`, that it claims. Parallel calls of a
        function run in threads, so that a generator which it holds is shared. No ledger
        is charged, not even that of a ``with`` block.
    canaries : Canaries
        Made-up data and scores, by :func:`pairs_of_features`,
        :func:`clipped_gradients`, :func:`joining_users`, :func:`pairs_of_categories`,
        :func:`two_tables`, or of your own.
    n_fits : int, default=10
        Number of fits, each with coins of its own.
    assume : {"nothing", "independent", "gaussian"}, default="nothing"
        What the bound assumes of the scores.

        - "nothing": the bound always holds. Of scores with equal claims, it is lower
          than the others.
        - "independent": scores of different coins are independent. A single event that
          helps all coins breaks this.
        - "gaussian": they are independent normals of one standard deviation too. Of
          releases that take few values, or have outliers, this is wrong.

        With one coin per fit, "nothing" takes fits for independent: each call of a
        function must draw its randomness anew.
    mu, epsilon : float or None, default=None
        What a function claims: a `mu` of Gaussian differential privacy, or an `epsilon`
        at `delta`. Not for estimators, which have a plan.
    delta : float or None, default=None
        Delta at which epsilon is stated. None uses the delta of the estimator's plan,
        or of a function 0, and 1e-6 beside a `mu`.
    confidence : float, default=0.99
        Probability that the bound holds.
    n_jobs : int or None, default=None
        Number of parallel jobs, as in joblib.
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
    seeds = rng.integers(2**31 - 1, size=n_fits)
    runs = (
        delayed(_scores_of_fit)(
            estimator, canaries, tossed, None if random_state is None else int(seed)
        )
        for tossed, seed in zip(coins, seeds, strict=True)
    )
    # A copy of a function in another process would repeat the noise of this one.
    require = None if hasattr(estimator, "fit") else "sharedmem"
    scores = np.array(Parallel(n_jobs=n_jobs, require=require)(runs))
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
    curve: Callable = gaussian_curve if mu is not None else approximate_curve(delta)
    sides = scores[~coins], scores[coins]
    if assume == "gaussian":
        found = bound_of_normals(*sides, confidence)
        certified = gaussian_epsilon(found, delta) if delta > 0.0 else 0.0
        return (None if mu is None else found), certified
    if assume == "independent" or coins.shape[1] == 1:
        found = bound_of_scores(*sides, curve, confidence)
    else:
        claims = epsilon, gaussian_mu(epsilon, max(delta, 1e-6))
        claims = claims if mu is None else (mu, mu)
        found = _bound_of_guesses(scores, coins, curve, claims, confidence)
    if mu is None:
        return None, found
    return found, gaussian_epsilon(found, delta)


def _bound_of_guesses(scores, coins, curve, claims, confidence) -> float:
    """Guess the coins of the scores farthest from their fit's median."""
    centered = scores - np.median(scores, axis=1, keepdims=True)
    guesses = _number_of_guesses(scores.size, curve, claims, confidence)
    order = np.argsort(-np.abs(centered), axis=None, kind="stable")[:guesses]
    right = (centered > 0.0).ravel()[order] == coins.ravel()[order]
    return bound_of_guesses(int(right.sum()), guesses, scores.size, curve, confidence)


@functools.lru_cache(maxsize=64)
def _number_of_guesses(coins: int, curve, claims: tuple, confidence: float) -> int:
    """Return how many guesses bound most, if normal scores attain a Gaussian claim.

    If some numbers of right guesses refute the claim, it is one of these.
    """
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
            bound_of_guesses(int(max(k, 0)), count, coins, curve, confidence)
            for k in (count, right)
        )
        if (found := (all_right > claimed, usual)) > best:
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
