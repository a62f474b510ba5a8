"""Streams that a signal finds in the middle of a step, and threads on resumed ones."""

import os
import pickle
import random
import signal
import sys
import threading

import numpy as np
import pytest
from release_tools import Release, record_releases

from skdpspectral import DPPCA, JMECovariance, LedgerError, PrivacyAccountant
from skdpspectral._release.streams import StreamRelease

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="the system has no timers"
)
BUSY = "in the middle of a step in this thread"
# Rows of zeros: what leaves is the noise itself.
ROWS = np.zeros((60, 2))


@pytest.fixture
def handle():
    """Give what sets a handler for the time of a test."""
    before = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, lambda *_: handler())
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def signalling(monkeypatch, owner, name):
    """Send a signal before each call of a function."""
    function = getattr(owner, name)

    def call(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGALRM)
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize("what", ["pickle", "partial_fit", "resume", "close"])
def test_a_handler_that_asks_for_the_stream_it_interrupts(what, handle, monkeypatch):
    """It is refused, as it can't wait for itself; the step goes on, with its noise."""
    stream = JMECovariance(horizon=90, accountant=PrivacyAccountant())
    stream.partial_fit(ROWS[:1])
    said = []
    calls = {
        "pickle": lambda: pickle.dumps(stream),
        "partial_fit": lambda: stream.partial_fit(ROWS[:1]),
        "resume": stream.resume,
        "close": stream._stream.close,
    }

    def ask():
        try:
            calls[what]()
        except RuntimeError as error:
            said.append(str(error))

    handle(ask)
    with monkeypatch.context() as patch, record_releases() as released:
        signalling(patch, np, "rint")
        stream.partial_fit(ROWS[:20])
    (noise,) = released.values()
    assert (noise != 0.0).any(axis=1).all()
    assert what == "close" or (said and all(BUSY in text for text in said))
    if what == "close":
        with pytest.raises(RuntimeError, match="can't continue"):
            stream.partial_fit(ROWS[:1])
    else:
        assert stream.partial_fit(ROWS[:1]).n_samples_seen_ == 22


def test_a_handler_that_asks_for_the_release_it_interrupts(handle, monkeypatch):
    release = Release(DPPCA(1).privacy_plan(10, 3))
    said = []

    def ask():
        with pytest.raises(RuntimeError) as caught:
            release.public_normals(3)
        said.append(str(caught.value))

    handle(ask)
    with monkeypatch.context() as patch:
        signalling(patch, np, "rint")
        released = release("second_moment", np.zeros((3, 3)))
    assert said
    assert all(BUSY in text for text in said)
    assert (released != 0.0).all()


class Stop(BaseException):
    pass


# A file that a broken-off charge leaves open is closed by the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.dependencies
def test_interrupts_at_any_moment_use_no_noise_twice(handle, monkeypatch):
    """Steps that are broken off, pickles and resumed copies, in any order.

    Two steps with the same noise on the grid have a probability below 1e-12.
    """
    released, choose = [], random.Random(0)
    let_out = StreamRelease.__call__

    def note(self, rows):
        out = let_out(self, rows)
        released.append(out.copy())
        return out

    monkeypatch.setattr(StreamRelease, "__call__", note)

    def stop():
        raise Stop

    handle(stop)
    accountant, found = PrivacyAccountant(), {"ended": 0, "stopped": 0, "failed": 0}
    stream = JMECovariance(horizon=64, on_horizon="restart", accountant=accountant)
    kept = pickle.dumps(stream.partial_fit(ROWS[:1]))
    for _ in range(250):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, choose.uniform(1e-5, 0.02))
                stream.partial_fit(ROWS[: choose.choice([1, 7, 60])])
                found["ended"] += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Stop:
            found["stopped"] += 1
        except (RuntimeError, LedgerError):
            found["failed"] += 1
            stream = pickle.loads(kept).resume()
        else:
            kept = pickle.dumps(stream)
        if choose.random() < 0.2:
            stream = pickle.loads(kept).resume()
    rows = np.concatenate(released)
    assert (rows != 0.0).any(axis=1).all()
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert min(found.values()) > 0, found


@pytest.mark.slow
@pytest.mark.dependencies
def test_two_threads_on_a_resumed_stream():
    """Moments of a step are those of that step, however far another thread has gone."""
    accountant, before = PrivacyAccountant(), sys.getswitchinterval()
    stream = JMECovariance(horizon=100_000, accountant=accountant).partial_fit(ROWS)
    stale = pickle.loads(pickle.dumps(stream))
    stream.partial_fit(ROWS)
    stale.resume()
    errors = []

    def push():
        try:
            for _ in range(60):
                stale.partial_fit(ROWS[:3])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=push, daemon=True) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    assert stale.partial_fit(ROWS[:1]).n_samples_seen_ == 2 * 60 + 4 * 60 * 3 + 1


def test_moments_that_are_read_after_later_ones():
    """Another thread has gone on before this one reads what its own step gave."""
    accountant = PrivacyAccountant()
    stream = JMECovariance(horizon=1000, accountant=accountant).partial_fit(ROWS)
    stale = pickle.loads(pickle.dumps(stream))
    stream.partial_fit(ROWS)
    run = stale.resume()._stream
    early, _ = run.push(ROWS[:3].copy())
    late, _ = run.push(ROWS[:3].copy())
    late.at([-1])
    assert early.steps.tolist() == [123]
    assert all(np.isfinite(part).all() for part in early.at([-1]))
