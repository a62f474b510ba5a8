"""The server's half of the app: what the SuperLink runs, once for each job."""

import json
import logging
import sys
import time
from pathlib import Path

import numpy as np
from agreed import read_task
from flwr.serverapp import ServerApp

from skdpspectral.federation import (
    GroupRounds,
    Registration,
    Rounds,
    SpectralTask,
    hold_session,
)

server = ServerApp()
# A line for each answer, as it comes.
logging.basicConfig(stream=sys.stdout, format="%(message)s")
logging.getLogger("skdpspectral").setLevel(logging.INFO)


def open_rounds(job, task):
    """Return all steps of a job; whom to ask was agreed on before anything else."""
    if not isinstance(task, SpectralTask):
        return GroupRounds(list(job["clients"]), task, min_clients=job["min_clients"])
    registered = {name: Registration(*row) for name, row in job["clients"].items()}
    return Rounds(registered, task)


@server.main()
def main(grid, context):
    folder = Path(context.run_config["job"])
    job = json.loads((folder / "job.json").read_text())
    task = read_task(folder)
    (folder / "begun").touch()
    rounds = open_rounds(job, task)
    begun = time.monotonic()

    outcome = {}
    try:
        found = hold_session(grid, rounds, timeout=job["timeout"])
        save(folder, found)
        outcome["rejected"] = rounds.rejected
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
    """Write the estimator, and its arrays, whole or not at all."""
    arrays = {k: v for k, v in vars(found).items() if isinstance(v, np.ndarray)}
    arrays = {k: v for k, v in arrays.items() if v.dtype.kind in "fb"}  # not of names
    for name, write in (
        ("estimator", found.save),
        ("result", lambda path: np.savez(path, **arrays)),
    ):
        draft = folder / f"{name}.draft.npz"
        write(draft)
        draft.replace(folder / f"{name}.npz")
