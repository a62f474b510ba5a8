"""Users' own models beside the shared directions: fits, predictions, groups, clusters.

Nothing in this file is released; it must not draw noise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._base.personal import UserModels, finite_or_zero
from .._linalg import user_rows
from .._linalg.per_user import combined_columns
from .._statistics.user_sums import Billboard
from .._tables.cluster_users import ClusterUsers, ClusterUserTable
from .._tables.clusters import common_type, numbers_of
from .._tables.declared_columns import in_declared_order
from .._tables.ids import encode_ids
from .._tables.rows import DeferredRead
from .._tables.users import (
    DeferredTable,
    UserTable,
    check_targets,
    deferred_targets_of,
    deferred_users,
)
from ..mechanisms._relations import check_count
from . import _kernels_shared, _kernels_users, _parameters
from ._parameters import (
    Alternation,
    PrivateRounds,
    UserIntercept,
    find_offset,
    intercept_of,
    is_fixed,
    read_like_fit,
    split_offsets,
    subtract_offsets,
)

# Numbers of the rows that are predicted together.
_PART_NUMBERS = 1 << 20


@dataclass(frozen=True)
class PersonalModels(UserModels):
    """Parameters of users beside shared components.

    `weights` (n_users, rank): w.
    `support` (n_users, sparsity): features of b.
    `sparse` (n_users, sparsity): b on its support.
    """

    entries: ClassVar[tuple[str, ...]] = (
        "weights",
        "support",
        "sparse",
        "intercepts",
    )
    widened: ClassVar[tuple[str, ...]] = ("support", "sparse")

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    intercepts: np.ndarray

    @classmethod
    def empty(cls, rank: int) -> PersonalModels:
        """Return models of no user."""
        return cls(
            index=None,
            weights=np.empty((0, rank)),
            support=np.empty((0, 0), dtype=np.intp),
            sparse=np.empty((0, 0)),
            intercepts=np.empty(0),
        )

    @classmethod
    def fitted(cls, rows, users, index, scale, components) -> PersonalModels:
        """Make models of what users fitted, and their intercepts, in data units.

        `users`: weights, supports and sparse parts that they fitted, of scaled
        features. `index`: ids; None for a single user without one. `scale`
        (n_features,): what features were divided by. `components` (rank, n_features):
        U'.
        """
        with np.errstate(all="ignore"):
            sparse = users.sparse / scale[users.support]
        models = cls(
            index=None if index is None else index.without_codes(),
            weights=finite_or_zero(users.weights),
            support=users.support,
            sparse=finite_or_zero(sparse),
            intercepts=np.zeros(rows.n_users),
        )
        if rows.y_means is None:
            return models
        # A user's model passes through the mean of their rows, but for a penalty.
        everyone = np.arange(rows.n_users)
        means = models.predict(lambda part: rows.X_means[part], everyone, components)
        models.intercepts[:] = finite_or_zero(rows.intercepts(means))
        return models

    def coef(self, code: int, components: np.ndarray) -> np.ndarray:
        """U w + b of one user."""
        coef = np.zeros(components.shape[1])
        for weight, component in zip(self.weights[code], components, strict=True):
            coef += weight * component
        np.add.at(coef, self.support[code], self.sparse[code])
        return coef

    def with_shared(self, weights: np.ndarray, intercept: float) -> PersonalModels:
        """Append the shared model, so that code -1 stands for it."""
        k = self.support.shape[1]
        return replace(
            self,
            weights=np.vstack([self.weights, weights]),
            support=np.vstack([self.support, np.zeros((1, k), dtype=np.intp)]),
            sparse=np.vstack([self.sparse, np.zeros((1, k))]),
            intercepts=np.append(self.intercepts, intercept),
        )

    def predict(self, features, codes: np.ndarray, components: np.ndarray):
        """Predict rows of several users, each with the bits that it has alone.

        `features`: ``features(rows)``: features of a slice of rows. `codes` (n_rows,):
        users of the rows. `components` (rank, n_features): U'. Returns (n_rows,):
        predictions.
        """
        # A warning would tell of the values of some user.
        with np.errstate(all="ignore"):
            return self._predicted(features, codes, components)

    def _predicted(self, features, codes, components) -> np.ndarray:
        out = np.empty(len(codes))
        size = max(1, _PART_NUMBERS // max(components.shape[1], 1))
        for start in range(0, len(codes), size):
            rows = slice(start, start + size)
            out[rows] = self._predicted_part(features(rows), codes[rows], components)
        return out

    def _predicted_part(self, X, own, components) -> np.ndarray:
        # Entry by entry, one term after another: no sum over an axis, whose order
        # would be numpy's choice.
        out = self.intercepts[own]
        shared = combined_columns(X, components.T)
        for scores, weights in zip(shared, self.weights.T, strict=True):
            out += scores * weights[own]
        each = np.arange(len(X))
        for features, values in zip(self.support.T, self.sparse.T, strict=True):
            out += X[each, features[own]] * values[own]
        return out


class UserModelsMixin:
    """Models of users beside the shared directions: fits, predictions, coefficients."""

    def _user_rows(self, table: UserTable, y, index, scale) -> user_rows.UserRows:
        n_rows = len(table.X)
        codes = np.zeros(n_rows, dtype=np.intp) if index is None else index.codes
        return user_rows.UserRows(
            table.X,
            y,
            codes,
            1 if index is None else len(index),
            columns=table.columns,
            scale=scale,
            **self._centered(),
        )

    def _rules(self, n_features: int, prior: np.ndarray) -> _kernels_users.LocalRules:
        most = n_features if self.sparsity is None else int(self.sparsity)
        return _kernels_users.LocalRules(
            sparsity=min(most, n_features),
            ridge_shared=_parameters.ridge_of_weights(self),
            ridge_sparse=float(self.ridge_sparse),
            prior=prior,
            fixed=is_fixed(self),
            free=most >= n_features and self.ridge_sparse > 0.0,
        )

    def _public_prior(self, rank: int) -> np.ndarray:
        return np.full(rank, 1.0 if is_fixed(self) else 0.0)

    def _centered(self) -> dict:
        """How users' rows are centered."""
        own = intercept_of(self)
        chosen = own or UserIntercept()
        level = user_rows.Level(chosen.prior or 0.0, float(chosen.ridge))
        return {"center": own is not None, "level": level}

    def predict(self, X, *, users=None):
        """Predict every row by the model of its user.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            Columns as in fit.
        users : array-like of shape (n_rows,) or None, default=None
            Ids, of the type that was given to fit.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions; only a user may see those of their own model.

        Raises
        ------
        ValueError
            If users are missing though fit had them, if their type is another one,
            or, with ``unknown_user="raise"``, if one was not in the fit.
        """
        check_is_fitted(self)
        table, offsets = read_like_fit(self, X, users)
        codes = self._codes_of(table)
        models = self._models().with_shared(self.weights_, self.intercept_)
        return offsets + models.predict(table.features, codes, self.components_)

    def _models(self) -> PersonalModels:
        """Return the users' models; none of them in a published copy."""
        empty = PersonalModels.empty(len(self.components_))
        return getattr(self, "_personal", empty)

    # -- users -------------------------------------------------------------------------

    def get_coef(self, user=None):
        """Return the coefficients of one user, for that user alone.

        Parameters
        ----------
        user : hashable or None, default=None
            Id; None for the only user of a fit without users.

        Returns
        -------
        ndarray of shape (n_features,)
            :math:`U w + b`, in units of the data; those of the shared model if the
            user is unknown.

        Raises
        ------
        ValueError
            If the user is unknown and ``unknown_user="raise"``, or the id is missing
            or of another type.
        """
        code, models = self._model_of(user)
        return models.coef(code, self.components_)

    def get_intercept(self, user=None):
        """Return the intercept of one user, as :meth:`get_coef` does coefficients."""
        code, models = self._model_of(user)
        return float(models.intercepts[code])

    def _model_of(self, user) -> tuple[int, PersonalModels]:
        code = self._code_of(user)
        return code, self._models().with_shared(self.weights_, self.intercept_)

    def personalize(self, X, y, user=None, *, users=None):
        """Fit some users beside the shared directions, and store their models.

        Works on a published copy too, so that users can do it where their rows are:
        nothing but the shared directions is needed. Models that were stored for these
        users are replaced; no other changes, and no budget is spent.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_rows, n_columns)
            All rows of one or more users, with the columns of fit.
        y : array-like of shape (n_rows,)
            Their targets.
        user : hashable or None, default=None
            Id of the one user of all rows. None takes `users`, or the column
            `user_feature`; without users in fit it stands for the only one.
        users : array-like of shape (n_rows,) or None, default=None
            Ids of the rows' users, new or known.

        Returns
        -------
        self : object
            The estimator, which predicts for these users from now on.

        Raises
        ------
        ValueError
            If X or y is invalid, or the rows are not those of `user`.

        See Also
        --------
        skdpspectral.linear_model.personalize : The same through a pipeline.
        """
        check_is_fitted(self)
        # Each on its own: what suits no fit may suit a user.
        super()._check_parameters()
        table, offsets = read_like_fit(self, X, users)
        y = subtract_offsets(check_targets(self, y, len(table.X)), offsets)
        index = self._users_to_fit(table, user)
        rows = self._user_rows(table, y, index, self.scale_)
        rank, d = self.components_.shape
        rules = self._rules(d, self._prior_of_users(rank))
        U = (self.components_ * self.scale_).T
        fit = _kernels_shared.solve_users(rows, U, rules, self.n_jobs)
        new = PersonalModels.fitted(rows, fit, index, self.scale_, self.components_)
        self._personal = self._models().updated(new)
        self._users_given = index is not None
        return self

    def _prior_of_users(self, rank: int):
        """Return what weights of a new user are shrunk to."""
        solver = self.solver
        shrinks = not isinstance(solver, Alternation) or solver.shrink_to_mean
        shrunk = shrinks and not (self._was_private() or is_fixed(self))
        return self.weights_ if shrunk else self._public_prior(rank)

    # -- reading rows; several groups of users --------------------------------------

    def _billboard(self, n_features) -> Billboard:
        """Return what many groups of users release together, and all that is public."""
        self._check_parameters()
        if not self._is_private():
            raise ValueError("epsilon=None: groups of users need a budget")
        if n_features is None:
            raise ValueError("n_features is needed for an LRSRegressor")
        if not self.n_components:
            raise ValueError("n_components=0: nothing would be released")
        solver = _parameters.solver_of(self)
        if not isinstance(solver, PrivateRounds):
            raise ValueError(f"solver={solver!r}: nothing would be released")
        if solver.fresh_rows:
            raise ValueError(
                "fresh_rows=True is not for groups of users, which use all rows in "
                "every round: leave fresh_rows=False"
            )
        if isinstance(solver.init, str) and solver.init == "random":
            raise ValueError(
                'init="random" would differ between nodes: draw an array once, and '
                "pass it as init"
            )
        d = check_count("n_features", n_features)
        start = _parameters.given_start(self, solver, d)
        start = _parameters.start_of(self, solver, None, start, d)
        given = (start, _parameters.public_scale(self, d))
        intercept = intercept_of(self)
        rows = (False, None, 0.0)
        if intercept is not None:
            rows = ("user", intercept.prior, float(intercept.ridge))
        return Billboard(_parameters.shared_statistic(self, solver, d), given, rows)

    def _unread_group(self, board: Billboard, names, X, y, *, users=None) -> Callable:
        """Check the form of a group's rows, and read no value; return what reads them.

        `names` are those of the features, or None. ``read()`` returns the users' rows
        and their ids.
        """
        X = in_declared_order(X, names, list(_parameters.columns_beside(self).items()))
        table, targets, offset, d = self._unread(X, y, users)
        scale = board.given[1]
        if len(scale) != d:
            raise ValueError(
                f"X has {d} features beside users and offsets, the task has "
                f"n_features={len(scale)}"
            )
        return lambda: self._grouped(table.read(), targets.read(), offset, scale)

    def _unread(
        self, X, y, users
    ) -> tuple[DeferredTable, DeferredRead, int | None, int]:
        """Check the form of rows and targets; return the place of offsets, and d."""
        table = deferred_users(self, X, users, self.user_feature, reset=True)
        targets = deferred_targets_of(self, y, table)
        check_cluster(self, table)
        offset = find_offset(self, X, table.n_features)
        return table, targets, offset, table.n_features - (offset is not None)

    def _grouped(self, table, targets, offset, scale):
        """Return rows by user, and the ids of the users."""
        if isinstance(table, ClusterUserTable):
            given = table, targets, offset, self._users_name()
            return ClusterUserRows(*given, **self._centered(), scale=scale), None
        table, offsets = split_offsets(table, offset)
        index = self._index(table)
        rows = self._user_rows(table, subtract_offsets(targets, offsets), index, scale)
        return rows, index

    def _finish(self, board: Billboard, found, plan, rows=None, index=None) -> None:
        """Make public attributes of what was released, and models of users at hand."""
        self._keep(found)
        if rows is None:
            n_others = len(_parameters.columns_beside(self))
            self.n_features_in_ = len(self.scale_) + n_others
        else:
            self._keep_users(found, rows, index, board.statistic.users.rules)
        self.privacy_ = plan

    def _keep_users(self, found, rows, index, rules) -> None:
        """Fit users beside what was found, apart from all that is public."""
        if isinstance(rows, ClusterUserRows):
            self._personal = PersonalModels.empty(len(self.components_))
            self._users_given = True
            return
        fit = found.users
        if fit is None:  # each by their own rows and U: nothing of this leaves the user
            fit = _kernels_shared.solve_users(rows, found.U, rules, self.n_jobs)
        self._personal = PersonalModels.fitted(
            rows, fit, index, self.scale_, self.components_
        )
        self._users_given = index is not None


