"""Small figures that doc/papers.rst judges claims by, each with its setting.

    python examples/benchmarks/paper_claims.py [--only noise slopes ...]

Errors of components are Frobenius distances of projectors, with standard errors.

- noise: the epsilon up to which noise of variance 8 ln(2.5 / delta) / epsilon^2, as Cai
  et al. (2024) have it, is enough for half of epsilon and of delta.
- slopes: logarithmic slopes of the error of algorithm 1 of Cai et al. (constant of 1,
  signal 10, epsilon 1, delta 1e-5), and of their upper bound, from 10,000 to 160,000
  rows of 30 features, and from 20 to 160 features of 40,000 rows; 5 repeats.
- ranks: the same error over the upper bound for 1 to 8 components, whose signals are
  all equal: 40,000 rows of 50 features.
- clients: errors of 1 to 64 clients of 1,000 rows over the rate of Li et al. (2024),
  theorem 1, by default and with the noise of algorithm 1; 30 features, epsilon 1, delta
  1e-6 (algorithm 1: 0.1), 4 repeats.
- robust: error of a client with 20,000 rows alone, then beside nine clients with 100
  rows, by weights; and of 100 and 400 clients with 100 rows; figure 1's epsilon 0.5.
- epsilon: what the DP-Adam settings of Kalinin et al. (2025), table 3, cost at 50,000
  images and delta = 1e-6, by exact accounting of Poisson samples; beside it, the cost
  of JME with the noise that is printed.
- root: error of debiased postprocessing (their lemma 3.8) with the square root over
  that without a factorization, for equal and for orthogonal rows of norm 1; prefix
  sums, n = 1000.
- streams: arithmetic of Kalinin et al.: error of the second moment at the free weight
  with and without symmetric noise, and figure 1 (d = 10, n = 100, noise 0.5, prefix
  sums); what one example of 256 adds to squares of a sum; the epsilon of algorithm 4 as
  printed where 1 is meant; the noise from which JME is better than PP (figure 2, d =
  1000, and 1); bounds of theorem 4.2 (d = 4, n = 30, noise 4), theirs and ours.
- sparse: errors of SparseDPPCA and both rates of Ge et al. (2018), theorem 4.3, at 50
  and 400 features of which ten count; 20,000 rows, signal 10, epsilon 1, delta 1e-6.
- lung: share of the variance of the 251 genes of Li et al. (2024), section 4.2, that
  five components keep: without privacy, of plain PCA, of PCA of unit rows, and of each
  client alone; and by algorithm 1 as printed and with rows centered by client; 20
  splits. It needs the data in the folder of SKDPSPECTRAL_DATA.
- eigenvalues: covariance errors of Li et al., algorithm 1 in the setting of figure 1d
  with N = 1000, with noise for the root of the sum of squares, as they print it, and
  for the sum, as in lemma 4 of Cai et al. (2024); 25 repeats.
"""

import argparse

import federated_tissues as tissues
import numpy as np
from federated_baselines import PAPER
from jme_figures import second_moment_errors
from rates import minimax_rate, stream_covariance_error
from real_tables import load_gordon2002
from scipy.linalg import toeplitz
from scipy.stats import kstest, zscore
from tables import ignore_leak_warnings, print_row, with_error

from skdpspectral import (
    DPAdamClassifier,
    FederatedDPPCA,
    SparseDPPCA,
    SpikedPCA,
    sensitivity,
)
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.factorizations import Prefix
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


def algorithm_1(n, p, rank=1, repeats=5):
    """Return errors of algorithm 1 of Cai et al., and its upper bound."""
    given = {"calibration": "paper", "sensitivity_constant": 1.0, "delta": 1e-5}
    given |= {"signal_variance": 10.0, "noise_variance": 1.0}
    errors = []
    for seed in range(repeats):
        X, truth = make_spiked_covariance(n, p, n_components=rank, random_state=seed)
        pca = SpikedPCA(rank, noise_seed=seed, **given).fit(X)
        errors.append(subspace_distance(pca.components_, truth))
    given = (n, p, rank, 10.0, 1.0)
    return errors, minimax_rate(*given, 1.0, 1e-5, bound="upper"), minimax_rate(*given)


