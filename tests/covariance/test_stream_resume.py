"""Streams that go on after a crash: noise up to where the ledger is, is thrown away."""

import copy
import os
import pickle
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from release_tools import record_releases
from sklearn.exceptions import NotFittedError

from skdpspectral import JMECovariance, LedgerError, PrivacyAccountant
from skdpspectral.covariance import (
    BISR,
    BaselineMoments,
    Exponential,
    JointMoments,
    Window,
)

X = np.random.default_rng(0).normal(0.1, 0.3, (90, 2))
# A temporary ledger goes with the last that holds it; a pickle does not.
LEDGERS = []
SETTINGS = {
    "average": {},
    "prefix": {"workload": "prefix"},
    "exponential": {"workload": Exponential(0.9)},
    "window": {"workload": Window(10)},
    "trivial": {"factorization": "trivial"},
    "sqrt": {"factorization": "sqrt"},
    "bisr": {"factorization": BISR(10)},
    "restart": {"horizon": 25, "on_horizon": "restart"},
    "pp-debiased": {"moments": BaselineMoments("pp-debiased")},
    "centered": {"moments": "assume-centered"},
}


def begin(name="average", accountant=None, seed=3, **parameters):
    parameters = {"horizon": 90, **SETTINGS[name], **parameters}
    accountant = PrivacyAccountant() if accountant is None else accountant
    LEDGERS.append(accountant)
    return JMECovariance(noise_seed=seed, accountant=accountant, **parameters)


def crashed(stream, kept=30, lost=47, rows=X):
    """Return a pickle of step `kept` of a stream that went on to `lost`."""
    stream.partial_fit(rows[:kept])
    stale = pickle.loads(pickle.dumps(stream))
    stream.partial_fit(rows[kept:lost])
    return stale


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SETTINGS)
def test_steps_after_a_gap_have_the_noise_that_they_would_have_had(name):
    """To the bit; and no release of a step of the gap comes out a second time."""
    with record_releases() as whole:
        begin(name).partial_fit(X)
    stream = begin(name)
    stale = crashed(stream)
    with record_releases() as resumed:
        stale.resume()
        for batch in np.split(X[47:], [1, 20]):
            stale.partial_fit(batch)
    assert np.array_equal(resumed["moments"], whole["moments"][47:])
    assert stale.n_samples_seen_ == 90


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SETTINGS)
def test_sums_are_those_of_the_rows_that_are_left(name):
    """Weights of released rows alone: neither rows nor noise of the gap are in them."""
    with record_releases() as whole:
        begin(name).partial_fit(X)
    stale = crashed(begin(name))
    stale.resume().partial_fit(X[47:])
    moments = stale._stream.moments
    weights = moments.workload.core_matrix(90)[-1].copy()
    weights[30:47] = 0.0
    first, _ = moments.rows.unpack(whole["moments"])
    mean = weights @ first / weights.sum()
    assert np.allclose(stale.location_, mean, atol=1e-10)
    scale = weights.sum()
    if not moments.workload.normalized:
        scale = moments.workload.divisors([90])[0]
    assert np.allclose(stale.first_moment_ * scale, weights @ first, rtol=1e-6)
    assert stale.n_samples_lost_ == (47 if name == "window" else 17)


def test_a_stale_copy_says_what_to_do_and_changes_nothing():
    stale = crashed(begin())
    before = dict(vars(stale))
    with pytest.raises(LedgerError, match=r"resume\(\)"):
        stale.partial_fit(X[30:40])
    assert vars(stale).keys() == before.keys()
    assert stale.resume() is stale
    assert (stale.n_samples_seen_, stale.n_samples_lost_) == (47, 17)
    # The moments are still those of the rows that it has.
    for name in ("location_", "covariance_", "first_moment_"):
        assert np.array_equal(getattr(stale, name), before[name])
    assert len(stale.accountant.ledger) == 1
    published = begin(seed=None)
    assert crashed(published).resume().publish().n_samples_lost_ == 17


def test_the_newest_copy_resumes_as_it_is():
    whole, stream = begin().partial_fit(X), begin()
    for batch in np.split(X, [30, 31, 70]):
        stream = pickle.loads(pickle.dumps(stream.partial_fit(batch))).resume()
    assert np.array_equal(stream.covariance_, whole.covariance_)
    assert stream.n_samples_lost_ == 0


def test_of_two_resumed_copies_one_goes_on():
    """A step's noise is for one copy, however often they resume."""
    first = crashed(begin())
    second = copy.deepcopy(first)
    first.resume()
    second.resume()
    found = {}
    with record_releases() as released:
        first.partial_fit(X[47:60])
    found[47] = released["moments"]
    with pytest.raises(LedgerError):
        second.partial_fit(X[47:60])
    with record_releases() as released:
        second.resume().partial_fit(X[60:70])
    found[60] = released["moments"]
    with pytest.raises(LedgerError):
        first.partial_fit(X[60:70])
    with record_releases() as whole:
        begin().partial_fit(X)
    for start, rows in found.items():
        assert np.array_equal(rows, whole["moments"][start : start + len(rows)])
    assert second.n_samples_lost_ == 30
    second = pickle.loads(pickle.dumps(second)).resume().partial_fit(X[70:])
    assert second.n_samples_seen_ == 90


def test_a_stream_that_was_used_up_has_ended():
    stale = crashed(begin(), 30, 90).resume()
    assert stale.n_samples_seen_ == 90
    with pytest.raises(ValueError, match="horizon"):
        stale.partial_fit(X[:1])
    assert stale.resume().n_samples_seen_ == 90


