"""Private statistics of items from users' ratings: offsets, factors, second moments.

In every round a user contributes one vector of norm at most one, made from their own
ratings and earlier releases. The sum over users is released with noise. In a second
moment, every user contributes one row of unit norm. Of clicks, popularity of items is
released, then pairs of items beyond popularity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg import eigen
from .._statistics.statistic import Combination, Statistic
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Concern, Mechanism, Neighbors, Remark
from . import _kernels, _kernels_models
from ._kernels import RatingsBlock, UserRatings
from ._kernels_models import (
    STEP,
    ItemModel,
    click_shares,
    item_model,
    user_weights,
)

# Users that sums are exact for.
MOST_RATERS = 2.0**31
# Items for which the norm bound of a contribution holds: terms of a sum.
MOST_ITEMS = 2**26 - 1


class ReleasedSum(NamedTuple):
    """A released sum.

    `noise_std`: standard deviation of the noise; 0 without privacy.
    """

    total: np.ndarray
    noise_std: float

    @classmethod
    def of(cls, release, name: str, total: np.ndarray) -> ReleasedSum:
        """Release an exact sum, which is overwritten."""
        std = getattr(release.plan[name], "noise_std", 0.0)
        return cls(release(name, total, overwrite=True), std)


@dataclass(frozen=True)
class UserSum(Statistic):
    """The sum over users of one vector each, of norm at most `bound`, in whole steps.

    An answer may be shorter than `shape`: zeros follow.
    """

    name: str
    shape: tuple[int, ...]
    n_jobs: int | None = None
    bound: float = 1.0
    lemma: str = "answers"

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the sum: a user moves it by a vector of norm at most `bound`."""
        moved = sensitivity.sum_sensitivity(self.bound, Neighbors.ADD_REMOVE_ONE)
        more = {"magnitude": MOST_RATERS, "lemma": f"user-sums {self.lemma}"}
        return calibrate_alike([self.name], moved, mu, self.shape, **more)

    def run(
        self, release, rows: UserRatings, answer: Callable[[RatingsBlock], np.ndarray]
    ) -> ReleasedSum:
        """Release the sum of what `answer` gives for each block, in whole steps."""
        total = np.zeros(self.shape)
        for steps in rows.map(answer, self.n_jobs):
            total[: len(steps)] += steps
        total *= STEP
        return ReleasedSum.of(release, self.name, total)


# Variance of offsets of items of equal popularity and features, in squares of a quarter
# of the range.
_OFFSET_SPREADS, _TYPICAL_SPREAD = (0.06, 1.0), 0.2
# Noise that is left where there is none, so that quotients are finite.
_LEAST_NOISE = 1e-9
# Of the variance within users at least this share is not that of items.
_LEAST_SHARE = 0.25


@dataclass(frozen=True)
class ItemOffsets:
    """What is known of the items so far; all of it made from releases.

    `counts` (n_items,): positive sums of the weights of users who rated an item.
    `logged`, `bounded` (n_items,): their logarithms, and those within the evidence.
    `offsets`, `variance` (n_items,): posterior means and variances.
    `weight`: typical weight of a user, by ratings.
    `residual`: variance of ratings within users and items.
    `design` (n_items, d): columns of the prior mean.
    `growth`: how much more a user's residuals weigh in the second round.
    """

    counts: np.ndarray
    logged: np.ndarray
    offsets: np.ndarray
    variance: np.ndarray
    level: float
    weight: float
    residual: float
    n_users: float
    bounded: np.ndarray
    design: np.ndarray
    growth: float = 1.0

    def with_residuals(self, second: ReleasedSum) -> ItemOffsets:
        """Add the sums of the second round."""
        total, noise_std = second
        growth = (
            _kernels_models.LARGEST_RATIO
            * total[-1]
            / _kernels_models.SIDE
            / self.n_users
        )
        growth = float(np.clip(growth, 0.5, _kernels_models.LARGEST_RATIO))
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

    def factors(self, third: ReleasedSum) -> np.ndarray:
        """Return what tastes add to items, of at most unit variance."""
        total, noise_std = third
        k = total.shape[1]
        noise = (noise_std / self.growth) ** 2 + _LEAST_NOISE
        noise = noise + self.residual / k * self.weight * self.counts
        return _kernels_models.factors_of(
            self.counts, total / self.growth, self.design, noise
        )


