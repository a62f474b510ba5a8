"""Private statistics of items from users' ratings: offsets, factors, second moments.

In every round a user contributes one vector of norm at most one, made from their own
ratings and earlier releases. The sum over users is released with noise. In a second
moment, every user contributes one row of unit norm. Of clicks, popularity of items is
released, then pairs of items beyond popularity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg import eigen
from .._statistics.statistic import Combination, Statistic
from .._statistics.user_sums import MOST_EXACT_USERS, Released
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Concern, Mechanism, Neighbors, Remark
from . import _kernels
from ._kernels import ItemModel, RatingsBlock, UserRatings


@dataclass(frozen=True)
class UserSum(Statistic):
    """The sum over users of one vector each, of norm at most `bound`, in steps."""

    name: str
    shape: tuple[int, ...]  # zeros follow shorter answers
    n_jobs: int | None = None
    bound: float = 1.0
    lemma: str = "user-sums answers"
    symmetric: bool = False  # vectors are matrices x x', |x| <= 1

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the sum, which a user moves by their vector."""
        neighbors = Neighbors.ADD_REMOVE_ONE
        moved = sensitivity.sum_sensitivity(self.bound, neighbors)
        more: dict[str, Any] = {"magnitude": MOST_EXACT_USERS, "lemma": self.lemma}
        if self.symmetric:
            moved = sensitivity.projector_sum_sensitivity(neighbors)
            more |= {"symmetric": True, "lemma": "projector-sums"}
        return calibrate_alike([self.name], moved, mu, self.shape, **more)

    def run(
        self, release, rows: UserRatings, answer: Callable[[RatingsBlock], np.ndarray]
    ) -> Released:
        """Release the sum of what `answer` gives for each block, in whole steps."""
        total = np.zeros(self.shape)
        for steps in rows.map(answer, self.n_jobs):
            total[: len(steps)] += steps
        total *= _kernels.STEP
        total = release(self.name, total, overwrite=True)
        return Released(total, getattr(release.plan[self.name], "noise_std", 0.0))


# Variance of offsets of items of equal popularity and features, in squares of a quarter
# of the range.
_OFFSET_SPREADS, _TYPICAL_SPREAD = (0.06, 1.0), 0.2
# Noise that is left where there is none, so that quotients are finite.
_LEAST_NOISE = 1e-9
# Of the variance within users at least this share is not that of items.
_LEAST_SHARE = 0.25


class ItemOffsets:
    """What is known of the items so far; all of it made from releases."""

    def __init__(self, first: Released, columns: np.ndarray) -> None:
        total, noise_std = first
        # Growth is how much more residuals weigh in the second round.
        n_items, self.growth = len(columns), 1.0
        released, sums = total[:n_items], total[n_items : 2 * n_items]
        sides = total[2 * n_items :] / _kernels.SIDE
        self.n_users = n_users = max(float(sides[0]), 1.0)
        spread = float(np.clip(sides[1] / n_users, 0.05, 0.9))
        self.level = float(np.clip(sides[2] / n_users, -1.0, 1.0))
        self.counts = counts = np.maximum(released, _kernels.SMALLEST_COUNT)
        self.logged = _kernels.log_counts(released, noise_std)
        # Of a user with m ratings m s^2 is the share of the ones in the squared norm:
        # the mean of s, weighted by ratings, is the quotient of the sums over users.
        share = _kernels.SHARE_BESIDE_THREE**2 * (1.0 - spread)
        self.weight = min(share * n_users / max(float(released.sum()), 1.0), 1.0)
        within = spread / (1.0 - spread)
        noise = noise_std**2 + within * self.weight * counts + _LEAST_NOISE
        evidence = counts**2 / (counts**2 + noise / _TYPICAL_SPREAD)
        self.bounded = _kernels.within_evidence(self.logged, evidence, 0.1)
        popular = _kernels.standardized(self.bounded)
        design = [np.ones(n_items), columns, popular, popular**2]
        self.design = np.column_stack(design)  # of the prior mean
        self.residual, between = within, 0.0
        for _ in range(2):  # the second time with the variance between items known
            noise = (1.0 + between) * noise_std**2
            noise = noise + self.residual * self.weight * counts
            noise += _LEAST_NOISE
            found = _kernels.shrink(counts, sums, self.design, noise, _OFFSET_SPREADS)
            between = _kernels.weighted_variance(found.values, counts)
            self.residual = max(within - between, _LEAST_SHARE * within)
        self.offsets, self.variance = found.values, found.variance  # posterior

    def add_residuals(self, second: Released) -> None:
        """Add the sums of the second round."""
        total, noise_std = second
        most = _kernels.LARGEST_RATIO
        growth = most * total[-1] / _kernels.SIDE / self.n_users
        self.growth = growth = float(np.clip(growth, 0.5, most))
        counts = growth * self.counts
        noise = noise_std**2 + self.residual * growth * self.weight * counts
        noise += _LEAST_NOISE
        gain = self.variance * counts / (counts * counts * self.variance + noise)
        self.offsets = self.offsets + gain * total[:-1]
        self.variance = self.variance * (1.0 - gain * counts)

    def factors(self, third: Released) -> np.ndarray:
        """Return what tastes add to items, of at most unit variance."""
        total, noise_std = third
        k = total.shape[1]
        noise = (noise_std / self.growth) ** 2 + _LEAST_NOISE
        noise = noise + self.residual / k * self.weight * self.counts
        return _kernels.factors_of(self.counts, total / self.growth, self.design, noise)


