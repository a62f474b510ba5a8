"""Why a release is private: one function a lemma, public bounds to a float.

Every function takes public numbers only and returns the largest change, over
neighboring data sets, of a statistic. The proofs are in the theory part of the
documentation, whose index ties each lemma to its function and its test.

Means, moments and products of rows, pairs and gradients; sums and scores of users;
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
from scipy.special import chdtrc, chdtri, gammaincinv, ndtr, ndtri

from .mechanisms import Neighbors


def _check_counts(**counts: int) -> None:
    """Refuse counts below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def box_radius(half_widths: npt.ArrayLike) -> float:
    r"""Radius of the smallest ball about a box's midpoint that holds the box.

    :math:`\|h\|_2` of half of the box's extent along each feature, rounded up.
    """
    half_widths = np.asarray(half_widths, dtype=np.float64)
    largest = float(np.max(np.abs(half_widths)))
    if largest == 0.0:
        return 0.0
    rounding = 1.0 + (half_widths.size + 8) * 2.0**-53
    return largest * float(np.linalg.norm(half_widths / largest)) * rounding


def summation_error(
    bound: float, n_samples: int, block_rows: int, blocks_together: int | None = None
) -> float:
    r"""Largest error of a mean over n rows that is summed in blocks of b rows.

    It is :math:`\gamma B` for a public bound B on the norm of the mean of the absolute
    contributions, with :math:`\gamma = (b + K + 16) 2^{-52}` for :math:`K = \lceil n/b
    \rceil` blocks. A block is summed in any order, then blocks are added one after
    another. If c = `blocks_together` blocks are added so before their sums are, a
    larger K is replaced by :math:`c + \lceil K/c \rceil`. The sixteen further units
    cover the rounding of products, of the division by n, and the slack of
    :func:`skdpspectral._tables.clipping.clip_rows`.
    """
    _check_counts(n_samples=n_samples)
    rows = min(block_rows, n_samples)
    blocks = math.ceil(n_samples / rows)
    if blocks_together is not None and blocks > blocks_together:
        blocks = blocks_together + math.ceil(blocks / blocks_together)
    return bound * (rows + blocks + 16) * 2.0**-52


def mean_sensitivity(clip_norm: float, n_samples: int) -> float:
    """Sensitivity of the mean of n rows in a ball, :math:`2 c / n` under replace-one.

    The ball of radius c holds every row, about a public center.
    """
    _check_counts(n_samples=n_samples)
    return 2.0 * clip_norm / n_samples


def second_moment_sensitivity(clip_norm: float, n_samples: int) -> float:
    r"""Sensitivity of the second moment of clipped rows, :math:`\sqrt2 c^2 / n`.

    For :math:`\|x\|, \|y\| \le c`,
    :math:`\|xx' - yy'\|_F^2 = \|x\|^4 + \|y\|^4 - 2 \langle x, y\rangle^2 \le 2 c^4`.
    That of :math:`\frac1n \sum x x'` in Frobenius norm, under replace-one, for a public
    number n of rows.
    """
    _check_counts(n_samples=n_samples)
    return math.sqrt(2.0) * clip_norm**2 / n_samples


def cross_moment_sensitivity(
    clip_norm: float, other_clip_norm: float, n_samples: int
) -> float:
    """Sensitivity of the mean of b a' for two clipped images of a row.

    :math:`2 c_1 c_2 / n` in Frobenius norm under replace-one, attained; the norms of a
    and b are at most :math:`c_1` and :math:`c_2`.
    """
    _check_counts(n_samples=n_samples)
    return 2.0 * clip_norm * other_clip_norm / n_samples


