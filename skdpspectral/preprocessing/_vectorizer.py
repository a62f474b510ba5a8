"""Vectors of the rows of a table with numbers, categories, dates, texts and holes.

The kind of a column depends only on its name, dtype and the parameters. The conversion
of a value depends on that value alone. Statistics are counts of found categories, and
scales of numbers.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .. import sensitivity
from .._base.documented import documented
from .._base.estimator import OutputUnits, Seed, Self, TableEstimator, unweighted
from .._base.sklearn_compat import Interval, check_input_features
from .._linalg.walks import quietly, row_blocks, rows_per_block
from .._statistics.feature_scales import (
    FARTHEST,
    FeatureLaw,
    refuse_too_few,
    scales_of_features,
)
from .._statistics.statistic import Combination, Statistic
from .._tables.columns import (
    DATE,
    DAY,
    DURATION,
    NEVER,
    NUMBER,
    OBJECTS,
    TEXT,
    as_array,
    column_names,
    first_names,
    frame_of_arrow,
    is_arrow,
    is_polars,
    is_sparse,
    kind_of,
    own_type,
    place_of,
    read_entries,
    read_quietly,
    refuse_on_cluster,
)
from .._tables.table import MadeRows, Table, compare_features
from ..accounting import (
    NoisyFitWarning,
    PrivacyAccountant,
    calibrate_gaussian,
    gaussian_mu,
)
from ..accounting._errors import warn
from ..accounting._gaussian import MIN_DELTA
from ..mechanisms import (
    Concern,
    Exact,
    PrivacyPlan,
    Remark,
    ThresholdedGaussian,
    check_count,
    shown,
)
from ..mechanisms._plan import has_budget
from ._scaler import standardized

# Share of delta that covers values of a single row.
CATEGORY_FAILURES = 0.01

# A category is likely to be found if its noisy count is above the threshold so often.
_LIKELY = 0.9


@dataclass(frozen=True)
class CategoryCounts(Statistic):
    """Counts of the values of several columns, of which frequent ones are released."""

    n_samples: int
    n_columns: int
    failure: float

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        name, shape = "categories", (self.n_columns, 2)
        if not math.isfinite(mu):
            return (Exact(name, shape),)
        moved = sensitivity.category_counts_sensitivity(self.n_columns)
        size = float(self.n_samples)
        counts = calibrate_gaussian(name, moved, mu, shape, magnitude=size)
        std = counts.noise_std
        threshold = sensitivity.category_threshold(std, self.n_columns, self.failure)
        # Noise is rounded to the grid before it is compared.
        least = {"threshold": threshold + counts.grid, "lemma": "thresholding"}
        planned = (name, moved, std, shape)
        return (ThresholdedGaussian(*planned, magnitude=size, **least),)

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Warn, from public numbers, if no category can be found."""
        counts = plan["categories"]
        if isinstance(counts, Exact):
            return ()
        likely = counts.threshold + float(ndtri(_LIKELY)) * counts.noise_std
        said = (
            f"no category can be found: of {self.n_samples} rows, {likely:.0f} would "
            "have to share a value; use more rows, fewer columns or a larger epsilon, "
            "or pass public categories"
        )
        return (said,) * (likely >= self.n_samples)

    def run(self, release: Any, rows: Any, *given: Any) -> list[dict[str, float]]:
        """Release the frequent values of given columns of a table."""
        (columns,) = given
        counts = [rows.counts(column) for column in columns]
        return release.above_threshold("categories", counts)