def personalize(model, X, y, **users):
    """Fit some users through a pipeline: transform their rows, then fit their models.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted; its last step, or itself, has a method ``personalize``. Steps before
        transform rows as they are, and stay as they are.
    X : array-like or dataframe of shape (n_rows, n_columns)
        Rows of one or more users, with the columns of the pipeline's fit.
    y : array-like of shape (n_rows,)
        Their targets.
    **users : object
        What else the method takes: `user` or `users`.

    Returns
    -------
    model : estimator or Pipeline
        The same, which predicts for these users from now on. No budget is spent.

    Raises
    ------
    TypeError
        If the model, or its last step, cannot be personalized.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpspectral import DPItemEmbedding, LRSRegressor
    >>> from skdpspectral.datasets import make_ratings
    >>> from skdpspectral.linear_model import UserIntercept, personalize
    >>> data = make_ratings(500, 20, n_ratings_per_user=10, random_state=0)
    >>> intercept = UserIntercept(offset_feature=1)
    >>> model = make_pipeline(
    ...     DPItemEmbedding(items=data.item_ids),
    ...     LRSRegressor(0, None, user_feature=0, fit_intercept=intercept),
    ... ).fit(data.data, data.target)
    >>> new = [[1000, 3], [1000, 5], [2000, 7]]
    >>> personalize(model, new, [5, 1, 4]).predict([[1000, 7]]).shape
    (1,)
    """
    last = model
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        last = model.steps[-1][1]
        X = model[:-1].transform(X) if len(model.steps) > 1 else X
    if not hasattr(last, "personalize"):
        raise TypeError(
            f"model cannot be personalized: {type(last).__name__} has no method for it"
        )
    last.personalize(X, y, **users)
    return model


