"""The chain of a ledger's entries: their running totals, and digests that link them.

Each entry has the totals of all entries up to it, and a digest of itself, of its
mechanisms and of the entry before. So the last entry says what everything costs, and a
row that is changed, moved or deleted breaks the chain. Digests find damage and careless
edits; who can write to a ledger can compute them anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

ENTRY_COLUMNS = (
    "time",
    "estimator",
    "label",
    "partition",
    "block",
    "asserted",
    "epsilon",
    "delta",
    "mu",
    "ledger_mu",
    "failure",
    "unit",
    "neighbors",
    "assumption",
    "seeded",
    "plan",
    "kind",
)


_REALS = {"time", "epsilon", "delta", "mu", "ledger_mu", "failure"}


_IS_REAL = (False, *(name in _REALS for name in ENTRY_COLUMNS), False)


# Of the meta table: what the chain says of the ledger as a whole.
HEAD = "head"


# Sums have no rounding errors, and no order. A float is infinity.
Exact: TypeAlias = Fraction | float


class Sums(NamedTuple):
    """Squared cost, and probability of failure, of several entries."""

    cost: Exact = Fraction(0)
    failure: Exact = Fraction(0)

    def plus(self, other: Sums) -> Sums:
        """Return the sums of both."""
        return Sums(self.cost + other.cost, self.failure + other.failure)

    def largest(self, other: Sums) -> Sums:
        """Return the larger of each."""
        return Sums(max(self.cost, other.cost), max(self.failure, other.failure))

    def rise_to(self, other: Sums) -> Sums:
        """Return what is to be added for sums that are nowhere smaller."""
        pairs = zip(self, other, strict=True)
        return Sums(*(b - a if b != a else Fraction(0) for a, b in pairs))


class Totals(NamedTuple):
    """Totals of a ledger up to an entry.

    Parameters
    ----------
    ledger : Sums
        Of all entries: a partition costs its dearest block; partitions compose.
    parts : tuple of Sums
        Of those in the partition and in the block of the last entry, if asserted:
        nothing is added to others later.
    delta : float or None
        Smallest positive delta of an entry.
    seeded : bool
        Whether the noise of any entry came from a seed.
    counts : str
        Digest of how often each mechanism that is no Gaussian was charged.
    """

    ledger: Sums = Sums()
    parts: tuple[Sums, ...] = ()
    delta: float | None = None
    seeded: bool = False
    counts: str = ""

    def text(self) -> str:
        """Return what an entry says; equal totals have equal texts."""
        sums = [[_text(x) for x in sums] for sums in (self.ledger, *self.parts)]
        return json.dumps([sums, self.delta, self.seeded, self.counts])


def read_totals(text: str) -> Totals:
    """Read what an entry of a chain that was checked says."""
    sums, delta, seeded, counts = json.loads(text)
    ledger, *parts = (Sums(*map(_number, pair)) for pair in sums)
    return Totals(ledger, tuple(parts), delta, seeded, counts)


def _text(number: Exact) -> str:
    """Return a number in hexadecimal digits and a power of two; "inf" for infinity."""
    if not isinstance(number, Fraction):
        return str(number)
    return f"{number.numerator:x}p{number.denominator.bit_length() - 1}"


def _number(text: str) -> Exact:
    if text == "inf":
        return math.inf
    digits, _, power = text.partition("p")
    return Fraction(int(digits, 16), 2 ** int(power))


class Link(NamedTuple):
    """What the chain adds to an entry."""

    id: int
    totals: str
    digest: str


class Chain:
    """The entries of a ledger so far, to which one is added after another.

    Parameters
    ----------
    last : Link or None
        What the chain says at the last entry.
    counts : mapping of str to int, or None
        How often each mechanism that is no Gaussian was charged.
    """

    def __init__(
        self, last: Link | None = None, counts: Mapping[str, int] | None = None
    ) -> None:
        self.last = last or Link(0, "", "")
        self.totals = Totals() if last is None else read_totals(last.totals)
        self.counts = dict(counts or {})
        # Of partitions, and of their blocks, as far as they are known.
        self.sums: dict[tuple[str, ...], Sums] = {}

    def add(
        self, values: Sequence[Any], curves: Sequence[tuple[str, int]] = ()
    ) -> Link:
        """Add an entry with these values of its columns, and these mechanisms."""
        entry = dict(zip(ENTRY_COLUMNS, values, strict=True))
        own = Sums(_exact(entry["ledger_mu"]) ** 2, _exact(entry["failure"]))
        partition: tuple[str, ...] = (entry["partition"],)
        name = (*partition, entry["block"])
        before = self.sums.get(partition, Sums())
        block = self.sums[name] = self.sums.get(name, Sums()).plus(own)
        after = self.sums[partition] = before.largest(block)
        counts = self.totals.counts
        if curves:
            for text, times in curves:
                self.counts[text] = self.counts.get(text, 0) + times
            counts = counts_digest(self.counts)
        deltas = [d for d in (self.totals.delta, float(entry["delta"])) if d]
        self.totals = Totals(
            self.totals.ledger.plus(before.rise_to(after)),
            (after, block) if entry["asserted"] else (),
            min(deltas, default=None),
            self.totals.seeded or bool(entry["seeded"]),
            counts,
        )
        row = (self.last.id + 1, *values, self.totals.text())
        link = Link(row[0], row[-1], digest(self.last.digest, row, curves))
        self.last = link
        return link


def _exact(number: float) -> Exact:
    return number if number == math.inf else Fraction(number)


def as_float(number: Exact) -> float:
    """Return the nearest number; infinity beyond the largest one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def digest(previous: str, row: Sequence[Any], curves: Iterable[tuple[str, int]]) -> str:
    """Return the digest of an entry: its id, columns, totals and mechanisms.

    Parameters
    ----------
    previous : str
        Digest of the entry before; empty for the first.
    row : sequence
        What the ledger holds, damaged or not.
    curves : iterable of tuple (str, int)
        Texts of mechanisms, and how often each is charged.
    """
    plain = [
        float(value) if real and isinstance(value, int) else value
        for value, real in zip(row, _IS_REAL, strict=True)
    ]
    return _hashed([previous, plain, sorted(map(list, curves))])


def counts_digest(counts: Mapping[str, int]) -> str:
    """Return a digest of how often each mechanism was charged; empty for none."""
    return _hashed(sorted(counts.items())) if counts else ""


def head_of(meta: Mapping[str, Any], entries: int, last: str) -> str:
    """Return what seals a ledger: its number of entries, last digest, and terms."""
    terms = sorted((key, value) for key, value in meta.items() if key != HEAD)
    return json.dumps([entries, last, _hashed(terms)])


def _hashed(values: Any) -> str:
    text = json.dumps(values, default=repr)  # bytes are damage
    return hashlib.sha256(text.encode()).hexdigest()
