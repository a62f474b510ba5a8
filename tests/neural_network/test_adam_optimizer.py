"""The optimizer: its batches, its steps, and which copy goes on."""

import copy
import math
import os
import pickle

import numpy as np
import pytest

from skdpspectral import (
    DPAdamClassifier,
    LedgerError,
    PrivacyAccountant,
    PrivacyLeakWarning,
)
from skdpspectral._release.noise import public_order
from skdpspectral.neural_network import Adam, JMEAdam
from skdpspectral.neural_network._adam import MOMENTS, AdamState

N, P = 40, 3
GRADIENTS = np.random.default_rng(0).standard_normal((N, P))
STEPS = set(Adam().get_params())
# A temporary ledger goes with the last that holds it; a pickle does not.
LEDGERS = []


def optimizer(accountant=None, **parameters):
    given = {"batch_size": 8, "n_epochs": 2, "epsilon": 8.0, **parameters}
    LEDGERS.append(accountant)
    steps = {name: given.pop(name) for name in STEPS & set(given)}
    steps = {"learning_rate": 1e-3, "moments": "jme", **steps}
    return JMEAdam(P, N, accountant=accountant, optimizer=Adam(**steps), **given)


def step(adam):
    """Make one step, and return its batch and the increment."""
    batch = next(adam.batches())
    return batch, adam.step(GRADIENTS[batch], batch)


# -- steps ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skdpspectral.PrivacyLeakWarning")
@pytest.mark.parametrize("moments", MOMENTS)
def test_without_noise_it_is_adam_on_clipped_means(moments):
    adam = optimizer(
        epsilon=None, moments=moments, batch_size=N, n_epochs=4, beta_2=0.9
    )
    mean, spread, c = np.zeros(P), np.zeros(P), 1.0
    lengths = np.linalg.norm(GRADIENTS, axis=1, keepdims=True)
    clipped = GRADIENTS * np.minimum(1.0, c / lengths)
    for t in range(1, 5):
        _, increment = step(adam)
        gradient = clipped.mean(axis=0)
        squares = (clipped**2).mean(axis=0) if moments == "jme" else gradient**2
        mean, spread = 0.9 * mean + 0.1 * gradient, 0.9 * spread + 0.1 * squares
        hats = mean / (1 - 0.9**t), spread / (1 - 0.9**t)
        expected = -1e-3 * hats[0] / (np.sqrt(hats[1]) + 1e-8)
        np.testing.assert_allclose(increment, expected, rtol=1e-9)


def test_lemma_4_4_for_both_sides():
    """Errors of second moments, as steps make them, within 3 standard errors."""
    rng, d, n, beta, sigma = np.random.default_rng(0), 2000, 30, 0.9, 1.5
    A = (1 - beta) * np.tril(beta ** (np.arange(n)[:, None] - np.arange(n)))
    X = np.zeros((n, d))
    X[:, 0] = 1.0  # the supremum is over rows of unit length that never change
    exact = A @ X**2
    noise = rng.standard_normal((n, d))
    own = sigma * math.sqrt(2.0) * rng.standard_normal((n, d))
    released = X + sigma * noise
    squares = {
        "jme": X**2 + own,
        "pp": released**2,
        "pp-debiased": released**2 - sigma**2,
    }
    frobenius = np.sum(A**2)
    bias = d * sigma**4 * np.sum(A.sum(axis=1) ** 2)
    post = (2 * d * sigma**4 + 4 * sigma**2) * frobenius
    claimed = {
        "jme": 2 * d * sigma**2 * frobenius,
        "pp": post + bias,
        "pp-debiased": post,
    }
    for kind, rows in squares.items():
        made = means_of(rows, beta)
        errors = np.sum((made - exact) ** 2, axis=0)  # alike but for the first
        spread = errors[1:].std() * math.sqrt(d)
        assert abs(errors.sum() - claimed[kind]) < 3 * spread
        # Some 0.03 of the claim: a factor of 2 would be seen.
        assert spread < 0.1 * claimed[kind]