REMARKS = (
    Remark("The catalog of items is taken to be public.", Concern.PUBLIC),
    Remark(
        "Models of users stay with their users: predictions for a user in the training "
        "data are for that user only (billboard model).",
        Concern.TRUST,
    ),
)
# Shares of mu^2, by the third release.
_SHARES = {
    "": {"offsets": 0.5, "residuals": 0.5},
    "factors": {"offsets": 0.45, "residuals": 0.45, "factors": 0.1},
    "second_moment": {"offsets": 0.25, "residuals": 0.25, "second_moment": 0.5},
}


class FoundItems(NamedTuple):
    """The base of users' models, and sums of users' weights by item."""

    model: ItemModel
    popularity: np.ndarray  # logarithms of the counts
    counts: np.ndarray  # positive


@dataclass(frozen=True)
class RatingsModel(Combination):
    """Offsets of items in two rounds, and factors of what is left of ratings."""

    features: np.ndarray
    n_components: int
    n_jobs: int | None = None
    by_moment: bool = False  # factors of the second moment of residuals, not of tastes
    has_users: bool = True  # users' models follow

    @property
    def _third(self) -> str:
        """Name of the third release, if there is one."""
        if not self.n_factors:
            return ""
        return "second_moment" if self.by_moment else "factors"

    def parts(self) -> dict[str, UserSum]:
        p, k = len(self.features), self.n_factors
        shapes = {"offsets": (2 * p + 3,), "residuals": (p + 1,), "factors": (p, k)}
        shapes["second_moment"] = (p, p)
        squares, jobs = {"second_moment"}, self.n_jobs
        return {
            name: UserSum(name, shapes[name], jobs, symmetric=name in squares)
            for name in self.shares()
        }

    def shares(self) -> dict[str, float]:
        return _SHARES[self._third]

    def remarks(self) -> tuple[str, ...]:
        asked, kept = self.n_components, self.n_factors
        most = "the number of item features (at most 24) plus 2"
        most = "the number of items" if self.by_moment else most
        capped = f"n_components={asked} is capped at {kept}, {most}."
        said = REMARKS if self.has_users else REMARKS[:1]
        return said if kept >= asked else (*said, capped)

    @property
    def n_factors(self) -> int:
        """Number of private factors: at most one for each item, or each taste."""
        most = min(self.features.shape[1], _kernels.MOST_TASTES) + 2
        return min(self.n_components, len(self.features) if self.by_moment else most)

    def run(self, release, rows: UserRatings, progress: Any = None) -> FoundItems:
        """Release all rounds; return the result for the items."""
        step = progress.step if progress else (lambda _: None)
        parts = self.parts()
        columns = _kernels.leading_columns(self.features)
        first = parts["offsets"].run(release, rows, _kernels.centered_contributions)
        step(1)
        found = ItemOffsets(first, columns)
        # What tastes differ in: components of public columns, and popularity.
        shares = found.counts / found.counts.sum()
        popular = _kernels.standardized_by(found.bounded, shares)
        tastes = _kernels.principal_columns(columns, found.counts)
        tastes = np.column_stack([tastes, popular])
        model = _kernels.item_model(found.level, found.offsets, tastes)

        def ask(block: RatingsBlock) -> np.ndarray:
            residuals = residuals_of(block, model)[0]
            return _kernels.residual_contributions(block, residuals)

        found.add_residuals(parts["residuals"].run(release, rows, ask))
        step(2)
        model = model.with_offsets(found.offsets)
        if self._third:
            third = parts[self._third].run(release, rows, self._answer(model))
            factors = self._components if self.by_moment else ItemOffsets.factors
            model = model.with_factors(factors(found, third))
            step(3)
        return FoundItems(model, found.logged, found.counts)

    def _answer(self, model: ItemModel) -> Callable[[RatingsBlock], np.ndarray]:
        """Return what users contribute to the third release."""
        # Public components first, then popularity, then the factor of offsets.
        order = [*range(2, model.features.shape[1]), 1][: self.n_factors]

        def answer(block: RatingsBlock) -> np.ndarray:
            left, weights = residuals_of(block, model)
            if self.by_moment:
                return _kernels.moment_contributions(block, left)
            return _kernels.taste_contributions(block, left, weights[:, order])

        return answer

    def _components(self, found: ItemOffsets, moment: Released) -> np.ndarray:
        """Return components over roots of counts, shrunk by the noise."""
        total, noise_std = moment.total.copy(), moment.noise_std
        # A user's square of one item tells nothing of another one.
        np.fill_diagonal(total, 0.0)
        spread = noise_std / np.sqrt(2.0)
        values, components = eigen.top_eigh(total, self.n_factors, spread)
        noise = noise_std * np.sqrt(2.0 * len(total))
        return _kernels.component_columns(values, components, noise, found.counts)


