"""Parties that disagree, fail or lie: refused by name, or of a bounded influence."""

import dataclasses
import math

import numpy as np
import pytest
from federation_tools import (
    SESSION,
    answers,
    ask,
    hold,
    in_session,
    make_clients,
    make_rounds,
    make_task,
    other,
    replies_to,
    rows_needed,
    rows_of,
    session_ends,
)
from release_tools import record_releases
from scipy.stats import chi, norm

from skdpspectral import PrivacyAccountant
from skdpspectral._messages import signed
from skdpspectral.decomposition import SpikedModel, _kernels
from skdpspectral.federation import (
    FederationError,
    LocalClient,
    MessageError,
    Registration,
    Reply,
    Request,
    Rounds,
)
from skdpspectral.metrics import subspace_distance

BOX = {"bounds": (-20, 20)}
MODEL = {"mechanism": SpikedModel(signal_variance=8.0, noise_variance=1.0)}
START = np.eye(6, 2)
TASKS = {
    "components": {},
    "matrix": {"aggregation": "matrix"},
    "box, covariance": {**BOX, "projection_norm": 9.0},
    "box, rounds": {**BOX, "n_rounds": 2},
    "rounds": {"n_rounds": 3},
    "shared": {"center": "shared"},
    "shared in a box": {
        **BOX,
        "center": "shared",
        "aggregation": "matrix",
        "projection_norm": 9.0,
    },
    "model": {"mechanism": SpikedModel(8.0, 1.0, release="covariance")},
    "model, whole": {**MODEL, "aggregation": "matrix"},
    "private": {"mechanism": SpikedModel("private", "private")},
    "paper": {
        "mechanism": SpikedModel(
            8.0,
            1.0,
            release="covariance",
            calibration="paper",
            sensitivity_constant=1.0,
        )
    },
}
# What is asked for of "paper" and what holds differ: tests of their own say so.
pytestmark = pytest.mark.filterwarnings("ignore:.*this is the guarantee of the noise")

# -- another task ----------------------------------------------------------------------