def means_of(rows, beta):
    """Adam's second moments before their correction, from steps of a known first."""
    adam = Adam(1.0, beta_1=0.0, beta_2=beta, stability=0.0, moments="jme")
    state = AdamState(adam, (0.0, 0.0))
    found = []
    for t, row in enumerate(rows, start=1):
        found.append((1 - beta**t) * state._second.push(row))
    return np.array(found)


@pytest.mark.parametrize("moments", ["jme", "pp-debiased"])
def test_the_floor_is_the_deviation_of_the_noise_of_the_second_moment(moments):
    rng, stds, d = np.random.default_rng(0), (0.3, 0.5), 50_000
    adam = Adam(1.0, beta_2=0.8, moments=moments)
    state = AdamState(adam, stds)
    for _ in range(6):
        gradient = stds[0] * rng.standard_normal(d)
        squares = None if moments != "jme" else stds[1] * rng.standard_normal(d)
        increment = state.push(gradient, squares)
        rows = gradient**2 - stds[0] ** 2 if squares is None else squares
        deviation = math.sqrt(state._second._variance) / state._second._weight
        one = math.sqrt(2) * stds[0] ** 2 if squares is None else stds[1]
        assert state.floor == pytest.approx(one * deviation)
        assert rows.std() == pytest.approx(one, rel=0.05)
        # No coordinate moves further than its mean over the root of the floor.
        assert np.isfinite(increment).all()


# -- batches --------------------------------------------------------------------------


def test_samples_have_the_rate_that_was_planned_and_are_independent():
    """False alarm below 1e-6: counts of 4000 draws of rate 1/5 within 5 deviations."""
    adam = optimizer(n_epochs=20)
    hits = np.zeros((adam.n_steps, N))
    for t in range(adam.n_steps):
        batch, _ = step(adam)
        assert np.all(np.diff(batch) > 0)
        hits[t, batch] = 1.0
    total = hits.size
    assert abs(hits.sum() - 0.2 * total) < 5 * math.sqrt(0.16 * total)
    assert hits.sum(axis=1).max() > 8  # none is cut at its expected size
    both = (hits[:-1] * hits[1:]).sum()
    assert abs(both - 0.04 * total) < 5 * math.sqrt(0.04 * 0.96 * total) * 1.2


def test_two_optimizers_have_other_samples_and_one_the_same_until_its_step():
    first, second = optimizer(), optimizer()
    drawn = [next(first.batches()) for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    with pytest.raises(RuntimeError, match="a different step"):
        first._run.release.sample(1, N)  # of a step that is yet to come
    others = [next(a.batches()) for a in (optimizer(), second)]
    assert any(len(o) != len(drawn[0]) or (o != drawn[0]).any() for o in others)


def test_batches_in_turn_hold_each_example_once_an_epoch():
    adam = optimizer(sampling="in-turn", batch_size=7)
    batches = [step(adam)[0] for _ in range(adam.n_steps)]
    assert [len(b) for b in batches] == 2 * [7, 7, 7, 7, 7, 5]
    for epoch in (batches[:6], batches[6:]):
        assert sorted(np.concatenate(epoch)) == list(range(N))
    assert (public_order(N) != np.arange(N)).any()


def test_each_batch_needs_its_step():
    adam = optimizer(sampling="in-turn")
    batches = adam.batches()
    first = next(batches)
    with pytest.raises(ValueError, match="step was not called"):
        next(batches)
    # Whoever starts over gets the batch that is due, and not the one after it.
    np.testing.assert_array_equal(next(adam.batches()), first)
    adam.step(GRADIENTS[first], first)
    with pytest.raises(ValueError, match="iterate over"):
        adam.step(GRADIENTS[first], first)


@pytest.mark.parametrize("sampling", ["poisson", "in-turn"])
def test_gradients_are_of_the_batch_that_was_drawn_last(sampling):
    """In turn all batches have one size: gradients of a stale one have its shape."""
    adam = optimizer(sampling=sampling, batch_size=10)
    stale, _ = step(adam)
    drawn = next(adam.batches())
    for other in (stale, stale.tolist(), drawn[::-1], drawn[:-1], None, "batch"):
        with pytest.raises(ValueError, match="returned last"):
            adam.step(GRADIENTS[drawn], other)
    adam.step(GRADIENTS[drawn], drawn)


def test_a_step_is_made_once():
    adam = optimizer()
    batch = next(adam.batches())
    drawn = adam._drawn
    adam.step(GRADIENTS[batch], batch)
    adam._drawn = drawn  # as of a thread that comes back too late
    with pytest.raises(RuntimeError, match="can't continue"):
        adam.step(GRADIENTS[batch], batch)
    assert adam.position == 1


# -- copies ---------------------------------------------------------------------------


def test_copies_need_a_ledger():
    adam = optimizer()
    for make in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="accountant"):
            make(adam)
    key = adam._run.release._key
    assert len(key) == 16
    while adam.position < adam.n_steps:
        step(adam)
    left = pickle.dumps(adam)
    assert pickle.loads(left).position == adam.n_steps
    assert key not in left  # of whom the samples were
    assert list(adam.batches()) == []


