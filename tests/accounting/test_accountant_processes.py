"""Every fit is recorded once, wherever it runs and however it ends."""

import contextlib
import multiprocessing
from collections import Counter

import joblib
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
    ignore_fork_warning,
    in_processes,
    needs_fork,
    race_for_budget,
    y,
)
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate

from skdpspectral import DPPCA, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import gaussian_epsilon

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
    expected = gaussian_epsilon(7**0.5 * MU, DELTA)
    assert accountant.spent().epsilon == pytest.approx(expected, rel=1e-9)


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