@dataclass(frozen=True)
class TableStatistics(Combination):
    """Scales of numbers, and categories of columns, within one budget."""

    n_samples: int
    n_numbers: int
    n_columns: int
    epsilon: float
    delta: float

    @property
    def failure(self) -> float:
        """Part of delta that covers values of a single row."""
        covered = self.n_columns > 0 and math.isfinite(self.epsilon)
        return CATEGORY_FAILURES * self.delta if covered else 0.0

    def parts(self) -> Mapping[str, Statistic]:
        """Return the statistics, in the order of their releases."""
        parts: dict[str, Statistic] = {}
        if self.n_numbers:
            mu = gaussian_mu(self.epsilon, self.delta - self.failure)
            mu *= math.sqrt(self.shares()["numbers"])
            shape = self.n_samples, self.n_numbers
            parts["numbers"] = scales_of_features(*shape, mu, holes=True)
        if self.n_columns:
            shape = self.n_samples, self.n_columns
            parts["categories"] = CategoryCounts(*shape, self.failure)
        return parts

    def shares(self) -> Mapping[str, float]:
        """Return the shares of mu**2, by numbers of features."""
        share = self.n_numbers / max(self.n_numbers + self.n_columns, 1)
        return {"numbers": share, "categories": 1.0 - share}

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all that is released; a part of delta covers values of single rows."""
        if delta - self.failure < MIN_DELTA or 0.0 < self.failure < MIN_DELTA:
            raise ValueError(
                f"delta={delta:g} is too small for finding categories: use at least "
                f"{MIN_DELTA / CATEGORY_FAILURES:g}, or pass public categories"
            )
        mechanisms = self.mechanisms(gaussian_mu(epsilon, delta - self.failure))
        told = {"remarks": self.remarks(), "failure": self.failure}
        return PrivacyPlan(epsilon, delta, mechanisms, **told, **named)

    def remarks(self) -> tuple[str, ...]:
        """Return sentences for the statement of the guarantee."""
        found = "Which values are categories is part of the release."
        public = Remark("Column names and dtypes are public.", Concern.PUBLIC)
        return (*super().remarks(), *[found][: self.n_columns], public)

    def run(
        self, release: Any, rows: Vectors, *given: Any
    ) -> tuple[FeatureLaw | None, list[dict[str, float]]]:
        """Release scales of the numbers of a table, then categories of columns."""
        parts, numbers, categories = self.parts(), None, []
        if self.n_numbers:
            numbers = parts["numbers"].run(release, rows.numbers())
        if self.n_columns:
            categories = parts["categories"].run(release, rows, *given)
        return numbers, categories


# How columns are treated, beside numbers, durations, dates and days.
CATEGORIES = "categories"

# Numbers that are made of a column of each kind, by the ends of their names.
_OF_DAYS = ("_year", "_month", "_day_of_week", "_total_seconds")
PARTS = {NUMBER: ("",), DURATION: ("",), DAY: _OF_DAYS, DATE: (*_OF_DAYS, "_hour")}

# Texts that are longer are compared by a digest, of which so many letters are shown;
# still longer ones as they are, without normalization.
_LONG, _SHOWN, _VERY_LONG = 100, 64, 1000

# Beginning and end of the years 1 to 9999, in seconds since 1970; steps of a second.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799

# Rows of which values are counted together: a table of Python objects of them.
_TOGETHER = 1 << 16


class _NoText:
    """Sentinel for values without a text, such as lists; they count as rare."""


def treatment(name, dtype) -> str:
    """Return how a column is treated, by its dtype, which may be refused."""
    kind, said = kind_of(dtype), str(dtype).lower()
    declared = hasattr(dtype, "categories") or said.startswith("dictionary")
    empty = kind == NEVER and said in ("null", "object")
    if empty or kind in (TEXT, OBJECTS) or (declared and kind == NUMBER):
        return CATEGORIES
    if kind in PARTS and not declared:
        return kind
    complex_ = "Complex data not supported: " * said.startswith("complex")
    raise ValueError(
        f"{complex_}column {name!r} of X has dtype {dtype}, which is not converted to "
        "numbers: drop it, or convert it, for example with astype(str)"
    )


def may_occur(text: str, dtype) -> bool:
    """Return whether a value of a dtype may have a text, by the dtype alone."""
    if str(own_type(dtype)).lower().startswith("bool"):
        return text in ("True", "False")
    if kind_of(dtype) != NUMBER:
        return True
    try:
        whole = text.removeprefix("-").isdecimal()
        return text == text_of(int(text) if whole else float(text))
    except ValueError:
        return False


# -- one value -------------------------------------------------------------------------


def text_of(value) -> str | type[_NoText] | None:
    """Return the text of a value, None for a missing one."""
    kind = type(value)
    try:
        if issubclass(kind, str):
            return _normal(str.__str__(value))
        if value is None or kind.__name__ in ("NAType", "NaTType"):
            return None
        if kind is bool or kind is np.bool_:
            return "True" if value else "False"
        if issubclass(kind, np.number):
            value = float(value) if issubclass(kind, np.floating) else value.item()
        if isinstance(value, int):
            return _normal(str(int.__int__(value)))
        if isinstance(value, float):
            number = float.__float__(value)
            whole = number.is_integer()
            text = _normal(str(int(number)) if whole else repr(number))
            return None if number != number else text
    except Exception:  # of what foreign types do
        pass
    return _NoText


def _normal(text: str) -> str:
    """Return a truncated text in normal form C, without surrogates."""
    if not text.isascii():
        if len(text) <= _VERY_LONG:
            text = unicodedata.normalize("NFC", text)
        text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= _LONG:
        return text
    return f"{text[:_SHOWN]}...{blake2b(text.encode(), digest_size=16).hexdigest()}"


# Types of which equal values have equal texts: others are converted one by one.
_HASHED = {str, float, int, type(None)}


def _of_each(values: list, convert: Callable) -> list:
    """Convert each value, once per distinct value."""
    if set(map(type, values)) <= _HASHED:
        made = {value: convert(value) for value in set(values)}
        return [made[value] for value in values]
    return list(map(convert, values))


# -- blocks of a column ----------------------------------------------------------------


def _floats(block) -> np.ndarray:
    if hasattr(block, "iloc"):
        return block.to_numpy(dtype=np.float64, na_value=np.nan)
    if is_polars(block):
        return block.cast(float).to_numpy()
    return np.asarray(block, dtype=np.float64)


def _on_clocks(block) -> np.ndarray:
    """Return dates, times or durations as numpy has them; those with a zone in UTC."""
    if hasattr(block.dtype, "pyarrow_dtype"):  # pandas refuses days that are far away
        from pyarrow import array

        return np.asarray(array(block))
    zoned = getattr(block.dtype, "tz", None) is not None
    return as_array(block.dt.tz_convert(None) if zoned else block)


def _date_parts(block) -> list[np.ndarray]:
    # Within the years 1 to 9999.
    first, last = np.array([_FIRST, _LAST]).astype("datetime64[s]")
    times = np.clip(_on_clocks(block).astype("datetime64[s]"), first, last)
    seconds = times.astype(np.int64)
    days = times.astype("datetime64[D]").astype(np.int64)
    parts = [
        times.astype("datetime64[Y]").astype(np.int64) + 1970,
        times.astype("datetime64[M]").astype(np.int64) % 12 + 1,
        (days + 3) % 7,  # 1970 began on a Thursday
        seconds,
        seconds // 3600 % 24,
    ]
    missing = np.isnat(times)
    return [np.where(missing, np.nan, part) for part in parts]


# What is made of a block of numbers or durations; dates have several parts.
_NUMBERS_OF = {
    NUMBER: lambda block: [_floats(block)],
    DURATION: lambda block: [_on_clocks(block) / np.timedelta64(1, "s")],
}


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, place and kind, and texts if they are public."""

    name: str
    place: int
    kind: str
    dtype: Any = None
    texts: list[str] | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the numbers derived from it."""
        return tuple(self.name + end for end in PARTS.get(self.kind, ()))


@dataclass(frozen=True)
class Vectors:
    """Columns of a table, made to vectors; `n_rows` are its own, or of its users."""

    table: Table
    columns: Sequence[Column]
    n_rows: int

    def __post_init__(self) -> None:
        # Types that cannot be read are found without a value.
        said = "X has a column of numbers or dates whose dtype cannot be converted"
        read_quietly(lambda: self._numbers(slice(0, 0)), said)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.columns)

    @property
    def n_numbers(self) -> int:
        """Number of numbers that are made of a row."""
        return sum(len(column.parts) for column in self.columns)

    @property
    def sought(self) -> list[int]:
        """Places of columns whose categories are to be found."""
        found = [c for c in self.columns if c.kind == CATEGORIES and c.texts is None]
        return [column.place for column in found]

    def of_users(self, n_users: int) -> Vectors:
        """Return the form of one row of each user; all rows will be read."""
        return replace(self, n_rows=n_users)

    def read(self) -> Vectors:
        """Return the table, whose values may then be read."""
        return self

    def at(self, places: np.ndarray) -> Vectors:
        """Return the rows at some places."""
        return Vectors(self.table.at(places), self.columns, len(places))

    def numbers(self) -> MadeRows:
        """Return numbers, durations and dates as float64; not finite means missing."""
        return MadeRows((self.n_rows, self.n_numbers), self._numbers)

    @quietly
    def _numbers(self, rows: slice) -> np.ndarray:
        made: list[np.ndarray] = []
        for column in (one for one in self.columns if one.parts):
            parts_of = _NUMBERS_OF.get(column.kind, _date_parts)
            made += parts_of(self.table.part(column.place, rows))[: len(column.parts)]
        numbers = np.column_stack(made) if made else np.zeros((0, 0))
        numbers[~np.isfinite(numbers)] = np.nan
        return numbers

    def counts(self, place: int) -> Mapping[str, int]:
        """Return how many rows have each text that occurs in a column."""
        counts: Counter = Counter()
        for rows in row_blocks(self.n_rows, _TOGETHER):
            texts = _of_each(self.entries(place, rows), text_of)
            counts.update(text for text in texts if isinstance(text, str))
        return counts

    def entries(self, place: int, rows: slice) -> list:
        """Return some values of a column as objects, independently of each other."""
        part = read_quietly(lambda: self.table.part(place, rows))
        return read_entries(part, "X").tolist()

    def codes(self, place: int, rows: slice, texts: Sequence[str]) -> list[int]:
        """Return places of texts, then one for all others, then for missing values."""
        code_of = {None: -1, **{text: code for code, text in enumerate(texts)}}
        entries = self.entries(place, rows)
        return _of_each(entries, lambda value: code_of.get(text_of(value), -2))


# -- the estimator ---------------------------------------------------------------------

# What stands for values that are looked for.
_FOUND = "find"

# Share of rows whose categories are found, below which a column is warned of.
_MOST = 0.5

# Kinds of columns that keep their names, and those of which values are texts.
_OWN_NAMES, _OF_TEXTS = {NUMBER, DURATION}, {CATEGORIES, NUMBER}


@documented
class DPTableVectorizer(TransformerMixin, TableEstimator):
    r"""Encode a table of numbers, text, dates and missing values privately.

    Numbers are standardized with private means and standard deviations, and missing
    numbers are replaced with these means. Each category of a text column becomes a 0/1
    column. Categories that you pass are public; all others are found with private
    counts. One budget covers everything. Read more in the :ref:`user guide <tables>`.

    Parameters
    ----------
    {epsilon}
    {delta}
        If categories must be found, 1 % of `delta` covers values of a single row.
    categories : dict or None, default=None
        Public categories. A dictionary maps the name or position of a column to its
        list of values or "find". "find" treats a column of numbers as categories, which
        are found privately. Categories are also found privately for all columns of
        text, objects and categories that are not listed: the categories of a dtype are
        not used, because ``astype("category")`` reads them from the data.
    max_categories : int, default=30
        Maximum number of categories to keep of a column whose categories are found. The
        categories with the largest private counts are kept.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    kinds_ : dict of str to str
        How each column is treated: "number", "duration", "date", "day" or "categories".
        This depends only on dtypes and parameters.
    categories_ : dict of str to list of str
        Categories of each column: the given categories in the given order, or the
        private categories in alphabetical order.
    scaled_features_ : ndarray of str of shape (n_numbers,)
        Names of the standardized numbers, including parts of dates.
    mean_, scale_ : ndarray of shape (n_numbers,)
        Private means and standard deviations, as in :class:`DPStandardScaler`.
    unseen_features_ : ndarray of bool of shape (n_numbers,)
        Mask of the numbers that are lost in the noise. They are transformed to 0.
    present_shares_ : ndarray of shape (n_numbers,)
        Private shares of values that are not missing.
    {n_samples_}
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    NoisyFitWarning
        If there are too few rows to see any number or category, which depends only on
        public numbers; if numbers are unseen; or if most rows have no released category
        of a column, for example of ids, or of numbers in a column of objects.

    See Also
    --------
    DPStandardScaler : Standardizes numbers only.
    sklearn.preprocessing.OneHotEncoder : Encodes categories without privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is (`epsilon`,
    `delta`)-differentially private for one row, under replacement of that row
    (`n_samples` is public), for any data. All fitted attributes and warnings are
    covered. **Column names and dtypes are public** and determine how a column is
    treated. Declare dtypes yourself, because file readers infer them from values. The
    result of :meth:`transform` for a row depends only on that row and the releases, and
    is as private as that row.

    The columns share the budget. With p numbers and c columns whose categories are
    found, the numbers get :math:`p / (p + c)` of :math:`\mu^2`. The counts of the c
    columns have joint sensitivity :math:`\sqrt{2 c}`. Counts above a threshold are
    released. A value that occurs in a single row exceeds the threshold with a
    probability that is part of `delta` (:ref:`lemma-thresholding`).

    Texts are compared in Unicode normal form C. Texts of more than 100 characters are
    represented by their beginning and a digest. Numbers in object columns are
    categories, compared by their digits: convert such columns with ``pd.to_numeric``.
    Objects that are neither numbers nor text count as rare values: convert them with
    ``astype(str)``. Infinite numbers count as missing. Memory grows with the number of
    distinct values of a column, by about 100 bytes per short text. The duration of a
    fit may depend on the values.

    In a :class:`~skdpspectral.pipeline.PrivatePipeline`, a :class:`DPRidge` or
    :class:`DPRidgeClassifier` directly behind it uses its units instead of new scales.

    References
    ----------
    Wilkins, Kifer, Zhang and Karrer (2024), Exact privacy analysis of the Gaussian
    sparse histogram mechanism.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpspectral import DPTableVectorizer
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({
    ...     "age": np.where(rng.random(5000) < 0.1, np.nan, rng.normal(40, 9, 5000)),
    ...     "city": rng.choice(["Graz", "Linz"], 5000),
    ... })
    >>> vectorizer = DPTableVectorizer(epsilon=1.0).fit(X)
    >>> vectorizer.get_feature_names_out().tolist()
    ['age', 'city_Graz', 'city_Linz', 'city_rare', 'city_missing']
    """

    _parameter_constraints: ClassVar[dict] = {
        **TableEstimator._privacy_constraints,
        "categories": [dict, None],
        "max_categories": [Interval(Integral, 1, None, closed="left")],
    }
    _array_parameters: ClassVar[tuple[str, ...]] = ("categories",)

    def __init__(
        self,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        categories=None,
        max_categories: int = 30,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.max_categories = max_categories
        self.accountant = accountant
        self.noise_seed = noise_seed

    # -- plan ----------------------------------------------------------------------

    def privacy_plan(self, n_samples, n_features, n_categories=0) -> PrivacyPlan:
        """Describe what a fit will release and cost; no data are needed.

        :meth:`plan_for` counts the columns of a table.

        Parameters
        ----------
        n_samples : int
            Number of rows, public.
        n_features : int
            Number of numeric features that are standardized: one per column of numbers,
            four per day and five per date.
        n_categories : int, default=0
            Number of columns whose categories are found.

        {returns_plan}
        """
        self._check_parameters()
        counts = {"n_features": n_features, "n_categories": n_categories}
        numbers = [n if n == 0 else check_count(k, n) for k, n in counts.items()]
        n_samples = check_count("n_samples", n_samples)
        return self._planned(self._statistics(n_samples, *numbers))

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows. Only their shape, column names and dtypes are used.

        {returns_plan}
        """
        self._check_parameters()
        rows, users = self._vectors(X), self._users_at_hand()
        rows = rows if users is None else rows.of_users(len(users))
        return self._planned(self._statistics_of(rows))

    def _statistics(self, n_samples, n_numbers, n_columns) -> TableStatistics:
        refuse_too_few(n_samples)
        budget = self._budget_of_fit()
        return TableStatistics(n_samples, n_numbers, n_columns, *budget)

    def _statistics_of(self, rows: Vectors) -> TableStatistics:
        return self._statistics(rows.n_rows, rows.n_numbers, len(rows.sought))

    # -- columns, by what is public -------------------------------------------------

    def _vectors(self, X, *, compared=None, reset=False) -> Vectors:
        """Check the form of a table; `compared` is the estimator that it belongs to."""
        table = _table_of(X)
        compare_features(compared, table.like, reset)
        fitted = compared is not None and not reset
        columns = self._fitted_columns(table) if fitted else self._columns(table)
        return Vectors(table, columns, table.shape[0])

    def _columns(self, table: Table) -> list[Column]:
        """Return columns with their kinds, which parameters or dtypes choose."""
        columns = [
            Column(name, j, treatment(name, dtype), dtype)
            for j, (name, dtype) in enumerate(_names_and_dtypes(table))
        ]
        chosen = set[int]()
        for feature, values in (self.categories or {}).items():
            place = place_of(table.like, feature, "categories")
            column = columns[place]
            if place in chosen:
                raise ValueError(f"categories has column {feature!r} twice")
            if column.kind not in _OF_TEXTS:
                raise ValueError(
                    f"categories: column {feature!r} has dtype {column.dtype}; "
                    "convert it with astype(str)"
                )
            chosen.add(place)
            texts = _texts(column, values)
            columns[place] = replace(column, kind=CATEGORIES, texts=texts)
        return columns

    def _fitted_columns(self, table: Table) -> list[Column]:
        """Return columns with their kinds of fit; refuse other dtypes."""
        columns = []
        for j, (name, dtype) in enumerate(_names_and_dtypes(table)):
            kind, own = self.kinds_[name], treatment(name, dtype)
            alike = {kind} if kind in PARTS else _OF_TEXTS
            if own not in alike and {own, kind} != {DATE, DAY}:
                raise ValueError(
                    f"X: column {name!r} has dtype {dtype}, but was treated as {kind} "
                    "in fit: convert it to the dtype that it had in fit"
                )
            columns.append(Column(name, j, kind, dtype))
        return columns

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    # -- the estimator -------------------------------------------------------------

    @unweighted
    def fit(self, X, y=None, *, users=None) -> Self:
        """Release the scales of numbers and the categories of text columns.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            A pandas or polars dataframe, or an array; never modified. All columns of an
            object array or a list are treated as categories. None, NaN, NaT and NA are
            missing.
        {y_ignored}
        {users_of_rows}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = self._by_user(self._vectors(X, compared=self, reset=True), users)
            statistics = self._statistics_of(unread)
            plan = self._planned(statistics, in_fit=True)
            # It is charged here, and values are read from here on.
            n_public = statistics.n_samples
            release, rows = self._start_release(plan, unread, n_public=n_public)
            numbers, categories = statistics.run(release, rows, rows.sought)
            self._set_law(rows, numbers, categories)
            self.n_samples_ = statistics.n_samples
            self.privacy_ = plan
            self._warn_of_unseen(
                "transform returns 0 for them", "scale them by public bounds before"
            )
            self._warn_of_rare(rows, categories)
        return self

    def _set_law(self, rows: Vectors, numbers, categories: list[dict]) -> None:
        """Set the fitted attributes from public and released values."""
        found = dict(zip(rows.sought, categories, strict=True))
        self.kinds_ = {column.name: column.kind for column in rows.columns}
        self.categories_ = {}
        for column in rows.columns:
            if column.kind == CATEGORIES:
                counts = found.get(column.place, {})
                most = sorted(counts, key=lambda text: (-counts[text], text))
                texts = sorted(most[: self.max_categories])
                public = column.texts
                self.categories_[column.name] = texts if public is None else public
        names = [part for column in rows.columns for part in column.parts]
        self.scaled_features_ = np.array(names, dtype=object)
        none = np.zeros(0)
        numbers = numbers or FeatureLaw(none, none, none > 0, none)
        self.mean_, self.scale_ = numbers.mean, numbers.scale
        self.present_shares_, self.unseen_features_ = numbers.present, ~numbers.seen

    def _warn_of_rare(self, rows: Vectors, categories: list[dict]) -> None:
        """Warn of columns of which most rows have no released category."""
        if not has_budget(self.privacy_):
            return
        rare = []
        for place, counts in zip(rows.sought, categories, strict=True):
            name = rows.columns[place].name
            kept = sum(counts[text] for text in self.categories_[name])
            if kept < _MOST * self.n_samples_:
                rare.append(name)
        if not rare:
            return
        threshold = self.privacy_["categories"].threshold
        warn(
            f"most values are rare or missing in {first_names(rare)}: categories need "
            f"a private count above {threshold:.0f}. Convert objects that are numbers "
            "or dates with pd.to_numeric or pd.to_datetime; drop columns of ids "
            "and of long text. Otherwise use more rows or a larger epsilon, or "
            "pass public categories",
            NoisyFitWarning,
        )

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns that :meth:`transform` returns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X, which must match the names seen in fit.

        Returns
        -------
        ndarray of str
            Names in the order of the columns of X. Numbers keep their names. Dates
            become ``<column>_<part>``. Categories become ``<column>_<category>``,
            ``<column>_rare`` and ``<column>_missing``.
        """
        check_is_fitted(self)
        check_input_features(self, input_features)
        names = list[str]()
        taken = {name for name, kind in self.kinds_.items() if kind in _OWN_NAMES}
        for name, kind in self.kinds_.items():
            for made in self._names_of(name, kind):
                # A column of numbers may be called "city_Graz".
                while made in taken and made != name:
                    made += "_"
                taken.add(made)
                names.append(made)
        return np.array(names, dtype=object)

    def _names_of(self, name: str, kind: str) -> list[str]:
        if kind != CATEGORIES:
            return [name + end for end in PARTS[kind]]
        texts = [f"{name}_{text}" for text in self.categories_[name]]
        others = [f"{name}_rare", f"{name}_missing"]
        return [text + "_" * (text in others) for text in texts] + others

    def transform(self, X):
        """Encode the rows of a table as numbers.

        Parameters
        ----------
        X : dataframe, pyarrow table or array-like of shape (n_samples, n_features)
            A table with the same columns as in fit, whose dtypes are of the same kinds.

        Returns
        -------
        ndarray or dataframe of shape (n_samples, n_features_out)
            Finite numbers, in columns named as in :meth:`get_feature_names_out`.
            Unknown and rare values have a 1 in ``<column>_rare``.
        """
        check_is_fitted(self)
        table = self._vectors(X, compared=self)
        width = len(self.get_feature_names_out())
        out = np.zeros((table.n_rows, width))
        for rows in row_blocks(table.n_rows, rows_per_block(max(width, 1))):
            self._fill(out[rows], table, rows)
        return out

    @quietly
    def _fill(self, out: np.ndarray, table: Vectors, rows: slice) -> None:
        """Write some rows as numbers."""
        numbers = table.numbers()[rows] if len(self.scale_) else out[:, :0]
        weights = np.where(self.unseen_features_, 0.0, 1.0 / self.scale_)
        reach = FARTHEST if has_budget(self.privacy_) else np.inf
        scaled = iter(standardized(numbers, self.mean_, weights, reach).T)
        stop = 0
        for j, (name, kind) in enumerate(self.kinds_.items()):
            start, stop = stop, stop + len(self._names_of(name, kind))
            own = out[:, start:stop]
            if kind == CATEGORIES:
                chosen = table.codes(j, rows, self.categories_[name])
                own[np.arange(len(own)), chosen] = 1.0
                continue
            for column in own.T:
                column[:] = next(scaled)

    def _output_units(self) -> OutputUnits:
        sides, of_blocks, unseen = [], list[int](), iter(self.unseen_features_)
        for number, (name, kind) in enumerate(self.kinds_.items()):
            width, found = len(self._names_of(name, kind)), kind == CATEGORIES
            of_blocks += [number if found else -1] * width
            for _ in range(width):
                zero = found or next(unseen)
                sides.append((0.0, float(found)) if zero else (-np.inf, np.inf))
        blocks = sum(kind == CATEGORIES for kind in self.kinds_.values())
        square = blocks + np.sum(~self.unseen_features_)
        return OutputUnits(np.transpose(sides), float(square), np.array(of_blocks))


