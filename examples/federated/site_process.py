"""One site as a process: ``python site_process.py FOLDER``, until it is stopped.

The folder is the site's own. ``site.json`` names its client and its budget. Each study
that the site has agreed to has a folder within. ``rows.csv``, a table with column
names, or ``rows.npz`` has its rows. ``task.json`` is what may be released. ``how.json``
says what a session takes of the budget, holds the keys that mask what is sent, and
names the column of the table that is y, if one is (``target``).
Models of users are kept there. All studies have one ledger, ``ledger.db``, but for
those that name another: one ledger protects either rows or users.

A session lives in this process. A process that is started again refuses the sessions
that its ledger has, and takes part in later ones.
"""

import contextlib
import json
import os
import pickle
import signal
import sys
import traceback
from collections import OrderedDict
from multiprocessing.connection import Listener
from pathlib import Path
from threading import Lock, Thread

import numpy as np
from app.agreed import read_task

from skdpspectral import PrivacyAccountant
from skdpspectral.accounting import PrivacyBudgetError
from skdpspectral.federation import (
    GroupClient,
    LocalClient,
    MessageError,
    Request,
    SpectralTask,
)

MOST_SESSIONS = 4  # in memory


class Site:
    """Answers requests of all studies; each session has a client of its own.

    `studies` has the task, what opens a client, and the folder, by the task's digest.
    """

    def __init__(self, name, studies):
        self.name, self.studies = name, studies
        self.clients, self.lock = OrderedDict(), Lock()
        self.longest = max((task.longest() for task, *_ in studies.values()), default=0)

    def respond(self, request):
        asked = Request.from_bytes(request, max_bytes=self.longest)
        if asked.task not in self.studies:
            raise MessageError(
                f"this site has not agreed on the task {asked.task.hex()}"
            )
        _, open_client, folder = self.studies[asked.task]
        if asked.session not in self.clients:
            if asked.step:
                raise MessageError("this site has no client of the session any more")
            self.clients[asked.session] = open_client()
            while len(self.clients) > MOST_SESSIONS:
                self.clients.popitem(last=False)
        client = self.clients[asked.session]
        answer = client.respond(asked).to_bytes()
        with contextlib.suppress(MessageError, AttributeError):  # before the end
            draft = folder / "models.draft"
            draft.write_bytes(pickle.dumps(client.model))
            draft.replace(folder / "models.pickle")
        return answer

    def answer(self, question):
        """Return what a courier gets: an answer, a refusal or a failure."""
        try:
            with self.lock:
                if question == b"name":
                    return b"a" + self.name.encode()
                return b"a" + self.respond(question)
        except MessageError as error:
            return b"r" + str(error).encode()
        except PrivacyBudgetError:  # what else was spent is nobody's business
            return b"r" + b"its ledger has not enough budget left for this session"
        except Exception:
            traceback.print_exc()  # for the site's officer: it may quote rows
            return b"f"

    def serve(self, path):
        """Answer whoever can open a socket."""
        path.unlink(missing_ok=True)
        with Listener(str(path), family="AF_UNIX", backlog=16) as listener:
            print("ready", flush=True)
            while True:
                connection = listener.accept()
                Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with contextlib.suppress(OSError, EOFError), connection:
            asked = connection.recv_bytes(self.longest + 1)
            connection.send_bytes(self.answer(asked))


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
    """Return the task of a study, and what opens a client of it."""
    name, noise_seed = settings["name"], settings["noise_seed"]
    how = json.loads((folder / "how.json").read_text())
    ledger = PrivacyAccountant(
        *(settings["budget"] if noise_seed is None else ()),  # seeds are for tests
        path=folder.parent / f"{how.pop('ledger', 'ledger')}.db",
    )
    if "pair_keys" in how:
        how["pair_keys"] = {n: bytes.fromhex(k) for n, k in how["pair_keys"].items()}
    task = read_task(folder)
    rows = read_rows(folder, how.pop("target", None))
    kind = LocalClient if isinstance(task, SpectralTask) else GroupClient

    how |= {"accountant": ledger, "noise_seed": noise_seed}

    def open_client():
        return kind(name, task=task, **rows, **how)

    open_client()  # columns are checked here, where their holder sees the error
    return task, open_client


def open_site(folder):
    settings = json.loads((folder / "site.json").read_text())
    folders = sorted(path.parent for path in folder.glob("*/how.json"))
    studies = {}
    for study in folders:
        task, open_client = open_study(study, settings)
        if task.digest in studies:
            raise ValueError(
                f"{study} has the task of another study here: requests name their "
                "tasks, so that each study needs one of its own"
            )
        studies[task.digest] = task, open_client, study
    return Site(settings["name"], studies)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    own = Path(sys.argv[1])
    os.umask(0o077)  # socket, ledger and models of users are for this user alone
    open_site(own).serve(own / "site.socket")
