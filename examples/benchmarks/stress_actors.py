"""Actors of a stress: what programs do around private fits, all of it at once.

Each actor is a function of a :class:`~stress_fits.Stage` that plays one short scene,
acknowledges what it was given, and is called again until time is up. Threads play in
one process, beside each other; some scenes have processes of their own.
"""

import asyncio
import contextlib
import contextvars
import copy
import functools
import pickle
import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from stress_fits import (
    FITS,
    N_STEPS,
    ROWS,
    STREAM,
    LoggedPCA,
    Stage,
    location_noise,
    make_stream,
    path_noise,
)
from stress_processes import (
    fork_children,
    in_fork,
    kill_children,
    start_children,
    turn,
)

from skdpspectral import DPPCA, LedgerError, PrivacyBudgetError
from skdpspectral.audit import Canaries, audit_in_few_fits

_TARGETS = np.arange(len(ROWS)) // 3 % 2
# -- threads -------------------------------------------------------------------


def charge(stage: Stage) -> None:
    """Fit one estimator after another."""
    stage.fit("charge", stage.ledgers["open"], turn(tuple(FITS)))


def spend_budget(stage: Stage) -> None:
    """Race for the budget of the moment."""
    number = int((time.time() - stage.start) / stage.seconds_a_budget)
    ledger = stage.ledgers.get(f"budget {number}")
    if ledger is None:
        time.sleep(0.1)
        return
    try:
        stage.fit("spend_budget", ledger)
    except PrivacyBudgetError:
        stage.log.count("spend_budget", "refused for want of budget")
        time.sleep(0.05)


def read_ledger(stage: Stage) -> None:
    """Ask for totals and entries."""
    for ledger in stage.ledgers.values():
        ledger.spent()
    len(stage.ledgers["open"].ledger)
    time.sleep(0.02)


def copy_ledger(stage: Stage) -> None:
    """Read and copy files of ledgers, as a backup by other programs would."""
    source = Path(turn(list(stage.ledgers.values())).path)
    target = Path(stage.folder) / f"copy {threading.get_ident()}"
    target.mkdir(exist_ok=True)
    for file in source.parent.glob(f"{source.name}*"):
        try:
            shutil.copy(file, target / file.name)
            file.read_bytes()
        except FileNotFoundError:
            continue  # a log that was folded in meanwhile
    time.sleep(0.01)


def back_up_ledger(stage: Stage) -> None:
    """Make a backup that is whole, where there is a way to."""
    source = turn(list(stage.ledgers.values()))
    if not hasattr(source, "backup"):
        time.sleep(0.5)
        return
    target = Path(stage.folder) / f"backup {threading.get_ident()}.db"
    target.unlink(missing_ok=True)
    source.backup(target)
    time.sleep(0.05)


def pickle_and_clone(stage: Stage) -> None:
    """Fit copies of all kinds, some of them sent through an executor."""
    handle = stage.labeled("pickle_and_clone", stage.ledgers["open"])
    pca = LoggedPCA(stage.log.path, handle._label, handle.path)
    with stage.block(handle) as parameter:
        pca.set_params(accountant=parameter)
        copies = [clone(pca), copy.deepcopy(pca), pickle.loads(pickle.dumps(pca))]
        with ThreadPoolExecutor(1) as executor:
            for estimator in copies:
                context = contextvars.copy_context()
                executor.submit(context.run, estimator.fit, ROWS).result()
    pca.set_params(accountant=handle)
    for estimator in (clone(pca), pickle.loads(pickle.dumps(pca))):
        estimator.fit(ROWS)


def open_blocks(stage: Stage) -> None:
    """Open blocks within blocks of two ledgers; charge the innermost."""
    outer = stage.labeled("open_blocks", stage.ledgers["open"])
    inner = stage.labeled("open_blocks", stage.ledgers["tasks"])
    with stage.block(outer) as parameter:
        stage.fit_labeled("open_blocks", outer, parameter)
        with stage.block(inner) as within:
            stage.fit_labeled("open_blocks", inner, within)
        stage.fit_labeled("open_blocks", outer, parameter)


