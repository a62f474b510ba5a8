"""Networks that are trained by private Adam: what all estimators share."""

from __future__ import annotations

import contextlib
import functools
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.progress import FitProgress
from .._base.sklearn_compat import (
    CALLBACK_LEVELS,
    CallbackSupportMixin,
    Interval,
    StrOptions,
)
from .._linalg import neural_network as networks
from .._linalg.threads import blas_threads
from .._release.public import public_start
from .._tables.rows import check_rows
from ..mechanisms import PrivacyPlan
from ..mechanisms._numbers import check_count
from ._optimization import CONSTRAINTS, AdamChoices, Optimization
from ._shapes import hidden_widths


@documented
class DPAdamNetwork(CallbackSupportMixin, PrivateEstimator):
    """Base of estimators that train a network of dense layers by private Adam.

    A subclass has ``_loss``, reads targets, and says how many outputs there are.
    """

    _levels_around_fit: ClassVar[int] = CALLBACK_LEVELS + 1  # that of @unweighted
    _array_parameters: ClassVar[tuple[str, ...]] = ("hidden_layer_sizes",)

    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
        "activation": [StrOptions(set(networks.ACTIVATIONS))],
        **CONSTRAINTS,
        "init_seed": [Interval(Integral, 0, 2**32 - 1, closed="both")],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
    }

    # -- what a fit will release -----------------------------------------------------

    def _hidden_layers(self) -> tuple[int, ...]:
        """Return the widths of the hidden layers, or an error that names them."""
        return hidden_widths(self.hidden_layer_sizes)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._hidden_layers()
        self._choices().check()

    def _choices(self) -> AdamChoices:
        names = AdamChoices.__dataclass_fields__
        return AdamChoices(**{name: getattr(self, name) for name in names})

    def _layout(self, n_features: int, n_outputs: int) -> networks.Layout:
        return networks.Layout((n_features, *self._hidden_layers(), n_outputs))

    def _optimization(
        self, n_samples: int, n_features: int, n_outputs: int
    ) -> Optimization:
        layout = self._layout(n_features, n_outputs)
        return Optimization(self._choices(), layout.n_parameters, n_samples)

    def _plan(self, optimization: Optimization) -> PrivacyPlan:
        return self._planned(optimization)

    def _plan_of_shape(self, n_samples, n_features, n_outputs) -> PrivacyPlan:
        self._check_parameters()
        shape = (
            check_count("n_samples", n_samples),
            check_count("n_features", n_features),
        )
        return self._plan(self._optimization(*shape, n_outputs))

    # -- the way of a fit ------------------------------------------------------------

    def _progress(self, optimization: Optimization) -> FitProgress:
        return FitProgress(
            self,
            optimization.schedule.n_steps,
            private=self._is_private(),
            verbose=self.verbose,
        )

    def _train(self, optimization, release, layout, X, targets, progress) -> None:
        """Run all steps, and keep what came of them."""
        parameters = self._first_parameters(layout)
        layers = layout.layers(parameters)  # views, which change with it
        with contextlib.closing(release):
            run = optimization.begin(release)
            # All at once, as no copy of a fit goes on elsewhere.
            run.claim(0, optimization.schedule.n_steps)
            for _ in range(optimization.schedule.n_steps):
                row = functools.partial(
                    self._row, optimization, layers, X, targets, run.batch()
                )
                parameters += run.step(row)
                progress.step(run.position)
        self.weights_, self.layer_sizes_ = parameters, np.array(layout.sizes)
        self.n_iter_ = run.position

    def _first_parameters(self, layout: networks.Layout) -> np.ndarray:
        """Return where training starts: public numbers, and zeros at the outputs."""
        parameters = public_start(self.init_seed, (layout.n_parameters,))
        layers = layout.layers(parameters)
        for layer in layers:
            inputs, outputs = layer.shape[0] - 1, layer.shape[1]
            layer[:-1] *= np.sqrt(6.0 / (inputs + outputs))
            layer[-1] = 0.0
        layers[-1][:] = 0.0
        return parameters

    def _row(self, optimization, layers, X, targets, batch) -> np.ndarray:
        """Return the exact row of a batch, made block by block."""
        blocks = (
            networks.gradient_factors(
                layers,
                np.asarray(X[batch[block]], dtype=np.float64),
                targets[batch[block]],
                self.activation,
                self._loss,
            )
            for block in networks.in_blocks(len(batch))
        )
        return optimization.moments.row(blocks)

    # -- what is made of rows --------------------------------------------------------

    def _layers(self) -> list[np.ndarray]:
        check_is_fitted(self)
        sizes = tuple(int(size) for size in self.layer_sizes_)
        return networks.Layout(sizes).layers(self.weights_)

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
        layers = self._layers()
        found = np.empty((len(X), layers[-1].shape[1]))
        with blas_threads(0), np.errstate(all="ignore"):
            for block in networks.in_blocks(len(X)):
                rows = np.asarray(X[block], dtype=np.float64)
                found[block] = networks.activations(layers, rows, self.activation)[-1]
        return found
