"""Principal components of rows that lie with several clients."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.sklearn_compat import Interval, StrOptions
from .._statistics.components.mechanism import name_of
from .._statistics.components.strategies import SpikedModel
from ..federation import SpectralTask, make_task
from ._constraints import CLIP_RANGE, MECHANISMS
from ._federated_estimator import FederatedEstimator


def _has_covariance(estimator) -> bool:
    """Whether a covariance is released, and the variance beside it is known."""
    if estimator.release != "covariance":
        return False
    name, strategy = name_of(estimator.mechanism)
    return name != "gaussian" or strategy.noise_variance is not None


class FederatedDPPCA(FederatedEstimator):
    r"""Differentially private principal components of rows of several clients.

    Every client releases components of its own rows, as :class:`~skdpspectral.DPPCA`
    does, under its own budget; a server that needs no trust makes one subspace of
    them. The guarantee holds for any data, unless a model of them is asked for, by
    ``mechanism=SpikedModel(...)``.

    Parameters
    ----------
    n_components : int, default=2
        Number of components r, at most ``n_features`` and the rows of any client.
    epsilon : float, mapping of client to float, or None, default=1.0
        Privacy budget of each client, positive: one for all, or one for each by id.
        None (or infinity) switches privacy off, with a
        :class:`~skdpspectral.PrivacyLeakWarning`.
    delta : float or mapping of client to float, default=1e-6
        Privacy budget in [1e-15, 1); it should be well below one over the rows of a
        client.
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
    weights : {"optimal", "equal"}, default="optimal"
        "optimal": one over the expected squared error of each client, from rows,
        noise, and released or public variances. "equal" is for comparisons.
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
    client_feature : int, str or None, default=None
        Column of X that holds the client of every row; it is no feature. Without it,
        and without `clients` in ``fit``, all rows are those of one client.
    min_clients : int, default=1
        How many clients must have answered validly for a result.
    bounds, clip_norm, scale, center
        As in :class:`~skdpspectral.DPPCA`, the same for all clients. A private mean is
        each client's own, which removes offsets between clients.
    n_jobs : int or None, default=None
        Clients at a time, in threads, as in joblib: a gain for clients of many rows.
    accountant : PrivacyAccountant or None, default=None
        Ledger that every fit is charged to before it reads values, one entry a
        client. None takes that of the enclosing ``with`` block, if any.
    noise_seed : int, RandomState instance or None, default=None
        None draws noise from the operating system's entropy. **Anything else voids
        the privacy of the fit**, and is for tests and figures alone.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, leading first; the largest entry of each is positive. A
        column of clients is not among the features.
    explained_variance_ : ndarray of shape (n_components,)
        Variances along the components, in squared units of the data (of the scaled
        features with ``scale="bounds"``); with ``release="covariance"``.
    noise_variance_ : float
        Variance across the components, in the same units: the public one of the
        mechanism, or the clients' private ones in the middle; not with "gaussian"
        without the former.
    mean_ : ndarray of shape (n_features,)
        Mean of the clients' centers by their numbers of rows, in the units of the
        data. (Clients with offsets should subtract their own from rows to transform.)
    scale_ : ndarray of shape (n_features,) or None
        What features are divided by; None unless ``scale="bounds"``.
    clients_ : ndarray of str of shape (n_clients,)
        Names of the clients that are in the result.
    client_weights_ : ndarray of shape (n_clients,)
        Their weights, with sum 1.
    rejected_ : dict of str to str
        Clients that failed, and why.
    n_components_ : int
        Number of components.
    n_samples_ : int
        Number of rows of all clients.
    n_features_in_ : int
        Number of columns seen during fit, a column of clients included.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of columns, where all of them are strings.
    privacy_ : ParallelPlan
        One plan a client; as a plan of its own, that of the dearest.

    Raises
    ------
    ValueError
        If a parameter, the form of X, or clients are invalid; nothing is charged. If a
        value of X is, as NaN; the fit is charged (:ref:`limits`).
    PrivacyBudgetError
        If the accountant's budget does not suffice; nothing is charged.
    FederationError
        If fewer than `min_clients` clients are left; budgets are spent.

    See Also
    --------
    DPPCA : The same for rows in one place.
    SparseDPPCA : Few features in all components, by rounds between clients and server.
    skdpspectral.federation : The parts, for clients that are elsewhere.

    Notes
    -----
    **Formal guarantee.** All that leaves client j is (`epsilon_j`, `delta_j`)-
    differentially private for one row of this client, under replacement of the row
    within the client; which clients there are and how many rows each has is public. It
    holds against the server and all other clients. Rows of different clients are
    disjoint, which is checked, so that one fit costs what its dearest client costs. A
    person with rows at two clients is protected by the root of the sum of both
    squared :math:`\mu` alone.

    With :class:`~skdpspectral.decomposition.SpikedModel` the guarantee is for rows of
    the stated law alone; clients with too few rows for it are refused by name.
    ``privacy_`` says so, as a whole and for every client, and so does the ledger.

    Client j of the default sends the top r eigenvectors :math:`U_j` of its noisy
    second moment, by value; the server takes the top r of :math:`\sum w_j U_j U_j'`
    with :math:`w_j` proportional to :math:`1 / v_j`, to first order

    .. math:: v_j = r (p - r) \left( \frac{2 \lambda \beta}{n_j g^2}
       + \frac{s_j^2}{g^2} \right)

    for eigenvalues :math:`\lambda` along and :math:`\beta` across the components, gap
    :math:`g`, and noise of standard deviation :math:`s_j`; but never more than
    :math:`2 \min(r, p - r)`, the largest squared distance of two subspaces. The
    error is then that of the harmonic mean of the :math:`v_j` over the number of
    clients. With another mechanism clients send the variances that they released, or
    the public ones, and :math:`v_j` is its own expected squared error at their median.

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
    >>> pca = FederatedDPPCA(n_components=1, epsilon=1.0).fit(X, clients=clients)
    >>> abs(components[0] @ pca.components_[0]) > 0.99
    np.True_
    >>> budgets = {"north": 0.1, "east": 0.5, "south": 0.5, "west": 1.0}
    >>> pca = FederatedDPPCA(n_components=1, epsilon=budgets).fit(X, clients=clients)
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
    }

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
        client_feature=None,
        min_clients=1,
        bounds=None,
        clip_norm=None,
        scale=None,
        center="auto",
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
        self.client_feature = client_feature
        self.min_clients = min_clients
        self.bounds = bounds
        self.clip_norm = clip_norm
        self.scale = scale
        self.center = center
        self.n_jobs = n_jobs
        self.accountant = accountant
        self.noise_seed = noise_seed

    def _task(self, n_features: int) -> SpectralTask:
        length, spiked = self.projection_norm, isinstance(self.mechanism, SpikedModel)
        covariance = self.release == "covariance"
        if not spiked and covariance != (length is not None):
            raise ValueError(
                'projection_norm is needed for release="covariance", and for nothing '
                "else: give both or none"
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
        )

    def fit(self, X, y=None, *, clients=None):
        """Release one subspace for the rows of all clients.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_samples, n_columns)
            Rows of all clients in any order, all finite, and the clients' column if
            `client_feature` names one; never modified.
        y : None
            Ignored, present by convention.
        clients : array-like of shape (n_samples,) or None, default=None
            Hashable ids, one a row. With neither `clients` nor `client_feature` all
            rows are those of one client.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, the form of X, or clients are invalid; nothing is charged.
            If a value of X is, as NaN; the fit is charged (:ref:`limits`).
        PrivacyBudgetError
            If the accountant's budget does not suffice; nothing is charged.
        FederationError
            If fewer than `min_clients` clients are left; budgets are spent.
        """
        with self._unchanged_on_error():
            result = self._hold_session(X, clients)
            self.client_weights_ = result.weights
            public = name_of(self.mechanism)[1].noise_variance
            noise = result.noise_variance if public is None else float(public)
            found = {
                "explained_variance_": result.explained_variance,
                "noise_variance_": noise,
            }
            # They are new with every fit, or not there.
            for name, value in found.items():
                vars(self).pop(name, None)
                if value is not None:
                    setattr(self, name, value)
        return self

    @available_if(_has_covariance)
    def get_covariance(self):
        """Covariance of the rows, as a spiked one.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            The released variances along the components, and `noise_variance_` in all
            other directions; in squared units of the data (of the scaled features
            with ``scale="bounds"``).
        """
        check_is_fitted(self)
        beyond = self.explained_variance_ - self.noise_variance_
        spikes = (self.components_.T * beyond) @ self.components_
        return spikes + self.noise_variance_ * np.eye(len(spikes))
