"""Faults of public form: tables and targets that few estimators accept.

Their shapes, names and dtypes tell of the fault, so that no fit may be charged for it.
"""

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

# Before pandas 3 this is one of objects, and only their values tell of text.
TEXT = "string" if pd.Series(["a"]).dtype == object else "str"


def faulty_rows(X):
    """Yield tables by the name of their fault."""
    n_rows, n_columns = X.shape
    names = [f"x{j}" for j in range(n_columns)]
    frame = pd.DataFrame(X, columns=names)
    last = names[-1]
    days = pd.date_range("2024-01-01", periods=n_rows)
    yield "text column", frame.assign(**{last: pd.Series(["a"] * n_rows, dtype=TEXT)})
    yield (
        "string column",
        frame.assign(**{last: pd.Series(["a"] * n_rows, dtype="string")}),
    )
    yield "date column", frame.assign(**{last: days})
    yield "timedelta column", frame.assign(**{last: days - days[0]})
    yield "period column", frame.assign(**{last: days.to_period("D")})
    yield "interval column", frame.assign(**{last: pd.cut(X[:, -1], 3)})
    yield "complex column", frame.assign(**{last: X[:, -1] + 1j})
    yield "two columns of one name", frame.set_axis([*names[:-1], names[0]], axis=1)
    yield "mixed names", frame.set_axis([*names[:-1], 3], axis=1)
    yield "polars text", pl.from_pandas(frame).with_columns(pl.lit("a").alias(last))
    yield (
        "polars date",
        pl.from_pandas(frame).with_columns(pl.Series(last, days.to_numpy())),
    )
    yield "sparse", sparse.csr_array(X)
    yield "sparse coordinates", sparse.coo_matrix(X)
    yield "complex", X + 1j
    yield "texts", X.astype(str)
    yield "bytes", X.astype(bytes)
    yield "dates", np.full(X.shape, np.datetime64("2024-01-01"))
    yield "matrix", X.view(np.matrix)
    yield "three dimensions", X[:, :, None]
    yield "one dimension", X[:, 0]
    yield "no rows", X[:0]
    yield "no columns", X[:, :0]
    yield "masked", np.ma.masked_less(X, 0.0)
    yield "without a mask", np.ma.masked_array(X)
    yield "rows with masks", list(np.ma.masked_less(X, 0.0))
    yield (
        "polars objects",
        pl.from_pandas(frame).with_columns(
            pl.Series(last, [object()] * n_rows, dtype=pl.Object)
        ),
    )
    yield "structured", np.zeros(X.shape, dtype=[("a", float)])


def faulty_targets(y):
    """Yield targets by the name of their fault."""
    n_rows = len(y)
    days = pd.date_range("2024-01-01", periods=n_rows)
    yield "missing", None
    yield "texts", np.where(y > np.median(y), "b", "a")
    yield "text series", pd.Series(np.where(y > 0, "b", "a"), dtype=TEXT)
    yield "string series", pd.Series(np.where(y > 0, "b", "a"), dtype="string")
    yield "polars texts", pl.Series(np.where(y > 0, "b", "a").tolist())
    yield "bytes", y.astype(bytes)
    yield "dates", days.to_numpy()
    yield "date series", pd.Series(days)
    yield "timedeltas", (days - days[0]).to_numpy()
    yield "complex", y + 1j
    yield "complex series", pd.Series(y + 1j)
    yield "sparse", sparse.csr_array(y[:, None])
    yield "too few", y[:-1]
    yield "too many", np.append(y, y[0])
    yield "three dimensions", y[:, None, None]
    yield "one number", 1.0
    yield "masked", np.ma.masked_less(y, np.median(y))
    yield "without a mask", np.ma.masked_array(y)
    yield "polars null", pl.Series([None] * n_rows)
    yield "polars objects", pl.Series([object()] * n_rows, dtype=pl.Object)
    yield "period series", pd.Series(days.to_period("D"))
    yield "interval series", pd.Series(pd.cut(y, 3))
