"""The server's half of the app: what the SuperLink runs, once for each job."""

import json
import time
from pathlib import Path

import numpy as np
from agreed import read_task
from flwr.serverapp import ServerApp

from skdpspectral import FederatedDPPCA, SparseDPPCA
from skdpspectral.federation import (
    GroupRounds,
    Registration,
    Rounds,
    Server,
    SpectralTask,
)
from skdpspectral.federation.flower import hold_session

server = ServerApp()


def open_rounds(job, task):
    """Return all steps of a job; whom to ask was agreed on before anything else."""
    how = {}
    if job["min_clients"] is not None:  # else as few as the task can do with
        how["min_clients"] = job["min_clients"]
    if not isinstance(task, SpectralTask):
        return GroupRounds(list(job["clients"]), task, **how, **job["rounds"])
    registered = {name: Registration(*row) for name, row in job["clients"].items()}
    return Rounds(Server(registered, task, **how), **job["rounds"])


@server.main()
def main(grid, context):
    folder = Path(context.run_config["job"])
    job = json.loads((folder / "job.json").read_text())
    task = read_task(folder)
    (folder / "begun").touch()
    rounds = open_rounds(job, task)
    n_requests = len(task.topics) if isinstance(task, SpectralTask) else task.n_sums + 1
    begun = time.monotonic()

    def show(progress):
        kind = "answered" if isinstance(progress.answer, bytes) else "refused"
        print(
            f"round {progress.step + 1} of {n_requests}: {progress.client} "
            f"{kind} ({progress.n_answers} of {progress.n_clients}; sent "
            f"{progress.n_sent} bytes, received {progress.n_received}; "
            f"{time.monotonic() - begun:.1f} s)",
            flush=True,
        )

    outcome = {}
    try:
        found = hold_session(
            grid,
            rounds,
            timeout=job["timeout"],
            on_answer=show,
        )
        save(folder, found)
        outcome["rejected"] = rounds.server.rejected
        outcome["clients"] = list(rounds.clients)
    except Exception as error:
        outcome["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        outcome["seconds"] = time.monotonic() - begun
        draft = folder / "outcome.draft"
        draft.write_text(json.dumps(outcome))
        draft.replace(folder / "outcome.json")


def save(folder, found):
    """Write the published estimator, and a result's arrays, whole or not at all.

    Of components a result of clients' releases; of users the public model.
    """
    arrays = {k: v for k, v in vars(found).items() if isinstance(v, np.ndarray)}
    estimator = found
    if not hasattr(found, "save"):
        kind = SparseDPPCA if found.task.n_rounds else FederatedDPPCA
        estimator = kind.from_result(found)
    for name, write in (
        ("estimator", estimator.save),
        ("result", lambda path: np.savez(path, **arrays)),
    ):
        draft = folder / f"{name}.draft.npz"
        write(draft)
        draft.replace(folder / f"{name}.npz")
