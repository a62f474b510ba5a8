"""Locks that a forked child inherits: none may be held by a thread that stayed behind.

Threads of the parent do not exist in the child. A lock that one of them held would
never be released there, and the first fit in the child would wait for ever.
"""

import functools
import importlib
import os
import pkgutil
import threading
import time

import numpy as np
import pytest
from forked_python import wait_for

import skdpspectral
from skdpspectral import DPPCA
from skdpspectral._linalg.walks import blocked_second_moment
from skdpspectral._release.noise import Release

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
    # Python 3.12 warns of any fork of a process with threads: it is what is tested.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
PATIENCE = 60.0  # seconds, on a busy machine
LOCKS = type(threading.Lock()), type(threading.RLock())


def modules():
    found = pkgutil.walk_packages(skdpspectral.__path__, "skdpspectral.")
    for name in sorted(module.name for module in found):
        try:
            yield importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            continue


def shared_locks():
    """Return locks of modules, and those that classes share between their objects."""
    found = {}
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, LOCKS):
                found[f"{module.__name__}.{name}"] = value
            if not isinstance(value, type) or value.__module__ != module.__name__:
                continue
            for attribute, inner in vars(value).items():
                # Before Python 3.12 all objects share the lock of a cached property.
                if isinstance(inner, functools.cached_property):
                    inner = getattr(inner, "lock", None)
                if isinstance(inner, LOCKS):
                    found[f"{module.__name__}.{value.__name__}.{attribute}"] = inner
    return found


@pytest.mark.parametrize("name", sorted(shared_locks()))
def test_a_child_inherits_no_held_lock(name):
    """Whether the fork waits for the lock, or the child gets a new one."""
    lock, held = shared_locks()[name], threading.Event()

    def hold():
        with lock:
            held.set()
            time.sleep(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        free = shared_locks()[name].acquire(timeout=1.0)
        os._exit(0 if free else 1)
    assert wait_for(child) == 0
    thread.join()


def test_the_locks_are_found():
    assert "skdpspectral._linalg.walks._lock" in shared_locks()


def test_a_fork_without_the_hooks_of_python_draws_no_noise(monkeypatch):
    """As forks of C do: nothing but the number of the process tells."""
    plan = DPPCA(1, noise_seed=0).privacy_plan(100, 3)
    release = Release(plan, None, 0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked copy"):
        release(next(iter(plan.mechanisms)).name, 0.0)


def test_a_child_limits_threads_for_its_own_fits_alone():
    """A fit of another thread is under way in the parent; the child has none of it."""
    from skdpspectral._linalg import walks as pools

    X = np.eye(4)
    begun, ended = threading.Event(), threading.Event()

    def slow(rows):
        begun.set()
        ended.wait(PATIENCE)
        return rows

    thread = threading.Thread(target=blocked_second_moment, args=(X, slow))
    thread.start()
    begun.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        DPPCA(1).fit(X + 0.0)
        os._exit(len(pools._limits) + len(pools._parts))
    assert wait_for(child) == 0
    assert (len(pools._limits), len(pools._parts)) == (1, 1)
    ended.set()
    thread.join()
    assert pools._limits == pools._parts == []