def audit(stage: Stage) -> None:
    """Audit made-up rows; nothing of it is charged, or mixes with others' releases."""
    rows = np.eye(6, 2)
    neighbor = rows.copy()
    neighbor[0] = [0.0, 1.0]

    def statistic(estimator, released):
        found = {name: value.shape for name, value in released.items()}
        if found != {"second_moment": (2, 2)}:
            stage.log.failure("audit", f"saw releases of shapes {found}")
            return [0.0]
        return released["second_moment"][1, [1]]

    tables = Canaries(1, lambda coin: (neighbor if coin[0] else rows,), statistic)
    audit_in_few_fits(DPPCA(1, center="none"), tables, 16)


# -- asyncio -------------------------------------------------------------------


async def _task(stage: Stage, name: str) -> None:
    handle = stage.labeled("tasks_with_blocks", stage.ledgers[name])
    with stage.block(handle) as parameter:
        fit = functools.partial(
            stage.fit_labeled, "tasks_with_blocks", handle, parameter
        )
        await asyncio.sleep(random.uniform(0.0, 0.01))
        fit()
        await asyncio.sleep(random.uniform(0.0, 0.01))
        await asyncio.to_thread(fit)
        await asyncio.sleep(0.0)
        fit("stream")


async def _tasks(stage: Stage) -> None:
    await asyncio.gather(*(_task(stage, name) for name in ["open", "tasks"] * 2))


def tasks_with_blocks(stage: Stage) -> None:
    """Interleave tasks, each in a block of its own."""
    asyncio.run(_tasks(stage))


# -- one stream in several threads -----------------------------------------------


def share_stream(stage: Stage) -> None:
    """Fit one object from three threads, one of which releases a path.

    A call that another one has taken the stream from may raise; what is returned must
    have its noise.
    """
    ledger = turn([stage.ledgers["open"], None])
    factorization = turn(["trivial", "blt"])
    handle = None if ledger is None else stage.labeled("share_stream", ledger)
    model = make_stream(handle, factorization)
    where = (None, "share_stream/") if ledger is None else (handle.path, handle._label)

    def fit():
        model.fit(STREAM)
        # Noise of the mean is that of independent steps for "trivial" alone.
        draws = [location_noise(model, model.location_)]
        draws = draws if factorization == "trivial" else []
        stage.log.release("share_stream", *where, draws, law="normal", shared=True)

    def walk():
        locations, entries = [], 1
        try:
            for step in model.release_path(STREAM):
                locations.append(step.location)
        finally:
            if locations:
                noise = path_noise(model, locations, factorization).ravel()
                stage.log.release(
                    "share_stream", *where, [noise], law="normal", entries=entries
                )

    _at_once(stage, "share_stream", [fit, fit, walk])


