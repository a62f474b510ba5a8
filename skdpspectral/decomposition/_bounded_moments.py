"""Bounded rows of clients: private moments of them, and products with columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .. import sensitivity
from .._linalg import walks
from .._statistics.centered import PAIRED
from .._statistics.moments import plan_second_moment
from .._statistics.statistic import HALF, Combination, Statistic, Terms, pair_order
from .._tables.clipping import clip_rows, make_box, normalize_rows
from .._tables.pairs import PairOrder, PairWalk, row_differences
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Concern, Remark
from . import _kernels

# Weights of released means, by what rows are measured from.
_WEIGHTS = {"none": (1.0,), "pairs": (HALF,), "shared": (1.0, HALF)}

# A clip of rows that are projected, for finite squares: no sensitivity rests on it.
_LONGEST = 1e100


class RowBounds:
    """Bounds and origin of the rows of a fit, from public parameters alone.

    Parameters are those of :class:`~skdpspectral.FederatedDPPCA`.

    `center` is "none", "pairs", or "shared" if clients find one together. `weights` are
    those that a released mean may have: 1 over rows, half over pairs, or both where
    releases choose. `box` is the public box or None, and `unit` its unit in the data's.
    """

    def __init__(self, n_features, *, bounds=None, center="auto"):
        self.n_features = n_features
        self.box = make_box(bounds, n_features, per_feature=False)
        self.unit = 1.0 if self.box is None else float(self.box.unit[0])
        self.center = "pairs" if center == "auto" else center
        self.weights = _WEIGHTS[self.center]

    def _about(self, block, mean, own=None):
        """Rows in units of the box, about a released mean, and memory to reuse."""
        if self.box is not None:
            block = own = self.box.to_unit(block, out=own)
        if mean is not None:
            block = own = np.subtract(block, mean, out=own, dtype=np.float64)
        return block, own

    def for_second_moment(self, block, mean=None, floor: float = 0.0, out=None):
        """Rows about a released mean over their length, or over a released `floor`."""
        block, own = self._about(block, mean, out)
        return normalize_rows(block, floor=floor, out=own)

    def for_projections(self, block, mean=None, out=None):
        """Rows about a released mean whose lengths are kept."""
        block, own = self._about(block, mean, out)
        return clip_rows(block, _LONGEST, out=own)

    def pairs(self, order: PairOrder, then=None) -> PairWalk:
        """Walk over differences of paired rows, in units of the box."""
        row_map = None if self.box is None else self.box.to_unit
        return PairWalk(order, row_map, then=then, difference=row_differences)

    def for_pairs(self, difference, lengths: bool = False, floor: float = 0.0):
        """Signs of differences for the second moment, in place.

        With `lengths`, these are kept, over the root of two: their covariance is that
        of the rows. `floor` is measured as for rows.
        """
        own = None if sparse.issparse(difference) else difference
        if not lengths:
            return normalize_rows(difference, floor=math.sqrt(2.0) * floor, out=own)
        difference *= math.sqrt(0.5)
        return clip_rows(difference, _LONGEST, out=own)

    def blocks(self, X, origin=None) -> Terms:
        """Return blocks of rows about a released point, if any, or of differences."""
        if isinstance(origin, PairOrder):
            walk = self.pairs(origin, partial(self.for_pairs, lengths=True))
            walked = walks.Walked(X, walk)
            return Terms(walked, origin.n_pairs, HALF)
        about = walks.Writing(partial(self.for_projections, mean=origin))
        return Terms(walks.Walked(X, walks.RowWalk(about)), X.shape[0])

    def to_data_units(self, mean):
        """Return a mean in units of the box as a point in units of the data."""
        known = isinstance(mean, np.ndarray)
        mean = mean if known else np.zeros(self.n_features)
        return mean if self.box is None else self.box.midpoint + self.box.unit * mean

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


def weight_of(origin: Any) -> float:
    """Weight of what is released of a mean: half of one over pairs."""
    return HALF if isinstance(origin, PairOrder) else 1.0


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """One release of the second moment of bounded rows, or half of that of pairs."""

    bounds: RowBounds
    n_samples: int
    name: str = "second_moment"

    def mechanisms(self, mu: float) -> tuple:
        size = self.n_samples, self.bounds.n_features
        return plan_second_moment(self.name, *size, mu, weights=self.bounds.weights)

    def kernel(self, rows: Any, origin: Any, floor: float = 0.0) -> np.ndarray:
        """Exact second moment about a released mean, or half of that of pairs."""
        bounds = self.bounds
        if not isinstance(origin, PairOrder):
            about = partial(bounds.for_second_moment, mean=origin, floor=floor)
            return walks.blocked_second_moment(rows, walks.Writing(about))
        walk = bounds.pairs(origin, partial(bounds.for_pairs, floor=floor))
        kernel = partial(walks.sum_of_outer_products, n_features=bounds.n_features)
        moment = walks.reduce_rows(rows, walk, kernel)
        moment /= origin.n_pairs
        moment *= HALF
        return moment

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the second moment about a given mean, None for none, or of pairs.

        A floor of lengths may be given too, as in :meth:`kernel`.
        """
        origin, *floor = given
        return self.release(release, self.kernel(rows, origin, *floor), origin)

    def release(self, release: Any, exact: np.ndarray, origin: Any) -> np.ndarray:
        """Release what :meth:`kernel` gave; its memory is used again."""
        released = release(self.name, exact, overwrite=True)
        if weight_of(origin) != 1.0:
            released /= weight_of(origin)
        return released

    def noise_std(self, plan: Any, origin: Any) -> float:
        """Deviation of the noise off the diagonal of what :meth:`run` gives."""
        planned = getattr(plan[self.name], "noise_std", 0.0)
        return planned / math.sqrt(2.0) / weight_of(origin)


