"""Differentially private principal component analysis of one table."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import ClassVar

import numpy as np

from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.sklearn_compat import (
    Interval,
    StrOptions,
)
from .._statistics.scale_windows import public_size
from .._statistics.statistic import HALF
from .._tables.clipping import make_box, units_within
from .._tables.table import deferred_rows
from ..accounting import NoisyFitWarning, PrivacyAccountant
from ..accounting._errors import warn
from ..mechanisms import check_count
from ._bounded_moments import CENTER_CONSTRAINT, PrivateMean
from ._components import Ranked, Scaled, ScaledComponents, share_of_scales
from ._pca_mechanisms import (
    CLIP_RANGE,
    MECHANISM_CONSTRAINTS,
    Gaussian,
    SpikedModel,
    design_components,
    public_guesses,
)
from ._projection import ProjectionMixin

# Rows, in units of sqrt(n_features) / mu, below which components of ranks keep more of
# the variance of standardized features than those of privately scaled rows.
_FEW_ROWS = 400.0


@documented
class DPPCA(ProjectionMixin, TableEstimator):
    r"""Principal component analysis (PCA) with differential privacy.

    By default, :class:`DPPCA` releases the second moment of bounded rows with symmetric
    Gaussian noise. The components are its eigenvectors with the largest (not the
    largest absolute) eigenvalues. The guarantee holds for any data, except with
    ``mechanism=SpikedModel(...)``. :meth:`transform` projects rows on `components_`,
    and ``print(pca.privacy_)`` states the guarantee. Read more in the
    :ref:`user guide <pca>`.

    Parameters
    ----------
    n_components : int or "auto", default=2
        Number of components r, at most ``min(n_samples, n_features)``. "auto" counts
        the eigenvalues of the released second moment that exceed noise and sampling
        error, with a minimum of 1 and a maximum of 50, at no additional cost.
    {epsilon}
    {delta}
    mechanism : {"gaussian", "two-stage", "auto"} or object, default="gaussian"
        How the components are released (:ref:`mechanisms`). "gaussian" adds noise to
        the second moment. "two-stage" then adds a power step, in which rows are clipped
        by private sizes. "auto" chooses between both after the first release. To set
        public numbers, pass an object: :class:`~skdpspectral.decomposition.Gaussian`,
        :class:`~skdpspectral.decomposition.TwoStage`,
        :class:`~skdpspectral.decomposition.Auto`, or
        :class:`~skdpspectral.decomposition.SpikedModel`, whose guarantee is **for a
        model of the data**.
    {bounds}
    {clip_norm}
        If noise is negligible, choose the square root of the covariance's trace.
    scale : {"bounds", "private", "ranks"} or None, default=None
        "bounds" divides each feature by its own half-width, rather than all features by
        the largest one.

        "private" divides each feature by a private standard deviation, as
        :class:`~skdpspectral.DPStandardScaler` does, for half of the budget. Bounds and
        magnitudes need not be known (:ref:`scales`). With ``center="auto"``, rows are
        then compared in pairs, unless variances of the data are released, because
        densities need a mean. Features that are not seen are left out of the components
        as long as the other features suffice. They have no variance and do not affect
        scores, densities and distances.

        **On few rows**, fewer than ``400 * sqrt(n_features) / mu``, "private" computes
        the components from ranks. Scales are then released only for :meth:`transform`,
        and only from ``74 * sqrt(n_features) / mu`` rows on. The number ``mu`` is part
        of ``privacy_``, which also states this choice; the choice depends on public
        numbers only. It does not apply if you set another `mechanism`, `center`,
        `release` or `clip_norm`.

        "ranks" computes the components of standardized features. Their correlations are
        estimated from Kendall's rank correlations, that is, from the signs of
        differences of rows, feature by feature (:ref:`pca_ranks`). This needs neither
        scales nor bounds, loses no feature, and is invariant under increasing
        transformations of the features. The correlations use the whole budget, and no
        scale is measured: :meth:`transform` divides features by the half-widths of
        public `bounds`, and without `bounds` leaves them unscaled. If features have
        different units, first divide them by public scales or use
        :class:`~skdpspectral.DPStandardScaler`.
    center : {"auto", "none", "pairs", "private"} or PrivateMean, default="auto"
        Reference point that is subtracted from the rows. No assumption is made about
        their mean. "pairs": rows are compared with other rows from far away in the
        table (:ref:`lemma-pair-moment`), which needs neither a center nor `bounds`, but
        doubles the noise. "private": a center that is found in several steps, using
        part of the budget. "auto": "private" or "pairs", depending on public numbers
        and intermediate releases; ``privacy_`` states the choice. "none": the midpoint
        of `bounds`, or the origin. :class:`~skdpspectral.decomposition.PrivateMean`:
        the private mean of rows in a public ball.
    release : {"components", "covariance"}, default="components"
        "covariance" computes the components from a released covariance of all features,
        in units of the data. Rows are clipped at private lengths or at `clip_norm`
        (:ref:`lemma-whole-covariance`). With a power step or a given noise variance,
        only the second moment within the components is released instead of the full
        covariance. It uses clipped projections, and takes 15 % of the budget.
    {whiten}
        with ``release="covariance"`` or a `clip_norm`.
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
        include sampling error. Not set with ``release="covariance"``, ranks, a model, a
        power step or unseen features.
    explained_variance_ : ndarray of shape (n_components,)
        Released variances along the components, at least 0. With
        ``release="covariance"`` they are in squared units of the data (of the scaled
        features with ``scale="bounds"``). With a `clip_norm` they have the same units
        and describe the clipped rows. Otherwise they describe rows of about unit norm
        at most. Their unit is a released length that differs from fit to fit, so that
        only `explained_variance_ratio_` can be compared between fits. With a model they
        are the model's variances. With ranks they are eigenvalues of the estimated
        correlations, that is, variances of standardized features.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `explained_variance_` divided by the released total variance; with ranks,
        divided by the number of features.
    noise_variance_ : float
        Variance across the components, set if released variances describe the data.
    covariance_ : ndarray of shape (n_features, n_features)
        Released positive definite covariance in units of the data, corrected for the
        bias that noise and sampling cause in its eigenvalues. Only set with
        ``release="covariance"`` and ``mechanism="gaussian"``; :meth:`get_covariance`
        also works with a model.
    mean_ : ndarray of shape (n_features,)
        Point that is subtracted from rows, in the units of the data.
    scale_ : ndarray of shape (n_features,) or None
        Divisors of the features, 1 for features without a known scale. None with
        ``scale=None``, and with ``scale="ranks"`` if `bounds` are None.
    unseen_features_ : ndarray of bool of shape (n_features,)
        With ``scale="private"``, mask of the features for which no scale was found.
        :meth:`transform` ignores these features, and :meth:`inverse_transform` returns
        their `mean_`. If the mask is True for all features, as on few rows, all
        features are used unscaled. On few rows with `bounds` the mask is not set,
        because the half-widths of `bounds` are the scales.
    {singular_values_}
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
    PrivacyAccountant : Ledger for the budget of several fits.
    skdpspectral.metrics.captured_variance : Score for cross-validation and searches.
    sklearn.decomposition.PCA : PCA without privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row, under replacement of that row
    (`n_samples` is public), for any data. All fitted attributes are covered. The result
    of :meth:`transform` for a row is as private as that row.

    The second moment has Frobenius-sensitivity :math:`\sqrt2 c^2 / n` for rows of norm
    at most c (1 for unit rows; :ref:`lemma-second-moment`), and the noise is calibrated
    by the exact privacy curve of the Gaussian mechanism. A private mean takes 15 % of
    the budget's :math:`\mu^2`. Other mechanisms and all proofs are described in
    :ref:`theory`. :meth:`expected_error` predicts the error without data.

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
        "mechanism": MECHANISM_CONSTRAINTS,
        "release": [StrOptions({"components", "covariance"})],
        "bounds": [tuple, list, np.ndarray, None],
        "clip_norm": [CLIP_RANGE, None],
        "scale": [StrOptions({"bounds", "private", "ranks"}), None],
        "center": CENTER_CONSTRAINT,
        "whiten": ["boolean"],
    }

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        mechanism="gaussian",
        bounds=None,
        clip_norm: float | None = None,
        scale: str | None = None,
        center="auto",
        release: str = "components",
        whiten: bool = False,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.bounds = bounds
        self.clip_norm = clip_norm
        self.scale = scale
        self.center = center
        self.release = release
        self.whiten = whiten
        self.accountant = accountant
        self.noise_seed = noise_seed

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
        unit = statistic.bounds.unit
        guesses = public_guesses(signal_variance, noise_variance, unit)
        return statistic.expected_error(plan, *guesses)

    def _statistic(self, n_samples: int, n_features: int, sparse: bool = False):
        """Return what a fit of that shape releases, from public numbers alone.

        Sparse rows are to stay so: nothing is searched for that would fill them.
        """
        self._check_shape(n_samples, n_features)
        covariance = self.release == "covariance"
        if self._is_ranked(n_samples, n_features):
            return self._ranked(n_samples, n_features)
        scaled, bounded = self._is_scaled(), {"bounds": self.bounds}
        bounded |= {"scale": self.scale, "center": self.center}
        automatic = isinstance(self.center, str) and self.center == "auto"
        if automatic and sparse and not isinstance(self.mechanism, SpikedModel):
            bounded["center"] = "pairs"
        if scaled:  # of scaled rows no bounds are known
            bounded |= {"bounds": None, "scale": None}
            if automatic and self._why_no_variances() is not None:
                # Differences of scaled rows keep more of them than unit rows.
                bounded["center"] = "pairs"
        bounds, mechanism = design_components(
            self.mechanism,
            self.n_components,
            n_features,
            covariance,
            clip_norm=self.clip_norm,
            search=True,
            **bounded,
        )
        rank = None if self.n_components == "auto" else int(self.n_components)
        if covariance and mechanism.whole and not scaled:
            return mechanism.covariance(bounds, n_samples, rank)
        statistic = mechanism.statistic(
            bounds, n_samples, rank, covariance, sparing=True
        )
        if not scaled:
            return statistic
        box = None
        if self.bounds is not None:
            box = make_box(self.bounds, n_features, per_feature=True)
        return Scaled(statistic, n_samples, box, with_mean=not sparse)

    def _is_ranked(self, n_samples: int, n_features: int) -> bool:
        """Return whether components are of ranks, by parameters and public numbers."""
        if self.scale == "ranks":
            self._check_ranks()
            return True
        if self.scale != "private" or self._why_no_ranks() is not None:
            return False
        return self._public_size(n_samples, n_features) < _FEW_ROWS

    def _public_size(self, n_samples: int, n_features: int) -> float:
        """Return the number of rows in units of sqrt(n_features) / mu."""
        return public_size(n_samples, n_features, *self._budget_of_fit())

    def _why_no_ranks(self) -> str | None:
        """Return the parameter that has no use with ranks; None if there is none."""
        unused = {
            "mechanism": type(self.mechanism) is not Gaussian
            and self.mechanism != "gaussian",
            "release": self.release != "components",
            "clip_norm": self.clip_norm is not None,
            "center": self.center not in ("auto", "pairs"),
        }
        return next((name for name, found in unused.items() if found), None)

    def _check_ranks(self) -> None:
        """Refuse parameters that ranks have no use for."""
        name = self._why_no_ranks()
        if name is not None:
            default = type(self)().get_params(deep=False)[name]
            raise ValueError(
                f'{name} is not used with scale="ranks", whose components are '
                "computed from the signs of differences of rows: leave "
                f"{name}={default!r}"
            )

    def _ranked(self, n_samples: int, n_features: int) -> Ranked:
        """Return the release of components of ranks, with scales if rows suffice."""
        bounded = {"bounds": self.bounds, "center": "pairs", "ranks": True}
        bounded["scale"] = None if self.bounds is None else "bounds"
        chosen = self.mechanism, self.n_components, n_features
        bounds, mechanism = design_components(*chosen, False, search=True, **bounded)
        rank = None if self.n_components == "auto" else int(self.n_components)
        statistic = mechanism.statistic(bounds, n_samples, rank, False, sparing=True)
        asked = self.scale == "private"
        share = share_of_scales(self._public_size(n_samples, n_features))
        return Ranked(statistic, asked, share if asked else 0.0)

    def _is_scaled(self) -> bool:
        """Return whether features are divided by private scales."""
        scaled = isinstance(self.scale, str) and self.scale == "private"
        if scaled and isinstance(self.mechanism, SpikedModel):
            raise ValueError(
                "mechanism=SpikedModel(...) requires rows in the units of the model: "
                'remove scale="private"'
            )
        return scaled

    def _check_shape(self, n_samples: int, n_features: int) -> None:
        """Refuse more components than there can be, and whitening by no variances."""
        rank, most = self.n_components, min(n_samples, n_features)
        if not isinstance(rank, str) and rank > most:
            raise ValueError(
                f"n_components={rank} must be at most min(n_samples, n_features)="
                f"{most} for n_samples={n_samples}, n_features={n_features}; ask for "
                "fewer components"
            )
        if self.whiten:
            self._check_whitening()

    def _why_no_variances(self) -> str | None:
        """Return why a fit has no variances of the data; None if it has them."""
        if isinstance(self.scale, str) and self.scale == "ranks":
            return 'scale="ranks" uses signs, which have no units; choose another scale'
        model = isinstance(self.mechanism, SpikedModel)
        if self.release == "covariance" or self.clip_norm is not None or model:
            return None
        return (
            "with clip_norm=None they are variances of unit rows; set "
            'release="covariance" or a clip_norm'
        )

    def _takes_sparse_rows(self) -> bool:
        """Return whether bounding rows leaves zeros where they are."""
        center = self.center
        is_private = isinstance(center, PrivateMean) or center == "private"
        own_mean = getattr(self.mechanism, "mean", "zero") == "unknown"
        return self.bounds is None and not is_private and not own_mean

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = self._takes_sparse_rows()
        return tags

    @unweighted
    def fit(self, X, y=None) -> Self:
        """Release the leading components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            {X_by_block}
            Reading blocks takes constant memory. Sparse rows stay sparse. By default
            they are compared in pairs, for the same total cost as in
            :meth:`privacy_plan`. They do not support `bounds` or a private center,
            which would make them dense.
        {y_ignored}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            # Halves of rows are cut from what is whole.
            blocks = not getattr(self.mechanism, "is_private", False)
            sparse = self._takes_sparse_rows()
            unread = deferred_rows(self, X, accept_sparse=sparse, in_blocks=blocks)
            n_samples, n_features = unread.shape
            statistic = self._statistic(n_samples, n_features, unread.sparse)
            plan = self._planned(statistic, in_fit=True)
            # It is charged here, and values are read from here on.
            release, rows = self._start_release(plan, unread, n_public=n_samples)
            found, law = statistic.run(release, rows), None
            if isinstance(found, ScaledComponents):
                found, law = found
            self._set_components(statistic.bounds, found)
            self._set_units(law)
            self.n_samples_ = n_samples
            seen = self._warn_of_noise(hidden=not statistic.bounds.ranks)
            remarks = (*plan.remarks, *seen, *filter(None, [found.remark]))
            self.privacy_ = replace(plan, remarks=remarks)
            if law is not None and law.seen.any() and not seen:
                self._warn_of_unseen("transform ignores them")
            if law is None and HALF in statistic.bounds.weights:
                self._warn_of_no_mean(found)
        return self

    def _set_components(self, bounds, found) -> None:
        """Set attributes from released components, in units of the data."""
        self.components_ = found.vectors
        self.explained_variance_ = found.values * found.unit**2
        self.explained_variance_ratio_ = found.values / found.total
        self.mean_ = bounds.to_data_units(found.mean)
        self.scale_ = None if bounds.scale is None else bounds.box.unit.copy()
        self.n_components_ = len(found.vectors)
        self.components_above_noise_ = found.above_noise
        for name in ("noise_variance_", "covariance_", "components_std_"):
            vars(self).pop(name, None)
        if found.deviations is not None:
            self.components_std_ = found.deviations
        if found.noise is not None:
            self.noise_variance_ = float(found.noise * found.unit**2)
        if found.covariance is not None:
            units = self._feature_units() * found.unit
            self.covariance_ = found.covariance * np.outer(units, units)

    def _set_units(self, law) -> None:
        """Bring attributes of scaled rows to units of the data."""
        vars(self).pop("unseen_features_", None)
        if law is not None:
            mean = law.center if law.mean is None else law.mean
            self.mean_ = mean + law.scale * np.where(law.seen, self.mean_, 0.0)
            self.scale_, self.unseen_features_ = law.scale, ~law.seen

    def _warn_of_noise(self, hidden: bool) -> tuple[str, ...]:
        """Warn where noise alone may have made released eigenvalues, and remark on it.

        `hidden` is whether features of unknown scale are in no component.
        """
        if self.components_above_noise_ >= self.n_components_:
            return ()
        unseen = np.sum(getattr(self, "unseen_features_", False))
        because = ""
        if unseen and hidden:
            because = f", which hides {unseen} of {self.n_features_in_} features"
        said = (
            f"Components above the noise of this fit: {self.components_above_noise_} "
            f"of {self.n_components_}{because}. The others may be noise alone. "
            f"{self._remedy_of_units()}Use more rows, a larger epsilon or fewer "
            "components"
        )
        return (self._warned_of_noise(said),)

    def _remedy_of_units(self) -> str:
        """Say what to do about features in different units, by parameters alone."""
        if self.scale is not None or isinstance(self.mechanism, SpikedModel):
            return ""
        if self.bounds is not None:
            return units_within(self.bounds)
        ranks = ', or scale="ranks" with few rows' * (self._why_no_ranks() is None)
        return f'If features have different units, set scale="private"{ranks}. '

    def _warn_of_no_mean(self, found) -> None:
        """Warn where a covariance, but no mean, was released."""
        if found.mean is None and found.noise is not None:
            warn(
                "no mean was released, because rows were compared in pairs: mean_ is "
                "the origin, or the midpoint of bounds, and mahalanobis, "
                "score_samples and inverse_transform measure from there; "
                'center="private" releases one',
                NoisyFitWarning,
            )
