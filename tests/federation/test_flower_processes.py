"""Federations of separate processes on Flower: by loopback, with crashes in the middle.

Each site has a process and a ledger of its own; beside it runs a SuperNode,
and a SuperLink for all. The same examples/federated that the documentation shows.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from federation_tools import hold, keys_of, make_task

import skdpspectral
from skdpspectral import (
    DPMatrixFactorization,
    FederatedDPPCA,
    LRSRegressor,
    PrivacyAccountant,
    SparseDPPCA,
)
from skdpspectral.datasets import make_low_rank_sparse_tasks, make_ratings
from skdpspectral.federation import (
    GroupClient,
    GroupRounds,
    GroupTask,
    LocalClient,
    Registration,
    Rounds,
)
from skdpspectral.linear_model import PrivateRounds

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
SPARSE = make_task(1, P, n_rounds=1, n_nonzero_features=2)


def rows_of(name):
    rng = np.random.default_rng(NAMES.index(name))
    return rng.normal(size=(3000, P)) * [1, 1, 4, 1, 1, 1, 1, 1]


def clients_of(task):
    return {
        name: LocalClient(name, rows_of(name), task, epsilon=2.0, noise_seed=seed)
        for seed, name in enumerate(NAMES)
    }


def in_process(task):
    return hold(Rounds(REGISTERED, task), clients_of(task))


def ledger_of(folder, name, ledger="ledger"):
    return PrivacyAccountant(path=folder / name / f"{ledger}.db").ledger


def wait_for(made, pattern, seconds=90.0):
    """Wait until the job has said something."""
    made.wait_until("job", lambda: re.search(pattern, made.log("job")), seconds)


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(EXAMPLE))
    try:
        import certificates
        import deployment
        import processes
        from app import agreed
    finally:
        sys.path.remove(str(EXAMPLE))
    found = {}
    for module in (certificates, deployment, processes, agreed):
        found |= vars(module)
    return SimpleNamespace(**found)


def give_sites(made, *names, **budgets):
    for place, name in enumerate(NAMES):
        if name in (names or NAMES):
            budget = [budgets.get(name, 9.0), 1e-4]
            made.give_site(name, budget=budget, noise_seed=None if budgets else place)


def give_rows(made, task, *names, study="study"):
    how = {"epsilon": 2.0, "delta": 1e-6}
    for name in names or NAMES:
        made.give_study(name, study, {"X": rows_of(name)}, task, **how)


# Models of users: who has which, what is agreed on, and the same in this process.
USERS = make_low_rank_sparse_tasks(150, 12, 4, sparsity=1, random_state=0)
RATINGS = make_ratings(300, 20, n_ratings_per_user=8, random_state=0)
REGRESSION = LRSRegressor(sparsity=1, solver=PrivateRounds(1), epsilon=2.0)
MASKED = GroupTask(REGRESSION, 4, noise="distributed", n_shares=3, masked=NAMES)
FACTORS = GroupTask(
    DPMatrixFactorization(
        items=RATINGS.item_ids,
        item_features=RATINGS.item_features,
        rating_range=(1, 5),
        epsilon=2.0,
    ),
    noise="node",
)


def users_of(task, place):
    if task is not FACTORS:
        X, y, users = USERS
        own = users % 3 == place
        return {"X": X[own], "y": y[own], "users": users[own]}
    own = RATINGS.data[:, 0].astype(int) % 3 == place
    return {"X": RATINGS.data[own], "y": RATINGS.target[own]}


def users_in_process(task):
    clients = {
        name: GroupClient(
            name, task, **users_of(task, place), **keys_of(task, name), noise_seed=place
        )
        for place, name in enumerate(NAMES)
    }
    return hold(GroupRounds(NAMES, task), clients)


def give_users(made, keys):
    """What is sent of the regression is masked; of the factors it need not be."""
    for place, name in enumerate(NAMES):
        how = {"ledger": "users", "pair_keys": keys[name]}
        made.give_study(name, "lrs", users_of(MASKED, place), MASKED, **how)
        rows = users_of(FACTORS, place)
        made.give_study(name, "factors", rows, FACTORS, ledger="users")
    for job, task in (("lrs", MASKED), ("factors", FACTORS)):
        made.give_job(task, dict.fromkeys(NAMES, ()), job=job)


def equal(found, expected, most=1e-10):
    assert found
    for key, value in found.items():
        other = getattr(expected, key)
        assert np.shape(value) == np.shape(other), key
        assert np.abs(np.subtract(value, other, dtype=float)).max() <= most, key


def ended_well(made, job):
    """A job's result, of all clients; show what it took."""
    said, found = made.outcome(job)
    assert "error" not in said, (said, made.log(job))
    assert said["rejected"] == {}
    assert said["clients"] == list(NAMES)
    print(f"{job}: {said['seconds']:.1f} s")
    print(*re.findall("round .*", made.log(job)), sep="\n")
    return found


