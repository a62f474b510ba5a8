"""A stream of moments that is under way: its release and its sums, in step."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from .._release.turns import Turns
from ._moment_stream import MomentStream
from ._moment_sums import Moments


class MomentRun:
    """One charged stream; it belongs to the call, or the estimator, that began it.

    Threads take turns. A copy or a pickle is of a whole number of batches.

    Parameters
    ----------
    moments : MomentStream
        What is released.
    release : StreamRelease
        What lets rows out.
    features : dict
        What is known of the columns of its rows.
    parameters : dict
        What the stream was begun with, and must go on with.

    Attributes
    ----------
    plan : PrivacyPlan
        What was charged.
    """

    def __init__(
        self, moments: MomentStream, release, features: dict, parameters: dict
    ):
        self._moments, self._release, self.plan = moments, release, release.plan
        self._sums = moments.begin(release.plan)
        self.features, self.parameters = features, parameters
        self._turns = Turns()

    def __getstate__(self):
        self._release.check_process()
        with self._turns.take():
            state = self.__dict__.copy()
            # The pickler comes later, when another batch may be under way.
            for part in ("_release", "_sums"):
                state[part] = copy.deepcopy(state[part])
        del state["_turns"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._turns = Turns()

    @property
    def n_steps(self) -> int | None:
        """Number of steps that noise is planned for; None for any number."""
        return self._moments.n_steps

    @property
    def step(self) -> int:
        """Number of steps so far, those of a gap included."""
        return self._sums.step

    @property
    def n_lost(self) -> int:
        """Number of steps that the sums do not have."""
        return self._sums.n_lost

    def path(self, X) -> Iterator[Moments]:
        """Claim a step for each row, and yield the moments of block after block."""
        return self._moments.run(self._release, X, self._sums)

    def push(self, X) -> tuple[Moments, int]:
        """Release rows; return the moments of the last of them, and what was lost."""
        self._release.check_process()
        with self._turns.take():
            for moments in self.path(X):
                last = moments
            return last.of_last_step(), self.n_lost

    def resume(self) -> None:
        """Go to where the ledger has the stream, without the rows up to there."""
        self._release.check_process()
        with self._turns.take():
            self._sums.skip(self._release.resume() - self._sums.step)

    def close(self) -> None:
        """Let nothing out any more."""
        self._release.close()
