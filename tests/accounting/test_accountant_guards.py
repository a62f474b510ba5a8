"""Guards of the ledger against what would make it lie."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from ledger_tools import entries, plan_with_mu
from release_tools import Release
from threadpoolctl import threadpool_info

from skdpspectral import DPPCA, LedgerError, PrivacyAccountant
from skdpspectral.accounting import gaussian_epsilon, gaussian_mu
from skdpspectral.mechanisms import PrivacyPlan


def test_a_plan_may_not_claim_less_than_it_costs():
    honest = plan_with_mu(0.5)
    accountant = PrivacyAccountant()
    accountant.charge(honest)
    for call in (accountant.charge, accountant.check):
        with pytest.raises(ValueError, match=r"plan claims epsilon=0\.1"):
            call(replace(honest, epsilon=0.1))
    assert len(entries(accountant)) == 1


def test_a_plan_is_immutable_all_through():
    plan = plan_with_mu(0.5)
    listed = PrivacyPlan(1.0, 1e-6, list(plan.mechanisms), "test", remarks=["a"])
    assert listed.mechanisms == plan.mechanisms
    assert hash(listed) == hash(replace(listed))
    with pytest.raises(AttributeError):
        listed.epsilon = 2.0


def test_a_journal_that_was_left_behind_is_no_place_for_a_ledger_or_a_backup(tmp_path):
    path = tmp_path / "ledger.db"
    (tmp_path / "ledger.db-journal").write_bytes(b"what is left")
    with pytest.raises(LedgerError, match="left over from another ledger"):
        PrivacyAccountant(path=path)
    with pytest.raises(LedgerError, match="left over from another ledger"):
        PrivacyAccountant().backup(path)
    assert not path.exists()


@pytest.mark.parametrize("epsilon", [1.1e9, 1e308])
def test_absurd_budgets_are_refused_at_once(epsilon):
    with pytest.raises(ValueError, match="epsilon must be at most 1e"):
        gaussian_mu(epsilon, 1e-6)
    with pytest.raises(ValueError, match="epsilon must be at most 1e"):
        DPPCA(epsilon=epsilon).privacy_plan(10, 3)
    with pytest.raises(ValueError, match="epsilon must be at most 1e"):
        PrivacyAccountant(epsilon, 1e-6)
    assert gaussian_epsilon(math.sqrt(epsilon) * 1e4, 1e-6) == math.inf
    assert gaussian_mu(1e9, 1e-6) > 1e4


def test_an_infinite_entry_makes_the_total_infinite():
    accountant = PrivacyAccountant()
    accountant.charge(plan_with_mu(0.5))
    accountant.charge(DPPCA(epsilon=None).privacy_plan(10, 3))
    accountant.charge(plan_with_mu(0.5))
    assert accountant.spent().epsilon == math.inf
    assert accountant.privacy_curve([1.0, 1e6]).tolist() == [1.0, 1.0]


def test_a_wrong_shape_does_not_use_up_a_release():
    plan = DPPCA(1).privacy_plan(10, 3)
    release = Release(plan)
    with pytest.raises(ValueError, match="shape"):
        release("second_moment", np.zeros(3))
    assert release("second_moment", np.zeros((3, 3))).shape == (3, 3)


def test_check_may_allow_seeds_as_charge_does():
    accountant = PrivacyAccountant(2.0, 1e-6, allow_seeded=True)
    plan = DPPCA(noise_seed=0).privacy_plan(10, 3)
    assert accountant.check(plan).epsilon == math.inf
    accountant.charge(plan)
    assert accountant.remaining().epsilon < 2.0


def test_a_thread_is_charged_to_its_own_block():
    """A block that another thread opens later must not take its fits over."""
    mine, other = PrivacyAccountant(5.0, 1e-6), PrivacyAccountant()
    opened, done, made_before = threading.Event(), threading.Event(), DPPCA(1)

    def elsewhere():
        with other:
            opened.set()
            done.wait(60)

    thread = threading.Thread(target=elsewhere)
    with mine:
        thread.start()
        assert opened.wait(60)
        DPPCA(1).fit(np.eye(4, 2))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(DPPCA(1).fit, np.eye(4, 2)).result()
            lost = pool.submit(made_before.fit, np.eye(4, 2))
            with pytest.raises(LedgerError, match="several accountants"):
                lost.result()
        done.set()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(DPPCA(1).fit, np.eye(4, 2)).result()
    assert (len(entries(mine)), len(entries(other))) == (3, 0)


def test_blas_threads_come_back_after_fits_in_threads():
    before = [pool["num_threads"] for pool in threadpool_info()]
    X = np.random.default_rng(0).standard_normal((20_000, 20))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: DPPCA(1).fit(X), range(12)))
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_errors_show_no_array_that_was_given_for_a_number():
    secret = np.full((3, 2), 731.25)
    for call in (
        lambda: DPPCA().privacy_plan(secret, 2),
        lambda: PrivacyAccountant().check(secret),
        lambda: DPPCA(secret).privacy_plan(3, 2),
        lambda: gaussian_mu(secret, 1e-6),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert "731" not in str(caught.value)


def test_a_file_given_as_a_budget_is_explained():
    with pytest.raises(ValueError, match="path="):
        PrivacyAccountant("ledger.db")
