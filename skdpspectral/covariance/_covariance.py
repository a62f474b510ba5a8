"""The covariance of one table, from private lengths and clipped second moments."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammainc, gammaincinv
from sklearn.utils.validation import check_is_fitted

from .. import sensitivity
from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.sklearn_compat import StrOptions
from .._linalg import eigen, walks
from .._statistics.center import SearchedComponents
from .._statistics.row_bounds import (
    EARLY,
    Centered,
    RowBounds,
    Searched,
    plan_second_moment,
    share_of,
)
from .._statistics.statistic import HALF, Combination, Statistic, Terms, Votes
from .._tables.clipping import normalize_rows
from .._tables.table import check_rows, deferred_rows, map_rows
from ..accounting import NoisyFitWarning, PrivacyAccountant
from ..accounting._errors import warn
from ..mechanisms import Neighbors, PrivacyPlan

# Public range of lengths, in units of the data, and below the diameter of a box; cells
# of its logarithm, of which the finest search tells eight from the next.
_LENGTHS, _BELOW_BOX, N_CELLS, _STRIDE = (1e-6, 1e6), 1e-8, 1 << 12, 8

# Share of mu**2 of the votes for the far radius; of those for the near one at least and
# at most; and of the first layer in what the votes leave.
_FAR_VOTES, _NEAR_VOTES, _NEAR_LAYER = 0.03, (0.005, 0.2), 0.85

# Share of the rows that the first radius clips; of all that have a length if there are
# too few to tell a quarter of them from the noise of the votes.
_CLIPPED, _CLIPPED_OF_FEW = 0.25, 0.5

# Steps of the two searches: all of the range, and up to 128 cells beyond the first.
_NEAR_STEPS, _FAR_STEPS = 9, 7

# Deviations of the votes' noise that their margin has, where the budget allows it.
_SURE, _FAIRLY_SURE, _FAR_SURE = 5.0, 2.5, 3.0

# Most rows beyond the far radius, as a share; beyond it there is one layer.
_MOST_FAR = 0.1

# What the grid of a release may add to the noise that was asked for.
_ROUNDED = 1.05

# Least eigenvalue of a covariance without noise, over the mean of all.
_LEAST = 1e-12


@dataclass(frozen=True)
class MomentLayer(Statistic):
    """Second moment of rows of at most unit norm: one layer of a clipped moment."""

    name: str
    n_samples: int
    n_features: int
    weights: tuple[float, ...] = (1.0,)

    def mechanisms(self, mu: float) -> tuple:
        size, more = (self.n_samples, self.n_features), {"weights": self.weights}
        more["lemma"] = "whole-covariance"
        return plan_second_moment(self.name, *size, mu, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the mean of outer products, from their sum over given terms."""
        (terms,) = given
        return terms.undo(release(self.name, rows / terms.divisor))


