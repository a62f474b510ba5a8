"""Private networks of users: RMSE against epsilon, and the cost of many users.

Users have tanh networks whose weights are low rank plus sparse, simulated; a fifth of
each user's rows is held out. Beside them are linear models of the same form with the
same budget, and what is there without privacy.

    python personal_networks_private.py accuracy [n_users] [n_seeds]
    python personal_networks_private.py cost [n_users]
"""

import resource
import sys
import time
import warnings

import numpy as np

from skdpspectral import LRSMLPRegressor, LRSRegressor, PrivacyLeakWarning

warnings.simplefilter("ignore", PrivacyLeakWarning)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, None)
D, WIDTH, ROWS, NOISE = 5, 8, 25, 0.1


def simulated(n_users, rng):
    """Rows, targets and users: networks of rank 2 with 5 weights of their own."""
    p = (D + 2) * WIDTH + 1
    U = rng.standard_normal((p, 2))
    own = rng.standard_normal((n_users, 2))
    whole = np.column_stack([np.ones(n_users), 0.7 * own[:, 1]]) @ U.T
    for weights in whole:
        weights[rng.choice(p, 5, replace=False)] += rng.standard_normal(5)
    first = whole[:, : D * WIDTH].reshape(-1, D, WIDTH)
    bias = whole[:, D * WIDTH : (D + 1) * WIDTH]
    last = whole[:, (D + 1) * WIDTH : -1]
    X = rng.standard_normal((n_users, ROWS, D))
    hidden = np.tanh(X @ first / np.sqrt(D) + 0.3 * bias[:, None])
    y = (hidden @ last[:, :, None])[:, :, 0] / np.sqrt(WIDTH)
    y += NOISE * rng.standard_normal(y.shape)
    return X.reshape(-1, D), y.ravel(), np.repeat(np.arange(n_users), ROWS)


def models(epsilon):
    """Return what is compared at a budget."""
    given = {"epsilon": epsilon, "hidden_layer_sizes": WIDTH}
    return {
        "network LRS r=2": LRSMLPRegressor(2, 5, **given),
        "network rep r=2": LRSMLPRegressor(2, 0, **given),
        "network LRS r=1": LRSMLPRegressor(1, 5, **given),
        "single network": LRSMLPRegressor(1, 0, shared_weights="fixed", **given),
        "linear LRS r=1": LRSRegressor(
            1,
            2,
            epsilon=epsilon,
            ridge_shared=1.0,
            ridge_sparse=1.0,
        ),
    }


def accuracy(n_users=4000, n_seeds=2):
    """Print a line a fit."""
    for seed in range(n_seeds):
        X, y, users = simulated(n_users, np.random.default_rng(seed))
        train = np.arange(len(y)) % ROWS < ROWS - 5
        test = ~train
        print(f"seed {seed}: zero {np.sqrt(np.mean(y[test] ** 2)):.4f}", flush=True)
        ridge = LRSRegressor(0, None, epsilon=None, ridge_sparse=1.0)
        for name, model, epsilon in (
            ("a ridge a user, nothing released", ridge, None),
            *((n, m, e) for e in EPSILONS for n, m in models(e).items()),
        ):
            start = time.process_time()
            model.fit(X[train], y[train], users=users[train])
            found = model.predict(X[test], users=users[test])
            error = np.sqrt(np.mean((found - y[test]) ** 2))
            spent = time.process_time() - start
            print(f"{seed} {epsilon} {name}: {error:.4f} ({spent:.1f} s)", flush=True)


def cost(n_users=10_000):
    """Print time and memory of a short private fit of large networks."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20 * n_users, 50))
    y, users = X[:, 0].copy(), np.repeat(np.arange(n_users), 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    steps = {"n_rounds": 2, "n_own_steps": 10}
    start = time.process_time()
    LRSMLPRegressor(epsilon=1.0, **steps).fit(X, y, users=users)
    spent = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{n_users} users of 20 rows, 50 features, 2601 weights")
    print(f"{spent / 20:.2f} CPU s a step")
    print(f"at most {after:.0f} MB, {before:.0f} MB before the fit")


if __name__ == "__main__":
    {"accuracy": accuracy, "cost": cost}[sys.argv[1]](*map(int, sys.argv[2:]))
