"""Networks of many users at once: right gradients, and the same bits in any company."""

import numpy as np
import pytest

from skdpspectral._linalg import per_user
from skdpspectral.neural_network import _kernels as networks
from skdpspectral.neural_network._kernels import Layout, NetworkWeights


def block_of(rng, counts, d):
    """A block of users, padded to one height."""
    codes = np.repeat(np.arange(len(counts)), counts)
    X, y = rng.standard_normal((len(codes), d)), rng.standard_normal(len(codes))
    return per_user.GroupedRows(X, y, codes, len(counts))


def some_networks(rng, n_users, layout, rank=2, k=3, prompt_size=0):
    p = layout.n_parameters
    support = [np.sort(rng.choice(p, k, replace=False)) for _ in range(n_users)]
    return NetworkWeights(
        rng.standard_normal((n_users, rank)),
        rng.standard_normal((n_users, prompt_size)),
        np.array(support).reshape(n_users, k),
        rng.standard_normal((n_users, k)),
        np.zeros(n_users),
    )


def problem(seed, counts, sizes, q):
    rng, layout = np.random.default_rng(seed), Layout(sizes)
    (block,) = block_of(rng, counts, sizes[0] - q).blocks()
    users = some_networks(rng, len(counts), layout, prompt_size=q)
    U = rng.standard_normal((layout.n_parameters, 2))
    rows, _ = networks.rows_of(block, slice(None), False)
    return layout, users, rows, networks.whole_weights(U, users)


def loss(layout, whole, prompts, rows):
    out = networks.user_activations(layout, whole, prompts, rows.X)[-1][:, :, 0]
    return 0.5 * (rows.shares * (out - rows.y) ** 2).sum(axis=1)


CASES = [((3, 1), 0), ((4, 5, 1), 0), ((6, 5, 1), 2), ((5, 4, 3, 1), 1)]


