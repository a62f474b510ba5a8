"""Solvers, intercepts and weights of LRSRegressor, and checks of its parameters."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register, snapshot
from .._tables.columns import (
    as_numbers,
    check_feature,
    column_names,
    position_of,
    refuse_masked,
)
from .._tables.table import UserTable, read_users, table_shape
from ..mechanisms import Neighbors
from . import _kernels_shared
from ._shared_directions import ExactDirections, SharedDirections, Users

_STARTS = {"spectral", "random"}
_NORMS = Interval(Real, 1e-60, 1e60, closed="both")
_PENALTIES = Interval(Real, 0, 1e60, closed="both")
_MEDIAN_SHARE = 0.1


@register
@dataclass(eq=False, repr=False)
class PrivateRounds(BaseEstimator):
    r"""Estimate shared directions privately in a fixed number of releases.

    A `solver` of :class:`~skdpspectral.LRSRegressor`. Each user contributes one vector
    to each release. Contributions above the clip norms are scaled down.

    Parameters
    ----------
    n_rounds : int, default=6
        Number of releases of U, at least 1. It is fixed before the fit, because private
        data must not determine when to stop.
    init : {"spectral", "random"} or array-like, default="spectral"
        Initial U. "spectral": the leading directions of the users' correlations
        :math:`X_i'y_i`, which are the first release. "random": random orthonormal
        directions. An array of shape (n_components, n_features) must not depend on
        private data.
    fresh_rows : bool, default=False
        Whether each release uses separate rows, as theory requires: each user's rows
        are dealt to the releases in turn. In our experiments, using all rows in each
        release gave lower errors. Rows are dealt in the order of X. **The order of a
        user's rows must not depend on other users.** Shuffling the whole table moves
        everybody's rows when one user joins, and voids the guarantee. Shuffle each
        user's rows separately.
    curvature_clip_norm, gradient_clip_norm : float or None, default=None
        Public clip norms, in [1e-60, 1e60], of the curvature
        :math:`w_iw_i' \otimes X_i'X_i/m_i` and of the gradient
        :math:`X_i'(y_i - X_ib_i)w_i'/m_i` of a user. None uses a private median over
        the users.
    median_share : float, default=0.1
        Share of the budget's :math:`\mu^2` for the private medians, in (0, 1). Setting
        it raises an error if both clip norms are given.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.linear_model import PrivateRounds
    >>> rounds = PrivateRounds(2, curvature_clip_norm=3.3, gradient_clip_norm=1.0)
    >>> model = LRSRegressor(solver=rounds)
    >>> [mechanism.name for mechanism in model.privacy_plan(10).mechanisms]
    ['start', 'moments_1']
    >>> model.set_params(solver__n_rounds=1).privacy_plan(10).mechanisms[0].name
    'start'
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("init",)
    _parameter_constraints: ClassVar[dict] = {
        "n_rounds": [Interval(Integral, 1, 10_000, closed="both")],
        "init": [StrOptions(_STARTS), "array-like"],
        "fresh_rows": ["boolean"],
        "curvature_clip_norm": [_NORMS, None],
        "gradient_clip_norm": [_NORMS, None],
        "median_share": [Interval(Real, 0, 1, closed="neither")],
    }

    n_rounds: int = 6
    _: KW_ONLY
    init: Any = "spectral"
    fresh_rows: bool = False
    curvature_clip_norm: float | None = None
    gradient_clip_norm: float | None = None
    median_share: float = _MEDIAN_SHARE

    def _check_share(self) -> None:
        """Refuse a share of the budget for medians that are not computed."""
        given = None not in (self.curvature_clip_norm, self.gradient_clip_norm)
        if given and self.median_share != _MEDIAN_SHARE:
            raise ValueError(
                f"solver: median_share={self.median_share!r} is not used, since both "
                "clip norms are given and there are no medians: leave median_share="
                f"{_MEDIAN_SHARE}, or set a clip norm to None"
            )


