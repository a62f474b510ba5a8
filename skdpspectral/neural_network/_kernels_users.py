r"""Networks of many users at once, whose weights are low rank plus sparse.

All weights of user i's network are one vector :math:`\theta_i = U w_i + b_i`, in the
order of :class:`~._kernels.Layout`. A user may have features of their own beside those
of the rows, the same in each row: a *prompt*.

Each function works on a part of a :class:`~.user_rows.Block`, without a loop over
users. It computes each user's numbers from that user's rows and U alone, with the same
bits in every part: all sums are by the kernels of ``per_user``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._linalg import per_user
from ._kernels import Layout, activated, slope

# Weights of users who are handled together, or values of their units: they stay in the
# cache.
_PART_NUMBERS = 1 << 18


class NetworkRows(NamedTuple):
    """Rows of some users.

    `X` has shape (n_users, height, n_features), where entries beyond a user's rows
    count as nothing; `y` and `shares` have shape (n_users, height). `shares` are 1 /
    count in a user's rows and 0 beyond them; `counts` are numbers of rows.
    """

    X: np.ndarray
    y: np.ndarray
    shares: np.ndarray
    counts: np.ndarray

    def some(self, chosen: np.ndarray) -> NetworkRows:
        """Return rows at some places, weighted for the mean over all."""
        whole = self.X.shape[1]
        shares = self.shares[:, chosen] * (whole / len(chosen))
        return NetworkRows(self.X[:, chosen], self.y[:, chosen], shares, self.counts)


class NetworkWeights(NamedTuple):
    """Parameters of the networks of some users.

    Weights w, prompts, and b: its positions `support` and its values `sparse`, both of
    shape (n_users, sparsity). Positions of values that are not zero differ.
    """

    weights: np.ndarray
    prompts: np.ndarray
    support: np.ndarray
    sparse: np.ndarray

    def take(self, chosen) -> NetworkWeights:
        """Return the parameters of some users."""
        return NetworkWeights(*(values[chosen] for values in self))


def in_parts(block, layout: Layout) -> list[slice]:
    """Return slices of a block's users that are computed together."""
    numbers = max(layout.n_parameters, block.X.shape[1] * max(layout.sizes))
    size = max(1, _PART_NUMBERS // numbers)
    return [slice(start, start + size) for start in range(0, len(block), size)]


def rows_of(
    block, part: slice, ridge_level: float | None
) -> tuple[NetworkRows, np.ndarray]:
    """Return the rows of some users of a block, and the users' levels.

    Targets are returned less the level. `ridge_level` is the penalty of levels, in
    rows; None stands for no levels.
    """
    counts = np.maximum(block.counts[part], 1)
    y = block.y[part]
    own = np.arange(y.shape[1]) < counts[:, None]
    levels = np.zeros(len(y))
    if ridge_level is not None:
        levels = per_user.totals(y) / (counts + ridge_level)
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
    """Return inputs of every layer, and outputs: (n_users, height, width) each."""
    n_users, height, d = X.shape
    inputs = per_user.stacked(X)
    if prompts.shape[1]:
        inputs = per_user.empty_stack(n_users, height, d + prompts.shape[1])
        inputs[:, :, :d] = X
        inputs[:, :, d:] = prompts[:, None]
    found, layers = [inputs], layout.layers(whole)
    for position, layer in enumerate(layers):
        values = per_user.products(found[-1], layer[:, :-1])
        values += layer[:, -1:]
        if position + 1 < len(layers):
            values = activated(values, "tanh")
        found.append(values)
    return found


class Gradients(NamedTuple):
    """Gradients of users' mean losses, by all weights and by the prompts."""

    whole: np.ndarray
    prompts: np.ndarray


def user_gradients(
    layout: Layout, whole: np.ndarray, prompts: np.ndarray, rows: NetworkRows
) -> Gradients:
    """Return the gradient of half of each user's mean squared error."""
    found = user_activations(layout, whole, prompts, rows.X)
    errors = (found[-1][:, :, 0] - rows.y) * rows.shares
    out = per_user.empty_stack(*whole.shape)
    walk = _layers_backwards(layout, whole, found, errors[:, :, None], out)
    for inputs, view, back in walk:
        view[:, :-1] = per_user.products(inputs, back, transpose_left=True)
        view[:, -1] = per_user.totals(back)
    q = prompts.shape[1]
    if not q:
        return Gradients(out, np.zeros((len(whole), 0)))
    own = np.ascontiguousarray(layout.layers(whole)[0][:, -1 - q : -1])
    of_prompts = per_user.products(back, own, transpose_right=True)
    return Gradients(out, per_user.totals(of_prompts))


def _layers_backwards(layout, whole, found, back, out) -> Iterator:
    """Yield inputs, places in `out`, and what comes back, of each layer from the last.

    `back`, of shape (n_users, height, 1), is what begins at the outputs.
    """
    layers, views = layout.layers(whole), layout.layers(out)
    for position in reversed(range(len(layers))):
        yield found[position], views[position], back
        if position:
            layer = np.ascontiguousarray(layers[position][:, :-1])
            back = per_user.products(back, layer, transpose_right=True)
            back *= slope(found[position], "tanh")


def curvatures(
    layout: Layout, whole: np.ndarray, prompts: np.ndarray, rows: NetworkRows
) -> np.ndarray:
    """Return each weight's mean squared derivative of the output.

    It has shape (n_users, n_parameters): the diagonal of the Gauss-Newton matrix.
    """
    found = user_activations(layout, whole, prompts, rows.X)
    out, ones = per_user.empty_stack(*whole.shape), np.ones((*rows.y.shape, 1))
    for inputs, view, back in _layers_backwards(layout, whole, found, ones, out):
        squares = np.square(back) * rows.shares[:, :, None]
        view[:, :-1] = per_user.products(
            np.square(inputs), squares, transpose_left=True
        )
        view[:, -1] = per_user.totals(squares)
    return out


def chosen_support(
    layout: Layout,
    whole: np.ndarray,
    users: NetworkWeights,
    rows: NetworkRows,
    k: int,
    ridge,
) -> NetworkWeights:
    r"""Move each user's support to the k weights of largest gain in a Newton step.

    A step of hard-thresholding pursuit: with the curvature D of a weight and its
    gradient g, those of largest :math:`\sqrt D |b - g / D|`. Weights that stay keep
    their values, and new ones start at zero. `ridge` is the penalty of b, in rows.
    Supports are in increasing order.
    """
    each = np.arange(len(whole))[:, None]
    own = np.zeros(whole.shape)
    if users.support.shape[1]:
        own[each, users.support] = users.sparse
    penalty = (ridge / rows.counts)[:, None]
    gradient = user_gradients(layout, whole, users.prompts, rows).whole + penalty * own
    curvature = curvatures(layout, whole, users.prompts, rows) + penalty
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


def predictions(
    layout: Layout, U: np.ndarray, users: NetworkWeights, X: np.ndarray
) -> np.ndarray:
    """Return each user's outputs for rows: (n_users, height)."""
    whole = whole_weights(U, users)
    return user_activations(layout, whole, users.prompts, X)[-1][:, :, 0]
