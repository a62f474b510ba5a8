"""Parts that nodes mask by keys of pairs: a server sees sums alone, to the bit."""

import hashlib
import struct
import warnings
from dataclasses import replace

import numpy as np
import pytest
from federation_tools import hold, in_session, keys_of, session_ends, show_parts
from scipy.stats import chi2

from skdpspectral import LRSRegressor, PrivacyAccountant
from skdpspectral._release.noise import pair_mask
from skdpspectral.datasets import make_low_rank_sparse_tasks
from skdpspectral.federation import (
    GroupClient,
    GroupRounds,
    GroupTask,
    MessageError,
    Request,
)
from skdpspectral.federation._groups import (
    are_halves,
    from_halves,
    masked,
    to_halves,
)
from skdpspectral.linear_model import PrivateRounds

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpspectral.accounting.PrivacyLeakWarning"
)
NAMES, SESSION = ("east", "north", "south", "west"), bytes(range(16))
X, Y, USERS = make_low_rank_sparse_tasks(120, 12, 4, sparsity=1, random_state=0)


def make_task(masked=NAMES, sparsity=1, n_rounds=3):
    solver = PrivateRounds(n_rounds)
    model = LRSRegressor(sparsity=sparsity, solver=solver, epsilon=2.0)
    return GroupTask(model, 4, noise="distributed", n_shares=3, masked=masked)


def make_client(task, name, place, **more):
    own = USERS % len(NAMES) == place
    more = {**keys_of(task, name), **more}
    return GroupClient(name, task, X[own], Y[own], users=USERS[own], **more)


def make_clients(task):
    return {
        name: make_client(task, name, place, noise_seed=place)
        for place, name in enumerate(NAMES)
    }


def test_masked_sums_are_the_plain_ones_bit_for_bit():
    found, sent, task = [], [], make_task()
    for how in (lambda patch: None, show_parts):
        clients = make_clients(task)
        rounds = in_session(GroupRounds(NAMES, task))
        with pytest.MonkeyPatch.context() as patch:
            how(patch)
            found.append(hold(rounds, clients))
        assert not rounds.rejected
        sent.append(clients["north"]._answers)
    # No two steps have the same mask: steps of two medians each, 1 to 12.
    masks = {
        tuple((from_halves(hidden.values) - from_halves(plain.values)).tolist())
        for hidden, plain in (
            tuple(answers[k] for answers in sent) for k in range(1, 13)
        )
    }
    assert len(masks) == 12
    assert len({word for mask in masks for word in mask}) == 24
    hidden, plain = found
    assert plain.components_.tobytes() == hidden.components_.tobytes()
    assert "ChaCha20" in hidden.privacy_.details()


def test_a_client_has_a_mask_for_each_session_and_uses_none_twice():
    """Two parts with one mask: their difference would be that of the parts."""
    task, words = make_task(), []
    ledger = PrivacyAccountant()
    how = {"accountant": ledger, "noise_seed": 0}
    for session in (SESSION, bytes(16)):
        client = make_client(task, "north", 1, **how)
        request = Request(session, task.digest, 0).to_bytes()
        words.append(from_halves(client.respond(request).values))
    # Of the same rows and the same noise: all that differs is the masks.
    difference = (words[0] - words[1]).astype(np.int64).astype(float)
    assert np.median(np.abs(difference)) > 2.0**60
    # A client that was created again refuses what its ledger has, under any label.
    for handle in (ledger, ledger.named("once more")):
        again = make_client(task, "north", 1, **{**how, "accountant": handle})
        with pytest.raises(MessageError, match="its answers are spent"):
            again.respond(request)
    assert len(ledger.ledger) == 2


def test_tasks_have_masks_of_their_own():
    """Of one session and one step, for a node that keeps its keys."""
    masks = []
    for sparsity in (1, 2):
        task = make_task(sparsity=sparsity, n_rounds=1)
        request, parts = Request(SESSION, task.digest, 0), []
        for how in (lambda patch: None, show_parts):
            with pytest.MonkeyPatch.context() as patch:
                how(patch)
                client = make_client(task, "north", 1, noise_seed=0)
                parts.append(from_halves(client.respond(request).values))
        masks.append(parts[0] - parts[1])
    assert not np.any(masks[0] == masks[1])


def test_no_part_is_told_where_masks_are(monkeypatch):
    """Nobody is warned, and parts of the same rows and noise have nothing in common."""
    task = make_task()
    rounds, clients = GroupRounds(NAMES, task), make_clients(task)
    parts = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            request = rounds.request()
            replies = {n: c.respond(request) for n, c in clients.items()}
            parts[request.step] = {n: from_halves(r.values) for n, r in replies.items()}
            rounds.collect(replies)
    show_parts(monkeypatch)
    request = Request(SESSION, task.digest, 0)
    exact = {n: c.respond(request).values for n, c in make_clients(task).items()}
    exact = {n: from_halves(v).astype(np.int64) for n, v in exact.items()}
    for name in NAMES:
        assert np.abs(exact[name]).max() < 2.0**52
        hidden = parts[0][name].astype(np.int64).astype(np.float64)
        assert np.median(np.abs(hidden)) > 2.0**60
    total = np.sum(list(parts[0].values()), axis=0, dtype=np.uint64).astype(np.int64)
    np.testing.assert_array_equal(total, np.sum(list(exact.values()), axis=0))
    # Of three of four nothing is known: one mask of each is left.
    rest = np.sum([parts[0][n] for n in NAMES[:3]], axis=0, dtype=np.uint64)
    assert np.median(np.abs(rest.astype(np.int64).astype(float))) > 2.0**60


