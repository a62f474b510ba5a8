"""The entries of a locked ledger: their chain, and what is done to it in SQL.

Each entry has the totals of all entries up to it, and a digest of itself, of its
mechanisms and of the entry before. So the last entry says what everything costs, and a
row that is changed, moved or deleted breaks the chain. Digests find damage and careless
edits; who can write to a ledger can compute them anew. SQLite and PostgreSQL both know
the statements.

A ledger of another version of the schema is refused, and never changed: nothing turns
one into another, since what seals a ledger anew would seal what was edited, too.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ...mechanisms import Neighbors, PrivacyPlan, Unit
from .._composition import Total
from .._errors import LedgerError
from .budget import (
    FAILURES,
    PURE,
    Cost,
    DisjointBlock,
    ExactNumber,
    LedgerTerms,
    Share,
    as_float,
    box_of,
    counted_curves,
    curve_kinds,
    curve_text,
    exact,
    new_name,
    with_pure,
)

# Of the entries of a file.
COLUMNS = {
    "id": "INTEGER PRIMARY KEY",
    "time": "REAL NOT NULL",
    "estimator": "TEXT NOT NULL",
    "label": "TEXT",
    "partition": "TEXT NOT NULL",
    "block": "TEXT NOT NULL",
    "asserted": "INTEGER NOT NULL",
    "epsilon": "REAL NOT NULL",
    "delta": "REAL NOT NULL",
    "mu": "REAL NOT NULL",
    "ledger_mu": "REAL NOT NULL",
    "failure": "REAL NOT NULL",
    "unit": "TEXT NOT NULL",
    "neighbors": "TEXT NOT NULL",
    "assumption": "TEXT NOT NULL",
    "seeded": "INTEGER NOT NULL",
    "plan": "TEXT NOT NULL",
    "kind": "TEXT NOT NULL",
    "totals": "TEXT NOT NULL",
    "digest": "TEXT NOT NULL",
}

ENTRY_COLUMNS = tuple(COLUMNS)[1:-2]  # all but the id and what the chain adds
_IS_REAL = tuple(of.startswith("REAL") for of in COLUMNS.values())[:-1]

# Of the meta table: what the chain says of the ledger as a whole.
HEAD = "head"

# And of the positions of all streams.
STREAMS_SEAL = "streams"


class CostSums(NamedTuple):
    """Composed costs of several entries; the last three concern the ledger's box.

    `cost` is the squared mu of Gaussian mechanisms, `failure` the probability that the
    bounds of models fail.
    """

    cost: ExactNumber = Fraction(0)
    failure: ExactNumber = Fraction(0)
    box_cost: ExactNumber = Fraction(0)
    box_failure: ExactNumber = Fraction(0)
    box_pure: ExactNumber = Fraction(0)

    @property
    def box(self) -> Share:
        """The use of the box."""
        return Share(*self[2:])

    def plus(self, other: CostSums) -> CostSums:
        """Return the sums of both."""
        return CostSums(*(a + b for a, b in zip(self, other, strict=True)))

    def largest(self, other: CostSums) -> CostSums:
        """Return the larger of each."""
        return CostSums(*map(max, self, other))

    def rise_to(self, other: CostSums) -> CostSums:
        """Return the difference to sums that are nowhere smaller."""
        pairs = zip(self, other, strict=True)
        return CostSums(*(b - a if b != a else Fraction(0) for a, b in pairs))


class Totals(NamedTuple):
    """Totals of a ledger up to an entry.

    `ledger` covers all entries: a partition costs as much as its most expensive block;
    partitions compose. `parts` cover those in the partition and the block of the last
    entry, if asserted. `delta` is the smallest positive one of an entry, and `counts` a
    digest of the counts of other mechanisms than Gaussians. `share` is the last entry's
    use of the box; None without a budget.
    """

    ledger: CostSums = CostSums()
    parts: tuple[CostSums, ...] = ()
    delta: float | None = None
    seeded: bool = False
    counts: str = ""
    share: Share | None = None

    def text(self) -> str:
        """Return the totals as text; equal totals have equal texts."""
        sums = [[*map(_text, sums)] for sums in (self.ledger, *self.parts)]
        own = [] if self.share is None else [[*map(_text, self.share)]]
        return json.dumps([sums, self.delta, self.seeded, self.counts, *own])


def read_totals(text: str) -> Totals:
    """Parse the totals of an entry whose chain was verified."""
    sums, delta, seeded, counts, *own = json.loads(text)
    ledger, *parts = (CostSums(*map(_number, numbers)) for numbers in sums)
    share = Share(*map(_number, own[0])) if own else None
    return Totals(ledger, tuple(parts), delta, seeded, counts, share)


def _text(number: ExactNumber) -> str:
    """Return a number as hexadecimal digits and a power of two; "inf" for infinity."""
    if not isinstance(number, Fraction):
        return str(number)
    return f"{number.numerator:x}p{number.denominator.bit_length() - 1}"


def _number(text: str) -> ExactNumber:
    if text == "inf":
        return math.inf
    digits, _, power = text.partition("p")
    return Fraction(int(digits, 16), 2 ** int(power))


class Link(NamedTuple):
    """The fields that the chain adds to an entry."""

    id: int
    totals: str
    digest: str


class Chain:
    """The chain of the entries so far, to which entries are appended.

    `counts` are those of mechanisms that are not Gaussian.
    """

    def __init__(
        self, last: Link | None = None, counts: Mapping[str, int] | None = None
    ) -> None:
        self.last = last or Link(0, "", "")
        self.totals = Totals() if last is None else read_totals(last.totals)
        self.counts = dict(counts or {})
        # Of partitions, and of their blocks, as far as they are known.
        self.sums: dict[tuple[str, ...], CostSums] = {}

    def add(
        self,
        values: Sequence[Any],
        curves: Sequence[tuple[str, int]] = (),
        share: Share | None = None,
    ) -> Link:
        """Append an entry with these column values, mechanisms and share."""
        entry = dict(zip(ENTRY_COLUMNS, values, strict=True))
        cost, failure = exact(entry["ledger_mu"]) ** 2, exact(entry["failure"])
        own = CostSums(cost, failure, *(share or Share()))
        partition: tuple[str, ...] = (entry["partition"],)
        name = (*partition, entry["block"])
        before = self.sums.get(partition, CostSums())
        block = self.sums[name] = self.sums.get(name, CostSums()).plus(own)
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
            share,
        )
        row = (self.last.id + 1, *values, self.totals.text())
        link = Link(row[0], row[-1], digest_of(self.last.digest, row, curves))
        self.last = link
        return link

    def total(self) -> Total:
        """Return the composed cost of all entries, seeded ones at face value."""
        sums = self.totals.ledger
        curves = counted_curves(sorted(self.counts.items()))
        return Total(
            math.sqrt(as_float(sums.cost)), as_float(sums.failure), curves, sums.box
        )


def digest_of(
    previous: str, row: Sequence[Any], curves: Iterable[tuple[str, int]]
) -> str:
    """Return the digest of an entry: its id, columns, totals and mechanisms.

    `previous` is the digest of the preceding entry, empty for the first. `row` is as
    stored, damaged or not; `curves` are texts of mechanisms with counts.
    """
    plain = [
        float(value) if real and isinstance(value, int) else value
        for value, real in zip(row, _IS_REAL, strict=True)
    ]
    return _hashed([previous, plain, sorted(map(list, curves))])


def counts_digest(counts: Mapping[str, int]) -> str:
    """Return a digest of the counts of mechanisms; empty for none."""
    return _hashed(sorted(counts.items())) if counts else ""


def seal_of_streams(streams: Iterable[Sequence[Any]], seal: str = "") -> str:
    """Return a digest of streams that does not depend on their order.

    It starts from `seal`; streams that are part of it are removed.
    """
    number = int(seal or "0", 16)
    for stream in streams:
        number ^= int(_hashed(list(stream)), 16)
    return f"{number:x}"


def head_of(meta: Mapping[str, Any], entries: int, last: str) -> str:
    """Return the seal of a ledger: its number of entries, last digest, and terms."""
    terms = sorted((key, value) for key, value in meta.items() if key != HEAD)
    return json.dumps([entries, last, _hashed(terms)])


def _hashed(values: Any) -> str:
    text = json.dumps(values, default=repr)  # bytes are damage
    return hashlib.sha256(text.encode()).hexdigest()


# -- a locked ledger -------------------------------------------------------------------


_COLUMNS = ", ".join(ENTRY_COLUMNS)

_APPEND = (
    f"INSERT INTO entries (id, {_COLUMNS}, totals, digest) "
    f"VALUES ({', '.join('?' * (len(ENTRY_COLUMNS) + 3))})"
)

_APPEND_CURVE = "INSERT INTO curves (entry, curve, times) VALUES (?, ?, ?)"

_SET_COUNT = (
    "INSERT INTO counts VALUES (?, ?) "
    "ON CONFLICT (curve) DO UPDATE SET times = excluded.times"
)

LINK = f"SELECT id, {_COLUMNS}, totals, digest FROM entries WHERE id = ?"
_DIGEST = "SELECT digest FROM entries WHERE id = ?"
LAST_ID = "SELECT id FROM entries ORDER BY id DESC LIMIT 1"
COUNTS = "SELECT curve, times FROM counts"
_CURVES = "SELECT curve, times FROM curves WHERE entry = ?"
_COUNTS_UP_TO = "SELECT curve, SUM(times) FROM curves WHERE entry <= ? GROUP BY curve"

# Partitions of one charge alone are never added to: they have names of their own.
_LAST_OF_PARTITION = "SELECT MAX(id) FROM entries WHERE asserted = 1 AND partition = ?"
_LAST_OF_BLOCK = f"{_LAST_OF_PARTITION} AND block = ?"


class Connection(Protocol):
    """An open ledger, which is locked for others."""

    path: Any

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement; return its cursor."""

    def meta(self) -> dict[str, Any]:
        """Return the terms of the ledger."""

    def set_meta(self, key: str, value: Any) -> None:
        """Write one of the terms."""

    def unexpected(self) -> list[str]:
        """Return unexpected or missing tables, views and triggers."""


