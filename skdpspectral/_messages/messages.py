"""Requests and replies, with their byte forms, and a server's session with clients."""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from ..mechanisms import check_count
from .codec import MessageError, decode, encode

VERSION = 3
SESSION_BYTES, TASK_BYTES = 16, 16
# Bytes of a message beside its values, and of its header, at most.
OVERHEAD, _MOST_HEADER = 600, 560
MAX_NAME_BYTES = 64
_MAX_STEP, _MAX_ROWS = 2**32 - 1, 2**63 - 1


class Topic(IntEnum):
    """Subject of a request. An answer has `n_numbers` numbers and an array of values.

    ``COMPONENTS``
        Leading eigenvectors of a noisy second moment, with the standard deviation of
        the noise, the last of their eigenvalues, and the mean of the other eigenvalues.
    ``MATRIX``
        Lower triangle of the noisy second moment, row by row, with the same numbers.
    ``MEAN``
        A noisy mean.
    ``POWER``
        Product of the second moment and the request's basis, with the standard
        deviation of the noise.
    ``COVARIANCE``
        Symmetric second moment of projections on the request's basis, with the standard
        deviation of the noise. Projections are clipped, except with a model.
    ``SUBSPACE``
        Components from any other mechanism, with two variances, released or public:
        along the components beyond the noise, and across them.
    ``PROJECTOR``
        Lower triangle of a noisy projector, row by row, with the same numbers.
    ``SUM``
        A group's part of the next sum over users, in integers. The basis is one column
        with the last release and the standard deviation of its noise.
    ``LENGTHS``
        Noisy histograms of half of the distances between rows, and of their lengths.
    ``CENTER``
        A noisy mean of rows about a point, clipped at a radius, over this radius. The
        basis is one column with the point (none at first) and the radius.
    ``MODEL``
        No values. The basis is the last release, from which groups build their models.
    """

    COMPONENTS = 1
    MATRIX = 2
    MEAN = 3
    POWER = 4
    COVARIANCE = 5
    SUBSPACE = 6
    PROJECTOR = 7
    SUM = 8
    MODEL = 9
    LENGTHS = 10
    CENTER = 11

    @property
    def n_numbers(self) -> int:
        """Number of scalars in an answer."""
        return _N_NUMBERS.get(self.name, 0)

    @property
    def of_users(self) -> bool:
        """Whether groups of users answer, without their numbers of rows."""
        return self in (Topic.SUM, Topic.MODEL)


_N_NUMBERS = {"COMPONENTS": 3, "MATRIX": 3, "SUBSPACE": 2, "PROJECTOR": 2}
_N_NUMBERS |= {"POWER": 1, "COVARIANCE": 1}


def _frozen(name: str, values, dimensions: tuple[int, ...]) -> np.ndarray:
    """Return finite float64 values in memory that cannot be written."""
    try:
        array = np.asarray(values)
        real = array.dtype.kind in "fiu"
        array = np.ascontiguousarray(array if real else 0.0, dtype="<f8")
    except (TypeError, ValueError, OverflowError):
        real = False
    if not (real and array.ndim in dimensions and np.isfinite(array).all()):
        raise MessageError(
            f"{name} must be finite, real numbers in {dimensions} dimensions"
        )
    # An array over bytes can never be made writable.
    return np.frombuffer(array.tobytes(), dtype="<f8").reshape(array.shape)


def _whole(name: str, value, low: int, high: int) -> int:
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high:
        raise MessageError(f"{name} must be a whole number in [{low}, {high}]")
    return int(value)


