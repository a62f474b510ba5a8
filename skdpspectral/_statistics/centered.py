"""Three stages of a fit: lengths of rows, a center or pairs of rows, and their moment.

A fit is described once, from public numbers: its mechanisms are planned, charged and
released as they are. What depends on releases is a lookup among planned branches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from .. import sensitivity
from .._linalg.walks import PairOrder
from .._tables.clipping import sum_clipped_rows
from ..accounting._gaussian import calibrate_alike
from ..mechanisms import Alternatives, Concern, PrivacyPlan, Remark
from .moments import (
    KNOTS,
    PARTS,
    SEEN,
    Origin,
    Rows,
    Sample,
    count_shared,
    count_squares,
    plan_votes,
    squares,
)

# Octaves whose squares float64 holds, and the octaves below the distance of rows from
# the origin in which their distance from each other is sought.
LOW, _HIGH, _FARTHEST = -198, 198, 45
N_OCTAVES = _HIGH - LOW + 1
# All numbers below were set by the shares of variance in doc/tables/pca_centers.rst.
# Shares of mu**2: of the lengths and a center, at least; of the votes, at least; and of
# the lengths, at most, which is also the most noise of a vote. Lengths that are needed
# in any case have the last one instead (doc/tables/covariance_errors.rst).
_LEAST, _VOTES, _MOST, _ANYWAY = 0.005, 0.02, 0.1, 0.3
# Deviations of the lengths' noise that a share of all has, and that is seen; rows of a
# sample, at least; and the noise of votes that their number gives.
_SURE, _VISIBLE, _ROWS, _VOTE_NOISE = 32.0, 6.0, 1 << 14, 0.0015
# What a step leaves of a distance, by its clip and by its noise; the weight of a pass
# over all rows beside squared noise; and the part of a result that decides nothing,
# which is also the weight of a center's error along one direction.
_LEFT, _PASS, _SMALL = 0.2, 0.1, 0.05
# Least share of rows that are near a center, and whose distances are alike.
_NEAR = 0.2
_LARGEST_MU = 1e6  # of a schedule: without noise, too
_RATIOS = np.exp2(np.arange(0.0, _FARTHEST, 0.25))
_MOST_STEPS = math.ceil(_FARTHEST / -math.log2(_LEFT))


def count_lengths(blocks) -> np.ndarray:
    """Sum the parts of rows in the two octaves about their length, times `PARTS`."""
    counts = np.zeros(N_OCTAVES)
    for block in blocks:
        with np.errstate(divide="ignore"):
            octaves = 0.5 * np.log2(squares(block)) - LOW  # of length 0: the first
        counts += count_shared(octaves, N_OCTAVES)
    return counts


def plan_lengths(sample: Sample, mu: float, most: float = 1.0) -> Any:
    """Plan the release of `shares_of_lengths`; `most` is root half without pairs."""
    moved = sensitivity.mean_sensitivity(most, sample.n_rows)
    more = {"summation_error": 2.0**-50, "lemma": "length-parts"}
    return calibrate_alike(["lengths"], moved, mu, (2, N_OCTAVES), **more)[0]


def shares_of_lengths(rows: Rows, X: Any, sample: Sample, pairs: bool = True):
    """Return halves of shares of differences by length, and shares of rows."""
    exact = np.zeros((2, N_OCTAVES))
    exact[1] = rows.about(X, None, sample).reduce(count_lengths)
    if pairs:
        exact[0] = rows.differences(X, sample).reduce(count_lengths)
    return exact / (np.array([[2.0], [1.0]]) * (PARTS * sample.n_rows))


def typical_lengths(released: np.ndarray, noise: float) -> tuple[float, float, bool]:
    """Return lengths of differences and of rows, and whether most differences are such.

    If no length of differences stands out of the noise, it is that of rows, or 0.
    """
    sure = _VISIBLE * noise
    place, reach, most = _fullest(released[1], 1, N_OCTAVES, noise)
    first = max(place - _FARTHEST, 1)
    _, typical, share = _fullest(released[0], first, max(place + 2, first + 1), noise)
    if share < sure:
        return reach if most >= sure else 0.0, reach, False
    return min(typical, reach), reach, 2.0 * share >= _NEAR


def _fullest(shares: np.ndarray, first: int, last: int, noise: float):
    """Return the place, mean length and share of the fullest three octaves.

    The mean is over octaves about the largest that are above the noise.
    """
    sums = np.convolve(shares, np.ones(3), "valid")[first:last]
    place = first + int(np.argmax(sums))
    middle = place + int(np.argmax(shares[place : place + 3]))
    around = np.arange(max(middle - 1, 0), min(middle + 2, N_OCTAVES))
    weights = np.where(shares[around] > SEEN * noise, shares[around], 0.0)
    weights[around == middle] = max(float(shares[middle]), 1e-12)
    mean = float(weights @ around) / float(weights.sum())
    return place, 2.0 ** (mean + LOW), float(sums.max())


def plan_steps(names: tuple[str, ...], sample: Sample, mu: float, p: int) -> tuple:
    """Plan clipped means over their radius, of a sample each, at a total cost."""
    moved = sensitivity.mean_sensitivity(1.0, sample.n_rows)
    more = {"summation_error": sample.rounding, "magnitude": 2.0}
    more["lemma"] = "shrinking-center"
    return calibrate_alike(names, moved, mu, (p,), **more)


class Course(NamedTuple):
    """Steps to a center: shares of mu**2, samples, and noise over radius of each.

    Lengths are in units of the typical one.
    """

    shares: tuple[float, ...]
    samples: tuple[Sample, ...]
    noise: tuple[float, ...]

    @classmethod
    def of(cls, order: PairOrder, mu: float, share: float, n_steps: int, edge: float):
        """Return a course of given cost, for a moment whose noise has this edge."""
        shares, wanted = [share], [min(_LEFT, math.sqrt(_LEFT * edge))]
        if n_steps > 1:  # the last one gets half
            shares = [0.5 * share / (n_steps - 1)] * (n_steps - 1) + [0.5 * share]
            wanted = [_LEFT] * (n_steps - 1) + wanted
        samples, noise = [], []
        for part, most in zip(shares, wanted, strict=True):
            one = 2.0 * math.sqrt(order.n_features) / (mu * math.sqrt(part))
            samples.append(Sample.of(order, max(_ROWS, one / most, most**-2.0)))
            noise.append(one / samples[-1].n_rows)
        return cls(tuple(shares), tuple(samples), tuple(noise))

    def radii(self, ratio, p: int) -> tuple[list, Any]:
        """Return clips of the steps for rows `ratio` away, and the last one's noise."""
        n_steps, radii, error = len(self.noise), [], 0.0
        radius = ratio * (1.0 if n_steps == 1 else 1.0 + _LEFT)
        for step, noise in enumerate(self.noise, 2):
            radii.append(radius)
            error = noise * radius
            longer = np.hypot(1.0, error * (1.0 + 3.0 / math.sqrt(2.0 * p)))
            radius = np.minimum(radius, (1.0 + _LEFT * (step < n_steps)) * longer)
        return radii, error


