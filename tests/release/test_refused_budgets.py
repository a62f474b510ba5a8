"""A refused budget tells nothing of values: of no target, label, id or feature."""

import warnings

import numpy as np
import pandas as pd
import pytest
from estimators import ENTRIES
from ledger_tools import refused
from scipy import sparse

from skdpspectral import (
    DPPCA,
    DPAdamClassifier,
    DPMatrixFactorization,
    DPRidge,
    DPRidgeClassifier,
    DPStandardScaler,
    JMECovariance,
    LRSRegressor,
    PrivacyAccountant,
)
from skdpspectral.metrics import make_private_scorer
from skdpspectral.model_selection import PrivateSearchCV

N = 24
X = np.random.default_rng(0).normal(size=(N, 3)).round(2)
IDS, LABELS = np.arange(N) % 3, np.arange(N) % 2
WITH_IDS = np.column_stack([X, IDS])
RATINGS = np.column_stack([np.arange(N) % 5, IDS])
GOOD = 1.0
# What one entry of a list, or of an array of objects, may be.
VALUES = (np.nan, np.inf, 10**400, "a", "1.5", 1j, None, np.ma.masked, pd.NA, pd.NaT)
VALUES += (b"a", {}, (1,), [1.0], np.array(1j), True, np.datetime64("2020-01-01"))
FLOATS = (np.nan, np.inf, 1e300)


def changed(values, entry, dtype):
    """Return an array in which the last number of the sixth row is another."""
    array = np.empty(values.shape, dtype=dtype)
    array[:] = values.astype(float)
    array[(5, -1)[: array.ndim]] = entry
    return array


def listed(array):
    is_rows = isinstance(array, np.ndarray) and array.ndim > 0
    return [listed(part) for part in array] if is_rows else array


def hidden(values, entry):
    return np.ma.array(values, mask=False) if entry is GOOD else masked(values)


def masked(values):
    array = np.ma.array(values.astype(float))
    array[(5, -1)[: array.ndim]] = np.ma.masked
    return array


def numbers(values, entry):
    return changed(values, entry, float)


def objects(values, entry):
    return changed(values, entry, object)


def lazy(values, entry):
    array = pytest.importorskip("dask.array")
    return array.from_array(numbers(values, entry), chunks=(8, *values.shape[1:]))


# Containers of any array: how it is made, and what its entries may be.
CONTAINERS = {
    "array": (numbers, FLOATS),
    "objects": (objects, [e for e in VALUES if e is not np.ma.masked]),
    "masked array": (hidden, (np.ma.masked,)),
    "list": (lambda v, e: listed(objects(v, e)), VALUES),
    "tuple": (lambda v, e: tuple(map(tuple_of, listed(objects(v, e)))), VALUES),
    "list of parts": (lambda v, e: list(hidden(v, e)), (np.ma.masked,)),
    "pandas": (
        lambda v, e: (pd.Series if v.ndim == 1 else pd.DataFrame)(numbers(v, e)),
        FLOATS,
    ),
    "pandas objects": (
        lambda v, e: (pd.Series if v.ndim == 1 else pd.DataFrame)(objects(v, e)),
        VALUES,
    ),
    "sparse": (lambda v, e: sparse.csr_array(numbers(v, e)), FLOATS),
    "dask": (lazy, FLOATS),
}


def tuple_of(row):
    return tuple(row) if isinstance(row, list) and len(row) > 1 else row


def dask_rows(values):
    return lazy(values, GOOD if values.ndim == 1 else values[5, -1])


def search(estimator, parameter, score, a, **given):
    scorer = make_private_scorer(score, **given)
    grid = {parameter: [1, 2]}
    return PrivateSearchCV(estimator, grid, n_blocks=2, scoring=scorer, accountant=a)


class Model:
    """Predicts zeros."""

    def predict(self, X):
        return np.zeros(len(X))


USERS = {"limit": 1.0, "user_feature": -1}


def refit(entry, part):
    """Return how an entry is fitted with another table, target or ids."""

    def fit(values, accountant):
        data = {"X": entry.X, "y": entry.y, **entry.ids, part: values}
        entry.fit(entry.make(accountant=accountant), **data)

    return fit


