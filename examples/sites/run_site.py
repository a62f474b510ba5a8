"""One site of a federation, as a process: ``python run_site.py north``.

The site reads ``north.csv`` and answers requests at ``north.socket``. Its
ledger and its answers are files too, so that you can stop it with Ctrl-C and
start it again.
"""

import sys
from contextlib import suppress

import pandas as pd

from skdpspectral import PrivacyAccountant
from skdpspectral.federation import LocalClient, Site, make_task, serve_site

# The task is the same in run_server.py. A site refuses any other task.
FEATURES = {"age": (0, 100), "weight": (30, 200), "pressure": (60, 240)}
TASK = make_task(
    n_components=1,
    n_features=len(FEATURES),
    feature_names=list(FEATURES),
    bounds=tuple(zip(*FEATURES.values(), strict=True)),  # public knowledge
    scale="bounds",  # because the features have different units
)

if __name__ == "__main__":
    name = sys.argv[1]
    # The limit of all sessions together. Each session costs epsilon=1.
    ledger = PrivacyAccountant(epsilon=3.0, delta=1e-6, path=f"{name}.db")

    def open_client(accountant):
        table = pd.read_csv(f"{name}.csv", usecols=list(FEATURES))
        return LocalClient(
            name, table, TASK, epsilon=1.0, delta=1e-6, accountant=accountant
        )

    def print_registration():  # the line of run_server.py for this site
        print(f'"{name}": {open_client(ledger).registration},', flush=True)

    site = Site(open_client, ledger, f"{name}.answers")
    with suppress(KeyboardInterrupt):
        serve_site(site, f"{name}.socket", on_ready=print_registration)
