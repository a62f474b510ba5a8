"""Which ledger a fit is charged to: blocks of contexts, threads, tasks and copies."""

import asyncio
import contextvars
import gc
import os
import pickle
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import joblib
import pytest
from ledger_tools import (
    DELTA,
    X,
    budget_of_fits,
    classifier,
    entries,
    ignore_fork_warning,
    in_processes,
    needs_fork,
    y,
)
from release_tools import record_releases
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import default_accountant
from skdpspectral.accounting._ledger.context import without_accountant
from skdpspectral.audit import audit_epsilon

WAIT = 60.0
REPETITIONS = pytest.mark.parametrize("repetition", range(20))


def counts(*accountants):
    return [len(entries(accountant)) for accountant in accountants]


def fit():
    return DPPCA(1).fit(X)


def in_thread(function, *arguments):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result(WAIT)


@pytest.fixture
def switching_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


# -- tasks of asyncio ------------------------------------------------------------------


async def fits_in_a_block(accountant, n_fits):
    """Fit so often; return how many were let in."""
    done = 0
    with accountant:
        for _ in range(n_fits):
            await asyncio.sleep(0)
            try:
                fit()
                done += 1
            except PrivacyBudgetError:
                pass
            await asyncio.sleep(0)
    return done


@pytest.mark.sampled(10)
@REPETITIONS
def test_each_task_charges_its_own_block(repetition):
    accountants = [PrivacyAccountant(*budget_of_fits(k)) for k in (1, 2)]
    accountants.append(PrivacyAccountant())

    async def main():
        return await asyncio.gather(*(fits_in_a_block(a, 3) for a in accountants))

    assert asyncio.run(main()) == [1, 2, 3]
    assert counts(*accountants) == [1, 2, 3]
    assert default_accountant() is None


def test_tasks_and_threads_that_a_block_starts_belong_to_it():
    mine, other = PrivacyAccountant(), PrivacyAccountant()

    async def child():
        await asyncio.sleep(0)
        await asyncio.to_thread(fit)
        fit()

    async def parent(accountant):
        with accountant:
            await asyncio.gather(child(), child())

    async def main():
        await asyncio.gather(parent(mine), parent(other))

    asyncio.run(main())
    assert counts(mine, other) == [4, 4]


def test_a_task_that_outlives_its_block_is_charged():
    mine, other = PrivacyAccountant(), PrivacyAccountant()

    async def late(go):
        await go.wait()
        fit()

    async def main():
        go = asyncio.Event()
        with mine:
            tasks = [asyncio.create_task(late(go)) for _ in range(2)]
        go.set()
        await asyncio.gather(*tasks)
        # With another ledger at hand, nobody can say which one is meant.
        with mine:
            task = asyncio.create_task(late(go))
        with other, pytest.raises(LedgerError, match="several threads or tasks"):
            await task

    asyncio.run(main())
    assert counts(mine, other) == [2, 0]


def test_a_copied_context_keeps_its_block():
    mine, inner = PrivacyAccountant(), PrivacyAccountant()
    with mine:
        copied = contextvars.copy_context()
        with inner:
            copied.run(fit)
            in_thread(copied.run, fit)
    copied.run(fit)
    fit()
    assert counts(mine, inner) == [3, 0]


# -- threads without a context ------------------------------------------------------


def test_threads_find_the_block_if_there_is_no_doubt():
    outer, inner = PrivacyAccountant(), PrivacyAccountant()
    with outer:
        in_thread(fit)
        with outer.named("again"):
            in_thread(fit)
        with inner:
            in_thread(fit)
        in_thread(fit)
    in_thread(fit)
    assert counts(outer, inner) == [3, 1]
    assert [entry["label"] == "again" for entry in entries(outer)] == [
        False,
        True,
        False,
    ]


def refusal_of(sent, barrier):
    """Fit what came along in a process of its own: say why that is refused."""
    pca = pickle.loads(sent)
    for estimator in (pca, clone(pca), pickle.loads(pickle.dumps(pca))):
        with pytest.raises(LedgerError, match="several threads or tasks") as caught:
            estimator.fit(X)
    return str(caught.value)[:24]


@pytest.mark.slow
@ignore_fork_warning
@pytest.mark.parametrize("name", ["threading", "loky", "multiprocessing"])
def test_a_search_in_a_block_is_sure_of_it_beside_those_of_others(name):
    """Its scorers hold an estimator that was not cloned, and that joblib's threads
    pickle; they know of no block."""
    accountant, begun, ended = PrivacyAccountant(), threading.Event(), threading.Event()

    def other():
        with PrivacyAccountant():
            begun.set()
            ended.wait(WAIT)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        begun.wait(WAIT)
        with accountant, joblib.parallel_config(name, n_jobs=2):
            grid = {"pca__n_components": [1, 2]}
            GridSearchCV(classifier(DPPCA(1)), grid, cv=2).fit(X, y)
    finally:
        ended.set()
        thread.join()
    assert counts(accountant) == [5]