# Name: what is replaced, and how it is fitted with an accountant. Ids of clients are
# public, and read before the charge.
FITS = {
    f"{part} of {name}": (np.asarray(values), refit(entry, part))
    for name, entry in ENTRIES.items()
    for part, values in {"X": entry.X, "y": entry.y, **entry.ids}.items()
    if values is not None and part != "clients"
}
FITS |= {
    "linear labels": (LABELS, lambda t, a: DPRidgeClassifier(accountant=a).fit(X, t)),
    "path": (X, lambda t, a: JMECovariance(accountant=a).release_path(t)),
    "batch": (X, lambda t, a: JMECovariance(horizon=99, accountant=a).partial_fit(t)),
    "two targets": (X[:, :2], lambda t, a: DPRidge(accountant=a).fit(X, t)),
    "labels": (LABELS, lambda t, a: DPAdamClassifier(accountant=a).fit(X, t)),
    "column of labels": (
        LABELS[:, None],
        lambda t, a: DPAdamClassifier(accountant=a).fit(X, t),
    ),
    "user column": (
        WITH_IDS,
        lambda t, a: LRSRegressor(user_feature=-1, accountant=a).fit(t, LABELS),
    ),
    "y beside a cluster": (
        LABELS,
        lambda t, a: LRSRegressor(accountant=a).fit(dask_rows(X), t, users=IDS),
    ),
    "users beside a cluster": (
        IDS,
        lambda t, a: LRSRegressor(accountant=a).fit(dask_rows(X), LABELS, users=t),
    ),
    "ratings beside a cluster": (
        LABELS,
        lambda t, a: DPMatrixFactorization(
            items=range(5), accountant=a, rating_range=(1, 5)
        ).fit(dask_rows(RATINGS[:, ::-1]), t),
    ),
    "search": (
        X,
        lambda t, a: search(
            DPPCA(1), "n_components", "captured_variance", a, clip_norm=1.0
        ).fit(t),
    ),
    "search's y": (
        LABELS,
        lambda t, a: search(
            DPAdamClassifier(classes=[0, 1]), "clip_norm", "accuracy", a
        ).fit(X, t),
    ),
    "search of users": (
        WITH_IDS,
        lambda t, a: search(
            LRSRegressor(user_feature=-1), "n_components", "squared_error", a, **USERS
        ).fit(t, LABELS),
    ),
    "score's y": (
        LABELS,
        lambda t, a: make_private_scorer("accuracy", 1.0, accountant=a)(Model(), X, t),
    ),
    "score of users": (
        WITH_IDS,
        lambda t, a: make_private_scorer("squared_error", 1.0, accountant=a, **USERS)(
            Model(), t, LABELS
        ),
    ),
}


def told(fit, table, accountant):
    """Return all that a refused fit tells: errors, their contexts, and warnings."""
    said, error = [], None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit(table, accountant)
        except Exception as refused:
            error = refused
    while error is not None:
        said.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    assert said, "nothing was refused"
    return *said, *(f"{w.category.__name__}: {w.message}" for w in caught)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", FITS)
def test_a_refused_budget_tells_nothing_of_a_value(name):
    (values, fit), spent = FITS[name], PrivacyAccountant(1e-9, 1e-9)
    for container, (make, entries) in CONTAINERS.items():
        if container == "sparse" and values.ndim == 1:
            continue
        if "search" in name:  # whose plans take a while
            if container not in ("list", "objects", "masked array"):
                continue
            entries = entries[::3]
        of_good = told(fit, make(values, GOOD), spent)
        for entry in entries:
            assert told(fit, make(values, entry), spent) == of_good, (container, entry)
    assert len(spent.ledger) == 0


# -- types that can never be numbers ---------------------------------------------------


def table_of(column):
    return pd.DataFrame({"a": column, "b": X[:, 0]})


def of_arrow(*given):
    pa = pytest.importorskip("pyarrow")
    values, kind = given
    return pa.table({"a": pa.array(values, getattr(pa, kind)()), "b": X[:, 0]})


def of_polars(values, dtype=None):
    pl = pytest.importorskip("polars")
    return pl.DataFrame({"a": pl.Series(values, dtype=dtype), "b": X[:, 0]})


