"""Accountants of ``with`` blocks, and how they follow estimators into workers.

A block serves the process that opened it. An estimator that is pickled inside takes
the block's handle along, and uses it in any other process; back in the process that
it was sent from, the block's own end counts.
"""

from __future__ import annotations

import os
import uuid

# (handle, name of the process that opened the block), innermost last.
_blocks: list[tuple[object, str]] = []
_names: dict[int, str] = {}


def process_name() -> str:
    """Name of this process that no other process has, forks and hosts included."""
    pid = os.getpid()
    if pid not in _names:  # a fork inherits its parent's entry under another pid
        _names.clear()
        _names[pid] = uuid.uuid4().hex
    return _names[pid]


def open_block(handle) -> None:
    """Make a handle the default of this process."""
    _blocks.append((handle, process_name()))


def close_block(handle) -> None:
    """End the innermost block of this very handle."""
    position = max(i for i, (entry, _) in enumerate(_blocks) if entry is handle)
    del _blocks[position]


def default_accountant():
    """Return the accountant of the innermost open ``with`` block, or None."""
    return _blocks[-1][0] if _blocks else None


def ambient_accountant(sent=None) -> tuple[object, str] | None:
    """Find the block that governs an estimator.

    Parameters
    ----------
    sent : tuple (handle, process name) or None, default=None
        What the estimator brought along when it was unpickled.

    Returns
    -------
    tuple (handle, process name) or None
        A block that this process opened; else what came along from another
        process; else a block that was inherited by a fork.
    """
    here = process_name()
    if _blocks and _blocks[-1][1] == here:
        return _blocks[-1]
    if sent is not None and sent[1] != here:
        return sent
    return _blocks[-1] if _blocks else None
