r"""Networks of dense layers: predictions, and sums of clipped gradients.

The gradient of one example is, layer by layer, an outer product of the layer's input
and of the error that comes back to it. Norms, clipping and sums are computed from these
factors, and no gradient is formed. The numbers of an example have the same bits in any
batch: it passes a layer by one call of BLAS of its own, on memory with one alignment,
and no product mixes examples but the sums. This holds within
:func:`~.walks.blas_threads`, as large layers are split among threads.

Of networks of many users, all weights of user i are one vector
:math:`\theta_i = U w_i + b_i`, low rank plus sparse, in the order of :class:`Layout`. A
user may have features of their own beside those of the rows, the same in each row: a
*prompt*. These functions work on a part of a :class:`~.per_user.Block`, without a loop
over users. They compute each user's numbers from that user's rows and U alone, with the
same bits in every part: all sums are by the kernels of ``per_user``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._linalg import per_user
from .._linalg.per_user import empty_stack, multiply, stacked
from .._linalg.walks import blas_threads

# Examples whose gradients are summed at once, in any order.
SUMMED = 256

# Examples that are handled together, in whole sums.
BLOCK_EXAMPLES = 4 * SUMMED

# Factors that are longer are not used: squares of their products, and of what is left
# of others beside them, would be lost in float64.
LARGEST = 2.0**100


class Layout(NamedTuple):
    """Places of layers' weights in one vector, by widths from features to outputs."""

    sizes: tuple[int, ...]

    @property
    def n_parameters(self) -> int:
        """Number of weights and intercepts together."""
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        return sum((a + 1) * b for a, b in pairs)

    def layers(self, parameters: np.ndarray) -> list[np.ndarray]:
        """Return views of layers, (..., inputs + 1, outputs), with intercepts last."""
        views, start = [], 0
        for inputs, outputs in zip(self.sizes, self.sizes[1:], strict=False):
            stop = start + (inputs + 1) * outputs
            layer = parameters[..., start:stop]
            views.append(layer.reshape(*layer.shape[:-1], inputs + 1, outputs))
            start = stop
        return views


def _through(rows: np.ndarray, matrix: np.ndarray, width: int) -> np.ndarray:
    """Return a stack of rows times a matrix or a stack, and ones up to a width."""
    out, results = empty_stack(*rows.shape[:2], width), matrix.shape[-1]
    multiply(rows, matrix, out[..., :results])
    out[..., results:] = 1.0
    return out


def activations(layers: Sequence[np.ndarray], X: np.ndarray) -> list[np.ndarray]:
    """Return inputs of layers, with a trailing 1, and outputs of the last, stacked."""
    found = [empty_stack(*X.shape[:2], X.shape[2] + 1)]
    found[0][..., :-1], found[0][..., -1] = X, 1.0
    for layer in layers[:-1]:
        values = _through(found[-1], layer, layer.shape[-1] + 1)
        np.tanh(values[..., :-1], out=values[..., :-1])
        found.append(values)
    return [*found, _through(found[-1], layers[-1], layers[-1].shape[-1])]


def errors_of_layers(
    layers: Sequence[np.ndarray], found: list, errors: np.ndarray
) -> list[np.ndarray]:
    """Return the errors that come back to each layer's outputs, given the last ones."""
    back = [errors]
    for layer, outputs in zip(layers[:0:-1], found[-2:0:-1], strict=True):
        matrix = layer[..., :-1, :].swapaxes(-1, -2)
        back.insert(0, _through(back[0], matrix, matrix.shape[-1]))
        squares = np.square(outputs[..., :-1])
        back[0] *= np.subtract(1.0, squares, out=squares)
    return back


def outputs_of(layers: Sequence[np.ndarray], X: np.ndarray) -> np.ndarray:
    """Return the outputs of rows, (n, width), with bits independent of the batch."""
    found = np.empty((len(X), layers[-1].shape[1]))
    with blas_threads(0), np.errstate(all="ignore"):
        for block in in_blocks(len(X)):
            rows = np.asarray(X[block], dtype=np.float64)
            found[block] = activations(layers, rows[:, None])[-1][:, 0]
    return found


def probabilities(outputs: np.ndarray, loss: str) -> np.ndarray:
    """Return probabilities of classes from outputs (n, width)."""
    if loss == "logistic":
        return 0.5 * (1.0 + np.tanh(0.5 * outputs))
    found = empty_stack(*outputs.shape)
    np.subtract(outputs, outputs.max(axis=1, keepdims=True), out=found)
    np.exp(found, out=found)
    sums = empty_stack(len(found), 1)
    multiply(found[:, None], np.ones((found.shape[1], 1)), sums[:, None])
    found /= sums
    return found


