"""Streams: noise is drawn once, from a state that only one copy may use."""

import copy
import itertools
import multiprocessing
import pickle

import numpy as np
import pytest
from release_tools import noise_generator, record_releases
from scipy import stats

from skdpspectral import (
    JMECovariance,
    LedgerError,
    PrivacyAccountant,
    PrivacyBudgetError,
    PrivacyLeakWarning,
)
from skdpspectral._release import noise as releases
from skdpspectral._release.noise import StreamRelease
from skdpspectral.accounting import calibrate_gaussian, gaussian_mu
from skdpspectral.covariance import JointMoments
from skdpspectral.factorizations import Prefix, factorize
from skdpspectral.mechanisms import PrivacyPlan

X = np.random.default_rng(0).normal(0.1, 0.3, (60, 3))
FACTORIZATIONS = ["trivial", "blt", "sqrt", "bisr"]


def noise_of(parameters, rows):
    """Return Z = C (released - exact), in units of its deviation."""
    with record_releases() as released:
        model = JMECovariance(**parameters).fit(rows)
    stream = model._moment_stream(len(rows), rows.shape[1])
    exact = stream.vectors(rows)
    C = stream.factorization.matrix(len(rows))
    mechanism = model.privacy_["moments"]
    return C @ (released["moments"] - exact) / mechanism.noise_std


