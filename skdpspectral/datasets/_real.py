"""Real data sets, each with bounds that are public.

No data comes with the package. The loaders read NumPy archives from a folder that
the user names, by `data_home` or by the environment variable `SKDPSPECTRAL_DATA`;
each docstring says which file and which arrays. Every bound and every column is
fixed here, from the data's documentation: taken from the rows themselves, it would
be a release that nothing accounts for.
"""

from __future__ import annotations

import inspect
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.utils import Bunch

DATA_HOME_VARIABLE = "SKDPSPECTRAL_DATA"

# What numpy raises on a file of another kind, a damaged one, or a missing array.
_WRONG_KIND = (AttributeError, EOFError, KeyError, TypeError, ValueError)
NOT_THE_ARCHIVE = (*_WRONG_KIND, zipfile.BadZipFile, zlib.error)


def read_archive(name, arrays, data_home):
    """Return the named arrays of a data set's archive; errors explain its folder."""
    remedy = (
        f"pass data_home, or set the environment variable {DATA_HOME_VARIABLE}, to a "
        f"folder that holds {name}/{name}.npz (the loader's docstring lists its arrays)"
    )
    root = os.environ.get(DATA_HOME_VARIABLE) if data_home is None else data_home
    if not root:
        raise FileNotFoundError(f"No data folder was given: {remedy}")
    path = Path(root).expanduser() / name / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: {remedy}")
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


ADULT_CAPS = {
    "age": 100,  # years
    # Survey weight in hundredths of a person. The population over the sample size
    # of the 1994 survey makes about 170,000 on average; six times that is ample.
    "fnlwgt": 1_000_000,
    "education-num": 16,  # the number of levels of education in adult.names
    "capital-gain": 99_999,  # dollars; the census's top code
    # Dollars. US tax law lets a person deduct 3,000 a year; thrice that, rounded.
    "capital-loss": 10_000,
    "hours-per-week": 99,  # two digits in the questionnaire
}

ADULT_CATEGORIES = """workclass education marital-status occupation relationship race
sex native-country"""

# The numbers of values that adult.names lists.
ADULT_LEVELS = dict(
    zip(ADULT_CATEGORIES.split(), (8, 16, 7, 14, 6, 5, 2, 41), strict=True)
)


def load_adult(*, data_home=None, as_frame=False):
    """Load Adult: 48,842 people in the 1994 US census.

    As an array, six numeric columns are divided by fixed caps (age 100, fnlwgt
    1,000,000, education-num 16, capital-gain 99,999, capital-loss 10,000,
    hours-per-week 99) and clipped at 1, which changes fnlwgt in 18 rows. One column for
    each of the 99 values of eight categorical attributes follows. A missing category is
    a block of zeros. As a dataframe, the table has 14 columns as recorded, in years and
    dollars and with strings, and "?" for missing values.

    Terms: none in the data's documentation. UCI reportedly lists it under CC BY 4.0.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that contains `adult/adult.npz`, with arrays `numeric` (n, 6),
        `numeric_names`, `categorical` (n, 8) of codes with 255 for missing,
        `categorical_names`, `levels_<name>`, `income_gt_50k` and `is_test`. None uses
        the environment variable SKDPSPECTRAL_DATA.
    as_frame : bool, default=False
        Whether to return `data` as recorded, and `target`, as pandas objects.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (48842, 105) in [0, 1], in float64, with `bounds` = (0.0, 1.0), or a
        dataframe (48842, 14), with `categories`, the values of each attribute that
        `adult.names` lists. `target` (48842,) with 1 for an income above 50,000
        dollars, `feature_names`, `is_test` (48842,) with True for the 16,281 rows of
        the original test file, and `DESCR`.

    Raises
    ------
    OSError
        If the file does not exist (FileNotFoundError) or is not as described.
    ImportError
        If `as_frame` is set and pandas is not installed.

    References
    ----------
    B. Becker and R. Kohavi (1996), Adult, UCI Machine Learning Repository,
    doi:10.24432/C5XW20.
    R. Kohavi (1996), Scaling up the accuracy of naive-Bayes classifiers: a
    decision-tree hybrid, KDD.
    """
    columns = ["numeric", "numeric_names", "categorical", "categorical_names"]
    columns += [f"levels_{name}" for name in ADULT_LEVELS]
    raw = read_archive("adult", [*columns, "income_gt_50k", "is_test"], data_home)
    expect("numeric_names", raw["numeric_names"].tolist(), list(ADULT_CAPS))
    expect("categorical_names", raw["categorical_names"].tolist(), list(ADULT_LEVELS))
    levels = {name: raw[f"levels_{name}"].tolist() for name in ADULT_LEVELS}
    expect("numbers of levels", {n: len(v) for n, v in levels.items()}, ADULT_LEVELS)
    numbers = raw["numeric"].astype(np.float64)
    codes = dict(zip(levels, raw["categorical"].T, strict=True))
    bunch = Bunch(
        target=raw["income_gt_50k"],
        is_test=raw["is_test"].astype(bool),
        DESCR=inspect.cleandoc(load_adult.__doc__ or ""),
    )
    if as_frame:
        pd = pandas_or_error()
        bunch.data = pd.DataFrame(numbers, columns=list(ADULT_CAPS))
        for name, values in levels.items():
            texts = np.array([*values, "?"], dtype=object)
            bunch.data[name] = texts[np.minimum(codes[name], len(values))]
        bunch.target = pd.Series(bunch.target, name="income_gt_50k")
        bunch.update(categories=levels, feature_names=list(bunch.data))
        return bunch
    blocks = [np.clip(numbers / np.array(list(ADULT_CAPS.values())), 0.0, 1.0)]
    names = list(ADULT_CAPS)
    for name, values in levels.items():
        # A code outside of the levels is a row of zeros.
        blocks.append(np.equal.outer(codes[name], np.arange(len(values))))
        names += [f"{name}={level}" for level in values]
    bunch.update(data=np.hstack(blocks), feature_names=names, bounds=(0.0, 1.0))
    return bunch


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