@lru_cache(maxsize=64)
def plan_courses(order: PairOrder, mu: float, lengths: float, votes: float):
    """Return courses, and the number of the one that is taken, by `_RATIOS`.

    None means pairs. A course is judged by the squared noise of the moment and of its
    center, and by the rows that it reads. Of those that are nearly the best, the one is
    taken that stays so for longest: there are as few branches as possible.
    """
    p = order.n_features
    edge = 2.0 * math.sqrt(p) / (order.n_samples * mu)
    scores, courses = [np.full(len(_RATIOS), edge**2 / (1.0 - lengths))], [None]
    for share in (_LEAST * np.exp2(np.arange(0.0, 8.0, 0.5))).tolist():
        rest = 1.0 - lengths - share - votes
        if rest <= 0.0:
            break
        left = edge / math.sqrt(rest)
        for n_steps in range(1, _MOST_STEPS + 1):
            courses.append(Course.of(order, mu, share, n_steps, left))
            error = courses[-1].radii(_RATIOS, p)[1] ** 2
            error = error + _LEFT ** (2 * n_steps) * (_RATIOS**2 - 1.0)
            score = left**2 / 4.0 + error**2 * (1.0 / p + _SMALL)
            n_rows = sum(sample.n_rows for sample in courses[-1].samples)
            score *= 1.0 + _PASS * n_rows / order.n_samples
            scores.append(np.where(error <= left, score, np.inf))
    table, chosen = np.array(scores), list[int]()
    nearly = table <= (1.0 + _SMALL) * table.min(axis=0)
    while len(chosen) < len(_RATIOS):
        rest = nearly[:, len(chosen) :]
        ends = np.where(rest.all(axis=1), rest.shape[1], rest.argmin(axis=1))
        chosen += [int(ends.argmax())] * int(ends.max())
    used, places = np.unique([0, *chosen], return_inverse=True)
    return [courses[number] for number in used], places[1:]


