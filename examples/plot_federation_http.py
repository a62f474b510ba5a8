"""
Run a federation over HTTP
==========================

This page is for institutions that want to see a complete federation before they
install one. Three hospitals keep their rows, each behind a small web server with its
own budget and ledger. A coordinator that nobody has to trust combines their
releases.

The transport is ``http_transport.py`` beside this page, about 160 lines of the standard
library. It uses TLS, and a token, because each session spends a site's budget. Here,
all parties are threads of one process.
"""

# tags: quick

# %%
# The task states what every hospital releases. The numbers of rows and the budgets are
# public, and the coordinator registers them.

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from threading import Thread

import matplotlib.pyplot as plt
import numpy as np
from http_transport import Address, exchange, make_certificate, make_token, serve

from skdpspectral import FederatedDPPCA, PrivacyAccountant
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.federation import LocalClient, Registration, Rounds, SpectralTask

sizes = {"north": 4_000, "east": 8_000, "south": 16_000}
registered = {name: Registration(n, 1.0, 1e-6) for name, n in sizes.items()}
pca = FederatedDPPCA(1, bounds=(-20, 20), projection_norm=11.0)
task = SpectralTask(pca, n_features=20)
X, truth = make_spiked_covariance(sum(sizes.values()), 20, random_state=0)
rows = dict(zip(sizes, np.split(X, np.cumsum(list(sizes.values()))[:-1]), strict=True))
folder = Path(tempfile.mkdtemp())

# %%
# The hospitals
# -------------
# Each hospital serves its client. The ledger, certificate and token are files.

kinds = ("token", "pem", "key")
files_of = {name: [folder / f"{name}.{kind}" for kind in kinds] for name in sizes}
for token, *certificate_and_key in files_of.values():
    make_token(token)
    make_certificate(*certificate_and_key)


def open_site(name, disguise=lambda client: client):
    ledger = PrivacyAccountant(4.0, 1e-5, path=folder / f"{name}.db")
    client = disguise(LocalClient(name, rows[name], task, accountant=ledger))
    site = serve(client, *files_of[name])
    Thread(target=site.serve_forever, daemon=True).start()
    return Address(*site.server_address, *files_of[name][:2])


class Liar:
    """A client that answers like its wrapped client, except for the covariance."""

    def __init__(self, client):
        self.client, self.task = client, client.task

    def respond(self, request):
        reply = self.client.respond(request)
        lies = reply.step == self.task.n_steps - 1
        return replace(reply, values=1e6 * reply.values) if lies else reply


# %%
# A session
# ---------
# The loop runs on the coordinator. In a second session, the south multiplies its
# covariance by a million. The coordinator leaves it out by name.


def hold_session(sites):
    rounds = Rounds(registered, task)
    while not rounds.done:
        rounds.collect(exchange(sites, rounds.request(), task, timeout=5))
    return rounds.result()


result = hold_session({name: open_site(name) for name in sizes})
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # it states what `rejected_` states
    sites = {name: open_site(name) for name in ("north", "east")}
    second = hold_session(sites | {"south": open_site("south", Liar)})
print(second.rejected_)

# %%
# The weight of a client follows from registered numbers. A false answer within the
# public bounds moves an average by at most twice this weight times the bound. Both
# sessions were charged before a row was read.

spent = {
    name: PrivacyAccountant(4.0, 1e-5, path=folder / f"{name}.db").spent().epsilon
    for name in sizes
}
fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
axes[0].bar(result.clients_, result.client_weights_)
axes[0].set(xlabel="client", ylabel="weight", title="in the components")
axes[1].bar(spent.keys(), spent.values())
axes[1].axhline(4.0, color="k", ls="--", label="budget")
axes[1].set(xlabel="client", ylabel="epsilon", title="spent in two sessions")
axes[1].legend()
plt.show()
