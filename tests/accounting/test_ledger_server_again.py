"""What is asked of ledgers in files, asked again of ledgers on a server."""

import pytest
from ledger_server import ledgers_on
from ledger_tools import needs_fork
from test_accountant_composition import *  # noqa: F403
from test_accountant_crashes import test_kills_at_random_moments_leave_a_valid_ledger  # noqa: F401
from test_accountant_fits import *  # noqa: F403
from test_accountant_forks import *  # noqa: F403
from test_accountant_processes import (
    test_eight_processes_race_for_five_fits,  # noqa: F401
    test_processes_with_threads_lose_no_entry,  # noqa: F401
    test_returned_estimators_keep_the_ledger,  # noqa: F401
)
from test_ledger_budgets import (
    test_a_default_budget_takes_any_mechanism_in_any_order,  # noqa: F401
    test_remaining_is_what_may_be_charged,  # noqa: F401
    test_the_first_entry_says_how_much_epsilon_is_pure,  # noqa: F401
)
from test_ledger_kinds import (
    test_entries_say_what_they_are,  # noqa: F401
    test_equal_mechanisms_are_counted_once,  # noqa: F401
    test_external_spending_joins_fits,  # noqa: F401
    test_guarantees_of_users_who_leave_count_for_replacements,  # noqa: F401
    test_pairs_of_no_delta_at_all,  # noqa: F401
)

pytestmark = [pytest.mark.slow, needs_fork]


@pytest.fixture(autouse=True)
def on_a_server(server):
    """Put all ledgers of a test on it."""
    with ledgers_on(server):
        yield
