"""Every fit is recorded once, wherever it runs and however it ends."""

import contextlib
import copy
import multiprocessing
import pickle
import threading
import warnings
from collections import Counter

import joblib
import numpy as np
import pytest
from ledger_tools import (
    DELTA,
    FORMS,
    MU,
    X,
    budget_of_fits,
    charge_from_threads,
    charging,
    classifier,
    entries,
    fit_plan,
    ignore_fork_warning,
    in_processes,
    needs_fork,
    race_for_budget,
    run_python,
    y,
)
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import FeatureUnion

from skdpspectral import DPPCA, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import LedgerError, gaussian_epsilon
from skdpspectral.accounting._ledger import store

pytestmark = pytest.mark.slow

GRID = {"pca__n_components": [1, 2]}  # with 3 folds and the refit: 7 fits
BACKENDS = ["sequential", "loky", "threading", "multiprocessing"]


@contextlib.contextmanager
def backend(name):
    """Open a joblib backend of two workers; yield the ``n_jobs`` to ask for."""
    if name == "sequential":
        yield 1
    else:
        with joblib.parallel_config(name, n_jobs=2):
            yield 2


# -- scikit-learn's meta-estimators --------------------------------------------


@pytest.mark.slow
@ignore_fork_warning
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BACKENDS)
def test_grid_search_records_every_fit(name, form):
    with charging(form) as (accountant, pca), backend(name) as n_jobs:
        GridSearchCV(classifier(pca), GRID, cv=3, n_jobs=n_jobs).fit(X, y)
        found = entries(accountant)
    assert len(found) == 7
    assert len({entry["partition"] for entry in found}) == 7
    expected = gaussian_epsilon(7**0.5 * MU, DELTA)
    assert accountant.spent().epsilon == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_n_jobs_alone_records_every_fit(form):
    with charging(form) as (accountant, pca):
        GridSearchCV(classifier(pca), GRID, cv=3, n_jobs=2).fit(X, y)
    assert len(entries(accountant)) == 7


def nested_search(pca, folder):
    search = GridSearchCV(classifier(pca), GRID, cv=3, n_jobs=2)
    cross_val_score(search, X, y, cv=2, n_jobs=2)


