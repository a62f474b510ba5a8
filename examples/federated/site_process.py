"""One site as a process: ``python site_process.py FOLDER``, until it is stopped.

The folder is the site's own. ``site.json`` names its client and its budget. Each study
that the site has agreed to has a folder within. ``rows.csv``, a table with column
names, or ``rows.npz`` has its rows. ``task.bin`` or ``task.json`` is what may be
released. ``how.json`` says what a session takes of the budget, holds the keys that mask
what is sent, and names the column of the table that is y, if one is (``target``). The
answers that were given are kept there, and, of users, their models. All studies have
one ledger, ``ledger.db``, but for those that name another: one ledger protects either
rows or users.
"""

import contextlib
import json
import os
import pickle
import signal
import sys
from pathlib import Path

import numpy as np
from app.agreed import read_task

from skdpspectral import PrivacyAccountant
from skdpspectral.federation import (
    GroupClient,
    LocalClient,
    MessageError,
    Request,
    Site,
    SpectralTask,
    serve_site,
)


class OwnSite(Site):
    """Keeps the models of its users once a session is over; they never leave it."""

    folder: Path

    def respond(self, request):
        answer = super().respond(request)
        with contextlib.suppress(MessageError, AttributeError):
            model = self.latest.model
            draft = self.folder / "models.draft"
            draft.write_bytes(pickle.dumps(model))
            draft.replace(self.folder / "models.pickle")
        return answer


class Studies:
    """All studies of a site, by their tasks: a request names the task that it is of."""

    def __init__(self, name, sites):
        self.name, self.sites = name, sites

    def longest(self):
        return max((site.longest() for site in self.sites.values()), default=0)

    def respond(self, request):
        task = Request.from_bytes(request).task
        if task not in self.sites:
            raise MessageError(f"this site has not agreed on the task {task.hex()}")
        return self.sites[task].respond(request)


def read_rows(folder, target):
    """Return what a client is made of: a table with column names, or arrays."""
    path = folder / "rows.csv"
    if not path.exists():
        with np.load(folder / "rows.npz") as arrays:
            return dict(arrays)
    import pandas as pd

    table = pd.read_csv(path)
    if target is None:
        return {"X": table}
    return {"X": table.drop(columns=target), "y": table[target]}


def open_study(folder, settings):
    """Return the task of a study, and who answers requests of it."""
    name, noise_seed = settings["name"], settings["noise_seed"]
    how = json.loads((folder / "how.json").read_text())
    ledger = PrivacyAccountant(
        *settings["budget"],
        path=folder.parent / f"{how.pop('ledger', 'ledger')}.db",
        allow_seeded=noise_seed is not None,  # for tests alone
    )
    if "pair_keys" in how:
        how["pair_keys"] = {n: bytes.fromhex(k) for n, k in how["pair_keys"].items()}
    task = read_task(folder)
    rows = read_rows(folder, how.pop("target", None))
    kind = LocalClient if isinstance(task, SpectralTask) else GroupClient

    def open_client(accountant):
        given = {"accountant": accountant, "noise_seed": noise_seed, **how}
        return kind(name, task=task, **rows, **given)

    site = OwnSite(open_client, ledger, folder / "answers.db")
    site.folder = folder
    return task.digest, site


def open_site(folder):
    settings = json.loads((folder / "site.json").read_text())
    folders = sorted(path.parent for path in folder.glob("*/how.json"))
    sites = {}
    for study in folders:
        task, site = open_study(study, settings)
        if task in sites:
            raise ValueError(
                f"{study} has the task of another study here: requests name their "
                "tasks, so that each study needs one of its own"
            )
        sites[task] = site
    return Studies(settings["name"], sites)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    own = Path(sys.argv[1])
    os.umask(0o077)  # models of users are for this user alone, like ledger and answers
    serve_site(
        open_site(own), own / "site.socket", on_ready=lambda: print("ready", flush=True)
    )
