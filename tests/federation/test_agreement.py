"""Parties that disagree or lie: refused by name, or of an influence that is bounded."""

import dataclasses
import hashlib
import math
import warnings

import numpy as np
import pytest
from federation_tools import (
    N_MODEL_ROWS,
    SESSION,
    answers,
    ask,
    make_clients,
    make_server,
    make_task,
    registered,
    rows_needed,
    rows_of,
)
from release_tools import record_releases
from scipy.stats import chi, norm

from skdpspectral import PrivacyAccountant
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.decomposition import SpikedModel
from skdpspectral.decomposition._federated_server import ReplyLimits
from skdpspectral.federation import (
    FederationError,
    LocalClient,
    MessageError,
    Registration,
    Reply,
    Rounds,
    Server,
    Topic,
)

BOX = {"bounded": {"bounds": (-20, 20)}}
MODEL = {"mechanism": SpikedModel(signal_variance=8.0, noise_variance=1.0)}
TASKS = {
    "components": {},
    "clipped": {"bounded": {"clip_norm": 4.0}},
    "matrix": {"aggregation": "matrix"},
    "box, rounds, covariance": {**BOX, "n_rounds": 2, "projection_norm": 9.0},
    "rounds": {"n_rounds": 3, "start": False},
    "shared": {"center": "shared"},
    "shared in a box": {
        "bounded": {**BOX["bounded"], "center": "shared"},
        "aggregation": "matrix",
        "projection_norm": 9.0,
    },
    "model": {**MODEL, "model_covariance": True},
    "model, whole": {**MODEL, "aggregation": "matrix"},
    "paper": {
        "mechanism": SpikedModel(
            8.0, 1.0, calibration="paper", sensitivity_constant=1.0
        ),
        "model_covariance": True,
    },
}
MODELS = [
    name for name in TASKS if isinstance(TASKS[name].get("mechanism"), SpikedModel)
]
# Whether clients are registered: with a model they must be.
KNOWN = [(name, True) for name in TASKS]
KNOWN += [(name, False) for name in TASKS if name not in MODELS]
# What is asked for of "paper" and what holds differ: tests of their own say so.
pytestmark = pytest.mark.filterwarnings("ignore:.*this is the guarantee of the noise")
START = np.eye(2, 6)


def rounds_of(server):
    return Rounds(server, init=None if server.task.start else START)


# -- another task ----------------------------------------------------------------------