def power_product_sensitivity(
    clip_norm: float, n_samples: int, n_columns: int
) -> float:
    r"""Sensitivity of the second moment times k orthonormal columns Q.

    Of :math:`\frac1n \sum x x' Q` in Frobenius norm under replace-one: :math:`c^2 / n`
    for one column, :math:`\sqrt2 c^2 / n` for more. For :math:`\|Q\|_2 \le 1`,
    :math:`\|(xx' - yy') Q\|_F \le \sqrt2 c^2`, and a single column has at most the
    spectral norm :math:`c^2`.
    """
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
    r"""Largest error of a computed second moment times computed columns.

    With :math:`\gamma = (b + \lceil n/b \rceil + 16 + 2 p) 2^{-52}` (K of
    :func:`summation_error` for `blocks_together`) and d the `defect` plus :math:`p k
    2^{-52}`, it is :math:`\gamma c^2 \sqrt{k} (1 + d) + c^2 d`: a bound on the distance
    to S Q for some orthonormal Q. The defect bounds :math:`\|Q'Q - I\|_F` for the p x k
    columns in use, and is computed from them.
    """
    defect = defect + n_features * n_columns * 2.0**-52
    bound = clip_norm**2 * math.sqrt(n_columns) * (1.0 + defect)
    products = 2.0 * n_features * 2.0**-52 * bound
    summed = summation_error(bound, n_samples, block_rows, blocks_together)
    return summed + products + clip_norm**2 * defect


def pair_mean_sensitivity(change: float, n_samples: int) -> float:
    r"""Sensitivity of a mean over pairs of rows, :math:`2 \Delta / n`.

    Under replace-one, in l2-norm: replacing one of its two rows moves a pair's
    contribution by at most `change`. Each of n public rows is in the same number of
    pairs, whatever that is. Which rows are paired may depend on public numbers, on the
    number of rows and on coins; never on values, such as those that rows are sorted by.
    """
    if n_samples < 2:
        raise ValueError(f"n_samples must be at least 2 for pairs, got {n_samples}")
    if not 0.0 < change < math.inf:
        raise ValueError(f"change must be positive and finite, got {change}")
    return 2.0 * change / n_samples


def pair_moment_sensitivity(clip_norm: float, n_samples: int) -> float:
    r"""Sensitivity of the second moment of bounded differences.

    :math:`2 \sqrt2\, c^2 / n` in Frobenius norm under replace-one, attained for two
    features or more. The norm c bounds what each pair contributes the square of: 1 for
    differences of unit norm, c for :math:`(x_i - x_j) / \sqrt2` clipped at c. Each row
    is in the same number of pairs.
    """
    return pair_mean_sensitivity(math.sqrt(2.0) * clip_norm**2, n_samples)


# How far one unit moves a sum of vectors of unit norm.
_SUM_FACTORS = {Neighbors.ADD_REMOVE_ONE: 1.0, Neighbors.REPLACE_ONE: 2.0}


def sum_sensitivity(clip_norm: float, neighbors: Neighbors | str) -> float:
    """Sensitivity of a sum over units of one vector each, of norm at most c.

    :math:`c` under add-remove-one (a unit joins or leaves, their number is private),
    :math:`2 c` under replace-one (a unit's data change, their number is public). A
    unit's vector may be any function of this unit's own data, of public numbers and of
    earlier releases. It must be the same, to the last bit, whoever else is in the data.

    Raises
    ------
    ValueError
        If the bound is not positive and finite, or for any other relation.
    """
    if not 0.0 < clip_norm < math.inf:
        raise ValueError(f"clip_norm must be positive and finite, got {clip_norm}")
    factor = _SUM_FACTORS.get(Neighbors(neighbors))
    if factor is None:
        known = " or ".join(repr(relation.value) for relation in _SUM_FACTORS)
        raise ValueError(f"neighbors must be {known}, got {neighbors!r}")
    return factor * clip_norm


def vote_sensitivity(n_votes: int, neighbors: Neighbors | str) -> float:
    r"""Sensitivity of a vector of counts of v votes a unit, of plus or minus one half.

    :math:`\sqrt v / 2` under add-remove-one, :math:`\sqrt v` under replace-one.
    """
    _check_counts(n_votes=n_votes)
    return sum_sensitivity(0.5 * math.sqrt(n_votes), neighbors)


def projector_sum_sensitivity(neighbors: Neighbors | str) -> float:
    r"""Sensitivity of a sum over units of one s s' each, with s of unit norm or zero.

    In Frobenius norm: 1 under add-remove-one, :math:`\sqrt2` under replace-one, for
    :math:`\|ss' - tt'\|_F^2 = 2 - 2 \langle s, t\rangle^2`.
    """
    factor = sum_sensitivity(1.0, neighbors)
    return math.sqrt(2.0) if factor == 2.0 else factor


