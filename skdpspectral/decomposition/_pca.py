"""Differentially private principal component analysis of one table."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.sklearn_compat import Interval, StrOptions
from .._linalg import eigen
from .._statistics.centered import PAIRED, Centered, Fit
from .._statistics.moments import Moment, Origin, Rows
from .._tables.clipping import make_box, units_within
from .._tables.table import deferred_rows
from ..accounting import PrivacyAccountant, gaussian_mu
from ..mechanisms import Concern, Remark, check_count
from . import _kernels
from ._pca_mechanisms import (
    MODEL_CONSTRAINTS,
    SpikedModel,
    design_components,
    public_guesses,
)
from ._power_step import WIDE, PowerStep
from ._projection import ProjectionMixin, VariancesMixin

# Most components that are kept where their number is released.
MOST_COMPONENTS = 50

_RANKS = (
    "Components are computed from correlations that are estimated with Kendall's rank "
    "correlations, which use only the signs of differences of rows in each feature. No "
    "scale of a feature was measured."
)


class UnitPairs(Fit):
    """The moment of unit differences of rows, or of their signs, and nothing else."""

    def __init__(self, rows: Rows, mu: float) -> None:
        self.rows, self.moment = rows, Moment.planned("", rows, mu)
        self.mechanisms = self.moment.mechanisms
        said = _RANKS if rows.ranks else PAIRED
        self.remarks = (Remark(said, Concern.MEASURED),)

    def run(self, release: Any, X: Any) -> tuple[Moment, Origin, tuple, tuple]:
        """As that of :class:`Centered`."""
        origin = Origin(paired=True)
        return self.moment, origin, self.moment.run(release, X, origin), ()


def expected_distance(fit: Fit, rank: int, signal: float, noise: float) -> float:
    """Expected distance of unit rows of a normal law about a center, to first order.

    `signal` and `noise` are variances along the components beyond the noise, and across
    them, in units of the rows.
    """
    rows, paired, moment = fit.rows, True, getattr(fit, "moment", None)
    if isinstance(fit, Centered):
        branch = fit.branches[fit.chosen[0]]
        moment, paired = branch.last, branch.course is None and fit.center != "none"
    law = signal + noise, noise, rank, rows.p - rank
    gap, sampling = _kernels.unit_row_moments(*law)
    sampling /= rows.n
    if paired:  # of pairs that share rows
        sampling *= 1.0 + 0.5 * rows.n / rows.n_pairs
    entries = 2.0 * rank * (rows.p - rank)
    along = rank * (signal + noise) / (rank * signal + rows.p * noise)
    error = entries * (sampling + moment.across(paired, along) ** 2) / gap**2
    return math.sqrt(min(error, 2.0 * min(rank, rows.p - rank)))


# Methods that need variances, which components do not release.
_OF_COVARIANCES = ("score", "score_samples", "get_covariance", "mahalanobis")


def check_rank(n_components, n_samples: int, n_features: int) -> None:
    """Refuse more components than there can be."""
    most = min(n_samples, n_features)
    if not isinstance(n_components, str) and n_components > most:
        raise ValueError(
            f"n_components={n_components} must be at most min(n_samples, n_features)="
            f"{most} for n_samples={n_samples}, n_features={n_features}; ask for fewer "
            "components"
        )


class TableComponents(ProjectionMixin, TableEstimator):
    """Base class of estimators that release components of one table."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = self._takes_sparse_rows()
        return tags

    def expected_error(
        self, n_samples, n_features, *, signal_variance, noise_variance=1.0
    ):
        """Predict the distance between private and true components, without data.

        Parameters
        ----------
        n_samples, n_features : int
            Shape of the rows.
        signal_variance : float
            Variance along each component beyond `noise_variance`. Use a guess, or an
            estimate from similar public rows; never estimate it from the private rows.
        noise_variance : float, default=1.0
            Variance across the components.

        Returns
        -------
        float
            Expected :func:`~skdpspectral.metrics.subspace_distance` to first order,
            including statistical and privacy error, for Gaussian rows with a known
            center. It is capped at the largest possible distance. Values above about
            0.5 only indicate that there are too few rows.

        Raises
        ------
        ValueError
            If a parameter is invalid, or `n_components` is "auto".

        Examples
        --------
        >>> from skdpspectral import DPPCA
        >>> pca = DPPCA(n_components=1, epsilon=1.0)
        >>> round(pca.expected_error(5000, 50, signal_variance=10.0), 3)
        0.082
        """
        self._check_parameters()
        n_features = check_count("n_features", n_features)
        statistic = self._statistic(check_count("n_samples", n_samples), n_features)
        plan = self._planned(statistic)
        if self.n_components == "auto" or self.n_components >= n_features:
            raise ValueError(
                "expected_error requires n_components to be a number below n_features"
            )
        guesses = public_guesses(signal_variance, noise_variance, self._unit(statistic))
        return self._expected_error(statistic, plan, *guesses)


