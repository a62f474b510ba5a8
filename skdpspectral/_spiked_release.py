"""Releases whose guarantee rests on a spiked Gaussian model of the rows.

The sensitivities are bounds that hold with high probability for rows of such a law,
after Cai, Xia and Zha (2024), algorithm 1. For other rows they are no bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from . import _spectral, sensitivity
from ._clipping import clip_rows
from ._components import Components
from .accounting import calibrate_gaussian, split_mu
from .mechanisms import Exact, Gaussian

# From so many features on, the noisy projector is never formed.
WHOLE_ORDER = 2000
# What rows are cut to, so that squares are finite.
_LONGEST = 1e60
# Shares of mu**2 of projector and covariance under exact calibration.
_SHARES = (0.5, 0.5)


@dataclass(frozen=True)
class SpikedReleases:
    """Public description of the releases of a spiked model.

    Parameters
    ----------
    n_samples, n_features : int
        Public shape of the rows.
    signal : tuple of float
        Variances along the components beyond the noise, largest first.
    noise : float
        Noise variance.
    constant : float
        Constant of both sensitivities.
    covariance : bool
        Whether the covariance within the components is released too.
    """

    n_samples: int
    n_features: int
    signal: tuple[float, ...]
    noise: float
    constant: float
    covariance: bool

    def _targets(self) -> list[tuple[str, float, int, float]]:
        """Name, sensitivity, order and size of entries of each release."""
        public = (
            self.signal,
            self.noise,
            self.n_samples,
            self.n_features,
            self.constant,
        )
        change = sensitivity.spiked_projector_sensitivity(*public)
        targets = [("projector", change, self.n_features, 2.0)]
        if self.covariance:
            change = sensitivity.spiked_moment_sensitivity(*public)
            size = 2.0**10 * (max(self.signal) + self.noise)
            targets.append(("model_moment", change, len(self.signal), size))
        return targets

    def mechanisms(self, mu: float) -> tuple:
        """Plan the releases at a total cost of mu, by exact calibration."""
        targets = self._targets()
        if not math.isfinite(mu):
            return tuple(
                Exact(name, (order, order), symmetric=True)
                for name, _, order, _ in targets
            )
        shares = _SHARES if self.covariance else (1.0,)
        return tuple(
            calibrate_gaussian(
                name, change, cost, (order, order), symmetric=True, magnitude=size
            )
            for (name, change, order, size), cost in zip(
                targets, split_mu(mu, shares), strict=True
            )
        )

    def paper_mechanisms(self, epsilon: float, delta: float, mu: float) -> tuple:
        """Plan the releases with the noise of the paper.

        Each gets half of epsilon and of delta, the projector alone too, by the
        classical bound: variances of 8 D^2 log(2.5 / delta) / epsilon^2 off the
        diagonal. `mu` is what epsilon and delta allow in truth; where the bound
        claims more than it keeps, a ValueError is raised.
        """
        if not math.isfinite(epsilon):
            raise ValueError('calibration="paper" needs a finite epsilon')
        factor = math.sqrt(2.0 * 8.0 * math.log(2.5 / delta)) / epsilon
        plan = tuple(
            Gaussian(name, change, factor * change, (order, order), True, 0.0, size)
            for name, change, order, size in self._targets()
        )
        if math.hypot(*(mechanism.mu for mechanism in plan)) > mu:
            raise ValueError(
                'calibration="paper" gives too little noise at this epsilon and delta: '
                'its bound holds for small epsilon alone; use calibration="exact"'
            )
        return plan

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Expected projection distance under the model, to first order."""
        rank = len(self.signal)
        statistical = noise * (signal + noise) / signal**2 / self.n_samples
        private = 0.5 * getattr(plan["projector"], "noise_std", 0.0) ** 2
        squared = 2.0 * rank * (self.n_features - rank) * (statistical + private)
        return math.sqrt(min(squared, 2.0 * min(rank, self.n_features - rank)))

    def squared_error(self, mu: float) -> float:
        """Expected squared distance from the model's subspace, to first order.

        Parameters
        ----------
        mu : float
            Cost of all releases together, by either calibration.

        Returns
        -------
        float
            Of the leading part of a matrix; of a subspace it is at most the largest
            squared distance.
        """
        signal, noise = np.array(self.signal), self.noise
        sampling = float(np.sum(noise / signal * ((signal + noise) / signal)))
        # Both calibrations give all releases equal parts of mu**2.
        targets = self._targets()
        private = targets[0][1] / (mu / math.sqrt(len(targets)))
        rank = len(signal)
        return (self.n_features - rank) * (
            2.0 * sampling / self.n_samples + rank * private * private
        )

    def remarks(self) -> tuple[str, ...]:
        """Sentences about what the guarantee rests on."""
        sentences = (
            "The noise suffices with high probability for independent Gaussian rows "
            "of mean zero with a spiked covariance of the stated variances (or "
            "sub-Gaussian rows with that covariance, which is their variance proxy "
            "too), each replaced by another such row; for other data it is not "
            "differentially private: a single long row can be seen in the result.",
            "The constant of the sensitivities is a choice: no theorem gives it.",
        )
        if self.n_features > WHOLE_ORDER:
            sentences += (
                "The noisy projector is sampled without forming it, and so is not "
                "rounded to a grid.",
            )
        return sentences


