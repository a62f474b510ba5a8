"""What is made of rows about a center that is searched for, or of pairs of rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..mechanisms import PrivacyPlan
from .center_plan import (
    FAR,
    NEAR,
    distances_told_apart,
    lengths_of,
    plan_search,
)
from .center_search import CenterSteps, Nearness, Sample
from .center_search import lengths_of as row_lengths
from .combination import Choice, Statistic
from .second_moment import SecondMoment, floor_of
from .terms import HALF, pair_order

# Least share of rows that lie about a center which is not beside them, and share from
# which the typical distance is in doubt.
_LEAST_BESIDE, _DOUBTFUL = 0.2, 0.95
# What the error of a center may add, in units of what the noise hides, and deviations
# of noise that the test forgives.
_TOLERATED, _FORGIVEN = 2.0, 1.5
# How far from the origin rows may lie, in octaves of a typical distance.
_NEAREST, _FARTHEST = -1.0, 21.0
# Share of what the noise hides that a wider clip of the steps may add.
_HARMLESS = 0.01


class Searched(Statistic):
    """A statistic of rows about a center that is searched for, or of pairs of rows.

    Where public numbers show that no center would be accurate enough, rows are compared
    in pairs at once. Otherwise a typical distance and the rows' distance from the
    origin are released; by these the steps to a center begin near by or far away, or,
    if neither promises one, what is left goes to pairs. After the steps a last number
    tells how much of the rows lies so near to the center that its error would be taken
    for their direction. Rows that are shorter than the typical distance, or a multiple
    of it where the noise allows that, keep their lengths.

    Parameters
    ----------
    moment : SecondMoment
        Bounds, number of rows, and the moment that an early release is one of.
    rest : Statistic
        Its ``run`` is given the center or the order of the pairs, a length below which
        rows keep theirs, and what it has as ``early`` if that is to be released too.
    """

    def __init__(self, moment: SecondMoment, rest: Any) -> None:
        self.moment, self.rest, self.bounds = moment, rest, moment.bounds
        self.forced = moment.bounds.paired is False

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all that is released, and say if rows are paired in any case."""
        plan = super().plan(epsilon, delta, **named)
        if self.forced or _is_searched(plan):
            return plan
        said = (
            "Rows are compared with each other in pairs: so few rows and so small a "
            "budget find no center that is accurate enough."
        )
        return replace(plan, remarks=(*plan.remarks, said))

    def remarks(self) -> tuple[str, ...]:
        """Sentences about the rows."""
        return self.bounds.remarks()

    def doubts(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Doubts of the rest."""
        return self.rest.doubts(plan)

    def mechanisms(self, mu: float) -> tuple:
        """Plan everything at a total cost of mu; infinite for no noise."""
        search = plan_search(self.moment, mu, self.forced)
        if search is None:
            return self.rest.mechanisms(mu)
        costs = search.costs
        branches = search.ways if self.forced else (*search.ways, self.rest.early)
        return (
            *search.distance.mechanisms(costs["distance"]),
            *search.reach.mechanisms(costs["reach"]),
            *Choice("center", *branches).mechanisms(costs["center"]),
            *self.rest.mechanisms(costs["rest"]),
        )

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the center, or pairs, and the rest; return what the rest returns."""
        plan = release.plan
        order = pair_order(self.moment.n_samples, self.bounds.n_features)
        if not _is_searched(plan):
            return self.rest.run(release, rows, order)
        sample = Sample.of(self.bounds, self.moment.n_samples)
        typical, reach = self._lengths(release, sample, rows)
        allowed = math.sqrt(_HARMLESS * self._edge(plan)) * typical
        ways = [
            (steps, steps.course(plan, typical, reach, allowed))
            for steps in _planned_steps(plan, sample)
        ]
        steps, (radii, weights, error) = min(ways, key=lambda way: way[1][2])
        if not self.forced and self._part(error, typical) > self._hidden(plan):
            why = "they lie too far from the origin for their number and the budget"
            return self._of_pairs(release, rows, order, typical, why)
        center = steps.run(release, rows, radii, weights)
        if self.bounds.box is not None:
            half = self.bounds.box.half_widths
            center = center.clip(-half, half)
        if self.forced:
            return self.rest.run(release, rows, center, self._floor(plan, typical, 1.0))
        nearness = Nearness(sample, f"{steps.name}_nearness")
        found = nearness.run(release, rows, center, error, typical)
        noise_std = getattr(plan[nearness.name], "noise_std", 0.0)
        origins = center, order
        return self._about(release, rows, origins, found, noise_std, typical)

    def _lengths(self, release, sample: Sample, rows) -> tuple[float, float]:
        """Typical distance of rows, and their distance from the start."""
        distance, reach = lengths_of(sample)
        told = distances_told_apart(self.bounds)
        typical = distance.run(release, sample.distances(rows), *told)
        low = math.log2(typical) + _NEAREST
        far = sample.about(rows, 0.0, row_lengths)
        return typical, reach.run(release, far, low, low - _NEAREST + _FARTHEST)

    def _part(self, error: float, typical: float) -> float:
        """What an error of the center adds to the moment, in a direction of its own."""
        return min(error / max(self.bounds.clip or typical, 1e-150), 1.0) ** 2

    def _edge(self, plan) -> float:
        """Largest eigenvalue of the noise on the moment about a center."""
        noise_std = self.rest.relative_noise(plan)
        return 2.0 * math.sqrt(self.bounds.n_features) * noise_std

    def _hidden(self, plan) -> float:
        """What an error of the center may add to the moment."""
        return _TOLERATED * self._edge(plan)

    def _floor(self, plan, typical: float, weight: float) -> float:
        """Length below which rows keep theirs; of pairs half is released."""
        return floor_of(typical, self._edge(plan) / weight)

    def _of_pairs(self, release, rows, order, typical: float, why: str):
        """Spend on pairs what the center would have cost, and the rest too."""
        floor = self._floor(release.plan, typical, HALF)
        found = self.rest.run(release, rows, order, floor, (self.rest.early,))
        return replace(
            found, said=f"Rows were compared with each other in pairs: {why}."
        )

    def _about(self, release, rows, origins, found, noise_std: float, typical: float):
        """Release the rest, of rows about a center unless they are too near to it."""
        (center, order), (near, beside) = origins, found
        plan = release.plan
        most = self._hidden(plan) + _FORGIVEN * noise_std
        if near <= most and beside >= _LEAST_BESIDE:
            said = "Rows were measured from a private center, which is accurate enough."
            floor = self._floor(plan, typical, 1.0)
            return replace(self.rest.run(release, rows, center, floor), said=said)
        said = (
            "Rows were compared with each other in pairs: a private center was found, "
            "but too many of them lie near it, or too few beside it."
        )
        # Where nearly no row is farther away, votes may have gone astray.
        sure = beside <= _DOUBTFUL + _FORGIVEN * noise_std
        floor = self._floor(plan, typical, HALF) if sure else 0.0
        about = self.rest.run(release, rows, order, floor)
        return replace(about, mean=center, said=said)

    def squared_error(self, mu: float, signal: float, noise: float) -> float:
        """As that of the rest: about a center or of pairs, by public numbers."""
        search = plan_search(self.moment, mu, self.forced)
        if search is None:
            return self.rest.squared_error(mu, signal, noise, True)
        return self.rest.squared_error(search.costs["rest"], signal, noise)

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Expected projection distance under a plan, to first order."""
        return math.sqrt(self.squared_error(plan.mu, signal, noise))


def _planned_steps(plan, sample: Sample) -> list[CenterSteps]:
    """Steps of both ways in a plan."""
    found = []
    for name in (NEAR, FAR):
        numbers = (m.name.removeprefix(f"{name}_") for m in plan.releases())
        count = sum(number.isdigit() for number in numbers)
        if count:
            found.append(CenterSteps(sample, (1.0,) * count, name))
    return found


def _is_searched(plan) -> bool:
    names = (mechanism.name for mechanism in plan.releases())
    return f"{NEAR}_1" in names
