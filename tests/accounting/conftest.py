"""The server of ledgers that tests of a module share."""

import pytest


@pytest.fixture(scope="module")
def server():
    from ledger_server import running_server

    with running_server() as found:
        yield found