def release_spiked(release, spiked: SpikedReleases, X) -> Components:
    """Release what :class:`SpikedReleases` planned.

    Parameters
    ----------
    release : Release
        Charged with the plan.
    spiked : SpikedReleases
        What is released.
    X : array or sparse CSR matrix of shape (n, p)
        Rows, of mean zero under the model.

    Returns
    -------
    Components
        Without a released covariance, variances are those that the model states.
    """
    vectors = release_projector(release, spiked, X)
    values = np.array(spiked.signal) + spiked.noise
    if spiked.covariance:
        within = release_model_moment(release, X, vectors)
        values, vectors = _spectral.leading_first(within, vectors)
        values = np.maximum(values, spiked.noise)
    total = float(values.sum()) + (X.shape[1] - len(values)) * spiked.noise
    return Components(None, vectors, values, total, spiked.noise, 1.0)


def release_projector(release, spiked: SpikedReleases, X) -> np.ndarray:
    """Release the leading eigenvectors of PCA's projector plus noise.

    Parameters
    ----------
    release : Release
        Charged with the plan.
    spiked : SpikedReleases
        What is released.
    X : array or sparse matrix of shape (n, p)
        Rows, of mean zero under the model.

    Returns
    -------
    ndarray of shape (r, p)
        Orthonormal rows, leading first.
    """
    rank, n_features = len(spiked.signal), X.shape[1]
    if n_features <= WHOLE_ORDER:
        return _spectral.top_eigh(release_noisy_projector(release, spiked, X), rank)[1]
    exact = _exact_directions(X, rank)
    normals, degrees = _spectral.band_shapes(n_features, rank)
    return release.sample(
        "projector",
        lambda std, *draws: _spectral.noisy_projector_vectors(exact, std, *draws),
        normals=normals,
        chi_degrees=degrees,
    )


def release_noisy_projector(release, spiked: SpikedReleases, X) -> np.ndarray:
    """Release PCA's projector plus noise: symmetric, of shape (p, p)."""
    exact = _exact_directions(X, len(spiked.signal))
    return release("projector", exact.T @ exact, overwrite=True)


def _exact_directions(X, rank: int) -> np.ndarray:
    """Leading eigenvectors of the second moment, without noise."""
    n_samples, n_features = X.shape
    if n_features <= min(n_samples, WHOLE_ORDER):
        moment = _spectral.blocked_second_moment(X, _finite)
        return _spectral.top_eigh(moment, rank)[1]
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        # What is in memory anyway is cut once, and not in every product.
        return _spectral.top_right_vectors(_finite(X), rank)
    return _spectral.top_right_vectors(X, rank, _finite)


def release_model_moment(release, X, components) -> np.ndarray:
    """Release the second moment of projections, whose rows are not clipped."""
    total = np.zeros((len(components),) * 2, order="F")
    n_rows = _spectral.rows_per_block(X.shape[1])
    for rows in _spectral.row_blocks(X.shape[0], n_rows):
        scores = np.asarray(_finite(X[rows]) @ components.T)
        total += scores.T @ scores
    return release("model_moment", total / X.shape[0])


def _finite(block):
    """Float64 rows whose squares are finite; no sensitivity rests on this cut."""
    return clip_rows(block, _LONGEST)
