"""Regression and classification by networks that are trained by private Adam."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.mixins import PrivateClassifier, n_outputs_of
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._base.strategies import snapshot
from .._release.noise import Coins, public_start
from .._tables.columns import UserDraw
from .._tables.table import check_rows, deferred_rows, deferred_targets
from ..accounting import PrivacyAccountant
from ..mechanisms import PrivacyPlan, check_count
from . import _kernels
from ._adam import BATCH_CONSTRAINTS, Adam, Optimization

_MOST_LAYERS = 2
# Constraint of `hidden_layer_sizes`.
SIZES: list = ["array-like", Interval(Integral, 1, None, closed="left")]

# Noise times inputs of an output beyond which targets are predicted worse than by their
# mean: so in 94 of 105 settings on three tables, and in 1 of 90 that are useful.
_LOUD = 0.2


def hidden_widths(sizes) -> tuple[int, ...]:
    """Return the widths of hidden layers; errors name `hidden_layer_sizes`."""
    if np.ndim(sizes) == 0 and not isinstance(sizes, Integral):
        raise ValueError("hidden_layer_sizes must be an integer or a list of integers")
    sizes = (sizes,) if isinstance(sizes, Integral) else tuple(sizes)
    if len(sizes) > _MOST_LAYERS:
        raise ValueError(
            f"hidden_layer_sizes={sizes} has {len(sizes)} layers: at most "
            f"{_MOST_LAYERS} are supported"
        )
    return tuple(check_count("hidden_layer_sizes", size) for size in sizes)


def target_box(bounds) -> tuple[float, float]:
    """Return the midpoint and the half-width of target bounds."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    # Halves first: a sum of bounds, or a difference, may overflow.
    middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    if not (math.isfinite(low) and math.isfinite(high) and half > 0.0):
        raise ValueError(
            "target_bounds must be (low, high): two finite numbers, low < high"
        )
    return middle, half


def scale_first_weights(layers: list[np.ndarray]) -> None:
    """Scale numbers in [-1, 1] to initial weights, in place, without intercepts."""
    for layer in layers:
        inputs, outputs = layer.shape[0] - 1, layer.shape[1]
        layer[:-1] *= np.sqrt(6.0 / (inputs + outputs))
        layer[-1] = 0.0


def first_parameters(layout: _kernels.Layout) -> np.ndarray:
    """Return public initial parameters, with zeros in the output layer."""
    parameters = public_start(0, (layout.n_parameters,))
    layers = layout.layers(parameters)
    scale_first_weights(layers)
    layers[-1][:] = 0.0
    return parameters


