"""A federation of three sites on this machine: ``python run.py``.

A SuperLink and three SuperNodes of Flower run as processes of their own and talk over
the loopback. Beside each SuperNode runs the process of its site, which alone has the
site's rows and its ledger. Everything is made in a folder
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

from skdpspectral import DPMatrixFactorization, FederatedDPPCA, PrivacyAccountant
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.federation import GroupTask, Registration, SpectralTask

SITES = {"north": 0.2, "east": 0.3, "south": 0.5}  # shares of the rows
DELTA, BUDGET = 1e-6, 4.0
STUDY = "study"  # one of many that a site may have agreed to
EPSILONS = {"north": 0.5, "east": 1.0, "south": 1.0}


def shared_out(n):
    """Deal n rows or users out to the sites, whatever is in them."""
    order = np.random.default_rng(0).permutation(n)
    ends = np.round(np.cumsum(list(SITES.values())) * n).astype(int)
    return dict(zip(SITES, np.split(order, ends[:-1]), strict=True))


def generated():
    X, _ = make_spiked_covariance(30_000, 20, random_state=0)
    pca = FederatedDPPCA(1, bounds=(-20, 20), projection_norm=11.0, min_clients=2)
    return SpectralTask(pca, 20), {
        name: {"X": X[own]} for name, own in shared_out(len(X)).items()
    }


def gordon2002():
    """Every 25th probe, whatever is in it: to choose by values is to look at them.

    So few rows are far too few for a private component: a trial of the machinery.
    """
    sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
    from real_tables import load_gordon2002

    data = load_gordon2002()
    X = data.data[:, ::25]
    pca = FederatedDPPCA(1, bounds=data.bounds, min_clients=2)
    task = SpectralTask(pca, X.shape[1])
    return task, {name: {"X": X[own]} for name, own in shared_out(len(X)).items()}


def ml_100k():
    """A recommender: sums over viewers are released, their own models stay."""
    sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
    from real_tables import fetch_movielens

    data = fetch_movielens("ml-100k")
    factors = DPMatrixFactorization(
        items=data.item_ids,
        item_features=data.item_features,
        rating_range=(1, 5),
        epsilon=1.0,
    )
    task = GroupTask(factors, noise="node")
    users, place = np.unique(data.data[:, 0], return_inverse=True)
    rows = {}
    for name, own in shared_out(len(users)).items():
        mine = np.isin(place, own)
        rows[name] = {"X": data.data[mine], "y": data.target[mine]}
    return task, rows


DATA = {"generated": generated, "gordon2002": gordon2002, "ml-100k": ml_100k}


def prepare(made, data):
    """Give each site its folder, and the server its job; return public numbers."""
    task, rows = DATA[data]()
    of_users = isinstance(task, GroupTask)
    registered = {}
    for name, own in rows.items():
        how = {"epsilon": EPSILONS[name], "delta": DELTA}
        registered[name] = Registration(len(own["X"]), *how.values())
        made.give_site(name, budget=[BUDGET, 2 * DELTA])
        made.give_study(name, STUDY, own, task, **({} if of_users else how))
    # How many users a site has is told to nobody.
    clients = dict.fromkeys(rows, ()) if of_users else registered
    made.give_job(task, clients, min_clients=2)
    return registered


def start(made):
    print("starting a SuperLink, three sites and three SuperNodes ...", flush=True)
    made.start_sites(*SITES)
    made.start_link()
    for name in SITES:
        if made.secure:
            made.register_node(name)
        made.start_node(name)
    made.wait_for_sites(*SITES)


def show(line):
    """Pass the server's own lines on."""
    if line.startswith("round "):
        print(line, flush=True)


def report(made, said, found, registered, picture):
    if found is None:
        print(f"the job has failed: {said['error']}")
    else:
        print("from", ", ".join(said["clients"]), "the server has:")
        for name, values in sorted(found.items()):
            print(f"  {name} of shape {values.shape}")
        for name, reason in said["rejected"].items():
            print(f"{name} was rejected: {reason}")
        if "client_weights_" in found:
            draw(picture, said["clients"], found["client_weights_"], registered)
    for name in SITES:
        ledger = PrivacyAccountant(path=made.folder / name / "ledger.db")
        print(f"\nledger of {name}: {ledger}")
        for entry in ledger.ledger:
            print(f"  {entry.time:%Y-%m-%d %H:%M} {entry.label}: {entry.epsilon:g}")
        if (made.folder / name / STUDY / "models.pickle").exists():
            print("  the models of its users are in its own folder")


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
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: everything that was started has ended")
