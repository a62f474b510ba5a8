"""What is asked of ledgers in files, asked again of ledgers on a server."""

import pytest
from ledger_server import LedgerServer, ledgers_on
from ledger_tools import needs_fork
from test_accountant_composition import *  # noqa: F403
from test_accountant_crashes import (
    test_kills_at_random_moments_leave_a_valid_ledger,  # noqa: F401
)
from test_accountant_fits import *  # noqa: F403
from test_accountant_forks import *  # noqa: F403
from test_accountant_processes import (
    test_eight_processes_race_for_five_fits,  # noqa: F401
    test_n_jobs_alone_records_every_fit,  # noqa: F401
    test_processes_with_threads_lose_no_entry,  # noqa: F401
    test_returned_estimators_keep_the_ledger,  # noqa: F401
)
from test_ledger_kinds import *  # noqa: F403

pytestmark = [pytest.mark.slow, needs_fork]


@pytest.fixture(scope="module")
def server():
    """Yield a running server."""
    found = LedgerServer()
    try:
        yield found.start()
    finally:
        found.stop()


@pytest.fixture(autouse=True)
def on_a_server(server):
    """Put all ledgers of a test on it."""
    with ledgers_on(server):
        yield
