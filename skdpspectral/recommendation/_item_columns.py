"""What is written for an item: features on scales that one penalty suits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._linalg import recommendation_items as items
from .._linalg.recommendation_models import (
    FACTOR_RIDGE,
    OFFSET_RIDGE,
    TASTE_RIDGE,
    ItemModel,
)

# What stands before the public features: a prediction for the average user, and the
# features that tastes differ in beside public ones.
MEASURES = ("mean", "offset", "popularity")
# The penalty of a user's weights that columns are scaled for, whatever they would cost
# on their own: that of LRSRegressor.
PENALTY = 100.0


@dataclass(frozen=True)
class ItemColumns:
    """What is written for items.

    Parameters
    ----------
    measures : ndarray of shape (n_items, n_measures)
        What comes first.
    public : ndarray of shape (n_items, n_item_features)
        Public features.
    components : ndarray of shape (n_items, n_components)
        Private ones.
    """

    measures: np.ndarray
    public: np.ndarray
    components: np.ndarray

    @property
    def table(self) -> np.ndarray:
        """All columns, side by side."""
        return np.hstack([self.measures, self.public, self.components])


def columns_of_moment(features: np.ndarray, components: np.ndarray) -> ItemColumns:
    """Return public features as they are, and components of unit root mean square."""
    n_items = len(features)
    embedded = components.T * math.sqrt(n_items)
    return ItemColumns(np.zeros((n_items, 0)), features, embedded)


def columns_of_model(
    model: ItemModel, features: np.ndarray, counts, n_factors: int, units
) -> ItemColumns:
    """Return what a model of items rests on, column by column.

    Parameters
    ----------
    model : ItemModel
        Released offsets and factors.
    features : ndarray of shape (n_items, n_item_features)
        Public features, in any units.
    counts : ndarray of shape (n_items,)
        Released sums of weights, positive.
    n_factors : int
        Private factors, the last features of the model.
    units : tuple (middle, quarter)
        Middle of the range of ratings, and a quarter of it.

    Returns
    -------
    ItemColumns
        Means in units of ratings; all others such that ``PENALTY`` suits them.
    """
    middle, quarter = units
    last = model.features.shape[1] - n_factors
    means = middle + quarter * (model.level + model.offsets)
    public = items.measured_columns(items.public_columns(features), counts)
    measures = [
        means,
        _scaled(model.offsets, OFFSET_RIDGE),
        _scaled(model.features[:, last - 1], TASTE_RIDGE),
    ]
    return ItemColumns(
        np.column_stack(measures),
        _scaled(public, TASTE_RIDGE),
        _scaled(model.features[:, last:], FACTOR_RIDGE),
    )


def _scaled(values: np.ndarray, ridge: float) -> np.ndarray:
    """Scale features so that a weight costs ``PENALTY`` as much as `ridge` before."""
    return values * math.sqrt(PENALTY / ridge)


def with_unknown(table: np.ndarray, n_measures: int) -> np.ndarray:
    """Append what is written for items outside the catalog: the average offset."""
    unknown = np.zeros((1, table.shape[1]))
    if n_measures:
        unknown[0, :2] = table[:, :2].mean(axis=0)
    return np.vstack([table, unknown])
