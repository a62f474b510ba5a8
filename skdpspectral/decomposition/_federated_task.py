"""The task of a session: an estimator's parameters, and the requests that follow."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from .._base.strategies import json_default, read_plain
from .._messages import (
    DIGEST_BYTES,
    OVERHEAD,
    UNREADABLE,
    MessageError,
    Party,
    Query,
    Request,
)
from .._tables.columns import check_feature_names
from ..accounting._gaussian import check_delta
from ..mechanisms import PrivacyPlan, check_count, check_real
from ._bounded_moments import PowerIteration, RowBounds
from ._federated_queries import (
    AskCenter,
    AskLengths,
    CenteredStart,
    ModelStart,
    Power,
    SharedCenter,
    Start,
    Within,
)
from ._spiked import LARGEST, SMALLEST, SpikedModel

# Largest number of features of a task: a limit on memory.
_MOST_FEATURES = 2**24
# Parameters that each client has of its own, or that no release depends on.
_BUDGET = {"epsilon": 1.0, "delta": 1e-6}
_OWN = ("accountant", "noise_seed", "client_feature")
# Parameters that only one of the estimators has.
_ALONE = {
    **{"mechanism": "gaussian", "projection_norm": None, "aggregation": "matrix"},
    **{"n_rounds": 0, "n_nonzero_features": None},
}


class Registration(NamedTuple):
    """Public numbers of a client, fixed before a session starts.

    Parameters
    ----------
    n_samples : int
        Number of the client's rows.
    epsilon, delta : float
        Requested budget, which determines the client's plan. Epsilon is infinite
        without privacy.
    """

    n_samples: int
    epsilon: float
    delta: float


def _number(text: str) -> float:
    """Return the one form of a number: whole ones are integers."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2.0**53 else number


class Task:
    """What all parties agree on beforehand, as JSON; equal if their JSON is."""

    queries: tuple[Query, ...]
    digest: bytes
    _form: str
    # Of subclasses: the name and the classes of their estimator, its parameters that no
    # release depends on or that each party has of its own, and a version that is raised
    # whenever the same parameters would mean other releases, or other messages.
    _word: ClassVar[str]
    _known: ClassVar[tuple[str, ...]]
    _own: ClassVar[tuple[str, ...]]
    _version: ClassVar[int]

    def _agree(self, estimator, **more) -> None:
        """Set the form of the task, and its digest."""
        named = estimator.get_params(deep=False)
        form = {
            self._word: type(estimator).__name__,
            "parameters": {k: v for k, v in named.items() if k not in self._own},
            "version": self._version,
            **more,
        }
        plain = json.loads(json.dumps(form, default=json_default), parse_float=_number)
        self._form = json.dumps(plain, sort_keys=True, allow_nan=False)
        self.digest = hashlib.sha256(self._form.encode()).digest()[:DIGEST_BYTES]

    @property
    def n_steps(self) -> int:
        """Number of requests."""
        return len(self.queries)

    def longest(self, step: int | None = None) -> int:
        """Largest size in bytes of a reply to a step, or of any request."""
        shapes: list[tuple[int, ...]] = [q.basis_shape for q in self.queries]
        shapes = shapes if step is None else [self.queries[step].shape]
        return 8 * max(map(math.prod, shapes)) + OVERHEAD

    def check(self, request: Request) -> Any:
        """Return what a client needs of a request, or raise if it is not valid."""
        if request.step >= self.n_steps:
            raise MessageError("no further request is answered in this session")
        return self.queries[request.step].read(request.basis)

    def to_json(self) -> str:
        """Return the task as JSON, to send to other parties.

        Returns
        -------
        str
            Parameters by name, the same for equal tasks.
        """
        return self._form

    @classmethod
    def from_json(cls, text: str):
        """Read a task, and check every part.

        Inspect the task before use, because it defines what a client releases.

        Parameters
        ----------
        text : str
            Result of :meth:`to_json`.

        Returns
        -------
        SpectralTask or GroupTask
            A task of this class.

        Raises
        ------
        MessageError
            If the text is not a task of this version.
        """
        try:
            form = json.loads(text)
            package = importlib.import_module(__package__.partition(".")[0])
            kind = getattr(package, cls._known[cls._known.index(form.pop(cls._word))])
            given = form.pop("parameters")
            for name in given.keys() - {"weights"}:  # may be a mapping from names
                given[name] = read_plain(given[name])
            del form["version"]  # which is compared in the end
            task = cls(kind(**given), **form)
        except UNREADABLE as error:
            raise MessageError(f"this is not a valid task: {error}") from None
        if task._form != text:
            raise MessageError("this is not the form of a task of this version")
        return task

    def __reduce__(self):
        return type(self).from_json, (self._form,)

    def __eq__(self, other):
        return self._form == other._form if isinstance(other, Task) else NotImplemented

    def __hash__(self):
        return hash(self._form)