NEVER = {
    "lists": lambda: of_polars([[1.0]] * N),
    "structs": lambda: of_polars([{"x": 1.0}] * N),
    "nulls": lambda: of_polars([None] * N),
    "intervals": lambda: table_of(pd.interval_range(0, N)),
    "periods": lambda: table_of(pd.period_range("2020", periods=N, freq="D")),
    "dates": lambda: table_of(pd.Categorical(pd.date_range("2020", periods=N))),
    "arrow dates": lambda: of_arrow([None] * N, "date32"),
    "arrow nulls": lambda: of_arrow([None] * N, "null"),
}


@pytest.mark.parametrize("name", NEVER)
def test_types_that_hold_no_numbers_are_refused_free_of_charge(name):
    table, accountant = NEVER[name](), PrivacyAccountant()
    with pytest.raises(ValueError, match=r"X must contain numbers"):
        DPPCA(1, accountant=accountant).fit(table)
    with pytest.raises(ValueError, match=r"y must contain numbers"):
        LRSRegressor(accountant=accountant).fit(X, table["a"], users=IDS)
    assert len(accountant.ledger) == 0


TEXT = {
    "string": lambda: table_of(pd.array(["x"] * N, dtype="string")),
    "numbers in strings": lambda: table_of(pd.array(["1.5"] * N, dtype="string")),
    "category": lambda: table_of(pd.Categorical(["x"] * N)),
    "category of objects": lambda: table_of(
        pd.Categorical(["x"] * N, pd.Index(["x"], dtype=object))
    ),
    "arrow": lambda: of_arrow(["x"] * N, "string"),
    "large arrow": lambda: of_arrow(["x"] * N, "large_string"),
    "polars": lambda: of_polars(["x"] * N),
    "polars categorical": lambda: of_polars(["x"] * N, pl_type("Categorical")),
    "polars enum": lambda: of_polars(["x"] * N, pl_type("Enum")(["x"])),
}


def pl_type(name):
    return getattr(pytest.importorskip("polars"), name)


@pytest.mark.parametrize("name", TEXT)
def test_columns_of_text_are_refused_free_of_charge(name):
    table, accountant = TEXT[name](), PrivacyAccountant()
    remedy = r"in column 'a'; convert text to numbers first.*DPTableVectorizer"
    for model in (DPPCA(1, accountant=accountant), DPStandardScaler()):
        with pytest.raises(ValueError, match=remedy):
            model.set_params(accountant=accountant).fit(table)
    with pytest.raises(ValueError, match=remedy):
        LRSRegressor(accountant=accountant).fit(table, X[:, 0], users=IDS)
    with pytest.raises(ValueError, match="y must contain numbers"):
        LRSRegressor(accountant=accountant).fit(X, table["a"], users=IDS)
    assert len(accountant.ledger) == 0
    # A table of objects may hold anything: its values decide, after the charge.
    objects = pd.DataFrame({"a": ["x"] * N, "b": X[:, 0]}, dtype=object)
    with pytest.raises(ValueError, match=r"convert text to numbers.*stays charged"):
        DPPCA(1, accountant=accountant).fit(objects)
    assert len(accountant.ledger) == 1


def test_arrays_of_text_are_refused_free_of_charge():
    for rows in (X.astype(str), X.astype(bytes)):
        with refused(r"X has dtype .*; convert text") as accountant:
            DPPCA(1, accountant=accountant).fit(rows)


def test_sparse_columns_filled_with_other_than_zero_are_refused_free_of_charge():
    for fill in (np.nan, 1.0):
        frame = pd.DataFrame(X).astype(pd.SparseDtype(float, fill))
        with refused("fill value is not 0") as accountant:
            DPPCA(1, accountant=accountant).fit(frame)
    DPPCA(1).fit(pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0)))


def test_names_of_one_kind_are_not_taken_for_such_types():
    """A type whose name begins like another one."""
    with pytest.raises(ValueError, match="X has dtype String in column 'a'"):
        DPPCA(1).fit(of_polars(["1.5"] * N, pl_type("String")))
    DPPCA(1).fit(table_of(pd.Categorical(X[:, 1])))
