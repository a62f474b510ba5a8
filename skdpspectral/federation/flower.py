"""Federations on Flower: its nodes carry requests to sites, and answers back.

It needs ``pip install "skdpspectral[federated]"`` (Python 3.11 or later) where an app
runs, and nothing of it where rows are.
"""

from __future__ import annotations

from ._flower import Progress, client_app, connect_to_site, hold_session

__all__ = ["Progress", "client_app", "connect_to_site", "hold_session"]
