"""
Run a federation over HTTP
==========================

Three hospitals keep their rows, each behind a small web server of its own, with a
budget and a ledger of its own. A coordinator that nobody has to trust posts requests to
them, and makes one result of the releases that come back. One hospital goes off line in
the middle; another claims what it cannot have.

The transport is ``http_transport.py`` beside this page, some 160 lines of
the standard library. Requests travel by TLS and carry a token: a site answers nobody
else, since each session spends its budget. Here all parties are threads of one process
on the loopback, and each certificate is signed by itself, by ``openssl``; far apart
they would have certificates of an authority that both trust.
"""

# tags: quick

# %%
# What is agreed on beforehand
# ----------------------------
# The task says what every hospital will release. It travels as bytes; all messages
# carry its digest, and nobody answers a request of another one. The numbers of rows and
# the budgets are public: the coordinator registers them, and weighs by them.

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from threading import Thread

import matplotlib.pyplot as plt
import numpy as np
from http_transport import (
    Address,
    exchange,
    make_certificate,
    make_token,
    run,
    serve,
)

from skdpspectral import PrivacyAccountant
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.federation import (
    LocalClient,
    Registration,
    Rounds,
    Server,
    SpectralTask,
    Topic,
    make_task,
)
from skdpspectral.metrics import subspace_distance

sizes = {"north": 4_000, "east": 8_000, "south": 16_000}
registered = {name: Registration(n, 1.0, 1e-6) for name, n in sizes.items()}
task = make_task(1, 20, bounds=(-20, 20), projection_norm=11.0)
print(len(task.to_bytes()), "bytes, digest", task.digest.hex())
print([topic.name for topic in task.topics])

# %%
# The hospitals
# -------------
# Each reads the task, looks at it, and serves its client. Its ledger is a file. So are
# its certificate, with a key, and its token: the coordinator has got certificate and
# token by another way than the network, and has files of its own of them.

X, truth = make_spiked_covariance(sum(sizes.values()), 20, random_state=0)
rows = dict(zip(sizes, np.split(X, np.cumsum(list(sizes.values()))[:-1]), strict=True))
folder = Path(tempfile.mkdtemp())


for name in sizes:
    make_token(folder / f"{name}.token")
    make_certificate(folder / f"{name}.pem", folder / f"{name}.key")


def open_site(name, task, disguise=lambda client: client):
    ledger = PrivacyAccountant(4.0, 1e-5, path=folder / f"{name}.db")
    own = SpectralTask.from_bytes(task.to_bytes())
    client = disguise(LocalClient(name, rows[name], own, accountant=ledger))
    files = [folder / f"{name}.{kind}" for kind in ("token", "pem", "key")]
    site = serve(client, *files)
    Thread(target=site.serve_forever, daemon=True).start()
    return site


def address_of(name, site):
    token, certificate = folder / f"{name}.token", folder / f"{name}.pem"
    return Address(*site.server_address, token, certificate)


def close(site):
    site.shutdown()
    site.server_close()


# %%
# The loop
# --------
# ``run`` is four lines: as long as there is something to ask for, it posts it, and
# hands over what came back.

sites = {name: open_site(name, task) for name in sizes}
addresses = {name: address_of(name, site) for name, site in sites.items()}
result = run(Rounds(Server(registered, task)), addresses)
print("distance:", round(subspace_distance(result.components, truth), 3))
print("variance along the component:", result.explained_variance.round(1))
for site in sites.values():
    close(site)

# %%
# Who has not the token
# ---------------------
# A stranger who can reach a site gets nothing from it, and spends nothing of its
# budget: the site refuses before it reads the request.

site = open_site("north", task)
stranger = Rounds(Server({"north": registered["north"]}, task))
address = address_of("north", site)
guess = address._replace(token=make_token(folder / "guess.token"))
print(exchange({"north": guess}, stranger.request(), task))
print(len(PrivacyAccountant(4.0, 1e-5, path=folder / "north.db").ledger), "session")
close(site)

# %%
# One is lost, one lies
# ---------------------
# After the means the east goes off line, and the south multiplies its covariance. Both
# are left out by name. (Their components were sent before, and stay.)


class Liar:
    """Answers as its client does, but for the covariance."""

    def __init__(self, client):
        self.client, self.task = client, client.task

    def respond(self, request):
        reply = self.client.respond(request)
        last = reply.topic is Topic.COVARIANCE
        return replace(reply, values=1e6 * reply.values) if last else reply


sites = {name: open_site(name, task) for name in ("north", "east")}
sites["south"] = open_site("south", task, Liar)
addresses = {name: address_of(name, site) for name, site in sites.items()}
rounds = Rounds(Server(registered, task))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # they say what `rejected` says
    while not rounds.done:
        if rounds.request().topic is Topic.COVARIANCE:
            close(sites["east"])
        rounds.collect(exchange(addresses, rounds.request(), task, timeout=5))
result = rounds.result()
for name, reason in result.rejected.items():
    print(f"{name}: {reason}")
print("variance along the component:", result.explained_variance.round(1))
for name in ("north", "south"):
    close(sites[name])

# %%
# What a liar can still do
# ------------------------
# A lie within the public bounds is not seen. It moves an average by at most twice the
# liar's weight times the bound, and the weight is made of registered numbers.

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.bar(result.clients, result.weights)
ax.set(ylabel="weight in the components")

# %%
# The ledgers
# -----------
# Two sessions each, charged before a row was read, whatever came of the answers.

for name in sizes:
    ledger = PrivacyAccountant(4.0, 1e-5, path=folder / f"{name}.db")
    print(name, len(ledger.ledger), "sessions,", ledger.spent())
