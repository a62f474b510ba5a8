"""Private shared directions: a start, units of clipping, and rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..rounds import CombinedRounds, Rounds
from .clip_sizes import ClipSizes
from .model import BILLBOARD, SharedModel
from .moments import MomentRounds
from .start import SpectralStart
from .users import Users


@dataclass(frozen=True)
class SharedDirections(CombinedRounds):
    """Directions U from releases of equal cost, and the clipping that they need.

    Parameters
    ----------
    users : Users
        Rules of the users; as many directions as they have weights.
    n_releases : int
        Releases of U: the start, if it is released, and rounds; 0 for a U that is
        given and kept.
    release_start : bool
        Whether the first release is a private spectral start.
    clip_curvature, clip_gradient : float or None
        What a user's curvature and gradient are measured in; None for a private
        median of the users' norms.
    clip_share : float
        Share of mu**2 for the medians.
    fresh : bool, default=False
        Whether each release of U has rows of its own of every user.
    """

    users: Users
    n_releases: int
    release_start: bool
    clip_curvature: float | None
    clip_gradient: float | None
    clip_share: float
    fresh: bool = False

    def parts(self) -> dict[str, Rounds]:
        """Return start, sizes of the clip and rounds, where there are any."""
        parts: dict[str, Rounds] = {}
        if self.release_start:
            parts["start"] = SpectralStart(self.users)
        n_rounds = self.n_releases - len(parts)
        if n_rounds:
            sizes = (self.clip_curvature, self.clip_gradient)
            rounds = MomentRounds(self.users, n_rounds, n_before=len(parts))
            parts |= {"clips": ClipSizes(self.users, *sizes), "rounds": rounds}
        return parts

    def shares_of_releases(self) -> dict[str, float]:
        """Return equal shares for all releases of U, after those of the medians."""
        clips = self.parts().get("clips")
        n_votes = len(clips.names) if clips else 0
        share = self.clip_share if n_votes else 0.0
        each = (1.0 - share) / max(self.n_releases, 1)
        return {"start": each, "clips": share / max(n_votes, 1), "rounds": each}

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of the guarantee must know."""
        if self.users.rank and not self.n_releases:
            return ("Shared directions are the public ones that were given.", BILLBOARD)
        return (BILLBOARD,)

    def run(self, release, rows, start, scale, progress: Any) -> SharedModel:
        """Release what is planned, and return the model that it leaves.

        Between releases every user answers from their own rows and earlier releases
        alone; nothing else that is computed here depends on more than one user.

        Parameters
        ----------
        release : Release
            Charged with the plan.
        rows : UserRows
            The users' rows.
        start : ndarray of shape (n_features, rank) or None
            Public start; None where the start is released.
        scale : ndarray of shape (n_features,)
            What features are divided by, public.
        progress : FitProgress
            Told of every release but those of medians.

        Returns
        -------
        SharedModel
            With orthonormal directions, unless the weights of the users are fixed,
            and public weights.
        """
        U = self._directions(release, rows, start, progress.step)
        n_iter = max(self.n_releases, 1)
        return SharedModel(U, scale, self.users.rules.prior, n_iter=n_iter)

    def _directions(self, release, rows, start, step) -> np.ndarray:
        if not self.n_releases:
            # Given, and kept, or none at all.
            none = np.zeros((self.users.n_features, 0))
            return start if self.users.rank else none
        parts, U = self.parts(), start

        def rows_of(number: int):
            """Rows of the users for a release of U, counted from 1."""
            return rows.dealt(number - 1, self.n_releases) if self.fresh else rows

        if "start" in parts:
            U = parts["start"].run(release, rows_of(1))
            step(1)
        if "rounds" in parts:
            clips = parts["clips"].run(release, rows_of(1 + ("start" in parts)), U)
            U = parts["rounds"].run(release, rows_of, U, clips, step)
        return U