def test_masked_words_are_uniform():
    """Chi-square of all bytes, false alarm 1e-6; zeros as they are would be seen."""
    keys = keys_of(make_task(), "east")["pair_keys"]
    words = masked(np.zeros(20_000), "east", keys, b"one sum")
    counts = np.bincount(words.view(np.uint8), minlength=256)
    expected = words.nbytes / 256
    statistic = ((counts - expected) ** 2 / expected).sum()
    low, high = chi2.ppf([5e-7, 1 - 5e-7], 255)
    assert low < statistic < high
    same = masked(np.zeros(20_000), "east", keys, b"one sum")
    other = masked(np.zeros(20_000), "east", keys, b"another")
    assert np.array_equal(words, same)
    assert not np.any(words == other)


def chacha20(key, counter):
    """One block of the cipher, written down once more, after its definition."""
    state = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    state += [*struct.unpack("<8I", key), counter, 0, 0, 0]
    w = list(state)

    def step(a, b, c, turn):
        w[a] = (w[a] + w[b]) % 2**32
        x = w[c] ^ w[a]
        w[c] = (x << turn | x >> (32 - turn)) % 2**32

    columns = [(i, 4 + i, 8 + i, 12 + i) for i in range(4)]
    diagonals = [
        (i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)
    ]
    for a, b, c, d in 10 * (columns + diagonals):
        for first, second, third, turn in (
            (a, b, d, 16),
            (c, d, b, 12),
            (a, b, d, 8),
            (c, d, b, 7),
        ):
            step(first, second, third, turn)
    return struct.pack(
        "<16I", *((x + y) % 2**32 for x, y in zip(w, state, strict=True))
    )


def test_masks_are_the_same_on_every_machine():
    """They are the key stream of ChaCha20, with a key for each secret and sum."""
    secret, label = bytes(range(32)), b"sum"
    how = {"person": b"pair mask", "digest_size": 32}
    key = hashlib.blake2b(label, key=secret, **how).digest()
    stream = b"".join(chacha20(key, counter) for counter in range(3))
    mask = pair_mask(secret, label, 24)
    assert mask.astype("<u8").tobytes() == stream
    for bad in (b"short", bytes(33), "x" * 32):
        with pytest.raises(ValueError, match="32 bytes"):
            pair_mask(bad, label, 3)


def test_halves_hold_words():
    words = np.array([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1], dtype=np.uint64)
    halves = to_halves(words)
    assert are_halves(halves)
    assert np.array_equal(from_halves(halves), words)
    for bad in (-1.0, 2.0**32, 0.5):
        assert not are_halves(np.append(halves, bad))


def answered():
    task = make_task()
    rounds, clients = GroupRounds(NAMES, task), make_clients(task)
    request = rounds.request()
    return rounds, {name: c.respond(request) for name, c in clients.items()}


def test_a_node_that_is_missing_ends_the_session():
    rounds, answers = answered()
    with session_ends("'west' was rejected", "min_clients=4"):
        rounds.collect({**answers, "west": None})
    assert not rounds._released


def test_answers_that_are_no_words_are_rejected():
    rounds, answers = answered()
    wrong = answers["west"].values.copy()
    wrong[0] = -1.0
    answers["west"] = replace(answers["west"], values=wrong)
    with session_ends("'west' was rejected: .*halves of words"):
        rounds.collect(answers)


def test_secrets_are_those_of_pairs():
    task, plain = make_task(), GroupTask(LRSRegressor(), 4)
    good = keys_of(task, "east")["pair_keys"]
    cases = {
        "names of all other clients": {**good, "elsewhere": bytes(32)},
        "with 'west' must be 32 bytes": {**good, "west": b"short"},
        "all be different": dict.fromkeys(good, bytes(32)),
    }
    for said, pair_keys in cases.items():
        with pytest.raises(ValueError, match=said):
            make_client(task, "east", 0, pair_keys=pair_keys)
    with pytest.raises(ValueError, match="names of all other clients"):
        make_client(task, "east", 0, pair_keys=None)
    with pytest.raises(ValueError, match="not one of the nodes"):
        GroupClient("elsewhere", task, X, Y, users=USERS, pair_keys=good)
    with pytest.raises(ValueError, match="names of all other clients"):
        GroupClient("east", plain, X, Y, users=USERS, pair_keys=good)


def test_who_masks_is_agreed_on():
    assert make_task() == make_task(masked=NAMES[::-1])
    assert make_task() != make_task(masked=NAMES[:3])
    for bad, said in (
        (("east",), "at least two names"),
        (("east", "east", "west"), "at least two names"),
        (("east", "west"), "n_shares=3 to"),
        (("east", "north", ""), "printable"),
        ("east", "one string"),
    ):
        with pytest.raises(ValueError, match=said):
            make_task(masked=bad)
    for clients in (NAMES[:3], (*NAMES[:3], "elsewhere")):
        with pytest.raises(ValueError, match="clients must be the clients of the task"):
            GroupRounds(clients, make_task())
    with pytest.raises(ValueError, match="at least 4"):
        GroupRounds(NAMES, make_task(), min_clients=3)
