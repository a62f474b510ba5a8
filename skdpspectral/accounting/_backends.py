"""Where a ledger lies: in a file of this host, or on a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from . import _ledger_schema as _file
from ._errors import LedgerError
from ._ledger import Ledger
from ._server import ServerLedger
from ._server import create as create_on_server
from ._server_schema import check_address, is_address

AnyLedger: TypeAlias = Ledger | ServerLedger
FilePath = TypeVar("FilePath", bound=str | os.PathLike[str])


def ledger_at(path: str, ledger_id: str | None = None) -> AnyLedger:
    """Return a handle of the ledger at a path or address, which has this identity."""
    if is_address(path):
        return ServerLedger(path, ledger_id)
    return Ledger(path, ledger_id)


def existing_ledger(path: str) -> AnyLedger:
    """Return a handle of a ledger that there is, after a check of it; make none."""
    ledger = ledger_at(check_address(path) if is_address(path) else _no_address(path))
    ledger.meta()
    return ledger


def open_path(path: str | os.PathLike[str], terms: dict[str, Any]) -> str:
    """Return where a ledger lies, for good; make it of these terms if there is none."""
    if isinstance(path, str) and is_address(path):
        address = check_address(path)
        create_on_server(address, terms)
        return address
    file = Path(_no_address(path))
    if not file.exists():
        if not file.parent.is_dir():
            raise LedgerError(f"path: the folder {file.parent} does not exist; make it")
        _file.create(file, terms)
    return str(file.absolute())


def _no_address(path: FilePath) -> FilePath:
    """Return the path of a file; refuse what looks like an address of something."""
    if isinstance(path, str) and "://" in path:  # not quoted: it may have a password
        raise ValueError(
            "path must be a file, or an address that begins with postgresql://"
        )
    return path
