"""Fitted objects and ledgers of all kinds, for statements about them."""

import numpy as np
from federation_tools import hold, make_clients, make_rounds, make_task

import skdpspectral as sk
from skdpspectral.decomposition import SpikedPCA
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV
from skdpspectral.pipeline import make_private_pipeline

# Values that stand in the data alone: no statement may have any of them.
SECRET = 123456.789
SECRET_USER = 987654321

ROWS = {"unit": "row", "neighbors": "add-remove-one"}


def make_rows():
    """Rows with one value that is easily found again."""
    X = np.random.default_rng(0).normal(size=(400, 4))
    X[7, 2] = SECRET
    return X


def two_analysts(path=None):
    """Return a ledger with entries of two analysts and of another tool."""
    accountant = sk.PrivacyAccountant(4.0, 1e-6, path=path)
    plan = sk.DPPCA(2, epsilon=0.5, center="none").privacy_plan(400, 4)
    accountant.named("<b>ann</b> & co").charge(plan)
    accountant.named("نورا").charge(plan)
    accountant.charge_external(0.1, 1e-8, "counts <script>", **ROWS)
    return accountant


def federated_result():
    """Return what two clients have released to a server, each on its own."""
    task = make_task(1, 4, min_clients=2)
    clients = make_clients(task, "ab")
    return hold(make_rounds(task, clients), clients)


def all_kinds():
    """Yield objects that statements are about, by name."""
    X, clients = make_rows(), np.repeat(["north", "east"], 200)
    users = np.repeat(np.arange(40), 10)
    users[:10] = SECRET_USER
    labels = (X[:, 0] > 0).astype(int)
    ratings = np.column_stack([users, np.arange(400) % 20])
    scorer = make_private_scorer("captured_variance", clip_norm=10.0)
    grid = {"center": ["none", "pairs"]}
    steps = sk.DPStandardScaler(), sk.DPAdamClassifier(classes=[0, 1])
    yield "estimator", sk.DPPCA(2, center="pairs").fit(X)
    yield "model", SpikedPCA(1, signal_variance=50.0, noise_variance=1.0).fit(X)
    yield "pipeline", make_private_pipeline(*steps, epsilon=3.0).fit(X, labels)
    yield "leak", sk.DPAdamClassifier(classes=None, n_epochs=1).fit(X, labels)
    yield "search", PrivateSearchCV(sk.DPPCA(1), grid, scoring=scorer).fit(X)
    yield "federation", sk.FederatedDPPCA(1).fit(X, clients=clients)
    yield "result", federated_result()
    yield "stream", sk.JMECovariance(horizon=1000).partial_fit(X)
    yield "users", sk.LRSRegressor().fit(X, X[:, 0], users=users)
    yield (
        "items",
        sk.DPItemEmbedding(items=range(20), rating_range=(1, 5)).fit(
            ratings, np.ones(400)
        ),
    )
    yield "seeded", sk.DPPCA(2, noise_seed=0).fit(X)
    yield "open", sk.DPPCA(2, epsilon=None).fit(X)
    yield "ledger", two_analysts()
    yield "empty", sk.PrivacyAccountant()
