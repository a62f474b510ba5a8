"""Packages that only some ledgers need, and errors that name them."""

from __future__ import annotations

import importlib
from typing import Any


def psycopg() -> Any:
    """Return the client of PostgreSQL, or say how to install it."""
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        raise ImportError(
            "a ledger at postgresql://... needs psycopg 3: "
            "pip install 'skdpspectral[postgres]'"
        ) from error


def dp_accounting() -> Any:
    """Return Google's ``dp_accounting``, or say how to install it."""
    try:
        return importlib.import_module("dp_accounting")
    except ImportError as error:
        raise ImportError(
            "this ledger has entries that are no Gaussian mechanisms; their exact "
            "composition needs dp-accounting: pip install 'skdpspectral[subsampling]'"
        ) from error