@pytest.mark.filterwarnings("ignore:answers of clients were collected one by one")
def test_three_processes(tools, tmp_path):
    """The result is that of one process, number by number, for all four estimators.

    Their jobs run at a time, each with a session of its own. One masks what it sends:
    its sums are those without masks, to the last bit.
    """
    jobs = {"directions": DIRECTIONS, "sparse": SPARSE}
    with tools.Deployment(tmp_path) as made:
        give_sites(made)
        for job, task in jobs.items():
            give_rows(made, task, study=job)
            made.give_job(task, REGISTERED, job=job)
        give_users(made, tools.make_pair_keys(NAMES))
        start(made, *NAMES)
        made.submit("factors")  # the longest
        made.wait_until_begun("factors")
        for job in ("lrs", "sparse", "directions"):
            made.submit(job)
        expected = {job: in_process(task) for job, task in jobs.items()}
        expected["factors"] = users_in_process(FACTORS)
        for job, result in expected.items():
            equal(ended_well(made, job), result)
            if job == "factors":
                assert (tmp_path / "north" / job / "models.pickle").exists()
        for job, kind in (("directions", FederatedDPPCA), ("sparse", SparseDPPCA)):
            saved = kind.load(tmp_path / job / "estimator.npz")
            equal({"components_": saved.components_}, expected[job])
            assert [name for name, _ in saved.privacy_.blocks] == list(NAMES)
        equal(ended_well(made, "lrs"), users_in_process(MASKED), most=0.0)
        family = {
            pid: begun
            for process in made.running.values()
            for pid, begun in tools.descendants(process.pid).items()
        }
        ids = [process.pid for process in made.running.values()]
    assert len(family) >= 4  # an executor for each node, and the server's
    assert not any(tools.alive(pid, begun) for pid, begun in family.items())
    assert not any(Path(f"/proc/{pid}").exists() for pid in ids)
    for name in NAMES:
        entries = [*ledger_of(tmp_path, name), *ledger_of(tmp_path, name, "users")]
        assert [(e.epsilon, e.seeded) for e in entries] == [(2.0, True)] * 4
        assert [e.unit for e in entries] == ["row", "row", "user", "user"]
        assert len({e.label for e in entries}) == 4  # sessions


def start(made, *nodes):
    made.start_sites(*NAMES)
    made.start_link()
    for name in nodes:
        made.start_node(name)
    made.wait_for_sites(*NAMES)


@pytest.mark.filterwarnings("ignore:client .south. was rejected")
def test_crashes(tools, tmp_path):
    """A site ends as by kill -9 in the middle of a session, and is started again.

    It sits out the rest of that session; what remains completes.
    """
    with tools.Deployment(tmp_path) as made:
        give_sites(made)
        give_rows(made, SPARSE)
        made.give_job(SPARSE, REGISTERED, timeout=90.0)
        start(made, "north", "south")  # so that the round cannot end
        made.submit()
        wait_for(made, "round 1: south answered")
        made.kill("south")
        made.start_sites("south")
        made.wait_for_sites("south")
        made.start_node("east")
        said, found = made.outcome()
    assert list(said["rejected"]) == ["south"], said
    assert "no client of the session any more" in said["rejected"]["south"]
    assert said["clients"] == ["north", "east"]
    equal(found, in_two_rounds(NAMES, NAMES[:2]))
    for name in NAMES:
        assert len(ledger_of(tmp_path, name)) == 1


