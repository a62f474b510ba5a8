"""The byte form of a task: one for all that mean the same, with no code in it."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

import numpy as np

from .._statistics.centers import PrivateMean
from .._statistics.components.mechanism import ComponentMechanism
from .._statistics.row_bounds import RowBounds
from ._messages import CHECKSUM_BYTES, MessageError, checksum

# Raised whenever the same bytes would mean other releases, other shares of a budget
# included: the digest of a task must differ where its releases do.
VERSION = 1
_MAGIC = b"SKDT"
# magic, version, aggregation, mechanism, calibration; length; flags; components,
# features, rounds; pairs of bounds, variances; clip, clip of the mean, projection_norm,
# noise variance, range, constant. Pairs and variances follow. Little-endian, packed.
_HEADER = struct.Struct("<4sBBBBQHIIIII7d")
_AGGREGATIONS = ("projector", "matrix")
_MECHANISMS = ("gaussian", "two-stage", "auto", "spiked")
_CALIBRATIONS = ("exact", "paper")
# Order of the flags; then four that say which of the numbers are there, then one more.
_FLAGS = ("start", "model_covariance", "centered", "scaled", "paired")
_OPTIONAL = ("clip_norm", "center_radius", "projection_norm", "noise")
_LAST_FLAG = "own_mean"
# Features of a task that is read: more would only fill the reader's memory.
_MOST_FEATURES = 2**24


class TaskFields(NamedTuple):
    """What a byte form holds, as the parts that a task is made of."""

    n_components: int
    rows: RowBounds
    aggregation: str
    start: bool
    n_rounds: int
    projection_norm: float | None
    mechanism: ComponentMechanism
    model_covariance: bool


def pack(task) -> bytes:
    """Return the byte form of a task."""
    rows, mechanism = task.rows, task.mechanism
    sides = _sides(rows)
    optional = (
        rows.clip_norm,
        rows.center_radius,
        task.projection_norm,
        mechanism.noise,
    )
    flags = (task.start, task.model_covariance, rows.centered, rows.scale is not None)
    flags += (bool(rows.paired),)
    flags += tuple(value is not None for value in optional)
    flags += (mechanism.centered,)
    signal = np.array(mechanism.signal or (), dtype="<f8")
    tail = np.concatenate([*sides, signal]).astype("<f8").tobytes()
    header = _HEADER.pack(
        _MAGIC,
        VERSION,
        _AGGREGATIONS.index(task.aggregation),
        _MECHANISMS.index(mechanism.name),
        _CALIBRATIONS.index(mechanism.calibration),
        _HEADER.size + len(tail) + CHECKSUM_BYTES,
        sum(bool(flag) << place for place, flag in enumerate(flags)),
        task.n_components,
        rows.n_features,
        task.n_rounds,
        len(sides[0]),
        len(signal),
        *(0.0 if value is None else value for value in optional),
        *mechanism.norm_range,
        mechanism.constant,
    )
    return header + tail + checksum(header + tail)


def _sides(rows) -> tuple[np.ndarray, np.ndarray]:
    """Low and high bounds: none, one pair for all features, or one for each."""
    if rows.box is None:
        return np.zeros(0), np.zeros(0)
    # Adding zero makes one of the two zeros of float64.
    low, high = (np.asarray(side) + 0.0 for side in (rows.box.low, rows.box.high))
    if np.all(low == low[0]) and np.all(high == high[0]):
        return low[:1], high[:1]
    return low, high


def unpack(data) -> TaskFields:
    """Read a byte form; whatever is wrong with it is a MessageError or a ValueError."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise MessageError(f"a task must be bytes, got {type(data).__name__}")
    data = bytes(data)
    if len(data) < _HEADER.size + CHECKSUM_BYTES:
        raise MessageError("these bytes are too short for a task")
    magic, version, *names, length, flags, rank, p, n_rounds, n_pairs, n_signal = (
        _HEADER.unpack_from(data)[:12]
    )
    numbers = _HEADER.unpack_from(data)[12:]
    if magic != _MAGIC:
        raise MessageError("these bytes are no task of a federation")
    if version != VERSION:
        raise MessageError(
            f"the task is of version {version}, this release reads {VERSION}"
        )
    tail = 8 * (2 * n_pairs + n_signal)
    if length != len(data) or length != _HEADER.size + tail + CHECKSUM_BYTES:
        raise MessageError("the task has not the length that it says")
    if checksum(data[:-CHECKSUM_BYTES]) != data[-CHECKSUM_BYTES:]:
        raise MessageError("the task was damaged: its checksum is another")
    if n_pairs not in (0, 1, p) or p > _MOST_FEATURES or flags >= 2**10:
        raise MessageError("the parts of the task have no valid size")
    values = np.frombuffer(data, "<f8", 2 * n_pairs + n_signal, _HEADER.size)
    if not all(map(math.isfinite, numbers)) or not np.isfinite(values).all():
        raise MessageError("the numbers of the task must be finite")
    known = (_AGGREGATIONS, _MECHANISMS, _CALIBRATIONS)
    if any(i >= len(choices) for i, choices in zip(names, known, strict=True)):
        raise MessageError("the task names a choice that this release does not know")
    choices = [choices[i] for i, choices in zip(names, known, strict=True)]
    return _fields(choices, flags, (rank, p, n_rounds), numbers, values, n_pairs)


def _fields(choices, flags, counts, numbers, values, n_pairs) -> TaskFields:
    """Make the parts of a task, which check themselves."""
    aggregation, name, calibration = choices
    rank, n_features, n_rounds = counts
    places = enumerate((*_FLAGS, *_OPTIONAL, _LAST_FLAG))
    flag = {key: bool(flags >> place & 1) for place, key in places}
    number = {
        key: value if flag[key] else None
        for key, value in zip(_OPTIONAL, numbers[: len(_OPTIONAL)], strict=True)
    }
    low, high, signal = np.split(values, [n_pairs, 2 * n_pairs])
    bounds = None
    if n_pairs:
        bounds = (low, high) if n_pairs > 1 else (float(low[0]), float(high[0]))
    if flag["centered"] and flag["paired"]:
        raise MessageError("rows are centered, or compared in pairs, and not both")
    center: str | PrivateMean = "pairs" if flag["paired"] else "none"
    if flag["centered"]:
        center = PrivateMean(number["center_radius"])
    rows = RowBounds(
        n_features,
        bounds=bounds,
        clip_norm=number["clip_norm"],
        center=center,
        scale="bounds" if flag["scaled"] else None,
    )
    mechanism = ComponentMechanism(
        name,
        tuple(signal.tolist()) or None,
        number["noise"],
        numbers[-3:-1],
        calibration,
        numbers[-1],
        flag[_LAST_FLAG],
    )
    return TaskFields(
        rank,
        rows,
        aggregation,
        flag["start"],
        n_rounds,
        number["projection_norm"],
        mechanism,
        flag["model_covariance"],
    )
