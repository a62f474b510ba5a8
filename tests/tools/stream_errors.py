"""Closed forms of the errors of streams, and their Monte Carlo estimates.

Run as a script, it prints the ratio of one to the other for many settings::

    python tests/tools/stream_errors.py --fits 2000
"""

import argparse

import numpy as np

from skdpspectral import JMECovariance
from skdpspectral.covariance import Exponential, JointMoments, Window

N, D, CLIP = 12, 5, 2.0
SETTINGS = {
    # Theorem 3.3, with symmetric noise.
    "jme": {},
    "jme, prefix, trivial": {"workload": "prefix", "factorization": "trivial"},
    "jme, exponential, sqrt": {"workload": Exponential(0.8), "factorization": "sqrt"},
    "jme, window, bisr": {"workload": Window(4), "factorization": "bisr"},
    # Weights and noise of their own for each moment.
    "two workloads": {
        "workload": Window(3),
        "moments": JointMoments(
            second_workload=Exponential(0.8), second_factorization="blt"
        ),
        "factorization": "sqrt",
    },
    "two shapes of noise": {
        "factorization": "trivial",
        "moments": JointMoments(second_factorization="sqrt"),
    },
    # Lambda-JME.
    "lambda-jme": {"moments": JointMoments(weight=3.0 / CLIP**2)},
}


def data():
    """Rows of norm CLIP, so that errors that depend on them are large."""
    X = np.random.default_rng(0).normal(size=(N, D))
    return CLIP * X / np.linalg.norm(X, axis=1, keepdims=True)


def model_of(parameters, epsilon=3.0, **more):
    return JMECovariance(epsilon, clip_norm=CLIP, **parameters, **more)


def paths(model, X):
    """First and second moments and unprojected covariances of all steps."""
    stream = model._moment_stream(*X.shape)
    (run,) = model._begin(stream)
    (moments,) = list(run.path(X))
    found = moments.at(np.arange(len(X)))
    return found.first, found.second, found.covariance


def weight_of(parameters):
    return parameters.get("moments", JointMoments()).weight


def scales(parameters, mu, d=D):
    """Deviations of both noises before shaping, per unit of |C|: from the paper."""
    weight, sigma = weight_of(parameters), 1 / mu
    if weight != "free":
        nu = weight * CLIP**2
        s = CLIP * (2 + 2 * nu + 0.5 / nu) ** 0.5 * sigma
        return s, s / weight**0.5
    return 2 * CLIP * sigma, 2 * 2**0.5 * CLIP**2 * sigma


def closed_forms(parameters, X):
    """Expected squared errors, summed over steps: first, second, covariance."""
    model = model_of(parameters)
    stream = model._moment_stream(*X.shape)
    C, C2 = (shape.matrix(N) for shape in stream.shapes)
    A, A2 = stream.first_workload.matrix(N), stream.workload.matrix(N)
    plan = model.privacy_plan(*X.shape)
    norm, norm2 = (np.linalg.norm(c, axis=0).max() for c in (C, C2))
    s, s2 = scales(parameters, plan.mu)
    s *= norm
    inverse, inverse2 = np.linalg.inv(C), np.linalg.inv(C2)
    first = D * s**2 * ((A @ inverse) ** 2).sum()
    s2 *= norm2
    second = D * (D + 1) / 2 * s2**2 * ((A2 @ inverse2) ** 2).sum(axis=1)
    # Theorem 4.1: the noise of the mean enters twice.
    T = A2.sum(axis=1)
    mean = (A2 @ X) / T[:, None]
    v = s**2 * ((A2 @ inverse) ** 2).sum(axis=1) / T**2
    covariance = second / T**2 + 2 * (D + 1) * (mean**2).sum(axis=1) * v
    covariance += D * (D + 1) * v**2
    return first, second.sum(), covariance.sum()


def ratios(name, n_fits, seed=0):
    """Monte Carlo over closed form, with standard errors: (ratio, error) a moment."""
    parameters, X = SETTINGS[name], data()
    wanted = closed_forms(parameters, X)
    stream = model_of(parameters)._moment_stream(N, D)
    A, A2 = stream.first_workload.matrix(N), stream.workload.matrix(N)
    products = X[:, :, None] * X[:, None, :]
    T = A2.sum(axis=1)
    mean = A2 @ X / T[:, None]
    second = np.einsum("ti,ijk->tjk", A2, products)
    exact = A @ X, second, second / T[:, None, None] - mean[:, :, None] * mean[:, None]
    errors = np.empty((n_fits, 3))
    noise_seed = np.random.RandomState(seed)
    for row in errors:
        found = paths(model_of(parameters, noise_seed=noise_seed), X)
        row[:] = [((f - e) ** 2).sum() for f, e in zip(found, exact, strict=True)]
    return [
        (sample.mean() / want, sample.std() / want / n_fits**0.5)
        for sample, want in zip(errors.T, wanted, strict=True)
    ]


def main():
    """Print all ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=2000)
    n_fits = parser.parse_args().fits
    print(f"Monte Carlo over closed form, {n_fits} streams each (standard error)")
    for name in SETTINGS:
        cells = [f"{ratio:.4f} ({error:.4f})" for ratio, error in ratios(name, n_fits)]
        print(f"{name:26}", *cells)


if __name__ == "__main__":
    main()
