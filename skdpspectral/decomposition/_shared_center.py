"""A center that the clients of a federation find together, round by round.

Clients release lengths of their rows and of differences between them, then two clipped
means. From these the server computes a common center, and how much sites differ. Each
client then measures its rows from there, or compares them in pairs: of the request, its
own releases and public numbers alone, so that the server knows which of the two it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import sensitivity
from .._messages.messages import MessageError
from .._statistics.centered import (
    LOW,
    N_OCTAVES,
    plan_lengths,
    shares_of_lengths,
    sum_clipped,
    typical_lengths,
)
from .._statistics.moments import Rows, Sample
from .._statistics.statistic import HALF, Combination, Statistic, pair_order
from ..accounting import split_mu
from ..accounting._gaussian import calibrate_alike
from . import _kernels
from ._bounded_moments import PowerIteration, RowBounds
from ._federated_queries import DEVIATIONS, ROUNDING, Query, Start

# Shares of mu**2, and those of the two clipped means in theirs.
_SHARES = {"lengths": 0.02, "center": 0.05, "rest": 0.93}
_MEANS = (0.4, 0.6)

# Rows that a center is made from, at most: more would only take time.
_MOST_ROWS = 1 << 17
# What shares of half the differences, and of the rows, sum up to.
TOTALS = (HALF, 1.0)

# Clips in units of the length that rows have then.
_CLIP, _WIDER = 1.1, 1.3
# Differences below this part of the typical one are short: rows repeat.
_SHORT = 1.0 / 16.0
# Deviations of noise that hide shares, and the most noise that lengths are read at.
_HIDDEN, _MOST_NOISE = 5.0, 1.0 / 16.0
# Deviations of noise that a test forgives, and the share of a clip that a mean may be
# away from its start: of one farther away, too many rows were clipped.
_FORGIVEN, _FARTHEST = 3.0, 0.65
# What the error of a center may add to a moment, in units of what its noise hides.
_TOLERATED = 2.0
# Length below which rows keep theirs, in typical lengths: at most, and its square in
# units of one over the largest eigenvalue of the noise.
_HIGHEST_FLOOR, _FLOOR_OF_NOISE = 1.6, 0.004
# Ranges of what a server sends: lengths and places, and squares of them.
_LENGTHS, _SQUARES = (1e-60, 1e60), (0.0, 1e130)
# Numbers behind a center: the error of a common one, the variance between sites, the
# mean of one over squared distances, the share of short ones, the length below which
# rows keep theirs, and the typical one.
N_NUMBERS = 6


@dataclass(frozen=True)
class Lengths(Statistic):
    """Shares of half of the differences between rows, and of rows, by length."""

    rows: Rows
    sample: Sample

    def mechanisms(self, mu: float) -> tuple:
        return (plan_lengths(self.sample, mu),)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        return release("lengths", shares_of_lengths(self.rows, rows, self.sample))


@dataclass(frozen=True)
class CenterSteps(Statistic):
    """Two clipped means that approach the rows of a sample."""

    rows: Rows
    sample: Sample

    def mechanisms(self, mu: float) -> tuple:
        moved = sensitivity.mean_sensitivity(1.0, self.sample.n_rows)
        more = {"summation_error": self.sample.rounding, "magnitude": 2.0}
        given = {"lemma": "shrinking-center", **more}
        first, second = split_mu(mu, _MEANS)
        shape = (self.rows.p,)
        return (
            *calibrate_alike(["center_1"], moved, first, shape, **given),
            *calibrate_alike(["center_2"], moved, second, shape, **given),
        )

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the mean of rows about a point, clipped at a radius, over it."""
        name, point, radius = given
        kernel = partial(sum_clipped, radius=radius, p=self.rows.p)
        total = self.rows.about(rows, point, self.sample).reduce(kernel)
        mean = total / self.sample.n_rows / radius
        return release(name, mean, overwrite=True)


