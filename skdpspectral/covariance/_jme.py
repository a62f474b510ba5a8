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
from sklearn.covariance import log_likelihood
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.sklearn_compat import (
    CALLBACK_LEVELS,
    CallbackSupportMixin,
    FitProgress,
    Interval,
    StrOptions,
    with_callbacks,
)
from .._base.strategies import same_value, snapshot
from .._release.noise import NonReentrantLock
from .._release.streams import StreamRelease
from .._tables.rows import DeferredRead, check_rows, deferred_rows, saturated
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
from ._kernels import project_covariance
from ._moment_stream import BLOCK_STEPS, MomentStream, StreamMoments
from ._moments import (
    FACTORIZATIONS,
    MOMENT_CONSTRAINTS,
    WORKLOADS,
    as_strategy,
    check_moments,
)


class MomentRun:
    """One charged stream; it belongs to the call, or the estimator, that began it.

    One thread at a time uses it; copies and pickles hold whole batches. `features` are
    fitted attributes about columns, and `parameters` those that must not change.
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
        """Release rows; return the moments of the last of them, and what was lost."""
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
    """A method that is available if the number of steps is known or is not needed."""

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
    OneToOneFeatureMixin, TransformerMixin, CallbackSupportMixin, PrivateEstimator
):
    r"""Mean and covariance of a stream, released privately at every step.

    Each row is one step. It is released with noise that is correlated between steps:
    weighted sums of rows and of their outer products have little of it, and the second
    moment costs nothing beside the first (:ref:`streams`). The budget covers the
    releases of **all** steps together.

    Parameters
    ----------
    {epsilon}
        A stream is one fit.
    {delta}
        Well below one over the number of steps.
    clip_norm : float, default=1.0
        Public bound in [1e-60, 1e60]: longer rows are scaled down to this norm.
    horizon : int or None, default=None
        Number of steps that the noise is made for (:ref:`stream_horizon`). None uses
        the number of rows in :meth:`fit`. Streams by :meth:`partial_fit` need it,
        unless ``factorization="trivial"``, or ``"blt"`` with a workload that forgets.
    workload : {"average", "prefix"}, Window, Exponential or array, default="average"
        Weights of rows i at step t: 1/t for "average", 1 for "prefix", or those of
        :class:`~skdpspectral.covariance.Exponential` and
        :class:`~skdpspectral.covariance.Window`. An array of shape (steps, steps)
        gives any weights, with zeros above the diagonal. The weights of a step must
        add up to more than 0, unless `moments` has a `second_workload`.
    factorization : str, BISR or array of shape (steps, steps), default="blt"
        How noise is correlated (:ref:`stream_parameters`). It keeps rows of noise in
        memory, each as long as the release of a step: none for "trivial" (independent
        noise), about four for "blt", two for each of the band of
        :class:`~skdpspectral.covariance.BISR` ("bisr" for its default), two for each
        step for "sqrt", one for each step, and the matrix, for "optimal" and any
        lower-triangular C.
    moments : {"jme", "assume-centered"} or strategy, default="jme"
        The moments that are released. "jme": mean and second moment, by their joint
        sensitivity; :class:`~skdpspectral.covariance.JointMoments` has their weights,
        workloads and noise. "assume-centered": the second moment alone, at the whole
        budget; the mean is taken to be zero
        (:class:`~skdpspectral.covariance.AssumeCentered`).
        :class:`~skdpspectral.covariance.BaselineMoments` is for comparison.
    whiten : bool, default=False
        Whether :meth:`transform` multiplies by the root of the precision; otherwise
        it subtracts the mean.
    min_eigenvalue : float or "auto", default="auto"
        Least eigenvalue of `covariance_`, in units of ``clip_norm**2``. "auto": the
        eigenvalues are rid of the bias of the noise, and none is below twice the noise
        of an entry, nor below 1e-6 (only 1e-6 where noisy rows are squared). It needs
        no budget: the size of the noise is public.
    on_horizon : {"raise", "restart"}, default="raise"
        What happens to rows beyond `horizon`. "restart": fresh noise for as many
        steps again, at no further cost; sums then carry the noise of all blocks.
    {accountant}
        A stream needs one to be copied or pickled before it has ended.
    {noise_seed}

    Attributes
    ----------
    location_ : ndarray of shape (n_features,)
        Weighted mean of the clipped rows, by `workload`. Where its weights do not add
        up to more than 0, by the `second_workload` of `moments`. Zero with
        ``moments="assume-centered"``.
    location_std_ : float or None
        Standard deviation of the noise in each entry of `location_`; None where it is
        zero or has weights of its own.
    covariance_ : ndarray of shape (n_features, n_features)
        Weighted covariance of the clipped rows, without the bias of the noise (but
        for ``BaselineMoments("pp")``). Its eigenvalues are at least `min_eigenvalue`,
        and its trace is at most ``clip_norm**2`` (more, by a public factor, where some
        weights are below 0).
    precision_ : ndarray of shape (n_features, n_features)
        Its inverse.
    first_moment_ : ndarray of shape (n_features,)
        Weighted sum of rows, with the workload's weights.
    second_moment_ : ndarray of shape (n_features, n_features)
        Weighted sum of outer products, not projected.
    n_samples_seen_ : int
        Number of steps so far, public under replace-one.
    n_samples_lost_ : int
        Number of these steps that the moments leave out; 0 but for streams that were
        resumed by :meth:`resume`.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    See Also
    --------
    sklearn.covariance.EmpiricalCovariance : The same without privacy.
    DPPCA : Principal components of a table.

    Notes
    -----
    **Formal guarantee.** All releases of a stream with ``noise_seed=None``, together,
    are (`epsilon`, `delta`)-differentially private for one row, under replacement of
    that row, for any data, also where later rows depend on earlier releases. The
    number of rows is public.

    With :math:`\sigma` the noise of the exact Gaussian mechanism at sensitivity 1,
    :math:`c` the clip norm and :math:`|C|` the largest column norm of the
    factorization, a row leaves with noise of standard deviation
    :math:`2 c \sigma |C|`, and its outer product with
    :math:`2 \sqrt2 c^2 \sigma |C|` at the free weight (:ref:`lemma-joint-moments`),
    shaped by :math:`C^{-1}`.

    **The state of a stream is secret** (:ref:`stream_state`): between two calls of
    :meth:`partial_fit` the estimator, and a pickle of it, hold the state of its noise.
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
    _array_parameters: ClassVar[tuple[str, ...]] = ("workload", "factorization")
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
            Number of rows of a fit, public; None for a stream by
            :meth:`partial_fit`.
        n_features : int
            Number of features.

        Returns
        -------
        {plan_of_shape}
            A stream is charged with it once.

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
        """Return moments of chosen steps, with covariances that are covariances."""
        first, second, mean, covariance = moments.at(places)
        unit = float(self.clip_norm) ** 2
        floor, spread = _LEAST * unit, None
        if self.min_eigenvalue != "auto":
            floor = float(self.min_eigenvalue) * unit
        elif (spread := moments.spread(places)) is not None:
            floor = np.maximum(floor, _FLOOR * spread)
            # The eigenvectors of a diagonal are known: noise turns none of them.
            spread = None if moments.sums.stream.diagonal else spread
        trace = unit * moments.largest_trace(places)
        covariance = project_covariance(covariance, floor, trace, spread)
        return first, second, mean, covariance

    @with_callbacks
    @unweighted
    def fit(self, X, y=None) -> Self:
        """Release the moments of the rows of X, one step a row; keep the last ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in order, all finite; never modified.
        {y_ignored}

        Returns
        -------
        self : object
            The fitted estimator; its stream has ended.

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
            with FitProgress(
                self, n_blocks, private=self._is_private(), verbose=False
            ) as progress:
                # It is charged here, and values are read from here on.
                run, X = self._begin(
                    moments, features, rows, levels=1 + CALLBACK_LEVELS
                )
                progress.begin(X, y, run.plan)
                with contextlib.closing(run):
                    for number, moments in enumerate(run.path(X), 1):
                        last = moments
                        progress.step(number)
                self._keep(run, last)
                self.__dict__.pop("_stream", None)
                progress.end()
        return self

    @_InBatches
    @unweighted
    def partial_fit(self, X, y=None) -> Self:
        """Release the moments of further rows, one step a row.

        The first call charges the whole stream, and so does the first one after
        :meth:`fit`, which begins a new stream. Batches of any sizes give the same
        releases as one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next rows in order, all finite; never modified.
        {y_ignored}

        Returns
        -------
        self : object
            The estimator, with the moments of the last of these rows.

        Raises
        ------
        ValueError
            If a parameter or X is invalid, the horizon is passed, or parameters were
            changed since the stream began; the stream stays where it is, and what was
            charged for it stays charged.
        {no_budget}
        LedgerError
            If a copy of this stream has gone further; see :meth:`resume`.
        RuntimeError
            If the stream has ended, a step of it failed, or this is a forked copy.
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
        (run,) = self._begin(moments, features, levels=2)
        self._stream = run
        return run

    @_InBatches
    def resume(self):
        """Go on with a stream of which a later copy is lost, where that one ended.

        For a pickle that is older than the last batch, as after a crash
        (:ref:`resumed_streams`). What was released since then is not in this copy:
        moments are those of the other rows from then on, and those of a window begin
        anew. **The rows of these steps must not be given again**: they have had their
        step. The next row is that of step ``n_samples_seen_ + 1``.

        Returns
        -------
        self : object
            The estimator, with the same moments; `n_samples_seen_` and
            `n_samples_lost_` are those of the ledger.

        Raises
        ------
        LedgerError
            If the ledger is behind this copy, or has no such stream.
        NotFittedError
            If no stream was begun, or it was ended by :meth:`fit`.
        RuntimeError
            If a step of this very copy failed: load a pickle.
        ValueError
            If there is no accountant, parameters are invalid or were changed since the
            stream began, or a workload given as an array weighs the rows of the gap
            alone.
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
            raise HorizonError(f"no {method} without a horizon: {error}") from None
        except (TypeError, ValueError):
            return  # the call itself raises the error, as any method does

    def release_path(self, X, *, every=1) -> Iterator[MomentRelease]:
        """Fit, and return the moments at every step, or at some of them.

        The budget is charged by the call. The path has a stream of its own: the
        estimator is as before until the iterator is exhausted, and takes over the last
        moments then, unless another fit, batch or path was begun meanwhile.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in order, all finite; never modified.
        every : int, default=1
            Steps between two that are returned; the last step always is.

        Returns
        -------
        iterator of MomentRelease
            Named tuples (step, location, covariance, location_std), the last of which
            is the standard deviation of the noise in each entry of the mean.

        Raises
        ------
        ValueError
            If a parameter or the form of X is invalid; nothing is charged. If a value
            of X is, as NaN; the fit is charged (:ref:`limits`).
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
        """Check the form of rows, of a fit or a stream under way; change nothing.

        What belongs to a fit comes into the estimator at its end: fits may overlap.
        """
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

    def _begin(
        self, moments: MomentStream, features: dict, *unread, levels: int = 0
    ) -> tuple:
        """Charge a stream by its public shape, then read its rows."""
        plan = self._planned(moments)
        release, *read = self._start_release(
            plan,
            *unread,
            n_public=moments.n_steps,
            kind=functools.partial(StreamRelease, factorization=moments.factorization),
            levels=1 + levels,
        )
        self._latest = object()
        run = MomentRun(moments, release, features, self._fixed_parameters())
        return run, *read

    def _keep(self, run: MomentRun, moments: StreamMoments, n_lost: int = 0) -> None:
        """Set the fitted attributes to the last moments of a stream, all at once."""
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
        """Refuse parameters that differ from those that the stream was charged with."""
        values = self.get_params(deep=False)
        for name, value in run.parameters.items():
            if not same_value(values[name], value):
                raise ValueError(
                    f"{name} was changed while the stream runs; set it back, or clone "
                    "the estimator to begin a new stream"
                )

    def __sklearn_is_fitted__(self):
        return hasattr(self, "covariance_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def get_precision(self):
        """Return the inverse of the covariance.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            Symmetric.
        """
        check_is_fitted(self)
        values, vectors = np.linalg.eigh(self.covariance_)
        return (vectors / values) @ vectors.T

    @property
    def precision_(self):
        """Inverse of the covariance, of shape (n_features, n_features)."""
        return self.get_precision()

    def _centered(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        return np.asarray(X, dtype=np.float64) - self.location_

    def score(self, X, y=None):
        """Mean log-likelihood of rows under the Gaussian of mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; a score on private rows is a release of its own.
        y : None
            Ignored.

        Returns
        -------
        float
            The mean of :meth:`score_samples`.
        """
        X = self._centered(X)
        return float(log_likelihood(X.T @ X / len(X), self.get_precision()))

    def score_samples(self, X):
        """Log-density of each row under the Gaussian of mean and covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            As private as the row.
        """
        distances = self.mahalanobis(X)
        log_volume = np.linalg.slogdet(2.0 * np.pi * self.covariance_)[1]
        return -0.5 * (distances + log_volume)

    def mahalanobis(self, X):
        """Squared Mahalanobis distances of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            At least 0; as private as the row.
        """
        X = self._centered(X)
        return np.einsum("ij,jk,ik->i", X, self.get_precision(), X, optimize=True)

    def error_norm(self, comp_cov, norm="frobenius", scaling=True, squared=True):
        """Distance of the covariance to another one.

        Parameters
        ----------
        comp_cov : array-like of shape (n_features, n_features)
            The other covariance.
        norm : {"frobenius", "spectral"}, default="frobenius"
            Which norm of the difference.
        scaling : bool, default=True
            Whether to divide the squared norm by n_features.
        squared : bool, default=True
            Whether to return the squared norm.

        Returns
        -------
        float
            The distance.
        """
        check_is_fitted(self)
        comp_cov = np.asarray(comp_cov, dtype=np.float64)
        if comp_cov.shape != self.covariance_.shape:
            raise ValueError(
                f"comp_cov must have shape {self.covariance_.shape}, got "
                f"{comp_cov.shape}"
            )
        error = comp_cov - self.covariance_
        if norm not in ("frobenius", "spectral"):
            raise ValueError(f"norm must be 'frobenius' or 'spectral', got {norm!r}")
        length = np.linalg.norm(error, 2 if norm == "spectral" else "fro")
        value = float(length) ** 2 / (len(error) if scaling else 1)
        return value if squared else float(np.sqrt(value))

    def transform(self, X):
        """Center rows, and whiten them with ``whiten=True``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; they are not clipped.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows of the precision of X, each as private as the row. Whitened by the
            symmetric root (ZCA), so that features keep their meaning. They are finite,
            also where they overflow.
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
