"""Joint moment estimation: mean and covariance of a stream, at every step."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from numbers import Integral, Real
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.progress import FitProgress
from .._base.sklearn_compat import (
    CALLBACK_LEVELS,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    with_callbacks,
)
from .._base.strategies import same_value, snapshot
from .._linalg import project_covariance
from .._release.streams import StreamRelease, check_shaping
from .._tables.rows import Unread, unread_rows
from ..mechanisms import PrivacyPlan
from ..mechanisms._numbers import check_count
from ._covariance_model import CovarianceModel
from ._moment_run import MomentRun
from ._moment_stream import (
    BLOCK_STEPS,
    MomentStream,
    count_steps,
    make_factorization,
    make_workload,
)
from ._moment_sums import Moments
from .factorizations import BISR, Average, Exponential, Prefix, Window
from .factorizations._factorizations import NAMES
from .factorizations._workloads import MOST_STEPS

# What may change while a stream runs: it shapes what is made of releases.
_FREE_PARAMETERS = {"accountant", "min_eigenvalue", "noise_seed"}
_FREE_PARAMETERS |= {"whiten"}
_FEATURES = ("n_features_in_", "feature_names_in_")


class MomentRelease(NamedTuple):
    """What a stream has released up to a step.

    Parameters
    ----------
    step : int
        Number of rows so far.
    location : ndarray of shape (n_features,)
        Mean.
    covariance : ndarray of shape (n_features, n_features)
        Covariance.
    """

    step: int
    location: np.ndarray
    covariance: np.ndarray


def _can_stream(estimator) -> bool:
    """Whether rows may come in batches: the number of steps is known, or no matter."""
    if estimator.horizon is not None:
        return True
    try:
        workload = make_workload(estimator.workload)
        count_steps(workload, estimator.factorization, None, None)
    except (ValueError, TypeError) as error:
        raise AttributeError(str(error)) from error
    return True


@documented
class JMECovariance(
    OneToOneFeatureMixin,
    CallbackSupportMixin,
    TransformerMixin,
    CovarianceModel,
    PrivateEstimator,
):
    r"""Mean and covariance of a stream, released privately at every step.

    Each row is one step. It leaves with noise that is correlated between steps, so
    that weighted sums of rows and of their outer products have little of it; and both
    moments are released together, for which the second one costs nothing beside the
    first. Whoever sees the releases of **all** steps learns no more of a row than the
    budget allows. Read more in the :ref:`user guide <streams>`.

    Parameters
    ----------
    {epsilon}
        A stream is one fit.
    {delta}
        Well below one over the number of steps.
    clip_norm : float, default=1.0
        Public bound in [1e-60, 1e60]: longer rows are scaled down to this norm.
    horizon : int or None, default=None
        Number of steps that the noise is made for. None takes the number of rows in
        :meth:`fit`; streams by :meth:`partial_fit` need it unless
        ``factorization="trivial"``, or ``"blt"`` with a workload that forgets.
    workload : {"average", "prefix"}, Window, Exponential or array, default="average"
        Weights of rows i at step t: 1/t for "average", 1 for "prefix",
        ``decay**(t - i)`` for :class:`~skdpspectral.covariance.Exponential`, and for
        :class:`~skdpspectral.covariance.Window` 1 over the number of rows in it. An
        array of shape (steps, steps) gives any weights of at least 0, with zeros above
        the diagonal.
    factorization : str, BISR or array of shape (steps, steps), default="blt"
        How noise is correlated: "blt" in constant memory, "trivial" independent,
        "bisr" for :class:`~skdpspectral.covariance.BISR`, or any lower-triangular C;
        see :func:`~skdpspectral.covariance.factorizations.factorize`.
    method : {"jme", "ime", "cs", "pp", "pp-debiased"}, default="jme"
        "jme": both moments by their joint sensitivity. The others are there for
        comparison, with the same guarantee: "ime" splits the budget, "cs" bounds the
        norm of both together, "pp" squares noisy rows, "pp-debiased" takes off what
        the noise adds to the squares.
    moment_weight : "free", "trace-split" or float, default="free"
        Weight of the second moment. "free": the largest one that leaves the mean as
        accurate as if it were released alone. "trace-split": the same with a larger
        weight for the trace. A number: for "jme" and "cs" the weight :math:`\lambda`
        beside the mean, in data units to the power -2; for "ime" the share in (0, 1)
        of :math:`\mu^2` that the mean gets, 1/2 by default.
    second_moment : {"full", "diag"}, default="full"
        Whether products of different features are released; with "diag" the
        covariance is diagonal.
    center : {"private", "none"}, default="private"
        "private": the mean is released too, and taken off. "none": it is taken to be
        zero, and the whole budget spent on the second moment; for ``method="jme"``.
    whiten : bool, default=False
        Whether :meth:`transform` multiplies by the root of the precision; otherwise
        it subtracts the mean.
    min_eigenvalue : float, default=1e-6
        Least eigenvalue of `covariance_`, in units of ``clip_norm**2``.
    on_horizon : {"raise", "restart"}, default="raise"
        What happens to rows beyond `horizon`. "restart": fresh noise for as many
        steps again, at no further cost, for no row is in two blocks; sums then carry
        the noise of all blocks.
    {accountant}
        A stream needs one to be copied or pickled before it has ended.
    {noise_seed}

    Attributes
    ----------
    location_ : ndarray of shape (n_features,)
        Weighted mean of the clipped rows; zero with ``center="none"``.
    covariance_ : ndarray of shape (n_features, n_features)
        Weighted covariance of the clipped rows, without the bias of the noise (but
        for "pp"), projected to eigenvalues of at least `min_eigenvalue` and a trace of
        at most ``clip_norm**2``.
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
    DPPCA : Principal components of rows that are all there.

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

    **The state of a stream is secret** (:ref:`streams`): whoever reads a pickle of it
    can take the noise off later releases. It never holds exact rows. :meth:`publish`
    gives a copy without it.

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

    _array_parameters: ClassVar[tuple[str, ...]] = ("workload", "factorization")
    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "clip_norm": [Interval(Real, 1e-60, 1e60, closed="both")],
        "horizon": [Interval(Integral, 1, MOST_STEPS, closed="both"), None],
        "workload": [
            StrOptions({"average", "prefix"}),
            Average,
            Prefix,
            Window,
            Exponential,
            "array-like",
        ],
        "factorization": [StrOptions(set(NAMES)), BISR, "array-like"],
        "method": [StrOptions({"jme", "ime", "cs", "pp", "pp-debiased"})],
        "moment_weight": [
            StrOptions({"free", "trace-split"}),
            Interval(Real, 1e-60, 1e60, closed="both"),
        ],
        "second_moment": [StrOptions({"full", "diag"})],
        "center": [StrOptions({"private", "none"})],
        "whiten": ["boolean"],
        "min_eigenvalue": [Interval(Real, 1e-12, 1, closed="both")],
        "on_horizon": [StrOptions({"raise", "restart"})],
    }

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-6,
        *,
        clip_norm=1.0,
        horizon=None,
        workload="average",
        factorization="blt",
        method="jme",
        moment_weight="free",
        second_moment="full",
        center="private",
        whiten=False,
        min_eigenvalue=1e-6,
        on_horizon="raise",
        accountant=None,
        noise_seed=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.clip_norm = clip_norm
        self.horizon = horizon
        self.workload = workload
        self.factorization = factorization
        self.method = method
        self.moment_weight = moment_weight
        self.second_moment = second_moment
        self.center = center
        self.whiten = whiten
        self.min_eigenvalue = min_eigenvalue
        self.on_horizon = on_horizon
        self.accountant = accountant
        self.noise_seed = noise_seed

    # -- what a stream will release ------------------------------------------------

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
        return self._plan(self._moment_stream(n_samples, n_features))

    def _plan(self, moments: MomentStream) -> PrivacyPlan:
        epsilon, mu = self._budget()
        mechanisms = moments.plan(mu)
        check_shaping(*mechanisms, moments.factorization)
        return PrivacyPlan(
            epsilon=epsilon,
            delta=float(self.delta),
            mechanisms=mechanisms,
            estimator=type(self).__name__,
            seeded=self.noise_seed is not None,
        )

    def _moment_stream(self, n_samples: int | None, n_features: int) -> MomentStream:
        """Return what is released, or an error about parameters."""
        workload = make_workload(self.workload)
        n_steps = count_steps(workload, self.factorization, self.horizon, n_samples)
        self._check_combination(workload)
        if n_samples is not None:
            self._check_horizon(n_steps, 0, n_samples)
        return MomentStream(
            n_features,
            clip_norm=self.clip_norm,
            method=self.method,
            moment_weight=self.moment_weight,
            second_moment=self.second_moment,
            center=self.center,
            workload=workload,
            factorization=make_factorization(workload, self.factorization, n_steps),
            n_steps=n_steps,
            renewed=self.on_horizon == "restart",
        )

    def _check_combination(self, workload) -> None:
        if self.center == "none" and self.method != "jme":
            raise ValueError(
                f'method="{self.method}" is about two moments: with center="none" '
                'leave method="jme"'
            )
        if self.on_horizon == "raise":
            return
        if workload.name in ("custom", "window"):
            raise ValueError(
                f'on_horizon="restart" is not for workload={workload}: an array ends '
                'with its rows, and a window needs no horizon with "blt"'
            )
        if self.horizon is None:
            raise ValueError(
                'on_horizon="restart" needs horizon: the number of steps after which '
                "fresh noise begins"
            )

    def _check_horizon(self, last: int | None, seen: int, more: int) -> None:
        """Refuse rows for which no noise was planned."""
        if last is None or self.on_horizon == "restart":
            return
        if seen + more > last:
            raise ValueError(
                f"X has {more} rows after {seen}, but the horizon is {last} steps: "
                'choose a larger horizon, or on_horizon="restart"'
            )

    # -- the estimator -----------------------------------------------------------------

    @with_callbacks
    def fit(self, X, y=None):
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
            private = self._is_private()
            with FitProgress(
                self, n_blocks, private=private, verbose=False
            ) as progress:
                # It is charged here, and values are read from here on.
                run, X = self._begin(
                    rows.shape[0], features, rows, levels=1 + CALLBACK_LEVELS
                )
                progress.begin(X, y)
                with contextlib.closing(run):
                    for number, moments in enumerate(run.path(X), 1):
                        last = moments
                        progress.step(number)
                self._keep(run, last)
                self.__dict__.pop("_stream", None)
                progress.end()
        return self

    @available_if(_can_stream)
    def partial_fit(self, X, y=None):
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
            If a parameter or X is invalid, or the horizon is passed, or parameters
            were changed since the stream began, or if a value of X is, as NaN; the
            stream stays where it is, and what was charged for it stays charged.
        {no_budget}
        LedgerError
            If a copy of this stream has gone further; if that one is lost, see
            :meth:`resume`.
        RuntimeError
            If the stream has ended, a step of it failed, or this is a forked copy.
        """
        with self._unchanged_on_error():
            self._check_parameters()
            run = getattr(self, "_stream", None)
            rows, features = self._form(X, run)
            if run is None:
                self._check_first_batch(rows.shape)
                (run,) = self._begin(None, features)
                self._stream = run
            self._check_unchanged(run)
            self._check_horizon(run.n_steps, run.step, rows.shape[0])
        # A stream that has begun stays begun, whatever the values are: it is paid.
        with self._unchanged_on_error():
            X = rows.read()
            self._latest = object()
            moments, n_lost = run.push(X)
            self._keep(run, moments, n_lost)
        return self

    def _check_first_batch(self, shape: tuple[int, int]) -> None:
        moments = self._moment_stream(None, shape[1])
        self._check_horizon(moments.n_steps, 0, shape[0])

    @available_if(_can_stream)
    def resume(self):
        """Go on with a stream of which a later copy is lost, where that one ended.

        For a pickle that is older than the last batch, as after a crash. The noise of
        the steps since then was used, or may have been: it is drawn and thrown away.
        What was released at these steps is not in this copy, so that moments are
        those of the other rows from then on, `n_samples_lost_` fewer than there were
        steps; moments of a window begin anew. **The rows of these steps must not be
        given again**: they have had their step. The next row is that of step
        ``n_samples_seen_ + 1``.

        Returns
        -------
        self : object
            The estimator, with the same moments; `n_samples_seen_` and
            `n_samples_lost_` are those of the ledger.

        Raises
        ------
        LedgerError
            If the ledger is behind this copy, or does not know the stream.
        NotFittedError
            If no stream was begun, or it was ended by :meth:`fit`.
        RuntimeError
            If a step of this very copy failed: load a pickle.
        ValueError
            If there is no accountant, parameters were changed since the stream began,
            or a workload given as an array weighs the rows of the gap alone.
        """
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
            counts = {"n_samples_seen_": run.step, "n_samples_lost_": run.n_lost}
            self.__dict__.update(counts)
        return self

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
            Named tuples (step, location, covariance).

        Raises
        ------
        {invalid_data}
        {no_budget}
        """
        every = check_count("every", every)
        with self._unchanged_on_error():
            self._check_parameters()
            rows, features = self._form(X)
            run, X = self._begin(rows.shape[0], features, rows)
            self._latest = mark = object()
        return self._path(X, every, run, mark)

    def _path(self, X, every: int, run, mark) -> Iterator[MomentRelease]:
        """Walk along a stream of its own; `mark` says whether it is the latest fit."""
        with contextlib.closing(run):
            for moments in run.path(X):
                due = (moments.steps % every == 0) | (moments.steps == len(X))
                places = np.flatnonzero(due)
                if len(places):
                    _, _, means, covariances = self._moments_at(moments, places)
                    steps = moments.steps[places].tolist()
                    yield from map(MomentRelease, steps, means, covariances)
        if getattr(self, "_latest", None) is mark:
            self._keep(run, moments)
            self.__dict__.pop("_stream", None)

    # -- a stream under way ------------------------------------------------------------

    def _form(self, X, run: MomentRun | None = None) -> tuple[Unread, dict]:
        """Check the form of rows, of a fit or a stream under way; change nothing.

        Fits on one object may overlap, and a path may be left: what belongs to a fit
        comes into the estimator at its end, all at once.
        """
        reader = object.__new__(type(self))
        reader.__dict__.update(self.__dict__)
        for name in _FEATURES:
            reader.__dict__.pop(name, None)
        if run is not None:
            reader.__dict__.update(run.features)
        rows = unread_rows(reader, X, reset=run is None)
        found = vars(reader)
        return rows, {name: found[name] for name in _FEATURES if name in found}

    def _begin(
        self, n_samples: int | None, features: dict, *unread, levels: int = 0
    ) -> tuple:
        """Plan and charge a stream by its public shape, then read its rows."""
        moments = self._moment_stream(n_samples, features["n_features_in_"])
        plan = self._plan(moments)
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

    def _moments_at(self, moments: Moments, places) -> tuple[np.ndarray, ...]:
        """Return moments of chosen steps, with covariances that are covariances."""
        first, second, mean, covariance = moments.at(places)
        unit = float(self.clip_norm) ** 2
        floor = float(self.min_eigenvalue) * unit
        return first, second, mean, project_covariance(covariance, floor, unit)

    def _keep(self, run: MomentRun, moments: Moments, n_lost: int = 0) -> None:
        """Take over what a stream gave last, all of it at once."""
        first, second, mean, covariance = self._moments_at(moments, [-1])
        if "feature_names_in_" not in run.features:
            self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(
            run.features,
            first_moment_=first[0],
            second_moment_=second[0],
            location_=mean[0],
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
            if name not in _FREE_PARAMETERS
        }

    def _check_unchanged(self, run: MomentRun) -> None:
        """Refuse parameters that differ from those that the stream was charged with."""
        for name, value in self._fixed_parameters().items():
            if not same_value(value, run.parameters[name]):
                raise ValueError(
                    f"{name} was changed while the stream runs; set it back, or clone "
                    "the estimator to begin a new stream"
                )

    def __sklearn_is_fitted__(self):
        return hasattr(self, "covariance_")
