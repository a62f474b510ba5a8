"""Small figures that doc/papers.rst judges claims by, each with its setting.

    python examples/benchmarks/paper_claims.py [--only noise epsilon root sparse lung
                                                eigenvalues]

- noise: the epsilon up to which noise of variance 8 ln(2.5 / delta) / epsilon^2, as Cai
  et al. (2024) have it, is enough for half of epsilon and of delta.
- epsilon: what the DP-Adam settings of Kalinin et al. (2025), table 3, cost at 50,000
  images and delta = 1e-6, by exact accounting of Poisson samples; beside it, the cost
  of JME with the noise that is printed.
- root: error of debiased postprocessing (their lemma 3.8) with the square root over
  that without a factorization, for equal and for orthogonal rows of norm 1; prefix
  sums, n = 1000.
- sparse: errors of SparseDPPCA and both rates of Ge et al. (2018), theorem 4.3, at 50
  and 400 features of which ten count; 20,000 rows, signal 10, epsilon 1, delta 1e-6.
- lung: share of the variance of the 251 genes of Li et al. (2024), section 4.2, that
  five components keep without privacy: of plain PCA, of PCA of unit rows, and of each
  client alone, over 20 splits. It needs the data in the folder of SKDPSPECTRAL_DATA.
- eigenvalues: covariance errors of Li et al., algorithm 1 in the setting of figure 1d
  with N = 1000, with noise for the root of the sum of squares, as they print it, and
  for the sum, as in lemma 4 of Cai et al. (2024); 25 repeats.
"""

import argparse

import numpy as np
from rates import minimax_rate
from real_tables import load_gordon2002
from scipy.linalg import toeplitz
from scipy.stats import kstest, zscore
from tables import ignore_leak_warnings, print_row, with_error

from skdpspectral import DPAdamClassifier, SparseDPPCA
from skdpspectral.accounting import gaussian_mu
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.metrics import subspace_distance
from skdpspectral.neural_network import Adam


def print_noise():
    """Print how far the classical noise is enough."""
    for delta in (0.1, 1e-3, 1e-6):
        epsilons = np.arange(0.1, 40.0, 0.1)
        allowed = np.array([gaussian_mu(e / 2, delta / 2) for e in epsilons])
        enough = epsilons / np.sqrt(8 * np.log(2.5 / delta)) <= allowed
        largest = epsilons[np.argmin(enough) - 1]
        print_row("noise", f"delta {delta:g}", f"up to {largest:.1f}")


def print_epsilon():
    """Print what the settings of table 3 cost."""
    given = {"moments": "jme", "moment_weight": 1.0, "neighbors": "zero-out-one"}
    for batch_size, noise, printed in ((256, 1.0, 1.7), (1, 2.0, 0.16)):
        found = []
        for factor in (1.0, 0.75):  # 1.061 over 1.414: the printed noise of JME
            adam = Adam(noise_multiplier=factor * noise, **given)
            model = DPAdamClassifier(
                (), classes=[0, 1], batch_size=batch_size, optimizer=adam
            )
            found.append(round(model.privacy_plan(50_000, 10).epsilon, 4))
        print_row("epsilon", f"batches of {batch_size}", f"printed {printed}", *found)


def print_root(n=1000):
    """Print error with the square root over that without a factorization."""
    A, trivial = np.tril(np.ones((n, n))), np.eye(n)
    k = np.arange(1, n)
    root = np.tril(toeplitz(np.cumprod(np.r_[1.0, (2 * k - 1) / (2 * k)])))

    def error(C, d, sigma, of_rows):
        inverse = np.linalg.inv(C)
        Q, G, scale = inverse @ inverse.T, A.T @ A, np.linalg.norm(C, axis=0).max()
        noise = 16 * d * (d + 1) * sigma**4 * scale**4 * np.trace(G @ (Q * Q))
        return noise + 8 * (d + 1) * sigma**2 * scale**2 * of_rows(G * Q)

    for d in (1, 10, 100, 1000):
        for sigma in (0.01, 0.1, 0.5):
            ratios = [
                np.sqrt(error(root, d, sigma, rows) / error(trivial, d, sigma, rows))
                for rows in (np.sum, np.trace)
            ]
            print_row("root", f"d={d}, noise {sigma}", *np.round(ratios, 3))


