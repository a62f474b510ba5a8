"""Votes of one block of rows on candidates, from their scores on that block."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

# Votes are multiples of this, so that their sums over blocks are exact.
VOTE_STEP = 2.0**-20

# Correlation of the scores of candidates that differ in one parameter, and the variance
# of their errors over that of the scores.
_ALIKE, _ERROR = 0.9, 1.0


def smoother(codes: npt.NDArray[np.intp]) -> Array:
    """Return the matrix that smooths scores over candidates, of public numbers.

    `codes` has a row for each candidate, and a column for each parameter. Scores are
    taken for a Gaussian process whose correlation falls with the number of parameters
    in which two candidates differ, and are observed with errors.
    """
    differ = (codes[:, np.newaxis] != codes).sum(axis=2)
    kernel = _ALIKE**differ
    inverse = np.linalg.inv(kernel + _ERROR * np.eye(len(codes)))
    return np.asarray(kernel @ inverse)


def votes(scores: Array, smooth: Array | None) -> tuple[Array, Array]:
    """Return votes on challengers, in [0, 1], and whether each beats the incumbent.

    `scores` are of the incumbent, and then of its challengers. A score that is not
    finite is the worst of the others; without any finite score all votes are 0, and
    nobody beats anybody. A tie counts one half.
    """
    finite = np.isfinite(scores)
    if not finite.any():
        n_others = len(scores) - 1
        return np.zeros(n_others), np.full(n_others, 0.5)
    # Only their order and ratios of differences count: huge scores must not overflow.
    scores = np.where(finite, scores, scores[finite].min())
    scores = scores / max(np.abs(scores).max(), np.finfo(np.float64).tiny)
    if smooth is not None:
        middle = scores.mean()
        scores = middle + smooth @ (scores - middle)
    middle, best = np.median(scores), scores.max()
    spread = best - middle
    shares = np.zeros(len(scores)) if spread == 0.0 else (scores - middle) / spread
    clipped = np.clip(shares[1:], 0.0, 1.0)
    beats = 0.5 + 0.5 * np.sign(scores[1:] - scores[0])
    return np.rint(clipped / VOTE_STEP) * VOTE_STEP, beats
