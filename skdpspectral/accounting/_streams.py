"""Positions of streams in a ledger, so that no noise is used for two rows.

A stream that is copied, or read back from a file, would draw the noise of its next
steps a second time; the difference of the two releases would show the rows. So every
advance is a compare-and-swap on the position that the ledger holds. A copy that is
behind may take over at that position, with noise that no copy has used.
"""

from __future__ import annotations

from ._accountant import PrivacyAccountant
from ._errors import LedgerError
from ._parts import new_name
from ._uninterrupted import uninterrupted


@uninterrupted
def open_stream(accountant: PrivacyAccountant) -> str:
    """Enter a stream at position 0 of a ledger, and return its id."""
    name = new_name()
    with accountant._ledger().transaction() as transaction:
        transaction.streams()
        transaction.execute("INSERT INTO streams VALUES (?, 0)", (name,))
    return name


@uninterrupted
def advance_stream(
    accountant: PrivacyAccountant, name: str, position: int, steps: int
) -> None:
    """Move a stream on, if it is where the caller believes it to be.

    Parameters
    ----------
    accountant : PrivacyAccountant
        A handle of the ledger that the stream was entered in.
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
    ledger = accountant._ledger()
    with ledger.transaction() as transaction:
        transaction.streams()
        moved = transaction.execute(
            "UPDATE streams SET position = ? WHERE id = ? AND position = ?",
            (position + steps, name, position),
        )
        if moved.rowcount != 1:
            raise LedgerError(
                "this stream was continued elsewhere, or a step of it failed: the "
                f"ledger {ledger.path} does not have it at step {position}. Its noise "
                "must not be drawn twice; go on with the newest copy. If that one is "
                "lost, resume() goes on where the ledger is, without the rows between; "
                "or clone the estimator to begin a new stream"
            )


@uninterrupted
def stream_position(accountant: PrivacyAccountant, name: str) -> int:
    """Return how many steps a stream has made, in whichever copy.

    Parameters
    ----------
    accountant : PrivacyAccountant
        A handle of the ledger that the stream was entered in.
    name : str
        Id of the stream.

    Returns
    -------
    int
        Its position.

    Raises
    ------
    LedgerError
        If the ledger does not know the stream.
    """
    ledger = accountant._ledger()
    with ledger.transaction(keep=False) as transaction:
        transaction.streams()
        query = "SELECT position FROM streams WHERE id = ?"
        row = transaction.execute(query, (name,)).fetchone()
    if row is None:
        raise LedgerError(
            f"the ledger {ledger.path} does not know this stream: it is an older copy "
            "of the ledger; clone the estimator to begin a new stream"
        )
    return int(row[0])