# A meta-estimator that clones within its workers, and how often it fits.
META_ESTIMATORS = {
    "bagging": (
        5,
        lambda pca, folder: BaggingClassifier(
            classifier(pca), n_estimators=5, n_jobs=2
        ).fit(X, y),
    ),
    "column transformer": (
        2,
        lambda pca, folder: ColumnTransformer(
            [("first", pca, [0, 1]), ("second", pca, [2, 3])], n_jobs=2
        ).fit(X),
    ),
    "feature union": (
        2,
        lambda pca, folder: FeatureUnion([("a", pca), ("b", pca)], n_jobs=2).fit(X),
    ),
    "nested search": (14, nested_search),
    "cross_val_score": (
        4,
        lambda pca, folder: cross_val_score(classifier(pca), X, y, cv=4, n_jobs=2),
    ),
    "search with memory": (
        7,
        lambda pca, folder: GridSearchCV(
            classifier(pca, memory=str(folder)), GRID, cv=3, n_jobs=2
        ).fit(X, y),
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", META_ESTIMATORS)
def test_clones_made_in_workers_are_recorded(name, form, tmp_path):
    fits, run = META_ESTIMATORS[name]
    with charging(form) as (accountant, pca):
        run(pca, tmp_path)
    assert len(entries(accountant)) == fits


@pytest.mark.parametrize("form", FORMS)
def test_a_cached_fit_is_no_new_release(form, tmp_path):
    """Only the classifier varies: three folds and a refit, whatever the grid."""
    grid = {"classify__C": [0.1, 1.0, 10.0]}
    with charging(form) as (accountant, pca):
        pipeline = classifier(pca, memory=str(tmp_path))
        GridSearchCV(pipeline, grid, cv=3).fit(X, y)
        assert len(entries(accountant)) == 4
        pipeline.fit(X, y)
    assert len(entries(accountant)) == 4


def test_returned_estimators_keep_the_ledger():
    accountant = PrivacyAccountant(*budget_of_fits(4))
    pipeline = classifier(DPPCA(1, accountant=accountant.named("search")))
    result = cross_validate(pipeline, X, y, cv=3, return_estimator=True, n_jobs=2)
    assert [entry["label"] for entry in entries(accountant)] == ["search"] * 3
    first, second, _ = result["estimator"]
    assert first.predict(X).shape == (60,)
    first.fit(X, y)
    with pytest.raises(PrivacyBudgetError):
        second.fit(X, y)
    assert len(entries(accountant)) == 4


@pytest.mark.parametrize("form", FORMS)
def test_a_search_never_exceeds_the_budget(form):
    with charging(form, *budget_of_fits(3)) as (accountant, pca):
        search = GridSearchCV(
            classifier(pca), GRID, cv=3, n_jobs=2, error_score="raise"
        )
        with pytest.raises(PrivacyBudgetError) as caught:
            search.fit(X, y)
        assert caught.value.requested == pytest.approx(1.0, rel=1e-9)
        assert caught.value.remaining < 1e-3
        assert "nothing was charged" in str(caught.value)
        assert len(entries(accountant)) == 3


def test_budget_errors_turn_into_missing_scores():
    accountant = PrivacyAccountant(*budget_of_fits(2))
    pca = DPPCA(1, accountant=accountant)
    with pytest.warns(FitFailedWarning, match="PrivacyBudgetError"):
        scores = cross_val_score(classifier(pca), X, y, cv=3)
    assert np.isnan(scores).tolist() == [False, False, True]
    assert len(entries(accountant)) == 2


# -- with blocks and worker processes ------------------------------------------


@ignore_fork_warning
@needs_fork
def test_workers_forked_in_another_block_charge_the_sender():
    """The block that an estimator was sent from wins over one that was inherited."""
    outer, inner = PrivacyAccountant(), PrivacyAccountant(*budget_of_fits(1))
    with outer, multiprocessing.get_context("fork").Pool(1) as pool:
        with inner:
            pool.apply(DPPCA(1).fit, (X,))
            with pytest.raises(PrivacyBudgetError):
                pool.apply(DPPCA(1).fit, (X,))
        counts = len(entries(outer)), len(entries(inner))
        assert counts == (0, 1)
        pool.apply(DPPCA(1).fit, (X,))
        assert len(entries(outer)) == 1


@pytest.mark.parametrize("how", ["deepcopy", "worker"])
def test_the_block_ends_for_copies_too(how):
    """Like the estimator itself, a copy made in the block is free after it."""
    with PrivacyAccountant() as accountant:
        if how == "deepcopy":
            pca, fits = copy.deepcopy(DPPCA(1)), 0
        else:
            run = {"cv": 3, "return_estimator": True, "n_jobs": 2}
            result = cross_validate(classifier(DPPCA(1)), X, y, **run)
            pca, fits = result["estimator"][0].named_steps["pca"], 3
    assert len(entries(accountant)) == fits
    pca.fit(X)
    assert len(entries(accountant)) == fits


def test_a_dask_cluster_records_every_fit():
    distributed = pytest.importorskip("dask.distributed")
    options = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of ports, memory and deprecations
        with distributed.Client(processes=True, **options):
            for form in FORMS:
                with charging(form) as (accountant, pca):
                    with joblib.parallel_config("dask"):
                        GridSearchCV(classifier(pca), GRID, cv=3).fit(X, y)
                    assert len(entries(accountant)) == 7


def test_workers_that_do_not_see_the_ledger_fit_nothing(tmp_path):
    """As on another host: no fit goes by without a charge, and no ledger is made."""
    distributed = pytest.importorskip("dask.distributed")
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    accountant = PrivacyAccountant(path=home / "ledger.db")
    model = pickle.dumps(DPPCA(1, accountant=accountant))
    home.rename(away)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of ports, memory and deprecations
        options = {"n_workers": 1, "processes": False, "dashboard_address": None}
        with distributed.Client(**options) as client:
            fit = client.submit(lambda model: pickle.loads(model).fit(X), model)
            error = fit.exception()
    assert isinstance(error, LedgerError)
    assert "on a server" in str(error)
    assert not home.exists()
    away.rename(home)
    assert len(accountant.ledger) == 0


# -- races ---------------------------------------------------------------------


def test_eight_processes_race_for_five_fits():
    accountant = PrivacyAccountant(*budget_of_fits(5))
    outcomes = Counter(in_processes(race_for_budget, 8, accountant))
    assert outcomes == {"fitted": 5, "refused": 3}
    assert len(entries(accountant)) == 5
    assert accountant.privacy_curve([accountant.epsilon])[0] <= accountant.delta


def test_processes_with_threads_lose_no_entry():
    """No two handles of one process may disturb each other's file locks."""
    accountant = PrivacyAccountant()
    outcomes = in_processes(charge_from_threads, 3, accountant, 3, 40)
    assert [message for _, messages in outcomes for message in messages] == []
    assert len(entries(accountant)) == 3 * 3 * 40
    assert sum(count for count, _ in outcomes) == 3 * 3 * 40


TRY_TO_WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0.1, isolation_level=None)
print(connection.execute("SELECT count(*) FROM entries").fetchone()[0])
try:
    connection.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_a_reading_thread_leaves_the_write_lock_alone(tmp_path):
    """Closing any descriptor of a file drops a process's POSIX locks on it."""
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    reader = threading.Thread(target=lambda: accountant.ledger)
    with store.transaction(accountant.path) as locked:
        row, _, sums = accountant._entered(fit_plan(), 1, locked.terms, locked.sums)
        locked.append(row, sums)
        reader.start()
        reader.join(1.0)
        assert run_python(TRY_TO_WRITE, accountant.path) == ["0", "database is locked"]
    reader.join()
    assert run_python(TRY_TO_WRITE, accountant.path) == ["1", "free"]
