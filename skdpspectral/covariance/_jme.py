"""Joint moment estimation: mean and covariance of a stream, at every step."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._base.strategies import register, same_value, snapshot
from .._linalg.walks import quietly
from .._release.noise import StreamRelease
from .._tables.table import deferred_rows
from ..accounting import PrivacyAccountant
from ..factorizations import (
    BISR,
    MOST_STEPS,
    NAMES,
    Average,
    Exponential,
    Prefix,
    Window,
    Workload,
    factorize,
    needs_steps,
)
from ..mechanisms import check_count
from ._covariance import CovarianceMixin
from ._moment_stream import (
    BLOCK_STEPS,
    Moments,
    MomentStream,
    MomentSums,
    StreamMoments,
    project_covariance,
)

_NAMED = {"prefix": Prefix, "average": Average}
_WORKLOADS = [StrOptions(set(_NAMED)), Average, Prefix, Window, Exponential]
_FACTORIZATIONS, _AUTO = [StrOptions(set(NAMES)), BISR], StrOptions({"auto"})


@register
@dataclass(eq=False, repr=False)
class JointMoments(BaseEstimator):
    r"""Release both moments of a stream with noise for their joint sensitivity.

    With default parameters, this is the same as ``moments="jme"`` of
    :class:`~skdpspectral.JMECovariance`.

    Parameters
    ----------
    weight : "free" or float, default="free"
        Weight of the second moment. "free" uses the largest weight that leaves the mean
        as accurate as if it were released alone. A number is the weight :math:`\lambda`
        relative to the mean, in data units to the power -2.
    second_workload : as `workload` of the estimator or None, default=None
        Weights of the second moment and of the covariance (:ref:`two_workloads`). None
        uses the weights of the first moment.
    second_factorization : as `factorization` of the estimator or None, default=None
        Correlation of the noise of products. None uses `factorization` of the estimator
        for the workload of the second moment.

    Examples
    --------
    >>> from skdpspectral import JMECovariance
    >>> from skdpspectral.covariance import JointMoments, Window
    >>> model = JMECovariance(moments=JointMoments(second_workload=Window(500)))
    >>> model.set_params(moments__second_workload__length=100)
    JMECovariance(moments=JointMoments(second_workload=Window(length=100)))
    """

    _parameter_constraints: ClassVar[dict] = {
        "weight": [StrOptions({"free"}), Interval(Real, 1e-60, 1e60, closed="both")],
        "second_workload": [*_WORKLOADS, None],
        "second_factorization": [*_FACTORIZATIONS, None],
    }

    weight: float | str = "free"
    _: KW_ONLY
    second_workload: Any = None
    second_factorization: Any = None


class _Stream(NamedTuple):
    """A charged stream, its sums, and the parameters that must not change."""

    moments: MomentStream
    release: StreamRelease
    sums: MomentSums
    parameters: dict[str, Any]

    def path(self, X) -> Iterator[StreamMoments]:
        """Claim a step for each row, and yield the moments of block after block."""
        return self.moments.run(self.release, X, self.sums)


class MomentRelease(NamedTuple):
    """Released mean (n_features,) and covariance of a stream after `step` rows.

    `location_std` is the standard deviation of the noise in each entry of the mean;
    None for a mean with weights of its own, and for one that is taken to be zero.
    """

    step: int
    location: np.ndarray
    covariance: np.ndarray
    location_std: float | None


def _workload(given) -> Workload:
    """Return a copy of a workload."""
    return _NAMED[given]() if isinstance(given, str) else snapshot(given)


def _check_horizon(n_steps: int | None, seen: int, more: int) -> None:
    """Refuse rows for which no noise was planned."""
    if n_steps is not None and seen + more > n_steps:
        raise ValueError(
            f"X has {more} rows after {seen}, but the horizon is {n_steps} steps: "
            "choose a larger horizon"
        )


def _takes_batches(model) -> bool:
    """Raise if the noise needs a horizon and has none; other errors are the call's."""
    try:
        model._check_parameters()
        asked, _ = model._choices()
    except (TypeError, ValueError):
        return True
    model._count_steps(asked)
    return True


# Least eigenvalue by default: in units of the noise of an entry off the diagonal, and
# in squared clip norms where there is less noise.
_FLOOR, _LEAST = 2.0, 1e-6


