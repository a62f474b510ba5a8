"""The tables of a ledger on a PostgreSQL server, and how to come to it."""

from __future__ import annotations

from typing import Any

from ._errors import LedgerError
from ._extra import psycopg
from ._ledger_schema import SCHEMA_VERSION
from ._parts import new_name

PREFIXES = ("postgresql://", "postgres://")
# Of all ledgers of a database, of which there is one: "SKDP" and "LEDG".
_LOCK = 0x534B4450_4C454447
_CONNECT_SECONDS = 10

HAS_LEDGER = "SELECT to_regclass('skdpspectral.meta') IS NOT NULL"
SET_META = (
    "INSERT INTO meta VALUES (?, ?::jsonb) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_ENTRIES = {
    "id": "BIGINT PRIMARY KEY",
    "time": "DOUBLE PRECISION NOT NULL",
    "estimator": "TEXT NOT NULL",
    "label": "TEXT",
    "partition": "TEXT NOT NULL",
    "block": "TEXT NOT NULL",
    "asserted": "INTEGER NOT NULL",
    "epsilon": "DOUBLE PRECISION NOT NULL",
    "delta": "DOUBLE PRECISION NOT NULL",
    "mu": "DOUBLE PRECISION NOT NULL",
    "ledger_mu": "DOUBLE PRECISION NOT NULL",
    "failure": "DOUBLE PRECISION NOT NULL",
    "unit": "TEXT NOT NULL",
    "neighbors": "TEXT NOT NULL",
    "assumption": "TEXT NOT NULL",
    "seeded": "INTEGER NOT NULL",
    "plan": "TEXT NOT NULL",
    "kind": "TEXT NOT NULL",
}
SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS skdpspectral",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value JSONB)",
    f"CREATE TABLE entries ({', '.join(f'{k} {v}' for k, v in _ENTRIES.items())})",
    "CREATE TABLE curves "
    "(entry BIGINT NOT NULL, curve TEXT NOT NULL, times BIGINT NOT NULL)",
    "CREATE TABLE streams (id TEXT PRIMARY KEY, position BIGINT)",
)


def is_address(path: object) -> bool:
    """Whether a path is the address of a server."""
    return isinstance(path, str) and path.startswith(PREFIXES)


def check_address(path: str) -> str:
    """Return an address, or an error that says what is wrong with it."""
    lib = psycopg()
    try:
        parts = lib.conninfo.conninfo_to_dict(path)
    except lib.Error:
        raise ValueError(
            "path must be the address postgresql://user@host:port/database of a "
            "server; what was given can't be read as one"
        ) from None
    if {"password", "sslpassword"} & parts.keys():
        raise ValueError(
            "path must not have a password: it is written into every pickle of the "
            "accountant. Give it by a password file (~/.pgpass), by PGPASSWORD, or "
            "by a service"
        )
    for name in ("host", "hostaddr", "port"):
        if "," in str(parts.get(name, "")):
            raise ValueError(
                f"path must name one server, got several in {name}: charges to one "
                "would be unknown to the others"
            )
    if not parts.get("dbname"):
        raise ValueError("path must name a database: postgresql://user@host/database")
    return path


def connect(path: str) -> Any:
    """Return a new connection, in no transaction."""
    lib = psycopg()
    parts = lib.conninfo.conninfo_to_dict(path)
    parts.setdefault("connect_timeout", _CONNECT_SECONDS)
    parts.setdefault("application_name", "skdpspectral")
    parts["client_encoding"] = "utf8"  # text of servers that know none comes as bytes
    return lib.connect(**parts, autocommit=True)


def begin(database: Any) -> bool:
    """Begin a transaction, and try once to lock the ledger."""
    # One statement after another: each sees what was committed before it, so what
    # follows the lock sees all that its last holder wrote.
    database.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    database.execute("SET LOCAL synchronous_commit = on")
    # Nothing else in the search path: no other schema's table can be meant. Temporary
    # ones come first, unless they are named.
    database.execute("SET LOCAL search_path = skdpspectral, pg_temp")
    # Numbers come back as they were written, whatever the server rounds others to.
    database.execute("SET LOCAL extra_float_digits = 3")
    if database.execute("SHOW fsync").fetchone()[0] != "on":
        raise LedgerError(
            "the server of this ledger runs with fsync = off: what it acknowledges may "
            "be lost; turn it on"
        )
    query = f"SELECT pg_try_advisory_xact_lock({_LOCK})"
    return bool(database.execute(query).fetchone()[0])


def first_terms(terms: dict[str, Any]) -> dict[str, Any]:
    """Return the terms of a new ledger."""
    return {"schema_version": SCHEMA_VERSION, "ledger_id": new_name(), **terms}


def first_line(error: Exception) -> str:
    """Return the first line of a server's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
