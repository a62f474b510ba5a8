"""Columns of a table, read by blocks, and conversions of single values.

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
from typing import Any

import numpy as np
from scipy.special import ndtri

from .. import sensitivity
from .._linalg.walks import quietly, row_blocks
from .._statistics.feature_scales import FeatureLaw
from .._statistics.statistic import Combination, Statistic
from .._statistics.windows import scales_of_features
from .._tables.columns import (
    DATE,
    DAY,
    DURATION,
    NEVER,
    NUMBER,
    OBJECTS,
    TEXT,
    as_array,
    is_polars,
    kind_of,
    own_type,
    read_quietly,
)
from .._tables.files import MadeRows
from .._tables.table import Table
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
        return release.above_threshold(self.name, counts)


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
        told = {"remarks": self.remarks(), "failure": self.failure}
        return PrivacyPlan(epsilon, delta, mechanisms, **told, **named)

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
CATEGORIES, USER = "categories", "user"

# Numbers that are made of a column of each kind, by the ends of their names.
PARTS = {
    NUMBER: ("",),
    DURATION: ("",),
    DAY: ("_year", "_month", "_day_of_week", "_total_seconds"),
    DATE: ("_year", "_month", "_day_of_week", "_total_seconds", "_hour"),
}

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

# Rows of which values are counted together: a table of Python objects of them.
_TOGETHER = 1 << 16


class _NoText:
    """Sentinel for values without a text, such as lists; they count as rare."""


def treatment(dtype) -> str | None:
    """Return how a column is treated, by its dtype; None if it is refused."""
    kind, name = kind_of(dtype), str(dtype).lower()
    declared = hasattr(dtype, "categories") or name.startswith("dictionary")
    empty = kind == NEVER and name in ("null", "object")
    if empty or kind in (TEXT, OBJECTS) or (declared and kind == NUMBER):
        return CATEGORIES
    return kind if kind in PARTS and not declared else None


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
    """Return the text of a value, None for a missing one; runs no code of users."""
    kind = type(value)
    try:
        if issubclass(kind, str):
            return _normal(str.__str__(value))
        if value is None or kind.__name__ in ("NAType", "NaTType"):
            return None
        if kind is bool or kind is np.bool_:
            return "True" if value else "False"
        if kind is np.longdouble:  # no longer float of numpy is a type of Python
            return text_of(float(value))
        if issubclass(kind, (np.floating, np.integer)):
            value = np.generic.item(value)
            kind = type(value)
        if issubclass(kind, int):
            return _normal(str(int.__int__(value)))
        if issubclass(kind, float):
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
    return block.tolist()


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, place and kind."""

    name: str
    place: int
    kind: str
    dtype: Any = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the numbers derived from it."""
        return tuple(self.name + end for end in PARTS.get(self.kind, ()))


@dataclass(frozen=True)
class Vectors:
    """Columns of a table, of which vectors are made, some rows at a time.

    `n_rows` are those of the table, or of its users.
    """

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
        """Return all that are numbers, durations and dates, as rows of float64.

        Those that are not finite are missing.
        """
        return MadeRows((self.n_rows, self.n_numbers), self._numbers)

    @quietly
    def _numbers(self, rows: slice) -> np.ndarray:
        made: list[np.ndarray] = []
        for column in self.columns:
            if not column.parts:
                continue
            block = self.table.part(column.place, rows)
            if column.kind == NUMBER:
                made.append(_floats(block))
            elif column.kind == DURATION:
                made.append(_durations(block))
            else:
                made.extend(_date_parts(block)[: len(column.parts)])
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
        return read_quietly(lambda: _entries(self.table.part(place, rows)))

    def codes(self, place: int, rows: slice, code_of: Mapping[Any, int]) -> list[int]:
        """Return the code of each value: that of its text, or else of `_NoText`."""
        rare = code_of[_NoText]
        return _of_each(
            self.entries(place, rows), lambda value: code_of.get(text_of(value), rare)
        )

    def ids(self, place: int, rows: slice) -> np.ndarray:
        """Return ids as whole numbers, and numbers as they are; -1 for missing ones."""
        if kind_of(self.columns[place].dtype) != NUMBER:
            return np.array(_of_each(self.entries(place, rows), id_of))
        found = read_quietly(lambda: np.array(_floats(self.table.part(place, rows))))
        found[~np.isfinite(found)] = -1.0
        return found


def code_table(texts: Sequence[str]) -> dict[Any, int]:
    """Return codes of texts, then of all others, then of missing values."""
    codes: dict[Any, int] = {text: code for code, text in enumerate(texts)}
    return {**codes, _NoText: len(texts), None: len(texts) + 1}
