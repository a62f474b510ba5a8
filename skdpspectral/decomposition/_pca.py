"""Differentially private principal component analysis of one table."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.mixins import DensityMixin, has_variances
from .._base.sklearn_compat import Interval, StrOptions
from .._linalg import eigen
from .._statistics.centered import Centered, Fit
from .._statistics.moments import WIDE, Moment, PowerStep, Rows
from .._tables.clipping import make_box, units_within
from .._tables.table import check_rows, check_scores, deferred_rows, map_rows, saturated
from ..accounting import NoisyFitWarning, PrivacyAccountant, gaussian_mu
from ..accounting._errors import warn
from ..mechanisms import Concern, Remark
from . import _kernels

# Most components that are kept where their number is released.
MOST_COMPONENTS = 50


# Methods that need variances, which components do not release.
_OF_COVARIANCES = ("score", "score_samples", "get_covariance", "mahalanobis")


@documented
class ProjectionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of estimators with components, a center and scales of features."""

    def _read_rows(self, X, accept_sparse=False):
        """Return the features of rows after a fit."""
        return check_rows(
            self, X, reset=False, accept_sparse=accept_sparse, in_blocks=True
        )

    def _warned_of_noise(self, said: str) -> Remark:
        """Warn that components may be noise; return the remark about it."""
        warn(said, NoisyFitWarning)
        return Remark(f"{said}.", Concern.NOISE)

    def transform(self, X):
        """Project rows on the components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows with the same columns as in :meth:`fit`. They are neither clipped nor
            scaled to unit norm. Arrays that :meth:`fit` reads block by block are also
            read block by block here.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Scores in the precision of X. They stay finite even on overflow.
        """
        check_is_fitted(self)
        X = self._read_rows(X, accept_sparse=True)
        precision = np.float32 if X.dtype == np.float32 else np.float64
        components = self.components_
        if getattr(self, "scale_", None) is not None:
            components = components / self.scale_
        offset = (components @ self.mean_).astype(precision)
        axes = components.T.astype(precision)

        def scores(block):
            block = block.astype(precision, copy=False)
            return saturated(np.asarray(block @ axes) - offset)

        with np.errstate(all="ignore"):
            return map_rows(scores, X)

    def inverse_transform(self, X):
        """Map scores back to the space of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores as returned by :meth:`transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The nearest points in the affine space spanned by the components.
        """
        check_is_fitted(self)
        X = check_scores(X, self.n_components_)
        components = self.components_
        if getattr(self, "scale_", None) is not None:
            components = components * self.scale_
        return X @ components.astype(X.dtype) + self.mean_.astype(X.dtype)

    @property
    def _n_features_out(self):
        return self.components_.shape[0]


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


class ComponentsMixin(DensityMixin):
    """Methods of estimators whose model has components, and one variance across."""

    @property
    def singular_values_(self) -> np.ndarray:
        """Singular values of the centered rows, of shape (n_components,).

        ``sqrt(n_samples_ * explained_variance_)``, available if the variances describe
        the data. Variances are divided by n_samples, not by ``n_samples - 1``.
        """
        check_is_fitted(self)
        has_variances(self)
        return np.sqrt(self.n_samples_ * np.maximum(self.explained_variance_, 0.0))

    def _model_variances(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Return positive variances along and across components, and units."""
        check_is_fitted(self)
        scale, noise = getattr(self, "scale_", None), self.noise_variance_
        units = np.ones(self.components_.shape[1]) if scale is None else scale
        largest = max(noise, float(self.explained_variance_.max()))
        noise = max(noise, np.finfo(float).eps * largest, np.finfo(float).tiny)
        return np.maximum(self.explained_variance_, noise), noise, units

    @available_if(has_variances)
    def get_covariance(self):
        r"""Covariance of the data.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            :math:`U \Lambda U' + \sigma^2 I` with the released variances, in units of
            the data.
        """
        values, noise, units = self._model_variances()
        components = self.components_ * units
        out = (components.T * (values - noise)) @ components
        out[np.diag_indices_from(out)] += noise * units**2
        return out

    def _precision(self) -> np.ndarray:
        values, noise, units = self._model_variances()
        components = self.components_ / units
        out = (components.T * (1.0 / values - 1.0 / noise)) @ components
        out[np.diag_indices_from(out)] += 1.0 / (noise * units**2)
        return out

    def _law(self):
        values, noise, units = self._model_variances()

        def squares(block):
            rows = (block - self.mean_) / units
            scores = rows @ self.components_.T
            return np.vecdot(rows, rows) / noise + scores**2 @ (1 / values - 1 / noise)

        log_det = float(np.sum(np.log(values)))
        log_det += (len(units) - len(values)) * math.log(noise)
        log_det += 2.0 * float(np.sum(np.log(units)))
        return squares, log_det + len(units) * math.log(2.0 * math.pi)


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
    by the exact privacy curve of the Gaussian mechanism.

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
            return Centered(rows, mu, "pairs", Moment.planned, measured=False)
        rank, last = self.n_components, Moment.planned
        if n_features >= WIDE and not isinstance(rank, str):
            paired = self.center != "none"
            last = partial(PowerStep.of_rank, rank=int(rank), paired=paired)
        return Centered(rows, mu, self.center, last)

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
        rank = int(rank)  # of any numpy type
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
        self.n_components_, self.components_above_noise_ = rank, above

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
