"""A private shifted power step with two-sided clipping: the second of two stages."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from ... import _linalg, sensitivity
from ..._tables.clipping import clip_rows
from ...accounting import calibrate_gaussian, split_mu
from ...mechanisms import Exact
from ..combination import Statistic
from ..terms import summation_error

# Shares of mu**2 of the cross moment and the two moments of projections.
_SHARES = (0.95, 0.03, 0.02)
# The wider clip of projections, in units of the narrow one.
_WIDE = 3.0
# Floors of released eigenvalues, in units of what they are for equal variances: at
# least, and at most where the noise on them is larger.
_LOWEST_FLOOR, _HIGHEST_FLOOR = 0.05, 0.5


@dataclass(frozen=True)
class PowerStep(Statistic):
    """The releases of one shifted power step, and the better components of them.

    With projections a, narrow clip alpha, wide clip abar, and clipped residuals beta
    of a row, all over their clip radii, the means of beta alpha', abar alpha' and
    abar abar' are released: normalized statistics, whose sensitivities are public
    whatever the radii are.

    Parameters
    ----------
    n_samples : int
        Public number of rows.
    n_features : int
        Length of a row.
    width : int
        Columns that are planned for; statistics of fewer are padded with zeros.
    paired : bool or None, default=False
        Whether the terms are pairs of rows, of whose mean half is released; None where
        releases tell.
    """

    n_samples: int
    n_features: int
    width: int
    paired: bool | None = False

    def mechanisms(self, mu: float) -> tuple:
        """Plan the releases at a total cost of mu."""
        tall, square = (self.n_features, self.width), (self.width, self.width)
        names = ("cross_moment", "weighted_moment", "wide_moment")
        if not math.isfinite(mu):
            cross, *squares = names
            return (
                Exact(cross, tall),
                *(Exact(name, square, symmetric=True) for name in squares),
            )
        # Norms of beta alpha', abar alpha', abar abar'.
        norms = (1.0, _WIDE, _WIDE**2)
        n = self.n_samples
        moved = (
            sensitivity.cross_moment_sensitivity(1.0, 1.0, n),
            sensitivity.second_moment_sensitivity(math.sqrt(_WIDE), n),
            sensitivity.second_moment_sensitivity(_WIDE, n),
        )
        return tuple(
            calibrate_gaussian(
                name,
                change,
                cost,
                shape,
                symmetric=shape == square and name != names[0],
                summation_error=summation_error(norm, n, self.n_features, self.paired),
                magnitude=2.0 * norm,
            )
            for name, change, cost, shape, norm in zip(
                names,
                moved,
                split_mu(mu, _SHARES),
                (tall, square, square),
                norms,
                strict=True,
            )
        )

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the moments, and return better components.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : Terms
            Blocks of rows, or of differences, of which the bounds are made here.
        *given : components, signal, noise
            Released orthonormal rows of shape (r, p) to start from; released or public
            variances along them beyond the noise, and across them.

        Returns
        -------
        ndarray of shape (r, p)
            Orthonormal rows.
        """
        components, signal, noise = given
        rank = len(components)
        inner, outer = self.radii(rank, signal, noise)
        parts = {"components": components, "inner": inner, "outer": outer}
        sums = rows.reduce(functools.partial(_sums_of_moments, **parts))
        cross, weighted, wide = (total / rows.divisor for total in sums)
        cross = rows.undo(_padded(release, "cross_moment", cross)[:, :rank])
        weighted = rows.undo(_padded(release, "weighted_moment", weighted))
        wide = rows.undo(_padded(release, "wide_moment", wide))
        cross = cross * (inner * outer)
        weighted = weighted[:rank, :rank] * inner**2
        wide = wide[:rank, :rank] * inner**2
        sizes = (_clipped_moments(rank)[1] * (signal + noise), signal)
        floors = [
            _floor(release.plan[name], size, rank, inner / math.sqrt(rows.weight))
            for name, size in zip(
                ("weighted_moment", "wide_moment"), sizes, strict=True
            )
        ]
        return _linalg.shifted_power_step(
            components,
            cross,
            _linalg.floor_eigenvalues(weighted, floors[0]),
            _linalg.floor_eigenvalues(wide, noise + floors[1]),
            noise,
        )

    def radii(self, rank: int, signal: float, noise: float) -> tuple[float, float]:
        """Clip radii of projections and residuals, from released variances."""
        degrees = max(self.n_features - rank, 1)
        inner = math.sqrt(rank * (signal + noise))
        outer = math.sqrt(noise * (degrees + 0.5 * math.sqrt(2.0 * degrees)))
        return inner, outer

    def squared_error(self, mu, rank, signal, noise, start) -> float:
        """Expected squared projection distance of the step's result, to first order.

        Parameters
        ----------
        mu : float
            Cost of the step.
        rank : int
            Number of components.
        signal, noise : float
            Variances along the components beyond the noise, and across them.
        start : float
            Squared distance of the start.

        Returns
        -------
        float
            For Gaussian rows; of statistical and private error.
        """
        variance, n = signal + noise, self.n_samples
        inner, outer = self.radii(rank, signal, noise)
        narrow, weighted = _clipped_moments(rank)
        costs = split_mu(mu, _SHARES)
        cross = sensitivity.cross_moment_sensitivity(inner, outer, n) / costs[0]
        scale = variance / (signal * weighted * variance)
        first = (noise * narrow * variance / n + cross**2) * scale**2
        degrees = self.n_features - rank
        # Errors of the factors that a correction of the size of the start gets.
        bound = sensitivity.second_moment_sensitivity(inner, n)
        error_weighted = _WIDE * bound / costs[1] / (weighted * variance)
        error_wide = _WIDE**2 * bound / costs[2] * noise / (variance * signal)
        factor = error_weighted**2 + error_wide**2
        return 2.0 * rank * degrees * first + start * rank * factor