def _at_once(stage: Stage, actor: str, calls) -> list[bool]:
    """Run calls in threads; say which returned. Refusals are counted."""
    returned = [False] * len(calls)

    def run(number, call):
        try:
            call()
        except (LedgerError, RuntimeError) as error:
            stage.log.count(actor, f"refused: {str(error)[:60]}")
        except Exception as error:
            # Fitted attributes may be those of nobody while others begin anew.
            stage.log.count(actor, f"refused, {type(error).__name__}: {error}"[:90])
        else:
            returned[number] = True

    threads = [
        threading.Thread(target=run, args=(number, call), daemon=True)
        for number, call in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return returned


def resume_stream(stage: Stage) -> None:
    """Let copies of a stream go on in threads and in a fork: one of them may."""
    handle = stage.labeled("resume_stream", stage.ledgers["open"])
    where, half = (handle.path, handle._label), N_STEPS // 2
    model = make_stream(handle).partial_fit(STREAM[:half])
    before = half * model.location_
    scale = np.sqrt(half) * model.privacy_["moments"].noise_std
    noise = (before - STREAM[:half].sum(axis=0)) / scale
    stage.log.release("resume_stream", *where, [noise], law="normal")
    blob = pickle.dumps(model)

    def go_on(this=None):
        this = pickle.loads(blob) if this is None else this
        this.partial_fit(STREAM[half:])
        noise = N_STEPS * this.location_ - before - STREAM[half:].sum(axis=0)
        stage.log.release(
            "resume_stream", *where, [noise / scale], law="normal", entries=0
        )

    def in_child():
        def scene():
            with contextlib.suppress(ValueError):  # it had ended before the fork
                go_on(model)

        in_fork(stage, "resume_stream", scene)

    _at_once(stage, "resume_stream", [go_on, go_on, lambda: go_on(model), in_child])


def fork_in_path(stage: Stage) -> None:
    """Fork in the middle of a path: the child has the parent's noise, and no use of it.

    Beyond a block of steps, for releases of a block leave together.
    """
    ledger = turn([stage.ledgers["open"], None])
    handle = None if ledger is None else stage.labeled("fork_in_path", ledger)
    where = (None, "fork_in_path/") if ledger is None else (handle.path, handle._label)
    model = make_stream(handle)
    try:
        path = model.release_path(STREAM)
    except LedgerError as error:
        if ledger is None:  # others have blocks: what is meant has to be said
            stage.log.count("fork_in_path", f"refused: {str(error)[:60]}")
            return
        raise
    head = [next(path).location for _ in range(random.randrange(1, N_STEPS // 2))]

    def child():
        tail = []
        try:
            tail.extend(step.location for step in path)
        finally:
            # What was released before the fork is the parent's to acknowledge.
            done = -(-len(head) // 256) * 256
            noise = path_noise(model, [*head, *tail])[done:]
            if len(noise):
                stage.log.release(
                    "fork_in_path", *where, [noise.ravel()], law="normal", entries=0
                )

    in_fork(stage, "fork_in_path", child)
    noise = path_noise(model, [*head, *(step.location for step in path)])
    stage.log.release("fork_in_path", *where, [noise.ravel()], law="normal")


# -- joblib, in the main thread: its backends of processes are for that one alone --


def _fit_job(stage: Stage, actor: str, ledger, kind: str) -> None:
    stage.fit(actor, ledger, kind)


def search(stage: Stage) -> None:
    """Search over a grid, and fit jobs, with each backend."""
    backend = turn(["threading", "loky", "multiprocessing"][: 2 + stage.forks])
    actor = f"search_{backend}"
    handle = stage.labeled(actor, stage.ledgers[turn(["open", "tasks"])])
    pca = LoggedPCA(stage.log.path, handle._label, handle.path)
    steps = [("pca", pca), ("classify", LogisticRegression())]
    grid = GridSearchCV(
        Pipeline(steps), {"pca__min_gap": [1.0, 2.0]}, cv=2, error_score="raise"
    )
    with joblib.parallel_config(backend, n_jobs=2):
        with stage.block(handle) as parameter:
            grid.set_params(estimator__pca__accountant=parameter).fit(ROWS, _TARGETS)
        grid.set_params(estimator__pca__accountant=handle).fit(ROWS, _TARGETS)
        job = joblib.delayed(_fit_job)
        ledger = stage.ledgers["open"]
        joblib.Parallel()(job(stage, actor, ledger, kind) for kind in ("pca", "stream"))


IN_THREADS = (
    charge,
    charge,
    spend_budget,
    spend_budget,
    read_ledger,
    copy_ledger,
    back_up_ledger,
    pickle_and_clone,
    open_blocks,
    audit,
    tasks_with_blocks,
    share_stream,
    resume_stream,
    fork_in_path,
    fork_children,
    start_children,
    kill_children,
)
IN_MAIN_THREAD = (search,)
