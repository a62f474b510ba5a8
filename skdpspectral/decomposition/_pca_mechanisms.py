"""How principal components are released: choices of a mechanism, by public numbers.

Choices hold numbers in units of the data, statistics in units of the bounded rows. Of
clients, a `ComponentMechanism` holds these numbers in a task.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register
from .._tables.columns import as_numbers, refuse_masked
from ..mechanisms import Assumption, check_real, shown
from ._bounded_moments import RowBounds
from ._spiked import SpikedProjector, UnknownSpikes

DEFAULT_RANGE = (1e-6, 1e6)

# Kinds alone: the numbers are checked where they are brought to units of the rows.
_ARRAY = [tuple, list, np.ndarray]
MODEL_CONSTRAINTS: dict = {
    "signal_variance": [Real, *_ARRAY, str, None],
    "noise_variance": [Real, str, None],
    "mean": [str],
    "calibration": [str],
    "sensitivity_constant": [Real, None],
}
_ARRAYS = ("signal_variance", "norm_range")


@register
@dataclass(eq=False, repr=False)
class Gaussian(BaseEstimator):
    """Noise on the second moment of bounded rows, with a stated variance across them.

    Without the variance it is the same as ``"gaussian"``, in
    :class:`~skdpspectral.FederatedDPPCA`.

    Parameters
    ----------
    noise_variance : float or None, default=None
        Public variance across the components, only used with ``release="covariance"``,
        in squared units of the data (of the scaled features with ``scale="bounds"``).
        The covariance is then composed of the components and this variance.

    See Also
    --------
    SpikedModel : Less noise, only for rows that follow a stated model.

    Examples
    --------
    >>> from skdpspectral import FederatedDPPCA
    >>> from skdpspectral.decomposition import Gaussian
    >>> pca = FederatedDPPCA(mechanism=Gaussian(noise_variance=1.0))
    >>> pca.set_params(mechanism__noise_variance=2.0).mechanism
    Gaussian(noise_variance=2.0)
    """

    _parameter_constraints: ClassVar[dict] = {"noise_variance": [Real, None]}

    noise_variance: float | None = None

    def _check(self, n_components, n_features: int) -> None:
        """Refuse what contradicts the mechanism, whatever the number of rows."""

    def _numbers(self, n_components, unit: float, covariance: bool) -> dict:
        """Return fields of :class:`ComponentMechanism`: none, but checked."""
        _public_variances(self, n_components, unit)
        if self.noise_variance is not None and not covariance:
            raise ValueError(
                "noise_variance is not used with mechanism=Gaussian(...) and "
                'release="components"; leave it as None'
            )
        return {}


@register
@dataclass(eq=False, repr=False)
class SpikedModel(BaseEstimator):
    """Noise on clients' projectors, private only **under a model of the data**.

    It is the model of :class:`~skdpspectral.decomposition.SpikedPCA`, in
    :class:`~skdpspectral.FederatedDPPCA`.

    Rows are not bounded. The guarantee only holds for independent Gaussian rows with a
    common mean and the spiked covariance stated here, when one row is replaced by
    another row of this model (:ref:`theorem-spiked-projector`). For other data the fit
    is not private at all. If the theorem gives no bound, for example for few rows or a
    weak signal, the fit raises an error.

    Parameters
    ----------
    signal_variance : float, array-like of shape (n_components,) or "private"
        Public variance along the components beyond `noise_variance`, in squared units
        of the data. "private" assumes one unknown variance that is equal for all
        components. Half of the rows then vote on a lower bound on it, which sets the
        noise, for a fifth of the budget and a larger sensitivity
        (:ref:`theorem-private-variances`).
    noise_variance : float or "private"
        Public variance across the components. Both variances must be "private" if one
        is.
    mean : {"zero", "unknown"}, default="zero"
        "zero": rows are measured from the origin; rows centered elsewhere do not follow
        the model. "unknown": rows are measured from their own mean, which can be any
        point, at the cost of one row (:ref:`lemma-own-mean`). The mean is not released,
        and rows must be dense.
    calibration : {"exact", "paper"}, default="exact"
        "paper" is meant for figures: it uses the classical bound with epsilon and delta
        halved, and first-order sensitivities as printed in the papers. ``privacy_`` and
        the ledger state the epsilon that a theorem proves for this noise. If it is
        larger than `epsilon`, as it often is, a
        :class:`~skdpspectral.PrivacyLeakWarning` is issued.
    sensitivity_constant : float or None, default=None
        Constant of the papers' sensitivities, which the papers do not specify. It is
        only used with ``calibration="paper"``, and None means 1. With q =
        `noise_variance` / `signal_variance`, the default gives the projector's noise of
        Cai et al., with q + sqrt(q); a constant of sqrt(q (q + 1)) / (q + sqrt(q))
        gives the noise of Li et al. (2024).
    norm_range : tuple (low, high), default=(1e-6, 1e6)
        Public range, in units of the data, that is searched for the lengths of rows
        along and across the directions. It is only used with private variances.

    References
    ----------
    Cai, Xia and Zha (2024), Optimal differentially private PCA and estimation for
    spiked covariance matrices, algorithm 1.

    Examples
    --------
    >>> from skdpspectral import FederatedDPPCA
    >>> from skdpspectral.decomposition import SpikedModel
    >>> model = SpikedModel(signal_variance=50.0, noise_variance=1.0)
    >>> FederatedDPPCA(1, mechanism=model).mechanism.calibration
    'exact'
    """

    assumption: ClassVar[Assumption] = Assumption.SPIKED_GAUSSIAN
    _parameter_constraints: ClassVar[dict] = {**MODEL_CONSTRAINTS, "norm_range": _ARRAY}
    _array_parameters: ClassVar[tuple[str, ...]] = _ARRAYS

    signal_variance: Any
    noise_variance: float | str
    _: KW_ONLY
    mean: str = "zero"
    calibration: str = "exact"
    sensitivity_constant: float | None = None
    norm_range: tuple[float, float] = DEFAULT_RANGE

    @property
    def is_private(self) -> bool:
        """Whether the variances are private."""
        return _is_private(self.signal_variance)

    def _check(self, n_components, n_features: int) -> None:
        if n_components == "auto":
            raise ValueError(
                'n_components="auto" is not available with '
                "mechanism=SpikedModel(...), whose noise depends on the number of "
                "components; pass a number"
            )
        for name in ("signal_variance", "noise_variance"):
            if getattr(self, name) is None:
                raise ValueError(
                    f"SpikedModel needs a public {name}: its noise is computed from "
                    "the model, which must be known without looking at the data; or "
                    'set both variances to "private", which chooses them with private '
                    "votes"
                )
        self._check_private()
        if self.mean not in ("zero", "unknown"):
            raise ValueError(
                f'mean of a SpikedModel must be "zero" or "unknown", got {self.mean!r}'
            )
        paper = isinstance(self.calibration, str) and self.calibration == "paper"
        if self.sensitivity_constant is not None and not paper:
            raise ValueError(
                'sensitivity_constant is only used with calibration="paper": other '
                "noise needs no constant; leave it as None"
            )
        _check_rank(self, n_components, n_features)

    def _check_private(self) -> None:
        """Refuse private variances where no theorem has them, and an unused range."""
        pair = self.signal_variance, self.noise_variance
        if any(isinstance(value, str) for value in pair):
            if not all(map(_is_private, pair)):
                raise ValueError(
                    "signal_variance and noise_variance of a SpikedModel must be "
                    'numbers, or both "private"'
                )
            if self.mean != "zero" or self.calibration != "exact":
                raise ValueError(
                    'private variances of a SpikedModel require mean="zero" and '
                    'calibration="exact": set both, or state signal_variance and '
                    "noise_variance"
                )
        elif _public_range(self.norm_range, 1.0) != DEFAULT_RANGE:
            raise ValueError(
                "norm_range is not used with a SpikedModel of public variances; leave "
                "it out"
            )

    def _numbers(self, n_components, unit: float, covariance: bool):
        if self.is_private:
            if covariance:
                raise ValueError(
                    'release="covariance" needs public variances of a SpikedModel: '
                    "state signal_variance and noise_variance"
                )
            return {"norm_range": _public_range(self.norm_range, unit)}
        signal, noise = _public_variances(self, n_components, unit)
        numbers = {"signal": signal, "noise": noise, "calibration": self.calibration}
        numbers["centered"] = self.mean == "unknown"
        if self.sensitivity_constant is not None:
            numbers["constant"] = check_real(_CONSTANT, self.sensitivity_constant)
        return numbers


CLIP_RANGE = Interval(Real, 1e-60, 1e60, closed="both")
CLIENT_MECHANISMS = [StrOptions({"gaussian"}), Gaussian, SpikedModel]
_NAMES = ("gaussian", "spiked")
_WAYS = ("exact", "paper")
_CONSTANT = "sensitivity_constant"

# Variances whose ratios and products float64 arithmetic can handle.
SMALLEST, LARGEST = 1e-60, 1e60


@dataclass(frozen=True)
class ComponentMechanism:
    """The mechanism of a task, and its public numbers in units of the bounded rows.

    The byte form of a task has its fields. `signal` are
    variances along the components beyond the noise, largest first, and `noise` is that
    across them; None for private ones. `norm_range` is the range of private lengths.
    For a model `calibration` may be "paper", with the `constant` of the papers'
    formulas; `centered` rows are measured about their own mean.
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
            raise ValueError('calibration="paper" requires a spiked model')
        if self.calibration != "paper" and self.constant != 1.0:
            raise ValueError(f'{_CONSTANT} is only used with calibration="paper"')
        if self.centered and not self.spiked:
            raise ValueError('mean="unknown" requires a spiked model')
        _check_scaled(self.signal, self.noise, self.norm_range)

    def _own_numbers(self) -> None:
        """Copy numbers to floats: a list or an array may be changed by its owner."""
        own: dict = {
            "norm_range": tuple(check_real("norm_range", x) for x in self.norm_range),
            "constant": check_real(_CONSTANT, self.constant),
        }
        if self.signal is not None:
            own["signal"] = tuple(check_real("signal_variance", x) for x in self.signal)
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

    def of_model(
        self, bounds: RowBounds, n_samples: int, rank: int, covariance: bool
    ) -> SpikedProjector | UnknownSpikes:
        """Return what a model releases of so many rows, from public numbers alone."""
        if self.signal is None or self.noise is None:
            return UnknownSpikes(bounds, n_samples, rank, self.norm_range)
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


