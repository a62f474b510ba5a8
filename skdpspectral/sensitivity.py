"""Why a release is private: one function a lemma, public bounds to a float.

Every function takes public numbers only and returns the largest change, over
neighboring data sets, of a statistic. The proofs are in the theory part of the
documentation, whose index ties each lemma to its function and its test.

Means, moments and products of rows and gradients; sums and scores of users;
counts of categories, and rounding errors of sums. Last is how far one row moves PCA
under a spiked Gaussian model: bounds that a theorem gives outside an event whose
probability is theirs to choose, and the papers' formulas, whose constant is open;
nothing is charged by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, gammaincinv, ndtri

from .mechanisms import Neighbors


def _check_counts(**counts: int) -> None:
    """Refuse counts below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def box_radius(half_widths: npt.ArrayLike) -> float:
    r"""Radius :math:`\|h\|_2` of the ball about a box that holds it, rounded up."""
    half_widths = np.asarray(half_widths, dtype=np.float64)
    largest = float(np.max(np.abs(half_widths)))
    if largest == 0.0:
        return 0.0
    rounding = 1.0 + (half_widths.size + 8) * 2.0**-53
    return largest * float(np.linalg.norm(half_widths / largest)) * rounding


def summation_error(
    bound: float, n_samples: int, block_rows: int, blocks_together: int | None = None
) -> float:
    """Largest error of a mean over n rows that is summed in blocks of b rows."""
    # `bound` is on the norm of the mean of absolute contributions. The 16 units cover
    # products, the division by n, and the slack of ``clip_rows``.
    _check_counts(n_samples=n_samples)
    rows = min(block_rows, n_samples)
    blocks = math.ceil(n_samples / rows)
    if blocks_together is not None and blocks > blocks_together:
        blocks = blocks_together + math.ceil(blocks / blocks_together)
    return bound * (rows + blocks + 16) * 2.0**-52


def mean_sensitivity(clip_norm: float, n_samples: int) -> float:
    """Sensitivity :math:`2 c / n` of the mean of n rows in a ball: replace-one."""
    _check_counts(n_samples=n_samples)
    return 2.0 * clip_norm / n_samples


def second_moment_sensitivity(clip_norm: float, n_samples: int) -> float:
    r"""Sensitivity of the second moment of clipped rows, :math:`\sqrt2 c^2 / n`."""
    # In Frobenius norm under replace-one: |x|^4 + |y|^4 - 2 <x, y>^2 <= 2 c^4.
    _check_counts(n_samples=n_samples)
    return math.sqrt(2.0) * clip_norm**2 / n_samples


def cross_moment_sensitivity(
    clip_norm: float, other_clip_norm: float, n_samples: int
) -> float:
    """Sensitivity of the mean of b a' under replace-one, :math:`2 c_1 c_2 / n`."""
    _check_counts(n_samples=n_samples)
    return 2.0 * clip_norm * other_clip_norm / n_samples


def power_product_sensitivity(
    clip_norm: float, n_samples: int, n_columns: int
) -> float:
    """Sensitivity of the second moment times k orthonormal columns: replace-one."""
    # In Frobenius norm; the change of one column has at most the spectral norm c^2 / n.
    _check_counts(n_samples=n_samples, n_columns=n_columns)
    factor = 1.0 if n_columns == 1 else math.sqrt(2.0)
    return factor * clip_norm**2 / n_samples


def power_product_error(
    clip_norm: float,
    n_samples: int,
    block_rows: int,
    n_features: int,
    n_columns: int,
    defect: float,
    blocks_together: int | None = None,
) -> float:
    """Largest error of a computed second moment times computed columns."""
    # The distance to S Q for an orthonormal Q; `defect` bounds |Q'Q - I|_F.
    defect = defect + n_features * n_columns * 2.0**-52
    bound = clip_norm**2 * math.sqrt(n_columns) * (1.0 + defect)
    products = 2.0 * n_features * 2.0**-52 * bound
    summed = summation_error(bound, n_samples, block_rows, blocks_together)
    return summed + products + clip_norm**2 * defect


# How far one unit moves a sum of vectors of unit norm.
_SUM_FACTORS = {Neighbors.ADD_REMOVE_ONE: 1.0, Neighbors.REPLACE_ONE: 2.0}


def sum_sensitivity(clip_norm: float, neighbors: Neighbors | str) -> float:
    """Sensitivity of a sum over units of one vector each, of norm at most c."""
    # A unit's vector may be any function of its own data, public numbers and earlier
    # releases: the same, to the last bit, whoever else is in the data.
    if not 0.0 < clip_norm < math.inf:
        raise ValueError(f"clip_norm must be positive and finite, got {clip_norm}")
    factor = _SUM_FACTORS.get(Neighbors(neighbors))
    if factor is None:
        known = " or ".join(repr(relation.value) for relation in _SUM_FACTORS)
        raise ValueError(f"neighbors must be {known}, got {neighbors!r}")
    return factor * clip_norm


