"""A site: what it answers again, and what it refuses, however it has ended before."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flower_tools import make_site, rows_of

import skdpspectral
from skdpspectral import FederatedDPPCA, PrivacyAccountant, PrivacyBudgetError
from skdpspectral.federation import (
    KeptSession,
    LocalClient,
    MessageError,
    Request,
    Rounds,
    Server,
    Site,
    SiteConnection,
    Topic,
    make_task,
    serve_site,
)
from skdpspectral.federation import _flower as flower
from skdpspectral.federation._site_socket import (
    SiteError,
    decode_outcome,
    encode_outcome,
)

TASK = make_task(1, 6, n_rounds=2, aggregation="matrix")
SPENT = "requests without an answer are spent, and their noise is not drawn again"


def ask(step=0, session=bytes(16), basis=()):
    topic = TASK.topics[step]
    return Request(session, TASK.digest, step, topic, basis).to_bytes()


BASIS = rows_of(0, 6, 1)


def ledger_of(folder):
    return PrivacyAccountant(path=folder / "a.db").ledger


def test_a_site_that_is_started_again_gives_the_same_bytes(tmp_path):
    site = make_site(tmp_path, "a", TASK)
    first, second = site.respond(ask()), site.respond(ask(1, basis=BASIS))
    site.close()
    site = make_site(tmp_path, "a", TASK)
    assert site.respond(ask()) == first
    assert site.respond(ask(1, basis=BASIS)) == second
    assert len(ledger_of(tmp_path)) == 1


def test_what_was_not_answered_before_is_spent(tmp_path):
    site = make_site(tmp_path, "a", TASK, budget=9.0)
    site.respond(ask())
    site.close()
    site = make_site(tmp_path, "a", TASK, budget=9.0)
    with pytest.raises(MessageError, match=SPENT):
        site.respond(ask(1, basis=BASIS))
    assert len(ledger_of(tmp_path)) == 1


@pytest.mark.parametrize("lost", ["a.answers", None])
def test_a_charge_without_an_answer_is_never_drawn_again(lost, tmp_path, monkeypatch):
    """The file of answers is lost, or the process ends before it is written."""
    site = make_site(tmp_path, "a", TASK, budget=9.0)
    if lost is None:
        monkeypatch.setattr(site._answers, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            site.respond(ask())
    else:
        site.respond(ask())
    site.close()
    if lost is not None:
        (tmp_path / lost).unlink()
    site = make_site(tmp_path, "a", TASK, budget=9.0)
    with pytest.raises(MessageError, match=SPENT):
        site.respond(ask())
    assert [entry.label for entry in ledger_of(tmp_path)] == ["session " + 32 * "0"]


def test_sessions_are_charged_one_by_one_until_the_ledger_refuses(tmp_path):
    site = make_site(tmp_path, "a", TASK, epsilon=1.0, budget=1.5)
    answers = {site.respond(ask(session=bytes([i]) * 16)) for i in range(2)}
    assert len(answers) == 2
    with pytest.raises(PrivacyBudgetError):
        site.respond(ask(session=bytes([7]) * 16))
    assert site.respond(ask(session=bytes([0]) * 16)) in answers
    assert len(ledger_of(tmp_path)) == 2


def test_of_sessions_that_are_not_held_answers_are_given_again(tmp_path):
    site = make_site(tmp_path, "a", TASK, budget=9.0)
    sessions = [bytes([i]) * 16 for i in range(6)]
    first = {session: site.respond(ask(session=session)) for session in sessions}
    assert {s: site.respond(ask(session=s)) for s in sessions} == first
    with pytest.raises(MessageError, match=SPENT):
        site.respond(ask(1, sessions[0], BASIS))
    site.respond(ask(1, sessions[-1], BASIS))


def test_what_is_refused_charges_nothing_and_holds_nothing(tmp_path):
    site = make_site(tmp_path, "a", TASK)
    for i in range(20):
        with pytest.raises(MessageError):
            site.respond(ask(1, bytes([i]) * 16, BASIS))
    assert len(site._clients) == 0
    site.respond(ask())
    assert len(ledger_of(tmp_path)) == 1


def counting_site(folder, budget=9.0):
    """A site whose clients are counted."""
    opened = []

    def open_client(accountant):
        opened.append(LocalClient("a", rows_of(0), TASK, accountant=accountant))
        return opened[-1]

    ledger = PrivacyAccountant(budget, 1e-5, path=folder / "a.db")
    return Site(open_client, ledger, folder / "a.answers"), opened


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"task": bytes(16)}, "another task"),
        ({"step": 1, "topic": TASK.topics[1], "basis": BASIS}, "before step 0"),
        ({"topic": Topic.SUM}, "step 0 asks for"),
        ({"basis": BASIS}, "a basis of shape"),
    ],
)
def test_no_client_is_opened_for_what_is_refused(wrong, reason, tmp_path):
    """Each of them reads its rows anew."""
    site, opened = counting_site(tmp_path)
    given = {"session": bytes(16), "task": TASK.digest, "step": 0}
    request = Request(**{**given, "topic": TASK.topics[0], **wrong}).to_bytes()
    with pytest.raises(MessageError, match=reason):
        site.respond(request)
    assert len(opened) == 1
    assert len(ledger_of(tmp_path)) == 0
    site.respond(ask())
    assert len(opened) == 2


def test_no_client_is_opened_for_what_the_ledger_refuses(tmp_path):
    site, opened = counting_site(tmp_path, budget=1.5)
    for i in range(2):
        site.respond(ask(session=bytes([i]) * 16))
    with pytest.raises(PrivacyBudgetError):
        site.respond(ask(session=bytes([7]) * 16))
    assert len(opened) == 3
    assert len(ledger_of(tmp_path)) == 2


def test_another_task_waits_for_nobody(tmp_path):
    site, request = (
        make_site(tmp_path, "a", TASK),
        Request(bytes(16), bytes(16), 0, TASK.topics[0]),
    )
    reasons = []

    def refused():
        with pytest.raises(MessageError, match="another task") as caught:
            site.respond(request.to_bytes())
        reasons.append(caught)

    with site._lock:  # as for somebody whose answer takes long
        thread = threading.Thread(target=refused, daemon=True)
        thread.start()
        thread.join(5.0)
        assert len(reasons) == 1


def test_two_processes_cannot_serve_one_site(tmp_path):
    site = make_site(tmp_path, "a", TASK)
    with pytest.raises(ValueError, match="only one process can use it at a time"):
        make_site(tmp_path, "a", TASK)
    site.close()
    make_site(tmp_path, "a", TASK).close()


def test_threads_that_ask_the_same_get_the_same(tmp_path):
    site, found = make_site(tmp_path, "a", TASK), []
    threads = [
        threading.Thread(target=lambda: found.append(site.respond(ask())))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(ledger_of(tmp_path)) == 1


@pytest.mark.parametrize("what", ["text", "database", "session"])
def test_another_kind_of_file_is_left_as_it_is(what, tmp_path):
    path = tmp_path / "a.answers"
    if what == "text":
        path.write_text("a letter" * 1000)
    elif what == "database":
        with sqlite3.connect(path) as file:
            file.execute("CREATE TABLE letters (letter TEXT)")
        file.close()
    else:
        KeptSession(path).close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="a different kind of file"):
        make_site(tmp_path, "a", TASK)
    assert path.read_bytes() == before


def test_a_client_that_is_not_charged_to_the_ledger_answers_nothing(tmp_path):
    def open_client(accountant):
        return LocalClient("a", rows_of(0), TASK)

    ledger = PrivacyAccountant(path=tmp_path / "a.db")
    site = Site(open_client, ledger, tmp_path / "a.answers")
    with pytest.raises(RuntimeError, match="the accountant that it receives"):
        site.respond(ask())


def test_a_site_needs_a_ledger(tmp_path):
    with pytest.raises(ValueError, match="must be a PrivacyAccountant"):
        Site(lambda _: None, None, tmp_path / "a.answers")


def test_files_are_for_their_owner_alone(tmp_path):
    make_site(tmp_path, "a", TASK).close()
    KeptSession(tmp_path / "session.db").close()
    for name in ("a.answers", "session.db"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    with pytest.raises(ValueError, match="cannot be opened"):
        KeptSession(tmp_path / "nowhere" / "session.db")


# -- what is told of a failure ---------------------------------------------------------


def test_an_error_is_told_by_its_kind_alone():
    kind, content = encode_outcome(RuntimeError("row 3.25"))
    assert (kind, content) == ("failure", b"")
    assert isinstance(decode_outcome(kind, content), SiteError)
    refusal = decode_outcome(*encode_outcome(MessageError("too late")))
    assert type(refusal) is MessageError
    assert str(refusal) == "too late"
    budget = decode_outcome(
        *encode_outcome(PrivacyBudgetError("spent 3.25 on another study", 1.0, 0.5))
    )
    assert "not enough budget" in str(budget)
    assert "3.25" not in str(budget)


@pytest.mark.parametrize(
    "outcome",
    [("answer", "text"), ("refusal", None), (None, b""), (b"answer", b"x"), (1, 2)],
)
def test_what_is_no_outcome_is_a_failure(outcome):
    assert isinstance(decode_outcome(*outcome), SiteError)


def test_a_reason_cannot_write_on_a_terminal():
    reason = str(decode_outcome("refusal", b"\x1b[2J\n" + b"x" * 10_000))
    assert reason.isprintable()
    assert len(reason) <= 2000


def test_without_flower_an_error_says_what_to_install(monkeypatch):
    for name in [m for m in sys.modules if m.split(".")[0] == "flwr"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[federated\]'"):
        flower.client_app()


# -- the socket ------------------------------------------------------------------------

SERVES = """
import os, resource, sys
from pathlib import Path
from flower_tools import make_site
from test_site import TASK
from skdpspectral.federation import _site_socket, serve_site
folder = Path(sys.argv[1])
site = make_site(folder, "a", TASK)
respond, mode = site.respond, sys.argv[2]
if mode == "has few descriptors":
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 10,) * 2)
if mode in ("has few descriptors", "is impatient"):
    _site_socket._PATIENCE, _site_socket._CROWDED = 0.6, 0.2


