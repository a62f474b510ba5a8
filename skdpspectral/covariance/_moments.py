"""Strategies of JMECovariance: the moments that are released, and their weights."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from .. import sensitivity
from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register, snapshot
from ..factorizations import BISR, Average, Exponential, Prefix, Window
from ..factorizations._choices import NAMES

WORKLOADS = [
    StrOptions({"average", "prefix"}),
    Average,
    Prefix,
    Window,
    Exponential,
]

FACTORIZATIONS = [StrOptions(set(NAMES)), BISR]
_SECOND_MOMENT = [StrOptions({"full", "diag"})]
_WEIGHT = Interval(Real, 1e-60, 1e60, closed="both")


@register
@dataclass(eq=False, repr=False)
class JointMoments(BaseEstimator):
    r"""Release both moments of a stream with noise for their joint sensitivity.

    With default parameters, this is the same as ``moments="jme"`` of
    :class:`~skdpspectral.JMECovariance`.

    Parameters
    ----------
    weight : "free", "trace-split" or float, default="free"
        Weight of the second moment. "free" uses the largest weight that leaves the mean
        as accurate as if it were released alone. "trace-split" does the same, with a
        larger weight for the trace. A number is the weight :math:`\lambda` relative to
        the mean, in data units to the power -2.
    second_moment : {"full", "diag"}, default="full"
        "full" includes products of different features. With "diag", the covariance is
        diagonal.
    second_workload : as `workload` of the estimator or None, default=None
        Weights of the second moment and of the covariance (:ref:`two_workloads`). None
        uses the weights of the first moment.
    second_factorization : as `factorization` of the estimator or None, default=None
        Correlation of the noise of products. None uses `factorization` of the estimator
        for the workload of the second moment.

    See Also
    --------
    AssumeCentered : Releases only the second moment.

    Examples
    --------
    >>> from skdpspectral import JMECovariance
    >>> from skdpspectral.covariance import JointMoments, Window
    >>> model = JMECovariance(moments=JointMoments(second_workload=Window(500)))
    >>> model.set_params(moments__second_workload__length=100)
    JMECovariance(moments=JointMoments(second_workload=Window(length=100)))
    """

    _parameter_constraints: ClassVar[dict] = {
        "weight": [StrOptions({"free", "trace-split"}), _WEIGHT],
        "second_moment": _SECOND_MOMENT,
        "second_workload": [*WORKLOADS, None],
        "second_factorization": [*FACTORIZATIONS, None],
    }

    weight: float | str = "free"
    _: KW_ONLY
    second_moment: str = "full"
    second_workload: Any = None
    second_factorization: Any = None


@register
@dataclass(eq=False, repr=False)
class AssumeCentered(BaseEstimator):
    """Release only the second moment, assuming a zero mean.

    The second moment uses the whole budget. Same as ``moments="assume-centered"`` of
    :class:`~skdpspectral.JMECovariance`.

    Parameters
    ----------
    second_moment : {"full", "diag"}, default="full"
        "full" includes products of different features. With "diag", the covariance is
        diagonal.
    """

    _parameter_constraints: ClassVar[dict] = {"second_moment": _SECOND_MOMENT}

    second_moment: str = "full"


_NAMED = {"jme": JointMoments, "assume-centered": AssumeCentered}

MOMENT_CONSTRAINTS = [
    StrOptions(set(_NAMED)),
    JointMoments,
    AssumeCentered,
]


def as_strategy(moments) -> JointMoments | AssumeCentered:
    """Return the strategy of a name, or a copy of the one that was given, as it is."""
    return _NAMED[moments]() if isinstance(moments, str) else snapshot(moments)


def moment_weights(
    moments: JointMoments | AssumeCentered, clip_norm: float, d: int
) -> tuple[float, float | None, float]:
    """Return weights of products and their trace, and the squared sensitivity."""
    if isinstance(moments, AssumeCentered):
        return 1.0, None, sensitivity.second_moment_ratio(d)
    if moments.weight == "trace-split":
        return 0.5, sensitivity.free_trace_weight(d), 4.0
    if moments.weight == "free":
        nu = sensitivity.free_moment_weight(d)
    else:
        nu = float(moments.weight) * clip_norm**2
    return nu, None, sensitivity.joint_moment_ratio(nu, d)
