"""How principal components are released: a choice by public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...mechanisms._numbers import check_real, check_reals, shown
from ..combination import Statistic
from ..row_bounds import RowBounds
from ..searched_center import Searched
from ..second_moment import SecondMoment
from .covariance_components import CovarianceComponents
from .principal_components import CenteredComponents, PrincipalComponents
from .spiked_projector import SpikedProjector
from .strategies import DEFAULT_RANGE, STRATEGIES
from .two_stage import TwoStageComponents
from .unknown_spikes import UnknownSpikes

_NAMES = tuple(STRATEGIES)
_WAYS = ("exact", "paper")
_CONSTANT = "sensitivity_constant"
# Variances whose ratios and products float64 arithmetic can handle.
SMALLEST, LARGEST = 1e-60, 1e60


@dataclass(frozen=True)
class ComponentMechanism:
    """A mechanism and its public parameters, in units of the bounded rows.

    Parameters
    ----------
    name : {"gaussian", "two-stage", "auto", "spiked"}, default="gaussian"
        The mechanism, as in :class:`~skdpspectral.DPPCA`.
    signal : tuple of float or None, default=None
        Public variances along the components beyond the noise, largest first; None
        for private ones.
    noise : float or None, default=None
        Public variance across the components; None for a private one.
    norm_range : tuple (low, high), default=(1e-6, 1e6)
        Public range of private lengths.
    calibration : {"exact", "paper"}, default="exact"
        How noise is made from a budget; "paper" is for a model.
    constant : float, default=1.0
        Constant of the papers' formulas, for "paper".
    centered : bool, default=False
        Whether a model knows no mean, and rows are measured about their own.
    """

    name: str = "gaussian"
    signal: tuple[float, ...] | None = None
    noise: float | None = None
    norm_range: tuple[float, float] = DEFAULT_RANGE
    calibration: str = "exact"
    constant: float = 1.0
    centered: bool = False

    def __post_init__(self) -> None:
        chosen = {"mechanism": (self.name, _NAMES)}
        chosen["calibration"] = (self.calibration, _WAYS)
        for parameter, (value, known) in chosen.items():
            if not isinstance(value, str) or value not in known:
                raise ValueError(
                    f"{parameter} must be one of {known}, got {shown(value)}"
                )
        self._own_numbers()
        if not 0.0 < self.constant < LARGEST:
            raise ValueError(
                f"{_CONSTANT} must be positive and below {LARGEST:g}, got "
                f"{self.constant}"
            )
        # What changes no release makes no other mechanism, nor another task.
        if self.calibration == "paper" and not self.spiked:
            raise ValueError('calibration="paper" is for a spiked model alone')
        if self.calibration != "paper" and self.constant != 1.0:
            raise ValueError(f'{_CONSTANT} is for calibration="paper" alone')
        if self.centered and not self.spiked:
            raise ValueError('mean="unknown" is for a spiked model alone')
        _check_scaled(self.signal, self.noise, self.norm_range)

    def _own_numbers(self) -> None:
        """Keep floats of its own: a list or an array may be changed by whoever has it.

        What is released, and the byte form of a task, would no longer be the same.
        """
        own: dict = {
            "norm_range": check_reals("norm_range", self.norm_range),
            "constant": check_real(_CONSTANT, self.constant),
        }
        if self.signal is not None:
            own["signal"] = check_reals("signal_variance", self.signal)
        if self.noise is not None:
            own["noise"] = check_real("noise_variance", self.noise)
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def spiked(self) -> bool:
        """Whether the guarantee rests on a model of the rows."""
        return self.name == "spiked"

    def statistic(
        self,
        bounds: RowBounds,
        n_samples: int,
        rank: int | None,
        covariance: bool,
        radius: float | None = None,
        sparing: bool = False,
    ) -> Statistic:
        """Return what is released of so many rows: public, as all of its arguments.

        Parameters
        ----------
        bounds : RowBounds
            How rows are bounded.
        n_samples : int
            Public number of rows.
        rank : int or None
            Number of components; None for as many as stand out of the noise.
        covariance : bool
            Whether the covariance within the components is released too.
        radius : float or None, default=None
            Public length that projections are clipped to for the covariance.
        sparing : bool, default=False
            Whether a choice may leave private lengths out where noise drowns them: not
            where others are sent them.

        Returns
        -------
        Searched, CenteredComponents, SpikedProjector or UnknownSpikes
            Whose ``run`` gives :class:`Components`.
        """
        if self.spiked and self.signal is None:
            return UnknownSpikes(bounds, n_samples, int(rank or 1), self.norm_range)
        if self.spiked:
            return SpikedProjector(
                bounds,
                n_samples,
                self.signal,
                self.noise,
                covariance,
                self.calibration,
                self.constant,
                self.centered,
            )
        moment, more = SecondMoment(bounds, n_samples), (self.norm_range, radius)
        rest: PrincipalComponents
        if self.name == "gaussian":
            rest = PrincipalComponents(moment, rank, covariance, self.noise, *more)
        else:
            along = self.signal
            signal = None if along is None else sum(along) / len(along)
            law, choose = (signal, self.noise), self.name == "auto"
            ways = choose, sparing
            rest = TwoStageComponents(moment, rank, covariance, *law, *more, *ways)
        return self._about_center(moment, rest)

    @property
    def whole(self) -> bool:
        """Whether a covariance is that of all features, and not that of a model."""
        return self.name == "gaussian" and self.noise is None

    def covariance(
        self, bounds: RowBounds, n_samples: int, rank: int | None
    ) -> Statistic:
        """Return the release of a whole covariance, with its components.

        Parameters
        ----------
        bounds, n_samples, rank
            As for :meth:`statistic`.

        Returns
        -------
        Searched or CenteredComponents
            Whose ``run`` gives :class:`Components` too.
        """
        rest = CovarianceComponents(bounds, n_samples, rank, self.norm_range)
        return self._about_center(SecondMoment(bounds, n_samples), rest)

    @staticmethod
    def _about_center(moment: SecondMoment, rest: Any) -> Statistic:
        """A statistic with what its rows are measured from."""
        bounds = moment.bounds
        if bounds.searched:
            return Searched(moment, rest)
        return CenteredComponents(bounds, moment.n_samples, rest)


def within(name: str, array: np.ndarray) -> np.ndarray:
    """Refuse variances that the units of the bounds carry out of range."""
    if not np.all((array >= SMALLEST**2) & (array <= LARGEST**2)):
        raise ValueError(f"{name} is out of range in units of the bounds")
    return array


def _check_scaled(signal, noise, norm_range) -> None:
    """Refuse variances and a range, in units of the bounded rows, of no use."""
    if signal is not None:
        values = np.asarray(signal, dtype=np.float64)
        if values.ndim != 1 or not values.size or np.any(np.diff(values) > 0.0):
            raise ValueError("signal_variance must be sorted, largest first")
        within("signal_variance", values)
    if noise is not None:
        within("noise_variance", np.asarray(noise, dtype=np.float64))
    low, high = norm_range
    if not SMALLEST**1.5 <= low < high <= LARGEST**1.5:
        raise ValueError("norm_range is out of range in units of the bounds")
