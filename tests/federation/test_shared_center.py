"""A center that clients find together: its price, what others can do to it, its use."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from federation_tools import ask, hold, make_rounds, make_task, other, replies_to
from release_tools import record_releases
from scipy.stats import binom
from sklearn.decomposition import PCA

from skdpspectral import FederatedDPPCA, PrivacyAccountant
from skdpspectral._release import noise as release_module
from skdpspectral._statistics.centered import N_OCTAVES
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.decomposition._federated_queries import N_NUMBERS, Typical
from skdpspectral.federation import LocalClient, MessageError
from skdpspectral.metrics import subspace_distance

P = 6
SHARED = {
    "center": "shared",
    "projection_norm": 9.0,
    "aggregation": "matrix",
}
TASK = make_task(2, P, **SHARED)
LAST = [1.0, 0.5, 0.1, 0.0, 1.5, 2.0]  # behind a center
COLUMNS = {
    0: (),
    1: np.array([[3.0]]),
    2: np.r_[np.ones(P), 4.0][:, None],
    3: np.r_[np.ones(P), LAST][:, None],
    4: np.eye(P, 2),
}


def requests(columns=COLUMNS, task=TASK):
    return [ask(task, i, column) for i, column in columns.items()]


def rows_of(seed, n=60, moved=0.0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, P)) * np.linspace(3, 1, P) + moved


# -- what it costs ---------------------------------------------------------------------


def test_all_rounds_are_charged_at_once_before_the_first():
    accountant = PrivacyAccountant()
    one = LocalClient("a", rows_of(0), TASK, epsilon=1.0, accountant=accountant)
    names = ["lengths", "center_1", "center_2", "second_moment", "projected_moment"]
    assert [m.name for m in one.plan.mechanisms] == names
    for request in requests():
        first = one.respond(request)
        # Nor does a request that comes again cost anything, or tell anything new.
        assert one.respond(request) == first
        assert len(accountant.ledger) == 1
    costs = [m.mu**2 for m in one.plan.mechanisms]
    assert math.fsum(costs) == pytest.approx(one.plan.mu**2)


OUT_OF_TURN = {
    "not for step": (0, 2),
    "different content": (0, 1, dataclasses.replace(requests()[1], basis=[[7.0]])),
}


@pytest.mark.parametrize(("says", "asked"), OUT_OF_TURN.items())
def test_rounds_out_of_turn_or_asked_anew_release_nothing(says, asked):
    accountant = PrivacyAccountant()
    one = LocalClient("a", rows_of(0), TASK, accountant=accountant)
    known = requests()
    asked = [known[each] if isinstance(each, int) else each for each in asked]
    for request in asked[:-1]:
        one.respond(request)
    with record_releases() as released, pytest.raises(MessageError, match=says):
        one.respond(asked[-1])
    assert not released
    assert len(accountant.ledger) == 1


BAD_COLUMNS = [
    (1, [[0.0]]),
    (1, [[-1.0]]),
    (1, [[1e61]]),
    (1, [[1.0], [1.0]]),
    (2, [[1.0]]),
    (2, np.r_[np.full(P, 1e61), 1.0][:, None]),
    (2, np.r_[np.ones(P), 0.0][:, None]),
    (2, np.ones((1, P + 1))),
    (3, np.ones((P + N_NUMBERS - 1, 1))),
    *((3, np.r_[np.ones(P), LAST[:i], -1.0, LAST[i + 1 :]][:, None]) for i in range(6)),
    (3, np.r_[np.ones(P), 1e131, LAST[1:]][:, None]),
]


@pytest.mark.parametrize(("step", "column"), BAD_COLUMNS, ids=map(str, range(16)))
def test_columns_that_no_server_makes_are_refused(step, column):
    one = LocalClient("a", rows_of(0), TASK)
    for request in requests()[:step]:
        one.respond(request)
    with record_releases() as released, pytest.raises(MessageError):
        one.respond(ask(TASK, step, column))
    assert not released
    one.respond(requests()[step])


class Replay:
    """Gives every release of a session, and keeps what it was made of."""

    def __init__(self, rng, answers=()):
        self.rng, self.answers, self.asked = rng, list(answers), []

    def __call__(self, mechanism, value, generator):
        value = np.array(value)
        if mechanism.symmetric:
            value = np.tril(value) + np.tril(value, -1).T
        self.asked.append((mechanism, value))
        if len(self.answers) < len(self.asked):
            noise = self.rng.standard_normal(value.shape)
            if mechanism.symmetric:
                noise = np.tril(noise) + np.tril(noise, -1).T
            # Of a scale that the server's numbers decide with, not the plan's.
            self.answers.append(value + 0.3 * noise)
        return self.answers[len(self.asked) - 1].copy()


def sent(rows, columns, tape, epsilon, task):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_module, "_add_noise", tape)
        one = LocalClient("a", rows, task, epsilon=epsilon)
        return one, [one.respond(each).to_bytes() for each in requests(columns, task)]


@pytest.mark.parametrize("bounded", [{}, {"bounds": (-9, 40)}])
def test_no_server_makes_neighbors_differ_by_more_than_was_charged(bounded):
    """Whole sessions of a server that sends what it likes, replayed between neighbors.

    Given the same releases all messages are the same bytes, and the squares of what one
    row moves each release, in units of its noise, sum up to at most the charge.
    """
    rng, found, paired = np.random.default_rng(0), {}, set()
    how = {**SHARED, "projection_norm": 2.0, **bounded}
    task = make_task(2, P, **how)
    for _ in range(150):
        n = int(rng.choice([2, 3, 5, 40]))
        X = rng.standard_normal((n, P)) * 10.0 ** rng.uniform(-3, 3)
        X *= rng.random() < 0.7
        other = X.copy()
        X[-1], other[-1] = rng.choice([0, 1e-9, 1, 1e9], (2, 1)) * np.eye(P)[:2]
        if rng.random() < 0.4:
            other[-1] = -X[-1]
        point = rng.choice([0.0, 1.0, 1e9]) * rng.standard_normal(P)
        radii = 10.0 ** rng.choice([-60, -3, 0, 3, 60], 2)
        last = 10.0 ** rng.uniform([-9, -9, -9, -9, -9, -3], [0, 9, 0, 0, 1, 3])
        last[4] *= rng.choice([0.0, 1.0, 1e100], p=[0.4, 0.5, 0.1])
        last[3] *= rng.random() < 0.5
        columns = {
            **COLUMNS,
            1: [[radii[0]]],
            2: np.r_[point, radii[1]][:, None],
            3: np.r_[point + rng.standard_normal(P), last][:, None],
        }
        tape = Replay(rng)
        one, first = sent(X, columns, tape, 8.0, task)
        again = Replay(rng, tape.answers)
        _, second = sent(other, columns, again, 8.0, task)
        assert first == second
        total = 0.0
        for (planned, a), (same, b) in zip(tape.asked, again.asked, strict=True):
            assert planned == same
            moved = float(np.linalg.norm(a - b))
            total += (moved / planned.noise_std) ** 2
            name, share = planned.name, moved / planned.sensitivity
            found[name] = max(found.get(name, 0.0), share)
        assert total <= one.plan.mu**2
        paired.add(one._rows.paired)
    assert all(share <= 1.0 + 1e-9 for share in found.values())
    # The search would see a sensitivity that is too small, but for rows in a box.
    assert "bounds" in bounded or min(found.values()) > 0.93, found
    # The server's numbers decided either way.
    assert paired == {True, False}


# -- clients that lie ------------------------------------------------------------------


def session(names="abcde", n=400, epsilon=2.0, task=TASK):
    clients = {
        name: LocalClient(name, rows_of(i, n), task, epsilon=epsilon, noise_seed=i)
        for i, name in enumerate(names)
    }
    return clients, make_rounds(task, clients)


def histogram(place, size=1.0):
    values = np.zeros((2, N_OCTAVES))
    values[:, place] = 0.5 * size, size
    return values


LIES = {
    "far too much": (0, histogram(200, 50.0), "histograms"),
    "nothing": (0, histogram(200, 0.0), "histograms"),
    "below zero": (0, histogram(200) - 0.5 * histogram(7), "histograms"),
    "huge": (0, histogram(200, 1e300), "histograms"),
    "a shape": (0, histogram(200)[:1], "shape"),
    "a long mean": (1, np.r_[40.0, np.zeros(P - 1)], "beyond"),
    "long in all": (2, np.full(P, 1e200), "beyond"),
}


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_impossible_histograms_and_means_are_refused_by_name(lie):
    step, values, says = lie
    clients, rounds = session(epsilon=200.0)
    for at in range(TASK.n_steps):
        sent = replies_to(rounds, clients)
        if at != step:
            rounds.collect(sent)
            continue
        with pytest.warns(UserWarning, match=f"'b' was rejected: .*{says}"):
            rounds.collect(other(sent, values=values))
    assert rounds.result().clients_.tolist() == [*"acde"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("place", [0, 1, 396])
@pytest.mark.parametrize("mean", [0.0, 1.0, -1.0])
def test_a_possible_lie_costs_accuracy_alone(place, mean):
    """Of one of five, whose components are those of the others."""
    clients, rounds = session(epsilon=20.0)
    plans = {name: one.plan for name, one in clients.items()}
    lies = {0: histogram(place), **dict.fromkeys((1, 2), mean * np.eye(P)[0])}
    for step in range(TASK.n_steps):
        sent = replies_to(rounds, clients)
        if step in lies:
            sent = other(sent, values=lies[step])
        rounds.collect(sent)
    found = rounds.result()
    # It may be told by its values, if it took another way than its lies imply.
    assert set(found.rejected_) <= {"b"}
    assert {name: one.plan for name, one in clients.items()} == plans
    assert subspace_distance(found.components_, np.eye(P)[:2]) < 0.5
    assert np.isfinite(found.mean_).all()


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize("others", [None, 10.0], ids=["exact", "private"])
def test_a_client_of_nearly_no_weight_stops_nobody(others):
    """Five deviations of its noise away, and of less weight than float64 can tell."""
    budgets = {"a": (200_000, others), "b": (2, 1e-6)}
    clients = {
        name: LocalClient(name, rows_of(0, n), TASK, epsilon=epsilon, noise_seed=0)
        for name, (n, epsilon) in budgets.items()
    }
    rounds = make_rounds(TASK, clients)
    for step in range(3):
        sent = replies_to(rounds, clients)
        if step:
            far = 5.0 * clients["b"].plan[f"center_{step}"].noise_std
            sent = other(sent, values=np.full(P, far))
        rounds.collect(sent)
    assert rounds.clients == ("a", "b")
    between = float(rounds.request().basis[P + 1, 0])
    assert between > 1.0


def test_a_client_of_weight_zero_has_no_say():
    def means(weight):
        weights = {"a": 1.0, "b": 1.0, "c": weight}
        task = make_task(2, P, **SHARED, weights=weights)
        clients, rounds = session("abc", n=4000, epsilon=50.0, task=task)
        for step in range(3):
            sent = replies_to(rounds, clients)
            if step:
                sent = other(sent, "c", values=0.9 * np.eye(P)[0])
            rounds.collect(sent)
        return rounds.request().basis[:P, 0]

    with pytest.warns(UserWarning, match="noise_seed"):
        trusted, ignored = means(1.0), means(0.0)
    assert np.linalg.norm(ignored) < 0.2 < np.linalg.norm(trusted)


# -- what it is good for ---------------------------------------------------------------


def distances(center, seeds, moved=None, sizes=(200, 200, 2000, 2000), **parameters):
    found = []
    for seed in seeds:
        X, truth = make_spiked_covariance(
            sum(sizes), 30, signal_variance=10.0, random_state=seed
        )
        clients = np.repeat(np.arange(len(sizes)), sizes)
        if moved is not None:
            X = X + moved(np.random.default_rng(seed), len(sizes))[clients]
        pca = FederatedDPPCA(
            1, epsilon=1.0, delta=1e-3, center=center, noise_seed=seed, **parameters
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pca.fit(X, clients=clients)
        found.append(subspace_distance(pca.components_, truth))
    return np.array(found)


def common(rng, m):
    return np.full((m, 30), 5.0)


def nearby(rng, m):
    steps = rng.standard_normal((m, 30))
    return 4.0 * steps / np.linalg.norm(steps, axis=1, keepdims=True)


def scattered(rng, m):
    return 30.0 * rng.standard_normal((m, 30))


@pytest.mark.parametrize("moved", [None, common, nearby], ids=["0", "5", "apart"])
def test_it_beats_pairs_wherever_sites_are(moved):
    """Of 12 fits at least 9 are nearer, and all are by 15 % in the mean.

    All of 60 other fits were nearer, so that each is with a probability above .95, with
    confidence .95: fewer than 9 of 12 are then so in 0.3 % of all cases. Means of 12 of
    them were 0.63 to 0.71 of those of pairs.
    """
    seeds = range(12)
    pairs, shared = distances("pairs", seeds), distances("shared", seeds, moved)
    assert binom.cdf(8, 12, 0.95) < 3e-3
    assert np.sum(shared < pairs) >= 9
    assert shared.mean() < 0.85 * pairs.mean()


def test_where_sites_are_far_apart_rows_are_compared_in_pairs():
    """At the price of the rounds alone: 7 % of the budget, about 4 % of noise.

    Means of 12 of 60 other fits were at most 1.07 of those of pairs, and single ones at
    most 1.4.
    """
    pairs = distances("pairs", range(8))
    shared = distances("shared", range(8), scattered)
    assert np.all(shared < 2.0 * pairs)
    assert shared.mean() < 1.2 * pairs.mean()


def test_rows_that_repeat_are_compared_in_pairs():
    """Else the center is where four of five rows are, and they have its error alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, P)) * [9, 1, 1, 1, 1, 1] + 3.0
    X[rng.random(6000) < 0.8] = 3.0
    clients = np.arange(6000) % 3
    pca = FederatedDPPCA(1, epsilon=2.0, center="shared", noise_seed=0)
    with pytest.warns(UserWarning, match="noise_seed"):
        pca.fit(X, clients=clients)
    assert abs(pca.components_[0, 0]) > 0.9


