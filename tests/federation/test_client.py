"""A client releases what its plan says, whatever a server sends."""

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest
from federation_tools import SESSION, ask, make_task, rows_of

from skdpspectral import PrivacyAccountant, PrivacyBudgetError, PrivacyLeakWarning
from skdpspectral._linalg.eigen import top_eigh
from skdpspectral._release.noise import record_releases
from skdpspectral._statistics.moments import Rows
from skdpspectral.decomposition import SpikedModel
from skdpspectral.federation import LocalClient, MessageError, Rounds
from skdpspectral.mechanisms import Gaussian

OTHER = bytes(16)
TASK = make_task(n_rounds=2)
BASIS = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0]


def first(session=SESSION, task=TASK):
    return ask(task, 0, session=session)


def power(step=1, basis=BASIS, session=SESSION, task=TASK):
    return ask(task, step, basis, session)


@pytest.fixture
def accountant():
    return PrivacyAccountant(1.0)


def client(task=None, accountant=None, **parameters):
    task = make_task(n_rounds=2) if task is None else task
    return LocalClient("a", rows_of(0), task, accountant=accountant, **parameters)


def test_a_repeated_request_gets_identical_bytes(accountant):
    one = client(accountant=accountant)
    requests = [first(), power(), power(2, 3.0 * BASIS)]
    with record_releases() as released:
        replies = [one.respond(request).to_bytes() for request in requests]
    with record_releases() as again:
        for _ in range(3):
            for request, reply in zip(requests, replies, strict=True):
                assert one.respond(request.to_bytes()).to_bytes() == reply
    assert sorted(released) == ["power_1", "power_2", "second_moment"]
    assert not again
    assert len(accountant.ledger) == 1


def test_the_whole_session_is_charged_before_the_first_row_is_read():
    accountant = PrivacyAccountant(0.5)
    one = client(accountant=accountant, epsilon=1.0)
    with pytest.raises(PrivacyBudgetError), record_releases() as released:
        one.respond(first())
    assert not released
    assert len(accountant.ledger) == 0
    accountant = PrivacyAccountant()
    one = client(accountant=accountant)
    one.respond(first())
    assert accountant.ledger[0].mu == one.plan.mu


def test_a_with_block_is_charged():
    with PrivacyAccountant() as accountant:
        one = client()
    one.respond(first())
    assert len(accountant.ledger) == 1


@pytest.mark.parametrize("length", [1.0, 10.0, 1e-300, 1e300])
@pytest.mark.parametrize("columns", ["orthonormal", "oblique", "equal"])
def test_a_longer_basis_changes_neither_noise_nor_sensitivity(length, columns):
    """The release is that of orthonormal columns; the worst rows move it as planned."""
    basis = {"orthonormal": BASIS, "oblique": BASIS @ [[1.0, 0.99], [0, 0.1]]}
    basis = basis.get(columns, np.ones((6, 2)))
    task = make_task(n_rounds=1)
    seen = []

    def exact(X):
        with pytest.warns(PrivacyLeakWarning, match="without privacy"):
            one = LocalClient("a", X, task, epsilon=None)
        one.respond(ask(task, 0))
        return one.respond(ask(task, 1, length * basis)).values

    for i in range(20):
        X = rows_of(i)
        other = X.copy()
        other[3] = np.random.default_rng(i).normal(size=6)
        seen.append(np.linalg.norm(exact(X) - exact(other)))
    rows = np.zeros((2, 50, 6))
    rows[0, 0], rows[1, 0] = BASIS.T
    planned = client(task).plan["power_1"].sensitivity
    assert max(seen) <= planned
    if columns == "orthonormal":
        moved = np.linalg.norm(exact(rows[0]) - exact(rows[1]))
        assert moved == pytest.approx(planned, rel=1e-12)


