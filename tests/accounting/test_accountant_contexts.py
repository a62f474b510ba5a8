"""Which ledger a fit is charged to: blocks of contexts, threads, tasks and copies."""

import asyncio
import contextvars
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import pytest
from forked_python import child_of, wait_for
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
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.accounting import ambient_accountant
from skdpspectral.accounting._ledger.context import without_accountant
from skdpspectral.audit import audit_in_few_fits, pairs_of_features

WAIT, DOUBT = 60.0, "in another thread or task, .*: pass accountant="


def counts(*accountants):
    return [len(entries(accountant)) for accountant in accountants]


def fit():
    return DPPCA(1).fit(X)


def in_thread(function, *arguments):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result(WAIT)


class Beside:
    """A thread that has a block of another accountant open meanwhile."""

    def __enter__(self):
        self.begun, self.ended = threading.Event(), threading.Event()
        self.accountant = PrivacyAccountant()
        self.thread = threading.Thread(target=self.hold)
        self.thread.start()
        self.begun.wait(WAIT)
        return self.accountant

    def hold(self):
        with self.accountant:
            self.begun.set()
            self.ended.wait(WAIT)

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(WAIT)


# -- contexts --------------------------------------------------------------------------


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


@pytest.mark.parametrize("repetition", range(3))
def test_each_task_charges_its_own_block(repetition):
    accountants = [PrivacyAccountant(*budget_of_fits(k)) for k in (1, 2)]
    accountants.append(PrivacyAccountant())

    async def main():
        return await asyncio.gather(*(fits_in_a_block(a, 3) for a in accountants))

    assert asyncio.run(main()) == [1, 2, 3]
    assert counts(*accountants) == [1, 2, 3]
    assert ambient_accountant() is None


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


def test_a_generator_may_be_resumed_in_another_context():
    """As fixtures and dependencies are: opened in one context, closed in another."""
    accountant, other = PrivacyAccountant(), PrivacyAccountant()

    def fixture():
        with accountant:
            yield

    generator = fixture()
    contextvars.copy_context().run(next, generator)
    with pytest.raises(LedgerError, match=DOUBT):
        fit()
    in_thread(next, generator, None)
    fit()
    with other:
        fit()
    assert counts(accountant, other) == [0, 1]


# -- threads without a context ---------------------------------------------------------


def test_a_fresh_thread_never_runs_uncharged_beside_a_block():
    """Nor is it charged to a block that it may have nothing to do with."""
    with PrivacyAccountant() as accountant:
        with pytest.raises(LedgerError, match=DOUBT):
            in_thread(fit)
        # In the own thread of somebody else, joblib is no excuse.
        with pytest.raises(LedgerError, match=DOUBT):
            in_thread(joblib.Parallel(1), [joblib.delayed(fit)()])
    in_thread(fit)
    assert counts(accountant) == [0]


def test_threads_of_joblib_take_the_only_ledger_that_is_open():
    with PrivacyAccountant(*budget_of_fits(2)) as accountant:
        run = joblib.Parallel(2, backend="threading")
        run([joblib.delayed(fit)(), joblib.delayed(fit)()])
        with pytest.raises(PrivacyBudgetError):
            run([joblib.delayed(fit)()] * 2)
        with Beside(), pytest.raises(LedgerError, match=DOUBT):
            run([joblib.delayed(fit)()] * 2)
    assert counts(accountant) == [2]


def refusal_of(sent, barrier):
    """Fit what came along in a process of its own: say why that is refused."""
    pca = pickle.loads(sent)
    for estimator in (pca, clone(pca), pickle.loads(pickle.dumps(pca))):
        with pytest.raises(LedgerError, match=DOUBT):
            estimator.fit(X)
    return "refused"


