r"""Buffered linear Toeplitz factorizations: few parameters, constant memory.

C has the first column :math:`1, \sum_i \omega_i, \sum_i \omega_i \theta_i,
\sum_i \omega_i \theta_i^2, \dots`: a sum of q geometric series that comes close to
the square root of a workload. McMahan, Upadhyay et al. (2024).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from ._series import multiply_series
from ._workloads import Exponential, Window, Workload

# Optimized for prefix sums over 10**3, 10**4, ... steps by `optimize_buffers`:
# logits of the decays, then logarithms of the weights.
_FIRST_POWER = 3
_TABLE = np.array(
    [
        [
            [-0.20188058, 1.7901906, 3.55837256, 5.87563274],
            [-1.76004854, -1.77886759, -2.37426157, -2.70674129],
        ],
        [
            [0.67717499, 3.15290089, 5.46878987, 8.12473924],
            [-1.27692326, -1.96166956, -3.04517291, -3.78961935],
        ],
        [
            [1.35181827, 4.32067715, 7.1929195, 10.31160903],
            [-1.12036393, -2.27981249, -3.69189531, -4.82272571],
        ],
        [
            [1.95493779, 5.42880463, 8.84524316, 12.45686882],
            [-1.10673853, -2.65184429, -4.3519698, -5.83280557],
        ],
        [
            [2.5232269, 6.50997387, 10.46264388, 14.57540229],
            [-1.17553669, -3.05551238, -5.02916669, -6.83533853],
        ],
        [
            [3.07203317, 7.57572557, 12.05900751, 16.67504528],
            [-1.29709621, -3.48181478, -5.72263249, -7.83667175],
        ],
        [
            [3.60866517, 8.63070845, 13.64052924, 18.76059613],
            [-1.4542788, -3.92548491, -6.43007186, -8.83924404],
        ],
    ]
).reshape(-1, 8)


class Buffers:
    r"""Parameters of a buffered linear Toeplitz matrix.

    Parameters
    ----------
    decay : array-like of shape (q,)
        The numbers :math:`\theta` in (0, 1).
    weight : array-like of shape (q,)
        The numbers :math:`\omega`.
    """

    def __init__(self, decay, weight):
        self.decay = np.asarray(decay, dtype=np.float64)
        self.weight = np.asarray(weight, dtype=np.float64)

    def scaled(self, ratio: float) -> Buffers:
        r"""Return the buffers of :math:`c(\beta z)`, for faded workloads."""
        return Buffers(ratio * self.decay, ratio * self.weight)

    def column(self, n: int) -> np.ndarray:
        """Return the first n entries of the first column of C."""
        powers = self.decay[None, :] ** np.arange(n - 1)[:, None]
        return np.concatenate([[1.0], powers @ self.weight])

    def column_norm(self, n: int | None) -> float:
        r"""Return the 2-norm of the first column over n steps, or over all.

        .. math:: |C|^2 = 1 + \sum_{ij} \omega_i \omega_j
           \frac{1 - (\theta_i \theta_j)^{n-1}}{1 - \theta_i \theta_j} .
        """
        products = np.outer(self.decay, self.decay)
        shares = 1.0 if n is None else -np.expm1((n - 1) * np.log(products))
        return math.sqrt(1.0 + self.weight @ (shares / (1.0 - products)) @ self.weight)

    def inverse_parts(self) -> tuple[np.ndarray, np.ndarray]:
        r"""Return r, :math:`\phi` with :math:`(C^{-1})_j = -\sum r \phi^{j-1}`."""
        ones = np.ones(len(self.decay))
        matrix = np.diag(self.decay) - np.outer(ones, self.weight)
        roots, vectors = np.linalg.eig(matrix)
        shares = np.linalg.solve(vectors.astype(complex), ones.astype(complex))
        return (self.weight @ vectors) * shares, roots

    def inverse_norm(self) -> float:
        """Return the 2-norm of the first column of the inverse, over all steps."""
        r, roots = self.inverse_parts()
        total = 1.0 + np.real(r @ (1.0 / (1.0 - np.outer(roots, roots))) @ r)
        return math.sqrt(max(float(total), 1.0))

    def prefix_error(self, n: int) -> float:
        r"""Return :math:`|C| \, \|E_1 C^{-1}\|_F / \sqrt n` in closed form."""
        r, roots = self.inverse_parts()
        weights = np.concatenate([[1.0 - np.sum(r / (1.0 - roots))], r / (1.0 - roots)])
        bases = np.concatenate([[1.0], roots])
        sums = _falling_sums(np.outer(bases, bases), n)
        total = float(np.real(weights @ sums @ weights))
        return self.column_norm(n) * math.sqrt(max(total, 0.0) / n)


def _falling_sums(ratio: np.ndarray, n: int) -> np.ndarray:
    r"""Sums :math:`\sum_{j<n} (n - j) r^j`."""
    gap = 1.0 - ratio
    near = np.abs(gap) * n < 1e-3
    gap = np.where(near, 1.0, gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = (n + ratio * np.expm1(n * np.log(ratio + 0j)) / gap) / gap
    close = 0.5 * n * (n + 1.0) - (1.0 - ratio) * n * (n + 1.0) * (n - 1.0) / 6.0
    return np.where(near, close, far)


def prefix_buffers(n: int) -> Buffers:
    """Return buffers for prefix sums over n steps, from the table.

    Parameters
    ----------
    n : int
        Number of steps. Between powers of ten the logits and logarithms are
        interpolated; below 1000 the buffers for 1000 serve.

    Returns
    -------
    Buffers
        Four of them.
    """
    place = math.log10(max(n, 10**_FIRST_POWER)) - _FIRST_POWER
    places = np.arange(len(_TABLE))
    row = [np.interp(place, places, column) for column in _TABLE.T]
    return _from_free(np.array(row))


def _from_free(free: np.ndarray) -> Buffers:
    q = len(free) // 2
    return Buffers(expit(free[:q]), np.exp(free[q:]))


def optimize_buffers(n: int, start: Buffers | None = None) -> Buffers:
    """Find the buffers with the least error of prefix sums over n steps.

    Parameters
    ----------
    n : int
        Number of steps, at least 1000.
    start : Buffers or None, default=None
        Where to start; it also says how many buffers there are. None starts from
        the table.

    Returns
    -------
    Buffers
        Sorted by decay.
    """
    start = prefix_buffers(n) if start is None else start
    free = np.log(np.r_[start.decay / (1.0 - start.decay), start.weight])

    def loss(values: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            error = _from_free(values).prefix_error(n)
        return math.log(error) if 0.0 < error < math.inf else 50.0

    for method in ("BFGS", "Nelder-Mead", "BFGS"):
        free = minimize(loss, free, method=method).x
    found = _from_free(free)
    order = np.argsort(found.decay)
    return Buffers(found.decay[order], found.weight[order])


@functools.lru_cache(maxsize=128)
def faded_buffers(kind: str, size: float, n: int | None) -> Buffers:
    """Return buffers for workloads whose old rows fade.

    The buffers of prefix sums, scaled so that they fade too; among a few dozen the
    ones with the least error, by numerical evaluation.

    Parameters
    ----------
    kind : {"exponential", "window"}
        The workload.
    size : float
        Its decay, or its length.
    n : int or None
        Number of steps; None for no end.

    Returns
    -------
    Buffers
        Four of them.
    """
    workload: Workload
    if kind == "exponential":
        workload, ratios = Exponential(size), [size]
        span = 1.0 / (1.0 - size)
    else:
        workload, span = Window(int(size)), float(size)
        shares = np.geomspace(0.05, 3.0, 25)
        ratios = [1.0 - share / size for share in shares if share < 0.95 * size]
    steps = int(min(n or math.inf, max(64, math.ceil(20.0 * span)), 200_000))
    lengths = [10.0**power for power in (3, 3.5, 4, 5, 6) if power < 4 or span > 100]
    candidates = [
        prefix_buffers(int(length)).scaled(ratio)
        for length in lengths
        for ratio in ratios
    ]
    if not candidates:  # a window of one row
        return Buffers([0.5], [0.0])
    column = workload.column(steps)
    return min(candidates, key=lambda c: _error(c, column, steps, n is None))


def _error(buffers: Buffers, column: np.ndarray, n: int, endless: bool) -> float:
    """Error of a Toeplitz workload, of one step far out where there is no end."""
    r, roots = buffers.inverse_parts()
    powers = roots[None, :] ** np.arange(n - 1)[:, None]
    inverse = np.concatenate([[1.0], -np.real(powers @ r)])
    response = multiply_series(column, inverse, n)
    if endless:
        return buffers.column_norm(None) * math.sqrt(np.sum(response**2))
    falling = (n - np.arange(n)) / n
    return buffers.column_norm(n) * math.sqrt(np.sum(falling * response**2))