OTHERS = {
    "bounds": {"bounded": {"bounds": (-20, 200)}},
    "no bounds": {},
    "center": {"bounded": {"bounds": (-20, 20), "center": "none"}},
    "rounds": {**BOX, "n_rounds": 2},
    "components": {**BOX, "n_components": 1},
    "covariance": {**BOX, "n_rounds": 1, "projection_norm": 3.0},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_client_refuses_requests_of_another_task_and_spends_nothing(other):
    task, accountant = make_task(**BOX, n_rounds=1), PrivacyAccountant()
    client = LocalClient("a", rows_of(0), task, accountant=accountant)
    foreign = make_task(**other)
    with record_releases() as released:
        for topic in (foreign.topics[0], task.topics[0]):
            with pytest.raises(MessageError, match="for another task") as caught:
                client.respond(ask(foreign, 0, topic))
            assert foreign.digest.hex() in str(caught.value)
            assert task.digest.hex() in str(caught.value)
    assert not released
    assert len(accountant.ledger) == 0
    # In the middle of a session too, and for a request that was answered before.
    first = ask(task, 0, task.topics[0])
    client.respond(first)
    for step in (0, 1):
        changed = dataclasses.replace(first, task=foreign.digest, step=step)
        with pytest.raises(MessageError, match="for another task"):
            client.respond(changed)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_server_names_who_has_another_task(other):
    """By its refusal, and by a reply if it answers all the same."""
    task, foreign = make_task(**BOX, n_rounds=1), make_task(**other)
    server, clients = make_server(task), make_clients(task)
    clients["b"] = LocalClient("b", rows_of(1), foreign)
    request = server.request()
    sent = {}
    for name, client in clients.items():
        try:
            sent[name] = client.respond(request)
        except MessageError as error:
            sent[name] = error
    with pytest.warns(UserWarning, match="client 'b' was rejected: it refused.*task"):
        replies = server.collect(sent)
    assert [reply.client for reply in replies] == ["a", "c"]
    again = make_server(task)
    again.request()
    sent["b"] = clients["b"].respond(ask(foreign, 0, foreign.topics[0]))
    with pytest.warns(UserWarning, match="'b' was rejected: the reply is for another"):
        again.collect(sent)
    assert foreign.digest.hex() in again.rejected["b"]


@pytest.mark.filterwarnings("ignore:client 'b' was rejected")
def test_a_refusal_is_shown_short_and_printable():
    server = make_server(make_task(), "ab", min_clients=2)
    server.request()
    with (
        pytest.warns(UserWarning, match="'a' was rejected: it refused"),
        pytest.raises(FederationError),
    ):
        server.collect({"a": MessageError("x\x1b[31m\n" * 1000)})
    assert len(server.rejected["a"]) < 300
    assert server.rejected["a"].isprintable()

    class Disguised(MessageError):
        """What somebody else raised may speak of rows."""

    server = make_server(make_task(), "ab", min_clients=2)
    server.request()
    with (
        pytest.warns(UserWarning, match="Disguised"),
        pytest.raises(FederationError),
    ):
        server.collect({"a": Disguised("3.25"), "b": None})
    assert "3.25" not in str(server.rejected)


# -- honest clients --------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "known"), KNOWN)
@pytest.mark.parametrize("epsilon", [1e-2, 0.5, 30.0, None])
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_no_honest_client_is_rejected(name, epsilon, known):
    """Rows at the worst of their bounds included; any rejection warns, and fails."""
    if name == "paper" and (epsilon is None or epsilon > 1.0):
        return
    task = make_task(**TASKS[name])
    if task.mechanism.spiked:  # any rows, but no more of the model's bounds
        n = rows_needed(task)
        rows = {name: rows_of(i, n) for i, name in enumerate("abc")}
        rows["c"] = 3.0 * rows["c"] / np.linspace(3, 1, 6)
        rows["d"] = rows_of(3, n=n // 2)
    else:
        rows = {"a": rows_of(0), "b": 100.0 * rows_of(1), "d": rows_of(3, n=7)}
        rows["c"] = np.tile([1e6, 0, 0, 0, 0, 0], (50, 1))
    clients = {n: LocalClient(n, X, task, epsilon=epsilon) for n, X in rows.items()}
    server = Server(registered(clients) if known else list(clients), task)
    rounds = rounds_of(server)
    while not rounds.done:
        rounds.collect(answers(clients, rounds.request()))
    found = rounds.result()
    assert found.rejected == {}
    assert np.isfinite(found.components).all()


# -- claims of rows and cost -----------------------------------------------------------


@pytest.mark.parametrize("changes", [{"n_samples": 51}, {"mu": 0.3}, {"mu": math.inf}])
def test_a_registered_client_is_held_to_its_numbers(changes):
    task = make_task(aggregation="matrix")
    clients = make_clients(task)
    server = Server(registered(clients), task)
    request = server.request()
    sent = {n: c.respond(request) for n, c in clients.items()}
    sent["b"] = dataclasses.replace(sent["b"], **changes)
    with pytest.warns(UserWarning, match="'b' was rejected: its number of rows or its"):
        server.collect(sent)


@pytest.mark.parametrize(
    "given",
    [
        (0, 1.0, 1e-6),
        (1, 1.0, 1e-6),
        (50, math.nan, 1e-6),
        (50, -1.0, 1e-6),
        (50, 1.0, 2.0),
        (50.5, 1.0, 1e-6),
        (50, 1e-12, 1e-15),
        (50, 1.0),
        50,
        None,
    ],
)
def test_bad_registrations(given):
    with pytest.raises(ValueError, match="client 'a' cannot be registered"):
        Server({"a": given}, make_task())


def test_rows_and_cost_do_not_make_the_noise_of_a_model():
    """Two budgets of one mu: what is beyond the bounds is a share of their deltas."""
    task, plans = make_task(**MODEL), []
    mu = gaussian_mu(0.5, 0.9e-6)
    for delta in (1e-6, 1e-9):
        epsilon = gaussian_epsilon(mu, 0.9 * delta)
        plans.append(task.plan(N_MODEL_ROWS, epsilon, delta, "x", False))
    assert plans[0].mu == pytest.approx(plans[1].mu, rel=1e-5)
    assert plans[1]["projector"].noise_std > 1.2 * plans[0]["projector"].noise_std


@pytest.mark.parametrize("name", MODELS)
def test_a_model_needs_clients_that_are_registered(name):
    task = make_task(**TASKS[name])
    n = rows_needed(task)
    with pytest.raises(ValueError, match=r"Registration\(n_samples, epsilon, delta\)"):
        Server(["a"], task)
    mu = task.plan(n, 0.5, 1e-6, "x", False).mu
    with pytest.raises(MessageError, match="requires registered clients"):
        ReplyLimits.of_claim(task, n, mu)
    assert Server({"a": (n, 0.5, 1e-6)}, task).clients == ("a",)


def test_what_is_registered_is_the_budget_that_was_asked_for():
    """The plan claims more: of its claim, another plan would be made."""
    task = make_task(**TASKS["paper"])
    client = make_clients(task, "a", epsilon=0.5)["a"]
    assert client.plan.epsilon > 0.5
    assert client.registration == Registration(rows_needed(task), 0.5, 1e-6)
    again = task.plan(*client.registration, client.plan.estimator, False)
    assert again == client.plan
    assert task.plan(rows_needed(task), client.plan.epsilon, 1e-6, "x", False) != again


# -- numbers and values ----------------------------------------------------------------


def one_reply(name, topic):
    """An honest reply to some topic, and a server that waits for it."""
    task = make_task(**TASKS[name])
    clients = make_clients(task, "ab")
    rounds = rounds_of(Server(registered(clients), task))
    while True:
        request = rounds.request()
        sent = {n: c.respond(request) for n, c in clients.items()}
        if request.topic is topic:
            return rounds.server, sent
        rounds.collect(sent)


def most_of(server, reply):
    """Standard deviation and bound of a value, by the plan and the task."""
    task = server.task
    plan = task.plan(reply.n_samples, 1.0, 1e-6, "x", False)
    names = {
        Topic.MATRIX: "second_moment",
        Topic.POWER: "power_1",
        Topic.COVARIANCE: "projected_moment",
    }
    std, bound = plan[names[reply.topic]].noise_std, task.rows.second_radius**2
    if reply.topic is Topic.COVARIANCE:
        return std * task.projection_norm**2, task.projection_norm**2
    return std, bound


CHECKED = [
    ("matrix", Topic.MATRIX),
    ("box, rounds, covariance", Topic.POWER),
    ("rounds", Topic.POWER),
    ("box, rounds, covariance", Topic.COVARIANCE),
]


@pytest.mark.parametrize(("name", "topic"), CHECKED)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("size", [1.01, 10.0, 1e100, 1e308])
def test_an_entry_beyond_the_bound_and_12_deviations_is_refused(
    name, topic, sign, size
):
    """A little less is let through: the bound is not far from what is possible."""
    server, sent = one_reply(name, topic)
    std, bound = most_of(server, sent["b"])
    for factor, refused in ((0.5, False), (min(size, 1e307), True)):
        values = np.zeros_like(sent["b"].values)
        values.flat[0] = sign * min(factor * (bound + 12.0 * std), 1.7e308)
        server.clients = ("a", "b")
        answer = {**sent, "b": dataclasses.replace(sent["b"], values=values)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            replies = server.collect(answer)
        assert len(replies) == 2 - refused
        if refused:
            (warning,) = caught
            assert "client 'b' was rejected: its values are beyond" in str(
                warning.message
            )


@pytest.mark.parametrize(("name", "topic"), CHECKED[:2])
def test_many_large_entries_are_refused_by_their_norm(name, topic):
    """Each of 12 deviations alone could be; all of them could not."""
    server, sent = one_reply(name, topic)
    std, bound = most_of(server, sent["b"])
    size = sent["b"].values.size
    longest = bound + std * (math.sqrt(size) + 12.0)
    values = np.full(sent["b"].values.shape, 11.0 * std / math.sqrt(2.0))
    assert np.linalg.norm(values) > longest
    with pytest.warns(UserWarning, match="its values are beyond"):
        server.collect({**sent, "b": dataclasses.replace(sent["b"], values=values)})


@pytest.mark.parametrize("name", TASKS)
def test_a_claimed_noise_must_be_that_of_the_plan(name):
    """Of the registered budget, or of the claimed rows and cost."""
    task = make_task(**TASKS[name])
    for topic in task.topics:
        if topic in (Topic.SUBSPACE, Topic.PROJECTOR) or not topic.n_numbers:
            continue
        server, sent = one_reply(name, topic)
        for factor in (0.0, 0.99, 1.01, 1e100):
            numbers = (factor * sent["b"].numbers[0], *sent["b"].numbers[1:])
            server.clients = ("a", "b")
            with pytest.warns(UserWarning, match="its noise has a standard deviation"):
                server.collect(
                    {**sent, "b": dataclasses.replace(sent["b"], numbers=numbers)}
                )


def test_a_mean_lies_where_clients_move_it_to():
    server, sent = one_reply("box, rounds, covariance", Topic.MEAN)
    for value in (1.1, -1.1, 1e200):
        server.clients = ("a", "b")
        values = np.zeros(6)
        values[2] = value
        with pytest.warns(UserWarning, match="its mean is outside"):
            server.collect({**sent, "b": dataclasses.replace(sent["b"], values=values)})


def test_a_covariance_is_symmetric():
    server, sent = one_reply("box, rounds, covariance", Topic.COVARIANCE)
    values = sent["b"].values + np.array([[0.0, 1e-6], [0.0, 0.0]])
    with pytest.warns(UserWarning, match="not symmetric"):
        server.collect({**sent, "b": dataclasses.replace(sent["b"], values=values)})


SPECTRA = [(5.0, 0.1), (-5.0, -6.0), (0.3, 5.0), (0.1, 0.2), (0.3, -5.0)]


@pytest.mark.parametrize("numbers", SPECTRA)
def test_eigenvalues_are_those_of_bounded_rows(numbers):
    task = make_task()
    clients = {"b": LocalClient("b", rows_of(0), task, epsilon=50.0)}
    server = Server(registered(clients), task, session=SESSION)
    honest = clients["b"].respond(server.request())
    lie = dataclasses.replace(honest, numbers=(honest.numbers[0], *numbers))
    assert len(server.collect({"b": honest})) == 1
    with (
        pytest.warns(UserWarning, match="its eigenvalues are impossible"),
        pytest.raises(FederationError),
    ):
        server.collect({"b": lie})


@pytest.mark.parametrize("last", [0.0, 1e-300, -1e-3])
@pytest.mark.parametrize("aggregation", ["projector", "matrix"])
def test_eigenvalues_of_nothing_make_no_uncaught_error(last, aggregation):
    """A lone reply whose last eigenvalue is zero was a LinAlgError."""
    task = make_task(aggregation=aggregation)
    for names in ("a", "abc"):
        server, clients = make_server(task, names), make_clients(task, names)
        request = server.request()
        sent = {}
        for name, client in clients.items():
            reply = client.respond(request)
            numbers = (reply.numbers[0], last, min(last, 0.0))
            sent[name] = dataclasses.replace(reply, numbers=numbers)
        components, weights = server.averages.aggregate(server.collect(sent))
        assert np.isfinite(components).all()
        assert weights.sum() == pytest.approx(1.0)


# -- what a lie can still do -----------------------------------------------------------


def largest_weight(sizes, stds, which):
    """The lemma's bound, from registered numbers alone."""
    n, s = np.array(sizes, dtype=float), np.array(stds)
    ratios = np.minimum(np.minimum(n / n[which], (s[which] / s) ** 2), 1.0)
    return 1.0 / (1.0 + np.delete(ratios, which).sum())


def test_no_spectrum_gives_a_client_more_weight_than_its_public_numbers():
    """Whatever eigenvalues anybody claims, within what is accepted."""
    rng, closest = np.random.default_rng(0), 0.0
    for trial in range(300):
        task = make_task(
            rng.integers(1, 4), aggregation=["projector", "matrix"][trial % 2]
        )
        server = make_server(task)
        sizes = rng.integers(10, 10_000, 3)
        replies, stds = [], []
        for name, n in zip("abc", sizes, strict=True):
            mu = float(rng.choice([0.05, 0.5, 5.0]))
            std = task.mechanisms(int(n), mu)[0].noise_std
            last = rng.choice([0.0, 1e-12, 1e-3, 0.3, 1.0])
            others = rng.choice([-1e-3, 0.0, 1e-9, 1.0]) * last
            stds.append(std)
            topic, r = task.topics[0], task.n_components
            values = np.eye(r, 6) if topic is Topic.COMPONENTS else np.zeros(21)
            numbers = (std, float(last), float(others))
            replies.append(
                Reply(SESSION, task.digest, 0, topic, name, int(n), mu, numbers, values)
            )
        weights = server.averages.subspace_weights(replies)
        for which, weight in enumerate(weights):
            most = largest_weight(sizes, stds, which)
            assert weight <= most * (1.0 + 1e-9)
            closest = max(closest, weight / most)
    assert closest > 0.99


def test_a_liar_moves_an_average_by_no_more_than_its_weight():
    """One of ten with the same rows: a tenth of twice the bound, at most."""
    task = make_task(start=False, n_rounds=1)
    names = "abcdefghij"
    clients = make_clients(task, names, epsilon=20.0)
    server = Server(registered(clients), task)
    request = server.request(START.T)
    sent = {n: c.respond(request) for n, c in clients.items()}
    honest = server.averages.aggregate_products(server.collect(sent))
    std = sent["a"].numbers[0]
    longest = 1.0 + std * (math.sqrt(12) + 12.0)
    moved = []
    for seed in range(50):
        lie = np.random.default_rng(seed).normal(size=(6, 2)) ** 3
        lie *= 0.99 * longest / np.linalg.norm(lie)
        lie = np.clip(lie, -1 - 12 * std, 1 + 12 * std)
        answer = {**sent, "a": dataclasses.replace(sent["a"], values=lie)}
        found = server.averages.aggregate_products(server.collect(answer))
        moved.append(np.linalg.norm(found - honest))
    assert max(moved) <= 2.0 * longest / 10
    assert max(moved) > 0.05 * longest


# -- anything at all -------------------------------------------------------------------


def signed(body):
    return body + hashlib.blake2b(body, digest_size=16).digest()


def warped(data, rng):
    """A reply with other bits, numbers or values, and a right digest."""
    if rng.random() < 0.2:  # rows and cost
        rows, mu = int(rng.integers(1, 2**62)), float(rng.lognormal(0.0, 9.0))
        reply = Reply.from_bytes(data)
        data = dataclasses.replace(reply, n_samples=rows, mu=mu).to_bytes()
    body = bytearray(data[:-16])
    start = 8 + int.from_bytes(body[4:8], "little")
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(4)
        place = start + 8 * rng.integers((len(body) - start) // 8)
        if kind == 0:
            body[rng.integers(len(body))] ^= 1 << rng.integers(8)
        elif kind == 1:  # any float64, of any size
            body[place : place + 8] = rng.bytes(8)
        elif kind == 2:
            value = rng.choice([0.0, -0.0, 5e-324, 1e-300, -1.0, 1.0, 1e154, 1.7e308])
            body[place : place + 8] = np.array([value]).tobytes()
        else:  # a little
            body[place : place + 3] = rng.bytes(3)
    return signed(bytes(body))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "known"), KNOWN)
@pytest.mark.filterwarnings("ignore:client .* was rejected")
def test_mutated_replies_are_rejected_by_name_or_leave_a_bounded_result(name, known):
    """Every warning of NumPy is an error here; FederationErrors alone escape."""
    rng = np.random.default_rng(0)
    task = make_task(**TASKS[name])
    accepted = 0
    for trial in range(100):
        names = "a" if trial % 3 == 0 else "abc"
        clients = make_clients(task, names)
        rounds = rounds_of(Server(registered(clients) if known else [*names], task))
        turn = rng.integers(len(task.topics))
        try:
            for step in range(len(task.topics)):
                request = rounds.request()
                sent = {n: c.respond(request).to_bytes() for n, c in clients.items()}
                if step == turn:
                    sent["a"] = warped(sent["a"], rng)
                rounds.collect(sent)
        except FederationError:
            assert list(rounds.server.rejected) == ["a"]
            continue
        found = rounds.result()
        accepted += "a" in found.clients and not found.rejected
        assert np.isfinite(found.components).all()
        assert np.allclose(found.components @ found.components.T, np.eye(2), atol=1e-5)
        assert np.abs(found.mean).max() <= 20.0 * (1 + 1e-4)
        if found.explained_variance is not None:
            assert found.explained_variance.max() < 1e7
    assert accepted > 5


# -- the limits themselves -------------------------------------------------------------


def test_the_limits_are_12_deviations_and_no_more():
    """A product of norm just within is accepted, just beyond it is refused."""
    task = make_task(start=False, n_rounds=1)
    limits = ReplyLimits.of_claim(task, 50, 0.2)
    std = task.mechanisms(50, 0.2)[0].noise_std
    longest = 1.0 + std * (math.sqrt(12) + 12.0)
    shape = np.ones((6, 2)) / math.sqrt(12)
    for factor, fits in ((0.9999, True), (1.0001, False)):
        reply = Reply(
            SESSION,
            task.digest,
            0,
            Topic.POWER,
            "a",
            50,
            0.2,
            (std,),
            factor * longest * shape,
        )
        if fits:
            limits.check(reply)
            continue
        with pytest.raises(MessageError, match="beyond the public bound"):
            limits.check(reply)


@pytest.mark.parametrize("size", [1, 2, 10, 1000, 10**6])
def test_honest_noise_stays_within_12_deviations(size):
    """The probabilities that the lemma states, by their laws."""
    assert chi.logsf(math.sqrt(size) + 12.0, size) < -72.0
    assert 2.0 * norm.sf(12.0) * size + 3.0 * math.exp(-72.0) < 1e-30 + 4e-33 * size


@pytest.mark.sampled(3)
@pytest.mark.parametrize("p", [2, 20, 100])
def test_noise_moves_eigenvalues_by_less_than_its_bound(p):
    """The mean of the largest eigenvalue over 200 matrices, against the root of 2 p.

    Its standard error is below 0.05; for large p the mean comes up to the bound.
    """
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        noise = np.tril(rng.standard_normal((p, p)), -1) / math.sqrt(2.0)
        noise = noise + noise.T + np.diag(rng.standard_normal(p))
        found.append(np.linalg.eigvalsh(noise)[-1])
    bound = math.sqrt(2.0 * p)
    assert np.mean(found) < bound
    assert np.mean(found) > (0.9 if p == 100 else 0.4) * bound