def design_components(
    mechanism, n_components: int, n_features: int, covariance: bool, **bounded
) -> tuple[RowBounds, ComponentMechanism]:
    """Return how rows of clients are bounded, and how components are released.

    `bounded` are parameters of :class:`RowBounds`; `covariance` is whether one within
    the components is released. Raises ValueError for a parameter that is invalid,
    contradicts another or has no use.
    """
    spiked, plain = type(mechanism) is SpikedModel, type(mechanism) is Gaussian
    if not (spiked or plain or (isinstance(mechanism, str) and mechanism == _NAMES[0])):
        raise ValueError(
            'mechanism of clients must be "gaussian", Gaussian(...) or '
            f"SpikedModel(...) of skdpspectral.decomposition, got {shown(mechanism)}"
        )
    choice = mechanism if spiked or plain else Gaussian()
    choice._check(n_components, n_features)
    if spiked and isinstance(bounded["center"], str) and bounded["center"] == "auto":
        # The model states that the mean is zero, or takes it off.
        bounded["center"] = "none"
    rows = RowBounds(n_features, **bounded)
    numbers = choice._numbers(n_components, rows.unit, covariance)
    return rows, ComponentMechanism(_NAMES[spiked], **numbers)


def strategy_of(numbers: ComponentMechanism, unit: float) -> str | SpikedModel:
    """Return the choice that has these numbers, in units of the data."""
    if not numbers.spiked:
        return "gaussian"
    square, (low, high) = unit * unit, numbers.norm_range
    default = numbers.norm_range == tuple(end / unit for end in DEFAULT_RANGE)
    signal: Any = "private"
    noise: Any = "private"
    if numbers.signal is not None and numbers.noise is not None:
        signal = tuple(square * value for value in numbers.signal)
        noise = square * numbers.noise
    return SpikedModel(
        signal,
        noise,
        mean="unknown" if numbers.centered else "zero",
        calibration=numbers.calibration,
        sensitivity_constant=(
            numbers.constant if numbers.calibration == "paper" else None
        ),
        norm_range=DEFAULT_RANGE if default else (unit * low, unit * high),
    )


