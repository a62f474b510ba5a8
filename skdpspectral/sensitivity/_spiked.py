"""How far one row moves PCA under a spiked Gaussian model, by theorem and in print.

The first two functions are bounds that a theorem gives, outside an event whose
probability is theirs to choose. The last two are the papers' formulas, whose constant
is open; nothing is charged by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, gammaincinv

from ._moments import check_counts

_SQRT2 = math.sqrt(2.0)

# Steps of the integrals over sampling errors and over parts along the components;
# a finer grid lowers the bounds by less than a per cent.
_N_LEVELS, _N_SIZES = 20, 80

# Share of the failure probability that both integrals leave beyond their last step.
_BEYOND = 2.0**-6

# Where the search for a bound may end, as a logarithm, and how exactly.
_LOG_SMALLEST, _TOLERANCE = -600.0, 1e-4


def _extremes(
    signal_variance: npt.ArrayLike, n_samples: int, n_features: int
) -> tuple[int, float, float]:
    """Return how many signal variances there are, the largest and the smallest."""
    signal = np.asarray(signal_variance, dtype=np.float64)
    check_counts(n_samples=n_samples)
    if not 1 <= signal.size < n_features:
        raise ValueError(
            f"the number of signal variances must be at least 1 and below n_features="
            f"{n_features}, got {signal.size}"
        )
    return signal.size, float(signal.max()), float(signal.min())


def spiked_projector_sensitivity(
    signal_variance: npt.ArrayLike,
    noise_variance: float,
    n_samples: int,
    n_features: int,
    failure: float,
    *,
    centered: bool = False,
) -> float:
    r"""Bound on the change of PCA's projector **for rows of a spiked Gaussian law**.

    Outside an event of probability at most `failure` over the rows and the new row,

    .. math:: \|\hat P - \hat P'\|_F \le
        \frac{\sqrt2 (Z + \theta W)(W + \theta Z)}{n g - (W + \theta Z)^2}

    for the angle :math:`\theta` and the eigengap :math:`g` of the other rows, and the
    lengths Z along and W across the components of both rows together. **For rows of
    another law it is no bound at all.** It is infinite where it is not below the
    largest distance of two such projectors, :math:`\sqrt{2 \min(r, p - r)}`.

    Parameters
    ----------
    signal_variance : array-like of shape (r,)
        Variances :math:`\lambda_1 \ge \dots \ge \lambda_r > 0` beyond the noise, r < p.
    noise_variance : float
        :math:`\sigma^2`, positive.
    n_samples, n_features : int
        n and p.
    failure : float
        In (0, 1).
    centered : bool, default=False
        Whether rows have an unknown mean, and are measured about their own
        (:ref:`lemma-own-mean`).
    """
    rank, largest, smallest = _extremes(signal_variance, n_samples, n_features)
    ratios = largest / noise_variance, smallest / noise_variance
    shape = rank, n_samples, n_features, float(failure), bool(centered)
    return _projector_bound(*ratios, *shape)


def spiked_moment_sensitivity(
    signal_variance: npt.ArrayLike,
    noise_variance: float,
    n_samples: int,
    n_features: int,
    failure: float,
    *,
    centered: bool = False,
) -> float:
    r"""Bound on the change of a second moment **for rows of a spiked Gaussian law**.

    Of the second moment of projections on any r orthonormal directions, which may
    depend on the rows: :math:`(\|x\|^4 + \|y\|^4)^{1/2} / n`, outside an event of
    probability at most `failure` over the replaced row x and the new one y. In
    Frobenius norm, in the units of the variances. **For rows of another law it is no
    bound at all.** Parameters are those of :func:`spiked_projector_sensitivity`.
    """
    rank, largest, _ = _extremes(signal_variance, n_samples, n_features)
    ratio = largest / noise_variance
    spread = _spread(n_samples, centered)
    square = _largest_square(ratio, rank, n_features, float(failure), spread)
    return noise_variance * square / n_samples


def _spread(n: int, centered: bool) -> float:
    """Factor of the squared lengths of both rows together: they share a mean."""
    return 1.0 + 1.0 / n if centered else 1.0


@lru_cache(maxsize=4096)
def _projector_bound(
    largest: float,
    smallest: float,
    rank: int,
    n: int,
    p: int,
    failure: float,
    centered: bool,
) -> float:
    """Return the bound for unit noise variance, from ratios of variances to it."""
    # The second moment of the other rows is that of so many about a known mean.
    others, spread = n - 1 - centered, _spread(n, centered)
    if others < rank:
        return math.inf
    weights, angles, gaps = _sampling_levels(smallest, rank, others, n, p, failure)
    masses, sizes = _chi_square_steps(2 * rank, failure)
    along = np.sqrt(spread * (largest + 1.0) * sizes)[None, :]
    angles, gaps = angles[:, None], np.maximum(n * gaps, 0.0)[:, None]

    def excess(log_bound: float) -> float:
        """Logarithm of the probability to be beyond a bound, over `failure`."""
        bound = math.exp(log_bound)
        # Where (Z + theta W) v sqrt2 = D (n g - v^2), with v = W + theta Z.
        square = _SQRT2 * angles + bound
        half = (1.0 - angles**2) * along / _SQRT2
        constant = bound * gaps
        with np.errstate(invalid="ignore"):  # of 0 / 0, where no bound is known
            v = constant / (half + np.sqrt(half**2 + square * constant))
        across = np.maximum(np.nan_to_num(v) - angles * along, 0.0)
        beyond = chdtrc(2.0 * (p - rank), across**2 / spread)
        return math.log(
            (float(weights @ (beyond @ masses)) + 2.0 * _BEYOND * failure) / failure
        )

    most = 0.5 * math.log(2.0 * min(rank, p - rank))
    return _smallest_bound(excess, most)


def _sampling_levels(
    smallest: float, rank: int, others: int, n: int, p: int, failure: float
) -> tuple[npt.NDArray[np.float64], ...]:
    """Bound angle and gap of PCA of all rows but one, at levels of probability.

    `others` is how many there are, and n what their second moment is divided by.
    Returned are weights, angles and gaps of shape (n_levels,): random angle and gap are
    no worse than draws of these with such weights; what the weights lack of 1 is below
    ``_BEYOND * failure``.
    """
    # Each of three events has a probability of exp(-t).
    ends = np.linspace(math.log(3.0), math.log(3.0 / (_BEYOND * failure)), _N_LEVELS)
    reach = np.sqrt(2.0 * ends)
    # The least eigenvalue along the components: of a Wishart matrix of order r.
    degrees = others - rank + 1
    least = gammaincinv(0.5 * degrees, np.exp(-ends) / rank) * 2.0 / rank
    edge = math.sqrt(others) - math.sqrt(rank) - reach
    least = np.maximum(least, np.maximum(edge, 0.0) ** 2) * (smallest + 1.0) / n
    # The largest across them, and how far those directions mix.
    most = (math.sqrt(others) + math.sqrt(p - rank) + reach) ** 2 / n
    mixed = math.sqrt(p - rank) + math.sqrt(rank) + reach
    mixed = np.minimum(mixed, np.sqrt(chdtri(rank * (p - rank), np.exp(-ends))))
    gaps = least - most
    below = gaps - mixed**2 / n
    with np.errstate(divide="ignore", invalid="ignore"):
        angles = mixed * np.sqrt(least / n) / below
    angles = np.where(below > 0.0, np.minimum(angles, 1.0), 1.0)
    survival = np.minimum(1.0, 3.0 * np.exp(-ends))
    return -np.diff(np.r_[1.0, survival]), angles, gaps


def _chi_square_steps(
    degrees: int, failure: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Bound a chi-square variable from above by masses and values of shape (n_sizes,).

    The variable is below a draw of these; what the masses lack of 1 is
    ``_BEYOND * failure``.
    """
    survival = np.exp(np.linspace(0.0, math.log(_BEYOND * failure), _N_SIZES + 1))
    return -np.diff(survival), chdtri(float(degrees), survival[1:])


