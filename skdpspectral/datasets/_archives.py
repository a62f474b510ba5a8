"""Archives of data sets: where they lie, what they hold, and what is made of them."""

import inspect
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

DATA_HOME_VARIABLE = "SKDPSPECTRAL_DATA"
# What numpy raises on a file of another kind, a damaged one, or a missing array.
_WRONG_KIND = (AttributeError, EOFError, KeyError, TypeError, ValueError)
NOT_THE_ARCHIVE = (*_WRONG_KIND, zipfile.BadZipFile, zlib.error)


def locate_archive(name, data_home):
    """Return the path of a data set's archive, or say how to name its folder."""
    remedy = (
        f"pass data_home, or set the environment variable {DATA_HOME_VARIABLE}, to a "
        f"folder that holds {name}/{name}.npz (the loader's docstring lists its arrays)"
    )
    root = os.environ.get(DATA_HOME_VARIABLE) if data_home is None else data_home
    if not root:
        raise FileNotFoundError(f"No data folder is named: {remedy}")
    path = Path(root).expanduser() / name / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: {remedy}")
    return path


def read_archive(name, arrays, data_home):
    """Return the named arrays of a data set's archive."""
    path = locate_archive(name, data_home)
    try:
        # A pickle could run code: only plain arrays are read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {array: archive[array] for array in arrays}
    except NOT_THE_ARCHIVE as error:
        raise OSError(
            f"{path} is not the archive that the loader's docstring describes "
            f"({error}): build it again from the original data"
        ) from error


def expect(what, found, expected):
    """Refuse an archive that is not what the public bounds are for."""
    if found != expected:
        raise OSError(
            f"The archive's {what}: found {found}, but the public bounds are for "
            f"{expected}: build it again from the original data"
        )


def as_bunch(loader, data, names, bounds):
    """Return what every loader of rows returns."""
    return Bunch(
        data=data,
        target=None,
        feature_names=[str(name) for name in names],
        bounds=bounds,
        DESCR=inspect.cleandoc(loader.__doc__ or ""),
    )


def to_pandas(bunch, target_name=None):
    """Make data and target of a bunch pandas objects."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install pandas") from error
    bunch.data = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    if target_name is not None:
        bunch.target = pd.Series(bunch.target, name=target_name)
    return bunch
