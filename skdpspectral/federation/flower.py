"""Federations on Flower: its nodes carry requests to clients, and answers back.

It needs ``pip install ".[federated]"`` (Python 3.11 or later) where an app
runs, and nothing of it where rows are.
"""

from __future__ import annotations

from ._flower import client_app, hold_session

__all__ = ["client_app", "hold_session"]
