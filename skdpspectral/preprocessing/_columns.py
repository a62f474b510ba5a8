"""Columns of a table, read by blocks, and conversions of single values.

The kind of a column depends only on its name, dtype and the parameters. The conversion
of a value depends on that value alone. Statistics are counts of found categories, and
scales of numbers.
"""

from __future__ import annotations

import copy
import datetime
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from .. import sensitivity
from .._base.sklearn_compat import take_rows
from .._linalg.walks import quietly, row_blocks
from .._statistics.feature_scales import FeatureLaw
from .._statistics.place_windows import scales_of_features
from .._statistics.statistic import Combination, Statistic
from .._tables.columns import (
    as_array,
    column_at,
    is_never_number,
    is_polars,
    read_quietly,
)
from .._tables.files import SlicedRows
from ..accounting import calibrate_gaussian, gaussian_mu
from ..accounting._gaussian import MIN_DELTA
from ..mechanisms import Concern, Exact, PrivacyPlan, Remark, ThresholdedGaussian

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
    name: str = "categories"

    def mechanisms(self, mu: float) -> tuple:
        """Plan the release at a cost of mu; infinite for no noise."""
        shape = (self.n_columns, 2)
        if not math.isfinite(mu):
            return (Exact(self.name, shape),)
        moved = sensitivity.category_counts_sensitivity(self.n_columns)
        size = float(self.n_samples)
        counts = calibrate_gaussian(self.name, moved, mu, shape, magnitude=size)
        std = counts.noise_std
        threshold = sensitivity.category_threshold(std, self.n_columns, self.failure)
        # Noise is rounded to the grid before it is compared.
        least = {"threshold": threshold + counts.grid, "lemma": "thresholding"}
        planned = (self.name, moved, std, shape)
        return (ThresholdedGaussian(*planned, magnitude=size, **least),)

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Warn, from public numbers, if no category can be found."""
        counts = plan[self.name]
        if isinstance(counts, Exact):
            return ()
        likely = counts.threshold + float(ndtri(_LIKELY)) * counts.noise_std
        if likely < self.n_samples:
            return ()
        said = (
            f"no category can be found: of {self.n_samples} rows, {likely:.0f} would "
            "have to share a value; use more rows, fewer columns or a larger epsilon, "
            "or pass public categories"
        )
        return (said,)

    def run(self, release: Any, rows: Any, *given: Any) -> list[dict[str, float]]:
        """Release the frequent values of given columns of a table."""
        (columns,) = given
        counts = [rows.counts(column) for column in columns]
        return release.above_threshold(self.name, counts)


class TableLaw(NamedTuple):
    """Releases of a table: laws of numbers, and counts of categories by column."""

    numbers: FeatureLaw | None
    categories: list[dict[str, float]]


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
            parts["numbers"] = scales_of_features(
                self.n_samples, self.n_numbers, mu, holes=True
            )
        if self.n_columns:
            shape = (self.n_samples, self.n_columns)
            parts["categories"] = CategoryCounts(*shape, self.failure)
        return parts

    def shares(self) -> Mapping[str, float]:
        """Return the shares of mu**2, by numbers of features."""
        total = self.n_numbers + self.n_columns
        share = self.n_numbers / total if total else 1.0
        return {"numbers": share, "categories": 1.0 - share}

    def plan(self, epsilon: float, delta: float, **named: Any) -> PrivacyPlan:
        """Plan all that is released; a part of delta covers values of single rows."""
        if delta - self.failure < MIN_DELTA or 0.0 < self.failure < MIN_DELTA:
            raise ValueError(
                f"delta={delta:g} is too small for finding categories: use at least "
                f"{MIN_DELTA / CATEGORY_FAILURES:g}, or pass public categories"
            )
        mechanisms = self.mechanisms(gaussian_mu(epsilon, delta - self.failure))
        return PrivacyPlan(
            epsilon,
            delta,
            mechanisms,
            remarks=self.remarks(),
            failure=self.failure,
            **named,
        )

    def remarks(self) -> tuple[str, ...]:
        """Return sentences for the statement of the guarantee."""
        found = "Which values are categories is part of the release."
        public = Remark("Column names and dtypes are public.", Concern.PUBLIC)
        return (*super().remarks(), *[found][: self.n_columns], public)

    def caveats(self, plan: PrivacyPlan) -> tuple[str, ...]:
        """Return warnings about numbers and categories, from public numbers."""
        found = list(super().caveats(plan))
        if self.n_numbers:
            found.extend(self.parts()["numbers"].unseen_features(plan))
        return tuple(found)

    def run(self, release: Any, rows: Table, *given: Any) -> TableLaw:
        """Release scales of the numbers of a table, then categories of columns."""
        (columns,) = given
        parts, numbers, categories = self.parts(), None, list[dict[str, float]]()
        if self.n_numbers:
            numbers = parts["numbers"].run(release, rows.numbers())
        if self.n_columns:
            categories = parts["categories"].run(release, rows, columns)
        return TableLaw(numbers, categories)


# Kinds of columns. A day is a date without a time.
NUMBER, DURATION, DATE, DAY = "number", "duration", "date", "day"
CATEGORIES, TEXT, USER = "categories", "text", "user"

# Numbers that are made of a column of each kind, by the ends of their names.
PARTS = {
    NUMBER: ("",),
    DURATION: ("",),
    DAY: ("_year", "_month", "_day_of_week", "_total_seconds"),
    DATE: ("_year", "_month", "_day_of_week", "_total_seconds", "_hour"),
}

# Beginnings of dtypes, in lower case, of numpy, pandas and polars.
_DTYPES = (
    (re.compile(r"(sparse\[)?(u?int|float|double|halffloat|bool|decimal)"), NUMBER),
    (re.compile("timedelta|duration"), DURATION),
    (re.compile(r"datetime|timestamp|[<>]m8"), DATE),
    (re.compile("date"), DAY),
    (
        re.compile(r"str|large_string|object|categor|enum|dictionary|null|[<>|][us]"),
        CATEGORIES,
    ),
)

# Texts that are longer are compared by a digest, of which so many letters are shown;
# still longer ones as they are, without normalization.
_LONG, _SHOWN, _VERY_LONG = 100, 64, 1000

# Beginning and end of the years 1 to 9999, in seconds since 1970; steps of a second.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799

_DAYS_OF_ARROW = {
    "date32[day]": ("int32[pyarrow]", 1),
    "date64[ms]": ("int64[pyarrow]", 86_400_000),
}
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

# First and last letters of texts of intervals.
_BRACKETS = {"(]", "[)", "()", "[]"}

# Rows of which values are counted together: a table of Python objects of them.
_TOGETHER = 1 << 16


# Types that are neither numbers, texts nor dates, and have texts of their own.
_TEXTS_OF_PANDAS = {"Interval", "Period", "Timedelta"}


class _NoText:
    """Sentinel for values without a text, such as lists; they count as rare."""


def kind_of(dtype) -> str | None:
    """Return the kind of a column by its dtype; None if it is refused."""
    if isinstance(dtype, np.dtype):
        kinds = {"M": DATE, "m": DURATION, "c": None, "V": None}
        if dtype.kind in kinds:
            return kinds[dtype.kind]
        return CATEGORIES if dtype.kind in "OUST" else NUMBER
    name = str(dtype).lower()
    if is_never_number(dtype) and not hasattr(dtype, "categories"):
        return CATEGORIES if name in ("null", "object") else None
    return next((kind for start, kind in _DTYPES if start.match(name)), None)


def may_occur(text: str, dtype) -> bool:
    """Return whether a value of a dtype may have a text, by the dtype alone."""
    values = getattr(dtype, "categories", None)
    own = dtype if values is None else getattr(values, "dtype", dtype)
    name = str(own).lower()
    if name.startswith("bool"):
        return text in ("True", "False")
    kind = kind_of(own)
    try:
        if kind == NUMBER:
            whole = text.removeprefix("-").isdecimal()
            return text == text_of(int(text) if whole else float(text))
        if kind in (DATE, DAY):
            return datetime.datetime.fromisoformat(text[:19]) is not None
    except (ArithmeticError, ValueError):
        return False
    return not name.startswith("interval") or text[:1] + text[-1:] in _BRACKETS


# -- one value -------------------------------------------------------------------------


def text_of(value) -> str | type[_NoText] | None:
    """Return the text of a value, None for a missing one; runs no code of users."""
    kind = type(value)
    if kind is str:
        return _normal(value)
    if value is None:
        return None
    try:
        return _text_of_others(value, kind)
    except Exception:  # of what foreign types do
        return _NoText


def _text_of_others(value, kind) -> str | type[_NoText] | None:
    if kind is bool or kind is np.bool_:
        return "True" if value else "False"
    if issubclass(kind, str):
        return _normal(str.__str__(value))
    if issubclass(kind, float):
        return _text_of_float(float.__float__(value))
    if issubclass(kind, int):
        return _normal(str(int.__int__(value)))
    if issubclass(kind, (np.floating, np.integer)):
        # No longer float of numpy is a type of Python.
        return text_of(
            float(value) if kind is np.longdouble else np.generic.item(value)
        )
    if kind.__name__ in ("NAType", "NaTType"):
        return None
    if issubclass(kind, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else str(value)
    if issubclass(kind, datetime.datetime):
        return datetime.datetime.isoformat(value)
    if issubclass(kind, datetime.date):
        return datetime.date.isoformat(value)
    of_pandas = kind.__module__.split(".")[0] == "pandas"
    if kind is datetime.time or (of_pandas and kind.__name__ in _TEXTS_OF_PANDAS):
        return _normal(str(value))
    return _NoText


def _text_of_float(value: float) -> str | None:
    if value != value:
        return None
    return _normal(str(int(value)) if value.is_integer() else repr(value))


def _normal(text: str) -> str:
    """Return a truncated text in normal form C, without surrogates."""
    if not text.isascii():
        if len(text) <= _VERY_LONG:
            text = unicodedata.normalize("NFC", text)
        text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= _LONG:
        return text
    return f"{text[:_SHOWN]}...{blake2b(text.encode(), digest_size=16).hexdigest()}"


def id_of(value) -> float:
    """Return an integer for an id that is not a number; -1 for a missing one."""
    text = text_of(value)
    if not isinstance(text, str):
        return -1.0
    digest = blake2b(text.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "big") >> 11)


# Types of which equal values have equal texts: others are converted one by one.
_HASHED = {str, float, int, type(None)}


def _of_each(values: list, convert: Callable) -> list:
    """Convert each value, once per distinct value."""
    if set(map(type, values)) <= _HASHED:
        made = {value: convert(value) for value in set(values)}
        return [made[value] for value in values]
    return list(map(convert, values))


def count_texts(values: list, counts: Counter) -> None:
    """Count values by their texts, without missing ones."""
    if set(map(type, values)) <= _HASHED:
        found = Counter(values)
        texts = zip(map(text_of, found), found.values(), strict=True)
    else:
        texts = zip(map(text_of, values), [1] * len(values), strict=True)
    for text, count in texts:
        if isinstance(text, str):
            counts[text] += count


# -- blocks of a column ----------------------------------------------------------------


def _is_pandas(block) -> bool:
    return hasattr(block, "iloc")


def _floats(block) -> np.ndarray:
    if _is_pandas(block):
        return block.to_numpy(dtype=np.float64, na_value=np.nan)
    if is_polars(block):
        return block.cast(float).to_numpy()
    return np.asarray(block, dtype=np.float64)


def _durations(block) -> np.ndarray:
    """Return durations in seconds."""
    arrow = getattr(block.dtype, "pyarrow_dtype", None)
    if arrow is not None:
        # Its own conversion refuses numbers that float64 has to round.
        return _floats(block.astype("int64[pyarrow]")) / _UNITS[arrow.unit]
    return as_array(block) / np.timedelta64(1, "s")


def _times(block) -> np.ndarray:
    """Return times in seconds, within years 1 to 9999; those with a zone in UTC."""
    if _is_pandas(block):
        dtype = getattr(block.dtype, "pyarrow_dtype", block.dtype)
        if str(dtype) in _DAYS_OF_ARROW:  # which pandas refuses if they are far away
            whole, a_day = _DAYS_OF_ARROW[str(dtype)]
            seconds = _floats(block.astype(whole)) / a_day * 86400.0
            missing = np.isnan(seconds)
            seconds = np.clip(np.where(missing, 0.0, seconds), _FIRST, _LAST)
            block = np.floor(seconds).astype("datetime64[s]")
            block[missing] = np.datetime64("NaT")
        elif getattr(dtype, "tz", None) is not None:
            block = block.dt.tz_convert(None)
    elif is_polars(block):
        block = block.to_numpy()
    first, last = np.array([_FIRST, _LAST]).astype("datetime64[s]")
    return np.clip(np.asarray(block.astype("datetime64[s]")), first, last)


def _date_parts(block) -> list[np.ndarray]:
    times = _times(block)
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


def _entries(block) -> list:
    """Return values as objects, independently of each other."""
    if _is_pandas(block):
        return block.to_numpy(dtype=object).tolist()
    if is_polars(block):
        return block.to_list()
    return block.tolist() if block.dtype.kind not in "mM" else list(block)


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, position and kind."""

    name: str
    position: int
    kind: str
    dtype: Any = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the numbers derived from it."""
        return tuple(self.name + end for end in PARTS.get(self.kind, ()))


class Table:
    """Columns of a frame, an array or lists, of which slices are rows of numbers."""

    def __init__(self, X, columns: Sequence[Column], n_rows: int):
        self._X, self.columns, self.n_rows = X, columns, n_rows
        self._read: dict[int, Any] = {}
        # Types that cannot be read are found without a value.
        if any(c.parts for c in columns) and not isinstance(X, (list, tuple)):
            read_quietly(
                lambda: self[:0],
                "X has a column of numbers or dates whose dtype cannot be converted",
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.columns)

    def of_users(self, n_users: int) -> Table:
        """Return the form of one row of each user; all rows will be read."""
        other = copy.copy(self)
        other.n_rows = n_users
        return other

    def read(self) -> Table:
        """Return the table, whose values may then be read."""
        return self

    def at(self, places: np.ndarray) -> Table:
        """Return the rows at some places."""
        chosen = read_quietly(lambda: take_rows(self._X, places))
        return Table(chosen, self.columns, len(places))

    def block(self, place: int, rows: slice):
        """Return some rows of a column, in the table's own type."""
        if place not in self._read:
            self._read[place] = column_at(self._X, self.columns[place].position)
        column = self._read[place]
        return column.iloc[rows] if _is_pandas(column) else column[rows]

    def numbers(self) -> SlicedRows:
        """Return all that are numbers, durations and dates, as rows of float64."""
        width = sum(len(column.parts) for column in self.columns)
        return SlicedRows(self, (self.n_rows, width), np.dtype(np.float64))

    @quietly
    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return some rows of :meth:`numbers`; non-finite values are missing."""
        made: list[np.ndarray] = []
        for place, column in enumerate(self.columns):
            if column.kind in (NUMBER, DURATION):
                read = _floats if column.kind == NUMBER else _durations
                made.append(read(self.block(place, rows)))
            elif column.parts:
                parts = _date_parts(self.block(place, rows))
                made.extend(parts[: len(column.parts)])
        block = np.column_stack(made)
        block[~np.isfinite(block)] = np.nan
        return block

    def counts(self, place: int) -> Mapping[str, int]:
        """Return how many rows have each text that occurs in a column."""
        counts: Counter = Counter()
        for rows in row_blocks(self.n_rows, _TOGETHER):
            count_texts(self.entries(place, rows), counts)
        return counts

    def entries(self, place: int, rows: slice) -> list:
        """Return some values of a column as objects."""
        return read_quietly(lambda: _entries(self.block(place, rows)))

    def codes(self, place: int, rows: slice, code_of: Mapping[Any, int]) -> list[int]:
        """Return the code of each value: that of its text, or else of `_NoText`."""
        rare = code_of[_NoText]
        return _of_each(
            self.entries(place, rows), lambda value: code_of.get(text_of(value), rare)
        )

    def texts(self, place: int, rows: slice) -> list[str]:
        """Return texts of any length for splitting into words; "" for other values."""
        return [
            str.__str__(value).encode("utf-8", "backslashreplace").decode()
            if issubclass(type(value), str)
            else ""
            for value in self.entries(place, rows)
        ]

    def ids(self, place: int, rows: slice) -> np.ndarray:
        """Return ids as whole numbers, and numbers as they are; -1 for missing ones."""
        if kind_of(self.columns[place].dtype) == NUMBER:
            found = np.array(read_quietly(lambda: _floats(self.block(place, rows))))
            found[~np.isfinite(found)] = -1.0
            return found
        return np.array(_of_each(self.entries(place, rows), id_of))


def code_table(texts: Sequence[str]) -> dict[Any, int]:
    """Return codes of texts, then of all others, then of missing values."""
    codes: dict[Any, int] = {text: code for code, text in enumerate(texts)}
    return {**codes, _NoText: len(texts), None: len(texts) + 1}
