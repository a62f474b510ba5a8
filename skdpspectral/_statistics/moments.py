"""Walks over rows about a center or over pairs, and their clipped second moment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg import eigen
from .._linalg.walks import (
    PairOrder,
    PairWalk,
    PoolWalk,
    RowWalk,
    Walked,
    Writing,
    row_differences,
    row_squares,
    sign_differences,
    sum_of_outer_products,
)
from .._tables.clipping import Box, clip_rows, normalize_rows
from ..accounting import split_mu
from ..accounting._gaussian import calibrate_alike
from .statistic import HALF, mean_summation_error, pair_order


class Sample(NamedTuple):
    """Numbers of pools, and of the rows in them, of which `rounding` bounds a mean's.

    It is a bound on the rounding error of the mean of rows in the unit ball.
    """

    pools: int
    n_rows: int
    rounding: float

    @classmethod
    def of(cls, order: PairOrder, wanted: float) -> Sample:
        """Return a sample of about `wanted` rows, or of all of them."""
        pools = order.pools_with(math.ceil(min(wanted, order.n_samples)))
        n_rows, block = order.rows_of(pools), order.block_rows
        terms = (n_rows // block + pools) * block  # blocks may be short
        return cls(pools, n_rows, sensitivity.summation_error(1.0, terms, block))


@lru_cache(maxsize=64)  # without a lock that a forked child could inherit
def _sampling_order(n: int, p: int) -> PairOrder:
    return PairOrder(n, p, 1)


@dataclass(frozen=True)
class Rows:
    """Rows of a table of public shape (n, p), in units of a public `box` if any.

    Samples and pairs are chosen by place alone. With `ranks`, differences are signs.
    """

    n: int
    p: int
    box: Box | None = None
    ranks: bool = False

    @property
    def sampling(self) -> PairOrder:
        """Order of which samples are the first pools; each row has two neighbors."""
        return _sampling_order(self.n, self.p)

    def sample(self, wanted: float) -> Sample:
        """Return a sample of about `wanted` rows, or of all of them."""
        return Sample.of(self.sampling, wanted)

    def about(self, X: Any, center: Any, sample: Sample | None = None) -> Walked:
        """Walk over all rows, or those of a sample, minus a center or None."""
        row_map = Writing(partial(self._minus, center=center))
        if sample is None or sample.n_rows == self.n:
            return Walked(X, RowWalk(row_map, self.sampling.block_rows))
        return Walked(X, PoolWalk(self.sampling, sample.pools, row_map))

    def _minus(self, block, center, out=None):
        if self.box is not None:
            block = out = self.box.to_unit(block, out=out)
        if center is None:  # blocks may be overwritten; sparse ones stay sparse
            if out is None or block is out:
                return block
            center = 0.0
        with np.errstate(over="ignore"):
            return np.subtract(block, center, out=out, dtype=np.float64)

    @property
    def n_pairs(self) -> int:
        """Return the number of pairs of all rows."""
        return pair_order(self.n, self.p).n_pairs

    def differences(self, X: Any, sample: Sample | None = None) -> Walked:
        """Walk over differences of paired rows over the root of two, or their signs."""
        order, pools = pair_order(self.n, self.p), None
        if sample is not None:  # each row is in two pairs of the sample
            order, pools = self.sampling, sample.pools
        unit = None if self.box is None or self.ranks else self.box.to_unit
        signs = sign_differences if self.ranks else row_differences
        return Walked(X, PairWalk(order, unit, pools, _halved, signs))

    @property
    def unit(self) -> float:
        """Return the data units in a unit of the box, where all features have one."""
        return 1.0 if self.box is None else float(self.box.unit[0])

    def to_data(self, center: np.ndarray | None) -> np.ndarray:
        """Return a center, None for the origin, in units of the data."""
        center = np.zeros(self.p) if center is None else center
        if self.box is None:
            return center
        return self.box.midpoint + self.box.unit * center


def _halved(difference):
    difference *= math.sqrt(0.5)
    return difference


def squares(rows) -> np.ndarray:
    """Return squared lengths of rows: infinite on overflow, 0 on underflow."""
    with np.errstate(all="ignore"):
        found = row_squares(rows)
    found[np.isnan(found)] = np.inf
    return found


# A row's vote is shared between two neighbors in so many parts: sums are exact.
PARTS = 1024


def count_shared(places: np.ndarray, size: int) -> np.ndarray:
    """Count numbers from 0 to `size` - 1, each shared between the integers about it.

    The two parts of a number add up to `PARTS`; none is negative.
    """
    places = np.minimum(np.maximum(PARTS * places, 0.0), PARTS * (size - 1) - 1.0)
    places = np.floor(places)
    whole = (places / PARTS).astype(np.intp)  # exact: a power of two
    parts = np.bincount(whole, places - PARTS * whole, size)
    counts = PARTS * np.bincount(whole, minlength=size) - parts
    counts[1:] += parts[:-1]
    return counts


# Squared lengths, in units of a typical one, between which a row's vote is shared so
# that its mean is its squared length; and the squared clips that are compared.
KNOTS = np.array([0, 0.25, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3, 5])
KNOTS = np.append(KNOTS, np.exp2([3, 4, 5, 6, 7, 8, 10, 12, 14]))
_CLIPS = np.append(1e-4, np.exp2(np.arange(-3.0, 10.01, 0.25)))
# Deviations by which votes are seen beside others, and anywhere; the weight of what
# clipping changes; and the most that noise may be, as a share of the variance, where
# rows are not clipped to one length (doc/tables/pca_centers.rst).
SEEN, _CERTAIN, _CHANGED, _NOISIEST = 2.5, 5.0, 80.0, 0.1


def count_squares(blocks, typical: float) -> np.ndarray:
    """Sum votes of rows for the knots about their squared lengths, times `PARTS`."""
    counts = np.zeros(len(KNOTS))
    for block in blocks:
        with np.errstate(all="ignore"):
            found = np.minimum(squares(block) / typical**2, KNOTS[-1])
        places = np.interp(found, KNOTS, np.arange(len(KNOTS)))
        counts += count_shared(places, len(KNOTS))
    return counts


def plan_votes(name: str, mu: float, sample: Sample, paired: bool) -> Any:
    """Plan the release of mean votes; in pairs, a row is in two of them."""
    moved = sensitivity.mean_sensitivity(math.sqrt(0.5), sample.n_rows)
    moved *= 2.0 if paired else 1.0
    more = {"summation_error": 2.0**-50, "lemma": "shared-votes"}
    return calibrate_alike([name], moved, mu, (len(KNOTS),), **more)[0]


def clip_of(votes: np.ndarray, noise: float, n_mu: float, p: int) -> float:
    """Return the length, in typical ones, at which rows are clipped.

    It trades noise, which grows by `amp`, for the distance in total variation between
    the weights that clipped rows and rows as they are have in the moment. The shortest
    clip is that of unit rows.
    """
    last = max(int(np.argmax(votes)), 5)
    for place in range(last + 1, len(votes)):  # a false vote far away would weigh most
        if votes[place] > SEEN * noise:
            last = place
        elif place > last + 1:
            break
    # Rows may be of several kinds.
    last = max([last, *np.flatnonzero(votes > _CERTAIN * noise)])
    shares = np.maximum(votes, 0.0) * (np.arange(len(votes)) <= last)
    kept = shares * np.minimum(KNOTS, _CLIPS[:, None])
    sums, whole = np.maximum(kept.sum(axis=1), 1e-12), shares * KNOTS
    amp = _CLIPS * shares.sum() / sums
    change = kept / sums[:, None] - whole / max(whole.sum(), 1e-12)
    changed = 0.5 * np.abs(change).sum(axis=1)
    loss = amp * p**2 / n_mu + _CHANGED * changed**2
    loss[1:][2.0 * math.sqrt(p) * amp[1:] / n_mu > _NOISIEST] = np.inf
    return math.sqrt(_CLIPS[np.argmin(loss)])


class Origin(NamedTuple):
    """What rows are measured from, in units of the box: a center, or other rows.

    Without a `center` it is the public point. `error` is the length of the center's
    noise, `typical` that of rows, 0 if unknown; `votes` are released ones for squared
    lengths, and `noise` is their deviation.
    """

    center: np.ndarray | None = None
    paired: bool = False
    typical: float = 0.0
    error: float = 0.0
    votes: np.ndarray | None = None
    noise: float = 0.0


def terms_about(rows: Rows, X: Any, origin: Origin):
    """Return the walk over rows about an origin, and the divisor of their sum."""
    if origin.paired:
        return rows.differences(X), rows.n_pairs / HALF
    return rows.about(X, origin.center), float(rows.n)


def plan_second_moment(
    name: str,
    n_samples: int,
    n_features: int,
    mu: float,
    *,
    weights: tuple[float, ...],
    radius: float = 1.0,
    width: int | None = None,
    lemma: str = "second-moment pair-moment sign-moment",
) -> tuple:
    """Plan a second moment of rows of norm at most `radius`; infinite mu for no noise.

    With `width`, it is of projections on so many directions.
    """
    shape, square = (n_features if width is None else width,) * 2, radius**2
    return calibrate_alike(
        [name],
        sensitivity.second_moment_sensitivity(radius, n_samples),
        mu,
        shape,
        symmetric=True,
        summation_error=mean_summation_error(square, n_samples, n_features, weights),
        magnitude=2.0 * square,
        lemma=lemma if width is None else "projected-moment",
    )


@dataclass(frozen=True)
class Moment:
    """The release of a moment; `mechanism` is planned, charged and released as it is.

    Half of the mean over pairs is released: a row is in twice as many terms of it.
    """

    rows: Rows
    mechanism: Any

    @classmethod
    def planned(cls, suffix: str, rows: Rows, mu: float) -> Moment:
        """Plan the release at a cost."""
        named = f"second_moment{suffix}", rows.n, rows.p, mu
        return cls(rows, *plan_second_moment(*named, weights=(1.0, HALF)))

    @property
    def mechanisms(self) -> tuple:
        """Return the planned release."""
        return (self.mechanism,)

    def spread(self, paired: bool) -> float:
        """Return the deviation of the noise off the diagonal of a returned matrix."""
        noise = getattr(self.mechanism, "noise_std", 0.0) / math.sqrt(2.0)
        return noise / HALF if paired else noise

    def length(self, origin: Origin) -> float:
        """Return the length at which rows are clipped; shorter ones keep theirs."""
        spread = max(self.spread(origin.paired), 1e-12)
        edge = eigen.edge_of_noise(spread, self.rows.p)
        length = origin.error / math.sqrt(2.0 * edge)
        if origin.votes is not None:
            clip = clip_of(origin.votes, origin.noise, 1.0 / spread, self.rows.p)
            length = max(length, clip * origin.typical)
        return float(np.clip(length, 1e-60, 1e60)) if length > 0.0 else 0.0

    def run(self, release: Any, X: Any, origin: Origin) -> tuple[np.ndarray, float]:
        """Release the matrix about an origin, and the deviation that matters for it."""
        given = release, self.mechanism.name, self.rows, X, origin
        return release_moment(*given, self.length(origin)), self.spread(origin.paired)


def release_moment(
    release: Any, name: str, rows: Rows, X: Any, origin: Origin, floor: float
) -> np.ndarray:
    """Release the mean outer product of rows about an origin, of length at most 1."""
    walked, divisor = terms_about(rows, X, origin)
    total = walked.reduce(partial(_sum_of_bounded, floor=floor, p=rows.p))
    total /= divisor
    released = release(name, total, overwrite=True)
    released /= HALF if origin.paired else 1.0
    return released


def bounded(blocks, floor: float):
    """Yield rows over their length, or over a released `floor`, in their memory."""
    for rows in blocks:
        own = rows if isinstance(rows, np.ndarray) else None
        yield normalize_rows(rows, floor=floor, out=own)


def _sum_of_bounded(blocks, floor: float, p: int) -> np.ndarray:
    return sum_of_outer_products(bounded(blocks, floor), p)


# Least number of features; most noise of a moment, by p and the rank; its share of
# mu**2; and the noise of a step, in units of that of the moment, below which the step
# alone gives components (doc/tables/pca_mechanisms.rst).
WIDE, _LOUDEST, _FIRST_SHARE, _QUIET = 150, 0.2, 0.4, 0.5


@dataclass(frozen=True)
class PowerStep(Moment):
    """A moment S, and then S U for its components U, from clipped projections of rows.

    Projections of wide rows are short, and so the noise on S U is smaller than on S.
    """

    step: Any = None

    @classmethod
    def of_rank(cls, suffix: str, rows: Rows, mu: float, rank: int, paired: bool):
        """Plan both releases at a total cost, or a moment that noise would hide.

        With `paired`, the first of several branches is of pairs, and has no suffix.
        """
        weight = HALF if paired and not suffix else 1.0
        if rank * rows.p > _LOUDEST * weight * rows.n * mu:
            return Moment.planned(suffix, rows, mu)
        first, second = split_mu(mu, (_FIRST_SHARE, 1.0 - _FIRST_SHARE))
        moved = sensitivity.cross_moment_sensitivity(1.0, 1.0, rows.n)
        error = mean_summation_error(1.0, rows.n, rows.p, (1.0, HALF))
        more = {"summation_error": error, "magnitude": 2.0, "lemma": "cross-moment"}
        named = [f"power_step{suffix}"], moved, second, (rows.p, rank)
        (step,) = calibrate_alike(*named, **more)
        return cls(rows, Moment.planned(suffix, rows, first).mechanism, step)

    @property
    def mechanisms(self) -> tuple:
        """Return the planned releases."""
        return self.mechanism, self.step

    def run(self, release: Any, X: Any, origin: Origin) -> tuple[np.ndarray, float]:
        """Release both; return a matrix of the improved components, and its deviation.

        A quiet step gives components alone, from S less the mean of other eigenvalues.
        Otherwise the step and the moment are averaged by their noise.
        """
        matrix, first = super().run(release, X, origin)
        rank, p = self.step.shape[1], self.rows.p
        values, rows = eigen.top_eigh(matrix, rank, first)
        basis, trace = rows.T, float(np.trace(matrix))
        along = max(float(values.sum()), 1e-12)
        walked, divisor = terms_about(self.rows, X, origin)
        given = {"floor": self.length(origin), "basis": basis / math.sqrt(along)}
        product = walked.reduce(partial(_cross_sum, **given)) / divisor
        product = release(self.step.name, product) * math.sqrt(along)
        product /= HALF if origin.paired else 1.0
        kept = float(np.clip(np.sum(basis * product) / along, 0.2, 1.0))  # by the clip
        noise = getattr(self.step, "noise_std", 0.0) * math.sqrt(along) / kept
        noise, product = noise / (HALF if origin.paired else 1.0), product / kept
        if noise < _QUIET * first:
            rest = (trace - along) / max(p - rank, 1)
            found = np.linalg.qr(product - rest * basis)[0]
            whole = np.tril(matrix) + np.tril(matrix, -1).T  # only half is released
            inner = found.T @ whole @ found - rest * np.eye(rank)
            return rest * np.eye(p) + found @ inner @ found.T, noise
        across = first * noise / max(math.hypot(first, noise), 1e-300)
        change = product - basis @ (basis.T @ product)
        change *= (across / max(noise, 1e-300)) ** 2
        change = change @ basis.T
        return matrix + change + change.T, across


def _cross_sum(blocks, floor: float, basis: np.ndarray) -> np.ndarray:
    """Sum z a' for rows z of norm at most 1 and their clipped projections a."""
    total = np.zeros(basis.shape)
    for rows in bounded(blocks, floor):
        total += rows.T @ clip_rows(np.asarray(rows @ basis), 1.0)
    return total
