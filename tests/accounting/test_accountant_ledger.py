"""The ledger's file: one identity for all handles, and nothing overwritten."""

import contextlib
import copy
import gc
import pickle
import sqlite3
from datetime import datetime, timedelta, timezone
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pytest
from ledger_tools import DELTA, X, entries, fit_plan, in_processes, open_at_once
from sklearn.base import clone

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting._ledger.costs import LedgerEntry
from skdpspectral.mechanisms import Neighbors, PrivacyPlan, Unit

COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda accountant: pickle.loads(pickle.dumps(accountant)),
    "cloudpickle": lambda accountant: pickle.loads(cloudpickle.dumps(accountant)),
    "named": lambda accountant: accountant.named("label"),
    "path": lambda accountant: PrivacyAccountant(path=accountant.path),
    "clone": lambda accountant: clone(DPPCA(accountant=accountant)).accountant,
}


@pytest.fixture
def ledger_path(tmp_path):
    """Return the path of a ledger that holds twelve entries, over several pages."""
    path = tmp_path / "ledger.db"
    accountant = PrivacyAccountant(path=path)
    for _ in range(12):
        accountant.charge(fit_plan(0.1))
    return path


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def assert_refused(path, match, **parameters):
    """Opening raises and leaves every file of the folder as it was."""
    before = contents(path.parent)
    with pytest.raises(LedgerError, match=match) as caught:
        PrivacyAccountant(path=path, **parameters)
    assert str(path) in str(caught.value)
    assert contents(path.parent) == before


# -- identity ------------------------------------------------------------------


@pytest.mark.parametrize("how", COPIES)
def test_copies_share_ledger_and_budget(how):
    accountant = PrivacyAccountant(1.4547, DELTA, failures=0)
    other = COPIES[how](accountant)
    assert (other.epsilon, other.delta) == (1.4547, DELTA)
    other.charge(fit_plan())
    assert len(entries(accountant)) == 1
    accountant.charge(fit_plan())
    with pytest.raises(PrivacyBudgetError):
        other.charge(fit_plan(0.1))
    assert entries(other) == entries(accountant)
    assert other.spent() == accountant.spent()


def test_hash_does_not_change_with_spending():
    accountant = PrivacyAccountant(5.0, DELTA)
    pca = DPPCA(1, accountant=accountant)
    before = joblib.hash(accountant), joblib.hash(pca)
    accountant.charge(fit_plan())
    assert (joblib.hash(accountant), joblib.hash(pca)) == before
    assert joblib.hash(COPIES["pickle"](accountant)) == before[0]
    assert joblib.hash(PrivacyAccountant(5.0, DELTA)) != before[0]
    # Common checks compare an estimator's state before and after use.
    state = pickle.dumps(accountant)
    accountant.charge(fit_plan())
    assert pickle.dumps(accountant) == state


@pytest.mark.slow
def test_a_temporary_ledger_ends_with_its_last_handle():
    accountant = PrivacyAccountant()
    named = accountant.named("label")
    folder = Path(accountant.path).parent
    del accountant
    gc.collect()
    named.charge(fit_plan())
    assert len(entries(named)) == 1
    del named
    gc.collect()
    assert not folder.exists()


def test_unpickled_handles_never_create_a_ledger():
    accountant = PrivacyAccountant(3.0, DELTA)
    pca = DPPCA(1, accountant=accountant).fit(X)
    expected, saved, folder = pca.transform(X), pickle.dumps(pca), accountant.path
    del accountant, pca
    gc.collect()
    pca = pickle.loads(saved)
    before = {name: id(value) for name, value in vars(pca).items()}
    np.testing.assert_array_equal(pca.transform(X), expected)
    with pytest.raises(LedgerError, match=r"no ledger at .* never creates"):
        pca.fit(X)
    with pytest.raises(LedgerError, match="no ledger"):
        pca.accountant.spent()
    assert {name: id(value) for name, value in vars(pca).items()} == before
    np.testing.assert_array_equal(pca.transform(X), expected)
    assert not Path(folder).parent.exists()


