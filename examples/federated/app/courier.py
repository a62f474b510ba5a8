"""The node's half of the app: what every SuperNode runs, anew for each message.

It has no rows and no ledger. It hands what comes to the process of the site, at the
socket that the node's own configuration names, and the answer back.
"""

from multiprocessing.connection import Client

from skdpspectral.federation import MessageError, client_app


class Site:
    """The process that has the rows: ``site_process.py`` answers these questions."""

    def __init__(self, context):
        self.path = context.node_config["site"]
        self.name = self.ask(b"name").decode()

    def respond(self, request):
        return self.ask(request)

    def ask(self, question):
        with Client(self.path, family="AF_UNIX") as connection:
            connection.send_bytes(question)
            answer = connection.recv_bytes()
        if answer[:1] == b"r":  # a refusal, which speaks of public numbers
            raise MessageError(answer[1:].decode(errors="replace"))
        if answer[:1] != b"a":
            raise RuntimeError("the site failed; its own log has the reason")
        return answer[1:]


client = client_app(Site)