class SpectralTask(Task):
    """Task of a federated estimator: what each client releases, step by step.

    The server and all clients agree on it beforehand, and no request changes bounds or
    shares of the budget. Every message carries the :attr:`digest` of its sender's task,
    and messages with another digest are refused.

    Parameters
    ----------
    estimator : FederatedDPPCA or SparseDPPCA
        Unfitted estimator with all parameters; it is not changed. Its `epsilon` and
        `delta` must be the defaults, because each client has its own budget. Its
        `accountant`, `noise_seed` and `client_feature` are ignored.
    n_features : int
        Number of features, without a column of clients.
    feature_names : sequence of str or None, default=None
        Distinct names of the features, in the order of the components. Each client must
        then pass a dataframe with these columns, in any order. With None, features are
        matched by position, and each client must pass an array.

    Attributes
    ----------
    estimator : FederatedDPPCA or SparseDPPCA
        Copy of the estimator, without ledger and seed.
    n_features : int
        Number of features.
    feature_names : tuple of str or None
        Names of the features.
    n_steps : int
        Number of requests.
    digest : bytes
        16 bytes that identify all parameters of the task.

    Raises
    ------
    TypeError
        If the estimator is not one of the two.
    ValueError
        If a parameter is invalid, or contradicts another.

    Examples
    --------
    >>> from skdpspectral import FederatedDPPCA
    >>> from skdpspectral.federation import SpectralTask
    >>> task = SpectralTask(FederatedDPPCA(1, bounds=(-20, 20)), n_features=5)
    >>> SpectralTask.from_json(task.to_json()) == task
    True
    """

    _word, _known = "estimator", ("FederatedDPPCA", "SparseDPPCA")
    _own, _version = (*_BUDGET, *_OWN), 7

    def __init__(self, estimator, n_features, *, feature_names=None):
        if not hasattr(estimator, "_fitted_by"):
            raise TypeError("estimator must be a FederatedDPPCA or a SparseDPPCA")
        for name, default in _BUDGET.items():
            if getattr(estimator, name) != default:
                raise ValueError(
                    f"{name} of a task must be the default, because each client has "
                    f"its own: pass {name} to LocalClient"
                )
        estimator = clone(estimator).set_params(**dict.fromkeys(_OWN))
        estimator._check_parameters()
        self.estimator = estimator
        self.n_features = p = check_count("n_features", n_features)
        if p > _MOST_FEATURES:
            raise ValueError(f"n_features={p} must be at most {_MOST_FEATURES}")
        self.feature_names = check_feature_names(feature_names, p)
        self.n_components = rank = int(estimator.n_components)
        if rank > p:
            raise ValueError(
                f"n_components={rank} must be at most n_features={p}; ask for fewer "
                "components"
            )
        check_client_weights(estimator.weights)
        given = {**_ALONE, **estimator.get_params(deep=False)}
        length = given["projection_norm"]
        self.with_covariance = length is not None
        self.model: SpikedModel | None = None
        center = estimator.center
        if isinstance(given["mechanism"], SpikedModel):
            self.model = given["mechanism"]
            self.model.check(rank, p)
            self.with_covariance |= self.model.with_covariance
            # The model states that the mean is zero, or takes it off.
            center = "none" if center == "auto" else center
        self.rows = RowBounds(p, bounds=estimator.bounds, center=center)
        self.n_rounds = int(given["n_rounds"])
        self.by_matrix = given["aggregation"] == "matrix"
        if length is not None:  # in units of the bounded rows
            length = check_real("projection_norm", length) / self.rows.unit
        self.projection_norm: float | None = length
        kept = given["n_nonzero_features"]
        self.n_kept = p if kept is None else int(kept)
        self._check()
        # Made once for all clients of so many rows, and of such a budget.
        self.statistic, self._plan = cache(self._statistic), cache(self._planned)
        self.queries = self._in_order()
        self._agree(estimator, n_features=p, feature_names=self.feature_names)

    def _check(self) -> None:
        """Refuse parameters that contradict each other."""
        rows, model, length = self.rows, self.model, self.projection_norm
        rank, p, kept = self.n_components, self.n_features, self.n_kept
        refused = {
            "bounds and center are not used with mechanism=SpikedModel(...), whose "
            "rows are not bounded and have mean zero, or any with "
            'SpikedModel(mean="unknown"); leave them out': (
                model is not None and (rows.box is not None or rows.center != "none")
            ),
            "projection_norm is not used with mechanism=SpikedModel(...), whose "
            "projections are not clipped; leave it as None": (
                model is not None and length is not None
            ),
            'aggregation="matrix" needs public variances of a SpikedModel: state '
            "signal_variance and noise_variance": (
                model is not None and model.is_private and self.by_matrix
            ),
            f"projection_norm must be in [{SMALLEST:g}, {LARGEST:g}] in units of the "
            f"bounded rows, got {length}": (
                length is not None and not SMALLEST <= length <= LARGEST
            ),
            f"n_nonzero_features={kept} must be between n_components={rank} and "
            f"n_features={p}, or None": not rank <= kept <= p,
        }
        for said, wrong in refused.items():
            if wrong:
                raise ValueError(said)

    @property
    def shared(self) -> bool:
        """Whether clients first find a center together."""
        return self.rows.center == "shared"

    def _in_order(self) -> tuple[Query, ...]:
        """Return all requests: a center, a start, rounds and a covariance."""
        queries: list[Query] = []
        if self.shared:
            queries += [AskLengths(self), AskCenter(self, 1), AskCenter(self, 2)]
        start = CenteredStart if self.shared else Start
        queries.append(ModelStart(self) if self.model else start(self))
        queries += [Power(self, t) for t in range(1, self.n_rounds + 1)]
        return (*queries, *([Within(self)] if self.with_covariance else []))

    def _statistic(self, n_samples: int) -> Any:
        """Return the release of a client with `n_samples` rows, from public numbers."""
        rows, rank = self.rows, self.n_components
        if self.model is not None:
            return self.model.statistic(n_samples, self.n_features, rank)
        more = self.n_rounds, self.with_covariance
        steps = PowerIteration(rows, n_samples, rank, *more)
        return SharedCenter(rows, n_samples, steps) if self.shared else steps

    def _planned(self, n_samples: int, epsilon: float, delta: float) -> PrivacyPlan:
        named = {"estimator": type(self.estimator).__name__, "seeded": False}
        return self.statistic(n_samples).plan(epsilon, delta, **named)

    def party(self, name: str, n_samples: int, epsilon, delta) -> Party:
        """Return what is public of a client; errors name it."""
        try:
            n_samples = check_count("n_samples", n_samples)
            epsilon, delta = check_client_budget(epsilon, delta)
            if n_samples < self.n_components:
                raise ValueError(
                    f"n_samples={n_samples} is below n_components="
                    f"{self.n_components}; ask for fewer components, or leave this "
                    "client out"
                )
            plan = self._plan(n_samples, epsilon, delta)
        except (TypeError, ValueError) as error:
            raise ValueError(f"client {name!r}: {error}") from None
        return Party(n_samples, plan, self.rows.center == "pairs")


def check_client_budget(epsilon, delta) -> tuple[float, float]:
    """Return a budget as floats; infinity stands for no privacy."""
    epsilon = math.inf if epsilon is None else check_real("epsilon", epsilon)
    if not epsilon > 0.0:
        raise ValueError(f"epsilon must be positive or None, got {epsilon}")
    return epsilon, check_delta(delta)


def check_client_weights(
    weights, names: Collection[str] | None = None
) -> dict[str, float] | None:
    """Return valid public weights by client, or None for a word that chooses them."""
    if not isinstance(weights, Mapping):
        return None
    names = weights.keys() if names is None else names
    for name in (*weights, *names):
        if name not in names or name not in weights:
            side = "has no entry for" if name in names else "names, without rows,"
            raise ValueError(f"weights {side} the client {name!r}")
    own = {name: check_real("weights", weights[name]) for name in names}
    finite = all(0.0 <= value < np.inf for value in own.values())
    if not finite or not any(own.values()):
        raise ValueError("weights must be finite and at least 0, and not all of them 0")
    return own
