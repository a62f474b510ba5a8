"""The private statistic of a stream of rows, released at each step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .. import sensitivity
from .._linalg.walks import blas_threads
from .._statistics.statistic import Statistic
from .._tables.clipping import clip_rows
from ..accounting import calibrate_gaussian
from ..factorizations._choices import PlannedNoise
from ..factorizations._factorizations import Pair
from ..mechanisms import Exact, Mechanism, PrivacyPlan
from ..mechanisms._gaussian import GRID_BITS
from ._kernels import MomentRows
from ._moment_sums import MomentSums, StreamMoments
from ._moments import AssumeCentered, BaselineMoments, JointMoments, moment_weights

# Rows that are handled together: their vectors stay in the cache.
BLOCK_STEPS = 256

_NAME = "moments"


class MomentStream(Statistic):
    """The moments of one stream of rows, as a private statistic.

    Each row is clipped, and released as one vector of itself and its outer product;
    :meth:`begin` returns the post-processing of these vectors.

    `first_workload` and `workload` weight the first moment, and the second moment and
    covariance. `shapes` are the matrices for the noise of rows and of products, and
    `factorization` is both as one; the noise of products is `stretch` times larger than
    its matrix gives. `rows` maps a row to its vector, and `sensitivity` bounds the
    change of that vector.
    """

    def __init__(
        self,
        n_features: int,
        noise: PlannedNoise,
        moments: JointMoments | AssumeCentered | BaselineMoments,
        *,
        clip_norm: float = 1.0,
    ) -> None:
        self.first_workload, self.workload = noise.workload, noise.second_workload
        self.n_steps, self.renewed = noise.n_steps, noise.renewed
        self.clip_norm = float(clip_norm)
        self.method = getattr(moments, "method", "jme")
        self.centered = isinstance(moments, AssumeCentered)
        self.diagonal = moments.second_moment == "diag"
        ends = self._shape(noise, n_features)
        nu, trace, ratio = moment_weights(moments, self.clip_norm, n_features)
        # Products are as far from rows as the columns of their matrices are.
        scale = ends / self.clip_norm
        self.rows = MomentRows(
            n_features,
            None if nu is None else math.sqrt(nu) * scale,
            diagonal=self.diagonal,
            first=not self.centered,
            trace_weight=None if trace is None else math.sqrt(trace) * scale,
        )
        self.sensitivity = self.clip_norm * math.sqrt(ratio)
        largest = max(nu or 0.0, trace or 0.0) * ends**2
        self._norm = self.clip_norm * math.sqrt(1.0 + largest)
        # The trace is a sum over features.
        self._terms = 1 if trace is None else n_features

    def _shape(self, noise: PlannedNoise, n_features: int) -> float:
        """Take what shapes the noise; return how products are weighed for it."""
        first, second = noise.factorization, noise.second_factorization
        self.stretch = 1.0
        if second is first or self.method.startswith("pp"):
            self.shapes, self.factorization = (first, first), first
            return 1.0
        self.shapes = first, second
        self.factorization = pair = Pair(first, second, n_features)
        self.stretch = pair.stretch
        return pair.ratio

    def mechanisms(self, mu: float) -> tuple[Mechanism, ...]:
        """Plan the release of all steps at a total cost of mu; infinite for none."""
        shape = (self.rows.width,)
        if not math.isfinite(mu):
            return (Exact(_NAME, shape),)
        # No grid is coarser than this, or the columns may be beyond float64.
        self.factorization.check_precision(2.0**GRID_BITS)
        error = sensitivity.summation_error(self._norm, self._terms, self._terms)
        mechanism = calibrate_gaussian(
            _NAME,
            self.sensitivity,
            mu,
            shape,
            summation_error=error,
            magnitude=2.0 * self._norm,
            correlation={
                "column_norm": self.factorization.column_norm,
                "factorization": self.factorization.name,
                "max_steps": self.n_steps,
                "renewed": self.renewed,
                "amplification": self.factorization.amplification,
            },
        )
        self.factorization.check_precision(mechanism.noise_std / mechanism.grid)
        return (mechanism,)

    def begin(self, plan: PrivacyPlan) -> MomentSums:
        """Return the sums of a stream that begins, by the noise that was planned."""
        (mechanism,) = plan.mechanisms
        return MomentSums(self, getattr(mechanism, "noise_std", 0.0))

    def run(self, release, rows, *given) -> Iterator[StreamMoments]:
        """Release the next rows of the stream, and yield the moments of each block.

        The release is charged with the plan of the whole stream. The steps of all rows
        are claimed first; the given :class:`MomentSums` takes them in.
        """
        (sums,) = given
        release.claim(sums.step, len(rows))
        for start in range(0, len(rows), BLOCK_STEPS):
            # The caller goes on between two blocks with all threads.
            with blas_threads(0):
                block = self.vectors(rows[start : start + BLOCK_STEPS])
                moments = sums.push(release(block))
            yield moments

    def vectors(self, block: np.ndarray) -> np.ndarray:
        """Return what is released of rows, exactly: nothing else is made of them."""
        block = np.array(block, dtype=np.float64, order="C")
        return self.rows.pack(clip_rows(block, self.clip_norm, out=block))