def first_offsets(first: ReleasedSum, columns: np.ndarray) -> ItemOffsets:
    """Estimate offsets from the first round."""
    total, noise_std = first
    n_items = len(columns)
    sums, sides = (
        total[n_items : 2 * n_items],
        total[2 * n_items :] / _kernels_models.SIDE,
    )
    n_users = max(float(sides[0]), 1.0)
    spread = float(np.clip(sides[1] / n_users, 0.05, 0.9))
    level = float(np.clip(sides[2] / n_users, -1.0, 1.0))
    released = total[:n_items]
    counts = _kernels_models.positive_counts(released)
    logged = _kernels_models.log_counts(released, noise_std)
    # Of a user with m ratings m s^2 is the share of the ones in the squared norm: the
    # mean of s, weighted by ratings, is the quotient of the sums over users.
    share = _kernels_models.SHARE_BESIDE_THREE**2 * (1.0 - spread)
    weight = min(share * n_users / max(float(released.sum()), 1.0), 1.0)
    within = spread / (1.0 - spread)
    noise = noise_std**2 + within * weight * counts + _LEAST_NOISE
    evidence = counts**2 / (counts**2 + noise / _TYPICAL_SPREAD)
    bounded = _kernels_models.within_evidence(logged, evidence, 0.1)
    popular = _kernels_models.standardized(bounded)
    design = np.column_stack([np.ones(n_items), columns, popular, popular**2])
    residual, between = within, 0.0
    for _ in range(2):  # the second time with the variance between items known
        noise = (1.0 + between) * noise_std**2 + residual * weight * counts
        noise += _LEAST_NOISE
        found = _kernels_models.shrink(counts, sums, design, noise, _OFFSET_SPREADS)
        between = _kernels_models.weighted_variance(found.values, counts)
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
        bounded,
        design,
    )


# Shares of mu^2.
_TWO_ROUNDS = {"offsets": 0.5, "residuals": 0.5}
_WITH_FACTORS = {"offsets": 0.45, "residuals": 0.45, "factors": 0.1}
REMARKS = (
    Remark("The catalog of items is taken to be public.", Concern.PUBLIC),
    Remark(
        "Models of users stay with their users: predictions for a user in the training "
        "data are for that user only (billboard model).",
        Concern.TRUST,
    ),
)


def capped(asked: int, kept: int, most: str) -> tuple[str, ...]:
    """Return a remark if fewer components are released than requested."""
    if kept >= asked:
        return ()
    return (f"n_components={asked} is capped at {kept}, {most}.",)


class FoundItems(NamedTuple):
    """The result of a fit for the items.

    `model`: base of users' models. `popularity` (n_items,): logarithms of sums of
    users' weights. `counts` (n_items,): these sums, positive.
    """

    model: ItemModel
    popularity: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class RatingsModel(Combination):
    """Offsets of items in two rounds, and factors of tastes.

    `features` (n_items, d): public features of the items.
    `n_components`: tastes whose products with residuals are released.
    """

    _remarks: ClassVar[tuple[str, ...]] = REMARKS

    features: np.ndarray
    n_components: int
    n_jobs: int | None = None

    def parts(self) -> dict[str, UserSum]:
        p, k = len(self.features), self.n_factors
        parts = {
            "offsets": UserSum("offsets", (2 * p + 3,), self.n_jobs),
            "residuals": UserSum("residuals", (p + 1,), self.n_jobs),
        }
        if k:
            parts["factors"] = UserSum("factors", (p, k), self.n_jobs)
        return parts

    def shares(self) -> dict[str, float]:
        return _WITH_FACTORS if self.n_factors else _TWO_ROUNDS

    def remarks(self) -> tuple[str, ...]:
        most = "the number of item features (at most 24) plus 2"
        return (*self._remarks, *capped(self.n_components, self.n_factors, most))

    @property
    def n_factors(self) -> int:
        """Number of private factors, at most that of features in users' models."""
        n_columns = min(self.features.shape[1], _kernels_models.MOST_TASTES)
        return min(self.n_components, n_columns + 2)

    def run(self, release, rows: UserRatings, progress: Any = None) -> FoundItems:
        """Release all rounds; return the result for the items."""
        step = progress.step if progress else (lambda _: None)
        model, found = self._offsets(release, rows, step)
        if self.n_factors:
            model = self._with_factors(release, rows, model, found)
            step(3)
        return FoundItems(model, found.logged, found.counts)

    def _offsets(self, release, rows, step) -> tuple[ItemModel, ItemOffsets]:
        """Release both rounds of offsets."""
        parts = self.parts()
        columns = _kernels_models.leading_columns(
            _kernels_models.public_columns(self.features), _kernels_models.MOST_TASTES
        )
        first = parts["offsets"].run(
            release, rows, _kernels_models.centered_contributions
        )
        step(1)
        found = first_offsets(first, columns)
        tastes = _kernels_models.tastes(columns, found.counts, found.bounded)
        model = item_model(found.level, found.offsets, tastes)

        residuals = partial(_residuals, model=model)
        found = found.with_residuals(parts["residuals"].run(release, rows, residuals))
        step(2)
        return model.with_offsets(found.offsets), found

    def _with_factors(self, release, rows, model: ItemModel, found: ItemOffsets):
        """Release products of residuals and tastes, and add factors from them."""
        # Public components first, then popularity, then the factor of offsets.
        order = [*range(2, model.features.shape[1]), 1][: self.n_factors]

        products = partial(_products, model=model, order=order)
        third = self.parts()["factors"].run(release, rows, products)
        return model.with_factors(found.factors(third))


