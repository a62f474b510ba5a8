"""How LRSRegressor clips users with a budget, and how it iterates without one."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register

_NORMS = Interval(Real, 1e-60, 1e60, closed="both")
_DEFAULT_SHARE = 0.1


@register
class Clip(BaseEstimator):
    r"""Norms above which a user's contribution is scaled down, with a budget.

    Parameters
    ----------
    curvature, gradient : float or None, default=None
        Public norms, in [1e-60, 1e60], of the curvature
        :math:`w_iw_i' \otimes X_i'X_i/m_i` and of the gradient part
        :math:`X_i'(y_i - X_ib_i)w_i'/m_i` of an ordinary user. None takes a private
        median over the users.
    share : float, default=0.1
        Share of the budget's :math:`\mu^2` for the medians, in (0, 1); refused where
        both norms are given, which leave no median to pay for.

    See Also
    --------
    skdpspectral.LRSRegressor : Its parameter `clip`.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.linear_model import Clip
    >>> model = LRSRegressor(clip=Clip(curvature=3.3, gradient=1.0), n_rounds=2)
    >>> [mechanism.name for mechanism in model.privacy_plan(10).mechanisms]
    ['start', 'moments_1']
    >>> model.set_params(clip__gradient=None).clip
    Clip(curvature=3.3)
    """

    _parameter_constraints: ClassVar[dict] = {
        "curvature": [_NORMS, None],
        "gradient": [_NORMS, None],
        "share": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(self, curvature=None, gradient=None, share=_DEFAULT_SHARE):
        self.curvature = curvature
        self.gradient = gradient
        self.share = share

    def _check_share(self) -> None:
        """Refuse a share of the budget that nothing would be released for."""
        given = self.curvature is not None and self.gradient is not None
        if given and self.share != _DEFAULT_SHARE:
            raise ValueError(
                f"clip: share={self.share!r} pays for private medians, and there are "
                "none to find where curvature and gradient are given: leave share="
                f"{_DEFAULT_SHARE}, or one of them None"
            )


@register
class Alternation(BaseEstimator):
    """Alternation of users and shared directions until rest, without privacy.

    Parameters
    ----------
    max_iter : int, default=50
        Largest number of iterations, at least 1.
    tol : float, default=1e-6
        Iterations end when U moves by at most this distance, at least 0.
    shrink_to_mean : bool, default=True
        Whether weights are shrunk to their mean over users, in place of zero.
    update : {"auto", "direct", "cached", "cg"}, default="auto"
        How U is improved: from the curvature, made anew or of Grams that are kept in
        memory, or by conjugate gradients, whose cost does not depend on
        `n_components`. With ``ridge_shared=0`` all lead to the same U; with a penalty,
        which is on w and not on U, they may rest at slightly different U.

    See Also
    --------
    skdpspectral.LRSRegressor : Its parameter `solver`, for ``epsilon=None`` alone.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.linear_model import Alternation
    >>> model = LRSRegressor(epsilon=None, solver=Alternation(max_iter=100))
    >>> model.set_params(solver__tol=1e-3).solver
    Alternation(max_iter=100, tol=0.001)
    """

    _parameter_constraints: ClassVar[dict] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "shrink_to_mean": ["boolean"],
        "update": [StrOptions({"auto", "direct", "cached", "cg"})],
    }

    def __init__(self, max_iter=50, tol=1e-6, shrink_to_mean=True, update="auto"):
        self.max_iter = max_iter
        self.tol = tol
        self.shrink_to_mean = shrink_to_mean
        self.update = update
