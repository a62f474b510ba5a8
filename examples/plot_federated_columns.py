"""
Components of two hospitals with different columns
==================================================

This page is for institutions with tables of the same measurements in different orders.
The task of the federation contains the names of the features, so each client can
reorder its own columns. The result is a fitted :class:`~skdpspectral.FederatedDPPCA`,
which transforms new rows and can be saved.
"""

# tags: quick

# %%
# Two dataframes
# --------------
# In a real federation, each dataframe is on its own machine. The columns of the second
# hospital are in reverse order.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpspectral import FederatedDPPCA, PrivacyAccountant
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.federation import LocalClient, Rounds, SpectralTask

names = [f"marker_{j}" for j in range(10)]
X, truth = make_spiked_covariance(24_000, 10, random_state=0)
table = pd.DataFrame(X, columns=names)
hospitals = {"north": table[:8_000], "south": table[8_000:][names[::-1]]}

# %%
# A task with names
# -----------------
# All parties agree on the task beforehand. Each hospital has its own budget and its own
# ledger. A client refuses other columns, and arrays without names, at no cost.

task = SpectralTask(FederatedDPPCA(1), n_features=10, feature_names=names)
ledgers = {name: PrivacyAccountant(epsilon=1.0, delta=1e-6) for name in hospitals}
clients = {
    name: LocalClient(name, rows, task, epsilon=1.0, accountant=ledgers[name])
    for name, rows in hospitals.items()
}
try:
    LocalClient("east", hospitals["north"].rename(columns={"marker_3": "age"}), task)
except ValueError as error:
    print(error)

# %%
# Rounds on the server
# --------------------
# The server receives the public numbers of the hospitals, and their messages as bytes.

registered = {name: client.registration for name, client in clients.items()}
rounds = Rounds(registered, task)
while not rounds.done:
    request = rounds.request().to_bytes()
    rounds.collect(
        {name: client.respond(request).to_bytes() for name, client in clients.items()}
    )

# %%
# A fitted estimator
# ------------------
# ``result`` releases nothing more. The estimator has the feature names of the task, the
# components, and the plan of all hospitals.

pca = rounds.result()
print(f"|cos| with the true direction: {abs(pca.components_[0] @ truth[0]):.4f}")
print(pca.privacy_)
for name, ledger in ledgers.items():
    print(f"{name}: epsilon={ledger.spent().epsilon:.3f}")

# %%
# A published file
# ----------------
# The file contains the released values, as arrays and JSON. Anyone can load it and
# transform rows with these columns.

path = Path(tempfile.mkdtemp()) / "components.npz"
pca.save(path)
published = FederatedDPPCA.load(path)
new_rows, _ = make_spiked_covariance(500, 10, random_state=0)
scores = published.transform(pd.DataFrame(new_rows, columns=names))

# %%
# Without names, columns in two different orders would be added up as if they were in
# the same order. A task without names accepts only arrays, so the parties must agree on
# the order by other means.

by_position = SpectralTask(FederatedDPPCA(1), n_features=10)
clients = {
    name: LocalClient(name, rows.to_numpy(), by_position)
    for name, rows in hospitals.items()
}
rounds = Rounds({name: c.registration for name, c in clients.items()}, by_position)
while not rounds.done:
    request = rounds.request()
    rounds.collect({name: client.respond(request) for name, client in clients.items()})
mixed = rounds.result()

cosines = [abs(found.components_[0] @ truth[0]) for found in (mixed, pca)]
print("|cos| by position and by name:", np.round(cosines, 4))
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
axes[0].bar(["by position", "by name"], cosines)
axes[0].set(xlabel="fit", ylabel="|cos| with the true direction", ylim=(0, 1.05))
axes[1].hist(scores[:, 0], bins=30)
axes[1].set(xlabel=published.get_feature_names_out()[0], ylabel="number of new rows")
