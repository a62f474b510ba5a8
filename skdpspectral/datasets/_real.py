"""Digits with public bounds, and reading of NumPy archives."""

from __future__ import annotations

import zipfile
import zlib

import numpy as np
from sklearn import datasets as sklearn_datasets

DATA_HOME_VARIABLE = "SKDPSPECTRAL_DATA"

# What numpy raises on a file of another kind, a damaged one, or a missing array.
NOT_THE_ARCHIVE = (AttributeError, EOFError, KeyError, TypeError, ValueError)
NOT_THE_ARCHIVE += (zipfile.BadZipFile, zlib.error)


def read_archive(path, arrays):
    """Return the named arrays of a data set's archive."""
    try:
        # A pickle could run code: only plain arrays are read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {array: archive[array] for array in arrays}
    except NOT_THE_ARCHIVE as error:
        raise OSError(
            f"{path} is not the archive that the loader's docstring describes "
            f"({error}): build it again from the original data"
        ) from error


def expect(what, found, expected):
    """Refuse an archive that does not fit the public bounds."""
    if found != expected:
        raise OSError(
            f"The archive's {what}: found {found}, but the public bounds are for "
            f"{expected}: build it again from the original data"
        )


def pandas_or_error():
    """Return pandas; errors say how to install it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install pandas") from error
    return pd


def load_digits():
    """Load scikit-learn's digits with their public bounds, 0 to 16.

    The 1,797 images have 8 x 8 pixels. Each pixel counts the dark points in a 4 x 4
    block of a 32 x 32 bitmap, which gives the bounds. No file is needed.

    Returns
    -------
    sklearn.utils.Bunch
        As from `sklearn.datasets.load_digits`, with `bounds` = (0.0, 16.0).

    References
    ----------
    E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI
    Machine Learning Repository, doi:10.24432/C50P49.
    """
    bunch = sklearn_datasets.load_digits()
    bunch.bounds = (0.0, 16.0)
    return bunch