def test_the_mean_is_that_of_all_rows():
    X = np.concatenate([rows_of(i, 5000, 7.0 + i) for i in range(3)])
    clients = np.repeat([*"abc"], 5000)
    pca = FederatedDPPCA(
        2, epsilon=4.0, center="shared", projection_norm=12.0, noise_seed=0
    )
    with pytest.warns(UserWarning, match="noise_seed"):
        pca.fit(X, clients=clients)
    np.testing.assert_allclose(pca.mean_, X.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(pca.explained_variance_[0], 9.0, rtol=0.15)
    remarks = [
        str(remark) for _, plan in pca.privacy_.blocks for remark in plan.remarks
    ]
    assert sum("center that the clients find" in remark for remark in remarks) == 3


def test_without_noise_it_is_the_moment_about_own_centers():
    X = np.concatenate([rows_of(i, 500, 0.5 * i) for i in range(3)])
    clients = np.repeat([*"abc"], 500)
    means = np.repeat([X[clients == name].mean(axis=0) for name in "abc"], 500, axis=0)
    with pytest.warns(UserWarning, match="without privacy"):
        pca = FederatedDPPCA(2, epsilon=None, center="shared").fit(X, clients=clients)
    expected = PCA(2).fit(X - means).components_
    assert subspace_distance(pca.components_, expected) < 0.05


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tables_of_few_rows_are_compared_in_pairs(n):
    X, clients = rows_of(0, 2 * n), np.repeat([0, 1], n)
    with pytest.warns(UserWarning, match="noise_seed"):
        pca = FederatedDPPCA(1, center="shared", noise_seed=0).fit(X, clients=clients)
    assert np.isfinite(pca.components_).all()
    assert np.array_equal(pca.mean_, np.zeros(P))


def test_averages_of_mostly_noise_are_not_read():
    rng = np.random.default_rng(0)
    noise, n_rows = np.full(3, 0.3), np.full(3, 1000.0)
    shares = histogram(200) + 0.3 * rng.standard_normal((3, 2, N_OCTAVES))
    assert not Typical.of(shares, noise, n_rows).known
    exact = np.stack([histogram(200)] * 3)
    assert Typical.of(exact, 0.01 * noise, n_rows).known
    assert not Typical.of(0.0 * exact, 0.01 * noise, n_rows).known


def test_one_length_is_the_floor_of_all_who_measure_from_a_center():
    noise, n_rows = np.full(3, 1e-3), np.full(3, 1000.0)
    typical = Typical.of(np.stack([histogram(200)] * 3), noise, n_rows)
    edges, none = np.array([1e-3, 1e-3, 1.0]), np.zeros(3, dtype=bool)
    assert typical.floor(edges, none) == pytest.approx(1.6 * typical.typical)
    assert typical.floor(100.0 * edges, none) < typical.typical
    # The third has nearly no weight.
    assert typical.floor(edges, np.array([False, False, True])) > 0.0
    assert typical.floor(edges, np.array([True, True, False])) == 0.0


def test_clients_and_server_agree_who_compares_pairs():
    """Else the server would refuse the noise that a client states."""
    rng, seen = np.random.default_rng(0), set()
    for seed in range(25):
        task = make_task(1, P, center="shared")
        sizes = rng.choice([30, 300, 3000], 3)
        clients = {
            name: LocalClient(
                name,
                rows_of(seed, n, rng.choice([0.0, 1.0, 30.0])),
                task,
                epsilon=float(rng.choice([0.5, 5.0])),
            )
            for name, n in zip("abc", sizes, strict=True)
        }
        rounds = make_rounds(task, clients)
        assert not hold(rounds, clients).rejected_
        for name, one in clients.items():
            assert rounds.parties[name].paired == one._rows.paired
            seen.add(one._rows.paired)
    assert seen == {True, False}
