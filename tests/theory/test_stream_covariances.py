"""Errors of running covariances: closed forms against simulation and by search."""

import numpy as np
import pytest
from benchmark_scripts import load

stream_covariance_error = load("rates").stream_covariance_error

N, D, S = 6, 2, 1.5
STEPS = np.arange(1, N + 1)


def variances(X):
    """Trace of the covariance of the first k rows, for each k."""
    means = np.cumsum(X, axis=0) / STEPS[:, None]
    squares = np.cumsum((X**2).sum(axis=1)) / STEPS
    return squares - (means**2).sum(axis=1)


def exact_error(X):
    """The statement of the lemma, for given rows."""
    noise = D * (D + 1) * S**4 * np.sum((STEPS - 1) / STEPS**2)
    return noise + 2 * (D + 1) * S**2 * np.sum(variances(X) / STEPS)


def covariances(rows, products):
    t = STEPS[:, None]
    means = np.cumsum(rows, axis=-2) / t
    second = np.cumsum(products, axis=-3) / t[:, :, None]
    return second - means[..., :, None] * means[..., None, :]


def outer(rows):
    return rows[..., :, None] * rows[..., None, :]


def simulated(X, n_streams, method):
    """Squared errors of streams, summed over steps."""
    rng = np.random.default_rng(0)
    noisy = X + S * rng.normal(size=(n_streams, N, D))
    unit = S**2 * np.eye(D)
    if method == "jme":
        # The free weight 1/2: variance 2 S^2 on the diagonal, and half of it off it.
        own = rng.normal(size=(n_streams, N, D, D)) * S
        own = (own + own.swapaxes(-1, -2)) / np.sqrt(2)
        found = covariances(noisy, outer(X) + own) + unit / STEPS[:, None, None]
    else:
        bias = ((STEPS - 1) / STEPS)[:, None, None] * unit
        found = covariances(noisy, outer(noisy)) - bias
    return ((found - covariances(X, outer(X))) ** 2).sum(axis=(1, 2, 3))


def alternating():
    return (-1.0) ** STEPS[:, None] * np.eye(D)[:1]


@pytest.mark.parametrize("rows", ["alternating", "random", "equal"])
def test_error_of_noisy_rows_is_the_stated_one(rows):
    """Within four standard errors: fails by chance once in 15 000."""
    X = np.random.default_rng(1).normal(size=(N, D))
    X = {
        "alternating": alternating(),
        "random": X / np.linalg.norm(X, axis=1, keepdims=True),
        "equal": np.tile(np.eye(D)[0], (N, 1)),
    }[rows]
    errors = simulated(X, 40_000, "pp-debiased")
    deviation = errors.std() / 200
    assert deviation < 0.02 * exact_error(X)
    assert abs(errors.mean() - exact_error(X)) < 4 * deviation


def test_joint_moments_are_worst_for_equal_rows():
    (most, same) = stream_covariance_error(N, D, S)
    assert most == same
    errors = simulated(np.tile(np.eye(D)[0], (N, 1)), 40_000, "jme")
    deviation = errors.std() / 200
    assert deviation < 0.02 * most
    assert abs(errors.mean() - most) < 4 * deviation
    assert simulated(alternating(), 4_000, "jme").mean() < most


def test_no_rows_are_beyond_the_bounds():
    """Ascent row by row, each set to where the error is largest, from many starts."""
    least, most = stream_covariance_error(N, D, S, method="pp-debiased")
    assert exact_error(alternating()) == pytest.approx(least, rel=1e-12)
    rng, best = np.random.default_rng(2), 0.0
    for _ in range(30):
        X = rng.normal(size=(N, D))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        for turn in range(40 * N):
            X[turn % N] = 0.0
            means = np.cumsum(X, axis=0) / STEPS[:, None] ** 3
            pull = -means[turn % N :].sum(axis=0)
            X[turn % N] = pull / np.linalg.norm(pull)
        best = max(best, exact_error(X))
    assert least <= best * (1 + 1e-12)
    assert best <= most


def test_a_theorem_in_print_is_true_but_wide():
    """Its interval for the worst rows holds ours, and not the error of all rows."""
    n, d, s = 30, 4, 4.0
    k = np.arange(1, n + 1)
    h1, h2, h3 = (np.sum(1.0 / k**m) for m in (1, 2, 3))
    printed = d * (d + 1) * s**4 * (h1 - h2) + 2 * (d + 1) * s**2 * h1
    least, most = stream_covariance_error(n, d, s, method="pp-debiased")
    assert printed - 2 * (d + 1) * s**2 * h3 < least < most < printed
    assert (round(least), round(most)) == (12671, 12679)
    equal = d * (d + 1) * s**4 * (h1 - h2)
    assert equal < printed - 2 * (d + 1) * s**2 * h3
