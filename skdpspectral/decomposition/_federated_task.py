"""The task of a session: what clients release, its byte form, and registrations."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .._messages.codec import MessageError, decode, encode
from .._messages.messages import OVERHEAD, TASK_BYTES, Request, Topic
from .._statistics.row_bounds import (
    Centered,
    Pairs,
    PrivateMean,
    PublicPoint,
    RowBounds,
    Shared,
)
from .._statistics.statistic import Statistic
from .._tables.columns import check_feature_names
from ..accounting._gaussian import check_delta
from ..mechanisms import PrivacyPlan, check_count, check_real, shown
from . import _kernels
from ._bounded_moments import LARGEST_DEFECT, PowerIteration, SecondMoment
from ._pca_mechanisms import ComponentMechanism, design_components
from ._shared_center import N_LENGTHS, N_NUMBERS, TOTALS, SharedCenter, check_column
from ._spiked import LEAST_SIGNAL, WHOLE_ORDER

# Raised whenever the same bytes would mean other releases, other shares of a budget
# included: the digest of a task must differ where its releases do.
TASK_VERSION = 3
# Largest number of features of a task that is read: a limit on memory.
_MOST_FEATURES = 2**24


_FIELDS = (
    *("n_components", "n_features", "aggregation", "start", "n_rounds"),
    *("projection_norm", "mechanism", "model_covariance", "feature_names"),
    *("clip_norm", "center", "center_radius", "scale"),
)


def pack(task) -> bytes:
    """Return the byte form of a task."""
    rows, origin = task.rows, task.rows.origin
    names = ("n_components", "aggregation", "start", "n_rounds", "projection_norm")
    header = {name: getattr(task, name) for name in (*names, "model_covariance")}
    radius = getattr(origin, "radius", None)
    header |= {
        "n_features": rows.n_features,
        "mechanism": asdict(task.mechanism),
        "feature_names": task.feature_names,
        "clip_norm": None if rows.clip_norm is None else float(rows.clip_norm),
        "center": _CENTERS.get(type(origin), "none"),
        "center_radius": None if radius is None else float(radius),
        "scale": None if rows.scale is None else "bounds",
    }
    return encode("task", TASK_VERSION, header, _sides(rows))


_CENTERS = {PrivateMean: "private", Pairs: "pairs", Shared: "shared"}


def _sides(rows) -> tuple[np.ndarray, np.ndarray]:
    """Low and high bounds: none, one pair for all features, or one for each."""
    if rows.box is None:
        return np.zeros(0), np.zeros(0)
    # Adding zero makes one of the two zeros of float64.
    low, high = (np.asarray(side) + 0.0 for side in (rows.box.low, rows.box.high))
    if np.all(low == low[0]) and np.all(high == high[0]):
        return low[:1], high[:1]
    return low, high


def unpack(data) -> dict:
    """Return the parameters in a byte form; objects among them check themselves."""
    header, sides = decode(data, "task", TASK_VERSION, _FIELDS)
    given = dict(header)
    p = check_count("n_features", given.pop("n_features"))
    if p > _MOST_FEATURES or sides.shape not in ((2, 0), (2, 1), (2, p)):
        raise MessageError("the parts of the task have an invalid size")
    center, radius = given.pop("center"), given.pop("center_radius")
    bounds = tuple(sides) if sides.shape[1] > 1 else tuple(map(float, sides.ravel()))
    if center == "private":
        center = PrivateMean(radius)
    elif center not in ("pairs", "shared", "none"):
        raise MessageError("the task names an unknown center")
    given["rows"] = RowBounds(
        p,
        bounds=bounds or None,
        clip_norm=given.pop("clip_norm"),
        center=center,
        scale=given.pop("scale"),
    )
    return {**given, "mechanism": ComponentMechanism(**given["mechanism"])}


_LENGTH, _SHORTEST = "projection_norm", 1e-60
_MOST_ROUNDS = 1000
# Step that tells clients of a shared center, behind lengths and two means.
_CENTERED = 3
# Topics of the start: of a second moment, and of a model.
_AGGREGATIONS = {
    "projector": (Topic.COMPONENTS, Topic.SUBSPACE),
    "matrix": (Topic.MATRIX, Topic.PROJECTOR),
}
# Ranges of what clients state, for their weights: costs, variances across the
# components, and the largest variance along them in units of those.
_COSTS, _VARIANCES, _MOST_SIGNAL = (1e-9, 1e30), (1e-90, 1e90), 1e10
_SECOND_MOMENT = ComponentMechanism()  # one frozen value for all


@dataclass(frozen=True, eq=False)
class SpectralTask:
    """Releases of a client: a mean, a second moment, and rounds of products.

    The server and all clients agree on it beforehand, and no request changes bounds or
    shares of the budget. Every message carries the :attr:`digest` of its sender's task,
    and messages with another digest are refused. :func:`make_task` creates a task from
    parameters in units of the data. Tasks with the same byte form are equal.

    Parameters
    ----------
    n_components : int
        Number of components, or of columns of a power iteration.
    rows : RowBounds
        How rows are bounded, with or without a private mean.
    aggregation : {"projector", "matrix"}, default="projector"
        Part of the second moment that is sent: its leading eigenvectors or all of it.
    start : bool, default=True
        Whether the second moment is released at all.
    n_rounds : int, default=0
        Number of rounds of a power iteration.
    projection_norm : float or None, default=None
        Public length, in units of the bounded rows (one such unit is ``rows.unit``
        units of the data), at which projections are clipped for a covariance within a
        basis. That covariance is released last. None releases no covariance.
    mechanism : ComponentMechanism, optional
        How the start is released, by default as a noisy second moment.
    model_covariance : bool, default=False
        Whether a model's covariance within a basis, without `projection_norm`, is
        released last.
    feature_names : sequence of str or None, default=None
        Distinct names of the features, in the order of the components. Each client must
        then pass a dataframe with these columns, in any order. With None, features are
        matched by position, and each client must pass an array.

    Attributes
    ----------
    topics : tuple of Topic
        Topics of all requests, in order: with a shared center ``LENGTHS`` and twice
        ``CENTER``; the start (``COMPONENTS``, ``MATRIX``,
        ``SUBSPACE`` or ``PROJECTOR``) if there is one, ``MEAN`` if rows are centered,
        ``POWER`` for each round, and finally ``COVARIANCE``. The last two have a basis,
        and so do requests after lengths, up to the start: one column of numbers.
    second_moment : bool
        Whether components are computed from one noisy second moment.
    with_covariance : bool
        Whether a covariance within a basis is released last.
    digest : bytes
        16 bytes that identify everything that clients release.

    Raises
    ------
    ValueError
        If a parameter is invalid, or contradicts another.
    """

    n_components: int
    rows: RowBounds
    aggregation: str = "projector"
    start: bool = True
    n_rounds: int = 0
    projection_norm: float | None = None
    mechanism: ComponentMechanism = _SECOND_MOMENT
    model_covariance: bool = False
    feature_names: tuple[str, ...] | None = None
    # What follows from these.
    second_moment: bool = field(init=False, repr=False)
    with_covariance: bool = field(init=False, repr=False)
    topics: tuple[Topic, ...] = field(init=False, repr=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.aggregation not in _AGGREGATIONS:
            raise ValueError(
                f"aggregation must be one of {sorted(_AGGREGATIONS)}, got "
                f"{self.aggregation!r}"
            )
        self._check_flags()
        self._check_counts()
        if self.feature_names is not None:
            names = check_feature_names(self.feature_names, self.rows.n_features)
            object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "second_moment", not self.mechanism.spiked)
        last = self.projection_norm is not None or self.model_covariance
        object.__setattr__(self, "with_covariance", last)
        length = self.projection_norm
        if length is not None:
            length = check_real(_LENGTH, length)
            object.__setattr__(self, _LENGTH, length)
            if not _SHORTEST <= length <= 1.0 / _SHORTEST:
                raise ValueError(
                    f"{_LENGTH} must be in [{_SHORTEST:g}, {1 / _SHORTEST:g}], in "
                    f"units of the bounded rows, got {length}"
                )
        if not self.second_moment:
            self._check_model()
        if self.shared and not (self.second_moment and self.start):
            raise ValueError(
                'center="shared" requires mechanism="gaussian" and components that are '
                'released; use center="pairs"'
            )
        if self.shared and self.n_rounds:
            raise ValueError(
                'center="shared" is not available for rounds of products; use '
                'center="pairs"'
            )
        if self.model_covariance and self.second_moment:
            raise ValueError("model_covariance requires mechanism=SpikedModel(...)")
        # Made at once: the arrays that bounds were given by may change later.
        form = pack(self)
        made = {
            "_form": form,
            "digest": hashlib.sha256(form).digest()[:TASK_BYTES],
            "topics": self._in_order(),
            # Made once for all clients of so many rows, and of such a budget.
            "_statistics": {},
            "_plans": {},
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def _check_flags(self) -> None:
        """Refuse other values than booleans: 2 would count as two starts."""
        for name in ("start", "model_covariance"):
            flag = getattr(self, name)
            if not isinstance(flag, (bool, np.bool_)):
                raise ValueError(f"{name} must be a boolean, got {shown(flag)}")
            object.__setattr__(self, name, bool(flag))

    def _check_counts(self) -> None:
        """Refuse invalid numbers of components and rounds."""
        rank = check_count("n_components", self.n_components)
        object.__setattr__(self, "n_components", rank)
        if rank > self.rows.n_features:
            raise ValueError(
                f"n_components={rank} must be at most n_features="
                f"{self.rows.n_features}; ask for fewer components"
            )
        rounds = self.n_rounds
        whole = isinstance(rounds, Integral) and not isinstance(rounds, bool)
        if not whole or not 0 <= rounds <= _MOST_ROUNDS:
            raise ValueError(f"n_rounds must be a whole number in [0, {_MOST_ROUNDS}]")
        if not (self.start or self.n_rounds or self.projection_norm is not None):
            raise ValueError("start=False needs n_rounds >= 1, or a covariance")

    def _check_model(self) -> None:
        """Refuse parameters that require a noisy second moment."""
        if self.n_rounds or not self.start:
            raise ValueError(
                "mechanism=SpikedModel(...) releases a start but no rounds; set "
                'n_rounds=0 or mechanism="gaussian"'
            )
        rows = self.rows
        bounded = rows.box is not None or rows.clip is not None
        if bounded or not isinstance(rows.origin, PublicPoint):
            raise ValueError(
                "bounds, clip_norm, scale and center are not used with "
                "mechanism=SpikedModel(...), whose rows are not bounded and have mean "
                'zero, or any with SpikedModel(mean="unknown"); leave them out'
            )
        if self.n_components == self.rows.n_features:
            raise ValueError(
                "mechanism=SpikedModel(...) needs n_components below n_features, got "
                f"n_components={self.n_components}"
            )
        if self.mechanism.unknown_spikes:
            self._check_unknown_spikes()
        elif len(self.mechanism.signal or ()) != self.n_components:
            raise ValueError(
                "SpikedModel needs a public signal_variance for each of the "
                f"{self.n_components} components"
            )
        if self.projection_norm is not None:
            raise ValueError(
                f"{_LENGTH} is not used with mechanism=SpikedModel(...), whose "
                f"projections are not clipped; leave {_LENGTH}=None"
            )
        if self.aggregation == "matrix" and self.rows.n_features > WHOLE_ORDER:
            raise ValueError(
                'aggregation="matrix" with a SpikedModel needs n_features of at '
                f"most {WHOLE_ORDER}, beyond which the noisy projector is never formed"
            )

    def _check_unknown_spikes(self) -> None:
        """Refuse parameters that require public variances of a model."""
        mechanism = self.mechanism
        if (
            mechanism.noise is not None
            or mechanism.centered
            or mechanism.calibration != "exact"
        ):
            raise ValueError(
                "signal_variance and noise_variance of a SpikedModel must both be "
                'numbers, or both "private" with mean="zero" and calibration="exact"'
            )
        if self.model_covariance or self.aggregation == "matrix":
            raise ValueError(
                'release="covariance" and aggregation="matrix" need public variances '
                "of a SpikedModel: state signal_variance and noise_variance"
            )

    def to_bytes(self) -> bytes:
        """Return the byte form, to send to other parties of the session.

        Returns
        -------
        bytes
            Versioned bytes with lengths and a checksum, equal for equivalent tasks.
        """
        return self._form

    @classmethod
    def from_bytes(cls, data: bytes) -> SpectralTask:
        """Read a task without unpickling, and check every part.

        Inspect the task before use, because it defines what a client releases.

        Parameters
        ----------
        data : bytes
            Result of :meth:`to_bytes`.

        Returns
        -------
        SpectralTask
            The same task.

        Raises
        ------
        MessageError
            If the bytes are not a complete, unchanged task of this version.
        """
        try:
            task = cls(**unpack(data))
        except MessageError:
            raise
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise MessageError(f"these bytes are not a valid task: {error}") from None
        if task.to_bytes() != bytes(data):
            raise MessageError("these bytes are not the serialized form of their task")
        return task

    def __eq__(self, other):
        if not isinstance(other, SpectralTask):
            return NotImplemented
        return self._form == other._form

    def __hash__(self):
        return hash(self._form)

    def __reduce__(self):
        # Without what was worked out for clients: copies of one task are alike.
        return SpectralTask.from_bytes, (self._form,)

    @property
    def shared(self) -> bool:
        """Whether clients first find a center together."""
        return isinstance(self.rows.origin, Shared)

    @property
    def largest_variance(self) -> float:
        """Public upper guess of the variances within a basis."""
        if self.projection_norm is not None:
            return self.projection_norm**2
        return max(self.mechanism.signal) + self.mechanism.noise

    def _in_order(self) -> tuple[Topic, ...]:
        """Topics, request by request."""
        choice = _AGGREGATIONS[self.aggregation][not self.second_moment]
        first = (choice,) if self.start else ()
        mean = (Topic.MEAN,) if isinstance(self.rows.origin, PrivateMean) else ()
        last = (Topic.COVARIANCE,) if self.with_covariance else ()
        if self.shared:
            first = (Topic.LENGTHS, Topic.CENTER, Topic.CENTER, *first)
        return (*first, *mean, *[Topic.POWER] * self.n_rounds, *last)

    def shape(self, topic: Topic) -> tuple[int, ...]:
        """Shape of the values that answer a topic."""
        p, k = self.rows.n_features, self.n_components
        return {
            Topic.COMPONENTS: (k, p),
            Topic.SUBSPACE: (k, p),
            Topic.MATRIX: (p * (p + 1) // 2,),
            Topic.PROJECTOR: (p * (p + 1) // 2,),
            Topic.MEAN: (p,),
            Topic.POWER: (p, k),
            Topic.COVARIANCE: (k, k),
            Topic.LENGTHS: (len(TOTALS), N_LENGTHS),
            Topic.CENTER: (p,),
        }[topic]

    def longest(self, topic: Topic | None = None) -> int:
        """Largest size in bytes of a reply to a topic, or of a request."""
        if topic is not None:
            return 8 * math.prod(self.shape(topic)) + OVERHEAD
        p = self.rows.n_features
        return 8 * max(p * self.n_components, p + N_NUMBERS) + OVERHEAD

    def statistic(self, n_samples: int) -> Statistic:
        """Return the release of a client with `n_samples` rows, from public numbers."""
        # As a Python int: equal numbers of other types would be found in its place.
        if type(n_samples) is not int or n_samples not in self._statistics:
            n_samples = check_count("n_samples", n_samples)
        if n_samples not in self._statistics:
            self._statistics[n_samples] = self._statistic_of(n_samples)
        return self._statistics[n_samples]

    def _statistic_of(self, n_samples: int) -> Statistic:
        rows, rank = self.rows, self.n_components
        if not self.second_moment:
            given = rows, n_samples, rank, self.with_covariance
            return self.mechanism.of_model(*given)
        more = self.start, self.n_rounds, self.with_covariance
        steps = PowerIteration(SecondMoment(rows, n_samples), rank, *more)
        if self.shared:
            return SharedCenter(rows, n_samples, steps)
        return Centered(rows, n_samples, steps)

    def mechanisms(self, n_samples: int, mu: float) -> tuple:
        """Plan all releases at a total cost of mu, from public numbers only.

        Use :meth:`plan` for a model, whose noise also depends on delta.
        """
        return self.statistic(n_samples).mechanisms(mu)

    def plan(
        self, n_samples: int, epsilon: float, delta: float, estimator: str, seeded: bool
    ) -> PrivacyPlan:
        """Return the plan of a client with `n_samples` rows."""
        budget, seeded = (float(epsilon), float(delta)), bool(seeded)
        statistic = self.statistic(n_samples)
        plans = self._plans.setdefault((n_samples, *budget), {})
        if (estimator, seeded) not in plans:
            more = {"estimator": estimator, "seeded": seeded}
            # Another thread may add one meanwhile.
            known = list(plans.values())
            plan = replace(known[0], **more) if known else None
            plans[estimator, seeded] = plan or statistic.plan(*budget, **more)
        return plans[estimator, seeded]

    def plan_of(self, client, n_samples: int, *budget) -> PrivacyPlan:
        """Return :meth:`plan`, with errors that name the client."""
        try:
            return self.plan(n_samples, *budget)
        except ValueError as error:
            raise ValueError(f"client {client!r}: {error}") from None

    def squared_error(
        self, n_samples: int, mu: float, signal: float, noise: float
    ) -> float:
        """Expected squared distance of a client's subspace under a model, for weights.

        `signal` is the variance along the components beyond the noise, and `noise` is
        the variance across them. Clients state these arguments, which may be any
        numbers. The result is always finite and non-negative.
        """
        mu = min(max(mu, _COSTS[0]), _COSTS[1])
        noise = min(max(noise, _VARIANCES[0]), _VARIANCES[1])
        signal = min(max(signal, LEAST_SIGNAL * noise), _MOST_SIGNAL * noise)
        statistic: Any = self.statistic(n_samples)
        error = statistic.squared_error(mu, signal, noise)
        if self.aggregation == "matrix":
            return error
        rank, p = self.n_components, self.rows.n_features
        return min(error, 2.0 * min(rank, p - rank))

    def check(self, request: Request) -> np.ndarray | None:
        """Return the orthonormalized basis of a valid request, or None if it has none.

        Numbers about a shared center are returned as they were sent.
        """
        if request.step >= len(self.topics):
            raise MessageError("no further request is answered in this session")
        topic = self.topics[request.step]
        if request.topic is not topic:
            raise MessageError(f"step {request.step} asks for {topic.name}")
        if self.shared and 0 < request.step <= _CENTERED:
            p = self.rows.n_features if request.step > 1 else 0
            numbers = N_NUMBERS if request.step == _CENTERED else 1
            return check_column(request.basis, p, numbers)
        with_basis = topic in (Topic.POWER, Topic.COVARIANCE)
        expected = self.shape(Topic.POWER) if with_basis else (0, 0)
        if request.basis.shape != expected:
            raise MessageError(f"a basis of shape {expected} is expected")
        if not with_basis:
            return None
        basis, defect = _kernels.orthonormal_columns(request.basis)
        if not defect < LARGEST_DEFECT:
            raise MessageError("the basis could not be made orthonormal")
        return basis


def make_task(
    n_components: int,
    n_features: int,
    *,
    bounds=None,
    clip_norm=None,
    center="auto",
    scale=None,
    aggregation="projector",
    start=True,
    n_rounds=0,
    projection_norm=None,
    mechanism="gaussian",
    model_covariance=False,
    feature_names=None,
) -> SpectralTask:
    """Create a task from the parameters of an estimator.

    Parameters
    ----------
    n_components, n_features : int
        Shape of the components.
    bounds, clip_norm, center, scale, mechanism
        As in :class:`~skdpspectral.FederatedDPPCA`. `scale` is "bounds" or None,
        because private scales would differ between clients.
    aggregation, start, n_rounds, model_covariance, feature_names
        As in :class:`SpectralTask`.
    projection_norm : float or None, default=None
        Public length, **in units of the data** like all lengths here (of the scaled
        features with ``scale="bounds"``), at which projections are clipped for a
        covariance within the components. None releases no covariance.

    Returns
    -------
    SpectralTask
        Task for a server and all of its clients.

    Raises
    ------
    ValueError
        If a parameter is invalid.
    """
    n_components = check_count("n_components", n_components)
    n_features = check_count("n_features", n_features)
    covariance = bool(model_covariance) or projection_norm is not None
    rows, chosen = design_components(
        mechanism,
        n_components,
        n_features,
        covariance,
        bounds=bounds,
        clip_norm=clip_norm,
        center=center,
        scale=scale,
    )
    if projection_norm is not None:
        projection_norm = check_real("projection_norm", projection_norm) / rows.unit
    return SpectralTask(
        n_components,
        rows,
        aggregation,
        bool(start),
        n_rounds,
        projection_norm,
        chosen,
        bool(model_covariance),
        feature_names,
    )


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


def check_client_budget(epsilon, delta) -> tuple[float, float]:
    """Return a budget as floats; infinity stands for no privacy."""
    epsilon = math.inf if epsilon is None else check_real("epsilon", epsilon)
    if not epsilon > 0.0:
        raise ValueError(f"epsilon must be positive or None, got {epsilon}")
    return epsilon, check_delta(delta)
