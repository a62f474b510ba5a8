"""How components are released: public choices, each with the numbers that it uses."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register
from ..mechanisms import Assumption
from ._bounds import is_private

DEFAULT_RANGE = (1e-6, 1e6)


# Kinds alone: the numbers are checked where they are brought to units of the rows.
_ARRAY = [tuple, list, np.ndarray]


_GAUSSIAN: dict = {"noise_variance": [Real, None], "norm_range": _ARRAY}


_STAGES: dict = {"signal_variance": [Real, *_ARRAY, None], **_GAUSSIAN}


_MODEL: dict = {
    "signal_variance": [Real, *_ARRAY, str, None],
    "noise_variance": [Real, str, None],
    "mean": [str],
    "calibration": [str],
    "sensitivity_constant": [Real, None],
    "norm_range": _ARRAY,
}


_ARRAYS = ("signal_variance", "norm_range")


@register
class Gaussian(BaseEstimator):
    """Noise on the second moment of bounded rows; ``"gaussian"`` by its defaults.

    Parameters
    ----------
    noise_variance : float or None, default=None
        Public variance across the components, for ``release="covariance"`` alone; in
        squared units of the data (of the scaled features with ``scale="bounds"``). The
        covariance is then that of the components and this noise; with None, a whole
        one is released.
    norm_range : tuple (low, high), default=(1e-6, 1e6)
        Public range, in units of the data, in which private lengths of rows, or of
        projections, are searched for: with ``release="covariance"`` and no
        ``clip_norm``.

    See Also
    --------
    TwoStage, Auto : The same, and a power step.
    SpikedModel : Less noise, for rows of a stated model alone.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.decomposition import Gaussian
    >>> pca = DPPCA(mechanism=Gaussian(noise_variance=1.0), release="covariance")
    >>> pca.set_params(mechanism__norm_range=(0.1, 100.0)).mechanism
    Gaussian(noise_variance=1.0, norm_range=(0.1, 100.0))
    """

    _parameter_constraints: ClassVar[dict] = _GAUSSIAN
    _array_parameters: ClassVar[tuple[str, ...]] = _ARRAYS

    def __init__(self, noise_variance=None, norm_range=DEFAULT_RANGE):
        self.noise_variance = noise_variance
        self.norm_range = norm_range


@register
class TwoStage(BaseEstimator):
    """A noisy second moment, and a power step from there; ``"two-stage"``.

    The second moment takes 40 % of the budget. In the step rows are clipped along and
    across the first components by private sizes, unless these are given. It is better
    where noise matters and the variance across the components is above 14 times that
    along them in sum, or below a 14th (:ref:`theory`).

    Parameters
    ----------
    signal_variance : float, array-like of shape (n_components,) or None, default=None
        Public variance along the components beyond `noise_variance`, in squared units
        of the data (of the scaled features with ``scale="bounds"``). None takes private
        medians.
    noise_variance : float or None, default=None
        Public variance across the components; None as for `signal_variance`.
    norm_range : tuple (low, high), default=(1e-6, 1e6)
        Public range in which lengths of rows, along and across the components, are
        searched for the private medians; in units of the data.

    See Also
    --------
    Auto : A choice between this and the second moment once more.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.decomposition import TwoStage
    >>> pca = DPPCA(mechanism=TwoStage(10.0, 1.0), center="pairs")
    >>> plan = pca.privacy_plan(10_000, 50)
    >>> [mechanism.name for mechanism in plan.mechanisms]
    ['second_moment', 'cross_moment', 'weighted_moment', 'wide_moment']
    """

    _parameter_constraints: ClassVar[dict] = _STAGES
    _array_parameters: ClassVar[tuple[str, ...]] = _ARRAYS

    def __init__(
        self, signal_variance=None, noise_variance=None, norm_range=DEFAULT_RANGE
    ):
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.norm_range = norm_range


@register
class Auto(BaseEstimator):
    """Two stages, or the second moment twice, by what was released; ``"auto"``.

    Parameters
    ----------
    signal_variance, noise_variance, norm_range
        As in :class:`TwoStage`.

    Examples
    --------
    >>> from skdpspectral.decomposition import Auto
    >>> Auto(noise_variance=1.0)
    Auto(noise_variance=1.0)
    """

    _parameter_constraints: ClassVar[dict] = _STAGES
    _array_parameters: ClassVar[tuple[str, ...]] = _ARRAYS

    def __init__(
        self, signal_variance=None, noise_variance=None, norm_range=DEFAULT_RANGE
    ):
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.norm_range = norm_range


@register
class SpikedModel(BaseEstimator):
    """Noise on PCA's projector, private **under a model of the data** alone.

    Rows are not bounded: the guarantee is for independent Gaussian rows of one mean
    whose covariance is the spiked one that is stated here, one of them replaced by
    another such row (:ref:`theorem-spiked-projector`). Where the theorem knows no
    bound, as with few rows or a weak signal, a fit is refused. For other data it is
    not private at all.

    Parameters
    ----------
    signal_variance : float, array-like of shape (n_components,) or "private"
        Public variance along the components beyond `noise_variance`, in squared units
        of the data. "private" takes one that is alike for all components, and that
        nobody knows: half of the rows vote on a lower bound on it, by which the noise
        is made, for a fifth of the budget and a larger sensitivity
        (:ref:`theorem-private-variances`).
    noise_variance : float or "private"
        Public variance across the components; "private" for both or for neither.
    mean : {"zero", "unknown"}, default="zero"
        "zero": rows are measured from the origin, and what is not centered there is
        not of the model. "unknown": from their own mean, whatever it is, at the price
        of a row (:ref:`lemma-own-mean`). The mean is not released, and rows must be
        dense.
    calibration : {"exact", "paper"}, default="exact"
        "paper" is for figures: the classical bound, with epsilon and delta halved, and
        sensitivities to first order, as the papers print them. ``privacy_`` and the
        ledger say what a theorem shows of that noise, which is often a larger epsilon:
        then a :class:`~skdpspectral.PrivacyLeakWarning` says so.
    sensitivity_constant : float or None, default=None
        Constant of the papers' sensitivities, which they leave open, for
        ``calibration="paper"`` alone; None takes 1, as their figures do.
    norm_range : tuple (low, high), default=(1e-6, 1e6)
        Public range, in units of the data, in which lengths of rows along and across
        directions are searched for, with private variances alone.

    References
    ----------
    Cai, Xia and Zha (2024), Optimal differentially private PCA and estimation for
    spiked covariance matrices, algorithm 1.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.decomposition import SpikedModel
    >>> pca = DPPCA(1, mechanism=SpikedModel(signal_variance=50.0, noise_variance=1.0))
    >>> print(pca.privacy_plan(10_000, 20).assumption)
    spiked-gaussian
    """

    assumption: ClassVar[Assumption] = Assumption.SPIKED_GAUSSIAN
    _parameter_constraints: ClassVar[dict] = _MODEL
    _array_parameters: ClassVar[tuple[str, ...]] = _ARRAYS

    def __init__(
        self,
        signal_variance,
        noise_variance,
        *,
        mean="zero",
        calibration="exact",
        sensitivity_constant=None,
        norm_range=DEFAULT_RANGE,
    ):
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.mean = mean
        self.calibration = calibration
        self.sensitivity_constant = sensitivity_constant
        self.norm_range = norm_range

    @property
    def is_private(self) -> bool:
        """Whether the variances are private."""
        return _is_private(self.signal_variance)


# Choices that have a name, and that of the one which needs numbers.
NAMED = {"gaussian": Gaussian, "two-stage": TwoStage, "auto": Auto}


STRATEGIES = {**NAMED, "spiked": SpikedModel}


def check_spiked_model(strategy) -> None:
    """Refuse a model without its numbers, and a constant that nothing uses."""
    for name in ("signal_variance", "noise_variance"):
        if getattr(strategy, name) is None:
            raise ValueError(
                f"SpikedModel needs a public {name}: its noise is computed from the "
                "model, which must be known without looking at the data; or let the "
                'data vote, with "private" for both variances'
            )
    _check_private(strategy)
    if strategy.mean not in ("zero", "unknown"):
        raise ValueError(
            f'mean of a SpikedModel must be "zero" or "unknown", got {strategy.mean!r}'
        )
    paper = isinstance(strategy.calibration, str) and strategy.calibration == "paper"
    if strategy.sensitivity_constant is not None and not paper:
        raise ValueError(
            'sensitivity_constant is for calibration="paper" alone: other noise needs '
            "no constant; leave it None"
        )


def _is_private(variance) -> bool:
    return isinstance(variance, str) and variance == "private"


def _check_private(strategy) -> None:
    """Refuse what no theorem has private variances for, and a range without them."""
    pair = strategy.signal_variance, strategy.noise_variance
    if any(isinstance(value, str) for value in pair):
        if not all(map(_is_private, pair)):
            raise ValueError(
                "signal_variance and noise_variance of a SpikedModel must be numbers, "
                'or both "private"'
            )
        if strategy.mean != "zero" or strategy.calibration != "exact":
            raise ValueError(
                'private variances of a SpikedModel go with mean="zero" and '
                'calibration="exact" alone: state signal_variance and noise_variance'
            )
    elif tuple(map(float, strategy.norm_range)) != DEFAULT_RANGE:
        raise ValueError(
            "norm_range has no use with a SpikedModel of public variances; leave it out"
        )


def check_unbounded(*, bounds, clip_norm, center, scale, search=False) -> None:
    """Refuse bounds of rows that a model of them has no use for."""
    bounded = {"bounds": bounds, "clip_norm": clip_norm, "scale": scale}
    for name, value in bounded.items():
        if value is not None:
            raise ValueError(
                f"{name} has no use with mechanism=SpikedModel(...), whose rows are "
                f"not bounded; leave {name}=None, or use another mechanism"
            )
    if is_private(center) or (isinstance(center, str) and center == "pairs"):
        raise ValueError(
            "a private center, or pairs, has no use with mechanism=SpikedModel(...), "
            'whose rows have mean zero, or any with mean="unknown"; leave center="auto"'
        )


CLIP_RANGE = Interval(Real, 1e-60, 1e60, closed="both")


MECHANISMS = [StrOptions(set(NAMED)), *STRATEGIES.values()]
