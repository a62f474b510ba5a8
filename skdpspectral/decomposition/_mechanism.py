"""How principal components are released: a choice by public numbers alone.

From parameters in units of the data to bounds of rows and a mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._statistics.statistic import Statistic
from .._tables.ids import refuse_masked
from ..mechanisms._relations import check_real, check_reals, shown
from ._bounds import RowBounds, Searched
from ._center import SearchedComponents
from ._components import CenteredComponents, PrincipalComponents
from ._covariance import CovarianceComponents
from ._power_steps import TwoStageComponents
from ._second_moment import SecondMoment
from ._spiked import SpikedProjector, UnknownSpikes
from ._strategies import (
    DEFAULT_RANGE,
    NAMED,
    STRATEGIES,
    check_spiked_model,
    check_unbounded,
)

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

    @property
    def unknown_spikes(self) -> bool:
        """Whether it is a model with private variances."""
        return self.spiked and self.signal is None

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
        SearchedComponents, CenteredComponents, SpikedProjector or UnknownSpikes
            Whose ``run`` gives :class:`Components`.
        """
        if self.unknown_spikes:
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
        SearchedComponents or CenteredComponents
            Whose ``run`` gives :class:`Components` too.
        """
        rest = CovarianceComponents(bounds, n_samples, rank, self.norm_range)
        return self._about_center(SecondMoment(bounds, n_samples), rest)

    @staticmethod
    def _about_center(moment: SecondMoment, rest: Any) -> Statistic:
        """A statistic with what its rows are measured from."""
        bounds = moment.bounds
        if isinstance(bounds.origin, Searched):
            return SearchedComponents(moment, rest)
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


# What a choice that is named holds: its defaults.
_DEFAULTS = {name: kind() for name, kind in NAMED.items()}


def design_components(
    mechanism, n_components, n_features: int, covariance: bool, radius=None, **bounded
) -> tuple[RowBounds, ComponentMechanism]:
    """Return how rows are bounded, and how components of them are released.

    Parameters
    ----------
    mechanism : str or object
        As in :class:`~skdpspectral.DPPCA`.
    n_components : int or "auto"
        As in :class:`~skdpspectral.DPPCA`.
    n_features : int
        Public length of a row.
    covariance : bool
        Whether the covariance within the components is released too.
    radius : float or None, default=None
        Public length that projections are clipped to for it.
    **bounded : dict
        `bounds`, `clip_norm`, `center`, `scale` and `search` of :class:`RowBounds`.

    Raises
    ------
    ValueError
        Naming a parameter that is invalid, contradicts another or is of no use.
    """
    name, strategy = name_of(mechanism)
    _check_rank(name, strategy, n_components, n_features)
    if name == "spiked":
        check_unbounded(**bounded)
        # The model states that the mean is zero, or takes it off.
        bounded.update(center="none", search=False)
    rows = RowBounds(n_features, **bounded)
    clipped = rows.clip is not None or radius is not None
    numbers = _read_numbers(
        name, strategy, n_components, rows.unit, covariance, clipped
    )
    return rows, ComponentMechanism(name, **numbers)


def name_of(mechanism) -> tuple[str, BaseEstimator]:
    """Return the name of a choice, and the object that holds its numbers.

    Parameters
    ----------
    mechanism : {"gaussian", "two-stage", "auto"} or object
        As in :class:`~skdpspectral.DPPCA`.

    Raises
    ------
    ValueError
        Naming mechanism.
    """
    if isinstance(mechanism, str) and mechanism in _DEFAULTS:
        return mechanism, _DEFAULTS[mechanism]
    for name, kind in STRATEGIES.items():
        if type(mechanism) is kind:
            return name, mechanism
    raise ValueError(
        f"mechanism must be one of {tuple(NAMED)}, or Gaussian(), TwoStage(), Auto() "
        "or SpikedModel(signal_variance, noise_variance) of "
        f"skdpspectral.decomposition, got {shown(mechanism)}"
    )


def _check_rank(name: str, strategy, n_components, n_features: int) -> None:
    """Refuse what contradicts the mechanism, whatever the number of rows."""
    kind, counted = type(strategy).__name__, n_components != "auto"
    if name == "spiked":
        if not counted:
            raise ValueError(
                'n_components="auto" is not known to mechanism=SpikedModel(...), whose '
                "noise depends on the number of components; give a number"
            )
        check_spiked_model(strategy)
    least = n_components if counted else 1
    if name in ("two-stage", "spiked") and least >= n_features:
        raise ValueError(
            f"mechanism={kind}(...) needs n_components below n_features, got "
            f"n_components={n_components!r} for n_features={n_features}; use "
            'mechanism="gaussian"'
        )


def _read_numbers(
    name: str, strategy, n_components, unit: float, covariance: bool, clipped: bool
) -> dict:
    """Return the public numbers of a mechanism, in units of the bounded rows.

    Parameters
    ----------
    name, strategy : str, object
        As :func:`name_of` gives them.
    n_components : int or "auto"
        As in :class:`~skdpspectral.DPPCA`.
    unit : float
        Units of the data per unit of the bounded rows.
    covariance : bool
        Whether the covariance within the components is released.
    clipped : bool
        Whether it has a public clip.

    Returns
    -------
    dict
        Fields of :class:`ComponentMechanism`.

    Raises
    ------
    ValueError
        If a number is invalid or of no use.
    """
    signal = noise = None
    if not getattr(strategy, "is_private", False):
        signal, noise = _public_variances(strategy, n_components, unit)
    numbers = {"signal": signal, "noise": noise}
    if name == "spiked" and strategy.is_private:
        if covariance:
            raise ValueError(
                'release="covariance" needs public variances of a SpikedModel: state '
                "signal_variance and noise_variance"
            )
        return {"norm_range": _public_range(strategy.norm_range, unit)}
    if name == "spiked":  # whose model has no private lengths
        numbers["calibration"] = strategy.calibration
        numbers["centered"] = strategy.mean == "unknown"
        if strategy.sensitivity_constant is not None:
            constant = check_real("sensitivity_constant", strategy.sensitivity_constant)
            numbers["constant"] = constant
        return numbers
    numbers["norm_range"] = _public_range(strategy.norm_range, unit)
    _check_use(name, strategy, covariance, clipped)
    return numbers


def _check_use(name: str, strategy, covariance: bool, clipped: bool) -> None:
    """Refuse public numbers that nothing uses."""
    kind, searched = type(strategy).__name__, covariance and not clipped
    if name != "gaussian":
        public = (strategy.signal_variance, strategy.noise_variance)
        searched = searched or any(value is None for value in public)
    elif strategy.noise_variance is not None and not covariance:
        raise ValueError(
            f"noise_variance has no use with mechanism={kind}(...) and "
            'release="components"; leave it None'
        )
    if not searched and tuple(map(float, strategy.norm_range)) != DEFAULT_RANGE:
        raise ValueError(
            f"norm_range has no use with mechanism={kind}(...) here, where no private "
            "length is searched for; leave it out"
        )


def _numbers(name: str, value, size: int | None) -> np.ndarray:
    """Return one number or `size` numbers as float64, or an error that names them."""
    refuse_masked(value, name)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iufO" or isinstance(value, (bool, np.bool_)):
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must hold real numbers within float64") from None
    if array.ndim > 1 or (array.ndim == 1 and array.size != size):
        wanted = "a number" if size is None else f"a number or {size} numbers"
        raise ValueError(f"{name} must be {wanted}, got shape {array.shape}")
    if not np.all((array >= SMALLEST) & (array <= LARGEST)):
        raise ValueError(
            f"{name} must lie in [{SMALLEST:g}, {LARGEST:g}]: positive and finite"
        )
    return array


def _public_variances(strategy, n_components, unit: float):
    """Return public variances in squared units of the bounded rows.

    Parameters
    ----------
    strategy : object
        With a `noise_variance`, and a `signal_variance` where it has one.
    n_components : int or "auto"
        How many numbers a `signal_variance` may hold.
    unit : float
        Units of the data per unit of the bounded rows.

    Returns
    -------
    signal : tuple of float or None
        One a component, largest first.
    noise : float or None
        The noise variance.

    Raises
    ------
    ValueError
        If they are no positive numbers.
    """
    signal, noise = getattr(strategy, "signal_variance", None), strategy.noise_variance
    if signal is not None:
        size = None if n_components == "auto" else int(n_components)
        array = _numbers("signal_variance", signal, size)
        array = np.sort(np.broadcast_to(array, size or 1))[::-1] / unit / unit
        signal = tuple(array.tolist())
    if noise is not None:
        noise = float(_numbers("noise_variance", noise, None) / unit / unit)
    return signal, noise


def public_guesses(signal, noise, unit: float) -> tuple[float, float]:
    """Return guessed variances in squared units of the bounded rows."""
    pair = (("signal_variance", signal), ("noise_variance", noise))
    signal_guess, noise_guess = (
        float(within(name, _numbers(name, value, None) / unit / unit))
        for name, value in pair
    )
    return signal_guess, noise_guess


def _public_range(value, unit: float) -> tuple[float, float]:
    """Return the public range of lengths in units of the bounded rows."""
    if value is DEFAULT_RANGE:
        return value[0] / unit, value[1] / unit
    if np.ndim(value) != 1 or len(value) != 2:
        raise ValueError("norm_range must be a pair (low, high) of lengths")
    low, high = _numbers("norm_range", value, 2).tolist()
    if not low < high:
        raise ValueError("norm_range is reversed: low must be below high")
    return low / unit, high / unit