REFUSED = {
    "another session": [first(), power(session=OTHER)],
    "not for step 0": [power()],
    "not for step 1": [first(), power(2)],
    "different content": [first(), power(), power(basis=BASIS[::-1])],
    "no further request": [first(), power(), power(2), power(3)],
    r"basis of shape \(0, 0\)": [ask(TASK, 0, BASIS)],
    r"basis of shape \(6, 2\)": [first(), power(basis=BASIS.T)],
    "basis of shape": [first(), ask(TASK, 1)],
    "damaged": [b"hello"],
    "but at most": [first().to_bytes() + bytes(700)],
    "not a Request": [client().respond(first()).to_bytes()],
}


@pytest.mark.parametrize(("says", "requests"), REFUSED.items())
def test_requests_out_of_turn_are_refused_and_release_nothing(says, requests):
    one = client()
    for request in requests[:-1]:
        one.respond(request)
    with record_releases() as released, pytest.raises(MessageError, match=says):
        one.respond(requests[-1])
    assert not released


def test_a_refused_request_spends_nothing(accountant):
    one = client(accountant=accountant)
    with pytest.raises(MessageError):
        one.respond(power())
    assert len(accountant.ledger) == 0
    one.respond(first(session=OTHER))  # the first valid one fixes the session
    assert len(accountant.ledger) == 1


