"""Public numbers of a client, which a server may hold it to."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..accounting._gaussian import MIN_DELTA
from ..mechanisms._numbers import check_real


class Registration(NamedTuple):
    """Public numbers of a client, fixed before a session begins.

    Parameters
    ----------
    n_samples : int
        Number of the client's rows.
    epsilon, delta : float
        Budget that the client was given, from which its plan is made; epsilon is
        infinite without privacy.
    """

    n_samples: int
    epsilon: float
    delta: float


def check_budget(epsilon, delta) -> tuple[float, float]:
    """Return a budget as floats; infinity stands for no privacy."""
    epsilon = math.inf if epsilon is None else check_real("epsilon", epsilon)
    delta = check_real("delta", delta)
    if not epsilon > 0.0:
        raise ValueError(f"epsilon must be positive or None, got {epsilon}")
    if not MIN_DELTA <= delta < 1.0:
        raise ValueError(f"delta must be in [{MIN_DELTA:g}, 1), got {delta}")
    return epsilon, delta
