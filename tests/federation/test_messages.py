"""Messages: immutable, of one byte form, and nothing else is taken for one."""

import hashlib
import pickle
import struct

import numpy as np
import pytest

from skdpspectral.federation import MessageError, Reply, Request, Topic

SESSION, TASK = bytes(range(16)), bytes(range(50, 66))
RNG = np.random.default_rng(0)
NUMBERS = {Topic.COMPONENTS: (0.1, 0.5, 0.01), Topic.MATRIX: (0.1, 0.5, 0.01)}
NUMBERS |= {Topic.POWER: (0.2,), Topic.MEAN: ()}
NUMBERS |= dict.fromkeys((Topic.SUBSPACE, Topic.PROJECTOR), (10.0, 1.0))


def reply(topic=Topic.COMPONENTS, values=None, numbers=None, **changes):
    values = RNG.normal(size=(2, 5)) if values is None else values
    content = {
        "session": SESSION,
        "task": TASK,
        "step": 1,
        "topic": topic,
        "client": "north",
        "n_samples": 100,
        "mu": 0.3,
        "numbers": numbers or NUMBERS.get(topic, ()),
        "values": values,
    }
    return Reply(**{**content, **changes})


MESSAGES = {
    "components": reply(),
    "matrix": reply(Topic.MATRIX, RNG.normal(size=15)),
    "subspace": reply(Topic.SUBSPACE),
    "projector": reply(Topic.PROJECTOR, RNG.normal(size=15)),
    "mean": reply(Topic.MEAN, RNG.normal(size=5)),
    "power": reply(Topic.POWER, client="\u00e9t\u00e9", mu=float("inf")),
    "request": Request(SESSION, TASK, 0, Topic.COMPONENTS),
    "basis": Request(SESSION, TASK, 2**32 - 1, Topic.POWER, RNG.normal(size=(5, 2))),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_there_and_back(message):
    data = message.to_bytes()
    again = type(message).from_bytes(data)
    assert again == message
    assert again.to_bytes() == data
    assert hash(again) == hash(message)
    for name, value in vars(message).items():
        assert np.array_equal(getattr(again, name), value), name


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_nothing_can_be_written(message):
    array = message.values if isinstance(message, Reply) else message.basis
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 0.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True
    with pytest.raises(AttributeError):
        message.step = 3


def test_later_changes_of_what_was_given_change_no_message():
    values = np.ones((2, 5))
    message = reply(values=values)
    before = message.to_bytes()
    values[:] = 7.0
    assert message.to_bytes() == before


@pytest.mark.parametrize(("p", "r"), [(1, 1), (50, 1), (100, 20), (1000, 3)])
def test_components_take_few_bytes(p, r):
    longest = reply(
        values=np.ones((r, p)), client="n" * 64, n_samples=2**63 - 1, step=2**32 - 1
    )
    assert len(longest.to_bytes()) <= 8 * p * r + 200


def mutate(data, rng):
    """Flip bits, cut, lengthen, swap or overwrite; never nothing at all."""
    data = bytearray(data)
    kind = rng.integers(6)
    if kind == 0:
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    elif kind == 1:
        data = data[: rng.integers(len(data))]
    elif kind == 2:
        data += rng.bytes(rng.integers(1, 40))
    elif kind == 3:
        start = rng.integers(len(data))
        data[start : start + 8] = rng.bytes(len(data[start : start + 8]))
    elif kind == 4:
        start = rng.integers(len(data) - 1)
        del data[start : start + rng.integers(1, 16)]
    else:
        # A header that promises other lengths.
        offset = rng.choice([8, 52, 54, 72, 76])
        struct.pack_into("<I", data, offset, int(rng.integers(2**32)))
    return bytes(data)


def test_ten_thousand_mutations_are_refused():
    """Each is refused by a MessageError; what is unchanged by chance is left out."""
    rng = np.random.default_rng(1)
    forms = [(type(m), m.to_bytes()) for m in MESSAGES.values()]
    refused = 0
    while refused < 10_000:
        cls, data = forms[rng.integers(len(forms))]
        changed = mutate(data, rng)
        if changed == data:
            continue
        with pytest.raises(MessageError):
            cls.from_bytes(changed)
        refused += 1


def signed(body):
    """A message whose digest is right, whatever it holds."""

    return body + hashlib.blake2b(body, digest_size=16).digest()


def test_mutations_with_a_right_digest_are_refused_or_whole():
    """Whoever can make digests can at most send another valid message."""
    rng = np.random.default_rng(2)
    accepted = 0
    for trial in range(5_000):
        message = list(MESSAGES.values())[trial % len(MESSAGES)]
        body = mutate(message.to_bytes()[:-16], rng)
        try:
            found = type(message).from_bytes(signed(body))
        except MessageError:
            continue
        accepted += 1
        values = found.values if isinstance(found, Reply) else found.basis
        assert np.isfinite(values).all()
        assert len(signed(body)) == struct.unpack_from("<Q", body, 8)[0]
    assert accepted > 50


BAD_REPLIES = {
    "session": {"session": b"short"},
    "task must be 16 bytes": {"task": b"short"},
    "step": {"step": -1},
    "topic": {"topic": 99},
    "printable": {"client": ""},
    "64 bytes": {"client": "n" * 65},
    "a printable string": {"client": "\ud800"},
    "numbers must be an array": {"numbers": ("a", "b", "c")},
    "n_samples": {"n_samples": 0},
    "mu": {"mu": float("nan")},
    "3 numbers": {"numbers": (1.0,)},
    "numbers must be finite": {"numbers": (1.0, float("inf"), 0.0)},
    "values must be finite": {"values": np.full((2, 5), np.nan)},
    "dimensions": {"values": np.ones((1, 1, 1))},
    "real numbers": {"values": np.ones((2, 5), dtype=complex)},
}


@pytest.mark.parametrize(("says", "changes"), BAD_REPLIES.items())
def test_bad_replies_are_not_made(says, changes):
    with pytest.raises(MessageError, match=says):
        reply(**changes)


def damaged(offset, value, layout="B"):
    data = bytearray(MESSAGES["components"].to_bytes()[:-16])
    struct.pack_into(f"<{layout}", data, offset, value)
    return signed(bytes(data))


BAD_BYTES = {
    "must be bytes": "text",
    "too short": b"SKDF",
    "not a message": damaged(0, 0),
    "has version 1, but this release reads version 2": damaged(4, 1),
    "not a Reply": damaged(5, 1),
    "unknown topic": damaged(6, 77),
    "invalid shape": damaged(7, 3),
    "stated length": damaged(8, 99, "Q"),
    "invalid length": damaged(52, 65, "H"),
    "add up to its length": damaged(72, 3, "I"),
    "mu must be": damaged(64, -1.0, "d"),
    "damaged": MESSAGES["components"].to_bytes()[:-1] + b"\0",
    "not a Reply.*": MESSAGES["request"].to_bytes(),
}


@pytest.mark.parametrize(("says", "data"), BAD_BYTES.items())
def test_bad_bytes_say_what_is_wrong(says, data):
    with pytest.raises(MessageError, match=says):
        Reply.from_bytes(data)


def test_longer_messages_than_expected_are_not_looked_at():
    data = MESSAGES["components"].to_bytes()
    assert Reply.from_bytes(data, max_bytes=len(data)) == MESSAGES["components"]
    with pytest.raises(MessageError, match="at most 100"):
        Reply.from_bytes(data, max_bytes=100)


def test_a_pickle_is_no_message():
    with pytest.raises(MessageError):
        Reply.from_bytes(pickle.dumps(MESSAGES["components"]) + bytes(200))


def test_a_message_differs_from_anything_else():
    assert MESSAGES["components"] != MESSAGES["request"]
    assert MESSAGES["components"] != 3