class SharedCenter(Combination):
    """Releases of a client in the rounds to a center, and a moment from there."""

    def __init__(self, bounds: RowBounds, n_samples: int, rest: PowerIteration) -> None:
        self.bounds, self.n_samples, self.rest = bounds, n_samples, rest
        rows = Rows(n_samples, bounds.n_features, bounds.box)
        self.sample = rows.sample(_MOST_ROWS)
        self.lengths = Lengths(rows, self.sample)
        self.steps = CenterSteps(rows, self.sample)
        parts = {"lengths": self.lengths, "center": self.steps, "rest": rest}
        super().__init__(parts, _SHARES)

    def center(
        self, plan: Any, second: np.ndarray, mean: np.ndarray, third: np.ndarray
    ):
        """Return the client's center, None where it is not accurate enough.

        `mean` is what was released for the second column, and `third` the last one. Of
        these and public numbers alone, and the same at the client and the server: sums
        are rounded once, whatever their order.
        """
        p, n_rows = len(mean), self.sample.n_rows
        radius, center = float(second[-1]), third[:p]
        error, between, inverse, short, _, typical = third[p:].tolist()
        noise = getattr(plan["center_2"], "noise_std", 0.0)
        # Rows of another place, too far away for this clip.
        length = math.fsum(mean**2) - p * noise**2
        if length > _FARTHEST**2:
            return None
        variance = (noise * radius) ** 2 + typical**2 / (p * n_rows)
        own = between / (between + variance)
        difference = second[:p] + radius * mean - center
        # What is left of its distance from the others, beyond noise.
        forgiven = (p + _FORGIVEN * math.sqrt(2.0 * p)) * variance
        left = (1.0 - own) ** 2 * max(math.fsum(difference**2) - forgiven, 0.0)
        error = max(error, left, p * own * variance)
        if short + error * inverse > self._tolerance(plan):
            return None
        return self.within(center + own * difference)

    def within(self, point: np.ndarray) -> np.ndarray:
        """Move a center to where one can be."""
        box = self.bounds.box
        most = _LENGTHS[1] if box is None else box.half_widths
        return np.clip(point, -most, most)

    def _tolerance(self, plan: Any) -> float:
        """Largest eigenvalue that an error may add to the moment, over that of rows."""
        sampling = 2.0 / math.sqrt(self.bounds.n_features * self.n_samples)
        return _TOLERATED * math.hypot(self.edge(plan), sampling)

    def edge(self, plan: Any) -> float:
        """Largest eigenvalue of the noise on the moment, over that of rows."""
        noise = getattr(plan["second_moment"], "noise_std", 0.0)
        size = math.sqrt(2.0 * self.bounds.n_features)
        return size * noise


class _AskAbout(Query):
    """A request with one column: a point, if any, and numbers about the center."""

    def __init__(self, task, release: str, shape, n_point: int, n_numbers: int) -> None:
        super().__init__(task, release, shape)
        self._n_point, self.basis_shape = n_point, (n_point + n_numbers, 1)

    def ask(self, rounds: Any) -> np.ndarray:
        return rounds.columns[-1][:, None]

    def read(self, basis: np.ndarray) -> np.ndarray:
        """Return what a server sent, flat, or raise if no honest one would send it."""
        super().read(basis)
        place, numbers = np.split(basis[:, 0], [self._n_point])
        low, high = _LENGTHS
        valid = np.all(np.abs(place) <= high) and low <= numbers[-1] <= high
        valid &= np.all((_SQUARES[0] <= numbers[:-1]) & (numbers[:-1] <= _SQUARES[1]))
        if not valid:
            raise MessageError("its numbers about the center are out of range")
        return basis[:, 0]


def _precisions(
    query: Query, rounds: Any, replies: list
) -> tuple[np.ndarray, np.ndarray]:
    """Noise of what clients sent about a center, and numbers of rows behind it."""
    rows = [query.task.statistic(r.n_samples).sample.n_rows for r in replies]
    return rounds.sizes(query, replies)[1], np.array(rows, dtype=float)


