"""Vectors of the rows of a table with numbers, categories, dates, texts and holes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import Seed, Self, TableEstimator, unweighted
from .._base.sklearn_compat import (
    Interval,
    StrOptions,
    check_input_features,
    output_container,
)
from .._linalg.walks import quietly
from .._tables.ids import check_feature, position_of
from .._tables.readers import column_names, refuse_same_names
from .._tables.rows import compare_features, dtypes_of, is_sparse, table_shape
from ..accounting import NoisyFitWarning, PrivacyAccountant
from ..mechanisms import PrivacyPlan, check_count, shown
from ..mechanisms._plan import has_budget
from ._columns import (
    CATEGORIES,
    DATE,
    DAY,
    DURATION,
    NUMBER,
    PARTS,
    TEXT,
    USER,
    Column,
    Table,
    TableStatistics,
    code_table,
    declared_values,
    kind_of,
    slices,
    text_of,
)
from ._scaler import standardized

# Rows that pairs can be made of.
_FEWEST_ROWS = 2

# What stands for the values of a dtype, and for values that are looked for.
_DECLARED, _FOUND = "dtype", "find"

# With sparse_output="auto": the largest share of columns that may be nonzero.
_DENSITY = 0.3

# Kinds of columns that keep their names.
_OWN_NAMES = {NUMBER, DURATION, USER}

# Columns that a warning names.
_NAMED = 5


@documented
class DPTableVectorizer(TransformerMixin, TableEstimator):
    r"""Turn a table with numbers, text, dates and holes into numbers, privately.

    Numbers are standardized by private means and standard deviations, and holes filled
    with these means. Text columns become 0/1 columns, one for each category. Categories
    are public where they are given; others are found, by private counts. One budget
    covers everything. Read more in the :ref:`user guide <tables>`.

    Parameters
    ----------
    {epsilon}
    {delta}
        Well below ``1 / n_samples``. A hundredth of it covers values of a single row,
        if categories have to be found.
    categories : "dtype", dict or None, default=None
        Public categories. A dictionary has, by the name or position of a column, its
        values, "dtype", or "find". "dtype" takes the categories that the column's dtype
        declares, as those of pandas and polars ``Enum`` do. **They must be public:**
        ``astype("category")`` reads them off the data. "find" treats a column of
        numbers as one of categories. ``categories="dtype"`` stands for "dtype" in all
        columns whose dtype declares categories. Columns of text, objects and categories
        that are not named are searched for categories.
    max_categories : int, default=30
        Most categories that are kept of a column in which they are found: those with
        the largest private counts.
    text : list of int or str, or None, default=None
        Columns of long text, of which words are hashed; nothing is released of them.
    n_text_features : int, default=64
        Number of columns that each long text becomes.
    user_feature : int, str or None, default=None
        Column of ids of users. It is passed on: numbers as they are, other ids as whole
        numbers that depend on the id alone, missing ones as -1.
    add_indicator : bool, default=False
        Whether each column of numbers or dates has a further column that is 1 where it
        is missing.
    sparse_output : bool or "auto", default=False
        Whether :meth:`transform` returns a sparse matrix. "auto" returns one if at most
        3 of 10 of the columns can be nonzero in a row, and `set_output` asks for no
        frame.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    kinds_ : dict of str to str
        How each column is treated: "number", "duration", "date", "day", "categories",
        "text" or "user". It depends on dtypes and parameters alone.
    categories_ : dict of str to list of str
        Categories of each column: those that were given, in this order, or private
        ones, in alphabetical order.
    scaled_features_ : ndarray of str of shape (n_numbers,)
        Names of the numbers that are standardized, parts of dates among them.
    mean_, scale_ : ndarray of shape (n_numbers,)
        Private means and standard deviations, as those of :class:`DPStandardScaler`.
    unseen_features_ : ndarray of bool of shape (n_numbers,)
        Whether a number is lost in the noise; it is transformed to 0.
    present_shares_ : ndarray of shape (n_numbers,)
        Private shares of values that are not missing.
    n_samples_ : int
        Number of rows of the fit, public under replace-one.
    {n_features_in_}
    {feature_names_in_}
    {privacy_}

    Warns
    -----
    NoisyFitWarning
        If rows are too few for any number or category to be seen, by public numbers
        alone; or if no category was released of a column, as for ids.

    See Also
    --------
    DPStandardScaler : Scales of numbers alone.
    sklearn.preprocessing.OneHotEncoder : Categories without privacy.

    Notes
    -----
    **Formal guarantee.** Each fit with ``noise_seed=None`` is
    (`epsilon`, `delta`)-differentially private for one row, under replacement of that
    row (`n_samples` is public), for any data. All fitted attributes are covered, and
    warnings. **Column names and dtypes are public**, and decide how a column is
    treated: readers of files infer dtypes from values, so declare them. What
    :meth:`transform` returns of a row depends on that row and the releases, and is as
    private as that row.

    Budgets are shared by columns: with p numbers and c columns in which categories are
    looked for, numbers have :math:`p / (p + c)` of :math:`\mu^2`. Counts of c columns
    have the sensitivity :math:`\sqrt{2 c}`, jointly. Those above a threshold are
    released, which a value of a single row exceeds with a probability that is part of
    `delta` (:ref:`lemma-thresholding`).

    Text is compared by its normal form C. Texts of more than 100 characters are shown
    by their beginning and a digest. Numbers among objects are compared by their digits,
    other objects but dates are rare values. Infinite numbers are missing ones. Memory
    grows with the number of distinct values of a column, by about 100 bytes for each
    short text: with a million distinct values of 12 letters, a fit takes 104 MB. How
    long a fit takes may depend on values.

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
        "categories": [StrOptions({_DECLARED}), dict, None],
        "max_categories": [Interval(Integral, 1, None, closed="left")],
        "text": [list, tuple, None],
        "n_text_features": [Interval(Integral, 1, 2**20, closed="both")],
        "user_feature": [Integral, str, None],
        "add_indicator": ["boolean"],
        "sparse_output": ["boolean", StrOptions({"auto"})],
    }
    _array_parameters: ClassVar[tuple[str, ...]] = ("categories", "text")

    def __init__(
        self,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        categories=None,
        max_categories: int = 30,
        text=None,
        n_text_features: int = 64,
        user_feature: int | str | None = None,
        add_indicator: bool = False,
        sparse_output: bool | str = False,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.max_categories = max_categories
        self.text = text
        self.n_text_features = n_text_features
        self.user_feature = user_feature
        self.add_indicator = add_indicator
        self.sparse_output = sparse_output
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
            Number of numbers that are standardized: one a column, four of a day and
            five of a date.
        n_categories : int, default=0
            Number of columns in which categories are looked for.

        Returns
        -------
        {plan_of_shape}

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        counts = [("n_features", n_features), ("n_categories", n_categories)]
        numbers = [0 if n == 0 else check_count(name, n) for name, n in counts]
        n_samples = check_count("n_samples", n_samples)
        return self._planned(self._statistics(n_samples, *numbers))

    def plan_for(self, X) -> PrivacyPlan:
        """Describe what a fit of X will release and cost; nothing is fitted.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows, of which nothing but the shape, names and dtypes is used.

        Returns
        -------
        {plan_of_shape}

        Raises
        ------
        {invalid_shape}
        """
        self._check_parameters()
        table = self._table(X)
        return self._planned(self._statistics_of(table, self._public_categories(table)))

    def _statistics(self, n_samples, n_numbers, n_columns) -> TableStatistics:
        if n_samples < _FEWEST_ROWS:
            raise ValueError(
                f"n_samples={n_samples} must be at least {_FEWEST_ROWS}: scales are "
                "made of differences of rows"
            )
        budget = self._budget_of_fit()
        return TableStatistics(n_samples, n_numbers, n_columns, *budget)

    def _statistics_of(self, table: Table, public: Mapping) -> TableStatistics:
        n_numbers = sum(len(column.parts) for column in table.columns)
        return self._statistics(table.n_rows, n_numbers, len(_found(table, public)))

    # -- columns, by what is public -------------------------------------------------

    def _table(self, X, *, compared=None, reset=False) -> Table:
        """Check the form of a table; `compared` is the estimator that it belongs to."""
        if is_sparse(X):
            raise TypeError(
                "Sparse data was passed for X, but dense data is required: pass "
                "X.toarray() or a dataframe"
            )
        X = _with_columns(X)
        refuse_same_names(column_names(X), "X")
        shape = table_shape(X)
        # A stand-in for lists has neither names nor values.
        lists = isinstance(X, (list, tuple))
        named = np.broadcast_to(np.array(None), shape) if lists else X
        compare_features(compared, named, reset)
        fitted = compared is not None and not reset
        columns = self._fitted_columns(named) if fitted else self._columns(named)
        return Table(X, columns, shape[0])

    def _columns(self, X) -> list[Column]:
        chosen = self._chosen(column_names(X), int(X.shape[1]))
        kinds = [_kind(name, dtype) for name, dtype in _names_and_dtypes(X)]
        return [
            Column(name, j, chosen.get(j, kinds[j]), dtype)
            for j, (name, dtype) in enumerate(_names_and_dtypes(X))
        ]

    def _fitted_columns(self, X) -> list[Column]:
        """Return columns with their kinds of fit; refuse dtypes that have no such."""
        columns = []
        for j, (name, dtype) in enumerate(_names_and_dtypes(X)):
            kind, own = self.kinds_[name], _kind(name, dtype)
            if kind in PARTS and own != kind and {own, kind} != {DATE, DAY}:
                raise ValueError(
                    f"X: column {name!r} has dtype {dtype}, and was treated as {kind} "
                    "in fit: convert it to the dtype that it had"
                )
            columns.append(Column(name, j, kind, dtype))
        return columns

    def _chosen(self, labels, n_columns: int) -> dict[int, str]:
        """Return kinds that parameters choose, by positions."""
        chosen: dict[int, str] = {}
        given = self.categories if isinstance(self.categories, dict) else {}
        users = [] if self.user_feature is None else [self.user_feature]
        for parameter, kind, features in (
            ("categories", CATEGORIES, given),
            ("text", TEXT, self.text or ()),
            ("user_feature", USER, users),
        ):
            for feature in features:
                position = _position(feature, labels, n_columns, parameter)
                if position in chosen:
                    raise ValueError(
                        f"{parameter} has column {feature!r}, which is named already: "
                        "a column has one kind"
                    )
                chosen[position] = kind
        return chosen

    def _public_categories(self, table: Table) -> dict[str, list[str]]:
        """Return the categories that are given, by the names of columns."""
        given = self.categories if isinstance(self.categories, dict) else {}
        labels = [column.name for column in table.columns]
        asked = {
            _position(feature, labels, len(labels), "categories"): values
            for feature, values in given.items()
        }
        public = dict[str, list[str]]()
        for column in table.columns:
            if column.kind != CATEGORIES:
                continue
            values = asked.get(column.position, _FOUND)
            declared = declared_values(column.dtype)
            if isinstance(self.categories, str) and declared is not None:
                values = _DECLARED
            if isinstance(values, str) and values == _DECLARED:
                values = _declared(column.name, declared)
            if not (isinstance(values, str) and values == _FOUND):
                public[column.name] = _texts(column.name, values)
            elif kind_of(column.dtype) not in (CATEGORIES, NUMBER):
                raise ValueError(
                    f"categories: column {column.name!r} of dtype {column.dtype} has "
                    "no categories to be found; leave it out"
                )
        return public

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    # -- the estimator -------------------------------------------------------------

    @unweighted
    def fit(self, X, y=None) -> Self:
        """Release scales of numbers and categories of texts.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            A table of pandas or polars, or an array; never modified. In an array of
            objects, and in lists, all columns are of categories. What is missing is
            None, NaN, NaT or NA.
        {y_ignored}

        {outcome_of_fit}
        """
        with self._unchanged_on_error():
            self._check_parameters()
            unread = self._table(X, compared=self, reset=True)
            public = self._public_categories(unread)
            statistics = self._statistics_of(unread, public)
            plan = self._planned(statistics, in_fit=True)
            # It is charged here, and values are read from here on.
            n_public = statistics.n_samples
            release, table = self._start_release(plan, unread, n_public=n_public)
            law = statistics.run(release, table, _found(table, public))
            self._set_law(table, public, law)
            self.n_samples_ = statistics.n_samples
            self.privacy_ = plan
            self._warn_of_ids(table, public)
        return self

    def _set_law(self, table: Table, public: Mapping, law) -> None:
        """Set the fitted attributes from public and released values."""
        found = _found(table, public)
        kept = dict(zip(found, law.categories, strict=True))
        self.kinds_ = {column.name: column.kind for column in table.columns}
        self.categories_ = {}
        for place, column in enumerate(table.columns):
            if column.kind == CATEGORIES:
                counts = kept.get(place, {})
                most = sorted(counts, key=lambda text: (-counts[text], text))
                texts = sorted(most[: self.max_categories])
                self.categories_[column.name] = public.get(column.name, texts)
        names = [part for column in table.columns for part in column.parts]
        self.scaled_features_ = np.array(names, dtype=object)
        none = np.zeros(0)
        self.mean_, self.scale_, self.present_shares_ = none, none, none
        self.unseen_features_ = np.zeros(0, dtype=bool)
        if law.numbers is not None:
            self.mean_, self.scale_ = law.numbers.mean, law.numbers.scale
            self.present_shares_ = law.numbers.present
            self.unseen_features_ = ~law.numbers.seen

    def _warn_of_ids(self, table: Table, public: Mapping) -> None:
        """Warn of columns of which no category was released."""
        found = [table.columns[place].name for place in _found(table, public)]
        empty = [name for name in found if not self.categories_[name]]
        if not empty or not has_budget(self.privacy_):
            return
        threshold = self.privacy_["categories"].threshold
        shown = ", ".join(repr(name) for name in empty[:_NAMED])
        more = ", ..." if len(empty) > _NAMED else ""
        warnings.warn(
            f"no category was found in {shown}{more}: no value has a private count "
            f"above {threshold:.0f}. Use more rows or a larger epsilon, or give public "
            "categories; drop columns of ids, and name long text in text",
            NoisyFitWarning,
            stacklevel=3 + self._levels_around_fit,
        )

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns that :meth:`transform` returns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X, which must be those of fit.

        Returns
        -------
        ndarray of str
            Names of numbers, ``<column>_missing`` with `add_indicator`,
            ``<column>_<part>`` of dates, ``<column>_<category>``, ``<column>_rare`` and
            ``<column>_missing`` of categories, ``<column>_<number>`` of long text, in
            the order of the columns of X.
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
        missing = [f"{name}_missing"]
        if kind == CATEGORIES:
            texts = [f"{name}_{text}" for text in self.categories_[name]]
            others = [f"{name}_rare", *missing]
            return [text + "_" * (text in others) for text in texts] + others
        if kind == TEXT:
            return [f"{name}_{number}" for number in range(self.n_text_features)]
        if kind == USER:
            return [name]
        return [name + end for end in PARTS[kind]] + missing * self.add_indicator

    def transform(self, X):
        """Return the rows of a table as numbers.

        Parameters
        ----------
        X : dataframe, pyarrow table or array-like of shape (n_samples, n_features)
            A table with the columns of fit, whose dtypes are treated alike.

        Returns
        -------
        ndarray, dataframe or sparse CSR array of shape (n_samples, n_features_out)
            Finite numbers, with the names of :meth:`get_feature_names_out`. Unknown and
            rare values have 1 in ``<column>_rare``.
        """
        check_is_fitted(self)
        table = self._table(X, compared=self).read()
        width = len(self.get_feature_names_out())
        to_vectors = quietly(_Vectors(self, width).of)
        rows = slices(table.n_rows, width)
        if self._is_sparse():
            blocks = [sparse.csr_array(to_vectors(table, part)) for part in rows]
            return sparse.vstack(blocks, format="csr")
        out = np.empty((table.n_rows, width))
        for part in rows:
            out[part] = to_vectors(table, part)
        return out

    def _is_sparse(self) -> bool:
        """Whether the output is sparse, by numbers that are public or released."""
        if self.sparse_output != "auto":
            return bool(self.sparse_output)
        widths = {name: len(self._names_of(name, k)) for name, k in self.kinds_.items()}
        filled = sum(1 if n in self.categories_ else w for n, w in widths.items())
        dense = output_container(self) == "default"
        return dense and filled <= _DENSITY * sum(widths.values())


class _Vectors:
    """What is made of the rows of a table, block by block, by a fitted vectorizer."""

    def __init__(self, fitted: DPTableVectorizer, width: int):
        self._fitted, self._width = fitted, width
        self._weights = np.where(fitted.unseen_features_, 0.0, 1.0 / fitted.scale_)
        self._codes = {
            name: code_table(texts) for name, texts in fitted.categories_.items()
        }
        self._hashing = HashingVectorizer(n_features=fitted.n_text_features)

    def of(self, table: Table, rows: slice) -> np.ndarray:
        """Return some rows as numbers."""
        n_rows = len(range(*rows.indices(table.n_rows)))
        out = np.zeros((n_rows, self._width))
        scaled = holes = np.zeros((n_rows, 0))
        if len(self._weights):
            numbers = table.numbers()[rows]
            scaled = standardized(numbers, self._fitted.mean_, self._weights)
            holes = np.isnan(numbers)
        place, first = 0, 0
        for j, (name, kind) in enumerate(self._fitted.kinds_.items()):
            start = place
            place += len(self._fitted._names_of(name, kind))
            if kind == CATEGORIES:
                codes = table.codes(j, rows, self._codes[name])
                out[np.arange(n_rows), start + np.array(codes, dtype=int)] = 1.0
            elif kind == TEXT:
                texts = table.texts(j, rows)
                out[:, start:place] = self._hashing.transform(texts).toarray()
            elif kind == USER:
                out[:, start] = table.ids(j, rows)
            else:
                n_parts = len(PARTS[kind])
                out[:, start : start + n_parts] = scaled[:, first : first + n_parts]
                if self._fitted.add_indicator:
                    out[:, place - 1] = holes[:, first]
                first += n_parts
        return out


def _found(table: Table, public: Mapping[str, list[str]]) -> list[int]:
    """Return places of columns in which categories are looked for."""
    return [
        place
        for place, column in enumerate(table.columns)
        if column.kind == CATEGORIES and column.name not in public
    ]


def _with_columns(X):
    """Return a frame of pandas or polars, an array or lists, made of X if need be."""
    if isinstance(X, np.matrix):
        raise TypeError("X must be no np.matrix: pass np.asarray(X)")
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError("X must be no masked array: pass X.filled(np.nan)")
    if hasattr(X, "iloc") or type(X).__module__.startswith("polars"):
        return X
    if type(X).__module__.startswith("pyarrow") and hasattr(X, "to_pandas"):
        import pandas as pd

        # With the types of its columns: those of pandas' own would depend on values.
        return X.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    if column_names(X) is not None:
        raise TypeError(
            "X must be a dataframe of pandas or polars, a table of pyarrow, or an "
            f"array, and no {type(X).__module__}.{type(X).__name__}: convert it to a "
            "dataframe of pandas"
        )
    # The common type of lists would depend on values.
    return X if isinstance(X, (np.ndarray, list, tuple)) else np.asarray(X)


def _names_and_dtypes(X) -> list[tuple[str, Any]]:
    """Return the name and the dtype of each column of a frame or an array."""
    labels, n_columns = column_names(X), int(X.shape[1])
    named = labels is not None and all(isinstance(name, str) for name in labels)
    names = map(str, labels) if named else (f"x{j}" for j in range(n_columns))
    dtypes = dtypes_of(X) if labels is not None else dtypes_of(X) * n_columns
    return list(zip(names, dtypes, strict=True))


def _kind(name, dtype) -> str:
    kind = kind_of(dtype)
    if kind is None:
        complex_ = "Complex data not supported: " if str(dtype)[:7] == "complex" else ""
        raise ValueError(
            f"{complex_}column {name!r} of X has dtype {dtype}, of which no numbers "
            "are made: drop or convert it"
        )
    return kind


def _position(feature, labels, n_columns: int, parameter: str) -> int:
    """Return where a column is that a parameter names."""
    check_feature(feature, parameter)
    if labels is None and isinstance(feature, str):
        raise ValueError(
            f"{parameter}={feature!r}, but X has no column names; give its position"
        )
    return position_of(feature, labels or range(n_columns), parameter)


def _declared(name: str, declared: list | None) -> list:
    if declared is None:
        raise ValueError(
            f'categories: column {name!r} has "dtype", but its dtype declares no '
            "categories: give a list of them"
        )
    return declared


def _texts(name: str, values: Any) -> list[str]:
    """Return public categories as texts, in their order."""
    said = f"categories: those of column {name!r} must "
    if isinstance(values, (str, bytes, Mapping, set)) or not np.iterable(values):
        raise ValueError(f'{said}be a list, "dtype" or "find", got {shown(values)}')
    texts = [text for text in map(text_of, values) if isinstance(text, str)]
    if len(texts) < len(values):
        raise ValueError(said + "have a text each: None is no category, and no list is")
    if len(set(texts)) < len(texts):
        raise ValueError(said + "differ as texts: 1 and '1' are alike")
    return texts
