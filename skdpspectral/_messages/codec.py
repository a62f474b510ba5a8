"""The byte form of messages and tasks: a JSON header, real numbers, and one digest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

_MAGIC = b"SKDF"
DIGEST_BYTES = 16
_START = len(_MAGIC) + 4  # with the length of the header, little-endian
# Largest length of an axis that is read.
_MOST = 2**40


class MessageError(ValueError):
    """A message is malformed, or does not belong to this session."""


def signed(body: bytes) -> bytes:
    """Return bytes with a digest against damage in transit; it is no signature."""
    return body + hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


def encode(kind: str, version: int, header: dict[str, Any], values: Any) -> bytes:
    """Return the byte form of a header of plain values and an array of numbers."""
    values = np.ascontiguousarray(values, dtype="<f8")
    header = {"kind": kind, "version": version, **header, "shape": values.shape}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return signed(_MAGIC + len(text).to_bytes(4, "little") + text + values.tobytes())


def decode(
    data: Any,
    kind: str,
    version: int,
    names: Iterable[str],
    max_bytes: int | None = None,
    max_header: int = 2**30,
) -> tuple[dict[str, Any], np.ndarray]:
    """Return the fields of a header, unchecked, and finite read-only numbers.

    Other bytes may have the same content: compare with the byte form of what was read.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise MessageError(f"a {kind} must be bytes, got {type(data).__name__}")
    size = memoryview(data).nbytes
    if max_bytes is not None and size > max_bytes:
        raise MessageError(f"the {kind} has {size} bytes, but at most {max_bytes} fit")
    data = bytes(data)
    if len(data) < _START + DIGEST_BYTES or data[: len(_MAGIC)] != _MAGIC:
        raise MessageError(f"these bytes are not a {kind} of a federation")
    body = data[:-DIGEST_BYTES]
    if signed(body) != data:
        raise MessageError(f"the {kind} was damaged: its digest does not match")
    end = _START + int.from_bytes(data[len(_MAGIC) : _START], "little")
    if end > min(len(body), _START + max_header):
        raise MessageError(f"the header of the {kind} is too long")
    try:
        header = json.loads(body[_START:end])
        found, read = header.pop("kind"), header.pop("version")
        shape = tuple(header.pop("shape"))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise MessageError(f"the {kind} has no valid header") from None
    if found != kind:
        raise MessageError(f"these bytes are not a {kind}")
    if read != version:
        said = f"the {kind} has version {str(read)[:9]}, but this release reads version"
        raise MessageError(f"{said} {version}")
    if set(header) != set(names):
        raise MessageError(f"the {kind} does not have its fields")
    whole = all(type(size) is int and 0 <= size <= _MOST for size in shape)
    fits = whole and 8 * math.prod(shape) == len(body) - end
    if not (fits and len(shape) in (1, 2)):
        raise MessageError(f"the values of the {kind} do not have a valid shape")
    values = np.frombuffer(body[end:], dtype="<f8").reshape(shape)
    if not np.isfinite(values).all():
        raise MessageError(f"the numbers of the {kind} must be finite")
    return header, values