def residuals_of(
    block: RatingsBlock, model: ItemModel
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a block's users; return residuals and weights."""
    weights = _kernels.user_weights(block, model)
    return _kernels.clip_residuals(model.residuals(block, weights)), weights


# Shares of mu^2.
_CLICKS_ALONE, _CLICKS_AND_PAIRS = {"clicks": 1.0}, {"clicks": 0.5, "pairs": 0.5}
# Items whose pairs are released at most, and at least if there are as many; their
# number beside the root of the number of users times mu, below whose square popularity
# is asked again in place of pairs.
_MOST_HEAD, _LEAST_HEAD, _HEAD_GROWTH, _LEAST_EVIDENCE = 1500, 32, 7.0, 150.0
# Penalties of users' squared weights: on public features and popularity, which also
# says how far tastes for them explain pairs, and what is added for all.
_PUBLIC_RIDGE, _CLICK_RIDGE = 100.0, 0.5
# Pairs have norms of at most this: each stands for two entries of a matrix.
_PAIR_BOUND = math.sqrt(0.5)
# Eigendecompositions, after each of which the squares that are not released are known
# better.
_ROUNDS = 3


@dataclass(frozen=True)
class ClicksModel(Combination):
    """Popularity of items, and factors of clicks beyond popularity."""

    features: np.ndarray
    n_components: int | None  # at most; None for as many as exceed the noise
    n_jobs: int | None = None

    def parts(self) -> dict[str, UserSum]:
        p, jobs = len(self.features), self.n_jobs
        parts = {"clicks": UserSum("clicks", (p + 1,), jobs)}
        if self.has_pairs:
            size = max(self.most_head * (self.most_head + 1) // 2, p + 1)
            how = (size,), jobs, _PAIR_BOUND, "user-sums click-pairs"
            parts["pairs"] = UserSum("pairs", *how)
        return parts

    @property
    def has_pairs(self) -> bool:
        """Whether pairs of items are released; a single item has none."""
        return self.n_components != 0 and len(self.features) > 1

    @property
    def most_head(self) -> int:
        """The largest number of items whose pairs are released."""
        return min(len(self.features), _MOST_HEAD)

    def shares(self) -> dict[str, float]:
        return _CLICKS_AND_PAIRS if self.has_pairs else _CLICKS_ALONE

    def remarks(self) -> tuple[str, ...]:
        return REMARKS

    def run(self, release, rows: UserRatings, progress: Any) -> FoundItems:
        parts, p = self.parts(), len(self.features)
        first = parts["clicks"].run(release, rows, _kernels.click_contributions)
        progress.step(1)
        found, factors = _Popularity(*first), np.zeros((p, 0))
        if self.has_pairs:
            # The size of the answer is public: what it is asked for is released.
            n_head = found.head_size(self.most_head)
            ask = partial(_kernels.click_contributions, scale=_PAIR_BOUND)
            if n_head:
                head = np.argsort(-found.total[:-1], kind="stable")[:n_head]
                how = {"head": head, "popularity": found.direction(head)}
                ask = partial(_kernels.pair_contributions, **how)
            total, noise_std = parts["pairs"].run(release, rows, ask)
            if n_head:
                pairs = eigen.unpack_lower(total, n_head)
                factors = self._factors(found, head, pairs, noise_std)
            else:
                again = total[: p + 1] / _PAIR_BOUND
                mean = 0.5 * (first.total + again)
                found = _Popularity(mean, _PAIR_BOUND * first.noise_std)
            progress.step(2)
        return found.items(self._columns(found), factors)

    def _columns(self, found: _Popularity) -> np.ndarray:
        """Return columns of which tastes are known beforehand, standardized."""
        popular = _kernels.standardized_by(found.logged, found.shares)
        square = _kernels.standardized_by(popular**2, found.shares)
        public = _kernels.leading_columns(self.features)
        return np.column_stack([popular, square, public])

    def _factors(self, found: _Popularity, head, pairs, noise_std) -> np.ndarray:
        """Return what explains pairs of clicks beyond popularity and public tastes."""
        columns, n_head = self._columns(found), len(head)
        columns = columns - found.shares @ columns
        told = pairs[0, 0] * n_head / _kernels.PAIR_SIDE
        size = math.sqrt(max(told, found.n_users))
        shares = found.shares[head] / found.shares[head].sum()
        along = found.direction(head)

        def beyond(values):
            return values - np.outer(along, along @ values)

        known = beyond(columns[head] * shares[:, None] * (size / _PUBLIC_RIDGE**0.5))
        pairs = pairs / _kernels.PAIR_SQUARE
        # Spectral norms of noise and of the sampling of users.
        edge = 2.0 * math.sqrt(n_head * noise_std**2 + found.n_users / n_head)
        squares = inner = np.sum(known * known, axis=1)
        for _ in range(_ROUNDS):
            np.fill_diagonal(pairs, squares)  # squares of users are not released
            rest = beyond(beyond(pairs).T) - known @ known.T
            values, vectors = np.linalg.eigh(rest)
            kept = np.flatnonzero(values > edge)[::-1][: self.n_components]
            sizes = 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0)))
            factors = vectors[:, kept] * np.sqrt(sizes[kept])
            squares = inner + np.sum(factors * factors, axis=1)
        out = np.zeros((len(columns), len(kept)))
        out[head] = factors / (size * shares[:, None])
        return out