def check_name(name) -> str:
    """Return a client's name, or an error."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise MessageError("a client's name must be a printable string")
    size = len(name.encode())  # what is printable has a form in UTF-8
    if size > MAX_NAME_BYTES:
        raise MessageError(
            f"a client's name must have at most {MAX_NAME_BYTES} bytes in UTF-8, got "
            f"{size}: choose shorter names"
        )
    return name


@dataclass(frozen=True, eq=False)
class _Message:
    """What requests and replies share; `_array` names the field of numbers."""

    session: bytes
    task: bytes
    step: int
    topic: Topic

    _array: ClassVar[str]

    def __post_init__(self) -> None:
        for name, size in (("session", SESSION_BYTES), ("task", TASK_BYTES)):
            value = getattr(self, name)
            if not isinstance(value, bytes) or len(value) != size:
                raise MessageError(f"{name} must be {size} bytes")
        step = _whole("step", self.step, 0, _MAX_STEP)
        try:
            vars(self).update(step=step, topic=Topic(self.topic))
        except ValueError:
            raise MessageError("the message has an unknown topic") from None

    def check_place(self, session: bytes, task: bytes, step: int) -> None:
        """Refuse a message of another task, session or step."""
        kind = type(self).__name__.lower()
        if self.task != task:
            raise MessageError(
                f"the {kind} is for another task: {self.task.hex()} instead of "
                f"{task.hex()}; all parties need the same parameters"
            )
        if self.session != session:
            raise MessageError(f"the {kind} is for another session")
        if self.step != step:
            raise MessageError(
                f"the {kind} is for step {self.step}, not for step {step}"
            )

    def to_bytes(self) -> bytes:
        """Return the byte form: header, values and a digest."""
        header = {name: getattr(self, name) for name in self._fields()}
        header |= {name: header[name].hex() for name in ("session", "task")}
        header["topic"] = header["topic"].name
        kind = type(self).__name__.lower()
        return encode(kind, VERSION, header, getattr(self, self._array))

    @classmethod
    def _fields(cls) -> list[str]:
        names = (field.name for field in fields(cls))  # type: ignore[arg-type]
        return [name for name in names if name != cls._array]

    @classmethod
    def from_bytes(cls, data: bytes, *, max_bytes: int | None = None):
        """Read a message without unpickling, and check every length.

        Parameters
        ----------
        data : bytes
            Result of :meth:`to_bytes`.
        max_bytes : int or None, default=None
            Maximum length of a message to read.

        Returns
        -------
        Request or Reply
            A message of this class.

        Raises
        ------
        MessageError
            If the bytes are not a complete, unchanged message of this version.
        """
        form = cls.__name__.lower(), VERSION, cls._fields()
        header, values = decode(data, *form, max_bytes, _MOST_HEADER)
        try:
            for name in ("session", "task"):
                header[name] = bytes.fromhex(header[name])
            header["topic"] = Topic[header["topic"]]
        except (LookupError, TypeError, ValueError):
            raise MessageError(
                "the message has an unknown topic, session or task"
            ) from None
        found = cls(**header, **{cls._array: values})
        if found.to_bytes() != bytes(data):
            raise MessageError("these bytes are not the form of their message")
        return found

    def __eq__(self, other):
        return type(other) is type(self) and self.to_bytes() == other.to_bytes()

    def __hash__(self):
        return hash(self.to_bytes())


@dataclass(frozen=True, eq=False)
class Request(_Message):
    """A request of a server, identical for all of its clients.

    Parameters
    ----------
    session : bytes
        16 bytes that identify the session.
    task : bytes
        Digest of the server's task (:attr:`SpectralTask.digest`).
    step : int
        Number of the request in the session, from 0.
    topic : Topic
        Subject of the request.
    basis : ndarray of shape (p, k)
        Read-only columns that the answer depends on, of shape (0, 0) if there are none.
    """

    basis: np.ndarray = ()

    _array = "basis"

    def __post_init__(self) -> None:
        super().__post_init__()
        basis = np.zeros((0, 0)) if np.size(self.basis) == 0 else self.basis
        object.__setattr__(self, "basis", _frozen("basis", basis, (2,)))


@dataclass(frozen=True, eq=False)
class Reply(_Message):
    """An answer of a client, which contains only releases and public numbers.

    Parameters
    ----------
    session : bytes
        Session of the request.
    task : bytes
        Digest of the client's task.
    step : int
        Step of the request.
    topic : Topic
        Topic of the request.
    client : str
        Name of the client, at most 64 bytes in UTF-8.
    n_samples : int
        Public number of the client's rows, 0 for a group of users.
    mu : float
        Cost of all releases of the client in this session, infinite without privacy.
    numbers : tuple of float
        Scalars, as many as the topic has.
    values : ndarray
        The release, with one or two dimensions. The array is read-only.
    """

    client: str
    n_samples: int
    mu: float
    numbers: tuple[float, ...]
    values: np.ndarray

    _array = "values"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.client)
        topic = self.topic
        fewest, most = (0, 0) if topic.of_users else (1, _MAX_ROWS)
        rows = _whole("n_samples", self.n_samples, fewest, most)
        if not isinstance(self.mu, Real) or not self.mu > 0.0:
            raise MessageError("mu must be a positive number")
        numbers = _frozen("numbers", self.numbers, (1,))
        if len(numbers) != topic.n_numbers:
            raise MessageError(f"{topic.name} requires {topic.n_numbers} numbers")
        values = _frozen("values", self.values, (1, 2))
        checked = {"n_samples": rows, "mu": float(self.mu), "values": values}
        vars(self).update(checked, numbers=tuple(numbers.tolist()))


# Largest length of a client's reason that is shown.
_LONGEST_REASON = 200


class FederationError(RuntimeError):
    """Too few clients are left to continue."""


class Conversation:
    """A server's session with named clients, some of which may fail.

    A subclass creates requests and checks the values of replies. The task has a
    `digest`, and provides ``shape(topic)`` and ``longest(topic)`` for each topic.
    """

    clients: tuple[str, ...]
    rejected: dict[str, str]

    def _begin(self, clients: Iterable[str], task, min_clients, session) -> None:
        """Check clients and session, before the first request."""
        names = tuple(map(check_name, clients))
        (name, count), *_ = [*Counter(names).most_common(1), ("", 0)]
        if count > 1:
            raise ValueError(f"clients must have different names, got {name!r} twice")
        self.min_clients = check_count("min_clients", min_clients)
        if self.min_clients > len(names):
            raise ValueError(
                f"min_clients={self.min_clients} must be at most the number of "
                f"clients, {len(names)}"
            )
        session = uuid.uuid4().bytes if session is None else session
        if not isinstance(session, bytes) or len(session) != SESSION_BYTES:
            raise ValueError(f"session must be {SESSION_BYTES} bytes or None")
        self.task, self.clients, self.rejected = task, names, {}
        self._session, self._step = session, -1
        self._request: Request | None = None

    def _shape(self) -> tuple[int, ...]:
        """Shape of the values that answer the present request."""
        return self.task.shape(self._request.topic)

    # Raises a MessageError for a reply that no honest client could have sent.
    _check: ClassVar[Callable[..., None]]

    def collect(self, answers: Mapping[str, object]) -> list[Reply]:
        """Check the answers to the current request.

        Parameters
        ----------
        answers : mapping of str to bytes, Reply, exception or None
            Answers by client. None or a missing entry means no answer in time.

        Returns
        -------
        list of Reply
            Valid replies, in the order of the clients.

        Raises
        ------
        FederationError
            If fewer than `min_clients` clients are left.

        Warns
        -----
        UserWarning
            For each rejected client, with its name.
        """
        replies = self._valid(answers)
        self._need_enough()
        return replies

    def _valid(self, answers: Mapping[str, object]) -> list[Reply]:
        """Return valid answers; reject the other clients."""
        for name in set(answers) - set(self.clients) - set(self.rejected):
            self.rejected[str(name)] = "it is not a client of this session"
        if self._request is None:
            raise MessageError("there is no request yet")
        replies = []
        for name in self.clients:
            try:
                replies.append(self._checked(name, answers.get(name)))
            except MessageError as error:
                self._reject(name, str(error))
        return replies

    def _reject(self, name: str, reason: str) -> None:
        self.rejected[name] = reason
        self.clients = tuple(other for other in self.clients if other != name)
        said = f"client {name!r} was rejected: {reason}"
        warnings.warn(said, UserWarning, stacklevel=5)

    def _need_enough(self) -> None:
        """Raise if too few clients are left."""
        if len(self.clients) < self.min_clients:
            some = list(self.rejected.items())[:5]
            reasons = "; ".join(f"{name!r}: {reason}" for name, reason in some)
            raise FederationError(
                f"{len(self.clients)} clients are left, fewer than min_clients="
                f"{self.min_clients}; rejected: {reasons}"
            )

    def _checked(self, name: str, answer) -> Reply:
        """Return a client's valid reply, or raise what is wrong with it."""
        if answer is None:
            raise MessageError("it did not answer in time")
        if type(answer) is MessageError:
            # Such errors speak of messages and public numbers alone.
            text = "".join(c if c.isprintable() else " " for c in str(answer))
            raise MessageError(f"it refused the request: {text[:_LONGEST_REASON]}")
        if isinstance(answer, BaseException):  # whose text may speak of data
            raise MessageError(f"it failed with {type(answer).__name__}")
        topic = self._request.topic
        if not isinstance(answer, Reply):
            answer = Reply.from_bytes(answer, max_bytes=self.task.longest(topic))
        answer.check_place(self._session, self.task.digest, self._step)
        if (answer.client, answer.topic) != (name, topic):
            raise MessageError("the reply has another client's name or topic")
        found, shape = answer.values.shape, self._shape()
        if found != shape:
            raise MessageError(f"the reply has shape {found}, not {shape}")
        self._check(name, answer)
        return answer