@lru_cache(maxsize=4096)
def _largest_square(
    ratio: float, rank: int, p: int, failure: float, spread: float
) -> float:
    """Return a bound on (|x|^4 + |y|^4)^(1/2) for unit noise variance."""

    def bound_sum(n_rows: int, allowed: float) -> float:
        """Bound the sum of squared lengths of so many rows."""
        masses, sizes = _chi_square_steps(n_rows * rank, allowed)
        along = (ratio + 1.0) * sizes
        degrees = float(n_rows * (p - rank))

        def excess(log_bound: float) -> float:
            across = np.maximum(math.exp(log_bound) - along, 0.0)
            beyond = float(chdtrc(degrees, across) @ masses) + _BEYOND * allowed
            return math.log(beyond / allowed)

        return _smallest_bound(excess, math.log(ratio + 1.0) + math.log(1e6 * p))

    # That of the sum of both, or of the longer one.
    return min(spread * bound_sum(2, failure), _SQRT2 * bound_sum(1, 0.5 * failure))


def _smallest_bound(excess: Callable[[float], float], log_most: float) -> float:
    """Return exp of where a falling function becomes negative; infinity if nowhere."""
    if excess(log_most) > 0.0:
        return math.inf
    low = log_most
    while excess(low) <= 0.0:
        log_most, low = low, low - 2.0
        if low <= _LOG_SMALLEST:
            return math.exp(log_most)
    root = brentq(excess, low, log_most, xtol=_TOLERANCE)
    while excess(root) > 0.0:
        root += _TOLERANCE
    return math.exp(min(root, log_most))


