"""Actors of a stress that have processes of their own, and how forks are played."""

import faulthandler
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import time
import traceback
from pathlib import Path

from stress_fits import FITS, ROWS, LoggedPCA, Stage

from skdpspectral import LedgerError, PrivacyBudgetError

_turns = itertools.count()


def turn(choices):
    """Return one of several choices after another."""
    return choices[next(_turns) % len(choices)]


def play_in_child(stage: Stage, actor: str, scene) -> None:
    """Play a scene in a child, which must come to its end."""
    file = open(Path(stage.folder) / f"hung {actor} {os.getpid()}", "w")  # noqa: SIM115
    faulthandler.dump_traceback_later(stage.patience / 2, exit=True, file=file)
    try:
        scene()
    except (LedgerError, RuntimeError) as error:
        stage.log.count(actor, f"child refused: {str(error)[:60]}")
    except BaseException:
        stage.log.failure(actor, "child: " + traceback.format_exc()[-300:])
    finally:
        faulthandler.cancel_dump_traceback_later()
        file.close()
        Path(file.name).unlink()


def in_fork(stage: Stage, actor: str, scene) -> None:
    """Fork, and play a scene in the child."""
    if not stage.forks:
        time.sleep(0.1)
        return
    child = os.fork()
    if child == 0:
        try:
            play_in_child(stage, actor, scene)
        finally:
            os._exit(0)
    _reap(stage, actor, child)


def _reap(stage: Stage, actor: str, child: int) -> None:
    """Wait for a forked child, but not for ever."""
    end = time.monotonic() + stage.patience
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.005)
    stage.log.failure(actor, "a child hung, and could not even say where")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def fork_children(stage: Stage) -> None:
    """Fork, wherever the other threads are, and fit in the child."""

    def scene():
        stage.fit("fork_children", stage.ledgers["open"], turn(tuple(FITS)))
        stage.fit("fork_children", stage.ledgers["tasks"])
        try:
            last = max(name for name in stage.ledgers if name.startswith("budget"))
            stage.fit("spend_budget", stage.ledgers[last])
        except PrivacyBudgetError:
            stage.log.count("spend_budget", "refused for want of budget")

    handle = stage.labeled("fork_children", stage.ledgers["tasks"])

    def in_block():
        scene()
        stage.fit_labeled("fork_children", handle, parameter)

    with stage.block(handle) as parameter:
        in_fork(stage, "fork_children", in_block)


def child_of_context(stage: Stage, method: str, pca) -> None:
    """Fit what was sent to a process that was started by any method."""
    actor = f"children_by_{method}"

    def scene():
        pca.fit(ROWS)
        stage.fit(actor, stage.ledgers["open"])
        stage.fit(actor, stage.ledgers["tasks"], "stream")

    play_in_child(stage, actor, scene)


def start_children(stage: Stage) -> None:
    """Start processes by each method of `multiprocessing`."""
    methods = multiprocessing.get_all_start_methods()
    method = turn([m for m in methods if stage.forks or m != "fork"])
    actor = f"children_by_{method}"
    handle = stage.labeled(actor, stage.ledgers["open"])
    pca = LoggedPCA(stage.log.path, handle._label, handle.path)
    with stage.block(handle) as parameter:
        pca = pickle.loads(pickle.dumps(pca.set_params(accountant=parameter)))
        child = multiprocessing.get_context(method).Process(
            target=child_of_context, args=(stage, method, pca)
        )
        child.start()
    end = time.monotonic() + stage.patience
    # Another thread may be about to learn of the end, where joblib starts processes.
    while child.exitcode is None and time.monotonic() < end:
        child.join(0.1)
    if child.exitcode is None:
        stage.log.failure(actor, "a child hung")
        child.kill()
        child.join()
    elif child.exitcode:
        stage.log.failure(actor, f"a child ended with {child.exitcode}")


def fit_for_ever(stage: Stage) -> None:
    """Fit until killed."""

    def scene():
        while True:
            stage.fit("kill_children", stage.ledgers["open"], turn(tuple(FITS)))

    play_in_child(stage, "kill_children", scene)


def kill_children(stage: Stage) -> None:
    """Kill a process in the middle of its fits."""
    method = "fork" if stage.forks else "forkserver"
    child = multiprocessing.get_context(method).Process(
        target=fit_for_ever, args=(stage,)
    )
    child.start()
    time.sleep(random.uniform(0.0, 0.4 if stage.forks else 6.0))
    child.kill()
    child.join()
    for file in Path(stage.folder).glob(f"hung kill_children {child.pid}"):
        file.unlink()
