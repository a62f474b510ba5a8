"""Private moments of a stream of rows: what is released at each step, and how."""

from __future__ import annotations

import functools
import math

import numpy as np

from .. import sensitivity
from .._base.strategies import is_strategy, snapshot
from .._linalg import MomentRows
from .._tables.clipping import clip_rows
from ..accounting import calibrate_gaussian
from ..mechanisms import Exact
from ..mechanisms._gaussian import GRID_BITS
from .factorizations import (
    Average,
    Custom,
    Factorization,
    Prefix,
    Workload,
    factorize,
    needs_steps,
)
from .factorizations._factorizations import check_triangular, is_given

# Rows that are handled together: their vectors stay in the cache.
BLOCK_STEPS = 256
_NAME = "moments"
# Squares of weights must not underflow beside those of other rows.
_LEAST_SHARE = 1e-60


_NAMED = {"prefix": Prefix, "average": Average}


def make_workload(workload) -> Workload:
    """Return a workload as it is now, or an error about it.

    Parameters
    ----------
    workload : str, Workload or array of shape (n, n)
        A name, a strategy, or weights.
    """
    if isinstance(workload, str):
        if workload not in _NAMED:
            raise ValueError(
                'workload must be "average", "prefix", Window(length), '
                f"Exponential(decay) or an array, got {workload!r}"
            )
        return _NAMED[workload]()
    return snapshot(workload) if is_strategy(workload) else _custom(workload)


def _custom(weights) -> Workload:
    weights = check_triangular("workload", weights, singular=True)
    largest = weights.max(axis=1)
    if np.any(weights < 0.0) or not largest.min() > 0.0:
        raise ValueError(
            "workload must hold weights of at least 0, not all of a row 0: a mean and "
            "a covariance are made with them"
        )
    if largest.min() < _LEAST_SHARE * largest.max():
        raise ValueError(
            "workload must have rows of similar scale: the largest weight of a row is "
            f"below {_LEAST_SHARE:g} times that of another; scale its rows"
        )
    return Custom(weights)


def count_steps(workload: Workload, factorization, horizon, n_samples) -> int | None:
    """Return the number of steps that noise is planned for; None for any number.

    Parameters
    ----------
    workload : Workload
        What is asked for.
    factorization : str, BISR or array
        How it is made, or C.
    horizon : int or None
        As the user gave it.
    n_samples : int or None
        Rows of a fit; None for a stream.
    """
    sizes = {}
    if workload.max_steps is not None:
        sizes["workload"] = workload.max_steps
    if is_given(factorization):
        sizes["factorization"] = len(check_triangular("factorization", factorization))
    if horizon is not None:
        sizes["horizon"] = int(horizon)
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"the numbers of steps differ: {found}; leave horizon=None")
    if sizes:
        return next(iter(sizes.values()))
    if n_samples is None and needs_steps(workload, factorization):
        raise ValueError(
            f"factorization={factorization!r} of {workload} needs a horizon: set "
            'horizon to a number of steps that is large enough, or take "trivial"'
        )
    return n_samples


def make_factorization(workload: Workload, factorization, n_steps) -> Factorization:
    """Return a factorization; those without arrays are kept for the next call."""
    if workload.name == "custom" or is_given(factorization):
        return factorize(workload, factorization, n_steps)
    return _kept_factorization(_key(workload), _key(factorization), n_steps)


def _key(choice):
    """Return what says all of a name or a strategy, and can be hashed."""
    if isinstance(choice, str):
        return choice
    return type(choice), tuple(choice.get_params(deep=False).items())


@functools.lru_cache(maxsize=16)
def _kept_factorization(workload, factorization, n_steps) -> Factorization:
    made = [
        key if isinstance(key, str) else key[0](**dict(key[1]))
        for key in (workload, factorization)
    ]
    return factorize(*made, n_steps)


class MomentStream:
    """How one stream of rows is bounded, weighed and planned, by public numbers.

    Parameters
    ----------
    n_features : int
        Number of features d.
    clip_norm : float
        Bound on the norm of a row.
    method, moment_weight, second_moment, center
        As in :class:`~skdpspectral.JMECovariance`.
    workload : Workload
        What is asked for.
    factorization : Factorization
        What shapes the noise.
    n_steps : int or None
        Steps that the noise is planned for.
    renewed : bool
        Whether fresh noise follows after them.

    Attributes
    ----------
    rows : MomentRows
        The map of a row to the vector that is released.
    sensitivity : float
        How far a row can move its vector.
    """

    def __init__(
        self,
        n_features,
        *,
        clip_norm,
        method,
        moment_weight,
        second_moment,
        center,
        workload,
        factorization,
        n_steps,
        renewed,
    ):
        self.clip_norm = float(clip_norm)
        self.method, self.centered = method, center == "none"
        self.workload, self.factorization = workload, factorization
        self.n_steps, self.renewed = n_steps, renewed
        self.diagonal = second_moment == "diag"
        nu, trace, ratio = self._weights(moment_weight, n_features)
        scale = 1.0 / self.clip_norm
        self.rows = MomentRows(
            n_features,
            None if nu is None else math.sqrt(nu) * scale,
            diagonal=self.diagonal,
            first=not self.centered,
            trace_weight=None if trace is None else math.sqrt(trace) * scale,
        )
        self.sensitivity = self.clip_norm * math.sqrt(ratio)
        self._norm = self.clip_norm * math.sqrt(1.0 + max(nu or 0.0, trace or 0.0))
        # The trace is a sum over features.
        self._terms = 1 if trace is None else n_features

    def _weights(self, weight, d) -> tuple[float | None, float | None, float]:
        """Return weights of the product and of its trace, and the squared sensitivity.

        They are for rows in the unit ball.
        """
        free = weight == "free"
        split = weight == "trace-split"
        if self.centered or self.method.startswith("pp"):
            if not free:
                raise ValueError(
                    "moment_weight must be 'free' with center=\"none\" or with a "
                    "method that releases one moment: there is nothing to weigh"
                )
            if self.centered:
                return 1.0, None, sensitivity.second_moment_ratio(d)
            return None, None, 4.0
        if self.method == "jme":
            if split:
                return 0.5, sensitivity.free_trace_weight(d), 4.0
            nu = float(weight) * self.clip_norm**2 if not free else None
            nu = sensitivity.free_moment_weight(d) if free else nu
            return nu, None, sensitivity.joint_moment_ratio(nu, d)
        if split:
            raise ValueError('moment_weight="trace-split" needs method="jme"')
        if self.method == "ime":
            share = 0.5 if free else float(weight)
            if not 0.0 < share < 1.0:
                raise ValueError(
                    'moment_weight with method="ime" is the share of the budget of the '
                    f"mean, in (0, 1); got {weight!r}"
                )
            nu = 2.0 * (1.0 - share) / share
            return nu, None, sensitivity.separate_moments_ratio(nu)
        nu = 1.0 if free else float(weight) * self.clip_norm**2
        return nu, None, sensitivity.concatenated_moments_ratio(nu)

    def plan(self, mu: float) -> tuple:
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
        return (mechanism,)

    def vectors(self, block: np.ndarray) -> np.ndarray:
        """Return what is released of rows, exactly: nothing else is made of them."""
        block = np.array(block, dtype=np.float64, order="C")
        return self.rows.pack(clip_rows(block, self.clip_norm, out=block))
