"""Messages: immutable, of one byte form, and nothing else is taken for one."""

import json
import pickle

import numpy as np
import pytest

from skdpspectral._messages import signed
from skdpspectral.federation import MessageError, Reply, Request

SESSION, TASK = bytes(range(16)), bytes(range(50, 66))
RNG = np.random.default_rng(0)


def reply(values=None, **changes):
    values = RNG.normal(size=(2, 5)) if values is None else values
    content = {
        "session": SESSION,
        "task": TASK,
        "step": 1,
        "client": "north",
        "n_samples": 100,
        "mu": 0.3,
        "numbers": (0.5, 0.01),
        "values": values,
    }
    return Reply(**{**content, **changes})


MESSAGES = {
    "components": reply(),
    "matrix": reply(RNG.normal(size=15)),
    "mean": reply(RNG.normal(size=5), numbers=()),
    "power": reply(client="\u00e9t\u00e9", mu=float("inf")),
    "line ends": reply(np.frombuffer(b"\n" * 80, "<f8")),
    "request": Request(SESSION, TASK, 0),
    "basis": Request(SESSION, TASK, 2**32 - 1, RNG.normal(size=(5, 2))),
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
    assert message not in (
        3,
        MESSAGES["request" if "values" in vars(message) else "mean"],
    )


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_nothing_can_be_written(message):
    array = message.values if isinstance(message, Reply) else message.basis
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 0.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True
    with pytest.raises(AttributeError):
        message.step = 3
    values = np.ones((2, 5))
    made = reply(values)
    values[:] = 7.0
    assert np.array_equal(made.values, np.ones((2, 5)))


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
    else:  # a digit of the header
        digits = [i for i, c in enumerate(data[:400]) if 48 <= c < 58]
        data[rng.choice(digits)] = rng.integers(48, 58)
    return bytes(data)


def test_mutations_are_refused_or_with_a_right_digest_whole():
    """Whoever can make digests can at most send another valid message."""
    rng, accepted = np.random.default_rng(1), 0
    forms = [(type(m), m.to_bytes()) for m in MESSAGES.values()]
    for trial in range(10_000):
        cls, data = forms[trial % len(forms)]
        changed = mutate(data, rng)
        if changed != data:
            with pytest.raises(MessageError):
                cls.from_bytes(changed)
        body = signed(mutate(data[:-16], rng))
        try:
            found = cls.from_bytes(body)
        except MessageError:
            continue
        accepted += 1
        values = found.values if cls is Reply else found.basis
        assert np.isfinite(values).all()
        assert found.to_bytes() == body
    assert accepted > 100


BAD_REPLIES = {
    "session": {"session": b"short"},
    "task must be 16 bytes": {"task": b"short"},
    "step": {"step": -1},
    "printable": {"client": ""},
    "64 bytes": {"client": "n" * 65},
    "a printable string": {"client": "\ud800"},
    "numbers must be finite, real": {"numbers": ("a", "b")},
    "n_samples": {"n_samples": -1},
    "mu": {"mu": float("nan")},
    "numbers must be finite": {"numbers": (1.0, float("inf"))},
    "values must be finite": {"values": np.full((2, 5), np.nan)},
    "dimensions": {"values": np.ones((1, 1, 1))},
    "real numbers": {"values": np.ones((2, 5), dtype=complex)},
}


@pytest.mark.parametrize(("says", "changes"), BAD_REPLIES.items())
def test_bad_replies_are_not_made(says, changes):
    with pytest.raises(MessageError, match=says):
        reply(**changes)


def forged(rest=None, **changes):
    """A message with another header and a right digest; None removes a field."""
    text, _, numbers = GOOD[:-16].partition(b"\n")
    header = {**json.loads(text), **changes}
    header = {key: value for key, value in header.items() if value is not None}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return signed(text + b"\n" + (numbers if rest is None else rest))


GOOD = MESSAGES["components"].to_bytes()
# One table of what strangers send: the text of the refusal, and the bytes.
BAD_BYTES = [
    *[("must be bytes", data) for data in ("text", None)],
    *[
        ("was damaged", data)
        for data in (b"", b"SKDF", pickle.dumps(MESSAGES["mean"]), GOOD[:-1] + b"\0")
    ],
    *[
        ("not a valid Reply", signed(text + b"\n"))
        for text in (
            *(b" " * 600, b"", b"[" * 500, b"\xff" * 50, b"9" * 500, b"[]"),
            *(b'{"kind":"Reply","version":4}', b"{}", b'"kind"'),
        )
    ],
    *[
        ("not a valid Reply", forged(**changes))
        for changes in (
            *({"shape": 3}, {"shape": [2.0, 5]}, {"shape": ["2", 5]}),
            *({"shape": [2**30, 2**30]}, {"shape": [2, 4]}, {"rest": b""}),
            *({"rest": b"1"}, {"step": None}, {"more": 1}, {"session": "zz" * 16}),
            *({"task": 7}, {"client": None}, {"values": 3}),
        )
    ],
    ("not a Reply", MESSAGES["request"].to_bytes()),
    ("not a Reply", forged(kind=["Reply"])),
    ("not a Reply of version 4, which this release reads: .* 2", forged(version=2)),
    ("session must be", forged(session="00")),
    ("dimensions", forged(shape=[2, 5, 1])),
    ("not the form|not a valid", forged(shape=[-1, 5])),
    ("not the form|not a valid", forged(shape=[2, True], rest=bytes(16))),
    ("values must be|not a valid", forged(shape=[0, 2**62], rest=b"")),
    ("must be finite", forged(rest=np.full(10, np.nan).tobytes())),
    ("must be finite", forged(rest=np.full(10, -np.inf).tobytes())),
    ("n_samples must be a whole number", forged(n_samples=True)),
    ("n_samples must be a whole number", forged(n_samples=100.0)),
    ("n_samples must be a whole number", forged(n_samples=2**63)),
    ("step must be a whole number", forged(step="1")),
    *[("mu must be", forged(mu=mu)) for mu in (-1.0, float("nan"), "1")],
    *[
        ("numbers must", forged(numbers=numbers))
        for numbers in ([float("nan"), 1.0], ["1", 1.0], {"a": 1})
    ],
    *[
        ("not the form", forged(**changes))
        for changes in (
            *({"mu": True}, {"mu": 1}, {"numbers": [1, 1.0]}),
            *({"session": SESSION.hex().upper()},),
            *({"task": " ".join(f"{b:02x}" for b in TASK)},),
        )
    ],
    ("printable", forged(client="a\nb")),
    ("printable", forged(client=["a"])),
    ("64 bytes", forged(client="n" * 65)),
]


@pytest.mark.parametrize(("says", "data"), BAD_BYTES)
def test_bad_bytes_say_what_is_wrong(says, data):
    with pytest.raises(MessageError, match=says):
        Reply.from_bytes(data)