class AskLengths(Query):
    """Noisy histograms of half of the distances between rows, and of their lengths."""

    def __init__(self, task) -> None:
        super().__init__(task, "lengths", (len(TOTALS), N_OCTAVES))

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Release the histograms."""
        return (), rows.statistic.lengths.run(rows.release, rows.X)

    def bound(self, n_samples: int) -> tuple[float, float]:
        """Those of shares."""
        return 1.0, math.hypot(*TOTALS)

    def check(self, party: Any, reply: Any) -> None:
        """Refuse histograms whose shares do not sum up to the whole."""
        values, noise = reply.values, self.noise(party)
        off = np.abs(values.sum(axis=1) - TOTALS)
        most = DEVIATIONS * noise * math.sqrt(values.shape[1]) + ROUNDING
        if not np.all(off <= most) or values.min() < -DEVIATIONS * noise - ROUNDING:
            raise MessageError("its histograms are not those of shares")
        super().check(party, reply)

    def use(self, rounds: Any, replies: list) -> None:
        """Read typical lengths, and ask for means within them."""
        replies = rounds.weighing(replies)
        shares = np.stack([reply.values for reply in replies])
        rounds.typical = Typical.of(shares, *_precisions(self, rounds, replies))
        rounds.columns = [rounds.typical.first()]


class AskCenter(_AskAbout):
    """A noisy mean of rows about a point, clipped at a radius, over this radius."""

    def __init__(self, task, number: int) -> None:
        self._number, p = number, task.n_features
        n_point = p if number > 1 else 0
        super().__init__(task, f"center_{number}", (p,), n_point, 1)

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Release the mean."""
        steps, point = rows.statistic.steps, given[:-1]
        point = point if len(point) else np.zeros(self.task.n_features)
        asked = self.release, point, float(given[-1])
        rows.mean = steps.run(rows.release, rows.X, *asked)
        rows.column = given
        return (), rows.mean

    def use(self, rounds: Any, replies: list) -> None:
        """Ask for second means about the first; then tell all clients what is found."""
        used, typical = rounds.weighing(replies), rounds.typical
        given = np.stack([r.values for r in used]), *_precisions(self, rounds, used)
        if self._number == 1:
            rounds.columns.append(typical.second(*given))
            return
        second = rounds.columns[-1]
        third = typical.third(*given, second)
        centers, edges, parties = [], [], [rounds.parties[r.client] for r in replies]
        for reply, party in zip(replies, parties, strict=True):
            statistic = self.task.statistic(party.n_samples)
            own = statistic.center(party.plan, second, reply.values, third)
            party.paired = own is None
            common = statistic.within(third[: self.task.n_features])
            centers.append(common if own is None else own)
            edges.append(statistic.edge(party.plan))
        heard = [any(reply is one for one in used) for reply in replies]
        paired = np.array([party.paired for party in parties])
        # Who compares pairs does not depend on it.
        third[-2] = typical.floor(np.array(edges)[heard], paired[heard])
        rounds.columns.append(third)
        if typical.known:
            n = [float(party.n_samples) for party in parties]
            rounds.mean = np.array(n) / sum(n) @ np.stack(centers)


class CenteredStart(Start, _AskAbout):
    """The start of clients that know a shared center, or compare their rows."""

    def __init__(self, task) -> None:
        Start.__init__(self, task)
        self._n_point = task.n_features
        self.basis_shape = task.n_features + N_NUMBERS, 1

    def value(self, rows: Any, given: Any) -> tuple[tuple, np.ndarray]:
        """Find the center, or none, of releases and public numbers; then start."""
        statistic, asked = rows.statistic, (rows.column, rows.mean, given)
        rows.origin = statistic.center(rows.plan, *asked)
        if rows.origin is None:
            rows.origin = pair_order(statistic.n_samples, self.task.n_features)
        rows.floor = _as_length(float(given[-2]))
        return super().value(rows, None)


# -- what a server makes of released numbers -------------------------------------------


