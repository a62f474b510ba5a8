"""Private quantiles of columns, and private histograms of pairs of scores."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .. import sensitivity
from .._base.sklearn_compat import Interval
from .._base.strategies import check_arguments
from .._release import Release
from .._statistics.statistic import Combination, Statistic, Votes
from .._tables.columns import IdIndex, shape_of
from .._tables.table import deferred_rows
from ..accounting import NoisyFitWarning, PrivacyAccountant, PrivacyLeakWarning
from ..accounting._errors import warn
from ..accounting._gaussian import calibrate_alike
from ..accounting._ledger.context import ambient_accountant, says_what_stays_charged
from ..mechanisms import Neighbors, Unit

_CONSTRAINTS = {
    "epsilon": [Interval(Real, 0, None, closed="right"), None],
    "delta": [Real],
    "accountant": [PrivacyAccountant, None],
    "noise_seed": ["random_state"],
}

# Bisections of all of float64, with this many steps: 2**-12 of a value.
_VOTES = Votes("quantile", 24)

# Fewer rows beyond a quantile, in deviations of the noise of a vote, are not seen.
_FEWEST = 3.0


@dataclass(frozen=True)
class ColumnQuantiles(Statistic):
    """Quantiles of columns by noisy bisections; missing values are above others."""

    n_samples: int
    n_features: int
    levels: tuple[float, ...]

    def mechanisms(self, mu: float) -> tuple:
        n_votes = self.n_features * len(self.levels)
        moved = sensitivity.vote_sensitivity(n_votes, Neighbors.REPLACE_ONE)
        more = {"magnitude": self.n_samples, "lemma": "quantile-votes"}
        return _VOTES.planned(mu, moved, n_votes, **more)

    def caveats(self, plan) -> tuple[str, ...]:
        noise = getattr(plan["quantile_1"], "noise_std", 0.0)
        fewest = min(min(level, 1.0 - level) for level in self.levels)
        if fewest * self.n_samples >= _FEWEST * noise:
            return ()
        return (
            f"noise hides the {_FEWEST * noise:.3g} first and last ranks, which some q "
            "ask for: use more rows, a larger epsilon, or q nearer to 0.5",
        )

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release votes; return quantiles of shape (n_levels, n_features)."""
        shape = (len(self.levels), self.n_features)
        ordered = np.sort(rows, axis=0)
        wanted = np.array(self.levels)[:, None] * len(rows)

        def margins(places):
            points = _points(places.reshape(shape), 0.0)
            pairs = zip(ordered.T, points.T, strict=True)
            below = [np.searchsorted(column, at) for column, at in pairs]
            return (np.transpose(below) - wanted).ravel()

        first, _ = _VOTES.run(release, margins, wanted.size * shape[1])
        found = _points(first.reshape(shape), 0.5)
        # Noise may exchange two quantiles of a column, but not their levels.
        found[np.argsort(self.levels, kind="stable")] = np.sort(found, axis=0)
        return found


def _points(places: np.ndarray, within: float) -> np.ndarray:
    """Return floats at places in their order, or beyond by a part of a cell."""
    # Floats are ordered as these integers are, negative ones in reverse.
    cell = 64 - _VOTES.n_steps
    keys = (places.astype(np.uint64) << cell) + np.uint64(within * 2**cell)
    positive = np.uint64(1 << 63)
    values = np.where(keys >= positive, keys - positive, ~keys).view(np.float64)
    largest = np.finfo(float).max
    ends = np.where(keys >= positive, largest, -largest)
    return np.where(np.isfinite(values), values, ends)


@dataclass(frozen=True)
class PairCounts(Statistic):
    """Counts of rows in cells of a plane, of which a row has one or none."""

    shape: tuple[int, ...]
    n_samples: int

    def mechanisms(self, mu: float) -> tuple:
        # All cells are those of one feature, in windows of one cell.
        moved = sensitivity.value_windows_sensitivity(1)
        more = {"magnitude": self.n_samples, "lemma": "value-windows"}
        return calibrate_alike(["counts"], moved, mu, self.shape, **more)

    def run(self, release: Any, rows: Any, *given: Any) -> np.ndarray:
        """Release the counts; given are limits of the plane, and groups of rows."""
        limits, groups = given
        n_bins = self.shape[-1]
        low, high = limits
        with np.errstate(all="ignore"):
            cells = np.nan_to_num((rows - low) / (high - low) * n_bins)
        cells = np.clip(cells, 0, n_bins - 1).astype(int)
        counts, known = np.zeros(self.shape), groups >= 0
        np.add.at(counts, (groups[known], *cells[known].T), 1.0)
        return release("counts", counts, overwrite=True)


def _charged(statistic, caller, n_samples, *given):
    """Check a budget, warn by public facts, and return a charged release."""
    epsilon, delta, accountant, noise_seed = given
    check_arguments(caller, _CONSTRAINTS, dict(zip(_CONSTRAINTS, given, strict=True)))
    budget = (np.inf if epsilon is None else float(epsilon), float(delta))
    plan = statistic.plan(*budget, estimator=caller, seeded=noise_seed is not None)
    if not plan.noisy:
        warn(f"{caller}: epsilon={epsilon} reveals the rows", PrivacyLeakWarning)
    elif plan.seeded or plan.delta >= 1.0 / n_samples:
        said = "leave noise_seed=None, and delta below 1 / n_samples"
        warn(f"{caller} is not private: {said}", PrivacyLeakWarning)
    for caveat in statistic.caveats(plan):
        warn(caveat, NoisyFitWarning)
    accountant = ambient_accountant() if accountant is None else accountant
    return Release(plan, accountant, noise_seed)


