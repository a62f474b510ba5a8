"""Principal components with few features, by rounds between clients and server."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

from .._base.documented import documented
from .._base.estimator import Seed
from .._base.sklearn_compat import Interval, StrOptions
from ..accounting import PrivacyAccountant
from ._federated_pca import FederatedEstimator


@documented
class SparseDPPCA(FederatedEstimator):
    r"""Differentially private PCA with components that share a few features.

    This is a truncated power iteration. In every round each client releases the product
    of its second moment and the current components, so noise is added to p r numbers
    rather than a p x p matrix. The server averages these products, keeps the most
    important features, and sends the result back. The guarantee holds for any data.
    Read more in the :ref:`user guide <guide_federated>`.

    Parameters
    ----------
    n_components : int, default=1
        Number of components r, at most ``n_features`` and the rows of any client.
    {epsilon_of_clients}
        This covers all rounds together.
    {delta_of_clients}
    n_nonzero_features : int or None, default=None
        Number of features that the components use jointly, at least `n_components`.
        None keeps all features.
    n_rounds : int, default=1
        Number T of rounds after the start, which share the budget. One round is best
        after a private start, and a few rounds after a public start.
    init : "private" or array-like of shape (n_components, n_features)
        Initial components. "private" computes them from a noisy second moment, which
        takes the share of one round. An array contains public, linearly independent
        rows, which are orthonormalized.
    aggregation : {"matrix", "projector"}, default="matrix"
        Content of the clients' messages for the private start. "matrix": the noisy
        second moment, p (p + 1) / 2 numbers, whose noise averages out over clients.
        "projector": its components, p r numbers, which are only noise if a client has
        too few rows.
    {min_clients}
    {weights}
    {client_feature}
    {bounds}
    {center}
        "shared" is not available here.
    {accountant}
        Each fit adds one entry per client.
    {noise_seed}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, leading first, zero outside the features of `support_`.
    support_ : ndarray of bool of shape (n_features,)
        Mask of the features that the components use, released directly.
    explained_variance_ : ndarray of shape (n_components,)
        Singular values of the average of the last round. They estimate the variances
        along the components of rows scaled to unit norm, with an upward bias due to
        noise.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `explained_variance_` divided by the variance in all directions, which is only
        known with a private start from "matrix".
    mean_ : ndarray of shape (n_features,)
        Mean of the clients' centers, weighted by their rows, in the units of the data.
    {clients_}
    {rejected_}
    {n_components_}
    n_rounds_, n_samples_ : int
        Number of rounds, and total number of rows of all clients.
    {n_features_in_}
        This includes the column of clients, if any.
    {feature_names_in_}
    {privacy_of_clients}

    See Also
    --------
    FederatedDPPCA : Components that may use all features, in one round.

    Notes
    -----
    **Formal guarantee.** All messages of client j in all rounds together are
    (`epsilon_j`, `delta_j`)-differentially private for one row of this client, under
    replacement of the row within the client, whatever basis the server sends. The set
    of clients and their numbers of rows are public. One fit costs as much as its most
    expensive client, because clients' rows are disjoint, which is checked.

    Rows have norm at most 1. For Q with orthonormal columns the product :math:`S Q` has
    sensitivity :math:`\sqrt2 / n`, or :math:`1 / n` for one column
    (:ref:`lemma-power-product`). A client orthonormalizes every basis that it receives.
    The rounds and the private start share :math:`\mu^2` equally.

    References
    ----------
    Ge, Wang, Wang and Liu (2018), Minimax-optimal privacy-preserving sparse PCA in
    distributed systems, algorithm 1; our sensitivities and noise are derived anew.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpspectral import SparseDPPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 50))
    >>> X[:, :5] += 1.5 * rng.normal(size=(20_000, 1))
    >>> pca = SparseDPPCA(n_nonzero_features=5, epsilon=1.0).fit(X)
    >>> np.flatnonzero(pca.support_).tolist()
    [0, 1, 2, 3, 4]
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds", "init")

    _parameter_constraints: ClassVar[dict] = {
        **FederatedEstimator._federated_constraints,
        "n_nonzero_features": [Interval(Integral, 1, None, closed="left"), None],
        "n_rounds": [Interval(Integral, 1, 1000, closed="both")],
        "init": [StrOptions({"private"}), "array-like"],
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        epsilon: float | Mapping[Any, float] | None = 1.0,
        delta: float | Mapping[Any, float] = 1e-6,
        n_nonzero_features: int | None = None,
        n_rounds: int = 1,
        init="private",
        aggregation="matrix",
        min_clients: int = 1,
        weights="optimal",
        client_feature: int | str | None = None,
        bounds=None,
        center="auto",
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.n_nonzero_features = n_nonzero_features
        self.n_rounds = n_rounds
        self.init = init
        self.aggregation = aggregation
        self.min_clients = min_clients
        self.weights = weights
        self.client_feature = client_feature
        self.bounds = bounds
        self.center = center
        self.accountant = accountant
        self.noise_seed = noise_seed
