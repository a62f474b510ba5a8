"""What a client will release in one conversation, agreed on before it begins."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from numbers import Integral

import numpy as np

from .. import _linalg
from .._statistics.combination import Statistic
from .._statistics.components.mechanism import ComponentMechanism
from .._statistics.components.power_iteration import LARGEST_DEFECT, PowerIteration
from .._statistics.components.scales import LEAST_SIGNAL
from .._statistics.components.spiked_projector import WHOLE_ORDER
from .._statistics.private_mean import Centered
from .._statistics.row_bounds import RowBounds
from .._statistics.second_moment import SecondMoment
from ..mechanisms import PrivacyPlan
from ..mechanisms._numbers import check_count, check_real, shown
from ._messages import OVERHEAD, TASK_BYTES, MessageError, Request, Topic
from ._task_form import pack, unpack

_LENGTH, _SHORTEST = "projection_norm", 1e-60
_MOST_ROUNDS = 1000
# What is asked for first, of a second moment and of any other mechanism.
_AGGREGATIONS = {
    "projector": (Topic.COMPONENTS, Topic.SUBSPACE),
    "matrix": (Topic.MATRIX, Topic.PROJECTOR),
}
# What is believed of a client for its weight, at most: a cost, variances across the
# components, and variances along them in units of those.
_COSTS, _VARIANCES, _MOST_SIGNAL = (1e-9, 1e30), (1e-90, 1e90), 1e10
_SECOND_MOMENT = ComponentMechanism()  # one frozen value for all


@dataclass(frozen=True, eq=False)
class SpectralTask:
    """The releases of a client: a mean, a second moment, and rounds of products.

    Server and clients agree on it beforehand. Bounds and shares are the client's own;
    nothing of a request changes them. Every message carries the :attr:`digest` of its
    sender's task, and no side goes on with another one's. :func:`make_task` makes a
    task from parameters in units of the data; tasks of the same byte form are equal.

    Parameters
    ----------
    n_components : int
        Components, or columns of a power iteration.
    rows : RowBounds
        How rows are bounded, with a private mean or without.
    aggregation : {"projector", "matrix"}, default="projector"
        What of the second moment is sent: its leading eigenvectors or all of it.
    start : bool, default=True
        Whether the second moment is released at all.
    n_rounds : int, default=0
        Rounds of a power iteration.
    projection_norm : float or None, default=None
        Public length, in units of the bounded rows (``rows.unit`` units of the data
        each), that projections are clipped to for a covariance within a basis, which is
        released last; None for no covariance.
    mechanism : ComponentMechanism, optional
        How the start is released; by default a noisy second moment.
    model_covariance : bool, default=False
        Whether a covariance within a basis is released last by a model, which
        takes no `projection_norm`.

    Attributes
    ----------
    topics : tuple of Topic
        What a server asks for, request by request: the start (``COMPONENTS``,
        ``MATRIX``, ``SUBSPACE`` or ``PROJECTOR``) if there is one, ``MEAN`` where rows
        are centered, ``POWER`` for each round, ``COVARIANCE`` last. The last two bring
        a basis; the others depend on nothing.
        :class:`Rounds` goes through them.
    second_moment : bool
        Whether all is made of one noisy second moment.
    with_covariance : bool
        Whether a covariance within a basis is released last.
    digest : bytes
        16 bytes that differ wherever what clients release differs.

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
        object.__setattr__(self, "second_moment", self.mechanism.name == "gaussian")
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
            self._check_mechanism()
        if self.model_covariance and not self.mechanism.spiked:
            raise ValueError(
                "model_covariance goes with mechanism=SpikedModel(...) alone"
            )
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
        """Refuse flags that are none: a 2 would count as two starts in the shares."""
        for name in ("start", "model_covariance"):
            flag = getattr(self, name)
            if not isinstance(flag, (bool, np.bool_)):
                raise ValueError(f"{name} must be a boolean, got {shown(flag)}")
            object.__setattr__(self, name, bool(flag))

    def _check_counts(self) -> None:
        """Refuse numbers of components and rounds that are none."""
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

    def _check_mechanism(self) -> None:
        """Refuse what goes with a noisy second moment alone."""
        name, spiked = self.mechanism.name, self.mechanism.spiked
        if self.n_rounds or not self.start:
            raise ValueError(
                f"mechanism={name!r} makes a start and no rounds: use n_rounds=0, or "
                'mechanism="gaussian"'
            )
        rows = self.rows
        centered = rows.centered or rows.paired
        if spiked and (rows.box is not None or rows.clip is not None or centered):
            raise ValueError(
                "bounds, clip_norm, a private mean and pairs have no use with "
                "mechanism=SpikedModel(...), whose rows are not bounded; leave them out"
            )
        if self.n_components == self.rows.n_features and name != "auto":
            raise ValueError(
                f"mechanism={name!r} needs n_components below n_features, got "
                f"n_components={self.n_components}"
            )
        if spiked and len(self.mechanism.signal or ()) != self.n_components:
            raise ValueError(
                "SpikedModel needs a public signal_variance for each of the "
                f"{self.n_components} components"
            )
        if spiked and self.projection_norm is not None:
            raise ValueError(
                f"{_LENGTH} has no use with mechanism=SpikedModel(...), whose "
                f"projections are not clipped; leave {_LENGTH}=None"
            )
        if self.aggregation == "matrix" and not spiked:
            raise ValueError(
                'aggregation="matrix" goes with mechanism="gaussian" or a SpikedModel, '
                f"not with {name!r}, which makes components of several releases; use "
                'aggregation="projector"'
            )
        if self.aggregation == "matrix" and self.rows.n_features > WHOLE_ORDER:
            raise ValueError(
                'aggregation="matrix" with a SpikedModel needs n_features of at '
                f"most {WHOLE_ORDER}, beyond which the noisy projector is never formed"
            )

    # -- what parties agree on ---------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the byte form, for whoever shall hold the same task.

        Returns
        -------
        bytes
            Versioned, with lengths and a checksum; the same for all tasks that mean
            the same.
        """
        return self._form

    @classmethod
    def from_bytes(cls, data: bytes) -> SpectralTask:
        """Read a task; nothing is unpickled, and every part is checked.

        Read it before you hold it: a client releases what its task says.

        Parameters
        ----------
        data : bytes
            What :meth:`to_bytes` gave.

        Returns
        -------
        SpectralTask
            The same task.

        Raises
        ------
        MessageError
            If the bytes are no task of this version, whole and unchanged.
        """
        try:
            task = cls(*unpack(data))
        except MessageError:
            raise
        except (ValueError, OverflowError) as error:
            raise MessageError(f"these bytes are no valid task: {error}") from None
        if task.to_bytes() != bytes(data):
            raise MessageError("these bytes are not the byte form of their task")
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

    # -- what a client releases --------------------------------------------------------

    @property
    def largest_variance(self) -> float:
        """Public guess of the variances within a basis, from above."""
        if self.projection_norm is not None:
            return self.projection_norm**2
        return max(self.mechanism.signal) + self.mechanism.noise

    def _in_order(self) -> tuple[Topic, ...]:
        """Topics, request by request."""
        choice = _AGGREGATIONS[self.aggregation][not self.second_moment]
        first = (choice,) if self.start else ()
        mean = (Topic.MEAN,) if self.rows.centered else ()
        last = (Topic.COVARIANCE,) if self.with_covariance else ()
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
        }[topic]

    def longest(self, topic: Topic | None = None) -> int:
        """Largest size in bytes of a reply to a topic; without one, of a request."""
        return 8 * math.prod(self.shape(topic or Topic.POWER)) + OVERHEAD

    def statistic(self, n_samples: int) -> Statistic:
        """Return what a client of so many rows releases, from public numbers alone."""
        # As a Python int: equal numbers of other types would be found in its place.
        if type(n_samples) is not int or n_samples not in self._statistics:
            n_samples = check_count("n_samples", n_samples)
        if n_samples not in self._statistics:
            self._statistics[n_samples] = self._statistic_of(n_samples)
        return self._statistics[n_samples]

    def _statistic_of(self, n_samples: int) -> Statistic:
        if not self.second_moment:
            return self._components(n_samples)
        rows, rank = self.rows, self.n_components
        more = self.start, self.n_rounds, self.with_covariance
        steps = PowerIteration(SecondMoment(rows, n_samples), rank, *more)
        return Centered(rows, n_samples, steps)

    def _components(self, n_samples: int) -> Statistic:
        return self.mechanism.statistic(
            self.rows,
            n_samples,
            self.n_components,
            self.with_covariance,
            self.projection_norm,
        )

    def mechanisms(self, n_samples: int, mu: float) -> tuple:
        """Plan all releases at a total cost of mu, from public numbers alone.

        Not for a model, whose noise depends on delta too: use :meth:`plan`.
        """
        return self.statistic(n_samples).mechanisms(mu)

    def plan(
        self, n_samples: int, epsilon: float, delta: float, estimator: str, seeded: bool
    ) -> PrivacyPlan:
        """Return the plan of a client of so many rows."""
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
        """Expected squared distance of a client's subspace, for its weight.

        Parameters
        ----------
        n_samples, mu : int, float
            Rows and cost that the client stated.
        signal, noise : float
            Variances along the components beyond the noise, and across them.

        Returns
        -------
        float
            Finite and not negative, whatever the arguments are: they may come from
            anyone.
        """
        mu = min(max(mu, _COSTS[0]), _COSTS[1])
        noise = min(max(noise, _VARIANCES[0]), _VARIANCES[1])
        signal = min(max(signal, LEAST_SIGNAL * noise), _MOST_SIGNAL * noise)
        make = self._components if self.second_moment else self.statistic
        error = make(n_samples).squared_error(mu, signal, noise)
        if self.aggregation == "matrix":
            return error
        rank, p = self.n_components, self.rows.n_features
        return min(error, 2.0 * min(rank, p - rank))

    def check(self, request: Request) -> np.ndarray | None:
        """Return the basis of a valid request, made orthonormal; None for none."""
        if request.step >= len(self.topics):
            raise MessageError("nothing more will be answered in this session")
        topic = self.topics[request.step]
        if request.topic is not topic:
            raise MessageError(f"step {request.step} asks for {topic.name}")
        with_basis = topic in (Topic.POWER, Topic.COVARIANCE)
        expected = self.shape(Topic.POWER) if with_basis else (0, 0)
        if request.basis.shape != expected:
            raise MessageError(f"a basis of shape {expected} is expected")
        if not with_basis:
            return None
        basis, defect = _linalg.orthonormal_columns(request.basis)
        if not defect < LARGEST_DEFECT:
            raise MessageError("the basis could not be made orthonormal")
        return basis