@says_what_stays_charged()
def private_quantiles(
    X,
    q=0.5,
    *,
    epsilon: float | None = 1.0,
    delta: float = 1e-6,
    accountant: PrivacyAccountant | None = None,
    noise_seed: Any = None,
) -> np.ndarray:
    r"""Compute quantiles of columns under differential privacy, in one charge.

    Bounds are not needed: each quantile is found by a bisection of all floating-point
    numbers. Read more in the :ref:`user guide <private_quantiles>`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Numbers. Missing values (NaN) count as larger than all others.
    q : float or array-like of shape (n_quantiles,), default=0.5
        Public levels, in (0, 1).
    epsilon : float or None, default=1.0
        Privacy budget of all quantiles together, positive. None returns exact ranks,
        with a :class:`~skdpspectral.PrivacyLeakWarning`.
    delta : float, default=1e-6
        Privacy budget, in [1e-15, 1).
    accountant : PrivacyAccountant or None, default=None
        Ledger to charge. None uses the accountant of the enclosing ``with`` block.
    noise_seed : int, RandomState instance or None, default=None
        **Anything but None voids the privacy**; use it only for tests and figures.

    Returns
    -------
    ndarray of shape (n_quantiles, n_features) or (n_features,)
        Quantiles; of shape (n_features,) if `q` is a number. Their relative precision
        is 0.02 %.

    Raises
    ------
    ValueError, TypeError
        If an argument or the form of X is invalid (nothing is charged), or if a value
        is infinite (charged).
    PrivacyBudgetError
        If the accountant's remaining budget is too small; nothing is charged.

    Notes
    -----
    **Formal guarantee.** The result is (`epsilon`, `delta`)-differentially private for
    one row, under replacement of that row. Each of T steps releases, for v quantiles,
    how many values are below a threshold, with sensitivity :math:`\sqrt v`
    (:ref:`lemma-quantile-votes`). T is 24. The noise of a rank has the standard
    deviation :math:`\sqrt{v T} / \mu`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral.preprocessing import private_quantiles
    >>> X = np.random.default_rng(0).normal([40.0, 6e4], [12.0, 2e4], size=(20_000, 2))
    >>> median = private_quantiles(X, epsilon=1.0)
    >>> bool(np.allclose(median, [40.0, 6e4], rtol=0.1))
    True
    """
    unread = deferred_rows(None, X, allow_nan=True)
    n_samples, n_features = unread.shape
    levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
    if levels.ndim > 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"q must be one or more numbers in (0, 1), got {q!r}")
    statistic = ColumnQuantiles(n_samples, n_features, tuple(levels.tolist()))
    budget = (epsilon, delta, accountant, noise_seed)
    release = _charged(statistic, "private_quantiles", n_samples, *budget)
    # Values are read from here on.
    found = statistic.run(release, unread.read())
    return found if np.ndim(q) else found[0]


# Levels whose distance gives the limits of scores, and how far beyond these they are:
# three deviations of normal scores. Their share of mu**2.
_TENTHS, _BEYOND, _SHARE = (0.1, 0.9), 2.34, 0.3


def score_histogram(estimator, X, groups, names, n_bins, *budget):
    """Release counts of the first two scores by group, their edges and deviation."""
    n_samples = deferred_rows(estimator, X, reset=False).shape[0]
    if len(estimator.components_) < 2:
        raise ValueError("estimator must have two components: fit n_components=2")
    told = estimator.privacy_
    if told.unit is Unit.USER and not getattr(told, "one_row_each", False):
        raise ValueError(
            f"{type(estimator).__name__} protects users, and this histogram one row: "
            "pass an estimator of rows, such as DPPCA"
        )
    if groups is not None and (
        names is None or shape_of(groups, "groups") != (n_samples,)
    ):
        raise ValueError(
            f"groups must have shape ({n_samples},), and group_names must list them"
        )
    known = None if groups is None else IdIndex(names, "group_names")
    counts = PairCounts((len(known or "1"), n_bins, n_bins), n_samples)
    quantiles = ColumnQuantiles(n_samples, 2, _TENTHS)
    both = {"quantiles": quantiles, "counts": counts}
    statistic = Combination(both, {"quantiles": _SHARE, "counts": 1.0 - _SHARE})
    release = _charged(statistic, "ScoresDisplay", n_samples, *budget)
    # Values are read from here on.
    made = estimator.transform(X)  # which may be a frame
    scores = np.asarray(made)[:, :2]
    codes = np.zeros(n_samples, dtype=int)
    if known is not None:
        codes = known.find(groups, "groups")
    low, high = quantiles.run(release, scores)
    reach = _BEYOND * np.maximum(0.5 * (high - low), np.finfo(float).tiny)
    limits = 0.5 * (low + high) + np.array([-reach, reach])
    noise = getattr(release.plan["counts"], "noise_std", 0.0)
    edges = np.linspace(*limits, n_bins + 1, axis=1)
    return counts.run(release, scores, limits, codes), edges, noise
