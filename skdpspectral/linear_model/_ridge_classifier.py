"""Linear classification from one private moment of features and labels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from .._base.documented import documented
from .._base.estimator import Seed, Self, unweighted
from .._base.labels import PrivateClassifier, n_outputs_of
from .._tables.clipping import make_box
from ..accounting import PrivacyAccountant
from ._ridge import MomentModel


@documented
class DPRidgeClassifier(PrivateClassifier, MomentModel):
    r"""Linear least squares on indicators of classes, from one private release.

    As :class:`~sklearn.linear_model.RidgeClassifier`: a row is of the class whose
    regression predicts the largest value. All regressions come from one release, as
    those of :class:`DPRidge`. There are no probabilities: what least squares predicts
    is shrunk, and may be negative. Read more in the
    :ref:`user guide <ridge_classifier>`.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        Penalty on the squared coefficients of the standardized features, non-negative;
        "auto" chooses as :class:`DPRidge` does, once for all classes.
    {epsilon}
    {delta}
        Well below ``1 / n_samples``.
    {classes}
    n_components : int or None, default=None
        Number of leading principal components of the standardized features that the
        regressions use, at most ``n_features``; None for no reduction.
    fit_intercept : bool, default=True
        Whether there are intercepts. False does not center features.
    {bounds}
        They help where rows are too few for private scales (:ref:`ridge`).
    {accountant}
    {noise_seed}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients in the units of the data; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    alpha_ : float
        Penalty, or with ``alpha="auto"`` the floor of eigenvalues, as of
        :class:`DPRidge`; infinite where coefficients are 0.
    {moment_attributes}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    DPAdamClassifier : Logistic regression and networks, with probabilities.
    DPRidge : The same for numbers, with confidence intervals.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is
    (`epsilon`, `delta`)-differentially private for one row with its label, under
    replacement of that row (`n_samples` is public), for any data; `classes` must be
    public. Indicators are -1 and 1 for two classes, or else 0 and 1, so that they need
    no private scale. What is released is that of :class:`DPRidge` for one target per
    class (:ref:`lemma-joint-rows`). Where `bounds` replace private scales, a mean of
    the features comes first, for 8 % of the budget's :math:`\mu^2`. Where public
    numbers say that coefficients cannot be found, the shares of the classes are
    released, and all rows get the most frequent class.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPRidgeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([1e6, -3.0], [2e4, 0.01], size=(20_000, 2))
    >>> y = X[:, 0] / 2e4 + X[:, 1] / 0.01 > -250.0
    >>> model = DPRidgeClassifier(epsilon=1.0).fit(X, y)
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
        n_components: int | None = None,
        fit_intercept: bool = True,
        bounds=None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.n_components = n_components
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
        n_samples : int
            Number of rows, public.
        n_features : int
            Number of features.
        n_classes : int or None, default=None
            Number of classes; None takes that of `classes`, or 2.

        Returns
        -------
        {plan_of_shape}

        Raises
        ------
        {invalid_shape}
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
        """Release the moments of rows and indicators of labels, and solve.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, all finite; never modified. Files and collections of dask are read as
            by :class:`DPRidge`.
        y : array-like of shape (n_samples,)
            Labels in memory, all of them among `classes`.

        {outcome_of_fit}
        """
        return self._fit(X, y, self._deferred_indicators)

    def _complete(self, several: bool) -> None:
        self.alpha_ = float(self.alpha_[0])

    def _deferred_indicators(self, y, n_rows: int):
        """Check the form of labels; ``read()`` returns indicators of their classes."""
        labels = self._deferred_labels(y, n_rows, levels=2)
        n_outputs = n_outputs_of(len(self.classes_))

        def read():
            found = self._one_hot(labels.read())
            return 2.0 * found - 1.0 if n_outputs == 1 else found

        return replace(labels, shape=(n_rows, n_outputs), read=read)

    def _outputs(self, X) -> np.ndarray:
        return self._linear(X)
