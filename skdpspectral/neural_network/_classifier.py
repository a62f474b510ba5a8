"""Classification by a network that is trained by private Adam."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._base.documented import documented
from .._base.estimator import Seed, Self, unweighted
from .._base.labels import PrivateClassifier, n_outputs_of
from .._base.sklearn_compat import with_callbacks
from .._tables.rows import deferred_rows
from ..accounting import PrivacyAccountant
from . import _kernels
from ._estimators import DPAdamNetwork


@documented
class DPAdamClassifier(PrivateClassifier, DPAdamNetwork):
    """Logistic regression or a network of one or two layers, by private Adam.

    The loss is logarithmic. Norms of gradients are found without forming them.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=()
        Widths of up to two hidden layers; none for logistic regression.
    {epsilon}
    {delta}
        Well below ``1 / n_samples``.
    {classes}
    activation : {"tanh", "relu"}, default="tanh"
        Of hidden layers.
    {adam_batches}
    {adam_network}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    {adam_attributes}

    Notes
    -----
    {adam_guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPAdamClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = X[:, 0] > X[:, 1]
    >>> model = DPAdamClassifier(batch_size=4000, n_epochs=50).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("hidden_layer_sizes", "classes")

    _parameter_constraints: ClassVar[dict] = {
        **DPAdamNetwork._parameter_constraints,
        **PrivateClassifier._class_constraints,
    }

    def __init__(
        self,
        hidden_layer_sizes=(),
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        classes=None,
        activation: str = "tanh",
        batch_size: int = 256,
        n_epochs: int = 10,
        clip_norm: float = 1.0,
        optimizer="adam",
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.activation = activation
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.clip_norm = clip_norm
        self.optimizer = optimizer
        self.accountant = accountant
        self.noise_seed = noise_seed
        self.verbose = verbose

    @property
    def _loss(self) -> str:
        return "logistic" if len(self.classes_) == 2 else "softmax"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # After a public number of steps, whatever is left to be learned.
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
        self._check_parameters()
        return self._plan_of_shape(n_samples, n_features, self._n_outputs(n_classes))

    @with_callbacks
    @unweighted
    def fit(self, X, y) -> Self:
        """Train the network on rows and their labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, all finite; never modified.
        y : array-like of shape (n_samples,)
            Labels, all of them among `classes`.

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = deferred_rows(self, X)
            labels = self._deferred_labels(y, unread.shape[0])
            n_outputs = n_outputs_of(len(self.classes_))
            self._fit(unread, labels, n_outputs, self._one_hot)
        return self

    def predict_proba(self, X):
        """Return probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        found = _kernels.probabilities(self._outputs(X), self._loss)
        return np.hstack([1.0 - found, found]) if found.shape[1] == 1 else found
