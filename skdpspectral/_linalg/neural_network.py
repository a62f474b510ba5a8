"""Networks of dense layers: predictions, and sums of clipped gradients.

The gradient of one example is, layer by layer, an outer product: of the layer's input
and of the error that comes back to it. Norms, clipping and sums are made of these
factors, and no gradient is ever formed. What is made of an example has the same bits
in any company: examples stand side by side, and no product mixes them but the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .linear_model.per_user import combined_columns, totals

# Examples that are handled together: their activations stay in the cache.
BLOCK_EXAMPLES = 256

# Factors beyond are not used: squares and fourth powers of their products, and of what
# is left of others beside them, would be lost in float64.
LARGEST = 2.0**100

LOSSES = ("squared", "logistic", "softmax")
ACTIVATIONS = ("tanh", "relu")


class Layout(NamedTuple):
    """Where the weights of each layer stand in one vector of parameters.

    Attributes
    ----------
    sizes : tuple of int
        Widths of the layers, from the features to the outputs.
    """

    sizes: tuple[int, ...]

    @property
    def n_parameters(self) -> int:
        """Number of weights and intercepts together."""
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        return sum((a + 1) * b for a, b in pairs)

    def layers(self, parameters: np.ndarray) -> list[np.ndarray]:
        """Return a view of each layer, of shape (inputs + 1, outputs).

        The last row has the intercepts.
        """
        views, start = [], 0
        for inputs, outputs in zip(self.sizes, self.sizes[1:], strict=False):
            stop = start + (inputs + 1) * outputs
            views.append(parameters[start:stop].reshape(inputs + 1, outputs))
            start = stop
        return views


def activated(values: np.ndarray, activation: str) -> np.ndarray:
    """Apply a hidden layer's activation, in place."""
    if activation == "tanh":
        return np.tanh(values, out=values)
    return np.maximum(values, 0.0, out=values)


def slope(values: np.ndarray, activation: str) -> np.ndarray:
    """Return the derivative of the activation, from its values."""
    if activation == "tanh":
        return 1.0 - np.square(values)
    return (values > 0.0).astype(np.float64)


def _through(layer: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Return a layer's outputs, of shape (outputs, n), from inputs (features, n)."""
    out = combined_columns(inputs.T, layer[:-1])
    out += layer[-1][:, None]
    return out


def activations(
    layers: Sequence[np.ndarray], X: np.ndarray, activation: str
) -> list[np.ndarray]:
    """Return the inputs of every layer, and the outputs of the last.

    Parameters
    ----------
    layers : sequence of ndarray of shape (inputs + 1, outputs)
        Weights, and in the last row intercepts.
    X : ndarray of shape (n, n_features)
        Examples.
    activation : {"tanh", "relu"}
        Of all layers but the last.

    Returns
    -------
    list of ndarray of shape (width, n)
        One for each layer, and the outputs; examples are columns.
    """
    found = [np.ascontiguousarray(X.T, dtype=np.float64)]
    for position, layer in enumerate(layers):
        values = _through(layer, found[-1])
        if position + 1 < len(layers):
            values = activated(values, activation)
        found.append(values)
    return found


def probabilities(outputs: np.ndarray, loss: str) -> np.ndarray:
    """Return probabilities of classes from outputs (width, n), in place for softmax."""
    if loss == "logistic":
        return 0.5 * (1.0 + np.tanh(0.5 * outputs))
    outputs = outputs - outputs.max(axis=0)
    np.exp(outputs, out=outputs)
    outputs /= totals(outputs.T)
    return outputs


def output_errors(outputs: np.ndarray, targets: np.ndarray, loss: str) -> np.ndarray:
    """Return the derivative of each example's loss by its outputs.

    Parameters
    ----------
    outputs, targets : ndarray of shape (width, n)
        Of the last layer, and what they should be: values, 0 and 1, or one 1 an
        example.
    loss : {"squared", "logistic", "softmax"}
        Half of the squared error, or the logarithmic loss.

    Returns
    -------
    ndarray of shape (width, n)
        The derivative.
    """
    if loss == "squared":
        return outputs - targets
    return probabilities(outputs, loss) - targets


class Factors(NamedTuple):
    """The factors of the gradients of a block of examples, layer by layer.

    Attributes
    ----------
    inputs, errors : list of ndarray of shape (width, n)
        An example's gradient by a layer's weights is the outer product of its columns;
        that by the intercepts is the error.
    """

    inputs: list[np.ndarray]
    errors: list[np.ndarray]

    def without(self, bad: np.ndarray) -> Factors:
        """Return the factors with zeros for some examples."""
        if not bad.any():
            return self
        return Factors(*([np.where(bad, 0.0, p) for p in parts] for parts in self))

    def beyond(self) -> np.ndarray:
        """Return which examples have a factor that is too large, or not a number."""
        found = np.zeros(self.inputs[0].shape[1], dtype=bool)
        for part in (*self.inputs, *self.errors):
            found |= ~(np.abs(part).max(axis=0) <= LARGEST)
        return found

    def squared_norms(self, power: int = 1) -> np.ndarray:
        """Return each gradient's sum of squares, or that of a power of its entries."""
        found: np.ndarray = np.zeros(self.inputs[0].shape[1])
        for inputs, errors in zip(self.inputs, self.errors, strict=True):
            rows = totals(np.square(inputs**power).T) + 1.0
            found = found + rows * totals(np.square(errors**power).T)
        return found

    def weighted_sum(
        self, weights: np.ndarray, out: np.ndarray, power: int = 1
    ) -> None:
        """Add the weighted sum of gradients, or of a power of their entries."""
        start = 0
        for inputs, errors in zip(self.inputs, self.errors, strict=True):
            scaled = errors**power * weights
            shape = (len(inputs) + 1, len(errors))
            view = out[start : start + shape[0] * shape[1]].reshape(shape)
            view[:-1] += inputs**power @ scaled.T
            view[-1] += scaled.sum(axis=1)
            start += view.size


def gradient_factors(
    layers: Sequence[np.ndarray],
    X: np.ndarray,
    targets: np.ndarray,
    activation: str,
    loss: str,
) -> Factors:
    """Return the factors of each example's gradient.

    Parameters
    ----------
    layers, X, activation
        As of :func:`activations`.
    targets, loss
        As of :func:`output_errors`.

    Returns
    -------
    Factors
        Of all examples.
    """
    found = activations(layers, X, activation)
    inputs, errors = found[:-1], [output_errors(found[-1], targets, loss)]
    for layer, outputs in zip(layers[:0:-1], inputs[:0:-1], strict=True):
        back = combined_columns(errors[0].T, np.ascontiguousarray(layer[:-1].T))
        errors.insert(0, back * slope(outputs, activation))
    return Factors(inputs, errors)


def gradients(factors: Factors) -> np.ndarray:
    """Return every example's gradient in full, for tests and small networks.

    Parameters
    ----------
    factors : Factors
        Of n examples.

    Returns
    -------
    ndarray of shape (n, n_parameters)
        One gradient a row.
    """
    parts = []
    for inputs, errors in zip(factors.inputs, factors.errors, strict=True):
        ones = np.ones((1, inputs.shape[1]))
        whole = np.concatenate([inputs, ones])[:, None] * errors
        parts.append(whole.reshape(-1, whole.shape[-1]))
    return np.concatenate(parts).T


def in_blocks(n_examples: int) -> list[slice]:
    """Return the slices of blocks of examples."""
    starts = range(0, n_examples, BLOCK_EXAMPLES)
    return [slice(start, start + BLOCK_EXAMPLES) for start in starts]
