"""What rows are measured from: a public point, or a private mean."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

from sklearn.base import BaseEstimator

CENTERS = ("auto", "none", "pairs", "private")


class PrivateMean(BaseEstimator):
    """A private mean as the center of the rows: ``center=PrivateMean(radius)``.

    Parameters
    ----------
    radius : float or None, default=None
        Public radius in [1e-60, 1e60], in units of the data (of the scaled features
        with ``scale="bounds"``), about the midpoint of the bounds or the origin, that
        rows are clipped to for the mean. None takes that of the box, or ``clip_norm``
        without bounds; one of the three is needed.

    See Also
    --------
    skdpspectral.DPPCA : Which takes it as `center`.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.decomposition import PrivateMean
    >>> DPPCA(center=PrivateMean(5.0)).get_params()["center__radius"]
    5.0
    """

    _parameter_constraints: ClassVar[dict] = {"radius": [Real, None]}

    def __init__(self, radius=None):
        self.radius = radius


def is_private(center) -> bool:
    """Whether a center is a private mean whatever the bounds are."""
    named = isinstance(center, str) and center == "private"
    return named or isinstance(center, PrivateMean)
