"""A model's projector with private variances in place of stated ones.

Half of the rows release directions, and the other half quantiles of their lengths along
and across these. Under the model they bound its signal from below, and by that what one
row moves the projector of all rows (:ref:`theorem-private-variances`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import betaincinv, gammainccinv, gammaincinv, ndtri

from ... import _linalg, sensitivity
from ...accounting import calibrate_gaussian, gaussian_mu, split_mu
from ...accounting._gaussian import MIN_DELTA
from ...mechanisms import Assumption, Exact, PrivacyPlan
from ..combination import Statistic
from ..row_bounds import RowBounds
from ..second_moment import SecondMoment
from .released import Components
from .scales import LEAST_SIGNAL, STEPS, PrivateScales, chi_square_median
from .spiked_projector import FAILURE_SHARE, ROUNDING, WHOLE_ORDER, exact_directions

# Shares of mu**2 of directions, of votes, and of the projector.
_SHARES = (0.05, 0.15, 0.8)
# Signals, in units of the noise variance, above which they count as this one: so that
# what the projector is divided by is bounded from below by public numbers.
_LARGEST_SIGNAL = 1e4
# Parts of the failure probability: half is the projector's; each of two counts of rows,
# and each of two sequences of noise, may be off with an eighth.
_PROJECTOR_PART, _EACH_PART = 0.5, 0.125
# Allowance for rounding errors of squared lengths, and of noise on its grid.
_ROUNDED = 2.0**-20


@dataclass(frozen=True)
class SignalBound:
    """How a bound on the signal is made of noisy quantiles: by public numbers.

    Parameters
    ----------
    n_voters : int
        Public number of rows that vote.
    noise_std : float
        Deviation of the noise of each vote.
    degrees : tuple (along, across)
        Dimensions of the parts of a row.
    failure : float
        Probability that the bound is above the signal, at most: half of it for counts,
        and half for noise.

    Attributes
    ----------
    along, across : float
        What squared quantiles are divided by: quantiles of chi-square laws of medians
        that are as far off as they may be; infinite, or zero, where nothing is known.
    """

    n_voters: int
    noise_std: float
    degrees: tuple[int, int]
    failure: float
    along: float = field(init=False)
    across: float = field(init=False)

    def __post_init__(self) -> None:
        n, each = self.n_voters, 0.25 * self.failure
        reach = -ndtri(each / STEPS) * self.noise_std * (1.0 + _ROUNDED)
        # As many rows as may lie below a length that the votes say half lie below,
        # and as few: by Clopper and Pearson.
        most, fewest = math.floor(0.5 * n + reach), math.ceil(0.5 * n - reach)
        # The share beyond: one less a share that small would lose what it is off by.
        beyond = betaincinv(n - most, most + 1, each) if most < n else 0.0
        below = betaincinv(fewest, n - fewest + 1, each) if fewest > 0 else 0.0
        halves = [0.5 * degrees for degrees in self.degrees]
        object.__setattr__(self, "along", 2.0 * float(gammainccinv(halves[0], beyond)))
        object.__setattr__(self, "across", 2.0 * float(gammaincinv(halves[1], below)))

    def signal(self, along: float, across: float) -> float:
        """Bound the signal over the noise variance from below.

        Parameters
        ----------
        along, across : float
            Lower end of the released cell of squared lengths along the directions,
            and upper end of that across them.

        Returns
        -------
        float
            At most the largest that counts; 0 where nothing is known.
        """
        if not (along > 0.0 and self.across > 0.0 and across < math.inf):
            return 0.0
        ratio = (along / self.along) / (across / self.across) * (1.0 - _ROUNDED)
        return min(max(ratio - 1.0, 0.0), _LARGEST_SIGNAL)

    def expected(self, signal: float) -> float:
        """Return the bound where the medians are those of the law."""
        medians = [chi_square_median(k) for k in self.degrees]
        return self.signal((signal + 1.0) * medians[0], medians[1])


@dataclass(frozen=True)
class UnknownSpikes(Statistic):
    """Components from a noisy projector, under a model whose variances are private.

    All components have the same signal variance under the model.

    Parameters
    ----------
    bounds : RowBounds
        Of unit rows, for the directions.
    n_samples : int
        Public number of rows, at least 2.
    rank : int
        Number of components.
    norm_range : tuple (low, high)
        Public range in which lengths are searched for.
    """

    bounds: RowBounds
    n_samples: int
    rank: int
    norm_range: tuple[float, float]

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return self.bounds.n_features

    @property
    def _half(self) -> int:
        """How many rows, the first ones, make directions."""
        return self.n_samples // 2

    @property
    def directions(self) -> SecondMoment:
        """What directions are made from, of the first half of the rows."""
        return SecondMoment(self.bounds, max(self._half, 1), "direction_moment")

    @property
    def scales(self) -> PrivateScales:
        """Votes of the other half."""
        voters = self.n_samples - self._half
        size = voters, self.n_features, self.norm_range
        return PrivateScales(*size, None, None, False)

    def _largest_distance(self) -> float:
        """How far any two projectors are apart at most, whatever the rows are."""
        return math.sqrt(2.0 * min(self.rank, self.n_features - self.rank))

    def distance(self, signal: float, failure: float) -> float:
        """Bound what one row moves the projector, by a bound on the signal.

        Parameters
        ----------
        signal : float
            Over the noise variance; released, or public.
        failure : float
            Of the plan.
        """
        most = self._largest_distance()
        if signal < LEAST_SIGNAL:
            return most
        model = (signal,) * self.rank, 1.0, self.n_samples, self.n_features
        part = _PROJECTOR_PART * failure
        return min(sensitivity.spiked_projector_sensitivity(*model, part), most)

    def bound(self, plan: PrivacyPlan) -> SignalBound:
        """Return how the signal is bounded under a plan."""
        degrees = self.rank, self.n_features - self.rank
        votes = plan["quantile_1"].noise_std
        part = 4.0 * _EACH_PART * plan.failure
        return SignalBound(self.n_samples - self._half, votes, degrees, part)

    def mechanisms(self, mu: float) -> tuple:
        """Refuse: bounds of the model depend on delta too, so that it has a `plan`."""
        raise ValueError("a SpikedModel is planned with its delta, by plan")

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan the releases within a budget, for rows of the model alone.

        Parameters
        ----------
        epsilon, delta : float
            The budget; an infinite epsilon for no noise.
        **named : object
            `estimator` and `seeded` of the plan.

        Raises
        ------
        ValueError
            If the model has no bound for so few rows whatever the signal, or there are
            too many features.
        """
        if self.n_features > WHOLE_ORDER:
            raise ValueError(
                f"a SpikedModel with private variances takes at most {WHOLE_ORDER} "
                f"features, got n_features={self.n_features}; state the variances"
            )
        failure, mu = 0.0, math.inf
        if math.isfinite(epsilon):
            failure = FAILURE_SHARE * delta
            self._check(delta, failure)
            mu = gaussian_mu(epsilon, delta - failure)
        return PrivacyPlan(
            epsilon,
            delta,
            self._parts(mu, failure),
            assumption=Assumption.SPIKED_GAUSSIAN,
            remarks=self._remarks(failure),
            failure=failure,
            **named,
        )

    def _check(self, delta: float, failure: float) -> None:
        """Refuse a delta that is too small, and what no signal has a bound for."""
        if delta - failure < MIN_DELTA:
            raise ValueError(
                f"delta={delta:g} is too small for a SpikedModel, which keeps a tenth "
                f"of it for rows beyond its bounds; choose at least {2 * MIN_DELTA:g}"
            )
        least = self.distance(_LARGEST_SIGNAL, failure)
        if self.n_samples < 4 or least >= self._largest_distance():
            raise ValueError(
                f"mechanism=SpikedModel(...) has no bound for n_samples="
                f"{self.n_samples}, n_features={self.n_features}, n_components="
                f"{self.rank}, whatever the variances are: it needs more rows"
            )

    def _parts(self, mu: float, failure: float) -> tuple:
        """Plan directions, votes and the projector, over its bound."""
        shape = (self.n_features,) * 2
        if not math.isfinite(mu):
            last = Exact("projector", shape, symmetric=True)
            costs = [math.inf] * 2
        else:
            *costs, cost = split_mu(mu, _SHARES)
            # What is divided by the bound that releases give moves by at most 1.
            least = self.distance(_LARGEST_SIGNAL, failure)
            error = ROUNDING * self.n_features * (1.0 + 1.0 / LEAST_SIGNAL) / least
            more = {"summation_error": error, "magnitude": 2.0 / least}
            last = calibrate_gaussian(
                "projector", 1.0, cost, shape, symmetric=True, **more
            )
        first = self.directions.mechanisms(costs[0])
        return (*first, *self.scales.mechanisms(costs[1]), last)

    def _remarks(self, failure: float) -> tuple[str, ...]:
        """Sentences about what the guarantee rests on."""
        sentences = (
            "Directions and votes are private for any data. The noise on the projector "
            "suffices for independent Gaussian rows of mean zero with a spiked "
            "covariance, whatever its variances, all signals alike, of which one is "
            "replaced by another such row; for other data it is not differentially "
            "private: a single long row can be seen in the result.",
        )
        if failure:
            sentences += (
                "The sensitivity is that of a theorem, from a released bound on the "
                f"signal, outside an event of probability {failure:g}, which delta "
                "includes and ledgers add up.",
            )
        return sentences

    # -- what is released --------------------------------------------------------------

    def run(self, release: Any, rows: Any, *given: Any) -> Components:
        """Release directions, votes, and the projector of all rows."""
        rank, half, plan = self.rank, self._half, release.plan
        moment = self.directions.run(release, rows[:half], None)
        directions = _linalg.top_eigh(moment, rank)[1]
        voting = self.bounds.blocks(rows[half:])
        cells = self.scales.cells(release, voting, directions)
        divisor = 1.0
        if plan.failure:
            signal = self.bound(plan).signal(cells[0].low, cells[1].high)
            divisor = self.distance(signal, plan.failure)
        vectors = self._components(release, rows, divisor)
        scales = self.scales.of(cells, rank)
        values = np.full(rank, scales.signal + scales.noise)
        total = float(values.sum()) + (self.n_features - rank) * scales.noise
        return Components(None, vectors, values, total, scales.noise, 1.0, rank)

    def _components(self, release: Any, rows: Any, divisor: float) -> np.ndarray:
        """Release the projector over a released divisor; return its eigenvectors."""
        exact = exact_directions(rows, self.rank)
        statistic = exact.T @ exact
        statistic /= divisor
        noisy = release("projector", statistic, overwrite=True)
        return _linalg.top_eigh(noisy, self.rank)[1]

    def expected_error(self, plan, signal: float, noise: float) -> float:
        """Expected projection distance under the model, to first order."""
        rank, private = self.rank, 0.0
        statistical = noise * (signal + noise) / signal**2 / self.n_samples
        if plan.failure:
            known = self.bound(plan).expected(signal / noise)
            private = plan["projector"].noise_std * self.distance(known, plan.failure)
        squared = statistical + 0.5 * private**2
        squared *= 2.0 * rank * (self.n_features - rank)
        return min(math.sqrt(squared), self._largest_distance())
