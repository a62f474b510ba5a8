"""Vectors of the rows of a table with numbers, categories, dates, texts and holes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._base.documented import documented
from .._base.estimator import OutputUnits, Seed, Self, TableEstimator, unweighted
from .._base.sklearn_compat import Interval, check_input_features
from .._linalg.walks import quietly, row_blocks, rows_per_block
from .._statistics.feature_scales import FARTHEST, FeatureLaw, refuse_too_few
from .._tables.columns import (
    check_feature,
    column_names,
    first_names,
    frame_of_arrow,
    is_arrow,
    is_polars,
    is_sparse,
    position_of,
    refuse_on_cluster,
)
from .._tables.table import Table, compare_features
from ..accounting import NoisyFitWarning, PrivacyAccountant
from ..accounting._errors import warn
from ..mechanisms import PrivacyPlan, check_count, shown
from ..mechanisms._plan import has_budget
from ._columns import (
    CATEGORIES,
    DATE,
    DAY,
    DURATION,
    NUMBER,
    PARTS,
    USER,
    Column,
    TableStatistics,
    Vectors,
    code_table,
    may_occur,
    text_of,
    treatment,
)
from ._scaler import standardized

# What stands for values that are looked for.
_FOUND = "find"

# Share of rows whose categories are found, below which a column is warned of.
_MOST = 0.5

# Kinds of columns that keep their names, and those of which values are texts.
_OWN_NAMES, _OF_TEXTS = {NUMBER, DURATION, USER}, {CATEGORIES, NUMBER}


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
    user_feature : int, str or None, default=None
        Column of user ids, which are passed through. Numbers are unchanged, other ids
        are mapped to integers that only depend on the id, and missing ids become -1.
    {accountant}
    {noise_seed}

    Attributes
    ----------
    kinds_ : dict of str to str
        How each column is treated: "number", "duration", "date", "day", "categories"
        or "user". This depends only on dtypes and parameters.
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
        "user_feature": [Integral, str, None],
    }
    _array_parameters: ClassVar[tuple[str, ...]] = ("categories",)

    def __init__(
        self,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        categories=None,
        max_categories: int = 30,
        user_feature: int | str | None = None,
        accountant: PrivacyAccountant | None = None,
        noise_seed: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.max_categories = max_categories
        self.user_feature = user_feature
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
        return self._planned(self._statistics_of(rows, self._public_categories(rows)))

    def _statistics(self, n_samples, n_numbers, n_columns) -> TableStatistics:
        refuse_too_few(n_samples)
        budget = self._budget_of_fit()
        return TableStatistics(n_samples, n_numbers, n_columns, *budget)

    def _statistics_of(self, rows: Vectors, public: Mapping) -> TableStatistics:
        return self._statistics(rows.n_rows, rows.n_numbers, len(_found(rows, public)))

    # -- columns, by what is public -------------------------------------------------

    def _vectors(self, X, *, compared=None, reset=False) -> Vectors:
        """Check the form of a table; `compared` is the estimator that it belongs to."""
        table = Table(_with_columns(X))
        compare_features(compared, table.like, reset)
        fitted = compared is not None and not reset
        columns = self._fitted_columns(table) if fitted else self._columns(table)
        return Vectors(table, columns, table.shape[0])

    def _columns(self, table: Table) -> list[Column]:
        """Return columns with their kinds, which parameters or dtypes choose."""
        chosen: dict[int, str] = {}
        users = [] if self.user_feature is None else [self.user_feature]
        columns = _names_and_dtypes(table)
        for parameter, kind, features in (
            ("categories", CATEGORIES, self.categories or {}),
            ("user_feature", USER, users),
        ):
            for feature in features:
                place = _place(feature, table, parameter)
                if place in chosen:
                    raise ValueError(
                        f"{parameter} has column {feature!r}, which is already named "
                        "elsewhere: each column must have one kind, and X has "
                        f"n_features = {table.shape[1]}"
                    )
                if _kind(*columns[place]) not in _OF_TEXTS:
                    raise ValueError(
                        f"{parameter}: column {feature!r} has dtype "
                        f"{columns[place][1]}: convert it with astype(str)"
                    )
                chosen[place] = kind
        return [
            Column(name, j, chosen.get(j, _kind(name, dtype)), dtype)
            for j, (name, dtype) in enumerate(columns)
        ]

    def _fitted_columns(self, table: Table) -> list[Column]:
        """Return columns with their kinds of fit; refuse other dtypes."""
        columns = []
        for j, (name, dtype) in enumerate(_names_and_dtypes(table)):
            kind, own = self.kinds_[name], _kind(name, dtype)
            alike = {kind} if kind in PARTS else _OF_TEXTS
            if own not in alike and {own, kind} != {DATE, DAY}:
                raise ValueError(
                    f"X: column {name!r} has dtype {dtype}, but was treated as {kind} "
                    "in fit: convert it to the dtype that it had in fit"
                )
            columns.append(Column(name, j, kind, dtype))
        return columns

    def _public_categories(self, rows: Vectors) -> dict[str, list[str]]:
        """Return the categories that are given, by the names of columns."""
        asked = {
            _place(feature, rows.table, "categories"): values
            for feature, values in (self.categories or {}).items()
        }
        public = dict[str, list[str]]()
        for column in rows.columns:
            if column.kind != CATEGORIES:
                continue
            values = asked.get(column.place, _FOUND)
            if not (isinstance(values, str) and values == _FOUND):
                texts = public[column.name] = _texts(column.name, values)
                if texts and not any(may_occur(t, column.dtype) for t in texts):
                    raise ValueError(
                        f"categories: no value of column {column.name!r}, of dtype "
                        f"{column.dtype}, has one of the given categories as its text: "
                        "convert the column with astype(str), or give its values"
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
            public = self._public_categories(unread)
            statistics = self._statistics_of(unread, public)
            plan = self._planned(statistics, in_fit=True)
            # It is charged here, and values are read from here on.
            n_public = statistics.n_samples
            release, rows = self._start_release(plan, unread, n_public=n_public)
            law = statistics.run(release, rows, _found(rows, public))
            self._set_law(rows, public, law)
            self.n_samples_ = statistics.n_samples
            self.privacy_ = plan
            self._warn_of_unseen(
                "transform returns 0 for them",
                "scale them by public bounds before",
            )
            self._warn_of_rare(rows, public, law[1])
        return self

    def _set_law(self, rows: Vectors, public: Mapping, law) -> None:
        """Set the fitted attributes from public and released values."""
        numbers, categories = law
        kept = dict(zip(_found(rows, public), categories, strict=True))
        self.kinds_ = {column.name: column.kind for column in rows.columns}
        self.categories_ = {}
        for column in rows.columns:
            if column.kind == CATEGORIES:
                counts = kept.get(column.place, {})
                most = sorted(counts, key=lambda text: (-counts[text], text))
                texts = sorted(most[: self.max_categories])
                self.categories_[column.name] = public.get(column.name, texts)
        names = [part for column in rows.columns for part in column.parts]
        self.scaled_features_ = np.array(names, dtype=object)
        none = np.zeros(0)
        numbers = numbers or FeatureLaw(none, none, none > 0, none, none)
        self.mean_, self.scale_ = numbers.mean, numbers.scale
        self.present_shares_, self.unseen_features_ = numbers.present, ~numbers.seen

    def _warn_of_rare(self, rows: Vectors, public: Mapping, categories) -> None:
        """Warn of columns of which most rows have no released category."""
        if not has_budget(self.privacy_):
            return
        rare = []
        for place, counts in zip(_found(rows, public), categories, strict=True):
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
        if kind == CATEGORIES:
            texts = [f"{name}_{text}" for text in self.categories_[name]]
            others = [f"{name}_rare", f"{name}_missing"]
            return [text + "_" * (text in others) for text in texts] + others
        if kind == USER:
            return [name]
        return [name + end for end in PARTS[kind]]

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
        codes = {name: code_table(texts) for name, texts in self.categories_.items()}
        for rows in row_blocks(table.n_rows, rows_per_block(max(width, 1))):
            self._fill(out[rows], table, rows, codes)
        return out

    @quietly
    def _fill(self, out: np.ndarray, table: Vectors, rows: slice, codes: dict) -> None:
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
                chosen = np.array(table.codes(j, rows, codes[name]), dtype=int)
                own[np.arange(len(own)), chosen] = 1.0
            elif kind == USER:
                own[:, 0] = table.ids(j, rows)
            else:
                for place in range(len(PARTS[kind])):
                    own[:, place] = next(scaled)

    def _output_units(self) -> OutputUnits | None:
        if USER in self.kinds_.values():
            return None
        sides, of_blocks, unseen = [], list[int](), iter(self.unseen_features_)
        for number, (name, kind) in enumerate(self.kinds_.items()):
            names = self._names_of(name, kind)
            of_blocks += [number if kind == CATEGORIES else -1] * len(names)
            side = [(0.0, 1.0)] * len(names)
            for place in range(len(PARTS.get(kind, ()))):
                side[place] = (0.0, 0.0) if next(unseen) else (-np.inf, np.inf)
            sides += side
        blocks = sum(kind == CATEGORIES for kind in self.kinds_.values())
        square = blocks + np.sum(~self.unseen_features_)
        return OutputUnits(np.transpose(sides), float(square), np.array(of_blocks))


def _found(rows: Vectors, public: Mapping[str, list[str]]) -> list[int]:
    """Return places of columns whose categories are to be found."""
    return [
        column.place
        for column in rows.columns
        if column.kind == CATEGORIES and column.name not in public
    ]


def _with_columns(X):
    """Return a frame of pandas or polars, an array or lists, converted from X."""
    if is_sparse(X):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required: pass "
            "X.toarray() or a dataframe"
        )
    refuse_on_cluster(X, "DPTableVectorizer")
    if hasattr(X, "iloc") or is_polars(X):
        return X
    if is_arrow(X):
        return frame_of_arrow(X)
    if column_names(X) is not None:
        raise TypeError(
            "X must be a pandas or polars dataframe, a pyarrow table, or an array, "
            f"got {type(X).__module__}.{type(X).__name__}: convert it to a pandas "
            "dataframe"
        )
    # The common type of lists would depend on values.
    return X if isinstance(X, (np.ndarray, list, tuple)) else np.asarray(X)


def _names_and_dtypes(table: Table) -> list[tuple[str, Any]]:
    """Return the name and the dtype of each column of a frame or an array."""
    labels, dtypes, n_columns = table.names, table.dtypes, table.shape[1]
    if labels is None:
        dtypes = [dtypes[0] or np.dtype(object)] * n_columns  # of lists objects
    named = labels is not None and all(isinstance(name, str) for name in labels)
    names = map(str, labels) if named else (f"x{j}" for j in range(n_columns))
    return list(zip(names, dtypes, strict=True))


def _kind(name, dtype) -> str:
    kind = treatment(dtype)
    if kind is None:
        complex_ = "Complex data not supported: " if str(dtype)[:7] == "complex" else ""
        raise ValueError(
            f"{complex_}column {name!r} of X has dtype {dtype}, which is not "
            "converted to numbers: drop it, or convert it, for example with astype(str)"
        )
    return kind


def _place(feature, table: Table, parameter: str) -> int:
    """Return the place of the column that a parameter names."""
    check_feature(feature, parameter)
    labels = table.names
    if labels is None and isinstance(feature, str):
        raise ValueError(
            f"{parameter}={feature!r}, but X has no column names: pass its position"
        )
    names = range(table.shape[1]) if labels is None else labels
    return position_of(feature, names, parameter) % len(names)


def _texts(name: str, values: Any) -> list[str]:
    """Return public categories as texts, in their order."""
    said = f"categories: the categories of column {name!r} must "
    if isinstance(values, (str, bytes, Mapping, set)) or not np.iterable(values):
        raise ValueError(f'{said}be a list or "find", got {shown(values)}')
    texts = [text for text in map(text_of, values) if isinstance(text, str)]
    if len(texts) < len(values):
        raise ValueError(said + "each have a text: None and lists are not categories")
    if len(set(texts)) < len(texts):
        raise ValueError(said + "differ as texts: 1 and '1' are the same text")
    return texts
