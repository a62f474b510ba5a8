"""Accountants of ``with`` blocks, and how they follow estimators into workers.

A block serves the thread that opened it, and the threads that have none of their own.
An estimator that is pickled inside takes the block's handle along, and uses it in any
other process; back in the process that it was sent from, the block's own end counts.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid

from ._errors import LedgerError

# (handle, name of the process, thread that opened the block), innermost last.
_blocks: list[tuple[object, str, int]] = []
_names: dict[int, str] = {}


def process_name() -> str:
    """Name of this process that no other process has, forks and hosts included."""
    pid = os.getpid()
    if pid not in _names:  # a fork inherits its parent's entry under another pid
        _names.clear()
        _names[pid] = uuid.uuid4().hex
    return _names[pid]


def open_block(handle) -> None:
    """Make a handle the default, of this thread and of those that have none."""
    _blocks.append((handle, process_name(), threading.get_ident()))


def close_block(handle) -> None:
    """End the innermost block of this very handle."""
    position = max(i for i, block in enumerate(_blocks) if block[0] is handle)
    del _blocks[position]


@contextlib.contextmanager
def without_accountant():
    """Charge no ledger of a ``with`` block, for fits on made-up data."""
    nobody = _Nobody()
    open_block(nobody)
    try:
        yield
    finally:
        close_block(nobody)


class _Nobody:
    """Stands for no accountant at all."""


def _innermost(blocks):
    """Return the block that governs the calling thread, or None."""
    here = threading.get_ident()
    own = [block for block in blocks if block[2] == here]
    if own:
        return own[-1]
    if len({block[2] for block in blocks}) > 1:
        raise LedgerError(
            "several threads have opened an accountant with `with`, and this thread "
            "none: give the estimator its accountant as a parameter"
        )
    return blocks[-1] if blocks else None


def default_accountant():
    """Return the accountant of the innermost open ``with`` block, or None."""
    block = _innermost(_blocks)
    return None if block is None or isinstance(block[0], _Nobody) else block[0]


def ambient_accountant(sent=None) -> tuple[object, str] | None:
    """Find the block that governs an estimator.

    Parameters
    ----------
    sent : tuple (handle or None, process name) or None, default=None
        What the estimator brought along when it was unpickled.

    Returns
    -------
    tuple (handle or None, process name) or None
        A block that this process opened; else what came along from another
        process; else a block that was inherited by a fork. The handle is None
        under :func:`without_accountant`.

    Raises
    ------
    LedgerError
        If several threads have blocks, and the calling one has none.
    """
    here = process_name()
    opened = [block for block in _blocks if block[1] == here]
    if not opened and sent is not None and sent[1] != here:
        return sent
    block = _innermost(opened or _blocks)
    if block is None:
        return None
    return None if isinstance(block[0], _Nobody) else block[0], block[1]