@dataclass(frozen=True)
class ItemFeatures(RatingsModel):
    """The same releases without users' models: features of items only."""

    _remarks: ClassVar[tuple[str, ...]] = REMARKS[:1]


def _residuals(block: RatingsBlock, model: ItemModel) -> np.ndarray:
    """Sum the residuals of a block's users."""
    return _kernels_models.residual_contributions(block, residuals_of(block, model)[0])


def _products(block: RatingsBlock, model: ItemModel, order: list) -> np.ndarray:
    """Sum products of residuals and tastes."""
    left, weights = residuals_of(block, model)
    return _kernels_models.taste_contributions(block, left, weights[:, order])


def residuals_of(
    block: RatingsBlock, model: ItemModel
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a block's users; return residuals and weights."""
    weights = user_weights(block, model)
    return _kernels_models.clip_residuals(model.residuals(block, weights)), weights


@dataclass(frozen=True)
class ItemMoment(Statistic):
    """The sum over users of x x' for their residuals x, of unit norm."""

    n_items: int

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the sum: a user moves it by a matrix x x' of Frobenius norm 1."""
        return calibrate_alike(
            ["second_moment"],
            sensitivity.projector_sum_sensitivity(Neighbors.ADD_REMOVE_ONE),
            mu,
            (self.n_items, self.n_items),
            symmetric=True,
            magnitude=MOST_RATERS,
            lemma="projector-sums",
        )

    def run(self, release, rows: UserRatings, model: ItemModel) -> ReleasedSum:
        """Release the sum, given users' models."""
        projectors = partial(_projectors, model=model, n_items=self.n_items)
        total = np.zeros((self.n_items, self.n_items), order="F")
        for moment in rows.map(projectors):
            total += moment
        return ReleasedSum.of(release, "second_moment", total)


# Shares of mu^2.
_WITHOUT = {"offsets": 0.5, "residuals": 0.5}
_WITH_MOMENT = {"offsets": 0.25, "residuals": 0.25, "second_moment": 0.5}


def _projectors(block: RatingsBlock, model: ItemModel, n_items: int) -> np.ndarray:
    """Sum outer products of what models of a block's users leave, of unit norm."""
    left = residuals_of(block, model)[0]
    steps = _kernels.unit_steps(block.of_user, block.items, left, n_items)
    return _kernels.second_moment_of_steps(steps)


@dataclass(frozen=True)
class ItemComponents(RatingsModel):
    """Offsets in two rounds, and leading components of the residuals.

    Parameters are those of :class:`RatingsModel`; `n_components` counts components, of
    which there are no more than items.
    """

    _remarks: ClassVar[tuple[str, ...]] = REMARKS[:1]

    @property
    def n_factors(self) -> int:
        """Number of private components after a fit."""
        return min(self.n_components, len(self.features))

    def remarks(self) -> tuple[str, ...]:
        most = "the number of items"
        return (*self._remarks, *capped(self.n_components, self.n_factors, most))

    def parts(self) -> dict[str, Statistic]:  # type: ignore[override]
        named = super().parts()
        parts: dict[str, Statistic] = {name: named[name] for name in _WITHOUT}
        if self.n_factors:
            parts["second_moment"] = ItemMoment(len(self.features))
        return parts

    def shares(self) -> dict[str, float]:
        return _WITH_MOMENT if self.n_factors else _WITHOUT

    def run(self, release, rows: UserRatings, progress: Any = None) -> FoundItems:
        model, found = self._offsets(release, rows, lambda _: None)
        if self.n_factors:
            moment = self.parts()["second_moment"].run(release, rows, model)
            model = model.with_factors(self._components(moment, found.counts))
        return FoundItems(model, found.logged, found.counts)

    def _components(self, moment: ReleasedSum, counts: np.ndarray) -> np.ndarray:
        """Return components over roots of counts, shrunk by the noise."""
        total, noise_std = moment.total.copy(), moment.noise_std
        # A user's square of one item tells nothing of another one.
        np.fill_diagonal(total, 0.0)
        spread = noise_std / np.sqrt(2.0)
        values, components = eigen.top_eigh(total, self.n_factors, spread)
        noise = noise_std * np.sqrt(2.0 * len(total))
        return _kernels_models.component_columns(values, components, noise, counts)


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
    """Popularity of items, and factors of clicks beyond popularity.

    `n_components`: factors at most; None for as many as exceed the noise.
    """

    features: np.ndarray
    n_components: int | None
    n_jobs: int | None = None

    def parts(self) -> dict[str, UserSum]:
        p, jobs = len(self.features), self.n_jobs
        parts = {"clicks": UserSum("clicks", (p + 1,), jobs)}
        if self.has_pairs:
            size = max(self.most_head * (self.most_head + 1) // 2, p + 1)
            how = (size,), jobs, _PAIR_BOUND, "click-pairs"
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
        first = parts["clicks"].run(release, rows, _kernels_models.click_contributions)
        progress.step(1)
        found, factors = _Popularity(*first), np.zeros((p, 0))
        if self.has_pairs:
            # The size of the answer is public: what it is asked for is released.
            n_head = found.head_size(self.most_head)
            ask = partial(_kernels_models.click_contributions, scale=_PAIR_BOUND)
            if n_head:
                head = np.argsort(-found.total[:-1], kind="stable")[:n_head]
                how = {"head": head, "popularity": found.direction(head)}
                ask = partial(_kernels_models.pair_contributions, **how)
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
        popular = _kernels_models.standardized_by(found.logged, found.shares)
        square = _kernels_models.standardized_by(popular**2, found.shares)
        public = _kernels_models.public_columns(self.features)
        most = _kernels_models.MOST_TASTES
        public = _kernels_models.leading_columns(public, most)
        return np.column_stack([popular, square, public])

    def _factors(self, found: _Popularity, head, pairs, noise_std) -> np.ndarray:
        """Return what explains pairs of clicks beyond popularity and public tastes."""
        columns, n_head = self._columns(found), len(head)
        columns = columns - found.shares @ columns
        told = pairs[0, 0] * n_head / _kernels_models.PAIR_SIDE
        size = math.sqrt(max(told, found.n_users))
        shares = found.shares[head] / found.shares[head].sum()
        along = found.direction(head)

        def beyond(values):
            return values - np.outer(along, along @ values)

        known = beyond(columns[head] * shares[:, None] * (size / _PUBLIC_RIDGE**0.5))
        pairs = pairs / _kernels_models.PAIR_SQUARE
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
    """Released weights of users by item, and a number of users.

    `noise_std`: standard deviation of their noise.
    """

    total: np.ndarray
    noise_std: float

    @property
    def n_users(self) -> float:
        """The number of users, at least 1."""
        return max(float(self.total[-1]) / _kernels_models.SIDE, 1.0)

    @property
    def logged(self) -> np.ndarray:
        """Logarithms of the weights by item."""
        return _kernels_models.log_counts(self.total[:-1], self.noise_std)

    @property
    def shares(self) -> np.ndarray:
        """Shares of items in all clicks."""
        return click_shares(self.logged)

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
        features = _kernels_models.uncorrelated(columns, self.shares, ridge)
        penalties = np.full(len(ridge), _CLICK_RIDGE)
        model = ItemModel(0.0, self.logged, features, penalties)
        return FoundItems(model, self.logged, self.total[:-1])
