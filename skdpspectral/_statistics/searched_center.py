"""What is made of rows about a center that is searched for, or of pairs of rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from scipy import sparse

from .. import sensitivity
from ..accounting import split_mu
from ..mechanisms import PrivacyPlan
from .center_search import CenterSteps, Nearness, Quantile, Sample, lengths_of
from .combination import Choice, Planned, Statistic
from .second_moment import SecondMoment
from .terms import pair_order

# Halvings of the two lengths, and the noise of their votes, as a share of the voters.
_DISTANCE_STEPS, _REACH_STEPS, _VOTE_NOISE = 11, 6, 0.12
# Shares of mu**2: of the steps, at least and at most and of the last of them; of the
# test at most.
_LEAST, _MOST, _LAST = 0.02, 0.3, 0.5
_NEARNESS = 0.04
# Noise of the steps beyond which no center is searched for: the least progress of each,
# and the largest share of mu**2 of the whole search.
_SLOWEST, _DEAREST = 0.6, 0.55
# Distance, in units of the typical one, from which steps must be able to come.
_FAR = 3e3
_FEWEST_STEPS, _USUAL_STEPS, _MOST_STEPS = 4, 8, 16
# Least share of rows that lie about a center which is not beside them.
_LEAST_BESIDE = 0.2
# Deviations of noise that the test forgives.
_FORGIVEN = 1.5
# Lengths that are told from each other, as powers of two; and how far from the origin
# rows may lie, in octaves of a typical distance.
_SHORTEST, _LONGEST = -199.0, 199.0
_NEAREST, _FARTHEST = -1.0, 21.0
# Quantiles of the lengths.
_PAIR_LEVEL, _ROW_LEVEL = 0.6, 0.65
EARLY = "second_moment_early"


class Search(NamedTuple):
    """A search for a center: its statistics and their costs, from public numbers."""

    distance: Quantile
    reach: Quantile
    steps: CenterSteps
    nearness: Nearness
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
    distance, reach = _lengths_of(sample)
    shares = {
        "distance": distance.n_steps * (distance.moved / _VOTE_NOISE / mu) ** 2,
        "reach": reach.n_steps * (reach.moved / _VOTE_NOISE / mu) ** 2,
        "nearness": min(_NEARNESS, 6.0 / n_features),
    }
    # Enough that the error of the center stays below what noise on the moment hides.
    wanted = 10.0 * math.sqrt(n_features) * n_samples / (sample.n_rows**2 * mu)
    shares["steps"] = min(max(wanted, _LEAST), _MOST)
    n_steps, factor = _number_of_steps(sample, mu * math.sqrt(shares["steps"]))
    total = math.fsum(shares.values())
    if not forced and (total > _DEAREST or factor > _SLOWEST):
        return None
    scale = min(1.0, _DEAREST / total)
    shares = {name: scale * share for name, share in shares.items()}
    shares["rest"] = 1.0 - math.fsum(shares.values())
    costs = dict.fromkeys(shares, mu)
    if math.isfinite(mu):
        costs = dict(zip(shares, split_mu(mu, list(shares.values())), strict=True))
    each = (1.0 - _LAST) / (n_steps - 1)
    steps = CenterSteps(sample, (*[each] * (n_steps - 1), _LAST))
    return Search(distance, reach, steps, Nearness(sample), costs)


def _lengths_of(sample: Sample) -> tuple[Quantile, Quantile]:
    """Quantiles of the distances of rows, and of those from the origin."""
    of_pairs = sensitivity.pair_mean_sensitivity(1.0, sample.n_rows)
    of_rows = sensitivity.mean_sensitivity(0.5, sample.n_rows)
    return (
        Quantile("pair_distance", _DISTANCE_STEPS, _PAIR_LEVEL, of_pairs),
        Quantile("row_reach", _REACH_STEPS, _ROW_LEVEL, of_rows),
    )


def _number_of_steps(sample: Sample, mu: float) -> tuple[int, float]:
    """Fewest steps that come from far away, and how long the noise of each is.

    In units of its radius. Where too many would be needed, as many as suit rows that
    are not so far away.
    """
    n_features = sample.bounds.n_features
    length = 2.0 * math.sqrt(n_features) / (sample.n_rows * mu)

    def noise(n_steps: int) -> float:
        return length * math.sqrt((n_steps - 1) / (1.0 - _LAST))

    for n_steps in range(_FEWEST_STEPS, _MOST_STEPS + 1):
        if CenterSteps.narrowed(n_steps, noise(n_steps), n_features) * _FAR <= 1.0:
            return n_steps, noise(n_steps)
    return _USUAL_STEPS, noise(_USUAL_STEPS)


class Near(Planned):
    """The steps to a center, and whether rows are too near to it.

    They are not run as one: what the steps give decides on what follows.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def mechanisms(self, mu: float) -> tuple:
        """Plan both at a total cost of mu."""
        search = self._search
        steps, nearness = search.costs["steps"], search.costs["nearness"]
        return (*search.steps.mechanisms(steps), *search.nearness.mechanisms(nearness))