def _is_private(variance) -> bool:
    return isinstance(variance, str) and variance == "private"


def _check_rank(choice, n_components, n_features: int) -> None:
    """Refuse components that leave no direction across them."""
    if (1 if n_components == "auto" else n_components) >= n_features:
        raise ValueError(
            f"mechanism={type(choice).__name__}(...) needs n_components below "
            f"n_features, got n_components={n_components!r} for "
            f'n_features={n_features}; use mechanism="gaussian"'
        )


def _numbers(name: str, value, size: int | None) -> np.ndarray:
    """Return one number or `size` numbers as float64, or an error that names them."""
    refuse_masked(value, name)
    array = as_numbers(value)
    if array is None:
        raise ValueError(f"{name} must contain real numbers in the range of float64")
    if array.ndim > 1 or (array.ndim == 1 and array.size != size):
        wanted = "a number" if size is None else f"a number or {size} numbers"
        raise ValueError(f"{name} must be {wanted}, got shape {array.shape}")
    if not np.all((array >= SMALLEST) & (array <= LARGEST)):
        raise ValueError(
            f"{name} must lie in [{SMALLEST:g}, {LARGEST:g}]: positive and finite"
        )
    return array


def _public_variances(strategy, n_components, unit: float):
    """Return public variances in squared units of the rows, None for private ones."""
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