@dataclass(frozen=True)
class LengthVotes(Statistic):
    """A length that a wanted share, or number, of rows exceeds, by votes."""

    votes: Votes
    n_samples: int

    @property
    def moved(self) -> float:
        """Sensitivity of a vote; in pairs, all votes of a row add up to one."""
        return sensitivity.vote_sensitivity(1, Neighbors.REPLACE_ONE)

    def noise_std(self, mu: float) -> float:
        """Return the deviation of each vote's noise, without the grid's share."""
        return self.moved * math.sqrt(self.votes.n_steps) / mu

    def mechanisms(self, mu: float) -> tuple:
        n = float(self.n_samples)
        # Counts are exact; their part of a row may be none that float64 has.
        more = {"summation_error": n * 2.0**-50, "lemma": "length-votes"}
        return self.votes.planned(mu, self.moved, magnitude=n, **more)

    def run(self, release: Any, rows: np.ndarray, *given: Any) -> int:
        """Return a cell, from numbers of rows that are longer than each cell.

        Given are the first cell, the number of rows wanted beyond the length, the share
        of these among rows of positive length, and the weight of a row.
        """
        start, number, share, weight = given
        wanted = number + share * weight * int(rows[0])

        def margin(place: np.ndarray) -> np.ndarray:
            cells = np.minimum(start + _STRIDE * place, N_CELLS)
            return weight * rows[cells] - wanted

        _, last = self.votes.run(release, margin, rising=False)
        # The middle of the last cell.
        return int(min(start + _STRIDE * last[0] - _STRIDE // 2, N_CELLS))


@dataclass(frozen=True)
class Covariance:
    """A released covariance, positive definite, in squared units of the box.

    `mean` is the released center or None, `radii` are the lengths that rows are clipped
    at, and `remark` is a sentence about a choice by releases.
    """

    matrix: np.ndarray
    radii: tuple[float, ...]
    mean: np.ndarray | None = None
    remark: str = ""


class WholeCovariance(Statistic):
    """Covariance of rows about a given center, or of differences of rows.

    Rows are clipped at a private quartile of their lengths, which needs little noise. A
    second layer has what a larger clip would add, and counts as far as it exceeds its
    own noise; it is left out if the budget is too small for it.
    """

    def __init__(self, bounds: RowBounds, n_samples: int) -> None:
        self.bounds, self.n_samples = bounds, n_samples
        low, high = _LENGTHS
        if bounds.box is not None:
            # Nothing in the box is longer, whatever center in it is taken off.
            high = max(2.0 * bounds.box_radius, 1e-60)
            low = _BELOW_BOX * high
        ends = 2.0 * math.log(low), 2.0 * math.log(high)
        self.points = np.linspace(*ends, N_CELLS + 1)
        shape = n_samples, bounds.n_features, bounds.weights
        self.near = MomentLayer("near_moment", *shape)
        self.far = MomentLayer("far_moment", *shape)
        self.near_length = LengthVotes(Votes("near_length", _NEAR_STEPS), n_samples)
        self.far_length = LengthVotes(Votes("far_length", _FAR_STEPS), n_samples)
        # Rows that votes count, at least.
        self.n_voters = n_samples * min(bounds.weights)

    def combined(self, mu: float) -> Combination:
        """Return the releases at a total cost of mu, with their shares."""
        near = self._near_votes(mu)
        shares = {"near_length": near, "near": 1.0 - near}
        if self._far_number(math.sqrt(_FAR_VOTES) * mu) <= _MOST_FAR * self.n_voters:
            left = 1.0 - near - _FAR_VOTES
            shares = {"near_length": near, "far_length": _FAR_VOTES}
            shares |= {"near": _NEAR_LAYER * left, "far": (1.0 - _NEAR_LAYER) * left}
        return Combination({name: getattr(self, name) for name in shares}, shares)

    def _near_votes(self, mu: float) -> float:
        """Return the share of the near radius' votes: enough for a quarter of rows."""
        low, high = _NEAR_VOTES
        noise = self.near_length.noise_std(mu)
        wanted = (_SURE * noise / (_CLIPPED * self.n_voters)) ** 2
        return min(max(wanted, low), high)

    def _far_number(self, mu: float) -> float:
        """Return the number of rows for which the loss by clipping equals the noise."""
        # The noise of all of the budget, in directions of a few eigenvectors.
        p = self.bounds.n_features
        balance = 2.0 * math.sqrt(p) * self.far_length.moved / mu
        balance *= math.sqrt(_FAR_VOTES)
        return max(balance, _FAR_SURE * self.far_length.noise_std(mu))

    def mechanisms(self, mu: float) -> tuple:
        return self.combined(mu).mechanisms(mu)

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Warn if the search for lengths may well fail."""
        if _FAIRLY_SURE * self._vote_noise(plan) <= _CLIPPED_OF_FEW * self.n_voters:
            return ()
        return (
            f"{self.n_samples} rows are too few for private lengths at this budget: "
            "the lengths, and the covariance with them, may have any scale; use more "
            "rows or a larger epsilon, or bounds, which narrow the search",
        )

    def _vote_noise(self, plan: PrivacyPlan) -> float:
        return getattr(plan["near_length_1"], "noise_std", 0.0)

    @property
    def early(self) -> MomentLayer:
        """Second release of the first layer, for the cost of a center given up."""
        return replace(self.near, name=EARLY)

    def relative_noise(self, plan: PrivacyPlan) -> float:
        """Return the off-diagonal deviation of noise for rows in the unit ball."""
        return getattr(plan["near_moment"], "noise_std", 0.0) / math.sqrt(2.0)

    def run(self, release: Any, rows: Any, *given: Any) -> Covariance:
        """Release the covariance about a released center or None, or of pairs.

        A given length is ignored; given layers of the same rows are released, too.
        """
        origin, *others = given
        terms = self.bounds.blocks(rows, origin)
        radii, clipped = self._release_radii(release, terms)
        sums = partial(_sums_of_layers, radii=radii, n_features=self.bounds.n_features)
        layers = terms.reduce(sums)
        areas = [radii[0] ** 2, *(far**2 - radii[0] ** 2 for far in radii[1:])]
        found, spreads = [], []
        named = (self.near, self.far)[: len(areas)]
        for statistic, layer, area in zip(named, layers, areas, strict=True):
            found.append(area * statistic.run(release, layer, terms))
            noise = getattr(release.plan[statistic.name], "noise_std", 0.0)
            spreads.append(area * noise / terms.weight / math.sqrt(2.0))
        for other in others[1] if len(others) > 1 else ():
            share = share_of(release.plan, other.name, self.near.name)
            also = areas[0] * other.run(release, layers[0], terms)
            found[0] = share * also + (1.0 - share) * found[0]
            spreads[0] *= math.sqrt(1.0 - share)
        matrix = self._joined(found, spreads, clipped, terms)
        mean = origin if isinstance(origin, np.ndarray) else None
        return Covariance(matrix, radii, mean)

    def _release_radii(self, release: Any, terms: Terms) -> tuple[tuple, float]:
        """Release the lengths of the layers, and the share clipped by the first."""
        longer = terms.reduce(partial(count_longer, points=self.points))
        plan, names = release.plan, {m.name for m in release.plan.mechanisms}
        # All that a row is in counts as one.
        weight = terms.weight * self.n_samples / terms.n_terms
        voters = terms.weight * self.n_samples
        few = _SURE * self._vote_noise(plan) > _ROUNDED * _CLIPPED * voters
        share = _CLIPPED_OF_FEW if few else _CLIPPED
        cells = [self.near_length.run(release, longer, 0, 0.0, share, weight)]
        if self.far.name in names:
            costs = (plan[name].mu for name in self.far_length.votes.names)
            number = self._far_number(math.hypot(*costs))
            given = cells[0], number, 0.0, weight
            cells.append(self.far_length.run(release, longer, *given))
        return tuple(math.exp(0.5 * self.points[cell]) for cell in cells), share

    def _joined(self, layers, spreads, clipped: float, terms: Terms) -> np.ndarray:
        """Combine released layers to a positive definite matrix."""
        p, n = self.bounds.n_features, self.n_samples
        # Differences with few partners a row have more sampling error than rows.
        aspect = p / n * (1.0 + (HALF * n / terms.n_terms if terms.weight < 1.0 else 0))
        trace = max(float(np.trace(layers[0])), 0.0)
        floor = max(spreads[0], _LEAST * trace / p, np.finfo(float).tiny)
        if len(layers) == 1:
            matrix = eigen.shrink_noise(layers[0], spreads[0], aspect, floor)
            return matrix / _kept_share(matrix, clipped)
        return eigen.join_layers(*layers, *spreads, floor, aspect)


def _kept_share(matrix: np.ndarray, clipped: float) -> float:
    """Return the share of the trace that clipping keeps, for normal rows."""
    trace = float(np.trace(matrix))
    shape = 0.5 * trace**2 / float(np.sum(matrix**2))
    place = float(gammaincinv(shape, 1.0 - clipped))
    return float(gammainc(shape + 1.0, place)) + clipped * place / shape


def count_longer(blocks, points: np.ndarray) -> np.ndarray:
    """Count rows that are longer than logarithms of squared lengths."""
    counts = np.zeros(len(points) + 1, dtype=np.int64)
    for block in blocks:
        with np.errstate(all="ignore"):
            logs = np.log(walks.row_squares(block))
            logs = np.nan_to_num(logs, nan=np.inf, posinf=np.inf)
        counts += np.bincount(np.searchsorted(points, logs), minlength=len(counts))
    return counts[::-1].cumsum()[::-1][1:]


def _sums_of_layers(blocks, radii: tuple[float, ...], n_features: int):
    """Sum outer products of the parts of clipped rows."""
    # The blocks are of mapped rows, whose memory is taken again.
    parts = (clipped_parts(block, radii) for block in blocks)
    return walks.sums_of_layers(parts, n_features, len(radii))


def clipped_parts(rows: np.ndarray, radii: tuple[float, ...]) -> list[np.ndarray]:
    """Split rows so that the squares of the parts add up to those of clipped rows.

    Each of one or two increasing `radii` gives rows of norm at most 1 except for
    rounding (:func:`clip_rows`). The first part is clipped at the first radius, divided
    by it. The second has the same directions; its squared length is what clipping at
    the second radius would add, over the largest such value. Non-finite rows become
    zero. The first part is in the memory of `rows`.
    """
    far = [_far_part(rows, *radii)] if len(radii) > 1 else []
    return [normalize_rows(rows, floor=radii[0], out=rows), *far]


def _far_part(rows: np.ndarray, near: float, far: float) -> np.ndarray:
    """Return the second part of the rows that have one."""
    with np.errstate(all="ignore"):
        squares = walks.row_squares(rows)
        # Rows within the first radius have no second part: most of all rows.
        longer = ~(squares <= near**2) & (far > near)
        beyond = np.fmin(squares[longer], far**2) - near**2
        beyond /= far**2 - near**2
    # Numbers of at most 1 cannot make a row longer, however products are rounded.
    beyond = np.sqrt(np.clip(beyond, 0.0, 1.0))
    own = rows[longer]
    return normalize_rows(own, out=own) * beyond[:, None]


@documented
class GaussianMixin:
    """Densities and distances of rows under `location_` and `covariance_`."""

    def _root_of_precision(self) -> np.ndarray:
        """Return a matrix R with R R' the precision."""
        check_is_fitted(self)
        # Features may have units of very different size.
        units = np.sqrt(np.diag(self.covariance_))
        values, vectors = np.linalg.eigh(self.covariance_ / np.outer(units, units))
        values = np.maximum(values, len(values) * np.finfo(float).eps)
        return vectors / np.sqrt(values) / units[:, None]

    def get_precision(self):
        """Return the inverse of the covariance.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Symmetric matrix.
        """
        root = self._root_of_precision()
        return root @ root.T

    @property
    def precision_(self):
        """Inverse of the covariance, of shape (n_features, n_features)."""
        return self.get_precision()

    def mahalanobis(self, X):
        """Squared Mahalanobis distances of rows to `location_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. **The returned distances are as private as the rows**.

        Returns
        -------
        ndarray of shape (n_samples,)
            Squared distances, as in :class:`sklearn.covariance.EmpiricalCovariance`.
        """
        root = self._root_of_precision()
        X = check_rows(self, X, reset=False, in_blocks=True)

        def squares(block):
            whitened = (block - self.location_) @ root
            return np.vecdot(whitened, whitened)

        return map_rows(squares, X)

    def score_samples(self, X):
        """Log-density of each row under a Gaussian with this mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. **The returned densities are as private as the rows**.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities.
        """
        distances = self.mahalanobis(X)
        deviations = np.sqrt(np.diag(self.covariance_))
        scaled = self.covariance_ / np.outer(deviations, deviations)
        log_volume = float(np.linalg.slogdet(scaled)[1])
        log_volume += 2.0 * float(np.sum(np.log(deviations)))
        log_volume += len(scaled) * math.log(2.0 * math.pi)
        return -0.5 * (distances + log_volume)

    def score(self, X, y=None):
        """Mean log-likelihood of rows under a Gaussian with this mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. A score of private rows is a release that no accountant records.
        {y_ignored}

        Returns
        -------
        float
            Mean of :meth:`score_samples`.
        """
        return float(np.mean(self.score_samples(X)))

    def error_norm(self, comp_cov, norm="frobenius", scaling=True, squared=True):
        """Distance between the covariance and another covariance.

        Parameters
        ----------
        comp_cov : array-like of shape (n_features, n_features)
            The other covariance.
        norm : {"frobenius", "spectral"}, default="frobenius"
            Norm of the difference.
        scaling : bool, default=True
            Whether to divide the squared norm by n_features.
        squared : bool, default=True
            Whether to return the squared norm.

        Returns
        -------
        float
            The distance.
        """
        check_is_fitted(self)
        comp_cov = np.asarray(comp_cov, dtype=np.float64)
        if comp_cov.shape != self.covariance_.shape:
            raise ValueError(
                f"comp_cov must have shape {self.covariance_.shape}, got "
                f"{comp_cov.shape}"
            )
        error = comp_cov - self.covariance_
        if norm not in ("frobenius", "spectral"):
            raise ValueError(f"norm must be 'frobenius' or 'spectral', got {norm!r}")
        length = np.linalg.norm(error, 2 if norm == "spectral" else "fro")
        value = float(length) ** 2 / (len(error) if scaling else 1)
        return value if squared else float(np.sqrt(value))


@documented
class DPCovariance(GaussianMixin, TableEstimator):
    r"""Covariance of all features with differential privacy.

    Rows are measured from a private center or compared in pairs, and clipped at a
    private quartile of their lengths. What a larger clip would add is released
    separately. Eigenvalues are corrected for the bias that noise and sampling cause.
    Read more in the :ref:`user guide <pca_covariance>`.

    Parameters
    ----------
    {epsilon}
    {delta}
    {bounds}
    center : {"auto", "pairs", "none"}, default="auto"
        Reference point that is subtracted from the rows. "pairs": rows are compared
        with other rows from far away in the table (:ref:`lemma-pair-moment`), which
        needs no center, but doubles the noise. "auto": a private center that is found
        in several steps, or pairs if it would be inaccurate; ``privacy_`` states the
        choice. "none": the midpoint of `bounds`, or the origin.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        Positive definite covariance, in units of the data.
    location_ : ndarray of shape (n_features,)
        Private center. If rows are compared in pairs or `center` is "none", it is the
        midpoint of `bounds`, or the origin.
    {n_samples_}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    JMECovariance : Mean and covariance of a stream, at every step.
    DPPCA : Principal components, for which directions matter and not scales.
    sklearn.covariance.EmpiricalCovariance : Covariance without privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row, under replacement of that row
    (`n_samples` is public), for any data. All fitted attributes are covered. Distances
    and densities of a row are as private as that row.

    Both layers of the second moment have the Frobenius-sensitivity :math:`\sqrt2 / n`
    (:ref:`lemma-whole-covariance`), and lengths come from noisy votes
    (:ref:`lemma-length-votes`). Without `bounds`, lengths of rows are searched for from
    1e-6 to 1e6 units of the data. If rows are shorter or longer, pass `bounds`, or
    change the units by a public factor.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPCovariance
    >>> X = np.random.default_rng(0).standard_normal((20_000, 5)) * [3, 1, 1, 1, 1]
    >>> model = DPCovariance(epsilon=1.0).fit(X)
    >>> bool(8 < model.covariance_[0, 0] < 10)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        "bounds": [tuple, list, np.ndarray, None],
        "center": [StrOptions({"auto", "pairs", "none"})],
    }

    def __init__(
        self,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        bounds=None,
        center: str = "auto",
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.center = center
        self.accountant = accountant
        self.noise_seed = noise_seed

    def _statistic(self, n_samples: int, n_features: int) -> Statistic:
        """Return what a fit of that shape releases, from public numbers alone."""
        public = {"bounds": self.bounds, "center": self.center}
        bounds = RowBounds(n_features, search=True, **public)
        whole = WholeCovariance(bounds, n_samples)
        kind = SearchedComponents if isinstance(bounds.origin, Searched) else Centered
        return kind(bounds, n_samples, whole)

    @unweighted
    def fit(self, X, y=None, *, users=None) -> Self:
        """Release the covariance of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            {X_by_block}
        {y_ignored}
        {users_of_rows}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = self._by_user(deferred_rows(self, X, in_blocks=True), users)
            statistic = self._statistic(*unread.shape)
            plan = self._planned(statistic, in_fit=True)
            # It is charged here, and values are read from here on.
            release, rows = self._start_release(plan, unread, n_public=unread.shape[0])
            found, bounds = statistic.run(release, rows), statistic.bounds
            self.covariance_ = found.matrix * (bounds.unit * bounds.unit)
            self.location_ = bounds.to_data_units(found.mean)
            self.n_samples_ = unread.shape[0]
            remarks = (*plan.remarks, *filter(None, [found.remark]))
            self.privacy_ = replace(plan, remarks=remarks)
            if found.mean is None and HALF in bounds.weights:
                warn(
                    "no mean was released, because rows were compared in pairs: "
                    "location_ is the origin, or the midpoint of bounds, and "
                    "mahalanobis and score_samples measure from there; use more rows "
                    'or a larger epsilon, with center="auto"',
                    NoisyFitWarning,
                )
        return self