def in_two_rounds(*answering):
    """The same session in this process, of those who answer in each of its rounds."""
    clients = clients_of(SPARSE)
    rounds = Rounds(REGISTERED, SPARSE)
    for names in answering:
        request = rounds.request()
        rounds.collect({name: clients[name].respond(request) for name in names})
    return rounds.result()


def test_certificates_and_keys(tools, tmp_path):
    """Whom the server does not know, and who does not know the server, stays out.

    Who is known and has no budget refuses, and the server says why.
    """
    task = make_task(1, P)
    with tools.Deployment(tmp_path, secure=True) as made:
        give_sites(made, east=1.0)
        give_rows(made, task)
        made.give_job(task, {name: REGISTERED[name] for name in NAMES[:2]})
        made.start_sites(*NAMES[:2])
        made.start_link()
        for name in NAMES[:2]:
            made.register_node(name)
            made.start_node(name)
        # One has a key that nobody has registered, one trusts another authority.
        keys, other = made.keys(), tmp_path / "other"
        other.mkdir()
        tools.make_authority(other)
        tools.make_node_key(keys, "south")
        made.start_node("south")
        wrong = ["--root-certificates", other / "authority.pem"]
        wrong += ["--max-retries", "1"]
        made.running["unknown"] = made.running.pop("south-node")
        os.rename(tmp_path / "south-node.log", tmp_path / "unknown.log")
        made.start_node(
            "south", *wrong, "--auth-supernode-private-key", keys / "south.key"
        )
        made.wait_for_sites(*NAMES[:2])
        made.submit()
        said, _ = made.outcome()
        assert list(said["rejected"]) == ["east"]
        assert "has not enough budget left" in said["rejected"]["east"]
        assert said["clients"] == ["north"]
        assert made.running["unknown"].poll() not in (None, 0)
        assert "Failed to activate SuperNode" in made.log("unknown")
        assert made.running["south-node"].poll() not in (None, 0)
        assert "CERTIFICATE_VERIFY_FAILED" in made.log("south-node")
    assert [len(ledger_of(tmp_path, name)) for name in NAMES[:2]] == [1, 0]


def left_of(tools, command, ready, number, least):
    """Processes that are left of a run that a signal has ended."""
    paths = [Path(skdpspectral.__file__).parents[1], EXAMPLE]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, env=environment) as run:
        while ready not in (line := run.stdout.readline()):
            assert line, "the run has ended"
        family = tools.descendants(run.pid)
        assert len(family) >= least
        if number is None:
            run.stdin.close()
        else:
            run.send_signal(number)
        run.wait(60)
        assert run.returncode != 0
    deadline = time.monotonic() + 30
    while left := [pid for pid in family if tools.alive(pid, family[pid])]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return left


RUNS = """
import sys, time
from pathlib import Path
from processes import Processes
folder = Path(sys.argv[1])
with Processes(folder) as made:
    for name in ("a", "b"):
        made.start(name, [sys.executable, folder / "child.py"])
    while any("ready" not in made.log(name) for name in ("a", "b")):
        time.sleep(0.05)
    print("ready", flush=True)
    sys.stdin.readline()
    raise RuntimeError
"""
CHILD = """
import subprocess, sys
watch = "import os, time; p = os.getppid(); print('ready', flush=True)"
watch += chr(10) + "while os.getppid() == p: time.sleep(0.1)"
subprocess.run([sys.executable, "-c", watch])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, None])
def test_nothing_is_left_of_a_run(number, tools, tmp_path):
    """After Ctrl-C, after kill -9, which no handler sees, and after an error (None)."""
    # A child's child ends once its parent has gone, as those of Flower do.
    (tmp_path / "child.py").write_text(CHILD)
    command = [sys.executable, "-c", RUNS, tmp_path]
    assert not left_of(tools, command, b"ready", number, least=4)
