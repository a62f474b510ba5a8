"""Objects that statements are about, made once."""

import warnings

import pytest
from statement_tools import all_kinds


@pytest.fixture(scope="session")
def kinds():
    """Return fitted objects and ledgers of all kinds, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(all_kinds())