@dataclass(frozen=True)
class Branch:
    """What may follow the lengths: steps to a center, or pairs; votes; the last."""

    course: Course | None
    means: tuple
    votes: Any
    last: Any

    @property
    def mechanisms(self) -> tuple:
        """Return the planned releases."""
        votes = () if self.votes is None else (self.votes,)
        return (*self.means, *votes, *self.last.mechanisms)


class Fit:
    """Base class of a description of one fit: its mechanisms, and their release."""

    rows: Rows
    mechanisms: tuple
    remarks: tuple = ()

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Return the plan that is charged, which has the mechanisms that are run."""
        box, said = self.rows.box, [*self.remarks]
        flat = 0 if box is None else int(np.sum(box.half_widths == 0.0))
        if flat and not self.rows.ranks:
            sentence = f"{flat} features have no extent and count for nothing."
            said.append(Remark(sentence, Concern.MEASURED))
        return PrivacyPlan(epsilon, delta, self.mechanisms, remarks=said, **named)

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return warnings from public numbers."""
        return ()


_FEW = (
    "Rows are compared with each other in pairs: with so few rows and so small a "
    "budget, no private center is accurate enough."
)
_TAKEN = "Rows were measured from a private center, which is accurate enough."
_AFAR = (
    "Rows were compared with each other in pairs: they are too far from the origin for "
    "this number of rows and this budget, or too different from each other."
)
_FAR = (
    "Rows were compared with each other in pairs, because nearly all of them are far "
    "from the private center. Features in different units can cause this; "
    'scale="ranks" or a DPStandardScaler may help.'
)


