"""A federation of three sites on this machine: ``python run.py``.

A SuperLink and three SuperNodes of Flower run as processes of their own and talk over
the loopback. Beside each SuperNode runs the process of its site, which alone has the
site's rows, its ledger and the answers that it gave. Everything is made in a folder
that is deleted in the end (``--folder`` keeps it), and no other machine is asked.

``--data`` takes "generated" rows, or, where ``SKDPSPECTRAL_DATA`` names the folder of
the data sets, "gordon2002" (samples of lung tissues, some at each site) or "ml-100k"
(viewers of movies, each with all of their ratings at one site). ``--secure`` makes
certificates and keys, as between machines. Needs ``pip install ".[federated,plot]"``.
"""

import argparse
import contextlib
import json
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
from deployment import Deployment

from skdpspectral import PrivacyAccountant
from skdpspectral.datasets import (
    fetch_movielens,
    load_gordon2002,
    make_spiked_covariance,
)
from skdpspectral.federation import Registration, make_task

SITES = {"north": 0.2, "east": 0.3, "south": 0.5}  # shares of the rows
DELTA, BUDGET = 1e-6, 4.0
EPSILONS = {"north": 0.5, "east": 1.0, "south": 1.0}


def generated():
    rows, _ = make_spiked_covariance(30_000, 20, random_state=0)
    return rows, make_task(1, 20, bounds=(-20, 20), projection_norm=11.0)


def gordon2002():
    """Every 25th probe, whatever is in it: to choose by values is to look at them."""
    data = load_gordon2002()
    rows = data.data[:, ::25]
    return rows, make_task(1, rows.shape[1], bounds=data.bounds)


def ml_100k():
    """A row for each viewer, so that a row is all that a viewer has rated."""
    data = fetch_movielens("ml-100k", return_X_y=False)
    users, items = (np.unique(data.data[:, i], return_inverse=True)[1] for i in (0, 1))
    rows = np.zeros((users.max() + 1, items.max() + 1))
    rows[users, items] = data.target - 3.0  # the middle of the scale, not a mean
    return rows, make_task(1, rows.shape[1], center="none")


DATA = {"generated": generated, "gordon2002": gordon2002, "ml-100k": ml_100k}


def prepare(made, data):
    """Give each site its folder, and the server its job."""
    rows, task = DATA[data]()
    order = np.random.default_rng(0).permutation(len(rows))
    ends = np.round(np.cumsum(list(SITES.values())) * len(rows)).astype(int)
    registered = {}
    for name, own in zip(SITES, np.split(rows[order], ends[:-1]), strict=True):
        epsilon = EPSILONS[name]
        budget = [BUDGET, 2 * DELTA]
        made.give_site(
            name, {"X": own}, task, epsilon=epsilon, delta=DELTA, budget=budget
        )
        registered[name] = Registration(len(own), epsilon, DELTA)
    made.give_job(task, registered, min_clients=2)
    return registered


def start(made):
    print("starting a SuperLink, three sites and three SuperNodes ...", flush=True)
    made.start_link()
    made.start_sites(*SITES)
    for name in SITES:
        if made.secure:
            made.register_node(name)
        made.start_node(name)


def show(line):
    """Pass the server's own lines on."""
    if line.startswith("round "):
        print(line, flush=True)


def report(made, said, found, registered, picture):
    if found is None:
        print(f"the job has failed: {said['error']}")
    else:
        print(f"component of {found['components'].shape[1]} features from", end=" ")
        print(", ".join(said["clients"]))
        if "explained_variance" in found:
            print(f"variance along it: {found['explained_variance'][0]:.3f}")
        for name, reason in said["rejected"].items():
            print(f"{name} was rejected: {reason}")
        draw(picture, said["clients"], found["weights"], registered)
    for name in SITES:
        ledger = PrivacyAccountant(path=made.folder / name / "ledger.db")
        print(f"\nledger of {name}: {ledger}")
        for entry in ledger.ledger:
            print(f"  {entry.time:%Y-%m-%d %H:%M} {entry.label}: {entry.epsilon:g}")


def draw(path, names, weights, registered):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = np.array([registered[name].n_samples for name in names])
    fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
    ax.bar(names, weights, label="weight")
    ax.plot(names, rows / rows.sum(), "ko", label="share of the rows")
    ax.set(ylabel="share", title="How the sites count")
    ax.legend()
    fig.savefig(path)
    print(f"weights: {np.round(weights, 3).tolist()}, drawn in {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=DATA, default="generated")
    parser.add_argument("--secure", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--picture", type=Path, default=Path("federated_weights.png"))
    given = parser.parse_args()
    # What is asked to end ends what it has started, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        folder = given.folder
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fed"))
        made = stack.enter_context(Deployment(Path(folder), secure=given.secure))
        registered = prepare(made, given.data)
        start(made)
        made.submit()
        print("all have started, the job is submitted", flush=True)
        said, found = made.outcome(show=show)
        print(json.dumps({"seconds": round(said["seconds"], 1)}))
        report(made, said, found, registered, given.picture)
    return 0 if found is not None else 1


if __name__ == "__main__":
    sys.exit(main())
