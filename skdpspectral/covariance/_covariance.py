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
from .._base.mixins import DensityMixin
from .._base.sklearn_compat import StrOptions
from .._linalg import eigen, walks
from .._statistics.centered import Centered
from .._statistics.moments import Origin, Rows, plan_second_moment, squares, terms_about
from .._statistics.statistic import HALF, Votes
from .._tables.clipping import make_box, normalize_rows
from .._tables.table import check_rows, deferred_rows
from ..accounting import NoisyFitWarning, PrivacyAccountant, gaussian_mu
from ..accounting._errors import warn
from ..mechanisms import Neighbors, PrivacyPlan

# Lengths that are told from each other: powers of two, so many octaves from a typical
# length, and so many cells of an octave.
_OCTAVES, _CELLS, _LOWEST = 8, 32, -199.0
# Numbers below were set by the errors in doc/tables/covariance_errors.rst.
# Share of mu**2 of the votes for the far length; of those for the near one at least and
# at most; and of the first layer in what the votes leave.
_FAR_VOTES, _NEAR_VOTES, _NEAR_LAYER = 0.03, (0.005, 0.2), 0.85
# Share of the rows that the first length clips; of all that have a length if there are
# too few to tell a quarter of them from the noise of the votes.
_CLIPPED, _CLIPPED_OF_FEW = 0.25, 0.5
# Steps of the two searches.
_NEAR_STEPS, _FAR_STEPS = 9, 8
# Deviations of the votes' noise that their margin has, where the budget allows it.
_SURE, _FAIRLY_SURE, _FAR_SURE = 5.0, 2.5, 3.0
# Most rows beyond the far length, as a share; beyond it there is one layer.
_MOST_FAR = 0.1
# Least eigenvalue of a covariance without noise, over the mean of all.
_LEAST = 1e-12


@dataclass(frozen=True)
class ClippedMoments:
    """Votes for a near length and, if rows suffice, a far one; a moment for each.

    The near moment is of rows clipped at the near length. The far one has what a clip
    at the far length would add, and counts as far as it exceeds its own noise.
    """

    rows: Rows
    searches: tuple[Votes, ...]
    votes: tuple[tuple, ...]
    moments: tuple
    far_number: float
    clipped: float

    @classmethod
    def planned(cls, suffix: str, rows: Rows, mu: float) -> ClippedMoments:
        """Plan all releases at a total cost of mu."""
        n, p, voters = rows.n, rows.p, rows.n * HALF
        wanted = (_SURE * math.sqrt(_NEAR_STEPS) / (mu * _CLIPPED * voters)) ** 2
        near = min(max(wanted, _NEAR_VOTES[0]), _NEAR_VOTES[1])
        noise = math.sqrt(_FAR_STEPS) / (mu * math.sqrt(_FAR_VOTES))
        number = max(2.0 * math.sqrt(p) / mu, _FAR_SURE * noise)
        shares = {"near": near}
        if number <= _MOST_FAR * voters:
            shares["far"] = _FAR_VOTES
        left = 1.0 - math.fsum(shares.values())
        parts = (_NEAR_LAYER * left, (1.0 - _NEAR_LAYER) * left)
        parts = parts if len(shares) == 2 else (left,)
        moved = sensitivity.vote_sensitivity(1, Neighbors.REPLACE_ONE)
        # Counts are exact; their part of a row may be none that float64 has.
        more: dict = {"summation_error": n * 2.0**-50, "magnitude": float(n)}
        searches, votes, moments = list[Any](), list[Any](), list[Any]()
        for (name, share), part in zip(shares.items(), parts, strict=True):
            steps = _NEAR_STEPS if name == "near" else _FAR_STEPS
            searches.append(Votes(f"{name}_length{suffix}", steps))
            cost, more["lemma"] = mu * math.sqrt(share), "length-votes"
            votes.append(searches[-1].planned(cost, moved, **more))
            moments += plan_second_moment(
                f"{name}_moment{suffix}",
                n,
                p,
                mu * math.sqrt(part),
                weights=(1.0, HALF),
                lemma="whole-covariance",
            )
        clipped = _CLIPPED_OF_FEW if wanted > 1.1 * near else _CLIPPED
        found = tuple(searches), tuple(votes), tuple(moments)
        return cls(rows, *found, number, clipped)

    @property
    def mechanisms(self) -> tuple:
        """Return the planned releases."""
        return (*(vote for votes in self.votes for vote in votes), *self.moments)

    def is_doubtful(self, weight: float) -> bool:
        """Whether noise may well hide the votes of rows that have this weight."""
        noise = getattr(self.votes[0][0], "noise_std", 0.0)
        return _FAIRLY_SURE * noise > _CLIPPED_OF_FEW * self.rows.n * weight

    def run(self, release: Any, X: Any, origin: Origin) -> np.ndarray:
        """Release the lengths and moments; return a positive definite covariance."""
        walked, divisor = terms_about(self.rows, X, origin)
        weight = HALF if origin.paired else 1.0
        if not origin.typical:
            warn(
                "noise hides how long rows are, and lengths about 1 are tried: the "
                "covariance may be wrong by orders of magnitude. Use more rows, a "
                "larger epsilon, or bounds",
                NoisyFitWarning,
            )
        radii = self._radii(release, walked, origin.typical or 1.0, 1.0 / divisor)
        kernel = partial(_sums_of_layers, radii=radii, n_features=self.rows.p)
        areas = [radii[0] ** 2, *(far**2 - radii[0] ** 2 for far in radii[1:])]
        layers, spreads = [], []
        sums = walked.reduce(kernel)
        for mechanism, area, total in zip(self.moments, areas, sums, strict=True):
            released = release(mechanism.name, total / divisor)
            layers.append(area / weight * released)
            noise = getattr(mechanism, "noise_std", 0.0) / math.sqrt(2.0)
            spreads.append(area / weight * noise)
        return self._joined(layers, spreads, origin.paired)

    def _radii(self, release, walked, typical: float, unit: float) -> tuple:
        """Return the near and the far length; `unit` times n is the vote of a term."""
        points = np.arange(-_OCTAVES * _CELLS, _OCTAVES * _CELLS + 1) / _CELLS
        points = np.clip(points + math.log2(typical), _LOWEST, -_LOWEST)
        longer = walked.reduce(partial(count_longer, points=points))
        longer, first, radii = longer * (unit * self.rows.n), 0, []
        wanted = (self.clipped * longer[0], self.far_number)
        for search, number in zip(self.searches, wanted, strict=False):

            def margin(place, first=first, number=number):
                return longer[np.minimum(first + place, len(points) - 1)] - number

            _, last = search.run(release, margin, rising=False)
            first = min(first + int(last[0]), len(points) - 1)
            radii.append(2.0 ** float(points[first]))
        if first == len(points) - 1:
            warn(
                "many rows are more than 2**8 times as far from others as is typical, "
                "and are clipped there: the covariance may be far too small. Put a "
                "DPStandardScaler in front, or pass bounds",
                NoisyFitWarning,
            )
        return tuple(radii)

    def _joined(self, layers, spreads, paired: bool) -> np.ndarray:
        """Combine released layers to a positive definite matrix."""
        p, n = self.rows.p, self.rows.n
        # Differences with few partners a row have more sampling error than rows.
        aspect = p / n * (1.0 + (HALF * n / self.rows.n_pairs if paired else 0.0))
        trace = max(float(np.trace(layers[0])), 0.0)
        floor = max(spreads[0], _LEAST * trace / p, np.finfo(float).tiny)
        if len(layers) > 1:
            return eigen.join_layers(*layers, *spreads, floor, aspect)
        matrix = eigen.shrink_noise(layers[0], spreads[0], aspect, floor)
        return matrix / _kept_share(matrix, self.clipped)


