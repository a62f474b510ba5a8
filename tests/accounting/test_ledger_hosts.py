"""joblib's fits on a dask cluster of other hosts: one ledger, or no fit at all."""

import os
from collections import Counter
from pathlib import Path

import joblib
import pytest
from cluster_hosts import other_hosts
from cluster_tools import quiet
from ledger_tools import FORMS, X, budget_of_fits, charging, entries

from skdpspectral import DPPCA, LedgerError, PrivacyBudgetError

pytestmark = pytest.mark.slow

FITS, PAID = 8, 3


class Watched:
    """Rows of which each slice that is read leaves a mark in the working directory."""

    shape, dtype = X.shape, X.dtype

    def __getitem__(self, rows):
        Path("read").touch()
        return X[rows]


def try_to_fit(pca):
    """Try one of several fits at once: say who, what came of it, and what was read."""
    Path("read").unlink(missing_ok=True)
    try:
        outcome = "fitted" if len(pca.fit(Watched()).components_) else "neither"
    except (LedgerError, PrivacyBudgetError) as error:
        outcome = f"{type(error).__name__}: {error}"
    return os.getcwd(), outcome, Path("read").exists()


def files_below(folder):
    """Return all files in a folder, and whether each is a database."""
    found = [path for path in Path(folder).rglob("*") if path.is_file()]
    return [(str(path), path.read_bytes()[:15] == b"SQLite format 3") for path in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder that the workers do not see."""
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def client(folder, tmp_path_factory):
    """Yield a client of two workers, each as on a host of its own."""
    homes = [tmp_path_factory.mktemp("host") / name for name in ("one", "two")]
    with quiet(), other_hosts(folder, homes) as client:
        yield client


def fits_at_once(form, path):
    """Fits that two workers race with: the ledger, and what came of each."""
    with (
        charging(form, *budget_of_fits(PAID), path=path) as (accountant, pca),
        joblib.parallel_config("dask"),
    ):
        fits = (joblib.delayed(try_to_fit)(pca) for _ in range(FITS))
        found = joblib.Parallel(batch_size=1)(fits)
    assert len({host for host, *_ in found}) == 2
    return accountant, found


@pytest.mark.parametrize("form", FORMS)
def test_workers_without_the_file_read_nothing_and_begin_no_ledger(
    client, folder, form
):
    accountant, found = fits_at_once(form, folder / f"{form}.db")
    for _, outcome, read in found:
        assert outcome.startswith("LedgerError: there is no ledger at")
        assert "on a server" in outcome
        assert not read
    assert list(client.run(files_below, str(folder)).values()) == [[], []]
    for files in client.run(files_below, ".").values():
        assert len(files) > 0  # their logs, at least
        assert not any(is_database for _, is_database in files)
    # It was there all the time, for this process.
    assert entries(accountant) == []
    DPPCA(1, accountant=accountant).fit(X)
    assert len(entries(accountant)) == 1


@pytest.mark.parametrize("form", FORMS)
def test_workers_of_two_hosts_race_for_a_budget_on_a_server(client, server, form):
    accountant, found = fits_at_once(form, server.new_database())
    outcomes = Counter(outcome.partition(":")[0] for _, outcome, _ in found)
    assert outcomes == {"fitted": PAID, "PrivacyBudgetError": FITS - PAID}
    # Whoever was refused has read nothing.
    assert all(read == (outcome == "fitted") for _, outcome, read in found)
    assert len(entries(accountant)) == PAID
    with pytest.raises(PrivacyBudgetError):
        DPPCA(1, accountant=accountant).fit(X)