def output_errors(outputs: np.ndarray, targets: np.ndarray, loss: str) -> np.ndarray:
    """Return the derivative of each example's loss by its outputs: (n, width)."""
    if loss != "squared":
        outputs = probabilities(outputs, loss)
    return np.subtract(outputs, targets, out=empty_stack(*outputs.shape))


class Factors(NamedTuple):
    """Factors of the gradients of a block of examples, layer by layer."""

    inputs: list[np.ndarray]  # with a 1 at the end
    errors: list[np.ndarray]  # gradients: outer products, as in per_user.empty_stack

    def without(self, bad: np.ndarray) -> Factors:
        """Return the factors with zeros for some examples."""
        if not bad.any():
            return self
        bad = bad[:, None]
        return Factors(*([np.where(bad, 0.0, p) for p in parts] for parts in self))

    def squared_norms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each gradient's sum of squares, and whether its factors fit."""
        squares: np.ndarray = np.zeros(len(self.inputs[0]))
        fit = np.ones(len(squares), dtype=bool)
        for both in zip(self.inputs, self.errors, strict=True):
            sides = [np.matmul(f[:, None], f[:, :, None])[:, 0, 0] for f in both]
            squares += sides[0] * sides[1]
            for side in sides:
                fit &= side <= LARGEST**2
        return squares, fit

    def weighted_sum(
        self, weights: np.ndarray, out: np.ndarray, power: int = 1
    ) -> None:
        """Add the weighted sum of gradients, or of a power of their entries."""
        start = 0
        for inputs, errors in zip(self.inputs, self.errors, strict=True):
            if power != 1:
                inputs, errors = stacked(inputs**power), stacked(errors**power)
            scaled = errors * weights[:, None]
            stop = start + inputs.shape[1] * errors.shape[1]
            for first in range(0, len(inputs), SUMMED):
                part = slice(first, first + SUMMED)
                out[start:stop] += (inputs[part].T @ scaled[part]).ravel()
            start = stop


def gradient_factors(
    layers: Sequence[np.ndarray], X: np.ndarray, targets: np.ndarray, loss: str
) -> Factors:
    """Return the factors of each example's gradient."""
    found = activations(layers, X[:, None])
    errors = output_errors(found[-1][:, 0], targets, loss)[:, None]
    back = errors_of_layers(layers, found, errors)
    return Factors(*([part[:, 0] for part in parts] for parts in (found[:-1], back)))


def in_blocks(n_examples: int) -> list[slice]:
    """Return the slices of blocks of examples."""
    starts = range(0, n_examples, BLOCK_EXAMPLES)
    return [slice(start, start + BLOCK_EXAMPLES) for start in starts]


# Weights of users who are handled together, or values of their units: they stay in the
# cache.
_PART_NUMBERS = 1 << 18


class NetworkRows(NamedTuple):
    """Rows of some users."""

    X: np.ndarray  # (n_users, height, n_features)
    y: np.ndarray  # (n_users, height)
    shares: np.ndarray  # 1 / count in a user's rows, and 0 beyond them
    counts: np.ndarray


class NetworkWeights(NamedTuple):
    """Parameters of the networks of some users."""

    weights: np.ndarray  # w
    prompts: np.ndarray
    support: np.ndarray  # positions of b, (n_users, sparsity), different if not zero
    sparse: np.ndarray  # its values there
    levels: np.ndarray  # added to outputs once they are trained

    def take(self, chosen) -> NetworkWeights:
        """Return the parameters of some users."""
        return NetworkWeights(*(values[chosen] for values in self))


