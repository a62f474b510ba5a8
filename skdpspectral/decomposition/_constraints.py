"""Kinds of the constructor parameters that these estimators share."""

from __future__ import annotations

from numbers import Real

from .._base.sklearn_compat import Interval, StrOptions
from .._statistics.centers import CENTERS as _CENTERS
from .._statistics.centers import PrivateMean
from .._statistics.components.strategies import NAMED, STRATEGIES

CLIP_RANGE = Interval(Real, 1e-60, 1e60, closed="both")
MECHANISMS = [StrOptions(set(NAMED)), *STRATEGIES.values()]
CENTERS = [StrOptions(set(_CENTERS)), PrivateMean]
