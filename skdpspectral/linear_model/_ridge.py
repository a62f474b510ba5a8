"""Linear regression and classification from one private moment of rows and targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.labels import PrivateClassifier, n_outputs_of
from .._base.sklearn_compat import Interval, StrOptions
from .._linalg.walks import blas_threads
from .._statistics.feature_scales import refuse_too_few
from .._tables.clipping import Box, make_box
from .._tables.columns import as_numbers
from .._tables.table import (
    DeferredRead,
    check_rows,
    deferred_rows,
    deferred_targets,
    map_rows,
)
from ..accounting import NoisyFitWarning, PrivacyAccountant, gaussian_mu
from ..accounting._errors import warn
from ..mechanisms import check_count
from . import _kernels_ridge as kernels
from ._joint_moment import JointRows, RegressionMoments

# Deviations at which values that a step before has standardized are cut: with 30, R2
# behind a vectorizer falls from .78 to .73 and from .57 to .44 on two of nine tables.
_FAR = 5.0

# Squared length that a coefficient may have in directions which noise hides.
_MOST_HIDDEN = 0.02

# Attributes without an axis of targets if y has one dimension, and of intervals.
_OF_TARGETS = ("coef_", "intercept_", "alpha_", "coef_std_", "linearity_pvalue_")
_OF_INTERVALS = (
    *("coef_std_", "weighted_coef_", "coef_cov_", "linearity_pvalue_", "kept_"),
    *("hidden_directions_", "row_radius_"),
)


@documented
@dataclass(eq=False, repr=False)
class MomentModel(TableEstimator):
    """Base of linear models of one released moment of features and targets."""

    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds",)

    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "basis": [StrOptions({"linear", "additive", "pairs", "auto"})],
        "bounds": [tuple, list, np.ndarray, None],
    }

    # Whether all targets are shrunk by the same amount.
    _shrinks_alike: ClassVar[bool] = False

    alpha: str | float = "auto"
    _: KW_ONLY
    epsilon: float | None = 1.0
    delta: float = 1e-6
    basis: str = "linear"
    bounds: Any = None
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None

    # Returns the public box of targets and their public units, each or None.
    _given_of_targets: ClassVar[Callable[[Any, int], tuple]]
    # Checks the form of targets; ``read()`` returns numbers.
    _deferred_targets: ClassVar[Callable[..., DeferredRead]]

    def _plan_of_shape(self, n_samples, n_features, n_targets):
        """Return the plan of a fit of that shape."""
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        n_features = check_count("n_features", n_features)
        return self._planned(self._statistic(n_samples, n_features, n_targets))

    def _statistic(self, n_samples: int, n_features: int, n_targets: int = 1):
        """Return the statistic of a fit of that shape, from public numbers."""
        refuse_too_few(n_samples)
        intervals = getattr(self, "intervals", False)
        if intervals and self.basis != "linear":
            raise ValueError('intervals=True requires basis="linear"')
        box = square = blocks = None
        units = self._input_units()
        if self.bounds is not None:
            box = make_box(self.bounds, n_features, per_feature=True)
        elif units is not None and self._is_private():
            low, high = np.clip(units.limits, -_FAR, _FAR)
            box, square = Box(low, high, n_features, per_feature=True), units.square
            blocks = units.blocks
        target_box, target_units = self._given_of_targets(n_targets)
        return RegressionMoments(
            *(n_samples, n_features, n_targets, gaussian_mu(*self._budget_of_fit())),
            boxes=(box, target_box),
            target_units=target_units,
            square=square,
            intervals=intervals,
            blocks=blocks,
            basis=self.basis,
        )

    def _unread(self, X, y) -> DeferredRead:
        """Check the form of rows and targets; the shape is that of the targets."""
        unread = deferred_rows(self, X, in_blocks=True)
        targets = self._deferred_targets(y, unread.shape[0])

        def read():
            rows, values = unread.read(), targets.read().reshape(unread.shape[0], -1)
            on_cluster = hasattr(rows, "cut")
            return JointRows(rows, rows.cut(values) if on_cluster else values)

        return DeferredRead(targets.shape, read)

    @unweighted
    def fit(self, X, y, *, users=None) -> Self:
        """Release the moments of rows and targets, and compute the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            {X_by_block}
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets in memory, or one column of a dask collection if X is one. A
            classifier takes labels in memory, all of which must be in `classes`.
        {users_of_rows}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = self._by_user(self._unread(X, y), users)
            n_samples, n_targets = (*unread.shape, 1)[:2]
            statistic = self._statistic(n_samples, self.n_features_in_, n_targets)
            plan = self._planned(statistic, in_fit=True)
            # It is charged here, and values are read from here on.
            release, rows = self._start_release(plan, unread, n_public=n_samples)
            self.blocks_, self.basis_ = statistic.blocks, statistic.basis.name
            self.expanded_features_, *orders = statistic.basis
            self.basis_orders_ = np.array(orders)
            self.n_samples_, self.privacy_ = n_samples, plan
            self._set_released(statistic.run(release, rows))
            self._set_coefficients()
            for name in _OF_TARGETS if len(unread.shape) == 1 else ():
                if hasattr(self, name):
                    (value,) = getattr(self, name)
                    setattr(self, name, value if np.ndim(value) else float(value))
            hidden = int(self.unseen_targets_.sum())
            if hidden and not self._shrinks_alike:
                warn(
                    f"{hidden} of {n_targets} targets cannot be distinguished from a "
                    "constant at this budget, and their coefficients are 0: use more "
                    "rows or a larger epsilon, or pass bounds and target_bounds",
                    NoisyFitWarning,
                )
            if statistic.location is None:  # or the plan has said it
                self._warn_of_unseen("their coefficients are 0")
        return self

    def _set_released(self, found) -> None:
        """Set attributes from what was released."""
        units, split = found.units, [self.n_features_in_]
        self.mean_, self.target_mean_ = np.split(units.center, split)
        self.scale_, self.target_scale_ = np.split(units.scale, split)
        self.unseen_features_, self.unseen_targets_ = np.split(~units.seen, split)
        self.limits_ = np.array([side[: split[0]] for side in found.limits])
        self.moment_ = found.matrix
        self.moment_noise_std_ = float(found.spread)
        self.cross_noise_std_ = float(found.cross_spread)

    def _moment(self) -> kernels.Moment:
        """Return the released moment, of the regressors and the targets in use."""
        return kernels.moment_of(
            self.moment_,
            int(np.sum(self._seen_columns())),
            self.moment_noise_std_,
            self.cross_noise_std_,
            self.n_samples_,
        )

    def _basis(self) -> kernels.Basis:
        """Return the basis of the fit."""
        return kernels.Basis(self.expanded_features_, *map(int, self.basis_orders_))

    def _seen_columns(self) -> np.ndarray:
        """Return a mask of the columns, of features or of the basis, that are seen."""
        return ~self.unseen_features_[self._basis().sources()].any(axis=1)

    def _kinds(self) -> np.ndarray:
        """Return the kinds of regressors, which have a prior variance each."""
        kinds = self._basis().kinds(self.blocks_)[self._seen_columns()]
        return np.append(kinds, kernels.CONSTANT)

    def _set_coefficients(self) -> None:
        """Compute the coefficients, with one row or entry per target."""
        moment, seen = self._moment(), ~self.unseen_targets_
        self.alpha_ = np.full(len(seen), np.inf)
        with blas_threads(len(moment.regressors)):
            if isinstance(self.alpha, str):
                alike = self._shrinks_alike
                found, floors = kernels.chosen(moment, self._kinds(), alike)
                self.alpha_[seen] = self.n_samples_ * floors
            else:
                found = kernels.penalized(moment, float(self.alpha))
                self.alpha_[:] = self.alpha
            self.coef_, self.intercept_ = self._in_units(found)
        if self._shrinks_alike:
            self.alpha_ = float(self.alpha_[0])

    def _in_units(self, found) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercepts of seen targets, in units of the data."""
        kept, seen = self._seen_columns(), ~self.unseen_targets_
        width, scale = int(kept.sum()), self.target_scale_[seen]
        linear = not self._basis().waves
        units, center = (self.scale_, self.mean_) if linear else np.ones((2, len(kept)))
        coef = np.zeros((len(seen), len(kept)))
        coef[np.ix_(seen, kept)] = found[:width].T * scale[:, None] / units[kept]
        intercept = self.target_mean_ - coef @ (center * linear)
        intercept[seen] += found[-1] * scale
        return coef, intercept

    def _linear(self, X) -> np.ndarray:
        """Return rows times coefficients plus intercepts, after clipping at limits."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, in_blocks=True)
        coef, intercept = np.transpose(self.coef_), self.intercept_
        basis = self._basis()

        def predicted(rows):
            rows = np.clip(rows, *self.limits_, dtype=np.float64)
            if basis.waves:
                rows = basis.expand((rows - self.mean_) / self.scale_)
            return rows @ coef + intercept

        with np.errstate(all="ignore"):
            return map_rows(predicted, X)

    def effects(self, X) -> np.ndarray:
        """Return what each feature adds to the predictions, without products of pairs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_outputs, n_features)
            Differences from the prediction with the feature at its released mean.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, in_blocks=True)
        with np.errstate(all="ignore"):
            found = map_rows(self._effects_of, X)
        return found[:, 0] if found.shape[1] == 1 else found

    def _effects_of(self, rows) -> np.ndarray:
        """Return effects of features (n, k, p) for rows that are not checked."""
        coefs, basis = np.atleast_2d(self.coef_), self._basis()
        rows = np.clip(rows, *self.limits_, dtype=np.float64) - self.mean_
        if not basis.waves:
            return rows[:, None] * coefs
        rows = basis.expand(rows / self.scale_) - basis.expand(0.0 * rows[:1])
        found = np.zeros((len(rows), len(coefs), self.n_features_in_))
        of = basis.sources()
        for j in range(self.n_features_in_):
            own = (of == j).all(axis=1)
            found[:, :, j] = rows[:, own] @ coefs[:, own].T
        return found


@documented
@dataclass(eq=False, repr=False)
class DPRidge(MultiOutputMixin, RegressorMixin, MomentModel):
    r"""Ridge regression with differential privacy, from a single release.

    The joint second moment of standardized features, targets and a constant is released
    once. Coefficients for every penalty and the choice of a penalty are computed from
    this release at no further cost. With `intervals`, a second small release gives
    confidence intervals. You need to know neither bounds nor magnitudes of the data.
    Read more in the :ref:`user guide <ridge>`.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        Penalty on the squared coefficients of the standardized features, non-negative,
        as in :class:`~sklearn.linear_model.Ridge` after a
        :class:`~sklearn.preprocessing.StandardScaler`. "auto" uses the mean of two
        estimates. The first raises small eigenvalues of the released moment to a floor
        and shrinks the coefficients by a factor; the floor is chosen by an error
        estimate that is computed from the release. The second is a posterior mean under
        normal priors. Coefficients are 0 if no other choice promises to be better.
    {epsilon}
    {delta}
    {basis_of_ridge}
    {bounds}
        Bounds help if there are too few rows for private scales (:ref:`ridge`).
    {accountant}
    {noise_seed}
    target_bounds : tuple (low, high) or None, default=None
        Public bounds of the targets, numbers or arrays of shape (n_targets,).
    intervals : bool, default=False
        Whether to release what :meth:`conf_int` needs. This takes 35 % of the moment's
        part of the budget, and rows are weighted by their features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients in the units of the data, 0 for unseen features.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercepts.
    coef_std_ : ndarray of the shape of `coef_`
        Standard errors of the unpenalized coefficients, including noise and sampling
        error; NaN where the noise hides them. Only with ``intervals=True``, like the
        following attributes.
    weighted_coef_ : ndarray of shape (n_targets, n_features + 1)
        Unpenalized coefficients, with the intercept last, 0 for unseen features.
    coef_cov_ : ndarray of shape (n_targets, n_features + 1, n_features + 1)
        Covariances of the errors of `weighted_coef_`. The standard error of a fitted
        mean at x is the root of the quadratic form of (x, 1).
    kept_ : ndarray of shape (n_features,)
        Shares of the mean squares of standardized features that rows keep when they are
        weighted.
    linearity_pvalue_ : float or ndarray of shape (n_targets,)
        P-values of a test that the mean of the target is linear in the features. The
        test has little power with few rows.
    hidden_directions_ : ndarray of shape (n_features, n_hidden)
        Combinations of standardized features whose variance may be noise.
    row_radius_ : float
        Length of standardized features with a constant beyond which rows have a weight
        below 1: this radius over their length.
    alpha_ : float or ndarray of shape (n_targets,)
        Penalty. With ``alpha="auto"``, the floor of the eigenvalues of the summed
        products of the standardized features; infinite if the coefficients are 0.
    {moment_attributes}
    unseen_targets_ : ndarray of bool of shape (n_targets,)
        Mask of the targets that are lost in the noise. Their coefficients are 0.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    NoisyFitWarning
        If public numbers show that no feature can be seen at this budget, or if the
        release shows that features or targets are not seen.

    See Also
    --------
    DPAdamRegressor : Networks and linear models trained with private gradients.
    sklearn.linear_model.Ridge : Ridge regression without privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row with its targets, under replacement of
    that row (`n_samples` is public), for any data. All fitted attributes, :meth:`path`
    and :meth:`conf_int` are covered.

    Means and scales are those of :class:`~skdpspectral.DPStandardScaler`. They take 25
    to 55 % of the budget's :math:`\mu^2` for the features, and 6 % for the targets, or
    up to 40 % if features need none: with `bounds`, or directly behind a
    :class:`~skdpspectral.DPTableVectorizer`. Each joint row of standardized features,
    targets and a constant is clipped to norm c. The second moment of these rows has
    Frobenius sensitivity :math:`\sqrt2 c^2 / n` (:ref:`lemma-joint-rows`). If no target
    exceeds the noise, the locations of the targets are released instead: means within
    `target_bounds`, or medians.

    With `intervals`, rows of this moment are weighted by their features, and it takes
    65 % of its part of the budget (:ref:`lemma-weighted-rows`). Moments of clipped
    residuals follow (:ref:`lemma-residual-moments`): 27 % for those of all rows, 8 %
    for those of rows far from the center, which test linearity.

    **Few rows.** If `n_samples`, the number of features and the budget show that
    coefficients cannot be estimated, the whole budget is spent on these locations. The
    model is then a constant, and a warning is issued. The error of the constant is
    about the extent of `target_bounds` divided by :math:`\mu n`. Without
    `target_bounds`, a single target needs about :math:`34 / \mu` rows (150 at epsilon
    1, 280 at 0.5, 540 at 0.25). With fewer, the prediction is 0.

    References
    ----------
    Wang (2018), Revisiting differentially private linear regression, for regularization
    based on the noise of the released sufficient statistics.
    Stein (1981), Estimation of the mean of a multivariate normal distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([1e6, -3.0], [2e4, 0.01], size=(20_000, 2))
    >>> y = X @ [1e-3, 4e3] + rng.normal(size=20_000)
    >>> model = DPRidge(epsilon=1.0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds", "target_bounds")

    _parameter_constraints: ClassVar[dict] = {
        **MomentModel._parameter_constraints,
        "target_bounds": [tuple, list, np.ndarray, None],
        "intervals": ["boolean"],
    }

    _: KW_ONLY
    target_bounds: Any = None
    intervals: bool = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # few rows are hidden by the noise
        return tags

    def privacy_plan(self, n_samples, n_features, n_targets=1):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        {shape_of_rows}
        n_targets : int, default=1
            Number of targets.

        {returns_plan}
        """
        n_targets = check_count("n_targets", n_targets)
        return self._plan_of_shape(n_samples, n_features, n_targets)

    def _given_of_targets(self, n_targets: int) -> tuple:
        if self.target_bounds is None:
            return None, None
        try:
            return make_box(self.target_bounds, n_targets, per_feature=True), None
        except ValueError as error:
            message = str(error).replace("feature", "target")
            raise ValueError(f"target_{message}") from None

    def _deferred_targets(self, y, n_rows: int) -> DeferredRead:
        return deferred_targets(self, y, n_rows, several=True)

    # -- intervals -------------------------------------------------------------------

    def _set_released(self, found) -> None:
        super()._set_released(found)
        for name in _OF_INTERVALS:
            self.__dict__.pop(name, None)
        if not self.intervals:
            return
        weighted, p, seen = found.weighted, self.n_features_in_, ~self.unseen_targets_
        self.weighted_coef_ = np.zeros((len(seen), p + 1))
        self.coef_cov_ = np.zeros((len(seen), p + 1, p + 1))
        self.linearity_pvalue_ = np.full(len(seen), np.nan)
        self.kept_, self.row_radius_ = np.full(p, np.nan), math.inf
        self.hidden_directions_ = np.eye(p)
        if weighted is not None:
            inputs = np.flatnonzero(~self.unseen_features_)
            self.hidden_directions_ = np.zeros((p, weighted.hidden.shape[1]))
            self.hidden_directions_[inputs] = weighted.hidden[:-1]
            self.kept_[inputs] = weighted.kept[:-1]
            self.row_radius_ = float(weighted.radius)
            self.linearity_pvalue_[seen] = weighted.p_values
            # From standardized columns to those of the data.
            scale, at = self.scale_[inputs], np.append(inputs, p)
            turn = np.diag(np.append(1.0 / scale, 1.0))
            turn[-1, :-1] = -self.mean_[inputs] / scale
            units = self.target_scale_[seen][:, None]
            estimates = weighted.estimates @ turn.T * units
            estimates[:, -1] += self.target_mean_[seen]
            self.weighted_coef_[np.ix_(seen, at)] = estimates
            covariances = turn @ weighted.covariances @ turn.T * units[:, :, None] ** 2
            self.coef_cov_[np.ix_(seen, at, at)] = covariances
        self.coef_std_ = self._contrasts()[1]

    def _contrasts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (k, p) and standard errors; NaN if hidden by noise.

        Those of one-hot columns are about the mean over their levels.
        """
        stop, seen = self.n_features_in_, ~self.unseen_features_
        rows, shares, fixed = np.eye(stop), np.zeros(stop), np.zeros(stop)
        shares[seen] = np.maximum(self.moment_[-1, : int(seen.sum())], 1e-9)
        hidden = np.sum(self.hidden_directions_**2, axis=1)
        for block in np.unique(self.blocks_[(self.blocks_ >= 0) & seen]):
            columns = np.flatnonzero(self.blocks_ == block)
            own = np.where(hidden[columns] < 1.0 - 1e-9, shares[columns], 0.0)
            base = own * (hidden[columns] <= _MOST_HIDDEN)
            at = np.ix_(columns, columns)
            rows[at] -= base / max(base.sum(), 1e-300)
            # No estimate moves along the shares.
            fixed[columns] = (rows[at] @ own) ** 2 / (own @ own)
        lengths = np.sum(rows**2, axis=1) - fixed
        hidden = np.sum((rows @ self.hidden_directions_) ** 2, axis=1)
        # Without a contrast, it is the only level that is not hidden.
        unknown = ~rows.any(axis=1) | ~seen
        unknown |= hidden > _MOST_HIDDEN * lengths
        found = self.weighted_coef_[:, :stop] @ rows.T
        squares = np.sum(rows @ self.coef_cov_[:, :stop, :stop] * rows, axis=-1)
        errors = np.sqrt(np.maximum(squares, 0.0))
        errors[:, unknown], errors[self.unseen_targets_] = np.nan, np.nan
        return np.where(np.isnan(errors), np.nan, found), errors

    # -- what the release tells besides ----------------------------------------------

    def path(self, alphas):
        """Return the coefficients for several penalties, from the same release.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Non-negative penalties, as `alpha`.

        Returns
        -------
        coefs : ndarray of shape (n_alphas, n_features)
            Coefficients in the units of the data. The shape is (n_alphas, n_targets,
            n_features) for several targets.
        intercepts : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
            Intercepts.

        Raises
        ------
        ValueError
            If a penalty is negative or not finite.
        """
        check_is_fitted(self)
        checked = as_numbers(alphas, "biufO")
        if checked is None or checked.ndim != 1 or not checked.size:
            raise ValueError("alphas must be a one-dimensional list of penalties")
        if not (np.isfinite(checked) & (checked >= 0.0)).all():
            raise ValueError("alphas must be finite, and at least 0")
        moment = self._moment()
        found = [self._in_units(kernels.penalized(moment, each)) for each in checked]
        coefs, intercepts = map(np.array, zip(*found, strict=True))
        if np.ndim(self.intercept_) == 0:
            return coefs[:, 0], intercepts[:, 0]
        return coefs, intercepts

    def conf_int(self, level=0.95):
        """Return confidence intervals of the coefficients; needs ``intervals=True``.

        The intervals are for unpenalized least squares with weights of rows
        (`row_radius_`). These are the coefficients of the population if the mean of the
        target is linear in the features, which `kept_` below 0.95 and
        `linearity_pvalue_` below 0.05 speak against. The intervals account for the
        noise of all releases and for the sampling of rows. Variances of errors may
        differ.
        Residuals are cut at four to eight of their deviations: errors far beyond that
        shift coefficients if they are skewed and their scale depends on a feature.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval contains its coefficient, in (0, 1).

        Returns
        -------
        ndarray of shape (n_features, 2) or (n_targets, n_features, 2)
            Lower and upper ends. NaN for features and levels that the noise hides.
            Coefficients of one-hot columns behind a :class:`DPTableVectorizer` are
            differences from the mean over those levels of the category that noise does
            not hide.

        Raises
        ------
        ValueError
            If `level` is invalid, the fit had no ``intervals=True``, or noise hides all
            coefficients.
        """
        if not (isinstance(level, Real) and 0.0 < level < 1.0):
            raise ValueError(f"level must be a number in (0, 1), got {level!r}")
        check_is_fitted(self)
        if not hasattr(self, "coef_cov_"):
            raise ValueError(
                "conf_int needs a second release: fit with intervals=True, which takes "
                "a part of the same budget"
            )
        center, errors = self._contrasts()
        if np.isnan(errors).all():
            raise ValueError(
                "conf_int: no coefficient has variance above the noise, so intervals "
                "would be unreliable. Remove features that are sums of others, or use "
                "more rows, a larger epsilon or fewer features"
            )
        reach = float(ndtri(0.5 + 0.5 * level)) * errors
        found = np.stack([center - reach, center + reach], axis=-1)
        return found.reshape(*self.coef_.shape, 2)

    # -- what is made of rows ----------------------------------------------------------

    def predict(self, X):
        """Predict targets, with features clipped at `limits_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions in the units of the targets.
        """
        return self._linear(X)


@documented
@dataclass(eq=False, repr=False)
class DPRidgeClassifier(PrivateClassifier, MomentModel):
    r"""Ridge classification with differential privacy, from a single release.

    As in :class:`~sklearn.linear_model.RidgeClassifier`, least squares is fitted to an
    indicator of each class, and the class with the largest prediction wins. All
    regressions use one release, as in :class:`DPRidge`. There are no probabilities,
    because least-squares predictions are shrunk and may be negative. Read more in the
    :ref:`user guide <ridge_classifier>`.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        Penalty on the squared coefficients of the standardized features, non-negative.
        "auto" chooses one penalty for all classes, as :class:`DPRidge` does.
    {epsilon}
    {delta}
    {basis_of_ridge}
    {bounds}
        Bounds help if there are too few rows for private scales (:ref:`ridge`).
    {accountant}
    {noise_seed}
    {classes}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients in the units of the data. There is a single row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    alpha_ : float
        Penalty. With ``alpha="auto"``, the floor of the eigenvalues, as in
        :class:`DPRidge`; infinite if the coefficients are 0.
    {moment_attributes}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    DPAdamClassifier : Logistic regression and networks, with probabilities.
    DPRidge : Regression of numeric targets, with confidence intervals.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row with its label, under replacement of
    that row (`n_samples` is public), for any data; `classes` must be public. Indicators
    are -1 and 1 for two classes, and 0 and 1 otherwise, so they need no private scale.
    The releases are the same as in :class:`DPRidge` with one target per class
    (:ref:`lemma-joint-rows`). If `bounds` replace private scales, a mean of the
    features is released first, for 8 % of the budget's :math:`\mu^2`. If public numbers
    show that coefficients cannot be estimated, the shares of the classes are released,
    and every row is assigned the most frequent class.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPRidgeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([1e6, -3.0], [2e4, 0.01], size=(20_000, 2))
    >>> y = X[:, 0] / 2e4 + X[:, 1] / 0.01 > -250.0
    >>> model = DPRidgeClassifier(epsilon=1.0, classes=[False, True]).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _shrinks_alike = True
    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds", "classes")

    _parameter_constraints: ClassVar[dict] = {
        **MomentModel._parameter_constraints,
        **PrivateClassifier._class_constraints,
    }

    _: KW_ONLY
    classes: Any = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # few rows are hidden by the noise
        return tags

    def privacy_plan(self, n_samples, n_features, n_classes=None):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        {shape_of_rows}
        n_classes : int or None, default=None
            Number of classes. None uses the number of `classes`, or 2.

        {returns_plan}
        """
        return self._plan_of_shape(n_samples, n_features, self._n_outputs(n_classes))

    def _given_of_targets(self, n_targets: int) -> tuple:
        if n_targets == 1:
            return make_box((-1.0, 1.0), 1, per_feature=True), (0.0, 1.0)
        center = 1.0 / n_targets
        scale = math.sqrt(center * (1.0 - center))
        return make_box((0.0, 1.0), n_targets, per_feature=True), (center, scale)

    def _deferred_targets(self, y, n_rows: int) -> DeferredRead:
        """Check the form of labels; ``read()`` returns indicators of their classes."""
        labels = self._deferred_labels(y, n_rows)
        n_outputs = n_outputs_of(len(self.classes_))

        def read():
            found = self._one_hot(labels.read())
            return 2.0 * found - 1.0 if n_outputs == 1 else found

        return replace(labels, shape=(n_rows, n_outputs), read=read)

    _outputs = MomentModel._linear
