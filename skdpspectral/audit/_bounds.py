"""Lower bounds on a privacy loss, from guesses and scores of coins."""

import functools
import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, chdtri, gammaln, ndtr, ndtri

Curve = Callable[[np.ndarray, np.ndarray], np.ndarray]


def gaussian_curve(powers, mus):
    """Return the least level of a test of these powers under mu-GDP."""
    return ndtr(ndtri(powers) - mus)


@functools.lru_cache(maxsize=64)
def approximate_curve(delta: float) -> Curve:
    """Return the same curve of (epsilon, delta)-DP, as a function of epsilons."""
    return lambda powers, epsilons: np.maximum(powers - delta, 0.0) * np.exp(-epsilons)


def least_loss(refuted: Callable[[np.ndarray], np.ndarray], most: float = 50.0):
    """Return the largest loss in [0, most] that is refuted; refutation is monotone."""
    low, high = 0.0, most
    for _ in range(5):
        grid = np.linspace(low, high, 33)
        last = int(np.sum(refuted(grid)))
        if last == 0:
            return 0.0
        low, high = grid[last - 1], grid[min(last, 32)]
    return float(low)


def bound_of_guesses(
    right: int, guesses: int, coins: int, curve: Curve, confidence: float
) -> float:
    """Bound the loss by guesses of coins that were tossed in the same fits.

    Nothing is assumed: see the lemma on guesses of many coins. Which coins are guessed,
    and how, depends on what was released alone; their number is public.
    """
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

    return least_loss(refuted)


def _upper_limit(successes: int, trials: int, alpha: float) -> float:
    """Clopper-Pearson upper confidence limit of a probability."""
    if successes >= trials:
        return 1.0
    return float(betaincinv(successes + 1, trials - successes, 1.0 - alpha))


def bound_at(tails, heads, threshold: float, curve: Curve, confidence: float) -> float:
    """Bound the loss by one test: heads are called above a threshold.

    Scores are assumed to be independent.
    """
    alpha = (1.0 - confidence) / 2.0
    level = _upper_limit(int(np.sum(tails > threshold)), len(tails), alpha)
    missed = _upper_limit(int(np.sum(heads <= threshold)), len(heads), alpha)
    return least_loss(lambda losses: curve(np.array(1.0 - missed), losses) > level)


def bound_of_scores(tails, heads, curve: Curve, confidence: float) -> float:
    """Bound the loss by independent scores; half of them choose the threshold."""
    half = [scores[: len(scores) // 2] for scores in (tails, heads)]
    rest = [scores[len(scores) // 2 :] for scores in (tails, heads)]
    if min(len(half[0]), len(half[1])) == 0:
        return 0.0
    candidates = np.quantile(np.concatenate(half), np.linspace(0.0, 1.0, 101))
    low, high = half
    found = [bound_at(low, high, value, curve, confidence) for value in candidates]
    threshold = candidates[int(np.argmax(found))]
    return bound_at(rest[0], rest[1], threshold, curve, confidence)


def bound_of_normals(tails, heads, confidence: float) -> float:
    """Bound mu by scores that are normal, independent and of one deviation.

    Student's statistic of two samples has a noncentral law whose parameter is mu times
    a public factor.
    """
    n, m = len(tails), len(heads)
    if min(n, m) < 2:
        return 0.0
    squares = np.sum((tails - tails.mean()) ** 2) + np.sum((heads - heads.mean()) ** 2)
    if not squares > 0.0:
        return 0.0
    freedom, factor = n + m - 2, math.sqrt(n * m / (n + m))
    found = factor * (heads.mean() - tails.mean()) / math.sqrt(squares / freedom)
    deviations, weights = _chi(freedom)

    def refuted(mus):
        chances = ndtr(factor * mus[:, None] - found * deviations) @ weights
        return chances < 1.0 - confidence

    return least_loss(refuted)


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