class Transaction:
    """Operations on a locked ledger.

    Raises a LedgerError if the end of the chain, the terms or the tables are damaged.
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        self._chain = _checked_chain(connection)

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement in the transaction."""
        return self._connection.execute(statement, values)

    def as_of(self, entries: int) -> Transaction:
        """Return the ledger after so many entries, read-only, with today's terms."""
        past = copy.copy(self)
        past._chain = Chain()
        if entries:
            counted = self.execute(_COUNTS_UP_TO, (entries,)).fetchall()
            counts = {text: int(times) for text, times in counted}
            past._chain = Chain(_checked_link(self._connection, entries), counts)
        return past

    def last(self) -> tuple[int, str]:
        """Return the number of entries, and the digest of all of them."""
        return self._chain.last.id, self._chain.last.digest

    def relation(self) -> tuple[Unit, Neighbors] | None:
        """Return the ledger's unit and neighbors, once fixed."""
        meta = self._connection.meta()
        if meta.get("unit") is None:
            return None
        return Unit(meta["unit"]), Neighbors(meta["neighbors"])

    def fix_relation(self, unit: Unit, neighbors: Neighbors) -> None:
        """Set the unit and neighbors that all entries are converted to."""
        self._connection.set_meta("unit", str(unit))
        self._connection.set_meta("neighbors", str(neighbors))

    def terms(self) -> LedgerTerms:
        """Return the terms of the ledger."""
        return self._connection.meta()

    def total(self) -> Total:
        """Return the composed cost of all entries, seeded ones at face value."""
        return self._chain.total()

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries, oldest first."""
        return all_entries(self._connection)[: self._chain.last.id]

    def smallest_delta(self) -> float | None:
        """Return the smallest positive delta of the entries; None if there is none."""
        return self._chain.totals.delta

    def any_seeded(self) -> bool:
        """Return whether any entry's noise came from a seed."""
        return self._chain.totals.seeded

    def change_stream(self, name: str, before: int | None, after: int) -> bool:
        """Enter or advance a stream; return whether it was at `before`."""
        seal, moved = self._connection.meta()[STREAMS_SEAL], [(name, after)]
        if before is None:
            self.execute("INSERT INTO streams VALUES (?, ?)", (name, after))
        else:
            moved.append((name, before))
            update = "UPDATE streams SET position = ? WHERE id = ? AND position = ?"
            if self.execute(update, (after, name, before)).rowcount != 1:
                return False
        self._connection.set_meta(STREAMS_SEAL, seal_of_streams(moved, seal))
        return True

    def is_first(self, part: DisjointBlock) -> bool:
        """Return whether nothing charged so far involves the rows of a block.

        The next charge to it is then chosen independently of its rows.
        """
        spent = self._chain.totals
        if self._chain.last.id == 0 or (
            spent.ledger == CostSums() and not spent.counts
        ):
            return True
        if not part.asserted:
            return False
        self._load_sums(part)
        only = self._chain.sums[part.partition,] == self._chain.totals.ledger
        return only and self._chain.sums[part.partition, part.block] == CostSums()

    def slack(self, part: DisjointBlock) -> Share:
        """Return the share that a block can add without increasing its partition's."""
        self._load_sums(part)
        whole = self._chain.sums.get((part.partition,), CostSums())
        block = self._chain.sums.get((part.partition, part.block), CostSums())
        return block.rise_to(whole).box

    def append(
        self,
        plan: PrivacyPlan,
        cost: Cost,
        part: DisjointBlock,
        label: str | None,
        times: int = 1,
    ) -> int:
        """Write an entry for `times` fits, valid from the commit; return its number."""
        share = self._share_of(cost, part, times)
        values = (
            time.time(),
            plan.estimator,
            label,
            part.partition,
            part.block,
            int(part.asserted),
            plan.epsilon,
            plan.delta,
            plan.mu,
            math.sqrt(times) * cost.mu,
            min(times * cost.failure, 1.0),
            str(plan.unit),
            str(plan.neighbors),
            str(plan.assumption),
            int(plan.seeded),
            plan.to_json(),
            curve_kinds(plan),
        )
        curves = [(curve_text(curve), n * times) for curve, n in cost.curves]
        number, totals, digest = self._chain.add(values, curves, share)
        self.execute(_APPEND, (number, *values, totals, digest))
        for text, n in curves:
            self.execute(_APPEND_CURVE, (number, text, n))
            self.execute(_SET_COUNT, (text, self._chain.counts[text]))
        return number

    def _share_of(self, cost: Cost, part: DisjointBlock, times: int) -> Share | None:
        """Return an entry's share of the ledger's box; None without a budget."""
        given = self.terms()
        if given["epsilon"] is None:
            return None
        terms = with_pure(given, cost)
        if terms is not given:
            self._connection.set_meta(PURE, terms[PURE])
        box = box_of(terms)
        left = zip(box.room(self.total()), self.slack(part), strict=True)
        return box.share_of(cost, Share(*(x + y for x, y in left)), times)

    def _load_sums(self, part: DisjointBlock) -> None:
        """Load the costs of a block and its partition, if they are asserted."""
        partition, block = (part.partition,), (part.partition, part.block)
        if not part.asserted:
            return
        if partition not in self._chain.sums:
            self._chain.sums[partition] = self._sums_at(_LAST_OF_PARTITION, partition)[
                0
            ]
        if block not in self._chain.sums:
            self._chain.sums[block] = self._sums_at(_LAST_OF_BLOCK, block)[1]

    def _sums_at(self, query: str, names: tuple[str, ...]) -> tuple[CostSums, ...]:
        """Return sums of the partition and the block of a query's entry."""
        (number,) = self.execute(query, names).fetchone()
        if number is None:
            return CostSums(), CostSums()
        return read_totals(_checked_link(self._connection, number).totals).parts