@functools.cache
def _clipped_moments(rank: int) -> tuple[float, float]:
    """E|alpha|^2 and E[abar'alpha] per direction for normal projections of variance 1.

    The clip radii are the root of the rank, and three times that.
    """
    levels = (np.arange(1000) + 0.5) / 1000
    squares = 2.0 * gammaincinv(0.5 * rank, levels)
    narrow = np.minimum(squares, rank)
    weighted = np.sqrt(np.minimum(squares, _WIDE**2 * rank) * narrow)
    return float(narrow.mean()) / rank, float(weighted.mean()) / rank


def _floor(mechanism, size: float, rank: int, inner: float) -> float:
    """Floor of eigenvalues that are of a given size, by the public noise on them."""
    noisy = getattr(mechanism, "noise_std", 0.0) * math.sqrt(2.0 * rank) * inner**2
    return min(max(noisy, _LOWEST_FLOOR * size), _HIGHEST_FLOOR * size)


def _padded(release, name: str, value: np.ndarray) -> np.ndarray:
    """Release a statistic in the corner of an array of the planned shape."""
    out = np.zeros(release.plan[name].shape, order="F")
    out[tuple(map(slice, value.shape))] = value
    return release(name, out, overwrite=True)


def _sums_of_moments(blocks, components, inner: float, outer: float):
    """Sums of beta alpha', abar alpha' and abar abar', of norms at most 1, 3, 9."""
    rank, n_features = components.shape
    cross = np.zeros((n_features, rank))
    weighted, wide = np.zeros((rank, rank)), np.zeros((rank, rank))
    for rows in blocks:
        alpha, middle, far, beta = _clipped_parts(rows, components, inner, outer)
        cross += beta.T @ alpha
        weighted += middle.T @ middle
        wide += far.T @ far
    return cross, weighted, wide


def _clipped_parts(rows, components, inner: float, outer: float):
    """Parts of rows over their clip radii; what is not finite becomes zero.

    The second part has the outer product abar alpha', and a norm of at most the root
    of 3.
    """
    with np.errstate(all="ignore"):
        scores = np.asarray(rows @ components.T)
        far = clip_rows(scores / inner, _WIDE)
        beta = clip_rows(_linalg.residual(rows, scores, components) / outer, 1.0)
        alpha = clip_rows(far, 1.0)
        lengths = np.linalg.norm(far, axis=1, keepdims=True)
        middle = far / np.sqrt(np.maximum(lengths, 1.0))
    return alpha, clip_rows(middle, math.sqrt(_WIDE)), far, beta