@documented
@dataclass(eq=False, repr=False)
class DPAdamNetwork(CallbackSupportMixin, PrivateEstimator):
    """Base class of networks of private Adam: subclasses have `_loss`, and read y."""

    _array_parameters: ClassVar[tuple[str, ...]] = ("hidden_layer_sizes",)
    _takes_noise_multiplier: ClassVar[bool] = True
    _counts_rows: ClassVar[tuple[str, ...]] = ("batch_size",)

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "hidden_layer_sizes": SIZES,
        "optimizer": [StrOptions({"adam"}), Adam],
        **BATCH_CONSTRAINTS,
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
    }

    hidden_layer_sizes: Any = ()
    _: KW_ONLY
    epsilon: float | None = 1.0
    delta: float = 1e-6
    batch_size: int = 256
    n_epochs: int = 10
    clip_norm: float = 1.0
    optimizer: Any = "adam"
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None
    verbose: int = 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        hidden_widths(self.hidden_layer_sizes)

    def _adam(self) -> Adam:
        """Return a copy of the optimizer, safe from changes during a fit."""
        adam = Adam() if isinstance(self.optimizer, str) else snapshot(self.optimizer)
        share = self._own_share()
        if share is not None and share.noise_multiplier is not None:
            adam.noise_multiplier = share.noise_multiplier
        return adam

    def _given_noise(self) -> str | None:
        given = getattr(self.optimizer, "noise_multiplier", None)
        return None if given is None else f"noise_multiplier={given!r}"

    def _optimization(self, n_samples: int, n_features: int, n_outputs: int) -> tuple:
        """Return the sizes of all layers, and the optimization of their weights."""
        hidden = hidden_widths(self.hidden_layer_sizes)
        layout = _kernels.Layout((n_features, *hidden, n_outputs))
        how = {k: getattr(self, k) for k in BATCH_CONSTRAINTS}
        given = (self._adam(), layout.n_parameters, n_samples)
        return layout, Optimization(*given, **how)

    def privacy_plan(self, n_samples, n_features):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        {shape_of_rows}

        {returns_plan}
        """
        return self._plan_of_shape(n_samples, n_features, 1)

    def _plan_of_shape(self, n_samples, n_features, n_outputs) -> PrivacyPlan:
        self._check_parameters()
        n_samples = check_count("n_samples", n_samples)
        n_features = check_count("n_features", n_features)
        return self._planned(self._optimization(n_samples, n_features, n_outputs)[1])

    def _caveats(self, statistic: Optimization, plan: PrivacyPlan) -> tuple[str, ...]:
        """Warn if noise hides what can be learned, by public numbers."""
        (steps,) = plan.mechanisms
        # Of the mean over all steps, relative to the longest gradient.
        noise = getattr(steps, "noise_std", 0.0) / self.clip_norm
        noise *= statistic.n_steps**-0.5
        size = statistic.n_parameters
        hidden = hidden_widths(self.hidden_layer_sizes)
        inputs = hidden[-1] + 1 if hidden else size
        limit = _LOUD / inputs if isinstance(self, RegressorMixin) else size**-0.5
        unknown = getattr(self, "classes", ()) is None  # the number of labels is secret
        if noise <= limit or unknown:
            return ()
        return (
            f"{statistic.n_samples} rows are too few for {size} weights at "
            "this budget: predictions may be noise alone; use more rows, a larger "
            "epsilon, or fewer features or hidden units",
        )

    # Returns the form of the targets, their number, and what makes an array of them.
    _targets: ClassVar[Callable[..., tuple]]

    @unweighted
    def fit(self, X, y, *, users=None) -> Self:
        """Train the network on rows and targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, all finite; never modified.
        y : array-like of shape (n_samples,)
            Targets, which are clipped to `target_bounds`, or labels, which must be in
            `classes`.
        {users_of_rows}
            `batch_size` and `n_epochs` count users, who show a new row at each step.

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = deferred_rows(self, X)
            unread_targets, n_outputs, as_outputs = self._targets(y, unread.shape[0])
            unread = self._by_user(unread, users)
            n_samples, n_features = unread.shape
            layout, optimization = self._optimization(n_samples, n_features, n_outputs)
            plan = self._planned(optimization, in_fit=True)
            how = {"n_public": n_samples, "kind": optimization.kind, "all_rows": True}
            users, parameters = self._users, first_parameters(layout)
            layers = layout.layers(parameters)  # views, which change with it
            with fit_progress(self, optimization.n_steps) as progress:
                # It is charged here, and values are read from here on.
                release, X, y = self._start_release(plan, unread, unread_targets, **how)
                drawn, targets = None, as_outputs(y)
                if users is not None:
                    drawn = UserDraw(users, Coins(self.noise_seed))
                progress.begin(X, y, plan)
                with contextlib.closing(release):
                    optimization.begin(release)
                    # All at once, as no copy of a fit goes on elsewhere.
                    release.claim(0, optimization.n_steps)
                    for _ in range(optimization.n_steps):
                        batch = optimization.batch()
                        if drawn is not None:
                            batch = drawn.rows(batch)
                        given = optimization, layers, X, targets, batch
                        row = functools.partial(self._row, *given)
                        parameters += optimization.step(row)
                        progress.step(optimization.position)
            self.weights_, self.layer_sizes_ = parameters, np.array(layout.sizes)
            self.n_iter_ = optimization.position
            self.privacy_ = plan
        return self

    def _row(self, optimization, layers, X, targets, batch) -> np.ndarray:
        """Return the exact row of a batch, computed block by block."""
        blocks = (
            _kernels.gradient_factors(
                layers,
                np.asarray(X[batch[block]], dtype=np.float64),
                targets[batch[block]],
                self._loss,
            )
            for block in _kernels.in_blocks(len(batch))
        )
        return optimization.row(blocks)

    def _layers(self) -> list[np.ndarray]:
        check_is_fitted(self)
        sizes = tuple(int(size) for size in self.layer_sizes_)
        return _kernels.Layout(sizes).layers(self.weights_)

    @property
    def coefs_(self) -> list[np.ndarray]:
        """Weights of each layer, of shape (n_inputs, n_outputs)."""
        return [layer[:-1].copy() for layer in self._layers()]

    @property
    def intercepts_(self) -> list[np.ndarray]:
        """Intercepts of each layer, of shape (n_outputs,)."""
        return [layer[-1].copy() for layer in self._layers()]

    def _outputs(self, X) -> np.ndarray:
        """Return the outputs of the network, of shape (n_samples, n_outputs)."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        return _kernels.outputs_of(self._layers(), X)


@documented
@dataclass(eq=False, repr=False)
class DPAdamRegressor(RegressorMixin, DPAdamNetwork):
    """Linear regression, or a network with up to two hidden layers, by private Adam.

    The loss is half of the squared error. Gradient norms are computed without
    gradients.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=()
        Widths of up to two hidden layers. An empty tuple gives linear regression.
    {epsilon}
    {delta}
    {adam_batches}
    {adam_network}
    target_bounds : tuple (low, high) or None, default=None
        Public bounds of the targets, required. Targets and predictions are clipped to
        these bounds.

    Attributes
    ----------
    {adam_attributes}
    target_center_, target_scale_ : float
        Center and half of the extent of `target_bounds`. A prediction is the network's
        output, clipped to [-1, 1], times `target_scale_` plus `target_center_`.

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
    >>> model = DPAdamRegressor(target_bounds=(-3, 3), batch_size=4000, n_epochs=60)
    >>> model = model.fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    _loss = "squared"
    _array_parameters: ClassVar = ("hidden_layer_sizes", "target_bounds")

    _parameter_constraints: ClassVar[dict] = {
        **DPAdamNetwork._parameter_constraints,
        "target_bounds": [tuple, list, np.ndarray, None],
    }

    _: KW_ONLY
    target_bounds: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.target_bounds is None:
            raise ValueError(
                "target_bounds is required: pass public bounds (low, high) of the "
                "targets, or use DPRidge, which finds their scale privately"
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # After a public number of steps, whatever is left to be learned.
        tags.regressor_tags.poor_score = True
        return tags

    def _targets(self, y, n_samples: int) -> tuple:
        middle, half = target_box(self.target_bounds)
        self.target_center_, self.target_scale_ = middle, half

        def as_outputs(y):
            return np.clip((y[:, None] - middle) / half, -1.0, 1.0)

        return deferred_targets(self, y, n_samples), 1, as_outputs

    def predict(self, X):
        """Predict targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions in the units of the targets, clipped to `target_bounds`.
        """
        found = np.clip(self._outputs(X)[:, 0], -1.0, 1.0)
        return found * self.target_scale_ + self.target_center_


@documented
@dataclass(eq=False, repr=False)
class DPAdamClassifier(PrivateClassifier, DPAdamNetwork):
    """Logistic regression, or a network with up to two hidden layers, by private Adam.

    The loss is the log loss. Gradient norms are computed without forming the gradients.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=()
        Widths of up to two hidden layers. An empty tuple gives logistic regression.
    {epsilon}
    {delta}
    {adam_batches}
    {adam_network}
    {classes}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
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
    >>> model = DPAdamClassifier(classes=[False, True], batch_size=4000, n_epochs=50)
    >>> model = model.fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("hidden_layer_sizes", "classes")

    _parameter_constraints: ClassVar[dict] = {
        **DPAdamNetwork._parameter_constraints,
        **PrivateClassifier._class_constraints,
    }

    _: KW_ONLY
    classes: Any = None

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
        {shape_of_rows}
        n_classes : int or None, default=None
            Number of classes. None uses the number of `classes`, or 2.

        {returns_plan}
        """
        self._check_parameters()
        return self._plan_of_shape(n_samples, n_features, self._n_outputs(n_classes))

    def _targets(self, y, n_samples: int) -> tuple:
        labels = self._deferred_labels(y, n_samples)
        return labels, n_outputs_of(len(self.classes_)), self._one_hot

    def predict_proba(self, X):
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        found = _kernels.probabilities(self._outputs(X), self._loss)
        return np.hstack([1.0 - found, found]) if found.shape[1] == 1 else found
