"""Every fit is recorded once, wherever it runs and however it ends."""

import contextlib
import copy
import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import joblib
import numpy as np
import pytest
from ledger_tools import (
    DELTA,
    FORMS,
    X,
    charge_from_threads,
    charging,
    classifier,
    clean_context,
    entries,
    fit_for_ever,
    fit_once,
    fit_plan,
    in_processes,
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
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu

GRID = {"pca__n_components": [1, 2]}  # with 3 folds and the refit: 7 fits
MU = gaussian_mu(1.0, DELTA)
BACKENDS = ["sequential", "loky", "threading", "multiprocessing"]
# Python 3.12 warns of any fork of a process with threads, as joblib's pool does.
ignore_fork_warning = pytest.mark.filterwarnings(
    "ignore:This process .*multi-threaded:DeprecationWarning"
)
needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the system has no fork"
)


def budget_of_fits(count):
    return gaussian_epsilon(count**0.5 * MU, DELTA), DELTA


@contextlib.contextmanager
def backend(name):
    """Open a joblib backend of two workers; yield the ``n_jobs`` to ask for."""
    if name == "sequential":
        yield 1
    else:
        with joblib.parallel_config(name, n_jobs=2):
            yield 2


# -- scikit-learn's meta-estimators --------------------------------------------


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


# -- races ---------------------------------------------------------------------


def test_eight_processes_race_for_five_fits():
    accountant = PrivacyAccountant(*budget_of_fits(5))
    outcomes = Counter(in_processes(race_for_budget, 8, accountant))
    assert outcomes == {"fitted": 5, "refused": 3}
    assert len(entries(accountant)) == 5
    assert accountant.spent().epsilon <= accountant.epsilon


def test_processes_with_threads_lose_no_entry():
    """No two handles of one process may disturb each other's file locks."""
    accountant = PrivacyAccountant()
    outcomes = in_processes(charge_from_threads, 3, accountant, 3, 40)
    assert [message for _, messages in outcomes for message in messages] == []
    assert len(entries(accountant)) == 3 * 3 * 40
    assert sum(count for count, _ in outcomes) == 3 * 3 * 40


TRY_TO_WRITE = """
import sqlite3, sys
from skdpspectral import PrivacyAccountant
print(len(PrivacyAccountant(path=sys.argv[1]).ledger))
connection = sqlite3.connect(sys.argv[1], timeout=0.1, isolation_level=None)
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
    with accountant._ledger().transaction() as transaction:
        accountant._append(transaction, fit_plan(), accountant._own_part())
        reader.start()
        reader.join(1.0)
        assert run_python(TRY_TO_WRITE, accountant.path) == ["0", "database is locked"]
    reader.join()
    assert run_python(TRY_TO_WRITE, accountant.path) == ["1", "free"]


# -- the end of processes ------------------------------------------------------


@ignore_fork_warning
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_children_leave_a_temporary_ledger_alone(method):
    accountant = PrivacyAccountant()
    child = multiprocessing.get_context(method).Process(
        target=fit_once, args=(accountant,)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert len(entries(accountant)) == 1


OWNER = """
import os, sys, pickle
from ledger_tools import fit_once
from skdpspectral import PrivacyAccountant
accountant = PrivacyAccountant()
print(accountant.path, flush=True)
if os.fork() == 0:
    fit_once(accountant)
    del accountant
    sys.exit(0)  # with all of the interpreter's clean-up
assert os.wait()[1] == 0
assert len(accountant.ledger) == 1 and os.path.exists(accountant.path)
"""


@needs_fork
@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del accountant"])
def test_only_the_owner_deletes_a_temporary_ledger(end):
    (path,) = run_python(OWNER + end)
    assert not Path(path).parent.exists()


KILLED_FIT = """
import os, pickle, signal, sys
import skdpspectral._release as release
from skdpspectral import DPPCA, PrivacyAccountant
from ledger_tools import X
accountant = PrivacyAccountant(path=sys.argv[1])
if os.fork() == 0:
    release.Release.__call__ = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    DPPCA(1, accountant=accountant).fit(X)
assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
if os.fork() == 0:
    with accountant._ledger().transaction() as transaction:
        plan = DPPCA(1).privacy_plan(*X.shape)
        accountant._append(transaction, plan, accountant._own_part())
        os.kill(os.getpid(), signal.SIGKILL)
assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
print(len(accountant.ledger))
accountant.charge(DPPCA(1).privacy_plan(*X.shape))
print(len(accountant.ledger))
"""


@needs_fork
def test_kills_before_the_release_and_before_the_commit(tmp_path):
    """The first is charged, the second is not; the lock dies with its process."""
    assert run_python(KILLED_FIT, tmp_path / "ledger.db") == ["1", "2"]
    assert len(entries(PrivacyAccountant(path=tmp_path / "ledger.db"))) == 2


@needs_fork
def test_kills_at_random_moments_leave_a_valid_ledger(tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "ledger.db")
    context, returned = clean_context(), 0
    delays = np.random.default_rng(0).uniform(0.0, 0.08, size=12)
    for kill, delay in enumerate(delays, start=1):
        receiver, sender = os.pipe()
        with os.fdopen(receiver, "rb") as results:
            handle = multiprocessing.reduction.DupFd(sender)
            child = context.Process(target=_fit_on_pipe, args=(accountant, handle))
            child.start()
            os.close(sender)
            returned += len(results.read(1))
            time.sleep(delay)
            child.kill()
            child.join(60)
            assert child.exitcode == -signal.SIGKILL
            returned += len(results.read())
        reopened = PrivacyAccountant(path=accountant.path)
        assert returned <= len(entries(reopened)) <= returned + kill
    assert returned >= len(delays)
    fit_once(accountant)


def _fit_on_pipe(accountant, handle):
    fit_for_ever(accountant, handle.detach())


FULL_DISK = """
import resource, sys
from ledger_tools import fit_plan
from skdpspectral import LedgerError, PrivacyAccountant
accountant = PrivacyAccountant(path=sys.argv[1])
accountant.charge(fit_plan())
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
for _ in range(3):
    try:
        accountant.charge(fit_plan())
    except LedgerError as error:
        print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
print(len(accountant.ledger))
accountant.charge(fit_plan())
print(len(PrivacyAccountant(path=sys.argv[1]).ledger))
"""


def test_a_full_disk_refuses_the_fit_and_keeps_the_ledger(tmp_path):
    pytest.importorskip("resource")
    *errors, kept, after = run_python(FULL_DISK, tmp_path / "ledger.db")
    assert len(errors) == 3
    assert all("can't be used" in error for error in errors)
    assert (kept, after) == ("1", "2")


def test_a_pickle_opens_the_ledger_in_another_program(tmp_path):
    accountant = PrivacyAccountant(*budget_of_fits(2))
    with open(tmp_path / "pca.pickle", "wb") as file:
        pickle.dump(DPPCA(1, accountant=accountant), file)
    script = """
import pickle, sys
from ledger_tools import X
with open(sys.argv[1], "rb") as file:
    pca = pickle.load(file)
pca.fit(X)
print(pca.accountant.epsilon, len(pca.accountant.ledger))
"""
    epsilon = accountant.epsilon
    assert run_python(script, tmp_path / "pca.pickle") == [f"{epsilon} 1"]
    fit_once(accountant)
    with pytest.raises(PrivacyBudgetError):
        fit_once(accountant)
    assert len(entries(accountant)) == 2
