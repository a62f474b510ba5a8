"""What parameters of LRSRegressor mean together: refusals, the statistic, the start.

What the chosen way does not use is refused, and not ignored: whoever sets it believes
that it does something.

How LRSRegressor clips users with a budget, and how it iterates without one.

Columns that are added to predictions: no features, and taken off the targets.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._base.sklearn_compat import FitProgress, Interval, StrOptions
from .._base.strategies import register, snapshot
from .._tables.entries import refuse_masked
from .._tables.ids import check_feature, column_names, position_of
from .._tables.rows import table_shape
from .._tables.users import UserTable, read_users
from ..mechanisms import Neighbors
from . import _kernels_shared
from ._shared_directions import ExactDirections, SharedDirections, Users

_NORMS = Interval(Real, 1e-60, 1e60, closed="both")


_DEFAULT_SHARE = 0.1


@register
class Clip(BaseEstimator):
    r"""Norms above which a user's contribution is scaled down, with a budget.

    Parameters
    ----------
    curvature, gradient : float or None, default=None
        Public norms, in [1e-60, 1e60], of the curvature
        :math:`w_iw_i' \otimes X_i'X_i/m_i` and of the gradient part
        :math:`X_i'(y_i - X_ib_i)w_i'/m_i` of an ordinary user. None takes a private
        median over the users.
    share : float, default=0.1
        Share of the budget's :math:`\mu^2` for the medians, in (0, 1); refused where
        both norms are given, which leave no median to pay for.

    See Also
    --------
    skdpspectral.LRSRegressor : Its parameter `clip`.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.linear_model import Clip
    >>> model = LRSRegressor(clip=Clip(curvature=3.3, gradient=1.0), n_rounds=2)
    >>> [mechanism.name for mechanism in model.privacy_plan(10).mechanisms]
    ['start', 'moments_1']
    >>> model.set_params(clip__gradient=None).clip
    Clip(curvature=3.3)
    """

    _parameter_constraints: ClassVar[dict] = {
        "curvature": [_NORMS, None],
        "gradient": [_NORMS, None],
        "share": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(self, curvature=None, gradient=None, share=_DEFAULT_SHARE):
        self.curvature = curvature
        self.gradient = gradient
        self.share = share

    def _check_share(self) -> None:
        """Refuse a share of the budget that nothing would be released for."""
        given = self.curvature is not None and self.gradient is not None
        if given and self.share != _DEFAULT_SHARE:
            raise ValueError(
                f"clip: share={self.share!r} pays for private medians, and there are "
                "none to find where curvature and gradient are given: leave share="
                f"{_DEFAULT_SHARE}, or one of them None"
            )


@register
class Alternation(BaseEstimator):
    """Alternation of users and shared directions until rest, without privacy.

    Parameters
    ----------
    max_iter : int, default=50
        Largest number of iterations, at least 1.
    tol : float, default=1e-6
        Iterations end when U moves by at most this distance, at least 0.
    shrink_to_mean : bool, default=True
        Whether weights are shrunk to their mean over users, in place of zero.
    update : {"auto", "direct", "cached", "cg"}, default="auto"
        How U is improved: from the curvature, made anew or of Grams that are kept in
        memory, or by conjugate gradients, whose cost does not depend on
        `n_components`. With ``ridge_shared=0`` all lead to the same U; with a penalty,
        which is on w and not on U, they may rest at slightly different U.

    See Also
    --------
    skdpspectral.LRSRegressor : Its parameter `solver`, for ``epsilon=None`` alone.

    Examples
    --------
    >>> from skdpspectral import LRSRegressor
    >>> from skdpspectral.linear_model import Alternation
    >>> model = LRSRegressor(epsilon=None, solver=Alternation(max_iter=100))
    >>> model.set_params(solver__tol=1e-3).solver
    Alternation(max_iter=100, tol=0.001)
    """

    _parameter_constraints: ClassVar[dict] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "shrink_to_mean": ["boolean"],
        "update": [StrOptions({"auto", "direct", "cached", "cg"})],
    }

    def __init__(self, max_iter=50, tol=1e-6, shrink_to_mean=True, update="auto"):
        self.max_iter = max_iter
        self.tol = tol
        self.shrink_to_mean = shrink_to_mean
        self.update = update


STARTS = {"spectral", "random", "moments"}


# Defaults that a fit without use for them knows them by.
N_ROUNDS = 6


RIDGE_SHARED = 10.0


_PENALTIES = Interval(Real, 0, 1e60, closed="both")


# Constructor parameters, each on its own; those of budgets are every estimator's.
CONSTRAINTS = {
    "n_components": [Interval(Integral, 0, None, closed="left")],
    "sparsity": [Interval(Integral, 0, None, closed="left"), None],
    "user_feature": [Integral, str, None],
    "offset_feature": [Integral, str, None],
    "unknown_user": [StrOptions({"shared", "raise"})],
    "fit_intercept": [StrOptions({"user"}), "boolean"],
    "prior_intercept": [Interval(Real, -1e60, 1e60, closed="both"), None],
    "ridge_intercept": [_PENALTIES],
    "shared_weights": [StrOptions({"user", "fixed"})],
    "init": [StrOptions(STARTS), "array-like"],
    "ridge_shared": [_PENALTIES],
    "ridge_sparse": [_PENALTIES],
    "n_rounds": [Interval(Integral, 0, 10_000, closed="both")],
    "fresh_rows": ["boolean"],
    "clip": [StrOptions({"private"}), Clip],
    "neighbors": [StrOptions({"add-remove-one", "replace-one"})],
    "solver": [StrOptions({"auto"}), Alternation],
    "scale": ["boolean", "array-like"],
    "n_jobs": [Integral, None],
    "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
}


_IN_A_GRID = " (a search gives epsilon=None a grid of its own)"


def check_lrs_parameters(model) -> None:
    """Refuse parameters that do not go together.

    Parameters
    ----------
    model : LRSRegressor
        Of which each parameter is valid on its own.

    Raises
    ------
    ValueError
        Naming the parameter and the remedy.
    """
    if model.fit_intercept is not False and model.fit_intercept != "user":
        raise ValueError(
            f'fit_intercept must be "user" or False, got {model.fit_intercept!r}: '
            "an intercept of all users would have to be released"
        )
    if model.fit_intercept is False:
        _check_no_intercept(model)
    if model.sparsity is None and not model.ridge_sparse:
        raise ValueError(
            "sparsity=None needs ridge_sparse > 0: without a penalty a user of few "
            "rows has no one model of all features"
        )
    if not model.n_rounds:
        _check_frozen(model)
    if model.shared_weights == "fixed":
        _check_fixed_weights(model)
    if model._is_private():
        _check_private_fit(model)
    else:
        _check_exact_fit(model)


def is_frozen(model) -> bool:
    """Whether the shared directions are given, and stay as they are."""
    return not model.n_rounds and model.n_components > 0


def _check_frozen(model) -> None:
    if isinstance(model.init, str):
        raise ValueError(
            "n_rounds=0 keeps the shared directions that init holds: give an array, or "
            "ask for n_rounds of at least 1"
        )
    unused = {"fresh_rows": (bool(model.fresh_rows), False)}
    for name, default in (("clip", "private"), ("solver", "auto")):
        unused[name] = not isinstance(getattr(model, name), str), default
    for name, (is_set, default) in unused.items():
        if is_set:
            raise ValueError(
                f"{name}={getattr(model, name)!r} is not used with n_rounds=0, which "
                f"looks for nothing: leave {name}={default!r}"
            )


def _check_no_intercept(model) -> None:
    for name, default in (("prior_intercept", None), ("ridge_intercept", 0.0)):
        if getattr(model, name) != default:
            raise ValueError(
                f"{name}={getattr(model, name)!r} is not used with "
                f"fit_intercept=False: leave {name}={default}, or fit_intercept"
                '="user"'
            )


def _check_fixed_weights(model) -> None:
    if model.n_components != 1:
        raise ValueError(
            'shared_weights="fixed" needs n_components=1, got '
            f"n_components={model.n_components}: one central model has one direction"
        )
    given = not isinstance(model.init, str)
    if given != is_frozen(model) or not (given or model.init == "spectral"):
        raise ValueError(
            'init is not used with shared_weights="fixed", which starts from '
            'nothing: leave init="spectral", or give a central model that stays as it '
            "is, with n_rounds=0"
        )
    if model.ridge_shared not in (0.0, RIDGE_SHARED):
        raise ValueError(
            f"ridge_shared={model.ridge_shared!r} is not used with "
            'shared_weights="fixed", where there are no weights to penalize: leave '
            f"ridge_shared={RIDGE_SHARED}, or 0"
        )


def _check_private_fit(model) -> None:
    clip_of(model)._check_share()
    if model.unknown_user == "raise":
        raise ValueError(
            'unknown_user="raise" needs epsilon=None: an error would tell who was '
            'in the training set; use unknown_user="shared"'
        )
    if isinstance(model.init, str) and model.init == "moments":
        raise ValueError(
            'init="moments" needs epsilon=None: it is made from the data; use '
            '"spectral", which is released with noise, "random" or a public array'
        )
    if not isinstance(model.solver, str):
        raise ValueError(
            f"solver={model.solver!r} needs epsilon=None: with a budget U comes "
            f'from n_rounds releases; leave solver="auto"{_IN_A_GRID}'
        )


def _check_exact_fit(model) -> None:
    if model.fresh_rows:
        raise ValueError(
            "fresh_rows=True needs a budget: with epsilon=None every iteration has all "
            f"rows; leave fresh_rows=False{_IN_A_GRID}"
        )
    if model.n_rounds not in (0, N_ROUNDS):
        raise ValueError(
            f"n_rounds={model.n_rounds!r} needs a budget: with epsilon=None see "
            f"Alternation(max_iter=...) for solver; leave n_rounds={N_ROUNDS}"
            f"{_IN_A_GRID}"
        )
    if not isinstance(model.clip, str):
        raise ValueError(
            f"clip={model.clip!r} needs a budget: with epsilon=None nobody is "
            f'scaled down; leave clip="private"{_IN_A_GRID}'
        )


# Copies: another thread may change a strategy between a plan and its releases.


def clip_of(model) -> Clip:
    """Return how users are clipped, as it is now."""
    return Clip() if isinstance(model.clip, str) else snapshot(model.clip)


def alternation_of(model) -> Alternation:
    """Return how U is found without a budget, as it is now."""
    return Alternation() if isinstance(model.solver, str) else snapshot(model.solver)


def progress_of(model) -> FitProgress:
    """Return what is told of the steps of a fit, as many as there may be."""
    private, most = model._is_private(), max(int(model.n_rounds), 1)
    if not (private or is_frozen(model)):
        most = alternation_of(model).max_iter
    return FitProgress(model, most, private=private, verbose=model.verbose)


def shared_statistic(model, n_features: int) -> SharedDirections | ExactDirections:
    """Return the statistic that the shared directions come from.

    Parameters
    ----------
    model : LRSRegressor
        With parameters that go together.
    n_features : int
        Number of features.

    Returns
    -------
    SharedDirections or ExactDirections
        With a budget, or without one.
    """
    rank, fixed = min(int(model.n_components), n_features), model._fixed()
    rules = model._rules(n_features, model._public_prior(rank))
    users = Users(rules, n_features, Neighbors(model.neighbors), model.n_jobs)
    if not (model._is_private() or is_frozen(model)):
        solver = alternation_of(model)
        shrink = solver.shrink_to_mean and not fixed
        return ExactDirections(
            users, solver.max_iter, solver.tol, shrink, solver.update
        )
    clip = clip_of(model)
    spectral = isinstance(model.init, str) and model.init == "spectral"
    return SharedDirections(
        users,
        n_releases=int(model.n_rounds) if rank else 0,
        release_start=bool(rank) and spectral and not fixed,
        clip_curvature=_as_float(clip.curvature),
        clip_gradient=_as_float(clip.gradient),
        clip_share=float(clip.share),
        fresh=bool(model.fresh_rows),
    )


def _as_float(value) -> float | None:
    return None if value is None else float(value)


def public_scale(model, n_features: int) -> np.ndarray | None:
    """Return public scales, or None where they would come from the data.

    Raises
    ------
    ValueError
        If `scale` is neither a boolean nor a positive number a feature.
    """
    if isinstance(model.scale, (bool, np.bool_)):
        public = model._is_private() or is_frozen(model)
        return np.ones(n_features) if public or not model.scale else None
    scale = _numbers(model.scale, "scale")
    if scale is None or scale.shape != (n_features,) or not (scale > 0.0).all():
        raise ValueError(
            f"scale must be a boolean, or hold a positive number for each of the "
            f"{n_features} features"
        )
    return scale


def given_start(model, n_features: int) -> np.ndarray | None:
    """Return the start that `init` holds, of shape (d, r), or None.

    Raises
    ------
    ValueError
        If `init` is an array of another shape, or not of finite numbers.
    """
    if isinstance(model.init, str):
        return None
    shape = (min(int(model.n_components), n_features), n_features)
    start = _numbers(model.init, "init")
    if start is None or start.shape != shape:
        raise ValueError(
            f"init must be one of {sorted(STARTS)}, or finite numbers of shape "
            f"(n_components, n_features) = {shape}"
        )
    if model._fixed():  # a central model, of any length
        return start.T.copy()
    return _kernels_shared.positive_qr(start.T)[0]


def start_of(model, release, given, n_features: int):
    """Return where U starts: (d, r), the name of what a kernel makes, or None.

    None stands for a start that is released. Arrays owe nothing to the data.
    """
    if model._fixed() and not is_frozen(model):
        return np.zeros((n_features, 1))
    if isinstance(model.init, str) and model.init == "random":
        shape = (n_features, min(int(model.n_components), n_features))
        return _kernels_shared.positive_qr(release.public_normals(shape))[0]
    if given is None and not model._is_private():
        return model.init
    return given


def _numbers(values, name: str) -> np.ndarray | None:
    """Return finite float64 numbers, or None."""
    refuse_masked(values, name)
    try:
        values = np.asarray(values)
        if values.dtype.kind not in "biufO":
            return None
        values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return values if np.isfinite(values).all() else None


_LARGEST = np.finfo(float).max


def find_offset(model, X, n_features: int) -> int | None:
    """Return the place of the offsets among columns that hold no users, or None.

    Parameters
    ----------
    model : LRSRegressor
        With parameters `user_feature` and `offset_feature`.
    X : array-like or dataframe of shape (n_rows, n_columns)
        Of which the names of columns are read, and their number.
    n_features : int
        Columns that hold no users.

    Raises
    ------
    ValueError, TypeError
        Naming `offset_feature`.
    """
    feature = model.offset_feature
    if feature is None:
        return None
    check_feature(feature, "offset_feature")
    names = column_names(X)
    if names is None:
        if isinstance(feature, str):
            raise ValueError(
                f"offset_feature={feature!r}, but X has no column names: name the "
                "position, or pass a dataframe, in a pipeline by "
                'set_output(transform="pandas")'
            )
        names = range(table_shape(X)[1])
    n_columns = len(names)
    place = position_of(feature, list(names), "offset_feature") % n_columns
    if n_features < 2:
        raise ValueError(
            "X must have features beside offset_feature, but has n_features = "
            f"{n_columns}: Found array with 0 feature(s) apart from offsets and ids, "
            "while a minimum of 1 is required"
        )
    if model.user_feature is None:
        return place
    user = position_of(model.user_feature, list(names), "user_feature") % n_columns
    if user == place:
        raise ValueError("offset_feature and user_feature name the same column")
    return place - (place > user)


def without_offset(table: UserTable, place: int | None) -> tuple[UserTable, np.ndarray]:
    """Take the offsets out of a table.

    Parameters
    ----------
    table : UserTable
        Rows.
    place : int or None
        Of the offsets among the features; None for no offsets.

    Returns
    -------
    table : UserTable
        Without the offsets.
    offsets : ndarray of shape (n_rows,)
        The offsets; zeros where there are none.
    """
    if place is None:
        return table, np.zeros(len(table.X))
    columns = np.arange(table.X.shape[1])[table.columns]
    offsets = np.asarray(table.X[:, columns[place]], dtype=np.float64)
    return replace(table, columns=np.delete(columns, place)), offsets


def rest_of(y: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """What offsets leave of the targets, row by row; finite."""
    with np.errstate(all="ignore"):  # an overflow would tell of somebody's target
        return np.clip(y - offsets, -_LARGEST, _LARGEST)


def read_like_fit(model, X, users) -> tuple[UserTable, np.ndarray]:
    """Read rows for a fitted model.

    Parameters
    ----------
    model : LRSRegressor
        Fitted.
    X, users
        As for its methods.

    Returns
    -------
    table : UserTable
        With the features of fit.
    offsets : ndarray of shape (n_rows,)
        The offsets.

    Raises
    ------
    ValueError, TypeError
        Naming what is wrong.
    """
    table = read_users(model, X, users, model.user_feature, reset=False)
    place = find_offset(model, X, table.n_features)
    table, offsets = without_offset(table, place)
    if table.n_features != len(model.scale_):
        raise ValueError(
            f"X has {table.n_features} features beside users and offsets, and fit had "
            f"{len(model.scale_)}: user_feature or offset_feature were changed since"
        )
    return table, offsets