def score_sensitivity(diameter: float, n_terms: int, n_times: int = 1) -> float:
    """Sensitivity :math:`m D / N` of a mean of N contributions under replace-one.

    D = `diameter` is the largest distance of two contributions that a row may have. One
    row has at most m = `n_times` of them, as where it is held out m times.
    """
    if not 1 <= n_times <= n_terms:
        raise ValueError(
            f"n_times must be at least 1 and at most n_terms, got {n_times} of "
            f"{n_terms}"
        )
    return diameter * n_times / n_terms


def counted_score_sensitivity(half_range: float, count_weight: float) -> float:
    r"""Sensitivity of a sum over users of bounded values, together with their count.

    :math:`\sqrt{h^2 + w^2}` under add-remove-one. A user's value is at most h from the
    middle of its range, and each user adds w to the count.
    """
    return math.hypot(half_range, count_weight)


def confusion_diameter() -> float:
    r"""Largest distance :math:`\sqrt2` of contributions of one unit vector or 0 each.

    Also of two parts of a whole of at most 1.
    """
    return math.sqrt(2.0)


# Below this weight of the second moment, releasing it costs nothing beside the
# mean (Lemma 3.5 of Kalinin, Upadhyay and Lampert 2025).
FREE_WEIGHT = 0.5
FREE_WEIGHT_1D = (11.0 + 5.0 * math.sqrt(5.0)) / 8.0


def second_moment_ratio(n_features: int) -> float:
    r"""Squared diameter of the outer products of rows in the unit ball.

    The supremum of :math:`\|xx' - yy'\|_F^2`, and of that of the diagonals: 1 for one
    feature, where :math:`x^2` is in [0, 1], and 2 for more.
    """
    _check_counts(n_features=n_features)
    return 1.0 if n_features == 1 else 2.0


def joint_moment_ratio(nu: float, n_features: int) -> float:
    r"""Squared joint sensitivity :math:`r_d(\nu)` of mean and second moment.

    At least 4: the supremum of :math:`\|x-y\|^2 + \nu \|xx' - yy'\|_F^2` over the unit
    ball in d = `n_features` dimensions, for a weight `nu` of the second moment.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Lemma 3.5.
    """
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


def joint_moments_sensitivity(
    clip_norm: float, n_samples: int, nu: float, n_features: int
) -> float:
    r"""Sensitivity of the mean with the weighted second moment, on one scale.

    The released vector is :math:`(\bar x, \sqrt\nu\, S / c)` with
    :math:`S = \frac1n \sum x x'` of rows of norm at most c = `clip_norm`. It is
    :math:`c \sqrt{r_d(\nu)} / n` under replace-one, for a public number n of rows.
    """
    _check_counts(n_samples=n_samples)
    return clip_norm * math.sqrt(joint_moment_ratio(nu, n_features)) / n_samples


def free_moment_weight(n_features: int) -> float:
    r"""Largest weight at which the second moment costs nothing beside the mean.

    The largest :math:`\nu` with :math:`r_d(\nu) = 4`, as in :func:`joint_moment_ratio`.
    """
    return FREE_WEIGHT_1D if n_features == 1 else FREE_WEIGHT


def separate_moments_ratio(nu: float) -> float:
    r"""Squared sensitivity of both moments if each moves as far as it alone can.

    :math:`4 + 2 \nu`, at least :math:`r_d(\nu)`: what two releases cost that are
    composed.
    """
    return 4.0 + 2.0 * nu


def concatenated_moments_ratio(nu: float) -> float:
    r"""Squared sensitivity of both moments as one vector of bounded norm.

    :math:`4 (1 + \nu)`, at least :math:`r_d(\nu)`: the squared diameter of the ball
    that holds :math:`(x, \sqrt\nu\, xx')`.
    """
    return 4.0 * (1.0 + nu)


def difference_counts_sensitivity(n_features: int) -> float:
    r"""Sensitivity of counts of differences, one histogram a feature.

    Each pair of rows has, in each feature, a total weight of at most 1, none of it
    negative, on the bins of that feature's histogram. The l2-sensitivity of the sum
    over pairs is :math:`2 \sqrt{2 p}` under replace-one, where each row is in two
    pairs; attained.
    """
    _check_counts(n_features=n_features)
    return 2.0 * math.sqrt(2.0 * n_features)


