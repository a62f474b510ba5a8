"""Audits in one, three and ten fits: how much of each claim is certified.

Run with ``python audits.py``. It prints bound over claim at 99 % confidence for each
assumption, and the CPU time of the last audit. Epsilon is 4. Streams have 20 fits in
the place of 10.
"""

import time
import warnings

import numpy as np

from skdpspectral import (
    DPPCA,
    DPAdamRegressor,
    DPCovariance,
    DPItemEmbedding,
    DPMatrixFactorization,
    DPRidge,
    DPTableVectorizer,
    JMECovariance,
    LRSRegressor,
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
from skdpspectral.linear_model import PrivateRounds
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.neural_network import Adam

MU = gaussian_mu(4.0, 1e-6)
RNG = np.random.default_rng(0)


def projector(model, released):
    """Return the matrix that components and variances describe."""
    return (model.components_.T * model.explained_variance_) @ model.components_


def long_pairs(n_features):
    """Make the rows of pairs, so long that all moments of a covariance clip them."""
    pairs = pairs_of_features(n_features)
    places = np.triu_indices(n_features, 1)

    def scores(model, released):
        square = (n_features, n_features)
        layers = [m for m in model.privacy_.mechanisms if m.shape == square]
        return sum(m.mu / m.noise_std * released[m.name][places] for m in layers)

    return Canaries(pairs.n_coins, lambda coins: (1e6 * pairs.data(coins)[0],), scores)


def early_rows(rows, columns, n_steps):
    """Make the first rows of a stream, and read each column from all steps.

    The noise of later rows is that of fewer steps: they move what is released less.
    """
    n_coins = len(columns)
    strategy = factorize(Prefix(), "blt", n_steps).matrix(n_steps)
    weights = (strategy.T @ strategy)[:n_coins]

    def data(coins):
        first = rows(coins)
        return (np.vstack([first, np.zeros((n_steps - n_coins, first.shape[1]))]),)

    def scores(model, released):
        return np.vecdot(weights, released["moments"][:, columns].T)

    return Canaries(n_coins, data, scores)


def signed_rows(n_features):
    """Make early rows along one feature each, of either sign."""
    return early_rows(
        lambda coins: np.diag(np.where(coins, 1.0, -1.0)), np.arange(n_features), 400
    )


def early_pairs(n_features):
    """Make early rows of pairs."""
    places = np.zeros((n_features, n_features), dtype=int)
    upper = np.triu_indices(n_features)
    places[upper] = np.arange(len(upper[0]))
    columns = places[np.triu_indices(n_features, 1)]
    return early_rows(
        lambda coins: pairs_of_features(n_features).data(coins)[0], columns, 1200
    )


def raters(n_items, moment=False):
    """Make users with one rating each, of an item of their own, high and low in turn.

    The shares of counts and of sums in a user's answer are .54 and .81.
    """
    high = np.arange(n_items) % 2 == 0
    signs = np.where(high, 1.0, -1.0)

    def scores(model, released):
        offsets, n = released["offsets"], n_items
        sums = {
            "offsets": 0.54 * offsets[:n] + 0.81 * signs * offsets[n : 2 * n],
            "residuals": signs * released["residuals"][:n],
        }
        if moment:
            sums["second_moment"] = np.diagonal(released["second_moment"])
        return sum(v / model.privacy_[k].noise_std ** 2 for k, v in sums.items())

    ratings = np.where(high, 5.0, 1.0)
    users = [(np.array([[k, k]]), ratings[[k]]) for k in range(n_items)]
    return joining_users(users, scores)


def signed_users(n_users):
    """Make users with one row each, along a feature of their own."""

    def data(coins):
        X = np.column_stack([np.arange(n_users), np.eye(n_users)])
        return X, np.where(coins, 1e9, -1e9)

    def scores(model, released):
        return released["moments_1"][-n_users:]

    return Canaries(n_users, data, scores, "user", "replace-one")


def long_rows(n_features, n_coins, n_rows):
    """Make rows of four features, of which coins decide how two go with the others.

    Other rows are zeros: the length that rows are clipped at goes by all of them.
    """
    blocks = np.arange(n_features).reshape(-1, 2)
    one, two = (blocks[k] for k in np.triu_indices(len(blocks), 1))
    order = np.random.default_rng(0).permutation(4 * len(one))[:n_coins]
    one, two = one[order // 4], two[order // 4]
    signs = np.array([[1.0, 1.0], [1.0, -1.0]])
    left, right = signs[order % 4 // 2], signs[order % 2]

    def data(coins):
        X, rows = np.zeros((n_rows, n_features)), np.arange(n_coins)[:, None]
        X[rows, one] = left
        X[rows, two] = right * np.where(coins, 1.0, -1.0)[:, None]
        return X, np.zeros(n_rows)

    def scores(model, released):
        parts = released["joint_moment"][one[:, :, None], two[:, None, :]]
        return np.einsum("ki,kij,kj->k", left, parts, right)

    return Canaries(n_coins, data, scores)


def releases(coins):
    """One release of a thousand sums, each with noise for its coin."""
    return MU * coins + RNG.standard_normal(len(coins))


budget, rated = {"epsilon": 4.0}, {"rating_range": (1, 5), "epsilon": 4.0}
adam = {"target_bounds": (-1, 1), "optimizer": Adam(1e-18), **budget}
moment, boxes = {"center": "none", **budget}, {"bounds": (-1, 1), **budget}
users = {"user_feature": 0, "neighbors": "replace-one", "fit_intercept": False}
captured = make_private_scorer("captured_variance", clip_norm=1.0)
TARGETS = {
    "one Gaussian release": (
        releases,
        Canaries(10_000, lambda coins: (coins,), lambda found, released: found),
    ),
    "DPPCA: second moment": (DPPCA(1, **moment), pairs_of_features(100)),
    "DPPCA: components_": (DPPCA(60, **moment), pairs_of_features(60, projector)),
    "DPCovariance: both layers": (DPCovariance(**moment), long_pairs(60)),
    "JMECovariance": (JMECovariance(**budget), signed_rows(160)),
    "JMECovariance, centered": (
        JMECovariance(moments="assume-centered", **budget),
        early_pairs(40),
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
        DPMatrixFactorization(items=range(2000), **rated),
        raters(2000),
    ),
    "DPItemEmbedding: residuals": (
        DPItemEmbedding(1, method="residuals", items=range(1000), **rated),
        raters(1000, moment=True),
    ),
    "LRSRegressor, fixed weights": (
        LRSRegressor(
            1,
            0,
            shared_weights="fixed",
            solver=PrivateRounds(1, curvature_clip_norm=1.0, gradient_clip_norm=1.0),
            **users,
            **budget,
        ),
        signed_users(500),
    ),
    "PrivateSearchCV: last fit": (
        PrivateSearchCV(
            DPPCA(1, center="none"),
            {"clip_norm": [None, 1.0]},
            scoring=captured,
            n_blocks=10,
            **budget,
        ),
        pairs_of_features(60),
    ),
    "DPTableVectorizer": (DPTableVectorizer(**budget), pairs_of_categories(500, 200)),
    "DPRidge: moment": (
        DPRidge(target_bounds=(-1, 1), **boxes),
        long_rows(100, 200, 400),
    ),
}


def main():
    """Print a line for each target and assumption."""
    warnings.simplefilter("ignore")
    print(f"{'target':28}{'coins':>7} {'assume':13}1 fit  3 fits  10 fits  CPU s of 10")
    for name, (target, canaries) in TARGETS.items():
        for assume in ("nothing", "independent", "gaussian"):
            found, claim = [], {} if hasattr(target, "fit") else {"mu": MU}
            for n_fits in (1, 3, 20 if "JME" in name else 10):
                start = time.process_time()
                result = audit_in_few_fits(
                    target, canaries, n_fits, assume=assume, random_state=0, **claim
                )
                spent, share = time.process_time() - start, result.epsilon
                share /= result.claimed_epsilon
                if result.mu is not None:  # of sampled steps, the claim is no mu
                    share = result.mu / result.claimed_mu
                found.append(f"{share:.2f}" + "*" * bool(result.violated))
            print(
                f"{name:28}{canaries.n_coins:7} {assume:13}{found[0]:7}{found[1]:8}"
                f"{found[2]:9}{spent:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
