"""Bounded rows of clients: private moments of them, and products with columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg import walks
from .._statistics.centered import PAIRED
from .._statistics.moments import (
    Rows,
    bounded,
    plan_second_moment,
    release_moment,
    terms_about,
)
from .._statistics.statistic import HALF, Combination, Statistic, pair_order
from .._tables.clipping import clip_rows, make_box
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Concern, Remark

# Weights of released means, by what rows are measured from.
_WEIGHTS = {"none": (1.0,), "pairs": (HALF,), "shared": (1.0, HALF)}


class RowBounds:
    """Bounds and origin of the rows of a fit, from public parameters alone.

    Parameters are those of :class:`~skdpspectral.FederatedDPPCA`.

    `center` is "none", "pairs", or "shared" if clients find one together. `weights` are
    those that a released mean may have: 1 over rows, half over pairs, or both where
    releases choose. `box` is the public box or None.
    """

    def __init__(self, n_features, *, bounds=None, center="auto"):
        self.n_features = n_features
        self.box = make_box(bounds, n_features, per_feature=False)
        self.center = "pairs" if center == "auto" else center
        self.weights = _WEIGHTS[self.center]

    def rows(self, n_samples: int = 1) -> Rows:
        """Return the rows of a client."""
        return Rows(n_samples, self.n_features, self.box)

    @property
    def unit(self) -> float:
        """Unit of the box, in that of the data."""
        return self.rows().unit

    def remarks(self) -> tuple[str, ...]:
        """Sentences about what a reader of the guarantee must know."""
        what = "the origin" if self.box is None else "the midpoint of the bounds"
        said = {
            "pairs": PAIRED,
            "shared": "Rows are measured from a private center that the clients find "
            "together, or compared in pairs where it is not accurate enough.",
            "none": f"Variance is measured about {what}; no mean was estimated.",
        }
        sentences = [Remark(said[self.center], Concern.MEASURED)]
        flat = 0 if self.box is None else int(np.sum(self.box.half_widths == 0.0))
        if flat:
            none = f"{flat} features have no extent and count for nothing."
            sentences.append(Remark(none, Concern.MEASURED))
        return tuple(sentences)


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """One release of the second moment of unit rows, or half of that of pairs."""

    rows: Rows
    weights: tuple[float, ...]
    name: str = "second_moment"

    def mechanisms(self, mu: float) -> tuple:
        size = self.rows.n, self.rows.p
        return plan_second_moment(self.name, *size, mu, weights=self.weights)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release it about a given origin, with a given floor of lengths."""
        return release_moment(release, self.name, self.rows, rows, *given)


@dataclass(frozen=True)
class ProjectedMoment(Statistic):
    """The second moment of `width` projections over their clip radius."""

    name = "projected_moment"

    rows: Rows
    width: int
    weights: tuple[float, ...] = (1.0,)

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release, of sensitivity sqrt(2) / n; infinite mu for no noise."""
        size, more = (self.rows.n, self.rows.p), {"weights": self.weights}
        return plan_second_moment(self.name, *size, mu, width=self.width, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moment, of shape (r, r), in squared units of the rows.

        Given are an origin, orthonormal rows of shape (r, p) that were released, and a
        public clip radius.
        """
        origin, components, radius = given
        walked, divisor = terms_about(self.rows, rows, origin)
        kernel = partial(_sum_of_projections, components=components, radius=radius)
        released = release(self.name, walked.reduce(kernel) / divisor)
        return released / (HALF if origin.paired else 1.0) * radius**2


def _sum_of_projections(blocks, components, radius: float) -> np.ndarray:
    """Sum of outer products of projections over their clip radius."""
    total = np.zeros((len(components),) * 2, order="F")
    for block in blocks:
        with np.errstate(all="ignore"):
            scores = clip_rows(np.asarray(block @ components.T) / radius, 1.0)
        total += scores.T @ scores
    return total


# Largest ||Q'Q - I|| of a basis of orthonormal columns.
LARGEST_DEFECT = 2.0**-40
# Shares of mu**2 of the rounds and of a covariance, once a mean is paid.
_ITERATION_SHARES = {"rounds": 1.0 - 0.15, "within": 0.15}


@dataclass(frozen=True)
class PowerProduct(Statistic):
    """The second moment (half of it for pairs) times `width` orthonormal columns."""

    rows: Rows
    weights: tuple[float, ...]
    width: int
    name: str

    def mechanisms(self, mu: float) -> tuple:
        n, shape = self.rows.n, (self.rows.p, self.width)
        # Of half a mean over pairs, whose terms are more.
        terms, weight = (n, walks.rows_per_block(shape[0])), 1.0
        if self.weights == (HALF,):
            order, weight = pair_order(n, shape[0]), HALF
            terms = order.n_blocks * order.block_rows, order.block_rows
        given = 1.0, *terms, *shape, LARGEST_DEFECT, walks.BLOCKS_TOGETHER
        error = weight * sensitivity.power_product_error(*given)
        more = {"summation_error": error, "magnitude": 2.0}
        more["lemma"] = "power-product"
        moved = sensitivity.power_product_sensitivity(1.0, n, self.width)
        return calibrate_alike([self.name], moved, mu, shape, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the product, of a given origin and basis."""
        origin, basis = given
        walked, divisor = terms_about(self.rows, rows, origin)
        product = walked.reduce(partial(sum_of_products, columns=basis)) / divisor
        released = release(self.name, product)
        return released / HALF if origin.paired else released


def sum_of_products(blocks, columns: np.ndarray) -> np.ndarray:
    """Sum x (x'Q) over rows x over their lengths, with `columns` Q."""
    total = np.zeros(columns.shape)
    for rows in bounded(blocks, 0.0):
        total += rows.T @ (rows @ columns)
    return total


class PowerIteration(Combination):
    """A second moment to start from, rounds of products, and a covariance.

    Start and rounds cost the same. Products are named ``"power_1"`` and so on.
    """

    def __init__(
        self,
        bounds: RowBounds,
        n_samples: int,
        rank: int,
        n_rounds: int,
        covariance: bool,
    ) -> None:
        self.bounds = bounds
        rows, weights = bounds.rows(n_samples), bounds.weights
        steps: dict[str, Statistic] = {"second_moment": SecondMoment(rows, weights)}
        for name in [f"power_{t}" for t in range(1, n_rounds + 1)]:
            steps[name] = PowerProduct(rows, weights, rank, name)
        self.rounds = Combination(steps, dict.fromkeys(steps, 1.0 / len(steps)))
        parts: dict[str, Statistic] = {"rounds": self.rounds}
        shares = {"rounds": 1.0}
        self.within = None
        if covariance:
            self.within = ProjectedMoment(rows, rank, weights)
            parts, shares = {**parts, "within": self.within}, _ITERATION_SHARES
        super().__init__(parts, shares)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release a round of a given name, with what else is given."""
        return self.rounds.run(release, rows, *given)

    def remarks(self) -> tuple[str, ...]:
        return self.bounds.remarks()