def act(request):
    if mode == "dies before":
        os.kill(os.getpid(), 9)
    answer = respond(request)
    if mode == "is impatient":
        return bytes(2**22)  # more than the system takes of what nobody reads
    if mode == "dies after":
        os.kill(os.getpid(), 9)
    return answer


site.respond = act
serve_site(site, folder / "s", on_ready=lambda: print("ready", flush=True))
"""


class Served:
    def __init__(self, folder, mode="honest"):
        here = Path(__file__).parent
        paths = [here, here.parent / "tools", Path(skdpspectral.__file__).parents[1]]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVES, str(folder), mode],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(map(str, paths)), "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout.readline() == b"ready\n"
        self.site = SiteConnection(folder / "s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_site_answers_nothing(tmp_path):
    """It would write over the answers, and begin a session that its parent begins."""
    site = make_site(tmp_path, "a", TASK, budget=9.0)
    first = site.respond(ask())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            site.respond(ask(session=bytes([1]) * 16))
        except MessageError as error:
            code = 0 if "forked copy" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(ledger_of(tmp_path)) == 1
    assert site.respond(ask()) == first


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("mode", ["dies before", "dies after"])
def test_a_site_that_is_killed_answers_as_before_or_refuses(mode, tmp_path):
    with Served(tmp_path, mode) as served:
        with pytest.raises(SiteError, match="no site answers"):
            served.site.respond(ask())
        assert served.process.wait() == -9
    assert len(ledger_of(tmp_path)) == (mode == "dies after")
    # The socket that it has left is replaced.
    with Served(tmp_path) as served:
        assert served.site.name == "a"
        answer = served.site.respond(ask())
        assert answer == served.site.respond(ask())
    if mode == "dies after":  # it was written down before it was lost
        with sqlite3.connect(tmp_path / "a.answers") as file:
            assert file.execute("SELECT answer FROM answers").fetchall() == [(answer,)]
        file.close()
    assert len(ledger_of(tmp_path)) == 1


def silent_connections(path, number):
    """Connect without a word; not all of it waits for a place."""
    found = []
    for _ in range(number):
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        found.append(connection)
        try:
            connection.connect(str(path))
        except BlockingIOError:
            break
    return found


def test_no_number_of_connections_ends_a_site(tmp_path):
    """Nor do they keep others waiting for long; few descriptors are enough."""
    with Served(tmp_path, "has few descriptors") as served:
        silent = silent_connections(tmp_path / "s", 60)
        assert len(silent) > 16
        time.sleep(0.5)
        assert served.process.poll() is None
        assert served.site.name == "a"  # the silent ones were let go
        assert served.process.poll() is None
        for connection in silent:
            connection.close()
        assert served.site.respond(ask()) == served.site.respond(ask())
    assert len(ledger_of(tmp_path)) == 1


def connect(folder, sent=b""):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10.0)
    connection.connect(str(folder / "s"))
    connection.sendall(sent)
    return connection


def seconds_until_closed(connection, drip):
    """Say a byte now and then; return when the site had enough of it."""
    begun = time.monotonic()
    with connection, contextlib.suppress(OSError):
        while time.monotonic() - begun < 5.0:
            time.sleep(0.05)
            if drip:
                connection.sendall(b"x")
            elif not connection.recv(1000):
                break
    return time.monotonic() - begun


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.parametrize("drip", [True, False])
def test_a_peer_has_a_time_for_all_of_its_request(drip, tmp_path):
    with Served(tmp_path, "is impatient"):
        half = connect(tmp_path, struct.pack("!i", 200) + b"r" * 100)
        assert 0.4 < seconds_until_closed(half, drip) < 3.0


@pytest.mark.slow
@pytest.mark.dependencies
def test_a_peer_has_a_time_to_take_its_answer(tmp_path):
    with Served(tmp_path, "is impatient") as served:
        assert len(served.site.respond(ask())) == 2**22
        request = b"r" + ask()
        slow = connect(tmp_path, struct.pack("!i", len(request)) + request)
        time.sleep(1.5)
        taken = 0
        with slow, contextlib.suppress(OSError):
            while part := slow.recv(2**20):
                taken += len(part)
        assert 0 < taken < 2**22


@pytest.mark.slow
@pytest.mark.dependencies
def test_strangers_keep_no_place_that_others_need(tmp_path):
    with Served(tmp_path) as served:
        strangers, names = silent_connections(tmp_path / "s", 60), []
        assert len(strangers) > 16
        for stranger in strangers[:-1]:
            stranger.sendall(b"\0")
        ask_name = threading.Thread(
            target=lambda: names.append(served.site.name), daemon=True
        )
        ask_name.start()
        ask_name.join(6.0)  # they are let go after a second, sixteen at a time
        assert names == ["a"]
        for stranger in strangers:
            stranger.close()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_site_reads_no_more_than_its_task_can_ask_for(tmp_path):
    def peak():
        status = Path(f"/proc/{served.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) // 1024

    with Served(tmp_path) as served:
        before, size = peak(), 2**26
        for _ in range(2):
            stranger = connect(tmp_path, struct.pack("!i", size))
            with stranger, contextlib.suppress(OSError):
                stranger.sendall(bytes(size - 1))
                time.sleep(0.2)
        assert served.site.name == "a"
        assert peak() - before < 16


def test_a_site_that_is_served_is_not_replaced(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    site = make_site(other, "b", TASK)
    with Served(tmp_path) as served:
        with pytest.raises(ValueError, match="another process is already serving at"):
            serve_site(site, tmp_path / "s", on_ready=pytest.fail)
        assert served.site.name == "a"


@pytest.fixture
def served(tmp_path):
    with Served(tmp_path) as made:
        yield made


def test_refusals_and_garbage_by_a_socket(served, tmp_path):
    from multiprocessing.connection import Client

    with pytest.raises(MessageError, match="not a message of a federation"):
        served.site.respond(b"x" * 200)
    with pytest.raises(MessageError, match="this task have at most 296 bytes"):
        served.site.respond(bytes(2**24))
    with Client(str(tmp_path / "s"), family="AF_UNIX") as silent:
        for frame in (b"", b"z", b"r"):
            with Client(str(tmp_path / "s"), family="AF_UNIX") as connection:
                connection.send_bytes(frame)
                assert connection.recv_bytes()[:1] == b"r"
        assert served.site.respond(ask())  # while another one stays silent
        del silent
    assert stat.S_IMODE(os.stat(tmp_path / "s").st_mode) == 0o600


def test_a_socket_replaces_no_other_file(tmp_path):
    site = make_site(tmp_path, "a", TASK)
    path = tmp_path / "s"
    path.write_text("a letter")
    with pytest.raises(ValueError, match="that is not a socket"):
        serve_site(site, path)
    assert path.read_text() == "a letter"
    with pytest.raises(ValueError, match="at most 100 bytes"):
        serve_site(site, tmp_path / ("x" * 100))


def test_nobody_there(tmp_path):
    begun = time.monotonic()
    with pytest.raises(SiteError, match="no site answers"):
        SiteConnection(tmp_path / "s").respond(ask())
    assert time.monotonic() - begun < 5.0


def test_an_example_site_reads_a_csv(tmp_path, monkeypatch):
    """Its columns are in another order than in the task; other columns cost nothing."""
    example = Path(__file__).parents[2] / "examples/federated"
    if not example.exists():
        pytest.skip("the examples are not here")
    monkeypatch.syspath_prepend(str(example))
    from site_process import open_site

    own, names = tmp_path / "study", list("abcdef")
    own.mkdir()
    settings = {"name": "north", "budget": [4.0, 1e-5], "noise_seed": None}
    (tmp_path / "site.json").write_text(json.dumps(settings))
    (own / "how.json").write_text(json.dumps({"epsilon": 1.0, "delta": 1e-6}))
    X = rows_of(0, 5000, 6) * [9.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    table = pd.DataFrame(X, columns=names)
    for columns in (names[::-1], [*names[:5], "g"]):
        task = make_task(1, 6, feature_names=columns)
        table.to_csv(own / "rows.csv", index=False)
        (own / "task.bin").write_bytes(task.to_bytes())
        if "g" in columns:
            with pytest.raises(ValueError, match="has no columns 'g'"):
                open_site(tmp_path)
            continue
        site = open_site(tmp_path)
        rounds = Rounds(Server({"north": (5000, 1.0, 1e-6)}, task))
        while not rounds.done:
            rounds.collect({"north": site.respond(rounds.request().to_bytes())})
        assert rounds.result().components[0, 5] > 0.99
        site.sites[task.digest].close()
    assert len(PrivacyAccountant(path=tmp_path / "ledger.db").ledger) == 1


def test_an_example_site_has_no_two_studies_of_one_task(tmp_path):
    """Requests name tasks alone: one of both would be answered by the other's rows."""
    program = Path(__file__).parents[2] / "examples/federated/site_process.py"
    if not program.exists():
        pytest.skip("the examples are not here")
    settings = {"name": "a", "budget": [4.0, 1e-5], "noise_seed": None}
    (tmp_path / "site.json").write_text(json.dumps(settings))
    for study in ("first", "second"):
        own = tmp_path / study
        own.mkdir()
        np.savez(own / "rows.npz", X=rows_of(0, 40, 6))
        (own / "task.bin").write_bytes(TASK.to_bytes())
        (own / "how.json").write_text(json.dumps({"epsilon": 1.0, "delta": 1e-6}))
    root = Path(skdpspectral.__file__).parents[1]
    found = subprocess.run(
        [sys.executable, program, tmp_path],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode != 0
    assert "needs one of its own" in found.stderr


def shown(text, command):
    """Return what the guide shows below a command, as lines of text."""
    return re.search(rf"   \$ {re.escape(command)}\n((?:   \S.*\n)+)", text)[1]


@pytest.mark.slow
def test_the_two_files_of_the_guide_are_a_federation(tmp_path, monkeypatch):
    """Sites and server are processes, and print what the guide shows.

    A site that is killed begins a further session after its restart. The server names a
    site that is gone.
    """
    root = Path(__file__).parents[2]
    guide, files = (
        root / "doc/user_guide/federated_building.rst",
        root / "examples/sites",
    )
    if not (guide.exists() and files.exists()):
        pytest.skip("the guide and the examples are not here")
    text = guide.read_text()
    section = text[text.index(".. _guide_two_processes:") :]
    made = re.search(r"\.\. testcode::\n\n((?:    .*\n|\n)+)", section)[1]
    # Short, for a socket: its path may have a hundred bytes.
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as end:
        space = {"np": np}
        monkeypatch.setattr(tempfile, "mkdtemp", lambda: folder)
        exec(textwrap.dedent(made), space)
        for path in files.glob("*.py"):
            shutil.copy(path, folder)
        place = {
            "cwd": folder,
            "env": {
                **os.environ,
                "PYTHONPATH": str(Path(skdpspectral.__file__).parents[1]),
            },
            "text": True,
        }

        def start(name):
            site = subprocess.Popen(
                [sys.executable, "run_site.py", name], stdout=subprocess.PIPE, **place
            )
            end.callback(site.stdout.close)
            end.callback(site.wait)
            end.callback(site.kill)
            assert f"   {site.stdout.readline()}" == shown(
                text, f"python run_site.py {name}"
            )
            return site

        def serve():
            server = [sys.executable, "run_server.py"]
            return subprocess.run(server, capture_output=True, timeout=60, **place)

        sites = {name: start(name) for name in ("north", "south")}
        done = serve()
        assert done.stderr == ""
        assert textwrap.indent(done.stdout, "   ") == shown(
            text, "python run_server.py"
        )
        pca = FederatedDPPCA.load(Path(folder) / "components.npz")
        # Two of three features have the frailty of the patients.
        assert np.abs(pca.components_[0]) == pytest.approx([0.78, 0.0, 0.62], abs=0.1)
        sites["north"].kill()
        sites["north"].wait()
        start("north")
        assert serve().returncode == 0
        sites["south"].send_signal(signal.SIGINT)
        assert sites["south"].wait(10) == 0
        alone = serve()
        assert "'south' was rejected" in alone.stderr
        assert "north has weight 1.0" in alone.stdout
        ledgers = {
            name: PrivacyAccountant(path=Path(folder) / f"{name}.db").ledger
            for name in sites
        }
        assert [len(ledger) for ledger in ledgers.values()] == [3, 2]


def test_the_two_files_of_the_guide_have_one_task():
    files = Path(__file__).parents[2] / "examples/sites"
    if not files.exists():
        pytest.skip("the examples are not here")
    tasks = [
        re.search(r"^FEATURES = .*?^\)$", path.read_text(), re.M | re.S)[0]
        for path in sorted(files.glob("*.py"))
    ]
    assert len(tasks) == 2
    assert tasks[0] == tasks[1]