def paper_projector_sensitivity(
    signal_variance: npt.ArrayLike,
    noise_variance: float,
    n_samples: int,
    n_features: int,
    constant: float,
) -> float:
    r"""Return what Cai et al. print for the change of PCA's projector.

    :math:`\Delta_1 = C \bigl(\frac{\sigma^2}{\lambda_r}
    + \sqrt{\frac{\kappa \sigma^2}{\lambda_r}}\bigr) \frac{\sqrt{p (r + \ln n)}}n` with
    :math:`\kappa = \lambda_1 / \lambda_r`, in Frobenius norm. Theory leaves C =
    `constant` open. For equal signals Li et al. print
    :math:`\sqrt{q (q + 1)}` in place of :math:`q + \sqrt q`,
    with :math:`q = \sigma^2 / \lambda`, which is up to :math:`\sqrt 2` times smaller.
    This is the order of the change for many rows of the model. **It is no bound**: its
    noise is charged by :func:`spiked_projector_sensitivity`.

    References
    ----------
    Cai, Xia and Zha (2024), lemma 3 and corollary 1. Li, Cai, Xia and Zhang (2024),
    algorithm 1.
    """
    rank, largest, smallest = _extremes(signal_variance, n_samples, n_features)
    ratio = noise_variance / smallest
    scale = ratio + math.sqrt(largest / smallest * ratio)
    size = n_features * (rank + math.log(n_samples))
    return constant * scale * math.sqrt(size) / n_samples


def paper_moment_sensitivity(
    signal_variance: npt.ArrayLike,
    noise_variance: float,
    n_samples: int,
    n_features: int,
    constant: float,
) -> float:
    r"""Return what the papers print for the change of the second moment.

    :math:`\Delta_2 = C (\lambda_1 (r + \ln n) + \sigma^2 p) / n` in Frobenius norm; no
    bound, as :func:`paper_projector_sensitivity`.

    References
    ----------
    Cai, Xia and Zha (2024), lemma 4 and corollary 1.
    """
    rank, largest, _ = _extremes(signal_variance, n_samples, n_features)
    spread = largest * (rank + math.log(n_samples))
    return constant * (spread + noise_variance * n_features) / n_samples