@documented
class DPPCA(TableComponents):
    r"""Principal component analysis (PCA) with differential privacy.

    :class:`DPPCA` releases the second moment of bounded rows with symmetric Gaussian
    noise. The components are its eigenvectors with the largest (not the largest
    absolute) eigenvalues. The guarantee holds for any data. :meth:`transform` projects
    rows on `components_`, and ``print(pca.privacy_)`` states the guarantee. Read more
    in the :ref:`user guide <pca>`.

    Parameters
    ----------
    n_components : int or "auto", default=2
        Number of components r, at most ``min(n_samples, n_features)``. "auto" counts
        the eigenvalues of the released second moment that exceed noise and sampling
        error, with a minimum of 1 and a maximum of 50, at no additional cost.
    {epsilon}
    {delta}
    {bounds}
    scale : {"bounds", "ranks"} or None, default=None
        "bounds" divides each feature by its own half-width, rather than all features by
        the largest one.

        "ranks" computes the components of standardized features. Their correlations are
        estimated from Kendall's rank correlations, that is, from the signs of
        differences of rows, feature by feature (:ref:`pca_ranks`). This needs neither
        scales nor bounds, loses no feature, and is invariant under increasing
        transformations of the features. The correlations use the whole budget, and no
        scale is measured: :meth:`transform` divides features by the half-widths of
        public `bounds`, and without `bounds` leaves them unscaled. If features have
        different units, put a :class:`~skdpspectral.DPStandardScaler` in front.
    center : {"auto", "pairs", "none"}, default="auto"
        Reference point that is subtracted from the rows. No assumption is made about
        their mean. "pairs": rows are compared with other rows from far away in the
        table (:ref:`lemma-pair-moment`), which needs neither a center nor `bounds`, but
        doubles the noise. "auto": a private center that is found in a few steps, or
        pairs, depending on public numbers and released lengths; ``privacy_`` states the
        choice. "none": the midpoint of `bounds`, or the origin.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, leading first. The largest entry of each is positive.
    components_std_ : ndarray of shape (n_components, n_features)
        Standard deviations of the entries of `components_`, to first order in the
        noise, around the components of the same bounded rows without noise. They are
        computed from the plan and the released eigenvalues, at no cost, and do not
        include sampling error. Not set with ranks.
    explained_variance_ : ndarray of shape (n_components,)
        Released variances along the components, at least 0. They describe rows of at
        most unit norm. Their unit is a released length that differs from fit to fit, so
        that only `explained_variance_ratio_` can be compared between fits. With ranks
        they are eigenvalues of the estimated correlations, that is, variances of
        standardized features.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `explained_variance_` divided by the released total variance; with ranks,
        divided by the number of features.
    mean_ : ndarray of shape (n_features,)
        Point that is subtracted from rows, in the units of the data.
    scale_ : ndarray of shape (n_features,) or None
        Divisors of the features: the half-widths of `bounds` if there is a `scale`.
        None without.
    {n_components_}
    components_above_noise_ : int
        Number of components whose released eigenvalue exceeds what noise and sampling
        produce for rows without any structure. If it is less than `n_components_`, the
        fit issues a :class:`~skdpspectral.NoisyFitWarning`.
    {n_samples_}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    DPCovariance : The covariance, with distances and densities of rows.
    skdpspectral.decomposition.SpikedPCA : Components under a model of the data.
    PrivacyAccountant : Ledger for the budget of several fits.
    skdpspectral.metrics.captured_variance : Score for cross-validation and searches.
    sklearn.decomposition.PCA : PCA without privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row, under replacement of that row
    (`n_samples` is public), for any data. All fitted attributes are covered. The result
    of :meth:`transform` for a row is as private as that row.

    The second moment has Frobenius-sensitivity :math:`\sqrt2 / n` for rows of norm at
    most 1 (:ref:`lemma-second-moment`), and so has half of that of pairs
    (:ref:`lemma-pair-moment`). Parts of lengths, clipped means and votes before it cost
    a small share of the budget (:ref:`lemma-length-parts`,
    :ref:`lemma-shrinking-center`, :ref:`lemma-shared-votes`). The noise is calibrated
    by the exact privacy curve of the Gaussian mechanism. :meth:`expected_error`
    predicts the error without data.

    References
    ----------
    Dwork, Talwar, Thakurta and Zhang (2014), Analyze Gauss, algorithm 1.
    Balle and Wang (2018), Improving the Gaussian mechanism, theorem 8.

    Examples
    --------
    >>> from skdpspectral import DPPCA
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> X, components = make_spiked_covariance(20_000, 10, random_state=0)
    >>> pca = DPPCA(n_components=1, epsilon=1.0).fit(X)
    >>> bool(abs(components[0] @ pca.components_[0]) > 0.99)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "bounds": [tuple, list, np.ndarray, None],
        "scale": [StrOptions({"bounds", "ranks"}), None],
        "center": [StrOptions({"auto", "pairs", "none"})],
    }

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        bounds=None,
        scale: str | None = None,
        center: str = "auto",
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.scale = scale
        self.center = center
        self.accountant = accountant
        self.noise_seed = noise_seed

    def __getattr__(self, name: str) -> Any:
        said = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in _OF_COVARIANCES:
            said += ": use DPCovariance, or a scorer such as captured_variance"
        raise AttributeError(said)

    def _statistic(self, n_samples: int, n_features: int, sparse: bool = False) -> Fit:
        """Return what a fit of that shape releases, from public numbers alone.

        Sparse rows are to stay so: nothing is searched for that would fill them.
        """
        check_rank(self.n_components, n_samples, n_features)
        ranks = self.scale == "ranks"
        if ranks and self.center == "none":
            raise ValueError(
                'center="none" is not used with scale="ranks", whose components are '
                'computed from the signs of differences of rows: leave center="auto"'
            )
        own = self.scale == "bounds" or (ranks and self.bounds is not None)
        box = make_box(self.bounds, n_features, per_feature=own)
        rows = Rows(n_samples, n_features, box, ranks)
        mu = gaussian_mu(*self._budget_of_fit())
        if ranks or (sparse and self.center != "none"):
            return UnitPairs(rows, mu)
        rank, last = self.n_components, Moment.planned
        if n_features >= WIDE and not isinstance(rank, str):
            paired = self.center != "none"
            last = partial(PowerStep.of_rank, rank=int(rank), paired=paired)
        return Centered(rows, mu, self.center, last)

    def _unit(self, statistic) -> float:
        return 1.0 if self.scale is not None else statistic.rows.unit

    def _expected_error(self, statistic, plan, signal: float, noise: float) -> float:
        if self.scale == "ranks":
            raise ValueError(
                "expected_error requires variances in the units of the data, but ranks "
                "have no units; fit simulated rows of the same shape instead"
            )
        return expected_distance(statistic, self.n_components, signal, noise)

    def _takes_sparse_rows(self) -> bool:
        """Return whether bounding rows leaves zeros where they are."""
        return self.bounds is None

    @unweighted
    def fit(self, X, y=None, *, users=None) -> Self:
        """Release the leading components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            {X_by_block}
            Reading blocks takes constant memory. Sparse rows stay sparse. By default
            they are compared in pairs, for the same total cost as in
            :meth:`privacy_plan`. They do not support `bounds`, which would make them
            dense.
        {y_ignored}
        {users_of_rows}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            sparse = self._takes_sparse_rows()
            unread = deferred_rows(self, X, accept_sparse=sparse, in_blocks=True)
            unread = self._by_user(unread, users)
            n_samples, n_features = unread.shape
            statistic = self._statistic(n_samples, n_features, unread.sparse)
            plan = self._planned(statistic, in_fit=True)
            # It is charged here, and values are read from here on.
            release, rows = self._start_release(plan, unread, n_public=n_samples)
            moment, origin, (matrix, across), said = statistic.run(release, rows)
            self.n_samples_ = n_samples
            noise = moment.spread(origin.paired)
            self._set_components(matrix, noise, across, moment.rows.ranks)
            self.mean_ = moment.rows.to_data(origin.center)
            box = None if self.scale is None else moment.rows.box
            self.scale_ = None if box is None else box.unit.copy()
            self.privacy_ = replace(
                plan, remarks=(*plan.remarks, *self._warn_of_noise(), *said)
            )
        return self

    def _set_components(self, matrix, spread: float, across: float, ranks: bool):
        """Set attributes from a released moment, whose noise has these deviations."""
        rank, n, p = self.n_components, self.n_samples_, len(matrix)
        if rank == "auto":
            rank = min(eigen.select_rank(matrix, spread, n), MOST_COMPONENTS, n, p)
        values, vectors = eigen.top_eigh(matrix, rank, spread)
        total = float(np.trace(matrix))
        above = eigen.count_above_noise(values, total, p, spread, n)
        vars(self).pop("components_std_", None)
        if ranks:  # standardized features have a variance of 1 each
            matrix, total = _kernels.correlations_of_signs(matrix, spread), float(p)
            values, vectors = eigen.top_eigh(matrix, rank)
        else:
            std = eigen.entry_deviations(values, vectors, total, across)
            self.components_std_ = std
        values = np.maximum(values, 0.0)
        # The other eigenvalues of a variance are not negative either.
        total = max(total, float(values.sum()), np.finfo(float).tiny)
        self.components_, self.explained_variance_ = vectors, values
        self.explained_variance_ratio_ = values / total
        self.n_components_, self.components_above_noise_ = int(rank), above

    def _warn_of_noise(self) -> tuple[str, ...]:
        """Warn where noise may have made released eigenvalues, and remark on it."""
        if self.components_above_noise_ >= self.n_components_:
            return ()
        said = (
            f"Components above the noise of this fit: {self.components_above_noise_} "
            f"of {self.n_components_}. The others may be noise alone. "
            f"{self._remedy_of_units()}Use more rows, a larger epsilon or fewer "
            "components"
        )
        return (self._warned_of_noise(said),)

    def _remedy_of_units(self) -> str:
        """Say what to do about features in different units, by parameters alone."""
        if self.scale is not None:
            return ""
        if self.bounds is not None:
            return units_within(self.bounds)
        return 'If features have different units, set scale="ranks". '


