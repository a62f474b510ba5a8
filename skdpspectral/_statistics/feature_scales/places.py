"""About where the values of a feature lie, however far from 0: phases on circles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ... import _linalg, sensitivity
from ...accounting import calibrate_gaussian
from ...mechanisms import Exact, Gaussian
from ..combination import Statistic

# Circles, and by how many powers of two each is longer than the one before: the longer
# the steps, the fewer circles share the budget and the less noise they bear. The last
# circle is 2**16 to 2**40 times as long as the first.
_LADDERS = {3: 20, 4: 13, 5: 10, 6: 7, 7: 5, 8: 3, 9: 2}
# Noise of a mean phase that still tells which turn of the next shorter circle is meant,
# in units of one over the ratio of their lengths: 4 deviations and a half.
_NOISE_ALLOWED = 0.3
# The shortest circle is 8 to 16 scales long, so that phases of most values are close.
_SHORTEST = 3


@dataclass(frozen=True)
class Phases(Statistic):
    """Mean phases of features on circles of several lengths, from short to long.

    The shortest circle tells the place up to a multiple of its length, the next one
    which multiple, and so on, as the hands of a clock do.

    Parameters
    ----------
    n_samples, n_features : int
        Public shape of the rows.
    name : str, default="places"
        Name of the release.
    """

    n_samples: int
    n_features: int
    name: str = "places"

    def mechanisms(self, mu: float) -> tuple:
        """Plan as few circles as the noise allows; infinite mu for no noise."""
        if not math.isfinite(mu):
            return (Exact(self.name, (self.n_features, min(_LADDERS), 2)),)
        for n_circles, step in _LADDERS.items():
            phases = self._phases(n_circles, mu)
            if phases.noise_std <= _NOISE_ALLOWED * 2.0**-step * self.n_samples:
                break
        return (phases,)

    def _phases(self, n_circles: int, mu: float) -> Gaussian:
        moved = sensitivity.phase_sensitivity(self.n_features, n_circles)
        shape = (self.n_features, n_circles, 2)
        return calibrate_gaussian(self.name, moved, mu, shape, magnitude=self.n_samples)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release phases of rows under a map; return places.

        Parameters
        ----------
        release, rows
            As for every statistic.
        *given : callable or None, ndarray of shape (n_features,)
            Map of blocks of rows, and released scales.

        Returns
        -------
        ndarray of shape (n_features,)
            A place for each feature, within a fraction of its scale from the values
            where the noise allows it; finite.
        """
        row_map, scale = given
        n_circles = release.plan[self.name].shape[1]
        steps = _LADDERS[n_circles] * np.arange(n_circles)
        # Of a scale in [2**(e-1), 2**e), the shortest circle is 2**(e+3) long.
        exponents = (np.frexp(scale)[1] + _SHORTEST)[:, None] + steps
        kernel = partial(_linalg.phase_sums, exponents=exponents)
        phases = _linalg.sum_over_rows(rows, kernel, row_map)
        released = release(self.name, phases, overwrite=True)
        return np.nan_to_num(_linalg.unwind_phases(released, exponents))
