"""A last stage for wide tables: a moment, and a power step from its components."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._linalg import eigen
from .._statistics.moments import Moment, Origin, Rows, bounded, terms_about
from .._statistics.statistic import HALF, mean_summation_error
from .._tables.clipping import clip_rows
from ..accounting import split_mu
from ..accounting._gaussian import calibrate_alike

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

    def across(self, paired: bool, along: float, kept: float = 0.68) -> float:
        """Return the deviation that matters for components of a total variance."""
        first, noise = self.spread(paired), self._noise(paired, along, kept)
        if noise < _QUIET * first:
            return noise
        return first * noise / max(math.hypot(first, noise), 1e-300)

    def _noise(self, paired: bool, along: float, kept: float) -> float:
        noise = getattr(self.step, "noise_std", 0.0) * math.sqrt(along) / kept
        return noise / HALF if paired else noise

    def run(self, release: Any, X: Any, origin: Origin) -> tuple[np.ndarray, float]:
        """Release both; return a matrix of the improved components, and `across`.

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
        noise, product = self._noise(origin.paired, along, kept), product / kept
        across = self.across(origin.paired, along, kept)
        if noise < _QUIET * first:
            rest = (trace - along) / max(p - rank, 1)
            found = np.linalg.qr(product - rest * basis)[0]
            whole = np.tril(matrix) + np.tril(matrix, -1).T  # only half is released
            inner = found.T @ whole @ found - rest * np.eye(rank)
            return rest * np.eye(p) + found @ inner @ found.T, across
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