def in_parts(block, layout: Layout) -> list[slice]:
    """Return slices of a block's users that fit into memory together."""
    numbers = max(layout.n_parameters, block.X.shape[1] * max(layout.sizes))
    size = max(1, _PART_NUMBERS // numbers)
    return [slice(start, start + size) for start in range(0, len(block), size)]


def rows_of(block, part: slice, has_level: bool) -> tuple[NetworkRows, np.ndarray]:
    """Return the rows of some users, and levels: means that their targets have lost."""
    counts = np.maximum(block.counts[part], 1)
    y = block.y[part]
    own = np.arange(y.shape[1]) < counts[:, None]
    levels = np.zeros(len(y))
    if has_level:
        levels = per_user.totals(y) / counts
        y = y - levels[:, None]
    return NetworkRows(block.X[part], y, own / counts[:, None], counts), levels


def whole_weights(U: np.ndarray, users: NetworkWeights) -> np.ndarray:
    """Return U w + b of each user: (n_users, n_parameters)."""
    whole = per_user.empty_stack(len(users.weights), len(U))
    whole[...] = 0.0
    for weights, direction in zip(users.weights.T, U.T, strict=True):
        whole += weights[:, None] * direction
    if users.support.shape[1]:
        _add_sparse(whole, users.support, users.sparse)
    return whole


def _add_sparse(whole: np.ndarray, support: np.ndarray, sparse: np.ndarray) -> None:
    """Add b to the weights of each user, in place."""
    # Zeros fill up where a user has fewer weights than others: at any places, one of
    # which may have a weight too, and of terms at one place only the last is added.
    own = sparse != 0.0
    if support.shape == whole.shape and (support == np.arange(len(whole.T))).all():
        np.add(whole, sparse, out=whole, where=own)
    else:
        whole[np.nonzero(own)[0], support[own]] += sparse[own]


def user_activations(
    layout: Layout, whole: np.ndarray, prompts: np.ndarray, X: np.ndarray
) -> list[np.ndarray]:
    """Return the results of :func:`activations` for users, with their prompts."""
    prompts = np.broadcast_to(prompts[:, None], (*X.shape[:2], prompts.shape[1]))
    X = np.concatenate([X, prompts], axis=2) if prompts.shape[2] else X
    return activations(layout.layers(whole), X)


def user_gradients(
    layout: Layout, whole: np.ndarray, prompts: np.ndarray, rows: NetworkRows
) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients of users' mean losses, by all weights and by the prompts."""
    found = user_activations(layout, whole, prompts, rows.X)
    layers = layout.layers(whole)
    errors = (found[-1][:, :, 0] - rows.y) * rows.shares
    back = errors_of_layers(layers, found, errors[:, :, None])
    own = layers[0][:, layout.sizes[0] - prompts.shape[1] : -1]
    of_prompts = per_user.products(back[0], stacked(own), transpose_right=True)
    return _sums(layout, whole, found, back), per_user.totals(of_prompts)


def _sums(layout: Layout, whole, inputs: list, back: list) -> np.ndarray:
    """Return products of each layer's inputs and errors, in the places of weights."""
    out = empty_stack(*whole.shape)
    for view, *factors in zip(layout.layers(out), inputs, back, strict=False):
        view[...] = per_user.products(*factors, transpose_left=True)
    return out


def curvatures(
    layout: Layout, whole: np.ndarray, prompts: np.ndarray, rows: NetworkRows
) -> np.ndarray:
    """Return the diagonals of Gauss-Newton matrices: (n_users, n_parameters)."""
    found, ones = user_activations(layout, whole, prompts, rows.X), rows.y[:, :, None]
    ones = np.ones_like(ones)
    back = errors_of_layers(layout.layers(whole), found, ones)
    squares = [np.square(errors) * rows.shares[:, :, None] for errors in back]
    return _sums(layout, whole, list(map(np.square, found)), squares)


def chosen_support(
    layout: Layout, whole: np.ndarray, users: NetworkWeights, rows, k: int, ridge
) -> NetworkWeights:
    """Move each user's support to the k weights of largest gain in a Newton step."""
    each = np.arange(len(whole))[:, None]
    own = np.zeros(whole.shape)
    if users.support.shape[1]:
        own[each, users.support] = users.sparse
    penalty = (ridge / rows.counts)[:, None]
    gradient = user_gradients(layout, whole, users.prompts, rows)[0] + penalty * own
    curvature = curvatures(layout, whole, users.prompts, rows) + penalty
    # Hard-thresholding pursuit: the largest sqrt(D) |b - g / D| are taken.
    size = np.square(own - gradient / curvature) * curvature
    # What overflows is not worth it; NaN compares false.
    size = np.where(size < np.inf, size, -1.0)
    support = per_user.among_largest(size, k)
    return users._replace(support=support, sparse=own[each, support])


def project_gradients(gradients: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return each user's products with the columns of U: (n_users, rank)."""
    out = np.empty((len(gradients), U.shape[1]))
    for position, direction in enumerate(U.T):
        out[:, position] = per_user.totals(gradients * direction)
    return out
