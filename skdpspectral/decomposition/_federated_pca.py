"""Principal components of rows that lie with several clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed, Self, unweighted
from .._base.sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_progress,
)
from .._messages import MessageError
from .._release.noise import Coins
from .._tables.columns import UserDraw, UserRows, encode_ids
from .._tables.table import CLIENTS, deferred_users, read_users, users_of_rows
from ..accounting import PrivacyAccountant
from ..accounting._gaussian import check_delta
from ..mechanisms import (
    Concern,
    ParallelPlan,
    PrivacyPlan,
    Remark,
    Unit,
    check_count,
    check_real,
)
from ._federated_client import LocalClient, run_in_process
from ._federated_server import Rounds
from ._federated_task import Registration, SpectralTask
from ._pca import ComponentsMixin, ProjectionMixin
from ._spiked import LARGEST, SMALLEST, SpikedModel

# The client of all rows, where no clients are told apart.
ALL_ROWS = "all rows"


class Group(NamedTuple):
    """The rows of one client."""

    client: object
    name: str
    rows: slice | np.ndarray | list
    n_rows: int


def group_rows(ids, n_rows: int) -> list[Group]:
    """Divide rows among clients, in the order of their first rows."""
    if ids is None:
        return [Group(ALL_ROWS, ALL_ROWS, slice(0, n_rows), n_rows)]
    codes, n_clients = encode_ids(ids, CLIENTS.ids)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=n_clients)
    blocks = np.split(order, np.cumsum(counts)[:-1])
    _check_disjoint(blocks, n_rows)
    labels = ids if isinstance(ids, (list, tuple)) else np.asarray(ids)

    def found():
        for block in blocks:
            first, last = int(block[0]), int(block[-1])
            whole = last - first + 1 == len(block)
            rows = slice(first, last + 1) if whole else block
            yield labels[block[0]], rows, len(block)

    return _named(found())


def _by_user(groups: list[Group], users: UserRows) -> tuple[list, list]:
    """Return groups of as many rows as they have users, and these users."""
    owners = [UserRows(users.ids[group.rows]) for group in groups]
    if sum(map(len, owners)) != len(users):
        raise ValueError(
            "users: a user has rows at several clients, whose budgets add up for them: "
            "give each user to one client, or fit all rows as those of one client"
        )
    pairs = zip(groups, owners, strict=True)
    return [group._replace(n_rows=len(own)) for group, own in pairs], owners


def _named(clients) -> list[Group]:
    """Name clients by their ids; two ids of the same name are refused."""
    groups, seen = [], set()
    for label, rows, n_rows in clients:
        name = str(label)
        if name in seen:
            raise ValueError(
                f"clients: two different ids have the name {name!r}; use ids of one "
                "kind"
            )
        seen.add(name)
        groups.append(Group(label, name, rows, n_rows))
    return groups


def _check_disjoint(blocks, n_rows: int) -> None:
    """Raise unless every row is in exactly one block, as parallel composition needs."""
    times = np.bincount(np.concatenate(blocks), minlength=n_rows)
    if not (times == 1).all():
        raise RuntimeError("rows of clients are not disjoint")


def _by_name(parameter: str, given, groups: Sequence[Group]) -> dict[str, Any]:
    """Return values by names of clients: one for all, or those of a mapping."""
    names = {group.client: group.name for group in groups}
    if not isinstance(given, Mapping):
        return dict.fromkeys(names.values(), given)
    for client in (*given, *names):
        if client not in names:
            raise ValueError(
                f"{parameter} names the client {client!r}, which has no rows here"
            )
        if client not in given:
            raise ValueError(
                f"{parameter} has no entry for the client {str(names[client])!r}"
            )
    return {name: given[client] for client, name in names.items()}


def _remarked(plans: Mapping[str, PrivacyPlan], remark: Remark) -> ParallelPlan:
    """Return plans of clients as one, with a remark in each."""
    found = {n: replace(p, remarks=(*p.remarks, remark)) for n, p in plans.items()}
    return ParallelPlan.of(found)


_UNCHECKED = Remark(
    "The clients are separate: it is assumed, and was not checked, that no row is at "
    "two of them, that each has charged its ledger, and that none has a noise_seed.",
    Concern.TRUST,
)


@documented
@dataclass(eq=False, repr=False)
class FederatedEstimator(ProjectionMixin, CallbackSupportMixin, PrivateEstimator):
    """Base class of estimators whose clients release and a server aggregates."""

    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds",)
    _federated_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "epsilon": [Interval(Real, 0, None, closed="right"), Mapping, None],
        "delta": [Real, Mapping],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "weights": [StrOptions({"optimal", "equal"}), Mapping],
        "client_feature": [Integral, str, None],
        "min_clients": [Interval(Integral, 1, None, closed="left")],
        "bounds": [tuple, list, np.ndarray, None],
        "center": [StrOptions({"auto", "none", "pairs"})],
    }

    n_components: int = 2
    _: KW_ONLY
    epsilon: float | Mapping[Any, float] | None = 1.0
    delta: float | Mapping[Any, float] = 1e-6
    min_clients: int = 1
    weights: Any = "optimal"
    client_feature: int | str | None = None
    bounds: Any = None
    center: str = "auto"
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        # A column of ids: whole numbers, or strings.
        tags.input_tags.categorical = self.client_feature is not None
        return tags

    def _check_budget(self) -> None:
        for name in ("epsilon", "delta"):
            given = getattr(self, name)
            named = isinstance(given, Mapping)
            if named and not given:
                raise ValueError(f"{name} must name at least one client")
            for value in given.values() if named else [given]:
                if name == "delta":
                    check_delta(value)
                elif not named:
                    _ = self._is_private() and check_real(name, value)
                elif not 0.0 < check_real("epsilon of a client", value) < np.inf:
                    raise ValueError(
                        "epsilon of a client must be positive and finite, got "
                        f"{value!r}"
                    )

    def privacy_plan(self, n_samples, n_features):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int or mapping of client to int
            Number of rows of a single client, or of each client.
        n_features : int
            Number of features, without the column of clients.

        Returns
        -------
        ParallelPlan
            One plan per client. The overall cost is the highest cost of a client.

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        n_features = check_count("n_features", n_features)
        if not isinstance(n_samples, Mapping):
            n_samples = {ALL_ROWS: n_samples}
        if not n_samples:
            raise ValueError("n_samples must name at least one client")
        sized = {c: check_count("n_samples", n) for c, n in n_samples.items()}
        groups = _named((client, slice(0), n) for client, n in sized.items())
        return self._plan_of(self._open_rounds(groups, n_features))

    def plan_for(self, X, *, clients=None) -> ParallelPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        Parameters
        ----------
        {X_of_clients}
            Only the public shape and the public column of clients are used.
        {clients}

        Returns
        -------
        ParallelPlan
            The plans that this fit is charged for, one per client.

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        table = deferred_users(
            type(self)(), X, clients, self.client_feature, reset=True, names=CLIENTS
        )
        groups = group_rows(table.ids and table.ids(), table.shape[0])
        return self._plan_of(self._open_rounds(groups, table.shape[1]))

    def _task(self, n_features: int, weights="optimal") -> SpectralTask:
        """Return the task of a fit, whose clients have budgets of their own."""
        changed = {"epsilon": 1.0, "delta": 1e-6, "weights": weights}
        return SpectralTask(clone(self).set_params(**changed), n_features)

    def _open_rounds(self, groups: Sequence[Group], n_features: int) -> Rounds:
        """Return the session of a fit, before its first request."""
        weights, budget = self.weights, []
        for name in ("epsilon", "delta"):
            given = getattr(self, name)
            own = _by_name(name, np.inf if given is None else given, groups)
            budget.append([float(own[group.name]) for group in groups])
        if isinstance(weights, Mapping):
            weights = _by_name("weights", weights, groups)
        # Requested budgets: all parties make the plans from them.
        registered = {
            group.name: Registration(group.n_rows, *pair)
            for group, *pair in zip(groups, *budget, strict=True)
        }
        try:
            return Rounds(registered, self._task(n_features, weights))
        except MessageError as error:
            raise ValueError(f"clients: {error}") from None

    def _plan_of(self, rounds: Rounds, by_user: bool = False) -> ParallelPlan:
        own: dict[str, Any] = {"seeded": self.noise_seed is not None}
        own |= {"unit": Unit.USER, "one_row_each": True} if by_user else {}
        parties = rounds.parties.items()
        return ParallelPlan.of({n: replace(one.plan, **own) for n, one in parties})

    @unweighted
    def fit(self, X, y=None, *, clients=None, users=None) -> Self:
        """Release components of the rows of all clients.

        Parameters
        ----------
        {X_of_clients}
        {y_ignored}
        {clients}
        {users_of_rows}
            Each user is with one client, whose number of users is public.

        {outcome_of_fit}
        FederationError
            If fewer than `min_clients` clients remain. Their budgets are spent.
        """
        with self._unchanged_on_error():
            self._run_session(X, clients, users)
            self._warn_of_noise()
        return self

    def _run_session(self, X, clients, users=None) -> None:
        """Check, plan and charge all clients, and run all rounds of the task."""
        self._check_parameters()
        unread = deferred_users(
            self, X, clients, self.client_feature, reset=True, names=CLIENTS
        )
        # Which client has how many rows is public: it is read before the charge, and
        # nothing else is.
        groups = group_rows(unread.ids and unread.ids(), unread.shape[0])
        owners: list[UserRows] = []
        if users is not None:
            groups, owners = _by_user(groups, users_of_rows(users, unread.shape[0]))
        rounds = self._open_rounds(groups, unread.shape[1])
        task, plan = rounds.task, self._plan_of(rounds, users is not None)
        plans = dict(plan.blocks)
        worst = max(groups, key=lambda g: plans[g.name].delta * g.n_rows)
        self._warn_beforehand(worst.n_rows, plans[worst.name].delta)
        asked = {name: known.epsilon for name, known in rounds.registered.items()}
        any(self._warn_of_weaker(plans[name], asked[name]) for name in plans)
        with fit_progress(self, task.n_steps) as progress:
            self._charge(plans)
            table = unread.read()
            progress.begin(X, None, plan)
            seeds = [None] * len(groups)
            if self.noise_seed is not None:
                source = check_random_state(self.noise_seed)
                seeds = source.randint(2**62, size=len(groups), dtype=np.int64).tolist()
            members = {}
            for place, (_, name, rows, _) in enumerate(groups):
                own, seed = table.features(rows), seeds[place]
                if owners:
                    own = own[UserDraw(owners[place], Coins(seed)).rows()]
                given = np.ascontiguousarray(own), task, plans[name], asked[name], seed
                members[name] = LocalClient._charged(name, *given)
            self.n_samples_ = sum(group.n_rows for group in groups)
            self.privacy_ = plan
            run_in_process(rounds, members, progress.step)
            self._set_outcome(rounds.outcome())

    def _fitted_by(self, rounds: Rounds):
        """Return a fitted copy, of the releases of separate clients."""
        outcome, task, fitted = rounds.outcome(), rounds.task, clone(self)
        known = rounds.registered
        epsilon = {name: row.epsilon for name, row in known.items()}
        private = all(value not in (None, np.inf) for value in epsilon.values())
        delta = {name: row.delta for name, row in known.items()}
        fitted.set_params(epsilon=epsilon if private else None, delta=delta)
        plans = {name: party.plan for name, party in rounds.parties.items()}
        fitted.privacy_ = _remarked(plans, _UNCHECKED)
        fitted.n_samples_ = sum(row.n_samples for row in known.values())
        fitted.n_features_in_ = task.n_features
        if task.feature_names is not None:
            fitted.feature_names_in_ = np.array(task.feature_names, dtype=object)
        fitted._set_outcome(outcome)
        fitted._warn_of_noise()
        return fitted

    def _charge(self, plans) -> None:
        """Enter all clients in one entry; that no row is in two was checked."""
        accountant = self._governing_accountant()
        if accountant is not None:
            accountant.charge(ParallelPlan.of(plans))

    def _warn_of_noise(self) -> None:
        """Warn, and remark in all plans, of components that may be noise alone."""
        rank = self.n_components_
        above = getattr(self, "components_above_noise_", rank)
        if above >= rank:
            return
        averaged = self.aggregation == "matrix"
        said = f"Components above the noise of this fit: {above} of {rank}."
        if rank > 1 and not averaged:
            said = f"Not all of the {rank} components are above the noise."
        said += (
            " If features have different units, divide each by a public scale. Use "
            "more rows, a larger epsilon or fewer components"
        )
        if not averaged and len(self.clients_) > 1:
            said += ', or aggregation="matrix"'
        plans = dict(self.privacy_.blocks)
        self.privacy_ = _remarked(plans, self._warned_of_noise(said))

    def _set_outcome(self, found: dict[str, Any]) -> None:
        """Set what is known: new with every fit, or not there."""
        for name, value in found.items():
            vars(self).pop(name, None)
            if value is not None:
                setattr(self, name, value)

    def _read_rows(self, X, accept_sparse=False) -> np.ndarray:
        """Return the features of rows; any client may be in their column."""
        how = {"reset": False, "names": CLIENTS}
        return read_users(self, X, None, self.client_feature, **how).features()


@documented
@dataclass(eq=False, repr=False)
class FederatedDPPCA(ComponentsMixin, FederatedEstimator):
    r"""Differentially private PCA of rows that are held by several clients.

    Every client releases components of its own rows, as :class:`~skdpspectral.DPPCA`
    does, with its own budget. A server, which need not be trusted, combines them into
    one subspace. The guarantee holds for any data, except with
    ``mechanism=SpikedModel(...)``. Read more in the
    :ref:`user guide <guide_federated>`.

    Parameters
    ----------
    n_components : int, default=2
        Number of components r, at most ``n_features`` and the rows of any client.
    {epsilon_of_clients}
    {delta_of_clients}
    {min_clients}
    {weights}
    {client_feature}
    {bounds}
    {center}
        With "shared", clients answer three more requests, for 7 % of their
        :math:`\mu^2`: the server finds a common center, and centers of sites that
        differ. A client whose center is not accurate enough compares its
        rows in pairs. With little noise, rows below a released length are not scaled
        up to unit norm. This needs no bounds. Where noise dominates, the error is about
        two thirds of that of pairs (:ref:`lemma-shared-center`). It requires
        ``mechanism="gaussian"``.
    {accountant}
        Each fit adds one entry per client.
    {noise_seed}
    aggregation : {"projector", "matrix"}, default="projector"
        Content of the clients' messages. "projector": their components, p r numbers.
        "matrix": the full noisy second moment, or the noisy projector of a model, p (p
        + 1) / 2 numbers. "matrix" is better if there are many clients, each with too
        few rows or too much noise to estimate the components.
    mechanism : "gaussian" or SpikedModel, default="gaussian"
        How each client releases its components. "gaussian" adds noise to the second
        moment. :class:`~skdpspectral.decomposition.SpikedModel` is only private under a
        model.
    projection_norm : float or None, default=None
        Public length, in units of the data, at which clients clip projections on the
        components. With it, they answer a second time and release the covariance within
        the components, with 15 % of their :math:`\mu^2`. A good choice is about 3.3
        times the square root of the sum of the variances along the components. A
        ``SpikedModel`` does not accept one: it clips nothing, and has a `release`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, leading first. The largest entry of each is positive. A column
        of clients is not one of the features.
    explained_variance_ : ndarray of shape (n_components,)
        With a covariance, variances along the components in squared units of the data.
        Otherwise, with "gaussian" and ``aggregation="matrix"``, variances of the
        averaged second moment of rows scaled to a length of at most 1.
    noise_variance_ : float
        Variance across the components, in squared units of the data: that of a model,
        or the weighted median of a model's private ones.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `explained_variance_` divided by the variance in all directions, set if both of
        the above are known, and for the averaged second moment.
    {singular_values_}
        Each client's rows are centered at the client's own center.
    mean_ : ndarray of shape (n_features,)
        Mean of the clients' centers, weighted by their rows, in the units of the data.
        (Clients with offsets should subtract their own center from rows before
        transforming them.)
    {clients_}
    client_weights_ : ndarray of shape (n_clients,)
        Weights of the clients, with sum 1.
    {rejected_}
    {n_components_}
    components_above_noise_ : int
        Number of components above noise and sampling error, as in
        :class:`~skdpspectral.DPPCA`. If it is less than `n_components_`, the fit issues
        a :class:`~skdpspectral.NoisyFitWarning`. With ``aggregation="matrix"`` it is
        counted in the average of all clients. With "projector", clients release only
        their last eigenvalue: the number is `n_components_` if that eigenvalue is above
        the noise at clients with half of the weights, and 0 otherwise. All components
        of a model count.
    n_samples_ : int
        Total number of rows of all clients.
    {n_features_in_}
        This includes the column of clients, if any.
    {feature_names_in_}
    {privacy_of_clients}

    See Also
    --------
    DPPCA : PCA of rows in one place.
    SparseDPPCA : Components with few features, by rounds between clients and server.
    skdpspectral.federation : Building blocks for remote clients.

    Notes
    -----
    **Formal guarantee.** All messages of client j are (`epsilon_j`,
    `delta_j`)-differentially private for one row of this client, under replacement of
    the row within the client. The set of clients and their numbers of rows are public.
    The guarantee holds against the server and all other clients. The rows of different
    clients are disjoint, which is checked, so one fit costs as much as its most
    expensive client. A person with rows at two clients is only protected at the square
    root of the sum of both squared :math:`\mu`. With
    :class:`~skdpspectral.decomposition.SpikedModel` the guarantee only holds for rows
    of the stated model, and an error names clients with too few rows for it.

    By default, client j sends the r eigenvectors :math:`U_j` of its noisy second moment
    with the largest eigenvalues. The server computes the top r eigenvectors of
    :math:`\sum w_j U_j U_j'`, where :math:`1 / w_j` is the expected squared error of
    the client, from public numbers and released variances (:ref:`lemma-weights`). The
    resulting error is the harmonic mean of the clients' errors divided by their number.

    References
    ----------
    Li, Cai, Xia and Zhang (2024), Federated PCA and estimation for spiked covariance
    matrices: optimal rates and efficient algorithm, algorithm 1 with weights of theorem
    1. For its noise, use a ``SpikedModel`` with ``calibration="paper"`` and the
    `sensitivity_constant` described there.

    Dwork, Talwar, Thakurta and Zhang (2014), for the default noise.

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
        "aggregation": [StrOptions({"projector", "matrix"})],
        "center": [StrOptions({"auto", "none", "pairs", "shared"})],
        "mechanism": [StrOptions({"gaussian"}), SpikedModel],
        "projection_norm": [Interval(Real, SMALLEST, LARGEST, closed="both"), None],
    }

    _: KW_ONLY
    aggregation: str = "projector"
    mechanism: Any = "gaussian"
    projection_norm: float | None = None

    def _why_no_variances(self) -> str | None:
        """Return why not all variances of the data are released, or None."""
        if not isinstance(self.mechanism, SpikedModel):
            return 'mechanism="gaussian" releases none across the components'
        if not self.mechanism.with_covariance:
            return 'set release="covariance" of the SpikedModel'
        return None


@documented
@dataclass(eq=False, repr=False)
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
    {min_clients}
    {weights}
    {client_feature}
    {bounds}
    {center}
        "shared" is not available here.
    {accountant}
        Each fit adds one entry per client.
    {noise_seed}
    n_nonzero_features : int or None, default=None
        Number of features that the components use jointly, at least `n_components`.
        None keeps all features.
    n_rounds : int, default=1
        Number T of rounds after the start, which share the budget with it. One round
        was best at every budget of the benchmarks.

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
        `explained_variance_` divided by the variance in all directions.
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
    The rounds and the start share :math:`\mu^2` equally.

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

    _parameter_constraints: ClassVar[dict] = {
        **FederatedEstimator._federated_constraints,
        "n_nonzero_features": [Interval(Integral, 1, None, closed="left"), None],
        "n_rounds": [Interval(Integral, 1, 1000, closed="both")],
    }

    n_components: int = 1
    _: KW_ONLY
    n_nonzero_features: int | None = None
    n_rounds: int = 1