@dataclass(frozen=True)
class ProjectedMoment(Statistic):
    """The second moment of at most `width` projections over their clip radius."""

    name = "projected_moment"

    n_samples: int
    n_features: int
    width: int
    weights: tuple[float, ...] = (1.0,)

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release, of sensitivity sqrt(2) / n; infinite mu for no noise."""
        size, more = (self.n_samples, self.n_features), {"weights": self.weights}
        return plan_second_moment(self.name, *size, mu, width=self.width, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moment, of shape (r, r), in squared units of the rows.

        Given are released orthonormal rows of shape (r, p) and a public or released
        clip radius.
        """
        components, radius = given
        rank = len(components)
        total = np.zeros((self.width, self.width), order="F")
        total[:rank, :rank] = rows.reduce(
            partial(_sum_of_projections, components=components, radius=radius)
        )
        released = rows.undo(release(self.name, total / rows.divisor))
        return released[:rank, :rank] * radius**2


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

    bounds: RowBounds
    n_samples: int
    width: int
    name: str

    def mechanisms(self, mu: float) -> tuple:
        n, shape = self.n_samples, (self.bounds.n_features, self.width)
        # Of half a mean over pairs, whose terms are more.
        terms, weight = (n, walks.rows_per_block(shape[0])), 1.0
        if self.bounds.weights == (HALF,):
            order, weight = pair_order(n, shape[0]), HALF
            terms = order.n_blocks * order.block_rows, order.block_rows
        given = 1.0, *terms, *shape, LARGEST_DEFECT, walks.BLOCKS_TOGETHER
        error = weight * sensitivity.power_product_error(*given)
        more = {"summation_error": error, "magnitude": 2.0}
        more["lemma"] = "power-product"
        moved = sensitivity.power_product_sensitivity(1.0, n, self.width)
        return calibrate_alike([self.name], moved, mu, shape, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the product, of a given mean (or None) and basis."""
        origin, basis = given
        bounds, weight = self.bounds, weight_of(origin)
        if isinstance(origin, PairOrder):
            kernel = partial(_kernels.sum_of_products, columns=basis)
            walk = bounds.pairs(origin, bounds.for_pairs)
            total = walks.reduce_rows(rows, walk, kernel)
            product = weight * (total / origin.n_pairs)
        else:
            about = partial(bounds.for_second_moment, mean=origin)
            product = _kernels.blocked_product(rows, walks.Writing(about), basis)
        released = release(self.name, product)
        return released if weight == 1.0 else released / weight


class PowerIteration(Combination):
    """A second moment to start from, rounds of products, and a covariance.

    Start and rounds cost the same. Products are named ``"power_1"`` and so on. Without
    `start`, rounds begin at a public basis.
    """

    def __init__(
        self,
        moment: SecondMoment,
        rank: int,
        start: bool,
        n_rounds: int,
        covariance: bool,
    ) -> None:
        self.bounds = bounds = moment.bounds
        n = moment.n_samples
        steps: dict[str, Statistic] = {moment.name: moment} if start else {}
        for name in [f"power_{t}" for t in range(1, n_rounds + 1)]:
            steps[name] = PowerProduct(bounds, n, rank, name)
        self.rounds = Combination(steps, dict.fromkeys(steps, 1.0 / max(len(steps), 1)))
        parts: dict[str, Statistic] = {"rounds": self.rounds}
        shares = {"rounds": 1.0}
        self.within = None
        if covariance:
            self.within = ProjectedMoment(n, bounds.n_features, rank, bounds.weights)
            parts, shares = {**parts, "within": self.within}, _ITERATION_SHARES
        super().__init__(parts, shares)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release a round of a given name, with what else is given."""
        return self.rounds.run(release, rows, *given)

    def remarks(self) -> tuple[str, ...]:
        return self.bounds.remarks()
