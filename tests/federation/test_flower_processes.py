"""Federations of separate processes on Flower: by loopback, with crashes in the middle.

Each site has a process, a ledger and answers of its own; beside it runs a SuperNode,
and a SuperLink for all. The same examples/federated that the documentation shows.
"""

import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from skdpspectral import PrivacyAccountant
from skdpspectral.federation import (
    InProcessSession,
    LocalClient,
    Registration,
    Rounds,
    Server,
    make_task,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "federated"
pytest.importorskip("flwr", reason="Flower needs Python 3.11 or later")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not here"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]
P, NAMES = 8, ("north", "east", "south")
REGISTERED = {name: Registration(3000, 2.0, 1e-6) for name in NAMES}
DIRECTIONS = make_task(2, P, bounds=(-20, 20))
SPARSE = make_task(1, P, n_rounds=1, aggregation="matrix")
STEPS = {"n_nonzero_features": 2}


def rows_of(name):
    rng = np.random.default_rng(NAMES.index(name))
    return rng.normal(size=(3000, P)) * [1, 1, 4, 1, 1, 1, 1, 1]


def clients_of(task):
    return {
        name: LocalClient(name, rows_of(name), task, epsilon=2.0, noise_seed=seed)
        for seed, name in enumerate(NAMES)
    }


def in_process(task, **steps):
    server = Server(REGISTERED, task)
    return InProcessSession(server, clients_of(task)).run(Rounds(server, **steps))


def ledger_of(folder, name):
    return PrivacyAccountant(path=folder / name / "ledger.db").ledger


def wait_for(made, pattern, seconds=90.0):
    """Wait until a job has said something."""
    deadline = time.monotonic() + seconds
    while not re.search(pattern, made.log("flwr")):
        assert time.monotonic() < deadline, made.log("flwr")
        time.sleep(0.05)


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(EXAMPLE))
    try:
        import deployment
        import processes
    finally:
        sys.path.remove(str(EXAMPLE))
    return deployment, processes


def give(made, task, budget=2.0):
    for name in NAMES:
        made.give_site(
            name,
            {"X": rows_of(name)},
            task,
            epsilon=2.0,
            delta=1e-6,
            budget=[budget, 1e-5],
            noise_seed=NAMES.index(name),
        )


def equal(found, expected):
    for key in found:
        assert np.abs(found[key] - getattr(expected, key)).max() <= 1e-10, key


@pytest.mark.filterwarnings("ignore:client 'south' was rejected")
def test_three_processes(tools, tmp_path_factory):
    """Two jobs one after another, with a site, a node and the server killed between.

    The result is that of one process, number by number, and nobody is charged twice.
    """
    folder = tmp_path_factory.mktemp("f")
    with tools[0].Deployment(folder) as made:
        give(made, DIRECTIONS)
        made.give_job(DIRECTIONS, REGISTERED)
        made.start_link()
        for name in NAMES:
            made.start_site(name)
            made.start_node(name)
        begun = time.monotonic()
        made.submit()
        said, found = made.outcome()
        assert said["rejected"] == {}
        equal(found, in_process(DIRECTIONS))
        print(f"directions: {time.monotonic() - begun:.1f} s")
        print(*re.findall("round .*", made.log("flwr")), sep="\n")
        for name in NAMES:
            (entry,) = ledger_of(folder, name)
            assert (entry.epsilon, entry.seeded) == (2.0, True)
        crashes(made, folder)
        family = {
            pid: start
            for process in made.running.values()
            for pid, start in tools[1].descendants(process.pid).items()
        }
        ids = [process.pid for process in made.running.values()]
    assert len(family) >= 4  # an executor for each node, and the server's
    assert not any(tools[1].alive(pid, start) for pid, start in family.items())
    assert not any(Path(f"/proc/{pid}").exists() for pid in ids)


def crashes(made, folder):
    """A second job, in whose first round a site and the server end as by kill -9."""
    for name in NAMES:
        made.stop(name)
    give(made, SPARSE, budget=4.0)
    for name in NAMES:
        (folder / name / "ledger.db").unlink()  # a budget of another size
        made.start_site(name)
    made.give_job(SPARSE, REGISTERED, min_clients=2, timeout=60.0, **STEPS)
    begun = time.monotonic()
    made.stop("north-node")  # so that the round cannot end
    made.submit()
    wait_for(made, "round 1 of 2: south answered")
    made.kill("link")
    made.kill("south")
    for name in NAMES:
        made.stop(f"{name}-node")
    made.stop("flwr")
    # Everything is started again. South answers with what it answered before, and
    # refuses what comes next; the others go on.
    made.start_link()
    made.start_site("south")
    for name in NAMES:
        made.start_node(name)
    made.submit()
    said, found = made.outcome()
    assert list(said["rejected"]) == ["south"]
    assert "what was not answered is spent" in said["rejected"]["south"]
    assert said["clients"] == ["north", "east"]
    equal(found, without_south_in_the_end())
    print(f"with crashes: {time.monotonic() - begun:.1f} s")
    for name in NAMES:
        assert len(ledger_of(folder, name)) == 1


def without_south_in_the_end():
    """The same session in this process."""
    clients = clients_of(SPARSE)
    rounds = Rounds(Server(REGISTERED, SPARSE), **STEPS)
    for names in (NAMES, NAMES[:2]):
        request = rounds.request()
        rounds.collect({name: clients[name].respond(request) for name in names})
    return rounds.result()


def test_certificates_and_keys(tools, tmp_path_factory):
    """Whom the server does not know, and who does not know the server, stays out."""
    folder = tmp_path_factory.mktemp("k")
    task = make_task(1, P)
    with tools[0].Deployment(folder, secure=True) as made:
        give(made, task)
        known = {name: REGISTERED[name] for name in NAMES[:2]}
        made.give_job(task, known)
        made.start_link()
        for name in NAMES:
            made.start_site(name)
        for name in NAMES[:2]:
            made.register_node(name)
            made.start_node(name)
        # One has a key that nobody has registered, one trusts another authority.
        keys, other = made.keys(), folder / "other"
        other.mkdir()
        tools[0].make_authority(other)
        tools[0].make_node_key(keys, "south")
        made.start_node("south")
        wrong = ["--root-certificates", other / "authority.pem"]
        wrong += ["--max-retries", "1"]
        made.running["unknown"] = made.running.pop("south-node")
        os.rename(folder / "south-node.log", folder / "unknown.log")
        made.start_node(
            "south", *wrong, "--auth-supernode-private-key", keys / "south.key"
        )
        made.submit()
        said, _ = made.outcome()
        assert said["rejected"] == {}
        assert said["clients"] == ["north", "east"]
        assert made.running["unknown"].poll() not in (None, 0)
        assert "Failed to activate SuperNode" in made.log("unknown")
        assert made.running["south-node"].poll() not in (None, 0)
        assert "CERTIFICATE_VERIFY_FAILED" in made.log("south-node")
    assert [len(ledger_of(folder, name)) for name in NAMES] == [1, 1, 0]
