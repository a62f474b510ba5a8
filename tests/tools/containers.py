"""Containers of the same rows, each made of an array and a folder."""

import numpy as np
import pandas as pd
import polars as pl
from sliced_rows import SlicedTable


def memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def every_other(X):
    wide = np.zeros((2 * X.shape[0], 2 * X.shape[1]))
    wide[::2, ::2] = X
    return wide[::2, ::2]


def read_only(X):
    X.flags.writeable = False
    return X


def names_of(X):
    return list("abcdefgh"[: X.shape[1]])


def table(X, kind="float64"):
    return pd.DataFrame(X, columns=names_of(X)).astype(kind)


def contents(X):
    """Return what is equal as long as nothing of the rows is changed."""
    array = np.asarray(X)
    values = array.tolist() if array.dtype == object else array.tobytes()
    return array.dtype.str, array.shape, values


CONTAINERS = {
    "list": lambda X, _: X.tolist(),
    "read-only": lambda X, _: read_only(X),
    "Fortran order": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: every_other(X),
    "reversed": lambda X, _: np.ascontiguousarray(X[::-1])[::-1],
    "memory map": memory_map,
    "memory map, float32": lambda X, folder: memory_map(X.astype("f4"), folder),
    "big-endian": lambda X, _: X.astype(">f8"),
    "big-endian integers": lambda X, _: X.astype(">i4"),
    "int8": lambda X, _: X.astype("i1"),
    "int64": lambda X, _: X.astype("i8"),
    "float16": lambda X, _: X.astype("f2"),
    "float32": lambda X, _: X.astype("f4"),
    "long double": lambda X, _: X.astype(np.longdouble),
    "objects": lambda X, _: X.astype(object),
    "pandas": lambda X, _: table(X),
    "pandas, other index": lambda X, _: pd.DataFrame(X, index=np.arange(len(X)) + 5),
    "pandas Int64": lambda X, _: table(X, "Int64"),
    "pandas Float32": lambda X, _: table(X, "Float32"),
    "pandas of several kinds": lambda X, _: table(X).astype({"c": "i8", "d": "Int8"}),
    "pandas category": lambda X, _: table(X).astype({"c": "category"}),
    "polars": lambda X, _: pl.DataFrame(X, schema=names_of(X)),
    "polars Int16": lambda X, _: pl.DataFrame(X, schema=names_of(X)).cast(pl.Int16),
}


def _arrow(X):
    import pyarrow

    return pyarrow.Table.from_pandas(table(X), preserve_index=False)


def _parquet_file(X, folder):
    from pyarrow import dataset, parquet

    parquet.write_table(_arrow(X), folder / "X.parquet", row_group_size=701)
    return dataset.dataset(folder / "X.parquet")


def _parquet_files(X, folder):
    from pyarrow import dataset, parquet

    (folder / "files").mkdir()
    for k, start in enumerate(range(0, len(X), 1500)):
        part = _arrow(X).slice(start, 1500)
        parquet.write_table(part, folder / "files" / f"{k}.parquet", row_group_size=400)
    return dataset.dataset(folder / "files")


def _dask_array(X, _):
    from dask import array

    return array.from_array(X, chunks=(700, 3))


def _dask_frame(X, _):
    from dask import dataframe

    return dataframe.from_pandas(table(X), npartitions=3)


# Those that are read, or reduced, part by part.
DISTANT = {
    "slices": lambda X, _: SlicedTable(X),
    "parquet file": _parquet_file,
    "parquet files": _parquet_files,
    "dask array": _dask_array,
    "dask frame": _dask_frame,
}
