"""Methods that take the rows of a stream: at once, in batches, or along a path."""

from __future__ import annotations

import contextlib
import copy
import functools
import types
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, unweighted
from .._base.sklearn_compat import (
    CALLBACK_LEVELS,
    CallbackSupportMixin,
    FitProgress,
    with_callbacks,
)
from .._base.strategies import same_value, snapshot
from .._release.release import NonReentrantLock
from .._release.streams import StreamRelease
from .._tables.rows import DeferredRead, deferred_rows
from ..factorizations._choices import HorizonError, check_batches, check_horizon
from ..mechanisms._relations import check_count
from ._moment_stream import BLOCK_STEPS, MomentStream
from ._moment_sums import StreamMoments


class MomentRun:
    """One charged stream; it belongs to the call, or the estimator, that began it.

    One thread at a time uses it, and copies and pickles hold a whole number of batches.
    `features` are the fitted attributes about columns, and `parameters` those that must
    not change.
    """

    def __init__(
        self, moments: MomentStream, release, features: dict, parameters: dict
    ):
        self._moments, self._release, self.plan = moments, release, release.plan
        self._sums = moments.begin(release.plan)
        self.features, self.parameters = features, parameters
        self._thread_lock = NonReentrantLock()

    def __getstate__(self):
        self._release.check_process()
        with self._thread_lock.hold():
            state = self.__dict__.copy()
            # The pickler comes later, when another batch may be under way.
            for part in ("_release", "_sums"):
                state[part] = copy.deepcopy(state[part])
        del state["_thread_lock"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._thread_lock = NonReentrantLock()

    @property
    def n_steps(self) -> int | None:
        """Number of steps that noise is planned for; None for any number."""
        return self._moments.n_steps

    @property
    def step(self) -> int:
        """Number of steps so far, those of a gap included."""
        return self._sums.step

    @property
    def n_lost(self) -> int:
        """Number of steps that the sums do not have."""
        return self._sums.n_lost

    def path(self, X) -> Iterator[StreamMoments]:
        """Claim a step for each row, and yield the moments of block after block."""
        return self._moments.run(self._release, X, self._sums)

    def push(self, X) -> tuple[StreamMoments, int]:
        """Release rows; return the moments of the last of them, and what was lost."""
        self._release.check_process()
        with self._thread_lock.hold():
            for moments in self.path(X):
                last = moments
            return last.of_last_step(), self.n_lost

    def resume(self) -> None:
        """Skip to the position of the stream in the ledger."""
        self._release.check_process()
        with self._thread_lock.hold():
            self._sums.skip(self._release.resume() - self._sums.step)

    def close(self) -> None:
        """End the stream."""
        self._release.close()


_FEATURES = ("n_features_in_", "feature_names_in_")


class MomentRelease(NamedTuple):
    """The released moments of a stream at a step.

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


@documented
class StreamEstimator(CallbackSupportMixin, PrivateEstimator):
    """Base of estimators of the moments of a stream.

    A subclass has the parameters `horizon` and `on_horizon`, and three methods:
    ``_moment_stream(n_samples, n_features)`` returns the private statistic,
    ``_choices()`` its workloads and factorizations, and ``_released(moments, places)``
    the post-processed moments.
    """

    # Parameters that may change while a stream runs: they affect post-processing only.
    _free_parameters: ClassVar[set[str]] = {"accountant", "noise_seed"}

    # -- at once -------------------------------------------------------------------

    @with_callbacks
    @unweighted
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

    # -- in batches ----------------------------------------------------------------

    @_InBatches
    @unweighted
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
                self._check_horizon(run.n_steps, run.step, rows)
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
            counts = {"n_samples_seen_": run.step, "n_samples_lost_": run.n_lost}
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

    # -- along a path --------------------------------------------------------------

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
                    steps = moments.steps[places].tolist()
                    yield from map(MomentRelease, steps, means, covariances)
        if getattr(self, "_latest", None) is mark:
            self._keep(run, moments)
            self.__dict__.pop("_stream", None)

    # -- a stream under way --------------------------------------------------------

    def _form(self, X, run: MomentRun | None = None) -> tuple[DeferredRead, dict]:
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


def _quietly(steps: Iterator) -> Iterator:
    """Yield the steps, ignoring errors of arithmetic in each."""
    while True:
        with np.errstate(all="ignore"):
            step = next(steps, None)
        if step is None:
            return
        yield step
