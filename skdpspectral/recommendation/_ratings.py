"""Users, items and ratings of tables, public catalogs, and the base of estimators."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from .._base.documented import documented
from .._base.estimator import PrivateEstimator, Seed
from .._base.sklearn_compat import Interval
from .._statistics.user_sums import MOST_EXACT_USERS
from .._tables import columns
from .._tables.table import (
    DeferredRead,
    Table,
    deferred_targets,
    opened,
    refuse_malformed,
    table_shape,
)
from ..accounting import PrivacyAccountant
from ..accounting._errors import warn
from ..mechanisms import Neighbors, PrivacyPlan, Unit, check_count
from ._item_models import FoundItems
from ._kernels import MOST_ITEMS, UserRatings

# -- what is public: catalogs, features, ranges ----------------------------------------


def read_catalog(items) -> columns.IdIndex:
    """Return an index of the items that are given."""
    if isinstance(items, (Set, Mapping)):
        raise TypeError("items must be ordered: pass a list, such as sorted(items)")
    index = columns.IdIndex(items, "items")
    if not len(index):
        raise ValueError("items must contain at least one id")
    if len(index) != len(index.codes):
        raise ValueError("items must not contain duplicate ids")
    return index.without_codes()


# A quarter of the range of ratings is at least this: ratings are divided by it.
_NARROWEST = 2.0**-1022


def read_range(rating_range) -> tuple[float, float]:
    """Return the public range of ratings."""
    low = high = math.nan
    if np.ndim(rating_range) == 1 and all(map(_is_real, rating_range)):
        with contextlib.suppress(ValueError, OverflowError):
            low, high = (float(value) for value in rating_range)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            "rating_range must be a pair (low, high) of finite numbers, low < high"
        )
    if 0.25 * high - 0.25 * low < _NARROWEST:
        raise ValueError(
            "rating_range is too narrow to distinguish ratings in float64; rescale the "
            "ratings to larger units"
        )
    return low, high


def _is_real(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def units(rating_range) -> tuple[float, float]:
    """Return the midpoint of the range of ratings, and a quarter of its width."""
    low, high = read_range(rating_range)
    return 0.5 * low + 0.5 * high, 0.25 * high - 0.25 * low


def public_features(item_features, n_items: int) -> np.ndarray:
    """Return public features of the items: (n_items, n_item_features)."""
    if item_features is None:
        return np.zeros((n_items, 0))
    columns.refuse_masked(item_features, "item_features")
    features = columns.as_numbers(item_features, "biufO")
    if features is None or features.ndim != 2 or len(features) != n_items:
        raise ValueError(
            "item_features must contain numbers, of shape (n_items, n_item_features) "
            f"with n_items = {n_items} as in items; encode text as numbers, for "
            "example with pandas.get_dummies"
        )
    if not np.isfinite(features).all():
        raise ValueError("item_features must be finite; fill in what is missing")
    return features


def refuse_another_order(item_features, items) -> None:
    """Refuse a dataframe of features whose index has the items, but not as `items`."""
    if not hasattr(item_features, "iloc") or np.ndim(items) != 1:
        return
    labels, given = list(item_features.index), list(items)
    with contextlib.suppress(TypeError):  # of labels without a hash
        common = labels != list(range(len(labels))) and set(labels) & set(given)
        if labels != given and common:
            raise ValueError(
                "item_features has an index of item ids that differ from items, or are "
                "in a different order; pass items=item_features.index, or "
                "item_features.to_numpy() if its rows follow items"
            )


# -- the form of a table ---------------------------------------------------------------

# Names of LensKit; where columns are only numbered, users are first, items second.
_DEFAULTS = {"user_feature": "user_id", "item_feature": "item_id"}


def open_path(X):
    """Return the parquet files at a path, opened; other tables unchanged."""
    return opened(X) if isinstance(X, (str, os.PathLike)) else X


def find_columns(estimator, names, n_columns: int) -> list[int]:
    """Return the positions of users and items."""
    found = []
    for place, (parameter, default) in enumerate(_DEFAULTS.items()):
        feature = getattr(estimator, parameter)
        columns.check_feature(feature, parameter)
        if feature == default and _by_place(names):
            feature = place
        if names is None and isinstance(feature, str):
            raise ValueError(
                f"{parameter}={feature!r}, but X has no column names: pass its "
                "position, or pass a dataframe"
            )
        labels = range(n_columns) if names is None else list(names)
        found.append(columns.position_of(feature, labels, parameter) % n_columns)
    if found[0] == found[1]:
        raise ValueError(
            "user_feature and item_feature name the same column; name two columns"
        )
    return found


def _by_place(names) -> bool:
    """Return whether columns have no names that are not mere numbers."""
    if names is None or all(isinstance(name, Integral) for name in names):
        return True
    parts = [re.fullmatch(r"(.*?)(\d+)", str(name), re.DOTALL) for name in names]
    if not all(parts) or len({part[1] for part in parts}) > 1:
        return False
    numbers = [int(part[2]) for part in parts]
    return all(after == before + 1 for before, after in pairwise(numbers))


def _compared_columns(estimator, table, reset: bool) -> list[int]:
    """Find users and items, and note the columns of a fit or compare others to them."""
    names, like, shape = table.names, table.like, table.shape
    if hasattr(estimator, "rating_feature") and not _by_place(names):
        # Other columns may come and go.
        _check_sizes(*shape)
        used = find_columns(estimator, names, len(names))
        like = columns.select_columns(like, names, used)
    elif reset:
        _refuse_wide(estimator, shape[1])
    validate_data(estimator, like, reset=reset, skip_check_array=True)
    _check_sizes(*shape)
    found = find_columns(estimator, names, shape[1])
    for place, name in zip(found, _DEFAULTS, strict=True):
        columns.check_id_type(table, place, name)
    if not reset:
        return found
    defaults = [p for p, name in _DEFAULTS.items() if getattr(estimator, p) == name]
    if names is not None and _by_place(names) and defaults:
        warn(
            "X has no columns user_id and item_id: the first is used for users and "
            f"the second for items; name {' and '.join(defaults)}, because the "
            "guarantee protects users",
            UserWarning,
        )
    dtype = table.dtypes[found[1] if len(table.dtypes) > 1 else 0]
    kind = None if dtype is None else columns.kind_of(dtype)
    if estimator.items is not None and kind in columns.TEXTS:
        read_catalog(estimator.items).find(["0"], "item_feature")  # of the same kind
    return found


def _check_sizes(n_rows: int, n_columns: int = 2) -> None:
    if n_columns < 2:
        raise ValueError(
            f"X must have a column of users and one of items, but has n_features = "
            f"{n_columns} (1 feature(s) where a minimum of 2 is required)"
        )
    if not n_rows:
        raise ValueError("X: Found array with 0 sample(s); a minimum of 1 is required")


def _refuse_wide(estimator, n_columns: int) -> None:
    """Refuse a table without names that has one column per item of the catalog."""
    by_default = all(getattr(estimator, k) == v for k, v in _DEFAULTS.items())
    if by_default and n_columns == np.size(estimator.items) > 3:
        raise ValueError(
            f"X has {n_columns} columns, as many as items: pass a matrix of users x "
            "items as scipy.sparse.csr_array(X); if X is a table of ratings, set "
            "user_feature and item_feature"
        )


class _Matrix:
    """A sparse matrix of users x items, as the table of its stored entries."""

    names = None

    def __init__(self, estimator, X, reset: bool) -> None:
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise ValueError(
                "X must contain real numbers in rows and columns if it is sparse"
            )
        refuse_malformed(X)
        _check_sizes(X.shape[0])
        if not X.shape[1]:
            raise ValueError("X must have a column for each item, and has 0 feature(s)")
        if X.format == "bsr":
            # One user's entries would decide which zeros of others are stored.
            raise ValueError(
                "X must not be a sparse matrix in blocks, whose padding cannot be "
                "distinguished from ratings of 0: pass X.tocsr() after "
                "eliminate_zeros()"
            )
        if not reset and estimator.n_features_in_ != 2:
            raise ValueError(
                f"X has 2 features, as the entries of a sparse matrix do, but "
                f"{type(estimator).__name__} is expecting {estimator.n_features_in_} "
                "features as input: pass a table"
            )
        items, n = estimator.items if reset else estimator.items_, X.shape[1]
        ids = np.arange(n) if items is None else read_catalog(items).ids
        if ids.dtype == object or not np.array_equal(np.sort(ids), range(n)):
            raise ValueError(
                f"X is a sparse matrix with {n} columns, which are the items 0 to "
                f"{n - 1}, but items contains {len(ids)} ids that differ: pass "
                f"items=range({n}) for these columns, or X.T if the rows of X are the "
                "items"
            )
        if reset:
            validate_data(estimator, np.empty((1, 2)), skip_check_array=True)
        self._X = X

    def blocks(self, places: list[int]) -> Iterator[list[np.ndarray]]:
        """Yield users, items and values of the entries, users first."""
        entries = self._X.tocsr(copy=True)
        entries.sum_duplicates()
        entries = entries.tocoo()
        _check_sizes(len(entries.data))
        yield [(entries.row, entries.col, entries.data)[place] for place in places]


# -- ratings ---------------------------------------------------------------------------


class Ratings:
    """A table of ratings whose form was checked; values are read after the charge."""

    def __init__(self, estimator, X, y=None, *, reset: bool, rated: bool = True):
        self.index = X.index if hasattr(X, "iloc") else None
        self._clicks = not rated or getattr(estimator, "implicit", False)
        self._name = getattr(estimator, "rating_feature", None)
        self._beside: DeferredRead | None = None
        if sparse.issparse(X):
            if y is not None:
                raise ValueError(
                    "y must be None if X is a sparse matrix of users x items, whose "
                    "entries are the ratings; for a pipeline, make a table from "
                    "X.tocoo()"
                )
            self._table = _Matrix(estimator, X, reset)
            self.places, self.names, self._name = [0, 1, 2], ["x0", "x1"], None
            return
        self._table = Table.form(open_path(X))
        self.places = _compared_columns(estimator, self._table, reset)
        n_rows, names = self._table.shape[0], self._table.names
        self.names = names or [f"x{j}" for j in range(self._table.shape[1])]
        if not self._clicks and y is None and names and self._name in names:
            self.places.append(list(names).index(self._name))
        elif not self._clicks and y is None and self._name is not None:
            # As scikit-learn's estimators say it, and what else there is.
            raise ValueError(
                f"{type(estimator).__name__} requires y to be passed, but the target "
                f"y is None, and X has no column named rating_feature={self._name!r}; "
                "pass a matrix of users x items as scipy.sparse.csr_array(X)"
            )
        elif rated and not (self._clicks and y is None):
            self._beside = deferred_targets(estimator, y, n_rows)

    def warn_of_others(self) -> None:
        """Warn of columns that are not used, which may hold ratings."""
        rest = [str(n) for j, n in enumerate(self.names) if j not in self.places]
        if rest:
            warn(
                "columns of X besides users and items are not used: "
                f"{', '.join(rest[:5])}{', ...' if len(rest) > 5 else ''}",
                UserWarning,
            )

    def read(self) -> Ratings:
        """Read `users`, `items` and `values` of all rows, unless they are elsewhere."""
        self._y = None
        if self._beside is not None and not self._clicks:
            self._y = self._beside.read()
        users, items, *rated = zip(*self._table.blocks(self.places), strict=True)
        users = [columns.id_array(part, "user_feature") for part in users]
        items = [columns.id_array(part, "item_feature") for part in items]
        self.users = columns.joined_ids(users, "user_feature")
        self.items = columns.joined_ids(items, "item_feature")
        self.values = np.zeros(len(self.users)) if self._y is None else self._y
        if rated:
            numbers = [_numbers(part, self._name) for part in rated[0]]
            self.values = np.concatenate(numbers)
        return self


def _numbers(column, name: str | None) -> np.ndarray:
    """Return ratings in a column of the table, or entries of a matrix."""
    numbers = columns.as_numbers(column, "biufO")
    if numbers is not None and np.isfinite(numbers).all():
        return numbers
    said = f"rating_feature={name!r} must name a column of finite numbers"
    said = "Input X contains NaN or infinity" if name is None else said
    raise ValueError(f"{said}: drop or fill rows without a rating")


# Integers up to here are exact in float64.
_LARGEST = 2**53


def beside_users(users: np.ndarray, numbers, names: list, kind: str, index):
    """Put numbers beside ids of users, in an array or in a dataframe of a library."""
    if kind == "default":
        whole = users.dtype != object and np.all(np.abs(users) <= _LARGEST)
        dtype = np.float64 if whole else object
        return np.column_stack([users.astype(dtype), numbers.astype(dtype)])
    columns.refuse_same_names(names, "transform")
    users = users.tolist() if users.dtype == object else users
    frame = dict(zip(names, [users, *numbers.T], strict=True))
    if kind == "polars":
        import polars

        return polars.DataFrame(frame)
    import pandas

    return pandas.DataFrame(frame, index=index)


# -- the base of estimators ------------------------------------------------------------


@documented
@dataclass(eq=False, repr=False)
class CatalogEstimator(PrivateEstimator):
    """Base class of estimators with `items`, `item_features` and `rating_range`."""

    _array_parameters: ClassVar = ("items", "item_features", "rating_range")
    _parameter_constraints: ClassVar[dict] = {
        **PrivateEstimator._privacy_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "user_feature": [Integral, str],
        "item_feature": [Integral, str],
        "items": ["array-like", None],
        "item_features": ["array-like", None],
        "rating_range": [tuple, list, np.ndarray, None],
    }

    n_components: int | None = None
    _: KW_ONLY
    epsilon: float | None = 1.0
    delta: float = 1e-6
    user_feature: int | str = "user_id"
    item_feature: int | str = "item_id"
    items: Any = None
    item_features: Any = None
    rating_range: Any = None
    accountant: PrivacyAccountant | None = None
    noise_seed: Seed = None

    def _statistic(self, n_items: int) -> Any:
        """Return what a fit with so many items releases."""
        raise NotImplementedError

    def privacy_plan(self, n_items):
        """Describe what a fit will release and cost; no data are needed.

        Parameters
        ----------
        n_items : int
            Number of items of the catalog.

        {returns_plan}
        """
        self._check_parameters()
        return self._plan(self._statistic(check_count("n_items", n_items)))

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        {plan_of_rows}
        """
        self._check_parameters()
        table_shape(open_path(X))  # what has none is no table
        return self.privacy_plan(len(self._catalog(X)))

    def _plan(self, statistic) -> PrivacyPlan:
        if len(statistic.features) > MOST_ITEMS:
            raise ValueError(
                f"items must be at most 2**26 - 1 = {MOST_ITEMS}: sums over the items "
                "of a user would not be exact enough for the guarantee"
            )
        neighbors = Neighbors.ADD_REMOVE_ONE
        return self._planned(statistic, unit=Unit.USER, neighbors=neighbors)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.rating_range is not None:
            read_range(self.rating_range)

    def _limits(self) -> tuple[float, float]:
        """Return the range of ratings, which must be given unless there are none."""
        if self.rating_range is not None:
            return read_range(self.rating_range)
        if getattr(self, "implicit", False):
            return 0.0, 1.0
        raise ValueError(
            "rating_range is required: pass the public range of the ratings, such as "
            "rating_range=(1, 5); it must not be taken from the ratings"
        )

    def _catalog(self, X=None) -> columns.IdIndex:
        """Return an index of the items; of a matrix, its columns by default."""
        if self.items is not None:
            refuse_another_order(self.item_features, self.items)
            return read_catalog(self.items)
        if sparse.issparse(X) and X.ndim == 2:
            return read_catalog(range(X.shape[1]))
        if self.item_features is not None:
            raise ValueError("item_features requires items=..., whose order it follows")
        raise ValueError(
            "items is required: pass the public catalog of item ids, such as "
            "items=range(n); the ids in the ratings are private"
        )

    def _released_items(self, X, y=None, progress=None):
        """Charge a fit, and release what its statistic tells of the items."""
        unread = Ratings(self, X, y, reset=True)
        unread.warn_of_others()
        catalog = self._catalog(X)
        statistic = self._statistic(len(catalog))
        plan = self._plan(statistic)
        # It is charged here, and values are read from here on.
        release, ratings = self._start_release(plan, unread)
        rows, index = self._grouped(ratings, catalog)
        if progress is not None:
            progress.begin(X, y, plan)
        found = statistic.run(release, rows, progress)
        return statistic, catalog, plan, found, rows, index

    def _grouped(self, ratings: Ratings, catalog: columns.IdIndex):
        """Return the last ratings of items of the catalog by user, and users' ids."""
        index = columns.IdIndex(ratings.users, "user_feature")
        if len(index) > MOST_EXACT_USERS:
            raise ValueError("user_feature must contain at most 2**31 users")
        items, limits = catalog.find(ratings.items, "item_feature"), self._limits()
        how = (len(index), len(catalog)), *units(limits)
        values = np.clip(ratings.values, *limits)
        return UserRatings(index.codes, items, values, *how), index.without_codes()

    def _in_units(self, values):
        middle, quarter = units(self._limits())
        return middle + quarter * values

    def _set_items(self, catalog: columns.IdIndex, found: FoundItems) -> None:
        """Set what was released of the items, in units of ratings, and the catalog."""
        for name in ("level_", "item_offsets_"):  # of an earlier fit of ratings
            vars(self).pop(name, None)
        self.items_ = catalog.ids.copy()
        self.item_popularity_ = found.popularity
        if not getattr(self, "implicit", False):
            self.level_ = float(self._in_units(found.model.level))
            self.item_offsets_ = units(self._limits())[1] * found.model.offsets

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True  # ids of users and items
        return tags
