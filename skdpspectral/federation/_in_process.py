"""A conversation with clients of this very process, by the messages of a real one."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import copy_context

from joblib import Parallel, delayed

from ._client import LocalClient
from ._messages import Reply, Request
from ._rounds import FederatedResult, Rounds
from ._server import Server


class InProcessSession:
    """Carries requests to clients, and their answers back, as bytes.

    Parameters
    ----------
    server : Server
        Who asks.
    clients : mapping of str to LocalClient
        Who answers, by the names that the server knows.
    n_jobs : int or None, default=None
        Clients at a time, in threads: what a client keeps is in one process.
    """

    def __init__(self, server: Server, clients: Mapping[str, LocalClient], n_jobs=None):
        self._server, self._clients, self._n_jobs = server, clients, n_jobs

    def ask(self, basis=None) -> list[Reply]:
        """Put the next request to all clients that are left.

        Parameters
        ----------
        basis : ndarray of shape (p, k) or None, default=None
            As in :meth:`Server.request`.

        Returns
        -------
        list of Reply
            Of the clients that answered as they should.
        """
        return self._server.collect(self._answers(self._server.request(basis)))

    def run(self, rounds: Rounds) -> FederatedResult:
        """Hold a whole session.

        Parameters
        ----------
        rounds : Rounds
            All steps, of the same server.

        Returns
        -------
        FederatedResult
            What they lead to.
        """
        while not rounds.done:
            rounds.collect(self._answers(rounds.request()))
        return rounds.result()

    def _answers(self, request: Request) -> dict[str, object]:
        """Carry a request to all clients that are left, and their answers back."""
        names, request = self._server.clients, request.to_bytes()
        # A thread knows this context's accountants and transcripts by a copy alone.
        answers = Parallel(n_jobs=self._n_jobs, require="sharedmem")(
            [
                delayed(copy_context().run)(_answer, self._clients[name], request)
                for name in names
            ]
        )
        return dict(zip(names, answers, strict=True))


def _answer(client: LocalClient, request: bytes):
    """Return a client's answer as bytes, or what kept it from answering."""
    try:
        return client.respond(request).to_bytes()
    except Exception as error:
        return error
