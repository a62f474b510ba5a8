"""One release of a second moment of rows or pairs, clipped at a released length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg import eigen
from .._linalg.walks import sums_of_layers
from .._tables.clipping import normalize_rows
from ..accounting._gaussian import calibrate_alike
from .row_bounds import plan_second_moment
from .rows import Rows, Sample, count_shared, squares
from .statistic import HALF

# Squared lengths, in units of a typical one, between which a row's vote is shared so
# that its mean is its squared length; and the squared clips that are compared.
KNOTS = np.array([0, 0.25, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3, 5])
KNOTS = np.append(KNOTS, np.exp2([3, 4, 5, 6, 7, 8, 10, 12, 14]))
_CLIPS = np.append(1e-4, np.exp2(np.arange(-3.0, 10.01, 0.25)))

# Deviations by which votes are seen; weight of what clipping changes, and how much of
# it is harmless; and the most noise that a clip may cause (doc/tables/pca_centers.rst).
_SEEN, _CHANGED, _HARMLESS, _NOISIEST = 2.5, 4.5, 0.04, 0.019


def count_squares(blocks, typical: float) -> np.ndarray:
    """Sum votes of rows for the knots about their squared lengths, times `PARTS`."""
    counts = np.zeros(len(KNOTS))
    for block in blocks:
        with np.errstate(all="ignore"):
            found = np.minimum(squares(block) / typical**2, KNOTS[-1])
        place = np.minimum(np.searchsorted(KNOTS, found, "right"), len(KNOTS) - 1) - 1
        part = (found - KNOTS[place]) / (KNOTS[place + 1] - KNOTS[place])
        counts += count_shared(place + part, len(KNOTS))
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
        if votes[place] > _SEEN * noise:
            last = place
        elif place > last + 1:
            break
    shares = np.maximum(votes, 0.0) * (np.arange(len(votes)) <= last)
    kept = shares * np.minimum(KNOTS, _CLIPS[:, None])
    sums, whole = np.maximum(kept.sum(axis=1), 1e-12), shares * KNOTS
    amp = _CLIPS * shares.sum() / sums
    change = kept / sums[:, None] - whole / max(whole.sum(), 1e-12)
    changed = np.maximum(0.5 * np.abs(change).sum(axis=1) - _HARMLESS, 0.0)
    loss = amp * (p / n_mu) ** (2.0 / 3.0) + _CHANGED * changed**2
    loss[1:][2.0 * np.sqrt(p * amp[1:]) / n_mu > _NOISIEST] = np.inf
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
        spread = max(self.spread(origin.paired), 1e-30)
        edge = eigen.edge_of_noise(spread, self.rows.p)
        length = origin.error / math.sqrt(2.0 * edge)
        if origin.votes is not None:
            clip = clip_of(origin.votes, origin.noise, 1.0 / spread, self.rows.p)
            length = max(length, clip * origin.typical)
        return float(np.clip(length, 1e-60, 1e60)) if length > 0.0 else 0.0

    def run(self, release: Any, X: Any, origin: Origin) -> np.ndarray:
        """Release the matrix about an origin."""
        walked, divisor = terms_about(self.rows, X, origin)
        bound = partial(_bounded, floor=self.length(origin))
        (total,) = walked.reduce(partial(_sums, bound=bound, p=self.rows.p))
        total /= divisor
        released = release(self.mechanism.name, total, overwrite=True)
        released /= HALF if origin.paired else 1.0
        return released


def _bounded(rows, floor: float) -> list:
    own = rows if isinstance(rows, np.ndarray) else None
    return [normalize_rows(rows, floor=floor, out=own)]


def _sums(blocks, bound, p: int) -> tuple:
    return sums_of_layers(map(bound, blocks), p, 1)
