"""What becomes of a request: an answer, a refusal with its reason, or a failure."""

from __future__ import annotations

from ..accounting import PrivacyBudgetError
from ._messages import MessageError

ANSWER, REFUSAL, FAILURE = "answer", "refusal", "failure"
# What somebody elsewhere is told of a refusal, in characters.
_LONGEST_REASON = 500


class SiteError(RuntimeError):
    """A site could not be reached, or failed; the reason stays there."""


def as_bytes(message) -> bytes:
    """Return a message's byte form; it may be bytes already."""
    if isinstance(message, (bytes, bytearray, memoryview)):
        return bytes(message)
    return message.to_bytes()


def told(answer) -> tuple[str, bytes]:
    """Return what somebody elsewhere may know of an answer, or of an error.

    Parameters
    ----------
    answer : bytes or exception
        What became of a request.

    Returns
    -------
    kind : {"answer", "refusal", "failure"}
        What the content is.
    content : bytes
        An answer, a reason in UTF-8 that speaks of messages and public numbers alone,
        or nothing: the error itself may speak of rows.
    """
    if isinstance(answer, bytes):
        return ANSWER, answer
    if isinstance(answer, MessageError):
        return REFUSAL, str(answer)[:_LONGEST_REASON].encode()
    if isinstance(answer, PrivacyBudgetError):
        # What else a ledger was spent on is its holder's own business.
        return REFUSAL, b"its ledger has not enough budget left for this session"
    return FAILURE, b""


def heard(kind, content):
    """Return bytes, or the error that a kind and a content stand for.

    Parameters
    ----------
    kind, content : object
        Whatever came.

    Returns
    -------
    bytes or exception
        As for :meth:`Server.collect`.
    """
    if kind == ANSWER and isinstance(content, bytes):
        return content
    if kind == REFUSAL and isinstance(content, bytes):
        text = content[: 4 * _LONGEST_REASON].decode(errors="replace")
        return MessageError("".join(c if c.isprintable() else "?" for c in text))
    return SiteError()
