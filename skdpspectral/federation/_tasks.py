"""What a client will release in one conversation, agreed on before it begins."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import _spectral, sensitivity
from .._bounded_moments import (
    RowBounds,
    mean_budget,
    plan_mean,
    plan_second_moment,
    release_mean,
    second_moment,
)
from .._projected_moment import NAME as projected_moment
from .._projected_moment import plan_projected_moment, release_projected_moment
from ..accounting import calibrate_gaussian, gaussian_mu, split_mu
from ..mechanisms import Exact, PrivacyPlan, check_count, check_real
from ._messages import MessageError, Request, Topic

# Largest ||Q'Q - I|| of a basis, after a client has made it orthonormal.
_DEFECT = 2.0**-40
# Share of mu**2 of a covariance, once a mean is paid.
_COVARIANCE_SHARE = 0.15
_LENGTH, _SHORTEST = "projection_norm", 1e-60
_AGGREGATIONS = {"projector": Topic.COMPONENTS, "matrix": Topic.MATRIX}


def _shares(n_parts: int) -> list[float]:
    """Shares of mu**2 of the start and the rounds."""
    return [1.0 / n_parts] * n_parts


@dataclass(frozen=True)
class SpectralTask:
    """The releases of a client: a mean, a second moment, and rounds of products.

    Server and clients agree on it beforehand. Bounds and shares are the client's own;
    nothing of a request changes them.

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
        Public length, in units of the rows, that projections are clipped to for a
        covariance within a basis, which is released last; None for no covariance.
    """

    n_components: int
    rows: RowBounds
    aggregation: str = "projector"
    start: bool = True
    n_rounds: int = 0
    projection_norm: float | None = None

    def __post_init__(self) -> None:
        if self.aggregation not in _AGGREGATIONS:
            raise ValueError(
                f"aggregation must be one of {sorted(_AGGREGATIONS)}, got "
                f"{self.aggregation!r}"
            )
        if self.n_rounds < 0 or not (self.start or self.n_rounds):
            raise ValueError("a task without a start needs n_rounds of at least 1")
        length = self.projection_norm
        if length is not None and not check_real(_LENGTH, length) >= _SHORTEST:
            raise ValueError(f"{_LENGTH} must be at least {_SHORTEST:g}, got {length}")
        if length is not None and not length <= 1.0 / _SHORTEST:
            raise ValueError(f"{_LENGTH} must be at most {1 / _SHORTEST:g}")

    @property
    def topics(self) -> tuple[Topic, ...]:
        """What is asked for, request by request."""
        first = (_AGGREGATIONS[self.aggregation],) if self.start else ()
        mean = (Topic.MEAN,) if self.rows.centred else ()
        last = () if self.projection_norm is None else (Topic.COVARIANCE,)
        return (*first, *mean, *[Topic.POWER] * self.n_rounds, *last)

    def shape(self, topic: Topic) -> tuple[int, ...]:
        """Shape of the values that answer a topic."""
        p, k = self.rows.n_features, self.n_components
        return {
            Topic.COMPONENTS: (k, p),
            Topic.MATRIX: (p * (p + 1) // 2,),
            Topic.MEAN: (p,),
            Topic.POWER: (p, k),
            Topic.COVARIANCE: (k, k),
        }[topic]

    def mechanisms(self, n_samples: int, mu: float) -> tuple:
        """Plan all releases at a total cost of mu, from public numbers alone."""
        mean_mu, rest = mean_budget(self.rows, mu)
        inner, rest = self._covariance_budget(rest)
        shares = _shares(int(self.start) + self.n_rounds)
        costs = (rest,) * len(shares)
        if math.isfinite(mu):
            costs = split_mu(rest, shares)
        planned = list(plan_mean(self.rows, n_samples, mean_mu))
        if self.start:
            planned.append(plan_second_moment(self.rows, n_samples, costs[0]))
        for t, cost in enumerate(costs[int(self.start) :], 1):
            planned.append(self._plan_product(f"power_{t}", n_samples, cost))
        if self.projection_norm is not None:
            size = (n_samples, *self.shape(Topic.POWER))
            planned.append(plan_projected_moment(*size, inner))
        return tuple(planned)

    def _covariance_budget(self, mu: float) -> tuple[float, float]:
        """Split mu into the cost of a covariance, 0 without one, and the rest."""
        if self.projection_norm is None or not math.isfinite(mu):
            return (0.0 if self.projection_norm is None else mu), mu
        return split_mu(mu, (_COVARIANCE_SHARE, 1.0 - _COVARIANCE_SHARE))

    def _plan_product(self, name: str, n_samples: int, mu: float):
        shape = self.shape(Topic.POWER)
        if not math.isfinite(mu):
            return Exact(name, shape)
        radius = self.rows.second_radius
        error = sensitivity.power_product_error(
            radius, n_samples, _spectral.rows_per_block(shape[0]), *shape, _DEFECT
        )
        return calibrate_gaussian(
            name,
            sensitivity.power_product_sensitivity(radius, n_samples, shape[1]),
            mu,
            shape,
            summation_error=error,
            magnitude=2.0 * radius**2,
        )

    def plan(
        self, n_samples: int, epsilon: float, delta: float, estimator: str, seeded: bool
    ) -> PrivacyPlan:
        """Return the plan of a client of so many rows."""
        mu = math.inf
        if math.isfinite(epsilon):
            mu = gaussian_mu(float(epsilon), float(delta))
        return PrivacyPlan(
            epsilon=float(epsilon),
            delta=float(delta),
            mechanisms=self.mechanisms(n_samples, mu),
            estimator=estimator,
            seeded=seeded,
            remarks=self.rows.remarks(),
        )

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
        basis, defect = _spectral.orthonormal_columns(request.basis)
        if not defect < _DEFECT:
            raise MessageError("the basis could not be made orthonormal")
        return basis


def make_task(
    n_components: int,
    n_features: int,
    *,
    bounds=None,
    clip_norm=None,
    center="auto",
    scale_by_bounds=False,
    center_clip_norm=None,
    aggregation="projector",
    start=True,
    n_rounds=0,
    projection_norm=None,
) -> SpectralTask:
    """Return a task from the parameters of an estimator.

    Parameters
    ----------
    n_components, n_features : int
        Shape of the components.
    bounds, clip_norm, center, scale_by_bounds, center_clip_norm
        As in :class:`~skdpspectral.DPPCA`.
    aggregation, start, n_rounds, projection_norm
        As in :class:`SpectralTask`.

    Returns
    -------
    SpectralTask
        For a server and all of its clients.

    Raises
    ------
    ValueError
        If a parameter is invalid.
    """
    rows = RowBounds(
        check_count("n_features", n_features),
        bounds=bounds,
        clip_norm=clip_norm,
        center=center,
        scale_by_bounds=scale_by_bounds,
        center_clip_norm=center_clip_norm,
    )
    n_components = check_count("n_components", n_components)
    return SpectralTask(
        n_components, rows, aggregation, start, int(n_rounds), projection_norm
    )


class Releases:
    """The releases of one client's task, made as they are asked for.

    Parameters
    ----------
    task : SpectralTask
        What is released.
    X : ndarray of shape (n, p)
        Private rows.
    release : Release
        Charged with the task's plan.
    """

    def __init__(self, task: SpectralTask, X, release):
        self._task, self._X, self._release = task, X, release
        self._mean = release_mean(release, task.rows, X)

    def answer(self, topic: Topic, step: int, basis) -> tuple[tuple, np.ndarray]:
        """Return numbers and values that answer a topic."""
        if topic is Topic.MEAN:
            return (), self._mean
        if topic is Topic.POWER:
            return self._product(step, basis)
        if topic is Topic.COVARIANCE:
            return self._covariance(basis)
        return self._second_moment(topic)

    def _second_moment(self, topic: Topic):
        rank, rows = self._task.n_components, self._task.rows
        exact = second_moment(rows, self._X, self._mean)
        moment = self._release("second_moment", exact, overwrite=True)
        values, vectors = _spectral.top_eigh(moment, rank)
        others = max(rows.n_features - rank, 1)
        bulk = (float(np.trace(moment)) - float(values.sum())) / others
        bulk = bulk if rank < rows.n_features else 0.0
        numbers = (self._noise_std("second_moment"), float(values[-1]), bulk)
        if topic is Topic.MATRIX:
            return numbers, _spectral.pack_lower(moment)
        return numbers, vectors

    def _product(self, step: int, basis):
        rows = self._task.rows
        before = self._task.topics.index(Topic.POWER)
        name = f"power_{step - before + 1}"
        product = _spectral.blocked_product(
            self._X, lambda block: rows.for_second_moment(block, self._mean), basis
        )
        return (self._noise_std(name),), self._release(name, product)

    def _covariance(self, basis):
        task = self._task
        blocks = task.rows.blocks(self._X, self._mean)
        radius = task.projection_norm
        released = release_projected_moment(self._release, blocks, basis.T, radius)
        return (self._noise_std(projected_moment) * radius**2,), released

    def _noise_std(self, name: str) -> float:
        return getattr(self._release.plan[name], "noise_std", 0.0)