@dataclass(frozen=True)
class Typical:
    """Lengths that a server reads: typical and of most rows, and what is short.

    Where it can read none, all is short, and clients compare pairs.
    """

    typical: float
    reach: float
    short: float
    inverse: float

    @property
    def known(self) -> bool:
        """Whether lengths could be read at all."""
        return self.short < 2.0

    @classmethod
    def of(cls, shares: np.ndarray, noise: np.ndarray, n_rows: np.ndarray):
        """Read histograms of clients, of shape (m, 2, N_OCTAVES)."""
        weights = _kernels.inverse_variance_weights(noise**2 + 1.0 / n_rows)
        spread = float(np.linalg.norm(weights * noise))
        averages = np.tensordot(weights, shares, axes=1)
        seen = np.where(averages[0] > _HIDDEN * spread, averages[0], 0.0)
        typical, reach, is_seen = typical_lengths(averages, spread)
        if spread > _MOST_NOISE or not is_seen or seen.sum() <= 0.5 * HALF:
            return cls(1.0, 1.0, _SQUARES[1], 0.0)
        places, seen = LOW + np.arange(N_OCTAVES), seen / seen.sum()
        far = places >= math.log2(_SHORT * typical)
        inverse = float(seen[far] @ 4.0 ** (math.log2(typical) - places[far]))
        return cls(typical, reach, float(seen[~far].sum()), inverse / typical**2)

    def first(self) -> np.ndarray:
        """Return the column that asks for the first means."""
        return np.array([_as_length(_CLIP * self.reach)])

    def second(self, means: np.ndarray, noise: np.ndarray, n_rows: np.ndarray):
        """Return the column that asks for means about the average of the first ones."""
        radius, p = self.first()[0], means.shape[1]
        weights = _kernels.inverse_variance_weights(noise**2 + 1.0 / (p * n_rows))
        point = np.clip(radius * (weights @ means), -_LENGTHS[1], _LENGTHS[1])
        error = math.sqrt(p) * radius * float(np.linalg.norm(weights * noise))
        longer = _CLIP * math.hypot(self.typical, error)
        return np.append(point, _as_length(_WIDER * min(radius, longer)))

    def third(self, means, noise, n_rows, second) -> np.ndarray:
        """Return the column that tells all clients where they are, and how far apart.

        All have one center if the sum of their squared distances from it, in units of
        their variances, could be by chance. The floor of lengths, last but one, is 0.
        """
        n_clients, p = means.shape
        radius = second[-1]
        variances = (noise * radius) ** 2 + self.typical**2 / (p * n_rows)
        weights = _kernels.inverse_variance_weights(variances)
        points = second[:-1] + radius * means
        center = np.clip(weights @ points, -_LENGTHS[1], _LENGTHS[1])
        squares = np.sum((points - center) ** 2, axis=1)
        degrees = p * (n_clients - 1)
        chance = degrees + _FORGIVEN * math.sqrt(2.0 * degrees)
        apart, between = float(np.sum(squares / variances)), 0.0
        if apart > chance and n_clients > 1:
            between = (apart - degrees) / p
            # Positive for any weights: one minus their squares is rounded to 0.
            between /= float(np.sum((1.0 - weights) / variances))
        error = p * float(np.sum(weights**2 * variances))
        numbers = error, between, self.inverse, self.short, 0.0
        return np.concatenate([center, np.clip(numbers, *_SQUARES), [self.typical]])

    def floor(self, edges: np.ndarray, paired: np.ndarray) -> float:
        """Return the length below which rows keep theirs, one for all clients.

        `edges` are those of the noise on moments. Where most of the weight is with
        pairs, there is none: differences have unit norm.
        """
        precisions = np.maximum(edges / np.where(paired, HALF, 1.0), 1e-100) ** -2.0
        if not precisions[~paired].sum() > 0.5 * precisions.sum():
            return 0.0
        edge = float(np.mean(precisions)) ** -0.5
        most = _FLOOR_OF_NOISE / _HIGHEST_FLOOR**2
        return _as_length(self.typical * math.sqrt(_FLOOR_OF_NOISE / max(edge, most)))


def _as_length(number: float) -> float:
    return min(max(number, _LENGTHS[0]), _LENGTHS[1])
