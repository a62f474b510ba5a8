"""Errors of private PCA over minimax rates, for the gallery."""

import numpy as np
from rates import minimax_rate

from skdpspectral import DPPCA, FederatedDPPCA, SparseDPPCA
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance

delta, signal, noise, seeds = 1e-6, 10.0, 1.0, range(4)


def over_rate(n, p, epsilon, center="none"):
    """Mean error of DPPCA over the rate of its setting."""
    errors = []
    for seed in seeds:
        X, truth = make_spiked_covariance(n, p, random_state=seed)
        pca = DPPCA(1, epsilon=epsilon, delta=delta, center=center).fit(X)
        errors.append(subspace_distance(pca.components_, truth))
    rate = minimax_rate(n, p, 1, signal, noise, epsilon)
    return np.mean(errors) / rate


def clients_over_rate(m, n, aggregation):
    """Mean error of m clients of n rows over the rate."""
    errors = []
    for seed in seeds:
        X, truth = make_spiked_covariance(n * m, 30, random_state=seed)
        pca = FederatedDPPCA(delta=delta, center="none", aggregation=aggregation)
        pca.set_params(n_components=1).fit(X, clients=np.repeat(np.arange(m), n))
        errors.append(subspace_distance(pca.components_, truth))
    return np.mean(errors) / minimax_rate([n] * m, 30, 1, signal, noise, 1.0)


def sparse_over_rate(p, s=10):
    """Mean error of SparseDPPCA over the rate, and the upper bound over it."""
    errors = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = np.zeros((1, p))
        truth[0, :s] = rng.choice([-1.0, 1.0], s) / np.sqrt(s)
        X = rng.normal(size=(20_000, p))
        X += np.sqrt(signal) * rng.normal(size=(20_000, 1)) * truth
        model = SparseDPPCA(1, n_nonzero_features=s, delta=delta, center="none").fit(X)
        errors.append(subspace_distance(model.components_, truth))
    model = (20_000, p, 1, signal, noise, 1.0, delta)
    rate = minimax_rate(*model, n_nonzero_features=s)
    upper = minimax_rate(*model, n_nonzero_features=s, bound="upper")
    return np.mean(errors) / rate, upper / rate