@pytest.mark.slow
@pytest.mark.parametrize("factorization", FACTORIZATIONS)
def test_the_noise_is_the_planned_one(factorization):
    """Whitened by C it is standard normal and uncorrelated in time.

    15 000 draws or more: the variance is off by 10 % (noise 5 % low) with a probability
    below 1e-12. Each of the tests fails by chance once in 10 000 runs; the seed is
    fixed.
    """
    rows = np.zeros((750, 5))
    parameters = {"factorization": factorization, "noise_seed": 1}
    Z = noise_of(parameters, rows)
    assert stats.kstest(Z.ravel(), "norm").pvalue > 1e-4
    spread = np.sqrt(2 / Z.size)
    assert abs(Z.var() - 1) < 4 * spread
    for lag in (1, 2, len(rows) // 3):
        assert abs((Z[lag:] * Z[:-lag]).mean()) < 4 / np.sqrt(Z[lag:].size)
    off = np.abs(np.corrcoef(Z.T) - np.eye(Z.shape[1])).max()
    assert off < 5.0 / np.sqrt(len(Z))


@pytest.mark.parametrize("factorization", FACTORIZATIONS)
def test_noise_does_not_depend_on_how_much_is_drawn_at_once(factorization, monkeypatch):
    """A block at a time, a few of them, or all: the same bits."""
    n_steps = 600
    model = JMECovariance(horizon=n_steps, factorization=factorization)
    moments, found = model._moment_stream(None, 2), []
    (mechanism,) = moments.mechanisms(0.3)
    parts = [0, 30, 140, n_steps], [0, n_steps]
    for cached, ends in itertools.product((1, 1 << 9, 1 << 16), parts):
        monkeypatch.setattr(releases, "_CACHED", cached)
        shaping = moments.factorization.filter(5)
        noise = releases._ShapedNoise(mechanism, shaping, noise_generator(1))
        rows = np.zeros((n_steps, 5))
        for start, end in itertools.pairwise(ends):
            noise.add_to(rows[start:end], start)
        found.append(rows)
        assert np.array_equal(rows, found[0])
    # Numbers of 2**26 steps: none of them twice, but by chance.
    assert len(np.unique(found[0])) > found[0].size - 10


@pytest.mark.sampled(4)
@pytest.mark.parametrize("factorization", FACTORIZATIONS)
def test_noise_is_that_of_the_generator(factorization):
    """C times the noise is what was drawn for it, but for rounding."""
    n_steps = 200
    model = JMECovariance(factorization=factorization, horizon=n_steps)
    moments = model._moment_stream(None, 2)
    (mechanism,) = moments.mechanisms(0.3)
    shaping = moments.factorization.filter(5)
    noise = releases._ShapedNoise(mechanism, shaping, noise_generator(1))
    rows = np.zeros((n_steps, 5))
    noise.add_to(rows, 0)
    drawn = noise_generator(1).standard_normal((n_steps, 5)) * mechanism.noise_std
    C = moments.factorization.matrix(n_steps)
    longest = np.abs(C).sum(axis=1).max()
    assert np.abs(C @ rows - drawn).max() < longest * mechanism.grid


@pytest.mark.parametrize("factorization", FACTORIZATIONS)
def test_releases_lie_on_the_grid(factorization):
    with record_releases() as released:
        model = JMECovariance(factorization=factorization).fit(X)
    steps = released["moments"] / model.privacy_["moments"].grid
    assert np.array_equal(steps, np.rint(steps))
    assert released["moments"].shape == (60, 9)


def test_a_row_moves_its_own_step_alone():
    """Same noise, one row replaced: all other released rows keep their bits."""
    for step in (0, 30, 59):
        other = X.copy()
        other[step] = [0.5, -0.5, 0.1]
        moved = []
        for rows in (X, other):
            with record_releases() as released:
                JMECovariance(noise_seed=0).fit(rows)
            moved.append(released["moments"])
        assert np.flatnonzero((moved[0] != moved[1]).any(axis=1)).tolist() == [step]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("horizon", [1, 50, 10_000])
def test_plan_costs_what_was_asked(epsilon, horizon):
    model = JMECovariance(epsilon, 1e-7, horizon=horizon)
    plan = model.privacy_plan(n_features=4)
    budget = gaussian_mu(epsilon, 1e-7)
    assert budget * (1 - 1e-9) <= plan.mu <= budget
    (mechanism,) = plan.mechanisms
    assert mechanism.sensitivity == pytest.approx(2.0, rel=1e-12)
    least = 2.0 * mechanism.column_norm
    assert least < mechanism.charged_sensitivity < 1.01 * least
    assert PrivacyPlan.from_json(plan.to_json()) == plan


def test_planned_sensitivities():
    """The lemmas' numbers in units of the data, written out once more."""

    def planned(**parameters):
        model = JMECovariance(factorization="trivial", **parameters)
        return model.privacy_plan(10, 3)["moments"].sensitivity

    c = 3.0
    assert planned(clip_norm=c) == pytest.approx(2 * c)
    nu = 4.0
    wanted = c * (2 + 2 * nu + 0.5 / nu) ** 0.5
    assert planned(
        clip_norm=c, moments=JointMoments(weight=nu / c**2)
    ) == pytest.approx(wanted)
    # The second moment alone, in units of 1 / c.
    assert planned(clip_norm=c, moments="assume-centered") == pytest.approx(c * 2**0.5)


def test_a_stream_is_charged_once_and_before_it_reads(monkeypatch):
    from skdpspectral.covariance import _moment_stream

    read = []
    vectors = _moment_stream.MomentStream.vectors

    def watched(self, block):
        read.append(len(accountant.ledger))
        return vectors(self, block)

    monkeypatch.setattr(_moment_stream.MomentStream, "vectors", watched)
    accountant = PrivacyAccountant(1.0, 1e-6)
    stream = JMECovariance(horizon=100, accountant=accountant)
    stream.partial_fit(X[:10]).partial_fit(X[10:])
    assert read == [1, 1]
    assert len(accountant.ledger) == 1
    with pytest.raises(PrivacyBudgetError):
        JMECovariance(horizon=100, accountant=accountant).partial_fit(X)
    assert read == [1, 1]
    broken = JMECovariance(horizon=100, accountant=PrivacyAccountant())
    with pytest.raises(
        ValueError, match=r"NaN[\s\S]*; this fit stays charged: epsilon=1"
    ):
        broken.partial_fit(X * np.nan)
    assert broken.partial_fit(X).accountant.spent().epsilon == pytest.approx(1.0)
    list_of = JMECovariance(horizon=100, accountant=PrivacyAccountant(0.5))
    with pytest.raises(PrivacyBudgetError):
        list_of.release_path(X)
    # The call is charged, even if nothing is read of what it returns.
    spending = PrivacyAccountant()
    JMECovariance(accountant=spending).release_path(X)
    assert len(spending.ledger) == 1


def test_resumed_streams_are_identical():
    """A stream goes on from a pickle as if it had never stopped."""
    whole = JMECovariance(horizon=100, noise_seed=3).partial_fit(X)
    for factorization in ("blt", "sqrt", "trivial", "bisr"):
        parameters = {"horizon": 100, "noise_seed": 3, "factorization": factorization}
        whole = JMECovariance(**parameters).partial_fit(X)
        accountant = PrivacyAccountant()
        stream = JMECovariance(**parameters, accountant=accountant)
        for batch in np.split(X, [7, 33, 40]):
            stream = pickle.loads(pickle.dumps(stream.partial_fit(batch)))
        assert np.array_equal(stream.covariance_, whole.covariance_)
        assert len(accountant.ledger) == 1


def stale_copies(stream):
    return [pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream)]


def test_stale_copies_are_refused():
    """Of several copies of a stream the first goes on, and no other."""
    accountant = PrivacyAccountant()
    stream = JMECovariance(horizon=100, accountant=accountant).partial_fit(X[:10])
    copies = stale_copies(stream)
    newest = copies[0].partial_fit(X[10:20])
    for stale in (stream, copies[1]):
        before = stale.covariance_.copy()
        with pytest.raises(LedgerError, match="newest copy"):
            stale.partial_fit(X[10:20])
        assert np.array_equal(stale.covariance_, before)
        assert stale.n_samples_seen_ == 10
    newest.partial_fit(X[20:])
    assert newest.n_samples_seen_ == 60


