"""What a server and coalitions of nodes see: below what is claimed, and nearly as much.

Every view is a sum of nodes' parts, of which a coalition takes its own off. The user
whose data are hidden moves a sum by a vector of norm one.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from federation_tools import keys_of, part_of, show_parts
from scipy.stats import beta, binom, norm

from skdpspectral import LRSRegressor
from skdpspectral._release.noise import Release
from skdpspectral.federation import GroupClient, GroupTask, Request
from skdpspectral.linear_model import PrivateRounds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::skdpspectral.accounting.PrivacyLeakWarning"),
]
N_NODES, N_SHARES, N_TRIALS, EPSILON = 4, 3, 2500, 16.0
# Of each of five bounds, with seeds that are fixed.
CONFIDENCE, ALARM = 0.999, 1e-3
# A user of these rows has a curvature and a gradient far beyond the norms of the clip.
LOUD = np.array([[30.0, 0.0], [0.0, 1.0]]), np.array([50.0, 1.0])


def make_task(mode):
    model = LRSRegressor(
        sparsity=0,
        epsilon=EPSILON,
        solver=PrivateRounds(
            n_rounds=1,
            init=np.eye(1, 2),
            curvature_clip_norm=1.0,
            gradient_clip_norm=1.0,
        ),
        fit_intercept=False,
    )
    masked = {"n_shares": N_SHARES, "masked": [*"abcd"]}
    shares = {} if mode == "node" else masked
    return GroupTask(model, 2, noise=mode, **shares)


def node(task, name, with_user):
    """A node with an ordinary user, and with the one that is hidden or not."""
    X, y, users = np.eye(2), np.array([0.1, 0.2]), np.zeros(2)
    if with_user:
        X, y = np.vstack([X, LOUD[0]]), np.append(y, LOUD[1])
        users = np.append(users, np.ones(2))
    client = GroupClient(name, task, X, y, users=users, **keys_of(task, name))
    client.respond(Request(bytes(16), task.digest, 0))
    return client


def parts_of(client, n_trials, seed):
    """Draw what a node masks again and again, by the code that draws it once."""
    found = []
    for trial in range(n_trials):
        plan = replace(client.plan, seeded=True)
        client._release = Release(plan, None, seed * n_trials + trial)
        found.append(part_of(client.task, client._part(0)))
    return np.array(found) * client.task.unit(0)


def views(task, n_nodes=N_NODES):
    """Scores of parts along the user's vector: of each node, without and with them."""
    exact = GroupTask(task._model, 2)
    values = [
        node(exact, "a", with_user)._part(0) * exact.unit(0)
        for with_user in (False, True)
    ]
    vector = values[1] - values[0]
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-4)
    worlds = []
    for with_user in (False, True):
        clients = [node(task, "a", with_user)]
        clients += [node(task, name, False) for name in "bcd"[: N_NODES - 1]]
        drawn = [
            parts_of(client, N_TRIALS, 10 * place + with_user)
            for place, client in enumerate(clients[:n_nodes])
        ]
        worlds.append([part @ vector for part in drawn])
    return np.array(worlds)


@pytest.fixture(scope="module")
def shared():
    task = make_task("distributed")
    with pytest.MonkeyPatch.context() as patch:
        show_parts(patch)
        return task, views(task)


def upper(count):
    """Clopper-Pearson upper limit of the chance of what was counted in all trials."""
    return beta.ppf(1 - (1 - CONFIDENCE) / 2, count + 1, N_TRIALS - count)


def bound(scores, n_unknown):
    """Bound mu by a view of so many nodes' parts; the threshold is public."""
    seen = scores[:, :n_unknown].sum(axis=1)
    # Ordinary users' contributions are the same in both worlds.
    middle = 0.5 * (seen[0].mean() + seen[1].mean())
    wrong, missed = (seen[0] > middle).sum(), (seen[1] <= middle).sum()
    return -norm.ppf(upper(wrong)) - norm.ppf(upper(missed))


def attainable(claim):
    """What the bound finds at least of a claim that is attained, but for an alarm."""
    chance = norm.cdf(-claim / 2)
    return -2.0 * norm.ppf(upper(binom.ppf(1 - ALARM / 2, N_TRIALS, chance)))


@pytest.mark.parametrize("n_unknown", [1, 2, 3, 4])
def test_views_of_sums_are_as_private_as_is_claimed_and_no_more(shared, n_unknown):
    """4 is the server by secure aggregation, 1 a coalition of all other nodes."""
    task, scores = shared
    planned = task.plan.mechanisms[0]
    claim = planned.mu * math.sqrt(planned.n_shares / n_unknown)
    # The audit has power: it finds a share that is missing of three.
    assert attainable(claim) * math.sqrt(3 / 2) > claim
    assert attainable(claim) < bound(scores, n_unknown) <= claim


def test_one_node_alone_is_claimed_what_it_sends():
    task = make_task("node")
    claim = task.plan.mechanisms[0].mu
    assert attainable(claim) < bound(views(task, 1), 1) <= claim