# -- opening a path ------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain.db", "odd ?#% näme", ":memory:", "x.db-wal"])
def test_handles_by_path_share(tmp_path, monkeypatch, name):
    first = PrivacyAccountant(2.0, DELTA, path=tmp_path / name)
    monkeypatch.chdir(tmp_path)
    relative = PrivacyAccountant(2.0, DELTA, path=name)
    (tmp_path / "link").symlink_to(tmp_path / name)
    linked = PrivacyAccountant(path=str(tmp_path / "link"))
    for handle in (first, relative, linked):
        handle.charge(fit_plan(0.1))
    monkeypatch.chdir("/")
    assert [len(entries(handle)) for handle in (first, relative, linked)] == [3] * 3
    expected = sorted(["link", name, f"{name}-lock"])
    assert sorted(file.name for file in tmp_path.iterdir()) == expected


@pytest.mark.slow
def test_simultaneous_creation_gives_one_ledger(tmp_path):
    identities = in_processes(open_at_once, 6, tmp_path / "ledger.db")
    assert len(set(identities)) == 1
    accountant = PrivacyAccountant(2.0, DELTA, path=tmp_path / "ledger.db")
    assert len(entries(accountant)) == 6
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["ledger.db", "ledger.db-lock"]


ROWS = {"unit": "row", "neighbors": "replace-one"}


def test_other_terms_are_refused(tmp_path):
    path, free, first = (tmp_path / name for name in ("a.db", "b.db", "c.db"))
    PrivacyAccountant(2.0, DELTA, path=path, **ROWS)
    PrivacyAccountant(path=free)
    PrivacyAccountant(path=first).charge(fit_plan())  # which fixes the relation
    for place, terms in (
        (path, {"epsilon": 2.5, "delta": DELTA}),
        (path, {"epsilon": 1.5, "delta": DELTA}),
        (path, {"epsilon": 2.0, "delta": 1e-7}),
        (path, {"unit": "user", "neighbors": "replace-one"}),
        (free, {"epsilon": 2.0}),
        (first, {"unit": "row", "neighbors": "add-remove-one"}),
    ):
        with pytest.raises(LedgerError, match=r"has (epsilon|delta|unit|neighbors)="):
            PrivacyAccountant(path=place, **terms)
    assert PrivacyAccountant(2, path=path, **ROWS).epsilon == 2.0
    PrivacyAccountant(path=first, **ROWS)


BAD_BUDGETS = [
    {"epsilon": 0.0},
    {"epsilon": -1.0},
    {"epsilon": float("inf")},
    {"epsilon": float("nan")},
    {"epsilon": True},
    {"epsilon": "1"},
    {"epsilon": "ledger.db"},
    {"epsilon": 1.1e9},
    {"epsilon": 1e308},
    {"epsilon": 1.0, "delta": 0.0},
    {"epsilon": 1.0, "delta": 1.0},
    {"epsilon": 1.0, "delta": 1e-16},
    {"delta": 1e-6},
    {"unit": "row"},
    {"neighbors": "replace-one"},
    {"unit": "person", "neighbors": "replace-one"},
    {"unit": "row", "neighbors": "swap"},
]


