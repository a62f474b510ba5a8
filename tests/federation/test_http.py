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
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from federation_tools import make_task, session_ends

from skdpspectral import PrivacyAccountant
from skdpspectral.datasets import make_spiked_covariance
from skdpspectral.federation import LocalClient, Registration, Rounds
from skdpspectral.metrics import subspace_distance

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
pytestmark = pytest.mark.skipif(
    not (EXAMPLES / "http_transport.py").exists() or shutil.which("openssl") is None,
    reason="needs the examples, and openssl",
)

SIZE, P = 3000, 8


@pytest.fixture
def transport(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import http_transport

    return http_transport


class Sites:
    """Servers of one client each, in threads."""

    def __init__(self, folder, transport, secrets):
        self.folder, self.transport, self.secrets = folder, transport, secrets
        self.threads, self.addresses = {}, {}

    def start(self, name, rows, task):
        accountant = self.ledger(name)
        client = LocalClient(name, rows, task, epsilon=2.0, accountant=accountant)
        site = self.transport.serve(client, *self.secrets)
        Thread(target=site.serve_forever, daemon=True).start()
        self.threads[name] = site
        where = "127.0.0.1", site.server_port, *self.secrets[:2]
        self.addresses[name] = self.transport.Address(*where)

    def ledger(self, name):
        return PrivacyAccountant(2.0, 1e-5, path=self.folder / f"{name}.db")

    def stop(self):
        for site in self.threads.values():
            site.shutdown()
            site.server_close()


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
    "covariance": ({**BOX, "projection_norm": 11.0}, TRUTH),
    "rounds": (ROUNDS, SPARSE),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FEDERATIONS)
def test_federations_of_all_three_estimators(name, sites, transport):
    given, truth = FEDERATIONS[name]
    task = make_task(1, P, **given)
    rows = sparse_rows() if name == "rounds" else ROWS
    for site, own in rows.items():
        sites.start(site, own, task)
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
    with session_ends("it failed with HTTPException"):
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