@register
@dataclass(eq=False, repr=False)
class Alternation(BaseEstimator):
    r"""Alternate between users and shared directions, without privacy.

    A `solver` of :class:`~skdpspectral.LRSRegressor` for ``epsilon=None`` alone, as in
    ``LRSRegressor(epsilon=None, solver=Alternation(max_iter=100))``.

    Parameters
    ----------
    max_iter : int, default=50
        Maximum number of iterations, at least 1.
    tol : float, default=1e-6
        Iterations stop when U moves by at most this distance, which is at least 0.
    init : {"spectral", "random", "moments"} or array-like, default="spectral"
        Initial U. "spectral": the leading directions of the users' correlations
        :math:`X_i'y_i`. "random": random orthonormal directions. "moments": the leading
        directions of :math:`\sum y^2 xx'`. An array has shape
        ``(n_components, n_features)``.
    shrink_to_mean : bool, default=True
        Whether weights are shrunk towards their mean over users instead of zero.
    update : {"auto", "direct", "cached", "cg"}, default="auto"
        How U is updated. "direct" computes the curvature in each iteration, and
        "cached" computes it from Gram matrices kept in memory. "cg" uses conjugate
        gradients, whose cost does not depend on `n_components`. Without a penalty on
        the weights, all updates converge to the same U. The penalty applies to w and
        not to U; with a penalty they may stop at slightly different U.
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("init",)
    _parameter_constraints: ClassVar[dict] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "init": [StrOptions(_STARTS | {"moments"}), "array-like"],
        "shrink_to_mean": ["boolean"],
        "update": [StrOptions({"auto", "direct", "cached", "cg"})],
    }

    max_iter: int = 50
    tol: float = 1e-6
    _: KW_ONLY
    init: Any = "spectral"
    shrink_to_mean: bool = True
    update: str = "auto"


@register
@dataclass(eq=False, repr=False)
class GivenDirections(BaseEstimator):
    """Public shared directions that the fit keeps; nothing is released.

    A `solver` of :class:`~skdpspectral.LRSRegressor`, with or without a budget.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        U', which must not depend on private data. The fit orthonormalizes the rows,
        except with ``shared_weights="fixed"``, where U' is the central model itself.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.linear_model import GivenDirections
    >>> model = LRSRegressor(solver=GivenDirections([[1.0, 0.0, 0.0]]))
    >>> model.privacy_plan(n_features=3).mechanisms
    ()
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("components",)
    _parameter_constraints: ClassVar[dict] = {"components": ["array-like"]}

    components: Any


@register
@dataclass(eq=False, repr=False)
class UserIntercept(BaseEstimator):
    """An intercept for each user, and an optional public offset for each row.

    A `fit_intercept` of :class:`~skdpspectral.LRSRegressor`, as in
    ``LRSRegressor(fit_intercept=UserIntercept(prior=3.0, ridge=5.0))``.

    Parameters
    ----------
    prior : float or None, default=None
        Public intercept of the shared model, such as the middle of the range of the
        targets. It is used in predictions for users without a model. None uses 0 with a
        budget, and the mean over users with ``epsilon=None``.
    ridge : float, default=0.0
        Penalty on the squared difference between a user's intercept and `prior` (0 for
        None), expressed as a number of rows: the intercept of a user with this many
        rows is shrunk by one half.
    offset_feature : int, str or None, default=None
        Position or name of a column of X that is added to every prediction, such as the
        mean rating of an item. It is not used as a feature. User models are fitted to
        the targets minus the offsets.
    """

    _parameter_constraints: ClassVar[dict] = {
        "prior": [Interval(Real, -1e60, 1e60, closed="both"), None],
        "ridge": [_PENALTIES],
        "offset_feature": [Integral, str, None],
    }

    prior: float | None = None
    _: KW_ONLY
    ridge: float = 0.0
    offset_feature: int | str | None = None


@register
@dataclass(eq=False, repr=False)
class UserWeights(BaseEstimator):
    """Weights of each user on the shared directions.

    A `shared_weights` of :class:`~skdpspectral.LRSRegressor`, as in
    ``LRSRegressor(shared_weights=UserWeights(ridge=0.1))``.

    Parameters
    ----------
    ridge : float, default=10.0
        Penalty on :math:`|w_i|^2`, in rows of unit length; 0 for noiseless targets.
    """

    _parameter_constraints: ClassVar[dict] = {"ridge": [_PENALTIES]}

    ridge: float = 10.0


# Constructor parameters, each on its own; those of budgets are every estimator's.
CONSTRAINTS = {
    "n_components": [Interval(Integral, 0, None, closed="left")],
    "sparsity": [Interval(Integral, 0, None, closed="left"), None],
    "user_feature": [Integral, str, None],
    "unknown_user": [StrOptions({"shared", "raise"})],
    "fit_intercept": [StrOptions({"user"}), "boolean", UserIntercept],
    "shared_weights": [StrOptions({"user", "fixed"}), UserWeights],
    "ridge_sparse": [_PENALTIES],
    "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
    "solver": [StrOptions({"auto"}), PrivateRounds, Alternation, GivenDirections],
    "scale": ["boolean", "array-like"],
    "n_jobs": [Integral, None],
    "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
}


