"""The choice of how principal components are released, by public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...mechanisms import Assumption, PrivacyPlan
from ...mechanisms._numbers import check_real, shown
from ..bounded_moments import RowBounds
from .parameters import LARGEST, SMALLEST, read_numbers, within
from .releases import ComponentReleases
from .spiked_projector import SpikedReleases
from .strategies import STRATEGIES, check_unbounded, resolve_mechanism

_NAMES = tuple(STRATEGIES)
_WAYS = ("exact", "paper")
_CONSTANT = "sensitivity_constant"


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
    """

    name: str = "gaussian"
    signal: tuple[float, ...] | None = None
    noise: float | None = None
    norm_range: tuple[float, float] = (1e-6, 1e6)
    calibration: str = "exact"
    constant: float = 1.0

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
        _check_scaled(self.signal, self.noise, self.norm_range)

    def _own_numbers(self) -> None:
        """Keep floats of its own: a list or an array may be changed by whoever has it.

        What is released, and the byte form of a task, would no longer be the same.
        """
        own = {
            "signal": _floats("signal_variance", self.signal),
            "norm_range": _floats("norm_range", self.norm_range),
            "constant": check_real(_CONSTANT, self.constant),
        }
        if self.noise is not None:
            own["noise"] = check_real("noise_variance", self.noise)
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def spiked(self) -> bool:
        """Whether the guarantee rests on a model of the rows."""
        return self.name == "spiked"

    def releases(self, rows, n_samples: int, rank, covariance: bool, radius=None):
        """Describe what is released of so many rows.

        Parameters
        ----------
        rows : RowBounds
            How rows are bounded.
        n_samples : int
            Public number of rows.
        rank : int or None
            Number of components; None for as many as stand out of the noise.
        covariance : bool
            Whether the covariance within the components is released too.
        radius : float or None, default=None
            Public length that projections are clipped to for the covariance.

        Returns
        -------
        ComponentReleases or SpikedReleases
            Public, as all of its arguments.
        """
        if self.spiked:
            return SpikedReleases(
                n_samples,
                rows.n_features,
                self.signal,
                self.noise,
                covariance,
                self.calibration,
                self.constant,
            )
        return ComponentReleases(
            rows=rows,
            n_samples=n_samples,
            rank=rank,
            mechanism=self.name,
            covariance=covariance,
            signal=None if self.signal is None else sum(self.signal) / len(self.signal),
            noise=self.noise,
            norm_range=self.norm_range,
            radius=radius,
        )

    def plan(
        self, releases, epsilon: float, delta: float, mu: float, **more
    ) -> PrivacyPlan:
        """Plan what :meth:`releases` describes.

        Parameters
        ----------
        releases : ComponentReleases or SpikedReleases
            What is released.
        epsilon, delta : float
            The budget that was asked for.
        mu : float
            What it allows; both are infinite where privacy is opted out.
        **more : dict
            Further fields of the plan: `estimator` and `seeded`.

        Returns
        -------
        PrivacyPlan
            Which says what the guarantee rests on. Its epsilon may be larger than the
            one that was asked for with the noise of the papers alone.

        Raises
        ------
        ValueError
            If the model has no bound for so many rows.
        """
        if not self.spiked:
            mechanisms, remarks = releases.mechanisms(mu), releases.remarks()
            failure = 0.0
        else:
            asked = epsilon
            mechanisms, epsilon = releases.plan(asked, delta)
            remarks = releases.remarks(asked, delta, epsilon)
            failure = releases.failure(asked, delta)
        return PrivacyPlan(
            epsilon=epsilon,
            delta=delta,
            mechanisms=mechanisms,
            assumption=Assumption.SPIKED_GAUSSIAN if self.spiked else Assumption.NONE,
            remarks=remarks,
            failure=failure,
            **more,
        )


def _floats(name: str, values) -> tuple[float, ...] | None:
    return None if values is None else tuple(check_real(name, v) for v in values)


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
        `bounds`, `clip_norm`, `center` and `scale` of :class:`RowBounds`.

    Raises
    ------
    ValueError
        Naming a parameter that is invalid, contradicts another or is of no use.
    """
    name, strategy = resolve_mechanism(mechanism, n_components, n_features)
    if name == "spiked":
        check_unbounded(**bounded)
    rows = RowBounds(n_features, **bounded)
    clipped = rows.clip is not None or radius is not None
    numbers = read_numbers(name, strategy, n_components, rows.unit, covariance, clipped)
    return rows, ComponentMechanism(name, **numbers)


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
