"""What a client can have sent: public bounds of a reply, and of what it claims."""

from __future__ import annotations

import math

import numpy as np

from ..mechanisms._numbers import check_count
from ._messages import MessageError, Reply, Topic
from ._registration import check_budget
from ._tasks import SpectralTask

# Noise beyond the public bound of a statistic, in standard deviations: an honest reply
# has more with a probability below 1e-30.
_DEVIATIONS = 12.0
# What rounding, of sums and to a grid, may add to a bound; and to a stated number.
_ROUNDING, _CLAIM = 1e-5, 1e-4
# How far from orthonormal the components of a client may be.
_TOLERANCE = 1e-6
_RELEASES = {
    Topic.COMPONENTS: "second_moment",
    Topic.MATRIX: "second_moment",
    Topic.PROJECTOR: "projector",
}


class ReplyLimits:
    """What a client of so many rows and such a cost can send.

    Parameters
    ----------
    task : SpectralTask
        What clients release.
    n_samples : int
        The client's number of rows.
    mu : float
        The cost of all of its releases.
    mechanisms : sequence of Mechanism
        Its plan, which follows from these.
    """

    def __init__(self, task: SpectralTask, n_samples: int, mu: float, mechanisms):
        self._task, self.n_samples, self.mu = task, n_samples, mu
        self._planned = {mechanism.name: mechanism for mechanism in mechanisms}

    @classmethod
    def of_claim(cls, task: SpectralTask, n_samples: int, mu: float) -> ReplyLimits:
        """Limits of a client that nobody has registered, by what it says of itself."""
        _check_rows(task, n_samples)
        if task.mechanism.spiked:
            raise MessageError(
                "a SpikedModel needs clients that are registered: its noise "
                "depends on their delta, which no message states"
            )
        try:
            mechanisms = task.mechanisms(n_samples, mu)
        except (ValueError, OverflowError):
            raise MessageError(
                f"no plan of the task has n_samples={n_samples} and mu={mu:g}"
            ) from None
        return cls(task, n_samples, mu, mechanisms)

    @classmethod
    def of_registration(cls, task: SpectralTask, registered) -> ReplyLimits:
        """Limits of a client that is registered; errors are ValueErrors."""
        n_samples, *budget = registered
        n_samples = check_count("n_samples", n_samples)
        _check_rows(task, n_samples)
        plan = task.plan(n_samples, *check_budget(*budget), "client", False)
        return cls(task, n_samples, plan.mu, plan.mechanisms)

    def check(self, reply: Reply) -> None:
        """Refuse a reply of the right shape that no honest client could send."""
        if reply.n_samples != self.n_samples or not _close(reply.mu, self.mu):
            raise MessageError(
                f"its number of rows or its budget is not that of the session: "
                f"n_samples={reply.n_samples}, mu={reply.mu:g} and not "
                f"n_samples={self.n_samples}, mu={self.mu:g}"
            )
        topic = reply.topic
        if topic is Topic.MEAN:
            return self._check_mean(reply.values)
        if topic in (Topic.COMPONENTS, Topic.SUBSPACE):
            _check_orthonormal(reply.values)
        if topic in (Topic.SUBSPACE, Topic.PROJECTOR):
            self._check_variances(reply.numbers)
        noise_std = self._noise_std(topic, reply.step)
        if topic not in (Topic.SUBSPACE, Topic.PROJECTOR):
            self._check_noise(reply.numbers[0], noise_std)
        if topic in (Topic.COMPONENTS, Topic.MATRIX):
            self._check_spectrum(reply.numbers, noise_std)
        if topic not in (Topic.COMPONENTS, Topic.SUBSPACE):
            self._check_values(reply, noise_std)

    # -- noise and variances -----------------------------------------------------------

    def _noise_std(self, topic: Topic, step: int) -> float:
        """Deviation of the noise on a release, in the units of its values."""
        task = self._task
        name, unit = _RELEASES.get(topic), 1.0
        if topic is Topic.SUBSPACE:
            return 0.0
        if topic is Topic.POWER:
            name = f"power_{step - task.topics.index(Topic.POWER) + 1}"
        if topic is Topic.COVARIANCE:
            name = "model_moment"
            if not task.model_covariance:
                name, unit = "projected_moment", task.projection_norm**2
        if name != "model_moment":
            unit /= task.rows.weight
        return unit * getattr(self._planned[name], "noise_std", 0.0)

    def _check_noise(self, claimed: float, noise_std: float) -> None:
        if not _close(claimed, noise_std):
            raise MessageError(
                f"its noise has a standard deviation of {claimed:g}, where its rows, "
                f"its budget and the task make {noise_std:g}"
            )

    def _check_variances(self, numbers) -> None:
        """Refuse variances out of the public range, or not those that are public."""
        task = self._task
        statistic = task.statistic(self.n_samples)
        if task.mechanism.spiked:
            signal = float(np.mean(statistic.signal))
            ranges = (signal, signal), (statistic.noise, statistic.noise)
        else:
            ranges = statistic.rest.scales.ranges(task.n_components)
        for number, (low, high) in zip(numbers, ranges, strict=True):
            if not low * (1.0 - _ROUNDING) <= number <= high * (1.0 + _ROUNDING):
                raise MessageError(
                    f"its variances are not those that were agreed on: {number:g} is "
                    f"not in [{low:g}, {high:g}]"
                )

    def _check_spectrum(self, numbers, noise_std: float) -> None:
        """Refuse eigenvalues that no noisy second moment of bounded rows has.

        Its r-th is at most the trace over r, the mean of those after it at most the
        trace over p, both up to the spectral norm of the noise.
        """
        task, (_, last, others) = self._task, numbers
        p, r = task.rows.n_features, task.n_components
        trace = task.rows.second_radius**2
        noise = noise_std * (math.sqrt(2.0 * p) + _DEVIATIONS)
        slack = _ROUNDING * (trace + noise)
        possible = -noise - slack <= last <= trace / r + noise + slack
        if r == p:
            possible &= others == 0.0
        else:
            possible &= -noise - slack <= others <= trace / p + noise + slack
            possible &= others <= last + slack
        if not possible:
            raise MessageError("its eigenvalues are none of such rows and such noise")

    # -- values ------------------------------------------------------------------------

    def _check_mean(self, mean) -> None:
        """Refuse a mean that is not where clients move it to."""
        rows, loose = self._task.rows, 1.0 + _ROUNDING
        radius, sides = rows.mean_radius * loose, rows.mean_radius * loose
        if rows.box is not None:
            sides = rows.box.half_widths * loose
        if np.any(np.abs(mean) > sides) or np.linalg.norm(mean) > radius:
            raise MessageError("its mean lies outside of the public bounds")

    def _check_values(self, reply: Reply, noise_std: float) -> None:
        """Refuse entries, or a norm, beyond the public bound and the noise."""
        values, symmetric = reply.values, reply.topic is not Topic.POWER
        entry, norm = self._bounds(reply.topic)
        most = (entry + _DEVIATIONS * noise_std) * (1.0 + _ROUNDING)
        # First of all: what follows is finite, squares included.
        possible = np.abs(values).max() <= most
        if possible and reply.topic is Topic.COVARIANCE:
            if not np.array_equal(values, values.T):
                raise MessageError("its covariance is not symmetric")
            values = values[np.tril_indices(len(values))]
        if possible:
            values = _isotropic(values) if symmetric else values.ravel()
            longest = norm + noise_std * (math.sqrt(values.size) + _DEVIATIONS)
            possible = np.abs(values).max() <= most
            possible &= np.linalg.norm(values) <= longest * (1.0 + _ROUNDING)
        if not possible:
            raise MessageError(
                "its values are beyond the public bound of the statistic and "
                f"{_DEVIATIONS:g} standard deviations of its noise"
            )

    def _bounds(self, topic: Topic) -> tuple[float, float]:
        """Largest entry and Frobenius norm of a statistic without noise.

        Entries off the diagonal of a symmetric one count by the root of 2, and are at
        most half of its largest eigenvalue, as it has no negative one.
        """
        task = self._task
        rank, p = task.n_components, task.rows.n_features
        if topic is Topic.PROJECTOR:
            return 1.0, math.sqrt(rank)
        if topic is not Topic.COVARIANCE:
            return (task.rows.second_radius**2,) * 2
        if not task.model_covariance:
            return (task.projection_norm**2,) * 2
        # The largest eigenvalue of rows of the model, whatever basis was made of them.
        spread = 1.0 + (math.sqrt(p) + _DEVIATIONS) / math.sqrt(self.n_samples)
        largest = task.largest_variance * spread**2
        return largest, largest * math.sqrt(rank)


def _isotropic(packed: np.ndarray) -> np.ndarray:
    """Scale a packed lower triangle so that it is as long as its matrix."""
    order = math.isqrt(2 * packed.size)
    scaled = math.sqrt(2.0) * packed
    diagonal = np.cumsum(np.arange(1, order + 1)) - 1
    scaled[diagonal] = packed[diagonal]
    return scaled


def _check_rows(task: SpectralTask, n_samples: int) -> None:
    if n_samples < task.n_components:
        raise MessageError(
            f"n_samples={n_samples} is below n_components={task.n_components}"
        )


def _close(claimed: float, expected: float) -> bool:
    """Whether two numbers are the same but for rounding; infinities are."""
    return math.isclose(claimed, expected, rel_tol=_CLAIM)


def _check_orthonormal(components) -> None:
    """Refuse longer or dependent rows: they would count for more than a client."""
    if np.abs(components).max() > 2.0:
        raise MessageError("its components are not orthonormal")
    product = components @ components.T
    if np.abs(product - np.eye(len(product))).max() > _TOLERANCE:
        raise MessageError("its components are not orthonormal")