def difference_windows_sensitivity(n_features: int) -> float:
    r"""Sensitivity of counts of differences in overlapping windows, and of their total.

    Each pair of rows adds, in each feature that it differs in, :math:`1 / \sqrt W` to W
    neighboring windows of that feature and 1 to its total. The l2-sensitivity of the
    sum over pairs is :math:`2 \sqrt{2 p}` under replace-one, where each row is in two
    pairs; attained. The total costs nothing.
    """
    _check_counts(n_features=n_features)
    return 2.0 * math.sqrt(2.0 * n_features)


def value_windows_sensitivity(n_features: int) -> float:
    r"""Sensitivity of counts of values in overlapping windows of cells, and of totals.

    Each row adds, in each feature whose value is not missing, :math:`1 / \sqrt W` to W
    neighboring windows of that feature and 1 to its total; windows may go around a
    circle of at least 2 W cells. The l2-sensitivity of the sum over rows is
    :math:`\sqrt{2 p}` under replace-one; attained. The total costs nothing.
    """
    _check_counts(n_features=n_features)
    return math.sqrt(2.0 * n_features)


def phase_sensitivity(n_features: int, n_periods: int) -> float:
    r"""Sensitivity of sums of phases on circles, :math:`2 \sqrt{p L}`.

    Each of p features is wound around L = `n_periods` circles; a phase is a point of
    the plane at most 1 from the origin. Under replace-one; attained for one circle.
    """
    _check_counts(n_features=n_features, n_periods=n_periods)
    return 2.0 * math.sqrt(n_features * n_periods)


def feature_moments_sensitivity(n_samples: int, n_features: int) -> float:
    r"""Sensitivity of means with weighted squares of features in [-1, 1].

    The released numbers are :math:`\bar z_j` and :math:`\sqrt\nu\,\overline{z_j^2}` for
    each of p features, with :math:`\nu` of :func:`free_moment_weight` for one feature.
    The l2-sensitivity is :math:`2 \sqrt p / n` under replace-one, attained: the squares
    cost nothing beside the means.
    """
    _check_counts(n_features=n_features)
    one = joint_moments_sensitivity(1.0, n_samples, free_moment_weight(1), 1)
    return math.sqrt(n_features) * one


def residual_moments_sensitivity(n_samples: int, n_targets: int = 1) -> float:
    r"""Sensitivity of means of scores with their weighted second moments.

    Each row contributes :math:`(u_j, \sqrt{1/2}\, u_j u_j')` for each of k targets,
    with vectors :math:`u_j` of norm at most 1. The l2-sensitivity of the mean over n
    rows is :math:`2 \sqrt k / n` under replace-one, attained: second moments of this
    weight cost nothing beside the means, in any number of dimensions.
    """
    _check_counts(n_targets=n_targets)
    return math.sqrt(n_targets) * mean_sensitivity(1.0, n_samples)


def gradient_norm(clip_norm: float, nu: float) -> float:
    r"""Largest norm of a clipped gradient beside its weighted squares.

    :math:`c \sqrt{1 + \nu}`, the norm of :math:`(g, \sqrt\nu\, g \circ g / c)` where g
    has one entry.
    """
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
    r"""Sensitivity of clipped gradients and their squares over an expected batch.

    The released vector is :math:`\frac1m \sum_i (g_i, \sqrt\nu\, g_i \circ g_i / c)`
    over the examples of one batch. Its expected size m = `batch_size` is public,
    whatever a batch holds. Under replace-one it is :math:`c \sqrt{r_d(\nu)} / m`, where
    squares are free up to ``free_moment_weight``. It is :math:`c \sqrt{1 + \nu} / m`
    under add-remove-one and zero-out-one, where an example's gradient appears or
    vanishes.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Lemma 3.5 and Algorithm 2, which squares a sum
    instead and has no such bound.
    """
    if not batch_size > 0.0:
        raise ValueError(f"batch_size must be positive, got {batch_size}")
    length = gradient_norm(clip_norm, nu)
    if Neighbors(neighbors) is Neighbors.REPLACE_ONE:
        length = clip_norm * math.sqrt(joint_moment_ratio(nu, n_parameters))
    return length / batch_size


