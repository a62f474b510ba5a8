"""A transport for federations over HTTPS, of the standard library alone.

Every site serves one client; whoever coordinates posts requests to all of them. What
travels is what ``to_bytes()`` gives. A site proves who it is by a certificate, and
answers nobody who does not send its token: whoever can post can spend its budget. A
token is read from a file of its owner, never given on a command line.
"""

import hmac
import os
import secrets
import socket
import ssl
import subprocess
import time
from contextlib import closing, suppress
from http.client import HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread, Timer
from typing import NamedTuple

from skdpspectral.federation import MessageError

PATIENCE = 30  # seconds that a peer has for its handshake and its whole request


class Address(NamedTuple):
    """What the coordinator needs to ask a site: all of it came by another way."""

    host: str
    port: int
    token: Path  # file of the secret that both have
    certificate: Path  # the site's own, or that of the authority that signed it


def make_token(path):
    """Write a new secret to a file that its owner alone can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(32))
    return path


def read_token(path):
    token = Path(path).read_text().strip()
    if len(token) < 32:
        raise ValueError(f"{path} must hold a token of at least 32 characters")
    return f"Bearer {token}"


def make_certificate(certificate, key, host="127.0.0.1"):
    """Write a key, and a certificate of one address that it signs; for trials."""
    os.close(os.open(key, os.O_CREAT | os.O_EXCL, 0o600))  # before there is a secret
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
    options = ["-nodes", "-days", "7", "-subj", f"/CN={host}"]
    for name in (f"subjectAltName=IP:{host}", "keyUsage=digitalSignature,keyCertSign"):
        options += ["-addext", name]
    files = ["-out", str(certificate), "-keyout", str(key)]
    subprocess.run(
        [*command.split(), *options, *files], check=True, capture_output=True
    )


def serve(client, token, certificate, key, host="127.0.0.1", port=0):
    """Return a server of one client, for ``serve_forever()``; port 0 takes any.

    `token`, `certificate` and `key` are files. It takes any number of connections.
    """
    expected = read_token(token).encode()

    class Site(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def handle(self):
            end = socket.socket.shutdown, (self.connection, socket.SHUT_RDWR)
            self.late = Timer(PATIENCE, *end)
            self.late.daemon = True
            self.late.start()
            # No TLS, no numbers, or gone: whoever asked may ask again.
            with suppress(OSError, ValueError):
                super().handle()
            self.late.cancel()

        def do_POST(self):
            given = self.headers.get("Authorization", "").encode(errors="replace")
            if not hmac.compare_digest(given, expected):
                self.answer(401, b"")  # unread
                return
            announced = int(self.headers.get("Content-Length", 0))
            # One byte more than a request can have is enough to refuse it.
            most = client.task.longest() + 1
            request = self.rfile.read(max(0, min(announced, most)))
            self.late.cancel()  # how long an answer takes is not the peer's doing
            try:
                status, body = 200, client.respond(request).to_bytes()
            except MessageError as error:  # speaks of messages and public numbers
                status, body = 409, str(error).encode()
            except Exception:  # may speak of rows: it stays here
                status, body = 500, b""
            self.answer(status, body)

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer((host, port), Site)
    # The handshake is made in the thread of the connection: nobody else waits for it.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    return server


def exchange(sites, request, task, timeout=30.0):
    """Post a request to the Address of each site; return what came back in time."""
    answers, data = {}, request.to_bytes()
    longest = task.longest(request.step)

    def ask(name, address):
        try:
            # Trusts this certificate alone, and checks the host's name.
            context = ssl.create_default_context(cafile=address.certificate)
            headers = {"Authorization": read_token(address.token)}
            where = {"port": address.port, "timeout": timeout, "context": context}
            with closing(HTTPSConnection(address.host, **where)) as connection:
                connection.request("POST", "/", data, headers)
                reply = connection.getresponse()
                body = reply.read(longest + 1)  # a site may send more, for ever
            if reply.status == 409:
                answers[name] = MessageError(body.decode(errors="replace"))
            elif reply.status == 200:
                answers[name] = body
            else:
                answers[name] = HTTPException(f"status {reply.status}")
        except (OSError, ValueError, HTTPException) as error:
            answers[name] = error

    deadline = time.monotonic() + timeout
    threads = [Thread(target=ask, args=item, daemon=True) for item in sites.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(answers)


def run(rounds, sites, timeout=30.0):
    """Hold a whole session with sites by their names; return its result."""
    while not rounds.done:
        left = {name: sites[name] for name in rounds.clients}
        rounds.collect(exchange(left, rounds.request(), rounds.task, timeout))
    return rounds.result()