def test_what_cannot_be_resumed(tmp_path, monkeypatch):
    with pytest.raises(NotFittedError, match="no stream"):
        begin().resume()
    with pytest.raises(NotFittedError, match="no stream"):
        begin().fit(X).resume()
    alone = JMECovariance(horizon=90).partial_fit(X[:10])
    with pytest.raises(ValueError, match="accountant"):
        alone.resume()
    alone.partial_fit(X[10:20])
    stale = crashed(begin())
    with pytest.raises(ValueError, match="clip_norm was changed"):
        stale.set_params(clip_norm=2.0).resume()
    # A copy whose own step failed may have used noise that it does not count.
    stream = begin().partial_fit(X[:10])
    kept = pickle.dumps(stream)
    with monkeypatch.context() as patch:
        patch.setattr(type(stream._stream.sums), "push", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stream.partial_fit(np.tile(X[10:20], (30, 1))[:80])
    with pytest.raises((RuntimeError, ValueError), match="steps"):
        stream.partial_fit(X[:1])
    resumed = pickle.loads(kept).resume()
    assert resumed.n_samples_lost_ == 80
    # An older ledger that was put back is behind the newest copy.
    path = tmp_path / "ledger.db"
    stream = begin(accountant=PrivacyAccountant(path=path)).partial_fit(X[:10])
    shutil.copy(path, tmp_path / "old.db")
    stream.partial_fit(X[10:20])
    shutil.copy(tmp_path / "old.db", path)
    with pytest.raises(LedgerError):
        stream.resume()


def planned_variance(stale, n, gap):
    """Variance of the mean's noise, by dense matrices."""
    moments = stale._stream.moments
    weights = moments.workload.core_matrix(n)[-1].copy()
    weights[slice(*gap)] = 0.0
    size = moments.n_steps if moments.renewed else n
    C = moments.factorization.matrix(size)
    C = np.kron(np.eye(-(-n // size)), C)[:n, :n]
    response = np.linalg.solve(C.T, weights) / weights.sum()
    return (stale.privacy_["moments"].noise_std * np.linalg.norm(response)) ** 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["average", "exponential", "window", "sqrt", "restart"]
)
def test_moments_after_a_gap_have_the_variance_that_is_corrected_for(name, monkeypatch):
    """20 000 draws: a variance 5 % off is 5 standard errors, and 4.5 the limit.

    Each fails by chance with a probability below 1e-5. An account without the gap would
    be off by 10 % or more, but for the window, which has all of its rows again.
    """
    target = "skdpspectral.covariance._jme.project_covariance"
    monkeypatch.setattr(target, lambda c, *_: c)
    zeros, means = np.zeros((60, 1000)), []
    parameters = {"moments": JointMoments(second_moment="diag"), "horizon": 60}
    parameters |= {"horizon": 25} if name == "restart" else {}
    for seed in range(20):
        stale = crashed(begin(name, seed=seed, **parameters), 20, 40, zeros)
        stale.resume().partial_fit(zeros[40:])
        means.append(stale.location_)
    planned = planned_variance(stale, 60, (20, 40))
    assert abs(np.var(means) / planned - 1.0) < 4.5 * np.sqrt(2.0 / 20_000)
    # It is what the covariance gets back.
    squares = stale.second_moment_ / (
        1.0 if stale._stream.moments.workload.normalized else weight_sum(stale)
    )
    given = np.diag(stale.covariance_ - squares) + stale.location_**2
    assert np.allclose(given, planned, rtol=1e-6, atol=1e-9 * np.abs(squares).max())


def weight_sum(stale):
    weights = stale._stream.moments.workload.core_matrix(60)[-1].copy()
    weights[20:40] = 0.0
    return weights.sum()


KILLED = """
import os, pickle, signal, sys
import numpy as np
from skdpspectral import JMECovariance, PrivacyAccountant

folder, X = sys.argv[1], np.zeros((2000, 2))
accountant = PrivacyAccountant(1.0, 1e-6, path=f"{folder}/ledger.db")
stream = JMECovariance(horizon=2000, accountant=accountant)
for number, batch in enumerate(np.split(X, 20), 1):
    stream.partial_fit(batch)
    if number == 7:
        with open(f"{folder}/stream.pickle", "wb") as file:
            pickle.dump(stream, file)
    if number == 12:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_killed_stream_goes_on_within_its_budget(tmp_path):
    """The whole budget was spent by the first batch, and it is enough."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path], env=environment, timeout=120
    )
    assert child.returncode == -signal.SIGKILL
    stream = pickle.loads((tmp_path / "stream.pickle").read_bytes()).resume()
    assert (stream.n_samples_seen_, stream.n_samples_lost_) == (1200, 500)
    stream.partial_fit(np.zeros((800, 2)))
    assert stream.n_samples_seen_ == 2000
    assert len(stream.accountant.ledger) == 1


def test_moments_that_are_read_after_later_ones():
    """Another thread has gone on before this one reads what its own step gave."""
    accountant = PrivacyAccountant()
    stream = JMECovariance(horizon=1000, accountant=accountant).partial_fit(
        np.zeros((60, 2))
    )
    stale = pickle.loads(pickle.dumps(stream))
    stream.partial_fit(np.zeros((60, 2)))
    run = stale.resume()._stream
    early, _ = run.push(np.zeros((3, 2)).copy())
    late, _ = run.push(np.zeros((3, 2)).copy())
    late.at([-1])
    assert early.steps.tolist() == [123]
    assert all(np.isfinite(part).all() for part in early.at([-1]))