@pytest.mark.parametrize("parameters", BAD_BUDGETS, ids=str)
def test_bad_parameters_create_nothing(tmp_path, parameters):
    with pytest.raises(ValueError, match=r"epsilon|delta|unit|neighbors"):
        PrivacyAccountant(**parameters, path=tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


# -- files that are no ledgers -------------------------------------------------


def test_foreign_files_are_refused_untouched(tmp_path):
    path = tmp_path / "file"
    for text in (b"", b"x", b"some notes " * 1000, b"SQLite format 3\x00" + b"\0" * 9):
        path.write_bytes(text)
        assert_refused(path, "is not a privacy ledger")
        assert_refused(path, "is not a privacy ledger", epsilon=1.0)
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    assert_refused(path, "is not a privacy ledger")


@pytest.mark.parametrize("kept", [50, 4096, 0.5, 0.99])
def test_truncated_ledgers_are_refused(ledger_path, kept):
    accountant, whole = PrivacyAccountant(path=ledger_path), ledger_path.read_bytes()
    ledger_path.write_bytes(whole[: kept if kept > 1 else int(kept * len(whole))])
    assert_refused(ledger_path, "truncated|can't be used|not a privacy ledger")
    with pytest.raises(LedgerError, match=r"truncated|can't be used|not a privacy"):
        accountant.charge(fit_plan())
    ledger_path.write_bytes(whole)
    accountant.charge(fit_plan())
    assert len(entries(accountant)) == 13


@pytest.mark.parametrize("filling", [b"\x00", b"\xff"])
def test_corrupted_pages_are_refused(ledger_path, filling):
    whole = ledger_path.read_bytes()
    assert len(whole) >= 4 * 4096
    for start in range(0, len(whole), 4096):
        page = whole[:100] if start == 0 else b""
        page += filling * (4096 - len(page))
        ledger_path.write_bytes(whole[:start] + page + whole[start + 4096 :])
        assert_refused(ledger_path, "damaged|can't be used")


def test_another_ledger_in_its_place_is_refused(tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    PrivacyAccountant(path=tmp_path / "new.db")
    (tmp_path / "new.db").replace(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="a different ledger"):
        accountant.charge(fit_plan())
    assert len(entries(PrivacyAccountant(path=tmp_path / "ledger.db"))) == 0


def test_paths_that_cannot_be_ledgers(tmp_path):
    with pytest.raises(LedgerError, match="no ledger at"):
        PrivacyAccountant(path=tmp_path)
    with pytest.raises(LedgerError, match=r"missing does not exist"):
        PrivacyAccountant(path=tmp_path / "missing" / "ledger.db")
    (tmp_path / "file").write_text("notes")
    with pytest.raises(LedgerError, match="file does not exist"):
        PrivacyAccountant(path=tmp_path / "file" / "ledger.db")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(LedgerError, match="no ledger at"):
        PrivacyAccountant(path=tmp_path / "dangling")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dangling", "file"]


def test_a_journal_that_was_left_behind_is_no_place_for_a_ledger_or_a_backup(tmp_path):
    path = tmp_path / "ledger.db"
    (tmp_path / "ledger.db-journal").write_bytes(b"what is left")
    for make in (lambda: PrivacyAccountant(path=path), PrivacyAccountant().backup):
        with pytest.raises(LedgerError, match="left over from another ledger"):
            make(*[path] * (make.__name__ == "backup"))
    assert not path.exists()


# -- the ledger as a table -----------------------------------------------------


def test_ledger_as_a_table():
    accountant = PrivacyAccountant()
    assert accountant.ledger == ()
    before = datetime.now(timezone.utc)
    plans = [fit_plan(0.5), fit_plan(2.0, bounds=(0, 1))]
    accountant.charge(plans[0])
    accountant.named("second").charge(plans[1])
    entries = accountant.ledger
    assert [type(entry) for entry in entries] == [LedgerEntry] * 2
    first, second = entries
    assert before <= first.time <= second.time <= datetime.now(timezone.utc)
    assert first.time.utcoffset() == timedelta(0)
    assert (first.label, second.label) == (None, "second")
    assert first.seeded is False
    assert first.unit is Unit.ROW
    assert first.neighbors is Neighbors.REPLACE_ONE
    assert [PrivacyPlan.from_json(entry.plan) for entry in entries] == plans
    assert pickle.loads(pickle.dumps(entries)) == entries
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(entries)
    assert tuple(table.columns) == LedgerEntry._fields
    assert str(table["time"].dt.tz) == "UTC"
    assert table["epsilon"].tolist() == [0.5, 2.0]
    assert table["mu"].tolist() == [plan.mu for plan in plans]
    assert table["ledger_mu"].tolist() == table["mu"].tolist()
