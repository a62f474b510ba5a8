"""What a ledger must be, in a file or on a server: its schema, terms and history.

A ledger of another version of the schema is refused, and never changed: nothing turns
one into another, since what seals a ledger anew would seal what was edited, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import LedgerError
from .budget import FAILURES, PURE, new_name
from .entry_chain import STREAMS_SEAL, Connection, seal, seal_of_streams

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
        f"the ledger {path} has schema version {version}, this release reads version "
        f"{SCHEMA_VERSION} alone; it was left as is, and nothing was charged: {remedy}"
    )


def check_terms(meta: dict[str, Any], path: Path | str) -> dict[str, Any]:
    """Refuse terms that lack some."""
    if not meta.keys() >= _META_KEYS:
        # A lost budget must not pass for no budget.
        missing = sorted(_META_KEYS - meta.keys())
        raise LedgerError(f"the ledger {path} is damaged: it lost {missing}")
    return meta


def differences(wanted: set[Any], found: set[Any]) -> list[str]:
    """Say which tables, indices, views and triggers are too many or too few."""
    more = sorted(o for o in found - wanted if not str(o[1]).startswith("sqlite_"))
    said = [
        f"{kind} {name!r} of {table!r} is not part of a ledger"
        for kind, name, table in more
    ]
    return said + [f"{o[0]} {o[1]!r} is missing" for o in sorted(wanted - found)]


def not_writable(path: Path | str) -> LedgerError:
    """Say that a ledger can only be read."""
    return LedgerError(
        f"the ledger {path} can't be written by this user, who may only read it; "
        "nothing was charged"
    )


# -- what this process has seen of a ledger --------------------------------------------


class Mark(NamedTuple):
    """How far a ledger has come: writes so far, and the last entry."""

    generation: int
    entry: tuple[Any, ...] | None


_LAST_ENTRY = "SELECT id, partition, time FROM entries ORDER BY id DESC LIMIT 1"
_ENTRY = "SELECT id, partition, time FROM entries WHERE id = ?"
_GENERATION = "SELECT value FROM meta WHERE key = 'generation'"

# By the identity of the ledger, for all handles of this process: pickles of a handle
# must not change with what was spent.
_seen: dict[str, Mark] = {}


def count_write(connection: Connection) -> Mark:
    """Move a ledger on, in the transaction that changes something else in it."""
    connection.set_meta("generation", _generation(connection) + 1)
    seal(connection)
    return _mark(connection)


def _mark(connection: Connection) -> Mark:
    """Return how far a ledger has come."""
    entry = connection.execute(_LAST_ENTRY).fetchone()
    return Mark(_generation(connection), entry)


def _generation(connection: Connection) -> int:
    found = connection.execute(_GENERATION).fetchone()
    if found is None:
        return 0
    if not isinstance(found[0], int):
        raise LedgerError(
            f"the ledger {connection.path} is damaged: its generation is no number"
        )
    return found[0]


def check_identity(connection: Connection, ledger_id: str | None) -> str:
    """Return a ledger's identity; refuse another one, and what lacks what was seen."""
    found: str = connection.meta()["ledger_id"]
    if ledger_id not in (None, found):
        raise LedgerError(
            f"{connection.path} now holds another ledger than the one that this "
            "accountant was made for"
        )
    now, seen = _mark(connection), _seen.get(found)
    if seen is not None:
        entry = seen.entry and connection.execute(_ENTRY, seen.entry[:1]).fetchone()
        if now.generation < seen.generation or entry != seen.entry:
            raise LedgerError(
                f"the ledger {connection.path} lacks what this process has seen in it: "
                "an older copy was put in its place, or another copy is in use "
                "elsewhere. Put the newest file back; what a copy lacks was spent all "
                "the same"
            )
    remember(found, now)
    return found


def remember(ledger_id: str, mark: Mark) -> None:
    """Note how far a ledger has come, once that is on the disk."""
    seen = _seen.get(ledger_id)
    if seen is None or seen.generation <= mark.generation:
        _seen[ledger_id] = mark


def forget(ledger_id: str) -> None:
    """Know nothing of a ledger that is gone."""
    _seen.pop(ledger_id, None)
