"""Names that are imported once they are asked for, by threads and in forks."""

import os
import subprocess
import sys

import pytest

# A process of its own, in which nothing was imported yet.
_AT_ONCE = """
import sys, threading
import skdpspectral

names = [*skdpspectral.__all__, "decomposition", "model_selection", "metrics"]
errors, start = [], threading.Barrier(len(names))

def ask(name):
    start.wait()
    try:
        getattr(skdpspectral, name)
    except BaseException as error:
        errors.append(f"{name}: {error!r}")

threads = [threading.Thread(target=ask, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("; ".join(errors) or 0)
"""

# A module is being imported by a thread, as long as the parent likes, while it forks.
_FORKED = """
import os, signal, sys, threading, time
import skdpspectral

begun, forked = threading.Event(), threading.Event()

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "skdpspectral.decomposition._pca":
            begun.set()
            forked.wait(1.0)  # what forks in the meantime has half of the room

sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: skdpspectral.DPPCA)
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(0 if skdpspectral.DPPCA(2).n_components == 2 else 1)
forked.set()
thread.join()
sys.exit(os.waitpid(child, 0)[1])
"""

# Modules that are imported ask for nothing that waits for whose turn it is.
_WITHOUT_A_TURN = """
import contextlib, importlib, pkgutil, sys
import skdpspectral
from skdpspectral import _on_demand

def nobody():
    raise SystemExit("a module has waited while it was imported")

_on_demand._in_turn = nobody
for module in pkgutil.walk_packages(skdpspectral.__path__, "skdpspectral."):
    with contextlib.suppress(ImportError):  # of what only some have installed
        importlib.import_module(module.name)
sys.exit(0 if len(sys.modules) > 500 else "too few modules")
"""


def run(script):
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", "-c", script]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.slow
@pytest.mark.dependencies
def test_threads_that_ask_first_at_once_all_get_what_they_ask_for():
    found = run(_AT_ONCE)
    assert found.returncode == 0, found.stderr


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_fork_has_no_half_of_what_a_thread_imports():
    found = run(_FORKED)
    assert found.returncode == 0, found.stderr


@pytest.mark.slow
@pytest.mark.dependencies
def test_no_module_waits_for_another_thread_while_it_is_imported():
    """That thread might wait for the module, and no one would be told."""
    found = run(_WITHOUT_A_TURN)
    assert found.returncode == 0, found.stderr
