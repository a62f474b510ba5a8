"""Standardization of features by private means and standard deviations."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.sklearn_compat import StrOptions
from .._statistics.feature_scales import FARTHEST, FeatureStatistic, scales_of_features
from .._tables.clipping import make_box
from .._tables.columns import is_sparse
from .._tables.table import check_rows, check_scores, deferred_rows, map_rows
from ..accounting import PrivacyAccountant, gaussian_mu
from ..mechanisms._plan import has_budget


@documented
class DPStandardScaler(OneToOneFeatureMixin, TransformerMixin, TableEstimator):
    r"""Standardize features by private means and standard deviations.

    You need to know neither bounds nor magnitudes of the features. Histograms of
    differences between rows estimate how far apart the values of a feature are. Phases
    on circles of increasing lengths locate the values. A mean and a mean square around
    that location are then released. The guarantee holds for any data. Read more in the
    :ref:`user guide <scales>`.

    Parameters
    ----------
    {epsilon}
    {delta}
    with_mean : bool, default=True
        Whether to subtract means. False preserves zeros, accepts sparse rows, and
        spends the whole budget on the differences.
    unseen : {"zero", "keep"}, default="zero"
        How :meth:`transform` treats unseen features, whose variance does not exceed the
        noise so that their scale is unknown. "zero" returns zeros, as
        :class:`~sklearn.preprocessing.StandardScaler` does for constant features.
        "keep" returns the values at any magnitude (with `bounds`, mapped to [-1, 1]).
    missing : {"raise", "mean"}, default="raise"
        How missing values (NaN) are treated. "raise" raises an error. "mean" ignores
        them in all releases, and :meth:`transform` replaces them with `mean_`, which is
        0 after scaling. "mean" requires ``with_mean=True``, and also releases the
        shares of present values at no further cost.
    {bounds}
        These bounds apply to each feature separately and need not be tight.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,) or None
        Private means. They are 0 for unseen features, or the midpoint with `bounds`.
        None with ``with_mean=False``.
    scale_ : ndarray of shape (n_features,)
        Private standard deviations. They are 1 for unseen features, or half of the
        extent with `bounds`.
    var_ : ndarray of shape (n_features,)
        Squared standard deviations. They are 0 for unseen features and infinite if they
        exceed the largest float.
    unseen_features_ : ndarray of bool of shape (n_features,)
        Mask of the features that are indistinguishable from noise: they are constant,
        or differ between too few rows. This mask is private too.
    present_shares_ : ndarray of shape (n_features,) or None
        Private shares of values that are not missing, in [0, 1]. None with
        ``missing="raise"``.
    {n_samples_}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    NoisyFitWarning
        If public numbers show that there are too few rows to see most features; or if
        features are unseen, with their number.

    See Also
    --------
    DPPCA : Needs no scales with ``scale="ranks"``.
    DPTableVectorizer : Encodes tables with numbers, categories, dates and missing
        values.
    JMECovariance : Running means and variances of a stream.
    sklearn.preprocessing.StandardScaler : Standardization without privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row, under replacement of that row
    (`n_samples` is public), for any data. All fitted attributes are covered. The result
    of :meth:`transform` for a row is as private as that row.

    The budget is split between histograms of differences, phases, and means with mean
    squares; on fewer than :math:`200 \sqrt p / \mu` rows of p features, between counts
    in windows and means. Shares and sensitivities are in :ref:`scales_work`. Most
    features are seen from about :math:`40 \sqrt p / \mu` rows on, and from
    :math:`25 \sqrt p / \mu` with ``with_mean=False``. Outliers that occur in few rows
    count less than in a plain standard deviation.

    Rows may be in any order, including sorted order. Each pair combines rows from
    distant parts of the table, in an order that depends only on its shape.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Lemma 3.5, for the free release of squares.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPStandardScaler
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([1e6, -3.0], [2e4, 0.01], size=(10_000, 2))
    >>> scaler = DPStandardScaler(epsilon=1.0).fit(X)
    >>> bool(np.all(np.abs(scaler.transform(X).std(axis=0) - 1.0) < 0.1))
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        "with_mean": ["boolean"],
        "unseen": [StrOptions({"zero", "keep"})],
        "missing": [StrOptions({"raise", "mean"})],
        "bounds": [tuple, list, np.ndarray, None],
    }

    def __init__(
        self,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        with_mean: bool = True,
        unseen: str = "zero",
        missing: str = "raise",
        bounds=None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.with_mean = with_mean
        self.unseen = unseen
        self.missing = missing
        self.bounds = bounds
        self.accountant = accountant
        self.noise_seed = noise_seed

    # -- plan ----------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._allows_nan() and not self.with_mean:
            raise ValueError(
                'missing="mean" fills in means, which with_mean=False does not '
                'estimate; set with_mean=True or missing="raise"'
            )

    def _allows_nan(self) -> bool:
        """Return whether missing values are left out and filled."""
        return self.missing == "mean"

    def _statistic(self, n_samples: int, n_features: int) -> FeatureStatistic:
        """Return the statistic of a fit of that shape, from public numbers alone."""
        box = None
        if self.bounds is not None:
            box = make_box(self.bounds, n_features, per_feature=True)
        given = gaussian_mu(*self._budget_of_fit()), box, self._allows_nan()
        return scales_of_features(n_samples, n_features, *given, self.with_mean)

    def _takes_sparse_rows(self) -> bool:
        """Return whether zeros stay zeros."""
        return not self.with_mean and self.bounds is None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse_rows()
        tags.input_tags.allow_nan = self._allows_nan()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # -- the estimator -------------------------------------------------------------

    @unweighted
    def fit(self, X, y=None, *, users=None) -> Self:
        """Release the location and scale of each feature of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            {X_by_block} Reading blocks takes constant memory. ``missing="mean"`` allows
            NaN. Sparse rows require ``with_mean=False`` and no `bounds`.
        {y_ignored}
        {users_of_rows}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            accepted = self._takes_sparse_rows()
            needed = "with_mean=False" if self.with_mean else "bounds=None"
            _refuse_sparse(X, "" if accepted else needed)
            how = {"in_blocks": True, "allow_nan": self._allows_nan()}
            unread = deferred_rows(self, X, accept_sparse=accepted, **how)
            unread = self._by_user(unread, users)
            scales = self._statistic(*unread.shape)
            plan = self._planned(scales, in_fit=True)
            # It is charged here, and values are read from here on.
            release, X = self._start_release(plan, unread, n_public=scales.n_samples)
            self._set_law(scales.run(release, X))
            self.n_samples_ = scales.n_samples
            self.privacy_ = plan
            zero = self.unseen == "zero"
            become = "returns 0 for them" if zero else "does not scale them"
            self._warn_of_unseen(f"transform {become}")
        return self

    def _set_law(self, law) -> None:
        """Set the fitted attributes from the released values."""
        self.mean_, self.scale_ = law.mean, law.scale
        self.unseen_features_, self.present_shares_ = ~law.seen, law.present
        with np.errstate(all="ignore"):
            self.var_ = np.where(law.seen, np.square(law.scale), 0.0)

    def _weights(self) -> np.ndarray:
        """Return the factors of deviations from the mean; 0 for unseen features."""
        lost = self.unseen_features_ & (self.unseen == "zero")
        return np.where(lost, 0.0, 1.0 / self.scale_)

    def transform(self, X):
        """Center and scale rows by the released values.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows. With means and scales, values are clipped at 30 standard deviations
            from the mean, except for ``epsilon=None``: noise may make a scale far too
            small. Sparse rows stay sparse and require a scaler
            fitted with ``with_mean=False``.

        Returns
        -------
        ndarray or sparse CSR matrix of shape (n_samples, n_features)
            Standardized rows in the precision of X. They stay finite even on overflow.
        """
        check_is_fitted(self)
        _refuse_sparse(X, "" if self.mean_ is None else "with_mean=False")
        how = {"in_blocks": True, "allow_nan": self._allows_nan()}
        X = check_rows(self, X, reset=False, accept_sparse=True, **how)
        weights, mean = self._weights(), self.mean_
        reach = np.full(self.n_features_in_, math.inf)
        if mean is not None and has_budget(self.privacy_):
            reach[~self.unseen_features_] = FARTHEST
        precision = np.float32 if X.dtype == np.float32 else np.float64
        if sparse.issparse(X):
            return _scaled_columns(X, weights, precision)

        def standardize(block):
            return standardized(block, mean, weights, reach, precision)

        with np.errstate(all="ignore"):
            return map_rows(standardize, X)

    def inverse_transform(self, X):
        """Map standardized rows back to the units of the data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows as returned by :meth:`transform`.

        Returns
        -------
        ndarray or sparse CSR matrix of shape (n_samples, n_features)
            Rows in the units of the data. Features set to zero become their `mean_`,
            and values that were clipped stay clipped.
        """
        check_is_fitted(self)
        _refuse_sparse(X, "" if self.mean_ is None else "with_mean=False")
        X = check_scores(X, self.n_features_in_, accept_sparse=True)
        weights = self._weights()
        units = np.divide(1.0, weights, out=np.zeros_like(weights), where=weights > 0)
        if sparse.issparse(X):
            return _scaled_columns(X, units, X.dtype)
        rows = X * units if self.mean_ is None else X * units + self.mean_
        return rows.astype(X.dtype, copy=False)


def _refuse_sparse(X, needed: str) -> None:
    """Refuse sparse rows whose zeros would be filled, unless nothing is needed."""
    if needed and is_sparse(X):
        raise ValueError(
            "Sparse data was passed for X, whose zeros would be filled: set "
            f"{needed} for the fit or pass X.toarray()"
        )


def standardized(block, mean, weights, reach, precision=np.float64) -> np.ndarray:
    """Return clipped weighted deviations from means, if any; 0 for missing values."""
    block = np.asarray(block, dtype=np.float64)
    block = block * weights if mean is None else (block - mean) * weights
    np.clip(block, -reach, reach, out=block)
    return np.nan_to_num(block.astype(precision, copy=False), copy=False)


def _scaled_columns(X, factors: np.ndarray, precision):
    """Multiply the columns of a CSR matrix, and drop what becomes zero."""
    X = X.astype(precision, copy=True)
    with np.errstate(all="ignore"):
        X.data *= factors[X.indices].astype(precision)
    np.nan_to_num(X.data, copy=False)
    X.eliminate_zeros()
    return X
