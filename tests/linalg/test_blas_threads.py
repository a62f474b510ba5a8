"""How many threads the BLAS has within fits, and after them."""

import os
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skdpspectral import DPCovariance, JMECovariance
from skdpspectral._linalg import walks as threads
from skdpspectral._linalg.walks import blas_threads, map_in_threads


def pools():
    return {
        each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"
    }


@pytest.fixture(autouse=True)
def three_threads():
    with threadpool_limits(3, user_api="blas"):
        threads._leave_to_others()
        yield
        assert pools() == {3}


def test_small_matrices_have_one_and_large_ones_all():
    with blas_threads(20):
        assert pools() == {1}
        with blas_threads(300):
            assert pools() == {3}
            with blas_threads(0):
                assert pools() == {3}
        assert pools() == {1}
    assert pools() == {3}


@pytest.mark.parametrize("first", ["own", "other"])
def test_small_matrices_have_one_beside_large_ones_of_another_thread(first):
    """The bits of users' products would depend on what else the process does."""
    begun, over = threading.Event(), threading.Event()

    def other():
        with blas_threads(0), blas_threads(300):
            begun.set()
            over.wait(60)

    thread = threading.Thread(target=other)
    try:
        if first == "other":
            thread.start()
            assert begun.wait(60)
            assert pools() == {3}
        with blas_threads(20):
            if first == "own":
                thread.start()
                assert begun.wait(60)
            assert pools() == {1}
            # Its own large ones have all of them.
            with blas_threads(300):
                assert pools() == {3}
            assert pools() == {1}
        assert pools() == {3}
    finally:
        over.set()
        thread.join()


def test_the_last_of_several_threads_lifts_the_limit():
    begun, over, done = (threading.Event() for _ in range(3))

    def first():
        with blas_threads(0):
            begun.set()
            over.wait(60)
        done.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    try:
        assert begun.wait(60)
        with blas_threads(0):
            over.set()
            while len(threads._parts) > 1:
                pass
            assert pools() == {1}
        # The one that set it is still there.
        assert pools() == {3}
    finally:
        done.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_threads_of_its_parent():
    held, done = threading.Event(), threading.Event()

    def hold():
        with blas_threads(0):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        child = os.fork()
        if not child:  # pragma: no cover
            with blas_threads(0):
                pass
            os._exit(0 if pools() == {3} and not threads._parts else 1)
    finally:
        done.set()
        thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_tasks_have_one():
    assert set().union(*map_in_threads(lambda _: pools(), range(3))) == {1}
    assert set().union(*map_in_threads(lambda _: pools(), range(3), 2)) == {1}


def test_fits_have_one(monkeypatch):
    seen = []
    eigh = np.linalg.eigh
    monkeypatch.setattr(
        np.linalg, "eigh", lambda *a, **k: seen.append(pools()) or eigh(*a, **k)
    )
    X = np.random.default_rng(0).standard_normal((60, 4))
    DPCovariance().fit(X)
    assert seen
    assert all(found == {1} for found in seen)
    seen.clear()
    JMECovariance(horizon=60).partial_fit(X)
    path = JMECovariance().release_path(X)
    next(path)
    assert seen
    assert all(found == {1} for found in seen)
    # Its caller has all of them, while the path waits.
    assert pools() == {3}