def _table_of(X) -> Table:
    """Return the form of a table in memory; one of pyarrow becomes one of pandas."""
    if is_sparse(X):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required: pass "
            "X.toarray() or a dataframe"
        )
    refuse_on_cluster(X, "DPTableVectorizer")
    if is_arrow(X):
        X = frame_of_arrow(X)
    elif column_names(X) is not None and not (hasattr(X, "iloc") or is_polars(X)):
        raise TypeError(
            "X must be a pandas or polars dataframe, a pyarrow table, or an array, "
            f"got {type(X).__module__}.{type(X).__name__}: convert it to a pandas "
            "dataframe"
        )
    # The common type of lists, and of what is no table yet, would depend on values.
    return Table(X)


def _names_and_dtypes(table: Table) -> list[tuple[str, Any]]:
    """Return the name and the dtype of each column of a frame or an array."""
    labels, dtypes, n_columns = table.names, table.dtypes, table.shape[1]
    if labels is None:
        # Of lists, and of what has no dtype, entries are objects.
        dtypes = [dtypes[0] or np.dtype(object)] * n_columns
    named = labels is not None and all(isinstance(name, str) for name in labels)
    names = map(str, labels) if named else (f"x{j}" for j in range(n_columns))
    return list(zip(names, dtypes, strict=True))


def _texts(column: Column, values: Any) -> list[str] | None:
    """Return public categories as texts, in their order; None if they are sought."""
    if isinstance(values, str) and values == _FOUND:
        return None
    said = f"categories: the categories of column {column.name!r} must "
    if isinstance(values, (str, bytes, Mapping, set)) or not np.iterable(values):
        raise ValueError(f'{said}be a list or "find", got {shown(values)}')
    texts = [text for text in map(text_of, values) if isinstance(text, str)]
    if len(texts) < len(values):
        raise ValueError(said + "each have a text: None and lists are not categories")
    if len(set(texts)) < len(texts):
        raise ValueError(said + "differ as texts: 1 and '1' are the same text")
    if texts and not any(may_occur(text, column.dtype) for text in texts):
        raise ValueError(
            f"categories: no value of column {column.name!r}, of dtype {column.dtype}, "
            "has one of the given categories as its text: convert the column with "
            "astype(str), or give its values"
        )
    return texts