def test_of_two_copies_one_goes_on():
    adam = optimizer(PrivacyAccountant())
    step(adam)
    batch = next(adam.batches())
    twin = copy.deepcopy(adam)
    adam.step(GRADIENTS[batch], batch)
    with pytest.raises(LedgerError, match="elsewhere"):
        twin.step(GRADIENTS[batch], batch)
    with pytest.raises(LedgerError, match="elsewhere"):
        step(twin)
    assert adam.position == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_copy_neither_samples_nor_steps():
    adam = optimizer(PrivacyAccountant())
    batch = next(adam.batches())
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (
            lambda: adam.step(GRADIENTS[batch], batch),
            lambda: next(adam.batches()),
        ):
            try:
                call()
            except RuntimeError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    adam.step(GRADIENTS[batch], batch)


# -- costs ----------------------------------------------------------------------------


def test_the_whole_plan_is_charged_at_once_to_the_block():
    with PrivacyAccountant() as accountant:
        adam = optimizer()
        assert len(accountant.ledger) == 1
        for _ in range(3):
            step(adam)
    assert len(accountant.ledger) == 1
    assert accountant.spent(1e-6).epsilon <= 8.0
    assert accountant.spent(1e-6).epsilon > 7.9


@pytest.mark.parametrize("sampling", ["poisson", "in-turn"])
@pytest.mark.parametrize("moments", MOMENTS)
def test_a_noise_multiplier_is_of_what_one_example_adds(moments, sampling):
    adam = optimizer(noise_multiplier=2.0, moments=moments, sampling=sampling)
    (mechanism,) = adam.privacy_.mechanisms
    assert mechanism.noise_std == pytest.approx(2.0 * adam._run.added, rel=1e-6)
    assert adam.privacy_.epsilon != 8.0


@pytest.mark.parametrize("sampling", ["poisson", "in-turn"])
def test_several_batches_of_an_example_are_paid_with_their_rounding(sampling):
    adam = optimizer(sampling=sampling, n_epochs=9, batch_size=N)
    (mechanism,) = adam.privacy_.mechanisms
    one = mechanism.sensitivity + 2 * mechanism.summation_error + mechanism.grid_term
    assert mechanism.charged_sensitivity == pytest.approx(3.0 * one, rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: JMEAdam(3, 10**9, **given),
        lambda **given: DPAdamClassifier(**given).privacy_plan(10**9, 3),
    ],
)
def test_absurd_numbers_of_steps_are_refused(make):
    """They ended in a math domain error."""
    with pytest.raises(ValueError, match=r"n_epochs=1000000 in .* batch_size=1 are"):
        make(batch_size=1, n_epochs=10**6)


def test_what_is_not_private_is_said_in_the_users_line():
    for parameters, what in (
        ({"noise_seed": 0}, "noise_seed"),
        ({"epsilon": None}, "no budget"),
        ({"delta": 0.5}, "1 / n_samples"),
        ({"optimizer": Adam(noise_multiplier=0.5)}, "noise_multiplier costs"),
    ):
        with pytest.warns(PrivacyLeakWarning, match=what) as caught:
            JMEAdam(P, N, **parameters)
        assert caught[0].filename == __file__