def _kept_share(matrix: np.ndarray, clipped: float) -> float:
    """Return the share of the trace that clipping keeps, for normal rows."""
    trace = float(np.trace(matrix))
    shape = 0.5 * trace**2 / float(np.sum(matrix**2))
    place = float(gammaincinv(shape, 1.0 - clipped))
    return float(gammainc(shape + 1.0, place)) + clipped * place / shape


def count_longer(blocks, points: np.ndarray) -> np.ndarray:
    """Count rows of positive length that are longer than powers of two."""
    counts = np.zeros(len(points) + 1, dtype=np.int64)
    for block in blocks:
        with np.errstate(divide="ignore"):
            logs = 0.5 * np.log2(squares(block))
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


class CovarianceMixin(DensityMixin):
    """Methods of estimators with a `location_` and a `covariance_`."""

    def _read_rows(self, X):
        """Return the features of rows after a fit."""
        return check_rows(self, X, reset=False, in_blocks=True)

    def _root_of_precision(self) -> np.ndarray:
        """Return a matrix R with R R' the precision."""
        # Features may have units of very different size.
        units = np.sqrt(np.diag(self.covariance_))
        values, vectors = np.linalg.eigh(self.covariance_ / np.outer(units, units))
        values = np.maximum(values, len(values) * np.finfo(float).eps)
        return vectors / np.sqrt(values) / units[:, None]

    def _precision(self) -> np.ndarray:
        root = self._root_of_precision()
        return root @ root.T

    @property
    def precision_(self):
        """Inverse of the covariance, of shape (n_features, n_features)."""
        return self.get_precision()

    def _law(self):
        root, deviations = self._root_of_precision(), np.sqrt(np.diag(self.covariance_))

        def squares(block):
            whitened = (block - self.location_) @ root
            return np.vecdot(whitened, whitened)

        scaled = self.covariance_ / np.outer(deviations, deviations)
        log_det = float(np.linalg.slogdet(scaled)[1])
        log_det += 2.0 * float(np.sum(np.log(deviations)))
        return squares, log_det + len(scaled) * math.log(2.0 * math.pi)

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


class CenteredCovariance(Centered):
    """A covariance about a private center, or of pairs, with a warning of few rows."""

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Warn if the search for lengths may well fail."""
        weight = 1.0 if self.center == "none" else HALF
        if not self.branches[0].last.is_doubtful(weight):
            return ()
        return (
            f"{self.rows.n} rows are too few for private lengths at this budget: the "
            "lengths, and the covariance with them, may have any scale; use more rows "
            "or a larger epsilon",
        )


@documented
class DPCovariance(CovarianceMixin, TableEstimator):
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

    def _statistic(self, n_samples: int, n_features: int) -> CenteredCovariance:
        """Return what a fit of that shape releases, from public numbers alone."""
        box = make_box(self.bounds, n_features, per_feature=False)
        rows, mu = Rows(n_samples, n_features, box), gaussian_mu(*self._budget_of_fit())
        return CenteredCovariance(rows, mu, self.center, ClippedMoments.planned, True)

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
            _, origin, matrix, said = statistic.run(release, rows)
            self.covariance_ = matrix * statistic.rows.unit**2
            self.location_ = statistic.rows.to_data(origin.center)
            self.n_samples_ = unread.shape[0]
            self.privacy_ = replace(plan, remarks=(*plan.remarks, *said))
            if origin.paired:
                warn(
                    "no mean was released, because rows were compared in pairs: "
                    "location_ is the origin, or the midpoint of bounds, and "
                    "mahalanobis and score_samples measure from there; use more rows "
                    'or a larger epsilon, with center="auto"',
                    NoisyFitWarning,
                )
        return self
