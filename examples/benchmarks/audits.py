"""Audits in one, three and ten fits: how much of each claim is certified.

Run with ``python audits.py``. It prints bound over claim at 99 % confidence for each
assumption, and the CPU time of one audit. Epsilon is 4 where nothing else is said.
"""

import math
import time
import warnings

import numpy as np

from skdpspectral import (
    DPPCA,
    DPAdamRegressor,
    DPCovariance,
    DPMatrixFactorization,
    DPRidge,
    DPTableVectorizer,
    JMECovariance,
)
from skdpspectral.accounting import gaussian_mu
from skdpspectral.audit import (
    Canaries,
    audit_in_few_fits,
    clipped_gradients,
    joining_users,
    pairs_of_categories,
    pairs_of_features,
)
from skdpspectral.factorizations import Prefix, factorize
from skdpspectral.neural_network import Adam

MU = gaussian_mu(4.0, 1e-6)
RNG = np.random.default_rng(0)


def projector(model, released):
    """Return the matrix that components and variances describe."""
    return (model.components_.T * model.explained_variance_) @ model.components_


def pairs_of_a_stream(n_features):
    """Make the rows of pairs, and read each from the noise of all steps."""
    pairs = pairs_of_features(n_features)
    i, j = np.triu_indices(n_features, 1)
    places = np.zeros((n_features, n_features), dtype=int)
    places[np.triu_indices(n_features)] = np.arange(n_features * (n_features + 1) // 2)
    steps = np.arange(len(i))
    strategy = factorize(Prefix(), "blt", len(i)).matrix(len(i))

    def scores(model, released):
        # Means are released before products, and both move as far.
        seen = strategy.T @ (strategy @ released["moments"])
        return seen[steps, j] + seen[steps, n_features + places[i, j]]

    return Canaries(len(i), pairs.data, scores)


def raters(n_items):
    """Make users with one rating each, of an item of their own."""

    def scores(model, released):
        plan, offsets = model.privacy_, released["offsets"]
        sums = 0.54 * offsets[:n_items] + 0.81 * offsets[n_items : 2 * n_items]
        rest = released["residuals"][:n_items] / plan["residuals"].noise_std ** 2
        return sums / plan["offsets"].noise_std ** 2 + rest

    users = [(np.array([[k, k]]), np.array([5.0])) for k in range(n_items)]
    return joining_users(users, scores)


def targets_of_ridge(n_features):
    """Make rows along one feature each, with targets of either sign."""

    def data(coins):
        return np.eye(n_features), np.where(coins, 1.0, -1.0)

    return Canaries(n_features, data, lambda model, released: model.coef_)


def releases(coins):
    """One release of a thousand sums, each with noise for its coin."""
    return MU * coins + RNG.standard_normal(len(coins))


adam = {"epsilon": 4.0, "target_bounds": (-1, 1), "optimizer": Adam(1e-18)}
moment = {"epsilon": 4.0, "center": "none"}
TARGETS = {
    "one Gaussian release": (
        releases,
        Canaries(10_000, lambda coins: (coins,), lambda found, released: found),
    ),
    "DPPCA: second moment": (DPPCA(1, **moment), pairs_of_features(100)),
    "DPPCA: components_": (DPPCA(60, **moment), pairs_of_features(60, projector)),
    "DPCovariance: moment": (
        DPCovariance(**moment),
        pairs_of_features(60, "near_moment"),
    ),
    "JMECovariance: stream": (
        JMECovariance(epsilon=4.0),
        pairs_of_a_stream(30),
    ),
    "DPAdamRegressor": (
        DPAdamRegressor(batch_size=1000, **adam),
        clipped_gradients(1000),
    ),
    "DPAdamRegressor, sampled": (
        DPAdamRegressor(batch_size=100, n_epochs=3, **adam),
        clipped_gradients(1000),
    ),
    "DPMatrixFactorization": (
        DPMatrixFactorization(items=range(300), rating_range=(1, 5), epsilon=4.0),
        raters(300),
    ),
    "DPTableVectorizer": (
        DPTableVectorizer(epsilon=4.0),
        pairs_of_categories(500, 200),
    ),
    "DPRidge: coef_": (
        DPRidge(epsilon=4.0, bounds=(-1, 1), target_bounds=(-1, 1)),
        targets_of_ridge(200),
    ),
}


def main():
    """Print a line for each target and assumption."""
    warnings.simplefilter("ignore")
    print(f"{'target':26}{'coins':>7} {'assume':13}1 fit  3 fits  10 fits  CPU s of 10")
    for name, (target, canaries) in TARGETS.items():
        for assume in ("nothing", "independent", "gaussian"):
            found, claim = [], {} if hasattr(target, "fit") else {"mu": MU}
            for n_fits in (1, 3, 10):
                start = time.process_time()
                result = audit_in_few_fits(
                    target, canaries, n_fits, assume=assume, random_state=0, **claim
                )
                spent, bound = time.process_time() - start, result.mu
                known = result.claimed_mu
                if known is None:  # sampled: of epsilons, as its claim is no mu
                    bound, known = result.epsilon, result.claimed_epsilon
                found.append(f"{bound / known:.2f}" + "*" * bool(result.violated))
            assert math.isfinite(spent)
            print(
                f"{name:26}{canaries.n_coins:7} {assume:13}{found[0]:7}{found[1]:8}"
                f"{found[2]:9}{spent:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
