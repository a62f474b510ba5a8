"""The server of ledgers that tests of a module share."""

import pytest


@pytest.fixture(scope="module")
def server():
    """Yield a running server."""
    from ledger_server import LedgerServer

    found = LedgerServer()
    try:
        yield found.start()
    finally:
        found.stop()
