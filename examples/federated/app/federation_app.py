"""Both halves of the app: what the SuperLink runs, and what every SuperNode runs.

The node's half has no rows and no ledger. It hands what comes to the site that the
node's own configuration names, and the site's answer back.
"""

import json
import time
from pathlib import Path

import numpy as np
from flwr.serverapp import ServerApp

from skdpspectral.federation import (
    KeptSession,
    Registration,
    Rounds,
    Server,
    SpectralTask,
)
from skdpspectral.federation.flower import client_app, hold_session

client = client_app()
server = ServerApp()


@server.main()
def main(grid, context):
    folder = Path(context.run_config["job"])
    job = json.loads((folder / "job.json").read_text())
    # Whom to ask, and what each may send, is agreed on before anything else.
    registered = {name: Registration(*row) for name, row in job["clients"].items()}
    task = SpectralTask.from_bytes((folder / "task.bin").read_bytes())
    kept = KeptSession(folder / "session.db")
    rounds = Rounds(
        Server(registered, task, min_clients=job["min_clients"], session=kept.session),
        **job["rounds"],
    )
    begun = time.monotonic()

    def show(progress):
        kind = "answered" if isinstance(progress.answer, bytes) else "refused"
        print(
            f"round {progress.step + 1} of {len(task.topics)}: {progress.client} "
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
            kept=kept,
            on_answer=show,
        )
        save(folder / "result.npz", found)
        outcome["rejected"] = found.rejected
    except Exception as error:
        outcome["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        kept.close()
        outcome["seconds"] = time.monotonic() - begun
        (folder / "outcome.json").write_text(json.dumps(outcome))


def save(path, found):
    """Write a result's arrays to a file, whole or not at all."""
    names = ("components", "mean", "explained_variance", "weights", "support")
    arrays = {name: getattr(found, name) for name in names}
    arrays = {name: value for name, value in arrays.items() if value is not None}
    draft = path.with_suffix(".draft.npz")
    np.savez(draft, clients=np.array(found.clients), **arrays)
    draft.replace(path)
