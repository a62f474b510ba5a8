"""Joint moment estimation: mean and covariance of a stream, at every step."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.sklearn_compat import Interval, StrOptions
from ..factorizations._choices import Choices, plan_noise
from ..factorizations._workloads import MOST_STEPS
from ..mechanisms._relations import check_count
from ._kernels import project_covariance
from ._moment_stream import MomentStream
from ._moment_sums import CovarianceModel, StreamMoments
from ._moments import (
    FACTORIZATIONS,
    MOMENTS,
    WORKLOADS,
    as_strategy,
    check_moments,
)
from ._stream_estimator import StreamEstimator

# Least eigenvalue by default: in units of the noise of an entry off the diagonal, and
# in squared clip norms where there is less noise.
_FLOOR, _LEAST = 2.0, 1e-6


@documented
class JMECovariance(CovarianceModel, StreamEstimator):
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

    _free_parameters = StreamEstimator._free_parameters | {"min_eigenvalue", "whiten"}
    _array_parameters: ClassVar[tuple[str, ...]] = (
        "workload",
        "factorization",
    )
    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "clip_norm": [Interval(Real, 1e-60, 1e60, closed="both")],
        "horizon": [Interval(Integral, 1, MOST_STEPS, closed="both"), None],
        "workload": WORKLOADS,
        "factorization": FACTORIZATIONS,
        "moments": MOMENTS,
        "whiten": ["boolean"],
        "min_eigenvalue": [
            Interval(Real, 1e-12, 1, closed="both"),
            StrOptions({"auto"}),
        ],
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
        moments="jme",
        whiten=False,
        min_eigenvalue="auto",
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