def test_a_failure_in_the_middle_is_no_second_release(accountant, monkeypatch):
    one = client(accountant=accountant)
    one.respond(first())
    with monkeypatch.context() as patch:
        patch.setattr(type(one._rows), "run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one.respond(power())
    with record_releases() as released:
        for request in (power(), power(2)):
            with pytest.raises(MessageError, match="failed"):
                one.respond(request)
    assert not released
    assert len(accountant.ledger) == 1


def test_a_failure_at_the_start_ends_the_session(accountant, monkeypatch):
    task = make_task(n_rounds=1, bounds=(-5, 5))
    one = LocalClient("a", rows_of(0), task, accountant=accountant)
    with monkeypatch.context() as patch:
        patch.setattr(Rows, "about", lambda *_, **__: 1 / 0)
        patch.setattr(Rows, "differences", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one.respond(first(task=task))
    for request in (first(task=task), ask(task, 1, BASIS)):
        with pytest.raises(MessageError, match="failed"):
            one.respond(request)
    assert len(accountant.ledger) == 1


def test_many_threads_get_one_answer():
    one, found = client(), []
    threads = [
        threading.Thread(target=lambda: found.append(one.respond(first()).to_bytes()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_middle_of_an_answer_is_refused_and_does_not_wait(monkeypatch):
    one, inside, go = client(), threading.Event(), threading.Event()
    answer = one._respond

    def slowly(request):
        inside.set()
        go.wait(30)
        return answer(request)

    monkeypatch.setattr(one, "_respond", slowly)
    thread = threading.Thread(target=one.respond, args=(first(),))
    thread.start()
    inside.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # ends a child that waits for a lock that nobody holds
        code = 1
        try:
            one.respond(first())
        except MessageError:
            code = 7
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    go.set()
    thread.join()
    assert os.WIFEXITED(status)
    assert os.WEXITSTATUS(status) == 7


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copies(make):
    with pytest.raises(TypeError, match="release twice"):
        make(client())


@pytest.mark.parametrize("given", [{}, {"n_rounds": 2}], ids=["components", "rounds"])
def test_all_that_is_sent_is_a_function_of_the_releases(given):
    """Every number of every message, from what the release layer let out."""
    task = make_task(bounds=(-9, 9), **given)
    one, bases = client(task), [(), BASIS, BASIS]
    with record_releases() as released:
        replies = [one.respond(ask(task, i, bases[i])) for i in range(task.n_steps)]
    moment = released["second_moment"]
    values, vectors = top_eigh(moment, 2)
    bulk = (np.trace(moment) - values.sum()) / 4
    assert replies[0].numbers == pytest.approx((values[-1], bulk), rel=1e-12)
    sent = moment[np.tril_indices(6)] if task.by_matrix else vectors
    assert np.array_equal(replies[0].values, sent)
    for t, reply in enumerate(replies[1:], 1):
        assert np.array_equal(reply.values, released[f"power_{t}"])
    assert not any(reply.numbers for reply in replies[1:])
    assert {(r.n_samples, r.mu) for r in replies} == {(50, one.plan.mu)}
    assert all(isinstance(m, Gaussian) for m in one.plan.mechanisms)


@pytest.mark.parametrize("length", [1e-300, 10.0, 1e300])
@pytest.mark.parametrize(
    "given",
    [
        {"mechanism": SpikedModel(4.0, 1.0, release="covariance")},
        {"projection_norm": 4.0},
    ],
)
def test_no_basis_changes_a_covariance(length, given):
    """With little noise, it is that of orthonormal columns."""
    task = make_task(**given)
    found = []
    for factor in (1.0, length):
        one = LocalClient("a", rows_of(0, 700), task, epsilon=1e8)
        one.respond(first(task=task))
        found.append(one.respond(ask(task, 1, factor * BASIS)).values)
    np.testing.assert_allclose(*found, atol=1e-3)


def test_nothing_is_read_before_the_charge():
    class Rows(np.ndarray):
        """Rows that tell when they are read."""

        def sum(self, *args, **kwargs):
            raise AssertionError("read before the charge")

    one = client(accountant=PrivacyAccountant(1e-3))
    one._X = one._X.view(Rows)
    with pytest.raises(PrivacyBudgetError):
        one.respond(first())


BAD_CLIENTS = {
    "64 bytes": {"name": "n" * 65},
    "printable": {"name": 3},
    "finite real numbers|NaN": {"X": np.full((9, 6), np.nan)},
    "features": {"X": np.ones((9, 5))},
    "n_samples=1 is below n_components=2": {"X": np.ones((1, 6))},
    "epsilon": {"epsilon": -1.0},
    "epsilon must be a real": {"epsilon": "1"},
    "delta": {"delta": 1e-16},
    "accountant": {"accountant": "ledger"},
}


@pytest.mark.parametrize(("says", "changes"), BAD_CLIENTS.items())
def test_bad_clients(says, changes):
    arguments = {"name": "a", "X": rows_of(0), "task": make_task(), **changes}
    with pytest.raises(ValueError, match=says):
        LocalClient(**arguments)


def test_a_task_is_needed_and_must_be_known():
    with pytest.raises(TypeError, match="SpectralTask"):
        LocalClient("a", rows_of(0), "pca")


def test_a_large_delta_is_warned_of():
    with pytest.warns(PrivacyLeakWarning, match="delta=0.1"):
        client(delta=0.1)


def test_seeded_clients_repeat_themselves():
    values = [client(noise_seed=3).respond(first()).values for _ in range(2)]
    assert np.array_equal(*values)
    assert not np.array_equal(*(client().respond(first()).values for _ in range(2)))


def test_a_seeded_client_warns_each_time():
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning, match="noise_seed is given") as caught:
            client = LocalClient("a", rows_of(0), make_task(), noise_seed=0)
        assert [w.filename for w in caught] == [__file__]
    assert client.plan.seeded


def test_a_client_that_is_created_again_refuses_what_its_ledger_has(tmp_path):
    """Two clients of one session would answer a step twice, with other noise."""
    ledger = PrivacyAccountant(9.0, 1e-4, path=tmp_path / "ledger.db")
    task, X = make_task(1, 4), np.random.default_rng(0).normal(size=(400, 4))
    clients = [LocalClient("a", X, task, accountant=ledger) for _ in range(2)]
    registered = {"a": clients[0].registration}
    request = Rounds(registered, task).request()
    answer = clients[0].respond(request)
    with pytest.raises(MessageError, match="take part in the next session"):
        clients[1].respond(request)
    assert clients[0].respond(request) == answer
    (entry,) = ledger.ledger
    assert entry.label == f"session {request.session.hex()} of a"
    other = Rounds(registered, task).request()
    clients[1].respond(other)
    LocalClient("b", X, task, accountant=ledger).respond(request)
    assert len(ledger.ledger) == 3
