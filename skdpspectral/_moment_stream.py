"""Private moments of a stream of rows: what is released at each step, and how."""

from __future__ import annotations

import functools
import math

import numpy as np

from . import sensitivity
from ._clipping import clip_rows
from ._spectral import MomentRows
from .accounting import calibrate_gaussian
from .factorizations import (
    Average,
    Custom,
    Exponential,
    Factorization,
    NoiseGain,
    Prefix,
    Window,
    Workload,
    check_triangular,
    factorize,
    needs_steps,
)
from .mechanisms import Exact

# Rows that are handled together: their vectors stay in the cache.
BLOCK_STEPS = 256
_NAME = "moments"


def make_workload(workload, window, decay) -> Workload:
    """Return a workload from parameters of an estimator, or an error that names one.

    Parameters
    ----------
    workload : str or array of shape (n, n)
        Name, or weights.
    window : int or None
        Length of "window".
    decay : float or None
        Factor a step of "exponential".
    """
    kind = workload if isinstance(workload, str) else "custom"
    for name, value, user in (
        ("window", window, "window"),
        ("decay", decay, "exponential"),
    ):
        if (value is None) == (kind == user):
            verb = "needs" if kind == user else "has no use for"
            raise ValueError(
                f'workload="{kind}" {verb} {name}: it belongs to workload="{user}"'
            )
    if kind == "window":
        return Window(window)
    if kind == "exponential":
        return Exponential(decay)
    if kind == "custom":
        return _custom(workload)
    return {"prefix": Prefix, "average": Average}[kind]()


def _custom(weights) -> Workload:
    weights = check_triangular("workload", weights, singular=True)
    if np.any(weights < 0.0) or np.any(weights.sum(axis=1) <= 0.0):
        raise ValueError(
            "workload must hold weights of at least 0, not all of a row 0: a mean and "
            "a covariance are made with them"
        )
    return Custom(weights)


def count_steps(workload: Workload, factorization, horizon, n_samples) -> int | None:
    """Return the number of steps that noise is planned for; None for any number.

    Parameters
    ----------
    workload : Workload
        What is asked for.
    factorization : str or array
        Its name, or C.
    horizon : int or None
        As the user gave it.
    n_samples : int or None
        Rows of a fit; None for a stream.
    """
    sizes = {}
    if workload.max_steps is not None:
        sizes["workload"] = workload.max_steps
    if not isinstance(factorization, str):
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
            f'factorization="{factorization}" of {workload} needs a horizon: set '
            'horizon to a number of steps that is large enough, or take "trivial"'
        )
    return n_samples


@functools.lru_cache(maxsize=16)
def _named_factorization(kind, size, name, n_steps, bandwidth) -> Factorization:
    window = size if kind == "window" else None
    decay = size if kind == "exponential" else None
    workload = make_workload(kind, window, decay)
    return factorize(workload, name, n_steps, bandwidth=bandwidth)


def make_factorization(
    workload: Workload, factorization, n_steps, bandwidth
) -> Factorization:
    """Return a factorization; those of named workloads are kept for the next call."""
    if workload.name == "custom" or not isinstance(factorization, str):
        return factorize(workload, factorization, n_steps, bandwidth=bandwidth)
    size = getattr(workload, "length", getattr(workload, "decay", None))
    return _named_factorization(workload.name, size, factorization, n_steps, bandwidth)


