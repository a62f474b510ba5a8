"""Principal components of rows that lie with several clients."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np

from .._base.documented import documented
from .._base.estimator import unweighted
from .._base.sklearn_compat import Interval, StrOptions
from .._tables.ids import refuse_masked
from ._federated_estimator import FederatedEstimator
from ._federated_rounds import Rounds
from ._federated_task import SpectralTask, make_task
from ._mechanism import CLIP_RANGE, MECHANISMS, SpikedModel, name_of


@documented
class FederatedDPPCA(FederatedEstimator):
    r"""Differentially private principal components of rows of several clients.

    Every client releases components of its own rows, as :class:`~skdpspectral.DPPCA`
    does, under its own budget; a server that needs no trust makes one subspace of
    them. The guarantee holds for any data, unless ``mechanism=SpikedModel(...)`` is
    asked for. Read more in the :ref:`user guide <guide_federated>`.

    Parameters
    ----------
    n_components : int, default=2
        Number of components r, at most ``n_features`` and the rows of any client.
    {epsilon_of_clients}
    {delta_of_clients}
    mechanism : {"gaussian", "two-stage", "auto"} or object, default="gaussian"
        How clients release components, each by itself, as in
        :class:`~skdpspectral.DPPCA`: a name or an object such as
        :class:`~skdpspectral.decomposition.TwoStage`. The `noise_variance` of a
        :class:`~skdpspectral.decomposition.Gaussian` is for :meth:`get_covariance`.
    aggregation : {"projector", "matrix"}, default="projector"
        What clients send: "projector" their components, p r numbers; "matrix" the
        whole noisy second moment, or the noisy projector of a model, p (p + 1) / 2
        numbers, which is better where many clients are each too weak to see a
        direction. "two-stage" and "auto" have no one matrix to send.
    {weights}
    release : {"components", "covariance"}, default="components"
        "covariance" also releases the covariance within the components: clients
        answer once more, with 15 % of their :math:`\mu^2`, half of it with a model.
    projection_norm : float or None, default=None
        Public length, in units of the data, that projections on the components are
        clipped to for the covariance; needed for it, but with a model, which clips
        nothing. Some 3.3 times the root of the sum of the variances along the
        components is a good choice.
    eigengap : float or None, default=None
        Public gap between the r-th and the next eigenvalue of the bounded rows' second
        moment, for the weights of "gaussian". None takes it from the released
        eigenvalues.
    init : "private" or array of shape (n_components, n_features), default="private"
        Public rows that span the components, as from another table: clients release
        nothing but the covariance within them, with all of the budget, and
        ``release="covariance"`` is needed. They must be linearly independent.
    {client_feature}
    {min_clients}
    {bounds}
    {clip_norm}
    {scale}
    {center}
        Each client has a private mean of its own, which removes offsets between them.
    {whiten}
        by ``release="covariance"``, with "gaussian" and its `noise_variance` or another
        mechanism, or by ``aggregation="matrix"`` with "gaussian" and a `clip_norm`.
    {n_jobs}
        They share the clients: a gain for clients of many rows.
    {accountant}
        A fit has one entry a client.
    {noise_seed}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, leading first; the largest entry of each is positive. A
        column of clients is not among the features.
    explained_variance_ : ndarray of shape (n_components,)
        Variances along the components, in squared units of the data (of the scaled
        features with ``scale="bounds"``), with ``release="covariance"``; without it
        those of the averaged second moment, with "gaussian" and
        ``aggregation="matrix"``: in units of the data with a `clip_norm`, else of unit
        rows.
    noise_variance_ : float
        Variance across the components, in units of the data: the public one of the
        mechanism, or the clients' private ones in the middle; with "gaussian" that of
        the averaged second moment of clipped rows, if there is one.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `explained_variance_` over the variance in all directions, where both of the
        above are known, and for the averaged second moment of unit rows.
    {singular_values_}
        That is each client's own.
    mean_ : ndarray of shape (n_features,)
        Mean of the clients' centers by their numbers of rows, in the units of the
        data. (Clients with offsets should subtract their own from rows to transform.)
    {scale_}
    {clients_}
    client_weights_ : ndarray of shape (n_clients,)
        Their weights, with sum 1; None with an `init`.
    {rejected_}
    {n_components_}
    n_samples_ : int
        Number of rows of all clients.
    {n_features_in_}
        A column of clients is one of them.
    {feature_names_in_}
    {privacy_of_clients}

    See Also
    --------
    DPPCA : The same for rows in one place.
    SparseDPPCA : Few features in all components, by rounds between clients and server.
    skdpspectral.federation : The parts, for clients that are elsewhere. `from_result`
        makes this estimator of what they release.

    Notes
    -----
    **Formal guarantee.** All that leaves client j is (`epsilon_j`, `delta_j`)-
    differentially private for one row of this client, under replacement of the row
    within the client; which clients there are and how many rows each has is public. It
    holds against the server and all other clients. Rows of different clients are
    disjoint, which is checked, so that one fit costs what its dearest client costs. A
    person with rows at two clients is protected by the root of the sum of both
    squared :math:`\mu` alone. With :class:`~skdpspectral.decomposition.SpikedModel` the
    guarantee is for rows of the stated law alone; clients with too few rows for it are
    refused by name.

    Client j of the default sends the top r eigenvectors :math:`U_j` of its noisy
    second moment, by value; the server takes the top r of :math:`\sum w_j U_j U_j'`
    with :math:`w_j` one over the expected squared error of the client, from public
    numbers and released variances (:ref:`lemma-weights`). The error is then that of the
    harmonic mean of the clients' over their number.

    References
    ----------
    Li, Cai, Xia and Zhang (2024), Federated PCA and estimation for spiked covariance
    matrices: optimal rates and efficient algorithm, algorithm 1 with weights of
    theorem 1; its noise is that of a ``SpikedModel`` with ``calibration="paper"``.
    The default's noise is that of Dwork, Talwar, Thakurta and Zhang (2014).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import FederatedDPPCA
    >>> from skdpspectral.datasets import make_spiked_covariance
    >>> X, components = make_spiked_covariance(40_000, 10, random_state=0)
    >>> clients = np.repeat(["north", "east", "south", "west"], 10_000)
    >>> budgets = {"north": 0.1, "east": 0.5, "south": 0.5, "west": 1.0}
    >>> pca = FederatedDPPCA(n_components=1, epsilon=budgets).fit(X, clients=clients)
    >>> bool(abs(components[0] @ pca.components_[0]) > 0.99)
    True
    >>> bool(pca.client_weights_[0] < pca.client_weights_[3])
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **FederatedEstimator._federated_constraints,
        "mechanism": MECHANISMS,
        "aggregation": [StrOptions({"projector", "matrix"})],
        "release": [StrOptions({"components", "covariance"})],
        "projection_norm": [CLIP_RANGE, None],
        "eigengap": [Interval(Real, 1e-60, 1e120, closed="both"), None],
        "init": [StrOptions({"private"}), tuple, list, np.ndarray],
    }
    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds", "weights", "init")

    def __init__(
        self,
        n_components=2,
        *,
        epsilon=1.0,
        delta=1e-6,
        mechanism="gaussian",
        aggregation="projector",
        weights="optimal",
        release="components",
        projection_norm=None,
        eigengap=None,
        init="private",
        client_feature=None,
        min_clients=1,
        bounds=None,
        clip_norm=None,
        scale=None,
        center="auto",
        whiten=False,
        n_jobs=None,
        accountant=None,
        noise_seed=None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.aggregation = aggregation
        self.weights = weights
        self.release = release
        self.projection_norm = projection_norm
        self.eigengap = eigengap
        self.init = init
        self.client_feature = client_feature
        self.min_clients = min_clients
        self.bounds = bounds
        self.clip_norm = clip_norm
        self.scale = scale
        self.center = center
        self.whiten = whiten
        self.n_jobs = n_jobs
        self.accountant = accountant
        self.noise_seed = noise_seed

    def _why_no_variances(self) -> str | None:
        """Say why a fit does not know all variances of the data; None if it does."""
        covariance, noise = self.release == "covariance", self._public_noise()
        plain = name_of(self.mechanism)[0] == "gaussian"
        whole = plain and self.aggregation == "matrix" and self.clip_norm is not None
        if whole or (covariance and (noise is not None or not plain)):
            return None
        if not covariance:
            return (
                'release="components" releases none; set release="covariance", or both '
                'aggregation="matrix" and a clip_norm'
            )
        return (
            'mechanism="gaussian" releases none across the components; set '
            'mechanism=Gaussian(noise_variance), mechanism="two-stage", or both '
            'aggregation="matrix" and a clip_norm'
        )

    def _public_noise(self) -> float | None:
        noise = name_of(self.mechanism)[1].noise_variance
        return None if noise is None or isinstance(noise, str) else float(noise)

    def _task(self, n_features: int) -> SpectralTask:
        length, spiked = self.projection_norm, isinstance(self.mechanism, SpikedModel)
        covariance = self.release == "covariance"
        if not spiked and covariance != (length is not None):
            raise ValueError(
                'projection_norm is needed for release="covariance", and for nothing '
                "else: give both or none"
            )
        refuse_masked(self.init, "init")
        own = isinstance(self.init, str)
        if not own and (length is None or self.eigengap is not None):
            raise ValueError(
                'init with public rows needs release="covariance" with a '
                "projection_norm, and has no use for an eigengap"
            )
        return make_task(
            self.n_components,
            n_features,
            bounds=self.bounds,
            clip_norm=self.clip_norm,
            scale=self.scale,
            center=self.center,
            aggregation=self.aggregation,
            projection_norm=length,
            mechanism=self.mechanism,
            model_covariance=covariance and spiked,
            start=own,
        )

    def _rounds(self, server) -> Rounds:
        """Return all steps of the server, from private or from public components."""
        return Rounds(server, init=None if isinstance(self.init, str) else self.init)

    @unweighted
    def fit(self, X, y=None, *, clients=None):
        """Release one subspace for the rows of all clients.

        Parameters
        ----------
        {X_of_clients}
        {y_ignored}
        {clients}

        {outcome_of_fit}
        {no_clients}
        """
        with self._unchanged_on_error():
            self._hold_session(X, clients)
        return self

    def _set_result(self, result) -> None:
        super()._set_result(result)
        self.client_weights_ = result.weights