OTHERS = {
    "bounds": {"bounds": (-20, 200), "n_rounds": 1},
    "no bounds": {"n_rounds": 1},
    "center": {**BOX, "center": "pairs", "n_rounds": 1},
    "rounds": {**BOX, "n_rounds": 2},
    "components": {**BOX, "n_components": 1, "n_rounds": 1},
    "weights": {**BOX, "n_rounds": 1, "weights": "equal"},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_client_refuses_requests_of_another_task_and_spends_nothing(other):
    task, accountant = make_task(**BOX, n_rounds=1), PrivacyAccountant()
    client = LocalClient("a", rows_of(0), task, accountant=accountant)
    foreign = make_task(**other)
    with record_releases() as released:
        with pytest.raises(MessageError, match="for another task") as caught:
            client.respond(ask(foreign, 0))
        assert foreign.digest.hex() in str(caught.value)
        assert task.digest.hex() in str(caught.value)
    assert not released
    assert len(accountant.ledger) == 0
    # In the middle of a session too, and for a request that was answered before.
    first = ask(task, 0)
    client.respond(first)
    for step in (0, 1):
        changed = dataclasses.replace(first, task=foreign.digest, step=step)
        with pytest.raises(MessageError, match="for another task"):
            client.respond(changed)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_server_names_who_has_another_task(other):
    """By its refusal, and by a reply if it answers all the same."""
    task, foreign = make_task(**BOX, n_rounds=1), make_task(**other)
    clients = make_clients(task)
    rounds, again = make_rounds(task, clients), make_rounds(task, clients)
    clients["b"] = LocalClient("b", rows_of(1), foreign)
    request = rounds.request()
    sent = {name: clients[name].respond(request) for name in "ac"}
    with pytest.raises(MessageError) as refused:
        clients["b"].respond(request)
    with pytest.warns(UserWarning, match="client 'b' was rejected: it refused.*task"):
        rounds.collect({**sent, "b": refused.value})
    assert rounds.clients == ("a", "c")
    again.request()
    sent["b"] = clients["b"].respond(ask(foreign, 0))
    with pytest.warns(UserWarning, match="'b' was rejected: the reply is for another"):
        again.collect(sent)
    assert foreign.digest.hex() in again.rejected["b"]


@pytest.mark.filterwarnings("ignore:client 'b' was rejected")
def test_a_refusal_is_shown_short_and_printable():
    class Disguised(MessageError):
        """What somebody else raised may speak of rows."""

    task = make_task(min_clients=2)
    clients = make_clients(task, "ab")
    for error in (MessageError("x\x1b[31m\n" * 1000), Disguised("3.25")):
        rounds = make_rounds(task, clients)
        rounds.request()
        with session_ends("'a' was rejected: it (refused|failed)", "min_clients=2"):
            rounds.collect({"a": error, "b": None})
        assert len(rounds.rejected["a"]) < 300
        assert rounds.rejected["a"].isprintable()
        assert "3.25" not in str(rounds.rejected)


# -- who is there ----------------------------------------------------------------------

PUBLIC = Registration(50, 1.0, 1e-6)
BAD_ROUNDS = {
    "clients must be registered": {"clients": ["a", "b"]},
    "min_clients=4": {"task": make_task(min_clients=4)},
    "weights has no entry": {"task": make_task(weights={"a": 1.0, "b": 1.0})},
    "weights names, without rows": {
        "task": make_task(weights=dict.fromkeys("abcd", 1))
    },
    "number of clients": {"clients": {}},
    "printable": {"clients": {1: PUBLIC}},
    "must be registered with": {"clients": {"a": (50, 1.0)}},
}


@pytest.mark.parametrize(("says", "changes"), BAD_ROUNDS.items())
def test_bad_rounds(says, changes):
    given = {"clients": dict.fromkeys("abc", PUBLIC), "task": make_task(), **changes}
    with pytest.raises(ValueError, match=says):
        Rounds(**given)
    with pytest.raises(TypeError, match="SpectralTask"):
        Rounds(given["clients"], "pca")


BAD_NUMBERS = [
    *((0, 1.0, 1e-6), (1, 1.0, 1e-6), (50, math.nan, 1e-6), (50, -1.0, 1e-6)),
    *((50, 1.0, 2.0), (50.5, 1.0, 1e-6), (50, 1e-12, 1e-15), 50, None),
]


@pytest.mark.parametrize("given", BAD_NUMBERS)
def test_bad_registrations(given):
    with pytest.raises(ValueError, match=r"client 'a'|each client must be registered"):
        Rounds({"a": given}, make_task())


@pytest.mark.parametrize("changes", [{"n_samples": 51}, {"mu": 0.3}, {"mu": math.inf}])
def test_a_registered_client_is_held_to_its_numbers(changes):
    task = make_task(aggregation="matrix")
    clients = make_clients(task)
    rounds = make_rounds(task, clients)
    sent = other(replies_to(rounds, clients), **changes)
    with pytest.warns(UserWarning, match="'b' was rejected: its number of rows or its"):
        rounds.collect(sent)


# -- honest clients --------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("epsilon", [1e-2, 0.5, 30.0, None])
@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
def test_no_honest_client_is_rejected(name, epsilon):
    """Rows at the worst of their bounds included; any rejection warns, and fails."""
    if name == "paper" and (epsilon is None or epsilon > 1.0):
        return
    task = make_task(**TASKS[name])
    if task.model:  # any rows, but no more of the model's bounds
        n = rows_needed(task)
        rows = {name: rows_of(i, n) for i, name in enumerate("abc")}
        rows["c"] = 3.0 * rows["c"] / np.linspace(3, 1, 6)
        rows["d"] = rows_of(3, n=2 * n)
    else:
        rows = {"a": rows_of(0), "b": 100.0 * rows_of(1), "d": rows_of(3, n=7)}
        rows["c"] = np.tile([1e6, 0, 0, 0, 0, 0], (50, 1))
    clients = {n: LocalClient(n, X, task, epsilon=epsilon) for n, X in rows.items()}
    rounds = make_rounds(task, clients)
    found = hold(rounds, clients)
    assert found.rejected_ == {}
    assert np.isfinite(found.components_).all()
    for i in range(task.n_steps):
        request = clients["a"]._begun[i]
        assert len(request.to_bytes()) <= task.longest()
        reply = clients["a"].respond(request)
        assert len(reply.to_bytes()) <= task.longest(i)


def test_a_request_stays_the_same_until_it_is_answered():
    """A coordinator that loses its answers asks again, and nobody releases twice."""
    task = make_task(n_rounds=1)
    clients = make_clients(task)
    rounds = make_rounds(task, clients)
    with pytest.raises(MessageError, match="no request since"):
        rounds.collect({})
    first = [rounds.request().to_bytes() for _ in range(3)]
    assert len(set(first)) == 1
    kept = [answers(clients, request) for request in first]
    assert kept[0] == kept[1] == kept[2]
    rounds.collect({**kept[0], "d": kept[0]["a"]})
    assert "not a client" in rounds.rejected["d"]
    assert Request.from_bytes(rounds.request().to_bytes()).step == 1
    with pytest.raises(MessageError, match="no result yet"):
        rounds.result()
    # The answers to the first request, again.
    with session_ends("was rejected", "step 1"):
        rounds.collect(kept[0])
    rounds = make_rounds(task, clients)
    hold(rounds, make_clients(task))
    with pytest.raises(MessageError, match="all requests of the task"):
        rounds.request()
    sessions = [Rounds({"a": PUBLIC}, task).request().session for _ in range(2)]
    assert sessions[0] != sessions[1]


def test_a_client_that_fails_late_keeps_its_weight():
    """Components are sent back before the last step: they cannot be made without it."""
    task = make_task(projection_norm=4.0)
    clients = make_clients(task)
    rounds = make_rounds(task, clients)
    rounds.collect(replies_to(rounds, clients))
    with pytest.warns(UserWarning, match="'b' was rejected"):
        rounds.collect({**replies_to(rounds, clients), "b": None})
    found = rounds.result()
    assert found.clients_.tolist() == ["a", "b", "c"]
    assert found.client_weights_.shape == (3,)
    assert list(found.rejected_) == ["b"]
    # Before the start, it can.
    task = make_task(center="shared")
    clients = make_clients(task)
    rounds = make_rounds(task, clients)
    rounds.collect(replies_to(rounds, clients))
    with pytest.warns(UserWarning, match="'b' was rejected"):
        rounds.collect({**replies_to(rounds, clients), "b": None})
    while not rounds.done:
        rounds.collect(replies_to(rounds, {name: clients[name] for name in "ac"}))
    assert rounds.result().clients_.tolist() == ["a", "c"]


# -- bad answers -----------------------------------------------------------------------


def lie(**changes):
    return lambda reply: dataclasses.replace(reply, **changes).to_bytes()


def without_finite(reply):
    """A valid message but for one value, with a digest of its own."""
    body = reply.to_bytes()[:-16]
    return signed(body[:-8] + np.array([np.nan]).tobytes())


BAD = {
    "did not answer in time": lambda reply: None,
    "failed with RuntimeError": lambda reply: RuntimeError("row 7 is 3.25"),
    "failed with TimeoutError": lambda reply: TimeoutError(),
    "was damaged": lambda reply: reply.to_bytes()[:-8],
    "at most": lambda reply: reply.to_bytes() + bytes(10_000),
    "must be bytes": lambda reply: 3,
    "must be finite": without_finite,
    "another session": lie(session=bytes(16)),
    "another task": lie(task=bytes(16)),
    "not for step 0": lie(step=1),
    "another client's name": lie(client="a"),
    "shape (2, 5)": lie(values=np.eye(2, 5)),
    "3 numbers": lie(numbers=(1.0, 0.1, 0.1)),
    "not orthonormal": lie(values=10 * np.eye(2, 6)),
    "are not orthonormal": lie(values=np.ones((2, 6)) / 6**0.5),
    "components are not": lie(values=1e300 * np.eye(2, 6)),
    "eigenvalues": lie(numbers=(1e9, 0.1)),
    "its eigenvalues": lie(numbers=(0.3, 5.0)),
    "eigenvalues are": lie(numbers=(-50.0, -60.0)),
    "eigenvalues are impossible": lie(numbers=(0.3, -50.0)),
}


@pytest.mark.parametrize(("reason", "spoil"), BAD.items())
def test_a_bad_answer_is_rejected_by_name_and_the_rest_is_used(reason, spoil):
    task = make_task()
    clients = make_clients(task, epsilon=20.0)
    rounds = make_rounds(task, clients)
    sent = replies_to(rounds, clients)
    sent["b"] = spoil(sent["b"])
    with pytest.warns(UserWarning, match="client 'b' was rejected") as caught:
        rounds.collect(sent)
    assert {w.filename for w in caught} == {__file__}
    assert rounds.clients == ("a", "c")
    assert reason in rounds.rejected["b"]
    assert "3.25" not in rounds.rejected["b"]  # an error may speak of the data
    found = rounds.result()
    assert found.clients_.tolist() == ["a", "c"]
    assert found.client_weights_.sum() == pytest.approx(1.0)
    assert np.isfinite(found.components_).all()


def one_reply(name, step, names="ab", **how):
    """Honest replies to some request, and the rounds that wait for them."""
    task = make_task(**TASKS[name])
    clients = make_clients(task, names, **how)
    rounds = make_rounds(task, clients)
    for _ in range(step):
        rounds.collect(replies_to(rounds, clients))
    return rounds, replies_to(rounds, clients)


# Steps whose values are bounded by a norm, with their release and unit.
CHECKED = [
    ("matrix", 0, "second_moment", 1.0),
    ("box, rounds", 1, "power_1", 1.0),
    ("rounds", 1, "power_1", 1.0),
    ("box, covariance", 1, "projected_moment", (9.0 / 20.0) ** 2),
]


@pytest.mark.parametrize(("name", "step", "release", "unit"), CHECKED)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("size", [1.01, 1e100, 1e308])
def test_an_entry_beyond_the_bound_and_12_deviations_is_refused(
    name, step, release, unit, sign, size
):
    """A little less is let through: the bound is not far from what is possible."""
    for factor, refused in ((0.5, False), (min(size, 1e307), True)):
        rounds, sent = one_reply(name, step)
        std = unit * rounds.parties["b"].plan[release].noise_std
        values = np.zeros_like(sent["b"].values)
        values.flat[0] = sign * min(factor * (unit + 12.0 * std), 1.7e308)
        if refused:
            with pytest.warns(
                UserWarning, match="'b' was rejected: its values are bey"
            ):
                rounds.collect(other(sent, values=values))
        else:
            rounds.collect(other(sent, values=values))
        assert ("b" in rounds.rejected) == refused


@pytest.mark.parametrize(("name", "step", "release", "unit"), CHECKED[:2])
def test_many_large_entries_are_refused_by_their_norm(name, step, release, unit):
    """Each of 12 deviations alone could be; all of them could not."""
    rounds, sent = one_reply(name, step)
    std, values = rounds.parties["b"].plan[release].noise_std, sent["b"].values
    longest = unit + std * (math.sqrt(values.size) + 12.0)
    values = np.full(values.shape, 11.0 * std / math.sqrt(2.0))
    assert np.linalg.norm(values) > longest
    with pytest.warns(UserWarning, match="its values are beyond"):
        rounds.collect(other(sent, values=values))


def test_the_limits_are_12_deviations_and_no_more():
    """A product of norm just within is accepted, just beyond it is refused."""
    for factor, refused in ((0.9999, False), (1.0001, True)):
        rounds, sent = one_reply("rounds", 1)
        std = rounds.parties["b"].plan["power_1"].noise_std
        longest = factor * (1.0 + std * (math.sqrt(12) + 12.0))
        values = longest * np.ones((6, 2)) / math.sqrt(12)
        if refused:
            with pytest.warns(UserWarning, match="beyond the public bound"):
                rounds.collect(other(sent, values=values))
        else:
            rounds.collect(other(sent, values=values))
        assert ("b" in rounds.rejected) == refused


def test_covariances_are_possible_ones():
    rounds, sent = one_reply("box, covariance", 1)
    values = sent["b"].values + np.array([[0.0, 1e-6], [0.0, 0.0]])
    with pytest.warns(UserWarning, match="not symmetric"):
        rounds.collect(other(sent, values=values))


@pytest.mark.parametrize("last", [0.0, 1e-300, -1e-3])
@pytest.mark.parametrize("name", ["components", "matrix"])
def test_eigenvalues_of_nothing_make_no_uncaught_error(last, name):
    """A lone reply whose last eigenvalue is zero was a LinAlgError."""
    for names in ("a", "abc"):
        rounds, sent = one_reply(name, 0, names)
        for client in names:
            sent = other(sent, client, numbers=(last, min(last, 0.0)))
        rounds.collect(sent)
        found = rounds.result()
        assert np.isfinite(found.components_).all()
        assert found.client_weights_.sum() == pytest.approx(1.0)


# -- averages --------------------------------------------------------------------------


def test_weights_are_one_over_the_variance():
    """By the formula, from what was sent; an uninformative client counts little."""
    sizes = {"a": Registration(1000, 0.1, 1e-6), "b": Registration(100, 9.0, 1e-6)}
    for chosen in ("optimal", "equal"):
        task = make_task(1, weights=chosen)
        rounds = in_session(Rounds(sizes, task))
        rounds.request()
        noise, sent = [], {}
        for name, (n, *_) in sizes.items():
            plan, vector = rounds.parties[name].plan, np.eye(1, 6)
            noise.append(plan["second_moment"].noise_std)
            place = SESSION, task.digest, 0, name, n, plan.mu
            sent[name] = Reply(*place, (0.4, 0.1), vector)
        rounds.collect(sent)
        found = rounds.result().client_weights_
        if chosen == "equal":
            assert np.array_equal(found, [0.5, 0.5])
            continue
        n, noise = np.array([1000.0, 100.0]), np.array(noise)
        own = _kernels.inverse_variance_weights(2.0 / n + (noise / 0.4) ** 2)
        gap = own @ _kernels.spike_strength(np.full(2, 0.3), noise * math.sqrt(3.0))
        expected = 2 * (gap + 0.1) * 0.1 / n + noise**2
        expected = _kernels.inverse_variance_weights(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def after_start(rounds):
    """Rounds that wait for the first product, with the basis START."""
    rounds._step, rounds._request, rounds.basis = 1, None, START
    rounds.request()
    return rounds


def test_products_are_averaged_by_rows_and_noise():
    task = make_task(2, n_rounds=1)
    sizes = {"a": Registration(100, 0.5, 1e-6), "b": Registration(300, 2.0, 1e-6)}
    rounds = after_start(in_session(Rounds(sizes, task)))
    weights, sent, product = [], {}, 0.0
    values = 0.1 * np.random.default_rng(1).normal(size=(2, 6, 2))
    for value, (name, (n, *_)) in zip(values, sizes.items(), strict=True):
        plan = rounds.parties[name].plan
        place = SESSION, task.digest, 1, name, n, plan.mu
        sent[name] = Reply(*place, (), value)
        weights.append(1.0 / (1 / (6 * n) + plan["power_1"].noise_std ** 2))
        product = product + weights[-1] * value
    rounds.collect(sent)
    found = rounds.result()
    singular = np.linalg.svd(product / sum(weights))[1][:2]
    np.testing.assert_allclose(found.explained_variance_, singular)


@pytest.mark.parametrize("aggregation", ["projector", "matrix"])
def test_matrices_and_projectors_agree_without_noise(aggregation):
    """Of clients with the same rows the result is that of one."""
    task, rows = make_task(2, aggregation=aggregation), rows_of(0)
    clients = {name: LocalClient(name, rows, task, epsilon=1e8) for name in "abc"}
    found = hold(make_rounds(task, clients), clients)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    top = np.linalg.eigh(rows.T @ rows)[1][:, -2:].T
    assert subspace_distance(found.components_, top) < 1e-3


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
        how = ["projector", "matrix"][trial % 2]
        task = make_task(int(rng.integers(1, 4)), aggregation=how)
        sizes = rng.integers(10, 10_000, 3)
        budgets = rng.choice([0.05, 0.5, 5.0], 3)
        known = {
            name: (int(n), float(e), 1e-6)
            for name, n, e in zip("abc", sizes, budgets, strict=True)
        }
        rounds, replies, stds = Rounds(known, task), [], []
        for name, (n, *_) in known.items():
            plan = rounds.parties[name].plan
            stds.append(plan["second_moment"].noise_std)
            last = float(rng.choice([0.0, 1e-12, 1e-3, 0.3, 1.0]))
            others = float(rng.choice([-1e-3, 0.0, 1e-9, 1.0])) * last
            values = np.eye(task.n_components, 6) if trial % 2 == 0 else np.zeros(21)
            place = SESSION, task.digest, 0, name, n, plan.mu
            replies.append(Reply(*place, (last, others), values))
        found = task.queries[0].combine(rounds, replies)[1]
        for which, weight in enumerate(found):
            most = largest_weight(sizes, stds, which)
            assert weight <= most * (1.0 + 1e-9)
            closest = max(closest, weight / most)
    assert closest > 0.99


def test_a_liar_moves_an_average_by_no_more_than_its_weight():
    """One of ten with the same rows: a tenth of twice the bound, at most."""
    task = make_task(n_rounds=1)
    clients = make_clients(task, "abcdefghij", epsilon=20.0)
    first = make_rounds(task, clients)
    replies_to(first, clients)
    sent = replies_to(after_start(first), clients)
    std = first.parties["a"].plan["power_1"].noise_std
    longest, moved = 1.0 + std * (math.sqrt(12) + 12.0), []

    def values_of(sent):
        rounds = after_start(make_rounds(task, clients))
        rounds.collect(sent)
        assert not rounds.rejected
        return np.sum(rounds.outcome()["explained_variance_"] ** 2) ** 0.5

    honest = values_of(sent)
    for seed in range(50):
        values = np.random.default_rng(seed).normal(size=(6, 2)) ** 3
        values *= 0.99 * longest / np.linalg.norm(values)
        values = np.clip(values, -1 - 12 * std, 1 + 12 * std)
        moved.append(abs(values_of(other(sent, "a", values=values)) - honest))
    # Of the norm of the average, which moves less than the average.
    assert max(moved) <= 2.0 * longest / 10
    assert max(moved) > 0.01 * longest


# -- anything at all -------------------------------------------------------------------


def warped(data, rng):
    """A reply with other bits, numbers or values, and a right digest."""
    body = bytearray(data[:-16])
    start = body.index(b"\n") + 1
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
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.filterwarnings("ignore:client .* was rejected")
def test_mutated_replies_are_rejected_by_name_or_leave_a_bounded_result(name):
    """Every warning of NumPy is an error here; FederationErrors alone escape."""
    rng, accepted = np.random.default_rng(0), 0
    task = make_task(**TASKS[name])
    for trial in range(60):
        clients = make_clients(task, "a" if trial % 3 == 0 else "abc")
        rounds = make_rounds(task, clients)
        turn = rng.integers(task.n_steps)
        try:
            for step in range(task.n_steps):
                sent = replies_to(rounds, clients)
                sent = {n: reply.to_bytes() for n, reply in sent.items()}
                if step == turn:
                    sent["a"] = warped(sent["a"], rng)
                rounds.collect(sent)
        except FederationError:
            assert list(rounds.rejected) == ["a"]
            continue
        found = rounds.result()
        accepted += "a" in found.clients_ and not found.rejected_
        components = found.components_
        assert np.isfinite(components).all()
        assert np.allclose(components @ components.T, np.eye(2), atol=1e-5)
        assert np.abs(found.mean_).max() <= 20.0 * (1 + 1e-4)
        assert np.max(getattr(found, "explained_variance_", 0.0)) < 1e7
    assert accepted > 2


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
