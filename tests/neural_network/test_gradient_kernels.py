"""Gradients by their factors: against differences, PyTorch, and any company."""

import numpy as np
import pytest
from forked_python import run_tests_on

from skdpspectral._linalg.walks import blas_threads
from skdpspectral.neural_network import Adam
from skdpspectral.neural_network import _kernels as networks
from skdpspectral.neural_network._adam import MOMENTS, Optimization


def moments_of(p, n, size, clip_norm, moments, **given):
    """One epoch of batches of a size of n examples."""
    adam = Adam(moments=moments, **given)
    how = {"batch_size": size, "n_epochs": 1, "clip_norm": clip_norm}
    return Optimization(adam, p, n, **how)


SHAPES = [(5, 1), (5, 3), (4, 7, 1), (4, 6, 5, 3)]
LOSSES = ["squared", "logistic", "softmax"]


def full_gradients(factors):
    """Return every example's gradient in full: (n, n_parameters)."""
    parts = []
    for inputs, errors in zip(factors.inputs, factors.errors, strict=True):
        parts.append((inputs[:, :, None] * errors[:, None]).reshape(len(inputs), -1))
    return np.hstack(parts)


def problem(sizes, loss, n=40, seed=0):
    """A layout, its parameters, rows, and targets of a kind that the loss takes."""
    rng = np.random.default_rng(seed)
    layout = networks.Layout(sizes)
    parameters = rng.standard_normal(layout.n_parameters)
    X = rng.standard_normal((n, sizes[0])) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    targets = rng.standard_normal((n, sizes[-1]))
    if loss == "logistic":
        targets = (targets > 0.0).astype(float)
    elif loss == "softmax":
        targets = (targets == targets.max(axis=1, keepdims=True)).astype(float)
    return layout, parameters, X, targets


def factors_of(layout, parameters, X, targets, loss):
    layers = layout.layers(parameters)
    return networks.gradient_factors(layers, X, targets, loss)


def loss_of(layout, parameters, X, targets, loss):
    """The loss of each example, by plain matrices."""
    values = X
    layers = layout.layers(parameters)
    for layer in layers[:-1]:
        values = np.tanh(values @ layer[:-1] + layer[-1])
    out = values @ layers[-1][:-1] + layers[-1][-1]
    if loss == "squared":
        return 0.5 * np.square(out - targets).sum(axis=1)
    if loss == "logistic":
        return (np.logaddexp(0.0, out) - targets * out).sum(axis=1)
    return np.logaddexp.reduce(out, axis=1) - (targets * out).sum(axis=1)