@documented
class SpikedPCA(VariancesMixin, TableComponents):
    r"""PCA whose guarantee is **for a model of the data**, as in papers on it.

    Noise is added to the projector on the components. Rows are not bounded. The
    guarantee only holds for independent Gaussian rows with a common mean and the spiked
    covariance stated here, when one row is replaced by another row of this model
    (:ref:`theorem-spiked-projector`). For other data the fit is not private at all. If
    the theorem gives no bound, for example for few rows or a weak signal, the fit
    raises an error. Use it to compare with the papers, and :class:`~skdpspectral.DPPCA`
    for data. Read more in the :ref:`user guide <spiked_pca>`.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, below the number of features.
    signal_variance : float, array-like of shape (n_components,) or "private"
        Public variance along the components beyond `noise_variance`, in squared units
        of the data. "private", the default, assumes one unknown variance that is equal
        for all components. Half of the rows then vote on a lower bound on it, which
        sets the noise, for a fifth of the budget and a larger sensitivity
        (:ref:`theorem-private-variances`).
    noise_variance : float or "private", default="private"
        Public variance across the components. Both variances must be "private" if one
        is.
    {epsilon}
    {delta}
    mean : {"zero", "unknown"}, default="zero"
        "zero": rows are measured from the origin; rows centered elsewhere do not follow
        the model. "unknown": rows are measured from their own mean, which can be any
        point, at the cost of one row (:ref:`lemma-own-mean`). The mean is not released,
        and rows must be dense.
    release : {"components", "covariance"}, default="components"
        "covariance" also releases the covariance within the components, for half of the
        budget. It requires public variances.
    calibration : {"exact", "paper"}, default="exact"
        "paper" is meant for figures: it uses the classical bound with epsilon and delta
        halved, and first-order sensitivities as printed in the papers. ``privacy_`` and
        the ledger state the epsilon that a theorem proves for this noise. If it is
        larger than `epsilon`, as it often is, a
        :class:`~skdpspectral.PrivacyLeakWarning` is issued.
    sensitivity_constant : float or None, default=None
        Constant of the papers' sensitivities, which the papers do not specify. It is
        only used with ``calibration="paper"``, and None means 1. With q =
        `noise_variance` / `signal_variance`, the default gives the projector's noise of
        Cai et al., with q + sqrt(q); a constant of sqrt(q (q + 1)) / (q + sqrt(q))
        gives the noise of Li et al. (2024).
    {accountant}
    {noise_seed}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, leading first. The largest entry of each is positive.
    explained_variance_ : ndarray of shape (n_components,)
        Variances along the components: those of the model, or released ones.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `explained_variance_` divided by the variance in all directions.
    noise_variance_ : float
        Variance across the components.
    mean_ : ndarray of shape (n_features,)
        The origin.
    {singular_values_}
    {n_components_}
    {n_samples_}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    DPPCA : Components with a guarantee for any data.
    SpikedModel : The same model of the rows of clients.

    References
    ----------
    Cai, Xia and Zha (2024), Optimal differentially private PCA and estimation for
    spiked covariance matrices, algorithm 1.

    Examples
    --------
    >>> from skdpspectral.decomposition import SpikedPCA
    >>> pca = SpikedPCA(1, signal_variance=50.0, noise_variance=1.0)
    >>> print(pca.privacy_plan(10_000, 20).assumption)
    spiked-gaussian
    """

    assumption: ClassVar = SpikedModel.assumption
    _array_parameters: ClassVar[tuple[str, ...]] = ("signal_variance",)
    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        **MODEL_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "release": [StrOptions({"components", "covariance"})],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        signal_variance: Any = "private",
        noise_variance: float | str = "private",
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        mean: str = "zero",
        release: str = "components",
        calibration: str = "exact",
        sensitivity_constant: float | None = None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.epsilon = epsilon
        self.delta = delta
        self.mean = mean
        self.release = release
        self.calibration = calibration
        self.sensitivity_constant = sensitivity_constant
        self.accountant = accountant
        self.noise_seed = noise_seed

    def _model(self) -> SpikedModel:
        names = SpikedModel._get_param_names()
        return SpikedModel(**{n: getattr(self, n) for n in names if hasattr(self, n)})

    def _why_no_variances(self) -> None:
        """Return None: the model has variances."""

    def _unit(self, statistic) -> float:
        return statistic.bounds.unit

    def _expected_error(self, statistic, plan, signal: float, noise: float) -> float:
        return statistic.expected_error(plan, signal, noise)

    def _takes_sparse_rows(self) -> bool:
        return self.mean != "unknown"

    def _statistic(self, n_samples: int, n_features: int):
        """Return what a fit of that shape releases, from public numbers alone."""
        check_rank(self.n_components, n_samples, n_features)
        rank, covariance = int(self.n_components), self.release == "covariance"
        chosen = self._model(), rank, n_features, covariance
        bounds, mechanism = design_components(*chosen, bounds=None, center="none")
        return mechanism.of_model(bounds, n_samples, rank, covariance)

    @unweighted
    def fit(self, X, y=None, *, users=None) -> Self:
        """Release the leading components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            {X_by_block}
            With private variances, blocks are read into memory.
        {y_ignored}
        {users_of_rows}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            # Halves of rows are cut from what is whole.
            how = {"accept_sparse": self._takes_sparse_rows()}
            how["in_blocks"] = not self._model().is_private
            unread = self._by_user(deferred_rows(self, X, **how), users)
            n_samples, n_features = unread.shape
            statistic = self._statistic(n_samples, n_features)
            plan = self._planned(statistic, in_fit=True)
            # It is charged here, and values are read from here on.
            release, rows = self._start_release(plan, unread, n_public=n_samples)
            found = statistic.run(release, rows)
            self.components_, self.explained_variance_ = found.vectors, found.values
            self.explained_variance_ratio_ = found.values / found.total
            self.noise_variance_ = float(found.noise)
            self.mean_ = np.zeros(n_features)
            self.n_components_, self.n_samples_ = len(found.vectors), n_samples
            self.privacy_ = plan
        return self
