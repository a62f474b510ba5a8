"""Statistics of a table: counts of found categories beside scales of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from scipy.special import ndtri

from .. import sensitivity
from .._statistics.feature_scales import FeatureLaw
from .._statistics.place_windows import scales_of_features
from .._statistics.statistic import Combination, Statistic
from ..accounting import calibrate_gaussian, gaussian_mu
from ..accounting._gaussian import MIN_DELTA
from ..mechanisms import Concern, Exact, PrivacyPlan, Remark, ThresholdedGaussian
from ._columns import Table

# Share of delta that covers values of a single row.
FAILURE_SHARE = 0.01

# A category is likely to be found if its noisy count is above the threshold so often.
_LIKELY = 0.9


@dataclass(frozen=True)
class CategoryCounts(Statistic):
    """Counts of the values of several columns, of which frequent ones are released.

    `failure` is the probability that a value which one row alone has is released.
    """

    n_samples: int
    n_columns: int
    failure: float
    name: str = "categories"

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        shape = (self.n_columns, 2)
        if not math.isfinite(mu):
            return (Exact(self.name, shape),)
        return (self._thresholded(mu),)

    def _thresholded(self, mu: float) -> ThresholdedGaussian:
        moved = sensitivity.category_counts_sensitivity(self.n_columns)
        return calibrate_thresholded(
            self.name, moved, mu, self.n_columns, self.n_samples, self.failure
        )

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Say, from public numbers, if no category can be found."""
        counts = plan[self.name]
        if isinstance(counts, Exact):
            return ()
        likely = counts.threshold + float(ndtri(_LIKELY)) * counts.noise_std
        if likely < self.n_samples:
            return ()
        said = (
            f"no category can be found: of {self.n_samples} rows, {likely:.0f} would "
            "have to share a value; take more rows, fewer columns or a larger epsilon, "
            "or give public categories"
        )
        return (said,)

    def run(self, release: Any, rows: Any, *given: Any) -> list[dict[str, float]]:
        """Release the frequent values of given columns of a table."""
        (columns,) = given
        counts = [rows.counts(column) for column in columns]
        return release.above_threshold(self.name, counts)


def calibrate_thresholded(
    name: str, moved: float, mu: float, n_columns: int, n_samples: int, failure: float
) -> ThresholdedGaussian:
    """Return counts whose charged cost is at most `mu`, and hide values of one row."""
    shape = (n_columns, 2)
    counts = calibrate_gaussian(name, moved, mu, shape, magnitude=float(n_samples))
    threshold = sensitivity.category_threshold(counts.noise_std, n_columns, failure)
    return ThresholdedGaussian(
        name,
        moved,
        counts.noise_std,
        shape,
        magnitude=float(n_samples),
        # Noise is rounded to the grid before it is compared.
        threshold=threshold + counts.grid,
    )


class TableLaw(NamedTuple):
    """What is released of a table: laws of numbers, counts of categories by column."""

    numbers: FeatureLaw | None
    categories: list[dict[str, float]]


@dataclass(frozen=True)
class TableStatistics(Combination):
    """Scales of numbers, and categories of columns, within one budget.

    Each number and each column with categories has the same share of mu**2.
    """

    n_samples: int
    n_numbers: int
    n_columns: int
    epsilon: float
    delta: float

    @property
    def failure(self) -> float:
        """Part of delta that covers values of a single row."""
        covered = self.n_columns > 0 and math.isfinite(self.epsilon)
        return FAILURE_SHARE * self.delta if covered else 0.0

    @property
    def mu(self) -> float:
        """Cost of all releases."""
        return gaussian_mu(self.epsilon, self.delta - self.failure)

    def parts(self) -> Mapping[str, Statistic]:
        """Return the statistics, in the order of their releases."""
        parts: dict[str, Statistic] = {}
        if self.n_numbers:
            mu = math.sqrt(self.shares()["numbers"]) * self.mu
            parts["numbers"] = scales_of_features(
                self.n_samples, self.n_numbers, mu, holes=True
            )
        if self.n_columns:
            shape = (self.n_samples, self.n_columns)
            parts["categories"] = CategoryCounts(*shape, self.failure)
        return parts

    def shares(self) -> Mapping[str, float]:
        """Return the shares of mu**2, by numbers of features."""
        total = self.n_numbers + self.n_columns
        share = self.n_numbers / total if total else 1.0
        return {"numbers": share, "categories": 1.0 - share}

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all that is released; a part of delta covers values of single rows."""
        if delta - self.failure < MIN_DELTA or 0.0 < self.failure < MIN_DELTA:
            raise ValueError(
                f"delta={delta:g} is too small for categories to be found: take at "
                f"least {MIN_DELTA / FAILURE_SHARE:g}, or give public categories"
            )
        mechanisms = self.mechanisms(gaussian_mu(epsilon, delta - self.failure))
        return PrivacyPlan(
            epsilon,
            delta,
            mechanisms,
            remarks=self.remarks(),
            failure=self.failure,
            **named,
        )

    def remarks(self) -> tuple[str, ...]:
        """Return sentences for the statement of the guarantee."""
        public = Remark("Column names and dtypes are public.", Concern.PUBLIC)
        if not self.n_columns:
            return (*super().remarks(), public)
        return (
            *super().remarks(),
            "Which values are categories is part of what is released.",
            public,
        )

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return warnings about numbers and categories, from public numbers."""
        found = list(super().caveats(plan))
        if self.n_numbers:
            found.extend(self.parts()["numbers"].unseen_features(plan))
        return tuple(found)

    def run(self, release: Any, rows: Table, *given: Any) -> TableLaw:
        """Release scales of the numbers of a table, then categories of columns."""
        (columns,) = given
        parts, numbers, categories = self.parts(), None, list[dict[str, float]]()
        if self.n_numbers:
            numbers = parts["numbers"].run(release, rows.numbers())
        if self.n_columns:
            categories = parts["categories"].run(release, rows, columns)
        return TableLaw(numbers, categories)
