"""Solvers and intercepts of LRSRegressor, and checks of its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register
from .._tables.columns import as_numbers, place_of, refuse_masked
from .._tables.table import Table, UserTable, read_users
from ..mechanisms import Neighbors
from . import _kernels_shared
from ._kernels_users import LocalRules
from ._shared_directions import ExactDirections, SharedDirections

_NORMS = Interval(Real, 1e-60, 1e60, closed="both")
_PENALTIES = Interval(Real, 0, 1e60, closed="both")


@register
@dataclass(eq=False, repr=False)
class PrivateRounds(BaseEstimator):
    r"""Estimate shared directions privately in a fixed number of releases.

    A `solver` of :class:`~skdpspectral.LRSRegressor`. Each user contributes one vector
    to each release. Contributions above the clip norms are scaled down.

    Parameters
    ----------
    n_rounds : int, default=6
        Number of releases of U. It is fixed before the fit, because private data must
        not determine when to stop. With 0, `init` is kept and nothing is released.
    init : "spectral" or array-like, default="spectral"
        Initial U. "spectral": the leading directions of the users' correlations
        :math:`X_i'y_i`, which are the first release. An array of shape (n_components,
        n_features) must not depend on private data. Its rows are orthonormalized,
        except with
        ``shared_weights="fixed"``, where it is the central model itself and requires
        ``n_rounds=0``.
    curvature_clip_norm, gradient_clip_norm : float or None, default=None
        Public clip norms, in [1e-60, 1e60], of the curvature
        :math:`w_iw_i' \otimes X_i'X_i/m_i` and of the gradient
        :math:`X_i'(y_i - X_ib_i)w_i'/m_i` of a user. None uses a private median over
        the users, for a tenth of the budget's :math:`\mu^2` in all.

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
        "n_rounds": [Interval(Integral, 0, 10_000, closed="both")],
        "init": [StrOptions({"spectral"}), "array-like"],
        "curvature_clip_norm": [_NORMS, None],
        "gradient_clip_norm": [_NORMS, None],
    }

    n_rounds: int = 6
    _: KW_ONLY
    init: Any = "spectral"
    curvature_clip_norm: float | None = None
    gradient_clip_norm: float | None = None


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
    init : "spectral" or array-like, default="spectral"
        Initial U. "spectral": the leading directions of the users' correlations
        :math:`X_i'y_i`. An array has shape ``(n_components, n_features)``.
    shrink_to_mean : bool, default=True
        Whether weights are shrunk towards their mean over users instead of zero.
    """

    _array_parameters: ClassVar[tuple[str, ...]] = ("init",)
    _parameter_constraints: ClassVar[dict] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "init": [StrOptions({"spectral"}), "array-like"],
        "shrink_to_mean": ["boolean"],
    }

    max_iter: int = 50
    tol: float = 1e-6
    _: KW_ONLY
    init: Any = "spectral"
    shrink_to_mean: bool = True


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


# Constructor parameters, each on its own; those of budgets are every estimator's.
CONSTRAINTS = {
    "n_components": [Interval(Integral, 0, None, closed="left")],
    "sparsity": [Interval(Integral, 0, None, closed="left"), None],
    "user_feature": [Integral, str, None],
    "fit_intercept": [StrOptions({"user"}), "boolean", UserIntercept],
    "shared_weights": [StrOptions({"user", "fixed"})],
    "ridge_shared": [_PENALTIES],
    "ridge_sparse": [_PENALTIES],
    "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
    "solver": [StrOptions({"auto"}), PrivateRounds, Alternation],
    "scale": ["boolean", "array-like"],
    "n_jobs": [Integral, None],
    "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
}


def check_lrs_parameters(model) -> None:
    """Refuse combinations of individually valid parameters."""
    for message in _refusals(model):
        raise ValueError(message)


_IN_A_GRID = 'leave solver="auto" (in a search, use a separate grid for epsilon=None)'


def _refusals(model) -> Iterator[str]:
    private, solver = model._is_private(), solver_of(model)
    is_given = not isinstance(solver.init, str)
    kept = isinstance(solver, PrivateRounds) and not solver.n_rounds
    if isinstance(model.fit_intercept, (bool, np.bool_)) and model.fit_intercept:
        yield (
            'fit_intercept must be "user", UserIntercept(...) or False, got True: a '
            "common intercept of all users would have to be released"
        )
    if model.sparsity is None and not model.ridge_sparse:
        yield (
            "sparsity=None requires ridge_sparse > 0: without a penalty a user with "
            "few rows has no unique model of all features"
        )
    if private and isinstance(solver, Alternation):
        yield (
            f"solver={solver!r} needs epsilon=None: with a budget use "
            f"PrivateRounds(n_rounds=...); {_IN_A_GRID}"
        )
    if not private and isinstance(solver, PrivateRounds):
        yield (
            f"solver={solver!r} needs a budget: with epsilon=None use "
            f"Alternation(max_iter=...); {_IN_A_GRID}"
        )
    if kept and not is_given:
        yield (
            "solver: n_rounds=0 keeps the directions of init, which must then be an "
            "array of public directions"
        )
    if not is_fixed(model):
        return
    if model.n_components != 1:
        yield (
            'shared_weights="fixed" needs n_components=1, got '
            f"n_components={model.n_components}: one central model has one direction"
        )
    if (is_given or solver.init != "spectral") and not kept:
        yield (
            'init of solver is not used with shared_weights="fixed", which starts '
            'from zero: leave init="spectral", or pass a central model that is not '
            "changed with solver=PrivateRounds(0, init=...)"
        )


def is_fixed(model) -> bool:
    """Return whether all weights are one, and users have none of their own."""
    return model.shared_weights == "fixed"


def solver_of(model) -> PrivateRounds | Alternation:
    """Return the solver of U."""
    if isinstance(model.solver, str):
        return PrivateRounds() if model._is_private() else Alternation()
    return model.solver


def intercept_of(model) -> UserIntercept | None:
    """Return the intercept strategy; None without intercepts."""
    given = model.fit_intercept
    if isinstance(given, UserIntercept):
        return given
    return UserIntercept() if isinstance(given, str) else None


def most_steps(model) -> int:
    """Return the largest number of steps of a fit."""
    solver = solver_of(model)
    most = solver.n_rounds if isinstance(solver, PrivateRounds) else solver.max_iter
    return max(int(most), 1)


def shared_statistic(model, rules: LocalRules, n_features: int):
    """Return the statistic of the shared directions."""
    solver, fixed = solver_of(model), is_fixed(model)
    users = rules, n_features, Neighbors(model.neighbors), model.n_jobs
    if isinstance(solver, Alternation):
        shrink = solver.shrink_to_mean and not fixed
        return ExactDirections(*users, solver.max_iter, solver.tol, shrink)
    n_releases = int(solver.n_rounds) if len(rules.prior) else 0
    spectral = isinstance(solver.init, str) and solver.init == "spectral"
    norms = solver.curvature_clip_norm, solver.gradient_clip_norm
    return SharedDirections(
        *users,
        n_releases,
        release_start=n_releases > 0 and spectral and not fixed,
        clip_norms=tuple(None if norm is None else float(norm) for norm in norms),
    )


def public_scale(model, n_features: int) -> np.ndarray | None:
    """Return public scales; None if they come from the data."""
    if isinstance(model.scale, (bool, np.bool_)):
        from_data = model.scale and not model._is_private()
        return None if from_data else np.ones(n_features)
    scale = _numbers(model.scale, "scale")
    if scale is None or scale.shape != (n_features,) or not (scale > 0.0).all():
        raise ValueError(
            f"scale must be a boolean, or contain a positive number for each of the "
            f"{n_features} features"
        )
    return scale


def given_start(model, n_features: int) -> np.ndarray | None:
    """Return the array of shape (d, r) that U starts from or equals, or None."""
    given = solver_of(model).init
    if isinstance(given, str):
        return None
    shape = (min(int(model.n_components), n_features), n_features)
    start = _numbers(given, "init")
    if start is None or start.shape != shape:
        raise ValueError(
            "init of solver must be a string, or finite numbers of shape "
            f"(n_components, n_features) = {shape}"
        )
    if is_fixed(model):  # a central model, of any length
        return start.T.copy()
    return _kernels_shared.positive_qr(start.T)[0]


def start_of(model, given, n_features: int):
    """Return a public start of U, (d, r), or its name; None if it is released."""
    solver = solver_of(model)
    if given is not None:
        return given
    if is_fixed(model):
        return np.zeros((n_features, 1))
    return None if isinstance(solver, PrivateRounds) else solver.init


def _numbers(values, name: str) -> np.ndarray | None:
    """Return finite float64 numbers, or None."""
    refuse_masked(values, name)
    found = as_numbers(values, "biufO")
    return found if found is not None and np.isfinite(found).all() else None


def columns_beside(model) -> dict[str, int | str]:
    """Return the columns of X that are no features, by parameter."""
    offset = getattr(intercept_of(model), "offset_feature", None)
    columns = {"user_feature": model.user_feature, "offset_feature": offset}
    return {name: place for name, place in columns.items() if place is not None}


def find_offset(model, X, n_features: int) -> int | None:
    """Return the position of the offsets among the columns without users, or None."""
    columns = columns_beside(model)
    if "offset_feature" not in columns:
        return None
    like = Table.form(X).like
    places = {name: place_of(like, at, name) for name, at in columns.items()}
    place, user = places["offset_feature"], places.get("user_feature", np.inf)
    if user == place:
        raise ValueError("offset_feature and user_feature name the same column")
    if n_features < 2:
        raise ValueError(
            f"X must have features besides {' and '.join(columns)}, got "
            f"n_features = {n_features} beside users: 0 feature(s) are left"
        )
    return place - (place > user)


def split_offsets(table: UserTable, place: int | None) -> tuple[UserTable, np.ndarray]:
    """Return a table without its column of offsets, if any, and the offsets."""
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
