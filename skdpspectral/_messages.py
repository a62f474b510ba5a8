"""Requests and replies, with their forms, and a server's session with clients.

A message is one line of JSON, numbers in float64, and a digest of both.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from .mechanisms import PrivacyPlan, check_count

# Raised whenever a message has other fields.
VERSION = 4
DIGEST_BYTES = 16  # of a session, too
MAX_NAME_BYTES = 64
# Bytes of a message beside its values, and of its header, at most.
OVERHEAD, _MOST_HEADER = 600, 560
_MAX_STEP, _MAX_ROWS = 2**32 - 1, 2**63 - 1
# Largest length of a client's reason that is shown.
_LONGEST_REASON = 200
# What bytes of a stranger may raise where they are read.
UNREADABLE = (
    *(AttributeError, LookupError, OverflowError, RecursionError),
    *(TypeError, ValueError),
)


class MessageError(ValueError):
    """A message is malformed, or does not belong to this session."""


class FederationError(RuntimeError):
    """Too few clients are left to continue."""


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


def cleaned(text: str) -> str:
    """Return what a stranger has said, in at most 200 printable characters."""
    return "".join(c if c.isprintable() else " " for c in text[:_LONGEST_REASON])


def _digest(name: str, value) -> bytes:
    if not isinstance(value, bytes) or len(value) != DIGEST_BYTES:
        raise MessageError(f"{name} must be {DIGEST_BYTES} bytes")
    return value


def _cost(name: str, value: Any) -> float:
    if not isinstance(value, Real) or not float(value) > 0.0:
        raise MessageError(f"{name} must be a positive number")
    return float(value)


# Checks of the fields of messages, each of which returns the value that is kept.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "session": _digest,
    "task": _digest,
    "step": lambda name, value: _whole(name, value, 0, _MAX_STEP),
    "client": lambda name, value: check_name(value),
    "n_samples": lambda name, value: _whole(name, value, 0, _MAX_ROWS),
    "mu": _cost,
    "numbers": lambda name, value: tuple(_frozen(name, value, (1,)).tolist()),
    "basis": lambda name, value: _frozen(
        name, value if np.size(value) else np.zeros((0, 0)), (2,)
    ),
    "values": lambda name, value: _frozen(name, value, (1, 2)),
}


def signed(body: bytes) -> bytes:
    """Return bytes with a digest against damage in transit; it is no signature."""
    return body + hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, eq=False)
class _Message:
    """What requests and replies share; `_array` names the field of numbers."""

    session: bytes
    task: bytes
    step: int

    _array: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            vars(self)[name] = _CHECKS[name](name, value)

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
        header = {f.name: getattr(self, f.name) for f in fields(self)}
        values = header.pop(self._array)
        header |= {name: header[name].hex() for name in ("session", "task")}
        header |= {"kind": type(self).__name__, "version": VERSION}
        header["shape"] = values.shape
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
        return signed(text.encode() + b"\n" + values.tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, *, max_bytes: int | None = None):
        """Read a message without unpickling, and check every part.

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
        kind = cls.__name__
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise MessageError(f"a {kind} must be bytes, got {type(data).__name__}")
        size = memoryview(data).nbytes
        if max_bytes is not None and size > max_bytes:
            raise MessageError(
                f"the {kind} has {size} bytes, but at most {max_bytes} fit"
            )
        data = bytes(data)
        if signed(data[:-DIGEST_BYTES]) != data:
            raise MessageError(f"the {kind} was damaged: its digest does not match")
        text, _, numbers = data[:-DIGEST_BYTES].partition(b"\n")
        try:
            header = json.loads(text if len(text) <= _MOST_HEADER else b"")
            version = header.pop("version")
            if (header.pop("kind"), version) != (kind, VERSION):
                raise MessageError(
                    f"these bytes are not a {kind} of version {VERSION}, which this "
                    f"release reads: they have version {str(version)[:9]}"
                )
            values = np.frombuffer(numbers, dtype="<f8").reshape(header.pop("shape"))
            header |= {n: bytes.fromhex(header[n]) for n in ("session", "task")}
            found = cls(**header, **{cls._array: values})
        except MessageError:
            raise
        except UNREADABLE:
            raise MessageError(f"these bytes are not a valid {kind}") from None
        if found.to_bytes() != data:
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
    basis : ndarray of shape (p, k)
        Read-only columns that the answer depends on, of shape (0, 0) if there are none.
    """

    basis: np.ndarray = ()

    _array = "basis"


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
    client : str
        Name of the client, at most 64 bytes in UTF-8.
    n_samples : int
        Public number of the client's rows, 0 for a group of users.
    mu : float
        Cost of all releases of the client in this session, infinite without privacy.
    numbers : tuple of float
        Scalars, as many as the request asks for.
    values : ndarray
        The release, with one or two dimensions. The array is read-only.
    """

    client: str
    n_samples: int
    mu: float
    numbers: tuple[float, ...]
    values: np.ndarray

    _array = "values"


