"""Offsets of items, and components of what they leave of the ratings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ... import _linalg
from ..._linalg import recommendation as user_item
from ..._linalg import recommendation_items as items
from ..._linalg.recommendation_models import ItemModel
from ..._linalg.recommendation_rows import RatingsBlock, UserRatings
from ..combination import Statistic
from ..item_moment import ItemMoment
from .answers import Answers
from .model import FoundItems, ItemFeatures, residuals_of

# Shares of mu^2.
_WITHOUT = {"offsets": 0.5, "residuals": 0.5}
_WITH_MOMENT = {"offsets": 0.25, "residuals": 0.25, "second_moment": 0.5}


@dataclass(frozen=True)
class ResidualMoment(ItemMoment):
    """The sum over users of x x' for unit rows x of what their models leave."""

    def run(self, release, rows: UserRatings, model: ItemModel) -> Answers:  # type: ignore[override]
        """Release the sum.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : UserRatings
            Ratings of all users.
        model : ItemModel
            Made of earlier releases.
        """
        projectors = partial(_projectors, model=model, n_items=self.n_items)
        total = np.zeros((self.n_items, self.n_items), order="F")
        for moment in rows.map(projectors):
            total += moment
        planned = release.plan["second_moment"]
        released = release("second_moment", total, overwrite=True)
        return Answers(released, getattr(planned, "noise_std", 0.0))


def _projectors(block: RatingsBlock, model: ItemModel, n_items: int) -> np.ndarray:
    """Sum outer products of what models of a block's users leave, of unit norm."""
    left = residuals_of(block, model)[0]
    steps = user_item.unit_steps(block.of_user, block.items, left, n_items)
    return user_item.second_moment_of_steps(steps)


@dataclass(frozen=True)
class ItemComponents(ItemFeatures):
    """Offsets in two rounds, and leading components of the residuals.

    Parameters are those of :class:`ItemFeatures`; `n_components` counts components, of
    which there are no more than items.
    """

    @property
    def n_factors(self) -> int:
        """Private components that a fit leaves."""
        return min(self.n_components, len(self.features))

    def parts(self) -> dict[str, Statistic]:  # type: ignore[override]
        """Return the sums, in the order of their releases."""
        named = super().parts()
        parts: dict[str, Statistic] = {name: named[name] for name in _WITHOUT}
        if self.n_factors:
            moment = ResidualMoment(len(self.features), self.n_factors)
            parts["second_moment"] = moment
        return parts

    def shares(self) -> dict[str, float]:
        """Return shares of mu**2, by the names of parts."""
        return _WITH_MOMENT if self.n_factors else _WITHOUT

    def run(self, release, rows: UserRatings, progress: Any = None) -> FoundItems:
        """Release all rounds; return what they leave of the items."""
        model, found = self._offsets(release, rows, lambda _: None)
        if self.n_factors:
            moment = self.parts()["second_moment"].run(release, rows, model)
            model = model.with_factors(self._components(moment, found.counts))
        return FoundItems(model, found.logged, found.counts)

    def _components(self, moment: Answers, counts: np.ndarray) -> np.ndarray:
        """Return components over roots of counts, without what noise is as large as."""
        total, noise_std = moment.total.copy(), moment.noise_std
        # A user's square of one item tells nothing of another one.
        np.fill_diagonal(total, 0.0)
        spread = noise_std / np.sqrt(2.0)
        values, components = _linalg.top_eigh(total, self.n_factors, spread)
        noise = noise_std * np.sqrt(2.0 * len(total))
        return items.component_columns(values, components, noise, counts)