class ClusterUserRows:
    """Rows and targets of users, grouped on a cluster.

    `offset`: place of the offsets among the features.
    `name`: what errors call the users.
    `**how`: how users' rows are centered and scaled: as for ``UserRows``.
    """

    def __init__(
        self, table: ClusterUserTable, targets: list, offset, name: str, **how
    ) -> None:
        from dask import delayed

        dtype = common_type([table.table.dtypes[j] for j in table.columns])
        rows = table.table.apply(numbers_of, table.columns, dtype)
        together = delayed(_together, pure=True)
        parts = list(map(together, table.ids.parts, rows, targets))
        make = partial(_rows_of_users, offset=offset, name=name, **how)
        self._users = ClusterUsers(parts, make, name)
        self._part: tuple[int, int] | None = None

    def dealt(self, part: int, n_parts: int) -> ClusterUserRows:
        """Rows of one of several parts, which each user's rows are dealt to in turn.

        `part`, `n_parts`: number of the part, from 0, and how many there are.
        """
        other = copy.copy(self)
        other._part = part, n_parts
        return other

    def sums(self, function: Callable, n_jobs=None) -> Iterator:
        """Yield the sum of what a function makes of all blocks of users.

        `function`: block, and the rows that it is one of -> sums over its users, exact
        in any order; public and picklable.
        """
        kernel = partial(_sum_of_blocks, function=function, dealt=self._part)
        total = self._users.reduce(kernel)
        return iter(() if total is None else (total,))


def check_cluster(model, table) -> None:
    """Refuse what needs all users in one place."""
    if table.distant is None:
        return
    if not model._is_private():
        raise ValueError(
            "epsilon=None alternates between all users, which must be in memory: pass "
            "X.compute(), or a budget"
        )
    if not table.has_users:
        raise ValueError(
            "X is on a cluster, where all rows would be those of one user: pass "
            "users=... or name their column by user_feature"
        )


def _together(*columns) -> tuple:
    return columns


def _rows_of_users(ids, X, y, *, offset, name: str, **how) -> user_rows.UserRows | None:
    if not len(ids):
        return None
    y = check_targets(None, y, len(ids))
    if offset is not None:
        y = subtract_offsets(y, np.asarray(X[:, offset], dtype=np.float64))
        X = np.delete(X, offset, axis=1)
    return user_rows.UserRows(X, y, *encode_ids(ids, name), **how)


def _sum_of_blocks(rows: user_rows.UserRows | None, function: Callable, dealt=None):
    if rows is None:
        return None
    # Blocks are kept by the copy alone: a task may be run again.
    rows = copy.copy(rows) if dealt is None else rows.dealt(*dealt)
    total = None
    for found in rows.sums(function):
        total = found if total is None else total + found
    return total
