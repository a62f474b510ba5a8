"""Noise that several parties add, each a share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ._gaussian import Gaussian
from ._numbers import check_count

# Sums of rounded shares differ from a function of one Gaussian by less than this, in
# logarithm: no delta of float64 is as small.
_LOG_DISTANCE = -1000.0 * math.log(10.0)
# Shares that sums of whole numbers are exact for.
MOST_SHARES = 1024


def log_share_distance(n_shares: int, steps: float) -> float:
    r"""Bound how far sums of rounded Gaussians are from a function of one Gaussian.

    Parameters
    ----------
    n_shares : int
        Number m of rounded Gaussians.
    steps : float
        Standard deviation :math:`\sigma` of each, in steps of the grid; at least 1.

    Returns
    -------
    float
        Logarithm of a bound on the total variation of one number
        (:ref:`lemma-noise-shares`).
    """
    m, square = n_shares, steps * steps
    exponent = -0.5 * math.pi**2 * square
    # Terms of a theta series beyond the first, which is the largest.
    ratio = 2.0 / -math.expm1(8.0 * exponent)
    rest = ratio * math.exp(exponent)
    values = 0.5 * (2.0 * math.pi * square * math.sqrt(m) + m + 1.0)
    values *= ratio * (m * (1.0 + rest) ** (m - 1) + 1.0)
    return exponent + math.log(values + 2.0)


@dataclass(frozen=True)
class SharedGaussian(Gaussian):
    r"""A Gaussian mechanism on sums, whose noise is added by parties, a share each.

    Every party rounds its own part of the sum to the grid, and adds a rounded Gaussian
    of variance ``noise_std**2 / n_shares``. Whole numbers of grid steps add up without
    any rounding, in any order.

    Parameters
    ----------
    name, sensitivity, shape, summation_error, magnitude
        As in :class:`Gaussian`.
    noise_std : float
        Standard deviation of `n_shares` shares together.
    symmetric : bool, default=False
        Always False: parts are vectors.
    n_shares : int, default=1
        Shares that are the noise together, at most 1024. More of them may be added.

    Attributes
    ----------
    mu : float
        Cost against whoever sees the sum alone and knows all shares but `n_shares`.

    Raises
    ------
    ValueError
        If a share would be too small for its grid.

    Notes
    -----
    **Formal guarantee.** A unit is in the part of one party. If only the sum is seen,
    and `h` shares of it are unknown to who sees it, that of the unit's party among
    them, then the sum is :math:`\mu \sqrt{n/h}`-Gaussian differentially private for
    `n` = `n_shares`, but for a total variation below :math:`10^{-1000}`
    (:ref:`lemma-noise-shares`). A part that is seen alone is :math:`h = 1`.
    """

    kind: ClassVar[str] = "shared-gaussian"

    n_shares: int = 1

    def _check(self) -> None:
        super()._check()
        count = check_count("n_shares", self.n_shares)
        object.__setattr__(self, "n_shares", count)
        if count > MOST_SHARES:
            raise ValueError(f"n_shares must be at most {MOST_SHARES}, got {count}")
        if self.symmetric:
            raise ValueError(f"parts of {self.name!r} must be vectors")

    def _spacing(self) -> float:
        spacing = super()._spacing()
        steps = self.drawn_std / spacing
        size = math.log(math.prod(self.shape))
        far = log_share_distance(self.n_shares, max(steps, 1.0)) + size
        if far > _LOG_DISTANCE:
            raise ValueError(
                f"a share of the noise of {self.name!r} would be too small for its "
                "grid: lower epsilon or n_shares"
            )
        return spacing

    @property
    def drawn_std(self) -> float:
        """Deviation of one share."""
        return self.noise_std / math.sqrt(self.n_shares)

    def mu_of(self, n_unknown: int) -> float:
        """Cost against who does not know so many of the shares in a sum."""
        return self.mu * math.sqrt(self.n_shares / check_count("n_unknown", n_unknown))

    def describe(self) -> str:
        """Phrase for a report."""
        return (
            f"{self.name!r} (shape {self.shape}, a sum over parties of whom each adds "
            f"Gaussian noise of standard deviation {self.drawn_std:.6g}, together of "
            f"{self.noise_std:.6g} for {self.n_shares} of them, for sensitivity "
            f"{self.charged_sensitivity:.6g}, mu = {self.mu:.6g})"
        )
