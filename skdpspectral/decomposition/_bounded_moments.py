"""Private moments of bounded rows, and their products with columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._base.sklearn_compat import StrOptions
from .._base.strategies import register
from .._linalg import eigen, walks
from .._statistics.row_bounds import (
    CENTERS,
    CENTERS_OF_CLIENTS,
    PrivateMean,
    RowBounds,
    Searched,
    floor_of,
    plan_second_moment,
    weight_of,
)
from .._statistics.statistic import (
    HALF,
    Combination,
    Statistic,
    mean_summation_error,
    pair_order,
)
from .._tables.clipping import clip_rows, normalize_rows
from .._tables.pairs import PairOrder
from ..accounting._gaussian import calibrate_alike
from . import _kernels

register(PrivateMean)
CENTER_CONSTRAINT = [StrOptions(set(CENTERS)), PrivateMean]
CENTER_OF_CLIENTS = [StrOptions(set(CENTERS_OF_CLIENTS)), PrivateMean]


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """One release of the second moment of bounded rows, or half of that of pairs."""

    bounds: RowBounds
    n_samples: int
    name: str = "second_moment"

    def mechanisms(self, mu: float) -> tuple:
        bounds = self.bounds
        size, more = (self.n_samples, bounds.n_features), {"weights": bounds.weights}
        return plan_second_moment(
            self.name, *size, mu, radius=bounds.second_radius, **more
        )

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

    def squared_error(
        self, mu: float, rank: int, signal: float, noise: float, paired: bool = False
    ) -> float:
        """Expected squared projection distance for Gaussian rows, to first order.

        `signal` and `noise` are variances along the components beyond the noise, and
        across them, in units of the bounded rows.
        """
        gap, cross = self._law(rank, signal, noise)
        # Deviation of the noise off the diagonal.
        private = self.bounds.second_radius**2 / (self.n_samples * mu)
        sampling = cross / self.n_samples
        searched = isinstance(self.bounds.origin, Searched)
        if searched and self.bounds.clip is None and not paired:
            # Rows of a normal law are of about the same length.
            edge = 2.0 * math.sqrt(self.bounds.n_features) * private
            private *= max(1.0, floor_of(1.0, edge)) ** 2
        if paired:
            # Of pairs that share rows; exact for clipped differences of normal rows.
            order = pair_order(self.n_samples, self.bounds.n_features)
            sampling *= 1.0 + 0.5 / order.n_shifts
            private /= HALF
        entries = 2.0 * rank * (self.bounds.n_features - rank)
        return entries * (sampling + private**2) / gap**2

    def _law(self, rank: int, signal: float, noise: float) -> tuple[float, float]:
        """Gap, and variance of entries off the diagonal, of bounded Gaussian rows."""
        degrees, clip = self.bounds.n_features - rank, self.bounds.clip
        if clip is None:
            return _kernels.unit_row_moments(signal + noise, noise, rank, degrees)
        spread = rank * (signal + noise) + degrees * noise
        kept = min(1.0, clip**2 / spread)
        return kept * signal, kept**2 * noise * (signal + noise)


@dataclass(frozen=True)
class LayeredMoment(SecondMoment):
    """Second moments of rows of different lengths, at the price of one.

    A row of direction u has a part a_j u u' in the second moment of layer j. The
    squares of a_j sum up to at most 1, so that all layers together have the sensitivity
    of unit rows (:ref:`lemma-layers`). Weights of the layers are chosen once they are
    released: long rows keep their lengths as far as noise allows.
    """

    @property
    def _shape(self) -> tuple[int, int]:
        p = self.bounds.n_features
        return len(LAYERS), p * (p + 1) // 2

    def mechanisms(self, mu: float) -> tuple:
        n, p, shape = self.n_samples, self.bounds.n_features, self._shape
        return calibrate_alike(
            [self.name],
            sensitivity.second_moment_sensitivity(1.0, n),
            mu,
            shape,
            # The packed entries are rounded once more.
            summation_error=2.0 * mean_summation_error(1.0, n, p, self.bounds.weights),
            magnitude=2.0,
            lemma="second-moment",
        )

    def kernel(self, rows: Any, origin: Any, floor: float = 0.0) -> np.ndarray:
        """Packed second moments of the layers; parameters as of one moment."""
        bounds, walk, divisor = self.bounds, walks.RowWalk(), float(rows.shape[0])
        if isinstance(origin, PairOrder):
            longer = math.sqrt(2.0) * floor
            walk = bounds.pairs(origin, partial(in_layers, floor=longer))
            divisor = origin.n_pairs / HALF
        else:
            about = partial(self._about, origin=origin, floor=floor)
            walk = walks.RowWalk(walks.Writing(about))
        size = {"n_features": bounds.n_features, "n_layers": len(LAYERS)}
        sums = walks.reduce_rows(rows, walk, partial(walks.sums_of_layers, **size))
        # In the order of releases, which need no copy then.
        packed = np.empty(self._shape, order="F")
        for row, layer in zip(packed, sums, strict=True):
            eigen.pack_lower(layer, out=row)
        return _weighed(np.multiply, packed, 1.0 / divisor, math.sqrt(2.0) / divisor)

    def _about(self, block, origin, floor, out=None) -> tuple:
        block, own = self.bounds._about(block, origin, out)
        return in_layers(block if own is None else own, floor)

    def release(self, release: Any, exact: np.ndarray, origin: Any) -> np.ndarray:
        """Release what :meth:`kernel` gave; return packed symmetric matrices."""
        released = release(self.name, exact, overwrite=True)
        weight = weight_of(origin)
        return _weighed(np.divide, released, weight, weight * math.sqrt(2.0))


# Squared lengths, in units of the floor, at which rows begin to have a part in another
# layer, and at which they have all of it in one; the weight that they keep in the
# first, and the squared lengths that layers stand for.
_LONG, _KNOTS, _KEPT = 4.0, (32.0, 256.0, 2048.0), 0.3
_MOVED = math.sqrt(1.0 - _KEPT**2)
LAYERS = (1.0, *((knot - _KEPT) / _MOVED for knot in _KNOTS))


def _weighed(ufunc: Any, packed: np.ndarray, on: float, off: float) -> np.ndarray:
    """Multiply or divide packed matrices on and off the diagonal, in place."""
    places = eigen.packed_diagonal(eigen.packed_order(packed))
    diagonal = ufunc(packed[:, places], on)
    ufunc(packed, off, out=packed)
    packed[:, places] = diagonal
    return packed


def in_layers(rows: np.ndarray, floor: float) -> tuple[np.ndarray, ...]:
    """Bounded rows of each layer: all rows in the first, and long ones in others.

    The first are in the memory of `rows`, of shape (b, p) and float64.

    Outer products of long rows have weights in the first layer and in one or two more,
    so that weights times what layers stand for sum up to their squared length. With a
    `floor` of 0 all rows are unit rows of the first layer.
    """
    with np.errstate(all="ignore"):
        # A row that is not finite becomes zero, in any layer.
        squares = np.vecdot(rows, rows) / floor**2 if floor else np.zeros(len(rows))
    rows = normalize_rows(rows, floor=floor, out=rows)
    long = np.flatnonzero(squares > _LONG)
    factors, parts = np.sqrt(layer_weights(squares[long])), [rows]
    for layer in range(1, len(LAYERS)):
        some = np.flatnonzero(factors[:, layer])
        parts.append(rows[long[some]] * factors[some, layer, None])
    rows[long] *= factors[:, 0, None]
    return tuple(parts)


def layer_weights(squares: np.ndarray) -> np.ndarray:
    """Weights in the layers, of long rows of given squared lengths."""
    weights = np.zeros((len(squares), len(LAYERS)))
    # Squares of the weights sum up to at most 1, roundings of all products included.
    below_one = 1.0 - 2.0**-48
    some = squares <= _KNOTS[0]
    weights[some, :2] = _turned(squares[some], *LAYERS[:2])
    for layer in range(1, len(_KNOTS)):
        some = (squares > _KNOTS[layer - 1]) & (squares <= _KNOTS[layer])
        part = (squares[some] - _KEPT) / _MOVED
        turned = _turned(part, *LAYERS[layer : layer + 2])
        weights[some, layer : layer + 2] = _MOVED * turned
        weights[some, 0] = _KEPT
    weights[squares > _KNOTS[-1], :: len(_KNOTS)] = _KEPT, _MOVED
    return below_one * weights


def _turned(squares: np.ndarray, low: float, high: float) -> np.ndarray:
    """Cosines and sines of the least angles for which low cos + high sin = squares."""
    share = np.minimum(squares / math.hypot(low, high), 1.0)
    sine = np.sin(np.clip(math.atan2(high, low) - np.arccos(share), 0.0, math.pi / 2))
    return np.stack([np.sqrt(1.0 - sine**2), sine], axis=1)


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
        radius = self.bounds.second_radius
        # Of half a mean over pairs, whose terms are more.
        terms, weight = (n, walks.rows_per_block(shape[0])), 1.0
        if self.bounds.weights == (HALF,):
            order, weight = pair_order(n, shape[0]), HALF
            terms = order.n_blocks * order.block_rows, order.block_rows
        given = radius, *terms, *shape, LARGEST_DEFECT, walks.BLOCKS_TOGETHER
        error = weight * sensitivity.power_product_error(*given)
        more = {"summation_error": error, "magnitude": 2.0 * radius**2}
        more["lemma"] = "power-product"
        moved = sensitivity.power_product_sensitivity(radius, n, self.width)
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
    `start`, rounds or a covariance begin at a public basis.
    """

    def __init__(
        self,
        moment: SecondMoment,
        rank: int,
        start: bool,
        n_rounds: int,
        covariance: bool,
    ) -> None:
        bounds, n = moment.bounds, moment.n_samples
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
            if not steps:  # within a public basis: all of the budget is for it
                parts, shares = {"within": self.within}, {"within": 1.0}
        super().__init__(parts, shares)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release a round of a given name, with what else is given."""
        return self.rounds.run(release, rows, *given)