def check_lrs_parameters(model) -> None:
    """Refuse combinations of individually valid parameters."""
    if isinstance(model.fit_intercept, (bool, np.bool_)) and model.fit_intercept:
        raise ValueError(
            'fit_intercept must be "user", UserIntercept(...) or False, got True: a '
            "common intercept of all users would have to be released"
        )
    if model.sparsity is None and not model.ridge_sparse:
        raise ValueError(
            "sparsity=None requires ridge_sparse > 0: without a penalty a user with "
            "few rows has no unique model of all features"
        )
    if model._is_private() and model.unknown_user == "raise":
        raise ValueError(
            'unknown_user="raise" requires epsilon=None: an error would reveal who '
            'was in the training set; use unknown_user="shared"'
        )
    solver = solver_of(model)
    if is_fixed(model):
        _check_fixed_weights(model, solver)


_IN_A_GRID = " (in a search, use a separate grid for epsilon=None)"


def is_fixed(model) -> bool:
    """Return whether all weights are one, and users have none of their own."""
    return isinstance(model.shared_weights, str) and model.shared_weights == "fixed"


def _check_fixed_weights(model, solver) -> None:
    if model.n_components != 1:
        raise ValueError(
            'shared_weights="fixed" needs n_components=1, got '
            f"n_components={model.n_components}: one central model has one direction"
        )
    start = getattr(solver, "init", "spectral")
    if not (isinstance(start, str) and start == "spectral"):
        raise ValueError(
            'init of solver is not used with shared_weights="fixed", which starts '
            'from zero: leave init="spectral", or pass a central model with '
            "solver=GivenDirections(...), which is not changed"
        )


# Copies: another thread may change a strategy between a plan and its releases.


def solver_of(model) -> PrivateRounds | Alternation | GivenDirections:
    """Return a copy of the solver of U."""
    private = model._is_private()
    if isinstance(model.solver, str):
        return PrivateRounds() if private else Alternation()
    solver = snapshot(model.solver)
    if private and isinstance(solver, Alternation):
        raise ValueError(
            f"solver={solver!r} needs epsilon=None: with a budget use "
            f'PrivateRounds(n_rounds=...); leave solver="auto"{_IN_A_GRID}'
        )
    if not private and isinstance(solver, PrivateRounds):
        raise ValueError(
            f"solver={solver!r} needs a budget: with epsilon=None use "
            f'Alternation(max_iter=...); leave solver="auto"{_IN_A_GRID}'
        )
    if isinstance(solver, PrivateRounds):
        solver._check_share()
    return solver


def intercept_of(model) -> UserIntercept | None:
    """Return a copy of the intercept strategy; None without intercepts."""
    given = model.fit_intercept
    if isinstance(given, UserIntercept):
        return snapshot(given)
    return UserIntercept() if isinstance(given, str) else None


def ridge_of_weights(model) -> float:
    """Return the penalty of the users' weights."""
    given = model.shared_weights
    return float((UserWeights() if isinstance(given, str) else given).ridge)


def most_steps(model) -> int:
    """Return the largest number of steps of a fit."""
    solver = solver_of(model)
    steps = {PrivateRounds: "n_rounds", Alternation: "max_iter"}.get(type(solver))
    return int(getattr(solver, steps)) if steps else 1


def shared_statistic(model, solver, n_features: int):
    """Return the statistic of the shared directions."""
    rank, fixed = min(int(model.n_components), n_features), is_fixed(model)
    rules = model._rules(n_features, model._public_prior(rank))
    users = Users(rules, n_features, Neighbors(model.neighbors), model.n_jobs)
    if isinstance(solver, Alternation):
        shrink = solver.shrink_to_mean and not fixed
        return ExactDirections(
            users, solver.max_iter, solver.tol, shrink, solver.update
        )
    if isinstance(solver, GivenDirections):
        return SharedDirections(users, n_releases=0)
    spectral = isinstance(solver.init, str) and solver.init == "spectral"
    return SharedDirections(
        users,
        n_releases=int(solver.n_rounds) if rank else 0,
        release_start=bool(rank) and spectral and not fixed,
        clip_curvature=_as_float(solver.curvature_clip_norm),
        clip_gradient=_as_float(solver.gradient_clip_norm),
        clip_share=float(solver.median_share),
        fresh=bool(solver.fresh_rows),
    )


def _as_float(value) -> float | None:
    return None if value is None else float(value)


