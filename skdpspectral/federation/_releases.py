"""What a client releases in one conversation, as it is asked for."""

from __future__ import annotations

import math

import numpy as np

from .. import _linalg
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
        self._statistic = task.statistic(len(X))
        if task.second_moment:
            self._mean = self._statistic.center(release, X)
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
        statistic = self._statistic
        if not task.mechanism.spiked:
            found = statistic.directions(self._release, X)
            signal, noise, _ = found.scales
            return found.mean, ((signal, noise), found.vectors)
        numbers = (float(np.mean(statistic.signal)), statistic.noise)
        if task.aggregation == "matrix":
            noisy = statistic.noisy_projector(self._release, X)
            return None, (numbers, _linalg.pack_lower(noisy))
        return None, (numbers, statistic.projector(self._release, X))

    def _run(self, name: str, rows, *given) -> np.ndarray:
        """Release one of the steps that follow the mean."""
        return self._statistic.rest.run(self._release, rows, name, *given)

    def _second_moment(self, topic: Topic):
        rank, rows = self._task.n_components, self._task.rows
        moment = self._run("second_moment", self._X, self._mean)
        spread = self._noise_std("second_moment") / math.sqrt(2.0)
        values, vectors = _linalg.top_eigh(moment, rank, spread)
        others = max(rows.n_features - rank, 1)
        bulk = (float(np.trace(moment)) - float(values.sum())) / others
        bulk = bulk if rank < rows.n_features else 0.0
        numbers = (self._noise_std("second_moment"), float(values[-1]), bulk)
        if topic is Topic.MATRIX:
            return numbers, _linalg.pack_lower(moment)
        return numbers, vectors

    def _product(self, step: int, basis):
        before = self._task.topics.index(Topic.POWER)
        name = f"power_{step - before + 1}"
        return (self._noise_std(name),), self._run(name, self._X, self._mean, basis)

    def _covariance(self, basis):
        task = self._task
        if task.model_covariance:
            released = self._statistic.moment_within(self._release, self._X, basis.T)
            return (self._noise_std("model_moment"),), released
        blocks = task.rows.blocks(self._X, self._mean)
        radius, within = task.projection_norm, self._statistic.rest.within
        released = within.run(self._release, blocks, basis.T, radius)
        return (self._noise_std(within.name) * radius**2,), released

    def _noise_std(self, name: str) -> float:
        """Deviation of the noise on what a client sends."""
        weight = 1.0 if name == "model_moment" else self._task.rows.weight
        return getattr(self._release.plan[name], "noise_std", 0.0) / weight