@dataclass
class Party:
    """Public facts about a client: its rows, its plan, and whether it pairs rows."""

    n_samples: int
    plan: PrivacyPlan
    paired: bool = False


class Query:
    """A request for numbers and values of some shape, and what is done with them."""

    shape: tuple[int, ...]
    n_numbers = 0
    basis_shape: tuple[int, int] = (0, 0)

    # Of subclasses: what a client sends for its rows and what `read` has returned; a
    # check of it, which raises MessageError for what no honest client sends; and the
    # use of valid replies.
    value: ClassVar[Callable[..., tuple[tuple, np.ndarray]]]
    check: ClassVar[Callable[..., None]]
    use: ClassVar[Callable[..., None]]

    def ask(self, rounds: Any) -> Any:
        """Return the basis of the request, as the server makes it."""
        return ()

    def read(self, basis: np.ndarray) -> Any:
        """Return what the answer needs of a request, or raise."""
        if basis.shape != self.basis_shape:
            raise MessageError(f"a basis of shape {self.basis_shape} is expected")
        return None


class Session:
    """A server's requests to named clients, some of which may fail."""

    clients: tuple[str, ...]
    rejected: dict[str, str]
    # What is public of each client, and how far its cost may be from that of its plan.
    parties: dict[str, Party]
    _claim = 1e-9

    def _open(self, clients: Iterable[str], task, min_clients) -> None:
        """Check clients, and begin a new session."""
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
        self.task, self.clients, self.rejected = task, names, {}
        self._session, self._step = uuid.uuid4().bytes, 0
        self._request: Request | None = None

    @property
    def done(self) -> bool:
        """Whether all requests of the task were answered."""
        return self._step == len(self.task.queries)

    def request(self) -> Request:
        """Return the request for `clients`.

        Repeated calls return the same request until it is answered.

        Returns
        -------
        Request
            Request to send, as an object or in its byte form.

        Raises
        ------
        MessageError
            If there are no further requests.
        """
        if self.done:
            raise MessageError("all requests of the task were sent")
        if self._request is None:
            place = self._session, self.task.digest, self._step
            self._request = Request(*place, self.task.queries[self._step].ask(self))
        return self._request

    def collect(self, answers: Mapping[str, object]) -> None:
        """Process the answers to the current request.

        Parameters
        ----------
        answers : mapping of str to bytes, Reply, exception or None
            Answers by client. None or a missing entry means no answer in time.

        Raises
        ------
        FederationError
            If fewer than `min_clients` clients are left.
        MessageError
            If there was no request since the last answers.

        Warns
        -----
        UserWarning
            For each rejected client, with its name.
        """
        if self._request is None:
            raise MessageError("there has been no request since the last answers")
        for name in set(answers) - set(self.clients) - set(self.rejected):
            self.rejected[str(name)] = "it is not a client of this session"
        replies = []
        for name in self.clients:
            try:
                replies.append(self._checked(name, answers.get(name)))
            except MessageError as error:
                self._reject(name, str(error))
        query = self.task.queries[self._step]
        if query.shape != (0,):  # else nothing is made of what clients have sent
            self._need_enough()
        query.use(self, replies)
        self._step, self._request = self._step + 1, None

    def _reject(self, name: str, reason: str) -> None:
        self.rejected[name] = reason
        self.clients = tuple(other for other in self.clients if other != name)
        said = f"client {name!r} was rejected: {reason}"
        warnings.warn(said, UserWarning, stacklevel=3)

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
            raise MessageError(f"it refused the request: {cleaned(str(answer))}")
        if isinstance(answer, BaseException):  # whose text may speak of data
            raise MessageError(f"it failed with {type(answer).__name__}")
        task, step = self.task, self._step
        query, party = task.queries[step], self.parties[name]
        if not isinstance(answer, Reply):
            answer = Reply.from_bytes(answer, max_bytes=task.longest(step))
        answer.check_place(self._session, task.digest, step)
        if answer.client != name:
            raise MessageError("the reply has another client's name")
        found = answer.values.shape, len(answer.numbers)
        if found != (query.shape, query.n_numbers):
            raise MessageError(
                f"the reply has values of shape {found[0]} and {found[1]} numbers, not "
                f"{query.shape} and {query.n_numbers}"
            )
        n, mu = party.n_samples, party.plan.mu
        near = math.isclose(answer.mu, mu, rel_tol=self._claim)
        if answer.n_samples != n or not near:
            raise MessageError(
                "its number of rows or its budget does not match the session: "
                f"n_samples={answer.n_samples}, mu={answer.mu:g} instead of "
                f"n_samples={n}, mu={mu:g}"
            )
        query.check(party, answer)
        return answer