def vote_sensitivity(n_votes: int, neighbors: Neighbors | str) -> float:
    """Sensitivity of a sum of v votes a unit, of plus or minus one half."""
    _check_counts(n_votes=n_votes)
    return sum_sensitivity(0.5 * math.sqrt(n_votes), neighbors)


def projector_sum_sensitivity(neighbors: Neighbors | str) -> float:
    """Sensitivity of a sum over units of one s s' each, with s of unit norm or zero."""
    # |s s' - t t'|_F^2 = 2 - 2 <s, t>^2.
    factor = sum_sensitivity(1.0, neighbors)
    return math.sqrt(2.0) if factor == 2.0 else factor


def score_sensitivity(diameter: float, n_terms: int) -> float:
    """Sensitivity :math:`D / N` of a mean of N contributions of rows: replace-one."""
    _check_counts(n_terms=n_terms)
    return diameter / n_terms


def counted_score_sensitivity(half_range: float, count_weight: float) -> float:
    """Sensitivity of a sum over users of bounded values, together with their count."""
    # Add-remove-one; a value is at most `half_range` from the middle of its range.
    return math.hypot(half_range, count_weight)


def confusion_diameter() -> float:
    r"""Largest distance :math:`\sqrt2` of contributions of a unit vector or 0."""
    return math.sqrt(2.0)


# Below this weight of the second moment, releasing it costs nothing beside the
# mean (Lemma 3.5 of Kalinin, Upadhyay and Lampert 2025).
FREE_WEIGHT = 0.5
FREE_WEIGHT_1D = (11.0 + 5.0 * math.sqrt(5.0)) / 8.0


def second_moment_ratio(n_features: int) -> float:
    r"""Supremum of :math:`\|xx' - yy'\|_F^2` in the unit ball: 1 in 1-d, else 2."""
    _check_counts(n_features=n_features)
    return 1.0 if n_features == 1 else 2.0


def joint_moment_ratio(nu: float, n_features: int) -> float:
    r"""Squared joint sensitivity :math:`r_d(\nu)` of both moments, at least 4."""
    # sup |x - y|^2 + nu |xx' - yy'|_F^2 in the ball (Kalinin et al. 2025, Lemma 3.5).
    if nu < 0 or n_features < 1:
        raise ValueError(
            f"nu must be at least 0 and n_features at least 1, got {nu} and "
            f"{n_features}"
        )
    if n_features == 1:
        if nu <= FREE_WEIGHT_1D:
            return 4.0
        tau = math.sqrt(1.0 - 2.0 / nu)
        return (3.0 - tau) ** 2 * (nu * tau + 1.0 + nu) / 8.0
    if nu <= FREE_WEIGHT:
        return 4.0
    return 2.0 + 2.0 * nu + 0.5 / nu


def free_moment_weight(n_features: int) -> float:
    r"""Largest :math:`\nu` with :math:`r_d(\nu) = 4`: second moments are free."""
    return FREE_WEIGHT_1D if n_features == 1 else FREE_WEIGHT


def difference_counts_sensitivity(n_features: int) -> float:
    r"""Sensitivity of counts of differences, :math:`2 \sqrt{2 p}` under replace-one."""
    # A row is in two pairs, with weights >= 0 of sum <= 1 in each feature. Attained.
    _check_counts(n_features=n_features)
    return 2.0 * math.sqrt(2.0 * n_features)


def difference_windows_sensitivity(n_features: int) -> float:
    r"""Sensitivity :math:`2 \sqrt{2 p}` of counts of differences in windows."""
    # Each row is in two pairs; a pair adds, in each feature that it differs in,
    # 1 / sqrt(W) to W neighboring windows and 1 to the total. Attained.
    _check_counts(n_features=n_features)
    return 2.0 * math.sqrt(2.0 * n_features)


def value_windows_sensitivity(n_features: int) -> float:
    r"""Sensitivity :math:`\sqrt{2 p}` of counts of values in windows, and of totals."""
    # A row adds, in each feature with a value, 1 / sqrt(W) to W neighboring windows,
    # also around a circle of 2 W cells, and 1 to the total.
    _check_counts(n_features=n_features)
    return math.sqrt(2.0 * n_features)