@pytest.mark.slow
@pytest.mark.dependencies
def test_threads_are_refused_where_there_is_doubt():
    """Charged to the wrong ledger, or to none, would be worse."""
    mine, given = PrivacyAccountant(), PrivacyAccountant()
    made_before = DPPCA(1)
    with Beside() as other, mine:
        with pytest.raises(LedgerError, match=DOUBT):
            in_thread(made_before.fit, X)
        sent = in_thread(pickle.dumps, made_before)  # which charges nothing
        with pytest.raises(LedgerError, match=DOUBT):
            in_thread(lambda: pickle.loads(sent).fit(X))
        assert in_processes(refusal_of, 1, sent) == ["refused"]
        # What has its accountant, or was made or cloned here, is in no doubt.
        in_thread(DPPCA(1, accountant=given).fit, X)
        in_thread(DPPCA(1).fit, X)
        in_thread(clone(made_before).fit, X)
        in_thread(contextvars.copy_context().run, fit)
    assert counts(mine, given, other) == [3, 1, 0]


@pytest.mark.slow
@ignore_fork_warning
@pytest.mark.parametrize("name", ["threading", "loky", "multiprocessing"])
def test_a_search_in_a_block_is_sure_of_it_beside_those_of_others(name):
    accountant = PrivacyAccountant()
    with Beside() as other, accountant, joblib.parallel_config(name, n_jobs=2):
        grid = {"pca__n_components": [1, 2]}
        GridSearchCV(classifier(DPPCA(1)), grid, cv=2).fit(X, y)
    assert counts(accountant, other) == [5, 0]


# -- what estimators note --------------------------------------------------------------


def test_an_estimator_belongs_to_the_block_that_it_was_made_or_cloned_in():
    """Where another thread fits it, also after the block; a context of its own wins."""
    mine, other, gate = PrivacyAccountant(), PrivacyAccountant(), threading.Event()
    outside = DPPCA(1)
    with ThreadPoolExecutor(1) as pool:
        with mine:
            pool.submit(gate.wait, WAIT)
            late = [pool.submit(p.fit, X) for p in (DPPCA(1), clone(outside))]
            with other:
                inner = DPPCA(1)
                late.append(pool.submit(inner.fit, X))
            inner.fit(X)
        gate.set()
        fits = [future.result(WAIT) for future in late]
        assert counts(mine, other) == [3, 1]
        pool.submit(clone(fits[0]).fit, X).result(WAIT)
        pool.submit(pickle.loads(pickle.dumps(fits[0])).fit, X).result(WAIT)
        pool.submit(outside.fit, X).result(WAIT)
        pool.submit(fits[0].publish().fit, X).result(WAIT)
        assert counts(mine, other) == [5, 1]
        with other:
            fits[0].fit(X)
            clone(fits[0]).fit(X)
    assert counts(mine, other) == [5, 3]


@needs_fork
@ignore_fork_warning
def test_a_forked_child_is_in_the_block_of_its_parent():
    mine, other = PrivacyAccountant(), PrivacyAccountant()

    def fit_in_both():
        fit()
        in_thread(DPPCA(1).fit, X)
        with other:
            fit()

    with mine:
        assert wait_for(child_of(fit_in_both)) == 0
    assert counts(mine, other) == [2, 1]


# -- fits on made-up data --------------------------------------------------------------


def test_without_accountant_is_of_its_context_alone():
    with PrivacyAccountant() as accountant:
        pca = DPPCA(1)
        with without_accountant():
            copied = contextvars.copy_context()
            copied.run(fit)
            fit()
            pca.fit(X)
            assert ambient_accountant() is None
            with pytest.raises(LedgerError, match=DOUBT):
                in_thread(fit)
        # It ends for copies too.
        copied.run(fit)
        fit()
    assert counts(accountant) == [2]


def test_an_audit_charges_nothing_and_uncharges_nobody():
    with PrivacyAccountant(*budget_of_fits(1)) as accountant:
        pca = DPPCA(1, center="none")
        audit_in_few_fits(pca, pairs_of_features(4), 20)
        fit()
        with pytest.raises(PrivacyBudgetError):
            fit()
    assert counts(accountant) == [1]
    assert accountant.delta == DELTA
