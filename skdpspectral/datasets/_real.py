"""Digits with public bounds, and MovieLens."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.datasets import fetch_file, get_data_home
from sklearn.utils import Bunch

DATA_HOME_VARIABLE = "SKDPSPECTRAL_DATA"

# What numpy raises on a file of another kind, a damaged one, or a missing array.
_WRONG = (AttributeError, EOFError, KeyError, TypeError, ValueError)
NOT_THE_ARCHIVE = (*_WRONG, zipfile.BadZipFile, zlib.error)


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


def ratings_bunch(maker, *, user_id, item_id, rating, **public):
    """Return the Bunch of a ratings table; the docstring of `maker` becomes `DESCR`."""
    return Bunch(
        data=np.column_stack([user_id, item_id]).astype(np.int64),
        target=np.asarray(rating).astype(np.int64),
        frame=None,
        feature_names=["user_id", "item_id"],
        target_names=["rating"],
        rating_range=(1, 5),
        DESCR=inspect.cleandoc(maker.__doc__ or ""),
        **public,
    )


def ratings_to_pandas(bunch):
    """Turn the tables of a Bunch into pandas objects, those of columns included."""
    pd = pandas_or_error()
    bunch.frame = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    bunch.frame["rating"] = bunch.target
    bunch.data = bunch.frame[bunch.feature_names]
    bunch.target = bunch.frame["rating"]
    bunch.item_features = pd.DataFrame(
        bunch.item_features,
        columns=bunch.item_feature_names,
        index=pd.Index(bunch.item_ids, name="item_id"),
    )
    for table in ("users", "movies"):
        if table in bunch:
            bunch[table] = pd.DataFrame(dict(bunch[table]))
    return bunch


URL = "https://files.grouplens.org/datasets/movielens/{variant}.zip"

# SHA-256 of the zips. GroupLens publishes their MD5 beside them: of ml-100k.zip
# 0e33842e24a9c977be4e0107933c0723, of ml-1m.zip c4d9eecfca2ab87c1945afe126590906.
CHECKSUMS = {
    "ml-100k": "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    "ml-1m": "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
}

# The genres that the README files list, in the order of their columns.
_NAMES = """Action Adventure Animation Children's Comedy Crime Documentary Drama
Fantasy Film-Noir Horror Musical Mystery Romance Sci-Fi Thriller War Western"""

GENRES_1M = _NAMES.split()
GENRES = {"ml-100k": ["unknown", *GENRES_1M], "ml-1m": GENRES_1M}

# A century maps to [0, 1]: fixed beforehand, not taken from the titles.
FIRST_YEAR, YEARS = 1900, 100
UNKNOWN_YEAR = 0  # no title has it


def fetch_movielens(
    variant="ml-100k",
    *,
    data_home=None,
    download_if_missing=False,
    as_frame=False,
):
    """Load MovieLens: ratings of movies, 1 to 5, by users of a web site.

    =======  =========  =====  ======  ============
    variant    ratings  users  movies  movies rated
    =======  =========  =====  ======  ============
    ml-100k    100,000    943   1,682         1,682
    ml-1m    1,000,209  6,040   3,883         3,706
    =======  =========  =====  ======  ============

    Each user has at least 20 ratings, and rates a movie at most once. ml-100k was
    collected from September 1997 to April 1998. The users of ml-1m joined in 2000.

    **Public** are the rating scale 1 to 5 and the catalog of movies with titles, years
    and genres, which reveal nobody's data. **Private** are the identity and number of
    users, their age, gender and occupation, and who rated which movie, when and how.
    Everything computed from private values is private too, such as the most rated
    movies or the mean rating. Note that the catalog of ml-100k only contains rated
    movies, so it was taken from the ratings. The catalog of ml-1m has 177 movies
    without a rating.

    Terms: for research; no redistribution and no commercial use without permission of
    GroupLens. The README in the zip contains the full terms. Nothing is downloaded
    unless `download_if_missing` is set.

    Parameters
    ----------
    variant : {"ml-100k", "ml-1m"}, default="ml-100k"
        Data set to load.
    data_home : str or path-like, default=None
        Folder with the official zip as `<variant>.zip`, or with a prepared archive
        `<variant>/<variant>.npz`, which takes precedence. The Notes list its arrays.
        None uses the folder in the environment variable SKDPSPECTRAL_DATA, and then the
        folder of `sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=False
        Whether to download the zip from files.grouplens.org, about 5 or 6 MB, into
        `data_home` (None: scikit-learn's folder) if no file exists.
    as_frame : bool, default=False
        Whether to return tables as pandas objects.

    Returns
    -------
    sklearn.utils.Bunch
        - `data` (n_ratings, 2) has columns user_id and item_id, and `target`
          (n_ratings,) has the ratings. Both are int64, in the order of the original
          file. With `as_frame`, `frame` has both in one table, otherwise it is None.
          `feature_names` and `target_names` are their names.
        - Public: `rating_range` = (1, 5); `item_ids` (n_items,), the catalog;
          `item_features` (n_items, 19 or 20) in that order, in [0, 1], indexed by item
          with `as_frame`; `item_feature_names`; `movies`, with columns item_id, title
          and year (0 if unknown). The features are 0 or 1 for each genre (18 in ml-1m,
          and also "unknown" in ml-100k), and (year - 1900)/100 for the year in the
          title, or 0.5 if it is unknown (one movie of ml-100k).
        - Private: `users`, with columns user_id, gender, age and occupation (ml-1m has
          codes for ages and occupations, listed in its README).
        - `DESCR`.

        `movies` and `users` are tables with `as_frame`, and a Bunch of columns
        otherwise. ZIP codes are excluded.

    Raises
    ------
    ValueError
        If the variant is unknown.
    OSError
        If no file exists and `download_if_missing` is not set (FileNotFoundError), the
        download fails, or the file is not the one published by GroupLens, by its
        SHA-256 checksum.
    ImportError
        If `as_frame` is set and pandas is not installed.

    See Also
    --------
    make_ratings : Simulated ratings in the same format.
    skdpspectral.model_selection.PrivateSplit : Folds with rows of every user.

    Notes
    -----
    A prepared archive contains the arrays `user_id`, `item_id` (ml-1m: `movie_id`),
    `rating`, `users_id`, `users_gender`, `users_age`, `users_occupation`, `items_id`,
    `items_title`, `items_genre` (ml-1m: `movies_id` and so on), 0 or 1 in columns
    `genre_names`, and for ml-100k `occupation_names`, which `users_occupation` indexes.

    References
    ----------
    F. M. Harper and J. A. Konstan (2015), The MovieLens datasets: history and
    context, ACM Transactions on Interactive Intelligent Systems 5(4), 19,
    doi:10.1145/2827872. GroupLens asks every publication to cite it.
    """
    if variant not in list(CHECKSUMS):
        raise ValueError(f"variant must be one of {list(CHECKSUMS)}, got {variant!r}")
    path = _find(variant, data_home)
    if path is None and download_if_missing:
        home = get_data_home(None if data_home is None else os.fspath(data_home))
        url = URL.format(variant=variant)
        path = fetch_file(url, home, f"{variant}.zip", CHECKSUMS[variant])
    if path is None:
        raise FileNotFoundError(
            f"There is neither {variant}.zip nor a prepared {variant}/{variant}.npz: "
            f"set download_if_missing=True to fetch {URL.format(variant=variant)}, or "
            "name the folder that holds it with data_home or the environment variable "
            f"{DATA_HOME_VARIABLE}"
        )
    if path.suffix == ".npz":
        tables = _prepared(variant, path)
    else:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != CHECKSUMS[variant]:
            raise OSError(
                f"{path} is not the zip that GroupLens published: its SHA-256 is "
                f"{found}, but should be {CHECKSUMS[variant]}; remove the file and "
                "fetch it again"
            )
        with zipfile.ZipFile(path) as archive:
            tables = _parsed(variant, archive)
    bunch = _bunch(variant, **tables)
    return ratings_to_pandas(bunch) if as_frame else bunch


def _bunch(variant, *, users, items, titles, genres, **ratings):
    """Return the Bunch of the tables of either source."""
    titles, items = np.array(titles, dtype=object), np.asarray(items, dtype=np.int64)
    years = np.array([_year(title) for title in titles], dtype=np.int64)
    scaled = np.clip((years - FIRST_YEAR) / YEARS, 0.0, 1.0)
    scaled[years == UNKNOWN_YEAR] = 0.5
    bunch = ratings_bunch(
        fetch_movielens,
        **ratings,
        item_ids=items,
        item_features=np.column_stack([genres, scaled]).astype(np.float64),
        item_feature_names=[*GENRES[variant], "year"],
    )
    bunch.movies = Bunch(item_id=items, title=titles, year=years)
    kinds = {"user_id": np.int64, "gender": object, "age": np.int64}
    kinds["occupation"] = object if variant == "ml-100k" else np.int64
    columns = zip(kinds.items(), users, strict=True)
    bunch.users = Bunch(**{n: np.array(v, dtype=kind) for (n, kind), v in columns})
    return bunch


def _year(title):
    """Year of the title's last "(1995)"; a few have a remark behind it."""
    years = re.findall(r"\((\d{4})\)", title)
    return int(years[-1]) if years else UNKNOWN_YEAR


def _find(variant, data_home):
    """Return the file to read, or None."""
    if data_home is None:
        folders = [os.environ.get(DATA_HOME_VARIABLE), get_data_home()]
    else:
        folders = [data_home]
    for folder in filter(None, folders):
        for name in (f"{variant}/{variant}.npz", f"{variant}.zip"):
            if (path := Path(folder).expanduser() / name).is_file():
                return path
    return None


def _parsed(variant, archive):
    """Return the tables of the files of a zip."""

    def columns(name, separator):
        # The titles have accents, and both README files precede UTF-8.
        text = archive.read(f"{variant}/{name}").decode("latin-1")
        # Not splitlines: a letter of latin-1 may be a line break elsewhere.
        lines = (line.split(separator) for line in text.split("\n") if line)
        return list(zip(*lines, strict=True))

    if variant == "ml-100k":
        ratings = columns("u.data", "\t")
        user_id, age, gender, occupation, _ = columns("u.user", "|")
        items, titles, _, _, _, *genres = columns("u.item", "|")
        genres = np.array(genres, dtype=np.int64).T
    else:
        ratings = columns("ratings.dat", "::")
        user_id, gender, age, occupation, _ = columns("users.dat", "::")
        items, titles, named = columns("movies.dat", "::")
        genres = np.zeros((len(items), len(GENRES_1M)), dtype=np.int64)
        for row, names in enumerate(named):
            genres[row, [GENRES_1M.index(name) for name in names.split("|")]] = 1
    names = ("user_id", "item_id", "rating")
    return {
        **dict(zip(names, ratings, strict=False)),
        "users": (user_id, gender, age, occupation),
        "items": items,
        "titles": titles,
        "genres": genres,
    }


def _prepared(variant, path):
    """Return the tables of a prepared archive."""
    older = variant == "ml-100k"
    item = "item" if older else "movie"
    names = ["user_id", f"{item}_id", "rating", "genre_names"]
    names += [f"users_{column}" for column in ("id", "gender", "age", "occupation")]
    names += [f"{item}s_{column}" for column in ("id", "title", "genre")]
    names += ["occupation_names"] if older else []
    raw = read_archive(path, names)
    expect("genre_names", raw["genre_names"].tolist(), GENRES[variant])
    if older:
        codes = raw["users_occupation"].astype(np.int64)
        raw["users_occupation"] = raw["occupation_names"].astype(object)[codes]
    return {
        "user_id": raw["user_id"],
        "item_id": raw[f"{item}_id"],
        "rating": raw["rating"],
        "users": [raw[f"users_{c}"] for c in ("id", "gender", "age", "occupation")],
        "items": raw[f"{item}s_id"],
        "titles": raw[f"{item}s_title"].tolist(),
        "genres": raw[f"{item}s_genre"],
    }