def print_slopes():
    """Print slopes of the error, of the rate, and of its part with epsilon."""
    for name, along, cases in (
        ("rows", [10_000, 40_000, 160_000], lambda n: (n, 30)),
        ("features", [20, 40, 80, 160], lambda p: (40_000, p)),
    ):
        found = [algorithm_1(*cases(value)) for value in along]
        errors = [np.mean(values) for values, _, _ in found]
        rates = [rate for _, rate, _ in found]
        paid = [rate - free for _, rate, free in found]
        slopes = [np.polyfit(np.log(along), np.log(v), 1)[0] for v in (errors, rates)]
        slopes.append(np.polyfit(np.log(along), np.log(paid), 1)[0])
        print_row("slopes", f"in {name}", *np.round(slopes, 2), np.round(errors, 4))


def print_ranks():
    """Print the error over the upper bound by the number of equal signals."""
    for rank in (1, 2, 4, 8):
        errors, rate, _ = algorithm_1(40_000, 50, rank)
        print_row("ranks", rank, with_error(errors), f"{np.mean(errors) / rate:.2f}")


def federated(sizes, p, seed, epsilon=1.0, delta=1e-6, **parameters):
    """Return the error of a federation of clients with so many rows."""
    X, truth = make_spiked_covariance(sum(sizes), p, random_state=seed)
    clients = np.repeat(np.arange(len(sizes)), sizes)
    pca = FederatedDPPCA(1, epsilon=epsilon, delta=delta, noise_seed=seed, **parameters)
    return subspace_distance(pca.fit(X, clients=clients).components_, truth)


def print_clients(repeats=4):
    """Print errors over the rates, by the number of clients."""
    modes = {"default": (1e-6, {"center": "none"}), "algorithm 1": (0.1, PAPER)}
    for name, (delta, given) in modes.items():
        for m in (1, 4, 16, 64):
            sizes = [1000] * m
            errors = [
                federated(sizes, 30, seed, delta=delta, **given)
                for seed in range(repeats)
            ]
            setting = (sizes, 30, 1, 10.0, 1.0, 1.0, delta)
            ratios = [
                f"{bound} {np.mean(errors) / minimax_rate(*setting, bound=bound):.1f}"
                for bound in ("lower", "upper")
            ]
            print_row("clients", name, m, with_error(errors), *ratios)


def print_robust(repeats=10):
    """Print what poor clients do to a good one, and how many poor ones are good."""
    equal = {**PAPER, "weights": "equal"}
    for name, sizes, given in (
        ("one of 20,000", [20_000], PAPER),
        ("and nine of 100", [20_000] + [100] * 9, PAPER),
        ("equal weights", [20_000] + [100] * 9, equal),
        ("one of 100", [100], PAPER),
        ("100 of 100", [100] * 100, PAPER),
        ("400 of 100", [100] * 400, PAPER),
    ):
        errors = [
            federated(sizes, 50, seed, 0.5, 0.1, **given) for seed in range(repeats)
        ]
        print_row("robust", name, with_error(errors))


def print_epsilon():
    """Print what the settings of table 3 cost."""
    given = {"moments": "jme", "neighbors": "zero-out-one"}
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


