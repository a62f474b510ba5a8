"""One site as a process: ``python site_process.py FOLDER``, until it is stopped.

The folder is the site's own. ``site.json`` names its client and its budget,
``rows.npy`` has its rows, and ``task.bin`` is what the site has agreed to release. The
ledger and the answers that were given are made beside them.
"""

import json
import signal
import sys
from pathlib import Path

import numpy as np

from skdpspectral import PrivacyAccountant
from skdpspectral.federation import LocalClient, Site, SpectralTask, serve_site


def open_site(folder):
    settings = json.loads((folder / "site.json").read_text())
    task = SpectralTask.from_bytes((folder / "task.bin").read_bytes())
    rows = np.load(folder / "rows.npy")
    ledger = PrivacyAccountant(
        *settings["budget"],
        path=folder / "ledger.db",
        allow_seeded=settings.get("noise_seed") is not None,  # for tests alone
    )

    def open_client(accountant):
        return LocalClient(
            settings["name"],
            rows,
            task,
            epsilon=settings["epsilon"],
            delta=settings["delta"],
            accountant=accountant,
            noise_seed=settings.get("noise_seed"),
        )

    return Site(open_client, ledger, folder / "answers.db")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    own = Path(sys.argv[1])
    serve_site(
        open_site(own), own / "site.socket", on_ready=lambda: print("ready", flush=True)
    )
