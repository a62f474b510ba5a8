"""A transport for federations over HTTP, of the standard library alone.

Every site serves one client; whoever coordinates posts requests to all of them. What
travels is what ``to_bytes()`` gives. In earnest, wrap the sockets with ``ssl`` and tell
sites and coordinator apart by certificates: messages are neither signed nor secret.
"""

import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from skdpspectral.federation import MessageError


def serve(client, host="127.0.0.1", port=0):
    """Return a server of one client, for ``serve_forever()``; port 0 takes any."""

    class Site(BaseHTTPRequestHandler):
        timeout = 30  # for whoever sends less than is announced

        def do_POST(self):
            announced = int(self.headers.get("Content-Length", 0))
            # One byte more than a request can have is enough to refuse it.
            most = client.task.longest() + 1
            request = self.rfile.read(max(0, min(announced, most)))
            try:
                status, body = 200, client.respond(request).to_bytes()
            except MessageError as error:  # speaks of messages and public numbers
                status, body = 409, str(error).encode()
            except Exception:  # may speak of rows: it stays here
                status, body = 500, b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # who asked has gone: it may ask again
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    return ThreadingHTTPServer((host, port), Site)


def exchange(sites, request, task, timeout=30.0):
    """Post a request to (host, port) of each site; return what came back in time."""
    answers, data = {}, request.to_bytes()
    longest = task.longest(request.topic)

    def ask(name, address):
        connection = HTTPConnection(*address, timeout=timeout)
        try:
            connection.request("POST", "/", data)
            reply = connection.getresponse()
            body = reply.read(longest + 1)  # a site may send more, for ever
            if reply.status == 409:
                answers[name] = MessageError(body.decode(errors="replace"))
            elif reply.status == 200:
                answers[name] = body
            else:
                answers[name] = HTTPException()
        except (OSError, HTTPException) as error:
            answers[name] = error
        finally:
            connection.close()

    deadline = time.monotonic() + timeout
    threads = [Thread(target=ask, args=item, daemon=True) for item in sites.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(answers)


def run(rounds, sites, timeout=30.0):
    """Hold a whole session with sites by their names; return its result."""
    server = rounds.server
    while not rounds.done:
        left = {name: sites[name] for name in server.clients}
        rounds.collect(exchange(left, rounds.request(), server.task, timeout))
    return rounds.result()