class Centered(Fit):
    """A statistic of rows about a private center, or of pairs of rows.

    `center` is "auto", "pairs" or "none". The statistic is planned as ``last(suffix,
    rows, mu)``, and runs with an origin. Lengths are `measured` if they are worth it,
    and votes too; or lengths alone, if true, in any case; or, if false, nothing is.
    """

    def __init__(
        self, rows: Rows, mu: float, center: str, last: Any, measured: Any = None
    ) -> None:
        self.rows, self.mu, self.center, self.last = rows, mu, center, last
        scheduled = min(mu, _LARGEST_MU)
        enough = math.sqrt(2.0 / _VOTES) / (scheduled * _VOTE_NOISE)
        self.voters = rows.sample(max(_ROWS, enough))
        enough = _SURE / (scheduled * math.sqrt(_LEAST))
        self.measured = rows.sample(max(_ROWS, enough))
        cost = max(_LEAST, (_SURE / (self.measured.n_rows * mu)) ** 2)
        if rows.n < 2 or cost > _MOST or measured is False:
            cost = _ANYWAY if measured else 0.0
        self.lengths, self.test = None, 0.0
        if cost > 0.0:
            most = math.sqrt(0.5) if center == "none" else 1.0
            self.lengths = plan_lengths(self.measured, mu * math.sqrt(cost), most)
            if measured is None:
                unit = math.sqrt(2.0) / (self.voters.n_rows * mu)  # noise, share 1
                self.test = max(_VOTES, (unit / _MOST) ** 2)
        self.spent, courses, self.chosen = cost, [None], np.zeros(len(_RATIOS), int)
        if center == "auto" and cost > 0.0:
            public = rows.sampling, scheduled, cost, self.test
            courses, self.chosen = plan_courses(*public)
        self.branches = [self._branch(*each) for each in enumerate(courses)]
        planned = tuple(branch.mechanisms for branch in self.branches)
        after = planned[0] if len(planned) == 1 else (Alternatives("center", planned),)
        self.mechanisms = after if self.lengths is None else (self.lengths, *after)
        self.remarks = self._remarks()

    def _remarks(self) -> tuple:
        if self.center == "none":
            boxed = self.rows.box is not None
            what = "the midpoint of the bounds" if boxed else "the origin"
            said = f"Variance is measured about {what}; no mean was estimated."
            return (Remark(said, Concern.MEASURED),)
        if self.center == "pairs":
            said = RANKS if self.rows.ranks else PAIRED
            return (Remark(said, Concern.MEASURED),)
        return (Remark(_FEW, Concern.CENTER),) * (len(self.branches) == 1)

    def _branch(self, number: int, course: Course | None) -> Branch:
        """Plan a branch: all of it costs what the lengths leave."""
        rows, suffix = self.rows, f"_{number}" * bool(number)
        votes, paired = None, course is None and self.center != "none"
        if self.test > 0.0:
            cost = self.mu * math.sqrt(self.test)
            votes = plan_votes(f"votes{suffix}", cost, self.voters, paired)
        spent, means = self.spent + self.test, list[Any]()
        if course is not None:
            spent += math.fsum(course.shares)
            names = [f"center{suffix}_{k}" for k in range(1, len(course.shares) + 1)]
            for part in (slice(-1), slice(-1, None)):  # all but the last are alike
                if shares := course.shares[part]:
                    cost = self.mu * math.sqrt(math.fsum(shares))
                    given = tuple(names[part]), course.samples[part][0]
                    means += plan_steps(*given, cost, rows.p)
        last = self.last(suffix, rows, self.mu * math.sqrt(1.0 - spent))
        return Branch(course, tuple(means), votes, last)

    def run(self, release: Any, X: Any) -> tuple[Any, Origin, Any, tuple]:
        """Release all stages; return the last one, its origin and result, remarks."""
        origin, said = Origin(paired=self.center != "none"), ()
        branch = self.branches[0]
        if self.lengths is not None:
            typical, reach, is_seen = self._measure(release, X)
            if is_seen or self.test == 0.0:  # without votes, any length is a start
                origin = origin._replace(typical=typical)
            if is_seen:
                ratio = min(reach / typical, _RATIOS[-1])
                at = int(np.searchsorted(_RATIOS, ratio))
                branch = self.branches[self.chosen[at]]
        if branch.course is not None:
            origin = self._find_center(release, X, branch, typical, _RATIOS[at])
            said = (_TAKEN,)
        elif len(self.branches) > 1:
            said = (Remark(_AFAR, Concern.CENTER),)
        if branch.votes is not None and origin.typical > 0.0:
            origin = self._vote(release, X, branch, origin)
            near = np.minimum(1.0, 1.0 / np.maximum(KNOTS, 1e-9))
            if branch.course is not None and origin.votes @ near < _NEAR:
                origin = Origin(origin.center, paired=True)
                said = (Remark(_FAR, Concern.CENTER),)
        return branch.last, origin, branch.last.run(release, X, origin), said

    def _measure(self, release, X) -> tuple[float, float, bool]:
        """Release the lengths of differences and of rows; return typical ones."""
        given = self.rows, X, self.measured, self.center != "none"
        exact = shares_of_lengths(*given)
        noise = getattr(self.lengths, "noise_std", 0.0)
        typical, reach, is_seen = typical_lengths(release("lengths", exact), noise)
        if self.center == "none":
            return reach, reach, True
        return typical, reach, is_seen

    def _find_center(self, release, X, branch, typical, ratio) -> Origin:
        """Release the steps of a branch."""
        radii, error = branch.course.radii(ratio, self.rows.p)
        center, box = np.zeros(self.rows.p), self.rows.box
        steps = zip(branch.means, branch.course.samples, radii, strict=True)
        for mean, sample, radius in steps:
            clip = float(np.clip(radius * typical, 1e-60, 1e60))
            walked = self.rows.about(X, center, sample)
            total = walked.reduce(partial(sum_clipped, radius=clip, p=self.rows.p))
            center = center + clip * release(mean.name, total / sample.n_rows / clip)
        if box is not None:
            center = center.clip(-box.half_widths, box.half_widths)
        return Origin(center, False, typical, error * typical)

    def _vote(self, release, X, branch, origin: Origin) -> Origin:
        """Release votes for squared lengths about the origin."""
        rows, voters = self.rows, self.voters
        walked = rows.differences(X, voters)
        if not origin.paired:
            walked = rows.about(X, origin.center, voters)
        counts = walked.reduce(partial(count_squares, typical=origin.typical))
        votes = release(branch.votes.name, counts / (PARTS * voters.n_rows))
        noise = getattr(branch.votes, "noise_std", 0.0)
        return origin._replace(votes=votes, noise=noise)


RANKS = (
    "Components are computed from correlations that are estimated with Kendall's rank "
    "correlations, which use only the signs of differences of rows in each feature. No "
    "scale of a feature was measured."
)
PAIRED = (
    "Rows are compared with each other in pairs, and half of each mean over pairs is "
    "released; no mean was estimated."
)


def sum_clipped(blocks, radius: float, p: int) -> np.ndarray:
    """Sum clipped rows, in their own memory."""
    total = np.zeros(p)
    for block in blocks:
        total += sum_clipped_rows(block, radius)
    return total