@pytest.mark.slow
@pytest.mark.dependencies
def test_threads_are_refused_where_there_is_doubt():
    """Charged to the wrong ledger, or to none, would be worse."""
    outer, inner, given = (PrivacyAccountant() for _ in range(3))
    made_before = DPPCA(1)

    async def task():
        with inner:
            with pytest.raises(LedgerError, match="several threads or tasks"):
                in_thread(fit)
            sent = in_thread(pickle.dumps, made_before)  # which charges nothing
            with pytest.raises(LedgerError, match="several threads or tasks"):
                in_thread(lambda: pickle.loads(sent).fit(X))
            assert in_processes(refusal_of, 1, sent) == ["several threads or tasks"]
            # What has its accountant is in no doubt.
            pca = DPPCA(1, accountant=given)
            in_thread(pickle.dumps, pca)
            in_thread(pca.fit, X)
            in_thread(contextvars.copy_context().run, fit)

    async def main():
        with outer:
            await asyncio.gather(task())

    asyncio.run(main())
    assert counts(outer, inner, given) == [0, 1, 1]


def test_a_fresh_thread_never_runs_uncharged_beside_a_block():
    """Rule 5: what has no block of its own takes the only one."""
    with PrivacyAccountant(*budget_of_fits(1)) as accountant:
        in_thread(fit)
        with pytest.raises(PrivacyBudgetError):
            in_thread(fit)
    assert counts(accountant) == [1]


@pytest.mark.slow
@REPETITIONS
def test_threads_with_blocks_of_their_own(repetition, switching_often):
    """Blocks are opened and closed at once: each fit is its own block's."""
    pairs = [(PrivacyAccountant(), PrivacyAccountant()) for _ in range(3)]
    wrong, barrier = [], threading.Barrier(3)

    def work(accountants):
        barrier.wait(WAIT)
        for turn in range(40):
            accountant = accountants[turn % 2]
            with accountant:
                if default_accountant() is not accountant:
                    wrong.append(turn)
                if turn % 10 == 0:
                    fit()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, pairs))
    assert wrong == []
    assert default_accountant() is None
    assert [counts(*pair) for pair in pairs] == [[4, 0]] * 3


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_searches_in_threads_of_joblib(n_blocks):
    """Clones know the block that they were cloned in."""
    accountants = [PrivacyAccountant() for _ in range(n_blocks)]
    barrier = threading.Barrier(n_blocks)

    def search(accountant):
        with accountant:
            barrier.wait(WAIT)
            grid = {"pca__n_components": [1, 2]}
            with joblib.parallel_config("threading", n_jobs=2):
                GridSearchCV(classifier(DPPCA(1)), grid, cv=3, error_score="raise").fit(
                    X, y
                )
            barrier.wait(WAIT)

    with ThreadPoolExecutor(n_blocks) as pool:
        list(pool.map(search, accountants))
    assert counts(*accountants) == [7] * n_blocks


def test_a_clone_forgets_a_block_that_has_ended():
    mine, other = PrivacyAccountant(), PrivacyAccountant()
    with mine:
        pca = clone(DPPCA(1))
        in_thread(pca.fit, X)
    with other:
        in_thread(pca.fit, X)
        in_thread(clone(pca).fit, X)
    pca.fit(X)
    assert counts(mine, other) == [1, 2]
    assert not {"_made_in", "_sent_accountant"} & set(pca.__getstate__())


def test_a_fit_that_an_executor_comes_to_when_its_block_is_over():
    """It was asked for in the block, with an estimator that was made there."""
    mine, other, gate = PrivacyAccountant(), PrivacyAccountant(), threading.Event()
    outside = DPPCA(1)
    with ThreadPoolExecutor(1) as pool:
        with mine:
            pool.submit(gate.wait, WAIT)
            late = [pool.submit(p.fit, X) for p in (DPPCA(1), clone(outside))]
        gate.set()
        fits = [future.result(WAIT) for future in late]
        assert counts(mine) == [2]
        pool.submit(clone(fits[0]).fit, X).result(WAIT)
        pool.submit(outside.fit, X).result(WAIT)
        pool.submit(fits[0].publish().fit, X).result(WAIT)
        fits[0].fit(X)  # where it is known that the block has ended
        assert counts(mine) == [3]
        with other:
            fits[0].fit(X)
            pool.submit(clone(fits[0]).fit, X).result(WAIT)
    assert counts(mine, other) == [3, 2]