def _checked_chain(connection: Connection) -> Chain:
    """Return the chain of a ledger, after comparing its end with the terms."""
    unexpected = connection.unexpected()
    if unexpected:
        raise _damaged(connection, unexpected[0])
    meta = connection.meta()
    last = connection.execute(LAST_ID).fetchone()
    link = None if last is None else _checked_link(connection, last[0])
    ends = (0, "") if link is None else (link.id, link.digest)
    if meta.get(HEAD) != head_of(meta, *ends):
        raise _damaged(connection, "its entries or terms are not as they were left")
    chain = Chain(link, dict(connection.execute(COUNTS).fetchall()))
    if counts_digest(chain.counts) != chain.totals.counts:
        raise _damaged(connection, "its counts of mechanisms were changed")
    return chain


def _checked_link(connection: Connection, number: int) -> Link:
    """Return the end of the chain at an entry, after checking its digest."""
    *row, digest = connection.execute(LINK, (number,)).fetchone()
    before = connection.execute(_DIGEST, (number - 1,)).fetchone()
    curves = connection.execute(_CURVES, (number,)).fetchall()
    if (before is None) != (number == 1) or digest != digest_of(
        "" if before is None else before[0], row, curves
    ):
        raise _damaged(connection, f"entry {number} is not as it was entered")
    return Link(number, row[-1], digest)