def advance(stream, rows, queue):
    try:
        queue.put(stream.partial_fit(rows).n_samples_seen_)
    except LedgerError:
        queue.put("stale")


@pytest.mark.slow
@pytest.mark.dependencies
def test_one_of_two_processes_goes_on():
    accountant = PrivacyAccountant()
    stream = JMECovariance(horizon=100, accountant=accountant).partial_fit(X[:10])
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [
        context.Process(target=advance, args=(stream, X[10:20], queue)) for _ in "ab"
    ]
    for child in children:
        child.start()
    found = [queue.get(timeout=120) for _ in children]
    for child in children:
        child.join(60)
    assert sorted(map(str, found)) == ["20", "stale"]


def test_without_a_ledger_there_are_no_copies():
    stream = JMECovariance(horizon=100).partial_fit(X[:10])
    for make in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="accountant"):
            make(stream)
    assert stream.publish().n_samples_seen_ == 10
    stream.partial_fit(X[10:])
    # At its end there is nothing left to draw.
    ended = JMECovariance(horizon=60).partial_fit(X)
    assert pickle.loads(pickle.dumps(ended)).n_samples_seen_ == 60
    assert pickle.loads(pickle.dumps(JMECovariance().fit(X))).n_samples_seen_ == 60
    with PrivacyAccountant():
        inside = JMECovariance(horizon=100).partial_fit(X[:10])
        assert copy.deepcopy(inside).partial_fit(X[10:]).n_samples_seen_ == 60


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork here"
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_copy_without_a_ledger_is_refused():
    stream = JMECovariance(horizon=100).partial_fit(X[:10])
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child():
        try:
            stream.partial_fit(X[10:])
            queue.put("went on")
        except RuntimeError as error:
            queue.put(str(error))

    process = context.Process(target=child)
    process.start()
    process.join(60)
    assert "forked copy" in queue.get()


def test_a_failed_step_ends_the_stream(monkeypatch):
    """Noise that was claimed and not used is never used."""
    for accountant in (None, PrivacyAccountant()):
        stream = JMECovariance(horizon=100, accountant=accountant).partial_fit(X[:10])
        with monkeypatch.context() as patch:
            patch.setattr(type(stream._stream.sums), "push", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                stream.partial_fit(X[10:20])
        assert stream._stream.release.position == 20
        assert stream.n_samples_seen_ == 10
        with pytest.raises((RuntimeError, LedgerError), match="step of it"):
            stream.partial_fit(X[10:20])


def test_bad_batches_leave_the_stream_where_it_is():
    stream = JMECovariance(horizon=30, noise_seed=0).partial_fit(X[:10])
    bad = X[10:20].copy()
    bad[3, 1] = np.nan
    for batch in (bad, X[10:20, :2], X[10:60]):
        with pytest.raises(ValueError, match="X"):
            stream.partial_fit(batch)
    with pytest.raises(ValueError, match="clip_norm was changed"):
        stream.set_params(clip_norm=2.0).partial_fit(X[10:20])
    stream.set_params(clip_norm=1.0).partial_fit(X[10:20])
    whole = JMECovariance(horizon=30, noise_seed=0).partial_fit(X[:20])
    assert np.array_equal(stream.covariance_, whole.covariance_)


def test_the_plan_must_state_the_column_norm():
    C = factorize(Prefix(), "blt", 100)
    for norm, steps in ((C.column_norm / 2, 100), (C.column_norm, 101)):
        mechanism = calibrate_gaussian(
            "m", 2.0, 1.0, (3,), correlation={"column_norm": norm, "max_steps": steps}
        )
        plan = PrivacyPlan(1.0, 1e-6, (mechanism,), "Test")
        with pytest.raises(ValueError, match="column norm"):
            StreamRelease(plan, factorization=C)


def test_nothing_exact_is_kept():
    """Between batches the estimator holds no number that a row was computed from."""
    rows = np.full((5, 3), 0.123456789)
    stream = JMECovariance(horizon=100, accountant=PrivacyAccountant())
    text = pickle.dumps(stream.partial_fit(rows))
    for value in (
        0.123456789,
        0.123456789**2,
        5 * 0.123456789,
        2**0.5 * 0.123456789**2,
    ):
        assert np.float64(value).tobytes() not in text


def test_warnings_name_the_caller_s_line():
    for call in (
        lambda: JMECovariance(epsilon=None).fit(X),
        lambda: JMECovariance(epsilon=None, horizon=100).partial_fit(X),
        lambda: JMECovariance(epsilon=None).release_path(X),
        lambda: JMECovariance(delta=0.5).fit(X),
    ):
        with pytest.warns(PrivacyLeakWarning) as caught:
            call()
        assert [warning.filename for warning in caught] == [__file__]
        line = call.__code__.co_firstlineno
        assert [warning.lineno for warning in caught] == [line]
