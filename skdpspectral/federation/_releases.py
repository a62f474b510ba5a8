"""What a client releases in one conversation, as it is asked for."""

from __future__ import annotations

import numpy as np

from .. import _linalg
from .._statistics.bounded_moments import release_mean, second_moment
from .._statistics.components.projected_moment import NAME as projected_moment
from .._statistics.components.projected_moment import release_projected_moment
from .._statistics.components.releases import release_directions
from .._statistics.components.spiked_projector import (
    release_model_moment,
    release_noisy_projector,
    release_projector,
)
from ._messages import Topic
from ._tasks import SpectralTask


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
        if task.second_moment:
            self._mean = release_mean(release, task.rows, X)
        else:
            self._mean, self._found = self._run_mechanism()

    def answer(self, topic: Topic, step: int, basis) -> tuple[tuple, np.ndarray]:
        """Return numbers and values that answer a topic."""
        if topic is Topic.MEAN:
            return (), self._mean
        if topic is Topic.POWER:
            return self._product(step, basis)
        if topic is Topic.COVARIANCE:
            return self._covariance(basis)
        if self._task.second_moment:
            return self._second_moment(topic)
        return self._found

    def _run_mechanism(self):
        """Release the components, all of them at once; no request has a say in it."""
        task, X = self._task, self._X
        spec = task.component_releases(len(X))
        if not task.mechanism.spiked:
            found = release_directions(self._release, spec, X)
            signal, noise, _ = found.scales
            return found.mean, ((signal, noise), found.vectors)
        numbers = (float(np.mean(spec.signal)), spec.noise)
        if task.aggregation == "matrix":
            noisy = release_noisy_projector(self._release, spec, X)
            return None, (numbers, _linalg.pack_lower(noisy))
        return None, (numbers, release_projector(self._release, spec, X))

    def _second_moment(self, topic: Topic):
        rank, rows = self._task.n_components, self._task.rows
        exact = second_moment(rows, self._X, self._mean)
        moment = self._release("second_moment", exact, overwrite=True)
        values, vectors = _linalg.top_eigh(moment, rank)
        others = max(rows.n_features - rank, 1)
        bulk = (float(np.trace(moment)) - float(values.sum())) / others
        bulk = bulk if rank < rows.n_features else 0.0
        numbers = (self._noise_std("second_moment"), float(values[-1]), bulk)
        if topic is Topic.MATRIX:
            return numbers, _linalg.pack_lower(moment)
        return numbers, vectors

    def _product(self, step: int, basis):
        rows = self._task.rows
        before = self._task.topics.index(Topic.POWER)
        name = f"power_{step - before + 1}"
        product = _linalg.blocked_product(
            self._X, lambda block: rows.for_second_moment(block, self._mean), basis
        )
        return (self._noise_std(name),), self._release(name, product)

    def _covariance(self, basis):
        task = self._task
        if task.model_covariance:
            released = release_model_moment(self._release, self._X, basis.T)
            return (self._noise_std("model_moment"),), released
        blocks = task.rows.blocks(self._X, self._mean)
        radius = task.projection_norm
        released = release_projected_moment(self._release, blocks, basis.T, radius)
        return (self._noise_std(projected_moment) * radius**2,), released

    def _noise_std(self, name: str) -> float:
        return getattr(self._release.plan[name], "noise_std", 0.0)
