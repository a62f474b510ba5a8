"""Private statistic of clicks: popularity of items, then factors in two rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._linalg.per_user import combined_columns
from .._statistics.statistic import Combination
from . import _kernels_models
from ._item_models import REMARKS, FoundItems, ReleasedSum, UserSum, capped
from ._kernels import RatingsBlock, UserRatings
from ._kernels_models import ItemModel, click_shares, click_weights

# Shares of mu^2.
_POPULARITY_ALONE = {"clicks": 1.0}
_WITH_FACTORS = {"clicks": 0.5, "neighbors": 0.2, "factors": 0.3}
# The most popular items, by which the first factors are made.
_ANCHORS = 8
# Penalties of users' squared weights: on public features and popularity, on factors.
_PUBLIC_RIDGE, _FACTOR_RIDGE = 100.0, 10.0
# Noise that is left where there is none, so that quotients are finite.
_LEAST_NOISE = 1e-9
# Weights of a user in the later rounds, in those of the first one.
_GROWTH = _kernels_models.SHARE_ALONE / _kernels_models.SHARE_BESIDE_ONE


@dataclass(frozen=True)
class ClicksModel(Combination):
    """Popularity of items, and factors of what else is clicked with them."""

    item_features: np.ndarray
    n_components: int
    n_jobs: int | None = None

    def parts(self) -> dict[str, UserSum]:
        p = len(self.item_features)
        shapes = {"clicks": (p + 1,)}
        if self.n_components:
            shapes["neighbors"] = (p, min(_ANCHORS, p))
            shapes["factors"] = (p, self.n_tastes)
        return {k: UserSum(k, shape, self.n_jobs) for k, shape in shapes.items()}

    @property
    def n_tastes(self) -> int:
        """Tastes that factors are made by: no more than anchors."""
        return min(self.n_components, _ANCHORS, len(self.item_features))

    def shares(self) -> dict[str, float]:
        return _WITH_FACTORS if self.n_components else _POPULARITY_ALONE

    def remarks(self) -> tuple[str, ...]:
        most = f"the smaller of {_ANCHORS} and the number of items"
        return (*REMARKS, *capped(self.n_components, self.n_tastes, most))

    def run(self, release, rows: UserRatings, progress: Any) -> FoundItems:
        parts = self.parts()
        found = _Popularity.of(
            parts["clicks"].run(release, rows, _kernels_models.click_contributions),
            _kernels_models.leading_columns(
                _kernels_models.public_columns(self.item_features),
                _kernels_models.MOST_TASTES,
            ),
        )
        progress.step(1)
        factors = np.zeros((len(self.item_features), 0))
        if self.n_components:
            rows_of_anchors = _kernels_models.against_anchors(
                found.shares, parts["neighbors"].shape[1]
            )

            clicked = partial(_clicked, rows_of_anchors=rows_of_anchors)
            second = parts["neighbors"].run(release, rows, clicked)
            factors = found.factors(second)
            progress.step(2)
            model, back = found.model(factors)
            # Tastes on factors, in units of what they make of a rating.
            chosen = slice(back.shape[1] - factors.shape[1], None)
            back = (back[:, chosen] * factors.std(axis=0))[
                :, : parts["factors"].shape[1]
            ]

            liked = partial(_liked, model=model, back=back)
            factors = found.factors(parts["factors"].run(release, rows, liked))
            progress.step(3)
        return FoundItems(found.model(factors)[0], found.logged, found.counts)


@dataclass(frozen=True)
class _Popularity:
    """What is known of the items after the first round.

    `counts` (n_items,): positive sums of the weights of users who clicked an item.
    `logged` (n_items,): their logarithms.
    `weight`: typical weight of a user, by clicks.
    `columns` (n_items, d): standardized public features.
    """

    counts: np.ndarray
    logged: np.ndarray
    weight: float
    columns: np.ndarray

    @classmethod
    def of(cls, first: ReleasedSum, columns: np.ndarray) -> _Popularity:
        total, noise_std = first
        released = total[:-1]
        n_users = max(float(total[-1]) / _kernels_models.SIDE, 1.0)
        # The squared norm of each user's weights is the same: the mean of weights, by
        # clicks, is the quotient of two sums over users.
        squared = _kernels_models.SHARE_BESIDE_ONE**2
        weight = min(squared * n_users / max(float(released.sum()), 1.0), 1.0)
        logged = _kernels_models.log_counts(released, noise_std)
        return cls(_kernels_models.positive_counts(released), logged, weight, columns)

    @property
    def shares(self) -> np.ndarray:
        """Shares of items in all clicks."""
        return click_shares(self.logged)

    def factors(self, later: ReleasedSum) -> np.ndarray:
        """Return what tastes add to items, of at most unit variance."""
        total, noise_std = later
        popular = _kernels_models.standardized(self.logged)
        ones = np.ones(len(popular))
        design = np.column_stack([ones, self.columns, popular, popular**2])
        noise = (noise_std / _GROWTH) ** 2 + _LEAST_NOISE
        noise = noise + self.weight / total.shape[1] * self.counts
        return _kernels_models.factors_of(self.counts, total / _GROWTH, design, noise)

    def model(self, factors: np.ndarray) -> tuple[ItemModel, np.ndarray]:
        """Return a model of the items, and what turns weights back to columns."""
        popular = _kernels_models.standardized_by(self.logged, self.shares)
        public = np.column_stack([self.columns, popular, popular**2])
        ridge = [_PUBLIC_RIDGE] * public.shape[1] + [_FACTOR_RIDGE] * factors.shape[1]
        columns = np.column_stack([public, factors])
        features, back = _kernels_models.uncorrelated(
            columns, self.shares, np.array(ridge)
        )
        return ItemModel(0.0, self.logged, features, np.ones(len(ridge))), back


def _clicked(block: RatingsBlock, rows_of_anchors: np.ndarray) -> np.ndarray:
    """Sum users' clicks times those of the most popular items."""
    return _tasted(block, block.products(rows_of_anchors))


def _liked(block: RatingsBlock, model: ItemModel, back: np.ndarray) -> np.ndarray:
    """Sum users' clicks times what their models say of the factors."""
    weights = click_weights(block, model)
    return _tasted(block, combined_columns(weights, back).T)


def _tasted(block: RatingsBlock, tastes: np.ndarray) -> np.ndarray:
    """Sum products of users' clicks, of unit norm, and their unit tastes."""
    return _kernels_models.taste_contributions(block, np.ones(len(block.items)), tastes)