class _Popularity(NamedTuple):
    """Released weights of users by item, and a number of users."""

    total: np.ndarray
    noise_std: float

    @property
    def n_users(self) -> float:
        """The number of users, at least 1."""
        return max(float(self.total[-1]) / _kernels.SIDE, 1.0)

    @property
    def logged(self) -> np.ndarray:
        """Logarithms of the weights by item."""
        return _kernels.log_counts(self.total[:-1], self.noise_std)

    @property
    def shares(self) -> np.ndarray:
        """Shares of items in all clicks."""
        return _kernels.click_shares(self.logged)

    def head_size(self, most: int) -> int:
        """Return how many items' pairs stand out of noise; 0 for none."""
        evidence = self.n_users * math.sqrt(2.0) / max(self.noise_std, _LEAST_NOISE)
        if evidence < _LEAST_EVIDENCE:
            return 0
        return min(most, max(_LEAST_HEAD, int(_HEAD_GROWTH * math.sqrt(evidence))))

    def direction(self, head: np.ndarray) -> np.ndarray:
        """Return shares of some items, scaled to unit norm."""
        shares = self.shares[head]
        return shares / np.linalg.norm(shares)

    def items(self, columns: np.ndarray, factors: np.ndarray) -> FoundItems:
        """Return the model of users' tastes for columns and for factors."""
        ridge = np.repeat([_PUBLIC_RIDGE, 1.0], [columns.shape[1], factors.shape[1]])
        columns = np.column_stack([columns, factors])
        features = _kernels.uncorrelated(columns, self.shares, ridge)
        penalties = np.full(len(ridge), _CLICK_RIDGE)
        model = ItemModel(0.0, self.logged, features, penalties)
        return FoundItems(model, self.logged, self.total[:-1])
