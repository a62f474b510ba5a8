"""The model of items: offsets, what is left of them, and factors of tastes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._linalg import recommendation_answers as answers
from ..._linalg import recommendation_items as items
from ..._linalg.recommendation_models import ItemModel, model_of, user_weights
from ..._linalg.recommendation_rows import RatingsBlock, UserRatings
from ..combination import Combination
from .answers import SumOfAnswers
from .offsets import ItemOffsets, first_offsets

# Shares of mu^2.
_TWO_ROUNDS = {"offsets": 0.5, "residuals": 0.5}
_WITH_FACTORS = {"offsets": 0.45, "residuals": 0.45, "factors": 0.1}
REMARKS = (
    "The catalog of items is taken to be public.",
    "Models of users stay with their users: what is predicted for a user of the fit "
    "is for that user alone (billboard model).",
)


class FoundItems(NamedTuple):
    """What a fit leaves of the items.

    Parameters
    ----------
    model : ItemModel
        What users' models rest on.
    popularity : ndarray of shape (n_items,)
        Logarithms of sums of users' weights.
    counts : ndarray of shape (n_items,)
        These sums, positive.
    """

    model: ItemModel
    popularity: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class RatingsModel(Combination):
    """Offsets of items in two rounds, and factors of tastes.

    Parameters
    ----------
    features : ndarray of shape (n_items, d)
        Public features of the items.
    n_components : int
        Tastes whose products with residuals are released.
    n_jobs : int or None, default=None
        Threads.
    """

    features: np.ndarray
    n_components: int
    n_jobs: int | None = None

    def parts(self) -> dict[str, SumOfAnswers]:
        """Return the sums, in the order of their releases."""
        p, k = len(self.features), self.n_tastes
        parts = {
            "offsets": SumOfAnswers("offsets", (2 * p + 3,), self.n_jobs),
            "residuals": SumOfAnswers("residuals", (p + 1,), self.n_jobs),
        }
        if k:
            parts["factors"] = SumOfAnswers("factors", (p, k), self.n_jobs)
        return parts

    def shares(self) -> dict[str, float]:
        """Return shares of mu**2, by the names of parts."""
        return _WITH_FACTORS if self.n_tastes else _TWO_ROUNDS

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return REMARKS

    @property
    def n_tastes(self) -> int:
        """Tastes: no more than there are features of users' models, but the level."""
        n_columns = min(self.features.shape[1], items.MOST_TASTES)
        return min(self.n_components, n_columns + 2)

    def run(self, release, rows: UserRatings, progress: Any = None) -> FoundItems:
        """Release all rounds; return what they leave of the items.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : UserRatings
            Ratings in units of a quarter of their range, from its middle.
        progress : FitProgress or None, default=None
            Told of every release.
        """
        step = progress.step if progress else _nobody_is_told
        model, found = self._offsets(release, rows, step)
        if self.n_tastes:
            model = self._with_factors(release, rows, model, found)
            step(3)
        return FoundItems(model, found.logged, found.counts)

    def _offsets(self, release, rows, step) -> tuple[ItemModel, ItemOffsets]:
        """Release both rounds of offsets."""
        parts = self.parts()
        columns = items.leading_columns(
            items.public_columns(self.features), items.MOST_TASTES
        )
        first = parts["offsets"].run(release, rows, answers.centered_answers)
        step(1)
        found = first_offsets(first, columns)
        tastes = items.tastes(columns, found.counts, found.logged)
        model = model_of(found.level, found.offsets, tastes)

        residuals = partial(_residuals, model=model)
        found = found.with_residuals(parts["residuals"].run(release, rows, residuals))
        step(2)
        return model.with_offsets(found.offsets), found

    def _with_factors(self, release, rows, model: ItemModel, found: ItemOffsets):
        """Release products of residuals and tastes, and add what they tell."""
        # Public components first, then popularity, then the factor of offsets.
        order = [*range(2, model.features.shape[1]), 1][: self.n_tastes]

        products = partial(_products, model=model, order=order)
        third = self.parts()["factors"].run(release, rows, products)
        return model.with_factors(found.factors(third))


@dataclass(frozen=True)
class ItemFeatures(RatingsModel):
    """The same releases for who has no users' models: features of items alone."""

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        return REMARKS[:1]

    @property
    def n_factors(self) -> int:
        """Private components that a fit leaves."""
        return self.n_tastes


def _residuals(block: RatingsBlock, model: ItemModel) -> np.ndarray:
    """Sum what models of a block's users leave."""
    return answers.residual_answers(block, residuals_of(block, model)[0])


def _products(block: RatingsBlock, model: ItemModel, order: list) -> np.ndarray:
    """Sum products of what is left and tastes."""
    left, weights = residuals_of(block, model)
    return answers.taste_answers(block, left, weights[:, order])


def _nobody_is_told(_: int) -> None:
    pass


def residuals_of(
    block: RatingsBlock, model: ItemModel
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a block's users; return what is left of their ratings, and their weights."""
    weights = user_weights(block, model, keep=True)
    return answers.clipped(model.residuals(block, weights)), weights
