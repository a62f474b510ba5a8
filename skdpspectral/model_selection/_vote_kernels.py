"""Votes of one block of rows on candidates, from their scores on that block."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

# Votes are multiples of this, so that their sums over blocks are exact.
VOTE_STEP = 2.0**-20


def votes(scores: Array) -> tuple[Array, Array]:
    """Return votes on challengers, in [0, 1], and whether each beats the incumbent.

    `scores` are of the incumbent, and then of its challengers. A score that is not
    finite is the worst of the others. Without any finite score all votes are 0, and
    nobody beats the incumbent, which is kept if that is so in most blocks. A tie counts
    one half.
    """
    finite = np.isfinite(scores)
    if not finite.any():
        n_others = len(scores) - 1
        return np.zeros(n_others), np.zeros(n_others)
    # Only their order and ratios of differences count: huge scores must not overflow.
    scores = np.where(finite, scores, scores[finite].min())
    scores = scores / max(np.abs(scores).max(), np.finfo(np.float64).tiny)
    middle, best = np.median(scores), scores.max()
    spread = best - middle
    shares = np.zeros(len(scores)) if spread == 0.0 else (scores - middle) / spread
    clipped = np.clip(shares[1:], 0.0, 1.0)
    beats = 0.5 + 0.5 * np.sign(scores[1:] - scores[0])
    return np.rint(clipped / VOTE_STEP) * VOTE_STEP, beats
