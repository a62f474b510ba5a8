"""A search for a center, planned by public numbers: its releases and their shares."""

from __future__ import annotations

import math
from typing import NamedTuple

from .. import sensitivity
from ..accounting import split_mu
from .center_search import CenterSteps, Nearness, Quantile, Sample
from .combination import Planned
from .row_bounds import RowBounds
from .second_moment import SecondMoment

# Names of steps from near by, and from far away.
NEAR, FAR = "center", "far_center"
# Halvings of the two lengths, of the first in a box too; the noise of their votes at
# most, as a share of the voters; and what they cost at least, as a share of mu**2.
_DISTANCE_STEPS, _BOXED_STEPS, _REACH_STEPS, _VOTE_NOISE = 11, 7, 6, 0.12
_LEAST_VOTES = 0.001
# Shares of mu**2: of the steps, at least and at most, and in units of what the noise
# hides, in a box and where rows may be anywhere; of the test at most.
_LEAST, _MOST, _WANTED_IN_BOX, _WANTED = 0.02, 0.3, 6.0, 9.0
_NEARNESS = 0.02
# Noise of the steps beyond which no center is searched for: the least progress of each,
# and the largest share of mu**2 of the whole search.
_SLOWEST, _DEAREST = 1.0, 0.5
# Shares of steps from near by.
_NEAR_STEPS = (0.25, 0.25, 0.5)
# Distance, in units of the typical one, from which others must be able to come, and
# the share of the last of them.
_FAR, _LAST = 1e4, 0.3
_FEWEST_STEPS, _MOST_STEPS = 4, 16
# Lengths that are told from each other, as powers of two: of any table, and below the
# diameter of a box.
_SHORTEST, _LONGEST, _BOXED_OCTAVES = -199.0, 199.0, 32.0
# Quantiles of the lengths.
_PAIR_LEVEL, _ROW_LEVEL = 0.6, 0.65


class Way(Planned):
    """Steps to a center, and whether rows are too near to it.

    They are not run as one: what the steps give decides on what follows.

    Parameters
    ----------
    steps : CenterSteps
        The steps.
    nearness : Nearness or None
        The test; None where the center is not given up in any case.
    shares : tuple of float
        Shares of both in their cost.
    """

    def __init__(
        self, steps: CenterSteps, nearness: Nearness | None, shares: tuple[float, ...]
    ) -> None:
        self.steps, self.nearness, self.shares = steps, nearness, shares

    def mechanisms(self, mu: float) -> tuple:
        """Plan both at a total cost of mu; infinite for no noise."""
        if self.nearness is None:
            return self.steps.mechanisms(mu)
        costs = (mu, mu)
        if math.isfinite(mu):
            costs = tuple(split_mu(mu, list(self.shares)))
        steps = self.steps.mechanisms(costs[0])
        return (*steps, *self.nearness.mechanisms(costs[1]))


class Search(NamedTuple):
    """A search for a center: its statistics and their costs, from public numbers."""

    distance: Quantile
    reach: Quantile
    ways: tuple[Way, ...]
    costs: dict[str, float]


def plan_search(moment: SecondMoment, mu: float, forced: bool) -> Search | None:
    """Return the search for a center of that moment, None where it is not worth it.

    Parameters
    ----------
    moment : SecondMoment
        Of public bounds and number of rows.
    mu : float
        Cost of everything.
    forced : bool
        Whether it is made in any case, for half of the budget at most.
    """
    n_samples, n_features = moment.n_samples, moment.bounds.n_features
    if n_samples < 2:
        return None
    sample = Sample.of(moment.bounds, n_samples)
    distance, reach = lengths_of(sample)
    shares = {
        "distance": _share_of_votes(distance, mu),
        "reach": _share_of_votes(reach, mu),
        "nearness": 0.0 if forced else min(_NEARNESS, 6.0 / n_features),
    }
    # Enough that the error of the center stays below what noise on the moment hides.
    wanted = _WANTED if moment.bounds.box is None else _WANTED_IN_BOX
    wanted *= math.sqrt(n_features) * n_samples / (sample.n_rows**2 * mu)
    shares["steps"] = min(max(wanted, _LEAST), _MOST)
    mu_steps = mu * math.sqrt(shares["steps"])
    factor = _noise_of(sample, mu_steps) / math.sqrt(_NEAR_STEPS[0])
    total = math.fsum(shares.values())
    if not forced and (total > _DEAREST or factor > _SLOWEST):
        return None
    scale = min(1.0, _DEAREST / total)
    shares = {name: scale * share for name, share in shares.items()}
    center = shares.pop("steps") + shares["nearness"]
    within = (1.0 - shares["nearness"] / center, shares.pop("nearness") / center)
    shares["center"] = center
    shares["rest"] = 1.0 - math.fsum(shares.values())
    costs = dict.fromkeys(shares, mu)
    if math.isfinite(mu):
        costs = dict(zip(shares, split_mu(mu, list(shares.values())), strict=True))
    far = _far_steps(sample, mu_steps)
    ways = tuple(
        Way(
            CenterSteps(sample, steps, name),
            None if forced else Nearness(sample, f"{name}_nearness"),
            within,
        )
        for name, steps in ((NEAR, _NEAR_STEPS), (FAR, far))
    )
    return Search(distance, reach, ways, costs)


def _share_of_votes(votes: Quantile, mu: float) -> float:
    """Share of mu**2 at which the votes are quiet enough."""
    return max(votes.n_steps * (votes.moved / _VOTE_NOISE / mu) ** 2, _LEAST_VOTES)


def lengths_of(sample: Sample) -> tuple[Quantile, Quantile]:
    """Quantiles of the distances of rows, and of those from the origin."""
    of_pairs = sensitivity.pair_mean_sensitivity(1.0, sample.n_rows)
    of_rows = sensitivity.mean_sensitivity(0.5, sample.n_rows)
    n_steps = _DISTANCE_STEPS if sample.bounds.box is None else _BOXED_STEPS
    return (
        Quantile("pair_distance", n_steps, _PAIR_LEVEL, of_pairs),
        Quantile("row_reach", _REACH_STEPS, _ROW_LEVEL, of_rows),
    )


def distances_told_apart(bounds: RowBounds) -> tuple[float, float]:
    """Range of the typical distance, as powers of two."""
    if bounds.box is None:
        return _SHORTEST, _LONGEST
    longest = math.log2(math.sqrt(2.0) * bounds.box_radius)
    return longest - _BOXED_OCTAVES, longest


def _noise_of(sample: Sample, mu: float) -> float:
    """Length of the noise of one step, in units of its radius."""
    return 2.0 * math.sqrt(sample.bounds.n_features) / (sample.n_rows * mu)


def _far_steps(sample: Sample, mu: float) -> tuple[float, ...]:
    """Shares of the fewest steps that come from far away, or else from farthest."""
    n_features, length = sample.bounds.n_features, _noise_of(sample, mu)
    best, shares = math.inf, ()
    for n_steps in range(_FEWEST_STEPS, _MOST_STEPS + 1):
        each = (1.0 - _LAST) / (n_steps - 1)
        noise = length / math.sqrt(each)
        left = CenterSteps.narrowed(n_steps, noise, n_features)
        if left < best:
            best, shares = left, (*[each] * (n_steps - 1), _LAST)
        if left * _FAR <= 1.0:
            break
    return shares
