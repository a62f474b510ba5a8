"""Flower's messages between a server and nodes of this process: no network."""

from types import SimpleNamespace

import numpy as np

from skdpspectral import PrivacyAccountant
from skdpspectral.federation import LocalClient, Request
from skdpspectral.federation import _flower as flower


def rows_of(seed, n=400, p=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * np.linspace(3, 1, p)


class Sessions:
    """A client for each session, as a process that has the rows makes them."""

    def __init__(self, name, open_client):
        self.name, self.open_client, self.clients = name, open_client, {}

    def respond(self, request):
        session = Request.from_bytes(request).session
        if session not in self.clients:
            self.clients[session] = self.open_client()
        return self.clients[session].respond(request)

    @property
    def latest(self):
        return list(self.clients.values())[-1]


def make_site(folder, name, task, *, seed=0, epsilon=1.0, budget=1.0, noise_seed=None):
    """Clients with a ledger in a file of their name."""
    budget = (budget, 1e-5) if noise_seed is None else ()
    ledger = PrivacyAccountant(*budget, path=folder / f"{name}.db")
    rows, how = rows_of(seed, p=task.n_features), {"noise_seed": noise_seed}
    how |= {"epsilon": epsilon, "accountant": ledger}
    return Sessions(name, lambda: LocalClient(name, rows, task, **how))


class Grid:
    """What a ServerApp gets of Flower, with apps that answer at once.

    Sites are by the number of a node; None is gone.
    """

    def __init__(self, sites, registered=None):
        self.sites, self.registered = dict(sites), registered or {}
        self.replies, self.sent, self.count = {}, [], 0

    def get_nodes(self):
        return [
            SimpleNamespace(
                node_id=i, name=self.registered.get(i, ""), online_until=float(i)
            )
            for i, site in self.sites.items()
            if site is not None
        ]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            self.count += 1
            ids.append(f"m{self.count}")
            message.metadata.__dict__["_message_id"] = ids[-1]
            self.sent.append(message)
            site = self.sites.get(message.metadata.dst_node_id)
            if site is not None:
                self.replies[ids[-1]] = self.answer(site, message)
        return ids

    def answer(self, site, message):
        from flwr.app import Context, RecordDict

        context = Context(1, 1, {}, RecordDict(), {}, 1)
        return flower.client_app(lambda _: site)(message, context)

    def pull_messages(self, ids):
        return [self.replies.pop(i) for i in ids if i in self.replies]


def act_as_a_task():
    """Give this process the identity that Flower gives to those it starts."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def request_message(request, clients=("north",)):
    """A server's message to a node."""
    from flwr.app import ConfigRecord, Message, RecordDict

    values = {"request": request, "clients": list(clients)}
    content = RecordDict({"skdpspectral": ConfigRecord(values)})
    return Message(content, dst_node_id=1, message_type="query.respond")


def outcome_at(site, message):
    """Kind and content of what a node's app replies to a message."""
    reply = Grid({}).answer(site, message)
    record = reply.content.config_records["skdpspectral"]
    return record["kind"], record["content"]
