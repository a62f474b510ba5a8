"""Arithmetic of figures of Kalinin, Upadhyay and Lampert (2025), for the gallery.

Algorithms 4 to 6 are here as corrected: IME splits the budget between both moments, CS
bounds them as one vector, and PP squares rows that were released with noise.
"""

import numpy as np

from skdpspectral.factorizations import Average, NoiseGain, Window, factorize
from skdpspectral.sensitivity import free_moment_weight

FLOOR = 1e-2


def separate_moments_ratio(nu):
    """Return the squared sensitivity of two releases that are composed."""
    return 4.0 + 2.0 * nu


def concatenated_moments_ratio(nu):
    """Return the squared diameter of a ball of both moments as one vector."""
    return 4.0 * (1.0 + nu)


def truth(d, rng):
    """Draw a mean and a Wishart covariance with 2 d degrees of freedom."""
    roots = rng.normal(0, np.sqrt(0.5), (2 * d, d))
    return rng.normal(0, np.sqrt(0.5), d), roots.T @ roots


def noise(factorization, n, width, s, rng):
    """Return shaped noise for rows in the unit ball."""
    Z = s * factorization.column_norm * rng.normal(size=(n, width))
    return factorization.filter(width).push(Z)


def baseline_moments(method, X, factorization, mu, rng, *, weight=None, clip_norm=1.0):
    """Return prefix sums of rows and of their products, at a total cost of mu.

    `weight` is the share of the budget of the rows (IME), or the weight of the products
    relative to the rows (CS).
    """
    n, d = X.shape
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    X = X * np.minimum(1.0, clip_norm / np.maximum(lengths, 1e-300))
    nu, ratio = 0.0, 4.0
    if method == "IME":
        nu = 2.0 * (1.0 - weight) / weight
        ratio = separate_moments_ratio(nu)
    elif method == "CS":
        nu = weight * clip_norm**2
        ratio = concatenated_moments_ratio(nu)
    s = clip_norm * np.sqrt(ratio) / mu
    noisy = X + noise(factorization, n, d, s, rng)
    if nu:
        s2 = s * clip_norm / np.sqrt(nu)
        extra = noise(factorization, n, d * d, s2, rng).reshape(n, d, d)
        products = X[:, :, None] * X[:, None, :] + 0.5 * (
            extra + extra.transpose(0, 2, 1)
        )
    else:
        products = noisy[:, :, None] * noisy[:, None, :]
    if method == "PP, debiased":
        rows = NoiseGain(Window(1), factorization).push(n)  # of single rows
        bias = (s * factorization.column_norm) ** 2 * rows
        products = products - np.multiply.outer(bias, np.eye(d))
    return np.cumsum(noisy, axis=0), np.cumsum(products, axis=0)


def estimates(method, name, X, s, steps, rng):
    """Return means and covariances of some steps, as the figure's caption has them."""
    n, d = X.shape
    factorization = factorize(Average(), name, n)
    noisy = X + noise(factorization, n, d, s, rng)
    if method == "JME":
        products = X[:, :, None] * X[:, None, :]
        extra = np.sqrt(2) * noise(factorization, n, d * d, s, rng).reshape(n, d, d)
        products = products + 0.5 * (extra + extra.transpose(0, 2, 1))
    else:
        products = noisy[:, :, None] * noisy[:, None, :]
    if method == "PP, debiased":
        products = products - s**2 * np.eye(d)
    t = np.arange(1, n + 1)[:, None]
    means = np.cumsum(noisy, axis=0) / t
    covariances = np.cumsum(products, axis=0) / t[:, :, None]
    covariances = covariances - means[:, :, None] * means[:, None, :]
    values, vectors = np.linalg.eigh(covariances[steps - 1])
    values = np.maximum(values, FLOOR)[:, None, :]
    return means[steps - 1], (vectors * values) @ vectors.transpose(0, 2, 1)


def gaussian_kl(mean, covariance, true_mean, true_covariance):
    """Return the divergence of N(mean, covariance) from the true Gaussian."""
    precision = np.linalg.inv(true_covariance)
    shift, ratio = true_mean - mean, precision @ covariance
    excess = np.trace(ratio) - len(shift) - np.linalg.slogdet(ratio)[1]
    return 0.5 * (excess + shift @ precision @ shift)


def noise_kernels(workload, factorization, n):
    """Return sums over steps: of noise, of its products, squared, and of its bias."""
    A = workload.matrix(n)
    inverse = np.linalg.inv(factorization.matrix(n))
    Q = inverse @ inverse.T
    linear = np.einsum("ti,ij,tj->", A, np.abs(Q), A, optimize=True)
    square = np.einsum("ti,ij,tj->", A, Q**2, A, optimize=True)
    bias = np.sum((A @ np.diag(Q)) ** 2)
    core = NoiseGain(workload, factorization).push(n)
    plain = np.sum(core / workload.divisors(np.arange(1, n + 1)) ** 2)
    return plain, linear, square, bias


def second_moment_errors(workload, name, n, d, sigmas):
    """Return root errors of JME, PP and debiased PP for rows of norm 1."""
    factorization = factorize(workload, name, n)
    plain, linear, square, bias = noise_kernels(workload, factorization, n)
    s2 = (2 * sigmas * factorization.column_norm) ** 2
    jme = d**2 / free_moment_weight(d) * s2 * plain
    debiased = 2 * (d + 1) * s2 * linear + d * (d + 1) * s2**2 * square
    errors = {"JME": jme, "PP": debiased + d * s2**2 * bias, "PP, debiased": debiased}
    return {name: np.sqrt(error) for name, error in errors.items()}