def phase_sensitivity(n_features: int, n_periods: int) -> float:
    r"""Sensitivity :math:`2 \sqrt{p L}` of phases of p features on L circles each."""
    _check_counts(n_features=n_features, n_periods=n_periods)
    return 2.0 * math.sqrt(n_features * n_periods)


def feature_moments_sensitivity(n_samples: int, n_features: int) -> float:
    r"""Sensitivity :math:`2 \sqrt p / n` of means with weighted squares."""
    # Under replace-one, for p features in [-1, 1] and the free weight nu of one.
    _check_counts(n_features=n_features)
    one = mean_sensitivity(1.0, n_samples)
    return math.sqrt(n_features) * one


def residual_moments_sensitivity(n_samples: int, n_targets: int = 1) -> float:
    r"""Sensitivity :math:`2 \sqrt k / n` of means of scores with second moments."""
    # Of (u_j, sqrt(1/2) u_j u_j') of norms at most 1 for each target: second moments of
    # this weight are free in any dimension. Attained under replace-one.
    _check_counts(n_targets=n_targets)
    return math.sqrt(n_targets) * mean_sensitivity(1.0, n_samples)


def gradient_norm(clip_norm: float, nu: float) -> float:
    r"""Largest norm :math:`c \sqrt{1 + \nu}` of a gradient and its squares."""
    if nu < 0.0:
        raise ValueError(f"nu must be at least 0, got {nu}")
    return sum_sensitivity(clip_norm, Neighbors.ADD_REMOVE_ONE) * math.sqrt(1.0 + nu)


def gradient_moments_sensitivity(
    clip_norm: float,
    batch_size: float,
    nu: float,
    n_parameters: int,
    neighbors: Neighbors | str,
) -> float:
    """Sensitivity of clipped gradients and squares over a public expected batch."""
    # Algorithm 2 of Kalinin et al. (2025) squares a sum instead: it has no such bound.
    if not batch_size > 0.0:
        raise ValueError(f"batch_size must be positive, got {batch_size}")
    length = gradient_norm(clip_norm, nu)
    if Neighbors(neighbors) is Neighbors.REPLACE_ONE:
        length = clip_norm * math.sqrt(joint_moment_ratio(nu, n_parameters))
    return length / batch_size


# Rounding of quantiles and tails, far above that of scipy's functions.
_ROUNDING = 1e-9


def free_presence_weight() -> float:
    r"""Largest weight :math:`3 - \nu / 4` of counts of present values that are free."""
    # No two (z p, sqrt(nu) (z^2 - 1/2) p, sqrt(alpha) p), with z in [-1, 1], and p = 0
    # if it is missing, are further apart than 2.
    return 3.0 - 0.25 * free_moment_weight(1)


def category_counts_sensitivity(n_columns: int) -> float:
    r"""Sensitivity :math:`\sqrt{2 c}` of counts of values of c columns."""
    _check_counts(n_columns=n_columns)
    return math.sqrt(2.0 * n_columns)


def category_threshold(noise_std: float, n_columns: int, failure: float) -> float:
    """Threshold of noisy counts that hides values of a single row."""
    # Those of one row alone are below but for a probability `failure`; rounded up.
    if not 0.0 < failure < 0.5:
        raise ValueError(f"failure must be in (0, 0.5), got {failure}")
    each = -math.expm1(math.log1p(-failure) / n_columns)
    return 1.0 - noise_std * float(ndtri(each)) * (1.0 + _ROUNDING)


# -- rows of a spiked Gaussian law -----------------------------------------------------

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
    _check_counts(n_samples=n_samples)
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
    """Bound on the change of a second moment **for rows of a spiked Gaussian law**."""
    # Of projections on r orthonormal directions, in Frobenius norm, outside an event of
    # probability `failure`. For rows of another law it is no bound at all.
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
    """Bound angle and gap of PCA of all rows but one, at levels of probability."""
    # What the weights of the levels lack of 1 is below ``_BEYOND * failure``.
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
    """Bound a chi-square variable by draws; masses lack ``_BEYOND * failure``."""
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
    """Return what Cai et al. (2024, lemma 3 and corollary 1) print for a projector."""
    # No bound: `spiked_projector_sensitivity` charges its noise. For equal signals, Li
    # et al. (2024, algorithm 1) print sqrt(q (q + 1)) for q + sqrt(q), q = `ratio`.
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
    """Return what Cai et al. (2024, lemma 4 and corollary 1) print for the moment."""
    # In Frobenius norm; it is no bound.
    rank, largest, _ = _extremes(signal_variance, n_samples, n_features)
    spread = largest * (rank + math.log(n_samples))
    return constant * (spread + noise_variance * n_features) / n_samples