class Searched(Statistic):
    """A statistic of rows about a center that is searched for, or of pairs of rows.

    Where public numbers show that no center would be accurate enough, rows are compared
    in pairs at once. Otherwise a typical distance and the rows' distance from the
    origin are released; if these promise no such center either, what is left goes to
    pairs. After the steps a last number tells how much of the rows lies so near to the
    center that its error would be taken for their direction.

    Parameters
    ----------
    moment : SecondMoment
        Bounds, number of rows, and the moment that an early release is one of.
    rest : Statistic
        Its ``run`` is given the center or the order of the pairs, and an early release
        of the second moment of pairs with its squared cost, or None.
    """

    def __init__(self, moment: SecondMoment, rest: Any) -> None:
        self.moment, self.rest, self.bounds = moment, rest, moment.bounds
        self.forced = moment.bounds.paired is False
        self.early = replace(moment, name=EARLY)

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
        return (
            *search.distance.mechanisms(costs["distance"]),
            *search.reach.mechanisms(costs["reach"]),
            *self._center(search),
            *self.rest.mechanisms(costs["rest"]),
        )

    def _center(self, search: Search) -> tuple:
        cost = math.hypot(search.costs["steps"], search.costs["nearness"])
        if self.forced:
            return search.steps.mechanisms(cost)
        return Choice("center", Near(search), self.early).mechanisms(cost)

    def run(self, release: Any, rows: Any, *given: Any):
        """Release the center, or pairs, and the rest; return what the rest returns."""
        plan = release.plan
        order = pair_order(self.moment.n_samples, self.bounds.n_features)
        if not _is_searched(plan):
            return self.rest.run(release, rows, order, None)
        if sparse.issparse(rows):
            return self._of_pairs(release, rows, order, "sparse rows stay sparse")
        sample = Sample.of(self.bounds, self.moment.n_samples)
        steps = CenterSteps(sample, (1.0,) * _number_planned(plan))
        typical, reach = self._lengths(release, sample, rows)
        radii, weights, error = steps.course(plan, typical, reach)
        if not self.forced and self._part(error, typical) > self._edge(plan):
            why = "they lie too far from the origin for their number and the budget"
            return self._of_pairs(release, rows, order, why)
        center = steps.run(release, rows, radii, weights)
        if self.bounds.box is not None:
            half = self.bounds.box.half_widths
            center = center.clip(-half, half)
        return self._about(release, rows, order, center, (error, typical))

    def _lengths(self, release, sample: Sample, rows) -> tuple[float, float]:
        """Typical distance of rows, and their distance from the start."""
        distance, reach = _lengths_of(sample)
        typical = distance.run(release, sample.distances(rows), _SHORTEST, _LONGEST)
        low = math.log2(typical) + _NEAREST
        far = (lengths_of(block) for block in sample.about(rows, 0.0))
        return typical, reach.run(release, far, low, low - _NEAREST + _FARTHEST)

    def _part(self, error: float, typical: float) -> float:
        """What an error of the center adds to the moment, in a direction of its own."""
        return min(error / max(self.bounds.clip or typical, 1e-150), 1.0) ** 2

    def _edge(self, plan) -> float:
        """Largest eigenvalue of the noise on the moment about a center."""
        noise_std = self.rest.relative_noise(plan)
        return 2.0 * math.sqrt(self.bounds.n_features) * noise_std

    def _of_pairs(self, release, rows, order, why: str):
        """Spend on pairs what the center would have cost, and the rest too."""
        early = self.early.run(release, rows, order)
        found = self.rest.run(
            release, rows, order, (early, release.plan[EARLY].mu ** 2)
        )
        return replace(
            found, said=f"Rows were compared with each other in pairs: {why}."
        )

    def _about(self, release, rows, order, center, lengths):
        """Release the rest, of rows about a center unless they are too near to it."""
        if self.forced:
            return self.rest.run(release, rows, center, None)
        nearness = Nearness(Sample.of(self.bounds, self.moment.n_samples))
        near, beside = nearness.run(release, rows, center, *lengths)
        noise_std = getattr(release.plan[nearness.name], "noise_std", 0.0)
        most = self._edge(release.plan) + _FORGIVEN * noise_std
        if near <= most and beside >= _LEAST_BESIDE:
            said = "Rows were measured from a private center, which is accurate enough."
            return replace(self.rest.run(release, rows, center, None), said=said)
        said = (
            "Rows were compared with each other in pairs: a private center was found, "
            "but too many of them lie near it, or too few beside it."
        )
        found = self.rest.run(release, rows, order, None)
        return replace(found, mean=center, said=said)

    def squared_error(self, mu: float, signal: float, noise: float) -> float:
        """As that of the rest: about a center or of pairs, by public numbers."""
        search = plan_search(self.moment, mu, self.forced)
        if search is None:
            return self.rest.squared_error(mu, signal, noise, True)
        return self.rest.squared_error(search.costs["rest"], signal, noise)

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Expected projection distance under a plan, to first order."""
        return math.sqrt(self.squared_error(plan.mu, signal, noise))


def _is_searched(plan) -> bool:
    return _number_planned(plan) > 0


def _number_planned(plan) -> int:
    """Number of steps to a center in a plan."""
    names = [mechanism.name for mechanism in plan.releases()]
    return sum(name.removeprefix("center_").isdigit() for name in names)