def seal(connection: Connection) -> None:
    """Store a digest of the terms and of the end of the chain."""
    last = connection.execute(LAST_ID).fetchone()
    number = 0 if last is None else last[0]
    digest = connection.execute(_DIGEST, (number,)).fetchone()
    end = "" if digest is None else digest[0]
    connection.set_meta(HEAD, head_of(connection.meta(), number, end))


def streams_seal(connection: Connection) -> str:
    """Return a digest of the positions of all streams."""
    rows = connection.execute("SELECT id, position FROM streams").fetchall()
    return seal_of_streams(rows)


def _damaged(connection: Connection, fault: str) -> LedgerError:
    return LedgerError(
        f"the ledger {connection.path} is damaged: {fault}. Nothing was charged; put a "
        "backup in its place. `skdpspectral-ledger check` lists what is wrong"
    )


def all_entries(connection: Connection) -> list[dict[str, Any]]:
    """Return all entries of a ledger, oldest first."""
    rows = connection.execute("SELECT * FROM entries ORDER BY id")
    names = [column[0] for column in rows.description]
    # Equal plans are one text in memory.
    texts: dict[Any, Any] = {}
    return [
        {
            name: texts.setdefault(value, value) if name == "plan" else value
            for name, value in zip(names, row, strict=True)
            if name != "digest"
        }
        for row in rows
    ]


