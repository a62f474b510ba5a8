"""Whole federations over HTTP on the loopback, by the transport of the examples.

Each site has its rows and its ledger. Those that die in the middle or lie are processes
of their own, and in one federation all are. The guide's own code is run too.
"""

import contextlib
import io
import re
import shutil
import ssl
import stat
import subprocess
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from federation_tools import make_task

import skdpspectral
from skdpspectral import PrivacyAccountant
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.decomposition import ComponentCovariance
from skdpspectral.federation import (
    FederationError,
    LocalClient,
    Registration,
    Rounds,
)
from skdpspectral.metrics import subspace_distance

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
pytestmark = pytest.mark.skipif(
    not (EXAMPLES / "http_transport.py").exists() or shutil.which("openssl") is None,
    reason="needs the examples, and openssl",
)

SIZE, P = 3000, 8
# A site: rows of its own, a ledger of its own, and what it does with a request.
SITE = """
import os, sys
from pathlib import Path
import numpy as np
from http_transport import serve
from skdpspectral import PrivacyAccountant
from skdpspectral.federation import LocalClient, Reply, SpectralTask
from skdpspectral.datasets import make_spiked_covariance

name, folder, mode = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
task = SpectralTask.from_json((folder / f"{name}.task").read_text())
rows = np.load(folder / f"{name}.npy")
accountant = PrivacyAccountant(2.0, 1e-5, path=folder / f"{name}.db")
client = LocalClient(name, rows, task, epsilon=2.0, accountant=accountant)
respond, count = client.respond, []


def act(request):
    count.append(1)
    if mode == "dies" and len(count) == 2:
        os._exit(9)
    reply = respond(request)
    if mode == "dies after its release" and len(count) == 2:
        os._exit(9)
    if mode == "lies" and len(count) == 2:
        content = {k: v for k, v in vars(reply).items()}
        return Reply(**{**content, "values": 1e100 * reply.values})
    if mode == "boasts":
        content = {k: v for k, v in vars(reply).items()}
        return Reply(**{**content, "n_samples": 10**12})
    return reply


client.respond = act
site = serve(client, *(folder / file for file in sys.argv[4:]))
print(site.server_port, flush=True)
site.serve_forever()
"""


@pytest.fixture
def transport(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import http_transport

    return http_transport


class Sites:
    """Servers of one client each: honest ones in threads, others as processes."""

    def __init__(self, folder, transport, secrets):
        self.folder, self.transport, self.secrets = folder, transport, secrets
        self.processes, self.threads, self.addresses = {}, {}, {}

    def start(self, name, rows, task, mode=None):
        if mode is not None:
            return self._start_process(name, rows, task, mode)
        accountant = self.ledger(name)
        client = LocalClient(name, rows, task, epsilon=2.0, accountant=accountant)
        site = self.transport.serve(client, *self.secrets)
        Thread(target=site.serve_forever, daemon=True).start()
        self.threads[name] = site
        self._found(name, site.server_port)

    def _found(self, name, port):
        token, certificate, _ = self.secrets
        self.addresses[name] = self.transport.Address(
            "127.0.0.1", port, token, certificate
        )

    def _start_process(self, name, rows, task, mode):
        (self.folder / f"{name}.task").write_text(task.to_json())
        np.save(self.folder / f"{name}.npy", rows)
        paths = [str(EXAMPLES), str(Path(skdpspectral.__file__).parents[1])]
        process = subprocess.Popen(
            [sys.executable, "-c", SITE, name, str(self.folder), mode, *self.secrets],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(paths), "OMP_NUM_THREADS": "1"},
        )
        self.processes[name] = process

    def wait(self):
        for name, process in self.processes.items():
            self._found(name, int(process.stdout.readline()))

    def ledger(self, name):
        return PrivacyAccountant(2.0, 1e-5, path=self.folder / f"{name}.db")

    def stop(self):
        for site in self.threads.values():
            site.shutdown()
            site.server_close()
        for process in self.processes.values():
            process.kill()
            process.wait()
            process.stdout.close()