def public_scale(model, n_features: int) -> np.ndarray | None:
    """Return public scales; None if they come from the data."""
    if isinstance(model.scale, (bool, np.bool_)):
        public = model._is_private() or isinstance(model.solver, GivenDirections)
        return np.ones(n_features) if public or not model.scale else None
    scale = _numbers(model.scale, "scale")
    if scale is None or scale.shape != (n_features,) or not (scale > 0.0).all():
        raise ValueError(
            f"scale must be a boolean, or contain a positive number for each of the "
            f"{n_features} features"
        )
    return scale


def given_start(model, solver, n_features: int) -> np.ndarray | None:
    """Return the array of shape (d, r) that U starts from or equals, or None."""
    frozen = isinstance(solver, GivenDirections)
    given = solver.components if frozen else solver.init
    if isinstance(given, str):
        return None
    shape = (min(int(model.n_components), n_features), n_features)
    name = "components" if frozen else "init"
    start = _numbers(given, name)
    if start is None or start.shape != shape:
        others = "" if frozen else "a string, or "
        raise ValueError(
            f"{name} of solver must be {others}finite numbers of shape "
            f"(n_components, n_features) = {shape}"
        )
    if is_fixed(model):  # a central model, of any length
        return start.T.copy()
    return _kernels_shared.positive_qr(start.T)[0]


def start_of(model, solver, release, given, n_features: int):
    """Return the start of U: (d, r), the name of a kernel's start, or None.

    None means that the start is released. Arrays do not depend on the data.
    """
    if given is not None:
        return given
    if is_fixed(model):
        return np.zeros((n_features, 1))
    if solver.init == "random":
        shape = (n_features, min(int(model.n_components), n_features))
        return _kernels_shared.positive_qr(release.public_normals(shape))[0]
    return None if isinstance(solver, PrivateRounds) else solver.init


def _numbers(values, name: str) -> np.ndarray | None:
    """Return finite float64 numbers, or None."""
    refuse_masked(values, name)
    found = as_numbers(values, "biufO")
    return found if found is not None and np.isfinite(found).all() else None


def columns_beside(model) -> dict[str, int | str]:
    """Return the columns of X that are no features, by parameter."""
    intercept = intercept_of(model)
    offset = None if intercept is None else intercept.offset_feature
    columns = {"user_feature": model.user_feature, "offset_feature": offset}
    return {name: place for name, place in columns.items() if place is not None}


def find_offset(model, X, n_features: int) -> int | None:
    """Return the position of the offsets among the columns without users, or None.

    Only the names and the number of the columns of X are read.
    """
    columns = columns_beside(model)
    feature = columns.get("offset_feature")
    if feature is None:
        return None
    check_feature(feature, "offset_feature")
    names = column_names(X)
    if names is None:
        if isinstance(feature, str):
            raise ValueError(
                f"offset_feature={feature!r}, but X has no column names: pass its "
                "position, or pass a dataframe (in a pipeline, use "
                'set_output(transform="pandas"))'
            )
        names = range(table_shape(X)[1])
    n_columns = len(names)
    place = position_of(feature, list(names), "offset_feature") % n_columns
    if n_features < 2:
        raise ValueError(
            "X must have features besides offset_feature, but has n_features = "
            f"{n_columns}: Found array with 0 feature(s) apart from offsets and ids, "
            "while a minimum of 1 is required"
        )
    if model.user_feature is None:
        return place
    user = position_of(model.user_feature, list(names), "user_feature") % n_columns
    if user == place:
        raise ValueError("offset_feature and user_feature name the same column")
    return place - (place > user)


def split_offsets(table: UserTable, place: int | None) -> tuple[UserTable, np.ndarray]:
    """Return a table without its column of offsets, and the offsets (n_rows,).

    `place` is None for no offsets, which gives zeros.
    """
    if place is None:
        return table, np.zeros(len(table.X))
    offsets = np.asarray(table.X[:, place], dtype=np.float64)
    return replace(table, X=np.delete(table.X, place, axis=1)), offsets


def read_like_fit(model, X, users) -> tuple[UserTable, np.ndarray]:
    """Return the features of fit, and the offsets, for a fitted model."""
    table = read_users(model, X, users, model.user_feature, reset=False)
    place = find_offset(model, X, table.n_features)
    table, offsets = split_offsets(table, place)
    if table.n_features != len(model.scale_):
        raise ValueError(
            f"X has {table.n_features} features besides users and offsets, but fit "
            f"had {len(model.scale_)}: user_feature or offset_feature was changed "
            "since fit"
        )
    return table, offsets