@pytest.mark.parametrize(("sizes", "q"), CASES)
def test_gradients_are_those_of_the_loss(sizes, q):
    layout, users, rows, whole = problem(0, [10, 9, 10], sizes, q)
    found, of_prompts = networks.user_gradients(layout, whole, users.prompts, rows)
    step = 1e-6
    for j in range(layout.n_parameters):
        moved = [whole.copy() for _ in range(2)]
        moved[0][:, j] += step
        moved[1][:, j] -= step
        up, down = (loss(layout, m, users.prompts, rows) for m in moved)
        np.testing.assert_allclose(
            found[:, j], (up - down) / (2 * step), rtol=1e-6, atol=1e-8
        )
    for j in range(q):
        moved = [users.prompts.copy() for _ in range(2)]
        moved[0][:, j] += step
        moved[1][:, j] -= step
        up, down = (loss(layout, whole, m, rows) for m in moved)
        np.testing.assert_allclose(
            of_prompts[:, j], (up - down) / (2 * step), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize(("sizes", "q"), CASES)
def test_curvatures_are_squares_of_derivatives(sizes, q):
    layout, users, rows, whole = problem(1, [3, 3], sizes, q)
    found = networks.curvatures(layout, whole, users.prompts, rows)
    step = 1e-6

    def outputs(weights):
        return networks.user_activations(layout, weights, users.prompts, rows.X)[-1][
            ..., 0
        ]

    for j in range(layout.n_parameters):
        moved = [whole.copy() for _ in range(2)]
        moved[0][:, j] += step
        moved[1][:, j] -= step
        slopes = (outputs(moved[0]) - outputs(moved[1])) / (2 * step)
        expected = (rows.shares * slopes**2).sum(axis=1)
        np.testing.assert_allclose(found[:, j], expected, rtol=1e-6, atol=1e-8)


def test_the_support_is_that_of_a_newton_step():
    """Of a linear network with uncorrelated features, the best k weights at once."""
    rng = np.random.default_rng(4)
    d, k = 8, 3
    layout = Layout((d, 1))
    X = np.linalg.qr(rng.standard_normal((20, d)))[0]
    X = np.linalg.qr(np.column_stack([np.ones(20), X]))[0][:, 1:] * np.sqrt(20)
    truth = np.array([0, 3.0, 0, -2.0, 0.1, 0, 0, 1.0])
    rows = per_user.GroupedRows(X, X @ truth, np.zeros(20, int), 1)
    (block,) = rows.blocks()
    rows, _ = networks.rows_of(block, slice(None), False)
    b = np.array([[0, 4]]), np.array([[0.5, 0.1]])
    users = NetworkWeights(np.zeros((1, 0)), np.zeros((1, 0)), *b, np.zeros(1))
    whole = networks.whole_weights(np.zeros((d + 1, 0)), users)
    found = networks.chosen_support(layout, whole, users, rows, k, 0.0)
    assert found.support.tolist() == [[1, 3, 7]]
    assert found.sparse.tolist() == [[0.0, 0.0, 0.0]]
    again = networks.chosen_support(layout, whole, users, rows, 4, 0.0)
    assert again.support.tolist() == [[1, 3, 4, 7]]
    assert again.sparse.tolist() == [[0.0, 0.0, 0.1, 0.0]]


def numbers_of(rows, code, U, users, layout):
    """All that the kernels compute of one user."""
    (block,) = [b for b in rows.blocks() if code in b.users]
    place = int(np.flatnonzero(block.users == code)[0])
    part = slice(max(0, place - 2), place + 3)
    some, levels = networks.rows_of(block, part, True)
    own = users.take(block.users[part])
    whole = networks.whole_weights(U, own)
    gradients, of_prompts = networks.user_gradients(layout, whole, own.prompts, some)
    moved = networks.chosen_support(layout, whole, own, some, 5, 2.0)
    found = {
        "levels": levels,
        "weights": whole,
        "outputs": networks.user_activations(layout, whole, own.prompts, some.X)[-1],
        "gradients": gradients,
        "of prompts": of_prompts,
        "along U": networks.project_gradients(gradients, U),
        "curvatures": networks.curvatures(layout, whole, own.prompts, some),
        "support": moved.support,
        "sparse": moved.sparse,
    }
    i = int(np.flatnonzero(block.users[part] == code)[0])
    return {name: value[i].copy() for name, value in found.items()}


@pytest.mark.parametrize("seed", range(12))
def test_a_user_has_the_same_bits_in_any_company(seed):
    rng = np.random.default_rng(seed)
    d, q = int(rng.integers(1, 40)), int(rng.integers(0, 3))
    hidden = [int(n) for n in rng.integers(1, 51, rng.integers(0, 3))]
    layout, m = Layout((d + q, *hidden, 1)), int(rng.integers(1, 60))
    rank = int(rng.integers(0, 4))
    X, y = rng.standard_normal((m, d)), rng.standard_normal(m)
    U = rng.standard_normal((layout.n_parameters, rank))
    me = some_networks(rng, 1, layout, rank, 1, q)
    alone = per_user.GroupedRows(X, y, np.zeros(m, int), 1)
    expected = numbers_of(alone, 0, U, me, layout)
    for t in (2, 5, 9):
        counts = [m if rng.random() < 0.7 else int(n) for n in rng.integers(1, 60, t)]
        code = int(rng.integers(t))
        counts[code] = m
        codes = np.repeat(np.arange(t), counts)
        all_X = rng.standard_normal((len(codes), d))
        all_y = rng.standard_normal(len(codes))
        all_X[codes == code], all_y[codes == code] = X, y
        users = some_networks(rng, t, layout, rank, 1, q)
        for everybody, own in zip(users, me, strict=True):
            everybody[code] = own[0]
        rows = per_user.GroupedRows(all_X, all_y, codes, t)
        found = numbers_of(rows, code, U, users, layout)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_the_support_is_by_the_own_number_of_rows():
    """Penalties in rows weigh less with more of them, and not with those of others."""
    rng = np.random.default_rng(11)
    layout, counts = Layout((5, 3, 1)), [17, 20] * 200
    (block,) = block_of(rng, counts, 5).blocks()
    users = some_networks(rng, 400, layout)
    U = rng.standard_normal((layout.n_parameters, 2))
    rows, _ = networks.rows_of(block, slice(None), False)
    whole = networks.whole_weights(U, users)
    found = networks.chosen_support(layout, whole, users, rows, 6, 40.0)
    own = np.zeros_like(whole)
    np.put_along_axis(own, users.support, users.sparse, axis=1)
    penalty = 40.0 / np.array(counts)[:, None]
    slope = networks.user_gradients(layout, whole, users.prompts, rows)[0]
    slope = slope + penalty * own
    curve = networks.curvatures(layout, whole, users.prompts, rows) + penalty
    gains = np.sqrt(curve) * np.abs(own - slope / curve)
    largest = np.sort(np.argsort(-gains, axis=1)[:, :6], axis=1)
    np.testing.assert_array_equal(found.support, largest)
