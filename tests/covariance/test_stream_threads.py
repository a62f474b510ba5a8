"""Releases and streams under threads, forks and copies: noise is used once, or not."""

import contextvars
import copy
import os
import pickle
import sys
import threading

import numpy as np
import pytest
from forked_python import in_child
from release_tools import Release, record_releases

from skdpspectral import DPPCA, JMECovariance, LedgerError, PrivacyAccountant
from skdpspectral.mechanisms import PrivacyPlan

pytestmark = pytest.mark.slow

REPEATS = 20
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def _threads_change_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def rows(n, seed=0):
    return np.random.default_rng(seed).normal(0.0, 0.3, (n, 2))


# -- fits and paths on one object ----------------------------------------------------


@pytest.mark.parametrize("with_ledger", [False, True])
def test_batches_from_threads_have_noise_of_their_own(with_ledger):
    """Of batches at the same time one is released, and the others raise."""
    accountant = PrivacyAccountant() if with_ledger else None
    stream = JMECovariance(horizon=10_000, workload="prefix", accountant=accountant)
    zeros, refused = np.zeros((100, 2)), []

    def feed():
        for _ in range(11):
            try:
                stream.partial_fit(zeros)
            except (RuntimeError, LedgerError) as error:
                refused.append(error)

    with record_releases() as released:
        stream.partial_fit(zeros)
        # What is released is recorded in the context that asked for it.
        contexts = [contextvars.copy_context() for _ in range(9)]
        threads = [threading.Thread(target=c.run, args=(feed,)) for c in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    noise = released["moments"]
    assert len(noise) == stream._stream.sums.step == 10_000 - 100 * len(refused)
    assert len(np.unique(noise[:, 0])) > 0.999 * len(noise)
    first, _ = stream._stream.moments.rows.unpack(noise.sum(axis=0)[None])
    np.testing.assert_allclose(stream._stream.sums._sums._total[:2], first[0])


# -- one release, several threads ----------------------------------------------------


@pytest.mark.parametrize("repeat", range(REPEATS))
def test_a_name_is_released_once_to_any_threads(repeat):
    release = Release(DPPCA(1).privacy_plan(100, 150))
    barrier, found, refused = threading.Barrier(4), [], []

    def ask():
        value = np.zeros((150, 150))
        barrier.wait()
        try:
            found.append(release("second_moment", value))
        except KeyError:
            refused.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(refused)) == (1, 3)


def test_a_release_is_taken_off_the_plan_at_once(monkeypatch):
    """Also where another thread asks while the value is being looked at."""
    release = Release(DPPCA(1).privacy_plan(100, 2))

    class Slow:
        def __array__(self, dtype=None, copy=None):
            release("second_moment", np.zeros((2, 2)))
            return np.zeros((2, 2))

    with pytest.raises(KeyError, match="pending"):
        release("second_moment", Slow())


def test_a_release_has_no_copies():
    release = Release(DPPCA(1).privacy_plan(100, 2))
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            make(release)
    assert release("second_moment", np.eye(2)).shape == (2, 2)


# -- closed streams ------------------------------------------------------------------


def open_release(accountant=None, epsilon=1.0, n=100):
    from skdpspectral._release.noise import StreamRelease

    model = JMECovariance(epsilon, horizon=n, accountant=accountant)
    moments = model._moment_stream(n, 2)
    plan = PrivacyPlan(epsilon, 1e-6, model._planned(moments).mechanisms, "Test")
    return StreamRelease(plan, accountant, factorization=moments.factorization)


@pytest.mark.parametrize("with_ledger", [False, True])
def test_a_closed_stream_lets_nothing_out(with_ledger):
    release = open_release(PrivacyAccountant() if with_ledger else None)
    release.claim(0, 20)
    release(np.zeros((10, 5)))
    release.close()
    with pytest.raises(RuntimeError, match="closed"):
        release(np.zeros((10, 5)))
    with pytest.raises(RuntimeError, match="closed"):
        release.claim(20, 1)


def test_only_what_is_planned_exact_leaves_without_noise():
    """Whatever became of the noise."""
    release = open_release()
    release.claim(0, 10)
    release._noise = None
    with pytest.raises(RuntimeError, match="can't continue"):
        release(np.zeros((10, 5)))


def test_noise_of_another_step_is_not_used():
    release = open_release()
    release.claim(0, 10)
    release._noise.add_to(np.zeros((1, 5)), 0)
    with pytest.raises(RuntimeError, match="can't continue"):
        release(np.zeros((10, 5)))
    with pytest.raises(RuntimeError, match="can't continue"):
        release(np.zeros((5, 5)))


# -- forks ---------------------------------------------------------------------------


@needs_fork
@forks
@pytest.mark.parametrize("with_ledger", [False, True])
def test_a_fork_in_the_middle_of_a_path(with_ledger):
    accountant = PrivacyAccountant() if with_ledger else None
    path = JMECovariance(accountant=accountant).release_path(rows(2000))
    assert next(path).step == 1
    assert "forked copy" in in_child(lambda: len(list(path)))
    assert [release.step for release in path][-1] == 2000


@needs_fork
@forks
@pytest.mark.parametrize("with_ledger", [False, True])
def test_a_fork_between_batches(with_ledger):
    accountant = PrivacyAccountant() if with_ledger else None
    stream = JMECovariance(horizon=100, accountant=accountant).partial_fit(rows(10))
    assert "forked copy" in in_child(lambda: stream.partial_fit(rows(10)))
    assert "forked copy" in in_child(lambda: len(pickle.dumps(stream)))
    if with_ledger:
        # Where a child is to go on, it gets a pickle.
        sent = pickle.dumps(stream)
        said = in_child(lambda: pickle.loads(sent).partial_fit(rows(5)).n_samples_seen_)
        assert said == "15"
        with pytest.raises(LedgerError):
            stream.partial_fit(rows(10))
    else:
        stream.partial_fit(rows(10))


@needs_fork
@forks
def test_a_child_waits_for_no_lock_of_a_thread_that_is_not_there():
    """Forked while a thread holds the locks: the child raises, closes, and ends."""
    release = open_release()
    release.claim(0, 10)
    single = Release(DPPCA(1).privacy_plan(100, 2))
    stream = JMECovariance(horizon=100).partial_fit(rows(10))

    def child():
        said = []
        for call in (
            lambda: release(np.zeros((10, 5))),
            lambda: single("second_moment", np.eye(2)),
            lambda: single.draw_key(),
            lambda: stream.partial_fit(rows(10)),
        ):
            try:
                said.append(call())
            except RuntimeError as error:
                said.append("forked copy" in str(error))
        release.close()
        return said

    locks = (
        release._thread_lock,
        single._thread_lock,
        stream._stream.release._thread_lock,
    )
    for lock in locks:
        lock.acquire()
    said = in_child(child)
    for lock in locks:
        lock.release()
    assert said == str([True] * 4)
    assert release(np.zeros((10, 5))).all()