class MomentStream:
    """How one stream of rows is bounded, weighed and planned, by public numbers.

    Parameters
    ----------
    n_features : int
        Number of features d.
    clip_norm : float
        Bound on the norm of a row.
    method, moment_weight, second_moment, assume_centered
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
        assume_centered,
        workload,
        factorization,
        n_steps,
        renewed,
    ):
        self.clip_norm = float(clip_norm)
        self.method, self.centred = method, assume_centered
        self.workload, self.factorization = workload, factorization
        self.n_steps, self.renewed = n_steps, renewed
        self.diagonal = second_moment == "diag"
        nu, trace, ratio = self._weights(moment_weight, n_features)
        scale = 1.0 / self.clip_norm
        self.rows = MomentRows(
            n_features,
            None if nu is None else math.sqrt(nu) * scale,
            diagonal=self.diagonal,
            first=not assume_centered,
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
        if self.centred or self.method.startswith("pp"):
            if not free:
                raise ValueError(
                    "moment_weight must be 'free' with assume_centered=True or with a "
                    "method that releases one moment: there is nothing to weigh"
                )
            return (1.0, None, 2.0) if self.centred else (None, None, 4.0)
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
            },
        )
        return (mechanism,)

    def vectors(self, block: np.ndarray) -> np.ndarray:
        """Return what is released of rows, exactly: nothing else is made of them."""
        block = np.array(block, dtype=np.float64, order="C")
        return self.rows.pack(clip_rows(block, self.clip_norm, out=block))


class MomentSums:
    """Weighted sums of released vectors, and what is known of their noise.

    All of it is post-processing: there is nothing private in here.

    Parameters
    ----------
    stream : MomentStream
        What the vectors are.
    noise_std : float
        Standard deviation of the entries of Z; 0 without noise.
    """

    def __init__(self, stream: MomentStream, noise_std: float):
        self.stream, self.noise_std = stream, noise_std
        self.step = 0
        self._sums = stream.workload.sums(stream.rows.width)
        self._squares = None
        if stream.method.startswith("pp"):
            d = stream.rows.n_features
            self._square_rows = MomentRows(
                d, 1.0, diagonal=stream.diagonal, first=False
            )
            self._squares = stream.workload.sums(self._square_rows.width)
        block_steps = stream.n_steps if stream.renewed else None
        self._gain = NoiseGain(stream.workload, stream.factorization, block_steps)

    def push(self, vectors: np.ndarray) -> Moments:
        """Add released vectors, overwriting them; return the sums of each step."""
        n = len(vectors)
        steps = np.arange(self.step + 1, self.step + n + 1)
        self.step += n
        squares = None
        if self._squares is not None:
            squares = self._squares.push(self._square_rows.pack(vectors))
        gain = self._gain.push(n) if self.noise_std else (np.zeros(n), np.zeros(n))
        return Moments(self, steps, self._sums.push(vectors), squares, gain)


class Moments:
    """Sums of consecutive steps, from which the moments of any of them follow.

    Parameters
    ----------
    sums : MomentSums
        What they are of.
    steps : ndarray of shape (b,)
        Numbers of the steps, from 1.
    vectors, squares : ndarray of shape (b, width)
        Weighted sums of released vectors, and of outer products of noisy rows.
    gain : tuple of ndarray
        Variances of the sums for unit noise, as :class:`NoiseGain` gives them.
    """

    def __init__(self, sums, steps, vectors, squares, gain):
        self.sums, self.steps = sums, steps
        self._vectors, self._squares, self._gain = vectors, squares, gain

    def at(self, places) -> tuple[np.ndarray, ...]:
        """Return the moments of chosen steps.

        Parameters
        ----------
        places : sequence of int
            Places among `steps`.

        Returns
        -------
        first : ndarray of shape (m, d)
            Released sums of rows.
        second : ndarray of shape (m, d, d)
            Released sums of outer products.
        mean : ndarray of shape (m, d)
            Weighted means.
        covariance : ndarray of shape (m, d, d)
            Weighted covariances, unbiased but for "pp", not yet projected.
        """
        stream, places = self.sums.stream, np.asarray(places)
        first, second = stream.rows.unpack(self._vectors[places])
        core, squares = (part[places] for part in self._gain)
        variance = self.sums.noise_std**2
        unit = np.eye(first.shape[1])
        if self._squares is not None:
            second = self.sums._square_rows.unpack(self._squares[places])[1]
            if stream.method == "pp-debiased":
                second -= (variance * squares)[:, None, None] * unit
        totals = stream.workload.totals(self.steps[places])
        mean = first / totals[:, None]
        covariance = second / totals[:, None, None]
        if not stream.centred:
            squared = mean[:, :, None] * mean[:, None, :]
            if stream.diagonal:
                squared = squared * unit
            covariance = covariance - squared
            if stream.method != "pp":
                # The noise of the mean, squared, was taken off: give it back.
                bias = variance * core / totals**2
                covariance += bias[:, None, None] * unit
        divisors = stream.workload.divisors(self.steps[places])
        first, second = first / divisors[:, None], second / divisors[:, None, None]
        return first, second, mean, covariance