def test_a_fit_in_a_thread_belongs_to_the_block_of_its_estimator():
    """Not to one that is opened meanwhile, which the thread might find first."""
    mine, inner = PrivacyAccountant(), PrivacyAccountant()
    with mine:
        pca = DPPCA(1)
        with inner:
            in_thread(pca.fit, X)
            pca.fit(X)
    assert counts(mine, inner) == [1, 1]


def test_an_estimator_that_remembers_a_block_keeps_its_ledger_and_no_task():
    kept = []

    class Witness:
        pass

    async def task():
        witness = Witness()
        kept.append(weakref.ref(witness))
        with PrivacyAccountant():
            return DPPCA(1)

    pca = asyncio.run(task())
    gc.collect()
    assert kept[0]() is None
    assert len(entries(pca._made_in.handle)) == 0
    in_thread(pca.fit, X)
    assert len(entries(pca._made_in.handle)) == 1


# -- the end of blocks -----------------------------------------------------------------


def test_a_generator_may_be_resumed_in_another_context():
    """As fixtures and dependencies are: opened in one context, closed in another."""
    accountant, other = PrivacyAccountant(), PrivacyAccountant()

    def fixture():
        with accountant:
            yield

    generator = fixture()
    contextvars.copy_context().run(next, generator)
    fit()
    in_thread(next, generator, None)
    fit()
    assert counts(accountant) == [1]
    with other:
        fit()
    assert counts(accountant, other) == [1, 1]


def test_blocks_end_one_by_one_whatever_their_order():
    first, second = PrivacyAccountant(), PrivacyAccountant()
    first.__enter__()
    second.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert default_accountant() is second
    second.__exit__(None, None, None)
    assert default_accountant() is second
    second.__exit__(None, None, None)
    assert default_accountant() is None


@needs_fork
@ignore_fork_warning
def test_a_forked_child_is_in_the_block_of_its_parent():
    mine, other = PrivacyAccountant(), PrivacyAccountant()
    with mine:
        child = os.fork()
        if child == 0:
            try:
                fit()
                in_thread(fit)
                with other:
                    fit()
                    in_thread(fit)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    assert counts(mine, other) == [2, 2]


# -- fits on made-up data ------------------------------------------------------------


def test_without_accountant_is_of_its_context_alone():
    with PrivacyAccountant() as accountant:
        with without_accountant():
            copied = contextvars.copy_context()
            copied.run(fit)
            fit()
            assert default_accountant() is None
            in_thread(fit)
        assert counts(accountant) == [1]
        # It ends for copies too.
        copied.run(fit)
        fit()
    assert counts(accountant) == [3]


A = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
NEIGHBOR = [[0.0, 1.0], *A[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("repetition", range(10))
def test_audits_and_fits_of_other_threads(repetition, n_jobs, switching_often):
    """Audits charge nothing and uncharge nobody; each sees its own releases alone."""
    shapes, stop, fits = set(), threading.Event(), []

    def statistic(model, released):
        shapes.add(released["second_moment"].shape)
        return released["second_moment"][1, 1]

    def fit_meanwhile():
        while not stop.is_set():
            with record_releases() as released:
                fit()
            fits.append(released["second_moment"].shape)

    with PrivacyAccountant() as accountant:
        thread = threading.Thread(target=fit_meanwhile)
        thread.start()
        with joblib.parallel_config("threading"):
            audit_epsilon(DPPCA(1), A, NEIGHBOR, statistic, n_trials=60, n_jobs=n_jobs)
        stop.set()
        thread.join(WAIT)
    assert shapes == {(2, 2)}
    assert set(fits) == {(4, 4)}
    assert counts(accountant) == [len(fits)]


@pytest.mark.slow
@pytest.mark.dependencies
def test_an_audit_in_worker_processes_charges_nothing():
    with PrivacyAccountant(0.1, DELTA) as accountant:
        audit_epsilon(DPPCA(1, center="pairs"), A, NEIGHBOR, n_trials=20, n_jobs=2)
        with pytest.raises(PrivacyBudgetError):
            fit()
    assert counts(accountant) == [0]


def test_transcripts_follow_clients_into_threads():
    from skdpspectral import FederatedDPPCA

    clients = [row % 3 for row in range(len(X))]
    for n_jobs in (None, 2):
        with record_releases() as released:
            FederatedDPPCA(1, n_jobs=n_jobs).fit(X, clients=clients)
        assert released
