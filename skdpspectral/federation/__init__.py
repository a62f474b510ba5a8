"""Parts of a federation: messages, clients that trust no server, and a server."""

from typing import TYPE_CHECKING

from .. import _on_demand

if TYPE_CHECKING:  # what is imported on demand
    from ._client import LocalClient
    from ._conversation import FederationError
    from ._group_client import GroupClient
    from ._group_rounds import GroupRounds
    from ._group_tasks import GroupTask
    from ._in_process import InProcessSession
    from ._kept_session import KeptSession
    from ._make_task import make_task
    from ._messages import MessageError, Reply, Request, Topic
    from ._outcomes import SiteError
    from ._registration import Registration
    from ._rounds import FederatedResult, Rounds
    from ._server import Server
    from ._site import Site
    from ._site_socket import SiteConnection, serve_site
    from ._tasks import SpectralTask

__all__ = [
    "FederatedResult",
    "FederationError",
    "GroupClient",
    "GroupRounds",
    "GroupTask",
    "InProcessSession",
    "KeptSession",
    "LocalClient",
    "MessageError",
    "Registration",
    "Reply",
    "Request",
    "Rounds",
    "Server",
    "Site",
    "SiteConnection",
    "SiteError",
    "SpectralTask",
    "Topic",
    "make_task",
    "serve_site",
]

_HOMES = {
    "_client": ("LocalClient",),
    "_conversation": ("FederationError",),
    "_group_client": ("GroupClient",),
    "_group_rounds": ("GroupRounds",),
    "_group_tasks": ("GroupTask",),
    "_in_process": ("InProcessSession",),
    "_kept_session": ("KeptSession",),
    "_make_task": ("make_task",),
    "_messages": (
        "MessageError",
        "Reply",
        "Request",
        "Topic",
    ),
    "_outcomes": ("SiteError",),
    "_registration": ("Registration",),
    "_rounds": (
        "FederatedResult",
        "Rounds",
    ),
    "_server": ("Server",),
    "_site": ("Site",),
    "_site_socket": (
        "SiteConnection",
        "serve_site",
    ),
    "_tasks": ("SpectralTask",),
}
__getattr__, __dir__ = _on_demand.names_of(__name__, _HOMES)
