"""What becomes of a request: an answer, a refusal with its reason, or a failure.

What carries requests starts anew for each of them, so that nothing here imports more
than messages: ledgers alone would take longer than all of its work.
"""

from __future__ import annotations

import logging

from ._messages import MessageError

_LOG = logging.getLogger(__name__)
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
    if isinstance(answer, SiteError):
        return FAILURE, b""
    # Imported long since, wherever there is a ledger that can refuse.
    from ..accounting import PrivacyBudgetError

    if isinstance(answer, PrivacyBudgetError):
        # What else a ledger was spent on is its holder's own business.
        return REFUSAL, b"its ledger has not enough budget left for this session"
    return FAILURE, b""


def outcome_of(client, request: bytes) -> tuple[str, bytes]:
    """Return what somebody elsewhere may know of a client's answer to a request.

    Parameters
    ----------
    client : object with ``respond``
        A site, or a client.
    request : bytes
        Whatever came.

    Returns
    -------
    kind, content
        As of :func:`told`.
    """
    try:
        return told(as_bytes(client.respond(request)))
    except Exception as error:
        outcome = told(error)
        if outcome[0] == FAILURE and not isinstance(error, SiteError):
            _LOG.exception("a request could not be answered")  # for the rows' holder
        return outcome


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
