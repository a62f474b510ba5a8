"""What estimators over clients share: who has which rows, budgets, and the session.

Which rows of a table belong to which client.

Weights of clients, as parameters have them, by the names that a server knows.

Parameters of an estimator that are those of a task, in units of the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .._base.documented import documented
from .._base.estimator import PrivateEstimator
from .._base.sklearn_compat import Interval, StrOptions
from .._messages.messages import MessageError
from .._tables.cluster_users import ClusterIds
from .._tables.entries import refuse_masked
from .._tables.ids import encode_ids
from .._tables.readers import SlicedRows
from .._tables.users import CLIENTS, deferred_users, read_users
from ..accounting._gaussian import MIN_DELTA
from ..mechanisms import ParallelPlan
from ..mechanisms._relations import check_count, check_real
from ._bounds import RowBounds
from ._federated_client import LocalClient
from ._federated_rounds import FederatedResult, InProcessSession, Rounds
from ._federated_server import Server
from ._federated_task import Registration, SpectralTask, check_client_budget
from ._mechanism import ComponentMechanism
from ._projection import ProjectionMixin, SpikedCovarianceMixin
from ._strategies import (
    CENTER_CONSTRAINT,
    CLIP_RANGE,
    DEFAULT_RANGE,
    STRATEGIES,
    PrivateMean,
    SpikedModel,
)

# The client of all rows, where no clients are told apart.
ALL_ROWS = "all rows"


class Group(NamedTuple):
    """The rows of one client."""

    client: object
    name: str
    rows: slice | np.ndarray | list
    n_rows: int


def group_rows(ids, n_rows: int) -> list[Group]:
    """Divide rows among clients, in the order of the clients' first rows.

    Parameters
    ----------
    ids : array-like of shape (n_rows,) or None
        One hashable id a row; None puts all rows into one client.
    n_rows : int
        Number of rows.

    Returns
    -------
    list of Group
        Every row is in exactly one of them, which is checked.

    Raises
    ------
    ValueError, TypeError
        If the ids are no ids, or two clients have one name.
    """
    if ids is None:
        return [Group(ALL_ROWS, ALL_ROWS, slice(0, n_rows), n_rows)]
    if isinstance(ids, ClusterIds):
        # Each row of a part has one id: rows of two clients are disjoint.
        labels, members = ids.members()
        return _named(
            (label, rows, sum(member.n_rows for member in rows))
            for label, rows in zip(labels, members, strict=True)
        )
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


def _named(clients) -> list[Group]:
    """Name clients by their ids, each of which must have a name of its own."""
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
    """Make sure of what parallel composition rests on: every row is in one block."""
    times = np.zeros(n_rows, dtype=np.intp)
    for block in blocks:
        np.add.at(times, block, 1)
    if not (times == 1).all():
        raise RuntimeError("rows of clients are not disjoint")


def weights_by_name(weights, groups: Sequence):
    """Return weights as a server takes them: by names, or how they are found.

    Parameters
    ----------
    weights : str, mapping of client to float, or array-like of shape (n_clients,)
        As the estimators have it.
    groups : sequence of Group
        The clients, in the order of their first rows.

    Returns
    -------
    str or dict of str to float
        What is no mapping is one now, unless it is a word.

    Raises
    ------
    ValueError
        If clients and weights are not the same ones, or some are masked.
    """
    refuse_masked(weights, "weights")
    if isinstance(weights, str):
        return weights
    if not isinstance(weights, Mapping):
        values = np.asarray(weights)
        if values.shape != (len(groups),) or values.dtype.kind not in "iuf":
            raise ValueError(
                "weights must have a number for each client, in their order in "
                f"clients_: shape ({len(groups)},), got {values.shape}"
            )
        weights = {g.client: w for g, w in zip(groups, values.tolist(), strict=True)}
    names = {group.client: group.name for group in groups}
    unknown = [client for client in weights if client not in names]
    if unknown:
        raise ValueError(
            f"weights names the client {unknown[0]!r}, which has no rows here"
        )
    return {names[client]: value for client, value in weights.items()}


def parameters_of(task: SpectralTask) -> dict:
    """Return constructor parameters that make this task, but for rounding."""
    rows, length = task.rows, task.projection_norm
    return {
        "n_components": task.n_components,
        "aggregation": task.aggregation,
        "n_rounds": task.n_rounds,
        "release": "covariance" if task.with_covariance else "components",
        "projection_norm": None if length is None else length * rows.unit,
        "mechanism": _mechanism(task.mechanism, rows.unit),
        "bounds": _bounds(rows),
        "clip_norm": rows.clip_norm,
        "scale": rows.scale,
        "center": "auto" if task.mechanism.spiked else _center(rows),
    }


def budgets_of(registered: Mapping[str, Registration]) -> dict:
    """Return budgets by client; without privacy at one of them there is none."""
    epsilons = {name: check_client_budget(*r[1:])[0] for name, r in registered.items()}
    private = all(epsilon < np.inf for epsilon in epsilons.values())
    return {
        "epsilon": epsilons if private else None,
        "delta": {name: r.delta for name, r in registered.items()},
    }


def _bounds(rows: RowBounds):
    """Bounds as numbers where they are the same for all features."""
    if rows.box is None:
        return None
    low, high = rows.box.low, rows.box.high
    if np.all(low == low[0]) and np.all(high == high[0]):
        return float(low[0]), float(high[0])
    return low.copy(), high.copy()


def _center(rows: RowBounds):
    if rows.paired:
        return "pairs"
    if not rows.centered:
        return "none"
    radius = rows.center_radius
    return "private" if radius is None else PrivateMean(radius)


def _mechanism(chosen: ComponentMechanism, unit: float):
    """A mechanism with its public numbers in units of the data."""
    if chosen.name == "gaussian":
        return "gaussian"
    square = unit * unit
    signal, noise = chosen.signal, chosen.noise
    signal = None if signal is None else tuple(square * value for value in signal)
    noise = None if noise is None else square * noise
    low, high = chosen.norm_range
    default = chosen.norm_range == tuple(end / unit for end in DEFAULT_RANGE)
    lengths = DEFAULT_RANGE if default else (unit * low, unit * high)
    if not chosen.spiked:
        return STRATEGIES[chosen.name](signal, noise, lengths)
    if chosen.unknown_spikes:
        return SpikedModel("private", "private", norm_range=lengths)
    constant = chosen.constant if chosen.calibration == "paper" else None
    return SpikedModel(
        signal,
        noise,
        mean="unknown" if chosen.centered else "zero",
        calibration=chosen.calibration,
        sensitivity_constant=constant,
    )


_UNCHECKED = (
    "The clients are separate: it is assumed, and was not checked, that no row is at "
    "two of them, that each has charged its ledger, and that none has a noise_seed."
)


@documented
class FederatedEstimator(SpikedCovarianceMixin, ProjectionMixin, PrivateEstimator):
    """Base of estimators whose rows lie with clients that release on their own.

    A subclass says by ``_task`` what every client releases, and makes its attributes
    of what an :class:`~skdpspectral.federation.InProcessSession` brings.
    """

    _levels_around_fit: ClassVar[int] = 1  # that of @unweighted
    _in_rounds: ClassVar[bool] = False
    _array_parameters: ClassVar[tuple[str, ...]] = ("bounds", "weights")
    _federated_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "epsilon": [Interval(Real, 0, None, closed="right"), Mapping, None],
        "delta": [Interval(Real, 0, 1, closed="neither"), Mapping],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "weights": [StrOptions({"optimal", "equal"}), Mapping, "array-like"],
        "client_feature": [Integral, str, None],
        "min_clients": [Interval(Integral, 1, None, closed="left")],
        "bounds": [tuple, list, np.ndarray, None],
        "clip_norm": [CLIP_RANGE, None],
        "scale": [StrOptions({"bounds"}), None],
        "center": CENTER_CONSTRAINT,
        "whiten": ["boolean"],
        "n_jobs": [Integral, None],
    }

    # -- budgets, of all clients or of each --------------------------------------------

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # A column of ids: whole numbers, or strings.
        tags.input_tags.categorical = self.client_feature is not None
        return tags

    def _check_parameters(self) -> None:
        """Check constructor parameters on their own, at no cost."""
        super()._check_parameters()
        self._check_whitening()

    def _check_budget(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, Mapping) and not value:
                raise ValueError(f"{name} must name at least one client")
        for value in _values(self.delta):
            if not MIN_DELTA <= check_real("delta", value) < 1.0:
                raise ValueError(
                    f"delta={value!r} must be in [{MIN_DELTA:g}, 1); choose one well "
                    "below one over the number of samples"
                )
        if not isinstance(self.epsilon, Mapping):
            if self._is_private():
                check_real("epsilon", self.epsilon)
            return
        for value in self.epsilon.values():
            if not 0.0 < check_real("epsilon of a client", value) < np.inf:
                raise ValueError(
                    f"epsilon of a client must be positive and finite, got {value!r}"
                )

    def _client_budgets(self, groups) -> list[tuple[float, float]]:
        """Return (epsilon, delta) of each client."""
        sides = []
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            value = np.inf if value is None else value
            if not isinstance(value, Mapping):
                sides.append([float(value)] * len(groups))
                continue
            known = {group.client for group in groups}
            unknown = [client for client in value if client not in known]
            if unknown:
                raise ValueError(
                    f"{name} names the client {unknown[0]!r}, which has no rows here"
                )
            missing = [g.name for g in groups if g.client not in value]
            if missing:
                raise ValueError(f"{name} has no entry for the client {missing[0]!r}")
            sides.append([float(value[group.client]) for group in groups])
        return list(zip(*sides, strict=True))

    # -- what a fit will release -------------------------------------------------------

    def privacy_plan(self, n_samples, n_features):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_samples : int or mapping of client to int
            Number of rows of a single client, or of each.
        n_features : int
            Number of features, the column of clients not among them.

        Returns
        -------
        ParallelPlan
            One plan a client; as a plan of its own, that of the dearest.

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
        groups = [
            Group(client, str(client), slice(0), check_count("n_samples", n))
            for client, n in n_samples.items()
        ]
        budgets = self._client_budgets(groups)
        return self._parallel_plan(groups, budgets, self._task(n_features))

    def plan_for(self, X, *, clients=None) -> ParallelPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        Parameters
        ----------
        {X_of_clients}
            Their number and that of columns is used, and the column of clients. Both
            are public.
        {clients}

        Returns
        -------
        ParallelPlan
            What that fit is charged with, one plan a client.

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        table = deferred_users(
            type(self)(), X, clients, self.client_feature, reset=True, names=CLIENTS
        )
        groups = group_rows(table.ids(), table.n_rows)
        budgets = self._client_budgets(groups)
        return self._parallel_plan(groups, budgets, self._task(table.n_features))

    def _parallel_plan(self, groups, budgets, task) -> ParallelPlan:
        plans, seeded = {}, self.noise_seed is not None
        if task.n_components > task.rows.n_features:
            raise ValueError(
                f"n_components={task.n_components} must be at most n_features="
                f"{task.rows.n_features}; ask for fewer components"
            )
        if self.min_clients > len(groups):
            raise ValueError(
                f"min_clients={self.min_clients} is more than there are clients: "
                f"{len(groups)}"
            )
        for group, budget in zip(groups, budgets, strict=True):
            if group.n_rows < task.n_components:
                raise ValueError(
                    f"client {group.name!r} has n_samples={group.n_rows}, fewer than "
                    f"n_components={task.n_components}; ask for fewer components, or "
                    "leave this client out"
                )
            if group.name in plans:
                raise ValueError(f"two clients have the name {group.name!r}")
            name = type(self).__name__
            plan = task.plan_of(group.name, group.n_rows, *budget, name, seeded)
            plans[group.name] = plan
        return ParallelPlan.of(plans)

    # -- the way of a fit --------------------------------------------------------------

    def _hold_session(self, X, clients) -> None:
        """Check, plan and charge all clients, and ask them all that is planned."""
        self._check_parameters()
        unread = deferred_users(
            self, X, clients, self.client_feature, reset=True, names=CLIENTS
        )
        task = self._task(unread.n_features)
        if unread.distant is not None and task.mechanism.unknown_spikes:
            raise ValueError(
                "X: a SpikedModel with private variances needs the rows of clients in "
                "memory. Pass X.compute(), or state the variances."
            )
        # Which client has how many rows is public: it is read before the charge, and
        # nothing else is.
        groups = group_rows(unread.ids(), unread.n_rows)
        budgets = self._client_budgets(groups)
        plan = self._parallel_plan(groups, budgets, task)
        plans = dict(plan.blocks)
        try:
            weights = weights_by_name(self.weights, groups)
            known = _registered(groups, budgets)
            rounds = self._rounds(self._server(known, task, weights))
        except MessageError as error:
            raise ValueError(f"clients: {error}") from None
        worst = max(groups, key=lambda g: plans[g.name].delta * g.n_rows)
        self._warn_beforehand(worst.n_rows, plans[worst.name].delta)
        for group, (epsilon, _) in zip(groups, budgets, strict=True):
            if self._warn_of_weaker(plans[group.name], epsilon):
                break
        self._charge(plans)
        table = unread.read()
        seeds = [None] * len(groups)
        if self.noise_seed is not None:
            source = check_random_state(self.noise_seed)
            seeds = source.randint(2**62, size=len(groups), dtype=np.int64).tolist()
        rows = table.features_of([group.rows for group in groups])
        given = zip(groups, rows, budgets, seeds, strict=True)
        members = {
            group.name: LocalClient._charged(
                group.name, _contiguous(own), task, plans[group.name], epsilon, seed
            )
            for group, own, (epsilon, _), seed in given
        }
        self.n_samples_ = len(table.X)
        self.privacy_ = plan
        self._set_result(
            InProcessSession(rounds.server, members, self.n_jobs).run(rounds)
        )
        if task.rows.paired and hasattr(self, "noise_variance_"):
            warnings.warn(
                "no mean was released, as rows of clients were compared in pairs: "
                "mean_ is the origin, or the midpoint of bounds, and score_samples and "
                "inverse_transform measure from there",
                UserWarning,
                stacklevel=3 + self._levels_around_fit,
            )

    @classmethod
    def from_result(cls, result):
        """Return a fitted estimator of what separate clients have released.

        Parameters
        ----------
        result : FederatedResult
            From :class:`~skdpspectral.federation.Rounds`. Its server must have the
            clients' registrations, from which `privacy_` is computed.

        Returns
        -------
        estimator
            As :meth:`fit` leaves it in one process. Its parameters are those of the
            task, in units of the data, and those of the server.

        Raises
        ------
        TypeError
            If `result` is not a FederatedResult.
        ValueError
            If its task is that of another estimator, or clients are not registered.

        Notes
        -----
        Nothing is released or charged: each client has charged its own ledger.
        `privacy_` is the plan of clients with this task and these registrations. Its
        remarks list what a server cannot verify.
        """
        if not isinstance(result, FederatedResult):
            raise TypeError("result must be a FederatedResult, from Rounds.result()")
        task, registered = result.task, result.registered
        if cls._in_rounds != (task.n_rounds > 0):
            right = "FederatedDPPCA" if cls._in_rounds else "SparseDPPCA"
            raise ValueError(
                f"result has a task with n_rounds={task.n_rounds}: use {right}"
                ".from_result"
            )
        if registered is None:
            raise ValueError(
                "result has no registrations, on which the plan depends. Give Server a "
                "mapping of each name to Registration(n_samples, epsilon, delta)."
            )
        given = {**parameters_of(task), **budgets_of(registered), **result.parameters}
        estimator = cls(**{k: given[k] for k in cls._get_param_names() if k in given})
        estimator.privacy_ = _plan_of_separate(cls.__name__, task, registered)
        estimator.n_samples_ = sum(r.n_samples for r in registered.values())
        estimator.n_features_in_ = task.rows.n_features
        if task.feature_names is not None:
            estimator.feature_names_in_ = np.array(task.feature_names, dtype=object)
        estimator._set_result(result)
        return estimator

    def _rounds(self, server: Server) -> Rounds:
        """Return all steps of the server."""
        return Rounds(server)

    def _server(self, clients, task, weights) -> Server:
        more = {"weights": weights, "eigengap": getattr(self, "eigengap", None)}
        return Server(clients, task, min_clients=self.min_clients, **more)

    def _charge(self, plans) -> None:
        """Enter all clients at once or none: one partition, a block a client."""
        accountant = self._governing_accountant()
        if accountant is None:
            return
        # That no row is in two blocks was checked where they were made.
        accountant._charge_disjoint(type(self).__name__, plans)

    def _set_result(self, result: FederatedResult) -> None:
        """Set what all of these estimators have."""
        rows = result.task.rows
        self.components_ = result.components
        self.n_components_ = len(result.components)
        self.mean_ = result.mean
        self.scale_ = None if self.scale is None else rows.box.unit.copy()
        self.clients_ = np.array(result.clients, dtype=object)
        self.rejected_ = result.rejected
        self._set_variances(result)

    def _set_variances(self, result: FederatedResult) -> None:
        """Set what is known of variances: new with every fit, or not there."""
        values, total = result.explained_variance, result.total_variance
        noise = self._public_noise()
        noise = result.noise_variance if noise is None else noise
        found: dict = {"explained_variance_": values, "noise_variance_": noise}
        if values is not None and noise is not None:
            others = self.components_.shape[1] - len(values)
            total = float(values.sum()) + others * noise
        if values is not None and total is not None:
            ratio = values / max(total, np.finfo(float).tiny)
            found["explained_variance_ratio_"] = ratio
        for name in (*found, "explained_variance_ratio_"):
            vars(self).pop(name, None)
        for name, value in found.items():
            if value is not None:
                setattr(self, name, value)

    def _public_noise(self) -> float | None:
        """Return a public variance across the components, if one was given."""
        return None

    # -- rows of other tables ----------------------------------------------------------

    def _read_rows(self, X, accept_sparse=False) -> np.ndarray:
        """Return the features of rows; any client may be in their column."""
        how = {"reset": False, "names": CLIENTS}
        return read_users(self, X, None, self.client_feature, **how).features()


def _plan_of_separate(estimator: str, task, registered) -> ParallelPlan:
    """Return the plan of clients elsewhere, and say what nobody has checked."""
    plans = {}
    for name, (n_samples, *budget) in registered.items():
        given = *check_client_budget(*budget), estimator, False
        plan = task.plan_of(name, n_samples, *given)
        plans[name] = replace(plan, remarks=(*plan.remarks, _UNCHECKED))
    return ParallelPlan.of(plans)


def _registered(groups, budgets) -> dict[str, Registration]:
    """Public numbers of all clients, which the server holds them to.

    Budgets are those that were asked for: of them, and not of what a plan claims,
    everybody makes the same plan.
    """
    return {
        group.name: Registration(group.n_rows, *budget)
        for group, budget in zip(groups, budgets, strict=True)
    }


def _contiguous(rows):
    """Rows that are here, in one piece; others stay where they are."""
    return rows if isinstance(rows, SlicedRows) else np.ascontiguousarray(rows)


def _values(budget) -> list:
    return list(budget.values()) if isinstance(budget, Mapping) else [budget]
