"""Messages: immutable, of one byte form, and nothing else is taken for one."""

import json
import pickle

import numpy as np
import pytest

from skdpspectral._messages.codec import signed
from skdpspectral._messages.messages import OVERHEAD
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
@pytest.mark.parametrize("client", ['"\\' * 32, "\u00e9" * 32, "n" * 64])
def test_components_take_few_bytes(p, r, client):
    ids = {"session": b"\xff" * 16, "task": b"\xff" * 16}
    numbers = (-1.2345678901234567e-308,) * 3
    longest = reply(
        **ids,
        values=np.ones((r, p)),
        client=client,
        n_samples=2**63 - 1,
        step=2**32 - 1,
        numbers=numbers,
        mu=1.2345678901234567e-300,
    )
    data = longest.to_bytes()
    assert len(data) <= 8 * p * r + OVERHEAD
    assert Reply.from_bytes(data) == longest


def mutate(data, rng):
    """Flip bits, cut, lengthen, overwrite or delete; never nothing at all."""
    data = bytearray(data)
    kind, start = rng.integers(6), rng.integers(len(data) - 1)
    if kind == 0:
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    elif kind == 1:
        data = data[:start]
    elif kind == 2:
        data += rng.bytes(rng.integers(1, 40))
    elif kind == 3:
        data[start : start + 8] = rng.bytes(len(data[start : start + 8]))
    elif kind == 4:
        del data[start : start + rng.integers(1, 16)]
    else:  # a digit of the header, or its length
        digits = [4, 5, *(i for i, c in enumerate(data[:400]) if 48 <= c < 58)]
        data[rng.choice(digits)] = rng.integers(48, 58)
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
        assert found.to_bytes() == signed(body)
    assert accepted > 50


BAD_REPLIES = {
    "session": {"session": b"short"},
    "task must be 16 bytes": {"task": b"short"},
    "step": {"step": -1},
    "topic": {"topic": 99},
    "printable": {"client": ""},
    "64 bytes": {"client": "n" * 65},
    "a printable string": {"client": "\ud800"},
    "numbers must be finite, real": {"numbers": ("a", "b", "c")},
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


def forged(name="components", rest=None, **changes):
    """A message with another header and a right digest; None removes a field."""
    data = MESSAGES[name].to_bytes()
    end = 8 + int.from_bytes(data[4:8], "little")
    header = {**json.loads(data[8:end]), **changes}
    header = {key: value for key, value in header.items() if value is not None}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    rest = data[end:-16] if rest is None else rest
    return signed(data[:4] + len(text).to_bytes(4, "little") + text + rest)


def with_header(text):
    return signed(b"SKDF" + len(text).to_bytes(4, "little") + text)


GOOD = MESSAGES["components"].to_bytes()
# One table of what strangers send: the text of the refusal, and the bytes.
BAD_BYTES = [
    ("must be bytes", "text"),
    ("must be bytes", None),
    ("not a reply", b"SKDF"),
    ("not a reply", b"PK\x03\x04" + bytes(99)),  # of a zip file, such as npz
    ("damaged", GOOD[:-1] + b"\0"),
    ("too long", signed(b"SKDF" + b"\xff" * 4 + GOOD[8:-16])),
    ("too long", with_header(b" " * 600)),
    ("no valid header", with_header(b"")),
    ("no valid header", with_header(b"[" * 500)),
    ("no valid header", with_header(b"\xff" * 50)),
    ("no valid header", with_header(b'{"kind":"reply","version":3}')),
    ("no valid header", with_header(b"9" * 500)),
    ("no valid header", forged(shape=3)),
    ("not a reply", MESSAGES["request"].to_bytes()),
    ("not a reply", forged(kind=["reply"])),
    ("has version 2, but this release reads version 3", forged(version=2)),
    ("does not have its fields", forged(step=None)),
    ("does not have its fields", forged(more=1)),
    ("unknown topic", forged(topic="SUMS")),
    ("unknown topic", forged(topic=["SUM"])),
    ("unknown topic", forged(session="zz" * 16)),
    ("unknown topic", forged(task=7)),
    ("session must be", forged(session="00")),
    ("a valid shape", forged(shape=[2, 5, 1])),
    ("a valid shape", forged(shape=[-2, -5])),
    ("a valid shape", forged(shape=[2.0, 5])),
    ("a valid shape", forged(shape=[2, True])),
    ("a valid shape", forged(shape=["2", 5])),
    ("a valid shape", forged(shape=[0, 2**62], rest=b"")),
    ("a valid shape", forged(shape=[2**30, 2**30])),
    ("a valid shape", forged(shape=[2, 4])),
    ("a valid shape", forged(rest=b"")),
    ("must be finite", forged(rest=np.full(10, np.nan).tobytes())),
    ("must be finite", forged(rest=np.full(10, -np.inf).tobytes())),
    ("n_samples must be a whole number", forged(n_samples=True)),
    ("n_samples must be a whole number", forged(n_samples=100.0)),
    ("n_samples must be a whole number", forged(n_samples=2**63)),
    ("step must be a whole number", forged(step="1")),
    ("mu must be", forged(mu=-1.0)),
    ("mu must be", forged(mu=float("nan"))),
    ("mu must be", forged(mu="1")),
    ("not the form", forged(mu=True)),
    ("COMPONENTS requires 3 numbers", forged(numbers=[1.0])),
    ("numbers must be", forged(numbers=[float("nan"), 1.0, 1.0])),
    ("numbers must be", forged(numbers=["1", 1.0, 1.0])),
    ("numbers must", forged(numbers={"a": 1})),
    ("not the form", forged(numbers=[1, 1.0, 1.0])),
    ("not the form", forged(mu=1)),
    ("not the form", forged(session=SESSION.hex().upper())),
    ("not the form", forged(task=" ".join(f"{b:02x}" for b in TASK))),
    ("printable", forged(client="a\nb")),
    ("printable", forged(client=["a"])),
    ("64 bytes", forged(client="n" * 65)),
    ("not a reply", pickle.dumps(MESSAGES["components"]) + bytes(200)),
]


@pytest.mark.parametrize(("says", "data"), BAD_BYTES)
def test_bad_bytes_say_what_is_wrong(says, data):
    with pytest.raises(MessageError, match=says):
        Reply.from_bytes(data)


def test_longer_messages_than_expected_are_not_looked_at():
    data = MESSAGES["components"].to_bytes()
    assert Reply.from_bytes(data, max_bytes=len(data)) == MESSAGES["components"]
    with pytest.raises(MessageError, match="at most 100"):
        Reply.from_bytes(data, max_bytes=100)


def test_a_message_differs_from_anything_else():
    assert MESSAGES["components"] != MESSAGES["request"]
    assert MESSAGES["components"] != 3
