"""Principal components in two stages: what each costs, releases, and makes of rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ... import _linalg
from ..combination import Choice
from ..second_moment import SecondMoment, share_of
from .power_step import PowerStep
from .principal_components import PrincipalComponents
from .released import Directions
from .scales import LEAST_SIGNAL, PrivateScales

# Share of mu**2 of the first stage, in what a private mean and a covariance leave. The
# second one gets the rest but for that of private lengths (LENGTHS_SHARE).
_FIRST_SHARE = 0.4
# Noise of votes, as a share of the rows, beyond which no choice rests on them.
_LOUDEST_VOTES = 0.15
# Name of a second release of the moment.
AGAIN = "second_moment_again"


class TwoStageComponents(PrincipalComponents):
    """Components of a noisy second moment, and of a power step that refines them.

    Or, by what the first stage promises, of a second release of the moment in place of
    the step. Of mu**2, once a private mean and a covariance are paid (15 % each), the
    second moment gets 40 %; private lengths, by which the step clips, get 4 %, and
    more where rows are few; the step, or the moment once more, gets what is left.

    Parameters
    ----------
    moment, rank, covariance
        As for :class:`PrincipalComponents`.
    signal, noise : float or None
        Public variances along the components beyond the noise, and across them, in
        units of the bounded rows; None for private ones.
    norm_range, radius
        As for :class:`PrincipalComponents`.
    choose : bool, default=False
        Whether the second stage is chosen; otherwise it is the step.
    sparing : bool, default=False
        Whether the moment is all that is released where votes on private lengths would
        be drowned, so that no choice could rest on them.
    """

    def __init__(
        self,
        moment: SecondMoment,
        rank: int | None,
        covariance: bool,
        signal: float | None,
        noise: float | None,
        norm_range: tuple[float, float],
        radius: float | None = None,
        choose: bool = False,
        sparing: bool = False,
    ) -> None:
        self._signal, self._choose = signal, choose
        self._sparing = sparing and choose and not covariance
        super().__init__(moment, rank, covariance, noise, norm_range, radius)

    def _plan_more(self, norm_range: tuple[float, float]) -> None:
        """Say what else is released: lengths that the step clips by, and the step."""
        moment, p = self.moment, self.bounds.n_features
        size = moment.n_samples, p
        self.scales = PrivateScales(*size, norm_range, self._signal, self.noise, False)
        if self._is_unclipped():
            # Rows may reach much further along what a second stage makes than along
            # the first components: the clip is that of the last ones.
            self.reach = PrivateScales(*size, norm_range, 0.0, 0.0, True, "reach")
        self.second = self.step = PowerStep(*size, self.width, self.bounds.paired)
        if self._choose:
            again = replace(moment, name=AGAIN)
            self.second = Choice("second_stage", self.step, again)
        else:  # a step needs a direction across the components
            self.most = max(1, min(self.width, p - 1))

    def _shared(self) -> dict[str, float]:
        """Shares of mu**2, with what the first stage leaves to the second."""
        shares = super()._shared()
        left = shares["first"]
        shares["first"] = _FIRST_SHARE * (1.0 - shares.get("covariance", 0.0))
        return {**shares, "second": left - shares["first"]}

    def mechanisms(self, mu: float) -> tuple:
        """Plan both stages, or the moment alone, at a total cost of mu."""
        if self._is_drowned(mu):
            return self.moment.mechanisms(mu)
        return super().mechanisms(mu)

    def _is_drowned(self, mu: float) -> bool:
        """Whether no choice could rest on the votes that mu pays for."""
        if not (self._sparing and self.scales.wanted and math.isfinite(mu)):
            return False
        noise = self.scales.noise_std(self.costs(mu)["scales"])
        return noise > _LOUDEST_VOTES * self._voters

    def directions(
        self, release: Any, X: Any, origin: Any, floor: float = 0.0, more: Any = ()
    ) -> Directions:
        """Release both stages; as :meth:`PrincipalComponents.directions`."""
        exact = self.moment.kernel(X, origin, floor)
        planned = {mechanism.name for mechanism in release.plan.releases()}
        if self._sparing and AGAIN not in planned:
            return self._first(release, exact, origin, more)
        # Kept where it may be released once more: sums of the same bits are cheap.
        kept = exact.copy(order="F") if self._choose else None
        found = self._first(release, exact, origin, more)
        blocks = self.bounds.blocks(X, origin)
        scales = self.scales.run(release, blocks, found.vectors)
        found = replace(found, scales=scales)
        paired = blocks.weight != 1.0
        if not self._choose or self._step_is_better(release.plan, found, paired):
            return self._stepped(release, blocks, found)
        return self._again(release, found, kept, origin)

    def _stepped(self, release, blocks, found: Directions) -> Directions:
        """Components of a power step from the first ones."""
        signal, noise, _ = found.scales
        vectors = self.step.run(release, blocks, found.vectors, signal, noise)
        along = vectors @ found.matrix @ vectors.T
        values, vectors = _linalg.leading_first(along, vectors)
        return replace(found, vectors=vectors, values=values)

    def _again(self, release, found: Directions, kept, origin) -> Directions:
        """Components of two releases of the moment, averaged by their costs."""
        plan = release.plan
        again = self.second.branches[1].release(release, kept, origin)
        share = share_of(plan, self.moment.name, AGAIN)
        matrix = share * found.matrix + (1.0 - share) * again
        spread = math.sqrt(share) * self.moment.noise_std(plan, origin)
        values, vectors = _linalg.top_eigh(matrix, len(found.vectors), spread)
        return replace(found, vectors=vectors, values=values, matrix=matrix)

    def _step_is_better(self, plan, found: Directions, paired: bool) -> bool:
        """Whether a power step promises less error than a second release of the moment.

        Both cost the same; the choice is made from released and public numbers.
        """
        rank, (signal, noise, _) = len(found.vectors), found.scales
        if self.bounds.n_features <= rank or signal <= 2.0 * LEAST_SIGNAL * noise:
            return False
        if self.scales.wanted:
            votes = getattr(plan["quantile_1"], "noise_std", 0.0)
            if votes > _LOUDEST_VOTES * self.moment.n_samples * (0.5 if paired else 1):
                return False
        costs = [plan[name].mu for name in (self.moment.name, AGAIN)]
        twice, staged = self._squared_errors(*costs, (rank, signal, noise), paired)
        return staged < twice

    # -- what errors to expect ---------------------------------------------------------

    def squared_error(
        self, mu: float, signal: float, noise: float, paired: bool = False
    ) -> float:
        """As :meth:`PrincipalComponents.squared_error`."""
        if not self._is_drowned(mu):
            return super().squared_error(mu, signal, noise, paired)
        alone = PrincipalComponents(self.moment, self.rank, False, None, (1.0, 2.0))
        return alone.squared_error(mu, signal, noise, paired)

    def _expected(self, costs: dict, signal: float, noise: float, paired) -> float:
        """Expected squared distance, by what each part costs."""
        stages, law = (costs["first"], costs["second"]), (self.rank, signal, noise)
        moment, staged = self._squared_errors(*stages, law, paired)
        return min(moment, staged) if self._choose else staged

    def _squared_errors(self, first, second, law, paired) -> tuple[float, float]:
        """Squared distances of two releases of the moment, and of a power step.

        From the costs of what comes first and of what comes second.
        """
        both = self.moment.squared_error(math.hypot(first, second), *law, paired)
        start = min(self.moment.squared_error(first, *law, paired), 2.0 * law[0])
        step = self.step
        if paired:
            # As many rows as one of which moves a mean as far.
            step = replace(step, n_samples=max(step.n_samples / 2, 1))
        return both, step.squared_error(second, *law, start)