def print_sparse(repeats=12, n=20_000, s=10, signal=10.0):
    """Print errors and rates at 50 and at 400 features."""
    for p in (50, 400):
        errors = []
        for seed in range(repeats):
            rng, truth = np.random.default_rng(seed), np.zeros((1, p))
            truth[0, :s] = rng.choice([-1.0, 1.0], s) / np.sqrt(s)
            X = rng.normal(size=(n, p))
            X += np.sqrt(signal) * rng.normal(size=(n, 1)) * truth
            model = SparseDPPCA(1, n_nonzero_features=s, center="none").fit(X)
            errors.append(subspace_distance(model.components_, truth))
        given = (n, p, 1, signal, 1.0, 1.0, 1e-6)
        rates = [
            f"{bound} {minimax_rate(*given, n_nonzero_features=s, bound=bound):.4f}"
            for bound in ("lower", "upper")
        ]
        print_row("sparse", f"p={p}", with_error(errors), *rates)


def print_lung():
    """Print shares of the variance without privacy."""
    data = load_gordon2002(units="raw").data
    statistic = kstest(zscore(data), "norm", axis=0).statistic
    rows = zscore(data[:, np.argsort(-statistic)[:251]])

    def components(own):
        return np.linalg.svd(own, full_matrices=False)[2][:5].T

    def share(basis):
        return np.sum(np.square(rows @ basis)) / rows.size

    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    print_row("lung", "plain PCA", f"{share(components(rows)):.3f}")
    print_row("lung", "PCA of unit rows", f"{share(components(unit)):.3f}")
    for name, part in (("first", slice(130)), ("second", slice(130, None))):
        found = []
        for seed in range(20):
            own = np.random.default_rng(seed).permutation(rows)[part]
            found.append(share(components(own - own.mean(axis=0))))
        print_row("lung", f"{name} client alone", with_error(found, 3))


def print_eigenvalues(repeats=25, p=50, signal=10.0, n=1000):
    """Print covariance errors with both forms of the noise of eigenvalues."""
    sizes = np.repeat([2 * n, 20 * n], 5)
    found = {"root of squares": [], "sum": []}
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        epsilons, deltas = rng.uniform(0.1, 0.3, 10), rng.uniform(0.1, 0.2, 10)
        X, truth = make_spiked_covariance(sizes.sum(), p, random_state=seed)
        moments = [
            part.T @ part / len(part) for part in np.split(X, np.cumsum(sizes)[:-1])
        ]
        logs, cost = 1.0 + np.log(sizes), 8 * np.log(2.5 / deltas) / epsilons**2
        ratio = 1.0 / signal
        alphas = np.sqrt(cost * ratio * (ratio + 1.0) * p * logs) / sizes
        errors = np.sqrt(p / sizes) + p / sizes * np.sqrt(
            logs * np.log(2.5 / deltas) / epsilons**2
        )
        average = sum(
            noisy_projector(moment, alpha, rng) / error**2
            for moment, alpha, error in zip(moments, alphas, errors, strict=True)
        )
        u = np.linalg.eigh(average)[1][:, -1]
        values = np.array([u @ moment @ u - 1.0 for moment in moments])
        parts = signal * logs, np.full(10, float(p))
        betas = {"root of squares": np.hypot(*parts), "sum": parts[0] + parts[1]}
        noise = np.sqrt(2.0) * rng.standard_normal(10)
        squares = (signal**2 + 1) / sizes + cost * (
            betas["root of squares"] / sizes
        ) ** 2
        for name, beta in betas.items():
            noisy = values + np.sqrt(cost) * beta / sizes * noise
            eigenvalue = np.average(noisy, weights=1.0 / squares)
            difference = eigenvalue * np.outer(u, u) - signal * truth.T @ truth
            found[name].append(np.linalg.norm(difference))
    for name, values in found.items():
        print_row("eigenvalues", name, with_error(values))


def noisy_projector(moment, alpha, rng):
    """Return the projector of a client, as printed, by its largest eigenvalue."""
    u, p = np.linalg.eigh(moment)[1][:, -1], len(moment)
    noise = np.tril(rng.standard_normal((p, p)), -1)
    noise += noise.T + np.diag(np.sqrt(2.0) * rng.standard_normal(p))
    u = np.linalg.eigh(np.outer(u, u) + alpha * noise)[1][:, -1]
    return np.outer(u, u)


CLAIMS = {
    "noise": print_noise,
    "epsilon": print_epsilon,
    "root": print_root,
    "sparse": print_sparse,
    "lung": print_lung,
    "eigenvalues": print_eigenvalues,
}


def main():
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(CLAIMS), default=list(CLAIMS))
    ignore_leak_warnings()
    for name in parser.parse_args().only:
        CLAIMS[name]()


if __name__ == "__main__":
    main()