@pytest.fixture(scope="session")
def secrets(tmp_path_factory):
    """Files of a token, a certificate and its key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import http_transport

    folder = tmp_path_factory.mktemp("secrets")
    token, *pair = (folder / name for name in ("token", "site.pem", "site.key"))
    http_transport.make_token(token)
    http_transport.make_certificate(*pair)
    return [token, *pair]


@pytest.fixture
def sites(tmp_path, transport, secrets):
    made = Sites(tmp_path, transport, secrets)
    yield made
    made.stop()


X, TRUTH = make_spiked_covariance(3 * SIZE, P, random_state=0)
ROWS = dict(zip(["north", "east", "south"], np.split(X, 3), strict=True))
REGISTERED = {name: Registration(SIZE, 2.0, 1e-6) for name in ROWS}
SPARSE = np.eye(1, P, 2)


def sparse_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3 * SIZE, P))
    rows[:, 2] *= 4.0
    return dict(zip(ROWS, np.split(rows, 3), strict=True))


BOX = {"bounds": (-20, 20)}
ROUNDS = {"n_rounds": 2, "n_nonzero_features": 1}
FEDERATIONS = {
    "components": (BOX, TRUTH),
    "covariance": ({**BOX, "release": ComponentCovariance(11.0)}, TRUTH),
    "rounds": (ROUNDS, SPARSE),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FEDERATIONS)
def test_federations_of_all_three_estimators(name, sites, transport):
    given, truth = FEDERATIONS[name]
    task = make_task(1, P, **given)
    rows = sparse_rows() if name == "rounds" else ROWS
    for site, own in rows.items():
        sites.start(site, own, task, "honest" if name == "rounds" else None)
    sites.wait()
    found = transport.run(Rounds(REGISTERED, task), sites.addresses)
    assert found.clients_.tolist() == [*ROWS]
    assert found.rejected_ == {}
    assert subspace_distance(found.components_, truth) < 0.15
    if name == "covariance":
        assert found.explained_variance_[0] == pytest.approx(11.0, rel=0.25)
    if name == "rounds":
        assert np.flatnonzero(found.support_).tolist() == [2]
    for site in ROWS:
        ledger = sites.ledger(site).ledger
        assert len(ledger) == 1
        assert ledger[0].epsilon == 2.0


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("dies", "it failed with"),
        ("dies after its release", "it failed with"),
        ("lies", "its values are beyond the public bound"),
        ("boasts", "its number of rows or its budget"),
    ],
)
def test_a_site_that_dies_or_lies_is_left_out(mode, reason, sites, transport):
    """The others end the session; every budget is spent exactly once."""
    task = make_task(1, P, **ROUNDS, min_clients=2)
    rows = sparse_rows()
    for site, own in rows.items():
        sites.start(site, own, task, mode if site == "east" else None)
    sites.wait()
    rounds = Rounds(REGISTERED, task)
    with pytest.warns(UserWarning, match=f"client 'east' was rejected: {reason}"):
        found = transport.run(rounds, sites.addresses)
    assert found.clients_.tolist() == ["north", "south"]
    assert list(found.rejected_) == ["east"]
    assert subspace_distance(found.components_, SPARSE) < 0.15
    assert [len(sites.ledger(site).ledger) for site in ROWS] == [1, 1, 1]


# -- the transport itself --------------------------------------------------------------


@contextlib.contextmanager
def serving(transport, client, secrets):
    site = transport.serve(client, *secrets)
    thread = Thread(target=site.serve_forever, daemon=True)
    thread.start()
    try:
        yield transport.Address("127.0.0.1", site.server_port, *secrets[:2])
    finally:
        site.shutdown()
        site.server_close()
        thread.join()


PUBLIC = {"a": Registration(SIZE, 1.0, 1e-6)}


class Client:
    """What `serve` needs of a client, and what a test makes of it."""

    task = make_task(1, P)

    def __init__(self, respond):
        self.respond = respond


def test_a_site_tells_nothing_of_an_error(transport, secrets):
    def fails(request):
        raise RuntimeError("row 3.25")

    server = Rounds(PUBLIC, Client.task)
    with serving(transport, Client(fails), secrets) as address:
        answers = transport.exchange({"a": address}, server.request(), Client.task)
    assert "3.25" not in repr(answers)
    with (
        pytest.warns(UserWarning, match="it failed with HTTPException"),
        pytest.raises(FederationError),
    ):
        server.collect(answers)


def refused(address, given, context, body):
    """Post by hand; return the status, or the error that a stranger gets."""
    kind = HTTPConnection if context is None else HTTPSConnection
    how = {} if context is None else {"context": context}
    connection = kind(address.host, address.port, timeout=10, **how)
    headers = {} if given is None else {"Authorization": given}
    try:
        connection.request("POST", "/", body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, HTTPException) as error:
        return type(error), b""
    finally:
        connection.close()


def test_without_token_or_tls_nothing_is_answered_and_nothing_spent(
    transport, secrets, tmp_path
):
    """Whoever can post a request can spend the budget of a site."""
    ledger = PrivacyAccountant(path=tmp_path / "a.db")
    client = LocalClient("a", ROWS["north"], Client.task, accountant=ledger)
    body = Rounds(PUBLIC, Client.task).request().to_bytes()
    token = transport.read_token(secrets[0])
    wrong = [None, "", "Bearer", token[:-1], token + "x", token[7:], "Bearer é"]
    with serving(transport, client, secrets) as address:
        context = ssl.create_default_context(cafile=secrets[1])
        for given in wrong:
            assert refused(address, given, context, body) == (401, b""), given
        status, _ = refused(address, token, None, body)  # by plain HTTP
        assert issubclass(status, (OSError, HTTPException))
        assert len(ledger.ledger) == 0
        assert refused(address, token, context, body)[0] == 200
        assert len(ledger.ledger) == 1


def test_a_site_with_another_certificate_is_sent_nothing(transport, secrets, tmp_path):
    """Whoever has taken a site's place learns no token."""
    asked = []
    transport.make_certificate(tmp_path / "other.pem", tmp_path / "other.key")
    request = Rounds(PUBLIC, Client.task).request()
    with serving(transport, Client(asked.append), secrets) as address:
        other = address._replace(certificate=tmp_path / "other.pem")
        moved = address._replace(host="localhost")  # the certificate is of 127.0.0.1
        for wrong in (other, moved):
            answers = transport.exchange({"a": wrong}, request, Client.task)
            assert isinstance(answers["a"], ssl.SSLCertVerificationError)
    assert asked == []


def test_secrets_are_files_of_their_owner(secrets, transport, tmp_path):
    for path in (secrets[0], secrets[2]):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "short").write_text("secret")
    with pytest.raises(ValueError, match="at least 32 characters"):
        transport.read_token(tmp_path / "short")
    with pytest.raises(FileExistsError):  # nobody's secret is replaced
        transport.make_token(secrets[0])


# -- the guide -------------------------------------------------------------------------


def guide_blocks():
    """Code and expected output of the guide on federations of other machines."""
    text = (ROOT / "doc" / "user_guide" / "federated_building.rst").read_text()
    pattern = r"\.\. (testcode|testoutput)::\n\n((?:    .*\n|\n)+)"
    for kind, body in re.findall(pattern, text):
        yield kind, re.sub(r"^    ", "", body, flags=re.MULTILINE).strip()


@pytest.mark.slow
@pytest.mark.dependencies
@pytest.mark.filterwarnings("ignore:client .* was rejected")
def test_the_guide_runs_as_it_is(transport):
    space, printed, compared = {}, "", 0
    for kind, body in guide_blocks():
        if kind == "testcode":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(body, space)
            printed = out.getvalue().strip()
        else:
            assert printed == body
            compared += 1
    assert compared == 8
