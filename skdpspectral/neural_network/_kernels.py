"""Networks of dense layers: predictions, and sums of clipped gradients.

The gradient of one example is, layer by layer, an outer product of the layer's input
and of the error that comes back to it. Norms, clipping and sums are computed from these
factors, and no gradient is formed. The numbers of an example have the same bits in any
batch: it passes a layer by one call of BLAS of its own, on memory with one alignment,
and no product mixes examples but the sums. This holds within
:func:`~.walks.blas_threads`, as large layers are split among threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._linalg.per_user import empty_stack, multiply_rows, stacked

# Examples whose gradients are summed at once, in any order.
SUMMED = 256

# Examples that are handled together, in whole sums.
BLOCK_EXAMPLES = 4 * SUMMED

# Factors that are longer are not used: squares and fourth powers of their products, and
# of what is left of others beside them, would be lost in float64.
LARGEST = 2.0**100
ACTIVATIONS = ("tanh", "relu")


class Layout(NamedTuple):
    """Places of each layer's weights in one vector of parameters.

    `sizes` are the widths of the layers, from the features to the outputs.
    """

    sizes: tuple[int, ...]

    @property
    def n_parameters(self) -> int:
        """Number of weights and intercepts together."""
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        return sum((a + 1) * b for a, b in pairs)

    def layers(self, parameters: np.ndarray) -> list[np.ndarray]:
        """Return views of the layers of one network, or of several.

        Each has shape (..., inputs + 1, outputs), with intercepts in the last row.
        """
        views, start = [], 0
        for inputs, outputs in zip(self.sizes, self.sizes[1:], strict=False):
            stop = start + (inputs + 1) * outputs
            layer = parameters[..., start:stop]
            views.append(layer.reshape(*layer.shape[:-1], inputs + 1, outputs))
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
        squares = np.square(values)
        return np.subtract(1.0, squares, out=squares)
    return (values > 0.0).astype(np.float64)


def _through(rows: np.ndarray, matrix: np.ndarray, width: int) -> np.ndarray:
    """Return each row times a public matrix, followed by ones up to a width.

    Rows and results have the memory layout of :func:`~.per_user.empty_stack`.
    """
    out, results = empty_stack(len(rows), width), matrix.shape[1]
    multiply_rows(rows, matrix, out[:, :results])
    out[:, results:] = 1.0
    return out


def activations(
    layers: Sequence[np.ndarray], X: np.ndarray, activation: str
) -> list[np.ndarray]:
    """Return the inputs of every layer, followed by a 1, and the outputs of the last.

    All have shape (n, width), and the memory layout of :func:`~.per_user.empty_stack`.
    """
    inputs = empty_stack(len(X), X.shape[1] + 1)
    inputs[:, :-1], inputs[:, -1] = X, 1.0
    found = [inputs]
    for layer in layers[:-1]:
        values = _through(found[-1], layer, layer.shape[1] + 1)
        activated(values[:, :-1], activation)
        found.append(values)
    return [*found, _through(found[-1], layers[-1], layers[-1].shape[1])]


def probabilities(outputs: np.ndarray, loss: str) -> np.ndarray:
    """Return probabilities of classes from outputs (n, width)."""
    if loss == "logistic":
        return 0.5 * (1.0 + np.tanh(0.5 * outputs))
    found = empty_stack(*outputs.shape)
    np.subtract(outputs, outputs.max(axis=1, keepdims=True), out=found)
    np.exp(found, out=found)
    sums = empty_stack(len(found), 1)
    multiply_rows(found, np.ones((found.shape[1], 1)), sums)
    found /= sums
    return found


def output_errors(outputs: np.ndarray, targets: np.ndarray, loss: str) -> np.ndarray:
    """Return the derivative of each example's loss by its outputs: (n, width).

    `targets` are values for "squared", which is half of the squared error, and 0 and 1
    for "logistic" and "softmax".
    """
    if loss != "squared":
        outputs = probabilities(outputs, loss)
    return np.subtract(outputs, targets, out=empty_stack(*outputs.shape))


class Factors(NamedTuple):
    """Factors of the gradients of a block of examples, layer by layer.

    An example's gradient by a layer is the outer product of its row of `inputs`, (n,
    inputs + 1) with a 1 at the end, and of its row of `errors`, (n, outputs). Both have
    the memory layout of :func:`~.per_user.empty_stack`.
    """

    inputs: list[np.ndarray]
    errors: list[np.ndarray]

    def without(self, bad: np.ndarray) -> Factors:
        """Return the factors with zeros for some examples."""
        if not bad.any():
            return self
        bad = bad[:, None]
        return Factors(*([np.where(bad, 0.0, p) for p in parts] for parts in self))

    def squared_norms(self, power: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Return each gradient's sum of squares, or that of a power of its entries.

        The second result is False where a factor is too large, or not a number.
        """
        squares: np.ndarray = np.zeros(len(self.inputs[0]))
        fit = np.ones(len(squares), dtype=bool)
        for inputs, errors in zip(self.inputs, self.errors, strict=True):
            sides = _squares(inputs, power), _squares(errors, power)
            squares += sides[0] * sides[1]
            for side in sides:
                fit &= side <= LARGEST ** (2 * power)
        return squares, fit

    def weighted_sum(
        self, weights: np.ndarray, out: np.ndarray, power: int = 1
    ) -> None:
        """Add the weighted sum of gradients, or of a power of their entries.

        They are added `SUMMED` by `SUMMED`.
        """
        start = 0
        for inputs, errors in zip(self.inputs, self.errors, strict=True):
            inputs, scaled = _power(inputs, power), _power(errors, power)
            scaled = scaled * weights[:, None]
            stop = start + inputs.shape[1] * errors.shape[1]
            for first in range(0, len(inputs), SUMMED):
                part = slice(first, first + SUMMED)
                out[start:stop] += (inputs[part].T @ scaled[part]).ravel()
            start = stop


def _power(values: np.ndarray, power: int) -> np.ndarray:
    return values if power == 1 else stacked(values**power)


def _squares(rows: np.ndarray, power: int) -> np.ndarray:
    """Return each row's sum of squares, or that of a power of its entries."""
    rows = _power(rows, power)
    return np.matmul(rows[:, None], rows[:, :, None])[:, 0, 0]


def gradient_factors(
    layers: Sequence[np.ndarray],
    X: np.ndarray,
    targets: np.ndarray,
    activation: str,
    loss: str,
) -> Factors:
    """Return the factors of each example's gradient."""
    found = activations(layers, X, activation)
    inputs, errors = found[:-1], [output_errors(found[-1], targets, loss)]
    for layer, outputs in zip(layers[:0:-1], inputs[:0:-1], strict=True):
        back = _through(errors[0], layer[:-1].T, len(layer) - 1)
        back *= slope(outputs[:, :-1], activation)
        errors.insert(0, back)
    return Factors(inputs, errors)


def in_blocks(n_examples: int) -> list[slice]:
    """Return the slices of blocks of examples."""
    starts = range(0, n_examples, BLOCK_EXAMPLES)
    return [slice(start, start + BLOCK_EXAMPLES) for start in starts]