# The first that was released. Those up to 5 were of development versions, whose budgets
# may have had other rules.
SCHEMA_VERSION = 6

TABLES = frozenset({"meta", "entries", "curves", "streams", "counts"})

INDICES = {
    "asserted_blocks": "entries (partition, block) WHERE asserted = 1",
    "asserted_partitions": "entries (partition, id) WHERE asserted = 1",
    "curves_of_entries": "curves (entry)",
}

_META_KEYS = frozenset(
    {
        *("ledger_id", "epsilon", "delta", "unit", "neighbors"),
        *(FAILURES, PURE, STREAMS_SEAL),
    }
)


def first_terms(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of a new ledger, without the seal of its entries."""
    return {"ledger_id": new_name(), STREAMS_SEAL: seal_of_streams(()), **terms}


def check_version(version: Any, path: Path | str) -> None:
    """Refuse every schema but that of this release."""
    if version == SCHEMA_VERSION:
        return
    remedy = "begin another ledger, and enter what this one has spent"
    if isinstance(version, int) and version > SCHEMA_VERSION:
        remedy = "update skdpspectral"
    raise LedgerError(
        f"the ledger {path} has schema version {version}, but this release only reads "
        f"version {SCHEMA_VERSION}; it was left as is, and nothing was charged: "
        f"{remedy}"
    )


def check_terms(meta: dict[str, Any], path: Path | str) -> dict[str, Any]:
    """Refuse terms that lack some."""
    if not meta.keys() >= _META_KEYS:
        # A lost budget must not pass for no budget.
        missing = sorted(_META_KEYS - meta.keys())
        raise LedgerError(f"the ledger {path} is damaged: it lost {missing}")
    return meta


def differences(wanted: set[Any], found: set[Any]) -> list[str]:
    """List missing and unexpected tables, indices, views and triggers."""
    more = sorted(o for o in found - wanted if not str(o[1]).startswith("sqlite_"))
    said = [
        f"{kind} {name!r} of {table!r} is not part of a ledger"
        for kind, name, table in more
    ]
    return said + [f"{o[0]} {o[1]!r} is missing" for o in sorted(wanted - found)]


def not_writable(path: Path | str) -> LedgerError:
    """Return the error for a ledger that is read-only."""
    return LedgerError(
        f"the ledger {path} can't be written by this user, who may only read it; "
        "nothing was charged"
    )


# -- what this process has seen of a ledger --------------------------------------------


class Mark(NamedTuple):
    """The state of a ledger: number of writes, and the last entry."""

    generation: int
    entry: tuple[Any, ...] | None


_LAST_ENTRY = "SELECT id, partition, time FROM entries ORDER BY id DESC LIMIT 1"
_ENTRY = "SELECT id, partition, time FROM entries WHERE id = ?"
_GENERATION = "SELECT value FROM meta WHERE key = 'generation'"

# By the identity of the ledger, for all handles of this process: pickles of a handle
# must not change with what was spent.
_seen: dict[str, Mark] = {}


def count_write(connection: Connection) -> Mark:
    """Count a write, in the transaction that makes it."""
    connection.set_meta("generation", _generation(connection) + 1)
    seal(connection)
    return _mark(connection)


def _mark(connection: Connection) -> Mark:
    """Return the state of a ledger."""
    entry = connection.execute(_LAST_ENTRY).fetchone()
    return Mark(_generation(connection), entry)


def _generation(connection: Connection) -> int:
    found = connection.execute(_GENERATION).fetchone()
    if found is None:
        return 0
    if not isinstance(found[0], int):
        raise LedgerError(
            f"the ledger {connection.path} is damaged: its generation is not a number"
        )
    return found[0]


def check_identity(connection: Connection, ledger_id: str | None) -> str:
    """Return a ledger's id; refuse other ledgers and outdated copies."""
    found: str = connection.meta()["ledger_id"]
    if ledger_id not in (None, found):
        raise LedgerError(
            f"{connection.path} now holds a different ledger from the one that this "
            "accountant was created for"
        )
    now, seen = _mark(connection), _seen.get(found)
    if seen is not None:
        entry = seen.entry and connection.execute(_ENTRY, seen.entry[:1]).fetchone()
        if now.generation < seen.generation or entry != seen.entry:
            raise LedgerError(
                f"the ledger {connection.path} lacks changes that this process has "
                "seen in it: it was replaced by an older copy, or another copy is in "
                "use elsewhere. Put the newest file back; releases that a copy lacks "
                "were charged nevertheless"
            )
    remember(found, now)
    return found


def remember(ledger_id: str, mark: Mark) -> None:
    """Note the state of a ledger after it was written to disk."""
    seen = _seen.get(ledger_id)
    if seen is None or seen.generation <= mark.generation:
        _seen[ledger_id] = mark


def forget(ledger_id: str) -> None:
    """Forget the state of a deleted ledger."""
    _seen.pop(ledger_id, None)