@documented
@dataclass(eq=False, repr=False)
class JMECovariance(CovarianceMixin, CallbackSupportMixin, PrivateEstimator):
    r"""Mean and covariance of a stream, released privately at every step.

    Each row is one step. The noise is correlated between steps, so that weighted sums
    of rows and of their outer products have little noise. The second moment has no
    additional cost when it is released with the first (:ref:`streams`). The budget
    covers the releases of **all** steps together.

    Parameters
    ----------
    {epsilon}
        A stream counts as one fit.
    {delta}
    clip_norm : float, default=1.0
        Public bound in [1e-60, 1e60]. Longer rows are scaled down to this norm.
    horizon : int or None, default=None
        Number of steps that the noise is designed for (:ref:`stream_horizon`). None
        uses the number of rows in :meth:`fit`. :meth:`partial_fit` requires a number,
        unless ``factorization="trivial"``, or ``"blt"`` with a workload that forgets.
    workload : {"average", "prefix"}, Window or Exponential, default="average"
        Weights of the rows at step t: 1/t for "average", 1 for "prefix", or the weights
        of :class:`~skdpspectral.covariance.Exponential` or
        :class:`~skdpspectral.covariance.Window`.
    factorization : {"blt", "sqrt", "bisr", "trivial"} or BISR, default="blt"
        How noise is correlated between steps (:ref:`stream_parameters`). The choice
        determines how many rows of noise are kept in memory, each as long as the
        release of a step: none for "trivial" (independent noise), about four for "blt",
        two per unit of bandwidth for :class:`~skdpspectral.covariance.BISR` ("bisr"
        uses its default), and two per step for "sqrt".
    moments : {"jme", "assume-centered"} or JointMoments, default="jme"
        The released moments. "jme": mean and second moment, using their joint
        sensitivity; :class:`~skdpspectral.covariance.JointMoments` sets their weights,
        workloads and noise. "assume-centered": only the second moment, with the whole
        budget, assuming a zero mean.
    min_eigenvalue : float or "auto", default="auto"
        Smallest eigenvalue of `covariance_`, in units of ``clip_norm**2``. "auto"
        corrects the eigenvalues for the bias of the noise, and raises them to at least
        twice the noise of an entry and at least 1e-6. This uses no budget, because the
        size of the noise is public.
    {accountant}
        To copy or pickle a stream before it has ended, set an accountant.
    {noise_seed}

    Attributes
    ----------
    location_ : ndarray of shape (n_features,)
        Weighted mean of the clipped rows, with the weights of `workload`. Zero with
        ``moments="assume-centered"``.
    location_std_ : float or None
        Standard deviation of the noise of each entry of `location_`. None if
        `location_` is zero or has separate weights.
    covariance_ : ndarray of shape (n_features, n_features)
        Weighted covariance of the clipped rows, corrected for the bias of the noise.
        Its eigenvalues are at least
        `min_eigenvalue`, and its trace is at most ``clip_norm**2``.
    precision_ : ndarray of shape (n_features, n_features)
        Inverse of `covariance_`.
    first_moment_ : ndarray of shape (n_features,)
        Weighted sum of rows, with the weights of the workload.
    second_moment_ : ndarray of shape (n_features, n_features)
        Weighted sum of outer products, without projection.
    n_samples_seen_ : int
        Number of steps so far, public under replace-one.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    sklearn.covariance.EmpiricalCovariance : Covariance without privacy.
    DPPCA : Principal components of a table.

    Notes
    -----
    **Formal guarantee.** All releases of a stream with ``noise_seed=None`` together are
    (`epsilon`, `delta`)-differentially private for one row, under replacement of that
    row, for any data, even if later rows depend on earlier releases. The number of rows
    is public.

    Let :math:`\sigma` be the noise of the exact Gaussian mechanism at sensitivity 1,
    :math:`c` the clip norm and :math:`|C|` the largest column norm of the
    factorization. A row is released with noise of standard deviation
    :math:`2 c \sigma |C|`, and its outer product with :math:`2 \sqrt2 c^2 \sigma |C|`
    at the free weight (:ref:`lemma-joint-moments`), correlated by :math:`C^{-1}`.

    **The state of a stream is secret** (:ref:`stream_state`). Between two calls of
    :meth:`partial_fit`, the estimator and its pickles contain the state of the noise.
    :meth:`publish` returns a copy without it.

    References
    ----------
    Kalinin, Upadhyay and Lampert (2025), Continual release moment estimation with
    differential privacy, algorithms 1 and 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import JMECovariance
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([0.3, 0.0], [0.1, 0.3], size=(20_000, 2))
    >>> model = JMECovariance(epsilon=1.0).fit(X)
    >>> bool(np.abs(model.location_ - [0.3, 0.0]).max() < 0.05)
    True
    >>> stream = JMECovariance(epsilon=1.0, horizon=30_000)
    >>> for batch in np.split(X, 10):
    ...     stream = stream.partial_fit(batch)
    >>> stream.n_samples_seen_
    20000
    """

    # Parameters that may change while a stream runs: they affect post-processing only.
    _free_parameters: ClassVar = {"accountant", "noise_seed", "min_eigenvalue"}
    _why_no_users: ClassVar[str] = (
        "releases after every row, in order, so that a user who returns would be in "
        "several steps: pass one row of each user, or fit DPCovariance with users"
    )
    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "clip_norm": [Interval(Real, 1e-60, 1e60, closed="both")],
        "horizon": [Interval(Integral, 1, MOST_STEPS, closed="both"), None],
        "workload": _WORKLOADS,
        "factorization": _FACTORIZATIONS,
        "moments": [StrOptions({"jme", "assume-centered"}), JointMoments],
        "min_eigenvalue": [Interval(Real, 1e-12, 1, closed="both"), _AUTO],
    }

    epsilon: float | None = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    clip_norm: float = 1.0
    horizon: int | None = None
    workload: Any = "average"
    factorization: Any = "blt"
    moments: Any = "jme"
    min_eigenvalue: float | str = "auto"
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None

    def privacy_plan(self, n_samples=None, n_features=None):
        """Describe what a stream will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int or None, default=None
            Number of rows of a fit, public; None for a stream with :meth:`partial_fit`.
        n_features : int
            Number of features.

        Returns
        -------
        {plan_of_shape}
            A stream is charged once.

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        if n_samples is not None:
            n_samples = check_count("n_samples", n_samples)
            if n_samples > MOST_STEPS:
                raise ValueError("n_samples must be at most 2**53")
        n_features = check_count("n_features", n_features)
        return self._planned(self._moment_stream(n_samples, n_features))

    def _choices(self) -> tuple[list[tuple[str, Workload, Any]], float | str | None]:
        """Return workloads and factorizations, and the weight of products."""
        moments = snapshot(self.moments)
        given = moments if isinstance(moments, JointMoments) else JointMoments()
        factorization, second = self.factorization, given.second_factorization
        workload = _workload(self.workload)
        found = [("", workload, factorization)]
        if given.second_workload is not None:
            workload = _workload(given.second_workload)
        if given.second_workload is not None or second is not None:
            found.append(("second_", workload, second or factorization))
        return found, None if moments == "assume-centered" else given.weight

    def _count_steps(self, asked: list, n_samples: int | None = None) -> int | None:
        """Return the number of planned steps; None for any number."""
        if self.horizon is not None:
            return int(self.horizon)
        for prefix, workload, factorization in asked:
            if n_samples is None and needs_steps(workload, factorization):
                raise ValueError(
                    f"{prefix}factorization={factorization!r} of {workload} needs a "
                    "horizon: set horizon to a sufficient number of steps, or use "
                    '"trivial"'
                )
        return n_samples

    def _moment_stream(self, n_samples: int | None, n_features: int) -> MomentStream:
        """Return the private statistic, or raise an error about parameters."""
        asked, weight = self._choices()
        n_steps = self._count_steps(asked, n_samples)
        _check_horizon(n_steps, 0, n_samples or 0)
        noise = [(w, factorize(w, f, n_steps)) for _, w, f in asked]
        return MomentStream(n_features, noise, n_steps, weight, self.clip_norm)

    @quietly
    def _released(self, moments: StreamMoments, places) -> Moments:
        """Return moments of given steps, with projected covariances."""
        found, unit = moments.at(places), float(self.clip_norm) ** 2
        floor, spread = _LEAST * unit, None
        if self.min_eigenvalue != "auto":
            floor = float(self.min_eigenvalue) * unit
        else:
            spread = found.spread
            floor = np.maximum(floor, _FLOOR * spread)
        covariance = project_covariance(found.covariance, floor, unit, spread)
        return found._replace(covariance=covariance)

    @unweighted
    def fit(self, X, y=None) -> Self:
        """Release the moments of the rows of X, one row per step; keep the last ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite rows in order; never modified.
        {y_ignored}

        Returns
        -------
        self : object
            The fitted estimator. Its stream has ended.

        Raises
        ------
        {invalid_data}
        {no_budget}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            rows = deferred_rows(self, X)
            n_blocks = len(range(0, rows.shape[0], BLOCK_STEPS))
            moments = self._moment_stream(*rows.shape)
            with fit_progress(self, n_blocks) as progress:
                # It is charged here, and values are read from here on.
                run, X = self._begin(moments, rows)
                progress.begin(X, y, run.release.plan)
                with contextlib.closing(run.release):
                    for number, moments in enumerate(run.path(X), 1):
                        last = moments
                        progress.step(number)
                self._keep(run, last)
                self.__dict__.pop("_stream", None)
        return self

    @available_if(_takes_batches)
    @unweighted
    def partial_fit(self, X, y=None) -> Self:
        """Release the moments of further rows, one row per step.

        The first call charges the whole stream, and so does the first call after
        :meth:`fit`, which starts a new stream. The releases do not depend on how rows
        are divided into batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next rows in order, all finite; never modified.
        {y_ignored}

        Returns
        -------
        self : object
            The estimator, with the moments after the last of these rows.

        Raises
        ------
        ValueError
            If a parameter or X is invalid, the horizon is exceeded, or parameters were
            changed since the stream started. Position and charge stay the same.
        {no_budget}
        LedgerError
            If a copy of this stream has already made further steps.
        RuntimeError
            If the stream has ended, one of its steps failed, or this is a forked copy.
        """
        charged: dict[str, Any] = {}
        try:
            with self._unchanged_on_error():
                self._check_parameters()
                run = getattr(self, "_stream", None)
                rows = deferred_rows(self, X, reset=run is None)
                if run is not None:
                    self._check_unchanged(run)
                    _check_horizon(run.moments.n_steps, run.sums.step, rows.shape[0])
                else:
                    moments = self._moment_stream(None, rows.shape[1])
                    _check_horizon(moments.n_steps, 0, rows.shape[0])
                    (run,) = self._begin(moments)
                    self._stream = run
                charged.update(self.__dict__)
                X = rows.read()
                for moments in run.path(X):
                    last = moments
                self._keep(run, last)
        except BaseException:  # a stream that was charged stays open
            self.__dict__.update(charged)
            raise
        return self

    def release_path(self, X, *, every=1) -> Iterator[MomentRelease]:
        """Fit, and return the moments at every step or at some steps.

        The call charges the budget. The path uses its own stream, and the estimator
        does not change.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite rows in order; never modified.
        every : int, default=1
            Number of steps between returned steps. The last step is always returned.

        Returns
        -------
        iterator of MomentRelease
            Named tuples (step, location, covariance, location_std), where
            `location_std` is the noise standard deviation of each mean entry.

        Raises
        ------
        ValueError
            If a parameter or the form of X is invalid (nothing is charged), or if a
            value of X is invalid, such as NaN (the fit is charged, :ref:`limits`).
        {no_budget}
        """
        every = check_count("every", every)
        with self._unchanged_on_error():
            self._check_parameters()
            rows = deferred_rows(clone(self), X)
            run, X = self._begin(self._moment_stream(*rows.shape), rows)
        return self._path(X, every, run)

    def _path(self, X, every: int, run: _Stream) -> Iterator[MomentRelease]:
        """Walk along a stream of its own."""
        with contextlib.closing(run.release):
            for moments in run.path(X):
                due = (moments.steps % every == 0) | (moments.steps == len(X))
                places = np.flatnonzero(due)
                if len(places):
                    found, stds = self._released(moments, places), [None] * len(places)
                    if found.mean_std is not None:
                        stds = found.mean_std.tolist()
                    given = moments.steps[places].tolist(), found.mean, found.covariance
                    yield from map(MomentRelease, *given, stds)

    def _begin(self, moments: MomentStream, *unread) -> tuple:
        """Charge a stream by its public shape, then read its rows."""
        plan = self._planned(moments)
        release, *read = self._start_release(
            plan,
            *unread,
            n_public=moments.n_steps,
            kind=functools.partial(StreamRelease, factorization=moments.factorization),
        )
        fixed = {
            name: snapshot(value)
            for name, value in self.get_params(deep=False).items()
            if name not in self._free_parameters
        }
        return _Stream(moments, release, moments.begin(plan), fixed), *read

    def _keep(self, run: _Stream, moments: StreamMoments) -> None:
        """Set the fitted attributes to the last moments, all at once."""
        found = self._released(moments, [-1])
        self.__dict__.update(
            first_moment_=found.first[0],
            second_moment_=found.second[0],
            location_=found.mean[0],
            location_std_=None if found.mean_std is None else float(found.mean_std[0]),
            covariance_=found.covariance[0],
            n_samples_seen_=int(moments.steps[-1]),
            privacy_=run.release.plan,
        )

    def _check_unchanged(self, run: _Stream) -> None:
        """Refuse parameters that have changed since the stream was charged."""
        values = self.get_params(deep=False)
        for name, value in run.parameters.items():
            if not same_value(values[name], value):
                raise ValueError(
                    f"{name} was changed during the stream; restore it, or clone the "
                    "estimator to begin a new stream"
                )

    def __sklearn_is_fitted__(self):
        return hasattr(self, "covariance_")