@pytest.mark.parametrize("moments", ["jme", "pp"])
@pytest.mark.parametrize("clip_norm", [1e-30, 1e-8, 1e-4, 1.0])
def test_no_square_vanishes_beside_a_large_factor(moments, clip_norm):
    # The target is so small that its square is none, the row so large that they are
    # no small gradient together.
    planned = moments_of(2, 100, 1, clip_norm, moments, neighbors="zero-out-one")
    for size in 10.0 ** np.arange(5, 154, 12):
        for length in clip_norm * 10.0 ** np.arange(-8.0, 30.0, 2):
            with np.errstate(all="ignore"):
                row = planned.row(
                    [
                        networks.gradient_factors(
                            networks.Layout((1, 1)).layers(np.zeros(2)),
                            np.array([[size]]),
                            np.array([[length / size]]),
                            "squared",
                        )
                    ]
                )
            scaled = row / planned.added
            assert np.linalg.norm(scaled) <= 1.0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_gradients_are_those_of_the_loss(sizes, loss):
    given = problem(sizes, loss, n=12)
    layout, parameters, X, targets = given
    full = full_gradients(factors_of(*given, loss))
    step = 1e-5
    for place in range(layout.n_parameters):
        sides = []
        for sign in (1.0, -1.0):
            moved = parameters.copy()
            moved[place] += sign * step
            sides.append(loss_of(layout, moved, X, targets, loss))
        slope = (sides[0] - sides[1]) / (2 * step)
        np.testing.assert_allclose(full[:, place], slope, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_norms_and_sums_are_those_of_gradients_in_full(sizes, loss):
    factors = factors_of(*problem(sizes, loss), loss)
    full = full_gradients(factors)
    weights = np.random.default_rng(1).random(len(full))
    squares, fit = factors.squared_norms()
    assert fit.all()
    np.testing.assert_allclose(squares, (full**2).sum(1), rtol=1e-10)
    for power in (1, 2):
        total = np.zeros(full.shape[1])
        factors.weighted_sum(weights, total, power)
        np.testing.assert_allclose(total, weights @ full**power, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("power", [1, 2])
def test_no_more_examples_are_added_at_once_than_is_charged_for(power):
    given = problem((4, 6, 3), "softmax", n=networks.BLOCK_EXAMPLES - 5)
    factors = factors_of(*given, "softmax")
    weights = np.random.default_rng(2).random(len(given[2]))
    found, expected = np.zeros((2, given[0].n_parameters))
    factors.weighted_sum(weights, found, power)
    for start in range(0, len(weights), networks.SUMMED):
        some = slice(start, start + networks.SUMMED)
        part = networks.Factors(*([side[some] for side in both] for both in factors))
        part.weighted_sum(weights[some], expected, power)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("place", ["input", "error"])
def test_an_example_of_a_factor_that_is_too_long_does_not_fit(place):
    for size, fits in ((0.99, True), (1.01, False)):
        long = np.array([[size * networks.LARGEST], [1.0]])
        sides = (long, np.ones((2, 1)))
        factors = networks.Factors(
            *([s] for s in sides[:: 1 if place == "input" else -1])
        )
        np.testing.assert_array_equal(factors.squared_norms()[1], [fits, True])


@pytest.mark.parametrize("kind", MOMENTS)
def test_rows_of_factors_are_those_of_gradients_in_full(kind):
    given = problem((4, 6, 5, 3), "softmax", n=600)
    factors = factors_of(*given, "softmax")
    moments = moments_of(given[0].n_parameters, 2000, 300, 0.7, kind)
    found = moments.row([factors])
    full = moments.row_of_gradients(full_gradients(factors))
    np.testing.assert_allclose(found, full, rtol=1e-10, atol=1e-13)


def test_what_is_made_of_an_example_has_the_same_bits_in_any_company():
    rng = np.random.default_rng(0)
    # With several layers and outputs, errors come back through sums too.
    # The last one is of the size from which a BLAS would use several threads.
    networks_of = {
        (5, 3): "softmax",
        (9, 7, 1): "logistic",
        (6, 9, 8, 7): "softmax",
        (1, 1): "squared",
        (90, 120, 2): "logistic",
    }
    for sizes, loss in networks_of.items():
        layout, parameters, X, targets = problem(sizes, loss, n=50)
        X[3], X[4] = 1e200, 0.0  # whom others must not notice
        alone = {}
        for size in (1, 2, 3, 7, 8, 31, 50):
            for _ in range(4):
                chosen = rng.permutation(50)[:size]
                rows = np.asfortranarray(X[chosen]) if size % 2 else X[chosen]
                # The weights lie elsewhere too, as they may in another fit.
                memory = np.empty(len(parameters) + 8)[rng.integers(8) :]
                weights = memory[: len(parameters)]
                weights[:] = parameters
                with blas_threads(0), np.errstate(all="ignore"):
                    part = factors_of(layout, weights, rows, targets[chosen], loss)
                    numbers = [*part.inputs, *part.errors, *part.squared_norms()]
                for place, example in enumerate(chosen):
                    bits = [np.array(n[place]).tobytes() for n in numbers]
                    assert alone.setdefault(int(example), bits) == bits


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["Prescott", "Nehalem", "Haswell"])
def test_bits_do_not_depend_on_company_on_older_processors(kernels):
    run_tests_on(kernels, __file__, "in_any_company")


def test_an_example_whose_gradient_is_not_finite_counts_as_zero():
    layout, parameters, X, targets = problem((5, 4, 1), "squared", n=9)
    moments = moments_of(layout.n_parameters, 9, 9, 1.0, "jme")
    X[2], X[5] = 1e300, 1e-300
    targets[7] = 1e200
    with np.errstate(all="ignore"):
        factors = factors_of(layout, parameters, X, targets, "squared")
        row = moments.row([factors])
        others = [0, 1, 3, 4, 5, 6, 8]
        rest = (layout, parameters, X[others], targets[others])
        expected = moments.row([factors_of(*rest, "squared")])
    assert np.isfinite(row).all()
    np.testing.assert_allclose(row, expected, rtol=1e-12, atol=1e-15)


def test_clipped_means_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    sizes, clip = (6, 8, 4), 0.5
    layout, parameters, X, targets = problem(sizes, "softmax", n=30)
    factors = factors_of(layout, parameters, X, targets, "softmax")
    moments = moments_of(layout.n_parameters, 30, 30, clip, "jme")
    found = moments.row([factors])[0] / np.repeat(
        [1.0, moments.weight], layout.n_parameters
    )
    layers = [
        torch.tensor(layer, requires_grad=True) for layer in layout.layers(parameters)
    ]
    clipped = []
    for x, target in zip(X, targets, strict=True):
        values = torch.tensor(x)
        for layer in layers[:-1]:
            values = torch.tanh(values @ layer[:-1] + layer[-1])
        out = values @ layers[-1][:-1] + layers[-1][-1]
        label = torch.tensor(int(target.argmax()))
        loss = torch.nn.functional.cross_entropy(out, label)
        parts = torch.autograd.grad(loss, layers)
        gradient = np.concatenate([part.numpy().ravel() for part in parts])
        clipped.append(gradient * min(1.0, clip / np.linalg.norm(gradient)))
    expected = np.hstack(
        [np.mean(clipped, axis=0), np.mean(np.square(clipped), axis=0)]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
