"""Joint moment estimation: mean and covariance of a stream, at every step."""

from __future__ import annotations

import contextlib
import copy
import functools
import types
from collections.abc import Iterator
from numbers import Integral, Real
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._base.strategies import same_value, snapshot
from .._release.noise import NonReentrantLock
from .._release.streams import StreamRelease
from .._tables.table import DeferredRead, check_rows, deferred_rows, saturated
from ..accounting import PrivacyAccountant
from ..factorizations._choices import (
    Choices,
    HorizonError,
    check_batches,
    check_horizon,
    plan_noise,
)
from ..factorizations._workloads import MOST_STEPS
from ..mechanisms import check_count
from ._covariance import GaussianMixin
from ._moment_stream import BLOCK_STEPS, MomentStream, StreamMoments, project_covariance
from ._moments import (
    FACTORIZATIONS,
    MOMENT_CONSTRAINTS,
    WORKLOADS,
    as_strategy,
    check_moments,
)


class MomentRun:
    """One charged stream, owned by the call or the estimator that began it.

    Only one thread uses it at a time; copies and pickles hold whole batches. `features`
    are fitted attributes about columns, and `parameters` must not change.
    """

    def __init__(
        self, moments: MomentStream, release, features: dict, parameters: dict
    ):
        self.moments, self._release, self.plan = moments, release, release.plan
        self.sums = moments.begin(release.plan)
        self.features, self.parameters = features, parameters
        self._thread_lock = NonReentrantLock()

    def __getstate__(self):
        self._release.check_process()
        with self._thread_lock.hold():
            state = self.__dict__.copy()
            # The pickler comes later, when another batch may be under way.
            for part in ("_release", "sums"):
                state[part] = copy.deepcopy(state[part])
        del state["_thread_lock"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._thread_lock = NonReentrantLock()

    def path(self, X) -> Iterator[StreamMoments]:
        """Claim a step for each row, and yield the moments of block after block."""
        return self.moments.run(self._release, X, self.sums)

    def push(self, X) -> tuple[StreamMoments, int]:
        """Release rows; return the moments of the last one, and how many were lost."""
        self._release.check_process()
        with self._thread_lock.hold():
            for moments in self.path(X):
                last = moments
            return last.of_last_step(), self.sums.n_lost

    def resume(self) -> None:
        """Skip to the position of the stream in the ledger."""
        self._release.check_process()
        with self._thread_lock.hold():
            self.sums.skip(self._release.resume() - self.sums.step)

    def close(self) -> None:
        """End the stream."""
        self._release.close()


_FEATURES = ("n_features_in_", "feature_names_in_")


class MomentRelease(NamedTuple):
    """Released mean (n_features,) and covariance of a stream after `step` rows.

    `location_std` is the standard deviation of the noise in each entry of the mean;
    None for a mean with weights of its own, and for one that is taken to be zero.
    """

    step: int
    location: np.ndarray
    covariance: np.ndarray
    location_std: float | None


class _InBatches:
    """Descriptor of a method that needs a known or unneeded number of steps."""

    def __init__(self, method):
        self._method = method
        functools.update_wrapper(self, method)

    def __get__(self, estimator, owner=None):
        if estimator is None:
            return self._method
        estimator._check_batches(self._method.__name__)
        return types.MethodType(self._method, estimator)


# Least eigenvalue by default: in units of the noise of an entry off the diagonal, and
# in squared clip norms where there is less noise.
_FLOOR, _LEAST = 2.0, 1e-6


@documented
class JMECovariance(
    OneToOneFeatureMixin,
    TransformerMixin,
    GaussianMixin,
    CallbackSupportMixin,
    PrivateEstimator,
):
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
    moments : {"jme", "assume-centered"} or strategy, default="jme"
        The released moments. "jme": mean and second moment, using their joint
        sensitivity; :class:`~skdpspectral.covariance.JointMoments` sets their weights,
        workloads and noise. "assume-centered"
        (:class:`~skdpspectral.covariance.AssumeCentered`): only the second moment, with
        the whole budget, assuming a zero mean.
        :class:`~skdpspectral.covariance.BaselineMoments` is for comparison.
    whiten : bool, default=False
        Whether :meth:`transform` also multiplies rows by the root of the precision.
    min_eigenvalue : float or "auto", default="auto"
        Smallest eigenvalue of `covariance_`, in units of ``clip_norm**2``. "auto"
        corrects the eigenvalues for the bias of the noise, and raises them to at least
        twice the noise of an entry and at least 1e-6 (only 1e-6 if noisy rows are
        squared). This uses no budget, because the size of the noise is public.
    on_horizon : {"raise", "restart"}, default="raise"
        What happens to rows beyond `horizon`. "restart" draws new noise for the same
        number of steps, at no further cost; sums then include the noise of all blocks.
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
        Weighted covariance of the clipped rows, corrected for the bias of the noise
        (except with ``BaselineMoments("pp")``). Its eigenvalues are at least
        `min_eigenvalue`, and its trace is at most ``clip_norm**2``.
    precision_ : ndarray of shape (n_features, n_features)
        Inverse of `covariance_`.
    first_moment_ : ndarray of shape (n_features,)
        Weighted sum of rows, with the weights of the workload.
    second_moment_ : ndarray of shape (n_features, n_features)
        Weighted sum of outer products, without projection.
    n_samples_seen_ : int
        Number of steps so far, public under replace-one.
    n_samples_lost_ : int
        Number of these steps that are missing from the moments. It is 0 unless the
        stream was continued by :meth:`resume`.
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
    _free_parameters: ClassVar[set[str]] = {
        *("accountant", "noise_seed", "min_eigenvalue", "whiten")
    }
    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "clip_norm": [Interval(Real, 1e-60, 1e60, closed="both")],
        "horizon": [Interval(Integral, 1, MOST_STEPS, closed="both"), None],
        "workload": WORKLOADS,
        "factorization": FACTORIZATIONS,
        "moments": MOMENT_CONSTRAINTS,
        "whiten": ["boolean"],
        "min_eigenvalue": [
            Interval(Real, 1e-12, 1, closed="both"),
            StrOptions({"auto"}),
        ],
        "on_horizon": [StrOptions({"raise", "restart"})],
    }

    def __init__(
        self,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        *,
        clip_norm: float = 1.0,
        horizon: int | None = None,
        workload="average",
        factorization="blt",
        moments="jme",
        whiten: bool = False,
        min_eigenvalue: float | str = "auto",
        on_horizon: str = "raise",
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.clip_norm = clip_norm
        self.horizon = horizon
        self.workload = workload
        self.factorization = factorization
        self.moments = moments
        self.whiten = whiten
        self.min_eigenvalue = min_eigenvalue
        self.on_horizon = on_horizon
        self.accountant = accountant
        self.noise_seed = noise_seed

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_moments(self.moments)

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

    def _choices(self, moments=None) -> Choices:
        """Return the workloads and factorizations of both moments."""
        moments = as_strategy(self.moments) if moments is None else moments
        return Choices(
            self.workload,
            self.factorization,
            getattr(moments, "second_workload", None),
            getattr(moments, "second_factorization", None),
            self.on_horizon,
        )

    def _moment_stream(self, n_samples: int | None, n_features: int) -> MomentStream:
        """Return the private statistic, or raise an error about parameters."""
        # Once: another thread may give others before the second use.
        moments = as_strategy(self.moments)
        check_moments(moments)
        noise = plan_noise(self._choices(moments), self.horizon, n_samples)
        return MomentStream(n_features, noise, moments, clip_norm=self.clip_norm)

    def _released(self, moments: StreamMoments, places) -> tuple[np.ndarray, ...]:
        """Return moments of given steps, with projected covariances."""
        first, second, mean, covariance = moments.at(places)
        unit = float(self.clip_norm) ** 2
        floor, spread = _LEAST * unit, None
        if self.min_eigenvalue != "auto":
            floor = float(self.min_eigenvalue) * unit
        elif (spread := moments.spread(places)) is not None:
            floor = np.maximum(floor, _FLOOR * spread)
            # The eigenvectors of a diagonal are known: noise turns none of them.
            spread = None if moments.sums.stream.diagonal else spread
        covariance = project_covariance(covariance, floor, unit, spread)
        return first, second, mean, covariance

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
            rows, features = self._form(X)
            n_blocks = len(range(0, rows.shape[0], BLOCK_STEPS))
            moments = self._moment_stream(*rows.shape)
            with fit_progress(self, n_blocks) as progress:
                # It is charged here, and values are read from here on.
                run, X = self._begin(moments, features, rows)
                progress.begin(X, y, run.plan)
                with contextlib.closing(run):
                    for number, moments in enumerate(run.path(X), 1):
                        last = moments
                        progress.step(number)
                self._keep(run, last)
                self.__dict__.pop("_stream", None)
        return self

    @_InBatches
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
            If a copy of this stream has already made further steps; see :meth:`resume`.
        RuntimeError
            If the stream has ended, one of its steps failed, or this is a forked copy.
        """
        with self._unchanged_on_error():
            self._check_parameters()
            run = getattr(self, "_stream", None)
            rows, features = self._form(X, run)
            if run is None:
                run = self._first_batch(rows, features)
            else:
                self._check_unchanged(run)
                self._check_horizon(run.moments.n_steps, run.sums.step, rows)
        # A stream that was charged stays open, whatever the values are.
        with self._unchanged_on_error():
            X = rows.read()
            self._latest = object()
            moments, n_lost = run.push(X)
            self._keep(run, moments, n_lost)
        return self

    def _first_batch(self, rows: DeferredRead, features: dict) -> MomentRun:
        moments = self._moment_stream(None, rows.shape[1])
        self._check_horizon(moments.n_steps, 0, rows)
        (run,) = self._begin(moments, features)
        self._stream = run
        return run

    @_InBatches
    def resume(self):
        """Continue a stream at the position where a lost later copy ended.

        Use it for a pickle that is older than the last batch, for example after a crash
        (:ref:`resumed_streams`). This copy lacks the releases made since then: its
        moments exclude these rows, and a window starts empty. **Do not pass the rows of
        these steps again**, because their steps are used up. The next row belongs to
        step ``n_samples_seen_ + 1``.

        Returns
        -------
        self : object
            The estimator with the same moments. `n_samples_seen_` and `n_samples_lost_`
            are updated from the ledger.

        Raises
        ------
        LedgerError
            If the ledger is behind this copy, or has no such stream.
        NotFittedError
            If no stream was started, or :meth:`fit` has ended it.
        RuntimeError
            If a step of this very copy failed; load a pickle instead.
        ValueError
            If there is no accountant, or if parameters are invalid or were changed
            since the stream started.
        """
        self._check_parameters()
        run = getattr(self, "_stream", None)
        if run is None:
            raise NotFittedError(
                "there is no stream to resume: partial_fit begins one, and a pickle of "
                "the estimator keeps it"
            )
        with self._unchanged_on_error():
            self._check_unchanged(run)
            run.resume()
            self._latest = object()
            sums = run.sums
            counts = {"n_samples_seen_": sums.step, "n_samples_lost_": sums.n_lost}
            self.__dict__.update(counts)
        return self

    def _check_batches(self, method: str) -> None:
        """Refuse batches if the noise needs a horizon and there is none."""
        if self.horizon is not None:
            return
        try:
            self._check_parameters()
            check_batches(self._choices())
        except HorizonError as error:
            raise HorizonError(
                f"{method} cannot run without a horizon: {error}"
            ) from None
        except (TypeError, ValueError):
            return  # the call itself raises the error, as any method does

    def release_path(self, X, *, every=1) -> Iterator[MomentRelease]:
        """Fit, and return the moments at every step or at some steps.

        The call charges the budget. The path uses its own stream. The estimator does
        not change until the iterator is exhausted. It then takes over the last moments,
        unless another fit, batch or path was started in the meantime.

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
            rows, features = self._form(X)
            run, X = self._begin(self._moment_stream(*rows.shape), features, rows)
            self._latest = mark = object()
        return self._path(X, every, run, mark)

    def _path(self, X, every: int, run, mark) -> Iterator[MomentRelease]:
        """Walk along a stream of its own; `mark` says whether it is the latest fit."""
        with contextlib.closing(run):
            for moments in _quietly(run.path(X)):
                due = (moments.steps % every == 0) | (moments.steps == len(X))
                places = np.flatnonzero(due)
                if len(places):
                    _, _, means, covariances = self._released(moments, places)
                    steps, stds = moments.steps[places].tolist(), [None] * len(places)
                    if (spread := moments.mean_spread(places)) is not None:
                        stds = spread.tolist()
                    yield from map(MomentRelease, steps, means, covariances, stds)
        if getattr(self, "_latest", None) is mark:
            self._keep(run, moments)
            self.__dict__.pop("_stream", None)

    def _form(self, X, run: MomentRun | None = None) -> tuple[DeferredRead, dict]:
        """Check the form of rows, without changing the estimator: fits may overlap."""
        reader = object.__new__(type(self))
        reader.__dict__.update(self.__dict__)
        for name in _FEATURES:
            reader.__dict__.pop(name, None)
        if run is not None:
            reader.__dict__.update(run.features)
        rows = deferred_rows(reader, X, reset=run is None)
        found = vars(reader)
        return rows, {name: found[name] for name in _FEATURES if name in found}

    def _check_horizon(
        self, n_steps: int | None, seen: int, rows: DeferredRead
    ) -> None:
        if self.on_horizon != "restart":
            check_horizon(n_steps, seen, rows.shape[0])

    def _begin(self, moments: MomentStream, features: dict, *unread) -> tuple:
        """Charge a stream by its public shape, then read its rows."""
        plan = self._planned(moments)
        release, *read = self._start_release(
            plan,
            *unread,
            n_public=moments.n_steps,
            kind=functools.partial(StreamRelease, factorization=moments.factorization),
        )
        self._latest = object()
        run = MomentRun(moments, release, features, self._fixed_parameters())
        return run, *read

    def _keep(self, run: MomentRun, moments: StreamMoments, n_lost: int = 0) -> None:
        """Set the fitted attributes to the last moments, all at once."""
        first, second, mean, covariance = self._released(moments, [-1])
        spread = moments.mean_spread([-1])
        if "feature_names_in_" not in run.features:
            self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(
            run.features,
            first_moment_=first[0],
            second_moment_=second[0],
            location_=mean[0],
            location_std_=None if spread is None else float(spread[0]),
            covariance_=covariance[0],
            n_samples_seen_=int(moments.steps[-1]),
            n_samples_lost_=n_lost,
            privacy_=run.plan,
        )

    def _fixed_parameters(self) -> dict:
        parameters = self.get_params(deep=False)
        return {
            name: snapshot(value)
            for name, value in parameters.items()
            if name not in self._free_parameters
        }

    def _check_unchanged(self, run: MomentRun) -> None:
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def transform(self, X):
        """Center rows, and whiten them with ``whiten=True``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows in the precision of X, each as private as its original row. Whitening
            uses the symmetric root (ZCA), so features keep their meaning. Results are
            always finite, even if they overflow.
        """
        check_is_fitted(self)
        self._check_parameters()
        X = check_rows(self, X, reset=False)
        shift, root = self.location_, None
        if self.whiten:
            values, vectors = np.linalg.eigh(self.covariance_)
            root = (vectors / np.sqrt(values)) @ vectors.T
            shift = shift @ root
        with np.errstate(all="ignore"):
            turned = X if root is None else X @ root.astype(X.dtype)
            return saturated(turned - shift.astype(X.dtype))


def _quietly(steps: Iterator) -> Iterator:
    """Yield the steps, ignoring errors of arithmetic in each."""
    while True:
        with np.errstate(all="ignore"):
            step = next(steps, None)
        if step is None:
            return
        yield step
