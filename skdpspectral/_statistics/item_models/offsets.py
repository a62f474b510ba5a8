"""Offsets of items, as two rounds of users' answers leave them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._linalg import recommendation_answers as answers
from ..._linalg import recommendation_items as items
from .answers import Answers

# Variance of offsets of items of equal popularity and features, and of what tastes add,
# in squares of a quarter of the range.
_OFFSET_SPREADS = (0.06, 1.0)
_FACTOR_SPREADS = (1e-5, 1.0)
# Noise that is left where there is none, so that quotients are finite.
_LEAST_NOISE = 1e-9
# Of the variance within users at least this share is not that of items.
_LEAST_SHARE = 0.25
# Factors are of unit size where tastes differ at least by this variance.
_LEAST_TASTE = 1e-3


@dataclass(frozen=True)
class ItemOffsets:
    """What is known of the items so far; all of it made from releases.

    Parameters
    ----------
    counts : ndarray of shape (n_items,)
        Positive sums of the weights of users who rated an item.
    logged : ndarray of shape (n_items,)
        Their logarithms.
    offsets, variance : ndarray of shape (n_items,)
        Posterior means and variances.
    level : float
        Mean of users' levels.
    weight : float
        Typical weight of a user, by ratings.
    residual : float
        Variance of ratings within users and items.
    n_users : float
        Noisy number of users.
    design : ndarray of shape (n_items, d)
        Columns of the prior mean.
    growth : float, default=1.0
        How much more a user's residuals weigh in the second round.
    """

    counts: np.ndarray
    logged: np.ndarray
    offsets: np.ndarray
    variance: np.ndarray
    level: float
    weight: float
    residual: float
    n_users: float
    design: np.ndarray
    growth: float = 1.0

    def with_residuals(self, second: Answers) -> ItemOffsets:
        """Add what users answered in the second round.

        Parameters
        ----------
        second : Answers
            Sums of residuals, and of the quotients of users' weights.
        """
        total, noise_std = second
        growth = answers.LARGEST_RATIO * total[-1] / answers.SIDE / self.n_users
        growth = float(np.clip(growth, 0.5, answers.LARGEST_RATIO))
        counts = growth * self.counts
        noise = noise_std**2 + self.residual * growth * self.weight * counts
        noise += _LEAST_NOISE
        gain = self.variance * counts / (counts * counts * self.variance + noise)
        rest = total[:-1]
        return replace(
            self,
            offsets=self.offsets + gain * rest,
            variance=self.variance * (1.0 - gain * counts),
            growth=growth,
        )

    def factors(self, third: Answers) -> np.ndarray:
        """Return what tastes add to items, of at most unit variance.

        Parameters
        ----------
        third : Answers
            Sums of products of residuals and tastes: (n_items, k).
        """
        total, noise_std = third
        k = total.shape[1]
        noise = (noise_std / self.growth) ** 2 + _LEAST_NOISE
        noise = noise + self.residual / k * self.weight * self.counts
        columns = [
            items.shrink(self.counts, sums, self.design, noise, _FACTOR_SPREADS)
            for sums in total.T / self.growth
        ]
        # What the prior explains users have as features already.
        own = np.column_stack([column.values - column.prior for column in columns])
        least = max(_LEAST_TASTE, *(column.spread for column in columns))
        return items.principal_columns(own, self.counts, least)


def first_offsets(first: Answers, columns: np.ndarray) -> ItemOffsets:
    """Estimate offsets from the first round.

    Parameters
    ----------
    first : Answers
        Sums of weights, of weighted residuals, and of three numbers a user.
    columns : ndarray of shape (n_items, d)
        Standardized public features.
    """
    total, noise_std = first
    n_items = len(columns)
    sums, sides = total[n_items : 2 * n_items], total[2 * n_items :] / answers.SIDE
    n_users = max(float(sides[0]), 1.0)
    spread = float(np.clip(sides[1] / n_users, 0.05, 0.9))
    level = float(np.clip(sides[2] / n_users, -1.0, 1.0))
    released = total[:n_items]
    counts = items.positive_counts(released)
    logged = items.log_counts(released, noise_std)
    popular = items.standardized(logged)
    design = np.column_stack([np.ones(n_items), columns, popular, popular**2])
    # Of a user with m ratings m s^2 is the share of the ones in the squared norm: the
    # mean of s, weighted by ratings, is the quotient of the sums over users.
    share = answers.SHARE_BESIDE_THREE**2 * (1.0 - spread)
    weight = min(share * n_users / max(float(released.sum()), 1.0), 1.0)
    within = spread / (1.0 - spread)
    residual, between = within, 0.0
    for _ in range(2):  # the second time with the variance between items known
        noise = (1.0 + between) * noise_std**2 + residual * weight * counts
        noise += _LEAST_NOISE
        found = items.shrink(counts, sums, design, noise, _OFFSET_SPREADS)
        between = items.weighted_variance(found.values, counts)
        residual = max(within - between, _LEAST_SHARE * within)
    return ItemOffsets(
        counts,
        logged,
        found.values,
        found.variance,
        level,
        weight,
        residual,
        n_users,
        design,
    )
