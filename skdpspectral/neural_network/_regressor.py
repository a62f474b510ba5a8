"""Regression by a network that is trained by private Adam."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from .._base.documented import documented
from .._base.estimator import Seed, Self, unweighted
from .._base.sklearn_compat import with_callbacks
from .._tables.rows import deferred_rows
from .._tables.users import deferred_target_columns
from ..accounting import PrivacyAccountant
from ..mechanisms import check_count
from ._estimators import DPAdamNetwork, scaled_targets, target_box


@documented
class DPAdamRegressor(RegressorMixin, DPAdamNetwork):
    """Linear regression or a network of one or two layers, by private Adam.

    The loss is half of the squared error. Norms of gradients are found without forming
    them.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=()
        Widths of up to two hidden layers; none for linear regression.
    {epsilon}
    {delta}
        Well below ``1 / n_samples``.
    target_bounds : tuple (low, high) or None, default=None
        Public bounds of the targets, numbers or one number a target. Targets are
        clipped to them and brought to [-1, 1]. Without them targets are used as they
        are, and should be of the order of one.
    activation : {"tanh", "relu"}, default="tanh"
        Of hidden layers.
    {adam_batches}
    {adam_network}

    Attributes
    ----------
    {adam_attributes}
    target_center_, target_scale_ : ndarray of shape (n_outputs,)
        Targets are outputs times `target_scale_` plus `target_center_`.
    multi_output_ : bool
        Whether y had columns.

    Notes
    -----
    {adam_guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import DPAdamRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = X @ [1.0, -1.0, 0.5]
    >>> model = DPAdamRegressor(batch_size=4000, n_epochs=60).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    _loss = "squared"
    _array_parameters: ClassVar[tuple[str, ...]] = (
        "hidden_layer_sizes",
        "target_bounds",
    )

    _parameter_constraints: ClassVar[dict] = {
        **DPAdamNetwork._parameter_constraints,
        "target_bounds": [tuple, list, np.ndarray, None],
    }

    def __init__(
        self,
        hidden_layer_sizes=(),
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        target_bounds=None,
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
        self.target_bounds = target_bounds
        self.activation = activation
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.clip_norm = clip_norm
        self.optimizer = optimizer
        self.accountant = accountant
        self.noise_seed = noise_seed
        self.verbose = verbose

    def privacy_plan(self, n_samples, n_features, n_outputs=1):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int
            Number of rows, public.
        n_features : int
            Number of features.
        n_outputs : int, default=1
            Number of targets.

        Returns
        -------
        {plan_of_shape}

        Raises
        ------
        {invalid_shape}
        """
        outputs = check_count("n_outputs", n_outputs)
        return self._plan_of_shape(n_samples, n_features, outputs)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # After a public number of steps, whatever is left to be learned.
        tags.regressor_tags.poor_score = True
        return tags

    @with_callbacks
    @unweighted
    def fit(self, X, y) -> Self:
        """Train the network on rows and their targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, all finite; never modified.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; clipped to `target_bounds`, if they are given.

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = deferred_rows(self, X)
            columns = deferred_target_columns(self, y, unread.shape[0])
            n_outputs = columns.shape[1] if len(columns.shape) > 1 else 1
            box = target_box(self.target_bounds, n_outputs)
            self._fit(unread, columns, n_outputs, partial(self._targets, box=box))
            self.target_center_, self.target_scale_ = box
            self.multi_output_ = len(columns.shape) > 1
        return self

    def _targets(self, y: np.ndarray, box) -> np.ndarray:
        """Return targets of the outputs, of shape (n_samples, n_outputs)."""
        targets = y.reshape(len(y), -1)
        return targets if self.target_bounds is None else scaled_targets(targets, box)

    def predict(self, X):
        """Return the predicted targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            In the units of the targets.
        """
        found = self._outputs(X)
        found = found * self.target_scale_ + self.target_center_
        return found if self.multi_output_ else found[:, 0]
