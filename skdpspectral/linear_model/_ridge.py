"""Linear regression and classification from one private moment of rows and targets."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import ClassVar

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
from .._tables.table import check_rows, map_rows
from ..accounting import NoisyFitWarning, PrivacyAccountant, gaussian_mu
from ..accounting._errors import warn
from ..mechanisms import check_count
from . import _kernels_ridge as _kernels
from ._joint_moment import RegressionMoments, deferred_joint_rows

# Deviations at which values that a step before has standardized are cut: with 30, R2
# behind a vectorizer falls from .78 to .73 and from .57 to .44 on two of nine tables.
_FAR = 5.0


class MomentModel(TableEstimator):
    """Base of linear models of one released moment of features and targets."""

    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds",)

    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "bounds": [tuple, list, np.ndarray, None],
    }

    # Whether all targets are shrunk by the same amount.
    _shrinks_alike: ClassVar[bool] = False

    def _plan_of_shape(self, n_samples, n_features, n_targets):
        """Return the plan of a fit of that shape."""
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        n_features = check_count("n_features", n_features)
        return self._planned(self._statistic(n_samples, n_features, n_targets))

    def _statistic(self, n_samples: int, n_features: int, n_targets: int = 1):
        """Return the statistic of a fit of that shape, from public numbers."""
        refuse_too_few(n_samples)
        self._alphas(self.alpha, n_targets)
        box = square = None
        units = self._input_units()
        if self.bounds is not None:
            box = make_box(self.bounds, n_features, per_feature=True)
        elif units is not None and self._is_private():
            low, high = np.clip(units.limits, -_FAR, _FAR)
            box, square = Box(low, high, n_features, per_feature=True), units.square
        target_box, target_units = self._given_of_targets(n_targets)
        return RegressionMoments(
            *(n_samples, n_features, n_targets, gaussian_mu(*self._budget_of_fit())),
            boxes=(box, target_box),
            intercept=bool(self.fit_intercept),
            target_units=target_units,
            square=square,
        )

    def _given_of_targets(self, n_targets: int) -> tuple:
        """Return the public box of targets and their public units, each or None."""
        raise NotImplementedError

    def _alphas(self, alpha, n_targets: int) -> np.ndarray | None:
        """Return one penalty per target; None for "auto"."""
        if isinstance(alpha, str):
            return None
        alphas = _numbers("alpha", alpha)
        if alphas.shape not in ((), (n_targets,)):
            raise ValueError(
                f"alpha has shape {alphas.shape}: pass one penalty, or one for each of "
                f"{n_targets} targets; path(alphas) tries several"
            )
        return np.broadcast_to(alphas, n_targets)

    def _fit(self, X, y, targets_of=None):
        """Release the moment and solve; ``targets_of(y, n_rows)`` reads labels."""
        with self._unchanged_on_error():
            self._check_parameters()
            unread = deferred_joint_rows(self, X, y, targets_of)
            n_samples, n_targets = (*unread.shape, 1)[:2]
            statistic = self._statistic(n_samples, self.n_features_in_, n_targets)
            plan = self._planned(statistic, in_fit=True)
            # It is charged here, and values are read from here on.
            release, rows = self._start_release(plan, unread, n_public=n_samples)
            self._set_released(statistic.run(release, rows))
            self.n_samples_, self.privacy_ = n_samples, plan
            self._set_coefficients()
            self._complete(several=len(unread.shape) > 1)
            if statistic.location is None:  # or the plan has said it
                self._warn_of_unseen("their coefficients are 0")
        return self

    def _complete(self, several: bool) -> None:
        """Set further attributes; `several` is whether y has two dimensions."""
        raise NotImplementedError

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

    def _moment(self) -> _kernels.Moment:
        """Return the released moment, of the regressors and the targets in use."""
        return _kernels.moment_of(
            self.moment_,
            int(np.sum(~self.unseen_features_)),
            self._has_constant(),
            self.moment_noise_std_,
            self.cross_noise_std_,
            self.n_samples_,
        )

    def _has_constant(self) -> bool:
        """Whether the fit had an intercept, whatever the parameter is now."""
        columns = np.sum(~self.unseen_features_) + np.sum(~self.unseen_targets_)
        return len(self.moment_) > columns

    def _set_coefficients(self) -> None:
        """Compute the coefficients, with one row or entry per target."""
        moment, constant = self._moment(), self._has_constant()
        alphas = self._alphas(self.alpha, len(self.target_mean_))
        seen = ~self.unseen_targets_
        with blas_threads(len(moment.regressors)):
            if alphas is None:
                found, floors = _kernels.chosen(moment, constant, self._shrinks_alike)
                alphas = np.full(len(seen), np.inf)
                alphas[seen] = self.n_samples_ * floors
            else:
                found = _kernels.penalized(moment, alphas[seen], constant)
            self.coef_, self.intercept_ = self._in_units(found)
        self.alpha_ = alphas.copy()

    def _in_units(self, found) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercepts of seen targets, in units of the data."""
        kept, seen = ~self.unseen_features_, ~self.unseen_targets_
        width, scale = int(kept.sum()), self.target_scale_[seen]
        coef = np.zeros((len(seen), len(kept)))
        coef[np.ix_(seen, kept)] = found[:width].T * scale[:, None] / self.scale_[kept]
        if not self._has_constant():
            return coef, np.zeros(len(seen))
        intercept = self.target_mean_ - coef @ self.mean_
        intercept[seen] += found[-1] * scale
        return coef, intercept

    def _linear(self, X) -> np.ndarray:
        """Return rows times coefficients plus intercepts, after clipping at limits."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, in_blocks=True)
        coef, intercept = np.transpose(self.coef_), self.intercept_

        def predicted(rows):
            return np.clip(rows, *self.limits_, dtype=np.float64) @ coef + intercept

        with np.errstate(all="ignore"):
            return map_rows(predicted, X)


@documented
class DPRidge(MultiOutputMixin, RegressorMixin, MomentModel):
    r"""Ridge regression with differential privacy, from a single release.

    The joint second moment of standardized features, targets and a constant is released
    once. Coefficients for every penalty, the choice of a penalty and confidence
    intervals are computed from this release at no further cost. You need to know
    neither bounds nor magnitudes of the data. Read more in the
    :ref:`user guide <ridge>`.

    Parameters
    ----------
    alpha : "auto", float or array-like of shape (n_targets,), default="auto"
        Penalty on the squared coefficients of the standardized features, non-negative,
        as in :class:`~sklearn.linear_model.Ridge` after a
        :class:`~sklearn.preprocessing.StandardScaler`. "auto" uses the mean of two
        estimates. The first raises small eigenvalues of the released moment to a floor
        and shrinks the coefficients by a factor; the floor is chosen by an error
        estimate that is computed from the release. The second is a posterior mean under
        normal priors. Coefficients are 0 if no other choice promises to be better.
    fit_intercept : bool, default=True
        Whether to fit an intercept. If False, features and targets are not centered.
    {epsilon}
    {delta}
    {bounds}
        Bounds help if there are too few rows for private scales (:ref:`ridge`).
    target_bounds : tuple (low, high) or None, default=None
        Public bounds of the targets, numbers or arrays of shape (n_targets,).
    {accountant}
    {noise_seed}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients in the units of the data, 0 for unseen features.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercepts, 0 with ``fit_intercept=False``.
    coef_std_ : ndarray of the shape of `coef_`
        Standard errors of the unpenalized coefficients, including noise and sampling
        error. NaN where :meth:`conf_int` gives no interval.
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

    Means and scales, computed as in :class:`~skdpspectral.DPStandardScaler`, take 25 to
    50 % of the budget's :math:`\mu^2` for the features, and 6 % for the targets. If
    features need no private scales, those of the targets take 6 to 40 %, more with few
    rows. Features need none with `bounds`, or directly behind a
    :class:`~skdpspectral.DPTableVectorizer` in a private pipeline. Each joint row of
    standardized features, targets and a constant is clipped to norm c. The
    second moment of these rows has Frobenius sensitivity :math:`\sqrt2 c^2 / n`
    (:ref:`lemma-joint-rows`). If no target exceeds the noise, the locations of the
    targets are released instead of that moment: means within `target_bounds` or,
    without these, medians and means of nearby values.

    **Few rows.** If `n_samples`, the number of features and the budget show that
    coefficients cannot be estimated, the whole budget is spent on these locations. The
    model is then a constant, and a warning is issued. The error of the constant is
    about the extent of `target_bounds` divided by :math:`\mu n`. Without
    `target_bounds`, a single target needs about :math:`17 / \mu` rows (75 at epsilon 1,
    140 at 0.5, 270 at 0.25). With fewer rows nothing is learned, and the prediction is
    0. With fewer than about three times as many rows, the constant is a noisy median,
    which explains less than a mean.

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

    _array_parameters: ClassVar[tuple[str, ...]] = ("alpha", "bounds", "target_bounds")

    _parameter_constraints: ClassVar[dict] = {
        **MomentModel._parameter_constraints,
        "alpha": [*MomentModel._parameter_constraints["alpha"], "array-like"],
        "target_bounds": [tuple, list, np.ndarray, None],
    }

    def __init__(
        self,
        alpha="auto",
        *,
        fit_intercept: bool = True,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        bounds=None,
        target_bounds=None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.accountant = accountant
        self.noise_seed = noise_seed

    # -- plan ----------------------------------------------------------------------

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
        message = None
        try:
            return make_box(self.target_bounds, n_targets, per_feature=True), None
        except ValueError as error:
            message = str(error).replace("feature", "target")
        raise ValueError(f"target_{message}")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Few rows are hidden by the noise.
        tags.regressor_tags.poor_score = True
        return tags

    # -- the estimator -------------------------------------------------------------

    @unweighted
    def fit(self, X, y) -> Self:
        """Release the moments of rows and targets, and compute the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            {X_by_block}
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets in memory, or one column of a dask collection if X is one.

        {outcome_of_fit}
        """
        return self._fit(X, y)

    def _complete(self, several: bool) -> None:
        self.coef_std_ = self._unpenalized()[1]
        if not several:
            for name in ("coef_", "intercept_", "alpha_", "coef_std_"):
                (value,) = getattr(self, name)
                setattr(self, name, value if np.ndim(value) else float(value))
        count = int(self.unseen_targets_.sum())
        if count:
            warn(
                f"{count} of {len(self.unseen_targets_)} targets cannot be "
                "distinguished from a constant at this budget, and their coefficients "
                "are 0: use more rows or a larger epsilon, or pass bounds and "
                "target_bounds",
                NoisyFitWarning,
            )

    def _unpenalized(self) -> tuple[np.ndarray, np.ndarray]:
        """Return unpenalized coefficients and their standard errors; NaN for none."""
        kept, seen = ~self.unseen_features_, ~self.unseen_targets_
        errors = np.full((len(seen), len(kept)), np.nan)
        exact = _kernels.moment_least_squares(self._moment())
        if exact is None:
            return errors, errors
        found, covariances = exact
        spreads = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
        units = self.target_scale_[seen][:, None] / self.scale_[kept]
        errors[np.ix_(seen, kept)] = spreads[:, : int(kept.sum())] * units
        return self._in_units(found)[0], errors

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
        checked = _numbers("alphas", alphas)
        if checked.ndim != 1:
            raise ValueError("alphas must be a one-dimensional list of penalties")
        moment = self._moment()
        coefs, intercepts = [], []
        for alpha in checked:
            repeated = np.full(moment.cross.shape[1], alpha)
            found = _kernels.penalized(moment, repeated, self._has_constant())
            coef, intercept = self._in_units(found)
            coefs.append(coef.reshape(self.coef_.shape))
            intercepts.append(intercept.reshape(np.shape(self.intercept_)))
        return np.array(coefs), np.array(intercepts)

    def conf_int(self, level=0.95):
        """Return confidence intervals of the coefficients, from the same release.

        The intervals are for the unpenalized coefficients. They account for the noise
        of the release and the sampling of rows, and assume errors of equal variance.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval contains its coefficient, in (0, 1).

        Returns
        -------
        ndarray of shape (n_features, 2) or (n_targets, n_features, 2)
            Lower and upper ends, NaN for unseen features.

        Raises
        ------
        ValueError
            If `level` is invalid, or if the smallest eigenvalue of the released moment
            may be due to noise. Then no interval is reliable. Features that are sums
            of others, such as all one-hot columns of one category, have this effect.
        """
        check_is_fitted(self)
        if not (isinstance(level, Real) and 0.0 < level < 1.0):
            raise ValueError(f"level must be a number in (0, 1), got {level!r}")
        if np.isnan(self.coef_std_).all():
            raise ValueError(
                "conf_int: a combination of features has no variance above the noise, "
                "so intervals would be unreliable. Remove features that are sums of "
                "others (of one-hot columns, drop one per category), or use more rows, "
                "a larger epsilon or fewer features"
            )
        center = self._unpenalized()[0].reshape(self.coef_.shape)
        reach = float(ndtri(0.5 + 0.5 * level)) * self.coef_std_
        return np.stack([center - reach, center + reach], axis=-1)

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


def _numbers(name: str, values) -> np.ndarray:
    """Return penalties as numbers; errors name their parameter."""
    found = as_numbers(values, "biufO")
    if found is None:
        raise ValueError(f"{name} must contain numbers")
    if not np.all((found >= 0.0) & np.isfinite(found)):
        raise ValueError(f"{name} must be finite, and at least 0")
    return found


@documented
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
    {classes}
    fit_intercept : bool, default=True
        Whether to fit intercepts. If False, features are not centered.
    {bounds}
        Bounds help if there are too few rows for private scales (:ref:`ridge`).
    {accountant}
    {noise_seed}

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

    def __init__(
        self,
        alpha: str | float = "auto",
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        classes=None,
        fit_intercept: bool = True,
        bounds=None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.accountant = accountant
        self.noise_seed = noise_seed

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Few rows are hidden by the noise.
        tags.classifier_tags.poor_score = True
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

    @unweighted
    def fit(self, X, y) -> Self:
        """Release the moments of rows and label indicators, and compute coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite rows, which are never modified. Files and dask collections are read
            as in :class:`DPRidge`.
        y : array-like of shape (n_samples,)
            Labels in memory, all of which must be in `classes`.

        {outcome_of_fit}
        """
        return self._fit(X, y, self._deferred_indicators)

    def _complete(self, several: bool) -> None:
        self.alpha_ = float(self.alpha_[0])

    def _deferred_indicators(self, y, n_rows: int):
        """Check the form of labels; ``read()`` returns indicators of their classes."""
        labels = self._deferred_labels(y, n_rows)
        n_outputs = n_outputs_of(len(self.classes_))

        def read():
            found = self._one_hot(labels.read())
            return 2.0 * found - 1.0 if n_outputs == 1 else found

        return replace(labels, shape=(n_rows, n_outputs), read=read)

    _outputs = MomentModel._linear
