"""One site as a process: ``python site_process.py FOLDER``, until it is stopped.

The folder is the site's own. ``site.json`` names its client and its budget,
``rows.npz`` has its rows, and ``task.bin`` or ``task.json`` is what the site has agreed
to release. The ledger and the answers that were given are made beside them, and, of
users, their models.
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


def open_site(folder):
    settings = json.loads((folder / "site.json").read_text())
    task, seed = read_task(folder), settings.pop("noise_seed")
    name, budget = settings.pop("name"), settings.pop("budget")
    with np.load(folder / "rows.npz") as arrays:
        rows = dict(arrays)
    kind = LocalClient if isinstance(task, SpectralTask) else GroupClient
    ledger = PrivacyAccountant(
        *budget,
        path=folder / "ledger.db",
        allow_seeded=seed is not None,  # for tests alone
    )

    def open_client(accountant):
        how = {"accountant": accountant, "noise_seed": seed, **settings}
        return kind(name, task=task, **rows, **how)

    site = OwnSite(open_client, ledger, folder / "answers.db")
    site.folder = folder
    return site


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    own = Path(sys.argv[1])
    os.umask(0o077)  # models of users are for this user alone, like ledger and answers
    serve_site(
        open_site(own), own / "site.socket", on_ready=lambda: print("ready", flush=True)
    )