def clipped_moments_sensitivity(
    clip_norm: float,
    batch_size: float,
    nu: float,
    n_parameters: int,
    neighbors: Neighbors | str,
) -> float:
    r"""Sensitivity of gradients that are clipped together with their squares.

    The released vector is :math:`\frac1m \sum_i s_i (g_i, \sqrt\nu\, g_i \circ g_i /
    c)`, with :math:`s_i \le 1` the largest factor at which its norm is at most c. It is
    c / m where an example's gradient appears or vanishes. Under replace-one it is less
    than 2 c / m, as no square is negative: :math:`2 c x / m` with :math:`x^2 = 2 / (1 +
    \sqrt{1 + 4 u})` at :math:`u = \nu / d \le 3/4`, and :math:`c \sqrt{2 + 1 / (2 u)} /
    m` beyond.
    """
    if nu < 0.0 or not batch_size > 0.0 or n_parameters < 1:
        raise ValueError(
            "nu must be at least 0, batch_size positive and n_parameters at least 1, "
            f"got {nu}, {batch_size} and {n_parameters}"
        )
    length = 1.0
    if Neighbors(neighbors) is Neighbors.REPLACE_ONE:
        u = nu / n_parameters
        square = 8.0 / (1.0 + math.sqrt(1.0 + 4.0 * u))
        length = math.sqrt(square if u <= 0.75 else 2.0 + 0.5 / u)
    return length * clip_norm / batch_size


def squared_batch_sensitivity(
    clip_norm: float, batch_size: float, nu: float, neighbors: Neighbors | str
) -> float:
    r"""Sensitivity of a clipped mean gradient u and of its weighted squares.

    The released vector is :math:`(u, \sqrt\nu\, u \circ u / c)`, with u the sum of
    gradients over m, clipped to the norm c once more. It is :math:`D \sqrt{1 + 4 \nu}`,
    with D the smaller one of 2 c and of what one example moves the mean, c / m or 2 c /
    m.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Algorithm 2, with the norm of what is squared
    bounded by a second clipping.
    """
    if nu < 0.0 or not batch_size > 0.0:
        raise ValueError(
            f"nu must be at least 0 and batch_size positive, got {nu} and {batch_size}"
        )
    replaced = Neighbors(neighbors) is Neighbors.REPLACE_ONE
    moved = (2.0 if replaced else 1.0) * clip_norm / batch_size
    return min(moved, 2.0 * clip_norm) * math.sqrt(1.0 + 4.0 * nu)


# Rounding of quantiles and tails, far above that of scipy's functions.
_ROUNDING = 1e-9


def free_presence_weight() -> float:
    r"""Largest weight at which counts of present values cost nothing.

    A value z in [-1, 1] with :math:`p = 1`, or a missing one with :math:`p = 0`,
    contributes :math:`(z p, \sqrt\nu (z^2 - 1/2) p, \sqrt\alpha\, p)`, with
    :math:`\nu` of :func:`free_moment_weight` for one feature. The largest weight at
    which no two contributions are further apart than 2 is
    :math:`\alpha = 3 - \nu / 4`.
    """
    return 3.0 - 0.25 * free_moment_weight(1)


def category_counts_sensitivity(n_columns: int) -> float:
    r"""Sensitivity of the counts of values of c columns, :math:`\sqrt{2 c}`.

    Under replace-one, in l2-norm: one count falls by 1 and another one rises by 1 in
    each column; attained.
    """
    _check_counts(n_columns=n_columns)
    return math.sqrt(2.0 * n_columns)


def category_threshold(noise_std: float, n_columns: int, failure: float) -> float:
    r"""Threshold of noisy counts that hides values of a single row.

    :math:`1 + \sigma \Phi^{-1}(1 - q)` with :math:`q = 1 - (1 - \beta)^{1 / c}`,
    rounded up: noisy counts of c values that one row alone has are all below it, but
    for a probability of `failure` :math:`\beta` in (0, 1/2).
    """
    if not 0.0 < failure < 0.5:
        raise ValueError(f"failure must be in (0, 0.5), got {failure}")
    each = -math.expm1(math.log1p(-failure) / n_columns)
    return 1.0 - noise_std * float(ndtri(each)) * (1.0 + _ROUNDING)


def category_failure(threshold: float, noise_std: float, n_columns: int) -> float:
    r"""Probability that a value of a single row is named.

    :math:`1 - (1 - q)^c` with :math:`q = 1 - \Phi((t - 1) / \sigma)`, for up to c such
    values of one row: what :func:`category_threshold` keeps at `failure`.
    """
    alone = float(ndtr((1.0 - threshold) / noise_std))
    return -math.expm1(n_columns * math.log1p(-alone))


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
