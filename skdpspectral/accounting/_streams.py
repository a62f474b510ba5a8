"""Positions of streams in a ledger, so that no noise is used for two rows.

A stream that is copied, or read back from a file, would draw the noise of its next
steps a second time; the difference of the two releases would show the rows. So every
advance is a compare-and-swap on the position that the ledger holds.
"""

from __future__ import annotations

from ._errors import LedgerError
from ._ledger import Ledger
from ._parts import new_name

_TABLE = (
    "CREATE TABLE IF NOT EXISTS streams (id TEXT PRIMARY KEY, position INTEGER) "
    "WITHOUT ROWID"
)


def open_stream(ledger: Ledger) -> str:
    """Enter a stream at position 0 and return its id."""
    name = new_name()
    with ledger.transaction() as transaction:
        transaction.execute(_TABLE)
        transaction.execute("INSERT INTO streams VALUES (?, 0)", (name,))
    return name


def advance_stream(ledger: Ledger, name: str, position: int, steps: int) -> None:
    """Move a stream on, if it is where the caller believes it to be.

    Parameters
    ----------
    ledger : Ledger
        Where the stream was entered.
    name : str
        Id of the stream.
    position : int
        Steps that the caller's copy has made.
    steps : int
        Steps that it is about to make.

    Raises
    ------
    LedgerError
        If the stream is elsewhere; nothing is changed.
    """
    with ledger.transaction() as transaction:
        transaction.execute(_TABLE)
        moved = transaction.execute(
            "UPDATE streams SET position = ? WHERE id = ? AND position = ?",
            (position + steps, name, position),
        )
        if moved.rowcount != 1:
            raise LedgerError(
                "this stream was continued elsewhere, or a step of it failed: the "
                f"ledger {ledger.path} has it past step {position}. Its noise must not "
                "be drawn twice; go on with the newest copy, or clone the estimator to "
                "begin a new stream"
            )
