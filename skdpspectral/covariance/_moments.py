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
    BaselineMoments : Methods that the paper compares with.

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


@register
@dataclass(eq=False, repr=False)
class BaselineMoments(BaseEstimator):
    r"""Release both moments with a baseline method (:ref:`stream_methods`).

    The guarantee is as for :class:`JointMoments`, but the second moment has more noise.

    Parameters
    ----------
    method : {"ime", "cs", "pp", "pp-debiased"}, default="ime"
        "ime" splits the budget between the moments. "cs" bounds the norm of both
        moments as one vector. "pp" squares the released rows, and "pp-debiased" also
        subtracts the bias of the noise.
    weight : float or None, default=None
        For "ime", the share of :math:`\mu^2` in (0, 1) used by the mean, by default
        1/2. For "cs", the weight of the second moment in data units to the power -2, by
        default ``clip_norm**-2``. Must be None for "pp" and "pp-debiased".
    second_moment : {"full", "diag"}, default="full"
        As in :class:`JointMoments`.
    second_workload : as `workload` of the estimator or None, default=None
        As in :class:`JointMoments`.
    second_factorization : as `factorization` of the estimator or None, default=None
        As in :class:`JointMoments`. Must be None for "pp" and "pp-debiased", which
        release no products.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Continual release moment estimation with
    differential privacy, algorithms 4 to 6.
    """

    _parameter_constraints: ClassVar[dict] = {
        **JointMoments._parameter_constraints,
        "method": [StrOptions({"ime", "cs", "pp", "pp-debiased"})],
        "weight": [_WEIGHT, None],
    }

    method: str = "ime"
    _: KW_ONLY
    weight: float | None = None
    second_moment: str = "full"
    second_workload: Any = None
    second_factorization: Any = None


_NAMED = {"jme": JointMoments, "assume-centered": AssumeCentered}

MOMENT_CONSTRAINTS = [
    StrOptions(set(_NAMED)),
    JointMoments,
    AssumeCentered,
    BaselineMoments,
]


def as_strategy(moments) -> JointMoments | AssumeCentered | BaselineMoments:
    """Return the strategy of a name, or a copy of the one that was given, as it is."""
    return _NAMED[moments]() if isinstance(moments, str) else snapshot(moments)


def check_moments(moments) -> None:
    """Refuse parameters of a strategy that its method does not use."""
    if not isinstance(moments, BaselineMoments):
        return
    method, weight = moments.method, moments.weight
    if method.startswith("pp"):
        for name in ("weight", "second_factorization"):
            if getattr(moments, name) is not None:
                raise ValueError(
                    f'{name} of BaselineMoments must be None with method="{method}", '
                    "which releases no products"
                )
    if method == "ime" and weight is not None and not weight < 1.0:
        raise ValueError(
            'weight of BaselineMoments with method="ime" must be in (0, 1): it is the '
            f"mean's share of the budget; got {weight!r}"
        )


def moment_weights(
    moments: JointMoments | AssumeCentered | BaselineMoments, clip_norm: float, d: int
) -> tuple[float | None, float | None, float]:
    """Return weights of products and their trace, and the squared sensitivity."""
    if isinstance(moments, AssumeCentered):
        return 1.0, None, sensitivity.second_moment_ratio(d)
    weight = moments.weight
    if isinstance(moments, JointMoments):
        if weight == "trace-split":
            return 0.5, sensitivity.free_trace_weight(d), 4.0
        if weight == "free":
            nu = sensitivity.free_moment_weight(d)
        else:
            nu = float(weight) * clip_norm**2
        return nu, None, sensitivity.joint_moment_ratio(nu, d)
    if moments.method.startswith("pp"):
        return None, None, 4.0
    if moments.method == "ime":
        share = 0.5 if weight is None else float(weight)
        nu = 2.0 * (1.0 - share) / share
        return nu, None, sensitivity.separate_moments_ratio(nu)
    nu = 1.0 if weight is None else float(weight) * clip_norm**2
    return nu, None, sensitivity.concatenated_moments_ratio(nu)