def print_streams(d=10, n=100, sigma=0.5):
    """Print what closed forms give."""
    size = np.sqrt(n * (n + 1) / 2)
    plain = 2 * np.sqrt(2) * sigma * d * size
    symmetric = plain * np.sqrt((d + 1) / (2 * d))
    print_row("streams", "free weight", f"{plain:.0f}", f"symmetric {symmetric:.0f}")
    weights = np.geomspace(1e-3, 1e3, 200_000)
    first = np.array([230.0, 240.0, 280.0, 360.0])
    print_row("streams", "figure 1: first", *first, widths=18)
    for name, ratio in (
        ("JME", [sensitivity.joint_moment_ratio(nu, d) for nu in weights]),
        ("IME", 4.0 + 2.0 * weights),
        ("CS", 4.0 * (1.0 + weights)),
    ):
        ones = sigma * np.sqrt(np.asarray(ratio) * d) * size
        twos = sigma * np.sqrt(np.asarray(ratio) / weights) * d * size
        least = [f"{twos[ones <= limit].min():.0f}" for limit in first]
        print_row("streams", f"second, {name}", *least, widths=18)
    replaced, joins = 256**2 - 254**2, 256**2 - 255**2
    relative = f"{replaced / np.sqrt(2):.0f} roots of 2"
    print_row("streams", "squares of a sum", replaced, relative, f"joins {joins}")
    spent = gaussian_epsilon(np.sqrt(1.5) * gaussian_mu(1.0, 1e-6), 1e-6)
    print_row("streams", "algorithm 4 as printed", f"epsilon {spent:.2f}")
    sigmas = np.geomspace(1e-3, 10, 200_000)
    for d in (1, 1000):
        errors = second_moment_errors(Prefix(), "trivial", 1000, d, sigmas)
        for name in ("PP", "PP, debiased"):
            worse = errors[name] > errors["JME"]
            found = f"{sigmas[np.argmax(worse)]:.3f}" if worse[0] < worse[-1] else "all"
            print_row(
                "streams", f"d = {d}: JME", f"better than {name}", f"from {found}"
            )
    ours = stream_covariance_error(30, 4, 4.0, method="pp-debiased")
    h = [np.sum(np.arange(1.0, 31) ** -power) for power in (1, 2, 3)]
    most = 4 * 5 * 4.0**4 * (h[0] - h[1]) + 2 * 5 * 4.0**2 * h[0]
    theirs = most - 2 * 5 * 4.0**2 * h[2], most
    for name, bounds in (("theirs", theirs), ("ours", ours)):
        print_row("streams", f"theorem 4.2, {name}", *(f"{b:.0f}" for b in bounds))


def print_sparse(repeats=12, n=20_000, s=10, signal=10.0):
    """Print errors and rates at 50 and at 400 features."""
    found = {}
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
        found[p] = [
            minimax_rate(*given, n_nonzero_features=s, bound=bound)
            for bound in ("lower", "upper")
        ]
        rates = (f"{rate:.4f}" for rate in found[p])
        print_row("sparse", f"p={p}", with_error(errors), *rates)
        found[p] += [np.mean(errors), np.std(errors, ddof=1) / np.sqrt(repeats)]
    lower, upper, error, _ = np.divide(found[400], found[50])
    relative = np.hypot(*(found[p][3] / found[p][2] for p in (50, 400)))
    growth = f"error {error:.1f} +- {error * relative:.1f} times"
    print_row("sparse", "growth", growth, f"{lower:.1f}", f"{upper:.1f}")


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
        for center in (False, True):
            found = []
            for seed in range(20):
                own = tissues.moment_rows(tissues.split(seed, rows)[part], center)
                found.append(share(components(own)))
            label = f"{name} client alone{', centered' if center else ''}"
            print_row("lung", label, with_error(found, 3))
    for center in (False, True):
        setting = "centered by client" if center else "as printed"
        noise = [
            tissues.printed_noise(tissues.split(0, rows)[part], center)
            for part in (slice(130), slice(130, None))
        ]
        print_row("lung", setting, "noise", *(f"{each:.4f}" for each in noise))
        for name, weights in tissues.WEIGHTS.items():
            found = []
            for seed in range(20):
                rng = np.random.default_rng(seed)
                mixed = tissues.split(seed, rows)
                basis = tissues.printed_method(mixed, weights, rng, center)
                found.append(tissues.share(mixed, basis))
            print_row("lung", setting, name, with_error(found, 3))


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
    "slopes": print_slopes,
    "ranks": print_ranks,
    "clients": print_clients,
    "robust": print_robust,
    "epsilon": print_epsilon,
    "root": print_root,
    "streams": print_streams,
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
